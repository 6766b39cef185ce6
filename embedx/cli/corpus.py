"""The commands of `embedx corpus`."""

import json
import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.options import CacheDir, Json, Quiet, path_for
from embedx.training.progress import Reporter


def list_recipes(as_json: Json = False) -> None:
    """List the corpora known by name: name, kind, whether its files are here or can be fetched, what it is."""
    from embedx.text.recipes import listed

    found = listed()
    if as_json:
        print(json.dumps(found))
    else:
        heading = ("name", "kind", "state", "about")
        tables.show(heading, [tuple(str(each[column]) for column in heading) for each in found])


def info(
    corpus: Annotated[str, typer.Argument(metavar="NAME|PATH", help="a recipe's name, or what `embedx train` takes")],
    as_json: Json = False,
) -> None:
    """Tell what is known of a corpus without reading it: where its files are, how they are read, where they come from."""
    from embedx.text.sources import described

    found = described(corpus)
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name}\t{_spoken(value)}")


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="a recipe's name; wikipedia-de-20240101 has values for its own")],
    to: Annotated[
        Path | None,
        typer.Option(
            "--to",
            parser=path_for("--to"),
            help="folder for the file; by default $XDG_DATA_HOME/embedx/corpora, ~/.local/share/embedx/corpora",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a corpus, or the rest of one, check it, and print where it is; `embedx train NAME` finds it."""
    from embedx.text.fetch import fetch_named

    print(fetch_named(name, to, Reporter(sys.stderr, is_quiet=quiet)))


def check(
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="what `embedx train` takes")],
    objective: Annotated[
        str, typer.Option("--objective", help="the output layer that is to be trained", rich_help_panel="Objective")
    ] = "ns",
    output: Annotated[
        Path | None,
        typer.Option(
            "--output", "-o", parser=path_for("--output"), help="where the model is to be written", rich_help_panel="Output"
        ),
    ] = None,
    cache_dir: CacheDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Read a corpus once before hours of work: damage, lines, scripts, vocabulary, and what `embedx train` would take here."""
    from embedx.cli import commands

    found = commands.check_corpus(corpora, objective, typed or {}, output, cache_dir, Reporter(sys.stderr, is_quiet=quiet))
    print(json.dumps(found.as_dict()) if as_json else found.table())


def _spoken(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_spoken, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={_spoken(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

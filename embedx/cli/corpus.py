"""The commands of `embedx corpus`."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.models import Corpora
from embedx.cli.options import CacheDir, Json, Objective, Output, Quiet, option
from embedx.training.progress import Reporter


def list_recipes(as_json: Json = False) -> None:
    """List the corpora known by name: name, kind, whether its files are here or can be fetched, what it is."""
    from embedx.text.recipes import listed

    found, heading = listed(), ("name", "kind", "state", "about")
    rows = [tuple(str(each[column]) for column in heading) for each in found]
    tables.show(heading, rows, found if as_json else None)


def info(
    corpus: Annotated[str, typer.Argument(metavar="NAME|PATH", help="name of a corpus, or what `embedx train` takes")],
    as_json: Json = False,
) -> None:
    """Show what is known of a corpus without reading it: its files, their format, where to fetch them."""
    from embedx.text.sources import described

    found = described(corpus)
    if as_json:
        print(json.dumps(found))
    else:
        for name, value in found.items():
            print(f"{name}\t{_text(value)}")


def fetch(
    name: Annotated[str, typer.Argument(metavar="NAME", help="name of a corpus, with values in it, as wikipedia-de-20240101")],
    to: Annotated[
        Path | None,
        option("folder for the file; by default $XDG_DATA_HOME/embedx/corpora or ~/.local/share/embedx/corpora"),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """Fetch a corpus, or the rest of one, check it, and print its path; `embedx train NAME` finds it."""
    from embedx.text.fetch import fetch_named

    print(fetch_named(name, to, Reporter(sys.stderr, is_quiet=quiet)))


def check(
    corpora: Corpora,
    objective: Objective = "ns",
    output: Output = None,
    cache_dir: CacheDir = None,
    as_json: Json = False,
    quiet: Quiet = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Read a corpus once before hours of work: damage, lines, scripts, vocabulary, and what `embedx train` would take here."""
    given = SimpleNamespace(**locals())
    from embedx.cli import commands

    commands.check_corpus(given)


def _text(value: Any) -> str:
    if isinstance(value, list):
        return " ".join(map(_text, value))
    if isinstance(value, dict):
        return ", ".join(f"{name}={_text(each)}" for name, each in value.items())
    return f"{value:,}" if isinstance(value, int) and not isinstance(value, bool) else str(value)

"""The commands about text: corpora known by name, their check, phrases, sessions, the cache."""

import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.cli import tables
from embedx.cli.streams import command_progress, results_to
from embedx.errors import Setting
from embedx.pages.plain import as_cell
from embedx.runtime.disk import amount
from embedx.tasks.requests import TrainRequest
from embedx.text.settings import SESSIONS


def phrases(
    corpora: list[str],
    top_k: Annotated[int | None, typer.Option(min=1)] = None,
    cache_dir: Path | None = None,
    quiet: bool = False,
    verbose: bool = False,
    as_json: bool = False,
    options: dict[str, Any] | None = None,
) -> None:
    """List the collocations of a text.

    The highest score first: words joined by _, count, score, number of the pass.

    corpora  as for `embedx train`
    top_k    number of results to list; by default all
    """
    from embedx.cli import corpus

    progress = command_progress(quiet, verbose)
    collocations = corpus.phrases(corpora, options or {}, cache_dir, progress)[:top_k]
    records = []
    rows = []
    for number, phrase in collocations:
        records.append(
            {
                "phrase": phrase.joined,
                "words": phrase.words,
                "count": phrase.times,
                "score": phrase.score,
                "pass": number,
            }
        )
        rows.append((phrase.joined, str(phrase.times), f"{phrase.score:.4f}", str(number)))
    tables.show(("phrase", "count", "score", "pass"), rows, records if as_json else None)


def list_recipes(as_json: bool = False) -> None:
    """List the corpora known by name, and their parts.

    For each: name, kind, whether its files are here or can be fetched, bytes to fetch, and a
    description. A * follows what nobody has checked: `embedx corpus info NAME` says what.
    """
    from embedx.text.recipes import recipe_states

    recipes = recipe_states()
    rows = [
        (recipe["name"], recipe["kind"], _state(recipe), _size(recipe), recipe["about"])
        for recipe in recipes
    ]
    heading = ("name", "kind", "state", "size", "about")
    tables.show(heading, rows, recipes if as_json else None)


def _state(recipe: dict[str, Any]) -> str:
    """Whether the files of a recipe are here, with a mark if nobody has checked what it says."""
    return f"{recipe['state']}*" if recipe["unverified"] else str(recipe["state"])


def _size(recipe: dict[str, Any]) -> str:
    """How much is to be fetched; "" where it is here, comes with its recipe, or nobody knows."""
    is_part = ":" in recipe["name"]
    if recipe["state"] != "fetch" or recipe["bytes"] is None or is_part:
        return ""
    return amount(recipe["bytes"])


def info(corpus: str, as_json: bool = False) -> None:
    """Show the files and formats of a corpus, without reading it.

    corpus  the name of a corpus, or what `embedx train` takes
    """
    from embedx.text.sources import described

    tables.show_facts(described(corpus), as_json)


def fetch(name: str, to: Path | None = None, quiet: bool = False, verbose: bool = False) -> None:
    """Fetch a corpus, or the rest of one, and print its paths.

    Sizes and checksums are checked, and `embedx train NAME` or `classify NAME` finds it.

    name  name of a corpus, with its values filled in, such as wikipedia-de-20240101
    to    folder for the files; by default $XDG_DATA_HOME/embedx/corpora or
          ~/.local/share/embedx/corpora
    """
    from embedx.text.fetch import fetch as fetch_recipe

    progress = command_progress(quiet, verbose)
    for path in fetch_recipe(name, to, progress):
        print(as_cell(str(path)))


def check(
    corpora: list[str],
    objective: str | None = None,
    output: Path | None = None,
    cache_dir: Path | None = None,
    as_json: bool = False,
    quiet: bool = False,
    verbose: bool = False,
    options: dict[str, Any] | None = None,
) -> None:
    """Check a corpus, before hours of training.

    Reads it once, and reports damage, lines, scripts, vocabulary, and the time and memory that
    `embedx train` would take here.

    corpora  as for `embedx train`
    """
    from embedx.cli import corpus

    corpus.check_corpus(
        TrainRequest(
            corpora=corpora,
            objective=objective,
            output=output,
            cache_dir=cache_dir,
            as_json=as_json,
            quiet=quiet,
            verbose=verbose,
            options=options or {},
        )
    )


def sessions(
    table: str,
    columns: str | None = None,
    gap: str | None = None,
    time_unit: str | None = None,
    output: Path | None = None,
    overwrite: bool = False,
    quiet: bool = False,
    verbose: bool = False,
) -> None:
    """Write a table of events as sessions, one per line, for `embedx train`.

    The items of a user or an order are sorted by time, and sessions by their beginning, so that the
    last lines are the latest. The words of an item are joined by _: Desk_Lamp_Basic.

    table      CSV, TSV, JSON Lines or Parquet file
    columns    names of the columns of user (or order), item and time, or their numbers, from 1, in
               a table without a heading; without a time, as order,item, rows are in their order;
               by default guessed, as a note says
    gap        a pause after which a new session of a user begins, such as 30m; by default none does
    time_unit  unit of times that are numbers: s, ms, us, ns or days; by default recognised
    output     file to write; by default standard output
    """
    from embedx.settings import seconds
    from embedx.text.sessions import sessions as read_sessions

    pause = None if gap is None else seconds(gap, "gap")
    progress = command_progress(quiet, verbose)
    with results_to(output, overwrite):
        for line in read_sessions(table, columns, pause, progress, time_unit):
            print(line)
    if output is not None:
        sessions_format = Setting("format", SESSIONS)
        progress.note(
            f"to train on them: embedx train {shlex.quote(str(output))} ", sessions_format
        )


def cache_list(cache_dir: Path | None = None, as_json: bool = False) -> None:
    """List encoded corpora: key, tokens, megabytes, sources."""
    from embedx.text.cache import list_caches

    corpora = list_caches(cache_dir)
    rows = []
    for corpus in corpora:
        size = f"{corpus['bytes'] / 1e6:.1f} MB"
        if corpus["damage"] is None:
            tokens = f"{corpus['tokens']:,} tokens"
            rows.append((corpus["key"], tokens, size, " ".join(corpus["sources"])))
        else:
            rows.append((corpus["key"], "damaged", size, corpus["damage"]))
    tables.show(("key", "tokens", "size", "sources"), rows, corpora if as_json else None)


def cache_clear(cache_dir: Path | None = None) -> None:
    """Delete all encoded corpora."""
    from embedx.text.cache import clear_caches

    freed = clear_caches(cache_dir, command_progress())
    print(f"freed {freed / 1e6:.1f} MB")

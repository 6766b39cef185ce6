"""The command line: each command makes settings, calls the library and prints the result.

Standard output has results only, standard error everything else. Exit codes: 0; 1 our bug; 2 the user's mistake; 3 diverged;
130 and 143 interrupted by Ctrl-C and SIGTERM.
"""

import contextlib
import dataclasses
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Annotated, Any

import typer

from embedx.cli import corpus, models, options, peers, tables
from embedx.cli.help import OtherPrograms, command_class, with_settings
from embedx.cli.options import (
    Analogies,
    CacheDir,
    CheckpointEvery,
    Json,
    LogJson,
    Objective,
    Output,
    Overwrite,
    Pairs,
    Quiet,
    Resume,
    Test,
    TestLabels,
    TrainLabels,
    Verbose,
    completed,
    objective_names,
    option,
)
from embedx.cli.streams import OutputClosedError, close_error_stream, open_streams
from embedx.errors import EmbedxError, near
from embedx.training.progress import Reporter

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not export the base class of its errors

_received: list[int] = []  # the signal that ended the run


def main() -> None:
    """The console script."""
    open_streams()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    if os.path.expanduser("~") == "~":  # a user without a home, where importing smart_open fails
        os.environ["HOME"] = "/nonexistent"
    code: Any = None
    try:
        code = application(sys.argv[1:])(prog_name="embedx", standalone_mode=False)
        sys.stdout.flush()
    except EmbedxError as error:
        _print_error(f"embedx: {error}")
        code = error.exit_code
    except UsageError as error:
        _print_error(_usage(error))
        code = 2
    except OutputClosedError:
        code = 128 + 13  # as SIGPIPE
    except (KeyboardInterrupt, typer.Abort):
        pass
    if _received:  # whatever typer made of it
        _print_error("embedx: interrupted")
        code = 128 + _received[0]
    close_error_stream()
    sys.exit(code)


def _usage(error: Any) -> str:
    """One line about wrong usage; the help where the command is missing."""
    message = error.format_message()
    if "\n" in message:
        return str(message)
    if hasattr(error, "possibilities"):  # an unknown option
        command = error.ctx.command
        known = [name for each in command.get_params(error.ctx) if not each.hidden for name in each.opts]
        fine = {f"--{name.replace('_', '-')}" for name, each in getattr(command, "settings", {}).items() if each.is_fine}
        remedy = near(error.option_name, [*known, *fine], "see --help")
        for flag in fine:
            remedy = remedy.replace(f"{flag}?", f"--set {flag[2:]}=VALUE?")
        return f"embedx: {error.message}; {remedy}"
    return f"embedx: {message.rstrip('.')}{' ' if message.endswith('?') else '; '}see --help"


def _print_error(line: str) -> None:
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _interrupt(signal_number: int, frame: object) -> None:
    """End the run, by SIGTERM as by Ctrl-C. Further signals are ignored, so that saving is not cut short."""
    _received.append(signal_number)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def application(arguments: Sequence[str]) -> typer.Typer:
    """All commands. Only the one that `arguments` name gets the options of settings, because these need an import of numba."""
    arguments = _words_to_complete() or arguments

    def group(text: str) -> typer.Typer:
        return typer.Typer(
            no_args_is_help=True,
            pretty_exceptions_enable=False,
            rich_markup_mode="rich" if sys.stdout.isatty() else None,
            context_settings={"help_option_names": ["--help", "-h"]},
            help=text,
        )

    app = group("Word embeddings and classifiers with huge label sets, in one engine whose output layer is a flag.")
    recipes = group("Corpora known by name: list and fetch them; check a text before training.")
    caches = group("Corpora encoded by earlier runs: list them, or delete them.")
    app.callback()(_version_option)

    def add(path: str, command: Callable[..., None], settings: Callable[[], options.Options] = dict) -> None:
        words = path.split()
        known = settings() if list(arguments[: len(words)]) == words else {}
        has_config = path in ("train", "classify", "compare")
        parent = {"corpus": recipes, "cache": caches}[words[0]] if len(words) > 1 else app
        run = with_settings(path, command, known, has_config)
        parent.command(words[-1], cls=command_class(known, has_config), epilog=_epilog(known))(run)

    add("train", train, options.train_options)
    add("classify", classify, options.classify_options)
    add("compare", compare, options.compare_options)
    app.command("word2vec", cls=OtherPrograms)(word2vec)
    app.command("supervised", cls=OtherPrograms)(supervised)
    add("resume", resume_run)
    add("predict", models.predict)
    add("eval", models.evaluate)
    add("report", models.report, options.report_options)
    add("phrases", models.phrases, options.phrase_options)
    add("nn", models.nearest)
    add("analogy", models.analogy)
    add("export", models.convert, options.export_options)
    add("convert", models.convert, options.export_options)
    add("objectives", list_objectives)
    add("corpus list", corpus.list_recipes)
    add("corpus info", corpus.info)
    add("corpus fetch", corpus.fetch)
    add("corpus check", corpus.check, options.train_options)
    add("cache list", cache_list)
    add("cache clear", cache_clear)
    app.add_typer(recipes, name="corpus")
    app.add_typer(caches, name="cache")
    return app


def _epilog(settings: options.Options) -> str | None:
    """The last lines of a help."""
    fine = {name.replace("_", "-"): each for name, each in settings.items() if each.is_fine}
    if not fine:
        return None
    more = ", and settings of objectives" if any(each.takers for each in fine.values()) else ""
    return (
        f"Settings given by --set: {', '.join(name for name, each in fine.items() if not each.takers)}{more}. The options of "
        "word2vec.c, gensim and fastText, such as --size, are accepted too."
    )


def _words_to_complete() -> list[str]:
    """The words after `embedx`, where a shell asks for completion; else nothing."""
    if "_EMBEDX_COMPLETE" not in os.environ:
        return []
    return (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()[1:]


def _print_version(wanted: bool) -> None:
    if wanted:
        from embedx.storage.folder import installed_version

        print(f"embedx {installed_version()}")
        raise typer.Exit


def _version_option(
    version: Annotated[bool, option("print the version", "--version", is_eager=True, callback=_print_version)] = False,
) -> None:
    pass


# ---- commands


def _run(command: str, given: dict[str, Any]) -> None:
    """Call the function of `embedx.cli.commands` that does the work."""
    from embedx.cli import commands

    getattr(commands, command)(SimpleNamespace(**given))


def train(
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...",
            help="files, globs, directories, URLs, names of `embedx corpus list`, @FILE that lists these, - for standard input",
        ),
    ],
    objective: Objective = None,
    collapsed: Annotated[
        bool,
        option(
            "count all pairs first, then take full gradient steps; --epochs are iterations", "--collapsed", panel="Objective"
        ),
    ] = False,
    output: Output = None,
    overwrite: Overwrite = False,
    cache_dir: CacheDir = None,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train word vectors on text."""
    _run("train", locals())


def classify(
    train: Annotated[
        str,
        typer.Argument(metavar="TRAIN", help="XC, LIBSVM, fastText, .npy, .npz or IDX file, DATA@SPLIT[:COLUMN], or digits"),
    ],
    train_labels: TrainLabels = None,
    test: Test = None,
    test_labels: TestLabels = None,
    label_names: Annotated[
        str | None, option("names of the labels from 0 on: one per line, or ID TAB ... TAB NAME", panel="Data")
    ] = None,
    objective: Objective = None,
    output: Output = None,
    overwrite: Overwrite = False,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train a classifier on labelled data."""
    _run("classify", locals())


def compare(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="text, named as for `embedx train`, but not -; with --test, labelled data, as for `embedx classify`",
        ),
    ],
    objectives: Annotated[str, option("the output layers, separated by commas: ns,hs,ar", panel="Objective")],
    train_labels: TrainLabels = None,
    test: Test = None,
    test_labels: TestLabels = None,
    pairs: Pairs = None,
    analogies: Analogies = None,
    output: Output = None,
    overwrite: Overwrite = False,
    cache_dir: CacheDir = None,
    resume: Annotated[bool, option("add the missing runs to the comparison in the folder", "--resume", panel="Output")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    typed: dict[str, Any] | None = None,
) -> None:
    """Train several objectives on the same data for the same time, rank them, and write a page about it."""
    _run("compare", locals())


def word2vec(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-train TEXT -output VECTORS ...", help=f"accepted: {', '.join(peers.WORD2VEC)}")
    ],
) -> None:
    """Train word vectors by the command line of word2vec.c.

    The vectors are written as by word2vec.c, and the model to VECTORS.embedx. Defaults are those of word2vec.c, except the
    threads, one for each usable core, and the optimiser, which is that of `embedx train`; with -alpha it is SGD. --overwrite
    overwrites the outputs.
    """
    asked = peers.word2vec(arguments)
    from embedx.cli import commands

    commands.check_vector_files(asked)
    train([asked.source], asked.objective, output=asked.folder, overwrite=asked.overwrite, typed=dict(asked.typed))
    for written in commands.write_vector_files(asked, Reporter(sys.stderr)):
        print(written)


def supervised(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-input TEXT -output MODEL ...", help=f"accepted: {', '.join(peers.SUPERVISED)}")
    ],
) -> None:
    """Train a classifier by the command line of `fasttext supervised`.

    MODEL is a folder, for `embedx predict` and `embedx eval`. Defaults are those of fastText, except the threads, one for each
    usable core, and the optimiser and its learning rate, which are those of `embedx classify`. The features of a text are
    scaled to unit length, as fastText takes the mean of its words. --overwrite overwrites MODEL.
    """
    asked = peers.supervised(arguments)
    classify(asked.source, objective=asked.objective, output=asked.output, overwrite=asked.overwrite, typed=dict(asked.typed))


def resume_run(
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="output folder of the run, or OUTPUT.checkpoint")],
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Resume an interrupted or killed run of `embedx train` or `embedx classify` from its last checkpoint."""
    from embedx.training import checkpoint

    command, arguments, directory = checkpoint.requested(checkpoint.output_of(output))
    os.chdir(directory)
    paths = {name: Path(arguments[name]) for name in ("output", "cache_dir", "log_json") if arguments.get(name)}
    run: Callable[..., None] = train if command == "train" else classify
    run(**arguments | paths | {"quiet": quiet, "verbose": verbose}, resume=True)


def list_objectives(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="only this one, with its settings", autocompletion=completed(objective_names)),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the objectives: loss, paper, when to choose it, candidates per example (m negatives, K classes), scores."""
    from embedx import objectives

    rows: list[dict[str, Any]] = [dict(zip(objectives.TABLE_HEAD, row, strict=True)) for row in objectives.table()]
    if name is not None:
        rows = [row | {"options": options.settings_listed(name)} for row in rows if row["objective"] == name]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['objective']:16} {row['loss']}")
        for line in (row["paper"], row["when"]):
            print(f"{'':16} {line}")
        for names in (("rows", "samplers", "needs"), objectives.MEASURED):
            print(f"{'':16} " + "; ".join(f"{each}: {row[each]}" for each in names))
        for setting, meaning in row.get("options", {}).items():
            print(f"{'':16} {setting}: {meaning}")
    print(objectives.measured_how())


def cache_list(cache_dir: CacheDir = None, as_json: Json = False) -> None:
    """List encoded corpora: key, tokens, megabytes, sources."""
    from embedx.text.cache import list_caches

    corpora = list_caches(cache_dir)
    values = [dataclasses.asdict(each) for each in corpora]
    rows = []
    for each in corpora:
        tokens, about = (f"{each.tokens:,} tokens", " ".join(each.sources)) if each.damage is None else ("damaged", each.damage)
        rows.append((each.key, tokens, f"{each.bytes / 1e6:.1f} MB", about))
    tables.show(("key", "tokens", "size", "sources"), rows, values if as_json else None)


def cache_clear(cache_dir: CacheDir = None) -> None:
    """Delete all encoded corpora."""
    from embedx.text.cache import clear_caches

    print(f"freed {clear_caches(cache_dir) / 1e6:.1f} MB")

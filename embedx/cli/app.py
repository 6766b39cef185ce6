"""The command line: each command builds settings, calls one function of the library and prints what came back.

Results go to standard output, everything else to standard error. Exit codes: 0; 1 our bug; 2 the user's mistake; 3 diverged;
130 and 143 interrupted by Ctrl-C and SIGTERM.
"""

import contextlib
import dataclasses
import inspect
import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.cli import config, corpus, peers, tables
from embedx.cli.aliases import value_of
from embedx.cli.declared import (
    Option,
    classify_settings,
    compare_settings,
    export_settings,
    own_options,
    phrase_settings,
    report_settings,
    train_settings,
    with_settings,
)
from embedx.cli.help import Command, OtherPrograms, command_class, names_completed, objective_names
from embedx.cli.models import analogy, convert, evaluate, export, nearest, phrases, predict, report
from embedx.cli.options import CacheDir, CheckpointEvery, Json, LogJson, Overwrite, Quiet, Resume, TestLabels, Verbose, path_for
from embedx.cli.streams import NobodyReadsError, close_error_stream, open_streams
from embedx.errors import EmbedxError, near
from embedx.training.progress import Reporter

UsageError: Any = typer.BadParameter.__mro__[1]  # typer does not name the base of its complaints about what was typed


_received: list[int] = []  # the signal that ended the run


def main() -> None:
    """The console script."""
    open_streams()
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, _interrupt)
    if os.path.expanduser("~") == "~":  # a user who has no home; importing smart_open fails where it cannot know one
        os.environ["HOME"] = "/nonexistent"
    code: Any = None
    try:
        code = application(sys.argv[1:])(prog_name="embedx", standalone_mode=False)
        sys.stdout.flush()
    except EmbedxError as error:
        _tell(f"embedx: {error}")
        code = error.exit_code
    except UsageError as error:
        _tell(_complaint(error))
        code = 2
    except NobodyReadsError:
        code = 128 + 13  # as if SIGPIPE had ended it
    except (KeyboardInterrupt, typer.Abort):
        pass
    if _received:  # whatever typer made of it
        _tell("embedx: interrupted")
        code = 128 + _received[0]
    close_error_stream()
    sys.exit(code)


def _complaint(error: Any) -> str:
    """What is told of a command line that was not understood: a line, or a whole page of help where the command is missing."""
    message = error.format_message()
    if "\n" in message:
        return str(message)
    if hasattr(error, "possibilities"):  # typer counts hidden options among them
        shown = [name for each in error.ctx.command.get_params(error.ctx) if not each.hidden for name in each.opts]
        return f"embedx: {error.message}; {near(error.option_name, shown, '--help tells more')}"
    return f"embedx: {message.rstrip('.')}{' ' if message.endswith('?') else '; '}--help tells more"


def _tell(line: str) -> None:
    """A line on standard error, if anybody can hear it."""
    with contextlib.suppress(OSError):
        print(line, file=sys.stderr, flush=True)


def _interrupt(signal_number: int, frame: object) -> None:
    """End the run, by SIGTERM as by Ctrl-C. Further signals change nothing: impatience cannot lose what is being saved."""
    _received.append(signal_number)
    for each in (signal.SIGINT, signal.SIGTERM):
        signal.signal(each, signal.SIG_IGN)
    raise KeyboardInterrupt


def application(arguments: Sequence[str]) -> typer.Typer:
    """All commands. Only the one that `arguments` name gets options that take an import of numba to find."""
    arguments = completed_words() or arguments
    app = typer.Typer(
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["--help", "-h"]},
        help="Word embeddings and classifiers with huge label sets, in one engine whose output layer is a flag.",
    )
    app.callback()(version_option)
    named = arguments[0] if arguments else ""

    def add(
        name: str,
        command: Callable[..., None],
        settings: Callable[[], dict[str, Option]] | None = None,
        usual: str | None = None,
        has_config: bool = False,
    ) -> None:
        if settings is not None and name == named:
            _add(app, name, command, settings(), arguments, usual, has_config=has_config)
        else:
            app.command(name, cls=Command)(command)

    add("train", train, train_settings, "ns", has_config=True)
    add("classify", classify, classify_settings, has_config=True)
    add("compare", compare, compare_settings, has_config=True)
    app.command("word2vec", cls=OtherPrograms)(word2vec)
    app.command("supervised", cls=OtherPrograms)(supervised)
    add("resume", resume_run)
    add("predict", predict)
    add("eval", evaluate)
    add("report", report, report_settings)
    add("phrases", phrases, phrase_settings)
    add("nn", nearest)
    add("analogy", analogy)
    add("export", export, export_settings)
    add("convert", convert, export_settings)
    add("objectives", list_objectives)
    known = typer.Typer(
        help="Corpora known by name: list and fetch them; what a text is like before training.", no_args_is_help=True
    )
    known.command("list", cls=Command)(corpus.list_recipes)
    known.command("info", cls=Command)(corpus.info)
    known.command("fetch", cls=Command)(corpus.fetch)
    if list(arguments[:2]) == ["corpus", "check"]:
        _add(known, "check", corpus.check, train_settings(), arguments, "ns")
    else:
        known.command("check", cls=Command)(corpus.check)
    app.add_typer(known, name="corpus")
    stored = typer.Typer(help="Corpora encoded by earlier runs: list them, or clear them all.", no_args_is_help=True)
    stored.command("list", cls=Command)(cache_list)
    stored.command("clear", cls=Command)(cache_clear)
    app.add_typer(stored, name="cache")
    return app


def _add(
    app: typer.Typer,
    name: str,
    command: Callable[..., None],
    options: dict[str, "Option"],
    arguments: Sequence[str],
    usual: str | None = None,  # objective
    *,
    has_config: bool = False,
) -> None:
    """Add the command that was named, with its settings as options; its help is about the objective that `arguments` name."""
    shows_all = "--help-all" in arguments
    chosen = None if shows_all else value_of(arguments, "--objective") or usual
    run = with_settings(command, options, chosen, has_config=has_config)
    parameters = inspect.signature(run).parameters.values()
    keys = config.keys_of(parameters, {n: option.field for n, option in options.items()}) if has_config else {}
    of_objectives = {n: tuple(option.objectives) for n, option in options.items() if option.objectives}
    app.command(name, cls=command_class(keys, of_objectives, chosen, shows_all))(run)


def completed_words() -> list[str]:
    """What was typed so far after `embedx`, where a shell asks how to go on; else nothing."""
    if "_EMBEDX_COMPLETE" not in os.environ:
        return []
    return (os.environ.get("_TYPER_COMPLETE_ARGS") or os.environ.get("COMP_WORDS", "")).split()[1:]


def print_version(wanted: bool) -> None:
    if wanted:
        from embedx.storage.folder import installed_version

        print(f"embedx {installed_version()}")
        raise typer.Exit


def version_option(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and stop", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    pass


# ---- commands


def train(
    corpora: Annotated[
        list[str],
        typer.Argument(
            metavar="CORPUS...",
            help="files, globs, directories, URLs, a recipe's name, @FILE that lists such, - for standard input",
        ),
    ],
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="the output layer; by default ns, with --start that of the model; `embedx objectives` lists them",
            autocompletion=names_completed(objective_names),
            rich_help_panel="Objective",
        ),
    ] = None,
    collapsed: Annotated[
        bool,
        typer.Option(
            "--collapsed",
            help="count all pairs first, then take full gradient steps; --epochs are iterations",
            rich_help_panel="Objective",
        ),
    ] = False,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path_for("--output"),
            help="folder to write; by default CORPUS.OBJECTIVE.embedx",
            rich_help_panel="Output",
        ),
    ] = None,
    overwrite: Overwrite = False,
    cache_dir: CacheDir = None,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train word vectors on text."""
    asked = dict(locals())
    from embedx.cli import commands

    request = commands.request("train", asked)
    with Reporter(sys.stderr, log_json, is_quiet=quiet, is_verbose=verbose) as reporter:
        folder, trained = commands.train(
            corpora, objective, collapsed, typed or {}, output, overwrite, cache_dir, request, reporter
        )
    facts = trained.vectors.facts
    if as_json:
        print(json.dumps({"model": str(folder), **facts, "settings": trained.vectors.settings}))
    else:
        unknown = "ended before the first iteration" if collapsed else "no pair was seen"
        loss = commands.told_loss(facts) or unknown
        found = f", held-out log-likelihood {facts['heldout']['log_likelihood']:.4f}" if "heldout" in facts else ""
        pace = (
            f"{facts['epochs']} iterations in {facts['seconds']:.0f} s"
            if collapsed
            else f"{facts['words_per_second']:,} words/s"
        )
        print(f"{folder}\t{facts['words']:,} words, {loss}{found}, {pace}")


def classify(
    train: Annotated[
        str,
        typer.Argument(metavar="TRAIN", help="XC, LIBSVM, fastText, .npy, .npz or IDX file, DATA@SPLIT[:COLUMN], or digits"),
    ],
    train_labels: Annotated[
        str | None, typer.Option("--train-labels", help="labels of TRAIN, where it holds none", rich_help_panel="Data")
    ] = None,
    test: Annotated[str | None, typer.Option("--test", help="data to score the classifier on", rich_help_panel="Data")] = None,
    test_labels: TestLabels = None,
    label_names: Annotated[
        str | None,
        typer.Option(
            "--label-names",
            help="what labels from 0 on are called: a name a line, or ID TAB ... TAB NAME",
            rich_help_panel="Data",
        ),
    ] = None,
    objective: Annotated[
        str | None,
        typer.Option(
            "--objective",
            help="the output layer; by default ova with --loss squared-hinge for sparse features with 1,000 labels or several "
            "a row, else softmax; `embedx objectives` lists them",
            autocompletion=names_completed(objective_names),
            rich_help_panel="Objective",
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path_for("--output"),
            help="folder to write; by default TRAIN.OBJECTIVE.embedx",
            rich_help_panel="Output",
        ),
    ] = None,
    overwrite: Overwrite = False,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    quiet: Quiet = False,
    verbose: Verbose = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train a classifier on labelled data."""
    asked = dict(locals())
    from embedx.cli import commands

    request = commands.request("classify", asked)
    with Reporter(sys.stderr, log_json, is_quiet=quiet, is_verbose=verbose) as reporter:
        folder, trained, metrics = commands.classify(
            train, train_labels, test, test_labels, label_names, objective, typed or {}, output, overwrite, request, reporter
        )
    found = trained.classifier
    if as_json:
        tested = None if metrics is None else commands.plain_numbers(metrics)
        print(json.dumps({"model": str(folder), **found.facts, "settings": found.settings, "test": tested}))
    else:
        told = ("accuracy", "log_likelihood", "log_likelihood_tempered", "p@1", "p@3", "p@5")
        words = [f"{name} {metrics[name]:.4f}" for name in told if name in metrics] if metrics else []
        words += [f"{metrics['n']:,} labelled test rows"] if metrics else []
        loss = commands.told_loss(found.facts) or "no example had a label"
        print(f"{folder}\t" + ", ".join([f"{found.n_labels:,} labels", loss, *words]))


def compare(
    data: Annotated[
        list[str],
        typer.Argument(
            metavar="DATA...",
            help="text, named as for `embedx train`, but not -; with --test, labelled data, as for `classify`",
        ),
    ],
    objectives: Annotated[
        str,
        typer.Option("--objectives", help="the output layers, separated by commas: ns,hs,ar", rich_help_panel="Objective"),
    ],
    train_labels: Annotated[
        str | None, typer.Option("--train-labels", help="labels of DATA, where it holds none", rich_help_panel="Data")
    ] = None,
    test: Annotated[
        str | None,
        typer.Option("--test", help="labelled data to score on; DATA is then labelled too", rich_help_panel="Data"),
    ] = None,
    test_labels: TestLabels = None,
    pairs: Annotated[
        list[Path] | None,
        typer.Option("--pairs", help="text: word pairs with scores, beside the packaged sets", rich_help_panel="Held-out data"),
    ] = None,
    analogies: Annotated[
        Path | None,
        typer.Option(
            "--analogies", help="text: questions in the layout of Google's, instead of these", rich_help_panel="Held-out data"
        ),
    ] = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            parser=path_for("--output"),
            help="folder to write; by default DATA.compare",
            rich_help_panel="Output",
        ),
    ] = None,
    overwrite: Overwrite = False,
    cache_dir: CacheDir = None,
    resume: Annotated[
        bool,
        typer.Option(
            "--resume",
            help="go on with the comparison in the folder: only runs that are not there yet are made",
            rich_help_panel="Output",
        ),
    ] = False,
    as_json: Json = False,
    quiet: Quiet = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train several objectives on the same data for the same time, rank them, and write a page about it."""
    from embedx.cli import commands
    from embedx.comparison import tables as compared

    names = [name.strip() for name in objectives.split(",") if name.strip()]
    with Reporter(sys.stderr, is_quiet=quiet) as reporter:
        found = commands.compare(
            data, names, typed or {}, train_labels, test, test_labels, pairs or [], analogies, output, resume, overwrite,
            cache_dir, ["embedx", *sys.argv[1:]], reporter,
        )  # fmt: skip
    if as_json:
        print(json.dumps({"folder": str(found.folder), **compared.as_dict(found.ranking)}))
    else:
        print(compared.text(found.ranking))
        print(found.folder / "compare.html")
    if found.interrupted:
        raise KeyboardInterrupt


def word2vec(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-train TEXT -output VECTORS ...", help=f"taken: {', '.join(peers.WORD2VEC)}")
    ],
) -> None:
    """Train word vectors by word2vec.c's own command line.

    They are written as by word2vec.c; the model is kept in VECTORS.embedx. What is not given is as in word2vec.c, but for the
    threads, one for each usable core, and for the optimiser, which is that of `embedx train`; with -alpha it is plain descent.
    It is always skip-gram. --overwrite replaces what is there.
    """
    asked = peers.word2vec(arguments)
    from embedx.cli import commands

    commands.check_free(asked)
    for note in asked.notes:
        _tell(note)
    train([asked.source], asked.objective, output=asked.folder, overwrite=asked.overwrite, typed=dict(asked.typed))
    for written in commands.write_vectors(asked, Reporter(sys.stderr)):
        print(written)


def supervised(
    arguments: Annotated[
        list[str], typer.Argument(metavar="-input TEXT -output MODEL ...", help=f"taken: {', '.join(peers.SUPERVISED)}")
    ],
) -> None:
    """Train a classifier by the command line of `fasttext supervised`.

    MODEL is a folder, for `embedx predict` and `embedx eval`. What is not given is as in fastText, but for the threads, one for
    each usable core, and for the optimiser and its rate, which are those of `embedx classify`. Texts are scaled to one length,
    as they are there by a mean over words. --overwrite replaces what is there.
    """
    asked = peers.supervised(arguments)
    classify(asked.source, objective=asked.objective, output=asked.output, overwrite=asked.overwrite, typed=dict(asked.typed))


def resume_run(
    output: Annotated[Path, typer.Argument(metavar="OUTPUT", help="folder that the run was to write, or OUTPUT.checkpoint")],
    quiet: Quiet = False,
    verbose: Verbose = False,
) -> None:
    """Go on with a run of `embedx train` or `embedx classify` that was interrupted or killed, from its last checkpoint."""
    from embedx.training import checkpoint

    command, arguments, directory = checkpoint.requested(checkpoint.output_of(output))
    os.chdir(directory)
    paths = {name: Path(arguments[name]) for name in ("output", "cache_dir", "log_json") if arguments.get(name)}
    run: Callable[..., None] = train if command == "train" else classify
    run(**arguments | paths | {"quiet": quiet, "verbose": verbose}, resume=True)


def list_objectives(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="[NAME]",
            help="this one alone, with the options that only some objectives take",
            autocompletion=names_completed(objective_names),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List the objectives: loss, paper, when to choose it, rows that an example meets (m negatives, K classes), scores."""
    from embedx import objectives

    rows: list[dict[str, Any]] = [dict(zip(objectives.TABLE_HEAD, row, strict=True)) for row in objectives.table()]
    if name is not None:
        objectives.find(name)
        rows = [row | {"options": own_options(name)} for row in rows if row["objective"] == name]
    if as_json:
        print(json.dumps(rows))
        return
    for row in rows:
        print(f"{row['objective']:16} {row['loss']}\n" + "".join(f"{'':16} {row[k]}\n" for k in ("paper", "when")), end="")
        for names in (("rows", "samplers", "needs"), objectives.MEASURED):
            print(f"{'':16} " + "; ".join(f"{each}: {row[each]}" for each in names))
        for option, meaning in row.get("options", {}).items():
            print(f"{'':16} {option}: {meaning}")
    print(objectives.measured_how())


def cache_list(cache_dir: CacheDir = None, as_json: Json = False) -> None:
    """List encoded corpora: key, tokens, megabytes, sources."""
    from embedx.text.cache import list_caches

    corpora = list_caches(cache_dir)
    if as_json:
        print(json.dumps([dataclasses.asdict(corpus) for corpus in corpora]))
    else:
        rows = []
        for corpus in corpora:
            size, names = f"{corpus.bytes / 1e6:.1f} MB", " ".join(corpus.sources)
            tokens, about = (f"{corpus.tokens:,} tokens", names) if corpus.damage is None else ("damaged", corpus.damage)
            rows.append((corpus.key, tokens, size, about))
        tables.show(("key", "tokens", "size", "sources"), rows)


def cache_clear(cache_dir: CacheDir = None) -> None:
    """Delete all encoded corpora."""
    from embedx.text.cache import clear_caches

    print(f"freed {clear_caches(cache_dir) / 1e6:.1f} MB")

"""The command line: each command builds settings, calls one function of the library and prints what came back.

Results go to standard output, everything else to standard error. Exit codes: 0; 1 our bug; 2 the user's mistake; 3 diverged;
130 and 143 interrupted by Ctrl-C and SIGTERM.
"""

import contextlib
import dataclasses
import functools
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
from embedx.cli.help import Command, HelpAll, OtherPrograms, command_class, names_completed, objective_names
from embedx.cli.options import CacheDir, Json
from embedx.cli.streams import NobodyReadsError, open_streams
from embedx.errors import EmbedxError, near
from embedx.run.progress import Reporter
from embedx.settings import (
    MOST_THREADS,
    PhraseSettings,
    Settings,
    StartSettings,
    TextSettings,
    VocabularySettings,
    as_typed,
    by_present_names,
    check,
    kind_of,
    option_name,
)

Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="model folder, or a vector file of another program, such as word2vec's")
]
TopK = Annotated[int, typer.Option("--top-k", min=1, help="how many words to list")]
WhichVectors = Annotated[
    str, typer.Option("--vectors", help="of a word: input, output, or sum, the two added; the last two from a model folder")
]
TrustPickle = Annotated[
    bool, typer.Option("--trust-pickle", help="open files of gensim's own format, which may run any code that is in them")
]
Overwrite = Annotated[
    bool, typer.Option("--overwrite", help="replace what is there, once the new is complete", rich_help_panel="Output")
]
CheckpointEvery = Annotated[
    str,
    typer.Option(
        "--checkpoint-every",
        help="how often the state of the run is saved beside the output; 0 for only when it is interrupted",
        rich_help_panel="Long runs",
    ),
]
Resume = Annotated[
    bool,
    typer.Option(
        "--resume",
        help="go on from where the same command was when it ended, if it left its state",
        rich_help_panel="Long runs",
    ),
]
LogJson = Annotated[
    Path | None,
    typer.Option("--log-json", help="append a JSON object for each interval to this file", rich_help_panel="Output"),
]
Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        help="TOML file of options, such as epochs = 5; those typed come first",
        rich_help_panel="Settings in a file",
    ),
]
SaveConfig = Annotated[
    Path | None,
    typer.Option(
        "--save-config",
        help="write the options of this run, but for those of its output, as such a file",
        rich_help_panel="Settings in a file",
    ),
]

TestLabels = Annotated[
    str | None, typer.Option("--test-labels", help="labels of --test, where it holds none", rich_help_panel="Data")
]

SCORED_FRACTION = 0.05  # of the labels, by `predict --search`
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
    sys.exit(code)


def _complaint(error: Any) -> str:
    """What is told of a command line that was not understood: a line, or a whole page of help where the command is missing."""
    message = error.format_message()
    if "\n" in message:
        return str(message)
    if hasattr(error, "possibilities"):  # typer counts hidden options among them
        shown = [name for each in error.ctx.command.get_params(error.ctx) if not each.hidden for name in each.opts]
        message = f"{error.message}{near(error.option_name, shown)}"
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
        from embedx.run.folder import installed_version

        print(f"embedx {installed_version()}")
        raise typer.Exit


def version_option(
    version: Annotated[
        bool, typer.Option("--version", help="print the version and stop", is_eager=True, callback=print_version)
    ] = False,
) -> None:
    pass


# ---- settings as options


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting on the command line: its field, the part of the help it stands in, and the objectives that take it (all, if
    empty)."""

    field: dataclasses.Field[Any]
    panel: str = Settings.panel
    objectives: dict[str, Any] = dataclasses.field(default_factory=dict)  # name: default there
    others: dict[str, Any] = dataclasses.field(default_factory=dict)  # objectives and ways that have a default of their own
    meanings: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # what it means, to which objectives

    def parameter(self, chosen: str | None = None) -> inspect.Parameter:
        """As typer wants it. Not typed means None, so that what was typed can be told from a default.

        chosen  the objective that the help is to be about; all if there is none
        """
        limits, default = self.field.metadata, as_typed(self.field.default)
        own = self.objectives | self.others
        if chosen in own:
            default = as_typed(own[chosen])
        elif self.objectives:
            default = ", ".join(f"{name} {as_typed(value)}" for name, value in self.objectives.items())
        others = {name: own for name, own in self.others.items() if chosen is None or name.startswith("-")}
        for value in dict.fromkeys(map(as_typed, others.values())):
            names = ", ".join(name for name, own in others.items() if as_typed(own) == value)
            default += ("; " if default else "") + f"{value} for {names}"
        meaning = _meaning(self.field)
        of_chosen = [own for own, names in self.meanings.items() if chosen in names]
        if of_chosen:
            meaning = of_chosen[0]
        elif len(self.meanings) > 1:
            meaning = "; ".join(f"{', '.join(names)}: {own}" for own, names in self.meanings.items())
        text = meaning + (f"  [default: {default}]" if default else "")
        kind = kind_of(self.field)
        flag = option_name(self.field.name)
        how: dict[str, Any] = {"help": text, "show_default": False}
        how["rich_help_panel"] = limits["panel"] or ("Objective" if self.objectives else self.panel)
        if kind is bool:
            option = typer.Option(f"{flag}/--no-{flag[2:]}", **how)
        elif limits["parse"]:
            option = typer.Option(flag, parser=_unless_read(limits["parse"]), **how)
        elif limits["choices"]:
            option = typer.Option(flag, autocompletion=names_completed(lambda: limits["choices"]), **how)
        else:
            option = typer.Option(flag, **how)
        return inspect.Parameter(
            self.field.name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
        )

    def former(self) -> inspect.Parameter | None:
        """The same under its former name, which no help shows; None if it had none."""
        if self.field.metadata["formerly"] is None:
            return None
        present = dataclasses.field(metadata={**self.field.metadata, "formerly": None})
        present.name, present.type = self.field.metadata["formerly"], self.field.type
        shown = Option(present).parameter()
        kind, option = shown.annotation.__args__[0], shown.annotation.__metadata__[0]
        option.hidden = True
        return shown.replace(annotation=Annotated[kind, option])


def _unless_read(parse: Callable[[str], Any]) -> Callable[[Any], Any]:
    """How to read a text, leaving as it is what comes from a file as a number."""

    @functools.wraps(parse)
    def read(value: Any) -> Any:
        return parse(value) if isinstance(value, str) else value

    return read


def _meaning(field: dataclasses.Field[Any]) -> str:
    """What a setting means, with the values to choose from."""
    choices = field.metadata["choices"]
    return str(field.metadata["meaning"]) + (f" ({'|'.join(choices)})" if choices else "")


def train_settings() -> dict[str, Option]:
    """Every option of `embedx train` that is a setting."""
    from embedx.objectives import OBJECTIVES
    from embedx.skipgram.collapsed import DEFAULTS, CollapsedSettings
    from embedx.skipgram.task import SkipGramSettings

    options = _settings_of(
        "word_defaults",
        *(SkipGramSettings, VocabularySettings, TextSettings, PhraseSettings, StartSettings, CollapsedSettings),
    )
    for name, value in DEFAULTS.items():
        options[name].others["--collapsed"] = value
    of_labels = {name for objective in OBJECTIVES.values() for name in objective.label_settings}
    return {name: option for name, option in options.items() if name not in of_labels}


def phrase_settings() -> dict[str, Option]:
    """Every option of `embedx phrases` that is a setting."""
    groups = (PhraseSettings, TextSettings)
    options = {field.name: Option(field, group.panel) for group in groups for field in dataclasses.fields(group)}
    options["phrases"].others["embedx phrases"] = 1
    return options


def classify_settings() -> dict[str, Option]:
    """Every option of `embedx classify` that is a setting."""
    from embedx.classification.task import ClassifySettings
    from embedx.objectives import OBJECTIVES

    of_words = {name for objective in OBJECTIVES.values() for name in objective.word_settings}
    return {name: option for name, option in _settings_of("label_defaults", ClassifySettings).items() if name not in of_words}


def compare_settings() -> dict[str, Option]:
    """Every option of `embedx compare` that is a setting: its own, and those that it hands on to each run."""
    from embedx.classification.task import ClassifySettings
    from embedx.comparison.settings import OF_LABELS, OF_TEXT, CompareSettings
    from embedx.skipgram.task import SkipGramSettings

    def options_of(*groups: type[Settings]) -> dict[str, Option]:
        return {field.name: Option(field, group.panel) for group in groups for field in dataclasses.fields(group)}

    of_text, of_labels = options_of(SkipGramSettings, VocabularySettings, TextSettings), options_of(ClassifySettings)
    handed_on = {name: of_text[name] for name in OF_TEXT} | {name: of_labels[name] for name in OF_LABELS}
    return options_of(CompareSettings) | handed_on


def own_options(objective: str) -> dict[str, str]:
    """The options that this objective takes and not every other, with what they mean to it, in either command."""
    found: dict[str, dict[str, str]] = {}
    for command, options in (("train", train_settings()), ("classify", classify_settings())):
        for name, option in options.items():
            if objective in option.objectives:
                meaning = option.parameter(objective).annotation.__metadata__[0].help
                found.setdefault(option_name(name), {})[f"embedx {command}"] = meaning
    return {
        name: each["embedx train"]
        if len(each) == 2 and len(set(each.values())) == 1
        else "; ".join(f"`{command}`: {meaning}" for command, meaning in each.items())
        for name, each in found.items()
    }


def report_settings() -> dict[str, Option]:
    """Every option of `embedx report` that is a setting."""
    from embedx.report.settings import ReportSettings

    return {field.name: Option(field, ReportSettings.panel) for field in dataclasses.fields(ReportSettings)}


def export_settings() -> dict[str, Option]:
    """Every option of `embedx export` and `embedx convert` that is a setting."""
    from embedx.vectors.export import ExportSettings

    return {field.name: Option(field, ExportSettings.panel) for field in dataclasses.fields(ExportSettings)}


def _settings_of(own_defaults: str, *groups: type[Settings]) -> dict[str, Option]:
    """The task's own settings, then those of samplers and objectives; these declare what suits them there as `own_defaults`."""
    from embedx.objectives import OBJECTIVES
    from embedx.samplers import SAMPLERS

    options = {field.name: Option(field, group.panel) for group in groups for field in dataclasses.fields(group)}
    for sampler in SAMPLERS.values():
        for field in dataclasses.fields(sampler.Settings):
            options.setdefault(field.name, Option(field, sampler.Settings.panel))
    for name, objective in OBJECTIVES.items():
        for field in dataclasses.fields(objective.Settings):
            option = options.setdefault(field.name, Option(field))
            option.objectives[name] = field.default
            option.meanings.setdefault(_meaning(field), []).append(name)
        for setting, value in getattr(objective, own_defaults).items():
            taken = options[setting].objectives
            (taken if taken else options[setting].others)[name] = value
    return options


def with_settings(
    command: Callable[..., None], options: dict[str, Option], chosen: str | None = None, *, has_config: bool = False
) -> Callable[..., None]:
    """The command with each option added to its signature; it gets those that were typed as `typed`, by name.

    chosen      the objective that its help is to be about
    has_config  whether its options may be read from a file, and saved
    """

    def run(**arguments: Any) -> None:
        for name in ("help_all", "config"):
            arguments.pop(name, None)
        save_to = arguments.pop("save_config", None)
        names = [parameter.name for parameter in own_options]
        typed = {name: arguments.pop(name) for name in names}
        given = {name: value for name, value in typed.items() if value is not None}
        typed = by_present_names(given, (option.field for option in options.values()))
        if save_to:
            for name, value in typed.items():  # what is refused is not saved
                check(options[name].field, value)
            keys = config.keys_of(signature.parameters.values(), {name: option.field for name, option in options.items()})
            saved = config.given(arguments | typed, signature.parameters.values(), keys)
            config.save(save_to, saved, f"embedx {command.__name__}", overwrite=arguments["overwrite"])
        command(**arguments, typed=typed)

    own = [p for p in inspect.signature(command).parameters.values() if p.name != "typed"]
    own = [p.replace(kind=inspect.Parameter.KEYWORD_ONLY) for p in own]
    added = {"config": Config, "save_config": SaveConfig} if has_config else {}
    for name, kind in added.items():
        own.append(inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=kind))
    own.append(inspect.Parameter("help_all", inspect.Parameter.KEYWORD_ONLY, default=False, annotation=HelpAll))
    own_options = [option.parameter(chosen) for option in options.values()]
    own_options += [former for option in options.values() if (former := option.former())]
    signature = inspect.Signature([*own, *own_options])
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__doc__ = command.__doc__
    run.__annotations__ = {p.name: p.annotation for p in signature.parameters.values()}
    return run


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
        typer.Option("--output", help="folder to write; by default CORPUS.OBJECTIVE.embedx", rich_help_panel="Output"),
    ] = None,
    overwrite: Overwrite = False,
    cache_dir: CacheDir = None,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train word vectors on text."""
    asked = dict(locals())
    from embedx.cli import commands

    request = commands.request("train", asked)
    with Reporter(sys.stderr, log_json) as reporter:
        folder, trained = commands.train(
            corpora, objective, collapsed, typed or {}, output, overwrite, cache_dir, request, reporter
        )
    facts = trained.vectors.facts
    if as_json:
        print(json.dumps({"model": str(folder), **facts, "settings": trained.vectors.settings}))
    else:
        unknown = "ended before the first iteration" if collapsed else "no pair was seen"
        loss = unknown if facts["final_loss"] is None else f"loss {facts['final_loss']:.4f}"
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
        typer.Option("--output", help="folder to write; by default TRAIN.OBJECTIVE.embedx", rich_help_panel="Output"),
    ] = None,
    overwrite: Overwrite = False,
    checkpoint_every: CheckpointEvery = "10m",
    resume: Resume = False,
    log_json: LogJson = None,
    as_json: Json = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train a classifier on labelled data."""
    asked = dict(locals())
    from embedx.cli import commands

    request = commands.request("classify", asked)
    with Reporter(sys.stderr, log_json) as reporter:
        folder, trained, metrics = commands.classify(
            train, train_labels, test, test_labels, label_names, objective, typed or {}, output, overwrite, request, reporter
        )
    found = trained.classifier
    if as_json:
        tested = None if metrics is None else commands.plain_numbers(metrics)
        print(json.dumps({"model": str(folder), **found.facts, "settings": found.settings, "test": tested}))
    else:
        told = ("accuracy", "log_likelihood", "p@1", "p@3", "p@5")
        words = [f"{name} {metrics[name]:.4f}" for name in told if name in metrics] if metrics else []
        loss = "no example had a label" if found.facts["final_loss"] is None else f"loss {found.facts['final_loss']:.4f}"
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
        Path | None, typer.Option("--output", help="folder to write; by default DATA.compare", rich_help_panel="Output")
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
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Train several objectives on the same data for the same time, rank them, and write a page about it."""
    from embedx.cli import commands
    from embedx.comparison import tables as compared

    names = [name.strip() for name in objectives.split(",") if name.strip()]
    with Reporter(sys.stderr) as reporter:
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
) -> None:
    """Go on with a run of `embedx train` or `embedx classify` that was interrupted or killed, from its last checkpoint."""
    from embedx.run import checkpoint

    command, arguments, directory = checkpoint.requested(checkpoint.output_of(output))
    os.chdir(directory)
    paths = {name: Path(arguments[name]) for name in ("output", "cache_dir", "log_json") if arguments.get(name)}
    run: Callable[..., None] = train if command == "train" else classify
    run(**arguments | paths, resume=True)


def predict(
    model: Annotated[str, typer.Argument(metavar="DIR", help="folder that `embedx classify` wrote")],
    data: Annotated[
        str, typer.Argument(metavar="DATA", help="in any format that `embedx classify` reads; labels are not used")
    ],
    top_k: Annotated[int, typer.Option("--top-k", min=1, help="how many labels to list for each row")] = 5,
    threads: Annotated[
        int | None, typer.Option("--threads", min=1, max=MOST_THREADS, help="by default one for each usable core")
    ] = None,
    search: Annotated[bool, typer.Option("--search", help="look through a part of the labels only, by an index")] = False,
    scored_fraction: Annotated[
        float | None,
        typer.Option(
            "--scored-fraction",
            min=0.0,
            max=1.0,
            help=f"with --search, the fraction of all labels that is scored  [default: {SCORED_FRACTION}]",
            show_default=False,
        ),
    ] = None,
    query: Annotated[float | None, typer.Option("--query", min=0.0, max=1.0, hidden=True)] = None,
    as_json: Json = False,
) -> None:
    """List the likeliest labels of each row: label, probability, label, probability, ..."""
    from embedx.cli import commands

    if scored_fraction is not None and query is not None:
        raise EmbedxError("--query is the former name of --scored-fraction; give one of them")
    scored = next((each for each in (scored_fraction, query) if each is not None), SCORED_FRACTION)
    for labels in commands.predict(model, data, top_k, threads, scored if search else None, Reporter(sys.stderr)):
        if as_json:
            print(json.dumps([{"label": label, "probability": probability} for label, probability in labels]))
        else:
            print("\t".join(f"{label}\t{probability:.4g}" for label, probability in labels))


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(
            metavar="MODEL [OTHER]",
            help="model folder, word2vec or .vec file, or gensim's with --trust-pickle; a second is compared pair by pair",
        ),
    ],
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--against", help="models of another configuration, or a pattern; MODEL may then be several, of several seeds"
        ),
    ] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help="word pairs with scores, instead of the packaged sets")
    ] = None,
    analogies: Annotated[
        Path | None, typer.Option("--analogies", help="questions in sections, in the layout of Google's")
    ] = None,
    categories: Annotated[
        list[Path] | None, typer.Option("--categories", help="words with their categories: purity of clusters")
    ] = None,
    outliers: Annotated[
        list[Path] | None, typer.Option("--outliers", help="file, or folder of files, of groups with their outliers, as 8-8-8")
    ] = None,
    protocol: Annotated[
        str, typer.Option("--protocol", help="whose numbers: embedx, gensim, compute-accuracy or hyperwords")
    ] = "embedx",
    method: Annotated[str | None, typer.Option("--method", help="analogies: 3cosadd, which is the default, or 3cosmul")] = None,
    candidates: Annotated[
        int | None,
        typer.Option(
            "--candidates", min=1, help="analogies: answers are sought among so many words; by default the protocol's"
        ),
    ] = None,
    vectors: WhichVectors = "input",
    heldout: Annotated[
        str | None,
        typer.Option(
            "--heldout",
            help="text that was not trained on, named like a CORPUS: log-likelihood of its pairs; "
            "similarity is then scored only with --pairs or --analogies",
        ),
    ] = None,
    oov: Annotated[
        bool,
        typer.Option("--oov", help="score pairs of words outside the vocabulary too, by their n-grams, if the model has such"),
    ] = False,
    seed: Annotated[int, typer.Option("--seed", min=0, help="of the bootstrap, and of the held-out pairs")] = 0,
    test: Annotated[str | None, typer.Option("--test", help="classifiers: the data to score them on")] = None,
    test_labels: Annotated[str | None, typer.Option("--test-labels", help="labels of --test, where it holds none")] = None,
    trust_pickle: TrustPickle = False,
    as_json: Json = False,
) -> None:
    """Score word vectors on similarity and analogies, or on --heldout text, or a classifier on --test data."""
    from embedx.run.folder import task_of

    model, *runs = models
    other = runs.pop() if len(runs) == 1 and not against else None
    told: dict[str, Any] = {}
    if heldout is not None:
        from embedx.cli import commands

        if test is not None:
            raise EmbedxError("--heldout is for word vectors, --test for classifiers; give one of them")
        if runs or against:
            raise EmbedxError("--heldout compares two models at most; leave out --against and the others")
        likelihoods, difference = commands.heldout(model, other, heldout, seed, Reporter(sys.stderr))
        told["heldout"] = commands.heldout_json(likelihoods, difference)
        if not as_json:
            print("\n".join(commands.heldout_lines(likelihoods, difference)))
        if not pairs and analogies is None:
            if as_json:
                print(json.dumps(told))
            return
    if test is not None or task_of(Path(model)) == "classification":
        from embedx.cli import commands

        metrics = commands.test_classifier(model, test, test_labels, Reporter(sys.stderr))
        print(json.dumps({"test": commands.plain_numbers(metrics)}) if as_json else "\n".join(commands.metric_lines(metrics)))
        return
    from embedx.evaluation import words

    report = words.evaluate(
        model,
        other,
        runs=runs,
        against=against or (),
        pairs=pairs or (),
        analogies=analogies,
        categories=categories or (),
        outliers=outliers or (),
        protocol=protocol,
        method=method,
        candidates=candidates,
        which=vectors,
        oov=oov,
        seed=seed,
        trust_pickle=trust_pickle,
        progress=Reporter(sys.stderr),
    )
    for warning in report.warnings:
        print(f"warning: {warning}", file=sys.stderr)
    if as_json:
        print(json.dumps(told | report.as_dict()))
    elif sys.stdout.isatty():
        print(report.table())
    else:
        print(report.tsv())
        print("".join(f"{each}\n" for each in report.conclusions()), end="", file=sys.stderr)


def report(
    model: Annotated[str, typer.Argument(metavar="MODEL", help="folder that `embedx train` or `embedx classify` wrote")],
    output: Annotated[
        Path | None, typer.Option("--output", help="file to write; by default MODEL.report.html in the working folder")
    ] = None,
    overwrite: Overwrite = False,
    test: Annotated[str | None, typer.Option("--test", help="classifiers: the data to score them on")] = None,
    test_labels: Annotated[str | None, typer.Option("--test-labels", help="labels of --test, where it holds none")] = None,
    pairs: Annotated[
        list[Path] | None, typer.Option("--pairs", help="word vectors: word pairs with scores, instead of the packaged sets")
    ] = None,
    analogies: Annotated[
        Path | None, typer.Option("--analogies", help="word vectors: questions in sections, in the layout of Google's")
    ] = None,
    log_json: Annotated[
        Path | None, typer.Option("--log-json", help="what --log-json of the training wrote, for the curve of the loss")
    ] = None,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write one HTML page about a model: settings, curves, scores, nearest words and a map, or where its answers go wrong."""
    from embedx.cli import commands

    with Reporter(sys.stderr) as reporter:
        page = commands.report(
            model, typed or {}, output=output, overwrite=overwrite, test=test, test_labels=test_labels, pairs=pairs,
            analogies=analogies, log_json=log_json, progress=reporter,
        )  # fmt: skip
    print(page)


def phrases(
    corpora: Annotated[list[str], typer.Argument(metavar="CORPUS...", help="as for `embedx train`")],
    top_k: Annotated[int | None, typer.Option("--top-k", min=1, help="how many to list; by default all")] = None,
    cache_dir: CacheDir = None,
    as_json: Json = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """List the collocations of a text, the highest score first: words joined by _, count, score, number of the pass."""
    from embedx.cli import commands

    found = commands.phrases(corpora, typed or {}, cache_dir, Reporter(sys.stderr))[:top_k]
    if as_json:
        names = ("phrase", "words", "count", "score", "pass")
        rows = [(each.joined, each.words, each.times, each.score, number) for number, each in found]
        print(json.dumps([dict(zip(names, row, strict=True)) for row in rows]))
    else:
        cells = [(each.joined, str(each.times), f"{each.score:.4f}", str(number)) for number, each in found]
        tables.show(("phrase", "count", "score", "pass"), cells)


def nearest(
    model: Model,
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="each is looked up for itself")],
    top_k: TopK = 10,
    vectors: WhichVectors = "input",
    as_json: Json = False,
) -> None:
    """List the words nearest to each WORD: word, neighbour, cosine."""
    from embedx import load

    chosen = load(model).of(vectors)
    found = {word: chosen.most_similar(word, top_k=top_k) for word in words}
    if as_json:
        print(json.dumps({word: [{"word": w, "cosine": c} for w, c in rows] for word, rows in found.items()}))
    else:
        rows = [(word, neighbour, f"{cosine:.4f}") for word, near_it in found.items() for neighbour, cosine in near_it]
        tables.show(("word", "neighbour", "cosine"), rows)


def analogy(
    model: Model,
    a: Annotated[str, typer.Argument(metavar="A")],
    b: Annotated[str, typer.Argument(metavar="B")],
    c: Annotated[str, typer.Argument(metavar="C")],
    top_k: TopK = 10,
    as_json: Json = False,
) -> None:
    """A is to B as C is to what? List the answers: word, cosine."""
    from embedx import load

    rows = load(model).analogy(a, b, c, top_k)
    if as_json:
        print(json.dumps([{"word": word, "cosine": cosine} for word, cosine in rows]))
    else:
        tables.show(("word", "cosine"), [(word, f"{cosine:.4f}") for word, cosine in rows])


def export(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="file or folder to write; .gz, .bz2, .xz compress text and .bin")],
    overwrite: Overwrite = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write word vectors in another program's format."""
    convert(model, out, overwrite=overwrite, typed=typed)


def convert(
    model: Model,
    out: Annotated[Path, typer.Argument(metavar="OUT", help="file or folder to write; .gz, .bz2, .xz compress text and .bin")],
    overwrite: Overwrite = False,
    trust_pickle: TrustPickle = False,
    typed: Annotated[dict[str, Any] | None, typer.Option(hidden=True, parser=json.loads)] = None,
) -> None:
    """Write the word vectors of one program's file in the format of another."""
    from embedx import load
    from embedx.vectors import export as exporting

    options = {"format": None} | (typed or {})
    reporter = Reporter(sys.stderr)
    print(exporting.export(load(model, reporter, trust_pickle), out=out, overwrite=overwrite, progress=reporter, **options))


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

"""Options of the command line: those made from the fields of settings, and those that several
commands share.
"""

import ast
import copy
import dataclasses
import inspect
import re
import sys
import textwrap
from collections.abc import Callable, Mapping
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from embedx.cli.requests import parameters_of
from embedx.errors import SettingError, near
from embedx.settings import (
    Record,
    Settings,
    as_typed,
    is_given_by_set,
    option_name,
    read_value,
    settings_of,
    value_type,
)
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings

# Options that --help shows, by command; --help-all shows all.
SHORT_HELP = {
    "train": (
        "objective",
        "output",
        "architecture",
        "dim",
        "window",
        "negatives",
        "epochs",
        "time_budget",
        "threads",
        "min_count",
        "subwords",
        "heldout",
        "config",
    ),
    "classify": (
        "test",
        "text_column",
        "label_column",
        "objective",
        "output",
        "hidden",
        "weights",
        "negatives",
        "epochs",
        "time_budget",
        "threads",
        "learning_rate",
        "l2",
        "validation",
        "config",
    ),
    "compare": (
        "objectives",
        "train_labels",
        "test",
        "pairs",
        "next_item",
        "output",
        "resume",
        "time_budget",
        "epochs",
        "seeds",
        "tune",
        "heldout",
        "dim",
        "hidden",
        "config",
    ),
}


# ---- options from the signature and the docstring of a command

# Options that several commands have: the section of the help, and the text.
SHARED = {
    "train_labels": ("Data", "file with the labels of the training data, if they are not in it"),
    "test": ("Data", "labelled data to score the classifier on"),
    "test_labels": ("Data", "file with the labels of --test, if they are not in it"),
    "objective": (
        "Objective",
        "output layer; by default ns, hs for sessions; `embedx objectives` lists all",
    ),
    "output": ("Output", "folder to write; by default named after the input"),
    "start": ("Continuing from a model", None),
    "overwrite": ("Output", "overwrite the output, after the new one is complete"),
    "cache_dir": (
        "Output",
        "folder of encoded corpora; by default $EMBEDX_CACHE_DIR or ~/.cache/embedx",
    ),
    "dry_run": ("Output", "print the settings and end, without training"),
    "log_json": ("Output", "append progress to this file, a JSON object per line"),
    "as_json": ("Output", "print one JSON object"),
    "quiet": ("Output", "show only warnings and errors on standard error"),
    "verbose": ("Output", "show all settings, memory and disk, not only changed settings"),
    "pairs": ("Held-out data", "word pairs with scores, instead of the packaged sets"),
    "analogies": (
        "Held-out data",
        "analogy questions in Google's format, instead of the packaged sets",
    ),
    "checkpoint_every": (
        "Long runs",
        "time between checkpoints, such as 10m; 0: only when interrupted",
    ),
    "resume": ("Long runs", "resume from the last checkpoint, if there is one"),
    "top_k": (None, "number of results to list"),
    "vectors": (None, "input, output or sum (of both); the last two need a model folder"),
    "trust_pickle": (None, "open gensim's own format, a pickle, which can run arbitrary code"),
}
METAVARS = {
    **dict.fromkeys(
        ("train_labels", "test", "test_labels", "label_names", "start", "pairs"), "path"
    ),
    **dict.fromkeys(
        ("links", "non_links", "node_labels", "next_item", "histories", "predictions"), "path"
    ),
    "objective": "name",
    "objectives": "name,...",
    "exclude": "word,...",
    "checkpoint_every": "duration",
    "text_column": "name",
    "id_column": "name",
    "against": "path",
    "text": "corpus",
}
# Letters of the choices that the help shows in place of the type of a setting.
MAX_LETTERS_OF_CHOICES = 40
FLAGS = {"output": ("-o",), "quiet": ("-q",), "verbose": ("-v",), "top_k": ("-k",)}
NAMES = {"as_json": "--json"}


def documented(command: Callable[..., None]) -> tuple[str, dict[str, str]]:
    """The docstring of a command without its list of parameters, and the text of each parameter in
    that list.
    """
    names = {parameter.name for parameter in parameters_of(command)}
    rest: list[str] = []
    texts: dict[str, str] = {}
    last = None
    for line in docstring_of(command).splitlines():
        match = re.fullmatch(r"(\w+)  +(.+)", line)
        if match and match[1] in names:
            last = match[1]
            texts[last] = match[2]
        elif last and line.startswith("  "):
            texts[last] += f" {line.strip()}"
        else:
            assert line.partition(" ")[0] not in names, f"two blanks after the name: {line}"
            last = None
            rest.append(line)
    return "\n".join(rest).strip(), texts


def with_formats(texts: Mapping[str, str]) -> dict[str, str]:
    """The texts with the formats of labelled data, whose readers need numba, in place of
    {formats}.
    """
    if not any("{formats}" in text for text in texts.values()):
        return dict(texts)
    from embedx.labeled import formats

    return {name: text.replace("{formats}", formats.names()) for name, text in texts.items()}


def docstring_of(function: Callable[..., None]) -> str:
    """The docstring of a function, read from its source under `python -OO`, which drops them."""
    if sys.flags.optimize < 2:
        return inspect.getdoc(function) or ""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition) or ""


def as_option(parameter: inspect.Parameter, texts: Mapping[str, str]) -> inspect.Parameter:
    """A parameter as typer wants it: an argument if it has no default, else an option."""
    name = parameter.name
    kind = parameter.annotation
    about = typer.Argument() if parameter.default is parameter.empty else typer.Option()
    if hasattr(kind, "__metadata__"):
        about = copy.copy(kind.__metadata__[0])
        kind = kind.__origin__

    panel, text = SHARED.get(name, (None, None))
    about.help = texts.get(name, text)
    about.rich_help_panel = panel
    if isinstance(about, ArgumentInfo):
        about.rich_help_panel = "Arguments"
        about.metavar = name.upper()
    else:
        about.metavar = f"<{METAVARS[name]}>" if name in METAVARS else None
        about.param_decls = (NAMES.get(name, f"--{name.replace('_', '-')}"), *FLAGS.get(name, ()))
    return parameter.replace(kind=inspect.Parameter.KEYWORD_ONLY, annotation=Annotated[kind, about])


# ---- settings as options


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting on the command line."""

    field: dataclasses.Field[Any]
    panel: str = Settings.panel
    # Defaults by objective or mode, where they differ.
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Objectives that declare the setting, by the meaning that they give it.
    meanings: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    # Whether this command takes it by --set, though it has an option elsewhere.
    by_set: bool = False

    @property
    def is_own(self) -> bool:
        """Whether only some objectives have it."""
        return bool(self.meanings)

    @property
    def objectives(self) -> list[str]:
        """The objectives that declare it."""
        return [objective for names in self.meanings.values() for objective in names]

    @property
    def typed_name(self) -> str:
        """Its name as --set takes it: `local-decay`."""
        return self.field.name.replace("_", "-")

    @property
    def is_given_by_set(self) -> bool:
        """Whether it is given by --set."""
        return self.by_set or is_given_by_set(self.field.name)

    @property
    def choices(self) -> str:
        """The choices, separated by bars; empty where any value will do."""
        return "|".join(self.field.metadata["choices"] or ())

    @property
    def shows_choices(self) -> bool:
        """Whether the help has the choices in place of the type."""
        return 0 < len(self.choices) <= MAX_LETTERS_OF_CHOICES

    def parameter(self) -> inspect.Parameter:
        """As typer wants it. None stands for an option that was not typed."""
        kind: Any = value_type(self.field)
        flag = option_name(self.field.name)
        reading: dict[str, Any] = {}
        if kind is bool:
            flag = f"{flag}/--no-{flag[2:]}"
        else:

            def read(text: str) -> Any:
                return read_value(self.field, text)

            reading["parser"] = read
            reading["metavar"] = self._metavar(kind)

        about = typer.Option(
            flag,
            help=self.help(),
            show_default=False,
            rich_help_panel=self.field.metadata["panel"] or self.panel,
            **reading,
        )
        return keyword(self.field.name, Annotated[kind | None, about])

    def _metavar(self, kind: type) -> str:
        """What stands for the value in the help: its choices or its type."""
        if self.shows_choices:
            return f"[{self.choices}]"
        name = self.field.metadata["metavar"] or {int: "int", float: "number"}.get(kind, "text")
        return f"<{name}>"

    def help(self) -> str:
        """The meaning, the choices and the defaults."""
        meaning = str(self.field.metadata["meaning"])
        if len(self.meanings) > 1:
            meaning = "; ".join(
                f"{', '.join(names)}: {text}" for text, names in self.meanings.items()
            )
        if self.choices and not self.shows_choices:
            meaning += f" ({self.choices})"

        defaults = self._default_texts()
        if defaults:
            meaning += f"  [default: {'; '.join(defaults)}]"
        return meaning

    def _default_texts(self) -> list[str]:
        """The default, then those of objectives and modes that have another."""
        names_by_default: dict[str, list[str]] = {}
        for name, value in self.defaults.items():
            names_by_default.setdefault(as_typed(value), []).append(name)

        default = as_typed(self.field.default)
        if self.is_own:
            default = max(names_by_default, key=lambda text: len(names_by_default[text]))
        texts = [default] if default else []
        for text, names in names_by_default.items():
            if text != default:
                texts.append(f"{text} for {', '.join(names)}")
        return texts


OptionsByName = dict[str, Option]


def options_of(*groups: type[Settings]) -> OptionsByName:
    """The settings of these groups, by name."""
    return {
        field.name: Option(field, group.panel)
        for group in groups
        for field in dataclasses.fields(group)
    }


def defaults_of_objective(objective: Any, command: str) -> Record:
    """The defaults that an objective declares for `train` or `classify`."""
    by_command = {"train": objective.word_defaults, "classify": objective.label_defaults}
    return dict(by_command[command])


def _task_options(command: str, *groups: type[Settings]) -> OptionsByName:
    """The settings of `train` or `classify`, its samplers and its objectives."""
    from embedx.objectives import OBJECTIVES
    from embedx.parameters import fields_of, fields_of_objective
    from embedx.samplers import SAMPLERS

    is_of_words = command == "train"
    panels: dict[str, str] = {}
    for group in (*groups, *(sampler.Settings for sampler in SAMPLERS.values())):
        for setting in settings_of(group):
            panels.setdefault(setting, group.panel)
    options = {
        setting: Option(field, panels.get(setting, "Objective"))
        for setting, field in fields_of(*groups, is_of_words=is_of_words).items()
    }
    for name, objective in OBJECTIVES.items():
        for field in fields_of_objective(objective, is_of_words=is_of_words):
            option = options[field.name]
            option.defaults[name] = field.default
            option.meanings.setdefault(field.metadata["meaning"], []).append(name)
        for setting, value in defaults_of_objective(objective, command).items():
            if setting in options:
                options[setting].defaults[name] = value
    return options


def train_options() -> OptionsByName:
    """The settings of `embedx train`."""
    from embedx.distributed.settings import ClusterSettings
    from embedx.graphs.settings import GraphSettings
    from embedx.skipgram.configuration import COLLAPSED_DEFAULTS
    from embedx.skipgram.defaults import DEFAULTS, TEXT, option_of
    from embedx.skipgram.settings import CollapsedSettings, SkipGramSettings, StartSettings

    groups = (
        SkipGramSettings,
        VocabularySettings,
        TextSettings,
        PhraseSettings,
        StartSettings,
        GraphSettings,
        ClusterSettings,
    )
    options = _task_options("train", *groups, CollapsedSettings)
    modes = {"--collapsed": COLLAPSED_DEFAULTS}
    modes |= {option_of(kind): DEFAULTS[kind] for kind in DEFAULTS if kind != TEXT}
    for mode, defaults in modes.items():
        for name, value in defaults.items():
            if name in options:
                options[name].defaults[mode] = value
    return options


def classify_options() -> OptionsByName:
    """The settings of `embedx classify`."""
    from embedx.classification.settings import ClassifySettings
    from embedx.distributed.settings import ClusterSettings
    from embedx.labeled.tables.settings import TableSettings
    from embedx.labeled.words import TextFeatureSettings

    groups = (ClassifySettings, TableSettings, ClusterSettings, TextFeatureSettings)
    options = _task_options("classify", *groups)
    # Options of `embedx train`.
    shared = ("tokenizer", "lowercase", "min_count")
    return options | {name: dataclasses.replace(options[name], by_set=True) for name in shared}


def compare_options() -> OptionsByName:
    """The settings of `embedx compare`, and those that it passes to each run.

    The latter are given by --set but for a few.
    """
    from embedx.classification.settings import ClassifySettings
    from embedx.comparison.settings import (
        GIVEN_BY_SET,
        LABEL_SETTINGS,
        TEXT_SETTINGS,
        CompareSettings,
    )
    from embedx.graphs.settings import GraphSettings
    from embedx.labeled.tables.settings import TableSettings
    from embedx.skipgram.settings import SkipGramSettings

    text_options = options_of(SkipGramSettings, VocabularySettings, TextSettings, GraphSettings)
    label_options = options_of(ClassifySettings, TableSettings)
    options = options_of(CompareSettings)
    options |= {name: text_options[name] for name in TEXT_SETTINGS}
    options |= {name: label_options[name] for name in LABEL_SETTINGS}
    return {
        name: dataclasses.replace(option, by_set=name in GIVEN_BY_SET)
        for name, option in options.items()
    }


def phrase_options() -> OptionsByName:
    """The settings of `embedx phrases`."""
    options = options_of(PhraseSettings, TextSettings)
    options["phrases"].defaults["embedx phrases"] = 1
    return options


def report_options() -> OptionsByName:
    """The settings of `embedx report`."""
    from embedx.report.settings import ReportSettings

    return options_of(ReportSettings)


def export_options() -> OptionsByName:
    """The settings of `embedx export`."""
    from embedx.vectors.export import ExportSettings

    return options_of(ExportSettings)


# What gives the settings of a command.
SETTINGS = {
    "train": train_options,
    "classify": classify_options,
    "compare": compare_options,
    "corpus check": train_options,
    "phrases": phrase_options,
    "report": report_options,
    "export": export_options,
}


def keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A parameter of a command that is an option."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def command_with(setting: str, *, besides: str) -> str | None:
    """The command that takes a setting where another one does not; None if neither training does.

    besides  the other one
    """
    name = setting.replace("-", "_")
    for command in ("train", "classify"):
        if command != besides and name in SETTINGS[command]():
            return command
    return None


def _remedy_for_setting(name: str, command: str, given_by_set: Mapping[str, Option]) -> str:
    """What to write in place of `--set NAME=VALUE`, which a command does not take."""
    if name.replace("-", "_") in SETTINGS[command]():
        return f"write --{name} VALUE"
    other = command_with(name, besides=command)
    if other is not None:
        return f"`embedx {other}` takes it"
    return near(name, given_by_set, f"`embedx {command} --help-all` shows them")


def set_option(command: str, given_by_set: Mapping[str, Option]) -> inspect.Parameter:
    """The option --set NAME=VALUE of a command, for the settings given so."""

    def read(word: str) -> tuple[str, Any]:
        name, _, text = word.partition("=")
        option = given_by_set.get(name.replace("_", "-"))
        if option is None:
            remedy = _remedy_for_setting(name, command, given_by_set)
            raise SettingError("set", word, f"no such setting of `embedx {command}`", remedy)
        return option.field.name, read_value(option.field, text)

    text = "a less common setting, one of those below; repeatable"
    about = typer.Option(
        "--set", parser=read, metavar="NAME=VALUE", help=text, rich_help_panel="Configuration"
    )
    return keyword("set_", Annotated[list[str] | None, about])

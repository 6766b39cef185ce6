"""The options of a command that are settings: made from the classes of settings that it takes."""

import dataclasses
import inspect
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from embedx.cli.request_options import keyword
from embedx.errors import SettingError, near
from embedx.settings import Record, Settings, is_given_by_set, read_value, settings_of, value_type
from embedx.spelling import as_typed, option_name
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings

# Letters of the choices that the help shows in place of the type of a setting.
MAX_LETTERS_OF_CHOICES = 40


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting on the command line."""

    field: dataclasses.Field[Any]
    panel: str = Settings.panel
    # Defaults by objective or mode, where they differ.
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    # Objectives that declare the setting, by the meaning that they give it.
    meanings: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    # Whether this command takes it by --set, though other commands have an option for it.
    is_given_by_set_here: bool = False

    @property
    def is_of_some_objectives(self) -> bool:
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
        """Whether this command takes it by --set, as all do or as this one alone."""
        return self.is_given_by_set_here or is_given_by_set(self.field.name)

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
            title = "except" if "by default" in meaning else "default:"
            meaning += f"  [{title} {'; '.join(defaults)}]"
        return meaning

    def _default_texts(self) -> list[str]:
        """The default, then those of objectives and modes that have another."""
        names_by_default: dict[str, list[str]] = {}
        for name, value in self.defaults.items():
            names_by_default.setdefault(as_typed(value), []).append(name)

        default = as_typed(self.field.default)
        if self.is_of_some_objectives:
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
    from embedx.skipgram.defaults import DEFAULTS_BY_KIND, TEXT, option_of
    from embedx.skipgram.layers import COLLAPSED_DEFAULTS
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
    modes |= {option_of(kind): DEFAULTS_BY_KIND[kind] for kind in DEFAULTS_BY_KIND if kind != TEXT}
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
    return options | {
        name: dataclasses.replace(options[name], is_given_by_set_here=True) for name in shared
    }


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
        name: dataclasses.replace(option, is_given_by_set_here=name in GIVEN_BY_SET)
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


# What gives the settings of a command as options.
SETTING_OPTIONS = {
    "train": train_options,
    "classify": classify_options,
    "compare": compare_options,
    "corpus check": train_options,
    "phrases": phrase_options,
    "report": report_options,
    "export": export_options,
}


def command_with(setting: str, *, besides: str) -> str | None:
    """The command that takes a setting where another one does not; None if neither training does.

    besides  the other one
    """
    name = setting.replace("-", "_")
    for command in ("train", "classify"):
        if command != besides and name in SETTING_OPTIONS[command]():
            return command
    return None


def _remedy_for_setting(name: str, command: str, given_by_set: Mapping[str, Option]) -> str:
    """What to write in place of `--set NAME=VALUE`, which a command does not take."""
    if name.replace("-", "_") in SETTING_OPTIONS[command]():
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

"""Settings as options of the command line: each is declared once, where it belongs, and gets its option here."""

import dataclasses
import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer

from embedx.cli import config
from embedx.cli.help import HelpAll, names_completed
from embedx.cli.options import Config, SaveConfig, number
from embedx.settings import (
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
        elif kind in (int, float) and not limits["parse"]:
            option = typer.Option(flag, parser=number(kind, flag), **how)
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
    from embedx.distributed.settings import ClusterSettings
    from embedx.objectives import OBJECTIVES
    from embedx.skipgram.collapsed import DEFAULTS, CollapsedSettings
    from embedx.skipgram.settings import SkipGramSettings

    options = _settings_of(
        "word_defaults",
        *(SkipGramSettings, VocabularySettings, TextSettings, PhraseSettings, StartSettings, ClusterSettings),
        CollapsedSettings,
    )
    for name, value in DEFAULTS.items():
        options[name].others["--collapsed"] = value
    of_labels = {name for objective in OBJECTIVES.values() for name in objective.label_settings}
    return {name: option for name, option in options.items() if name not in of_labels}


def phrase_settings() -> dict[str, Option]:
    """Every option of `embedx phrases` that is a setting."""
    groups = (PhraseSettings, TextSettings)
    options = options_of(*groups)
    options["phrases"].others["embedx phrases"] = 1
    return options


def classify_settings() -> dict[str, Option]:
    """Every option of `embedx classify` that is a setting."""
    from embedx.classification.settings import ClassifySettings
    from embedx.distributed.settings import ClusterSettings
    from embedx.objectives import OBJECTIVES

    options = _settings_of("label_defaults", ClassifySettings, ClusterSettings)
    of_words = {name for objective in OBJECTIVES.values() for name in objective.word_settings}
    return {name: option for name, option in options.items() if name not in of_words}


def compare_settings() -> dict[str, Option]:
    """Every option of `embedx compare` that is a setting: its own, and those that it hands on to each run."""
    from embedx.classification.settings import ClassifySettings
    from embedx.comparison.settings import OF_LABELS, OF_TEXT, CompareSettings
    from embedx.skipgram.settings import SkipGramSettings

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


def options_of(*groups: type[Settings]) -> dict[str, Option]:
    """The settings of these groups, by name. Raises ValueError if two have one name: an option can set but one of them."""
    options: dict[str, Option] = {}
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name in options:
                raise ValueError(f"{field.name}: a setting of {group.__name__} and of another group")
            options[field.name] = Option(field, group.panel)
    return options


def _settings_of(own_defaults: str, *groups: type[Settings]) -> dict[str, Option]:
    """The task's own settings, then those of samplers and objectives; these declare what suits them there as `own_defaults`."""
    from embedx.objectives import OBJECTIVES
    from embedx.samplers import SAMPLERS

    options = options_of(*groups)
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

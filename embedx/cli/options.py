"""Options of the command line: those made from the fields of settings, and those that several commands share."""

import dataclasses
import inspect
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any

import typer

from embedx.errors import EmbedxError, near
from embedx.settings import (
    FINE,
    PhraseSettings,
    Settings,
    StartSettings,
    TextSettings,
    VocabularySettings,
    as_typed,
    described,
    kind_of,
    option_name,
    read_value,
)

# Sections of the help, in order; options of any other section come last.
PANELS = (
    "Data", "Objective", "Model", "Training", "Output", "Text", "Vocabulary", "Sampler", "Held-out text", "Held-out data",
    "Validation", "Phrases", StartSettings.panel, "With --collapsed", "Cluster", "Long runs", "Configuration",
)  # fmt: skip


def option(text: str, *flags: str, panel: str | None = None, **more: Any) -> Any:
    """What typer needs for an option that this text explains."""
    return typer.Option(*flags, help=text, rich_help_panel=panel, **more)


def completed(names: Callable[[], Iterable[str]]) -> Callable[[str], list[str]]:
    """Shell completion by one of these names."""

    def complete(incomplete: str) -> list[str]:
        return [name for name in names() if name.startswith(incomplete)]

    return complete


def objective_names() -> Iterable[str]:
    from embedx.objectives import OBJECTIVES

    return OBJECTIVES


# ---- options that several commands share

Output = Annotated[Path | None, option("folder to write; by default named after the input", "--output", "-o", panel="Output")]
Overwrite = Annotated[bool, option("overwrite the output, after the new one is complete", "--overwrite", panel="Output")]
Quiet = Annotated[bool, option("show only warnings and errors on standard error", "--quiet", "-q", panel="Output")]
Verbose = Annotated[bool, option("show all settings, not only changed ones", "--verbose", "-v", panel="Output")]
Json = Annotated[bool, option("print one JSON object", "--json", panel="Output")]
CacheDir = Annotated[
    Path | None, option("folder of encoded corpora; by default $EMBEDX_CACHE_DIR or ~/.cache/embedx", panel="Output")
]
LogJson = Annotated[Path | None, option("append progress to this file, a JSON object per line", panel="Output")]
CheckpointEvery = Annotated[
    str,
    option("time between checkpoints, saved beside the output; 0: only when interrupted", panel="Long runs"),
]
Resume = Annotated[bool, option("resume from the last checkpoint, if there is one", "--resume", panel="Long runs")]
Objective = Annotated[
    str | None,
    option(
        "the output layer; by default ns for text, and chosen from the data for labels; `embedx objectives` lists them",
        panel="Objective",
        autocompletion=completed(objective_names),
    ),
]
TrainLabels = Annotated[str | None, option("labels of the training data, if they are in a file of their own", panel="Data")]
Test = Annotated[str | None, option("labelled data on which the classifier is scored", panel="Data")]
TestLabels = Annotated[str | None, option("labels of --test, if they are in a file of their own", panel="Data")]
Pairs = Annotated[
    list[Path] | None, option("word pairs with scores, instead of the packaged sets", metavar="FILE", panel="Held-out data")
]
Analogies = Annotated[
    Path | None, option("analogy questions in Google's format, instead of the packaged sets", panel="Held-out data")
]
Model = Annotated[
    str, typer.Argument(metavar="MODEL", help="model folder, or a vector file of another program, such as word2vec's")
]
TopK = Annotated[int, option("number of results to list", min=1)]
WhichVectors = Annotated[str, option("input, output or sum (of both); the last two need a model folder", "--vectors")]
TrustPickle = Annotated[bool, option("open gensim's own format, a pickle, which can run any code in it", "--trust-pickle")]
Set = Annotated[
    list[str] | None,
    option(
        "a fine setting, one of those listed below and by `embedx objectives NAME`; repeatable",
        "--set",
        metavar="NAME=VALUE",
        panel="Configuration",
    ),
]
Config = Annotated[
    Path | None, option("TOML file of options, such as epochs = 5; the command line has priority", panel="Configuration")
]
SaveConfig = Annotated[
    Path | None, option("save the options of this run, except those of its output, to such a file", panel="Configuration")
]


# ---- settings as options


@dataclasses.dataclass(frozen=True)
class Option:
    """A setting on the command line."""

    field: dataclasses.Field[Any]
    panel: str = Settings.panel
    takers: dict[str, Any] = dataclasses.field(default_factory=dict)  # objectives, if not all take it, with their defaults
    others: dict[str, Any] = dataclasses.field(default_factory=dict)  # objectives and modes with a default of their own
    meanings: dict[str, list[str]] = dataclasses.field(default_factory=dict)  # meaning: objectives
    by_set: bool = False  # given by --set to this command, though it has an option elsewhere

    @property
    def is_fine(self) -> bool:
        return self.by_set or self.field.name in FINE

    def parameter(self) -> inspect.Parameter:
        """As typer wants it. None stands for an option that was not typed."""
        kind: Any
        kind, choices, name = kind_of(self.field), self.field.metadata["choices"], self.field.name
        how: dict[str, Any] = {"show_default": False, "panel": self.field.metadata["panel"] or self.panel}
        if choices:
            how["autocompletion"] = completed(lambda: choices)
        if kind is not bool:
            how["parser"] = self._parser()
        flag = option_name(name)
        flag = f"{flag}/--no-{flag[2:]}" if kind is bool else flag
        annotation = Annotated[kind | None, option(self.help(), flag, **how)]
        return inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)

    def _parser(self) -> Callable[[str], Any]:
        def read(text: str) -> Any:
            return read_value(self.field, text)

        read.__name__ = {int: "integer", float: "number"}.get(kind_of(self.field), "text")  # in the help
        return read

    def help(self) -> str:
        """The meaning, the choices and the defaults."""
        choices = self.field.metadata["choices"]
        meaning = str(self.field.metadata["meaning"])
        if len(self.meanings) > 1:
            meaning = "; ".join(f"{', '.join(names)}: {each}" for each, names in self.meanings.items())
        if choices:
            meaning += f" ({'|'.join(choices)})"
        texts = {name: as_typed(value) for name, value in (self.takers | self.others).items()}
        default = as_typed(self.field.default)
        if self.takers:
            default = Counter(texts.values()).most_common(1)[0][0]
        found = [default] if default else []
        for text in sorted(set(texts.values()) - {default}, key=list(texts.values()).index):
            names = ", ".join(name for name, each in texts.items() if each == text)
            found = [*found, f"{text} for {names}"]
        return meaning + (f"  [default: {'; '.join(found)}]" if found else "")


Options = dict[str, Option]


def options_of(*groups: type[Settings]) -> Options:
    """The settings of these groups, by name. Raises ValueError if two have the same name."""
    options: Options = {}
    for group in groups:
        for field in dataclasses.fields(group):
            if field.name in options:
                raise ValueError(f"{field.name}: a setting of {group.__name__} and of another group")
            options[field.name] = Option(field, group.panel)
    return options


def _of_task(defaults: str, elsewhere: str, *groups: type[Settings]) -> Options:
    """The settings of a task, its samplers and its objectives.

    defaults   the attribute of objectives with their defaults for this task
    elsewhere  the attribute with the names of settings that this task does not take
    """
    from embedx.objectives import OBJECTIVES
    from embedx.samplers import SAMPLERS

    options = options_of(*groups)
    for sampler in SAMPLERS.values():
        for field in dataclasses.fields(sampler.Settings):
            options.setdefault(field.name, Option(field, sampler.Settings.panel))
    for name, objective in OBJECTIVES.items():
        for field in dataclasses.fields(objective.Settings):
            if field.name not in getattr(objective, elsewhere):
                each = options.setdefault(field.name, Option(field, "Objective"))
                if each.field.metadata["choices"] != field.metadata["choices"]:  # each objective checks its own
                    each = options[field.name] = dataclasses.replace(each, field=_with_choices_of(each.field, field))
                each.takers[name] = field.default
                each.meanings.setdefault(field.metadata["meaning"], []).append(name)
        for setting, value in getattr(objective, defaults).items():
            if setting in options:
                (options[setting].takers or options[setting].others)[name] = value
    return options


def _with_choices_of(field: dataclasses.Field[Any], other: dataclasses.Field[Any]) -> dataclasses.Field[Any]:
    """The field with the choices of both."""
    choices = tuple(dict.fromkeys((*field.metadata["choices"], *other.metadata["choices"])))
    found: dataclasses.Field[Any] = dataclasses.field(default=field.default, metadata={**field.metadata, "choices": choices})
    found.name, found.type = field.name, field.type
    return found


def train_options() -> Options:
    """The settings of `embedx train`."""
    from embedx.distributed.settings import ClusterSettings
    from embedx.skipgram.collapsed import DEFAULTS, CollapsedSettings
    from embedx.skipgram.settings import SkipGramSettings

    groups = (SkipGramSettings, VocabularySettings, TextSettings, PhraseSettings, StartSettings, ClusterSettings)
    options = _of_task("word_defaults", "label_settings", *groups, CollapsedSettings)
    for name, value in DEFAULTS.items():
        options[name].others["--collapsed"] = value
    return options


def classify_options() -> Options:
    """The settings of `embedx classify`."""
    from embedx.classification.settings import ClassifySettings
    from embedx.distributed.settings import ClusterSettings

    return _of_task("label_defaults", "word_settings", ClassifySettings, ClusterSettings)


def compare_options() -> Options:
    """The settings of `embedx compare`, and those that it passes to each run, by --set but for a few."""
    from embedx.classification.settings import ClassifySettings
    from embedx.comparison.settings import BY_SET, OF_LABELS, OF_TEXT, CompareSettings
    from embedx.skipgram.settings import SkipGramSettings

    passed = options_of(SkipGramSettings, VocabularySettings, TextSettings)
    passed = {name: passed[name] for name in OF_TEXT} | {name: options_of(ClassifySettings)[name] for name in OF_LABELS}
    options = options_of(CompareSettings) | passed
    return {name: dataclasses.replace(each, by_set=name in BY_SET) for name, each in options.items()}


def phrase_options() -> Options:
    """The settings of `embedx phrases`."""
    options = options_of(PhraseSettings, TextSettings)
    options["phrases"].others["embedx phrases"] = 1
    return options


def report_options() -> Options:
    """The settings of `embedx report`."""
    from embedx.report.settings import ReportSettings

    return options_of(ReportSettings)


def export_options() -> Options:
    """The settings of `embedx export` and `embedx convert`."""
    from embedx.vectors.export import ExportSettings

    return options_of(ExportSettings)


def settings_listed(objective: str) -> dict[str, str]:
    """What `embedx objectives NAME` lists: settings of an objective, its own defaults, and the fine settings of both tasks."""
    from embedx.objectives import find

    tasks = {"train": train_options(), "classify": classify_options()}
    of_objective = {field.name: field for field in dataclasses.fields(find(objective).Settings)}
    own: dict[str, str] = {}
    others: dict[str, str] = {}
    for name in dict.fromkeys([*tasks["train"], *tasks["classify"]]):
        taken = {task: options[name] for task, options in tasks.items() if name in options}
        values = {task: (each.takers | each.others).get(objective, each.field.default) for task, each in taken.items()}
        each = next(iter(taken.values()))
        is_own = any(objective in (each.takers | each.others) for each in taken.values())
        if not is_own and (each.takers or not each.is_fine):
            continue
        defaults = {task: as_typed(value) for task, value in values.items() if value is not None}
        field = of_objective.get(name, each.field)
        about = [described(field)]
        if len(set(defaults.values())) == 1:
            about.append(f"default {next(iter(defaults.values()))}")
        elif defaults:
            about.append("default " + ", ".join(f"{value} for {task}" for task, value in defaults.items()))
        about += [f"only {task}" for task in taken if len(taken) < len(tasks)]
        place = own if is_own else others
        place[option_name(name) + ("=VALUE" if each.is_fine else "")] = f"{field.metadata['meaning']} ({'; '.join(about)})"
    return own | others


def read_set(words: Sequence[str], options: Mapping[str, Option], command: str) -> dict[str, Any]:
    """The values of --set NAME=VALUE. Raises `EmbedxError` for unknown names and wrong values."""
    fine = {name.replace("_", "-"): each.field for name, each in options.items() if each.is_fine}
    found = {}
    for word in words:
        given, equals, text = word.partition("=")
        name = given.replace("_", "-")
        if name not in fine:
            remedy = near(name, fine, "`embedx objectives NAME` lists them")
            if name.replace("-", "_") in options:
                remedy = f"write --{name} {text}"
            raise EmbedxError(f"--set {word}: not a fine setting of `embedx {command}`; {remedy}")
        if not equals:
            raise EmbedxError(f"--set {word}: no value; write --set {name}=VALUE, {described(fine[name])}")
        found[fine[name].name] = read_value(fine[name], text)
    return found

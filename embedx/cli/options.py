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
from types import MappingProxyType
from typing import Annotated, Any

import typer
from typer.models import ArgumentInfo

from embedx.cli.requests import parameters_of
from embedx.errors import EmbedxError, near
from embedx.settings import FINE, Settings, as_typed, described, kind_of, option_name, read_value
from embedx.text.settings import PhraseSettings, TextSettings, VocabularySettings

SHORT_HELP = {  # the options that --help shows; --help-all shows all
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

SHARED = {  # options that several commands have: the section of the help, and the text
    "train_labels": ("Data", "file with the labels of the training data, if they are not in it"),
    "test": ("Data", "labelled data to score the classifier on"),
    "test_labels": ("Data", "file with the labels of --test, if they are not in it"),
    "objective": (
        "Objective",
        (
            "output layer; by default ns for word vectors, and chosen from the data for"
            " classifiers; `embedx objectives` lists all"
        ),
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
    **dict.fromkeys(("links", "non_links", "node_labels", "next_item"), "path"),
    "objective": "name",
    "objectives": "name,...",
    "exclude": "word,...",
    "checkpoint_every": "duration",
    "text_column": "name",
    "id_column": "name",
    "against": "path",
    "text": "corpus",
}
MAX_CHOICES = 40  # letters of the choices of a setting that stand in place of its type
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
            last = None
            rest.append(line)
    return "\n".join(rest).strip(), texts


def docstring_of(function: Callable[..., None]) -> str:
    """The docstring of a function, read from its source under `python -OO`, which drops them."""
    if sys.flags.optimize < 2:
        return inspect.getdoc(function) or ""
    definition = ast.parse(textwrap.dedent(inspect.getsource(function))).body[0]
    assert isinstance(definition, ast.FunctionDef)
    return ast.get_docstring(definition) or ""


def as_option(parameter: inspect.Parameter, texts: Mapping[str, str]) -> inspect.Parameter:
    """A parameter of a command as typer wants it: an argument if it has no default,
    else an option.
    """
    name, kind = parameter.name, parameter.annotation
    about = typer.Argument() if parameter.default is parameter.empty else typer.Option()
    if hasattr(kind, "__metadata__"):
        kind, about = kind.__origin__, copy.copy(kind.__metadata__[0])
    panel, text = SHARED.get(name, (None, None))
    about.help, about.rich_help_panel = texts.get(name, text), panel
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
    # of objectives and modes, where they differ
    defaults: dict[str, Any] = dataclasses.field(default_factory=dict)
    # meaning: objectives that declare it
    meanings: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    by_set: bool = False  # given by --set to this command, though it has an option elsewhere

    @property
    def is_own(self) -> bool:
        """Whether only some objectives have it."""
        return bool(self.meanings)

    @property
    def is_fine(self) -> bool:
        return self.by_set or self.field.name in FINE

    @property
    def choices(self) -> str:
        return "|".join(self.field.metadata["choices"] or ())

    @property
    def shows_choices(self) -> bool:
        """Whether the help has the choices in place of the type."""
        return 0 < len(self.choices) <= MAX_CHOICES

    def parameter(self) -> inspect.Parameter:
        """As typer wants it. None stands for an option that was not typed."""
        kind: Any = kind_of(self.field)
        flag = option_name(self.field.name)
        how: dict[str, Any] = {
            "show_default": False,
            "rich_help_panel": self.field.metadata["panel"] or self.panel,
        }
        if kind is bool:
            flag = f"{flag}/--no-{flag[2:]}"
        else:

            def read(text: str) -> Any:
                return read_value(self.field, text)

            name = self.field.metadata["metavar"] or {int: "int", float: "number"}.get(kind, "text")
            how |= {
                "parser": read,
                "metavar": f"[{self.choices}]" if self.shows_choices else f"<{name}>",
            }
        annotation = Annotated[kind | None, typer.Option(flag, help=self.help(), **how)]
        return keyword(self.field.name, annotation)

    def help(self) -> str:
        """The meaning, the choices and the defaults."""
        meaning = str(self.field.metadata["meaning"])
        if len(self.meanings) > 1:
            meaning = "; ".join(
                f"{', '.join(names)}: {each}" for each, names in self.meanings.items()
            )
        if self.choices and not self.shows_choices:
            meaning += f" ({self.choices})"
        named: dict[str, list[str]] = {}  # objectives and modes by their default
        for name, value in self.defaults.items():
            named.setdefault(as_typed(value), []).append(name)
        default = as_typed(self.field.default)
        if self.is_own:
            default = max(named, key=lambda text: len(named[text]))
        shown = [
            default,
            *(f"{text} for {', '.join(names)}" for text, names in named.items() if text != default),
        ]
        shown = [each for each in shown if each]
        return meaning + (f"  [default: {'; '.join(shown)}]" if shown else "")


Options = dict[str, Option]


def options_of(*groups: type[Settings]) -> Options:
    """The settings of these groups, by name."""
    return {
        field.name: Option(field, group.panel)
        for group in groups
        for field in dataclasses.fields(group)
    }


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
                # each objective checks its own
                if each.field.metadata["choices"] != field.metadata["choices"]:
                    each = options[field.name] = dataclasses.replace(
                        each, field=_with_choices_of(each.field, field)
                    )
                each.defaults[name] = field.default
                each.meanings.setdefault(field.metadata["meaning"], []).append(name)
        for setting, value in getattr(objective, defaults).items():
            if setting in options:
                options[setting].defaults[name] = value
    return options


def _with_choices_of(
    field: dataclasses.Field[Any], other: dataclasses.Field[Any]
) -> dataclasses.Field[Any]:
    """The field with the choices of both."""
    found = copy.copy(field)
    choices = dict.fromkeys((*field.metadata["choices"], *other.metadata["choices"]))
    found.metadata = MappingProxyType({**field.metadata, "choices": tuple(choices)})
    return found


def train_options() -> Options:
    """The settings of `embedx train`."""
    from embedx.distributed.settings import ClusterSettings
    from embedx.graphs.settings import GraphSettings
    from embedx.skipgram.configuration import DEFAULTS
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
    options = _of_task("word_defaults", "label_settings", *groups, CollapsedSettings)
    for name, value in DEFAULTS.items():
        options[name].defaults["--collapsed"] = value
    return options


def classify_options() -> Options:
    """The settings of `embedx classify`."""
    from embedx.classification.settings import ClassifySettings
    from embedx.distributed.settings import ClusterSettings
    from embedx.labeled.tables import TableSettings
    from embedx.labeled.words import TextFeatureSettings

    groups = (ClassifySettings, TableSettings, ClusterSettings, TextFeatureSettings)
    options = _of_task("label_defaults", "word_settings", *groups)
    shared = ("tokenizer", "lowercase", "min_count")  # options of `embedx train`
    return options | {name: dataclasses.replace(options[name], by_set=True) for name in shared}


def compare_options() -> Options:
    """The settings of `embedx compare`, and those that it passes to each run, by --set but for a
    few.
    """
    from embedx.classification.settings import ClassifySettings
    from embedx.comparison.settings import BY_SET, OF_LABELS, OF_TEXT, CompareSettings
    from embedx.graphs.settings import GraphSettings
    from embedx.labeled.tables import TableSettings
    from embedx.skipgram.settings import SkipGramSettings

    of_text = options_of(SkipGramSettings, VocabularySettings, TextSettings, GraphSettings)
    of_labels = options_of(ClassifySettings, TableSettings)
    passed = {name: of_text[name] for name in OF_TEXT} | {
        name: of_labels[name] for name in OF_LABELS
    }
    options = options_of(CompareSettings) | passed
    return {
        name: dataclasses.replace(each, by_set=name in BY_SET) for name, each in options.items()
    }


def phrase_options() -> Options:
    """The settings of `embedx phrases`."""
    options = options_of(PhraseSettings, TextSettings)
    options["phrases"].defaults["embedx phrases"] = 1
    return options


def report_options() -> Options:
    """The settings of `embedx report`."""
    from embedx.report.settings import ReportSettings

    return options_of(ReportSettings)


def export_options() -> Options:
    """The settings of `embedx export`."""
    from embedx.vectors.export import ExportSettings

    return options_of(ExportSettings)


SETTINGS = {  # of commands
    "train": train_options,
    "classify": classify_options,
    "compare": compare_options,
    "corpus check": train_options,
    "phrases": phrase_options,
    "report": report_options,
    "export": export_options,
}


def settings_listed(objective: str) -> dict[str, str]:
    """What `embedx objectives NAME` lists: settings of an objective, its own defaults, and the fine
    settings of both tasks.
    """
    from embedx.objectives import find

    of_objective = {field.name: field for field in dataclasses.fields(find(objective).Settings)}
    about: dict[str, list[str]] = {}
    for task, options in (("train", train_options()), ("classify", classify_options())):
        for name, each in sorted(
            options.items(), key=lambda item: objective not in item[1].defaults
        ):
            if objective in each.defaults or (each.is_fine and not each.is_own):
                field = of_objective.get(name, each.field)
                flag = option_name(name) + ("=VALUE" if each.is_fine else "")
                default = as_typed(each.defaults.get(objective, each.field.default))
                parts = about.setdefault(flag, [f"{field.metadata['meaning']} ({described(field)}"])
                parts.append(f"{task}: {default}" if default else task)
    return {flag: f"{'; '.join(parts)})" for flag, parts in about.items()}


def keyword(name: str, annotation: Any, default: Any = None) -> inspect.Parameter:
    """A parameter of a command that is an option."""
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation
    )


def set_option(command: str, fine: Mapping[str, Option]) -> inspect.Parameter:
    """The option --set NAME=VALUE of a command, for its fine settings; the names and values that
    were typed.
    """

    def read(word: str) -> tuple[str, Any]:
        name, _, text = word.partition("=")
        found = fine.get(name.replace("_", "-"))
        if found is None:
            remedy = near(name, fine, f"`embedx {command} --help-all` shows them")
            raise EmbedxError(f"--set {word}: no such setting of `embedx {command}`; {remedy}")
        return found.field.name, read_value(found.field, text)

    names = [name for name, each in fine.items() if not each.is_own]
    more = ", and those that `embedx objectives NAME` lists" if len(names) < len(fine) else ""
    text = f"a less common setting; repeatable. Settings: {', '.join(names)}{more}"
    about = typer.Option(
        "--set", parser=read, metavar="NAME=VALUE", help=text, rich_help_panel="Configuration"
    )
    return keyword("set_", Annotated[list[str] | None, about])

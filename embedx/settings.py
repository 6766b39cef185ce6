"""Settings: each is declared once, with `param`.

The options of the command line, their help, the tables of the README, the checks of values and the
record saved beside a model are made from the fields of the dataclasses below and of each
objective's own `Settings`.
"""

import contextlib
import dataclasses
import math
import numbers
import operator
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

from embedx.errors import (
    InapplicableError,
    Setting,
    SettingError,
    Text,
    choice,
    parts_of,
    value_text,
)

# values by name, as JSON has them: settings, facts of a run, what was found in a text
Record = dict[str, Any]
Options = Mapping[str, Any]  # such values that are only read, as those that the user gives

# maximum of a whole number, unless its `param` says otherwise: kernels count in int32
MOST = 2**31 - 1
MAX_THREADS = 1024  # more than any machine has use for; each has memory of its own

SHELL_CHARACTERS = set(" ;|&<>()$*?`")

KINDS = {  # the type of a setting: what its values are, in messages
    bool: (bool, "yes or no"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
}
LIMITS = {
    "at_least": (operator.ge, "at least"),
    "above": (operator.gt, "above"),
    "at_most": (operator.le, "at most"),
}


def param(
    default: Any,
    meaning: str,
    *,
    at_least: float | None = None,
    above: float | None = None,
    at_most: float | None = None,
    choices: Sequence[str] | None = None,
    parse: Callable[[str], Any] | None = None,
    metavar: str | None = None,
    panel: str | None = None,
    fine: bool | None = None,
) -> Any:
    """A dataclass field that declares a setting: default, meaning and range (inclusive unless
    `above`).

    parse    reads the text that was typed, where the type alone does not
    metavar  names the type of the values in the help, where Python's type does not: `path`,
             `duration`
    panel    the section of the help, if it is not that of the class
    fine     True: given as --set NAME=VALUE; False: has an option of its own; by default as the
             class says
    """
    metadata = locals()  # the arguments by name
    return dataclasses.field(default=metadata.pop("default"), metadata=metadata)


def is_fine(name: str) -> bool:
    """Whether a setting is given by --set, as the class says that declares it: embedx's own, if
    another package has a setting of the same name.
    """
    groups = [group for group in declared() if name in settings_of(group)]
    ours = [group for group in groups if _is_ours(group)]
    return any(name in group.fine_names for group in ours or groups)


def declared() -> "list[type[Settings]]":
    """All classes of settings."""
    groups: list[type[Settings]] = [Settings]
    for group in groups:
        groups += group.__subclasses__()
    return groups


def option_name(name: str, by_set: Collection[str] = (), plain: Collection[str] = ()) -> str:
    """`min_count` as it is typed: `--min-count`, or `--set local-decay` for a fine setting.

    by_set  other names that a command takes by --set
    plain   names of options that a command has, although elsewhere they are fine settings
    """
    is_by_set = name in by_set or (name not in plain and is_fine(name))
    return ("--set " if is_by_set else "--") + name.replace("_", "-")


def on_command_line(
    setting: Setting, by_set: Collection[str] = (), plain: Collection[str] = ()
) -> str:
    """A setting as it is typed: `--min-count 0`, `--no-lowercase`, `--set rescore=no`; the names
    as for `option_name`.
    """
    name = option_name(setting.name, by_set, plain)
    if setting.value is None:
        return name
    value = as_typed(setting.value)
    if name.startswith("--set "):
        assignment = f"{name.removeprefix('--set ')}={value}"
        return f"--set {_for_shell(assignment)}"
    if isinstance(setting.value, bool):
        return name if setting.value else f"--no-{name[2:]}"
    return f"{name} {_for_shell(value)}"


def _for_shell(word: str) -> str:
    """The word, quoted if a shell would take parts of it as something else."""
    return f"'{word}'" if SHELL_CHARACTERS & set(word) and "'" not in word else word


def as_arguments(options: Options) -> list[str]:
    """Settings as words of a command line."""
    words = []
    for name, value in options.items():
        flag = option_name(name)
        if is_fine(name):
            text = as_typed(value) if isinstance(value, bool) else value
            words += ["--set", f"{flag.removeprefix('--set ')}={text}"]
        elif isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, str(value)]
    return words


def as_typed(value: Any) -> str:
    """A setting's value as the user would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else value_text(value)


def seconds(duration: str, setting: str = "time_budget") -> float:
    """`90`, `90s`, `10m`, `2h` or `1h30m` in seconds. Raises `SettingError`, which names the
    setting, for anything else.
    """
    parts = re.fullmatch(r"(?:(\d+\.?\d*)h)?(?:(\d+\.?\d*)m)?(?:(\d+\.?\d*)s?)?", duration.strip())
    if not parts or not any(parts.groups()):
        raise SettingError(setting, duration, "not a time", "write 90s, 10m, 2h or 1h30m")
    hours, minutes, rest = (float(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + rest


def fraction(text: str) -> float:
    """`0.1%` or `0.001` as a number. Raises `EmbedxError` for anything else."""
    try:
        return float(text[:-1]) / 100 if text.strip().endswith("%") else float(text)
    except ValueError:
        remedy = "write 0.1% or 0.001 (`embedx eval` takes a text)"
        raise SettingError("heldout", text, "not a fraction", remedy) from None


def check_used(given: Options, needs: Iterable[tuple[str, bool, Text]]) -> None:
    """Raise `InapplicableError` if a setting was given that has no effect here.

    needs  names of settings, each with whether it has one, and with what else (`without ...`) it
           would
    """
    for name, is_used, need in needs:
        if given.get(name) is None or is_used:
            continue
        first = parts_of(need)[0]
        is_without = isinstance(first, str) and first.startswith("without")
        preposition = "" if is_without else "with "
        raise InapplicableError(name, None, (f"applies only {preposition}", need))


def wrong_settings(group: Any, folder: str) -> str:
    """What is wrong with the settings of an objective or sampler from elsewhere; "" if nothing.

    folder  of embedx, such as embedx.objectives, whose settings may have the same names
    """
    if not (isinstance(group, type) and issubclass(group, Settings)):
        return f"{group!r} is no subclass of {Settings.__module__}.Settings"
    reserved = {
        name
        for ours in declared()
        if _is_ours(ours) and not ours.__module__.startswith(folder)
        for name in settings_of(ours)
    }
    taken = [name for name in settings_of(group) if name in reserved]
    if taken:
        return f"embedx has settings of its own called {', '.join(taken)}"
    return ""


def _is_ours(group: "type[Settings]") -> bool:
    return group.__module__.partition(".")[0] == __name__.partition(".")[0]


def settings_of(group: "type[Settings]") -> list[str]:
    """The names of the settings that a class declares."""
    return [field.name for field in dataclasses.fields(group)]


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of every settings class, which is a frozen dataclass: checks each value against the
    range its `param` declares.
    """

    panel: ClassVar[str] = "Training"  # the section of the help
    # the names of settings whose values the data may still change
    open: ClassVar[tuple[str, ...]] = ()
    # whether settings are given by --set, unless their `param` says otherwise
    fine: ClassVar[bool] = False
    # the names of those that are, among the settings that the class itself declares
    fine_names: ClassVar[frozenset[str]] = frozenset()

    def __init_subclass__(cls, fine: bool | None = None) -> None:
        cls.fine = cls.fine if fine is None else fine
        fields = {
            name: field for name, field in vars(cls).items() if isinstance(field, dataclasses.Field)
        }
        is_fine = {name: field.metadata["fine"] for name, field in fields.items()}
        cls.fine_names = frozenset(
            name for name, value in is_fine.items() if (cls.fine if value is None else value)
        )
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check(field, getattr(self, field.name))

    @classmethod
    def from_options(cls, options: Record) -> Self:
        """The settings of this class among `options`; those not given keep their defaults."""
        return cls(
            **{f.name: options[f.name] for f in dataclasses.fields(cls) if f.name in options}
        )

    def record(self) -> Record:
        """The values as plain JSON types, to be saved beside a model."""
        values = {f.name: getattr(self, f.name) for f in dataclasses.fields(self)}
        return {name: str(v) if isinstance(v, Path) else v for name, v in values.items()}


def check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raise `EmbedxError` unless `value` lies in the range that `field` declares; None is in range
    where it is the default.
    """
    if value is None and field.default is None:
        return
    kind, limits = kind_of(field), field.metadata
    types, words = KINDS[kind]
    if (
        value not in (True, False)
        if kind is bool
        else isinstance(value, bool) or not isinstance(value, types)
    ):
        raise SettingError(field.name, value, f"must be {words}")
    if limits["choices"] is not None and value not in limits["choices"]:
        raise SettingError(field.name, value, choice(value, limits["choices"]))
    bounds = limits | ({"at_most": limits["at_most"] or MOST} if kind is int else {})
    for limit, (holds, words) in LIMITS.items():
        if bounds[limit] is not None and not holds(value, bounds[limit]):
            bound = bounds[limit]
            written = f"{bound:g}" if isinstance(bound, float) else bound
            raise SettingError(field.name, value, f"must be {words} {written}")
    if kind is float and not _is_finite(value):
        raise SettingError(field.name, value, "must be a finite number")


def read_value(field: dataclasses.Field[Any], text: str) -> Any:
    """The value that was typed for a setting. Raises `EmbedxError` if it is not one."""
    kind = field.metadata["parse"] or kind_of(field)
    value: Any = text
    if kind is bool:
        value = {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    else:
        with contextlib.suppress(ValueError):  # `check` says what is wanted
            value = kind(text)
    check(field, value)
    return value


def described(field: dataclasses.Field[Any]) -> str:
    """The type and the range of a setting: `number above 0, at most 1`."""
    limits = field.metadata
    if limits["choices"]:
        return "|".join(limits["choices"])
    found = [
        f"{words} {limits[limit]:g}"
        for limit, (_, words) in LIMITS.items()
        if limits[limit] is not None
    ]
    return f"{KINDS[kind_of(field)][1].removeprefix('a ')} {', '.join(found)}".strip()


def kind_of(field: dataclasses.Field[Any]) -> type:
    """The type of a setting's values; of one that may also be None, the other one."""
    return field.type if isinstance(field.type, type) else next(iter(field.type.__args__))  # type: ignore[union-attr]


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:  # a whole number beyond all floats
        return False

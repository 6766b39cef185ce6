"""Settings: each is declared once, with `param`.

The options of the command line, their help, the parameters of Python's classes, the checks of
values and the record saved with a model are derived from the fields of the classes of settings,
including the `Settings` of each objective.
"""

import contextlib
import dataclasses
import math
import numbers
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Self, dataclass_transform

from embedx.errors import InapplicableError, SettingError, Text, choice, parts_of

# Values of JSON types by name: settings, facts of a run, counts of a text.
Record = dict[str, Any]
# The same, read-only, such as the settings given by the user.
Options = Mapping[str, Any]

# Maximum of a whole number, unless its `param` says otherwise: kernels count in int32.
MAX_WHOLE_NUMBER = 2**31 - 1
# More than any machine can use; each thread has its own memory.
MAX_THREADS = 1024

# By the type of a setting: the accepted types of values, and their name in messages.
KINDS = {
    bool: (bool, "yes or no"),
    int: (numbers.Integral, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a string"),
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
    has_option: bool = True,
) -> Any:
    """A dataclass field that declares a setting: default, meaning and range (inclusive unless
    `above`).

    parse       parses the text of a value, if the type is not enough
    metavar     name of the type of values in the help, instead of Python's: `path`, `duration`
    panel       the section of the help, if not that of the class
    has_option  whether it has an option of its own; otherwise it is given as --set NAME=VALUE
    """
    metadata = locals()  # the arguments by name
    return dataclasses.field(default=metadata.pop("default"), metadata=metadata)


# Whether a setting of embedx has an option, by its name.
_HAS_OPTION: dict[str, bool] = {}
# Whether a setting of another package has one.
_HAS_OPTION_ELSEWHERE: dict[str, bool] = {}


def is_given_by_set(name: str) -> bool:
    """Whether a setting is given by --set, according to the classes that declare it: those of
    embedx, if another package has a setting of the same name.
    """
    return not _HAS_OPTION.get(name, _HAS_OPTION_ELSEWHERE.get(name, True))


def _note_declaration(group: "type[Settings]", name: str, has_option: bool) -> None:
    """Remember whether a setting has an option. Raises TypeError if another class of embedx says
    otherwise of a setting of the same name.
    """
    if not _is_ours(group):
        _HAS_OPTION_ELSEWHERE[name] = has_option and _HAS_OPTION_ELSEWHERE.get(name, True)
        return
    if _HAS_OPTION.setdefault(name, has_option) != has_option:
        problem = "has an option in one class of settings, and is given by --set in another"
        raise TypeError(f"{group.__qualname__}.{name} {problem}: use one `has_option` for both")


def declared() -> "list[type[Settings]]":
    """All classes of settings."""
    groups: list[type[Settings]] = [Settings]
    for group in groups:
        # The loop then comes to these subclasses, and to theirs.
        groups += group.__subclasses__()
    return groups


# ---- values with units, as a user types them


def seconds(duration: str, setting: str = "time_budget") -> float:
    """Parse `90`, `90s`, `10m`, `2h` or `1h30m`, in seconds. Raises `SettingError`, which names the
    setting, for anything else.
    """
    parts = re.fullmatch(r"(?:(\d+\.?\d*)h)?(?:(\d+\.?\d*)m)?(?:(\d+\.?\d*)s?)?", duration.strip())
    if not parts or not any(parts.groups()):
        raise SettingError(setting, duration, "not a time", "write 90s, 10m, 2h or 1h30m")
    hours, minutes, rest = (float(part or 0) for part in parts.groups())
    return 3600 * hours + 60 * minutes + rest


def fraction(text: str, setting: str = "heldout") -> float:
    """Parse `0.1%` or `0.001`. Raises `SettingError`, which names the setting, for anything
    else.
    """
    try:
        if text.strip().endswith("%"):
            return float(text.strip().removesuffix("%")) / 100
        return float(text)
    except ValueError:
        remedy = "write 0.1% or 0.001, not the name of a file"
        raise SettingError(setting, text, "not a fraction", remedy) from None


# ---- refusals


def check_used(options: Options, needs: Iterable[tuple[str, bool, Text]]) -> None:
    """Raise `InapplicableError` if a setting is given that has no effect here.

    needs  by name of a setting: whether it has an effect, and under which condition (`without ...`)
           it would have one
    """
    for name, is_used, need in needs:
        if options.get(name) is None or is_used:
            continue
        first = parts_of(need)[0]
        is_without = isinstance(first, str) and first.startswith("without")
        preposition = "" if is_without else "with "
        raise InapplicableError(name, None, (f"applies only {preposition}", need))


def wrong_settings(group: Any, folder: str) -> str:
    """What is wrong with the settings of an objective or sampler of another package; "" if nothing
    is.

    folder  package of embedx, such as embedx.objectives, whose settings may have the same names
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


# ---- classes of settings, and the checks of their values


@dataclass_transform(frozen_default=True)
@dataclasses.dataclass(frozen=True)
class Settings:
    """Base of every settings class, which is a frozen dataclass: checks each value against the
    range its `param` declares.
    """

    # the section of the help
    panel: ClassVar[str] = "Training"

    def __init_subclass__(cls) -> None:
        for name, field in vars(cls).items():
            if isinstance(field, dataclasses.Field):
                _note_declaration(cls, name, field.metadata["has_option"])
        dataclasses.dataclass(frozen=True)(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            check(field, getattr(self, field.name))

    @classmethod
    def from_options(cls, options: Record) -> Self:
        """The settings of this class among `options`; others keep their defaults."""
        return cls(**{name: options[name] for name in settings_of(cls) if name in options})

    def record(self) -> Record:
        """The values as JSON types, to be saved with a model."""
        values = {name: getattr(self, name) for name in settings_of(type(self))}
        return {
            name: str(value) if isinstance(value, Path) else value for name, value in values.items()
        }


def check(field: dataclasses.Field[Any], value: Any) -> None:
    """Raise `EmbedxError` unless `value` is in the range that `field` declares; None is allowed if
    it is the default.
    """
    if value is None and field.default is None:
        return
    kind = value_type(field)
    if not _is_of_kind(value, kind):
        raise SettingError(field.name, value, f"must be {KINDS[kind][1]}")
    choices = field.metadata["choices"]
    if choices is not None and value not in choices:
        raise SettingError(field.name, value, choice(value, choices))
    for limit, (holds, words) in LIMITS.items():
        bound = field.metadata[limit]
        if limit == "at_most" and kind is int:
            bound = bound or MAX_WHOLE_NUMBER
        if bound is not None and not holds(value, bound):
            written = f"{bound:g}" if isinstance(bound, float) else bound
            raise SettingError(field.name, value, f"must be {words} {written}")
    if kind is float and not _is_finite(value):
        raise SettingError(field.name, value, "must be a finite number")


def _is_of_kind(value: Any, kind: type) -> bool:
    """Whether a value has the type of a setting; True and False are not numbers."""
    if kind is bool:
        return value in (True, False)
    return isinstance(value, KINDS[kind][0]) and not isinstance(value, bool)


def read_value(field: dataclasses.Field[Any], text: str) -> Any:
    """Parse the text of a setting's value. Raises `EmbedxError` if it is invalid."""
    kind = field.metadata["parse"] or value_type(field)
    value: Any = text
    if kind is bool:
        value = {"yes": True, "true": True, "no": False, "false": False}.get(text.lower(), text)
    else:
        # `check` raises the error that describes the valid values.
        with contextlib.suppress(ValueError):
            value = kind(text)
    check(field, value)
    return value


def described(field: dataclasses.Field[Any]) -> str:
    """The type and the range of a setting: `number above 0, at most 1`."""
    limits = field.metadata
    if limits["choices"]:
        return "|".join(limits["choices"])
    bounds = [
        f"{words} {limits[limit]:g}"
        for limit, (_, words) in LIMITS.items()
        if limits[limit] is not None
    ]
    kind = KINDS[value_type(field)][1].removeprefix("a ")
    return f"{kind} {', '.join(bounds)}".strip()


def value_type(field: dataclasses.Field[Any]) -> type:
    """The type of a setting's values, without None."""
    return field.type if isinstance(field.type, type) else next(iter(field.type.__args__))  # type: ignore[union-attr]


def _is_finite(value: Any) -> bool:
    try:
        return math.isfinite(value)
    except OverflowError:
        # an integer larger than any float
        return False

"""What the folder of a task holds: declared once, and checked whenever a model is read (see
`folder`).

Sizes have names, and a name means the same size everywhere in a schema: so arrays and names are
checked against each other, and indices and offsets against what they lead to.
"""

import math
import numbers
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

from embedx import checks
from embedx.errors import DataError

BLOCK_FLOATS = 1 << 22  # of rows at a time: 16 MB, so that a huge table is never doubled in memory
AXES = ("rows", "columns")


def check_can_be_saved(names: Sequence[str], argument: str) -> None:
    """Raise `DataError` for a name with half of a surrogate pair, which UTF-8 cannot hold: Python
    makes such strings of damaged JSON and of file names.

    argument  where the names come from, for the message
    """
    try:
        "".join(names).encode()
    except UnicodeEncodeError as error:
        wrong = next(name for name in names if not is_utf8(name))
        raise DataError(
            argument,
            None,
            f"{wrong!r} has half of a surrogate pair, which no file of text can hold",
            "replace it, as by name.encode('utf-8', 'replace').decode()",
        ) from error


def is_utf8(text: str) -> bool:
    """Whether UTF-8 can hold the text: not so for half of a surrogate pair."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_utf8(text: str) -> str:
    """The text as UTF-8 can hold it: the halves of a surrogate pair joined where they follow each
    other, and U+FFFD for one alone.
    """
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Names(NamedTuple):
    """The names in a file STEM.tsv."""

    size: str  # the name of their number
    required: bool = True
    counted: bool = False  # whether counts are required beside them


class Array(NamedTuple):
    """An array in a file NAME.npy."""

    shape: tuple[str, ...]  # sizes by name
    dtypes: tuple[str, ...] = ("float32",)
    required: bool = False
    is_finite: bool = True
    indexes: str = ""  # the name of the size below which all of its numbers are
    offsets_into: str = ""  # the name of the size of what its offsets divide

    def wrong_content(self, array: ndarray, sizes: Mapping[str, int]) -> str:
        """What is wrong with the numbers in an array of this shape and type; "" if nothing is."""
        if self.indexes in sizes and (problem := checks.wrong_indices(array, sizes[self.indexes])):
            return problem
        if self.offsets_into in sizes and (
            problem := checks.wrong_offsets(array, sizes[self.offsets_into])
        ):
            return problem
        if self.is_finite and (row := first_not_finite(array)) is not None:
            return f"row {row:,} has a number that is not finite"
        return ""


class Value(NamedTuple):
    """A setting or fact of model.json that whoever reads the model relies on; it may be null or
    absent unless it is required.
    """

    kind: type  # bool, int, float, str, list or dict
    required: bool = False
    items: type = object  # of a list
    at_least: float = -math.inf
    at_most: float = math.inf
    choices: tuple[str, ...] = ()  # of a text; empty: any

    def wrong(self, value: object) -> str:
        """What is wrong with a value; "" if nothing is."""
        if value is None:
            return "missing" if self.required else ""
        types, wanted = KINDS[self.kind]
        if not isinstance(value, types) or (self.kind is not bool and isinstance(value, bool)):
            return f"{_short(value)}, not {wanted}"
        if isinstance(value, list) and not all(isinstance(item, self.items) for item in value):
            return f"a list with other things than {KINDS[self.items][1]}"
        if self.choices and value not in self.choices:
            return f"{_short(value)}, not one of {', '.join(self.choices)}"
        if not isinstance(value, int | float):
            return ""
        if not (self.at_least <= value <= self.at_most) or math.isinf(value):
            return f"{_short(value)}, not from {self.at_least:g} to {self.at_most:g}"
        return ""


KINDS: Mapping[type, tuple[Any, str]] = {
    bool: (bool, "yes or no"),
    int: (int, "a whole number"),
    float: (numbers.Real, "a number"),
    str: (str, "a text"),
    list: (list, "a list"),
    dict: (dict, "an object"),
}
MAX_SHOWN = 40  # characters of a value in a message
FACTS_OF_RUN = {  # that pages, `embedx info` and reports show
    "final_loss": Value(float),
    "loss_unit": Value(str),
    "epochs": Value(float),
    "seconds": Value(float),
    "command": Value(str),
    "collapsed": Value(bool),
    "heldout": Value(dict),
    "history": Value(list, items=dict),
    "loss_curve": Value(list, items=dict),
    "sources": Value(list, items=str),
}


def wrong_value(declared: Mapping[str, Value], values: Mapping[str, Any], what: str) -> str:
    """The first of some values that is not what is declared, for a message; "" if there is none."""
    for name, value in declared.items():
        if problem := value.wrong(values.get(name)):
            return f"`{name}` of the {what} is {problem}"
    return ""


@dataclass(frozen=True)
class FolderSchema:
    """What must be in a folder; there may be further arrays, names, settings and facts."""

    task: str
    source: str  # what writes such folders
    names: Mapping[str, Names]  # by the stem of their file
    arrays: Mapping[str, Array]  # by name
    settings: Mapping[str, Value] = field(default_factory=dict)
    facts: Mapping[str, Value] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)  # the fact that states a size, by size

    def wrong_values(self, description: Mapping[str, Any]) -> str:
        """The first setting or fact that is not what it should be, for a message; "" if there is
        none.
        """
        return wrong_value(self.settings, description["settings"], "settings") or wrong_value(
            self.facts, description["facts"], "facts"
        )

    def missing(self, description: Mapping[str, Any]) -> str:
        """The required files that a description does not name, for a message; "" if
        there are none.
        """
        required = {name for name, names in self.names.items() if names.required}
        required |= {name for name, array in self.arrays.items() if array.required}
        lacking = required - {*description["names"], *description["arrays"]}
        return (
            f"names no {' and no '.join(f'`{name}`' for name in sorted(lacking))}"
            if lacking
            else ""
        )

    def misfits(
        self,
        names: Mapping[str, tuple[list[str], ndarray | None]],
        arrays: Mapping[str, ndarray],
        facts: Mapping[str, Any],
    ) -> Iterator[tuple[str, str]]:
        """Files that do not fit the schema or another file, each with a complaint."""
        # a size by its name, and where it was found
        seen: dict[str, tuple[int, str]] = {
            size: (facts[fact], f"`{fact}` is {facts[fact]:,}")
            for size, fact in self.sizes.items()
            if facts.get(fact) is not None
        }
        for name, declared in self.arrays.items():
            if name not in arrays:
                continue
            file, shape, dtype = f"{name}.npy", arrays[name].shape, str(arrays[name].dtype)
            if len(shape) != len(declared.shape) or dtype not in declared.dtypes:
                wanted = f"{' or '.join(declared.dtypes)} ({' × '.join(declared.shape)})"
                yield file, f"holds {dtype} {shape}, where {wanted} should be"
                return
            for size, n, axis in zip(declared.shape, shape, AXES, strict=False):
                known, where = seen.setdefault(size, (n, f"{file} has {n:,} {axis}"))
                if n != known:
                    yield file, f"{n:,} {axis}, but {where}"
        for stem, each in self.names.items():
            if stem not in names:
                continue
            found, counts = names[stem]
            known, where = seen.setdefault(each.size, (len(found), ""))
            if len(found) != known:
                yield f"{stem}.tsv", f"{len(found):,} {each.size}, but {where}"
            if each.counted and counts is None:
                yield f"{stem}.tsv", "no counts after the names; lines look like `name TAB count`"
        sizes = {size: n for size, (n, _) in seen.items()}
        for name, declared in self.arrays.items():
            if name in arrays and (problem := declared.wrong_content(arrays[name], sizes)):
                yield f"{name}.npy", problem


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_SHOWN else f"{text[:MAX_SHOWN]}…"


def row_blocks(array: ndarray) -> Iterator[ndarray]:
    """Consecutive rows of `array`, a few megabytes at a time; at least one block."""
    width = max(1, array[:1].size)
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, max(1, len(array)), step):
        yield array[start : start + step]


def first_not_finite(array: ndarray) -> int | None:
    """The first row with a number that is not finite; None if there is none."""
    start = 0
    for rows in row_blocks(array):
        is_finite = np.isfinite(rows)
        if not is_finite.all():
            return start + int(np.argmin(is_finite.reshape(len(rows), -1).all(axis=1)))
        start += len(rows)
    return None

"""Schemas of model folders: the contents for a task, declared once and checked whenever a model is
read (see `folder`).

Sizes have names, and a name means the same size everywhere in a schema. So arrays and names are
checked against each other, and indices and offsets against the size that they refer to.
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

# Numbers checked at a time: 16 MB, so that no table is ever doubled in memory.
BLOCK_FLOATS = 1 << 22
AXES = ("rows", "columns")


def check_can_be_saved(names: Sequence[str], argument: str) -> None:
    """Raise `DataError` for a name with an unpaired surrogate, which UTF-8 cannot encode. Python
    reads such strings from damaged JSON and file names.

    argument  the source of the names, for the message
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
    """Whether UTF-8 can encode the text, which has no unpaired surrogates then."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def as_utf8(text: str) -> str:
    """The text with consecutive surrogates joined to a character, and U+FFFD for unpaired ones."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


class Names(NamedTuple):
    """The names in a file STEM.tsv."""

    # The name of their number.
    size: str
    required: bool = True
    # Whether counts are required.
    counted: bool = False


class Array(NamedTuple):
    """An array in a file NAME.npy.

    shape         names of sizes
    indexes       name of the size that its numbers, indices, are below
    offsets_into  name of the size that its numbers, offsets, divide
    """

    shape: tuple[str, ...]
    dtypes: tuple[str, ...] = ("float32",)
    required: bool = False
    is_finite: bool = True
    indexes: str = ""
    offsets_into: str = ""

    def wrong_content(self, array: ndarray, sizes: Mapping[str, int]) -> str:
        """The problem with the numbers of an array of this shape and type; "" if there is none."""
        problem = ""
        if self.indexes in sizes:
            problem = checks.wrong_indices(array, sizes[self.indexes])
        if not problem and self.offsets_into in sizes:
            problem = checks.wrong_offsets(array, sizes[self.offsets_into])
        if not problem and self.is_finite:
            row = first_not_finite(array)
            if row is not None:
                problem = f"row {row:,} has a number that is not finite"
        return problem

    def wrong_form(self, array: ndarray) -> str:
        """The problem with an array's type or number of axes; "" if there is none."""
        dtype = str(array.dtype)
        if array.ndim == len(self.shape) and dtype in self.dtypes:
            return ""
        wanted = f"{' or '.join(self.dtypes)} ({' × '.join(self.shape)})"
        return f"holds {dtype} {array.shape}, where {wanted} should be"


class Value(NamedTuple):
    """A setting or fact of model.json that code relies on; it may be null or absent unless it is
    required.

    kind     bool, int, float, str, list or dict
    items    the type of the items of a list
    choices  the texts that are allowed; empty: any
    """

    kind: type
    required: bool = False
    items: type = object
    at_least: float = -math.inf
    at_most: float = math.inf
    choices: tuple[str, ...] = ()

    def wrong(self, value: object) -> str:
        """The problem with a value; "" if there is none."""
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
# Maximum length of a value in a message.
MAX_LETTERS = 40
# Facts of a run that pages, `embedx info` and reports show.
FACTS_OF_RUN = {
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
    """The first value that violates its declaration, for a message; "" if there is none.

    what  the kind of the values, for the message
    """
    for name, value in declared.items():
        problem = value.wrong(values.get(name))
        if problem:
            return f"`{name}` of the {what} is {problem}"
    return ""


@dataclass(frozen=True)
class FolderSchema:
    """The required contents of a folder; there may be further arrays, names, settings and facts.

    source  the command that writes such folders, for messages
    names   by the stem of their file
    arrays  by name
    sizes   the fact that states a size, by the name of the size
    """

    task: str
    source: str
    names: Mapping[str, Names]
    arrays: Mapping[str, Array]
    settings: Mapping[str, Value] = field(default_factory=dict)
    facts: Mapping[str, Value] = field(default_factory=dict)
    sizes: Mapping[str, str] = field(default_factory=dict)

    def wrong_values(self, description: Mapping[str, Any]) -> str:
        """The first setting or fact that violates its declaration, for a message; "" if there is
        none.
        """
        problem = wrong_value(self.settings, description["settings"], "settings")
        return problem or wrong_value(self.facts, description["facts"], "facts")

    def missing(self, description: Mapping[str, Any]) -> str:
        """The required files that a description lacks, for a message; "" if it lacks none."""
        required = {name for name, names in self.names.items() if names.required}
        required |= {name for name, array in self.arrays.items() if array.required}
        missing = required - {*description["names"], *description["arrays"]}
        if not missing:
            return ""
        return f"names no {' and no '.join(f'`{name}`' for name in sorted(missing))}"

    def misfits(
        self,
        names: Mapping[str, tuple[list[str], ndarray | None]],
        arrays: Mapping[str, ndarray],
        facts: Mapping[str, Any],
    ) -> Iterator[tuple[str, str]]:
        """Files that do not fit the schema or another file, each with its problem."""
        sizes = _Sizes()
        for size, fact in self.sizes.items():
            if facts.get(fact) is not None:
                sizes.state(size, facts[fact], f"`{fact}` is {facts[fact]:,}")
        present = {name: array for name, array in self.arrays.items() if name in arrays}
        for name, declared in present.items():
            file = f"{name}.npy"
            problem = declared.wrong_form(arrays[name])
            if problem:
                yield file, problem
                return
            for size, n, axis in zip(declared.shape, arrays[name].shape, AXES, strict=False):
                contradiction = sizes.state(size, n, f"{file} has {n:,} {axis}")
                if contradiction:
                    yield file, f"{n:,} {axis}, but {contradiction}"
        for stem, declared_names in self.names.items():
            if stem in names:
                yield from _wrong_names(f"{stem}.tsv", declared_names, *names[stem], sizes)
        for name, declared in present.items():
            problem = declared.wrong_content(arrays[name], sizes.known)
            if problem:
                yield f"{name}.npy", problem


class _Sizes:
    """The sizes of a folder, as first stated.

    known    sizes by name
    sources  where each was stated, for messages
    """

    def __init__(self) -> None:
        self.known: dict[str, int] = {}
        self.sources: dict[str, str] = {}

    def state(self, size: str, n: int, source: str) -> str:
        """Record a size; return the earlier statement if it contradicts this one, else ""."""
        if size not in self.known:
            self.known[size] = n
            self.sources[size] = source
        return "" if self.known[size] == n else self.sources[size]


def _wrong_names(
    file: str, declared: Names, names: Sequence[str], counts: ndarray | None, sizes: _Sizes
) -> Iterator[tuple[str, str]]:
    """The file of names with each of its problems."""
    contradiction = sizes.state(declared.size, len(names), f"{file} has {len(names):,}")
    if contradiction:
        yield file, f"{len(names):,} {declared.size}, but {contradiction}"
    if declared.counted and counts is None:
        yield file, "no counts after the names; lines look like `name TAB count`"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= MAX_LETTERS else f"{text[:MAX_LETTERS]}…"


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
            is_finite_row = is_finite.reshape(len(rows), -1).all(axis=1)
            return start + int(np.argmin(is_finite_row))
        start += len(rows)
    return None

"""What the folder of a task holds: declared once, and checked whenever a model is read (see `folder`).

Sizes have names, and a name means the same size everywhere in a schema: so arrays and names are checked against each other.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

BLOCK_FLOATS = 1 << 22  # of rows at a time: 16 MB, so that a huge table is never doubled in memory
AXES = ("rows", "columns")
LIMITS = {int: 2**63, float: math.inf, bool: 2}  # values are below, so NaN is refused


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
    rows_of: str = ""  # the stem of the names of its rows, if they have some
    is_finite: bool = True


class Value(NamedTuple):
    """A setting, or a fact of the run."""

    kind: type  # bool, int, float, str or dict
    required: bool = False
    choices: Sequence[Any] = ()
    at_least: float = -math.inf
    or_none: bool = False

    @property
    def meaning(self) -> str:
        """What it must be, for messages."""
        words = {bool: "true or false", int: "a whole number", float: "a finite number", str: "a text", dict: "an object"}
        what = f"one of {', '.join(map(str, self.choices))}" if self.choices else words[self.kind]
        return what if self.at_least == -math.inf else f"{what}, {self.at_least} or more"

    def takes(self, value: Any) -> bool:
        """Whether a value from JSON is valid."""
        if value is None:
            return self.or_none
        is_flag, kinds = isinstance(value, bool), (int, float) if self.kind is float else (self.kind,)
        if not isinstance(value, kinds) or is_flag != (self.kind is bool):
            return False
        if isinstance(value, int | float) and not (abs(value) < LIMITS[self.kind] and value >= self.at_least):
            return False
        return not self.choices or value in self.choices


@dataclass(frozen=True)
class FolderSchema:
    """What must be in a folder; there may be further arrays and names, settings and facts."""

    task: str
    source: str  # what writes such folders
    names: Mapping[str, Names]  # by the stem of their file
    arrays: Mapping[str, Array]  # by name
    settings: Mapping[str, Value] = field(default_factory=dict)  # those that are checked, by name
    facts: Mapping[str, Value] = field(default_factory=dict)

    def missing(self, names: Mapping[str, Any], arrays: Mapping[str, Any]) -> str:
        """The required files that are missing, for a message; "" if there are none."""
        wanted_arrays = [name for name, each in self.arrays.items() if each.required]
        wanted_names = [stem for stem, each in self.names.items() if each.required]
        if set(wanted_arrays) <= arrays.keys() and set(wanted_names) <= names.keys():
            return ""
        return "names " + " or ".join([f"no array `{name}`" for name in wanted_arrays] + [f"no `{s}`" for s in wanted_names])

    def misfits(
        self, names: Mapping[str, tuple[list[str], np.ndarray | None]], arrays: Mapping[str, np.ndarray]
    ) -> Iterator[tuple[str, str]]:
        """Files that do not fit the schema or another file, each with a complaint."""
        seen: dict[str, tuple[int, str]] = {}  # a size by its name, and where it was found
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
            known, where = seen.setdefault(each.size, (len(found), f"{stem}.tsv has {len(found):,} lines"))
            if len(found) != known:
                yield f"{stem}.tsv", f"{len(found):,} {each.size}, but {where}"
            if each.counted and counts is None:
                yield f"{stem}.tsv", "no counts after the names; lines look like `name TAB count`"

    def wrong_values(self, settings: Mapping[str, Any], facts: Mapping[str, Any]) -> Iterator[str]:
        """Complaints about settings and facts, as saved in JSON."""
        for group, declared, given in (("settings", self.settings, settings), ("facts", self.facts, facts)):
            for name, value in declared.items():
                *outer, last = name.split(".")  # `reader.named` is within an object `reader`
                inside: Any = given
                for each in outer:
                    inside = inside.get(each) if isinstance(inside, dict) else None
                place = f"{group}.{name}"
                if not isinstance(inside, dict) or last not in inside:
                    if value.required:
                        yield f"no {place}"
                elif not value.takes(inside[last]):
                    yield f"{place} must be {value.meaning}"


def row_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive rows of `array`, a few megabytes at a time; at least one block."""
    width = max(1, array[:1].size)
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, max(1, len(array)), step):
        yield array[start : start + step]


def first_not_finite(array: np.ndarray) -> int | None:
    """The first row with a number that is not finite; None if there is none.

    Only blocks whose sum is not finite are searched: summing runs at the speed of memory.
    """
    start = 0
    for rows in row_blocks(array):
        with np.errstate(all="ignore"):
            total = np.add.reduce(rows, axis=None)
        if not np.isfinite(total):
            bad = ~np.isfinite(rows.reshape(len(rows), -1)).all(axis=1)
            if bad.any():
                return start + int(np.argmax(bad))
        start += len(rows)
    return None

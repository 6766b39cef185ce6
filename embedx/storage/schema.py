"""What the folder of a task holds: declared once, and checked whenever a model is read (see
`folder`).

Sizes have names, and a name means the same size everywhere in a schema: so arrays and names are
checked against each other.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy import ndarray

BLOCK_FLOATS = 1 << 22  # of rows at a time: 16 MB, so that a huge table is never doubled in memory
AXES = ("rows", "columns")


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


@dataclass(frozen=True)
class FolderSchema:
    """What must be in a folder; there may be further arrays and names."""

    task: str
    source: str  # what writes such folders
    names: Mapping[str, Names]  # by the stem of their file
    arrays: Mapping[str, Array]  # by name

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
        self, names: Mapping[str, tuple[list[str], ndarray | None]], arrays: Mapping[str, ndarray]
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
            known, where = seen.setdefault(each.size, (len(found), ""))
            if len(found) != known:
                yield f"{stem}.tsv", f"{len(found):,} {each.size}, but {where}"
            if each.counted and counts is None:
                yield f"{stem}.tsv", "no counts after the names; lines look like `name TAB count`"


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

"""Checks arrays from outside, once, before compiled code relies on their lengths, types and
indices.

Each `wrong_...` returns what is wrong with an array, in a few words, or "" if nothing is. `require`
raises that as an error about an argument or a file.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, SettingError, Text

INTEGERS, NUMBERS = "iu", "biuf"  # kinds of numpy's types
BLOCK = 1 << 22  # numbers checked at a time, so that a mapped array is not copied


def refuse(problem: str, name: object, remedy: Text = "") -> None:
    """Raise `DataError` about the argument or file of that name if there is a problem."""
    if problem:
        raise DataError(name, None, problem, remedy)


def whole_top_k(top_k: object, name: str = "top_k") -> int:
    """The number of answers, by the name that the caller gave. Raises `SettingError` unless it is a
    whole number of at least 0.
    """
    if not isinstance(top_k, int | np.integer):
        raise SettingError(name, top_k, "must be a whole number")
    if top_k < 0:
        raise SettingError(name, top_k, "must be at least 0")
    return int(top_k)


def wrong_form(array: Any, shape: Sequence[int | None], kinds: str = NUMBERS) -> str:
    """What is wrong with an array that must have this shape (None for any size) and one of these
    kinds.
    """
    if not isinstance(array, ndarray):
        return f"{type(array).__name__}, not an array"
    is_shape = array.ndim == len(shape) and all(
        n in (None, have) for n, have in zip(shape, array.shape, strict=True)
    )
    if is_shape and array.dtype.kind in kinds:
        return ""
    sizes = " × ".join("any" if n is None else f"{n:,}" for n in shape)
    kind = "whole numbers" if kinds == INTEGERS else "numbers"
    return f"{array.dtype} {array.shape}, not {kind} ({sizes})"


def wrong_offsets(offsets: ndarray, n_items: int) -> str:
    """What is wrong with offsets into `n_items` items, which must ascend from 0 to that number."""
    if problem := wrong_form(offsets, (None,), INTEGERS):
        return problem
    if len(offsets) == 0 or offsets[0] != 0 or offsets[-1] != n_items:
        ends = f"from {offsets[0]} to {offsets[-1]}" if len(offsets) else "empty"
        return f"offsets {ends}, not from 0 to {n_items:,}"
    falls = np.flatnonzero(offsets[1:] < offsets[:-1])  # a difference may overflow
    if len(falls):
        return f"offset {falls[0] + 1:,} is below the one before"
    return ""


def wrong_indices(indices: ndarray, n: int) -> str:
    """What is wrong with indices, which must be from 0 to n - 1."""
    if indices.dtype.kind not in INTEGERS:
        return f"{indices.dtype}, not whole numbers"
    flat = indices.reshape(-1)
    for start in range(0, len(flat), BLOCK):
        block = flat[start : start + BLOCK]
        for wrong in (block.min(), block.max()):
            if not 0 <= wrong < n:
                return f"{wrong} among indices of {n:,}, which go from 0 to {n - 1:,}"
    return ""


def wrong_sparse(matrix: Any) -> str:
    """What is wrong with a matrix of scipy.sparse, which checks indices only on request; "" for
    other objects.
    """
    kind = getattr(matrix, "format", "")
    if kind not in ("csr", "csc", "coo") or matrix.ndim != 2:
        return ""
    if kind == "coo":
        sizes = {len(matrix.row), len(matrix.col), len(matrix.data)}
        problem = "" if len(sizes) == 1 else "not a row and a column for each value"
        return (
            problem
            or wrong_indices(matrix.row, matrix.shape[0])
            or wrong_indices(matrix.col, matrix.shape[1])
        )
    n_major, n_minor = matrix.shape if kind == "csr" else matrix.shape[::-1]
    if len(matrix.indptr) != n_major + 1:
        return f"{len(matrix.indptr):,} offsets for {n_major:,} rows"
    if len(matrix.data) != len(matrix.indices):
        return f"{len(matrix.data):,} values for {len(matrix.indices):,} indices"
    return wrong_offsets(matrix.indptr, len(matrix.indices)) or wrong_indices(
        matrix.indices, n_minor
    )


def wrong_order(order: ndarray, n: int) -> str:
    """What is wrong with a permutation of n items."""
    if len(order) != n:
        return f"{len(order):,} numbers for {n:,} places"
    if problem := wrong_indices(order, n):
        return problem
    return "" if np.bincount(order, minlength=n).max(initial=1) == 1 else "a number occurs twice"


def wrong_part(part: ndarray, counts: ndarray) -> str:
    """What is wrong with the counts of a part, which must be from 0 to `counts`, those of the
    whole.
    """
    wrong = np.flatnonzero((part < 0) | (part > counts))
    return f"{part[wrong[0]]} of {counts[wrong[0]]} in place {wrong[0]:,}" if len(wrong) else ""

"""Checks of everything that workers send: types, shapes, ranges, finite numbers.

A worker that sends an invalid answer counts as lost.
"""

from collections.abc import Collection
from typing import Any, TypeGuard

import numpy as np
from numpy import float32, int16, int32, int64, ndarray

from embedx.engine.merging import MAX_SQUARE, Delta
from embedx.optimizers.contract import Table
from embedx.training.strategy import Tally

# Maximum entry of a delta: `embedx.engine.merging` does not send longer rows.
MAX_CHANGE = float(MAX_SQUARE) ** 0.5


class LostWorkerError(Exception):
    """A worker died, does not respond or sent what cannot be used, or its machine is gone."""


def require(is_so: bool, what: str) -> None:
    """Raise `LostWorkerError` unless `is_so`."""
    if not is_so:
        raise LostWorkerError(f"it sent {what}")


def is_number(value: Any) -> TypeGuard[float]:
    """Whether it is a plain number, or one of numpy's."""
    return type(value) in (int, float) or isinstance(value, np.integer | np.floating)


def check_array(array: Any, dtype: type, shape: tuple[int, ...], what: str) -> None:
    """Raise `LostWorkerError` unless it is an array of this dtype and shape, all of it finite."""
    require(type(array) is ndarray, f"{what} that are no array")
    require(array.dtype == dtype, f"{what} of {array.dtype} instead of {np.dtype(dtype)}")
    require(array.shape == shape, f"{what} of shape {array.shape} instead of {shape}")
    require(bool(np.isfinite(array).all()), f"{what} that are not finite")


def check_names(sent: Any, names: Collection[str]) -> None:
    """Raise `LostWorkerError` unless it is a dict of these keys."""
    require(type(sent) is dict and sent.keys() == set(names), "a delta of other tables")


def check_rows(delta: Any, n_rows: int) -> None:
    """Raise `LostWorkerError` unless it is a delta of rows of a table of `n_rows`."""
    require(type(delta) is Delta, "a delta that is none")
    row = delta.row
    require(type(row) is ndarray and row.ndim == 1, "row ids that are no list")
    check_array(row, int32, (len(row),), "row ids")
    if len(row):
        is_within = row[0] >= 0 and row[-1] < n_rows and bool((row[1:] > row[:-1]).all())
        require(is_within, f"row ids that do not ascend from 0 to {n_rows - 1}")


def check_table_delta(delta: Any, table: Table, state_width: int) -> None:
    """Raise `LostWorkerError` unless it changes rows of the table, and `state_width` numbers of the
    optimizer's state for each.
    """
    n_rows, stride = table.rows.shape
    check_rows(delta, n_rows)
    n = len(delta.row)
    check_array(delta.values, int16, (n, stride), "changes of rows")
    check_array(delta.scale, float32, (n, 1), "scales")
    check_array(delta.state, float32, (n, state_width), "optimizer state")
    largest = np.abs(delta.values.astype(float32)).max(axis=1, initial=0) * delta.scale[:, 0]
    require(bool((np.abs(largest) <= MAX_CHANGE).all()), f"changes beyond {MAX_CHANGE:.0e}")


def check_objective_delta(delta: Any, state: ndarray) -> None:
    """Raise `LostWorkerError` unless it has rows of the objective's state with update counts."""
    n_rows, width = state.shape
    check_rows(delta, n_rows if width else 0)
    n = len(delta.row)
    check_array(delta.values, state.dtype.type, (n, width), "state of the objective")
    check_array(delta.state, int64, (n, 1), "numbers of updates")
    require(bool((delta.state >= 0).all()), "numbers of updates below 0")


def check_trained(answer: Any) -> tuple[Tally, float]:
    """(tally, seconds) of a range. Raises `LostWorkerError` for another answer."""
    require(type(answer) is tuple and len(answer) == 2, "no tally and seconds")
    tally, seconds = answer
    require(type(tally) is Tally and all(map(is_number, tally)), "a tally that is none")
    require(is_number(seconds) and 0 <= seconds < float("inf"), "seconds that are none")
    return Tally(float(tally.loss), float(tally.pairs), int(tally.items)), float(seconds)


def check_started(answer: Any) -> tuple[str, int, str]:
    """(host, process, version) of a worker. Raises `LostWorkerError` for another answer."""
    is_so = type(answer) is tuple and list(map(type, answer)) == [str, int, str]
    require(is_so, "no host, process and version")
    return answer


def check_best(answer: Any, n_rows: int, k: int, n_labels: int) -> tuple[ndarray, ndarray]:
    """(ids, probabilities) of the k best labels of each row, or of all if there are fewer. Raises
    `LostWorkerError` for another answer.
    """
    require(type(answer) is tuple and len(answer) == 2, "no labels and probabilities")
    ids, p = answer
    require(type(ids) is ndarray and ids.ndim == 2 and ids.shape[1] <= k, "labels of no rows")
    check_array(ids, int32, (n_rows, ids.shape[1]), "labels")
    require(bool(((ids >= -1) & (ids < n_labels)).all()), f"labels beyond {n_labels - 1}")
    check_array(p, float32, ids.shape, "probabilities")
    return ids, p

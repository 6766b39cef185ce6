"""Learning curves, from the facts of a run: points of [epochs, seconds of training, value]."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx.runtime.frames import data_frame

Points = list[list[float]]
COLUMNS = ("curve", "epoch", "seconds", "value")
# Names of curves; that of a validation score ends with the measure.
LOSS = "loss"
VALIDATION = "validation "
# Place of the value in a point.
VALUE = 2


def heldout_points(facts: Mapping[str, Any]) -> Points:
    """The log-likelihood of held-out text, during training and at the end."""
    end = dict(facts.get("heldout") or {})
    end["epoch"] = facts.get("epochs")
    end["seconds"] = facts.get("seconds")
    return _points([*_history(facts), end], "log_likelihood")


def validation_points(facts: Mapping[str, Any], measure: str) -> Points:
    """A score of the validation data after each epoch."""
    records = [record | (record.get("validation") or {}) for record in _history(facts)]
    return _points(records, measure)


def loss_points(facts: Mapping[str, Any]) -> Points:
    """The loss of each epoch or iteration, else of each twentieth of the run."""
    by_epoch = _points(_history(facts), "loss")
    if len(by_epoch) > 1:
        return by_epoch
    by_twentieth = _points(facts.get("loss_curve") or [], "loss")
    return by_twentieth or by_epoch


def mean_over_epoch(points: Points) -> Points:
    """Each loss as the mean over the epoch that ends at its point.

    The loss of the parts of an epoch goes up and down with its data, the same way in every epoch;
    the mean over a whole epoch does not. In the first epoch it is the mean since the beginning.
    A loss before the first epoch, as of collapsed training, is unchanged.
    """
    if not points:
        return []
    epochs, seconds, losses = np.array(points, np.float64).T
    begins = np.concatenate([[0.0], epochs[:-1]])
    means = []
    for end, loss in zip(epochs, losses, strict=True):
        in_epoch = np.clip(epochs, end - 1, end) - np.clip(begins, end - 1, end)
        if end > 0:
            means.append(np.average(losses, weights=in_epoch))
        else:
            means.append(loss)
    smooth = np.column_stack([epochs, seconds, means])
    return smooth.tolist()


def best_point(points: Points) -> list[float] | None:
    """The first point of the highest value; None without points."""
    return max(points, key=lambda point: point[VALUE], default=None)


def curve_points(facts: Mapping[str, Any]) -> dict[str, Points]:
    """The points of all curves of a run, by name."""
    curves = {LOSS: loss_points(facts), "held-out log-likelihood": heldout_points(facts)}
    measures = [name for record in _history(facts) for name in record.get("validation") or {}]
    for measure in dict.fromkeys(measures):
        curves[VALIDATION + measure] = validation_points(facts, measure)
    return curves


def curves_frame(facts: Mapping[str, Any]) -> Any:
    """All curves of a run as a `pandas.DataFrame`: curve, epoch, seconds, value. Raises
    EmbedxError without pandas.
    """
    rows = [
        dict(zip(COLUMNS, (name, *point), strict=True))
        for name, points in curve_points(facts).items()
        for point in points
    ]
    return data_frame(rows, COLUMNS)


def _history(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records after each epoch."""
    return facts.get("history") or []


def _points(records: list[dict[str, Any]], name: str) -> Points:
    """The points of records whose values are all finite."""
    points: list[list[Any]] = [
        [record.get("epoch", record.get("number")), record.get("seconds"), record.get(name)]
        for record in records
    ]
    return [point for point in points if all(map(_is_finite, point))]


def _is_finite(value: Any) -> bool:
    """Whether it is a finite number."""
    return isinstance(value, int | float) and math.isfinite(value)

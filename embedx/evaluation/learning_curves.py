"""Learning curves, from the facts of a run: points of [epochs, seconds of training, value]."""

import math
from collections.abc import Mapping
from typing import Any

Points = list[list[float]]


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

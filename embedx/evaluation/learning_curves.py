"""Learning curves, from the facts of a run: points of [epochs, seconds of training, value]."""

import math
from collections.abc import Mapping
from typing import Any

Points = list[list[float]]


def heldout_points(facts: Mapping[str, Any]) -> Points:
    """The log-likelihood of held-out text, during training and at the end."""
    end = {
        **(facts.get("heldout") or {}),
        "epoch": facts.get("epochs"),
        "seconds": facts.get("seconds"),
    }
    return _points([*_history(facts), end], "log_likelihood")


def validation_points(facts: Mapping[str, Any], measure: str) -> Points:
    """A score of the validation data after each epoch."""
    return _points([each | (each.get("validation") or {}) for each in _history(facts)], measure)


def loss_points(facts: Mapping[str, Any]) -> Points:
    """The loss of each epoch or iteration, else of each twentieth of the run."""
    found = _points(_history(facts), "loss")
    return found if len(found) > 1 else _points(facts.get("loss_curve") or [], "loss") or found


def _history(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records after each epoch."""
    return facts.get("history") or []


def _points(records: list[dict[str, Any]], name: str) -> Points:
    """The points of records whose values are all finite."""
    found: list[list[Any]] = [
        [each.get("epoch", each.get("number")), each.get("seconds"), each.get(name)]
        for each in records
    ]
    return [
        each
        for each in found
        if all(isinstance(value, int | float) and math.isfinite(value) for value in each)
    ]

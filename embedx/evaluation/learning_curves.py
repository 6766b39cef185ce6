"""Learning curves, from the facts of a run: points of [epochs, seconds of training, value]."""

import math
from collections.abc import Mapping
from typing import Any

Points = list[list[float]]


def heldout_points(facts: Mapping[str, Any]) -> Points:
    """The log-likelihood of held-out text, during training and at the end."""
    end = [facts.get("epochs"), facts.get("seconds"), (facts.get("heldout") or {}).get("log_likelihood")]
    return finite([*([each.get(name) for name in ("epoch", "seconds", "log_likelihood")] for each in history(facts)), end])


def validation_points(facts: Mapping[str, Any], measure: str) -> Points:
    """A score of the validation data after each epoch."""
    return finite(
        [[each.get("epoch"), each.get("seconds"), (each.get("validation") or {}).get(measure)] for each in history(facts)]
    )


def loss_points(facts: Mapping[str, Any]) -> Points:
    """The loss of each epoch, or after each iteration of --collapsed, as far as the model has them."""
    return finite([[each.get("epoch", each.get("number")), each.get("seconds"), each.get("loss")] for each in history(facts)])


def history(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records after each epoch."""
    return list(facts.get("history") or [])


def finite(points: list[list[Any]]) -> Points:
    """The points whose values are all finite."""
    return [each for each in points if all(isinstance(value, int | float) and math.isfinite(value) for value in each)]

"""Learning curves, from the facts and logs of a run: points of [epochs, seconds of training, value]."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedx.errors import EmbedxError

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


def logged_points(file: Path, facts: Mapping[str, Any]) -> Points:
    """The loss during training, from the log that --log-json wrote, of the last run in the file.

    Epochs are by the finished share of the run. Raises `EmbedxError` for any other file.
    """
    try:
        lines = file.read_text("utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise EmbedxError(
            f"--log-json {file}: {getattr(error, 'strerror', None) or 'not UTF-8'}; name the training's"
        ) from error
    points: Points = []
    for place, line in enumerate(lines, 1):
        try:
            event = json.loads(line)
            if event["stage"] != "training" or event.get("loss") is None:
                continue
            seconds, share = float(event["seconds"]), event["done"] / event["total"] if event["total"] else math.nan
            point = [share * float(facts.get("epochs") or math.nan), seconds, float(event["loss"])]
        except (ValueError, KeyError, TypeError, AttributeError):
            raise EmbedxError(f"{file}:{place}: not a line that --log-json wrote; name the file of the training") from None
        if points and seconds < points[-1][1]:  # another run begins
            points = []
        points.append(point)
    return finite(points)


def history(facts: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The records after each epoch."""
    found = facts.get("history") or []
    return [each for each in found if isinstance(each, dict)] if isinstance(found, list) else []


def finite(points: list[list[Any]]) -> Points:
    """The points whose values are all finite."""
    return [each for each in points if all(isinstance(value, int | float) and math.isfinite(value) for value in each)]

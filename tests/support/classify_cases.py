"""Objectives and kinds of inputs that tests of classification run for, and what they compare."""

import pytest

from embedx.objectives import OBJECTIVES
from tests.support.classify_runs import DATA, OPTIONS_OF_KIND, REPRESENTATIVES


def objectives_where(holds=lambda objective: True):
    """Run a test for each objective for which this holds."""
    chosen = {name: objective for name, objective in OBJECTIVES.items() if holds(objective)}
    return pytest.mark.parametrize("objective", chosen.values(), ids=list(chosen))


EVERY_OBJECTIVE = objectives_where()


def precision(trained, kind):
    """P@1 on the test rows of a kind of inputs."""
    return trained.classifier.evaluate(DATA[kind][1], threads=1)["p@1"]


def bytes_of(trained):
    return {name: array.tobytes() for name, array in trained.classifier.arrays.items()}


# Another kind of inputs for each.
ONE_OBJECTIVE_OF_EACH_KIND = pytest.mark.parametrize(
    ("objective", "kind"),
    [
        (objective, list(OPTIONS_OF_KIND)[i % 3])
        for i, objective in enumerate(REPRESENTATIVES.values())
    ],
)

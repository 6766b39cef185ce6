"""Objectives and kinds of inputs that tests of classification run for, and what they compare."""

import pytest

from embedx.objectives import OBJECTIVES
from tests.support.classify_runs import DATA, REPRESENTATIVES, WAYS


def objectives_where(holds=lambda objective: True):
    """Run a test for each objective that declares what `holds` asks for."""
    chosen = {name: objective for name, objective in OBJECTIVES.items() if holds(objective)}
    return pytest.mark.parametrize("objective", chosen.values(), ids=list(chosen))


EVERY_OBJECTIVE = objectives_where()


def precision(trained, kind):
    return trained.classifier.evaluate(DATA[kind][1], threads=1)["p@1"]


def bytes_of(trained):
    return {name: array.tobytes() for name, array in trained.classifier.arrays.items()}


# An objective of each kind, each with another kind of inputs.
TURNS = pytest.mark.parametrize(
    ("objective", "kind"),
    [(objective, list(WAYS)[i % 3]) for i, objective in enumerate(REPRESENTATIVES.values())],
)

"""Objectives by name, and candidates for them."""

from embedx.objectives import OBJECTIVES
from embedx.testing.objectives import Candidates, examples, variants

ALL = {
    name: variant
    for objective in OBJECTIVES.values()
    for name, variant in variants(objective).items()
}


def make(name, **settings):
    return OBJECTIVES[name](OBJECTIVES[name].Settings(**settings))


def one_example(objective, seed=3):
    """The candidates of one example, (N,) each, and the column of its first positive."""
    candidates = Candidates(*(a[0] for a in examples(objective, seed=seed)))
    return candidates, int(candidates.label.argmax())

"""Runs of `embedx classify` on small files."""

import numpy as np
from scipy.sparse import csr_matrix

from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from tests.support.label_training import train

# of inputs: dense rows, sparse rows, and sparse rows through a hidden layer
OPTIONS_OF_KIND = {"dense": {}, "sparse": {}, "hidden": {"hidden": 20}}


def first_where(holds):
    """The first objective for which this holds."""
    return next(objective for objective in OBJECTIVES.values() if holds(objective))


def topics(n, seed, n_labels=24):
    """Documents about one to three topics, frequent and rare, each with its words; sparse rows of
    length 1.
    """
    rng = np.random.default_rng(seed)
    share = 1 / np.arange(1, n_labels + 1) ** 0.7
    labels = [
        rng.choice(n_labels, rng.integers(1, 4), replace=False, p=share / share.sum())
        for _ in range(n)
    ]
    x = np.zeros((n, 4 * n_labels), dtype=np.float32)
    for row, mine in zip(x, labels, strict=True):
        for k in mine:
            row[rng.choice(np.arange(4 * k, 4 * k + 5) % len(row), 2)] += 1
        row[rng.integers(0, len(row), 2)] += 1
    x /= np.linalg.norm(x, axis=1, keepdims=True)
    return Labeled(csr_matrix(x), Labels.of_rows(labels), n_labels)


DIGITS = digits(400, 200)
TOPICS = (topics(500, 0), topics(200, 1))


DATA = {"dense": DIGITS, "sparse": TOPICS, "hidden": TOPICS}


TINY = topics(40, 2, n_labels=6)


def run(objective, kind="sparse", data=None, settings=None, **options):
    """Train an objective, given as a class, by one thread on a kind of inputs."""
    chosen = {"threads": 1} | OPTIONS_OF_KIND[kind] | options
    data = DATA[kind][0] if data is None else data
    return train(data, objective(settings or objective.Settings()), ClassifySettings(**chosen))


REPRESENTATIVES = {
    "drawn": first_where(
        lambda o: o.positives == "single" and "unigram" in o.samplers() and o.step == "gradient"
    ),
    "path": first_where(lambda o: "path" in o.candidates),
    "columns": first_where(lambda o: o.samplers()[0] == "all" and not o.traits.separable),
    "tiles": first_where(lambda o: o.samplers()[0] == "all" and o.traits.separable),
}

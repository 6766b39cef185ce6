"""Classifiers of noisy labels, and how far their probabilities are from the truth."""

import numpy as np
from scipy.sparse import csr_matrix

from embedx import objectives
from embedx.classification.objective_choice import default_objective, new_objective
from embedx.classification.settings import ClassifySettings
from embedx.evaluation.error_analysis import reliability
from embedx.evaluation.labels import hits
from embedx.labeled.data import Labeled, Labels
from tests.support.label_training import train

N_LABELS, N_FEATURES = 40, 120


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def noisy(n, seed, *, dense=False, several=True):
    """Rows whose labels are drawn by probabilities that depend on the features."""
    rng = np.random.default_rng(seed)
    meaning = np.random.default_rng(99).normal(size=(N_FEATURES, N_LABELS))
    x = (rng.random((n, N_FEATURES)) < 0.08) * rng.random((n, N_FEATURES)) + 0.0
    x /= np.maximum(np.linalg.norm(x, axis=1, keepdims=True), 1e-9)
    z = 3 * x @ meaning - 3
    if several:
        rows = [np.flatnonzero(row) for row in rng.random(z.shape) < sigmoid(z)]
    else:
        rows = [[k] for k in (z + rng.gumbel(size=z.shape)).argmax(axis=1)]
    x = x.astype(np.float32)
    return Labeled(x if dense else csr_matrix(x), Labels.of_rows(rows), N_LABELS)


def trained(data, objective=None, options=None, progress=None, **settings):
    name, objective_options = (
        default_objective(data, settings) if objective is None else (objective, options or {})
    )
    instance = new_objective(objectives.find(name), objective_options)
    return train(
        data, instance, ClassifySettings(**({"threads": 1} | settings)), progress=progress
    ).classifier


def answers(classifier, data, k=5):
    """The probabilities of the best answers to rows with labels, and which are right."""
    data = data.rows(np.flatnonzero(data.labels.n_of_row))
    best = list(classifier.iter_top_k(data.features, k))
    ids, p = (np.concatenate(parts) for parts in zip(*best, strict=True))
    return p, hits(ids, data.labels)


def largest_error(p, is_right, min_answers=200):
    """How far accuracy is from confidence at most, over bins that hold so many answers."""
    bins = reliability(p.ravel().astype(np.float64), is_right.ravel())
    return np.abs(bins.accuracy - bins.confidence)[bins.n >= min_answers].max()

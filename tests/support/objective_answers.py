"""What an objective answers to the scores of one example, and the objectives that tests try."""

import contextlib
import dataclasses
from typing import NamedTuple
from unittest import mock

import numpy as np
import reference

from embedx.kernels import adjusted
from embedx.kernels.batch import Batch
from embedx.objectives import OBJECTIVES

N = 7  # candidates
K = 6  # classes, where outcomes are enumerated
FROZEN = 2**50  # updates after which no state moves
GARBAGE = 1e30  # what stands where a candidate has no weight


def variants():
    """Every objective with its default settings, and with each setting that is a choice changed."""
    for name, objective in OBJECTIVES.items():
        yield name, objective(objective.Settings())
        for field in dataclasses.fields(objective.Settings):
            others = (
                [not field.default]
                if isinstance(field.default, bool)
                else field.metadata["choices"] or []
            )
            for other in set(others) - {field.default}:
                yield (
                    f"{name}-{field.name}={other}",
                    objective(objective.Settings(**{field.name: other})),
                )


ALL = dict(variants())


class Candidates(NamedTuple):
    """What is told of the candidates of some examples, (n, N) each."""

    z: np.ndarray
    label: np.ndarray
    sample_count: np.ndarray
    log_expected_count: np.ndarray

    @property
    def weighed(self):
        return (self.label > 0) | (self.sample_count > 0)

    @property
    def importance(self):
        return self.sample_count / np.exp(self.log_expected_count)


def answer(
    objective,
    z,
    label,
    sample_count,
    log_expected_count,
    state=None,
    n_updates=FROZEN,
    key=None,
    lr=0.0,
    dtype=np.float64,
    n_draws=5,
    n_classes=N,
    uniforms=None,
    plain=False,
):
    """Loss, coefficients and state afterwards. Where a row has no weight, garbage stands; `plain`
    runs all of it as Python.
    """
    printed = (
        np.atleast_2d(np.array(a, dtype=np.float64))
        for a in (z, label, sample_count, log_expected_count)
    )
    printed = Candidates(*printed)
    n_examples, n = printed.z.shape
    rows = [np.zeros((n_examples + 1, n + 2), dtype) for _ in printed]
    for row, value in zip(
        rows, printed._replace(z=np.where(printed.weighed, printed.z, GARBAGE)), strict=True
    ):
        row[:n_examples, :n] = value
    key = np.arange(n_examples) if key is None else np.array(key)
    state = (
        np.zeros((key.max() + 1, objective.state_width), dtype)
        if state is None
        else state.astype(dtype)
    )
    if uniforms is None:
        uniforms = np.random.default_rng(0).uniform(
            0.01, 0.99, (n_examples, objective.uniforms_width)
        )
    n_updates = np.broadcast_to(np.array(n_updates, dtype=np.int64), n_examples).copy()
    score_gain = np.zeros_like(rows[0])
    score_gain[:n_examples, :n] = np.linspace(0.5, 2, printed.z.size).reshape(printed.z.shape)
    batch = Batch(*rows, uniforms.astype(dtype), key, n_updates, score_gain)
    constants = objective.constants(n_draws, n_classes).astype(dtype)
    coefficients, parts = reference.coefficients_of(objective, dtype), contextlib.nullcontext()
    if plain and hasattr(coefficients, "py_func"):
        coefficients = coefficients.py_func
        parts = mock.patch.object(
            adjusted.Part, "__call__", lambda part, *arguments: part.py_func(*arguments)
        )
    with parts, np.errstate(all="ignore"):  # garbage may overflow before it is dropped
        loss = coefficients(batch, state, constants, n_examples, n, dtype(lr))
    return float(loss), batch.z[:n_examples, :n], state


def examples(objective, n=4, seed=0):
    """Examples such as the objective takes; in each some column has no weight."""
    rng = np.random.default_rng(seed)
    z = rng.normal(0, 1.5, (n, N))
    label, sample_count = np.zeros((n, N)), np.zeros((n, N))
    for e in range(n):
        if "path" in objective.candidates:
            depth = rng.integers(1, N)
            label[e, :depth] = rng.integers(0, 2, depth)
            sample_count[e, :depth] = 1 - label[e, :depth]
            continue
        sample_count[e] = 1 if objective.candidates == ("all",) else rng.choice([0, 1, 1, 2], N)
        places = rng.permutation(N)
        sample_count[e, places[3]] = 0
        sample_count[e, places[4]] = 1
        weights = {"single": [1.5], "joint": [1, 0.5], "summed": [1, 2]}[objective.positives]
        for place, weight in zip(places, weights, strict=False):
            label[e, place] = weight
            sample_count[e, place] = 1 if objective.keeps_accidental_hits else 0
    printed = Candidates(z, label, sample_count, 0 * z)
    if objective.uses_log_expected_count:
        printed.log_expected_count[:] = np.where(
            printed.weighed, np.log(rng.uniform(0.2, 0.8, (n, N))), 0
        )
    return printed


UNIFORM, UNIGRAM = np.full(K, 1 / K), np.array([0.3, 0.25, 0.2, 0.12, 0.08, 0.05])


def some_scores(n=20, k=K, size=2.0, seed=6):
    rng = np.random.default_rng(seed)
    return rng.normal(0, size, (n, k)), rng.integers(0, k, n)


def make(name, **settings):
    return OBJECTIVES[name](OBJECTIVES[name].Settings(**settings))


def one(objective, seed=3):
    """The candidates of one example, (N,) each, and the column of its first positive."""
    printed = Candidates(*(a[0] for a in examples(objective, seed=seed)))
    return printed, int(printed.label.argmax())

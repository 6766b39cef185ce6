"""The contract between an objective and the engine: everything about an objective is a function of scores.

    scores z_k = h·w_k         for the rows that compete: the positives and a selected set
    loss, c_k = ∂loss/∂z_k     what `coefficients` makes of them
    w_k -= lr · c_k · h        h -= lr · Σ_k c_k w_k: the engine's business

`coefficients` is one compiled function with this signature for every objective, so that one compiled engine serves them all by
an indirect call. It is handed the examples of a block, a row of each matrix for each example:

    coefficients(z, label, times, loge, state, noise, numbers, key, visits, norm, n_examples, n, lr) -> summed loss, float64

    z        float32 (>= n_examples, >= n)  scores; overwritten by ∂loss/∂z
    label    like z    weight of a positive, 0 for every other row (on the path of a tree: the bit)
    times    like z    how often the row was drawn as noise
    loge     like z    log of the expected number of draws; 1 / e^loge is the weight that makes a sum over draws unbiased
    state    float32 (keys, state_width)  what the objective keeps per key, updated in place
    noise    float32 (>= n_examples, >= noise_width)  fresh uniform numbers in (0, 1)
    numbers  float32   constants of the run, from `Objective.numbers`
    key      int64 (>= n_examples,)  each example's row of `state`: the input word (skip-gram) or the row (classification)
    visits   int64 (>= n_examples,)  how often that key was seen before
    norm     float32 (>= n_examples,)  |h|², for objectives whose step is not a gradient
    lr       float32   learning rate

An example is one (input, positive) pair; an objective with `multi_positive` gets all positives of an input at once instead,
each draw then counted once for each of them; a row that is both positive and drawn may then stand twice, once with each weight,
so its loss must be a sum over rows. Otherwise such a row stands once, with both weights if the objective `keeps_hits` and with
its label alone if not. Rows may have neither weight, and must then get coefficient 0.
"""

from typing import Any, ClassVar

import numpy as np
from numba import types

from embedx.settings import Settings

_MATRIX = types.Array(types.float32, 2, "C")
_VECTOR = types.Array(types.float32, 1, "C")
_NUMBERS = types.Array(types.int64, 1, "C")

COEFFICIENTS = types.float64(
    _MATRIX, _MATRIX, _MATRIX, _MATRIX, _MATRIX, _MATRIX, _VECTOR,
    _NUMBERS, _NUMBERS, _VECTOR, types.int64, types.int64, types.float32,
)  # fmt: skip


class Objective:
    """What an objective declares. Everything but `coefficients` has a default."""

    name: ClassVar[str]  # what the user types after --objective
    title: ClassVar[str]
    paper: ClassVar[str]
    Settings: ClassVar[type[Settings]] = Settings
    coefficients: ClassVar[Any]
    multi_positive: ClassVar[bool] = False
    keeps_hits: ClassVar[bool] = False
    uses_loge: ClassVar[bool] = True  # False saves filling it
    uses_norm: ClassVar[bool] = False  # True asks for `norm` to be filled
    state_width: ClassVar[int] = 0
    noise_width: ClassVar[int] = 0

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def n_rows(self, n_classes: int) -> int:
        """How many output rows score `n_classes` classes."""
        return n_classes

    def numbers(self, n_draws: int) -> np.ndarray:
        """float32: constants that `coefficients` needs, given how many noise rows are drawn for an example."""
        return np.zeros(1, dtype=np.float32)

    def log_probability(self, z: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        """log p(k | h), float (..., K), from the scores of all rows (..., rows) and the log of the noise distribution (K,)."""
        return log_softmax(z)


def log_softmax(z: np.ndarray) -> np.ndarray:
    """z minus the log of the sum of its exponentials along the last axis."""
    shifted = z - z.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

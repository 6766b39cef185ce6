"""The contract between an objective and the engine: an objective works on scores, and the engine does the rest.

    scores z_k = h·w_k         for the candidates: the positives and a selected set of output rows
    loss, c_k = ∂loss/∂z_k     what `coefficients` makes of them
    w_k -= lr · c_k · h        h -= lr · Σ_k c_k w_k: the engine's business

`coefficients` is one compiled function with this signature for every objective, so that one compiled engine serves them all by
an indirect call. It is handed the examples of a block, a row of each matrix for each example, a column for each candidate:

    coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr) -> summed loss, float64

    z         float32 (>= n_examples, >= n)  scores; overwritten by ∂loss/∂z, with the state held fixed
    label     like z    the weight of a positive, else 0; on the path of a tree the bit
    times     like z    how often the candidate was drawn as noise; on a tree path 1 - bit; 1 for all rows of an exact loss
    loge      like z    log of the expected number of draws, for a positive as if it were noise; 0 where nothing was drawn.
                        times / e^loge is the weight that makes a sum over the draws an unbiased sum over all rows
    state     float32 (keys, state_width)  kept per key by the objective; updated first, so that z is answered at the new state
    uniforms  float32 (>= n_examples, >= uniforms_width)  fresh random numbers in (0, 1)
    numbers   float32   constants of the run, from `Objective.numbers`
    key       int64 (>= n_examples,)  each example's place in `state`: its input word (skip-gram) or its number (classification)
    visits    int64 (>= n_examples,)  how often that key was seen before; at 0 the state holds nothing yet
    norm      float32 (>= n_examples,)  |h|², for objectives whose step is not a gradient
    lr        float32   learning rate, by which the engine multiplies the coefficients afterwards

Examples are to be taken in order, for several may share a key. A candidate with neither label nor times holds whatever was
there before: it gets coefficient 0 and must stay out of sums and maxima. An example without any weight leaves its state alone.

An example is one (input, positive) pair. An objective whose loss is a sum over candidates may declare `additive` instead, and
gets all positives of an input at once: every draw then counts once for each of them, and an output row may stand several
times, as centres that repeat and as noise. Otherwise each row stands once, and one that is both the positive and drawn has both
weights if the objective `keeps_hits`, its label alone if not.
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
    additive: ClassVar[bool] = False  # the loss is a sum over candidates; requires keeps_hits
    keeps_hits: ClassVar[bool] = False
    stable: ClassVar[bool] = False  # finite at any score
    uses_loge: ClassVar[bool] = True  # False saves filling it
    uses_norm: ClassVar[bool] = False  # True asks for `norm` to be filled
    state_width: ClassVar[int] = 0
    uniforms_width: ClassVar[int] = 0

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    def n_rows(self, n_classes: int) -> int:
        """How many output rows score `n_classes` classes."""
        return n_classes

    def numbers(self, n_draws: int) -> np.ndarray:
        """float32: constants that `coefficients` needs, given how many noise rows are drawn for an example."""
        return np.zeros(1, dtype=np.float32)

    def log_probability(self, z: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        """log p(k | h), float (..., K), from the scores of all rows (..., rows) and the log of the noise
        distribution, (K,) or (..., K) where it depends on the input.
        """
        return log_softmax(z)


def log_softmax(z: np.ndarray) -> np.ndarray:
    """z minus the log of the sum of its exponentials along the last axis."""
    shifted = z - z.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

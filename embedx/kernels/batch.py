"""The batch that an objective works on, examples with their candidates, and the compiled signature
of `coefficients`.

`embedx.objectives.contract` says what the arrays mean and what an objective may do with them.
"""

from typing import Any, NamedTuple

import numba
import numpy as np
from numba import types
from numpy import float32, int64, ndarray


class Batch(NamedTuple):
    """A batch of examples: matrices have a row per example and a column per candidate. float32, or
    float64 for L-BFGS.
    """

    z: ndarray  # (examples, candidates): scores; overwritten by ∂loss/∂z
    # like z: the weight of a positive, or its number of pairs, else 0; on a tree: the number of
    # pairs whose bit is 1
    label: ndarray
    # like z: how often a candidate was drawn; on a tree: the number of pairs whose bit is 0
    sample_count: ndarray
    log_expected_count: ndarray  # like z: log of the expected number of draws
    uniforms: ndarray  # (examples, uniforms_width): random numbers in (0, 1)
    state_row: ndarray  # int64 (examples,): each example's row in the objective's state
    n_updates: ndarray  # int64 (examples,): number of updates of that row so far
    score_gain: ndarray  # like z: change of a score per unit of lr · its coefficient


def new_batch(
    n_examples: int, n_candidates: int, uniforms_width: int = 0, dtype: Any = float32
) -> Batch:
    """Memory for a batch, all zeros."""
    return Batch(
        z=np.zeros((n_examples, n_candidates), dtype),
        label=np.zeros((n_examples, n_candidates), dtype),
        sample_count=np.zeros((n_examples, n_candidates), dtype),
        log_expected_count=np.zeros((n_examples, n_candidates), dtype),
        uniforms=np.zeros((n_examples, uniforms_width), dtype),
        state_row=np.zeros(n_examples, int64),
        n_updates=np.zeros(n_examples, int64),
        score_gain=np.zeros((n_examples, n_candidates), dtype),
    )


def _signature(dtype: Any) -> Any:
    """coefficients(batch, state, constants, n_examples, n_candidates, lr) -> loss, in float32 or
    float64.
    """
    batch = numba.typeof(new_batch(0, 0, dtype=dtype))
    vector = numba.typeof(np.zeros(0, dtype))
    return types.float64(batch, batch.types[0], vector, types.int64, types.int64, vector.dtype)


COEFFICIENTS = _signature(float32)
COEFFICIENTS_64 = _signature(np.float64)

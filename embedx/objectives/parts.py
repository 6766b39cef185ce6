"""What several objectives do alike: find the positive, age a state's learning rate, log σ of many scores."""

import numpy as np
from numba.extending import register_jitable


@register_jitable
def positive(label, e, n):
    """The column of example e's first positive, -1 if it has none."""
    for k in range(n):
        if label[e, k] > 0:
            return k
    return -1


def log_sigmoid(z: np.ndarray) -> np.ndarray:
    """log σ(z) of an array, without overflow on either side."""
    return np.asarray(np.minimum(z, 0) - np.log1p(np.exp(-np.abs(z))))

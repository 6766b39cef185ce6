"""U-max step by step as its authors published it, to show what our changes and their mistakes do to the numbers.

From `Umax` and `tilde_Umax` of mnl.py in francoisfagan/Log-tricks at 7b8fde4, written anew: rows in the order of the file,
W = 0 and u = 0 at the start, m distinct classes drawn among all K of which the positive is then struck out, weight (K-1) / what
is left, u raised to what the sample shows when it is more than 1 below, no other bound on u. Three forms:

    PROPOSED        eq. 6, u = log η: the paper's own
    RAMAN           eq. 8, u = log Z: Raman et al. 2016
    RAMAN_AS_CODED  eq. 8 as the paper's figure 2 measured it: the slope of u has exp(exp(z_y - u)) for exp(z_y - u), and the
                    positive's row moves by (1 - exp(z_y - u)) in each of the example's features, not by that times the feature
"""

import math

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

PROPOSED, RAMAN, RAMAN_AS_CODED = 0, 1, 2
FORMS = {"proposed": PROPOSED, "raman": RAMAN, "raman as coded": RAMAN_AS_CODED}


@njit(cache=False)
def _draw(n_classes, drawn):
    """Overwrites drawn by distinct classes, as many as it has room for; there must be more classes."""
    for d in range(len(drawn)):
        is_new = False
        while not is_new:
            drawn[d] = np.random.randint(n_classes)  # noqa: NPY002 (numba has no other)
            is_new = True
            for before in range(d):
                is_new = is_new and drawn[before] != drawn[d]


@njit(cache=False)
def _epoch(offsets, columns, values, labels, w, u, m, lr, form):
    """One pass over the data; overwrites w, float64 (n_classes, n_features), and u, float64 (n,)."""
    n_classes = len(w)
    drawn = np.empty(m, dtype=np.int64)
    z = np.empty(m)
    for i in range(len(labels)):
        y, first, last = labels[i], offsets[i], offsets[i + 1]
        n = 0
        _draw(n_classes, drawn)
        for d in range(m):
            if drawn[d] != y:
                drawn[n] = drawn[d]
                n += 1
        if n == 0:
            continue
        own = 0.0
        for f in range(first, last):
            own += values[f] * w[y, columns[f]]
        origin = own if form == PROPOSED else 0.0
        largest = own - origin
        for j in range(n):
            z[j] = -origin
            for f in range(first, last):
                z[j] += values[f] * w[drawn[j], columns[f]]
            largest = max(largest, z[j])
        seen = math.exp(own - origin - largest)
        for j in range(n):
            seen += math.exp(z[j] - largest)
        seen = largest + math.log(seen)
        if u[i] < seen - 1:
            u[i] = seen
        mass = math.exp(own - origin - u[i])
        slope = 1 - (math.exp(mass) if form == RAMAN_AS_CODED else mass)
        pull = 0.0
        for j in range(n):
            z[j] = (n_classes - 1) / n * math.exp(z[j] - u[i])
            pull += z[j]
        slope -= pull
        u[i] -= lr * slope
        if form == PROPOSED:
            u[i] = max(u[i], 0.0)
        ahead = pull if form == PROPOSED else 1 - mass
        for f in range(first, last):
            for j in range(n):
                w[drawn[j], columns[f]] -= lr * z[j] * values[f]
            w[y, columns[f]] += lr * ahead * (1.0 if form == RAMAN_AS_CODED else values[f])


@njit(cache=False)
def _set_seed(seed):
    np.random.seed(seed)  # noqa: NPY002


def train(
    features: csr_matrix,
    labels: np.ndarray,
    n_classes: int,
    *,
    form: str,
    lr: float,
    decay: float,
    epochs: int,
    m: int,
    seed: int,
    start: float = 0.0,
) -> np.ndarray:
    """The rows after training, float64 (n_classes, n_features); they may not be finite. `start` is the first u."""
    if m >= n_classes:
        raise ValueError(f"{m} distinct classes are drawn of {n_classes}")
    w = np.zeros((n_classes, features.shape[1]))
    u = np.full(len(labels), start)
    _set_seed(seed)
    for epoch in range(epochs):
        values = features.data.astype(np.float64)
        _epoch(features.indptr, features.indices, values, labels, w, u, m, lr * decay**epoch, FORMS[form])
    return w

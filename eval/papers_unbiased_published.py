"""U-max as its authors' code has it, written anew to show what its start and its mistakes do to the
numbers: `Umax` and `tilde_Umax` of mnl.py in francoisfagan/Log-tricks at 7b8fde4.

Rows are visited in the order of the file. m distinct classes are drawn of all K, and the positive
is struck out of them; the weight of those left is (K - 1) over their number. u is raised to the
estimate from the draws where it lies more than 1 below it, and has no other bound. The forms:

    proposed        eq. 6, u = log η
    Raman           eq. 8, u = log Z: Raman et al. 2016
    Raman as coded  eq. 8 as figure 2 measured it: the gradient of u has exp(exp(z_y - u)) for
                    exp(z_y - u), and that of the positive is not multiplied by the features
"""

import math

import numpy as np
from numba import njit
from scipy.sparse import csr_matrix

PROPOSED, RAMAN, RAMAN_AS_CODED = 0, 1, 2
FORMS = {"proposed": PROPOSED, "Raman": RAMAN, "Raman as coded": RAMAN_AS_CODED}


def train(
    features: csr_matrix,
    labels: np.ndarray,
    n_classes: int,
    *,
    form: str,
    rate: float,
    decay: float,
    epochs: int,
    m: int,
    seed: int,
    first_u: float,
) -> np.ndarray:
    """The weights after training, float64 (n_classes, n_features); they may not be finite.

    labels   int (n_rows,)
    form     one of FORMS
    rate     of the first epoch; times `decay` after each
    m        number of distinct classes that are drawn, below `n_classes`
    first_u  u of all rows at the start
    """
    weights = np.zeros((n_classes, features.shape[1]))
    u = np.full(len(labels), first_u)
    values = features.data.astype(np.float64)
    set_seed(seed)
    for epoch in range(epochs):
        train_epoch(
            features.indptr,
            features.indices,
            values,
            labels,
            weights,
            u,
            m,
            rate * decay**epoch,
            FORMS[form],
        )
    return weights


@njit(cache=False)
def set_seed(seed):
    np.random.seed(seed)  # noqa: NPY002 (numba has no other)


@njit(cache=False)
def train_epoch(offsets, columns, values, labels, weights, u, m, rate, form):
    """One pass over the rows; overwrites `weights` and `u`."""
    drawn = np.empty(m, np.int64)
    pull = np.empty(m)
    for i in range(len(labels)):
        y = labels[i]
        row = slice(offsets[i], offsets[i + 1])
        x = values[row]
        at = columns[row]
        n = draw(drawn, len(weights), y)
        if n == 0:
            continue
        z_y = score(weights, y, at, x)
        origin = z_y if form == PROPOSED else 0.0
        for j in range(n):
            pull[j] = score(weights, drawn[j], at, x) - origin
        estimate = log_sum_exp(pull[:n], z_y - origin)
        if u[i] < estimate - 1:
            u[i] = estimate

        for j in range(n):
            pull[j] = (len(weights) - 1) / n * math.exp(pull[j] - u[i])
        all_pulls = pull[:n].sum()
        p_of_label = math.exp(z_y - origin - u[i])
        in_slope = math.exp(p_of_label) if form == RAMAN_AS_CODED else p_of_label
        u[i] -= rate * (1 - in_slope - all_pulls)
        if form == PROPOSED:
            u[i] = max(u[i], 0.0)

        push = all_pulls if form == PROPOSED else 1 - p_of_label
        for f in range(len(at)):
            for j in range(n):
                weights[drawn[j], at[f]] -= rate * pull[j] * x[f]
            weights[y, at[f]] += rate * push * (1.0 if form == RAMAN_AS_CODED else x[f])


@njit(cache=False)
def draw(drawn, n_classes, positive):
    """Draw distinct classes, as many as `drawn` has room for, and strike out the positive; return
    how many are left.
    """
    for d in range(len(drawn)):
        is_new = False
        while not is_new:
            drawn[d] = np.random.randint(n_classes)  # noqa: NPY002 (numba has no other)
            is_new = not (drawn[:d] == drawn[d]).any()
    n = 0
    for d in range(len(drawn)):
        if drawn[d] != positive:
            drawn[n] = drawn[d]
            n += 1
    return n


@njit(cache=False)
def score(weights, k, at, x):
    """The score of class k, for a row with the values x of the features `at`."""
    z = 0.0
    for f in range(len(at)):
        z += x[f] * weights[k, at[f]]
    return z


@njit(cache=False)
def log_sum_exp(z, other):
    """The log of the summed exponentials of z and one more number."""
    largest = max(z.max(), other)
    return largest + math.log(np.exp(z - largest).sum() + math.exp(other - largest))

"""Decisions from probabilities: a threshold for F1, and conformal sets of labels, both chosen on
rows held out of training.

Both use the best labels of a row and their probabilities, from `Classifier.top_k`. A set for a
coverage c has all labels of probability at least t, the largest t for which the n held-out rows
have

    Σ_i |set_i ∩ y_i| / |y_i|  >=  c (n + 1)                              y_i: the labels of row i

Then the expected share of the labels of a new row that are in its set is at least c: this is
conformal risk control of the false negative rate (Angelopoulos, Bates, Fisch, Lei & Schuster 2024,
with B = 1). With one label a row it is split conformal prediction (Vovk, Gammerman & Shafer 2005),
and the label is in the set with probability c. One threshold on the probability of the label gives
the smallest sets on average (Sadinle, Lei & Wasserman 2019), of which some are empty.

The same rows calibrate the probabilities, so that the guarantee holds nearly; with one half of the
rows for each it would hold, and coverage would vary more.

coverage.npy  float64 (2, m)  distinct thresholds, descending to 0; the sum above at each of them, n
                              at the last
"""

import math
from collections.abc import Mapping

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, SettingError
from embedx.storage.folder_files import REMEDY
from embedx.storage.schema import Array

ARRAYS = {"coverage": Array(("sums of coverage", "thresholds"), ("float64",))}
# Maximum number of labels of a row above a threshold.
MAX_ABOVE = 100
# Maximum number of labels in a set.
MAX_IN_SET = 1000
# With a tree, the number that the default beam finds in every row.
MAX_IN_SET_OF_TREE = 300
DEFAULT_THRESHOLD = 0.5


def check(arrays: Mapping[str, ndarray]) -> None:
    """Raise `DataError` if the sums of coverage, if there are any, are not valid."""
    sums = arrays.get("coverage", np.array([[0.0], [1.0]]))
    if (
        len(sums) != 2
        or not sums.size
        or sums[0, -1] != 0
        or (np.diff(sums) * [[-1], [1]] < 0).any()
    ):
        problem = "must have two rows: thresholds that descend to 0, and sums that ascend"
        raise DataError("coverage.npy", None, problem, REMEDY)


def coverage_sums(p: ndarray, is_right: ndarray, n_true: ndarray) -> ndarray:
    """Thresholds and their sums of coverage, float64 (2, m), for `threshold_of`.

    p         float (n, k): probabilities of the best labels of each row; 0 for a label that was not
              found
    is_right  bool (n, k)
    n_true    int (n,): labels of each row, at least 1
    """
    row, column = np.nonzero(is_right & (p > 0))
    thresholds, which = np.unique(-p[row, column].astype(np.float64), return_inverse=True)
    sums = np.cumsum(np.bincount(which, weights=1 / n_true[row], minlength=len(thresholds)))
    return np.array([[*-thresholds, 0.0], [*np.minimum(sums, len(p)), len(p)]])


def threshold_of(sums: ndarray, coverage: float) -> float:
    """The minimum probability of labels in sets of this coverage. Raises `EmbedxError` if no
    threshold reaches it.
    """
    n = sums[1, -1]
    reaching = np.flatnonzero(sums[1, :-1] >= coverage * (n + 1) - 1e-9)
    if len(reaching):
        return float(sums[0, reaching[0]])
    max_coverage = math.floor(1000 * float(sums[1, :-1].max(initial=0)) / (n + 1)) / 1000
    reason = f"by {n:,.0f} held-out rows and the labels found for them"
    raise SettingError("coverage", coverage, f"at most {max_coverage:g} is possible, {reason}")


def best_threshold(p: ndarray, is_right: ndarray, n_true: int) -> float:
    """The minimum probability of predicted labels that gives the highest micro-averaged F1.

    p, is_right  as for `coverage_sums`; n_true counts the labels of all rows
    """
    order = np.argsort(-p, axis=None, kind="stable")
    ordered = p.ravel()[order]
    is_last_of_equals = np.append(np.diff(ordered) < 0, True)[: len(ordered)]
    f1 = np.where(
        is_last_of_equals & (ordered > 0),
        2 * np.cumsum(is_right.ravel()[order]) / (np.arange(1, len(order) + 1) + n_true),
        0,
    )
    return float(ordered[f1.argmax()]) if f1.any() else DEFAULT_THRESHOLD

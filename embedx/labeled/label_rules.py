"""Label rules: which labels of a row are trained on and tested."""

import numpy as np
from numpy import ndarray

from embedx.labeled.data import Labels

LABEL_RULES = ("all", "first", "lowest-id", "one")


def chosen_labels(labels: Labels, rule: str) -> Labels:
    """The labels that count: the first of each row, that with the lowest id, or all.

    With "one" all of them are kept, because training chooses one at each visit.
    """
    if rule not in ("first", "lowest-id"):
        return labels
    starts = labels.offsets[:-1][labels.n_of_row > 0]
    if rule == "first":
        return labels.where(starts)
    return labels.where(np.lexsort((labels.ids, labels.row_of_id))[starts])


def known_labels(labels: Labels, counts: ndarray) -> Labels:
    """Without the labels that no training row has; counts int64 (n_labels,)."""
    return labels.where(np.isin(labels.ids, np.flatnonzero(counts)))

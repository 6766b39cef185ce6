"""The path of a tree: the rows that compete are the inner nodes on the way to the positive."""

from typing import NamedTuple

import numpy as np


class Paths(NamedTuple):
    """A tree over classes: the nodes met on the way to class k, and which way to turn, are those at offsets[k]:offsets[k+1]."""

    offsets: np.ndarray  # int64 (n_classes + 1,)
    nodes: np.ndarray  # int32: output rows
    bits: np.ndarray  # float32: 1 or 0

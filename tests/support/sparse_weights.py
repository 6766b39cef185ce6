"""Sparse weights of a classifier as a dense matrix."""

import numpy as np


def dense_of(level, n_features):
    """float64 (n_nodes, n_features): a level's weights."""
    w = np.zeros((len(level.bias), n_features))
    for c in range(level.n_groups):
        for row in range(level.first_row[c], level.first_row[c + 1]):
            for at in range(level.first_weight[row], level.first_weight[row + 1]):
                w[level.first_node[c] + level.child[at], level.features[row]] = level.weight[at]
    return w

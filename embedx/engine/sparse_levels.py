"""Sparse output rows in groups, and the best of those that an example meets: the parts of a tree
over labels, or all labels.

A `Level` of a tree has nodes, in groups: the children of one node of the level above. For scoring,
the weights of a group stand by feature (inverted lists): what a feature says to all nodes of the
group, side by side. The examples that meet a group are scored one after another, so that the
group's features are looked up by a table made once for all of them.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels import best_of_rows, kernel
from embedx.kernels.threads import in_parts

LOWEST = float32(-3e38)  # in place of -inf: the score of a place that no node takes


class Level(NamedTuple):
    """Nodes of a tree: those of group c, the children of node c of the level above, are
    first_node[c]:first_node[c + 1].
    """

    first_node: ndarray  # int64 (n_groups + 1,)
    # int64 (n_groups + 1,): the features that a group has weights for: features[first_row[c]: ...]
    first_row: ndarray
    features: ndarray  # int32 (n_rows,)
    first_weight: ndarray  # int64 (n_rows + 1,): the weights of a feature in its group
    # int32 (n_weights,): the node that a weight belongs to, counted from the first of its group
    child: ndarray
    weight: ndarray  # float32 (n_weights,)
    bias: ndarray  # float32 (n_nodes,)

    @property
    def n_groups(self) -> int:
        return len(self.first_node) - 1

    @property
    def widest(self) -> int:
        """The largest number of nodes in a group."""
        return int(np.diff(self.first_node).max(initial=0))


def level_of(
    first_node: ndarray,
    tiles: Sequence[tuple[int, int, ndarray, ndarray, ndarray]],
    bias: ndarray,
    n_features: int,
) -> Level:
    """A level from the weights of its tiles, in order: (group, first node, feature, node within the
    tile, weight) of each.
    """
    n_groups = len(first_node) - 1
    none = np.zeros(0, int32)
    tiles = [(0, 0, none, none, np.zeros(0, float32)), *tiles]
    feature, weight = (np.concatenate([tile[k] for tile in tiles]) for k in (2, 4))
    child = np.concatenate(
        [lane + int32(first - first_node[group]) for group, first, _, lane, _ in tiles]
    )
    sizes = [len(tile[2]) for tile in tiles]
    row = np.repeat(np.array([tile[0] for tile in tiles], int64) * n_features, sizes) + feature
    order = np.argsort(row, kind="stable")
    first_weight = np.flatnonzero(np.diff(row[order], prepend=-1))
    rows = row[order[first_weight]]
    return Level(
        first_node,
        np.searchsorted(rows, np.arange(n_groups + 1) * n_features),
        (rows % max(n_features, 1)).astype(int32),
        np.append(first_weight, len(weight)),
        child[order],
        weight[order],
        bias,
    )


@kernel
def score_visits(offsets, columns, values, level, example, group, slot, begin, end, local, out):
    """Write to out[slot[v]] the scores of the nodes of group[v] for example[v], for v in begin:end,
    sorted by group.

    offsets, columns, values   features, a row for each example
    local                      int64 (n_features,)  -1 before and after
    out                        float32 (slots, widest group); beyond the group's nodes LOWEST
    """
    v = begin
    while v < end:
        c = int64(group[v])
        for row in range(level.first_row[c], level.first_row[c + 1]):
            local[level.features[row]] = row
        first = level.first_node[c]
        width = level.first_node[c + 1] - level.first_node[c]
        while v < end and group[v] == c:
            i = int64(example[v])
            s = int64(slot[v])
            for k in range(width):
                out[s, k] = level.bias[first + k]
            for k in range(width, out.shape[1]):
                out[s, k] = LOWEST
            for f in range(offsets[i], offsets[i + 1]):
                row = local[columns[f]]
                if row >= 0:
                    x = values[f]
                    for at in range(level.first_weight[row], level.first_weight[row + 1]):
                        out[s, level.child[at]] += x * level.weight[at]
            v += 1
        for row in range(level.first_row[c], level.first_row[c + 1]):
            local[level.features[row]] = -1


def scores_of(features: Any, level: Level) -> ndarray:
    """The scores of all nodes of a level of one group, float32 (n, n_nodes), for features
    csr_matrix (n, n_features).
    """
    n = features.shape[0]
    scores = np.empty((n, level.widest), float32)
    every = np.arange(n, dtype=int32)
    nowhere = np.full(features.shape[1], -1, int64)
    score_visits(
        features.indptr.astype(int64),
        features.indices,
        features.data,
        level,
        every,
        np.zeros(n, int32),
        every.astype(int64),
        0,
        n,
        nowhere,
        scores,
    )
    return scores


class BestNodes(NamedTuple):
    """The likeliest nodes of each example, best first; of places that none takes the
    log-probability is -inf.
    """

    node: ndarray  # int32 (n, width)
    log_p: ndarray  # float32 (n, width)


def best_nodes(
    features: Any, level: Level, above: BestNodes | None, k: int, log_probability: Any, threads: int
) -> BestNodes:
    """The k likeliest nodes of a level among the children of those that were found `above`; of all,
    where that is None.

    features          csr_matrix (n, n_features), float32
    log_probability   of nodes by themselves, from their scores
    """
    n = features.shape[0]
    if above is None:
        above = BestNodes(np.zeros((n, 1), int32), np.zeros((n, 1), float32))
    width = above.node.shape[1]
    is_there = np.isfinite(above.log_p.ravel())
    slots = np.flatnonzero(is_there)
    group = above.node.ravel()[slots]
    by_group = np.argsort(group, kind="stable")
    slot = slots[by_group].astype(int64)
    group = group[by_group]
    example = (slot // width).astype(int32)
    scores = np.empty((n * width, level.widest), float32)
    scores[~is_there] = LOWEST
    offsets = features.indptr.astype(int64)
    columns = features.indices
    kept = min(k, level.widest)
    place = np.zeros((n * width, kept), int32)
    best = np.zeros((n * width, kept), float32)

    def score(begin: int, end: int) -> None:
        local = np.full(features.shape[1], -1, int64)
        score_visits(
            offsets, columns, features.data, level, example, group, slot, begin, end, local, scores
        )

    in_parts(score, len(slot), threads)
    in_parts(lambda begin, end: best_of_rows(scores, begin, end, place, best), n * width, threads)
    is_node = best > LOWEST
    with np.errstate(all="ignore"):
        log_p = (
            np.where(is_node, log_probability(best), -np.inf).reshape(n, -1, kept)
            + above.log_p[:, :, None]
        )
    node = (place * is_node).reshape(log_p.shape) + level.first_node[above.node][:, :, None].astype(
        int32
    )
    log_p = log_p.reshape(n, -1).astype(float32)
    k = min(k, log_p.shape[1])
    place = np.zeros((n, k), int32)
    best = np.zeros((n, k), float32)
    best_of_rows(log_p, 0, n, place, best)
    return BestNodes(np.take_along_axis(node.reshape(n, -1), place, axis=1), best)

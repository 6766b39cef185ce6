"""Prediction with sparse output rows: scores of the nodes of a label tree by level, or of all
labels.

A group of a `Level` is the children of one node of the level above. Its weights are stored by
feature (inverted lists): the weights of a feature for all nodes of the group are side by side. The
examples that reach a group are scored one after another, with one lookup table of the group's
features.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels import best_of_rows, kernel, place_of
from embedx.kernels.threads import in_parts, in_threads
from embedx.labeled.data import offsets_of

EVERY = 64  # one weight in EVERY is sampled, to divide the weights into parts
# Weights that a thread sorts at a time, in about 24 bytes each.
WEIGHTS_PER_PART = 1 << 23
# Rows of the lookup table that are entered and cleared in the time of one binary search.
ROWS_PER_SEARCH = 16
LOWEST = float32(-3e38)  # in place of -inf: the score of an unused place


class Level(NamedTuple):
    """A level of a tree. Group c, the children of node c of the level above, has the nodes
    first_node[c]:first_node[c + 1].
    """

    first_node: ndarray  # int64 (n_groups + 1,)
    # int64 (n_groups + 1,): group c has weights for features[first_row[c]:first_row[c + 1]]
    first_row: ndarray
    features: ndarray  # int32 (n_rows,)
    # int64 (n_rows + 1,): row r has weight[first_weight[r]:first_weight[r + 1]]
    first_weight: ndarray
    # int32 (n_weights,): the node of a weight, counted from the first node of its group
    child: ndarray
    weight: ndarray  # float32 (n_weights,)
    bias: ndarray  # float32 (n_nodes,)

    @property
    def n_groups(self) -> int:
        return len(self.first_node) - 1

    @property
    def widest(self) -> int:
        """Maximum number of nodes in a group."""
        return int(np.diff(self.first_node).max(initial=0))


class TileWeights(NamedTuple):
    """The weights of a tile: of some adjacent nodes of a group."""

    group: int
    first_node: int
    feature: ndarray  # int32 (n_weights,)
    child: ndarray  # int32 (n_weights,): the node, counted from `first_node`
    weight: ndarray  # float32 (n_weights,)


class _Rows(NamedTuple):
    """Rows of a `Level`, by group and feature."""

    features: ndarray  # int32 (n_rows,)
    n_weights: ndarray  # int32 (n_rows,)
    n_rows_of_group: ndarray  # int64 (n_groups,)


def level_of(
    first_node: ndarray,
    tiles: Sequence[TileWeights],
    bias: ndarray,
    n_features: int,
    threads: int = 1,
) -> Level:
    """A level from the weights of its tiles, in the order of their nodes.

    Ranges of rows are sorted one after another by each thread, and written to their places.
    """
    n_groups = len(first_node) - 1
    n_weights = sum(len(tile.weight) for tile in tiles)
    n_parts = max(threads, -(-n_weights // WEIGHTS_PER_PART))
    edges = _row_edges(tiles, n_groups, n_features, n_parts)

    def selected(begin: int, end: int) -> list[tuple[TileWeights, slice | ndarray]]:
        """The tiles with weights in the rows begin:end, and which of their weights these are."""
        return [
            (tile, _between(begin, end, tile, n_features))
            for tile in tiles
            if tile.group * n_features < end and begin < (tile.group + 1) * n_features
        ]

    def size(begin: int, end: int) -> int:
        return sum(len(tile.weight[here]) for tile, here in selected(begin, end))

    first_of_part = offsets_of(np.array(in_threads(size, threads, edges[:-1], edges[1:])))
    child = np.empty(n_weights, int32)
    weight = np.empty(n_weights, float32)

    def write(begin: int, end: int, first: int) -> _Rows:
        """Write the weights of the rows begin:end, those of a row in the order of their nodes."""
        rows = [np.zeros(0, int64)]
        children = [np.zeros(0, int32)]
        weights = [np.zeros(0, float32)]
        for tile, here in selected(begin, end):
            rows.append(tile.group * n_features + tile.feature[here].astype(int64))
            children.append(tile.child[here] + int32(tile.first_node - first_node[tile.group]))
            weights.append(tile.weight[here])
        row = np.concatenate(rows)
        order = np.argsort(row, kind="stable")
        row = row[order]
        child[first : first + len(row)] = np.concatenate(children)[order]
        weight[first : first + len(row)] = np.concatenate(weights)[order]
        first_in_row = np.flatnonzero(np.diff(row, prepend=-1))
        row_of_level = row[first_in_row]
        return _Rows(
            (row_of_level % max(n_features, 1)).astype(int32),
            np.diff(first_in_row, append=len(row)).astype(int32),
            np.bincount(row_of_level // max(n_features, 1), minlength=n_groups),
        )

    parts = in_threads(write, threads, edges[:-1], edges[1:], first_of_part[:-1].tolist())
    return Level(
        first_node,
        offsets_of(np.sum([part.n_rows_of_group for part in parts], axis=0)),
        np.concatenate([part.features for part in parts]),
        offsets_of(np.concatenate([part.n_weights for part in parts])),
        child,
        weight,
        bias,
    )


def _row_edges(
    tiles: Sequence[TileWeights], n_groups: int, n_features: int, n_parts: int
) -> list[int]:
    """Edges of n_parts ranges of rows with about equally many weights, by a sample of these. A row
    is a group and a feature: group · n_features + feature.
    """
    sampled = [int64(tile.group) * n_features + tile.feature[::EVERY] for tile in tiles]
    rows = np.sort(np.concatenate([np.zeros(1, int64), *sampled]))
    inner = rows[np.arange(1, n_parts) * len(rows) // n_parts]
    return [0, *inner.tolist(), n_groups * n_features]


def _between(begin: int, end: int, tile: TileWeights, n_features: int) -> slice | ndarray:
    """The weights of a tile that are in the rows begin:end: all, or a mask of them."""
    first_row = tile.group * n_features
    if begin <= first_row and first_row + n_features <= end:
        return slice(None)
    return (tile.feature >= begin - first_row) & (tile.feature < end - first_row)


@kernel
def score_visits(offsets, columns, values, level, example, group, slot, begin, end, local, out):
    """Write to out[slot[v]] the scores of the nodes of group[v] for example[v], for the visits v in
    begin:end, sorted by group.

    offsets, columns, values   features, a row for each example
    local                      int64 (n_features,), the lookup table: -1 before and after
    out                        float32 (slots, widest group); LOWEST beyond the group's nodes
    """
    first_visit = begin
    while first_visit < end:
        c = int64(group[first_visit])
        end_visit = first_visit
        n_values = int64(0)
        while end_visit < end and group[end_visit] == c:
            i = int64(example[end_visit])
            n_values += offsets[i + 1] - offsets[i]
            end_visit += 1

        first_row = level.first_row[c]
        end_row = level.first_row[c + 1]
        # The lookup table pays if it saves more time of searches than it takes to fill and clear.
        is_tabled = n_values * ROWS_PER_SEARCH > end_row - first_row
        if is_tabled:
            for row in range(first_row, end_row):
                local[level.features[row]] = row
        for v in range(first_visit, end_visit):
            i = int64(example[v])
            s = int64(slot[v])
            first_node = level.first_node[c]
            width = level.first_node[c + 1] - first_node
            for k in range(width):
                out[s, k] = level.bias[first_node + k]
            for k in range(width, out.shape[1]):
                out[s, k] = LOWEST
            for f in range(offsets[i], offsets[i + 1]):
                if is_tabled:
                    row = local[columns[f]]
                else:
                    row = place_of(columns[f], level.features, first_row, end_row)
                if row >= 0:
                    x = values[f]
                    for at in range(level.first_weight[row], level.first_weight[row + 1]):
                        out[s, level.child[at]] += x * level.weight[at]
        if is_tabled:
            for row in range(first_row, end_row):
                local[level.features[row]] = -1
        first_visit = end_visit


def scores_of(features: Any, level: Level) -> ndarray:
    """The scores of all nodes of a level with one group, float32 (n, n_nodes), for features
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
    """The likeliest nodes of each example, best first; unused places have log-probability -inf."""

    node: ndarray  # int32 (n, width)
    log_p: ndarray  # float32 (n, width)


def best_nodes(
    features: Any, level: Level, above: BestNodes | None, k: int, log_probability: Any, threads: int
) -> BestNodes:
    """The k likeliest nodes of a level among the children of the nodes `above`, or among all nodes
    if that is None.

    features          csr_matrix (n, n_features), float32
    log_probability   function of the scores: log-probabilities of nodes, given their parents
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

    n_best = min(k, width * kept)
    nodes = np.zeros((n, n_best), int32)
    log_p = np.zeros((n, n_best), float32)

    def choose(begin: int, end: int) -> None:
        """Write the best children of the examples begin:end."""
        rows = slice(begin * width, end * width)
        is_node = best[rows] > LOWEST
        with np.errstate(all="ignore"):
            log_p_of_child = np.where(is_node, log_probability(best[rows]), -np.inf)
        log_p_of_row = (
            log_p_of_child.reshape(end - begin, width, kept) + above.log_p[begin:end, :, None]
        ).astype(float32)
        first = level.first_node[above.node[begin:end]].astype(int32)
        child = (place[rows] * is_node).reshape(log_p_of_row.shape)
        node_of_row = (child + first[:, :, None]).reshape(end - begin, width * kept)
        chosen = np.zeros((end - begin, n_best), int32)
        best_of_rows(
            log_p_of_row.reshape(node_of_row.shape), 0, end - begin, chosen, log_p[begin:end]
        )
        nodes[begin:end] = np.take_along_axis(node_of_row, chosen, axis=1)

    in_parts(choose, n, threads)
    return BestNodes(nodes, log_p)

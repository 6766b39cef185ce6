"""Prediction with sparse output rows: scores of the nodes of a label tree by level, or of all
labels.

The nodes of a level are in groups: the children of one node of the level above. Weights are stored
by group and feature: a *row* of a level has the weights of one feature for the nodes of one group,
side by side. An example visits some groups; the visits to a group follow each other, and share a
lookup table of its features.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels import best_of_rows, kernel, kernel_part, place_of
from embedx.kernels.threads import PARTS_PER_THREAD, in_parts, in_threads
from embedx.labeled.data import offsets_of

# Weights are divided into parts by a sample: one weight in this many.
SAMPLING_STEP = 64
# Weights that a thread sorts at a time, in about 24 bytes each.
WEIGHTS_PER_PART = 1 << 23
# Features that are entered into the lookup table and removed in the time of one binary search.
FEATURES_PER_SEARCH = 16
# Number of log-probabilities that are computed at a time, so that they stay in the caches.
CACHED_SCORES = 1 << 15
# The score of an unused place, in place of -inf.
LOWEST = float32(-3e38)


class Level(NamedTuple):
    """A level of a tree. Group c is the children of node c of the level above."""

    # Group c has the nodes first_node[c]:first_node[c + 1], and the rows
    # first_row[c]:first_row[c + 1].
    first_node: ndarray  # int64 (n_groups + 1,)
    first_row: ndarray  # int64 (n_groups + 1,)
    # Row r is of feature features[r], and has the weights first_weight[r]:first_weight[r + 1].
    features: ndarray  # int32 (n_rows,)
    first_weight: ndarray  # int64 (n_rows + 1,)
    child: ndarray  # int32 (n_weights,): node of a weight, counted from the first of its group
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


class _Features(NamedTuple):
    """Features in compressed sparse rows: example i has [offsets[i]:offsets[i + 1]]."""

    offsets: ndarray  # int64 (n + 1,)
    columns: ndarray  # int32
    values: ndarray  # float32


class _Visits(NamedTuple):
    """The groups that examples visit, sorted by group."""

    example: ndarray  # int32 (n_visits,)
    group: ndarray  # int32 (n_visits,)
    slot: ndarray  # int64 (n_visits,): the row of the scores that the visit writes


class _Part(NamedTuple):
    """The rows of a level in a range; see `_write_part`."""

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

    Rows are numbered group · n_features + feature here. Each thread sorts the weights of a range of
    these after another, and writes them to their places.
    """
    n_groups = len(first_node) - 1
    n_weights = sum(len(tile.weight) for tile in tiles)
    n_parts = max(threads, -(-n_weights // WEIGHTS_PER_PART))
    edges = _row_edges(tiles, n_groups, n_features, n_parts)

    def n_weights_of(begin: int, end: int) -> int:
        in_range = _weights_between(begin, end, tiles, n_features)
        return sum(len(tile.weight[chosen]) for tile, chosen in in_range)

    sizes = in_threads(n_weights_of, threads, edges[:-1], edges[1:])
    first_of_part = offsets_of(np.array(sizes))
    child = np.empty(n_weights, int32)
    weight = np.empty(n_weights, float32)

    def write(begin: int, end: int, first: int) -> _Part:
        """Write the weights of the rows begin:end to the places from `first` on."""
        row, child_of_row, weight_of_row = _sorted_weights(
            begin, end, tiles, first_node, n_features
        )
        stop = first + len(row)
        child[first:stop] = child_of_row
        weight[first:stop] = weight_of_row
        return _part(row, n_groups, n_features)

    parts = in_threads(write, threads, edges[:-1], edges[1:], first_of_part[:-1].tolist())
    return Level(
        first_node=first_node,
        first_row=offsets_of(np.sum([part.n_rows_of_group for part in parts], axis=0)),
        features=np.concatenate([part.features for part in parts]),
        first_weight=offsets_of(np.concatenate([part.n_weights for part in parts])),
        child=child,
        weight=weight,
        bias=bias,
    )


def _sorted_weights(
    begin: int, end: int, tiles: Sequence[TileWeights], first_node: ndarray, n_features: int
) -> tuple[ndarray, ndarray, ndarray]:
    """The row, child and weight of each weight of the rows begin:end, row by row, those of a row in
    the order of their nodes.
    """
    rows = [np.zeros(0, int64)]
    children = [np.zeros(0, int32)]
    weights = [np.zeros(0, float32)]
    for tile, chosen in _weights_between(begin, end, tiles, n_features):
        rows.append(tile.group * n_features + tile.feature[chosen].astype(int64))
        children.append(tile.child[chosen] + int32(tile.first_node - first_node[tile.group]))
        weights.append(tile.weight[chosen])
    row = np.concatenate(rows)
    by_row = np.argsort(row, kind="stable")
    return row[by_row], np.concatenate(children)[by_row], np.concatenate(weights)[by_row]


def _part(row: ndarray, n_groups: int, n_features: int) -> _Part:
    """The rows of a range, from the sorted row of each of its weights, int64."""
    first_in_row = np.flatnonzero(np.diff(row, prepend=-1))
    distinct_rows = row[first_in_row]
    group, feature = np.divmod(distinct_rows, max(n_features, 1))
    return _Part(
        features=feature.astype(int32),
        n_weights=np.diff(first_in_row, append=len(row)).astype(int32),
        n_rows_of_group=np.bincount(group, minlength=n_groups),
    )


def _row_edges(
    tiles: Sequence[TileWeights], n_groups: int, n_features: int, n_parts: int
) -> list[int]:
    """Edges of n_parts ranges of rows with about equally many weights, by a sample of these."""
    sampled = [int64(tile.group) * n_features + tile.feature[::SAMPLING_STEP] for tile in tiles]
    rows = np.sort(np.concatenate([np.zeros(1, int64), *sampled]))
    inner = rows[np.arange(1, n_parts) * len(rows) // n_parts]
    return [0, *inner.tolist(), n_groups * n_features]


def _weights_between(
    begin: int, end: int, tiles: Sequence[TileWeights], n_features: int
) -> list[tuple[TileWeights, slice | ndarray]]:
    """The tiles with weights in the rows begin:end, and which of their weights these are."""
    in_range: list[tuple[TileWeights, slice | ndarray]] = []
    for tile in tiles:
        first_row = tile.group * n_features
        end_row = first_row + n_features
        if first_row >= end or end_row <= begin:
            continue
        chosen: slice | ndarray = slice(None)
        if first_row < begin or end < end_row:
            chosen = (tile.feature >= begin - first_row) & (tile.feature < end - first_row)
        in_range.append((tile, chosen))
    return in_range


@kernel
def score_visits(features, level, visits, begin, end, row_of, out):
    """Write to out[slot] the scores of the nodes that the visits begin:end are to.

    features  `_Features`
    visits    `_Visits`, sorted by group
    row_of    int64 (n_features,), the lookup table: -1 before and after
    out       float32 (slots, widest group); LOWEST beyond the group's nodes
    """
    offsets = features.offsets
    example = visits.example
    group = visits.group
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
        # The table pays if it saves more time of searches than it takes to fill and clear it.
        is_tabled = n_values * FEATURES_PER_SEARCH > end_row - first_row
        if is_tabled:
            for row in range(first_row, end_row):
                row_of[level.features[row]] = row
        for v in range(first_visit, end_visit):
            s = int64(visits.slot[v])
            _write_biases(level, c, out, s)
            i = int64(example[v])
            for f in range(offsets[i], offsets[i + 1]):
                feature = features.columns[f]
                if is_tabled:
                    row = row_of[feature]
                else:
                    row = place_of(feature, level.features, first_row, end_row)
                if row >= 0:
                    _add_row(level, row, features.values[f], out, s)
        if is_tabled:
            for row in range(first_row, end_row):
                row_of[level.features[row]] = -1
        first_visit = end_visit


@kernel_part
def _add_row(level, row, x, out, s):
    """Add the weights of a row times x to the scores out[s] of their nodes."""
    for at in range(level.first_weight[row], level.first_weight[row + 1]):
        out[s, level.child[at]] += x * level.weight[at]


@kernel_part
def _write_biases(level, c, out, s):
    """Write the biases of the nodes of group c to out[s], then LOWEST."""
    first_node = level.first_node[c]
    width = level.first_node[c + 1] - first_node
    for k in range(width):
        out[s, k] = level.bias[first_node + k]
    for k in range(width, out.shape[1]):
        out[s, k] = LOWEST


def scores_of(features: Any, level: Level) -> ndarray:
    """The scores of all nodes of a level with one group, float32 (n, n_nodes), for features
    csr_matrix (n, n_features).
    """
    n = features.shape[0]
    scores = np.empty((n, level.widest), float32)
    examples = np.arange(n, dtype=int32)
    visits = _Visits(examples, np.zeros(n, int32), examples.astype(int64))
    _write_scores(features, level, visits, scores, threads=1)
    return scores


class BestNodes(NamedTuple):
    """The likeliest nodes of each example, best first; unused places have log-probability -inf."""

    node: ndarray  # int32 (n, width)
    log_p: ndarray  # float32 (n, width)


def _visits_to(above: BestNodes) -> _Visits:
    """A visit for each used place of `above`, to the children of its node; places are slots."""
    slot = np.flatnonzero(np.isfinite(above.log_p))
    group = above.node.ravel()[slot]
    by_group = np.argsort(group, kind="stable")
    slot = slot[by_group].astype(int64)
    example = (slot // above.node.shape[1]).astype(int32)
    return _Visits(example, group[by_group], slot)


def _write_scores(
    features: Any, level: Level, visits: _Visits, scores: ndarray, threads: int
) -> None:
    """`score_visits` of all visits, which have slots of their own in `scores`."""
    rows = _Features(features.indptr.astype(int64), features.indices, features.data)

    def score(begin: int, end: int) -> None:
        row_of = np.full(features.shape[1], -1, int64)
        score_visits(rows, level, visits, begin, end, row_of, scores)

    in_parts(score, len(visits.slot), threads, PARTS_PER_THREAD)


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
    n_slots = n * width
    scores = np.empty((n_slots, level.widest), float32)
    scores[~np.isfinite(above.log_p.ravel())] = LOWEST
    _write_scores(features, level, _visits_to(above), scores, threads)

    n_kept = min(k, level.widest)
    children = _Children(np.zeros((n_slots, n_kept), int32), np.zeros((n_slots, n_kept), float32))
    in_parts(lambda begin, end: best_of_rows(scores, begin, end, *children), n_slots, threads)

    n_best = min(k, width * n_kept)
    best = BestNodes(np.zeros((n, n_best), int32), np.zeros((n, n_best), float32))
    block_size = max(CACHED_SCORES // (width * n_kept), 1)

    def choose(begin: int, end: int) -> None:
        for start in range(begin, end, block_size):
            stop = min(start + block_size, end)
            _write_best(start, stop, level, above, children, log_probability, best)

    in_parts(choose, n, threads)
    return best


class _Children(NamedTuple):
    """The children with the highest scores of each node above, one node a row, best first."""

    child: ndarray  # int32 (n_slots, n_kept): counted from the first of their group
    score: ndarray  # float32 (n_slots, n_kept); LOWEST at unused places


def _write_best(
    begin: int,
    end: int,
    level: Level,
    above: BestNodes,
    children: _Children,
    log_probability: Any,
    best: BestNodes,
) -> None:
    """Write the likeliest children of all nodes above, of the examples begin:end."""
    n_examples = end - begin
    width = above.node.shape[1]
    slots = slice(begin * width, end * width)
    score = children.score[slots]
    is_node = score > LOWEST
    with np.errstate(all="ignore"):
        log_p_of_child = np.where(is_node, log_probability(score), -np.inf)
    log_p_of_child = log_p_of_child.reshape(n_examples, width, -1)
    log_p = (log_p_of_child + above.log_p[begin:end, :, None]).astype(float32)
    first_node = level.first_node[above.node[begin:end]].astype(int32)
    node = (children.child[slots] * is_node).reshape(log_p.shape) + first_node[:, :, None]

    chosen = np.zeros((n_examples, best.node.shape[1]), int32)
    best_of_rows(log_p.reshape(n_examples, -1), 0, n_examples, chosen, best.log_p[begin:end])
    best.node[begin:end] = np.take_along_axis(node.reshape(n_examples, -1), chosen, axis=1)

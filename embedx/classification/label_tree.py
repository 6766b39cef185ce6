"""A tree over labels with sparse weights at its nodes: the output vectors of `--weights sparse` and
`--weights tree`.

The labels are the leaves. Each node has a binary classifier for "the input has a label below this
node", trained on inputs that reach its parent; the probability of a label is the product over the
nodes on its path. A beam search finds the likeliest labels: at each level it continues from the
likeliest nodes only. Without levels of clusters all labels are children of the root, and the search
is exact.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx import checks
from embedx.engine.sparse_levels import BestNodes, Level, TileWeights, best_nodes, level_of
from embedx.errors import DataError
from embedx.labeled.data import offsets_of
from embedx.storage.folder_files import DESCRIPTION, REMEDY
from embedx.storage.schema import Array

# Maximum numbers of scores, and of rows, that are computed at a time.
BLOCK_FLOATS = 1 << 23
MAX_ROWS = 1 << 13
# Number of labels of each tree whose probabilities are averaged, normalised, or blended with
# neighbours.
CANDIDATES = 100
# Types of counts; the smaller one is used if it suffices.
COUNTS = ("uint16", "int32")
# Arrays of sparse weights. Those without a tree have the same arrays, as a tree of a single level.
ARRAYS = {
    # For each level its tree, and its numbers of groups, nodes, feature rows and weights.
    "tree_levels": Array(("levels", "facts of a level"), ("int64",)),
    "tree_first_node": Array(("groups and levels",), ("int64",)),
    # The number of features for which a group has weights.
    "tree_n_rows": Array(("groups",), ("int32",)),
    "tree_features": Array(("feature rows",), ("int32",), indexes="features"),
    "tree_n_weights": Array(("feature rows",), COUNTS),
    "tree_child": Array(("weights",), COUNTS),
    "tree_weight": Array(("weights",)),
    "tree_bias": Array(("nodes",)),
    "tree_labels": Array(("leaves",), ("int32",)),
}
# The arrays that levels are divided among.
LEVEL_ARRAYS = list(ARRAYS)[1:-1]
FACTS_PER_LEVEL = 5
# Length of an array of a level, so that sums of lengths stay within int64.
MAX_SIZE = 2**40


class LabelTree(NamedTuple):
    """One tree. Its last level's nodes are labels, in the order of `labels`.

    labels  int32 (n_leaves,): distinct
    """

    levels: list[Level]
    labels: ndarray


# ---- a single level


def weights_of(tree: LabelTree, n_labels: int, n_features: int) -> csr_matrix:
    """The weights of all labels in a tree of a single level, float32 (n_labels, n_features)."""
    level = tree.levels[0]
    feature = np.repeat(level.features, np.diff(level.first_weight))
    places = (tree.labels[level.child], feature)
    return csr_matrix((level.weight, places), (n_labels, n_features))


def single_level(labels: ndarray, weights: csr_matrix, biases: ndarray) -> LabelTree:
    """A tree of a single level: labels, and the weights and the bias of each.

    weights  float32 (n_leaves, n_features)
    """
    in_order = weights.tocoo()
    tile = TileWeights(0, 0, in_order.col.astype(int32), in_order.row.astype(int32), in_order.data)
    first_node = np.array([0, len(labels)])
    level = level_of(first_node, [tile], biases, weights.shape[1])
    return LabelTree([level], labels.astype(int32))


# ---- as arrays


def arrays_of(trees: Sequence[LabelTree]) -> dict[str, ndarray]:
    """The arrays of trees, one after another, as a model folder has them."""
    facts = [
        (t, level.n_groups, len(level.bias), len(level.features), len(level.weight))
        for t, tree in enumerate(trees)
        for level in tree.levels
    ]
    levels = [level for tree in trees for level in tree.levels]
    return {
        "tree_levels": np.array(facts, int64),
        "tree_first_node": np.concatenate([level.first_node for level in levels]),
        "tree_n_rows": np.concatenate([np.diff(level.first_row) for level in levels]).astype(int32),
        "tree_features": np.concatenate([level.features for level in levels]),
        "tree_n_weights": _in_smaller_type([np.diff(level.first_weight) for level in levels]),
        "tree_child": _in_smaller_type([level.child for level in levels]),
        "tree_weight": np.concatenate([level.weight for level in levels]),
        "tree_bias": np.concatenate([level.bias for level in levels]),
        "tree_labels": np.concatenate([tree.labels for tree in trees]),
    }


def _in_smaller_type(parts: Sequence[ndarray]) -> ndarray:
    """Non-negative numbers, one part after another, as uint16 if they fit, else as int32."""
    fits = all(part.max(initial=0) < 1 << 16 for part in parts)
    return np.concatenate(parts, dtype=np.uint16 if fits else int32, casting="unsafe")


def is_in(arrays: Mapping[str, ndarray]) -> bool:
    """Whether arrays have sparse weights, with or without a tree: see `ARRAYS`."""
    return "tree_levels" in arrays


def trees_of(arrays: Mapping[str, ndarray], n_features: int, n_labels: int) -> list[LabelTree]:
    """The trees in the arrays of a model. Raises `EmbedxError` where these do not fit together."""
    for name in ARRAYS:
        if name not in arrays:
            problem = f"names no array `{name}`, which a model with sparse weights needs"
            raise DataError(DESCRIPTION, None, problem)
    facts = arrays["tree_levels"]
    _check_facts(facts)
    tree_of_level, n_groups, n_nodes, n_rows, n_weights = facts.T

    parts = []
    sizes_of_parts = (n_groups + 1, n_groups, n_rows, n_rows, n_weights, n_weights, n_nodes)
    for name, sizes in zip(LEVEL_ARRAYS, sizes_of_parts, strict=True):
        parts.append(_split(arrays[name], sizes, name))
    levels_of_tree: list[list[Level]] = [[] for _ in range(tree_of_level[-1] + 1)]
    for t, *level_parts in zip(tree_of_level, *parts, strict=True):
        levels_of_tree[t].append(_level(*level_parts, n_features=n_features))

    n_leaves = np.array([len(levels[-1].bias) for levels in levels_of_tree])
    labels_of_tree = _split(arrays["tree_labels"], n_leaves, "tree_labels")
    for labels in labels_of_tree:
        is_distinct = len(np.unique(labels)) == len(labels)
        _check(is_distinct and not checks.wrong_indices(labels, n_labels), "tree_labels")
    return [
        LabelTree(levels, labels)
        for levels, labels in zip(levels_of_tree, labels_of_tree, strict=True)
    ]


def _check(is_right: bool, name: str) -> None:
    """Raise `EmbedxError` for an array that is wrong."""
    if not is_right:
        raise DataError(f"{name}.npy", None, "does not fit the other arrays of the tree", REMEDY)


def _check_facts(facts: ndarray) -> None:
    """Raise `EmbedxError` unless each level has as many groups as the level above has nodes."""
    is_table = facts.shape[1] == FACTS_PER_LEVEL and len(facts) > 0
    _check(is_table and bool(((facts >= 0) & (facts <= MAX_SIZE)).all()), "tree_levels")
    tree_of_level, n_groups, n_nodes, _, _ = facts.T
    step = np.diff(tree_of_level, prepend=-1)
    _check(bool(np.isin(step, (0, 1)).all()), "tree_levels")
    n_above = np.where(step == 1, 1, np.roll(n_nodes, 1))
    _check(bool((n_groups == n_above).all()), "tree_levels")


def _split(array: ndarray, sizes: ndarray, name: str) -> list[ndarray]:
    """The parts of an array, of these sizes. Raises `EmbedxError` if they do not add up to it."""
    _check(len(array) == sizes.sum(), name)
    return np.split(array, np.cumsum(sizes)[:-1])


def _level(
    first_node: ndarray,
    n_rows: ndarray,
    features: ndarray,
    n_weights: ndarray,
    child: ndarray,
    weight: ndarray,
    bias: ndarray,
    *,
    n_features: int,
) -> Level:
    """A level from its arrays. Raises `EmbedxError` if an index is out of range."""
    checks.refuse(checks.wrong_offsets(first_node, len(bias)), "tree_first_node.npy")
    _check(bool((n_rows >= 0).all()), "tree_n_rows")
    _check(bool((n_weights >= 0).all()), "tree_n_weights")
    first_row = offsets_of(n_rows)
    first_weight = offsets_of(n_weights)
    checks.refuse(checks.wrong_offsets(first_row, len(features)), "tree_n_rows.npy")
    checks.refuse(checks.wrong_offsets(first_weight, len(weight)), "tree_n_weights.npy")
    checks.refuse(checks.wrong_indices(features, n_features), "tree_features.npy")
    _check(_are_children(child, first_weight[first_row], np.diff(first_node)), "tree_child")
    return Level(first_node, first_row, features, first_weight, child.astype(int32), weight, bias)


def _are_children(child: ndarray, first_weight: ndarray, widths: ndarray) -> bool:
    """Whether all weights first_weight[c]:first_weight[c + 1] of a group c are those of its nodes,
    of which there are widths[c].
    """
    if child.min(initial=0) < 0:
        return False
    has_weights = np.diff(first_weight) > 0
    if not has_weights.any():
        return True
    last_child = np.maximum.reduceat(child, first_weight[:-1][has_weights])
    return bool((last_child < widths[has_weights]).all())


# ---- search


def rows_at_a_time(trees: Sequence[LabelTree], beam: int) -> int:
    """The number of rows for a call of `search`, so that its scores fit into memory."""
    most_scores = 1
    for tree in trees:
        root, *others = tree.levels
        most_scores = max(most_scores, root.widest, *(beam * level.widest for level in others))
    return max(1, min(MAX_ROWS, BLOCK_FLOATS // most_scores))


def search(
    trees: Sequence[LabelTree],
    features: Any,
    k: int,
    beam: int,
    log_probability: Any,
    n_labels: int,
    threads: int,
) -> BestNodes:
    """The k labels with the highest probabilities, best first, found by a beam search.

    The probability is the mean over trees; a label that a tree did not find has 0 there. Labels
    that no tree found come last, by id, with probability 0.

    features          csr_matrix float32 (n, n_features)
    beam              nodes of each level from which the search continues
    log_probability   `Objective.log_label_probability`: of nodes given their parents, from scores
    """
    n_per_tree = k if len(trees) == 1 else max(k, CANDIDATES)
    labels = []
    log_ps = []
    for tree in trees:
        leaves = _best_leaves(tree, features, n_per_tree, beam, log_probability, threads)
        labels.append(tree.labels[leaves.node])
        log_ps.append(leaves.log_p)
    candidates = BestNodes(np.concatenate(labels, axis=1), np.concatenate(log_ps, axis=1))

    k = min(k, n_labels)
    first_k = candidates.log_p[:, :k]
    if len(trees) == 1 and first_k.shape[1] == k and np.isfinite(first_k).all():
        return BestNodes(candidates.node[:, :k], first_k)
    return _averaged(candidates, len(trees), k, n_labels)


def _best_leaves(
    tree: LabelTree, features: Any, n: int, beam: int, log_probability: Any, threads: int
) -> BestNodes:
    """The n likeliest leaves of a tree that the beam search finds."""
    *inner, last = tree.levels
    best = None
    for level in inner:
        best = best_nodes(features, level, best, beam, log_probability, threads)
    return best_nodes(features, last, best, n, log_probability, threads)


def _averaged(candidates: BestNodes, n_trees: int, k: int, n_labels: int) -> BestNodes:
    """The k labels of the highest mean probability over trees, then labels that no tree found.

    candidates  labels of all trees with their log-probabilities, -inf where there is none
    """
    n_rows = len(candidates.node)
    best = np.zeros((n_rows, k), int32)
    best_log_p = np.full((n_rows, k), -np.inf, np.float32)
    for row, is_there in enumerate(np.isfinite(candidates.log_p)):
        labels, place = np.unique(candidates.node[row, is_there], return_inverse=True)
        log_p = candidates.log_p[row, is_there].astype(np.float64) - math.log(n_trees)
        mean = np.full(len(labels), -np.inf)
        np.logaddexp.at(mean, place, log_p)

        order = np.argsort(-mean, kind="stable")[:k]
        n_found = len(order)
        others = np.setdiff1d(np.arange(min(n_labels, k + n_found)), labels[order])
        best[row] = np.concatenate([labels[order], others[: k - n_found]])
        best_log_p[row, :n_found] = mean[order]
    return BestNodes(best, best_log_p)

"""A tree over labels, with sparse weights at its nodes: how `--weights sparse` and `--weights tree` store output rows.

The labels are the leaves. A node has a binary classifier of its own, "is one of the labels below me among the input's",
trained on inputs that reach its parent, and the probability of a label is the product over the nodes on its path. A beam search
finds the likeliest labels: at each level it continues from the likeliest nodes only. Without levels of clusters between, all
labels are children of the root, and the search is exact.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from embedx.engine.sparse_levels import Found, Level, best_nodes
from embedx.errors import EmbedxError
from embedx.storage.schema import Array

PREFIX = "tree_"
BLOCK_FLOATS = 1 << 23  # scores computed at a time
CANDIDATES = 100  # labels of each tree whose probabilities are averaged, or made to sum to one
COUNTS = ("uint16", "int32")  # the smaller where it suffices
ARRAYS = {
    "tree_levels": Array(("levels", "facts of a level"), ("int64",)),  # its tree, groups, nodes, rows and weights
    "tree_first_node": Array(("groups and levels",), ("int64",)),
    "tree_n_rows": Array(("groups",), ("int32",)),  # features that a group has weights for
    "tree_features": Array(("feature rows",), ("int32",)),
    "tree_n_weights": Array(("feature rows",), COUNTS),
    "tree_child": Array(("weights",), COUNTS),
    "tree_weight": Array(("weights",)),
    "tree_bias": Array(("nodes",)),
    "tree_labels": Array(("leaves",), ("int32",)),
}
FACTS = 5


class LabelTree(NamedTuple):
    """One tree. Its last level's nodes are labels, in the order of `labels`."""

    levels: list[Level]
    labels: np.ndarray  # int32 (n_leaves,): distinct


# ---- as arrays


def arrays_of(trees: Sequence[LabelTree]) -> dict[str, np.ndarray]:
    """The arrays of trees, one after another, as a model folder has them."""
    levels = [(t, level) for t, tree in enumerate(trees) for level in tree.levels]
    facts = [(t, each.n_groups, len(each.bias), len(each.features), len(each.weight)) for t, each in levels]
    return {
        "tree_levels": np.array(facts, dtype=np.int64),
        "tree_first_node": np.concatenate([each.first_node for _, each in levels]),
        "tree_n_rows": np.concatenate([np.diff(each.first_row) for _, each in levels]).astype(np.int32),
        "tree_features": np.concatenate([each.features for _, each in levels]),
        "tree_n_weights": _small(np.concatenate([np.diff(each.first_weight) for _, each in levels])),
        "tree_child": _small(np.concatenate([each.child for _, each in levels])),
        "tree_weight": np.concatenate([each.weight for _, each in levels]),
        "tree_bias": np.concatenate([each.bias for _, each in levels]),
        "tree_labels": np.concatenate([each.labels for each in trees]),
    }


def _small(numbers: np.ndarray) -> np.ndarray:
    """Numbers from 0 on, in the smaller type if it has them."""
    return numbers.astype(np.uint16 if numbers.max(initial=0) < 1 << 16 else np.int32)


def trees_of(arrays: Mapping[str, np.ndarray], n_features: int, n_labels: int) -> list[LabelTree]:
    """The trees in the arrays of a model. Raises `EmbedxError` where these do not fit together."""
    if missing := [name for name in ARRAYS if name not in arrays]:
        raise EmbedxError(f"names no array `{missing[0]}`, which a model with sparse weights has")
    facts = arrays["tree_levels"]
    _check(facts.shape[1] == FACTS and len(facts) > 0 and bool((facts >= 0).all()), "tree_levels")
    parts = {
        "tree_first_node": facts[:, 1] + 1, "tree_n_rows": facts[:, 1], "tree_features": facts[:, 3],
        "tree_n_weights": facts[:, 3], "tree_child": facts[:, 4], "tree_weight": facts[:, 4], "tree_bias": facts[:, 2],
    }  # fmt: skip
    edges = {}
    for name, sizes in parts.items():
        edges[name] = np.concatenate([[0], np.cumsum(sizes)])
        _check(len(arrays[name]) == edges[name][-1], name)
    trees: list[LabelTree] = []
    used = 0
    for at, (tree, n_groups, n_nodes, n_rows, n_weights) in enumerate(facts.tolist()):
        part = {name: arrays[name][edges[name][at] : edges[name][at + 1]] for name in parts}
        first_row = np.concatenate([[0], np.cumsum(part["tree_n_rows"], dtype=np.int64)])
        first_weight = np.concatenate([[0], np.cumsum(part["tree_n_weights"], dtype=np.int64)])
        level = Level(
            part["tree_first_node"], first_row, part["tree_features"], first_weight, part["tree_child"].astype(np.int32),
            part["tree_weight"], part["tree_bias"],
        )  # fmt: skip
        _check_level(level, n_nodes, n_rows, n_weights, n_features)
        is_first = not trees or tree != len(trees) - 1
        _check(tree == len(trees) - 1 + is_first, "tree_levels")
        if is_first:
            trees.append(LabelTree([], np.zeros(0, dtype=np.int32)))
        above = trees[-1].levels
        _check(n_groups == (len(above[-1].bias) if above else 1), "tree_levels")
        above.append(level)
    for t, tree in enumerate(trees):
        n = len(tree.levels[-1].bias)
        labels = arrays["tree_labels"][used : used + n]
        is_right = len(labels) == n and (n == 0 or (labels.min() >= 0 and labels.max() < n_labels))
        _check(is_right and len(np.unique(labels)) == n, "tree_labels")
        trees[t] = LabelTree(tree.levels, labels)
        used += n
    _check(used == len(arrays["tree_labels"]), "tree_labels")
    return trees


def _check(is_right: bool, name: str) -> None:
    if not is_right:
        raise EmbedxError(f"{name}.npy does not fit the other arrays of the tree; it is damaged: train the model again")


def _check_level(level: Level, n_nodes: int, n_rows: int, n_weights: int, n_features: int) -> None:
    """Raise `EmbedxError` where a number leads out of the arrays."""
    widths = np.diff(level.first_node)
    _check(bool(level.first_node[0] == 0 and level.first_node[-1] == n_nodes and (widths >= 0).all()), "tree_first_node")
    _check(bool((np.diff(level.first_row) >= 0).all()) and level.first_row[-1] == n_rows, "tree_n_rows")
    _check(bool((np.diff(level.first_weight) >= 0).all()) and level.first_weight[-1] == n_weights, "tree_n_weights")
    _check(n_rows == 0 or bool(level.features.min() >= 0 and level.features.max() < n_features), "tree_features")
    of_group = np.repeat(
        np.arange(level.n_groups), level.first_weight[level.first_row[1:]] - level.first_weight[level.first_row[:-1]]
    )
    _check(bool((level.child >= 0).all() and (level.child < widths[of_group]).all()), "tree_child")


# ---- search


def search(
    trees: Sequence[LabelTree], features: Any, k: int, beam: int, log_probability: Any, n_labels: int, threads: int
) -> Found:
    """The k labels with the highest probabilities that a beam of so many nodes a level finds, best first.

    features          csr_matrix float32 (n, n_features)
    log_probability   of nodes by themselves, from their scores: `Objective.log_label_probability`
    """
    widest = max(level.widest * (1 if depth == 0 else beam) for tree in trees for depth, level in enumerate(tree.levels))
    size = max(1, BLOCK_FLOATS // max(widest, 1))
    parts = [
        _search_block(trees, features[start : start + size], k, beam, log_probability, n_labels, threads)
        for start in range(0, features.shape[0], size)
    ]
    if not parts:
        return Found(np.zeros((0, k), dtype=np.int32), np.zeros((0, k), dtype=np.float32))
    return Found(np.concatenate([each.node for each in parts]), np.concatenate([each.log_p for each in parts]))


def _search_block(
    trees: Sequence[LabelTree], features: Any, k: int, beam: int, log_probability: Any, n_labels: int, threads: int
) -> Found:
    of_trees = []
    for tree in trees:
        found = None
        for level in tree.levels[:-1]:
            found = best_nodes(features, level, found, beam, log_probability, threads)
        found = best_nodes(
            features, tree.levels[-1], found, k if len(trees) == 1 else max(k, CANDIDATES), log_probability, threads
        )
        of_trees.append(Found(tree.labels[found.node], found.log_p))
    found = of_trees[0] if len(trees) == 1 else _averaged(of_trees, k, n_labels)
    return _completed(found, min(k, n_labels), n_labels)


def _averaged(of_trees: Sequence[Found], k: int, n_labels: int) -> Found:
    """The labels with the highest mean probability over trees; a label that a tree has not found counts 0 there."""
    node = np.concatenate([each.node for each in of_trees], axis=1)
    p = np.exp(np.concatenate([each.log_p for each in of_trees], axis=1).astype(np.float64)) / len(of_trees)
    n, width = node.shape
    order = np.argsort(node, axis=1, kind="stable")
    node, p = np.take_along_axis(node, order, 1), np.take_along_axis(p, order, 1)
    is_new = np.ones((n, width), dtype=bool)
    is_new[:, 1:] = node[:, 1:] != node[:, :-1]
    total = np.bincount(np.cumsum(is_new.ravel()) - 1, weights=p.ravel())
    mean = np.zeros((n, width))
    mean[is_new] = total
    k = min(k, width)
    best = np.argsort(-mean, axis=1, kind="stable")[:, :k]
    with np.errstate(divide="ignore"):
        return Found(np.take_along_axis(node, best, 1), np.log(np.take_along_axis(mean, best, 1)).astype(np.float32))


def _completed(found: Found, k: int, n_labels: int) -> Found:
    """With k distinct labels in each row: those that were not found come last, the lower first, with probability 0."""
    n, width = found.node.shape
    is_there = np.isfinite(found.log_p)
    if width >= k and is_there[:, :k].all():
        return Found(found.node[:, :k], found.log_p[:, :k])
    node, log_p = np.zeros((n, k), dtype=np.int32), np.full((n, k), -np.inf, dtype=np.float32)
    for row in range(n):
        own = found.node[row, is_there[row]][:k]
        others = np.setdiff1d(np.arange(min(n_labels, k + len(own)), dtype=np.int32), own)[: k - len(own)]
        node[row] = np.concatenate([own, others])
        log_p[row, : len(own)] = found.log_p[row, is_there[row]][:k]
    return Found(node, log_p)

"""A tree over labels, with sparse weights at its nodes: how `--weights sparse` and `--weights tree`
store output rows.

The labels are the leaves. A node has a binary classifier of its own, "is one of the labels below me
among the input's", trained on inputs that reach its parent, and the probability of a label is the
product over the nodes on its path. A beam search finds the likeliest labels: at each level it
continues from the likeliest nodes only. Without levels of clusters between, all labels are children
of the root, and the search is exact.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy import int32, int64, ndarray

from embedx import checks
from embedx.engine.sparse_levels import BestNodes, Level, best_nodes
from embedx.errors import DataError
from embedx.labeled.data import offsets_of
from embedx.storage.folder import DESCRIPTION, REMEDY
from embedx.storage.schema import Array

BLOCK_FLOATS, MAX_ROWS = 1 << 23, 1 << 13  # scores computed at a time, and rows
# labels of each tree whose probabilities are averaged, made to sum to one, or blended with
# neighbours
CANDIDATES = 100
COUNTS = ("uint16", "int32")  # the smaller where it suffices
ARRAYS = {
    # its tree, groups, nodes, rows and weights
    "tree_levels": Array(("levels", "facts of a level"), ("int64",)),
    "tree_first_node": Array(("groups and levels",), ("int64",)),
    "tree_n_rows": Array(("groups",), ("int32",)),  # features that a group has weights for
    "tree_features": Array(("feature rows",), ("int32",), indexes="features"),
    "tree_n_weights": Array(("feature rows",), COUNTS),
    "tree_child": Array(("weights",), COUNTS),
    "tree_weight": Array(("weights",)),
    "tree_bias": Array(("nodes",)),
    "tree_labels": Array(("leaves",), ("int32",)),
}
FACTS, PARTS = 5, list(ARRAYS)[1:-1]  # numbers, and the arrays of a level
MAX_SIZE = 2**40  # of an array of a level, so that sums of sizes stay within int64


class LabelTree(NamedTuple):
    """One tree. Its last level's nodes are labels, in the order of `labels`."""

    levels: list[Level]
    labels: ndarray  # int32 (n_leaves,): distinct


# ---- as arrays


def arrays_of(trees: Sequence[LabelTree]) -> dict[str, ndarray]:
    """The arrays of trees, one after another, as a model folder has them."""
    levels = [(t, level) for t, tree in enumerate(trees) for level in tree.levels]
    facts = [
        (t, each.n_groups, len(each.bias), len(each.features), len(each.weight))
        for t, each in levels
    ]
    own = [
        (
            each.first_node,
            np.diff(each.first_row).astype(int32),
            each.features,
            np.diff(each.first_weight),
            *each[4:],
        )
        for _, each in levels
    ]
    found = dict(zip(PARTS, map(np.concatenate, zip(*own, strict=True)), strict=True))
    found |= {name: _small(found[name]) for name in ("tree_n_weights", "tree_child")}
    labels = np.concatenate([each.labels for each in trees])
    return {"tree_levels": np.array(facts, int64), **found, "tree_labels": labels}


def _small(numbers: ndarray) -> ndarray:
    """Numbers from 0 on, in the smaller type if it has them."""
    return numbers.astype(np.uint16 if numbers.max(initial=0) < 1 << 16 else int32)


def trees_of(arrays: Mapping[str, ndarray], n_features: int, n_labels: int) -> list[LabelTree]:
    """The trees in the arrays of a model. Raises `EmbedxError` where these do not fit together."""
    if missing := [name for name in ARRAYS if name not in arrays]:
        problem = f"names no array `{missing[0]}`, which a model with sparse weights has"
        raise DataError(DESCRIPTION, None, problem)
    facts = arrays["tree_levels"]
    is_table = facts.shape[1] == FACTS and len(facts) > 0
    _check(is_table and bool(((facts >= 0) & (facts <= MAX_SIZE)).all()), "tree_levels")
    tree, n_groups, n_nodes, n_rows, n_weights = facts.T
    is_first = np.diff(tree, prepend=-1)
    of_level_above = np.where(is_first, 1, np.roll(n_nodes, 1))
    _check(
        bool(np.isin(is_first, (0, 1)).all() and (n_groups == of_level_above).all()), "tree_levels"
    )
    parts = []
    sizes_of_parts = n_groups + 1, n_groups, n_rows, n_rows, n_weights, n_weights, n_nodes
    for name, sizes in zip(PARTS, sizes_of_parts, strict=True):
        _check(len(arrays[name]) == sizes.sum(), name)
        parts.append(np.split(arrays[name], np.cumsum(sizes)[:-1]))
    trees: list[list[Level]] = [[] for _ in range(tree[-1] + 1)]
    for t, *part in zip(tree, *parts, strict=True):
        trees[t].append(_level(*part, n_features=n_features))
    n_leaves = [len(levels[-1].bias) for levels in trees]
    _check(len(arrays["tree_labels"]) == sum(n_leaves), "tree_labels")
    labels = np.split(arrays["tree_labels"], np.cumsum(n_leaves)[:-1])
    for each in labels:
        is_distinct = len(np.unique(each)) == len(each)
        _check(is_distinct and not checks.wrong_indices(each, n_labels), "tree_labels")
    return [LabelTree(*each) for each in zip(trees, labels, strict=True)]


def _check(is_right: bool, name: str) -> None:
    if not is_right:
        raise DataError(f"{name}.npy", None, "does not fit the other arrays of the tree", REMEDY)


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
    """A level from its arrays. Raises `EmbedxError` where a number leads out of them."""
    checks.require(checks.wrong_offsets(first_node, len(bias)), "tree_first_node.npy")
    _check(bool((n_rows >= 0).all()), "tree_n_rows")
    _check(bool((n_weights >= 0).all()), "tree_n_weights")
    first_row = offsets_of(n_rows)
    first_weight = offsets_of(n_weights)
    checks.require(checks.wrong_offsets(first_row, len(features)), "tree_n_rows.npy")
    checks.require(checks.wrong_offsets(first_weight, len(weight)), "tree_n_weights.npy")
    checks.require(checks.wrong_indices(features, n_features), "tree_features.npy")
    widths = np.diff(first_node)
    of_group = np.repeat(np.arange(len(widths)), np.diff(first_weight[first_row]))
    _check(bool((child >= 0).all() and (child < widths[of_group]).all()), "tree_child")
    return Level(first_node, first_row, features, first_weight, child.astype(int32), weight, bias)


# ---- search


def rows_at_a_time(trees: Sequence[LabelTree], beam: int) -> int:
    """How many rows `search` takes, so that its scores stay in memory."""
    widest = max(
        level.widest * (1 if depth == 0 else beam)
        for tree in trees
        for depth, level in enumerate(tree.levels)
    )
    return max(1, min(MAX_ROWS, BLOCK_FLOATS // max(widest, 1)))


def search(
    trees: Sequence[LabelTree],
    features: Any,
    k: int,
    beam: int,
    log_probability: Any,
    n_labels: int,
    threads: int,
) -> BestNodes:
    """The k labels with the highest probabilities that a beam of so many nodes a level finds, best
    first.

    The probability is the mean over trees; a label that a tree has not found counts 0 there. Labels
    that were not found come last, the lower first, with probability 0.

    features          csr_matrix float32 (n, n_features)
    log_probability   of nodes by themselves, from their scores: `Objective.log_label_probability`
    """
    of_trees = []
    for tree in trees:
        found = None
        for depth, level in enumerate(tree.levels, 1):
            width = (
                beam if depth < len(tree.levels) else k if len(trees) == 1 else max(k, CANDIDATES)
            )
            found = best_nodes(features, level, found, width, log_probability, threads)
        assert found is not None
        of_trees.append((tree.labels[found.node], found.log_p))
    label, log_p = (np.concatenate(parts, axis=1) for parts in zip(*of_trees, strict=True))
    k = min(k, n_labels)
    if len(trees) == 1 and log_p.shape[1] >= k and np.isfinite(log_p[:, :k]).all():
        return BestNodes(label[:, :k], log_p[:, :k])
    best = BestNodes(
        np.zeros((len(label), k), int32), np.full((len(label), k), -np.inf, np.float32)
    )
    for row, is_there in enumerate(np.isfinite(log_p)):
        own, place = np.unique(label[row, is_there], return_inverse=True)
        mean = np.full(len(own), -np.inf)
        np.logaddexp.at(mean, place, log_p[row, is_there].astype(np.float64) - math.log(len(trees)))
        order = np.argsort(-mean, kind="stable")[:k]
        others = np.setdiff1d(np.arange(min(n_labels, k + len(order))), own[order])[
            : k - len(order)
        ]
        best.node[row], best.log_p[row, : len(order)] = (
            np.concatenate([own[order], others]),
            mean[order],
        )
    return best

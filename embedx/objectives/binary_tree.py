"""Binary trees over classes, laid out by levels: Huffman's, by the counts of classes, and one that
halves an order.

A branch is 2 · row of the parent + bit, for a leaf or an inner node. Rows number the inner nodes
from the root, row 0, level by level, so that the nodes of most paths are neighbours.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, ndarray

from embedx.kernels import kernel


class Tree(NamedTuple):
    """A binary tree: the branch of every leaf and every inner node. With one class there is one
    row without branches.
    """

    leaf_branch: ndarray  # int64 (n_classes,)
    branch: ndarray  # int64 (n_rows,): of inner nodes; the root's is -1
    depth: ndarray  # int64 (n_classes,): number of branches from the root
    levels: ndarray  # int64 (n_levels + 1,): the inner nodes of a level are levels[i]:levels[i + 1]


@kernel
def _merge(mass, branch, n_leaves):
    """Merge the two nodes of least mass until one is left. `mass` and `branch` have the leaves
    first, sorted, then the inner nodes in the order of their creation.

    Inner nodes are created in the order of their mass, hence two queues suffice (van Leeuwen 1976).
    Of equal nodes leaves come first, then older nodes, for the tree of least depth.
    """
    leaf = 0
    node = n_leaves
    for new in range(n_leaves, 2 * n_leaves - 1):
        row = 2 * n_leaves - 2 - new
        mass[new] = 0
        for bit in range(2):
            if leaf < n_leaves and (node == new or mass[leaf] <= mass[node]):
                child = leaf
                leaf += 1
            else:
                child = node
                node += 1
            branch[child] = 2 * row + bit
            mass[new] += mass[child]


@kernel
def _descend(branch, depth):
    """Write the depth of each inner node; parents come before their children."""
    for row in range(1, len(branch)):
        depth[row] = depth[branch[row] >> 1] + 1


@kernel
def _follow(leaf_branch, branch, offsets, nodes, bits):
    """Write the path from the root to leaf k at offsets[k]:offsets[k + 1]."""
    for k in range(len(leaf_branch)):
        last = leaf_branch[k]
        for i in range(offsets[k + 1] - 1, offsets[k] - 1, -1):
            nodes[i] = last >> 1
            bits[i] = last & 1
            last = branch[last >> 1]


def huffman(counts: ndarray) -> Tree:
    """The tree of least expected depth under `counts`, int64 (n_classes,); ties by class."""
    n = len(counts)
    order = np.argsort(counts, kind="stable")
    mass = np.zeros(2 * n - 1, int64)
    mass[:n] = counts[order]
    branch = np.full(2 * n - 1, -1, int64)
    _merge(mass, branch, n)
    inner = (
        branch[n:][::-1].copy() if n > 1 else branch
    )  # rows are numbered from the last node created, the root
    leaf_branch = np.empty(n, int64)
    leaf_branch[order] = branch[:n]
    depth = np.zeros(len(inner), int64)
    _descend(inner, depth)
    levels = np.searchsorted(depth, np.arange(depth[-1] + 2))
    return Tree(
        leaf_branch, inner, depth[leaf_branch >> 1] + 1 if n > 1 else np.zeros(1, int64), levels
    )


def halves(order: ndarray, n_seen: int) -> Tree:
    """The tree whose nodes halve order[:n_seen]; of an odd number, the first half is the larger.

    order  int32 (n_classes,): all classes; those after the first n_seen do not occur. They form a
           tree of halves beside the last class that occurs, so that they add no depth to others
    """
    n = len(order)
    leaf_branch = np.full(n, -1, int64)
    depth = np.zeros(n, int64)
    first = np.array([0])
    end = np.array([n])
    branch = np.array([-1])
    branches = [branch]
    levels = [0, 1]
    while n > 1:
        row = levels[-2] + np.arange(len(first))
        seen = np.minimum(end, n_seen) - first
        middle = first + (np.where(seen > 0, seen, end - first) + 1) // 2
        first, end = (
            np.column_stack([first, middle]).ravel(),
            np.column_stack([middle, end]).ravel(),
        )
        branch = np.column_stack([2 * row, 2 * row + 1]).ravel()
        is_leaf = end - first == 1
        leaves = order[first[is_leaf]]
        leaf_branch[leaves] = branch[is_leaf]
        depth[leaves] = len(levels) - 1
        first = first[~is_leaf]
        end = end[~is_leaf]
        branch = branch[~is_leaf]
        if len(branch) == 0:
            break
        branches.append(branch)
        levels.append(levels[-1] + len(branch))
    return Tree(leaf_branch, np.concatenate(branches).astype(int64), depth, np.array(levels, int64))


def log_odds(tree: Tree, p: ndarray) -> ndarray:
    """The log-odds of bit 1 at each inner node, float64 (n_rows,), for class probabilities p > 0,
    (n_classes,).
    """
    mass = np.zeros(2 * len(tree.branch))
    if len(tree.leaf_branch) == 1:
        return mass[:1]
    np.add.at(mass, tree.leaf_branch, p)
    # the deepest level first
    for first, end in zip(tree.levels[-2:0:-1], tree.levels[:1:-1], strict=True):
        np.add.at(
            mass,
            tree.branch[first:end],
            mass[2 * first : 2 * end : 2] + mass[2 * first + 1 : 2 * end : 2],
        )
    return np.log(mass[1::2]) - np.log(mass[::2])


def follow(tree: Tree) -> tuple[ndarray, ndarray, ndarray]:
    """(offsets, nodes, bits) of the paths to all leaves, as in `samplers.contract.Paths`."""
    offsets = np.concatenate([[0], np.cumsum(tree.depth)])
    nodes = np.empty(offsets[-1], np.int32)
    bits = np.empty(offsets[-1], np.float32)
    _follow(tree.leaf_branch, tree.branch, offsets, nodes, bits)
    return offsets, nodes, bits

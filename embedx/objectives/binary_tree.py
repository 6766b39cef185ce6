"""Binary trees over classes, laid out by levels: Huffman's, by how often classes occur, and one of
the halves of an order.

`turn` says where a leaf or a node hangs: 2 · row of its parent + bit. Rows number the inner nodes
from the root, row 0, level by level, so that those that most examples meet lie together.
"""

from typing import NamedTuple

import numpy as np
from numpy import int64, ndarray

from embedx.kernels import kernel


class Tree(NamedTuple):
    """Where every leaf and every inner node hangs. With one class there is a row, but nothing hangs
    on it.
    """

    leaf_turn: ndarray  # int64 (n_classes,)
    turn: ndarray  # int64 (n_rows,): of the inner nodes; the root's is -1
    depth: ndarray  # int64 (n_classes,): turns to take from the root
    levels: ndarray  # int64 (n_levels + 1,): the inner nodes of a level are levels[i]:levels[i + 1]


@kernel
def _merge(mass, turn, n_leaves):
    """Join the two lightest until one is left; leaves, sorted, come first in `mass` and `turn`,
    then nodes as they are made.

    Nodes are made in order of their mass, hence two queues suffice (van Leeuwen 1976). Among equals
    a leaf goes first, then the older node, which gives the flattest of the best trees.
    """
    leaf, node = 0, n_leaves
    for made in range(n_leaves, 2 * n_leaves - 1):
        row = 2 * n_leaves - 2 - made
        mass[made] = 0
        for bit in range(2):
            if leaf < n_leaves and (node == made or mass[leaf] <= mass[node]):
                child = leaf
                leaf += 1
            else:
                child = node
                node += 1
            turn[child] = 2 * row + bit
            mass[made] += mass[child]


@kernel
def _descend(turn, depth):
    """Write each inner node's depth; parents come before their children."""
    for row in range(1, len(turn)):
        depth[row] = depth[turn[row] >> 1] + 1


@kernel
def _follow(leaf_turn, turn, offsets, nodes, bits):
    """Write each leaf's path from the root to offsets[k]:offsets[k + 1]."""
    for k in range(len(leaf_turn)):
        hangs = leaf_turn[k]
        for i in range(offsets[k + 1] - 1, offsets[k] - 1, -1):
            nodes[i] = hangs >> 1
            bits[i] = hangs & 1
            hangs = turn[hangs >> 1]


def huffman(counts: ndarray) -> Tree:
    """The tree whose expected depth under `counts`, int64 (n_classes,), is least; ties
    by number.
    """
    n = len(counts)
    order = np.argsort(counts, kind="stable")
    mass = np.zeros(2 * n - 1, int64)
    mass[:n] = counts[order]
    turn = np.full(2 * n - 1, -1, int64)
    _merge(mass, turn, n)
    inner = turn[n:][::-1].copy() if n > 1 else turn  # rows are numbered from the last node made
    leaf_turn = np.empty(n, int64)
    leaf_turn[order] = turn[:n]
    depth = np.zeros(len(inner), int64)
    _descend(inner, depth)
    levels = np.searchsorted(depth, np.arange(depth[-1] + 2))
    return Tree(
        leaf_turn, inner, depth[leaf_turn >> 1] + 1 if n > 1 else np.zeros(1, int64), levels
    )


def halves(order: ndarray, n_seen: int) -> Tree:
    """The tree whose nodes halve order[:n_seen], of classes (n_classes,), the first half the larger
    by one of an odd number.

    The others, which do not occur, hang in a tree of halves beside the last one of these, so that
    they cost nothing.
    """
    n = len(order)
    leaf_turn, depth = np.full(n, -1, int64), np.zeros(n, int64)
    first, end, turn = np.array([0]), np.array([n]), np.array([-1])
    turns, levels = [turn], [0, 1]
    while n > 1:
        row = levels[-2] + np.arange(len(first))
        seen = np.minimum(end, n_seen) - first
        middle = first + (np.where(seen > 0, seen, end - first) + 1) // 2
        first, end = (
            np.column_stack([first, middle]).ravel(),
            np.column_stack([middle, end]).ravel(),
        )
        turn = np.column_stack([2 * row, 2 * row + 1]).ravel()
        is_leaf = end - first == 1
        leaf_turn[order[first[is_leaf]]], depth[order[first[is_leaf]]] = (
            turn[is_leaf],
            len(levels) - 1,
        )
        first, end, turn = first[~is_leaf], end[~is_leaf], turn[~is_leaf]
        if len(turn) == 0:
            break
        turns.append(turn)
        levels.append(levels[-1] + len(turn))
    return Tree(leaf_turn, np.concatenate(turns).astype(int64), depth, np.array(levels, int64))


def log_odds(tree: Tree, p: ndarray) -> ndarray:
    """float64 (n_rows,): the log-odds of bit 1 at each inner node if classes have the probabilities
    p, (n_classes,) above 0.
    """
    mass = np.zeros(2 * len(tree.turn))
    if len(tree.leaf_turn) == 1:
        return mass[:1]
    np.add.at(mass, tree.leaf_turn, p)
    # the deepest level first
    for first, end in zip(tree.levels[-2:0:-1], tree.levels[:1:-1], strict=True):
        np.add.at(
            mass,
            tree.turn[first:end],
            mass[2 * first : 2 * end : 2] + mass[2 * first + 1 : 2 * end : 2],
        )
    return np.log(mass[1::2]) - np.log(mass[::2])


def follow(tree: Tree) -> tuple[ndarray, ndarray, ndarray]:
    """offsets, nodes and bits of the way to every leaf, as in `contract.Paths`."""
    offsets = np.concatenate([[0], np.cumsum(tree.depth)])
    nodes, bits = np.empty(offsets[-1], np.int32), np.empty(offsets[-1], np.float32)
    _follow(tree.leaf_turn, tree.turn, offsets, nodes, bits)
    return offsets, nodes, bits

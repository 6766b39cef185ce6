"""The trees of labels that are to be trained, before they are: their levels, nodes and tiles."""

import itertools
import math
from typing import NamedTuple

import numpy as np
from numpy import int32, int64, ndarray
from scipy.sparse import csr_matrix

from embedx.classification.clustering import vectors_of
from embedx.classification.label_weights import tree_depth
from embedx.classification.settings import TREE, ClassifySettings
from embedx.engine.examples import Examples
from embedx.engine.tiles import TILE_WIDTH
from embedx.errors import Setting
from embedx.labeled.data import Labels
from embedx.runtime.progress import Progress
from embedx.search.balanced_tree import balanced_tree


class LevelPlan(NamedTuple):
    """A level that is to be trained.

    first_node     int64 (n_groups + 1,): where the nodes of each group begin
    node_of_place  int32 (n_places,): the node of each label, in the tree's order
    node_above     int32 (n_places,): its node in the level above
    tiles          (group, first node, end) of at most TILE_WIDTH nodes
    """

    first_node: ndarray
    node_of_place: ndarray
    node_above: ndarray
    tiles: list[tuple[int, int, int]]

    @property
    def n_nodes(self) -> int:
        return int(self.first_node[-1])

    @property
    def n_groups(self) -> int:
        """The number of nodes of the level above."""
        return len(self.first_node) - 1


class TreePlan(NamedTuple):
    """The labels of a tree in its order, int32 (n_places,), and its levels from the top."""

    labels: ndarray
    levels: list[LevelPlan]


def tree_plans(
    features: csr_matrix,
    examples: Examples,
    counts: ndarray,
    settings: ClassifySettings,
    progress: Progress,
) -> list[TreePlan]:
    """The trees that the settings ask for, or a single level, of the labels that occur."""
    labels = np.flatnonzero(counts).astype(int32)
    depth = tree_depth(len(labels), settings)
    if depth > 0:
        with progress.stage("cluster labels"):
            return _clustered(features, examples, labels, depth, settings, progress)
    if settings.weights == TREE:
        progress.note(
            f"{len(labels):,} labels are too few for a tree with leaves of ",
            Setting("leaf_size", settings.leaf_size),
            ": all are scored",
        )
    # The labels of a tile are then about equally frequent, and their masks about equally large.
    by_frequency = labels[np.argsort(-counts[labels], kind="stable")]
    return [_single_level(by_frequency)]


def _single_level(labels: ndarray) -> TreePlan:
    """All labels as the only leaf of a tree without other nodes."""
    return tree_plan(labels, 0, np.array([0, len(labels)]), arity=2)


def _clustered(
    features: csr_matrix,
    examples: Examples,
    labels: ndarray,
    depth: int,
    settings: ClassifySettings,
    progress: Progress,
) -> list[TreePlan]:
    """Trees of labels that are clustered by the features of their examples."""
    threads = settings.n_threads
    progress.start("clustering labels", settings.trees, "trees")
    labels_of_rows = Labels(examples.label_offsets, examples.label_ids)
    vectors = vectors_of(features, labels_of_rows, labels, threads)
    trees = []
    for t in range(settings.trees):
        order, edges = balanced_tree(vectors, features.shape[1], depth, settings.seed + t, threads)
        trees.append(tree_plan(labels[order], depth, edges, settings.arity))
        progress.update(t + 1)
    progress.finish()
    return trees


def tree_plan(labels: ndarray, depth: int, edges: ndarray, arity: int) -> TreePlan:
    """The levels of a tree whose 2^depth leaves are labels[edges[k]:edges[k + 1]].

    A node has at most `arity` children.
    """
    max_bits = max(1, int(math.log2(arity)))
    n_levels = -(-depth // max_bits)
    # Rounded up: all rows visit the nodes below the root once, but those below them once for each
    # node of the beam.
    depths = [0] + [-(-depth * (level + 1) // n_levels) for level in range(n_levels)]
    leaf = np.repeat(np.arange(2**depth), np.diff(edges))
    levels = []
    for depth_above, depth_here in itertools.pairwise(depths):
        first_node = np.arange(0, 2**depth_here + 1, 2 ** (depth_here - depth_above))
        node = leaf >> (depth - depth_here)
        node_above = leaf >> (depth - depth_above)
        levels.append(_level_plan(first_node, node, node_above))
    levels.append(_level_plan(edges, np.arange(len(labels)), leaf))
    return TreePlan(labels, levels)


def _level_plan(first_node: ndarray, node_of_place: ndarray, node_above: ndarray) -> LevelPlan:
    """A level of a tree, with its tiles."""
    groups = itertools.pairwise(first_node.tolist())
    tiles = [
        (group, start, min(start + TILE_WIDTH, last))
        for group, (first, last) in enumerate(groups)
        for start in range(first, last, TILE_WIDTH)
    ]
    return LevelPlan(
        first_node.astype(int64), node_of_place.astype(int32), node_above.astype(int32), tiles
    )

"""Hierarchical softmax: a class is reached by a path of binary decisions, each a logistic
regression at a node of a tree.

Morin & Bengio 2005, "Hierarchical probabilistic neural network language model":
    log p(y | h) = Σ_k log σ(±z_k)       k over the nodes on the path to y, + where the bit is 1
    loss = Σ_k bit_k · softplus(-z_k) + (1 - bit_k) · softplus(z_k)
    ∂loss/∂z_k = σ(z_k) - bit_k
An example costs about log K scores instead of K. The probabilities sum to one by construction, and
with free scores reach any distribution. (word2vec.c has the opposite signs, which changes nothing.)

The tree of words is Huffman's, the shortest, as in Mikolov et al. 2013. The tree of labels is made
of clusters of similar labels, by the features of their rows, as in Parabel (Prabhu et al. 2018).
"""

from dataclasses import replace

import numpy as np
from numpy import ndarray

from embedx.kernels import ZERO, kernel
from embedx.objectives.binary_tree import Tree, follow, halves, huffman, log_odds
from embedx.objectives.contract import About, ByInput, Objective, Traits
from embedx.objectives.parts import binary, log_sigmoid
from embedx.samplers.contract import Paths
from embedx.settings import Settings, param


class HierarchySettings(Settings):
    """Settings of hierarchical softmax."""

    hierarchy: str = param(
        "clusters",
        "binary tree of labels; `clusters`: by similarity of their rows' features, `huffman`: by"
        " frequency",
        choices=("clusters", "huffman"),
        has_option=False,
    )


@kernel
def coefficients(batch, state, constants, n_examples, n, lr):
    """Summed loss of the examples; overwrites their scores z[:n_examples, :n] by ∂loss/∂z."""
    z = batch.z
    sample_count = batch.sample_count
    total = np.float64(0)
    for e in range(n_examples):
        loss = ZERO
        for k in range(n):
            loss += binary(batch, e, k, z[e, k], sample_count[e, k])
        total += loss
    return total


class HierarchicalSoftmax(Objective):
    name = "hs"
    about = About(
        title="hierarchical softmax",
        paper="Morin & Bengio 2005",
        formula="sum_(k on the path) bit softplus(-z_k) + (1 - bit) softplus(z_k)",
        advice="probabilities at log K cost, without noise",
    )
    Settings = HierarchySettings
    coefficients = staticmethod(coefficients)
    # sparse: eval/results/defaults.md#what-was-found
    label_defaults = {"learning_rate": ByInput(dense=1.0, sparse=0.3, hidden=0.4)}
    word_defaults = {"learning_rate": 1.0, "hierarchy": "huffman"}
    label_settings = ("hierarchy",)
    candidates = ("path",)
    traits = Traits(ranks_by_score=False, merges_pairs=True, uses_log_expected_count=False)
    tree: Tree

    def traits_for_settings(self) -> Traits:
        return replace(self.traits, uses_class_order=self.settings.hierarchy == "clusters")

    def prepare(self, counts: ndarray, order: ndarray | None = None) -> None:
        self.tree = (
            huffman(counts) if order is None else halves(order, int(np.count_nonzero(counts)))
        )

    def paths(self) -> Paths:
        return Paths(*follow(self.tree))

    def n_outputs(self, n_classes: int) -> int:
        return max(n_classes - 1, 1)

    def initial_bias(self, p: ndarray, noise: ndarray) -> ndarray:
        return log_odds(self.tree, p)

    def log_probability(self, z: ndarray, log_noise: ndarray) -> ndarray:
        tree = self.tree
        if len(tree.leaf_branch) == 1:
            return np.zeros_like(z)
        right = log_sigmoid(z)
        log_p = np.stack([right - z, right], axis=-1).reshape(*z.shape[:-1], -1)
        for first, end in zip(tree.levels[1:-1], tree.levels[2:], strict=True):
            log_p[..., 2 * first : 2 * end] += np.repeat(
                log_p[..., tree.branch[first:end]], 2, axis=-1
            )
        return log_p[..., tree.leaf_branch]

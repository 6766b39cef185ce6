"""Adversarial noise: draws labels that are likely for the input, by a tree fitted to the training
data before training.

Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation". The input of
the tree (`tree`) is reduced to a few `principal_components`. A draw takes O(k log K), and log
p(label | input) is known for every label: objectives weight draws by it, and negative sampling
corrects its predictions (eq. 5). Positives may be drawn as well, as theorem 1 requires. The
gradient of negative sampling has the highest signal-to-noise ratio if p is the distribution of the
data (theorem 2).

Two differences from the authors' code, among others. It splits the labels of a node by the first
eigenvector alone; this one alternates, as in the paper. It draws by the tree alone; here a share of
the draws may be uniform, so that no label's probability is below share / K and no importance weight
above K / share (defensive importance sampling, Hesterberg 1995).
"""

import dataclasses
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import float32, float64, int32, int64, ndarray, uint64

from embedx.errors import DataError, Setting
from embedx.kernels import ONE, bits, dot, exp, kernel, kernel_part, padded, softplus, uniform
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Pairs, Sampler, SamplerData, new_data, pairs_of
from embedx.samplers.principal_components import Projection, fit_projection, projected
from embedx.samplers.tree import (
    Tree,
    fit_tree,
    log_likelihood,
    log_probabilities,
    n_leaves_for,
    path_log_probability,
)
from embedx.settings import Settings, param

# The default of the authors' code. The paper's 0.1 gives the same accuracy and a lower likelihood
# (eval/results/defaults.md#what-was-found).
TREE_L2 = 1.0
# Default if predictions are not corrected for the noise (eval/results/defaults.md#what-was-found).
UNIFORM_SHARE = 0.3
# Places of the constants, counted from the end of `SamplerData.values`, which begins with the
# biases of the tree's inner nodes. `rows` has the label of each leaf, then the leaf of each label.
SHARE = -3
LOG_TREE_SHARE = -2
LOG_UNIFORM = -1
# Counters of random numbers that no level of a tree uses.
IS_UNIFORM = uint64(2**32)
UNIFORM = uint64(2**32 + 1)
# Expected number of draws up to which it equals the probability of at least one draw.
MAX_COUNT_AS_PROBABILITY = float32(1e-4)
ARRAYS = ("projection", "offset", "weights", "biases", "leaves")

REMEDY = "restore the model from a copy, or train again"


class AdversarialSettings(Settings):
    """Settings of the tree, and of the uniform share."""

    panel = "Sampler"

    tree_features: int = param(
        16,
        "principal components of the inputs, from which the tree of `adversarial` predicts labels",
        at_least=1,
        at_most=1024,
        has_option=False,
    )
    tree_l2: float = param(
        TREE_L2,
        "L2 regularisation of the nodes of the tree of `adversarial`",
        above=0.0,
        has_option=False,
    )
    uniform_share: float | None = param(
        None,
        "share of the draws of `adversarial` that are uniform, which bounds importance weights; by"
        f" default {UNIFORM_SHARE}, or 0 where predictions are corrected for the noise, as those of"
        " `ns`",
        at_least=0.0,
        at_most=1.0,
        has_option=False,
    )


@kernel
def sample(data, input_row, stream, first, n, n_excluded, workspace):
    """Draw n rows with replacement, each from the tree or uniformly; see `contract`."""
    n_inner = data.weights.shape[0]
    n_classes = data.rows.size - _n_leaves(data)
    share = data.values[SHARE]
    for d in range(n):
        draw = bits(stream, first + uint64(d))
        if uniform(draw, IS_UNIFORM) < share:
            workspace.rows[d] = min(int64(uniform(draw, UNIFORM) * n_classes), n_classes - 1)
            continue
        node = 0
        level = 0
        while node < n_inner:
            score = dot(data.features, input_row, data.weights, node) + data.values[node]
            goes_right = uniform(draw, uint64(level)) * (ONE + exp(-score)) < 1
            node = 2 * node + (2 if goes_right else 1)
            level += 1
        leaf = node - n_inner
        workspace.rows[d] = data.rows[leaf]
    return n


@kernel_part
def _n_leaves(data):
    """The number of the tree's leaves, one more than its inner nodes."""
    return data.weights.shape[0] + 1


@kernel_part
def _log_mixed(log_p, values):
    """The log-probability of a row at a draw, from its log-probability in the tree."""
    if values[SHARE] == 0:
        return log_p
    log_uniform = values[LOG_UNIFORM]
    return log_uniform + softplus(log_p + values[LOG_TREE_SHARE] - log_uniform)


@kernel_part
def _log_p(data, input_row, row):
    """The log-probability of a row at a draw."""
    leaf = int64(data.rows[_n_leaves(data) + row])
    log_p = path_log_probability(data.weights, data.values, leaf, data.features, input_row)
    return _log_mixed(log_p, data.values)


@kernel_part
def _log_drawn_at_all(log_p, log_n, n):
    """The log-probability of at least one hit in n draws."""
    if log_p + log_n < np.log(MAX_COUNT_AS_PROBABILITY):
        return log_p + log_n
    p = min(np.exp(float64(log_p)), 1 - 1e-12)
    return float32(np.log(-np.expm1(n * np.log1p(-p))))


@kernel
def log_expected_count(data, input_row, n_drawn, n_excluded, rows, n, out):
    """log(n_drawn · p); see `contract`."""
    log_n = float32(np.log(max(n_drawn, 1)))
    for k in range(n):
        out[k] = log_n + _log_p(data, input_row, int64(rows[k]))


@kernel
def log_drawn_at_all(data, input_row, n_drawn, n_excluded, rows, n, out):
    """The log-probability of at least one draw, where a row counts once; see `contract`."""
    log_n = float32(np.log(max(n_drawn, 1)))
    for k in range(n):
        out[k] = _log_drawn_at_all(_log_p(data, input_row, int64(rows[k])), log_n, max(n_drawn, 1))


@kernel
def _to_log_noise(log_p, values, n, replacement):
    """Overwrite the tree's log p, (rows, n_classes), by the log expected count of each class among
    n draws or, without replacement, by the log-probability that it is drawn at all.
    """
    log_n = float32(np.log(n))
    for i in range(log_p.shape[0]):
        for y in range(log_p.shape[1]):
            mixed = _log_mixed(log_p[i, y], values)
            if replacement:
                log_p[i, y] = mixed + log_n
            else:
                log_p[i, y] = _log_drawn_at_all(mixed, log_n, n)


class Adversarial(Sampler):
    name = "adversarial"
    meaning = "labels that a tree fitted to the training data predicts for the input"
    candidates = "drawn"
    Settings = AdversarialSettings
    conditional = True
    sample = staticmethod(sample)
    # Set by `fit` or `restore`.
    projection: Projection
    tree: Tree

    def __init__(self, settings: Any, *, replacement: bool = True) -> None:
        super().__init__(settings, replacement=replacement)
        self.log_expected_count = log_expected_count if replacement else log_drawn_at_all
        self.features = np.zeros((0, 0), float32)

    @classmethod
    def fill_defaults(cls, settings: Any, *, corrected: bool) -> Any:
        share = settings.uniform_share
        return dataclasses.replace(
            settings,
            uniform_share=(0.0 if corrected else UNIFORM_SHARE) if share is None else share,
        )

    @property
    def noise(self) -> ndarray:
        """The shares of the classes in the training data, in which each counts at least half."""
        counts = np.maximum(np.asarray(self.counts, float64), 0.5)
        return counts / counts.sum()

    def log_noise(self, n_draws: int) -> ndarray:
        return np.asarray(np.log(n_draws * self.noise), float32)

    # ---- fitting

    def fit(
        self,
        inputs: Any,
        pairs: Pairs,
        *,
        seed: int = 0,
        threads: int = 1,
        progress: Progress = SILENT,
    ) -> None:
        _compile()
        began = time.monotonic()
        n_features = self.settings.tree_features
        progress.note(
            f"fitting a tree of {len(self.counts):,} labels to {n_features} features of"
            f" {inputs.shape[0]:,} inputs"
        )
        self.projection = fit_projection(inputs, n_features, seed=seed)
        self.features = projected(inputs, self.projection)
        self.tree = fit_tree(
            self.features, n_features, pairs, l2=self.settings.tree_l2, threads=threads
        )
        self.fit_seconds = time.monotonic() - began
        progress.note(
            f"fitted in {self.fit_seconds:.1f} s; mean log-likelihood"
            f" {log_likelihood(self.tree, self.features, pairs):.3f}"
        )

    def observe(self, inputs: Any) -> None:
        self.features = projected(inputs, self.projection)

    # ---- the model folder

    def arrays(self) -> dict[str, ndarray]:
        tree = self.tree
        arrays = (*self.projection, tree.weights, tree.biases, tree.leaf_of_label)
        return {f"noise_{name}": array for name, array in zip(ARRAYS, arrays, strict=True)}

    def restore(self, arrays: Mapping[str, ndarray]) -> None:
        self._check_fit(arrays)
        projection, offset, weights, biases = (
            np.array(arrays[f"noise_{name}"], float32, order="C") for name in ARRAYS[:-1]
        )
        leaf_of_label = np.array(arrays["noise_leaves"], int32)
        label_of_leaf = np.full(n_leaves_for(len(leaf_of_label)), -1, int32)
        label_of_leaf[leaf_of_label] = np.arange(len(leaf_of_label))
        self.projection = Projection(projection, offset)
        self.tree = Tree(weights, biases, label_of_leaf, leaf_of_label)

    def _check_fit(self, arrays: Mapping[str, ndarray]) -> None:
        """Raise `DataError` if shapes or values of saved arrays are not valid: compiled code does
        not check them.
        """
        stride = padded(self.settings.tree_features)
        n_leaves = n_leaves_for(len(self.counts))
        shapes = (
            (stride,),
            (stride,),
            (n_leaves - 1, stride),
            (n_leaves - 1,),
            (len(self.counts),),
        )
        for name, shape in zip(ARRAYS, shapes, strict=True):
            file = f"noise_{name}.npy"
            if f"noise_{name}" not in arrays:
                problem = ("missing, which ", Setting("sampler", self.name), " has")
                raise DataError(file, None, problem, REMEDY)
            stored_shape = arrays[f"noise_{name}"].shape
            if stored_shape[-len(shape) :] != shape:
                raise DataError(file, None, f"{stored_shape} where the tree has {shape}", REMEDY)
        leaves = arrays["noise_leaves"]
        if (
            len(np.unique(leaves)) < len(leaves)
            or leaves.min(initial=0) < 0
            or leaves.max(initial=0) >= n_leaves
        ):
            not_one = f"not a leaf of its own, of {n_leaves:,}, for each label"
            raise DataError("noise_leaves.npy", None, not_one, REMEDY)

    # ---- draws and their probabilities

    def data(self, n_draws: int) -> SamplerData:
        rows = np.concatenate([self.tree.label_of_leaf, self.tree.leaf_of_label])
        return new_data(
            rows=rows, values=self._values, weights=self.tree.weights, features=self.features
        )

    def log_noise_of(self, inputs: Any, n_draws: int) -> ndarray:
        return self._log_noise(projected(inputs, self.projection), n_draws)

    def _log_noise(self, features: ndarray, n_draws: int) -> ndarray:
        log_p = log_probabilities(self.tree, features)
        _to_log_noise(log_p, self._values, max(n_draws, 1), self.replacement)
        return log_p

    @property
    def _values(self) -> ndarray:
        """The tree's biases, then the three constants of the mixture, float32 (n_leaves + 2,)."""
        share = float(self.settings.uniform_share or 0)
        with np.errstate(divide="ignore"):
            constants = [share, np.log(1 - share), np.log(share / len(self.counts))]
        return np.concatenate([self.tree.biases, np.array(constants, float32)])


def _compile() -> None:
    """Compile or load the kernels, so that their compile time does not count as `fit_seconds`."""
    inputs = np.eye(4, dtype=float32)
    features = projected(inputs, fit_projection(inputs, 2))
    pairs = pairs_of(np.arange(4), np.array([0, 1, 2, 2]), 3)
    log_likelihood(fit_tree(features, 2, pairs, l2=1.0), features, pairs)

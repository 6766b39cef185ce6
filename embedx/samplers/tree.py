"""A balanced binary tree over labels that predicts p(label | features), fitted to pairs of features
and labels.

Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation", section 3:

    log p(y | x) = Σ over the nodes on the path to y of log σ(±(w·x + b))
                   + to the right child, - to the left

The tree is perfect: node v has the children 2v + 1 and 2v + 2, and the leaves follow the inner
nodes. If the number of labels is no power of two, some leaves are padding. A node with labels on
its right side only has w = 0 and the bias CERTAIN: its left side has probability e^-CERTAIN, which
is 0 in float32 and float64, so that padding is never drawn and the probabilities of the labels sum
to one.

It is fitted from the root down (section 3, "greedy model fitting"). The labels of a node are split
into halves by alternating two steps:

    eq. 8   (w, b) maximise Σ over the node's pairs of log σ(ζ_y (w·x + b)) - λ (|w|² + b²),
            by Newton's method
    eq. 9   ζ maximises it: the half of the labels with the largest
            Δ_y = Σ over the pairs of y of (w·x + b) goes right

until no label changes sides. The first split is by the dominant eigenvector of the covariance of
the labels' sums of x, with b = 0. Δ_y = w·s_y + n_y b depends only on these sums s_y and the counts
n_y, so that splitting costs nothing compared with Newton's method.
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import NamedTuple

import numpy as np
from numpy import float32, float64, int8, int32, int64, ndarray

from embedx.kernels import ZERO, aligned_zeros, dot, kernel, kernel_part, select, sigmoid, softplus
from embedx.samplers.contract import Pairs

# Bias of a node with labels on one side; finite, as saved parameters must be.
CERTAIN = float32(1e4)
# Maximum number of rounds of Newton's method and a new split. Most nodes converge in 3 to 6.
MAX_ROUNDS = 20
MAX_NEWTON_STEPS = 20
# Maximum number of halvings of a step that lowers the objective.
MAX_HALVINGS = 10
# Gain of a step, in nats per pair, below which Newton's method ends; between splits it is less
# exact.
TOLERANCE = 1e-7
TOLERANCE_BETWEEN_SPLITS = 1e-3
# Gain of a step, in nats of all pairs, below which it ends in any case: pairs may have no weight.
MIN_GAIN = 1e-9
# Share of the objective by which a step may seem to lower it: margins are rounded to float32.
ROUNDING = 1e-6
# Maximum number of pairs of a node for Newton's method: a thousand for each parameter.
MAX_PAIRS = 1 << 14
# Steps of the power method, whose result is only the first split.
POWER_STEPS = 30
# Chunks of a level's nodes per thread; a thread takes the next when it is free.
CHUNKS = 32
# Number of inputs whose nodes are scored at a time.
BATCH = 256


class Tree(NamedTuple):
    """A fitted tree of n_leaves, a power of two, over n_labels <= n_leaves."""

    weights: ndarray  # float32 (n_leaves - 1, stride)
    biases: ndarray  # float32 (n_leaves - 1,)
    label_of_leaf: ndarray  # int32 (n_leaves,); -1 for padding
    leaf_of_label: ndarray  # int32 (n_labels,)


def n_leaves_for(n_labels: int) -> int:
    """The smallest power of two that is not below the number of labels."""
    return 1 << max(n_labels - 1, 0).bit_length()


# ---- fitting


class _Labels(NamedTuple):
    """The labels while the tree is fitted."""

    # int32 (n_labels,): labels by node; within a node, those of its left child first
    order: ndarray
    # float64 (n_labels, k + 1): weighted sum of a label's features, and its summed weight
    sums: ndarray
    gain: ndarray  # float64 (n_labels,): Δ
    side: ndarray  # int8 (n_labels,): 1 right, 0 left


class _Fit(NamedTuple):
    """A tree while it is fitted: its data, its labels, and the nodes that are written."""

    features: ndarray  # float32 (n, stride)
    pairs: Pairs
    l2: float
    max_rounds: int
    labels: _Labels
    weights: ndarray  # as of `Tree`
    biases: ndarray


class _Node(NamedTuple):
    """A node: its labels are order[low:high], those of its left child order[low:middle]."""

    low: int
    middle: int
    high: int
    n_pairs: int  # of its labels


class _Workspace(NamedTuple):
    """A worker's buffers, float64."""

    x: ndarray  # (k + 1,): the features of a pair, and 1
    theta: ndarray  # (k + 1,): w and b
    before: ndarray  # (k + 1,)
    gradient: ndarray  # (k + 1,)
    step: ndarray  # (k + 1,)
    hessian: ndarray  # (k + 1, k + 1)


def _new_workspace(width: int) -> _Workspace:
    """Buffers for `width` = k + 1 parameters of a node."""
    return _Workspace(
        x=np.zeros(width),
        theta=np.zeros(width),
        before=np.zeros(width),
        gradient=np.zeros(width),
        step=np.zeros(width),
        hessian=np.zeros((width, width)),
    )


def fit_tree(
    features: ndarray,
    n_features: int,
    pairs: Pairs,
    *,
    l2: float,
    threads: int = 1,
    max_rounds: int = MAX_ROUNDS,
) -> Tree:
    """The tree fitted to these pairs; it does not depend on the number of threads.

    features    float32 (n, stride); the columns after the first n_features are zero
    max_rounds  maximum number of rounds of Newton's method and a new split; 0 keeps the first split
    """
    n_labels = len(pairs.offsets) - 1
    width = n_features + 1
    n_leaves = n_leaves_for(n_labels)
    labels = _Labels(
        order=np.arange(n_labels, dtype=int32),
        sums=np.zeros((n_labels, width)),
        gain=np.zeros(n_labels),
        side=np.zeros(n_labels, int8),
    )
    _sum_features(features, pairs, labels.sums)
    fit = _Fit(
        features=features,
        pairs=pairs,
        l2=float(l2),
        max_rounds=max_rounds,
        labels=labels,
        weights=aligned_zeros(n_leaves - 1, n_features),
        biases=np.zeros(n_leaves - 1, float32),
    )
    # Node j of a level has the labels order[bounds[j]:bounds[j + 1]].
    bounds = np.array([0, n_labels], int64)
    with ThreadPoolExecutor(threads) as pool:
        while len(bounds) - 1 < n_leaves:
            edges = _edges_of_chunks(len(bounds) - 1, threads * CHUNKS)
            list(pool.map(partial(_fit_chunk, fit, bounds), edges[:-1], edges[1:]))
            middles = bounds[:-1] + np.diff(bounds) // 2
            bounds = np.append(np.column_stack([bounds[:-1], middles]).reshape(-1), n_labels)

    label_of_leaf = np.full(n_leaves, -1, int32)
    leaf_of_label = np.zeros(n_labels, int32)
    leaves = np.flatnonzero(np.diff(bounds))
    label_of_leaf[leaves] = labels.order
    leaf_of_label[labels.order] = leaves
    return Tree(fit.weights, fit.biases, label_of_leaf, leaf_of_label)


def _edges_of_chunks(n: int, max_chunks: int) -> ndarray:
    """Edges of chunks of n nodes of about equal size, int64 (chunks + 1,)."""
    n_chunks = min(n, max_chunks)
    return np.arange(n_chunks + 1) * n // n_chunks


def _fit_chunk(fit: _Fit, bounds: ndarray, first: int64, last: int64) -> None:
    """Fit nodes first:last of a level in a workspace of their own; see `_fit_nodes`."""
    width = fit.labels.sums.shape[1]
    _fit_nodes(fit, bounds, first, last, _new_workspace(width))


@kernel
def _sum_features(features, pairs, sums):
    """Write the weighted sum of features and the summed weight of each label."""
    k = sums.shape[1] - 1
    for y in range(sums.shape[0]):
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            for a in range(k):
                sums[y, a] += pairs.weights[p] * features[pairs.inputs[p], a]
            sums[y, k] += pairs.weights[p]


@kernel
def _fit_nodes(fit, bounds, first, last, workspace):
    """Fit nodes first:last of a level; node j has the labels order[bounds[j]:bounds[j + 1]].

    Reorders the labels of each node: those of its left child come first.
    """
    k = workspace.theta.size - 1
    n_above = bounds.size - 2  # nodes of the levels above
    offsets = fit.pairs.offsets
    order = fit.labels.order
    for j in range(first, last):
        low = bounds[j]
        high = bounds[j + 1]
        v = n_above + j  # its number in the tree
        if high - low < 2:
            fit.biases[v] = CERTAIN
            continue
        n_pairs = 0
        for at in range(low, high):
            n_pairs += offsets[order[at] + 1] - offsets[order[at]]
        _fit_node(fit, _Node(low, low + (high - low) // 2, high, n_pairs), workspace)
        for a in range(k):
            fit.weights[v, a] = workspace.theta[a]
        fit.biases[v] = workspace.theta[k]


@kernel_part
def _fit_node(fit, node, workspace):
    """Write a node's (w, b) to theta, and reorder its labels."""
    labels = fit.labels
    _dominant_eigenvector(labels, node, workspace)
    _split(labels, node, workspace)
    workspace.theta[:] = 0
    if node.high - node.low > 2:  # two labels have one split and its mirror image
        for _ in range(fit.max_rounds):
            _ascend(fit, node, TOLERANCE_BETWEEN_SPLITS, workspace)
            if _split(labels, node, workspace) == 0:
                break
    _ascend(fit, node, TOLERANCE, workspace)


@kernel_part
def _dominant_eigenvector(labels, node, workspace):
    """Write to theta the dominant eigenvector of the covariance of the sums of a node's labels, by
    the power method, and b = 0.
    """
    low = node.low
    high = node.high
    theta = workspace.theta
    # Buffers of Newton's method, which begins later.
    mean = workspace.before
    product = workspace.step
    covariance = workspace.hessian
    k = theta.size - 1
    mean[:] = 0
    for at in range(low, high):
        for a in range(k):
            mean[a] += labels.sums[labels.order[at], a] / (high - low)
    covariance[:] = 0
    for at in range(low, high):
        y = labels.order[at]
        for a in range(k):
            for b in range(k):
                covariance[a, b] += (labels.sums[y, a] - mean[a]) * (labels.sums[y, b] - mean[b])
    largest = 0
    for a in range(1, k):
        if covariance[a, a] > covariance[largest, largest]:
            largest = a
    theta[:] = 0
    theta[largest] = 1
    for _ in range(POWER_STEPS):
        square = 0.0
        for a in range(k):
            product[a] = _inner(covariance[a], theta)
            square += product[a] * product[a]
        if square <= 0:
            break
        for a in range(k):
            theta[a] = product[a] / np.sqrt(square)


@kernel_part
def _inner(x, y):
    """The inner product of two float64 vectors, summed in the order of their elements."""
    total = 0.0
    for a in range(x.size):
        total += x[a] * y[a]
    return total


# ---- the split of a node's labels


@kernel_part
def _split(labels, node, workspace):
    """Move the labels with the largest Δ, at the current (w, b), to the right child; return the
    number of labels that changed sides.
    """
    for at in range(node.low, node.high):
        y = labels.order[at]
        labels.gain[y] = _inner(labels.sums[y], workspace.theta)
    select(labels.order, labels.gain, node.low, node.middle, node.high)
    n_changed = 0
    for at in range(node.low, node.high):
        y = labels.order[at]
        side = int8(at >= node.middle)
        n_changed += labels.side[y] != side
        labels.side[y] = side
    return n_changed


# ---- Newton's method


@kernel_part
def _ascend(fit, node, tolerance, workspace):
    """Move theta to the maximum of eq. 8 for the current split of the node, by Newton's method.

    The objective is strictly concave, so it has one maximum.
    """
    value, total_weight = _gradient_and_hessian(fit, node, workspace)
    for _ in range(MAX_NEWTON_STEPS):
        expected_gain = _newton_step(workspace)
        if expected_gain < tolerance * total_weight + MIN_GAIN:
            break
        has_moved, value = _take_step(fit, node, value, workspace)
        if not has_moved:
            break


@kernel_part
def _take_step(fit, node, value, workspace):
    """Move theta by the step, which is halved up to MAX_HALVINGS times while it lowers the
    objective, then undone; return whether theta moved, and the objective there.

    value  the objective before the step
    """
    theta = workspace.theta
    before = workspace.before
    for a in range(theta.size):
        before[a] = theta[a]
        theta[a] += workspace.step[a]
    for _ in range(MAX_HALVINGS):
        new_value, _ = _gradient_and_hessian(fit, node, workspace)
        if new_value >= value - ROUNDING * abs(value):
            return True, new_value
        for a in range(theta.size):
            theta[a] = 0.5 * (theta[a] + before[a])
    for a in range(theta.size):
        theta[a] = before[a]
    return False, value


@kernel_part
def _gradient_and_hessian(fit, node, workspace):
    """(value of eq. 8 at theta, sum of weights); writes the gradient, and the negative of the lower
    half of the Hessian.

    Of more than MAX_PAIRS pairs only one in `period` is used, with `period` times its weight.
    """
    pairs = fit.pairs
    l2 = fit.l2
    x = workspace.x
    theta = workspace.theta
    gradient = workspace.gradient
    hessian = workspace.hessian
    k = theta.size - 1
    gradient[:] = 0
    hessian[:] = 0
    value = 0.0
    total_weight = 0.0
    period = (node.n_pairs + MAX_PAIRS - 1) // MAX_PAIRS
    n_since_used = 0
    x[k] = 1
    for at in range(node.low, node.high):
        y = fit.labels.order[at]
        sign = 1.0 if at >= node.middle else -1.0
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            n_since_used += 1
            if n_since_used < period:
                continue
            n_since_used = 0
            weight = period * float64(pairs.weights[p])
            for a in range(k):
                x[a] = fit.features[pairs.inputs[p], a]
            value -= weight * _add_pair(sign, weight, workspace)
            total_weight += weight
    for a in range(k + 1):
        value -= l2 * theta[a] * theta[a]
        gradient[a] -= 2 * l2 * theta[a]
        hessian[a, a] += 2 * l2
    return value, total_weight


@kernel_part
def _add_pair(sign, weight, workspace):
    """Add the terms of the pair with the features x to the gradient and the Hessian; return its
    -log σ(±(w·x + b)).
    """
    x = workspace.x
    gradient = workspace.gradient
    hessian = workspace.hessian
    margin = float32(sign * _inner(x, workspace.theta))
    wrong = float64(sigmoid(-margin))
    for a in range(x.size):
        gradient[a] += sign * weight * wrong * x[a]
        curvature = weight * wrong * (1 - wrong) * x[a]
        for b in range(a + 1):
            hessian[a, b] += curvature * x[b]
    return softplus(-margin)


@kernel_part
def _newton_step(workspace):
    """Write the step hessian⁻¹ gradient, by Cholesky's decomposition of the lower half; return its
    expected gain.
    """
    h = workspace.hessian
    step = workspace.step
    gradient = workspace.gradient
    n = step.size
    expected_gain = 0.0
    for a in range(n):
        for b in range(a + 1):
            total = h[a, b] - _inner(h[a, :b], h[b, :b])
            h[a, b] = np.sqrt(total) if a == b else total / h[b, b]
        step[a] = (gradient[a] - _inner(h[a, :a], step[:a])) / h[a, a]
        expected_gain += 0.5 * step[a] * step[a]
    for a in range(n - 1, -1, -1):
        step[a] = (step[a] - _inner(h[a + 1 :, a], step[a + 1 :])) / h[a, a]
    return expected_gain


# ---- probabilities


def log_probabilities(tree: Tree, features: ndarray) -> ndarray:
    """log p of every label, float32 (n, n_labels), in one pass down the tree."""
    out = np.empty((len(features), len(tree.leaf_of_label)), float32)
    nodes = np.empty(2 * len(tree.label_of_leaf) - 1, float32)
    for start in range(0, len(features), BATCH):
        rows = slice(start, start + BATCH)
        _down(features[rows] @ tree.weights.T + tree.biases, tree.leaf_of_label, nodes, out[rows])
    return out


@kernel
def _down(scores, leaf_of_label, nodes, out):
    """Write to `out`, (n, n_labels), the sums of log σ(±scores), (n, nodes), along the paths to the
    labels.
    """
    n_inner = scores.shape[1]
    for i in range(scores.shape[0]):
        nodes[0] = 0
        for v in range(n_inner):
            score = scores[i, v]
            tail = softplus(-abs(score))
            nodes[2 * v + 1] = nodes[v] - (max(score, ZERO) + tail)
            nodes[2 * v + 2] = nodes[v] - (max(-score, ZERO) + tail)
        for y in range(leaf_of_label.size):
            out[i, y] = nodes[n_inner + leaf_of_label[y]]


def log_likelihood(tree: Tree, features: ndarray, pairs: Pairs) -> float:
    """The weighted mean log p of the pairs."""
    total = _log_likelihood(tree, features, pairs)
    return total / max(pairs.weights.sum(dtype=float64), 1e-30)


@kernel
def _log_likelihood(tree, features, pairs):
    """The weighted sum of log p of the pairs."""
    total = 0.0
    for y in range(tree.leaf_of_label.size):
        leaf = int64(tree.leaf_of_label[y])
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            log_p = path_log_probability(
                tree.weights, tree.biases, leaf, features, int64(pairs.inputs[p])
            )
            total += pairs.weights[p] * log_p
    return total


@kernel_part
def path_log_probability(weights, biases, leaf, features, i):
    """The log-probability of a leaf given features[i]."""
    log_p = ZERO
    node = weights.shape[0] + leaf
    while node > 0:
        is_left = node & 1
        node = (node - 1) >> 1
        score = dot(features, i, weights, node) + biases[node]
        log_p -= softplus(score if is_left else -score)
    return log_p

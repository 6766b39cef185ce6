"""A balanced binary tree over labels that predicts p(label | features), fitted to pairs of inputs and labels.

Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation", section 3:

    log p(y | x) = Σ over the nodes on the path to y of log σ(±(w·x + b))          + to the right child, - to the left

The tree is perfect: node v has the children 2v + 1 and 2v + 2, and the leaves follow the inner nodes. Where the labels are no
power of two, the leaves left over are padding. A node with labels on its right side alone has w = 0 and the bias CERTAIN: its
left side has probability e^-CERTAIN, which is 0 in float32 and float64, so that padding is never drawn and the probabilities of
the labels sum to one.

It is fitted from the root on (section 3, "greedy model fitting"). At each node the labels are split into halves by turns:

    (w, b) maximise    Σ over the node's pairs of log σ(ζ_y (w·x + b)) - λ (|w|² + b²), by Newton's method               (eq. 8)
    ζ maximises it     the half of the labels with the largest Δ_y = Σ over the pairs of y of (w·x + b) goes right       (eq. 9)

until no label changes sides. The first split is by the dominant eigenvector of the covariance of the labels' sums of x, b = 0.
Δ_y = w·s_y + n_y b needs those sums s_y and counts n_y alone, so that splitting costs nothing beside Newton's method.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import dot
from embedx.kernels.maths import sigmoid, softplus
from embedx.kernels.select import select
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, splat, store, zeros
from embedx.samplers.contract import Pairs

CERTAIN = np.float32(1e4)  # finite, as saved parameters must be; e^-CERTAIN is 0 in float64 too
ROUNDS = 20  # at most, of Newton's method and a new split; most nodes are done after 3 to 6
STEPS = 20  # of Newton's method at most
HALVINGS = 10  # of a step that lowers the objective
TOLERANCE = 1e-7  # nats for each pair: Newton's method ends where a step promises less; between splits
ROUGHLY = 1e-3
MAX_PAIRS = 1 << 14  # pairs of a node that Newton's method sees: a thousand for each number that it looks for
FOLDED = 256  # pairs whose terms are added up in float32, before float64 takes their sum
POWER_STEPS = 30  # of the power method, from which only a split is wanted
CHUNKS = 8  # of a level's nodes for each thread, so that none waits long for another
SCORED = 256  # inputs whose nodes are scored at a time


class Tree(NamedTuple):
    """A fitted tree of n_leaves, a power of two, over n_labels <= n_leaves."""

    weights: np.ndarray  # float32 (n_leaves - 1, stride)
    biases: np.ndarray  # float32 (n_leaves - 1,)
    label_of_leaf: np.ndarray  # int32 (n_leaves,); -1 for padding
    leaf_of_label: np.ndarray  # int32 (n_labels,)


def n_leaves_for(n_labels: int) -> int:
    """The smallest power of two that is not below the number of labels."""
    return 1 << max(n_labels - 1, 0).bit_length()


# ---- fitting


class _Labels(NamedTuple):
    """The labels while the tree is fitted."""

    order: np.ndarray  # int32 (n_labels,): a node's labels stand together, those of its left child first
    sums: np.ndarray  # float32 (n_labels, stride): of the features of its pairs
    counts: np.ndarray  # float64 (n_labels,): of its pairs, by their weights
    gain: np.ndarray  # float64 (n_labels,): Δ
    side: np.ndarray  # int8 (n_labels,): 1 right, 0 left


class _Workspace(NamedTuple):
    """A worker's buffers."""

    w: np.ndarray  # float32 (1, stride)
    mean: np.ndarray  # float32 (1, stride)
    row: np.ndarray  # int64 (FOLDED,): the inputs of a few pairs
    margin: np.ndarray  # float32 (FOLDED,): their ζ (w·x + b)
    pull: np.ndarray  # float32 (FOLDED,): the derivative of their log-likelihood by w·x + b
    bend: np.ndarray  # float32 (FOLDED,): minus the second derivative
    sums: np.ndarray  # float32 (4, SIMD_WIDTH)
    theta: np.ndarray  # float64 (k + 1,): w and b
    before: np.ndarray  # float64 (k + 1,)
    gradient: np.ndarray  # float64 (k + 1,)
    hessian: np.ndarray  # float64 (k + 1, k + 1)
    step: np.ndarray  # float64 (k + 1,)


def fit_tree(features: np.ndarray, n_features: int, pairs: Pairs, *, l2: float, threads: int = 1) -> Tree:
    """The tree of these pairs; the same whatever the number of threads.

    features  float32 (n, stride), of which the first n_features columns count and the others are zero
    """
    n_labels, stride = len(pairs.offsets) - 1, features.shape[1]
    n_leaves = n_leaves_for(n_labels)
    labels = _Labels(
        np.arange(n_labels, dtype=np.int32), aligned_zeros(n_labels, n_features), np.zeros(n_labels), np.zeros(n_labels),
        np.zeros(n_labels, dtype=np.int8),
    )  # fmt: skip
    _sum_features(features, pairs, labels.sums, labels.counts)
    weights, biases = aligned_zeros(n_leaves - 1, n_features), np.zeros(n_leaves - 1, dtype=np.float32)
    workspaces = [_new_workspace(n_features, stride) for _ in range(threads)]
    bounds = np.array([0, n_labels], dtype=np.int64)
    n_pairs = np.diff(pairs.offsets)
    with ThreadPoolExecutor(threads) as pool:
        while len(bounds) - 1 < n_leaves:
            before = np.concatenate([[0], np.cumsum(n_pairs[labels.order])])[bounds]
            edges = _edges(np.diff(before), threads * CHUNKS)
            at = bounds

            def work(w: int, at: np.ndarray = at, edges: np.ndarray = edges) -> None:
                for chunk in range(w, len(edges) - 1, threads):
                    _fit_nodes(
                        features, pairs, labels, at, edges[chunk], edges[chunk + 1], float(l2), ROUNDS, weights, biases,
                        workspaces[w],
                    )  # fmt: skip

            list(pool.map(work, range(threads)))
            middles = bounds[:-1] + np.diff(bounds) // 2
            bounds = np.append(np.column_stack([bounds[:-1], middles]).reshape(-1), n_labels)
    label_of_leaf = np.full(n_leaves, -1, dtype=np.int32)
    leaf_of_label = np.zeros(n_labels, dtype=np.int32)
    inhabited = np.flatnonzero(np.diff(bounds))
    label_of_leaf[inhabited] = labels.order
    leaf_of_label[labels.order] = inhabited
    return Tree(weights, biases, label_of_leaf, leaf_of_label)


def _edges(n_pairs: np.ndarray, chunks: int) -> np.ndarray:
    """int64: where nodes are cut into chunks of about as much work, by their numbers of pairs."""
    work = np.cumsum(n_pairs + 30)  # solving for a step costs as much as looking at so many pairs
    cuts = np.searchsorted(work, work[-1] * np.arange(1, chunks) / chunks)
    return np.unique(np.concatenate([[0], cuts, [len(n_pairs)]])).astype(np.int64)


def _new_workspace(k: int, stride: int) -> _Workspace:
    return _Workspace(
        w=aligned_zeros(1, stride),
        mean=aligned_zeros(1, stride),
        row=np.zeros(FOLDED, dtype=np.int64),
        margin=np.zeros(FOLDED, dtype=np.float32),
        pull=np.zeros(FOLDED, dtype=np.float32),
        bend=np.zeros(FOLDED, dtype=np.float32),
        sums=aligned_zeros(4, SIMD_WIDTH),
        theta=np.zeros(k + 1),
        before=np.zeros(k + 1),
        gradient=np.zeros(k + 1),
        hessian=np.zeros((k + 1, k + 1)),
        step=np.zeros(k + 1),
    )


@kernel
def _sum_features(features, pairs, sums, counts):
    """Write each label's sum of features and number of pairs, by their weights."""
    for y in range(counts.size):
        count = 0.0
        for d in range(0, features.shape[1], SIMD_WIDTH):
            total = zeros()
            for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
                total = multiply_add(splat(pairs.weights[p]), load(features, np.int64(pairs.inputs[p]), d), total)
            store(sums, y, d, total)
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            count += pairs.weights[p]
        counts[y] = count


@kernel
def _fit_nodes(features, pairs, labels, bounds, first, last, l2, rounds, weights, biases, workspace):
    """Fit the nodes first..last of a level, of which node j has the labels order[bounds[j]:bounds[j + 1]].

    The labels of each node change places until those of its left child come first.
    """
    k = workspace.theta.size - 1
    above = bounds.size - 2  # nodes of the levels before
    theta = workspace.theta
    for j in range(first, last):
        low, high = bounds[j], bounds[j + 1]
        node = above + j
        if high - low < 2:
            biases[node] = CERTAIN
            continue
        middle = low + (high - low) // 2
        _dominant_eigenvector(labels, low, high, workspace)
        _split(labels, low, middle, high, workspace)
        theta[:] = 0
        n_pairs = 0
        for at in range(low, high):
            n_pairs += pairs.offsets[labels.order[at] + 1] - pairs.offsets[labels.order[at]]
        if high - low > 2:  # two labels have one split and its mirror image
            for _ in range(rounds):
                _ascend(features, pairs, labels.order, low, middle, high, n_pairs, l2, ROUGHLY, workspace)
                if _split(labels, low, middle, high, workspace) == 0:
                    break
        _ascend(features, pairs, labels.order, low, middle, high, n_pairs, l2, TOLERANCE, workspace)
        for a in range(k):
            weights[node, a] = theta[a]
        biases[node] = theta[k]


@kernel_part
def _dominant_eigenvector(labels, low, high, workspace):
    """Write to theta the dominant eigenvector of the covariance of a node's sums of features, and b = 0."""
    mean, theta, product, hessian = workspace.mean, workspace.theta, workspace.step, workspace.hessian
    k = theta.size - 1
    for d in range(0, mean.shape[1], SIMD_WIDTH):
        total = zeros()
        for at in range(low, high):
            total = total + load(labels.sums, np.int64(labels.order[at]), d)
        store(mean, 0, d, total * np.float32(1 / (high - low)))
    hessian[:] = 0
    for at in range(low, high):
        y = np.int64(labels.order[at])
        for a in range(k):
            product[a] = labels.sums[y, a] - mean[0, a]
        for a in range(k):
            for b in range(k):
                hessian[a, b] += product[a] * product[b]
    largest = 0
    for a in range(1, k):
        if hessian[a, a] > hessian[largest, largest]:
            largest = a
    theta[:] = 0
    theta[largest] = 1
    for _ in range(POWER_STEPS):
        square = 0.0
        for a in range(k):
            product[a] = 0
            for b in range(k):
                product[a] += hessian[a, b] * theta[b]
            square += product[a] * product[a]
        if square <= 0:
            break
        for a in range(k):
            theta[a] = product[a] / np.sqrt(square)


# ---- the split of a node's labels


@kernel_part
def _split(labels, low, middle, high, workspace):
    """Put the labels with the largest Δ behind `middle`, by the present (w, b); return how many labels changed sides."""
    theta = workspace.theta
    k = theta.size - 1
    for at in range(low, high):
        y = labels.order[at]
        gain = labels.counts[y] * theta[k]
        for a in range(k):
            gain += labels.sums[y, a] * theta[a]
        labels.gain[y] = gain
    select(labels.order, labels.gain, low, middle, high)
    n_changed = 0
    for at in range(low, high):
        y, side = labels.order[at], np.int8(at >= middle)
        n_changed += labels.side[y] != side
        labels.side[y] = side
    return n_changed


# ---- Newton's method


@kernel_part
def _ascend(features, pairs, order, low, middle, high, n_pairs, l2, tolerance, workspace):
    """Bring theta to the maximum of eq. 8 for labels order[low:middle] left, order[middle:high] right, from where it is.

    A step that lowers the objective is halved; after HALVINGS times theta stays where it was. The objective is strictly
    concave, so that there is one maximum.
    """
    theta, before, step = workspace.theta, workspace.before, workspace.step
    value, total = _gradient_and_hessian(features, pairs, order, low, middle, high, n_pairs, l2, workspace)
    for _ in range(STEPS):
        expected_gain = _newton_step(workspace)
        if expected_gain < tolerance * total + 1e-9:
            break
        for a in range(theta.size):
            before[a] = theta[a]
            theta[a] += step[a]
        for _ in range(HALVINGS):
            found, total = _gradient_and_hessian(features, pairs, order, low, middle, high, n_pairs, l2, workspace)
            if found >= value - 1e-6 * abs(value):
                break
            for a in range(theta.size):
                theta[a] = 0.5 * (theta[a] + before[a])
        else:
            for a in range(theta.size):
                theta[a] = before[a]
            break
        value = found


@kernel_part
def _gradient_and_hessian(features, pairs, order, low, middle, high, n_pairs, l2, workspace):
    """Write gradient and (minus) Hessian of eq. 8 at theta; return its value and the number of pairs, by their weights.

    Of a node with more than MAX_PAIRS pairs every second, third, ... is looked at, and counts for as many.
    """
    theta, gradient, hessian, w = workspace.theta, workspace.gradient, workspace.hessian, workspace.w
    k = theta.size - 1
    bias = np.float32(theta[k])
    for a in range(k):
        w[0, a] = theta[a]
    gradient[:] = 0
    hessian[:] = 0
    value = total = 0.0
    every = (n_pairs + MAX_PAIRS - 1) // MAX_PAIRS
    n = turn = 0
    for at in range(low, high):
        y = order[at]
        sign = np.float32(1) if at >= middle else np.float32(-1)
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            turn += 1
            if turn < every:
                continue
            turn = 0
            i, weight = np.int64(pairs.inputs[p]), np.float32(every) * pairs.weights[p]
            workspace.row[n] = i
            workspace.margin[n] = sign * (dot(features, i, w, 0) + bias)
            workspace.pull[n] = sign * weight
            total += weight
            n += 1
            if n == FOLDED:
                value -= _add_up(features, n, workspace)
                n = 0
    value -= _add_up(features, n, workspace)
    for a in range(k + 1):
        value -= l2 * theta[a] * theta[a]
        gradient[a] -= 2 * l2 * theta[a]
        hessian[a, a] += 2 * l2
    return value, total


@kernel_part
def _add_up(features, n, workspace):
    """Add n pairs to gradient and Hessian; return their loss. `pull` holds their weights, signed by their side."""
    row, margin, pull, bend = workspace.row, workspace.margin, workspace.pull, workspace.bend
    gradient, hessian, sums = workspace.gradient, workspace.hessian, workspace.sums
    k = gradient.size - 1
    loss = slope = curvature = np.float32(0)
    for q in range(n):
        wrong, weight = sigmoid(-margin[q]), abs(pull[q])
        loss += weight * softplus(-margin[q])
        bend[q] = weight * wrong * (np.float32(1) - wrong)
        pull[q] *= wrong
        slope += pull[q]
        curvature += bend[q]
    gradient[k] += slope
    hessian[k, k] += curvature
    for d in range(0, features.shape[1], SIMD_WIDTH):
        along, across = zeros(), zeros()
        for q in range(n):
            x = load(features, row[q], d)
            along = multiply_add(splat(pull[q]), x, along)
            across = multiply_add(splat(bend[q]), x, across)
        store(sums, 0, 0, along)
        store(sums, 1, 0, across)
        for a in range(d, min(d + SIMD_WIDTH, k)):
            gradient[a] += sums[0, a - d]
            hessian[k, a] += sums[1, a - d]
        for a in range(d, k, 4):  # below the diagonal is enough; of four rows at a time, the last ones perhaps beyond k
            s0, s1, s2, s3 = zeros(), zeros(), zeros(), zeros()
            for q in range(n):
                i = row[q]
                x = load(features, i, d) * bend[q]
                s0 = multiply_add(splat(features[i, a]), x, s0)
                s1 = multiply_add(splat(features[i, a + 1]), x, s1)
                s2 = multiply_add(splat(features[i, a + 2]), x, s2)
                s3 = multiply_add(splat(features[i, a + 3]), x, s3)
            store(sums, 0, 0, s0)
            store(sums, 1, 0, s1)
            store(sums, 2, 0, s2)
            store(sums, 3, 0, s3)
            for c in range(min(4, k - a)):
                for b in range(d, min(d + SIMD_WIDTH, a + c + 1)):
                    hessian[a + c, b] += sums[c, b - d]
    return loss


@kernel_part
def _newton_step(workspace):
    """Write the step hessian⁻¹ gradient, by Cholesky's decomposition of the lower half; return the gain that it promises."""
    h, step, gradient = workspace.hessian, workspace.step, workspace.gradient
    n = step.size
    for a in range(n):
        for b in range(a + 1):
            total = h[a, b]
            for c in range(b):
                total -= h[a, c] * h[b, c]
            h[a, b] = np.sqrt(total) if a == b else total / h[b, b]
    for a in range(n):
        total = gradient[a]
        for c in range(a):
            total -= h[a, c] * step[c]
        step[a] = total / h[a, a]
    expected_gain = 0.0
    for a in range(n):
        expected_gain += 0.5 * step[a] * step[a]
    for back in range(n):
        a = n - 1 - back
        total = step[a]
        for c in range(a + 1, n):
            total -= h[c, a] * step[c]
        step[a] = total / h[a, a]
    return expected_gain


# ---- probabilities


def log_probabilities(tree: Tree, features: np.ndarray) -> np.ndarray:
    """log p of every label, float32 (n, n_labels), by one pass down the tree."""
    out = np.empty((len(features), len(tree.leaf_of_label)), dtype=np.float32)
    nodes = np.empty(2 * len(tree.label_of_leaf) - 1, dtype=np.float32)
    for rows in _blocks(len(features)):
        scores = features[rows] @ tree.weights.T
        scores += tree.biases
        _down(scores, tree.leaf_of_label, nodes, out[rows])
    return out


def _blocks(n: int) -> Iterator[slice]:
    for start in range(0, n, SCORED):
        yield slice(start, min(start + SCORED, n))


@kernel
def _down(scores, leaf_of_label, nodes, out):
    """Write to out (n, n_labels) the sums of log σ(±scores) (n, nodes) along the paths to the labels."""
    n_inner = scores.shape[1]
    for i in range(scores.shape[0]):
        nodes[0] = 0
        for v in range(n_inner):
            score = scores[i, v]
            tail = softplus(-abs(score))
            nodes[2 * v + 1] = nodes[v] - (max(score, np.float32(0)) + tail)
            nodes[2 * v + 2] = nodes[v] - (max(-score, np.float32(0)) + tail)
        for y in range(leaf_of_label.size):
            out[i, y] = nodes[n_inner + leaf_of_label[y]]


def log_likelihood(tree: Tree, features: np.ndarray, pairs: Pairs) -> float:
    """Mean log p of the pairs."""
    total = _log_likelihood(tree, features, pairs)
    return float(total / max(pairs.weights.sum(dtype=np.float64), 1e-30))


@kernel
def _log_likelihood(tree, features, pairs):
    """Summed log p of the pairs, by their weights."""
    total = 0.0
    for y in range(tree.leaf_of_label.size):
        leaf = np.int64(tree.leaf_of_label[y])
        for p in range(pairs.offsets[y], pairs.offsets[y + 1]):
            log_p = path_log_probability(tree.weights, tree.biases, leaf, features, np.int64(pairs.inputs[p]))
            total += pairs.weights[p] * log_p
    return total


@kernel_part
def path_log_probability(weights, biases, leaf, features, i):
    """log of the probability that features[i] leads to this leaf."""
    log_p = np.float32(0)
    node = weights.shape[0] + leaf
    while node > 0:
        is_left = node & 1
        node = (node - 1) >> 1
        score = dot(features, i, weights, node) + biases[node]
        log_p -= softplus(score if is_left else -score)
    return log_p

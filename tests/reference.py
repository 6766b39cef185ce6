"""The naive truth, straight from the papers: slow, obvious, float64. Kernels are compared with
these.
"""

import heapq
import itertools
import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types
from scipy import optimize

from embedx.kernels.batch import COEFFICIENTS
from embedx.kernels.random import bits
from embedx.testing.objectives import coefficients_of


def pointer_to_coefficients(objective):
    """The same as kernels take it in training: one type for all objectives, so that a kernel is
    compiled once.
    """
    coefficients = coefficients_of(objective, np.float32)
    if not hasattr(coefficients, "get_compile_result"):  # plain Python under NUMBA_DISABLE_JIT
        return coefficients
    return types.CompileResultWAP(coefficients.get_compile_result(COEFFICIENTS))


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0.0, x)


def ns_loss(z, label, sample_count, negatives, n_draws):
    """Mikolov et al. 2013, eq. 4, negated; the expectation over the noise is the mean over the
    draws.
    """
    positives = np.sum(label * softplus(-z))
    noise = negatives * np.sum(sample_count * softplus(z)) / n_draws
    return positives + noise


def regularised_ns_loss(z, label, sample_count, log_q, l2, negatives, n_draws):
    """Bamler & Mandt 2020, eq. 6, the negatives' log added to that of the noise."""
    squares = (z + np.log(negatives) + log_q) ** 2
    penalty = l2 * np.sum((label + negatives * sample_count / n_draws) * squares)
    return ns_loss(z, label, sample_count, negatives, n_draws) + penalty


def nce_loss(z, label, sample_count, log_q, negatives, n_draws):
    """Mnih & Teh 2012, eq. 8, negated: logistic regression with log-odds z - log(negatives q)."""
    return ns_loss(z - np.log(negatives) - log_q, label, sample_count, negatives, n_draws)


def softmax_loss(z, y):
    """-log of Titsias 2016, eq. 1."""
    return -np.log(np.exp(z[y]) / np.sum(np.exp(z)))


def ove_loss(z, y, weight):
    """Titsias 2016, eq. 15, negated, each other class with its weight."""
    return sum(weight[k] * -np.log(sigmoid(z[y] - z[k])) for k in range(len(z)) if k != y)


def bouchard_loss(z, y, weight, alpha):
    """Titsias 2016, eq. 12, negated, each other class with its weight."""
    product = np.prod(
        [(1 + np.exp(z[k] - alpha)) ** (1 if k == y else weight[k]) for k in range(len(z))]
    )
    return -np.log(np.exp(z[y] - alpha) / product)


def ova_loss(z, label, weight):
    """A logistic regression for each class: label of them positive, weight of them not."""
    return sum(
        -label[k] * np.log(sigmoid(z[k])) - weight[k] * np.log(1 - sigmoid(z[k]))
        for k in range(len(z))
    )


def sampled_softmax_loss(z, y, sample_count, log_expected_count):
    """Jean et al. 2015, eq. 8-10: the softmax over y and the draws, one by one, with corrected
    scores.
    """
    positive = np.exp(z[y] - log_expected_count[y])
    return -np.log(positive / (positive + sum(drawn_masses(z, sample_count, log_expected_count))))


def complementary_sum_loss(z, y, sample_count, log_expected_count):
    """Botev, Zheng & Barber 2017: the positive's own mass beside those of the draws."""
    others = sum(drawn_masses(z, sample_count, log_expected_count))
    return -np.log(np.exp(z[y]) / (np.exp(z[y]) + others))


def drawn_masses(z, sample_count, log_expected_count):
    """The mass of each draw, over how often its row was expected."""
    return [
        np.exp(z[k] - log_expected_count[k])
        for k in range(len(z))
        for _ in range(int(sample_count[k]))
    ]


def smoothed_margin(z, positives, negatives, mu):
    """Yen et al. 2018, eq. 10, as the quadratic programme over the bi-simplex that it is: the loss
    and the best α, by SLSQP.
    """
    sign = np.array([1.0] * len(negatives) + [-1.0] * len(positives))
    wins = np.concatenate([z[negatives] + 1, z[positives]])
    optimum = optimize.minimize(
        lambda alpha: mu / 2 * alpha @ alpha - wins @ alpha,
        0 * sign,
        jac=lambda alpha: mu * alpha - wins,
        method="SLSQP",
        bounds=[(0, 1) if s > 0 else (-1, 0) for s in sign],
        options={"ftol": 1e-15, "maxiter": 1000},
        constraints=[
            {"type": "eq", "fun": np.sum, "jac": np.ones_like},
            {
                "type": "ineq",
                "fun": lambda alpha: 1 - alpha[sign > 0].sum(),
                "jac": lambda alpha: -1.0 * (sign > 0),
            },
        ],
    )
    alpha = np.zeros(len(z))
    alpha[negatives] = optimum.x[sign > 0]
    alpha[positives] = optimum.x[sign < 0]
    return -optimum.fun, alpha


def distance_from_projection(z, alpha, positives, negatives, mu):
    """0 where α is the projection of Yen et al. 2018, eq. 11: in the bi-simplex, and nothing there
    is further from it along what was to be projected. The corners of the bi-simplex are 0 and all
    that are 1 at one negative and -1 at one positive.
    """
    in_n = alpha[negatives]
    in_p = alpha[positives]
    outside = [-in_n.min(), in_p.max(), in_n.sum() - 1, abs(in_n.sum() + in_p.sum())]
    left_over = z / mu - alpha
    left_over[negatives] += 1 / mu
    best_corner = max(0.0, left_over[negatives].max() - left_over[positives].min())
    return max(*outside, best_corner - left_over[negatives] @ in_n - left_over[positives] @ in_p)


# ---- distances


def squared_distance(x, y):
    return sum((a - b) ** 2 for a, b in zip(x, y, strict=True))


def nca_loss(x, centres, positives):
    """Neighbourhood components: Yen et al. 2018, eq. 6 with the scores of eq. 5."""
    z = [-squared_distance(x, centre) for centre in centres]
    return sum(np.log(sum(map(np.exp, z))) - z[k] for k in positives)


def triplets(x, centres, positives):
    """The terms of the triplet loss: Yen et al. 2018, eq. 7, which has distances where its text has
    scores: as it is printed, positives would be pushed away.
    """
    d = [squared_distance(x, centre) for centre in centres]
    negatives = [j for j in range(len(centres)) if j not in positives]
    return [max(0.0, d[k] - d[j] + 1) for k in positives for j in negatives]


# ---- n-grams


def character_ngrams(word, shortest, longest):
    """Bojanowski et al. 2017, section 3.2: the sequences of so many characters of <word>, but for <
    and > alone. By where they begin, then by their length, as fastText lists them, which has none
    of </s>.
    """
    text = f"<{word}>" if word != "</s>" else ""
    spans = [
        (i, j)
        for i in range(len(text))
        for j in range(i + 1, len(text) + 1)
        if shortest <= j - i <= longest
    ]
    return [text[i:j] for i, j in spans if (i, j) not in ((0, 1), (len(text) - 1, len(text)))]


def fasttext_bucket(ngram, n_buckets):
    """`Dictionary::hash` of fastText, in its own types: h = (h ^ uint32_t(int8_t(byte))) *
    16777619.
    """
    h = np.array([2166136261], np.uint32)
    for byte in np.frombuffer(ngram.encode(), np.int8):
        h = (h ^ np.array([byte]).astype(np.uint32)) * np.uint32(16777619)
    return int(h[0]) % n_buckets


# ---- trees


def huffman_depths(counts):
    """The depth of each class in a tree made by joining the two lightest until one is left."""
    depths = np.zeros(len(counts), dtype=int)
    heap = [(int(count), k, [k]) for k, count in enumerate(counts)]
    heapq.heapify(heap)
    while len(heap) > 1:
        (left, _, below), (right, first, others) = heapq.heappop(heap), heapq.heappop(heap)
        depths[below + others] += 1
        heapq.heappush(heap, (left + right, first, below + others))
    return depths


def tree_log_probability(z, offsets, nodes, bits):
    """Morin & Bengio 2005: the log of the product of the decisions on the path to each class, one
    class after the other.
    """
    paths = [range(start, end) for start, end in itertools.pairwise(offsets)]
    return np.array(
        [
            sum(np.log(sigmoid(z[nodes[i]] if bits[i] else -z[nodes[i]])) for i in path)
            for path in paths
        ]
    )


# ---- optimisers


class NaiveOptimizer(NamedTuple):
    """How a row moves: s becomes see(s, g), then w loses lr · g / divisor(s). `s` and `g` are as
    long as the row.
    """

    see: Callable
    divisor: Callable
    by_row: bool = False  # all of s changes with any number of g
    decays_at_zero: bool = True  # numbers with s = 0, if weight decay divides as well


NAIVE_OPTIMIZERS = {
    # Robbins & Monro 1951
    "sgd": NaiveOptimizer(lambda s, g: s, np.ones_like),
    # Duchi, Hazan & Singer 2011, figure 1, with a diagonal matrix and δ = 0
    "adagrad": NaiveOptimizer(lambda s, g: s + g**2, np.sqrt, decays_at_zero=False),
    # the same, with one sum for each row
    "rowwise-adagrad": NaiveOptimizer(
        lambda s, g: s + np.sum(g**2), np.sqrt, by_row=True, decays_at_zero=False
    ),
    # the same until the sum has come to a limit
    "bounded-adagrad": NaiveOptimizer(
        lambda s, g: np.minimum(s + np.sum(g**2), 5000), np.sqrt, by_row=True, decays_at_zero=False
    ),
    # Ruiz et al. 2018, appendix
    "mixture": NaiveOptimizer(lambda s, g: 0.1 * g**2 + 0.9 * s, lambda s: 1 + np.sqrt(s)),
}


def descend(name, w, s, g, lr, max_rate=np.inf, max_length=np.inf):
    """One step of a row by an optimiser of NAIVE_OPTIMIZERS, at a rate of at most `max_rate` and at
    most `max_length` long; a number whose g is 0 stays.
    """
    optimizer = NAIVE_OPTIMIZERS[name]
    s[:] = optimizer.see(s, g)
    moves = g != 0
    step = np.minimum(lr / optimizer.divisor(s)[moves], max_rate) * g[moves]
    w[moves] -= step * min(1.0, max_length / max(np.linalg.norm(step), 1e-30))


# ---- skip-gram, one pair at a time


def kept_words(tokens, word, keep, window, key, held_out):
    """(position, word, sentence, reach) of the tokens that are in the vocabulary, survive
    subsampling and are not held out.
    """
    kept = []
    sentence = 0
    for position, token in enumerate(tokens):
        if token == -1 or held_out[position]:
            sentence += 1
            continue
        random = int(bits(np.uint64(key), np.uint64(position)))
        if word[token] >= 0 and (random >> 32) <= int(keep[token]):
            reach = 1 + (((random & 0xFFFFFFFF) * window) >> 32)
            kept.append((position, int(word[token]), sentence, reach))
    return kept


def pairs_of(kept, start, stop):
    """(input word, centre word, number of the centre, of the input) for every centre at a position
    in start..stop.
    """
    pairs = []
    for i, (position, centre, sentence, reach) in enumerate(kept):
        if start <= position < stop:
            around = [j for j in range(max(i - reach, 0), min(i + reach + 1, len(kept))) if j != i]
            pairs += [(kept[j][1], centre, i, j) for j in around if kept[j][2] == sentence]
    return pairs


def merged_row(
    base,
    base_state,
    trained,
    trained_state,
    server,
    server_state,
    damping,
    divisor,
    limit,
    is_ema=False,
):
    """A worker's local delta of a row, by the rule of `embedx.engine.merging`: (of the row, of its
    state).

    `damping` is a number, or a matrix.
    """
    local = trained - base
    of_state = trained_state - base_state
    remote = server - base
    if not np.any(remote) and not np.any(server_state - base_state):
        return local, of_state
    of_state = trained_state - server_state if is_ema else of_state
    share = divisor(trained_state) / divisor(np.minimum(server_state + of_state, limit))
    return share * local - (damping @ remote if np.ndim(damping) else damping * remote), of_state


def damping_of(rows, weights, strength, n_axes):
    """I - e^-xC, where C is the mean of h·hᵀ over rows h, all but its largest eigenvalues replaced
    by their mean.
    """
    covariance = sum(
        weight * np.outer(h, h) for h, weight in zip(rows, weights, strict=True)
    ) / np.sum(weights)
    square, axis = np.linalg.eigh(covariance)
    square[:-n_axes] = square[:-n_axes].mean() if len(square) > n_axes else 0
    return np.eye(len(square)) - axis @ np.diag(np.exp(-strength * square)) @ axis.T


def bound_of_normal_scores(z, variance, y, log_f, log_cdf):
    """The bound of augment and reduce for the utilities of normal scores, at the best distribution
    q of the winner's utility t (Ruiz et al. 2018, eq. 7, with an expectation over the scores):
    max_q E_q[E log f(t - z_y) + Σ_{k≠y} E log F(t - z_k)] + H(q) = log ∫ e^{...} dt.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(40)
    weights = weights / weights.sum()
    t = np.arange(-40, 40, 0.02)
    log_joint = np.zeros_like(t)
    for k in range(len(z)):
        of_gap = log_f if k == y else log_cdf
        gaps = t[:, None] - z[k] - math.sqrt(variance[k]) * nodes
        log_joint += of_gap(gaps) @ weights
    return math.log(np.exp(log_joint).sum() * 0.02)


def bound_of_gaussian_weights(x, label, mean, variance, prior, entropy=True):
    """The evidence lower bound of augment and reduce with weights N(mean, variance) and the prior
    N(0, prior) (Ruiz et al. 2018, section 3.1): Σ_n E[log p(y_n)] >= Σ_n E[ψ_y - u - e^{-u} Σ_k
    e^{ψ_k} + 1] at the best u of each row, minus the KL divergence; its entropy may be left out.
    """
    total = 0.0
    for row, y in zip(x, label, strict=True):
        psi = [sum(m * v for m, v in zip(w, row, strict=True)) for w in mean]
        spread = [sum(s * v * v for s, v in zip(w, row, strict=True)) for w in variance]
        moments = [math.exp(a + b / 2) for a, b in zip(psi, spread, strict=True)]
        u = math.log(sum(moments))
        total += psi[y] - u - math.exp(-u) * sum(moments) + 1
    for m, s in zip(np.ravel(mean), np.ravel(variance), strict=True):
        total -= (s + m * m) / (2 * prior) - 0.5 + math.log(prior) / 2
        if entropy:
            total += math.log(s) / 2
    return total

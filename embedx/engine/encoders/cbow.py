"""CBOW: the mean of the context words predicts the centre. An example is a centre with contexts.

Mikolov et al. 2013, "Efficient estimation of word representations in vector space". With C the
contexts of a centre:

    h = 1/|C| Σ_{j in C} x_j
    x_j -= step of Σ_e ∂loss/∂h_e     over the examples e that x_j is a context of

The chain rule would give 1/|C| of each term. Like word2vec.c, fastText and gensim (cbow_mean=1),
this code takes the whole gradient: a step then moves h as far as it would move a single vector.
"""

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.gemm import NO_SPANS, round_up_to_tile, weighted_sums, weighted_sums_transposed
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.simd import SIMD_WIDTH, load, multiply_add, splat, store, zeros

PAIR, PER_CONTEXT = "centre", False
# Larger than in skip-gram, where a centre has about six pairs (measured: docs/constants.md).
DEFAULTS = {"block_size": 32}
ABOUT = f"from the mean of the context words (default block size {DEFAULTS['block_size']})"


def vectors_of(vectors: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The means, float32 (n, dim), of the vectors of the contexts in each row of `inputs`, where -1
    is no context.
    """
    is_word = inputs >= 0
    share = is_word / is_word.sum(axis=1, keepdims=True, dtype=np.float32)
    return np.einsum("nc,ncd->nd", share, vectors[inputs])


@kernel_part
def start_examples(block, n_centres, n_inputs):
    """Make every centre an example; return their number."""
    for e in range(round_up_to_tile(n_centres)):
        for j in range(0, round_up_to_tile(n_inputs), SIMD_WIDTH):
            store(block.context_mask, e, j, zeros())
    return n_centres


@kernel_part
def write_examples(block, words, y, i, begin, end):
    """Write example i, if centre i has a context."""
    n = 0
    for x in range(max(y - words.reach[y], begin), min(y + words.reach[y] + 1, end)):
        if x != y and words.sentence[x] == words.sentence[y]:
            block.context_mask[i, x - begin] = 1
            block.n_pairs_of_input[x - begin] += 1
            n += 1
    block.state_row[i] = words.word[y]
    block.mean_weight[i] = ONE / np.float32(max(n, 1))
    block.centre_examples[0] = i
    return min(n, 1)


@kernel_part
def fetch(block, n_x, n_h, x, h, bias):
    """Overwrite h by the means of the contexts; the column of the biases stays 1."""
    weighted_sums(block.context_mask, round_up_to_tile(n_h), x, n_x, h, NO_SPANS)
    for e in range(n_h):
        weight = splat(block.mean_weight[e])
        for d in range(0, h.shape[1], SIMD_WIDTH):
            store(h, e, d, multiply_add(weight, load(h, e, d), zeros()))
        if bias >= 0:
            h[e, bias] = 1


@kernel_part
def backward(block, n_x, n_h, h_gradient, x_gradient):
    """Add the whole gradient of each example to each of its contexts."""
    weighted_sums_transposed(
        block.context_mask, round_up_to_tile(n_x), h_gradient, n_h, x_gradient, NO_SPANS
    )


@kernel_part
def fetch_rates(block, n_x, n_h, x_rate, h_rate):
    """Overwrite the rates by the means over the contexts."""
    for e in range(n_h):
        total = ZERO
        for j in range(n_x):
            total += block.context_mask[e, j] * x_rate[j]
        h_rate[e] = total * block.mean_weight[e]

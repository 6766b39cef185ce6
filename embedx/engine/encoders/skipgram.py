"""Skip-gram: every context word predicts the centre on its own. An example is an input word, and h
is its vector.

Mikolov et al. 2013, "Efficient estimation of word representations in vector space".
"""

from typing import Any

import numpy as np

from embedx.kernels import kernel_part

PAIR, PER_CONTEXT = "pair", True
DEFAULTS: dict[str, Any] = {}
ABOUT = "from each context word"


def vectors_of(vectors: np.ndarray, inputs: np.ndarray) -> np.ndarray:
    """The vectors of the inputs, float32 (n, dim)."""
    return vectors[inputs]


@kernel_part
def start_examples(block, n_centres, n_inputs):
    """Every input is an example: return their number."""
    return n_inputs


@kernel_part
def write_examples(block, words, y, i, begin, end):
    """Write the contexts of the centre."""
    n = 0
    for x in range(max(y - words.reach[y], begin), min(y + words.reach[y] + 1, end)):
        if x != y and words.sentence[x] == words.sentence[y]:
            block.centre_examples[n] = x - begin
            n += 1
    return n


@kernel_part
def fetch(block, n_x, n_h, x, h, bias):
    """h is x."""


@kernel_part
def backward(block, n_x, n_h, h_gradient, x_gradient):
    """The gradients are those of h."""


@kernel_part
def fetch_rates(block, n_x, n_h, x_rate, h_rate):
    """The rates are those of x."""

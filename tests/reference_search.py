"""Search and message passing by brute force, straight from Yen et al. 2018; and the candidates of a
query.
"""

import itertools

import numpy as np

from embedx.kernels.compiled import kernel
from embedx.search.query import Searcher, find_candidates


def candidates_of(index, search, h, positives, rows, query):
    """Write the positives and then the candidates for h[0] to rows[0]; return their number."""
    return _candidates_of(Searcher(index, search, query), h, positives, rows)


@kernel
def _candidates_of(searcher, h, positives, rows):
    for c in range(positives.size):
        rows[0, c] = positives[c]
    return find_candidates(searcher, h, 0, rows, 0, positives.size, rows.shape[1])


def block_scores(table, h, blocks):
    """z_j (blocks, n_rows): the scores of each block of columns, blocks as equal as they can be."""
    dim = table.shape[1]
    edges = [dim * j // blocks for j in range(blocks + 1)]
    return np.stack([table[:, a:b] @ h[a:b] for a, b in itertools.pairwise(edges)])


def decomposed(loss, z, messages):
    """G(Λ) of eq. 12 and its gradient in each block; loss(z) -> value, gradient."""
    values, gradients = zip(*(loss(len(z) * line) for line in z + messages), strict=True)
    return np.mean(values), np.stack(gradients)


def message_passing(loss, z, tau, rounds, always):
    """Algorithm 2 where every row was found: G after each round, and the answer, the mean of the
    gradients at the end.

    loss     z -> value, gradient
    always   the positives, which always take part
    """
    blocks = len(z)
    messages = np.zeros_like(z)
    best = z.mean(axis=0) - z
    history = [decomposed(loss, z, messages)[0]]
    for t in range(1, rounds + 1):
        _, gradients = decomposed(loss, z, messages)
        active = (np.abs(gradients) > tau).any(axis=0)
        active[always] = True
        step = 2 / (t + 2)
        messages[:, active] = step * best[:, active] + (1 - step) * messages[:, active]
        history.append(decomposed(loss, z, messages)[0])
    return history, decomposed(loss, z, messages)[1].sum(axis=0) / blocks


def softmax(positives, z):
    """Cross-entropy of eq. 2 with several positives, and its gradient."""
    log_sum = np.log(np.exp(z - z.max()).sum()) + z.max()
    gradient = len(positives) * np.exp(z - log_sum)
    gradient[positives] -= 1
    return len(positives) * log_sum - z[positives].sum(), gradient


def margin(positives, mu, z):
    """The loss of eq. 10 and its gradient, the projection of eq. 11, whose thresholds are found by
    bisection.
    """
    is_positive = np.isin(np.arange(len(z)), positives)
    wins = z + ~is_positive
    down = wins[~is_positive] / mu
    up = -wins[is_positive] / mu

    def root(excess):
        low, high = -1e9, 1e9
        for _ in range(120):
            middle = (low + high) / 2
            low, high = (middle, high) if excess(middle) > 0 else (low, middle)
        return low

    def above(values, t):
        return np.maximum(values - t, 0)

    t = root(lambda t: above(down, t).sum() - above(up, -t).sum())
    gradient = np.zeros(len(z))
    if above(down, t).sum() <= 1:
        gradient[~is_positive] = above(down, t)
        gradient[is_positive] = -above(up, -t)
    else:
        gradient[~is_positive] = above(down, root(lambda t: above(down, t).sum() - 1))
        gradient[is_positive] = -above(up, root(lambda t: above(up, t).sum() - 1))
    return wins @ gradient - mu / 2 * gradient @ gradient, gradient

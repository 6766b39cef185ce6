"""The naive truth about a tile of labels (`embedx.engine.tiles`), in float64 with loops over dense
rows.
"""

import numpy as np
import reference_classify

from embedx.engine import sparse_tiles, tiles
from embedx.kernels.random import bits


def shuffled(n, epochs, key):
    """The order of each epoch, by the kernel's own random numbers."""
    order = list(range(n))
    counter = 0
    for _ in range(epochs):
        for m in range(n - 1, 0, -1):
            other = ((int(bits(key, np.uint64(counter))) & (2**32 - 1)) * (m + 1)) >> 32
            order[m], order[other] = order[other], order[m]
            counter += 1
        yield list(order)


def support_of(x, y, plan):
    """Whether each label may have a weight for each feature, bool (n_labels, n_features)."""
    if plan.positives_features_only:
        return np.array([(x[of_label] != 0).any(axis=0) for of_label in y.T])
    return np.tile((x != 0).any(axis=0), (y.shape[1], 1))


def naive_tile(x, y, weight, plan, optimizer, l2, loss, row_weight):
    """The rows (labels, features and bias) after training, in float64, and the loss of the last
    epoch. The loss of row i is multiplied by row_weight[i].
    """
    n, n_features = x.shape
    n_labels = y.shape[1]
    support = np.column_stack([support_of(x, y, plan), np.full(n_labels, plan.has_bias)])
    decays = np.array([True] * n_features + [False])
    parameters = reference_classify.Parameters(
        np.zeros((n_labels, n_features + 1)), decays, optimizer, l2
    )
    parameters.s += float(plan.first_state)
    with_one = np.column_stack([x, np.full(n, float(plan.has_bias))])
    skips_left = np.zeros(n, dtype=int)
    last_skips = np.zeros(n, dtype=int)
    n_steps = plan.epochs * -(-n // plan.batch_size)
    step = 0
    total = 0.0
    for order in shuffled(n, plan.epochs, plan.key):
        total = 0.0
        for begin in range(0, n, plan.batch_size):
            chosen = order[begin : begin + plan.batch_size]
            lr = float(plan.lr) * (1 - step / n_steps) if plan.lr_falls else float(plan.lr)
            step += 1
            gradient = np.zeros_like(parameters.w)
            for i in chosen:
                if skips_left[i] > 0:
                    skips_left[i] -= 1
                    continue
                z = parameters.w @ with_one[i]
                negative = weight[i] * (1.0 - y[i])
                if loss == "logistic":
                    p = 1 / (1 + np.exp(-z))
                    total += row_weight[i] * np.sum(
                        y[i] * np.logaddexp(0, -z) + negative * np.logaddexp(0, z)
                    )
                    c = (y[i] + negative) * p - y[i]
                else:
                    short = np.maximum(1 - z, 0)
                    over = np.maximum(1 + z, 0)
                    total += row_weight[i] * np.sum(y[i] * short**2 + negative * over**2)
                    c = 2 * (negative * over - y[i] * short)
                if not c.any():
                    if not y[i].any():
                        last_skips[i] = min(2 * last_skips[i] + 1, tiles.MAX_SKIPS)
                        skips_left[i] = last_skips[i]
                    continue
                last_skips[i] = 0
                gradient += row_weight[i] * np.outer(c, with_one[i]) / len(chosen)
            gradient *= support
            parameters.step(gradient, gradient != 0, lr)
            if l2:
                parameters.decay(lr)
    return parameters.w, total


def naive_dual_tile(x, y, weight, c, plan, row_weight):
    """The rows (labels, features and bias) after dual coordinate descent, in float64. C
    of row i is multiplied by row_weight[i].
    """
    n, n_features = x.shape
    n_labels = y.shape[1]
    support = np.column_stack([support_of(x, y, plan), np.full(n_labels, True)])
    within = x * support[:, :-1].any(axis=0)  # features of the tile
    w = np.zeros((n_labels, n_features + 1))
    alpha = np.zeros((n, n_labels))
    with_one = np.column_stack([x, np.ones(n)])
    skips_left = np.zeros(n, dtype=int)
    last_skips = np.zeros(n, dtype=int)
    for order in shuffled(n, plan.epochs, plan.key):
        longest = 0.0
        for i in order:
            if skips_left[i] > 0:
                skips_left[i] -= 1
                continue
            square = within[i] @ within[i] + 1
            steps = np.zeros(n_labels)
            for k in range(n_labels):
                sign = 1 if y[i, k] else -1
                if not y[i, k] and weight[i] == 0:
                    continue
                d = 1 / (2 * c * row_weight[i])
                after = max(
                    0,
                    alpha[i, k]
                    - (sign * (w[k] @ with_one[i]) - 1 + d * alpha[i, k]) / (square + d),
                )
                steps[k] = sign * (after - alpha[i, k])
                alpha[i, k] = after
            if steps.any():
                last_skips[i] = 0
                w += np.outer(steps, with_one[i]) * support
            elif not y[i].any():
                last_skips[i] = min(2 * last_skips[i] + 1, tiles.MAX_SKIPS)
                skips_left[i] = last_skips[i]
            longest = max(longest, square * np.abs(steps).max())
        if longest < sparse_tiles.TOLERANCE:
            break
    return w, support

"""The naive truth, straight from the papers: slow, obvious, float64. Kernels are compared with these."""

import numpy as np

from embedx.engine.random import bits


def sigmoid(x):
    return 1.0 / (1.0 + np.exp(-x))


def softplus(x):
    return np.logaddexp(0.0, x)


def ns_loss(z, label, times, negatives, n_draws):
    """Mikolov et al. 2013, eq. 4, negated; the expectation over the noise is the mean over the draws."""
    positives = np.sum(label * softplus(-z))
    noise = negatives * np.sum(times * softplus(z)) / n_draws
    return positives + noise


# ---- skip-gram, one pair at a time


def kept_words(tokens, word, keep, window, key):
    """(position, word, sentence, reach) of the tokens that are in the vocabulary and survive subsampling."""
    kept = []
    sentence = 0
    for position, token in enumerate(tokens):
        if token == -1:
            sentence += 1
            continue
        random = int(bits(np.uint64(key), np.uint64(position)))
        if word[token] >= 0 and (random >> 32) <= int(keep[token]):
            reach = 1 + (((random & 0xFFFFFFFF) * window) >> 32)
            kept.append((position, int(word[token]), sentence, reach))
    return kept


def pairs_of(kept, start, stop):
    """(input word, centre word, number of the centre) for every centre at a position in start..stop."""
    pairs = []
    for i, (position, centre, sentence, reach) in enumerate(kept):
        if start <= position < stop:
            around = [j for j in range(max(i - reach, 0), min(i + reach + 1, len(kept))) if j != i]
            pairs += [(kept[j][1], centre, i) for j in around if kept[j][2] == sentence]
    return pairs


def ns_update(inputs, outputs, pairs, noise, negatives, lr):
    """One gradient step on all `pairs` (x, y), each meeting all of `noise`; returns the summed loss before it."""
    input_step, output_step = np.zeros_like(inputs), np.zeros_like(outputs)
    loss = 0.0
    for x, y in pairs:
        h = inputs[x]
        rows = np.array([y, *noise])
        label = np.array([1.0] + [0.0] * len(noise))
        z = outputs[rows] @ h
        loss += ns_loss(z, label, 1.0 - label, negatives, len(noise))
        slope = (1.0 - label) * negatives / len(noise) * sigmoid(z) - label * sigmoid(-z)
        input_step[x] += slope @ outputs[rows]
        np.add.at(output_step, rows, np.outer(slope, h))
    inputs -= lr * input_step
    outputs -= lr * output_step
    return loss

"""Tests of word vectors by their formulas, one item and one word at a time."""

import math

import numpy as np


def cosmul(words, vectors, a, b, c, epsilon=0.001):
    """The answer by 3CosMul (Levy & Goldberg 2014, eq. 4), spellings alike but for case being one word, the first."""
    first = {}
    for row, word in enumerate(words):
        first.setdefault(word.upper(), row)
    table = np.array([unit(vector) for vector in vectors])
    sa, sb, sc = ((table @ table[first[word.upper()]] + 1) / 2 for word in (a, b, c))
    scores = sb * sc / (sa + epsilon)
    asked = {a.upper(), b.upper(), c.upper()}
    left = [row for row, word in enumerate(words) if word.upper() not in asked and np.any(vectors[row])]
    return words[max(left, key=lambda row: scores[row])].upper()


def outlier_position(vectors):
    """How many words of a set are less outlying than its last, by how compact the set is without each (Camacho-Collados &
    Navigli 2016, eq. 1 and 2).
    """
    rows = [unit(vector) for vector in vectors]

    def compact_without(k):
        others = [row for j, row in enumerate(rows) if j != k]
        n = len(others)
        return sum(float(x @ y) for i, x in enumerate(others) for j, y in enumerate(others) if i != j) / (n * (n - 1))

    scores = [compact_without(k) for k in range(len(rows))]
    return sum(score < scores[-1] for score in scores[:-1])


def unit(vector):
    wide = np.asarray(vector, np.float64)
    return wide / math.sqrt(float(wide @ wide)) if np.any(wide) else wide

"""Tests of word vectors by their formulas, one item and one word at a time."""

import math

import numpy as np


def cosmul(words, vectors, a, b, c, epsilon=0.001):
    """The answer by 3CosMul (Levy & Goldberg 2014, eq. 4), spellings alike but for case being one
    word, the first.
    """
    first = {}
    for row, word in enumerate(words):
        first.setdefault(word.upper(), row)
    table = np.array([unit(vector) for vector in vectors])
    sa, sb, sc = ((table @ table[first[word.upper()]] + 1) / 2 for word in (a, b, c))
    scores = sb * sc / (sa + epsilon)
    asked = {a.upper(), b.upper(), c.upper()}
    left = [
        row for row, word in enumerate(words) if word.upper() not in asked and np.any(vectors[row])
    ]
    return words[max(left, key=lambda row: scores[row])].upper()


def unit(vector):
    wide = np.asarray(vector, np.float64)
    return wide / math.sqrt(float(wide @ wide)) if np.any(wide) else wide

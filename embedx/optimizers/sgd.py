"""Stochastic gradient descent, plain.

Robbins & Monro 1951:
    w -= lr · g
Keeps nothing. The steps of frequent rows and of rare ones have one rate, which has to suit both.
"""

from embedx.optimizers.contract import LABELS, WORDS, Optimizer


class StochasticGradientDescent(Optimizer):
    """Declares stochastic gradient descent."""

    name = "sgd"
    meaning = "plain SGD, as in word2vec"
    commands = (WORDS, LABELS)
    keeps = "stateless"
    rates = {WORDS: 0.06, LABELS: 1.0}

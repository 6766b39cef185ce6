"""Plain stochastic gradient descent.

Robbins & Monro 1951:
    w -= lr · g
Stateless. Frequent and rare rows have the same learning rate.
"""

from embedx.optimizers.contract import LABELS, WORDS, Optimizer


class StochasticGradientDescent(Optimizer):
    """Stochastic gradient descent."""

    name = "sgd"
    meaning = "plain SGD, as in word2vec"
    commands = (WORDS, LABELS)
    keeps = "stateless"
    rates = {WORDS: 0.06, LABELS: 1.0}

"""Stochastic gradient descent, plain.

Robbins & Monro 1951:
    w -= lr · g
Keeps nothing. The steps of frequent rows and of rare ones have one rate, which has to suit both. With full gradients it is
gradient descent.
"""

from typing import ClassVar

import numpy as np

from embedx.optimizers.contract import COLLAPSED, LABELS, WORDS, FullGradient, Optimizer


class Gradient:
    """Full gradient steps that keep nothing."""

    def direction(self, gradient: np.ndarray) -> np.ndarray:
        return gradient

    def arrays(self) -> dict[str, np.ndarray]:
        return {}


class StochasticGradientDescent(Optimizer):
    """Declares stochastic gradient descent."""

    name = "sgd"
    meaning = "follows the gradient as it is, as in word2vec"
    commands = (WORDS, COLLAPSED, LABELS)
    keeps = "stateless"
    rates: ClassVar = {WORDS: 0.04, LABELS: 1.0}

    @classmethod
    def full_gradient(cls, table: np.ndarray) -> FullGradient:
        return Gradient()

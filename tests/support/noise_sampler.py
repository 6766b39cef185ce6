"""A sampler that draws from a given distribution, for tests."""

from embedx.samplers.alias import AliasSampler
from embedx.settings import Settings


class GivenNoise(AliasSampler):
    name = "drawn"
    meaning = "drawn from given probabilities"

    def __init__(self, weights, *, replacement=True):
        super().__init__(Settings(), replacement=replacement)
        self.weights = weights

    def probabilities(self, counts):
        return self.weights

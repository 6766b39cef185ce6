"""A sampler for tests that draws from the very distribution that it is given."""

from embedx.samplers.alias import AliasSampler
from embedx.settings import Settings


class Drawn(AliasSampler):
    name = "drawn"
    meaning = "drawn as told"

    def __init__(self, weights, *, replacement=True):
        super().__init__(Settings(), replacement=replacement)
        self.weights = weights

    def probabilities(self, counts):
        return self.weights

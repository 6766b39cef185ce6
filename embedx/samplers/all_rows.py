"""All output rows are candidates, as in an exact softmax."""

from embedx.samplers.contract import Sampler


class All(Sampler):
    name = "all"
    meaning = "takes every row"
    candidates = "all"

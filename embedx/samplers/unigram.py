"""Unigram noise: classes are drawn with probability proportional to a power of their count.

Mikolov et al. 2013, "Distributed representations of words and phrases and their compositionality",
the power 0.75. A class that never occurred counts as seen once.
"""

import numpy as np

from embedx.samplers.alias import AliasSampler
from embedx.settings import Settings, param


class UnigramSettings(Settings):
    """Settings of unigram noise."""

    panel = "Sampler"

    sampler_exponent: float = param(
        0.75,
        "exponent of the counts by which `unigram` draws; below 0 rare words are drawn most",
        at_least=-1.0,
        at_most=1.0,
    )


class Unigram(AliasSampler):
    name = "unigram"
    meaning = "rows drawn with probability proportional to a power of their count"
    Settings = UnigramSettings

    def probabilities(self, counts: np.ndarray) -> np.ndarray:
        return np.maximum(counts, 1).astype(np.float64) ** self.settings.sampler_exponent

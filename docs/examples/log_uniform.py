"""Log-uniform noise: classes are drawn by the rank of their count, as if counts followed Zipf's
law.

The candidate sampler of TensorFlow's sampled softmax (`log_uniform_candidate_sampler`):
    q(r) = (log(r + 2) - log(r + 1)) / log(K + 1)         r = 0 for the most frequent of the K
                                                          classes
Classes that occur equally often are ranked in their order.
"""

import numpy as np

from embedx.samplers.alias import AliasSampler


class LogUniform(AliasSampler):
    name = "log-uniform"
    meaning = "draws by the rank of the count"

    def probabilities(self, counts: np.ndarray) -> np.ndarray:
        rank = np.empty(len(counts))
        rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
        return np.asarray(np.log1p(1 / (rank + 1)))

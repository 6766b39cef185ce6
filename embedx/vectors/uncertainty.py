"""How uncertain word vectors are, given the output vectors, and how uncertain their cosines are.

With n pairs of which a word is the input, and the probabilities p of their outputs, the vector h of
the word has a diagonal normal distribution about the trained one, by Laplace's approximation:

    1 / variance_d = 1/s² + n Σ_k p_k (w_kd - Σ_j p_j w_jd)²          w: the output vectors

s² is the mean square of the vectors of frequent words, and n the expected number of pairs in one
epoch. By the delta method the cosine c of h_a and h_b, at lengths 1 a and b, has the variance

    Σ_d (b_d - c a_d)² variance_ad / |h_a|² + Σ_d (a_d - c b_d)² variance_bd / |h_b|²

docs/words.md tells how often intervals hold what another seed gives.
"""

from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy import float64, ndarray

from embedx.errors import EmbedxError, SettingError, Text
from embedx.text.subsampling import WHOLE_SENTENCE
from embedx.text.vocabulary import kept_counts
from embedx.vectors.model import WordVectors
from embedx.vectors.probabilities import log_probability_given, trained_on
from embedx.vectors.queries import MAX_COSINES

# Standard errors on either side of a cosine: a 95 % interval.
INTERVAL = 1.96
# Number of the most frequent words, from whose vectors s² is estimated.
N_FREQUENT = 2_000


class Uncertainty:
    """The variances of the vectors of a model, and the standard errors of their cosines.

    Raises `EmbedxError` for a model whose variances are not known, see `why_unknown`.
    """

    def __init__(self, vectors: WordVectors) -> None:
        problem = why_unknown(vectors)
        if problem is not None:
            raise SettingError("intervals", True, problem, "leave it out")
        counts = trained_on(vectors)
        self.vectors = vectors
        self.log_probability = log_probability_given(vectors)
        # A window reaches 1 to `window` words to each side.
        pairs_of_token = vectors.settings["window"] + 1
        self.n_pairs = kept_counts(counts, vectors.settings["sample"]) * pairs_of_token
        self.prior = float(np.mean(np.square(vectors.vectors[:N_FREQUENT], dtype=float64)))

    def variances(self, rows: ndarray) -> ndarray:
        """The variances of the vectors of some rows, float64 (n, dim)."""
        w = self.vectors.arrays["output"]
        size = max(1, MAX_COSINES // len(w))
        parts = [np.zeros((0, w.shape[1]))]
        for begin in range(0, len(rows), size):
            block = rows[begin : begin + size]
            p = np.exp(self.log_probability(self.vectors.vectors[block]))
            information = p @ self._squares - np.square(p @ w)
            n_pairs = self.n_pairs[block, None]
            parts.append(1 / (1 / self.prior + n_pairs * np.maximum(information, 0)))
        return np.concatenate(parts)

    @cached_property
    def _squares(self) -> ndarray:
        """The squares of the output vectors, float32 (n_words, dim)."""
        return np.square(self.vectors.arrays["output"])

    def of_cosines(self, word: str, others: Sequence[str]) -> ndarray:
        """The standard errors of the cosines of a word to others, float64 (n,)."""
        rows = np.array([self.vectors.index(name) for name in (word, *others)])
        h = np.asarray(self.vectors.vectors[rows], float64)
        variances = self.variances(rows)
        squares = np.maximum(np.square(h).sum(axis=1, keepdims=True), 1e-30)
        units = h / np.sqrt(squares)
        relative_variances = variances / squares
        cosines = units[1:] @ units[0]
        of_word = np.square(units[1:] - cosines[:, None] * units[0]) @ relative_variances[0]
        along = units[0] - cosines[:, None] * units[1:]
        of_others = (np.square(along) * relative_variances[1:]).sum(axis=1)
        return np.asarray(np.sqrt(of_word + of_others), float64)

    def half_widths(self, word: str, others: Sequence[str]) -> ndarray:
        """Half the 95 % intervals of the cosines of a word to others, float64 (n,)."""
        return INTERVAL * self.of_cosines(word, others)


def uncertainty_of(vectors: WordVectors) -> Uncertainty | None:
    """The uncertainty of the vectors of a model; None where it is not known."""
    try:
        return Uncertainty(vectors)
    except EmbedxError:
        return None


def why_unknown(vectors: WordVectors) -> Text | None:
    """Why the uncertainty of vectors is not known; None where it is."""
    output = vectors.output_vectors
    if output is None:
        return "needs the output vectors of a model folder"
    if len(output) != len(vectors):
        return f"the output vectors of {vectors.facts.get('objective')} are not those of words"
    if not vectors.vectors[:N_FREQUENT].any():
        return "vectors of zeros have no direction"
    if vectors.subwords is not None:
        return "vectors that are means over n-grams have none of their own"
    if vectors.settings.get("architecture") == "cbow":
        return "vectors of cbow are trained as means of a context"
    if vectors.settings.get("walks"):
        return "walks repeat the same edges, so that their number tells nothing"
    if vectors.settings.get("window") == WHOLE_SENTENCE:
        return "contexts are whole sentences, whose lengths a model does not record"
    return None

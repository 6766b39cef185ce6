"""The words that answer analogy questions best, found by matrix products for many questions at a time.

A question a : b = c : ? has the answer x, none of the words asked with, that has the highest score

    3cosadd   cos(b, x) - cos(a, x) + cos(c, x)                     Mikolov et al. 2013
    3cosmul   s(b, x) s(c, x) / (s(a, x) + ε),   s = (cos + 1) / 2  Levy & Goldberg 2014, eq. 4

Test sets ask the same words over and over: Google's 19,544 questions have 905 of them. So the cosines of these words with a
tile of candidates are one matrix product, and a question's scores are three of its rows added or multiplied. Memory is what
BLOCK_FLOATS and SCORE_FLOATS say, whatever the number of questions and the size of the vocabulary.
"""

import dataclasses
from collections.abc import Iterator
from functools import cached_property

import numpy as np

from embedx.training.progress import Progress

BLOCK_FLOATS = 1 << 21  # cosines of words asked with and candidates computed at a time: 8 MB
SCORE_FLOATS = 1 << 17  # scores of questions and candidates at a time: 0.5 MB, which a core's cache holds


EPSILON = np.float32(0.001)  # of 3cosmul, as in the paper


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions about a table of vectors, by row numbers."""

    table: np.ndarray  # float32 (candidates, dim)
    asked: np.ndarray  # int64 (questions, 3): a, b, c
    barred: np.ndarray  # int64 (n, 2): question, row that cannot be its answer
    method: str = "3cosadd"

    @cached_property
    def norms(self) -> np.ndarray:  # float32 (candidates,)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.table, self.table)))

    @cached_property
    def inverse(self) -> np.ndarray:  # float32 (candidates,): of the norms, 0 for a zero vector
        with np.errstate(divide="ignore"):
            return np.where(self.norms > 0, 1 / self.norms, 0).astype(np.float32)

    def scored(self) -> Iterator[tuple[slice, int, np.ndarray, np.ndarray]]:
        """(questions, first row, scores float32 (questions, rows), barred), a piece at a time; `barred` are numbers of those in
        the piece. The scores are the caller's to change.
        """
        n_rows, dim = self.table.shape
        rows, place = np.unique(self.asked, return_inverse=True)
        place = place.reshape(self.asked.shape)
        units = self.table[rows] * self.inverse[rows, None]
        width = max(1, min(n_rows, BLOCK_FLOATS // max(len(rows), dim)))
        step = max(1, SCORE_FLOATS // width)
        space = np.empty((2, min(step, len(self.asked)), width), np.float32)
        in_order = np.lexsort((self.barred[:, 0], self.barred[:, 1] // width))
        barred = self.barred[in_order]
        for start in range(0, n_rows, width):
            stop = min(start + width, n_rows)
            cosines = units @ (self.table[start:stop] * self.inverse[start:stop, None]).T
            denominators = cosines
            if self.method == "3cosmul":
                cosines = (cosines + np.float32(1)) / np.float32(2)
                denominators = 1 / (cosines + EPSILON)
            low, high = np.searchsorted(barred[:, 1] // width, [start // width, start // width + 1])
            empty = np.flatnonzero(self.norms[start:stop] == 0)
            for first in range(0, len(self.asked), step):
                last = min(first + step, len(self.asked))
                scores, other = (each.ravel()[: (last - first) * (stop - start)] for each in space)
                scores, other = (each.reshape(last - first, stop - start) for each in (scores, other))
                a, b, c = place[first:last].T
                np.take(cosines, b, axis=0, out=scores, mode="clip")
                np.take(cosines, c, axis=0, out=other, mode="clip")
                np.multiply(scores, other, out=scores) if self.method == "3cosmul" else np.add(scores, other, out=scores)
                np.take(denominators, a, axis=0, out=other, mode="clip")
                np.multiply(scores, other, out=scores) if self.method == "3cosmul" else np.subtract(scores, other, out=scores)
                scores[:, empty] = -np.inf
                here = low + np.searchsorted(barred[low:high, 0], [first, last])
                yield slice(first, last), start, scores, in_order[here[0] : here[1]]

    def answers(self, progress: Progress) -> np.ndarray:
        """The row that answers each question, the first of equal ones, int64 (questions,); -1 where there is no candidate."""
        rows, best = np.full(len(self.asked), -1), np.full(len(self.asked), -np.inf, np.float32)
        progress.start("Answering analogies", len(self.table), "candidates")
        for questions, start, scores, barred in self.scored():
            scores[self.barred[barred, 0] - questions.start, self.barred[barred, 1] - start] = -np.inf
            top = scores.argmax(axis=1)
            highest = np.take_along_axis(scores, top[:, None], axis=1)[:, 0]
            is_better = highest > best[questions]
            rows[questions] = np.where(is_better, start + top, rows[questions])
            best[questions] = np.maximum(highest, best[questions])
            progress.update(start)
        progress.finish()
        return rows

"""The words that answer analogy questions best, found by matrix products for many questions at a time.

A question a : b = c : ? has the answer x, none of the words asked with, that has the highest score

    3cosadd   cos(b, x) - cos(a, x) + cos(c, x)                     Mikolov et al. 2013
    3cosmul   s(b, x) s(c, x) / (s(a, x) + ε),   s = (cos + 1) / 2  Levy & Goldberg 2014, eq. 4

Test sets ask the same words over and over: Google's 19,544 questions have 905 of them. So the cosines of these words with a
tile of candidates are one matrix product, and a question's scores are three of its rows added or multiplied. Memory is what
BLOCK_FLOATS and SCORE_FLOATS say, whatever the number of questions and the size of the vocabulary.

Sums in single precision depend on their order, which differs from program to program, so two answers that are closer than
rounding can tell are no certain ones: `Best.gap` tells how close, `margins` how close is too close, and `shortlists` gives all
that may be the best, to be decided by whoever knows what should.
"""

import dataclasses
from collections.abc import Callable, Iterator
from functools import cached_property
from typing import NamedTuple

import numpy as np

from embedx.run.progress import Progress

BLOCK_FLOATS = 1 << 21  # cosines of words asked with and candidates computed at a time: 8 MB
SCORE_FLOATS = 1 << 17  # scores of questions and candidates at a time: 0.5 MB, which a core's cache holds


class Best(NamedTuple):
    """What the search found."""

    rows: np.ndarray  # int64 (questions,): the answer's row; -1 where there is no candidate
    scores: np.ndarray  # float32 (questions,)
    gaps: np.ndarray  # float32 (questions,): how much lower the second is
    barred: np.ndarray  # float32 (n,): the score of each barred row, which it would have had


@dataclasses.dataclass(frozen=True, eq=False)
class Questions:
    """Questions about a table of vectors, by row numbers."""

    table: np.ndarray  # float32 (candidates, dim)
    asked: np.ndarray  # int64 (questions, 3): a, b, c
    barred: np.ndarray  # int64 (n, 2): question, row that cannot be its answer
    method: str = "3cosadd"
    epsilon: float = 0.001  # of 3cosmul, as in the paper

    @cached_property
    def norms(self) -> np.ndarray:  # float32 (candidates,)
        return np.asarray(np.sqrt(np.einsum("ij,ij->i", self.table, self.table)))

    @cached_property
    def inverse(self) -> np.ndarray:  # float32 (candidates,): of the norms, 0 for a zero vector
        with np.errstate(divide="ignore"):
            return np.where(self.norms > 0, 1 / self.norms, 0).astype(np.float32)

    def some(self, chosen: np.ndarray) -> "Questions":
        """Those with the given numbers, int64 (n,), renumbered from 0."""
        number = np.full(len(self.asked), -1)
        number[chosen] = np.arange(len(chosen))
        barred = np.column_stack([number[self.barred[:, 0]], self.barred[:, 1]])
        return dataclasses.replace(self, asked=self.asked[chosen], barred=barred[barred[:, 0] >= 0])

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
                denominators = 1 / (cosines + np.float32(self.epsilon))
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

    def best(self, progress: Progress) -> Best:
        """The answer to each question, the first of equal ones."""
        n = len(self.asked)
        rows, scores, seconds = np.full(n, -1), np.full(n, -np.inf, np.float32), np.full(n, -np.inf, np.float32)
        of_barred = np.full(len(self.barred), -np.inf, np.float32)
        progress.start("Answering analogies", len(self.table), "candidates")
        for questions, start, found, barred in self.scored():
            at = (self.barred[barred, 0] - questions.start, self.barred[barred, 1] - start)
            of_barred[barred] = found[at]
            found[at] = -np.inf
            each = np.arange(len(found))
            top = found.argmax(axis=1)
            highest = found[each, top]
            found[each, top] = -np.inf
            second = found.max(axis=1)
            is_better = highest > scores[questions]
            seconds[questions] = np.where(
                is_better, np.maximum(second, scores[questions]), np.maximum(highest, seconds[questions])
            )
            rows[questions] = np.where(is_better, start + top, rows[questions])
            scores[questions] = np.where(is_better, highest, scores[questions])
            progress.update(start)
        progress.finish()
        with np.errstate(invalid="ignore"):
            return Best(rows, scores, np.where(rows >= 0, scores - seconds, 0), of_barred)

    def margins(self, best: Best) -> np.ndarray:
        """By how much rounding can change the difference of two scores, here and in another program; float32 (questions,)."""
        error = (self.table.shape[1] + 8) * np.finfo(
            np.float32
        ).eps  # twice dim ε/2 |x| |y| (Higham, Accuracy and Stability, 3.5)
        a, b, c = (self.table[rows] * self.inverse[rows, None] for rows in self.asked.T)
        if self.method == "3cosadd":
            # Ours is a sum of three cosines, another's may be one cosine with the sum of the vectors, times that sum's length.
            return np.asarray((3 + np.linalg.norm(b - a + c, axis=1)) * error)
        x = self.table[best.rows] * self.inverse[best.rows, None]
        s, t, u = ((np.einsum("ij,ij->i", each, x) + 1) / 2 for each in (b, c, a))
        with np.errstate(divide="ignore", invalid="ignore"):
            # The relative error of each factor, whose own is error / 2, and that of the other program.
            return np.asarray(best.scores * error * (1 / s + 1 / t + 1 / (u + self.epsilon)))

    def shortlists(self, least: np.ndarray) -> np.ndarray:
        """(question, row), int64 (n, 2), of all rows, not barred, with a score of `least`, float32 (questions,), or more."""
        found = [np.empty((0, 2), np.int64)]
        for questions, start, scores, barred in self.scored():
            scores[self.barred[barred, 0] - questions.start, self.barred[barred, 1] - start] = -np.inf
            hits = np.argwhere(scores >= least[questions, None])
            found.append(hits + np.array([questions.start, start]))
        return np.concatenate(found)

    def double(self, pairs: np.ndarray) -> np.ndarray:
        """The score in double precision of each (question, row), int64 (n, 2); float64 (n,)."""
        cosine = {}
        for k, name in enumerate("abc"):
            x, y = (self.table[rows].astype(np.float64) for rows in (self.asked[pairs[:, 0], k], pairs[:, 1]))
            length = np.sqrt(np.einsum("ij,ij->i", x, x) * np.einsum("ij,ij->i", y, y))
            cosine[name] = np.einsum("ij,ij->i", x, y) / np.where(length > 0, length, 1)
        if self.method == "3cosadd":
            return np.asarray(cosine["b"] - cosine["a"] + cosine["c"])
        a, b, c = ((cosine[name] + 1) / 2 for name in "abc")
        return np.asarray(b * c / (a + self.epsilon))

    def answers(
        self, exact: "Scorer", progress: Progress, floor: float = -np.inf, rank: np.ndarray | None = None
    ) -> np.ndarray:
        """The row that answers each question, int64 (questions,), -1 where none scores above `floor`.

        exact  the scores that decide between those too close for single precision
        rank   int64 (candidates,), lowest first between equal scores; the row itself if None
        """
        best = self.best(progress)
        margins, scores, rows = self.margins(best), best.scores.astype(np.float64), best.rows.copy()
        is_close = (best.gaps <= margins) | (np.abs(scores - floor) <= margins)
        unsure = np.flatnonzero(is_close & (rows >= 0))
        if len(unsure):
            some = self.some(unsure)
            pairs = some.shortlists((best.scores - margins)[unsure].astype(np.float32))
            values = exact(some, pairs)
            order = np.lexsort((pairs[:, 1] if rank is None else rank[pairs[:, 1]], -values, pairs[:, 0]))
            questions, first = np.unique(pairs[order, 0], return_index=True)
            rows[unsure[questions]], scores[unsure[questions]] = pairs[order[first], 1], values[order[first]]
        return np.where(scores > floor, rows, -1)


Scorer = Callable[[Questions, np.ndarray], np.ndarray]  # float64 (n,) of (question, row), int64 (n, 2)

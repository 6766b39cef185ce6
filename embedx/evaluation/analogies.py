"""Answers to analogy questions by matrix products, for many questions at a time.

A question a : b = c : ? has the answer x, none of the words of the question, with the highest score

    3cosadd   cos(b, x) - cos(a, x) + cos(c, x)                     Mikolov et al. 2013
    3cosmul   s(b, x) s(c, x) / (s(a, x) + ε),   s = (cos + 1) / 2  Levy & Goldberg 2014, eq. 4

Google's 19,544 questions have 905 distinct words. So the cosines of these words with a tile of candidates are one matrix
product, and a question's scores are three of its rows added or multiplied. Memory is bounded by BLOCK_FLOATS and SCORE_FLOATS,
whatever the number of questions and the size of the vocabulary.
"""

import numpy as np

from embedx.training.progress import Progress

BLOCK_FLOATS = 1 << 21  # cosines of words of questions and candidates computed at a time: 8 MB
SCORE_FLOATS = 1 << 17  # scores of questions and candidates at a time: 0.5 MB, which a core's cache holds
EPSILON = np.float32(0.001)  # of 3cosmul, as in the paper


def best_answers(
    table: np.ndarray, asked: np.ndarray, barred: np.ndarray, progress: Progress, method: str = "3cosadd"
) -> np.ndarray:
    """The row that answers each question, the first of equal ones, int64 (questions,); -1 where there is no candidate.

    table   float32 (candidates, dim)
    asked   int64 (questions, 3): the rows of a, b and c
    barred  int64 (n, 2): a question, and a row that cannot be its answer
    """
    n_rows, dim = table.shape
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    words, place = np.unique(asked, return_inverse=True)
    a, b, c = place.reshape(asked.shape).T
    units = table[words] * inverse[words, None]
    barred = barred[np.argsort(barred[:, 0], kind="stable")]
    width = max(1, min(n_rows, BLOCK_FLOATS // max(len(words), dim)))
    step = max(1, SCORE_FLOATS // width)
    rows, best = np.full(len(asked), -1), np.full(len(asked), -np.inf, np.float32)
    progress.start("Answering analogies", n_rows, "candidates")
    for start in range(0, n_rows, width):
        stop = min(start + width, n_rows)
        cosines = units @ (table[start:stop] * inverse[start:stop, None]).T
        if method == "3cosmul":
            cosines = (cosines + np.float32(1)) / np.float32(2)
            factors = 1 / (cosines + EPSILON)
        empty = np.flatnonzero(norms[start:stop] == 0)
        here = barred[(barred[:, 1] >= start) & (barred[:, 1] < stop)]
        for first in range(0, len(asked), step):
            some = slice(first, first + step)
            scores = cosines[b[some]]
            if method == "3cosmul":
                scores *= cosines[c[some]]
                scores *= factors[a[some]]
            else:
                scores += cosines[c[some]]
                scores -= cosines[a[some]]
            scores[:, empty] = -np.inf
            own = here[slice(*np.searchsorted(here[:, 0], [first, first + step]))]
            scores[own[:, 0] - first, own[:, 1] - start] = -np.inf
            top = scores.argmax(axis=1)
            highest = np.take_along_axis(scores, top[:, None], axis=1)[:, 0]
            rows[some] = np.where(highest > best[some], start + top, rows[some])
            best[some] = np.maximum(highest, best[some])
        progress.update(start)
    progress.finish()
    return rows

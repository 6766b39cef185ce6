"""Answers to analogy questions by matrix products, for many questions at a time.

As in gensim, words are folded to upper case, and of several variants the most frequent one counts.
A question with a word outside the first `restrict_vocab` words is left out, and no variant of one
of its words is its answer.

A question a : b = c : ? has the answer x, none of the words of the question, with the highest score

    3cosadd   cos(b, x) - cos(a, x) + cos(c, x)                     Mikolov et al. 2013
    3cosmul   s(b, x) s(c, x) / (s(a, x) + ε),   s = (cos + 1) / 2  Levy & Goldberg 2014, eq. 4

Google's 19,544 questions have 905 distinct words. So the cosines of these words with a tile of the
table are one matrix product, and a question's scores are three of its rows added or multiplied.
Memory is bounded by BLOCK_FLOATS and SCORE_FLOATS, whatever the number of questions and the size of
the vocabulary.
"""

import itertools
import math
from collections.abc import Callable, Sequence

import numpy as np
from numpy import float32, ndarray

from embedx.evaluation.word_sets import METHODS, Analogies, ItemScores
from embedx.runtime.progress import Progress
from embedx.vectors.model import WordVectors

# Cosines of the questions' words with rows of the table that are computed at a time: 8 MB.
BLOCK_FLOATS = 1 << 21
# Scores of rows for questions that are computed at a time: 0.5 MB, which a core's cache holds.
SCORE_FLOATS = 1 << 17
# ε of 3cosmul, as in the paper.
EPSILON = float32(0.001)


def score_questions(test: Analogies, vectors: WordVectors, progress: Progress) -> ItemScores:
    """1 for each question that is answered right, 0 for the others."""
    questions = [tuple(vectors.spelled(word).upper() for word in words) for words in test.words]
    words = vectors.words[: test.restrict_vocab]
    rows = _rows_by_upper_case(words)
    is_known = [all(word in rows for word in question) for question in questions]
    known = list(itertools.compress(questions, is_known))
    values = np.full(len(test), np.nan)
    if not known:
        return ItemScores(test, values)

    # Several questions may differ in the right answer alone: a, b and c are asked once.
    triples = list(dict.fromkeys(question[:3] for question in known))
    best_rows = best_answers(
        vectors.vectors[: test.restrict_vocab],
        np.array([[rows[word][0] for word in question] for question in triples]),
        _excluded_rows(triples, rows),
        progress,
        test.method,
    )
    answers = {
        question: words[row].upper() if row >= 0 else ""
        for question, row in zip(triples, best_rows.tolist(), strict=True)
    }
    values[is_known] = [answers[question[:3]] == question[3] for question in known]
    return ItemScores(test, values, {"method": test.method, "sections": _sections(test, values)})


def _rows_by_upper_case(words: Sequence[str]) -> dict[str, list[int]]:
    """The rows of all words with the same upper-case form, the most frequent word first."""
    rows: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.upper(), []).append(row)
    return rows


def _excluded_rows(triples: Sequence[tuple[str, ...]], rows: dict[str, list[int]]) -> ndarray:
    """int64 (n, 2): the number of a question, and a row with one of its words."""
    excluded = [
        (number, row)
        for number, question in enumerate(triples)
        for word in set(question)
        for row in rows[word]
    ]
    return np.array(excluded)


def _sections(test: Analogies, values: ndarray) -> dict[str, dict[str, int]]:
    """The numbers of right answers and of scored questions of each section."""
    sections: dict[str, dict[str, int]] = {}
    for value, section in zip(values.tolist(), test.sections, strict=True):
        counts = sections.setdefault(section, {"correct": 0, "used": 0})
        if not math.isnan(value):
            counts["used"] += 1
            counts["correct"] += int(value)
    return sections


def best_answers(
    table: ndarray,
    triples: ndarray,
    excluded: ndarray,
    progress: Progress,
    method: str = METHODS[0],
) -> ndarray:
    """The row that answers each question, int64 (questions,); -1 where no row can.

    Of rows with equal scores the first one is the answer.

    table     float32 (rows, dim)
    triples   int64 (questions, 3): the rows of a, b and c
    excluded  int64 (n, 2): a question, and a row that cannot be its answer
    """
    n_rows, dim = table.shape
    norms = np.sqrt(np.einsum("ij,ij->i", table, table))
    inverse = np.divide(1, norms, out=np.zeros_like(norms), where=norms > 0)
    words, place = np.unique(triples, return_inverse=True)
    a, b, c = place.reshape(triples.shape).T
    units = table[words] * inverse[words, None]
    excluded = excluded[np.argsort(excluded[:, 0], kind="stable")]
    width = max(1, min(n_rows, BLOCK_FLOATS // max(len(words), dim)))
    step = max(1, SCORE_FLOATS // width)
    best = np.full(len(triples), -1)
    highest = np.full(len(triples), -np.inf, float32)
    progress.start("Answering analogies", n_rows, "words")
    for start in range(0, n_rows, width):
        stop = min(start + width, n_rows)
        cosines = units @ (table[start:stop] * inverse[start:stop, None]).T
        scores_of = _scores_by(method, cosines)
        zero_rows = np.flatnonzero(norms[start:stop] == 0)
        excluded_in_tile = excluded[(excluded[:, 1] >= start) & (excluded[:, 1] < stop)]
        for first in range(0, len(triples), step):
            block = slice(first, first + step)
            scores = scores_of(a[block], b[block], c[block])
            scores[:, zero_rows] = -np.inf
            begin, end = np.searchsorted(excluded_in_tile[:, 0], [first, first + step])
            questions, rows = excluded_in_tile[begin:end].T
            scores[questions - first, rows - start] = -np.inf

            best_in_tile = scores.argmax(axis=1)
            highest_in_tile = np.take_along_axis(scores, best_in_tile[:, None], axis=1)[:, 0]
            is_higher = highest_in_tile > highest[block]
            best[block] = np.where(is_higher, start + best_in_tile, best[block])
            highest[block] = np.maximum(highest_in_tile, highest[block])
        progress.update(stop)
    progress.finish()
    return best


def _scores_by(method: str, cosines: ndarray) -> Callable[[ndarray, ndarray, ndarray], ndarray]:
    """A function from the words a, b and c of some questions to the scores of all rows of a tile,
    float32 (questions, rows).

    cosines  float32 (words, rows)
    """
    if method == "3cosmul":
        similarities = (cosines + float32(1)) / float32(2)
        factors = 1 / (similarities + EPSILON)

        def products(a: ndarray, b: ndarray, c: ndarray) -> ndarray:
            scores = similarities[b]
            scores *= similarities[c]
            scores *= factors[a]
            return scores

        return products

    def sums(a: ndarray, b: ndarray, c: ndarray) -> ndarray:
        scores = cosines[b]
        scores += cosines[c]
        scores -= cosines[a]
        return scores

    return sums

"""Answers to analogy questions by matrix products, for many questions at a time.

Words are folded to upper case, and of several variants the most frequent one counts; a question
with a word outside the candidates is left out, and no variant of one of its words is its answer, as
in gensim.

A question a : b = c : ? has the answer x, none of the words of the question, with the highest score

    3cosadd   cos(b, x) - cos(a, x) + cos(c, x)                     Mikolov et al. 2013
    3cosmul   s(b, x) s(c, x) / (s(a, x) + ε),   s = (cos + 1) / 2  Levy & Goldberg 2014, eq. 4

Google's 19,544 questions have 905 distinct words. So the cosines of these words with a tile of
candidates are one matrix product, and a question's scores are three of its rows added or
multiplied. Memory is bounded by BLOCK_FLOATS and SCORE_FLOATS, whatever the number of questions and
the size of the vocabulary.
"""

from collections.abc import Callable

import numpy as np
from numpy import float32, ndarray

from embedx.evaluation.word_sets import METHODS, Analogies, Answers
from embedx.runtime.progress import Progress
from embedx.vectors.model import WordVectors

# Cosines of words of questions and candidates computed at a time: 8 MB.
BLOCK_FLOATS = 1 << 21
# Scores of questions and candidates at a time: 0.5 MB, which a core's cache holds.
SCORE_FLOATS = 1 << 17
# Of 3cosmul, as in the paper.
EPSILON = float32(0.001)


def answered(test: Analogies, vectors: WordVectors, progress: Progress) -> Answers:
    """The answers to all questions: 1 where the answer is right, 0 where it is wrong."""
    questions = [tuple(vectors.spelled(word).upper() for word in words) for words in test.words]
    words = vectors.words[: test.candidates]
    # of all words with the same upper-case form, most frequent first
    rows: dict[str, list[int]] = {}
    for row, word in enumerate(words):
        rows.setdefault(word.upper(), []).append(row)
    known = [question for question in questions if all(word in rows for word in question)]
    values = np.full(len(test), np.nan)
    if not known:
        return Answers(test, values)

    # questions without their answers, each once
    distinct = list(dict.fromkeys(question[:3] for question in known))
    question_rows = [[rows[word][0] for word in question] for question in distinct]
    excluded_rows = [
        (k, row)
        for k, question in enumerate(distinct)
        for word in set(question)
        for row in rows[word]
    ]
    best_rows = best_answers(
        vectors.vectors[: test.candidates],
        np.array(question_rows),
        np.array(excluded_rows),
        progress,
        test.method,
    )
    answers = {
        question: words[row].upper() if row >= 0 else ""
        for question, row in zip(distinct, best_rows.tolist(), strict=True)
    }

    known_questions = set(known)
    sections: dict[str, dict[str, int]] = {}
    for k, (question, section) in enumerate(zip(questions, test.sections, strict=True)):
        counts = sections.setdefault(section, {"correct": 0, "used": 0})
        if question in known_questions:
            values[k] = answers[question[:3]] == question[3]
            counts["used"] += 1
            counts["correct"] += int(values[k])
    return Answers(test, values, {"method": test.method, "sections": sections})


def best_answers(
    table: ndarray, asked: ndarray, barred: ndarray, progress: Progress, method: str = METHODS[0]
) -> ndarray:
    """The row that answers each question, int64 (questions,); -1 where there is no candidate.

    Of rows with equal scores the first one is the answer.

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
    rows = np.full(len(asked), -1)
    best = np.full(len(asked), -np.inf, float32)
    progress.start("Answering analogies", n_rows, "candidates")
    for start in range(0, n_rows, width):
        stop = min(start + width, n_rows)
        cosines = units @ (table[start:stop] * inverse[start:stop, None]).T
        scores_of = _scores_by(method, cosines)
        empty = np.flatnonzero(norms[start:stop] == 0)
        barred_in_tile = barred[(barred[:, 1] >= start) & (barred[:, 1] < stop)]
        for first in range(0, len(asked), step):
            block = slice(first, first + step)
            scores = scores_of(a[block], b[block], c[block])
            scores[:, empty] = -np.inf
            begin, end = np.searchsorted(barred_in_tile[:, 0], [first, first + step])
            questions, barred_rows = barred_in_tile[begin:end].T
            scores[questions - first, barred_rows - start] = -np.inf

            top = scores.argmax(axis=1)
            highest = np.take_along_axis(scores, top[:, None], axis=1)[:, 0]
            rows[block] = np.where(highest > best[block], start + top, rows[block])
            best[block] = np.maximum(highest, best[block])
        progress.update(start)
    progress.finish()
    return rows


def _scores_by(method: str, cosines: ndarray) -> Callable[[ndarray, ndarray, ndarray], ndarray]:
    """A function from the words a, b and c of some questions to the scores of all candidates,
    float32 (questions, candidates).

    cosines  float32 (words, candidates)
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

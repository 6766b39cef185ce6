"""How word tests are scored: by embedx, or by gensim with its defaults.

    embedx   gensim's rules, with analogies among the first 30,000 words, all computed by matrix products; 3CosAdd, or 3CosMul
             with --method
    gensim   its own `evaluate_word_pairs` and `evaluate_word_analogies` with their defaults

The rules: words are folded to upper case, and the most frequent variant counts; an item with a word outside the first 300,000
is left out; no variant of a word of the question is its answer.
"""

import dataclasses
import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from embedx.errors import EmbedxError, choice
from embedx.evaluation import groups
from embedx.evaluation.analogies import best_answers
from embedx.evaluation.statistics import number
from embedx.evaluation.with_gensim import as_file
from embedx.evaluation.word_sets import (
    ANALOGY_CANDIDATES,
    METHODS,
    MIN_ITEMS,
    PAIR_CANDIDATES,
    Analogies,
    Answers,
    Categories,
    Outliers,
    SimilarityPairs,
    TestSet,
)
from embedx.training.progress import Progress

PROTOCOLS = {"embedx": ANALOGY_CANDIDATES, "gensim": PAIR_CANDIDATES}  # with the number of candidates of analogies


def prepared(
    protocol: str, tests: Sequence[TestSet], candidates: int | None = None, method: str | None = None
) -> list[TestSet]:
    """The tests with the options of a protocol. Raises `EmbedxError` if it has no such test or option."""
    check(protocol)
    if candidates is not None and candidates < 1:
        raise EmbedxError(f"--candidates {candidates}: must be at least 1")
    if method is not None and method not in METHODS:
        raise EmbedxError(f"--method {method}: must be {' or '.join(METHODS)}")
    if method is not None and protocol == "gensim":
        raise EmbedxError(f"--method does not apply to --protocol gensim, which has {METHODS[0]}")
    if protocol == "gensim" and (odd := next((test for test in tests if isinstance(test, Categories | Outliers)), None)):
        raise EmbedxError(f"{odd.name}: --protocol gensim has no categories and no outliers")
    suffix = "" if method in (None, METHODS[0]) else f" ({method})"
    own: dict[str, Any] = {"candidates": candidates or PROTOCOLS[protocol], "method": method or METHODS[0]}
    return [
        dataclasses.replace(test, name=test.name + suffix, **own) if isinstance(test, Analogies) else test for test in tests
    ]


def check(protocol: str) -> None:
    if protocol not in PROTOCOLS:
        raise EmbedxError(f"--protocol {protocol}: {choice(protocol, PROTOCOLS)}")


def ask(protocol: str, test: TestSet, vectors: Any, progress: Progress) -> Answers:
    """The answers of gensim's KeyedVectors `vectors` to a test."""
    match test:
        case Analogies() if protocol == "gensim":
            return questions_by_gensim(test, vectors)
        case Analogies():
            return questions_by_products(test, vectors, progress)
        case Categories():
            return groups.purity(test, vectors)
        case Outliers():
            return groups.outliers(test, vectors)
    return pairs_by_gensim(test, vectors)


def by_section(test: Analogies, values: np.ndarray) -> dict[str, dict[str, int]]:
    """How many questions of each section count, and how many answers are correct, from values float64 (items,)."""
    found: dict[str, dict[str, int]] = {}
    for name, value in zip(test.sections, values.tolist(), strict=True):
        counts = found.setdefault(name, {"correct": 0, "used": 0})
        if not math.isnan(value):
            counts["used"] += 1
            counts["correct"] += int(value)
    return found


def pairs_by_gensim(test: SimilarityPairs, vectors: Any) -> Answers:
    """`evaluate_word_pairs`, and the cosine of each pair."""
    known = groups.folded(vectors.index_to_key[: test.candidates])
    values = np.array(
        [
            vectors.similarity(known[a], known[b]) if a in known and b in known else np.nan
            for a, b in ((a.upper(), b.upper()) for a, b in test.words)
        ]
    )
    if np.count_nonzero(~np.isnan(values)) < MIN_ITEMS:
        return Answers(test, values, math.nan, {})
    lines = [f"{a}\t{b}\t{gold!r}\n" for (a, b), gold in zip(test.words, test.gold.tolist(), strict=True)]
    with as_file(lines) as file:
        pearson, spearman, oov_ratio = vectors.evaluate_word_pairs(file, restrict_vocab=test.candidates)
    details = {"pearson": pearson[0], "pearson_p": pearson[1], "spearman_p": spearman[1], "oov_ratio": oov_ratio}
    return Answers(test, values, float(spearman[0]), {name: number(value) for name, value in details.items()})


def questions_by_products(test: Analogies, vectors: Any, progress: Progress) -> Answers:
    """The answers to all questions by matrix products, by gensim's rules."""
    questions = [tuple(word.upper() for word in words) for words in test.words]
    words = vectors.index_to_key[: test.candidates]
    rows: dict[str, list[int]] = {}  # of all words with the same upper-case form, most frequent first
    for row, word in enumerate(words):
        rows.setdefault(word.upper(), []).append(row)
    is_known = [all(word in rows for word in question) for question in questions]
    if sum(is_known) < MIN_ITEMS:
        return Answers(test, np.full(len(test), np.nan), math.nan, {})
    distinct = list(dict.fromkeys(question[:3] for question, known in zip(questions, is_known, strict=True) if known))
    asked = np.array([[rows[word][0] for word in question] for question in distinct])
    barred = [(k, row) for k, question in enumerate(distinct) for word in set(question) for row in rows[word]]
    found = best_answers(vectors.vectors[: test.candidates], asked, np.array(barred), progress, test.method)
    answer = {question: words[row].upper() if row >= 0 else "" for question, row in zip(distinct, found.tolist(), strict=True)}
    values = np.array([float(answer[q[:3]] == q[3]) if known else np.nan for q, known in zip(questions, is_known, strict=True)])
    return Answers(test, values, float(np.nanmean(values)), {"method": test.method, "sections": by_section(test, values)})


def questions_by_gensim(test: Analogies, vectors: Any) -> Answers:
    """`evaluate_word_analogies`, which searches for one question at a time."""
    questions = [tuple(word.upper() for word in words) for words in test.words]
    known = groups.folded(vectors.index_to_key[: test.candidates])
    if sum(all(word in known for word in question) for question in questions) < MIN_ITEMS:
        return Answers(test, np.full(len(test), np.nan), math.nan, {})
    lines: list[str] = []
    for section, items in itertools.groupby(zip(test.sections, test.words, strict=True), key=lambda item: item[0]):
        lines += [f": {section}\n", *(" ".join(words) + "\n" for _, words in items)]
    with as_file(lines) as file:
        score, sections = vectors.evaluate_word_analogies(file, restrict_vocab=test.candidates)
    marks = {"correct": 1.0, "incorrect": 0.0}
    outcome = {question: mark for kind, mark in marks.items() for question in sections[-1][kind]}
    values = np.array([outcome.get(question, np.nan) for question in questions])
    return Answers(test, values, float(score), {"sections": by_section(test, values)})

"""Word vectors scored on test sets: similarity of word pairs and analogies.

Words are scored by gensim's rules, which are printed with every score:

    case          ignored: words are folded to upper case, and of several variants the most frequent
                  one counts
    unknown       an item with a word outside the vocabulary is left out, and counted; with `oov`, a
                  pair is scored by the vectors that such words have by their n-grams, in lower case
                  where no word of the vocabulary has capitals
    candidates    similarity knows the first 300,000 words; analogies know, and answer with, the
                  first 30,000, or with --protocol gensim the first 300,000, which is gensim's
                  default
    similarity    Spearman's rank correlation of cosines with the mean human score
    analogy       a : b = c : ?  answered by 3CosAdd, the word nearest to b - a + c other than a, b
                                 and c
    pooled        the mean of the correlations of several similarity sets, each weighted by its
                  pairs: one number whose error is about half of one set's; a set that is a part of
                  another does not count, as the two halves of WordSim-353 and MC-30, all of which
                  is in RG-65

Each score has a 95 % interval; see `embedx.evaluation.statistics` for what it covers.
"""

import dataclasses
import glob
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import Setting, SettingError
from embedx.evaluation import analogies, statistics
from embedx.evaluation.word_report import Report, ScoreDifference, TestScore
from embedx.evaluation.word_sets import (
    MIN_ITEMS,
    Analogies,
    Answers,
    SimilarityPairs,
    TestSet,
    WordTests,
    default_tests,
    folded,
)
from embedx.runtime.progress import Progress, Silent
from embedx.vectors.model import VECTORS, WordVectors, load, unit

Model = WordVectors | str | Path  # or the path of one
POOLED = "pooled"  # the name of several sets of pairs together

# ---- scoring a model


def score(
    vectors: WordVectors,
    tests: Sequence[TestSet] | None = None,
    progress: Progress | None = None,
    oov: bool = False,
) -> list[Answers]:
    """The answers to each test.

    tests  the default ones if None
    oov    whether pairs with words outside the vocabulary are scored by their n-grams
    """
    progress = progress or Silent()
    return [
        answers(test, vectors, progress, oov)
        for test in (default_tests() if tests is None else tests)
    ]


def answers(test: TestSet, vectors: WordVectors, progress: Progress, oov: bool) -> Answers:
    """The answers to one test."""
    if isinstance(test, Analogies):
        return analogies.answered(test, vectors, progress)
    return similarities(test, vectors, oov)


def similarities(test: SimilarityPairs, vectors: WordVectors, oov: bool = False) -> Answers:
    """The cosine of each pair."""
    words = vectors.words[: test.candidates]
    known = folded(words)
    has_capitals = any(word != word.lower() for word in words)
    subwords = vectors.subwords if oov else None

    def vector(word: str) -> np.ndarray | None:
        word = vectors.spelled(word)
        if word.upper() in known:
            return vectors[known[word.upper()]]
        if subwords is None:
            return None
        return subwords.vector(word if has_capitals else word.lower())

    def cosine(a: np.ndarray | None, b: np.ndarray | None) -> float:
        if a is None or b is None:
            return math.nan
        return float(unit(a) @ unit(b))

    return Answers(test, np.array([cosine(vector(a), vector(b)) for a, b in test.words]))


def pooled(answers: Sequence[Answers]) -> Answers | None:
    """The answers to all similarity sets together; None if there are fewer than two sets."""
    sets = [(each.test, each.values) for each in answers if isinstance(each.test, SimilarityPairs)]
    pairs = [{frozenset(map(str.upper, words)) for words in test.words} for test, _ in sets]
    # A set counts unless another holds all its pairs; of two with the same pairs the first does.
    is_part = [
        any(mine < other or (mine == other and j < k) for j, other in enumerate(pairs))
        for k, mine in enumerate(pairs)
    ]
    kept = [each for each, is_in_another in zip(sets, is_part, strict=True) if not is_in_another]
    if len(kept) < 2:
        return None
    tests = [test for test, _ in kept]
    values = [
        each if np.count_nonzero(~np.isnan(each)) >= MIN_ITEMS else np.full(len(each), np.nan)
        for _, each in kept
    ]
    words, gold = (
        [pair for test in tests for pair in test.words],
        np.concatenate([test.gold for test in tests]),
    )
    together = SimilarityPairs(POOLED, words, gold, tuple(map(len, tests)))
    return Answers(together, np.concatenate(values), {"sets": [test.name for test in tests]})


# ---- comparing


def paired_difference(a: Sequence[Answers], b: Sequence[Answers], seed: int = 0) -> ScoreDifference:
    """The score of `a` minus that of `b` on one test; each side is one model, or the same one
    trained with several seeds.

    Only items that every model can score count. A side's score is the mean of its models' scores:
    for pairs the mean of the models' Spearman correlations (not the correlation of mean cosines,
    which would be that of an ensemble). The interval includes the variance between the models of a
    side where a side has several.
    """
    test = a[0].test
    items = np.logical_and.reduce([answers.used for answers in [*a, *b]])
    if isinstance(test, SimilarityPairs) and test.sizes:
        items = np.concatenate(
            [part & (np.count_nonzero(part) >= MIN_ITEMS) for part in test.by_set(items)]
        )
    shared, runs = int(np.count_nonzero(items)), (len(a), len(b))
    if shared < MIN_ITEMS:
        return ScoreDifference(
            test.name, test.measure, math.nan, (math.nan, math.nan), shared, runs
        )
    ours, theirs = ([each.scored(items, seed) for each in side] for side in (a, b))
    found = statistics.difference(ours, theirs, statistics.between_seeds([ours, theirs]))
    assert found is not None
    return ScoreDifference(test.name, test.measure, found.value, found.interval(), shared, runs)


def evaluated(model: Model, against: Sequence[Model] | Model = (), **how: Any) -> Report:
    """As `evaluate`, with the fields of `WordTests` by name: pairs=["sim.tsv"],
    analogies="questions.txt", seed=3, ...
    """
    tests = {
        field.name: how.pop(field.name)
        for field in dataclasses.fields(WordTests)
        if field.name in how
    }
    tests |= {"pairs": [tests["pairs"]]} if isinstance(tests.get("pairs"), str | Path) else {}
    return evaluate(
        [model], [against] if isinstance(against, Model) else against, WordTests(**tests), **how
    )


def evaluate(
    models: Sequence[Model],
    others: Sequence[Model] = (),
    tests: WordTests | None = None,
    *,
    which: str = VECTORS[0],
    oov: bool = False,
    trust_pickle: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Score models; with `others`, also the difference between the means of the two sides.

    models  any, or with `others` models of one configuration that differ in their seed, usually
            one; `others` likewise, of another configuration, and there a pattern stands for all
            paths that match it
    which   the vectors: "input", "output" or "sum", see `WordVectors.of`
    oov     score pairs with words outside the vocabulary too, by the n-grams of a model that has
            such
    """
    tests, progress = tests or WordTests(), progress or Silent()
    given = [*models, *matching(others)]
    names = [
        str(each.facts.get("source", "model")) if isinstance(each, WordVectors) else str(each)
        for each in given
    ]
    sets = tests.read()
    loaded = [
        each if isinstance(each, WordVectors) else load(each, progress, trust_pickle)
        for each in given
    ]
    opened = [each.of(which) for each in loaded]
    if oov and not any(each.subwords for each in opened):
        raise SettingError(
            "oov",
            None,
            f"{' and '.join(names)} without n-grams",
            ("train with ", Setting("subwords", "3-6")),
        )
    answered = [score(each, sets, progress, oov) for each in opened]
    answered = [[*each, last] if (last := pooled(each)) else each for each in answered]
    scores = [
        summary(*each, tests.seed)
        for some in zip(*answered, strict=True)
        for each in zip(names, some, strict=True)
    ]
    n = len(models)
    differences = (
        [paired_difference(each[:n], each[n:], tests.seed) for each in zip(*answered, strict=True)]
        if others
        else []
    )
    warnings = [warning for each in scores for warning in coverage(each)]
    return Report(names, scores, differences, warnings, tests.seed, tests.protocol, which, n)


def matching(patterns: Sequence[Model]) -> list[WordVectors | str]:
    """The paths and models, in order, with those in place of a pattern that match it."""
    models: list[WordVectors | str] = []
    for pattern in patterns:
        if isinstance(pattern, WordVectors):
            models.append(pattern)
            continue
        name = str(pattern)
        is_pattern = glob.has_magic(name) and not os.path.exists(name)
        paths = sorted(glob.glob(name)) if is_pattern else [name]
        if not paths:
            raise SettingError("against", name, "no such file or model folder")
        models += paths
    return models


def summary(name: str, answers: Answers, seed: int) -> TestScore:
    """The score of a model on a test."""
    test = answers.test
    n_used = int(np.count_nonzero(answers.used))
    interval = (math.nan, math.nan)
    if n_used >= MIN_ITEMS:
        scored = answers.scored(seed=seed)
        estimate = statistics.Estimate(scored.value, (scored.item_error(),))
        low = -1.0 if test.measure == "spearman" else 0.0
        interval = estimate.interval(low, 1.0)
    return TestScore(
        test=test.name,
        model=name,
        measure=test.measure,
        score=answers.score,
        interval=interval,
        used=n_used,
        total=len(test),
        candidates=test.candidates,
        details=answers.details,
    )


def coverage(score: TestScore) -> list[str]:
    """A warning if the vocabulary covers too few items for the score to mean much."""
    if score.test == POOLED:  # there are warnings for its sets
        return []
    if score.used < MIN_ITEMS:
        return [
            f"{score.model}: nothing to score on {score.test}, its vocabulary covers {score.used}"
            f" of {score.total:,} items"
        ]
    if 2 * score.used >= score.total:
        return []
    return [
        f"{score.model}: the score on {score.test} rests on {score.used:,} of {score.total:,}"
        " items, the vocabulary lacks the others"
    ]

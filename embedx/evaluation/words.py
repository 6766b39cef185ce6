"""Word vectors scored on test sets: similarity of word pairs and analogies.

Words are scored by gensim's rules, which are printed with every score:

    case          ignored: words are folded to upper case, and of several variants the most frequent
                  one counts
    unknown       an item with a word outside the vocabulary is left out, and counted; with `oov`, a
                  pair is scored by the vectors that such words have by their n-grams, in lower case
                  where no word of the vocabulary has capitals
    restrict_vocab
                  the number of the most frequent words that are looked at: 300,000 for similarity;
                  for analogies 30,000, or with --protocol gensim 300,000, which is gensim's default
    similarity    Spearman's rank correlation of cosines with the mean human score
    analogy       a : b = c : ?  answered by 3CosAdd, the word nearest to b - a + c other than a, b
                                 and c
    pooled        the mean of the correlations of several similarity sets, each weighted by its
                  pairs: one number whose error is about half of one set's. A set that is a part of
                  another does not count: the two halves of WordSim-353, and MC-30, all of which is
                  in RG-65

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

from embedx.errors import DataError, InapplicableError, Setting, SettingError, Text
from embedx.evaluation import analogies, statistics
from embedx.evaluation.word_report import Report, ScoreDifference, TestScore
from embedx.evaluation.word_sets import (
    MIN_ITEMS,
    Analogies,
    ItemScores,
    SimilarityPairs,
    TestSet,
    WordTests,
    default_tests,
    folded,
)
from embedx.runtime.progress import Progress, Silent
from embedx.vectors.model import VECTORS, WordVectors, load
from embedx.vectors.queries import unit

# Word vectors, or the path of a model.
Model = WordVectors | str | Path
# The name of several sets of pairs together.
POOLED = "pooled"
# How models of items and of nodes are scored.
REMEDY_BY_NOUN: dict[str, Text] = {
    "item": (
        "give ",
        Setting("next_item"),
        " a file of sessions, or name a set by ",
        Setting("pairs"),
    ),
    "node": ("give ", Setting("links"), ", ", Setting("node_labels"), " or ", Setting("pairs")),
}

# ---- scoring a model


def why_no_packaged_tests(vectors: WordVectors, tests: WordTests) -> str | None:
    """Why a model is scored on no test set, where the user named none; None where it is scored."""
    if vectors.noun == "word" or tests.pairs or tests.analogies is not None:
        return None
    if vectors.noun == "item":
        return "the packaged test sets are of English words; items are scored by sessions"
    return "the packaged test sets are of English words; nodes are scored by links or labels"


def score_items(
    vectors: WordVectors,
    tests: Sequence[TestSet] | None = None,
    progress: Progress | None = None,
    oov: bool = False,
) -> list[ItemScores]:
    """The scores of the items of each test.

    tests  the default ones if None
    oov    whether pairs with words outside the vocabulary are scored by their n-grams
    """
    progress = progress or Silent()
    if tests is None:
        tests = default_tests()
    scores = []
    for test in tests:
        if isinstance(test, Analogies):
            scores.append(analogies.score_questions(test, vectors, progress))
        else:
            scores.append(score_pairs(test, vectors, oov))
    return scores


def score_pairs(test: SimilarityPairs, vectors: WordVectors, oov: bool = False) -> ItemScores:
    """The cosine of each pair."""
    words = vectors.words[: test.restrict_vocab]
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

    return ItemScores(test, np.array([cosine(vector(a), vector(b)) for a, b in test.words]))


def pooled(scores: Sequence[ItemScores]) -> ItemScores | None:
    """The scores of all similarity sets together; None if there are fewer than two sets."""
    tests: list[SimilarityPairs] = []
    values: list[np.ndarray] = []
    for test, test_values in independent_sets(scores):
        n_used = np.count_nonzero(~np.isnan(test_values))
        if n_used < MIN_ITEMS:
            test_values = np.full(len(test_values), np.nan)
        tests.append(test)
        values.append(test_values)
    if len(tests) < 2:
        return None
    together = SimilarityPairs(
        POOLED,
        words=[pair for test in tests for pair in test.words],
        gold=np.concatenate([test.gold for test in tests]),
        sizes=tuple(map(len, tests)),
    )
    return ItemScores(together, np.concatenate(values), {"sets": [test.name for test in tests]})


def independent_sets(scores: Sequence[ItemScores]) -> list[tuple[SimilarityPairs, np.ndarray]]:
    """The similarity sets and their values, without sets whose pairs are all in another one; of two
    with the same pairs the first counts.
    """
    sets = []
    pairs = []
    for item_scores in scores:
        test = item_scores.test
        if isinstance(test, SimilarityPairs):
            sets.append((test, item_scores.values))
            pairs.append({frozenset(map(str.upper, words)) for words in test.words})

    def is_part_of_another(k: int) -> bool:
        return any(
            pairs[k] < other or (pairs[k] == other and j < k) for j, other in enumerate(pairs)
        )

    return [sets[k] for k in range(len(sets)) if not is_part_of_another(k)]


# ---- comparing


def paired_difference(
    a: Sequence[ItemScores], b: Sequence[ItemScores], seed: int = 0
) -> ScoreDifference:
    """The score of `a` minus that of `b` on one test.

    Each side is one model, or the same one trained with several seeds.

    Only items that every model can score count. A side's score is the mean of its models' scores:
    for pairs the mean of the models' Spearman correlations (not the correlation of mean cosines,
    which would be that of an ensemble). The interval includes the variance between the models of a
    side where a side has several.
    """
    test = a[0].test
    items = np.logical_and.reduce([scores.used for scores in [*a, *b]])
    if isinstance(test, SimilarityPairs) and test.sizes:
        items = np.concatenate(
            [part & (np.count_nonzero(part) >= MIN_ITEMS) for part in test.divided(items)]
        )
    n_shared = int(np.count_nonzero(items))
    value = math.nan
    interval = (math.nan, math.nan)
    if n_shared >= MIN_ITEMS:
        scores_a = [scores.scored(items, seed) for scores in a]
        scores_b = [scores.scored(items, seed) for scores in b]
        between_seeds = statistics.between_seeds([scores_a, scores_b])
        estimate = statistics.difference(scores_a, scores_b, between_seeds)
        assert estimate is not None
        value = estimate.value
        interval = estimate.interval()
    n_runs = (len(a), len(b))
    return ScoreDifference(test.name, test.measure, value, interval, n_shared, n_runs)


def evaluate_model(model: Model, others: Sequence[Model], **options: Any) -> Report:
    """`evaluate` of one model, with the fields of `WordTests` by name among the options.

    For example pairs=["sim.tsv"], analogies="questions.txt", seed=3.
    """
    names = {field.name for field in dataclasses.fields(WordTests)}
    tests = {name: options.pop(name) for name in names & options.keys()}
    if isinstance(tests.get("pairs"), str | Path):
        tests["pairs"] = [tests["pairs"]]
    return evaluate([model], others, WordTests(**tests), **options)


def evaluate(
    models: Sequence[Model],
    others: Sequence[Model] = (),
    tests: WordTests | None = None,
    *,
    vectors: str = VECTORS[0],
    oov: bool = False,
    trust_pickle: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Score models; with `others`, also the difference between the means of the two sides.

    models   any number; with `others`, models of one configuration that differ in their seed,
             usually one
    others   likewise, of another configuration; a pattern stands for all paths that match it
    vectors  those that are scored: "input", "output" or "sum", see `WordVectors.of`
    oov      score pairs with words outside the vocabulary too, by the n-grams of a model that has
             such
    """
    tests = tests or WordTests()
    progress = progress or Silent()
    all_models = [*models, *matching(others)]
    names = [*map(name_of, all_models)]
    sets = tests.read_files()
    loaded = [opened(model, vectors, progress, trust_pickle) for model in all_models]
    for name, model in zip(names, loaded, strict=True):
        reason = why_no_packaged_tests(model, tests)
        if reason is not None:
            raise DataError(name, None, reason, REMEDY_BY_NOUN[model.noun])
    sets = sets or tests.read()
    if oov:
        check_ngrams(names, loaded, vectors)
    scores_by_model = [_scores_with_pooled(model, sets, progress, oov) for model in loaded]

    scores = []
    differences = []
    for scores_of_test in zip(*scores_by_model, strict=True):
        for name, item_scores in zip(names, scores_of_test, strict=True):
            scores.append(summary(name, item_scores, tests.seed))
        if others:
            side_a = scores_of_test[: len(models)]
            side_b = scores_of_test[len(models) :]
            differences.append(paired_difference(side_a, side_b, tests.seed))
    return Report(
        models=names,
        scores=scores,
        differences=differences,
        warnings=[warning for score in scores for warning in coverage_warnings(score)],
        seed=tests.seed,
        protocol=tests.protocol,
        vectors=vectors,
        n_first=len(models),
    )


def _scores_with_pooled(
    model: WordVectors, sets: Sequence[TestSet], progress: Progress, oov: bool
) -> list[ItemScores]:
    """The item scores of each set, and of the similarity sets together if there are several."""
    scores = score_items(model, sets, progress, oov)
    together = pooled(scores)
    if together is not None:
        scores.append(together)
    return scores


def name_of(model: Model) -> str:
    """What a report calls a model: its path, if it has one."""
    if isinstance(model, WordVectors):
        return str(model.facts.get("source", "model"))
    return str(model)


def opened(model: Model, vectors: str, progress: Progress, trust_pickle: bool) -> WordVectors:
    """A model with the vectors that are scored."""
    if not isinstance(model, WordVectors):
        model = load(model, progress, trust_pickle)
    return model.of(vectors)


def check_ngrams(names: Sequence[str], models: Sequence[WordVectors], vectors: str) -> None:
    """Raise `SettingError` if no model has n-grams, from which unknown words get their vectors."""
    if vectors != VECTORS[0]:
        because = ", because n-grams have input vectors alone"
        problem: Text = ("does not apply with ", Setting("vectors", vectors), because)
        raise InapplicableError("oov", None, problem, "leave one of the two out")
    if any(model.subwords for model in models):
        return
    problem = f"{' and '.join(names)} without n-grams"
    raise SettingError("oov", None, problem, ("train with ", Setting("subwords", "3-6")))


def matching(patterns: Sequence[Model]) -> list[WordVectors | str]:
    """The models and paths, in order; a pattern is replaced by the paths that match it."""
    models: list[WordVectors | str] = []
    for pattern in patterns:
        if isinstance(pattern, WordVectors):
            models.append(pattern)
            continue
        name = str(pattern)
        is_pattern = glob.has_magic(name) and not os.path.exists(name)
        paths = sorted(glob.glob(name)) if is_pattern else [name]
        if not paths:
            remedy = "check the pattern with ls, and quote it"
            raise SettingError("against", name, "no file or model folder matches", remedy)
        models += paths
    return models


def summary(name: str, item_scores: ItemScores, seed: int) -> TestScore:
    """The score of a model on a test."""
    test = item_scores.test
    n_used = int(np.count_nonzero(item_scores.used))
    interval = (math.nan, math.nan)
    if n_used >= MIN_ITEMS:
        scored = item_scores.scored(seed=seed)
        estimate = statistics.Estimate(scored.value, (scored.item_error(),))
        low = -1.0 if test.measure == "spearman" else 0.0
        interval = estimate.interval(low, 1.0)
    return TestScore(
        test=test.name,
        model=name,
        measure=test.measure,
        score=item_scores.score,
        interval=interval,
        used=n_used,
        total=len(test),
        restrict_vocab=test.restrict_vocab,
        details=item_scores.details,
    )


def coverage_warnings(score: TestScore) -> list[str]:
    """A warning if the vocabulary covers too few items for the score to mean much."""
    if score.test == POOLED:  # whose sets have warnings
        return []
    if score.used < MIN_ITEMS:
        return [
            f"{score.model}: nothing to score on {score.test}, its vocabulary covers {score.used}"
            f" of {score.total:,} items; a score needs {MIN_ITEMS}"
        ]
    if math.isnan(score.score):
        return [
            f"{score.model}: no score on {score.test}, because the {score.used:,} pairs in the"
            " vocabulary have equal scores"
        ]
    if 2 * score.used >= score.total:
        return []
    return [
        f"{score.model}: the score on {score.test} rests on {score.used:,} of {score.total:,}"
        " items, the vocabulary lacks the others"
    ]

"""Word vectors scored on test sets: similarity of word pairs, analogies, categories and outliers.

The protocol is printed with every score; `embedx.evaluation.protocols` has the alternatives:

    case          ignored: words are folded to upper case, and of several variants the most frequent one counts
    unknown       an item with a word outside the vocabulary is left out, and counted; with `oov`, a pair is scored by the
                  vectors that such words have by their n-grams, in lower case where no word of the vocabulary has capitals
    candidates    similarity knows the first 300,000 words; analogies know, and answer with, the first 30,000
    similarity    Spearman's rank correlation of cosines with the mean human score
    analogy       a : b = c : ?  answered by 3CosAdd, the word nearest to b - a + c other than a, b and c
    pooled        the mean of the correlations of several similarity sets, each weighted by its pairs: one number whose error is
                  about half of one set's; a set that is a part of another does not count, as the two halves of WordSim-353
                  and MC-30, all of which is in RG-65

Each score has a 95 % interval; see `embedx.evaluation.statistics` for what it covers.
"""

import contextlib
import dataclasses
import glob
import itertools
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.evaluation import protocols, statistics
from embedx.evaluation.groups import folded
from embedx.evaluation.with_gensim import gensim_quietly, keyed_vectors
from embedx.evaluation.word_report import Report, Score, ScoreDifference
from embedx.evaluation.word_sets import (
    MIN_ITEMS,
    Answers,
    PooledPairs,
    SimilarityPairs,
    TestSet,
    default_tests,
    read_analogies,
    read_categories,
    read_outliers,
    read_pairs,
)
from embedx.training.progress import Progress, Silent
from embedx.vectors import model
from embedx.vectors.formats.gensim import open_trusted
from embedx.vectors.model import WordVectors

# ---- scoring a model


def score(
    vectors: "WordVectors | Any",
    tests: Sequence[TestSet] | None = None,
    progress: Progress | None = None,
    protocol: str = "embedx",
    oov: bool = False,
) -> list[Answers]:
    """The answers of `vectors`, ours or gensim's KeyedVectors, to each test, as `protocols.prepared` returns it.

    tests  the default ones if None
    oov    whether pairs with words outside the vocabulary are scored by their n-grams
    """
    tests = default_tests() if tests is None else tests
    protocols.check(protocol)
    limit = max(test.candidates for test in tests)
    words = vectors.words if isinstance(vectors, WordVectors) else vectors.index_to_key
    keyed = keyed_vectors([str(word) for word in words[:limit]], vectors.vectors[:limit])
    with gensim_quietly():
        return [
            score_unseen(vectors, test, protocol, progress or Silent())
            if oov and isinstance(test, SimilarityPairs) and isinstance(vectors, WordVectors) and vectors.subwords is not None
            else protocols.ask(protocol, test, keyed, progress or Silent())
            for test in tests
        ]


def score_unseen(vectors: WordVectors, test: SimilarityPairs, protocol: str, progress: Progress) -> Answers:
    """The answers to a list of pairs where words outside the vocabulary have the vectors of their n-grams."""
    words = vectors.words[: test.candidates]
    known, has_capitals = folded(words), any(word != word.lower() for word in words)
    extra: dict[str, np.ndarray] = {}
    for word in dict.fromkeys(itertools.chain.from_iterable(test.words)):
        if word.upper() not in known:
            with contextlib.suppress(model.UnknownWordError):
                extra[word] = vectors[word if has_capitals else word.lower()]
    table = vectors.vectors[: test.candidates]
    if extra:
        table = np.concatenate([table, np.array(list(extra.values()), np.float32)])
    wider = dataclasses.replace(test, candidates=len(words) + len(extra))
    answers = protocols.ask(protocol, wider, keyed_vectors([*words, *extra], table), progress)
    return dataclasses.replace(answers, test=test)


def pooled(answers: Sequence[Answers]) -> Answers | None:
    """The answers to all similarity sets together; None if there are fewer than two sets."""
    sets = [(each.test, each) for each in answers if isinstance(each.test, SimilarityPairs)]
    pairs = [{frozenset(map(str.upper, words)) for words in test.words} for test, _ in sets]
    # A set counts unless another holds all its pairs; of two with the same pairs the first does.
    is_part = [any(mine < other or (mine == other and j < k) for j, other in enumerate(pairs)) for k, mine in enumerate(pairs)]
    kept = [each for each, is_in_another in zip(sets, is_part, strict=True) if not is_in_another]
    if len(kept) < 2:
        return None
    values = [
        each.values if np.count_nonzero(each.used) >= MIN_ITEMS else np.full(len(each.values), np.nan) for _, each in kept
    ]
    test = PooledPairs([test for test, _ in kept])
    together = Answers(test, np.concatenate(values), math.nan, {"sets": [test.name for test, _ in kept]})
    if np.count_nonzero(together.used) < MIN_ITEMS:
        return together
    return dataclasses.replace(together, score=together.scored(resamples=1).value)


def open_vectors(
    path: str | Path, progress: Progress, trust_pickle: bool = False, which: str = model.VECTORS[0]
) -> "WordVectors | Any":
    """The word vectors of a file or folder that `embedx.vectors.model.load` reads, `which` as in `WordVectors.of`.

    With `trust_pickle` also those of gensim's own files, which are pickles: opening one runs whatever code is in it.
    """
    if trust_pickle and os.path.isfile(path):
        with Path(path).open("rb") as file:
            pickled = file.read(1) == b"\x80"
        if pickled:
            if which != model.VECTORS[0]:
                raise EmbedxError(f"{path}: --vectors {which} needs a model folder; gensim's own files are taken as they are")
            with gensim_quietly():
                return open_trusted(path)
    return model.load(path, progress).of(which)


# ---- comparing


def paired_difference(a: Sequence[Answers], b: Sequence[Answers], seed: int = 0) -> ScoreDifference:
    """The score of `a` minus that of `b` on one test; each side is one model, or the same one trained with several seeds.

    Only items that every model can score count. A side's score is the mean of its models' scores: for pairs the mean of the
    models' Spearman correlations (not the correlation of mean cosines, which would be that of an ensemble). The interval
    includes the variance between the models of a side where a side has several.
    """
    test = a[0].test
    items = np.logical_and.reduce([answers.used for answers in [*a, *b]])
    if isinstance(test, PooledPairs):
        items = np.concatenate([part & (np.count_nonzero(part) >= MIN_ITEMS) for part in test.parts(items)])
    shared, runs = int(np.count_nonzero(items)), (len(a), len(b))
    if shared < MIN_ITEMS:
        return ScoreDifference(test.name, test.measure, math.nan, (math.nan, math.nan), shared, runs)
    ours, theirs = ([each.scored(items, seed) for each in side] for side in (a, b))
    found = statistics.difference(ours, theirs, statistics.between_seeds([ours, theirs]))
    assert found is not None
    return ScoreDifference(test.name, test.measure, found.value, found.interval(), shared, runs)


def evaluate(
    model_path: str | Path,
    other_path: str | Path | None = None,
    *,
    runs: Sequence[str | Path] = (),
    against: Sequence[str | Path] = (),
    pairs: Sequence[Path] = (),
    analogies: Path | None = None,
    categories: Sequence[Path] = (),
    outliers: Sequence[Path] = (),
    protocol: str = "embedx",
    method: str | None = None,
    candidates: int | None = None,
    which: str = model.VECTORS[0],
    oov: bool = False,
    seed: int = 0,
    trust_pickle: bool = False,
    progress: Progress | None = None,
) -> Report:
    """Score one model, or two with the difference between them, on the files given; without any, on the default tests.

    runs        further models like the first, from other seeds; with `against`, models of another configuration, what is
                compared is the mean over the runs of each
    protocol    one of `embedx.evaluation.protocols`
    method      3cosadd or 3cosmul, for analogies
    candidates  how many words, from the most frequent, analogies are restricted to; by default the protocol's
    which       the vectors: "input", "output" or "sum", see `WordVectors.of`
    oov         score pairs with words outside the vocabulary too, by the n-grams of a model that has such
    seed        of the resampling and of the clustering; the same for all models
    trust_pickle  see `open_vectors`
    """
    protocols.check(protocol)
    own = [model_path, *runs]
    others = [each for each in (other_path, *matching(against)) if each is not None]
    if runs and not others:
        raise EmbedxError(
            "three models or more are two configurations, each with several seeds: name the models of the second by --against, "
            "which takes patterns such as 'b.*.embedx'"
        )
    progress = progress or Silent()
    tests: list[TestSet] = [read_pairs(Path(path)) for path in pairs]
    if analogies is not None:
        tests.append(read_analogies(Path(analogies)))
    tests += [dataclasses.replace(read_categories(Path(path)), seed=seed) for path in categories]
    tests += [read_outliers(Path(path)) for path in outliers]
    if not tests:
        tests = default_tests()
    tests = protocols.prepared(protocol, tests, candidates, method)
    paths = [*own, *others]
    models = [open_vectors(path, progress, trust_pickle, which) for path in paths]
    if oov and protocol != "embedx":
        raise EmbedxError(f"--oov: --protocol {protocol} scores words of the vocabulary alone; leave out one of them")
    if oov and not any(getattr(each, "subwords", None) for each in models):
        raise EmbedxError(f"--oov: {' and '.join(map(str, paths))} without n-grams; train with --subwords 3-6")
    answers = [score(each, tests, progress, protocol, oov) for each in models]
    together = [pooled(each) for each in answers]
    answers = [[*each, last] if last else each for each, last in zip(answers, together, strict=True)]
    scores, notes = [], []
    for each in zip(*answers, strict=True):
        for path, answer in zip(paths, each, strict=True):
            scores.append(summary(str(path), answer, seed))
            notes += coverage(str(path), answer)
    differences = []
    if others:
        n = len(own)
        differences = [paired_difference(each[:n], each[n:], seed) for each in zip(*answers, strict=True)]
    names = [str(path) for path in paths]
    return Report(names, scores, differences, notes, seed, protocol, which, len(own))


def matching(patterns: Sequence[str | Path]) -> list[str]:
    """The paths, in order, with those in place of a pattern that match it."""
    found: list[str] = []
    for each in map(str, patterns):
        paths = [each] if os.path.exists(each) else sorted(glob.glob(each))
        if not paths:
            raise EmbedxError(f"--against {each}: no such file or model folder")
        found += paths
    return found


def summary(path: str, answers: Answers, seed: int) -> Score:
    test, used = answers.test, int(np.count_nonzero(answers.used))
    ends = (math.nan, math.nan)
    if used >= MIN_ITEMS:
        found = answers.scored(seed=seed)
        low = -1.0 if test.measure == "spearman" else 0.0
        ends = statistics.Estimate(found.value, (found.item_error(),)).interval(low, 1.0)
    return Score(test.name, path, test.measure, answers.score, ends, used, len(test), test.candidates, answers.details)


def coverage(path: str, answers: Answers) -> list[str]:
    """A warning if the vocabulary covers too few items for the score to mean much."""
    used, total = int(np.count_nonzero(answers.used)), len(answers.test)
    if isinstance(answers.test, PooledPairs):
        return []  # there are warnings for its sets
    if used < MIN_ITEMS:
        return [f"{path}: nothing to score on {answers.test.name}, its vocabulary covers {used} of {total:,} items"]
    if 2 * used < total:
        return [
            f"{path}: the score on {answers.test.name} rests on {used:,} of {total:,} items, the vocabulary lacks the others"
        ]
    return []

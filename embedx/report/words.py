"""The page of word vectors: scores, nearest words and a map."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2

from embedx import objectives
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves, words as evaluation
from embedx.evaluation.word_report import Report
from embedx.evaluation.word_sets import WordTests
from embedx.pages.charts import N_COLOURS
from embedx.report import projection
from embedx.report.numbers import number_rows
from embedx.report.settings import ReportSettings
from embedx.runtime.progress import Progress
from embedx.skipgram.configuration import configure
from embedx.vectors.model import WordVectors

MIN_WORDS_ON_MAP = 3
# words that name a cluster
N_CENTRAL = 3

# by word: its nearest words with their cosines
Neighbours = Mapping[str, Sequence[tuple[str, float]]]


def drawn_rows(n_words: int, n: int, seed: int) -> np.ndarray:
    """Different rows below n_words, int64, sorted.

    They are drawn evenly over the logarithm of the rank, so that frequent and rare words are among
    them.
    """
    rng = np.random.default_rng(seed)
    rank = np.arange(n_words)
    share = np.log1p(1 / (rank + 1))
    rows = rng.choice(n_words, min(n, n_words), replace=False, p=share / share.sum())
    return np.sort(rows).astype(np.int64)


def scores_of(
    models: Sequence[Path], tests: WordTests, progress: Progress
) -> tuple[Report | None, str]:
    """The scores of one model, or of two with their differences; or None, and why there are none.

    tests  the test sets; where it names none, the packaged ones
    """
    try:
        return evaluation.evaluate(models[:1], models[1:], tests, progress=progress), ""
    except EmbedxError as error:
        # without test sets of the user, gensim is missing, which has the packaged ones
        if tests.pairs or tests.analogies is not None:
            raise
        return None, str(error)


def findings(
    vectors: WordVectors,
    model: Path,
    settings: ReportSettings,
    tests: WordTests,
    progress: Progress,
) -> dict[str, Any]:
    """What the page of word vectors shows, for its template.

    Raises `EmbedxError` for unknown words or projections.
    """
    objectives.check_packages(model, vectors.facts, vectors.settings)
    values = neighbours_and_map(vectors, settings, progress)
    values |= about_scores([model], tests, progress)

    facts = vectors.facts
    # the defaults of walks are others
    walks = {name: vectors.settings[name] for name in ("walks",) if vectors.settings.get(name)}
    defaults = configure(
        facts.get("objective"), walks, is_collapsed=facts.get("collapsed", False)
    ).record()
    values["defaults"] = {name: v for name, v in defaults.items() if name not in walks}
    values["key_figures"] = {
        "words": f"{len(vectors):,}",
        "dimension": vectors.vectors.shape[1],
    }
    values["curve_of"] = {"held-out log-likelihood": learning_curves.heldout_points(facts)}
    values["heldout"] = None
    if facts.get("heldout"):
        values["heldout"] = number_rows("held-out text", facts["heldout"])
    return values


def neighbours_and_map(
    vectors: WordVectors, settings: ReportSettings, progress: Progress
) -> dict[str, Any]:
    """The tables of nearest words and the map, for the template."""
    method = projection.chosen(settings.projection)
    for word in settings.chosen_words:
        # raises for an unknown word
        vectors.index(word)
    rows = drawn_rows(len(vectors), settings.random_words, settings.seed)
    random_words = [vectors.words[row] for row in rows]
    on_map = vectors.words[: settings.map_words]
    if len(on_map) < MIN_WORDS_ON_MAP:
        on_map = []

    words = list(dict.fromkeys([*settings.chosen_words, *random_words, *on_map]))
    near = dict(zip(words, vectors.most_similar_batch(words, settings.nearest), strict=True))

    values: dict[str, Any] = {"map": None}
    if on_map:
        progress.note(f"map of {len(on_map):,} words by {projection.NAMES[method]}")
        points = np.array(vectors.vectors[: len(on_map)])
        places = projection.project(points, method, settings.seed)
        values["map"] = map_data(vectors, on_map, near, places, settings.seed)
        values["projection"] = projection.NAMES[method]

    listed = {
        "Nearest words": settings.chosen_words,
        "Nearest words of random words": random_words,
    }
    values["neighbours"] = {
        title: neighbour_rows(vectors, some_words, near)
        for title, some_words in listed.items()
        if some_words
    }
    return values


def about_scores(models: Sequence[Path], tests: WordTests, progress: Progress) -> dict[str, Any]:
    """Scores, warnings and analogies by section, or why there are none, for the template."""
    scores, reason = scores_of(models, tests, progress)
    if scores is None:
        return {"scores": None, "no_scores": reason, "warnings": [], "sections": {}}
    return {
        "scores": scores.rows(),
        "no_scores": reason,
        "warnings": [warning.partition(": ")[2] or warning for warning in scores.warnings],
        "sections": sections_of(scores),
    }


def sections_of(scores: Report) -> dict[str, list[list[str]]]:
    """The analogies of each test by section."""
    tables = {}
    for score in scores.scores:
        rows = [["section", "right", "used", "accuracy %"]]
        for name, section in (score.details.get("sections") or {}).items():
            correct = section["correct"]
            used = section["used"]
            if used:
                rows.append([name, f"{correct:,}", f"{used:,}", f"{100 * correct / used:.1f}"])
        if len(rows) > 1:
            tables[score.test] = rows
    return tables


def neighbour_rows(vectors: WordVectors, words: Sequence[str], near: Neighbours) -> list[list[str]]:
    """A row for each word: its nearest words, its rank by frequency, its count."""
    rows = [["word", "nearest words", "rank", "count"]]
    for word in words:
        row = vectors.index(word)
        nearest = ", ".join(f"{other} ({cosine:.2f})" for other, cosine in near[word])
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        rows.append([word, nearest, f"{row + 1:,}", count])
    return rows


def map_data(
    vectors: WordVectors, on_map: Sequence[str], near: Neighbours, places: np.ndarray, seed: int
) -> dict[str, Any]:
    """The map as its script reads it.

    words                those on the map first, then their other neighbours, which lie between the
                         words of the map that are nearest to them
    n, counts            number of words on the map, and their counts
    x, y                 coordinates of all words
    k                    neighbours of a word
    neighbours, cosines  of the words on the map in turn: places in `words`, and cosines
    clusters, central    by k-means: the cluster of each word on the map, and the most central words
                         of each cluster
    """
    neighbours = [neighbour for word in on_map for neighbour in near[word]]
    words = list(dict.fromkeys([*on_map, *(word for word, _ in neighbours)]))
    place_of_word = {word: place for place, word in enumerate(words)}
    n = len(on_map)

    unit = np.array(vectors.vectors[[vectors.index(word) for word in words]], np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    all_places = np.concatenate([places, projection.between(unit[:n], places, unit[n:])])
    x, y = all_places.round(4).T.tolist()

    centres, cluster = kmeans2(unit[:n], min(N_COLOURS, n), minit="++", seed=seed)
    return {
        "words": words,
        "n": n,
        "k": len(neighbours) // n,
        "counts": [] if vectors.counts is None else vectors.counts[:n].tolist(),
        "x": x,
        "y": y,
        "neighbours": [place_of_word[word] for word, _ in neighbours],
        "cosines": [round(cosine, 3) for _, cosine in neighbours],
        "clusters": cluster.tolist(),
        "central": central_words(words, unit[:n], centres, cluster),
    }


def central_words(
    words: Sequence[str], unit: np.ndarray, centres: np.ndarray, cluster: np.ndarray
) -> list[list[str]]:
    """The words of each cluster that are nearest to its centre, at most N_CENTRAL.

    unit     float32 (n, dim): vectors of length 1 of the first n words
    centres  float32 (clusters, dim)
    cluster  int32 (n,): of each word
    """
    # cosines are at most 1: 2 puts words of other clusters last
    is_other = cluster[:, None] != np.arange(len(centres))
    order = np.argsort(-(unit @ centres.T) + 2 * is_other, axis=0)
    sizes = np.bincount(cluster, minlength=len(centres)).tolist()
    return [
        [words[row] for row in order[: min(size, N_CENTRAL), k]] for k, size in enumerate(sizes)
    ]

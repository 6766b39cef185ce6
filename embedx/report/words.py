"""The page of word vectors: scores, nearest words and a map."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.cluster.vq import kmeans2

from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves, words as evaluation
from embedx.evaluation.word_report import Report
from embedx.evaluation.word_sets import WordTests
from embedx.pages.charts import N_COLOURS
from embedx.report import projection
from embedx.report.settings import ReportSettings
from embedx.skipgram.configuration import configure
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors

MIN_ON_MAP = 3  # words

Neighbours = Mapping[str, Sequence[tuple[str, float]]]  # of words: their nearest words with cosines


def drawn_rows(n_words: int, n: int, seed: int) -> np.ndarray:
    """Different rows below n_words, evenly over the logarithm of the rank, so that frequent and
    rare words are among them; int64, sorted.
    """
    rng = np.random.default_rng(seed)
    rank = np.arange(n_words)
    share = np.log1p(1 / (rank + 1))
    return np.sort(
        rng.choice(n_words, min(n, n_words), replace=False, p=share / share.sum())
    ).astype(np.int64)


def scores_of(
    models: Sequence[Path], pairs: Sequence[Path], analogies: Path | None, progress: Progress
) -> tuple[Report | None, str]:
    """The scores on the test sets given, else on the packaged ones, as `embedx eval` has them, of
    two models with the differences; or why there are none.
    """
    try:
        return (
            evaluation.evaluate(
                models[:1], models[1:], WordTests(pairs, analogies), progress=progress
            ),
            "",
        )
    except EmbedxError as error:
        if pairs or analogies is not None:
            raise
        return None, str(error)  # gensim is not to be had


def findings(
    vectors: WordVectors,
    model: Path,
    settings: ReportSettings,
    pairs: Sequence[Path],
    analogies: Path | None,
    progress: Progress,
) -> dict[str, Any]:
    """What the page of word vectors shows, for its template. Raises `EmbedxError` for unknown words
    or projections.
    """
    name = projection.chosen(settings.projection)
    for word in settings.chosen_words:
        vectors.index(word)  # refuses unknown words
    drawn = [
        vectors.words[row] for row in drawn_rows(len(vectors), settings.random_words, settings.seed)
    ]
    on_map = vectors.words[: settings.map_words]
    on_map = on_map if len(on_map) >= MIN_ON_MAP else []
    words = list(dict.fromkeys([*settings.chosen_words, *drawn, *on_map]))
    near = dict(zip(words, vectors.most_similar_batch(words, settings.nearest), strict=True))
    shown: dict[str, Any] = {"map": None}
    if on_map:
        progress.note(f"map of {len(on_map):,} words by {projection.NAMES[name]}")
        places = projection.project(np.array(vectors.vectors[: len(on_map)]), name, settings.seed)
        shown |= {
            "map": map_data(vectors, on_map, near, places, settings.seed),
            "projection": projection.NAMES[name],
        }
    listed = {"Nearest words": settings.chosen_words, "Nearest words of random words": drawn}
    shown["neighbours"] = {
        title: neighbour_rows(vectors, some, near) for title, some in listed.items() if some
    }
    scores, why = scores_of([model], pairs, analogies, progress)
    facts = vectors.facts
    held = facts.get("heldout") or {}
    held_rows = [
        ["held-out text", "value"],
        *([fact.replace("_", " "), number(value)] for fact, value in held.items()),
    ]
    return shown | {
        "defaults": (
            configure(
                facts.get("objective"), {}, is_collapsed=facts.get("collapsed", False)
            ).record()
        ),
        "key_figures": {"words": f"{len(vectors):,}", "dimension": vectors.vectors.shape[1]},
        "curve_of": {"held-out log-likelihood": learning_curves.heldout_points(vectors.facts)},
        "scores": scores.rows() if scores else None,
        "no_scores": why,
        "warnings": (
            [warning.partition(": ")[2] or warning for warning in scores.warnings] if scores else []
        ),
        "sections": sections_of(scores) if scores else {},
        "heldout": held_rows if held else None,
    }


def sections_of(scores: Report) -> dict[str, list[list[str]]]:
    """The analogies of each test by section."""
    found = {}
    for score in scores.scores:
        used = {
            name: each
            for name, each in (score.details.get("sections") or {}).items()
            if each["used"]
        }
        rows = [
            [
                name,
                f"{each['correct']:,}",
                f"{each['used']:,}",
                f"{100 * each['correct'] / each['used']:.1f}",
            ]
            for name, each in used.items()
        ]
        if rows:
            found[score.test] = [["section", "right", "used", "accuracy %"], *rows]
    return found


def number(value: Any) -> str:
    """A count, or a number with four decimals."""
    if not isinstance(value, int | float) or not math.isfinite(value):
        return "–"
    return f"{value:,}" if isinstance(value, int) else f"{value:.4f}"


def neighbour_rows(vectors: WordVectors, words: Sequence[str], near: Neighbours) -> list[list[str]]:
    """A row for each word: its nearest words, its rank by frequency, its count."""
    rows = [["word", "nearest words", "rank", "count"]]
    for word in words:
        row = vectors.index(word)
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        rows.append(
            [
                word,
                ", ".join(f"{other} ({cosine:.2f})" for other, cosine in near[word]),
                f"{row + 1:,}",
                count,
            ]
        )
    return rows


def map_data(
    vectors: WordVectors, on_map: Sequence[str], near: Neighbours, places: np.ndarray, seed: int
) -> dict[str, Any]:
    """The map as its script reads it: `words`, those on the map first, then other neighbours, which
    lie between the words of the map that are nearest to them; `n` that are on the map, with
    `counts`, coordinates `x` and `y`, and of each its `k` neighbours by their place in `words`,
    with their cosines; `clusters` by k-means, named by their most central words.
    """
    found = [each for word in on_map for each in near[word]]
    words = list(dict.fromkeys([*on_map, *(word for word, _ in found)]))
    place = {word: k for k, word in enumerate(words)}
    n, unit = (
        len(on_map),
        np.array(vectors.vectors[[vectors.index(word) for word in words]], np.float32),
    )
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    x, y = (
        np.concatenate([places, projection.between(unit[:n], places, unit[n:])]).round(4).T.tolist()
    )
    centres, cluster = kmeans2(unit[:n], min(N_COLOURS, n), minit="++", seed=seed)
    central = np.argsort(
        -(unit[:n] @ centres.T) + 2 * (cluster[:, None] != np.arange(len(centres))), axis=0
    )
    sizes = np.bincount(cluster, minlength=len(centres)).tolist()
    return {
        "words": words,
        "n": n,
        "k": len(found) // n,
        "counts": [] if vectors.counts is None else vectors.counts[:n].tolist(),
        "x": x,
        "y": y,
        "neighbours": [place[word] for word, _ in found],
        "cosines": [round(cosine, 3) for _, cosine in found],
        "clusters": cluster.tolist(),
        "central": [[words[i] for i in central[: min(size, 3), k]] for k, size in enumerate(sizes)],
    }

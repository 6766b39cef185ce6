"""The page of word vectors: scores, nearest words and a map."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves
from embedx.evaluation import words as evaluation
from embedx.evaluation.learning_curves import Points
from embedx.evaluation.word_report import Report
from embedx.evaluation.word_sets import WordTests
from embedx.report import projection
from embedx.report.settings import ReportSettings
from embedx.storage.schema import row_blocks
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors

BLOCK_FLOATS = 1 << 23  # cosines computed at a time: 32 MB
MAP_UNITS = 10_000  # of a coordinate: finer than any screen
COSINE_UNITS = 1000
MIN_ON_MAP = 3  # words


@dataclass(frozen=True)
class Nearest:
    """The words nearest to some words."""

    rows: np.ndarray  # int64 (n,): of these words
    neighbours: np.ndarray  # int64 (n, k): the nearest to each, the nearest first, without itself
    cosines: np.ndarray  # float32 (n, k)


def nearest(vectors: np.ndarray, rows: np.ndarray, k: int, progress: Progress) -> Nearest:
    """The k rows of the largest cosine to each of `rows`, of equal ones the first.

    vectors  float32 (n, dim); `rows` int64 (m,)
    """
    norms = np.concatenate([np.linalg.norm(block, axis=1) for block in row_blocks(vectors)])
    norms[norms == 0] = 1
    k = min(k, len(vectors) - 1)
    ids, cosines = np.zeros((len(rows), k), np.int64), np.zeros((len(rows), k), np.float32)
    step = max(1, BLOCK_FLOATS // len(vectors))
    progress.start("nearest words", len(rows), " words")
    for start in range(0, len(rows) if k else 0, step):
        own = rows[start : start + step]
        block = (vectors[own] / norms[own, None]) @ vectors.T / norms
        block[np.arange(len(own)), own] = -np.inf
        best = np.sort(np.argpartition(-block, k - 1, axis=1)[:, :k], axis=1)
        values = np.take_along_axis(block, best, axis=1)
        order = np.argsort(-values, axis=1, kind="stable")
        ids[start : start + step] = np.take_along_axis(best, order, axis=1)
        cosines[start : start + step] = np.take_along_axis(values, order, axis=1)
        progress.update(start + len(own))
    progress.finish()
    return Nearest(rows, ids, cosines)


def drawn_rows(n_words: int, n: int, seed: int) -> np.ndarray:
    """Different rows below n_words, evenly over the logarithm of the rank, so that frequent and rare words are among them;
    int64, sorted.
    """
    rng = np.random.default_rng(seed)
    rank = np.arange(n_words)
    share = np.log1p(1 / (rank + 1))
    return np.sort(rng.choice(n_words, min(n, n_words), replace=False, p=share / share.sum())).astype(np.int64)


def scores_of(model: Path, pairs: Sequence[Path], analogies: Path | None, progress: Progress) -> tuple[Report | None, str]:
    """The scores on the test sets given, else on the packaged ones, as `embedx eval` has them; or why there are none."""
    try:
        return evaluation.evaluate([model], (), WordTests(pairs, analogies), progress=progress), ""
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
    """What the page of word vectors shows, for its template. Raises `EmbedxError` for unknown words or projections."""
    name = projection.chosen(settings.projection)
    chosen = np.array([vectors.index(word) for word in settings.chosen_words], np.int64)
    drawn = drawn_rows(len(vectors), settings.random_words, settings.seed)
    on_map = min(settings.map_words, len(vectors))
    on_map = on_map if on_map >= MIN_ON_MAP else 0
    rows = np.concatenate([chosen, drawn, np.arange(on_map)])
    found = nearest(vectors.vectors, rows, settings.nearest, progress)
    ends = np.cumsum([len(chosen), len(drawn)])
    parts = [Nearest(*each) for each in zip(*(np.split(array, ends) for array in vars(found).values()), strict=True)]
    shown: dict[str, Any] = {"map": None, "map_about": ""}
    if on_map:
        progress.note(f"map of {on_map:,} words by {projection.NAMES[name]}")
        places = projection.project(np.array(vectors.vectors[:on_map]), name, settings.seed)
        shown["map"] = map_data(vectors, parts[2], places)
        shown["map_about"] = (
            f"The {on_map:,} most frequent words, in the plane by {projection.NAMES[name]} of the directions of their vectors. "
            "Distances in the plane are approximate: those listed beside the map are true cosines."
        )
    titles = zip(("Nearest words", "Nearest words of random words"), parts, strict=False)
    shown["neighbours"] = {title: neighbour_rows(vectors, part) for title, part in titles if len(part.rows)}
    scores, why = scores_of(model, pairs, analogies, progress)
    held = vectors.facts.get("heldout")
    has_heldout = isinstance(held, dict) and held.get("log_likelihood") is not None
    return shown | {
        "scores": scores.rows() if scores else None,
        "no_scores": why,
        "warnings": [warning.partition(": ")[2] or warning for warning in scores.warnings] if scores else [],
        "sections": sections_of(scores) if scores else {},
        "heldout": [["held-out text", "value"], *([k.replace("_", " "), number(v)] for k, v in (held or {}).items())]
        if has_heldout
        else None,
    }


def curves(facts: Mapping[str, Any]) -> dict[str, Points]:
    """The curves that the page of word vectors shows."""
    return {"held-out log-likelihood": learning_curves.heldout_points(facts)}


def sections_of(scores: Report) -> dict[str, list[list[str]]]:
    """The analogies of each test by section."""
    found = {}
    for score in scores.scores:
        used = {name: each for name, each in (score.details.get("sections") or {}).items() if each["used"]}
        rows = [
            [name, f"{each['correct']:,}", f"{each['used']:,}", f"{100 * each['correct'] / each['used']:.1f}"]
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


def neighbour_rows(vectors: WordVectors, near: Nearest) -> list[list[str]]:
    """A row for each word: its nearest words, its rank by frequency, its count."""
    rows = [["word", "nearest words", "rank", "count"]]
    for row, neighbours, cosines in zip(near.rows, near.neighbours, near.cosines, strict=True):
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        found = zip(neighbours, cosines, strict=True)
        named = ", ".join(f"{vectors.words[k]} ({cosine:.2f})" for k, cosine in found)
        rows.append([vectors.words[row], named, f"{row + 1:,}", count])
    return rows


def map_data(vectors: WordVectors, found: Nearest, places: np.ndarray) -> dict[str, Any]:
    """The map as its script reads it: `words`, those on the map first, then other neighbours; `n` that are on the map, with
    `counts`, coordinates `x` and `y`, and of each its `k` neighbours by their place in `words`, with their cosines.
    """
    others = np.setdiff1d(found.neighbours, found.rows)
    rows = np.concatenate([found.rows, others])
    place = dict(zip(rows.tolist(), range(len(rows)), strict=True))
    x, y = np.rint(MAP_UNITS * places).astype(int).T.tolist()
    counts = [] if vectors.counts is None else vectors.counts[found.rows].tolist()
    return {
        "words": [vectors.words[row] for row in rows.tolist()],
        "n": len(found.rows),
        "k": found.neighbours.shape[1],
        "units": MAP_UNITS,
        "cosine_units": COSINE_UNITS,
        "counts": counts,
        "x": x,
        "y": y,
        "neighbours": [place[row] for row in found.neighbours.ravel().tolist()],
        "cosines": np.rint(COSINE_UNITS * found.cosines).astype(int).ravel().tolist(),
    }

"""Scores of item vectors: the last item of each session, predicted from those before it."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int32, ndarray
from scipy.sparse import coo_matrix, csr_matrix

from embedx.errors import DataError, counted
from embedx.runtime.progress import Progress, Silent
from embedx.text.session_items import row_of_item, sessions_of_file
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.vectors.model import WordVectors
from embedx.vectors.model_folder import MAX_SOURCES
from embedx.vectors.next_item import history_weights, mean_of_history, next_item_scores

# Items at the top of a ranking that count as hits.
TOP = 10
# Standard errors on either side of a mean.
INTERVAL = 1.96
# Scores of items computed at a time: 128 MB.
BLOCK_FLOATS = 1 << 25

Row = dict[str, Any]


def read_sessions(
    words: Sequence[str], file: str, progress: Progress
) -> tuple[csr_matrix, ndarray]:
    """The sessions of a file whose last item and one before it are among `words`.

    The other sessions are counted. Returns the weights of the items before the last, see
    `history_weights`, and the last items, int64 (n,).
    """
    row_of_word = {word: row for row, word in enumerate(words)}
    before_last = []
    last = []
    n_excluded = 0
    for items in sessions_of_file(file, progress):
        if not items:
            continue
        rows = [row_of_item(item, row_of_word) for item in items]
        known = [row for row in rows[:-1] if row is not None]
        if known and rows[-1] is not None:
            before_last.append(known)
            last.append(rows[-1])
        else:
            n_excluded += 1

    if len(last) < 2:
        problem = f"{counted(len(last), 'session')} of known items"
        remedy = "give two or more, one a line, items between tabs or blanks"
        raise DataError(file, None, problem, remedy)
    if n_excluded:
        progress.note(
            f"{file}: left out: {counted(n_excluded, 'session')} whose last item, or all before it,"
            " have no vector"
        )

    return history_weights(before_last, len(words)), np.array(last)


def next_item(model: WordVectors, file: str, progress: Progress) -> list[Row]:
    """HR@10, NDCG@10 and MRR of each session's last item among all items, by those before it.

    `vectors` is the ranking of `next_item_measures`; `popularity` goes by counts, if the model has
    them; `co-occurrence` by how often items are within the model's window of the last item in the
    sessions that it was trained on, if these are still there. Intervals are of 95 %, over sessions.

    Raises `DataError` for vectors without output vectors, by which next items are ranked.
    """
    before, last = read_sessions(model.words, file, progress)
    n_items = len(model)
    measures_of_ranking = {"vectors": next_item_measures(model, before, last)}

    if model.counts is not None:
        counts = np.asarray(model.counts, np.float64)

        def by_popularity(rows: slice) -> ndarray:
            return np.broadcast_to(counts, (rows.stop - rows.start, n_items))

        measures_of_ranking["popularity"] = _measures(by_popularity, last, n_items)

    co_occurrences = _co_occurrences(model, progress)
    if co_occurrences is not None:
        latest = before.indices[before.indptr[1:] - 1]

        def by_co_occurrence(rows: slice) -> ndarray:
            return co_occurrences[latest[rows]].toarray()

        measures_of_ranking["co-occurrence"] = _measures(by_co_occurrence, last, n_items)

    return [_row(name, measures) for name, measures in measures_of_ranking.items()]


def _row(ranking: str, measures: dict[str, ndarray]) -> Row:
    """The means of the measures over sessions, with half their intervals."""
    row: Row = {"ranking": ranking}
    n_sessions = 0
    for measure, values in measures.items():
        n_sessions = len(values)
        row[measure] = float(values.mean())
        row[f"± {measure}"] = float(INTERVAL * values.std() / np.sqrt(n_sessions))
    row["sessions"] = n_sessions
    return row


def next_item_measures(model: WordVectors, before: csr_matrix, last: ndarray) -> dict[str, ndarray]:
    """HR@10, NDCG@10 and reciprocal rank of the last item of each session, float64 (n,).

    Items are ranked as by `embedx.vectors.next_item`.

    before, last  see `read_sessions`
    """
    h = mean_of_history(model, before)
    scores = next_item_scores(model)
    return _measures(lambda rows: scores(h[rows]), last, len(model))


def _measures(
    scores: Callable[[slice], ndarray], truth: ndarray, n_items: int
) -> dict[str, ndarray]:
    """The measures of each session by the scores of all items; ties count half.

    scores  function of a range of sessions: float (n, n_items)
    truth   int64 (n_sessions,): the last item of each
    """
    ranks = np.zeros(len(truth))
    step = max(1, BLOCK_FLOATS // n_items)
    for start in range(0, len(truth), step):
        rows = slice(start, min(start + step, len(truth)))
        z = scores(rows)
        z_of_truth = z[np.arange(len(z)), truth[rows]][:, None]
        n_higher = (z > z_of_truth).sum(axis=1)
        n_tied = (z == z_of_truth).sum(axis=1) - 1
        ranks[rows] = 1 + n_higher + n_tied / 2

    is_hit = ranks <= TOP
    return {
        f"HR@{TOP}": 1.0 * is_hit,
        f"NDCG@{TOP}": np.where(is_hit, 1 / np.log2(1 + ranks), 0),
        "MRR": 1 / ranks,
    }


def _co_occurrences(model: WordVectors, progress: Progress) -> csr_matrix | None:
    """How often two items are within the window in the training sessions; None without these."""
    files = _training_files(model)
    if not files:
        progress.note(
            "the co-occurrence baseline is left out: the training sessions are not all here, in"
            " files of a session per line"
        )
        return None
    window = int(model.settings.get("window", 5))
    pairs: list[ndarray] = []
    for file in files:
        for items in sessions_of_file(file, Silent()):
            ids = np.array([model.index(item) for item in items if item in model], int32)
            max_distance = min(window, len(ids) - 1)
            pairs += [
                np.stack([ids[:-distance], ids[distance:]])
                for distance in range(1, max_distance + 1)
            ]

    a, b = np.concatenate([np.zeros((2, 0), int32), *pairs], axis=1)
    differ = a != b
    ones = np.ones(np.count_nonzero(differ), np.float32)
    shape = (len(model), len(model))
    counts = coo_matrix((ones, (a[differ], b[differ])), shape).tocsr()
    return csr_matrix(counts + counts.T)


def _training_files(model: WordVectors) -> list[str]:
    """The files of the sessions that a model was trained on; empty unless all of them are here,
    with a session in each line.
    """
    files: list[str] = model.facts.get("sources") or []
    # Of more sources a model records the first ones.
    may_be_all = 0 < len(files) < MAX_SOURCES
    if not may_be_all or not all(Path(file).is_file() for file in files):
        return []
    text = TextSettings.from_options(model.settings)
    for source in find_sources(files):
        is_archive = source.members != ""
        if is_archive or source.format(text) != "text":
            return []
    return files

"""Scores of node and item vectors: link prediction, node classification, next-item prediction.

Links and labels need scikit-learn (pip install "embedx[sklearn]").
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import int32, ndarray
from scipy.sparse import coo_matrix, csr_matrix

from embedx.errors import DataError, InapplicableError, Setting
from embedx.pages.plain import aligned, tab_separated
from embedx.runtime.progress import Progress, Silent
from embedx.text.cells import COMMENTS, cell_lines
from embedx.text.decompression import UnpackedReader
from embedx.text.opening import BLOCK_BYTES
from embedx.text.session_items import row_of_item, sessions_of_file
from embedx.text.sources import find_sources
from embedx.vectors.model import WordVectors, load
from embedx.vectors.next_item import history_weights, mean_of_history, next_item_scores

TRAINING_SHARES = (0.1, 0.5, 0.9)
SPLITS_PER_SHARE = 10
# 97.5 % quantile of Student's t with SPLITS_PER_SHARE - 1 degrees of freedom.
T_QUANTILE = 2.26
LINK_FOLDS = 5
# Items at the top of a ranking that count as hits.
TOP = 10
# Scores of sessions computed at a time: 128 MB.
BLOCK_FLOATS = 1 << 25

Row = dict[str, Any]


def _cell_lines(file: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that has any and is no comment, as edges are read."""
    for source in find_sources([file]):
        with UnpackedReader(source) as reader:
            for number, cells in cell_lines(iter(lambda: reader.read(BLOCK_BYTES), b""), file):
                if not cells[0].startswith(COMMENTS):
                    yield number, cells


def _check_sklearn() -> None:
    """Raise EmbedxError without scikit-learn."""
    if find_spec("sklearn") is None:
        problem = ("and ", Setting("node_labels"), " need scikit-learn")
        remedy = 'install it with pip install "embedx[sklearn]"'
        raise InapplicableError("links", None, problem, remedy)


def _lines_of_known_nodes(
    model: WordVectors, file: str, n_nodes: int, line_format: str, progress: Progress
) -> list[list[str]]:
    """The lines whose first `n_nodes` cells are nodes with vectors; the others are counted.

    line_format  what a line must hold, for the error of one with fewer than two cells
    """
    lines = list(_cell_lines(file))
    for number, cells in lines:
        if len(cells) < 2:
            raise DataError(file, number, "one column", f"give {line_format}")

    known = [cells for _, cells in lines if all(node in model for node in cells[:n_nodes])]
    n_excluded = len(lines) - len(known)
    if n_excluded:
        progress.note(
            f"{file}: {n_excluded:,} lines have a node without a vector, and are left out"
        )
    return known


def _pairs(model: WordVectors, file: str, progress: Progress) -> ndarray:
    """Pairs of nodes that both have vectors, int64 (n, 2)."""
    _check_sklearn()
    lines = _lines_of_known_nodes(model, file, 2, "two nodes", progress)
    pairs = [(model.index(a), model.index(b)) for a, b, *_ in lines]
    if len(pairs) < LINK_FOLDS:
        problem = f"{len(pairs)} pairs of nodes of the model"
        raise DataError(file, None, problem, "give the edges that were held out")
    return np.array(pairs)


def _random_non_links(links: ndarray, n_nodes: int, seed: int) -> ndarray:
    """As many random pairs of different nodes, none of them a link, int64 (n, 2)."""
    rng = np.random.default_rng(seed)
    pairs = rng.integers(n_nodes, size=(3 * len(links) + 100, 2))
    pair_ids = np.sort(pairs) @ [n_nodes, 1]
    link_ids = np.sort(links) @ [n_nodes, 1]
    is_link = np.isin(pair_ids, link_ids)
    is_loop = pairs[:, 0] == pairs[:, 1]
    return pairs[~is_link & ~is_loop][: len(links)]


def links(
    model: WordVectors, file: str, non_links: str | None, seed: int, progress: Progress
) -> list[Row]:
    """AUC and average precision of telling links from other pairs, by three scores.

    Without a file of other pairs, as many are drawn, of which none is a link. `hadamard` is a
    logistic regression on the product of both vectors, number by number, that learns from four
    fifths of the pairs and scores the last, in turn.
    """
    true_links = _pairs(model, file, progress)
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score, roc_auc_score
    from sklearn.model_selection import cross_val_predict

    if non_links is not None:
        others = _pairs(model, non_links, progress)
    else:
        others = _random_non_links(true_links, len(model), seed)
    pairs = np.concatenate([true_links, others])
    is_link = np.repeat([1, 0], [len(true_links), len(others)])

    a = np.asarray(model.vectors[pairs[:, 0]])
    b = np.asarray(model.vectors[pairs[:, 1]])
    product = a * b
    dot = product.sum(axis=1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    regression = LogisticRegression(max_iter=1000)
    scores = {
        "dot": dot,
        "cosine": dot / np.maximum(lengths, 1e-30),
        "hadamard": cross_val_predict(
            regression, product, is_link, cv=LINK_FOLDS, method="decision_function"
        ),
    }
    return [
        {
            "score": name,
            "AUC": float(roc_auc_score(is_link, z)),
            "average precision": float(average_precision_score(is_link, z)),
            "links": len(true_links),
            "others": len(others),
        }
        for name, z in scores.items()
    ]


def node_labels(model: WordVectors, file: str, seed: int, progress: Progress) -> list[Row]:
    """Micro and macro F1 of labels by one-vs-rest logistic regression on vectors.

    Intervals are of 95 %, over random splits.

    `number known`: as many labels as a node has are predicted, as in the papers; else those of
    probability .5 and more, or the likeliest.
    """
    nodes, y = _known_labels(model, file, progress)
    x = np.asarray(model.vectors[nodes])
    rng = np.random.default_rng(seed)
    rows: list[Row] = []
    for share in TRAINING_SHARES:
        n_training = max(2, round(share * len(nodes)))
        f1_of_splits = []
        for _ in range(SPLITS_PER_SHARE):
            training, test = np.split(rng.permutation(len(nodes)), [n_training])
            p = _label_probabilities(x[training], y[training], x[test])
            f1_of_splits.append(_f1_of_decisions(p, y[test]))
            progress.detail(f"{share:.0%}: micro F1 {f1_of_splits[-1][0][0]:.4f}")

        means = np.mean(f1_of_splits, axis=0)
        deviations = np.std(f1_of_splits, axis=0, ddof=1)
        half_widths = T_QUANTILE * deviations / np.sqrt(SPLITS_PER_SHARE)
        for decision, is_number_known in enumerate((True, False)):
            micro, macro = means[decision].tolist()
            micro_half_width, macro_half_width = half_widths[decision].tolist()
            rows.append(
                {
                    "share of nodes": share,
                    "number known": is_number_known,
                    "micro F1": micro,
                    "macro F1": macro,
                    "± micro": micro_half_width,
                    "± macro": macro_half_width,
                }
            )
    return rows


def _known_labels(model: WordVectors, file: str, progress: Progress) -> tuple[ndarray, ndarray]:
    """The nodes with labels, int64 (n,), and which labels each has, bool (n, labels)."""
    _check_sklearn()
    labels_of_node: dict[int, set[str]] = {}
    lines = _lines_of_known_nodes(model, file, 1, "a node and its labels", progress)
    for node, *labels in lines:
        labels_of_node.setdefault(model.index(node), set()).update(labels)

    names = sorted(set().union(*labels_of_node.values()))
    if len(labels_of_node) < 2 * SPLITS_PER_SHARE or len(names) < 2:
        problem = f"{len(labels_of_node)} known nodes with {len(names)} labels are too few"
        raise DataError(file, None, problem, "give more")
    nodes = sorted(labels_of_node)
    has_label = [[name in labels_of_node[node] for name in names] for node in nodes]
    return np.array(nodes), np.array(has_label)


def _label_probabilities(x: ndarray, y: ndarray, test_x: ndarray) -> ndarray:
    """Probabilities of labels by one-vs-rest logistic regression, float64 (n, labels).

    A label of all training rows, or of none, has the probability 1 or 0.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    is_constant_1 = y.all(axis=0)
    varying = np.flatnonzero(y.any(axis=0) & ~is_constant_1)
    p = np.tile(1.0 * is_constant_1, (len(test_x), 1))
    if len(varying):
        classifier = OneVsRestClassifier(LogisticRegression(solver="liblinear"))
        p[:, varying] = classifier.fit(x, y[:, varying]).predict_proba(test_x)
    return p


def _f1_of_decisions(p: ndarray, truth: ndarray) -> tuple[tuple[float, float], tuple[float, float]]:
    """Micro and macro F1 where the number of labels is known, and where it is not."""
    ranks = np.argsort(np.argsort(-p, axis=1), axis=1)
    by_number = ranks < truth.sum(axis=1, keepdims=True)
    by_threshold = (p >= 0.5) | (ranks == 0)
    return _f1(by_number, truth), _f1(by_threshold, truth)


def _f1(predicted: ndarray, truth: ndarray) -> tuple[float, float]:
    """Micro F1, and macro F1 over the labels that occur."""
    n_right = (predicted & truth).sum(axis=0)
    n_either = predicted.sum(axis=0) + truth.sum(axis=0)
    occurs = truth.any(axis=0)
    micro = 2 * n_right.sum() / max(n_either.sum(), 1)
    macro = np.mean(2 * n_right[occurs] / np.maximum(n_either[occurs], 1))
    return micro, float(macro)


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
        problem = f"{len(last)} sessions of known items"
        remedy = "give two or more, one a line, items between tabs or blanks"
        raise DataError(file, None, problem, remedy)
    if n_excluded:
        progress.note(
            f"{file}: {n_excluded:,} sessions are left out: their last item, or all before it,"
            " have no vector"
        )

    return history_weights(before_last, len(words)), np.array(last)


def next_item(model: WordVectors, file: str, progress: Progress) -> list[Row]:
    """HR@10, NDCG@10 and MRR of each session's last item among all items, by those before it.

    `vectors` is the ranking of `next_item_measures`; `popularity` goes by counts; `co-occurrence`
    by how often items are within the model's window of the last item in the sessions that it was
    trained on, if these are still there. Intervals are of 95 %, over sessions.
    """
    before, last = read_sessions(model.words, file, progress)
    counts = np.asarray(model.counts, np.float64)
    n_items = len(counts)
    co_occurrences = _co_occurrences(model, progress)

    def popularity(rows: slice) -> ndarray:
        return np.broadcast_to(counts, (rows.stop - rows.start, n_items))

    measures_of_ranking = {
        "vectors": next_item_measures(model, before, last),
        "popularity": _measures(popularity, last, n_items),
    }
    if co_occurrences is not None:
        latest = before.indices[before.indptr[1:] - 1]
        measures_of_ranking["co-occurrence"] = _measures(
            lambda rows: co_occurrences[latest[rows]].toarray(), last, n_items
        )

    table = []
    for name, measures in measures_of_ranking.items():
        row: Row = {"ranking": name}
        for measure, values in measures.items():
            row[measure] = float(values.mean())
            row[f"± {measure}"] = float(1.96 * values.std() / np.sqrt(len(values)))
        row["sessions"] = len(last)
        table.append(row)
    return table


def next_item_measures(model: WordVectors, before: csr_matrix, last: ndarray) -> dict[str, ndarray]:
    """HR@10, NDCG@10 and reciprocal rank of the last item of each session, float64 (n,).

    before, last  see `read_sessions`

    Items are ranked as by `embedx.vectors.next_item`.
    """
    h = mean_of_history(model, before)
    scores = next_item_scores(model)
    return _measures(lambda rows: scores(h[rows]), last, len(model))


def _measures(
    scores: Callable[[slice], ndarray], truth: ndarray, n_items: int
) -> dict[str, ndarray]:
    """The measures of each session by the scores of all items; ties count half."""
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
    files = model.facts.get("sources") or []
    window = int(model.settings.get("window", 5))
    if not files or not all(Path(file).is_file() for file in files):
        progress.note("the co-occurrence baseline is left out: the training sessions are not here")
        return None
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


def as_table(rows: Sequence[Row]) -> str:
    """Rows with four digits for each number: aligned on a terminal, elsewhere between tabs."""
    cells = [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in rows
    ]
    table = [list(rows[0]), *cells]
    return "\n".join(aligned(table) if sys.stdout.isatty() else tab_separated(table))


class GraphTests(NamedTuple):
    """Files to score vectors of nodes and items on, each of which may be None.

    seed  of the splits, and of the pairs that are drawn where `non_links` is None
    """

    links: str | None
    non_links: str | None
    node_labels: str | None
    sessions: str | None
    seed: int


def scores(models: Sequence[str], tests: GraphTests, progress: Progress) -> dict[str, list[Row]]:
    """The tables of the tests, by name; of several models with a column for them."""
    if tests.non_links is not None and tests.links is None:
        raise InapplicableError("non_links", None, ("applies only with ", Setting("links")))
    tables: dict[str, list[Row]] = {}
    for path in models:
        for name, rows in scores_of_model(load(path, progress), tests, progress).items():
            if len(models) > 1:
                rows = [{"model": path, **row} for row in rows]
            tables.setdefault(name, []).extend(rows)
    return tables


def scores_of_model(
    model: WordVectors, tests: GraphTests, progress: Progress
) -> dict[str, list[Row]]:
    """The tables of the tests of one model, by name."""
    tables: dict[str, list[Row]] = {}
    if tests.links:
        tables["links"] = links(model, tests.links, tests.non_links, tests.seed, progress)
    if tests.node_labels:
        tables["node labels"] = node_labels(model, tests.node_labels, tests.seed, progress)
    if tests.sessions:
        tables["next item"] = next_item(model, tests.sessions, progress)
    return tables

"""How good vectors are at what graphs and sessions are embedded for: links, labels of nodes, the
next item of a session.

Links and labels need scikit-learn (pip install "embedx[sklearn]").
"""

import sys
from collections.abc import Callable, Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
from numpy import int32, ndarray
from scipy.sparse import coo_matrix, csr_matrix

from embedx.errors import DataError, EmbedxError
from embedx.evaluation.heldout import log_probability_of
from embedx.pages.plain import aligned, tab_separated
from embedx.text.cells import COMMENTS, cell_lines
from embedx.text.sources import resolve
from embedx.text.streams import BLOCK_BYTES, UnpackedReader
from embedx.training.progress import Progress
from embedx.vectors.model import WordVectors, load

# of the nodes that labels are learned from, and how often each
SHARES, SPLITS = (0.1, 0.5, 0.9), 10
FOLDS = 5  # of links, for the logistic regression
TOP = 10  # items
DECAY = 0.5  # of the weight of an item in a session with each that comes after it
BLOCK_FLOATS = 1 << 25  # scores of sessions computed at a time: 128 MB
Row = dict[str, Any]


def _lines(file: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the words of each line that has any."""
    for source in resolve([file]):
        with UnpackedReader(source) as reader:
            for number, line in enumerate(reader, 1):
                if words := line.decode("utf-8", "replace").split():
                    yield number, words


def _cell_lines(file: str) -> Iterator[tuple[int, list[str]]]:
    """The number and the cells of each line that has any and is no comment, as edges are read."""
    for source in resolve([file]):
        with UnpackedReader(source) as reader:
            for number, cells in cell_lines(iter(lambda: reader.read(BLOCK_BYTES), b""), file):
                if not cells[0].startswith(COMMENTS):
                    yield number, cells


def _of_nodes(
    model: WordVectors, file: str, n_nodes: int, wanted: str, progress: Progress
) -> list[list[str]]:
    """The lines that begin with so many nodes, all with vectors; the others are counted. Looks for
    scikit-learn first.
    """
    if find_spec("sklearn") is None:
        raise EmbedxError(
            "--links and --node-labels need scikit-learn; install it with pip install"
            ' "embedx[sklearn]"'
        )
    lines = list(_cell_lines(file))
    if wrong := [number for number, words in lines if len(words) < 2]:
        raise DataError(file, wrong[0], "one column", f"give {wanted}")
    found = [words for _, words in lines if all(word in model for word in words[:n_nodes])]
    if len(found) < len(lines):
        progress.note(
            f"{file}: {len(lines) - len(found):,} lines have a node without a vector, and are"
            " left out"
        )
    return found


def _pairs(model: WordVectors, file: str, progress: Progress) -> ndarray:
    """Pairs of nodes that both have vectors, int64 (n, 2)."""
    found = [
        (model.index(a), model.index(b))
        for a, b, *_ in _of_nodes(model, file, 2, "two nodes", progress)
    ]
    if len(found) < FOLDS:
        raise EmbedxError(
            f"{file}: {len(found)} pairs of nodes of the model; give the edges that were held out"
        )
    return np.array(found)


def links(
    model: WordVectors, file: str, non_links: str | None, seed: int, progress: Progress
) -> list[Row]:
    """AUC and average precision of telling links from other pairs, by three scores.

    Without a file of other pairs, as many are drawn, of which none is a link. `hadamard` is a
    logistic regression on the product of both vectors, number by number, that learns from four
    fifths of the pairs and scores the last, in turn.
    """
    true = _pairs(model, file, progress)
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import average_precision_score, roc_auc_score
    from sklearn.model_selection import cross_val_predict

    if non_links is not None:
        others = _pairs(model, non_links, progress)
    else:
        drawn = np.random.default_rng(seed).integers(len(model), size=(3 * len(true) + 100, 2))
        code = np.sort(drawn) @ [len(model), 1]
        is_other = ~np.isin(code, np.sort(true) @ [len(model), 1]) & (drawn[:, 0] != drawn[:, 1])
        others = drawn[is_other][: len(true)]
    pairs, is_link = np.concatenate([true, others]), np.repeat([1, 0], [len(true), len(others)])
    a, b = np.asarray(model.vectors[pairs[:, 0]]), np.asarray(model.vectors[pairs[:, 1]])
    dot = (a * b).sum(axis=1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    fitted = cross_val_predict(
        LogisticRegression(max_iter=1000), a * b, is_link, cv=FOLDS, method="decision_function"
    )
    scores = {"dot": dot, "cosine": dot / np.maximum(lengths, 1e-30), "hadamard": fitted}
    found, sizes = scores.items(), {"links": len(true), "others": len(others)}
    measures = {"AUC": roc_auc_score, "average precision": average_precision_score}
    return [
        {"score": name, **{each: float(of(is_link, z)) for each, of in measures.items()}, **sizes}
        for name, z in found
    ]


def node_labels(model: WordVectors, file: str, seed: int, progress: Progress) -> list[Row]:
    """Micro and macro F1 of labels by one-vs-rest logistic regression on vectors, with 95 %
    intervals over random splits.

    `number known`: as many labels as a node has are predicted, as in the papers; else those of
    probability .5 and more, or the likeliest.
    """
    own: dict[int, set[str]] = {}
    for node, *labels in _of_nodes(model, file, 1, "a node and its labels", progress):
        own.setdefault(model.index(node), set()).update(labels)
    from sklearn.linear_model import LogisticRegression
    from sklearn.multiclass import OneVsRestClassifier

    names = sorted(set().union(*own.values()))
    if len(own) < 2 * SPLITS or len(names) < 2:
        raise EmbedxError(
            f"{file}: {len(own)} known nodes with {len(names)} labels are too few; give more"
        )
    nodes = np.array(sorted(own))
    y = np.array([[name in own[node] for name in names] for node in nodes.tolist()])
    x, rng, rows = np.asarray(model.vectors[nodes]), np.random.default_rng(seed), []
    for share in SHARES:
        found = []
        for _ in range(SPLITS):
            order = rng.permutation(len(nodes))
            learned, tested = np.split(order, [max(2, round(share * len(nodes)))])
            seen = np.flatnonzero(y[learned].any(axis=0) & ~y[learned].all(axis=0))
            p = np.broadcast_to(1.0 * y[learned].all(axis=0), (len(tested), len(names))).copy()
            if len(seen):
                fitted = OneVsRestClassifier(LogisticRegression(solver="liblinear")).fit(
                    x[learned], y[learned][:, seen]
                )
                p[:, seen] = fitted.predict_proba(x[tested])
            ranks = np.argsort(np.argsort(-p, axis=1), axis=1)
            truth, by_number = y[tested], ranks < y[tested].sum(axis=1, keepdims=True)
            by_threshold = (p >= 0.5) | (ranks == 0)
            found.append([_f1(by_number, truth), _f1(by_threshold, truth)])
            progress.detail(f"{share:.0%}: micro F1 {found[-1][0][0]:.4f}")
        mean, half = np.mean(found, axis=0), 2.26 * np.std(found, axis=0, ddof=1) / np.sqrt(SPLITS)
        for (micro, macro), errors, is_known in zip(
            mean.tolist(), half.tolist(), (True, False), strict=True
        ):
            row = {
                "share of nodes": share,
                "number known": is_known,
                "micro F1": micro,
                "macro F1": macro,
            }
            rows.append(row | {"± micro": errors[0], "± macro": errors[1]})
    return rows


def _f1(predicted: ndarray, truth: ndarray) -> tuple[float, float]:
    """Micro F1, and macro F1 over the labels that occur."""
    both, either = (predicted & truth).sum(axis=0), predicted.sum(axis=0) + truth.sum(axis=0)
    occurs = truth.any(axis=0)
    return 2 * both.sum() / max(either.sum(), 1), float(
        np.mean(2 * both[occurs] / np.maximum(either[occurs], 1))
    )


def read_sessions(
    words: Sequence[str], file: str, progress: Progress
) -> tuple[csr_matrix, ndarray]:
    """The sessions of a file whose last item and one before it are among `words`; the others are
    counted.

    Returns the weights of the items before the last, float64 (n, n_words), in their order, each
    later one DECAY^-1 times the one before it; and the last items, int64 (n,).
    """
    index, lines = {word: i for i, word in enumerate(words)}, [items for _, items in _lines(file)]
    known = [
        [index[item] for item in items[:-1] if item in index] if items[-1] in index else []
        for items in lines
    ]
    before, last = (
        list(filter(None, known)),
        [index[items[-1]] for items, ids in zip(lines, known, strict=True) if ids],
    )
    if len(before) < 2:
        raise EmbedxError(
            f"{file}: {len(before)} sessions of known items; give two or more, one a line, as item"
            " item ..."
        )
    if n_short := len(lines) - len(before):
        progress.note(
            f"{file}: {n_short:,} sessions are left out: their last item, or all before it, have no"
            " vector"
        )
    sizes = [len(ids) for ids in before]
    decayed = np.concatenate([DECAY ** np.arange(size - 1.0, -1, -1) for size in sizes])
    return csr_matrix(
        (decayed, np.concatenate(before), np.cumsum([0, *sizes])), (len(sizes), len(words))
    ), np.array(last)


def next_item(model: WordVectors, file: str, progress: Progress) -> list[Row]:
    """HR@10, NDCG@10 and MRR of the last item of each session among all items of the model, from
    those before it.

    `vectors` is the ranking of `next_item_measures`; `popularity` goes by counts; `co-occurrence`
    by how often items are within the model's window of the last item in the sessions that it was
    trained on, if these are still there. Intervals are of 95 %, over sessions.
    """
    before, last = read_sessions(model.words, file, progress)
    counts, near, rows = np.asarray(model.counts, np.float64), _near(model, progress), []
    found = {
        "vectors": next_item_measures(model, before, last),
        "popularity": _measures(
            lambda rows: np.broadcast_to(counts, (rows.stop - rows.start, len(counts))),
            last,
            len(counts),
        ),
    }
    if near is not None:
        latest = before.indices[before.indptr[1:] - 1]
        found["co-occurrence"] = _measures(
            lambda rows: near[latest[rows]].toarray(), last, len(counts)
        )
    for name, measures in found.items():
        row: Row = {"ranking": name}
        for measure, values in measures.items():
            row |= {
                measure: float(values.mean()),
                f"± {measure}": float(1.96 * values.std() / np.sqrt(len(values))),
            }
        rows.append(row | {"sessions": len(last)})
    return rows


def next_item_measures(model: WordVectors, before: csr_matrix, last: ndarray) -> dict[str, ndarray]:
    """HR@10, NDCG@10 and reciprocal rank of the last item of each of the sessions of
    `read_sessions`, float64 (n,).

    Items are ranked by the product of their output vectors with the weighted mean of the input
    vectors of those before them; by their probability given that mean where the output vectors are
    those of the nodes of a tree.
    """
    h = (before @ model.vectors / np.asarray(before.sum(axis=1))).astype(np.float32)
    if model.output_vectors is not None and len(model.output_vectors) != len(model):
        log_p_of = log_probability_of(model, h)
        numbers = np.arange(len(h))
        return _measures(
            lambda rows: np.concatenate([z for _, z in log_p_of(numbers[rows])]), last, len(model)
        )
    outputs = model.of("output").vectors
    return _measures(lambda rows: h[rows] @ outputs.T, last, len(model))


def _measures(
    scores: Callable[[slice], ndarray], truth: ndarray, n_items: int
) -> dict[str, ndarray]:
    """The measures of each session by the scores of all items; ties count half."""
    ranks, size = np.zeros(len(truth)), max(1, BLOCK_FLOATS // n_items)
    for start in range(0, len(truth), size):
        rows = slice(start, min(start + size, len(truth)))
        z = scores(rows)
        own = z[np.arange(len(z)), truth[rows]][:, None]
        ranks[rows] = 1 + (z > own).sum(axis=1) + ((z == own).sum(axis=1) - 1) / 2
    is_hit = ranks <= TOP
    return {
        f"HR@{TOP}": 1.0 * is_hit,
        f"NDCG@{TOP}": np.where(is_hit, 1 / np.log2(1 + ranks), 0),
        "MRR": 1 / ranks,
    }


def _near(model: WordVectors, progress: Progress) -> csr_matrix | None:
    """How often each pair of items is within the window in the sessions of training; None where
    these are not found.
    """
    files, window = model.facts.get("sources") or [], int(model.settings.get("window", 5))
    if not files or not all(Path(file).is_file() for file in files):
        progress.note("the co-occurrence baseline is left out: the training sessions are not here")
        return None
    pairs: list[ndarray] = []
    for file in files:
        for _, words in _lines(file):
            ids = np.array([model.index(word) for word in words if word in model], int32)
            pairs += [
                np.stack([ids[:-d], ids[d:]]) for d in range(1, min(window, len(ids) - 1) + 1)
            ]
    a, b = np.concatenate([np.zeros((2, 0), int32), *pairs], axis=1)
    kept = a != b
    found = coo_matrix(
        (np.ones(int(kept.sum()), np.float32), (a[kept], b[kept])), (len(model), len(model))
    ).tocsr()
    return csr_matrix(found + found.T)


def as_table(rows: Sequence[Row]) -> str:
    """Rows for people, numbers by four digits: a table on a terminal, elsewhere tabs between
    columns.
    """
    cells = [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in rows
    ]
    table = [list(rows[0]), *cells]
    return "\n".join(aligned(table) if sys.stdout.isatty() else tab_separated(table))


def scores(
    models: Sequence[str],
    link_file: str | None,
    non_links: str | None,
    label_file: str | None,
    session_file: str | None,
    seed: int,
    progress: Progress,
) -> dict[str, list[Row]]:
    """The tables that are asked for, by name; of several models with a column for them."""
    if non_links is not None and link_file is None:
        raise EmbedxError("--non-links applies only with --links")
    tables: dict[str, list[Row]] = {}
    for path in models:
        model = load(path, progress)
        found = {
            "links": links(model, link_file, non_links, seed, progress) if link_file else [],
            "node labels": node_labels(model, label_file, seed, progress) if label_file else [],
            "next item": next_item(model, session_file, progress) if session_file else [],
        }
        for name, rows in filter(lambda each: each[1], found.items()):
            tables.setdefault(name, []).extend(
                [{"model": path, **row} if len(models) > 1 else row for row in rows]
            )
    return tables

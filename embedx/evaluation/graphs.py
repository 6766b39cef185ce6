"""Scores of node vectors: link prediction and node classification.

Both need scikit-learn (pip install "embedx[sklearn]").
"""

from collections.abc import Iterator
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.errors import DataError, InapplicableError, Setting, counted
from embedx.runtime.progress import Progress
from embedx.text.cells import COMMENTS, cell_lines
from embedx.text.decompression import UnpackedReader
from embedx.text.opening import BLOCK_BYTES
from embedx.text.sources import find_sources
from embedx.vectors.model import WordVectors

TRAINING_SHARES = (0.1, 0.5, 0.9)
SPLITS_PER_SHARE = 10
# 97.5 % quantile of Student's t with SPLITS_PER_SHARE - 1 degrees of freedom.
T_QUANTILE = 2.26
LINK_FOLDS = 5

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
            f"{file}: left out: {counted(n_excluded, 'line')} with a node without a vector"
        )
    return known


def _pairs(model: WordVectors, file: str, progress: Progress) -> ndarray:
    """Pairs of nodes that both have vectors, int64 (n, 2)."""
    _check_sklearn()
    lines = _lines_of_known_nodes(model, file, 2, "two nodes", progress)
    pairs = [(model.index(a), model.index(b)) for a, b, *_ in lines]
    if len(pairs) < LINK_FOLDS:
        problem = f"{counted(len(pairs), 'pair')} of nodes of the model"
        raise DataError(file, None, problem, "give the edges that were held out")
    return np.array(pairs)


def _random_non_links(links: ndarray, n_nodes: int, seed: int) -> ndarray:
    """Random pairs of different nodes, none of them a link, int64 (n, 2): as many as there are
    links, or fewer where most pairs are links.
    """
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

    non_links  file of the other pairs; None: as many as there are links are drawn, none of them one
    """
    true_links = _pairs(model, file, progress)
    from sklearn.metrics import average_precision_score, roc_auc_score

    if non_links is not None:
        others = _pairs(model, non_links, progress)
    else:
        others = _random_non_links(true_links, len(model), seed)
        if len(others) < LINK_FOLDS:
            problem = "nearly all pairs of nodes are links"
            raise DataError(file, None, problem, ("give other pairs by ", Setting("non_links")))
    pairs = np.concatenate([true_links, others])
    is_link = np.repeat([1, 0], [len(true_links), len(others)])
    return [
        {
            "score": name,
            "AUC": float(roc_auc_score(is_link, scores)),
            "average precision": float(average_precision_score(is_link, scores)),
            "links": len(true_links),
            "others": len(others),
        }
        for name, scores in _link_scores(model, pairs, is_link).items()
    ]


def _link_scores(model: WordVectors, pairs: ndarray, is_link: ndarray) -> dict[str, ndarray]:
    """Scores by which a pair may be a link, float (n,) each, by name.

    `hadamard` is a logistic regression on the product of both vectors, number by number, that
    learns from four fifths of the pairs and scores the last, in turn.
    """
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_predict

    a = np.asarray(model.vectors[pairs[:, 0]])
    b = np.asarray(model.vectors[pairs[:, 1]])
    product = a * b
    dot = product.sum(axis=1)
    lengths = np.linalg.norm(a, axis=1) * np.linalg.norm(b, axis=1)
    regression = LogisticRegression(max_iter=1000)
    return {
        "dot": dot,
        "cosine": dot / np.maximum(lengths, 1e-30),
        "hadamard": cross_val_predict(
            regression, product, is_link, cv=LINK_FOLDS, method="decision_function"
        ),
    }


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
        rows += _f1_rows(share, np.array(f1_of_splits))
    return rows


def _f1_rows(share: float, f1_of_splits: ndarray) -> list[Row]:
    """The rows of a share of training nodes, from micro and macro F1 by decision, float64 (splits,
    2, 2).
    """
    means = f1_of_splits.mean(axis=0)
    deviations = f1_of_splits.std(axis=0, ddof=1)
    half_widths = T_QUANTILE * deviations / np.sqrt(SPLITS_PER_SHARE)
    rows = []
    for decision, is_number_known in enumerate((True, False)):
        micro, macro = means[decision].tolist()
        micro_half_width, macro_half_width = half_widths[decision].tolist()
        row: Row = {
            "share of nodes": share,
            "number known": is_number_known,
            "micro F1": micro,
            "macro F1": macro,
            "± micro": micro_half_width,
            "± macro": macro_half_width,
        }
        rows.append(row)
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
        nodes_and_labels = (
            f"{counted(len(labels_of_node), 'known node')} with {counted(len(names), 'label')}"
        )
        problem = f"{nodes_and_labels} are too few"
        raise DataError(file, None, problem, "give more")
    nodes = sorted(labels_of_node)
    has_label = [[name in labels_of_node[node] for name in names] for node in nodes]
    return np.array(nodes), np.array(has_label)


def _label_probabilities(x: ndarray, y: ndarray, test_x: ndarray) -> ndarray:
    """Probabilities of labels by one-vs-rest logistic regression, float64 (n, labels).

    A label of all training rows, or of none, has the probability 1 or 0.
    """
    from sklearn.linear_model import LogisticRegression

    p = np.zeros((len(test_x), y.shape[1]))
    for label, has_label in enumerate(y.T):
        if has_label.all():
            p[:, label] = 1
        elif has_label.any():
            regression = LogisticRegression(solver="liblinear").fit(x, has_label)
            p[:, label] = regression.predict_proba(test_x)[:, 1]
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

"""The best labels of rows and their probabilities: from the scores of all labels, through a tree or
an index; calibrated, and blended with the labels of neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.checks import whole_top_k
from embedx.classification import calibration, familiarity, label_tree
from embedx.classification.familiarity import Familiarity
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.neighbours import Blend
from embedx.classification.row_blocks import Best, as_csr, in_blocks, rows_of, threads_for
from embedx.classification.settings import ClassifySettings
from embedx.errors import Setting, SettingError
from embedx.evaluation.labels import top_k
from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import SILENT, Progress
from embedx.search.index import build_index
from embedx.search.top_k import search_top_k, top_k_spec

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier

LEAVE_OUT = "leave it out"
TRAIN_WITH_HELD_OUT = (
    "train with rows held out, by ",
    (Setting("calibration"), " or ", Setting("validation")),
)

# Number of rows that are made dense at a time.
SEARCHED_ROWS = 1 << 14
# Number of rows on which the recall of an index is measured.
RECALLED = 200
# Minimum of the log of the candidates' summed probabilities.
MIN_LOG_SUM = -690.0


class Answers(NamedTuple):
    """The best labels of rows, best first.

    ids     int32 (n, k)
    scores  float (n, k), as `iter_best` gives them: with neighbours not those of `ids`
    p       float32 (n, k): their probabilities
    """

    ids: ndarray
    scores: ndarray
    p: ndarray


@dataclass
class UnknownCount:
    """How many rows there were, and how many of them have no feature that the model knows."""

    n_rows: int = 0
    n_unknown: int = 0

    def add(self, is_unknown: ndarray) -> None:
        """Count rows, of which these are unknown, bool (n,)."""
        self.n_rows += len(is_unknown)
        self.n_unknown += int(is_unknown.sum())

    def note(self, progress: Progress) -> None:
        """Report the unknown rows, if there are any."""
        if self.n_unknown:
            progress.note(
                f"{self.n_unknown:,} of {self.n_rows:,} rows have no feature that the model knows"
            )


def iter_top_k(
    classifier: "Classifier",
    features: Any,
    k: int = 5,
    progress: Progress = SILENT,
    threads: int | None = None,
    abstain: bool = False,
) -> Iterator[Best]:
    """See `Classifier.iter_top_k`."""
    k = whole_top_k(k)
    if abstain and "familiarity" not in classifier.arrays:
        n_needed = calibration.MIN_ROWS
        problem = f"needs a model trained with at least {n_needed} held-out rows"
        raise SettingError("abstain", True, problem, TRAIN_WITH_HELD_OUT)
    features, n_unknown = familiarity.split_unknown_words(features, classifier.schema.n_features)
    for rows, answers in iter_answers(classifier, features, k, progress, threads):
        familiar = row_familiarity(classifier, features, n_unknown, rows)
        f = familiarity.factors(classifier.arrays, familiar, answers.scores, abstain)
        p = familiarity.scaled_probabilities(
            answers.p, f, familiar, classifier.label_shares, answers.ids
        )
        ids = answers.ids
        if abstain:
            ids, p = familiarity.with_none_of_these(ids, p, 1 - f)
        yield ids[:, :k], p[:, :k]


def iter_answers(
    classifier: "Classifier",
    features: Any,
    k: int,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Iterator[tuple[slice, Answers]]:
    """(rows, their best labels), at least k, with scores and with probabilities that do not
    depend on the familiarity of the rows.
    """
    is_blended = classifier.has_neighbours and k > 0
    n_best = max(k, CANDIDATES) if is_blended or _is_of_one_label(classifier) else max(k, 2)
    for rows, ids, scores in iter_best(classifier, features, n_best, progress, threads):
        p = probabilities(classifier, scores)
        if is_blended:
            ids, p = _with_neighbours(classifier, rows_of(features, rows), ids, p, n_best, threads)
        yield rows, Answers(ids, scores, p)


def row_familiarity(
    classifier: "Classifier", features: Any, n_unknown: ndarray | None, rows: slice
) -> Familiarity:
    """How familiar these rows of features are."""
    start, stop, _ = rows.indices(features.shape[0])
    if stop - start < features.shape[0]:
        features = features[rows]
        n_unknown = None if n_unknown is None else n_unknown[rows]
    return familiarity.familiarity_of(
        features, n_unknown, classifier.arrays.get("idf"), classifier.max_idf
    )


def unknown_rows(classifier: "Classifier", features: Any) -> ndarray:
    """bool (n,): whether a row has no feature that the model knows."""
    features, _ = familiarity.split_unknown_words(features, classifier.schema.n_features)
    return np.asarray(familiarity.familiarity_of(features, None, None, 1.0).n_features == 0)


def iter_best(
    classifier: "Classifier",
    features: Any,
    k: int,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Iterator[tuple[slice, ndarray, ndarray]]:
    """(rows, ids, scores) like `iter_top_k`, from the parameters alone.

    Scores are inputs of `probabilities`: z if labels have independent probabilities, else
    log-probabilities.
    """
    threads = threads_for(features, threads)
    if classifier.has_label_tree:
        blocks = _best_in_trees(classifier, features, k, progress, threads)
    else:
        blocks = _best_of_all(classifier, features, k, progress, threads)
    for rows, (ids, scores) in blocks:
        yield rows, ids, scores


def _best_of_all(
    classifier: "Classifier", features: Any, k: int, progress: Progress, threads: int
) -> Iterator[tuple[slice, Best]]:
    """(rows, their best labels and scores), from the scores of all labels."""
    is_independent = classifier.has_independent_labels

    def best(z: ndarray, log_noise: ndarray) -> Best:
        if is_independent:
            return top_k(z, k)
        return top_k(classifier.log_probability(z, log_noise), k)

    return classifier.blocks(features, progress, threads, best)


def _best_in_trees(
    classifier: "Classifier", features: Any, k: int, progress: Progress, threads: int
) -> Iterator[tuple[slice, Best]]:
    """(rows, their best labels and log-probabilities), found through the trees."""
    is_independent = classifier.has_independent_labels
    beam = int(classifier.settings.get("beam", ClassifySettings.beam))
    # Probabilities that sum to one need other labels to normalise over.
    n_best = max(k, 1) if is_independent else max(k, CANDIDATES)

    def best(rows: slice) -> Best:
        h = as_csr(classifier.prepared(rows_of(features, rows)))
        ids, log_p = label_tree.search(
            classifier.trees,
            h,
            n_best,
            beam,
            classifier.objective.log_label_probability,
            classifier.n_labels,
            threads,
        )
        if not is_independent:
            log_sum = np.logaddexp.reduce(log_p, axis=1, keepdims=True)
            log_p = log_p - np.maximum(log_sum, MIN_LOG_SUM)
        return ids[:, :k], log_p[:, :k]

    size = label_tree.rows_at_a_time(classifier.trees, beam)
    return in_blocks(features.shape[0], size, best, progress)


def probabilities(classifier: "Classifier", scores: ndarray) -> ndarray:
    """The probabilities of each row's best labels, (n, k), from their scores, best first."""
    if "calibration" in classifier.arrays:
        return _calibrated(classifier, "calibration", scores)
    if classifier.has_independent_labels and not classifier.has_label_tree:
        return np.asarray(classifier.objective.label_probability(scores))
    return np.exp(scores)


def _is_of_one_label(classifier: "Classifier") -> bool:
    """Whether rows have one label, but labels are calibrated independently."""
    return "calibration" in classifier.arrays and not classifier.has_several_labels


def _calibrated(classifier: "Classifier", name: str, scores: ndarray) -> ndarray:
    """The probabilities of scores by the calibration in an array."""
    p = calibration.probabilities(classifier.arrays[name], scores)
    return calibration.of_one_label(p) if _is_of_one_label(classifier) else p


def searched_top_k(
    classifier: "Classifier",
    features: Any,
    k: int = 5,
    share: float = 0.05,
    progress: Progress = SILENT,
    threads: int | None = None,
) -> Iterator[Best]:
    """See `Classifier.searched_top_k`."""
    features, n_unknown = familiarity.split_unknown_words(features, classifier.schema.n_features)
    _check_can_be_searched(classifier, features)
    threads = threads or usable_cores()
    k = min(k, classifier.n_labels)
    table = _table_with_biases(classifier)
    n_labels, dim = table.shape
    search = top_k_spec(n_labels, share, k)
    progress.note(f"building an index of {n_labels:,} labels")
    index = build_index(table, n_labels, dim, search, np.random.default_rng(0), threads)

    def best(rows: slice) -> Best:
        h = np.asarray(classifier.inputs(classifier.prepared(features[rows])), float32)
        h = np.column_stack([h, np.ones(len(h), float32)])
        ids, z, log_sum = search_top_k(index, search, h, k, threads)
        if not classifier.has_independent_labels:
            z = z - log_sum[:, None]
        familiar = row_familiarity(classifier, features, n_unknown, rows)
        f = familiarity.factors(classifier.arrays, familiar, z)
        return ids, familiarity.scaled_probabilities(
            probabilities(classifier, z), f, familiar, classifier.label_shares, ids
        )

    first_rows = slice(RECALLED)
    recall = _recall(classifier, features[first_rows], best(first_rows)[0])
    progress.note(
        f"{search.n_scored:,} of {n_labels:,} labels are scored for each row, which finds"
        f" {100 * recall:.1f} % of the best {k}; probabilities are relative to the labels scored"
    )
    blocks = in_blocks(features.shape[0], SEARCHED_ROWS, best, progress)
    return (block_best for _, block_best in blocks)


def _table_with_biases(classifier: "Classifier") -> ndarray:
    """Output vectors with their biases, or zeros, float32 (rows, dim + 1), for inputs that end
    with 1.
    """
    output = classifier.output_vectors
    bias = classifier.arrays.get("bias", np.zeros(len(output), float32))
    return np.ascontiguousarray(np.column_stack([output, bias]), float32)


def _recall(classifier: "Classifier", features: Any, ids: ndarray) -> float:
    """The share of the true best labels that are among `ids`, (n, k)."""
    true_ids, _ = top_k(classifier.scores(classifier.prepared(features)), ids.shape[1])
    pairs = zip(true_ids, ids, strict=True)
    return float(np.mean([np.isin(true_row, row).mean() for true_row, row in pairs]))


def _check_can_be_searched(classifier: "Classifier", features: Any) -> None:
    """Raise `EmbedxError` if an index cannot find the best labels of this model."""
    if not classifier.objective.traits.ranks_by_score:
        problem = f"{classifier.objective.name} does not rank labels by their scores alone"
        raise SettingError("search", True, problem, LEAVE_OUT)
    if classifier.has_label_tree:
        problem = "the model finds the best labels through its own tree"
        raise SettingError("search", True, problem, LEAVE_OUT)
    if classifier.has_sparse_weights:
        problem = "needs dense weights; those of this model are sparse"
        raise SettingError("search", True, problem, LEAVE_OUT)
    if "variance" in classifier.arrays:
        problem = "an index has no probabilities averaged over weights"
        raise SettingError("search", True, problem, LEAVE_OUT)
    if "hidden" not in classifier.arrays and hasattr(features, "indptr"):
        problem = "needs dense features or a model with a hidden layer"
        raise SettingError("search", True, problem, LEAVE_OUT)


def _with_neighbours(
    classifier: "Classifier", features: Any, ids: ndarray, p: ndarray, k: int, threads: int | None
) -> Best:
    """The k best labels and their probabilities, blended with those of neighbours."""
    blend = Blend(*classifier.arrays["neighbour_blend"])
    threads = threads_for(features, threads)
    near = classifier.neighbours.nearest(classifier.prepared(features), int(blend.n), threads)
    ids, scores = classifier.neighbours.blended(ids, p, near, blend, k, threads)
    if "neighbour_calibration" in classifier.arrays:
        return ids, _calibrated(classifier, "neighbour_calibration", scores)
    return ids, scores

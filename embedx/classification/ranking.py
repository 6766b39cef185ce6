"""The best labels of rows and their probabilities: from the scores of all labels, through a tree or
an index; calibrated, and blended with the labels of neighbours.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.checks import whole_top_k
from embedx.classification import calibration, familiarity, label_tree, neighbours
from embedx.classification.familiarity import Familiarity
from embedx.classification.label_tree import CANDIDATES
from embedx.classification.neighbours import Blend, Neighbours
from embedx.classification.row_blocks import Best, as_csr, in_blocks, rows_of, threads_for
from embedx.classification.scores import LabelScores
from embedx.classification.settings import ClassifySettings
from embedx.errors import Setting, SettingError
from embedx.evaluation.labels import top_k
from embedx.runtime.cores import usable_cores
from embedx.runtime.progress import SILENT, Progress
from embedx.search.index import build_index
from embedx.search.top_k import search_top_k, top_k_spec

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
    scores  float (n, k), as `LabelRanking.best` gives them: with neighbours not those of `ids`
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


class LabelRanking(LabelScores):
    """The best labels of rows and their probabilities, by the parameters of a classifier."""

    def iter_top_k(
        self,
        features: Any,
        k: int = 5,
        progress: Progress = SILENT,
        threads: int | None = None,
        abstain: bool = False,
    ) -> Iterator[Best]:
        """(ids int32 (n, k), probabilities float32 (n, k)) for each block of rows.

        The probability is that the label is among those of the row, calibrated if rows were held
        out of training. Without calibration, labels have independent probabilities if training rows
        had several labels and the objective defines them; else they sum to one, over the labels
        that a tree finds, if there is one.

        Calibrated probabilities fall with the share of unknown features, and those of a row without
        any known feature are at most the frequencies of labels in training. With `abstain` the id
        `familiarity.NONE_OF_THESE`, no label of the model is right, is among the answers.
        """
        k = whole_top_k(k)
        if abstain and "familiarity" not in self.arrays:
            n_needed = calibration.MIN_ROWS
            problem = f"needs a model trained with at least {n_needed} held-out rows"
            raise SettingError("abstain", True, problem, TRAIN_WITH_HELD_OUT)
        features, n_unknown = familiarity.split_unknown_words(features, self.schema.n_features)
        for rows, answers in self.answers(features, k, progress, threads):
            familiar = self.row_familiarity(features, n_unknown, rows)
            f = familiarity.factors(self.arrays, familiar, answers.scores, abstain)
            p = familiarity.scaled_probabilities(
                answers.p, f, familiar, self._label_shares, answers.ids
            )
            ids = answers.ids
            if abstain:
                ids, p = familiarity.with_none_of_these(ids, p, 1 - f)
            yield ids[:, :k], p[:, :k]

    def answers(
        self, features: Any, k: int, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[tuple[slice, Answers]]:
        """(rows, their best labels), at least k, with scores and with probabilities that do not
        depend on the familiarity of the rows.
        """
        is_blended = self.has_neighbours and k > 0
        n_best = max(k, CANDIDATES) if is_blended or self._is_of_one_label else max(k, 2)
        for rows, ids, scores in self.best(features, n_best, progress, threads):
            p = self.probabilities(scores)
            if is_blended:
                ids, p = self._with_neighbours(rows_of(features, rows), ids, p, n_best, threads)
            yield rows, Answers(ids, scores, p)

    def row_familiarity(self, features: Any, n_unknown: ndarray | None, rows: slice) -> Familiarity:
        """How familiar these rows of features are."""
        start, stop, _ = rows.indices(features.shape[0])
        if stop - start < features.shape[0]:
            features = features[rows]
            n_unknown = None if n_unknown is None else n_unknown[rows]
        return familiarity.familiarity_of(
            features, n_unknown, self.arrays.get("idf"), self._max_idf
        )

    def unknown_rows(self, features: Any) -> ndarray:
        """bool (n,): whether a row has no feature that the model knows."""
        features, _ = familiarity.split_unknown_words(features, self.schema.n_features)
        return np.asarray(familiarity.familiarity_of(features, None, None, 1.0).n_features == 0)

    @cached_property
    def _max_idf(self) -> float:
        """The inverse document frequency of a word that is in no training row."""
        return float(self.arrays["idf"].max(initial=1)) if "idf" in self.arrays else 1.0

    @cached_property
    def _label_shares(self) -> ndarray:
        """float32 (n_labels,): the share of the training rows that has each label."""
        n_rows = self.n_training_rows or max(int(self.counts.sum()), 1)
        return np.asarray(np.minimum(self.counts / n_rows, 1), float32)

    def best(
        self, features: Any, k: int, progress: Progress = SILENT, threads: int | None = None
    ) -> Iterator[tuple[slice, ndarray, ndarray]]:
        """(rows, ids, scores) like `iter_top_k`, from the parameters alone.

        Scores are inputs of `probabilities`: z if labels have independent probabilities, else
        log-probabilities.
        """
        threads = threads_for(features, threads)
        if self.has_label_tree:
            blocks = self._best_in_trees(features, k, progress, threads)
        else:
            blocks = self._best_of_all(features, k, progress, threads)
        for rows, (ids, scores) in blocks:
            yield rows, ids, scores

    def _best_of_all(
        self, features: Any, k: int, progress: Progress, threads: int
    ) -> Iterator[tuple[slice, Best]]:
        """(rows, their best labels and scores), from the scores of all labels."""
        is_independent = self.has_independent_labels

        def best(z: ndarray, log_noise: ndarray) -> Best:
            if is_independent:
                return top_k(z, k)
            return top_k(self.log_probability(z, log_noise), k)

        return self.blocks(features, progress, threads, best)

    def _best_in_trees(
        self, features: Any, k: int, progress: Progress, threads: int
    ) -> Iterator[tuple[slice, Best]]:
        """(rows, their best labels and log-probabilities), found through the trees."""
        is_independent = self.has_independent_labels
        beam = int(self.settings.get("beam", ClassifySettings.beam))
        # Probabilities that sum to one need other labels to normalise over.
        n_best = max(k, 1) if is_independent else max(k, CANDIDATES)

        def best(rows: slice) -> Best:
            h = as_csr(self.prepared(rows_of(features, rows)))
            ids, log_p = label_tree.search(
                self.trees,
                h,
                n_best,
                beam,
                self.objective.log_label_probability,
                self.n_labels,
                threads,
            )
            if not is_independent:
                log_sum = np.logaddexp.reduce(log_p, axis=1, keepdims=True)
                log_p = log_p - np.maximum(log_sum, MIN_LOG_SUM)
            return ids[:, :k], log_p[:, :k]

        size = label_tree.rows_at_a_time(self.trees, beam)
        return in_blocks(features.shape[0], size, best, progress)

    def probabilities(self, scores: ndarray) -> ndarray:
        """The probabilities of each row's best labels, (n, k), from their scores, best first."""
        if "calibration" in self.arrays:
            return self._calibrated("calibration", scores)
        if self.has_independent_labels and not self.has_label_tree:
            return np.asarray(self.objective.label_probability(scores))
        return np.exp(scores)

    @property
    def _is_of_one_label(self) -> bool:
        """Whether rows have one label, but labels are calibrated independently."""
        return "calibration" in self.arrays and not self.has_several_labels

    def _calibrated(self, name: str, scores: ndarray) -> ndarray:
        """The probabilities of scores by the calibration in an array."""
        p = calibration.probabilities(self.arrays[name], scores)
        return calibration.of_one_label(p) if self._is_of_one_label else p

    def searched_top_k(
        self,
        features: Any,
        k: int = 5,
        share: float = 0.05,
        progress: Progress = SILENT,
        threads: int | None = None,
    ) -> Iterator[Best]:
        """`iter_top_k` with only this share of all labels scored for each row.

        Builds an index, and reports the recall of the true k best labels on the first RECALLED
        rows. Probabilities sum to one over the labels scored. Raises `EmbedxError` if labels cannot
        be searched.
        """
        features, n_unknown = familiarity.split_unknown_words(features, self.schema.n_features)
        self._check_can_be_searched(features)
        threads = threads or usable_cores()
        k = min(k, self.n_labels)
        table = self._table_with_biases()
        n_labels, dim = table.shape
        search = top_k_spec(n_labels, share, k)
        progress.note(f"building an index of {n_labels:,} labels")
        index = build_index(table, n_labels, dim, search, np.random.default_rng(0), threads)

        def best(rows: slice) -> Best:
            h = np.asarray(self.inputs(self.prepared(features[rows])), float32)
            h = np.column_stack([h, np.ones(len(h), float32)])
            ids, z, log_sum = search_top_k(index, search, h, k, threads)
            if not self.has_independent_labels:
                z = z - log_sum[:, None]
            familiar = self.row_familiarity(features, n_unknown, rows)
            f = familiarity.factors(self.arrays, familiar, z)
            return ids, familiarity.scaled_probabilities(
                self.probabilities(z), f, familiar, self._label_shares, ids
            )

        first_rows = slice(RECALLED)
        recall = self._recall(features[first_rows], best(first_rows)[0])
        progress.note(
            f"{search.n_scored:,} of {self.n_labels:,} labels are scored for each row, which finds"
            f" {100 * recall:.1f} % of the best {k}; probabilities are relative to the labels"
            " scored"
        )
        blocks = in_blocks(features.shape[0], SEARCHED_ROWS, best, progress)
        return (block_best for _, block_best in blocks)

    def _table_with_biases(self) -> ndarray:
        """Output vectors with their biases, or zeros, float32 (rows, dim + 1), for inputs that end
        with 1.
        """
        output = self._output_vectors
        bias = self.arrays.get("bias", np.zeros(len(output), float32))
        return np.ascontiguousarray(np.column_stack([output, bias]), float32)

    def _recall(self, features: Any, ids: ndarray) -> float:
        """The share of the true best labels that are among `ids`, (n, k)."""
        true_ids, _ = top_k(self.scores(self.prepared(features)), ids.shape[1])
        pairs = zip(true_ids, ids, strict=True)
        return float(np.mean([np.isin(true_row, row).mean() for true_row, row in pairs]))

    def _check_can_be_searched(self, features: Any) -> None:
        """Raise `EmbedxError` if an index cannot find the best labels of this model."""
        if not self.objective.traits.ranks_by_score:
            problem = f"{self.objective.name} does not rank labels by their scores alone"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if self.has_label_tree:
            problem = "the model finds the best labels through its own tree"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if self.has_sparse_weights:
            problem = "needs dense weights; those of this model are sparse"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if "variance" in self.arrays:
            problem = "an index has no probabilities averaged over weights"
            raise SettingError("search", True, problem, LEAVE_OUT)
        if "hidden" not in self.arrays and hasattr(features, "indptr"):
            problem = "needs dense features or a model with a hidden layer"
            raise SettingError("search", True, problem, LEAVE_OUT)

    # ---- neighbours

    @property
    def has_neighbours(self) -> bool:
        """Whether probabilities are blended with the labels of the nearest training rows."""
        return neighbours.INDEX[0] in self.arrays

    @cached_property
    def neighbours(self) -> Neighbours:
        """The rows that are searched. Raises `EmbedxError` where their arrays do not fit."""
        return neighbours.neighbours_of(self.arrays, self.schema.n_features, self.n_labels)

    def _with_neighbours(
        self, features: Any, ids: ndarray, p: ndarray, k: int, threads: int | None
    ) -> Best:
        """The k best labels and their probabilities, blended with those of neighbours."""
        blend = Blend(*self.arrays["neighbour_blend"])
        threads = threads_for(features, threads)
        near = self.neighbours.nearest(self.prepared(features), int(blend.n), threads)
        ids, scores = self.neighbours.blended(ids, p, near, blend, k, threads)
        if "neighbour_calibration" in self.arrays:
            return ids, self._calibrated("neighbour_calibration", scores)
        return ids, scores

    def parameters_changed(self) -> None:
        """Forget what was derived from the parameters; to be called when `arrays` has changed."""
        super().parameters_changed()
        self.neighbours_changed()

    def neighbours_changed(self) -> None:
        """Forget the rows that are searched; to be called when their arrays have changed."""
        vars(self).pop("neighbours", None)

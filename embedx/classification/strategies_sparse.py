"""How classification trains output rows that have numbers for the features of their own examples alone.

SampledSparse   a few output rows for each example, or those on a tree's path   engine/sparse_rows.py
FullSparse      every output row for each example                               engine/full_sparse.py
"""

import abc
from typing import Any, ClassVar

import numpy as np

from embedx.classification.label_tree import LabelTree, arrays_of
from embedx.classification.strategies import Classification, Full, FullTiled, Retrieved, Sampled
from embedx.engine import full, full_sparse, sparse_rows
from embedx.engine.examples import Examples
from embedx.engine.label_tiles import Lists, lists_of
from embedx.engine.sparse_levels import Level
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler


def strategy_for(objective: Objective, settings: Any, sampler: Sampler, examples: Examples) -> "type[Classification]":
    """The strategy that suits the resolved settings."""
    if sampler.candidates == "retrieved":
        return Retrieved
    if settings.weights == "sparse":
        return FullSparse if sampler.candidates == "all" else SampledSparse
    if sampler.candidates != "all":
        return Sampled
    is_sparse_linear = examples.dense.size == 0 and not settings.hidden
    by_tiles = objective.separable and is_sparse_linear and settings.labels != "one" and not settings.max_norm
    return FullTiled if by_tiles else Full


class SparseRows(Classification):
    """What strategies have in common whose output rows have numbers for the features of their own examples alone."""

    slots: sparse_rows.Slots
    make_slots: ClassVar[Any]  # of `sparse_rows`

    def make_outputs(self) -> None:
        """Set `outputs` and `slots`."""
        own = examples_of_rows(self.examples, self.sampler, self.n_rows)
        support = sparse_rows.support_of(self.examples, own, self.n_features)
        self.slots = type(self).make_slots(self.examples, own, support, self.has_bias)
        self.outputs = sparse_rows.new_sparse_table(self.slots, self.n_rows, self.optimizer)

    @abc.abstractmethod
    def slots_of_bias(self) -> np.ndarray:
        """int64 (n_rows,): the slots of the biases."""

    @abc.abstractmethod
    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """The feature, row and value of each weight, by feature; of those that are dropped too."""

    def decay_outputs(self, clock: float) -> None:
        pass  # --l2 does not apply

    def set_bias(self, bias: np.ndarray) -> None:
        self.outputs.rows[0, self.slots_of_bias()] = bias

    def arrays_of_outputs(self) -> dict[str, np.ndarray]:
        """The weights above the threshold, as the level of a tree in which all rows are children of the root."""
        feature, row, value = self.numbers()
        kept = ~(np.abs(value) <= self.settings.weight_threshold)  # with what is no number
        features, n_of_feature = np.unique(feature[kept], return_counts=True)
        bias = self.outputs.rows[0, self.slots_of_bias()] if self.has_bias else np.zeros(self.n_rows, dtype=np.float32)
        level = Level(
            np.array([0, self.n_rows]), np.array([0, len(features)]), features.astype(np.int32),
            np.concatenate([[0], np.cumsum(n_of_feature)]), row[kept].astype(np.int32), value[kept], bias,
        )  # fmt: skip
        return arrays_of([LabelTree([level], np.arange(self.n_rows, dtype=np.int32))])


def examples_of_rows(examples: Examples, sampler: Sampler, n_rows: int) -> Lists:
    """The examples that have each output row among their positives, or on the way to these."""
    example = np.repeat(np.arange(len(examples.label_offsets) - 1), np.diff(examples.label_offsets))
    if sampler.candidates != "path":
        return lists_of(examples.label_ids, example, n_rows)
    paths = sampler.data(0)
    lengths = np.diff(paths.offsets)[examples.label_ids]
    first = np.repeat(paths.offsets[examples.label_ids] - np.cumsum(lengths) + lengths, lengths)
    return lists_of(paths.rows[first + np.arange(len(first))], np.repeat(example, lengths), n_rows)


class SampledSparse(SparseRows, Sampled):
    """A few rows for each example, which have numbers for the features of their own examples alone."""

    make_slots = sparse_rows.slots_by_row

    def slots_of_bias(self) -> np.ndarray:
        return np.asarray(self.slots.offsets[1:] - 1)

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        feature, value = self.slots.of_slot, self.outputs.rows[0]
        row = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(self.slots.offsets))
        there = np.flatnonzero((feature >= 0) & (feature < self.n_features))
        there = there[np.argsort(feature[there], kind="stable")]
        return feature[there], row[there], value[there]


class FullSparse(SparseRows, Full):
    """All rows for each example, which have numbers for the features of their own examples alone."""

    make_slots = sparse_rows.slots_by_feature

    def slots_of_bias(self) -> np.ndarray:
        return np.arange(self.slots.offsets[self.n_features], self.slots.offsets[-1])

    def numbers(self) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        n = int(self.slots.offsets[self.n_features])
        feature = np.repeat(np.arange(self.n_features), np.diff(self.slots.offsets[: self.n_features + 1]))
        return feature, self.slots.of_slot[:n], self.outputs.rows[0, :n]

    def prepare(self) -> None:
        objective, settings = self.objective, self.settings
        self.make_outputs()
        self.steps = full_sparse.FullSparseSteps(
            objective.coefficients, full.Layer(self.hidden, self.outputs, self.local_state, self.n_updates), self.slots,
            self.examples, self.optimizer,
            n_rows=self.n_rows, n_features=self.n_features, batch_size=self.batch, has_bias=self.has_bias,
            positives=objective.positives, keeps_accidental_hits=objective.keeps_accidental_hits,
            one_label=settings.labels == "one", uniforms_width=objective.uniforms_width,
            uses_score_gain=objective.uses_score_gain, constants=objective.constants(self.n_rows, self.n_rows),
            threads=self.threads, parts=self.parts, in_turn=objective.kind == "proximal",
        )  # fmt: skip
        self.workers = [None]
        self.stretch = self.batch

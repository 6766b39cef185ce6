"""Output rows that have weights for the features of their own examples alone (see engine/sparse_rows.py)."""

from typing import Any

import numpy as np

from embedx.classification.label_tree import LabelTree, arrays_of
from embedx.classification.strategies import Classification, Full, FullTiled, Retrieved, Sampled
from embedx.engine import sparse_rows
from embedx.engine.examples import Examples
from embedx.engine.label_tiles import Lists, lists_of
from embedx.engine.sparse_levels import Level
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler


def strategy_for(objective: Objective, settings: Any, sampler: Sampler, examples: Examples) -> "type[Classification]":
    """The strategy for resolved settings."""
    if sampler.candidates == "retrieved":
        return Retrieved
    if sampler.candidates != "all":
        return SampledSparse if settings.weights == "sparse" else Sampled
    is_sparse_linear = examples.dense.size == 0 and not settings.hidden
    by_tiles = objective.separable and is_sparse_linear and settings.labels != "one" and not settings.max_norm
    return FullTiled if by_tiles else Full


def examples_of_rows(examples: Examples, sampler: Sampler, n_rows: int) -> Lists:
    """The examples that have each output row among their positives, or on the way to these."""
    example = np.repeat(np.arange(len(examples.label_offsets) - 1), np.diff(examples.label_offsets))
    if sampler.candidates != "path":
        return lists_of(examples.label_ids, example, n_rows)
    paths = sampler.data(0)
    lengths = np.diff(paths.offsets)[examples.label_ids]
    first = np.repeat(paths.offsets[examples.label_ids] - np.cumsum(lengths) + lengths, lengths)
    return lists_of(paths.rows[first + np.arange(len(first))], np.repeat(example, lengths), n_rows)


class SampledSparse(Sampled):
    """Sampled or path candidates, whose rows have weights for the features of their own examples alone."""

    def make_outputs(self) -> None:
        own = examples_of_rows(self.examples, self.sampler, self.n_rows)
        support = sparse_rows.support_of(self.examples, own, self.n_features)
        self.slots = sparse_rows.slots_by_row(self.examples, own, support, self.has_bias)
        self.outputs = sparse_rows.new_sparse_table(self.slots, self.n_rows, self.optimizer)

    def slots_of_bias(self) -> np.ndarray:
        """int64 (n_rows,): the slots of the biases."""
        return np.asarray(self.slots.offsets[1:] - 1)

    def decay_outputs(self, clock: float) -> None:
        pass  # --l2 does not apply

    def set_bias(self, bias: np.ndarray) -> None:
        self.outputs.rows[0, self.slots_of_bias()] = bias

    def arrays_of_outputs(self) -> dict[str, np.ndarray]:
        """The weights above the threshold, as the level of a tree in which all rows are children of the root."""
        feature, value = self.slots.of_slot, self.outputs.rows[0]
        row = np.repeat(np.arange(self.n_rows, dtype=np.int32), np.diff(self.slots.offsets))
        is_weight = (feature >= 0) & (feature < self.n_features) & ~(np.abs(value) <= self.settings.weight_threshold)  # or NaN
        kept = np.flatnonzero(is_weight)
        kept = kept[np.argsort(feature[kept], kind="stable")]
        features, n_of_feature = np.unique(feature[kept], return_counts=True)
        bias = self.outputs.rows[0, self.slots_of_bias()] if self.has_bias else np.zeros(self.n_rows, dtype=np.float32)
        level = Level(
            np.array([0, self.n_rows]), np.array([0, len(features)]), features.astype(np.int32),
            np.concatenate([[0], np.cumsum(n_of_feature)]), row[kept], value[kept], bias,
        )  # fmt: skip
        return arrays_of([LabelTree([level], np.arange(self.n_rows, dtype=np.int32))])

"""The training steps of classification where every output row competes, and has numbers for some features alone.

As `full`, but what one feature says of the rows that have it is an inverted list (`sparse_rows`): scores and steps visit the
lists of an example's features alone. Threads share the examples for the scores, and the features for the steps.
"""

from typing import Any

import numpy as np

from embedx.engine.examples import Examples, new_feature_workspace
from embedx.engine.full import TILE, FullSteps, Layer
from embedx.engine.sparse_rows import (
    Slots,
    add_squares,
    all_scores,
    forget_features,
    list_features,
    new_feature_lists,
    new_slot_steps,
    rates_of_rows,
    step_of_features,
)
from embedx.optimizers.contract import ROW, UpdateRule


class FullSparseSteps(FullSteps):
    """Takes steps in which every output row competes, on sparse rows; without weight decay and a longest row."""

    def __init__(
        self,
        coefficients: Any,
        layer: Layer,
        slots: Slots,
        examples: Examples,
        optimizer: UpdateRule,
        *,
        n_rows: int,
        n_features: int,
        batch_size: int,
        has_bias: bool,
        **how: Any,
    ) -> None:
        shape = (n_features + has_bias, -(-n_rows // TILE) * TILE)
        super().__init__(
            coefficients, layer, examples, optimizer, n_rows=n_rows, has_bias=has_bias, sparse_gradient=False,
            features=new_feature_workspace(examples, 0, 0, 0), shape=shape, **how,
        )  # fmt: skip
        self.slots = slots
        self.gradients = []
        self.lists = new_feature_lists(examples, shape[0], batch_size)
        self.slot_steps = [new_slot_steps(n_rows) for _ in range(self.parts)]
        self.squares = np.zeros((self.parts, n_rows), dtype=np.float32)
        self.rates = np.zeros(n_rows, dtype=np.float32)

    def _touched(self, order: np.ndarray, begin: int, end: int) -> tuple[np.ndarray, int]:
        n = list_features(self.examples, order, begin, end, self.bias_row, self.lists)
        return self.lists.groups.touched, n

    def _scores(self, order: np.ndarray, begin: int, end: int, h: np.ndarray) -> np.ndarray:
        if len(self.z) < end - begin:
            self.z = np.zeros((end - begin, self.stride), dtype=np.float32)
        z = self.z[: end - begin]
        outputs = self.layer.outputs
        self._in_parts(
            end - begin,
            lambda w, a, b: all_scores(
                self.examples, order, begin, a, b, self.slots, outputs, self.bias_row, self.n_rows, z
            ),
        )  # fmt: skip
        return z

    def _sparse_step(
        self, order: np.ndarray, begin: int, end: int, z: np.ndarray, touched: np.ndarray, n_touched: int, rate: np.float32
    ) -> None:
        outputs, lists, slots, optimizer = self.layer.outputs, self.lists, self.slots, self.optimizer
        if outputs.state_of == ROW:
            self.squares[:] = 0
            self._in_parts(n_touched, lambda w, a, b: add_squares(lists, slots, z, a, b, self.slot_steps[w], self.squares[w]))
            rates_of_rows(outputs, self.squares.sum(axis=0), optimizer, rate, self.rates)
        self._in_parts(
            n_touched,
            lambda w, a, b: step_of_features(outputs, lists, slots, z, a, b, self.slot_steps[w], optimizer, rate, self.rates),
        )
        forget_features(lists, n_touched)

    def memory(self) -> list[Any]:
        return [self.z, self.lists, self.slot_steps, self.squares, self.rates]

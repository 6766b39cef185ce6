"""Minibatches with every output for each example: one class for each kind of features and loss.

Full        engine/full.py   dense features
FullSparse  engine/full.py   sparse features
FullTiled   engine/dense_tiles.py  the same where the loss is a sum over labels
"""

from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx.classification.minibatches import MinibatchTraining
from embedx.engine import dense_tiles, full, tiles, weighted
from embedx.engine.examples import Examples, examples_at
from embedx.engine.loading import compile_function, load_kernel
from embedx.engine.shared import Chunk
from embedx.kernels.batch import COEFFICIENTS, new_batch
from embedx.optimizers.contract import new_table
from embedx.optimizers.decay import clock_step, decay_rows
from embedx.runtime.progress import Progress

# Examples in a chunk, which is trained a few labels at a time.
TILED_CHUNK = 8192


class Full(MinibatchTraining):
    """All outputs for each example: large matrix products, by threads that share a step."""

    steps: full.FullSteps
    kind: type[full.FullSteps] = full.DenseSteps

    def prepare(self) -> None:
        self.workers = [None]
        self.make_outputs()
        self.shared = self.share()
        self.make_steps()

    def make_steps(self) -> None:
        """Set `steps` and the size of a chunk."""
        self.set_chunk(self.batch)
        self.steps = self.kind(
            self.objective.coefficients,
            self.shared,
            threads=self.threads,
            parts=self.parts,
            sparse_gradient=self.objective.traits.sparse_gradient,
        )

    def compile(self, progress: Progress) -> None:
        coefficients = self.objective.coefficients
        weights = self.examples.weight
        if not weights.size:
            compile_function(coefficients, COEFFICIENTS)
            return
        terms = (new_batch(1, 1), self.local_state, self.shared.constants, 1, 1, float32(0))
        kernel = weighted.weighted_batch
        pointers = load_kernel(kernel, coefficients, None, (weights, *terms), progress)
        self.steps.coefficients = partial(kernel, *pointers, weights)

    def workspaces(self) -> Any:
        return self.steps.buffers

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        rng = np.random.default_rng([self.settings.seed, chunk.epoch, chunk.start])
        loss, terms = self.steps.step(
            chunk.order[chunk.start : chunk.stop], float(chunk.lr), chunk.decay_clock, rng
        )
        return loss, terms, float(clock_step(self.optimizer, chunk.lr))


class FullSparse(Full):
    """All outputs for sparse features: the table is transposed, and its columns padded to
    whole tiles.
    """

    kind = full.SparseSteps

    def make_outputs(self) -> None:
        n_columns = -(-self.n_outputs // full.TILE_WIDTH) * full.TILE_WIDTH
        self.outputs = new_table(self.dim, n_columns, self.optimizer)

    def decay_outputs(self, clock: float) -> None:
        decay_rows(self.outputs, 0, self.n_inputs, self.n_outputs, self.optimizer, clock)

    @property
    def output_vectors(self) -> ndarray:
        return self.outputs.rows[:, : self.n_outputs].T


class FullTiled(FullSparse):
    """All outputs of a separable loss: a few at a time, over a chunk of minibatches."""

    def make_steps(self) -> None:
        self.set_chunk(TILED_CHUNK)
        self.tile_plan = tiles.TilePlan(
            self.batch,
            self.sum_over,
            self.has_bias,
            self.plan.keeps_accidental_hits,
            self.plan.positives,
            is_sparse=False,
            optimizer=self.optimizer,
            constants=self.shared.constants,
            lr=float32(0),
        )
        self.tile_workspaces = [
            tiles.new_workspace(
                min(self.examples_per_chunk, self.n),
                0,
                self.dim - 1,
                self.batch,
                self.optimizer,
                is_sparse=False,
            )
            for _ in range(self.parts)
        ]
        self.pool = ThreadPoolExecutor(self.threads)

    def compile(self, progress: Progress) -> None:
        arguments = self._arguments(0, self.chunk_of(0, 0, 0, 0.0))
        self.functions = load_kernel(
            dense_tiles.train_columns, self.objective.coefficients, None, arguments, progress
        )

    def workspaces(self) -> Any:
        return [workspace.steps for workspace in self.tile_workspaces]

    def _arguments(
        self, part: int, chunk: Chunk, in_order: Examples | None = None
    ) -> tuple[Any, ...]:
        n_tiles = self.outputs.rows.shape[1] // tiles.TILE_WIDTH
        first = n_tiles * part // self.parts * tiles.TILE_WIDTH
        last = n_tiles * (part + 1) // self.parts * tiles.TILE_WIDTH
        plan = self.tile_plan._replace(lr=chunk.lr)
        return (
            in_order or self.examples,
            self.shared,
            plan,
            self.tile_workspaces[part],
            first,
            last,
            chunk.decay_clock,
        )

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        in_order = examples_at(self.examples, chunk.order[chunk.start : chunk.stop])

        def work(part: int) -> float:
            return float(
                dense_tiles.train_columns(*self.functions, *self._arguments(part, chunk, in_order))
            )

        loss = sum(self.pool.map(work, range(self.parts)))
        n_terms = int(np.count_nonzero(np.diff(in_order.label_offsets)))
        n_steps = -(-(chunk.stop - chunk.start) // self.batch)
        return loss, n_terms, n_steps * float(clock_step(self.optimizer, chunk.lr))

    def decay_outputs(self, clock: float) -> None:
        """Do nothing: no decay is pending between chunks, because each tile applies its own."""

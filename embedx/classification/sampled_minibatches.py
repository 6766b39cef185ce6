"""Minibatches with a few outputs for each example: one class for each choice of these.

Sampled        engine/sampled.py      drawn, on a path of a tree, or all of a few
SampledSparse  engine/sparse_rows.py  the same, with sparse weights
Retrieved      engine/retrieved.py    those of the highest scores, found by an index

Sparse weights of losses that are sums over labels are trained by labelwise.py.
"""

from typing import Any

import numpy as np
from numpy import float32, int32, ndarray

from embedx.classification.label_tree import LabelTree, arrays_of
from embedx.classification.minibatches import MinibatchTraining
from embedx.engine import retrieved, sampled, sparse_rows
from embedx.engine.examples import Csr, Examples, csr_of
from embedx.engine.loading import load_kernel
from embedx.engine.shared import Chunk
from embedx.engine.sparse_levels import TileWeights, level_of
from embedx.labeled.data import places_of
from embedx.runtime.progress import Progress
from embedx.samplers.contract import Sampler
from embedx.search.index import empty_index
from embedx.search.message_passing import new_message_workspace
from embedx.search.query import Searcher, new_query_workspace
from embedx.search.updater import IndexUpdater, new_stale_rows
from embedx.training.state import TrainState

# Examples between two looks at the clock, where steps are small.
CHUNK = 1024
# The same where outputs are retrieved, from an index that is as old as its chunk.
RETRIEVED_CHUNK = 64
# Outputs that a minibatch may retrieve.
MAX_RETRIEVED = 2**23


class Sampled(MinibatchTraining):
    """A few outputs for each example, by threads that share the tables."""

    has_sparse_rows = False

    def prepare(self) -> None:
        scores_all = self.sampler.candidates == "all"
        n_draws = min(self.objective.negatives, len(self.counts))
        if scores_all:
            n_draws = self.n_outputs
        self.sampler_data = self.sampler.data(n_draws)
        self.make_outputs()
        self.shared = self.share(
            has_sparse_rows=self.has_sparse_rows,
            on_path=self.sampler.candidates == "path",
            counts_repeats=self.sampler.replacement,
            n_draws=n_draws,
        )
        longest_path = int(np.diff(self.sampler_data.offsets).max(initial=1))
        n_workers = 1 if self.settings.deterministic or scores_all else self.threads
        self.workers = [
            sampled.new_workspace(self.plan, self.examples, longest_path) for _ in range(n_workers)
        ]
        n_examples = CHUNK
        if scores_all:
            # Where labels are few, there may be few examples as well.
            n_examples = min(CHUNK, self.n // 10)
        self.set_chunk(n_examples)

    def compile(self, progress: Progress) -> None:
        self.compile_sampled(progress, self.workers[0])

    def compile_sampled(self, progress: Progress, workspace: sampled.SampledWorkspace) -> None:
        """Compile what trains outputs that are drawn."""
        arguments = (self.shared, workspace, self.chunk_of(0, 0, 0, 0.0))
        self.functions = load_kernel(
            sampled.train_chunk, self.objective.coefficients, self.sampler, arguments, progress
        )

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        loss, terms, after = sampled.train_chunk(*self.functions, self.shared, worker, chunk)
        return loss, terms, after - chunk.decay_clock


class SampledSparse(Sampled):
    """Sampled or path candidates, which have weights for the features of their own examples
    alone.
    """

    has_sparse_rows = True

    def make_outputs(self) -> None:
        by_row = examples_of_outputs(self.examples, self.sampler, self.n_outputs)
        self.slots = sparse_rows.slots_by_row(self.examples, by_row, self.n_features, self.has_bias)
        self.outputs = sparse_rows.new_sparse_table(self.slots, self.n_outputs, self.optimizer)

    def set_bias(self, bias: ndarray) -> None:
        self.outputs.rows[0, self.slots.indptr[1:] - 1] = bias

    def arrays(self) -> dict[str, ndarray]:
        """The weights above the threshold, as a tree of a single level."""
        feature = self.slots.indices
        value = self.outputs.rows[0]
        row = np.repeat(np.arange(self.n_outputs, dtype=int32), np.diff(self.slots.indptr))
        is_small = np.abs(value) <= self.settings.weight_threshold
        # NaN is not small: it is kept, so that divergence is seen.
        is_weight = (feature < self.n_features) & ~is_small
        bias = np.zeros(self.n_outputs, float32)
        if self.has_bias:
            bias = value[self.slots.indptr[1:] - 1]
        weights = TileWeights(0, 0, feature[is_weight], row[is_weight], value[is_weight])
        edges = np.array([0, self.n_outputs])
        level = level_of(edges, [weights], bias, self.n_features, self.threads)
        return arrays_of([LabelTree([level], np.arange(self.n_outputs, dtype=int32))])


def examples_of_outputs(examples: Examples, sampler: Sampler, n_outputs: int) -> Csr:
    """The examples that have each output among their positives, or on the paths to these."""
    example = np.repeat(np.arange(len(examples.label_offsets) - 1), np.diff(examples.label_offsets))
    if sampler.candidates != "path":
        return csr_of(examples.label_ids, example, n_outputs)
    paths = sampler.data(0)
    places, ends = places_of(paths.offsets, examples.label_ids)
    return csr_of(paths.rows[places], np.repeat(example, np.diff(ends)), n_outputs)


class Retrieved(Sampled):
    """The outputs that an index finds, after a warm-up that draws them: untrained scores are all
    alike.
    """

    def prepare(self) -> None:
        super().prepare()
        settings = self.setup.search
        assert settings is not None
        search = self.objective.search(len(self.counts)) or settings.spec(len(self.counts))
        self.search = search = search.for_columns(self.dim)
        max_labels = int(np.diff(self.examples.label_offsets).max(initial=1))
        max_retrieved = min(
            search.blocks * search.n_scored,
            self.n_outputs - 1,
            max(MAX_RETRIEVED // self.batch - max_labels, 1),
        )
        traits = self.objective.traits
        n_tail = self.plan.n_draws if traits.unbiased or traits.has_label_tail else 0
        # The other labels of a row are certain negatives where each of them has a term.
        plan = self.plan._replace(n_draws=max_retrieved + n_tail + max_labels - 1)
        constants = self.objective.constants(max_retrieved, len(self.counts))
        self.retrieving = self.shared._replace(constants=constants, plan=plan)
        workers = []
        for drawing_workspace in self.workers:
            workspace = sampled.new_workspace(plan, self.examples, 1)
            retrieval = retrieved.Retrieval(
                Searcher(
                    empty_index(search.blocks),
                    search,
                    new_query_workspace(self.n_outputs, search),
                ),
                new_message_workspace(self.n_outputs, search, workspace.rows.shape[1]),
                new_stale_rows(self.n_outputs),
                n_tail,
            )
            workers.append((drawing_workspace, workspace, retrieval))
        self.workers = workers
        self.set_chunk(RETRIEVED_CHUNK)
        self.drawn_first = settings.warm_up * self.n

    def compile(self, progress: Progress) -> None:
        self.updater = IndexUpdater(
            self.outputs.rows,
            self.n_outputs,
            self.dim,
            self.search,
            seed=self.settings.seed,
            threads=self.threads,
            progress=progress,
        )
        drawing_workspace, workspace, retrieval = self.workers[0]
        if self.drawn_first > 0:
            self.compile_sampled(progress, drawing_workspace)
        arguments = (self.retrieving, workspace, retrieval, self.chunk_of(0, 0, 0, 0.0))
        self.retrieved_functions = load_kernel(
            retrieved.train_chunk, self.objective.coefficients, self.sampler, arguments, progress
        )

    def phase(self, number: int) -> int:
        epoch, chunk = divmod(number, self.n_chunks)
        return int(epoch * self.n + chunk * self.examples_per_chunk >= self.drawn_first)

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        drawing_workspace, workspace, retrieval = worker
        if chunk.epoch * self.n + chunk.start < self.drawn_first:
            return super().train_examples(drawing_workspace, chunk)
        searcher = retrieval.searcher._replace(row_index=self.updater.current())
        retrieval = retrieval._replace(searcher=searcher)
        loss, terms, after = retrieved.train_chunk(
            *self.retrieved_functions, self.retrieving, workspace, retrieval, chunk
        )
        self.updater.update(retrieval.stale)
        return loss, terms, after - chunk.decay_clock

    def state(self) -> TrainState:
        state = super().state()
        state.include(self.updater.state())
        return state

    def facts(self) -> dict[str, Any]:
        return {
            "index_builds": self.updater.n_builds,
            "index_seconds": round(self.updater.build_seconds, 3),
        }

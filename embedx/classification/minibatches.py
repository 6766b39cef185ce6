"""Training on minibatches of labelled examples: their order, chunks of them, losses at rate 0,
weight decay, and what a checkpoint keeps.

sampled_minibatches.py trains a few outputs for each example, full_minibatches.py every output.
Sampled outputs are trained by one thread with --deterministic, and always where all of a few
outputs are candidates: threads would overwrite each other's updates, which costs likelihood.
Otherwise threads share a minibatch in a fixed number of parts, so that sums do not depend on their
number.
"""

import abc
import threading
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.classification.initial_values import (
    initial_biases,
    initial_hidden_state,
    initial_state,
    weighted_counts,
)
from embedx.classification.settings import EUCLIDEAN, ClassifySettings
from embedx.engine import sparse_rows
from embedx.engine.distances import EXTRA, write_long_rows
from embedx.engine.examples import Csr, Examples
from embedx.engine.select import POSITIVES
from embedx.engine.settings import DETERMINISTIC_PARTS
from embedx.engine.shared import Chunk, Plan, Shared
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labels, offsets_of
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import Table, UpdateRule, new_table
from embedx.optimizers.decay import decay_all
from embedx.runtime.memory import THREADS, MemoryPlan, plan_memory
from embedx.runtime.random_streams import INITIAL_PARAMETERS
from embedx.samplers.contract import Sampler, new_data
from embedx.samplers.search import IndexSettings
from embedx.training.schedule import orders
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# The loss before training is estimated from about N_SAMPLED examples, in at most MAX_STRATA strata
# of at least MIN_OF_STRATUM examples.
N_SAMPLED = 1024
MAX_STRATA = 64
MIN_OF_STRATUM = 4


class StepSetup(NamedTuple):
    """What training on minibatches is made of, which is sent to the workers of a cluster.

    settings  resolved
    sampler   the sampler that draws; with a search, the one for its warm-up
    search    settings of the search, if there is one
    counts    int64 (n_labels,): number of occurrences of each label
    """

    objective: Objective
    settings: ClassifySettings
    sampler: Sampler
    examples: Examples
    optimizer: UpdateRule
    counts: ndarray
    n_features: int
    search: IndexSettings | None = None


class MinibatchTraining(Strategy):
    """Trains on minibatches of labelled examples, in an order that is shuffled in each epoch."""

    workers: list[Any]
    shared: Shared
    # The output vectors, as the strategy stores them.
    outputs: Table

    def __init__(self, setup: StepSetup) -> None:
        objective = setup.objective
        settings = setup.settings
        examples = setup.examples
        self.setup = setup
        self.objective = objective
        self.settings = settings
        self.sampler = setup.sampler
        self.examples = examples
        self.optimizer = setup.optimizer
        self.counts = setup.counts
        self.n_features = setup.n_features
        self.n = len(examples.label_offsets) - 1
        self.n_outputs = objective.n_outputs(len(self.counts))
        self.has_bias = settings.bias != "none"
        self.by_distance = settings.score == EUCLIDEAN
        self.n_inputs = settings.hidden or self.n_features
        # Size of an output vector, with the numbers for distances and its bias.
        self.dim = self.n_inputs + EXTRA * self.by_distance + self.has_bias
        self.batch = min(int(settings.batch_size or self.n), self.n)
        self.sum_over = float(self.n) if settings.gradient_scale == "sum" else 1.0
        self.threads = settings.n_threads
        # Number of parts of a step that threads share.
        self.parts = DETERMINISTIC_PARTS if settings.deterministic else self.threads
        n_hidden_rows = self.n_features if settings.hidden else 0
        self.hidden = new_table(n_hidden_rows, self.dim, self.optimizer)
        self.local_state = np.zeros((self.n, objective.state_width), float32)
        self.n_updates = np.zeros(self.n if objective.state_width else 1, int64)
        # The clock of weight decay, which every thread advances.
        self.clock = np.zeros(1)
        self.clock_lock = threading.Lock()
        self.order_of = orders(self.n, settings.seed)
        self.slots = Csr(np.zeros(1, int64), np.zeros(0, int32))
        self.sampler_data = new_data()
        has_terms = (
            objective.positives == "single"
            and settings.labels != "one"
            and np.diff(examples.label_offsets).max() > 1
        )
        self.loss_unit = objective.loss_unit("label" if has_terms else "row")
        self.prepare()
        # Number of examples for which there are buffers.
        self.max_examples_per_chunk = self.examples_per_chunk

    def set_chunk(self, n_examples: int) -> None:
        """Set the size of chunks: at most `n_examples`, but at least one minibatch."""
        self.examples_per_chunk = self.batch * max(1, n_examples // self.batch)
        self.n_chunks = -(-self.n // self.examples_per_chunk)

    def shorten_chunks(self, n_examples: int) -> None:
        """`set_chunk`, if that makes chunks shorter."""
        self.set_chunk(min(self.max_examples_per_chunk, n_examples))

    def initialise(self) -> None:
        """Write initial values to the tables, which take no memory before."""
        width = self.settings.hidden
        if width:
            rng = np.random.default_rng([self.settings.seed, INITIAL_PARAMETERS])
            uniform = rng.uniform(-1, 1, (self.n_features, width))
            self.hidden.rows[:, :width] = uniform / np.sqrt(width)
        arguments = (self.settings, self.optimizer, self.examples, self.batch)
        self.hidden.state.fill(initial_hidden_state(*arguments))
        self.outputs.state.fill(initial_state(*arguments))
        if self.has_bias:
            self.set_bias(self.biases_by(str(self.settings.bias)))

    def biases_by(self, bias: str) -> ndarray:
        """Initial biases, for a value of the setting `bias`."""
        labels = Labels(self.examples.label_offsets, self.examples.label_ids)
        counts = weighted_counts(labels, self.examples.weight, self.counts)
        return initial_biases(self.objective, bias, counts, self.n, self.sampler.noise)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Allocate; set `shared`, `workers` and `outputs`, and the chunk."""

    @abc.abstractmethod
    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        """Train on a chunk; return the summed loss, the number of its terms, and the advance of the
        decay clock.
        """

    def share(self, **drawing: Any) -> Shared:
        """The tables and the plan, with the settings of `drawing` if candidates are drawn."""
        settings = self.settings
        objective = self.objective
        has_hidden = bool(settings.hidden)
        plan = Plan(
            n_outputs=self.n_outputs,
            n_features=self.n_features,
            n_inputs=self.n_inputs,
            dim=self.dim,
            has_bias=self.has_bias,
            by_distance=self.by_distance,
            batch_size=self.batch,
            has_hidden=has_hidden,
            has_h=has_hidden or self.examples.dense.size > 0,
            positives=POSITIVES[objective.positives],
            keeps_accidental_hits=objective.traits.keeps_accidental_hits,
            uses_log_expected_count=objective.traits.uses_log_expected_count,
            uses_score_gain=objective.traits.uses_score_gain,
            uniforms_width=objective.uniforms_width,
            sum_over=self.sum_over,
            one_label=settings.labels == "one",
            is_proximal=objective.step == "proximal",
            **drawing,
        )
        n_candidates = max(drawing.get("n_draws", self.n_outputs), 1)
        constants = objective.constants(n_candidates, len(self.counts))
        return Shared(
            self.hidden,
            self.outputs,
            sparse_rows.flat(self.outputs),
            self.local_state,
            self.n_updates,
            self.slots,
            self.examples,
            self.sampler_data,
            constants,
            self.optimizer,
            plan,
        )

    @property
    def plan(self) -> Plan:
        return self.shared.plan

    def decay_outputs(self, clock: float) -> None:
        """Apply pending weight decay to the output vectors."""
        decay_all(self.outputs, self.n_inputs, self.optimizer, clock)
        self.complete_rows()

    def complete_rows(self) -> None:
        """Update what depends on the output vectors, after they were written to."""
        if self.by_distance:
            write_long_rows(self.outputs.rows, self.n_inputs)

    def make_outputs(self) -> None:
        """Set `outputs`."""
        self.outputs = new_table(self.n_outputs, self.dim, self.optimizer)

    @property
    def output_vectors(self) -> ndarray:
        """The output vectors with their biases, float32 (n_outputs, dim): a view of the table."""
        return self.outputs.rows

    def set_bias(self, bias: ndarray) -> None:
        """Write initial biases, float32 (n_outputs,)."""
        self.output_vectors[:, self.dim - 1] = bias

    def chunk_of(self, epoch: int, start: int, stop: int, lr: float) -> Chunk:
        """A range of examples as the kernels' `Chunk`."""
        key = stream_key(self.settings.seed, epoch)
        return Chunk(
            self.order_of(epoch), epoch, start, stop, float32(lr), float(self.clock[0]), key
        )

    def train_chunk(self, worker: Any, epoch: int, number: int, lr: float) -> Tally:
        start = number * self.examples_per_chunk
        stop = min(start + self.examples_per_chunk, self.n)
        loss, terms, advance = self.train_examples(worker, self.chunk_of(epoch, start, stop, lr))
        with self.clock_lock:
            self.clock[0] += advance
        return Tally(loss, terms, stop - start)

    def sampled_loss(self) -> float | None:
        """The mean loss at rate 0, estimated from a stratified sample of the examples."""
        total = Tally()
        for rows, share in self.strata:
            chunk = self.chunk_of(0, 0, len(rows), 0.0)._replace(order=rows)
            loss, terms, _ = self.train_examples(self.workers[0], chunk)
            total += Tally(loss / share, terms / share)
        return total.mean_loss

    @cached_property
    def strata(self) -> list[tuple[ndarray, float]]:
        """See `strata_of`."""
        labels = Labels(self.examples.label_offsets, self.examples.label_ids)
        n = min(N_SAMPLED, self.max_examples_per_chunk, self.n)
        return strata_of(labels, self.counts, self.order_of(0), n)

    def baseline_loss(self) -> float | None:
        if not self.has_bias:
            return None
        for array in (self.hidden.rows, self.outputs.rows, self.n_updates):
            array[:] = 0
        self.set_bias(self.biases_by("frequency"))
        return self.sampled_loss()

    def phase(self, number: int) -> int:
        """1 from the second visit of examples on, if the objective keeps a state per example.

        At the first visit the state is optimal for the example, so losses are lower than later.
        """
        return int(self.objective.state_width > 0 and number >= self.n_chunks)

    def apply_decay(self) -> None:
        """Apply pending weight decay to all rows."""
        clock = float(self.clock[0])
        if self.optimizer.l2 > 0:
            decay_all(self.hidden, self.n_inputs, self.optimizer, clock)
            self.decay_outputs(clock)

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """The memory that training needs, before it is initialised.

        keeps_best  whether the best weights are kept beside the current ones
        """
        weights = (self.outputs.rows, self.hidden.rows)
        state = {
            "weights": weights,
            "optimizer": (self.outputs[1:], self.hidden[1:]),
            "objective": (self.local_state, self.n_updates),
        }
        best_weights = weights if keeps_best else ()
        needs = {**state, THREADS: self.workspaces(), "best weights": best_weights}
        return plan_memory(needs, state)

    def arrays(self) -> dict[str, ndarray]:
        """The parameters of a classifier: views of the tables; copies for sparse weights."""
        arrays = {"output": self.output_vectors[:, : self.n_inputs]}
        if self.has_bias:
            arrays["bias"] = self.output_vectors[:, self.dim - 1]
        if self.settings.hidden:
            arrays["hidden"] = self.hidden.rows[:, : self.settings.hidden]
        return arrays

    def state(self) -> TrainState:
        state = TrainState()
        for name, table in (("hidden", self.hidden), ("outputs", self.outputs)):
            state.add_array(f"{name}.rows", table.rows)
            state.add_array(f"{name}.optimizer", table.state)
            state.add_array(f"{name}.decay_clock", table.decay_clock)
        state.add_array("objective.state", self.local_state)
        state.add_array("objective.n_updates", self.n_updates)
        state.add_array("decay_clock", self.clock)
        return state


def strata_of(
    labels: Labels, counts: ndarray, order: ndarray, n: int
) -> list[tuple[ndarray, float]]:
    """About n labelled rows in strata of their first label, each with the share that it samples.

    With many labels, those of similar frequency share a stratum. The rows are the first ones in the
    order, in proportion to the size of their stratum, but some of each.
    """
    labelled = order[labels.n_of_row[order] > 0]
    rank = np.empty(len(counts), int64)
    rank[np.argsort(-counts, kind="stable")] = np.arange(len(counts))
    rank_of_row = rank[labels.ids[labels.offsets[labelled]]]
    n_strata = max(1, min(MAX_STRATA, n // MIN_OF_STRATUM))
    if len(counts) <= n_strata:
        stratum = rank_of_row
    else:
        rows_up_to = np.cumsum(np.bincount(rank_of_row, minlength=len(counts)))
        stratum = ((rows_up_to - 1) * n_strata // len(labelled))[rank_of_row]
    by_stratum = labelled[np.argsort(stratum, kind="stable")]
    strata = []
    for rows in np.split(by_stratum, offsets_of(np.bincount(stratum))[1:-1]):
        n_rows = min(max(MIN_OF_STRATUM, -(-n * len(rows) // len(labelled))), n, len(rows))
        if n_rows:
            strata.append((rows[:n_rows], n_rows / len(rows)))
    return strata

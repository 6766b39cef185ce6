"""How classification trains a chunk of labelled examples: one class for each choice of candidates.

Sampled        engine/sampled.py      a few output rows for each example: drawn, on a tree's path,
                                      or all of a small output
SampledSparse  engine/sparse_rows.py  the same with sparse output rows
Retrieved      engine/retrieved.py    those that an index finds to score highest
Full           engine/full.py         every output row for each example
FullSparse     engine/full.py         the same for sparse features
FullTiled      engine/tiles.py        the same where the loss is a sum over labels

Sparse weights of losses that are sums over labels are trained by labelwise.py.

With --deterministic sampled and retrieved candidates are trained by one thread, and all rows of a
small output always: threads that overwrite each other's updates of so few rows cost likelihood.
Elsewhere threads share a minibatch in a fixed number of parts, so that sums do not depend on the
number of threads.
"""

import abc
import threading
from concurrent.futures import ThreadPoolExecutor
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.classification.label_tree import LabelTree, arrays_of
from embedx.classification.label_weights import trains_sparse_rows
from embedx.classification.settings import ClassifySettings
from embedx.engine import full, retrieved, sampled, sparse_rows, tiles, weighted
from embedx.engine.examples import Csr, Examples, csr_of, examples_at
from embedx.engine.loading import compile_function, load_kernel
from embedx.engine.select import POSITIVES
from embedx.engine.settings import DETERMINISTIC_PARTS
from embedx.engine.shared import Chunk, Plan, Shared
from embedx.engine.sparse_levels import TileWeights, level_of
from embedx.kernels.batch import COEFFICIENTS, new_batch
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labels, offsets_of, places_of
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import PER_ROW, STATELESS, Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_all, decay_rows
from embedx.runtime.memory import MemoryPlan, plan_memory
from embedx.runtime.progress import Progress
from embedx.samplers.contract import FILTER_SIZE, Sampler, new_data
from embedx.search.index import empty_index
from embedx.search.message_passing import new_message_workspace
from embedx.search.query import new_query_workspace
from embedx.search.updater import IndexUpdater, new_stale_rows
from embedx.training.schedule import orders
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally

# The place of the initial numbers among a seed's random numbers.
INITIAL = 2**32
# Examples between two looks at the clock, where steps are small.
CHUNK = 4096
# The same where rows are retrieved, from an index that is as old as its chunk.
RETRIEVED_CHUNK = 64
# About N_SAMPLED examples estimate the loss before training, in at most MAX_STRATA strata of at
# least MIN_OF_STRATUM.
N_SAMPLED = 1024
MAX_STRATA = 64
MIN_OF_STRATUM = 4
# Rows that a minibatch may retrieve.
MAX_RETRIEVED = 2**23
# Multiplications for the scores of a minibatch; for more, matrix products by BLAS are faster.
SMALL_STEP = 2**20
# About what a float32 can be.
MAX_STATE = 1e38


def first_state(
    settings: ClassifySettings, optimizer: UpdateRule, examples: Examples, batch_size: int
) -> float:
    """Initial state of the optimizer, for each weight of an output row or for each row.

    It is the square of `initial_gradient` gradients of one positive in a minibatch. From zero, the
    first step of a weight by Adagrad would be as long for a gradient of next to nothing, of a label
    with a probability of 1/1000 say, as for any other.
    """
    if optimizer.keeps == STATELESS or optimizer.is_ema:
        return 0.0
    squares, n_values = sums_of_inputs(examples)
    n = len(examples.label_offsets) - 1
    squared_length = squares / n
    width = max(n_values / n, 1.0)
    if settings.hidden:
        # A hidden layer is a sum of rows that are uniform within ±1/√hidden.
        squared_length /= 3
        width = float(settings.hidden)
    n_summed = n if settings.gradient_scale == "sum" else 1
    coefficient = settings.initial_gradient * n_summed / batch_size
    if optimizer.keeps != PER_ROW:
        squared_length /= width
    return float(min(coefficient**2 * squared_length, MAX_STATE))


def sums_of_inputs(examples: Examples) -> tuple[float, float]:
    """The squares of all features and the number of those that are not 0, summed over the examples
    by weight.
    """
    values = examples.dense if examples.dense.size else examples.values
    values = values.ravel()
    if not examples.weight.size:
        squares = float(np.einsum("i,i->", values, values, dtype=np.float64))
        return squares, float(np.count_nonzero(values))
    n_of_example = np.diff(examples.offsets) if len(examples.offsets) > 1 else 0
    if examples.dense.size:
        n_of_example = np.full(len(examples.weight), examples.dense.shape[1])
    weights = np.repeat(examples.weight.astype(np.float64), n_of_example)
    return float(weights @ np.square(values, dtype=np.float64)), float(weights @ (values != 0))


class StepInputs(NamedTuple):
    """What a strategy trains, and how; workers of a cluster are sent it.

    settings  resolved
    counts    int64 (n_classes,)  how often each label occurs
    warm_up   what draws before rows are retrieved, where they are
    """

    objective: Objective
    settings: ClassifySettings
    sampler: Sampler
    warm_up: Sampler | None
    examples: Examples
    optimizer: UpdateRule
    counts: ndarray
    n_features: int


class Classification(Strategy):
    """Minibatches of labelled examples, in an order that each pass shuffles again."""

    workers: list[Any]
    shared: Shared
    # The output rows, as the strategy stores them.
    outputs: Table
    # Examples in a chunk, and those for which there are buffers.
    chunk: int
    max_chunk: int

    def __init__(self, inputs: StepInputs) -> None:
        objective = inputs.objective
        settings = inputs.settings
        examples = inputs.examples
        self.inputs = inputs
        self.objective = objective
        self.settings = settings
        self.sampler = inputs.sampler
        self.warm_up = inputs.warm_up
        self.examples = examples
        self.optimizer = inputs.optimizer
        self.counts = inputs.counts
        self.n_features = inputs.n_features
        self.n = len(examples.label_offsets) - 1
        self.n_rows = objective.n_rows(len(self.counts))
        self.has_bias = settings.bias != "none"
        # Of an output row, with its bias.
        self.dim = (settings.hidden or self.n_features) + self.has_bias
        self.batch = min(int(settings.batch_size or self.n), self.n)
        self.sum_over = float(self.n) if settings.gradient_scale == "sum" else 1.0
        self.threads = int(settings.threads or 1)
        # Of a step that threads share.
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
        self.draws = new_data()
        has_terms = (
            objective.positives == "single"
            and settings.labels != "one"
            and np.diff(examples.label_offsets).max() > 1
        )
        self.loss_unit = objective.loss_unit("label" if has_terms else "row")
        # (n_rows,), by which the objective predicts how often each label occurs
        self.frequency_bias: ndarray | None = None
        self.prepare()
        self.max_chunk = self.chunk
        self.n_chunks = -(-self.n // self.chunk)

    def shorten_chunks(self, n_examples: int) -> None:
        """Have chunks of at most so many examples, but at least of one minibatch."""
        self.chunk = min(self.max_chunk, self.batch * max(1, n_examples // self.batch))
        self.n_chunks = -(-self.n // self.chunk)

    def initialise(self) -> None:
        """Write to the tables what training starts from; before, they take no memory."""
        width = self.settings.hidden
        if width:
            rng = np.random.default_rng([self.settings.seed, INITIAL])
            uniform = rng.uniform(-1, 1, (self.n_features, width))
            self.hidden.rows[:, :width] = uniform / np.sqrt(width)
        state = first_state(self.settings, self.optimizer, self.examples, self.batch)
        self.outputs.state.fill(state)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Allocate; set `shared`, `chunk`, `workers` and `outputs`."""

    @abc.abstractmethod
    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        """Train on a chunk; return the summed loss, the number of its terms, and by how much the
        decay clock advanced.
        """

    def share(self, **drawing: Any) -> Shared:
        """The plan, with the settings of `drawing` where candidates are drawn, and the tables."""
        settings = self.settings
        objective = self.objective
        has_hidden = bool(settings.hidden)
        plan = Plan(
            n_rows=self.n_rows,
            n_features=self.n_features,
            dim=self.dim,
            has_bias=self.has_bias,
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
            in_turn=objective.kind == "proximal",
            **drawing,
        )
        n_candidates = max(drawing.get("n_draws", self.n_rows), 1)
        constants = objective.constants(n_candidates, len(self.counts))
        return Shared(
            self.hidden,
            self.outputs,
            sparse_rows.flat(self.outputs),
            self.local_state,
            self.n_updates,
            self.slots,
            self.examples,
            self.draws,
            constants,
            self.optimizer,
            plan,
        )

    @property
    def plan(self) -> Plan:
        return self.shared.plan

    def decay_outputs(self, clock: float) -> None:
        """Apply the weight decay that is due to the output rows."""
        decay_all(self.outputs, self.dim - self.has_bias, self.optimizer, clock)

    def make_outputs(self) -> None:
        """Set `outputs`."""
        self.outputs = new_table(self.n_rows, self.dim, self.optimizer)

    @property
    def output_rows(self) -> ndarray:
        """The output rows with their biases, float32 (n_rows, dim): a view of the table."""
        return self.outputs.rows

    def set_bias(self, bias: ndarray) -> None:
        """Write the biases to start from, float32 (n_rows,)."""
        self.output_rows[:, self.dim - 1] = bias

    def chunk_of(self, epoch: int, start: int, stop: int, rate: float) -> Chunk:
        """Examples to be trained, as kernels take them."""
        key = stream_key(self.settings.seed, epoch)
        return Chunk(
            self.order_of(epoch), epoch, start, stop, float32(rate), float(self.clock[0]), key
        )

    def train(self, worker: Any, epoch: int, chunk: int, rate: float) -> Tally:
        start = chunk * self.chunk
        stop = min(start + self.chunk, self.n)
        loss, terms, advance = self.train_examples(worker, self.chunk_of(epoch, start, stop, rate))
        with self.clock_lock:
            self.clock[0] += advance
        return Tally(loss, terms, stop - start)

    def untrained_loss(self) -> float | None:
        """At rate 0, from a few examples of each label, which stand for all of that label."""
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
        n = min(N_SAMPLED, self.max_chunk, self.n)
        return strata_of(labels, self.counts, self.order_of(0), n)

    def baseline_loss(self) -> float | None:
        if self.frequency_bias is None or not self.has_bias:
            return None
        for array in (self.hidden.rows, self.outputs.rows, self.n_updates):
            array[:] = 0
        self.set_bias(self.frequency_bias)
        return self.untrained_loss()

    def phase(self, step: int) -> int:
        """1 from the second visit of an example on, if the objective keeps something of it.

        That suits it best at the first visit, where losses are lower than at later ones.
        """
        return int(self.objective.state_width > 0 and step >= self.n_chunks)

    def apply_decay(self) -> None:
        """Apply the weight decay that is due to all rows."""
        if self.optimizer.l2 > 0:
            decay_all(self.hidden, self.dim - self.has_bias, self.optimizer, float(self.clock[0]))
            self.decay_outputs(float(self.clock[0]))

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """What a run needs, before it is initialised.

        keeps_best  whether the best weights are kept beside the present ones
        """
        weights = (self.outputs.rows, self.hidden.rows)
        state = {
            "weights": weights,
            "optimizer": (self.outputs[1:], self.hidden[1:]),
            "objective": (self.local_state, self.n_updates),
        }
        best_weights = weights if keeps_best else ()
        needs = {**state, "threads": self.workspaces(), "best weights": best_weights}
        return plan_memory(needs, state)

    def arrays(self) -> dict[str, ndarray]:
        """The parameters as a classifier has them: views of the tables, but copies where output
        rows are sparse.
        """
        arrays = {"output": self.output_rows[:, : self.dim - self.has_bias]}
        if self.has_bias:
            arrays["bias"] = self.output_rows[:, self.dim - 1]
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


class Sampled(Classification):
    """A few rows for each example, by threads that share the tables."""

    has_sparse_rows = False

    def prepare(self) -> None:
        self.drawing = self.warm_up or self.sampler
        scores_all = self.drawing.candidates == "all"
        n_draws = min(self.objective.negatives, len(self.counts))
        if scores_all:
            n_draws = self.n_rows
        self.draws = self.drawing.data(n_draws)
        self.make_outputs()
        self.shared = self.share(
            has_sparse_rows=self.has_sparse_rows,
            on_path=self.drawing.candidates == "path",
            counts_repeats=self.drawing.replacement,
            n_draws=n_draws,
        )
        longest_path = int(np.diff(self.draws.offsets).max(initial=1))
        n_workers = 1 if self.settings.deterministic or scores_all else self.threads
        self.workers = [
            sampled.new_workspace(self.plan, self.examples, longest_path) for _ in range(n_workers)
        ]
        max_chunk = CHUNK // 4
        if scores_all:
            # Where labels are few, there may be few examples as well.
            max_chunk = min(max_chunk, self.n // 10)
        self.chunk = self.batch * max(1, max_chunk // self.batch)

    def compile(
        self, progress: Progress, workspace: sampled.SampledWorkspace | None = None
    ) -> None:
        arguments = (self.shared, workspace or self.workers[0], self.chunk_of(0, 0, 0, 0.0))
        self.functions = load_kernel(
            sampled.train_chunk, self.objective.coefficients, self.drawing, arguments, progress
        )

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        loss, terms, after = sampled.train_chunk(*self.functions, self.shared, worker, chunk)
        return loss, terms, after - chunk.decay_clock


class SampledSparse(Sampled):
    """Sampled or path candidates, whose rows have weights for the features of their own examples
    alone.
    """

    has_sparse_rows = True

    def make_outputs(self) -> None:
        by_row = examples_of_rows(self.examples, self.sampler, self.n_rows)
        self.slots = sparse_rows.slots_by_row(self.examples, by_row, self.n_features, self.has_bias)
        self.outputs = sparse_rows.new_sparse_table(self.slots, self.n_rows, self.optimizer)

    def set_bias(self, bias: ndarray) -> None:
        self.outputs.rows[0, self.slots.indptr[1:] - 1] = bias

    def arrays(self) -> dict[str, ndarray]:
        """The weights above the threshold, as the level of a tree in which all rows are children of
        the root.
        """
        feature = self.slots.indices
        value = self.outputs.rows[0]
        row = np.repeat(np.arange(self.n_rows, dtype=int32), np.diff(self.slots.indptr))
        is_small = np.abs(value) <= self.settings.weight_threshold
        # NaN is not small: it is kept, so that divergence is seen.
        is_weight = (feature < self.n_features) & ~is_small
        bias = np.zeros(self.n_rows, float32)
        if self.has_bias:
            bias = value[self.slots.indptr[1:] - 1]
        weights = TileWeights(0, 0, feature[is_weight], row[is_weight], value[is_weight])
        threads = int(self.settings.threads or 1)
        level = level_of(np.array([0, self.n_rows]), [weights], bias, self.n_features, threads)
        return arrays_of([LabelTree([level], np.arange(self.n_rows, dtype=int32))])


def strata_of(
    labels: Labels, counts: ndarray, order: ndarray, n: int
) -> list[tuple[ndarray, float]]:
    """About n of the rows that have labels, by their first label, and their share of its rows.

    Labels that are about as frequent stand together where there are many. The rows are the first in
    the order, in proportion to all rows of their label, but some of each.
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


def examples_of_rows(examples: Examples, sampler: Sampler, n_rows: int) -> Csr:
    """The examples that have each output row among their positives, or on the paths to these."""
    example = np.repeat(np.arange(len(examples.label_offsets) - 1), np.diff(examples.label_offsets))
    if sampler.candidates != "path":
        return csr_of(examples.label_ids, example, n_rows)
    paths = sampler.data(0)
    places, ends = places_of(paths.offsets, examples.label_ids)
    return csr_of(paths.rows[places], np.repeat(example, np.diff(ends)), n_rows)


class Retrieved(Sampled):
    """The rows that an index finds, after a warm-up that draws them: untrained scores are all
    alike.
    """

    def prepare(self) -> None:
        super().prepare()
        search = self.objective.search(len(self.counts))
        assert search is not None
        self.search = search = search.for_columns(self.dim)
        max_labels = int(np.diff(self.examples.label_offsets).max(initial=1))
        max_retrieved = min(
            search.blocks * search.n_scored,
            self.n_rows - 1,
            max(MAX_RETRIEVED // self.batch - max_labels, 1),
        )
        n_tail = self.plan.n_draws if self.objective.traits.has_label_tail else 0
        plan = self.plan._replace(n_draws=max_retrieved + n_tail)
        constants = self.objective.constants(max_retrieved, len(self.counts))
        self.retrieving = self.shared._replace(constants=constants, plan=plan)
        workers = []
        for drawing_workspace in self.workers:
            workspace = sampled.new_workspace(plan, self.examples, 1)
            retrieval = retrieved.Retrieval(
                empty_index(search.blocks),
                search,
                new_query_workspace(self.n_rows, search),
                new_message_workspace(self.n_rows, search, workspace.rows.shape[1]),
                new_stale_rows(self.n_rows),
                n_tail,
            )
            workers.append((drawing_workspace, workspace, retrieval))
        self.workers = workers
        self.chunk = self.batch * max(1, RETRIEVED_CHUNK // self.batch)
        self.drawn_first = self.objective.settings.warm_up * self.n

    def compile(
        self, progress: Progress, workspace: sampled.SampledWorkspace | None = None
    ) -> None:
        self.updater = IndexUpdater(
            self.outputs.rows,
            self.n_rows,
            self.dim,
            self.search,
            seed=self.settings.seed,
            threads=self.threads,
            progress=progress,
        )
        drawing_workspace, own_workspace, retrieval = self.workers[0]
        if self.drawn_first > 0:
            super().compile(progress, drawing_workspace)
        arguments = (self.retrieving, own_workspace, retrieval, self.chunk_of(0, 0, 0, 0.0))
        self.retrieved_functions = load_kernel(
            retrieved.train_chunk, self.objective.coefficients, self.drawing, arguments, progress
        )

    def phase(self, step: int) -> int:
        epoch, chunk = divmod(step, self.n_chunks)
        return int(epoch * self.n + chunk * self.chunk >= self.drawn_first)

    def train_examples(self, worker: Any, chunk: Chunk) -> tuple[float, int, float]:
        drawing_workspace, workspace, retrieval = worker
        if chunk.epoch * self.n + chunk.start < self.drawn_first:
            return super().train_examples(drawing_workspace, chunk)
        retrieval = retrieval._replace(row_index=self.updater.current())
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


class Full(Classification):
    """All rows for each example: large matrix products, by threads that share a step."""

    steps: full.FullSteps
    kind: type[full.FullSteps] = full.DenseSteps

    def prepare(self) -> None:
        self.workers = [None]
        self.chunk = self.batch
        self.make_outputs()
        self.shared = self.share()
        self.make_steps()

    def make_steps(self) -> None:
        """Set what trains."""
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
        lines = (new_batch(1, 1), self.local_state, self.shared.constants, 1, 1, float32(0))
        kernel = weighted.weighted_batch
        pointers = load_kernel(kernel, coefficients, None, (weights, *lines), progress)
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
    """All rows for sparse features: the table is transposed, and its columns padded to
    whole tiles.
    """

    kind = full.SparseSteps

    def make_outputs(self) -> None:
        self.outputs = new_table(self.dim, -(-self.n_rows // full.TILE) * full.TILE, self.optimizer)

    def decay_outputs(self, clock: float) -> None:
        decay_rows(self.outputs, 0, self.dim - self.has_bias, self.n_rows, self.optimizer, clock)

    @property
    def output_rows(self) -> ndarray:
        return self.outputs.rows[:, : self.n_rows].T


class FullTiled(FullSparse):
    """All rows, none of which knows of the others: a few at a time, over a chunk of minibatches."""

    def make_steps(self) -> None:
        self.chunk = self.batch * max(1, 2 * CHUNK // self.batch)
        self.tile_plan = tiles.TilePlan(
            self.batch,
            self.sum_over,
            self.has_bias,
            self.plan.keeps_accidental_hits,
            self.plan.positives,
            is_masked=False,
            optimizer=self.optimizer,
            constants=self.shared.constants,
            lr=float32(0),
        )
        self.tile_workspaces = [
            tiles.new_workspace(
                min(self.chunk, self.n),
                0,
                self.dim - 1,
                self.batch,
                self.optimizer,
                is_masked=False,
            )
            for _ in range(self.parts)
        ]
        self.pool = ThreadPoolExecutor(self.threads)

    def compile(self, progress: Progress) -> None:
        arguments = self._arguments(0, self.chunk_of(0, 0, 0, 0.0))
        self.functions = load_kernel(
            tiles.train_columns, self.objective.coefficients, None, arguments, progress
        )

    def workspaces(self) -> Any:
        return [workspace.steps for workspace in self.tile_workspaces]

    def _arguments(
        self, part: int, chunk: Chunk, in_order: Examples | None = None
    ) -> tuple[Any, ...]:
        n_tiles = self.outputs.rows.shape[1] // tiles.WIDTH
        first = n_tiles * part // self.parts * tiles.WIDTH
        last = n_tiles * (part + 1) // self.parts * tiles.WIDTH
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
                tiles.train_columns(*self.functions, *self._arguments(part, chunk, in_order))
            )

        loss = sum(self.pool.map(work, range(self.parts)))
        n_terms = int(np.count_nonzero(np.diff(in_order.label_offsets)))
        n_steps = -(-(chunk.stop - chunk.start) // self.batch)
        return loss, n_terms, n_steps * float(clock_step(self.optimizer, chunk.lr))

    def decay_outputs(self, clock: float) -> None:
        """None is due between chunks: a tile is decayed before the next one begins."""


def strategy_for(
    objective: Objective, settings: ClassifySettings, sampler: Sampler, examples: Examples
) -> type[Classification]:
    """The strategy for resolved settings."""
    if sampler.candidates == "retrieved":
        return Retrieved
    if trains_sparse_rows(settings, objective):
        return SampledSparse
    if sampler.candidates != "all":
        return Sampled
    width = settings.hidden or examples.dense.shape[1]
    if not width:
        return _strategy_of_all_rows(objective, settings)
    n_rows = objective.n_rows(len(sampler.counts))
    n_examples = len(examples.label_offsets) - 1
    batch_size = min(int(settings.batch_size or n_examples), n_examples)
    is_small = n_rows <= FILTER_SIZE and batch_size * n_rows * width <= SMALL_STEP
    return Sampled if is_small else Full


def _strategy_of_all_rows(objective: Objective, settings: ClassifySettings) -> type[FullSparse]:
    """The strategy for all rows and sparse features: by tiles where labels are independent."""
    is_separable = objective.traits.separable and settings.labels != "one"
    return FullTiled if is_separable and not settings.max_norm else FullSparse

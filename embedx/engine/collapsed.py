"""The collapsed objective of skip-gram and its gradient: all pairs of a corpus at once, grouped by input.

Yen et al. 2018, eq. 9, with N_xy the number of pairs of input x and target y, and N that of all:

    L = Σ_x N_x/N Σ_y N_xy/N_x · (log Σ_k e^{z_xk} - z_xy),    z_xk = u_x·w_k
    ∂L/∂u_x = 1/N Σ_k c_xk w_k          c_xk = ∂(N L)/∂z_xk
    ∂L/∂w_k = 1/N Σ_x c_xk u_x

Each input is one example of the objective, with its N_xy as labels. The candidates k are

    FullRows       all rows: large matrix products
    RetrievedRows  the rows that a search finds for u_x (IndexFinder), and the targets of x: products over short lists. Beside
                   them rows may be drawn that stand for all others (`Tail`)

Both take a block of inputs at a time, so that the scores of all inputs never need memory at once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple, Self, TypeVar

import numpy as np

from embedx.engine.loading import compile_function, load_kernel
from embedx.engine.select import set_negative, set_positive
from embedx.kernels.batch import COEFFICIENTS, Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import dot
from embedx.kernels.random import stream_key
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, prefetch, splat, store
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler, SamplerData, SampleWorkspace, new_sample_workspace
from embedx.search.index import build_index
from embedx.search.query import find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.text.cooccurrence import Counts
from embedx.training.progress import Progress

BLOCK_FLOATS = 1 << 25  # scores of a block of inputs with all rows: 128 MB
CHUNK_FLOATS = 1 << 18  # of these, turned into coefficients in one call: a megabyte stays in the cache
BLOCK_INPUTS = 1024  # of a block where rows are retrieved
AHEAD = 8  # candidates whose rows are prefetched
TAIL = 2**33  # the place of the tail among a seed's random numbers
T = TypeVar("T")
INPUTS, OUTPUTS, NEITHER = range(3)  # the table whose gradient is computed beside the loss
NO_STATE = np.zeros((1, 0), dtype=np.float32)


class Retrieval(NamedTuple):
    """What a search found: for the i-th vector the distinct rows[offsets[i]:offsets[i + 1]]."""

    offsets: np.ndarray  # int64 (n + 1,)
    rows: np.ndarray  # int32
    macs: int  # multiply-adds that finding them took


class Tail(NamedTuple):
    """Rows that are drawn for each input, and stand for those that are neither found nor targets."""

    sampler: Sampler  # prepared
    n_draws: int
    seed: int


NO_TAIL = Tail(Sampler(None), 0, 0)


class Evaluation(NamedTuple):
    """The objective and a gradient at some vectors."""

    loss: float  # summed over all pairs, in nats
    gradient: np.ndarray  # float32, like the table that moves: of that sum; (0, columns) for NEITHER
    macs: int  # multiply-adds that it took


class Workers:
    """Threads that share a range, in as many parts; or in `parts`, whose sums are the same however many threads there are."""

    def __init__(self, threads: int, parts: int | None = None) -> None:
        self.n = parts or threads
        self.pool = ThreadPoolExecutor(threads)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *reason: object) -> None:
        self.pool.shutdown()

    def share_out(self, work: Callable[[int, int, int], T], length: int) -> Iterator[T]:
        """The results of work(part, begin, end) over equal parts of range(length), each of which one thread does."""
        edges = [length * worker // self.n for worker in range(self.n + 1)]
        return self.pool.map(work, range(self.n), edges[:-1], edges[1:])


class FullRows:
    """All rows are candidates: exact, at two products of all inputs with all outputs."""

    scope = ""

    def __init__(
        self, objective: Objective, constants: np.ndarray, counts: Counts, n_rows: int, columns: int, workers: Workers
    ) -> None:
        self.coefficients, self.constants, self.counts, self.workers = objective.coefficients, constants, counts, workers
        self.columns = columns  # that hold anything; rows are padded
        self.block = max(1, min(BLOCK_FLOATS // n_rows, len(counts.offsets) - 1))
        self.z = np.empty((self.block, n_rows), dtype=np.float32)
        self.batches = [new_batch(max(1, CHUNK_FLOATS // n_rows), n_rows) for _ in range(workers.n)]
        for batch in self.batches:
            batch.sample_count[:] = 1

    def compile(self, progress: Progress) -> None:
        compile_function(self.coefficients, COEFFICIENTS)

    def refit(self, outputs: np.ndarray) -> None: ...

    def redraw(self, number: int) -> None: ...

    def add(
        self, first: int, stop: int, inputs: np.ndarray, outputs: np.ndarray, side: int, gradient: np.ndarray
    ) -> tuple[float, int]:
        """Add what the inputs first:stop contribute to `gradient`; their summed loss, and the multiply-adds it took."""
        outputs, gradient = outputs[:, : self.columns], gradient[:, : self.columns]
        h, z = inputs[first:stop, : self.columns], self.z[: stop - first]
        np.matmul(h, outputs.T, out=z)
        loss = sum(self.workers.share_out(lambda worker, begin, end: self._part(worker, z, first, begin, end), len(h)))
        if side == INPUTS:
            np.matmul(z, outputs, out=gradient[first:stop])
        elif side == OUTPUTS:
            gradient += z.T @ h
        return loss, z.size * h.shape[1] * (1 if side == NEITHER else 2)

    def _part(self, worker: int, z: np.ndarray, first: int, begin: int, end: int) -> float:
        """Overwrite z[begin:end], all scores of the inputs first + begin on, by their coefficients; the summed loss."""
        batch, offsets, loss = self.batches[worker], self.counts.offsets, 0.0
        for at in range(begin, end, len(batch.label)):
            stop = min(at + len(batch.label), end)
            n_targets = np.diff(offsets[first + at : first + stop + 1])
            own = slice(offsets[first + at], offsets[first + stop])
            places = np.repeat(np.arange(stop - at), n_targets), self.counts.targets[own]
            batch.label[places] = self.counts.times[own]
            scored = batch._replace(z=z[at:stop])
            loss += self.coefficients(scored, NO_STATE, self.constants, stop - at, z.shape[1], np.float32(1))
            batch.label[places] = 0
        return loss


class LineWorkspace(NamedTuple):
    """The memory of one worker: one example."""

    batch: Batch
    rows: np.ndarray  # int32 (n_rows,): the row of each candidate
    seen: np.ndarray  # int64 (n_rows,): the example that each row is a candidate of; -1 between examples
    column: np.ndarray  # int32 (n_rows,): which candidate it is there
    sampling: SampleWorkspace
    state: np.ndarray  # float32 (1, 0)
    n_candidates: np.ndarray  # int64 (1,): of all examples so far


class Examples(NamedTuple):
    """A block of inputs with what was found for each: the candidates of input first + e are its targets, and
    found[found_offsets[e]:found_offsets[e + 1]].
    """

    inputs: np.ndarray  # float32 (n_inputs, stride)
    outputs: np.ndarray  # float32 (n_rows, stride)
    first: int
    counts: Counts
    found_offsets: np.ndarray
    found: np.ndarray
    sampler_data: SamplerData  # of the tail
    n_draws: int
    stream: np.uint64
    constants: np.ndarray
    side: int  # whose gradient is added


class RetrievedRows:
    """The rows that a finder finds are candidates, with exact scores. Without a tail others have no coefficient and no part in
    the sum, so that the objective is too small, the more so the less is found. With one the sum's estimate is unbiased, and
    the objective too small by about half its relative variance.

    finder  has `refit(outputs)`, and `find(inputs)`, the `Retrieval` of the rows of the highest scores for each of these
    """

    block = BLOCK_INPUTS

    def __init__(
        self, objective: Objective, constants: np.ndarray, counts: Counts, n_rows: int, columns: int, workers: Workers,
        finder: Any, tail: Tail = NO_TAIL,
    ) -> None:  # fmt: skip
        self.objective, self.constants, self.counts, self.workers = objective, constants, counts, workers
        self.columns, self.finder, self.tail = columns, finder, tail
        self.scope = "" if tail.n_draws else " among the rows found"
        self.draws = tail.sampler.data(tail.n_draws)
        self.redraw(0)
        self.lines = [
            LineWorkspace(
                new_batch(1, n_rows), np.zeros(n_rows, np.int32), np.full(n_rows, -1), np.zeros(n_rows, np.int32),
                new_sample_workspace(tail.n_draws, 0), NO_STATE.copy(), np.zeros(1, np.int64),
            )
            for _ in range(workers.n)
        ]  # fmt: skip
        self.parts: list[np.ndarray] = []  # of the outputs' gradient, one for each worker

    def compile(self, progress: Progress) -> None:
        nothing = Retrieval(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0)
        table = aligned_zeros(0, self.columns)
        like = self._examples(table, table, 0, nothing, INPUTS), self.lines[0], 0, 0, table
        self.functions = load_kernel(answer_found, self.objective.coefficients, self.tail.sampler, like, progress)

    def refit(self, outputs: np.ndarray) -> None:
        """The output rows are these from now on."""
        self.finder.refit(outputs)

    def redraw(self, number: int) -> None:
        """Draw the tail of iteration `number`."""
        self.stream = stream_key(self.tail.seed, TAIL, number)

    def add(
        self, first: int, stop: int, inputs: np.ndarray, outputs: np.ndarray, side: int, gradient: np.ndarray
    ) -> tuple[float, int]:
        """As `FullRows.add`."""
        found = self.finder.find(inputs[first:stop])
        examples = self._examples(inputs, outputs, first, found, side)
        if side == OUTPUTS and first == 0:
            self.parts = [np.zeros_like(gradient) for _ in range(self.workers.n)]
        for line in self.lines:
            line.n_candidates[0] = 0

        def answer(worker: int, begin: int, end: int) -> float:
            own = self.parts[worker] if side == OUTPUTS else gradient
            return float(answer_found(*self.functions, examples, self.lines[worker], begin, end, own))

        loss = sum(self.workers.share_out(answer, stop - first))
        if side == OUTPUTS and stop == len(inputs):
            for part in self.parts:
                gradient += part
            self.parts = []
        n_candidates = sum(int(line.n_candidates[0]) for line in self.lines)
        return loss, found.macs + n_candidates * self.columns * (1 if side == NEITHER else 2)

    def _examples(self, inputs: np.ndarray, outputs: np.ndarray, first: int, found: Retrieval, side: int) -> Examples:
        return Examples(
            inputs, outputs, first, self.counts, found.offsets, found.rows, self.draws, self.tail.n_draws, self.stream,
            self.constants, side,
        )  # fmt: skip


Rows = FullRows | RetrievedRows


def evaluate(
    rows: Rows, inputs: np.ndarray, outputs: np.ndarray, side: int, report: Callable[[int], None] = lambda done: None
) -> Evaluation:
    """The objective of `inputs` and `outputs`, float32 (n, columns), and the gradient of one `side`.

    `report` is called with the number of inputs done, after each block; what it raises ends the work.
    """
    moving = {INPUTS: inputs, OUTPUTS: outputs, NEITHER: inputs[:0]}[side]
    gradient = np.zeros(moving.shape, dtype=np.float32)
    loss, macs = 0.0, 0
    for first in range(0, len(inputs), rows.block):
        stop = min(first + rows.block, len(inputs))
        more, work = rows.add(first, stop, inputs, outputs, side, gradient)
        loss, macs = loss + more, macs + work
        report(stop)
    return Evaluation(loss, gradient, macs)


class IndexFinder:
    """A finder by an index of the output rows, which is rebuilt whenever they move."""

    def __init__(self, search: SearchSpec, n_rows: int, columns: int, seed: int, workers: Workers) -> None:
        self.search, self.n_rows, self.columns, self.seed, self.workers = search, n_rows, columns, seed, workers
        self.query_workspaces = [new_query_workspace(n_rows, search) for _ in range(workers.n)]
        self.most = min(2 * search.blocks * search.n_scored, n_rows)  # rows found for an input; clusters overshoot
        self.at_a_time = max(1, BLOCK_FLOATS // 4 // self.most)

    def refit(self, outputs: np.ndarray) -> None:
        rng = np.random.default_rng(self.seed)
        self.index = build_index(outputs, self.n_rows, self.columns, self.search, rng, self.workers.n)

    def find(self, inputs: np.ndarray) -> Retrieval:
        """Its multiply-adds are those of looking things up; building the index is not among them."""
        n_found, pieces, macs = np.zeros(len(inputs), dtype=np.int64), [], 0
        for first in range(0, len(inputs), self.at_a_time):
            h = inputs[first : first + self.at_a_time]
            rows = np.empty((len(h), self.most), dtype=np.int32)
            n = n_found[first : first + self.at_a_time]

            def look_up(worker: int, begin: int, end: int, h: Any = h, rows: Any = rows, n: Any = n) -> int:
                return int(find_rows(self.index, self.search, h, begin, end, rows, n, self.query_workspaces[worker]))

            macs += sum(self.workers.share_out(look_up, len(h)))
            pieces.append(rows[np.arange(self.most) < n[:, None]])
        return Retrieval(np.concatenate(([0], np.cumsum(n_found))), np.concatenate(pieces), macs)


# ---- kernels


@kernel
def find_rows(index, search, h, begin, end, rows, n_found, query):
    """Write what is found for h[e], e in begin:end, to rows[e], and its number; return the multiply-adds."""
    macs = np.int64(0)
    for e in range(begin, end):
        n_found[e] = find_candidates(index, search, h, e, rows, e, 0, rows.shape[1], query)
        for j in range(index.ids.shape[0]):
            n_scored = index.list_sizes.shape[1] + query.offsets[j, query.n_probed[j]]
            macs += n_scored * (index.edges[j + 1] - index.edges[j])
    return macs


@kernel
def answer_found(coefficients, sample, log_expected_count, examples, line, begin, end, gradient):
    """Add the gradient of the examples begin:end; return their summed loss."""
    inputs, outputs, n_draws = examples.inputs, examples.outputs, examples.n_draws
    batch, side, loss = line.batch, examples.side, np.float64(0)
    for e in range(begin, end):
        x = examples.first + e
        n_certain = _candidates(examples, x, e, line)
        first = np.uint64(x * n_draws)
        n_drawn = sample(examples.sampler_data, np.int64(-1), examples.stream, first, n_draws, 0, line.sampling)
        n = _add_tail(n_drawn, n_certain, x, line)
        log_expected_count(examples.sampler_data, np.int64(-1), n_draws, 0, line.rows, n, batch.log_expected_count[0])
        batch.log_expected_count[0, :n_certain] = 0
        for k in range(n):
            if k + AHEAD < n:
                _prefetch(outputs, np.int64(line.rows[k + AHEAD]))
            batch.z[0, k] = dot(inputs, x, outputs, np.int64(line.rows[k]))
        loss += coefficients(batch, line.state, examples.constants, 1, n, np.float32(1))
        line.n_candidates[0] += n
        if side != NEITHER:
            table = outputs if side == INPUTS else gradient
            for k in range(n):
                if k + AHEAD < n:
                    _prefetch(table, np.int64(line.rows[k + AHEAD]))
                if side == INPUTS:
                    _add_row(outputs, np.int64(line.rows[k]), batch.z[0, k], gradient, x)
                else:
                    _add_row(inputs, x, batch.z[0, k], gradient, np.int64(line.rows[k]))
    return loss


@kernel_part
def _candidates(examples, x, e, line):
    """Write the targets of input x, with their labels, and the rows found for it, each once; return how many."""
    n, counts = 0, examples.counts
    for at in range(counts.offsets[x], counts.offsets[x + 1]):
        line.rows[n] = counts.targets[at]
        set_positive(line.batch, 0, n, counts.times[at], np.float32(1), True)
        line.seen[counts.targets[at]] = x
        n += 1
    for at in range(examples.found_offsets[e], examples.found_offsets[e + 1]):
        if line.seen[examples.found[at]] != x:
            line.rows[n] = examples.found[at]
            set_negative(line.batch, 0, n, np.float32(1))
            line.seen[examples.found[at]] = x
            n += 1
    for k in range(n):
        line.column[line.rows[k]] = k
    return n


@kernel_part
def _add_tail(n_drawn, n_certain, x, line):
    """Append the rows drawn for input x that are not certain, and count their draws; return how many candidates there are."""
    n = n_certain
    for d in range(n_drawn):
        row = np.int64(line.sampling.rows[d])
        if line.seen[row] != x:
            line.rows[n], line.column[row], line.seen[row] = row, n, x
            set_negative(line.batch, 0, n, np.float32(1))
            n += 1
        elif line.column[row] >= n_certain:
            line.batch.sample_count[0, line.column[row]] += 1
    for k in range(n):  # so that a row of the next sweep is new again
        line.seen[line.rows[k]] = -1
    return n


@kernel_part
def _prefetch(table, row):
    """Prefetch a row."""
    for d in range(0, table.shape[1], SIMD_WIDTH):
        prefetch(table, row, d)


@kernel_part
def _add_row(a, i, factor, b, j):
    """b[j] += factor · a[i], rows of whole lanes."""
    factor = splat(factor)
    for d in range(0, a.shape[1], SIMD_WIDTH):
        store(b, j, d, multiply_add(factor, load(a, i, d), load(b, j, d)))

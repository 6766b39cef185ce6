"""The collapsed objective of skip-gram and its gradient: all pairs of a corpus at once, grouped by input.

Yen et al. 2018, eq. 9, with N_xy the number of pairs of input x and target y, and N that of all:

    L = Σ_x N_x/N Σ_y N_xy/N_x · (log Σ_k e^{z_xk} - z_xy),    z_xk = u_x·w_k
    ∂L/∂u_x = 1/N Σ_k c_xk w_k          c_xk = ∂(N L)/∂z_xk
    ∂L/∂w_k = 1/N Σ_x c_xk u_x

Each input is one example of the objective: its scores, its N_xy as labels, and what comes back are its c_xk. Which rows k
compete with each other is all that there is to choose:

    FullRows     all of them: large matrix products
    RetrievedRows   those that a search finds for u_x (IndexFinder), and the targets of x: products over short lists; beside
                    them rows may be drawn that stand for all others (`Tail`)

Both take a block of inputs at a time, so that the scores of all inputs never need memory at once.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, NamedTuple, Protocol

import numpy as np

from embedx.engine.loading import load_kernel
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import dot
from embedx.kernels.random import stream_key
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, prefetch, splat, store
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler, SampleWorkspace, new_sample_workspace
from embedx.search.index import build_index
from embedx.search.query import find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.text.cooccurrence import Counts
from embedx.training.progress import Progress

BLOCK_FLOATS = 1 << 25  # scores of a block where all rows compete: 128 MB
BLOCK_INPUTS = 1024  # of a block where rows are found
AHEAD = 8  # candidates whose rows are asked for before they are needed
TAIL = 2**33  # the place of the tail among a seed's random numbers
INPUTS, OUTPUTS, NEITHER = 0, 1, 2  # whose gradient is wanted beside the loss


class Retrieval(NamedTuple):
    """What a search found: for the i-th vector asked about, the distinct rows[offsets[i]:offsets[i + 1]]."""

    offsets: np.ndarray  # int64 (n + 1,)
    rows: np.ndarray  # int32
    macs: int  # multiply-adds that finding them took


class Tail(NamedTuple):
    """Rows that are drawn for each input, and stand for those that are neither found nor targets."""

    sampler: Sampler  # prepared
    n_draws: int
    seed: int


NO_TAIL = Tail(Sampler(None), 0, 0)


class Finder(Protocol):
    """Rows that score high, for RetrievedRows."""

    def refit(self, outputs: np.ndarray) -> None:
        """The output rows, float32 (n_rows, stride), are these from now on."""

    def find(self, inputs: np.ndarray) -> Retrieval:
        """The rows that score highest for each of `inputs`, float32 (n, stride)."""


class LineWorkspace(NamedTuple):
    """One worker's own memory: an example as the objective is told it."""

    batch: Batch  # one example with n_rows candidates, all of which compete
    rows: np.ndarray  # int32 (n_rows,): which row each candidate is, where rows are found
    seen: np.ndarray  # int64 (n_rows,): the example that each row competes in; -1 between examples
    column: np.ndarray  # int32 (n_rows,): which candidate it is there
    sampling: SampleWorkspace
    state: np.ndarray  # float32 (1, 0)


def new_line_workspace(n_rows: int, n_draws: int = 0) -> LineWorkspace:
    """Memory for examples of up to `n_rows` candidates, for which up to `n_draws` are drawn."""
    batch = new_batch(1, n_rows)
    batch.sample_count[:] = 1
    return LineWorkspace(
        batch=batch,
        rows=np.zeros(n_rows, dtype=np.int32),
        seen=np.full(n_rows, -1, dtype=np.int64),
        column=np.zeros(n_rows, dtype=np.int32),
        sampling=new_sample_workspace(n_draws, 0),
        state=np.zeros((1, 0), dtype=np.float32),
    )


class Evaluation(NamedTuple):
    """The objective and a gradient at some vectors."""

    loss: float  # summed over all pairs, in nats
    gradient: np.ndarray  # float32, like the table that moves: of that sum; (0, columns) for NEITHER
    macs: int  # multiply-adds that it took


class Rows(Protocol):
    """Which rows compete with each other."""

    block: int  # inputs to take at a time
    scope: str  # which rows the objective is a sum over, if not all, as words after its unit

    def compile(self, progress: Progress) -> None:
        """Compile the kernel, or load it."""

    def refit(self, outputs: np.ndarray) -> None:
        """The output rows are these from now on."""

    def redraw(self, number: int) -> None:
        """Whatever is drawn is drawn anew, for iteration `number`."""

    def add(
        self, first: int, stop: int, inputs: np.ndarray, outputs: np.ndarray, side: int, gradient: np.ndarray
    ) -> tuple[float, int]:
        """Add what the inputs first:stop have to say to `gradient`; their summed loss, and the multiply-adds it took."""


def evaluate(
    rows: Rows, inputs: np.ndarray, outputs: np.ndarray, side: int, tell: Callable[[int], None] = lambda done: None
) -> Evaluation:
    """The objective of `inputs` and `outputs`, float32 (n, columns), and the gradient of one `side`.

    `tell` hears how many inputs are done, after each block; what it raises ends the work.
    """
    moving = {INPUTS: inputs, OUTPUTS: outputs, NEITHER: inputs[:0]}[side]
    gradient = np.zeros(moving.shape, dtype=np.float32)
    loss, macs = 0.0, 0
    for first in range(0, len(inputs), rows.block):
        stop = min(first + rows.block, len(inputs))
        more, work = rows.add(first, stop, inputs, outputs, side, gradient)
        loss, macs = loss + more, macs + work
        tell(stop)
    return Evaluation(loss, gradient, macs)


class FullRows:
    """All rows compete: exact, at two products of all inputs with all outputs."""

    scope = ""

    def __init__(
        self, objective: Objective, constants: np.ndarray, counts: Counts, n_rows: int, columns: int, workers: "Workers"
    ) -> None:
        self.objective, self.constants, self.counts, self.workers = objective, constants, counts, workers
        self.columns = columns  # that hold anything; rows are padded
        self.block = max(1, min(BLOCK_FLOATS // n_rows, len(counts.offsets) - 1))
        self.z = np.empty((self.block, n_rows), dtype=np.float32)
        self.lines = [new_line_workspace(n_rows) for _ in range(workers.n)]

    def compile(self, progress: Progress) -> None:
        load_kernel(answer_all, self.objective.coefficients, None, self.arguments(0, self.z, 0, 0, 0), progress)

    def refit(self, outputs: np.ndarray) -> None: ...

    def redraw(self, number: int) -> None: ...

    def add(
        self, first: int, stop: int, inputs: np.ndarray, outputs: np.ndarray, side: int, gradient: np.ndarray
    ) -> tuple[float, int]:
        outputs, gradient = outputs[:, : self.columns], gradient[:, : self.columns]
        h, z = inputs[first:stop, : self.columns], self.z[: stop - first]
        np.matmul(h, outputs.T, out=z)

        def answer(worker: int, begin: int, end: int) -> float:
            return float(answer_all(self.objective.coefficients, *self.arguments(worker, z, first, begin, end)))

        loss = sum(self.workers.share_out(answer, len(h)))
        if side == INPUTS:
            np.matmul(z, outputs, out=gradient[first:stop])
        elif side == OUTPUTS:
            gradient += z.T @ h
        return loss, z.size * h.shape[1] * (1 if side == NEITHER else 2)

    def arguments(self, worker: int, z: np.ndarray, first: int, begin: int, end: int) -> tuple[Any, ...]:
        """Of `answer_all`, but for the function."""
        return z, first, begin, end, self.counts, self.constants, self.lines[worker]


class RetrievedRows:
    """The rows that a finder finds compete, with exact scores. Without a tail others have no coefficient and no part in the
    sum, so that the objective is too small, the more so the less is found. With one the sum's estimate is unbiased, and the
    objective too small by about half its relative variance.
    """

    block = BLOCK_INPUTS

    def __init__(
        self, objective: Objective, constants: np.ndarray, counts: Counts, n_rows: int, columns: int, workers: "Workers",
        finder: Finder, tail: Tail = NO_TAIL,
    ) -> None:  # fmt: skip
        self.objective, self.constants, self.counts, self.workers = objective, constants, counts, workers
        self.columns = columns
        self.finder, self.tail = finder, tail
        self.scope = "" if tail.n_draws else " among the rows found"
        self.draws = tail.sampler.data(tail.n_draws)
        self.redraw(0)
        self.lines = [new_line_workspace(n_rows, tail.n_draws) for _ in range(workers.n)]
        self.parts: list[np.ndarray] = []  # of the outputs' gradient, one for each worker

    def compile(self, progress: Progress) -> None:
        nothing = Retrieval(np.zeros(1, dtype=np.int64), np.zeros(0, dtype=np.int32), 0)
        table = aligned_zeros(0, self.columns)
        like = self.arguments(0, table, table, nothing, 0, 0, 0, INPUTS, table, np.zeros(self.workers.n, dtype=np.int64))
        self.functions = load_kernel(answer_found, self.objective.coefficients, self.tail.sampler, like, progress)

    def refit(self, outputs: np.ndarray) -> None:
        self.finder.refit(outputs)

    def redraw(self, number: int) -> None:
        self.stream = stream_key(self.tail.seed, TAIL, number)

    def add(
        self, first: int, stop: int, inputs: np.ndarray, outputs: np.ndarray, side: int, gradient: np.ndarray
    ) -> tuple[float, int]:
        found = self.finder.find(inputs[first:stop])
        candidates = np.zeros(self.workers.n, dtype=np.int64)
        if side == OUTPUTS and first == 0:
            self.parts = [np.zeros_like(gradient) for _ in range(self.workers.n)]

        def answer(worker: int, begin: int, end: int) -> float:
            target = self.parts[worker] if side == OUTPUTS else gradient
            arguments = self.arguments(worker, inputs, outputs, found, first, begin, end, side, target, candidates)
            return float(answer_found(*self.functions, *arguments))

        loss = sum(self.workers.share_out(answer, stop - first))
        if side == OUTPUTS and stop == len(inputs):
            for part in self.parts:
                gradient += part
            self.parts = []
        return loss, found.macs + int(candidates.sum()) * self.columns * (1 if side == NEITHER else 2)

    def arguments(
        self, worker: int, inputs: np.ndarray, outputs: np.ndarray, found: Retrieval, first: int, begin: int, end: int,
        side: int, gradient: np.ndarray, candidates: np.ndarray,
    ) -> tuple[Any, ...]:  # fmt: skip
        """Of `answer_found`, but for the function."""
        return (
            inputs, outputs, first, begin, end, self.counts, found.offsets, found.rows, self.draws, self.tail.n_draws,
            self.stream, side, gradient, self.constants, self.lines[worker], worker, candidates,
        )  # fmt: skip


class IndexFinder:
    """A finder by an index of the output rows, which is built anew whenever they have moved."""

    def __init__(self, search: SearchSpec, n_rows: int, columns: int, seed: int, workers: "Workers") -> None:
        self.search, self.n_rows, self.columns, self.seed, self.workers = search, n_rows, columns, seed, workers
        self.query_workspaces = [new_query_workspace(n_rows, search) for _ in range(workers.n)]
        self.most = min(2 * search.blocks * search.n_scored, n_rows)  # rows found for an input; clusters overshoot
        self.at_a_time = max(1, BLOCK_FLOATS // 4 // self.most)

    def refit(self, outputs: np.ndarray) -> None:
        rng = np.random.default_rng(self.seed)
        self.index = build_index(outputs, self.n_rows, self.columns, self.search, rng, self.workers.n)

    def find(self, inputs: np.ndarray) -> Retrieval:
        """Its multiply-adds are those of looking things up; building the index is not among them."""
        macs = np.zeros(self.workers.n, dtype=np.int64)
        n_found, pieces = np.zeros(len(inputs), dtype=np.int64), []
        for first in range(0, len(inputs), self.at_a_time):
            h = inputs[first : first + self.at_a_time]
            rows = np.empty((len(h), self.most), dtype=np.int32)
            n = n_found[first : first + self.at_a_time]

            def look_up(worker: int, begin: int, end: int, h: Any = h, rows: Any = rows, n: Any = n) -> float:
                find_rows(self.index, self.search, h, begin, end, rows, n, macs, worker, self.query_workspaces[worker])
                return 0.0

            sum(self.workers.share_out(look_up, len(h)))
            pieces.append(rows[np.arange(self.most) < n[:, None]])
        return Retrieval(np.concatenate(([0], np.cumsum(n_found))), np.concatenate(pieces), int(macs.sum()))


class Workers:
    """Threads that share a range, in as many parts; or in `parts`, whose sums are the same however many threads there are."""

    def __init__(self, threads: int, parts: int | None = None) -> None:
        self.n = parts or threads
        self.pool = ThreadPoolExecutor(threads)

    def share_out(self, work: Callable[[int, int, int], float], length: int) -> Iterator[float]:
        """The results of work(part, begin, end) over equal parts of range(length), each of which one thread does."""
        edges = [length * worker // self.n for worker in range(self.n + 1)]
        return self.pool.map(work, range(self.n), edges[:-1], edges[1:])


@contextmanager
def workers(threads: int, parts: int | None = None) -> Iterator[Workers]:
    """So many threads for as long as the block lasts."""
    made = Workers(threads, parts)
    try:
        yield made
    finally:
        made.pool.shutdown()


# ---- kernels


@kernel
def answer_all(coefficients, z, first, begin, end, counts, constants, line):
    """Overwrite z[begin:end], all scores of the inputs first + begin on, by their coefficients; return the summed loss."""
    n = z.shape[1]
    loss = np.float64(0)
    for e in range(begin, end):
        x = first + e
        for at in range(counts.offsets[x], counts.offsets[x + 1]):
            line.batch.label[0, counts.targets[at]] = counts.times[at]
        own = line.batch
        batch = Batch(
            z[e : e + 1], own.label, own.sample_count, own.log_expected_count, own.uniforms, own.key, own.n_updates,
            own.score_gain,
        )  # fmt: skip
        loss += coefficients(batch, line.state, constants, 1, n, np.float32(1))
        for at in range(counts.offsets[x], counts.offsets[x + 1]):
            line.batch.label[0, counts.targets[at]] = 0
    return loss


@kernel
def find_rows(index, search, h, begin, end, rows, n_found, macs, worker, query):
    """Write what is found for h[e], e in begin:end, to rows[e], and its number; add the multiply-adds to macs[worker]."""
    for e in range(begin, end):
        n_found[e] = find_candidates(index, search, h, e, rows, e, 0, rows.shape[1], query)
        for j in range(index.ids.shape[0]):
            n_scored = index.list_sizes.shape[1] + query.offsets[j, query.n_probed[j]]
            macs[worker] += n_scored * (index.edges[j + 1] - index.edges[j])


@kernel
def answer_found(
    coefficients, sample, log_expected_count, inputs, outputs, first, begin, end, counts, offsets, rows, sampler_data, n_draws,
    stream, side, gradient, constants, line, worker, candidates,
):  # fmt: skip
    """Add the gradient of the inputs first + begin .. first + end; return their summed loss.

    What was found for input first + e is rows[offsets[e]:offsets[e + 1]]. How many candidates there were, with the inputs'
    own targets, is added to candidates[worker].
    """
    loss = np.float64(0)
    for e in range(begin, end):
        x = first + e
        n_certain = _candidates(counts, offsets, rows, x, e, line)
        n_drawn = sample(sampler_data, np.int64(-1), stream, np.uint64(x * n_draws), n_draws, 0, line.sampling)
        n = _add_tail(n_drawn, n_certain, x, line)
        log_expected_count(sampler_data, np.int64(-1), n_draws, 0, line.rows, n, line.batch.log_expected_count[0])
        line.batch.log_expected_count[0, :n_certain] = 0
        for k in range(n):
            if k + AHEAD < n:
                _ask_for(outputs, np.int64(line.rows[k + AHEAD]))
            line.batch.z[0, k] = dot(inputs, x, outputs, np.int64(line.rows[k]))
        loss += coefficients(line.batch, line.state, constants, 1, n, np.float32(1))
        candidates[worker] += n
        if side != NEITHER:
            table = outputs if side == INPUTS else gradient
            for k in range(n):
                if k + AHEAD < n:
                    _ask_for(table, np.int64(line.rows[k + AHEAD]))
                if side == INPUTS:
                    _add_row(outputs, np.int64(line.rows[k]), line.batch.z[0, k], gradient, x)
                else:
                    _add_row(inputs, x, line.batch.z[0, k], gradient, np.int64(line.rows[k]))
    return loss


@kernel_part
def _candidates(counts, offsets, rows, x, e, line):
    """Write the targets of input x, with their labels, and what was found for it, each row once; return how many."""
    n = 0
    for at in range(counts.offsets[x], counts.offsets[x + 1]):
        line.rows[n] = counts.targets[at]
        line.batch.label[0, n] = counts.times[at]
        line.seen[counts.targets[at]] = x
        n += 1
    for at in range(offsets[e], offsets[e + 1]):
        if line.seen[rows[at]] != x:
            line.rows[n] = rows[at]
            line.batch.label[0, n] = 0
            line.seen[rows[at]] = x
            n += 1
    for k in range(n):
        line.column[line.rows[k]] = k
        line.batch.sample_count[0, k] = 1
    return n


@kernel_part
def _add_tail(n_drawn, n_certain, x, line):
    """Append the rows drawn for input x that are not certain, and count their draws; return how many candidates there are."""
    n = n_certain
    for d in range(n_drawn):
        row = np.int64(line.sampling.rows[d])
        if line.seen[row] != x:
            line.rows[n], line.column[row], line.seen[row] = row, n, x
            line.batch.label[0, n], line.batch.sample_count[0, n] = 0, 1
            n += 1
        elif line.column[row] >= n_certain:
            line.batch.sample_count[0, line.column[row]] += 1
    for k in range(n):  # so that a row of the next sweep is new again
        line.seen[line.rows[k]] = -1
    return n


@kernel_part
def _ask_for(table, row):
    """Have a row on its way to the cache."""
    for d in range(0, table.shape[1], SIMD_WIDTH):
        prefetch(table, row, d)


@kernel_part
def _add_row(a, i, factor, b, j):
    """b[j] += factor · a[i], rows of whole lanes."""
    factor = splat(factor)
    for d in range(0, a.shape[1], SIMD_WIDTH):
        store(b, j, d, multiply_add(factor, load(a, i, d), load(b, j, d)))

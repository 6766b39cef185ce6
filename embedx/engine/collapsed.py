"""The collapsed skip-gram objective and its gradient, over all pairs of a corpus grouped by input.

Yen et al. 2018, eq. 9, with N_xy pairs of input x and target y, N_x = Σ_y N_xy and N pairs in all:

    L = Σ_x N_x/N Σ_y N_xy/N_x · (log Σ_k e^{z_xk} - z_xy),    z_xk = u_x·w_k
    ∂L/∂u_x = 1/N Σ_k c_xk w_k          c_xk = ∂(N L)/∂z_xk
    ∂L/∂w_k = 1/N Σ_x c_xk u_x

Each input is one example of the objective, with labels N_xy. The candidates k are

    AllRows    all rows, by large matrix products
    FoundRows  the targets of x, the rows that an index finds for u_x, and drawn rows that represent
               all others (`Tail`)

Both work through blocks of inputs. The blocks do not depend on the number of threads, and are
summed in order.
"""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint8
from scipy.sparse import csr_matrix

from embedx.engine.loading import compile_function
from embedx.kernels import COEFFICIENTS, ONE, dot, kernel, new_batch, stream_key
from embedx.objectives.contract import Objective
from embedx.runtime.random_streams import TAIL_ROWS
from embedx.samplers.contract import SAMPLE, Sampler, new_sample_workspace
from embedx.search.index import build_index
from embedx.search.query import Searcher, find_candidates, new_query_workspace
from embedx.search.spec import SearchSpec
from embedx.text.cooccurrence import Counts

# Scores in a block of inputs with all rows; a thread has up to five arrays of this size.
BLOCK_FLOATS = 1 << 22
BLOCK_INPUTS = 256  # inputs in a block, where rows are found
INPUTS, OUTPUTS, NEITHER = range(3)  # the table whose gradient is computed beside the loss
NOT_CERTAIN, FOUND, TARGET = range(3)  # what a row is to an input, whatever is drawn
NO_STATE = np.zeros((1, 0), float32)


class Tail(NamedTuple):
    """Rows drawn for each input, which represent all that are neither found nor targets."""

    sampler: Sampler  # prepared
    n_draws: int
    seed: int


NO_TAIL = Tail(Sampler(None), 0, 0)


class Evaluation(NamedTuple):
    """The objective and the gradient of one table, at given vectors."""

    loss: float  # summed over all pairs, in nats
    gradient: ndarray  # of that sum, float32 like the table; (0, stride) for NEITHER
    macs: int  # multiply-adds of this evaluation


class CollapsedLoss(NamedTuple):
    """The loss of an objective over all pairs, as the classes below evaluate it."""

    objective: Objective
    counts: Counts
    n_outputs: int
    columns: int  # of the tables, without the padding of their rows
    threads: int


class _Candidates(NamedTuple):
    """The candidates of some inputs, in ascending order of their numbers."""

    number: ndarray  # int64 (n,): place of the input · n_outputs + row
    times: ndarray  # float64 (n,): how often a row was drawn; 1 for those found and targets
    is_target: ndarray  # bool (n,): whether it occurs with the input
    is_drawn: ndarray  # bool (n,): whether it was only drawn


class AllRows:
    """All rows are candidates: the objective is exact."""

    scope = ""

    def __init__(self, loss: CollapsedLoss) -> None:
        self.objective = loss.objective
        self.counts = loss.counts
        self.n_outputs = loss.n_outputs
        self.columns = loss.columns
        self.threads = loss.threads
        self.constants = self.objective.constants(self.n_outputs, len(self.counts.offsets) - 1)
        self.block_size = max(1, BLOCK_FLOATS // self.n_outputs)

    def compile(self) -> None:
        """Compile or load the kernels."""
        compile_function(self.objective.coefficients, COEFFICIENTS)

    def refit(self, outputs: ndarray) -> None:
        """Update what depends on the output rows, after they have changed."""

    def redraw(self, number: int) -> None:
        """Draw new rows, for iteration `number`."""

    def labels(self, first: int, n: int) -> csr_matrix:
        """Pair counts N_xy of n inputs from `first` on, (n, n_outputs)."""
        offsets = self.counts.offsets[first : first + n + 1]
        times = self.counts.times[offsets[0] : offsets[-1]]
        targets = self.counts.targets[offsets[0] : offsets[-1]]
        return csr_matrix((times, targets, offsets - offsets[0]), (n, self.n_outputs))

    def coefficients(self, first: int, h: ndarray, outputs: ndarray) -> tuple[float, Any, int]:
        """(loss, ∂loss/∂z, multiply-adds of a search) of the inputs from `first` on, of vectors h.

        The loss is summed over these inputs; ∂loss/∂z is (len(h), n_outputs), dense or sparse.
        """
        z = h[:, : self.columns] @ outputs[:, : self.columns].T
        batch = new_batch(*z.shape)._replace(z=z, label=self.labels(first, len(h)).toarray())
        batch.sample_count[:] = 1
        return self.objective.coefficients(batch, NO_STATE, self.constants, *z.shape, ONE), z, 0


class FoundRows(AllRows):
    """Candidates are the targets and the rows that an index finds, with exact scores.

    Without a tail all other rows are left out of the normaliser: the objective is too small, by
    what the index misses. With a tail the normaliser is estimated without bias, and the objective
    is too small by about half the relative variance of the estimate.
    """

    def __init__(
        self, loss: CollapsedLoss, search: SearchSpec, seed: int, tail: Tail = NO_TAIL
    ) -> None:
        super().__init__(loss)
        self.search = search
        self.seed = seed
        self.tail = tail
        self.block_size = BLOCK_INPUTS
        self.scope = "" if tail.n_draws else " among the rows found"
        self.sampler_data = tail.sampler.data(tail.n_draws)
        # Capacity per input; the last cluster scored may exceed `n_scored`.
        self.max_found = min(2 * search.blocks * search.n_scored, self.n_outputs)
        self.redraw(0)

    def compile(self) -> None:
        super().compile()
        compile_function(self.tail.sampler.sample, SAMPLE)

    def refit(self, outputs: ndarray) -> None:
        rng = np.random.default_rng(self.seed)
        self.index = build_index(
            outputs, self.n_outputs, self.columns, self.search, rng, self.threads
        )

    def redraw(self, number: int) -> None:
        self.stream = stream_key(self.tail.seed, TAIL_ROWS, number)

    def find(self, h: ndarray) -> tuple[ndarray, ndarray, int]:
        """(rows, counts, multiply-adds): the rows with the highest scores of each input, int32
        (len(h), max_found), of which the first counts[e] are used.
        """
        rows = np.zeros((len(h), self.max_found), int32)
        n_found = np.zeros(len(h), int64)
        query = new_query_workspace(self.n_outputs, self.search)
        searcher = Searcher(self.index, self.search, query)
        return rows, n_found, find_rows(searcher, h, rows, n_found)

    def draw(self, first: int, n: int) -> ndarray:
        """The rows drawn for n inputs from `first` on, int32 (n, n_draws)."""
        n_draws = self.tail.n_draws
        if n_draws == 0:
            return np.zeros((n, 0), int32)
        drawn = new_sample_workspace(n * n_draws, 0)
        place = np.uint64(first * n_draws)
        self.tail.sampler.sample(self.sampler_data, -1, self.stream, place, n * n_draws, 0, drawn)
        return drawn.rows[: n * n_draws].reshape(n, n_draws)

    def coefficients(self, first: int, h: ndarray, outputs: ndarray) -> tuple[float, Any, int]:
        n = len(h)
        labels = self.labels(first, n)
        example_of_target = np.repeat(np.arange(n), np.diff(labels.indptr))
        targets = example_of_target * self.n_outputs + labels.indices
        candidates, macs = self._candidates(first, h, targets)

        example, row = np.divmod(candidates.number, self.n_outputs)
        offsets = np.searchsorted(example, np.arange(n + 1))
        column = np.arange(len(example)) - offsets[example]
        batch = new_batch(n, int(np.diff(offsets).max()))
        batch.z[example, column] = scores(h, example, outputs, row, np.empty(len(row), float32))
        batch.sample_count[example, column] = candidates.times
        at = np.flatnonzero(candidates.is_target)
        batch.label[example[at], column[at]] = labels.data
        is_drawn = candidates.is_drawn
        batch.log_expected_count[example[is_drawn], column[is_drawn]] = (
            self.sampler_data.log_expected[row[is_drawn]]
        )
        loss = self.objective.coefficients(batch, NO_STATE, self.constants, *batch.z.shape, ONE)
        return loss, csr_matrix((batch.z[example, column], row, offsets), (n, self.n_outputs)), macs

    def _candidates(self, first: int, h: ndarray, targets: ndarray) -> tuple[_Candidates, int]:
        """The candidates of the inputs from `first` on, of vectors h, and the multiply-adds of the
        search.

        targets  int64: their numbers, as those of candidates
        """
        begin = np.arange(len(h))[:, None] * self.n_outputs
        found_rows, n_found, macs = self.find(h)
        is_used = np.arange(found_rows.shape[1]) < n_found[:, None]
        kind = np.full(len(h) * self.n_outputs, NOT_CERTAIN, uint8)
        kind[(begin + found_rows)[is_used]] = FOUND
        kind[targets] = TARGET
        certain = np.flatnonzero(kind)
        drawn, n_drawn = np.unique(begin + self.draw(first, len(h)), return_counts=True)
        is_new = kind[drawn] == NOT_CERTAIN
        number = np.concatenate((certain, drawn[is_new]))
        times = np.concatenate((np.ones(len(certain), float32), n_drawn[is_new]))
        order = np.argsort(number, kind="stable")  # merges the two ascending parts
        number = number[order]
        is_target = kind[number] == TARGET
        return _Candidates(number, times[order], is_target, order >= len(certain)), macs


def evaluate(
    rows: AllRows,
    inputs: ndarray,
    outputs: ndarray,
    side: int,
    report: Callable[[int], None] = lambda done: None,
) -> Evaluation:
    """The objective at `inputs` and `outputs`, float32 (n, stride), and the gradient of one `side`.

    `report` is called now and then with the number of inputs done; an exception that it raises ends
    the evaluation.
    """
    gradient = np.zeros_like({INPUTS: inputs, OUTPUTS: outputs, NEITHER: inputs[:0]}[side])
    loss = 0.0
    macs = 0
    n = len(inputs)

    def evaluate_block(first: int) -> tuple[float, Any, int]:
        """(loss, coefficients, multiply-adds) of the inputs from `first` on; writes their rows of
        the gradient, if it is that of the inputs.
        """
        h = inputs[first : first + rows.block_size]
        block_loss, coefficients, block_macs = rows.coefficients(first, h, outputs)
        if side == INPUTS:
            gradient[first : first + len(h)] = coefficients @ outputs
        block_macs += coefficients.size * rows.columns * (1 if side == NEITHER else 2)
        return block_loss, coefficients, block_macs

    with ThreadPoolExecutor(rows.threads) as pool:
        step = rows.threads * rows.block_size
        for start in range(0, n, step):
            blocks = range(start, min(start + step, n), rows.block_size)
            evaluated = pool.map(evaluate_block, blocks)
            for first, (block_loss, coefficients, block_macs) in zip(
                blocks, evaluated, strict=True
            ):
                if side == OUTPUTS:
                    gradient += coefficients.T @ inputs[first : first + rows.block_size]
                loss += block_loss
                macs += block_macs
            report(min(start + step, n))
    return Evaluation(loss, gradient, macs)


# ---- kernels


@kernel
def find_rows(searcher, h, rows, n_found):
    """Write the rows found for each h[e] to rows[e], their number to n_found[e]; return the
    multiply-adds.
    """
    index = searcher.row_index
    query = searcher.query
    macs = int64(0)
    for e in range(h.shape[0]):
        n_found[e] = find_candidates(searcher, h, int64(e), rows, e, 0, rows.shape[1])
        for j in range(index.ids.shape[0]):
            n_scored = index.list_sizes.shape[1] + query.offsets[j, query.n_probed[j]]
            macs += n_scored * (index.edges[j + 1] - index.edges[j])
    return macs


@kernel
def scores(h, example, outputs, row, z):
    """Overwrite z[k] by the score of h[example[k]] with outputs[row[k]]; return z."""
    for k in range(z.size):
        z[k] = dot(h, example[k], outputs, row[k])
    return z

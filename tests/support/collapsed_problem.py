"""A small problem of collapsed training."""

import numpy as np
import pytest
import reference_collapsed

from embedx.engine import collapsed as engine
from embedx.engine.collapsed import INPUTS, NEITHER, OUTPUTS
from embedx.kernels.simd import aligned_zeros
from embedx.objectives import OBJECTIVES
from embedx.search.spec import SearchSpec
from embedx.text.cooccurrence import Counts

N, DIM = 30, 7


SEARCH_MACS = 1000  # for each input


class BestRows(engine.FoundRows):
    """Finds, by brute force, the n rows that score highest."""

    def __init__(self, loss, n, tail=engine.NO_TAIL):
        super().__init__(loss, search_spec(1), seed=1, tail=tail)
        self.n = n

    def refit(self, outputs):
        self.outputs = outputs.copy()

    def find(self, inputs):
        rows = np.argpartition(-(inputs @ self.outputs.T), self.n - 1, axis=1)[:, : self.n].astype(
            np.int32
        )
        return rows, np.full(len(inputs), self.n), SEARCH_MACS * len(inputs)


def search_spec(blocks, **options):
    everything = {
        "clusters": 5,
        "n_scored": N,
        "max_candidates": N,
        "threshold": 0.0,
        "min_coefficient": 1e-9,
        "max_gap": 1e9,
        "from_logsumexp": True,
        "message_iterations": 0,
    }
    return SearchSpec(blocks, **everything | options)


def best(n, **options):
    return lambda loss: BestRows(loss, n, **options)


class Problem:
    """Random vectors and counts of 30 words, one of which is never an input and one
    never a target.
    """

    def __init__(self, threads=2, rows=engine.AllRows, block=None, objective="softmax"):
        rng = np.random.default_rng(0)
        self.inputs = aligned_zeros(N, DIM)
        self.outputs = aligned_zeros(N, DIM)
        self.inputs[:, :DIM], self.outputs[:, :DIM] = rng.normal(0, 0.7, (2, N, DIM))
        self.dense = rng.poisson(0.4, (N, N)) * rng.integers(1, 50, (N, N))
        self.dense[4] = self.dense[:, 9] = 0
        inputs, targets = np.nonzero(self.dense)
        self.counts = Counts(
            np.searchsorted(inputs, np.arange(N + 1)).astype(np.int64),
            targets.astype(np.int32),
            self.dense[inputs, targets].astype(np.float32),
        )
        options = {"loss": "softmax"} if objective == "ldgs" else {}
        objective = OBJECTIVES[objective](OBJECTIVES[objective].Settings.from_options(options))
        self.rows = rows(engine.CollapsedLoss(objective, self.counts, N, DIM, threads))
        self.rows.compile()
        self.rows.block_size = block or self.rows.block_size
        self.rows.refit(self.outputs)

    def evaluate(self, side):
        """The mean loss a pair, the gradient of that, and the multiply-adds."""
        loss, gradient, macs = engine.evaluate(self.rows, self.inputs, self.outputs, side)
        return loss / self.dense.sum(), gradient[:, :DIM] / self.dense.sum(), macs

    def truth(self):
        return (
            self.inputs[:, :DIM].astype(np.float64),
            self.outputs[:, :DIM].astype(np.float64),
            self.dense,
        )

    def assert_is_that_of(self, *weights, atol=1e-7):
        """The objective and both gradients are those of the paper, with candidates of these
        weights.
        """
        truth = reference_collapsed.gradients(*self.truth(), *weights)
        for side in (INPUTS, OUTPUTS, NEITHER):
            loss, gradient, _ = self.evaluate(side)
            assert loss == pytest.approx(
                reference_collapsed.objective(*self.truth(), *weights), rel=1e-5
            )
            if side != NEITHER:
                np.testing.assert_allclose(gradient, truth[side], atol=atol)

"""Skip-gram trained in every form: each objective, sampler, encoder and storage."""

import numpy as np
import pytest
from reference_skipgram import Naive, blocks_of


def assert_trains_as_the_reference(setup, start=10, stop=100, lr=0.02, chunk=200):
    """Train on tokens[start:stop], by the kernel and by the naive reference; all tables
    must agree.
    """
    naive = Naive(
        setup.tables, setup.optimizer, setup.objective, setup.constants, setup.plan.bias, setup.dim
    )
    expected = trained = 0.0
    n_pairs = 0
    for first in range(start, stop, chunk):
        end = min(first + chunk, stop)
        blocks = blocks_of(setup, first, end)
        assert blocks
        expected += sum(naive.train(block, lr) for block in blocks)
        loss, n, _ = setup.train(first, end, lr)
        trained = trained + loss
        n_pairs = n_pairs + n
    assert n_pairs > 20
    assert trained == pytest.approx(expected, rel=2e-5)
    for name, ours, truth in (
        ("inputs", setup.tables.inputs.rows, naive.inputs),
        ("outputs", setup.tables.outputs.rows, naive.outputs),
        ("inputs' state", setup.tables.inputs.state, naive.input_state),
        ("outputs' state", setup.tables.outputs.state, naive.output_state),
        ("state", setup.tables.objective_state, naive.state),
    ):
        np.testing.assert_allclose(
            ours, truth[: len(ours), : ours.shape[1]], rtol=2e-4, atol=2e-5, err_msg=name
        )
    if setup.objective.state_width:
        assert setup.tables.n_updates.tolist() == [
            naive.n_updates[word] for word in range(len(setup.tables.n_updates))
        ]


# pairs that are cases of their own for the kernel
OBJECTIVES_AND_SAMPLERS = [
    *(("ns", sampler) for sampler in ("unigram", "uniform", "all")),
    *(("ar", sampler) for sampler in ("unigram", "uniform", "all")),
    *(("ove", sampler) for sampler in ("unigram", "uniform", "all")),
    ("hs", "path"),
    ("implicit", "unigram"),  # whose step depends on the score gain, the 1 of the biases included
    ("softmax", "all"),
]

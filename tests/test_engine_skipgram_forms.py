"""Every form in which an objective gets the pairs of a block, with every kind of candidates,
against the naive reference.
"""

import numpy as np
import pytest
from reference import NAIVE_OPTIMIZERS

from embedx.engine.blocks import FORM_MERGED, FORM_PER_PAIR, FORM_SUMMED
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS
from tests.support.objectives import make
from tests.support.skipgram_forms import OBJECTIVES_AND_SAMPLERS, assert_trains_as_the_reference
from tests.support.skipgram_setup import Setup

FORMS = {
    FORM_SUMMED: [("ns", {"negatives": 4}), ("nce", {"negatives": 4})],
    FORM_MERGED: [
        ("ar", {}),
        ("umax", {}),
        ("implicit", {}),
        ("bouchard", {}),
        ("sgd-double-sum", {}),
        ("scgd", {}),
        ("complementary-sum", {}),
    ],
    FORM_PER_PAIR: [
        ("ove", {}),
        ("sampled-softmax", {}),
        ("sampled-softmax", {"keep_hits": True}),
        ("ova", {}),
        ("ar", {"augment": "noise"}),
        ("scgd", {"double_sum": "proposed"}),
        ("implicit", {"double_sum": "proposed"}),
    ],
}


@pytest.mark.parametrize("block_size", [0, 5, 64])
@pytest.mark.parametrize(
    ("form", "name", "settings"), [(form, *case) for form, cases in FORMS.items() for case in cases]
)
def test_each_form_trains_as_the_reference(form, name, settings, block_size):
    """Sums count a draw for every pair; sets count it once, and are certain of the other centres;
    pairs meet it in turn.
    """
    n_draws, lr = (2 * block_size, 0.02) if form == FORM_SUMMED else (block_size, 0.005)
    setup = Setup(make(name, **settings), block_size=block_size, draws=max(4, n_draws))
    assert setup.plan.form == form
    assert_trains_as_the_reference(setup, lr=lr)


@pytest.mark.parametrize(("n_words", "block_size"), [(2, 5), (12, 0), (12, 64), (71, 1), (71, 17)])
def test_the_bits_of_all_paths_to_the_centres_of_a_block_are_counted(n_words, block_size):
    """With 2 words all paths are one node; with 12 most nodes are shared, and with 71 some are."""
    assert_trains_as_the_reference(
        Setup(make("hs"), block_size=block_size, sampler="path", n_words=n_words)
    )


@pytest.mark.parametrize(("n_words", "block_size"), [(12, 0), (130, 5), (71, 64)])
@pytest.mark.parametrize(
    ("name", "form"),
    [("softmax", FORM_MERGED), ("ar", FORM_MERGED), ("ns", FORM_SUMMED), ("ova", FORM_PER_PAIR)],
)
def test_all_rows_are_candidates_however_many_there_are(name, form, n_words, block_size):
    """More than are looked at together, and of neither a whole number of tiles."""
    setup = Setup(make(name), block_size=block_size, sampler="all", n_words=n_words)
    assert setup.plan.form == form
    assert_trains_as_the_reference(setup, lr=0.002)


@pytest.mark.parametrize(
    ("optimizer", "sampler", "settings"),
    [
        ("sgd", "unigram", {}),
        ("sgd", "uniform", {"double_sum": "proposed"}),
        ("rowwise-adagrad", "uniform", {}),
        ("bounded-adagrad", "unigram", {"double_sum": "proposed"}),
    ],
)
def test_a_proximal_step_is_bounded_by_the_scores_of_its_block(optimizer, sampler, settings):
    held = Setup(
        make("implicit", **settings), block_size=5, sampler=sampler, optimizer=optimizer, bias=True
    )
    assert_trains_as_the_reference(held, 0, 40, lr=20)
    free = Setup(
        make("implicit", **settings), block_size=5, sampler=sampler, optimizer=optimizer, bias=True
    )
    free.workspace.longest_step[0] = 1e9
    free.train(0, 40, lr=20)
    assert np.abs(free.tables.outputs.rows - held.tables.outputs.rows).max() > 0.3


@pytest.mark.parametrize(("name", "sampler"), OBJECTIVES_AND_SAMPLERS)
def test_biases_are_trained_and_the_constant_inputs_are_not(name, sampler):
    dim = 16  # the biases open a vector register of their own
    setup = Setup(make(name), block_size=5, sampler=sampler, bias=True, dim=dim)
    before = setup.tables.outputs.rows[:, dim].copy()
    assert_trains_as_the_reference(setup, lr=0.005)
    assert (setup.tables.inputs.rows[:, dim] == 1).all()
    assert (setup.tables.outputs.rows[:, dim] != before).mean() > 0.8


# a proximal step has one rate a row, so that optimisers with one for each number are refused
ADAPTIVE = [
    (optimizer, name, sampler)
    for optimizer in NAIVE_OPTIMIZERS
    for name, sampler in OBJECTIVES_AND_SAMPLERS
    if optimizer != "sgd"
    and (OBJECTIVES[name].step != "proximal" or OPTIMIZERS[optimizer].keeps != "per_coordinate")
]


@pytest.mark.parametrize(("optimizer", "name", "sampler"), ADAPTIVE)
def test_a_row_is_updated_with_its_optimizer_state(optimizer, name, sampler):
    setup = Setup(make(name), block_size=5, sampler=sampler, optimizer=optimizer, bias=True)
    assert_trains_as_the_reference(setup, lr=0.05)


@pytest.mark.parametrize(("name", "sampler"), OBJECTIVES_AND_SAMPLERS)
def test_the_state_of_a_row_is_kept_over_chunks(name, sampler):
    """What is kept of the rows does; what is kept of a worker's last block does not: blocks are of
    all lengths here.
    """
    setup = Setup(
        make(name),
        block_size=17,
        draws=20,
        sampler=sampler,
        optimizer="rowwise-adagrad",
        n_tokens=400,
    )
    assert_trains_as_the_reference(setup, 0, 400, lr=0.02, chunk=57)


@pytest.mark.parametrize(("name", "sampler"), OBJECTIVES_AND_SAMPLERS)
def test_cbow_predicts_the_centre_by_the_mean_of_its_contexts(name, sampler):
    is_even = OBJECTIVES_AND_SAMPLERS.index((name, sampler)) % 2 == 0
    block_size, n_ngrams, optimizer = (5, 9, "rowwise-adagrad") if is_even else (17, 0, "sgd")
    setup = Setup(
        make(name),
        architecture="cbow",
        block_size=block_size,
        draws=max(4, block_size),
        sampler=sampler,
        bias=True,
        n_ngrams=n_ngrams,
        optimizer=optimizer,
        n_tokens=200,
    )
    assert_trains_as_the_reference(setup, 0, 200, lr=0.005, chunk=57)


@pytest.mark.parametrize(("name", "sampler"), OBJECTIVES_AND_SAMPLERS)
def test_arrays_that_an_objective_does_not_use_change_nothing(name, sampler):
    plain = Setup(make(name), block_size=5, sampler=sampler)
    with_all_inputs = Setup(make(name), block_size=5, sampler=sampler)
    with_all_inputs.plan = with_all_inputs.plan._replace(
        uses_log_expected_count=True, uses_score_gain=True
    )
    assert plain.train(0, 100) == with_all_inputs.train(0, 100)
    np.testing.assert_array_equal(plain.tables.outputs.rows, with_all_inputs.tables.outputs.rows)

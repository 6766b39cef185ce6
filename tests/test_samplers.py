"""Samplers: what holds for every one in the registry, and what theory says of each."""

import numpy as np
import pytest

from embedx import samplers
from embedx.errors import InapplicableError
from embedx.objectives import OBJECTIVES
from embedx.samplers import SAMPLERS, make, names_of, recorded, with_warm_up
from embedx.samplers.contract import Paths, new_sample_workspace
from embedx.testing import samplers as contract
from tests.support.refusals import refused

COUNTS = np.array([400, 0, 90, 1, 30, 9, 90, 250], dtype=np.int64)
STREAM = np.uint64(1234567)

replacement = pytest.mark.parametrize("replacement", [True, False], ids=["replaced", "distinct"])


def prepared(name, *, replacement=True, counts=COUNTS, **options):
    sampler = make(name, options, replacement=replacement)
    sampler.prepare(
        counts,
        paths=Paths(
            np.array([0, 2, 3]), np.array([0, 1, 0], np.int32), np.array([1, 0, 0], np.float32)
        ),
    )
    return sampler


def draws(sampler, n, streams, *, first=0, avoided=(), input_row=-1):
    """The rows that the streams draw, one stream after the other in the same workspace."""
    data = sampler.data(n)
    workspace = new_sample_workspace(n, len(avoided))
    for stream in streams:
        workspace.excluded[:] = avoided
        n_drawn = sampler.sample(
            data, input_row, np.uint64(stream), np.uint64(first), n, len(avoided), workspace
        )
        assert (workspace.seen == -1).all(), "slots are left as they were"
        yield workspace.rows[:n_drawn].copy()


def draw(sampler, n, *, stream=STREAM, **others):
    return next(draws(sampler, n, [stream], **others))


def log_expected(sampler, n, rows, *, n_drawn=None, n_excluded=0, input_row=-1):
    rows = np.asarray(rows, dtype=np.int32)
    out = np.full(len(rows), np.nan, dtype=np.float32)
    n_drawn = n if n_drawn is None else n_drawn
    sampler.log_expected_count(
        sampler.data(n), input_row, n_drawn, n_excluded, rows, len(rows), out
    )
    return out


# ---- every sampler


@pytest.mark.parametrize("name", SAMPLERS)
@replacement
@pytest.mark.parametrize("check", contract.CHECKS, ids=lambda check: check.__name__)
def test_a_sampler_keeps_its_contract(name, replacement, check):
    check(SAMPLERS[name], replacement)


def test_samplers_that_do_not_draw_give_all_rows_or_none():
    for name, sampler in SAMPLERS.items():
        if sampler.candidates != "drawn":
            assert list(draw(prepared(name), 4)) == ([0, 1, 2, 3] if name == "all" else [])


# ---- unigram


def test_unigram_noise_is_a_power_of_the_count_and_a_class_never_seen_counts_as_seen_once():
    weights = np.maximum(COUNTS, 1) ** 0.5
    np.testing.assert_allclose(
        prepared("unigram", sampler_exponent=0.5).noise, weights / weights.sum()
    )
    np.testing.assert_allclose(prepared("unigram", sampler_exponent=0.0).noise, 1 / len(COUNTS))


def test_without_replacement_unigram_counts_a_row_once():
    sampler = prepared("unigram", replacement=False)
    assert not sampler.replacement
    q = sampler.noise
    for n in (5, 20):  # fewer than there are classes, and more
        np.testing.assert_allclose(
            np.exp(log_expected(sampler, n, np.arange(8))), 1 - (1 - q) ** n, rtol=1e-5
        )


# ---- uniform, without replacement


def test_distinct_draws_end_when_there_are_no_more_rows():
    sampler = prepared("uniform", replacement=False)
    assert sorted(draw(sampler, 20, avoided=(1,))) == [0, 2, 3, 4, 5, 6, 7]
    assert len(draw(sampler, 3, avoided=range(8))) == 0
    np.testing.assert_array_equal(log_expected(sampler, 3, [0], n_drawn=0, n_excluded=8), 0)


def test_hundreds_of_draws_are_distinct_despite_collisions_in_the_filter():
    sampler = prepared("uniform", replacement=False, counts=np.ones(3000, dtype=np.int64))
    assert len(set(draw(sampler, 1500, avoided=range(100)))) == 1500


# ---- path


def test_the_path_sampler_passes_the_tree_to_the_kernel():
    data = prepared("path").data(0)
    np.testing.assert_array_equal(data.offsets, [0, 2, 3])
    np.testing.assert_array_equal(data.rows, [0, 1, 0])
    np.testing.assert_array_equal(data.values, [1, 0, 0])


# ---- the registry


@pytest.mark.parametrize("name", OBJECTIVES)
def test_an_objective_takes_every_sampler_of_the_kinds_it_names(name):
    objective = OBJECTIVES[name]
    taken = objective.samplers()
    kinds = set(objective.candidates)
    if objective.traits.unbiased:  # any rows may be certain, where draws stand for the others
        kinds.add("retrieved")
    assert set(taken) == {name for name, sampler in SAMPLERS.items() if sampler.candidates in kinds}
    assert SAMPLERS[taken[0]].candidates == objective.candidates[0]
    if "drawn" in objective.candidates:
        assert samplers.first_drawn(taken) == objective.default_sampler


def test_the_default_sampler_is_named_first():
    assert names_of(("drawn", "all"), "uniform")[:2] == ("uniform", "unigram")
    assert names_of(("all",), "unigram") == ("all",)


def test_a_setting_of_another_sampler_is_refused():
    fields = {"kind": InapplicableError, "remedy": "use it with unigram"}
    with refused("sampler_exponent", "sampler", **fields):
        make("uniform", {"sampler_exponent": 1.0})


def test_a_search_has_a_sampler_that_draws_for_its_warm_up():
    sampler, warm_up = with_warm_up(
        "search", ["search", "unigram", "uniform"], {"sampler_exponent": 0.5}
    )
    assert (sampler.candidates, warm_up.name, warm_up.settings.sampler_exponent) == (
        "retrieved",
        "unigram",
        0.5,
    )
    assert with_warm_up("uniform", ["uniform"], {})[1] is None


def test_a_saved_model_reports_its_sampler():
    sampler = recorded(
        {"sampler": "unigram", "sampler_exponent": 0.25, "window": 5}, replacement=False
    )
    assert (sampler.name, sampler.settings.sampler_exponent, sampler.replacement) == (
        "unigram",
        0.25,
        False,
    )
    assert recorded({}, replacement=True).name == "all"

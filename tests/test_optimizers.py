"""What each optimiser declares, its state in tables, and its rate in the help."""

import re
import sys

import numpy as np
import pytest

from embedx import optimizers
from embedx.errors import InapplicableError
from embedx.optimizers import OPTIMIZERS, find, taken_by, update_rule
from embedx.optimizers.contract import (
    COLLAPSED,
    LABELS,
    PER_COORDINATE,
    PER_ROW,
    STATELESS,
    WORDS,
    new_table,
)
from tests.support.optimizer_rows import DIM, EVERY_OPTIMIZER, STRIDE
from tests.support.refusals import refused


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimiser_declares_what_it_is(name):
    optimizer = OPTIMIZERS[name]
    assert optimizer.name == name
    page = str(sys.modules[optimizer.__module__].__doc__)
    assert re.search(r"\b(19|20)\d\d\b", page), "a paper has a year"
    assert "w -= " in page
    assert optimizer.meaning
    assert not optimizer.meaning.endswith(".")
    assert optimizer.commands
    assert set(optimizer.commands) <= {WORDS, COLLAPSED, LABELS}
    assert set(optimizer.rates) <= set(optimizer.commands)
    assert all(rate > 0 for rate in optimizer.rates.values())
    if optimizer.keeps is None:
        assert WORDS not in optimizer.commands
        assert optimizer.accumulate is optimizer.divisor is None
    else:
        assert set(optimizer.rates) == set(optimizer.commands) & {WORDS, LABELS}
        assert (
            (optimizer.accumulate is None)
            == (optimizer.divisor is None)
            == (optimizer.keeps == "stateless")
        )


@pytest.mark.parametrize("command", [WORDS, COLLAPSED, LABELS])
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimiser_is_found_for_the_commands_that_offer_it(name, command):
    if command in OPTIMIZERS[name].commands:
        assert find(name, command) is OPTIMIZERS[name]
        assert name in taken_by(command)
        assert f"`{name}`: {OPTIMIZERS[name].meaning}" in optimizers.meanings(command)
    else:
        with refused("optimizer", kind=InapplicableError, value=name) as caught:
            find(name, command)
        for offering in OPTIMIZERS[name].commands:
            assert f"`embedx {offering}`" in caught.value.problem
        taken = ", ".join(taken_by(command))
        assert caught.value.remedy == f"use one of `embedx {command}`: {taken}"
        assert name not in taken_by(command)
        assert f"`{name}`" not in optimizers.meanings(command)


def test_an_unknown_optimizer_is_refused_with_the_known_ones():
    with refused("optimizer", value="adam") as caught:
        find("adam", WORDS)
    assert caught.value.remedy.startswith("choose one of adagrad, rowwise-adagrad, ")


def test_help_shows_the_rate_of_each_optimizer():
    rates = optimizers.usual_rates(WORDS).split(", ")
    assert rates == [f"{OPTIMIZERS[name].rates[WORDS]:g} for {name}" for name in taken_by(WORDS)]


@EVERY_OPTIMIZER
def test_tables_have_the_state_of_their_optimizer(name):
    for l2 in (0.0, 0.1):
        rule = update_rule(name, l2=l2)
        assert (rule.l2, rule.max_norm) == (l2, 0)
        rows = new_table(4, DIM, rule)
        keeps = OPTIMIZERS[name].keeps
        assert (
            rows.keeps
            == {"stateless": STATELESS, "per_coordinate": PER_COORDINATE, "per_row": PER_ROW}[keeps]
        )
        assert (
            rows.state.shape
            == {"stateless": (0, STRIDE), "per_coordinate": (4, STRIDE), "per_row": (4, 1)}[keeps]
        )
        assert len(rows.decay_clock) == (4 if l2 else 0)


@EVERY_OPTIMIZER
def test_state_rate_is_the_size_of_the_first_step_of_a_coordinate(name):
    """A row whose first step is as long as the rate moves each number by as much divided by the
    root of their number.
    """
    assert update_rule(name, row_length=25).state_rate == np.float32(
        0.2 if OPTIMIZERS[name].keeps == "per_row" else 1
    )

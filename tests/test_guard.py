"""The divergence guard of the trainer on a made-up strategy: rollbacks, lower rates, ended runs."""

import math
import os
import signal
import threading

import numpy as np
import pytest

from embedx.errors import DivergedError
from embedx.runtime.progress import Silent
from embedx.training import guard, trainer
from embedx.training.guard import Guard
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support.checkpoints import checkpoints_of, state_of
from tests.support.notes import Notes, lines_with
from tests.support.refusals import check_fields, refused

# Mean losses of a Bowl, |w|² / 2: at its start, and of the parameters of its baseline.
UNTRAINED_LOSS = 3 * 8**2 / 2
BASELINE_LOSS = 3 * 4**2 / 2


class Bowl(Strategy):
    """Gradient descent on |w|² / 2 from (8, 8, 8), which diverges at rates above 2.

    done               how often each chunk was trained
    spoiled_from       the chunk from which on the losses are changed
    spoil              returns the changed loss of a loss
    spoils_above_rate  losses at rates up to this are left as they are
    """

    n_chunks = 40

    def __init__(
        self, threads=1, spoiled_from=math.inf, spoil=lambda loss: math.nan, spoils_above_rate=0.0
    ):
        self.workers = list(range(threads))
        self.w = np.full(3, 8.0)
        self.done = np.zeros(40 * 5, dtype=np.int64)
        self.spoiled_from = spoiled_from
        self.spoil = spoil
        self.spoils_above_rate = spoils_above_rate
        self.rates = []

    def compile(self, progress):
        pass

    def train_chunk(self, worker, epoch, chunk, rate):
        loss = float((self.w**2).sum() / 2)
        self.w -= rate * self.w
        step = epoch * self.n_chunks + chunk
        if rate > 0:
            self.done[step] += 1
            self.rates.append((step, rate))
        if step >= self.spoiled_from and rate > self.spoils_above_rate:
            loss = self.spoil(loss)
        return Tally(loss * 10, 10, 100)

    def state(self):
        state = TrainState()
        state.add_array("w.rows", self.w)
        state.add_array("done", self.done)
        return state

    def sampled_loss(self):
        return self.train_chunk(0, 0, 0, 0.0).mean_loss

    def baseline_loss(self):
        self.w[:] = 4.0
        return self.sampled_loss()


def train(strategy, rate, epochs=1, shape="constant", progress=None, **options):
    schedule = Schedule(rate, strategy.n_chunks, 100 * strategy.n_chunks, epochs, shape=shape)
    return trainer.train(strategy, schedule, progress or Silent(), **options)


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize(
    ("rate", "lowered"), [(1.9, []), (5.0, [0.5]), (500.0, [50.0, 0.5]), (3e4, [3e3, 30.0, 0.3])]
)
def test_a_diverging_rate_is_lowered_until_the_run_converges(rate, lowered, threads):
    strategy = Bowl(threads)
    notes = Notes()
    outcome = train(strategy, rate, progress=notes)
    assert outcome.lowered_rates == pytest.approx(lowered)
    assert outcome.facts().get("learning_rate_lowered", []) == outcome.lowered_rates
    assert outcome.divergence is None
    assert (strategy.done[:40] == 1).all()
    assert np.abs(strategy.w).max() < 1
    assert len(notes.warnings) == len(lowered)
    assert all("back to the start, learning rate" in warning for warning in notes.warnings)
    assert outcome.tally.items == 4000


@pytest.mark.parametrize("is_guarded", [False, True])
def test_without_a_guard_or_memory_for_a_copy_a_run_that_diverges_ends(is_guarded, monkeypatch):
    monkeypatch.setattr(guard, "available_memory", lambda: 0)
    strategy = Bowl(spoiled_from=9)
    strategy.is_guarded = is_guarded
    with refused(
        None,
        "learning_rate",
        kind=DivergedError,
        quoting=("not finite", "1,000 words", "0.3", "0.075"),
    ):
        train(strategy, 0.3)
    assert strategy.done.sum() == len(strategy.rates) == 10


def test_a_rate_that_diverges_at_every_attempt_ends_the_run_without_a_model():
    strategy = Bowl()
    rates = "1e+09, 1e+08, 1e+06, 1e+04"
    with refused(None, "learning_rate", kind=DivergedError, quoting=("the loss", rates)):
        train(strategy, 1e9)
    assert {rate for _, rate in strategy.rates} == {1e9, 1e8, 1e6, 1e4}


def test_a_state_with_a_lock_is_checked_during_training(monkeypatch):
    """The first chunk ends when the guard has looked twice, which would never come if that had to
    wait for it.
    """
    looks = []
    looked_twice = threading.Event()
    lock = threading.Lock()
    check = Guard.check

    def look(self, share, *others):
        looks.append((share, lock.locked()))
        if len(looks) == 2:
            looked_twice.set()
        return check(self, share, *others)

    class WaitingBowl(Bowl):
        def train_chunk(self, worker, epoch, chunk, rate):
            if (epoch, chunk) == (0, 0) and rate > 0:
                assert looked_twice.wait(20)
            return super().train_chunk(worker, epoch, chunk, rate)

        def state(self):
            state = super().state()
            state.read_lock = lock
            return state

    monkeypatch.setattr(Guard, "check", look)
    strategy = WaitingBowl(threads=2)
    outcome = trainer.train(strategy, Schedule(0.1, 40, 400, 2), Silent())
    assert (strategy.done[:80] == 1).all()
    assert outcome.epochs == 2
    assert len(looks) == guard.CHECKS_OF_RUN
    assert [was_held for _, was_held in looks] == [True] * (guard.CHECKS_OF_RUN - 1) + [False]


def test_a_diverged_run_is_rolled_back_to_its_last_good_state():
    """The guard checks after every second of 40 chunks; from the tenth on they go wrong."""
    strategy = Bowl(spoiled_from=9, spoils_above_rate=0.05)
    notes = Notes()
    outcome = train(strategy, 0.1, progress=notes)
    assert [step for step, rate in strategy.rates if rate == 0.1] == list(range(10))
    assert [step for step, rate in strategy.rates if rate < 0.05] == list(range(8, 40))
    assert strategy.w == pytest.approx(8 * 0.9**8 * 0.99**32)
    assert (strategy.done[:40] == 1).all()
    assert outcome.tally == Tally(pytest.approx(outcome.tally.loss), 400, 4000)
    (warning,) = notes.warnings
    assert lines_with(warning, "1,000 words", "rate 0.1: ", "back to 800", "rate 0.01")


@pytest.mark.parametrize(
    ("spoil", "at"), [(lambda loss: 1e6, 10), (lambda loss: 1400.0, 15), (lambda loss: math.inf, 9)]
)
def test_an_exploding_loss_is_noticed_within_an_interval_and_a_high_one_if_it_lasts(spoil, at):
    """Losses are compared with that before training, 96."""
    strategy = Bowl(spoiled_from=9, spoil=spoil, spoils_above_rate=0.05)
    train(strategy, 0.1)
    assert max(step for step, rate in strategy.rates if rate == 0.1) <= at


@pytest.mark.parametrize("high", [150.0, 1400.0])
def test_a_loss_that_is_high_for_a_short_time_is_tolerated(high):
    strategy = Bowl(spoiled_from=9, spoil=lambda loss: high if len(strategy.rates) < 14 else loss)
    assert not train(strategy, 0.1).lowered_rates


def test_a_draw_of_large_weight_is_no_divergence():
    strategy = Bowl(
        spoiled_from=0, spoil=lambda loss: loss * (2e3 if strategy.rates[-1][0] % 16 == 3 else 1)
    )
    strategy.n_chunks = 160
    strategy.done = np.zeros(160 * 5, dtype=np.int64)
    outcome = train(strategy, 0.1)
    assert outcome.highest_loss > 1e4
    assert not outcome.lowered_rates


def test_a_rolled_back_run_has_to_beat_the_baseline():
    """A loss of 30 is between the baseline's and that before training. It is accepted of a run that
    never diverged.
    """
    assert BASELINE_LOSS < 30 < UNTRAINED_LOSS
    strategy = Bowl(spoiled_from=12, spoil=lambda loss: 30.0)
    assert not train(strategy, 0.1).lowered_rates
    strategy = Bowl(
        spoiled_from=2, spoil=lambda loss: math.nan if strategy.rates[-1][1] > 0.09 else 30.0
    )
    outcome = train(strategy, 0.1)
    assert len(outcome.lowered_rates) == 3
    assert f" {BASELINE_LOSS:g} after" in outcome.divergence.problem
    assert "rates 0.1, 0.01, 0.0001, 1e-06" in str(outcome.divergence)
    check_fields(outcome.divergence, None, "learning_rate")
    assert 0.9 <= outcome.epochs < 1  # where it was good


def test_after_three_rollbacks_a_run_ends_with_its_last_good_state():
    strategy = Bowl(spoiled_from=9)
    notes = Notes()
    outcome = train(strategy, 0.1, progress=notes)
    assert strategy.w == pytest.approx(8 * 0.9**8)
    assert outcome.tally.items == 800
    assert outcome.epochs == pytest.approx(8 / 40)
    assert outcome.lowered_rates == pytest.approx([1e-2, 1e-4, 1e-6])
    reason = str(outcome.divergence)
    assert lines_with(reason, "1,000 words", "rate 1e-06; ", "rates 0.1, 0.01, 0.0001, 1e-06")
    check_fields(outcome.divergence, None, "learning_rate")
    with pytest.raises(DivergedError):
        outcome.raise_reason()


def test_exploding_parameters_are_noticed_although_the_loss_is_flat():
    strategy = Bowl()

    def flat(worker, epoch, chunk, rate):
        strategy.w *= 1 + 1e3 * rate
        return Tally(10.0, 10, 100)

    strategy.train_chunk = flat
    strategy.sampled_loss = strategy.baseline_loss = lambda: 1.0
    with refused(kind=DivergedError, quoting="1e+15"):
        train(strategy, 1e12)


def test_an_epoch_that_diverged_is_not_reported():
    strategy = Bowl(spoiled_from=60, spoils_above_rate=0.05)
    epochs_ended = []
    train(
        strategy,
        0.1,
        epochs=3,
        after_epoch=lambda epoch, tally, seconds: (
            epochs_ended.append((epoch, tally.items)) or False
        ),
    )
    assert epochs_ended == [(0, 4000), (1, 4000), (2, 4000)]


def test_a_time_budget_is_kept_by_a_rolled_back_run(monkeypatch):
    now = [0.0]
    monkeypatch.setattr(
        trainer, "time", type("Clock", (), {"monotonic": staticmethod(lambda: now[0])})
    )
    strategy = Bowl(spoiled_from=30, spoils_above_rate=0.05)
    train_chunk = strategy.train_chunk

    def timed(worker, epoch, chunk, rate):
        now[0] += 1 / 64 if rate else 0
        return train_chunk(worker, epoch, chunk, rate)

    strategy.train_chunk = timed
    schedule = Schedule(0.1, 40, 4000, 1, time_budget=100 / 64, shape="constant")
    outcome = trainer.train(strategy, schedule, Silent())
    assert len(strategy.rates) == 100
    assert outcome.seconds == 100 / 64
    assert outcome.lowered_rates == pytest.approx([0.01])
    assert 90 <= outcome.tally.items / 100 < 100


def test_ctrl_c_during_a_rollback_keeps_the_rolled_back_state(monkeypatch):
    restore = TrainState.restore
    pressed = []

    def interrupted(self, snapshot):
        if strategy.done.any() and not pressed:
            pressed.append(True)
            self.values["w.rows"].write(-1.0)
            os.kill(os.getpid(), signal.SIGINT)
        restore(self, snapshot)

    monkeypatch.setattr(TrainState, "restore", interrupted)
    strategy = Bowl(spoiled_from=9)
    outcome = train(strategy, 0.1)
    assert isinstance(outcome.interrupted_by, KeyboardInterrupt)
    assert strategy.w == pytest.approx(8 * 0.9**8)
    assert outcome.tally.items == 800


# ---- with little memory, by checkpoints


def test_without_memory_for_a_copy_a_run_is_rolled_back_to_its_last_checkpoint(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(guard, "available_memory", lambda: 0)
    strategy = Bowl(spoiled_from=9, spoils_above_rate=0.05)
    checkpoints = checkpoints_of(tmp_path / "out", Notes())
    taken = []
    take = checkpoints.take

    def noted(state):
        taken.append(state.snapshot()["trainer.next_chunk"])
        take(state, wait=True)

    monkeypatch.setattr(checkpoints, "is_due", lambda: len(strategy.rates) >= 5 and not taken)
    monkeypatch.setattr(checkpoints, "take", noted)
    outcome = train(strategy, 0.1, checkpoints=checkpoints)
    assert outcome.lowered_rates == pytest.approx([0.01])
    assert next(step for step, rate in strategy.rates if rate < 0.05) == taken[0] <= 8
    assert (strategy.done[:40] == 1).all()
    assert len(taken) == 2  # another was written when it had gone back
    checkpoints.remove()


@pytest.mark.parametrize(("chunks_at_good_state", "restored"), [(9, 5), (10, 10), (4, 10)])
def test_a_rollback_uses_the_last_checkpoint_before_the_divergence(
    tmp_path, chunks_at_good_state, restored
):
    """Or the last one where all are later."""
    state, kept = state_of({"trainer.next_chunk": 0})
    checkpoints = checkpoints_of(tmp_path / "out", Notes())
    assert not checkpoints.roll_back(state, chunks_at_good_state)
    for step in 5, 10:
        kept["trainer.next_chunk"] = step
        checkpoints.take(state)
    kept |= {"trainer.next_chunk": 12}
    assert checkpoints.roll_back(state, chunks_at_good_state)
    assert kept == {"trainer.next_chunk": restored}
    checkpoints.remove()

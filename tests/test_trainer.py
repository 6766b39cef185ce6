"""The trainer alone, with a made-up strategy: what it trains, at which rate, and how it ends."""

import os
import signal
import time

import numpy as np
import pytest

from embedx.runtime.progress import Silent
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import LossCurve
from embedx.training.schedule import SCHEDULES, Schedule
from embedx.training.strategy import Tally
from tests.support.checkpoints import checkpoints_of
from tests.support.clock import Clock
from tests.support.trained_by import Listener, Recorder, TrainedBy, run


@pytest.mark.parametrize("threads", [1, 3])
def test_every_chunk_is_trained_once_an_epoch(threads):
    kernel = Recorder()
    outcome = run(
        kernel, list(range(threads)), Schedule(0.1, n_chunks=7, n_items=700, epochs=3), Silent()
    )
    assert sorted(call[:2] for call in kernel.calls) == [
        (epoch, chunk) for epoch in range(3) for chunk in range(7)
    ]
    assert outcome.tally == Tally(2.0 * 210, 210, 2100)
    assert outcome.epochs == 3


def test_a_time_budget_ends_the_run_on_time_with_the_rate_near_zero(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trainer, "time", clock)
    kernel = Recorder(seconds=0.005, sleep=clock.advance)
    outcome = run(
        kernel, [0, 1], Schedule(0.1, n_chunks=3, n_items=300, epochs=1, time_budget=0.5), Silent()
    )
    assert outcome.seconds >= 0.5
    assert 99 <= len(kernel.calls) <= 102  # many epochs, whatever --epochs says
    rates = [call[2] for call in kernel.calls]
    assert rates[0] == pytest.approx(0.1, abs=0.01)
    assert rates[-1] < 0.005
    assert outcome.epochs == pytest.approx(len(kernel.calls) / 3)


def test_a_chunk_that_is_taken_as_the_time_ends_counts_for_the_last_part_of_the_curve():
    """The share done is 1 where the time budget ends after the look whether there is time left."""
    curve = LossCurve()
    curve.add(1.0, Tally(6.0, 3, 3), epochs=2.0, seconds=60.0)
    assert curve.points() == [{"epoch": 2.0, "seconds": 60.0, "loss": 2.0}]


def test_a_worker_that_fails_ends_the_run_with_its_error():
    def broken(scratch, epoch, chunk, rate):
        if chunk == 3:
            raise RuntimeError("disk on fire")
        return Tally(1.0, 1, 1)

    with pytest.raises(RuntimeError, match="disk on fire"):
        run(broken, [0, 1], Schedule(0.1, 50, 50, 2), Silent())


def test_ctrl_c_ends_after_the_chunks_under_way_and_is_reported():
    class Impatient(Silent):
        interval = 0.05
        pressed = False

        def update(self, done, **facts):
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt

    def wait_after_some_chunks(seconds):
        if len(kernel.calls) > 20:
            strategy.interrupted.wait()

    kernel = Recorder(sleep=wait_after_some_chunks)
    schedule = Schedule(0.1, 1000, 100_000, 5)
    strategy = TrainedBy(kernel, [0, 1], schedule.n_chunks)
    outcome = trainer.train(strategy, schedule, Impatient())
    assert isinstance(outcome.interrupted_by, KeyboardInterrupt)
    assert outcome.tally.items == 100 * len(kernel.calls)
    assert len(kernel.calls) == 22
    assert outcome.final_loss == 2.0


def test_an_interrupt_that_comes_after_the_last_step_is_reported_and_leaves_a_state(tmp_path):
    class Interrupted(Checkpoints):
        """Ctrl-C is pressed while the last checkpoint of a run that is over is being written."""

        pressed = False

        def finish(self):
            super().finish()
            if not self.pressed:
                self.pressed = True
                os.kill(os.getpid(), signal.SIGINT)

    kernel = Recorder()
    schedule = Schedule(0.1, 10, 1000, 2)
    checkpoints = checkpoints_of(tmp_path / "model", every=3600, kind=Interrupted)
    strategy = TrainedBy(kernel, [0], schedule.n_chunks)
    outcome = trainer.train(strategy, schedule, Silent(), checkpoints=checkpoints)
    assert isinstance(outcome.interrupted_by, KeyboardInterrupt)
    assert len(kernel.calls) == 20
    assert len(checkpoints.states()) == 1


def test_progress_reports_the_loss_of_the_current_twentieth_and_at_the_end_that_of_the_outcome():
    listener = Listener()

    def kernel(scratch, epoch, chunk, rate):
        if chunk == 1:  # the first chunk, alone, is the first interval
            while not listener.events:
                time.sleep(0.001)
        return Tally(80.0 if chunk == 0 else 10.0, 10, 100)

    outcome = run(kernel, [0], Schedule(0.1, 200, 20_000, 1), listener)
    assert listener.events[0][1]["loss"] == pytest.approx(8.0)
    assert listener.events[-1][1]["loss"] == pytest.approx(1.0)
    assert listener.events[-1][0] == 20_000
    assert listener.events[-1][1].keys() == {
        "words_per_second",
        "loss",
        "loss_unit",
        "learning_rate",
        "epoch",
        "epochs",
    }
    assert outcome.curve[0]["loss"] == pytest.approx(1.7)  # of the first twentieth: ten chunks
    assert outcome.final_loss == listener.events[-1][1]["loss"]
    assert outcome.tally.mean_loss == pytest.approx((8 + 199) / 200)


def test_the_highest_loss_is_that_of_the_worst_twentieth_wherever_it_is():
    def kernel(scratch, epoch, chunk, rate):
        return Tally(500.0 if 120 <= chunk < 130 else 10.0, 10, 100)

    outcome = run(kernel, [0], Schedule(0.1, 200, 20_000, 1), Silent())
    assert (outcome.curve[0]["loss"], outcome.highest_loss, outcome.final_loss) == (1.0, 50.0, 1.0)


# ---- the learning rate


def rates(n_epochs=3, **options):
    """At the start of each of 4 chunks an epoch, of 10 updates each."""
    kernel = Recorder()
    run(
        kernel,
        [0],
        Schedule(0.8, n_chunks=4, n_items=400, epochs=n_epochs, updates=10, **options),
        Silent(),
    )
    return np.array([call[2] for call in kernel.calls])


STEPS = np.arange(12)
FALLING = {
    "linear": 1 - STEPS / 12,
    "inverse-sqrt": 1 / np.sqrt(10 * STEPS + 1),
    "inverse": 1 / (1 + STEPS / 4),
}
SHAPES = FALLING | {"constant": np.ones(12)}


@pytest.mark.parametrize("shape", SCHEDULES)
def test_the_learning_rate_follows_the_schedule(shape):
    np.testing.assert_allclose(rates(shape=shape), 0.8 * SHAPES[shape])


@pytest.mark.parametrize("shape", SCHEDULES)
def test_the_rate_also_decays_by_epoch_or_by_number_of_updates(shape):
    np.testing.assert_allclose(
        rates(shape=shape, decay=0.5), 0.8 * SHAPES[shape] * 0.5 ** (STEPS // 4)
    )
    np.testing.assert_allclose(
        rates(shape=shape, decay=0.9, decay_every=25),
        0.8 * SHAPES[shape] * 0.9 ** (10 * STEPS // 25),
    )


def test_a_time_budget_leaves_the_passes_in_the_schedule():
    """`inverse` and decay count what was done, not what the clock says; and --epochs is no end."""
    schedule = Schedule(
        1.0, n_chunks=2, n_items=20, epochs=1, time_budget=1e9, shape="inverse", decay=0.5
    )
    assert [schedule.lr(0.0, steps) for steps in (0, 1, 2, 4)] == pytest.approx(
        [1, 1 / 1.5, 0.5 / 2, 0.25 / 3]
    )
    assert schedule.share_done(10**6, 1.0) < 1e-8

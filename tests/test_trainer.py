"""The trainer alone, with a made-up strategy: what it trains, at which rate, and how it ends."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest

from embedx.errors import DivergedError
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.progress import Silent
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.schedule import SCHEDULES, Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support.checkpoints import checkpoints_of
from tests.support.clock import Clock


class TrainedBy(Strategy):
    """A strategy whose chunks are trained by a function (worker, epoch, chunk, rate) -> Tally."""

    def __init__(self, kernel, workers, n_chunks):
        self.kernel = kernel
        self.workers = list(workers)
        self.n_chunks = n_chunks
        self.interrupted = threading.Event()

    def compile(self, progress):
        pass

    def train_chunk(self, worker, epoch, chunk, rate):
        return self.kernel(worker, epoch, chunk, rate)

    def state(self):
        return TrainState()

    def interrupt(self):
        self.interrupted.set()


def run(kernel, workers, schedule, progress, after_epoch=None):
    """What becomes of training by a kernel."""
    return trainer.train(
        TrainedBy(kernel, workers, schedule.n_chunks), schedule, progress, after_epoch
    )


class Recorder:
    """A kernel that notes what it was asked to train."""

    def __init__(self, seconds=0.0, loss=2.0, sleep=lambda seconds: None):
        self.sleep = sleep
        self.calls = []
        self.seconds = seconds
        self.loss = loss
        self.lock = threading.Lock()

    def __call__(self, scratch, epoch, chunk, rate):
        with self.lock:
            self.calls.append((epoch, chunk, rate, scratch))
        self.sleep(self.seconds)
        return Tally(self.loss * 10, 10, 100)


class Listener(Silent):
    interval = 0.02  # seconds until a signal that another thread caught is noticed

    def __init__(self):
        self.events = []

    def update(self, done, **facts):
        self.events.append((done, facts))


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


def test_protected_work_finishes_however_often_ctrl_c_is_pressed():
    def work():
        for _ in range(3):
            signal.raise_signal(signal.SIGINT)
        return "saved"

    assert to_the_end(work) == "saved"


def test_protected_work_raises_its_errors_and_interrupts_on_request():
    with pytest.raises(ZeroDivisionError):
        to_the_end(lambda: 1 / 0)
    with pytest.raises(KeyboardInterrupt):
        to_the_end(lambda: os.kill(os.getpid(), signal.SIGINT), then_raise=True)


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


# ---- pauses after each epoch


@pytest.mark.parametrize("threads", [1, 3])
def test_all_threads_pause_after_each_epoch(threads):
    inside = [0]
    epochs_seen = []
    lock = threading.Lock()

    def kernel(scratch, epoch, chunk, rate):
        with lock:
            inside[0] += 1
        time.sleep(0.001)
        with lock:
            inside[0] -= 1
        return Tally(1.0 + epoch, 1, 10)

    def after_epoch(epoch, tally, seconds):
        epochs_seen.append((epoch, tally, inside[0]))
        return False

    outcome = run(
        kernel,
        range(threads),
        Schedule(0.1, n_chunks=5, n_items=50, epochs=3),
        Silent(),
        after_epoch,
    )
    assert epochs_seen == [(epoch, Tally(5.0 * (1 + epoch), 5, 50), 0) for epoch in range(3)]
    assert outcome.epochs == 3


def test_training_ends_after_an_epoch_when_asked_to():
    kernel = Recorder()
    outcome = run(
        kernel,
        [0, 1],
        Schedule(0.1, 5, 500, 10),
        Silent(),
        lambda epoch, tally, seconds: epoch == 2,
    )
    assert outcome.epochs == 3
    assert sorted(call[:2] for call in kernel.calls) == [
        (epoch, chunk) for epoch in range(3) for chunk in range(5)
    ]
    assert outcome.interrupted_by is None


def test_the_time_of_pauses_is_not_counted(monkeypatch):
    """By a clock that goes on while there is training, and in pauses."""
    now = [0.0]
    calls = []
    seconds_of_epochs = []
    monkeypatch.setattr(trainer, "time", SimpleNamespace(monotonic=lambda: now[0]))

    def kernel(worker, epoch, chunk, rate):
        now[0] += 1 / 64
        calls.append((epoch, chunk))
        return Tally(1.0, 1, 100)

    def after_epoch(epoch, tally, seconds):
        now[0] += 8
        seconds_of_epochs.append(seconds)
        return False

    outcome = run(kernel, [0], Schedule(0.1, 2, 200, 3), Silent(), after_epoch)
    assert outcome.seconds == 6 / 64
    assert seconds_of_epochs == [2 / 64, 4 / 64, 6 / 64]
    calls.clear()
    outcome = run(kernel, [0], Schedule(0.1, 2, 200, 1, time_budget=9 / 64), Silent(), after_epoch)
    assert calls == [(epoch, chunk) for epoch in range(5) for chunk in range(2)][:9]
    assert outcome.seconds == 9 / 64


def test_the_last_epoch_of_a_time_budget_is_reported_although_it_is_cut_short(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(trainer, "time", clock)
    epochs_seen = []
    schedule = Schedule(0.1, 1000, 1000, 1, time_budget=0.1)
    run(
        Recorder(seconds=0.01, sleep=clock.advance),
        [0],
        schedule,
        Silent(),
        lambda epoch, tally, seconds: epochs_seen.append((epoch, tally.items)),
    )
    assert [epoch for epoch, _ in epochs_seen] == [0]
    assert epochs_seen[0][1] == 10 * 100


EPOCHS, CHUNKS = 3, 4


@pytest.mark.parametrize(
    ("at", "epoch", "threads"),
    [
        (1, 0, 1),
        (1, 2, 3),
        (CHUNKS - 1, 1, 3),
        (CHUNKS - 1, 2, 1),
        ("reported", 0, 3),
        ("reported", 1, 1),
        ("reported", 2, 3),
    ],
)
def test_an_epoch_whose_end_was_not_reported_before_an_interrupt_is_reported_after_going_on(
    at, epoch, threads
):
    """Whether it came within the epoch, after its last chunk was begun, or while the epoch was
    being reported.
    """
    epochs_ended, pressed = [], []

    def kernel(worker, number, chunk, rate):
        if (number, chunk) == (epoch, at) and not pressed:
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)
            assert strategy.interrupted.wait(60)
        return Tally(1.0 + number, 1, 10)

    def after_epoch(number, tally, seconds):
        if (number, at) == (epoch, "reported") and not pressed:
            pressed.append(True)
            raise KeyboardInterrupt
        epochs_ended.append((number, tally))
        return False

    schedule = Schedule(0.1, CHUNKS, 10 * CHUNKS, EPOCHS)
    strategy = TrainedBy(kernel, range(threads), CHUNKS)
    part = trainer.train(strategy, schedule, Listener(), after_epoch)
    assert isinstance(part.interrupted_by, KeyboardInterrupt)
    assert [number for number, _ in epochs_ended] == list(range(epoch))
    assert at != "reported" or part.epochs == epoch + 1
    strategy = TrainedBy(kernel, range(threads), CHUNKS)
    resumed = trainer.train(strategy, schedule, Silent(), after_epoch, part.state.snapshot())
    assert epochs_ended == [
        (number, Tally(CHUNKS * (1.0 + number), CHUNKS, 10 * CHUNKS)) for number in range(EPOCHS)
    ]
    assert resumed.epochs == EPOCHS


def test_an_error_in_a_pause_is_raised_and_one_in_training_prevents_the_pause():
    with pytest.raises(ZeroDivisionError):
        run(Recorder(), [0, 1], Schedule(0.1, 4, 400, 10), Silent(), lambda *about: 1 // 0)
    called = []
    with pytest.raises(DivergedError):
        run(
            Recorder(loss=float("inf")),
            [0],
            Schedule(0.1, 4, 400, 10),
            Silent(),
            lambda *about: called.append(about),
        )
    assert not called

"""The trainer's pauses after epochs: what is called in them, and what an interrupt leaves to do."""

import os
import signal
import threading
import time
from types import SimpleNamespace

import pytest

from embedx.errors import DivergedError
from embedx.runtime.progress import Silent
from embedx.training import trainer
from embedx.training.schedule import Schedule
from embedx.training.strategy import Tally
from tests.support.clock import Clock
from tests.support.trained_by import Listener, Recorder, TrainedBy, run


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
    """By a clock that moves while there is training, and in pauses."""
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


def test_an_epoch_without_a_chunk_is_not_reported(monkeypatch):
    """The time budget ends after the report of an epoch, before the next one takes a chunk."""
    clock = Clock()
    monkeypatch.setattr(trainer, "time", clock)
    epochs_seen = []

    def after_epoch(epoch, tally, seconds):
        epochs_seen.append((epoch, tally.items))
        clock.tick = 1.0
        return False

    schedule = Schedule(0.1, n_chunks=2, n_items=200, epochs=1, time_budget=0.5)
    outcome = run(Recorder(), [0], schedule, Silent(), after_epoch)
    assert epochs_seen == [(0, 200)]
    assert outcome.epochs == 1


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
def test_an_epoch_that_an_interrupt_left_unreported_is_reported_by_the_run_that_resumes(
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

"""The trainer alone, with a made-up kernel: what it trains, at which rate, and how it ends."""

import os
import signal
import threading
import time

import pytest

from embedx.engine.trainer import Schedule, Tally, run
from embedx.errors import DivergedError
from embedx.interrupts import to_the_end
from embedx.progress import Silent


class Recorder:
    """A kernel that notes what it was asked to train."""

    def __init__(self, seconds=0.0, loss=2.0):
        self.calls, self.seconds, self.loss, self.lock = [], seconds, loss, threading.Lock()

    def __call__(self, scratch, epoch, stretch, rate):
        with self.lock:
            self.calls.append((epoch, stretch, rate, scratch))
        time.sleep(self.seconds)
        return Tally(self.loss * 10, 10, 100)


class Listener(Silent):
    interval = 0.02

    def __init__(self):
        self.events = []

    def update(self, done, **facts):
        self.events.append((done, facts))


@pytest.mark.parametrize("threads", [1, 3])
def test_every_stretch_is_trained_once_an_epoch(threads):
    kernel = Recorder()
    outcome = run(kernel, list(range(threads)), Schedule(0.1, n_stretches=7, n_words=700, epochs=3), Silent())
    assert sorted(call[:2] for call in kernel.calls) == [(epoch, stretch) for epoch in range(3) for stretch in range(7)]
    assert outcome.tally == Tally(2.0 * 210, 210, 2100)
    assert outcome.epochs == 3


def test_the_rate_falls_linearly_over_the_whole_run():
    kernel = Recorder()
    run(kernel, [0], Schedule(0.1, n_stretches=5, n_words=500, epochs=2), Silent())
    assert [call[2] for call in kernel.calls] == pytest.approx([0.1 * (1 - i / 10) for i in range(10)])


def test_a_time_budget_ends_the_run_at_the_bell_with_the_rate_near_zero():
    kernel = Recorder(seconds=0.005)
    outcome = run(kernel, [0, 1], Schedule(0.1, n_stretches=3, n_words=300, epochs=1, time_budget=0.5), Silent())
    assert outcome.seconds >= 0.5
    assert len(kernel.calls) > 20  # many epochs, whatever --epochs says
    rates = [call[2] for call in kernel.calls]
    assert rates[0] == pytest.approx(0.1, abs=0.01)
    assert rates[-1] < 0.005
    assert outcome.epochs == pytest.approx(len(kernel.calls) / 3)


def test_a_loss_that_is_not_finite_stops_the_run_and_says_what_to_change():
    with pytest.raises(DivergedError, match=r"the loss is not finite after .* words .* try a smaller --learning-rate, 0.2 say"):
        run(Recorder(loss=float("nan")), [0, 1], Schedule(0.8, 5, 500, 2), Silent())
    assert DivergedError.exit_code == 3


def test_a_worker_that_fails_ends_the_run_with_its_error():
    def broken(scratch, epoch, stretch, rate):
        if stretch == 3:
            raise RuntimeError("disk on fire")
        return Tally(1.0, 1, 1)

    with pytest.raises(RuntimeError, match="disk on fire"):
        run(broken, [0, 1], Schedule(0.1, 50, 50, 2), Silent())


def test_ctrl_c_ends_after_the_stretches_under_way_and_is_told():
    class Impatient(Silent):
        interval = 0.05
        pressed = False

        def update(self, done, **facts):
            if not self.pressed:
                self.pressed = True
                raise KeyboardInterrupt

    kernel = Recorder(seconds=0.01)
    outcome = run(kernel, [0, 1], Schedule(0.1, 1000, 100_000, 5), Impatient())
    assert isinstance(outcome.interrupted_by, KeyboardInterrupt)
    assert outcome.tally.words == 100 * len(kernel.calls)
    assert len(kernel.calls) < 1000
    assert outcome.final_loss == 2.0


def test_work_goes_to_its_end_however_often_ctrl_c_is_pressed():
    pressed = []

    def press():
        for _ in range(3):
            time.sleep(0.05)
            pressed.append(True)
            os.kill(os.getpid(), signal.SIGINT)

    def work():
        threading.Thread(target=press).start()
        while len(pressed) < 3:
            time.sleep(0.01)
        time.sleep(0.1)
        return "saved"

    assert to_the_end(work) == "saved"


def test_an_error_of_such_work_is_raised():
    with pytest.raises(ZeroDivisionError):
        to_the_end(lambda: 1 / 0)


def test_progress_tells_the_mean_loss_of_the_interval_alone():
    listener = Listener()

    def kernel(scratch, epoch, stretch, rate):
        if stretch == 1:  # the first stretch, alone, is the first interval
            while not listener.events:
                time.sleep(0.001)
        return Tally(80.0 if stretch == 0 else 10.0, 10, 100)

    outcome = run(kernel, [0], Schedule(0.1, 200, 20_000, 1), listener)
    assert listener.events[0][1]["loss"] == pytest.approx(8.0)
    assert listener.events[-1][1]["loss"] == pytest.approx(1.0)
    assert listener.events[-1][0] == 20_000
    assert listener.events[-1][1].keys() == {"words_per_second", "loss", "learning_rate"}
    assert outcome.first_loss == pytest.approx(1.7)  # of the first twentieth: ten stretches
    assert outcome.final_loss == pytest.approx(1.0)
    assert outcome.tally.mean_loss == pytest.approx((8 + 199) / 200)

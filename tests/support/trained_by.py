"""A strategy whose chunks are trained by a function, and functions for it."""

import threading

from embedx.runtime.progress import Silent
from embedx.training import trainer
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally


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

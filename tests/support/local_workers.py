"""Workers of a cluster within this process: what they are sent travels as it does by Ray, and they
can be lost.
"""

import pickle
import threading

from embedx.distributed.ray_backend import RANGES_PER_WORKER, LostWorkerError
from embedx.distributed.strategy import Distributed
from embedx.distributed.worker import Worker


def travelled(value):
    """What arrives elsewhere: a copy, whose arrays cannot be written to."""
    buffers = []
    plain = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(plain, buffers=[bytes(buffer.raw()) for buffer in buffers])


def lost_at(method, *times):
    """A worker is lost at these calls of a method."""
    calls = []
    lock = threading.Lock()

    def fails(number, called):
        with lock:
            calls.append(called)
            return called == method and calls.count(method) in times

    return fails


class InTurns(Distributed):
    """Training whose workers train in turn, each on parameters as old as the turns of the others.

    The same model on every machine and under any load: a quality that a test demands does not
    depend on which thread comes first.
    """

    def __init__(self, *arguments):
        super().__init__(*arguments)
        self.workers = [None]


class LocalWorkers:
    """In place of `Workers`, for `Distributed`; `fails` tells by the worker's number and the method
    when one is lost.
    """

    def __init__(self, plan, size, progress, fails=lambda number, method: False):
        self.plan = plan
        self.size = size
        self.fails = fails
        self.free = threading.Condition()
        self.all = []
        self.ready = []
        self.every = []
        self.is_closed = False
        for _ in range(size.workers):
            self._new()

    def _new(self):
        worker = LocalWorker(self, len(self.every))
        self.every.append(worker)
        self.all.append(worker)
        self.ready += [worker] * RANGES_PER_WORKER

    @property
    def n_lost(self):
        return len(self.every) - self.size.workers

    def wait(self): ...

    def take(self):
        with self.free:
            while not self.ready:
                if self.is_closed:
                    return None
                self.free.wait(0.05)
            return self.ready.pop(0)

    def give_back(self, worker):
        with self.free:
            if worker in self.all:
                self.ready.append(worker)
                self.free.notify()

    def lost(self, worker, why):
        with self.free:
            if worker in self.all:
                self.all.remove(worker)
                self.ready = [ready for ready in self.ready if ready is not worker]
                self._new()
                self.free.notify_all()

    def close(self):
        self.is_closed = True


class LocalWorker:
    """One of them."""

    def __init__(self, home, number):
        self.home, self.number = home, number
        self.worker = Worker(travelled(home.plan), home.size.threads)
        self.worker.start()
        self.merging = threading.Lock()
        self.is_dead = False

    def call(self, method, *arguments, timeout=None):
        self.is_dead = self.is_dead or self.home.fails(self.number, method)
        if self.is_dead:
            raise LostWorkerError("killed")
        if method == "train_range":
            return self.worker.train_range(*arguments)
        return travelled(getattr(self.worker, method)(*map(travelled, arguments)))

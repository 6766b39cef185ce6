"""Workers of a cluster within this process: what is told to them travels as it does by Ray, and they can be lost."""

import pickle
import threading

from embedx.cluster.exchange import Place
from embedx.cluster.ray_nodes import DEPTH, LostWorkerError
from embedx.cluster.worker import Worker


def travelled(value):
    """What arrives elsewhere: a copy, whose arrays cannot be written to."""
    buffers = []
    plain = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
    return pickle.loads(plain, buffers=[bytes(each.raw()) for each in buffers])


def lost_at(method, *times):
    """A worker is lost at these calls of a method."""
    calls, lock = [], threading.Lock()

    def fails(number, called):
        with lock:
            calls.append(called)
            return called == method and calls.count(method) in times

    return fails


class LocalWorkers:
    """In place of `Workers`, for `OnCluster`; `fails` tells by the worker's number and the method when one is lost."""

    def __init__(self, build, size, progress, fails=lambda number, method: False):
        self.build, self.size, self.fails = build, size, fails
        self.free = threading.Condition()
        self.all, self.ready, self.coming, self.every = [], [], [], []
        for _ in range(size.workers):
            self._new()

    def _new(self):
        each = LocalWorker(self, len(self.every))
        self.every.append(each)
        self.all.append(each)
        self.ready += [each] * DEPTH

    @property
    def n_lost(self):
        return len(self.every) - self.size.workers

    def wait(self): ...

    def take(self, is_over):
        with self.free:
            while not self.ready:
                if is_over():
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
                self.ready = [each for each in self.ready if each is not worker]
                self._new()
                self.free.notify_all()

    def close(self): ...


class LocalWorker:
    """One of them."""

    def __init__(self, home, number):
        self.home, self.place = home, Place(number)
        self.worker = Worker(travelled(home.build), home.size.threads)
        self.merging = threading.Lock()

    def call(self, method, *arguments, timeout=None):
        if self.home.fails(self.place.number, method) or self not in self.home.all:
            raise LostWorkerError("killed")
        if method == "train":
            return self.worker.train(*arguments)
        return travelled(getattr(self.worker, method)(*map(travelled, arguments)))

    def tell(self, method):
        getattr(self.worker, method)()

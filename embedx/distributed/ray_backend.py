"""Workers on a Ray cluster: started, and replaced when they are lost. The only file that imports
Ray.

A worker is an actor that claims as many CPUs as it has threads. Its methods run concurrently: it
merges a range while it trains the next. One that dies is replaced where there are CPUs: on another
machine, or on one that joins later.
"""

import collections
import contextlib
import itertools
import logging
import queue
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import Plan, Worker
from embedx.errors import EmbedxError
from embedx.storage.folder import installed_version
from embedx.training.progress import Progress

DEPTH = 2  # ranges of a worker at a time: one that it trains, and one that it merges or that waits
PATIENCE = 15.0  # seconds to wait for other workers after the first
LOST_IN_A_ROW = 5  # workers, without a range trained between, before the run gives up
CONNECT_SECONDS = 10.0
STEP = 0.2  # seconds between checks of the workers


class LostWorkerError(Exception):
    """A worker died or does not respond, or its machine is gone."""


@dataclass(frozen=True)
class Size:
    """How many workers, with how many threads each."""

    workers: int
    threads: int


def ray() -> Any:
    """The library. Raises `EmbedxError` if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise EmbedxError(
            '--cluster: Ray is not installed; pip install "embedx[ray]", on every machine'
        ) from error
    return ray


@contextlib.contextmanager
def connected(settings: ClusterSettings, threads: int | None, progress: Progress) -> Iterator[Size]:
    """Connected to the cluster that the settings name: its workers, with so many threads each or
    all of a machine.

    Raises `EmbedxError` if there is no such cluster, or no machine has so many CPUs.
    """
    is_connected = ray().is_initialized()
    if not is_connected:
        progress.note(f"cluster: connecting to {settings.cluster}")
        _connect(str(settings.cluster))
    try:
        yield chosen_size(settings.workers, threads)
    finally:
        if not is_connected:
            ray().shutdown()


def _connect(address: str) -> None:
    handler = signal.getsignal(signal.SIGTERM)
    try:
        if address != "auto":  # where nobody listens Ray would wait for minutes
            host, _, port = address.rpartition(":")
            socket.create_connection((host, int(port)), timeout=CONNECT_SECONDS).close()
        ray().init(
            address=address, logging_level=logging.ERROR, log_to_driver=False, namespace="embedx"
        )
    except (ValueError, RuntimeError, OSError) as error:
        where = (
            "this machine belongs to no Ray cluster"
            if address == "auto"
            else f"no Ray cluster at {address}"
        )
        raise EmbedxError(
            f"--cluster {address}: {where}; start one by `ray start --head`, and on each other"
            " machine by `ray start --address=HOST:6379`"
        ) from error
    finally:
        # Ray's own would end the program without a checkpoint
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def chosen_size(workers: int | None, threads: int | None) -> Size:
    """The size that the options say; by default a worker for each machine, with all its CPUs."""
    cpus = sorted(
        n
        for node in ray().nodes()
        if node["Alive"] and (n := int(node["Resources"].get("CPU", 0))) > 0
    )
    if not cpus or (threads or 1) > cpus[-1]:
        raise EmbedxError(
            f"--threads {threads or 1}: no machine of the cluster has so many CPUs; give at most"
            f" {max(cpus, default=0)}"
        )
    if workers is None:
        return Size(sum(n // (threads or n) for n in cpus), threads or cpus[0])
    of_machine = -(-workers // len(cpus))
    return Size(workers, threads or max(1, cpus[0] // of_machine))


def received(reference: Any, timeout: float | None = None) -> Any:
    """What a call returned. Raises what it raised, and `LostWorkerError` if it was lost or does not
    end in time.
    """
    library = ray()
    try:
        return library.get(reference, timeout=timeout)
    except library.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, EmbedxError) else error from None
    except (library.exceptions.RayError, TimeoutError) as error:
        raise LostWorkerError(str(error).strip().split("\n")[0][:200]) from error


@dataclass(eq=False)
class WorkerHandle:
    """A worker on the cluster."""

    number: int
    actor: Any
    merging: threading.Lock = field(default_factory=threading.Lock)
    host: str = "no machine yet"

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """What a method of the worker returns; see `received`."""
        return received(getattr(self.actor, method).remote(*arguments), timeout)


class Workers:
    """The workers of a run, as far as the cluster has CPUs for them."""

    def __init__(self, plan: Plan, size: Size, progress: Progress) -> None:
        self.size, self.progress, self.plan = size, progress, ray().put(plan)
        self.lock, self.numbers = threading.Lock(), itertools.count(1)
        self.all: list[WorkerHandle] = []
        # DEPTH times each, less those that are taken
        self.free: queue.SimpleQueue[WorkerHandle] = queue.SimpleQueue()
        self.n_lost = 0  # in a row
        self.error: BaseException | None = None
        self.closed = False
        for _ in range(size.workers):
            self._add()

    def wait(self) -> None:
        """Until all workers have started, or some and the others take too long. Raises
        `EmbedxError` if they cannot be.
        """
        threads, end = self.size.threads, float("inf")
        self.progress.note(
            f"waiting for workers; each needs {threads} CPUs of one machine (`ray status` lists"
            " what is free)"
        )
        while (
            self.error is None
            and self.free.qsize() < DEPTH * self.size.workers
            and time.monotonic() < end
        ):
            time.sleep(STEP)
            if not self.free.empty():
                end = min(end, time.monotonic() + PATIENCE)
        if self.error is not None:
            raise self.error

    def take(self) -> WorkerHandle | None:
        """Wait for a worker that is free for a range. None when all are ended.

        Raises `EmbedxError` if workers cannot be started.
        """
        while self.error is None:
            if self.closed:
                return None
            with contextlib.suppress(queue.Empty):
                worker = self.free.get(timeout=STEP)
                if worker in self.all:
                    return worker
        raise self.error

    def give_back(self, worker: WorkerHandle) -> None:
        """The worker is free for another range."""
        self.n_lost = 0
        self.free.put(worker)

    def lost(self, worker: WorkerHandle, why: str) -> None:
        """Start another in its place."""
        if not self._remove(worker):
            return
        self.n_lost += 1
        if self.n_lost >= LOST_IN_A_ROW:
            self.error = EmbedxError(
                f"--cluster: {LOST_IN_A_ROW} workers were lost one after another, the last on"
                f" {worker.host} ({why}); check the memory of the machines"
            )
            return
        self.progress.note(
            f"warning: the worker on {worker.host} is lost ({why}); its range is trained by another"
        )
        self._add()

    def restart(self) -> None:
        """Start others in the place of all workers, unless the run is over."""
        for each in [*self.all]:
            self._remove(each)
            self._add()

    def close(self) -> None:
        """End all workers."""
        self.closed = True
        self.restart()

    def _remove(self, worker: WorkerHandle) -> bool:
        """End a worker; False if that was done before."""
        with self.lock:
            if worker not in self.all:
                return False
            self.all.remove(worker)
        ray().kill(worker.actor)
        return True

    def _add(self) -> None:
        # `train`, and `merge`
        options = {"num_cpus": self.size.threads, "max_restarts": 0, "max_concurrency": DEPTH + 1}
        with self.lock:
            if not self.closed:
                remote = ray().remote(Worker).options(**options, scheduling_strategy="SPREAD")
                worker = WorkerHandle(
                    next(self.numbers), remote.remote(self.plan, self.size.threads)
                )
                self.all.append(worker)
                threading.Thread(target=self._start, args=(worker,), daemon=True).start()

    def _start(self, worker: WorkerHandle) -> None:
        """Wait until a worker has started."""
        try:
            host, process, version = worker.call("start")
            worker.host = f"{host} (process {process})"
            if version != installed_version():
                raise EmbedxError(
                    f"{host}: embedx {version}, not {installed_version()}; install the same on all"
                    " machines"
                )
        except LostWorkerError as error:
            self.lost(worker, str(error))
        except BaseException as error:
            self.error = None if self.closed else error
        else:
            self.progress.note(
                f"worker {worker.number} on {worker.host}: {self.size.threads} threads"
            )
            for _ in range(DEPTH):
                self.free.put(worker)


def predictions(kind: type, model: Any, k: int, size: Size, blocks: Iterable[Any]) -> Iterator[Any]:
    """What `kind(model, k, threads).predict`, on the workers, returns for blocks of rows, in their
    order.

    Ray replaces a worker that is lost and repeats its calls. Raises `EmbedxError` if there are not
    so many CPUs.
    """
    library, have = ray(), int(ray().cluster_resources().get("CPU", 0))
    if size.workers * size.threads > have:
        raise EmbedxError(
            f"--workers {size.workers}, each with {size.threads} threads, take more than the {have}"
            " CPUs of the cluster"
        )
    options = {
        "num_cpus": size.threads,
        "max_restarts": LOST_IN_A_ROW,
        "max_task_retries": LOST_IN_A_ROW,
    }
    remote, sent = (
        library.remote(kind).options(**options, scheduling_strategy="SPREAD"),
        library.put(model),
    )
    workers = [remote.remote(sent, k, size.threads) for _ in range(size.workers)]
    under_way: collections.deque[Any] = collections.deque()
    try:
        for worker, block in zip(itertools.cycle(workers), blocks, strict=False):
            under_way.append(worker.predict.remote(block))
            if len(under_way) >= DEPTH * size.workers:
                yield received(under_way.popleft())
        yield from map(received, under_way)
    except LostWorkerError as error:
        raise EmbedxError(f"--cluster: {LOST_IN_A_ROW} workers were lost ({error})") from error

"""Workers on a Ray cluster: started, and replaced when they are lost.

A worker is an actor that claims as many CPUs as it has threads. Its methods run concurrently: it
merges a range while it trains the next. One that dies is replaced where there are CPUs: on another
machine, or on one that joins later.
"""

import collections
import contextlib
import importlib
import itertools
import queue
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from embedx.distributed import packages
from embedx.distributed.answers import LostWorkerError, check_started
from embedx.distributed.connection import HEAD, SECONDS_BETWEEN_HEAD_CHECKS, ClusterSize, ray
from embedx.distributed.worker import Worker, WorkerPlan
from embedx.errors import (
    COLOUR,
    EmbedxError,
    LostClusterError,
    SettingError,
    counted,
    one_line,
)
from embedx.runtime.progress import Progress
from embedx.storage.description import installed_version

# One range is trained, another is merged or waits.
RANGES_PER_WORKER = 2
SECONDS_FOR_OTHER_WORKERS = 15.0
SECONDS_BETWEEN_CHECKS = 0.2
# Number of workers lost without a trained range in between, after which the run ends.
MAX_LOST_IN_A_ROW = 5
CHECK_MEMORY = "check the memory of the machines"
MAX_LETTERS_OF_REASON = 200


def result_of(reference: Any, timeout: float | None = None) -> Any:
    """The result of a call. Raises its error, and `LostWorkerError` if the worker is lost or does
    not answer in time.
    """
    library = ray()
    end = float("inf") if timeout is None else time.monotonic() + timeout
    try:
        while True:
            HEAD.check()
            left = max(0.0, min(SECONDS_BETWEEN_HEAD_CHECKS, end - time.monotonic()))
            with contextlib.suppress(library.exceptions.GetTimeoutError):
                return library.get(reference, timeout=left)
            if time.monotonic() >= end:
                raise LostWorkerError(f"no answer in {timeout:.0f} s")
    except library.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, EmbedxError) else error from None
    except (library.exceptions.RayError, TimeoutError) as error:
        raise LostWorkerError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Why a worker is lost, in a line: the error of its start, or the first line from Ray."""
    lines = COLOUR.sub("", str(error)).strip().splitlines() or [type(error).__name__]
    line = lines[0]
    if "creation task" in line:
        line = lines[-1]
    return line[:MAX_LETTERS_OF_REASON]


def check_packages(parts: Iterable[Any]) -> None:
    """Raise `SettingError` if a machine of the cluster lacks a package that an objective or sampler
    among some objects is from.
    """
    modules = packages.needed(parts)
    if not modules:
        return
    strategies = importlib.import_module("ray.util.scheduling_strategies")
    check = ray().remote(packages.problem_with)
    nodes = [node for node in ray().nodes() if node["Alive"] and node["Resources"].get("CPU")]
    for node in nodes:
        there = strategies.NodeAffinitySchedulingStrategy(node["NodeID"], soft=False)
        reference = check.options(num_cpus=0, scheduling_strategy=there).remote(modules)
        host = node["NodeManagerHostname"]
        try:
            problem = result_of(reference)
        except LostWorkerError as error:
            problem = f"cannot be asked for its packages ({error})"
        if problem:
            remedy = "install the same packages on all machines"
            raise SettingError("cluster", None, one_line(f"{host} {problem}"), remedy)


@dataclass(eq=False)
class WorkerHandle:
    """A worker on the cluster."""

    number: int
    actor: Any
    merging: threading.Lock = field(default_factory=threading.Lock)
    host: str = "no machine yet"

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """The result of a method of the worker; see `result_of`."""
        return result_of(getattr(self.actor, method).remote(*arguments), timeout)


class Workers:
    """The workers of a run, as far as the cluster has CPUs for them."""

    def __init__(self, plan: WorkerPlan, size: ClusterSize, progress: Progress) -> None:
        check_packages(plan.components())
        self.size = size
        self.progress = progress
        self.plan = ray().put(plan)
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.all: list[WorkerHandle] = []
        # Each worker RANGES_PER_WORKER times, without those in use.
        self.free: queue.SimpleQueue[WorkerHandle] = queue.SimpleQueue()
        self.n_lost_in_a_row = 0
        self.error: BaseException | None = None
        self.closed = False
        for _ in range(size.workers):
            self._add()

    def wait(self) -> None:
        """Wait until all workers have started, or some and the others take too long. Raises
        `EmbedxError` if they cannot be started.
        """
        end = float("inf")
        self.progress.note(
            f"waiting for workers; each needs {counted(self.size.threads, 'CPU')} of one machine"
            " (`ray status` lists what is free)"
        )
        while (
            self.error is None
            and self.free.qsize() < RANGES_PER_WORKER * self.size.workers
            and time.monotonic() < end
        ):
            time.sleep(SECONDS_BETWEEN_CHECKS)
            if not self.free.empty():
                end = min(end, time.monotonic() + SECONDS_FOR_OTHER_WORKERS)
        if self.error is not None:
            raise self.error

    def take(self) -> WorkerHandle | None:
        """Wait for a worker that is free for a range; None when all have ended.

        Raises `EmbedxError` if workers cannot be started.
        """
        while self.error is None:
            if self.closed:
                return None
            HEAD.check()
            with contextlib.suppress(queue.Empty):
                worker = self.free.get(timeout=SECONDS_BETWEEN_CHECKS)
                if worker in self.all:
                    return worker
        raise self.error

    def give_back(self, worker: WorkerHandle) -> None:
        """Let a worker take another range."""
        self.n_lost_in_a_row = 0
        self.free.put(worker)

    def lost(self, worker: WorkerHandle, why: str) -> None:
        """Start another in its place."""
        if not self._remove(worker):
            return
        self.n_lost_in_a_row += 1
        if self.n_lost_in_a_row >= MAX_LOST_IN_A_ROW:
            # A lost head takes its workers with it.
            HEAD.wait()
            if HEAD.problem is not None:
                self.error = LostClusterError(HEAD.problem)
                return
            lost = f"{MAX_LOST_IN_A_ROW} workers were lost one after another"
            problem = f"{lost}, the last on {worker.host} ({why})"
            self.error = SettingError("cluster", None, problem, CHECK_MEMORY)
            return
        self.progress.warn(
            f"the worker on {worker.host} is lost ({why}); its range is trained by another"
        )
        self._add()

    def restart(self) -> None:
        """Start others in the place of all workers, unless the run is over."""
        for worker in [*self.all]:
            self._remove(worker)
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
        if HEAD.problem is None:
            ray().kill(worker.actor)
        return True

    def _add(self) -> None:
        """Start a worker, unless the run is over."""
        # `train_range` for each range, and `merge`.
        n_calls_at_once = RANGES_PER_WORKER + 1
        with self.lock:
            if self.closed:
                return
            actor_class = (
                ray()
                .remote(Worker)
                .options(
                    num_cpus=self.size.threads,
                    max_restarts=0,
                    max_concurrency=n_calls_at_once,
                    scheduling_strategy="SPREAD",
                )
            )
            actor = actor_class.remote(self.plan, self.size.threads)
            worker = WorkerHandle(next(self.numbers), actor)
            self.all.append(worker)
            threading.Thread(target=self._start, args=(worker,), daemon=True).start()

    def _start(self, worker: WorkerHandle) -> None:
        """Wait until a worker has started."""
        try:
            host, process, version = check_started(worker.call("start"))
            worker.host = f"{host} (process {process})"
            if version != installed_version():
                problem = f"{host} has embedx {version}, not {installed_version()}"
                remedy = "install the same on all machines"
                raise SettingError("cluster", None, problem, remedy)
        except LostWorkerError as error:
            self.lost(worker, str(error))
        except BaseException as error:
            if not self.closed:
                self.error = error
        else:
            self.progress.note(
                f"worker {worker.number} on {worker.host}: {counted(self.size.threads, 'thread')}"
            )
            for _ in range(RANGES_PER_WORKER):
                self.free.put(worker)


def predictions(
    kind: type, model: Any, k: int, size: ClusterSize, blocks: Iterable[Any]
) -> Iterator[tuple[int, Any]]:
    """(number of rows, result of `kind(model, k, threads).predict` on a worker) for each block.

    Ray replaces a worker that is lost and repeats its calls. Raises `EmbedxError` if the cluster
    has too few CPUs.
    """
    library = ray()
    cpus = int(library.cluster_resources().get("CPU", 0))
    if size.workers * size.threads > cpus:
        problem = f"with {size.threads} threads each, more than the {cpus} CPUs of the cluster"
        raise SettingError("workers", size.workers, problem)
    actor_class = library.remote(kind).options(
        num_cpus=size.threads,
        max_restarts=MAX_LOST_IN_A_ROW,
        max_task_retries=MAX_LOST_IN_A_ROW,
        scheduling_strategy="SPREAD",
    )
    stored_model = library.put(model)
    workers = [actor_class.remote(stored_model, k, size.threads) for _ in range(size.workers)]
    under_way: collections.deque[Any] = collections.deque()
    try:
        for worker, block in zip(itertools.cycle(workers), blocks, strict=False):
            under_way.append((block.shape[0], worker.predict.remote(block)))
            if len(under_way) >= RANGES_PER_WORKER * size.workers:
                n_rows, reference = under_way.popleft()
                yield n_rows, result_of(reference)
        for n_rows, reference in under_way:
            yield n_rows, result_of(reference)
    except LostWorkerError as error:
        problem = f"{MAX_LOST_IN_A_ROW} workers were lost ({error})"
        raise SettingError("cluster", None, problem, CHECK_MEMORY) from error

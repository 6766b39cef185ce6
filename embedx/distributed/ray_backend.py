"""Workers on a Ray cluster: started, and replaced when they are lost. The only file that imports
Ray.

A worker is an actor that claims as many CPUs as it has threads. Its methods run concurrently: it
merges a range while it trains the next. One that dies is replaced where there are CPUs: on another
machine, or on one that joins later.
"""

import collections
import contextlib
import importlib
import itertools
import logging
import os
import queue
import re
import signal
import socket
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from embedx.distributed import packages
from embedx.distributed.address import address_of, check_answers, demands_token
from embedx.distributed.answers import LostWorkerError, check_started
from embedx.distributed.settings import ClusterSettings
from embedx.distributed.worker import Plan, Worker
from embedx.errors import EmbedxError, LostClusterError, SettingError, one_line
from embedx.runtime.progress import Progress
from embedx.storage.folder import installed_version

DEPTH = 2  # ranges of a worker at a time: one that it trains, and one that it merges or that waits
PATIENCE = 15.0  # seconds to wait for other workers after the first
LOST_IN_A_ROW = 5  # workers, without a range trained between, before the run gives up
STEP = 0.2  # seconds between checks of the workers
MAX_REASON = 200  # characters of why a worker is lost
COLOUR = re.compile(r"\x1b\[[\d;]*m")
HEAD_STEP = 0.5  # seconds between checks of the head
HEAD_ATTEMPTS = 3  # checks that fail one after another, before the head is given up


@dataclass(frozen=True)
class Size:
    """How many workers, with how many threads each."""

    workers: int
    threads: int


def ray() -> Any:
    """The library. Raises `EmbedxError` if it is not installed."""
    # its lines of lost connections say what a message of ours says in one
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
    except ImportError as error:
        remedy = 'pip install "embedx[ray]", on every machine'
        raise SettingError("cluster", None, "Ray is not installed", remedy) from error
    return ray


@contextlib.contextmanager
def connected(settings: ClusterSettings, threads: int | None, progress: Progress) -> Iterator[Size]:
    """Connected to the cluster that the settings name: its workers, with so many threads each or
    all of a machine.

    Raises `EmbedxError` if there is no such cluster, or no machine has so many CPUs.
    """
    is_connected = ray().is_initialized()
    if not is_connected:
        cluster = str(settings.cluster)
        address = address_of(cluster)
        progress.note(f"cluster: connecting to {address}")
        check_answers(cluster, address)
        _connect(cluster, address)
        HEAD.watch(address)
    try:
        yield chosen_size(settings.workers, threads)
    finally:
        if not is_connected:
            HEAD.leave()
            if HEAD.problem is None:
                ray().shutdown()


def _connect(cluster: str, address: str) -> None:
    library = ray()
    _check_token(cluster, address)
    _silence()
    handler = signal.getsignal(signal.SIGTERM)
    try:
        library.init(
            address=address, logging_level=logging.ERROR, log_to_driver=False, namespace="embedx"
        )
    except (ValueError, RuntimeError, OSError, library.exceptions.RayError) as error:
        problem = f"no Ray cluster at {address} that this machine belongs to"
        remedy = f"join it with `ray start --address={address}`"
        raise SettingError("cluster", cluster, problem, remedy) from error
    finally:
        # Ray's own would end the program without a checkpoint
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _check_token(cluster: str, address: str) -> None:
    """Raise `SettingError` where the cluster demands a token that this process does not send: Ray
    itself would try for 20 seconds, or abort.
    """
    remedy = (
        "put the cluster's token into ~/.ray/auth_token or RAY_AUTH_TOKEN, and set"
        " RAY_AUTH_MODE=token (docs/cluster.md)"
    )
    try:
        raylet: Any = importlib.import_module("ray._raylet")
        new_client = raylet.GcsClient
        loader = raylet.AuthenticationTokenLoader.instance()
        from ray.exceptions import AuthenticationError, RayError
    except (ImportError, AttributeError):  # of a Ray before 2.52, which knows no tokens
        return
    if demands_token() and not loader.has_token(ignore_auth_mode=True):
        raise SettingError("cluster", cluster, "RAY_AUTH_MODE=token, but there is no token", remedy)
    try:
        new_client(address=address)
    except AuthenticationError as error:
        problem = f"the Ray cluster at {address} demands another token"
        raise SettingError("cluster", cluster, problem, remedy) from error
    except RayError as error:
        problem = f"what answers at {address} is no Ray cluster"
        remedy = "name the head's HOST:PORT, as `ray start --head` prints it"
        raise SettingError("cluster", cluster, problem, remedy) from error


def _silence() -> None:
    """Keep Ray from printing the logs of its processes among the results."""
    from ray._private import worker

    if hasattr(worker, "print_to_stdstream"):
        worker.print_to_stdstream = lambda *_, **__: None


class Head:
    """The Ray processes of this machine, without which a run cannot go on; a thread watches them.

    problem  how they were lost; None while they are there
    left     set when the connection ends
    """

    def __init__(self) -> None:
        self.problem: str | None = None
        self.left = threading.Event()

    def watch(self, address: str) -> None:
        """Watch the processes of the cluster at this address until `leave`."""
        self.problem = None
        self.left = threading.Event()
        raylet = ""
        # elsewhere Ray's process has no such socket
        if hasattr(socket, "AF_UNIX"):
            this_node = ray().get_runtime_context().get_node_id()
            sockets = {node["NodeID"]: node.get("RayletSocketName", "") for node in ray().nodes()}
            raylet = sockets.get(this_node, "")
        arguments = (address, raylet, self.left)
        threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def leave(self) -> None:
        """The connection ends."""
        self.left.set()

    def wait(self) -> None:
        """Wait until it is known whether they are there."""
        self.left.wait((HEAD_ATTEMPTS + 1) * HEAD_STEP)

    def check(self) -> None:
        """Raise `LostClusterError` if they were lost."""
        if self.problem is not None:
            raise LostClusterError(self.problem)

    def _watch(self, address: str, raylet: str, left: threading.Event) -> None:
        n_failed = 0
        while not left.wait(HEAD_STEP):
            problem = _head_problem(address, raylet)
            n_failed = n_failed + 1 if problem else 0
            if problem and not left.is_set() and n_failed >= HEAD_ATTEMPTS:
                self.problem = problem
                return


HEAD = Head()


def _head_problem(address: str, raylet: str) -> str | None:
    """What is wrong with the cluster, or with this machine's part of it; None if nothing is."""
    try:
        check_answers("", address)
    except SettingError:
        return f"the head of the Ray cluster at {address} is lost"
    if raylet and not _listens(raylet):
        return f"Ray's process on this machine, of the cluster at {address}, is lost"
    return None


def _listens(path: str) -> bool:
    """Whether a process listens at a socket of this machine."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(HEAD_STEP)
            probe.connect(path)
    except (ConnectionError, FileNotFoundError):
        return False
    except OSError:
        return True
    return True


def chosen_size(workers: int | None, threads: int | None) -> Size:
    """The size by the settings; by default a worker for each machine, with all its CPUs."""
    machines = [node["Resources"] for node in ray().nodes() if node["Alive"]]
    cpus = sorted(int(resources.get("CPU", 0)) for resources in machines)
    cpus = [n for n in cpus if n > 0]
    if not cpus or (threads or 1) > cpus[-1]:
        problem = "no machine of the cluster has so many CPUs"
        remedy = f"give at most {max(cpus, default=0)}"
        raise SettingError("threads", threads or 1, problem, remedy)
    if workers is None:
        return Size(sum(n // (threads or n) for n in cpus), threads or cpus[0])
    workers_per_machine = -(-workers // len(cpus))
    return Size(workers, threads or max(1, cpus[0] // workers_per_machine))


def result_of(reference: Any, timeout: float | None = None) -> Any:
    """What a call returned. Raises what it raised, and `LostWorkerError` if it was lost or does not
    end in time.
    """
    library = ray()
    end = float("inf") if timeout is None else time.monotonic() + timeout
    try:
        while True:
            HEAD.check()
            left = max(0.0, min(HEAD_STEP, end - time.monotonic()))
            with contextlib.suppress(library.exceptions.GetTimeoutError):
                return library.get(reference, timeout=left)
            if time.monotonic() >= end:
                raise LostWorkerError(f"no answer in {timeout:.0f} s")
    except library.exceptions.RayTaskError as error:
        raise error.cause if isinstance(error.cause, EmbedxError) else error from None
    except (library.exceptions.RayError, TimeoutError) as error:
        raise LostWorkerError(_reason(error)) from error


def _reason(error: Exception) -> str:
    """Why a worker is lost, in a line: what the start of one raised, or what Ray says first."""
    lines = COLOUR.sub("", str(error)).strip().splitlines() or [type(error).__name__]
    line = lines[0]
    if "creation task" in line:
        line = lines[-1]
    return line[:MAX_REASON]


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
        """What a method of the worker returns; see `result_of`."""
        return result_of(getattr(self.actor, method).remote(*arguments), timeout)


class Workers:
    """The workers of a run, as far as the cluster has CPUs for them."""

    def __init__(self, plan: Plan, size: Size, progress: Progress) -> None:
        check_packages(plan.components())
        self.size = size
        self.progress = progress
        self.plan = ray().put(plan)
        self.lock = threading.Lock()
        self.numbers = itertools.count(1)
        self.all: list[WorkerHandle] = []
        # DEPTH times each, less those that are taken
        self.free: queue.SimpleQueue[WorkerHandle] = queue.SimpleQueue()
        self.n_lost = 0  # in a row
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
            f"waiting for workers; each needs {self.size.threads} CPUs of one machine (`ray status`"
            " lists what is free)"
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
            HEAD.check()
            with contextlib.suppress(queue.Empty):
                worker = self.free.get(timeout=STEP)
                if worker in self.all:
                    return worker
        raise self.error

    def give_back(self, worker: WorkerHandle) -> None:
        """Let a worker take another range."""
        self.n_lost = 0
        self.free.put(worker)

    def lost(self, worker: WorkerHandle, why: str) -> None:
        """Start another in its place."""
        if not self._remove(worker):
            return
        self.n_lost += 1
        if self.n_lost >= LOST_IN_A_ROW:
            HEAD.wait()  # workers are lost with it
            if HEAD.problem is not None:
                self.error = LostClusterError(HEAD.problem)
                return
            lost = f"{LOST_IN_A_ROW} workers were lost one after another"
            problem = f"{lost}, the last on {worker.host} ({why})"
            self.error = SettingError("cluster", None, problem, "check the memory of the machines")
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
        n_calls_at_once = DEPTH + 1  # `train` for each range, and `merge`
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
            self.error = None if self.closed else error
        else:
            self.progress.note(
                f"worker {worker.number} on {worker.host}: {self.size.threads} threads"
            )
            for _ in range(DEPTH):
                self.free.put(worker)


def predictions(
    kind: type, model: Any, k: int, size: Size, blocks: Iterable[Any]
) -> Iterator[tuple[int, Any]]:
    """For each block its number of rows, and what `kind(model, k, threads).predict` of a worker
    returns for it.

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
        max_restarts=LOST_IN_A_ROW,
        max_task_retries=LOST_IN_A_ROW,
        scheduling_strategy="SPREAD",
    )
    stored_model = library.put(model)
    workers = [actor_class.remote(stored_model, k, size.threads) for _ in range(size.workers)]
    under_way: collections.deque[Any] = collections.deque()
    try:
        for worker, block in zip(itertools.cycle(workers), blocks, strict=False):
            under_way.append((block.shape[0], worker.predict.remote(block)))
            if len(under_way) >= DEPTH * size.workers:
                n_rows, reference = under_way.popleft()
                yield n_rows, result_of(reference)
        for n_rows, reference in under_way:
            yield n_rows, result_of(reference)
    except LostWorkerError as error:
        problem = f"{LOST_IN_A_ROW} workers were lost ({error})"
        raise SettingError("cluster", None, problem) from error

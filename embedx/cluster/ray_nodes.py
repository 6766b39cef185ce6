"""Workers and tasks on a Ray cluster: found, started, and replaced when they are lost. The only place that knows Ray.

A worker is an actor that claims as many CPUs as it has threads. It has a group of calls that train, of which one waits for
threads that the other needs no longer, and one of calls that merge, so that it merges a range while it trains the next. One
that dies is asked for anew, and Ray starts it where there are CPUs: on another machine, or on one that joins later.
"""

import contextlib
import importlib
import logging
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedx.cluster.exchange import Place
from embedx.cluster.files import Files
from embedx.cluster.worker import About, Build, Worker, check_same_version
from embedx.errors import EmbedxError
from embedx.run.progress import Progress

DEPTH = 2  # ranges that a worker is given at a time: one that it trains, and one that is merged or waits
PATIENCE = 15.0  # seconds without any worker before that is told
LOST_IN_A_ROW = 5  # workers, without a range trained between, before the run gives up
ANSWERS = 10.0  # seconds for a cluster to answer
STEP = 0.2  # seconds between looks at workers that are on their way
RETRIES = 3  # of a task whose machine was lost
CLEARING = 5.0  # seconds that tasks have to end
MISSING = 'Ray is not installed; pip install "embedx[ray]", on every machine'


class LostWorkerError(Exception):
    """A worker died, or its machine did."""


def ray() -> Any:
    """The library. Raises `EmbedxError` if it is not installed."""
    try:
        import ray
    except ImportError as error:
        raise EmbedxError(f"--cluster: {MISSING}") from error
    return ray


@contextlib.contextmanager
def connected(address: str, progress: Progress) -> Iterator[None]:
    """Connected to a cluster. Raises `EmbedxError` if there is none at the address."""
    library = ray()
    was_connected = library.is_initialized()
    if not was_connected:
        progress.note(f"cluster: connecting to {address}")
        try:
            _knock(address)
            with _own_signals():
                library.init(address=address, logging_level=logging.ERROR, log_to_driver=False, namespace="embedx")
        except (ConnectionError, ValueError, RuntimeError, OSError) as error:
            where = "this machine belongs to no Ray cluster" if address == "auto" else f"no Ray cluster at {address}"
            raise EmbedxError(
                f"--cluster {address}: {where}; start one by `ray start --head`, and on each other machine by "
                "`ray start --address=HOST:6379`"
            ) from error
    try:
        yield
    finally:
        if not was_connected:
            library.shutdown()


def _knock(address: str) -> None:
    """Raise OSError if nobody listens at HOST:PORT: Ray would wait for minutes."""
    if address != "auto":
        host, _, port = address.rpartition(":")
        socket.create_connection((host, int(port)), timeout=ANSWERS).close()


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Ray sets a handler of its own, by which SIGTERM would end the program without a checkpoint."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.getsignal(signal.SIGTERM)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, handler)


def is_inside() -> bool:
    """Whether this process is on a machine of the cluster; to one that is connected from elsewhere nothing can be streamed."""
    ray()
    return not importlib.import_module("ray.util.client").ray.is_connected()


@dataclass(frozen=True)
class Size:
    """How many workers, with how many threads each."""

    workers: int
    threads: int


def chosen_size(workers: int | None, threads: int | None) -> Size:
    """Of what was asked for, the rest as it suits the cluster that this process is connected to: a worker for each machine.

    Raises `EmbedxError` if no machine has so many CPUs.
    """
    cpus = sorted(int(node["Resources"].get("CPU", 0)) for node in ray().nodes() if node["Alive"])
    cpus = [n for n in cpus if n > 0]
    if not cpus or (threads or 1) > cpus[-1]:
        most = cpus[-1] if cpus else 0
        raise EmbedxError(f"--threads {threads or 1}: no machine of the cluster has so many CPUs; the largest has {most}")
    if workers is None:
        return Size(sum(n // (threads or n) for n in cpus) if threads else len(cpus), threads or cpus[0])
    each = -(-workers // len(cpus))  # on a machine
    return Size(workers, threads or max(1, cpus[0] // each))


@dataclass
class Remote:
    """A worker on the cluster."""

    place: Place
    actor: Any
    about: Any  # reference, until it is ready
    merging: threading.Lock = field(default_factory=threading.Lock)
    is_lost: bool = False
    host: str = ""
    range_seconds: float | None = None  # of the last range that it trained

    def call(self, method: str, *arguments: Any, timeout: float | None = None) -> Any:
        """What a method of the worker returns. Raises `LostWorkerError` if the worker is lost, or does not answer in time."""
        library = ray()
        try:
            return library.get(getattr(self.actor, method).remote(*arguments), timeout=timeout)
        except library.exceptions.RayTaskError as error:
            raise error.cause if isinstance(error.cause, EmbedxError) else error from None
        except (library.exceptions.RayError, TimeoutError) as error:
            raise LostWorkerError(str(error)) from error

    def tell(self, method: str) -> None:
        """Call a method, and do not wait for it."""
        getattr(self.actor, method).remote()


class Workers:
    """As many workers as were asked for, as far as the cluster has room for them."""

    def __init__(self, build: Build, size: Size, progress: Progress) -> None:
        library = ray()
        self.size, self.progress = size, progress
        remote = library.remote(concurrency_groups={"train": DEPTH, "merge": 1})(_with_groups(library))
        self.new_actor: Callable[[], Any] = lambda: remote.options(
            num_cpus=size.threads, max_restarts=0, scheduling_strategy="SPREAD"
        ).remote(self.build, size.threads)
        self.build = library.put(build)
        self.changed = threading.Condition()
        self.coming: list[Remote] = []
        self.ready: list[Remote] = []  # DEPTH times each, less those that are taken
        self.all: list[Remote] = []
        self.n_made = self.lost_in_a_row = 0
        self.error: BaseException | None = None
        self.closed = False
        for _ in range(size.workers):
            self._ask()
        self.watcher = threading.Thread(target=self._watch, daemon=True, name="workers")
        self.watcher.start()

    def take(self, is_over: Callable[[], bool]) -> Remote | None:
        """A worker that can be given a range; waits for one. None when `is_over` meanwhile.

        Raises `EmbedxError` if workers cannot be started.
        """
        with self.changed:
            while not self.ready:
                if self.error is not None:
                    raise self.error
                if is_over():
                    return None
                self.changed.wait(STEP)
            return self.ready.pop(0)

    def wait(self) -> None:
        """Until there is a worker, and for the others for as long as is usual, so that training begins with all of them.

        Raises `EmbedxError` if workers cannot be started.
        """
        first: float | None = None
        with self.changed:
            while len(self.all) < self.size.workers and self.error is None:
                if self.all and first is None:
                    first = time.monotonic()
                if first is not None and time.monotonic() - first > PATIENCE:
                    break
                self.changed.wait(STEP)
            if self.error is not None:
                raise self.error

    def give_back(self, worker: Remote) -> None:
        """It can be given another range."""
        with self.changed:
            self.lost_in_a_row = 0
            if not worker.is_lost:
                self.ready.append(worker)
                self.changed.notify()

    def lost(self, worker: Remote, why: str) -> None:
        """Ask for another in its place."""
        with self.changed:
            if worker.is_lost or self.closed:
                return
            worker.is_lost = True
            self.lost_in_a_row += 1
            self.all.remove(worker)
            self.ready = [each for each in self.ready if each is not worker]
            if self.lost_in_a_row >= LOST_IN_A_ROW:
                self.error = EmbedxError(
                    f"--cluster: {LOST_IN_A_ROW} workers were lost one after another, the last on {worker.host} "
                    f"({_short(why)}); is there enough memory on the machines?"
                )
                return
            self._ask()
        with contextlib.suppress(Exception):
            ray().kill(worker.actor)
        self.progress.note(f"warning: the worker on {worker.host} is lost ({_short(why)}); its range is trained by another")

    def close(self) -> None:
        """End all workers."""
        with self.changed:
            self.closed = True
            everyone = [*self.all, *self.coming]
        for each in everyone:
            with contextlib.suppress(Exception):
                ray().kill(each.actor)
        self.watcher.join()

    def _ask(self) -> None:
        actor = self.new_actor()
        self.coming.append(Remote(Place(self.n_made), actor, actor.about.remote()))
        self.n_made += 1

    def _watch(self) -> None:
        """Welcome workers that have started, until all is over."""
        library, began, is_told = ray(), time.monotonic(), False
        while not self.closed:
            with self.changed:
                waiting = {each.about: each for each in self.coming}
            if not waiting:
                time.sleep(STEP)
                continue
            found, _ = library.wait(list(waiting), num_returns=1, timeout=STEP)
            for reference in found:
                self._welcome(waiting[reference], reference)
            if not self.all and not is_told and time.monotonic() - began > PATIENCE:
                is_told = True
                self.progress.note(
                    f"waiting for workers; each needs {self.size.threads} CPUs of one machine, and `ray status` tells what is "
                    "free"
                )

    def _welcome(self, worker: Remote, reference: Any) -> None:
        library = ray()
        with self.changed:
            self.coming.remove(worker)
            try:
                about: About = library.get(reference)
                check_same_version([about])
            except library.exceptions.RayTaskError as error:
                self.error = error.cause if isinstance(error.cause, EmbedxError) else error
            except EmbedxError as error:
                self.error = error
            except library.exceptions.RayError as error:
                self.lost_in_a_row += 1
                if self.lost_in_a_row >= LOST_IN_A_ROW:
                    self.error = EmbedxError(f"--cluster: workers cannot be started ({_short(str(error))})")
                else:
                    self._ask()
            else:
                worker.host = f"{about.host} (process {about.pid})"
                self.all.append(worker)
                self.ready += [worker] * DEPTH
                self.progress.note(f"worker {worker.place.number + 1} on {worker.host}: {self.size.threads} threads")
            self.changed.notify_all()


@dataclass
class Asked:
    """A question under way."""

    number: int  # of whom it was asked
    question: Any
    actor: Any
    reference: Any


class Answering:
    """Objects on the cluster that are asked by their `answer`, each claiming so many CPUs.

    One that is lost is made anew where there are CPUs, and asked again. Raises `EmbedxError` if there are not so many CPUs.
    """

    def __init__(self, builds: Sequence[Callable[[], Any]], threads: int) -> None:
        library = ray()
        have = int(library.cluster_resources().get("CPU", 0))
        if len(builds) * threads > have:
            raise EmbedxError(
                f"--workers {len(builds)}, each with {threads} threads, take more than the {have} CPUs of the cluster"
            )
        self.builds, self.lost_in_a_row = builds, 0
        self.remote = library.remote(Answerer).options(num_cpus=threads, scheduling_strategy="SPREAD")
        self.actors = [self.remote.remote(build) for build in builds]

    def told(self, value: Any) -> Any:
        """A value for questions to several of them, which travels once to each machine."""
        return ray().put(value)

    def ask(self, number: int, question: Any) -> Asked:
        """Ask one of them; what `answer` takes."""
        actor = self.actors[number]
        return Asked(number, question, actor, actor.answer.remote(question))

    def answer(self, asked: Asked) -> Any:
        """What was answered. Raises what the object raised, and `EmbedxError` if one after another is lost."""
        library = ray()
        while True:
            try:
                answer = library.get(asked.reference)
            except library.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, EmbedxError) else error from None
            except library.exceptions.RayError as error:
                self.lost_in_a_row += 1
                if self.lost_in_a_row >= LOST_IN_A_ROW:
                    raise EmbedxError(f"--cluster: {LOST_IN_A_ROW} workers were lost ({_short(str(error))})") from error
                if self.actors[asked.number] is asked.actor:
                    self.actors[asked.number] = self.remote.remote(self.builds[asked.number])
                asked = self.ask(asked.number, asked.question)
            else:
                self.lost_in_a_row = 0
                return answer

    def close(self) -> None:
        """End them."""
        for each in self.actors:
            with contextlib.suppress(Exception):
                ray().kill(each)


class Answerer:
    """What `build` makes, on the cluster. It is made for the first question, whose answer may then be why it cannot be."""

    def __init__(self, build: Callable[[], Any]) -> None:
        self.build = build
        self.made: Any = None

    def answer(self, question: Any) -> Any:
        """What it answers."""
        if self.made is None:
            self.made = self.build()
        return self.made.answer(question)


def _with_groups(library: Any) -> type:
    """`Worker` whose calls that train and that merge do not wait for each other."""

    class Actor(Worker):
        train = library.method(concurrency_group="train")(Worker.train)
        merge = library.method(concurrency_group="merge")(Worker.merge)
        stop = library.method(concurrency_group="merge")(Worker.stop)

    return Actor


def _short(text: str) -> str:
    """The first line of what Ray says."""
    return text.strip().split("\n")[0][:200]


class ReadFromHead:
    """Reads a file on the machine of the run, from any machine of the cluster."""

    def __init__(self, folder: Path) -> None:
        self.actor = _actor_here(Files, folder)

    def __call__(self, name: str, first: int, n: int) -> bytes:
        return bytes(ray().get(self.actor.read.remote(name, first, n)))


def _actor_here(kind: type, *arguments: Any) -> Any:
    """An actor on the machine of the run, which takes no CPU from others."""
    library = ray()
    here = library.util.scheduling_strategies.NodeAffinitySchedulingStrategy(
        library.get_runtime_context().get_node_id(), soft=False
    )
    return library.remote(kind).options(num_cpus=0, scheduling_strategy=here).remote(*arguments)


class Board:
    """What tasks tell of how far they are, by their numbers; an actor on the machine of the run."""

    def __init__(self) -> None:
        self.found: dict[int, tuple[int, ...]] = {}

    def tell(self, number: int, *told: int) -> None:
        """How far a task is."""
        self.found[number] = told

    def told(self) -> dict[int, tuple[int, ...]]:
        """How far they are."""
        return self.found


@dataclass(frozen=True)
class Tell:
    """With which a task tells how far it is."""

    board: Any
    number: int

    def __call__(self, *told: int) -> None:
        self.board.tell.remote(self.number, *told)


class Tasks:
    """Calls of a generator on the cluster, by numbers. What one yields stays on its machine until it is taken; if that machine
    is lost, it is called again elsewhere.

    The generator, which yields the same whenever it is called, gets the arguments and a `Tell`.
    """

    def __init__(self, generate: Callable[..., Iterator[Any]], threads: int) -> None:
        self.remote = ray().remote(
            num_returns="streaming", num_cpus=threads, max_retries=RETRIES, scheduling_strategy="SPREAD"
        )(generate)
        self.board = _actor_here(Board)
        self.running: dict[int, Any] = {}

    def start(self, number: int, *arguments: Any) -> None:
        """Call it once the cluster has room."""
        self.running[number] = self.remote.remote(*arguments, Tell(self.board, number))

    def finished(self, timeout: float) -> list[int]:
        """Calls that are over, well or not; waits at most so many seconds for one."""
        ends = {each.completed(): number for number, each in self.running.items()}
        if not ends:
            return []
        found, _ = ray().wait(list(ends), num_returns=1, timeout=timeout, fetch_local=False)
        return [ends[each] for each in found]

    def items(self, number: int) -> Iterator[Any]:
        """What a call that is over has yielded. Raises `LostWorkerError` if it was lost as often as it was called."""
        library = ray()
        for each in self.running.pop(number):
            try:
                found = library.get(each)
            except library.exceptions.RayTaskError as error:
                raise error.cause if isinstance(error.cause, EmbedxError) else error from None
            except library.exceptions.RayError as error:
                raise LostWorkerError(_short(str(error))) from error
            yield found

    def told(self) -> dict[int, Any]:
        """How far calls are, as they told last."""
        library = ray()
        with contextlib.suppress(library.exceptions.RayError, TimeoutError):
            return dict(library.get(self.board.told.remote(), timeout=STEP))
        return {}

    def close(self) -> None:
        """End all calls; those that are at work may take some seconds to clear up."""
        library = ray()
        ends = [each.completed() for each in self.running.values()]
        for each in self.running.values():
            with contextlib.suppress(Exception):
                library.cancel(each)
        if ends:
            library.wait(ends, num_returns=len(ends), timeout=CLEARING, fetch_local=False)
        library.kill(self.board)

"""The connection to a Ray cluster: its address, from a place that other users cannot write to; its
token; and a watch on the processes that a run needs.

The address of `--cluster`:

    HOST:PORT   this address
    auto        $RAY_ADDRESS, else the cluster that this user started on this machine, which Ray
                records in TEMP/ray/ray_current_cluster

Whoever writes that file chooses the machine that text and code are exchanged with. It must belong
to this user or to the administrator, and no other user may write to it. If other users can write to
Ray's folder, as by default, a cluster without a token is open to all users of the machine, and its
file is not used.
"""

import contextlib
import importlib
import logging
import os
import signal
import socket
import stat
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx.distributed.settings import ClusterSettings
from embedx.errors import LostClusterError, Setting, SettingError
from embedx.runtime.progress import Progress

SECONDS_TO_CONNECT = 10.0
START = "start one with `ray start --head`, and join it with `ray start --address=HOST:6379`"
MAX_ADDRESS_BYTES = 300
ADMINISTRATOR = 0
# No link is followed, and no pipe waited for.
FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)
SECONDS_BETWEEN_HEAD_CHECKS = 0.5
# Failed checks in a row after which the head counts as lost.
MAX_FAILED_HEAD_CHECKS = 3


@dataclass(frozen=True)
class ClusterSize:
    """How many workers, with how many threads each."""

    workers: int
    threads: int


def ray() -> Any:
    """The library. Raises `EmbedxError` if it is not installed."""
    # Ray's log of lost connections repeats our message.
    os.environ.setdefault("RAY_BACKEND_LOG_LEVEL", "fatal")
    try:
        import ray
    except ImportError as error:
        remedy = 'pip install "embedx[ray]", on every machine'
        raise SettingError("cluster", None, "Ray is not installed", remedy) from error
    return ray


@contextlib.contextmanager
def connected(
    settings: ClusterSettings, threads: int | None, progress: Progress
) -> Iterator[ClusterSize]:
    """Connect to the cluster of the settings; yields the size of the run.

    threads  of each worker; None: all cores of its machine

    Raises `EmbedxError` if there is no such cluster, or no machine has enough CPUs.
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
        # Ray's handler would end the program without a checkpoint.
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGTERM, handler)


def _check_token(cluster: str, address: str) -> None:
    """Raise `SettingError` if the cluster demands a token that this process does not send. Ray
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


def chosen_size(workers: int | None, threads: int | None) -> ClusterSize:
    """The size from the settings; by default one worker per machine, with all its CPUs."""
    machines = [node["Resources"] for node in ray().nodes() if node["Alive"]]
    cpus = sorted(int(resources.get("CPU", 0)) for resources in machines)
    cpus = [n for n in cpus if n > 0]
    if not cpus or (threads or 1) > cpus[-1]:
        problem = "more than the CPUs of any machine of the cluster"
        remedy = f"give at most {max(cpus, default=0)}"
        raise SettingError("threads", threads or 1, problem, remedy)
    if workers is None:
        return ClusterSize(sum(n // (threads or n) for n in cpus), threads or cpus[0])
    workers_per_machine = -(-workers // len(cpus))
    return ClusterSize(workers, threads or max(1, cpus[0] // workers_per_machine))


# ---- the processes of this machine


class Head:
    """The Ray processes of this machine, which a run needs; a thread watches them.

    problem  how they were lost; None while they run
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
        # Without Unix sockets, Ray's process has none to watch.
        if hasattr(socket, "AF_UNIX"):
            this_node = ray().get_runtime_context().get_node_id()
            sockets = {node["NodeID"]: node.get("RayletSocketName", "") for node in ray().nodes()}
            raylet = sockets.get(this_node, "")
        arguments = (address, raylet, self.left)
        threading.Thread(target=self._watch, args=arguments, daemon=True).start()

    def leave(self) -> None:
        """Stop watching: the connection ends."""
        self.left.set()

    def wait(self) -> None:
        """Wait until it is known whether the processes run."""
        self.left.wait((MAX_FAILED_HEAD_CHECKS + 1) * SECONDS_BETWEEN_HEAD_CHECKS)

    def check(self) -> None:
        """Raise `LostClusterError` if they were lost."""
        if self.problem is not None:
            raise LostClusterError(self.problem)

    def _watch(self, address: str, raylet: str, left: threading.Event) -> None:
        n_failed = 0
        while not left.wait(SECONDS_BETWEEN_HEAD_CHECKS):
            problem = _head_problem(address, raylet)
            n_failed = n_failed + 1 if problem else 0
            if problem and not left.is_set() and n_failed >= MAX_FAILED_HEAD_CHECKS:
                self.problem = problem
                return


HEAD = Head()


def _head_problem(address: str, raylet: str) -> str | None:
    """Why the cluster, or this machine's part of it, is lost; None if it is not."""
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
            probe.settimeout(SECONDS_BETWEEN_HEAD_CHECKS)
            probe.connect(path)
    except (ConnectionError, FileNotFoundError):
        return False
    except OSError:
        return True
    return True


# ---- the address


def demands_token() -> bool:
    """Whether Ray sends and demands a token, as RAY_AUTH_MODE says."""
    return os.environ.get("RAY_AUTH_MODE", "").lower() == "token"


def address_of(cluster: str) -> str:
    """HOST:PORT of a cluster. Raises `SettingError` if there is none, or it cannot be trusted."""
    address = cluster
    if cluster == "auto":
        address = os.environ.get("RAY_ADDRESS") or "auto"
    if address == "auto":
        address = _noted_address(cluster, _address_file())
    host, _, port = address.rpartition(":")
    if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 1 << 16:
        raise SettingError("cluster", cluster, f"{address} is no HOST:PORT", START)
    return address


def check_answers(cluster: str, address: str) -> None:
    """Raise `SettingError` if no process listens at an address. Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=SECONDS_TO_CONNECT).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        problem = f"no Ray cluster at {address} ({why})"
        raise SettingError("cluster", cluster, problem, START) from error


def _address_file() -> Path:
    """The file in which Ray records the address, like `ray.init`."""
    folder = os.environ.get("RAY_TMPDIR")
    if not folder and sys.platform == "linux":
        folder = os.environ.get("TMPDIR")
    if not folder:
        folder = "/tmp" if os.name == "posix" else tempfile.gettempdir()
    return Path(folder, "ray", "ray_current_cluster")


def _noted_address(cluster: str, file: Path) -> str:
    """The address in the file. Raises `SettingError` if other users could have written it."""
    remedy = ("name the cluster, ", Setting("cluster", "HOST:PORT"), ", or set RAY_ADDRESS")
    try:
        descriptor = os.open(file, FLAGS)
    except FileNotFoundError as error:
        problem = "this user has started no Ray cluster on this machine"
        raise SettingError("cluster", cluster, problem, START) from error
    except OSError as error:
        raise SettingError("cluster", cluster, f"{file}: {error.strerror}", remedy) from error
    with open(descriptor, "rb") as opened:
        if os.name == "posix":
            file_status = os.fstat(descriptor)
            folder_status = file.parent.lstat()
            if not stat.S_ISREG(file_status.st_mode) or _is_of_others(file_status):
                problem = f"{file} is another user's, or others can write to it"
                raise SettingError("cluster", cluster, problem, remedy)
            if _is_of_others(folder_status) and not demands_token():
                problem = f"others can write to {file.parent}, and the cluster has no token"
                token = "start the cluster with RAY_AUTH_MODE=token (docs/cluster.md), or "
                raise SettingError("cluster", cluster, problem, (token, remedy))
        return opened.read(MAX_ADDRESS_BYTES).decode("ascii", "replace").strip()


def _is_of_others(status: os.stat_result) -> bool:
    """Whether it belongs to another user than this one and the administrator, or others can write
    to it.
    """
    is_shared = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return is_shared or status.st_uid not in (os.geteuid(), ADMINISTRATOR)

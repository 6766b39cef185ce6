"""The address of the cluster that `--cluster` names, from places that other users cannot write to.

    HOST:PORT   that one
    auto        $RAY_ADDRESS, else the cluster that this user started on this machine, which Ray
                notes in TEMP/ray/ray_current_cluster

Whoever writes that file chooses the machine that text and code are exchanged with. So it has to
belong to this user, or to the administrator, and no other may write to it. Ray lets everybody write
to its folder; where that is so, a cluster without a token is open to every user of the machine, and
none is taken from there.
"""

import os
import socket
import stat
import sys
import tempfile
from pathlib import Path

from embedx.errors import Setting, SettingError

CONNECT_SECONDS = 10.0
START = "start one with `ray start --head`, and join it with `ray start --address=HOST:6379`"
MAX_ADDRESS = 300  # bytes
ADMINISTRATOR = 0
# no link is followed, and no pipe waited for
FLAGS = os.O_RDONLY | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0)


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
    """Raise `SettingError` if nobody listens at an address: Ray would wait for minutes."""
    host, _, port = address.rpartition(":")
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except (OSError, UnicodeError) as error:
        why = getattr(error, "strerror", None) or error
        problem = f"no Ray cluster at {address} ({why})"
        raise SettingError("cluster", cluster, problem, START) from error


def _address_file() -> Path:
    """Where Ray notes it, as `ray.init` looks for it."""
    folder = os.environ.get("RAY_TMPDIR")
    if not folder and sys.platform == "linux":
        folder = os.environ.get("TMPDIR")
    if not folder:
        folder = "/tmp" if os.name == "posix" else tempfile.gettempdir()
    return Path(folder, "ray", "ray_current_cluster")


def _noted_address(cluster: str, file: Path) -> str:
    """What the file says. Raises `SettingError` if others could have written it."""
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
        return opened.read(MAX_ADDRESS).decode("ascii", "replace").strip()


def _is_of_others(status: os.stat_result) -> bool:
    """Whether it belongs to another user than this one and the administrator, or others can write
    to it.
    """
    is_shared = bool(status.st_mode & (stat.S_IWGRP | stat.S_IWOTH))
    return is_shared or status.st_uid not in (os.geteuid(), ADMINISTRATOR)

"""How much memory there is, and whether a run will have what it needs: told, and refused, before anything is trained."""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.run.progress import Progress

NO_LIMIT = 2**63
GROUPS = Path("/sys/fs/cgroup")
GROUP_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))  # of versions 2 and 1


def available_memory() -> int:
    """Bytes of memory that can be had without swapping, as far as the system tells, and the limits of containers and shells."""
    return max(min(_in_machine(), _in_group(), _in_address_space()), 0)


def _in_machine() -> int:
    try:
        with open("/proc/meminfo", encoding="ascii") as lines:
            return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable"))
    except (OSError, StopIteration):
        try:
            return int(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
        except (AttributeError, ValueError, OSError):
            return NO_LIMIT


def _in_group(own: str = "/proc/self/cgroup", groups: Path = GROUPS) -> int:
    """What the control groups that this process is in leave of their limits. File pages that are not in use count as free."""
    least = NO_LIMIT
    for folder in _groups(own, groups):
        for limit_file, usage_file in GROUP_FILES:
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
                limit, usage = (int((folder / name).read_text("ascii")) for name in (limit_file, usage_file))
                least = min(least, limit - usage + _reclaimable(folder))
    return least


def _groups(own: str, groups: Path) -> Iterator[Path]:
    """The folders of this process's control groups of memory, each with those around it."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path(own).read_text("utf-8").splitlines():
            _, controllers, path = line.split(":", 2)
            if controllers in ("", "memory"):
                root = groups / controllers
                inside = root / path.lstrip("/")
                yield from (each for each in (inside, *inside.parents) if each == root or root in each.parents)


def _reclaimable(group: Path) -> int:
    with contextlib.suppress(OSError, ValueError):
        numbers = dict(line.split() for line in (group / "memory.stat").read_text("ascii").splitlines())
        return int(numbers.get("total_inactive_file", numbers.get("inactive_file", 0)))
    return 0


def _in_address_space() -> int:
    """What `ulimit -v` leaves."""
    try:
        import resource

        limit = resource.getrlimit(resource.RLIMIT_AS)[0]
        used = int(Path("/proc/self/statm").read_text("ascii").split()[0]) * resource.getpagesize()
    except (ImportError, OSError, ValueError):
        return NO_LIMIT
    return NO_LIMIT if limit == resource.RLIM_INFINITY else limit - used


def memory_in_use() -> tuple[int, int]:
    """Bytes of memory that this process has: of its own, and mapped from files; 0 where the system does not tell."""
    try:
        import resource

        resident, of_files = (int(n) for n in Path("/proc/self/statm").read_text("ascii").split()[1:3])
    except (ImportError, OSError, ValueError):
        return 0, 0
    return (resident - of_files) * resource.getpagesize(), of_files * resource.getpagesize()


def check_memory(needs: Mapping[str, float], what: str, remedy: str, progress: Progress, copy: float = 0.0) -> bool:
    """Tell what a run needs beside what is in use, in bytes by purpose. Raises `EmbedxError` if there is not so much.

    what    needs it, in words; `remedy` is what to do then
    copy    bytes of a copy of the run's state, which it can do without; whether there is room for that is returned
    """
    need, have = sum(needs.values()), available_memory()
    if need > have:
        raise EmbedxError(f"{what} need {amount(need)}, more than the {amount(have)} there are; {remedy}")
    has_room = need + copy <= have
    if has_room and copy:
        needs, need = {**needs, "a copy to go back to": copy}, need + copy
    parts = ", ".join(f"{name} {amount(size)}" for name, size in needs.items() if size >= 0.01 * need)
    progress.note(f"memory: {amount(need)} of the {amount(have)} there are: {parts}")
    return has_room


def amount(size: float) -> str:
    """Bytes as a person would say them."""
    unit, of = ("GB", 1e9) if size >= 1e8 else ("MB", 1e6) if size >= 1e5 else ("kB", 1e3)
    return f"{size / of:,.1f} {unit}"


def n_bytes(value: Any) -> int:
    """Bytes of all arrays in a value: an array, or lists, tuples and dicts of them, one within the other."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape) * value.itemsize
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    return sum(map(n_bytes, value)) if isinstance(value, list | tuple) else 0

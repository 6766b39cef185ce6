"""How much memory is free, and whether a run has what it needs.

Arrays are allocated first: numpy's zeros take no memory until they are written to. Their sizes are then compared with what is
free, and a run that does not fit is refused before it touches them.
"""

import contextlib
import math
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.storage.disk import amount
from embedx.training.progress import Progress

NO_LIMIT = 2**63
MAX_COPY = 0.5  # of the free memory, for a copy of a run's state
GROUPS = Path("/sys/fs/cgroup")
GROUP_FILES = (("memory.max", "memory.current"), ("memory.limit_in_bytes", "memory.usage_in_bytes"))  # of versions 2 and 1


def available_memory() -> int:
    """Bytes of memory that are free without swapping, within the limits of containers and shells."""
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
    """What is left of the limits of this process's control groups. File pages that are not in use count as free."""
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


def memory_in_use() -> int:
    """Bytes of memory that this process has, without files mapped into it; 0 where the system does not report them."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith("RssAnon:")), 0)
    return 0


def memory_taken(work: Callable[[], object]) -> int:
    """Do some work; the bytes by which the memory of this process grew."""
    before = memory_in_use()
    work()
    return max(memory_in_use() - before, 0)


@contextlib.contextmanager
def allocating(what: str, remedy: str) -> Iterator[None]:
    """Raise `EmbedxError` where arrays are larger than all memory."""
    try:
        yield
    except MemoryError as error:
        raise EmbedxError(f"{what} need more memory than there is ({amount(available_memory())}); {remedy}") from error


@dataclass(frozen=True)
class MemoryPlan:
    """What a run needs, in bytes by purpose, beside what the program has already."""

    program: int
    needs: Mapping[str, float]
    copy: float  # of the run's state, to roll back to; 0 if it does not fit
    available: int

    @property
    def fits(self) -> bool:
        return sum(self.needs.values()) <= self.available

    def check(self, what: str, remedy: str) -> None:
        """Raise `EmbedxError` if it does not fit; `what` needs it, and `remedy` is what to do."""
        if not self.fits:
            need = amount(sum(self.needs.values()))
            raise EmbedxError(f"{what} need {need}, more than the {amount(self.available)} there are; {remedy}")

    def parts(self, kernels: int = 0) -> dict[str, float]:
        """Bytes by purpose, with kernels of so many."""
        parts = {"program": float(self.program + kernels), **self.needs, "rollback copy": self.copy}
        return {name: size for name, size in parts.items() if size}

    def report(self, progress: Progress, kernels: int = 0) -> None:
        """Print it in a line."""
        progress.note(f"memory: {summary(self.parts(kernels), self.available + self.program + kernels)}")


def summary(parts: Mapping[str, float], available: float) -> str:
    """Bytes by purpose and in all, of those that are available, for people."""
    need = sum(parts.values())
    purposes = ", ".join(f"{name} {amount(size)}" for name, size in parts.items() if size >= 0.01 * need)
    return f"{amount(need)} in all, of {amount(available)}: {purposes}"


def plan_memory(needs: Mapping[str, Any], copied: Any = ()) -> MemoryPlan:
    """The plan of a run with these arrays, by purpose, which are not written to yet; `copied` are those of its state."""
    sizes, free = {name: n_bytes(each) for name, each in needs.items()}, available_memory()
    copy = n_bytes(copied)
    fits = copy <= MAX_COPY * (free - sum(sizes.values()))
    return MemoryPlan(memory_in_use(), sizes, copy if fits else 0, free)


def n_bytes(value: Any) -> int:
    """Bytes of all arrays in a value: an array, or nested lists, tuples and dicts of them."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape) * value.itemsize
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    return sum(map(n_bytes, value)) if isinstance(value, list | tuple) else 0

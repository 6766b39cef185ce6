"""How much memory there is, and whether a run will have what it needs: told, and refused, before anything is trained."""

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
MAPPED = "encoded text"  # is in memory as far as there is room
COPIED = 0.5  # of the memory that is available, at most, for a copy of what a run keeps
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


def memory_in_use(mapped: Path | None = None) -> int:
    """Bytes of memory that this process has, as `top` has them, without those of the files in folder `mapped`; 0 where the
    system does not tell.
    """
    return _own("VmRSS") - (_mapped_bytes(mapped) if mapped is not None else 0)


def most_memory_used() -> int:
    """The most bytes of memory that this process has had at a time; 0 where the system does not tell."""
    return _own("VmHWM")


def _own(name: str) -> int:
    """A line of /proc/self/status, in bytes."""
    with contextlib.suppress(OSError, ValueError), open("/proc/self/status", encoding="ascii", errors="replace") as lines:
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), 0)
    return 0


def _mapped_bytes(folder: Path) -> int:
    """How much of the files in a folder, mapped into memory, this process has there."""
    within, found, is_theirs = os.fsencode(folder.resolve()) + b"/", 0, False
    with contextlib.suppress(OSError, ValueError), open("/proc/self/smaps", "rb") as lines:
        for line in lines:
            if not line.split(maxsplit=1)[0].endswith(b":"):  # the address and the file of the mapping that the next are about
                is_theirs = within in line
            elif is_theirs and line.startswith(b"Rss:"):
                found += int(line.split()[1]) * 1024
    return found


def memory_taken(work: Callable[[], object]) -> int:
    """Bytes of memory that this process has come to have by doing this."""
    before = memory_in_use()
    work()
    return max(memory_in_use() - before, 0)


@dataclass(frozen=True)
class Plan:
    """What a run takes at the most, with all that the program has."""

    program: int  # bytes that it has before
    peak: int  # the most that it has had before
    least: float  # bytes beside those without which the run cannot be
    needs: Mapping[str, float]  # bytes by purpose, beside the program's; what is not needed at the same time is left out
    available: int  # bytes, beside the program's
    has_room: bool  # for a copy of the run's state
    written: float = 0.0  # bytes more that it takes now and then, while a checkpoint is written

    def check(self, what: str, remedy: str) -> None:
        """Raise `EmbedxError` if there is not as much memory; `what` needs it, in words, and `remedy` is what to do."""
        if self.least > self.available:
            raise EmbedxError(f"{what} need {amount(self.least)}, more than the {amount(self.available)} there are; {remedy}")

    def parts(self, kernels: int = 0) -> dict[str, float]:
        """Bytes by purpose, which add up to what the process has at the most, with kernels of so many."""
        parts = {"program": float(self.program + kernels), **self.needs}
        if (more := self.peak - sum(parts.values())) > 0:
            parts["while reading"] = more
        return parts

    def tell(self, progress: Progress, kernels: int = 0) -> None:
        """Say it in a line."""
        more = f"; {amount(self.written)} more while a checkpoint is written" if self.written else ""
        progress.note(f"memory: {told(self.parts(kernels), self.available + self.program + kernels)}{more}")


def told(parts: Mapping[str, float], there: float) -> str:
    """Bytes by purpose and in all, of those there are, for people."""
    need = sum(parts.values())
    purposes = ", ".join(f"{name} {amount(size)}" for name, size in parts.items() if size >= 0.01 * need)
    return f"{amount(need)} in all, of {amount(there)}: {purposes}"


def plan_memory(
    needs: Mapping[str, float],
    copy: float = 0.0,
    *,
    written: float = 0.0,
    later: Mapping[str, float] | None = None,
    corpus: tuple[Path, int] | None = None,
) -> Plan:
    """What a run takes that needs this beside what the program has now, in bytes by purpose.

    copy     bytes of a copy of the run's state, which it can do without, as without one of as many bytes `written` to disk
    later    needed when it has trained, one after another: then nothing is kept to go back to
    corpus   the folder of files that are mapped into memory, and their bytes, which are there as far as there is room
    """
    folder, mapped = corpus or (None, 0)
    program, have, later = memory_in_use(folder), available_memory(), dict(later or {})
    least = sum(needs.values()) + max(later.values(), default=0)
    has_room = copy <= COPIED * (have - sum(needs.values()))
    beside = {"a copy to go back to": copy if has_room else 0.0}
    rest = sum(beside.values())  # which what is needed later takes the place of
    for name in sorted(later, key=lambda name: -later[name]):
        beside[name] = max(later[name] - rest, 0.0)
        rest = max(rest, later[name])
    parts = {**needs, **beside}
    parts[MAPPED] = float(max(min(mapped, have - sum(parts.values())), 0))
    needed = {name: size for name, size in parts.items() if size > 0}
    is_copied = written <= COPIED * (have - sum(needed.values()))
    return Plan(program, most_memory_used(), least, needed, have, has_room, written if is_copied else 0.0)


def n_bytes(value: Any) -> int:
    """Bytes of all arrays in a value: an array, or lists, tuples and dicts of them, one within the other."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape) * value.itemsize
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    return sum(map(n_bytes, value)) if isinstance(value, list | tuple) else 0

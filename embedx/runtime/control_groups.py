"""What a container may take of processors and memory: the limits of the control groups (cgroups, v1
and v2) that this process is in.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from embedx.runtime.disk import NO_LIMIT

OWN = Path("/proc/self/cgroup")
GROUPS = Path("/sys/fs/cgroup")


def memory_left(own: Path = OWN, groups: Path = GROUPS) -> int:
    """Bytes that are left of the limits of memory. File pages that are not in use count as free."""
    left = NO_LIMIT
    for folder in folders_of("memory", own, groups):
        for limit_name, usage_name, inactive_name in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            with contextlib.suppress(OSError, ValueError):  # no such file, or "max"
                limit = _number_in(folder / limit_name)
                usage = _number_in(folder / usage_name)
                statistics = (folder / "memory.stat").read_text("ascii").split()
                inactive = int(statistics[statistics.index(inactive_name) + 1])
                left = min(left, limit - usage + inactive)
    return left


def processors(own: Path = OWN, groups: Path = GROUPS) -> float:
    """How many processors' time the quotas leave; infinite without one."""
    quotas = [math.inf]
    for folder in folders_of("cpu", own, groups):
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):  # or "max"
            quota, period = (folder / "cpu.max").read_text("ascii").split()
            quotas.append(int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota_us = _number_in(folder / "cpu.cfs_quota_us")
            if quota_us > 0:  # -1 is no limit
                quotas.append(quota_us / _number_in(folder / "cpu.cfs_period_us"))
    return min(quotas)


def folders_of(controller: str, own: Path, groups: Path) -> Iterator[Path]:
    """The folders of this process's groups of a controller, and of those above them. A container
    may see its own group as the root, so that the folders that are named need not be there.
    """
    try:
        lines = own.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        root = groups / controllers  # of version 2, which has no list, `groups` itself
        inside = root / path.lstrip("/")
        yield from (each for each in (inside, *inside.parents) if root in (each, *each.parents))


def _number_in(file: Path) -> int:
    return int(file.read_text("ascii"))

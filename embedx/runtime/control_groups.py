"""The limits of a container: processors and memory of the control groups (cgroups, v1 and v2) that
this process belongs to.
"""

import contextlib
import math
from collections.abc import Iterator
from pathlib import Path

from embedx.runtime.disk import NO_LIMIT

# The groups that this process belongs to, and the folder of all groups.
MEMBERSHIP = Path("/proc/self/cgroup")
CONTROL_GROUPS = Path("/sys/fs/cgroup")
# Files of a group with its limit and usage, and the number of inactive bytes in memory.stat.
MEMORY_FILES = (
    ("memory.max", "memory.current", "inactive_file"),
    ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
)


def memory_left(membership: Path = MEMBERSHIP, groups: Path = CONTROL_GROUPS) -> int:
    """Bytes left of the memory limits. Inactive file pages count as free."""
    left = NO_LIMIT
    for folder in folders_of("memory", membership, groups):
        for limit_name, usage_name, inactive_name in MEMORY_FILES:
            # no such file, or "max"
            with contextlib.suppress(OSError, ValueError):
                limit = _number_in(folder / limit_name)
                usage = _usage(folder, usage_name, inactive_name)
                left = min(left, limit - usage)
    return left


def _usage(folder: Path, usage_name: str, inactive_name: str) -> int:
    """Bytes used by a group; 0 if unknown. gVisor has no memory.stat."""
    usage = 0
    with contextlib.suppress(OSError, ValueError):
        usage = _number_in(folder / usage_name)
        statistics = (folder / "memory.stat").read_text("ascii").split()
        usage -= int(statistics[statistics.index(inactive_name) + 1])
    return usage


def processors(membership: Path = MEMBERSHIP, groups: Path = CONTROL_GROUPS) -> float:
    """The number of processors that the quotas allow; infinite without one."""
    quotas = [math.inf]
    for folder in folders_of("cpu", membership, groups):
        # no such file, or "max"
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota, period = (folder / "cpu.max").read_text("ascii").split()
            quotas.append(int(quota) / int(period))
        with contextlib.suppress(OSError, ValueError, ZeroDivisionError):
            quota_us = _number_in(folder / "cpu.cfs_quota_us")
            has_limit = quota_us > 0
            if has_limit:
                quotas.append(quota_us / _number_in(folder / "cpu.cfs_period_us"))
    return min(quotas)


def folders_of(controller: str, membership: Path, groups: Path) -> Iterator[Path]:
    """The folders of this process's groups of a controller, and of those above them. They need not
    exist: a container may see its own group as the root.
    """
    try:
        lines = membership.read_text("utf-8").splitlines()
    except (OSError, ValueError):
        return
    for line in lines:
        _, _, rest = line.partition(":")
        controllers, _, path = rest.partition(":")
        if controllers and controller not in controllers.split(","):
            continue
        # Version 2 has no list. Version 1 mounts a list in any order, with links by controller.
        names = {controllers, controller} if controllers else {""}
        for name in sorted(names):
            root = groups / name
            group = root / path.lstrip("/")
            for folder in (group, *group.parents):
                if folder.is_relative_to(root):
                    yield folder


def _number_in(file: Path) -> int:
    return int(file.read_text("ascii"))

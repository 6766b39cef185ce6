"""How much of the disk is free, and whether what a run writes fits."""

import shutil
from collections.abc import Mapping
from pathlib import Path

from embedx.errors import EmbedxError

NO_LIMIT = 2**63


def free_disk(path: Path) -> int:
    """Bytes that this user may still write at a path, which need not exist."""
    try:
        return shutil.disk_usage(next(each for each in (path.absolute(), *path.absolute().parents) if each.is_dir())).free
    except OSError:  # of a file system that does not report it
        return NO_LIMIT


def check_disk(needs: Mapping[str, float], folder: Path, remedy: str, later: Mapping[str, float]) -> str:
    """A line about what a run will write to a folder, in bytes by purpose. Raises `EmbedxError` if that does not fit.

    later   what it will write in a long run, and can do without
    """
    need, free, more = sum(needs.values()), free_disk(folder), sum(later.values())
    if need > free:
        raise EmbedxError(
            f"{folder}: the disk has {amount(free)} free, and {amount(need)} are to be written ({_purposes(needs)}); {remedy}"
        )
    lacking = ", which do not fit" if need + more > free else ""
    return f"disk: {summary(needs, free)}" + (f"; in a long run {_purposes(later)} more{lacking}" if more else "")


def summary(needs: Mapping[str, float], free: float) -> str:
    """Bytes by purpose and in all, of those that are free, for people."""
    return f"{amount(sum(needs.values()))} of {amount(free)} free: {_purposes(needs)}"


def _purposes(needs: Mapping[str, float]) -> str:
    return ", ".join(f"{name} {amount(size)}" for name, size in needs.items() if size)


def amount(size: float) -> str:
    """Bytes for people."""
    unit, of = ("GB", 1e9) if size >= 1e9 else ("MB", 1e6) if size >= 1e5 else ("kB", 1e3)
    return f"{size / of:,.1f} {unit}"

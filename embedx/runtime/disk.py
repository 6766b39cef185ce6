"""Free disk space, and whether the output of a run fits."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from embedx.errors import DataError, Setting

# Free bytes if nothing limits them.
NO_LIMIT = 2**63


def free_disk(path: Path) -> int:
    """Bytes that this user can still write at a path, which need not exist."""
    absolute = path.absolute()
    folder = next(path for path in (absolute, *absolute.parents) if os.path.isdir(path))
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        # the file system does not report it
        return NO_LIMIT


def check_disk(folder: Path, model: float, checkpoints: float) -> tuple[str, bool]:
    """(line, whether it does not fit) about the bytes that a run will write to a folder.

    Raises `EmbedxError` if the model alone does not fit.
    """
    free = free_disk(folder)
    if model > free:
        problem = f"the disk has {amount(free)} free, but the model needs {amount(model)}"
        raise DataError(folder, None, problem, ("choose another ", Setting("output")))
    line = f"disk: {summary({'model': model}, free)}"
    if checkpoints:
        line += f"; in a long run checkpoints {amount(checkpoints)} more"
    is_short = model + checkpoints > free
    if is_short:
        line += ", which do not fit"
    return line, is_short


def summary(needs: Mapping[str, float], free: float) -> str:
    """A line with the total bytes needed, the free ones, and the bytes by purpose."""
    purposes = ", ".join(f"{name} {amount(size)}" for name, size in needs.items() if size)
    return f"{amount(sum(needs.values()))} of {amount(free)} free: {purposes}"


def amount(size: float) -> str:
    """Bytes with their unit, such as `1.5 MB`."""
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    if size >= 1e5:
        return f"{size / 1e6:,.1f} MB"
    return f"{size / 1e3:,.1f} kB"

"""How much of the disk is free, and whether what a run writes fits."""

import os
import shutil
from collections.abc import Mapping
from pathlib import Path

from embedx.errors import DataError, Setting

NO_LIMIT = 2**63


def free_disk(path: Path) -> int:
    """Bytes that this user may still write at a path, which need not exist."""
    absolute = path.absolute()
    folder = next(path for path in (absolute, *absolute.parents) if os.path.isdir(path))
    try:
        return shutil.disk_usage(folder).free
    except OSError:
        # the file system does not report it
        return NO_LIMIT


def check_disk(folder: Path, model: float, checkpoints: float) -> tuple[str, bool]:
    """A line about what a run will write to a folder, in bytes, and whether that is too much.

    Raises `EmbedxError` if the model alone does not fit.
    """
    free = free_disk(folder)
    if model > free:
        needs = f"{amount(model)} are to be written (model {amount(model)})"
        raise DataError(
            folder,
            None,
            f"the disk has {amount(free)} free, but {needs}",
            ("choose another ", Setting("output")),
        )
    more = f"; in a long run checkpoints {amount(checkpoints)} more" if checkpoints else ""
    is_short = model + checkpoints > free
    line = f"disk: {summary({'model': model}, free)}{more}{', which do not fit' * is_short}"
    return line, is_short


def summary(needs: Mapping[str, float], free: float) -> str:
    """Bytes by purpose and in all, of those that are free, for people."""
    purposes = ", ".join(f"{name} {amount(size)}" for name, size in needs.items() if size)
    return f"{amount(sum(needs.values()))} of {amount(free)} free: {purposes}"


def amount(size: float) -> str:
    """Bytes for people."""
    if size >= 1e9:
        return f"{size / 1e9:,.1f} GB"
    if size >= 1e5:
        return f"{size / 1e6:,.1f} MB"
    return f"{size / 1e3:,.1f} kB"

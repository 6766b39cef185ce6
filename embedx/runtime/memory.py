"""Free memory, and whether a run fits into it.

Arrays are allocated first: numpy's zeros take no memory until they are written to. Their sizes are
then compared with the free memory, and a run that does not fit is refused before it writes to them.
"""

import contextlib
import math
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from embedx.errors import DataError, EmbedxError, Text
from embedx.runtime.control_groups import memory_left
from embedx.runtime.disk import amount, summary
from embedx.runtime.progress import Progress

# Share of the free memory that a copy of a run's state may take.
MAX_COPY_SHARE = 0.5
# The purpose, in a plan, of the workspaces of all threads.
THREADS = "threads"


class NoMemoryError(EmbedxError):
    """There is too little memory.

    purpose    of the memory
    need       bytes; None if unknown
    available  bytes
    remedy     what to do
    """

    def __init__(self, purpose: Text, need: float | None, available: float, remedy: Text) -> None:
        problem = f" need more memory than is available ({amount(available)})"
        if need is not None:
            problem = f" need {amount(need)}, more than the {amount(available)} available"
        super().__init__(purpose, problem, "; ", remedy)
        self.args = (purpose, need, available, remedy)
        self.purpose = purpose
        self.need = need
        self.available = available
        self.remedy = remedy


def available_memory() -> int:
    """Bytes of free memory, without swapping, within the limits of containers."""
    return max(min(_in_machine(), memory_left()), 0)


def _in_machine() -> int:
    """Bytes of free memory of the system; all its memory on a Linux without /proc."""
    # Imported here, because it takes 20 ms.
    import psutil

    try:
        return psutil.virtual_memory().available
    except OSError:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def check_declared(name: object, n_bytes: float, what: str, remedy: Text) -> None:
    """Raise `DataError` if what a file or argument declares needs more memory than is available."""
    available = available_memory()
    if n_bytes > available:
        problem = f"declares {what}, which need {amount(n_bytes)} of memory, more than the"
        raise DataError(name, None, f"{problem} {amount(available)} available", remedy)


@contextlib.contextmanager
def allocating(purpose: Text, remedy: Text) -> Iterator[None]:
    """Raise `NoMemoryError` if an array in the block cannot be allocated."""
    try:
        yield
    except MemoryError as error:
        raise NoMemoryError(purpose, None, available_memory(), remedy) from error


@dataclass(frozen=True)
class MemoryPlan:
    """The additional memory that a run needs, in bytes.

    needs  bytes by purpose
    copy   bytes of a copy of the run's state for rollbacks; 0 if it does not fit
    """

    needs: Mapping[str, float]
    copy: float
    available: int

    @property
    def fits(self) -> bool:
        return sum(self.needs.values()) <= self.available

    def check(self, purpose: Text, remedy: Text) -> None:
        """Raise `NoMemoryError`, with its purpose and remedy, if the run does not fit."""
        if not self.fits:
            raise NoMemoryError(purpose, sum(self.needs.values()), self.available, remedy)

    @property
    def parts(self) -> dict[str, float]:
        """Bytes by purpose, with the rollback copy."""
        parts = {**self.needs, "rollback copy": self.copy}
        return {name: size for name, size in parts.items() if size}

    def threads_that_fit(self, threads: int) -> int:
        """The number of threads that fit, from 1 to `threads`, for which the plan is."""
        workspaces = self.needs.get(THREADS, 0)
        if self.fits or not workspaces:
            return threads
        left = self.available - (sum(self.needs.values()) - workspaces)
        return max(1, int(left / (workspaces / threads)))

    def report(self, progress: Progress) -> None:
        """Print the plan in a line, with --verbose."""
        progress.detail(f"memory: {summary(self.parts, self.available)}")


def plan_memory(needs: Mapping[str, Any], copied: Any = ()) -> MemoryPlan:
    """The plan of a run.

    needs   arrays by purpose, which are not written to yet
    copied  arrays of the run's state
    """
    sizes = {purpose: n_bytes(arrays) for purpose, arrays in needs.items()}
    available = available_memory()
    left = available - sum(sizes.values())
    copy = n_bytes(copied)
    if copy > MAX_COPY_SHARE * left:
        copy = 0
    return MemoryPlan(sizes, copy, available)


def n_bytes(value: Any) -> int:
    """Bytes of all arrays in a value: an array, or nested lists, tuples and dicts of them."""
    if isinstance(value, np.ndarray):
        return math.prod(value.shape) * value.itemsize
    if isinstance(value, dict):
        return sum(map(n_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(n_bytes, value))
    return 0

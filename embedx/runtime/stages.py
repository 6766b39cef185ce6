"""Seconds of the stages of a run, by the clock and of all cores."""

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class StageTime(NamedTuple):
    """What a stage took.

    seconds      by the clock
    cpu_seconds  of all threads together; not those of other machines or child processes
    """

    stage: str
    seconds: float
    cpu_seconds: float


def process_start() -> float:
    """When this process began, as `time.time()` tells it."""
    start = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux counts a process's start from the boot, which psutil knows to a second only
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        start += boot - psutil.boot_time()
    return start


class StageClock:
    """Measures stages one after another. The time of a stage that begins within another belongs to
    the inner one alone, so that all stages add up to the whole run.

    Before the first stage the time belongs to "import", from the start of the process.
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._cpu_seconds: dict[str, float] = {}
        self._open = ["import"]
        self._counted_to = process_start()
        self._cpu_counted_to = 0.0

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Count the time of the block as this stage's; more than once, if the stage comes back."""
        self._count()
        if self._open == ["import"]:
            self._open = ["other"]
        self._open.append(name)
        try:
            yield
        finally:
            self._count()
            self._open.pop()

    def times(self) -> list[StageTime]:
        """The stages so far, in the order in which they first ended."""
        self._count()
        return [
            StageTime(name, round(seconds, 3), round(self._cpu_seconds[name], 3))
            for name, seconds in self._seconds.items()
        ]

    def _count(self) -> None:
        """Count the time since the last count as that of the innermost stage."""
        now = time.time()
        cpu_now = time.process_time()
        name = self._open[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._counted_to
        self._cpu_seconds[name] = self._cpu_seconds.get(name, 0.0) + cpu_now - self._cpu_counted_to
        self._counted_to = now
        self._cpu_counted_to = cpu_now

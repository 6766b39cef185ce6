"""Wall-clock and CPU seconds of the stages of a run."""

import contextlib
import time
from collections.abc import Iterator
from typing import NamedTuple

import psutil


class StageTime(NamedTuple):
    """The time of a stage.

    seconds      wall-clock time
    cpu_seconds  CPU time of all threads; without other machines and child processes
    """

    stage: str
    seconds: float
    cpu_seconds: float


def process_start() -> float:
    """The start of this process, in the time of `time.time()`."""
    start = psutil.Process().create_time()
    if hasattr(time, "CLOCK_BOOTTIME"):
        # Linux measures the start from the boot, whose time psutil knows to a second only.
        boot = time.time() - time.clock_gettime(time.CLOCK_BOOTTIME)
        start += boot - psutil.boot_time()
    return start


class StageClock:
    """Measures consecutive stages. The time of a nested stage does not count for the outer one, so
    that all stages add up to the whole run.

    The time from the start of the process to the first stage is "import".
    """

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._cpu_seconds: dict[str, float] = {}
        self._open = ["import"]
        self._counted_to = process_start()
        self._cpu_counted_to = 0.0

    @contextlib.contextmanager
    def stage(self, name: str) -> Iterator[None]:
        """Add the time of the block to this stage."""
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
        """Add the time since the last call to the innermost stage."""
        now = time.time()
        cpu_now = time.process_time()
        name = self._open[-1]
        self._seconds[name] = self._seconds.get(name, 0.0) + now - self._counted_to
        self._cpu_seconds[name] = self._cpu_seconds.get(name, 0.0) + cpu_now - self._cpu_counted_to
        self._counted_to = now
        self._cpu_counted_to = cpu_now

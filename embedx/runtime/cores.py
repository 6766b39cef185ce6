"""The number of cores that this process may use."""

import math
import os
import threading

from embedx.runtime.control_groups import processors

# They limit all libraries that use threads.
THREAD_VARIABLES = ("OMP_NUM_THREADS", "NUMBA_NUM_THREADS")


def usable_cores() -> int:
    """The number of usable cores: those of the process's affinity, limited by the quota of its
    container, rounded up, and by OMP_NUM_THREADS and NUMBA_NUM_THREADS.
    """
    if hasattr(os, "sched_getaffinity"):  # not on macOS and Windows
        cores = len(os.sched_getaffinity(0))
    else:
        cores = os.cpu_count() or 1
    quota = math.ceil(min(processors(), cores))
    return max(min(cores, quota, *_limits_of_environment()), 1)


def _limits_of_environment() -> list[int]:
    """The numbers of threads that environment variables allow."""
    limits = []
    for name in THREAD_VARIABLES:
        # OMP_NUM_THREADS may be a list, for nested regions: the outermost counts.
        outermost = os.environ.get(name, "").split(",")[0].strip()
        if outermost.isdecimal() and int(outermost) > 0:
            limits.append(int(outermost))
    return limits


def can_start_threads(n: int) -> bool:
    """Whether n more threads can be started, whatever limits them."""
    may_end = threading.Event()
    started = []
    try:
        for _ in range(n):
            thread = threading.Thread(target=may_end.wait)
            thread.start()
            started.append(thread)
    except RuntimeError:
        return False
    finally:
        may_end.set()
        for thread in started:
            thread.join()
    return True

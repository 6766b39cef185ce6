"""Is work linear in the length of the input? By what is copied, counted; by processor time, limited
far above linear work.
"""

import contextlib
import signal
import sys

MANY = 30_000  # repeats: work that is quadratic takes billions of steps
# seconds of the processor, so that a machine under load changes little; linear work takes
# milliseconds
LIMIT = 1.0


@contextlib.contextmanager
def time_limit(seconds=LIMIT):
    """Raise AssertionError where the block takes longer; within a regular expression too, where
    Python looks for signals.
    """

    def stop(*_):
        raise AssertionError(f"more than {seconds} s")

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        signal.signal(signal.SIGVTALRM, before)


def check_linear(work, n):
    """Assert that work doubles at most, about, when the length of the input doubles."""
    once = work(n)
    twice = work(2 * n)
    assert twice <= 2.3 * once + 100, f"{once:,} at {n:,}, {twice:,} at {2 * n:,}"


def bound(function, *names):
    """What a call returns, and the sum of the lengths of the texts and lists that functions of
    these names bind meanwhile.

    Each line that runs counts for one more.
    """
    before, work = {}, 0

    def look(frame, event, _):
        nonlocal work
        work += 1
        for name, value in frame.f_locals.items():
            if isinstance(value, str | bytes | list) and before.get((id(frame), name)) is not value:
                work += len(value)
                before[id(frame), name] = value
        return look

    def enter(frame, event, _):
        return look if frame.f_code.co_name in names else None

    old = sys.gettrace()  # a debugger's, or that of a measurement of coverage
    sys.settrace(enter)
    try:
        result = function()
    finally:
        sys.settrace(old)
    return result, work

"""Work that Ctrl-C must not cut short: ending the threads, checking and saving a model."""

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

# Ctrl-C, the end of a job, and a terminal that is closed; Windows has no SIGHUP
SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__
)


def to_the_end(work: Callable[[], Result], *, then_raise: bool = False) -> Result:
    """What `work` returns or raises, however often Ctrl-C is pressed meanwhile.

    then_raise  the interrupt is raised afterwards; by default it is dropped, because what it asks
                for is already under way
    """
    if threading.current_thread() is not threading.main_thread():  # which alone is interrupted
        return work()
    received = []
    handlers = {each: signal.getsignal(each) for each in SIGNALS}
    # One that cannot be called is ignored already, or ends the process at once.
    handlers = {each: handler for each, handler in handlers.items() if callable(handler)}
    try:
        for each in handlers:
            signal.signal(each, lambda number, frame: received.append(number))
        return work()
    finally:
        for each, handler in handlers.items():
            signal.signal(each, handler)
        if then_raise and received:
            signal.raise_signal(received[0])

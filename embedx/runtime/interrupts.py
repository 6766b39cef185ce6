"""Protects work from Ctrl-C: ending the threads, checking and saving a model."""

import signal
import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

# Ctrl-C, the end of a job, and a closed terminal; Windows has no SIGHUP.
SIGNALS = tuple(
    signal.Signals[name]
    for name in ("SIGINT", "SIGTERM", "SIGHUP")
    if name in signal.Signals.__members__
)


def to_the_end(work: Callable[[], Result], *, then_raise: bool = False) -> Result:
    """The result of `work`, which no signal interrupts.

    then_raise  raise an interrupt afterwards; by default it is dropped, because the run is ending
                anyway
    """
    # Only the main thread is interrupted.
    if threading.current_thread() is not threading.main_thread():
        return work()
    received = []
    handlers = {}
    for number in SIGNALS:
        handler = signal.getsignal(number)
        # A handler that is not callable ignores the signal, or ends the process at once.
        if callable(handler):
            handlers[number] = handler
    try:
        for number in handlers:
            signal.signal(number, lambda number, frame: received.append(number))
        return work()
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)
        if then_raise and received:
            signal.raise_signal(received[0])

"""Work that Ctrl-C must not cut short: ending the workers, checking and saving a model that took hours."""

import threading
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")


def to_the_end(work: Callable[[], Result]) -> Result:
    """What `work` returns or raises, however often Ctrl-C is pressed meanwhile.

    Python hands signals to the main thread, so the work is done in another one; interrupts that come while waiting for it
    are dropped, because what they ask for, an end with nothing lost, is already under way.
    """
    results: list[Result] = []
    errors: list[BaseException] = []
    over = threading.Event()

    def attempt() -> None:
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    worker = threading.Thread(target=attempt)
    while not worker.ident:
        try:
            worker.start()
        except KeyboardInterrupt:
            continue
    while not over.is_set():
        try:
            over.wait(0.05)  # not for ever, so that a signal which another thread caught is noticed; nor Thread.join, which
        except KeyboardInterrupt:  # takes a running thread for ended when it is interrupted (until Python 3.13)
            continue
    if errors:
        raise errors[0]
    return results[0]

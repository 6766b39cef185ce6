"""Work that Ctrl-C must not cut short: ending the threads, checking and saving a model."""

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
    begun = threading.Lock()
    over = threading.Event()

    def attempt() -> None:
        if not begun.acquire(blocking=False):
            return  # an interrupt came between the start of another thread and the news of it
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)
        finally:
            over.set()

    is_started = False
    while True:
        try:
            if not is_started:
                threading.Thread(target=attempt).start()
                is_started = True
            while not over.wait(0.05):  # not for ever, so that a signal which another thread caught is noticed; nor
                pass  # Thread.join, which takes a running thread for ended when it is interrupted (until Python 3.13)
            break
        except KeyboardInterrupt:
            continue
    if errors:
        raise errors[0]
    return results[0]

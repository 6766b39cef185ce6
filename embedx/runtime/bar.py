"""The progress bar of a stage on a terminal or in a notebook: tqdm's, without its thread, and never
wider than the current width of the terminal.
"""

import os
import threading
from collections.abc import Callable, Sequence
from typing import Any, TextIO

from tqdm.std import tqdm

NOTEBOOK_COLUMNS = 80
MIN_BAR_COLUMNS = 4
WITH_TOTAL = "{desc}: {percentage:3.0f}%|{bar}| {postfix[0]}"
WITHOUT_TOTAL = "{desc}: {postfix[0]}{bar}"


class Bar(tqdm):  # type: ignore[misc]
    """`epoch 2/5:  36%|███▌      | 0:43 left, 634k words/s, loss 2.3437`, which `close` removes."""

    # No thread draws a bar that is not updated.
    monitor_interval = 0

    def __init__(self, stream: TextIO, title: str, total: float | None, done: float) -> None:
        super().__init__(
            desc=title,
            total=total,
            initial=done,
            file=stream,
            bar_format=WITHOUT_TOTAL if total is None else WITH_TOTAL,
            postfix=[""],
            leave=False,
            miniters=0,
            ncols=columns_of(stream),
            nrows=20,  # of a terminal, whatever its height: there is one bar
        )

    def show(self, title: str, done: float, parts: Sequence[str]) -> None:
        """Draw the bar, followed by as many of the first parts as fit."""
        # Set by TQDM_DISABLE.
        if self.disable:
            return
        self.desc = title
        self.n = done
        columns = columns_of(self.fp) - len(f"{title}: 100%|| ") - MIN_BAR_COLUMNS
        shown = list(parts)
        while shown and len(", ".join(shown)) > columns:
            shown.pop()
        self.postfix = [", ".join(shown)]
        # One thread draws, and an interrupt leaves no lock.
        self.refresh(nolock=True)

    @property
    def format_dict(self) -> dict[str, Any]:
        """The values that tqdm formats the line from."""
        return {**super().format_dict, "ncols": columns_of(self.fp)}

    @staticmethod
    def status_printer(file: TextIO) -> Callable[[str], None]:
        """A function that overwrites the last line. tqdm's own would wrap if the last line was
        drawn on a wider terminal.
        """
        n_drawn = 0

        def draw(line: str) -> None:
            nonlocal n_drawn
            file.write("\r" + line.ljust(min(n_drawn, columns_of(file) + 1)))
            file.flush()
            n_drawn = len(line)

        return draw


# tqdm's default lock is also for several processes.
Bar.set_lock(threading.RLock())


def columns_of(stream: TextIO) -> int:
    """The maximum length of a line. The last column stays free, so that the line does not wrap."""
    try:
        columns = os.get_terminal_size(stream.fileno()).columns
    except (OSError, ValueError, AttributeError):
        columns = 0
    return (columns or NOTEBOOK_COLUMNS) - 1

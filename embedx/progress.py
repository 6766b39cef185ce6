"""Progress of everything that takes more than two seconds: a bar on a terminal, a line now and then in a log.

The library reports through `Progress`; where the reports go is the caller's choice. `Silent` is the default of the Python API.
"""

import json
import sys
import time
from typing import Any, Protocol, TextIO


class Progress(Protocol):
    """What the library tells while it works."""

    def start(self, title: str, total: float | None, unit: str) -> None:
        """A stage begins; `total` is how many `unit`s it has, None when that is not known."""

    def update(self, done: float, **facts: Any) -> None:
        """`done` units of the stage are finished; `facts` (loss, learning_rate, ...) belong to the last interval."""

    def note(self, message: str) -> None:
        """Something the user should know, one line."""

    def finish(self) -> None:
        """The stage ends."""


class Silent:
    """Says nothing."""

    def start(self, title: str, total: float | None, unit: str) -> None: ...
    def update(self, done: float, **facts: Any) -> None: ...
    def note(self, message: str) -> None: ...
    def finish(self) -> None: ...

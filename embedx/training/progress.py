"""Progress of everything that takes more than two seconds: a bar on a terminal, a line now and then
in a log.

The library reports through `Progress`; where the reports go is the caller's choice. `Silent` is the
default of the Python API.
"""

import contextlib
import json
import logging
import os
import re
import sys
import time
from pathlib import Path
from typing import Any, Self, TextIO

from embedx.errors import EmbedxError, visible
from embedx.settings import Record

LOGGER = logging.getLogger("embedx")
NOTEBOOK_COLUMNS = 80
DRAWN_EVERY = 0.1  # seconds between two drawings of a bar


class Progress:
    """What the library reports while it works; this one reports nothing."""

    interval = 10.0  # seconds between updates
    is_verbose = False  # whether details are notes

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        """A stage begins, of `total` units, or None if that is unknown; `done` of them were done
        before.
        """

    def update(self, done: float, **facts: Any) -> None:
        """`done` units of the stage are finished; `facts` (loss, words_per_second, ...) belong to
        the interval since the last.

        `epoch` and `epochs` among them are the number of the epoch, from 1, and how many there will
        be.
        """

    def note(self, message: str) -> None:
        """Something the user should know, one line; one that begins with "warning: " is shown with
        --quiet too.
        """

    def detail(self, message: str) -> None:
        """Something that is of interest only when it is asked for: a note with --verbose."""
        if self.is_verbose:
            self.note(message)

    def finish(self) -> None:
        """The stage ends."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Close what it writes to."""


class Silent(Progress):
    """Reports nothing."""


SILENT = Silent()


class Reporter(Progress):
    """Reports on `stream`: a bar on a terminal or in a notebook, a line now and then elsewhere; and
    as JSON lines to a file.

    is_quiet   show nothing but warnings
    is_alone   results are not printed while the stages are under way: a bar would run into them

    Raises `EmbedxError` when `log_json` cannot be written.
    """

    last_drawn: "Reporter | None" = None  # the one with a bar on the terminal, perhaps

    def __init__(
        self,
        stream: TextIO,
        log_json: Path | None = None,
        *,
        is_quiet: bool = False,
        is_verbose: bool = False,
        is_alone: bool = True,
    ) -> None:
        self.stream, self.is_quiet, self.is_verbose = stream, is_quiet, is_verbose
        is_notebook = type(stream).__module__.startswith("ipykernel")
        self.on_terminal = (stream.isatty() or is_notebook) and is_alone and not is_quiet
        self.interval = 0.5 if self.on_terminal else 10.0
        is_unicode = (getattr(stream, "encoding", None) or "").lower().startswith("utf")
        self._bar, self._separator = ("━", " · ") if is_unicode else ("#", " | ")
        self._width = 0  # of the bar's line, if there is one
        try:
            self._log = open(log_json, "a", encoding="utf-8") if log_json else None  # noqa: SIM115 (lives as long as the run)
        except OSError as error:
            raise EmbedxError(
                f"--log-json {log_json}: {error.strerror}; name a file that can be written"
            ) from error

    def __exit__(self, *exception: object) -> None:
        if self._log:
            self._log.close()

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        self._title, self._total, self._unit, self._before = title, total, unit.strip(), done
        self._started = self._last_line = time.monotonic()
        self._last: tuple[float, Record] = (done, {})
        if self.on_terminal:
            self._draw(self._started)

    def update(self, done: float, **facts: Any) -> None:
        now = time.monotonic()
        self._last = (done, facts)
        if self._log:
            seconds = now - self._started
            left = self._seconds_left(seconds)
            event = {"stage": self._title, "done": done, "total": self._total, "unit": self._unit}
            event |= {
                "seconds": round(seconds, 3),
                "seconds_left": None if left is None else round(left, 1),
                **facts,
            }
            try:
                print(json.dumps(event), file=self._log, flush=True)
            except OSError as error:
                self._log = None
                self.note(f"warning: --log-json ends here: {error.strerror}")
        if self.on_terminal:
            if now - self._last_line >= DRAWN_EVERY:
                self._draw(now)
        elif now - self._last_line >= self.interval and not self.is_quiet:
            self._last_line = now
            title, *parts = self._parts(now)
            self._print(f"{title}: {', '.join(parts)}")

    def note(self, message: str) -> None:
        if not self.is_quiet or message.startswith("warning: "):
            self.clear()
            self._print(message)

    def finish(self) -> None:
        self.clear()
        (done, facts), seconds = self._last, time.monotonic() - self._started
        if seconds >= 2.0:
            n, is_time = max(done - self._before, 0.0), self._unit == "s"
            amount = "" if is_time else f"{self._of_unit(n)} in "
            parts = [
                f"{amount}{_clock(seconds)}",
                self._rate(facts if is_time else {}, n / seconds),
                *_loss(facts),
            ]
            self.note(f"{self._title}: {', '.join(filter(None, parts))}")

    # ---- a line

    def _parts(self, now: float) -> list[str]:
        """What is under way, and of it the share done, the time left, the rate and the loss, as far
        as they are known.
        """
        (done, facts), seconds = self._last, now - self._started
        title = self._title
        if epoch := facts.get("epoch"):
            title = f"epoch {epoch}" + (f"/{facts['epochs']:g}" if facts.get("epochs") else "")
        left, rate = self._seconds_left(seconds), (done - self._before) / max(seconds, 1e-9)
        return [
            title,
            *([f"{100 * min(done / self._total, 1.0):.0f}%"] if self._total else []),
            *([f"{_clock(left)} left"] if left is not None else []),
            *filter(None, [self._rate(facts, rate)]),
            *_loss(facts),
        ]

    def _rate(self, facts: Record, rate: float) -> str:
        """The speed of the last interval, if it was reported, else of the stage."""
        for name, value in facts.items():
            if name.endswith("_per_second"):
                return f"{_short(value)} {name.removesuffix('_per_second')}/s"
        return f"{self._of_unit(rate)}/s" if rate > 0 and self._unit != "s" else ""

    def _of_unit(self, n: float) -> str:
        """`634k words`, `25.1 MB`."""
        return (
            f"{_short(n)} {self._unit}"
            if self._unit != "B"
            else re.sub(r"(?<=\d)(?=\D?B)", " ", f"{_short(n)}B")
        )

    def _draw(self, now: float) -> None:
        """Draw `epoch 2/5 ━━━━━━ 46% 0:43 left · 634k words/s · loss 2.34` over what is there, no
        wider than the terminal.
        """
        self._last_line = now
        try:
            columns = os.get_terminal_size(self.stream.fileno()).columns or NOTEBOOK_COLUMNS
        except (OSError, ValueError, AttributeError):
            columns = NOTEBOOK_COLUMNS
        title, *parts = self._parts(now)
        n = sum(each.endswith(("%", " left")) for each in parts)
        right = self._separator.join(filter(None, [" ".join(parts[:n]), *parts[n:]]))
        # of the bar; the last column stays free, lest the line wrap
        size = columns - len(title) - len(right) - 3
        share = min(self._last[0] / self._total, 1.0) if self._total else 0.0
        bar = (self._bar * round(size * share)).ljust(size) if self._total and size > 3 else ""
        line = " ".join(filter(None, (title, bar, right)))[: columns - 1]
        self._write(f"\r{line.ljust(self._width)}")
        self._width, Reporter.last_drawn = len(line), self

    def clear(self) -> None:
        """Remove the bar's line, so that something else can be written; the next update draws it
        again.
        """
        if self._width:
            self._write(f"\r{' ' * self._width}\r")
            self._width = 0

    def _seconds_left(self, seconds: float) -> float | None:
        """How long what is left takes, by what was done in so many seconds; None where that is not
        known.
        """
        done = self._last[0]
        return (
            seconds * (self._total - done) / (done - self._before)
            if self._total and done > self._before
            else None
        )

    def _print(self, line: str) -> None:
        self._write(f"{visible(line)}\n")

    def _write(self, text: str) -> None:
        """Training continues when the text cannot be written: a closed pipe, a full disk."""
        with contextlib.suppress(OSError):
            print(text, end="", file=self.stream, flush=True)


class Logged(Reporter):
    """Reports as messages of the logger "embedx": warnings as warnings, all else at INFO."""

    def __init__(self) -> None:
        super().__init__(sys.stderr, is_alone=False)

    def _print(self, line: str) -> None:
        is_warning = line.startswith("warning: ")
        LOGGER.log(
            logging.WARNING if is_warning else logging.INFO,
            "%s",
            visible(line.removeprefix("warning: ")),
        )


def reporter(verbose: bool) -> Progress:
    """Progress for callers from Python: on standard error if `verbose`, else as log messages, if
    the logger takes INFO.
    """
    return (
        Reporter(sys.stderr)
        if verbose
        else Logged()
        if LOGGER.isEnabledFor(logging.INFO)
        else SILENT
    )


def _loss(facts: Record) -> list[str]:
    return [] if facts.get("loss") is None else [f"loss {_short(facts['loss'])}"]


def _short(value: float) -> str:
    """A number with three digits: `634k`, `1.46M`, `2.34`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def _clock(seconds: float) -> str:
    """Seconds as `1:02:03` or `2:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"

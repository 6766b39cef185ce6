"""Progress of everything that takes more than two seconds: a bar on a terminal, a line now and then in a log.

The library reports through `Progress`; where the reports go is the caller's choice. `Silent` is the default of the Python API.
"""

import contextlib
import json
import time
from pathlib import Path
from typing import Any, Self, TextIO

from embedx.errors import EmbedxError


class Progress:
    """What the library reports while it works; this one reports nothing."""

    interval = 10.0  # seconds between updates
    is_verbose = False  # whether all settings are worth a note

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        """A stage begins, of `total` units, or None if that is unknown; `done` of them were done before."""

    def update(self, done: float, **facts: Any) -> None:
        """`done` units of the stage are finished; `facts` (loss, learning_rate, ...) belong to the interval since the last."""

    def note(self, message: str) -> None:
        """Something the user should know, one line; one that begins with "warning: " is shown with --quiet too."""

    def finish(self) -> None:
        """The stage ends."""


class Silent(Progress):
    """Reports nothing."""


class Reporter(Progress):
    """Reports on `stream`: a bar on a terminal, a line now and then elsewhere; and as JSON lines to a file for programs.

    is_quiet   show nothing but warnings
    is_alone   results are not printed while the stages are under way: a bar would run into them

    Raises `EmbedxError` when `log_json` cannot be written.
    """

    def __init__(
        self, stream: TextIO, log_json: Path | None = None, *, is_quiet: bool = False, is_verbose: bool = False,
        is_alone: bool = True,
    ) -> None:  # fmt: skip
        self.stream, self.is_quiet, self.is_verbose = stream, is_quiet, is_verbose
        self.on_terminal = stream.isatty() and is_alone and not is_quiet
        self.interval = 0.5 if self.on_terminal else 10.0
        self._bar: Any = None
        try:
            self._log = open(log_json, "a", encoding="utf-8") if log_json else None  # noqa: SIM115 (lives as long as the run)
        except OSError as error:
            raise EmbedxError(f"--log-json {log_json}: {error.strerror}; name a file that can be written") from error

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        if self._log:
            self._log.close()

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        self._title, self._total, self._unit, self._before = title, total, unit, done
        self._started = self._last_line = time.monotonic()
        self._last: tuple[float, dict[str, Any]] = (done, {})
        if self.on_terminal:
            from tqdm import tqdm

            self._bar = tqdm(
                desc=title, total=total, initial=done, unit=unit, unit_scale=True, file=self.stream, dynamic_ncols=True,
                leave=False,
            )  # fmt: skip

    def update(self, done: float, **facts: Any) -> None:
        now = time.monotonic()
        self._last = (done, facts)
        if self._log:
            seconds = now - self._started
            left = self._seconds_left(done, seconds)
            event = {"stage": self._title, "done": done, "total": self._total, "unit": self._unit}
            event |= {"seconds": round(seconds, 3), "seconds_left": None if left is None else round(left, 1), **facts}
            try:
                print(json.dumps(event), file=self._log, flush=True)
            except OSError as error:
                self._log = None
                self.note(f"warning: --log-json ends here: {error.strerror}")
        if self._bar is not None:
            self._bar.set_postfix_str(_spoken(facts), refresh=False)
            self._bar.update(done - self._bar.n)
        elif now - self._last_line >= self.interval and not self.is_quiet:
            self._last_line = now
            self._write_line(done, facts, now)

    def note(self, message: str) -> None:
        if self._bar is not None:
            self._bar.write(message, file=self.stream)
        elif not self.is_quiet or message.startswith("warning: "):
            self._print(message)

    def finish(self) -> None:
        done, facts = self._last
        if self._bar is not None:
            self._bar.close()
            self._bar = None
        seconds, done = time.monotonic() - self._started, max(done - self._before, 0.0)
        if seconds >= 2.0:
            speed = f"{_short(done)}{self._unit} in {_clock(seconds)}, {_short(done / seconds)}{self._unit}/s"
            lasting = {name: value for name, value in facts.items() if not name.endswith("_per_second")}
            parts = [_clock(seconds) if self._unit == "s" else speed, _spoken(lasting)]
            self.note(f"{self._title}: {', '.join(filter(None, parts))}")

    def _write_line(self, done: float, facts: dict[str, Any], now: float) -> None:
        seconds = now - self._started
        parts = [f"{100 * done / self._total:.1f}%"] if self._total else []
        if not any(name.endswith("_per_second") for name in facts):
            parts.append(f"{_short((done - self._before) / seconds)}{self._unit}/s")
        parts += [_spoken(facts), f"{_clock(seconds)} passed"]
        if (left := self._seconds_left(done, seconds)) is not None:
            parts.append(f"{_clock(left)} left")
        self._print(f"{self._title}: {', '.join(filter(None, parts))}")

    def _seconds_left(self, done: float, seconds: float) -> float | None:
        """How long what is left takes, by what was done in so many seconds; None where that is not known."""
        return seconds * (self._total - done) / (done - self._before) if self._total and done > self._before else None

    def _print(self, line: str) -> None:
        """Training continues when the line cannot be written: a closed pipe, a full disk."""
        with contextlib.suppress(OSError):
            print(line, file=self.stream, flush=True)


def _spoken(facts: dict[str, Any]) -> str:
    """`loss 2.31 nats per pair, learning rate 0.0125`."""
    return ", ".join(
        " ".join(filter(None, (name.replace("_", " "), _short(value), facts.get(f"{name}_unit"))))
        for name, value in facts.items()
        if value is not None and not name.endswith("_unit")
    )


def _short(value: Any) -> str:
    """A number as a person would say it."""
    if not isinstance(value, int | float):
        return str(value)
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):.2f}{letter}"
    return f"{value:.4g}"


def _clock(seconds: float) -> str:
    """Seconds as `1:02:03` or `2:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"

"""Progress of everything that takes more than two seconds: a bar on a terminal, occasional lines in
a log.

The library reports to a `Progress`, which the caller chooses. `Silent` is the default of the Python
API.
"""

import contextlib
import json
import logging
import re
import sys
import time
from collections.abc import Mapping
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self, TextIO

from embedx.errors import (
    Setting,
    SettingError,
    Spelling,
    Text,
    by_other_names,
    in_python,
    spelled,
    visible,
)
from embedx.runtime.stages import StageClock, StageTime
from embedx.settings import Record

if TYPE_CHECKING:
    from embedx.runtime.bar import Bar

LOGGER = logging.getLogger("embedx")
SECONDS_BETWEEN_DRAWINGS = 0.1
# Stages that took less are not summarised.
MIN_SECONDS = 2.0


class Progress:
    """The receiver of the library's reports; this base class ignores them.

    interval    seconds between updates
    is_verbose  whether details are reported
    spelling    of settings in notes, tables and pages
    """

    interval = 10.0
    is_verbose = False
    spelling: Spelling = staticmethod(in_python)

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        """Work of this title begins, which may take long. (For the stages of a run, see `stage`.)

        total  units of the work; None if their number is unknown
        unit   what is counted, in the plural; "B" and "s" are bytes and seconds
        done   units that were done before
        """

    def update(self, done: float, **facts: Any) -> None:
        """`done` units of the work are finished.

        facts  of the interval since the last update, such as loss and words_per_second; `epoch` is
               the number of the epoch, from 1, and `epochs` how many there will be
        """

    def note(self, *message: Text) -> None:
        """Report a line that the user should know.

        message  text and settings, which are spelled as the user writes them
        """

    def warn(self, *text: Text) -> None:
        """Report a line about a possible problem; it is shown with `--quiet`, too."""

    def detail(self, *message: Text) -> None:
        """Report a line that is shown with --verbose."""
        if self.is_verbose:
            self.note(*message)

    def finish(self) -> None:
        """The work ends."""

    def stage(self, name: str) -> AbstractContextManager[None]:
        """Measure a block as a stage of the run; see `embedx.runtime.stages`."""
        return contextlib.nullcontext()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        """Close the outputs."""


class Silent(Progress):
    """Reports nothing."""


SILENT = Silent()


class Reporter(Progress):
    """Reports on `stream`, by a bar on a terminal or in a notebook, else by occasional lines; and
    as JSON lines to a file.

    is_quiet   show warnings only
    is_alone   no results are printed meanwhile; else there is no bar, which would mix with them
    spelling   of settings in notes

    Raises `EmbedxError` if `log_json` cannot be written.
    """

    # The reporter whose bar is on the terminal.
    last_drawn: "Reporter | None" = None

    def __init__(
        self,
        stream: TextIO,
        log_json: Path | None = None,
        *,
        is_quiet: bool = False,
        is_verbose: bool = False,
        is_alone: bool = True,
        spelling: Spelling = in_python,
    ) -> None:
        self.spelling = spelling
        self.stream = stream
        self.is_quiet = is_quiet
        self.is_verbose = is_verbose
        is_notebook = type(stream).__module__.startswith("ipykernel")
        self.on_terminal = (stream.isatty() or is_notebook) and is_alone and not is_quiet
        self.interval = 0.5 if self.on_terminal else 10.0
        # The current work, as `start` and the last `update` said.
        self._title = ""
        self._total: float | None = None
        self._unit = ""
        self._before = 0.0
        self._last: tuple[float, Record] = (0.0, {})
        self._started = 0.0
        self._last_line = 0.0
        self._bar: Bar | None = None
        self.clock = StageClock()
        self._log: TextIO | None = None
        if log_json is not None:
            self._log = _opened_log(log_json)

    def __exit__(self, *exception: object) -> None:
        self._close_bar()
        if self._log:
            self._log.close()

    def stage(self, name: str) -> AbstractContextManager[None]:
        return self.clock.stage(name)

    def stages(self) -> list[StageTime]:
        """The times of the stages so far; also reported with --verbose and logged."""
        times = self.clock.times()
        for stage in times:
            self.detail(
                f"{stage.stage}: {stage.seconds:.2f} s, {stage.cpu_seconds:.2f} s of all cores"
            )
        self._write_log({"stages": [stage._asdict() for stage in times]})
        return times

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        self._close_bar()
        self._title = title
        self._total = total
        self._unit = unit
        self._before = done
        self._started = self._last_line = time.monotonic()
        self._last = (done, {})
        if self.on_terminal:
            # Imported here, because tqdm takes a while.
            from embedx.runtime.bar import Bar

            with contextlib.suppress(OSError):
                self._bar = Bar(self.stream, title, total, done)
                Reporter.last_drawn = self

    def update(self, done: float, **facts: Any) -> None:
        now = time.monotonic()
        self._last = (done, facts)
        if self._log is not None:
            self._log_event(now)
        if self._bar is not None:
            if now - self._last_line >= SECONDS_BETWEEN_DRAWINGS:
                self._last_line = now
                self._draw(self._bar, now)
        elif now - self._last_line >= self.interval and not self.is_quiet:
            self._last_line = now
            parts = [self._share(), *self._parts(now)]
            self._print(f"{self._heading()}: {', '.join(parts)}")

    def _log_event(self, now: float) -> None:
        """Write the last update to the JSON log."""
        done, facts = self._last
        seconds = now - self._started
        left = self._seconds_left(seconds)
        event = {
            "stage": self._title,
            "done": done,
            "total": self._total,
            "unit": self._unit,
            "seconds": round(seconds, 3),
            "seconds_left": None if left is None else round(left, 1),
            **facts,
        }
        self._write_log(event)

    def _write_log(self, event: Record) -> None:
        """Write a line of the JSON log, if there is one."""
        if self._log is None:
            return
        try:
            print(json.dumps(event), file=self._log, flush=True)
        except OSError as error:
            # Closing writes what is left, and so may fail in the same way.
            with contextlib.suppress(OSError):
                self._log.close()
            self._log = None
            self.warn(Setting("log_json"), f" ends here: {error.strerror}")

    def note(self, *message: Text) -> None:
        if not self.is_quiet:
            self._print(spelled(message, self.spelling))

    def warn(self, *text: Text) -> None:
        self._print(f"warning: {spelled(text, self.spelling)}")

    def finish(self) -> None:
        self._close_bar()
        seconds = time.monotonic() - self._started
        if seconds < MIN_SECONDS:
            return
        done, facts = self._last
        n = max(done - self._before, 0.0)
        if self._unit == "s":
            parts = [clock(seconds), self._rate(facts, n / seconds)]
        else:
            amount = self._of_unit(n)
            if n == 1:
                amount = amount.removesuffix("s")
            parts = [f"{amount} in {clock(seconds)}", self._rate({}, n / seconds)]
        parts += _loss(facts)
        self.note(f"{self._title}: {', '.join(filter(None, parts))}")

    # ---- a line

    def _heading(self) -> str:
        """The heading of a line: `epoch 2/5` if that is known, else the title."""
        _, facts = self._last
        epoch = facts.get("epoch")
        if epoch is None:
            return self._title
        epochs = facts.get("epochs")
        return f"epoch {epoch}" if epochs is None else f"epoch {epoch}/{epochs:g}"

    def _share(self) -> str:
        """The share done; the amount if the total is unknown."""
        done, _ = self._last
        if self._total:
            return f"{100 * min(done / self._total, 1.0):.0f}%"
        return self._of_unit(done)

    def _parts(self, now: float) -> list[str]:
        """The time left, the speed, the loss and the learning rate, as far as they are known."""
        done, facts = self._last
        seconds = now - self._started
        left = self._seconds_left(seconds)
        speed = self._rate(facts, (done - self._before) / max(seconds, 1e-9))
        learning_rate = facts.get("learning_rate")
        parts = []
        if left is not None:
            parts.append(f"{clock(left)} left")
        if speed:
            parts.append(speed)
        parts += _loss(facts)
        if learning_rate is not None:
            parts.append(f"lr {_short(learning_rate)}")
        return parts

    def _rate(self, facts: Record, rate: float) -> str:
        """The speed of the last interval, if it was reported, else of the work."""
        for name, value in facts.items():
            if name.endswith("_per_second"):
                return f"{_short(value)} {name.removesuffix('_per_second')}/s"
        if rate <= 0 or self._unit == "s":
            return ""
        return f"{self._of_unit(rate)}/s"

    def _of_unit(self, n: float) -> str:
        """`634k words`, `25.1 MB`."""
        if self._unit == "B":
            # The blank is before the prefix of the unit.
            return re.sub(r"(?<=\d)(?=\D?B)", " ", f"{_short(n)}B")
        return f"{_short(n)} {self._unit}"

    def _draw(self, bar: "Bar", now: float) -> None:
        done, _ = self._last
        parts = self._parts(now)
        if self._total is None:
            parts.insert(0, self._share())
        else:
            done = min(done, self._total)
        with contextlib.suppress(OSError):
            bar.show(self._heading(), done, parts)

    def clear(self) -> None:
        """Remove the bar, so that other output can be written; the next update draws it again."""
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.clear(nolock=True)

    def _close_bar(self) -> None:
        if self._bar is not None:
            with contextlib.suppress(OSError):
                self._bar.close()
            self._bar = None
        if Reporter.last_drawn is self:
            Reporter.last_drawn = None

    def _seconds_left(self, seconds: float) -> float | None:
        """The remaining time of the work, from the progress in `seconds`; None if unknown."""
        done, _ = self._last
        if not self._total or done <= self._before:
            return None
        return seconds * (self._total - done) / (done - self._before)

    def _print(self, line: str) -> None:
        """Print a line, above the bar if there is one. Training continues if it cannot be written,
        because of a closed pipe or a full disk.
        """
        with contextlib.suppress(OSError):
            if self._bar is not None:
                self._bar.write(visible(line), file=self.stream)
            else:
                print(visible(line), file=self.stream, flush=True)


def _opened_log(file: Path) -> TextIO:
    """The JSON log, opened for appending. Raises `SettingError` if it cannot be written."""
    try:
        return open(file, "a", encoding="utf-8")
    except OSError as error:
        remedy = "name a file that can be written"
        raise SettingError("log_json", file, str(error.strerror), remedy) from error


class Logged(Reporter):
    """Reports to the logger "embedx": warnings as warnings, all else at INFO."""

    def __init__(self, spelling: Spelling = in_python) -> None:
        super().__init__(sys.stderr, is_alone=False, spelling=spelling)

    def warn(self, *text: Text) -> None:
        LOGGER.warning("%s", visible(spelled(text, self.spelling)))

    def _print(self, line: str) -> None:
        LOGGER.info("%s", visible(line))


def python_progress(verbose: bool, names: Mapping[str, str] | None = None) -> Progress:
    """Progress for callers from Python: on standard error if `verbose`, else as log messages,
    warnings at level WARNING and all others at INFO.

    names  the caller's names of settings, where they differ
    """
    spelling = by_other_names(names or {})
    if verbose:
        return Reporter(sys.stderr, spelling=spelling)
    return Logged(spelling) if LOGGER.isEnabledFor(logging.WARNING) else SILENT


def _loss(facts: Record) -> list[str]:
    """The loss as a part of a line, if it is known."""
    loss = facts.get("loss")
    return [] if loss is None else [f"loss {loss:.4f}"]


def _short(value: float) -> str:
    """A number with three digits: `634k`, `1.46M`, `2.34`."""
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= 0.9995 * size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"


def clock(seconds: float) -> str:
    """Seconds as `1:02:03` or `2:03`."""
    minutes, second = divmod(round(seconds), 60)
    hours, minute = divmod(minutes, 60)
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"

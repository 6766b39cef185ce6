"""The standard streams of a command: whole or closed, full, of any encoding, and read by nobody."""

import codecs
import contextlib
import errno
import io
import os
import stat
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from embedx.cli.spelling import spelling_of
from embedx.errors import EmbedxError, visible
from embedx.runtime.progress import Reporter
from embedx.spelling import on_command_line
from embedx.storage import outputs
from embedx.tasks.requests import Request

# the error handler of results: bytes that were not UTF-8 are written as they were read, as in names
# of files; other surrogates, which no bytes stand for, as \\udxxx
AS_READ = "embedx-as-read"


def _as_read(error: UnicodeError) -> tuple[str | bytes, int]:
    try:
        return codecs.lookup_error("surrogateescape")(error)
    except UnicodeError:
        return codecs.backslashreplace_errors(error)


codecs.register_error(AS_READ, _as_read)


class OutputClosedError(Exception):
    """The reader of standard output has closed it, as `head` does."""


class _Results(io.FileIO):
    """Standard output, whose first error is raised; later writes are ignored, so that the
    interpreter can end.
    """

    has_failed = False

    def write(self, data: Any, /) -> int:
        if self.has_failed:
            return len(data)
        try:
            return super().write(data)
        except OSError as error:
            self.has_failed = True
            if isinstance(error, BrokenPipeError):
                raise OutputClosedError from error
            why = "it is closed" if error.errno == errno.EBADF else error.strerror or error
            raise EmbedxError(
                f"standard output: {why}, so results are incomplete; write them elsewhere"
            ) from error


class TerminalText(io.TextIOWrapper):
    """Text for people: what a terminal would obey is escaped, whoever wrote the words, labels and
    names that are shown. A line may be drawn over, if it begins with "\\r"; any other text takes
    the place of a progress bar.
    """

    def write(self, text: str, /) -> int:
        if text and not text.startswith("\r") and Reporter.last_drawn is not None:
            Reporter.last_drawn.clear()
        super().write(visible(text, "\n\t\r" if text.startswith("\r") else "\n\t"))
        return len(text)


def _for_people(stream: Any) -> Any:
    """The stream, which escapes what a terminal would obey if it is one."""
    if not isinstance(stream, io.TextIOWrapper) or not stream.isatty():
        return stream
    encoding, by_line = stream.encoding, stream.line_buffering
    return TerminalText(stream.detach(), encoding, "backslashreplace", line_buffering=by_line)


def open_streams() -> None:
    """Open the three standard streams for any text. Results and standard input are UTF-8; a
    terminal has its own encoding, and what it would obey is escaped.
    """
    _replace_closed()
    _open_errors()
    _open_input()
    _open_results()


def _replace_closed() -> None:
    """Have the null device in place of a stream that is closed, lest the next file that is opened
    have its number and be written to instead. In place of standard output it is opened to be read,
    so that writing results fails.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)  # gets the lowest number that is free


def _open_errors() -> None:
    """Standard error: letters that its encoding lacks are written as `\\xe9`."""
    stream: Any = sys.stderr or os.fdopen(2, "w", encoding="utf-8")
    stream.reconfigure(errors="backslashreplace")
    sys.stderr = _for_people(stream)


def _open_input() -> None:
    """Standard input: bytes that are not UTF-8 are kept, to be written as they were read."""
    sys.stdin = sys.stdin or os.fdopen(0, encoding="utf-8")
    if isinstance(sys.stdin, io.TextIOWrapper) and not sys.stdin.isatty():
        sys.stdin.reconfigure(encoding="utf-8", errors="surrogateescape")


def _open_results() -> None:
    """Standard output: a terminal, or else a stream of results, whose first error is raised."""
    by_line = False
    if isinstance(sys.stdout, io.TextIOWrapper):
        if sys.stdout.isatty():
            # It is never full, and on Windows takes no bytes.
            sys.stdout = _for_people(sys.stdout)
            return
        by_line = sys.stdout.line_buffering or sys.stdout.write_through
    results = io.BufferedWriter(_Results(1, "w", closefd=False))
    sys.stdout = io.TextIOWrapper(results, "utf-8", AS_READ, newline="\n", line_buffering=by_line)


def is_read_at_once() -> bool:
    """Whether standard output may be read, as on a terminal, while more is written: not if it is a
    file.
    """
    mode = os.fstat(1).st_mode
    return sys.stdout.isatty() or stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode)


def command_progress(quiet: bool = False, verbose: bool = False) -> Reporter:
    """Progress on standard error, for a command without a request."""
    return Reporter(sys.stderr, is_quiet=quiet, is_verbose=verbose, spelling=on_command_line)


def request_progress(request: Request, is_alone: bool = True) -> Reporter:
    """Progress on standard error, as the options of the command say."""
    return Reporter(
        sys.stderr,
        request.log,
        is_quiet=request.quiet,
        is_verbose=request.verbose,
        is_alone=is_alone,
        spelling=spelling_of(sys.argv[1:]),
    )


@contextlib.contextmanager
def results_to(file: Path | None, overwrite: bool, is_text: bool = True) -> Iterator[Any]:
    """Have what is printed on standard output written to a file instead, if one is named; it
    appears when it is complete.

    Without `is_text` nothing printed is: the value is the stream of bytes to write to.
    """
    if file is None:
        yield None
        return
    with outputs.writing(file, overwrite) as raw:
        out = io.TextIOWrapper(raw, "utf-8", AS_READ, newline="\n")
        with contextlib.redirect_stdout(out) if is_text else contextlib.nullcontext():
            yield raw
        out.detach()  # writes what is left


def close_error_stream() -> None:
    """Discard what could not be written to standard error; otherwise Python tries again at exit and
    changes the exit code.
    """
    try:
        sys.stderr.flush()
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # Python flushes it at its end

"""Commands of embedx as a user types them, in the process of the tests.

What a process of its own is needed for (signals, what is imported at the start, pipes that are
answered line by line) is in `tests.support.forked`.
"""

import contextlib
import os
import signal
import sys
import tempfile
from pathlib import Path
from typing import NamedTuple
from unittest import mock

STREAMS = ("stdin", "stdout", "stderr")
SIGNALS = ("SIGINT", "SIGTERM", "SIGHUP")


class Ended(NamedTuple):
    """A command that ended; names as those of `subprocess.CompletedProcess`."""

    returncode: int
    stdout: str
    stderr: str


def words_of(line, **paths):
    """The words of a command line, with `paths` in place of names such as TEXT."""
    return [str(paths.get(word, word)) for word in line.split()]


def invoke(*words):
    """Run `embedx` with these words; its errors are raised, and it prints where the test does."""
    from embedx.cli.app import application

    application(words)(list(words), standalone_mode=False)


def run_command(home, *arguments, input="", check=True):
    """Run `embedx` with these arguments in the folder `home`.

    Its standard streams are files, as after `embedx ... < in > out 2> err`.
    """
    from embedx.cli.app import main

    words = [str(argument) for argument in arguments]
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, name) for name in STREAMS]
        paths[0].write_text(input, "utf-8")
        code = 0
        with (
            _streams(paths),
            _signals(),
            contextlib.chdir(home),
            mock.patch.object(sys, "argv", ["embedx", *words]),
        ):
            try:
                main()
            except SystemExit as ended:
                code = ended.code or 0
        output, errors = (path.read_text("utf-8") for path in paths[1:])
    assert not check or code == 0, errors
    return Ended(code, output, errors)


@contextlib.contextmanager
def _streams(paths):
    """The standard streams are these files, for Python and below it."""
    kept = [os.dup(number) for number in range(3)]
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    try:
        for number, path in enumerate(paths):
            opened = os.open(path, os.O_RDONLY if number == 0 else os.O_WRONLY | os.O_CREAT)
            os.dup2(opened, number)
            os.close(opened)
        with contextlib.ExitStack() as stack:
            for number, (name, mode) in enumerate(zip(STREAMS, "rww", strict=True)):
                file = stack.enter_context(open(number, mode, encoding="utf-8", closefd=False))
                stack.enter_context(mock.patch.object(sys, name, file))
            yield
            sys.stdout.flush()
            sys.stderr.flush()
    finally:
        for number, descriptor in enumerate(kept):
            os.dup2(descriptor, number)
            os.close(descriptor)


@contextlib.contextmanager
def _signals():
    """Handlers of signals are afterwards as before."""
    numbers = [getattr(signal, name) for name in SIGNALS if hasattr(signal, name)]
    handlers = {number: signal.getsignal(number) for number in numbers}
    try:
        yield
    finally:
        for number, handler in handlers.items():
            signal.signal(number, handler)

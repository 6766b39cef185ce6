"""Progress as people see it: the bar of a terminal or notebook, the lines and messages of a log."""

import contextlib
import io
import json
import logging
import os
import pty
import re
import signal
import subprocess
import sys
import termios
from types import SimpleNamespace

import pytest

from embedx.cli.streams import TerminalText
from embedx.runtime import bar, progress
from embedx.runtime.progress import Reporter, Silent
from tests.support.clock import Clock
from tests.support.terminal import Screen

FACTS = {
    "loss": 2.3437,
    "loss_unit": "nats per pair",
    "learning_rate": 0.0231,
    "words_per_second": 634_100,
    "epochs": 5.0,
    "epoch": 3,
}


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(progress, "time", clock)
    return clock


@pytest.fixture
def screen(monkeypatch):
    screen = Screen()
    monkeypatch.setattr(bar, "columns_of", lambda stream: screen.columns - 1)
    return screen


def draw(reporter, clock, done, **facts):
    """Report progress, after long enough that the bar is drawn again."""
    clock.advance(1.0)
    reporter.update(done, **facts)


@pytest.mark.parametrize(
    ("columns", "line"),
    [
        (200, r"epoch 3/5:  46%\|█+.? +\| 0:43 left, 634k words/s, loss 2.3437, lr 0.0231"),
        (80, r"epoch 3/5:  46%\|█+.? +\| 0:43 left, 634k words/s, loss 2.3437, lr 0.0231"),
        (60, r"epoch 3/5:  46%\|█+.? +\| 0:43 left, 634k words/s, loss 2.3437"),
        (40, r"epoch 3/5:  46%\|█+.? +\| 0:43 left"),
        (28, r"epoch 3/5:  46%\|█+.? +\|"),
        (10, r"epoch 3/5"),
        (3, r"ep"),
    ],
)
def test_a_bar_is_one_line_that_fits_the_terminal(screen, clock, columns, line):
    screen.columns = columns
    with Reporter(screen) as reporter:
        reporter.start("training", 1e8, "words")
        clock.advance(36)
        draw(reporter, clock, 46e6, **FACTS)
        assert len(screen.rows) == 1
        assert re.fullmatch(line, screen.lines[0]), screen.lines
        reporter.finish()
        assert screen.lines[0].startswith("training: 46M words in 0:37"[: columns - 1])


def test_a_bar_without_a_total_shows_the_amount_done(screen, clock):
    with Reporter(screen) as reporter:
        reporter.start("reading", None, "B")
        draw(reporter, clock, 25_100_000)
        assert screen.lines == ["reading: 25.1 MB, 25.1 MB/s"]
        draw(reporter, clock, 50_200_000)
        assert screen.lines == ["reading: 50.2 MB, 25.1 MB/s"]


def test_a_budget_of_seconds_is_full_when_it_is_spent(screen, clock):
    with Reporter(screen) as reporter:
        reporter.start("training", 10.0, "s")
        draw(reporter, clock, 5.0, words_per_second=1000.0)
        assert re.fullmatch(r"training:  50%\|█+.? +\| 0:01 left, 1k words/s", screen.lines[0])
        draw(reporter, clock, 11.0, words_per_second=1000.0)
        assert re.fullmatch(r"training: 100%\|█+\| .*", screen.lines[0])


def test_a_terminal_without_unicode_has_signs_of_ascii(screen, clock):
    screen.encoding = "ascii"
    with Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        draw(reporter, clock, 50)
        assert re.fullmatch(r"reading:  50%\|#+\d? +\| 0:01 left, 50 rows/s", screen.lines[0])


def test_a_note_stands_above_the_bar(screen, clock):
    with Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        draw(reporter, clock, 50)
        reporter.warn("a row without a label\x1b[2J")
        note, line = screen.lines
        assert note == r"warning: a row without a label\x1b[2J"
        assert line.startswith("reading:  50%|")
        reporter.note("a fact")
        assert screen.lines[1] == "a fact"
        reporter.finish()
        assert screen.lines[2:] == [""]


def test_a_terminal_that_is_resized_keeps_one_bar(screen, clock):
    with Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        for completed, columns in ((10, 80), (20, 50), (30, 120), (40, 25)):
            screen.resize(columns)
            draw(reporter, clock, completed)
            assert len(screen.rows) == 1
            assert f"{completed}%" in screen.lines[0]
        screen.resize(12)
        reporter.note("a fact")
        assert screen.lines[0] == "a fact"
        screen.resize(8)
        reporter.clear()
        assert screen.lines == ["a fact", ""]


def test_an_exception_leaves_no_bar(screen, clock):
    with contextlib.suppress(KeyboardInterrupt), Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        draw(reporter, clock, 50)
        raise KeyboardInterrupt
    assert screen.lines == [""]
    with Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        reporter.start("training", 100, "words")
        draw(reporter, clock, 50)
    assert screen.lines == [""]


def test_a_bar_has_no_thread_and_no_lock_of_several_processes(screen):
    """A thread might not start, and a lock might stay locked in a process that forks."""
    import threading

    before = threading.active_count()
    with Reporter(screen) as reporter:
        reporter.start("reading", 100, "rows")
        assert threading.active_count() == before
    assert type(bar.Bar.get_lock()) is type(threading.RLock())


def test_a_notebook_has_a_bar_of_80_columns_without_widgets(clock):
    """Its standard error is no terminal, but draws over a line."""

    class OutStream(Screen):
        def isatty(self):
            return False

    OutStream.__module__ = "ipykernel.iostream"
    notebook = OutStream()
    with Reporter(notebook) as reporter:
        reporter.start("reading", 100, "rows")
        draw(reporter, clock, 50)
        (line,) = notebook.rows
        assert len(line) == 79
        assert line.startswith("reading:  50%|")
    assert notebook.lines == [""]


def test_output_of_other_libraries_replaces_the_bar(clock):
    """Messages of loggers and warnings of Python, of which the reporter does not know."""
    screen = Screen()

    class Raw(io.BytesIO):
        def isatty(self):
            return True

        def write(self, data):
            screen.write(bytes(data).decode())
            return len(data)

    stream = TerminalText(Raw(), "utf-8", write_through=True)
    with Reporter(stream) as reporter:
        reporter.start("reading", 100, "rows")
        draw(reporter, clock, 50)
        print("embedx: cannot be kept", file=stream)
        assert screen.lines == ["embedx: cannot be kept", ""]
        draw(reporter, clock, 60)
        assert screen.lines[1].startswith("reading:  60%|")


def test_a_log_has_lines_and_no_bar(clock):
    stream = io.StringIO()
    with Reporter(stream) as reporter:
        reporter.start("training", 1e8, "words")
        clock.advance(36)
        draw(reporter, clock, 46e6, **FACTS)
        reporter.finish()
    assert stream.getvalue().splitlines() == [
        "epoch 3/5: 46%, 0:43 left, 634k words/s, loss 2.3437, lr 0.0231",
        "training: 46M words in 0:37, 1.24M words/s, loss 2.3437",
    ]


def test_a_resumed_run_reports_the_speed_of_its_own_part(tmp_path, clock):
    """90 of 100 words were done before; ten take five seconds, as many as five more will."""
    stream = io.StringIO()
    with Reporter(stream, tmp_path / "log") as reporter:
        reporter.interval = 1.0
        reporter.start("training", 110, "words", 90)
        clock.advance(2.5)
        reporter.update(95)
        clock.advance(2.5)
        reporter.update(100)
        reporter.finish()
    assert stream.getvalue().splitlines() == [
        "training: 86%, 0:08 left, 2 words/s",
        "training: 91%, 0:05 left, 2 words/s",
        "training: 10 words in 0:05, 2 words/s",
    ]
    assert [
        json.loads(line)["seconds_left"] for line in (tmp_path / "log").read_text().splitlines()
    ] == [7.5, 5.0]


def test_one_unit_of_work_is_singular(clock):
    stream = io.StringIO()
    reporter = Reporter(stream)
    reporter.start("comparing", 1, "runs")
    clock.advance(4)
    reporter.update(1)
    reporter.finish()
    assert stream.getvalue() == "comparing: 1 run in 0:04, 0.25 runs/s\n"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no device that is always full")
def test_a_log_on_a_full_disk_is_closed_with_a_warning():
    stream = io.StringIO()
    with Reporter(stream, "/dev/full") as reporter:
        log = reporter._log
        for _ in range(2):
            reporter.stages()
    assert log.closed
    assert stream.getvalue().count("log_json ends here") == 1


def test_progress_goes_to_the_log_of_the_program_where_it_takes_it(caplog):
    with caplog.at_level(logging.INFO, "embedx"):
        assert isinstance(progress.python_progress(True), Reporter)
        quiet = progress.python_progress(False)
        quiet.warn("a danger")
        quiet.start("training", 10, "words")
        quiet.interval = 0.0
        quiet.update(5, loss=2.0, words_per_second=3.0)
    assert caplog.record_tuples[0] == ("embedx", logging.WARNING, "a danger")
    assert caplog.record_tuples[1][:2] == ("embedx", logging.INFO)
    assert re.fullmatch(
        r"training: 50%, 0:00 left, 3 words/s, loss 2.0000", caplog.records[1].getMessage()
    )
    caplog.clear()
    with caplog.at_level(logging.WARNING, "embedx"):
        at_default = progress.python_progress(False)
        at_default.note("nothing to worry about")
        at_default.warn("the learning rate was lowered")
    assert caplog.record_tuples == [("embedx", logging.WARNING, "the learning rate was lowered")]
    with caplog.at_level(logging.ERROR, "embedx"):
        assert isinstance(progress.python_progress(False), Silent)


INTERRUPTED = """
import os, signal, sys
from embedx.cli import app
from embedx.runtime.progress import Reporter

def application(arguments):
    def command(**how):
        with Reporter(sys.stderr) as reporter:
            reporter.start("reading", 100, "rows")
            reporter.update(50)
            os.kill(os.getpid(), signal.SIGINT)
    return command

app.application = application
app.main()
"""


def test_ctrl_c_leaves_a_clean_terminal():
    master, terminal = pty.openpty()
    termios.tcsetwinsize(terminal, (24, 60))
    process = subprocess.Popen(
        [sys.executable, "-c", INTERRUPTED], stdout=terminal, stderr=terminal
    )
    os.close(terminal)
    screen = Screen(60)
    drawn = b""
    with contextlib.suppress(OSError):  # on Linux, when the other end is closed
        while data := os.read(master, 65536):
            drawn += data
    os.close(master)
    assert process.wait(timeout=120) == 128 + signal.SIGINT
    assert b"reading:" in drawn
    screen.write(drawn.decode().replace("\r\n", "\n"))
    assert screen.lines == ["embedx: interrupted", ""]


def test_the_width_is_that_of_the_terminal_at_the_moment():
    master, terminal = pty.openpty()
    with open(terminal, "w") as stream:
        for columns, width in ((100, 99), (30, 29), (0, 79)):
            termios.tcsetwinsize(terminal, (24, columns))
            assert bar.columns_of(stream) == width
    os.close(master)
    assert bar.columns_of(io.StringIO()) == 79
    assert bar.columns_of(SimpleNamespace()) == 79

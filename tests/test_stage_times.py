"""Seconds of the stages of a run."""

import contextlib
import json
from types import SimpleNamespace

import pytest

from embedx.runtime import stages
from embedx.runtime.stages import StageClock, StageTime
from tests.support.forked import embedx_run


class Time:
    """A clock that stands still but for what it is advanced by."""

    def __init__(self, monkeypatch):
        self.now = 100.0
        self.cpu = 0.0
        monkeypatch.setattr(stages, "process_start", lambda: 97.0)
        monkeypatch.setattr(stages.time, "time", lambda: self.now)
        monkeypatch.setattr(stages.time, "process_time", lambda: self.cpu)

    def advance(self, seconds, cpu_seconds):
        self.now += seconds
        self.cpu += cpu_seconds


def test_a_boot_between_two_seconds_does_not_count_as_import(monkeypatch):
    """psutil knows the boot to a second, and a process's start in hundredths from there."""
    process = SimpleNamespace(create_time=lambda: 50.0 + 47.25)
    monkeypatch.setattr(stages.psutil, "Process", lambda: process)
    monkeypatch.setattr(stages.psutil, "boot_time", lambda: 50.0)
    monkeypatch.setattr(stages.time, "time", lambda: 100.0)
    monkeypatch.setattr(stages.time, "clock_gettime", lambda clock: 100.0 - 50.75)
    monkeypatch.setattr(stages.time, "CLOCK_BOOTTIME", 7, raising=False)
    assert stages.process_start() == 50.75 + 47.25


def test_a_stage_within_another_is_not_counted_there(monkeypatch):
    time = Time(monkeypatch)
    clock = StageClock()
    time.advance(0, 2)
    with clock.stage("train"):
        time.advance(5, 9)
        with clock.stage("kernels"):
            time.advance(1, 1)
        time.advance(2, 4)
    time.advance(0.5, 0.25)
    with clock.stage("kernels"):
        time.advance(10, 10)
    assert clock.times() == [
        StageTime("import", 3, 2),
        StageTime("train", 7, 13),
        StageTime("kernels", 11, 11),
        StageTime("other", 0.5, 0.25),
    ]


def test_a_stage_that_fails_is_counted(monkeypatch):
    time = Time(monkeypatch)
    clock = StageClock()
    with contextlib.suppress(ZeroDivisionError), clock.stage("read"):
        time.advance(4, 1)
        raise ZeroDivisionError
    assert StageTime("read", 4, 1) in clock.times()


@pytest.mark.parametrize("command", ["train", "classify"])
def test_a_run_reports_the_time_of_its_stages(command, tmp_path):
    corpus = tmp_path / "corpus.txt"
    if command == "train":
        corpus.write_text("one two three four five six\n" * 200)
    else:
        corpus.write_text("__label__a one two\n__label__b three four\n" * 100)
    words = [command, corpus.name, "--json", "--verbose", "--log-json", "log"]
    completed = embedx_run(tmp_path, *words)
    result = json.loads(completed.stdout)
    logged = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert result["stages"] == logged["stages"]
    names = [stage["stage"] for stage in result["stages"]]
    assert names[:2] == ["import", "read"]
    assert {"resolve", "allocate", "train", "held out", "save"} <= set(names)
    assert all(f"{name}: " in completed.stderr for name in names)

"""A sample of what `python -m tests.fuzz` tries for hours, and whether it would notice."""

import os
import sys
from collections import Counter

import numpy as np
import pytest
from fuzz import run as fuzz
from fuzz.targets import TARGETS

from embedx.errors import EmbedxError

CASES = 10  # of each target


def test_hostile_files_are_read_or_refused_in_one_line():
    found = list(fuzz.run(f"{target}:sample-{n}" for n in range(CASES) for target in TARGETS))
    findings = [f"{case}\n{wrong}" for case, _, wrong in found if wrong]
    assert not findings, "\n\n".join(findings[:3])
    assert len(found) == CASES * len(TARGETS)
    n_refused = Counter(case.partition(":")[0] for case, line, _ in found if line)
    mixed = [0 < n_refused[target] < CASES for target in TARGETS]  # neither all harmless nor all hopeless
    assert sum(mixed) > 0.8 * len(TARGETS)


def refuses(message):
    def reading():
        raise EmbedxError(message)

    return reading


@pytest.mark.parametrize(("reading", "wrong"), [
    (lambda: None, ""), (refuses("given.bin:1: odd; mend it"), ""),
    (refuses("something is odd"), "not one line with the file's name: 'something is odd'"),
    (refuses(""), "not one line with the file's name"), (lambda: int("x"), "ValueError: invalid literal"),
    (lambda: np.float32(1e38) * np.float32(1e38), "RuntimeWarning: overflow"), (lambda: sys.exit(3), "SystemExit: 3"),
])  # fmt: skip
def test_what_is_neither_read_nor_refused_in_one_line_is_found(tmp_path, monkeypatch, reading, wrong):
    monkeypatch.setitem(TARGETS, "own", lambda folder, rng: reading)
    found = fuzz.tried("own", 0, tmp_path)[1]
    assert (wrong in found) if wrong else not found


def test_what_takes_too_long_is_found(tmp_path, monkeypatch):
    monkeypatch.setattr(fuzz, "CPU_SECONDS", -1)
    assert fuzz.tried("pairs", 0, tmp_path)[1] == "took 0 s"


def ends_at(case):
    """As `fuzz.in_new_folder` where one of the readers ends the process."""
    return os._exit(3) if case == "bad:0" else ("", "")


def test_a_process_that_ends_is_found_and_the_next_case_tried(monkeypatch):
    monkeypatch.setattr(fuzz, "prepare", None)
    found = list(fuzz.run(["bad:0", "good:0"], work=ends_at))
    assert found == [("bad:0", "", "ended its process"), ("good:0", "", "")]

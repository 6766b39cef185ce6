"""What a run needs of memory is printed before it trains, true, and refused where there is none."""

import dataclasses
import re
import sys
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.errors import EmbedxError
from embedx.runtime import memory
from embedx.runtime.memory import NoMemoryError
from embedx.training import life
from tests.support import forked
from tests.support.label_data import ova, settings, topics
from tests.support.notes import Notes
from tests.support.refusals import refused


def planned(monkeypatch, copied=(), *, available=3000, **arrays):
    """A plan for arrays of so many bytes."""
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    needs = {name: np.zeros(size, np.uint8) for name, size in arrays.items()}
    return memory.plan_memory(needs, [needs[name] for name in copied])


def test_memory_needs_are_printed_or_refused(monkeypatch):
    notes = Notes()
    plan = planned(monkeypatch, available=3_000_000, vectors=2_500_000, threads=0, optimizer=40_000)
    plan.check("5 words", "lower --dim")
    plan.report(notes)
    assert notes.notes == ["memory: 2.5 MB of 3.0 MB free: vectors 2.5 MB, optimizer 40.0 kB"]
    plan = planned(monkeypatch, vectors=3001)
    with refused(kind=NoMemoryError, purpose="5 words", need=3001, remedy="use fewer"):
        plan.check("5 words", "use fewer")


def test_arrays_larger_than_all_memory_are_refused():
    fields = {"purpose": "5 words", "need": None, "remedy": "use fewer"}
    with refused(kind=NoMemoryError, **fields), memory.allocating("5 words", "use fewer"):
        np.zeros((2**40, 2**20), np.uint8)


def test_the_rollback_copy_is_left_out_where_memory_is_short(monkeypatch):
    assert planned(monkeypatch, ["vectors"], vectors=1000).parts == {
        "vectors": 1000,
        "rollback copy": 1000,
    }
    plan = planned(monkeypatch, ["vectors"], vectors=1600)
    assert plan.fits
    assert plan.parts == {"vectors": 1600}


PEAK = """
import re, sys
from pathlib import Path
from embedx.cli.app import main

sys.argv = ["embedx", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    # not getrusage, whose maximum begins with that of the process that started this one
    status = Path("/proc/self/status").read_text()
    print(end.code or 0, 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status)[1]))
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the system does not report it")
def test_printed_memory_needs_match_the_memory_used(two_topics, tmp_path):
    """The program aside, whose shared libraries are not counted."""
    plans_and_peaks = []
    corpus = tmp_path / "few.txt"
    corpus.write_text("".join(Path(two_topics).read_text().splitlines(keepends=True)[:30]))
    # The first command may compile the kernels, which takes memory too.
    for dim in "10", "20", "400000":
        words = [
            "train",
            corpus,
            "--dim",
            dim,
            "--epochs",
            "1",
            "--threads",
            "1",
            "-v",
            "--output",
            tmp_path / dim,
        ]
        completed = forked.run(*words, cwd=tmp_path, env=forked.environment(tmp_path), code=PEAK)
        code, peak = map(int, completed.stdout.splitlines()[-1].split())
        assert code == 0, completed.stderr
        (announced,) = re.findall(r"memory: ([\d.]+) MB of", completed.stderr)
        plans_and_peaks.append((1e6 * float(announced), peak))
    _, (small, small_peak), (large, large_peak) = plans_and_peaks
    assert 0.2 < (large_peak - small_peak) / (large - small) < 1.1  # of workspaces not all is used


def test_bytes_of_arrays_one_within_the_other():
    row = np.zeros(5, np.float32)
    assert memory.n_bytes([(row, [row[:2]]), {"a": row}, 7, None]) == 20 + 8 + 20
    assert memory.n_bytes(np.broadcast_to(row, (3, 5))) == 60  # as it would be written


def needed(corpus, monkeypatch, **options):
    """Bytes that training says that it needs by purpose, and the remedy where that does not fit."""
    plans = []
    check = memory.MemoryPlan.check

    def refused(plan, what, remedy):
        plans.append(plan)
        check(dataclasses.replace(plan, available=0), what, remedy)

    monkeypatch.setattr(memory.MemoryPlan, "check", refused)
    with pytest.raises(EmbedxError) as raised:
        embedx.SkipGram(**{"dim": 64, "threads": 1, **options}).fit(corpus)
    monkeypatch.undo()
    return plans[0].needs, str(raised.value).partition("; ")[2]


def test_tables_optimizer_state_and_threads_are_counted(two_topics, monkeypatch):
    table = 16 * 64 * 4
    needs, remedy = needed(two_topics, monkeypatch, objective="ns", optimizer="sgd")
    assert (needs["vectors"], needs["optimizer"]) == (2 * table, 0)
    assert remedy == "lower dim, max_vocab, threads or window"
    adagrad, _ = needed(two_topics, monkeypatch, objective="ns", optimizer="adagrad", threads=3)
    assert adagrad["optimizer"] == 2 * table
    assert adagrad["threads"] == 3 * needs["threads"]
    wide, _ = needed(two_topics, monkeypatch, objective="ns", window=100)
    assert wide["threads"] > 3 * needs["threads"]
    assert needs["centred vectors"] == table
    biased, _ = needed(two_topics, monkeypatch, objective="ns", bias="zero")
    assert "centred vectors" not in biased
    state, _ = needed(two_topics, monkeypatch, objective="ar", bias="none", dim=100_000)
    assert state["objective"] == 16 * (4 + 8)
    assert state["vectors"] == 2 * 16 * 100_000 * 4


def test_threads_that_were_not_asked_for_are_as_many_as_have_memory(two_topics, monkeypatch):
    needs, _ = needed(two_topics, monkeypatch, threads=4)
    one_thread = needs["threads"] / 4
    for_two = sum(needs.values()) - 2 * one_thread
    monkeypatch.setattr(memory, "available_memory", lambda: int(for_two))
    monkeypatch.setattr("embedx.skipgram.resolve.usable_cores", lambda: 4)
    model = embedx.SkipGram(dim=64, epochs=1).fit(two_topics).model
    assert model.settings["threads"] == 2
    assert model.facts["chosen"]["threads"] == "memory of a thread"
    with refused(None, "dim", "threads", kind=NoMemoryError):
        embedx.SkipGram(dim=64, epochs=1, threads=4).fit(two_topics)
    monkeypatch.setattr(memory, "available_memory", lambda: int(for_two - 3 * one_thread))
    with refused(None, "dim", kind=NoMemoryError):
        embedx.SkipGram(dim=64, epochs=1).fit(two_topics)


@pytest.mark.parametrize("weights", ["tree", "sparse"])
def test_a_classifier_trains_by_as_many_threads_as_have_memory(weights, monkeypatch):
    data = topics()
    monkeypatch.setattr("embedx.classification.resolve.usable_cores", lambda: 4)
    config = ClassifierConfiguration(ova(), settings(weights=weights, threads=None))
    run = ClassifierRun(data, config)
    needs = run.allocate().needs
    one_thread = needs["threads"] / 4
    monkeypatch.setattr(
        memory, "available_memory", lambda: int(sum(needs.values()) - 2.5 * one_thread)
    )
    again = ClassifierRun(data, config)
    assert life.allocate(again).needs["threads"] == one_thread
    assert again.settings.threads == 1
    assert again.origins["threads"] == "memory of a thread"
    with_four_threads = ClassifierRun(
        data, ClassifierConfiguration(ova(), settings(weights=weights, threads=4))
    )
    assert not life.allocate(with_four_threads).fits


def test_what_does_not_fit_is_refused_before_training(two_topics, monkeypatch):
    needs, _ = needed(two_topics, monkeypatch)
    monkeypatch.setattr(memory, "available_memory", lambda: sum(needs.values()) - 1)
    with refused(None, "dim", "max_vocab", kind=NoMemoryError, quoting=("16 words", "64 numbers")):
        embedx.SkipGram(dim=64, threads=1).fit(two_topics)
    monkeypatch.setattr(memory, "available_memory", lambda: sum(needs.values()))
    embedx.SkipGram(dim=64, threads=1, epochs=1).fit(two_topics)
    monkeypatch.undo()
    with refused(
        None, "dim", "max_vocab", kind=NoMemoryError, quoting=("16 rows", "2147483647 numbers")
    ):
        embedx.SkipGram(dim=2**31 - 1).fit(two_topics)

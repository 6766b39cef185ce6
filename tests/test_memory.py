"""What a run needs of memory and disk is printed before it trains, true, and refused where there is
no room.
"""

import dataclasses
import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import psutil
import pytest

import embedx
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.errors import DataError, EmbedxError
from embedx.runtime import control_groups, cores, disk, locks, memory
from embedx.runtime.memory import NoMemoryError
from embedx.runtime.progress import SILENT, Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import WordVectorsRun
from embedx.training import checkpoint, life
from embedx.training.checkpoint import Checkpoints
from tests.support import forked, word_training
from tests.support.checkpoints import checkpoints_of
from tests.support.label_data import ova, settings, topics
from tests.support.notes import Notes
from tests.support.refusals import refused


def group(folder, limit, usage, inactive=0):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in (
        ("max", limit),
        ("current", usage),
        ("stat", f"anon 500\ninactive_file {inactive}"),
    ):
        (folder / f"memory.{name}").write_text(f"{content}\n")


def test_the_memory_of_a_container_is_that_of_its_control_group(tmp_path):
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text("5:cpu:/other\n0::/pod/job\n")
    group(groups / "pod" / "job", "max", 700)
    group(groups / "pod", 1000, 800)
    assert control_groups.memory_left(membership, groups) == 200
    group(groups / "pod", 1000, 800, inactive=300)
    assert control_groups.memory_left(membership, groups) == 500
    group(groups / "pod" / "job", 900, 700)
    assert control_groups.memory_left(membership, groups) == 200


@pytest.mark.parametrize("text", ["", "0::/nowhere\n", "nonsense\n", "0::/../../..\n"])
def test_without_a_memory_control_group_there_is_no_limit(tmp_path, text):
    (tmp_path / "cgroup").write_text(text)
    assert control_groups.memory_left(tmp_path / "cgroup", tmp_path / "groups") == disk.NO_LIMIT
    assert control_groups.memory_left(tmp_path / "absent", tmp_path / "groups") == disk.NO_LIMIT


def test_the_least_of_all_limits_counts(monkeypatch):
    assert 0 < memory.available_memory() < disk.NO_LIMIT
    monkeypatch.setattr(memory, "memory_left", lambda: 1234)
    assert memory.available_memory() == 1234


def test_the_system_says_what_is_free_and_limits_of_the_container_count_on_top(monkeypatch):
    """Without /proc, as on macOS and Windows."""
    free = SimpleNamespace(total=8000, available=3000, free=100)
    monkeypatch.setattr(psutil, "virtual_memory", lambda: free)
    monkeypatch.setattr(memory, "memory_left", lambda: disk.NO_LIMIT)
    assert memory.available_memory() == 3000
    monkeypatch.setattr(memory, "memory_left", lambda: 2000)
    assert memory.available_memory() == 2000
    monkeypatch.setattr(memory, "memory_left", lambda: -5)
    assert memory.available_memory() == 0


def test_all_memory_counts_on_a_linux_without_proc(monkeypatch, tmp_path):
    monkeypatch.setattr(psutil, "PROCFS_PATH", str(tmp_path))
    pages = {"SC_PHYS_PAGES": 10, "SC_PAGE_SIZE": 4096}
    monkeypatch.setattr(memory.os, "sysconf", pages.get)
    monkeypatch.setattr(memory, "memory_left", lambda: disk.NO_LIMIT)
    assert memory.available_memory() == 40960


def files(folder, **contents):
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        (folder / name.replace("__", ".")).write_text(f"{content}\n")


def test_the_memory_of_a_container_of_version_1(tmp_path):
    """The container sees its own group as the root of the controller."""
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text("9:memory:/docker/1f2e\n4:cpu,cpuacct:/docker/1f2e\n0::/\n")
    files(
        groups / "memory",
        memory__limit_in_bytes=1000,
        memory__usage_in_bytes=700,
        memory__stat="cache 300\ninactive_file 1\ntotal_inactive_file 50",
    )
    assert control_groups.memory_left(membership, groups) == 350
    files(groups / "memory", memory__limit_in_bytes=2**63 - 4096)  # without a limit
    assert control_groups.memory_left(membership, groups) > 2**62


@pytest.mark.parametrize(
    ("lines", "folder", "contents", "expected"),
    [
        ("0::/", "", {"memory__max": 1000}, 1000),
        ("0::/", "", {"memory__max": 1000, "memory__current": 300}, 700),
        ("0::/", "", {"memory__max": 1000, "memory__current": 300, "memory__stat": "anon 5"}, 700),
        ("3:memory:/a", "memory", {"memory__limit_in_bytes": 1000}, 1000),
        ("3:hugetlb,memory:/a", "memory", {"memory__limit_in_bytes": 1000}, 1000),
    ],
)
def test_the_memory_left_by_a_control_group_is_its_limit_minus_its_use(
    tmp_path, lines, folder, contents, expected
):
    own_groups = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    own_groups.write_text(f"{lines}\n")
    files(groups / folder, **contents)
    assert control_groups.memory_left(own_groups, groups) == expected


QUOTA_1 = {"cpu__cfs_quota_us": 300000, "cpu__cfs_period_us": 100000}


@pytest.mark.parametrize(
    ("lines", "folder", "contents", "expected"),
    [
        ("0::/", "", {"cpu__max": "150000 100000"}, 1.5),
        ("0::/", "", {"cpu__max": "max 100000"}, np.inf),
        ("0::/pod/job", "pod", {"cpu__max": "50000 100000"}, 0.5),
        ("4:cpu,cpuacct:/docker/1f", "cpu,cpuacct", QUOTA_1, 3.0),
        ("4:cpu,cpuacct:/a/b", "cpu,cpuacct/a", QUOTA_1, 3.0),
        ("4:cpuacct,cpu:/docker/1f", "cpu", QUOTA_1, 3.0),
        ("4:cpu:/", "cpu", {"cpu__cfs_quota_us": -1, "cpu__cfs_period_us": 100000}, np.inf),
        ("0::/", "", {"cpu__max": "nonsense"}, np.inf),
        ("0::/", "", {"cpu__max": "1 0"}, np.inf),
    ],
)
def test_the_quota_of_processors_is_read_from_control_groups_of_both_versions(
    tmp_path, lines, folder, contents, expected
):
    membership = tmp_path / "cgroup"
    groups = tmp_path / "groups"
    membership.write_text(f"{lines}\n")
    files(groups / folder, **contents)
    assert control_groups.processors(membership, groups) == expected


@pytest.mark.parametrize(
    ("n_cores", "quota", "variables", "expected"),
    [
        (8, np.inf, {}, 8),
        (8, 2.5, {}, 3),
        (2, 6.0, {}, 2),
        (8, 0.1, {}, 1),
        (8, np.inf, {"OMP_NUM_THREADS": "4"}, 4),
        (8, np.inf, {"OMP_NUM_THREADS": "4,2"}, 4),
        (8, np.inf, {"OMP_NUM_THREADS": "6", "NUMBA_NUM_THREADS": "3"}, 3),
        (2, np.inf, {"OMP_NUM_THREADS": "16"}, 2),
        (8, np.inf, {"OMP_NUM_THREADS": "", "NUMBA_NUM_THREADS": "many"}, 8),
        (8, np.inf, {"OMP_NUM_THREADS": "0"}, 8),
    ],
)
def test_the_default_number_of_threads(monkeypatch, n_cores, quota, variables, expected):
    monkeypatch.setattr(cores.os, "sched_getaffinity", lambda process: set(range(n_cores)))
    monkeypatch.setattr(cores, "processors", lambda: quota)
    for name in cores.THREAD_VARIABLES:
        monkeypatch.delenv(name, raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert cores.usable_cores() == expected


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


def test_the_model_is_reported_and_checkpoints_if_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_disk", lambda folder: 10_000_000)
    notes = Notes()
    checkpoints_of(tmp_path / "out", notes).check_disk(1_000_000, 2_000_000)
    checkpoints_of(tmp_path / "out", notes, every=60.0).check_disk(1_000_000, 2_000_000)
    checkpoints_of(tmp_path / "out", notes, every=60.0).check_disk(1_000_000, 3_100_000)
    assert notes.notes == [
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB",
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 6.0 MB more",
        (
            "warning: disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 9.3 MB"
            " more, which do not fit"
        ),
    ]


def test_existing_checkpoints_need_no_more_disk(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_disk", lambda folder: 10_000_000)
    before = checkpoints_of(tmp_path / "out", Silent(), every=60.0)
    for _ in range(2):
        before.take(checkpoint.TrainState(), wait=True)
    locks.unlock(before.lock)
    notes = Notes()
    checkpoints_of(tmp_path / "out", notes, every=60.0, resume=True).check_disk(
        1_000_000, 2_000_000
    )
    assert notes.notes == [
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 2.0 MB more"
    ]


def train(corpus, folder, progress=SILENT, every=float("inf"), **options):
    config = configure("ns", {"threads": 1, "epochs": 1, **options})
    checkpoints = checkpoints_of(folder / "out", progress, every=every)
    trained = word_training.train(
        [str(corpus)],
        config,
        cache_dir=folder / "cache",
        progress=progress,
        checkpoints=checkpoints,
    )
    return trained, checkpoints


def test_a_run_without_room_is_refused_before_it_trains(two_topics, tmp_path, monkeypatch):
    monkeypatch.setattr(WordVectorsRun, "train", None)
    monkeypatch.setattr(disk, "free_disk", lambda folder: 1_000)
    with refused(None, "output", kind=DataError, file=tmp_path, line=None) as raised:
        train(two_topics, tmp_path)
    assert str(raised.value.problem).startswith("the disk has 1.0 kB free, but ")


@pytest.mark.parametrize(
    "options", [{}, {"subwords": "2-3", "buckets": 60}, {"heldout": 0.2, "bias": "frequency"}]
)
def test_the_reported_disk_need_is_the_size_written(two_topics, tmp_path, monkeypatch, options):
    sizes_shown = []
    monkeypatch.setattr(Checkpoints, "check_disk", lambda self, *sizes: sizes_shown.extend(sizes))
    trained, checkpoints = train(two_topics, tmp_path, dim=1000, **options)
    checkpoints.take(trained.outcome.state, wait=True)
    saved = trained.model.save(tmp_path / "model")
    (state,) = checkpoints.folder.glob("state-*")
    assert sizes_shown == [
        pytest.approx(sum(file.stat().st_size for file in saved.iterdir()), rel=0.05),
        pytest.approx(state.stat().st_size, rel=0.05),
    ]
    locks.unlock(checkpoints.lock)


def test_free_disk_of_a_new_folder_is_that_of_its_parent(tmp_path):
    assert abs(disk.free_disk(tmp_path / "not" / "there") - disk.free_disk(tmp_path)) < 1e9
    assert disk.free_disk(tmp_path) > 0

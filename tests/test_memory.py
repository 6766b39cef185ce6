"""What a run needs is told, true, and refused before anything is trained."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.errors import EmbedxError
from embedx.search.index import build_index
from embedx.search.index import memory as index_memory
from embedx.search.spec import SearchSpec
from embedx.skipgram import memory as words_memory
from embedx.training import memory
from embedx.training.progress import Silent


class Notes(Silent):
    """Keeps what it is told."""

    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def group(folder, **files):
    folder.mkdir(parents=True)
    for name, content in files.items():
        (folder / name.replace("_", ".", 1)).write_text(f"{content}\n")


def test_a_container_has_what_its_group_leaves(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    own.write_text("0::/pod/job\n")
    group(groups / "pod" / "job", memory_max="max", memory_current=700)
    (groups / "pod" / "memory.max").write_text("1000\n")
    (groups / "pod" / "memory.current").write_text("800\n")
    assert memory._in_group(own, groups) == 200
    (groups / "pod" / "memory.stat").write_text("anon 500\ninactive_file 300\n")
    assert memory._in_group(own, groups) == 500
    (groups / "pod" / "job" / "memory.max").write_text("900\n")
    assert memory._in_group(own, groups) == 200


def test_a_container_of_the_former_kind_too(tmp_path):
    own, groups = tmp_path / "cgroup", tmp_path / "groups"
    own.write_text("5:cpu:/other\n4:memory:/job\n0::/\n")
    folder = groups / "memory" / "job"
    folder.mkdir(parents=True)
    for name, value in ("limit", 1000), ("usage", 800):
        (folder / f"memory.{name}_in_bytes").write_text(f"{value}\n")
    (folder / "memory.stat").write_text("inactive_file 1\ntotal_inactive_file 50\n")
    assert memory._in_group(own, groups) == 250


@pytest.mark.parametrize("text", ["", "0::/nowhere\n", "nonsense\n", "0::/../../..\n"])
def test_without_such_groups_there_is_no_limit(tmp_path, text):
    (tmp_path / "cgroup").write_text(text)
    assert memory._in_group(tmp_path / "cgroup", tmp_path / "groups") == memory.NO_LIMIT
    assert memory._in_group(tmp_path / "absent", tmp_path / "groups") == memory.NO_LIMIT


def test_the_least_of_all_limits_counts(monkeypatch):
    resource = pytest.importorskip("resource")
    assert 0 < memory.available_memory() < memory.NO_LIMIT
    monkeypatch.setattr(resource, "getrlimit", lambda which: (10, 10))  # less than is in use
    assert memory.available_memory() == 0
    monkeypatch.setattr(memory, "_in_address_space", lambda: memory.NO_LIMIT)
    monkeypatch.setattr(memory, "_in_group", lambda: 1234)
    assert memory.available_memory() == 1234


def planned(monkeypatch, needs, *, available=3_000_000_000, program=0, peak=0, **how):
    monkeypatch.setattr(memory, "available_memory", lambda: available)
    monkeypatch.setattr(memory, "memory_in_use", lambda mapped=None: program)
    monkeypatch.setattr(memory, "most_memory_used", lambda: peak)
    return memory.plan_memory(needs, **how)


def test_what_is_needed_is_told_or_refused(monkeypatch):
    told = Notes()
    plan = planned(monkeypatch, {"vectors": 2.5e9, "threads": 1e5, "optimiser": 4e7}, program=300_000_000)
    plan.check("5 words", "lower --dim")
    plan.tell(told, kernels=100_000_000)
    assert told.notes == ["memory: 2.9 GB in all, of 3.4 GB: program 400.0 MB, vectors 2.5 GB, optimiser 40.0 MB"]
    plan = planned(monkeypatch, {"vectors": 3.0e9}, later={"saving": 1e8, "testing": 5e7})
    with pytest.raises(EmbedxError, match=r"^5 words need 3\.1 GB, more than the 3\.0 GB there are; lower --dim$"):
        plan.check("5 words", "lower --dim")


def test_what_is_not_needed_at_the_same_time_is_not_summed(monkeypatch):
    """To save and to test there is the memory that the copies took."""
    later = {"saving": 3e8, "testing": 7e8}
    plan = planned(monkeypatch, {"vectors": 1e9}, copy=4e8, later=later)
    assert sum(plan.parts().values()) == 1e9 + 7e8
    plan = planned(monkeypatch, {"vectors": 1e9}, copy=8e8, later=later)
    assert plan.parts() == {"program": 0, "vectors": 1e9, "a copy to go back to": 8e8}


def test_what_a_checkpoint_takes_is_told_apart(monkeypatch):
    """It takes it now and then, and in a short run never."""
    told = Notes()
    planned(monkeypatch, {"vectors": 1e9}, written=4e8).tell(told)
    assert told.notes == ["memory: 1.0 GB in all, of 3.0 GB: vectors 1.0 GB; 400.0 MB more while a checkpoint is written"]
    assert planned(monkeypatch, {"vectors": 1e9}, written=1.2e9).written == 0  # then training waits for it


def test_copies_are_left_out_where_memory_is_short(monkeypatch):
    plan = planned(monkeypatch, {"vectors": 1e9}, copy=1e9)
    assert plan.has_room
    assert plan.parts() == {"program": 0, "vectors": 1e9, "a copy to go back to": 1e9}
    plan = planned(monkeypatch, {"vectors": 2e9}, copy=6e8)
    assert not plan.has_room
    assert plan.parts() == {"program": 0, "vectors": 2e9}


def test_text_is_in_memory_as_far_as_there_is_room(monkeypatch, tmp_path):
    assert planned(monkeypatch, {"vectors": 1e9}, corpus=(tmp_path, 10**9)).parts()["encoded text"] == 1e9
    assert planned(monkeypatch, {"vectors": 1e9}, corpus=(tmp_path, 10**12)).parts()["encoded text"] == 2e9


def test_a_program_that_took_more_before_than_it_will_has_taken_it(monkeypatch):
    told = Notes()
    planned(monkeypatch, {"vectors": 1e9}, program=10**9, peak=2_500_000_000).tell(told)
    assert told.notes == ["memory: 2.5 GB in all, of 4.0 GB: program 1.0 GB, vectors 1.0 GB, while reading 500.0 MB"]


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell")
def test_what_the_process_has_is_what_the_system_says(tmp_path):
    size = 50_000_000
    before = memory.memory_in_use()
    kept: list[np.ndarray] = []
    taken = memory.memory_taken(lambda: kept.append(np.ones(size, np.uint8)))
    assert 0.9 * size < taken < 1.5 * size
    np.ones(size, np.uint8).tofile(tmp_path / "tokens.bin")
    mapped = np.memmap(tmp_path / "tokens.bin", np.uint8, "r")
    assert mapped.sum() == size
    there = memory.memory_in_use()
    assert 0.9 * size < there - memory.memory_in_use(tmp_path) < 1.1 * size
    assert memory.most_memory_used() >= there > before


TOLD = """
import sys
from embedx.cli.app import main
from embedx.training.memory import most_memory_used

sys.argv = ["embedx", *sys.argv[1:]]
try:
    main()
except SystemExit as end:
    print(end.code or 0, most_memory_used())
"""


@pytest.mark.skipif(not Path("/proc/self/smaps").exists(), reason="the system does not tell")
def test_what_is_told_is_what_the_system_shows(two_topics, tmp_path):
    """Nearly all of it is the program."""
    words = ["train", str(two_topics), "--dim", "20000", "--epochs", "1", "--threads", "1", "--output", str(tmp_path / "out")]
    setting = {
        **os.environ, "PYTHONPATH": str(Path(__file__).parent.parent),
        "EMBEDX_CACHE_DIR": os.environ.get("EMBEDX_CACHE_DIR", str(tmp_path)),
    }  # fmt: skip
    command = [sys.executable, "-c", TOLD, *words]
    done = subprocess.run(command, env=setting, capture_output=True, text=True, check=True)
    code, peak = map(int, done.stdout.splitlines()[-1].split())
    (told,) = re.findall(r"memory: ([\d.]+) MB in all", done.stderr)
    assert code == 0, done.stderr
    assert 1e6 * float(told) == pytest.approx(peak, rel=0.15)


def test_bytes_of_arrays_one_within_the_other():
    row = np.zeros(5, np.float32)
    assert memory.n_bytes([(row, [row[:2]]), {"a": row}, 7, None]) == 20 + 8 + 20
    assert memory.n_bytes(np.broadcast_to(row, (3, 5))) == 60  # as it would be written


def needed(corpus, monkeypatch, **options):
    """Bytes that training says that it needs."""
    found = {}

    def plan(needs, copy, *, written, later, corpus):
        assert copy == needs["vectors"] + needs["optimiser"] + needs["objective"]
        assert written == 0
        found.update({**needs, **later})
        return memory.Plan(0, 0, 1, {}, 0, False)

    monkeypatch.setattr(words_memory, "plan_memory", plan)
    with pytest.raises(EmbedxError) as raised:
        embedx.SkipGram(**{"dim": 64, "threads": 1, **options}).fit(corpus)
    monkeypatch.undo()
    return found, str(raised.value).partition("; ")[2]


def test_tables_optimiser_state_and_threads_are_counted(two_topics, monkeypatch):
    table = 16 * 64 * 4
    few, remedy = needed(two_topics, monkeypatch, objective="ns", optimizer="sgd")
    assert (few["vectors"], few["optimiser"]) == (2 * table, 0)
    assert remedy == "lower --threads or --window"  # of a vocabulary of 16 words
    adagrad, _ = needed(two_topics, monkeypatch, objective="ns", optimizer="adagrad", threads=3)
    assert adagrad["optimiser"] == 2 * table
    assert adagrad["3 threads"] == 3 * few["1 thread"]
    wide, _ = needed(two_topics, monkeypatch, objective="ns", window=100)
    assert wide["1 thread"] > 3 * few["1 thread"]
    state, remedy = needed(two_topics, monkeypatch, objective="ar", heldout=0.3, bias="none", dim=100_000)
    assert state["objective"] == 16 * (4 + 8)
    assert state["vectors"] == 2 * 16 * 100_000 * 4
    assert state["testing"] > 0
    found, _ = needed(two_topics, monkeypatch, objective="mips")
    assert found["search"] > 2 * table


def test_what_does_not_fit_is_refused_before_training(two_topics, monkeypatch):
    needs, _ = needed(two_topics, monkeypatch)
    needs.pop("testing")
    monkeypatch.setattr(memory, "available_memory", lambda: sum(needs.values()) - 1)
    with pytest.raises(EmbedxError, match=r"^16 words × 64 numbers need \d.*B, more than the \d.*B there are; lower "):
        embedx.SkipGram(dim=64, threads=1).fit(two_topics)
    monkeypatch.setattr(memory, "available_memory", lambda: sum(needs.values()))
    embedx.SkipGram(dim=64, threads=1, epochs=1).fit(two_topics)
    monkeypatch.undo()
    with pytest.raises(EmbedxError, match=r"^(two tables of )?16 words × 2147483647 numbers .*; lower .*--dim"):
        embedx.SkipGram(dim=2**31 - 1).fit(two_topics)


@pytest.mark.parametrize(("n_rows", "dim", "blocks", "clusters"), [(5000, 20, 1, 70), (3000, 101, 4, 200), (50, 8, 2, 7)])
def test_an_index_takes_what_is_counted_for_it(n_rows, dim, blocks, clusters):
    rng = np.random.default_rng(0)
    search = SearchSpec(*([0] * len(SearchSpec._fields)))._replace(blocks=blocks, clusters=clusters)
    table = rng.normal(size=(n_rows, -(-dim // 16) * 16)).astype(np.float32)
    index = build_index(table, n_rows, dim, search, rng)
    assert index_memory(n_rows, dim, search) == pytest.approx(memory.n_bytes(index), rel=0.15)

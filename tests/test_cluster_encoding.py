"""Sources read by the machines of a cluster become what one machine makes of them, whatever happens to the others."""

import contextlib
import errno
import gzip
import io
import json
import os
import random
import signal
import sys
from pathlib import Path

import pytest
from ray_cluster import ray_cluster  # noqa: F401 (a fixture)

from embedx import objectives
from embedx.distributed import read_corpus, words
from embedx.distributed.ray_backend import LostWorkerError, Size
from embedx.distributed.settings import ClusterSettings
from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.skipgram import task
from embedx.skipgram.settings import chosen
from embedx.text import cache, parts
from embedx.text.sources import resolve
from embedx.training.progress import Silent

N_FILES = 9


class Notes(Silent):
    """Keeps what it is told."""

    def __init__(self):
        self.notes, self.updates, self.total = [], [], None

    def start(self, title, total, unit, done=0.0):
        if title == "reading":
            self.total = total

    def update(self, done, **facts):
        self.updates.append((done, facts.get("tokens")))

    def note(self, message):
        self.notes.append(message)


class TasksHere:
    """Tasks of this process, which are over after a while."""

    lost: frozenset[str] = frozenset()  # files
    most = 0
    random = random.Random(0)

    def __init__(self, generate, threads):
        self.generate, self.running = generate, []

    def start(self, *arguments):
        self.running.append(arguments)
        TasksHere.most = max(TasksHere.most, len(self.running))
        return arguments

    def is_over(self, task, timeout=None):
        return timeout is None or self.random.random() < 0.5

    def items(self, task):
        self.running.remove(task)
        for item in self.generate(*task):
            yield item
            if Path(task[0][0].name).name in self.lost:
                raise LostWorkerError("no answer")

    def close(self):
        self.running = None


@pytest.fixture
def tasks_here(monkeypatch):
    monkeypatch.setattr(read_corpus, "Tasks", TasksHere)
    monkeypatch.setattr(read_corpus, "is_inside", lambda: True)
    monkeypatch.setattr(read_corpus, "LEAST_BYTES", 1)
    monkeypatch.setattr(parts, "BLOCK_TOKENS", 100)
    monkeypatch.setattr(TasksHere, "most", 0)
    return TasksHere


@pytest.fixture
def folder(tmp_path):
    """Files, each of which has words of its own, and says where."""
    (tmp_path / "text").mkdir()
    rng = random.Random(1)
    for number in range(N_FILES):
        text = "\n".join(
            " ".join(rng.choice(["a", "b", f"n{rng.randrange(40 * number + 9)}"]) for _ in range(9)) for _ in range(90)
        )
        (tmp_path / "text" / f"{number}.txt.gz").write_bytes(gzip.compress(text.encode() + b" bad\xff" * (number % 4 == 2)))
    return tmp_path / "text"


def files(home, sources, size=None, progress=cache.SILENT, **options):
    """The files of an encoded corpus, by name; read by tasks if there is a size."""

    def read(*arguments):
        return read_corpus.read_by_machines(*arguments, size, home, 1)

    with cache.encode(sources, TextSettings(**options), progress, home, threads=1, elsewhere=size and read) as corpus:
        if corpus.key:
            corpus.check()
        found = {file.name: file.read_bytes() for file in corpus.folder.iterdir() if file.name != "unfinished.txt"}
        names = sorted(each.name for each in home.iterdir() if each.is_dir())
    assert names == [corpus.folder.name]
    about = json.loads(found.pop("about.json"))
    del about["created"]
    return found | {"about": about}


def test_files_are_those_of_one_machine(tmp_path, folder, tasks_here):
    sources, told = resolve([str(folder)]), Notes()
    expected = files(tmp_path / "one", sources)
    for workers in (1, 3):
        assert files(tmp_path / f"{workers}", sources, Size(workers, 1), told) == expected
        assert tasks_here.most == min(2 * workers, N_FILES)
    assert told.notes[0] == "9 sources are read in 9 parts, by the machines of the cluster"
    assert "read by this machine" not in "".join(told.notes)
    assert told.total == told.updates[-1][0] == expected["about"]["report"]["bytes_read"]
    assert told.updates[-1][1] == expected["about"]["n_tokens"]


def test_a_corpus_of_the_cache_is_not_read(tmp_path, folder, tasks_here):
    sources, told = resolve([str(folder)]), Notes()
    expected = files(tmp_path / "home", sources)
    assert files(tmp_path / "home", sources, Size(2, 1), told) == expected
    assert told.updates == []


def test_a_few_small_sources_are_read_here(tmp_path, folder, monkeypatch):
    monkeypatch.setattr(read_corpus, "Tasks", None)
    sources = resolve([str(folder)])
    assert files(tmp_path / "parts", sources, Size(2, 1)) == files(tmp_path / "one", sources)


def test_who_is_connected_from_outside_reads_all(tmp_path, folder, tasks_here, monkeypatch):
    monkeypatch.setattr(read_corpus, "is_inside", lambda: False)
    monkeypatch.setattr(read_corpus, "Tasks", None)
    sources, told = resolve([str(folder)]), Notes()
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == files(tmp_path / "one", sources)
    assert told.notes[0] == "this machine is not one of the cluster, so it reads all sources itself"


def test_threads_and_much_text_make_parts_larger(tmp_path, folder, tasks_here, monkeypatch):
    sources = resolve([str(folder)])
    n_parts, divided = [], read_corpus.divided
    monkeypatch.setattr(
        read_corpus, "divided", lambda *arguments: n_parts.append(len(divided(*arguments))) or divided(*arguments)
    )
    monkeypatch.setattr(read_corpus, "LEAST_BYTES", 500)
    for size in (Size(1, 1), Size(1, 2), Size(1, 100)):
        files(tmp_path / f"{size.threads}", sources, size)
    assert 9 >= n_parts[0] > n_parts[1] >= n_parts[2]
    assert 1 < n_parts[2] <= read_corpus.PARTS_EACH


@pytest.mark.parametrize("found", [None, {"size": 3, "mtime_ns": 0, "path": ""}])
def test_what_another_machine_has_not_or_otherwise_is_read_here(tmp_path, folder, tasks_here, monkeypatch, found):
    sources, told = resolve([str(folder)]), Notes()
    expected = files(tmp_path / "one", sources)
    current = read_corpus.current_fingerprint
    here = {sources[2].address, sources[3].address}
    monkeypatch.setattr(read_corpus, "current_fingerprint", lambda source: found if source.address in here else current(source))
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == expected
    why = f"no file {sources[2].name}" if found is None else f"{sources[2].name} has another size or time than here"
    assert f"2 of 9 sources were read by this machine itself ({os.uname().nodename}: {why})" in told.notes


def test_a_path_may_lead_through_other_links(tmp_path, folder, tasks_here, monkeypatch):
    sources, told = resolve([str(folder)]), Notes()
    expected = files(tmp_path / "one", sources)
    current = read_corpus.current_fingerprint
    monkeypatch.setattr(read_corpus, "current_fingerprint", lambda source: current(source) | {"path": "/elsewhere"})
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == expected
    assert "read by this machine" not in "".join(told.notes)


def test_a_source_that_changes_while_a_machine_reads_it_is_read_again_here(tmp_path, folder, tasks_here, monkeypatch):
    sources, told = resolve([str(folder)]), Notes()
    encoded, times = read_corpus.encoded, []

    def touched(share, *arguments):
        items = encoded(share, *arguments)
        part = next(items)
        if share[0].name.endswith("4.txt.gz") and not times:
            times.append(os.stat(share[0].address).st_mtime_ns)
            os.utime(share[0].address, ns=(0, 0))
        yield part
        yield from items

    monkeypatch.setattr(read_corpus, "encoded", touched)
    with cache.encode(
        sources, TextSettings(), told, tmp_path / "home", threads=1,
        elsewhere=lambda *arguments: read_corpus.read_by_machines(*arguments, Size(2, 1), tmp_path / "home", 1),
    ) as corpus:  # fmt: skip
        assert corpus.key == ""  # nor can it be kept
    assert "1 of 9 sources were read by this machine itself" in "".join(told.notes)


def test_machines_of_another_version_read_nothing(tmp_path, folder, tasks_here, monkeypatch):
    sources, told = resolve([str(folder)]), Notes()
    versions = iter(range(10_000))
    monkeypatch.setattr(read_corpus, "identity", lambda: next(versions))
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == files(tmp_path / "one", sources)
    assert "9 of 9 sources were read by this machine itself" in "".join(told.notes)


def test_what_only_another_machine_cannot_do_is_done_here(tmp_path, folder, tasks_here):
    sources, told = resolve([str(folder)]), Notes()
    (tmp_path / "no folder").write_text("")

    def read(*arguments):
        return read_corpus.read_by_machines(*arguments, Size(2, 1), tmp_path / "no folder", 1)

    with cache.encode(sources, TextSettings(), told, tmp_path / "home", threads=1, elsewhere=read) as corpus:
        corpus.check()
    (said,) = [note for note in told.notes if "read by this machine" in note]
    assert said.startswith("9 of 9 sources were read by this machine itself (")
    assert "no folder: the token cache cannot be written (File exists)" in said


def test_a_part_that_is_lost_again_and_again_is_read_here(tmp_path, folder, tasks_here, monkeypatch):
    monkeypatch.setattr(tasks_here, "lost", frozenset(["0.txt.gz", "5.txt.gz"]))
    sources, told = resolve([str(folder)]), Notes()
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == files(tmp_path / "one", sources)
    assert "2 of 9 sources were read by this machine itself (the machine that read it is lost (no answer))" in told.notes


def test_standard_input_and_pipes_are_read_here(tmp_path, folder, tasks_here, monkeypatch):
    names = [str(folder / "0.txt.gz"), "-", str(folder / "1.txt.gz")]
    made = []
    for size in (None, Size(2, 1)):
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(b"words from elsewhere n3")))
        told = Notes()
        made.append(files(tmp_path / f"{size}", resolve(names), size, told))
    assert made[0] == made[1]
    assert "1 of 3 sources were read by this machine itself (-: no other machine has it)" in told.notes


def test_training_has_the_machines_read(monkeypatch):
    def encode(*arguments, elsewhere, **options):
        raise EmbedxError(f"read by {'machines' if elsewhere else 'one'}")

    settings, objective = chosen(objectives.find("ns"), {})
    monkeypatch.setattr(task, "encode", encode)
    monkeypatch.setattr(words, "connected", lambda *arguments: contextlib.nullcontext(Size(2, 1)))
    with pytest.raises(EmbedxError, match="read by machines"):
        words.train("corpus.txt", objective, settings, ClusterSettings(cluster="auto"))
    with pytest.raises(EmbedxError, match="read by one"):
        task.train("corpus.txt", objective, settings)


def test_relative_paths_are_found_from_any_directory(tmp_path, folder, tasks_here, monkeypatch):
    monkeypatch.chdir(folder)
    sources, told = resolve(["*.gz"]), Notes()
    expected = files(tmp_path / "one", sources)
    monkeypatch.setattr(read_corpus, "encoded_there", elsewhere(read_corpus.encoded_there, tmp_path))
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == expected
    assert "read by this machine" not in "".join(told.notes)
    assert expected["about"]["report"]["sources"][0]["name"] == "0.txt.gz"


def elsewhere(generate, directory):
    """The generator, in another current directory as far as it is at work."""

    def generate_there(*arguments):
        here = os.getcwd()
        os.chdir(directory)
        try:
            found = list(generate(*arguments))
        finally:
            os.chdir(here)
        yield from found

    return generate_there


def test_what_is_wrong_is_told_as_on_one_machine(tmp_path, folder, tasks_here):
    (folder / "3.txt.gz").write_bytes(gzip.compress(os.urandom(999).hex().encode())[:-9])
    for options in ({}, {"on_bad_utf8": "error"}):
        told = []
        for size in (None, Size(2, 1)):
            with pytest.raises(EmbedxError) as error:
                files(tmp_path / "home", resolve([str(folder)]), size, **options)
            told.append(str(error.value))
            assert list((tmp_path / "home").iterdir()) == []
        assert told[0] == told[1]


def test_a_full_disk_is_told_with_a_remedy(tmp_path, folder, tasks_here, monkeypatch):
    def keep(items, path):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(read_corpus, "keep", keep)
    with pytest.raises(EmbedxError, match=r"cannot be written \(No space left on device\); .*--cache-dir"):
        files(tmp_path / "home", resolve([str(folder)]), Size(2, 1))
    assert list((tmp_path / "home").iterdir()) == []


# ---- with Ray


def mortal(sources, settings, home, threads, wanted):
    """As `encoded_there`, in a process that dies the first time, or whenever it reads a certain file."""
    name = Path(sources[0].name).name
    if name == "3.txt.gz" or (name == "1.txt.gz" and not (home / "died").exists()):
        (home / "died").write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    yield from read_corpus.encoded_there(sources, settings, home, threads, wanted)


def test_by_tasks_of_ray_of_which_some_are_killed(tmp_path, folder, ray_cluster, monkeypatch):  # noqa: F811
    monkeypatch.setattr(read_corpus, "LEAST_BYTES", 1)
    sources, told = resolve([str(folder)]), Notes()
    expected = files(tmp_path / "one", sources)
    assert files(tmp_path / "parts", sources, Size(2, 1), told) == expected
    assert "read by this machine" not in "".join(told.notes)
    ray_cluster.cloudpickle.register_pickle_by_value(sys.modules[__name__])  # tasks cannot import it
    (tmp_path / "mortal").mkdir()
    monkeypatch.setattr(read_corpus, "encoded_there", mortal)
    assert files(tmp_path / "mortal", sources, Size(2, 1), told) == expected
    assert "1 of 9 sources were read by this machine itself (the machine that read it is lost" in "".join(told.notes)
    monkeypatch.undo()
    (folder / "8.txt.gz").write_bytes(gzip.compress(b"some text" * 999)[:-9])
    with pytest.raises(EmbedxError, match=r"8\.txt\.gz: ends too early"):
        files(tmp_path / "parts", resolve([str(folder)]), Size(2, 1))

"""A run that is killed at any moment, and resumed, ends with the bytes of one that never stopped;
or in one clear line.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.cli import training
from embedx.errors import DataError, DivergedError, EmbedxError
from embedx.runtime.progress import Silent
from embedx.storage.rescue import RescuedError, save_or_rescue
from embedx.training import checkpoint, checkpoint_folder, run_command, state_file, trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support import forked
from tests.support.checkpoints import (
    ENDED,
    a_state,
    arrays_of,
    checkpoints_of,
    end_at_a_checkpoint,
    left_behind,
)
from tests.support.forked import embedx_run, environment
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data

RUNS = {
    "train": "train CORPUS --dim 8 --epochs 40",
    "train-rows-found": "train CORPUS --objective ldgs --dim 8 --epochs 20",
    "train-collapsed": "train CORPUS --objective softmax --collapsed --dim 64 --epochs 100",
    "classify": "classify digits --epochs 30 --validation 0.2 --set patience=1000",
}
# What is made before these train, of the text or of another model, is made anew when they go on.
FILE_WRITTEN = {
    "train-subwords": "ngram.npy",
    "train-phrases": "phrases1.tsv",
    "train-start": "input.npy",
}
PREPARED = {
    "train-subwords": "train CORPUS --subwords 2-4 --set buckets=50 --dim 8 --epochs 20",
    "train-start": "train CORPUS --start train --dim 8 --epochs 30",
    "train-phrases": (
        "train CORPUS --phrases 2 --phrase-threshold 0.0001 --set phrase-min-count=250 --dim 8"
        " --epochs 30"
    ),
}


def same(ours, theirs):
    """Assert that two values are equal in all their parts, types included."""
    assert type(ours) is type(theirs)
    if isinstance(ours, np.ndarray):
        assert ours.dtype == theirs.dtype
        np.testing.assert_array_equal(ours, theirs)
    elif isinstance(ours, dict):
        assert ours.keys() == theirs.keys()
        for name in ours:
            same(ours[name], theirs[name])
    elif isinstance(ours, list | tuple):
        assert len(ours) == len(theirs)
        for our, their in zip(ours, theirs, strict=True):
            same(our, their)
    else:
        assert ours == theirs


# ---- values on disk


def test_a_state_is_restored_from_the_last_checkpoint(tmp_path):
    state, kept = a_state()
    writing = checkpoints_of(tmp_path / "out")
    writing.take(state)
    kept["array"] += 1
    kept["number"] = 0.2
    writing.take(state)
    writing.finish()
    now = state.snapshot()
    checkpoint.locks.unlock(writing.lock)
    other, theirs = a_state(place=1)
    notes = Notes()
    reading = checkpoints_of(tmp_path / "out", notes, resume=True)
    assert reading.is_resuming
    reading.restore(other)
    same(theirs, now)
    assert any("resumed from" in note for note in notes.notes)


def test_an_interrupt_while_a_checkpoint_begins_leaves_it_whole(tmp_path, monkeypatch):
    class InterruptedThread(threading.Thread):
        def start(self):
            signal.raise_signal(signal.SIGINT)
            super().start()

    monkeypatch.setattr(checkpoint.threading, "Thread", InterruptedThread)
    writing = checkpoints_of(tmp_path / "out")
    with pytest.raises(KeyboardInterrupt):
        writing.take(a_state()[0])
    writing.finish()
    checkpoint.locks.unlock(writing.lock)
    assert len(writing.states()) == 1


def test_two_checkpoints_are_kept_and_a_damaged_one_costs_an_interval(tmp_path):
    state, kept = a_state()
    writing = checkpoints_of(tmp_path / "out")
    for number in range(4):
        kept["number"] = number
        writing.take(state)
    writing.finish()
    checkpoint.locks.unlock(writing.lock)
    files = sorted(writing.folder.glob("state-*.npz"))
    assert [file.name for file in files] == ["state-00000003.npz", "state-00000004.npz"]
    content = bytearray(files[-1].read_bytes())
    content[len(content) // 2] ^= 0xFF
    files[-1].write_bytes(content)
    notes = Notes()
    checkpoints_of(tmp_path / "out", notes, resume=True).restore(state)
    assert kept["number"] == 2
    assert any("damaged" in note for note in notes.notes)


def test_without_a_readable_checkpoint_nothing_is_resumed(tmp_path):
    state, _ = a_state()
    writing = checkpoints_of(tmp_path / "out")
    writing.take(state, wait=True)
    checkpoint.locks.unlock(writing.lock)
    (file,) = writing.folder.glob("state-*.npz")
    file.write_bytes(file.read_bytes()[:100])
    with refused(None, "overwrite", kind=DataError, file=file):
        checkpoints_of(tmp_path / "out", resume=True).restore(state)


@pytest.mark.parametrize("left", [[], ["run.partial"]])
def test_a_run_killed_before_it_wrote_its_description_starts_again(left, tmp_path):
    folder = checkpoint_folder.folder_of(tmp_path / "out")
    folder.mkdir()
    for name in left:
        (folder / name).write_text("{")
    writing = checkpoints_of(tmp_path / "out", resume=True)
    assert not writing.is_resuming
    writing.take(a_state()[0], wait=True)
    assert sorted(file.name for file in folder.iterdir()) == ["run.json", "state-00000001.npz"]
    writing.close(tmp_path / "out", is_over=True)
    assert not folder.exists()


def test_a_run_killed_while_it_deletes_its_states_is_still_known(tmp_path, monkeypatch):
    writing = checkpoints_of(tmp_path / "out")
    for _ in range(2):
        writing.take(a_state()[0], wait=True)
    deleted = []
    delete = Path.unlink
    monkeypatch.setattr(
        Path, "unlink", lambda path, **options: (deleted.append(path.name), delete(path, **options))
    )
    writing.remove()
    assert deleted[-1] == "run.json"
    assert sorted(deleted[:-1]) == ["state-00000001.npz", "state-00000002.npz"]


# ---- which run they are of


def test_a_new_run_does_not_overwrite_the_state_of_another(tmp_path):
    left_behind(tmp_path / "out")
    with refused(None, "resume", "overwrite", kind=DataError, file=tmp_path / "out.checkpoint"):
        checkpoints_of(tmp_path / "out")
    assert not checkpoints_of(tmp_path / "out", overwrite=True).is_resuming


def test_a_run_resumes_only_with_the_same_arguments_and_data(tmp_path):
    state = left_behind(tmp_path / "out", {"corpus": [1, 2]}, settings={"dim": 8})
    with refused(None, "dim", "resume", kind=DataError):
        checkpoints_of(tmp_path / "out", resume=True, settings={"dim": 9})
    with refused(None, "corpora", "resume", kind=DataError):
        checkpoints_of(tmp_path / "out", resume=True, settings={"dim": 8}, corpora=["b.txt"])
    same_run = checkpoints_of(tmp_path / "out", resume=True, settings={"dim": 8}, log_json="log")
    same_run.begin(lambda: {"corpus": [1, 3]})
    with refused_data("state-00000001.npz", "overwrite"):
        same_run.restore(state)


def test_a_run_of_another_version_is_refused(tmp_path):
    left_behind(tmp_path / "out")
    file = tmp_path / "out.checkpoint" / "run.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), "embedx": "0.0.1"}))
    with refused(None, "overwrite", kind=DataError, file=file) as raised:
        checkpoints_of(tmp_path / "out", resume=True)
    assert "0.0.1" in raised.value.problem
    file.write_text("{")
    with refused(None, "overwrite", kind=DataError, file=file):
        checkpoints_of(tmp_path / "out", resume=True)


def test_the_checkpoints_of_a_running_run_are_not_touched(tmp_path):
    writing = checkpoints_of(tmp_path / "out")
    late = checkpoints_of(tmp_path / "out")
    with writing.at_work():
        for overwrite in (False, True):
            with refused(None, "output", kind=DataError, file=tmp_path / "out"):
                checkpoints_of(tmp_path / "out", overwrite=overwrite)
        in_use = refused(None, "output", kind=DataError, file=tmp_path / "out")
        with in_use, late.at_work():
            pass
        with refused(None, "output", kind=DataError, file=tmp_path / "out"):
            embedx.train([["a", "b"]], output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with late.at_work():
        late.take(a_state()[0], wait=True)
    assert late.states()


def test_a_run_refused_at_its_start_leaves_no_folder(tmp_path):
    waiting = checkpoints_of(tmp_path / "new" / "folder" / "out")
    with pytest.raises(ValueError, match="no data"), waiting.at_work():
        raise ValueError("no data")
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_run_is_kept_until_the_data_of_its_successor_are_read(tmp_path):
    left_behind(tmp_path / "out")
    again = checkpoints_of(tmp_path / "out", overwrite=True)
    with pytest.raises(ValueError, match="no data"), again.at_work():
        raise ValueError("no data")
    assert again.states()
    with again.at_work():
        again.begin(dict)
        assert not again.states()
    assert list(tmp_path.iterdir()) == []


def test_files_that_embedx_did_not_write_are_kept(tmp_path):
    folder = tmp_path / "out.checkpoint"
    folder.mkdir()
    (folder / "mine").write_text("dear")
    with refused(None, "output", kind=DataError, file=folder):
        checkpoints_of(tmp_path / "out", overwrite=True)
    left_behind(tmp_path / "other")
    (tmp_path / "other.checkpoint" / "mine").write_text("dear")
    checkpoints_of(tmp_path / "other", overwrite=True).begin(dict)
    assert [file.name for file in (tmp_path / "other.checkpoint").iterdir()] == ["mine"]
    assert (folder / "mine").exists()


def test_resuming_without_a_run_is_an_error_of_one_line(tmp_path):
    with refused(kind=DataError, file=tmp_path / "out"):
        run_command.read_command(tmp_path / "out")


def test_a_run_that_diverged_leaves_nothing(tmp_path):
    writing = checkpoints_of(tmp_path / "out")

    def diverge():
        with writing.at_work():
            writing.take(a_state()[0], wait=True)
            raise DivergedError("the loss")

    with pytest.raises(DivergedError):
        diverge()
    assert not writing.folder.exists()


# ---- the trainer's part


class Counting(Strategy):
    """Adds one to a place for each chunk; what a checkpoint sees are whole chunks."""

    n_chunks = 50

    def __init__(self, threads):
        self.workers = list(range(threads))
        self.done = np.zeros(self.n_chunks * 4, dtype=np.int64)

    def compile(self, progress):
        pass

    def train_chunk(self, worker, epoch, chunk, rate):
        self.done[epoch * self.n_chunks + chunk] += 1
        time.sleep(0.001)
        return Tally(1.0, 1, 1)

    def state(self):
        state = TrainState()
        state.add_array("done", self.done)
        return state


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("tells", [True, False])
def test_checkpoints_are_written_while_training_continues(tmp_path, threads, tells):
    progress_and_steps, epochs = [], []

    class Watching(Checkpoints):
        def take(self, state, wait=False):
            values = state.snapshot()
            progress_and_steps.append((int(values["done"].sum()), values["trainer.next_step"]))
            super().take(state, wait)

    strategy = Counting(threads)
    schedule = Schedule(0.1, n_chunks=50, n_words=50, epochs=4)
    checkpoints = checkpoints_of(tmp_path / "out", every=0.01, kind=Watching)
    outcome = trainer.run(
        strategy,
        schedule,
        Silent(),
        (lambda epoch, tally, s: epochs.append((epoch, tally.words)) or False) if tells else None,
        checkpoints=checkpoints,
    )
    assert (strategy.done == 1).all()
    assert outcome.tally.words == 200
    assert progress_and_steps
    assert all(trained == taken for trained, taken in progress_and_steps)
    assert epochs == ([(epoch, 50) for epoch in range(4)] if tells else [])
    checkpoints.remove()
    assert not checkpoints.folder.exists()


# ---- the commands, killed


def command_of(run, corpus, output):
    words = [str(corpus) if word == "CORPUS" else word for word in (RUNS | PREPARED)[run].split()]
    return [*words, "--threads", "1", "--output", output]


@pytest.fixture(scope="module")
def uninterrupted(home, two_topics):
    """The models of runs that were left alone."""
    files = {}

    def model(run):
        if run not in files:
            embedx_run(home, *command_of(run, two_topics, run))
            assert not (home / f"{run}.checkpoint").exists()
            files[run] = arrays_of(home / run)
        return files[run]

    return model


def newest(folder):
    return max((int(file.stem[-8:]) for file in folder.glob("state-*.npz")), default=0)


@pytest.mark.parametrize("run", RUNS)
def test_a_killed_run_resumes_to_the_very_model(run, home, two_topics, uninterrupted):
    output = f"killed-{run}"
    command = command_of(run, two_topics, output)
    for attempt, moment in (
        (command, "after"),
        ([*command, "--resume"], "before"),
        ([*command, "--resume"], "after"),
    ):
        code, log = end_at_a_checkpoint(attempt, home, signal.SIGKILL, moment)
        assert code == -signal.SIGKILL, log
        assert not (home / output).exists()
    assert newest(home / f"{output}.checkpoint") == 2
    completed = embedx_run(home, "resume", output)
    assert "resumed from" in completed.stderr
    assert completed.stdout.startswith(str(home / output))
    assert arrays_of(home / output) == uninterrupted(run)
    assert not (home / f"{output}.checkpoint").exists()


@pytest.mark.parametrize("run", PREPARED)
def test_a_killed_run_resumes_with_the_arrays_fitted_before_training(
    run, home, two_topics, uninterrupted
):
    uninterrupted("train")  # the model that one of them starts from
    output = f"killed-{run}"
    code, log = end_at_a_checkpoint(command_of(run, two_topics, output), home, signal.SIGKILL)
    assert code == -signal.SIGKILL, log
    completed = embedx_run(home, "resume", output)
    assert "resumed from" in completed.stderr
    assert arrays_of(home / output) == uninterrupted(run)
    assert uninterrupted(run)[FILE_WRITTEN[run]]


STOPPED = [(signal.SIGINT, 130), (signal.SIGTERM, 143)]
if hasattr(signal, "SIGHUP"):
    STOPPED.append((signal.SIGHUP, 129))


@pytest.mark.parametrize(("sent", "code"), STOPPED)
def test_an_interrupted_run_leaves_a_model_and_its_state(
    sent, code, home, two_topics, uninterrupted
):
    output = f"stopped-{code}"
    command = command_of("train", two_topics, output)
    ended, log = end_at_a_checkpoint(command, home, sent)
    assert ended == code
    assert f"embedx resume {home / output}" in log
    assert json.loads((home / output / "model.json").read_text())["facts"]["interrupted"]
    again = embedx_run(home, *command, check=False)
    assert again.returncode == 2
    assert "--resume" in again.stderr.splitlines()[-1]
    embedx_run(home, *command, "--resume")
    assert arrays_of(home / output) == uninterrupted("train")
    assert not json.loads((home / output / "model.json").read_text())["facts"]["interrupted"]


@pytest.mark.skipif(not hasattr(signal, "SIGHUP"), reason="the system has no such signal")
def test_a_signal_that_is_ignored_from_the_start_stays_ignored(home, two_topics, uninterrupted):
    """As `nohup` does with SIGHUP."""
    words = [str(int(signal.SIGHUP)), "after", *command_of("train", two_topics, "nohup")]
    code = f"import signal\nsignal.signal(signal.SIGHUP, signal.SIG_IGN)\n{ENDED}"
    embedx = forked.run(
        *words, "--checkpoint-every", "0.01s", cwd=home, env=environment(home), code=code
    )
    assert embedx.returncode == 0
    assert arrays_of(home / "nohup") == uninterrupted("train")


def test_a_corpus_that_changed_is_refused(home, two_topics, tmp_path):
    corpus = tmp_path / "corpus.txt"
    corpus.write_text(two_topics.read_text())
    command = command_of("train", corpus, "changed")
    end_at_a_checkpoint(command, home, signal.SIGKILL)
    corpus.write_text(two_topics.read_text() + "and one more line\n")
    completed = embedx_run(home, "resume", "changed", check=False)
    assert completed.returncode == 2
    assert "corpus changed since" in completed.stderr.splitlines()[-1]
    assert newest(home / "changed.checkpoint") > 0


FULL = """
import resource, sys
from embedx.cli.app import main
from embedx.training import checkpoint

write = checkpoint.Checkpoints._write

def write_once(*arguments):
    write(*arguments)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))  # as on a file system that is full now

checkpoint.Checkpoints._write = write_once
sys.argv = ["embedx", *sys.argv[1:]]
main()
"""


def test_on_a_file_system_that_fills_up_the_last_checkpoint_is_left(
    home, two_topics, uninterrupted, tmp_path
):
    pytest.importorskip("resource")
    words = [*command_of("train", two_topics, "full"), "--checkpoint-every", "0.01s"]
    setting = environment(home) | {"TMPDIR": str(tmp_path), "PYTHONPATH": str(forked.ROOT)}
    completed = subprocess.run(  # whose streams are no files
        [sys.executable, "-c", FULL, *words],
        cwd=home,
        env=setting,
        capture_output=True,
        text=True,
        check=False,
    )
    assert completed.returncode == 2
    assert lines_with(completed.stderr, "warning: ", "full.checkpoint", "File too large")
    last = completed.stderr.splitlines()[-1]
    assert last.startswith(f"embedx: {home / 'full'}: ")
    assert "File too large" in last
    assert f"{tmp_path} (File too large), " in last
    assert "`embedx resume full`" in last
    assert sorted(file.name for file in home.glob("full*")) == ["full.checkpoint"]
    assert sorted(file.name for file in (home / "full.checkpoint").iterdir()) == [
        "run.json",
        "state-00000001.npz",
    ]
    assert not list(tmp_path.iterdir())
    embedx_run(home, "resume", "full")
    assert arrays_of(home / "full") == uninterrupted("train")


def test_a_model_that_cannot_be_written_is_saved_among_the_temporary_files(tmp_path, monkeypatch):
    folder = tmp_path / "full" / "model"
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def save(place):
        if place == folder:
            raise DataError(place, None, "No space left on device")
        place.mkdir()
        return place

    with refused(kind=RescuedError, quoting=(str(folder), "No space left on device")) as raised:
        save_or_rescue(save, folder)
    (instead,) = tmp_path.glob("embedx-*/model")
    assert f" {instead} " in str(raised.value)


@pytest.mark.parametrize(
    ("error", "why"),
    [(OSError(28, "No space left on device"), "No space left"), (ValueError("odd"), "ValueError")],
)
def test_a_model_that_cannot_be_written_for_any_reason_is_saved_elsewhere(
    error, why, tmp_path, monkeypatch
):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def save(place):
        if place.parent == Path("full"):
            raise error
        place.mkdir()
        return place

    with refused(kind=RescuedError, quoting=(why, f" {tmp_path}/")):
        save_or_rescue(save, Path("full") / ("v" * 238))
    assert len(list(tmp_path.glob("embedx-*/*"))) == 1


def test_a_model_that_can_be_saved_nowhere_names_what_was_tried_and_how_to_resume(
    tmp_path, monkeypatch
):
    left_behind(tmp_path / "out")
    left = checkpoints_of(tmp_path / "out", resume=True)
    left.take(a_state()[0], wait=True)

    def save(place):
        raise RuntimeError("never")

    def no_folder():
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "gettempdir", no_folder)
    with pytest.raises(EmbedxError) as raised:
        save_or_rescue(save, tmp_path / "out", left.how_to_resume)
    message = str(raised.value)
    assert "RuntimeError (never)" in message
    assert "/var/tmp (" in message
    assert "; rm " in message
    assert f"`embedx resume {tmp_path / 'out'}`" in message
    assert len(left.states()) == 2
    assert not [path for path in Path("/var/tmp").glob("embedx-*") if not any(path.iterdir())]


def test_checkpoints_are_pruned_though_one_cannot_be_written(tmp_path, monkeypatch):
    writing = checkpoints_of(tmp_path / "out", Notes())
    for _ in range(2):
        writing.take(a_state()[0], wait=True)
    for number in (7, 8, 9):
        (writing.folder / f"state-{number:08}.npz").write_bytes(b"")

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(state_file.atomic, "sync", full)
    writing.take(a_state()[0], wait=True)
    assert len(writing.states()) == checkpoint.KEPT_STATES
    assert "No space left on device" in writing.progress.notes[-1]


@pytest.mark.parametrize(
    ("change", "quoted"),
    [
        ({"command": "compare"}, "compare"),
        ({"arguments": {"corpora": ["a"], "nonsense": 1}}, "nonsense"),
        ({"arguments": {"corpora": "a"}}, "corpora is 'a'"),
        ({"arguments": {}}, "corpora"),
        ({"arguments": {"corpora": ["a"], "quiet": "x"}}, "quiet is 'x'"),
        ({"arguments": {"corpora": ["a"], "settings": {"dimm": 3}}}, "dimm"),
        ({"arguments": {"corpora": ["a"], "settings": {"dim": "3"}}}, "dim='3'"),
        ({"arguments": {"corpora": ["a"], "settings": []}}, "settings is []"),
        ({"directory": "/nowhere/at/all"}, "/nowhere/at/all"),
    ],
)
def test_a_description_of_a_run_is_checked_before_anything_is_done(
    change, quoted, workdir, monkeypatch
):
    left_behind(workdir / "out")
    file = workdir / "out.checkpoint" / "run.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | change))
    with refused_data(str(file), quoting=quoted):
        training.resume(Path("out"))


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="there are no permissions of this kind")
def test_a_cluster_run_is_not_resumed_from_files_that_others_can_write(workdir):
    left_behind(workdir / "out", settings={"cluster": "ray://evil:10001"})
    file = workdir / "out.checkpoint" / "run.json"
    file.chmod(0o666)
    with refused(kind=DataError, file=file):
        training.resume(Path("out"))
    file.chmod(0o644)
    file.parent.chmod(0o777)
    with refused(kind=DataError, file=file.parent):
        training.resume(Path("out"))


def test_a_checkpoint_that_was_moved_resumes_where_it_is(workdir, monkeypatch):
    left_behind(workdir / "out")
    (workdir / "new").mkdir()
    (workdir / "out.checkpoint").rename(workdir / "new" / "out.checkpoint")
    called = []
    monkeypatch.setattr("embedx.cli.training_runs.train_and_print", called.append)
    training.resume(Path("new/out.checkpoint"))
    assert called[0].output == workdir / "new" / "out"
    assert called[0].resume


@pytest.mark.parametrize("name", ["/", "loop"])
def test_invalid_names_of_an_output_get_one_line(name, workdir):
    os.symlink("loop", workdir / "loop")
    with pytest.raises(DataError):
        training.resume(Path(name))
    with pytest.raises(DataError):
        embedx.train([["a", "b"]], output=name)


def test_undecodable_file_names_of_a_run_are_restored_exactly(workdir):
    name = os.fsdecode(b"caf\xe9")
    left_behind(workdir / name, corpora=[name])
    arguments = run_command.read_command(workdir / name).arguments
    assert [os.fsencode(argument) for argument in arguments["corpora"]] == [b"caf\xe9"]
    json.loads((workdir / f"{name}.checkpoint" / "run.json").read_bytes().decode("utf-8"))


@pytest.mark.parametrize(("encoding", "name"), [("ascii", "caf\udcc3\udca9"), ("utf-8", "café")])
@pytest.mark.parametrize("written", ["café", "caf\udcc3\udca9"])
def test_file_names_of_a_run_are_encoded_by_the_locale_that_resumes(
    tmp_path, monkeypatch, encoding, name, written
):
    folder = checkpoint_folder.folder_of(tmp_path / "model")
    folder.mkdir()
    run = {
        "command": "train",
        "arguments": {"corpora": [written]},
        "packages": {},
        "directory": "/",
    }
    run["embedx"] = run_command.description.installed_version()
    (folder / checkpoint_folder.RUN).write_text(json.dumps(run))
    monkeypatch.setattr(os, "fsdecode", lambda raw: raw.decode(encoding, "surrogateescape"))
    assert run_command.read_command(tmp_path / "model").arguments == {"corpora": [name]}

"""Checkpoints: states on disk, the run that they belong to, and writing during training."""

import json
import signal
import threading
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.errors import DataError, DivergedError
from embedx.runtime.progress import Silent
from embedx.training import checkpoint, checkpoint_folder, run_command, state_file, trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from tests.support.checkpoints import (
    a_state,
    checkpoints_of,
    left_behind,
)
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data


def same(value, expected):
    """Assert that two values are equal in all their parts, types included."""
    assert type(value) is type(expected)
    if isinstance(value, np.ndarray):
        assert value.dtype == expected.dtype
        np.testing.assert_array_equal(value, expected)
    elif isinstance(value, dict):
        assert value.keys() == expected.keys()
        for name in value:
            same(value[name], expected[name])
    elif isinstance(value, list | tuple):
        assert len(value) == len(expected)
        for our, their in zip(value, expected, strict=True):
            same(our, their)
    else:
        assert value == expected


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


# ---- the run that a checkpoint belongs to


def test_a_new_run_does_not_overwrite_the_state_of_another(tmp_path):
    left_behind(tmp_path / "out")
    with refused(None, "resume", "overwrite", kind=DataError, file=tmp_path / "out.checkpoint"):
        checkpoints_of(tmp_path / "out")
    assert not checkpoints_of(tmp_path / "out", overwrite=True).is_resuming


def test_a_run_resumes_only_with_the_same_arguments_and_data(tmp_path):
    state = left_behind(tmp_path / "out", {"corpus": [1, 2]}, options={"dim": 8})
    with refused(None, "dim", "resume", kind=DataError):
        checkpoints_of(tmp_path / "out", resume=True, options={"dim": 9})
    with refused(None, "corpora", "resume", kind=DataError):
        checkpoints_of(tmp_path / "out", resume=True, options={"dim": 8}, corpora=["b.txt"])
    same_run = checkpoints_of(tmp_path / "out", resume=True, options={"dim": 8}, log_json="log")
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
    with writing.locked():
        for overwrite in (False, True):
            with refused(None, "output", kind=DataError, file=tmp_path / "out"):
                checkpoints_of(tmp_path / "out", overwrite=overwrite)
        in_use = refused(None, "output", kind=DataError, file=tmp_path / "out")
        with in_use, late.locked():
            pass
        with refused(None, "output", kind=DataError, file=tmp_path / "out"):
            embedx.train([["a", "b"]], output=tmp_path / "out")
    assert list(tmp_path.iterdir()) == []
    with late.locked():
        late.take(a_state()[0], wait=True)
    assert late.states()


def test_a_run_refused_at_its_start_leaves_no_folder(tmp_path):
    waiting = checkpoints_of(tmp_path / "new" / "folder" / "out")
    with pytest.raises(ValueError, match="no data"), waiting.locked():
        raise ValueError("no data")
    assert list(tmp_path.iterdir()) == []


def test_the_state_of_a_run_is_kept_until_the_data_of_its_successor_are_read(tmp_path):
    left_behind(tmp_path / "out")
    again = checkpoints_of(tmp_path / "out", overwrite=True)
    with pytest.raises(ValueError, match="no data"), again.locked():
        raise ValueError("no data")
    assert again.states()
    with again.locked():
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
        with writing.locked():
            writing.take(a_state()[0], wait=True)
            raise DivergedError("the loss")

    with pytest.raises(DivergedError):
        diverge()
    assert not writing.folder.exists()


# ---- during training


class Counting(Strategy):
    """Adds one to a place for each chunk; what a checkpoint sees are whole chunks.

    Chunks after the first N_FREE wait until a checkpoint is wanted.
    """

    N_FREE = 20
    n_chunks = 50

    def __init__(self, threads, is_checkpoint_wanted):
        self.workers = list(range(threads))
        self.is_checkpoint_wanted = is_checkpoint_wanted
        self.done = np.zeros(self.n_chunks * 4, dtype=np.int64)

    def compile(self, progress):
        pass

    def train_chunk(self, worker, epoch, chunk, rate):
        self.done[epoch * self.n_chunks + chunk] += 1
        if self.done.sum() >= self.N_FREE:
            self.is_checkpoint_wanted.wait()
        return Tally(1.0, 1, 1)

    def state(self):
        state = TrainState()
        state.add_array("done", self.done)
        return state


@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("tells", [True, False])
def test_checkpoints_are_written_while_training_continues(tmp_path, threads, tells):
    progress_and_steps, epochs = [], []
    is_wanted = threading.Event()

    class Watching(Checkpoints):
        """Due until three are taken, whatever the clock says."""

        n_asked = 0

        def is_due(self):
            # When it is asked again, the trainer has noted that a checkpoint is wanted.
            self.n_asked += 1
            if self.n_asked > 1:
                is_wanted.set()
            return len(progress_and_steps) < 3

        def take(self, state, wait=False):
            values = state.snapshot()
            progress_and_steps.append((int(values["done"].sum()), values["trainer.next_chunk"]))
            super().take(state, wait)

    strategy = Counting(threads, is_wanted)
    schedule = Schedule(0.1, n_chunks=50, n_items=50, epochs=4)
    checkpoints = checkpoints_of(tmp_path / "out", every=0.01, kind=Watching)
    outcome = trainer.train(
        strategy,
        schedule,
        Silent(),
        (lambda epoch, tally, s: epochs.append((epoch, tally.items)) or False) if tells else None,
        checkpoints=checkpoints,
    )
    assert (strategy.done == 1).all()
    assert outcome.tally.items == 200
    assert progress_and_steps
    assert all(trained == taken for trained, taken in progress_and_steps)
    assert epochs == ([(epoch, 50) for epoch in range(4)] if tells else [])
    checkpoints.remove()
    assert not checkpoints.folder.exists()


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


def test_a_model_that_is_complete_has_no_run_to_resume(two_topics, tmp_path):
    embedx.train(str(two_topics), output=tmp_path / "out", epochs=1, dim=4)
    with refused(None, "start", kind=DataError, quoting="this model is complete"):
        run_command.read_command(tmp_path / "out")
    with refused(None, kind=DataError, quoting="there is no other.checkpoint"):
        run_command.read_command(tmp_path / "other")

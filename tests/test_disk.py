"""What a run writes is told before it trains, true, and refused where the disk has no room for it."""

import pytest

from embedx.errors import EmbedxError
from embedx.skipgram import task as skipgram
from embedx.skipgram.configuration import configure
from embedx.storage import disk, locks
from embedx.training import checkpoint
from embedx.training.checkpoint import Checkpoints, Request
from embedx.training.progress import Silent
from tests.notes import Notes


def checkpoints_of(folder, notes, every=float("inf"), resumes=False):
    return Checkpoints(folder / "out", Request("train", {}, every, resumes), False, notes)


def test_the_model_is_reported_and_checkpoints_if_they_are_asked_for(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_disk", lambda folder: 10_000_000)
    printed = Notes()
    checkpoints_of(tmp_path, printed).check_disk(1_000_000, 2_000_000)
    checkpoints_of(tmp_path, printed, every=60.0).check_disk(1_000_000, 2_000_000)
    checkpoints_of(tmp_path, printed, every=60.0).check_disk(1_000_000, 3_100_000)
    assert printed.notes == [
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB",
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 6.0 MB more",
        "disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 9.3 MB more, which do not fit",
    ]


def test_states_that_are_there_need_no_more_room(tmp_path, monkeypatch):
    monkeypatch.setattr(disk, "free_disk", lambda folder: 10_000_000)
    before = checkpoints_of(tmp_path, Silent(), every=60.0)
    for _ in range(2):
        before.take(checkpoint.TrainState(), wait=True)
    locks.unlock(before.lock)
    printed = Notes()
    checkpoints_of(tmp_path, printed, every=60.0, resumes=True).check_disk(1_000_000, 2_000_000)
    assert printed.notes == ["disk: 1.0 MB of 10.0 MB free: model 1.0 MB; in a long run checkpoints 2.0 MB more"]


def train(corpus, folder, progress=None, every=float("inf"), **options):
    config = configure("ns", {"threads": 1, "epochs": 1, **options})
    checkpoints = checkpoints_of(folder, progress or Silent(), every)
    trained = skipgram.train([str(corpus)], config, cache_dir=folder / "cache", progress=progress, checkpoints=checkpoints)
    return trained, checkpoints


def test_a_run_without_room_is_refused_before_it_trains(two_topics, tmp_path, monkeypatch):
    monkeypatch.setattr(skipgram.Task, "run", None)
    monkeypatch.setattr(disk, "free_disk", lambda folder: 1_000)
    line = r"^.*: the disk has 1\.0 kB free, and .*kB are to be written \(model .*\); choose another --output$"
    with pytest.raises(EmbedxError, match=line):
        train(two_topics, tmp_path)


@pytest.mark.parametrize("options", [{}, {"subwords": "2-3", "buckets": 60}, {"heldout": 0.2, "bias": "frequency"}])
def test_what_is_reported_of_the_disk_is_what_is_written(two_topics, tmp_path, monkeypatch, options):
    found = []
    monkeypatch.setattr(Checkpoints, "check_disk", lambda self, *sizes: found.extend(sizes))
    trained, checkpoints = train(two_topics, tmp_path, dim=1000, **options)
    checkpoints.take(trained.outcome.state, wait=True)
    saved = trained.vectors.save(tmp_path / "model")
    (state,) = checkpoints.folder.glob("state-*")
    assert found == [
        pytest.approx(sum(file.stat().st_size for file in saved.iterdir()), rel=0.05),
        pytest.approx(state.stat().st_size, rel=0.05),
    ]
    locks.unlock(checkpoints.lock)


def test_free_room_is_that_of_the_folder_above_what_is_not_there_yet(tmp_path):
    assert abs(disk.free_disk(tmp_path / "not" / "there") - disk.free_disk(tmp_path)) < 1e9
    assert disk.free_disk(tmp_path) > 0

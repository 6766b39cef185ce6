"""What a run needs of the disk, for its model and its checkpoints, is printed before it trains, and
refused where there is no room.
"""

import pytest

from embedx.errors import DataError
from embedx.runtime import disk, locks
from embedx.runtime.progress import SILENT, Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.run import WordVectorsRun
from embedx.training import checkpoint
from embedx.training.checkpoint import Checkpoints
from tests.support import word_training
from tests.support.checkpoints import checkpoints_of
from tests.support.notes import Notes
from tests.support.refusals import refused


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

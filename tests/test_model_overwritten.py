"""Models saved over others: what is replaced and what is spared, also by killed processes."""

import os
import re
import shutil
import signal
from pathlib import Path

import numpy as np
import pytest

from embedx.errors import DataError
from embedx.runtime import locks
from embedx.storage import folder as on_disk
from embedx.storage.replacement import check_output, delete_leftovers
from embedx.vectors import model, model_folder
from tests.support import forked
from tests.support.files import files_below
from tests.support.refusals import refused, refused_data
from tests.support.small_models import save, toy


def test_a_model_can_be_saved_over_the_files_it_is_mapped_from(tmp_path):
    folder = save(tmp_path / "m", **toy())
    loaded = model.load(folder)
    expected = loaded.vectors.copy()
    save(
        folder,
        words=loaded.words,
        counts=loaded.counts,
        arrays=loaded.arrays,
        settings={},
        facts={},
        overwrite=True,
    )
    np.testing.assert_array_equal(model.load(folder).vectors, expected)


def test_overwriting_spares_what_is_not_a_model(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with refused(None, "output", kind=DataError, file=tmp_path / "thesis", line=None):
        save(tmp_path / "thesis", **toy(), overwrite=True)
    (tmp_path / "file").write_text("x")
    with refused(None, "output", kind=DataError, file=tmp_path / "file", line=None):
        check_output(tmp_path / "file", overwrite=True)
    with refused(None, "output", kind=DataError, file=tmp_path / "file" / "below", line=None):
        check_output(tmp_path / "file" / "below", overwrite=False)


@pytest.mark.parametrize("fails", ["write", "rename"])
def test_a_failing_save_leaves_the_old_model_and_no_rubbish(tmp_path, monkeypatch, fails):
    folder = save(tmp_path / "m", **toy(seed=1))
    before = model.load(folder).vectors.copy()
    rename = Path.rename

    def full(source, *target):
        if fails == "rename" and ".partial-" not in source.name:
            return rename(source, *target)
        raise OSError(28, "No space left on device")

    if fails == "write":
        monkeypatch.setattr("embedx.runtime.atomic.write_bytes", full)
    else:
        monkeypatch.setattr(Path, "rename", full)
    with refused_data("m", quoting="No space left on device"):
        save(folder, **toy(seed=2), overwrite=True)
    np.testing.assert_array_equal(model.load(folder).vectors, before)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_folder_that_one_may_not_look_into_is_an_error(tmp_path, monkeypatch):
    stat = os.stat

    def refuse(path, *arguments, **options):
        if str(path).startswith(str(tmp_path / "theirs")):
            raise PermissionError(13, "Permission denied")
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refuse)
    with refused(None, "output", kind=DataError, file=tmp_path / "theirs" / "m") as raised:
        check_output(tmp_path / "theirs" / "m", overwrite=False)
    assert "Permission denied" in raised.value.problem
    with refused(kind=DataError, file=str(tmp_path / "theirs" / "m")):
        model.load(tmp_path / "theirs" / "m")
    with refused(kind=DataError, file=tmp_path / "theirs" / "m" / "model.json") as raised:
        on_disk.read(tmp_path / "theirs" / "m", model_folder.SCHEMA)
    assert "Permission denied" in raised.value.problem


def test_a_folder_of_the_users_own_stays_whatever_its_name(tmp_path):
    names = ["m.replaced", "m.replaced-0a1b2c3d", "m.partial-holiday", "m.replaced.bak"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "diary.txt").write_text("dear diary")
        (tmp_path / name / "model.json").write_text(
            '{"format": "layers-model", "modelTopology": {}}'
        )
    for name in ("m.old", "m.replaced.bak2"):
        save(tmp_path / name, **toy(seed=1))
    before = files_below(tmp_path)
    save(tmp_path / "m", **toy(seed=1))
    save(tmp_path / "m", **toy(seed=2), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["m", "m.old", "m.replaced.bak2", *names]
    )
    assert {
        file: content
        for file, content in files_below(tmp_path).items()
        if not file.startswith("m/")
    } == before


@pytest.mark.parametrize(
    "description",
    [
        '{"format": "layers-model", "modelTopology": {}, "weightsManifest": []}',
        "[1]",
        "{",
        '{"format": 1, "arrays": []}',
        "",
    ],
)
def test_overwriting_spares_the_model_of_another_program(tmp_path, description):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.json").write_text(description)
    (tmp_path / "m" / "weights.bin").write_bytes(b"weights")
    before = files_below(tmp_path)
    for attempt in (
        lambda: check_output(tmp_path / "m", True),
        lambda: save(tmp_path / "m", **toy(), overwrite=True),
    ):
        with refused(None, "output", kind=DataError, file=tmp_path / "m", line=None):
            attempt()
    assert files_below(tmp_path) == before


def test_overwriting_keeps_what_else_is_in_the_folder(tmp_path):
    folder = save(
        tmp_path / "m", **{**toy(seed=1), "arrays": {**toy()["arrays"], "state": np.zeros(3)}}
    )
    (folder / "vectors.txt").write_text("exported")
    (folder / "notes").mkdir()
    (folder / "notes" / "why.txt").write_text("because")
    (folder / "other_bias.npy").write_bytes(b"the user's")
    new = toy(seed=2)
    save(folder, **new, overwrite=True)
    names = {"vectors.txt", "notes", "other_bias.npy"}
    parts = {"input.npy", "output.npy", "output_bias.npy", "vocabulary.tsv", "model.json"}
    assert {path.name for path in folder.iterdir()} == names | parts
    assert (folder / "notes" / "why.txt").read_text() == "because"
    np.testing.assert_array_equal(model.load(folder).vectors, new["arrays"]["input"])


SAVE_AND_DIE = """
import os, signal, sys, numpy as np
from pathlib import Path
from embedx.runtime import atomic, locks
from embedx.storage import folder
from embedx.vectors import gensim_names, model, model_folder
real, calls = getattr({owner}, "{step}"), []
def step(*arguments, **options):
    if len(calls) == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(arguments)
    return real(*arguments, **options)
{owner}.{step} = step
arrays = {{name: np.zeros((2, 3), np.float32) for name in ("input", "output")}}
model.WordVectors(["a", "b"], arrays).save(Path(sys.argv[1]), overwrite=True)
"""


def killed_while_saving(folder, owner, step, number):
    code = SAVE_AND_DIE.format(owner=owner, step=step, number=number)
    home = folder.parent
    ended = forked.run(folder, cwd=home, env=forked.environment(home), code=code, check=False)
    assert ended.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("owner", "step", "number", "left"),
    [
        ("locks", "lock", 0, r"m\.partial-[0-9a-f]{8}"),  # nothing is in it yet
        ("folder.atomic", "write_bytes", 2, r"m\.partial-[0-9a-f]{8}"),
        ("folder", "put_in_place", 0, r"m\.partial-[0-9a-f]{8}"),
        ("Path", "rename", 1, r"m\.replaced-[0-9a-f]{8}"),  # between the two
        ("Path", "unlink", 2, r"m\.replaced-[0-9a-f]{8}"),
    ],
)
def test_files_of_a_killed_process_are_deleted_by_the_next_one(tmp_path, owner, step, number, left):
    folder = save(tmp_path / "m", **toy())
    (tmp_path / "m" / "vectors.txt").write_text("exported")
    killed_while_saving(folder, owner, step, number)
    assert [path.name for path in tmp_path.iterdir() if re.fullmatch(left, path.name)]
    assert model.load(folder).words in (["a", "b"], toy()["words"])
    with refused(None, "overwrite", "output", kind=DataError, line=None):
        check_output(folder, overwrite=False)
    new = toy(seed=2)
    save(folder, **new, overwrite=True)
    np.testing.assert_array_equal(model.load(folder).vectors, new["arrays"]["input"])
    assert (folder / "vectors.txt").read_text() == "exported"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_only_temporary_folders_that_nobody_has_locked_are_swept(tmp_path):
    save(tmp_path / "m", **toy())
    for name in (
        "m.partial-00000000",
        "m.partial-00000001",
        "m.partial-0001",
        "m.replaced-00000002",
        "n.partial-00000003",
    ):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "notes").write_text("dear")
    (tmp_path / "m.replaced-00000004").mkdir()
    lock = locks.lock(tmp_path / "m.partial-00000001")
    save(tmp_path / "m", **toy(), overwrite=True)
    locks.unlock(lock)
    names = [
        "m",
        "m.partial-00000001",
        "m.partial-0001",
        "m.replaced-00000002",
        "n.partial-00000003",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock = locks.lock
    swept = []

    def sweep_first(folder, wait=True):
        if "partial" in folder.name and not swept:
            swept.append(folder)
            delete_leftovers(tmp_path / "m")
            assert not folder.exists()
        return lock(folder, wait)

    monkeypatch.setattr(locks, "lock", sweep_first)
    folder = save(tmp_path / "m", **toy())
    assert swept
    assert model.load(folder).words == toy()["words"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_files_of_a_running_process_are_not_deleted(tmp_path, monkeypatch):
    written = on_disk.npy_blocks
    within = []

    def write_while_another_saves(array):
        if not within:
            within.append(True)
            save(tmp_path / "m", **toy(seed=2))
        return written(array)

    monkeypatch.setattr(on_disk, "npy_blocks", write_while_another_saves)
    with refused(None, "overwrite", "output", kind=DataError, file=tmp_path / "m", line=None):
        save(tmp_path / "m", **toy(seed=1))
    np.testing.assert_array_equal(
        model.load(tmp_path / "m").vectors, toy(seed=2)["arrays"]["input"]
    )
    within.clear()
    shutil.rmtree(tmp_path / "m")
    save(tmp_path / "m", **toy(seed=1), overwrite=True)
    np.testing.assert_array_equal(
        model.load(tmp_path / "m").vectors, toy(seed=1)["arrays"]["input"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_models_that_cannot_be_saved_are_refused_before_training(tmp_path, monkeypatch):
    with refused(None, "output", kind=DataError, file=tmp_path / ("m" * 250)) as raised:
        check_output(tmp_path / ("m" * 250), overwrite=False)
    assert "File name too long" in raised.value.problem
    folder = save(tmp_path / "m", **toy())
    monkeypatch.setattr(os.path, "ismount", lambda path: path == folder)
    with refused(None, "output", kind=DataError, file=folder, line=None):
        check_output(folder, overwrite=True)
    check_output(folder / "within", overwrite=True)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(DataError) as looped:
        check_output(tmp_path / "circle", overwrite=True)
    assert looped.value.file == tmp_path / "circle"
    assert looped.value.line is None
    (tmp_path / "circle").unlink()
    assert [file.name for file in tmp_path.iterdir()] == ["m"]

"""Locks on folders and files, by the system and by a file beside them as on Windows."""

import pytest

from embedx.runtime import locks


@pytest.fixture(params=["system", "beside"], autouse=True)
def locking(request, monkeypatch):
    if request.param == "beside":
        monkeypatch.setattr(locks, "LOCKS_FOLDERS", False)


@pytest.fixture
def folder(tmp_path):
    new_folder = tmp_path / "folder"
    new_folder.mkdir()
    return new_folder


def test_a_lock_is_held_until_it_is_ended(folder):
    assert not locks.is_locked(folder)
    lock = locks.lock(folder, wait=False)
    assert locks.is_locked(folder)
    assert locks.lock(folder, wait=False) is None
    locks.unlock(lock)
    assert not locks.is_locked(folder)


def test_a_file_is_locked_as_a_folder_is(tmp_path):
    part = tmp_path / "corpus.part"
    part.touch()
    lock = locks.lock(part, wait=False)
    assert locks.is_locked(part)
    locks.unlock(lock)
    assert not locks.is_locked(part)


def test_locking_a_missing_file_does_not_create_it(tmp_path):
    missing = tmp_path / "missing"
    assert locks.lock(missing, wait=False) is None
    assert not locks.is_locked(missing)
    assert list(tmp_path.iterdir()) == []


def test_a_locked_folder_does_not_count_as_abandoned(folder):
    folder, lock = locks.new_locked(lambda: folder)
    assert not locks.remove_if_left(folder)
    locks.unlock(lock)
    assert locks.remove_if_left(folder)
    assert not folder.exists()


def test_a_locked_folder_may_be_renamed(folder, tmp_path):
    lock = locks.lock(folder)
    folder.rename(tmp_path / "model")
    locks.unlock(lock)
    assert locks.remove_if_left(tmp_path / "model")

"""A model that cannot be written is saved elsewhere, or the error says how to resume."""

import tempfile
from pathlib import Path

import pytest

from embedx.errors import DataError, EmbedxError
from embedx.storage.rescue import RescuedError, save_or_rescue
from tests.support.checkpoints import (
    a_state,
    checkpoints_of,
    left_behind,
)
from tests.support.refusals import refused


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
    assert str(raised.value).endswith(f"use the model in {instead}")


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

"""`run.json`, the description of a run that `embedx resume` reads."""

import json
import os
from pathlib import Path

import pytest

import embedx
from embedx.cli import training
from embedx.errors import DataError
from embedx.training import checkpoint_folder, run_command
from tests.support.checkpoints import left_behind
from tests.support.refusals import refused, refused_data


@pytest.mark.parametrize(
    ("change", "quoted"),
    [
        ({"command": "compare"}, "compare"),
        ({"arguments": {"corpora": ["a"], "nonsense": 1}}, "nonsense"),
        ({"arguments": {"corpora": "a"}}, "corpora is 'a'"),
        ({"arguments": {}}, "corpora"),
        ({"arguments": {"corpora": ["a"], "quiet": "x"}}, "quiet is 'x'"),
        ({"arguments": {"corpora": ["a"], "options": {"dimm": 3}}}, "dimm"),
        ({"arguments": {"corpora": ["a"], "options": {"dim": "3"}}}, "dim='3'"),
        ({"arguments": {"corpora": ["a"], "options": []}}, "options is []"),
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
    left_behind(workdir / "out", options={"cluster": "ray://evil:10001"})
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

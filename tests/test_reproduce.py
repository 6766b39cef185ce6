"""`embedx reproduce`: models made again by their recorded commands."""

import json
import shutil

import numpy as np
import pytest

import embedx
from embedx.cli import reproduce
from embedx.errors import DataError
from tests.support.commands import run_command
from tests.support.refusals import refused

OPTIONS = ["--dim", 4, "--epochs", 1, "--threads", 1, "--seed", 3]


@pytest.fixture
def home(two_topics, tmp_path):
    shutil.copy(two_topics, tmp_path / "text.txt")
    run_command(tmp_path, "train", "text.txt", *OPTIONS, "--output", "old")
    return tmp_path


def test_a_model_of_one_thread_is_made_again_byte_for_byte(home):
    about = json.loads(run_command(home, "info", "old", "--json").stdout)
    assert about["command"].startswith("embedx train text.txt")
    assert about["versions"].keys() == {"python", "numpy", "numba", "scipy"}
    completed = run_command(home, "reproduce", "old", "--output", "new", "--json")
    assert json.loads(completed.stdout) == {"model": "new", "equal": True}
    again = json.loads(run_command(home, "info", "new", "--json").stdout)
    assert again["data_hash"] == about["data_hash"]
    completed = run_command(home, "reproduce", "old", "--output", "new", check=False)
    assert completed.returncode == 2
    assert "--output new" in completed.stderr


def test_changed_or_missing_data_are_refused_in_one_line(home):
    text = home / "text.txt"
    text.write_text(text.read_text() + "cat dog " * 10)
    changed = run_command(home, "reproduce", "old", check=False)
    assert changed.returncode == 2
    assert len(changed.stderr.splitlines()) == 1
    assert "the data changed" in changed.stderr
    text.unlink()
    missing = run_command(home, "reproduce", "old", check=False)
    assert missing.returncode == 2
    assert len(missing.stderr.splitlines()) == 1
    assert "text.txt" in missing.stderr
    assert not (home / "old.again").exists()


def test_a_classifier_is_made_again(tmp_path):
    rows = [f"__label__{name} {name} {k % 7}" for k in range(60) for name in ("red", "blue")]
    (tmp_path / "rows.txt").write_text("\n".join(rows))
    run_command(tmp_path, "classify", "rows.txt", "--threads", 1, "--epochs", 2, "--output", "old")
    completed = run_command(tmp_path, "reproduce", "old", "--json")
    assert json.loads(completed.stdout)["equal"] is True
    rows[0] = "__label__blue red 0"
    (tmp_path / "rows.txt").write_text("\n".join(rows))
    relabelled = run_command(tmp_path, "reproduce", "old", "--output", "third", check=False)
    assert "the data changed" in relabelled.stderr


def saved(folder, value, **facts):
    vectors = np.full((2, 3), value, np.float32)
    facts = {"objective": "ns", "words": 2, "final_loss": value} | facts
    settings = {"threads": 2, "deterministic": False}
    model = embedx.WordVectors(["a", "b"], {"input": vectors}, facts=facts, settings=settings)
    return model.save(folder)


def test_models_that_differ_have_their_files_losses_and_a_reason(tmp_path):
    record = reproduce.compared(saved(tmp_path / "a", 1.0), saved(tmp_path / "b", 1.5))
    assert record["equal"] is False
    assert record["differing files"] == ["input.npy"]
    assert (record["final_loss was"], record["final_loss is"]) == (1.0, 1.5)
    assert "--deterministic" in record["why"]


@pytest.mark.parametrize(
    ("command", "quoting"),
    [
        (None, "no command"),
        ("embedx train - --dim 4", "standard input"),
        ("embedx cache clear", "trains no model"),
        ("rm -r folder", "trains no model"),
        ("embedx train a.txt --overwrite", "--overwrite"),
        ("embedx train a.txt --log-json=/tmp/x", "--log-json=/tmp/x"),
        ("embedx train a.txt --cluster host", "--cluster"),
    ],
)
def test_commands_that_cannot_be_repeated_are_refused(tmp_path, command, quoting):
    facts = {} if command is None else {"command": command}
    with refused(kind=DataError, quoting=quoting):
        reproduce.recorded_command(tmp_path, facts)

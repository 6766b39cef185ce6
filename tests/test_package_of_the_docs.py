"""The package of docs/extending.md, installed and missing."""

import json
import re
import shutil
import subprocess
import sys

import pytest

from embedx import objectives
from embedx.runtime import locks
from embedx.runtime.progress import SILENT
from embedx.tasks.output import checkpoints_of
from embedx.tasks.requests import TrainRequest
from embedx.training.state import TrainState
from tests.support.commands import run_command
from tests.support.installed_packages import CORPUS, LABELLED, ROOT, embedx, run_module
from tests.support.notes import lines_with

PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
PACKAGE = PAGE[PAGE.index("## In a package of your own") :]
HINGE_PACKAGE = {"package": "embedx-hinge", "version": "0.1"}


@pytest.fixture(scope="module")
def package(tmp_path_factory):
    """Where the package of docs/extending.md is installed, and its entry points are."""
    source = tmp_path_factory.mktemp("source")
    site = tmp_path_factory.mktemp("site")
    (pyproject,) = re.findall(r"```toml\n(.*?)```", PACKAGE, re.DOTALL)
    (example,) = re.findall(r"<!-- example: (hinge\.py) -->", PAGE)
    (source / "pyproject.toml").write_text(pyproject)
    shutil.copy(ROOT / "docs" / "examples" / example, source / "embedx_hinge.py")
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    offline = ["--no-build-isolation", "--disable-pip-version-check", "--target", str(site)]
    completed = subprocess.run([*pip, *offline, str(source)], capture_output=True, text=True)
    assert completed.returncode == 0, completed.stderr
    return site


@pytest.fixture(scope="module")
def trained(package, tmp_path_factory):
    """A folder where the commands of the page were run, and what each printed."""
    folder = tmp_path_factory.mktemp("trained")
    (folder / "corpus.txt").write_text(CORPUS)
    (folder / "reviews.txt").write_text(LABELLED)
    (transcript,) = re.findall(r"```text\n(.*?)```", PACKAGE, re.DOTALL)
    install, *lines = transcript.splitlines()
    assert install == "pip install ."
    small = {"train": "--min-count 1 --sample 0 --dim 4 --threads 1", "classify": "--threads 1"}
    output_of = {}
    for line in lines:
        words = line.split()
        name = words[1] if words[0] == "embedx" else words[2]
        if words[0] == "embedx":
            completed = embedx(f"{' '.join(words[1:])} {small.get(name, '')}", package, folder)
        else:
            assert words[:2] == ["python", "-m"]
            completed = run_module(name, words[3:], package, folder)
        assert completed.returncode == 0, completed.stderr
        output_of[name] = completed.stdout
    return folder, output_of


def test_the_package_of_the_docs_trains_words_and_labels(trained):
    folder, output_of = trained
    assert "ranking hinge; Collobert & Weston 2008" in output_of["objectives"]
    assert "--set margin=VALUE" in output_of["objectives"]
    assert "words\t8 words, loss " in output_of["train"]
    assert "labels\t2 labels, loss " in output_of["classify"]
    assert output_of["embedx.testing"] == "hinge\tpassed\n"
    for name in ("words", "labels"):
        model = json.loads((folder / name / "model.json").read_text())
        assert model["facts"]["packages"] == {"objective": HINGE_PACKAGE}
    words = json.loads((folder / "words" / "model.json").read_text())
    assert words["settings"]["margin"] == 2


def test_a_package_works_in_compare(package, tmp_path):
    (tmp_path / "reviews.txt").write_text(LABELLED)
    line = (
        "compare reviews.txt --test reviews.txt --objectives hinge:margin=2,ova --seeds 1"
        " --epochs 2 --threads 1 --output compared"
    )
    completed = embedx(line, package, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "hinge:margin=2" in completed.stdout


def test_a_model_whose_package_is_missing_names_it(trained):
    folder, _ = trained
    for line in (
        "predict labels reviews.txt",
        "eval words --text corpus.txt",
        "train corpus.txt --start words --output more",
    ):
        completed = run_command(folder, *line.split(), check=False)
        assert completed.returncode == 2
        assert lines_with(completed.stderr, "objective hinge", "embedx-hinge 0.1")
        assert completed.stderr.strip().endswith("pip install embedx-hinge")
        assert "train again" not in completed.stderr
    run_command(folder, "nn", "words", "cat")  # which needs no objective


def test_an_interrupted_run_whose_package_is_missing_names_it_and_keeps_its_state(
    package, tmp_path, monkeypatch
):
    """Settings of the package, such as margin, are unknown without it."""
    (tmp_path / "corpus.txt").write_text(CORPUS)
    request = TrainRequest(
        corpora=["corpus.txt"],
        objective="hinge",
        output=tmp_path / "words",
        options={"margin": 2.0, "dim": 4, "min_count": 1, "sample": 0.0, "threads": 1},
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        objectives, "packages", lambda *names: {"packages": {"objective": HINGE_PACKAGE}}
    )
    checkpoints = checkpoints_of(request, tmp_path / "words", SILENT)
    checkpoints.take(TrainState(), wait=True)
    locks.unlock(checkpoints.lock)
    (state,) = checkpoints.states()

    completed = run_command(tmp_path, "resume", "words", check=False)
    assert completed.returncode == 2
    assert "the objective hinge, of the package embedx-hinge 0.1, which is not" in completed.stderr
    assert completed.stderr.strip().endswith("pip install embedx-hinge")
    assert state.exists()

    completed = embedx("resume words", package, tmp_path)  # which reads the state, an empty one
    assert "embedx-hinge" not in completed.stderr
    assert "state-00000001.npz: damaged" in completed.stderr

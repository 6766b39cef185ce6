"""Objectives and samplers of other packages: installed, broken, missing."""

import importlib
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from embedx import objectives
from embedx.distributed import packages
from embedx.errors import DataError, SettingError
from embedx.kernels import kernel_folder
from embedx.registry import Registry
from embedx.runtime import locks
from embedx.runtime.progress import SILENT
from embedx.tasks.output import checkpoints_of
from embedx.tasks.requests import TrainRequest
from embedx.training.state import TrainState
from tests.support import forked
from tests.support.commands import run_command
from tests.support.notes import lines_with

ROOT = Path(__file__).parent.parent
PAGE = (ROOT / "docs" / "extending.md").read_text("utf-8")
PACKAGE = PAGE[PAGE.index("## In a package of your own") :]
CORPUS = "cat dog fur paw\ncar road fuel wheel\n" * 200
HINGE_PACKAGE = {"package": "embedx-hinge", "version": "0.1"}
LABELLED = "__label__pets cat dog fur paw\n__label__cars car road fuel wheel\n" * 50


def run_module(module, words, site, folder):
    """`python -m MODULE WORDS...` in a process that finds the packages in `site`."""
    path = os.pathsep.join([str(ROOT), str(site)])
    environment = forked.environment(folder) | {"PYTHONPATH": path, "COLUMNS": "100"}
    code = (
        f"import runpy, sys\nsys.path.insert(0, {str(site)!r})\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    options = {"check": False, "code": code, "imported": "numba"}
    return forked.run(*words, cwd=folder, env=environment, **options)


def embedx(line, site, folder):
    """The command `embedx LINE` in a process that finds the packages in `site`."""
    return run_module("embedx", shlex.split(line), site, folder)


# ---- the package of the docs


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


# ---- the machines of a cluster


def test_a_machine_needs_the_packages_of_a_run(tmp_path, monkeypatch):
    text = "from embedx.objectives.ns import NegativeSampling\nclass Far(NegativeSampling): pass"
    monkeypatch.syspath_prepend(tmp_path)
    far = packages.Needed("far", "far", "1.0")
    assert packages.problem_with([]) == ""
    assert packages.problem_with([far]).startswith("lacks the package far 1.0 (ModuleNotFound")
    script = packages.Needed("far", "", "")
    assert packages.problem_with([script]).startswith("lacks the module far (ModuleNotFoundError")
    install(tmp_path, "far", "embedx.objectives", "far = far:Far", text)
    try:
        assert packages.problem_with([far, script]) == ""
        other = far._replace(version="2.0")
        assert packages.problem_with([other]) == "has far 1.0, not 2.0"
    finally:
        sys.modules.pop("far", None)


def test_only_classes_of_other_packages_are_needed(monkeypatch):
    from docs.examples.hinge import Hinge

    monkeypatch.setitem(objectives.OBJECTIVES, "hinge", Hinge)
    hinge = Hinge(Hinge.Settings())
    module = packages.Needed("docs.examples.hinge", "", "")
    assert packages.needed([hinge, np.ones(3), None]) == [module]
    ours = objectives.OBJECTIVES["softmax"]
    assert packages.needed([ours(ours.Settings())]) == []


# ---- packages that cannot be used


def install(site, name, group, entry, text):
    """Install a package of one module NAME.py with an entry point, as pip would."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    (site / f"{name}.py").write_text(text)


BROKEN = {  # entry point, text of the module and what is wrong
    "imports": ("other = imports:Other", "import nowhere_to_be_found", "ModuleNotFoundError"),
    "exits": ("other = exits:Other", "raise SystemExit(3)", "SystemExit: 3"),
    "lacks": ("other = lacks:Other", "", "AttributeError"),
    "syntax": ("other = syntax:Other", "class Other(:", "SyntaxError"),
    "wrong": ("other = wrong:Other", "class Other: name = 'other'", "is no subclass of"),
    "function": ("other = function:Other", "def Other(): pass", "is no subclass of"),
    "abstract": (
        "other = abstract:Other",
        "from embedx.objectives.contract import Objective\nclass Other(Objective): name = 'other'",
        "Other does not define about, coefficients",
    ),
    "renamed": (
        "other = renamed:Other",
        "from embedx.objectives.ns import NegativeSampling\n"
        "class Other(NegativeSampling): name = 'another'",
        "its class has the name another, its entry point other",
    ),
    "taken": (
        "ns = taken:Other",
        "from embedx.objectives.ns import NegativeSampling as Other",
        "there is another objective ns",
    ),
}


@pytest.fixture
def registry(tmp_path, monkeypatch):
    """A registry of objectives that finds the packages in tmp_path, once they are there."""
    monkeypatch.syspath_prepend(tmp_path)
    yield Registry(
        "embedx.objectives",
        ("ns.NegativeSampling",),
        setting="objective",
        group="embedx.objectives",
        check=objectives.OBJECTIVES.check,
    )
    for name in BROKEN:
        sys.modules.pop(name, None)


@pytest.mark.parametrize("name", BROKEN)
def test_a_package_that_cannot_be_used_is_left_out_and_named_in_one_line(
    name, registry, tmp_path, caplog
):
    entry, text, problem = BROKEN[name]
    install(tmp_path, name, "embedx.objectives", entry, text)
    before = registry["ns"]
    assert list(registry) == ["ns"]
    assert before.__module__ == "embedx.objectives.ns"
    assert caplog.messages == []
    registry.report_broken()
    registry.report_broken()
    (line,) = caplog.messages
    assert f"the package {name} 1.0 cannot be used (" in line
    assert problem in line
    assert "\n" not in line
    registered = entry.split()[0]
    if registered == "ns":
        registry.check_usable("ns")
    else:
        with pytest.raises(SettingError) as raised:
            registry.check_usable(registered)
        assert raised.value.setting == "objective"
        assert problem in raised.value.problem


def test_the_objective_of_a_package_is_registered_with_where_it_comes_from(registry, tmp_path):
    text = (
        "from embedx.objectives.ns import NegativeSampling\n"
        "class Mine(NegativeSampling): name = 'mine'"
    )
    install(tmp_path, "mine", "embedx.objectives", "mine = mine:Mine", text)
    try:
        assert list(registry) == ["ns", "mine"]
        assert registry.origin("mine") == {"package": "mine", "version": "1.0"}
        assert registry.origin("ns") == {}
        assert registry.broken == {}
    finally:
        sys.modules.pop("mine", None)


def test_broken_packages_do_not_break_a_run_without_them(tmp_path):
    site = tmp_path / "site"
    install(site, "torn", "embedx.objectives", "torn = torn:Torn", "import nowhere_to_be_found")
    install(site, "worn", "embedx.samplers", "worn = worn:Worn", "class Worn: name = 'worn'")
    (tmp_path / "corpus.txt").write_text(CORPUS)
    options = "--min-count 1 --sample 0 --dim 4 --epochs 1 --threads 1 --output model"
    completed = embedx(f"train corpus.txt {options}", site, tmp_path)
    assert completed.returncode == 0, completed.stderr
    lines = [line for line in completed.stderr.splitlines() if "cannot be used" in line]
    assert [line.split(":")[0] for line in lines] == ["objective torn", "sampler worn"]

    for option, package in (("--objective torn", "torn 1.0"), ("--sampler worn", "worn 1.0")):
        completed = embedx(f"train corpus.txt {option} --output other", site, tmp_path)
        assert completed.returncode == 2
        assert f"embedx: {option}: the package {package} cannot be used" in completed.stderr
        assert "Traceback" not in completed.stderr

    completed = embedx("--help", site, tmp_path)
    assert completed.stderr == ""


def test_the_help_of_all_commands_imports_no_package(tmp_path):
    install(tmp_path, "loud", "embedx.objectives", "loud = loud:Loud", "print('imported')")
    completed = embedx("--help", tmp_path, tmp_path)
    assert completed.returncode == 0
    assert "imported" not in completed.stdout


# ---- models


@pytest.mark.parametrize(
    ("origin", "remedy"),
    [
        ({"package": "embedx-far", "version": "2.0"}, "pip install embedx-far"),
        ({"module": "experiments.far"}, "import experiments.far and register it first"),
        (None, "install the package that defines it, or a newer embedx"),
        ("damaged", "install the package that defines it, or a newer embedx"),
    ],
)
@pytest.mark.parametrize("setting", ["objective", "sampler"])
def test_a_model_records_the_packages_that_it_needs(setting, origin, remedy):
    facts = {"objective": "ns", "packages": {setting: origin}}
    settings = {"sampler": "unigram"}
    (facts if setting == "objective" else settings)[setting] = "far"
    with pytest.raises(DataError) as raised:
        objectives.check_packages("model", facts, settings)
    assert f"the {setting} far" in raised.value.problem
    assert raised.value.remedy == remedy


def test_a_model_records_the_packages_of_others_alone(monkeypatch):
    from docs.examples.hinge import Hinge

    monkeypatch.setitem(objectives.OBJECTIVES, "hinge", Hinge)
    assert objectives.packages("ns", "unigram") == {}
    module = {"module": "docs.examples.hinge"}
    assert objectives.packages("hinge", "unigram") == {"packages": {"objective": module}}


# ---- kernels


def test_kernels_of_a_package_are_kept_by_a_hash_of_its_sources(tmp_path, monkeypatch):
    package = tmp_path / "losses"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("MARGIN = 1.0\n")
    (package / "hinge.py").write_text("def coefficients(): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    module = importlib.import_module("losses.hinge")

    def folder():
        kernel_folder._hash_of_package.cache_clear()
        return kernel_folder.folder_within("kernels", module.coefficients)

    try:
        first = folder()
        assert Path(first).parent == Path("kernels")
        assert folder() == first
        (package / "parts.py").write_text("MARGIN = 2.0\n")
        assert folder() != first
        ours = kernel_folder.folder_within("kernels", kernel_folder.folder_within)
        assert ours == "kernels"
    finally:
        kernel_folder._hash_of_package.cache_clear()
        for name in ("losses", "losses.hinge"):
            sys.modules.pop(name, None)


# ---- settings that are called like embedx's own

CLASH = """
from embedx.objectives.contract import SampledSettings
from embedx.objectives.ns import NegativeSampling
from embedx.settings import param
class ClashSettings(SampledSettings):
    dim: int = param(7, "a dimension of its own")
class Clash(NegativeSampling):
    name = "clash"
    Settings = ClashSettings
"""


def test_a_package_with_a_setting_called_like_one_of_embedx_is_left_out(tmp_path):
    site = tmp_path / "site"
    install(site, "clash", "embedx.objectives", "clash = clash:Clash", CLASH)
    (tmp_path / "corpus.txt").write_text(CORPUS)
    completed = embedx("train corpus.txt --dim 8 --dry-run", site, tmp_path)
    assert completed.returncode == 0, completed.stderr
    assert "(embedx has settings of its own called dim)" in completed.stderr
    completed = embedx("train corpus.txt --objective clash --dim 8", site, tmp_path)
    assert completed.returncode == 2
    assert "embedx has settings of its own called dim" in completed.stderr

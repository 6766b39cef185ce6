"""What a run, a model and its kernels need of the packages of others."""

import importlib
import sys
from pathlib import Path

import numpy as np
import pytest

from embedx import objectives
from embedx.distributed import packages
from embedx.errors import DataError
from embedx.kernels import kernel_folder
from tests.support.installed_packages import install


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

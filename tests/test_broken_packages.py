"""Packages that cannot be used are left out, and named in one line."""

import sys

import pytest

from embedx import objectives
from embedx.errors import SettingError
from embedx.registry import Registry
from tests.support.installed_packages import CORPUS, embedx, install

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

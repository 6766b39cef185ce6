"""The package's type hints reach its users."""

import importlib.resources
from pathlib import Path

import typed_use


def test_type_checkers_are_reported_that_there_are_hints():
    assert importlib.resources.files("embedx").joinpath("py.typed").is_file()


def test_the_program_that_is_type_checked_runs(two_topics, tmp_path, capsys):
    typed_use.main(str(two_topics), str(tmp_path / "model"))
    assert capsys.readouterr().out == "(4,) (1, 4) 2.0\n"


def test_the_program_is_type_checked():
    pyproject = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    assert 'files = ["embedx", "tests/typed_use.py"]' in pyproject

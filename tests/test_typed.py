"""The package's type hints reach its users."""

import importlib.resources
import inspect
from pathlib import Path

import mypy.api
import parameters_stub
import pytest
import typed_use

import embedx
from embedx.skipgram.estimator import FIELDS

MISSPELT = """
import embedx
embedx.SkipGram(dim=10, vector_size=10, workers=2, negative=5, window="all", time_budget="10m")
embedx.SoftmaxClassifier("ns", negatives=5, validation=0.1, n_jobs=2)
embedx.SkipGram(dmi=10)
embedx.SkipGram(dim="10")
embedx.SkipGram(tokenizer="wordz")
embedx.SoftmaxClassifier(negative=5)
embedx.train("corpus.txt", epoch=3)
embedx.classify("train.txt", epoch=3)
"""


def test_the_package_declares_its_type_hints():
    assert importlib.resources.files("embedx").joinpath("py.typed").is_file()


def test_the_program_that_is_type_checked_runs(two_topics, tmp_path, capsys):
    typed_use.main(str(two_topics), str(tmp_path / "model"))
    assert capsys.readouterr().out == "(4,) (1, 4) 2.0\n"


def test_the_program_is_type_checked():
    pyproject = (Path(__file__).parent.parent / "pyproject.toml").read_text("utf-8")
    assert 'files = ["embedx", "tests/typed_use.py"]' in pyproject


def test_types_of_parameters_are_those_of_the_settings():
    for path, text in parameters_stub.stubs().items():
        assert path.read_text("utf-8") == text, "write them anew: python -m tests.parameters_stub"


@pytest.mark.slow
def test_a_type_checker_refuses_a_misspelt_parameter(monkeypatch):
    """It also refuses a value of another type; the first two calls are valid."""
    monkeypatch.setenv("MYPYPATH", str(Path(embedx.__file__).parent.parent))
    arguments = [
        "--strict",
        "--config-file=",
        "--ignore-missing-imports",
        "--follow-imports=silent",
        # the hints of embedx alone: reading those of NumPy takes two thirds of the time
        "--no-site-packages",
        "-c",
        MISSPELT,
    ]
    lines = [
        line for line in mypy.api.run(arguments)[0].splitlines() if line.startswith("<string>:")
    ]
    assert [int(line.split(":")[1]) for line in lines if ": error:" in line] == [5, 6, 7, 8, 9, 10]
    assert 'Unexpected keyword argument "dmi" for "SkipGram"' in lines[0]


def test_the_signature_names_every_setting_with_its_default():
    parameters = inspect.signature(embedx.SkipGram).parameters
    assert list(parameters) == ["objective", *FIELDS, "cache_dir", "verbose"]
    assert (parameters["dim"].default, parameters["dim"].kind) == (
        100,
        inspect.Parameter.KEYWORD_ONLY,
    )
    # 5 for text, 10 for sessions; bounded-adagrad for ns, adagrad for ar
    assert parameters["epochs"].default is None
    assert parameters["optimizer"].default is None

"""`embedx eval --heldout`: what it prints of one model and of two, and its mistakes."""

import json

import numpy as np
import pytest

from embedx.evaluation.held_out import (
    evaluate,
    pairs_of,
)
from embedx.vectors import model
from tests.support.commands import run_command
from tests.support.held_out_models import words_model
from tests.support.notes import lines_with


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """A folder with two models of the same words, one of others, a text and a file of vectors."""
    folder = tmp_path_factory.mktemp("heldout")
    for name, options in {"a": {}, "b": {"seed": 2}, "c": {"n": 31}}.items():
        words_model(**options).save(folder / name)
    rng = np.random.default_rng(0)
    lines = [" ".join(f"w{k}" for k in rng.integers(0, 30, 12)) for _ in range(200)]
    (folder / "text.txt").write_text("\n".join(lines))
    (folder / "vectors.txt").write_text("1 2\nw1 0.5 0.5\n")
    (folder / "classifier").mkdir()
    (folder / "classifier" / "model.json").write_text(
        json.dumps(
            {
                "format": 1,
                "task": "classification",
                "names": {},
                "arrays": {},
                "settings": {},
                "facts": {},
            }
        )
    )
    (folder / "similar.tsv").write_text("".join(f"w{k}\tw{k + 1}\t{k}\n" for k in range(9)))
    return folder


def embedx_eval(home, *arguments):
    return run_command(home, "eval", *arguments, check=False)


def test_eval_prints_the_likelihood_and_nothing_else(home):
    completed = embedx_eval(home, "a", "--text", "text.txt")
    assert completed.returncode == 0, completed.stderr
    vectors = model.load(home / "a")
    pairs, calibration = pairs_of(str(home / "text.txt"), vectors)
    expected = evaluate(vectors, pairs, calibration)
    result = dict(line.split("\t") for line in completed.stdout.splitlines())
    assert list(result) == [
        "log_likelihood",
        "standard_error",
        "calibrated",
        "temperature",
        "unigram",
        "n_pairs",
        "n_groups",
    ]
    assert result["log_likelihood"] == f"{expected.log_likelihood:.4f}"
    assert result["n_groups"] == "200"


def test_eval_of_two_models_reports_the_difference(home):
    completed = embedx_eval(
        home, "a", "b", "--text", "text.txt", "--seed", "3", "--json", "--pairs", "similar.tsv"
    )
    assert completed.returncode == 0, completed.stderr
    result = json.loads(completed.stdout)
    likelihoods = result["heldout"]
    assert likelihoods["model"]["n_pairs"] == likelihoods["other"]["n_pairs"]
    gain = likelihoods["model"]["log_likelihood"] - likelihoods["other"]["log_likelihood"]
    assert likelihoods["difference"]["log_likelihood"] == pytest.approx(gain)
    assert likelihoods["difference"]["standard_error"] > 0
    assert result["scores"][0]["set"] == "similar"
    lines = embedx_eval(home, "a", "b", "--text", "text.txt", "--seed", "3").stdout.splitlines()
    assert lines[0] == "metric\tmodel\tother\tdifference"
    scores = [f"{likelihoods[name]['log_likelihood']:.4f}" for name in ("model", "other")]
    assert lines[1] == "\t".join(["log_likelihood", *scores, f"{gain:.4f}"])


@pytest.mark.parametrize(
    ("arguments", "place", "quoted"),
    [
        (["vectors.txt"], "vectors.txt: ", ["`embedx train`", "--text"]),
        (["classifier"], "classifier: ", ["`embedx train`", "--text"]),
        (["nowhere"], "nowhere: ", []),
        (["a", "c"], "", ["different words", "30", "31"]),
        (["a", "--test", "text.txt"], "--text ", ["--test"]),
    ],
)
def test_a_mistake_gets_one_line_and_exit_code_2(home, arguments, place, quoted):
    completed = embedx_eval(home, *arguments, "--text", "text.txt")
    assert completed.returncode == 2
    (line,) = completed.stderr.splitlines()
    assert line.startswith(f"embedx: {place}")
    assert lines_with(line, *quoted)
    assert completed.stdout == ""

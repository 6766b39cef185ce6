"""eval word-intervals: shares of cosines within intervals, and a trial run."""

import numpy as np
import pytest

from embedx.vectors.model import WordVectors
from eval import word_intervals as script
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of


class Certain:
    """Says that every cosine has the standard error 0.1."""

    def __init__(self, vectors):
        self.vectors = vectors

    def of_cosines(self, word, names):
        return np.full(len(names), 0.1)


def model(angle):
    """Two words that are so many degrees apart."""
    turned = np.deg2rad(angle)
    rows = np.array([[1, 0], [np.cos(turned), np.sin(turned)]], np.float32)
    return WordVectors(["a", "b"], {"input": rows})


def test_cosines_of_other_models_are_within_the_interval_or_not():
    others = [model(60), model(90), model(65)]
    result = script.held(Certain(model(60)), others, ["a"], [["b"]])
    assert result["held"] == pytest.approx(2 / 3)
    assert result["bound"] == pytest.approx(0.196)
    assert result["gap"] == pytest.approx((0 - 0.5 + np.cos(np.deg2rad(65)) - 0.5) / 3)


def test_a_trial_run_has_a_row_for_each_group(tmp_path):
    run = Run(experiment_called("word-intervals"), ["first", "ns"], quick=True)
    run.settings.megabytes = 0.2
    run.folder = tmp_path
    script.prepare(run)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    rows = script.results(run.records)
    assert [*rows_of(rows)] == ["ns"]
    assert rows.count("| `ns` |") == len(script.GROUPS) * len(script.PAIRS)

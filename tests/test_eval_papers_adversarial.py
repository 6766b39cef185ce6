"""eval papers-adversarial: rows are kept apart, the best rate is trained, and tables say what the records do."""

import numpy as np
import pytest
from eval_setup import Records, Run, environment, found, made_up, rows_of

from embedx.labeled.data import Labeled, Labels
from eval import papers_adversarial as script


def point(seconds, accuracy, epochs=1.0, fit=0.0):
    return {
        "seconds": seconds, "epochs": epochs, "fit": fit, "validation accuracy": accuracy, "test accuracy": accuracy - 0.01,
        "validation log-likelihood": -2.0, "test log-likelihood": -2.1,
    }  # fmt: skip


def curve_of(name, contender, points):
    job = {"data": name, "what": "curve", "contender": contender, "seconds": 60.0}
    return job, {"rate": 0.1, "penalty": 0.0, "points": points}


def test_validation_rows_are_no_training_rows_and_all_rows_have_a_known_label():
    features = np.arange(100, dtype=np.float32)[:, None]
    training = Labeled(features, Labels.single(np.arange(100) // 2), 60)
    test = Labeled(features[:60] + 1000, Labels.single(np.arange(60)), 60)
    halves = script.halves(training, test, 50)
    apart = set(halves.training.features[:, 0]), set(halves.validation.features[:, 0])
    assert not apart[0] & apart[1]
    assert len(apart[0]) == 90
    assert halves.validation.labels.n_of_row.all()
    assert set(halves.test.labels.ids) <= set(halves.training.labels.ids)
    assert len(halves.test) == len(set(halves.training.labels.ids)), "labels that training rows lack are left out"


def test_one_data_set_from_its_rates_to_its_table(tmp_path):
    run = Run(found("papers-adversarial"), ["clusters", "uniform", "adversarial"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    curves = script.curves(run.records, "clusters")
    assert set(curves) == {"uniform", "adversarial"}
    for name, each in curves.items():
        assert (each["rate"], each["penalty"]) == script.best_of(run.records, "clusters", name)
        assert each["points"][-1]["test accuracy"] > 0.05  # guessing has 0.005
        seconds = [one["seconds"] for one in each["points"]]
        assert seconds == sorted(seconds)
    assert curves["adversarial"]["points"][0]["fit"] > 0
    assert curves["uniform"]["points"][0]["fit"] == 0
    assert set(rows_of(script.results("clusters", run.records))) == {"uniform", "adversarial"}
    assert script.results("eurlex", run.records) == "Not measured."


def test_the_best_rate_is_that_of_the_highest_validation_accuracy(tmp_path):
    run = Run(found("papers-adversarial"), [], quick=False)
    tried = {(0.03, 0.0): 0.2, (0.1, 0.0): 0.3, (0.1, 1e-3): 0.4, (0.3, 1e-3): None}
    runs = [
        (script.rate_job("eurlex", "uniform", rate, penalty, run), {"points": [] if value is None else [point(8, value)]})
        for (rate, penalty), value in tried.items()
    ]
    records = made_up(tmp_path / "raw", runs, mixed=True)
    assert script.best_of(records, "eurlex", "uniform") == (0.1, 1e-3)
    assert rows_of(script.tuning(records))["eurlex"]["0.3"] == "diverged"


@pytest.mark.parametrize(("seconds", "verdict"), [(5.0, "met"), (7.0, "**not met**")])
def test_the_target_is_a_tenth_of_the_time_to_the_same_validation_accuracy(tmp_path, seconds, verdict):
    uniform = [point(10, 0.3), point(60, 0.5), point(90, 0.45)]
    adversarial = [point(2, 0.4, fit=1.0), point(seconds, 0.55, fit=1.0)]
    runs = [curve_of("next-word", "uniform", uniform), curve_of("next-word", "adversarial", adversarial)]
    records = made_up(tmp_path / "raw", runs, mixed=True)
    told = script.targets(records).splitlines()[2]
    assert f"0.500 after 60.0 s by uniform noise, {seconds} s by adversarial noise" in told
    assert told.endswith(f"| {verdict} |")
    rows = rows_of(script.results("next-word", records))
    assert rows["uniform"]["test accuracy"] == "0.490", "at the best validation point, not at the end"
    assert rows["adversarial"]["seconds to uniform's best"] == f"{seconds}"

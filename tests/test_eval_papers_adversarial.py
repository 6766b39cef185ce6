"""eval papers-adversarial: labels are those of training rows, the search ends at no edge, tables say what records do."""

import numpy as np
import pytest
from eval_setup import Records, Run, environment, found, rows_of

from embedx.labeled.data import Labeled, Labels
from eval import papers_adversarial as script


def point(seconds, accuracy, epochs=1.0):
    return {
        "seconds": seconds, "epochs": epochs, "accuracy": accuracy, "accuracy error": 0.01, "log-likelihood": accuracy - 3,
        "log-likelihood error": 0.01,
    }  # fmt: skip


def test_labels_are_numbered_by_those_of_training_rows_and_every_row_with_one_is_kept():
    features = np.arange(100, dtype=np.float32)[:, None]
    several = Labels.of_rows([[7 * (i // 2), 3] for i in range(100)])  # of which the first counts
    training, test = Labeled(features, several, 600), Labeled(features[:60] + 1000, Labels.single(7 * np.arange(60)), 600)
    halves = script.halves(training, test, 90)
    apart = set(halves.training.features[:, 0]), set(halves.validation.features[:, 0])
    assert not apart[0] & apart[1]
    assert len(apart[0]) == 90
    seen = sorted({7 * (int(x) // 2) for x in apart[0]})
    assert halves.training.n_labels == len(seen)
    assert sorted(set(halves.training.labels.ids)) == list(range(len(seen)))
    assert [seen[y] for y in halves.test.labels.ids] == [7 * (x - 1000) for x in halves.test.features[:, 0]]
    assert len(halves.test) == len(seen)


@pytest.mark.parametrize("top", [(5, 3), (-6, 0), (-2, 1)])
def test_the_search_finds_a_peak_wherever_it_lies_and_tries_both_sides(tmp_path, top):
    run = Run(found("papers-adversarial"), [], quick=False)
    run.records = Records(tmp_path / "raw", environment(), mixed=True)
    for job in script.search(run, "eurlex", "uniform"):
        cell = np.log10(job["rate"]) * 4, np.log10(job["penalty"]) + 5 if job["penalty"] else 0
        height = 1 - 0.01 * np.hypot(cell[0] - top[0], 2 * (cell[1] - top[1]))
        diverged = cell[0] > 6
        run.records.add(job, {"points": [] if diverged else [point(3, height)]}, "s")
    tried = {(each["job"]["rate"], each["job"]["penalty"]) for each in run.records.find()}
    rates = [float(f"{10 ** ((top[0] + step) / 4):.3g}") for step in (-1, 0, 1)]
    penalties = [float(f"{10.0 ** (j - 5):.3g}") if j else 0.0 for j in range(max(top[1] - 1, 0), top[1] + 2)]
    best = script.best_of(run.records, "eurlex", "uniform")
    assert (best["rate"], best["penalty"]) == (rates[1], penalties[-2])
    assert {(rate, best["penalty"]) for rate in rates} <= tried
    assert set(penalties) <= {penalty for _, penalty in tried}


def test_one_data_set_from_its_search_to_its_table(tmp_path, monkeypatch):
    monkeypatch.delenv("EMBEDX_DATA", raising=False)
    run = Run(found("papers-adversarial"), ["eurlex", "uniform", "adversarial"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    for contender, seeds in script.curves(run.records, "eurlex").items():
        best = script.best_of(run.records, "eurlex", contender)
        assert len(seeds) == 2
        for each in seeds:
            assert (each["rate"], each["penalty"]) == (best["rate"], best["penalty"])
            assert each["points"][-1]["accuracy"] > 0.05  # guessing has 0.003
            seconds = [one["seconds"] for one in each["points"]]
            assert seconds == sorted(seconds)
    assert set(rows_of(script.results("eurlex", run.records))) == {"uniform", "adversarial"}
    assert script.results("categories", run.records) == "Not measured."

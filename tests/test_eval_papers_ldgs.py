"""eval papers-ldgs: contexts are what they claim, legs go through data fairly, and tables say what
the records do.
"""

from types import SimpleNamespace

import numpy as np
import pytest

from embedx.labeled.data import Labeled, Labels
from embedx.text.tokenizer import END_OF_SENTENCE
from eval import papers, papers_ldgs, papers_ldgs_data, papers_ldgs_tables
from tests.support.eval_setup import Records, Run, environment, experiment_called, made_up, rows_of

# ---- data


def test_contexts_are_the_kept_neighbours_within_a_sentence():
    end = END_OF_SENTENCE
    tokens = np.array([0, 1, 2, end, 3, 4, 5, 6, 7])
    remap = np.array([0, 1, 2, 3, -1, 5, 6, 7], dtype=np.int32)  # 4 is no word
    chance = np.array([1, 1, 1, 1, 1, 1, 0, 1.0])  # 6 is never kept
    words = papers_ldgs_data.kept_words(
        tokens, remap, chance, np.zeros(1, dtype=np.uint8), np.random.default_rng(0)
    )
    assert words.ids.tolist() == [0, 1, 2, 3, 5, 7]
    contexts = papers_ldgs_data.contexts(words, np.array([0, 1, 3, 5]), 2)
    assert contexts.tolist() == [[-1, -1, 1, 2], [-1, 0, 2, -1], [-1, -1, 5, 7], [3, 5, -1, -1]]
    assert papers_ldgs_data.has_context(words).all()
    alone = papers_ldgs_data.Words(
        np.arange(3), np.array([0, 1, 1]), np.arange(3), np.zeros(3, dtype=bool)
    )
    assert papers_ldgs_data.has_context(alone).tolist() == [False, True, True]


# ---- training and measuring


def test_every_epoch_goes_once_through_all_rows():
    legs = list(papers_ldgs.legs(99, (0.001, 0.05, 0.5, 1.5, 2), 1))
    assert [end for end, _ in legs] == [0.05, 0.5, 1.0, 1.5, 2.0]  # in 0.001 there is no row
    first, second = (np.concatenate([rows for _, rows in part]) for part in (legs[:3], legs[3:]))
    assert sorted(first) == sorted(second) == list(range(99))
    assert first.tolist() != second.tolist()


class Fixed:
    """A classifier of given scores, the features being the numbers of its rows."""

    def __init__(self, z):
        self.z = np.array(z, dtype=np.float32)

    def scores(self, features):
        return self.z[features[:, 0]]


def test_ranks_count_ties_against_and_precisions_are_of_several_labels():
    z = [[9, 1, 2, 3, 4, 5, 6], [9, 1, 2, 3, 4, 5, 6], [0, 0, 0, 0, 0, 0, 0]]
    labels = Labels.single(np.array([0, 2, 1]))
    scores = papers.accuracy_of(Fixed(z), Labeled(np.arange(3)[:, None], labels, 7), False)
    assert scores == pytest.approx(
        {"accuracy": 1 / 3, "top-5": 1 / 3, "reciprocal rank": (1 + 1 / 6 + 1 / 7) / 3}
    )
    labels = Labels.of_rows([[0, 6], [5], [1]])
    scores = papers.accuracy_of(Fixed(z), Labeled(np.arange(3)[:, None], labels, 7), True)
    assert scores["p@1"] == pytest.approx(1 / 3)  # row 0
    assert scores["p@3"] == pytest.approx((2 + 1 + 1) / 9)


def test_a_section_from_its_rates_to_its_table(tmp_path):
    run = Run(experiment_called("papers-ldgs"), ["faces", "sampled-softmax"], quick=True)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    (curve,) = run.records.find(what="curve")
    assert curve["result"]["options"]["negatives"] == 3  # a hundredth of 300
    assert curve["result"]["test_rows"] == 300
    assert curve["result"]["final"]["accuracy"] > 0.05  # guessing has 0.003
    rates = papers_ldgs.achieved(run.records, {"section": "faces", "contender": "sampled-softmax"})
    assert len(rates) > 2
    assert curve["result"]["options"]["learning_rate"] == papers.best_rate(rates)
    row = rows_of(papers_ldgs_tables.curve_table("faces", run.records))["sampled-softmax"]
    assert (row["optimizer"], row["batch"]) == ("adagrad", "10")
    assert papers_ldgs_tables.curve_table("next-word", run.records) == "Not measured."
    n = len(run.records.by_job)
    run.measure(resume=True)
    assert len((tmp_path / "raw").read_text().splitlines()) == n + 1


def test_rates_are_tried_beyond_where_the_best_one_is_at_an_end(tmp_path, monkeypatch):
    tried = []

    def fake(run, job):
        if job["what"] == "rate":
            tried.append(job["rate"])
            return {"measure": -abs(job["rate"] - 0.9), "points": [], "options": {}}
        return {}

    experiment = experiment_called("papers-ldgs")
    run = Run(experiment, ["faces", "ldgs"], quick=False)
    run.experiment = SimpleNamespace(choices=experiment.choices, jobs=experiment.jobs, measure=fake)
    run.records = Records(tmp_path / "raw", environment(), mixed=True)
    run.measure(resume=False)
    assert tried == [0.03, 0.1, 0.3, 0.9, 3.0]


# ---- the page


def test_tables_and_pictures_from_some_of_the_records(tmp_path):
    key = {
        "section": "speed",
        "what": "faces",
        "contender": "ldgs",
        "labels": 200_000,
        "threads": 2,
        "batch": 10,
        "turn": 0,
    }
    points = [
        {
            "epochs": epoch,
            "examples": 100 * epoch,
            "seconds": 2.0 * epoch,
            "whole": 3.0 * epoch,
            "accuracy": accuracy,
        }
        for epoch, accuracy in ((0.5, 0.4), (1, 0.76), (3, 0.8))
    ]
    result = {
        "points": points,
        "options": {"batch_size": 10, "learning_rate": 0.3},
        "final": {"accuracy": 0.8},
    }
    curve = {"section": "faces", "what": "curve", "contender": "ldgs", "optimizer": "adagrad"}
    pairs = (
        (curve, result | {"curve_rows": 100, "test_rows": 10_000}),
        (key, {"seconds": 0.001, "once": 0.5}),
    )
    records = made_up(tmp_path / "made-up.jsonl", pairs, mixed=True)
    plots = papers_ldgs.EXPERIMENT.plots
    assert rows_of(papers_ldgs_tables.speed_table(records))["faces"]["over `ldgs`"] == "1.00"
    assert {name for name, draw in plots.items() if draw(records) is not None} == {"-faces"}
    assert "not measured" in papers_ldgs_tables.targets(
        made_up(tmp_path / "none.jsonl", [], mixed=True)
    )

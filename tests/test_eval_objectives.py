"""eval objectives: records become tables whatever is missing or diverged, and resuming measures
only what is not there.
"""

import dataclasses
import json
import shutil

import numpy as np
import pytest

from embedx import objectives as registry
from embedx.evaluation import held_out, statistics
from eval import (
    __main__ as command,
    objectives as script,
    objectives_compared as compared,
    objectives_tables as tables,
)
from eval.experiment import report
from tests.support import forked
from tests.support.eval_setup import (
    RESULTS,
    Records,
    Run,
    environment,
    experiment_called,
    made_up,
    rows_of as rows_of_table,
)
from tests.support.needs import needs_gensim

SIZES = [3, 1, 4, 2]  # pairs of each held-out piece


def likelihood(seed, level=-9.0):
    """A model's log-probabilities of the same ten pairs."""
    values = level + np.random.default_rng(seed).normal(0, 0.3, sum(SIZES))
    groups = np.repeat([4, 7, 8, 21], SIZES)
    return held_out.Likelihood(
        float(values.mean()), 0.1, -8.9, 1.1, -9.5, len(values), len(SIZES), values, groups, ["a"]
    )


def run(
    part,
    name,
    level=-9.0,
    diverged=False,
    speed=1_000_000,
    options=None,
    wordsim=0.61,
    seed=None,
    seconds=9.0,
    pooled=None,
    draw=None,
    even=0.0,
):
    """A made-up line of the raw file; spans of even number are likelier by `even`."""
    length = {"time_budget": "60s"} if part == "time" else {"epochs": 5}
    options = options or {**length, "threads": 2, "heldout": "0.5%"}
    options = options if seed is None else {**options, "seed": seed}
    result = {"diverged": "not finite after 12 words"}
    if not diverged:
        likelihood_of_run = likelihood(len(name) if draw is None else draw, level)
        likelihood_of_run.values[likelihood_of_run.groups % 2 == 0] += even
        likelihood_of_run = dataclasses.replace(
            likelihood_of_run, log_likelihood=float(likelihood_of_run.values.mean())
        )
        result = {
            "settings": {"negatives": 5, "block_size": 8, "draws": 32},
            "loss": 2.5,
            "words": 5000,
            "epochs": float(options.get("epochs", 12.0)),
            "seconds": seconds,
            "words_per_second": speed,
            "whole": 20.0,
            "peak_rss": 200_000_000,
            "heldout": likelihood_of_run.metrics() | script.by_group(likelihood_of_run),
            "scores": {"WordSim-353": wordsim, "SimLex-999": 0.25, "Google analogies": 0.4},
        }
        if pooled is not None:
            noise = np.random.default_rng(0).normal(0, 0.02, script.word_tests.RESAMPLES)
            result["pooled"] = {
                "score": pooled,
                "pairs": 1800,
                "resampled": (pooled + noise).tolist(),
            }
    return {
        "part": part,
        "objective": name,
        "options": options,
        "defaults": {"seed": next(RUNS)},
    }, result


RUNS = iter(range(10_000))  # so that no two of a test are the same job


@pytest.fixture
def records(tmp_path):
    """Makes records of made-up runs, each given as the arguments of `run`."""
    return lambda *runs: made_up(
        tmp_path / "raw.jsonl", [run(**options) for options in runs], words=17
    )


def rows_of(part, records):
    """The rows of a part's two tables by objective."""
    first, second = script.EXPERIMENT.tables[part](records).split("\n\n")
    costs = rows_of_table(second)
    return {name: row | costs.get(name, {}) for name, row in rows_of_table(first).items()}


def test_a_difference_from_the_sums_of_groups_is_the_one_from_all_pairs():
    a, b = (likelihood(seed, level) for seed, level in ((1, -9.0), (2, -9.2)))
    runs = {
        name: [{"result": {"heldout": script.by_group(likelihood_of_name)}}]
        for name, likelihood_of_name in (("a", a), ("b", b))
    }
    gap = statistics.standings(compared.likelihoods(runs), "b")["a"].behind
    gain = held_out.compare(a, b)
    assert (gap.value, gap.error) == pytest.approx((gain.value, gain.error), abs=1e-6)


# ---- several seeds, and the best point within a time


def epochs_of(n, **more):
    return {
        "part": "time" if n != 5 else "epochs",
        "options": {"epochs": n, "threads": 2, "heldout": "0.5%"},
        "seed": 1,
    } | more


def test_the_best_point_is_chosen_on_spans_that_it_is_not_scored_on(records):
    runs = records(
        {"part": "time", "name": "ns", "level": -9.4, "seed": 1, "even": -0.5},
        epochs_of(3, name="ns", level=-9.3, even=0.4, seconds=30),
        epochs_of(5, name="ns", level=-9.0, even=0.0, seconds=50),
        epochs_of(10, name="ns", level=-8.0, seconds=90),  # too long
        epochs_of(3, name="ns", level=-9.3, even=0.4, seconds=30, seed=2),
        {"part": "time", "name": "hs", "level": -9.2, "seed": 1},
    )
    points = compared.points(runs)
    assert {name: sorted(of) for name, of in points.items()} == {
        "ns": ["3", "5", "end"],
        "hs": ["end"],
    }
    assert compared.best_label(points["ns"]) == "3"  # likelier only where it is chosen
    assert [compared.seed_of(point) for point in compared.best_points(runs)["ns"]] == [1, 2]
    table = tables.equal_time(runs)
    [ns] = [line for line in table.splitlines() if "`ns` | 3.0" in line]
    test = np.mean([compared.mean_of(point, compared.TEST) for point in points["ns"]["3"]])
    assert f"| {test:.3f} |" in ns
    _, second = table.split("\n\n")
    assert [line for line in second.splitlines() if "`ns`" in line and "| 3, 5 |" in line]


def test_rates_are_multiples_of_the_one_that_an_objective_has_on_the_text():
    """Those of ns follow its optimizer, which depends on the length of the text."""
    run = Run(experiment_called("objectives"), ["rates", "ns"], quick=True)
    jobs = list(script.jobs(run))
    own = jobs[0]["defaults"]["learning_rate"]
    tried = [job["options"]["learning_rate"] for job in jobs]
    assert tried == pytest.approx([own * factor for factor in compared.FACTORS], rel=1e-2)


def test_resuming_measures_jobs_not_recorded_with_the_current_defaults(
    two_topics, tmp_path, monkeypatch
):
    measured = []

    def fake(run, objective, options, text):
        measured.append((objective, text))
        return {"diverged": "made up"}

    monkeypatch.setattr(script, "trained", fake)

    def go(resume=False):
        measured.clear()
        chosen = Run(
            experiment_called("objectives"),
            ["epochs", "exact", "ns", "softmax"],
            quick=False,
            corpus=str(two_topics),
        )
        chosen.folder = tmp_path
        chosen.records = Records(tmp_path / "raw", environment())
        chosen.measure(resume)
        return [record for record in measured if record[1] != "tiny"]

    of_ns = [*[("ns", "text")] * 3, *[("ns", "excerpt")] * 3]  # three seeds
    everything = [*of_ns, *[("softmax", "excerpt")] * 3]
    assert sorted(go()) == sorted(everything)
    assert go(resume=True) == []
    assert sorted(go()) == sorted(everything)
    monkeypatch.setattr(registry.find("ns"), "word_defaults", {"learning_rate": 0.01})
    assert go(resume=True) == of_ns


def test_published_numbers_are_those_that_embedx_prints(records, tmp_path, monkeypatch):
    runs_of_page = records(
        {"part": "epochs", "name": "ns", "wordsim": 0.654},
        {"part": "epochs", "name": "ove", "diverged": True},
    )
    monkeypatch.setattr(registry, "MEASURED_FILE", tmp_path / "measured.json")
    shutil.copy(tables.PAGE, tmp_path)
    monkeypatch.setattr(tables, "PAGE", tmp_path / tables.PAGE.name)
    tables.publish(runs_of_page)
    rows = {row[0]: dict(zip(registry.TABLE_HEAD, row, strict=True)) for row in registry.table()}
    assert (rows["ns"]["WordSim-353"], rows["ns"]["words/s"]) == ("0.654", "1,000,000")
    assert rows["ove"]["log-likelihood"] == "diverged"
    assert rows["hs"]["log-likelihood"] == "-"
    text = tables.PAGE.read_text()
    assert "2026-01-02" in text
    assert "the unigram model has -9.500" in text


def test_the_published_numbers_are_those_on_record():
    """`python -m eval objectives --publish` would change nothing."""
    published = tables.published(script.EXPERIMENT.records_in(RESULTS))
    assert json.dumps(published, indent=1) + "\n" == registry.MEASURED_FILE.read_text("utf-8")


@needs_gensim
def test_a_run_and_its_page_from_the_command_line(two_topics, tmp_path, monkeypatch):
    words = [
        "--quick",
        "--only",
        "exact",
        "ns",
        "softmax",
        "--set",
        f"corpus={two_topics}",
        "--results",
        str(tmp_path),
    ]
    monkeypatch.setattr(script, "watched", forked.watched)
    command.main(["objectives", *words])
    records = Records(tmp_path / "objectives.jsonl")
    rows = rows_of("exact", records)
    assert list(rows) == ["softmax", "ns"]
    assert rows["ns"]["minus softmax"] != "-"
    assert rows["ns"]["words/s"] != ""
    page = (tmp_path / "objectives.md").read_text()
    assert script.EXPERIMENT.tables["exact"](records) in page
    assert "A trial run" in page
    assert str(tmp_path) not in page
    for record in records.find():
        held = record["result"]["heldout"]
        assert sum(held["sums"]) / sum(held["sizes"]) == pytest.approx(
            held["log_likelihood"], abs=1e-5
        )
    with pytest.raises(SystemExit, match="`epochs`"):
        tables.published(records)
    (tmp_path / "objectives.md").unlink()
    report(experiment_called("objectives"), tmp_path, quick=True)
    assert (tmp_path / "objectives.md").read_text() == page

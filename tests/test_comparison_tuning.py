"""`embedx compare --tune`: trials of learning rate and negatives, on data that are not scored."""

import json
import math

import pytest

from embedx.comparison import compare as comparison, runs, tables, tuning
from embedx.comparison.labels import LabelledData
from embedx.comparison.records import FILE
from embedx.comparison.settings import MAX_TRIALS, CompareSettings
from embedx.comparison.text import TextData
from embedx.errors import InapplicableError
from embedx.runtime.progress import Silent
from embedx.spelling import on_command_line
from tests.support import forked
from tests.support.commands import invoke
from tests.support.comparison_records import ranked, run, small_text
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data


def trials_of(score, used):
    """A function that makes trials, scored by `score` from rate and negatives, and the list of
    their options.
    """
    tried = []

    def trial_of(options):
        tried.append(options)
        values = used | options
        return {
            "trial": options,
            "used": values,
            "score": score(values.get("learning_rate"), values.get("negatives")),
        }

    return trial_of, tried


@pytest.mark.parametrize(
    ("score", "used", "has_negatives", "best", "n_trials"),
    [
        (
            lambda rate, n: -abs(math.log(rate / 9)) + 0.01 * n,
            {},
            True,
            {"learning_rate": 9.0, "negatives": 15},
            MAX_TRIALS,
        ),
        (
            lambda rate, n: -abs(math.log(3 * rate)) - n,
            {},
            True,
            {"learning_rate": 0.333},
            MAX_TRIALS,
        ),
        # none has a score
        (lambda rate, n: -abs(math.log(rate)) - n, {}, False, {}, 3),
        (lambda rate, n: None, {}, True, {}, 4),
        (lambda rate, n: 1.0, None, True, {}, 1),  # trained without a rate
        (
            lambda rate, n: rate,
            {"optimizer": "sgd", "block_size": 8},
            False,
            {"optimizer": "sgd", "block_size": 8, "learning_rate": 9.0},
            4,
        ),
    ],
)
def test_the_search_follows_the_better_rate_and_then_tries_more_negatives(
    score, used, has_negatives, best, n_trials
):
    trial_of, tried = trials_of(
        score, {} if used is None else {"learning_rate": 1.0, "negatives": 5} | used
    )
    assert tuning.search(trial_of, has_negatives)["trial"] == best
    assert len(tried) == n_trials
    assert tried[0] == {}


def test_trials_take_the_part_of_the_time_that_tuning_has():
    settings = CompareSettings(time_budget=100.0, seeds=3, tune=0.2)
    assert settings.limit == {"time_budget": 80}
    assert settings.limit_of_trial == {"time_budget": 12}
    assert CompareSettings(epochs=10, tune=0.25).limit_of_trial == {"epochs": 2}
    assert CompareSettings(epochs=10, tune=0.25).limit == {"epochs": 10}


def test_text_is_tuned_on_spans_that_are_not_scored(two_topics, tmp_path, monkeypatch):
    """The run is scored on other spans than the trials; table, page and records have what was
    chosen.
    """
    monkeypatch.setattr(runs, "watched", forked.watched)
    settings = CompareSettings(epochs=2, seeds=1, threads=1, tune=0.5, heldout=0.2)
    data = TextData(
        [str(two_topics)], {"dim": 4, "min_count": 1}, settings, cache_dir=tmp_path / "cache"
    )
    folder = tmp_path / "out"
    outcome = comparison.compare(data, ["ns"], settings, folder)
    lines = [json.loads(line) for line in (folder / FILE).read_text().splitlines()]
    trials = [line for line in lines if "trial" in line]
    record = next(line for line in lines if "result" in line)
    full_trials = [trial for trial in trials if trial["full"]]
    trials = [trial for trial in trials if not trial["full"]]
    assert 3 <= len(trials) <= MAX_TRIALS
    assert trials[0]["trial"] == {}
    assert {"learning_rate", "negatives"} <= trials[0]["used"].keys()
    best = max(trials, key=lambda trial: trial["score"])
    if best["trial"]:
        assert [trial["trial"] for trial in full_trials] == [best["trial"], {}]
        best = max(reversed(full_trials), key=lambda trial: trial["score"])
    assert record.get("tuned", {}) == best["trial"] == outcome.ranking.lines[0].tuned
    n_spans = len(set(data.held_out.spans.tolist()))
    assert len(record["result"]["scores"]["log_likelihood"]["sizes"]) <= n_spans // 2
    assert ("tuned" in tables.text(outcome.ranking)) == bool(best["trial"])
    # nothing is left to be done
    again = comparison.compare(data, ["ns"], settings, folder, resume=True)
    assert again.ranking.lines[0].tuned == outcome.ranking.lines[0].tuned
    assert [json.loads(line) for line in (folder / FILE).read_text().splitlines()] == lines


@pytest.mark.parametrize(
    ("score_of_higher_rate", "expected"), [(0.7, {}), (0.9, {"learning_rate": 3.0})]
)
def test_what_short_trials_choose_is_kept_if_it_is_better_at_full_length(
    two_topics, tmp_path, monkeypatch, score_of_higher_rate, expected
):
    """In trials of 2 of 8 epochs the rate 3 is best; over 8 the defaults score 0.8."""

    def trial(runner, name, options, limit):
        rate = options.get("learning_rate", 1.0)
        full_length = {1.0: 0.8, 3.0: score_of_higher_rate}
        score = full_length[rate] if limit == {"epochs": 8} else 0.2 + 0.1 * (rate == 3.0)
        return {"used": {"learning_rate": rate}, "score": score}

    def outcome(runner, name, seed, options):
        ran.append(options)
        return run(name, seed, -2.0) | {"tuned": options}

    ran = []
    monkeypatch.setattr(runs.Runner, "run_trial", trial)
    monkeypatch.setattr(runs.Runner, "run", outcome)
    data, settings = small_text(two_topics, tmp_path, epochs=8, tune=0.25, seeds=1)
    progress = Notes()
    comparison.compare(data, ["ns"], settings, tmp_path / "out", progress=progress)
    assert ran == [expected]
    chosen = "--learning-rate 3" if expected else "its defaults"
    assert lines_with(progress.notes, "ns: best with", chosen)
    assert lines_with(progress.notes, "trial at full length of ns", f"{score_of_higher_rate:.4f}")


def test_a_trial_that_fails_says_why_as_a_message_does(two_topics, tmp_path, monkeypatch):
    why = ["too little memory; lower ", ["dim", 4], " or ", ["threads", None]]
    monkeypatch.setattr(runs, "run_in_process", lambda *_: {"failed": why})
    data, settings = small_text(two_topics, tmp_path, epochs=8, tune=0.25, seeds=1)
    progress = Notes()
    with refused_data(data.name):
        comparison.compare(data, ["ns"], settings, tmp_path / "out", progress=progress)
    said = "failed: too little memory; lower --dim 4 or --threads"
    assert lines_with(progress.notes, "trial of ns, its defaults: ", said)


@pytest.mark.parametrize("setting", ["tune", "heldout"])
def test_what_is_no_fraction_is_an_error_of_its_own_setting(setting):
    with refused(setting, value="most"):
        invoke("compare", "corpus.txt", f"--{setting}", "most")


def test_what_was_tuned_is_in_the_table_and_the_numbers():
    records = [
        run("ns", 1, -8.0) | {"tuned": {"learning_rate": 0.75, "negatives": 15}},
        run("hs", 1, -9.0),
    ]
    ranking = ranked(*records)
    options = [
        {"objective": "ns", "options": "--learning-rate 0.75 --negatives 15"},
        {"objective": "hs", "options": "the defaults"},
    ]
    assert tables.tuned_options(ranking, on_command_line) == options
    page = tables.page("data", ranking, "log-likelihood", {}, on_command_line)
    for place in (page, tables.text(ranking, on_command_line)):
        assert all(row["options"] in place for row in options)
    numbers = tables.as_dict(ranking)["objectives"]
    assert [(row["learning_rate"], row["negatives"]) for row in numbers] == [
        (0.75, 15),
        (None, None),
    ]


def test_labels_are_tuned_on_validation_rows_and_need_some():
    settings = CompareSettings(epochs=4, seeds=1, threads=1, tune=0.5)
    data = LabelledData(["digits"], {}, settings)
    data.prepare(Silent())
    facts = {
        "history": [
            {"epoch": k, "seconds": k, "validation": {"log_likelihood": -k}} for k in (3, 1, 2)
        ]
    }
    assert data.validation_score(None, facts) == -1
    assert data.validation_score(None, {}) is None
    with refused("tune", "validation", kind=InapplicableError):
        LabelledData(["digits"], {}, CompareSettings(tune=0.5, validation="0")).prepare(Silent())

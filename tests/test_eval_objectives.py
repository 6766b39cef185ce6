"""eval objectives: records become tables whatever is missing or diverged, and resuming measures only what is not there."""

import json
import subprocess
import sys

import numpy as np
import pytest
from eval_setup import RESULTS, ROOT, Records, Run, environment, found, made_up
from eval_setup import rows_of as rows_of_table
from needs import needs_gensim

from embedx import objectives as registry
from embedx.evaluation import heldout
from eval import objectives as script
from eval.experiment import report

SIZES = [3, 1, 4, 2]  # pairs of each held-out piece


def likelihood(seed, level=-9.0):
    """A model's log-probabilities of the same ten pairs."""
    values = level + np.random.default_rng(seed).normal(0, 0.3, sum(SIZES))
    groups = np.repeat([4, 7, 8, 20], SIZES)
    return heldout.Likelihood(float(values.mean()), 0.1, -8.9, 1.1, -9.5, len(values), len(SIZES), values, groups, ["a"])


def run(part, name, level=-9.0, diverged=False, speed=1_000_000, options=None, wordsim=0.61):
    """A made-up line of the raw file."""
    options = options or {"epochs": 5, "threads": 2, "heldout": "0.5%"}
    result = {"diverged": "the loss is not finite after 12 words"}
    if not diverged:
        found = likelihood(len(name), level)
        result = {
            "settings": {"negatives": 5, "share": 8, "draws": 32}, "loss": 2.5, "epochs": 5.0, "seconds": 9.0, "words": 5000,
            "words_per_second": speed, "whole": 20.0, "peak_rss": 200_000_000,
            "heldout": found.metrics() | script.by_group(found),
            "scores": {"WordSim-353": wordsim, "SimLex-999": 0.25, "Google analogies": 0.4},
        }  # fmt: skip
    return {"part": part, "objective": name, "options": options, "defaults": {"seed": next(RUNS)}}, result


RUNS = iter(range(10_000))  # so that no two of a test are the same job


@pytest.fixture
def records(tmp_path):
    """Makes records of made-up runs, each given as the arguments of `run`."""
    return lambda *runs: made_up(tmp_path / "raw.jsonl", [run(**each) for each in runs], words=17)


def rows_of(part, records):
    """The rows of a part's table by objective."""
    return rows_of_table(script.EXPERIMENT.tables[part](records))


def test_a_difference_from_the_sums_of_groups_is_the_one_from_all_pairs():
    a, b = (likelihood(seed, level) for seed, level in ((1, -9.0), (2, -9.2)))
    exact = heldout.compare(a, b)
    runs = [{"result": {"heldout": script.by_group(each)}} for each in (a, b)]
    assert script.paired(*runs) == pytest.approx(exact, abs=1e-6)


def test_runs_on_other_pairs_are_not_compared():
    a = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [1, 2]}}}
    b = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [2, 1]}}}
    assert script.paired(a, b) is None


def test_rows_come_in_the_order_of_the_registry_and_tell_who_diverged(records):
    found = records(
        {"part": "epochs", "name": "umax", "diverged": True},
        {"part": "epochs", "name": "ar", "level": -8.0},
        {"part": "epochs", "name": "ns"},
    )
    rows = rows_of("epochs", found)
    assert list(rows) == ["ns", "ar", "umax"]
    assert rows["umax"]["log-likelihood"] == "diverged"
    assert rows["ns"]["minus ns"] == "-"
    assert rows["ar"]["minus ns"].startswith("+")
    assert rows["ar"]["tuned on: RG-65"] == "-"
    ahead = rows_of_table(script.ahead(found))["equal epochs"]
    assert ahead["likeliest"] == "`ar`"
    assert ahead["likelier than `ns` by more than two standard errors"] == "`ar`"
    assert ahead["diverged"] == "`umax`"
    assert script.EXPERIMENT.tables["time"](found) == "Not measured."
    assert list(rows_of_table(script.conditions(found))) == ["equal epochs"]


def test_the_share_of_the_gap_closed(records):
    options = {"epochs": 5, "max_vocab": 5000, "threads": 2, "heldout": "2%"}
    found = records(*({"part": "exact", "name": name, "options": options} for name in ("ns", "softmax")))
    for record, value in zip(found.find(), (-9.2, -8.5), strict=True):
        record["result"]["heldout"]["log_likelihood"] = value
    rows = rows_of("exact", found)
    assert list(rows) == ["softmax", "ns"]
    assert rows["ns"]["share of the gap"] == "30.0 %"
    assert rows["softmax"]["share of the gap"] == "100.0 %"
    assert rows["softmax"]["minus softmax"] == "-"
    found.find(objective="softmax")[0]["result"]["heldout"]["log_likelihood"] = -9.6
    assert rows_of("exact", found)["ns"]["share of the gap"] == "-"
    assert rows_of("exact", records({"part": "exact", "name": "ns", "options": options}))["ns"]["share of the gap"] == "-"


def test_targets_are_judged_by_the_records(records):
    page = script.targets(
        records(
            {"part": "epochs", "name": "ns", "wordsim": 0.7},
            {"part": "epochs", "name": "hs", "wordsim": 0.59},
            {"part": "rows", "name": "ns", "options": {"epochs": 1}},
            {"part": "rows", "name": "hs", "options": {"epochs": 1}, "speed": 450_000},
            {"part": "rows", "name": "umax", "options": {"epochs": 1, "draws": 32}, "speed": 600_000},
            {"part": "time", "name": "ns"},
            {"part": "time", "name": "umax", "level": -8.0},
            {"part": "time", "name": "ove", "diverged": True},
        )
    )
    verdicts = {line.split(" | ")[0]: line.split(" | ")[-1].strip(" |") for line in page.splitlines() if "met" in line}
    assert verdicts["| `ns`: WordSim-353 at least 0.60 after 5 epochs"] == "met"
    assert verdicts["| `hs`: WordSim-353 at least 0.60 after 5 epochs"] == "**not met**"
    assert verdicts["| `hs`: at equal rows at most 2.5 × as slow as `ns`"] == "met"
    assert verdicts["| `umax`: at equal rows at most 1.5 × as slow as `ns`"] == "**not met**"
    assert verdicts["| at equal time one of `ar`, `umax`, `implicit` is likelier than each of `ns`, `nce`, `ove`, "
                    "`sampled-softmax`"] == "met"  # fmt: skip


def test_the_newest_of_several_runs_counts_and_other_options_do_not(records):
    other = {"epochs": 1, "threads": 2, "heldout": "0.5%"}
    found = records(
        {"part": "epochs", "name": "hs", "options": other},
        {"part": "epochs", "name": "ns", "diverged": True},
        {"part": "epochs", "name": "ns"},
    )
    assert list(script.newest(found, "epochs")) == ["ns"]
    assert script.finished(script.newest(found, "epochs"))


def test_equal_rows_are_asked_of_those_that_draw(records, tmp_path):
    chosen = Run(found("objectives"), ["rows", "hs", "ar", "softmax"], quick=False)
    chosen.records = records({"part": "rows", "name": "ns", "options": {"epochs": 1}})
    jobs = {job["objective"]: job["options"] for job in script.jobs(chosen)}
    assert list(jobs) == ["ns", "hs", "ar"]
    assert jobs["hs"] == {"epochs": 1, "threads": 2}
    assert jobs["ar"] == {"epochs": 1, "threads": 2, "negatives": 5, "block_size": 8, "draws": 32}


def test_resuming_measures_what_is_not_on_record_with_these_defaults(two_topics, tmp_path, monkeypatch):
    measured = []

    def fake(run, objective, options, text):
        measured.append((objective, text))
        return {"diverged": "made up"}

    monkeypatch.setattr(script, "trained", fake)

    def go(resume=False):
        measured.clear()
        chosen = Run(found("objectives"), ["epochs", "exact", "ns", "softmax"], quick=False, corpus=str(two_topics))
        chosen.folder = tmp_path
        chosen.records = Records(tmp_path / "raw", environment())
        chosen.measure(resume)
        return [each for each in measured if each[1] != "tiny"]

    everything = [("ns", "text"), ("softmax", "excerpt"), ("ns", "excerpt")]
    assert sorted(go()) == sorted(everything)
    assert go(resume=True) == []
    assert sorted(go()) == sorted(everything)
    monkeypatch.setattr(registry.find("ns"), "word_defaults", {"learning_rate": 0.01})
    assert go(resume=True) == [("ns", "text"), ("ns", "excerpt")]


def test_what_is_published_is_what_embedx_tells(records, tmp_path, monkeypatch):
    made = records({"part": "epochs", "name": "ns", "wordsim": 0.654}, {"part": "epochs", "name": "ove", "diverged": True})
    monkeypatch.setattr(registry, "MEASURED_FILE", tmp_path / "measured.json")
    monkeypatch.setattr(script, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text("before\n<!-- table of objectives -->\nold\n<!-- end of the table -->\nafter\n")
    script.publish(made)
    rows = {row[0]: dict(zip(registry.TABLE_HEAD, row, strict=True)) for row in registry.table()}
    assert (rows["ns"]["WordSim-353"], rows["ns"]["words/s"]) == ("0.654", "1,000,000")
    assert rows["ove"]["log-likelihood"] == "diverged"
    assert rows["hs"]["log-likelihood"] == "-"
    text = (tmp_path / "README.md").read_text()
    assert text == f"before\n<!-- table of objectives -->\n{registry.markdown_table()}\n<!-- end of the table -->\nafter\n"
    assert "2026-01-02" in text
    assert "the unigram model has -9.500" in text


def test_what_embedx_tells_is_what_is_on_record():
    """`python -m eval objectives --publish` would change nothing."""
    published = script.published(Records(RESULTS / "objectives.jsonl"))
    assert json.dumps(published, indent=1) + "\n" == registry.MEASURED_FILE.read_text("utf-8")


def test_the_picture_names_every_objective_once(records):
    names = ("ns", "hs", "ar", "umax")
    runs = [{"part": part, "name": name} for part in ("time", "epochs") for name in names]
    picture = script.plot(records(*runs))
    for axes in picture.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted(names)
    assert script.plot(records(runs[0])) is None


@needs_gensim
def test_a_run_and_its_page_from_the_command_line(two_topics, tmp_path):
    words = ["--quick", "--only", "exact", "ns", "softmax", "--set", f"corpus={two_topics}", "--results", str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "eval", "objectives", *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr
    records = Records(tmp_path / "objectives.jsonl")
    rows = rows_of("exact", records)
    assert list(rows) == ["softmax", "ns"]
    assert rows["ns"]["minus softmax"] != "-"
    page = (tmp_path / "objectives.md").read_text()
    assert script.EXPERIMENT.tables["exact"](records) in page
    assert "A trial run" in page
    assert str(tmp_path) not in page
    for record in records.find():
        held = record["result"]["heldout"]
        assert sum(held["sums"]) / sum(held["sizes"]) == pytest.approx(held["log_likelihood"], abs=1e-5)
    with pytest.raises(SystemExit, match="nothing of the part `epochs`"):
        script.published(records)
    (tmp_path / "objectives.md").unlink()
    report(found("objectives"), tmp_path, quick=True)
    assert (tmp_path / "objectives.md").read_text() == page

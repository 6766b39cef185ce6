"""eval/objectives.py: records become a page whatever is missing or diverged, and resuming measures only what is not there."""

import json
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from needs import needs_gensim

from embedx import objectives as registry
from embedx.evaluation import heldout

EVAL = Path(__file__).parent.parent / "eval"
SIZES = [3, 1, 4, 2]  # pairs of each held-out piece


@pytest.fixture
def script(monkeypatch):
    """The script's modules."""
    monkeypatch.syspath_prepend(str(EVAL))
    import objectives
    import objectives_measure
    import objectives_page
    import speed_records

    return SimpleNamespace(command=objectives, measure=objectives_measure, page=objectives_page, Records=speed_records.Records)


def likelihood(seed, level=-9.0):
    """A model's log-probabilities of the same ten pairs."""
    values = level + np.random.default_rng(seed).normal(0, 0.3, sum(SIZES))
    groups = np.repeat([4, 7, 8, 20], SIZES)
    return heldout.Likelihood(float(values.mean()), 0.1, -8.9, 1.1, -9.5, len(values), len(SIZES), values, groups, ["a"])


def run(script, part, name, level=-9.0, diverged=False, speed=1_000_000, options=None, wordsim=0.61):
    """A made-up line of the raw file."""
    options = options or {"epochs": 5, "threads": 2, "heldout": "0.5%"}
    result = {"diverged": "the loss is not finite after 12 words"}
    if not diverged:
        found = likelihood(len(name), level)
        result = {
            "settings": {"negatives": 5, "share": 8, "draws": 32}, "loss": 2.5, "epochs": 5.0, "seconds": 9.0, "words": 5000,
            "words_per_second": speed, "whole": 20.0, "peak_rss": 200_000_000,
            "heldout": found.metrics() | script.measure.by_group(found),
            "scores": {"WordSim-353": wordsim, "SimLex-999": 0.25, "Google analogies": 0.4},
        }  # fmt: skip
    job = {"part": part, "objective": name, "options": options, "defaults": {}}
    return {"environment": "e", "job": job, "ended": "2026-01-02T03:04:05+00:00", "sources": "s", "result": result}


@pytest.fixture
def records(script, tmp_path):
    """Makes records of made-up runs, each given as the arguments of `run` after the first."""

    def make(*runs):
        corpus = {"name": "text8.gz", "words": 17, "bytes": 100, "quick": False}
        machine = {"cpu": "a machine", "cores": 2, "system": "Linux"}
        environment = {"id": "e", "command": "c", "corpus": corpus, "machine": machine, "versions": {"embedx": "0"}}
        lines = [{"environment": environment}, *(run(script, **each) for each in runs)]
        path = tmp_path / "raw.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return script.Records(path)

    return make


def rows_of(page, title):
    """The cells of the table in a section, by objective."""
    lines = page.split(f"## {title}\n")[1].split("\n## ")[0].splitlines()
    rows = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines if line.startswith("|")]
    return {row[0].strip("`"): dict(zip(rows[0], row, strict=True)) for row in rows[2:]}


def test_a_difference_from_the_sums_of_groups_is_the_one_from_all_pairs(script):
    a, b = (likelihood(seed, level) for seed, level in ((1, -9.0), (2, -9.2)))
    exact = heldout.compare(a, b)
    runs = [{"result": {"heldout": script.measure.by_group(each)}} for each in (a, b)]
    assert script.page.paired(*runs) == pytest.approx(exact, abs=1e-6)


def test_runs_on_other_pairs_are_not_compared(script):
    a = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [1, 2]}}}
    b = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [2, 1]}}}
    assert script.page.paired(a, b) is None


def test_rows_come_in_the_order_of_the_registry_and_tell_who_diverged(script, records):
    found = records(
        {"part": "epochs", "name": "umax", "diverged": True},
        {"part": "epochs", "name": "ar", "level": -8.0},
        {"part": "epochs", "name": "ns"},
    )
    page = script.page.page(found, None)
    rows = rows_of(page, "Equal epochs")
    assert list(rows) == ["ns", "ar", "umax"]
    assert rows["umax"]["log-likelihood"] == "diverged"
    assert rows["ns"]["minus ns"] == "-"
    assert rows["ar"]["minus ns"].startswith("+")
    assert rows["ar"]["tuned on: RG-65"] == "-"
    assert "likeliest under `ar`" in page
    assert "more than two standard errors: `ar`" in page
    assert "equal epochs: diverged: `umax`" in page
    assert "Not measured: Equal time, Beside the exact softmax, Equal rows." in page


def test_the_share_of_the_gap_closed(script, records):
    options = {"epochs": 5, "max_vocab": 5000, "threads": 2, "heldout": "2%"}
    found = records(*({"part": "exact", "name": name, "options": options} for name in ("ns", "softmax")))
    for record, value in zip(found.records, (-9.2, -8.5), strict=True):
        record["result"]["heldout"]["log_likelihood"] = value
    rows = rows_of(script.page.page(found, None), "Beside the exact softmax")
    assert list(rows) == ["softmax", "ns"]
    assert rows["ns"]["share of the gap"] == "30.0 %"
    assert rows["softmax"]["share of the gap"] == "100.0 %"
    assert rows["softmax"]["minus softmax"] == "-"
    found.find(objective="softmax")[0]["result"]["heldout"]["log_likelihood"] = -9.6
    page = script.page.page(found, None)
    assert rows_of(page, "Beside the exact softmax")["ns"]["share of the gap"] == "-"
    assert "the exact softmax is below the unigram model" in page
    without = script.page.page(records({"part": "exact", "name": "ns", "options": options}), None)
    assert rows_of(without, "Beside the exact softmax")["ns"]["share of the gap"] == "-"


def test_targets_are_judged_by_the_records(script, records):
    page = script.page.page(
        records(
            {"part": "epochs", "name": "ns", "wordsim": 0.7},
            {"part": "epochs", "name": "hs", "wordsim": 0.59},
            {"part": "rows", "name": "ns", "options": {"epochs": 1}},
            {"part": "rows", "name": "hs", "options": {"epochs": 1}, "speed": 450_000},
            {"part": "rows", "name": "umax", "options": {"epochs": 1, "draws": 32}, "speed": 600_000},
            {"part": "time", "name": "ns"},
            {"part": "time", "name": "umax", "level": -8.0},
            {"part": "time", "name": "ove", "diverged": True},
        ),
        None,
    )
    verdicts = {line.split(" | ")[0]: line.split(" | ")[-1].strip(" |") for line in page.splitlines() if "met" in line}
    assert verdicts["| `ns`: WordSim-353 at least 0.60 after 5 epochs"] == "met"
    assert verdicts["| `hs`: WordSim-353 at least 0.60 after 5 epochs"] == "**not met**"
    assert verdicts["| `hs`: at equal rows at most 2.5 × as slow as `ns`"] == "met"
    assert verdicts["| `umax`: at equal rows at most 1.5 × as slow as `ns`"] == "**not met**"
    assert verdicts["| at equal time one of `ar`, `umax`, `implicit` is likelier than each of `ns`, `nce`, `ove`, "
                    "`sampled-softmax`"] == "met"  # fmt: skip


def test_the_newest_of_several_runs_counts_and_other_options_do_not(script, records):
    other = {"epochs": 1, "threads": 2, "heldout": "0.5%"}
    found = records(
        {"part": "epochs", "name": "hs", "options": other},
        {"part": "epochs", "name": "ns", "diverged": True},
        {"part": "epochs", "name": "ns"},
    )
    assert list(script.page.newest(found, "epochs")) == ["ns"]
    assert script.page.finished(script.page.newest(found, "epochs"))


def test_equal_rows_are_asked_of_those_that_draw(script, records, monkeypatch):
    arguments = ["--parts", "rows", "--objectives", "hs", "ar", "softmax", "--report-only"]
    plan = script.command.Plan(
        script.command.parsed(arguments), records({"part": "rows", "name": "ns", "options": {"epochs": 1}})
    )
    jobs = {job["objective"]: job["options"] for job in plan.jobs("rows")}
    assert list(jobs) == ["ns", "hs", "ar"]
    assert jobs["hs"] == {"epochs": 1, "threads": 2}
    assert jobs["ar"] == {"epochs": 1, "threads": 2, "negatives": 5, "share": 8, "draws": 32}


def test_resuming_measures_what_is_not_on_record_with_these_defaults(script, two_topics, tmp_path, monkeypatch):
    measured = []

    def fake(objective, options, corpus, place):
        measured.append((objective, corpus))
        return {"diverged": "made up"}

    monkeypatch.setattr(script.command, "run", fake)
    monkeypatch.setattr(script.command, "tests", lambda data: [])

    def go(*more):
        measured.clear()
        arguments = ["--corpus", str(two_topics), "--raw", str(tmp_path / "raw"), "--parts", "epochs", "exact", "--objectives"]
        script.command.measure_all(script.command.parsed([*arguments, "ns", "softmax", *more]), tmp_path)
        return [each for each in measured if each[1] != "tiny"]

    everything = [("ns", "text"), ("softmax", "excerpt"), ("ns", "excerpt")]
    assert sorted(go()) == sorted(everything)
    assert go("--resume") == []
    assert sorted(go()) == sorted(everything)
    monkeypatch.setattr(registry.find("ns"), "word_defaults", {"learning_rate": 0.01})
    assert go("--resume") == [("ns", "text"), ("ns", "excerpt")]


def test_what_is_published_is_what_embedx_tells(script, records, tmp_path, monkeypatch):
    found = records({"part": "epochs", "name": "ns", "wordsim": 0.654}, {"part": "epochs", "name": "ove", "diverged": True})
    monkeypatch.setattr(registry, "MEASURED_FILE", tmp_path / "measured.json")
    monkeypatch.setattr(script.command, "README", tmp_path / "README.md")
    (tmp_path / "README.md").write_text("before\n<!-- table of objectives -->\nold\n<!-- end of the table -->\nafter\n")
    script.command.publish(found)
    rows = {row[0]: dict(zip(registry.TABLE_HEAD, row, strict=True)) for row in registry.table()}
    assert (rows["ns"]["WordSim-353"], rows["ns"]["words/s"]) == ("0.654", "1,000,000")
    assert rows["ove"]["log-likelihood"] == "diverged"
    assert rows["hs"]["log-likelihood"] == "-"
    text = (tmp_path / "README.md").read_text()
    assert text == f"before\n<!-- table of objectives -->\n{registry.markdown_table()}\n<!-- end of the table -->\nafter\n"
    assert "2026-01-02" in text
    assert "the unigram model has -9.500" in text


def test_the_picture_names_every_objective_once(script, records, tmp_path):
    runs = [{"part": part, "name": name} for part in ("time", "epochs") for name in ("ns", "hs", "ar", "umax")]
    file = script.page.plot(records(*runs), tmp_path / "picture.png")
    assert file.stat().st_size > 10_000
    assert script.page.plot(records(runs[0]), tmp_path / "none.png") is None


@needs_gensim
def test_a_run_and_its_page_from_the_command_line(two_topics, tmp_path):
    page = tmp_path / "page.md"
    arguments = ["--quick", "--parts", "exact", "--objectives", "ns", "softmax", "--corpus", str(two_topics)]
    command = [sys.executable, str(EVAL / "objectives.py"), *arguments, "--output", str(page)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    rows = rows_of(page.read_text(), "Beside the exact softmax")
    assert list(rows) == ["softmax", "ns"]
    assert rows["ns"]["minus softmax"] != "-"
    assert str(tmp_path) not in page.read_text()
    for line in page.with_suffix(".jsonl").read_text().splitlines()[1:]:
        found = json.loads(line)["result"]["heldout"]
        assert sum(found["sums"]) / sum(found["sizes"]) == pytest.approx(found["log_likelihood"], abs=1e-5)

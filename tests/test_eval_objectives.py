"""eval objectives: records become tables whatever is missing or diverged, and resuming measures only what is not there."""

import dataclasses
import json

import numpy as np
import pytest
from eval_setup import RESULTS, ROOT, Records, Run, environment, found, made_up
from eval_setup import rows_of as rows_of_table
from needs import needs_gensim

from embedx import objectives as registry
from embedx.evaluation import heldout, statistics
from eval import objectives as script
from eval import objectives_compared as compared
from eval.experiment import report
from tests import forked

SIZES = [3, 1, 4, 2]  # pairs of each held-out piece


def likelihood(seed, level=-9.0):
    """A model's log-probabilities of the same ten pairs."""
    values = level + np.random.default_rng(seed).normal(0, 0.3, sum(SIZES))
    groups = np.repeat([4, 7, 8, 21], SIZES)
    return heldout.Likelihood(float(values.mean()), 0.1, -8.9, 1.1, -9.5, len(values), len(SIZES), values, groups, ["a"])


def run(
    part, name, level=-9.0, diverged=False, speed=1_000_000, options=None, wordsim=0.61, seed=None, seconds=9.0, pooled=None,
    draw=None, even=0.0,
):  # fmt: skip
    """A made-up line of the raw file; spans of even number are likelier by `even`."""
    length = {"time_budget": "60s"} if part == "time" else {"epochs": 5}
    options = options or {**length, "threads": 2, "heldout": "0.5%"}
    options = options if seed is None else {**options, "seed": seed}
    result = {"diverged": "the loss is not finite after 12 words"}
    if not diverged:
        found = likelihood(len(name) if draw is None else draw, level)
        found.values[found.groups % 2 == 0] += even
        found = dataclasses.replace(found, log_likelihood=float(found.values.mean()))
        result = {
            "settings": {"negatives": 5, "share": 8, "draws": 32}, "loss": 2.5, "words": 5000,
            "epochs": float(options.get("epochs", 12.0)), "seconds": seconds,
            "words_per_second": speed, "whole": 20.0, "peak_rss": 200_000_000,
            "heldout": found.metrics() | script.by_group(found),
            "scores": {"WordSim-353": wordsim, "SimLex-999": 0.25, "Google analogies": 0.4},
        }  # fmt: skip
        if pooled is not None:
            noise = np.random.default_rng(0).normal(0, 0.02, script.word_tests.RESAMPLES)
            result["pooled"] = {"score": pooled, "pairs": 1800, "resampled": (pooled + noise).tolist()}
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
    runs = {name: [{"result": {"heldout": script.by_group(each)}}] for name, each in (("a", a), ("b", b))}
    found = statistics.standings(compared.likelihoods(runs), "b")["a"].behind
    assert (found.value, found.error) == pytest.approx(heldout.compare(a, b), abs=1e-6)


# ---- several seeds, and the best point within a time


def some_runs(values, seed=0, pooled=None):
    """Runs of an objective whose log-likelihoods are these, on the same pairs."""
    runs = []
    for k, value in enumerate(values):
        job, result = run("epochs", "ns", value, seed=1 + k, pooled=None if pooled is None else pooled[k], draw=seed)
        runs.append({"job": job, "result": result})
    return runs


def test_the_error_of_a_difference_has_the_spans_and_the_seeds():
    a, b = some_runs([-9.0, -8.9, -9.1]), some_runs([-9.3, -9.25, -9.2], seed=1)
    variances = [np.var(values, ddof=1) for values in ([-9.0, -8.9, -9.1], [-9.3, -9.25, -9.2])]
    gains = np.mean([each["result"]["heldout"]["sums"] for each in a], axis=0)
    gains -= np.mean([each["result"]["heldout"]["sums"] for each in b], axis=0)
    left = gains - np.array(SIZES) * gains.sum() / 10
    found = statistics.standings(compared.likelihoods({"a": a, "b": b}), "b")["a"].behind
    assert found.value == pytest.approx(gains.sum() / 10)
    assert found.error == pytest.approx(np.sqrt(4 / 3 * (left**2).sum() / 100 + np.mean(variances) * 2 / 3), rel=1e-5)


def test_similarity_is_compared_on_the_same_resamples():
    a, b = some_runs([-9, -9], pooled=[0.5, 0.52]), some_runs([-9, -9], pooled=[0.4, 0.42])
    found = script.word_tests.similarity(a, b)
    assert found.value == pytest.approx(0.1)
    assert found.error == pytest.approx(0.01 * np.sqrt(2))  # that of the seeds: what the pairs do to one they do to the other
    assert script.word_tests.similarity(a, some_runs([-9])) is None
    assert set(compared.similarities({"a": a, "b": some_runs([-9])})) == {"a"}


def epochs_of(n, **more):
    return {"part": "time" if n != 5 else "epochs", "options": {"epochs": n, "threads": 2, "heldout": "0.5%"}, "seed": 1} | more


def test_the_best_point_is_chosen_on_spans_that_it_is_not_scored_on(records):
    found = records(
        {"part": "time", "name": "ns", "level": -9.4, "seed": 1, "even": -0.5},
        epochs_of(3, name="ns", level=-9.3, even=0.4, seconds=30),
        epochs_of(5, name="ns", level=-9.0, even=0.0, seconds=50),
        epochs_of(10, name="ns", level=-8.0, seconds=90),  # too long
        epochs_of(3, name="ns", level=-9.3, even=0.4, seconds=30, seed=2),
        {"part": "time", "name": "hs", "level": -9.2, "seed": 1},
    )
    points = compared.points(found)
    assert {name: sorted(of) for name, of in points.items()} == {"ns": ["3", "5", "end"], "hs": ["end"]}
    assert compared.best_label(points["ns"]) == "3"  # likelier only where it is chosen
    assert [compared.seed_of(each) for each in compared.best_points(found)["ns"]] == [1, 2]
    table = script.equal_time(found)
    [ns] = [line for line in table.splitlines() if "`ns` | 3.0" in line]
    test = np.mean([compared.mean_of(each, compared.TEST) for each in points["ns"]["3"]])
    assert f"| {test:.3f} |" in ns
    assert "| 3, 5 |" in ns


def test_as_much_is_run_as_fits_in_the_time_and_the_best_with_every_seed(records, tmp_path):
    chosen = Run(found("objectives"), ["time", "ns"], quick=False)
    chosen.records = records()
    levels = {3: -9.0, 5: -8.0, 10: -8.5}
    made = []
    for job in script.jobs(chosen):
        options = job["options"]
        length = options.get("epochs")
        made.append((job["part"], length or options["time_budget"], options["seed"]))
        result = run("time", "ns", levels.get(length, -9.5), seconds=4.0 * (length or 15))[1]
        chosen.records.add(job, result, "sources")
    fits = [("time", "60s", 1), ("time", 3, 1), ("epochs", 5, 1), ("time", 10, 1)]
    assert made == [*fits, ("epochs", 5, 2), ("epochs", 5, 3)]


def test_a_part_of_several_seeds_has_a_row_of_means(records):
    runs = [{"part": "epochs", "name": name, "seed": seed, "level": level, "wordsim": 0.6 + seed / 100, "pooled": 0.4 + shift,
             "draw": 0} for name, level, shift in (("ns", -9.0, 0.0), ("ar", -8.0, 0.1)) for seed in (1, 2, 3)]  # fmt: skip
    rows = rows_of("epochs", records({"part": "epochs", "name": "ns", "level": -1.0}, *runs))  # the first held out other text
    assert (rows["ns"]["seeds"], rows["ar"]["seeds"]) == ("3", "3")
    assert rows["ns"]["WordSim-353"] == "0.620"
    assert (rows["ns"]["rank"], rows["ar"]["rank"]) == ("2", "1")
    assert (rows["ns"]["rank by it"], rows["ar"]["rank by it"]) == ("2", "1")
    assert rows["ar"]["minus ns"].startswith("+1.000")


def test_runs_on_other_pairs_are_not_compared():
    a = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [1, 2]}}}
    b = {"result": {"heldout": {"sums": [1.0, 2.0], "sizes": [2, 1]}}}
    found = compared.likelihoods({"a": [a], "b": [b]})
    assert statistics.standings(found, "a")["b"].behind is None
    assert statistics.orders(found)["a", "b"] == 0


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
    assert ahead["significantly likelier than `ns`"] == "`ar`"
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
            {"part": "time", "name": "ns", "draw": 0},
            {"part": "time", "name": "umax", "level": -8.0, "draw": 0},
            {"part": "time", "name": "ove", "diverged": True},
        )
    )
    verdicts = {line.split(" | ")[0]: line.split(" | ")[-1].strip(" |") for line in page.splitlines() if "met" in line}
    assert verdicts["| `ns`: WordSim-353 at least 0.60 after 5 epochs"] == "met"
    assert verdicts["| `hs`: WordSim-353 at least 0.60 after 5 epochs"] == "**not met**"
    assert verdicts["| `hs`: at equal rows at most 2.5 × as slow as `ns`"] == "met"
    assert verdicts["| `umax`: at equal rows at most 1.5 × as slow as `ns`"] == "**not met**"
    assert verdicts["| at equal time one of `ar`, `umax`, `implicit` is significantly likelier than each of `ns`, `nce`, "
                    "`ove`, `sampled-softmax`"] == "met"  # fmt: skip


def test_the_newest_of_several_runs_counts_and_other_options_do_not(records):
    other = {"epochs": 1, "threads": 2, "heldout": "0.5%"}
    found = records(
        {"part": "epochs", "name": "hs", "options": other},
        {"part": "epochs", "name": "ns", "diverged": True},
        {"part": "epochs", "name": "ns"},
    )
    assert list(compared.newest(found, "epochs")) == ["ns"]
    assert compared.finished(compared.newest(found, "epochs"))


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

    everything = [*[("ns", "text")] * 3, ("softmax", "excerpt"), ("ns", "excerpt")]  # three seeds
    assert sorted(go()) == sorted(everything)
    assert go(resume=True) == []
    assert sorted(go()) == sorted(everything)
    monkeypatch.setattr(registry.find("ns"), "word_defaults", {"learning_rate": 0.01})
    assert go(resume=True) == [*[("ns", "text")] * 3, ("ns", "excerpt")]


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
    runs = [{"part": part, "name": name, "level": -8.7} for part in ("time", "epochs") for name in names]
    picture = script.plot(records(*runs))
    for axes in picture.axes:
        assert sorted(text.get_text() for text in axes.texts) == sorted(names)
    assert script.plot(records(runs[0])) is None


@needs_gensim
def test_a_run_and_its_page_from_the_command_line(two_topics, tmp_path):
    words = ["--quick", "--only", "exact", "ns", "softmax", "--set", f"corpus={two_topics}", "--results", str(tmp_path)]
    forked.run("objectives", *words, cwd=ROOT, env=forked.environment(tmp_path), code=forked.EVAL)
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

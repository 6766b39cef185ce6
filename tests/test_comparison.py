"""`embedx compare`: runs that finish, diverge, crash, are interrupted or resume."""

import json
import re
import sys
from pathlib import Path

import pytest

import embedx
from embedx.comparison import compare as comparison, runs
from embedx.comparison.data import variants_of
from embedx.comparison.labels import LabelledData
from embedx.comparison.records import FILE
from embedx.comparison.runs import Runner
from embedx.comparison.settings import USUAL_OBJECTIVES, CompareSettings
from embedx.comparison.tables import sentences
from embedx.comparison.text import TextData
from embedx.errors import DataError, DivergedError, in_python
from embedx.runtime.progress import Silent
from embedx.tasks.__main__ import main as run_of_request
from embedx.tasks.requests import request_of_json
from embedx.text.held_out import spans_of, usual_share
from tests.support import forked
from tests.support.commands import invoke, words_of
from tests.support.comparison_records import assert_page_has_numbers, run, small_text
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data


@pytest.fixture
def started(monkeypatch):
    """(seed, objective) of each run that is started; those of hs, ar and implicit diverge, crash or
    are killed.
    """
    watched = runs.watched
    started = []
    scripts = {
        "hs": "import sys; print('[\"not finite\"]', file=sys.stderr); sys.exit(3)",
        "ar": "raise MemoryError('no room')",
        "implicit": "import os; os.kill(os.getpid(), 9)",
    }

    def ended(command, folder):
        request = request_of_json(Path(command[-1]).read_text("utf-8"))
        started.append((request.options["seed"], request.objective))
        script = scripts.get(request.objective)
        if script is not None:
            return watched([sys.executable, "-c", script], folder)
        return (watched if len(started) == 2 else forked.watched)(command, folder)

    monkeypatch.setattr(runs, "watched", ended)
    return started


def test_finished_diverged_and_crashed_runs_are_reported_and_not_repeated(
    two_topics, tmp_path, started
):
    data, settings = small_text(two_topics, tmp_path)
    names = ["hs", "ns", "ar", "ove"]
    folder = tmp_path / "out"
    outcome = comparison.compare(data, names, settings, folder)
    assert started == [(seed, name) for seed in (1, 2) for name in names]  # in turn
    assert {line.objective for line in outcome.ranking.lines} == {"ns", "ove"}
    assert all(line.seeds == [1, 2] and line.epochs == 3 for line in outcome.ranking.lines)
    troubles = sentences(outcome.ranking.troubles, in_python)
    assert "hs, seed 2: diverged: not finite" in troubles
    assert "ar, seed 1: failed: MemoryError: no room" in troubles
    first, second = (line.standings["log_likelihood"] for line in outcome.ranking.lines)
    assert second.behind.value == pytest.approx(second.score.value - first.score.value)
    assert outcome.ranking.unigram < first.score.value
    assert first.items > 1000
    assert max(line.peak or 0 for line in outcome.ranking.lines) > 1e7 or sys.platform != "linux"
    text, numbers = ((folder / name).read_text("utf-8") for name in ("compare.html", "compare.csv"))
    assert_page_has_numbers(text, numbers)
    assert not (folder / "work").exists()

    started.clear()
    with refused(None, "resume", "overwrite", kind=DataError, file=folder):
        comparison.compare(data, names, settings, folder)
    again = comparison.compare(data, [*names, "implicit"], settings, folder, resume=True)
    assert started == [
        (1, "ar"),
        (1, "implicit"),
        (2, "ar"),
        (2, "implicit"),
    ]  # failed before, or new
    killed = "implicit, seed 2: failed: killed by signal 9, as by the system when memory is short"
    assert killed in sentences(again.ranking.troubles, in_python)
    assert (folder / "compare.csv").read_text("utf-8") == numbers
    assert len((folder / FILE).read_text("utf-8").splitlines()) == 1 + 2 * 5
    other, _ = small_text(two_topics, tmp_path, epochs=2)
    with refused(
        None,
        "output",
        kind=DataError,
        file=folder / FILE,
        quoting="until",
    ):
        comparison.compare(other, names, other.settings, folder, resume=True)


def test_neither_objectives_nor_folder_need_be_named(two_topics, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        runs.Runner, "run", lambda runner, name, seed, options: run(name, seed, -2.0)
    )
    outcome = embedx.compare(str(two_topics), epochs=1, seeds=1, threads=1, heldout=0.3)
    assert outcome.folder.resolve() == tmp_path / f"{two_topics.stem}.compare"
    assert "ns" in [line.objective for line in outcome.ranking.lines]


def test_objectives_are_named_in_one_string_and_the_outcome_prints_as_a_table(
    two_topics, tmp_path, monkeypatch
):
    def measured(runner, name, seed, options):
        return {"result": run(name, seed, {"ns": -2.0, "hs": -3.0}[name])["result"]}

    monkeypatch.setattr(runs.Runner, "run", measured)
    settings = {"epochs": 1, "seeds": 2, "threads": 1, "heldout": 0.3}
    outcome = embedx.compare(str(two_topics), "ns, hs", tmp_path / "out", **settings)
    assert [line.objective for line in outcome.ranking.lines] == ["ns", "hs"]
    heading, first, second, *_ = repr(outcome).splitlines()
    assert heading.split()[:2] == ["objective", "rank"]
    assert [first.split()[0], second.split()[0]] == ["ns", "hs"]
    assert repr(outcome).endswith("add 3 by seeds=5 and resume=True.")
    html = outcome._repr_html_()
    assert html.startswith('<table class="dataframe"><thead><tr><th>objective</th><th>rank</th>')
    assert "<tr><td>ns</td><td>1</td>" in html
    assert "<p>Each was trained with 2 seeds" in html
    assert "resume=True.</p>" in html
    page = (tmp_path / "out" / "compare.html").read_text("utf-8")
    for text in (repr(outcome), page):
        assert re.search(r"(?<![\w-])--[a-z]", re.sub("(?s)<style>.*?</style>", "", text)) is None


@pytest.mark.parametrize("max_scored", [0, 1000])
def test_objectives_that_are_not_named_are_the_usual_ones_and_softmax_where_it_is_affordable(
    two_topics, tmp_path, monkeypatch, capsys, max_scored
):
    monkeypatch.setattr(comparison, "MAX_SCORED", max_scored)
    monkeypatch.setattr(
        runs.Runner,
        "run",
        lambda runner, name, seed, options: {"result": run(name, seed, -2.0)["result"]},
    )
    folder = tmp_path / "out"
    typed = words_of("--epochs 1 --seeds 1 --threads 1 --heldout 0.3 --json --output")
    invoke("compare", str(two_topics), *typed, str(folder))
    printed = capsys.readouterr()
    names = list(USUAL_OBJECTIVES) + ["softmax"] * (max_scored > 0)
    assert {entry["objective"] for entry in json.loads(printed.out)["objectives"]} == {*names}
    assert f"--objectives {','.join(names)}; name others" in printed.err


def test_a_failed_run_names_settings_as_python_or_the_command_line_does(
    two_topics, tmp_path, monkeypatch, capsys
):
    why = [["learning_rate", None], ": try another"]
    failed = {"diverged": why}
    finished = run("ns", 1, -2.0)["result"]
    monkeypatch.setattr(
        runs.Runner,
        "run",
        lambda runner, name, seed, options: failed if name == "hs" else {"result": finished},
    )
    settings = {"epochs": 1, "seeds": 1, "threads": 1}
    outcome = embedx.compare(str(two_topics), "ns,hs", tmp_path / "out", **settings)
    assert "hs, seed 1: diverged: learning_rate: try another" in repr(outcome).splitlines()
    typed = words_of("--objectives ns,hs --epochs 1 --seeds 1 --threads 1 --output")
    invoke("compare", str(two_topics), *typed, str(tmp_path / "typed"))
    printed = capsys.readouterr().out.splitlines()
    assert "hs, seed 1: diverged: --learning-rate: try another" in printed


def test_the_share_that_is_held_out_and_the_epochs_suit_a_short_text(tmp_path, monkeypatch):
    """Sixty seconds of training are hundreds of epochs of ten thousand words."""
    finished = run("ns", 1, -2.0)["result"]
    monkeypatch.setattr(runs.Runner, "run", lambda *arguments: {"result": finished})
    file = tmp_path / "text.txt"
    file.write_text("one two three four five\n" * 2000, "utf-8")
    notes = Notes()
    settings = CompareSettings(seeds=1)
    data = TextData([str(file)], {}, settings)
    outcome = comparison.compare(data, ["ns", "hs"], settings, tmp_path / "out", progress=notes)
    assert data.run_options["heldout"] == usual_share(12)
    assert outcome.settings.limit == {"epochs": 5}
    assert lines_with(notes.notes, "--heldout 0.17", "10,000 words")
    assert lines_with(notes.notes, "--epochs 5", "overfit")

    file.write_text("one two three four five\n" * 400, "utf-8")
    data = TextData([str(file)], {}, settings)
    with refused_data("text.txt", quoting=["2,000 words", "3,001"]):
        comparison.compare(data, ["ns", "hs"], settings, tmp_path / "short")


@pytest.mark.parametrize(
    ("n", "share"),
    [(3, None), (4, 0.5), (11, 0.19), (20, 0.1), (100, 0.08), (800, 0.01), (100_000, 0.01)],
)
def test_as_many_pieces_are_held_out_as_intervals_need(n, share):
    assert usual_share(n) == share
    if share is not None:
        spans, _ = spans_of(n, share)
        assert len(spans) >= min(2 if n < 80 else 8, n)


def test_ctrl_c_ends_a_comparison_with_the_finished_runs(two_topics, tmp_path, monkeypatch):
    data, settings = small_text(two_topics, tmp_path)
    records = iter([{"result": run("ns", 1, -2.0)["result"]}])

    def measured(*arguments):
        try:
            return next(records)
        except StopIteration:
            raise KeyboardInterrupt from None

    monkeypatch.setattr(runs.Runner, "run", measured)
    outcome = comparison.compare(data, ["ns", "ove"], settings, tmp_path / "out")
    assert outcome.interrupted
    assert outcome.ranking.advice[0] == "Only ns finished: log-likelihood -2.000."
    assert_page_has_numbers(
        *((tmp_path / "out" / name).read_text("utf-8") for name in ("compare.html", "compare.csv"))
    )
    nothing = comparison.compare(data, ["ns"], settings, tmp_path / "nothing")
    assert nothing.interrupted
    assert nothing.ranking.lines == []


def test_a_run_ends_with_the_comparison(tmp_path, monkeypatch):
    """Ctrl-C leaves no process behind."""
    started = []
    usual = runs.subprocess.Popen

    def popen(*arguments, **options):
        started.append(usual(*arguments, **options))
        return started[-1]

    def interrupt(pid):
        raise KeyboardInterrupt

    monkeypatch.setattr(runs.subprocess, "Popen", popen)
    monkeypatch.setattr(runs, "resident_peak", interrupt)
    with pytest.raises(KeyboardInterrupt):
        runs.watched([sys.executable, "-c", "import time; time.sleep(600)"], tmp_path)
    assert started[0].returncode == -9


NUMBA_MESSAGE = """Traceback (most recent call last):
  File "f.py", line 5, in <module>
    f(1.0)
numba.core.errors.TypingError: \x1b[1mFailed in nopython mode pipeline\x1b[0m
\x1b[1m\x1b[1mNo implementation of function\x1b[0m
During: typing of intrinsic-call at f.py (4)

File "f.py", line 4:
    \x1b[1m^\x1b[0m
"""


@pytest.mark.parametrize(
    ("complaints", "expected"),
    [
        (NUMBA_MESSAGE, "numba.core.errors.TypingError: Failed in nopython mode pipeline"),
        ("reading\n\x1b[31mnot finite\x1b[0m\n", "not finite"),
        ('reading\n[["dim", 0], ": too few"]\n', [["dim", 0], ": too few"]),
        ("Traceback (most recent call last):\n", ""),
        ("", ""),
    ],
)
def test_the_reason_of_a_failed_run_is_its_exception_without_colours(complaints, expected):
    assert runs.reason(complaints) == expected


def test_labelled_data_by_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(runs, "watched", forked.watched)
    typed = words_of("compare digits --objectives softmax,ns --epochs 2 --seeds 1 --threads 1")
    invoke(*typed, "--json")
    result = json.loads(capsys.readouterr().out)
    assert result["ranked_by"] == "log_likelihood"
    assert [entry["objective"] for entry in result["objectives"]] == ["softmax", "ns"]
    best = result["objectives"][0]
    assert best["accuracy"] > 0.8
    assert best["accuracy_items"] == 1000
    assert "p@5" not in best  # rows have one label
    assert best["ndcg@5"] >= best["accuracy"]
    (line,) = [
        json.loads(line)
        for line in (tmp_path / "digits.compare" / FILE).read_text().splitlines()
        if '"softmax"' in line
    ]
    assert [point[0] for point in line["result"]["curve"]] == [1, 2]  # of the validation data
    assert_page_has_numbers(
        *(
            (tmp_path / "digits.compare" / name).read_text("utf-8")
            for name in ("compare.html", "compare.csv")
        )
    )


def test_a_share_of_the_rows_is_for_the_curve_unless_it_is_turned_off():
    for typed, expected in ((None, "0.1"), ("0", None)):
        data = LabelledData(["digits"], {}, CompareSettings(validation=typed))
        facts = data.prepare(Silent())
        assert facts["validation"] == (expected or "none")
        assert data.request("ns").options.get("validation") == expected


def test_runs_on_text_have_the_subwords_that_were_asked_for(two_topics):
    data = TextData([str(two_topics)], {"subwords": "3-4", "buckets": 70}, CompareSettings())
    data.check(["ns", "hs"])
    typed = data.request("ns").options
    assert (typed["subwords"], typed["buckets"]) == ("3-4", 70)
    with refused("subwords", value="4-3"):
        TextData([str(two_topics)], {"subwords": "4-3"}, CompareSettings()).check(["ns"])


def test_an_objective_is_tried_with_settings_of_its_own(two_topics, write, tmp_path):
    assert variants_of("ns, ova:loss=squared-hinge,weights=tree,hs:") == [
        "ns",
        "ova:loss=squared-hinge,weights=tree",
        "hs:",
    ]
    rows = write("a 0:1\nb 1:1\n" * 200)
    data = LabelledData([rows], {}, CompareSettings(), test=rows)
    names = ["softmax", "ova:loss=squared-hinge,weights=tree", "ova:learning-rate=0.5"]
    data.check(names)
    data.prepare(Silent())
    assert data.converging == {names[1]}
    runner = runs.Runner(data, CompareSettings(), tmp_path)
    requests = [runner.request(name, 1, {}, {"time_budget": 60.0}) for name in names]
    assert [("time_budget" in r.options, "validation" in r.options) for r in requests] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    assert requests[1].objective == "ova"
    assert requests[1].options["loss"] == "squared-hinge"
    assert requests[1].options["weights"] == "tree"
    data = TextData([str(two_topics)], {}, CompareSettings())
    data.check(["ns:window=3"])
    for name, setting, value, quoted in (
        ("ns:windw=3", "objectives", "ns:windw=3", "window?"),
        ("ns:epochs=3", "objectives", "ns:epochs=3", "epochs "),
        ("ns:window=x", "window", "x", ""),
        ("nss:window=3", "objective", "nss", ""),
    ):
        with refused(setting, value=value, quoting=quoted):
            data.check([name])


def test_the_reason_of_a_diverged_run_names_no_model_that_is_deleted(
    two_topics, tmp_path, monkeypatch, capsys
):
    def diverge(request, progress):
        raise DivergedError("the loss rose", "lower the rate", f"the model is in {request.output}")

    data, settings = small_text(two_topics, tmp_path)
    request = Runner(data, settings, tmp_path).request("ns", 1, {}, settings.limit)
    file = tmp_path / "request.json"
    file.write_text(request.to_json(), "utf-8")
    monkeypatch.setattr("embedx.tasks.__main__.run_request", diverge)
    monkeypatch.setattr(sys, "argv", ["embedx.tasks", str(file)])
    with pytest.raises(SystemExit, match="3"):
        run_of_request()
    last_line = capsys.readouterr().err.splitlines()[-1]
    assert json.loads(last_line) == ["the loss rose", "; ", "lower the rate"]


@pytest.mark.parametrize(("seconds", "planned"), [(1, "0:04"), (90, "6:00"), (1800, "2:00:00")])
def test_a_plan_says_how_long_training_takes(seconds, planned):
    assert f" = {planned} of training" in CompareSettings(time_budget=seconds, seeds=2).plan(2)


def test_objectives_are_compared_without_neighbours_unless_one_names_some(tmp_path):
    """Blended with the labels of the same neighbours, objectives would differ less."""
    file = tmp_path / "rows.txt"
    file.write_text("__label__a one\n__label__b two\n" * 20)
    data = LabelledData([str(file)], {}, CompareSettings(epochs=1), test=str(file))
    data.check(["softmax", "ova:neighbours=10"])
    data.prepare(Silent())
    assert data.request("softmax").options["neighbours"] == "none"
    assert data.request("ova:neighbours=10").options["neighbours"] == "10"

"""`embedx compare`: what follows from numbers, the page, and runs that finish, diverge, crash or
resume.
"""

import csv
import json
import math
import sys
from pathlib import Path

import pytest

import embedx
from embedx.comparison import compare as comparison, ranking as ranking_of, runs, tables, tuning
from embedx.comparison.data import listed
from embedx.comparison.labels import LabelledData, looks_labelled
from embedx.comparison.records import FILE, Records
from embedx.comparison.settings import MAX_TRIALS, CompareSettings
from embedx.comparison.text import TextData
from embedx.errors import DataError, InapplicableError, Setting
from embedx.evaluation.statistics import Score
from embedx.pages import charts
from embedx.runtime.progress import Silent
from embedx.tasks.requests import request_of_json
from tests.support import forked
from tests.support.commands import invoke, words_of
from tests.support.comparison_records import ranked, run
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data
from tests.support.report_models import Page

# ---- what follows


def test_equal_scores_lie_in_the_middle_of_an_axis():
    axis = charts.Axis("P@1", 1.0, 1.0 + 2**-52, 0, 100)
    assert axis(1.0) == 50
    assert "1.0" in [label for _, label in axis.ticks()]


def test_the_best_is_reported_with_its_lead_and_what_a_faster_one_costs():
    ranking = ranked(
        run("ns", 1, -8.5, 3000, 0.4),
        run("ns", 2, -8.52, 3200, 0.4),
        run("ar", 1, -8.2, 1000, 0.3),
        run("ar", 2, -8.22, 1100, 0.3),
    )
    assert [line.objective for line in ranking.lines] == ["ar", "ns"]
    assert ranking.advice == [
        "ar is best in log-likelihood, -8.210, 0.300 ± 0.014 above ns, the next.",
        "ns goes through 3.0 times as many words per second as ar, and is 0.300 below ar.",
        "In word similarity ns is best (0.400).",
        *ranking_of.about_few_seeds(n_objectives=2, n_seeds=2),
    ]
    assert ranking.first.pace == 1050


def test_objectives_tied_for_the_first_rank_are_reported_with_the_fastest():
    values = {"ar": (-8.45, -8.25, 1000), "ns": (-8.5, -8.3, 3000)}
    ranking = ranked(
        *(
            run(name, seed, of[seed - 1], of[2], 0.4)
            for name, of in values.items()
            for seed in (1, 2)
        )
    )
    assert ranking.advice == [
        (
            "ar and ns share the first rank in log-likelihood (ar has -8.350): no difference to ar"
            " is significant."
        ),
        "Of these ns is the fastest, with 3,000 words per second.",
        (
            "In word similarity ar and ns share the first rank (0.400): no difference between them"
            " is significant."
        ),
        *ranking_of.about_few_seeds(n_objectives=2, n_seeds=2),
    ]
    assert [line.standings["log_likelihood"].rank for line in ranking.lines] == [1, 1]


def test_a_model_that_learned_nothing_and_a_single_seed_are_reported():
    ranking = ranked(run("ns", 1, -8.5), run("ove", 1, -9.5))
    assert lines_with(ranking.advice, "ove ", "unigram baseline (-9.000)")
    assert "`--seeds 5 --resume`" in ranking.advice[-1]
    assert ranking.advice[0].startswith("ns has the highest log-likelihood, -8.500")
    assert ranking.best("log_likelihood") is None


def test_no_objective_is_best_if_scores_differ_less_than_between_seeds():
    ranking = ranked(
        run("ns", 1, -8.5, similarity=0.10),
        run("ns", 2, -8.5, similarity=0.298),
        run("ove", 1, -8.2, similarity=0.2),
        run("ove", 2, -8.2, similarity=0.086),
    )
    assert ranking.best("log_likelihood").objective == "ove"
    assert ranking.best("similarity") is None
    assert ranking.advice[-2] == (
        "In word similarity ns and ove share the first rank (0.199 to 0.143): no difference"
        " between them is significant."
    )


def test_two_seeds_come_with_what_they_cannot_show():
    """Student's t for 2 and 8 degrees of freedom: 4.303 and 2.306."""
    (sentence,) = ranking_of.about_few_seeds(n_objectives=2, n_seeds=2)
    assert f"{4.303 * math.sqrt(2 / 2):.1f} standard deviations" in sentence
    assert f"would show {2.306 * math.sqrt(2 / 5):.1f}" in sentence
    assert sentence.endswith("add 3 by `--seeds 5 --resume`.")
    assert ranking_of.about_few_seeds(n_objectives=2, n_seeds=3) == []
    two, three = ([run("ns", s, -8.5), run("ar", s, -8.2)] for s in (1, 2))
    assert ranked(*two, *three).advice[-1] == sentence


def test_likelihoods_of_other_heldout_pairs_are_not_ranked_by():
    wide = run("ns:window=9", 1, -8.0, similarity=0.3)
    scores = wide["result"]["scores"]
    scores["log_likelihood"] = Score.of_groups([-7.5, -8.0, -8.5], [1, 1, 1]).record()
    ranking = ranked(wide, run("ns", 1, -8.5, similarity=0.4))
    assert ranking.by == "similarity"
    dots_of_similarity, _, dots_of_likelihood = tables.score_charts(
        ranking, {"ns": "c0", "ns:window=9": "c1"}
    )
    assert dots_of_similarity["x_label"] == "word similarity minus that of ns"
    assert dots_of_likelihood["x_label"] == "log-likelihood"
    assert [line.objective for line in ranking.lines] == ["ns", "ns:window=9"]
    assert ranking.advice[-1].startswith("Scores in log-likelihood are of different items")


@pytest.mark.parametrize(
    ("runs_of", "peak"),
    [
        ([{"peak": 9e8, "compiled": True}, {}], 2e8),  # of runs that did not compile
        ([{"peak": 9e8, "compiled": True}], 9e8),
        ([{"peak": None}], None),
    ],
)
def test_the_largest_memory_is_shown(runs_of, peak):
    assert (
        ranked(*(run("ns", seed, -8.5, **more) for seed, more in enumerate(runs_of, 1))).first.peak
        == peak
    )


# ---- the page


def check_page(text, numbers):
    """A page parses, requests nothing, and has every number of the CSV."""
    page = Page(text)
    expected = {cell for row in list(csv.reader(numbers.splitlines()))[1:] for cell in row if cell}
    assert expected
    assert expected <= {cell.replace("−", "-") for cell in page.cells}


def test_the_page_has_every_number_and_needs_nothing_else():
    points = [(1, 2.5, -8.6), (3, 7.5, -8.2), (5, 10, -8.1)]
    records = [
        run(name, seed, -8 - k / 7, curve=points)
        for k, name in enumerate(["ns", "<ar>"])
        for seed in (1, 2)
    ]
    records.append({"objective": "hs", "seed": 1, "ended": "2026", "diverged": "<not> finite"})
    ranking = ranked(*records)
    text = tables.page("a & b", ranking, "held-out log-likelihood", {"machine": "<x>"})
    check_page(text, tables.csv_text(ranking))
    assert "<ar>" not in text
    assert "hs, seed 1: diverged: &lt;not&gt; finite" in text
    # means of the runs in two charts, the legend, and 0 in two charts of differences
    assert text.count("<polyline") == 2 * 2 + 2 + 2
    assert "Ranking by log-likelihood" in text
    assert text.count("<polygon") == 2 * 2  # from the lowest to the highest
    assert text.index("<figure") < text.index("<h2")  # scores with intervals, and against speed
    assert text.count("<circle") == 2 * 2 + 2 * 2 * 3
    assert "prefers-color-scheme: dark" in text
    empty = ranked(records[-1])
    assert "No run has finished" in tables.page("x", empty, "y", {})
    assert tables.csv_text(empty) == ""


def test_charts_show_the_differences_that_ranks_are_made_of():
    records = [
        run(name, seed, value + seed, pace)
        for name, value, pace in (("ns", -9.25, 3000), ("ar", -9.0, 2000))
        for seed in (1, 2)
    ]
    ranking = ranked(*records)
    dots, speed = tables.score_charts(ranking, {"ns": "c0", "ar": "c1"})
    assert [row[:2] for *_, row in dots["marks"]] == [["ar", 0.0], ["ns", -0.25]]
    assert len(dots["spans"]) == len(speed["spans"]) == 1  # ar is the reference
    assert dots["x_label"] == speed["y_label"] == "log-likelihood minus that of ar"
    ((_, points, _),) = dots["lines"]
    (_, x0, y0, x1, y1) = ("", *map(float, points.replace(",", " ").split()))
    assert x0 == x1 == dots["marks"][0][0]
    assert y0 < y1


def test_a_line_of_a_chart_reaches_0_where_objectives_share_a_rank():
    values = {"ns": (-8.0, -8.1), "hs": (-8.15, -8.25), "ove": (-8.23, -8.33)}
    ranking = ranked(
        *(run(name, seed, of[seed - 1]) for name, of in values.items() for seed in (1, 2))
    )
    assert [line.standings["log_likelihood"].rank for line in ranking.lines] == [1, 1, 1]
    intervals = tables.intervals(ranking, "log_likelihood")
    low, high = ranking.lines[2].standings["log_likelihood"].behind.interval()
    assert high < 0 < intervals["ove"][2]  # alone it would be significant
    assert intervals["ove"][1] < low


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (72_000, 1_500_000, [100_000, 200_000, 500_000, 1_000_000]),
        (2_100_000, 4_500_000, [2_500_000, 3_000_000, 3_500_000, 4_000_000, 4_500_000]),
        (1_900, 8_500, [2_000, 3_000, 5_000, 7_000]),
        (50, 2_000_000, [100, 1_000, 10_000, 100_000, 1_000_000]),
    ],
)
def test_an_axis_of_speeds_has_ticks_however_near_they_are(low, high, expected):
    assert charts.log_ticks(low, high) == pytest.approx(expected)


def test_curves_are_drawn_from_left_to_right_with_higher_scores_above():
    ((_, points, _),) = charts.curves_chart(
        {"ns": [[(1, 5, -9.0), (2, 10, -8.0)]]}, charts.SECONDS, "y"
    )["lines"]
    (x0, y0), (x1, y1) = (map(float, point.split(",")) for point in points.split())
    assert x0 < x1 == charts.RIGHT
    assert charts.BOTTOM > y0 > y1 > charts.TOP


def test_a_band_is_from_the_lowest_to_the_highest_of_runs_point_by_point():
    runs = [[(1, 5, -9.0), (2, 10, -8.0)], [(1, 7, -7.0), (2, 12, -6.5)]]
    expected = [[6, 11], [-8, -7.25], [-9, -8], [-7, -6.5]]  # seconds, mean, lowest, highest
    assert charts.over_runs(runs, charts.SECONDS).tolist() == expected
    assert (
        charts.over_runs([*runs, [(1, 6, -8.0), (1.5, 8.5, -7.6), (2, 11, -7.25)]], charts.SECONDS)[
            :, ::2
        ].tolist()
        == expected
    )
    marks = charts.curves_chart({"ns": runs}, charts.SECONDS, "y")["marks"]
    assert [row for *_, row in marks] == [["ns", *column] for column in zip(*expected, strict=True)]


def test_a_dot_plot_has_scores_between_their_ends_and_the_fastest_is_on_the_right():
    scores = {"ns": (-8.0, -8.5, -7.5), "ar": (-9.0, float("nan"), float("nan"))}
    styles = {"ns": "c0", "ar": "c1"}
    plot = charts.dot_plot(scores, "y", "dots", styles)
    (x0, y0, x1, y1, _), (ns, ar) = plot["spans"][0], plot["marks"]
    assert len(plot["spans"]) == 1  # of what is known
    assert ar[0] < x0 < ns[0] < x1
    assert y0 == y1 == ns[1] < ar[1]
    fast = charts.against_speed(
        scores, {"ns": 90_000, "ar": 1_200_000}, "y", "words/s", "speed", styles
    )
    assert fast["marks"][0][0] < fast["marks"][1][0]
    assert [label for _, label in fast["x_ticks"]] == ["100,000", "200,000", "500,000", "1,000,000"]


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [(0, 10, [0, 2, 4, 6, 8, 10]), (-8.93, -8.52, [-8.9, -8.8, -8.7, -8.6])],
)
def test_ticks_are_round_numbers(low, high, expected):
    assert charts.ticks(low, high) == pytest.approx(expected)


# ---- runs


def small_text(two_topics, folder, **settings):
    settings = CompareSettings(**{"epochs": 3, "seeds": 2, "threads": 1, "heldout": 0.3} | settings)
    return (
        TextData(
            [str(two_topics)], {"dim": 8, "sample": 0.0}, settings, cache_dir=folder / "tokens"
        ),
        settings,
    )


def test_finished_diverged_and_crashed_runs_are_reported_and_not_repeated(
    two_topics, tmp_path, monkeypatch
):
    data, settings = small_text(two_topics, tmp_path)
    watched = runs.watched
    started = []
    scripts = {
        "hs": "import sys; print('embedx: not finite', file=sys.stderr); sys.exit(3)",
        "ar": "raise MemoryError('no room')",
        "implicit": "import os; os.kill(os.getpid(), 9)",
    }

    def ended(command, folder):
        request = request_of_json(Path(command[-1]).read_text("utf-8"))
        started.append((request.settings["seed"], request.objective))
        script = scripts.get(request.objective)
        if script is not None:
            return watched([sys.executable, "-c", script], folder)
        return (watched if len(started) == 2 else forked.watched)(command, folder)

    monkeypatch.setattr(runs, "watched", ended)
    names = ["hs", "ns", "ar", "ove"]
    folder = tmp_path / "out"
    outcome = comparison.compare(data, names, settings, folder)
    assert started == [(seed, name) for seed in (1, 2) for name in names]  # in turn
    assert {line.objective for line in outcome.ranking.lines} == {"ns", "ove"}
    assert all(line.seeds == [1, 2] and line.epochs == 3 for line in outcome.ranking.lines)
    assert "hs, seed 2: diverged: not finite" in outcome.ranking.troubles
    assert "ar, seed 1: failed: MemoryError: no room" in outcome.ranking.troubles
    first, second = (line.standings["log_likelihood"] for line in outcome.ranking.lines)
    assert second.behind.value == pytest.approx(second.score.value - first.score.value)
    assert outcome.ranking.unigram < first.score.value
    assert first.items > 1000
    assert max(line.peak or 0 for line in outcome.ranking.lines) > 1e7 or sys.platform != "linux"
    text, numbers = ((folder / name).read_text("utf-8") for name in ("compare.html", "compare.csv"))
    check_page(text, numbers)
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
    assert (
        "implicit, seed 2: failed: killed by signal 9, as by the system when memory is short"
        in again.ranking.troubles
    )
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
    check_page(
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
        ("reading\nembedx: \x1b[31mnot finite\x1b[0m\n", "not finite"),
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
    check_page(
        *(
            (tmp_path / "digits.compare" / name).read_text("utf-8")
            for name in ("compare.html", "compare.csv")
        )
    )


# ---- mistakes


@pytest.mark.parametrize(
    ("first", "is_labelled"),
    [
        ("3 10 4\n0 1:2 3:4\n", True),
        ("7 1:0.5 9:1e-3 12:2\n", True),
        ("__label__good a nice film\n", True),
        ("so it was 10:30 when the train left\n", False),
        ("anarchism originated as a term of abuse\n", False),
    ],
)
def test_labelled_data_are_recognised(write, first, is_labelled):
    file = write(first)
    assert looks_labelled(file) is is_labelled
    if is_labelled:
        with pytest.raises(DataError) as error:
            comparison.data_of([file], {}, CompareSettings())
        assert error.value.file == file
        assert {Setting("test"), Setting("format", "text")} <= set(error.value.remedy)
        assert comparison.data_of([file], {"format": "text"}, CompareSettings())


@pytest.mark.parametrize(
    ("options", "more", "settings"),
    [
        ({"hidden": 9}, {}, ("hidden", "test")),
        ({"dim": 9}, {"test": "x"}, ("dim", "test")),
        ({}, {"test_labels": "x"}, ("test_labels", "test")),
    ],
)
def test_settings_of_other_data_are_refused_before_anything_is_trained(
    write, options, more, settings
):
    with refused(*settings, kind=InapplicableError):
        comparison.data_of([write("a b c")], options, CompareSettings(), **more)


@pytest.mark.parametrize(
    ("names", "more", "place", "settings"),
    [
        (["-"], {}, "-", ()),
        (["-"], {"test": "x"}, "-", ()),
        (["CORPUS"], {"train_labels": "x"}, "train.txt", ("test",)),
        (["nowhere.txt"], {}, "nowhere.txt", ()),
    ],
)
def test_data_that_cannot_be_compared_on_are_refused(write, names, more, place, settings):
    names = [write("a b c") if name == "CORPUS" else name for name in names]
    with refused_data(place, *settings):
        comparison.data_of(names, {}, CompareSettings(), **more)


def test_analogies_are_not_for_a_recipe_of_labelled_data():
    with refused("analogies", "test", kind=InapplicableError):
        comparison.data_of(["digits"], {}, CompareSettings(), analogies="x")


def test_invalid_folders_and_names_are_refused(two_topics, tmp_path):
    data, settings = small_text(two_topics, tmp_path)
    (tmp_path / "file").write_text("x")
    with refused("objectives"):
        comparison.compare(data, [], settings, tmp_path / "out")
    with refused("objective", value="nss"):
        comparison.compare(data, ["nss"], settings, tmp_path / "out")
    for folder in (tmp_path / "file", tmp_path):
        with refused_data(str(folder), "output"):
            comparison.compare(data, ["ns"], settings, folder)
    with refused("epochs", "time_budget", kind=InapplicableError):
        CompareSettings(epochs=1, time_budget=2.0)
    assert CompareSettings().limit == {"time_budget": 60}


def test_a_damaged_record_is_named_by_its_line(tmp_path):
    records = Records(tmp_path, {"until": "now"})
    records.add({"diverged": "why"}, objective="ns", seed=1)
    assert Records(tmp_path, {"until": "now"}).find(objective="ns", seed=1)["diverged"] == "why"
    assert Records(tmp_path, {"until": "later"}, overwrite=True).runs == []
    with open(tmp_path / FILE, "a") as file:
        file.write('{"objective": "ns"\n')
    with refused_data("runs.jsonl:3", "overwrite"):
        Records(tmp_path, {"until": "now"})


def test_a_share_of_the_rows_is_for_the_curve_unless_it_is_turned_off():
    for typed, expected in ((None, "0.1"), ("0", None)):
        data = LabelledData(["digits"], {}, CompareSettings(validation=typed))
        facts = data.prepare(Silent())
        assert facts["validation"] == (expected or "none")
        assert data.request("ns").settings.get("validation") == expected


def test_runs_on_text_have_the_subwords_that_were_asked_for(two_topics):
    data = TextData([str(two_topics)], {"subwords": "3-4", "buckets": 70}, CompareSettings())
    data.check(["ns", "hs"])
    typed = data.request("ns").settings
    assert (typed["subwords"], typed["buckets"]) == ("3-4", 70)
    with refused("subwords", value="4-3"):
        TextData([str(two_topics)], {"subwords": "4-3"}, CompareSettings()).check(["ns"])


def test_an_objective_is_tried_with_settings_of_its_own(two_topics, write, tmp_path):
    assert listed("ns, ova:loss=squared-hinge,weights=tree,hs:") == [
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
    assert [("time_budget" in r.settings, "validation" in r.settings) for r in requests] == [
        (True, True),
        (False, False),
        (True, True),
    ]
    assert requests[1].objective == "ova"
    assert requests[1].settings["loss"] == "squared-hinge"
    assert requests[1].settings["weights"] == "tree"
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


# ---- tuning


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
    assert tables.tuned_options(ranking) == options
    page = tables.page("data", ranking, "log-likelihood", {})
    for place in (page, tables.text(ranking)):
        assert all(row["options"] in place for row in options)
    numbers = tables.as_dict(ranking)["objectives"]
    assert [(row["learning_rate"], row["negatives"]) for row in numbers] == [
        (0.75, 15),
        (None, None),
    ]


def test_labels_are_tuned_on_validation_rows_and_need_some():
    settings = CompareSettings(epochs=4, seeds=1, threads=1, tune=0.5)
    data = LabelledData(["digits"], {}, settings)
    data.prepare(comparison.Silent())
    facts = {
        "history": [
            {"epoch": k, "seconds": k, "validation": {"log_likelihood": -k}} for k in (3, 1, 2)
        ]
    }
    assert data.validation_score(None, facts) == -1
    assert data.validation_score(None, {}) is None
    with refused("tune", "validation", kind=InapplicableError):
        LabelledData(["digits"], {}, CompareSettings(tune=0.5, validation="0")).prepare(
            comparison.Silent()
        )


def test_objectives_are_compared_without_neighbours_unless_one_names_some(tmp_path):
    """Blended with the labels of the same neighbours, objectives would differ less."""
    file = tmp_path / "rows.txt"
    file.write_text("__label__a one\n__label__b two\n" * 20)
    data = LabelledData([str(file)], {}, CompareSettings(epochs=1), test=str(file))
    data.check(["softmax", "ova:neighbours=10"])
    data.prepare(Silent())
    assert data.request("softmax").settings["neighbours"] == "none"
    assert data.request("ova:neighbours=10").settings["neighbours"] == "10"

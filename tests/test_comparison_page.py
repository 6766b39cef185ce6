"""The ranking and the advice of a comparison, its page and its charts, from records made up."""

import math

import pytest

from embedx.comparison import ranking as ranking_of, tables
from embedx.errors import spelled
from embedx.evaluation.statistics import Score
from embedx.pages import charts
from embedx.pages.axis import Axis, log_ticks, ticks
from embedx.spelling import on_command_line
from tests.support.comparison_records import assert_page_has_numbers, ranked, run
from tests.support.notes import lines_with


def test_equal_scores_lie_in_the_middle_of_an_axis():
    axis = Axis("P@1", 1.0, 1.0 + 2**-52, 0, 100)
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
    assert "--seeds 5 and --resume" in spelled(ranking.advice[-1], on_command_line)
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
    (advice,) = ranking_of.about_few_seeds(n_objectives=2, n_seeds=2)
    sentence = spelled(advice, on_command_line)
    assert f"{4.303 * math.sqrt(2 / 2):.1f} standard deviations" in sentence
    assert f"would show {2.306 * math.sqrt(2 / 5):.1f}" in sentence
    assert sentence.endswith("add 3 by --seeds 5 and --resume.")
    assert ranking_of.about_few_seeds(n_objectives=2, n_seeds=3) == []
    two, three = ([run("ns", s, -8.5), run("ar", s, -8.2)] for s in (1, 2))
    assert ranked(*two, *three).advice[-1] == advice


def test_likelihoods_of_other_held_out_pairs_are_not_ranked_by():
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
    assert_page_has_numbers(text, tables.csv_text(ranking))
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
    assert log_ticks(low, high) == pytest.approx(expected)


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
    assert ticks(low, high) == pytest.approx(expected)

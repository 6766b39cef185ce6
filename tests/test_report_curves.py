"""Learning curves on a page: points from the model folder, the best epoch, ranges of charts."""

import itertools

import pytest

from embedx.evaluation import learning_curves
from embedx.pages import charts
from embedx.report import runs


def test_curves_are_read_from_the_model_folder():
    facts = {
        "epochs": 2,
        "seconds": 3.0,
        "heldout": None,
        "history": [{"number": 1, "seconds": 1.0, "loss": 5.0}],
    }
    assert learning_curves.heldout_points(facts) == []
    assert learning_curves.loss_points(facts) == [[1, 1.0, 5.0]]
    assert (
        learning_curves.loss_points({"history": [{"epoch": 1, "seconds": 2, "loss": float("nan")}]})
        == []
    )


def test_a_loss_that_goes_up_and_down_within_each_epoch_falls_over_epochs():
    """The second half of each epoch is harder: the loss rises in it, though training goes on."""
    points = [[k / 2, k, 3 - k / 10 + 0.4 * (k % 2 == 0)] for k in range(1, 11)]
    assert any(a[2] < b[2] for a, b in itertools.pairwise(points))
    smooth = learning_curves.mean_over_epoch(points)
    assert [point[:2] for point in smooth] == [point[:2] for point in points]
    assert all(a[2] > b[2] for a, b in itertools.pairwise(smooth[1:]))
    assert smooth[5][2] == pytest.approx((points[4][2] + points[5][2]) / 2)
    by_epoch = [[1, 1.0, 5.0], [2, 2.0, 4.0], [4, 3.0, 3.0]]
    assert learning_curves.mean_over_epoch(by_epoch) == by_epoch
    with_start = [[0, 0.5, 8.0], *by_epoch]
    assert learning_curves.mean_over_epoch(with_start) == with_start
    assert learning_curves.mean_over_epoch([]) == []


def test_the_best_epoch_is_marked_in_the_chart_and_in_its_caption():
    points = [[1, 2.0, -8.5], [2, 4.0, -8.25], [3, 6.0, -8.375]]
    assert runs.best_epoch("held-out log-likelihood", points) == (
        "Held-out log-likelihood is highest after epoch 2: -8.2500. At the end, after epoch 3, it"
        " is -8.3750."
    )
    assert runs.best_epoch("validation P@1", points[:2]) == (
        "Validation P@1 is highest after epoch 2, the last: -8.2500."
    )
    curves = {"score": {"score": points}, "loss": {"loss": points}}
    drawn = runs.charts_of(curves, "loss", {"score": learning_curves.best_point(points)})
    assert [(chart["y_label"], len(chart["rings"])) for chart in drawn] == [
        ("score", 1),
        ("loss", 0),
    ] * 2
    for chart in drawn[::2]:
        x, y, _ = chart["rings"][0]
        assert (x, y) == chart["marks"][1][:2]


def test_values_cut_off_a_chart_are_noted():
    curve = [(0, 0, 9.0), (5, 5, 3.0), (10, 10, 2.0)]
    cut = charts.curves_chart({"a": [curve]}, charts.EPOCHS, "loss", falls=True)
    assert cut["caption"] == "values at the beginning are above the chart, up to 9"
    whole = charts.curves_chart({"a": [[(0, 0, 4.0), *curve[1:]]]}, charts.EPOCHS, "l", falls=True)
    assert whole["caption"] == ""


def test_a_chart_of_a_loss_cuts_off_what_is_high_at_the_beginning():
    points = [(0, 0, 9.0), (5, 5, 3.0), (10, 10, 2.0)]
    assert charts.y_range(points, charts.EPOCHS, 10, falls=True) == pytest.approx((1.94, 3.06))
    assert charts.y_range([(*x, -y) for *x, y in points], charts.EPOCHS, 10) == pytest.approx(
        (-3.06, -1.94)
    )

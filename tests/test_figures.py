"""Results as figures of matplotlib: the data of what is drawn."""

import re
import sys

import matplotlib as mpl
import numpy as np
import pytest

import embedx
from embedx.comparison import runs
from embedx.errors import EmbedxError, InapplicableError, SettingError
from tests.support.comparison_records import run
from tests.support.refusals import refused
from tests.support.report_models import topic_vectors, words


@pytest.fixture(autouse=True)
def without_windows():
    mpl.use("Agg")
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def points(line):
    """The coordinates of a line."""
    return np.column_stack(line.get_data()).tolist()


@pytest.fixture(scope="module")
def rows(tmp_path_factory):
    """Texts of three topics, some of which are mistaken for another."""
    file = tmp_path_factory.mktemp("rows") / "rows.txt"
    lines = ["__label__a one two", "__label__b three four", "__label__c five six"] * 30
    file.write_text("\n".join([*lines, *["__label__a three four"] * 6]) + "\n")
    return file


@pytest.fixture(scope="module")
def report(rows):
    return embedx.evaluate(embedx.classify(rows, threads=1, seed=1), test=rows)


def test_a_report_prints_as_the_command_line_does(report):
    sections = str(report).split("\n\n")
    assert sections[0].splitlines() == report.headlines
    assert report.headlines[0] == "94 of 100 first suggestions are right."
    names, values = zip(*(line.split() for line in sections[1].splitlines()), strict=True)
    assert list(names) == list(report)
    assert values[names.index("accuracy")] == "0.9375"
    assert sections[2].splitlines()[0].startswith("training rows of a label")
    assert sections[3].splitlines()[0].split("  ")[0] == "threshold"


def test_frames_of_a_report_have_its_numbers(report):
    frame = report.to_frame("confusion")
    assert frame.loc["a"].tolist() == [30, 6, 0]
    assert (list(frame.index), list(frame.columns)) == (["a", "b", "c"], ["a", "b", "c"])
    assert report.to_frame("confused").values.tolist() == [["a", "b", 6]]
    thresholds = report.to_frame("thresholds").set_index("threshold")
    assert thresholds.loc[0.0].tolist() == [1, report["accuracy"]]
    coverage = report.to_frame("coverage")
    assert coverage["coverage"].iloc[-1] == 1
    assert coverage["accuracy"].iloc[-1] == report["accuracy"]
    bins = report.to_frame("reliability")
    assert bins["n"].sum() == report["n"]
    assert (bins["low"].iloc[0], bins["high"].iloc[-1]) == (0, 1)
    labels = report.to_frame("labels").set_index("label")
    assert labels["recall"].tolist() == [pytest.approx(30 / 36), 1, 1]
    frequency = report.to_frame("frequency")
    assert frequency["occurrences"].sum() == report["n"]
    assert "recall@5" in frequency


def test_figures_of_a_report_draw_its_frames(report):
    frame = report.to_frame("coverage")
    coverage = report.plot()
    assert points(coverage.lines[0]) == frame[["coverage", "accuracy"]].values.tolist()
    accepted = report.to_frame("thresholds").query("coverage > 0")
    assert points(coverage.lines[1]) == accepted[["coverage", "accuracy"]].values.tolist()

    thresholds = report.plot("thresholds")
    assert points(thresholds.lines[0]) == frame[["threshold", "accuracy"]].values.tolist()
    assert points(thresholds.lines[1]) == frame[["threshold", "coverage"]].values.tolist()

    reliability = report.plot("reliability")
    used = report.to_frame("reliability").query("n > 0")
    assert [bar.get_height() for bar in reliability.patches] == used["accuracy"].tolist()

    confusion = report.plot("confusion")
    assert confusion.images[0].get_array()[0].tolist() == pytest.approx([30 / 36, 6 / 36, 0])
    assert [label.get_text() for label in confusion.get_yticklabels()] == ["a", "b", "c"]


def test_a_figure_is_drawn_where_the_user_wants_it(report):
    from matplotlib import pyplot

    _, (left, right) = pyplot.subplots(1, 2)
    assert report.plot("reliability", right) is right
    assert not left.has_data()
    report.plot(ax=left)
    assert report.plot(ax=left) is left
    assert len(left.lines) == 4


def test_names_are_drawn_as_they_are(tmp_path):
    file = tmp_path / "rows.txt"
    file.write_text("__label__$x_$ one\n__label___y_ two\n" * 20)
    ax = embedx.evaluate(embedx.classify(file, threads=1), test=file).plot("confusion")
    ax.figure.canvas.draw()
    assert [text.get_text() for text in ax.get_yticklabels()] == [r"\$x_\$", " _y_"]


def test_two_sides_are_drawn_by_their_differences(rows, report, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text("a\n" * 96)
    both = embedx.evaluate(embedx.classify(rows, threads=1), test=rows, predictions=other)
    ax = both.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    place = names.index("accuracy")
    value = ax.containers[place].lines[0].get_xdata()[0]
    assert value == both.to_frame().set_index("metric").loc["accuracy", "difference"]
    assert str(both).splitlines()[0].split()[:2] == ["metric", "softmax"]
    with refused("kind", kind=InapplicableError, value="confusion"):
        both.plot("confusion")
    with refused("kind", kind=InapplicableError, value="differences"):
        report.plot("differences")


def test_kinds_that_there_are_not_are_refused(report, tmp_path):
    for draw in (report.plot, report.to_frame):
        with refused("kind", kind=SettingError, quoting="coverage"):
            draw("coverages")
    several = tmp_path / "several.txt"
    several.write_text("__label__a __label__b one\n__label__b two\n" * 20)
    of_several = embedx.evaluate(embedx.classify(several, threads=1), test=several)
    with refused("kind", value="confusion", kind=InapplicableError):
        of_several.plot("confusion")


def test_without_matplotlib_one_line_says_how_to_install_it(report, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with refused(kind=EmbedxError, quoting="pip install matplotlib"):
        report.plot()


# ---- words, curves and comparisons

HISTORY = [
    {"epoch": 1, "seconds": 2.0, "loss": 3.0, "log_likelihood": -5.0},
    {"epoch": 2, "seconds": 4.0, "loss": 2.5, "log_likelihood": -4.0},
    {"epoch": 3, "seconds": 6.0, "loss": 2.0, "log_likelihood": -4.5},
]


def vectors():
    """Words with the history of their training."""
    counts = np.arange(60, 0, -1, dtype=np.int64)
    facts = {"objective": "ns", "history": HISTORY}
    return embedx.WordVectors(words(), {"input": topic_vectors()}, counts=counts, facts=facts)


def test_a_curve_is_drawn_with_its_best_epoch():
    loss = embedx.plot_curves(vectors())
    assert points(loss.lines[0]) == [[1, 3.0], [2, 2.5], [3, 2.0]]
    assert len(loss.lines) == 1
    heldout = embedx.plot_curves(vectors(), "held-out log-likelihood")
    assert points(heldout.lines[0]) == [[1, -5.0], [2, -4.0], [3, -4.5]]
    assert points(heldout.lines[1]) == [[2, -4.0]]
    assert [text.get_text() for text in heldout.texts] == ["best: epoch 2"]
    with refused("curve", kind=SettingError, quoting="held-out"):
        embedx.plot_curves(vectors(), "held-out loss")


def test_a_map_has_the_coordinates_that_it_draws():
    some = embedx.word_map(vectors(), 40, projection="pca")
    frame = some.to_frame()
    assert list(frame.columns) == ["word", "rank", "count", "x", "y", "cluster", "cluster_name"]
    assert frame["word"].tolist() == words()[:40]
    assert re.match("40 words by principal components, [2-9] clusters:", str(some))
    ax = some.plot()
    for cluster, drawn in enumerate(ax.collections, 1):
        of_cluster = frame[frame["cluster"] == cluster]
        assert drawn.get_offsets().tolist() == of_cluster[["x", "y"]].values.tolist()
        assert set(of_cluster["cluster_name"]) == {drawn.get_label()}
    assert len(ax.texts) == len(ax.collections)
    chosen = embedx.word_map(vectors(), ["topic3word9", "topic0word0", "topic1word2"])
    assert chosen.words == ["topic0word0", "topic1word2", "topic3word9"]
    assert chosen.to_frame()["rank"].tolist() == [1, 10, 40]
    for too_few in (2, ["topic0word0"]):
        with refused("words", kind=SettingError, quoting="3 words"):
            embedx.word_map(vectors(), too_few)


@pytest.mark.parametrize(("settings", "avoids"), [({}, True), ({"format": "sessions"}, False)])
def test_items_called_like_function_words_name_clusters(settings, avoids):
    """Clusters of words are named by other words where they have some."""
    names = ["the", "lamp", "chair", "of", "desk", "sofa"]
    directions = np.repeat(np.eye(2, dtype=np.float32), 3, axis=0)
    counts = np.arange(6, 0, -1)
    model = embedx.WordVectors(names, {"input": directions}, counts=counts, settings=settings)
    naming = {
        name for cluster in embedx.word_map(model, projection="pca").names for name in cluster
    }
    assert naming.isdisjoint({"the", "of"}) == avoids


def test_a_comparison_draws_its_ranking(two_topics, tmp_path, monkeypatch):
    curve = [[1, 2.0, -4.0], [2, 4.0, -3.0]]

    def measured(runner, name, seed, options):
        value = {"ns": -3.0, "hs": -2.0}[name] + 0.1 * seed
        return {"result": run(name, seed, value, curve=curve)["result"]}

    monkeypatch.setattr(runs.Runner, "run", measured)
    settings = {"epochs": 1, "seeds": 2, "threads": 1, "heldout": 0.3}
    outcome = embedx.compare(str(two_topics), "ns,hs", tmp_path / "out", **settings)

    frame = outcome.to_frame("differences")
    assert frame["objective"].tolist() == ["hs", "ns"]
    assert frame["difference"].tolist() == pytest.approx([0, -1])
    ax = outcome.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["hs", "ns"]
    drawn = [container.lines[0].get_xdata()[0] for container in ax.containers]
    assert drawn == frame["difference"].tolist()
    speed = outcome.plot("speed")
    assert [text.get_text() for text in speed.texts] == ["hs", "ns"]
    curves = outcome.plot("curves")
    assert points(curves.lines[0]) == [[1, -4.0], [2, -3.0]]
    assert len(outcome.to_frame("curves")) == 8
    with refused("measure", kind=SettingError, quoting="log_likelihood"):
        outcome.plot(measure="loglikelihood")
    with refused("kind", kind=SettingError, quoting="curves"):
        outcome.plot("curve")


def scored_sets(tmp_path):
    """Two files of pairs of words, and two models of these words."""
    sets = []
    for name, order in (("near", [1, 3, 2, 5, 4, 6]), ("far", [6, 4, 5, 1, 3, 2])):
        file = tmp_path / f"{name}.tsv"
        lines = [f"w{k}\tw{k + 1}\t{score}\n" for k, score in enumerate(order)]
        file.write_text("".join(lines))
        sets.append(str(file))
    models = []
    for seed in (0, 1):
        vectors = np.random.default_rng(seed).normal(size=(8, 4)).astype(np.float32)
        models.append(embedx.WordVectors([f"w{k}" for k in range(8)], {"input": vectors}))
    return sets, models


def test_scores_of_word_vectors_are_drawn_with_their_intervals(tmp_path):
    sets, (first, second) = scored_sets(tmp_path)
    alone = embedx.evaluate(first, pairs=sets)
    ax = alone.plot()
    names = [label.get_text() for label in ax.get_yticklabels()]
    assert names == [f"{score.test} (spearman)" for score in alone.scores]
    drawn = ax.containers[0].lines[0].get_xdata()
    assert drawn.tolist() == [score.score for score in alone.scores]
    with refused("kind", value="differences", quoting="scores"):
        alone.plot("differences")

    both = embedx.evaluate(first, pairs=sets, against=second)
    scores = both.plot("scores")
    assert len(scores.containers) == 2
    assert [text.get_text() for text in scores.get_legend().get_texts()] == ["A", "B"]
    differences = both.plot()
    drawn = [bar.lines[0].get_xdata()[0] for bar in differences.containers]
    assert drawn == [difference.difference for difference in both.differences]
    differences.figure.canvas.draw()

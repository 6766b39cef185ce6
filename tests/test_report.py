"""`embedx report`: the numbers of its pages against slow and obvious computations, the pages, and
mistakes.
"""

import itertools
import json
import re
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.classification.classifier import load
from embedx.classification.detail import Detail, Predictions
from embedx.errors import DataError, InapplicableError
from embedx.evaluation import answers, learning_curves
from embedx.evaluation.word_sets import WordTests
from embedx.evaluation.words import evaluate
from embedx.labeled.data import Labels
from embedx.labeled.read import read
from embedx.pages import charts
from embedx.report import (
    confusion,
    labels as label_pages,
    projection,
    runs,
    word_map,
    words as word_pages,
)
from embedx.report.contract import PageRequest, different_names
from embedx.report.report import default_output, report
from embedx.report.settings import ReportSettings
from embedx.runtime.progress import Silent
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.model import load_folder
from tests.support.commands import invoke
from tests.support.needs import needs_gensim
from tests.support.refusals import refused, refused_data
from tests.support.report_setup import (
    FEATURES,
    NASTY,
    TEST,
    TOPICS,
    Page,
    label_folder,
    topic_vectors,
    word_folder,
    words,
)

# ---- answers in detail, against loops over rows


def drawn_answers(seed, n_rows=60, n_labels=9, k=5):
    """Answers and labels of rows: none, one or several of them, some unknown to the classifier."""
    rng = np.random.default_rng(seed)
    top = np.array([rng.permutation(n_labels)[:k] for _ in range(n_rows)], np.int32)
    rows = [
        rng.choice(n_labels + 2, rng.integers(0, 4), replace=False).tolist() for _ in range(n_rows)
    ]
    counts = rng.integers(0, 6, n_labels) ** 2
    return top, rows, counts


def naive_bin(label, counts):
    n = 0 if label >= len(counts) else counts[label]
    return sum(n >= first for first in (1, 2, 6, 21, 101, 1_001, 10_001))


@pytest.mark.parametrize("seed", range(2))
def test_labels_by_frequency(seed):
    top, rows, counts = drawn_answers(seed)
    groups = {
        group.name: group
        for group in answers.by_frequency(top, Labels.of_rows(rows), counts, ks=(1, 3))
    }
    for k, name in enumerate(answers.names_of_bins()):
        counts_of_bin = [n for label, n in enumerate(counts) if naive_bin(label, counts) == k]
        pairs = [
            (best, label)
            for best, row in zip(top, rows, strict=True)
            for label in row
            if naive_bin(label, counts) == k
        ]
        if not counts_of_bin and not pairs:
            assert name not in groups
            continue
        frequency_group = groups[name]
        assert (frequency_group.labels, frequency_group.occurrences) == (
            len(counts_of_bin),
            len(pairs),
        )
        for best in (1, 3):
            expected = (
                sum(label in answered[:best] for answered, label in pairs) / len(pairs)
                if pairs
                else np.nan
            )
            assert frequency_group.recall[best] == pytest.approx(expected, nan_ok=True)
        first = [
            best[0] in row
            for best, row in zip(top, rows, strict=True)
            if naive_bin(best[0], counts) == k
        ]
        assert frequency_group.predicted == len(first)
        assert frequency_group.precision == pytest.approx(
            sum(first) / len(first) if first else np.nan, nan_ok=True
        )


def test_bins_tell_labels_of_one_training_row_from_those_of_a_few():
    counts = np.array([0, 1, 2, 5, 6, 20, 21, 100, 101, 1_000, 1_001, 10_000, 10_001])
    names = answers.names_of_bins()
    assert [names[place] for place in answers.bin_of_labels(counts)] == [
        "not in training",
        "1",
        *["2 to 5"] * 2,
        *["6 to 20"] * 2,
        *["21 to 100"] * 2,
        *["101 to 1,000"] * 2,
        *["1,001 to 10,000"] * 2,
        "10,001 and more",
        "not in training",
    ]


def test_coverage_and_accuracy_at_thresholds():
    probability = np.array([0.97, 0.4, 0.9, 0.9, 0.75])
    is_right = np.array([True, False, True, False, True])
    accepted = answers.accepted(probability, is_right)
    rows = {row.threshold: (row.coverage, row.accuracy) for row in accepted}
    assert rows[0.0] == (1.0, 0.6)
    assert rows[0.7] == (0.8, 0.75)
    assert rows[0.9] == (0.6, pytest.approx(2 / 3))
    assert rows[0.95] == (0.2, 1.0)
    assert rows[0.99] == (0, pytest.approx(np.nan, nan_ok=True))
    threshold, coverage, accuracy = answers.coverage_curve(probability, is_right)
    assert threshold.tolist() == [0.97, 0.9, 0.75, 0.4]
    # Rows of equal probability are accepted together.
    assert coverage.tolist() == [0.2, 0.6, 0.8, 1.0]
    assert accuracy.tolist() == pytest.approx([1, 2 / 3, 0.75, 0.6])
    assert [len(part) for part in answers.coverage_curve(probability[:0], is_right[:0])] == [0] * 3


def test_headlines_say_how_many_suggestions_are_right():
    best = [[0, 1, 2, 3, 4, 5], [1, 0, 2, 3, 4, 5], [3, 4, 0, 1, 2, 5], [2, 0, 1, 3, 4, 5]]
    top = np.array(best, np.int32)
    probability = np.full(top.shape, 0.5, np.float32)
    counts = np.array([50, 50, 50, 1, 30, 200])

    def headlines(rows):
        labels = Labels.of_rows(rows)
        predicted = Predictions(top, probability, labels, np.arange(len(top)))
        return Detail(predicted, counts).headlines

    assert headlines([[0], [0], [3], [2]]) == [
        "75 of 100 first suggestions are right.",
        "The right label is among 5 suggestions for 100 of 100 rows.",
        "Labels with 1 training row are the first suggestion for 100 of 100 of their rows.",
    ]
    assert headlines([[0, 2], [0, 1, 4], [7], []]) == [
        "Of 5 suggestions 1.7 are right; rows have 2.0 labels.",
        "67 of 100 first suggestions are right.",
        "33 of 100 rows have only labels that do not occur in training.",
        "Labels with 21 to 100 training rows are among 5 suggestions for 100 of 100 of their rows.",
    ]
    assert headlines([[], [], [], []]) == []


def test_a_label_beyond_all_answers_is_not_found_however_many_are_asked_for():
    only, *_ = answers.by_frequency(np.array([[0, 1]]), Labels.of_rows([[2]]), np.array([4, 4, 4]))
    assert only.recall == {1: 0, 3: 0, 5: 0}


@pytest.mark.parametrize("seed", range(2))
def test_labels_that_are_confused(seed):
    top, rows, _ = drawn_answers(seed, n_rows=200)
    labels = Labels.of_rows(rows)
    pairs = {}
    for best, row in zip(top.tolist(), rows, strict=True):
        share = best[: len(row)]
        for label in row:
            if label not in share:
                for answer in set(share) - set(row):
                    pairs[label, answer] = pairs.get((label, answer), 0) + 1
    confusions = answers.confusions(top, labels)
    assert {
        (confusion.label, confusion.answer): confusion.rows for confusion in confusions
    } == pairs
    assert [confusion.rows for confusion in confusions] == sorted(pairs.values(), reverse=True)


@pytest.mark.parametrize("seed", range(2))
def test_reliability(seed):
    rng = np.random.default_rng(seed)
    p = np.concatenate([rng.random(300), [0.0, 1.0, 0.3]])
    p = p[~((p > 0.5) & (p < 0.6))]  # one bin is empty
    right = rng.random(len(p)) < p**2
    bins = answers.reliability(p, right)
    error = 0.0
    for k in range(10):
        inside = [i for i in range(len(p)) if min(int(10 * p[i]), 9) == k]
        assert bins.n[k] == len(inside)
        if not inside:
            assert np.isnan(bins.accuracy[k])
            continue
        confidence, accuracy = np.mean([p[i] for i in inside]), np.mean([right[i] for i in inside])
        assert (bins.confidence[k], bins.accuracy[k]) == pytest.approx((confidence, accuracy))
        error += len(inside) / len(p) * abs(accuracy - confidence)
    assert bins.n[5] == 0
    assert bins.error == pytest.approx(error)
    assert answers.reliability(np.array([1.0, 1.0]), np.array([True, True])).error == 0
    assert np.isnan(answers.reliability(np.zeros(0), np.zeros(0, bool)).error)


# ---- words


def test_random_words_are_different_seeded_and_of_all_frequencies():
    first = word_pages.drawn_rows(100_000, 30, 1)
    assert (
        first.tolist()
        == sorted(set(first.tolist()))
        == word_pages.drawn_rows(100_000, 30, 1).tolist()
    )
    assert first.tolist() != word_pages.drawn_rows(100_000, 30, 2).tolist()
    assert len(word_pages.drawn_rows(5, 30, 0)) == 5
    drawn = np.concatenate([word_pages.drawn_rows(100_000, 30, seed) for seed in range(20)])
    assert 0.4 < np.mean(drawn < 316) < 0.6  # half of the logarithm


def test_principal_components_are_those_of_the_svd():
    vectors = topic_vectors()
    centred = vectors - vectors.mean(axis=0)
    _, _, axes = np.linalg.svd(centred.astype(np.float64), full_matrices=False)
    places = projection.by_pca(vectors)
    assert np.abs(places) == pytest.approx(np.abs(centred @ axes[:2].T), abs=1e-5)
    assert projection.by_pca(vectors[:, :1])[:, 1].tolist() == [0] * len(vectors)


def test_a_word_that_is_not_on_the_map_lies_with_those_nearest_to_it():
    unit = topic_vectors() / np.linalg.norm(topic_vectors(), axis=1, keepdims=True)
    places = np.random.default_rng(0).random((40, 2))
    placed = projection.between(unit[:40], places, np.vstack([unit[40:], unit[:1]]))
    for vector, place in zip(unit[40:], placed, strict=False):
        best = np.argsort(-unit[:40] @ vector)[:3]
        assert (places[best].min(axis=0) <= place).all()
        assert (place <= places[best].max(axis=0)).all()
    apart = np.linalg.norm(places - placed[-1], axis=1)  # of the first word's vector itself
    assert apart[0] < np.median(apart)


def apart(places):
    """How far topics lie from each other, by how far their words do."""
    topic = np.arange(len(places)) % TOPICS
    centres = np.array([places[topic == k].mean(axis=0) for k in range(TOPICS)])
    within = np.mean([places[topic == k].std(axis=0).max() for k in range(TOPICS)])
    between = min(np.linalg.norm(centres[a] - centres[b]) for a in range(TOPICS) for b in range(a))
    return between / within


def test_t_sne_puts_topics_apart_and_a_seed_gives_the_same_map():
    first, again = (projection.project(topic_vectors(), "tsne", 3) for _ in range(2))
    assert apart(first) > 2
    assert np.array_equal(first, again)
    assert (first.min(), first.max()) == (0, 1)


def test_t_sne_is_taken_where_it_is_installed(monkeypatch):
    assert (projection.chosen(None), projection.chosen("pca")) == ("tsne", "pca")
    monkeypatch.setattr(projection.importlib.util, "find_spec", lambda name: None)
    assert projection.chosen(None) == "pca"
    with refused("projection", value="tsne", quoting="pip install"):
        projection.chosen("tsne")


@pytest.mark.parametrize(
    ("n", "name"), [(1, "pca"), (3, "tsne"), (4, "tsne"), (5, "pca"), (6, "tsne"), (7, "tsne")]
)
def test_a_few_words_have_their_places(n, name):
    places = projection.project(
        np.zeros((n, 3), np.float32) if n in (3, 7) else topic_vectors()[:n], name, 0
    )
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert places.min() >= 0
    assert places.max() <= 1


def test_a_cluster_is_named_by_its_frequent_central_words_without_function_words():
    words_on_map = ["the", "of", "river", "lake", "s", "whom", "city", "town"]
    avoided = word_map.function_words(words_on_map * 5)
    assert {"the", "of", "s"} <= avoided
    assert not avoided & {"river", "lake", "city", "town"}
    unit = np.array([[1, 0], [0, 1]] * 4, np.float32)
    cluster = np.array([0, 1] * 4)
    avoided = {"the", "of", "s"}
    names = word_map.naming_words(words_on_map, unit, cluster, avoided)
    assert names == [["river", "city"], ["lake", "whom", "town"]]
    # a cluster of nothing else is named by what it has
    names = word_map.naming_words(["the", "of"], unit[[0, 0]], np.zeros(2, int), avoided)
    assert names == [["the", "of"]]


def test_the_name_of_a_cluster_stands_at_one_of_its_words():
    places = np.array([[0, 0], [0.1, 0], [0.2, 0], [1, 1]])
    assert word_map.centres_on_map(places, np.array([0, 0, 0, 1])) == [[0.1, 0], [1, 1]]


def test_clusters_are_as_many_as_the_groups_that_the_data_have():
    rng = np.random.default_rng(0)
    for n_groups in (2, 5, 9):
        turn = 2 * np.pi * np.arange(n_groups) / n_groups
        centres = np.column_stack([np.cos(turn), np.sin(turn)])
        group = np.sort(rng.integers(0, n_groups, 200))
        places = centres[group] + 0.05 * rng.normal(size=(200, 2))
        clusters = word_map.clusters_of(places, 0)
        assert len({*zip(group.tolist(), clusters.tolist(), strict=True)}) == n_groups
        sizes = np.bincount(clusters)
        assert len(sizes) == n_groups
        assert all(np.diff(sizes) <= 0)
    # of a square without gaps some names are shown, and of equal places one
    assert word_map.clusters_of(rng.random((400, 2)), 0).max() > 3
    assert set(word_map.clusters_of(np.ones((5, 2)), 0)) == {0}


def test_the_silhouette_is_that_of_scikit_learn():
    metrics = pytest.importorskip("sklearn.metrics")
    rng = np.random.default_rng(0)
    places = rng.random((60, 2))
    clusters = rng.integers(0, 5, 60)
    clusters[0] = 7  # alone in its cluster
    expected = metrics.silhouette_score(places, clusters)
    assert word_map.silhouette(places, clusters) == pytest.approx(expected)


def test_points_that_would_hide_each_other_are_moved_apart():
    rng = np.random.default_rng(0)
    places = np.repeat([[0.0, 0.0], [1.0, 1.0]], 30, axis=0) + 1e-3 * rng.random((60, 2))
    places[1] = places[0]
    apart = projection.spread(places)
    distances = np.linalg.norm(apart[:, None] - apart, axis=2) + np.eye(60)
    assert distances.min() > 0.02
    # each stays among those of its group
    assert (distances.argmin(axis=1) // 30).tolist() == [0] * 30 + [1] * 30
    assert apart.min() >= 0
    assert apart.max() <= 1
    assert projection.spread(np.zeros((1, 2))).tolist() == [[0.5, 0.5]]


def test_words_that_are_asked_for_are_on_the_map_though_rare(tmp_path):
    page = tmp_path / "page.html"
    rare_words = ["topic0word10", "topic2word0"]
    settings = {"words": ",".join(rare_words), "map_words": 5, "projection": "pca"}
    report(word_folder(tmp_path / "topics"), page, **settings)
    on_map = json.loads(Page(page.read_text()).data)
    assert on_map["n"] == 6
    assert on_map["words"][:6] == [*words()[:5], "topic0word10"]
    assert on_map["ranks"] == [1, 2, 3, 4, 5, 41]
    assert on_map["counts"][5] == 2000
    assert [on_map["words"][k] for k in on_map["listed"]] == rare_words


def test_function_words_have_no_labels(tmp_path):
    names = ["the", "lamp", "chair", "of", "desk", "sofa"]
    model = embedx.WordVectors(names, {"input": topic_vectors()[:6]}, counts=np.arange(6, 0, -1))
    model.save(tmp_path / "words")
    report(tmp_path / "words", tmp_path / "page.html", projection="pca", random_words=0)
    on_map = json.loads(Page((tmp_path / "page.html").read_text()).data)
    assert [on_map["words"][k] for k in on_map["unlabelled"]] == ["the", "of"]


# ---- learning curves


def test_curves_are_what_the_folder_has_of_them():
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
    assert learning_curves.mean_over_epoch([]) == []


def test_the_best_epoch_is_marked_and_in_words():
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


# ---- pages


@needs_gensim
def test_the_page_of_word_vectors(tmp_path, write):
    folder = word_folder(tmp_path / "a.ns.embedx")
    named = words()
    pairs = write(
        "".join(
            f"{named[a]}\t{named[b]}\t{10 - abs(a % 4 - b % 4)}\n"
            for a, b in ((0, 4), (1, 2), (8, 3), (5, 9))
        )
    )
    file = report(
        folder,
        tmp_path / "page.html",
        words=f"topic1word1,{NASTY}",
        pairs=[Path(pairs)],
        nearest=3,
        map_words=40,
    )
    text = file.read_text("utf-8")
    page = Page(text)
    assert "b" not in page.tags
    vectors = load_folder(folder)
    near = vectors.most_similar(NASTY, top_k=3)
    assert ", ".join(f"{word} ({cosine:.2f})" for word, cosine in near) in page.cells
    assert {"window", "5", "tokenizer", "whitespace", "1,234,567", "−4.1000"} <= set(page.cells)
    assert "train" in page.cells  # the set of pairs, by the name of its file
    on_map = json.loads(page.data)
    assert on_map["words"][:40] == named[:40]
    assert on_map["counts"] == vectors.counts[:40].tolist()
    nearest = on_map["neighbours"][7 * 3 : 8 * 3]
    assert [on_map["words"][k] for k in nearest] == [word for word, _ in near]
    assert on_map["cosines"][7 * 3] == round(near[0][1], 3)
    # rarer neighbours have places too
    assert len(on_map["x"]) == len(on_map["y"]) == len(on_map["words"]) > 40
    topics = {(cluster, k % TOPICS) for k, cluster in enumerate(on_map["clusters"])}
    assert len(topics) == len(on_map["names"])  # a cluster holds words of one topic
    changed, every = text.split("<summary>All settings</summary>")
    assert (">window<" in changed, ">window<" in every, ">tokenizer<" in changed) == (
        False,
        True,
        False,
    )
    assert text.count("<polyline") == 2  # held-out text, against epochs and seconds
    assert "prefers-color-scheme: dark" in text
    without = Page(
        report(
            folder, tmp_path / "two.html", pairs=[Path(pairs)], map_words=0, random_words=0
        ).read_text("utf-8")
    )
    assert "map" not in without.ids


def test_the_page_of_a_classifier_on_test_data(tmp_path, write):
    folder = label_folder(tmp_path / "c.softmax.embedx")
    file = report(folder, tmp_path / "page.html", test=write(TEST, "test.txt"), examples=7)
    text = file.read_text("utf-8")
    page = Page(text)
    assert not {"b", "i"} & set(page.tags)
    for cell in ("21 to 100", "not in training", "unknown label 4", "sport, film", "ball goal"):
        assert cell in page.cells
    assert any(
        re.fullmatch(r"sport 0\.99\d ✓, .*, film 0\.0\d\d, .*", cell, re.DOTALL)
        for cell in page.cells
    )
    # learning curves, a diagonal, coverage, three scores by k and their legend
    assert text.count("<polyline") == 6 + 1 + 1 + 2 * 3
    assert 'class="bar"' in text
    plain = Page(report(folder, tmp_path / "two.html").read_text("utf-8"))
    assert NASTY in plain.cells
    assert {"60", "sport"} <= set(plain.cells)


def test_the_page_shows_results_on_test_data(tmp_path, write):
    classifier = load(label_folder(tmp_path / "model"))
    request = PageRequest(
        models=[tmp_path / "model"],
        settings=ReportSettings(examples=3),
        word_tests=WordTests(),
        test=write(TEST, "test.txt"),
        test_labels=None,
        progress=Silent(),
    )
    values = label_pages.single_values(classifier, request)
    assert values["key_figures"]["test rows"] == "7"
    assert ["rows with labels", "6"] in values["metrics"]  # one row has no label
    rows, metrics = values["by_k"], dict(values["metrics"])
    assert rows[0] == ["k", "precision", "recall", "nDCG"]
    assert [row[0] for row in rows[1:]] == ["1", "2", "3", "4"]  # labels
    assert [(row[1], row[3]) for row in rows[1:4:2]] == [
        (metrics[f"P@{k}"], metrics[f"nDCG@{k}"]) for k in (1, 3)
    ]
    assert rows[4][2] == f"{5 / 6:.4f}"  # all labels but the unknown one
    assert len(values["examples"]) == 1 + 3
    assert "over 6 labelled rows" in values["chart_of_reliability"]["caption"]
    assert ["film", "sport", "1"] in values["confused"]
    assert ["sport", "60", "2", "0.5", "0.5000", "1.0000", "0.6667"] in values["by_label"]
    head, *mistakes = values["mistakes"]
    assert head == ["row", "labels", "best predictions", "words"]
    assert {row[1].split(",")[0] for row in mistakes} == {"film", "rare", "unknown label 4"}
    probabilities = [float(re.search(r" (\d\.\d+)", row[2])[1]) for row in mistakes]
    assert probabilities == sorted(probabilities, reverse=True)
    words = {row[0]: set(row[3].split()) for row in mistakes}
    assert words["5"] == {"goal"}
    assert words["2"] == {"ball", "word"} <= set(FEATURES)


def test_confusion_counts_rows_by_label_and_best_prediction():
    labels = Labels.of_rows([[0], [0], [], [2], [7]])
    top = np.array([[0, 1], [2, 0], [0, 1], [2, 0], [0, 2]])
    matrix = answers.confusion_matrix(top, labels)
    assert matrix.labels.tolist() == [0, 2, 7]
    assert matrix.rows.tolist() == [[1, 1, 0], [0, 1, 0], [1, 0, 0]]
    chart = confusion.heatmap(["label 0", "label 2", "label 7"], matrix)
    rows = [cell["row"] for cell in chart["cells"]]
    assert rows[1] == ["label 0", "label 2", 1, 0.5]
    assert [cell["style"] for cell in chart["cells"]] == ["c0", "c1", "c0", "c1"]
    several = Labels.of_rows([[0, 1], [0], [], [2], [7]])
    assert answers.confusion_matrix(top, several) is None


def test_of_many_labels_the_most_confused_are_shown():
    label = np.concatenate([np.repeat(np.arange(40), 9), np.repeat([25, 3], 5)])
    best = np.concatenate([np.repeat(np.arange(40), 9), np.repeat([3, 39], 5)])
    matrix = answers.confusion_matrix(best[:, None], Labels.single(label))
    assert len(matrix.labels) == answers.N_MOST_CONFUSED
    assert {3, 25, 39} <= set(matrix.labels.tolist())
    assert matrix.n_labels == 40
    place = matrix.labels.tolist().index
    assert matrix.rows[place(25), place(3)] == 5
    assert matrix.n_of_label[place(25)] == 14
    is_few = label < 30
    few = answers.confusion_matrix(label[is_few, None], Labels.single(label[is_few]))
    assert few.labels.tolist() == [*range(30)]


def test_a_confusion_of_very_many_labels_takes_little_memory():
    label = np.arange(200_000)
    matrix = answers.confusion_matrix(label[::-1, None], Labels.single(label))
    assert matrix.rows.shape == (answers.N_MOST_CONFUSED, answers.N_MOST_CONFUSED)


# ---- two models


def test_the_page_of_two_classifiers_has_paired_differences(tmp_path, write):
    folders = [label_folder(tmp_path / name) for name in ("one", "two")]
    worse = load(folders[1])
    # of "sport"
    worse.arrays["output"] = worse.arrays["output"] * np.array([[-1], [1], [1], [1]], np.float32)
    worse.settings["labels"] = "first"
    worse.save(folders[1], overwrite=True)
    test = write(TEST, "test.txt")
    text = report(folders[0], tmp_path / "page.html", other=folders[1], test=test).read_text(
        "utf-8"
    )
    cells = Page(text).cells
    ours, theirs = (
        load(folder).evaluate(read(test, None, trained=load(folder).known))["p@1"]
        for folder in folders
    )
    assert any(cell.startswith(f"+{ours - theirs:.3f} (") for cell in cells)
    assert "recall of one" in text
    assert "one - two" in text
    assert text.index("Settings that differ") < text.index("Scores on")
    assert {"labels", "first"} <= set(cells)  # the setting that differs
    assert "scaling" not in cells
    with refused_data("words", quoting="one"):
        report(
            folders[0],
            tmp_path / "page.html",
            other=word_folder(tmp_path / "words"),
            overwrite=True,
        )


@needs_gensim
def test_the_page_of_two_models_of_words_has_the_neighbours_by_both(
    tmp_path, monkeypatch, capsys, write
):
    monkeypatch.chdir(tmp_path)
    word_folder(tmp_path / "a.embedx")
    other = load_folder(word_folder(tmp_path / "b"))
    other.arrays["input"] = np.roll(other.arrays["input"], 1, axis=0)
    other.save(tmp_path / "b.embedx")
    pairs = write("".join(f"topic0word{k}\ttopic1word{k + 1}\t{k}\n" for k in range(5)))
    typed = [
        "report",
        "a.embedx",
        "b.embedx",
        "--words",
        "topic1word1",
        "--pairs",
        str(pairs),
        "--nearest",
        "3",
    ]
    invoke(*typed)
    assert capsys.readouterr().out == "a-b.report.html\n"
    text = (tmp_path / "a-b.report.html").read_text("utf-8")
    for name in ("a.embedx", "b.embedx"):
        near = load_folder(tmp_path / name).most_similar("topic1word1", top_k=3)
        assert ", ".join(f"{word} ({cosine:.2f})" for word, cosine in near) in Page(text).cells
    assert "a and b cannot be told apart" in text
    assert ">a - b<" in text


def test_models_of_one_name_are_called_by_their_paths():
    assert different_names(["x/ns.embedx", "hs.embedx"]) == ["ns", "hs"]
    assert different_names(["x/ns.embedx", "y/ns.embedx"]) == ["x/ns.embedx", "y/ns.embedx"]
    assert different_names(["ns.embedx", "ns.embedx"]) == ["A", "B"]


# ---- the command line


def test_the_command_writes_a_page_named_after_the_model(tmp_path, monkeypatch, capsys):
    label_folder(tmp_path / "c.softmax.embedx")
    monkeypatch.chdir(tmp_path)
    typed = ["report", "c.softmax.embedx", "--examples", "2"]
    invoke(*typed)
    assert capsys.readouterr().out == "c.softmax.report.html\n"
    assert default_output("elsewhere/c.softmax.embedx") == Path("c.softmax.report.html")
    assert [path.name for path in tmp_path.iterdir() if "partial" in path.name] == []
    with refused_data("c.softmax.report.html", "overwrite"):
        invoke(*typed)
    (tmp_path / "c.softmax.report.html").write_text("old")
    invoke(*typed, "--overwrite")
    Page((tmp_path / "c.softmax.report.html").read_text("utf-8"))


@pytest.fixture
def two_models(tmp_path, monkeypatch):
    """A working directory with the folders `words` and `labels`, in which no page is left."""
    word_folder(tmp_path / "words")
    label_folder(tmp_path / "labels")
    (tmp_path / "file").write_text("x")
    monkeypatch.chdir(tmp_path)
    before = set(tmp_path.iterdir())
    yield tmp_path
    assert set(tmp_path.iterdir()) == before


@pytest.mark.parametrize("name", ["nowhere", "file", ""])
def test_a_folder_that_is_no_model_has_no_page(two_models, name):
    with refused_data(str(two_models / name), quoting=("`embedx train`", "`embedx classify`")):
        report(two_models / name)


@pytest.mark.parametrize(
    ("model", "arguments", "place"),
    [
        ("words", {"output": "nowhere/page.html"}, "nowhere/page.html"),
        ("words", {"output": "."}, "."),
        ("labels", {"test": "nowhere"}, "nowhere"),
    ],
)
def test_files_that_a_page_cannot_have_are_refused(two_models, model, arguments, place):
    with refused_data(place) as caught:
        report(two_models / model, **arguments)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("model", "setting", "value"),
    [
        ("words", "test", "x"),
        ("words", "examples", 5),
        ("labels", "words", "a"),
        ("labels", "pairs", ["x"]),
    ],
)
def test_settings_of_the_other_task_are_refused(two_models, model, setting, value):
    folder = two_models / model
    with refused(setting, kind=InapplicableError, quoting=str(folder)):
        report(folder, **{setting: value})


def test_settings_that_a_page_cannot_have_are_refused(two_models):
    with refused("test_labels", "test", kind=InapplicableError):
        report(two_models / "labels", test_labels="x")
    with refused("projection", value="sketch", quoting="tsne, pca"):
        report(two_models / "words", projection="sketch")
    with refused(kind=UnknownWordError, quoting=("nothere", "60 words")):
        report(two_models / "words", words="topic1word1,nothere")


# ---- models of other than words


def model_of_items(folder):
    """A folder with the vectors of words, as if they were items of sessions."""
    vectors = load_folder(word_folder(folder))
    vectors.settings["format"] = "sessions"
    return vectors.save(folder, overwrite=True)


def test_the_page_of_items_calls_them_items_and_has_no_test_sets_of_words(tmp_path):
    items = model_of_items(tmp_path / "items.embedx")
    text = report(items, tmp_path / "page.html").read_text("utf-8")
    assert {"Map of items", "Nearest items of random items"} <= set(re.findall("<h2>(.*?)<", text))
    assert "most frequent items" in text
    assert json.loads(Page(text).data)["noun"] == "item"
    assert "WordSim" not in text
    assert "nearest words" not in text
    pair = report(items, tmp_path / "pair.html", other=items).read_text("utf-8")
    assert "<h2>Nearest items</h2>" in pair
    assert "WordSim" not in pair


def test_items_and_nodes_are_not_scored_on_sets_of_english_words(tmp_path):
    items = model_of_items(tmp_path / "items.embedx")
    nodes = load_folder(items)
    nodes.settings.update(format="auto", walks=10)
    for model, noun in ((items, "items"), (nodes, "nodes")):
        with pytest.raises(DataError) as error:
            evaluate([model])
        assert noun in str(error.value)


@pytest.mark.parametrize("table", ["topic0word0\tDesk Lamp\n", 'topic0word0,"Desk Lamp"\n'])
def test_names_of_items_stand_beside_them(tmp_path, capsys, write, table):
    items = str(model_of_items(tmp_path / "items.embedx"))
    names = str(write(table))
    page = report(items, tmp_path / "page.html", words="topic0word0", names=names)
    text = page.read_text("utf-8")
    assert "topic0word0 (Desk Lamp)" in Page(text).cells
    on_map = json.loads(Page(text).data)
    assert (on_map["words"][0], on_map["titles"][0]) == ("topic0word0", "Desk Lamp")

    near = load_folder(items).most_similar("topic0word0", top_k=1)[0][0]
    invoke("nn", items, near, "--names", names, "--top-k", "1")
    (line,) = capsys.readouterr().out.splitlines()
    assert line.split("\t")[:1] == [near]
    assert len(line.split("\t")) == 4


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ("topic0word0\tLamp\ntopic1word0\n", 2),
        ("topic0word0\tLamp\tred\n", 1),
        ("topic0word0\tLamp\ntopic0word0\tDesk\n", 2),
        ("topic0word0\t\n", 1),
        ("", None),
        ("17\tLamp\n", None),
    ],
)
def test_a_table_that_names_no_items_is_an_error_with_its_line(tmp_path, write, table, line):
    items = model_of_items(tmp_path / "items.embedx")
    with pytest.raises(DataError) as error:
        report(items, tmp_path / "page.html", names=str(write(table)))
    assert error.value.line == line
    assert not (tmp_path / "page.html").exists()

"""The map of words on a page: drawn words, projections, clusters and their names."""

import json

import numpy as np
import pytest

import embedx
from embedx.report import (
    projection,
    word_map,
    words as word_pages,
)
from embedx.report.report import report
from tests.support.refusals import refused
from tests.support.report_models import (
    TOPICS,
    Page,
    topic_vectors,
    word_folder,
    words,
)


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


def test_a_word_that_is_not_on_the_map_is_placed_between_its_neighbours():
    unit = topic_vectors() / np.linalg.norm(topic_vectors(), axis=1, keepdims=True)
    places = np.random.default_rng(0).random((40, 2))
    placed = projection.place_between(unit[:40], places, np.vstack([unit[40:], unit[:1]]))
    for vector, place in zip(unit[40:], placed, strict=False):
        best = np.argsort(-unit[:40] @ vector)[:3]
        assert (places[best].min(axis=0) <= place).all()
        assert (place <= places[best].max(axis=0)).all()
    distances = np.linalg.norm(places - placed[-1], axis=1)  # of the first word's vector itself
    assert distances[0] < np.median(distances)


def topic_separation(places):
    """The least distance of two topics' centres, divided by the mean spread within a topic."""
    topic = np.arange(len(places)) % TOPICS
    centres = np.array([places[topic == k].mean(axis=0) for k in range(TOPICS)])
    within = np.mean([places[topic == k].std(axis=0).max() for k in range(TOPICS)])
    between = min(np.linalg.norm(centres[a] - centres[b]) for a in range(TOPICS) for b in range(a))
    return between / within


def test_t_sne_puts_topics_apart_and_a_seed_gives_the_same_map():
    first, again = (projection.project(topic_vectors(), "tsne", 3) for _ in range(2))
    assert topic_separation(first) > 2
    assert np.array_equal(first, again)
    assert (first.min(), first.max()) == (0, 1)


def test_t_sne_is_the_default_where_it_is_installed(monkeypatch):
    assert (projection.chosen(None), projection.chosen("pca")) == ("tsne", "pca")
    monkeypatch.setattr(projection.importlib.util, "find_spec", lambda name: None)
    assert projection.chosen(None) == "pca"
    with refused("projection", value="tsne", quoting="pip install"):
        projection.chosen("tsne")


@pytest.mark.parametrize(
    ("n", "name"), [(1, "pca"), (3, "tsne"), (4, "tsne"), (5, "pca"), (6, "tsne"), (7, "tsne")]
)
def test_maps_of_very_few_words_are_finite_and_within_the_unit_square(n, name):
    places = projection.project(
        np.zeros((n, 3), np.float32) if n in (3, 7) else topic_vectors()[:n], name, 0
    )
    assert places.shape == (n, 2)
    assert np.isfinite(places).all()
    assert places.min() >= 0
    assert places.max() <= 1


def test_a_cluster_is_named_by_its_frequent_central_words_without_function_words():
    words_on_map = ["the", "of", "river", "lake", "s", "whom", "city", "town"]
    avoided = word_map.function_words(words_on_map * 5, "word")
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


def test_the_number_of_clusters_is_that_of_the_groups_in_the_data():
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


def test_requested_words_are_on_the_map_although_they_are_rare(tmp_path):
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

"""Training on random walks of a graph, and the scores of links and node labels."""

import itertools

import networkx
import numpy as np
import pytest

import embedx
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import TextData
from embedx.errors import DataError, InapplicableError, SettingError
from embedx.evaluation import graphs
from embedx.graphs.graph import Graph
from embedx.graphs.settings import SGD_RATE
from embedx.runtime.progress import Silent
from embedx.skipgram.configuration import configure
from embedx.skipgram.layers import COLLAPSED_DEFAULTS
from embedx.vectors.model import WordVectors
from tests.support import word_training
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data


def cliques(n=12):
    """Two cliques with one edge between them."""
    edges = [(f"{side}{i}", f"{side}{j}") for side in "lr" for i in range(n) for j in range(i)]
    return [*edges, ("l0", "r0")]


@pytest.mark.parametrize("objective", ["ns", "hs", "softmax", "ldgs"])
@pytest.mark.slow
def test_training_finds_communities_and_repeats_itself(tmp_path, objective):
    def trained(threads=1):
        settings = {
            "walks": 20,
            "walk_length": 20,
            "dim": 8,
            "window": 3,
            "threads": threads,
            "cache_dir": tmp_path,
            "epochs": 3,
        }
        return embedx.SkipGram(objective, **settings).fit(Graph.from_edges(cliques())).model

    first = trained()
    np.testing.assert_array_equal(first.vectors, trained().vectors)
    for side in "lr":
        assert {word[0] for word, _ in first.most_similar(f"{side}5", top_k=8)} == {side}


def test_graphs_of_other_libraries_are_trained_on(tmp_path):
    settings = {"walks": 5, "walk_length": 10, "dim": 4, "window": 2, "threads": 1}
    ties = networkx.Graph(cliques(6))
    matrix = networkx.to_scipy_sparse_array(ties)
    for graph, names in ((ties, set(ties)), (matrix, set(map(str, range(12))))):
        model = embedx.SkipGram(**settings, cache_dir=tmp_path).fit(graph).model
        assert set(model.words) == names
        with pytest.raises(SettingError) as error:
            embedx.SkipGram(dim=4).fit(graph)
        assert error.value.setting == "walks"
    for no_graph in (matrix.toarray(), [["a", "b"], ["b", "c"]], None):
        with pytest.raises(DataError) as wrong:
            embedx.SkipGram(**settings).fit(no_graph)
        assert wrong.value.file == "corpora"
    with pytest.raises(SettingError):
        embedx.SkipGram(dim=4).fit(Graph.from_networkx(ties))
    with pytest.raises(SettingError):
        embedx.SkipGram(dim=4, sample=0).fit([["a", "b"] * 9] * 9).partial_fit(ties)


def test_settings_of_walks_have_defaults_of_their_own():
    config = configure("ns", {"walks": 5})
    assert (config.settings.epochs, config.settings.window) == (1, 10)
    assert (config.vocabulary.min_count, config.vocabulary.sample) == (1, 0.0)
    assert configure("ns", {"walks": 5, "window": 3}).settings.window == 3
    assert configure("ns", {"walks": 5, "optimizer": "sgd"}).settings.learning_rate == SGD_RATE
    assert configure("ns", {"optimizer": "sgd"}).settings.learning_rate != SGD_RATE
    collapsed = configure("softmax", {"walks": 5}, is_collapsed=True)
    assert collapsed.settings.epochs == COLLAPSED_DEFAULTS["epochs"]


def test_settings_of_walks_need_walks():
    with refused("walk_length", "walks", kind=InapplicableError):
        embedx.SkipGram(walk_length=10)


def test_pairs_of_walks_are_counted(tmp_path):
    """With --collapsed the walks of one epoch are counted."""
    config = configure(
        "softmax",
        {"walks": 20, "walk_length": 20, "dim": 8, "window": 3, "threads": 1},
        is_collapsed=True,
    )
    model = word_training.train(Graph.from_edges(cliques()), config, cache_dir=tmp_path).model
    assert model.facts["corpus_tokens"] == 24 * 20 * 20
    assert model.facts["epochs"] == config.settings.epochs > 1
    assert {word[0] for word, _ in model.most_similar("l5", top_k=8)} == {"l"}


def test_models_are_compared_on_walks_of_another_seed(tmp_path):
    """The nodes of those have other numbers."""
    (tmp_path / "edges").write_text("\n".join(map(" ".join, cliques(30))))
    walks = {"walks": 20, "walk_length": 100, "window": 3}
    data = TextData(
        [str(tmp_path / "edges")], walks, CompareSettings(heldout=0.5), cache_dir=tmp_path
    )
    data.prepare(Silent())
    model = (
        embedx.SkipGram(**walks, dim=8, seed=5, threads=1, cache_dir=tmp_path)
        .fit(str(tmp_path / "edges"))
        .model
    )
    assert list(model.words) != list(data.words)
    scores, facts = data.scores(model.save(tmp_path / "model"))
    assert scores.keys() == {"log_likelihood"}
    assert (
        scores["log_likelihood"].value > facts["unigram"] + 0.3
    )  # log 2 if each clique were known


def test_links_labels_and_sessions_are_scored(tmp_path):
    graph = Graph.from_edges([edge for edge in cliques() if edge != ("l5", "l4")])
    model = (
        embedx.SkipGram(walks=30, walk_length=20, dim=8, window=3, threads=1, cache_dir=tmp_path)
        .fit(graph)
        .model
    )
    held = tmp_path / "links.txt"
    held.write_text("".join(f"l{i} l{i + 1}\nr{i} r{i + 2}\n" for i in range(8)))
    others = tmp_path / "others.txt"
    others.write_text("".join(f"l{i} r{i + 1}\n" for i in range(10)) + "l1 nobody\n")
    progress = Notes()
    rows = graphs.links(model, str(held), str(others), 0, progress)
    assert [row["score"] for row in rows] == ["dot", "cosine", "hadamard"]
    assert rows[1]["AUC"] > 0.9
    assert rows[1]["links"] == 16
    assert rows[1]["others"] == 10
    (note,) = progress.notes
    assert note.startswith(f"{others}: left out: 1 line ")
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{word} {word[0]}\n" for word in model.words))
    rows = graphs.node_labels(model, str(labels), 0, progress)
    assert [row["share of nodes"] for row in rows] == [0.1, 0.1, 0.5, 0.5, 0.9, 0.9]
    assert min(rows[4]["micro F1"], rows[5]["macro F1"]) > 0.9


def test_a_label_of_all_nodes_beside_one_that_varies_is_scored(tmp_path):
    nodes = [f"n{k}" for k in range(40)]
    vectors = np.random.default_rng(0).normal(size=(40, 2)).astype(np.float32)
    labels = tmp_path / "labels.txt"
    lines = [
        f"{node} all right\n" if is_right else f"{node} all\n"
        for node, is_right in zip(nodes, vectors[:, 0] > 0, strict=True)
    ]
    labels.write_text("".join(lines))
    rows = graphs.node_labels(WordVectors(nodes, {"input": vectors}), str(labels), 0, Silent())
    assert rows[-1]["micro F1"] > 0.8


def test_links_are_not_told_from_others_where_all_pairs_are_links(tmp_path):
    nodes = list("abcd")
    file = tmp_path / "links.txt"
    file.write_text("".join(f"{a} {b}\n" for a, b in itertools.combinations(nodes, 2)))
    vectors = np.random.default_rng(0).normal(size=(4, 2)).astype(np.float32)
    model = WordVectors(nodes, {"input": vectors})
    with refused_data(str(file), "non_links"):
        graphs.links(model, str(file), None, 0, Silent())


def test_a_separator_of_edges_can_be_given(tmp_path):
    file = tmp_path / "edges"
    file.write_text("a,b c,d\nc,d e,f\n")
    model = embedx.train(
        file, walks=1, walk_length=5, dim=2, edge_separator="comma", threads=1, cache_dir=tmp_path
    )
    assert sorted(model.words) == ["a", "b c", "c", "d e"]
    with refused("edge_separator", "walks", kind=InapplicableError):
        embedx.train(file, edge_separator="comma")

"""Graphs: reading, walks against the chances of node2vec, training on them, and the scores of
links, labels and sessions.
"""

import datetime
import itertools
import json
import pickle

import networkx
import numpy as np
import pytest
from scipy.sparse import random as random_matrix, save_npz

import embedx
from embedx.comparison.settings import CompareSettings
from embedx.comparison.text import Text
from embedx.errors import DataError, InapplicableError, SettingError
from embedx.evaluation import graphs as evaluate
from embedx.graphs.graph import Graph
from embedx.graphs.read import read_graph
from embedx.graphs.settings import SGD_RATE, GraphSettings
from embedx.graphs.walks import Walks, write_walks
from embedx.runtime.progress import Silent
from embedx.skipgram.configuration import COLLAPSED_DEFAULTS, configure
from embedx.text.cells import cell_lines, cell_tokens
from embedx.text.sessions import sessions
from embedx.vectors import next_item
from embedx.vectors.model import WordVectors
from embedx.vectors.names import names_of
from tests.support import word_training
from tests.support.commands import run_command
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data

EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 4), (0, 4)]
WEIGHTS = np.array([1, 2, 0.5, 3, 1, 1, 0.25], dtype=np.float32)


def adjacency(weights):
    a = np.zeros((5, 5))
    for (i, j), w in zip(EDGES, weights, strict=True):
        a[i, j] = a[j, i] = w
    return a


def walks_of(graph, seed=3, **settings):
    walks = Walks(graph, GraphSettings(walks=settings.pop("walks", 1), **settings), seed)
    tokens = np.zeros(walks.n_walks * (walks.settings.walk_length + 1), dtype=np.int32)
    return walks, tokens[: write_walks(walks.walker, np.uint64(7), 0, walks.n_walks, tokens)]


@pytest.mark.parametrize(
    ("p", "q", "weights"),
    [(1, 1, np.ones(7)), (1, 1, WEIGHTS), (0.25, 4, np.ones(7)), (4, 0.5, WEIGHTS)],
)
def test_steps_have_the_chances_of_node2vec(p, q, weights):
    """Grover & Leskovec 2016, eq. 3, from the last two nodes."""
    graph, a = Graph.from_edges(np.array(EDGES), weights), adjacency(weights)
    _, tokens = walks_of(graph, p=p, q=q, walks=400, walk_length=50)
    steps = tokens.reshape(-1, 51)[:, :-1]
    counts = np.zeros((5, 5, 5))
    for t, v, x in zip(
        steps[:, :-2].ravel(), steps[:, 1:-1].ravel(), steps[:, 2:].ravel(), strict=True
    ):
        counts[t, v, x] += 1
    for t, v in zip(*np.nonzero(a), strict=True):
        bias = np.where(np.arange(5) == t, 1 / p, np.where(a[t] > 0, 1.0, 1 / q)) * a[v]
        expected, n = bias / bias.sum(), counts[t, v].sum()
        error = np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / n)
        assert (np.abs(counts[t, v] / n - expected) < 5 * error).all()


def test_first_steps_go_by_the_weights_and_walks_begin_everywhere_alike():
    graph, a = Graph.from_edges(np.array(EDGES), WEIGHTS), adjacency(WEIGHTS)
    walks, tokens = walks_of(graph, walks=4000, walk_length=2)
    steps = tokens.reshape(-1, 3)
    assert (np.bincount(steps[:, 0]) == 4000).all()
    for v in range(5):
        share = np.bincount(steps[steps[:, 0] == v, 1], minlength=5) / 4000
        np.testing.assert_allclose(share, a[v] / a[v].sum(), atol=0.04)
    assert walks.n_walks == 20_000


def test_a_walk_depends_on_its_number_alone():
    graph = Graph.from_edges(np.array(EDGES))
    walks, tokens = walks_of(graph, walks=5, walk_length=9, p=0.5)
    part = np.zeros(200, dtype=np.int32)
    n = write_walks(walks.walker, np.uint64(7), 11, 14, part)
    np.testing.assert_array_equal(part[:n], tokens.reshape(-1, 10)[11:14].ravel())
    chunks = [np.zeros(40, dtype=np.int32) for _ in range(walks.n_chunks(40))]
    sizes = [walks.write_chunk(2, k, 40, chunk) for k, chunk in enumerate(chunks)]
    assert sum(sizes) == 25 * 10
    assert walks.write_chunk(3, 0, 40, np.zeros(40, dtype=np.int32)) == sizes[0]


def test_directed_walks_end_where_no_edge_leads_on():
    graph = Graph.from_edges([("a", "b"), ("b", "c"), ("a", "c")], directed=True)
    _, tokens = walks_of(graph, walks=50, walk_length=5)
    walks = {tuple(walk.split()) for walk in " ".join(map(str, tokens)).split("-1") if walk.split()}
    assert walks == {("0", "1", "2"), ("0", "2"), ("1", "2")}


def test_a_metapath_is_followed(tmp_path):
    types = tmp_path / "types.txt"
    types.write_text("a1 author\na2 author\np1 paper\np2 paper\nv venue\n")
    graph = Graph.from_edges(
        [("a1", "p1"), ("a2", "p1"), ("a2", "p2"), ("p1", "v"), ("p2", "v"), ("a1", "a2")]
    )
    _, tokens = walks_of(
        graph, walks=30, walk_length=6, node_types=str(types), metapath="author,paper,author"
    )
    kinds = np.array(["a", "p", "v", ""])[
        [0 if n[0] == "a" else 1 if n[0] == "p" else 2 for n in graph.names]
    ]
    assert {"".join(kinds[walk]) for walk in tokens.reshape(-1, 7)[:, :-1]} == {"apapap"}
    with refused("metapath", value="author,reader,author", quoting="reader"):
        walks_of(graph, node_types=str(types), metapath="author,reader,author")


@pytest.mark.parametrize(
    "text",
    [
        "a b\nb c\n\nc a\na b\nc c\n",
        "# a comment\na\tb\nb\tc\nc\ta\nb\ta\nc\tc\n",
        "a,b\nb,c\nc,a\na,b\nc,c\n",
    ],
)
def test_edge_lists_are_read_and_what_is_left_out_is_counted(tmp_path, text):
    file, progress = tmp_path / "edges", Notes()
    file.write_text(text)
    graph = read_graph([str(file)], GraphSettings(walks=1), progress, tmp_path, 1)
    assert sorted(graph.names) == ["a", "b", "c"]
    assert graph.offsets.tolist() == [0, 2, 4, 6]
    assert graph.left_out == {"self-loops": 1, "repeated edges": 1}
    assert progress.notes[-2:] == ["1 self-loops left out", "1 repeated edges left out"]
    assert bool(lines_with(progress.notes, "1 lines", "#, % or //")) == ("#" in text)


@pytest.mark.parametrize(
    ("text", "weighted", "line", "problem"),
    [
        ("a b\nb c d e\n", False, 2, "4 columns"),
        ("a b\n\nb\n", False, 3, "1 columns"),
        ("a b 1\nb c -2\n", True, 2, "weight -2"),
        ("a b 1\nb c nan\n", True, 2, "weight nan"),
        ("a b 1\nb c\n", True, 2, "2 columns"),
        ("a,b,1\nb,c,x\n", True, 2, "weight x"),
        ("a,b\nb,,3\n", False, 2, "cell 2 is empty"),
        ("a,b\nb c\n", False, 2, "1 columns"),
        ('a,b\nb,"c\nd",e\n', False, 2, "a quote"),
        ("# nothing\n", False, None, "no edges"),
    ],
)
def test_lines_that_are_no_edge_are_reported_by_file_and_line(
    tmp_path, text, weighted, line, problem
):
    file = tmp_path / "edges"
    file.write_text(text)
    with pytest.raises(DataError) as error:
        read_graph([str(file)], GraphSettings(walks=1, weighted=weighted), Silent(), tmp_path, 1)
    assert (error.value.file, error.value.line) == (str(file), line)
    assert error.value.problem.startswith(problem)


def test_a_graph_needs_an_edge(tmp_path):
    (tmp_path / "edges").write_text("a a\n")
    with refused(kind=DataError, file="graph"):
        read_graph([str(tmp_path / "edges")], GraphSettings(walks=1), Silent(), tmp_path, 1)


CITIES = ["Boston", "Lyon", "New York", "Paris"]


@pytest.mark.parametrize(
    "text",
    [
        "New York,Boston\nParis,Lyon\n",
        "New York\tBoston\nParis\tLyon\n",
        "New York;Boston\nParis;Lyon\n",
        "\ufeff# roads\r\nNew York , Boston\r\nParis,Lyon,\r\n",
        '"New York" Boston\nParis Lyon\n',
        "source,target\nNew York,Boston\nParis,Lyon\n",
        "FromCity\tToCity\tkm\nNew York\tBoston\t306\nParis\tLyon\t465\n",
        "von,nach,km\nNew York,Boston,306\nParis,Lyon,465\n",
    ],
)
def test_names_of_nodes_may_hold_blanks(tmp_path, text):
    file = tmp_path / "edges"
    file.write_bytes(text.encode())
    graph = read_graph([str(file)], GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert sorted(graph.names) == CITIES
    assert len(graph.neighbours) == 4


def test_quotes_keep_separators_and_blanks_keep_what_is_no_separator(tmp_path):
    file = tmp_path / "edges"
    quoted = ['"New York, NY",Boston', 'Paris,"the ""old"" town"']
    for text, names in (
        ("\n".join(quoted), {"New York, NY", "Boston", "Paris", 'the "old" town'}),
        ("hsa|1 hsa|2\nhsa|2 hsa;3", {"hsa|1", "hsa|2", "hsa;3"}),
        ('" said\nhe "', {'"', "said", "he"}),
    ):
        file.write_text(text)
        graph = read_graph([str(file)], GraphSettings(walks=1), Silent(), tmp_path, 1)
        assert set(graph.names) == names


def test_each_file_has_its_own_separator_and_heading(tmp_path):
    (tmp_path / "a.csv").write_text("source,target\nNew York,Boston\n")
    (tmp_path / "b.tsv").write_text("source\ttarget\nParis\tLyon\n")
    files = [str(tmp_path / name) for name in ("a.csv", "b.tsv")]
    graph = read_graph(files, GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert sorted(graph.names) == CITIES


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("New York Boston\nLos Angeles Boston\n", 1),
        ("a b 1\na -> b\n", 2),
        ("1 2 3\n2 1\n", 2),  # lists of neighbours
        ("a,b\nb,c\nc,d,e\n", 3),
    ],
)
def test_files_that_are_no_edge_list_are_refused_with_the_line(tmp_path, text, line):
    file = tmp_path / "edges"
    file.write_text(text)
    with refused_data(f"edges:{line}"):
        read_graph([str(file)], GraphSettings(walks=1), Silent(), tmp_path, 1)


@pytest.mark.parametrize("text", ["a b {}\nb c {}\n", "a b 1\nb c 2.5\n", "a,b,friend\nb,c,foe\n"])
def test_a_third_column_that_is_no_part_of_a_name_is_left_out(tmp_path, text):
    file = tmp_path / "edges"
    file.write_text(text)
    graph = read_graph([str(file)], GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert sorted(graph.names) == ["a", "b", "c"]


def test_usual_names_of_columns_are_nodes_where_they_occur_again(tmp_path):
    (tmp_path / "words").write_text("parent child\nchild toy\n")
    graph = read_graph([str(tmp_path / "words")], GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert sorted(graph.names) == ["child", "parent", "toy"]


@pytest.mark.parametrize("n_bytes", [1, 7, 1000])
def test_cells_do_not_depend_on_blocks(n_bytes):
    text = b'# cities\nNew York,"a, b"\n\n x , y,\n'
    blocks = [text[k : k + n_bytes] for k in range(0, len(text), n_bytes)]
    assert list(cell_lines(blocks, "")) == [
        (1, ["#", "cities"]),
        (2, ["New York", "a, b"]),
        (4, ["x", "y"]),
    ]
    marked = b"".join(cell_tokens(blocks, "")).split(b"\xfe")
    assert list(filter(None, marked)) == [b"#\xffcities", b"New York\xffa, b", b"x\xffy"]


def test_different_nodes_have_different_names():
    ties = networkx.Graph([(1, "1"), (1, 2)])
    for make in (
        lambda: Graph.from_networkx(ties),
        lambda: Graph.from_edges([(1, "1")]),
        lambda: Graph.from_scipy(np.ones((2, 2)), names=["a", "a"]),
        lambda: Graph.from_scipy(np.ones((2, 2)), names=["a", ""]),
        lambda: Graph.from_scipy(np.ones((2, 2)), names=["a", "\ud800"]),
        lambda: Graph.from_scipy(np.ones((2, 2)), names=["a", 1]),
        lambda: Graph.from_edges(["ab", "cd"]),
        lambda: Graph.from_edges([("a", None)]),
        lambda: Graph.from_edges([("a", float("nan"))]),
        lambda: Graph.from_edges([("a", ["b"])]),
        lambda: Graph.from_edges([("a", "b", 1)]),
    ):
        with pytest.raises(DataError):
            make()
    assert Graph.from_edges(zip([1, 2], [np.int64(2), 3], strict=True)).names == ["1", "2", "3"]


def test_a_first_weight_that_is_not_a_number_is_no_heading(tmp_path):
    file = tmp_path / "edges.txt"
    file.write_text("a b nan\nb c 2\nc a 1\n")
    with pytest.raises(DataError) as raised:
        read_graph([str(file)], GraphSettings(walks=1, weighted=True), Silent(), tmp_path, 1)
    assert (raised.value.line, raised.value.problem) == (1, "weight nan")


def test_a_heading_is_recognised_and_weights_are_read(tmp_path):
    file, progress = tmp_path / "edges.csv", Notes()
    file.write_text("from,to,weight\n1,2,3\n2,3,1\n2,3,1\n")
    graph = read_graph([str(file)], GraphSettings(walks=1, weighted=True), progress, tmp_path, 1)
    np.testing.assert_allclose(graph.cumulative[graph.offsets[1] : graph.offsets[2]], [3 / 5, 1])
    assert lines_with(progress.notes, "edges.csv", "first line", "a heading")


def test_matrices_and_networkx_are_graphs(tmp_path):
    matrix = random_matrix(20, 20, 0.2, random_state=1, format="csr")
    save_npz(tmp_path / "graph.npz", matrix)
    read = read_graph(
        [str(tmp_path / "graph.npz")], GraphSettings(walks=1, weighted=True), Silent(), tmp_path, 1
    )
    both = matrix + matrix.T
    both.setdiag(0)
    both.eliminate_zeros()
    np.testing.assert_array_equal(read.neighbours, both.indices)
    ties = networkx.DiGraph()
    ties.add_edge("a", "b", strength=3)
    ties.add_edge("a", "c", strength=1)
    graph = Graph.from_networkx(ties, "strength")
    assert (list(graph.names), graph.offsets.tolist(), graph.cumulative.tolist()) == (
        ["a", "b", "c"],
        [0, 2, 2, 2],
        [0.75, 1],
    )
    (tmp_path / "bad.npz").write_bytes(b"PK")
    with refused_data("bad.npz"):
        read_graph([str(tmp_path / "bad.npz")], GraphSettings(walks=1), Silent(), tmp_path, 1)


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
    """By --collapsed, whose walks are those of an epoch."""
    config = configure(
        "softmax",
        {"walks": 20, "walk_length": 20, "dim": 8, "window": 3, "threads": 1},
        is_collapsed=True,
    )
    model = word_training.train(Graph.from_edges(cliques()), config, cache_dir=tmp_path).vectors
    assert model.facts["corpus_tokens"] == 24 * 20 * 20
    assert model.facts["epochs"] == config.settings.epochs > 1
    assert {word[0] for word, _ in model.most_similar("l5", top_k=8)} == {"l"}


def test_models_are_compared_on_walks_of_another_seed(tmp_path):
    """Whose nodes are numbered otherwise."""
    (tmp_path / "edges").write_text("\n".join(map(" ".join, cliques(30))))
    walks = {"walks": 20, "walk_length": 100, "window": 3}
    data = Text([str(tmp_path / "edges")], walks, CompareSettings(heldout=0.5), cache_dir=tmp_path)
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


# ---- scores


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
    rows = evaluate.links(model, str(held), str(others), 0, progress)
    assert [row["score"] for row in rows] == ["dot", "cosine", "hadamard"]
    assert rows[1]["AUC"] > 0.9
    assert rows[1]["links"] == 16
    assert rows[1]["others"] == 10
    (note,) = progress.notes
    assert note.startswith(f"{others}: 1 lines ")
    labels = tmp_path / "labels.txt"
    labels.write_text("".join(f"{word} {word[0]}\n" for word in model.words))
    rows = evaluate.node_labels(model, str(labels), 0, progress)
    assert [row["share of nodes"] for row in rows] == [0.1, 0.1, 0.5, 0.5, 0.9, 0.9]
    assert min(rows[4]["micro F1"], rows[5]["macro F1"]) > 0.9


def test_the_next_item_is_ranked_as_by_loops(tmp_path):
    rng = np.random.default_rng(0)
    train, test = tmp_path / "train.txt", tmp_path / "test.txt"
    sessions = [[f"i{(k + d) % 9}" for d in range(4)] for k in rng.integers(0, 9, 300)]
    train.write_text("".join(" ".join(session) + "\n" for session in sessions))
    test.write_text("i1 i2 i3\ni4 i5\ni2 unknown\n")
    model = (
        embedx.SkipGram(dim=8, window=2, epochs=20, sample=0, threads=1, cache_dir=tmp_path)
        .fit(str(train))
        .model
    )
    progress = Notes()
    rows = {row["ranking"]: row for row in evaluate.next_item(model, str(test), progress)}
    assert len(progress.notes) == 1
    assert rows["vectors"]["sessions"] == 2

    def ranks_of(z):
        ranks = []
        for scores, item in zip(z, ("i3", "i5"), strict=True):
            score = scores[model.index(item)]
            n_tied = (scores == score).sum() - 1
            ranks.append(1 + (scores > score).sum() + n_tied / 2)
        return ranks

    ranks = ranks_of(
        np.stack([model["i2"] + next_item.DECAY * model["i1"], model["i4"]])
        @ model.output_vectors.T
    )
    reciprocal_ranks = evaluate.next_item_measures(
        model, *evaluate.read_sessions(model.words, str(test), progress)
    )["MRR"]
    assert reciprocal_ranks == pytest.approx([1 / rank for rank in ranks])
    assert rows["vectors"]["MRR"] == pytest.approx(np.mean(reciprocal_ranks))
    near = np.zeros((9, 9))
    for session in sessions:
        ids = [model.index(word) for word in session]
        for a, b in [*itertools.pairwise(ids), *zip(ids, ids[2:], strict=False)]:
            near[[a, b], [b, a]] += 1
    ranks = ranks_of([near[model.index("i2")], near[model.index("i4")]])
    assert rows["co-occurrence"]["MRR"] == pytest.approx(np.mean([1 / rank for rank in ranks]))
    model.save(tmp_path / "model")
    # the first session tunes, the second is scored
    for tune, scored in ((None, reciprocal_ranks), (0.5, reciprocal_ranks[1:])):
        data = Text(
            [str(train)], {}, CompareSettings(tune=tune), next_item=str(test), cache_dir=tmp_path
        )
        assert data.prepare(Silent())["sessions"] == 2
        assert data.scores(tmp_path / "model")[0]["mrr"].value == pytest.approx(scored.mean())
        assert data.validation_score(tmp_path / "model", {}) == pytest.approx(reciprocal_ranks[0])
    tree = (
        embedx.SkipGram("hs", dim=8, window=2, epochs=20, sample=0, threads=1, cache_dir=tmp_path)
        .fit(str(train))
        .model
    )
    assert evaluate.next_item(tree, str(test), progress)[0]["MRR"] > 0.4  # 0.31 by chance


@pytest.mark.parametrize("objective", ["ns", "hs"])
def test_recommendations_use_the_scores_of_eval(tmp_path, objective):
    train = tmp_path / "train.txt"
    rng = np.random.default_rng(0)
    sessions = [[f"i{(k + d) % 9}" for d in range(4)] for k in rng.integers(0, 9, 300)]
    train.write_text("".join(" ".join(session) + "\n" for session in sessions))
    model = (
        embedx.SkipGram(objective, dim=8, window=2, epochs=20, sample=0, threads=1)
        .fit(str(train))
        .model
    )
    history = ["i1", "i1", "new", "i2"]
    recommended = model.recommend(history, top_k=3)
    h = (model["i2"] + 0.75 * next_item.DECAY * model["i1"] * 2) / (1 + 0.75)
    scores = next_item.next_item_scores(model)(h[None])[0]
    by_score = [model.words[row] for row in np.argsort(-scores)]
    expected = [item for item in by_score if item not in history][:3]
    assert [item for item, _ in recommended] == expected
    assert [score for _, score in recommended] == pytest.approx(
        [scores[model.index(item)] for item in expected], rel=1e-4
    )
    assert {"i0", "i3"} <= {item for item, _ in recommended}
    assert len(model.recommend(["i1"], top_k=100)) == 8
    copied = pickle.loads(pickle.dumps(model))
    assert [item for item, _ in copied.recommend(history, top_k=3)] == expected
    for items in (["new"], [], "i1"):
        with refused_data("items"):
            model.recommend(items)


def test_histories_are_answered_on_the_command_line(tmp_path):
    words = ["bread", "butter", "jam", "tea"]
    arrays = {name: np.eye(4, dtype=np.float32) for name in ("input", "output")}
    arrays["output"] = np.roll(arrays["output"], 1, axis=0)  # each is followed by the next
    model = WordVectors(words, arrays, counts=np.array([4, 3, 2, 1]), facts={"objective": "ns"})
    model.save(tmp_path / "items")

    done = run_command(tmp_path, "recommend", "items", "tea", "bread", "--top-k", 1)
    assert done.stdout == "butter\t0.6667\n"

    done = run_command(tmp_path, "recommend", "items", "jam", "rye", "--top-k", 1, "--json")
    expected = [{"item": "tea", "score": 1.0}]
    assert json.loads(done.stdout) == {"history": ["jam", "rye"], "recommended": expected}
    (warning,) = done.stderr.splitlines()
    assert warning.startswith("warning: ")
    assert warning.endswith(": rye")

    (tmp_path / "names.tsv").write_text("butter\tSalted Butter 250 g\n")
    done = run_command(
        tmp_path, "recommend", "items", "tea", "bread", "--top-k", 2, "--names", "names.tsv"
    )
    assert done.stdout.splitlines()[0] == "butter\tSalted Butter 250 g\t0.6667"
    assert done.stdout.splitlines()[1].startswith("jam\t\t")
    with refused_data("name.tsv", quoting=("no such file", "names.tsv")):
        names_of(model, str(tmp_path / "name.tsv"))

    lines = "tea\tbread\n\nrye\njam\trye\n"
    (tmp_path / "histories.txt").write_text(lines)
    answers = "tea bread\tbutter\t0.6667\njam rye\ttea\t1.0000\n"
    from_file = run_command(
        tmp_path, "recommend", "items", "--histories", "histories.txt", "--top-k", 1
    )
    from_input = run_command(tmp_path, "recommend", "items", "-", "--top-k", 1, input=lines)
    assert from_file.stdout == from_input.stdout == answers
    of_line, of_others = from_file.stderr.splitlines()
    assert of_line.startswith("warning: line 3: ")
    assert of_line.endswith(": rye")
    assert of_others.startswith("warning: ")
    assert of_others.endswith(": 1")

    # A program that waits for an answer to each line gets one.
    done = run_command(
        tmp_path, "recommend", "items", "-", "--json", "--top-k", 1, input="tea\n\nrye\n"
    )
    assert [json.loads(line)["history"] for line in done.stdout.splitlines()] == [
        ["tea"],
        [],
        ["rye"],
    ]

    done = run_command(tmp_path, "recommend", "items", "-", input="rye\n" * 1200)
    *warnings, total = done.stderr.splitlines()
    assert len(warnings) == 5
    assert total.startswith("warning: ")
    assert total.endswith(": 1,200")

    words = ["recommend", "items", "tea", "--histories", "histories.txt"]
    done = run_command(tmp_path, *words, check=False)
    assert done.returncode == 2
    assert done.stderr.startswith("embedx: --histories ")


EVENTS = """user,item,time
1,bread,2026-01-02T10:00
2,milk,2026-01-01
1,butter,2026-01-02T10:05
2,eggs,2026-01-03
1,jam,2026-02-01T10:05
1,tea,2026-02-01T10:06
3,tea,2026-02-01T10:06
"""


def test_a_table_of_events_becomes_sessions(tmp_path):
    table = tmp_path / "orders.csv"
    lines = tmp_path / "orders.jsonl"
    progress = Notes()
    table.write_text(EVENTS)
    users = [row.split(",") for row in EVENTS.splitlines()[1:]]
    lines.write_text(
        "".join(f'{{"who": {u}, "what": "{i}", "at": {k}}}\n' for k, (u, i, _) in enumerate(users))
    )
    assert list(sessions(str(table), "user,item,time", None, progress)) == [
        "milk eggs",
        "bread butter jam tea",
    ]
    of_times, of_sessions = progress.notes
    assert of_times.startswith(f"{table}: time ")
    assert "from 2026-01-01 00:00 to 2026-02-01 10:06 (UTC)" in of_times
    assert of_sessions.startswith(f"{table}: 1 of 3 sessions ")
    assert list(sessions(str(table), "user,item,time", 86_400, Silent())) == [
        "bread butter",
        "jam tea",
    ]
    assert list(sessions(str(lines), "who,what,at", None, Silent())) == [
        "bread butter jam tea",
        "milk eggs",
    ]


START = 1_769_940_000  # 2026-02-01 10:00 UTC
MINUTES = [0, 5, 60]  # of the events of one user: the last is in a session of its own


def events(times, heading="user,item,time\n"):
    items = ["bread", "butter", "jam"]
    return heading + "".join(f'1,{i},"{t}"\n' for i, t in zip(items, times, strict=True))


def dates(form):
    moments = [datetime.datetime.fromtimestamp(START + 60 * m, datetime.UTC) for m in MINUTES]
    return [f"{moment:{form}}" for moment in moments]


@pytest.mark.parametrize(
    ("times", "written_as"),
    [
        ([START + 60 * m for m in MINUTES], "seconds since 1970"),
        ([1000 * (START + 60 * m) for m in MINUTES], "milliseconds since 1970"),
        ([10**6 * (START + 60 * m) for m in MINUTES], "microseconds since 1970"),
        ([10**9 * (START + 60 * m) for m in MINUTES], "nanoseconds since 1970"),
        ([46_054 + (600 + m) / 1440 for m in MINUTES], "days since 1900"),
        ([60 * m for m in MINUTES], "seconds"),
        (dates("%Y%m%d%H%M%S"), "dates (dates without separators)"),
        (dates("%Y-%m-%d %H:%M:%S UTC"), "dates (ISO 8601)"),
        (["2026-02-01T10:00Z", "2026-02-01T12:05+02:00", "2026-02-01T11:00"], "dates (ISO 8601)"),
        (dates("%d.%m.%Y %H:%M"), "dates (%d.%m.%Y %H:%M)"),
        (["2/28/2026 9:58 PM", "2/28/2026 10:00 PM", "3/1/2026 1:00 AM"], "%m/%d/%Y %I:%M %p"),
        (dates("%d/%b/%Y:%H:%M:%S +0000"), "%d/%b/%Y:%H:%M:%S %z"),
        (dates("%a, %d %b %Y %H:%M:%S GMT"), "%a, %d %b %Y %H:%M:%S %z"),
    ],
)
def test_the_unit_of_times_is_recognised_and_said(tmp_path, times, written_as):
    table, progress = tmp_path / "events.csv", Notes()
    table.write_text(events(times))
    lines = list(sessions(str(table), "user,item,time", 1800, progress))
    assert lines == ["bread butter"]
    assert written_as in progress.notes[0]
    if not written_as.startswith("%") and written_as != "seconds":
        assert progress.notes[0].endswith(
            f"{written_as}, from 2026-02-01 10:00 to 2026-02-01 11:00 (UTC)"
        )


def test_the_unit_of_times_can_be_given(tmp_path):
    table = tmp_path / "events.csv"
    table.write_text(events([60_000 * m for m in MINUTES]))  # milliseconds since the start
    assert list(sessions(str(table), "user,item,time", 1800, Silent(), "ms")) == ["bread butter"]
    with pytest.raises(SettingError) as error:
        list(sessions(str(table), "user,item,time", 1800, Silent(), "minutes"))
    assert error.value.setting == "time_unit"


@pytest.mark.parametrize(
    ("times", "line"),
    [
        ([START, 1000 * START, START], None),  # seconds and milliseconds
        (["01/02/2026", "03/04/2026", "05/06/2026"], None),  # of which month?
        ([START, "2026-02-01", START], 3),
        ([START, START, "nan"], 4),
        ([0, 3600, 7200], None),  # no session of two items
    ],
)
def test_ambiguous_times_are_refused(tmp_path, times, line):
    table = tmp_path / "events.csv"
    table.write_text(events(times))
    with pytest.raises(DataError) as error:
        list(sessions(str(table), "user,item,time", 1800, Silent()))
    assert (error.value.file, error.value.line) == (str(table), line)


@pytest.mark.parametrize("heading", ["", "who,what,when\n"])
def test_columns_have_numbers_where_there_is_no_heading(tmp_path, heading):
    table = tmp_path / "events.csv"
    table.write_text(events([START, START + 60, START + 120], heading))
    assert list(sessions(str(table), "1,2,3", None, Silent())) == ["bread butter jam"]
    with refused_data("events.csv:2", "columns", quoting=("4", "1, 2, 3")):
        list(sessions(str(table), "1,2,4", None, Silent()))


@pytest.mark.parametrize(
    ("text", "columns", "line", "problem"),
    [
        (EVENTS, "user,item,day", 2, 'no column "day"'),
        (EVENTS.replace("2026-01-03", "soon"), "user,item,time", 5, "time is 'soon'"),
        (EVENTS.replace("eggs", " "), "user,item,time", 5, "item is empty"),
        (EVENTS.replace("2,eggs", ",eggs"), "user,item,time", 5, "user is empty"),
        (EVENTS.replace(",eggs", ""), "user,item,time", 5, "2 columns, but 3"),
        ('{"user": 1}\n', "user,item,time", 1, 'no column "item"'),
        ('{"user": 1, "item": ["a", "b"]}\n', "user,item", 1, "item is ["),
        ('{"user": NaN, "item": "a"}\n', "user,item", 1, "user is NaN"),
        ("user,item,time\n", "user,item,time", None, "no rows"),
    ],
)
def test_rows_that_are_no_event_are_reported_by_file_and_line(
    tmp_path, text, columns, line, problem
):
    table = tmp_path / "orders.csv"
    table.write_text(text)
    with pytest.raises(DataError) as error:
        list(sessions(str(table), columns, None, Silent()))
    assert (error.value.file, error.value.line) == (str(table), line)
    assert error.value.problem.startswith(problem)


@pytest.mark.parametrize("columns", ["user", "user,item,time,price", "user,,time"])
def test_sessions_need_a_user_and_an_item(tmp_path, columns):
    with pytest.raises(SettingError) as error:
        list(sessions(str(tmp_path / "orders.csv"), columns, None, Silent()))
    assert (error.value.setting, error.value.value) == ("columns", columns)


ORDERS = [
    ("7", "Desk Lamp Basic"),
    ("3", "Chair"),
    ("7", "Chair"),
    ("3", " Paper  A4 "),
    ("5", "Chair"),
    ("7", "Paper A4"),
]


@pytest.mark.parametrize(
    ("heading", "columns"), [("order,item\n", "order,item"), ("", "1,2"), ("a,b\n", "1,2")]
)
def test_orders_without_times_are_in_the_order_of_the_file(tmp_path, heading, columns):
    table = tmp_path / "orders.csv"
    progress = Notes()
    table.write_text(heading + "".join(f'{order},"{item}"\n' for order, item in ORDERS))
    assert list(sessions(str(table), columns, None, progress)) == [
        "Desk_Lamp_Basic Chair Paper_A4",
        "Chair Paper_A4",
    ]
    assert progress.notes[0].startswith(f"{table}: ")
    assert "Desk_Lamp_Basic" in progress.notes[0]
    with refused("gap", "columns", kind=InapplicableError):
        list(sessions(str(table), columns, 1800, Silent()))
    with refused("time_unit", "columns", kind=InapplicableError):
        list(sessions(str(table), columns, None, Silent(), "ms"))


def test_an_item_of_several_words_is_one_item(tmp_path):
    words = ["Desk_Lamp_Basic", "Chair", "Paper_A4"]
    arrays = {"input": np.eye(3, dtype=np.float32)}
    arrays["output"] = np.roll(arrays["input"], 1, axis=0)
    model = WordVectors(words, arrays, counts=np.array([3, 2, 1]), facts={"objective": "ns"})
    assert "Desk Lamp Basic" in model
    assert model.recommend(["Desk Lamp Basic"], top_k=1) == [("Chair", 1.0)]
    with refused_data("items", quoting='"Desk Lamp Basic"'):
        model.recommend(["Desk", "Lamp", "Basic"])
    with refused_data("items", quoting="did you mean Desk_Lamp_Basic?"):
        model.recommend(["desk lamp basic"])
    model.save(tmp_path / "items")
    lines = "Desk Lamp Basic\nDesk Lamp Basic\tChair\n"
    done = run_command(tmp_path, "recommend", "items", "-", "--top-k", 1, input=lines)
    assert done.stdout == (
        "Desk Lamp Basic\tChair\t1.0000\nDesk Lamp Basic Chair\tPaper_A4\t0.6667\n"
    )
    done = run_command(tmp_path, "nn", "items", "-", "--top-k", 1, input="Paper A4\n")
    assert done.stdout == "Paper A4\tDesk_Lamp_Basic\t0.0000\n"


@pytest.mark.parametrize(
    "lines",
    [
        "coordinate real general\n10 10 1000000000000\n1 2 1\n",
        "coordinate real general\n1000000000000 1000000000000 1\n1 2 1\n",
        "array real general\n100000 100000\n1\n",
    ],
)
def test_a_matrix_that_declares_more_than_its_file_holds_is_refused_at_once(tmp_path, lines):
    file = tmp_path / "graph.mtx"
    file.write_text(f"%%MatrixMarket matrix {lines}")
    with pytest.raises(DataError) as raised:
        read_graph([str(file)], GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert raised.value.file == str(file)


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("Smith,J Doe,A\nDoe,A Roe,B\n", ["Doe,A", "Roe,B", "Smith,J"]),
        ("Smith,J Doe,A 2\nDoe,A Roe,B 1.5\n", ["Doe,A", "Roe,B", "Smith,J"]),
        ("a b 0,5\nb c 1,5\n", ["a", "b", "c"]),
        ("New York,Boston\nParis,Lyon\n", CITIES),
        ("New York,Boston,1\nParis,Lyon,2\n", CITIES),
        ("a\tb\nc d\n", ["a", "b", "c", "d"]),
        ("gene|1 gene|2\n", ["gene|1", "gene|2"]),
    ],
)
def test_the_separator_of_nodes_divides_all_first_lines(tmp_path, text, names):
    (tmp_path / "edges").write_text(text)
    graph = read_graph([str(tmp_path / "edges")], GraphSettings(walks=1), Silent(), tmp_path, 1)
    assert sorted(graph.names) == names


def test_a_separator_of_edges_can_be_given(tmp_path):
    file = tmp_path / "edges"
    file.write_text("a,b c,d\nc,d e,f\n")
    model = embedx.train(
        file, walks=1, walk_length=5, dim=2, edge_separator="comma", threads=1, cache_dir=tmp_path
    )
    assert sorted(model.words) == ["a", "b c", "c", "d e"]
    with refused("edge_separator", "walks", kind=InapplicableError):
        embedx.train(file, edge_separator="comma")

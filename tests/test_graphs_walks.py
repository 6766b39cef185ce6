"""Random walks: the transition probabilities of node2vec, directed graphs, metapaths."""

import numpy as np
import pytest

from embedx.graphs.graph import Graph
from embedx.graphs.settings import GraphSettings
from embedx.graphs.walks import Walks, write_walks
from tests.support.refusals import refused

EDGES = [(0, 1), (0, 2), (1, 2), (2, 3), (3, 4), (1, 4), (0, 4)]
WEIGHTS = np.array([1, 2, 0.5, 3, 1, 1, 0.25], dtype=np.float32)


def adjacency(weights):
    matrix = np.zeros((5, 5))
    for (i, j), weight in zip(EDGES, weights, strict=True):
        matrix[i, j] = weight
        matrix[j, i] = weight
    return matrix


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
    graph = Graph.from_edges(np.array(EDGES), weights)
    a = adjacency(weights)
    _, tokens = walks_of(graph, p=p, q=q, walks=400, walk_length=50)
    steps = tokens.reshape(-1, 51)[:, :-1]
    counts = np.zeros((5, 5, 5))
    for t, v, x in zip(
        steps[:, :-2].ravel(), steps[:, 1:-1].ravel(), steps[:, 2:].ravel(), strict=True
    ):
        counts[t, v, x] += 1
    for t, v in zip(*np.nonzero(a), strict=True):
        bias = np.where(np.arange(5) == t, 1 / p, np.where(a[t] > 0, 1.0, 1 / q)) * a[v]
        expected = bias / bias.sum()
        n = counts[t, v].sum()
        error = np.sqrt(np.maximum(expected * (1 - expected), 1e-9) / n)
        assert (np.abs(counts[t, v] / n - expected) < 5 * error).all()


def test_first_steps_follow_the_weights_and_every_node_starts_as_many_walks():
    graph = Graph.from_edges(np.array(EDGES), WEIGHTS)
    weights = adjacency(WEIGHTS)
    walks, tokens = walks_of(graph, walks=4000, walk_length=2)
    steps = tokens.reshape(-1, 3)
    assert (np.bincount(steps[:, 0]) == 4000).all()
    for start in range(5):
        share = np.bincount(steps[steps[:, 0] == start, 1], minlength=5) / 4000
        np.testing.assert_allclose(share, weights[start] / weights[start].sum(), atol=0.04)
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
    # Author, paper or venue; the token -1 ends a walk.
    first_letter = np.array([name[0] for name in graph.names])
    assert {"".join(first_letter[walk]) for walk in tokens.reshape(-1, 7)[:, :-1]} == {"apapap"}
    with refused("metapath", value="author,reader,author", quoting="reader"):
        walks_of(graph, node_types=str(types), metapath="author,reader,author")


def test_nodes_that_the_counted_walks_missed_have_a_count():
    graph = Graph.from_edges([("hub", f"leaf{k}") for k in range(50)], directed=True)
    walks, _ = walks_of(graph, walks=4)
    assert sorted(walks.counts(threads=2).tolist()) == [1] * 49 + [4, 4]


def test_nodes_that_a_metapath_does_not_reach_have_none(tmp_path):
    names = ["author", *(f"paper{k}" for k in range(20)), "venue", "paper of a venue alone"]
    types = tmp_path / "types.txt"
    types.write_text("".join(f"{name}\t{name.split()[0].rstrip('0123456789')}\n" for name in names))
    edges = [("author", name) for name in names[1:21]]
    graph = Graph.from_edges([*edges, ("venue", "paper0"), ("venue", names[-1])])
    metapath = "author,paper,author"
    walks, _ = walks_of(graph, walk_length=3, node_types=str(types), metapath=metapath)
    counts = dict(zip(graph.names, walks.counts(threads=1).tolist(), strict=True))
    assert [name for name in names if not counts[name]] == names[-2:]

"""Graphs from edge lists, matrices and networkx: node names, separators, invalid lines."""

import networkx
import numpy as np
import pytest
from scipy.sparse import random as random_matrix, save_npz

from embedx.errors import DataError
from embedx.graphs.graph import Graph
from embedx.graphs.read import read_graph
from embedx.graphs.settings import GraphSettings
from embedx.runtime.progress import SILENT
from embedx.text.cells import cell_lines, cell_tokens
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data


def graph_of(text, folder, progress=SILENT, *, name="edges", **settings):
    """The graph of a file with this text."""
    (folder / name).write_bytes(text.encode())
    return read([folder / name], folder, progress, **settings)


def read(files, folder, progress=SILENT, **settings):
    """The graph of these files; `folder` is for the token cache."""
    names = [str(file) for file in files]
    return read_graph(names, GraphSettings(walks=1, **settings), progress, folder, threads=1)


@pytest.mark.parametrize(
    "text",
    [
        "a b\nb c\n\nc a\na b\nc c\n",
        "# a comment\na\tb\nb\tc\nc\ta\nb\ta\nc\tc\n",
        "a,b\nb,c\nc,a\na,b\nc,c\n",
    ],
)
def test_self_loops_and_repeated_edges_are_left_out_and_counted(tmp_path, text):
    progress = Notes()
    graph = graph_of(text, tmp_path, progress)
    assert sorted(graph.names) == ["a", "b", "c"]
    assert graph.offsets.tolist() == [0, 2, 4, 6]
    assert graph.left_out == {"self-loops": 1, "repeated edges": 1}
    assert progress.notes[-2:] == ["self-loops left out: 1", "repeated edges left out: 1"]
    assert bool(lines_with(progress.notes, "1 comment", "#, % or //")) == ("#" in text)


@pytest.mark.parametrize(
    ("text", "weighted", "line", "problem"),
    [
        ("a b\nb c d e\n", False, 2, "4 columns"),
        ("a b\n\nb\n", False, 3, "1 column"),
        ("a b 1\nb c -2\n", True, 2, "weight -2"),
        ("a b 1\nb c nan\n", True, 2, "weight nan"),
        ("a b 1\nb c\n", True, 2, "2 columns"),
        ("a,b,1\nb,c,x\n", True, 2, "weight x"),
        ("a,b\nb,,3\n", False, 2, "cell 2 is empty"),
        ("a,b\nb c\n", False, 2, "1 column"),
        ('a,b\nb,"c\nd",e\n', False, 2, "a quote"),
        ("# nothing\n", False, None, "no edges"),
    ],
)
def test_invalid_lines_are_refused_with_file_and_line(tmp_path, text, weighted, line, problem):
    with pytest.raises(DataError) as error:
        graph_of(text, tmp_path, weighted=weighted)
    assert (error.value.file, error.value.line) == (str(tmp_path / "edges"), line)
    assert error.value.problem.startswith(problem)


def test_a_graph_without_edges_is_refused(tmp_path):
    with refused(kind=DataError, file="graph"):
        graph_of("a a\n", tmp_path)


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
def test_node_names_may_contain_spaces_where_another_separator_divides(tmp_path, text):
    graph = graph_of(text, tmp_path)
    assert sorted(graph.names) == CITIES
    assert len(graph.neighbours) == 4


def test_quotes_protect_separators_and_other_signs_belong_to_names(tmp_path):
    quoted = ['"New York, NY",Boston', 'Paris,"the ""old"" town"']
    for text, names in (
        ("\n".join(quoted), {"New York, NY", "Boston", "Paris", 'the "old" town'}),
        ("hsa|1 hsa|2\nhsa|2 hsa;3", {"hsa|1", "hsa|2", "hsa;3"}),
        ('" said\nhe "', {'"', "said", "he"}),
    ):
        graph = graph_of(text, tmp_path)
        assert set(graph.names) == names


def test_each_file_has_its_own_separator_and_heading(tmp_path):
    (tmp_path / "a.csv").write_text("source,target\nNew York,Boston\n")
    (tmp_path / "b.tsv").write_text("source\ttarget\nParis\tLyon\n")
    files = [tmp_path / name for name in ("a.csv", "b.tsv")]
    graph = read(files, tmp_path)
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
def test_lines_with_different_numbers_of_columns_are_refused(tmp_path, text, line):
    with refused_data(f"edges:{line}"):
        graph_of(text, tmp_path)


@pytest.mark.parametrize("text", ["a b {}\nb c {}\n", "a b 1\nb c 2.5\n", "a,b,friend\nb,c,foe\n"])
def test_a_third_column_is_ignored_unless_edges_are_weighted(tmp_path, text):
    graph = graph_of(text, tmp_path)
    assert sorted(graph.names) == ["a", "b", "c"]


def test_a_first_line_whose_words_occur_again_is_no_heading(tmp_path):
    graph = graph_of("parent child\nchild toy\n", tmp_path)
    assert sorted(graph.names) == ["child", "parent", "toy"]


@pytest.mark.parametrize("n_bytes", [1, 7, 1000])
def test_cells_are_the_same_in_blocks_of_any_size(n_bytes):
    text = b'# cities\nNew York,"a, b"\n\n x , y,\n'
    blocks = [text[k : k + n_bytes] for k in range(0, len(text), n_bytes)]
    assert list(cell_lines(blocks, "")) == [
        (1, ["#", "cities"]),
        (2, ["New York", "a, b"]),
        (4, ["x", "y"]),
    ]
    marked = b"".join(cell_tokens(blocks, "")).split(b"\xfe")
    assert list(filter(None, marked)) == [b"#\xffcities", b"New York\xffa, b", b"x\xffy"]


def test_ambiguous_and_invalid_node_names_are_refused():
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
    with pytest.raises(DataError) as raised:
        graph_of("a b nan\nb c 2\nc a 1\n", tmp_path, name="edges.txt", weighted=True)
    assert (raised.value.line, raised.value.problem) == (1, "weight nan")


def test_a_heading_is_recognised_and_weights_are_read(tmp_path):
    progress = Notes()
    graph = graph_of(
        "from,to,weight\n1,2,3\n2,3,1\n2,3,1\n", tmp_path, progress, weighted=True, name="edges.csv"
    )
    np.testing.assert_allclose(graph.cumulative[graph.offsets[1] : graph.offsets[2]], [3 / 5, 1])
    assert lines_with(progress.notes, "edges.csv", "first line", "a heading")


def test_a_matrix_beside_other_files_is_refused(tmp_path):
    files = [tmp_path / "edges", tmp_path / "graph.npz"]
    files[0].write_text("a b\n")
    save_npz(files[1], random_matrix(4, 4, 0.5, random_state=1))
    with refused_data(str(files[1]), quoting="alone"):
        read(files, tmp_path)


def test_graphs_from_matrices_and_networkx(tmp_path):
    matrix = random_matrix(20, 20, 0.2, random_state=1, format="csr")
    save_npz(tmp_path / "graph.npz", matrix)
    graph = read([tmp_path / "graph.npz"], tmp_path, weighted=True)
    symmetric = matrix + matrix.T
    symmetric.setdiag(0)
    symmetric.eliminate_zeros()
    np.testing.assert_array_equal(graph.neighbours, symmetric.indices)
    assert Graph.from_scipy(symmetric).left_out == {}  # no edge is repeated, though in two places
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
        read([tmp_path / "bad.npz"], tmp_path)


@pytest.mark.parametrize(
    "lines",
    [
        "coordinate real general\n10 10 1000000000000\n1 2 1\n",
        "coordinate real general\n1000000000000 1000000000000 1\n1 2 1\n",
        "array real general\n100000 100000\n1\n",
    ],
)
def test_a_matrix_market_file_with_too_large_a_header_is_refused(tmp_path, lines):
    file = tmp_path / "graph.mtx"
    file.write_text(f"%%MatrixMarket matrix {lines}")
    with pytest.raises(DataError) as raised:
        read([file], tmp_path)
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
def test_the_separator_is_the_one_that_divides_all_first_lines(tmp_path, text, names):
    graph = graph_of(text, tmp_path)
    assert sorted(graph.names) == names

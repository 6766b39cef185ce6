"""Graphs with labels of their nodes, as lines of numbers: `u v` or `u v weight` of each edge once,
its smaller end first, and `node label`; both in ascending order.
"""

import io
from collections.abc import Iterable, Iterator

import numpy as np

from embedx.errors import DataError
from eval.data_repositories import Repository

BLOGCATALOG = Repository(
    "https://github.com/phanein/deepwalk",
    "6e6dff245e4692e9bea47e9017c1034e51afbf29",
    "example_graphs/blogcatalog.mat",
)
CA_ASTROPH = Repository(
    "https://github.com/adamggibbs/cosc254-graph-triangle-counting",
    "b0643e272a92e438d868e54703dc28bcd6715120",
    "input/ca-AstroPh.txt",
)
# Its labels are those of 10 nodes and more.
WIKIPEDIA = Repository(
    "https://github.com/krishnanlab/node2vecplus_benchmarks",
    "fa237101af69ff5cf018d1dbdb2179f388bb7045",
    "data/networks/realworld/Wikipedia.edg",
)
# The same graph without weights, its nodes numbered otherwise, and all labels.
WIKIPEDIA_LABELLED = Repository(
    "https://github.com/THUDM/ProNE",
    "873630a5943f3eba8f4bbc9751fdf16af98d2171",
    "data",
)

Edge = tuple[int, int, str]  # the ends, and the weight as it is written; "" without one
OTHER_CLONES = "name complete clones by --source"
# of splitmix64
MULTIPLIERS = (0xBF58476D1CE4E5B9, 0x94D049BB133111EB)
SHIFTS = (30, 27, 31)


def edge_lines(edges: Iterable[Edge]) -> Iterator[str]:
    """The lines of edges, which may be given in both directions."""
    weights = {(min(a, b), max(a, b)): weight for a, b, weight in edges}
    for (a, b), weight in sorted(weights.items()):
        yield f"{a} {b} {weight}".rstrip() + "\n"


def label_lines(pairs: Iterable[tuple[int, int]]) -> Iterator[str]:
    """The lines of nodes and their labels."""
    for node, label in sorted(pairs):
        yield f"{node} {label}\n"


def edges_in(text: str, first: int = 0) -> list[Edge]:
    """The edges in lines of two ends and perhaps a weight.

    first  the number of the first node
    """
    rows = [line.split() for line in text.splitlines()]
    return [(int(a) - first, int(b) - first, " ".join(weight)) for a, b, *weight in rows]


def labels_in(text: str) -> list[tuple[int, int]]:
    """The labels of nodes in a file that has a line of nodes for each label."""
    return [
        (int(node), label) for label, line in enumerate(text.splitlines()) for node in line.split()
    ]


def of_mat(content: bytes) -> tuple[list[Edge], list[tuple[int, int]]]:
    """Edges and labels in a file of MATLAB with the matrices `network` and `group`."""
    from scipy.io import loadmat

    arrays = loadmat(io.BytesIO(content))
    network, group = (
        np.stack(arrays[name].nonzero(), axis=1).tolist() for name in ("network", "group")
    )
    return [(a, b, "") for a, b in network], [(node, label) for node, label in group]


# ---- one graph with two numberings of its nodes


def numbers_in(edges: list[Edge], other_edges: list[Edge]) -> list[int]:
    """The number that each node of the second graph has in the first, which is the same graph.
    Raises `DataError` if it is not, or if nodes cannot be told apart.
    """
    colours, other_colours = refined(edges), refined(other_edges)
    order, other_order = np.argsort(colours), np.argsort(other_colours)
    if not np.array_equal(colours[order], other_colours[other_order]):
        problem = "are not those of the labelled graph"
        raise DataError("the edges", None, problem, OTHER_CLONES)
    numbers = np.empty_like(order)
    numbers[other_order] = order
    return [int(number) for number in numbers]


def refined(edges: list[Edge]) -> np.ndarray:
    """uint64 (nodes,): a colour of each node, its own alone, that does not depend on how nodes are
    numbered. All begin with one colour; each round a node's new one is a hash of its own and of the
    sum over its neighbours (colour refinement). Raises `DataError` if nodes stay alike.
    """
    one_way = np.array([(a, b) for a, b, _ in edges])
    ends = np.unique(np.concatenate([one_way, one_way[:, ::-1]]), axis=0)
    n_nodes = int(ends.max()) + 1
    colours = np.ones(n_nodes, np.uint64)
    n_colours = 0
    while n_colours < n_nodes:
        sums = np.zeros(n_nodes, np.uint64)
        np.add.at(sums, ends[:, 0], mixed(colours[ends[:, 1]]))
        colours = mixed(colours + mixed(sums))
        n_before, n_colours = n_colours, len(np.unique(colours))
        if n_colours == n_before:
            raise DataError("the edges", None, "do not tell all nodes apart", OTHER_CLONES)
    return colours


def mixed(values: np.ndarray) -> np.ndarray:
    """A hash of each number, uint64: the last steps of splitmix64."""
    for shift, multiplier in zip(SHIFTS, MULTIPLIERS, strict=False):
        values = (values ^ (values >> np.uint64(shift))) * np.uint64(multiplier)
    return values ^ (values >> np.uint64(SHIFTS[-1]))

"""A graph as compressed sparse rows."""

import reprlib
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy import float32, int32, int64, ndarray
from scipy.sparse import coo_matrix, csr_matrix, issparse

from embedx import checks
from embedx.errors import DataError, Setting, SettingError
from embedx.graphs.settings import GraphSettings
from embedx.kernels.compiled import kernel
from embedx.runtime.memory import allocating, check_declared, plan_memory
from embedx.settings import MAX_WHOLE_NUMBER
from embedx.text.tables import shown

# Sources and targets, int32 (n,), and weights, float32 (n,) or (0,).
Edges = tuple[ndarray, ndarray, ndarray]
# Places in the counts of edges that are left out.
SELF_LOOPS = 0
WITHOUT_WEIGHT = 1
# Approximate memory.
BYTES_PER_NAME = 60
BYTES_PER_NODE = 64
TOO_LARGE = "take fewer edges, or a machine with more memory"


@kernel
def count_edges(sources, targets, weights, is_directed, degrees, left_out):
    """Count edges in `degrees`, int64 (nodes,), and those that are left out in `left_out`, int64
    (2,).
    """
    for e in range(len(sources)):
        if sources[e] == targets[e]:
            left_out[SELF_LOOPS] += 1
        elif len(weights) > 0 and weights[e] == 0:
            left_out[WITHOUT_WEIGHT] += 1
        else:
            degrees[sources[e]] += 1
            if not is_directed:
                degrees[targets[e]] += 1


@kernel
def place_edges(sources, targets, weights, is_directed, free, neighbours, values):
    """Write the edges that `count_edges` counts to the rows of their nodes; free[node], int64, is
    the next place in a row.
    """
    for e in range(len(sources)):
        source = sources[e]
        target = targets[e]
        if source == target or (len(weights) > 0 and weights[e] == 0):
            continue
        neighbours[free[source]] = target
        if len(weights) > 0:
            values[free[source]] = weights[e]
        free[source] += 1
        if not is_directed:
            neighbours[free[target]] = source
            if len(weights) > 0:
                values[free[target]] = weights[e]
            free[target] += 1


@kernel
def finish_rows(offsets, neighbours, weights, is_met):
    """Mark the nodes with edges, and replace the weights of each row, if there are any, by
    cumulative shares.
    """
    for node in range(len(offsets) - 1):
        for at in range(offsets[node], offsets[node + 1]):
            is_met[neighbours[at]] = True
            is_met[node] = True
        if len(weights) == 0:
            continue
        total = 0.0
        for at in range(offsets[node], offsets[node + 1]):
            total += weights[at]
        sum_so_far = 0.0
        for at in range(offsets[node], offsets[node + 1]):
            sum_so_far += weights[at]
            weights[at] = sum_so_far / total


@dataclass(frozen=True)
class Graph:
    """Nodes and their neighbours. Created by `from_edges`, `from_scipy` or `from_networkx`.

    Self-loops are left out; an edge that is given more than once counts once, with the sum of the
    weights. Without `directed` an edge can be followed both ways.

    names       of the nodes
    offsets     int64 (nodes + 1,)
    neighbours  int32 (edges,): those of a node are neighbours[offsets[node]:offsets[node + 1]],
                ascending
    cumulative  float32 (edges,): the sum of a node's weights up to each edge, over that of all its
                edges; (0,) if all weights are equal
    left_out    numbers of edges and nodes by the reason why they are left out
    """

    names: Sequence[str]
    offsets: ndarray
    neighbours: ndarray
    cumulative: ndarray
    left_out: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        remedy = "make it by from_edges, from_scipy or from_networkx"
        n_nodes = len(self.names)
        n_edges = len(self.neighbours)
        n_weights = n_edges if len(self.cumulative) else 0
        for name, problem in (
            ("offsets", checks.wrong_form(self.offsets, (n_nodes + 1,), checks.INTEGERS)),
            ("offsets", checks.wrong_offsets(self.offsets, n_edges)),
            ("neighbours", checks.wrong_form(self.neighbours, (n_edges,), checks.INTEGERS)),
            ("neighbours", checks.wrong_indices(self.neighbours, n_nodes)),
            ("cumulative", checks.wrong_form(self.cumulative, (n_weights,))),
        ):
            checks.refuse(problem, f"Graph: {name}", remedy)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Graph({len(self):,} nodes, {len(self.neighbours):,} steps)"

    @classmethod
    def from_edges(
        cls, edges: Iterable[Sequence[Any]], weights: Any = None, *, directed: bool = False
    ) -> Self:
        """The graph of pairs of nodes, whose names are their `str`, or of an integer array (edges,
        2); with weights of the edges.
        """
        if isinstance(edges, ndarray):
            problem = checks.wrong_form(edges, (None, 2), "OSUf" + checks.INTEGERS)
            checks.refuse(problem, "edges", "give two nodes a row, and weights beside them")
            if edges.dtype.kind in checks.INTEGERS:
                nodes, ids = np.unique(edges, return_inverse=True)
                names = [str(node) for node in nodes]
                return cls.of_ids(names, ids.reshape(-1, 2).T, weights, directed)
        names, pairs = _names_and_pairs(edges)
        return cls.of_ids(names, pairs.T, weights, directed)

    @classmethod
    def from_scipy(
        cls,
        matrix: Any,
        names: Sequence[str] | None = None,
        *,
        weighted: bool = False,
        directed: bool = False,
    ) -> Self:
        """The graph of an adjacency matrix, (nodes, nodes): [i, j] is the edge from i to j."""
        checks.refuse(checks.wrong_sparse(matrix), "matrix", "build it anew")
        try:
            adjacency = coo_matrix(matrix)
        except (TypeError, ValueError) as error:
            remedy = "give an array or a matrix of scipy.sparse"
            raise DataError("matrix", None, f"not an adjacency matrix ({error})", remedy) from error
        n_rows, n_columns = adjacency.shape
        if n_rows != n_columns:
            problem = f"{n_rows:,} × {n_columns:,}, but an adjacency matrix is square"
            raise DataError("matrix", None, problem, "give a row and a column for each node")
        need = (BYTES_PER_NAME + BYTES_PER_NODE) * n_rows
        check_declared("matrix", need, f"{n_rows:,} nodes", TOO_LARGE)
        names = [str(k) for k in range(n_rows)] if names is None else list(names)
        problem = "" if len(names) == n_rows else f"{len(names):,} for {n_rows:,} nodes"
        checks.refuse(problem, "names", "give one for each node")
        weights = adjacency.data if weighted else None
        graph = cls.of_ids(names, (adjacency.row, adjacency.col), weights, directed)
        # [i, j] and [j, i] are one edge, which the matrix has in two places.
        graph.left_out.pop("repeated edges", None)
        return graph

    @classmethod
    def from_networkx(cls, graph: Any, weight: str | None = None) -> Self:
        """The graph of a networkx graph, directed or not; `weight` is the name of the attribute
        with the weights of edges.
        """
        nodes = list(graph)
        number = {node: k for k, node in enumerate(nodes)}
        pairs = np.array([(number[a], number[b]) for a, b in graph.edges()], int32).reshape(-1, 2)
        weights = None
        if weight is not None:
            weights = [value for _, _, value in graph.edges(data=weight, default=1.0)]
        return cls.of_ids(_names_of(nodes), pairs.T, weights, graph.is_directed())

    @classmethod
    def of_ids(cls, names: Sequence[str], pairs: Any, weights: Any, directed: bool) -> Self:
        """The graph of edges between numbered nodes, (2, edges). Raises `EmbedxError` for invalid
        weights, and if no edge is left.
        """
        _check_names(names)
        ids = np.asarray(pairs)
        if len(names) > MAX_WHOLE_NUMBER:
            raise DataError(
                "nodes", None, f"{len(names):,}, more than {MAX_WHOLE_NUMBER:,}", TOO_LARGE
            )
        problem = checks.wrong_form(ids, (2, None), checks.INTEGERS)
        problem = problem or checks.wrong_indices(ids, len(names))
        checks.refuse(problem, "edges", "give the numbers of two nodes for each")
        sources, targets = np.ascontiguousarray(ids, int32)
        values = np.zeros(0, float32)
        if weights is not None:
            values = _checked_weights(weights, len(sources))
        wrong = np.flatnonzero(~(np.isfinite(values) & (values >= 0)))
        if wrong.size:
            k = int(wrong[0])
            edge = f"edge {k + 1:,}, {names[int(sources[k])]} {names[int(targets[k])]}"
            remedy = "give a number of 0 or more"
            raise DataError(edge, None, f"weight {values[k]:g}", remedy)
        edges = [(sources, targets, values)]
        return cls.of_parts(names, lambda: edges, weights is not None, directed)

    @classmethod
    def of_parts(
        cls,
        names: Sequence[str],
        parts: Callable[[], Iterable[Edges]],
        weighted: bool,
        directed: bool,
    ) -> Self:
        """The graph of edges in parts, which are read twice: to count and to place them."""
        n_nodes = len(names)
        degrees = np.zeros(n_nodes, int64)
        left_out = np.zeros(2, int64)
        for part in parts():
            count_edges(*part, directed, degrees, left_out)

        offsets = np.append(0, np.cumsum(degrees))
        n_places = offsets[-1]
        purpose = f"{n_places:,} neighbours of nodes"
        with allocating(purpose, TOO_LARGE):
            neighbours = np.zeros(n_places, int32)
            weights = np.zeros(n_places, float32 if weighted else bool)
            plan_memory({"graph": [neighbours, weights]}).check(purpose, TOO_LARGE)
        free = offsets[:-1].copy()
        for part in parts():
            place_edges(*part, directed, free, neighbours, weights)

        rows = csr_matrix((weights, neighbours, offsets), (n_nodes, n_nodes))
        # In place; also sorts rows.
        rows.sum_duplicates()
        if rows.nnz == 0:
            raise DataError("graph", None, "no edges", "give two nodes per line")
        offsets = rows.indptr.astype(int64)
        cumulative = rows.data if weighted else np.zeros(0, float32)
        is_met = np.zeros(n_nodes, bool)
        finish_rows(offsets, rows.indices, cumulative, is_met)

        n_repeated = 0
        if not weighted:
            places_of_edge = 1 if directed else 2
            n_repeated = (len(neighbours) - rows.nnz) // places_of_edge
        counts = {
            "self-loops": left_out[SELF_LOOPS],
            "edges of weight 0": left_out[WITHOUT_WEIGHT],
            "repeated edges": n_repeated,
            "nodes without edges": n_nodes - is_met.sum(),
        }
        known_counts = {reason: int(count) for reason, count in counts.items() if count}
        return cls(names, offsets, rows.indices, cumulative, known_counts)


def as_graph(corpora: Any, settings: GraphSettings | None) -> Any:
    """A graph of networkx or a sparse matrix as a `Graph`; a `Graph`, names of files and text are
    returned unchanged. Raises `SettingError` for a graph without walks, and `DataError` for walks
    without a graph.
    """
    is_networkx = all(hasattr(corpora, name) for name in ("is_directed", "edges", "nodes"))
    is_graph = isinstance(corpora, Graph) or is_networkx or issparse(corpora)
    if is_graph and settings is None:
        remedy = ("give their number, such as ", Setting("walks", 10))
        raise SettingError("walks", None, "a graph is trained by random walks", remedy)
    if settings is not None and not is_graph and not _are_names(corpora):
        problem = f"{reprlib.repr(corpora)} is not a graph"
        kinds = "a Graph, a graph of networkx, a matrix of scipy.sparse, or names of files"
        raise DataError("corpora", None, problem, f"give {kinds}")
    if not is_graph or isinstance(corpora, Graph) or settings is None:
        return corpora
    if is_networkx:
        return Graph.from_networkx(corpora, "weight" if settings.weighted else None)
    return Graph.from_scipy(corpora, weighted=settings.weighted, directed=settings.directed)


def _are_names(corpora: Any) -> bool:
    """Whether these are names of files, one or several; an iterator is not looked into."""
    if isinstance(corpora, str | Path | Iterator):
        return True
    return isinstance(corpora, Sequence) and all(isinstance(name, str | Path) for name in corpora)


def _names_and_pairs(edges: Iterable[Sequence[Any]]) -> tuple[list[str], ndarray]:
    """The names of the nodes of edges, and the two nodes of each, int64 (edges, 2)."""
    if hasattr(edges, "to_numpy"):
        edges = edges.to_numpy()
    number: dict[Any, int] = {}
    pairs = []
    for k, edge in enumerate(edges, 1):
        if isinstance(edge, str) or not hasattr(edge, "__len__") or len(edge) != 2:
            problem = f"edge {k:,} is {shown(edge)}, not a pair of nodes"
            raise DataError("edges", None, problem, "give pairs, and weights beside the edges")
        pairs.append([_number_of(node, number, k) for node in edge])
    return _names_of(number), np.array(pairs, int64).reshape(-1, 2)


def _checked_weights(weights: Any, n_edges: int) -> ndarray:
    """float32 (n_edges,). Raises `DataError` if weights are not one number for each edge."""
    values = np.asarray(weights)
    problem = checks.wrong_form(values, (n_edges,))
    checks.refuse(problem, "weights", "give one number for each edge")
    with np.errstate(over="ignore"):
        return np.ascontiguousarray(values, float32)


def _number_of(node: Hashable, number: dict[Hashable, int], edge: int) -> int:
    """The number of a node; a new one gets the next. Raises `DataError` for an invalid node."""
    if not isinstance(node, Hashable) or _is_missing(node):
        problem = f"edge {edge:,} has the node {shown(node)}"
        raise DataError("edges", None, problem, "give strings or numbers")
    return number.setdefault(node, len(number))


def _is_missing(node: Hashable) -> bool:
    """Whether a node is None, NaN or the missing value of pandas, which is unlike itself."""
    try:
        return node is None or bool(node != node)
    except TypeError:
        return True


def _names_of(nodes: Iterable[Hashable]) -> list[str]:
    """The `str` of each node. Raises `DataError` if different nodes have the same one."""
    node_of: dict[str, Hashable] = {}
    for node in nodes:
        other = node_of.setdefault(str(node), node)
        if other is not node:
            problem = f"{shown(other)} and {shown(node)} are different nodes with the same name"
            raise DataError("nodes", None, problem, "give nodes whose str() differs")
    return list(node_of)


def _check_names(names: Iterable[object]) -> None:
    """Raise `DataError` for names that a model cannot keep: equal, empty, or no valid text."""
    seen = set[str]()
    for k, name in enumerate(names):
        if not isinstance(name, str):
            problem = f"names[{k}] is {shown(name)}, not a string"
            raise DataError("names", None, problem, "give the str of each")
        if not name or name in seen:
            problem = f"two nodes are named {name!r}" if name else f"names[{k}] is empty"
            raise DataError("names", None, problem, "give each node a name of its own")
        try:
            name.encode()
        except UnicodeEncodeError as error:
            raise DataError(
                "names", None, f"{name!r} is not valid Unicode", "replace its surrogates"
            ) from error
        seen.add(name)

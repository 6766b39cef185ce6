"""A graph as compressed sparse rows."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

import numpy as np
from scipy.sparse import coo_matrix, csr_matrix

from embedx.errors import EmbedxError


@dataclass(frozen=True)
class Graph:
    """Nodes, and for each those that a walk may go to next. Made by `from_edges`, `from_scipy` or `from_networkx`.

    Self-loops are left out; an edge that is given more than once counts once, with the sum of the weights. Without `directed`
    an edge can be followed both ways.
    """

    names: Sequence[str]  # of the nodes
    offsets: np.ndarray  # int64 (nodes + 1,)
    neighbours: np.ndarray  # int32 (edges,), ascending for each node
    cumulative: (
        np.ndarray
    )  # float32 (edges,): sums of a node's weights up to each edge, over that of all; (0,) if all are alike
    left_out: dict[str, int] = field(default_factory=dict)  # counts of what was not taken

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __repr__(self) -> str:
        return f"Graph({len(self):,} nodes, {len(self.neighbours):,} steps)"

    @classmethod
    def from_edges(cls, edges: Iterable[Sequence[Any]], weights: Any = None, *, directed: bool = False) -> Self:
        """From pairs of nodes of any kind, whose names are their `str`, or an integer array (edges, 2); and their weights."""
        if isinstance(edges, np.ndarray) and edges.dtype.kind in "iu":
            names, ids = np.unique(edges, return_inverse=True)
            return cls.of_ids([str(each) for each in names], ids.reshape(-1, 2).T, weights, directed)
        number: dict[str, int] = {}
        pairs = [[number.setdefault(str(node), len(number)) for node in edge] for edge in edges]
        if wrong := next((pair for pair in pairs if len(pair) != 2), None):
            raise EmbedxError(f"an edge is a pair of nodes, not {len(wrong)}; give weights beside the edges")
        return cls.of_ids(list(number), np.array(pairs, dtype=np.int32).reshape(-1, 2).T, weights, directed)

    @classmethod
    def from_scipy(
        cls, matrix: Any, names: Sequence[str] | None = None, *, weighted: bool = False, directed: bool = False
    ) -> Self:
        """From an adjacency matrix (nodes, nodes), whose element [i, j] is the edge from i to j."""
        found = coo_matrix(matrix)
        if found.shape[0] != found.shape[1]:
            raise EmbedxError(f"a matrix of {found.shape[0]:,} × {found.shape[1]:,} is no graph; it must be square")
        names = [str(k) for k in range(found.shape[0])] if names is None else list(names)
        return cls.of_ids(names, (found.row, found.col), found.data if weighted else None, directed)

    @classmethod
    def from_networkx(cls, graph: Any, weight: str | None = None) -> Self:
        """From a networkx graph, directed or not; `weight` names the attribute of edges that is their weight."""
        nodes = list(graph)
        number = {node: k for k, node in enumerate(nodes)}
        pairs = np.array([(number[a], number[b]) for a, b in graph.edges()], dtype=np.int32).reshape(-1, 2)
        weights = None if weight is None else [value for _, _, value in graph.edges(data=weight, default=1.0)]
        return cls.of_ids([str(node) for node in nodes], pairs.T, weights, graph.is_directed())

    @classmethod
    def of_ids(cls, names: Sequence[str], pairs: Any, weights: Any, directed: bool) -> Self:
        """From the numbers of nodes, (2, edges). Raises `EmbedxError` for weights that are none, and where nothing is left."""
        (sources, targets), n = map(np.asarray, pairs), len(names)
        values = np.ones(len(sources), dtype=bool) if weights is None else np.asarray(weights, dtype=np.float32)
        if len(values) != len(sources):
            raise EmbedxError(f"{len(values):,} weights for {len(sources):,} edges; give one for each")
        if (wrong := np.flatnonzero(~(np.isfinite(values) & (values >= 0)))).size:
            a, b = names[int(sources[wrong[0]])], names[int(targets[wrong[0]])]
            raise EmbedxError(f"edge {wrong[0] + 1:,}, {a} {b}: weight {values[wrong[0]]:g}; it must be a number of 0 or more")
        kept = (sources != targets) & (values > 0)
        rows = coo_matrix((values[kept], (sources[kept], targets[kept])), (n, n)).tocsr()  # sums repeated edges
        left_out = {
            "self-loops": int((sources == targets).sum()), "repeated edges": int(kept.sum()) - rows.nnz,
            "edges of weight 0": int(((sources != targets) & (values == 0)).sum()),
        }  # fmt: skip
        if not directed:
            both = rows.nnz
            rows = csr_matrix(rows + rows.T)
            left_out["repeated edges"] += 0 if weights is not None else both - rows.nnz // 2
        if rows.nnz == 0:
            raise EmbedxError("a graph without edges; give two nodes a line")
        rows.sort_indices()
        offsets = rows.indptr.astype(np.int64)
        left_out["nodes without edges"] = int(n - np.count_nonzero(np.diff(offsets) + np.bincount(rows.indices, minlength=n)))
        cumulative = np.zeros(0, dtype=np.float32)
        if weights is not None:
            sums = np.append(0.0, np.cumsum(rows.data, dtype=np.float64))
            begin, sizes = sums[offsets[:-1]], np.diff(offsets)
            total = np.maximum(sums[offsets[1:]] - begin, 1e-300)
            cumulative = ((sums[1:] - np.repeat(begin, sizes)) / np.repeat(total, sizes)).astype(np.float32)
        return cls(names, offsets, rows.indices.astype(np.int32), cumulative, {k: v for k, v in left_out.items() if v})

"""How much of an exact gradient lies on the rows that a search in blocks of columns would find.

The gradient of an example along its scores has mass |∂loss/∂z_k| on row k. Its labels are always known, so only the mass of the
other rows counts. A search is a function `propose(blocks, looked_at)` that gives the rows it finds for each query when it
looks at so many rows in each of so many blocks; that takes about looked_at · dim multiplications whatever the blocks.
"""

from collections.abc import Callable
from typing import Any

import numpy as np

from eval.under_test import Search, aligned_zeros, build_index, candidates_of, new_probe, usable_cores

BLOCKS = (1, 4, 8)
SHARES = (0.0005, 0.001, 0.003, 0.01, 0.03, 0.1)  # of the rows, looked at in each block

Propose = Callable[[int, int], list[np.ndarray]]


def with_bias(h: np.ndarray, output: np.ndarray, bias: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Queries (n, dim) and table (n_rows, dim), with a last column for the biases if there are any."""
    if bias is None:
        return h, output
    ones = np.ones((len(h), 1), dtype=np.float32)
    return np.concatenate([h, ones], axis=1), np.concatenate([output, bias[:, None]], axis=1)


def best_rows(table: np.ndarray, queries: np.ndarray) -> Propose:
    """A search that makes no mistakes: in each block the rows that score highest there."""

    def propose(blocks: int, looked_at: int) -> list[np.ndarray]:
        found: list[list[np.ndarray]] = [[] for _ in queries]
        for columns in np.array_split(np.arange(table.shape[1]), blocks):
            z = queries[:, columns] @ table[:, columns].T
            best = np.argpartition(-z, min(looked_at, len(table)) - 1, axis=1)[:, :looked_at]
            for rows, more in zip(found, best, strict=True):
                rows.append(more)
        return [np.unique(np.concatenate(rows)) for rows in found]

    return propose


def by_index(table: np.ndarray, queries: np.ndarray) -> Propose:
    """The search that `mips` and `ldgs` make: in each block the rows of the clusters that point the way of the query."""
    n_rows, dim = table.shape
    padded = aligned_zeros(n_rows, dim)
    padded[:, :dim] = table

    def propose(blocks: int, looked_at: int) -> list[np.ndarray]:
        search = Search(blocks, round(n_rows**0.5), looked_at, n_rows, 0.0, 1e-3, 1e30, from_sum=False, steps=0)
        index = build_index(padded, n_rows, dim, search, np.random.default_rng(0), usable_cores())
        probe, rows, n = new_probe(n_rows, search), np.zeros((1, n_rows), dtype=np.int32), np.zeros(1, dtype=np.int64)
        found = []
        for h in np.ascontiguousarray(queries, dtype=np.float32):
            candidates_of(index, search, h[None], 0, 1, rows[0], np.zeros(2, dtype=np.int64), rows, n, probe)
            found.append(rows[0, : n[0]].copy())
        return found

    return propose


SEARCHES: dict[str, Callable[[np.ndarray, np.ndarray], Propose]] = {"best rows": best_rows, "index": by_index}


def gradient_mass(objective: Any, z: np.ndarray, labels: Any) -> np.ndarray:
    """float32 (n, n_rows): |∂loss/∂z| of an exact objective on the scores, 0 on the labels of each example."""
    n, n_rows = z.shape
    example = np.repeat(np.arange(n), labels.n_of_row)
    label = np.zeros((n, n_rows), dtype=np.float32)
    label[example, labels.ids] = 1
    mass = np.array(z, dtype=np.float32, order="C")
    rest = [np.ones_like(label), np.zeros_like(label), np.zeros((n, objective.state_width), dtype=np.float32)]
    uniforms = np.zeros((n, objective.uniforms_width), dtype=np.float32)
    each = np.arange(n)
    objective.coefficients(
        mass, label, *rest, uniforms, objective.numbers(n_rows, n_rows), each, np.zeros_like(each),
        np.zeros(n, dtype=np.float32), n, n_rows, np.float32(0),
    )  # fmt: skip
    mass = np.abs(mass)
    mass[example, labels.ids] = 0
    return mass


def share_found(mass: np.ndarray, found: list[np.ndarray]) -> float:
    """The mean over the examples that have any mass of the share of it that is on the rows found."""
    whole = mass.sum(axis=1)
    shares = [mass[i, rows].sum() / whole[i] for i, rows in enumerate(found) if whole[i] > 0]
    return float(np.mean(shares)) if shares else float("nan")


def by_share(mass: np.ndarray, propose: Propose, blocks: int) -> list[dict[str, float]]:
    """The recall and how many rows were found on average, by the share of the rows looked at in each block."""
    points = []
    n_rows = mass.shape[1]
    for share in SHARES:
        looked_at = max(1, round(share * n_rows))
        found = propose(blocks, looked_at)
        size = float(np.mean([len(rows) for rows in found]))
        points.append({"share": share, "looked_at": looked_at, "recall": share_found(mass, found), "found": size})
    return points

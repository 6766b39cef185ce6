"""Greedy message passing between blocks of columns: Algorithm 2 of Yen et al. 2018, "Loss Decomposition for Fast Learning in
Large Output Spaces".

For scores z = Σ_j z_j of blocks j = 1..B and messages λ_j that sum to zero, the loss is bounded by
    G(λ) = 1/B Σ_j L(B (z_j + λ_j)) >= L(z),    with equality at λ*_j = z/B - z_j               (eq. 12, theorem 1)
Each round t takes the gradients of all L(B (z_j + λ_j)); for the rows A that one of them asks to move by more than tau,
    λ_j <- (1 - η) λ_j + η λ*_j,    η = 2 / (t + 2)
and the answer is 1/B Σ_j ∇L(B (z_j + λ_j)). A row's score in a block where it was not found is taken for zero, but the
positives' are always known, and they always belong to A.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel_part
from embedx.search.clusters import NEVER
from embedx.search.query import bar, begin_example, found_at
from embedx.search.spec import Search


class Messages(NamedTuple):
    """A worker's memory for message passing: in `batch` a line for each block, a column for each row that competes."""

    batch: Batch  # losses that are decomposed keep no state and take no random numbers
    found: np.ndarray  # float32 (B, width): z_j of the rows in A
    message: np.ndarray  # float32 (B, width): λ_j of the rows in A
    asks: np.ndarray  # bool (width,): whether a block's gradient asks a row of A to move
    n_columns: np.ndarray  # int64 (B,)
    at: np.ndarray  # int64 (B, width): where the score of a row outside A stands among those found in its block
    column: np.ndarray  # int32 (n_rows,): the column of a row among the candidates of the example, if marked with it
    state: np.ndarray  # float32 (1, 0)


def new_messages(n_rows: int, search: Search, width: int) -> Messages:
    """Memory for up to `width` of n_rows rows that compete for an example; none where no messages are passed."""
    blocks, width, n_rows = (search.blocks, width, n_rows) if search.steps > 0 else (0, 0, 0)

    def matrix() -> np.ndarray:
        return np.zeros((blocks, width), dtype=np.float32)

    return Messages(
        new_batch(blocks, width), matrix(), matrix(), np.zeros(width, dtype=np.bool_),
        np.zeros(blocks, dtype=np.int64), np.zeros((blocks, width), dtype=np.int64), np.zeros(n_rows, dtype=np.int32),
        np.zeros((1, 0), dtype=np.float32),
    )  # fmt: skip


@kernel_part
def pass_messages(coefficients, index, search, table, constants, h, e, rows, label, r, n_positives, z, probe, m):
    """Algorithm 2 for h[e], whose positives are rows[r, :n_positives] with weights label[r, :n_positives].

    Writes the rows that move behind the positives and what moves them to z[r]. Returns their number and the loss G.
    """
    blocks = index.ids.shape[0]
    most = z.shape[1]
    begin_example(index, search, h, e, rows, r, n_positives, probe)
    for c in range(n_positives):
        m.column[rows[r, c]] = c
        for j in range(blocks):
            m.found[j, c], m.message[j, c] = _block_score(index, table, np.int64(rows[r, c]), h, e, j), 0
    n = n_positives
    for t in range(1, search.steps + 1):
        _lines(coefficients, index, search, constants, label, r, n_positives, n, probe, m)
        n = _choose(index, search, n_positives, n, most, rows, r, probe, m)
        _send(n, np.float32(2) / np.float32(t + 2), m)
    loss = _lines(coefficients, index, search, constants, label, r, n_positives, n, probe, m) / blocks
    return _mean(index, n, most, rows, r, z, probe, m), loss


@kernel_part
def _block_score(index, table, row, h, e, j):
    """The score in block j of a row that may not have been found."""
    z = np.float32(0)
    for k in range(index.edges[j], index.edges[j + 1]):
        z += h[e, k] * table[row, k]
    return z


@kernel_part
def _lines(coefficients, index, search, constants, label, r, n_positives, n, probe, m):
    """Overwrite m.batch.z by the gradient in each block, of the n rows of A and then of those found; return the summed loss."""
    blocks = index.ids.shape[0]
    scale = np.float32(blocks)
    widest = 0
    for j in range(blocks):
        best = NEVER
        for c in range(n):
            m.batch.z[j, c] = scale * (m.found[j, c] + m.message[j, c])
            m.batch.label[j, c] = label[r, c] if c < n_positives else np.float32(0)
            m.batch.sample_count[j, c] = np.float32(0) if c < n_positives else np.float32(1)
            best = max(best, m.batch.z[j, c]) if c >= n_positives else best
        lowest = bar(search, probe, j, scale, best) / scale
        columns = n
        for at in range(probe.start[j, probe.n_visited[j]]):
            if probe.scores[j, at] > lowest and probe.scores[j, at] > NEVER and columns < m.batch.z.shape[1]:
                m.batch.z[j, columns] = scale * probe.scores[j, at]
                m.batch.label[j, columns], m.batch.sample_count[j, columns], m.at[j, columns] = 0, 1, at
                columns += 1
        m.n_columns[j] = columns
        widest = max(widest, columns)
    for j in range(blocks):
        for c in range(m.n_columns[j], widest):
            m.batch.label[j, c], m.batch.sample_count[j, c] = 0, 0
    return coefficients(m.batch, m.state, constants, blocks, widest, np.float32(0))


@kernel_part
def _row_at(index, probe, j, at):
    """The row whose score in block j stands at `at`."""
    v = 0
    while probe.start[j, v + 1] <= at:
        v += 1
    return np.int64(index.ids[j, index.begin[j, probe.visited[j, v]] + at - probe.start[j, v]])


@kernel_part
def _choose(index, search, n_positives, n, most, rows, r, probe, m):
    """Have the rows that a block asks to move by more than tau join A; tell in m.asks which of A are asked. Return A's size."""
    blocks = index.ids.shape[0]
    for c in range(n):
        m.asks[c] = c < n_positives
        for j in range(blocks):
            m.asks[c] = m.asks[c] or abs(m.batch.z[j, c]) > search.tau
    n_before = n
    for j in range(blocks):
        for c in range(n_before, m.n_columns[j]):
            if abs(m.batch.z[j, c]) > search.tau and probe.scores[j, m.at[j, c]] > NEVER and n < most:
                row = _row_at(index, probe, j, m.at[j, c])
                if probe.mark[row] == np.int32(probe.clock[0]):
                    continue  # it moved while the block was looked through, and was met twice
                rows[r, n] = row
                probe.mark[row], m.column[row], m.asks[n] = np.int32(probe.clock[0]), n, True
                for other in range(blocks):
                    at = found_at(index, probe, other, row)
                    m.found[other, n], m.message[other, n] = np.float32(0), np.float32(0)
                    if at >= 0:
                        m.found[other, n] = probe.scores[other, at]
                        probe.scores[other, at] = NEVER
                n += 1
    return n


@kernel_part
def _send(n, step, m):
    """Move the messages of the rows that are asked for towards the best ones."""
    blocks = m.found.shape[0]
    for c in range(n):
        if m.asks[c]:
            z = np.float32(0)
            for j in range(blocks):
                z += m.found[j, c]
            for j in range(blocks):
                best = z / np.float32(blocks) - m.found[j, c]
                m.message[j, c] += step * (best - m.message[j, c])


@kernel_part
def _mean(index, n, most, rows, r, z, probe, m):
    """Write the mean of the blocks' gradients to z[r]; rows outside A join rows[r]. Return the number of all."""
    blocks = m.found.shape[0]
    now = np.int32(probe.clock[0])
    part = np.float32(1) / np.float32(blocks)
    for c in range(n):
        z[r, c] = 0
        for j in range(blocks):
            z[r, c] += part * m.batch.z[j, c]
    in_a = n
    for j in range(blocks):
        for c in range(in_a, m.n_columns[j]):
            if m.batch.z[j, c] != 0:
                row = _row_at(index, probe, j, m.at[j, c])
                if probe.mark[row] != now and n < most:
                    probe.mark[row], m.column[row] = now, n
                    rows[r, n], z[r, n] = row, 0
                    n += 1
                if probe.mark[row] == now:
                    z[r, m.column[row]] += part * m.batch.z[j, c]
    return n

"""Greedy message passing between blocks of columns: Algorithm 2 of Yen et al. 2018, "Loss
Decomposition for Fast Learning in Large Output Spaces".

For scores z = Σ_j z_j of blocks j = 1..B and messages λ_j that sum to zero, the loss is bounded by
    G(λ) = 1/B Σ_j L(B (z_j + λ_j)) >= L(z),    with equality at λ*_j = z/B - z_j               (eq.
        12, theorem 1)
Iteration t computes the gradients of all L(B (z_j + λ_j)). For the active set A, the rows for which
one of these exceeds `min_coefficient` in absolute value, and the positives,
    λ_j <- (1 - η) λ_j + η λ*_j,    η = 2 / (t + 2)
and the result is 1/B Σ_j ∇L(B (z_j + λ_j)).

Only rows that have been in A can have nonzero messages. They are the selected rows, whose messages
and scores are stored for all blocks: the scores of the positives are always computed, and that of
another row is 0 in a block that has not found it. The gradient in a block is over the selected rows
and the other rows that the block found above its cutoff. In the paper it is over all rows, with
score 0 for those not found; here these are left out, so that a softmax lacks a term of 1 for each,
and G bounds the loss over the rows found.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel_part
from embedx.kernels.simd import ONE, ZERO
from embedx.search.kmeans import MASKED_SCORE
from embedx.search.query import score_cutoff, score_position
from embedx.search.spec import SearchSpec


@by_address
class MessageWorkspace(NamedTuple):
    """A worker's buffers for message passing, for one query at a time.

    `batch` has an example for each block. Its first columns are the selected rows, positives first;
    the others are rows that the block has found, which differ between blocks.
    """

    batch: Batch  # without state and random numbers, which decomposed losses do not use
    block_score: ndarray  # float32 (B, width): z_j of the selected rows
    message: ndarray  # float32 (B, width): λ_j of the selected rows
    is_active: ndarray  # bool (width,): whether a selected row is in A in this iteration
    n_columns: ndarray  # int64 (B,): number of columns of `batch` in use
    # int64 (B, width): the position of a row that is not selected in the scores of the query
    position: ndarray
    # int32 (n_rows,): the column of a row in the result, valid if this query has marked the row
    column: ndarray
    state: ndarray  # float32 (1, 0)


def new_message_workspace(n_rows: int, search: SearchSpec, width: int) -> MessageWorkspace:
    """Buffers for queries of up to `width` candidates among n_rows rows; empty if the search does
    not pass messages.
    """
    blocks, width, n_rows = (
        (search.blocks, width, n_rows) if search.message_iterations > 0 else (0, 0, 0)
    )
    block_score, message = np.zeros((2, blocks, width), float32)
    return MessageWorkspace(
        new_batch(blocks, width),
        block_score,
        message,
        np.zeros(width, np.bool_),
        np.zeros(blocks, int64),
        np.zeros((blocks, width), int64),
        np.zeros(n_rows, int32),
        np.zeros((1, 0), float32),
    )


@kernel_part
def select_positives(index, messages, table, h, e, rows, r, n_positives):
    """Select the positives rows[r, :n_positives] of h[e]: compute their scores in each block, and
    set their messages to 0.
    """
    for c in range(n_positives):
        messages.column[rows[r, c]] = c
        for j in range(index.ids.shape[0]):
            messages.block_score[j, c] = _compute_block_score(
                index, table, int64(rows[r, c]), h, e, j
            )
            messages.message[j, c] = 0


@kernel_part
def pass_messages(coefficients, constants, searcher, messages, rows, batch, r, n_positives):
    """Algorithm 2 for example r of a batch, after `search_all_blocks` and `select_positives` of its
    h: its positives are rows[r, :n_positives] with weights batch.label[r, :n_positives].

    Appends the other rows with a gradient to rows[r] and writes the gradient to batch.z[r]; returns
    the number of rows and the loss G.
    """
    label = batch.label
    blocks = searcher.row_index.ids.shape[0]
    n = n_positives
    for t in range(1, searcher.spec.message_iterations + 1):
        _block_gradients(coefficients, constants, searcher, messages, label, r, n_positives, n)
        n = _update_active_set(searcher, messages, rows, r, n_positives, n, batch.z.shape[1])
        _update_messages(n, float32(2) / float32(t + 2), messages)
    loss = _block_gradients(coefficients, constants, searcher, messages, label, r, n_positives, n)
    return _mean_gradient(searcher, messages, rows, batch.z, r, n), loss / blocks


@kernel_part
def _compute_block_score(index, table, row, h, e, j):
    """The score of a row in block j, which may not have found it."""
    z = ZERO
    for k in range(index.edges[j], index.edges[j + 1]):
        z += h[e, k] * table[row, k]
    return z


@kernel_part
def _block_gradients(coefficients, constants, searcher, messages, label, r, n_positives, n):
    """Overwrite messages.batch.z by the gradient in each block, for the n selected rows and then
    for the others that the block found; return the summed loss.
    """
    spec = searcher.spec
    query = searcher.query
    blocks = searcher.row_index.ids.shape[0]
    scale = float32(blocks)
    batch = messages.batch
    widest = 0
    for j in range(blocks):
        best = MASKED_SCORE
        for c in range(n):
            batch.z[j, c] = scale * (messages.block_score[j, c] + messages.message[j, c])
            batch.label[j, c] = label[r, c] if c < n_positives else ZERO
            batch.sample_count[j, c] = ZERO if c < n_positives else ONE
            best = max(best, batch.z[j, c]) if c >= n_positives else best
        cutoff = score_cutoff(spec, query, j, scale, best) / scale
        columns = n
        for k in range(query.offsets[j, query.n_probed[j]]):
            if (
                query.scores[j, k] > cutoff
                and query.scores[j, k] > MASKED_SCORE
                and columns < batch.z.shape[1]
            ):
                batch.z[j, columns] = scale * query.scores[j, k]
                batch.label[j, columns] = 0
                batch.sample_count[j, columns] = 1
                messages.position[j, columns] = k
                columns += 1
        messages.n_columns[j] = columns
        widest = max(widest, columns)
    for j in range(blocks):
        for c in range(messages.n_columns[j], widest):
            batch.label[j, c] = 0
            batch.sample_count[j, c] = 0
    return coefficients(batch, messages.state, constants, blocks, widest, ZERO)


@kernel_part
def _row_at(index, query, j, k):
    """The row whose score is query.scores[j, k]."""
    p = 0
    while query.offsets[j, p + 1] <= k:
        p += 1
    return int64(index.ids[j, index.list_offsets[j, query.probed[j, p]] + k - query.offsets[j, p]])


@kernel_part
def _update_active_set(searcher, messages, rows, r, n_positives, n, max_rows):
    """Update `is_active` of the n selected rows, and select other active rows; return the new n."""
    index = searcher.row_index
    query = searcher.query
    min_coefficient = searcher.spec.min_coefficient
    blocks = index.ids.shape[0]
    z = messages.batch.z
    for c in range(n):
        messages.is_active[c] = c < n_positives
        for j in range(blocks):
            messages.is_active[c] = messages.is_active[c] or abs(z[j, c]) > min_coefficient
    n_before = n
    for j in range(blocks):
        for c in range(n_before, messages.n_columns[j]):
            position = messages.position[j, c]
            if (
                abs(z[j, c]) > min_coefficient
                and query.scores[j, position] > MASKED_SCORE
                and n < max_rows
            ):
                row = _row_at(index, query, j, position)
                if query.last_query[row] == int32(query.query_number[0]):
                    continue  # the row was reassigned during the search, and scored twice
                rows[r, n] = row
                query.last_query[row] = int32(query.query_number[0])
                messages.column[row] = n
                messages.is_active[n] = True
                for other in range(blocks):
                    k = score_position(index, query, other, row)
                    messages.block_score[other, n] = ZERO
                    messages.message[other, n] = ZERO
                    if k >= 0:
                        messages.block_score[other, n] = query.scores[other, k]
                        query.scores[other, k] = MASKED_SCORE
                n += 1
    return n


@kernel_part
def _update_messages(n, step, messages):
    """Move the messages of the active rows towards their optimum λ*."""
    blocks = messages.block_score.shape[0]
    for c in range(n):
        if messages.is_active[c]:
            z = ZERO
            for j in range(blocks):
                z += messages.block_score[j, c]
            for j in range(blocks):
                optimal = z / float32(blocks) - messages.block_score[j, c]
                messages.message[j, c] += step * (optimal - messages.message[j, c])


@kernel_part
def _mean_gradient(searcher, messages, rows, z, r, n):
    """Write the mean of the blocks' gradients to z[r], and append rows that are not selected to
    rows[r]; return the number of rows.
    """
    query = searcher.query
    blocks = messages.block_score.shape[0]
    max_rows = z.shape[1]
    now = int32(query.query_number[0])
    weight = ONE / float32(blocks)
    for c in range(n):
        z[r, c] = 0
        for j in range(blocks):
            z[r, c] += weight * messages.batch.z[j, c]
    n_selected = n
    for j in range(blocks):
        for c in range(n_selected, messages.n_columns[j]):
            if messages.batch.z[j, c] != 0:
                row = _row_at(searcher.row_index, query, j, messages.position[j, c])
                if query.last_query[row] != now and n < max_rows:
                    query.last_query[row] = now
                    messages.column[row] = n
                    rows[r, n] = row
                    z[r, n] = 0
                    n += 1
                if query.last_query[row] == now:
                    z[r, messages.column[row]] += weight * messages.batch.z[j, c]
    return n

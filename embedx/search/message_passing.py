"""Greedy message passing between blocks of columns: Algorithm 2 of Yen et al. 2018, "Loss
Decomposition for Fast Learning in Large Output Spaces".

For scores z = Σ_j z_j of blocks j = 1..B and messages λ_j that sum to zero, the loss is at most
(eq. 12)
    G(λ) = 1/B Σ_j L(B (z_j + λ_j)),
and equal to it at λ*_j = z/B - z_j (theorem 1). Iteration t = 1, 2, ... has three steps:
    `_block_gradients`    ∇L(B (z_j + λ_j)) in each block
    `_update_active_set`  A: the positives, and the rows whose gradient in a block exceeds
                          `min_coefficient` in absolute value
    `_update_messages`    λ_j <- (1 - η) λ_j + η λ*_j for the rows in A, with η = 2 / (t + 2)
The result, `_mean_gradient`, is 1/B Σ_j ∇L(B (z_j + λ_j)).

Only rows that have been in A can have nonzero messages. They are the selected rows, whose messages
and scores are stored for all blocks: the scores of the positives are always computed, and that of
another row is 0 in a block that has not found it. The gradient in a block is over the selected rows
and the other rows that the block found above its cutoff. In the paper it is over all rows, with
score 0 for those not found; here these are left out, so that a softmax lacks a term of 1 for each,
and G bounds the loss over the rows found.

Another thread may move a row to another list of the index during the search: a block may then score
it twice, in both lists. `query.last_query` marks the rows that have a column in the result, and
such a row gets no second one.
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
    blocks = search.blocks
    if search.message_iterations == 0:
        blocks = 0
        width = 0
        n_rows = 0
    return MessageWorkspace(
        batch=new_batch(blocks, width),
        block_score=np.zeros((blocks, width), float32),
        message=np.zeros((blocks, width), float32),
        is_active=np.zeros(width, np.bool_),
        n_columns=np.zeros(blocks, int64),
        position=np.zeros((blocks, width), int64),
        column=np.zeros(n_rows, int32),
        state=np.zeros((1, 0), float32),
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
    query = searcher.query
    blocks = searcher.row_index.ids.shape[0]
    scale = float32(blocks)
    batch = messages.batch
    widest = 0
    for j in range(blocks):
        best = _place_selected(messages, label, r, n_positives, n, j, scale)
        cutoff = score_cutoff(searcher.spec, query, j, scale, best) / scale
        messages.n_columns[j] = _place_found(query, messages, n, j, scale, cutoff)
        widest = max(widest, messages.n_columns[j])
    for j in range(blocks):
        for c in range(messages.n_columns[j], widest):
            batch.label[j, c] = 0
            batch.sample_count[j, c] = 0
    return coefficients(batch, messages.state, constants, blocks, widest, ZERO)


@kernel_part
def _place_selected(messages, label, r, n_positives, n, j, scale):
    """Write the scores B (z_j + λ_j) of the n selected rows, and their labels, to row j of
    messages.batch; return the highest score of those that are no positives.
    """
    batch = messages.batch
    best = MASKED_SCORE
    for c in range(n):
        batch.z[j, c] = scale * (messages.block_score[j, c] + messages.message[j, c])
        if c < n_positives:
            batch.label[j, c] = label[r, c]
            batch.sample_count[j, c] = ZERO
        else:
            batch.label[j, c] = ZERO
            batch.sample_count[j, c] = ONE
            best = max(best, batch.z[j, c])
    return best


@kernel_part
def _place_found(query, messages, n, j, scale, cutoff):
    """Write the scores of the rows that block j found above its cutoff to the columns from n on, as
    far as they fit; return the number of columns.
    """
    batch = messages.batch
    max_columns = batch.z.shape[1]
    for k in range(query.offsets[j, query.n_probed[j]]):
        is_found = query.scores[j, k] > cutoff and query.scores[j, k] > MASKED_SCORE
        if is_found and n < max_columns:
            batch.z[j, n] = scale * query.scores[j, k]
            batch.label[j, n] = 0
            batch.sample_count[j, n] = 1
            messages.position[j, n] = k
            n += 1
    return n


@kernel_part
def _row_at(index, query, j, k):
    """The row whose score is query.scores[j, k]: of the list p that has place k, the row there."""
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
    now = int32(query.query_number[0])
    z = messages.batch.z
    for c in range(n):
        messages.is_active[c] = c < n_positives
        for j in range(blocks):
            messages.is_active[c] = messages.is_active[c] or abs(z[j, c]) > min_coefficient
    n_before = n
    for j in range(blocks):
        for c in range(n_before, messages.n_columns[j]):
            k = messages.position[j, c]
            # The score is masked if another block has just selected the row.
            is_new = query.scores[j, k] > MASKED_SCORE
            if abs(z[j, c]) > min_coefficient and is_new and n < max_rows:
                row = _row_at(index, query, j, k)
                if query.last_query[row] != now:
                    rows[r, n] = row
                    _select(index, query, messages, row, n)
                    n += 1
    return n


@kernel_part
def _select(index, query, messages, row, n):
    """Make `row` the selected row n, active, with messages of 0; mask its scores in the query."""
    query.last_query[row] = int32(query.query_number[0])
    messages.column[row] = n
    messages.is_active[n] = True
    for j in range(index.ids.shape[0]):
        k = score_position(index, query, j, row)
        messages.block_score[j, n] = ZERO
        messages.message[j, n] = ZERO
        if k >= 0:
            messages.block_score[j, n] = query.scores[j, k]
            query.scores[j, k] = MASKED_SCORE


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
    """Write the mean of the blocks' gradients to z[r], and append the rows with a gradient that are
    not selected to rows[r], as far as they fit; return the number of rows.
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

    # A row may be found by several blocks: the first one appends it.
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

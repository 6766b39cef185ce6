"""The training kernel of word vectors where all rows are candidates, as for the exact softmax.

The output table is processed in tiles of rows, in the forms of drawn candidates (see `blocks`).
"""

import numpy as np

from embedx.engine.blocks import N_CENTRES, N_EXAMPLES, N_PAIRS, clear, plan_block
from embedx.engine.select import SINGLE, draw_weight, set_all_negative, set_positive
from embedx.engine.skipgram import (
    OF_ROWS,
    ROW_TILE,
    describe_example,
    fetch_examples,
    gather,
    measure_block,
    prefetch_block,
    score_gain,
    start_chunk,
    update_inputs,
    update_row,
)
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import round_up_to_tile, scores, weighted_sums, weighted_sums_transposed
from embedx.kernels.simd import SIMD_WIDTH, load, store


@kernel
def train_chunk(coefficients, sample, log_expected_count, run, workspace, chunk):
    """Train on a chunk, as `skipgram.train_chunk`; return the summed loss, the pairs and the corpus words seen."""
    n_seen = start_chunk(run, workspace, chunk)
    loss = 0.0
    n_pairs = 0
    block, next_block = workspace.block, workspace.next_block
    block.sizes[:] = 0
    has_more = True
    while has_more:
        plan_block(sample, run, workspace, next_block, chunk.noise_key)
        prefetch_block(run.tables, next_block)
        if block.sizes[N_CENTRES] > 0:
            loss += _train_block(coefficients, run, workspace, block, chunk.lr)
            n_pairs += block.sizes[N_PAIRS]
        block, next_block = next_block, block
        has_more = block.sizes[N_CENTRES] > 0
    return loss, n_pairs, n_seen


@kernel_part
def _train_block(coefficients, run, workspace, block, lr):
    """Train on a block whose candidates are all rows; return its summed loss. Two passes over the table, in tiles of rows."""
    plan, table, rows, n_h = run.plan, run.tables.outputs, workspace.all_rows, block.sizes[N_EXAMPLES]
    n_h_padded = round_up_to_tile(n_h)
    fetch_examples(run, workspace, block)
    for first in range(0, plan.n_rows, ROW_TILE):
        n = min(ROW_TILE, plan.n_rows - first)
        n_w = round_up_to_tile(n)
        gather(table.rows, rows[first : first + n], n, n_w, workspace.w)
        scores(workspace.h, n_h_padded, workspace.w, n_w, workspace.batch.z)
        for e in range(n_h):
            for k in range(n):
                workspace.all_z[e, first + k] = workspace.batch.z[e, k]
    if plan.uses_score_gain:
        measure_block(run, workspace, block, table.rows, plan.n_rows, lr)
    loss = 0.0
    for e in range(n_h):
        loss += _coefficients_over_all_rows(coefficients, run, workspace, block, e, lr)
    for e in range(n_h_padded):
        clear(workspace.h_gradient, e, workspace.h.shape[1])
    for first in range(0, plan.n_rows, ROW_TILE):
        n = min(ROW_TILE, plan.n_rows - first)
        n_w = round_up_to_tile(n)
        gather(table.rows, rows[first : first + n], n, n_w, workspace.w)
        for e in range(n_h_padded):
            for k in range(n_w):
                workspace.batch.z[e, k] = workspace.all_z[e, first + k] if e < n_h and k < n else np.float32(0)
        weighted_sums(workspace.batch.z, n_h_padded, workspace.w, n, workspace.h_part)
        for e in range(n_h):
            for d in range(0, workspace.h.shape[1], SIMD_WIDTH):
                store(workspace.h_gradient, e, d, load(workspace.h_part, e, d) + load(workspace.h_gradient, e, d))
        weighted_sums_transposed(workspace.batch.z, n_w, workspace.h, n_h, workspace.w_gradient)
        for k in range(n):
            update_row(run, workspace, table, first + k, workspace.w_gradient, k, OF_ROWS, lr)
    update_inputs(run, workspace, block, lr)
    return loss


@kernel_part
def _coefficients_over_all_rows(coefficients, run, workspace, block, e, lr):
    """Overwrite the scores of example e with all rows by coefficients, in a call or one for each positive. Return the loss."""
    plan, n_rows, n_centres = run.plan, run.plan.n_rows, block.sizes[N_CENTRES]
    own, total, merged = workspace.pairs, workspace.z_sum, run.plan.form != SINGLE
    weight = draw_weight(plan.form, block.n_pairs[e])
    loss = 0.0
    for k in range(n_rows):
        total[0, k] = 0
    for i in range(1 if merged else n_centres):
        if block.n_pairs[e] > 0 and (merged or block.label[e, i] > 0):
            set_all_negative(own, 0, n_rows, weight)
            for k in range(n_rows):
                own.z[0, k] = workspace.all_z[e, k]
            for y in range(0 if merged else i, n_centres if merged else i + 1):
                if block.label[e, y] > 0:
                    row = np.int64(block.candidates[y])
                    set_positive(own, 0, row, block.label[e, y], weight, plan.keeps_accidental_hits)
            if plan.uses_score_gain:
                for k in range(n_rows):
                    own.score_gain[0, k] = score_gain(workspace, e, k)
            describe_example(run, workspace, block, e, own, 0, 1)
            loss += coefficients(own, run.tables.state, run.constants, 1, n_rows, lr * plan.optimizer.state_rate)
            for k in range(n_rows):
                total[0, k] += own.z[0, k]
    for k in range(n_rows):
        workspace.all_z[e, k] = total[0, k]
    return loss

"""The training kernel of skip-gram, block by block (see `blocks`): gather rows, score, compute gradients, update.

With the rows of a block side by side, the scores of every input against every candidate are one small matrix product, and the
two gradients one each; both use the values before the update. Blocks are planned one ahead so that their rows can be prefetched
while the block before is still being computed. If all rows compete, the output table is processed in tiles of rows, in the same
forms.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.blocks import (
    ALL,
    FILTER_SIZE,
    INPUT_SETS,
    INPUT_SUMS,
    N_CENTRES,
    N_INPUTS,
    N_NOISE,
    N_PAIRS,
    PATH,
    Block,
    SkipGramPlan,
    clear,
    max_candidates,
    max_inputs,
    new_block,
    plan_block,
    round_up_to_padding,
)  # fmt: skip
from embedx.engine.select import SINGLE, SUMMED, draw_weight, set_all_negative, set_positive
from embedx.engine.subwords import NO_PARTS, Parts, fetch_means, prefetch_parts, word_vectors
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import TILE, scores, weighted_sums, weighted_sums_transposed
from embedx.kernels.random import bits, open_uniform
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, prefetch, splat, store, sum_of, zeros
from embedx.optimizers.contract import Table
from embedx.optimizers.descend import descend_row, descend_row_within, is_frozen, row_divisor
from embedx.samplers.contract import SampleWorkspace, new_sample_workspace
from embedx.text.subsampling import KeptWords, keep_words, new_words

UNIFORMS = np.uint64(2**63)  # a counter that no draw reaches: it gives an objective's random numbers a stream of their own
ROW_TILE = 64  # output rows processed at a time by the sampler `all`, so that they stay in the core's own cache

# Nats by which the step of one row may move the scores of a block at the start of a run; it falls as the rate does.
LONGEST_STEP = np.float32(10)
# Length to which the gradient of a row is clipped (Pascanu, Mikolov & Bengio 2013) where its rate does not adapt: by plain
# descent and at the limit of bounded-adagrad. A block gives a row the sum of its pairs' gradients, and an input that stands
# in it n times takes n such steps from the same scores: in a list ("genus a genus b ...") the rows of the repeated word and
# of its neighbours overshoot by more from block to block. `ns`, 10 MB of Wikipedia, 3 epochs, one seed, held-out
# log-likelihood by blocks of 8, 16 and 32: bounded-adagrad -8.563, -9.078, -73.4, clipped -8.562, -8.562, -8.564; sgd -8.592,
# -8.681, -304, clipped (32) -8.591.
MAX_GRADIENT = 16.0
OF_ROWS, OF_INPUTS = 0, 1  # places in `SkipGramWorkspace.most`
LEAST = np.float32(1e-30)  # stands for 0 in a denominator


class SkipGramTables(NamedTuple):
    """The parameters, shared by all threads (Hogwild): reads and writes are not atomic, so concurrent updates may be lost."""

    inputs: Table  # a row for each word, then for each bucket of n-grams; 1 in the column of the biases
    outputs: Table  # a row for each output row
    state: np.ndarray  # float32 (n_words, state_width)
    n_updates: np.ndarray  # int64 (n_words,); (1,) if the objective keeps no state
    parts: Parts = NO_PARTS  # the rows of the inputs that each word's vector is the mean of


def input_vectors(tables: SkipGramTables) -> np.ndarray:
    """The vector of each word, float32 (n_words, stride): the rows of the inputs themselves, or means of them."""
    return word_vectors(tables.inputs.rows, tables.parts) if len(tables.parts.offsets) else tables.inputs.rows


class SkipGramWorkspace(NamedTuple):
    """One worker's own memory."""

    words: KeptWords
    block: Block
    next_block: Block
    sampling: SampleWorkspace
    seen: np.ndarray  # int64 (FILTER_SIZE,): the last draw of a row with this remainder; tells cheaply that a row is new
    h: np.ndarray  # float32 (max inputs, stride)
    w: np.ndarray  # float32 (max candidates or ROWS, stride)
    h_gradient: np.ndarray  # like h
    h_part: np.ndarray  # like h, where all rows compete
    w_gradient: np.ndarray  # like w
    batch: Batch  # (max inputs, max candidates or ROWS): a line for each input; its labels are those of the block
    all_z: np.ndarray  # float32 (max inputs, n_rows), where all rows compete
    pairs: Batch  # (max lines, width of a line): the pairs of an input, or a line of all rows
    log_expected: np.ndarray  # float32 (max candidates,): of the candidates of a block
    line_sum: np.ndarray  # float32 (1, width of a line), where all rows compete
    noise_column: np.ndarray  # int64 (max centres,): the column of a line where each centre is among the noise; -1 if it is not
    rng_state: np.ndarray  # uint64 (2,): key and counter of the stream that `uniforms` come from
    row_step: np.ndarray  # float32 (max candidates or rows,): each candidate's rate over what `coefficients` is told of it
    row_square: np.ndarray  # float32 (max candidates or rows,): its squared length without the bias
    input_step: np.ndarray  # float32 (max inputs,): the same for the inputs
    input_square: np.ndarray  # float32 (max inputs,)
    most: np.ndarray  # float32 (2,): the highest rate of a proximal step, OF_ROWS and OF_INPUTS
    longest_step: np.ndarray  # float32 (1,): nats; see LONGEST_STEP


def new_workspace(plan: SkipGramPlan, n_tokens: int, columns: int, longest_path: int, uniforms_width: int) -> SkipGramWorkspace:
    """Memory for a worker that trains chunks of up to `n_tokens` tokens on rows of `columns` numbers."""
    n_inputs, n_candidates = max_inputs(plan), max_candidates(plan, longest_path)
    if plan.candidates == ALL:
        n_candidates = ROW_TILE
        lines, width, n_all_rows_inputs = 1, int(round_up_to_padding(plan.n_rows)), n_inputs
    else:
        lines, width, n_all_rows_inputs = (
            min(max(plan.block_size, 1), 2 * plan.window + 1),
            int(round_up_to_padding(1 + plan.n_draws)),
            0,
        )

    n_rows = plan.n_rows if plan.candidates == ALL else n_candidates

    def matrix(rows: int, width: int) -> np.ndarray:
        return np.zeros((rows, width), dtype=np.float32)

    def vector(n: int) -> np.ndarray:
        return np.zeros(n, dtype=np.float32)

    return SkipGramWorkspace(
        words=new_words(plan.window, n_tokens),
        block=new_block(plan, longest_path),
        next_block=new_block(plan, longest_path),
        sampling=new_sample_workspace(plan.n_draws, 0),
        seen=np.full(FILTER_SIZE, -1, dtype=np.int64),
        h=aligned_zeros(n_inputs, columns),
        w=aligned_zeros(n_candidates, columns),
        h_gradient=aligned_zeros(n_inputs, columns),
        h_part=aligned_zeros(n_all_rows_inputs, columns),
        w_gradient=aligned_zeros(n_candidates, columns),
        batch=new_batch(n_inputs, n_candidates, uniforms_width),
        all_z=matrix(n_all_rows_inputs, width),
        pairs=new_batch(lines, width, uniforms_width),
        log_expected=np.zeros(n_candidates, dtype=np.float32),
        line_sum=matrix(min(n_all_rows_inputs, 1), width),
        noise_column=np.zeros(max(plan.block_size, 1), dtype=np.int64),
        rng_state=np.zeros(2, dtype=np.uint64),
        row_step=vector(n_rows),
        row_square=vector(n_rows),
        input_step=vector(n_inputs),
        input_square=vector(n_inputs),
        most=vector(2),
        longest_step=np.full(1, LONGEST_STEP, dtype=np.float32),
    )


@kernel
def train_chunk(
    coefficients, sample, log_expected_count, tables, stream, sampler_data, constants, plan, workspace, start, stop, lr,
    key, noise_key,
):  # fmt: skip
    """Train on the centres among tokens[start:stop]; return the summed loss, the pairs and the corpus words seen.

    `key` decides which words are kept and how wide their windows are, by position in the corpus alone; `noise_key` what is
    drawn. `lr` multiplies every update. Words just outside the chunk serve as context only.
    """
    words, seen = workspace.words, workspace.seen
    first, last, n_words, n_seen = keep_words(stream, plan.window, start, stop, key, words)
    loss = 0.0
    n_pairs = 0
    block, next_block = workspace.block, workspace.next_block
    seen[:] = -1
    workspace.rng_state[0], workspace.rng_state[1] = bits(noise_key, UNIFORMS), np.uint64(0)
    drawn = 0
    centre, context, drawn = plan_block(
        sample, plan, sampler_data, words, workspace.sampling, seen, n_words, first, last, 0, noise_key, drawn, block
    )
    while block.sizes[N_CENTRES] > 0:
        centre, context, drawn = plan_block(
            sample, plan, sampler_data, words, workspace.sampling, seen, n_words, centre, last, context, noise_key, drawn,
            next_block,
        )  # fmt: skip
        _prefetch_block(tables, next_block)
        if plan.candidates == ALL:
            loss += _train_on_all(coefficients, tables, constants, plan, workspace, block, lr)
        else:
            loss += train_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr)
        n_pairs += block.sizes[N_PAIRS]
        block, next_block = next_block, block
    return loss, n_pairs, n_seen


@kernel_part
def _prefetch_block(tables, block):
    """Prefetch the rows of a planned block."""
    prefetch_inputs(tables, block)
    prefetch_rows(tables.outputs.rows, block.candidates, block.sizes[N_CENTRES] + block.sizes[N_NOISE])


@kernel_part
def prefetch_inputs(tables, block):
    """Prefetch the rows of the inputs of a planned block."""
    if has_parts(tables):
        prefetch_parts(tables.inputs.rows, tables.parts, block.inputs, block.sizes[N_INPUTS])
    else:
        prefetch_rows(tables.inputs.rows, block.inputs, block.sizes[N_INPUTS])


@kernel_part
def has_parts(tables):
    """Whether a word's vector is the mean of several rows."""
    return tables.parts.offsets.size > 0


@kernel_part
def prefetch_rows(table, rows, n):
    """Prefetch rows[:n] of a table."""
    for r in range(n):
        for d in range(0, table.shape[1], SIMD_WIDTH):
            prefetch(table, np.int64(rows[r]), d)


@kernel_part
def train_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr):
    """Train on one planned block; return its summed loss."""
    n_inputs, n_candidates = block.sizes[N_INPUTS], block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    n_h, n_w = round_up_to_tile(n_inputs), round_up_to_tile(n_candidates)
    fetch_inputs(tables, plan, workspace, block, n_h)
    gather(tables.outputs.rows, block.candidates, n_candidates, n_w, workspace.w)
    scores(workspace.h, n_h, workspace.w, n_w, workspace.batch.z)
    if plan.uses_score_gain:
        measure_block(tables, plan, workspace, workspace.w, n_candidates, block, lr)
    loss = coefficients_of_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr)
    weighted_sums(workspace.batch.z, n_h, workspace.w, n_candidates, workspace.h_gradient)
    weighted_sums_transposed(workspace.batch.z, n_w, workspace.h, n_inputs, workspace.w_gradient)
    update_inputs(tables, plan, workspace, block, lr)
    update_rows(tables, plan, workspace, block, n_candidates, lr)
    return loss


@kernel_part
def round_up_to_tile(n):
    return (n + TILE - 1) // TILE * TILE


@kernel_part
def gather(table, rows, n, n_padded, out):
    """Copy table[rows[:n]] to out[:n] and write zeros up to n_padded."""
    for r in range(n):
        for d in range(0, table.shape[1], SIMD_WIDTH):
            store(out, r, d, load(table, np.int64(rows[r]), d))
    for r in range(n, n_padded):
        clear(out, r, table.shape[1])


@kernel_part
def fetch_inputs(tables, plan, workspace, block, n_padded):
    """Overwrite workspace.h by the vectors of the inputs of a block, and zeros up to n_padded."""
    n = block.sizes[N_INPUTS]
    if has_parts(tables):
        fetch_means(tables.inputs.rows, tables.parts, block.inputs, n, plan.bias, workspace.h)
        for r in range(n, n_padded):
            clear(workspace.h, r, workspace.h.shape[1])
    else:
        gather(tables.inputs.rows, block.inputs, n, n_padded, workspace.h)


@kernel_part
def update_rows(tables, plan, workspace, block, n, lr):
    """Update the first n candidates, in order; a row that stands twice is updated twice."""
    for k in range(n):
        if not is_frozen(tables.outputs, np.int64(block.candidates[k])):
            row = np.int64(block.candidates[k])
            _update_row(tables.outputs, row, workspace.w_gradient, k, plan, lr, workspace.most[OF_ROWS])


@kernel_part
def update_inputs(tables, plan, workspace, block, lr):
    """Update the input rows that have pairs; the constant feature of the biases is not trained."""
    if has_parts(tables):
        _update_parts(tables, plan, workspace, block, lr)
        return
    for j in range(block.sizes[N_INPUTS]):
        if block.n_pairs[j] > 0 and not is_frozen(tables.inputs, np.int64(block.inputs[j])):
            if plan.bias >= 0:
                workspace.h_gradient[j, plan.bias] = 0
            row = np.int64(block.inputs[j])
            _update_row(tables.inputs, row, workspace.h_gradient, j, plan, lr, workspace.most[OF_INPUTS])


@kernel_part
def _update_parts(tables, plan, workspace, block, lr):
    """The same where the vector of an input is the mean of several rows."""
    parts = tables.parts
    for j in range(block.sizes[N_INPUTS]):
        if block.n_pairs[j] > 0:
            if plan.bias >= 0:
                workspace.h_gradient[j, plan.bias] = 0
            word = np.int64(block.inputs[j])
            for p in range(parts.offsets[word], parts.offsets[word + 1]):
                if not is_frozen(tables.inputs, np.int64(parts.rows[p])):
                    row = np.int64(parts.rows[p])
                    _update_row(tables.inputs, row, workspace.h_gradient, j, plan, lr, workspace.most[OF_INPUTS])


@kernel_part
def _update_row(table, row, gradient, r, plan, lr, most):
    """One step of a row along -gradient[r]; of a proximal step's row at a rate of at most `most`."""
    if plan.is_proximal:
        descend_row_within(table, row, gradient, r, gradient.shape[1], plan.optimizer, lr, most)
    else:
        descend_row(table, row, gradient, r, gradient.shape[1], plan.optimizer, lr)


# ---- lines for the objective


@kernel_part
def coefficients_of_block(coefficients, log_expected_count, tables, sampler_data, constants, plan, workspace, block, lr):
    """Overwrite the scores of a block by coefficients. Return its loss."""
    n_candidates = block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    if plan.candidates != PATH and plan.uses_log_expected_count:
        log_expected_count(sampler_data, np.int64(-1), plan.n_draws, 0, block.candidates, n_candidates, workspace.log_expected)
    if plan.candidates == PATH or plan.form == INPUT_SUMS or plan.form == INPUT_SETS:
        return _coefficients_by_input(coefficients, tables, constants, plan, workspace, block, lr)
    loss = 0.0
    _fill_shared_noise(plan, workspace, block)
    for j in range(block.sizes[N_INPUTS]):
        loss += _coefficients_by_pair(coefficients, tables, constants, plan, workspace, block, j, lr)
    return loss


@kernel_part
def _coefficients_by_input(coefficients, tables, constants, plan, workspace, block, lr):
    """Overwrite all scores by coefficients, one row of the batch for each input. Return the loss."""
    n_inputs, n_centres, n_candidates = (
        block.sizes[N_INPUTS],
        block.sizes[N_CENTRES],
        block.sizes[N_CENTRES] + block.sizes[N_NOISE],
    )
    n = round_up_to_padding(n_candidates)
    own = workspace.batch
    for j in range(n_inputs):
        if plan.candidates == PATH:
            for k in range(0, n, SIMD_WIDTH):
                store(own.sample_count, j, k, load(block.bit_zero_count, j, k))
        else:
            count = np.float32(block.n_pairs[j])
            weight = splat(count if plan.form == INPUT_SUMS else np.float32(1))
            for k in range(0, n, SIMD_WIDTH):
                store(own.sample_count, j, k, multiply_add(weight, load(block.drawn, 0, k), zeros()))
            if plan.uses_log_expected_count:
                for k in range(n_candidates):
                    own.log_expected_count[j, k] = workspace.log_expected[k]
            if plan.form == INPUT_SETS:
                for k in range(n_centres):
                    own.sample_count[j, k] = np.float32(0) if block.label[j, k] > 0 else np.float32(1)
                    own.log_expected_count[j, k] = 0
        if plan.uses_score_gain:
            for k in range(n_candidates):
                own.score_gain[j, k] = _score_gain(workspace, j, k)
        _describe_example(plan, tables, workspace, own, j, np.int64(block.inputs[j]), min(block.n_pairs[j], 1))
    batch = Batch(
        own.z, block.label, own.sample_count, own.log_expected_count, own.uniforms, own.key, own.n_updates, own.score_gain
    )
    return coefficients(batch, tables.state, constants, n_inputs, n, lr * plan.optimizer.state_rate)


@kernel_part
def _fill_shared_noise(plan, workspace, block):
    """Fill what the rows of all pairs have in common: the noise in columns 1 on, and which of these equals each centre."""
    n_centres, n_noise = block.sizes[N_CENTRES], block.sizes[N_NOISE]
    sample_count, log_expected_count = workspace.pairs.sample_count, workspace.pairs.log_expected_count
    for k in range(n_noise):
        sample_count[0, 1 + k] = block.drawn[0, n_centres + k]
        log_expected_count[0, 1 + k] = workspace.log_expected[n_centres + k]
    for e in range(1, sample_count.shape[0]):
        for k in range(0, sample_count.shape[1], SIMD_WIDTH):
            store(sample_count, e, k, load(sample_count, 0, k))
            store(log_expected_count, e, k, load(log_expected_count, 0, k))
    for i in range(n_centres):
        workspace.noise_column[i] = -1
        for k in range(n_noise):
            workspace.noise_column[i] = (
                1 + k if block.candidates[n_centres + k] == block.candidates[i] else workspace.noise_column[i]
            )


@kernel_part
def _coefficients_by_pair(coefficients, tables, constants, plan, workspace, block, j, lr):
    """Overwrite the scores of input j by the sum of its pairs' coefficients, a row of the batch for each. Return the loss."""
    n_centres, n_noise = block.sizes[N_CENTRES], block.sizes[N_NOISE]
    pairs = workspace.pairs
    z, label, sample_count = pairs.z, pairs.label, pairs.sample_count
    e = 0
    for i in range(n_centres):
        if block.label[j, i] > 0:
            for k in range(n_noise):
                z[e, 1 + k] = workspace.batch.z[j, n_centres + k]
            noise_column = workspace.noise_column[i]
            z[e, 0], label[e, 0] = workspace.batch.z[j, i], block.label[j, i]
            pairs.log_expected_count[e, 0] = workspace.log_expected[i]
            sample_count[e, 0] = (
                sample_count[e, noise_column] if noise_column > 0 and plan.keeps_accidental_hits else np.float32(0)
            )
            if noise_column > 0:
                sample_count[e, noise_column] = 0
            if plan.uses_score_gain:
                pairs.score_gain[e, 0] = _score_gain(workspace, j, i)
                for k in range(n_noise):
                    pairs.score_gain[e, 1 + k] = _score_gain(workspace, j, n_centres + k)
            _describe_example(plan, tables, workspace, pairs, e, np.int64(block.inputs[j]), 1)
            e += 1
    loss = coefficients(pairs, tables.state, constants, e, 1 + n_noise, lr * plan.optimizer.state_rate)
    clear(workspace.batch.z, j, (n_centres + n_noise + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH)
    e = 0
    for i in range(n_centres):
        if block.label[j, i] > 0:
            workspace.batch.z[j, i] = z[e, 0]
            for k in range(n_noise):
                workspace.batch.z[j, n_centres + k] += z[e, 1 + k]
            if workspace.noise_column[i] > 0:
                sample_count[e, workspace.noise_column[i]] = block.drawn[0, n_centres + workspace.noise_column[i] - 1]
            e += 1
    return loss


@kernel_part
def _describe_example(plan, tables, workspace, batch, e, key, n):
    """Set key, n_updates and uniforms of row e of the batch; add n to the count of updates."""
    batch.key[e] = key
    for d in range(batch.uniforms.shape[1]):
        batch.uniforms[e, d] = open_uniform(workspace.rng_state[0], workspace.rng_state[1])
        workspace.rng_state[1] += np.uint64(1)
    if tables.state.shape[1] > 0:
        batch.n_updates[e] = tables.n_updates[key]
        tables.n_updates[key] += n


@kernel_part
def _squared_norm(rows, r):
    """|rows[r]|²."""
    total = zeros()
    for d in range(0, rows.shape[1], SIMD_WIDTH):
        x = load(rows, r, d)
        total = multiply_add(x, x, total)
    return sum_of(total)


@kernel_part
def measure_block(tables, plan, workspace, rows, n, block, lr):
    """Write the highest rates of the rows of a block whose candidates are rows[:n], and what its score gains are made of.

    At the highest rate a row's step moves a score by `longest_step`, if all coefficients are 1 and all vectors of the block
    point in its own direction; two scores differ by no more than 4 pairs · |w_k|² through one step of h. No input moves along
    the biases. A row's rate is foreseen as if its optimiser saw nothing new; what it sees can only lower it.
    """
    optimizer, per_lr = plan.optimizer, np.float32(1) / max(lr * plan.optimizer.state_rate, LEAST)
    row_step, row_square = workspace.row_step, workspace.row_square
    input_step, input_square = workspace.input_step, workspace.input_square
    of_rows, longest, of_inputs, most_pairs = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    for k in range(n):
        own = rows[k, plan.bias] if plan.bias >= 0 else np.float32(0)
        row_square[k] = _squared_norm(rows, k) - own * own
        of_rows += row_square[k]
        longest = max(longest, row_square[k])
    for j in range(block.sizes[N_INPUTS]):
        input_square[j] = _squared_norm(workspace.h, j)
        of_inputs += min(block.n_pairs[j], 1) * input_square[j]
        most_pairs = max(most_pairs, np.float32(block.n_pairs[j]))
    of_rows = min(of_rows, np.float32(4) * most_pairs * longest)
    workspace.most[OF_ROWS] = workspace.longest_step[0] / max(of_inputs, LEAST)
    workspace.most[OF_INPUTS] = workspace.longest_step[0] / max(of_rows, LEAST)
    for k in range(n):
        row = k if plan.candidates == ALL else np.int64(block.candidates[k])
        row_step[k] = min(lr / row_divisor(tables.outputs, row, optimizer), workspace.most[OF_ROWS]) * per_lr
    for j in range(block.sizes[N_INPUTS]):
        input_step[j] = _input_rate(tables, plan, workspace, block, j, lr) * per_lr


@kernel_part
def _input_rate(tables, plan, workspace, block, j, lr):
    """The rate of the step of input j; of several rows the mean, for their mean moves by that."""
    if not has_parts(tables):
        row = np.int64(block.inputs[j])
        return min(lr / row_divisor(tables.inputs, row, plan.optimizer), workspace.most[OF_INPUTS])
    first, last = tables.parts.offsets[block.inputs[j]], tables.parts.offsets[block.inputs[j] + 1]
    total = np.float32(0)
    for p in range(first, last):
        row = np.int64(tables.parts.rows[p])
        total += min(lr / row_divisor(tables.inputs, row, plan.optimizer), workspace.most[OF_INPUTS])
    return total / np.float32(last - first)


@kernel_part
def _score_gain(workspace, j, k):
    """How far the score of input j and candidate k alone would move per unit of its coefficient and of what `coefficients` is
    told of the learning rate.
    """
    return workspace.input_square[j] * workspace.row_step[k] + workspace.row_square[k] * workspace.input_step[j]


# ---- all rows


@kernel_part
def _train_on_all(coefficients, tables, constants, plan, workspace, block, lr):
    """Train on a block whose candidates are all rows; return its summed loss. Two passes over the table, in tiles of rows."""
    n_inputs = block.sizes[N_INPUTS]
    n_h = round_up_to_tile(n_inputs)
    fetch_inputs(tables, plan, workspace, block, n_h)
    for first in range(0, plan.n_rows, ROW_TILE):
        n_w = _copy_rows(tables.outputs.rows, first, plan.n_rows, workspace.w)
        scores(workspace.h, n_h, workspace.w, n_w, workspace.batch.z)
        for j in range(n_inputs):
            for k in range(min(ROW_TILE, plan.n_rows - first)):
                workspace.all_z[j, first + k] = workspace.batch.z[j, k]
    if plan.uses_score_gain:
        measure_block(tables, plan, workspace, tables.outputs.rows, plan.n_rows, block, lr)
    loss = 0.0
    for j in range(n_inputs):
        loss += _coefficients_over_all_rows(coefficients, tables, constants, plan, workspace, block, j, lr)
    for j in range(n_h):
        clear(workspace.h_gradient, j, workspace.h.shape[1])
    for first in range(0, plan.n_rows, ROW_TILE):
        n = min(ROW_TILE, plan.n_rows - first)
        n_w = _copy_rows(tables.outputs.rows, first, plan.n_rows, workspace.w)
        for j in range(n_h):
            for k in range(n_w):
                workspace.batch.z[j, k] = workspace.all_z[j, first + k] if j < n_inputs and k < n else np.float32(0)
        weighted_sums(workspace.batch.z, n_h, workspace.w, n, workspace.h_part)
        for j in range(n_inputs):
            for d in range(0, workspace.h.shape[1], SIMD_WIDTH):
                one = splat(np.float32(1))
                store(
                    workspace.h_gradient,
                    j,
                    d,
                    multiply_add(one, load(workspace.h_part, j, d), load(workspace.h_gradient, j, d)),
                )
        weighted_sums_transposed(workspace.batch.z, n_w, workspace.h, n_inputs, workspace.w_gradient)
        for k in range(n):
            if not is_frozen(tables.outputs, first + k):
                _update_row(tables.outputs, first + k, workspace.w_gradient, k, plan, lr, workspace.most[OF_ROWS])
    update_inputs(tables, plan, workspace, block, lr)
    return loss


@kernel_part
def _copy_rows(table, first, n_rows, out):
    """Copy up to ROWS rows from `first` on to `out`, zeros up to a whole tile; return how many of both."""
    n = min(ROW_TILE, n_rows - first)
    for r in range(n):
        for d in range(0, table.shape[1], SIMD_WIDTH):
            store(out, r, d, load(table, first + r, d))
    n_padded = round_up_to_tile(n)
    for r in range(n, n_padded):
        clear(out, r, table.shape[1])
    return n_padded


@kernel_part
def _coefficients_over_all_rows(coefficients, tables, constants, plan, workspace, block, j, lr):
    """Overwrite the scores of input j with all rows by coefficients, in one call or one for each positive. Return the loss."""
    n_rows, n_centres = plan.n_rows, block.sizes[N_CENTRES]
    line, total = workspace.pairs, workspace.line_sum
    merged = plan.form == INPUT_SUMS or plan.form == INPUT_SETS
    weight = draw_weight(SUMMED if plan.form == INPUT_SUMS else SINGLE, block.n_pairs[j])
    loss = 0.0
    for k in range(n_rows):
        total[0, k] = 0
    for i in range(1 if merged else n_centres):
        if block.n_pairs[j] > 0 and (merged or block.label[j, i] > 0):
            set_all_negative(line, 0, n_rows, weight)
            for k in range(n_rows):
                line.z[0, k] = workspace.all_z[j, k]
            for y in range(0 if merged else i, n_centres if merged else i + 1):
                if block.label[j, y] > 0:
                    row = np.int64(block.candidates[y])
                    set_positive(line, 0, row, block.label[j, y], weight, plan.keeps_accidental_hits)
            if plan.uses_score_gain:
                for k in range(n_rows):
                    line.score_gain[0, k] = _score_gain(workspace, j, k)
            _describe_example(plan, tables, workspace, line, 0, np.int64(block.inputs[j]), 1)
            loss += coefficients(line, tables.state, constants, 1, n_rows, lr * plan.optimizer.state_rate)
            for k in range(n_rows):
                total[0, k] += line.z[0, k]
    for k in range(n_rows):
        workspace.all_z[j, k] = total[0, k]
    return loss

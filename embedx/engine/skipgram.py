"""The training kernel of word vectors, block by block (see `blocks`): gather rows, score, compute
gradients, update.

With the rows of a block side by side, the scores of every example against every candidate are one
small matrix product, and the two gradients one each; both use the values before the update. Blocks
are planned one ahead so that their rows can be prefetched while the block before is still being
computed.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int64, ndarray, uint64

from embedx.engine.blocks import (
    ALL,
    CENTRE,
    CONTEXT,
    END,
    FILTER_SIZE,
    N_CENTRES,
    N_DRAWN,
    N_EXAMPLES,
    N_INPUTS,
    N_NOISE,
    N_PAIRS,
    N_WORDS,
    PATH,
    SCORE_PADDING,
    Block,
    BlockPlan,
    max_candidates,
    max_examples,
    max_inputs,
    new_block,
    plan_block,
    round_up_to_padding,
)
from embedx.engine.encoders import SKIPGRAM, backward, fetch, fetch_rates
from embedx.engine.select import JOINT, SINGLE, draw_weight, set_positive
from embedx.engine.skipgram_retrieved import add_candidates
from embedx.engine.subwords import (
    NO_PARTS,
    Parts,
    fetch_word,
    n_parts,
    part,
    prefetch_word,
    word_vectors,
)
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import (
    clear,
    round_up_to_tile,
    scores,
    weighted_sums,
    weighted_sums_transposed,
)
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.random import bits, open_uniform
from embedx.kernels.simd import (
    SIMD_WIDTH,
    aligned_zeros,
    load,
    multiply_add,
    padded,
    prefetch,
    splat,
    store,
    sum_of,
    zeros,
)
from embedx.optimizers.contract import Table
from embedx.optimizers.descend import descend_row, descend_row_within, is_frozen, row_divisor
from embedx.samplers.contract import SamplerData, SampleWorkspace, new_sample_workspace
from embedx.text.subsampling import KeptWords, TokenStream, keep_words, new_words

# the counter that the key of `uniforms` is made from; no other draw reaches it
UNIFORMS = uint64(2**63)

# Nats by which the step of one row may move the scores of a block at the start of a run; it falls
# as the rate does.
LONGEST_STEP = float32(10)
# Length to which the gradient of a row is clipped (Pascanu, Mikolov & Bengio 2013) where its rate
# does not adapt: by plain descent and at the limit of bounded-adagrad. A block gives a row the sum
# of its pairs' gradients, and an input that stands in it n times takes n such steps from the same
# scores: in a list ("genus a genus b ...") the rows of the repeated word and of its neighbours
# overshoot by more from block to block. `ns`, 10 MB of Wikipedia, 3 epochs, one seed, held-out
# log-likelihood by blocks of 8, 16 and 32: bounded-adagrad -8.563, -9.078, -73.4, clipped -8.562,
# -8.562, -8.564; sgd -8.592, -8.681, -304, clipped (32) -8.591.
MAX_GRADIENT = 16.0
OF_ROWS, OF_INPUTS = 0, 1  # places in `SkipGramWorkspace.max_rate`
LEAST = float32(1e-30)  # stands for 0 in a denominator


@by_address
class SkipGramTables(NamedTuple):
    """The parameters, shared by all threads (Hogwild): reads and writes are not atomic, so
    concurrent updates may be lost.
    """

    # a row for each word, then for each bucket of n-grams; 1 in the column of the biases
    inputs: Table
    outputs: Table  # a row for each output row
    state: ndarray  # float32 (n_words, state_width)
    n_updates: ndarray  # int64 (n_words,); (1,) if the objective keeps no state
    parts: Parts = NO_PARTS  # the rows of the inputs that each word's vector is the mean of


def input_vectors(tables: SkipGramTables) -> ndarray:
    """The vector of each word, float32 (n_words, stride): the rows of the inputs themselves, or
    means of them.
    """
    return (
        word_vectors(tables.inputs.rows, tables.parts)
        if len(tables.parts.offsets)
        else tables.inputs.rows
    )


@by_address
class Run(NamedTuple):
    """What all chunks of a run have in common."""

    tables: SkipGramTables
    stream: TokenStream
    sampler_data: SamplerData
    constants: ndarray  # float32: the objective's
    plan: BlockPlan


class Chunk(NamedTuple):
    """The centres tokens[start:stop] and how they are trained; words just outside serve as context
    only.
    """

    start: int
    stop: int
    lr: float32  # multiplies every update
    # decides which words are kept and how wide their windows are, by position in the corpus alone
    key: uint64
    noise_key: uint64  # decides what is drawn


@by_address
class SkipGramWorkspace(NamedTuple):
    """The memory of one worker."""

    words: KeptWords
    cursor: ndarray  # int64 (5,): where planning is in a chunk, see `blocks`
    block: Block
    next_block: Block
    sampling: SampleWorkspace
    # int64 (FILTER_SIZE,): the last draw of a row with this remainder; a cheap test whether a row
    # is new
    seen: ndarray
    x: ndarray  # float32 (max inputs, stride): vectors of the inputs
    x_gradient: ndarray  # like x
    h: ndarray  # float32 (max examples, stride): vectors of the examples; in skip-gram x
    h_gradient: ndarray  # like h; in skip-gram x_gradient
    w: ndarray  # float32 (max candidates, stride)
    w_gradient: ndarray  # like w
    # (max examples, max candidates): a row for each example; `Block.label` stands in for its label
    batch: Batch
    # (max positives of an example, 1 + noise): a row for each distinct positive of one example
    pairs: Batch
    centre: ndarray  # int64 (1 + max positives of an example,): the candidate that each of them is
    log_expected: ndarray  # float32 (max candidates,): of the candidates of a block
    # int64 (max candidates,): the column in `pairs` where each centre is noise too; -1 if it is not
    noise_column: ndarray
    rng_state: ndarray  # uint64 (2,): key and counter of the stream that `uniforms` come from
    # float32 (max candidates,): learning rate of each candidate over that given to `coefficients`
    row_step: ndarray
    row_square: ndarray  # float32 (max candidates,): |w_k|² without the bias
    x_step: ndarray  # float32 (max inputs,): as row_step, of each input
    h_step: ndarray  # float32 (max examples,): as row_step, of each example; in skip-gram x_step
    h_square: ndarray  # float32 (max examples,): |h_e|²
    # float32 (2,): highest learning rates of a proximal step, OF_ROWS and OF_INPUTS
    max_rate: ndarray
    longest_step: ndarray  # float32 (1,): nats; see LONGEST_STEP
    tokens: ndarray  # int32: those of a chunk, where they are not stored


def new_workspace(
    plan: BlockPlan,
    n_tokens: int,
    columns: int,
    longest_path: int,
    uniforms_width: int,
    n_made: int = 0,
) -> SkipGramWorkspace:
    """Memory for a worker that trains chunks of up to `n_tokens` tokens, of which it makes
    `n_made`, on rows of `columns`.
    """
    n_inputs, n_examples, n_candidates = (
        max_inputs(plan),
        max_examples(plan),
        max_candidates(plan, longest_path),
    )
    n_pairs = min(max(plan.block_size, 1), 2 * plan.window + 1)
    n_noise = plan.n_rows if plan.candidates == ALL else plan.n_draws
    is_skipgram = plan.encoder == SKIPGRAM

    def vector(n: int) -> ndarray:
        return np.zeros(n, float32)

    x, x_gradient, x_step = (
        aligned_zeros(n_inputs, columns),
        aligned_zeros(n_inputs, columns),
        vector(n_inputs),
    )
    return SkipGramWorkspace(
        words=new_words(plan.window, n_tokens),
        cursor=np.zeros(5, int64),
        block=new_block(plan, longest_path),
        next_block=new_block(plan, longest_path),
        sampling=new_sample_workspace(plan.n_draws, 0),
        seen=np.full(FILTER_SIZE, -1, int64),
        x=x,
        x_gradient=x_gradient,
        h=x if is_skipgram else aligned_zeros(n_examples, columns),
        h_gradient=x_gradient if is_skipgram else aligned_zeros(n_examples, columns),
        w=aligned_zeros(n_candidates, columns),
        w_gradient=aligned_zeros(n_candidates, columns),
        batch=new_batch(n_examples, n_candidates, uniforms_width),
        pairs=new_batch(n_pairs, padded(n_noise + SIMD_WIDTH, SCORE_PADDING), uniforms_width),
        centre=np.zeros(n_pairs + 1, int64),
        log_expected=vector(n_candidates),
        noise_column=np.zeros(n_candidates, int64),
        rng_state=np.zeros(2, uint64),
        row_step=vector(n_candidates),
        row_square=vector(n_candidates),
        x_step=x_step,
        h_step=x_step if is_skipgram else vector(n_examples),
        h_square=vector(n_examples),
        max_rate=vector(2),
        longest_step=np.full(1, LONGEST_STEP, float32),
        tokens=np.zeros(n_made, np.int32),
    )


@kernel
def train_chunk(coefficients, sample, log_expected_count, run, workspace, chunk):
    """Train on a chunk; return the summed loss, the pairs and the corpus words seen."""
    return _train_blocks(
        coefficients, sample, log_expected_count, run, workspace, chunk, None, None
    )


@kernel
def train_chunk_retrieved(
    coefficients, sample, log_expected_count, run, retrieval, workspace, finding, chunk
):
    """The same with candidates that a `Retrieval` finds, in a `RetrievalWorkspace`."""
    return _train_blocks(
        coefficients, sample, log_expected_count, run, workspace, chunk, retrieval, finding
    )


@kernel_part
def _train_blocks(
    coefficients, sample, log_expected_count, run, workspace, chunk, retrieval, finding
):
    n_seen = start_chunk(run, workspace, chunk)
    loss = 0.0
    n_pairs = 0
    block, next_block = workspace.block, workspace.next_block
    block.sizes[:] = 0
    has_more = True
    while has_more:
        plan_block(sample, run, workspace, next_block, chunk.noise_key)
        if retrieval is not None and next_block.sizes[N_CENTRES] > 0:
            add_candidates(sample, run, retrieval, workspace, finding, next_block, chunk.noise_key)
        if run.plan.candidates != ALL:
            prefetch_block(run.tables, next_block)
        if block.sizes[N_CENTRES] > 0:
            loss += train_block(coefficients, log_expected_count, run, workspace, block, chunk.lr)
            n_pairs += block.sizes[N_PAIRS]
        block, next_block = next_block, block
        has_more = block.sizes[N_CENTRES] > 0
    return loss, n_pairs, n_seen


@kernel_part
def start_chunk(run, workspace, chunk):
    """Write the kept words of a chunk and start its cursor and its streams of random numbers;
    return the corpus words seen.
    """
    cursor = workspace.cursor
    cursor[CENTRE], cursor[END], cursor[N_WORDS], n_seen = keep_words(
        run.stream, run.plan.window, chunk.start, chunk.stop, chunk.key, workspace.words
    )
    cursor[CONTEXT] = cursor[N_DRAWN] = 0
    workspace.seen[:] = -1
    workspace.rng_state[0], workspace.rng_state[1] = bits(chunk.noise_key, UNIFORMS), uint64(0)
    return n_seen


@kernel_part
def prefetch_block(tables, block):
    """Prefetch the rows of a planned block."""
    for j in range(block.sizes[N_INPUTS]):
        prefetch_word(tables.inputs.rows, tables.parts, int64(block.inputs[j]))
    for k in range(block.sizes[N_CENTRES] + block.sizes[N_NOISE]):
        for d in range(0, tables.outputs.rows.shape[1], SIMD_WIDTH):
            prefetch(tables.outputs.rows, int64(block.candidates[k]), d)


@kernel_part
def train_block(coefficients, log_expected_count, run, workspace, block, lr):
    """Train on one planned block; return its summed loss."""
    n_h, n = block.sizes[N_EXAMPLES], block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    n_h_padded, n_w = round_up_to_tile(n_h), round_up_to_tile(n)
    fetch_examples(run, workspace, block)
    gather(run.tables.outputs.rows, block.candidates, n, n_w, workspace.w)
    if block.spans.shape[0] > 0:
        for e in range(n_h):
            clear(workspace.batch.z, e, block.sizes[N_CENTRES])
    scores(workspace.h, n_h_padded, workspace.w, n_w, workspace.batch.z, block.spans)
    if run.plan.uses_score_gain:
        measure_block(run, workspace, block, n, lr)
    loss = coefficients_of_block(coefficients, log_expected_count, run, workspace, block, lr)
    weighted_sums(workspace.batch.z, n_h_padded, workspace.w, n, workspace.h_gradient, block.spans)
    weighted_sums_transposed(
        workspace.batch.z, n_w, workspace.h, n_h, workspace.w_gradient, block.candidate_spans
    )
    update_inputs(run, workspace, block, lr)
    update_candidates(run, workspace, block, lr)
    return loss


@kernel_part
def gather(table, rows, n, n_padded, out):
    """Copy table[rows[:n]] to out[:n] and write zeros up to n_padded."""
    for r in range(n):
        for d in range(0, table.shape[1], SIMD_WIDTH):
            store(out, r, d, load(table, int64(rows[r]), d))
    for r in range(n, n_padded):
        clear(out, r, table.shape[1])


@kernel_part
def fetch_examples(run, workspace, block):
    """Overwrite workspace.x and workspace.h by the vectors of the inputs and the examples of a
    block, in whole tiles.
    """
    plan, tables, n = run.plan, run.tables, block.sizes[N_INPUTS]
    for j in range(n):
        fetch_word(
            tables.inputs.rows, tables.parts, int64(block.inputs[j]), workspace.x, j, plan.bias
        )
    for j in range(n, round_up_to_tile(n)):
        clear(workspace.x, j, workspace.x.shape[1])
    fetch(plan.encoder, block, n, block.sizes[N_EXAMPLES], workspace.x, workspace.h, plan.bias)


@kernel_part
def update_inputs(run, workspace, block, lr):
    """Update the rows of the inputs that have pairs; the constant column of the biases is not
    trained.
    """
    plan, tables, n = run.plan, run.tables, block.sizes[N_INPUTS]
    backward(
        plan.encoder, block, n, block.sizes[N_EXAMPLES], workspace.h_gradient, workspace.x_gradient
    )
    for j in range(n):
        if block.n_uses[j] > 0:
            if plan.bias >= 0:
                workspace.x_gradient[j, plan.bias] = 0
            word = int64(block.inputs[j])
            for p in range(n_parts(tables.parts, word)):
                row = part(tables.parts, word, p)
                _update_row(
                    run, workspace, tables.inputs, row, workspace.x_gradient, j, OF_INPUTS, lr
                )


@kernel_part
def update_candidates(run, workspace, block, lr):
    """Update the rows of the candidates, in order; a row that stands twice is updated twice."""
    table = run.tables.outputs
    for k in range(block.sizes[N_CENTRES] + block.sizes[N_NOISE]):
        _update_row(
            run, workspace, table, int64(block.candidates[k]), workspace.w_gradient, k, OF_ROWS, lr
        )


@kernel_part
def _update_row(run, workspace, table, row, gradient, r, side, lr):
    """One step of a row along -gradient[r], unless it is frozen; a proximal step has its side's
    highest rate.
    """
    optimizer, n = run.plan.optimizer, gradient.shape[1]
    if is_frozen(table, row):
        return
    if run.plan.is_proximal:
        descend_row_within(table, row, gradient, r, n, optimizer, lr, workspace.max_rate[side])
    else:
        descend_row(table, row, gradient, r, n, optimizer, lr)


# ---- examples for the objective


@kernel_part
def coefficients_of_block(coefficients, log_expected_count, run, workspace, block, lr):
    """Overwrite the scores of a block by coefficients. Return its loss."""
    plan, n = run.plan, block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    if plan.candidates != PATH and plan.uses_log_expected_count:
        log_expected_count(
            run.sampler_data, -1, plan.n_draws, 0, block.candidates, n, workspace.log_expected
        )
    if plan.candidates == PATH or plan.form != SINGLE:
        return _coefficients_by_example(coefficients, run, workspace, block, lr)
    loss = 0.0
    _fill_shared_noise(plan, workspace, block)
    for e in range(block.sizes[N_EXAMPLES]):
        loss += _coefficients_by_pair(coefficients, run, workspace, block, e, lr)
    return loss


@kernel_part
def _coefficients_by_example(coefficients, run, workspace, block, lr):
    """Overwrite all scores by coefficients, one row of the batch for each example.
    Return the loss.
    """
    plan, n_examples, n_centres = run.plan, block.sizes[N_EXAMPLES], block.sizes[N_CENTRES]
    n_candidates = n_centres + block.sizes[N_NOISE]
    n = round_up_to_padding(n_candidates)
    own = workspace.batch
    for e in range(n_examples):
        if plan.candidates == PATH:
            for k in range(0, n, SIMD_WIDTH):
                store(own.sample_count, e, k, load(block.bit_zero_count, e, k))
        else:
            weight = draw_weight(plan.form, block.n_pairs[e])
            for k in range(0, n, SIMD_WIDTH):
                store(
                    own.sample_count,
                    e,
                    k,
                    multiply_add(splat(weight), load(block.drawn, 0, k), zeros()),
                )
            if plan.uses_log_expected_count:
                for k in range(n):
                    own.log_expected_count[e, k] = workspace.log_expected[k]
            if plan.candidates == ALL:
                for k in range(n_centres):
                    if block.label[e, k] > 0:
                        set_positive(
                            own, e, k, block.label[e, k], weight, plan.keeps_accidental_hits
                        )
            elif plan.form == JOINT:
                for k in range(n_centres):
                    own.sample_count[e, k] = ZERO if block.label[e, k] > 0 else ONE
                    own.log_expected_count[e, k] = 0
        if plan.uses_score_gain:
            for k in range(n):
                own.score_gain[e, k] = _score_gain(workspace, e, k)
        _describe_example(run, workspace, block, e, own, e, min(block.n_pairs[e], 1))
    batch = Batch(
        own.z,
        block.label,
        own.sample_count,
        own.log_expected_count,
        own.uniforms,
        own.key,
        own.n_updates,
        own.score_gain,
    )
    return coefficients(
        batch, run.tables.state, run.constants, n_examples, n, lr * plan.optimizer.state_rate
    )


@kernel_part
def _noise_of(plan, block):
    """The first candidate of a block that is noise, and how many are: all rows, or those that
    follow the centres.
    """
    if plan.candidates == ALL:
        return int64(0), int64(plan.n_rows)
    return block.sizes[N_CENTRES], block.sizes[N_NOISE]


@kernel_part
def _fill_shared_noise(plan, workspace, block):
    """Fill what the rows of all pairs have in common: the noise in columns 1 on, and which of these
    equals each centre.
    """
    first, n_noise = _noise_of(plan, block)
    sample_count, log_expected_count = (
        workspace.pairs.sample_count,
        workspace.pairs.log_expected_count,
    )
    width = sample_count.shape[1]
    clear(sample_count, 0, width)
    for k in range(0, n_noise, SIMD_WIDTH):
        store(sample_count, 0, 1 + k, load(block.drawn, 0, first + k))
    for k in range(n_noise):
        log_expected_count[0, 1 + k] = workspace.log_expected[first + k]
    for p in range(1, sample_count.shape[0]):
        for k in range(0, width, SIMD_WIDTH):
            store(sample_count, p, k, load(sample_count, 0, k))
            store(log_expected_count, p, k, load(log_expected_count, 0, k))
    for i in range(block.sizes[N_CENTRES]):
        column = 1 + i if plan.candidates == ALL else -1
        for k in range(n_noise if plan.candidates != ALL else 0):
            column = max(
                column, 1 + k if block.candidates[first + k] == block.candidates[i] else -1
            )
        workspace.noise_column[i] = column


@kernel_part
def _coefficients_by_pair(coefficients, run, workspace, block, e, lr):
    """Overwrite the scores of example e by the sum of its pairs' coefficients, a row of `pairs` for
    each. Return the loss.

    Noise is copied by whole vectors: columns behind the last candidate hold anything.
    """
    plan, pairs, n_centres, (first, n_noise) = (
        run.plan,
        workspace.pairs,
        block.sizes[N_CENTRES],
        _noise_of(run.plan, block),
    )
    scores_of_block, z, sample_count, centre = (
        workspace.batch.z,
        pairs.z,
        pairs.sample_count,
        workspace.centre,
    )
    n_pairs = 0
    for i in range(n_centres):
        centre[n_pairs] = i
        n_pairs += block.label[e, i] > 0
    for p in range(n_pairs):
        for k in range(0, n_noise, SIMD_WIDTH):
            store(z, p, 1 + k, load(scores_of_block, e, first + k))
        i = centre[p]
        z[p, 0] = scores_of_block[e, i]
        # an accidental hit, which does not stand as noise beside the positive
        hit = workspace.noise_column[i]
        n_drawn = sample_count[p, hit] if hit > 0 else ZERO
        set_positive(pairs, p, 0, block.label[e, i], n_drawn, plan.keeps_accidental_hits)
        pairs.log_expected_count[p, 0] = workspace.log_expected[i]
        if hit > 0:
            sample_count[p, hit] = 0
        if plan.uses_score_gain:
            pairs.score_gain[p, 0] = _score_gain(workspace, e, i)
            for k in range(n_noise):
                pairs.score_gain[p, 1 + k] = _score_gain(workspace, e, first + k)
        _describe_example(run, workspace, block, e, pairs, p, 1)
    n, state_lr = round_up_to_padding(1 + n_noise), lr * plan.optimizer.state_rate
    loss = coefficients(pairs, run.tables.state, run.constants, n_pairs, n, state_lr)
    clear(scores_of_block, e, n_centres)
    for k in range(0, n_noise, SIMD_WIDTH):
        total = zeros()
        for p in range(n_pairs):
            total = total + load(z, p, 1 + k)
        store(scores_of_block, e, first + k, total)
    for p in range(n_pairs):
        scores_of_block[e, centre[p]] += z[p, 0]
        hit = workspace.noise_column[centre[p]]
        if hit > 0:
            sample_count[p, hit] = block.drawn[0, first + hit - 1]
    return loss


@kernel_part
def _describe_example(run, workspace, block, e, batch, p, n):
    """Set key, n_updates and uniforms of row p of the batch, of example e; add n to the count of
    updates.
    """
    tables, key = run.tables, int64(block.key[e])
    batch.key[p] = key
    for d in range(batch.uniforms.shape[1]):
        batch.uniforms[p, d] = open_uniform(workspace.rng_state[0], workspace.rng_state[1])
        workspace.rng_state[1] += uint64(1)
    if tables.state.shape[1] > 0:
        batch.n_updates[p] = tables.n_updates[key]
        tables.n_updates[key] += n


# ---- score gains


@kernel_part
def _squared_norm(rows, r):
    """|rows[r]|²."""
    total = zeros()
    for d in range(0, rows.shape[1], SIMD_WIDTH):
        x = load(rows, r, d)
        total = multiply_add(x, x, total)
    return sum_of(total)


@kernel_part
def measure_block(run, workspace, block, n, lr):
    """Write the highest rates of the rows of a block of n candidates, and what its score gains are
    made of.

        max_rate[OF_ROWS]   = longest_step / Σ_e |h_e|²                             over the
            examples with pairs
        max_rate[OF_INPUTS] = longest_step / min(Σ_k |w_k|², 4 max pairs max_k |w_k|²)

    At the first, a step of a row moves no score by more than `longest_step` where all coefficients
    are 1. At the second, a step of h moves the difference of two scores by no more: the
    coefficients of a pair have an absolute sum of at most 2, and |w_a - w_b| is at most 2 max_k
    |w_k|. No h moves along the biases. The rate of an adaptive optimizer is that of its last step;
    what it sees next can only lower it.
    """
    plan, tables, n_x, n_h = run.plan, run.tables, block.sizes[N_INPUTS], block.sizes[N_EXAMPLES]
    per_lr = ONE / max(lr * plan.optimizer.state_rate, LEAST)
    row_square, h_square, max_rate = workspace.row_square, workspace.h_square, workspace.max_rate
    of_rows, longest, of_examples, max_pairs = ZERO, ZERO, ZERO, ZERO
    for k in range(n):
        own = workspace.w[k, plan.bias] if plan.bias >= 0 else ZERO
        row_square[k] = _squared_norm(workspace.w, k) - own * own
        of_rows += row_square[k]
        longest = max(longest, row_square[k])
    for e in range(n_h):
        h_square[e] = _squared_norm(workspace.h, e)
        of_examples += min(block.n_pairs[e], 1) * h_square[e]
    for j in range(n_x):
        max_pairs = max(max_pairs, float32(block.n_uses[j]))
    of_rows = min(of_rows, float32(4) * max_pairs * longest)
    max_rate[OF_ROWS] = workspace.longest_step[0] / max(of_examples, LEAST)
    max_rate[OF_INPUTS] = workspace.longest_step[0] / max(of_rows, LEAST)
    for k in range(n):
        divisor = row_divisor(tables.outputs, int64(block.candidates[k]), plan.optimizer)
        workspace.row_step[k] = min(lr / divisor, max_rate[OF_ROWS]) * per_lr
    for j in range(n_x):
        workspace.x_step[j] = (
            _input_rate(run, int64(block.inputs[j]), max_rate[OF_INPUTS], lr) * per_lr
        )
    fetch_rates(plan.encoder, block, n_x, n_h, workspace.x_step, workspace.h_step)


@kernel_part
def _input_rate(run, word, max_rate, lr):
    """The rate of the step of a word; of several rows the mean, for their mean moves by that."""
    tables, n = run.tables, n_parts(run.tables.parts, word)
    rate = min(
        lr / row_divisor(tables.inputs, part(tables.parts, word, 0), run.plan.optimizer), max_rate
    )
    if n == 1:
        return rate
    for p in range(1, n):
        rate += min(
            lr / row_divisor(tables.inputs, part(tables.parts, word, p), run.plan.optimizer),
            max_rate,
        )
    return rate / float32(n)


@kernel_part
def _score_gain(workspace, e, k):
    """How far the score of example e and candidate k alone would move per unit of its coefficient
    and of the learning rate that `coefficients` gets.
    """
    return (
        workspace.h_square[e] * workspace.row_step[k]
        + workspace.row_square[k] * workspace.h_step[e]
    )

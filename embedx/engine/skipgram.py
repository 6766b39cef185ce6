"""The training kernel of word vectors: blocks of text in, updated vectors out.

A block (see `blocks`) passes through five stages, of which `train_block` is the last four:

    select        plan_block: the inputs, examples and candidates of the block
    encode        fetch_examples: h, a row for each example
    score         Z = H Wᵀ, W the rows of the candidates
    coefficients  coefficients_of_block: the objective overwrites Z by C = ∂loss/∂Z
    apply         ∂loss/∂H = C W and ∂loss/∂W = Cᵀ H, then one step of the optimizer for each row

The rows of a block are copied side by side, so that each product is one small matrix product; both
gradients use the values before the update. The next block is planned while one is trained, so that
its rows are prefetched.
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
    RETRIEVED,
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

# Counter of the random number that is the key of `uniforms`; no draw has as large a counter.
UNIFORMS = uint64(2**63)

# Nats by which one row's step may move the scores of a block at the start of a run. The bound falls
# with the learning rate.
LONGEST_STEP = float32(10)
# Fraction of LONGEST_STEP that the product of the steps of an input and an output row may add to
# their score. The length of a proximal step is at most the root of it
# (docs/derivations.md#steps-in-both-factors).
SECOND_ORDER = float32(0.025)
# Norm to which a row's gradient is clipped (Pascanu, Mikolov & Bengio 2013) where its rate does not
# adapt: with plain SGD, and at the limit of bounded-adagrad. A row's gradient in a block is the sum
# over its pairs: unclipped, words that are repeated in a list overshoot further in each block
# (measured: docs/constants.md).
MAX_GRADIENT = 16.0
# Places in `SkipGramWorkspace.max_rate`.
OUTPUT_ROWS = 0
INPUT_ROWS = 1
# Replaces 0 in a denominator.
TINY = float32(1e-30)


@by_address
class SkipGramTables(NamedTuple):
    """The parameters, shared by all threads (Hogwild): reads and writes are not atomic, so
    concurrent updates may be lost.
    """

    # A row for each word, then one for each bucket of n-grams; 1 in the column of the biases.
    inputs: Table
    outputs: Table
    state: ndarray  # float32 (n_words, state_width)
    n_updates: ndarray  # int64 (n_words,); (1,) if the objective keeps no state
    parts: Parts = NO_PARTS  # the rows of `inputs` whose mean is a word's vector


def input_vectors(tables: SkipGramTables) -> ndarray:
    """The vectors of all words, float32 (n_words, stride): rows of the inputs, or means of rows."""
    if len(tables.parts.offsets):
        return word_vectors(tables.inputs.rows, tables.parts)
    return tables.inputs.rows


@by_address
class SharedInputs(NamedTuple):
    """Shared by all chunks of a run: parameters, text, sampler and plan."""

    tables: SkipGramTables
    stream: TokenStream
    sampler_data: SamplerData
    constants: ndarray  # float32: the objective's
    plan: BlockPlan


class Chunk(NamedTuple):
    """The centres tokens[start:stop], with their learning rate and keys of random numbers. Words
    just outside are contexts only.
    """

    start: int
    stop: int
    lr: float32
    # Key for subsampling and window widths, which depend on it and the position in the corpus.
    key: uint64
    noise_key: uint64  # key for the draws of the sampler


@by_address
class SkipGramWorkspace(NamedTuple):
    """A worker's buffers."""

    words: KeptWords
    cursor: ndarray  # int64 (5,): the position of planning in a chunk, see `blocks`
    block: Block
    next_block: Block
    sampling: SampleWorkspace
    # int64 (FILTER_SIZE,): by row modulo FILTER_SIZE, the last draw of such a row; a cheap test
    # whether a row is new
    seen: ndarray
    x: ndarray  # float32 (max inputs, stride): vectors of the inputs
    x_gradient: ndarray  # like x
    h: ndarray  # float32 (max examples, stride): vectors of the examples; in skip-gram x
    h_gradient: ndarray  # like h; in skip-gram x_gradient
    w: ndarray  # float32 (max candidates, stride)
    w_gradient: ndarray  # like w
    # (max examples, max candidates): a row for each example, with the labels of `Block.label`
    batch: Batch
    # (max positives of an example, 1 + noise): a row for each distinct positive of one example
    pairs: Batch
    centre: ndarray  # int64 (1 + max positives of an example,): the candidate of each positive
    log_expected: ndarray  # float32 (max candidates,): log expected counts of a block's candidates
    # int64 (max candidates,): the column in `pairs` of a centre that is also noise, else -1
    noise_column: ndarray
    rng_state: ndarray  # uint64 (2,): key and counter of the stream of `uniforms`
    # float32 (max candidates,): learning rate of each candidate / the one given to `coefficients`
    row_step: ndarray
    row_square: ndarray  # float32 (max candidates,): |w_k|² without the bias
    x_step: ndarray  # float32 (max inputs,): as row_step, of each input
    h_step: ndarray  # float32 (max examples,): as row_step, of each example; in skip-gram x_step
    h_square: ndarray  # float32 (max examples,): |h_e|²
    # float32 (2,): highest learning rates of a proximal step, OUTPUT_ROWS and INPUT_ROWS
    max_rate: ndarray
    longest_step: ndarray  # float32 (1,): nats; see LONGEST_STEP
    tokens: ndarray  # int32: the tokens of a chunk, where they are generated (walks)


def new_workspace(
    plan: BlockPlan,
    n_tokens: int,
    columns: int,
    longest_path: int,
    uniforms_width: int,
    n_made: int = 0,
) -> SkipGramWorkspace:
    """Buffers for a worker that trains chunks of up to `n_tokens` tokens on rows of `columns`;
    it generates up to `n_made` tokens of a chunk itself (walks).
    """
    n_inputs = max_inputs(plan)
    n_examples = max_examples(plan)
    n_candidates = max_candidates(plan, longest_path)
    n_pairs = min(max(plan.block_size, 1), 2 * plan.window + 1)
    n_noise = plan.n_rows if plan.candidates == ALL else plan.n_draws
    is_skipgram = plan.encoder == SKIPGRAM

    def vector(n: int) -> ndarray:
        return np.zeros(n, float32)

    x = aligned_zeros(n_inputs, columns)
    x_gradient = aligned_zeros(n_inputs, columns)
    x_step = vector(n_inputs)
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
    """`train_chunk` with candidates that `retrieval`, a `Retrieval`, finds.

    `finding` is the worker's `RetrievalWorkspace`.
    """
    return _train_blocks(
        coefficients, sample, log_expected_count, run, workspace, chunk, retrieval, finding
    )


@kernel_part
def _train_blocks(
    coefficients, sample, log_expected_count, run, workspace, chunk, retrieval, finding
):
    """Train the blocks of a chunk; while one is trained, the next one is prefetched."""
    n_seen = start_chunk(run, workspace, chunk)
    loss = 0.0
    n_pairs = 0
    block = workspace.block
    next_block = workspace.next_block
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
    """Write the kept words of a chunk, reset the cursor and the random streams; return the number
    of corpus words seen.
    """
    cursor = workspace.cursor
    cursor[CENTRE], cursor[END], cursor[N_WORDS], n_seen = keep_words(
        run.stream, run.plan.window, chunk.start, chunk.stop, chunk.key, workspace.words
    )
    cursor[CONTEXT] = 0
    cursor[N_DRAWN] = 0
    workspace.seen[:] = -1
    workspace.rng_state[0] = bits(chunk.noise_key, UNIFORMS)
    workspace.rng_state[1] = uint64(0)
    return n_seen


@kernel_part
def prefetch_block(tables, block):
    """Prefetch the rows of a planned block and their optimizer state."""
    inputs = tables.inputs
    outputs = tables.outputs
    for j in range(block.sizes[N_INPUTS]):
        word = int64(block.inputs[j])
        prefetch_word(inputs.rows, tables.parts, word)
        if inputs.state.shape[0] > 0:
            prefetch_word(inputs.state, tables.parts, word)
    for k in range(block.sizes[N_CENTRES] + block.sizes[N_NOISE]):
        row = int64(block.candidates[k])
        _prefetch_row(outputs.rows, row)
        if outputs.state.shape[0] > 0:
            _prefetch_row(outputs.state, row)


@kernel_part
def _prefetch_row(matrix, row):
    """Prefetch a row of a matrix."""
    for d in range(0, matrix.shape[1], SIMD_WIDTH):
        prefetch(matrix, row, d)


@kernel_part
def train_block(coefficients, log_expected_count, run, workspace, block, lr):
    """Train on one planned block; return its summed loss."""
    n_candidates = block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    fetch_examples(run, workspace, block)
    score_block(run, workspace, block, n_candidates)
    if run.plan.uses_score_gain:
        measure_block(run, workspace, block, n_candidates, lr)
    loss = coefficients_of_block(coefficients, log_expected_count, run, workspace, block, lr)
    apply_block(run, workspace, block, n_candidates, lr)
    return loss


@kernel_part
def score_block(run, workspace, block, n_candidates):
    """Overwrite batch.z by the scores of a block, and workspace.w by the rows of its candidates."""
    n_examples = block.sizes[N_EXAMPLES]
    n_rows = round_up_to_tile(n_candidates)
    gather(run.tables.outputs.rows, block.candidates, n_candidates, n_rows, workspace.w)
    if block.spans.shape[0] > 0:
        for e in range(n_examples):
            clear(workspace.batch.z, e, block.sizes[N_CENTRES])
    scores(
        workspace.h,
        round_up_to_tile(n_examples),
        workspace.w,
        n_rows,
        workspace.batch.z,
        block.spans,
    )


@kernel_part
def apply_block(run, workspace, block, n_candidates, lr):
    """Compute both gradients of a block from its coefficients, then update its rows."""
    n_examples = block.sizes[N_EXAMPLES]
    coefficients = workspace.batch.z
    weighted_sums(
        coefficients,
        round_up_to_tile(n_examples),
        workspace.w,
        n_candidates,
        workspace.h_gradient,
        block.spans,
    )
    weighted_sums_transposed(
        coefficients,
        round_up_to_tile(n_candidates),
        workspace.h,
        n_examples,
        workspace.w_gradient,
        block.candidate_spans,
    )
    update_inputs(run, workspace, block, lr)
    update_candidates(run, workspace, block, lr)


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
    """Overwrite workspace.x and workspace.h by the vectors of a block's inputs and examples, in
    whole tiles.
    """
    plan = run.plan
    tables = run.tables
    n_inputs = block.sizes[N_INPUTS]
    for j in range(n_inputs):
        word = int64(block.inputs[j])
        fetch_word(tables.inputs.rows, tables.parts, word, workspace.x, j, plan.bias)
    for j in range(n_inputs, round_up_to_tile(n_inputs)):
        clear(workspace.x, j, workspace.x.shape[1])
    n_examples = block.sizes[N_EXAMPLES]
    fetch(plan.encoder, block, n_inputs, n_examples, workspace.x, workspace.h, plan.bias)


@kernel_part
def update_inputs(run, workspace, block, lr):
    """Update the rows of inputs with pairs, except for the constant column of the biases."""
    plan = run.plan
    tables = run.tables
    gradient = workspace.x_gradient
    n_inputs = block.sizes[N_INPUTS]
    n_examples = block.sizes[N_EXAMPLES]
    backward(plan.encoder, block, n_inputs, n_examples, workspace.h_gradient, gradient)
    for j in range(n_inputs):
        if block.n_uses[j] == 0:
            continue
        if plan.bias >= 0:
            gradient[j, plan.bias] = 0
        word = int64(block.inputs[j])
        for p in range(n_parts(tables.parts, word)):
            row = part(tables.parts, word, p)
            _update_row(run, workspace, tables.inputs, row, gradient, j, INPUT_ROWS, lr)


@kernel_part
def update_candidates(run, workspace, block, lr):
    """Update the rows of the candidates, in order; a row that is there twice is updated twice."""
    table = run.tables.outputs
    gradient = workspace.w_gradient
    for k in range(block.sizes[N_CENTRES] + block.sizes[N_NOISE]):
        row = int64(block.candidates[k])
        _update_row(run, workspace, table, row, gradient, k, OUTPUT_ROWS, lr)


@kernel_part
def _update_row(run, workspace, table, row, gradient, r, side, lr):
    """Update a row along -gradient[r], unless it is frozen. A proximal step is bounded in its rate
    (`max_rate` of its side) and in its length.
    """
    if is_frozen(table, row):
        return
    optimizer = run.plan.optimizer
    width = gradient.shape[1]
    if run.plan.is_proximal:
        max_rate = workspace.max_rate[side]
        max_length = np.sqrt(SECOND_ORDER * workspace.longest_step[0])
        descend_row_within(table, row, gradient, r, width, optimizer, lr, max_rate, max_length)
    else:
        descend_row(table, row, gradient, r, width, optimizer, lr)


# ---- examples for the objective


@kernel_part
def coefficients_of_block(coefficients, log_expected_count, run, workspace, block, lr):
    """Overwrite the scores of a block by coefficients; return its loss."""
    plan = run.plan
    n = block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    if plan.candidates != PATH and plan.uses_log_expected_count:
        log_expected_count(
            run.sampler_data, -1, plan.n_draws, 0, block.candidates, n, workspace.log_expected
        )
        if plan.candidates == RETRIEVED:
            workspace.log_expected[: block.sizes[N_CENTRES]] = 0
    if plan.candidates == PATH or plan.form != SINGLE:
        return _coefficients_by_example(coefficients, run, workspace, block, lr)
    loss = 0.0
    _fill_shared_noise(plan, workspace, block)
    for e in range(block.sizes[N_EXAMPLES]):
        loss += _coefficients_by_pair(coefficients, run, workspace, block, e, lr)
    return loss


@kernel_part
def _coefficients_by_example(coefficients, run, workspace, block, lr):
    """Overwrite all scores by coefficients, one row of the batch per example; return the loss."""
    plan = run.plan
    n_examples = block.sizes[N_EXAMPLES]
    n = round_up_to_padding(block.sizes[N_CENTRES] + block.sizes[N_NOISE])
    batch = Batch(
        workspace.batch.z,
        block.label,
        workspace.batch.sample_count,
        workspace.batch.log_expected_count,
        workspace.batch.uniforms,
        workspace.batch.key,
        workspace.batch.n_updates,
        workspace.batch.score_gain,
    )
    for e in range(n_examples):
        if plan.candidates == PATH:
            for k in range(0, n, SIMD_WIDTH):
                store(batch.sample_count, e, k, load(block.bit_zero_count, e, k))
        else:
            _count_samples(plan, workspace, block, e, batch, n)
        if plan.uses_score_gain:
            for k in range(n):
                batch.score_gain[e, k] = _score_gain(workspace, e, k)
        _describe_example(run, workspace, block, e, batch, e, min(block.n_pairs[e], 1))
    state_lr = lr * plan.optimizer.state_rate
    return coefficients(batch, run.tables.state, run.constants, n_examples, n, state_lr)


@kernel_part
def _count_samples(plan, workspace, block, e, batch, n):
    """Write sample_count and log_expected_count of example e, which is row e of the batch."""
    n_centres = block.sizes[N_CENTRES]
    weight = draw_weight(plan.form, block.n_pairs[e])
    for k in range(0, n, SIMD_WIDTH):
        counts = multiply_add(splat(weight), load(block.drawn, 0, k), zeros())
        store(batch.sample_count, e, k, counts)
    if plan.uses_log_expected_count:
        for k in range(n):
            batch.log_expected_count[e, k] = workspace.log_expected[k]
    if plan.candidates == ALL:
        for k in range(n_centres):
            label = block.label[e, k]
            if label > 0:
                set_positive(batch, e, k, label, weight, plan.keeps_accidental_hits)
    elif plan.form == JOINT:
        for k in range(n_centres):
            batch.sample_count[e, k] = ZERO if block.label[e, k] > 0 else ONE
            batch.log_expected_count[e, k] = 0


@kernel_part
def _noise_range(plan, block):
    """(first, number) of the noise candidates of a block: all rows; with a search all candidates;
    else those behind the centres.
    """
    if plan.candidates == ALL:
        return int64(0), int64(plan.n_rows)
    if plan.candidates == RETRIEVED:
        return int64(0), block.sizes[N_CENTRES] + block.sizes[N_NOISE]
    return block.sizes[N_CENTRES], block.sizes[N_NOISE]


@kernel_part
def _fill_shared_noise(plan, workspace, block):
    """Write the part that the rows of all pairs share: the noise, from column 1 on, and
    `noise_column`.
    """
    first_noise, n_noise = _noise_range(plan, block)
    sample_count = workspace.pairs.sample_count
    log_expected_count = workspace.pairs.log_expected_count
    width = sample_count.shape[1]
    clear(sample_count, 0, width)
    for k in range(0, n_noise, SIMD_WIDTH):
        store(sample_count, 0, 1 + k, load(block.drawn, 0, first_noise + k))
    for k in range(n_noise):
        log_expected_count[0, 1 + k] = workspace.log_expected[first_noise + k]
    for p in range(1, sample_count.shape[0]):
        for k in range(0, width, SIMD_WIDTH):
            store(sample_count, p, k, load(sample_count, 0, k))
            store(log_expected_count, p, k, load(log_expected_count, 0, k))
    has_centres = first_noise < block.sizes[N_CENTRES]
    for i in range(block.sizes[N_CENTRES]):
        workspace.noise_column[i] = 1 + i if has_centres else -1
        if not has_centres:
            for k in range(n_noise):
                if block.candidates[first_noise + k] == block.candidates[i]:
                    workspace.noise_column[i] = 1 + k


@kernel_part
def _coefficients_by_pair(coefficients, run, workspace, block, e, lr):
    """Overwrite the scores of example e by the sum of the coefficients of its pairs, which have a
    row of `pairs` each; return the loss.

    Noise is copied in whole vectors: columns beyond the last candidate have arbitrary values.
    """
    plan = run.plan
    pairs = workspace.pairs
    z = pairs.z
    sample_count = pairs.sample_count
    block_z = workspace.batch.z
    centre = workspace.centre
    n_centres = block.sizes[N_CENTRES]
    first_noise, n_noise = _noise_range(plan, block)
    n_pairs = 0
    for i in range(n_centres):
        centre[n_pairs] = i
        n_pairs += block.label[e, i] > 0
    for p in range(n_pairs):
        for k in range(0, n_noise, SIMD_WIDTH):
            store(z, p, 1 + k, load(block_z, e, first_noise + k))
        i = centre[p]
        z[p, 0] = block_z[e, i]
        # An accidental hit: the positive is not noise of its own pair.
        hit = workspace.noise_column[i]
        n_drawn = sample_count[p, hit] if hit > 0 else ZERO
        set_positive(pairs, p, 0, block.label[e, i], n_drawn, plan.keeps_accidental_hits)
        pairs.log_expected_count[p, 0] = workspace.log_expected[i]
        if hit > 0:
            sample_count[p, hit] = 0
        if plan.uses_score_gain:
            pairs.score_gain[p, 0] = _score_gain(workspace, e, i)
            for k in range(n_noise):
                pairs.score_gain[p, 1 + k] = _score_gain(workspace, e, first_noise + k)
        _describe_example(run, workspace, block, e, pairs, p, 1)
    n = round_up_to_padding(1 + n_noise)
    state_lr = lr * plan.optimizer.state_rate
    loss = coefficients(pairs, run.tables.state, run.constants, n_pairs, n, state_lr)
    clear(block_z, e, n_centres)
    for k in range(0, n_noise, SIMD_WIDTH):
        total = zeros()
        for p in range(n_pairs):
            total = total + load(z, p, 1 + k)
        store(block_z, e, first_noise + k, total)
    for p in range(n_pairs):
        block_z[e, centre[p]] += z[p, 0]
        hit = workspace.noise_column[centre[p]]
        if hit > 0:
            sample_count[p, hit] = block.drawn[0, first_noise + hit - 1]
    return loss


@kernel_part
def _describe_example(run, workspace, block, e, batch, p, n_updates):
    """Write key, n_updates and uniforms of row p of the batch, for example e; count the updates of
    its state.
    """
    tables = run.tables
    key = int64(block.key[e])
    batch.key[p] = key
    for d in range(batch.uniforms.shape[1]):
        batch.uniforms[p, d] = open_uniform(workspace.rng_state[0], workspace.rng_state[1])
        workspace.rng_state[1] += uint64(1)
    if tables.state.shape[1] > 0:
        batch.n_updates[p] = tables.n_updates[key]
        tables.n_updates[key] += n_updates


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
    """Write the maximum rates of the rows of a block of n candidates, and the parts of its score
    gains.

        max_rate[OUTPUT_ROWS] = longest_step / Σ_e |h_e|²,  e over the examples with pairs
        max_rate[INPUT_ROWS]  = longest_step / min(Σ_k |w_k|², 4 max pairs max_k |w_k|²)

    With the first bound, a row's step moves no score by more than `longest_step` if all
    coefficients are 1. With the second, a step of h moves no difference of two scores by more: the
    coefficients of a pair have an absolute sum of at most 2, and |w_a - w_b| is at most 2 max_k
    |w_k|. h does not move along the biases. For an adaptive optimizer, the rate of its last step is
    used: later gradients can only lower it.
    """
    plan = run.plan
    max_rate = workspace.max_rate
    n_inputs = block.sizes[N_INPUTS]
    n_examples = block.sizes[N_EXAMPLES]
    max_rate[OUTPUT_ROWS] = _max_rate_of_outputs(workspace, block, n_examples)
    max_rate[INPUT_ROWS] = _max_rate_of_inputs(plan, workspace, block, n, n_inputs)
    per_lr = ONE / max(lr * plan.optimizer.state_rate, TINY)
    for k in range(n):
        divisor = row_divisor(run.tables.outputs, int64(block.candidates[k]), plan.optimizer)
        workspace.row_step[k] = min(lr / divisor, max_rate[OUTPUT_ROWS]) * per_lr
    for j in range(n_inputs):
        rate = _input_rate(run, int64(block.inputs[j]), max_rate[INPUT_ROWS], lr)
        workspace.x_step[j] = rate * per_lr
    fetch_rates(plan.encoder, block, n_inputs, n_examples, workspace.x_step, workspace.h_step)


@kernel_part
def _max_rate_of_outputs(workspace, block, n_examples):
    """The maximum rate of the output rows of a block; writes h_square."""
    sum_of_squares = ZERO
    for e in range(n_examples):
        workspace.h_square[e] = _squared_norm(workspace.h, e)
        sum_of_squares += min(block.n_pairs[e], 1) * workspace.h_square[e]
    return workspace.longest_step[0] / max(sum_of_squares, TINY)


@kernel_part
def _max_rate_of_inputs(plan, workspace, block, n_candidates, n_inputs):
    """The maximum rate of the inputs of a block; writes row_square."""
    sum_of_squares = ZERO
    largest_square = ZERO
    max_pairs = ZERO
    for k in range(n_candidates):
        bias = workspace.w[k, plan.bias] if plan.bias >= 0 else ZERO
        square = _squared_norm(workspace.w, k) - bias * bias
        workspace.row_square[k] = square
        sum_of_squares += square
        largest_square = max(largest_square, square)
    for j in range(n_inputs):
        max_pairs = max(max_pairs, float32(block.n_uses[j]))
    bound = min(sum_of_squares, float32(4) * max_pairs * largest_square)
    return workspace.longest_step[0] / max(bound, TINY)


@kernel_part
def _input_rate(run, word, max_rate, lr):
    """The rate of a word's step: the mean over its rows, because its vector is their mean."""
    tables = run.tables
    n = n_parts(tables.parts, word)
    divisor = row_divisor(tables.inputs, part(tables.parts, word, 0), run.plan.optimizer)
    rate = min(lr / divisor, max_rate)
    if n == 1:
        return rate
    for p in range(1, n):
        divisor = row_divisor(tables.inputs, part(tables.parts, word, p), run.plan.optimizer)
        rate += min(lr / divisor, max_rate)
    return rate / float32(n)


@kernel_part
def _score_gain(workspace, e, k):
    """Change of the score of example e and candidate k per unit of its coefficient and of the
    learning rate given to `coefficients`, if only this pair were trained.
    """
    return (
        workspace.h_square[e] * workspace.row_step[k]
        + workspace.row_square[k] * workspace.h_step[e]
    )

"""The training kernel of word vectors: blocks of text in, updated vectors out.

A block passes through these stages; `train_block` is all but the first:

    select        plan_block (`blocks`): the inputs, examples and candidates of the block
    encode        fetch_examples: h, a row for each example
    score         score_block: Z = H Wᵀ, W the rows of the candidates
    measure       measure_block (`score_gains`), for proximal steps alone: how far a step of each
                  row moves its scores
    coefficients  coefficients_of_block (`skipgram_examples`): the objective overwrites Z by
                  C = ∂loss/∂Z
    apply         apply_block: ∂loss/∂H = C W and ∂loss/∂W = Cᵀ H, then one step of the optimizer
                  for each row

The rows of a block are copied side by side, so that each product is one small matrix product; both
gradients use the values before the update. The next block is planned while one is trained, so that
its rows are prefetched.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int64, ndarray, uint64

from embedx.engine.block_planning import (
    BLOCKS_SO_FAR,
    CENTRES_END,
    DRAWS_SO_FAR,
    N_SEEN,
    NEXT_CENTRE,
    NEXT_CONTEXT,
    WORDS_END,
    plan_block,
)
from embedx.engine.blocks import (
    ALL,
    CERTAIN,
    EXAMPLES,
    INPUTS,
    PAIRS,
    SCORE_PADDING,
    Block,
    BlockPlan,
    has_candidates,
    max_candidates,
    max_centres,
    max_examples,
    max_inputs,
    n_candidates_of,
    new_block,
)
from embedx.engine.encoders import SKIPGRAM, backward, fetch
from embedx.engine.score_gains import measure_block
from embedx.engine.skipgram_examples import coefficients_of_block
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
from embedx.kernels.random import bits
from embedx.kernels.simd import (
    SIMD_WIDTH,
    aligned_zeros,
    load,
    padded,
    prefetch,
    store,
)
from embedx.optimizers.contract import Table
from embedx.optimizers.descend import StepLimits, descend_row, descend_row_within, is_frozen
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


@by_address
class SkipGramTables(NamedTuple):
    """The parameters, shared by all threads (Hogwild): reads and writes are not atomic, so
    concurrent updates may be lost.
    """

    # A row for each word, then one for each bucket of n-grams; 1 in the column of the biases.
    inputs: Table
    outputs: Table
    objective_state: ndarray  # float32 (n_words, state_width)
    n_updates: ndarray  # int64 (n_words,); (1,) if the objective keeps no state
    parts: Parts = NO_PARTS  # the rows of `inputs` whose mean is a word's vector


def input_vectors(tables: SkipGramTables) -> ndarray:
    """The vectors of all words, float32 (n_words, stride): rows of the inputs, or means of rows."""
    if len(tables.parts.offsets):
        return word_vectors(tables.inputs.rows, tables.parts)
    return tables.inputs.rows


@by_address
class SkipGramShared(NamedTuple):
    """What all threads of a run share: parameters, text, the sampler's arrays and the plan."""

    tables: SkipGramTables
    stream: TokenStream
    sampler_data: SamplerData
    constants: ndarray  # float32: the objective's
    plan: BlockPlan


class Chunk(NamedTuple):
    """The centres tokens[start:stop], with their learning rate and two keys of random numbers.
    Words just outside are contexts only.
    """

    start: int
    stop: int
    lr: float32
    text_key: uint64  # of subsampling and window widths, which are numbered by corpus position
    noise_key: uint64  # of the draws of the sampler, which are numbered within the chunk


@by_address
class SkipGramWorkspace(NamedTuple):
    """A worker's buffers."""

    # ---- the text of a chunk
    words: KeptWords
    tokens: ndarray  # int32: the tokens of a chunk, where they are generated (walks)

    # ---- planning, see `blocks`
    cursor: ndarray  # int64 (6,): the position of planning in a chunk
    block: Block
    next_block: Block
    sampling: SampleWorkspace
    # int64 (N_SEEN,): by row modulo N_SEEN, the last block that had such a row; a cheap
    # test whether a row is new in a block
    seen: ndarray
    column: ndarray  # int64 (N_SEEN,): the place of that row among the candidates, with a tree

    # ---- vectors of a block and their gradients
    x: ndarray  # float32 (max inputs, stride): vectors of the inputs
    x_gradient: ndarray  # like x
    h: ndarray  # float32 (max examples, stride): vectors of the examples; in skip-gram x
    h_gradient: ndarray  # like h; in skip-gram x_gradient
    w: ndarray  # float32 (max candidates, stride)
    w_gradient: ndarray  # like w

    # ---- what the objective gets, see `skipgram_examples`
    # (max examples, max candidates): a row for each example, with the labels of `Block.label`
    batch: Batch
    # (max positives of an example, 1 + noise): a row for each distinct positive of one example
    pairs: Batch
    # int64 (1 + max positives of an example,): the candidates that are its positives
    positives: ndarray
    log_expected: ndarray  # float32 (max candidates,): log expected counts of a block's candidates
    # int64 (max candidates,): the column in `pairs` of a centre that is also noise, else -1
    noise_column: ndarray
    rng_state: ndarray  # uint64 (2,): key and counter of the stream of `uniforms`

    # ---- proximal steps, see `score_gains`
    # float32 (max candidates,): learning rate of each candidate / the one given to `coefficients`
    row_step: ndarray
    row_square: ndarray  # float32 (max candidates,): |w_k|² without the bias
    x_step: ndarray  # float32 (max inputs,): as row_step, of each input
    h_step: ndarray  # float32 (max examples,): as row_step, of each example; in skip-gram x_step
    h_square: ndarray  # float32 (max examples,): |h_e|²
    max_input_rate: ndarray  # float32 (1,): highest learning rate of a step of an input row
    max_output_rate: ndarray  # float32 (1,): the same, of an output row
    longest_step: ndarray  # float32 (1,): nats; see LONGEST_STEP


def new_workspace(
    plan: BlockPlan,
    n_tokens: int,
    columns: int,
    longest_path: int,
    uniforms_width: int,
    n_generated: int = 0,
) -> SkipGramWorkspace:
    """Buffers for a worker that trains chunks of up to `n_tokens` tokens on rows of `columns`;
    it generates up to `n_generated` tokens of a chunk itself (walks).
    """
    n_inputs = max_inputs(plan)
    n_examples = max_examples(plan)
    n_candidates = max_candidates(plan, longest_path)
    n_pairs = min(max_centres(plan), 2 * plan.window + 1)
    n_noise = plan.n_outputs if plan.selection == ALL else plan.n_draws
    is_skipgram = plan.encoder == SKIPGRAM

    def vector(n: int) -> ndarray:
        return np.zeros(n, float32)

    x = aligned_zeros(n_inputs, columns)
    x_gradient = aligned_zeros(n_inputs, columns)
    x_step = vector(n_inputs)
    return SkipGramWorkspace(
        words=new_words(plan.window, n_tokens),
        tokens=np.zeros(n_generated, np.int32),
        cursor=np.zeros(6, int64),
        block=new_block(plan, longest_path),
        next_block=new_block(plan, longest_path),
        sampling=new_sample_workspace(plan.n_draws, 0),
        seen=np.full(N_SEEN, -1, int64),
        column=np.zeros(N_SEEN, int64),
        x=x,
        x_gradient=x_gradient,
        h=x if is_skipgram else aligned_zeros(n_examples, columns),
        h_gradient=x_gradient if is_skipgram else aligned_zeros(n_examples, columns),
        w=aligned_zeros(n_candidates, columns),
        w_gradient=aligned_zeros(n_candidates, columns),
        batch=new_batch(n_examples, n_candidates, uniforms_width),
        pairs=new_batch(n_pairs, padded(n_noise + SIMD_WIDTH, SCORE_PADDING), uniforms_width),
        positives=np.zeros(n_pairs + 1, int64),
        log_expected=vector(n_candidates),
        noise_column=np.zeros(n_candidates, int64),
        rng_state=np.zeros(2, uint64),
        row_step=vector(n_candidates),
        row_square=vector(n_candidates),
        x_step=x_step,
        h_step=x_step if is_skipgram else vector(n_examples),
        h_square=vector(n_examples),
        max_input_rate=vector(1),
        max_output_rate=vector(1),
        longest_step=np.full(1, LONGEST_STEP, float32),
    )


@kernel
def train_chunk(coefficients, sample, log_expected_count, shared, workspace, chunk):
    """Train on a chunk; return the summed loss, the pairs and the corpus words seen."""
    return _train_blocks(
        coefficients, sample, log_expected_count, shared, workspace, chunk, None, None
    )


@kernel
def train_chunk_retrieved(
    coefficients, sample, log_expected_count, shared, retrieval, workspace, search_workspace, chunk
):
    """`train_chunk` with candidates that `retrieval`, a `Retrieval`, finds.

    `search_workspace` is the worker's `RetrievalWorkspace`.
    """
    return _train_blocks(
        coefficients,
        sample,
        log_expected_count,
        shared,
        workspace,
        chunk,
        retrieval,
        search_workspace,
    )


@kernel_part
def _train_blocks(
    coefficients, sample, log_expected_count, shared, workspace, chunk, retrieval, search_workspace
):
    """Train the blocks of a chunk; while one is trained, the next one is prefetched."""
    n_seen = start_chunk(shared, workspace, chunk)
    loss = 0.0
    n_pairs = 0
    block = workspace.block
    next_block = workspace.next_block
    # There is no block yet; the first one is planned.
    block.sizes[:] = 0
    has_more = True
    while has_more:
        plan_block(sample, shared, workspace, next_block, chunk.noise_key)
        if retrieval is not None and has_candidates(next_block):
            add_candidates(
                sample, shared, retrieval, workspace, search_workspace, next_block, chunk.noise_key
            )
        if shared.plan.selection != ALL:
            prefetch_block(shared.tables, next_block)
        if has_candidates(block):
            loss += train_block(
                coefficients, log_expected_count, shared, workspace, block, chunk.lr
            )
            n_pairs += block.sizes[PAIRS]
        block, next_block = next_block, block
        has_more = has_candidates(block)
    return loss, n_pairs, n_seen


@kernel_part
def start_chunk(shared, workspace, chunk):
    """Write the kept words of a chunk, reset the cursor and the random streams; return the number
    of corpus words seen.
    """
    cursor = workspace.cursor
    cursor[NEXT_CENTRE], cursor[CENTRES_END], cursor[WORDS_END], n_seen = keep_words(
        shared.stream, shared.plan.window, chunk.start, chunk.stop, chunk.text_key, workspace.words
    )
    cursor[NEXT_CONTEXT] = 0
    cursor[BLOCKS_SO_FAR] = 0
    cursor[DRAWS_SO_FAR] = 0
    workspace.seen[:] = -1
    workspace.rng_state[0] = bits(chunk.noise_key, UNIFORMS)
    workspace.rng_state[1] = uint64(0)
    return n_seen


@kernel_part
def prefetch_block(tables, block):
    """Prefetch the rows of a planned block and their optimizer state."""
    inputs = tables.inputs
    outputs = tables.outputs
    for j in range(block.sizes[INPUTS]):
        word = int64(block.inputs[j])
        prefetch_word(inputs.rows, tables.parts, word)
        if inputs.state.shape[0] > 0:
            prefetch_word(inputs.state, tables.parts, word)
    for k in range(n_candidates_of(block)):
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
def train_block(coefficients, log_expected_count, shared, workspace, block, lr):
    """Train on one planned block; return its summed loss."""
    n_candidates = n_candidates_of(block)
    fetch_examples(shared, workspace, block)
    score_block(shared, workspace, block, n_candidates)
    if shared.plan.uses_score_gain:
        measure_block(shared, workspace, block, n_candidates, lr)
    loss = coefficients_of_block(coefficients, log_expected_count, shared, workspace, block, lr)
    apply_block(shared, workspace, block, n_candidates, lr)
    return loss


@kernel_part
def score_block(shared, workspace, block, n_candidates):
    """Overwrite batch.z by the scores of a block, and workspace.w by the rows of its candidates."""
    n_examples = block.sizes[EXAMPLES]
    n_rows = round_up_to_tile(n_candidates)
    gather(shared.tables.outputs.rows, block.candidates, n_candidates, n_rows, workspace.w)
    if block.spans.shape[0] > 0:
        for e in range(n_examples):
            clear(workspace.batch.z, e, block.sizes[CERTAIN])
    scores(
        workspace.h,
        round_up_to_tile(n_examples),
        workspace.w,
        n_rows,
        workspace.batch.z,
        block.spans,
    )


@kernel_part
def apply_block(shared, workspace, block, n_candidates, lr):
    """Compute both gradients of a block from its coefficients, then update its rows."""
    n_examples = block.sizes[EXAMPLES]
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
    update_inputs(shared, workspace, block, lr)
    update_candidates(shared, workspace, block, lr)


@kernel_part
def gather(table, rows, n, n_padded, out):
    """Copy table[rows[:n]] to out[:n] and write zeros up to n_padded."""
    for r in range(n):
        for d in range(0, table.shape[1], SIMD_WIDTH):
            store(out, r, d, load(table, int64(rows[r]), d))
    for r in range(n, n_padded):
        clear(out, r, table.shape[1])


@kernel_part
def fetch_examples(shared, workspace, block):
    """Overwrite workspace.x and workspace.h by the vectors of a block's inputs and examples, in
    whole tiles.
    """
    plan = shared.plan
    tables = shared.tables
    n_inputs = block.sizes[INPUTS]
    for j in range(n_inputs):
        word = int64(block.inputs[j])
        fetch_word(tables.inputs.rows, tables.parts, word, workspace.x, j, plan.bias)
    for j in range(n_inputs, round_up_to_tile(n_inputs)):
        clear(workspace.x, j, workspace.x.shape[1])
    n_examples = block.sizes[EXAMPLES]
    fetch(plan.encoder, block, n_inputs, n_examples, workspace.x, workspace.h, plan.bias)


@kernel_part
def update_inputs(shared, workspace, block, lr):
    """Update the rows of inputs with pairs, except for the constant column of the biases."""
    plan = shared.plan
    tables = shared.tables
    gradient = workspace.x_gradient
    n_inputs = block.sizes[INPUTS]
    n_examples = block.sizes[EXAMPLES]
    max_rate = workspace.max_input_rate[0]
    backward(plan.encoder, block, n_inputs, n_examples, workspace.h_gradient, gradient)
    for j in range(n_inputs):
        if block.n_pairs_of_input[j] == 0:
            continue
        if plan.bias >= 0:
            gradient[j, plan.bias] = 0
        word = int64(block.inputs[j])
        for p in range(n_parts(tables.parts, word)):
            row = part(tables.parts, word, p)
            _update_row(shared, workspace, tables.inputs, row, gradient, j, max_rate, lr)


@kernel_part
def update_candidates(shared, workspace, block, lr):
    """Update the rows of the candidates, in order; a row that is there twice is updated twice."""
    table = shared.tables.outputs
    gradient = workspace.w_gradient
    max_rate = workspace.max_output_rate[0]
    for k in range(n_candidates_of(block)):
        row = int64(block.candidates[k])
        _update_row(shared, workspace, table, row, gradient, k, max_rate, lr)


@kernel_part
def _update_row(shared, workspace, table, row, gradient, r, max_rate, lr):
    """Update a row along -gradient[r], unless it is frozen. A proximal step is bounded in its rate
    and in its length.
    """
    if is_frozen(table, row):
        return
    optimizer = shared.plan.optimizer
    width = gradient.shape[1]
    if shared.plan.is_proximal:
        limits = StepLimits(max_rate, np.sqrt(SECOND_ORDER * workspace.longest_step[0]))
        descend_row_within(table, row, gradient, r, width, optimizer, lr, limits)
    else:
        descend_row(table, row, gradient, r, width, optimizer, lr)

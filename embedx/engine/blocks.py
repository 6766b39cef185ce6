"""Blocks of text: compiled code that turns a chunk of kept words into examples and candidates.

A block is `block_size` consecutive kept words (the centres), their contexts on both sides, and
noise words. As in word2vec.c, context words are the inputs, and a centre is what they predict:

    inputs      centres and contexts in text order, repeats included; their vectors are fetched
    examples    vectors h computed from the inputs (`encoders`): one for each input (skip-gram), or
                one for the contexts of each centre (CBOW)
    candidates  output rows: the distinct centres, then the distinct noise words; a noise word may
                equal a centre, unless the form is FORM_MERGED
    label[e, k] the number of pairs of example e whose positive is candidate k

With a tree the candidates are the distinct nodes on the paths to the centres; label[e, k] counts
the pairs whose bit at node k is 1, bit_zero_count[e, k] those whose bit is 0. If all rows are
candidates, candidate k is row k, drawn once. Retrieved rows are appended later
(`skipgram_retrieved`).

`BlockPlan.form` says how an objective gets the pairs of a block (`form_of` chooses it):

    form           rows of the batch                                     for objectives with
    FORM_SUMMED    one per example; noise counts once for each of its    `positives` "summed"
                   pairs
    FORM_MERGED    one per example; noise counts once, and the other     `merges_pairs`,
                   centres of the block are certain negatives. With a    `pairs_as_set`
                   tree, the bits of all its pairs
    FORM_PER_PAIR  one per distinct positive of an example, with noise   neither

With `block_size` = 0 noise is drawn for each skip-gram pair separately: a block is then one input
and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.engine.encoders import SKIPGRAM, start_examples, write_examples
from embedx.kernels import ONE, SIMD_WIDTH, TILE, by_address, clear, kernel_part, padded
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.text.subsampling import WHOLE_SENTENCE

# The unrolled vector width of LLVM's loops over scores: rows of whole paddings leave no scalar
# remainder.
SCORE_PADDING = 2 * SIMD_WIDTH
# Entries of the filter that tells whether a row may have been seen in this block.
FILTER_SIZE = 2048
N_INPUTS, N_EXAMPLES, N_CERTAIN, N_NOISE, N_PAIRS = range(5)  # places in `Block.sizes`
# Places in the cursor of a chunk: the end of its words; the next centre; the end of the centres;
# where each pair is a block, the next context of that centre; and the next draw, counted from the
# start of the chunk (with a tree, the next block).
WORDS_END, NEXT_CENTRE, CENTRES_END, NEXT_CONTEXT, NEXT_DRAW = range(5)
NOWHERE = 1 << 30  # beyond all columns
DRAWN, PATH, ALL, RETRIEVED = range(4)
CANDIDATES = {"drawn": DRAWN, "path": PATH, "all": ALL, "retrieved": RETRIEVED}
FORM_PER_PAIR, FORM_MERGED, FORM_SUMMED = range(3)  # of `BlockPlan.form`
# Arguments of a sampler (`samplers.contract`): draws depend on no input, and exclude no row.
NO_INPUT = -1
NONE_EXCLUDED = 0


@by_address
class BlockPlan(NamedTuple):
    """The settings of blocks, as plain numbers."""

    encoder: int  # place in `ENCODERS`
    window: int
    block_size: int
    n_draws: int
    n_rows: int  # output rows
    candidates: int  # DRAWN, PATH, ALL or RETRIEVED
    form: int  # FORM_PER_PAIR, FORM_MERGED or FORM_SUMMED
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    bias: int  # the column of the biases, where every input is 1; -1 without biases
    optimizer: UpdateRule
    # Steps are proximal: their rates are at most those of `SkipGramWorkspace`.
    is_proximal: bool


@by_address
class Block(NamedTuple):
    """The rows of one planned block.

    `sizes` are n_inputs, n_examples, n_certain, n_noise and n_pairs. Candidates are n_certain that
    are not drawn (the distinct centres, with a search also the rows found; with a tree the nodes;
    or all rows), then n_noise that are.
    """

    sizes: ndarray  # int64 (5,)
    inputs: ndarray  # int32 (max inputs,): words
    n_uses: ndarray  # int64 (max inputs,): the pairs that each input is part of
    # int32 (max examples,): the row of each example in the objective's state, which is a word
    state_row: ndarray
    n_pairs: ndarray  # int64 (max examples,): the pairs of each example
    label: ndarray  # float32 (max examples, max candidates)
    bit_zero_count: ndarray  # float32, like label where there is a tree
    candidates: ndarray  # int32 (max candidates,)
    # float32 (1, max candidates): how often each was drawn, 0 for centres; 1 where all rows are
    # candidates
    drawn: ndarray
    # int32 (2 window,): the examples of the current centre, while the block is planned
    centre_examples: ndarray
    # float32 (max examples, max inputs): 1 for the inputs that an example is the mean of; (0, 0) in
    # skip-gram
    is_context: ndarray
    share: ndarray  # float32 (max examples,): 1 / the number of these inputs
    # int64 (tiles, 3), see `gemm`: the range of candidates of each tile of examples, and of
    # examples of each tile of candidates. An example has few of the centres, side by side; the
    # noise is behind them.
    spans: ndarray
    candidate_spans: ndarray


@kernel_part
def round_up_to_padding(n):
    """n rounded up to a multiple of SCORE_PADDING."""
    return (n + SCORE_PADDING - 1) // SCORE_PADDING * SCORE_PADDING


def form_of(objective: Objective) -> int:
    """How the objective gets the pairs of a block."""
    if objective.positives == "summed":
        return FORM_SUMMED
    if objective.traits.merges_pairs or objective.traits.pairs_as_set:
        return FORM_MERGED
    return FORM_PER_PAIR


def max_inputs(plan: BlockPlan) -> int:
    """Maximum number of inputs of a block, in whole tiles."""
    return padded(max(plan.block_size, 1) + 2 * plan.window, TILE)


def max_examples(plan: BlockPlan) -> int:
    """Maximum number of examples of a block, in whole tiles."""
    return max_inputs(plan) if plan.encoder == SKIPGRAM else padded(plan.block_size, TILE)


def max_candidates(plan: BlockPlan, longest_path: int) -> int:
    """Maximum number of candidates of a block, a multiple of SCORE_PADDING. Noise can be read in
    whole vectors that begin at its first candidate.
    """
    centres = max(plan.block_size, 1)
    drawn = centres + plan.n_draws + SIMD_WIDTH
    return padded(
        {ALL: plan.n_rows, PATH: centres * longest_path}.get(plan.candidates, drawn), SCORE_PADDING
    )


def new_block(plan: BlockPlan, longest_path: int) -> Block:
    """Memory for a block."""
    n_inputs = max_inputs(plan)
    n_examples = max_examples(plan)
    n_candidates = max_candidates(plan, longest_path)
    inputs = np.zeros(n_inputs, int32)
    n_uses = np.zeros(n_inputs, int64)
    candidates = np.zeros(n_candidates, int32)
    drawn = np.zeros((1, n_candidates), float32)
    if plan.candidates == ALL:
        candidates[: plan.n_rows] = np.arange(plan.n_rows)
        drawn[:, : plan.n_rows] = 1
    is_skipgram = plan.encoder == SKIPGRAM  # an example is an input, with the same word and pairs
    has_spans = plan.candidates == PATH or (plan.candidates == DRAWN and plan.form != FORM_MERGED)
    width = 0 if is_skipgram else padded(n_inputs)
    return Block(
        sizes=np.zeros(5, int64),
        inputs=inputs,
        n_uses=n_uses,
        state_row=inputs if is_skipgram else np.zeros(n_examples, int32),
        n_pairs=n_uses if is_skipgram else np.zeros(n_examples, int64),
        label=np.zeros((n_examples, n_candidates), float32),
        bit_zero_count=np.zeros(
            (n_examples if plan.candidates == PATH else 0, n_candidates), float32
        ),
        candidates=candidates,
        drawn=drawn,
        centre_examples=np.zeros(2 * plan.window, int32),
        is_context=np.zeros((n_examples if width else 0, width), float32),
        share=np.zeros(n_examples if width else 0, float32),
        spans=np.zeros((n_examples // TILE if has_spans else 0, 3), int64),
        candidate_spans=np.zeros((n_candidates // TILE if has_spans else 0, 3), int64),
    )


# ---- planning


@kernel_part
def plan_block(sample, shared, workspace, block, noise_key):
    """Fill `block` with the rows of the next block; its n_certain is 0 when no centre is left."""
    plan = shared.plan
    words = workspace.words
    cursor = workspace.cursor
    if plan.block_size == 0:
        begin, n_centres = _next_pair(words, cursor)
        first = cursor[NEXT_CENTRE]
        end = begin + n_centres
    else:
        first = cursor[NEXT_CENTRE]
        n_centres = max(min(plan.block_size, cursor[CENTRES_END] - cursor[NEXT_CENTRE]), 0)
        begin, end = _span(words, plan.window, cursor[WORDS_END], first, n_centres)
        cursor[NEXT_CENTRE] += n_centres
    n_certain = 0
    n_noise = 0
    if n_centres > 0:
        n_certain = _add_pairs(shared, workspace, block, first, n_centres, begin, end)
        cursor[NEXT_DRAW] += plan.candidates == PATH
        if plan.candidates == DRAWN:
            n_noise = _add_noise(sample, shared, workspace, block, n_certain, noise_key)
    block.sizes[N_INPUTS] = end - begin
    block.sizes[N_CERTAIN] = n_certain
    block.sizes[N_NOISE] = n_noise


@kernel_part
def _span(words, window, n_words, first, n_centres):
    """The range of words, begin and end, that the windows of n_centres centres cover. Windows end
    with the sentence.
    """
    begin = first
    end = first + n_centres
    for y in range(first, first + n_centres):
        begin = min(begin, max(y - words.reach[y], 0))
        end = max(end, min(y + words.reach[y] + 1, n_words))
    while window == WHOLE_SENTENCE and words.sentence[begin] != words.sentence[first]:
        begin += 1
    while (
        window == WHOLE_SENTENCE
        and words.sentence[end - 1] != words.sentence[first + n_centres - 1]
    ):
        end -= 1
    return begin, end


@kernel_part
def _next_pair(words, cursor):
    """(input, 1) for the next pair, and its centre in cursor[NEXT_CENTRE]; (0, 0) if none is
    left.
    """
    while cursor[NEXT_CENTRE] < cursor[CENTRES_END]:
        y = cursor[NEXT_CENTRE]
        x = max(cursor[NEXT_CONTEXT], y - words.reach[y], 0)
        while x < min(y + words.reach[y] + 1, cursor[WORDS_END]):
            if x != y and words.sentence[x] == words.sentence[y]:
                cursor[NEXT_CONTEXT] = x + 1
                return x, 1
            x += 1
        cursor[NEXT_CENTRE] += 1
        cursor[NEXT_CONTEXT] = 0
    return int64(0), 0


@kernel_part
def _add_pairs(shared, workspace, block, first, n_centres, begin, end):
    """Write the inputs words[begin:end] and the pairs of words[first:first + n_centres]; return
    the number of candidates so far.

    Clears all label columns that centres may use: a longer block before may have left labels there.
    """
    plan = shared.plan
    words = workspace.words
    is_path = plan.candidates == PATH
    is_all = plan.candidates == ALL
    width = block.label.shape[1]
    if not is_path and not is_all:
        width = (max(plan.block_size, 1) + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
    for j in range(end - begin):
        block.inputs[j] = words.word[begin + j]
        block.n_uses[j] = 0
    n_examples = start_examples(plan.encoder, block, n_centres, end - begin)
    for e in range(n_examples):
        block.n_pairs[e] = 0
        clear(block.label, e, width)
        if is_path:
            clear(block.bit_zero_count, e, width)
    _clear_spans(block.spans)
    _clear_spans(block.candidate_spans)
    n_pairs = 0
    n = plan.n_rows if is_all else 0
    for y in range(first, first + n_centres):
        n_centre_examples = write_examples(plan.encoder, block, words, y, y - first, begin, end)
        if is_path:
            n = _add_path(
                shared.sampler_data, workspace, block, int64(words.word[y]), n_centre_examples, n
            )
            for i in range(n_centre_examples):
                block.n_pairs[block.centre_examples[i]] += 1
        else:
            k = _index_of(words.word[y], block.candidates, int64(words.word[y]) if is_all else 0, n)
            if k == n:
                block.candidates[k] = words.word[y]
                n += 1
            if n_centre_examples > 0 and block.spans.shape[0] > 0:
                _widen_spans(
                    block, block.centre_examples[0], block.centre_examples[n_centre_examples - 1], k
                )
            for i in range(n_centre_examples):
                block.label[block.centre_examples[i], k] += 1
                block.n_pairs[block.centre_examples[i]] += 1
        n_pairs += n_centre_examples
    block.sizes[N_EXAMPLES] = n_examples
    block.sizes[N_PAIRS] = n_pairs
    block.spans[:, 2] = n
    block.candidate_spans[n // TILE :] = 0  # every example has the noise
    return n


@kernel_part
def _clear_spans(spans):
    """Set all spans to empty."""
    spans[:, 0] = NOWHERE
    spans[:, 1] = 0
    spans[:, 2] = NOWHERE


@kernel_part
def _widen_spans(block, first, last, k):
    """Add candidate k to the spans of the examples from first to last, and these to its span."""
    for tile in range(first // TILE, last // TILE + 1):
        block.spans[tile, 0], block.spans[tile, 1] = (
            min(block.spans[tile, 0], k),
            max(block.spans[tile, 1], k + 1),
        )
    span = block.candidate_spans[k // TILE]
    span[0], span[1] = min(span[0], first), max(span[1], last + 1)


@kernel_part
def _add_path(paths, workspace, block, word, n_centre_examples, n):
    """Add the pairs of a centre and its examples to each node on the path to the centre; return the
    number of nodes so far.

    Nodes are searched for a node only if its entry of the filter was used in this block.
    """
    seen = workspace.seen
    now = workspace.cursor[NEXT_DRAW]
    for at in range(paths.offsets[word], paths.offsets[word + 1]):
        node = paths.rows[at]
        bit = paths.values[at]
        k = _index_of(node, block.candidates, 0 if seen[node % FILTER_SIZE] == now else n, n)
        if k == n:
            seen[node % FILTER_SIZE] = now
            block.candidates[k] = node
            n += 1
        if n_centre_examples > 0:
            _widen_spans(
                block, block.centre_examples[0], block.centre_examples[n_centre_examples - 1], k
            )
        for i in range(n_centre_examples):
            block.label[block.centre_examples[i], k] += bit
            block.bit_zero_count[block.centre_examples[i], k] += 1 - bit
    return n


@kernel_part
def _add_noise(sample, shared, workspace, block, n_certain, noise_key):
    """Draw the noise of a block, behind its certain candidates; return the number of
    distinct noise rows.
    """
    plan = shared.plan
    cursor = workspace.cursor
    seen = workspace.seen
    clear(block.drawn, 0, block.drawn.shape[1])
    first = cursor[NEXT_DRAW]
    # Draws are searched among the candidates from here on; with FORM_MERGED a drawn centre is none.
    search_from = n_certain
    if plan.form == FORM_MERGED:
        search_from = 0
        for k in range(n_certain):
            seen[block.candidates[k] % FILTER_SIZE] = first
    n_drawn = sample(
        shared.sampler_data,
        NO_INPUT,
        noise_key,
        np.uint64(first),
        plan.n_draws,
        NONE_EXCLUDED,
        workspace.sampling,
    )
    n = n_certain
    for d in range(n_drawn):
        row = int64(workspace.sampling.rows[d])
        n = _count_draw(block, row, search_from, n_certain, n, seen, first, first + d)
    cursor[NEXT_DRAW] += n_drawn
    return n - n_certain


@kernel_part
def _index_of(row, rows, first, last):
    """The index of a row in rows[first:last]; `last` if it is not there."""
    k = first
    while k < last and rows[k] != row:
        k += 1
    return k


@kernel_part
def _count_draw(block, row, search_from, n_certain, n, seen, first_draw, this_draw):
    """Count one draw of `row`, unless it is a centre that is searched; return the number of
    candidates.

    Candidates are searched only if the row's entry of the filter was used in this block.
    """
    slot = row % FILTER_SIZE
    k = _index_of(row, block.candidates, search_from if seen[slot] >= first_draw else n, n)
    if k < n:
        if k >= n_certain:
            block.drawn[0, k] += ONE
        return n
    seen[slot] = this_draw
    block.candidates[n] = row
    block.drawn[0, n] = 1
    return n + 1

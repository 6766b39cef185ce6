"""Blocks of text: compiled code that turns a chunk of kept words into examples and candidates.

A block is `block_size` consecutive kept words (the centres), their contexts on both sides, and
noise words. As in word2vec.c, context words are the inputs, and a centre is what they predict:

    inputs      centres and contexts in text order, repeats included; their vectors are fetched
    examples    vectors h computed from the inputs (`encoders`): one for each input (skip-gram), or
                one for the contexts of each centre (CBOW)
    candidates  output rows: the distinct centres, then the distinct noise words, which may equal a
                centre (but see FORM_MERGED)
    label[e, k] the number of pairs of example e whose positive is candidate k

With a tree the candidates are the distinct nodes on the paths to the centres; label[e, k] counts
the pairs whose bit at node k is 1, bit_zero_count[e, k] those whose bit is 0. If all rows are
candidates, candidate k is row k, drawn once. Retrieved rows are appended later
(`skipgram_retrieved`).

`BlockPlan.form` says in which rows an objective gets the pairs of a block (`form_of` chooses it):

    form           rows of the batch                                     for objectives with
    FORM_SUMMED    one for each example. A draw counts as often as the   `positives` "summed"
                   example has pairs
    FORM_MERGED    one for each example. A draw counts once, and not     `merges_pairs`,
                   if it is a centre: the other centres of the block     `pairs_as_set`
                   are its negatives, too. With a tree, the bits of
                   all its pairs
    FORM_PER_PAIR  one for each distinct positive of an example, with    neither
                   all the noise

With `block_size` = 0 noise is drawn for each skip-gram pair separately: a block is then one input
and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray

from embedx.engine.encoders import SKIPGRAM, start_examples, write_examples
from embedx.kernels import ONE, SIMD_WIDTH, TILE, by_address, clear, kernel_part, padded
from embedx.kernels.gemm import END, FIRST, REST
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.text.subsampling import WHOLE_SENTENCE

# The unrolled vector width of LLVM's loops over scores: rows of whole paddings leave no scalar
# remainder.
SCORE_PADDING = 2 * SIMD_WIDTH
# Entries of `SkipGramWorkspace.seen`, a filter: by row modulo FILTER_SIZE.
FILTER_SIZE = 2048
# Indices of `Block.sizes`.
INPUTS, EXAMPLES, CERTAIN, NOISE, PAIRS = range(5)
# Indices of `SkipGramWorkspace.cursor`, the position in a chunk:
#     NEXT_CENTRE, CENTRES_END     the centres that are left
#     WORDS_END                    the end of the words, which are centres and margins
#     NEXT_CONTEXT                 with block_size = 0, the next context of the next centre
#     BLOCKS_SO_FAR, DRAWS_SO_FAR  counts
NEXT_CENTRE, CENTRES_END, WORDS_END, NEXT_CONTEXT, BLOCKS_SO_FAR, DRAWS_SO_FAR = range(6)
# The beginning of an empty span: beyond all columns.
NOWHERE = 1 << 30
# Selections of candidates, `BlockPlan.selection`; by the name in `Sampler.candidates`.
DRAWN, PATH, ALL, RETRIEVED = range(4)
SELECTIONS = {"drawn": DRAWN, "path": PATH, "all": ALL, "retrieved": RETRIEVED}
# Forms of a block, `BlockPlan.form`.
FORM_PER_PAIR, FORM_MERGED, FORM_SUMMED = range(3)
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
    n_outputs: int
    selection: int  # DRAWN, PATH, ALL or RETRIEVED
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

    Its candidates are first those that are certain, sizes[CERTAIN] in number: the distinct centres,
    with a search also the rows found; the nodes of a tree; or all rows. Then come the distinct rows
    that were drawn, sizes[NOISE].
    """

    sizes: ndarray  # int64 (5,): numbers of inputs, examples, candidates of both kinds, pairs
    inputs: ndarray  # int32 (max inputs,): words
    pairs_of_input: ndarray  # int64 (max inputs,): how many pairs each input is part of
    # int32 (max examples,): the row of each example in the objective's state, which is a word
    state_row: ndarray
    pairs_of_example: ndarray  # int64 (max examples,): how many pairs each example has
    label: ndarray  # float32 (max examples, max candidates): numbers of pairs, see above
    bit_zero_count: ndarray  # float32, like label where there is a tree
    candidates: ndarray  # int32 (max candidates,)
    # float32 (1, max candidates), a matrix for `load`: how often each was drawn, 0 for centres; 1
    # where all rows are candidates
    drawn: ndarray
    # int32 (2 window,): the examples of the current centre, while the block is planned
    centre_examples: ndarray
    # float32 (max examples, max inputs): 1 for the inputs that an example is the mean of, 0 for the
    # others; (0, 0) in skip-gram
    context_mask: ndarray
    mean_weight: ndarray  # float32 (max examples,): 1 / the number of these inputs
    # int64 (tiles, 3), see `gemm`: the candidates that each tile of examples is multiplied with,
    # and the examples for each tile of candidates. Those of a tile of examples are its centres, a
    # few that follow each other, and all noise.
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
    n_centres = max(plan.block_size, 1)
    if plan.selection == ALL:
        return padded(plan.n_outputs, SCORE_PADDING)
    if plan.selection == PATH:
        return padded(n_centres * longest_path, SCORE_PADDING)
    return padded(n_centres + plan.n_draws + SIMD_WIDTH, SCORE_PADDING)


def new_block(plan: BlockPlan, longest_path: int) -> Block:
    """Memory for a block."""
    n_inputs = max_inputs(plan)
    n_examples = max_examples(plan)
    n_candidates = max_candidates(plan, longest_path)
    inputs = np.zeros(n_inputs, int32)
    pairs_of_input = np.zeros(n_inputs, int64)
    candidates = np.zeros(n_candidates, int32)
    drawn = np.zeros((1, n_candidates), float32)
    if plan.selection == ALL:
        candidates[: plan.n_outputs] = np.arange(plan.n_outputs)
        drawn[:, : plan.n_outputs] = 1

    if plan.encoder == SKIPGRAM:
        # An example is an input, with the same word and pairs.
        state_row = inputs
        pairs_of_example = pairs_of_input
        context_mask = np.zeros((0, 0), float32)
        mean_weight = np.zeros(0, float32)
    else:
        state_row = np.zeros(n_examples, int32)
        pairs_of_example = np.zeros(n_examples, int64)
        context_mask = np.zeros((n_examples, padded(n_inputs)), float32)
        mean_weight = np.zeros(n_examples, float32)

    has_tree = plan.selection == PATH
    has_spans = has_tree or (plan.selection == DRAWN and plan.form != FORM_MERGED)
    return Block(
        sizes=np.zeros(5, int64),
        inputs=inputs,
        pairs_of_input=pairs_of_input,
        state_row=state_row,
        pairs_of_example=pairs_of_example,
        label=np.zeros((n_examples, n_candidates), float32),
        bit_zero_count=np.zeros((n_examples if has_tree else 0, n_candidates), float32),
        candidates=candidates,
        drawn=drawn,
        centre_examples=np.zeros(2 * plan.window, int32),
        context_mask=context_mask,
        mean_weight=mean_weight,
        spans=np.zeros((n_examples // TILE if has_spans else 0, 3), int64),
        candidate_spans=np.zeros((n_candidates // TILE if has_spans else 0, 3), int64),
    )


# ---- planning


@kernel_part
def n_candidates_of(block):
    """The number of candidates of a planned block."""
    return block.sizes[CERTAIN] + block.sizes[NOISE]


@kernel_part
def has_candidates(block):
    """Whether a block is planned; false behind the last one of a chunk."""
    return block.sizes[CERTAIN] > 0


@kernel_part
def plan_block(sample, shared, workspace, block, noise_key):
    """Fill `block` with the rows of the next block; it has no candidates when no centre is left."""
    plan = shared.plan
    if plan.block_size == 0:
        first, n_centres, begin, end = _next_pair(workspace.words, workspace.cursor)
    else:
        first, n_centres, begin, end = _next_centres(plan, workspace.words, workspace.cursor)
    n_certain = 0
    n_noise = 0
    if n_centres > 0:
        workspace.cursor[BLOCKS_SO_FAR] += 1
        _start_block(plan, workspace.words, block, n_centres, begin, end)
        n_certain = _add_pairs(shared, workspace, block, first, n_centres, begin, end)
        if plan.selection == DRAWN:
            n_noise = _add_noise(sample, shared, workspace, block, n_certain, noise_key)
    block.sizes[INPUTS] = end - begin
    block.sizes[CERTAIN] = n_certain
    block.sizes[NOISE] = n_noise


@kernel_part
def _next_centres(plan, words, cursor):
    """The next centres, up to `block_size`, and the words that their windows cover, begin and end:
    (first centre, number of centres, begin, end). Windows end with the sentence.
    """
    first = cursor[NEXT_CENTRE]
    n_centres = max(min(plan.block_size, cursor[CENTRES_END] - first), 0)
    cursor[NEXT_CENTRE] += n_centres
    begin = first
    end = first + n_centres
    for y in range(first, first + n_centres):
        begin = min(begin, max(y - words.reach[y], 0))
        end = max(end, min(y + words.reach[y] + 1, cursor[WORDS_END]))
    if plan.window == WHOLE_SENTENCE:
        while words.sentence[begin] != words.sentence[first]:
            begin += 1
        while words.sentence[end - 1] != words.sentence[first + n_centres - 1]:
            end -= 1
    return first, n_centres, begin, end


@kernel_part
def _next_pair(words, cursor):
    """`_next_centres` where each pair is a block: one centre, and one of its contexts as the only
    input; no centre if none is left.
    """
    while cursor[NEXT_CENTRE] < cursor[CENTRES_END]:
        y = cursor[NEXT_CENTRE]
        x = max(cursor[NEXT_CONTEXT], y - words.reach[y], 0)
        while x < min(y + words.reach[y] + 1, cursor[WORDS_END]):
            if x != y and words.sentence[x] == words.sentence[y]:
                cursor[NEXT_CONTEXT] = x + 1
                return y, 1, x, x + 1
            x += 1
        cursor[NEXT_CENTRE] += 1
        cursor[NEXT_CONTEXT] = 0
    return cursor[NEXT_CENTRE], 0, int64(0), int64(0)


@kernel_part
def _start_block(plan, words, block, n_centres, begin, end):
    """Write the inputs words[begin:end], which have no pairs yet, and the number of examples.

    Clears all label columns that centres may use: a longer block before may have left labels there.
    """
    for j in range(end - begin):
        block.inputs[j] = words.word[begin + j]
        block.pairs_of_input[j] = 0
    width = block.label.shape[1]
    if plan.selection != PATH and plan.selection != ALL:
        width = (max(plan.block_size, 1) + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
    n_examples = start_examples(plan.encoder, block, n_centres, end - begin)
    for e in range(n_examples):
        block.pairs_of_example[e] = 0
        clear(block.label, e, width)
        if plan.selection == PATH:
            clear(block.bit_zero_count, e, width)
    _clear_spans(block.spans)
    _clear_spans(block.candidate_spans)
    block.sizes[EXAMPLES] = n_examples


@kernel_part
def _add_pairs(shared, workspace, block, first, n_centres, begin, end):
    """Write the pairs of the centres words[first:first + n_centres] with their contexts among the
    inputs words[begin:end]; return the number of certain candidates.
    """
    plan = shared.plan
    words = workspace.words
    n_pairs = 0
    n_certain = plan.n_outputs if plan.selection == ALL else 0
    for y in range(first, first + n_centres):
        n_examples = write_examples(plan.encoder, block, words, y, y - first, begin, end)
        if plan.selection == PATH:
            n_certain = _add_path(
                shared.sampler_data, workspace, block, int64(words.word[y]), n_examples, n_certain
            )
        else:
            n_certain = _add_centre(plan, block, words.word[y], n_examples, n_certain)
        for i in range(n_examples):
            block.pairs_of_example[block.centre_examples[i]] += 1
        n_pairs += n_examples
    block.sizes[PAIRS] = n_pairs
    # The noise, from column n_certain on, is of every example. So a tile of candidates that has
    # some, beside centres or not, has all examples: from REST, which is 0, on.
    block.spans[:, REST] = n_certain
    block.candidate_spans[n_certain // TILE :] = 0
    return n_certain


@kernel_part
def _clear_spans(spans):
    """Set all spans to empty."""
    spans[:, FIRST] = NOWHERE
    spans[:, END] = 0
    spans[:, REST] = NOWHERE


@kernel_part
def _widen_spans(block, n_centre_examples, k):
    """Add candidate k to the spans of the examples of the current centre, and these to its span."""
    if n_centre_examples == 0 or block.spans.shape[0] == 0:
        return
    first = block.centre_examples[0]
    last = block.centre_examples[n_centre_examples - 1]
    for tile in range(first // TILE, last // TILE + 1):
        block.spans[tile, FIRST] = min(block.spans[tile, FIRST], k)
        block.spans[tile, END] = max(block.spans[tile, END], k + 1)
    span = block.candidate_spans[k // TILE]
    span[FIRST] = min(span[FIRST], first)
    span[END] = max(span[END], last + 1)


@kernel_part
def _add_centre(plan, block, word, n_centre_examples, n):
    """Add the pairs of a centre and its examples to its row; return the number of candidates so
    far.
    """
    # Where all rows are candidates, the place of a word is its number, and the search ends there.
    k = _index_of(word, block.candidates, int64(word) if plan.selection == ALL else 0, n)
    if k == n:
        block.candidates[k] = word
        n += 1
    _widen_spans(block, n_centre_examples, k)
    for i in range(n_centre_examples):
        block.label[block.centre_examples[i], k] += 1
    return n


@kernel_part
def _add_path(paths, workspace, block, word, n_centre_examples, n):
    """Add the pairs of a centre and its examples to each node on the path to the centre; return the
    number of nodes so far.

    A node whose entry of the filter is unused in this block is new, and added without a search.
    """
    seen = workspace.seen
    this_block = workspace.cursor[BLOCKS_SO_FAR]
    for at in range(paths.offsets[word], paths.offsets[word + 1]):
        node = paths.rows[at]
        bit = paths.values[at]
        entry = node % FILTER_SIZE
        k = _index_of(node, block.candidates, 0 if seen[entry] == this_block else n, n)
        if k == n:
            seen[entry] = this_block
            block.candidates[k] = node
            n += 1
        _widen_spans(block, n_centre_examples, k)
        for i in range(n_centre_examples):
            block.label[block.centre_examples[i], k] += bit
            block.bit_zero_count[block.centre_examples[i], k] += 1 - bit
    return n


@kernel_part
def _add_noise(sample, shared, workspace, block, n_certain, noise_key):
    """Draw the noise of a block, behind its certain candidates; return the number of distinct noise
    rows.
    """
    plan = shared.plan
    cursor = workspace.cursor
    seen = workspace.seen
    this_block = cursor[BLOCKS_SO_FAR]
    clear(block.drawn, 0, block.drawn.shape[1])
    # Draws are searched among the candidates from here on. With FORM_MERGED that includes centres,
    # and a draw of a centre does not count.
    search_from = n_certain
    if plan.form == FORM_MERGED:
        search_from = 0
        for k in range(n_certain):
            seen[block.candidates[k] % FILTER_SIZE] = this_block
    n_drawn = sample(
        shared.sampler_data,
        NO_INPUT,
        noise_key,
        np.uint64(cursor[DRAWS_SO_FAR]),
        plan.n_draws,
        NONE_EXCLUDED,
        workspace.sampling,
    )
    cursor[DRAWS_SO_FAR] += n_drawn
    n = n_certain
    for d in range(n_drawn):
        row = int64(workspace.sampling.rows[d])
        entry = row % FILTER_SIZE
        k = _index_of(row, block.candidates, search_from if seen[entry] == this_block else n, n)
        if k == n:
            seen[entry] = this_block
            block.candidates[k] = row
            block.drawn[0, k] = 1
            n += 1
        elif k >= n_certain:
            block.drawn[0, k] += ONE
    return n - n_certain


@kernel_part
def _index_of(row, rows, first, last):
    """The index of a row in rows[first:last]; `last` if it is not there."""
    k = first
    while k < last and rows[k] != row:
        k += 1
    return k

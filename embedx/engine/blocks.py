"""Blocks of skip-gram: from a chunk of kept words to the rows that are trained together, within compiled code.

A block is `block_size` consecutive kept words (the centres), their context on both sides, and noise words:

    inputs      x_0 .. x_(n_inputs-1)                       rows of the inputs: centre and context positions, repeats kept
    candidates  y_0 .. y_(n_centres-1), then noise          rows of the outputs: the distinct centres, the distinct noise words;
                                                            a noise word may equal a centre, unless the form is INPUT_SETS
    label[j, k]  how often x_j lies in the window of y_k    the number of pairs

With a tree the candidates are the distinct nodes on the paths to the centres; label[j, k] counts the pairs of x_j whose bit at
node k is 1, bit_zero_count[j, k] those whose bit is 0. If all rows compete the candidates are the centres alone; retrieved rows
are appended later (`skipgram_retrieved`).

How an objective gets the pairs of a block (`SkipGramPlan.form`, chosen in `embedx.skipgram.strategies`):

    form         rows of the batch                                                                    condition
    INPUT_SUMS   one for each input; noise counts once for each of its pairs                          positives "summed"
    INPUT_SETS   one for each input; noise counts once, the block's other centres compete with        `merges_pairs` or
                 sample_count 1 and log_expected_count 0. With a tree, the bits of all its pairs      `pairs_as_set`
    PAIRS        one for each pair: its positive and the noise                                        otherwise

`block_size` = 0 draws noise for each pair separately: a block is then one input and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.gemm import TILE
from embedx.kernels.simd import SIMD_WIDTH, store, zeros
from embedx.optimizers.contract import UpdateRule

SCORE_PADDING = 2 * SIMD_WIDTH  # the unrolled vector width of LLVM's loops over scores, so that none has a scalar remainder
FILTER_SIZE = 512  # slots of the filter that tells whether a row may have been seen in this block
N_INPUTS, N_CENTRES, N_NOISE, N_PAIRS = 0, 1, 2, 3  # places in `Block.sizes`
DRAWN, PATH, ALL, RETRIEVED = 0, 1, 2, 3
CANDIDATES = {"drawn": DRAWN, "path": PATH, "all": ALL, "retrieved": RETRIEVED}
INPUT_SUMS, INPUT_SETS, PAIRS = 0, 1, 2


class SkipGramPlan(NamedTuple):
    """What the settings say about blocks, as plain numbers."""

    window: int
    block_size: int
    n_draws: int
    n_rows: int  # of the outputs
    candidates: int  # DRAWN, PATH, ALL or RETRIEVED
    form: int  # INPUT_SUMS, INPUT_SETS or PAIRS
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    bias: int  # the column of the biases, where every input has a 1; -1 without
    optimizer: UpdateRule
    is_proximal: bool  # a block takes a proximal step, whose rate is bounded by what its score gain is


class Block(NamedTuple):
    """The rows of one planned block. `sizes` holds n_inputs, n_centres (with a tree the nodes), n_noise, and n_pairs."""

    sizes: np.ndarray  # int64 (4,)
    inputs: np.ndarray  # int32 (max inputs,)
    candidates: np.ndarray  # int32 (max candidates,)
    drawn: np.ndarray  # float32 (1, max candidates): multiplicity among the draws; 0 in centre columns, 1 for retrieved rows
    label: np.ndarray  # float32 (max inputs, max candidates)
    bit_zero_count: np.ndarray  # float32, like label where there is a tree
    n_pairs: np.ndarray  # int64 (max inputs,): the pairs of each input


@kernel_part
def round_up_to_padding(n):
    """n rounded up to whole SCORE_PADDINGs."""
    return (n + SCORE_PADDING - 1) // SCORE_PADDING * SCORE_PADDING


def max_inputs(plan: SkipGramPlan) -> int:
    """How many inputs a block may have, in whole tiles."""
    return -(-(max(plan.block_size, 1) + 2 * plan.window) // TILE) * TILE


def max_candidates(plan: SkipGramPlan, longest_path: int) -> int:
    """How many candidates a block may have, in whole SCORE_PADDINGs."""
    centres = max(plan.block_size, 1)
    return int(round_up_to_padding(centres * longest_path if plan.candidates == PATH else centres + plan.n_draws))


def new_block(plan: SkipGramPlan, longest_path: int) -> Block:
    """Memory for a block."""
    n_inputs, n_candidates = max_inputs(plan), max_candidates(plan, longest_path)
    n_bit_zero = n_inputs if plan.candidates == PATH else 0
    return Block(
        sizes=np.zeros(4, dtype=np.int64),
        inputs=np.zeros(n_inputs, dtype=np.int32),
        candidates=np.zeros(n_candidates, dtype=np.int32),
        drawn=np.zeros((1, n_candidates), dtype=np.float32),
        label=np.zeros((n_inputs, n_candidates), dtype=np.float32),
        bit_zero_count=np.zeros((n_bit_zero, n_candidates), dtype=np.float32),
        n_pairs=np.zeros(n_inputs, dtype=np.int64),
    )


# ---- blocks


@kernel_part
def plan_block(sample, plan, sampler_data, words, sampling, seen, n_words, centre, last, context, noise_key, drawn, block):
    """Fill `block` with the rows of the next block; return where the one after begins, and the counter of random numbers.

    The next block starts at word `centre`; when every pair has its own noise, at that centre's pair with word `context`.
    `block.sizes[N_CENTRES]` is 0 when no centre is left.
    """
    if plan.block_size == 0:
        begin, end, centre, context, is_left = _next_pair(words, n_words, centre, last, context)
        first, n_centres = centre, 1 if is_left else 0
    else:
        first, n_centres = centre, max(min(plan.block_size, last - centre), 0)
        begin, end = _span(words, n_words, first, n_centres)
        centre += n_centres
    n_noise = 0
    if n_centres > 0:
        n_centres = _fill_pairs(plan, sampler_data, words, first, n_centres, begin, end, block, seen, drawn)
        drawn += plan.candidates == PATH
        if plan.candidates == DRAWN:
            clear(block.drawn, 0, block.drawn.shape[1])
            n_drawn = sample(sampler_data, np.int64(-1), noise_key, np.uint64(drawn), plan.n_draws, 0, sampling)
            for d in range(n_drawn):
                row = np.int64(sampling.rows[d])
                n_noise = _add_noise(row, plan.form == INPUT_SETS, n_centres, n_noise, block, seen, drawn, drawn + d)
            drawn += n_drawn
    block.sizes[N_INPUTS], block.sizes[N_CENTRES], block.sizes[N_NOISE] = end - begin, n_centres, n_noise
    return centre, context, drawn


@kernel_part
def clear(matrix, row, n):
    """Write zeros to matrix[row, :n]; n is a whole number of lanes."""
    for k in range(0, n, SIMD_WIDTH):
        store(matrix, row, k, zeros())


@kernel_part
def _span(words, n_words, first, n_centres):
    """The first word and the end of what n_centres centres and their windows cover."""
    begin, end = first, first + n_centres
    for y in range(first, first + n_centres):
        begin = min(begin, max(y - words.reach[y], 0))
        end = max(end, min(y + words.reach[y] + 1, n_words))
    return begin, end


@kernel_part
def _next_pair(words, n_words, centre, last, context):
    """The first pair at or after (centre, context): its input as a span of one word, the centre, where to go on, and whether
    there is one. A `context` left of the centre's window means the window's beginning.
    """
    while centre < last:
        reach = words.reach[centre]
        x = max(context, centre - reach, 0)
        while x < min(centre + reach + 1, n_words):
            if x != centre and words.sentence[x] == words.sentence[centre]:
                return x, x + 1, centre, x + 1, True
            x += 1
        centre += 1
        context = 0
    return 0, 0, centre, context, False


@kernel_part
def _fill_pairs(plan, sampler_data, words, first, n_centres, begin, end, block, seen, this_draw):
    """Write the inputs words[begin:end] and their pairs with the centres words[first:first + n_centres]; the number of
    candidates so far.

    Labels are cleared as far as any block writes them: a shorter block's noise stands where a longer one's centres stood.
    """
    width = (
        block.label.shape[1]
        if plan.candidates == PATH
        else (max(plan.block_size, 1) + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
    )
    for j in range(end - begin):
        block.inputs[j] = words.word[begin + j]
        block.n_pairs[j] = 0
        clear(block.label, j, width)
        if plan.candidates == PATH:
            clear(block.bit_zero_count, j, width)
    n = n_pairs = 0
    for y in range(first, first + n_centres):
        low, high = max(y - words.reach[y], begin), min(y + words.reach[y] + 1, end)
        if plan.candidates == PATH:
            n = _add_path(sampler_data, words, y, low, high, begin, n, block, seen, this_draw)
        else:
            k = 0
            while k < n and block.candidates[k] != words.word[y]:
                k += 1
            if k == n:
                block.candidates[k] = words.word[y]
                n += 1
            for x in range(low, high):
                if x != y and words.sentence[x] == words.sentence[y]:
                    block.label[x - begin, k] += 1
        for x in range(low, high):
            if x != y and words.sentence[x] == words.sentence[y]:
                block.n_pairs[x - begin] += 1
                n_pairs += 1
    block.sizes[N_PAIRS] = n_pairs
    return n


@kernel_part
def _add_path(sampler_data, words, y, low, high, begin, n, block, seen, this_draw):
    """Add the pairs of centre y with words[low:high] at every node on the path to it; return the number of nodes so far.

    The nodes are searched only if the node's slot of the filter was used in this block.
    """
    for at in range(sampler_data.offsets[words.word[y]], sampler_data.offsets[words.word[y] + 1]):
        node, bit = sampler_data.rows[at], sampler_data.values[at]
        k = 0 if seen[node % FILTER_SIZE] == this_draw else n
        while k < n and block.candidates[k] != node:
            k += 1
        if k == n:
            seen[node % FILTER_SIZE] = this_draw
            block.candidates[k] = node
            n += 1
        for x in range(low, high):
            if x != y and words.sentence[x] == words.sentence[y]:
                block.label[x - begin, k] += bit
                block.bit_zero_count[x - begin, k] += 1 - bit
    return n


@kernel_part
def _add_noise(row, skip_centres, n_centres, n_noise, block, seen, first_draw, this_draw):
    """Count one draw of `row`; return the number of distinct noise rows. Draws of a centre may be left out.

    The rows are searched only if the row's slot of the filter was used in this block.
    """
    if skip_centres:
        for k in range(n_centres):
            if block.candidates[k] == row:
                return n_noise
    slot = row % FILTER_SIZE
    if seen[slot] >= first_draw:
        for k in range(n_centres, n_centres + n_noise):
            if block.candidates[k] == row:
                block.drawn[0, k] += np.float32(1)
                return n_noise
    seen[slot] = this_draw
    block.candidates[n_centres + n_noise] = row
    block.drawn[0, n_centres + n_noise] = 1
    return n_noise + 1

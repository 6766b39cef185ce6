"""Compiled code that plans the blocks of a chunk of kept words: fills a `Block` (blocks.py) with
the next centres, their pairs, and drawn noise.
"""

import numpy as np
from numpy import int64

from embedx.engine.blocks import (
    ALL,
    CERTAIN,
    DRAWN,
    EXAMPLES,
    FORM_MERGED,
    INPUTS,
    NOISE,
    PAIRS,
    PATH,
)
from embedx.engine.encoders import start_examples, write_examples
from embedx.kernels import ONE, SIMD_WIDTH, TILE, clear, kernel_part
from embedx.kernels.gemm import END, FIRST, REST
from embedx.samplers.contract import NO_INPUT, NONE_EXCLUDED
from embedx.text.subsampling import WHOLE_SENTENCE

# `SkipGramWorkspace.seen` and `column` are a small hash table of the candidates of a block. The
# entry of a row is row % N_SEEN:
#     seen[entry]    the last block with a row of this entry
#     column[entry]  the column of that row, if it is a node of a path
# A row whose entry was not used by this block is new. A used entry may be that of another row: then
# all candidates are searched.
N_SEEN = 2048
# Indices of `SkipGramWorkspace.cursor`, the position in a chunk:
#     NEXT_CENTRE, CENTRES_END     the centres that are left
#     WORDS_END                    the end of the words, which are centres and margins
#     NEXT_CONTEXT                 with block_size = 0, the next context of the next centre
#     BLOCKS_SO_FAR, DRAWS_SO_FAR  counts
NEXT_CENTRE, CENTRES_END, WORDS_END, NEXT_CONTEXT, BLOCKS_SO_FAR, DRAWS_SO_FAR = range(6)
# The beginning of an empty span: beyond all columns.
NOWHERE = 1 << 30


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
        block.n_pairs_of_input[j] = 0
    width = block.label.shape[1]
    if plan.selection != PATH and plan.selection != ALL:
        width = (max(plan.block_size, 1) + SIMD_WIDTH - 1) // SIMD_WIDTH * SIMD_WIDTH
    n_examples = start_examples(plan.encoder, block, n_centres, end - begin)
    for e in range(n_examples):
        block.n_pairs_of_example[e] = 0
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
            block.n_pairs_of_example[block.centre_examples[i]] += 1
        n_pairs += n_examples
    block.sizes[PAIRS] = n_pairs
    # Noise begins at column n_certain and belongs to every example. In `candidate_spans`, [0, 0, 0]
    # means all examples.
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
    """Add the pairs of a centre and its examples to the labels of the centre, which becomes a
    candidate if it is none yet; return the number of candidates so far.
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
    """Add the pairs of a centre and its examples to the counts of each node on the path to the
    centre; return the number of nodes so far. See N_SEEN for the search of a node's column.
    """
    seen = workspace.seen
    column = workspace.column
    this_block = workspace.cursor[BLOCKS_SO_FAR]
    for at in range(paths.offsets[word], paths.offsets[word + 1]):
        node = paths.rows[at]
        bit = paths.values[at]
        entry = node % N_SEEN
        k = n
        if seen[entry] == this_block:
            k = column[entry]
            if block.candidates[k] != node:
                k = _index_of(node, block.candidates, 0, n)
        if k == n:
            seen[entry] = this_block
            column[entry] = k
            block.candidates[k] = node
            n += 1
        _widen_spans(block, n_centre_examples, k)
        counts = block.label if bit > 0 else block.bit_zero_count
        for i in range(n_centre_examples):
            counts[block.centre_examples[i], k] += ONE
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
    clear(block.sample_count, 0, block.sample_count.shape[1])
    # Draws are searched among the candidates from here on. With FORM_MERGED that includes centres,
    # and a draw of a centre does not count.
    search_from = n_certain
    if plan.form == FORM_MERGED:
        search_from = 0
        for k in range(n_certain):
            seen[block.candidates[k] % N_SEEN] = this_block
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
        entry = row % N_SEEN
        k = _index_of(row, block.candidates, search_from if seen[entry] == this_block else n, n)
        if k == n:
            seen[entry] = this_block
            block.candidates[k] = row
            block.sample_count[0, k] = 1
            n += 1
        elif k >= n_certain:
            block.sample_count[0, k] += ONE
    return n - n_certain


@kernel_part
def _index_of(row, rows, first, last):
    """The index of a row in rows[first:last]; `last` if it is not there."""
    k = first
    while k < last and rows[k] != row:
        k += 1
    return k

"""Blocks of skip-gram: from a stretch of token ids to the rows that meet, without leaving compiled code.

A block is `share` consecutive kept words (the centres), their context on both sides, and what competes with the centres:

    inputs      x_0 .. x_(n_inputs-1)                       rows of the inputs: the centres and their context
    candidates  y_0 .. y_(n_centres-1), then noise          rows of the outputs: the distinct centres, the distinct words drawn
    label[j, k]  how often x_j lies in the window of y_k    the pairs

With a tree the candidates are the distinct nodes on the paths to the centres; label[j, k] counts x_j's pairs that turn to 1 at
node k and against[j, k] those that turn to 0. Where all rows compete the candidates are the centres alone; so they are
where rows are found, until those join (`skipgram_found`).

`share` = 0 draws noise afresh for every pair: a block is then one input and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel_part
from embedx.kernels.gemm import TILE
from embedx.kernels.random import bits, high_half, low_half_below
from embedx.kernels.simd import LANES, store, zeros
from embedx.optimizers.contract import UpdateRule
from embedx.samplers.alias import draw
from embedx.text.heldout import CHUNK
from embedx.text.tokenizer import END_OF_SENTENCE

LOOP = 2 * LANES  # scores are padded to this: what LLVM takes in one turn of a vectorised loop, so that none is left over
SLOTS = 512
LEFT_OUT = -1

DRAWN, PATH, ALL, FOUND = 0, 1, 2, 3
SUMS, SETS, PAIRS = 0, 1, 2


class Stream(NamedTuple):
    """The corpus as it lies on disk and what makes words of it."""

    tokens: np.ndarray  # int32 (n,): provisional ids, END_OF_SENTENCE between sentences
    word: np.ndarray  # int32 (n_types,): the word of a provisional id, or LEFT_OUT
    keep: np.ndarray  # uint32 (n_types,): kept when 32 random bits do not exceed this
    held_out: np.ndarray  # uint8 (n / CHUNK, rounded up): 1 for a chunk of tokens that training must not see


class Plan(NamedTuple):
    """What the settings say about blocks, as plain numbers."""

    window: int
    share: int
    n_draws: int
    n_rows: int  # of the outputs
    rows: int  # DRAWN, PATH, ALL or FOUND
    form: int  # SUMS, SETS or PAIRS: how the objective takes the pairs of an input
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    bias: int  # the column of the biases, where every input has a 1; -1 without
    optimizer: UpdateRule


class Block(NamedTuple):
    """The rows of one planned block. `sizes` holds n_inputs, n_centres (with a tree the nodes), n_noise, and n_pairs."""

    sizes: np.ndarray  # int64 (4,)
    inputs: np.ndarray  # int32 (max inputs,)
    candidates: np.ndarray  # int32 (max candidates,)
    drawn: np.ndarray  # float32 (1, max candidates): how often each candidate was drawn as noise
    label: np.ndarray  # float32 (max inputs, max candidates)
    against: np.ndarray  # float32, like label where there is a tree
    n_pairs: np.ndarray  # int64 (max inputs,): the pairs of each input


class Words(NamedTuple):
    """The kept words of a stretch and its margins."""

    word: np.ndarray  # int32
    sentence: np.ndarray  # int32: which sentence each stands in
    reach: np.ndarray  # int32: how far each one's window reaches


@kernel_part
def whole_loops(n):
    """n rounded up to whole LOOPs."""
    return (n + LOOP - 1) // LOOP * LOOP


def most_inputs(plan: Plan) -> int:
    """How many inputs a block may have, in whole tiles."""
    return -(-(max(plan.share, 1) + 2 * plan.window) // TILE) * TILE


def most_candidates(plan: Plan, longest_path: int) -> int:
    """How many candidates a block may have, in whole LOOPs."""
    centres = max(plan.share, 1)
    return int(whole_loops(centres * longest_path if plan.rows == PATH else centres + plan.n_draws))


def new_block(plan: Plan, longest_path: int) -> Block:
    """Memory for a block."""
    n_inputs, n_candidates = most_inputs(plan), most_candidates(plan, longest_path)
    n_against = n_inputs if plan.rows == PATH else 0
    return Block(
        sizes=np.zeros(4, dtype=np.int64),
        inputs=np.zeros(n_inputs, dtype=np.int32),
        candidates=np.zeros(n_candidates, dtype=np.int32),
        drawn=np.zeros((1, n_candidates), dtype=np.float32),
        label=np.zeros((n_inputs, n_candidates), dtype=np.float32),
        against=np.zeros((n_against, n_candidates), dtype=np.float32),
        n_pairs=np.zeros(n_inputs, dtype=np.int64),
    )


def new_words(plan: Plan, n_tokens: int) -> Words:
    """Memory for the words of stretches of up to `n_tokens` tokens."""
    capacity = n_tokens + 2 * plan.window
    return Words(*(np.zeros(capacity, dtype=np.int32) for _ in range(3)))


# ---- words


@kernel_part
def keep_words(stream, window, start, stop, key, words):
    """Write the words of tokens[start:stop] that survive subsampling, with up to `window` more on each side of the stretch.

    Return where the centres begin and end in `words`, how many words were written, and how many tokens of the stretch are words
    at all. Without any centre nothing is written: a long run of words left out is walked through only once.
    """
    tokens = stream.tokens
    n_seen = n_kept = 0
    for position in range(start, stop):
        if not _ends_sentence(stream, position) and stream.word[tokens[position]] != LEFT_OUT:
            n_seen += 1
            n_kept += _is_kept(stream, position, key)
    if n_kept == 0:
        return 0, 0, 0, n_seen
    left = start
    found = 0
    while left > 0 and not _ends_sentence(stream, left - 1) and found < window:
        left -= 1
        found += _is_kept(stream, left, key)
    n = 0
    sentence = 0
    first = last = 0
    position = left
    while position < tokens.size:
        ends = _ends_sentence(stream, position)
        if position == start:
            first = n
        if position >= stop and (n - last >= window or ends):
            break
        if ends:
            sentence += 1
        elif _is_kept(stream, position, key):
            words.word[n] = stream.word[tokens[position]]
            words.sentence[n] = sentence
            words.reach[n] = 1 + low_half_below(bits(key, np.uint64(position)), window)
            n += 1
        position += 1
        if position <= stop:
            last = n
    return first, last, n, n_seen


@kernel_part
def _ends_sentence(stream, position):
    """Whether no window reaches across the token at `position`: a mark between sentences, or held out."""
    return stream.tokens[position] == END_OF_SENTENCE or stream.held_out[position // CHUNK] > 0


@kernel_part
def _is_kept(stream, position, key):
    """Whether the token at `position`, which ends no sentence, is a word of the vocabulary and survives subsampling."""
    token = stream.tokens[position]
    if stream.word[token] == LEFT_OUT:
        return False
    return high_half(bits(key, np.uint64(position))) <= np.uint64(stream.keep[token])


# ---- blocks


@kernel_part
def plan_block(plan, draws, words, drawn_at, n_words, centre, last, context, key, drawn, block):
    """Fill `block` with the rows of the next block and return where the one after begins and how much noise was drawn.

    The next block starts at word `centre`; when every pair has its own noise, at that centre's pair with word `context`.
    `block.sizes[1]` is 0 when no centre is left.
    """
    if plan.share == 0:
        begin, end, centre, context, is_left = _next_pair(words, n_words, centre, last, context)
        first, n_centres = centre, 1 if is_left else 0
    else:
        first, n_centres = centre, max(min(plan.share, last - centre), 0)
        begin, end = _span(words, n_words, first, n_centres)
        centre += n_centres
    n_noise = 0
    if n_centres > 0:
        n_centres = _pairs(plan, draws, words, first, n_centres, begin, end, block, drawn_at, drawn)
        drawn += plan.rows == PATH
        if plan.rows == DRAWN:
            clear(block.drawn, 0, block.drawn.shape[1])
            first_draw = drawn
            for _ in range(plan.n_draws):
                row = draw(draws.alias, key, np.uint64(drawn))
                n_noise = _add_noise(row, plan.form == SETS, n_centres, n_noise, block, drawn_at, first_draw, drawn)
                drawn += 1
    block.sizes[0], block.sizes[1], block.sizes[2] = end - begin, n_centres, n_noise
    return centre, context, drawn


@kernel_part
def clear(matrix, row, n):
    """Write zeros to matrix[row, :n]; n is a whole number of lanes."""
    for k in range(0, n, LANES):
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
def _pairs(plan, draws, words, first, n_centres, begin, end, block, drawn_at, this_draw):
    """Write the inputs words[begin:end] and their pairs with the centres words[first:first + n_centres]; the number of
    candidates so far.

    Labels are cleared as far as any block writes them: a shorter block's noise stands where a longer one's centres stood.
    """
    width = block.label.shape[1] if plan.rows == PATH else (max(plan.share, 1) + LANES - 1) // LANES * LANES
    for j in range(end - begin):
        block.inputs[j] = words.word[begin + j]
        block.n_pairs[j] = 0
        clear(block.label, j, width)
        if plan.rows == PATH:
            clear(block.against, j, width)
    n = n_pairs = 0
    for y in range(first, first + n_centres):
        low, high = max(y - words.reach[y], begin), min(y + words.reach[y] + 1, end)
        if plan.rows == PATH:
            n = _add_path(draws, words, y, low, high, begin, n, block, drawn_at, this_draw)
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
    block.sizes[3] = n_pairs
    return n


@kernel_part
def _add_path(draws, words, y, low, high, begin, n, block, drawn_at, this_draw):
    """Add the pairs of centre y with words[low:high] at every node on the path to it; return the number of nodes so far.

    Only when a node with the same remainder was met in this block is it sought among the nodes.
    """
    for at in range(draws.path_offsets[words.word[y]], draws.path_offsets[words.word[y] + 1]):
        node, bit = draws.path_nodes[at], draws.path_bits[at]
        k = 0 if drawn_at[node % SLOTS] == this_draw else n
        while k < n and block.candidates[k] != node:
            k += 1
        if k == n:
            drawn_at[node % SLOTS] = this_draw
            block.candidates[k] = node
            n += 1
        for x in range(low, high):
            if x != y and words.sentence[x] == words.sentence[y]:
                block.label[x - begin, k] += bit
                block.against[x - begin, k] += 1 - bit
    return n


@kernel_part
def _add_noise(row, leaves_centres, n_centres, n_noise, block, drawn_at, first_draw, this_draw):
    """Count one draw of `row`; return the number of distinct noise rows. Draws of a centre may be left out.

    Only when a row with the same remainder was drawn for this block is it sought among the rows.
    """
    if leaves_centres:
        for k in range(n_centres):
            if block.candidates[k] == row:
                return n_noise
    slot = row % SLOTS
    if drawn_at[slot] >= first_draw:
        for k in range(n_centres, n_centres + n_noise):
            if block.candidates[k] == row:
                block.drawn[0, k] += np.float32(1)
                return n_noise
    drawn_at[slot] = this_draw
    block.candidates[n_centres + n_noise] = row
    block.drawn[0, n_centres + n_noise] = 1
    return n_noise + 1

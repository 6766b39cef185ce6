"""The training kernel of skip-gram: from a stretch of token ids to updated tables, without leaving compiled code.

A block is `share` consecutive kept words (the centres) and one set of noise words that all their pairs meet. Its inputs are the
centres and their context on both sides. With the rows of a block side by side, the scores of every input against every
candidate are one small matrix product, and the two updates one each; nothing is multiplied or fetched twice. Blocks are planned
one ahead so that their rows can be asked for while the block before is still being computed.

    inputs      x_0 .. x_(n_inputs-1)                         rows of tables.inputs
    candidates  centres y_0 .. y_(n_centres-1), then noise    rows of tables.outputs
    pair[j, i]  1 if x_j lies in the window of y_i

`share` = 0 draws noise afresh for every pair: a block is then one input and one centre, as in word2vec.c.
"""

from typing import NamedTuple

import numpy as np

from embedx.compiled import kernel, kernel_part
from embedx.engine.random import bits, high_half, low_half_below, open_uniform
from embedx.engine.simd import LANES, aligned_zeros, load, multiply_add, prefetch, splat, store, zeros
from embedx.engine.tiles import TILE, scores, weighted_sums, weighted_sums_transposed
from embedx.samplers.alias import draw

LOOP = 2 * LANES  # scores are padded to this: what LLVM takes in one turn of a vectorised loop, so that none is left over
SLOTS = 512
END_OF_SENTENCE = -1
LEFT_OUT = -1


class Tables(NamedTuple):
    """The parameters; shared by all threads and updated without locks, always by adding."""

    inputs: np.ndarray  # float32 (n_words, stride)
    outputs: np.ndarray  # float32 (n_rows, stride)
    state: np.ndarray  # float32 (n_words, state_width)
    visits: np.ndarray  # int64 (n_words,)


class Stream(NamedTuple):
    """The corpus as it lies on disk and what makes words of it."""

    tokens: np.ndarray  # int32 (n,): provisional ids, END_OF_SENTENCE between sentences
    word: np.ndarray  # int32 (n_types,): the word of a provisional id, or LEFT_OUT
    keep: np.ndarray  # uint32 (n_types,): kept when 32 random bits do not exceed this


class Plan(NamedTuple):
    """What the settings say about blocks, as plain numbers."""

    window: int
    share: int
    n_draws: int
    additive: bool
    keeps_hits: bool
    uses_loge: bool
    uses_norm: bool


class Block(NamedTuple):
    """The rows of one planned block. `sizes` holds n_inputs, n_centres, n_noise."""

    sizes: np.ndarray  # int64 (3,)
    inputs: np.ndarray  # int32 (max inputs,)
    candidates: np.ndarray  # int32 (max candidates,)
    drawn: np.ndarray  # float32 (1, max candidates): how often each candidate was drawn as noise; 0 for centres
    pair: np.ndarray  # float32 (max inputs, max candidates): 1 where an input and a centre are a pair
    n_pairs: np.ndarray  # int64 (max inputs,): the pairs of each input


class Scratch(NamedTuple):
    """One worker's own memory."""

    words: np.ndarray  # int32: the kept words of the stretch and its margins
    sentence: np.ndarray  # int32: which sentence each stands in
    reach: np.ndarray  # int32: how far each one's window reaches
    now: Block
    ahead: Block
    drawn_at: np.ndarray  # int64 (SLOTS,): the last draw of a row with this remainder; tells cheaply that a row is new
    h: np.ndarray  # float32 (max inputs, stride)
    w: np.ndarray  # float32 (max candidates, stride)
    h_gradient: np.ndarray  # like h
    w_gradient: np.ndarray  # like w
    z: np.ndarray  # float32 (max inputs, max candidates): scores, then coefficients
    times: np.ndarray  # like z
    loge: np.ndarray  # like z
    uniforms: np.ndarray  # float32 (max examples, uniforms_width)
    pair_z: np.ndarray  # the same four for the pairs of one input, (max centres, 1 + max noise)
    pair_label: np.ndarray
    pair_times: np.ndarray
    pair_loge: np.ndarray
    clock: np.ndarray  # uint64 (2,): key and counter of the stream that `uniforms` come from
    key: np.ndarray  # int64 (max examples,): of each example that is handed to the objective
    visits: np.ndarray  # int64 (max examples,)
    norm: np.ndarray  # float32 (max examples,): |h|²


@kernel_part
def _whole_loops(n):
    return (n + LOOP - 1) // LOOP * LOOP


def new_scratch(plan: Plan, n_tokens: int, dim: int, uniforms_width: int) -> Scratch:
    """Memory for a worker that trains stretches of up to `n_tokens` tokens."""
    centres = max(plan.share, 1)
    n_inputs = -(-(centres + 2 * plan.window) // TILE) * TILE
    n_candidates = _whole_loops(centres + plan.n_draws)
    capacity = n_tokens + 2 * plan.window

    def matrix(rows: int, columns: int) -> np.ndarray:
        return np.zeros((rows, columns), dtype=np.float32)

    def block() -> Block:
        return Block(
            sizes=np.zeros(3, dtype=np.int64),
            inputs=np.zeros(n_inputs, dtype=np.int32),
            candidates=np.zeros(n_candidates, dtype=np.int32),
            drawn=matrix(1, n_candidates),
            pair=matrix(n_inputs, n_candidates),
            n_pairs=np.zeros(n_inputs, dtype=np.int64),
        )

    pairs, competing = min(centres, 2 * plan.window + 1), _whole_loops(1 + plan.n_draws)
    return Scratch(
        words=np.zeros(capacity, dtype=np.int32),
        sentence=np.zeros(capacity, dtype=np.int32),
        reach=np.zeros(capacity, dtype=np.int32),
        now=block(),
        ahead=block(),
        drawn_at=np.full(SLOTS, -1, dtype=np.int64),
        h=aligned_zeros(n_inputs, dim),
        w=aligned_zeros(n_candidates, dim),
        h_gradient=aligned_zeros(n_inputs, dim),
        w_gradient=aligned_zeros(n_candidates, dim),
        z=matrix(n_inputs, n_candidates),
        times=matrix(n_inputs, n_candidates),
        loge=matrix(n_inputs, n_candidates),
        uniforms=matrix(max(n_inputs, pairs), uniforms_width),
        pair_z=matrix(pairs, competing),
        pair_label=matrix(pairs, competing),
        pair_times=matrix(pairs, competing),
        pair_loge=matrix(pairs, competing),
        clock=np.zeros(2, dtype=np.uint64),
        key=np.zeros(max(n_inputs, pairs), dtype=np.int64),
        visits=np.zeros(max(n_inputs, pairs), dtype=np.int64),
        norm=np.zeros(max(n_inputs, pairs), dtype=np.float32),
    )


@kernel
def train_stretch(coefficients, tables, stream, sampler, log_expected, numbers, plan, scratch, start, stop, lr, key, noise_key):
    """Train on the centres among tokens[start:stop]; return the summed loss, the pairs and the corpus words seen.

    `key` decides which words are kept and how wide their windows are, by position in the corpus alone; `noise_key` what is
    drawn. `lr` multiplies every update. Words just outside the stretch serve as context only.
    """
    first, last, n_words, n_seen = _keep_words(stream, plan.window, start, stop, key, scratch)
    loss = 0.0
    n_pairs = 0
    now, ahead = scratch.now, scratch.ahead
    scratch.drawn_at[:] = -1
    scratch.clock[0], scratch.clock[1] = bits(noise_key, np.uint64(2**63)), np.uint64(0)
    drawn = 0
    centre, context, drawn = _plan_block(plan, sampler, scratch, n_words, first, last, 0, noise_key, drawn, now)
    while now.sizes[1] > 0:
        centre, context, drawn = _plan_block(plan, sampler, scratch, n_words, centre, last, context, noise_key, drawn, ahead)
        _ask_for(tables.inputs, ahead.inputs, ahead.sizes[0])
        _ask_for(tables.outputs, ahead.candidates, ahead.sizes[1] + ahead.sizes[2])
        block_loss, block_pairs = _train_block(coefficients, tables, log_expected, numbers, plan, scratch, now, lr)
        loss += block_loss
        n_pairs += block_pairs
        now, ahead = ahead, now
    return loss, n_pairs, n_seen


@kernel_part
def _keep_words(stream, window, start, stop, key, scratch):
    """Write the words of tokens[start:stop] that survive subsampling, with up to `window` more on each side of the stretch.

    Return where the centres begin and end in `scratch.words`, how many words were written, and how many tokens of the stretch
    are words at all. Without any centre nothing is written: a long run of words left out is walked through only once.
    """
    tokens = stream.tokens
    n_seen = n_kept = 0
    for position in range(start, stop):
        if tokens[position] != END_OF_SENTENCE and stream.word[tokens[position]] != LEFT_OUT:
            n_seen += 1
            n_kept += _is_kept(stream, position, key)
    if n_kept == 0:
        return 0, 0, 0, n_seen
    left = start
    found = 0
    while left > 0 and tokens[left - 1] != END_OF_SENTENCE and found < window:
        left -= 1
        found += _is_kept(stream, left, key)
    n = 0
    sentence = 0
    first = last = 0
    position = left
    while position < tokens.size:
        if position == start:
            first = n
        if position >= stop and (n - last >= window or tokens[position] == END_OF_SENTENCE):
            break
        if tokens[position] == END_OF_SENTENCE:
            sentence += 1
        elif _is_kept(stream, position, key):
            scratch.words[n] = stream.word[tokens[position]]
            scratch.sentence[n] = sentence
            scratch.reach[n] = 1 + low_half_below(bits(key, np.uint64(position)), window)
            n += 1
        position += 1
        if position <= stop:
            last = n
    return first, last, n, n_seen


@kernel_part
def _is_kept(stream, position, key):
    """Whether the token at `position` is a word of the vocabulary and survives subsampling."""
    token = stream.tokens[position]
    if stream.word[token] == LEFT_OUT:
        return False
    return high_half(bits(key, np.uint64(position))) <= np.uint64(stream.keep[token])


@kernel_part
def _plan_block(plan, sampler, scratch, n_words, centre, last, context, key, drawn, block):
    """Fill `block` with the rows of the next block and return where the one after begins and how much noise was drawn.

    The next block starts at word `centre`; when every pair has its own noise, at that centre's pair with word `context`.
    `block.sizes[1]` is 0 when no centre is left.
    """
    if plan.share == 0:
        centre, context, n_inputs, n_centres = _next_pair(scratch, n_words, centre, last, context, block)
    else:
        n_centres = max(min(plan.share, last - centre), 0)
        n_inputs = _group_inputs(plan.share, scratch, n_words, centre, n_centres, block) if n_centres > 0 else 0
        centre += n_centres
    n_noise = 0
    if n_centres > 0:
        _clear(block.drawn, 0, block.drawn.shape[1])
        first_draw = drawn
        for _ in range(plan.n_draws):
            row = draw(sampler, key, np.uint64(drawn))
            n_noise = _add_noise(row, n_centres, n_noise, block, scratch.drawn_at, first_draw, drawn)
            drawn += 1
    block.sizes[0], block.sizes[1], block.sizes[2] = n_inputs, n_centres, n_noise
    return centre, context, drawn


@kernel_part
def _clear(matrix, row, n):
    """Write zeros to matrix[row, :n]; n is a whole number of lanes."""
    for k in range(0, n, LANES):
        store(matrix, row, k, zeros())


@kernel_part
def _add_noise(row, n_centres, n_noise, block, drawn_at, first_draw, this_draw):
    """Count one draw of `row`; return the number of distinct noise rows.

    Only when a row with the same remainder was drawn for this block is it sought among the rows.
    """
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


@kernel_part
def _group_inputs(share, scratch, n_words, centre, n_centres, block):
    """Write the rows and pairs of the centres at words[centre:centre + n_centres]; return the number of inputs.

    Pairs are cleared as far as any block writes them: a shorter block's noise stands where a longer one's centres stood.
    """
    begin, end = centre, centre + n_centres
    for y in range(centre, centre + n_centres):
        begin = min(begin, max(y - scratch.reach[y], 0))
        end = max(end, min(y + scratch.reach[y] + 1, n_words))
    for j in range(end - begin):
        block.inputs[j] = scratch.words[begin + j]
        block.n_pairs[j] = 0
        _clear(block.pair, j, _whole_lanes(share))
    for i in range(n_centres):
        y = centre + i
        block.candidates[i] = scratch.words[y]
        for x in range(max(y - scratch.reach[y], 0), min(y + scratch.reach[y] + 1, n_words)):
            if x != y and scratch.sentence[x] == scratch.sentence[y]:
                block.pair[x - begin, i] = 1
                block.n_pairs[x - begin] += 1
    return end - begin


@kernel_part
def _next_pair(scratch, n_words, centre, last, context, block):
    """Write the first pair at or after (centre, context); return where to go on, and the numbers of inputs and centres.

    A `context` left of the centre's window means the window's beginning.
    """
    while centre < last:
        reach = scratch.reach[centre]
        x = max(context, centre - reach, 0)
        while x < min(centre + reach + 1, n_words):
            if x != centre and scratch.sentence[x] == scratch.sentence[centre]:
                block.inputs[0] = scratch.words[x]
                block.candidates[0] = scratch.words[centre]
                block.pair[0, 0] = 1
                block.n_pairs[0] = 1
                return centre, x + 1, 1, 1
            x += 1
        centre += 1
        context = 0
    return centre, context, 0, 0


@kernel_part
def _ask_for(table, rows, n):
    """Prefetch rows[:n] of a table."""
    for r in range(n):
        for d in range(0, table.shape[1], LANES):
            prefetch(table, np.int64(rows[r]), d)


@kernel_part
def _train_block(coefficients, tables, log_expected, numbers, plan, scratch, block, lr):
    """Train on one planned block; return its summed loss and its number of pairs."""
    n_inputs, n_centres = block.sizes[0], block.sizes[1]
    n_candidates = n_centres + block.sizes[2]
    n_h, n_w = _whole_tiles(n_inputs), _whole_tiles(n_candidates)
    _gather(tables.inputs, block.inputs, n_inputs, n_h, scratch.h)
    _gather(tables.outputs, block.candidates, n_candidates, n_w, scratch.w)
    scores(scratch.h, n_h, scratch.w, n_w, scratch.z)
    if plan.additive:
        loss = _all_pairs(coefficients, tables, log_expected, numbers, plan, scratch, block, lr)
    else:
        loss = 0.0
        for j in range(n_inputs):
            loss += _pairs_of_input(coefficients, tables, log_expected, numbers, plan, scratch, block, j, lr)
    weighted_sums(scratch.z, n_h, scratch.w, n_candidates, scratch.h_gradient)
    weighted_sums_transposed(scratch.z, n_w, scratch.h, n_inputs, scratch.w_gradient)
    _descend(tables.inputs, block.inputs, n_inputs, scratch.h_gradient, lr)
    _descend(tables.outputs, block.candidates, n_candidates, scratch.w_gradient, lr)
    n_pairs = 0
    for j in range(n_inputs):
        n_pairs += block.n_pairs[j]
    return loss, n_pairs


@kernel_part
def _whole_tiles(n):
    return (n + TILE - 1) // TILE * TILE


@kernel_part
def _whole_lanes(n):
    return (n + LANES - 1) // LANES * LANES


@kernel_part
def _gather(table, rows, n, n_padded, out):
    """Copy table[rows[:n]] to out[:n] and write zeros up to n_padded."""
    for r in range(n):
        for d in range(0, table.shape[1], LANES):
            store(out, r, d, load(table, np.int64(rows[r]), d))
    for r in range(n, n_padded):
        for d in range(0, table.shape[1], LANES):
            store(out, r, d, zeros())


@kernel_part
def _descend(table, rows, n, gradient, lr):
    """Add -lr · gradient[r] to table[rows[r]] for r < n: added, so that a row named twice, or by two threads, gets both."""
    step = splat(np.float32(-lr))
    for r in range(n):
        row = np.int64(rows[r])
        for d in range(0, table.shape[1], LANES):
            store(table, row, d, multiply_add(step, load(gradient, r, d), load(table, row, d)))


@kernel_part
def _all_pairs(coefficients, tables, log_expected, numbers, plan, scratch, block, lr):
    """Turn all scores into coefficients at once; an input's draws count once for each of its positives. Return the loss."""
    n_inputs, n_candidates = block.sizes[0], block.sizes[1] + block.sizes[2]
    n = _whole_loops(n_candidates)
    for j in range(n_inputs):
        count = splat(np.float32(block.n_pairs[j]))
        for k in range(0, n, LANES):
            store(scratch.times, j, k, multiply_add(count, load(block.drawn, 0, k), zeros()))
        if plan.uses_loge:
            for k in range(n_candidates):
                scratch.loge[j, k] = log_expected[block.candidates[k]]
        _visit(plan, tables, scratch, j, np.int64(block.inputs[j]), block.n_pairs[j], j)
    return coefficients(
        scratch.z, block.pair, scratch.times, scratch.loge, tables.state, scratch.uniforms, numbers,
        scratch.key, scratch.visits, scratch.norm, n_inputs, n, lr,
    )  # fmt: skip


@kernel_part
def _pairs_of_input(coefficients, tables, log_expected, numbers, plan, scratch, block, j, lr):
    """Turn the scores of input j into coefficients, one positive at a time, each against all the noise. Return the loss."""
    n_centres, n_noise = block.sizes[1], block.sizes[2]
    z, label, times, loge = scratch.pair_z, scratch.pair_label, scratch.pair_times, scratch.pair_loge
    n_pairs = 0
    for i in range(n_centres):
        if block.pair[j, i] > 0:
            e = n_pairs
            positive = block.candidates[i]
            z[e, 0], label[e, 0], times[e, 0], loge[e, 0] = scratch.z[j, i], 1, 0, log_expected[positive]
            for k in range(n_noise):
                drawn = block.candidates[n_centres + k]
                z[e, 1 + k], label[e, 1 + k], times[e, 1 + k] = scratch.z[j, n_centres + k], 0, block.drawn[0, n_centres + k]
                loge[e, 1 + k] = log_expected[drawn]
                if drawn == positive:
                    times[e, 0] = times[e, 1 + k] if plan.keeps_hits else 0
                    times[e, 1 + k] = 0
            _visit(plan, tables, scratch, e, np.int64(block.inputs[j]), 1, j)
            n_pairs += 1
    loss = coefficients(
        z, label, times, loge, tables.state, scratch.uniforms, numbers,
        scratch.key, scratch.visits, scratch.norm, n_pairs, 1 + n_noise, lr,
    )  # fmt: skip
    _clear(scratch.z, j, _whole_lanes(n_centres + n_noise))
    e = 0
    for i in range(n_centres):
        if block.pair[j, i] > 0:
            scratch.z[j, i] = z[e, 0]
            for k in range(n_noise):
                scratch.z[j, n_centres + k] += z[e, 1 + k]
            e += 1
    return loss


@kernel_part
def _visit(plan, tables, scratch, e, key, n, j):
    """Tell example e its key, how often that was visited before, random numbers and the norm of h_j; count n more visits."""
    scratch.key[e] = key
    for d in range(scratch.uniforms.shape[1]):
        scratch.uniforms[e, d] = open_uniform(scratch.clock[0], scratch.clock[1])
        scratch.clock[1] += np.uint64(1)
    if tables.state.shape[1] > 0:
        scratch.visits[e] = tables.visits[key]
        tables.visits[key] += n
    if plan.uses_norm:
        scratch.norm[e] = 0
        for d in range(scratch.h.shape[1]):
            scratch.norm[e] += scratch.h[j, d] * scratch.h[j, d]

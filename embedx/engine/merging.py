"""Rows that several workers have trained apart, each on a copy of the table: the rule by which they become one.

To its knowledge a row is b, with the optimiser's state s, in the table that all have in common; since then the worker has made
it b + d, with s + t. Meanwhile it has become b + o there, through others, with state u. Had the worker begun with that, its
steps would have been divided by more where u > s, and they would have led elsewhere. Near to where the text wants the row, an
update by a row h of the other table shortens its distance from there by a part in proportion to h·hᵀ and to the learning rate,
so that U updates leave e^-κUC of it, where C is the mean of h·hᵀ. If from b they lead to b + d, then from b + o they lead to
b + o + d - way·o, with

    way = I - e^-κUC                    a matrix; U updates of the row since b

So what is added to the table in common is, where o is not 0,

    share · d - way · o                 share = divisor(s + t) / divisor(u + t)

Along directions in which rows of the other table are large a row is soon where the text wants it, and workers that each lead it
there would go too far together: it is where the last of them led it. Along all others it moves slowly, and it is the sum of
what all have learned. Which κ, and how C is known, is told in `embedx.cluster.axes`; a table with no other has I for C.
States are summed, up to the optimiser's limit; one that fades is that of the last updates.

The rule needs nothing but a worker's rows and those in common: it is applied by the workers, and whoever keeps the table in
common only adds.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import TILE
from embedx.kernels.simd import LANES as FLOATS
from embedx.kernels.simd import divide, load, multiply_add, splat, store, sum_of, zeros
from embedx.optimizers.contract import NUMBER, ROW
from embedx.optimizers.descend import number_divisor, row_divisor

NONE = -1
BEYOND = np.float32(1e30)  # a row with such a number does not travel: the run diverges, which its loss will tell
RESOLUTION = np.float32(2.0**-11)  # of half precision: a row that moved less, as what rounding left out, does not travel yet
LEAST = np.float32(0.01)  # a way along an axis, beyond that along all others, that is not worth a look


# Numbers travel as float16 times 1,024, so that the smallest but 0 is 6e-8 and the largest 60. By bits, because numpy takes
# ten times as long where many numbers are small, as differences are.
EXPONENT_BIAS = np.uint32(102 << 23)  # float32's 127 less float16's 15, less the 10 of 1,024
SMALLEST = np.uint32(103 << 23)  # what is below becomes 0
MOST = np.uint32(0x42700000)  # 60 as float32
SIGN, ONE, ROUND = np.uint32(1 << 31), np.uint32(1), np.uint32(0xFFF)


@kernel_part
def _encode(bits, r, half, k):
    """Write numbers, float32 as bits, as float16, as bits; what is beyond ±60 as that."""
    for d in range(half.shape[1]):
        number = bits[r, d]
        size = min(number & ~SIGN, MOST)
        rounded = (size - EXPONENT_BIAS + ROUND + ((size >> np.uint32(13)) & ONE)) >> np.uint32(13)
        found = rounded if size >= SMALLEST else np.uint32(0)
        half[k, d] = np.uint16(found | ((number & SIGN) >> np.uint32(16)))


@kernel_part
def _decode(half, k, bits, r):
    """The way back."""
    for d in range(half.shape[1]):
        size = np.uint32(half[k, d] & np.uint16(0x7FFF))
        found = (size << np.uint32(13)) + EXPONENT_BIAS if size > 0 else np.uint32(0)
        bits[r, d] = found | (np.uint32(half[k, d] & np.uint16(0x8000)) << np.uint32(16))


@kernel
def gather_half(bits, row, half):
    """Write rows of a table, float32 as bits, as float16, as bits; whether none is beyond ±60, or no number."""
    largest = np.uint32(0)
    for k in range(row.size):
        at = np.int64(row[k])
        for d in range(bits.shape[1]):
            largest = max(largest, bits[at, d] & ~SIGN)
        _encode(bits, at, half, k)
    return largest <= MOST


@kernel
def from_half(half, bits):
    """float16 to float32, both as bits."""
    for k in range(half.shape[0]):
        _decode(half, k, bits, k)


@kernel
def add_half(rows, row, half, buffer, bits):
    """Add to rows of a table, from float16 as bits; `buffer` float32 (1, stride) is any, and `bits` it by its bits."""
    for k in range(row.size):
        at = np.int64(row[k])
        _decode(half, k, bits, 0)
        for d in range(0, rows.shape[1], FLOATS):
            store(rows, at, d, load(rows, at, d) + load(buffer, 0, d))


class News(NamedTuple):
    """Rows of the table in common that others have changed; of `half` and `whole` one is empty."""

    place: np.ndarray  # int32 (n_rows,): where each row is among these, or NONE
    half: np.ndarray  # uint16 (n, stride): float16, as bits
    whole: np.ndarray  # float32 (n, stride)
    state: np.ndarray  # float32 (n, stride), (n, 1) or (0, stride)


class Added(NamedTuple):
    """What a worker adds to the table in common."""

    row: np.ndarray  # int32 (most,)
    half: np.ndarray  # uint16 (most, stride)
    state: np.ndarray  # float32 (most, stride), (most, 1) or (0, stride)


class Buffers(NamedTuple):
    """Room for one row of what is added, and of what is new, with their bits, and of what others did and how much is undone."""

    mine: np.ndarray  # float32 (1, stride)
    mine_bits: np.ndarray  # uint32 (1, stride), the same memory
    new: np.ndarray
    new_bits: np.ndarray
    theirs: np.ndarray
    undone: np.ndarray


class Ways(NamedTuple):
    """I - e^-κUC, for some numbers of updates, and which of these each row comes nearest to."""

    axis: np.ndarray  # float32 (n, stride), n whole tiles: the largest axes of C, of length 1, in descending order
    along: np.ndarray  # float32 (levels, n): the way along each of them, less that along all others
    others: np.ndarray  # float32 (levels,)
    level: np.ndarray  # int32 (n_rows,)


@kernel
def merge_rows(live, base, news, ways, added, buffers, optimizer):
    """Merge a worker's rows with those of the others: how many rows are to be added to the table in common. Live and base are
    brought up to date with both; what rounding leaves out stays as a difference, which travels when there is more of it.
    """
    n = 0
    for r in range(live.rows.shape[0]):
        row = np.int64(r)
        at = np.int64(news.place[row])
        largest, moved, is_finite = np.float32(0), np.float32(0), True
        for d in range(live.rows.shape[1]):
            size = abs(live.rows[row, d])
            is_finite &= size < BEYOND
            largest, moved = max(largest, size), max(moved, abs(live.rows[row, d] - base.rows[row, d]))
        differs = is_finite and moved > RESOLUTION * largest
        if at != NONE:
            _take(news, at, buffers)
            if differs:
                _undo(base, ways, row, buffers)
            else:
                _follow(live, base, news, at, buffers, row)
        if differs:
            added.row[n] = row
            if live.state_of == NUMBER:
                _merge_numbers(live, base, news, at, row, n, added, buffers, optimizer)
            else:
                _merge_as_a_whole(live, base, news, at, row, n, added, buffers, optimizer)
            _encode(buffers.mine_bits, 0, added.half, n)
            _decode(added.half, n, buffers.mine_bits, 0)
            for d in range(0, live.rows.shape[1], FLOATS):
                store(base.rows, row, d, load(base.rows, row, d) + load(buffers.mine, 0, d))
            n += 1
    return n


@kernel_part
def _take(news, at, buffers):
    """Write a row of the table in common to the buffer."""
    if news.half.shape[0] > 0:
        _decode(news.half, at, buffers.new_bits, 0)
    else:
        for d in range(0, news.whole.shape[1], FLOATS):
            store(buffers.new, 0, d, load(news.whole, at, d))


@kernel_part
def _follow(live, base, news, at, buffers, row):
    """Bring a row up to date that this copy has not changed."""
    for d in range(0, live.rows.shape[1], FLOATS):
        new = load(buffers.new, 0, d)
        store(live.rows, row, d, load(live.rows, row, d) + (new - load(base.rows, row, d)))
        store(base.rows, row, d, new)
    if live.state_of == ROW:
        live.state[row, 0] += news.state[at, 0] - base.state[row, 0]
        base.state[row, 0] = news.state[at, 0]
    elif live.state_of == NUMBER:
        for d in range(0, live.rows.shape[1], FLOATS):
            s = load(news.state, at, d)
            store(live.state, row, d, load(live.state, row, d) + (s - load(base.state, row, d)))
            store(base.state, row, d, s)


@kernel_part
def _undo(base, ways, row, buffers):
    """Write to the buffers what others did to a row, and what the worker's own updates would have undone of that."""
    level = np.int64(ways.level[row])
    others = splat(ways.others[level])
    for d in range(0, base.rows.shape[1], FLOATS):
        theirs = load(buffers.new, 0, d) - load(base.rows, row, d)
        store(buffers.theirs, 0, d, theirs)
        store(buffers.undone, 0, d, multiply_add(others, theirs, zeros()))
    for k in range(0, ways.axis.shape[0], TILE):
        if ways.along[level, k] < LEAST:
            return
        a, b, c, e = zeros(), zeros(), zeros(), zeros()
        for d in range(0, base.rows.shape[1], FLOATS):
            theirs = load(buffers.theirs, 0, d)
            a, b = multiply_add(theirs, load(ways.axis, k, d), a), multiply_add(theirs, load(ways.axis, k + 1, d), b)
            c, e = multiply_add(theirs, load(ways.axis, k + 2, d), c), multiply_add(theirs, load(ways.axis, k + 3, d), e)
        a, b = splat(ways.along[level, k] * sum_of(a)), splat(ways.along[level, k + 1] * sum_of(b))
        c, e = splat(ways.along[level, k + 2] * sum_of(c)), splat(ways.along[level, k + 3] * sum_of(e))
        for d in range(0, base.rows.shape[1], FLOATS):
            undone = multiply_add(a, load(ways.axis, k, d), load(buffers.undone, 0, d))
            undone = multiply_add(b, load(ways.axis, k + 1, d), undone)
            undone = multiply_add(c, load(ways.axis, k + 2, d), undone)
            store(buffers.undone, 0, d, multiply_add(e, load(ways.axis, k + 3, d), undone))


@kernel_part
def _merge_as_a_whole(live, base, news, at, row, k, added, buffers, optimizer):
    """A row all of whose numbers have one rate: what is added, to the buffer."""
    share = np.float32(1)
    if live.state_of == ROW:
        t = live.state[row, 0] - base.state[row, 0]
        added.state[k, 0] = t
        if at != NONE:
            mine = row_divisor(live, row, optimizer)
            base.state[row, 0] = news.state[at, 0]
            live.state[row, 0] = min(news.state[at, 0] + t, optimizer.limit)
            share = mine / row_divisor(live, row, optimizer)
        base.state[row, 0] = min(base.state[row, 0] + t, optimizer.limit)
    for d in range(0, live.rows.shape[1], FLOATS):
        b = load(base.rows, row, d)
        moved = load(live.rows, row, d) - b
        if at == NONE:
            store(buffers.mine, 0, d, moved)
        else:
            _merge(live, base, row, d, moved, multiply_add(splat(share), moved, zeros()), buffers)


@kernel_part
def _merge_numbers(live, base, news, at, row, k, added, buffers, optimizer):
    """A row each of whose numbers has a rate of its own. A state that fades is that of the last updates."""
    for d in range(0, live.rows.shape[1], FLOATS):
        s = load(base.state, row, d)
        moved, t = load(live.rows, row, d) - load(base.rows, row, d), load(live.state, row, d) - s
        if at == NONE:
            store(buffers.mine, 0, d, moved)
            store(added.state, k, d, t)
            store(base.state, row, d, s + t)
        else:
            u = load(news.state, at, d)
            if optimizer.fades:
                t = t - (u - s)
            share = divide(number_divisor(optimizer.kind, load(live.state, row, d)), number_divisor(optimizer.kind, u + t))
            store(added.state, k, d, t)
            store(base.state, row, d, u + t)
            store(live.state, row, d, u + t)
            _merge(live, base, row, d, moved, multiply_add(share, moved, zeros()), buffers)


@kernel_part
def _merge(live, base, row, d, moved, mine, buffers):
    """Some numbers that others have changed too: `mine` is what was moved, shortened."""
    mine = mine - load(buffers.undone, 0, d)
    store(buffers.mine, 0, d, mine)
    store(base.rows, row, d, load(buffers.new, 0, d))
    store(live.rows, row, d, load(live.rows, row, d) + load(buffers.theirs, 0, d) + (mine - moved))

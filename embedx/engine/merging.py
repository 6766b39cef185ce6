"""Rows that several workers have trained apart, each on a copy of the table: the rule by which they become one.

To its knowledge a row is b, with the optimiser's state s, in the table that all have in common; since then the worker has made
it b + d, with s + t. Meanwhile it has become b + o there, through others, with state u. Had the worker begun with that, its
steps would have been divided by more where u > s, and they would have led elsewhere: if U updates lead a part

    way = 1 - e^-κU                     U updates of the row since b, κ = WAY

of the way to where they want the row, from b to b + d, then from b + o they lead to b + o + d - way·o. So what is added to the
table in common is, where o is not 0,

    share · d - way · o                 share = divisor(s + t) / divisor(u + t)

A row that is seldom met (way = 0) is the sum of what all have learned; one that is met all the time is where the last updates
led, as after one worker by itself. States are summed, up to the optimiser's limit; one that fades is that of the last updates.
`embedx.engine.lanes` does the like between threads.

The rule needs nothing but a worker's rows and those in common: it is applied by the workers, and whoever keeps the table in
common only adds.
"""

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import LANES as FLOATS
from embedx.kernels.simd import divide, load, multiply_add, splat, store, zeros
from embedx.optimizers.contract import NUMBER, ROW
from embedx.optimizers.descend import number_divisor, row_divisor

WAY = 0.02
NONE = -1


# Numbers travel as float16 times 1,024, so that the smallest but 0 is 6e-8 and the largest 60. By bits, because numpy takes
# ten times as long where many numbers are small, as differences are.
EXPONENT_BIAS = np.uint32(102 << 23)  # float32's 127 less float16's 15, less the 10 of 1,024
SMALLEST = np.uint32(103 << 23)  # what is below becomes 0
LARGEST_HALF = 60.0
SIGN, ONE, ROUND = np.uint32(1 << 31), np.uint32(1), np.uint32(0xFFF)


@kernel
def gather_half(bits, row, half):
    """Write rows of a table, float32 as bits, as float16 as bits; the largest of their sizes, as bits of a float32."""
    largest = np.uint32(0)
    for k in range(row.size):
        for d in range(bits.shape[1]):
            number = bits[row[k], d]
            size = number & ~SIGN
            largest = max(largest, size)
            rounded = (size - EXPONENT_BIAS + ROUND + ((size >> np.uint32(13)) & ONE)) >> np.uint32(13)
            found = rounded if size >= SMALLEST else np.uint32(0)
            half[k, d] = np.uint16(found | ((number & SIGN) >> np.uint32(16)))
    return largest


@kernel
def from_half(half, bits):
    """float16 to float32, both as bits."""
    for k in range(half.shape[0]):
        for d in range(half.shape[1]):
            size = np.uint32(half[k, d] & np.uint16(0x7FFF))
            found = (size << np.uint32(13)) + EXPONENT_BIAS if size > 0 else np.uint32(0)
            bits[k, d] = found | (np.uint32(half[k, d] & np.uint16(0x8000)) << np.uint32(16))


@kernel
def add_rows(rows, row, added):
    """Add to rows of a table."""
    for k in range(row.size):
        at = np.int64(row[k])
        for d in range(0, rows.shape[1], FLOATS):
            store(rows, at, d, load(rows, at, d) + load(added, k, d))


@kernel
def changed_rows(rows, base, found):
    """Write which rows differ from those of the base; how many do."""
    n = 0
    for row in range(rows.shape[0]):
        differs = False
        for d in range(rows.shape[1]):
            differs |= rows[row, d] != base[row, d]
        if differs:
            found[n] = row
            n += 1
    return n


@kernel
def merge_rows(live, base, theirs, place, way, changed, added, added_state, optimizer):
    """Merge the changed rows: what is to be added to the table in common, and live and base brought up to date with `theirs`,
    which stand at place[row]; what is added is not yet part of the base.
    """
    for k in range(changed.size):
        row = np.int64(changed[k])
        at = np.int64(place[row])
        if live.state_of == NUMBER:
            _merge_numbers(live, base, theirs, at, way[row], row, k, added, added_state, optimizer)
        else:
            _merge_as_a_whole(live, base, theirs, at, way[row], row, k, added, added_state, optimizer)


@kernel_part
def _merge_as_a_whole(live, base, theirs, at, way, row, k, added, added_state, optimizer):
    """A row all of whose numbers have one rate."""
    share = np.float32(1)
    if live.state_of == ROW:
        t = live.state[row, 0] - base.state[row, 0]
        added_state[k, 0] = t
        if at != NONE:
            mine = row_divisor(live, row, optimizer)
            base.state[row, 0] = theirs.state[at, 0]
            live.state[row, 0] = min(theirs.state[at, 0] + t, optimizer.limit)
            share = mine / row_divisor(live, row, optimizer)
        base.state[row, 0] = min(base.state[row, 0] + t, optimizer.limit)
    for d in range(0, live.rows.shape[1], FLOATS):
        b = load(base.rows, row, d)
        moved = load(live.rows, row, d) - b
        if at == NONE:
            store(added, k, d, moved)
        else:
            new = load(theirs.rows, at, d)
            mine = multiply_add(splat(share), moved, zeros())
            mine = multiply_add(splat(-way), new - b, mine)
            store(added, k, d, mine)
            store(base.rows, row, d, new)
            store(live.rows, row, d, load(live.rows, row, d) + (new - b) + (mine - moved))


@kernel_part
def _merge_numbers(live, base, theirs, at, way, row, k, added, added_state, optimizer):
    """A row each of whose numbers has a rate of its own. A state that fades is that of the last updates."""
    for d in range(0, live.rows.shape[1], FLOATS):
        b, s = load(base.rows, row, d), load(base.state, row, d)
        moved, t = load(live.rows, row, d) - b, load(live.state, row, d) - s
        if at == NONE:
            store(added, k, d, moved)
            store(added_state, k, d, t)
            store(base.state, row, d, s + t)
        else:
            new, u = load(theirs.rows, at, d), load(theirs.state, at, d)
            if optimizer.fades:
                t = t - (u - s)
            share = divide(number_divisor(optimizer.kind, load(live.state, row, d)), number_divisor(optimizer.kind, u + t))
            mine = multiply_add(share, moved, zeros())
            mine = multiply_add(splat(-way), new - b, mine)
            store(added, k, d, mine)
            store(added_state, k, d, t)
            store(base.rows, row, d, new)
            store(base.state, row, d, u + t)
            store(live.rows, row, d, load(live.rows, row, d) + (new - b) + (mine - moved))
            store(live.state, row, d, u + t)


@kernel
def take_rows(live, base, theirs, rows, changed):
    """Bring the rows that others have changed, and this copy has not, up to date; both lists ascend."""
    c = 0
    for k in range(rows.size):
        row = np.int64(rows[k])
        while c < changed.size and changed[c] < row:
            c += 1
        if c == changed.size or changed[c] != row:
            for d in range(0, live.rows.shape[1], FLOATS):
                new = load(theirs.rows, k, d)
                store(live.rows, row, d, load(live.rows, row, d) + (new - load(base.rows, row, d)))
                store(base.rows, row, d, new)
            if live.state_of == ROW:
                live.state[row, 0] += theirs.state[k, 0] - base.state[row, 0]
                base.state[row, 0] = theirs.state[k, 0]
            elif live.state_of == NUMBER:
                for d in range(0, live.rows.shape[1], FLOATS):
                    s = load(theirs.state, k, d)
                    store(live.state, row, d, load(live.state, row, d) + (s - load(base.state, row, d)))
                    store(base.state, row, d, s)

"""Kernels that merge a worker's replica of a table with what other workers did to it; docs/cluster.md derives the rule.

    b        a row as the worker and the server last agreed on it, with the optimizer's state s
    b + d    the same row in the worker's replica now, with state s + t        d the local delta
    b + r    the same row on the server now, with state u                      r the remote delta

The worker sends, where r is not 0,

    share · d - damping · r     share = divisor(s + t) / divisor(u + t)     damping = I - e^(-kUC), U updates since b

and d where it is 0. The server adds what it gets. States are summed up to the optimizer's limit; an exponential moving average
is that of the last updates. `embedx.distributed.merging` has k and C.
"""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import TILE
from embedx.kernels.simd import SIMD_WIDTH as FLOATS
from embedx.kernels.simd import load, multiply_add, splat, store, sum_of, zeros
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW
from embedx.optimizers.descend import number_divisor, row_divisor

NONE = -1
MAX_SENT = np.float32(1e30)  # a row with a larger number is not sent: the run diverges, as its loss will show
RESOLUTION = np.float32(2.0**-11)  # of float16: a row that changed less, such as by what rounding left out, is not sent yet
MIN_DAMPING = np.float32(0.01)  # along a principal direction, beyond that of the rest: less is left out


# Numbers are sent as float16 times 1,024, from 6e-8 to 60. Converted by bits, because numpy takes ten times as long where many
# numbers are small, as deltas are.
EXPONENT_BIAS = np.uint32(102 << 23)  # float32's 127 less float16's 15, less the 10 of 1,024
MIN_HALF = np.uint32(103 << 23)  # what is below becomes 0
MAX_HALF = np.uint32(0x42700000)  # 60 as float32
SIGN, ONE, ROUND = np.uint32(1 << 31), np.uint32(1), np.uint32(0xFFF)


@kernel_part
def _encode(bits, r, half, k):
    """float32 row r to float16 row k, both as bits; clipped to ±60."""
    for d in range(half.shape[1]):
        number = bits[r, d]
        size = min(number & ~SIGN, MAX_HALF)
        rounded = (size - EXPONENT_BIAS + ROUND + ((size >> np.uint32(13)) & ONE)) >> np.uint32(13)
        found = rounded if size >= MIN_HALF else np.uint32(0)
        half[k, d] = np.uint16(found | ((number & SIGN) >> np.uint32(16)))


@kernel_part
def _decode(half, k, bits, r):
    """float16 row k to float32 row r, both as bits."""
    for d in range(half.shape[1]):
        size = np.uint32(half[k, d] & np.uint16(0x7FFF))
        found = (size << np.uint32(13)) + EXPONENT_BIAS if size > 0 else np.uint32(0)
        bits[r, d] = found | (np.uint32(half[k, d] & np.uint16(0x8000)) << np.uint32(16))


@kernel
def gather_half(bits, row, half):
    """Write rows of a table to float16, both as bits; whether all numbers are finite and within ±60."""
    largest = np.uint32(0)
    for k in range(row.size):
        at = np.int64(row[k])
        for d in range(bits.shape[1]):
            largest = max(largest, bits[at, d] & ~SIGN)
        _encode(bits, at, half, k)
    return largest <= MAX_HALF


@kernel
def add_half(rows, row, half, buffer, bits):
    """Add float16, as bits, to rows of a table; `buffer`, float32 (1, stride), is overwritten, and `bits` are its bits."""
    for k in range(row.size):
        at = np.int64(row[k])
        _decode(half, k, bits, 0)
        for d in range(0, rows.shape[1], FLOATS):
            store(rows, at, d, load(rows, at, d) + load(buffer, 0, d))


class RemoteDelta(NamedTuple):
    """Rows of the server's table that other workers changed; of `half` and `whole` one is empty."""

    position: np.ndarray  # int32 (n_rows,): of each row of the table among these, or NONE
    half: np.ndarray  # uint16 (n, stride): float16, as bits
    whole: np.ndarray  # float32 (n, stride)
    state: np.ndarray  # float32 (n, stride), (n, 1) or (0, stride)


class LocalDelta(NamedTuple):
    """What the server adds to its table; with capacity for all rows."""

    row: np.ndarray  # int32 (n_rows,)
    half: np.ndarray  # uint16 (n_rows, stride): float16, as bits
    state: np.ndarray  # float32 (n_rows, stride), (n_rows, 1) or (0, stride)


class Buffers(NamedTuple):
    """Workspace of a row, float32 (1, stride); `_bits` are the same memory as uint32."""

    local: np.ndarray  # the local delta as it is sent
    local_bits: np.ndarray
    server: np.ndarray  # the server's row
    server_bits: np.ndarray
    remote: np.ndarray  # the remote delta
    correction: np.ndarray  # damping · remote


class Damping(NamedTuple):
    """I - e^(-kUC), tabulated by U, and the nearest entry of each row."""

    directions: np.ndarray  # float32 (n, stride), n whole tiles: principal directions of C, the largest first
    along: np.ndarray  # float32 (entries, n): along each of them, beyond `rest`
    rest: np.ndarray  # float32 (entries,): along all others
    level: np.ndarray  # int32 (n_rows,)


@kernel
def merge_rows(live, base, remote, damping, local, buffers, optimizer):
    """Merge the remote delta into a replica, `live`, and write the local delta; the number of its rows. `base` is what was last
    agreed on with the server; both are updated. What rounding leaves out stays in live - base, and is sent later.
    """
    n = 0
    for r in range(live.rows.shape[0]):
        row = np.int64(r)
        at = np.int64(remote.position[row])
        largest, moved, is_finite = np.float32(0), np.float32(0), True
        for d in range(live.rows.shape[1]):
            size = abs(live.rows[row, d])
            is_finite &= size < MAX_SENT
            largest, moved = max(largest, size), max(moved, abs(live.rows[row, d] - base.rows[row, d]))
        differs = is_finite and moved > RESOLUTION * largest
        if at != NONE:
            _read_remote(remote, at, buffers)
            if differs:
                _correct(base, damping, row, buffers)
            else:
                _apply_remote(live, base, remote, at, buffers, row)
        if differs:
            local.row[n] = row
            if live.state_of == PER_COORDINATE:
                _merge_per_coordinate(live, base, remote, at, row, n, local, buffers, optimizer)
            else:
                _merge_per_row(live, base, remote, at, row, n, local, buffers, optimizer)
            _encode(buffers.local_bits, 0, local.half, n)
            _decode(local.half, n, buffers.local_bits, 0)
            for d in range(0, live.rows.shape[1], FLOATS):
                store(base.rows, row, d, load(base.rows, row, d) + load(buffers.local, 0, d))
            n += 1
    return n


@kernel_part
def _read_remote(remote, at, buffers):
    """Write a row of the server to the buffer."""
    if remote.half.shape[0] > 0:
        _decode(remote.half, at, buffers.server_bits, 0)
    else:
        for d in range(0, remote.whole.shape[1], FLOATS):
            store(buffers.server, 0, d, load(remote.whole, at, d))


@kernel_part
def _apply_remote(live, base, remote, at, buffers, row):
    """Update a row that has no local delta."""
    for d in range(0, live.rows.shape[1], FLOATS):
        new = load(buffers.server, 0, d)
        store(live.rows, row, d, load(live.rows, row, d) + (new - load(base.rows, row, d)))
        store(base.rows, row, d, new)
    if live.state_of == PER_ROW:
        live.state[row, 0] += remote.state[at, 0] - base.state[row, 0]
        base.state[row, 0] = remote.state[at, 0]
    elif live.state_of == PER_COORDINATE:
        for d in range(0, live.rows.shape[1], FLOATS):
            s = load(remote.state, at, d)
            store(live.state, row, d, load(live.state, row, d) + (s - load(base.state, row, d)))
            store(base.state, row, d, s)


@kernel_part
def _correct(base, damping, row, buffers):
    """Write the remote delta of a row, and damping times it."""
    level = np.int64(damping.level[row])
    rest, directions = splat(damping.rest[level]), damping.directions
    for d in range(0, base.rows.shape[1], FLOATS):
        remote = load(buffers.server, 0, d) - load(base.rows, row, d)
        store(buffers.remote, 0, d, remote)
        store(buffers.correction, 0, d, multiply_add(rest, remote, zeros()))
    for k in range(0, directions.shape[0], TILE):
        if damping.along[level, k] < MIN_DAMPING:
            return
        a, b, c, e = zeros(), zeros(), zeros(), zeros()
        for d in range(0, base.rows.shape[1], FLOATS):
            remote = load(buffers.remote, 0, d)
            a, b = multiply_add(remote, load(directions, k, d), a), multiply_add(remote, load(directions, k + 1, d), b)
            c, e = multiply_add(remote, load(directions, k + 2, d), c), multiply_add(remote, load(directions, k + 3, d), e)
        a, b = splat(damping.along[level, k] * sum_of(a)), splat(damping.along[level, k + 1] * sum_of(b))
        c, e = splat(damping.along[level, k + 2] * sum_of(c)), splat(damping.along[level, k + 3] * sum_of(e))
        for d in range(0, base.rows.shape[1], FLOATS):
            correction = multiply_add(a, load(directions, k, d), load(buffers.correction, 0, d))
            correction = multiply_add(b, load(directions, k + 1, d), correction)
            correction = multiply_add(c, load(directions, k + 2, d), correction)
            store(buffers.correction, 0, d, multiply_add(e, load(directions, k + 3, d), correction))


@kernel_part
def _merge_per_row(live, base, remote, at, row, k, local, buffers, optimizer):
    """Write the local delta of a row whose coordinates share one learning rate."""
    share = np.float32(1)
    if live.state_of == PER_ROW:
        t = live.state[row, 0] - base.state[row, 0]
        local.state[k, 0] = t
        if at != NONE:
            divisor = row_divisor(live, row, optimizer)
            base.state[row, 0] = remote.state[at, 0]
            live.state[row, 0] = min(remote.state[at, 0] + t, optimizer.limit)
            share = divisor / row_divisor(live, row, optimizer)
        base.state[row, 0] = min(base.state[row, 0] + t, optimizer.limit)
    for d in range(0, live.rows.shape[1], FLOATS):
        b = load(base.rows, row, d)
        moved = load(live.rows, row, d) - b
        if at == NONE:
            store(buffers.local, 0, d, moved)
        else:
            _merge_lanes(live, base, row, d, moved, multiply_add(splat(share), moved, zeros()), buffers)


@kernel_part
def _merge_per_coordinate(live, base, remote, at, row, k, local, buffers, optimizer):
    """The same where each coordinate has its own learning rate."""
    for d in range(0, live.rows.shape[1], FLOATS):
        s = load(base.state, row, d)
        moved, t = load(live.rows, row, d) - load(base.rows, row, d), load(live.state, row, d) - s
        if at == NONE:
            store(buffers.local, 0, d, moved)
            store(local.state, k, d, t)
            store(base.state, row, d, s + t)
        else:
            u = load(remote.state, at, d)
            if optimizer.is_ema:
                t = t - (u - s)
            share = number_divisor(optimizer.kind, load(live.state, row, d)) / number_divisor(optimizer.kind, u + t)
            store(local.state, k, d, t)
            store(base.state, row, d, u + t)
            store(live.state, row, d, u + t)
            _merge_lanes(live, base, row, d, moved, multiply_add(share, moved, zeros()), buffers)


@kernel_part
def _merge_lanes(live, base, row, d, moved, scaled, buffers):
    """Sixteen coordinates with a remote delta: `scaled` is share · moved."""
    change = scaled - load(buffers.correction, 0, d)
    store(buffers.local, 0, d, change)
    store(base.rows, row, d, load(buffers.server, 0, d))
    store(live.rows, row, d, load(live.rows, row, d) + load(buffers.remote, 0, d) + (change - moved))

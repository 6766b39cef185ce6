"""Kernels that merge a worker's replica of a table with the updates of other workers;
docs/merging.md derives the rule.

    b        a row at the last synchronisation, with the optimizer's state s
    b + d    the row in the worker's replica now, with state s + t        d the local delta
    b + r    the row on the server now, with state u                      r the remote delta

The worker sends, and the server adds,

    share · d - damping · r     share = divisor(s + t) / divisor(u + t)     damping = I - e^(-kUC),
        U updates since b

States are summed, up to the optimizer's limit; an exponential moving average is the one of the
latest updates. `embedx.distributed.merging` computes k and C.
"""

import math
from typing import NamedTuple

import numpy as np
from numpy import float32, int64, ndarray

from embedx.kernels import ONE, ZERO, exp, kernel, kernel_part
from embedx.optimizers.contract import PER_ROW
from embedx.optimizers.descend import coordinate_divisor, row_state_divisor

NONE = -1
# A row of a larger squared length is not sent: the run diverges, as its loss will show.
MAX_SQUARE = float32(1e30)
# Relative to a row's length: a smaller change, such as a rounding error, is not sent yet.
RESOLUTION = float32(2.0**-11)
# Damping along a principal direction beyond the mean damping; a smaller one is neglected.
MIN_DAMPING = float32(0.01)


class Delta(NamedTuple):
    """Some rows of a table, or changes of some rows."""

    row: ndarray  # int32 (n,), ascending
    values: ndarray  # int16 (n, stride), to be multiplied by `scale`
    state: ndarray  # the optimizer's, float32 (n, stride), (n, 1), or (n, 0) if it keeps none
    scale: ndarray = np.ones((1, 1), float32)  # (n, 1)


class Damping(NamedTuple):
    """I - e^(-kUC)."""

    directions: ndarray  # float32 (n, stride): principal directions of C
    eigenvalues: ndarray  # float32 (n,)
    rest: float32  # the mean of all other eigenvalues
    strength: ndarray  # float32 (n_rows,): kU


@kernel_part
def _write_rounded(numbers, delta, k):
    """Write numbers as int16 times a power of two, chosen so that the largest has 15 bits; 1 stays
    exactly 1.
    """
    largest = ZERO
    for d in range(numbers.size):
        largest = max(largest, abs(numbers[d]))
    scale = float32(math.ldexp(1.0, max(math.frexp(largest)[1] - 14, -126)))
    delta.scale[k, 0] = scale
    for d in range(numbers.size):
        delta.values[k, d] = np.int16(np.rint(numbers[d] / scale))


@kernel
def gather_rows(rows, delta):
    """Copy the rows delta.row of a table to the delta."""
    for k in range(delta.row.size):
        _write_rounded(rows[delta.row[k]], delta, k)


@kernel_part
def _add_row(delta, k, rows, row):
    """Add row k of a delta to a row of a table."""
    scale = delta.scale[k, 0]
    for d in range(rows.shape[1]):
        rows[row, d] += delta.values[k, d] * scale


@kernel
def add_rows(rows, delta):
    """Add a delta to the rows of a table."""
    for k in range(delta.row.size):
        _add_row(delta, k, rows, int64(delta.row[k]))


@kernel
def merge_rows(live, base, remote, position, damping, optimizer, local, buffers):
    """Merge the remote delta into the replica `live`, and write the local delta; return its number
    of rows.

    `base` is the table at the last synchronisation; `live` and `base` are updated. Rounding errors
    stay in live - base and are sent later.

    position  int32 (n_rows,): the place of each row of the table in the remote delta, or NONE
    buffers   float32 (4, stride)
    """
    server = buffers[0]
    server_state = buffers[1]
    change = buffers[2]
    share = buffers[3]
    n = 0
    for r in range(live.rows.shape[0]):
        row = int64(r)
        place = int64(position[row])
        square = ZERO
        moved = ZERO
        for d in range(server.size):
            difference = live.rows[row, d] - base.rows[row, d]
            square += live.rows[row, d] * live.rows[row, d]
            moved += difference * difference
        is_sent = square < MAX_SQUARE and moved > RESOLUTION * RESOLUTION * square
        if place == NONE and not is_sent:
            continue
        _read_server(base, remote, place, row, server, server_state)
        _merge_state(live, base, row, server_state, is_sent, optimizer, share, local.state[n])
        change[:] = 0
        if is_sent:
            if place != NONE:
                _write_damped(damping, row, server, base.rows, change)
            for d in range(server.size):
                change[d] = share[d] * (live.rows[row, d] - base.rows[row, d]) - change[d]
        for d in range(server.size):
            kept = ZERO if is_sent else live.rows[row, d] - base.rows[row, d]
            live.rows[row, d] = server[d] + change[d] + kept
            base.rows[row, d] = server[d]
        if is_sent:
            local.row[n] = row
            _write_rounded(change, local, n)
            _add_row(local, n, base.rows, row)
            n += 1
    return n


@kernel_part
def _read_server(base, remote, place, row, server, server_state):
    """Write the server's row and its state: those of the base, if no other worker changed it."""
    if place == NONE:
        for d in range(server.size):
            server[d] = base.rows[row, d]
        for d in range(base.state.shape[1]):
            server_state[d] = base.state[row, d]
        return
    scale = remote.scale[place, 0]
    for d in range(server.size):
        server[d] = remote.values[place, d] * scale
    for d in range(base.state.shape[1]):
        server_state[d] = remote.state[place, d]


@kernel_part
def _merge_state(live, base, row, server_state, is_sent, optimizer, share, delta):
    """Merge the state of a row; write its share and `delta`, the local delta of its state."""
    share[:] = 1
    # 1 where the state is an average of the latest updates: the remote change then fades.
    fading = float32(is_sent and optimizer.is_ema)
    for d in range(delta.size):  # two loops, which the compiler vectorises
        now = live.state[row, d]
        s = base.state[row, d]
        u = server_state[d]
        delta[d] = now - s - fading * (u - s)
        merged = min(u + delta[d], optimizer.limit)
        share[d] = _divisor(now, optimizer) / _divisor(merged, optimizer)
    for d in range(delta.size):
        u = server_state[d]
        live.state[row, d] = min(u + delta[d], optimizer.limit)
        base.state[row, d] = live.state[row, d] if is_sent else u
    if optimizer.keeps == PER_ROW:
        share[1:] = share[0]


@kernel_part
def _divisor(state, optimizer):
    """The number that a step is divided by, at a state of the optimizer."""
    if optimizer.keeps == PER_ROW:
        return row_state_divisor(optimizer.number, state)
    return coordinate_divisor(optimizer.number, state)


@kernel_part
def _write_damped(damping, row, server, base, change):
    """Write damping times the remote delta of a row."""
    strength = damping.strength[row]
    remaining = exp(-strength * damping.rest)
    for d in range(server.size):
        change[d] = (ONE - remaining) * (server[d] - base[row, d])
    for k in range(damping.directions.shape[0]):
        factor = remaining - exp(-strength * damping.eigenvalues[k])
        if factor < MIN_DAMPING:
            return
        along = ZERO
        for d in range(server.size):
            along += damping.directions[k, d] * (server[d] - base[row, d])
        for d in range(server.size):
            change[d] += factor * along * damping.directions[k, d]

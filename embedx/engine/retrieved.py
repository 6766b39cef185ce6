"""Classification with the candidates that an index finds for each example.

A step is that of `sampled`, with one line for each example; only the choice of candidates differs.
Some objectives add drawn rows that represent all rows not found (`Retrieval.n_tail`): these have
importance weights, and the rows found are certain. Coefficients come from message passing
(`SearchSpec.message_iterations`) or from the exact scores of the candidates.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.sampled import (
    add_draws,
    add_positives,
    fill_up,
    labels_of,
    new_line,
    train_lines,
)
from embedx.engine.select import set_negative
from embedx.engine.shared import encode
from embedx.engine.weighted import multiply_line, weight_of
from embedx.kernels import bits, by_address, kernel, kernel_part
from embedx.optimizers.decay import clock_step
from embedx.search.index import Index
from embedx.search.message_passing import MessageWorkspace, pass_messages
from embedx.search.query import QueryWorkspace, find_candidates
from embedx.search.spec import SearchSpec
from embedx.search.updater import StaleRows, mark_stale


@by_address
class Retrieval(NamedTuple):
    """The index, and a worker's buffers for searching it."""

    row_index: Index
    spec: SearchSpec
    query: QueryWorkspace
    messages: MessageWorkspace
    stale: StaleRows
    n_tail: int  # rows drawn for each example, in addition to those found


@kernel
def train_chunk(coefficients, sample, log_expected_count, shared, workspace, retrieval, chunk):
    """Train on a chunk, a minibatch at a time; return the summed loss, the lines, the decay clock.

    `chunk.key` determines the label that is drawn (`Plan.one_label`). Examples without labels are
    skipped.
    """
    decay_clock = chunk.decay_clock
    has_messages = retrieval.spec.message_iterations > 0
    loss = 0.0
    n_seen = 0
    workspace.seen[:] = -1
    for begin in range(chunk.start, chunk.stop, shared.plan.batch_size):
        end = min(begin + shared.plan.batch_size, chunk.stop)
        chosen = chunk.order[begin:end]
        encode(shared, workspace.h, chosen, decay_clock)
        n_lines, width, message_loss = select_lines(
            coefficients,
            sample,
            log_expected_count,
            shared,
            workspace,
            retrieval,
            chunk,
            begin,
            end,
        )
        fill_up(shared, workspace, n_lines, width, decay_clock)
        batch_loss, n_touched = train_lines(
            coefficients, shared, workspace, chosen, n_lines, width, chunk.lr, has_messages
        )
        mark_stale(workspace.groups.touched, n_touched, retrieval.stale)
        loss += batch_loss + message_loss
        n_seen += n_lines
        decay_clock += clock_step(shared.optimizer, chunk.lr)
    return loss, n_seen, decay_clock


@kernel_part
def select_lines(
    coefficients, sample, log_expected_count, shared, workspace, retrieval, chunk, begin, end
):
    """Write the lines of a minibatch; return the number of lines, the largest number of candidates,
    and the loss of message passing, which also writes the coefficients.
    """
    p = 0
    width = 0
    loss = 0.0
    batch = workspace.batch
    rows = workspace.rows
    index = retrieval.row_index
    spec = retrieval.spec
    for position in range(begin, end):
        i = chunk.order[position]
        stream = bits(chunk.key, np.uint64(position))
        first, last = labels_of(shared.examples, shared.plan, i, stream)
        if first == last:
            continue
        n_positives = last - first
        e = position - begin
        add_positives(shared, workspace, p, first, n_positives)
        if spec.message_iterations > 0:
            n, line_loss = pass_messages(
                coefficients,
                index,
                spec,
                shared.outputs.rows,
                shared.constants,
                workspace.h,
                e,
                rows,
                batch.label,
                p,
                n_positives,
                batch.z,
                retrieval.query,
                retrieval.messages,
            )
            weight = weight_of(shared.examples.weight, i)
            multiply_line(batch.z, p, n, weight)
            loss += weight * line_loss
        else:
            n = find_candidates(
                index,
                spec,
                workspace.h,
                e,
                rows,
                p,
                n_positives,
                rows.shape[1] - retrieval.n_tail,
                retrieval.query,
            )
            for c in range(n_positives, n):
                set_negative(batch, p, c, 1)
                batch.log_expected_count[p, c] = 0
            if retrieval.n_tail > 0:
                n = _add_tail(
                    sample, log_expected_count, shared, workspace, retrieval, p, n, i, stream
                )
        workspace.n_candidates[p] = n
        width = max(width, n)
        new_line(shared, workspace, p, e, i, stream, 0)
        p += 1
    return p, width, loss


@kernel_part
def _add_tail(sample, log_expected_count, shared, workspace, retrieval, p, n_certain, i, stream):
    """Add drawn rows to the n_certain candidates of line p, of example i; return the number of
    candidates.

    A draw of a certain row does not count: the draws represent the other rows.
    """
    expected = workspace.batch.log_expected_count[p]
    n_drawn = sample(shared.draws, i, stream, np.uint64(0), retrieval.n_tail, 0, workspace.sampling)
    n = add_draws(workspace, p, n_certain, n_drawn, False, shared.plan)
    log_expected_count(shared.draws, i, n_drawn, 0, workspace.rows[p], n, expected)
    for c in range(n_certain):
        expected[c] = 0
    return n

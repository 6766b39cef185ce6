"""Classification with the candidates that an index finds for each example.

A step is that of `sampled`, with one term for each example; only the choice of candidates differs.
Some objectives add drawn rows that represent all rows not found (`Retrieval.n_tail`): these have
importance weights, and the rows found are certain, as are all labels of the example. The draws do
not depend on what is certain, so that sums over all rows are estimated without bias. Coefficients
come from message passing (`SearchSpec.message_iterations`) or from the exact scores of the
candidates.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.sampled import (
    add_draws,
    add_positives,
    labels_of,
    new_term,
    pad_and_decay,
    train_terms,
)
from embedx.engine.select import SINGLE, set_negative, set_positive
from embedx.engine.shared import encode
from embedx.engine.weighted import multiply_term, weight_of
from embedx.kernels import ZERO, bits, by_address, kernel, kernel_part
from embedx.optimizers.decay import clock_step
from embedx.search.message_passing import MessageWorkspace, pass_messages, select_positives
from embedx.search.query import Searcher, find_candidates, search_all_blocks
from embedx.search.updater import StaleRows, mark_stale


@by_address
class Retrieval(NamedTuple):
    """What a worker searches the candidates of its examples with."""

    searcher: Searcher
    messages: MessageWorkspace
    stale: StaleRows
    n_tail: int  # rows drawn for each example, in addition to those found


@kernel
def train_chunk(coefficients, sample, log_expected_count, shared, workspace, retrieval, chunk):
    """Train on a chunk, a minibatch at a time; return the summed loss, the terms, the decay clock.

    `chunk.key` determines the draws and the label that is drawn (`Plan.one_label`). Examples
    without labels are skipped.
    """
    decay_clock = chunk.decay_clock
    has_messages = retrieval.searcher.spec.message_iterations > 0
    loss = 0.0
    n_seen = 0
    workspace.seen[:] = -1
    for begin in range(chunk.start, chunk.stop, shared.plan.batch_size):
        end = min(begin + shared.plan.batch_size, chunk.stop)
        chosen = chunk.order[begin:end]
        encode(shared, workspace.h, chosen, decay_clock)
        n_terms, width, message_loss = select_terms(
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
        pad_and_decay(shared, workspace, n_terms, width, decay_clock)
        batch_loss, n_touched = train_terms(
            coefficients, shared, workspace, chosen, n_terms, width, chunk.lr, has_messages
        )
        mark_stale(workspace.groups.touched, n_touched, retrieval.stale)
        loss += batch_loss + message_loss
        n_seen += n_terms
        decay_clock += clock_step(shared.optimizer, chunk.lr)
    return loss, n_seen, decay_clock


@kernel_part
def select_terms(
    coefficients, sample, log_expected_count, shared, workspace, retrieval, chunk, begin, end
):
    """Write the terms of a minibatch; return the number of terms, the largest number of candidates,
    and the loss of message passing, which also writes the coefficients.

    Each example is searched for once. If each of its labels has a term, the others are certain
    negatives there.
    """
    p = 0
    width = 0
    loss = 0.0
    for position in range(begin, end):
        i = chunk.order[position]
        stream = bits(chunk.key, np.uint64(position))
        first, last = labels_of(shared.examples, shared.plan, i, stream)
        if first == last:
            continue
        e = position - begin
        n_positives = last - first
        add_positives(shared, workspace, p, first, n_positives)
        n_certain, message_loss = _add_found(
            coefficients, shared, workspace, retrieval, p, e, i, n_positives
        )
        loss += message_loss
        is_single = shared.plan.positives == SINGLE
        n_terms = n_positives if is_single else 1
        for number in range(n_terms):
            term = p + number
            term_stream = stream
            if is_single:
                _copy_certain(workspace, p, term, n_certain, number)
                term_stream = bits(stream, np.uint64(number))
            new_term(shared, workspace, term, e, i, stream, number)
            n = _add_tail(
                sample,
                log_expected_count,
                shared,
                workspace,
                retrieval,
                term,
                n_certain,
                term_stream,
            )
            workspace.n_candidates[term] = n
            width = max(width, n)
        p += n_terms
    return p, width, loss


@kernel_part
def _add_found(coefficients, shared, workspace, retrieval, p, e, i, n_positives):
    """Add the rows found for example e to the positives of term p; return the number of candidates
    and the loss of message passing.
    """
    if retrieval.searcher.spec.message_iterations > 0:
        return _pass_messages(coefficients, shared, workspace, retrieval, p, e, i, n_positives)
    return _find(workspace, retrieval, p, e, n_positives), 0.0


@kernel_part
def _pass_messages(coefficients, shared, workspace, retrieval, p, e, i, n_positives):
    """Write the candidates of term p and, in place of their scores, the coefficients that the
    messages come to; return the number of candidates and the loss.
    """
    searcher = retrieval.searcher
    messages = retrieval.messages
    table = shared.outputs.rows
    h = workspace.h
    rows = workspace.rows
    batch = workspace.batch
    search_all_blocks(searcher, h, e, rows, p, n_positives)
    select_positives(searcher.row_index, messages, table, h, e, rows, p, n_positives)
    n, loss = pass_messages(
        coefficients, shared.constants, searcher, messages, rows, batch, p, n_positives
    )
    weight = weight_of(shared.examples.weight, i)
    multiply_term(batch.z, p, n, weight)
    return n, weight * loss


@kernel_part
def _find(workspace, retrieval, p, e, n_positives):
    """Add the rows found for example e to the positives of term p; return the number of
    candidates.
    """
    batch = workspace.batch
    n = find_candidates(
        retrieval.searcher,
        workspace.h,
        e,
        workspace.rows,
        p,
        n_positives,
        workspace.rows.shape[1] - retrieval.n_tail,
    )
    for c in range(n_positives, n):
        set_negative(batch, p, c, 1)
        batch.log_expected_count[p, c] = 0
    return n


@kernel_part
def _copy_certain(workspace, p, term, n_certain, positive):
    """Write the n_certain candidates of term p to another term, where one of them is the positive
    and all others are negatives.
    """
    batch = workspace.batch
    for c in range(n_certain):
        workspace.rows[term, c] = workspace.rows[p, c]
        set_negative(batch, term, c, 1)
        batch.log_expected_count[term, c] = 0
    set_positive(batch, term, positive, 1, ZERO, False)


@kernel_part
def _add_tail(sample, log_expected_count, shared, workspace, retrieval, p, n_certain, stream):
    """Add drawn rows, if the search has a tail, to the n_certain candidates of term p; return the
    number of candidates.

    A draw of a certain row does not count: the draws represent the other rows.
    """
    if retrieval.n_tail == 0:
        return n_certain
    i = workspace.batch.state_row[p]
    expected = workspace.batch.log_expected_count[p]
    n_drawn = sample(
        shared.sampler_data, i, stream, np.uint64(0), retrieval.n_tail, 0, workspace.sampling
    )
    n = add_draws(workspace, p, n_certain, n_drawn, False, shared.plan)
    log_expected_count(shared.sampler_data, i, n_drawn, 0, workspace.rows[p], n, expected)
    for c in range(n_certain):
        expected[c] = 0
    return n

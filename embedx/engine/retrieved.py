"""The training kernel of classification where an index finds the rows that each example meets.

A step is that of `rows`, a minibatch whose examples have a line each; only the choice of candidates differs. With steps of
message passing (`Search.steps`) the coefficients come from there, else from the exact scores of what was found.
"""

import numpy as np

from embedx.engine.examples import descend_features
from embedx.engine.sampled import (
    add_candidate,
    descend_outputs,
    gradient_of_h,
    labels_of,
    read_examples,
    score_candidates,
    visit,
)
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits
from embedx.optimizers.decay import clock_step, decay_row, step_size
from embedx.search.messages import pass_messages
from embedx.search.query import candidates
from embedx.search.updater import remember


@kernel
def train_stretch(
    coefficients, tables, examples, index, search, constants, optimizer, plan, scratch, probe, messages, moved,
    order, start, stop, lr, decay_clock, key,
):  # fmt: skip
    """Train on the examples order[start:stop], a minibatch at a time; return the summed loss, the lines, the decay clock.

    `key` decides which label stands for all, where one does. An example without labels is passed over.
    """
    loss = 0.0
    n_seen = 0
    for begin in range(start, stop, plan.batch_size):
        end = min(begin + plan.batch_size, stop)
        read_examples(tables, examples, optimizer, plan, scratch, order, begin, end, decay_clock)
        n_lines, width, passed = _choose(
            coefficients, tables, examples, index, search, constants, optimizer, plan, scratch, probe, messages,
            order, begin, end, decay_clock, key,
        )  # fmt: skip
        loss += passed
        if search.steps == 0:
            score_candidates(tables, examples, plan, scratch, order, begin, n_lines)
            loss += coefficients(scratch.batch, tables.state, constants, n_lines, width, np.float32(lr) * optimizer.seen_rate)
        n_seen += n_lines
        scale = np.float32(plan.sum_over / (end - begin))
        rate = step_size(optimizer, lr)
        if plan.has_hidden:
            gradient_of_h(tables, plan, scratch, n_lines, end - begin, scale)
        n_touched = descend_outputs(tables, examples, optimizer, plan, scratch, order, begin, n_lines, scale, rate)
        remember(scratch.groups.touched, n_touched, moved)
        if plan.has_hidden:
            descend_features(
                tables.hidden, examples, optimizer, plan.dim - plan.has_bias, scratch.features, scratch.h_gradient,
                order, begin, end, rate,
            )  # fmt: skip
        decay_clock += clock_step(optimizer, lr)
    return loss, n_seen, decay_clock


@kernel_part
def _choose(
    coefficients, tables, examples, index, search, constants, optimizer, plan, scratch, probe, messages,
    order, begin, end, decay_clock, key,
):  # fmt: skip
    """Write the lines of a minibatch. Return how many there are, the most candidates of one, and the loss of the messages."""
    p = width = 0
    loss = 0.0
    most = scratch.rows.shape[1]
    for position in range(begin, end):
        i = order[position]
        stream = bits(key, np.uint64(position))
        first, last = labels_of(examples, plan, i, stream)
        if first == last:
            continue
        n_positives = last - first
        for c in range(n_positives):
            add_candidate(scratch, p, c, np.int64(examples.label_ids[first + c]), 1, 0)
        e = position - begin
        if search.steps > 0:
            n, one_loss = pass_messages(
                coefficients, index, search, tables.outputs.rows, constants, scratch.h, e, scratch.rows, scratch.batch.label, p,
                n_positives, scratch.batch.z, probe, messages,
            )  # fmt: skip
            loss += one_loss
        else:
            n = candidates(index, search, scratch.h, e, scratch.rows, p, n_positives, most, probe)
            for c in range(n_positives, n):
                scratch.batch.label[p, c], scratch.batch.sample_count[p, c], scratch.batch.log_expected_count[p, c] = 0, 1, 0
        scratch.n_candidates[p] = n
        width = max(width, n)
        visit(tables, plan, scratch, p, e, i, stream, 0)
        p += 1
    for line in range(p):
        for c in range(scratch.n_candidates[line], width):
            scratch.batch.label[line, c], scratch.batch.sample_count[line, c], scratch.batch.z[line, c] = 0, 0, 0
        for c in range(scratch.n_candidates[line]):
            decay_row(tables.outputs, np.int64(scratch.rows[line, c]), plan.dim - plan.has_bias, optimizer, decay_clock)
    return p, width, loss

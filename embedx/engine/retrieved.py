"""The training kernel of classification where an index finds the rows that each example meets.

A step is that of `rows`, a minibatch whose examples have a line each; only the choice of candidates differs. With message
passing (`SearchSpec.message_iterations`) the coefficients come from there, else from the exact scores of the candidates.
"""

import numpy as np

from embedx.engine.examples import descend_features
from embedx.engine.sampled import (
    add_candidate,
    clear_gradient_of_h,
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
from embedx.search.message_passing import pass_messages
from embedx.search.query import find_candidates
from embedx.search.updater import mark_stale


@kernel
def train_chunk(
    coefficients, tables, examples, index, search, constants, optimizer, plan, workspace, query, messages, stale,
    order, start, stop, lr, decay_clock, key,
):  # fmt: skip
    """Train on the examples order[start:stop], a minibatch at a time; return the summed loss, the lines, the decay clock.

    `key` decides which label stands for all, where one does. An example without labels is passed over.
    """
    loss = 0.0
    n_seen = 0
    for begin in range(start, stop, plan.batch_size):
        end = min(begin + plan.batch_size, stop)
        read_examples(tables, examples, optimizer, plan, workspace, order, begin, end, decay_clock)
        n_lines, width, passed = _choose(
            coefficients, tables, examples, index, search, constants, optimizer, plan, workspace, query, messages,
            order, begin, end, decay_clock, key,
        )  # fmt: skip
        loss += passed
        if search.message_iterations == 0:
            score_candidates(tables, examples, plan, workspace, order, begin, 0, n_lines)
            loss += coefficients(
                workspace.batch, tables.state, constants, n_lines, width, np.float32(lr) * optimizer.state_rate
            )
        n_seen += n_lines
        scale = np.float32(plan.sum_over / (end - begin))
        rate = step_size(optimizer, lr)
        if plan.has_hidden:
            clear_gradient_of_h(workspace, end - begin)
            gradient_of_h(tables, plan, workspace, 0, n_lines, end - begin, scale)
        n_touched = descend_outputs(tables, examples, optimizer, plan, workspace, order, begin, 0, n_lines, scale, rate)
        mark_stale(workspace.groups.touched, n_touched, stale)
        if plan.has_hidden:
            descend_features(
                tables.hidden, examples, optimizer, plan.dim - plan.has_bias, workspace.features, workspace.h_gradient,
                order, begin, end, rate,
            )  # fmt: skip
        decay_clock += clock_step(optimizer, lr)
    return loss, n_seen, decay_clock


@kernel_part
def _choose(
    coefficients, tables, examples, index, search, constants, optimizer, plan, workspace, query, messages,
    order, begin, end, decay_clock, key,
):  # fmt: skip
    """Write the lines of a minibatch. Return how many there are, the most candidates of one, and the loss of the messages."""
    p = width = 0
    loss = 0.0
    most = workspace.rows.shape[1]
    batch = workspace.batch
    for position in range(begin, end):
        i = order[position]
        stream = bits(key, np.uint64(position))
        first, last = labels_of(examples, plan, i, stream)
        if first == last:
            continue
        n_positives = last - first
        for c in range(n_positives):
            add_candidate(workspace, p, c, np.int64(examples.label_ids[first + c]), 1, 0)
        e = position - begin
        if search.message_iterations > 0:
            n, one_loss = pass_messages(
                coefficients, index, search, tables.outputs.rows, constants, workspace.h, e, workspace.rows, batch.label, p,
                n_positives, batch.z, query, messages,
            )  # fmt: skip
            loss += one_loss
        else:
            n = find_candidates(index, search, workspace.h, e, workspace.rows, p, n_positives, most, query)
            for c in range(n_positives, n):
                workspace.batch.label[p, c], workspace.batch.sample_count[p, c], workspace.batch.log_expected_count[p, c] = (
                    0,
                    1,
                    0,
                )
        workspace.n_candidates[p] = n
        width = max(width, n)
        visit(tables, plan, workspace, p, e, i, stream, 0)
        p += 1
    for line in range(p):
        for c in range(workspace.n_candidates[line], width):
            workspace.batch.label[line, c], workspace.batch.sample_count[line, c], workspace.batch.z[line, c] = 0, 0, 0
        for c in range(workspace.n_candidates[line]):
            decay_row(tables.outputs, np.int64(workspace.rows[line, c]), plan.dim - plan.has_bias, optimizer, decay_clock)
    return p, width, loss

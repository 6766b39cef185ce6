"""The training kernel of classification where each example meets a few output rows: drawn ones, or those on a tree's path.

A step is a minibatch. Its examples choose their candidates, all scores are taken, the objective turns them into coefficients,
and each distinct row then takes one step along the sum of what its entries ask for:

    entry (p, c)    example p and its candidate c, row rows[p, c], score z[p, c]
    gradient of a row = scale · Σ of its entries' coefficients · h_p

A "single" objective has an entry line p for each positive of an example, the others one for each example. Lines are answered
together, from the same scores; those of an objective with a step of its own one after another, or their steps would add up.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import (
    Examples,
    FeatureWorkspace,
    Groups,
    copy_features,
    descend_features,
    new_feature_workspace,
    new_groups,
    put,
    sum_rows,
)  # fmt: skip
from embedx.engine.sparse_rows import (
    Slots,
    SlotSteps,
    clear_scattered,
    collect_bias,
    collect_read,
    collect_sought,
    gain_of_row,
    is_sought,
    new_slot_steps,
    scatter,
    score_of_row,
    step_of_slots,
)
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import dot
from embedx.kernels.random import bits, open_uniform, uniform
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, padded, prefetch, splat, store, zeros
from embedx.optimizers.contract import PER_ROW, Table
from embedx.optimizers.decay import clock_step, decay_row, shorten, step_size
from embedx.optimizers.descend import descend_row, descend_sparse, row_rate
from embedx.samplers.contract import FILTER_SIZE, SampleWorkspace, new_sample_workspace

SINGLE, JOINT, SUMMED = 0, 1, 2
POSITIVES = {"single": SINGLE, "joint": JOINT, "summed": SUMMED}
AHEAD = 4  # candidates whose rows are asked for before they are needed


class SampledTables(NamedTuple):
    """The parameters; shared by all threads and updated without locks."""

    hidden: Table  # a row for each feature; empty without hidden layer
    outputs: Table  # a row for each output row; its last number is the bias, if there is one
    state: np.ndarray  # float32 (n_examples, state_width)
    n_updates: np.ndarray  # int64 (n_examples,)
    slots: Slots  # where the numbers of sparse output rows are, which are then one row of `outputs`


class SampledPlan(NamedTuple):
    """What the settings say about steps, as plain numbers."""

    n_features: int
    dim: int  # of h, the constant 1 for the bias included
    has_bias: bool
    is_dense: bool
    has_hidden: bool
    has_sparse_rows: bool
    positives: int
    on_path: bool  # the candidates are the nodes on the way to the positive; else positives and draws
    counts_repeats: bool  # of draws
    n_draws: int
    n_classes: int
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    one_label: bool  # a random label of an example stands for all at each visit
    in_turn: bool  # each line is answered, and the output rows moved, before the next
    batch_size: int
    sum_over: float  # coefficients are multiplied by this and divided by the number of examples in the step


class SampledWorkspace(NamedTuple):
    """One worker's own memory."""

    h: np.ndarray  # float32 (batch_size, stride); (0, stride) for sparse features without hidden layer
    h_gradient: np.ndarray  # like h, with hidden layer
    example: np.ndarray  # int64 (max lines,): the example in the batch that a line belongs to
    rows: np.ndarray  # int32 (max lines, max candidates)
    n_candidates: np.ndarray  # int64 (max lines,)
    batch: Batch  # a row for each line, a column for each of its candidates
    seen: np.ndarray  # int64 (SLOTS,): the last line that a row (or rank) with this remainder was drawn for
    sampling: SampleWorkspace
    gradient: np.ndarray  # float32 (1, stride of the output rows)
    groups: Groups  # entries by output row
    features: FeatureWorkspace  # of the hidden layer
    x: np.ndarray  # float32 (n_features,): zeros, over which an example that meets sparse output rows is scattered
    slot_steps: SlotSteps  # of sparse output rows


def new_workspace(
    plan: SampledPlan, examples: Examples, n_rows: int, longest_path: int, uniforms_width: int
) -> SampledWorkspace:
    """Memory for a worker; minibatches may hold any of the examples."""
    n_labels = np.sort(np.diff(examples.label_offsets))[::-1]
    most_labels = max(int(n_labels[:1].sum()), 1)
    batch = min(plan.batch_size, len(n_labels))
    lines = batch if plan.positives != SINGLE or plan.one_label else max(int(n_labels[:batch].sum()), 1)
    positives = 1 if plan.positives == SINGLE or plan.one_label else most_labels
    width = longest_path if plan.on_path else positives + plan.n_draws
    stride = padded(plan.dim)
    has_h = plan.is_dense or plan.has_hidden

    return SampledWorkspace(
        h=aligned_zeros(batch if has_h else 0, plan.dim),
        h_gradient=aligned_zeros(batch if plan.has_hidden else 0, plan.dim),
        example=np.zeros(lines, dtype=np.int64),
        rows=np.zeros((lines, width), dtype=np.int32),
        n_candidates=np.zeros(lines, dtype=np.int64),
        batch=new_batch(lines, width, uniforms_width),
        seen=np.full(FILTER_SIZE, -1, dtype=np.int64),
        sampling=new_sample_workspace(plan.n_draws, most_labels),
        gradient=np.zeros((1, stride), dtype=np.float32),
        groups=new_groups(n_rows, lines * width),
        features=new_feature_workspace(examples, plan.n_features if plan.has_hidden else 0, batch, plan.dim),
        x=np.zeros(plan.n_features if plan.has_sparse_rows else 0, dtype=np.float32),
        slot_steps=new_slot_steps(plan.dim if plan.has_sparse_rows else 0),
    )


@kernel
def train_chunk(
    coefficients, sample, log_expected_count, tables, examples, sampler_data, constants, optimizer, plan, workspace,
    order, start, stop, lr, decay_clock, key,
):  # fmt: skip
    """Train on the examples order[start:stop], a minibatch at a time; return the summed loss, the lines, the decay clock.

    `key` decides what is drawn, by position. An example without labels is passed over.
    """
    loss = 0.0
    n_seen = 0
    workspace.seen[:] = -1
    for begin in range(start, stop, plan.batch_size):
        end = min(begin + plan.batch_size, stop)
        n_lines, width = _choose(
            sample, log_expected_count, tables, examples, sampler_data, plan, workspace, order, begin, end, key
        )  # fmt: skip
        _fill_up(tables, optimizer, plan, workspace, n_lines, width, decay_clock)
        read_examples(tables, examples, optimizer, plan, workspace, order, begin, end, decay_clock)
        n_seen += n_lines
        scale = np.float32(plan.sum_over / (end - begin))
        rate = step_size(optimizer, lr)
        if plan.has_hidden:
            clear_gradient_of_h(workspace, end - begin)
        at_once = 1 if plan.in_turn else n_lines
        for first in range(0, n_lines, max(at_once, 1)):
            last = first + at_once
            score_candidates(tables, examples, plan, workspace, order, begin, first, last)
            lines = lines_of(workspace.batch, first, last)
            loss += coefficients(lines, tables.state, constants, at_once, width, np.float32(lr) * optimizer.state_rate)
            if plan.has_hidden:
                gradient_of_h(tables, plan, workspace, first, last, end - begin, scale)
            descend_outputs(tables, examples, optimizer, plan, workspace, order, begin, first, last, scale, rate)
        if plan.has_hidden:
            descend_features(
                tables.hidden, examples, optimizer, plan.dim - plan.has_bias, workspace.features, workspace.h_gradient,
                order, begin, end, rate,
            )  # fmt: skip
        decay_clock += clock_step(optimizer, lr)
    return loss, n_seen, decay_clock


# ---- which rows compete


@kernel_part
def _choose(
    sample, log_expected_count, tables, examples, sampler_data, plan, workspace, order, begin, end, key
):  # fmt: skip
    """Write the lines of the examples order[begin:end], all but their scores; return the number of lines and the largest number
    of candidates.
    """
    p = width = 0
    for position in range(begin, end):
        i = order[position]
        stream = bits(key, np.uint64(position))
        label, last_label = labels_of(examples, plan, i, stream)
        if label == last_label:
            continue
        if plan.positives == SINGLE:
            for at in range(label, last_label):
                own = bits(stream, np.uint64(at - label))
                n = _choose_line(sample, log_expected_count, examples, sampler_data, plan, workspace, p, i, at, at + 1, own)
                width = max(width, n)
                visit(tables, plan, workspace, p, position - begin, i, stream, at - label)
                p += 1
        else:
            n = _choose_line(
                sample, log_expected_count, examples, sampler_data, plan, workspace, p, i, label, last_label, stream
            )
            width = max(width, n)
            visit(tables, plan, workspace, p, position - begin, i, stream, 0)
            p += 1
    return p, width


@kernel_part
def _fill_up(tables, optimizer, plan, workspace, n_lines, width, decay_clock):
    """Write what lines that have fewer candidates than `width` have in their place, and apply the decay due to all rows."""
    batch = workspace.batch
    for line in range(n_lines):
        for c in range(workspace.n_candidates[line], width):
            batch.z[line, c], batch.label[line, c] = 0, 0
            batch.sample_count[line, c], batch.log_expected_count[line, c] = 0, 0
            workspace.rows[line, c] = 0
        for c in range(workspace.n_candidates[line]):
            decay_row(tables.outputs, np.int64(workspace.rows[line, c]), plan.dim - plan.has_bias, optimizer, decay_clock)


@kernel_part
def labels_of(examples, plan, i, stream):
    """Where the labels of example i stand, of which a random one may stand for all."""
    first, last = examples.label_offsets[i], examples.label_offsets[i + 1]
    if plan.one_label and first < last:
        first += min(np.int64(uniform(stream, np.uint64(2**62)) * (last - first)), last - first - 1)
        last = first + 1
    return first, last


@kernel_part
def visit(tables, plan, workspace, p, e, i, stream, number):
    """Tell line p its example, key, number of updates and random numbers."""
    workspace.example[p] = e
    workspace.batch.key[p] = i
    for d in range(workspace.batch.uniforms.shape[1]):
        workspace.batch.uniforms[p, d] = open_uniform(bits(stream, np.uint64(2**61 + number)), np.uint64(d))
    if tables.state.shape[1] > 0:
        workspace.batch.n_updates[p] = tables.n_updates[i]
        tables.n_updates[i] += 1


@kernel_part
def _choose_line(sample, log_expected_count, examples, sampler_data, plan, workspace, p, i, first, last, stream):
    """Write the candidates of line p, of example i, whose positives are label_ids[first:last]; return their number."""
    if plan.on_path:
        n = _path(sampler_data, workspace, p, np.int64(examples.label_ids[first]))
    else:
        for at in range(first, last):
            add_candidate(workspace, p, at - first, np.int64(examples.label_ids[at]), 1, 0)
        n = _draw_noise(sample, log_expected_count, sampler_data, plan, workspace, p, i, last - first, stream)
        if plan.positives == SUMMED:
            for c in range(n):
                workspace.batch.sample_count[p, c] *= np.float32(last - first)
    workspace.n_candidates[p] = n
    return n


@kernel_part
def add_candidate(workspace, p, c, row, label, count):
    """Write candidate c of line p."""
    workspace.rows[p, c] = row
    workspace.batch.label[p, c] = label
    workspace.batch.sample_count[p, c] = count
    workspace.batch.log_expected_count[p, c] = 0


@kernel_part
def _path(sampler_data, workspace, p, label):
    """The nodes on the way to a label; the number of them."""
    begin, end = sampler_data.offsets[label], sampler_data.offsets[label + 1]
    for at in range(begin, end):
        bit = sampler_data.values[at]
        add_candidate(workspace, p, at - begin, np.int64(sampler_data.rows[at]), bit, np.float32(1) - bit)
    return end - begin


@kernel_part
def _draw_noise(sample, log_expected_count, sampler_data, plan, workspace, p, i, n_positives, stream):
    """Add what the sampler draws for line p, of example i, to its positives. Return the number of candidates."""
    rows, sample_count, seen = workspace.rows, workspace.batch.sample_count, workspace.seen
    n_excluded = 0 if plan.keeps_accidental_hits else n_positives
    for c in range(n_excluded):
        workspace.sampling.excluded[c] = rows[p, c]
    n_drawn = sample(sampler_data, i, stream, np.uint64(0), plan.n_draws, n_excluded, workspace.sampling)
    n = n_positives
    for c in range(n_positives):
        seen[rows[p, c] % FILTER_SIZE] = p
    for d in range(n_drawn):
        row = np.int64(workspace.sampling.rows[d])
        slot = row % FILTER_SIZE
        at = n
        if seen[slot] == p:
            at = 0
            while at < n and rows[p, at] != row:
                at += 1
        seen[slot] = p
        if at == n:
            add_candidate(workspace, p, n, row, 0, 1)
            n += 1
        elif at >= n_positives or plan.keeps_accidental_hits:
            sample_count[p, at] = sample_count[p, at] + 1 if plan.counts_repeats else 1
    if plan.uses_log_expected_count:
        log_expected_count(sampler_data, i, n_drawn, n_excluded, rows[p], n, workspace.batch.log_expected_count[p])
    for c in range(n):
        seen[rows[p, c] % FILTER_SIZE] = -1
    return n


# ---- scores


@kernel_part
def read_examples(tables, examples, optimizer, plan, workspace, order, begin, end, decay_clock):
    """Write h of the examples order[begin:end], unless features are sparse and meet the output rows themselves."""
    for e in range(min(workspace.h.shape[0], end - begin)):
        if plan.has_hidden:
            sum_rows(
                examples, order[begin + e], tables.hidden, plan.dim - plan.has_bias, optimizer, decay_clock, workspace.h, e
            )
        else:
            copy_features(examples, order[begin + e], workspace.h, e)
        if plan.has_bias:
            workspace.h[e, plan.dim - 1] = 1


@kernel_part
def score_candidates(tables, examples, plan, workspace, order, begin, first_line, last_line):
    """Write the score of every candidate of some lines, and where it is asked for |h|², of sparse rows what they have of it."""
    table = tables.outputs.rows
    for p in range(first_line, last_line):
        e = workspace.example[p]
        n = workspace.n_candidates[p]
        if workspace.h.shape[0] > 0:
            for c in range(n):
                if c + AHEAD < n:
                    for d in range(0, table.shape[1], SIMD_WIDTH):
                        prefetch(table, np.int64(workspace.rows[p, c + AHEAD]), d)
                workspace.batch.z[p, c] = dot(workspace.h, e, table, np.int64(workspace.rows[p, c]))
            if plan.uses_score_gain:
                workspace.batch.score_gain[p, :n] = dot(workspace.h, e, workspace.h, e)
        else:
            first, last = examples.offsets[order[begin + e]], examples.offsets[order[begin + e] + 1]
            if plan.has_sparse_rows:
                scatter(examples, first, last, workspace.x)
            for c in range(n):
                row = np.int64(workspace.rows[p, c])
                if plan.has_sparse_rows:
                    z = score_of_row(examples, first, last, workspace.x, tables.slots, tables.outputs, plan.has_bias, row)
                    if plan.uses_score_gain:
                        workspace.batch.score_gain[p, c] = gain_of_row(workspace.x, tables.slots, plan.has_bias, row)
                else:
                    z = table[row, plan.dim - 1] if plan.has_bias else np.float32(0)
                    for f in range(first, last):
                        z += examples.values[f] * table[row, examples.columns[f]]
                workspace.batch.z[p, c] = z
            if plan.has_sparse_rows:
                clear_scattered(examples, first, last, workspace.x)
            elif plan.uses_score_gain:
                square = np.float32(plan.has_bias)
                for f in range(first, last):
                    square += examples.values[f] * examples.values[f]
                workspace.batch.score_gain[p, :n] = square


# ---- steps


@kernel_part
def lines_of(batch, first, last):
    """The lines first:last of a batch, a view."""
    return Batch(
        batch.z[first:last], batch.label[first:last], batch.sample_count[first:last], batch.log_expected_count[first:last],
        batch.uniforms[first:last], batch.key[first:last], batch.n_updates[first:last], batch.score_gain[first:last],
    )  # fmt: skip


@kernel_part
def clear_gradient_of_h(workspace, n):
    """Write zeros to h_gradient[:n]."""
    for e in range(n):
        for d in range(0, workspace.h.shape[1], SIMD_WIDTH):
            store(workspace.h_gradient, e, d, zeros())


@kernel_part
def gradient_of_h(tables, plan, workspace, first_line, last_line, n, scale):
    """Add to h_gradient[:n] the gradients by the scores of some lines, before any row is updated by them."""
    stride = workspace.h.shape[1]
    for p in range(first_line, last_line):
        e = workspace.example[p]
        for c in range(workspace.n_candidates[p]):
            if workspace.batch.z[p, c] != 0:
                row = np.int64(workspace.rows[p, c])
                x = splat(scale * workspace.batch.z[p, c])
                for d in range(0, stride, SIMD_WIDTH):
                    g = multiply_add(x, load(tables.outputs.rows, row, d), load(workspace.h_gradient, e, d))
                    store(workspace.h_gradient, e, d, g)
    if plan.has_bias:  # along which no h moves
        for e in range(n):
            workspace.h_gradient[e, plan.dim - 1] = 0


@kernel_part
def descend_outputs(
    tables, examples, optimizer, plan, workspace, order, begin, first_line, last_line, scale, rate
):  # fmt: skip
    """Update each output row that has coefficients in some lines: groups.touched[:n]; return n."""
    n_touched = 0
    for p in range(first_line, last_line):
        for c in range(workspace.n_candidates[p]):
            if workspace.batch.z[p, c] != 0:
                row = np.int64(workspace.rows[p, c])
                n_touched = put(workspace.groups, row, p * workspace.batch.z.shape[1] + c, n_touched)
    for t in range(n_touched):
        row = np.int64(workspace.groups.touched[t])
        if workspace.h.shape[0] > 0:
            _step_of_row(tables.outputs, optimizer, plan, workspace, row, scale, rate)
        else:
            _sparse_step_of_row(tables, examples, optimizer, plan, workspace, order, begin, row, scale, rate)
        workspace.groups.first[row] = -1
        if optimizer.max_norm > 0:
            shorten(tables.outputs, row, plan.dim - plan.has_bias, optimizer.max_norm)
    return n_touched


@kernel_part
def _step_of_row(table, optimizer, plan, workspace, row, scale, rate):
    """The step of an output row whose examples have an h."""
    g, columns = workspace.gradient, workspace.batch.z.shape[1]
    for d in range(0, g.shape[1], SIMD_WIDTH):
        store(g, 0, d, zeros())
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // columns
        x = splat(scale * workspace.batch.z[p, entry % columns])
        e = workspace.example[p]
        for d in range(0, g.shape[1], SIMD_WIDTH):
            store(g, 0, d, multiply_add(x, load(workspace.h, e, d), load(g, 0, d)))
        entry = workspace.groups.following[entry]
    descend_row(table, row, g, 0, plan.dim, optimizer, rate)


@kernel_part
def _sparse_step_of_row(tables, examples, optimizer, plan, workspace, order, begin, row, scale, rate):
    """The step of an output row that meets sparse features: only where its examples have any."""
    g, columns, table = workspace.gradient, workspace.batch.z.shape[1], tables.outputs
    bias = plan.dim - 1
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // columns
        x = scale * workspace.batch.z[p, entry % columns]
        i = order[begin + workspace.example[p]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            g[0, examples.columns[f]] += x * examples.values[f]
        if plan.has_bias:
            g[0, bias] += x
        entry = workspace.groups.following[entry]
    if plan.has_sparse_rows:
        _step_of_sparse_row(tables, examples, optimizer, plan, workspace, order, begin, row, rate)
        return
    if table.state_of == PER_ROW:
        rate = row_rate(table, row, _sparse_square(examples, plan, workspace, order, begin, row, scale), optimizer, rate)
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = order[begin + workspace.example[entry // columns]]
        first, last = examples.offsets[i], examples.offsets[i + 1]
        descend_sparse(table, row, examples.columns, first, last, bias if plan.has_bias else -1, g, optimizer, rate)
        entry = workspace.groups.following[entry]


@kernel_part
def _step_of_sparse_row(tables, examples, optimizer, plan, workspace, order, begin, row, rate):
    """The same of a row that has a number for some of these features alone."""
    g, steps, n = workspace.gradient[:, : plan.dim], workspace.slot_steps, 0
    if plan.has_bias:
        n = collect_bias(tables.slots, row, g[0, plan.dim - 1], steps)
        g[0, plan.dim - 1] = 0
    n_values = 0
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = order[begin + workspace.example[entry // workspace.batch.z.shape[1]]]
        n_values += examples.offsets[i + 1] - examples.offsets[i]
        entry = workspace.groups.following[entry]
    sought = is_sought(tables.slots, plan.has_bias, row, plan.n_features, n_values)
    if not sought:
        n = collect_read(tables.slots, plan.has_bias, row, g, n, steps)
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = order[begin + workspace.example[entry // workspace.batch.z.shape[1]]]
        first, last = examples.offsets[i], examples.offsets[i + 1]
        if sought:
            n = collect_sought(examples, first, last, tables.slots, plan.has_bias, row, g, n, steps)
        else:
            for f in range(first, last):
                g[0, examples.columns[f]] = 0
        entry = workspace.groups.following[entry]
    step_of_slots(tables.outputs, row, steps, n, optimizer, rate)


@kernel_part
def _sparse_square(examples, plan, workspace, order, begin, row, scale):
    """|g|² of the gradient g that the entries of an output row have added up to.

    Taken as Σ over entries of (what the entry added)·g, so that features of several entries need not be told apart.
    """
    g, columns = workspace.gradient, workspace.batch.z.shape[1]
    square = np.float32(0)
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // columns
        i = order[begin + workspace.example[p]]
        dot = g[0, plan.dim - 1] if plan.has_bias else np.float32(0)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            dot += examples.values[f] * g[0, examples.columns[f]]
        square += scale * workspace.batch.z[p, entry % columns] * dot
        entry = workspace.groups.following[entry]
    return max(square, np.float32(0))

"""Classification with a few candidates for each example: sampled ones, or the nodes on a tree's path.

A step is a minibatch. Its examples select their candidates, all scores are computed, the objective turns them into
coefficients, and each distinct output row takes one step along the sum of its gradients:

    entry (p, c)    line p and its candidate c: row rows[p, c], score z[p, c]
    gradient of a row = scale · Σ of its entries' coefficients · h_p

A "single" objective has a line for each positive of an example, the others one for each example. Scores are computed for all
lines before any row moves; a proximal objective takes its lines one after another, or their steps would add up.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import (
    Csr,
    Examples,
    FeatureWorkspace,
    Groups,
    copy_features,
    descend_features,
    new_feature_workspace,
    new_groups,
    put,
    sum_rows,
)
from embedx.engine.select import SINGLE, draw_weight, set_negative, set_node, set_padding, set_positive
from embedx.engine.sparse_rows import (
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
from embedx.optimizers.contract import PER_ROW, Table, UpdateRule
from embedx.optimizers.decay import clock_step, decay_row, shorten, step_size
from embedx.optimizers.descend import descend_row, descend_sparse, row_rate
from embedx.samplers.contract import FILTER_SIZE, SamplerData, SampleWorkspace, new_sample_workspace

AHEAD = 4  # candidates whose rows are prefetched


class SampledPlan(NamedTuple):
    """The settings of steps, as plain numbers."""

    n_features: int
    dim: int  # of h, the constant 1 for the bias included
    has_bias: bool
    has_hidden: bool
    has_h: bool  # features are dense or there is a hidden layer; else output rows are scored against sparse features
    has_sparse_rows: bool
    positives: int
    on_path: bool  # the candidates are the nodes on the path to the positive; else positives and draws
    counts_repeats: bool  # of draws
    n_draws: int
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    one_label: bool  # a random label of an example stands for all at each visit
    in_turn: bool  # lines are trained one after another
    batch_size: int
    sum_over: float  # coefficients are multiplied by this and divided by the number of examples in the step


class Shared(NamedTuple):
    """What all threads share; the parameters are updated without locks."""

    hidden: Table  # a row for each feature; empty without hidden layer
    outputs: Table  # a row for each output row; its last number is the bias, if there is one
    state: np.ndarray  # float32 (n_examples, state_width)
    n_updates: np.ndarray  # int64 (n_examples,)
    slots: Csr  # the features of sparse output rows, which are then one row of `outputs`; see sparse_rows
    examples: Examples
    draws: SamplerData
    constants: np.ndarray  # of the objective
    optimizer: UpdateRule
    plan: SampledPlan


class SampledWorkspace(NamedTuple):
    """One worker's buffers."""

    h: np.ndarray  # float32 (batch_size, stride); (0, stride) for sparse features without hidden layer
    h_gradient: np.ndarray  # like h, with hidden layer
    example: np.ndarray  # int64 (max lines,): the example in the batch that a line belongs to
    rows: np.ndarray  # int32 (max lines, max candidates)
    n_candidates: np.ndarray  # int64 (max lines,)
    batch: Batch  # a row for each line, a column for each of its candidates
    seen: np.ndarray  # int64 (FILTER_SIZE,): the last line that a row with this remainder was drawn for
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
    max_labels = max(int(n_labels[:1].sum()), 1)
    batch = min(plan.batch_size, len(n_labels))
    lines = batch if plan.positives != SINGLE or plan.one_label else max(int(n_labels[:batch].sum()), 1)
    positives = 1 if plan.positives == SINGLE or plan.one_label else max_labels
    width = longest_path if plan.on_path else positives + plan.n_draws
    return SampledWorkspace(
        h=aligned_zeros(batch if plan.has_h else 0, plan.dim),
        h_gradient=aligned_zeros(batch if plan.has_hidden else 0, plan.dim),
        example=np.zeros(lines, dtype=np.int64),
        rows=np.zeros((lines, width), dtype=np.int32),
        n_candidates=np.zeros(lines, dtype=np.int64),
        batch=new_batch(lines, width, uniforms_width),
        seen=np.full(FILTER_SIZE, -1, dtype=np.int64),
        sampling=new_sample_workspace(plan.n_draws, max_labels),
        gradient=np.zeros((1, padded(plan.dim)), dtype=np.float32),
        groups=new_groups(n_rows, lines * width),
        features=new_feature_workspace(examples, plan.n_features if plan.has_hidden else 0, batch, plan.dim),
        x=np.zeros(plan.n_features if plan.has_sparse_rows else 0, dtype=np.float32),
        slot_steps=new_slot_steps(plan.dim if plan.has_sparse_rows else 0),
    )


@kernel
def train_chunk(coefficients, sample, log_expected_count, shared, workspace, order, start, stop, lr, decay_clock, key):
    """Train on the examples order[start:stop], a minibatch at a time; return the summed loss, the lines, the decay clock.

    `key` decides the draws, by position. An example without labels is passed over.
    """
    plan, optimizer = shared.plan, shared.optimizer
    loss = 0.0
    n_seen = 0
    workspace.seen[:] = -1
    for begin in range(start, stop, plan.batch_size):
        end = min(begin + plan.batch_size, stop)
        n_lines, width = _choose(sample, log_expected_count, shared, workspace, order, begin, end, key)
        fill_up(shared, workspace, n_lines, width, decay_clock)
        encode(shared, workspace, order[begin:end], decay_clock)
        n_seen += n_lines
        scale = np.float32(plan.sum_over / (end - begin))
        rate = step_size(optimizer, lr)
        at_once = 1 if plan.in_turn else n_lines
        for first in range(0, n_lines, max(at_once, 1)):
            last = first + at_once
            score_candidates(shared, workspace, order[begin:end], first, last)
            lines = lines_of(workspace.batch, first, last)
            loss += coefficients(lines, shared.state, shared.constants, at_once, width, np.float32(lr) * optimizer.state_rate)
            gradient_of_h(shared, workspace, first, last, end - begin, scale)
            descend_outputs(shared, workspace, order[begin:end], first, last, scale, rate)
        backward(shared, workspace, order, begin, end, rate)
        decay_clock += clock_step(optimizer, lr)
    return loss, n_seen, decay_clock


# ---- select


@kernel_part
def _choose(sample, log_expected_count, shared, workspace, order, begin, end, key):
    """Write the lines of the examples order[begin:end], all but their scores; return the number of lines and the largest number
    of candidates.
    """
    plan = shared.plan
    p = width = 0
    for position in range(begin, end):
        i = order[position]
        stream = bits(key, np.uint64(position))
        first, last = labels_of(shared.examples, plan, i, stream)
        n = 1 if plan.positives == SINGLE else last - first  # of a line
        for at in range(first, last, max(n, 1)):
            new_line(shared, workspace, p, position - begin, i, stream, at - first)
            own = bits(stream, np.uint64(at - first)) if plan.positives == SINGLE else stream
            width = max(width, _choose_line(sample, log_expected_count, shared, workspace, p, at, n, own))
            p += 1
    return p, width


@kernel_part
def labels_of(examples, plan, i, stream):
    """The range of the labels of example i in label_ids; a random one of them may stand for all."""
    first, last = examples.label_offsets[i], examples.label_offsets[i + 1]
    if plan.one_label and first < last:
        first += min(np.int64(uniform(stream, np.uint64(2**62)) * (last - first)), last - first - 1)
        last = first + 1
    return first, last


@kernel_part
def new_line(shared, workspace, p, e, i, stream, number):
    """Write the example, key, number of updates and random numbers of line p, the one of that number of example i."""
    workspace.example[p] = e
    workspace.batch.key[p] = i
    for d in range(workspace.batch.uniforms.shape[1]):
        workspace.batch.uniforms[p, d] = open_uniform(bits(stream, np.uint64(2**61 + number)), np.uint64(d))
    if shared.state.shape[1] > 0:
        workspace.batch.n_updates[p] = shared.n_updates[i]
        shared.n_updates[i] += 1


@kernel_part
def _choose_line(sample, log_expected_count, shared, workspace, p, first, n_positives, stream):
    """Write the candidates of line p, whose positives are label_ids[first:first + n_positives]; return their number."""
    if shared.plan.on_path:
        n = _path(shared, workspace, p, np.int64(shared.examples.label_ids[first]))
    else:
        add_positives(shared, workspace, p, first, n_positives)
        n = _draw(sample, log_expected_count, shared, workspace, p, n_positives, stream)
        weight = draw_weight(shared.plan.positives, n_positives)
        if weight != 1:
            for c in range(n):
                workspace.batch.sample_count[p, c] *= weight
    workspace.n_candidates[p] = n
    return n


@kernel_part
def add_positives(shared, workspace, p, first, n):
    """Write the first n candidates of line p: the positives label_ids[first:first + n]."""
    for c in range(n):
        workspace.rows[p, c] = shared.examples.label_ids[first + c]
        workspace.batch.log_expected_count[p, c] = 0
        set_positive(workspace.batch, p, c, 1, np.float32(0), False)


@kernel_part
def _path(shared, workspace, p, label):
    """Write the nodes on the path to a label; return their number."""
    begin, end = shared.draws.offsets[label], shared.draws.offsets[label + 1]
    for at in range(begin, end):
        bit = shared.draws.values[at]
        workspace.rows[p, at - begin] = shared.draws.rows[at]
        set_node(workspace.batch, p, at - begin, bit, np.float32(1) - bit)
    return end - begin


@kernel_part
def _draw(sample, log_expected_count, shared, workspace, p, n_positives, stream):
    """Add the sampler's draws for line p to its positives; return the number of candidates."""
    plan, rows, batch, seen, sampling = shared.plan, workspace.rows, workspace.batch, workspace.seen, workspace.sampling
    i = batch.key[p]
    n_excluded = 0 if plan.keeps_accidental_hits else n_positives
    for c in range(n_excluded):
        sampling.excluded[c] = rows[p, c]
    n_drawn = sample(shared.draws, i, stream, np.uint64(0), plan.n_draws, n_excluded, sampling)
    n = n_positives
    for c in range(n_positives):
        seen[rows[p, c] % FILTER_SIZE] = p
    for d in range(n_drawn):
        row = np.int64(sampling.rows[d])
        slot = row % FILTER_SIZE
        at = n
        if seen[slot] == p:
            at = 0
            while at < n and rows[p, at] != row:
                at += 1
        seen[slot] = p
        if at == n:
            rows[p, n] = row
            set_negative(batch, p, n, 1)
            batch.log_expected_count[p, n] = 0
            n += 1
        elif at >= n_positives or plan.keeps_accidental_hits:
            batch.sample_count[p, at] = batch.sample_count[p, at] + 1 if plan.counts_repeats else 1
    if plan.uses_log_expected_count:
        log_expected_count(shared.draws, i, n_drawn, n_excluded, rows[p], n, batch.log_expected_count[p])
    for c in range(n):
        seen[rows[p, c] % FILTER_SIZE] = -1
    return n


@kernel_part
def fill_up(shared, workspace, n_lines, width, decay_clock):
    """Pad lines that have fewer candidates than `width`, and apply the weight decay that is due to all rows."""
    batch = workspace.batch
    for p in range(n_lines):
        for c in range(workspace.n_candidates[p], width):
            set_padding(batch, p, c)
            batch.z[p, c], batch.log_expected_count[p, c] = 0, 0
            workspace.rows[p, c] = 0
        for c in range(workspace.n_candidates[p]):
            row = np.int64(workspace.rows[p, c])
            decay_row(shared.outputs, row, shared.plan.dim - shared.plan.has_bias, shared.optimizer, decay_clock)


# ---- encode


@kernel_part
def encode(shared, workspace, chosen, decay_clock):
    """Write h of the chosen examples, if they have one."""
    plan, h = shared.plan, workspace.h
    if plan.has_h:
        for e in range(chosen.size):
            if plan.has_hidden:
                n = plan.dim - plan.has_bias
                sum_rows(shared.examples, chosen[e], shared.hidden, n, shared.optimizer, decay_clock, h, e)
            else:
                copy_features(shared.examples, chosen[e], h, e)
            if plan.has_bias:
                h[e, plan.dim - 1] = 1
    if plan.has_hidden:
        for e in range(chosen.size):
            for d in range(0, h.shape[1], SIMD_WIDTH):
                store(workspace.h_gradient, e, d, zeros())


@kernel_part
def gradient_of_h(shared, workspace, first_line, last_line, n, scale):
    """Add to h_gradient[:n] the gradients by the scores of some lines, before any row is updated by them."""
    plan = shared.plan
    if not plan.has_hidden:
        return
    for p in range(first_line, last_line):
        e = workspace.example[p]
        for c in range(workspace.n_candidates[p]):
            if workspace.batch.z[p, c] != 0:
                row = np.int64(workspace.rows[p, c])
                x = splat(scale * workspace.batch.z[p, c])
                for d in range(0, workspace.h.shape[1], SIMD_WIDTH):
                    g = multiply_add(x, load(shared.outputs.rows, row, d), load(workspace.h_gradient, e, d))
                    store(workspace.h_gradient, e, d, g)
    if plan.has_bias:  # along which no h moves
        for e in range(n):
            workspace.h_gradient[e, plan.dim - 1] = 0


@kernel_part
def backward(shared, workspace, order, begin, end, rate):
    """The steps of the hidden layer along h_gradient."""
    plan = shared.plan
    if plan.has_hidden:
        descend_features(
            shared.hidden, shared.examples, shared.optimizer, plan.dim - plan.has_bias, workspace.features,
            workspace.h_gradient, order, begin, end, rate,
        )  # fmt: skip


# ---- score


@kernel_part
def score_candidates(shared, workspace, chosen, first_line, last_line):
    """Write the score of every candidate of some lines, and its score gain where the objective uses it."""
    plan, batch, table = shared.plan, workspace.batch, shared.outputs.rows
    for p in range(first_line, last_line):
        e = workspace.example[p]
        n = workspace.n_candidates[p]
        if plan.has_h:
            for c in range(n):
                if c + AHEAD < n:
                    for d in range(0, table.shape[1], SIMD_WIDTH):
                        prefetch(table, np.int64(workspace.rows[p, c + AHEAD]), d)
                batch.z[p, c] = dot(workspace.h, e, table, np.int64(workspace.rows[p, c]))
            if plan.uses_score_gain:
                batch.score_gain[p, :n] = dot(workspace.h, e, workspace.h, e)
        elif plan.has_sparse_rows:
            _score_sparse_rows(shared, workspace, p, chosen[e])
        else:
            _score_sparse_features(shared, workspace, p, chosen[e])


@kernel_part
def _score_sparse_features(shared, workspace, p, i):
    """The scores of line p, of example i, whose sparse features are scored against whole output rows."""
    plan, examples, batch, table = shared.plan, shared.examples, workspace.batch, shared.outputs.rows
    first, last = examples.offsets[i], examples.offsets[i + 1]
    for c in range(workspace.n_candidates[p]):
        row = np.int64(workspace.rows[p, c])
        z = table[row, plan.dim - 1] if plan.has_bias else np.float32(0)
        for f in range(first, last):
            z += examples.values[f] * table[row, examples.columns[f]]
        batch.z[p, c] = z
    if plan.uses_score_gain:
        square = np.float32(plan.has_bias)
        for f in range(first, last):
            square += examples.values[f] * examples.values[f]
        batch.score_gain[p, : workspace.n_candidates[p]] = square


@kernel_part
def _score_sparse_rows(shared, workspace, p, i):
    """The same against sparse output rows."""
    plan, examples, x, batch = shared.plan, shared.examples, workspace.x, workspace.batch
    first, last = examples.offsets[i], examples.offsets[i + 1]
    scatter(examples, first, last, x)
    for c in range(workspace.n_candidates[p]):
        row = np.int64(workspace.rows[p, c])
        batch.z[p, c] = score_of_row(examples, first, last, x, shared.slots, shared.outputs, plan.has_bias, row)
        if plan.uses_score_gain:
            batch.score_gain[p, c] = gain_of_row(x, shared.slots, plan.has_bias, row)
    clear_scattered(examples, first, last, x)


@kernel_part
def lines_of(batch, first, last):
    """The lines first:last of a batch, a view."""
    return Batch(
        batch.z[first:last], batch.label[first:last], batch.sample_count[first:last], batch.log_expected_count[first:last],
        batch.uniforms[first:last], batch.key[first:last], batch.n_updates[first:last], batch.score_gain[first:last],
    )  # fmt: skip


# ---- apply


@kernel_part
def descend_outputs(shared, workspace, chosen, first_line, last_line, scale, rate):
    """Update each output row that has coefficients in some lines: groups.touched[:n]; return n."""
    plan, groups, z, n_touched = shared.plan, workspace.groups, workspace.batch.z, 0
    for p in range(first_line, last_line):
        for c in range(workspace.n_candidates[p]):
            if z[p, c] != 0:
                n_touched = put(groups, np.int64(workspace.rows[p, c]), p * z.shape[1] + c, n_touched)
    for t in range(n_touched):
        row = np.int64(groups.touched[t])
        if plan.has_h:
            _step_of_row(shared, workspace, row, scale, rate)
        else:
            _add_sparse_gradient(shared, workspace, chosen, row, scale)
            if plan.has_sparse_rows:
                _step_of_sparse_row(shared, workspace, chosen, row, rate)
            else:
                _step_by_sparse_features(shared, workspace, chosen, row, scale, rate)
        groups.first[row] = -1
        if shared.optimizer.max_norm > 0:
            shorten(shared.outputs, row, plan.dim - plan.has_bias, shared.optimizer.max_norm)
    return n_touched


@kernel_part
def _step_of_row(shared, workspace, row, scale, rate):
    """The step of an output row whose examples have an h."""
    g, z = workspace.gradient, workspace.batch.z
    for d in range(0, g.shape[1], SIMD_WIDTH):
        store(g, 0, d, zeros())
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // z.shape[1]
        x = splat(scale * z[p, entry % z.shape[1]])
        e = workspace.example[p]
        for d in range(0, g.shape[1], SIMD_WIDTH):
            store(g, 0, d, multiply_add(x, load(workspace.h, e, d), load(g, 0, d)))
        entry = workspace.groups.following[entry]
    descend_row(shared.outputs, row, g, 0, shared.plan.dim, shared.optimizer, rate)


@kernel_part
def _add_sparse_gradient(shared, workspace, chosen, row, scale):
    """Add up the gradient of an output row whose examples are sparse, where they have features; it is zero elsewhere."""
    g, z, examples, plan = workspace.gradient, workspace.batch.z, shared.examples, shared.plan
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // z.shape[1]
        x = scale * z[p, entry % z.shape[1]]
        i = chosen[workspace.example[p]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            g[0, examples.columns[f]] += x * examples.values[f]
        if plan.has_bias:
            g[0, plan.dim - 1] += x
        entry = workspace.groups.following[entry]


@kernel_part
def _step_by_sparse_features(shared, workspace, chosen, row, scale, rate):
    """The step of a whole output row along that gradient, which is zero afterwards."""
    g, table, examples, plan = workspace.gradient, shared.outputs, shared.examples, shared.plan
    if table.state_of == PER_ROW:
        square = _sparse_square(shared, workspace, chosen, row, scale)
        rate = row_rate(table, row, square, shared.optimizer, rate)
    bias = plan.dim - 1 if plan.has_bias else -1
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // workspace.batch.z.shape[1]]]
        first, last = examples.offsets[i], examples.offsets[i + 1]
        descend_sparse(table, row, examples.columns, first, last, bias, g, shared.optimizer, rate)
        entry = workspace.groups.following[entry]


@kernel_part
def _step_of_sparse_row(shared, workspace, chosen, row, rate):
    """The same of a sparse row, which has weights for some of these features only."""
    plan, examples, slots = shared.plan, shared.examples, shared.slots
    g, steps, n = workspace.gradient[:, : plan.dim], workspace.slot_steps, 0
    if plan.has_bias:
        n = collect_bias(slots, row, g[0, plan.dim - 1], steps)
        g[0, plan.dim - 1] = 0
    n_values = 0
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // workspace.batch.z.shape[1]]]
        n_values += examples.offsets[i + 1] - examples.offsets[i]
        entry = workspace.groups.following[entry]
    sought = is_sought(slots, plan.has_bias, row, plan.n_features, n_values)
    if not sought:
        n = collect_read(slots, plan.has_bias, row, g, n, steps)
    entry = workspace.groups.first[row]
    while entry >= 0:
        i = chosen[workspace.example[entry // workspace.batch.z.shape[1]]]
        first, last = examples.offsets[i], examples.offsets[i + 1]
        if sought:
            n = collect_sought(examples, first, last, slots, plan.has_bias, row, g, n, steps)
        else:
            for f in range(first, last):
                g[0, examples.columns[f]] = 0
        entry = workspace.groups.following[entry]
    step_of_slots(shared.outputs, row, steps, n, shared.optimizer, rate)


@kernel_part
def _sparse_square(shared, workspace, chosen, row, scale):
    """|g|² of the gradient g of an output row.

    Computed as Σ over entries of (what the entry added)·g, so that features of several entries need not be told apart.
    """
    g, z, examples, plan = workspace.gradient, workspace.batch.z, shared.examples, shared.plan
    square = np.float32(0)
    entry = workspace.groups.first[row]
    while entry >= 0:
        p = entry // z.shape[1]
        i = chosen[workspace.example[p]]
        dot = g[0, plan.dim - 1] if plan.has_bias else np.float32(0)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            dot += examples.values[f] * g[0, examples.columns[f]]
        square += scale * z[p, entry % z.shape[1]] * dot
        entry = workspace.groups.following[entry]
    return max(square, np.float32(0))

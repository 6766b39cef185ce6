"""Classification with a few candidates for each example: sampled rows, or the nodes on the path to
a label.

A step trains on a minibatch, in five stages:

    encode        h, a row for each example (`shared`)
    select        select_terms: the candidates of each term of the loss
    score         score_candidates: z[p, c], of term p and output row rows[p, c]
    coefficients  weighted_coefficients: the objective overwrites z
    apply         apply_coefficients: each distinct output row takes one step along its gradient,
                  scale · Σ z[p, c] · h_p over its entries (p, c)
                  backward: then the hidden layer takes its steps

The loss of a minibatch is a sum of terms, which have a row of the batch each: a "single" objective
has a term for each positive of an example, the others one for each example.
All scores of a minibatch are computed before any row moves. Only a proximal objective takes its
terms one after another, because the lengths of simultaneous steps would add up.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint64

from embedx.engine.examples import Examples
from embedx.engine.select import SINGLE, draw_weight, set_negative, set_node, set_positive
from embedx.engine.shared import (
    FeatureWorkspace,
    Groups,
    Plan,
    add_entry,
    backward,
    decay_output,
    encode,
    new_feature_workspace,
    new_groups,
    step_output,
)
from embedx.engine.sparse_rows import (
    SlotSteps,
    gain_of_row,
    new_slot_steps,
    scatter,
    score_of_row,
    step_of_row,
)
from embedx.engine.weighted import terms_of, weighted_coefficients
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.gemm import add_to_row, clear, dot
from embedx.kernels.maths import ONE, ZERO
from embedx.kernels.random import bits, open_uniform, uniform
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, padded, prefetch
from embedx.optimizers.decay import clock_step, shorten, step_size
from embedx.samplers.contract import FILTER_SIZE, SampleWorkspace, new_sample_workspace

# Rows are prefetched this many candidates before they are scored.
PREFETCH_DISTANCE = 4


@by_address
class SampledWorkspace(NamedTuple):
    """One worker's buffers."""

    # float32 (batch_size, stride); (0, stride) for sparse features without hidden layer
    h: ndarray
    h_gradient: ndarray  # like h, with hidden layer
    example: ndarray  # int64 (max terms,): the example in the batch that a term belongs to
    rows: ndarray  # int32 (max terms, max candidates)
    n_candidates: ndarray  # int64 (max terms,)
    batch: Batch  # a row for each term, a column for each of its candidates
    # int64 (FILTER_SIZE,): by row modulo FILTER_SIZE, the last term that such a row was drawn for
    seen: ndarray
    sampling: SampleWorkspace
    gradient: ndarray  # float32 (1, stride of the output rows)
    groups: Groups  # entries by output row
    features: FeatureWorkspace  # of the hidden layer
    # float32 (n_features,): zeros; an example is scattered over them to score sparse output rows
    x: ndarray
    slot_steps: SlotSteps  # of sparse output rows


def new_workspace(plan: Plan, examples: Examples, longest_path: int) -> SampledWorkspace:
    """Buffers for a worker, large enough for any minibatch of these examples."""
    n_labels = np.sort(np.diff(examples.label_offsets))[::-1]
    max_labels = max(int(n_labels[:1].sum()), 1)
    batch = min(plan.batch_size, len(n_labels))
    terms = batch
    if plan.positives == SINGLE and not plan.one_label:
        terms = max(int(n_labels[:batch].sum()), 1)
    has_one_positive = plan.positives == SINGLE or plan.one_label
    max_positives = 1 if has_one_positive else max_labels
    width = longest_path if plan.on_path else max_positives + plan.n_draws
    return SampledWorkspace(
        h=aligned_zeros(batch if plan.has_h else 0, plan.dim),
        h_gradient=aligned_zeros(batch if plan.has_hidden else 0, plan.dim),
        example=np.zeros(terms, int64),
        rows=np.zeros((terms, width), int32),
        n_candidates=np.zeros(terms, int64),
        batch=new_batch(terms, width, plan.uniforms_width),
        seen=np.full(FILTER_SIZE, -1, int64),
        sampling=new_sample_workspace(plan.n_draws, max_labels),
        gradient=np.zeros((1, padded(plan.dim)), float32),
        groups=new_groups(plan.n_outputs, terms * width),
        features=new_feature_workspace(examples, plan),
        x=np.zeros(plan.n_features if plan.has_sparse_rows else 0, float32),
        slot_steps=new_slot_steps(0 if plan.has_h else plan.dim),
    )


@kernel
def train_chunk(coefficients, sample, log_expected_count, shared, workspace, chunk):
    """Train on a chunk, a minibatch at a time; return the summed loss, the terms, the decay clock.

    `chunk.key` and the position determine the draws. Examples without labels are skipped.
    """
    decay_clock = chunk.decay_clock
    loss = 0.0
    n_seen = 0
    workspace.seen[:] = -1
    for begin in range(chunk.start, chunk.stop, shared.plan.batch_size):
        end = min(begin + shared.plan.batch_size, chunk.stop)
        chosen = chunk.order[begin:end]
        encode(shared, workspace.h, chosen, decay_clock)
        n_terms, width = select_terms(
            sample, log_expected_count, shared, workspace, chunk, begin, end
        )
        pad_and_decay(shared, workspace, n_terms, width, decay_clock)
        batch_loss, _ = train_terms(
            coefficients, shared, workspace, chosen, n_terms, width, chunk.lr, False
        )
        loss += batch_loss
        n_seen += n_terms
        decay_clock += clock_step(shared.optimizer, chunk.lr)
    return loss, n_seen, decay_clock


@kernel_part
def train_terms(coefficients, shared, workspace, chosen, n_terms, width, lr, has_coefficients):
    """One step on the terms of a minibatch; return the loss and the number n of output rows that
    moved, groups.touched[:n]. With proximal steps, n is that of the last term alone.

    Overwrites scores by coefficients, unless `has_coefficients`.
    """
    plan = shared.plan
    optimizer = shared.optimizer
    scale = float32(plan.sum_over / chosen.size)
    rate = step_size(optimizer, lr)
    workspace.h_gradient[: chosen.size] = 0
    loss = 0.0
    n_touched = 0
    n_at_once = 1 if plan.is_proximal else n_terms
    for first in range(0, n_terms, max(n_at_once, 1)):
        last = first + n_at_once
        if not has_coefficients:
            score_candidates(shared, workspace, chosen, first, last)
            loss += weighted_coefficients(
                coefficients,
                shared.examples.weight,
                terms_of(workspace.batch, first, last),
                shared.state,
                shared.constants,
                width,
                lr * optimizer.state_rate,
            )
        n_touched = apply_coefficients(shared, workspace, chosen, first, last, scale, rate)
    backward(shared, workspace.features, chosen, workspace.h, workspace.h_gradient, rate)
    return loss, n_touched


# ---- select


@kernel_part
def select_terms(sample, log_expected_count, shared, workspace, chunk, begin, end):
    """Write the terms of a minibatch except their scores; return the number of terms and the
    largest number of candidates.
    """
    plan = shared.plan
    p = 0
    width = 0
    for position in range(begin, end):
        i = chunk.order[position]
        stream = bits(chunk.key, uint64(position))
        first, last = labels_of(shared.examples, plan, i, stream)
        n_positives = 1 if plan.positives == SINGLE else last - first
        for at in range(first, last, max(n_positives, 1)):
            new_term(shared, workspace, p, position - begin, i, stream, at - first)
            term_stream = bits(stream, uint64(at - first)) if plan.positives == SINGLE else stream
            n_candidates = _select_candidates(
                sample, log_expected_count, shared, workspace, p, at, n_positives, term_stream
            )
            width = max(width, n_candidates)
            p += 1
    return p, width


@kernel_part
def labels_of(examples, plan, i, stream):
    """(begin, end) of the labels of example i in label_ids; with `Plan.one_label`, of a random
    one.
    """
    first = examples.label_offsets[i]
    last = examples.label_offsets[i + 1]
    if plan.one_label and first < last:
        first += min(int64(uniform(stream, uint64(2**62)) * (last - first)), last - first - 1)
        last = first + 1
    return first, last


@kernel_part
def new_term(shared, workspace, p, e, i, stream, number):
    """Write the example, state row, number of updates and random numbers of term p, which is term
    `number` of example i.
    """
    workspace.example[p] = e
    workspace.batch.state_row[p] = i
    for d in range(workspace.batch.uniforms.shape[1]):
        workspace.batch.uniforms[p, d] = open_uniform(
            bits(stream, uint64(2**61 + number)), uint64(d)
        )
    if shared.state.shape[1] > 0:
        workspace.batch.n_updates[p] = shared.n_updates[i]
        shared.n_updates[i] += 1


@kernel_part
def _select_candidates(
    sample, log_expected_count, shared, workspace, p, first, n_positives, stream
):
    """Write the candidates of term p, whose positives are label_ids[first:first + n_positives];
    return their number.
    """
    if shared.plan.on_path:
        n = _select_path(shared, workspace, p, int64(shared.examples.label_ids[first]))
    else:
        add_positives(shared, workspace, p, first, n_positives)
        n = _select_draws(sample, log_expected_count, shared, workspace, p, n_positives, stream)
        weight = draw_weight(shared.plan.positives, n_positives)
        if weight != 1:
            for c in range(n):
                workspace.batch.sample_count[p, c] *= weight
    workspace.n_candidates[p] = n
    return n


@kernel_part
def add_positives(shared, workspace, p, first, n):
    """Write the first n candidates of term p: the positives label_ids[first:first + n]."""
    for c in range(n):
        workspace.rows[p, c] = shared.examples.label_ids[first + c]
        workspace.batch.log_expected_count[p, c] = 0
        set_positive(workspace.batch, p, c, 1, ZERO, False)


@kernel_part
def _select_path(shared, workspace, p, label):
    """Write the nodes on the path to a label; return their number."""
    begin = shared.sampler_data.offsets[label]
    end = shared.sampler_data.offsets[label + 1]
    for at in range(begin, end):
        bit = shared.sampler_data.values[at]
        workspace.rows[p, at - begin] = shared.sampler_data.rows[at]
        set_node(workspace.batch, p, at - begin, bit, ONE - bit)
    return end - begin


@kernel_part
def _select_draws(sample, log_expected_count, shared, workspace, p, n_positives, stream):
    """Add the sampler's draws for term p to its positives; return the number of candidates."""
    plan = shared.plan
    rows = workspace.rows
    batch = workspace.batch
    sampling = workspace.sampling
    i = batch.state_row[p]
    n_excluded = 0 if plan.keeps_accidental_hits else n_positives
    for c in range(n_excluded):
        sampling.excluded[c] = rows[p, c]
    n_drawn = sample(shared.sampler_data, i, stream, uint64(0), plan.n_draws, n_excluded, sampling)
    n = add_draws(workspace, p, n_positives, n_drawn, plan.keeps_accidental_hits, plan)
    if plan.uses_log_expected_count:
        log_expected_count(
            shared.sampler_data, i, n_drawn, n_excluded, rows[p], n, batch.log_expected_count[p]
        )
    return n


@kernel_part
def add_draws(workspace, p, n_present, n_drawn, counts_present, plan):
    """Add the drawn rows to the n_present candidates of term p, each row once; return the number
    of candidates.

    counts_present  whether a draw of a row that is present counts; else it is dropped
    """
    rows = workspace.rows
    batch = workspace.batch
    seen = workspace.seen
    n = n_present
    for c in range(n_present):
        seen[rows[p, c] % FILTER_SIZE] = p
    for d in range(n_drawn):
        row = int64(workspace.sampling.rows[d])
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
        elif at >= n_present or counts_present:
            batch.sample_count[p, at] = batch.sample_count[p, at] + 1 if plan.counts_repeats else 1
    for c in range(n):
        seen[rows[p, c] % FILTER_SIZE] = -1
    return n


@kernel_part
def pad_and_decay(shared, workspace, n_terms, width, decay_clock):
    """Pad terms with fewer candidates than `width`, and apply pending weight decay to the
    candidates.
    """
    batch = workspace.batch
    for p in range(n_terms):
        for c in range(workspace.n_candidates[p], width):
            set_negative(batch, p, c, 0)
            batch.z[p, c] = 0
            batch.log_expected_count[p, c] = 0
            workspace.rows[p, c] = 0
        for c in range(workspace.n_candidates[p]):
            decay_output(shared, int64(workspace.rows[p, c]), decay_clock)


# ---- score


@kernel_part
def score_candidates(shared, workspace, chosen, first_term, last_term):
    """Write the score of every candidate of some terms, and its score gain if the objective uses
    it.
    """
    plan = shared.plan
    batch = workspace.batch
    table = shared.outputs.rows
    for p in range(first_term, last_term):
        e = workspace.example[p]
        n = workspace.n_candidates[p]
        if plan.has_h:
            for c in range(n):
                if c + PREFETCH_DISTANCE < n:
                    for d in range(0, table.shape[1], SIMD_WIDTH):
                        prefetch(table, int64(workspace.rows[p, c + PREFETCH_DISTANCE]), d)
                batch.z[p, c] = dot(workspace.h, e, table, int64(workspace.rows[p, c]))
            if plan.uses_score_gain:
                batch.score_gain[p, :n] = dot(workspace.h, e, workspace.h, e)
        else:
            _score_by_features(shared, workspace, p, chosen[e])


@kernel_part
def _score_by_features(shared, workspace, p, i):
    """Write the scores of term p, of example i, which has sparse features."""
    plan = shared.plan
    examples = shared.examples
    batch = workspace.batch
    first = examples.offsets[i]
    last = examples.offsets[i + 1]
    scatter(shared, first, last, workspace.x, True)
    for c in range(workspace.n_candidates[p]):
        row = int64(workspace.rows[p, c])
        batch.z[p, c] = score_of_row(shared, first, last, workspace.x, row)
        if plan.uses_score_gain:
            if plan.has_sparse_rows or c == 0:
                batch.score_gain[p, c] = gain_of_row(shared, first, last, workspace.x, row)
            else:
                batch.score_gain[p, c] = batch.score_gain[p, 0]
    scatter(shared, first, last, workspace.x, False)


# ---- apply


@kernel_part
def apply_coefficients(shared, workspace, chosen, first_term, last_term, scale, rate):
    """Add to h_gradient, then update the output rows, along the coefficients of some terms; return
    the number of rows in groups.touched.
    """
    gradient_of_h(shared, workspace, first_term, last_term, scale)
    return descend_outputs(shared, workspace, chosen, first_term, last_term, scale, rate)


@kernel_part
def gradient_of_h(shared, workspace, first_term, last_term, scale):
    """Add the gradients of some terms to h_gradient, before these update any row."""
    if not shared.plan.has_hidden:
        return
    for p in range(first_term, last_term):
        e = workspace.example[p]
        for c in range(workspace.n_candidates[p]):
            coefficient = workspace.batch.z[p, c]
            if coefficient != 0:
                row = int64(workspace.rows[p, c])
                add_to_row(workspace.h_gradient, e, scale * coefficient, shared.outputs.rows, row)


@kernel_part
def descend_outputs(shared, workspace, chosen, first_term, last_term, scale, rate):
    """Update each output row that has coefficients in some terms: groups.touched[:n]; return n."""
    plan = shared.plan
    groups = workspace.groups
    z = workspace.batch.z
    n_touched = 0
    for p in range(first_term, last_term):
        for c in range(workspace.n_candidates[p]):
            if z[p, c] != 0:
                n_touched = add_entry(
                    groups, int64(workspace.rows[p, c]), p * z.shape[1] + c, n_touched
                )
    for t in range(n_touched):
        row = int64(groups.touched[t])
        if plan.has_h:
            _step_along_h(shared, workspace, row, scale, rate)
        else:
            _add_gradient(shared, workspace, chosen, row, scale)
            step_of_row(shared, workspace, chosen, row, rate)
            if shared.optimizer.max_norm > 0:
                shorten(shared.outputs, row, plan.n_inputs, shared.optimizer.max_norm)
        groups.first_entry[row] = -1
    return n_touched


@kernel_part
def _step_along_h(shared, workspace, row, scale, rate):
    """Update an output row whose examples have an h."""
    g = workspace.gradient
    z = workspace.batch.z
    clear(g, 0, g.shape[1])
    entry = workspace.groups.first_entry[row]
    while entry >= 0:
        p = entry // z.shape[1]
        add_to_row(g, 0, scale * z[p, entry % z.shape[1]], workspace.h, workspace.example[p])
        entry = workspace.groups.next_entry[entry]
    step_output(shared, row, g, 0, rate)


@kernel_part
def _add_gradient(shared, workspace, chosen, row, scale):
    """Sum the gradient of an output row whose examples are sparse, at their features; it is zero
    elsewhere.
    """
    g = workspace.gradient
    z = workspace.batch.z
    examples = shared.examples
    plan = shared.plan
    entry = workspace.groups.first_entry[row]
    while entry >= 0:
        p = entry // z.shape[1]
        x = scale * z[p, entry % z.shape[1]]
        i = chosen[workspace.example[p]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            g[0, examples.columns[f]] += x * examples.values[f]
        if plan.has_bias:
            g[0, plan.dim - 1] += x
        entry = workspace.groups.next_entry[entry]

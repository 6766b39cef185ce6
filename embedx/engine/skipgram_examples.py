"""From the scores of a block of text to the rows of a batch, which the objective overwrites.

With FORM_PER_PAIR each distinct positive of an example has a row of `SkipGramWorkspace.pairs`: the
positive in column 0, then the noise. Otherwise each example has a row of `batch`.
"""

import numpy as np
from numpy import int64, uint64

from embedx.engine.blocks import (
    ALL,
    CERTAIN,
    EXAMPLES,
    FORM_MERGED,
    FORM_PER_PAIR,
    FORM_SUMMED,
    NOISE,
    PATH,
    RETRIEVED,
    n_candidates_of,
    round_up_to_padding,
)
from embedx.engine.score_gains import score_gain
from embedx.engine.select import set_positive
from embedx.kernels import (
    ONE,
    SIMD_WIDTH,
    ZERO,
    Batch,
    clear,
    kernel_part,
    load,
    multiply_add,
    splat,
    store,
    zeros,
)
from embedx.kernels.random import open_uniform
from embedx.samplers.contract import NO_INPUT, NONE_EXCLUDED


@kernel_part
def coefficients_of_block(coefficients, log_expected_count, shared, workspace, block, lr):
    """Overwrite the scores of a block by coefficients; return its loss."""
    plan = shared.plan
    n = n_candidates_of(block)
    if plan.selection != PATH and plan.uses_log_expected_count:
        log_expected_count(
            shared.sampler_data,
            NO_INPUT,
            plan.n_draws,
            NONE_EXCLUDED,
            block.candidates,
            n,
            workspace.log_expected,
        )
        if plan.selection == RETRIEVED:
            workspace.log_expected[: block.sizes[CERTAIN]] = 0
    if plan.selection == PATH or plan.form != FORM_PER_PAIR:
        return _coefficients_by_example(coefficients, shared, workspace, block, lr)
    loss = 0.0
    _fill_shared_noise(plan, workspace, block)
    for e in range(block.sizes[EXAMPLES]):
        loss += _coefficients_by_pair(coefficients, shared, workspace, block, e, lr)
    return loss


@kernel_part
def _coefficients_by_example(coefficients, shared, workspace, block, lr):
    """Overwrite all scores by coefficients, one row of the batch per example; return the loss."""
    plan = shared.plan
    n_examples = block.sizes[EXAMPLES]
    n = round_up_to_padding(n_candidates_of(block))
    has_tree = plan.selection == PATH
    batch = Batch(
        workspace.batch.z,
        block.label,
        block.bit_zero_count if has_tree else workspace.batch.sample_count,
        workspace.batch.log_expected_count,
        workspace.batch.uniforms,
        workspace.batch.state_row,
        workspace.batch.n_updates,
        workspace.batch.score_gain,
    )
    for e in range(n_examples):
        if not has_tree:
            _count_samples(plan, workspace, block, e, batch, n)
        if plan.uses_score_gain:
            for k in range(n):
                batch.score_gain[e, k] = score_gain(workspace, e, k)
        _describe_example(
            shared, workspace, block, e, batch, e, min(block.n_pairs_of_example[e], 1)
        )
    state_lr = lr * plan.optimizer.state_rate
    return coefficients(
        batch, shared.tables.objective_state, shared.constants, n_examples, n, state_lr
    )


@kernel_part
def _count_samples(plan, workspace, block, e, batch, n):
    """Write sample_count and log_expected_count of example e, which is row e of the batch."""
    n_certain = block.sizes[CERTAIN]
    weight = ONE
    if plan.form == FORM_SUMMED:
        weight = np.float32(block.n_pairs_of_example[e])
    for k in range(0, n, SIMD_WIDTH):
        counts = multiply_add(splat(weight), load(block.sample_count, 0, k), zeros())
        store(batch.sample_count, e, k, counts)
    if plan.uses_log_expected_count:
        for k in range(n):
            batch.log_expected_count[e, k] = workspace.log_expected[k]
    if plan.selection == ALL:
        for k in range(n_certain):
            label = block.label[e, k]
            if label > 0:
                set_positive(batch, e, k, label, weight, plan.keeps_accidental_hits)
    elif plan.form == FORM_MERGED:
        for k in range(n_certain):
            batch.sample_count[e, k] = ZERO if block.label[e, k] > 0 else ONE
            batch.log_expected_count[e, k] = 0


@kernel_part
def _noise_range(plan, block):
    """(first, number) of the noise candidates of a block: all rows; with a search all candidates;
    else those behind the centres.
    """
    if plan.selection == ALL:
        return int64(0), int64(plan.n_outputs)
    if plan.selection == RETRIEVED:
        return int64(0), n_candidates_of(block)
    return block.sizes[CERTAIN], block.sizes[NOISE]


@kernel_part
def _fill_shared_noise(plan, workspace, block):
    """Write the part that the rows of all pairs share: the noise, from column 1 on, and
    `noise_column`.
    """
    first_noise, n_noise = _noise_range(plan, block)
    sample_count = workspace.pairs.sample_count
    log_expected_count = workspace.pairs.log_expected_count
    width = sample_count.shape[1]
    clear(sample_count, 0, width)
    for k in range(0, n_noise, SIMD_WIDTH):
        store(sample_count, 0, 1 + k, load(block.sample_count, 0, first_noise + k))
    for k in range(n_noise):
        log_expected_count[0, 1 + k] = workspace.log_expected[first_noise + k]
    for p in range(1, sample_count.shape[0]):
        for k in range(0, width, SIMD_WIDTH):
            store(sample_count, p, k, load(sample_count, 0, k))
            store(log_expected_count, p, k, load(log_expected_count, 0, k))
    is_centre_in_noise = first_noise < block.sizes[CERTAIN]
    for i in range(block.sizes[CERTAIN]):
        workspace.noise_column[i] = 1 + i if is_centre_in_noise else -1
        if not is_centre_in_noise:
            for k in range(n_noise):
                if block.candidates[first_noise + k] == block.candidates[i]:
                    workspace.noise_column[i] = 1 + k


@kernel_part
def _coefficients_by_pair(coefficients, shared, workspace, block, e, lr):
    """Overwrite the scores of example e by the sum of the coefficients of its pairs, which have a
    row of `pairs` each; return the loss.

    Noise is copied in whole vectors: columns beyond the last candidate have arbitrary values.
    """
    plan = shared.plan
    pairs = workspace.pairs
    first_noise, n_noise = _noise_range(plan, block)
    n_pairs = _fill_pairs(shared, workspace, block, e, first_noise, n_noise)
    n = round_up_to_padding(1 + n_noise)
    state_lr = lr * plan.optimizer.state_rate
    loss = coefficients(
        pairs, shared.tables.objective_state, shared.constants, n_pairs, n, state_lr
    )
    _sum_pairs(workspace, block, e, n_pairs, first_noise, n_noise)
    return loss


@kernel_part
def _fill_pairs(shared, workspace, block, e, first_noise, n_noise):
    """Write a row of `pairs` for each distinct positive of example e: the positive, then the noise;
    return the number of rows.
    """
    plan = shared.plan
    pairs = workspace.pairs
    z = pairs.z
    sample_count = pairs.sample_count
    block_z = workspace.batch.z
    positives = workspace.positives
    n_pairs = 0
    for i in range(block.sizes[CERTAIN]):
        # Written before it is known to be a positive, to save a branch: `positives` has one place
        # more than there can be.
        positives[n_pairs] = i
        n_pairs += block.label[e, i] > 0
    for p in range(n_pairs):
        for k in range(0, n_noise, SIMD_WIDTH):
            store(z, p, 1 + k, load(block_z, e, first_noise + k))
        i = positives[p]
        z[p, 0] = block_z[e, i]
        # An accidental hit: the positive is not noise of its own pair.
        hit = workspace.noise_column[i]
        n_drawn = sample_count[p, hit] if hit > 0 else ZERO
        set_positive(pairs, p, 0, block.label[e, i], n_drawn, plan.keeps_accidental_hits)
        pairs.log_expected_count[p, 0] = workspace.log_expected[i]
        if hit > 0:
            sample_count[p, hit] = 0
        if plan.uses_score_gain:
            pairs.score_gain[p, 0] = score_gain(workspace, e, i)
            for k in range(n_noise):
                pairs.score_gain[p, 1 + k] = score_gain(workspace, e, first_noise + k)
        _describe_example(shared, workspace, block, e, pairs, p, 1)
    return n_pairs


@kernel_part
def _sum_pairs(workspace, block, e, n_pairs, first_noise, n_noise):
    """Overwrite the scores of example e by the sums over its rows of `pairs`, and restore the
    counts of accidental hits there.
    """
    z = workspace.pairs.z
    block_z = workspace.batch.z
    positives = workspace.positives
    clear(block_z, e, block.sizes[CERTAIN])
    for k in range(0, n_noise, SIMD_WIDTH):
        total = zeros()
        for p in range(n_pairs):
            total = total + load(z, p, 1 + k)
        store(block_z, e, first_noise + k, total)
    # A positive may also be noise of another pair: its coefficient is added to those.
    for p in range(n_pairs):
        block_z[e, positives[p]] += z[p, 0]
        hit = workspace.noise_column[positives[p]]
        if hit > 0:
            drawn = block.sample_count[0, first_noise + hit - 1]
            workspace.pairs.sample_count[p, hit] = drawn


@kernel_part
def _describe_example(shared, workspace, block, e, batch, p, n_new_updates):
    """Write state_row, n_updates and uniforms of row p of the batch, for example e; add the new
    updates to the count of its state.
    """
    tables = shared.tables
    state_row = int64(block.state_row[e])
    batch.state_row[p] = state_row
    for d in range(batch.uniforms.shape[1]):
        batch.uniforms[p, d] = open_uniform(workspace.rng_state[0], workspace.rng_state[1])
        workspace.rng_state[1] += uint64(1)
    if tables.objective_state.shape[1] > 0:
        batch.n_updates[p] = tables.n_updates[state_row]
        tables.n_updates[state_row] += n_new_updates

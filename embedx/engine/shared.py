"""Shared by the training steps of classification: their plan, the tables, and the encoder.

    h = x                     dense features
    h = Σ_f x_f · hidden[f]   a hidden layer: the weighted sum of the rows of an example's features

The last number of h is 1, for the biases; before it are those that scores by distance need
(distances.py). Sparse features without a hidden layer have no h.
"""

from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint64

from embedx.engine.distances import (
    gradient_by_input,
    gradient_by_row,
    lengthen_input,
    lengthen_row,
)
from embedx.engine.examples import Csr, Examples
from embedx.kernels import add_to_row, aligned_zeros, by_address, clear, kernel, kernel_part
from embedx.optimizers.contract import Table, UpdateRule
from embedx.optimizers.decay import decay_row, shorten
from embedx.optimizers.descend import descend_row
from embedx.samplers.contract import SamplerData


@by_address
class Plan(NamedTuple):
    """The settings of steps, as plain numbers."""

    n_outputs: int
    n_features: int
    n_inputs: int  # numbers of the input itself; weight decay applies to as many of an output row
    dim: int  # of h, with the numbers for distances and the bias
    has_bias: bool
    by_distance: bool  # scores are squared distances, see `distances`
    has_hidden: bool
    has_h: bool  # features are dense or there is a hidden layer
    positives: int  # SINGLE, JOINT or SUMMED
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    uniforms_width: int
    one_label: bool  # an example is trained on one of its labels, drawn anew at each visit
    # The terms of a minibatch take their steps one after another.
    is_proximal: bool
    batch_size: int
    # Coefficients are multiplied by sum_over / the number of examples in the step.
    sum_over: float
    # The rest is used where candidates are drawn.
    has_sparse_rows: bool = False
    # The candidates are the nodes on the path to the positive; else positives and draws.
    on_path: bool = False
    counts_repeats: bool = True  # a row drawn twice counts twice
    n_draws: int = 0


@by_address
class Shared(NamedTuple):
    """Arrays that all threads share; the parameters are updated without locks (Hogwild)."""

    hidden: Table  # a row for each feature; empty without hidden layer
    # A row for each output row, the bias last; transposed where features are sparse and all rows
    # are candidates.
    outputs: Table
    # `outputs` as a single row; sparse output rows are slices of it (`sparse_rows`).
    weights: Table
    state: ndarray  # float32 (n_examples, state_width)
    n_updates: ndarray  # int64 (n_examples,)
    slots: Csr  # the features of sparse output rows
    examples: Examples
    sampler_data: SamplerData
    constants: ndarray  # float32: the objective's
    optimizer: UpdateRule
    plan: Plan


class Chunk(NamedTuple):
    """The examples order[start:stop], to train on."""

    order: ndarray  # int64: the examples of this epoch
    epoch: int
    start: int
    stop: int
    lr: float32
    decay_clock: float
    key: uint64  # key of the random numbers


class Groups(NamedTuple):
    """The entries of a step grouped by row: a linked list for each row."""

    first_entry: ndarray  # int64 (n_rows,): the first entry of a row, -1 for none
    next_entry: ndarray  # int64 (n_entries,): the next entry of the same row, -1 at the end
    touched: ndarray  # int32 (n_entries,): the rows that have entries


def new_groups(n_rows: int, n_entries: int) -> Groups:
    return Groups(
        np.full(n_rows, -1, int64), np.zeros(n_entries, int64), np.zeros(n_entries, int32)
    )


@kernel_part
def add_entry(groups, row, entry, n_touched):
    """Add an entry to a row; return the number of rows with entries."""
    if groups.first_entry[row] < 0:
        groups.touched[n_touched] = row
        n_touched += 1
    groups.next_entry[entry] = groups.first_entry[row]
    groups.first_entry[row] = entry
    return n_touched


@by_address
class FeatureWorkspace(NamedTuple):
    """A worker's buffers for the steps of the hidden layer."""

    groups: Groups  # the values in a minibatch, by feature
    value: ndarray  # float32 (max values,)
    example: ndarray  # int32 (max values,): the example of the minibatch that has the value
    gradient: ndarray  # float32 (1, stride)


def new_feature_workspace(examples: Examples, plan: Plan) -> FeatureWorkspace:
    """Buffers for any minibatch of these examples; empty without a hidden layer."""
    n_values = 0
    if plan.has_hidden:
        largest_first = np.sort(np.diff(examples.offsets))[::-1]
        n_values = int(largest_first[: plan.batch_size].sum())
    return FeatureWorkspace(
        new_groups(plan.n_features if plan.has_hidden else 0, n_values),
        np.zeros(n_values, float32),
        np.zeros(n_values, int32),
        aligned_zeros(1, plan.dim),
    )


@kernel_part
def encode(shared, h, chosen, decay_clock):
    """Overwrite h[e] by the vector of example chosen[e], if examples have an h."""
    plan = shared.plan
    examples = shared.examples
    if not plan.has_h:
        return
    for e in range(chosen.size):
        if plan.has_hidden:
            _sum_rows(shared, chosen[e], h, e, decay_clock)
        else:
            for d in range(examples.dense.shape[1]):
                h[e, d] = examples.dense[chosen[e], d]
        if plan.by_distance:
            lengthen_input(h, e, plan.n_inputs)
        if plan.has_bias:
            h[e, plan.dim - 1] = 1


@kernel_part
def _sum_rows(shared, i, h, e, decay_clock):
    """Overwrite h[e] by the weighted sum of the rows of the features of example i."""
    examples = shared.examples
    table = shared.hidden
    n_inputs = shared.plan.n_inputs
    clear(h, e, h.shape[1])
    for f in range(examples.offsets[i], examples.offsets[i + 1]):
        row = int64(examples.columns[f])
        decay_row(table, row, n_inputs, shared.optimizer, decay_clock)
        add_to_row(h, e, examples.values[f], table.rows, row)


@kernel_part
def backward(shared, workspace, chosen, h, h_gradient, rate):
    """Update the hidden layer along h_gradient, a row for each chosen example; the column of the
    bias is ignored.
    """
    plan = shared.plan
    examples = shared.examples
    groups = workspace.groups
    g = workspace.gradient
    if not plan.has_hidden:
        return
    n_touched = 0
    n_values = 0
    for e in range(chosen.size):
        if plan.has_bias:  # h is 1 there, and stays 1
            h_gradient[e, plan.dim - 1] = 0
        if plan.by_distance:
            gradient_by_input(h, h_gradient, e, plan.n_inputs)
        for f in range(examples.offsets[chosen[e]], examples.offsets[chosen[e] + 1]):
            n_touched = add_entry(groups, int64(examples.columns[f]), n_values, n_touched)
            workspace.value[n_values] = examples.values[f]
            workspace.example[n_values] = e
            n_values += 1
    for t in range(n_touched):
        row = int64(groups.touched[t])
        clear(g, 0, g.shape[1])
        entry = groups.first_entry[row]
        while entry >= 0:
            add_to_row(g, 0, workspace.value[entry], h_gradient, int64(workspace.example[entry]))
            entry = groups.next_entry[entry]
        descend_row(shared.hidden, row, g, 0, plan.n_inputs, shared.optimizer, rate)
        groups.first_entry[row] = -1


@kernel_part
def step_output(shared, row, gradient, k, rate):
    """Update an output row along gradient[k], where examples have an h."""
    plan = shared.plan
    outputs = shared.outputs
    optimizer = shared.optimizer
    if plan.by_distance:
        gradient_by_row(outputs.rows, row, gradient, k, plan.n_inputs)
    descend_row(outputs, row, gradient, k, plan.dim, optimizer, rate)
    if optimizer.max_norm > 0:
        shorten(outputs, row, plan.n_inputs, optimizer.max_norm)
    if plan.by_distance:
        lengthen_row(outputs.rows, row, plan.n_inputs)


@kernel_part
def decay_output(shared, row, decay_clock):
    """Apply pending weight decay to an output row."""
    plan = shared.plan
    decay_row(shared.outputs, row, plan.n_inputs, shared.optimizer, decay_clock)
    if plan.by_distance and shared.optimizer.l2 > 0:
        lengthen_row(shared.outputs.rows, row, plan.n_inputs)


@kernel
def decay_outputs(shared, first, last, decay_clock):
    """Apply pending weight decay to the output rows first:last."""
    for row in range(first, last):
        decay_output(shared, row, decay_clock)

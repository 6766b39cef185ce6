"""The training kernel of classification where each example meets a few output rows: drawn ones, or those on a tree's path.

A step is a minibatch. Its examples choose their candidates, all scores are taken, the objective turns them into coefficients,
and each distinct row then takes one step along the sum of what its entries ask for:

    entry (p, c)    example p and its candidate c, row rows[p, c], score z[p, c]
    gradient of a row = scale · Σ of its entries' coefficients · h_p

A "pair" objective has an entry line p for each positive of an example, the others one for each example.
"""

from typing import NamedTuple

import numpy as np

from embedx.engine.examples import (
    Examples,
    FeatureScratch,
    Groups,
    copy_features,
    descend_features,
    new_feature_scratch,
    new_groups,
    put,
    sum_rows,
)
from embedx.kernels.batch import Batch, new_batch
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits, open_uniform, uniform
from embedx.kernels.simd import LANES, aligned_zeros, load, multiply_add, padded, prefetch, splat, store, sum_of, zeros
from embedx.optimizers.contract import ROW, Table
from embedx.optimizers.decay import clock_step, decay_row, shorten, step_size
from embedx.optimizers.descend import descend_row, descend_sparse, row_rate
from embedx.samplers.alias import draw

PAIR, SET, SUM = 0, 1, 2
TAKES = {"single": PAIR, "joint": SET, "summed": SUM}
PATH, REPLACED, COLLAPSED, DISTINCT = 0, 1, 2, 3  # draws with replacement, the same without repeats, distinct uniform ones
SLOTS = 512
AHEAD = 4  # candidates whose rows are asked for before they are needed


class Tables(NamedTuple):
    """The parameters; shared by all threads and updated without locks."""

    hidden: Table  # a row for each feature; empty without hidden layer
    outputs: Table  # a row for each output row; its last number is the bias, if there is one
    state: np.ndarray  # float32 (n_examples, state_width)
    n_updates: np.ndarray  # int64 (n_examples,)


class Plan(NamedTuple):
    """What the settings say about steps, as plain numbers."""

    n_features: int
    dim: int  # of h, the constant 1 for the bias included
    has_bias: bool
    is_dense: bool
    has_hidden: bool
    takes: int
    sampling: int
    n_draws: int
    n_classes: int
    keeps_accidental_hits: bool
    uses_log_expected_count: bool
    uses_score_gain: bool
    one_label: bool  # a random label of an example stands for all at each visit
    batch_size: int
    sum_over: float  # coefficients are multiplied by this and divided by the number of examples in the step


class Scratch(NamedTuple):
    """One worker's own memory."""

    h: np.ndarray  # float32 (batch_size, stride); (0, stride) for sparse features without hidden layer
    h_gradient: np.ndarray  # like h, with hidden layer
    example: np.ndarray  # int64 (max lines,): the example in the batch that a line belongs to
    rows: np.ndarray  # int32 (max lines, max candidates)
    n_candidates: np.ndarray  # int64 (max lines,)
    batch: Batch  # a row for each line, a column for each of its candidates
    drawn_at: np.ndarray  # int64 (SLOTS,): the last line that a row (or rank) with this remainder was drawn for
    taken: np.ndarray  # int32 (max labels + n_draws,): ranks of distinct draws, and the labels they avoid
    gradient: np.ndarray  # float32 (1, stride of the output rows)
    groups: Groups  # entries by output row
    features: FeatureScratch  # of the hidden layer


def new_scratch(plan: Plan, examples: Examples, n_rows: int, longest_path: int, uniforms_width: int) -> Scratch:
    """Memory for a worker; minibatches may hold any of the examples."""
    n_labels = np.sort(np.diff(examples.label_offsets))[::-1]
    most_labels = max(int(n_labels[:1].sum()), 1)
    batch = min(plan.batch_size, len(n_labels))
    lines = batch if plan.takes != PAIR or plan.one_label else max(int(n_labels[:batch].sum()), 1)
    positives = 1 if plan.takes == PAIR or plan.one_label else most_labels
    width = longest_path if plan.sampling == PATH else positives + plan.n_draws
    stride = padded(plan.dim)
    has_h = plan.is_dense or plan.has_hidden

    return Scratch(
        h=aligned_zeros(batch if has_h else 0, plan.dim),
        h_gradient=aligned_zeros(batch if plan.has_hidden else 0, plan.dim),
        example=np.zeros(lines, dtype=np.int64),
        rows=np.zeros((lines, width), dtype=np.int32),
        n_candidates=np.zeros(lines, dtype=np.int64),
        batch=new_batch(lines, width, uniforms_width),
        drawn_at=np.full(SLOTS, -1, dtype=np.int64),
        taken=np.zeros(most_labels + plan.n_draws + 1, dtype=np.int32),
        gradient=np.zeros((1, stride), dtype=np.float32),
        groups=new_groups(n_rows, lines * width),
        features=new_feature_scratch(examples, plan.n_features if plan.has_hidden else 0, batch, plan.dim),
    )


@kernel
def train_stretch(
    coefficients, tables, examples, draws, constants, optimizer, plan, scratch, order, start, stop, lr, decay_clock, key
):
    """Train on the examples order[start:stop], a minibatch at a time; return the summed loss, the lines, the decay clock.

    `key` decides what is drawn, by position. An example without labels is passed over.
    """
    loss = 0.0
    n_seen = 0
    scratch.drawn_at[:] = -1
    for begin in range(start, stop, plan.batch_size):
        end = min(begin + plan.batch_size, stop)
        n_lines, width = _choose(tables, examples, draws, optimizer, plan, scratch, order, begin, end, decay_clock, key)
        read_examples(tables, examples, optimizer, plan, scratch, order, begin, end, decay_clock)
        score_candidates(tables, examples, plan, scratch, order, begin, n_lines)
        loss += coefficients(scratch.batch, tables.state, constants, n_lines, width, np.float32(lr) * optimizer.seen_rate)
        n_seen += n_lines
        scale = np.float32(plan.sum_over / (end - begin))
        rate = step_size(optimizer, lr)
        if plan.has_hidden:
            gradient_of_h(tables, plan, scratch, n_lines, end - begin, scale)
        descend_outputs(tables, examples, optimizer, plan, scratch, order, begin, n_lines, scale, rate)
        if plan.has_hidden:
            descend_features(
                tables.hidden, examples, optimizer, plan.dim - plan.has_bias, scratch.features, scratch.h_gradient,
                order, begin, end, rate,
            )  # fmt: skip
        decay_clock += clock_step(optimizer, lr)
    return loss, n_seen, decay_clock


# ---- which rows compete


@kernel_part
def _choose(tables, examples, draws, optimizer, plan, scratch, order, begin, end, decay_clock, key):
    """Write the lines of a minibatch, all but their scores; return how many there are and the largest number of candidates."""
    p = 0
    width = 0
    for position in range(begin, end):
        i = order[position]
        stream = bits(key, np.uint64(position))
        first, last = labels_of(examples, plan, i, stream)
        if first == last:
            continue
        if plan.takes == PAIR:
            for at in range(first, last):
                n = _choose_line(examples, draws, plan, scratch, p, at, at + 1, bits(stream, np.uint64(at - first)))
                width = max(width, n)
                visit(tables, plan, scratch, p, position - begin, i, stream, at - first)
                p += 1
        else:
            n = _choose_line(examples, draws, plan, scratch, p, first, last, stream)
            width = max(width, n)
            visit(tables, plan, scratch, p, position - begin, i, stream, 0)
            p += 1
    batch = scratch.batch
    for line in range(p):
        for c in range(scratch.n_candidates[line], width):
            batch.z[line, c], batch.label[line, c] = 0, 0
            batch.sample_count[line, c], batch.log_expected_count[line, c] = 0, 0
            scratch.rows[line, c] = 0
        for c in range(scratch.n_candidates[line]):
            decay_row(tables.outputs, np.int64(scratch.rows[line, c]), plan.dim - plan.has_bias, optimizer, decay_clock)
    return p, width


@kernel_part
def labels_of(examples, plan, i, stream):
    """Where the labels of example i stand, of which a random one may stand for all."""
    first, last = examples.label_offsets[i], examples.label_offsets[i + 1]
    if plan.one_label and first < last:
        first += min(np.int64(uniform(stream, np.uint64(2**62)) * (last - first)), last - first - 1)
        last = first + 1
    return first, last


@kernel_part
def visit(tables, plan, scratch, p, e, i, stream, number):
    """Tell line p its example, key, number of updates and random numbers."""
    scratch.example[p] = e
    scratch.batch.key[p] = i
    for d in range(scratch.batch.uniforms.shape[1]):
        scratch.batch.uniforms[p, d] = open_uniform(bits(stream, np.uint64(2**61 + number)), np.uint64(d))
    if tables.state.shape[1] > 0:
        scratch.batch.n_updates[p] = tables.n_updates[i]
        tables.n_updates[i] += 1


@kernel_part
def _choose_line(examples, draws, plan, scratch, p, first, last, stream):
    """Write the candidates of line p, whose positives are label_ids[first:last]; return their number."""
    if plan.sampling == PATH:
        n = _path(draws, scratch, p, np.int64(examples.label_ids[first]))
    else:
        for at in range(first, last):
            add_candidate(scratch, p, at - first, np.int64(examples.label_ids[at]), 1, 0)
        if plan.sampling == DISTINCT:
            n = _distinct_draws(plan, scratch, p, last - first, stream)
        else:
            n = _draws(draws, plan, scratch, p, last - first, stream)
        if plan.takes == SUM:
            for c in range(n):
                scratch.batch.sample_count[p, c] *= np.float32(last - first)
    scratch.n_candidates[p] = n
    return n


@kernel_part
def add_candidate(scratch, p, c, row, label, count):
    """Write candidate c of line p."""
    scratch.rows[p, c] = row
    scratch.batch.label[p, c] = label
    scratch.batch.sample_count[p, c] = count
    scratch.batch.log_expected_count[p, c] = 0


@kernel_part
def _path(draws, scratch, p, label):
    """The nodes on the way to a label; the number of them."""
    begin, end = draws.path_offsets[label], draws.path_offsets[label + 1]
    for at in range(begin, end):
        bit = draws.path_bits[at]
        add_candidate(scratch, p, at - begin, np.int64(draws.path_nodes[at]), bit, np.float32(1) - bit)
    return end - begin


@kernel_part
def _draws(draws, plan, scratch, p, n_positives, stream):
    """Draw from the sampler; rows drawn again count again, unless draws are collapsed. Return the number of candidates."""
    n = n_positives
    for c in range(n_positives):
        scratch.drawn_at[scratch.rows[p, c] % SLOTS] = p
    for d in range(plan.n_draws):
        row = draw(draws.alias, stream, np.uint64(d))
        slot = row % SLOTS
        at = n
        if scratch.drawn_at[slot] == p:
            at = 0
            while at < n and scratch.rows[p, at] != row:
                at += 1
        scratch.drawn_at[slot] = p
        if at == n:
            add_candidate(scratch, p, n, row, 0, 1)
            n += 1
        elif at >= n_positives or plan.keeps_accidental_hits:
            scratch.batch.sample_count[p, at] = 1 if plan.sampling == COLLAPSED else scratch.batch.sample_count[p, at] + 1
    if plan.uses_log_expected_count:
        for c in range(n):
            scratch.batch.log_expected_count[p, c] = draws.log_expected[scratch.rows[p, c]]
    for c in range(n):
        scratch.drawn_at[scratch.rows[p, c] % SLOTS] = -1
    return n


@kernel_part
def _distinct_draws(plan, scratch, p, n_positives, stream):
    """Draw distinct rows uniformly: among all if hits are kept, else among the others. Return the number of candidates.

    Floyd's algorithm (Bentley & Floyd 1987) over the ranks of the rows that may be drawn; a rank becomes a row by skipping the
    positives below it.
    """
    n_avoided = 0 if plan.keeps_accidental_hits else n_positives
    for c in range(n_avoided):  # sorted copies
        row = scratch.rows[p, c]
        at = c
        while at > 0 and scratch.taken[at - 1] > row:
            scratch.taken[at] = scratch.taken[at - 1]
            at -= 1
        scratch.taken[at] = row
    n_free = plan.n_classes - n_avoided
    n_draws = min(plan.n_draws, n_free)
    n = n_positives
    for d in range(n_draws):
        last = n_free - n_draws + d
        rank = min(np.int64(uniform(stream, np.uint64(d)) * (last + 1)), last)
        if scratch.drawn_at[rank % SLOTS] == p:  # else it is new, and a hundred draws need not be looked through
            for before in range(d):
                if scratch.taken[n_avoided + before] == rank:
                    rank = last
                    break
        scratch.drawn_at[rank % SLOTS] = p
        scratch.taken[n_avoided + d] = rank
        row = rank
        for c in range(n_avoided):
            row += scratch.taken[c] <= row
        at = n
        if plan.keeps_accidental_hits:
            for c in range(n_positives):
                at = c if scratch.rows[p, c] == row else at
        if at == n:
            add_candidate(scratch, p, n, row, 0, 1)
            n += 1
        else:
            scratch.batch.sample_count[p, at] = 1
    for d in range(n_draws):
        scratch.drawn_at[scratch.taken[n_avoided + d] % SLOTS] = -1
    if n_free > 0:
        log_expected = np.float32(np.log(max(n_draws, 1) / n_free))
        for c in range(n):
            scratch.batch.log_expected_count[p, c] = log_expected
    return n


# ---- scores


@kernel_part
def read_examples(tables, examples, optimizer, plan, scratch, order, begin, end, decay_clock):
    """Write h of every example in the minibatch, unless features are sparse and meet the output rows themselves."""
    for e in range(min(scratch.h.shape[0], end - begin)):
        if plan.has_hidden:
            sum_rows(examples, order[begin + e], tables.hidden, plan.dim - plan.has_bias, optimizer, decay_clock, scratch.h, e)
        else:
            copy_features(examples, order[begin + e], scratch.h, e)
        if plan.has_bias:
            scratch.h[e, plan.dim - 1] = 1


@kernel_part
def score_candidates(tables, examples, plan, scratch, order, begin, n_lines):
    """Write the score of every candidate, and |h|² where it is asked for."""
    table = tables.outputs.rows
    for p in range(n_lines):
        e = scratch.example[p]
        n = scratch.n_candidates[p]
        if scratch.h.shape[0] > 0:
            for c in range(n):
                if c + AHEAD < n:
                    for d in range(0, table.shape[1], LANES):
                        prefetch(table, np.int64(scratch.rows[p, c + AHEAD]), d)
                scratch.batch.z[p, c] = _dot(scratch.h, e, table, np.int64(scratch.rows[p, c]))
            if plan.uses_score_gain:
                scratch.batch.score_gain[p] = _dot(scratch.h, e, scratch.h, e)
        else:
            first, last = examples.offsets[order[begin + e]], examples.offsets[order[begin + e] + 1]
            for c in range(n):
                row = scratch.rows[p, c]
                z = table[row, plan.dim - 1] if plan.has_bias else np.float32(0)
                for f in range(first, last):
                    z += examples.values[f] * table[row, examples.columns[f]]
                scratch.batch.z[p, c] = z
            if plan.uses_score_gain:
                square = np.float32(plan.has_bias)
                for f in range(first, last):
                    square += examples.values[f] * examples.values[f]
                scratch.batch.score_gain[p] = square


@kernel_part
def _dot(a, i, b, j):
    """a[i] · b[j], over whole lanes."""
    total = zeros()
    for d in range(0, a.shape[1], LANES):
        total = multiply_add(load(a, i, d), load(b, j, d), total)
    return sum_of(total)


# ---- steps


@kernel_part
def gradient_of_h(tables, plan, scratch, n_lines, n_examples, scale):
    """Overwrite h_gradient by what the coefficients ask of each h, before any row has moved."""
    stride = scratch.h.shape[1]
    for e in range(n_examples):
        for d in range(0, stride, LANES):
            store(scratch.h_gradient, e, d, zeros())
    for p in range(n_lines):
        e = scratch.example[p]
        for c in range(scratch.n_candidates[p]):
            if scratch.batch.z[p, c] != 0:
                row = np.int64(scratch.rows[p, c])
                x = splat(scale * scratch.batch.z[p, c])
                for d in range(0, stride, LANES):
                    g = multiply_add(x, load(tables.outputs.rows, row, d), load(scratch.h_gradient, e, d))
                    store(scratch.h_gradient, e, d, g)


@kernel_part
def descend_outputs(tables, examples, optimizer, plan, scratch, order, begin, n_lines, scale, rate):
    """Each output row that has coefficients takes its step. They stand in groups.touched; return their number."""
    n_touched = 0
    for p in range(n_lines):
        for c in range(scratch.n_candidates[p]):
            if scratch.batch.z[p, c] != 0:
                row = np.int64(scratch.rows[p, c])
                n_touched = put(scratch.groups, row, p * scratch.batch.z.shape[1] + c, n_touched)
    for t in range(n_touched):
        row = np.int64(scratch.groups.touched[t])
        if scratch.h.shape[0] > 0:
            _step_of_row(tables.outputs, optimizer, plan, scratch, row, scale, rate)
        else:
            _sparse_step_of_row(tables.outputs, examples, optimizer, plan, scratch, order, begin, row, scale, rate)
        scratch.groups.first[row] = -1
        if optimizer.max_norm > 0:
            shorten(tables.outputs, row, plan.dim - plan.has_bias, optimizer.max_norm)
    return n_touched


@kernel_part
def _step_of_row(table, optimizer, plan, scratch, row, scale, rate):
    """The step of an output row whose examples have an h."""
    g, columns = scratch.gradient, scratch.batch.z.shape[1]
    for d in range(0, g.shape[1], LANES):
        store(g, 0, d, zeros())
    entry = scratch.groups.first[row]
    while entry >= 0:
        p = entry // columns
        x = splat(scale * scratch.batch.z[p, entry % columns])
        e = scratch.example[p]
        for d in range(0, g.shape[1], LANES):
            store(g, 0, d, multiply_add(x, load(scratch.h, e, d), load(g, 0, d)))
        entry = scratch.groups.following[entry]
    descend_row(table, row, g, 0, plan.dim, optimizer, rate)


@kernel_part
def _sparse_step_of_row(table, examples, optimizer, plan, scratch, order, begin, row, scale, rate):
    """The step of an output row that meets sparse features: only where its examples have any."""
    g, columns = scratch.gradient, scratch.batch.z.shape[1]
    bias = plan.dim - 1
    entry = scratch.groups.first[row]
    while entry >= 0:
        p = entry // columns
        x = scale * scratch.batch.z[p, entry % columns]
        i = order[begin + scratch.example[p]]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            g[0, examples.columns[f]] += x * examples.values[f]
        if plan.has_bias:
            g[0, bias] += x
        entry = scratch.groups.following[entry]
    if table.state_of == ROW:
        rate = row_rate(table, row, _sparse_square(examples, plan, scratch, order, begin, row, scale), optimizer, rate)
    entry = scratch.groups.first[row]
    while entry >= 0:
        i = order[begin + scratch.example[entry // columns]]
        first, last = examples.offsets[i], examples.offsets[i + 1]
        descend_sparse(table, row, examples.columns, first, last, bias if plan.has_bias else -1, g, optimizer, rate)
        entry = scratch.groups.following[entry]


@kernel_part
def _sparse_square(examples, plan, scratch, order, begin, row, scale):
    """|g|² of the gradient g that the entries of an output row have added up to.

    Taken as Σ over entries of (what the entry added)·g, so that features of several entries need not be told apart.
    """
    g, columns = scratch.gradient, scratch.batch.z.shape[1]
    square = np.float32(0)
    entry = scratch.groups.first[row]
    while entry >= 0:
        p = entry // columns
        i = order[begin + scratch.example[p]]
        dot = g[0, plan.dim - 1] if plan.has_bias else np.float32(0)
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            dot += examples.values[f] * g[0, examples.columns[f]]
        square += scale * scratch.batch.z[p, entry % columns] * dot
        entry = scratch.groups.following[entry]
    return max(square, np.float32(0))

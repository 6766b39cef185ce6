"""Labelled examples as the kernels of classification see them, and the rows by which a step groups its gradients."""

from typing import NamedTuple

import numpy as np

from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.simd import SIMD_WIDTH, aligned_zeros, load, multiply_add, splat, store, zeros
from embedx.labeled.data import Labeled, Labels
from embedx.optimizers.decay import decay_row
from embedx.optimizers.descend import descend_row


class Examples(NamedTuple):
    """Features, dense or sparse, and labels. The half that is not used is empty."""

    dense: np.ndarray  # float32 (n, n_features)
    offsets: np.ndarray  # int64 (n + 1,): the features of example i are those at offsets[i]:offsets[i + 1]
    columns: np.ndarray  # int32
    values: np.ndarray  # float32
    label_offsets: np.ndarray  # int64 (n + 1,)
    label_ids: np.ndarray  # int32


def examples_of(features: object, labels: Labels) -> Examples:
    """The arrays of a data set, without copying where they have the kernels' types already."""
    data = Labeled(features, labels, 0)
    empty = np.zeros((0, 0), dtype=np.float32)
    if data.is_sparse:
        dense = empty
        offsets, columns, values = data.features.indptr, data.features.indices, data.features.data
    else:
        dense = np.ascontiguousarray(data.features, dtype=np.float32)
        # Without a single column the kernels, which look at dense.size, take the data for sparse ones: there are no values.
        offsets, columns, values = np.zeros(1 if dense.size else len(dense) + 1), np.zeros(0), np.zeros(0)
    return Examples(
        np.asarray(dense),
        np.ascontiguousarray(offsets, dtype=np.int64),
        np.ascontiguousarray(columns, dtype=np.int32),
        np.ascontiguousarray(values, dtype=np.float32),
        np.ascontiguousarray(labels.offsets, dtype=np.int64),
        np.ascontiguousarray(labels.ids, dtype=np.int32),
    )


class Csr(NamedTuple):
    """Lists in compressed rows: those of k are indices[indptr[k]:indptr[k + 1]]."""

    indptr: np.ndarray  # int64 (n + 1,)
    indices: np.ndarray  # int32


def csr_of(keys: np.ndarray, indices: np.ndarray, n: int) -> Csr:
    """For each of n keys its distinct indices, ascending."""
    span = int(indices.max(initial=0)) + 1
    pairs = np.unique(keys.astype(np.int64) * span + indices)
    keys, indices = pairs // span, (pairs % span).astype(np.int32)
    return Csr(np.concatenate([[0], np.cumsum(np.bincount(keys, minlength=n))]).astype(np.int64), indices)


def memory_for(examples: Examples, n: int) -> Examples:
    """Memory for a copy of any n of the examples, whose features are sparse."""
    most_values = int(np.sort(np.diff(examples.offsets))[::-1][:n].sum())
    most_labels = int(np.sort(np.diff(examples.label_offsets))[::-1][:n].sum())
    return Examples(
        examples.dense,
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(most_values, dtype=np.int32),
        np.zeros(most_values, dtype=np.float32),
        np.zeros(n + 1, dtype=np.int64),
        np.zeros(most_labels, dtype=np.int32),
    )


@kernel
def copy_examples(examples, order, start, stop, out):
    """Write the examples order[start:stop] to `out`, one after another."""
    n_values = n_labels = 0
    for e in range(stop - start):
        i = order[start + e]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            out.columns[n_values] = examples.columns[f]
            out.values[n_values] = examples.values[f]
            n_values += 1
        for at in range(examples.label_offsets[i], examples.label_offsets[i + 1]):
            out.label_ids[n_labels] = examples.label_ids[at]
            n_labels += 1
        out.offsets[e + 1] = n_values
        out.label_offsets[e + 1] = n_labels


@kernel_part
def copy_features(examples, i, out, e):
    """Overwrite out[e, :n_features] by the dense features of example i."""
    for d in range(examples.dense.shape[1]):
        out[e, d] = examples.dense[i, d]


@kernel_part
def sum_rows(examples, i, table, n, optimizer, decay_clock, out, e):
    """Overwrite out[e] by the weighted sum of the rows that the features of example i name: its hidden layer."""
    stride = out.shape[1]
    for d in range(0, stride, SIMD_WIDTH):
        store(out, e, d, zeros())
    for f in range(examples.offsets[i], examples.offsets[i + 1]):
        row = np.int64(examples.columns[f])
        decay_row(table, row, n, optimizer, decay_clock)
        value = splat(examples.values[f])
        for d in range(0, stride, SIMD_WIDTH):
            store(out, e, d, multiply_add(value, load(table.rows, row, d), load(out, e, d)))


class Groups(NamedTuple):
    """The entries of a step by the row that they belong to: a chain for each row."""

    first: np.ndarray  # int64 (n_rows,): the first entry of a row, -1 for none
    following: np.ndarray  # int64 (n_entries,): the next entry of the same row, -1 at the end
    touched: np.ndarray  # int32 (n_entries,): the rows that have entries


def new_groups(n_rows: int, n_entries: int) -> Groups:
    return Groups(np.full(n_rows, -1, dtype=np.int64), np.zeros(n_entries, dtype=np.int64), np.zeros(n_entries, dtype=np.int32))


@kernel_part
def put(groups, row, entry, n_touched):
    """Add an entry to its row; return the number of rows that have entries."""
    if groups.first[row] < 0:
        groups.touched[n_touched] = row
        n_touched += 1
    groups.following[entry] = groups.first[row]
    groups.first[row] = entry
    return n_touched


# ---- the hidden layer's own steps


class FeatureWorkspace(NamedTuple):
    """A worker's memory for the steps of the features' rows."""

    groups: Groups  # the features' values in a minibatch, by feature
    value: np.ndarray  # float32 (max values,)
    example: np.ndarray  # int32 (max values,): the example in the minibatch that a value belongs to
    gradient: np.ndarray  # float32 (1, stride)


def new_feature_workspace(examples: Examples, n_features: int, batch_size: int, dim: int) -> FeatureWorkspace:
    """Memory for minibatches of any examples; none if `n_features` is 0."""
    n_values = int(np.sort(np.diff(examples.offsets))[::-1][:batch_size].sum() if n_features else 0)
    return FeatureWorkspace(
        new_groups(n_features, n_values),
        np.zeros(n_values, dtype=np.float32),
        np.zeros(n_values, dtype=np.int32),
        aligned_zeros(1, dim),
    )


@kernel_part
def descend_features(table, examples, optimizer, n, workspace, h_gradient, order, begin, end, rate):
    """Each feature's row takes its step along what its examples ask of their h[:n], times the feature's values."""
    groups, g = workspace.groups, workspace.gradient
    n_touched = 0
    n_values = 0
    for e in range(end - begin):
        i = order[begin + e]
        for f in range(examples.offsets[i], examples.offsets[i + 1]):
            n_touched = put(groups, np.int64(examples.columns[f]), n_values, n_touched)
            workspace.value[n_values], workspace.example[n_values] = examples.values[f], e
            n_values += 1
    for t in range(n_touched):
        row = np.int64(groups.touched[t])
        for d in range(0, g.shape[1], SIMD_WIDTH):
            store(g, 0, d, zeros())
        entry = groups.first[row]
        while entry >= 0:
            x, asked_by = splat(workspace.value[entry]), np.int64(workspace.example[entry])
            for d in range(0, g.shape[1], SIMD_WIDTH):
                store(g, 0, d, multiply_add(x, load(h_gradient, asked_by, d), load(g, 0, d)))
            entry = groups.following[entry]
        descend_row(table, row, g, 0, n, optimizer, rate)
        groups.first[row] = -1

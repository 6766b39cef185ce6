"""Neighbours: probabilities blended with the labels of the nearest training rows, by the cosine of
scaled features.

    score(l) = (1 - share) p(l)^root + share q(l)^root       p: the classifier's, calibrated
    q(l) = Σ_i c_i^exponent [row i has l] / Σ_i c_i^exponent     i over the n nearest rows, c_i
        their cosines above 0

Candidates are the best labels of the classifier and those of the neighbours; p is 0 beyond the best
100. Settings that are not given are chosen on held-out rows, and a second calibration turns scores
into probabilities.

neighbour_offsets, _features, _values, _label_offsets, _labels   the training rows and their labels,
    both as CSR
neighbour_blend.npy        float64 (4,)       n, exponent, share, root
neighbour_calibration.npy  float64 (4, knots) as calibration.npy, from these scores
"""

import itertools
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, int32, ndarray
from scipy.sparse import csr_matrix

from embedx.classification import calibration
from embedx.classification.row_blocks import Best
from embedx.classification.settings import AUTO, MAX_NEIGHBOURS
from embedx.errors import DataError
from embedx.evaluation.labels import hits
from embedx.kernels.threads import in_parts, in_threads
from embedx.labeled.data import Labels
from embedx.labeled.scaling import unit_rows
from embedx.search.blended_labels import NearLabels, RowLabels, ScoredLabels, write_blended
from embedx.search.nearest_rows import (
    NearestRows,
    RowIndex,
    nearest_rows,
    row_index,
)
from embedx.storage.folder_files import DESCRIPTION, REMEDY
from embedx.storage.schema import Array

ARRAYS = {
    "neighbour_offsets": Array(
        ("neighbour rows and one",), ("int64",), offsets_into="neighbour values"
    ),
    "neighbour_features": Array(("neighbour values",), ("int32",), indexes="features"),
    "neighbour_values": Array(("neighbour values",), ("float16",)),
    "neighbour_label_offsets": Array(
        ("neighbour rows and one",), ("int64",), offsets_into="neighbour labels"
    ),
    "neighbour_labels": Array(("neighbour labels",), ("int32",), indexes="labels"),
    "neighbour_blend": Array(("terms of a blend",), ("float64",)),
    "neighbour_calibration": Array(("terms of calibration", "knots by neighbours"), ("float64",)),
}
INDEX = list(ARRAYS)[:-2]
# Values among which the fields of a blend are chosen.
COUNTS = (10, 30)
EXPONENTS = (1, 2, 3)
SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7)
ROOTS = (1.0, 0.5)
# Exponent, share and root if no rows are held out.
USUAL = (2.0, 0.25, 1.0)
# Minimum gain, in standard errors, for `auto` to use neighbours; it is large because it is the gain
# of the best of many blends. Tenfold cross-validation of the choice is noisier: it missed gains of
# .005 in P@1 (enwiki-cat; explored, not on record).
MIN_GAIN = 2.0
# The precisions whose mean is the measure.
KS = (1, 3, 5)


class Blend(NamedTuple):
    """The numbers by which scores are blended: neighbours and the terms of the formula."""

    n: float
    exponent: float = USUAL[0]
    share: float = USUAL[1]
    root: float = USUAL[2]


class Neighbours(NamedTuple):
    """The training rows that are searched."""

    rows: RowIndex
    labels: RowLabels
    n_labels: int

    def nearest(self, features: Any, n: int, threads: int) -> NearestRows:
        """The n nearest rows, for features on the scale of the training data."""
        return nearest_rows(self.rows, features, n, threads)

    def blended(
        self, ids: ndarray, p: ndarray, near: NearestRows, blend: Blend, k: int, threads: int = 1
    ) -> tuple[ndarray, ndarray]:
        """The k labels of the highest scores and these, best first."""
        n = int(blend.n)
        k = min(k, ids.shape[1])
        weight = near.cosines[:, :n] ** float32(blend.exponent)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), float32(1e-30))
        predicted = ScoredLabels(ids, np.asarray(p, float32))
        near_labels = NearLabels(near.ids[:, :n], weight, self.labels)
        best = ScoredLabels(np.zeros((len(ids), k), int32), np.zeros((len(ids), k), float32))

        def write(begin: int, end: int) -> None:
            sums = np.zeros(self.n_labels, float32)
            write_blended(
                predicted,
                near_labels,
                float32(blend.share),
                blend.root < 1,
                begin,
                end,
                sums,
                best,
            )

        if threads == 1:
            write(0, len(ids))
        else:
            in_parts(write, len(ids), threads)
        return best.ids, best.scores


def arrays_of(features: Any, labels: Labels) -> dict[str, ndarray]:
    """The arrays of an index of training rows, for a model folder."""
    rows = unit_rows(csr_matrix(features, dtype=float32))
    distinct = labels.distinct()
    return {
        "neighbour_offsets": rows.indptr.astype(np.int64),
        "neighbour_features": rows.indices.astype(int32),
        "neighbour_values": rows.data.astype(np.float16),
        "neighbour_label_offsets": distinct.offsets,
        "neighbour_labels": distinct.ids,
    }


def joined(arrays: Mapping[str, ndarray], others: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """The rows of two indices."""
    joined_arrays = {}
    for name in INDEX:
        first = arrays[name]
        second = others[name]
        if name.endswith("offsets"):
            second = second[1:] + first[-1]
        joined_arrays[name] = np.concatenate([first, second])
    return joined_arrays


def neighbours_of(arrays: Mapping[str, ndarray], n_features: int, n_labels: int) -> Neighbours:
    """The training rows of a model, from arrays whose indices and offsets were checked.

    Raises `EmbedxError` if arrays are missing or wrong.
    """
    for name in (*INDEX, "neighbour_blend"):
        if name not in arrays:
            problem = f"names no array `{name}`, which a model with neighbours needs"
            raise DataError(DESCRIPTION, None, problem)
    offsets = arrays["neighbour_offsets"]
    if len(offsets) < 2:
        raise DataError("neighbour_offsets.npy", None, "no rows", REMEDY)
    if not _is_blend(arrays["neighbour_blend"]):
        problem = "must be four numbers: of rows, the exponent, the share, and the root"
        raise DataError("neighbour_blend.npy", None, problem, REMEDY)
    calibration.check(arrays, "neighbour_calibration")
    return indexed(arrays, n_features, n_labels)


def indexed(arrays: Mapping[str, ndarray], n_features: int, n_labels: int) -> Neighbours:
    """The training rows in the arrays of an index, ready to be searched."""
    offsets = arrays["neighbour_offsets"]
    values = arrays["neighbour_values"].astype(float32)
    shape = (len(offsets) - 1, n_features)
    rows = csr_matrix((values, arrays["neighbour_features"], offsets), shape)
    labels = RowLabels(arrays["neighbour_label_offsets"], arrays["neighbour_labels"])
    return Neighbours(row_index(rows), labels, n_labels)


def _is_blend(values: ndarray) -> bool:
    """Whether stored values are the fields of a blend."""
    if len(values) != len(Blend._fields):
        return False
    blend = Blend(*values)
    return (
        1 <= blend.n <= MAX_NEIGHBOURS
        and 0 <= blend.exponent <= max(EXPONENTS)
        and 0 <= blend.share <= 1
        and blend.root in ROOTS
    )


class ChosenBlend(NamedTuple):
    """The blend that is best on held-out rows, with its gain.

    precision  mean of P@KS without neighbours
    near       the nearest rows of the held-out rows
    """

    blend: Blend
    precision: float
    gain: float
    standard_error: float
    near: NearestRows


def choose_blend(
    neighbours: Neighbours,
    best: Best,
    features: Any,
    truth: Labels,
    n_or_auto: str,
    threads: int,
) -> ChosenBlend:
    """The blend of the highest precision on held-out rows.

    best       the best labels of these rows and their probabilities without neighbours
    features   on the scale of the training data
    n_or_auto  the number of neighbours, or `auto`
    """
    ids, p = best
    counts = COUNTS if n_or_auto == AUTO else (int(n_or_auto),)
    near = neighbours.nearest(features, max(counts), threads)
    blends = [Blend(*fields) for fields in itertools.product(counts, EXPONENTS, SHARES, ROOTS)]

    def precision_of(blend: Blend) -> ndarray:
        blended_ids, _ = neighbours.blended(ids, p, near, blend, max(KS))
        return _precision(blended_ids, truth)

    # float64 (n_blends, n_rows)
    by_blend = np.stack(in_threads(precision_of, threads, blends))
    highest = by_blend.mean(axis=1).argmax()
    precision = _precision(ids, truth)
    gain = by_blend[highest] - precision
    return ChosenBlend(
        blends[highest],
        float(precision.mean()),
        float(gain.mean()),
        float(gain.std() / np.sqrt(len(gain))),
        near,
    )


def _precision(ids: ndarray, truth: Labels) -> ndarray:
    """The mean of P@KS of each row."""
    is_right = hits(ids[:, : max(KS)], truth)
    return np.mean([is_right[:, :k].sum(axis=1) / k for k in KS], axis=0)

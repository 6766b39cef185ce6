"""Neighbours: probabilities blended with the labels of the nearest training rows, by the cosine of
scaled features.

    score(l) = (1 - share) p(l)^root + share q(l)^root       p: the classifier's, calibrated
    q(l) = Σ_i c_i^exponent [row i has l] / Σ_i c_i^exponent     i over the n nearest rows, c_i
        their cosines above 0

Candidates are the best labels of the classifier and those of the neighbours; p is 0 for others than
its best 100. What is left open is chosen on rows held out of training, and a second calibration
makes scores probabilities. `auto` asks for a gain of MIN_GAIN errors there, since it is that of the
best of many blends: tenfold cross-validation of the choice is noisier, and declined on enwiki-cat,
where P@1/3/5 of test rows gain .005, .005 and .003.

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
from embedx.classification.settings import AUTO, MAX_NEIGHBOURS
from embedx.errors import DataError, EmbedxError
from embedx.evaluation.labels import hits
from embedx.kernels.threads import in_parts
from embedx.labeled.data import Labels
from embedx.labeled.rules import scaled
from embedx.search.nearest_rows import (
    Near,
    RowIndex,
    RowLabels,
    nearest_rows,
    row_index,
    write_blended,
)
from embedx.storage.folder import REMEDY
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
COUNTS, EXPONENTS, SHARES, ROOTS = (
    (10, 30),
    (1, 2, 3),
    (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7),
    (1.0, 0.5),
)
USUAL = (2.0, 0.25, 1.0)  # exponent, share and root where no rows are held out
MIN_GAIN = 2.0  # standard errors
KS = (1, 3, 5)  # the precisions whose mean is the measure


class Blend(NamedTuple):
    """How scores are blended."""

    n: float
    exponent: float = USUAL[0]
    share: float = USUAL[1]
    root: float = USUAL[2]


class Neighbours(NamedTuple):
    """The training rows that are searched."""

    rows: RowIndex
    labels: RowLabels
    n_labels: int

    def nearest(self, features: Any, n: int, threads: int) -> Near:
        """The n nearest rows, for features on the scale of the training data."""
        return nearest_rows(self.rows, features, n, threads)

    def blended(
        self, ids: ndarray, p: ndarray, near: Near, blend: Blend, k: int, threads: int = 1
    ) -> tuple[ndarray, ndarray]:
        """The k labels of the highest scores and these, best first, from labels and their
        probabilities.
        """
        n, k = int(blend.n), min(k, ids.shape[1])
        weight = near.cosines[:, :n] ** float32(blend.exponent)
        weight /= np.maximum(weight.sum(axis=1, keepdims=True), float32(1e-30))
        best, scores = np.zeros((len(ids), k), int32), np.zeros((len(ids), k), float32)
        p = np.asarray(p, float32)

        def write(begin: int, end: int) -> None:
            sums = np.zeros(self.n_labels, float32)
            write_blended(
                ids,
                p,
                near.ids[:, :n],
                weight,
                self.labels,
                begin,
                end,
                float32(blend.share),
                blend.root < 1,
                sums,
                best,
                scores,
            )

        in_parts(write, len(ids), threads)
        return best, scores


def arrays_of(features: Any, labels: Labels) -> dict[str, ndarray]:
    """The index of training rows, as a model folder has it."""
    rows = scaled(csr_matrix(features, dtype=float32), "l2")
    own = (rows.indptr.astype(np.int64), rows.indices.astype(int32), rows.data.astype(np.float16))
    distinct = labels.distinct()
    return dict(zip(INDEX, (*own, distinct.offsets, distinct.ids), strict=True))


def joined(arrays: Mapping[str, ndarray], others: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """The rows of two indices."""
    parts = {name: (arrays[name], others[name]) for name in INDEX}
    return {
        name: np.concatenate([a, b[1:] + a[-1]] if name.endswith("offsets") else [a, b])
        for name, (a, b) in parts.items()
    }


def neighbours_of(arrays: Mapping[str, ndarray], n_features: int, n_labels: int) -> Neighbours:
    """What is searched, from the arrays of a model whose indices and offsets were checked. Raises
    `EmbedxError` where there are not all.
    """
    if missing := [name for name in (*INDEX, "neighbour_blend") if name not in arrays]:
        raise EmbedxError(f"names no array `{missing[0]}`, which a model with neighbours has")
    offsets, features, values, label_offsets, ids = (arrays[name] for name in INDEX)
    if len(offsets) < 2:
        raise DataError("neighbour_offsets.npy", None, "no rows", REMEDY)
    blend = (
        Blend(*arrays["neighbour_blend"])
        if len(arrays["neighbour_blend"]) == len(Blend._fields)
        else Blend(0)
    )
    is_blend = 1 <= blend.n <= MAX_NEIGHBOURS and 0 <= blend.exponent <= max(EXPONENTS)
    if not is_blend or not 0 <= blend.share <= 1 or blend.root not in ROOTS:
        problem = "not a number of rows, an exponent, a share and a root"
        raise DataError("neighbour_blend.npy", None, problem, REMEDY)
    calibration.check(arrays, "neighbour_calibration")
    rows = csr_matrix((values.astype(float32), features, offsets), (len(offsets) - 1, n_features))
    return Neighbours(row_index(rows), RowLabels(label_offsets, ids), n_labels)


def chosen(
    found: Neighbours,
    ids: ndarray,
    p: ndarray,
    features: Any,
    truth: Labels,
    wanted: str,
    threads: int,
) -> tuple[Blend, float, float, float, Near]:
    """The blend that suits held-out rows best; their precision (mean of P@KS) without it, its gain
    and the error of that.
    """
    counts = COUNTS if wanted == AUTO else (int(wanted),)
    near = found.nearest(features, max(counts), threads)
    options = [Blend(*each) for each in itertools.product(counts, EXPONENTS, SHARES, ROOTS)]
    own = _precision(ids, truth)
    by_option = np.stack(
        [_precision(found.blended(ids, p, near, each, max(KS))[0], truth) for each in options]
    )
    best = by_option.mean(axis=1).argmax()
    gain = by_option[best] - own
    return (
        options[best],
        float(own.mean()),
        float(gain.mean()),
        float(gain.std() / np.sqrt(len(gain))),
        near,
    )


def _precision(ids: ndarray, truth: Labels) -> ndarray:
    """The mean of P@KS of each row."""
    is_right = hits(ids[:, : max(KS)], truth)
    return np.mean([is_right[:, :k].sum(axis=1) / k for k in KS], axis=0)

"""y of the estimator as labels, and the weights of rows: classes of any type, indicator matrices,
`sample_weight` and `class_weight`.
"""

import numbers
import reprlib
import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy import float64, ndarray

from embedx import checks
from embedx.classification.classifier import Classifier
from embedx.classification.scikit_learn import check_sample_weight, column_or_1d
from embedx.labeled.data import Labels, offsets_of
from embedx.labeled.labelled_rows_from_python import label_name


def names_of(classes: ndarray) -> list[str]:
    """The classes as files write them: 1.0 is the label 1."""
    return [label_name(label) for label in classes]


def classes_of(classifier: Classifier, dtype: str | None) -> ndarray:
    """The labels of a classifier, of the type that they had in training if that is recorded.

    Without names they are their numbers.
    """
    names = classifier.label_names
    if dtype is None or classifier.schema.names is None:
        return names
    if np.dtype(dtype).kind == "b":
        return names == "True"
    return names.astype(dtype)


def training_classes(y: ndarray) -> ndarray:
    """The classes of training rows, sorted, without empty texts, of which a warning tells."""
    is_labelled = has_label(y)
    n_empty = np.count_nonzero(~is_labelled)
    if n_empty:
        warnings.warn(
            f"{n_empty:,} of {len(y):,} training rows have no label and are not trained on",
            # the caller of `fit`
            stacklevel=5,
        )
    return np.unique(y[is_labelled])


def labels_of(y: Any, classes: ndarray, *, is_multilabel: bool) -> Labels:
    """The labels of rows by their places among the classes. Raises ValueError for others.

    is_multilabel  whether y is an indicator matrix, (n, n_classes)
    """
    if not is_multilabel:
        return labels_by_class(column_or_1d(y), classes)
    if y.shape[1] != len(classes):
        raise ValueError(f"y has {y.shape[1]} columns for {len(classes)} labels")
    checks.refuse(checks.wrong_sparse(y), "y", "build the matrix anew")
    return Labels.of_matrix(y)


def has_label(y: ndarray) -> ndarray:
    """bool (n,): whether a label is more than an empty text."""
    if y.dtype.kind not in "OU":
        return np.ones(len(y), bool)
    return np.char.strip(y.astype(str)) != ""


def labels_by_class(y: ndarray, classes: ndarray) -> Labels:
    """The labels of rows by their places among the classes; rows may have none. Raises ValueError
    for a label that is no class.

    y        (n,)
    classes  (n_classes,), which differ
    """
    is_labelled = has_label(y)
    y = y[is_labelled]
    order = np.argsort(classes)
    rank = np.searchsorted(classes, y, sorter=order)
    places = order[np.minimum(rank, len(order) - 1)]
    is_unknown = classes[places] != y
    if is_unknown.any():
        raise ValueError(
            f"y has the label {y[is_unknown].tolist()[0]!r}, which is not among the classes"
            f" {reprlib.repr(classes.tolist())}"
        )
    return Labels(offsets_of(is_labelled), places.astype(np.int32))


def row_weights(
    sample_weight: Any, class_weight: Any, X: Any, labels: Labels, classes: ndarray
) -> ndarray | None:
    """The weights of rows, float64 (n,); None if all rows weigh the same.

    They are `sample_weight` times the weights of the rows' labels, if `class_weight` has any;
    "balanced" is a setting of the training.
    """
    weights = _checked_weights(sample_weight, X)
    if not isinstance(class_weight, Mapping):
        return weights
    class_weights = weights_by_class(labels, class_weight, classes)
    weights = class_weights if weights is None else weights * class_weights
    if not weights.any():
        raise ValueError("class_weight: all weights are zero")
    return weights


def _checked_weights(sample_weight: Any, X: Any) -> ndarray | None:
    """float64 (n,): weights checked by scikit-learn; None if all rows weigh the same."""
    if sample_weight is None:
        return None
    weights: ndarray = check_sample_weight(
        sample_weight, X, dtype=float64, ensure_non_negative=True
    )
    if not weights.any():
        raise ValueError("sample_weight: all weights are zero")
    return weights


def weights_by_class(labels: Labels, class_weight: Mapping[Any, Any], classes: ndarray) -> ndarray:
    """The mean weight of the labels of each row, float64 (n,); 1 for a row without labels.

    class_weight  weights by class, 1 where there is none
    """
    label_weights = _label_weights(class_weight, classes.tolist())
    totals = np.bincount(labels.row_of_id, label_weights[labels.ids], len(labels))
    return np.where(labels.n_of_row > 0, totals / np.maximum(labels.n_of_row, 1), 1.0)


def _label_weights(class_weight: Mapping[Any, Any], classes: list[Any]) -> ndarray:
    """The weight of each class, float64 (n_classes,).

    Raises ValueError for weights that are no numbers from 0 on and, as scikit-learn, for labels
    that do not occur while others have no weight.
    """
    unknown = [label for label in class_weight if label not in classes]
    if unknown and any(label not in class_weight for label in classes):
        raise ValueError(f"class_weight: no row has the label {unknown[0]!r}")
    for label, weight in class_weight.items():
        is_weight = isinstance(weight, numbers.Real) and 0 <= float(weight) < np.inf
        if not is_weight:
            raise ValueError(
                f"class_weight: {weight!r}, of {label!r}, is no weight; give a number from 0 on"
            )
    return np.array([class_weight.get(label, 1.0) for label in classes], float64)

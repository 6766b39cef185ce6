"""X of the estimator as features: texts, the columns of a table, and arrays.

fit          texts: `counted_texts`      then `validated`, then `for_training`; the first
             `partial_fit` alike
predict      `features_to_predict`: texts and tables by `features_by_schema` alone, arrays also
             checked and by `for_training`
partial_fit  later calls: `features_by_schema`, then `validated`, then `for_training`
"""

from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy import float32, float64
from scipy.sparse import csr_matrix, issparse

from embedx import checks
from embedx.classification.scikit_learn import validate_data
from embedx.labeled.data import DataSchema, TextSchema
from embedx.labeled.files import MemoryBudget
from embedx.labeled.rows_from_python import (
    are_texts,
    check_texts,
    features_of,
    features_of_numbers,
    records_of,
)
from embedx.labeled.words import TextFeatureSettings, text_features


def counted_texts(X: Any) -> tuple[Any, TextSchema | None]:
    """Training texts as counts of their words and pairs of words, and the schema of these counts;
    other X as it is, and None.
    """
    _check_form(X)
    if not are_texts(X):
        return X, None
    check_texts(X)
    features = text_features(TextFeatureSettings(), MemoryBudget("X"), None)
    features.add(X)
    return features.finish()


def features_by_schema(estimator: Any, X: Any, schema: DataSchema) -> Any:
    """The features of texts and of the columns of a table, as in training; other X as it is."""
    columns = schema.columns
    is_text = schema.text is not None and are_texts(X)
    if is_text or (columns is not None and records_of(X) is not None):
        return features_of(X, schema)
    _check_form(X)
    if columns is None or columns.text:
        return X
    numbers = validate_data(estimator, X, dtype=float64, reset=False, ensure_all_finite="allow-nan")
    return features_of_numbers(numbers, columns)


def features_to_predict(estimator: Any, X: Any, schema: DataSchema) -> Any:
    """The features to predict from."""
    features = features_by_schema(estimator, X, schema)
    if features is not X:
        return features
    features = validate_data(estimator, X, accept_sparse="csr", dtype=float32, reset=False)
    return for_training(features, has_hidden=bool(estimator.hidden))


def validated(estimator: Any, X: Any, y: Any, *, reset: bool) -> tuple[Any, Any]:
    """Features and labels, checked by scikit-learn.

    reset  whether their number of features, and names, are those of the model from now on
    """
    if _has_lists_of_names(y):
        matrix = "sklearn.preprocessing.MultiLabelBinarizer().fit_transform(y)"
        raise ValueError(f"y has lists of labels; give their indicator matrix, {matrix}")
    features, labels = validate_data(
        estimator, X, y, accept_sparse="csr", dtype=float32, multi_output=True, reset=reset
    )
    return features, labels


def _has_lists_of_names(y: Any) -> bool:
    """Whether the rows of labels are lists, some of them with a text."""
    if not isinstance(y, Iterable) or not isinstance(next(iter(y), None), list | tuple | set):
        return False
    return any(isinstance(label, str) for labels in y for label in labels)


def for_training(X: Any, *, has_hidden: bool) -> Any:
    """Validated features in writable arrays in C order; sparse with a hidden layer."""
    if not (has_hidden or issparse(X)):
        X = np.ascontiguousarray(X)
        return X if X.flags.writeable else X.copy()
    X = csr_matrix(X)
    is_writeable = all(part.flags.writeable for part in (X.data, X.indices, X.indptr))
    if not (is_writeable and X.has_canonical_format):
        X = X.copy()
        X.sum_duplicates()
    return X


def _check_form(X: Any) -> None:
    """Raise an error for a text in place of a list, and for a broken sparse matrix."""
    checks.refuse(checks.wrong_sparse(X), "X", "build the matrix anew")
    if isinstance(X, str):
        raise ValueError(f"X is the text {X[:40]!r}; give a list of texts")
    column = _column_of_text(X)
    if column is not None:
        raise ValueError(
            f"X has text in the column {column!r}; give its texts alone, X[{column!r}]"
        )


def _column_of_text(X: Any) -> Any:
    """The first column of a data frame that begins with a text; None if there is none."""
    if not (hasattr(X, "columns") and hasattr(X, "iloc") and len(X)):
        return None
    return next((name for name in X.columns if isinstance(X[name].iloc[0], str)), None)

"""`coef_` and `intercept_` of the estimator: the weights of the output layer by class."""

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

from embedx.classification.classifier import Classifier
from embedx.classification.label_tree import weights_of


def coefficients(classifier: Classifier, *, is_binary_softmax: bool) -> ndarray | csr_matrix:
    """The weights of the output layer, (n_outputs, n_features).

    is_binary_softmax  whether two outputs are given as their difference, (1, n_features)
    """
    if "hidden" in classifier.arrays:
        raise AttributeError("coef_: with a hidden layer scores are not linear in the features")
    if classifier.by_distance:
        raise AttributeError("coef_: scores by distance are not linear in the features")
    if not classifier.has_sparse_weights:
        return _difference_if(is_binary_softmax, classifier.arrays["output"])
    _check_no_label_tree(classifier)
    n_features = classifier.schema.n_features
    return weights_of(classifier.trees[0], classifier.n_labels, n_features)


def intercepts(classifier: Classifier, *, is_binary_softmax: bool) -> ndarray:
    """The biases, one for each row of the coefficients; zeros if there are none."""
    arrays = classifier.arrays
    if classifier.has_sparse_weights:
        _check_no_label_tree(classifier)
        no_features = csr_matrix((1, classifier.schema.n_features), dtype=float32)
        return classifier.scores(no_features)[0]
    biases = arrays["bias"] if "bias" in arrays else np.zeros(len(arrays["output"]))
    return _difference_if(is_binary_softmax, biases)


def _check_no_label_tree(classifier: Classifier) -> None:
    """Raise AttributeError for labels in a tree."""
    if classifier.has_label_tree:
        raise AttributeError(
            "coef_, intercept_: in a tree, scores of labels also depend on the nodes above them"
        )


def _difference_if(is_binary_softmax: bool, rows: ndarray) -> ndarray:
    """Weights or biases of the output vectors, or the difference of two."""
    return rows[1:] - rows[:1] if is_binary_softmax else rows

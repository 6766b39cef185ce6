"""What the estimator uses of scikit-learn, or an error that says how to install it."""

try:
    from joblib import effective_n_jobs
    from sklearn.base import BaseEstimator, ClassifierMixin
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.utils.multiclass import check_classification_targets, type_of_target
    from sklearn.utils.validation import (
        _check_sample_weight as check_sample_weight,
        check_is_fitted,
        column_or_1d,
        validate_data,
    )
except ImportError as error:
    raise ImportError(
        'embedx.SoftmaxClassifier needs scikit-learn 1.6 or later: pip install "embedx[sklearn]"'
    ) from error

__all__ = [
    "BaseEstimator",
    "ClassifierMixin",
    "ConvergenceWarning",
    "check_classification_targets",
    "check_is_fitted",
    "check_sample_weight",
    "column_or_1d",
    "effective_n_jobs",
    "type_of_target",
    "validate_data",
]

"""The task of classification by scikit-learn's conventions: `SoftmaxClassifier().fit(X,
y).predict(X)`.

It trains what `embedx classify` trains, with the same settings, and fits into pipelines, searches
and cross-validation. Needs scikit-learn: `pip install "embedx[sklearn]"`.

    estimator_settings.py  parameters to settings, with scikit-learn's defaults
    estimator_inputs.py    X to features
    estimator_labels.py    y, sample_weight and class_weight to labels and weights
    linear_weights.py      coef_ and intercept_
"""

import dataclasses
import numbers
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy import float64, ndarray
from scipy.sparse import csr_matrix, issparse

from embedx import checks
from embedx.classification import (
    estimator_inputs,
    estimator_labels,
    familiarity,
    linear_weights,
    predictions,
    word_ngrams,
)
from embedx.classification.classifier import Classifier, load
from embedx.classification.continued_training import SPARSE_SETTINGS, check_weights
from embedx.classification.estimator_settings import (
    OTHER_NAMES,
    PARAMETERS,
    given_settings_of,
    is_for_lbfgs,
    objective_for,
    seed_of,
    settings_of_lbfgs,
)
from embedx.classification.ineffective_settings import check_given
from embedx.classification.label_weights import is_sparse_or_tree
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.problem import given_names, has_softmax
from embedx.classification.row_blocks import joined_blocks
from embedx.classification.run import ClassifierRun
from embedx.classification.scikit_learn import (
    BaseEstimator,
    ClassifierMixin,
    ConvergenceWarning,
    check_classification_targets,
    check_is_fitted,
    column_or_1d,
    effective_n_jobs,
    type_of_target,
)
from embedx.classification.settings import (
    DENSE,
    EUCLIDEAN,
    INNER_PRODUCT,
    STEP_SETTINGS,
    ClassifySettings,
)
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.engine.settings import check_stopping
from embedx.labeled.data import DataSchema, Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs
from embedx.parameters import check_names, python_names, signature
from embedx.runtime.progress import python_progress
from embedx.storage.schema import check_can_be_saved
from embedx.training import life

if TYPE_CHECKING:
    from typing import Unpack

    from embedx.classification.parameters import ClassifierParameters


class SoftmaxClassifier(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """A linear classifier whose loss, the objective, is a parameter: exact softmax, or one of its
    many approximations.

    Parameters have the names and meanings of `embedx classify --help`, including settings of the
    objective such as `negatives`. None is the default of `ClassifySettings` or of the objective.
    Differences:

    objective     None: softmax; with weights "sparse" or "tree" what `embedx classify` chooses, ova
                  with the squared hinge on sparse data
    optimizer     None: lbfgs, to the optimum, for an objective that scores all rows (softmax, ova),
                  if the data are not too large and no setting of stochastic optimizers is given;
                  else as `embedx classify`
    l2            None: with lbfgs one over the sum of the sample weights, which is the penalty of
                  scikit-learn's LogisticRegression(C=1) and makes sure that there is an optimum;
                  else as `embedx classify`
    weights       storage of the labels' weights, "dense", "sparse" or "tree"; None: by size
    class_weight  "balanced", or a dict of labels and their weights, 1 where there is none; a row of
                  several labels has the mean of their weights. They multiply sample_weight
    scaling       None: dense columns on different scales are standardised by `fit`, as in
                  `embedx classify`; sparse features are taken as they are
    validation    a fraction of the rows to monitor during training, such as 0.1
    calibration   None: no rows are held out with lbfgs, nor by `partial_fit`, so that probabilities
                  are those of the objective; else as `embedx classify`
    score_function  `--score`
    random_state  `--seed`: a number or a RandomState; None is the default seed, so that results
                  repeat
    n_jobs        `--threads`, by scikit-learn's conventions: None is one, -1 every core. With one
                  thread, or `deterministic`, the same random_state gives the same parameters
    verbose       whether to report progress on standard error

    X is dense, sparse, or a list of texts, whose words and pairs of words are features, scaled as
    in `embedx classify`, and `fit` leaves pairs out where `embedx classify` would. For a model of
    `embedx classify` that was trained on a table, X is a data frame or a list of records (dicts)
    with its columns; an array of its numeric columns, in order, if it has no text; or texts.
    Numbers are trained on as float32; with `hidden` dense features are made sparse. y holds one
    label for each row, of any type, or is an indicator matrix (n, n_labels), dense or sparse, of
    several; rows without a label, or whose label is an empty text, are not trained on.

    Several labels: with an objective that has independent probabilities (ova), labels above 1/2 are
    predicted; their scores are above zero. With all others the probabilities of the labels sum to
    one, which does not say how many labels apply: `predict` marks only the likeliest. `top_k` works
    for both.

    After `fit`: classes_, n_features_in_, feature_names_in_ (of data frames), n_iter_ (iterations
    of lbfgs or passes over the data), coef_, intercept_, and classifier_, the `Classifier` that was
    trained. Parameters are float64, except that training by steps on sparse data leaves float32.
    With sparse weights `coef_` is a sparse matrix; a tree has none, and finds the best labels
    without scores of the others: `predict` and `top_k` alone.
    """

    def __init__(
        self, objective: str | None = None, **parameters: "Unpack[ClassifierParameters]"
    ) -> None:
        check_names("SoftmaxClassifier", parameters, PARAMETERS)
        self.objective = objective
        for name, default in PARAMETERS.items():
            setattr(self, name, parameters.get(name, default))

    # scikit-learn reads the parameters from it.
    __init__.__signature__ = signature(  # type: ignore[attr-defined]
        {"objective": None}, PARAMETERS
    )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        tags.classifier_tags.multi_label = True
        # Threads share tables without locks.
        tags.non_deterministic = self.n_jobs not in (None, 1) and not self.deterministic
        return tags

    # ---- training

    @python_names(OTHER_NAMES)
    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Train from scratch.

        X              (n, n_features), dense or sparse, or n texts
        y              (n,) labels, or an indicator matrix (n, n_labels)
        sample_weight  (n,): factor of the loss of each row; rows of weight 0 are left out. In
                       training by steps, the random order of rows depends on their positions, so
                       that weighted rows and rows repeated by hand give models that differ as by
                       another random_state: scikit-learn's
                       check_sample_weight_equivalence_on_dense_data and …_on_sparse_data then fail

        Raises ValueError for invalid data, `EmbedxError` for invalid settings and `DivergedError`
        when training diverges even at lower rates: the last good parameters, if any, are kept.
        Ctrl-C keeps the classifier so far and is raised again.
        """
        given = given_settings_of(self)
        check_stopping(given)
        X, y = self._set_data_attributes(X, y)
        seed = seed_of(self.random_state)
        data, reason = self._choose_ngrams(self._labeled(X, y, sample_weight), given, seed)
        self._text = data.schema.text
        self.n_features_in_ = data.n_features
        self.n_iter_ = 0
        objective = objective_for(self.objective, given, data)
        overrides: dict[str, Any] = {"seed": seed}
        if is_for_lbfgs(given, objective, data):
            overrides |= settings_of_lbfgs(given, data)
        origins = {} if reason is None else {"word_ngrams": reason}
        return self._train(data, objective, given, overrides, None, origins)

    @python_names(OTHER_NAMES)
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Continue training with one pass over these rows.

        It starts from the current parameters and optimizer state. `classes` are the labels of all
        calls; if y is not an indicator matrix, the first call needs them, unless it follows a
        `fit`. The learning rate is constant unless a schedule is given, which starts again at each
        call. Noise and trees use the label counts of the first call. An objective's state per
        example is reset, because the examples are new. After a `fit` by lbfgs the optimizer has no
        state, and its first steps are as long as those of a new run; to `fit` and continue, use the
        same optimizer for both, such as adagrad. No rows are held out, and the time is not limited:
        `validation`, `calibration` and `time_budget` are for `fit`.

        Sparse weights of a `fit`, or of a loaded model, are trained anew on these rows, then
        averaged with the old ones, label by label, weighted by numbers of rows.
        """
        is_first = not hasattr(self, "classes_")
        if is_first:
            X, y = self._set_data_attributes(X, y, classes)
            self.n_iter_ = 0
        else:
            X = estimator_inputs.features_by_schema(self, X, self.classifier_.schema)
            X, _ = familiarity.split_unknown_words(X, self.n_features_in_)
            X, y = estimator_inputs.validated(self, X, y, reset=False)
        self._check_classes(classes, is_first)
        self._check_partial_fit(is_first)
        data = self._labeled(X, y, sample_weight)
        given = given_settings_of(self)
        overrides = {
            "epochs": 1,
            "weights": DENSE,
            "time_budget": None,
            "validation": None,
            "calibration": 0.0,
            "schedule": self.schedule or "constant",
            "seed": seed_of(self.random_state) + self.n_iter_,
        }
        if is_first:
            if not self._text:
                # The first rows may be too few to say how columns are to be scaled.
                overrides["scaling"] = self.scaling or "none"
            objective = objective_for(self.objective, given, data)
            return self._train(data, objective, given, overrides, None)
        return self._train_further(data, given, overrides)

    def _train_further(
        self, data: Labeled, given: Mapping[str, Any], overrides: dict[str, Any]
    ) -> Self:
        """Continue training, with the schema, scaling and score of the classifier so far."""
        classifier = self.classifier_
        data = data.with_schema(classifier.schema)
        overrides["score"] = EUCLIDEAN if classifier.by_distance else INNER_PRODUCT
        overrides["scaling"] = classifier.settings["scaling"]
        if classifier.has_sparse_weights:
            check_weights(classifier, None)
            kept = ("weights", "optimizer", *SPARSE_SETTINGS)
            overrides |= {"epochs": None, **{name: classifier.settings[name] for name in kept}}
        start = self._trained or classifier
        return self._train(data, classifier.objective, given, overrides, start)

    def _check_classes(self, classes: Any, is_first: bool) -> None:
        """Raise ValueError if `classes` are not those of all calls of `partial_fit`."""
        if is_first and classes is None and not self._is_multilabel:
            raise ValueError(
                "the first call of partial_fit needs `classes`, the labels of all calls"
            )
        is_other = classes is not None and not np.array_equal(np.unique(classes), self.classes_)
        if is_other and not is_first:
            raise ValueError(
                f"classes={classes!r} are not those of the first call, {self.classes_!r}"
            )

    def _check_partial_fit(self, is_first: bool) -> None:
        """Raise ValueError for parameters that need all rows at once."""
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight='balanced' needs the labels of all rows, which partial_fit does not"
                " have; give a dict of labels and their weights"
            )
        if self.optimizer == Lbfgs.name:
            raise ValueError(
                "partial_fit takes stochastic steps, but optimizer='lbfgs' needs all data at once;"
                " use 'adagrad'"
            )
        if is_first and is_sparse_or_tree(self.weights):
            raise ValueError(
                f"the first call of partial_fit trains dense weights; with weights={self.weights!r}"
                " begin with fit"
            )

    def _train(
        self,
        data: Labeled,
        objective: Objective,
        given: Mapping[str, Any],
        overrides: Mapping[str, Any],
        start: TrainedClassifier | Classifier | None,
        origins: Mapping[str, str] | None = None,
    ) -> Self:
        """Train by settings.

        given      those of the parameters
        overrides  settings in place of given ones; None restores the default
        origins    the reasons of what was chosen for the features
        """
        options = {**given, "threads": self._threads, **overrides}
        options = {name: value for name, value in options.items() if value is not None}
        if not self._text and data.is_sparse:
            options.setdefault("scaling", "none")
        settings = ClassifySettings.from_options(options)
        # Settings of steps are not checked: after a fit by lbfgs, `partial_fit` may use them.
        checked = {name: value for name, value in given.items() if name not in STEP_SETTINGS}
        check_given(checked, settings, objective)
        by_lbfgs = settings.optimizer == Lbfgs.name
        if by_lbfgs:
            # L-BFGS gives the weights the type of the features.
            data = dataclasses.replace(data, features=data.features.astype(float64))
        with python_progress(self.verbose, OTHER_NAMES) as progress:
            config = ClassifierConfiguration(objective, settings, options, given_names(given))
            run = ClassifierRun(data, config, progress, start=start)
            run.origins |= origins or {}
            trained = life.train_model(run)
        self._keep(trained, data.is_sparse)
        trained.outcome.raise_reason()
        if by_lbfgs and self.n_iter_ >= settings.max_iterations:
            warnings.warn(
                f"lbfgs ended after {self.n_iter_} iterations, short of the optimum; raise"
                " max_iterations or l2, or scale the features",
                ConvergenceWarning,
                stacklevel=3,
            )
        return self

    def _keep(self, trained: TrainedClassifier, is_sparse: bool) -> None:
        """Set the attributes of a fitted classifier.

        is_sparse  whether features are sparse
        """
        self.classifier_: Classifier = trained.classifier
        if not is_sparse:
            # Scores then do not depend on the order in which features are summed. float64 weights
            # take no more memory than dense features.
            self.classifier_.arrays = _as_float64(self.classifier_.arrays)
        self.classifier_.parameters_changed()
        outcome = trained.outcome.without_state()
        self._trained: TrainedClassifier | None = dataclasses.replace(trained, outcome=outcome)
        self.n_iter_ += round(outcome.epochs)

    @property
    def _threads(self) -> int:
        """The number of threads that `n_jobs` stands for."""
        return int(effective_n_jobs(self.n_jobs))

    # ---- the folder

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write the model folder, which `load`, `embedx predict` and `embedx eval` read.

        It has no pickles.
        """
        check_is_fitted(self)
        parameters = given_settings_of(self)
        parameters.pop("score", None)
        others = ("objective", "score_function", "n_jobs", "verbose")
        parameters |= {name: getattr(self, name) for name in others}
        if isinstance(self.random_state, numbers.Integral):
            parameters["random_state"] = int(self.random_state)
        recorded = {
            "parameters": parameters,
            "classes": self.classes_.dtype.str,
            "n_iter": self.n_iter_,
            "is_multilabel": self._is_multilabel,
            "has_sparse_labels": self._has_sparse_labels,
        }
        facts = {**self.classifier_.facts, "estimator": recorded}
        return dataclasses.replace(self.classifier_, facts=facts).save(folder, overwrite)

    @classmethod
    def load(cls, folder: str | Path) -> Self:
        """The classifier in a model folder, also one of `embedx classify`. Raises `EmbedxError`."""
        with python_names(OTHER_NAMES):
            classifier = load(folder)
        schema = classifier.schema
        recorded = classifier.facts.pop("estimator", {})
        parameters = {"objective": classifier.objective.name, **recorded.get("parameters", {})}
        estimator = cls(**parameters)
        estimator.classifier_ = classifier
        estimator._trained = None
        estimator._text = schema.text
        estimator._is_multilabel = recorded.get("is_multilabel", classifier.has_several_labels)
        estimator._has_sparse_labels = recorded.get("has_sparse_labels", estimator._is_multilabel)
        estimator.n_iter_ = recorded.get("n_iter", 0)
        estimator.n_features_in_ = schema.n_features
        estimator.classes_ = estimator_labels.classes_of(classifier, recorded.get("classes"))
        if schema.feature_names is not None:
            estimator.feature_names_in_ = np.array(schema.feature_names, object)
        return estimator

    # ---- labels

    def _set_data_attributes(self, X: Any, y: Any, classes: Any = None) -> tuple[Any, Any]:
        """Set the attributes that follow from the training data, such as `classes_`, and return the
        features and labels, checked. Labels are one-dimensional where rows have one.

        classes  all labels, if they are not those of y
        """
        X, self._text = estimator_inputs.counted_texts(X)
        X, y = estimator_inputs.validated(self, X, y, reset=True)
        checks.refuse(checks.wrong_sparse(y), "y", "build the matrix anew")
        check_classification_targets(y)
        self._is_multilabel = type_of_target(y) == "multilabel-indicator"
        self._has_sparse_labels = self._is_multilabel and issparse(y)
        if self._is_multilabel:
            self.classes_ = np.arange(y.shape[1])
            return X, y
        y = column_or_1d(y, warn=True)
        if classes is None:
            self.classes_ = estimator_labels.training_classes(y)
        else:
            self.classes_ = np.unique(classes)
        return X, y

    def _labeled(self, X: Any, y: Any, sample_weight: Any) -> Labeled:
        """Checked rows and labels as training takes them."""
        n_labels = len(self.classes_)
        names = None if self._is_multilabel else estimator_labels.names_of(self.classes_)
        check_can_be_saved(names or [], "y")
        schema = DataSchema(
            X.shape[1],
            n_labels,
            names,
            self._text,
            by_name=names is not None,
            feature_names=self._feature_names,
        )
        labels = estimator_labels.labels_of(y, self.classes_, is_multilabel=self._is_multilabel)
        weights = estimator_labels.row_weights(
            sample_weight, self.class_weight, X, labels, self.classes_
        )
        features = estimator_inputs.for_training(X, has_hidden=bool(self.hidden))
        data = Labeled(features, labels, n_labels, schema, weights)
        schema = dataclasses.replace(schema, has_empty_first_column=data.has_empty_first_column)
        return data.with_schema(schema)

    @property
    def _feature_names(self) -> list[str] | None:
        """The columns of the data frame that was trained on, if it was one."""
        if not hasattr(self, "feature_names_in_"):
            return None
        return [*map(str, self.feature_names_in_)]

    # ---- prediction

    @python_names(OTHER_NAMES)
    def predict(self, X: Any, *, abstain: bool = False) -> ndarray | csr_matrix:
        """The likeliest class of each row, (n,).

        Trained on an indicator matrix it gives another such, sparse if that was.

        abstain  whether "none of these" is an answer, as of `Classifier.predict`: None, in an array
                 of objects, or a row without a class
        """
        check_is_fitted(self)
        if abstain:
            return self._predicted_or_none(X)
        if not self._is_multilabel:
            classes, _ = self.top_k(X, 1)
            return classes[:, 0]
        labels = predictions.decided_labels(
            self.classifier_, self._features_of(X), self._is_multilabel, self._threads
        )
        return labels if self._has_sparse_labels else labels.toarray()

    def _predicted_or_none(self, X: Any) -> ndarray | csr_matrix:
        """`predict` with `abstain`."""
        ids, marks = predictions.decided_or_none(
            self.classifier_, self._features_of(X), self._threads
        )
        if self._is_multilabel:
            return marks if self._has_sparse_labels else marks.toarray()
        classes = self.classes_[np.maximum(ids, 0)].astype(object)
        classes[ids == familiarity.NONE_OF_THESE] = None
        return classes

    def predict_proba(self, X: Any) -> ndarray:
        """The probability of each class, (n, n_classes), as `top_k` has it.

        Where y has one label a row, those of a row are scaled to sum to 1.
        """
        return np.exp(self.predict_log_proba(X))

    @python_names(OTHER_NAMES)
    def predict_log_proba(self, X: Any) -> ndarray:
        """The log of the probability of each class, (n, n_classes)."""
        check_is_fitted(self)
        return predictions.log_probabilities(
            self.classifier_, self._features_of(X), self._is_multilabel, self._threads
        )

    @python_names(OTHER_NAMES)
    def decision_function(self, X: Any) -> ndarray:
        """Scores in the order of the probabilities, (n, n_classes).

        For two classes they are (n,), above zero for the second.

        They are the scores of the output layer, X @ coef_.T + intercept_, where probabilities are a
        softmax of these, and for several labels under an objective that gives each a probability by
        itself; else log-probabilities.
        """
        X = self._features_of(X)
        blocks = self.classifier_.blocks(X, threads=self._threads, compute=self._decisions)
        return np.concatenate([scores for _, scores in blocks])

    @python_names(OTHER_NAMES)
    def top_k(self, X: Any, k: int = 5) -> tuple[ndarray, ndarray]:
        """The k likeliest classes of each row, best first, and their probabilities.

        Both are (n, min(k, n_classes)). Where there is a tree, they are those that it finds.
        """
        X = self._features_of(X)
        k = min(checks.whole_top_k(k), len(self.classes_))
        ids, p = joined_blocks(self.classifier_.iter_top_k(X, k, threads=self._threads))
        return self.classes_[ids], p

    @python_names(OTHER_NAMES)
    def predict_set(
        self, X: Any, *, threshold: float | None = None, coverage: float | None = None
    ) -> csr_matrix:
        """The probabilities of the classes that are decided for, sparse (n, n_classes); see
        `Classifier.predict_set`.

        Needs rows held out of training: `calibration` or `validation`. Without threshold and
        coverage, those of the best F1.
        """
        X = self._features_of(X)
        return self.classifier_.label_sets(
            X, threshold=threshold, coverage=coverage, threads=self._threads
        )

    def _features_of(self, X: Any) -> Any:
        """The features to predict from."""
        check_is_fitted(self)
        return estimator_inputs.features_to_predict(self, X, self.classifier_.schema)

    def _choose_ngrams(
        self, data: Labeled, given: Mapping[str, Any], seed: int
    ) -> word_ngrams.Choice:
        """The data with pairs of words as features or without, as `embedx classify` chooses."""
        with python_progress(self.verbose, OTHER_NAMES) as progress:
            options = {**given, "seed": seed}
            return word_ngrams.choose(data, self.objective, options, progress)

    @property
    def _scores_are_softmax(self) -> bool:
        return has_softmax(self.classifier_.objective)

    def _decisions(self, z: ndarray, log_noise: ndarray) -> ndarray:
        """See `decision_function`, from the scores of all outputs."""
        if self._is_multilabel and self.classifier_.has_label_probabilities:
            return z
        scores = z
        if not self._scores_are_softmax:
            scores = self.classifier_.log_probability(z, log_noise)
        if self._has_two_classes:
            return scores[:, 1] - scores[:, 0]
        return scores

    @property
    def _has_two_classes(self) -> bool:
        return len(self.classes_) == 2 and not self._is_multilabel

    # ---- parameters

    @property
    def coef_(self) -> ndarray | csr_matrix:
        """The weights of the output layer, (n_outputs, n_features), for scaled features.

        A row stands for a class; with hs for a node of its tree. For two classes whose
        probabilities are a softmax of the scores the rows' difference is given, (1, n_features), as
        by other linear classifiers.
        """
        check_is_fitted(self)
        return linear_weights.coefficients(
            self.classifier_, is_binary_softmax=self._is_binary_softmax
        )

    @property
    def intercept_(self) -> ndarray:
        """The biases, one for each row of `coef_`; zeros if there are none."""
        check_is_fitted(self)
        return linear_weights.intercepts(
            self.classifier_, is_binary_softmax=self._is_binary_softmax
        )

    @property
    def _is_binary_softmax(self) -> bool:
        """Whether there are two classes, whose probabilities are a softmax of the scores."""
        return self._has_two_classes and self._scores_are_softmax


def _as_float64(arrays: Mapping[str, ndarray]) -> dict[str, ndarray]:
    """The arrays, those of floats as float64."""
    return {
        name: array.astype(float64) if array.dtype.kind == "f" else array
        for name, array in arrays.items()
    }

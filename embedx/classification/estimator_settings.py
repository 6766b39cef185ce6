"""The settings of training from the estimator's parameters, and the defaults that differ from those
of `embedx classify`: scikit-learn's objective, optimizer and penalty.
"""

import numbers
from collections.abc import Mapping
from typing import Any

from embedx import objectives
from embedx.classification.label_weights import is_sparse_or_tree
from embedx.classification.objective_choice import default_objective, new_objective
from embedx.classification.settings import STEP_SETTINGS, ClassifySettings
from embedx.errors import SettingError
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs
from embedx.parameters import fields_of, plain_settings

# lbfgs is the default up to these numbers of weights, features × outputs (a few hundred
# megabytes for fifty tables), and of multiplications per pass, values × outputs (a few seconds
# for ten passes).
MAX_WEIGHTS_FOR_LBFGS = 5_000_000
MAX_PRODUCTS_FOR_LBFGS = 1_000_000_000
# scikit-learn's names, and one for `--score`, because `score` is a method.
OTHER_NAMES = {"seed": "random_state", "threads": "n_jobs", "score": "score_function"}
# Settings of data in files.
FILE_SETTINGS = {"unseen", "pretrained", "validation_labels"}
FIELDS = fields_of(ClassifySettings, is_of_words=False)
# The parameters with their defaults; None is that of `ClassifySettings` or of the objective.
PARAMETERS: dict[str, Any] = {
    name: None for name in FIELDS if name not in {*OTHER_NAMES, *FILE_SETTINGS}
}
PARAMETERS |= {"score_function": None, "random_state": None, "n_jobs": None, "verbose": False}


def given_settings_of(estimator: Any) -> dict[str, Any]:
    """The settings among the parameters that are not None, by name.

    Strings are read as on the command line. Threads, the seed and weights by class are no settings
    here: their parameters have other types.
    """
    parameters = estimator.get_params(deep=False)
    if isinstance(estimator.class_weight, Mapping):
        # Row weights include it.
        del parameters["class_weight"]
    parameters["score"] = estimator.score_function
    return plain_settings(parameters, FIELDS)


def objective_for(name: str | None, given: Mapping[str, Any], data: Labeled) -> Objective:
    """The objective of that name, or the default one for the data, with its settings."""
    options = dict(given)
    if name is None:
        name, defaults = default_objective(data, options, of_logistic_regression=True)
        options = {**defaults, **options}
    objectives.check_applies(options, name)
    return new_objective(objectives.find(name), options)


def seed_of(random_state: Any) -> int:
    """The seed of a run; each call draws another one from a RandomState, or from `numpy.random`.
    Raises `SettingError` for anything else.
    """
    if random_state is None:
        return ClassifySettings.seed
    if isinstance(random_state, numbers.Integral):
        return int(random_state)
    if not hasattr(random_state, "randint"):
        problem = "is neither a whole number nor a numpy.random.RandomState"
        raise SettingError("random_state", random_state, problem)
    return int(random_state.randint(2**31))


# ---- lbfgs, the default for data that are not too large


def is_for_lbfgs(given: Mapping[str, Any], objective: Objective, data: Labeled) -> bool:
    """Whether lbfgs is given, or the default."""
    if "optimizer" in given:
        return bool(given["optimizer"] == Lbfgs.name)
    return _can_take_lbfgs(given, objective) and _is_small(objective, data)


def settings_of_lbfgs(given: Mapping[str, Any], data: Labeled) -> dict[str, Any]:
    """The settings of training by lbfgs, as far as they are not given."""
    chosen: dict[str, Any] = {"optimizer": Lbfgs.name}
    if "calibration" not in given:
        chosen["calibration"] = 0.0
    if "l2" not in given:
        total_weight = len(data) if data.weights is None else data.weights.sum()
        chosen["l2"] = 1 / float(total_weight)
    return chosen


def _can_take_lbfgs(given: Mapping[str, Any], objective: Objective) -> bool:
    """Whether all labels are scored by dense weights, and no parameter of training by steps is
    given.
    """
    scores_all = objective.candidates[0] == "all" and given.get("sampler", "all") == "all"
    draws_labels = given.get("labels") == "one"
    is_sparse = is_sparse_or_tree(given.get("weights"))
    settings_of_steps = {*STEP_SETTINGS, "hidden", "score", "time_budget"}
    is_by_steps = bool(given.keys() & settings_of_steps)
    return scores_all and not (draws_labels or is_sparse or is_by_steps)


def _is_small(objective: Objective, data: Labeled) -> bool:
    """Whether lbfgs takes little memory and time."""
    n_outputs = objective.n_outputs(data.n_labels)
    n_values = data.features.nnz if data.is_sparse else data.features.size
    has_few_weights = data.n_features * n_outputs <= MAX_WEIGHTS_FOR_LBFGS
    return has_few_weights and n_values * n_outputs <= MAX_PRODUCTS_FOR_LBFGS

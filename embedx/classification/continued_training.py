"""Settings of training that continues from a classifier, `--start`: those that are part of the
model, and the models and options that are refused.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

from embedx import samplers
from embedx.classification.classifier import Classifier
from embedx.classification.problem import ALL_CANDIDATES, has_label_losses
from embedx.classification.settings import DENSE, INNER_PRODUCT, SPARSE
from embedx.errors import Setting, SettingError, Text, parts_of
from embedx.objectives.contract import Objective
from embedx.optimizers.adagrad import Adagrad
from embedx.optimizers.lbfgs import Lbfgs

# Settings that a classifier keeps when training continues.
MODEL_SETTINGS = ("hidden", "score", "scaling", "labels", "sampler", "optimizer", "replacement")
# Further settings that a classifier with sparse weights keeps.
SPARSE_SETTINGS = (
    "bias",
    "label_features",
    "weight_threshold",
    "propensity",
    "propensity_a",
    "propensity_b",
)
# Of MODEL_SETTINGS, those that may be given another value.
MAY_CHANGE = ("optimizer", "labels")
TRAIN_TOGETHER = "train on the old and the new rows together"


def settings_to_continue(
    previous: Classifier, name: str | None, options: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """The options by which a classifier, read from `path`, learns new rows.

    Settings that are part of the model are as it has them; others are those of the user.

    Raises `EmbedxError` where weights cannot be trained further, or an option contradicts the
    model.
    """
    _check_can_continue(previous, name, path)
    kept = _kept_settings(previous)
    kept["weights"] = SPARSE if previous.has_sparse_weights else DENSE
    if kept.get("optimizer") == Lbfgs.name:
        kept["optimizer"] = options.get("optimizer", Adagrad.name)
    _check_agreement(kept, options, path)
    continued = without_defaults(kept, previous.objective)
    if previous.has_sparse_weights:
        if options.get("anchored") is False:
            problem = (
                "its sparse weights are trained anew on the new rows, and only their mean with the"
                " old weights keeps these"
            )
            leave_out = ("leave ", Setting("anchored"), " out")
            raise SettingError("start", path, problem, leave_out)
        return {**continued, **options}

    bias = "none"
    if "bias" in previous.arrays:
        bias = "frequency"
        if options.get("bias") == "none":
            remedy = ("leave ", Setting("bias"), f" out, or {TRAIN_TOGETHER}")
            raise SettingError("start", path, "has biases", remedy)
    return {**continued, "bias": bias, **options}


def _check_can_continue(previous: Classifier, name: str | None, path: str) -> None:
    """Raise `SettingError` for weights that cannot continue, or where another objective is
    named.
    """
    check_weights(previous, path)
    if name not in (None, previous.objective.name):
        trained_with = ("was trained with ", Setting("objective", previous.objective.name))
        leave_out = ("leave ", Setting("objective"), f" out, or {TRAIN_TOGETHER}")
        raise SettingError("start", path, trained_with, leave_out)


def check_weights(previous: Classifier, path: str | None) -> None:
    """Raise `SettingError` for trees over labels, and for sparse weights that were trained one
    example after another.
    """
    if not previous.has_sparse_weights:
        return
    if previous.has_label_tree:
        problem: Text = "its labels are in a tree, which is fixed"
        first_model: Text = (Setting("weights", SPARSE), ", whose weights can continue")
    elif not has_label_losses(previous.objective) or previous.settings["sampler"] != ALL_CANDIDATES:
        problem = "its sparse weights were trained one example after another"
        first_model = (Setting("weights", DENSE), " ", Setting("optimizer", Adagrad.name))
    else:
        return
    remedy = (TRAIN_TOGETHER, ", or train the first model with ", *parts_of(first_model))
    raise SettingError("start", path, problem, remedy)


def _kept_settings(previous: Classifier) -> dict[str, Any]:
    """The settings of a classifier that are part of it: its own, of its sampler and objective."""
    recorded = {"score": INNER_PRODUCT, **previous.settings}
    of_sampler = samplers.options_of_samplers(recorded)
    of_objective = dataclasses.asdict(previous.objective.settings)
    names: tuple[str, ...] = (*MODEL_SETTINGS, *of_sampler, *of_objective)
    if previous.has_sparse_weights:
        names += SPARSE_SETTINGS
    return {name: recorded[name] for name in names if recorded.get(name) is not None}


def _check_agreement(kept: Mapping[str, Any], options: Mapping[str, Any], path: str) -> None:
    """Raise `SettingError` for an option that has another value in the model, and must not."""
    for name, value in options.items():
        if name in kept and value != kept[name] and name not in MAY_CHANGE:
            contradiction = (Setting(name), f" is {kept[name]} in that model")
            raise SettingError("start", path, contradiction, f"leave it out, or {TRAIN_TOGETHER}")


def without_defaults(options: Mapping[str, Any], objective: Objective) -> dict[str, Any]:
    """The options but for those of the objective that have their default anyway, such as a number
    of negatives where none are drawn.
    """
    defaults = dataclasses.asdict(type(objective).Settings())
    return {
        name: value
        for name, value in options.items()
        if name not in defaults or name in objective.label_defaults or value != defaults[name]
    }


def check_new_labels(previous: Classifier, n_labels: int) -> None:
    """Raise `EmbedxError` where a classifier cannot have more labels: each of its outputs is to
    be that of a label.
    """
    n_new = n_labels - previous.n_labels
    if n_new <= 0:
        return
    has_output_per_label = previous.objective.n_outputs(n_labels) == n_labels
    has_noise_tree = any(name.startswith("noise_") for name in previous.arrays)
    if not has_output_per_label or has_noise_tree:
        problem = f"does not have {n_new:,} of the labels, but its tree over labels is fixed"
        another = (", or start from ", Setting("objective", "softmax"), " or ova")
        raise SettingError("start", None, problem, (TRAIN_TOGETHER, *another))

"""How the weights of the output rows are stored, dense, sparse or in a tree: what suits the data, and what goes with it."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx.classification.defaults import DUAL_EPOCHS
from embedx.classification.settings import ClassifySettings
from embedx.errors import EmbedxError
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.settings import option_name

EVERY_ROW = "all"  # the sampler of exact losses
MOST_SHARED = 250_000_000  # weights of drawn rows, from which on they are sparse by default
MANY_LABELS = 1_000  # from which on, or with several labels a row, sparse features suit the squared hinge best
MOST_DENSE = 10_000_000  # weights, from which on they are sparse by default
FEW_LABELS = 20_000  # below which weights are dense where validation data are to stop the training
MOST_PRODUCTS = 2e12  # values × labels × passes, from which on labels stand in a tree
# Settings without effect there.
NOT_OF_DUAL = ("batch_size", "learning_rate", "initial_gradient", "schedule", "gradient_scale", "bias")


def suited_objective(data: Labeled, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of the objective that suits data where none is named, with settings of its own that suit them.

    On sparse features the squared hinge of one-vs-all ranks many labels best, at the least cost: EURLex-4.3K, P@1 .911, exact
    softmax .866.
    """
    is_ranking = data.n_labels >= MANY_LABELS or bool((data.labels.n_of_row > 1).any())
    if data.is_sparse and not options.get("hidden") and is_ranking and options.get("sampler", "all") == "all":
        return "ova", {"loss": "squared-hinge"}
    return "softmax", {}


def chosen_weights(settings: ClassifySettings, objective: Objective, data: Labeled, sampler: str) -> str:
    """How weights are stored, by the settings and the name of the sampler. Raises `EmbedxError` for what cannot be."""
    name, asked = f"--objective {objective.name}", settings.weights
    is_sum = objective.log_label_probability(np.zeros(1)) is not None
    needs = [
        (data.is_sparse, "sparse features; these are dense"),
        (not settings.hidden, "no --hidden layer"),
        (settings.optimizer != "lbfgs", "an --optimizer that goes by steps"),
        (settings.max_norm is None, "no --max-norm"),
    ]
    if asked == "tree" or (is_sum and sampler == EVERY_ROW):
        needs += [
            (is_sum, f"a loss that is a sum over labels, as of ova; {name} has none"),
            (sampler == EVERY_ROW, f"--sampler {EVERY_ROW}"),
            (settings.labels != "one", "--labels other than one"),
            (settings.time_budget is None, "--epochs, not --time-budget"),
            (settings.schedule in ("linear", "constant"), "--schedule linear or constant"),
            (settings.decay == 1, "no --set decay"),
        ]
    else:
        needs += [
            (not settings.l2, "no --l2 where labels are not trained each by itself"),
            (sampler != EVERY_ROW, f"drawn candidates, --hidden, or --objective ova; {name} here scores every label"),
        ]
    missing = next((what for holds, what in needs if not holds), None)
    if asked in ("sparse", "tree") and missing is not None:
        raise EmbedxError(f"--weights {asked} takes {missing}")
    if asked is not None or missing is not None:
        return asked or "dense"
    if not (is_sum and sampler == EVERY_ROW):
        return "sparse" if objective.n_rows(data.n_labels) * data.n_features > MOST_SHARED else "dense"
    is_small = data.n_labels * data.n_features < MOST_DENSE and settings.optimizer != DualCoordinateDescent.name
    if is_small or (settings.validation is not None and data.n_labels < FEW_LABELS):
        return "dense"
    n_products = float(data.features.nnz) * data.n_labels * (settings.epochs or DUAL_EPOCHS)
    return "sparse" if n_products <= MOST_PRODUCTS else "tree"


def is_sparse_linear(settings: ClassifySettings, data: Labeled) -> bool:
    """Whether output rows meet sparse features themselves."""
    return data.is_sparse and not settings.hidden


def is_label_by_label(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether resolved settings train sparse weights a tile of labels after another, rather than an example after another."""
    is_sum = objective.log_label_probability(np.zeros(1)) is not None
    return settings.weights == "tree" or (settings.weights == "sparse" and is_sum and settings.sampler == EVERY_ROW)


def default_optimizer(settings: ClassifySettings, objective: Objective, weights: str, sampler: str) -> str:
    """The objective's own; for sparse weights the one that needs no learning rate, where no setting of another one is given."""
    has_dual = objective.dual_steps is not None and sampler == EVERY_ROW
    if weights != "dense" and has_dual and not _not_of_dual(settings) and settings.l2 != 0:
        return DualCoordinateDescent.name
    usual = str(objective.label_defaults.get("optimizer", "adagrad"))
    return "adagrad" if usual == "lbfgs" and weights != "dense" else usual


def check_dual(settings: ClassifySettings, objective: Objective, weights: str) -> None:
    """Raise `EmbedxError` for what does not go with dual coordinate descent."""
    name = f"--optimizer {DualCoordinateDescent.name}"
    if weights == "dense":
        raise EmbedxError(f"{name} takes --weights sparse or tree")
    if objective.dual_steps is None:
        raise EmbedxError(f"{name} takes --objective ova --loss squared-hinge")
    if settings.sampler != EVERY_ROW:
        raise EmbedxError(f"{name} takes --sampler {EVERY_ROW}")
    if settings.l2 == 0:
        raise EmbedxError(f"{name} needs a penalty; leave --l2 out, or give one above 0")
    if changed := _not_of_dual(settings):
        raise EmbedxError(f"{option_name(changed[0])} has no effect with {name}; leave one of them out")


def _not_of_dual(settings: ClassifySettings) -> list[str]:
    """The settings that are given and have no effect with dual coordinate descent; its biases start at zero."""
    given = [each for each in NOT_OF_DUAL if getattr(settings, each) != getattr(type(settings), each)]
    return [each for each in given if (each, getattr(settings, each)) != ("bias", "zero")]

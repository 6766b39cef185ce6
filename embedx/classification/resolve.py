"""Settings that are left open, resolved by objective and data: sampler, optimizer, and how weights are stored.

`defaults` has the numbers; here stands also which settings cannot be combined.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.classification import defaults
from embedx.classification.defaults import DUAL_EPOCHS
from embedx.classification.settings import ClassifySettings
from embedx.engine.settings import check_sampler
from embedx.errors import EmbedxError
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import LABELS
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.samplers.contract import Sampler
from embedx.settings import option_name
from embedx.training import trainer

EVERY_ROW = "all"  # the sampler of exact losses
MAX_DENSE_SAMPLED = 250_000_000  # weights of drawn rows, from which on they are sparse by default
MANY_LABELS = 1_000  # from which on, or with several labels a row, sparse features suit the squared hinge best
MAX_DENSE = 10_000_000  # weights, from which on they are sparse by default
FEW_LABELS = 20_000  # below which weights are dense where validation data are to stop the training
MAX_PRODUCTS = 2e12  # values × labels × passes, from which on labels stand in a tree
# Settings without effect there.
NOT_OF_DUAL = ("batch_size", "learning_rate", "initial_gradient", "schedule", "gradient_scale", "bias")


def default_objective(data: Labeled, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
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
    name, wanted = f"--objective {objective.name}", settings.weights
    is_sum = objective.log_label_probability(np.zeros(1)) is not None
    needs = [
        (data.is_sparse, "sparse features; these are dense"),
        (not settings.hidden, "no --hidden layer"),
        (settings.optimizer != "lbfgs", "an --optimizer that goes by steps"),
        (settings.max_norm is None, "no --max-norm"),
    ]
    if wanted == "tree" or (is_sum and sampler == EVERY_ROW):
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
    if wanted in ("sparse", "tree") and missing is not None:
        raise EmbedxError(f"--weights {wanted} takes {missing}")
    if wanted is not None or missing is not None:
        return wanted or "dense"
    if not (is_sum and sampler == EVERY_ROW):
        return "sparse" if objective.n_rows(data.n_labels) * data.n_features > MAX_DENSE_SAMPLED else "dense"
    is_small = data.n_labels * data.n_features < MAX_DENSE and settings.optimizer != DualCoordinateDescent.name
    if is_small or (settings.validation is not None and data.n_labels < FEW_LABELS):
        return "dense"
    n_products = float(data.features.nnz) * data.n_labels * (settings.epochs or DUAL_EPOCHS)
    return "sparse" if n_products <= MAX_PRODUCTS else "tree"


def is_sparse_linear(settings: ClassifySettings, data: Labeled) -> bool:
    """Whether output rows are scored against sparse features, without a hidden layer."""
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


def _not_of_dual(settings: ClassifySettings) -> list[str]:
    """The settings that are given and have no effect with dual coordinate descent; its biases start at zero."""
    given = [each for each in NOT_OF_DUAL if getattr(settings, each) != getattr(type(settings), each)]
    return [each for each in given if (each, getattr(settings, each)) != ("bias", "zero")]


def resolved(settings: ClassifySettings, objective: Objective, data: Labeled) -> ClassifySettings:
    """The settings with nothing left open but `hidden`, `max_norm`, `decay_every`. Raises `EmbedxError` for what cannot be."""
    kind = defaults.kind_of(data, settings.hidden)
    sampler = settings.sampler or _default_sampler(settings, objective, data, kind)
    found_sampler = samplers.SAMPLERS[sampler]
    weights = chosen_weights(settings, objective, data, sampler)
    optimizer = settings.optimizer or default_optimizer(settings, objective, weights, sampler)
    by_label = is_label_by_label(dataclasses.replace(settings, weights=weights, sampler=sampler), objective)
    batch = (
        settings.batch_size if settings.batch_size is not None else int(defaults.default_of(objective, "batch_size", kind, 100))
    )
    rate = settings.learning_rate or defaults.learning_rate(
        objective, optimizer, data, settings.scaling, kind, by_label=by_label
    )
    check_sampler(sampler, objective.name, objective.samplers())
    name, of_lbfgs = f"--objective {objective.name}", "--optimizer lbfgs does not apply"
    is_step, is_lbfgs, is_dual = objective.kind == "proximal", optimizer == Lbfgs.name, optimizer == DualCoordinateDescent.name
    without_effect = next(iter(_not_of_dual(settings)), "")
    drawn = sorted(each for each in objective.samplers() if samplers.SAMPLERS[each].candidates == "drawn")
    scores_all = found_sampler.candidates == "all" and objective.negatives < data.n_labels - 1 and data.n_labels > 1
    for is_wrong, message in (
        (is_step and (optimizer != "sgd" or batch != 1),
         f"{name} takes a step of its own for each example: --optimizer sgd, --batch-size 1"),
        (is_step and settings.gradient_scale != "mean",
         f"{name} takes a step of its own for each example: --set gradient-scale=mean"),
        (is_step and scores_all, f"{name} draws its rows: --sampler {' or '.join(drawn)}"),
        (is_lbfgs and objective.uniforms_width,
         f"{of_lbfgs} to {name}, whose loss is drawn at random at each look; take adagrad"),
        (is_lbfgs and settings.sampler and found_sampler.candidates in ("drawn", "retrieved"),
         f"--sampler {sampler} does not apply with --optimizer lbfgs, where all rows compete"),
        (is_lbfgs and settings.hidden, f"{of_lbfgs} with --hidden; take adagrad"),
        (is_lbfgs and settings.labels == "one", f"{of_lbfgs} with --labels one; take --labels all"),
        (found_sampler.needs_dense_inputs and is_sparse_linear(settings, data),
         f"--sampler {sampler} needs dense features or --hidden 100; these features are sparse"),
        (settings.hidden and not data.is_sparse, "--hidden applies to sparse features; these are dense"),
        (optimizers.find(optimizer, LABELS).keeps == "stateless" and (rate or 0) * (settings.l2 or 0) >= 1,
         f"--l2 {settings.l2 or 0:g}: times --learning-rate {rate or 0:g} must be below 1"),
        (is_dual and weights == "dense", "--optimizer dcd takes --weights sparse or tree"),
        (is_dual and objective.dual_steps is None, "--optimizer dcd takes --objective ova --loss squared-hinge"),
        (is_dual and sampler != EVERY_ROW, f"--optimizer dcd takes --sampler {EVERY_ROW}"),
        (is_dual and settings.l2 == 0, "--optimizer dcd needs a penalty; leave --l2 out, or give one above 0"),
        (is_dual and without_effect,
         f"{option_name(without_effect)} has no effect with --optimizer dcd; leave one of them out"),
    ):  # fmt: skip
        if is_wrong:
            raise EmbedxError(message)
    settings = dataclasses.replace(
        settings, optimizer=optimizer, weights=weights, threads=settings.threads or trainer.usable_cores(),
        sampler=EVERY_ROW if is_lbfgs and found_sampler.candidates != "path" else sampler,
        epochs=settings.epochs or defaults.epochs(len(data.labels.ids), optimizer),
        bias=settings.bias or defaults.bias(objective, kind, optimizer),
    )  # fmt: skip
    if is_dual:  # whose penalty `train` chooses
        return settings
    return dataclasses.replace(settings, batch_size=batch or len(data), learning_rate=rate, l2=settings.l2 or 0.0)


def _default_sampler(settings: ClassifySettings, objective: Objective, data: Labeled, kind: str) -> str:
    """The objective's own; where that needs dense inputs and there are none, every row competes."""
    usual = str(defaults.default_of(objective, "sampler", kind, objective.samplers()[0]))
    return EVERY_ROW if samplers.SAMPLERS[usual].needs_dense_inputs and is_sparse_linear(settings, data) else usual


def chosen_samplers(
    objective: Objective, settings: ClassifySettings, options: Mapping[str, Any]
) -> tuple[Sampler, Sampler | None]:
    """As `new_samplers`, before anything is known of the labels."""
    return samplers.with_warm_up(
        str(settings.sampler), objective.samplers(), options, replacement=settings.replacement,
        corrected=objective.adds_log_noise,
    )  # fmt: skip


def new_samplers(
    objective: Objective, settings: ClassifySettings, options: Mapping[str, Any], counts: np.ndarray
) -> tuple[Sampler, Sampler | None]:
    """The sampler that the resolved settings name, and what draws before it can retrieve rows, if that is what it does.

    options   settings of the sampler's own; those of what draws, where rows are retrieved
    counts    int64 (n_labels,)  how often each label occurs
    """
    return samplers.prepared(chosen_samplers(objective, settings, options), counts, objective.paths())

"""What settings that are left open become, by the objective, the optimiser and the data; and which
cannot be combined.

An objective declares what suits it as `label_defaults`, a value or one for each kind of input
(`ByInput`); what it does not declare is decided here. Rates are for inputs of length 1: features on
another scale, a hundred times larger say, want weights a hundred times smaller, hence steps that
are shorter by as much, and by plain descent by its square. Where rows have several labels the
gradients of these add up, and say less each: rates fall with the root of their number. Passes are
fewer the more labels of rows there are, as each output row then has more examples in one.
"""

import dataclasses
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.classification.calibration import n_held_out
from embedx.classification.settings import (
    AUTO,
    BIAS,
    DUAL_EPOCHS,
    HIDDEN_RATE,
    MAX_EPOCHS,
    MIN_EPOCHS,
    NONE,
    ROOT_EPOCHS,
    SPARSE_RATE,
    ClassifySettings,
)
from embedx.engine.examples import Examples
from embedx.engine.settings import MAX_RATE, check_sampler
from embedx.errors import EmbedxError
from embedx.labeled.data import Labeled
from embedx.labeled.rules import chosen_labels, chosen_scaling, input_length, scaled, scaling_arrays
from embedx.objectives.contract import ByInput, Objective
from embedx.optimizers.contract import LABELS, PER_ROW, STATELESS, UpdateRule
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.optimizers.lbfgs import Lbfgs
from embedx.settings import option_name, settings_of
from embedx.training import trainer

MAX_STATE = 1e38  # about what a float32 can be
N_SAMPLED = 10_000  # rows by which the scale of the features is estimated
EVERY_ROW = "all"  # the sampler of exact losses
MAX_DENSE_SAMPLED = 250_000_000  # weights of drawn rows, from which on they are sparse by default
MAX_DENSITY_OF_WORDS = 0.05  # of the features, those that a row has on average
# from which on, or with several labels a row, neighbours are tried and propensities count
MANY_LABELS = 1_000
# P@1 of enwiki-cat .5651 -> .5664, EURLex-4.3K .9142 -> .9167, Bibtex .6286 -> .6342; PSP@k, too,
# is higher
PROPENSITY = 0.25
MAX_DENSE = 10_000_000  # weights, from which on they are sparse by default
FEW_LABELS = 20_000  # below which weights are dense where validation data are to stop the training
# Values × labels × passes, from which on labels stand in a tree. With few labels (EURLex-4.3K) it
# costs .01 of P@1, with many none: 8,000 rows of enwiki-cat, 29,000 labels, have P@1/3/5
# .410/.232/.167, by a tree .415/.235/.168 in a fifth of the time.
MAX_PRODUCTS, MAX_PRODUCTS_OF_MANY, MANY_FOR_TREE = 2e12, 1e11, 10_000
# Settings without effect there.
NOT_OF_DUAL = (
    "batch_size",
    "learning_rate",
    "initial_gradient",
    "schedule",
    "gradient_scale",
    "bias",
)


def new_objective(objective: type[Objective], options: Mapping[str, Any]) -> Objective:
    """The objective with its own settings among `options`, those not given as suit it best in
    classification.
    """
    own = settings_of(objective.Settings)
    suits = {name: value for name, value in objective.label_defaults.items() if name in own}
    return objective(objective.Settings.from_options({**suits, **options}))


def default_objective(data: Labeled, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """The name of the objective that suits data where none is named, with settings of its own that
    suit them.

    On sparse features the squared hinge of one-vs-all ranks several labels a row best, at the least
    cost: EURLex-4.3K, P@1 .911, exact softmax .866. So it does one label a row where features are
    like words: 40 pages of Wikipedia by their paragraphs .952 and .939, EURLex's first labels .607
    and .604. Of pixels (8 % of them not zero) it has .208, softmax .262.
    """
    labels = chosen_labels(data.labels, str(options.get("labels", "all")))
    if (
        not data.is_sparse
        or options.get("hidden")
        or options.get("pretrained")
        or options.get("sampler", "all") != "all"
    ):
        return "softmax", {}
    is_ranking = (
        bool((labels.n_of_row > 1).any()) or data.n_labels * data.n_features > MAX_DENSE_SAMPLED
    )
    if data.features.nnz <= MAX_DENSITY_OF_WORDS * len(data) * data.n_features:
        is_ranking |= all(
            options.get(name) is None for name in ("time_budget", "optimizer", "learning_rate")
        )
    return ("ova", {"loss": "squared-hinge"}) if is_ranking else ("softmax", {})


def has_many_labels(data: Labeled, rule: str) -> bool:
    """Whether rows have several labels that count by the rule, or there are many."""
    return data.n_labels >= MANY_LABELS or bool(
        (chosen_labels(data.labels, rule).n_of_row > 1).any()
    )


def is_sum(objective: Objective) -> bool:
    """Whether the loss is a sum over labels, each of which has a probability by itself."""
    return objective.log_label_probability(np.zeros(1)) is not None


def chosen_weights(
    settings: ClassifySettings, objective: Objective, data: Labeled, sampler: str
) -> str:
    """How weights are stored, by the settings and the name of the sampler. Raises `EmbedxError` for
    what cannot be.
    """
    name, wanted = f"--objective {objective.name}", settings.weights
    by_label = is_sum(objective)
    needs = [
        (data.is_sparse, "sparse features; these are dense"),
        (not settings.hidden, "no --hidden layer"),
        (settings.optimizer != "lbfgs", "a stochastic --optimizer"),
        (settings.max_norm is None, "no --set max-norm"),
    ]
    if wanted == "tree" or (by_label and sampler == EVERY_ROW):
        needs += [
            (by_label, f"a loss that is a sum over labels, such as that of ova, not {name}"),
            (sampler == EVERY_ROW, f"--sampler {EVERY_ROW}"),
            (settings.labels != "one", "--labels other than one"),
            (
                settings.time_budget is None
                and settings.schedule in ("linear", "constant")
                and settings.decay == 1,
                (
                    "--epochs, not --time-budget, with --schedule linear or constant and no --set"
                    " decay"
                ),
            ),
        ]
    else:
        needs += [
            (not settings.l2, "no --l2 where labels are not trained independently"),
            (
                sampler != EVERY_ROW,
                f"drawn candidates, or --objective ova; {name} here scores every label",
            ),
        ]
    missing = next((what for holds, what in needs if not holds), None)
    if wanted in ("sparse", "tree") and missing is not None:
        raise EmbedxError(f"--weights {wanted} takes {missing}")
    if wanted is not None or missing is not None:
        return wanted or "dense"
    if not (by_label and sampler == EVERY_ROW):
        return (
            "sparse"
            if objective.n_rows(data.n_labels) * data.n_features > MAX_DENSE_SAMPLED
            else "dense"
        )
    is_dual = settings.optimizer == DualCoordinateDescent.name or _takes_dual(settings, objective)
    is_small = data.n_labels * data.n_features < MAX_DENSE and (
        not is_dual or data.features.data.min(initial=0) < 0
    )
    if not settings.propensity and (
        is_small or (settings.validation is not None and data.n_labels < FEW_LABELS)
    ):
        return "dense"
    n_products = float(data.features.nnz) * data.n_labels * (settings.epochs or DUAL_EPOCHS)
    return (
        "sparse"
        if n_products <= (MAX_PRODUCTS if data.n_labels < MANY_FOR_TREE else MAX_PRODUCTS_OF_MANY)
        else "tree"
    )


def is_label_by_label(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether resolved settings train sparse weights a tile of labels after another, rather than an
    example after another.
    """
    is_exact = settings.weights == "sparse" and settings.sampler == EVERY_ROW
    return settings.weights == "tree" or (is_exact and is_sum(objective))


def _default_of(objective: Objective, name: str, kind: str, otherwise: Any) -> Any:
    """What the objective declares for a setting of the task, for inputs of this kind."""
    value = objective.label_defaults.get(name, otherwise)
    return getattr(value, kind) if isinstance(value, ByInput) else value


def _default_optimizer(
    settings: ClassifySettings, objective: Objective, weights: str, sampler: str
) -> str:
    """The objective's own; for sparse weights the one that needs no learning rate, where no setting
    of another one is given.
    """
    if weights != "dense" and sampler == EVERY_ROW and _takes_dual(settings, objective):
        return DualCoordinateDescent.name
    usual = str(objective.label_defaults.get("optimizer", "adagrad"))
    return "adagrad" if usual == "lbfgs" and weights != "dense" else usual


def _takes_dual(settings: ClassifySettings, objective: Objective) -> bool:
    """Whether dual coordinate descent is the default where all labels are scored: no setting of
    another optimiser is given.
    """
    is_open = settings.optimizer is None and not _not_of_dual(settings) and settings.l2 != 0
    return is_open and objective.dual_steps is not None


def _not_of_dual(settings: ClassifySettings) -> list[str]:
    """The settings that are given and have no effect with dual coordinate descent; its biases start
    at zero.
    """
    given = [
        each for each in NOT_OF_DUAL if getattr(settings, each) != getattr(type(settings), each)
    ]
    return [each for each in given if (each, getattr(settings, each)) != ("bias", "zero")]


def _default_rate(
    objective: Objective, optimizer: str, data: Labeled, scaling: str, kind: str, *, by_label: bool
) -> float | None:
    """The rate at the start; None for an optimiser that has none. Sparse weights may be trained a
    label after another.
    """
    found = optimizers.find(optimizer, LABELS)
    rate = found.rates.get(LABELS)
    if rate is not None and kind == "hidden":
        rate *= HIDDEN_RATE
    if optimizer == objective.label_defaults.get("optimizer", "adagrad"):
        rate = _default_of(objective, "learning_rate", kind, rate)
    if rate is None:
        return None
    if by_label:  # on inputs of length 1
        return rate * (SPARSE_RATE if found.keeps != "stateless" else 1)
    rate /= math.sqrt(max(len(data.labels.ids) / max(len(data), 1), 1.0))
    some = data.features[:: max(1, len(data) // N_SAMPLED)]
    length = input_length(scaled(some, scaling, scaling_arrays(data.features, scaling)))
    rate /= length**2 if found.keeps == "stateless" else length
    return min(float(f"{rate:.3g}"), MAX_RATE)


def resolved(settings: ClassifySettings, objective: Objective, data: Labeled) -> ClassifySettings:
    """The settings with nothing left open but `hidden`, `max_norm`, `decay_every`. Raises
    `EmbedxError` for what cannot be.
    """
    # the inputs of output rows
    kind = "hidden" if settings.hidden else "sparse" if data.is_sparse else "dense"
    usual = str(_default_of(objective, "sampler", kind, objective.samplers()[0]))
    if samplers.SAMPLERS[usual].needs_dense_inputs and kind == "sparse":
        usual = EVERY_ROW
    sampler = settings.sampler or usual
    found_sampler = samplers.SAMPLERS[sampler]
    weights = chosen_weights(settings, objective, data, sampler)
    optimizer = settings.optimizer or _default_optimizer(settings, objective, weights, sampler)
    by_label = is_label_by_label(
        dataclasses.replace(settings, weights=weights, sampler=sampler), objective
    )
    scaling = settings.scaling or chosen_scaling(data.features)
    batch = (
        int(_default_of(objective, "batch_size", kind, 100))
        if settings.batch_size is None
        else settings.batch_size
    )
    rate = settings.learning_rate
    if rate is None:
        rate = _default_rate(objective, optimizer, data, scaling, kind, by_label=by_label)
    check_sampler(sampler, objective.name, objective.samplers())
    name = f"--objective {objective.name}"
    is_step, is_lbfgs, is_dual = (
        objective.kind == "proximal",
        optimizer == Lbfgs.name,
        optimizer == DualCoordinateDescent.name,
    )
    without_effect = next(iter(_not_of_dual(settings)), "")
    keeps = optimizers.find(optimizer, LABELS).keeps
    for is_wrong, message in (
        (
            is_step and (optimizer != "sgd" or batch != 1 or settings.gradient_scale != "mean"),
            (
                f"{name} updates after each example; use --optimizer sgd, --batch-size 1, --set"
                " gradient-scale=mean"
            ),
        ),
        (
            is_lbfgs and (objective.uniforms_width or found_sampler.candidates == "path"),
            (
                f"--optimizer lbfgs does not apply to {name}, which does not score all labels"
                " exactly; use adagrad"
            ),
        ),
        (
            is_lbfgs
            and (
                settings.sampler not in (None, EVERY_ROW)
                or settings.hidden
                or settings.labels == "one"
            ),
            (
                "--optimizer lbfgs needs --sampler all, no --hidden layer, and --labels other than"
                " one; or use adagrad"
            ),
        ),
        (
            found_sampler.needs_dense_inputs and kind == "sparse",
            f"--sampler {sampler} needs dense features or --hidden 100; these features are sparse",
        ),
        (
            settings.hidden and not data.is_sparse,
            "--hidden applies to sparse features; these are dense; leave it out",
        ),
        (
            keeps == "stateless" and (rate or 0) * (settings.l2 or 0) >= 1,
            (
                f"--l2 {settings.l2 or 0:g}: times --learning-rate {rate or 0:g} must be below 1;"
                " lower one of them"
            ),
        ),
        (
            keeps == "per_row" and found_sampler.candidates == "all" and kind == "sparse",
            (
                f"--optimizer {optimizer} does not apply where all labels are scored on sparse"
                " features; use adagrad"
            ),
        ),
        (
            is_dual
            and (weights == "dense" or objective.dual_steps is None or sampler != EVERY_ROW),
            (
                "--optimizer dcd needs --objective ova --loss squared-hinge, --sampler"
                f" {EVERY_ROW}, and --weights sparse or tree"
            ),
        ),
        (
            settings.neighbours not in (None, AUTO, NONE) and not data.is_sparse,
            (
                f"--neighbours {settings.neighbours} needs sparse features; these are dense; leave"
                " it out"
            ),
        ),
        (
            is_dual and settings.l2 == 0,
            "--optimizer dcd needs a penalty; leave --l2 out, or give one above 0",
        ),
        (
            settings.propensity and not by_label,
            "--propensity needs sparse features, --objective ova, --weights sparse or tree",
        ),
        (
            is_dual and without_effect,
            (
                f"{option_name(without_effect)} has no effect with --optimizer dcd; leave one of"
                " them out"
            ),
        ),
    ):
        if is_wrong:
            raise EmbedxError(message)
    has_many = has_many_labels(data, settings.labels)
    tried = settings.neighbours or (AUTO if has_many else NONE)
    is_calibrated = (
        settings.validation is not None or n_held_out(len(data), settings.calibration) > 0
    )
    propensity = PROPENSITY if by_label and has_many and is_calibrated else 0.0
    epochs = ROOT_EPOCHS / math.sqrt(max(len(data.labels.ids), 1))
    return dataclasses.replace(
        settings,
        scaling=scaling,
        optimizer=optimizer,
        weights=weights,
        threads=settings.threads or trainer.usable_cores(),
        sampler=EVERY_ROW if is_lbfgs else sampler,
        learning_rate=rate,
        epochs=settings.epochs
        or (DUAL_EPOCHS if is_dual else min(max(round(epochs), MIN_EPOCHS), MAX_EPOCHS)),
        bias=settings.bias
        or ("zero" if is_dual or is_lbfgs else str(_default_of(objective, "bias", kind, BIAS))),
        batch_size=None if is_dual else batch or len(data),
        neighbours=tried if data.is_sparse else NONE,
        propensity=propensity if settings.propensity is None else settings.propensity,
        l2=settings.l2 if is_dual else settings.l2 or 0.0,  # `train` chooses that of dcd
    )


def first_state(settings: Any, optimizer: UpdateRule, examples: Examples, batch_size: int) -> float:
    """What the optimiser's state begins with, for each weight of an output row or for each row: by
    the resolved settings.

    That is the square of `initial_gradient` gradients of one positive in a minibatch: by Adagrad
    the first step of a weight would else be as long for a gradient of next to nothing, of a label
    with a probability of 1/1000 say, as for any other.
    """
    if optimizer.keeps == STATELESS or optimizer.is_ema:
        return 0.0
    values = (examples.dense if examples.dense.size else examples.values).ravel()
    n = len(examples.label_offsets) - 1
    # of the length of an input
    square = float(np.einsum("i,i->", values, values, dtype=np.float64)) / n
    width = max(np.count_nonzero(values) / n, 1.0)
    if settings.hidden:  # a sum of rows that are uniform within ±1/√hidden
        square, width = square / 3, float(settings.hidden)
    coefficient = (
        settings.initial_gradient * (n if settings.gradient_scale == "sum" else 1) / batch_size
    )
    return float(
        min(coefficient**2 * (square if optimizer.keeps == PER_ROW else square / width), MAX_STATE)
    )

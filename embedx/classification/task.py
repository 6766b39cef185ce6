"""The task of classification: from labelled data to a `Classifier`.

A run goes by steps on minibatches, by the strategy that suits its sampler (strategies.py), or by L-BFGS to the
optimum of the whole data set (engine/lbfgs.py).
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from embedx import optimizers, samplers
from embedx.classification import calibration, tree_training
from embedx.classification.classifier import Classifier
from embedx.classification.clustering import clustered_order
from embedx.classification.history import History
from embedx.classification.memory import check_labels, memory_of_lbfgs, memory_plan, remedy, size
from embedx.classification.resolve import is_label_by_label, is_sparse_linear, new_samplers, resolved
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.classification.strategies import INITIAL, Classification, strategy_for
from embedx.classification.tree_training import TreeTraining
from embedx.engine import lbfgs as optimum
from embedx.engine.examples import Examples, examples_of
from embedx.engine.loading import compile_function
from embedx.errors import DivergedError, EmbedxError
from embedx.kernels.batch import COEFFICIENTS_64
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.rules import chosen_labels, column_maxima, input_length, known_labels, scaled
from embedx.labeled.schema import DataSchema
from embedx.objectives.contract import Objective
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.samplers.contract import Sampler, pairs_of
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.guard import Guard
from embedx.training.interrupts import to_the_end
from embedx.training.memory import MemoryPlan, allocating
from embedx.training.progress import Progress, Silent
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally

MIN_BUDGET = 0.01  # seconds to train for, where fitting the sampler took all that there were


@dataclasses.dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier and how its training went."""

    classifier: Classifier
    outcome: trainer.Outcome
    optimizer_state: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)  # by table; see `start` of `train`


def train(
    data: Labeled,
    objective: Objective,
    settings: ClassifySettings,
    *,
    sampler_options: Mapping[str, Any] | None = None,
    known: DataSchema | None = None,
    validation: Labeled | None = None,
    weights: np.ndarray | None = None,
    start: TrainedClassifier | None = None,
    dtype: Any = np.float32,
    watch: Callable[[Classifier, int, float], dict[str, float]] | None = None,
    progress: Progress | None = None,
    snapshot: Mapping[str, Any] | None = None,
    checkpoints: Checkpoints | None = None,
    is_guarded: bool = True,
    wrap: Callable[[Any], Strategy] | None = None,
) -> TrainedClassifier:
    """A classifier of `data`.

    sampler_options  settings of the sampler's own, by name
    known       what test data are read like; inferred when not given
    validation  data to watch; else the share of the rows that `settings.validation` names, if it does. Probabilities are
                calibrated on them, and where there are none on the share of the rows that `settings.calibration` holds out
    weights     float (n_rows,): how much each row counts, for lbfgs alone
    start       a run to continue by steps, of the same objective, features and labels: with its parameters, its counts of
                labels, by which noise is drawn and a tree was built, and its optimiser's memory, if it had that optimiser. What
                an objective keeps by example begins again, for these are other examples
    dtype       of the parameters that lbfgs finds
    snapshot    of the `outcome.state` of a run with the same settings on the same data: where training by steps resumes.
                With weight decay, take it before this function returns (in `watch`): the decay that is due is applied then
    checkpoints keep the state of training by steps on disk
    is_guarded  training that diverges continues at a lower rate; False to compare rates
    wrap        makes the strategy that trains in place of the one it is given, whose parameters it trains
    watch       called after each epoch with the classifier, the epoch and the seconds so far; what it returns joins the history

    Raises `EmbedxError` for what the user can mend and `DivergedError` when training diverges, at lower rates too, with nothing
    learned. Where something was, that is returned, and the outcome says so; Ctrl-C likewise ends the training early with
    what was learned so far.
    """
    progress = progress or Silent()
    needs_dense = samplers.SAMPLERS[objective.samplers()[0]].needs_dense_inputs
    if needs_dense and settings.sampler is None and settings.optimizer != "lbfgs" and is_sparse_linear(settings, data):
        progress.note("sparse features cannot be searched by: every label competes; --hidden 100 makes them dense")
    settings = resolved(settings, objective, data)
    if settings.weights != "dense" and data.features.data.min(initial=0) < 0:
        progress.note(
            f"warning: --weights {settings.weights} keeps a label's weights for the features of its own rows alone, which may "
            "lose useful ones where features are negative, as some here are; --weights dense keeps all"
        )
    if snapshot is not None and settings.optimizer == "lbfgs":
        raise ValueError("lbfgs has no state to resume from")
    if weights is not None and settings.optimizer != "lbfgs":
        raise EmbedxError("weights of rows apply with --optimizer lbfgs alone")
    if validation is None and settings.validation is not None:
        if weights is not None:
            raise EmbedxError("--validation: with weights, give the validation data themselves")
        share = share_of_rows(settings.validation)
        if share is None:
            raise EmbedxError(f"--validation {settings.validation}: here only a share of the rows, like 0.1")
        data, validation = _hold_out(data, max(1, round(share * len(data))), settings.seed)
    held_out = validation
    n_held_out = calibration.n_held_out(len(data), settings.calibration)
    if n_held_out and validation is None and weights is None and start is None:
        progress.note(f"{n_held_out:,} of {len(data):,} rows are held out of training, to calibrate probabilities on")
        data, held_out = _hold_out(data, n_held_out, settings.seed)
    known = known or DataSchema(data.n_features, data.n_labels, data.names, data.vocabulary)
    before = {} if start is None else start.classifier.arrays
    arrays: dict[str, np.ndarray] = {name: before[name] for name in ("maxima", "label_order") if name in before}
    if settings.scaling == "column-max" and "maxima" not in before:
        arrays["maxima"] = column_maxima(data.features)
    labels = chosen_labels(data.labels, settings.labels)
    check_labels(data.n_labels)
    counts = np.bincount(labels.ids, minlength=data.n_labels).astype(np.int64) if start is None else start.classifier.counts
    if start is None and len(labels.ids) == 0:
        raise EmbedxError("no row of the training data has a label")
    if validation is not None and len(known_labels(validation.labels, counts).ids) == 0:
        raise EmbedxError("--validation: no row has a label that the training data have")
    features = scaled(data.features, settings.scaling, arrays.get("maxima"))
    threads = int(settings.threads or 1)
    if objective.wants_order and start is None:
        progress.note(f"clustering {len(counts):,} labels by the features of their rows")
        arrays["label_order"] = clustered_order(features, labels, counts, settings.seed, threads)
    objective.prepare(counts, arrays.get("label_order"))
    sampler, warm_up = new_samplers(objective, settings, sampler_options or {}, counts)
    facts: dict[str, Any] = {
        "objective": objective.name,
        "examples": len(data),
        "labels": len(counts),
        "seen_labels": int((counts > 0).sum()),
        "several_labels": bool((labels.n_of_row > 1).any()),
    }
    what, less = size(objective, settings, data.n_labels, data.n_features), remedy(settings, data.is_sparse)
    if sampler.conditional:
        if start is not None:  # it stays that of the run
            sampler.restore(start.classifier.arrays)
            sampler.observe(features)
        else:
            pairs = pairs_of(labels.row_of_id, labels.ids, len(counts))
            sampler.fit(features, pairs, seed=settings.seed, threads=threads, progress=progress)
        arrays |= sampler.arrays()
        facts["fit_seconds"] = round(sampler.fit_seconds, 3)
    if start is not None and settings.weights != "dense":
        raise ValueError('sparse weights cannot continue a run: weights="dense"')
    if settings.optimizer == DualCoordinateDescent.name and settings.l2 is None:
        settings = dataclasses.replace(settings, l2=input_length(features) ** 2 / len(data))
    record = settings.record() | (warm_up or sampler).settings.record() | objective.settings.record()
    classifier = Classifier(objective, arrays, known, counts, record, facts)
    history = History(classifier, validation, settings, watch, progress, sampler.fit_seconds)
    optimizer_state: dict[str, np.ndarray] = {}
    if settings.optimizer == "lbfgs":
        plan = memory_of_lbfgs(objective.n_rows(data.n_labels), data.n_features + 1)
        plan.check(what, less)
        plan.report(progress)
        loss_unit = objective.loss_unit("row")
        outcome = _run_lbfgs(features, labels, settings, sampler, weights, dtype, history)
    else:
        examples = examples_of(features, labels)
        n, n_features = features.shape
        row_length = float(settings.hidden or (n_features if examples.dense.size else len(examples.values) / n) or 1)
        optimizer = optimizers.update_rule(
            str(settings.optimizer), l2=settings.l2 or 0.0, max_norm=settings.max_norm, row_length=row_length
        )
        strategy: TreeTraining | Classification
        with allocating(what, less):
            if is_label_by_label(settings, objective):
                trees = tree_training.plans(features, examples, counts, settings, progress)
                strategy = TreeTraining(
                    objective, settings, features, examples, optimizer, counts, trees, by_others=wrap is not None
                )
            else:
                strategy = strategy_for(objective, settings, sampler, examples)(
                    objective, settings, sampler, examples, optimizer, counts, features.shape[1], warm_up
                )
        plan = memory_plan(strategy, keeps_best=held_out is not None or watch is not None)
        plan.check(what, less)
        if isinstance(strategy, Classification):
            strategy.initialise()
        training, loss_unit = strategy if wrap is None else wrap(strategy), strategy.loss_unit
        if checkpoints is not None:
            checkpoints.identify(lambda: _identity(examples, classifier.settings) | training.identity())
        if isinstance(strategy, TreeTraining):
            outcome = tree_training.run(strategy, training, history, snapshot, checkpoints, plan)
        else:
            guard = None if is_guarded else Guard(is_on=False)
            outcome, optimizer_state = _run(strategy, training, history, start, snapshot, checkpoints, guard, plan)
    if start is None:
        outcome.check_trained()
    to_the_end(lambda: _check(classifier))
    classifier.facts |= {
        "final_loss": outcome.final_loss,
        "loss_unit": loss_unit,
        "highest_loss": outcome.highest_loss,
        "epochs": round(outcome.epochs, 4),
        "examples_trained": outcome.tally.words,
        "seconds": round(sampler.fit_seconds + outcome.seconds, 3),
        "examples_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
        "interrupted": outcome.interrupted_by is not None,
        **outcome.facts(),
        "history": history.epochs,
    }
    if held_out is not None and len(known_labels(held_out.labels, counts).ids):
        to_the_end(lambda: classifier.calibrate(held_out, settings.threads))
    return TrainedClassifier(classifier, outcome, optimizer_state)


def _hold_out(data: Labeled, n: int, seed: int) -> tuple[Labeled, Labeled]:
    """The rows to train on, and n others, chosen at random."""
    order = np.random.default_rng([seed, INITIAL + 1]).permutation(len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))


# ---- by steps


def _run(
    strategy: Classification,
    training: Strategy,
    history: History,
    start_from: TrainedClassifier | None,
    snapshot: Mapping[str, Any] | None,
    checkpoints: Checkpoints | None,
    guard: Guard | None,
    plan: MemoryPlan,
) -> tuple[trainer.Outcome, dict[str, np.ndarray]]:
    """Train `strategy` by steps on minibatches, through `training`; the outcome, and the optimiser's state."""
    settings, classifier = strategy.settings, history.classifier
    if strategy.has_bias:
        drawing, by_frequency = strategy.warm_up or strategy.sampler, dataclasses.replace(settings, bias="frequency")
        strategy.set_bias(_first_biases(strategy.objective, settings, drawing, strategy.n))
        strategy.frequency_bias = _first_biases(strategy.objective, by_frequency, drawing, strategy.n)
    optimizer_state = {"hidden": strategy.hidden.state, "outputs": strategy.outputs.state}
    if start_from is not None:
        for name, array in strategy.arrays().items():  # views of the tables
            array[:] = start_from.classifier.arrays[name]
        before = start_from.optimizer_state
        same_optimizer = start_from.classifier.settings["optimizer"] == settings.optimizer
        if same_optimizer and all(
            name in before and before[name].shape == kept.shape for name, kept in optimizer_state.items()
        ):
            for name, kept in optimizer_state.items():
                kept[:] = before[name]

    def hand_over() -> None:
        strategy.apply_decay()
        classifier.arrays |= strategy.arrays()
        classifier.parameters_changed()

    def after_epoch(epoch: int, tally: Tally, seconds_passed: float) -> bool:
        hand_over()
        return history.note(epoch, tally.mean_loss, seconds_passed)

    spent = history.seconds_before
    time_budget = None if settings.time_budget is None else max(settings.time_budget - spent, MIN_BUDGET)
    schedule = Schedule(
        float(settings.learning_rate or 0), training.n_chunks, strategy.n, float(settings.epochs or 1), time_budget,
        settings.schedule, settings.decay, settings.decay_every,
        updates=-(-strategy.n // int(settings.batch_size or strategy.n)) / training.n_chunks, unit="examples",
    )  # fmt: skip
    listener = after_epoch if history.is_wanted else None
    outcome = trainer.run(training, schedule, history.progress, listener, snapshot, history.state(), checkpoints, guard, plan)
    to_the_end(hand_over)
    history.restore()
    return outcome, optimizer_state


def _identity(examples: Examples, settings: Mapping[str, Any]) -> dict[str, Any]:
    """What decides the result: a run is resumed only where this is the same."""
    return {
        "data": [checksum(array) for array in examples],
        "settings": {name: value for name, value in settings.items() if name != "threads"},
    }


def _first_biases(objective: Objective, settings: ClassifySettings, sampler: Sampler, n: int) -> np.ndarray:
    """float32 (n_rows,): zero, or the scores by which the objective predicts how often each label occurs in n examples."""
    counts = sampler.counts
    if settings.bias != "frequency":
        return np.zeros(objective.n_rows(len(counts)), dtype=np.float32)
    p = np.clip(counts, 0.5, max(n - 0.5, 0.5)) / n
    return np.asarray(objective.initial_bias(p, sampler.noise), dtype=np.float32)


# ---- to the optimum


def _run_lbfgs(
    features: Any,
    labels: Labels,
    settings: ClassifySettings,
    sampler: Sampler,
    weights: np.ndarray | None,
    dtype: Any,
    history: History,
) -> trainer.Outcome:
    """Train to the optimum on the whole data set."""
    classifier, progress, objective = history.classifier, history.progress, history.classifier.objective
    n, n_features = features.shape
    n_rows, has_bias = objective.n_rows(len(classifier.counts)), settings.bias != "none"
    compile_function(objective.coefficients, COEFFICIENTS_64)

    def keep(w: np.ndarray) -> None:
        classifier.arrays["output"] = w[:n_features].T.astype(dtype)
        if has_bias:
            classifier.arrays["bias"] = w[-1].astype(dtype)
        classifier.parameters_changed()

    def after(iteration: int, loss: float) -> None:
        progress.update(iteration, loss=loss, loss_unit=objective.loss_unit("row"))

    start = np.zeros((n_features + has_bias, n_rows))
    if has_bias:
        start[-1] = _first_biases(objective, settings, sampler, n)
    progress.start("training", settings.max_iterations, " iterations")
    began = time.monotonic()
    found = optimum.minimise(
        objective, features, labels, np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64),
        n_rows=n_rows, paths=objective.paths(), has_bias=has_bias, l2=settings.l2 or 0.0,
        max_iterations=settings.max_iterations, tolerance=settings.tolerance, start=start, after=after,
    )  # fmt: skip
    progress.finish()
    passed = time.monotonic() - began
    if not math.isfinite(found.loss):
        raise DivergedError(f"the loss is not finite; try another --l2 than {settings.l2:g}, or --scaling")
    keep(found.w)
    classifier.facts |= {"evaluations": found.evaluations, "largest_gradient": found.slope}
    history.note(found.iterations - 1, found.loss, passed)
    n_examples = n * found.iterations
    tally = Tally(found.loss * n_examples, n_examples, n_examples)
    return trainer.Outcome(
        tally, passed, float(found.iterations), None, found.loss, found.interrupted_by, initial_loss=found.initial_loss
    )


def _check(classifier: Classifier) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    for name, array in classifier.arrays.items():
        if not np.isfinite(array).all():
            raise DivergedError(f"{name}: weights are no longer finite at the end of training; try a smaller --learning-rate")

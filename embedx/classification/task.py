"""The task of classification: from labelled data to a `Classifier`.

A run goes by steps on minibatches, by the strategy that its sampler needs (strategies.py), a level
of a tree after another (tree_training.py), or by L-BFGS to the optimum of the whole data set
(engine/lbfgs.py).
"""

import dataclasses
import math
import time
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx import optimizers, samplers
from embedx.classification import (
    calibration,
    held_out,
    neighbours,
    start as start_of,
    tree_training,
)
from embedx.classification.classifier import Classifier
from embedx.classification.clustering import clustered_order
from embedx.classification.defaults import is_label_by_label, resolved
from embedx.classification.history import History, Watch
from embedx.classification.settings import NONE, ClassifySettings, share_of_rows
from embedx.classification.strategies import INITIAL, Classification, strategy_for
from embedx.classification.tree_training import TreeTraining
from embedx.engine import lbfgs as optimum
from embedx.engine.examples import examples_of
from embedx.engine.loading import compile_function
from embedx.errors import DivergedError, EmbedxError
from embedx.kernels.batch import COEFFICIENTS_64
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.read import read
from embedx.labeled.rules import chosen_labels, input_length, known_labels, scaled, scaling_arrays
from embedx.objectives.contract import Objective
from embedx.optimizers.dcd import DualCoordinateDescent
from embedx.samplers.contract import Sampler, pairs_of
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.interrupts import to_the_end
from embedx.training.memory import MemoryPlan, allocating, available_memory, check_declared
from embedx.training.progress import Progress, Silent
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally

# rows: with more of them a tenth that is not trained on makes little difference
MAX_REFITTED = 20_000
# arrays, and facts, of held-out rows
OF_HELD_OUT = ("calibration", "coverage", "neighbour_blend", "neighbour_calibration")
FACTS_OF_HELD_OUT = ("temperature", "threshold")
BYTES_PER_FEATURE = 24  # counts, their scale and one weight
BYTES_PER_LABEL = 80  # of counts, of what noise is drawn by, and while that is made
MIN_BUDGET = 0.01  # seconds to train for, where fitting the sampler took all that there were


@dataclasses.dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier and how its training went."""

    classifier: Classifier
    outcome: trainer.Outcome
    # by table; see `start` of `train`
    optimizer_state: dict[str, ndarray] = dataclasses.field(default_factory=dict)


def train(
    data: Labeled,
    objective: Objective,
    settings: ClassifySettings,
    *,
    sampler_options: Mapping[str, Any] | None = None,
    start: TrainedClassifier | Classifier | None = None,
    watch: Watch | None = None,
    progress: Progress | None = None,
    checkpoints: Checkpoints | None = None,
) -> TrainedClassifier:
    """Train a classifier on `data`; see `Run` and `Run.train`."""
    return Run(data, objective, settings, sampler_options, progress).train(
        start, watch, checkpoints
    )


class Run:
    """A run whose settings are resolved, before anything is computed.

    sampler_options  settings of the sampler's own, by name
    wrap             makes the strategy that trains in place of the one it is given, whose
                     parameters it trains
    on_plan          called with what training needs of memory, before that is written to; an
                     exception ends the run

    Raises `EmbedxError` for what the user can mend.
    """

    wrap: Callable[[Any], Strategy] | None = None
    on_plan: Callable[[MemoryPlan], None] | None = None

    def __init__(
        self,
        data: Labeled,
        objective: Objective,
        settings: ClassifySettings,
        sampler_options: Mapping[str, Any] | None = None,
        progress: Progress | None = None,
    ) -> None:
        self.data, self.objective, self.progress = data, objective, progress or Silent()
        self.pretrained, self.sampler_options = None, sampler_options
        if settings.pretrained is not None:
            self.pretrained = start_of.word_vectors(
                settings.pretrained, settings.hidden, data, self.progress
            )
            settings = dataclasses.replace(settings, hidden=self.pretrained[1].shape[1])
        is_open = settings.sampler is None and settings.optimizer != "lbfgs" and not settings.hidden
        if (
            is_open
            and data.is_sparse
            and samplers.SAMPLERS[objective.samplers()[0]].needs_dense_inputs
        ):
            self.progress.note(
                "no search with sparse features: every label is scored; --hidden 100 makes them"
                " dense"
            )
        is_open = settings.scaling is None
        self.settings = settings = resolved(settings, objective, data)
        self.given_l2 = settings.l2
        if is_open and settings.scaling != "none":
            what = (
                "features are counts" if settings.scaling == "tf-idf" else "rows differ in length"
            )
            self.progress.note(
                f"{what}: --scaling {settings.scaling}; --scaling none keeps them as they are"
            )
        if settings.weights != "dense" and data.features.data.min(initial=0) < 0:
            self.progress.note(
                f"warning: --weights {settings.weights} keeps a label's weights only for the"
                " features of its own rows, which may lose useful ones where features are"
                " negative, as some here are; --weights dense keeps all"
            )
        self.by_lbfgs = settings.optimizer == "lbfgs"
        if data.weights is not None and not self.by_lbfgs:
            raise EmbedxError("weights of rows apply only with --optimizer lbfgs")
        self.sampler, self.warm_up = samplers.with_warm_up(
            str(settings.sampler),
            objective.samplers(),
            sampler_options or {},
            replacement=settings.replacement,
            corrected=objective.adds_log_noise,
        )
        # the sampler that draws: where rows are retrieved, the one before
        self.drawing = self.warm_up or self.sampler

    def train(
        self,
        start: TrainedClassifier | Classifier | None = None,
        watch: Watch | None = None,
        checkpoints: Checkpoints | None = None,
    ) -> TrainedClassifier:
        """The classifier.

        start        a run, or the classifier that it left, to continue by steps, of the same
                     objective and features, and of the same labels, after which there may be new
                     ones: with its parameters, its counts of labels, by which noise is drawn and a
                     tree was built, and its optimiser's memory, if it had that optimiser and there
                     are no new labels. What an objective keeps by example begins again, for these
                     are other examples
        watch        called after each epoch with the classifier, the epoch and the seconds so far;
                     what it returns joins the history
        checkpoints  keep the state of training by steps on disk

        Raises `DivergedError` when training diverges, at lower rates too, with nothing learned.
        Where something was, that is returned, and the outcome says so; Ctrl-C likewise ends the
        training early with what was learned so far.
        """
        objective, progress = self.objective, self.progress
        before, memory = (
            (start.classifier, start.optimizer_state)
            if isinstance(start, TrainedClassifier)
            else (start, {})
        )
        settings = self.settings
        is_free = start is None and settings.time_budget is None
        is_refitted = (
            is_free
            and settings.calibration <= type(settings).calibration
            and len(self.data) <= MAX_REFITTED
        )
        data, validation, unseen = self._divided(is_refitted)
        former = {} if before is None else before.arrays
        arrays: dict[str, ndarray] = {
            name: former[name] for name in ("maxima", "idf", "label_order") if name in former
        }
        check_declared(  # ids and headers may say anything
            "the training data",
            BYTES_PER_LABEL * data.n_labels + BYTES_PER_FEATURE * data.n_features,
            f"{data.n_labels:,} labels and {data.n_features:,} features",
            "ids are numbered from 0 or 1, so check the largest ones and the header",
        )
        if before is None:
            arrays |= scaling_arrays(data.features, str(settings.scaling))
        labels = chosen_labels(data.labels, settings.labels)
        counts = np.bincount(labels.ids, minlength=data.n_labels).astype(np.int64)
        if before is not None:
            start_of.check_new_labels(before, data.n_labels)
            counts = np.concatenate([before.trained_counts, counts[before.n_labels :]])
        if before is None and len(labels.ids) == 0:
            raise EmbedxError("no row of the training data has a label")
        all_labels = chosen_labels(self.data.labels, settings.labels)
        all_counts = np.bincount(all_labels.ids, minlength=data.n_labels).astype(np.int64)
        n_before = 0
        if before is not None:
            all_counts[: before.n_labels] += before.counts
            n_before = before.n_training_rows
        if not np.array_equal(all_counts, counts):
            arrays["trained_counts"] = counts
        if validation is not None and len(known_labels(validation.labels, counts).ids) == 0:
            raise EmbedxError(
                "--validation: no row has a label that occurs in training; use other data"
            )
        features = scaled(data.features, str(settings.scaling), arrays)
        threads = int(settings.threads or 1)
        if objective.wants_order and before is None:
            progress.note(f"clustering {len(counts):,} labels by the features of their rows")
            arrays["label_order"] = clustered_order(
                features, labels, counts, settings.seed, threads
            )
        objective.prepare(counts, arrays.get("label_order"))
        sampler, _ = samplers.prepared((self.sampler, self.warm_up), counts, objective.paths())
        facts: dict[str, Any] = {
            "objective": objective.name,
            "examples": len(data),
            "training_rows": n_before + len(self.data),
            "labels": len(counts),
        }
        facts |= {
            "seen_labels": int((counts > 0).sum()),
            "several_labels": bool((all_labels.n_of_row > 1).any()),
        }
        if sampler.conditional:
            if before is not None:  # it stays that of the run
                sampler.restore(former)
                sampler.observe(features)
            else:
                pairs = pairs_of(labels.row_of_id, labels.ids, len(counts))
                sampler.fit(features, pairs, seed=settings.seed, threads=threads, progress=progress)
            arrays |= sampler.arrays()
            facts["fit_seconds"] = round(sampler.fit_seconds, 3)
        if settings.optimizer == DualCoordinateDescent.name and settings.l2 is None:
            self.settings = settings = dataclasses.replace(
                settings, l2=input_length(features) ** 2 / len(data)
            )
        record = settings.record() | self.drawing.settings.record() | objective.settings.record()
        classifier = Classifier(objective, arrays, data.schema, all_counts, record, facts)
        history = History(classifier, validation, settings, watch, progress, sampler.fit_seconds)
        optimizer_state: dict[str, ndarray] = {}
        if self.by_lbfgs:
            outcome, loss_unit = (
                self._to_the_optimum(features, labels, data.weights, history),
                objective.loss_unit("row"),
            )
        else:
            strategy = self.strategy(features, labels, counts)
            plan = strategy.memory(keeps_best=unseen is not None or watch is not None)
            self._check_plan(plan)
            if isinstance(strategy, Classification):
                strategy.initialise()
                if self.pretrained is not None:
                    words, vectors = self.pretrained
                    strategy.hidden.rows[words, : vectors.shape[1]] = vectors
            training, loss_unit = self.wrap(strategy) if self.wrap else strategy, strategy.loss_unit
            if checkpoints is not None:
                own = {name: value for name, value in record.items() if name != "threads"}
                checkpoints.identify(
                    lambda: (
                        {"data": [checksum(each) for each in strategy.examples], "settings": own}
                        | training.identity()
                    )
                )
            if isinstance(strategy, TreeTraining):
                outcome = tree_training.run(strategy, training, history, checkpoints, plan)
            else:
                outcome, optimizer_state = _by_steps(
                    strategy, training, history, before, memory, checkpoints, plan
                )
        if start is None:
            outcome.check_trained()
        to_the_end(lambda: _check(classifier))
        classifier.facts |= {
            **outcome.facts(loss_unit),
            "examples_trained": outcome.tally.words,
            "seconds": round(sampler.fit_seconds + outcome.seconds, 3),
            "examples_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
            "history": history.epochs,
        }
        index = None if settings.neighbours == NONE else neighbours.arrays_of(features, labels)
        if index is not None and neighbours.INDEX[0] in former:
            index = neighbours.joined(former, index)
        to_the_end(lambda: held_out.fit(classifier, unseen, index, settings, progress))
        trained = TrainedClassifier(classifier, outcome, optimizer_state)
        ends_whole = outcome.interrupted_by is None and outcome.diverged is None
        return (
            self._refitted(trained)
            if unseen is not validation and is_refitted and ends_whole
            else trained
        )

    def _refitted(self, trained: TrainedClassifier) -> TrainedClassifier:
        """The classifier trained again, on all rows, with what was learned from those that were
        held out of the first.
        """
        first = trained.classifier
        settings = dataclasses.replace(
            self.settings, calibration=0.0, neighbours=NONE, l2=self.given_l2
        )
        try:
            run = Run(self.data, self.objective, settings, self.sampler_options, self.progress)
            run.wrap = self.wrap
            again = run.train()
            ended: BaseException | None = again.outcome.interrupted_by or again.outcome.diverged
        except (KeyboardInterrupt, DivergedError) as error:
            ended = error
        if ended is not None:
            early = ended if isinstance(ended, KeyboardInterrupt) else None
            return dataclasses.replace(
                trained, outcome=dataclasses.replace(trained.outcome, interrupted_by=early)
            )
        found = again.classifier
        found.arrays |= {name: first.arrays[name] for name in OF_HELD_OUT if name in first.arrays}
        if first.has_neighbours:
            labels = chosen_labels(self.data.labels, settings.labels)
            found.arrays |= neighbours.arrays_of(found.prepared(self.data.features), labels)
        found.settings = first.settings | {"l2": found.settings["l2"]}
        found.facts |= {
            name: first.facts[name] for name in FACTS_OF_HELD_OUT if name in first.facts
        }
        found.facts["seconds"] = round(first.facts["seconds"] + found.facts["seconds"], 3)
        found.parameters_changed()
        return again

    def _divided(self, is_refitted: bool) -> tuple[Labeled, Labeled | None, Labeled | None]:
        """The rows to train on, those to watch, and those to calibrate probabilities on: the
        latter, if there are any.
        """
        data, settings, validation = self.data, self.settings, None
        if settings.validation is not None:
            share = share_of_rows(settings.validation)
            if share is not None:
                data, validation = hold_out(data, max(1, round(share * len(data))), settings.seed)
            else:
                validation = read(
                    settings.validation,
                    settings.validation_labels,
                    progress=self.progress,
                    like=data.schema,
                )
        n = calibration.n_held_out(len(data), settings.calibration)
        if not n or validation is not None:
            return data, validation, validation
        again = "; then training is repeated on all rows" if is_refitted else ""
        self.progress.note(
            f"{n:,} of {len(data):,} rows are held out from training to calibrate"
            f" probabilities{again}"
        )
        data, unseen = hold_out(data, n, settings.seed)
        return data, None, unseen

    def _check_plan(self, plan: MemoryPlan) -> None:
        """Raise `EmbedxError` if it does not fit."""
        if self.on_plan is not None:
            self.on_plan(plan)
        plan.check(*self._size())

    def _size(self) -> tuple[str, str]:
        """The size of the weights in words, and what to do where memory is short."""
        settings, data, n_rows = self.settings, self.data, self.objective.n_rows(self.data.n_labels)
        if settings.weights != "dense":
            return (
                f"sparse weights of {n_rows:,} rows on {data.n_features:,} features",
                "drop rare labels and features",
            )
        hidden = "add --hidden 100; " if data.is_sparse and not settings.hidden else ""
        return (
            (
                f"{n_rows:,} rows × {(settings.hidden or data.n_features) + 1:,} weights with"
                f" --optimizer {settings.optimizer}"
            ),
            f"{hidden}--optimizer sgd needs the least; or drop rare labels and features",
        )

    def strategy(
        self, features: Any, labels: Labels, counts: ndarray
    ) -> Classification | TreeTraining:
        """What trains, with all that it needs allocated."""
        settings, objective, examples = self.settings, self.objective, examples_of(features, labels)
        n, n_features = features.shape
        row_length = float(
            settings.hidden
            or (n_features if examples.dense.size else len(examples.values) / n)
            or 1
        )
        optimizer = optimizers.update_rule(
            str(settings.optimizer),
            l2=settings.l2 or 0.0,
            max_norm=settings.max_norm,
            row_length=row_length,
        )
        with allocating(*self._size()):
            if is_label_by_label(settings, objective):
                trees = tree_training.plans(features, examples, counts, settings, self.progress)
                return TreeTraining(
                    objective,
                    settings,
                    features,
                    examples,
                    optimizer,
                    counts,
                    trees,
                    by_others=self.wrap is not None,
                )
            kind = strategy_for(objective, settings, self.sampler, examples)
            return kind(
                objective,
                settings,
                self.sampler,
                examples,
                optimizer,
                counts,
                n_features,
                self.warm_up,
            )

    def _to_the_optimum(
        self, features: Any, labels: Labels, weights: ndarray | None, history: History
    ) -> trainer.Outcome:
        """Train by L-BFGS on the whole data set; parameters have the type of the features."""
        classifier, settings, progress, objective = (
            history.classifier,
            self.settings,
            self.progress,
            self.objective,
        )
        n, n_features = features.shape
        n_rows, has_bias = objective.n_rows(len(classifier.counts)), settings.bias != "none"
        weights_size = 4.0 * n_rows * (n_features + 1)  # scipy allocates its own arrays
        needs = {"weights": weights_size, "optimizer": optimum.COPIES * weights_size}
        plan = MemoryPlan(needs, 0.0, available_memory())
        self._check_plan(plan)
        plan.report(progress)
        compile_function(objective.coefficients, COEFFICIENTS_64)
        start = np.zeros((n_features + has_bias, n_rows))
        if has_bias:
            start[-1] = _first_biases(objective, str(settings.bias), self.sampler, n)
        progress.start("training", settings.max_iterations, " iterations")
        began, curve = time.monotonic(), []

        def after(iteration: int, loss: float) -> None:
            progress.update(iteration, loss=loss, loss_unit=objective.loss_unit("row"))
            curve.append(
                {"epoch": iteration, "seconds": round(time.monotonic() - began, 3), "loss": loss}
            )

        found = optimum.minimise(
            objective,
            features,
            labels,
            np.ones(n) if weights is None else np.asarray(weights, np.float64),
            l2=settings.l2 or 0.0,
            max_iterations=settings.max_iterations,
            tolerance=settings.tolerance,
            start=start,
            after=after,
        )
        progress.finish()
        passed = time.monotonic() - began
        if not math.isfinite(found.loss):
            raise DivergedError(
                f"the loss is not finite; try another --l2 than {settings.l2:g}, or --scaling"
            )
        classifier.arrays["output"] = found.w[:n_features].T.astype(features.dtype)
        if has_bias:
            classifier.arrays["bias"] = found.w[-1].astype(features.dtype)
        classifier.parameters_changed()
        classifier.facts |= {"evaluations": found.evaluations, "largest_gradient": found.slope}
        history.note(found.iterations - 1, found.loss, passed)
        n_examples = n * found.iterations
        tally = Tally(found.loss * n_examples, n_examples, n_examples)
        return trainer.Outcome(
            tally,
            passed,
            float(found.iterations),
            found.loss,
            found.interrupted_by,
            initial_loss=found.initial_loss,
            curve=curve,
        )


def hold_out(data: Labeled, n: int, seed: int) -> tuple[Labeled, Labeled]:
    """The rows to train on, and n others, chosen at random."""
    order = np.random.default_rng([seed, INITIAL + 1]).permutation(len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))


def _by_steps(
    strategy: Classification,
    training: Strategy,
    history: History,
    before: Classifier | None,
    memory: Mapping[str, ndarray],
    checkpoints: Checkpoints | None,
    plan: MemoryPlan,
) -> tuple[trainer.Outcome, dict[str, ndarray]]:
    """Train `strategy` by steps on minibatches, through `training`; the outcome, and the
    optimiser's state.
    """
    settings, classifier = strategy.settings, history.classifier
    if strategy.has_bias:
        drawing = strategy.warm_up or strategy.sampler
        strategy.set_bias(_first_biases(strategy.objective, settings.bias, drawing, strategy.n))
        strategy.frequency_bias = _first_biases(
            strategy.objective, "frequency", drawing, strategy.n
        )
    optimizer_state = {"hidden": strategy.hidden.state, "outputs": strategy.outputs.state}
    if before is not None:
        # views of the tables; the rows of new labels stay as they are
        for name, array in strategy.arrays().items():
            array[: len(before.arrays[name])] = before.arrays[name]
        is_same = before.settings["optimizer"] == settings.optimizer
        for name, kept in optimizer_state.items():
            if is_same and name in memory and memory[name].shape == kept.shape:
                kept[:] = memory[name]

    def hand_over() -> None:
        strategy.apply_decay()
        classifier.arrays |= strategy.arrays()
        classifier.parameters_changed()

    def after_epoch(epoch: int, tally: Tally, seconds_passed: float) -> bool:
        hand_over()
        return history.note(epoch, tally.mean_loss, seconds_passed)

    spent = history.seconds_before
    time_budget = (
        None if settings.time_budget is None else max(settings.time_budget - spent, MIN_BUDGET)
    )
    schedule = Schedule(
        float(settings.learning_rate or 0),
        training.n_chunks,
        strategy.n,
        float(settings.epochs or 1),
        time_budget,
        settings.schedule,
        settings.decay,
        settings.decay_every,
        updates=-(-strategy.n // int(settings.batch_size or strategy.n)) / training.n_chunks,
        unit="examples",
    )
    listener = after_epoch if history.is_wanted else None
    outcome = trainer.run(
        training,
        schedule,
        history.progress,
        listener,
        beside=history.state(),
        checkpoints=checkpoints,
        plan=plan,
    )
    to_the_end(hand_over)
    history.restore()
    return outcome, optimizer_state


def _first_biases(objective: Objective, bias: str, sampler: Sampler, n: int) -> ndarray:
    """float32 (n_rows,): zero, or the scores by which the objective predicts how often each label
    occurs in n examples.
    """
    counts = sampler.counts
    if bias != "frequency":
        return np.zeros(objective.n_rows(len(counts)), float32)
    p = np.clip(counts, 0.5, max(n - 0.5, 0.5)) / n
    return np.asarray(objective.initial_bias(p, sampler.noise), float32)


def _check(classifier: Classifier) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    for name, array in classifier.arrays.items():
        if not np.isfinite(array).all():
            raise DivergedError(
                f"{name}: weights are no longer finite at the end of training; try a smaller"
                " --learning-rate"
            )

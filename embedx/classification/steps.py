"""Training by steps on minibatches."""

import dataclasses
from typing import Any

import numpy as np
from numpy import float32, ndarray

from embedx import optimizers
from embedx.classification.classifier import Classifier
from embedx.classification.contract import TrainerInputs
from embedx.classification.history import History
from embedx.classification.settings import ClassifySettings
from embedx.classification.strategies import Classification, StepInputs, strategy_for
from embedx.engine.examples import Examples, examples_of
from embedx.labeled.data import Labels
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import UpdateRule
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally, Wrap

# Seconds to train for, where fitting the sampler took all of the time budget.
MIN_BUDGET = 0.01


class StepTrainer:
    """Trains by the strategy for its sampler and inputs."""

    def __init__(self, inputs: TrainerInputs) -> None:
        objective = inputs.objective
        settings = inputs.settings
        features = inputs.features
        examples = examples_of(features, inputs.labels, inputs.row_weights)
        step_inputs = StepInputs(
            objective,
            settings,
            inputs.sampler,
            inputs.warm_up,
            examples,
            update_rule(settings, examples, features.shape),
            inputs.counts,
            features.shape[1],
        )
        strategy_class = strategy_for(objective, settings, inputs.sampler, examples)
        self.strategy: Classification = strategy_class(step_inputs)
        self.loss_unit = self.strategy.loss_unit
        self.pretrained = inputs.pretrained
        self.before = inputs.before
        self.anchor = inputs.anchor
        self.former_state = inputs.optimizer_state
        self.optimizer_state = {
            "hidden": self.strategy.hidden.state,
            "outputs": self.strategy.outputs.state,
        }

    def memory(self, keeps_best: bool) -> MemoryPlan:
        plan = self.strategy.memory(keeps_best)
        if self.anchor is None:
            return plan
        needs = {**plan.needs, "anchored weights": plan.needs["weights"]}
        return dataclasses.replace(plan, needs=needs)

    def train(
        self,
        history: History,
        plan: MemoryPlan,
        checkpoints: Checkpoints | None,
        wrap: Wrap | None,
    ) -> trainer.Outcome:
        """Train the classifier of the history, by the strategy or by what `wrap` makes of it."""
        strategy = self.strategy
        self._initialise()
        training: Strategy = wrap(strategy) if wrap else strategy
        if checkpoints is not None:
            identify(checkpoints, history.classifier, strategy.examples, training)
        self._set_biases()
        self._continue_from_before()

        def hand_over() -> None:
            strategy.apply_decay()
            parameters = strategy.arrays()
            if self.anchor is not None:
                parameters = self.anchor.applied(parameters)
            history.classifier.arrays |= parameters
            history.classifier.parameters_changed()

        def after_epoch(epoch: int, tally: Tally, seconds_passed: float) -> bool:
            hand_over()
            return history.note(epoch, tally.mean_loss, seconds_passed)

        outcome = trainer.run(
            training,
            self._schedule(training.n_chunks, history.seconds_before),
            history.progress,
            after_epoch if history.is_wanted else None,
            beside=history.state(),
            checkpoints=checkpoints,
            plan=plan,
        )
        to_the_end(hand_over)
        history.restore()
        return outcome

    def _initialise(self) -> None:
        """Write to the tables what training starts from."""
        self.strategy.initialise()
        if self.pretrained is not None:
            words, vectors = self.pretrained
            self.strategy.hidden.rows[words, : vectors.shape[1]] = vectors

    def _set_biases(self) -> None:
        """Write the biases to start from, and keep those that predict the frequencies."""
        strategy = self.strategy
        if not strategy.has_bias:
            return
        drawing = strategy.warm_up or strategy.sampler
        examples = strategy.examples
        objective = strategy.objective
        n = strategy.n
        labels = Labels(examples.label_offsets, examples.label_ids)
        counts = weighted_counts(labels, examples.weight, drawing.counts)
        bias = str(strategy.settings.bias)
        strategy.set_bias(first_biases(objective, bias, counts, n, drawing.noise))
        strategy.frequency_bias = first_biases(objective, "frequency", counts, n, drawing.noise)

    def _continue_from_before(self) -> None:
        """Write the parameters of the classifier before to the tables, and its optimizer's state.

        The tables have more rows where labels are new; then there is no state for them.
        """
        if self.before is None:
            return
        for name, table in self.strategy.arrays().items():
            table[: len(self.before.arrays[name])] = self.before.arrays[name]
        if self.before.settings["optimizer"] != self.strategy.settings.optimizer:
            return
        for name, state in self.optimizer_state.items():
            former = self.former_state.get(name)
            if former is not None and former.shape == state.shape:
                state[:] = former

    def _schedule(self, n_chunks: int, seconds_before: float) -> Schedule:
        """The learning rate over the run, whose time budget is what the sampler left of it."""
        settings = self.strategy.settings
        n = self.strategy.n
        budget = settings.time_budget
        if budget is not None:
            budget = max(budget - seconds_before, MIN_BUDGET)
        n_batches = -(-n // int(settings.batch_size or n))
        return Schedule(
            float(settings.learning_rate or 0),
            n_chunks,
            n,
            float(settings.epochs or 1),
            budget,
            settings.schedule,
            settings.decay,
            settings.decay_every,
            updates=n_batches / n_chunks,
            unit="examples",
        )


def update_rule(
    settings: ClassifySettings, examples: Examples, shape: tuple[int, int]
) -> UpdateRule:
    """The optimizer's step for features of this shape, (n_rows, n_features)."""
    n, n_features = shape
    width = n_features if examples.dense.size else len(examples.values) / n
    return optimizers.update_rule(
        str(settings.optimizer),
        l2=settings.l2 or 0.0,
        max_norm=settings.max_norm,
        row_length=float(settings.hidden or width or 1),
    )


def identify(
    checkpoints: Checkpoints, classifier: Classifier, examples: Examples, training: Strategy
) -> None:
    """Set what a resumed run is recognised by: data and settings, and what trains."""
    settings = {name: value for name, value in classifier.settings.items() if name != "threads"}

    def identity() -> dict[str, Any]:
        data = [checksum(array) for array in examples]
        return {"data": data, "settings": settings} | training.identity()

    checkpoints.identify(identity)


def weighted_counts(labels: Labels, weights: ndarray, counts: ndarray) -> ndarray:
    """How often each label occurs, by the weights of its rows.

    weights  (n_rows,), 1 on average; or empty, which leaves `counts`
    """
    if not len(weights):
        return counts
    return np.bincount(labels.ids, weights[labels.row_of_id], len(counts))


def first_biases(
    objective: Objective, bias: str, counts: ndarray, n: int, noise: ndarray
) -> ndarray:
    """The biases that training starts from, float32 (n_rows,).

    They are zero, or the scores by which the objective predicts how often each label occurs.

    counts  how often each label occurs in n examples
    """
    if bias != "frequency":
        return np.zeros(objective.n_rows(len(counts)), float32)
    p = np.clip(counts, 0.5, max(n - 0.5, 0.5)) / n
    return np.asarray(objective.initial_bias(p, noise), float32)

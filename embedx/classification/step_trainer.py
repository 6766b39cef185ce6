"""Training by steps on minibatches."""

import dataclasses
from typing import Any

from embedx import optimizers, samplers
from embedx.classification.classifier import Classifier
from embedx.classification.contract import TrainerSetup
from embedx.classification.full_minibatches import Full, FullSparse, FullTiled
from embedx.classification.history import History
from embedx.classification.label_weights import trains_sparse_rows
from embedx.classification.minibatches import MinibatchTraining, StepSetup
from embedx.classification.sampled_minibatches import Retrieved, Sampled, SampledSparse
from embedx.classification.settings import ClassifySettings
from embedx.engine.examples import Examples, examples_of
from embedx.optimizers.contract import UpdateRule
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.samplers.contract import FILTER_SIZE
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.outcome import Outcome
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally, Wrap

# Multiplications for the scores of a minibatch; for more, matrix products by BLAS are faster.
SMALL_STEP = 2**20
# Seconds to train for, where fitting the sampler took all of the time budget.
MIN_BUDGET = 0.01


class StepTrainer:
    """Trains by the strategy for its sampler and inputs."""

    def __init__(self, setup: TrainerSetup) -> None:
        objective = setup.objective
        settings = setup.settings
        features = setup.features
        examples = examples_of(features, setup.labels, setup.row_weights)
        step_setup = StepSetup(
            objective,
            settings,
            setup.sampler,
            examples,
            update_rule(settings, examples, features.shape),
            setup.counts,
            features.shape[1],
            setup.search,
        )
        self.strategy = strategy_for(step_setup)(step_setup)
        self.loss_unit = self.strategy.loss_unit
        self.pretrained = setup.pretrained
        self.previous = setup.previous
        self.anchor = setup.anchor
        self.previous_state = setup.optimizer_state
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
    ) -> Outcome:
        """Train the classifier of the history, by the strategy or by what `wrap` makes of it."""
        strategy = self.strategy
        self.initialise()
        training: Strategy = wrap(strategy) if wrap else strategy
        if checkpoints is not None:
            identify(checkpoints, history.classifier, strategy.examples, training)

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

        outcome = trainer.train(
            training,
            self._schedule(training.n_chunks, history.seconds_before),
            history.progress,
            after_epoch if history.is_wanted else None,
            extra_state=history.state(),
            checkpoints=checkpoints,
            plan=plan,
        )
        to_the_end(hand_over)
        history.restore()
        return outcome

    def initialise(self) -> None:
        """Write to the tables what training starts from."""
        self.strategy.initialise()
        if self.pretrained is not None:
            words, vectors = self.pretrained
            self.strategy.hidden.rows[words, : vectors.shape[1]] = vectors
        if self.previous is not None:
            self._continue_from(self.previous)
        self.strategy.complete_rows()

    def _continue_from(self, previous: Classifier) -> None:
        """Write the parameters of a previous classifier to the tables, and its optimizer's state.

        The tables have more rows where labels are new; then there is no state for them.
        """
        for name, table in self.strategy.arrays().items():
            table[: len(previous.arrays[name])] = previous.arrays[name]
        if previous.settings["optimizer"] != self.strategy.settings.optimizer:
            return
        for name, state in self.optimizer_state.items():
            previous_state = self.previous_state.get(name)
            if previous_state is not None and previous_state.shape == state.shape:
                state[:] = previous_state

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


def strategy_for(setup: StepSetup) -> type[MinibatchTraining]:
    """What trains minibatches by the candidates of the sampler and the kind of features."""
    objective = setup.objective
    settings = setup.settings
    candidates = samplers.SAMPLERS[str(settings.sampler)].candidates
    if candidates == "retrieved":
        return Retrieved
    if trains_sparse_rows(settings, objective):
        return SampledSparse
    if candidates != "all":
        return Sampled
    width = settings.hidden or setup.examples.dense.shape[1]
    if not width:
        is_separable = objective.traits.separable and settings.labels != "one"
        return FullTiled if is_separable and not settings.max_norm else FullSparse
    n_outputs = objective.n_outputs(len(setup.counts))
    n_examples = len(setup.examples.label_offsets) - 1
    batch_size = min(settings.batch_size or n_examples, n_examples)
    is_small = n_outputs <= FILTER_SIZE and batch_size * n_outputs * width <= SMALL_STEP
    return Sampled if is_small else Full


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

    checkpoints.begin(identity)

"""Training of sparse weights, one label after another, as a run does it; see labelwise.py."""

import time

from numpy import ndarray

from embedx.classification.contract import TrainerSetup
from embedx.classification.history import History
from embedx.classification.labelwise import LabelwiseTraining, LevelSetup
from embedx.classification.step_trainer import identify, update_rule
from embedx.classification.tree_plans import tree_plans
from embedx.engine.examples import examples_of
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import Outcome
from embedx.training.schedule import Schedule
from embedx.training.strategy import Strategy, Tally, Wrap


class LabelwiseTrainer:
    """Trains sparse weights, a level of a tree after another; see `LabelwiseTraining`."""

    def __init__(self, setup: TrainerSetup) -> None:
        settings = setup.settings
        features = setup.features
        examples = examples_of(features, setup.labels, setup.row_weights)
        trees = tree_plans(features, examples, setup.counts, settings, setup.progress)
        level_setup = LevelSetup(
            setup.objective,
            settings,
            features,
            examples,
            update_rule(settings, examples, features.shape),
            setup.counts,
            trees,
        )
        self.strategy = LabelwiseTraining(level_setup, is_distributed=setup.is_distributed)
        self.loss_unit = self.strategy.loss_unit
        self.anchor = setup.anchor
        self.optimizer_state: dict[str, ndarray] = {}

    def memory(self, keeps_best: bool) -> MemoryPlan:
        return self.strategy.memory(keeps_best)

    def train(
        self,
        history: History,
        plan: MemoryPlan,
        checkpoints: Checkpoints | None,
        wrap: Wrap | None,
    ) -> Outcome:
        """Train the classifier of the history, by the strategy or its wrapped form."""
        progress = history.progress
        training: Strategy = wrap(self.strategy) if wrap else self.strategy
        if checkpoints is not None:
            identify(checkpoints, history.classifier, self.strategy.examples, training)
        seconds_between_levels = 0.0

        def after_level(level: int, tally: Tally, seconds_passed: float) -> bool:
            nonlocal seconds_between_levels
            began = time.monotonic()
            with progress.stage("between levels"):
                self._finish_level(level)
            seconds_between_levels += time.monotonic() - began
            return False

        self.strategy.prepare(0)
        outcome = trainer.train(
            training,
            self._schedule(training.n_chunks),
            progress,
            after_level,
            checkpoints=checkpoints,
            plan=plan,
        )
        outcome.seconds += seconds_between_levels
        if outcome.interrupted_by is not None:
            self._give_up(outcome.interrupted_by, progress)
        self._summarise(outcome)
        to_the_end(lambda: self._hand_over(history, outcome))
        return outcome

    def _schedule(self, n_chunks: int) -> Schedule:
        """A schedule whose epochs are levels, of `n_chunks` chunks each."""
        strategy = self.strategy
        n_levels = len(strategy.level_plans)
        has_inner_nodes = n_levels > len(strategy.tree_plans)
        return Schedule(
            float(strategy.settings.learning_rate or 0),
            n_chunks,
            strategy.n_nodes / n_levels,
            n_levels,
            shape="constant",
            unit="nodes" if has_inner_nodes else "labels",
            has_epochs=not has_inner_nodes,
        )

    def _finish_level(self, level: int) -> None:
        """Finish a level, and prepare the next one, if any."""
        self.strategy.finish_level(level)
        if level + 1 < len(self.strategy.level_plans):
            self.strategy.prepare(level + 1)

    def _give_up(self, interrupted_by: BaseException, progress: Progress) -> None:
        """Keep the labels trained so far. Raises the interruption if there are none, or if only a
        part of the classifier to continue from is trained.
        """
        to_the_end(self.strategy.give_up)
        if not self.strategy.label_trees() or self.anchor is not None:
            raise interrupted_by
        progress.note(
            "interrupted: the model and its loss are of the labels and trees trained so far"
        )

    def _summarise(self, outcome: Outcome) -> None:
        """Count epochs over the data instead of levels.

        There is no loss curve, because each part of the run trains other labels.
        """
        strategy = self.strategy
        n = strategy.n_labelled
        outcome.epochs = float(strategy.settings.epochs or 1)
        outcome.final_loss = strategy.loss_so_far
        outcome.tally = Tally(strategy.loss_so_far * n, n, round(n * outcome.epochs))
        outcome.curve = []

    def _hand_over(self, history: History, outcome: Outcome) -> None:
        """Give the classifier its trees."""
        arrays = self.strategy.arrays()
        if self.anchor is not None:
            arrays = self.anchor.applied(arrays)
        history.classifier.arrays |= arrays
        history.classifier.parameters_changed()
        self.strategy.release()
        if history.is_wanted:
            history.note(int(outcome.epochs) - 1, outcome.final_loss, outcome.seconds)

"""Training to the optimum of the whole data set, by L-BFGS."""

import math
import time
from typing import Any

import numpy as np
from numpy import ndarray

from embedx.classification.contract import TrainerSetup
from embedx.classification.history import History
from embedx.classification.initial_values import initial_biases, weighted_counts
from embedx.engine import lbfgs
from embedx.engine.loading import compile_function
from embedx.errors import DivergedError, Setting
from embedx.kernels.batch import COEFFICIENTS_64
from embedx.runtime.memory import MemoryPlan, available_memory
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import Outcome
from embedx.training.strategy import Tally, Wrap


class LbfgsTrainer:
    """Trains by L-BFGS; parameters have the type of the features."""

    def __init__(self, setup: TrainerSetup) -> None:
        objective = setup.objective
        settings = setup.settings
        self.objective = objective
        self.settings = settings
        self.features = setup.features
        self.labels = setup.labels
        self.weights = np.ones(self.features.shape[0])
        if setup.row_weights is not None:
            self.weights = setup.row_weights
        self.counts = setup.counts
        self.noise = setup.sampler.noise
        self.has_bias = settings.bias != "none"
        self.n_outputs = objective.n_outputs(len(self.counts))
        self.loss_unit = objective.loss_unit("row")
        self.optimizer_state: dict[str, ndarray] = {}

    def memory(self, keeps_best: bool) -> MemoryPlan:
        """The memory that training needs: scipy allocates many arrays of weights."""
        size = 4.0 * self.n_outputs * (self.features.shape[1] + 1)
        needs = {"weights": size, "optimizer": lbfgs.COPIES * size}
        return MemoryPlan(needs, 0.0, available_memory())

    def train(
        self,
        history: History,
        plan: MemoryPlan,
        checkpoints: Checkpoints | None,
        wrap: Wrap | None,
    ) -> Outcome:
        """Train the classifier of the history, without checkpoints."""
        progress = history.progress
        plan.report(progress)
        compile_function(self.objective.coefficients, COEFFICIENTS_64)
        progress.start("training", self.settings.max_iterations, "iterations")
        began = time.monotonic()
        curve: list[dict[str, Any]] = []

        def after(iteration: int, loss: float) -> None:
            progress.update(iteration, loss=loss, loss_unit=self.loss_unit)
            seconds = round(time.monotonic() - began, 3)
            curve.append({"epoch": iteration, "seconds": seconds, "loss": loss})

        weights = np.asarray(self.weights, np.float64)
        optimum = lbfgs.minimise(
            self.objective,
            lbfgs.WeightedExamples(self.features, self.labels, weights),
            l2=self.settings.l2 or 0.0,
            max_iterations=self.settings.max_iterations,
            tolerance=self.settings.tolerance,
            start=self._initial_weights(),
            after=after,
        )
        progress.finish()
        seconds = time.monotonic() - began
        self._check_finite(optimum)
        self._hand_over(history, optimum)
        history.note(optimum.iterations - 1, optimum.loss, seconds)
        n_examples = self.features.shape[0] * optimum.iterations
        return Outcome(
            Tally(optimum.loss * n_examples, n_examples, n_examples),
            seconds,
            float(optimum.iterations),
            optimum.loss,
            optimum.interrupted_by,
            initial_loss=optimum.initial_loss,
            curve=curve,
        )

    def _check_finite(self, optimum: lbfgs.Optimum) -> None:
        """Raise `DivergedError` if the loss is not finite."""
        if not math.isfinite(optimum.loss):
            another = ("try another ", Setting("l2"), f" than {self.settings.l2:g}")
            remedy = (another, ", or ", Setting("scaling"))
            raise DivergedError("the loss is not finite", remedy)

    def _initial_weights(self) -> ndarray:
        """Initial weights, float64 (n_features, n_outputs), with a last row of biases, if any."""
        n, n_features = self.features.shape
        weights = np.zeros((n_features + self.has_bias, self.n_outputs))
        if self.has_bias:
            relative_weights = self.weights / self.weights.mean()
            counts = weighted_counts(self.labels, relative_weights, self.counts)
            bias = str(self.settings.bias)
            weights[-1] = initial_biases(self.objective, bias, counts, n, self.noise)
        return weights

    def _hand_over(self, history: History, optimum: lbfgs.Optimum) -> None:
        """Give the classifier its parameters."""
        classifier = history.classifier
        dtype = self.features.dtype
        n_features = self.features.shape[1]
        classifier.arrays["output"] = optimum.w[:n_features].T.astype(dtype)
        if self.has_bias:
            classifier.arrays["bias"] = optimum.w[-1].astype(dtype)
        classifier.parameters_changed()
        classifier.facts |= {
            "evaluations": optimum.evaluations,
            "largest_gradient": optimum.largest_gradient,
        }

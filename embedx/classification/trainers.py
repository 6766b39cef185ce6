"""The ways to train a classifier, by what `label_weights.training_method` says."""

from collections.abc import Callable

from embedx.classification.contract import Trainer, TrainerSetup
from embedx.classification.label_weights import Method, training_method
from embedx.classification.labelwise_trainer import LabelwiseTrainer
from embedx.classification.lbfgs_trainer import LbfgsTrainer
from embedx.classification.step_trainer import StepTrainer

TRAINERS: dict[Method, Callable[[TrainerSetup], Trainer]] = {
    Method.STEPS: StepTrainer,
    Method.LABELWISE: LabelwiseTrainer,
    Method.LBFGS: LbfgsTrainer,
}


def trainer_for(setup: TrainerSetup) -> Trainer:
    """What trains by these settings."""
    method = training_method(setup.settings, setup.objective)
    return TRAINERS[method](setup)

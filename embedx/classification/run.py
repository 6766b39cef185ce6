"""The task of classification: a run on labelled data, which leaves a `Classifier`.

One of three trainers trains it (trainers.py): steps on minibatches (step_trainer.py), one label
after another (labelwise_trainer.py), or L-BFGS on the whole data set (lbfgs_trainer.py).
"""

import dataclasses
import time
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix

from embedx import samplers
from embedx.classification import held_out, left_out_labels, neighbours, variances
from embedx.classification.anchors import Anchor, SparseAnchor, anchor_of
from embedx.classification.classifier import Classifier
from embedx.classification.clustering import clustered_order
from embedx.classification.continued_training import check_new_labels
from embedx.classification.contract import Trainer, TrainerSetup
from embedx.classification.data_split import split_data
from embedx.classification.history import History, Watch
from embedx.classification.ineffective_settings import without_effect
from embedx.classification.left_out_labels import SubsetClassifier
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.pretrained_vectors import pretrained_vectors, with_width_of
from embedx.classification.problem import Problem
from embedx.classification.refitting import refit_settings, refitted
from embedx.classification.resolve import resolve_settings
from embedx.classification.row_weights import rows_with_weight
from embedx.classification.run_size import check_size, disk_needs, size_of_weights
from embedx.classification.setting_notes import note_unexpected
from embedx.classification.settings import GAUSSIAN, MAX_REFITTED, NONE, ClassifySettings
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.classification.trainers import trainer_for
from embedx.errors import DataError, DivergedError, Setting, SettingError
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels, known_labels
from embedx.objectives.contract import Objective
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, allocating
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler, pairs_of
from embedx.samplers.search import index_settings
from embedx.training import life
from embedx.training.checkpoint import Checkpoints
from embedx.training.life import DiskNeeds, Size
from embedx.training.outcome import Outcome
from embedx.training.strategy import Wrap


class ClassifierRun:
    """A run on labelled data: its rows are split and its settings are resolved.

    `embedx.training.life` calls its stages: `allocate`, `train`, `finish`.

    config  objective and settings, as the user gave them
    start   a trained classifier, with or without its optimizer's state, to continue by steps.
            Objective and features are the same; new labels follow those that it knows. Parameters
            are kept, and the counts of labels by which noise is drawn and a tree was built; the
            optimizer's state too, if it is the same optimizer and no label is new. What an
            objective keeps by example begins again, for these are other examples
    watch   called after each epoch with the classifier, the epoch and the seconds so far; what it
            returns joins the history
    wrap    makes the strategy that trains, of the one on this machine

    Raises `EmbedxError` for what the user can mend.
    """

    # The features of the training rows, scaled, and the arrays of the scaling by name.
    features: Any
    scaling_arrays: dict[str, ndarray]
    # Set by `allocate`: the labels to train on, and how often each occurs, int64 (n_labels,).
    labels: Labels
    trained_counts: ndarray
    classifier: Classifier
    trainer: Trainer
    allocation_seconds: float
    # Set by `train`.
    history: History

    def __init__(
        self,
        data: Labeled,
        config: ClassifierConfiguration,
        progress: Progress = SILENT,
        *,
        start: TrainedClassifier | Classifier | None = None,
        watch: Watch | None = None,
        wrap: Wrap | None = None,
    ) -> None:
        check_size(data)
        self.data = rows_with_weight(data)
        self.config = config
        self.objective = config.objective
        self.progress = progress
        self.watch = watch
        self.wrap = wrap
        self.start = start
        self.previous = start.classifier if isinstance(start, TrainedClassifier) else start

        self.pretrained = pretrained_vectors(config.settings, self.data, progress)
        self.given = with_width_of(self.pretrained, config.settings)
        self.split = split_data(self.data, self.given, progress, allows_refit=self.allows_refit)
        problem = Problem(
            self.given,
            self.objective,
            self.data,
            self.split.training,
            self.previous_arrays,
            config.given_names,
        )
        resolved = resolve_settings(problem)
        self.settings = resolved.settings
        self.origins = resolved.origins
        self.features = resolved.features
        self.scaling_arrays = resolved.scaling_arrays
        note_unexpected(self.settings, problem, progress)
        self.sampler, self.warm_up = samplers.with_warm_up(
            str(self.settings.sampler),
            self.objective.samplers(),
            config.sampler_options,
            replacement=self.settings.replacement,
            corrected=self.objective.traits.adds_log_noise,
        )

    @property
    def previous_arrays(self) -> dict[str, ndarray]:
        """The arrays of the classifier that training continues from, if there is one."""
        return {} if self.previous is None else self.previous.arrays

    @property
    def drawing(self) -> Sampler:
        """The sampler that draws: where rows are retrieved, that of the warm-up."""
        return self.warm_up or self.sampler

    @property
    def allows_refit(self) -> bool:
        """Whether training may be repeated on all rows after some were held out to calibrate."""
        is_unlimited_start = self.start is None and self.given.time_budget is None
        is_at_most_default = self.given.calibration <= ClassifySettings.calibration
        return is_unlimited_start and is_at_most_default and len(self.data) <= MAX_REFITTED

    @property
    def will_refit(self) -> bool:
        """Whether training is repeated on all rows, unless it is interrupted or diverges."""
        return self.split.holds_out_for_calibration and self.allows_refit

    def record(self) -> dict[str, Any]:
        """All settings of the run, by name."""
        samplers_settings = (self.sampler.settings, self.drawing.settings)
        groups = (self.settings, *samplers_settings, self.objective.settings)
        record = {name: value for group in groups for name, value in group.record().items()}
        if self.previous is None:
            del record["anchored"]
        return record

    def used_settings(self) -> dict[str, Any]:
        """The settings of the run that have an effect, by name."""
        unused = without_effect(self.settings, self.objective)
        if self.drawing.candidates in ("all", "path"):
            unused |= {"negatives", "replacement"}
        used = {name: value for name, value in self.record().items() if name not in unused}
        return {"objective": self.objective.name, **used}

    def data_hash(self) -> str:
        """A hash of the features and labels of the training data, as they were read."""
        return self.data.hash()

    def data_size(self) -> dict[str, int]:
        """Numbers of rows, features and labels."""
        data = self.data
        return {"rows": len(data), "features": data.n_features, "labels": data.n_labels}

    # ---- allocate

    @property
    def chosen_threads(self) -> int | None:
        """The number of threads, where it was chosen; None where it was given."""
        return self.settings.threads if self.given.threads is None else None

    def lower_threads(self, threads: int) -> None:
        """Train with fewer threads, because the memory of more does not fit."""
        self.settings = dataclasses.replace(self.settings, threads=threads)
        self.origins = {**self.origins, "threads": "memory of a thread"}

    def allocate(self) -> MemoryPlan:
        """Make the classifier and what trains it; the memory that training needs.

        Labels are counted, and the objective and the sampler are fitted to them. Memory is taken
        when it is written to.
        """
        began = time.monotonic()
        self.labels = chosen_labels(self.split.training.labels, self.settings.labels)
        self.trained_counts = self._trained_counts()
        label_order = self._label_order()
        self.objective.prepare(self.trained_counts, label_order)
        self._prepare_samplers()
        self.classifier = self._untrained_classifier(label_order)
        self.trainer = self._new_trainer()
        self.allocation_seconds = time.monotonic() - began
        # The weights of the best epoch by validation, or those of the first training while a second
        # one trains on all rows.
        plan = self.trainer.memory(self.split.validation is not None or self.will_refit)
        if self.settings.posterior == GAUSSIAN:
            needs = {**plan.needs, "variances": 2 * plan.needs["weights"]}
            plan = dataclasses.replace(plan, needs=needs)
        return plan

    def _label_order(self) -> ndarray | None:
        """The order of labels that the objective's tree is built by; None if it uses none."""
        if not self.objective.traits.uses_class_order:
            return None
        if self.previous is not None:
            return self.previous.arrays["label_order"]
        counts = self.trained_counts
        self.progress.note(f"clustering {len(counts):,} labels by the features of their rows")
        return clustered_order(
            self.features, self.labels, counts, self.settings.seed, self.settings.n_threads
        )

    def _prepare_samplers(self) -> None:
        """Give the samplers the counts of labels; fit one that depends on the input, unless it
        continues from `previous`.
        """
        counts = self.trained_counts
        samplers.prepared((self.sampler, self.warm_up), counts, self.objective.paths())
        if not self.sampler.conditional:
            return
        if self.previous is not None:
            self.sampler.restore(self.previous.arrays)
            self.sampler.observe(self.features)
            return
        pairs = pairs_of(self.labels.row_of_id, self.labels.ids, len(counts))
        self.sampler.fit(
            self.features,
            pairs,
            seed=self.settings.seed,
            threads=self.settings.n_threads,
            progress=self.progress,
        )

    def _untrained_classifier(self, label_order: ndarray | None) -> Classifier:
        """A classifier without weights."""
        all_labels = chosen_labels(self.data.labels, self.settings.labels)
        all_counts = self._all_counts(all_labels)
        arrays = dict(self.scaling_arrays)
        if not np.array_equal(all_counts, self.trained_counts):
            arrays["trained_counts"] = self.trained_counts
        if label_order is not None:
            arrays["label_order"] = label_order
        facts = self._facts_before_training(all_labels)
        if self.sampler.conditional:
            arrays |= self.sampler.arrays()
            facts["fit_seconds"] = round(self.sampler.fit_seconds, 4)
        schema = self.split.training.schema
        return Classifier(self.objective, arrays, schema, all_counts, self.record(), facts)

    def _all_counts(self, all_labels: Labels) -> ndarray:
        """How often each label occurs, int64 (n_labels,), in all rows and those of `previous`."""
        counts = np.bincount(all_labels.ids, minlength=self.data.n_labels).astype(np.int64)
        if self.previous is not None:
            counts[: self.previous.n_labels] += self.previous.counts
        return counts

    def _facts_before_training(self, all_labels: Labels) -> dict[str, Any]:
        """Facts of the data and of the settings, for the model folder."""
        counts = self.trained_counts
        n_previous_rows = 0 if self.previous is None else self.previous.n_training_rows
        return {
            "objective": self.objective.name,
            "data_hash": self.data_hash(),
            "examples": len(self.split.training),
            "training_rows": len(self.data) + n_previous_rows,
            "labels": len(counts),
            "seen_labels": int((counts > 0).sum()),
            "several_labels": bool((all_labels.n_of_row > 1).any()),
            "chosen": self.origins,
        }

    def _trained_counts(self) -> ndarray:
        """How often each label occurs in the rows that are trained on, int64 (n_labels,); where
        training continues, a label of the previous classifier keeps its counts.

        Raises `EmbedxError` if no row, or no validation row, has a label that is trained.
        """
        n_labels = self.split.training.n_labels
        counts = np.bincount(self.labels.ids, minlength=n_labels).astype(np.int64)
        if self.previous is not None:
            check_new_labels(self.previous, n_labels)
            previous_counts = self.previous.trained_counts
            if self.previous.has_sparse_weights:
                # These have no weights for labels without rows.
                has_rows = previous_counts > 0
                new_counts = counts[: len(previous_counts)]
                previous_counts = np.where(has_rows, previous_counts, new_counts)
            counts = np.concatenate([previous_counts, counts[len(previous_counts) :]])
        elif len(self.labels.ids) == 0:
            raise DataError("training data", None, "no row has a label")
        validation = self.split.validation
        if validation is not None and len(known_labels(validation.labels, counts).ids) == 0:
            raise SettingError(
                "validation", None, "no row has a label that occurs in training", "use other data"
            )
        return counts

    def _anchor(self) -> Anchor | SparseAnchor | None:
        """The anchor that keeps parameters near those of `previous`; None where a run continues
        with its optimizer's state, whose steps are short already.
        """
        previous = self.previous
        if previous is None:
            return None
        if not previous.has_sparse_weights and not self._anchors_dense_weights(previous):
            return None
        n_labels = self.split.training.n_labels
        counts = np.bincount(self.labels.ids, minlength=n_labels)
        n_outputs = self.objective.n_outputs(n_labels)
        return anchor_of(previous, counts, self.features, n_outputs)

    def _anchors_dense_weights(self, previous: Classifier) -> bool:
        """Whether dense weights are kept near those of `previous`."""
        is_same_run = isinstance(self.start, TrainedClassifier)
        has_state = is_same_run and previous.settings["optimizer"] == self.settings.optimizer
        return self.settings.anchored and not has_state

    def _new_trainer(self) -> Trainer:
        """The trainer for the settings."""
        optimizer_state: Mapping[str, ndarray] = {}
        if isinstance(self.start, TrainedClassifier):
            optimizer_state = self.start.optimizer_state
        setup = TrainerSetup(
            self.objective,
            self.settings,
            self.features,
            self.labels,
            self.trained_counts,
            self.split.training.weights,
            self.drawing,
            self.progress,
            self.pretrained,
            self.previous,
            self._anchor(),
            optimizer_state,
            is_distributed=self.wrap is not None,
            search=index_settings(self.objective.settings, self.sampler.settings),
        )
        with allocating(*self.size()):
            return trainer_for(setup)

    def size(self) -> Size:
        """The size of the weights."""
        return size_of_weights(
            self.settings, self.data, self.objective.n_outputs(self.data.n_labels)
        )

    def on_disk(self, plan: MemoryPlan) -> DiskNeeds | None:
        """Bytes of the weights, and of the state in a checkpoint; None where weights are sparse."""
        return disk_needs(self.settings, plan)

    # ---- train

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Train the classifier."""
        self.history = History(
            self.classifier,
            self.split.validation,
            self.settings,
            self.watch,
            self.progress,
            self.sampler.fit_seconds,
        )
        return self.trainer.train(self.history, plan, checkpoints, self.wrap)

    # ---- finish

    def finish(self, outcome: Outcome) -> TrainedClassifier:
        """The trained classifier, calibrated on the rows that were held out.

        It is trained again, on all rows, if `will_refit`.
        """
        if self.start is None:
            outcome.check_trained()
        to_the_end(self._check_finite)
        self.classifier.facts |= {
            **outcome.facts(self.trainer.loss_unit),
            "examples_trained": outcome.tally.items,
            "examples_per_second": round(outcome.tally.items / max(outcome.seconds, 1e-9)),
            "history": self.history.epochs,
        }
        began = time.monotonic()
        if self.settings.posterior == GAUSSIAN:
            to_the_end(self._fit_variances)
        subset_classifiers, interrupted_by = self._train_subset_classifiers(outcome)
        outcome = dataclasses.replace(outcome, interrupted_by=interrupted_by)
        self._fit_to_held_out(subset_classifiers)
        held_out_seconds = time.monotonic() - began
        seconds = self.allocation_seconds + outcome.seconds + held_out_seconds
        self.classifier.facts["seconds"] = round(seconds, 3)
        trained = TrainedClassifier(self.classifier, outcome, self.trainer.optimizer_state)
        if self.will_refit and outcome.is_whole:
            settings = refit_settings(self.settings, self.given, self.classifier)
            return refitted(
                trained,
                self.data,
                lambda: self._train_on(
                    self.data, settings, self.objective, self.progress, self.wrap
                ),
            )
        return trained

    def _train_on(
        self,
        data: Labeled,
        settings: ClassifySettings,
        objective: Objective,
        progress: Progress = SILENT,
        wrap: Wrap | None = None,
    ) -> TrainedClassifier:
        """Another classifier, trained on these rows."""
        config = dataclasses.replace(self.config, objective=objective, settings=settings)
        return life.train_model(ClassifierRun(data, config, progress, wrap=wrap))

    def _check_finite(self) -> None:
        """Raise `DivergedError` if a parameter is not finite."""
        for name, array in self.classifier.arrays.items():
            if not np.isfinite(array).all():
                problem = f"{name}: weights are no longer finite at the end of training"
                raise DivergedError(problem, ("try a smaller ", Setting("learning_rate")))

    def _fit_variances(self) -> None:
        """Give the classifier the variances of its weights."""
        n_of_row = self.labels.n_of_row
        if self.settings.labels == "one":
            n_of_row = np.minimum(n_of_row, 1)
        row_weights = n_of_row.astype(np.float32)
        if self.split.training.weights is not None:
            row_weights *= self.split.training.weights
        variances.fit(
            self.classifier,
            self.features,
            self.labels,
            row_weights,
            self.split.calibration,
            self.settings,
            self.previous,
            self.progress,
        )

    def _train_subset_classifiers(
        self, outcome: Outcome
    ) -> tuple[list[SubsetClassifier], BaseException | None]:
        """Classifiers that were trained without some labels, and the interrupt that ended the run.

        There are none if no rows were held out, the time is limited, or the run has ended early.
        """
        has_held_out = self.split.calibration is not None
        is_unlimited = self.given.time_budget is None
        if not (has_held_out and is_unlimited and outcome.is_whole):
            return [], outcome.interrupted_by
        settings = left_out_labels.settings_without_held_out(self.settings, self.given)

        def train(training: Labeled) -> TrainedClassifier:
            objective = type(self.objective)(self.objective.settings)
            return self._train_on(training, settings, objective)

        return left_out_labels.subset_classifiers(
            self.split.training, self.labels, train, self.progress
        )

    def _fit_to_held_out(self, subset_classifiers: Sequence[SubsetClassifier]) -> None:
        """Fit temperature, calibration, neighbours and thresholds.

        Without held-out rows a classifier that continues keeps what `previous` has.
        """
        calibration = self.split.calibration
        if self.previous is not None and calibration is None:
            held_out.copy_held_out(self.previous, self.classifier)
        index = None
        if self.settings.neighbours != NONE:
            index = self._neighbour_index()
        features = self.features
        is_seen = None
        if calibration is not None and isinstance(features, csr_matrix):
            is_seen = np.bincount(features.indices, minlength=features.shape[1]) > 0
        to_the_end(
            lambda: held_out.fit(
                self.classifier,
                calibration,
                index,
                self.settings,
                self.progress,
                is_seen,
                subset_classifiers,
            )
        )

    def _neighbour_index(self) -> dict[str, ndarray]:
        """The index of the training rows, after those of `previous`."""
        index = neighbours.arrays_of(self.features, self.labels)
        if neighbours.INDEX[0] in self.previous_arrays:
            index = neighbours.joined(self.previous_arrays, index)
        return index

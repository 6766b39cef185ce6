"""The task of classification: a run on labelled data, which leaves a `Classifier`.

What trains is one of three (trainers.py): steps on minibatches (steps.py), one label after another
(labelwise.py), or L-BFGS on the whole data set (optimum.py).
"""

import dataclasses
import time
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy import ndarray
from scipy.sparse import csr_matrix

from embedx import samplers
from embedx.classification import (
    held_out,
    neighbours,
    start as start_of,
    unknown_labels,
    variances,
)
from embedx.classification.classifier import Classifier
from embedx.classification.clustering import clustered_order
from embedx.classification.contract import Trainer, TrainerInputs
from embedx.classification.division import divide
from embedx.classification.effects import without_effect
from embedx.classification.history import History, Watch
from embedx.classification.objective_choice import RunSettings
from embedx.classification.problem import Problem
from embedx.classification.remarks import remark
from embedx.classification.resolve import resolve
from embedx.classification.row_weights import counted_rows
from embedx.classification.settings import DENSE, GAUSSIAN, MAX_REFITTED, NONE, ClassifySettings
from embedx.classification.trainers import trainer_for
from embedx.classification.unknown_labels import WithoutGroup
from embedx.errors import DataError, DivergedError, EmbedxError, Setting, SettingError, Text
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.rules import chosen_labels, known_labels
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan, allocating, check_declared
from embedx.runtime.progress import SILENT, Progress
from embedx.samplers.contract import Sampler, pairs_of
from embedx.samplers.search import index_settings
from embedx.storage.schema import row_blocks
from embedx.training import life
from embedx.training.checkpoint import Checkpoints
from embedx.training.life import DiskNeeds, Size
from embedx.training.outcome import Outcome
from embedx.training.strategy import Wrap

# What is learned from held-out rows: names of arrays and of facts of a classifier.
HELD_OUT_ARRAYS = (
    "calibration",
    "coverage",
    "familiarity",
    "neighbour_blend",
    "neighbour_calibration",
)
HELD_OUT_FACTS = ("temperature", "threshold")
# Bytes for its count and for the distribution that noise is drawn from, while that is made.
BYTES_PER_LABEL = 80
# Bytes for its count, its scale and one weight.
BYTES_PER_FEATURE = 24


@dataclasses.dataclass(frozen=True)
class TrainedClassifier:
    """A trained classifier and how its training went.

    optimizer_state  by table; `ClassifierRun` continues from it
    """

    classifier: Classifier
    outcome: Outcome
    optimizer_state: dict[str, ndarray] = dataclasses.field(default_factory=dict)

    @property
    def model(self) -> Classifier:
        return self.classifier

    def without_state(self) -> "TrainedClassifier":
        """The same without the memory that only training needed."""
        return TrainedClassifier(self.classifier, self.outcome.without_state())


def crc_of(arrays: Sequence[ndarray]) -> int:
    """CRC-32 of the bytes of arrays, a block of rows at a time."""
    crc = 0
    for array in arrays:
        for rows in row_blocks(array):
            crc = zlib.crc32(np.ascontiguousarray(rows).data, crc)
    return crc


class ClassifierRun:
    """A run on labelled data: its rows are divided and its settings are resolved.

    wanted     objective and settings, as the user gave them
    start      a run, or the classifier that it left, to continue by steps. Objective and features
               are the same; new labels follow those that it knows. Parameters are kept, and the
               counts of labels by which noise is drawn and a tree was built; the optimizer's state
               too, if it is the same optimizer and no label is new. What an objective keeps by
               example begins again, for these are other examples
    watch      called after each epoch with the classifier, the epoch and the seconds so far; what
               it returns joins the history
    wrap       makes the strategy that trains, of the one on this machine

    Raises `EmbedxError` for what the user can mend.
    """

    def __init__(
        self,
        data: Labeled,
        wanted: RunSettings,
        progress: Progress = SILENT,
        *,
        start: TrainedClassifier | Classifier | None = None,
        watch: Watch | None = None,
        wrap: Wrap | None = None,
    ) -> None:
        _check_size(data)
        self.data = counted_rows(data)
        self.wanted = wanted
        self.objective = wanted.objective
        self.progress = progress
        self.watch = watch
        self.wrap = wrap
        self.start = start
        self.before = start.classifier if isinstance(start, TrainedClassifier) else start

        self.given = wanted.settings
        self.pretrained = None
        if self.given.pretrained is not None:
            self.pretrained = start_of.word_vectors(
                self.given.pretrained, self.given.hidden, self.data, progress
            )
            _, vectors = self.pretrained
            self.given = dataclasses.replace(self.given, hidden=vectors.shape[1])
        self.division = divide(self.data, self.given, progress, is_refitted=self.is_refitted)
        problem = Problem(
            self.given,
            self.objective,
            self.data,
            self.division.training,
            self._former_arrays,
            wanted.given_names,
        )
        resolved = resolve(problem)
        self.settings = resolved.settings
        self.origins = resolved.origins
        self.inputs = resolved.inputs
        remark(self.settings, problem, progress)
        self.sampler, self.warm_up = samplers.with_warm_up(
            str(self.settings.sampler),
            self.objective.samplers(),
            wanted.sampler_options,
            replacement=self.settings.replacement,
            corrected=self.objective.traits.adds_log_noise,
        )

    @property
    def _former_arrays(self) -> dict[str, ndarray]:
        """The arrays of the classifier that training continues from, if there is one."""
        return {} if self.before is None else self.before.arrays

    @property
    def drawing(self) -> Sampler:
        """The sampler that draws: where rows are retrieved, the one before."""
        return self.warm_up or self.sampler

    @property
    def is_refitted(self) -> bool:
        """Whether training is repeated on all rows, after some were held out to calibrate."""
        usual = type(self.given).calibration
        is_free = self.start is None and self.given.time_budget is None
        return is_free and self.given.calibration <= usual and len(self.data) <= MAX_REFITTED

    def record(self) -> dict[str, Any]:
        """All settings of the run, by name."""
        samplers_settings = (self.sampler.settings, self.drawing.settings)
        groups = (self.settings, *samplers_settings, self.objective.settings)
        record = {name: value for group in groups for name, value in group.record().items()}
        if self.before is None:
            del record["anchored"]
        return record

    def used_settings(self) -> dict[str, Any]:
        """The settings of the run that have an effect, by name."""
        without = without_effect(self.settings, self.objective)
        if self.drawing.candidates in ("all", "path"):
            without |= {"negatives", "replacement"}
        used = {name: value for name, value in self.record().items() if name not in without}
        return {"objective": self.objective.name, **used}

    def data_hash(self) -> str:
        """A hash of the features and labels of the training data, as they were read."""
        features = self.data.features
        parts = [features]
        if self.data.is_sparse:
            parts = [features.indptr, features.indices, features.data]
        labels = self.data.labels
        return f"{crc_of(parts):08x}{crc_of([labels.ids, labels.n_of_row]):08x}"

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

        Labels are counted and the sampler is fitted. Memory is taken when it is written to.
        """
        began = time.monotonic()
        self.labels = chosen_labels(self.division.training.labels, self.settings.labels)
        self.trained_counts = self._trained_counts()
        self.classifier = self._untrained_classifier()
        self.trainer = self._new_trainer()
        self.allocation_seconds = time.monotonic() - began
        keeps_best = self.division.unseen is not None or self.watch is not None
        plan = self.trainer.memory(keeps_best)
        if self.settings.posterior == GAUSSIAN:
            needs = {**plan.needs, "variances": 2 * plan.needs["weights"]}
            plan = dataclasses.replace(plan, needs=needs)
        return plan

    def _untrained_classifier(self) -> Classifier:
        """A classifier without parameters, whose objective and samplers know the labels."""
        counts = self.trained_counts
        all_labels = chosen_labels(self.data.labels, self.settings.labels)
        all_counts = self._all_counts(all_labels)
        arrays = dict(self.inputs.arrays)
        if not np.array_equal(all_counts, counts):
            arrays["trained_counts"] = counts
        if self.objective.traits.uses_class_order and self.before is None:
            arrays["label_order"] = self._clustered_labels()
        self.objective.prepare(counts, arrays.get("label_order"))
        samplers.prepared((self.sampler, self.warm_up), counts, self.objective.paths())

        facts = self._facts_before_training(all_labels)
        if self.sampler.conditional:
            self._fit_sampler()
            arrays |= self.sampler.arrays()
            facts["fit_seconds"] = round(self.sampler.fit_seconds, 3)
        schema = self.division.training.schema
        return Classifier(self.objective, arrays, schema, all_counts, self.record(), facts)

    def _all_counts(self, all_labels: Labels) -> ndarray:
        """How often each label occurs, int64 (n_labels,), in all rows and those trained before."""
        counts = np.bincount(all_labels.ids, minlength=self.data.n_labels).astype(np.int64)
        if self.before is not None:
            counts[: self.before.n_labels] += self.before.counts
        return counts

    def _clustered_labels(self) -> ndarray:
        """The order of labels that an objective's tree is built by."""
        settings = self.settings
        counts = self.trained_counts
        self.progress.note(f"clustering {len(counts):,} labels by the features of their rows")
        threads = settings.n_threads
        return clustered_order(self.inputs.features, self.labels, counts, settings.seed, threads)

    def _facts_before_training(self, all_labels: Labels) -> dict[str, Any]:
        """What the classifier tells of its data and settings."""
        counts = self.trained_counts
        n_rows_before = 0 if self.before is None else self.before.n_training_rows
        return {
            "objective": self.objective.name,
            "data_hash": self.data_hash(),
            "examples": len(self.division.training),
            "training_rows": len(self.data) + n_rows_before,
            "labels": len(counts),
            "seen_labels": int((counts > 0).sum()),
            "several_labels": bool((all_labels.n_of_row > 1).any()),
            "chosen": self.origins,
        }

    def _trained_counts(self) -> ndarray:
        """How often each label occurs in the rows that are trained on, int64 (n_labels,)."""
        n_labels = self.division.training.n_labels
        counts = np.bincount(self.labels.ids, minlength=n_labels).astype(np.int64)
        if self.before is not None:
            start_of.check_new_labels(self.before, n_labels)
            former = self.before.trained_counts
            if self.before.has_sparse_weights:
                # These have no weights for labels without rows.
                former = np.where(former > 0, former, counts[: len(former)])
            counts = np.concatenate([former, counts[len(former) :]])
        elif len(self.labels.ids) == 0:
            raise DataError("training data", None, "no row has a label")
        validation = self.division.validation
        if validation is not None and len(known_labels(validation.labels, counts).ids) == 0:
            raise SettingError(
                "validation", None, "no row has a label that occurs in training", "use other data"
            )
        return counts

    def _fit_sampler(self) -> None:
        """Fit a sampler that depends on the input; one to continue from stays as it was."""
        features = self.inputs.features
        if self.before is not None:
            self.sampler.restore(self.before.arrays)
            self.sampler.observe(features)
            return
        pairs = pairs_of(self.labels.row_of_id, self.labels.ids, len(self.trained_counts))
        self.sampler.fit(
            features,
            pairs,
            seed=self.settings.seed,
            threads=self.settings.n_threads,
            progress=self.progress,
        )

    def _anchor(self) -> start_of.Anchor | start_of.SparseAnchor | None:
        """What keeps the parameters near those of the classifier to continue from; None where a run
        continues with its optimizer's state, whose steps are short already.
        """
        before = self.before
        if before is None:
            return None
        if not before.has_sparse_weights and not self._anchors_dense_weights(before):
            return None
        n_labels = self.division.training.n_labels
        counts = np.bincount(self.labels.ids, minlength=n_labels)
        n_outputs = self.objective.n_rows(n_labels)
        return start_of.anchor_of(before, counts, self.inputs.features, n_outputs)

    def _anchors_dense_weights(self, before: Classifier) -> bool:
        """Whether dense weights are kept near those of the classifier to continue from."""
        is_same_run = isinstance(self.start, TrainedClassifier)
        has_state = is_same_run and before.settings["optimizer"] == self.settings.optimizer
        return self.settings.anchored and not has_state

    def _new_trainer(self) -> Trainer:
        """What trains by the settings."""
        optimizer_state: Mapping[str, ndarray] = {}
        if isinstance(self.start, TrainedClassifier):
            optimizer_state = self.start.optimizer_state
        inputs = TrainerInputs(
            self.objective,
            self.settings,
            self.inputs.features,
            self.labels,
            self.trained_counts,
            self.division.training.weights,
            self.drawing,
            self.progress,
            self.pretrained,
            self.before,
            self._anchor(),
            optimizer_state,
            is_distributed=self.wrap is not None,
            search=index_settings(self.objective.settings, self.sampler.settings),
        )
        with allocating(*self.size()):
            return trainer_for(inputs)

    def size(self) -> Size:
        """The size of the weights."""
        settings = self.settings
        data = self.data
        n_rows = self.objective.n_rows(data.n_labels)
        if settings.weights != DENSE:
            return Size(
                f"sparse weights of {n_rows:,} rows on {data.n_features:,} features",
                "drop rare labels and features",
            )
        n_columns = (settings.hidden or data.n_features) + 1
        remedy: Text = (
            Setting("optimizer", "sgd"),
            " needs the least; or drop rare labels and features",
        )
        if data.is_sparse and not settings.hidden:
            remedy = ("add ", Setting("hidden", 100), "; ", remedy)
        optimizer = Setting("optimizer", settings.optimizer)
        return Size((f"{n_rows:,} rows × {n_columns:,} weights with ", optimizer), remedy)

    def on_disk(self, plan: MemoryPlan) -> DiskNeeds | None:
        """Bytes of the weights, and of the state in a checkpoint; None where weights are sparse."""
        weights = plan.needs.get("weights")
        if not weights:
            return None
        if self.settings.optimizer == Lbfgs.name:
            return DiskNeeds(weights, 0)
        state = sum(plan.needs[name] for name in ("weights", "optimizer", "objective"))
        return DiskNeeds(weights + plan.needs.get("variances", 0.0) / 2, state)

    # ---- train

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Train the classifier."""
        self.history = History(
            self.classifier,
            self.division.validation,
            self.settings,
            self.watch,
            self.progress,
            self.sampler.fit_seconds,
        )
        return self.trainer.train(self.history, plan, checkpoints, self.wrap)

    # ---- finish

    def finish(self, outcome: Outcome) -> TrainedClassifier:
        """The trained classifier, with what it learns from the rows that were held out.

        It is trained again, on all rows, where it `is_refitted`.
        """
        if self.start is None:
            outcome.check_trained()
        to_the_end(self._check_finite)
        self.classifier.facts |= {
            **outcome.facts(self.trainer.loss_unit),
            "examples_trained": outcome.tally.words,
            "examples_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
            "history": self.history.epochs,
        }
        began = time.monotonic()
        if self.settings.posterior == GAUSSIAN:
            to_the_end(self._fit_variances)
        without, interrupted_by = self._trained_without_labels(outcome)
        outcome = dataclasses.replace(outcome, interrupted_by=interrupted_by)
        self._learn_from_held_out(without)
        held_out_seconds = time.monotonic() - began
        seconds = self.allocation_seconds + outcome.seconds + held_out_seconds
        self.classifier.facts["seconds"] = round(seconds, 3)
        trained = TrainedClassifier(self.classifier, outcome, self.trainer.optimizer_state)
        if self.division.holds_out_for_calibration and self.is_refitted and outcome.is_whole:
            return self._refitted(trained)
        return trained

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
        if self.division.training.weights is not None:
            row_weights *= self.division.training.weights
        variances.fit(
            self.classifier,
            self.inputs.features,
            row_weights,
            self.division.unseen,
            self.settings,
            self.before,
            self.progress,
        )

    def _trained_without_labels(
        self, outcome: Outcome
    ) -> tuple[list[WithoutGroup], BaseException | None]:
        """Classifiers that do not know some labels, and the interrupt that ended the run.

        There are none if no rows were held out, the time is limited, or the run has ended early; if
        one of them cannot be trained, there are none either.
        """
        is_free = self.division.unseen is not None and self.given.time_budget is None
        if not is_free or not outcome.is_whole:
            return [], outcome.interrupted_by
        without = []
        for group in unknown_labels.groups(self.division.training, self.labels):
            objective = type(self.objective)(self.objective.settings)
            wanted = dataclasses.replace(
                self.wanted, objective=objective, settings=self._settings_without_held_out()
            )
            try:
                trained = life.train_model(ClassifierRun(group.training, wanted))
            except KeyboardInterrupt as interrupt:
                return [], interrupt
            except EmbedxError as error:
                self.progress.note(
                    "for ",
                    Setting("abstain"),
                    ", no classifier can be trained without some labels: ",
                    *error.parts,
                )
                return [], None
            if not trained.outcome.is_whole:
                return [], trained.outcome.interrupted_by
            without.append(WithoutGroup(group, trained.classifier))
        return without, None

    def _settings_without_held_out(self) -> ClassifySettings:
        """The settings, to train other rows of the same data without any held out."""
        defaults = ClassifySettings()
        return dataclasses.replace(
            self.settings,
            calibration=0.0,
            neighbours=NONE,
            l2=self.given.l2,
            pretrained=None,
            validation=None,
            validation_labels=None,
            patience=defaults.patience,
            posterior=defaults.posterior,
            class_weight=defaults.class_weight,
        )

    def _learn_from_held_out(self, without: Sequence[WithoutGroup]) -> None:
        """Fit temperature, calibration, neighbours and thresholds.

        Without such rows a classifier that continues keeps what the one before has.
        """
        if self.before is not None and self.division.unseen is None:
            _keep_held_out(self.before, self.classifier)
        index = None
        if self.settings.neighbours != NONE:
            index = self._neighbour_index()
        unseen = self.division.unseen
        features = self.inputs.features
        is_seen = None
        if unseen is not None and isinstance(features, csr_matrix):
            is_seen = np.bincount(features.indices, minlength=features.shape[1]) > 0
        to_the_end(
            lambda: held_out.fit(
                self.classifier, unseen, index, self.settings, self.progress, is_seen, without
            )
        )

    def _neighbour_index(self) -> dict[str, ndarray]:
        """The index of the training rows, after those of the classifier before."""
        index = neighbours.arrays_of(self.inputs.features, self.labels)
        former = self._former_arrays
        if neighbours.INDEX[0] in former:
            index = neighbours.joined(former, index)
        return index

    def _refitted(self, trained: TrainedClassifier) -> TrainedClassifier:
        """The classifier trained again, on all rows.

        It keeps what the first one learned from held-out rows. If this training is interrupted or
        diverges, the first one stays.
        """
        first = trained.classifier
        settings = dataclasses.replace(
            self.settings,
            calibration=0.0,
            neighbours=NONE,
            l2=self.given.l2,
            prior_variance=first.facts.get("prior_variance"),
        )
        wanted = dataclasses.replace(self.wanted, settings=settings)
        on_all_rows = ClassifierRun(self.data, wanted, self.progress, wrap=self.wrap)
        try:
            again = life.train_model(on_all_rows)
            ended: BaseException | None = again.outcome.interrupted_by or again.outcome.diverged
        except (KeyboardInterrupt, DivergedError) as error:
            ended = error
        if ended is not None:
            interrupted_by = ended if isinstance(ended, KeyboardInterrupt) else None
            outcome = dataclasses.replace(trained.outcome, interrupted_by=interrupted_by)
            return dataclasses.replace(trained, outcome=outcome)
        _carry_over(first, again.classifier, self.data, settings.labels)
        return again


def _check_size(data: Labeled) -> None:
    """Raise `EmbedxError` if labels and features are more than memory holds.

    Ids and headers of files may say anything.
    """
    check_declared(
        "the training data",
        BYTES_PER_LABEL * data.n_labels + BYTES_PER_FEATURE * data.n_features,
        f"{data.n_labels:,} labels and {data.n_features:,} features",
        "ids are numbered from 0 or 1, so check the largest ones and the header",
    )


def _keep_held_out(first: Classifier, again: Classifier) -> None:
    """Give a classifier what another one learned from held-out rows."""
    again.arrays |= {name: first.arrays[name] for name in HELD_OUT_ARRAYS if name in first.arrays}
    again.facts |= {name: first.facts[name] for name in HELD_OUT_FACTS if name in first.facts}


def _carry_over(first: Classifier, again: Classifier, data: Labeled, rule: str) -> None:
    """Give the classifier of all rows what the first one learned from held-out rows."""
    _keep_held_out(first, again)
    if first.has_neighbours:
        labels = chosen_labels(data.labels, rule)
        again.arrays |= neighbours.arrays_of(again.prepared(data.features), labels)
    again.settings = first.settings | {"l2": again.settings["l2"]}
    again.facts["chosen"] = first.facts["chosen"]
    again.facts["seconds"] = round(first.facts["seconds"] + again.facts["seconds"], 3)
    again.parameters_changed()

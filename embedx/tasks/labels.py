"""The task of `embedx classify`: a classifier of labelled data."""

import contextlib
import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedx.classification import classifier, word_ngrams
from embedx.classification.classifier import Classifier
from embedx.classification.continued_training import TRAIN_TOGETHER, settings_to_continue
from embedx.classification.label_report import note_probabilities, paired_differences
from embedx.classification.objective_choice import ClassifierConfiguration, configure_classifier
from embedx.classification.problem import given_names
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.classification.trained_classifier import TrainedClassifier
from embedx.distributed.settings import ClusterSettings
from embedx.errors import DataError, InapplicableError, Setting, Text, joined, visible
from embedx.evaluation.labels import scores_by_groups
from embedx.labeled.data import DataSchema, Labeled
from embedx.labeled.digits import GENERATED
from embedx.labeled.ids import read_label_names
from embedx.labeled.label_files import with_names
from embedx.labeled.named_data import check_there, label_names_of_recipe, rows_to_test_on
from embedx.labeled.read import read_test, read_training
from embedx.labeled.repeated_rows import note_repeated_rows
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import TextFeatureSettings
from embedx.runtime.progress import Progress
from embedx.settings import Record, check_used, settings_of
from embedx.storage.description import read_description
from embedx.storage.replacement import check_output, is_model
from embedx.tasks.output import command_line, default_output
from embedx.tasks.requests import ClassifyRequest
from embedx.training.checkpoint_folder import check_not_in_use
from embedx.training.strategy import Wrap

# In a message.
MAX_LABELS_NAMED = 5


class Rows(NamedTuple):
    """The data that a request names; the training rows have the ids of the classifier to start
    from.
    """

    training: Labeled
    test: Labeled | None


class LabelTask:
    """A classifier, as a request asks for it.

    Raises `EmbedxError` for what is known to be wrong before the data are read.
    """

    def __init__(self, request: ClassifyRequest, progress: Progress) -> None:
        self.request = request
        self.progress = progress
        self.options = request.options
        # What the word n-grams were chosen from, where they were.
        self.reason_of_ngrams: str | None = None
        validation = ClassifySettings.from_options(self.options).validation
        if validation is not None and share_of_rows(validation) is None:
            check_there(validation)
        has_start = request.start is not None
        if self.options.get("anchored") is False:
            check_used(self.options, [("anchored", has_start, Setting("start"))])
        self.cluster = ClusterSettings.from_options(self.options)
        if request.test_labels and not request.test:
            raise InapplicableError("test_labels", None, ("needs ", Setting("test")))

    def check_place(self) -> None:
        """Raise `EmbedxError` if the output folder is in use, or there and may not be replaced."""
        request = self.request
        folders: Iterable[Path]
        if request.output:
            folders = [request.output]
        else:
            # Where no objective is named, the same command writes to where it did before.
            command = command_line(request)
            defaults = [default_output(name, *request.train) for name in ("softmax", "ova")]
            folders = [folder for folder in defaults if _is_trained_by(command, folder)]
        for folder in folders:
            check_output(folder, request.overwrite or request.resume)
            check_not_in_use(folder)

    # ---- what is known once the data are read, where no objective is named

    @cached_property
    def start(self) -> classifier.Classifier | None:
        """The classifier to continue from."""
        return None if self.request.start is None else classifier.load(self.request.start)

    @cached_property
    def config(self) -> ClassifierConfiguration:
        """The objective and settings of the run, before they are resolved for the data."""
        options = self.options
        name = self.request.objective
        if self.start is not None:
            options = settings_to_continue(self.start, name, options, str(self.request.start))
            name = self.start.objective.name
        config = configure_classifier(name, options, lambda: self.data.training)
        return dataclasses.replace(config, given_names=given_names(self.options))

    @property
    def objective(self) -> str:
        """The name of the objective."""
        return self.config.objective.name

    @property
    def output(self) -> Path:
        """The folder of the model."""
        return self.request.output or default_output(self.objective, *self.request.train)

    def command(self) -> str:
        """The command that trains the same model, with objective, output and settings; those of
        the classifier to start from are left out.
        """
        if self.start is not None:
            return command_line(self.request, output=self.output)
        return command_line(
            self.request,
            objective=self.objective,
            output=self.output,
            settings=self.config.options,
        )

    @property
    def inherited(self) -> Record:
        """Settings of the classifier to start from, where they are not given and not the
        defaults.
        """
        if self.start is None:
            return {}
        defaults = ClassifySettings().record()
        inherited = {
            name: value
            for name, value in self.config.options.items()
            if name not in self.options and value != defaults.get(name)
        }
        return {"objective": self.config.objective.name, **inherited}

    # ---- read

    @contextlib.contextmanager
    def read(self) -> Iterator[Labeled]:
        """The training rows."""
        yield self.data.training

    @cached_property
    def data(self) -> Rows:
        """The rows, which are read when they are first needed: by `read`, or before it to choose
        the objective. `digits` are generated with test data of their own.
        """
        with self.progress.stage("read"):
            return self._read()

    def _read(self) -> Rows:
        """See `data`."""
        request = self.request
        names = None if request.label_names is None else read_label_names(request.label_names)
        test = self._test_source()
        training = self._training_data()
        if names is not None:
            training = with_names(training, names, str(request.label_names))
        elif request.train_labels is None and self.start is None:
            training = self._with_names_of_recipe(training)
        test_rows = None
        if test:
            test_rows = read_test(
                test,
                request.test_labels,
                schema=training.schema,
                progress=self.progress,
                threads=self.options.get("threads"),
            )
        note_repeated_rows(training, test_rows, self.progress)
        return Rows(training, test_rows)

    def _test_source(self) -> str | None:
        """The name of the test data. Raises `EmbedxError` if they are missing or do not apply."""
        request = self.request
        if request.train == [GENERATED]:
            if request.train_labels or request.test:
                remedy = ("leave out ", Setting("train_labels"), " and ", Setting("test"))
                problem = "generated with labels and test data"
                raise DataError(GENERATED, None, problem, remedy)
            return GENERATED
        if request.test is None:
            return rows_to_test_on(request.train, self.progress)
        check_there(request.test)
        return request.test

    def _with_names_of_recipe(self, training: Labeled) -> Labeled:
        """The training rows, their labels called as their recipe has them, if it can be read."""
        try:
            file = label_names_of_recipe(self.request.train)
            if file is None:
                return training
            return with_names(training, read_label_names(file), file)
        except DataError as error:
            self.progress.warn(f"labels are called by their numbers: {error}")
            return training

    def _training_data(self) -> Labeled:
        """The training rows. Raises `EmbedxError` for settings of text where there is none to
        learn.
        """
        request = self.request
        schema = None if self.start is None else self.start.schema
        training = read_training(
            request.train,
            request.train_labels,
            progress=self.progress,
            text=TextFeatureSettings.from_options(self.options),
            table=TableSettings.from_options(self.options),
            schema=schema,
            threads=self.options.get("threads"),
        )
        learns_text = training.schema.text is not None and schema is None
        need: Text = "features that are words"
        if schema is not None:
            need = ("without ", Setting("start"))
        names = settings_of(TextFeatureSettings)
        check_used(self.options, ((name, learns_text, need) for name in names))
        if not learns_text or self.cluster.is_asked_for:
            return training
        choice = word_ngrams.choose(training, request.objective, self.options, self.progress)
        self.reason_of_ngrams = choice.reason
        return choice.data

    # ---- resolve

    def resolved_run(self, data: Labeled, wrap: Wrap | None = None) -> ClassifierRun:
        """The run on the training rows."""
        run = ClassifierRun(data, self.config, self.progress, start=self.start, wrap=wrap)
        if self.reason_of_ngrams is not None:
            run.origins = {**run.origins, "word_ngrams": self.reason_of_ngrams}
        as_before = f"as in {self.request.start}"
        run.origins = {**run.origins, **dict.fromkeys(self.inherited, as_before)}
        if self.cluster.is_asked_for:
            from embedx.distributed.refusals import check_classifier

            check_classifier(self.cluster, run.settings, run.objective)
        _note_data(self.progress, data, None if self.start is None else self.start.schema)
        return run

    # ---- after the model is saved

    def scores(self, trained: TrainedClassifier) -> dict[str, float] | None:
        """The metrics on the test data, if there are any."""
        model = trained.classifier
        note_probabilities(model, self.progress)
        test = self.data.test
        if test is None:
            return None
        threads = model.settings.get("threads")
        metrics = model.evaluate(test, progress=self.progress, threads=threads)
        if self.start is not None:
            self._report_change(model, self.start, test)
        return metrics

    def _report_change(self, model: Classifier, start: Classifier, test: Labeled) -> None:
        """Report the accuracy on the test rows of a classifier and of the one that it continued
        from; a warning where it fell significantly.
        """
        threads = model.settings.get("threads")
        before, now = [
            scores_by_groups(partial(side.evaluate, threads=threads), test, ["accuracy"])
            for side in (start, model)
        ]
        if "accuracy" not in before:
            return
        change = paired_differences(now, before)["accuracy"]
        text = (
            f"accuracy on the test rows: {before['accuracy'].value:.4f} before training,"
            f" {now['accuracy'].value:.4f} now"
        )
        if change.sign() >= 0:
            self.progress.note(text)
            return
        has_rate = model.settings.get("learning_rate") is not None
        self.progress.warn(text, ": ", _remedy_for_fall(has_rate))


def _remedy_for_fall(has_rate: bool) -> Text:
    """What to do where continuing made a classifier worse.

    has_rate  whether there is a learning rate that could be lower
    """
    remedy: Text = TRAIN_TOGETHER
    if has_rate:
        remedy = ("lower ", Setting("learning_rate"), " or ", Setting("epochs"), f", or {remedy}")
    return remedy


def _is_trained_by(command: str, folder: Path) -> bool:
    """Whether a folder has the model that a command trained."""
    return is_model(folder) and read_description(folder)["facts"].get("command") == command


def _note_data(progress: Progress, training: Labeled, start: DataSchema | None) -> None:
    """Log the size of the training data, labels that are new or suspicious, and how many rows are
    not trained on.

    start  the schema of a classifier to start from
    """
    text = training.schema.text
    if text is not None:
        changed = [
            Setting(name, value)
            for name, value in text.settings.items()
            if value != getattr(TextFeatureSettings, name)
        ]
        source: Text = joined(changed, " ")
        if start is not None:
            source = ("as in the model of ", Setting("start"))
        progress.note(
            f"text: {len(text.vocabulary):,} words and {len(text.hashes):,} n-grams, ", source
        )

    if training.is_sparse:
        values = f"{training.features.nnz:,} non-zero"
    else:
        values = f"{training.features.size:,}"
    progress.note(
        f"{len(training):,} examples, {training.n_features:,} features, {values} values,"
        f" {training.n_labels:,} labels{_new_labels(training.schema, start)}"
    )
    _note_labels_alike(progress, training.schema)
    _warn_of_single_labels(progress, training)

    n_unlabelled = int((training.labels.n_of_row == 0).sum())
    if n_unlabelled:
        progress.note(
            f"{n_unlabelled:,} of {len(training):,} training rows have no label and are not"
            " trained on"
        )


def _new_labels(schema: DataSchema, start: DataSchema | None) -> str:
    """The end of a line about the labels: how many a classifier to start from has not."""
    n_new = 0 if start is None else schema.n_labels - start.n_labels
    if not n_new:
        return ""
    if schema.names is None:
        return f", {n_new:,} of them new"
    return f", {n_new:,} of them new: {_listed(schema.names[-n_new:])}"


def _note_labels_alike(progress: Progress, schema: DataSchema) -> None:
    """Log labels that differ from another one in case alone, as by a slip of who wrote them."""
    names_by_form: dict[str, list[str]] = {}
    for name in schema.names or ():
        names_by_form.setdefault(name.casefold(), []).append(name)
    alike = [" and ".join(names) for names in names_by_form.values() if len(names) > 1]
    if alike:
        progress.note(f"labels that differ in case alone are different labels: {_listed(alike)}")


def _warn_of_single_labels(progress: Progress, training: Labeled) -> None:
    """Warn where most rows of a table have a label that no other row has, as an id or a price."""
    columns = training.schema.columns
    if columns is None or columns.label is None or training.labels.n_of_row.max(initial=0) > 1:
        return
    n_single = np.count_nonzero(np.bincount(training.labels.ids) == 1)
    if 2 * n_single > len(training):
        progress.warn(
            f"{n_single:,} of {len(training):,} rows have a label that no other row has: is"
            f' "{columns.label}" the column of the labels? Choose another by ',
            Setting("label_column"),
        )


def _listed(names: Sequence[str]) -> str:
    """The first names, between commas."""
    shown = ", ".join(visible(name) for name in names[:MAX_LABELS_NAMED])
    return shown if len(names) <= MAX_LABELS_NAMED else f"{shown}, ..."

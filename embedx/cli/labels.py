"""The work of the commands about classifiers, and of `embedx compare`: the library called, the
result printed.
"""

import contextlib
import dataclasses
import functools
import json
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

from numpy import ndarray

from embedx import samplers
from embedx.classification import classifier, task as classification
from embedx.classification.classifier import Best, Classifier
from embedx.classification.resolve import given_settings, without_effect
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.classification.start import settings_to_continue
from embedx.cli import run
from embedx.cli.requests import ClassifyRequest, CompareRequest, PredictRequest
from embedx.cli.streams import is_read_at_once, reporter
from embedx.distributed.settings import ClusterSettings
from embedx.errors import EmbedxError, Setting, Text
from embedx.evaluation.labels import per_label_rows
from embedx.labeled.data import Labeled
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import arriving_lines
from embedx.labeled.read import check_there, read, read_training, with_names
from embedx.labeled.schema import read_label_names
from embedx.labeled.tables import TableSettings
from embedx.labeled.words import TextFeatureSettings, features_of_lines
from embedx.objectives.contract import Objective
from embedx.pages.plain import as_cell, csv_text, tab_separated
from embedx.runtime import atomic
from embedx.runtime.progress import Progress
from embedx.settings import Record, as_arguments, check_used, settings_of
from embedx.storage import outputs
from embedx.storage.folder import check_output, is_model, read_description
from embedx.text.sources import STANDARD_INPUT
from embedx.training.checkpoint import Checkpoints, check_not_in_use

if TYPE_CHECKING:
    from embedx.distributed.ray_backend import Size

# Labels printed for a row, unless a number, a threshold or a coverage is given.
DEFAULT_TOP_K = 5
# Metrics of the line that `embedx classify` prints.
METRICS_IN_LINE = (
    "accuracy",
    "log_likelihood",
    "log_likelihood_tempered",
    "p@1",
    "p@3",
    "p@5",
    "psp@1",
    "psp@3",
    "psp@5",
)


class ResolvedRun(NamedTuple):
    """A run of `embedx classify` whose settings are known."""

    # The options that were typed, with those of the model of --start and of a default objective.
    options: Record
    objective: Objective
    settings: ClassifySettings
    sampler_options: Record
    start: Classifier | None
    folder: Path

    def task(self, training: Labeled, progress: Progress) -> classification.Run:
        """The run on its training rows, before anything is computed."""
        return classification.Run(
            training, self.objective, self.settings, self.sampler_options, progress, self.start
        )


def classify(request: ClassifyRequest) -> None:
    """Train a classifier and print what came of it."""
    with reporter(request) as progress:
        folder, trained, metrics = train_classifier(request, progress)
    model = trained.classifier

    if request.as_json:
        record = {
            "model": str(folder),
            **model.facts,
            "settings": model.settings,
            "test": None if metrics is None else run.plain_numbers(metrics),
        }
        print(json.dumps(record))
        return

    parts = [f"{model.n_labels:,} labels"]
    if model.facts["interrupted"]:
        parts.append("interrupted")
    parts.append(run.loss_line(model.facts, "no example had a label"))
    if metrics:
        parts += [f"{name} {metrics[name]:.4f}" for name in METRICS_IN_LINE if name in metrics]
        parts.append(f"{metrics['n']:,} labelled test rows")
    print(*tab_separated([[str(folder), ", ".join(parts)]]))


# ---- training: check, read, resolve, train, save, test


def train_classifier(
    request: ClassifyRequest, progress: Progress
) -> tuple[Path, classification.TrainedClassifier, dict[str, float] | None]:
    """Train a classifier and write it; the metrics are those on the test data, if there are any."""
    cluster = _check_request(request)
    with contextlib.ExitStack() as stack:
        # A missing cluster is reported before anything is read.
        cluster_size = stack.enter_context(
            _connected(cluster, request.typed.get("threads"), progress)
        )
        start = None if request.start is None else classifier.load(request.start)
        read_data = functools.cache(lambda: labelled_data(request, progress, start))
        resolved = _resolve(request, start, lambda: read_data()[0])
        if request.dry_run:
            _show_plan(request, resolved, read_data, progress)

        checkpoints, overwrite = run.checkpoints_of("classify", request, resolved.folder, progress)
        stack.enter_context(checkpoints.at_work())
        progress.note(_resolved_command(request, resolved))
        training, test = read_data()

        task = resolved.task(training, progress)
        if cluster_size is not None:
            from embedx.distributed import labels

            labels.distribute(task, cluster, cluster_size)
        run.note_settings(progress, request.typed, used_settings(task) | cluster.record())
        _note_data(progress, training)
        trained = task.train(checkpoints=checkpoints)

        place = _save(request, trained, resolved.folder, checkpoints, overwrite)
        # Frees the memory that only training needed, before testing.
        trained = dataclasses.replace(
            trained, outcome=trained.outcome.without_state(), optimizer_state={}
        )
        _note_probabilities(trained.classifier, progress)
        metrics = None
        if test is not None:
            metrics = trained.classifier.evaluate(
                test, progress=progress, threads=task.settings.threads
            )
        return place, trained, metrics


def _check_request(request: ClassifyRequest) -> ClusterSettings:
    """The settings of the cluster, after checking what can be checked before anything is read."""
    validation = ClassifySettings.from_options(request.typed).validation
    if validation is not None and share_of_rows(validation) is None:
        check_there(validation)
    _check_output(request)

    cluster = ClusterSettings.from_options(request.typed)
    if request.test_labels and not request.test:
        raise EmbedxError("--test-labels needs --test")
    return cluster


def _check_output(request: ClassifyRequest) -> None:
    """Raise `EmbedxError` if the output folder is in use, or there and not to be overwritten."""
    folders: Iterable[Path]
    if request.output:
        folders = [request.output]
    else:
        # Where no objective is named, the same command writes to where it did before.
        command = run.command_line("classify", request)
        defaults = [run.default_output(name, request.train) for name in ("softmax", "ova")]
        folders = (folder for folder in defaults if _is_trained_by(command, folder))

    for folder in folders:
        check_output(folder, request.overwrite or request.resume)
        check_not_in_use(folder)


def _is_trained_by(command: str, folder: Path) -> bool:
    """Whether a folder has the model that a command trained."""
    return is_model(folder) and read_description(folder)["facts"].get("command") == command


@contextlib.contextmanager
def _connected(
    cluster: ClusterSettings, threads: int | None, progress: Progress
) -> "Iterator[Size | None]":
    """The size of the cluster, while this process is connected to it; None without a cluster."""
    if not cluster.is_asked_for:
        yield None
        return
    from embedx.distributed import ray_backend

    with ray_backend.connected(cluster, threads, progress) as size:
        yield size


def _resolve(
    request: ClassifyRequest, start: Classifier | None, training: Callable[[], Labeled]
) -> ResolvedRun:
    """The objective, the settings and the output folder of a run.

    training  reads the training rows, which is done only where no objective is named
    """
    options = request.typed
    name = request.objective
    if start is not None:
        options = settings_to_continue(start, name, options, str(request.start))
        name = start.objective.name
    objective, settings, options = given_settings(name, options, training)

    return ResolvedRun(
        options,
        objective,
        settings,
        samplers.own_options(options),
        start,
        request.output or run.default_output(objective.name, request.train),
    )


def _show_plan(
    request: ClassifyRequest,
    resolved: ResolvedRun,
    read_data: Callable[[], tuple[Labeled, Labeled | None]],
    progress: Progress,
) -> NoReturn:
    """Print what the run would be, and end the command."""
    check_output(resolved.folder, request.overwrite or request.resume)
    task = resolved.task(read_data()[0], progress)
    plan = task.allocate()
    run.show_plan(request, resolved.folder, used_settings(task), _size(task.data), plan)


def _resolved_command(request: ClassifyRequest, resolved: ResolvedRun) -> str:
    """The command that trains the same model, with the objective, folder and options in full."""
    return run.command_line(
        "classify",
        request,
        objective=resolved.objective.name,
        output=resolved.folder,
        typed=resolved.options,
    )


def _save(
    request: ClassifyRequest,
    trained: classification.TrainedClassifier,
    folder: Path,
    checkpoints: Checkpoints,
    overwrite: bool,
) -> Path:
    """The folder that the model was saved in, without its checkpoints."""
    model = trained.classifier
    model.facts["command"] = run.command_line("classify", request)
    return run.saved(
        lambda place: model.save(place, overwrite), folder, checkpoints, trained.outcome
    )


def used_settings(task: classification.Run) -> dict[str, Any]:
    """The settings of a run that have an effect."""
    idle = without_effect(task.settings, task.objective)
    if task.drawing.candidates in ("all", "path"):
        idle |= {"negatives", "replacement"}
    used = {name: value for name, value in task.record().items() if name not in idle}
    return {"objective": task.objective.name, **used}


def _size(data: Labeled) -> dict[str, int]:
    """The numbers of rows, features and labels, by name."""
    return {"rows": len(data), "features": data.n_features, "labels": data.n_labels}


def _note_data(progress: Progress, training: Labeled) -> None:
    """Log the size of the training data, and how many rows are not trained on."""
    text = training.schema.text
    if text is not None:
        changed = {
            name: value
            for name, value in text.settings.items()
            if value != getattr(TextFeatureSettings, name)
        }
        progress.note(
            f"text: {len(text.vocabulary):,} words and {len(text.hashes):,} n-grams,"
            f" {' '.join(as_arguments(changed))}"
        )

    if training.is_sparse:
        values = f"{training.features.nnz:,} non-zero"
    else:
        values = f"{training.features.size:,}"
    progress.note(
        f"{len(training):,} examples, {training.n_features:,} features, {values} values,"
        f" {training.n_labels:,} labels"
    )

    n_unlabelled = int((training.labels.n_of_row == 0).sum())
    if n_unlabelled:
        progress.note(
            f"{n_unlabelled:,} of {len(training):,} training rows have no label and are not"
            " trained on"
        )


def labelled_data(
    request: ClassifyRequest, progress: Progress, start: Classifier | None
) -> tuple[Labeled, Labeled | None]:
    """Training data, with the ids of the classifier to start from, and test data.

    `digits` are generated with test data of their own.
    """
    names = None if request.label_names is None else read_label_names(request.label_names)
    test = _test_source(request)
    training = _training_data(request, progress, start)
    if names is not None:
        training = with_names(training, names, str(request.label_names))

    if not test:
        return training, None
    return training, read(test, request.test_labels, progress=progress, like=training.schema)


def _test_source(request: ClassifyRequest) -> str | None:
    """The name of the test data. Raises `EmbedxError` if they are missing or do not apply."""
    if request.train == GENERATED:
        if request.train_labels or request.test:
            raise EmbedxError(
                f"{request.train}: generated with labels and test data; leave out --train-labels"
                " and --test"
            )
        return GENERATED
    if request.test is not None:
        check_there(request.test)
    return request.test


def _training_data(
    request: ClassifyRequest, progress: Progress, start: Classifier | None
) -> Labeled:
    """The training rows. Raises `EmbedxError` for settings of text where there is none to learn."""
    schema = None if start is None else start.known
    training = read_training(
        request.train,
        request.train_labels,
        progress=progress,
        text=TextFeatureSettings.from_options(request.typed),
        table=TableSettings.from_options(request.typed),
        like=schema,
    )
    learns_text = training.schema.text is not None and schema is None
    need: Text = "features that are words"
    if schema is not None:
        need = ("without ", Setting("start"))
    check_used(
        request.typed, ((name, learns_text, need) for name in settings_of(TextFeatureSettings))
    )
    return training


# ---- prediction


class LabelFilter(NamedTuple):
    """Which of the best labels of a row are printed."""

    top_k: int
    min_probability: float
    # Whether a threshold or a coverage was asked for.
    is_decision: bool


@dataclasses.dataclass
class PrintedCounts:
    """How much was printed."""

    rows: int = 0
    labels: int = 0
    empty_rows: int = 0


def predict(request: PredictRequest) -> None:
    """Print the best labels of each row, by name, with their probabilities."""
    cluster = ClusterSettings(request.cluster, request.workers)
    progress = reporter(request, is_alone=request.output is not None or not is_read_at_once())
    if request.coverage is not None and (request.search or request.threshold is not None):
        raise EmbedxError(
            "--coverage does not apply with --threshold or --search; leave out one of them"
        )
    model = classifier.load(request.model)
    _note_probabilities(model, progress)
    label_filter = _label_filter(request, model)
    if request.search and cluster.is_asked_for:
        raise EmbedxError("--search does not apply with --cluster; leave out one of them")

    best: Iterable[Best]
    row_ids = None
    if takes_lines(model, request.data) and not (request.search or cluster.is_asked_for):
        best = best_of_lines(model, label_filter.top_k, request.threads)
    else:
        data = _prediction_data(request, model, progress)
        best = _best_of_rows(data, model, request, label_filter.top_k, cluster, progress)
        row_ids = data.ids

    names = [model.name(label) for label in range(model.n_labels)]
    counts = _print_labels(best, names, label_filter, row_ids, request.as_json)
    if label_filter.is_decision and counts.rows:
        progress.note(
            f"labels of probability {label_filter.min_probability:.4g} and more:"
            f" {counts.labels / counts.rows:.2f} for each of {counts.rows:,} rows on average, none"
            f" for {counts.empty_rows:,}"
        )


def _label_filter(request: PredictRequest, model: Classifier) -> LabelFilter:
    """Which labels to print. Raises `EmbedxError` where the model allows no threshold."""
    is_decision = request.threshold is not None or request.coverage is not None
    if not is_decision:
        return LabelFilter(request.top_k or DEFAULT_TOP_K, 0.0, is_decision)
    return LabelFilter(
        request.top_k or model.max_labels(in_sets=request.coverage is not None),
        model.min_probability(request.threshold, request.coverage),
        is_decision,
    )


def _prediction_data(request: PredictRequest, model: Classifier, progress: Progress) -> Labeled:
    """The rows to predict, with the feature ids of the model."""
    table = TableSettings(request.text_column, None, request.id_column, header=request.header)
    return read(request.data, progress=progress, like=model.known, keeps_empty=True, table=table)


def _print_labels(
    best: Iterable[Best],
    names: list[str],
    label_filter: LabelFilter,
    row_ids: ndarray | None,
    as_json: bool,
) -> PrintedCounts:
    """Print the labels of each row, after its id if rows have ids; how many they were."""
    counts = PrintedCounts()
    for ids, probabilities in best:
        for row, row_probabilities in zip(ids.tolist(), probabilities.tolist(), strict=True):
            labels = [
                {"label": names[label], "probability": probability}
                for label, probability in zip(row, row_probabilities, strict=True)
                if probability >= label_filter.min_probability
            ]
            row_id = None if row_ids is None else row_ids[counts.rows]
            _print_row(labels, row_ids is not None, row_id, as_json)
            counts.rows += 1
            counts.labels += len(labels)
            counts.empty_rows += not labels
        # Who wrote the lines may wait for the answers.
        sys.stdout.flush()
    return counts


def _print_row(labels: list[Record], has_id: bool, row_id: object, as_json: bool) -> None:
    """Print one row: JSON, or its id, labels and probabilities separated by tabs."""
    if as_json:
        print(json.dumps({"id": row_id, "labels": labels} if has_id else labels, default=str))
        return
    cells = [" ".join(str(row_id).split())] if has_id else []
    for label in labels:
        cells += [label["label"], f"{label['probability']:.4g}"]
    print(*tab_separated([cells]))


def takes_lines(model: Classifier, data: str) -> bool:
    """Whether data are lines of text on standard input, which are answered as they come."""
    schema = model.known
    return data == STANDARD_INPUT and schema.text is not None and schema.columns is None


def best_of_lines(model: Classifier, top_k: int, threads: int | None = None) -> Iterator[Best]:
    """The best labels of the lines of standard input, of those that are there at a time."""
    text = model.known.text
    if text is not None:
        for lines in arriving_lines():
            yield from model.iter_top_k(features_of_lines(lines, text), top_k, threads=threads)


def _best_of_rows(
    data: Labeled,
    model: Classifier,
    request: PredictRequest,
    top_k: int,
    cluster: ClusterSettings,
    progress: Progress,
) -> Iterable[Best]:
    """The best labels of rows that were read: by a cluster's workers, an index, or all scores."""
    if cluster.is_asked_for:
        from embedx.distributed.predict import predict as predict_by_workers

        return predict_by_workers(cluster, model, data.features, top_k, request.threads, progress)
    if request.search:
        return model.searched_top_k(
            data.features, top_k, request.scored_fraction, progress, request.threads
        )
    return model.iter_top_k(data.features, top_k, progress, request.threads)


def _note_probabilities(model: Classifier, progress: Progress) -> None:
    """Log it if the scores of the objective are not log-probabilities."""
    if not model.has_probabilities:
        progress.note(
            f"{model.objective.name} has no probabilities of its own; those shown are a softmax of"
            " its scores"
        )


# ---- test data of a saved classifier


def test_metrics(
    path: str,
    test: str | None,
    test_labels: str | None,
    progress: Progress,
    per_label: Path | None,
    table: TableSettings,
    overwrite: bool,
) -> dict[str, float]:
    """The metrics of a saved classifier on test data, and of its decisions.

    per_label  file to write, with the metrics of each label
    """
    if per_label is not None:
        outputs.check_file(per_label, overwrite)
    model = classifier.load(path)
    if test is None:
        raise EmbedxError(f"{path}: a classifier; name its test data with --test")
    _note_probabilities(model, progress)
    data = read(test, test_labels, progress=progress, like=model.known, table=table)

    metrics = model.evaluate(data, progress=progress)
    has_several_labels = model.facts.get("several_labels")
    if per_label is None and has_several_labels and not model.has_probabilities:
        return metrics
    measures, counts = model.evaluate_decisions(data, progress=progress)
    if per_label is not None:
        names = [model.name(label) for label in range(model.n_labels)]
        rows = per_label_rows(names, model.counts, measures.get("threshold"), counts)
        atomic.write_text(per_label, csv_text(rows))
    return metrics | measures


# ---- comparison


def compare(request: CompareRequest) -> None:
    """Compare objectives on text or labelled data, and print the ranking."""
    from embedx.comparison import compare as comparison, tables
    from embedx.comparison.data import listed

    files = {name: getattr(request, name) for name in comparison.FILES}
    folder = request.output or Path(f"{run.stem_of(*request.data)}.compare")
    with reporter(request) as progress:
        ranked = comparison.compared(
            request.data,
            files,
            request.typed,
            listed(request.objectives),
            folder,
            resume=request.resume,
            overwrite=request.overwrite,
            progress=progress,
            command=["embedx", *sys.argv[1:]],
        )
    if request.as_json:
        print(json.dumps({"folder": str(ranked.folder), **tables.as_dict(ranked.ranking)}))
    else:
        print(tables.text(ranked.ranking))
        print(as_cell(str(ranked.folder / comparison.PAGE)))
    if ranked.interrupted:
        raise KeyboardInterrupt

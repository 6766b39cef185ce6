"""The work of the commands about classifiers, and of `embedx compare`: the library called, the
result printed.
"""

import contextlib
import dataclasses
import functools
import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from embedx import samplers
from embedx.classification import classifier, start, task as classification
from embedx.classification.classifier import Best
from embedx.classification.resolve import given_settings, without_effect
from embedx.classification.settings import ClassifySettings, share_of_rows
from embedx.cli import run
from embedx.cli.requests import ClassifyRequest, CompareRequest, PredictRequest
from embedx.cli.streams import is_read_at_once, reporter
from embedx.distributed.settings import ClusterSettings
from embedx.errors import EmbedxError
from embedx.evaluation.labels import per_label_rows
from embedx.labeled.data import Labeled
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import arriving_lines
from embedx.labeled.read import check_there, read, read_training, with_names
from embedx.labeled.schema import read_label_names
from embedx.labeled.tables import TableSettings
from embedx.labeled.words import TextFeatureSettings, features_of_lines
from embedx.pages.plain import as_cell, csv_text, tab_separated
from embedx.settings import as_arguments, check_used, settings_of
from embedx.storage import atomic, outputs
from embedx.storage.folder import check_output, is_model, read_description
from embedx.text.sources import STANDARD_INPUT
from embedx.training.checkpoint import check_not_in_use
from embedx.training.progress import Progress

# labels that `predict` prints for a row, unless a number, threshold or coverage is request
N_BEST = 5


def classify(request: ClassifyRequest) -> None:
    """Train a classifier and print what came of it."""
    with reporter(request) as progress:
        folder, trained, metrics = train_classifier(request, progress)
    found = trained.classifier
    if request.as_json:
        tested = None if metrics is None else run.plain_numbers(metrics)
        print(
            json.dumps(
                {"model": str(folder), **found.facts, "settings": found.settings, "test": tested}
            )
        )
        return
    words = [f"{found.n_labels:,} labels", *(["interrupted"] if found.facts["interrupted"] else [])]
    words += [run.loss_line(found.facts, "no example had a label")]
    if metrics:
        shown = (
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
        words += [f"{name} {metrics[name]:.4f}" for name in shown if name in metrics]
        words.append(f"{metrics['n']:,} labelled test rows")
    print(*tab_separated([[str(folder), ", ".join(words)]]))


def train_classifier(
    request: ClassifyRequest, progress: Progress
) -> tuple[Path, classification.TrainedClassifier, dict[str, float] | None]:
    """Train a classifier and write it; the metrics are those on the test data, if there are any."""
    typed, name, before = request.typed, request.objective, None
    # settings are checked before anything is read
    validation = ClassifySettings.from_options(typed).validation
    if validation is not None and share_of_rows(validation) is None:
        check_there(validation)
    folders = (
        [request.output]
        if request.output
        else [run.default_output(each, request.train) for each in ("softmax", "ova")]
    )
    # where no objective is named, the same command writes to where it did before
    for folder in folders:
        if folder == request.output or _is_by(run.command_line("classify", request), folder):
            check_output(folder, request.overwrite or request.resume)
            check_not_in_use(folder)
    cluster = ClusterSettings.from_options(typed)
    if request.test_labels and not request.test:
        raise EmbedxError("--test-labels needs --test")
    with contextlib.ExitStack() as opened:
        if cluster.is_asked_for:  # a missing cluster is reported before anything is read
            from embedx.distributed import labels, ray_backend

            size = opened.enter_context(
                ray_backend.connected(cluster, typed.get("threads"), progress)
            )
        if request.start is not None:
            before = classifier.load(request.start)
            typed, name = (
                start.settings_to_continue(before, name, typed, request.start),
                before.objective.name,
            )
        data = functools.cache(lambda: labelled_data(request, progress, before))
        objective, settings, typed = given_settings(name, typed, lambda: data()[0])
        own, folder = (
            samplers.own_options(typed),
            request.output or run.default_output(objective.name, request.train),
        )
        if request.dry_run:
            check_output(folder, request.overwrite or request.resume)
            task = classification.Run(data()[0], objective, settings, own, progress, before)
            plan = task.allocate()
            run.show_plan(request, folder, used_settings(task), _size_of(task.data), plan)
        checkpoints, overwrite = run.checkpoints_of("classify", request, folder, progress)
        opened.enter_context(checkpoints.at_work())
        progress.note(
            run.command_line(
                "classify", request, objective=objective.name, output=folder, typed=typed
            )
        )
        training, test = data()
        task = classification.Run(training, objective, settings, own, progress, before)
        if cluster.is_asked_for:
            labels.distribute(task, cluster, size)
        run.note_settings(progress, request.typed, used_settings(task) | cluster.record())
        _note_data(progress, training)
        trained = task.train(checkpoints=checkpoints)
        trained.classifier.facts["command"] = run.command_line("classify", request)
        place = run.saved(
            lambda place: trained.classifier.save(place, overwrite),
            folder,
            checkpoints,
            trained.outcome,
        )
        # frees the memory that only training needed, before testing
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


def _is_by(command: str, folder: Path) -> bool:
    """Whether a folder has the model that a command trained."""
    return is_model(folder) and read_description(folder)["facts"].get("command") == command


def used_settings(task: classification.Run) -> dict[str, Any]:
    """The settings of a run that have an effect."""
    idle = without_effect(task.settings, task.objective)
    if task.drawing.candidates in ("all", "path"):
        idle |= {"negatives", "replacement"}
    used = {name: value for name, value in task.record().items() if name not in idle}
    return {"objective": task.objective.name, **used}


def _size_of(data: Labeled) -> dict[str, int]:
    return {"rows": len(data), "features": data.n_features, "labels": data.n_labels}


def _note_data(progress: Progress, training: Labeled) -> None:
    if (text := training.schema.text) is not None:
        used = {
            name: value
            for name, value in text.settings.items()
            if value != getattr(TextFeatureSettings, name)
        }
        progress.note(
            f"text: {len(text.vocabulary):,} words and {len(text.hashes):,} n-grams,"
            f" {' '.join(as_arguments(used))}"
        )
    values = (
        f"{training.features.nnz:,} non-zero"
        if training.is_sparse
        else f"{training.features.size:,}"
    )
    progress.note(
        f"{len(training):,} examples, {training.n_features:,} features, {values} values,"
        f" {training.n_labels:,} labels"
    )
    if unlabelled := int((training.labels.n_of_row == 0).sum()):
        progress.note(
            f"{unlabelled:,} of {len(training):,} training rows have no label and are not"
            " trained on"
        )


def labelled_data(
    request: ClassifyRequest, progress: Progress, before: classifier.Classifier | None
) -> tuple[Labeled, Labeled | None]:
    """Training data, like those of the classifier before, and test data; `digits` are generated
    with test data of their own.
    """
    test = request.test
    names = None if request.label_names is None else read_label_names(request.label_names)
    if request.train == GENERATED:
        if request.train_labels or test:
            raise EmbedxError(
                f"{request.train}: generated with labels and test data; leave out --train-labels"
                " and --test"
            )
        test = GENERATED
    elif test is not None:
        check_there(test)
    typed = request.typed
    text, table = TextFeatureSettings.from_options(typed), TableSettings.from_options(typed)
    like = None if before is None else before.known
    training = read_training(
        request.train, request.train_labels, progress=progress, text=text, table=table, like=like
    )
    is_text, what = (
        training.schema.text is not None and like is None,
        "without --start" if like else "features that are words",
    )
    check_used(typed, ((name, is_text, what) for name in settings_of(TextFeatureSettings)))
    if names is not None:
        training = with_names(training, names, str(request.label_names))
    return training, (
        read(test, request.test_labels, progress=progress, like=training.schema) if test else None
    )


def predict(request: PredictRequest) -> None:
    """Print the best labels of each row, by name, with their probabilities."""
    cluster = ClusterSettings(request.cluster, request.workers)
    progress = reporter(request, is_alone=request.output is not None or not is_read_at_once())
    if request.coverage is not None and (request.search or request.threshold is not None):
        raise EmbedxError(
            "--coverage does not apply with --threshold or --search; leave out one of them"
        )
    found = classifier.load(request.model)
    _note_probabilities(found, progress)
    decides = request.threshold is not None or request.coverage is not None
    least = found.min_probability(request.threshold, request.coverage) if decides else 0.0
    top_k = request.top_k or (found.max_labels(request.coverage is not None) if decides else N_BEST)
    if request.search and cluster.is_asked_for:
        raise EmbedxError("--search does not apply with --cluster; leave out one of them")
    n_rows = n_decided = n_empty = 0
    best: Iterable[Best]
    ids_of_rows = None
    if takes_lines(found, request.data) and not (request.search or cluster.is_asked_for):
        best = best_of_lines(found, top_k, request.threads)
    else:
        table = TableSettings(request.text_column, None, request.id_column, header=request.header)
        data = read(
            request.data, progress=progress, like=found.known, keeps_empty=True, table=table
        )
        best = _best_of(data, found, request, top_k, cluster, progress)
        ids_of_rows = data.ids
    called = iter(ids_of_rows if ids_of_rows is not None else ())
    names = [found.name(k) for k in range(found.n_labels)]
    for ids, probabilities in best:
        for row, values in zip(ids.tolist(), probabilities.tolist(), strict=True):
            labels = [
                {"label": names[k], "probability": p}
                for k, p in zip(row, values, strict=True)
                if p >= least
            ]
            n_rows, n_decided, n_empty = n_rows + 1, n_decided + len(labels), n_empty + (not labels)
            if request.as_json:
                print(
                    json.dumps(
                        labels if ids_of_rows is None else {"id": next(called), "labels": labels},
                        default=str,
                    )
                )
            else:
                cells = [] if ids_of_rows is None else [" ".join(str(next(called)).split())]
                for label in labels:
                    cells += [label["label"], f"{label['probability']:.4g}"]
                print(*tab_separated([cells]))
        sys.stdout.flush()  # who wrote the lines may wait for the answers
    if decides and n_rows:
        progress.note(
            f"labels of probability {least:.4g} and more: {n_decided / n_rows:.2f} for each of"
            f" {n_rows:,} rows on average, none for {n_empty:,}"
        )


def takes_lines(found: classifier.Classifier, data: str) -> bool:
    """Whether data are lines of text on standard input, which are answered as they come."""
    known = found.known
    return data == STANDARD_INPUT and known.text is not None and known.columns is None


def best_of_lines(
    found: classifier.Classifier, top_k: int, threads: int | None = None
) -> Iterator[Best]:
    """The best labels of the lines of standard input, of those that are there at a time."""
    if found.known.text is not None:
        for lines in arriving_lines():
            yield from found.top_k(
                features_of_lines(lines, found.known.text), top_k, threads=threads
            )


def _best_of(
    data: Labeled,
    found: classifier.Classifier,
    request: PredictRequest,
    top_k: int,
    cluster: ClusterSettings,
    progress: Progress,
) -> Iterable[Best]:
    """The best labels of rows that were read: by a cluster's workers, an index, or all scores."""
    if cluster.is_asked_for:
        from embedx.distributed.predict import predict as by_workers

        return by_workers(cluster, found, data.features, top_k, request.threads, progress)
    if request.search:
        return found.searched_top_k(
            data.features, top_k, request.scored_fraction, progress, request.threads
        )
    return found.top_k(data.features, top_k, progress, request.threads)


def _note_probabilities(found: classifier.Classifier, progress: Progress) -> None:
    """Log it if the scores of the objective are not log-probabilities."""
    if not found.objective.calibrated and "calibration" not in found.arrays:
        progress.note(
            f"{found.objective.name} has no probabilities of its own; those shown are a softmax of"
            " its scores"
        )


def test_metrics(
    model: str,
    test: str | None,
    test_labels: str | None,
    progress: Progress,
    per_label: Path | None,
    table: TableSettings,
    overwrite: bool,
) -> dict[str, float]:
    """The metrics of a saved classifier on test data, and of its decisions; those of each label go
    to the file `per_label`.
    """
    if per_label is not None:
        outputs.check_file(per_label, overwrite)
    found = classifier.load(model)
    if test is None:
        raise EmbedxError(f"{model}: a classifier; name its test data with --test")
    _note_probabilities(found, progress)
    data = read(test, test_labels, progress=progress, like=found.known, table=table)
    metrics = found.evaluate(data, progress=progress)
    if per_label is None and found.facts.get("several_labels") and not found.has_probabilities:
        return metrics
    measures, counts = found.evaluate_decisions(data, progress=progress)
    if per_label is not None:
        names = [found.name(k) for k in range(found.n_labels)]
        atomic.write_text(
            per_label,
            csv_text(per_label_rows(names, found.counts, measures.get("threshold"), counts)),
        )
    return metrics | measures


def compare(request: CompareRequest) -> None:
    """Compare objectives on text or labelled data, and print the ranking."""
    from embedx.comparison import compare as comparison, tables
    from embedx.comparison.data import listed

    files = {name: getattr(request, name) for name in comparison.FILES}
    folder = request.output or Path(f"{run.stem_of(*request.data)}.compare")
    with reporter(request) as progress:
        found = comparison.compared(
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
        print(json.dumps({"folder": str(found.folder), **tables.as_dict(found.ranking)}))
    else:
        print(tables.text(found.ranking))
        print(as_cell(str(found.folder / comparison.PAGE)))
    if found.interrupted:
        raise KeyboardInterrupt

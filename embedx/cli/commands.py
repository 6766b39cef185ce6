"""What a command does between its options and the library: choose the settings, the objective, the data, the output folder."""

import contextlib
import dataclasses
import math
import os
import shlex
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedx import objectives, samplers
from embedx.distributed.settings import ClusterSettings, check_cluster_settings
from embedx.engine.settings import check_stopping
from embedx.errors import DivergedError, EmbedxError
from embedx.settings import (
    PhraseSettings,
    Settings,
    StartSettings,
    TextSettings,
    VocabularySettings,
    as_typed,
    check_phrase_settings,
    check_vocabulary_settings,
    option_name,
    seconds,
    settings_of,
)
from embedx.skipgram import collapsed
from embedx.skipgram import settings as streaming
from embedx.skipgram import task as skipgram
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.start import started
from embedx.storage.folder import check_output, task_of
from embedx.text.sources import COMPRESSED, STANDARD_INPUT, check_formats, recipe_defaults, resolve
from embedx.training.checkpoint import Checkpoints, Request
from embedx.training.interrupts import to_the_end
from embedx.training.progress import Progress
from embedx.training.trainer import Outcome
from embedx.vectors import formats

if TYPE_CHECKING:
    import numpy as np

    from embedx.classification import task as classification
    from embedx.classification.classifier import Classifier
    from embedx.classification.settings import ClassifySettings
    from embedx.cli.peers import Asked
    from embedx.comparison.compare import Comparison
    from embedx.evaluation.heldout import Likelihood, LikelihoodDifference
    from embedx.labeled.data import Labeled
    from embedx.labeled.schema import DataSchema
    from embedx.skipgram.corpus_report import CorpusReport
    from embedx.text.joined import Collocation


def request(command: str, arguments: dict[str, Any]) -> Request:
    """What a command was asked for, so that it can be asked for it again."""
    every = seconds(arguments["checkpoint_every"], "--checkpoint-every") or math.inf
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in arguments.items() if name != "resume"}
    return Request(command, plain, every, arguments["resume"])


def train(
    corpora: Sequence[str],
    objective_name: str | None,
    collapse: bool,
    typed: dict[str, Any],
    output: Path | None,
    overwrite: bool,
    cache_dir: Path | None,
    request: Request,
    progress: Progress,
) -> tuple[Path, skipgram.TrainedVectors]:
    """Train on `corpora` and write the model; the folder and what came of it.

    `collapse` them into counts of pairs to train on those, else their text is streamed.
    `typed` are the settings that the user gave; a recipe's come next, then the objective's own, then the defaults.
    """
    start = started(typed)
    objective_name = objective_name or (start.objective.name if start else "ns")
    found = objectives.find(objective_name)
    check_applies(typed, objective_name, (SkipGramSettings, TextSettings, VocabularySettings))
    check_stopping(typed)
    check_phrase_settings(typed)
    check_vocabulary_settings(typed)
    check_cluster_settings(typed)
    if start is not None:
        typed = start.with_defaults(typed)
    sources = resolve(corpora)  # a mistyped name is told before anything else is done
    folder = output or default_output(corpora, objective_name)
    if start is not None and folder.resolve() == start.path.resolve():
        raise EmbedxError(f"{folder}: the model of --start, which is kept; name another --output")
    if (named := formats.of_suffix(folder)) is not None and not formats.FORMATS[named].is_folder:
        model = folder.with_suffix(".embedx")
        raise EmbedxError(
            f"--output {folder}: the name of a file, but a model is a folder; train with --output {model}, then write the file "
            f"with: embedx export {model} {folder}"
        )
    checkpoints = Checkpoints(folder, request, overwrite, progress)
    overwrite = overwrite or checkpoints.resumes  # the model that an interrupted run left
    check_output(folder, overwrite)
    text = TextSettings.from_options(recipe_defaults(corpora) | typed)
    check_formats(sources, text)
    vocabulary = VocabularySettings.from_options(typed)
    phrases = PhraseSettings.from_options(typed)
    how: dict[str, Any] = {
        "text": text, "vocabulary": vocabulary, "phrases": phrases, "progress": progress, "cache_dir": cache_dir,
        "checkpoints": checkpoints,
    }  # fmt: skip
    of_text = (text, vocabulary, phrases, StartSettings.from_options(typed))
    cluster = ClusterSettings.from_options(typed)
    command = ["embedx", "train", *corpora, "--objective", objective_name]
    if collapse:
        if cluster.is_asked_for:
            raise EmbedxError("--cluster does not apply with --collapsed; leave out one of them")
        if start is not None:
            raise EmbedxError("--start does not apply with --collapsed; leave out one of them")
        settings, own, objective = collapsed.chosen(found, typed)
        progress.note(shlex.join([*command, "--collapsed", "--output", str(folder)]))
        _note_settings(progress, settings, own, objective.settings, *of_text)
        with checkpoints.ended():
            trained = collapsed.train(corpora, objective, settings, own, **how)
    else:
        collapsed.check_not_typed(typed)
        settings, objective = streaming.chosen(found, typed)
        own_options = samplers.own_options(typed)
        of_samplers = [each.settings for each in streaming.chosen_samplers(objective, settings, own_options) if each]
        progress.note(shlex.join([*command, "--output", str(folder)]))
        _note_settings(progress, settings, *of_samplers, objective.settings, *of_text, cluster)
        with checkpoints.ended():
            by: Callable[..., skipgram.TrainedVectors] = skipgram.train
            if cluster.is_asked_for:
                from embedx.distributed import words

                by = partial(words.train, cluster=cluster)
            trained = by(corpora, objective, settings, sampler_options=own_options, start=start, **how)
    saved = _save(lambda place: skipgram.save(trained.vectors, place, overwrite), folder, checkpoints)
    checkpoints.close(saved, is_over=trained.outcome.interrupted_by is None)
    _check_end(saved, trained.outcome)
    return saved, trained


def check_free(asked: "Asked") -> None:
    """Raise `EmbedxError`, before anything is trained, if a file that is to be written has no place."""
    from embedx.vectors import export

    for path in (asked.output, asked.save_vocab):
        if path is not None:
            export.check_free(path, asked.overwrite)


def write_vectors(asked: "Asked", progress: Progress) -> Iterator[Path]:
    """Write what word2vec.c would have written of a model that was trained; each path when its file is there."""
    from embedx.vectors import export
    from embedx.vectors.model import load_folder

    model = load_folder(asked.folder)
    yield export.export(model, asked.format, asked.output, asked.overwrite, progress)
    if asked.save_vocab is not None:
        yield export.export_vocabulary(model, asked.save_vocab, asked.overwrite)


def _save(save: Callable[[Path], Path], folder: Path, checkpoints: Checkpoints) -> Path:
    """Save a model, however often Ctrl-C is pressed; the folder.

    Raises `EmbedxError` if it cannot be written there. What was learned is then saved among the temporary files, where that can
    be done, which the error tells.
    """

    def attempt() -> Path:
        try:
            return save(folder)
        except EmbedxError as error:
            what, _, remedy = str(error).partition("; ")
            spare = Path(tempfile.mkdtemp(prefix="embedx-"))
            try:
                remedy = f"the model is in {save(spare / folder.name)} instead"
            except EmbedxError:
                spare.rmdir()
                remedy = checkpoints.way_on(folder) or remedy
            raise EmbedxError(f"{what}; {remedy}") from error

    return to_the_end(attempt)


def phrases(
    corpora: Sequence[str], typed: dict[str, Any], cache_dir: Path | None, progress: Progress
) -> list[tuple[int, "Collocation"]]:
    """The collocations of `corpora`, each after the number of the pass that found it, the highest score first."""
    from embedx.text.encode import encode
    from embedx.text.phrases import phrases_of

    text = TextSettings.from_options(recipe_defaults(corpora) | typed)
    with encode(corpora, text, progress, cache_dir, PhraseSettings.from_options({"phrases": 1, **typed})) as corpus:
        found = phrases_of(corpus)
    if found is None:
        raise EmbedxError("--phrases 0 finds none; give the number of passes")
    numbered = [(number, each) for number, one in enumerate(found.passes, 1) for each in one]
    return sorted(numbered, key=lambda each: (-each[1].score, -each[1].times, each[1].words))


def check_corpus(
    corpora: Sequence[str],
    objective_name: str,
    typed: dict[str, Any],
    output: Path | None,
    cache_dir: Path | None,
    progress: Progress,
) -> "CorpusReport":
    """What a corpus is like, and what `train` with the same arguments would take here."""
    from embedx.skipgram.corpus_report import check

    found = objectives.find(objective_name)
    check_applies(typed, objective_name, (SkipGramSettings, TextSettings, VocabularySettings))
    check_stopping(typed)
    collapsed.check_not_typed(typed)
    settings, objective = streaming.chosen(found, typed)
    return check(
        corpora,
        objective,
        settings,
        sampler_options=samplers.own_options(typed),
        text=TextSettings.from_options(recipe_defaults(corpora) | typed),
        vocabulary=VocabularySettings.from_options(typed),
        output=output or default_output(corpora, objective_name),
        cache_dir=cache_dir,
        progress=progress,
    )


def _check_end(saved: Path, outcome: Outcome) -> None:
    """Raise `DivergedError` if the run ended for that, and tell what was saved."""
    if outcome.diverged is not None:
        raise DivergedError(
            f"{outcome.diverged}; the model of {outcome.epochs:.3g} epoch{'' if outcome.epochs == 1 else 's'} is in {saved}"
        )


def classify(
    train_source: str,
    train_labels: str | None,
    test_source: str | None,
    test_labels: str | None,
    label_names: str | None,
    objective_name: str | None,
    typed: dict[str, Any],
    output: Path | None,
    overwrite: bool,
    request: Request,
    progress: Progress,
) -> tuple[Path, "classification.TrainedClassifier", dict[str, float] | None]:
    """Train a classifier and write it: the folder, what came of it, and the metrics on the test data if there are any.

    Without a name, the objective is the one that suits the data.
    """
    from embedx.classification import task as classification
    from embedx.classification.defaults import new_objective
    from embedx.classification.settings import ClassifySettings, check_given, share_of_rows
    from embedx.classification.weights import suited_objective
    from embedx.labeled.read import check_there

    validation_source = ClassifySettings.from_options(typed).validation  # settings are checked before anything is read
    if validation_source is not None and share_of_rows(validation_source) is None:
        check_there(validation_source)
    check_stopping(typed)
    check_cluster_settings(typed)
    if test_labels and not test_source:
        raise EmbedxError("--test-labels needs --test")
    cluster = ClusterSettings.from_options(typed)
    # A cluster that is not there is told before anything is read.
    with contextlib.ExitStack() as opened:
        by: Callable[..., classification.TrainedClassifier] = classification.train
        if cluster.is_asked_for:
            from embedx.distributed import labels, ray_backend

            size = opened.enter_context(ray_backend.connected(cluster, typed.get("threads"), progress))
            by = partial(labels.train, cluster=cluster, size=size)
        data = None
        if objective_name is None:
            data = labelled_data(train_source, train_labels, test_source, test_labels, label_names, progress)
            objective_name, suited = suited_objective(data[0], typed)
            typed = suited | typed
        found = objectives.find(objective_name)
        check_applies(typed, objective_name, (ClassifySettings,))
        folder = output or default_output([train_source], objective_name)
        checkpoints = Checkpoints(folder, request, overwrite, progress)
        overwrite = overwrite or checkpoints.resumes  # the model that an interrupted run left
        check_output(folder, overwrite)
        settings = ClassifySettings.from_options(typed)
        objective = new_objective(found, typed)
        check_given(typed, settings, objective)
        progress.note(shlex.join(["embedx", "classify", train_source, "--objective", objective_name, "--output", str(folder)]))
        training, test, known = data or labelled_data(
            train_source, train_labels, test_source, test_labels, label_names, progress
        )
        settings = classification.resolved(settings, objective, training)
        own_options = samplers.own_options(typed)
        drawing = next(each for each in reversed(classification.chosen_samplers(objective, settings, own_options)) if each)
        _note_settings(progress, settings, drawing.settings, objective.settings, cluster)
        kind = "non-zero values" if training.is_sparse else "values"
        n_values = training.features.nnz if training.is_sparse else training.features.size
        progress.note(
            f"{len(training):,} examples, {training.n_features:,} features, {n_values:,} {kind}, {training.n_labels:,} labels"
        )
        if unlabelled := int((training.labels.n_of_row == 0).sum()):
            progress.note(f"{unlabelled:,} of {len(training):,} training rows have no label and are not trained on")
        validation = validation_data(settings, known, progress)
        with checkpoints.ended():
            trained = by(
                training, objective, settings, sampler_options=own_options, known=known, validation=validation,
                progress=progress, n_tested=0 if test is None else len(test), checkpoints=checkpoints,
            )  # fmt: skip
        saved = _save(lambda place: trained.classifier.save(place, overwrite), folder, checkpoints)
        checkpoints.close(saved, is_over=trained.outcome.interrupted_by is None)
        _check_end(saved, trained.outcome)
        # Testing has the memory of what only training needed.
        trained = dataclasses.replace(trained, outcome=trained.outcome.without_state(), optimizer_state={})
        _note_probabilities(trained.classifier, progress)
        metrics = None
        if test is not None:
            metrics = trained.classifier.evaluate(test, progress=progress, threads=settings.threads)
        return saved, trained, metrics


def compare(
    data: Sequence[str],
    names: Sequence[str],
    typed: dict[str, Any],
    train_labels: str | None,
    test: str | None,
    test_labels: str | None,
    pairs: Sequence[Path],
    analogies: Path | None,
    output: Path | None,
    resume: bool,
    overwrite: bool,
    cache_dir: Path | None,
    command: Sequence[str],
    progress: Progress,
) -> "Comparison":
    """Compare objectives on text or labelled data: what came of it, and its folder."""
    from embedx.comparison import compare as comparison
    from embedx.comparison.settings import CompareSettings

    settings = CompareSettings.from_options(typed)
    handed_on = {name: value for name, value in typed.items() if name not in settings_of(CompareSettings)}
    found = comparison.data_of(
        data, handed_on, settings, train_labels=train_labels, test=test, test_labels=test_labels, pairs=pairs,
        analogies=analogies, cache_dir=cache_dir,
    )  # fmt: skip
    folder = output or Path(f"{stem_of(data[0])}.compare")
    return comparison.compare(
        found, names, settings, folder, resume=resume, overwrite=overwrite, progress=progress, command=command
    )


def report(model: str, typed: dict[str, Any], **arguments: Any) -> Path:
    """Write the page about a model: its file. `arguments` are those of `embedx.report.report.report`."""
    from embedx.report.report import report as page_of

    return page_of(model, **arguments, **typed)


def labelled_data(
    train: str,
    train_labels: str | None,
    test: str | None,
    test_labels: str | None,
    label_names: str | None,
    progress: Progress,
) -> tuple["Labeled", "Labeled | None", "DataSchema"]:
    """Training data, test data and what the latter are read like; `digits` are generated with test data of their own."""
    from embedx.labeled.digits import named
    from embedx.labeled.read import check_there, read, read_label_names, read_training, with_names
    from embedx.labeled.schema import DataSchema

    names = None if label_names is None else read_label_names(label_names)
    if pair := named(train):
        if train_labels or test:
            raise EmbedxError(f"{train}: is generated with labels and test data of its own")
        training, own_test = pair
        known = DataSchema(training.n_features, training.n_labels, training.names)
        if names is not None:
            training, known = with_names(training, known, names, str(label_names))
        return training, own_test, known
    if test is not None:
        check_there(test)
    training, known = read_training(train, train_labels, progress=progress)
    if names is not None:
        training, known = with_names(training, known, names, str(label_names))
    return training, read(test, test_labels, progress=progress, like=known) if test else None, known


def validation_data(settings: "ClassifySettings", known: "DataSchema", progress: Progress) -> "Labeled | None":
    """The file that `--validation` names; None where it names a share of the training rows, or nothing."""
    from embedx.classification.settings import share_of_rows
    from embedx.labeled.read import read

    if settings.validation is None or share_of_rows(settings.validation) is not None:
        return None
    return read(settings.validation, settings.validation_labels, progress=progress, like=known)


def predict(
    model: str,
    source: str,
    top_k: int,
    threads: int | None,
    search: float | None,
    cluster: ClusterSettings,
    progress: Progress,
) -> Iterator[list[tuple[str, float]]]:
    """For each row of `source` its `top_k` best labels, by name, with their probabilities; by `search`, if it is given, among
    that share of the labels; by workers, if a `cluster` is asked for.
    """
    from embedx.classification import classifier
    from embedx.labeled.read import read

    found = classifier.load(model)
    _note_probabilities(found, progress)
    data = read(source, progress=progress, like=found.known, keeps_empty=True)
    names = [found.name(k) for k in range(found.n_labels)]
    if search is not None and cluster.is_asked_for:
        raise EmbedxError("--search does not apply with --cluster; leave out one of them")
    if cluster.is_asked_for:
        from embedx.distributed.predict import predict as by_workers

        best: Iterable[tuple[np.ndarray, np.ndarray]] = by_workers(cluster, found, data.features, top_k, threads, progress)
    elif search is None:
        best = found.top_k(data.features, top_k, progress, threads)
    else:
        best = searched = found.searched_top_k(data.features, top_k, search, progress, threads)
        progress.note(
            f"{searched.search.n_scored:,} of {found.n_labels:,} labels are looked at for each row, which finds "
            f"{100 * searched.recall:.1f} % of the best {searched.k}; probabilities are among those"
        )
    for ids, probabilities in best:
        for row, values in zip(ids.tolist(), probabilities.tolist(), strict=True):
            yield [(names[k], value) for k, value in zip(row, values, strict=True)]


def test_classifier(model: str, test: str | None, test_labels: str | None, progress: Progress) -> dict[str, float]:
    """The metrics of a saved classifier on test data."""
    from embedx.classification import classifier
    from embedx.labeled.read import read

    found = classifier.load(model)
    if test is None:
        raise EmbedxError(f"{model}: a classifier; name its test data with --test")
    _note_probabilities(found, progress)
    return found.evaluate(read(test, test_labels, progress=progress, like=found.known), progress=progress)


def heldout(
    model: str, other: str | None, corpus: str, seed: int, progress: Progress
) -> tuple[list["Likelihood"], "LikelihoodDifference | None"]:
    """The likelihood of held-out text under one model, or under two, with the difference.

    The first model's settings say how the text is read and pairs are drawn.
    """
    from embedx.evaluation import heldout as evaluation
    from embedx.vectors.model import load_folder

    paths = [model] if other is None else [model, other]
    for path in paths:
        if task_of(path) != "skipgram":
            raise EmbedxError(f"{path}: no folder that `embedx train` wrote, which is what --heldout needs")
    models = [load_folder(Path(path)) for path in paths]
    for each in models:
        evaluation.trained_on(each)
        evaluation.check_same_words(models[0].words, each.words)
    pairs, calibration = evaluation.pairs_of(corpus, models[0], seed=seed, progress=progress)
    found = [evaluation.evaluate(each, pairs, calibration, progress) for each in models]
    return found, evaluation.compare(*found) if other is not None else None


def heldout_json(found: Sequence["Likelihood"], difference: "LikelihoodDifference | None") -> dict[str, Any]:
    """The metrics of one model, or those of `model` and `other` with the `difference`."""
    metrics = [plain_numbers(each.metrics()) for each in found]
    if difference is None:
        return metrics[0]
    return {"model": metrics[0], "other": metrics[1], "difference": plain_numbers(difference._asdict())}


def heldout_lines(found: Sequence["Likelihood"], difference: "LikelihoodDifference | None") -> list[str]:
    """A metric a line, for people; of two models side by side, then the difference."""
    columns = [metric_lines(each.metrics()) for each in found]
    lines = ["\t".join([cells[0], *(cell.split("\t")[1] for cell in cells[1:])]) for cells in zip(*columns, strict=True)]
    if difference is not None:
        lines += metric_lines({f"difference_{name}": value for name, value in difference._asdict().items()})
    return lines


def plain_numbers(metrics: dict[str, float]) -> dict[str, float | None]:
    """Metrics as JSON has them: what is not a number, or not finite, is null."""
    return {name: (value if math.isfinite(value) else None) for name, value in metrics.items()}


def metric_lines(metrics: dict[str, float]) -> list[str]:
    """A metric a line, for people."""
    return [f"{name}\t{value:,}" if isinstance(value, int) else f"{name}\t{value:.4f}" for name, value in metrics.items()]


def told_loss(facts: Mapping[str, Any]) -> str:
    """`loss 1.8336 nats per pair (before training 4.1589, by frequencies alone 3.2)`; "" if nothing was trained."""
    if facts["final_loss"] is None:
        return ""
    others = {"before training": "initial_loss", "by frequencies alone": "baseline_loss"}
    known = [f"{name} {facts[fact]:.4f}" for name, fact in others.items() if facts.get(fact) is not None]
    return f"loss {facts['final_loss']:.4f} {facts['loss_unit']}" + (f" ({', '.join(known)})" if known else "")


def _note_settings(progress: Progress, *groups: Settings) -> None:
    """Open the log with the settings as they will be used: those other than the defaults, or all if that is asked for."""
    used = dict(resolved(*groups))
    if used.get("time-budget"):
        del used["epochs"]
    defaults = {field.name.replace("_", "-"): field.default for group in groups for field in dataclasses.fields(group)}
    shown = {name: value for name, value in used.items() if progress.is_verbose or value != defaults.get(name)}
    if line := " ".join(f"{name}={as_typed(value)}" for name, value in shown.items() if value is not None):
        progress.note(line)


def _note_probabilities(found: "Classifier", progress: Progress) -> None:
    """Say so where probabilities are made of scores that were not trained to be their logarithms."""
    if not found.objective.calibrated and "calibration" not in found.arrays:
        progress.note(f"{found.objective.name} has no probabilities of its own; those shown are a softmax of its scores")


def check_applies(typed: dict[str, Any], objective_name: str, groups: Sequence[type[Settings]]) -> None:
    """Raise `EmbedxError` if a setting was typed that only other objectives take."""
    for name in typed:
        takers = [other for other, each in objectives.OBJECTIVES.items() if name in settings_of(each.Settings)]
        shared = any(name in settings_of(group) for group in groups)
        if takers and objective_name not in takers and not shared:
            raise EmbedxError(
                f"{option_name(name)} does not apply to --objective {objective_name}; taken by {', '.join(takers)}"
            )


def default_output(corpora: Sequence[str], objective_name: str) -> Path:
    """`corpus.ns.embedx` in the working folder for `…/corpus.txt.gz`, and for several corpora the name of the first."""
    return Path(f"{stem_of(corpora[0])}.{objective_name}.embedx")


def stem_of(corpus: str) -> str:
    """`corpus` for `…/corpus.txt.gz`."""
    if corpus == STANDARD_INPUT:
        return "stdin"
    path = Path(os.path.basename(corpus.rstrip("/")) or "corpus")
    if path.suffix in COMPRESSED:
        path = path.with_suffix("")
    stem = path.stem if path.suffix else path.name
    return stem.replace("*", "").strip(".-_@") or "corpus"


def resolved(*groups: Settings) -> list[tuple[str, Any]]:
    """All settings as they will be used, by the names the user knows, without those that the data may still change."""
    return [
        (name.replace("_", "-"), value) for group in groups for name, value in group.record().items() if name not in group.open
    ]

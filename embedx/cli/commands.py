"""The work of the commands: choose settings, objective, data and output folder, call the library, print the result."""

import contextlib
import dataclasses
import json
import math
import os
import shlex
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from embedx import objectives, samplers
from embedx.distributed.settings import ClusterSettings
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
from embedx.training.progress import Progress, Reporter
from embedx.training.trainer import Outcome
from embedx.vectors import formats

if TYPE_CHECKING:
    import numpy as np

    from embedx.classification import task as classification
    from embedx.classification.classifier import Classifier
    from embedx.cli.peers import Asked
    from embedx.evaluation.heldout import Likelihood, LikelihoodDifference
    from embedx.labeled.data import Labeled
    from embedx.labeled.schema import DataSchema
    from embedx.text.phrase_list import Collocation

WORDS = (SkipGramSettings, TextSettings, VocabularySettings)


# ---- what train and classify share


def reporter(given: SimpleNamespace) -> Reporter:
    """Progress on standard error, as the options of the command say."""
    options = vars(given)
    return Reporter(sys.stderr, options.get("log_json"), is_quiet=given.quiet, is_verbose=options.get("verbose", False))


def request(command: str, given: SimpleNamespace) -> Request:
    """The command as it was typed, for `embedx resume`."""
    every = seconds(given.checkpoint_every, "--checkpoint-every") or math.inf
    plain = {name: str(value) if isinstance(value, Path) else value for name, value in vars(given).items() if name != "resume"}
    return Request(command, plain, every, given.resume)


def checkpoints_of(command: str, given: SimpleNamespace, folder: Path, progress: Progress) -> tuple[Checkpoints, bool]:
    """The checkpoints of a run that writes its model to `folder`, and whether to overwrite that folder."""
    checkpoints = Checkpoints(folder, request(command, given), given.overwrite, progress)
    overwrite = given.overwrite or checkpoints.resumes  # the model that an interrupted run left
    check_output(folder, overwrite)
    return checkpoints, overwrite


def saved(save: Callable[[Path], Path], folder: Path, checkpoints: Checkpoints, outcome: Outcome) -> Path:
    """Save a model and remove its checkpoints. Raises `DivergedError` if the run ended for that."""
    place = _save(save, folder, checkpoints)
    checkpoints.close(place, is_over=outcome.interrupted_by is None)
    if outcome.diverged is not None:
        raise DivergedError(
            f"{outcome.diverged}; the model of {outcome.epochs:.3g} epoch{'' if outcome.epochs == 1 else 's'} is in {place}"
        )
    return place


def _save(save: Callable[[Path], Path], folder: Path, checkpoints: Checkpoints) -> Path:
    """Save a model, however often Ctrl-C is pressed.

    Raises `EmbedxError` if it cannot be written. It is then saved to a temporary folder, if possible, which the error names.
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
                remedy = checkpoints.how_to_resume(folder) or remedy
            raise EmbedxError(f"{what}; {remedy}") from error

    return to_the_end(attempt)


def check_applies(typed: Mapping[str, Any], objective_name: str, groups: Sequence[type[Settings]]) -> None:
    """Raise `EmbedxError` if a setting was typed that only other objectives have."""
    for name in typed:
        takers = [other for other, each in objectives.OBJECTIVES.items() if name in settings_of(each.Settings)]
        if takers and objective_name not in takers and not any(name in settings_of(group) for group in groups):
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


def _note_settings(progress: Progress, *groups: Settings) -> None:
    """Log the settings that differ from the defaults, or all with --verbose, except those that the data may still change."""
    used = {name: value for group in groups for name, value in group.record().items() if name not in group.open}
    if used.get("time_budget"):
        del used["epochs"]
    defaults = {field.name: field.default for group in groups for field in dataclasses.fields(group)}
    shown = {name: value for name, value in used.items() if progress.is_verbose or value != defaults.get(name)}
    if line := " ".join(f"{name.replace('_', '-')}={as_typed(v)}" for name, v in shown.items() if v is not None):
        progress.note(line)


def loss_line(facts: Mapping[str, Any], otherwise: str) -> str:
    """`loss 1.8336 nats per pair (before training 4.1589, by frequencies alone 3.2)`."""
    if facts["final_loss"] is None:
        return otherwise
    others = {"before training": "initial_loss", "by frequencies alone": "baseline_loss"}
    known = [f"{name} {facts[fact]:.4f}" for name, fact in others.items() if facts.get(fact) is not None]
    return f"loss {facts['final_loss']:.4f} {facts['loss_unit']}" + (f" ({', '.join(known)})" if known else "")


# ---- train


def train(given: SimpleNamespace) -> None:
    """Train word vectors and print what came of it."""
    with reporter(given) as progress:
        folder, trained = train_words(given, progress)
    facts = trained.vectors.facts
    if given.as_json:
        print(json.dumps({"model": str(folder), **facts, "settings": trained.vectors.settings}))
        return
    loss = loss_line(facts, "ended before the first iteration" if given.collapsed else "no pair was seen")
    if "heldout" in facts:
        loss += f", held-out log-likelihood {facts['heldout']['log_likelihood']:.4f}"
    speed = f"{facts['words_per_second']:,} words/s" if not given.collapsed else ""
    speed = speed or f"{facts['epochs']} iterations in {facts['seconds']:.0f} s"
    print(f"{folder}\t{facts['words']:,} words, {loss}, {speed}")


def train_words(given: SimpleNamespace, progress: Progress) -> tuple[Path, skipgram.TrainedVectors]:
    """Train on `given.corpora` and write the model.

    Settings that were typed have priority over those of a recipe, then come the objective's own, then the defaults.
    """
    typed, corpora = given.typed or {}, given.corpora
    start = started(typed)
    name = given.objective or (start.objective.name if start else "ns")
    found = objectives.find(name)
    check_applies(typed, name, WORDS)
    check_stopping(typed)
    check_phrase_settings(typed)
    check_vocabulary_settings(typed)
    cluster = ClusterSettings.from_options(typed)
    if start is not None:
        typed = start.with_defaults(typed)
    sources = resolve(corpora)  # reports a mistyped name before anything else is done
    folder = given.output or default_output(corpora, name)
    _check_folder(folder, start.path if start else None)
    checkpoints, overwrite = checkpoints_of("train", given, folder, progress)
    text = TextSettings.from_options(recipe_defaults(corpora) | typed)
    check_formats(sources, text)
    groups: list[Settings] = [text, VocabularySettings.from_options(typed), PhraseSettings.from_options(typed)]
    how: dict[str, Any] = dict(zip(("text", "vocabulary", "phrases"), groups, strict=True))
    how |= {"progress": progress, "cache_dir": given.cache_dir, "checkpoints": checkpoints}
    groups.append(StartSettings.from_options(typed))
    command = ["embedx", "train", *corpora, "--objective", name, *(["--collapsed"] if given.collapsed else [])]
    by: Callable[[], skipgram.TrainedVectors]
    if given.collapsed:
        for option, is_given in (("--cluster", cluster.is_asked_for), ("--start", start is not None)):
            if is_given:
                raise EmbedxError(f"{option} does not apply with --collapsed; leave out one of them")
        settings, own, objective = collapsed.chosen(found, typed)
        groups[:0] = [settings, own, objective.settings]
        by = partial(collapsed.train, corpora, objective, settings, own, **how)
    else:
        collapsed.check_not_typed(typed)
        settings, objective = streaming.chosen(found, typed)
        own_options = samplers.own_options(typed)
        of_samplers = [each.settings for each in streaming.chosen_samplers(objective, settings, own_options) if each]
        groups = [settings, *of_samplers, objective.settings, *groups, cluster]
        run: Callable[..., skipgram.TrainedVectors] = skipgram.train
        if cluster.is_asked_for:
            from embedx.distributed import words

            run = partial(words.train, cluster=cluster)
        by = partial(run, corpora, objective, settings, sampler_options=own_options, start=start, **how)
    progress.note(shlex.join([*command, "--output", str(folder)]))
    _note_settings(progress, *groups)
    with checkpoints.ended():
        trained = by()
    place = saved(lambda place: skipgram.save(trained.vectors, place, overwrite), folder, checkpoints, trained.outcome)
    return place, trained


def _check_folder(folder: Path, start: Path | None) -> None:
    """Raise `EmbedxError` for an output that is no folder of its own."""
    if start is not None and folder.resolve() == start.resolve():
        raise EmbedxError(f"{folder}: the model of --start, which is kept; name another --output")
    named = formats.of_suffix(folder)
    if named is not None and not formats.FORMATS[named].is_folder:
        model = folder.with_suffix(".embedx")
        raise EmbedxError(
            f"--output {folder}: the name of a file, but a model is a folder; train with --output {model}, then write the file "
            f"with: embedx export {model} {folder}"
        )


def check_vector_files(asked: "Asked") -> None:
    """Raise `EmbedxError`, before training, if a vector file cannot be written."""
    from embedx.vectors import export

    for path in filter(None, (asked.output, asked.save_vocab)):
        export.check_free(path, asked.overwrite)


def write_vector_files(asked: "Asked", progress: Progress) -> Iterator[Path]:
    """Write the files that word2vec.c would have written; their paths."""
    from embedx.vectors import export
    from embedx.vectors.model import load_folder

    model = load_folder(asked.folder)
    yield export.export(model, asked.format, asked.output, asked.overwrite, progress)
    if asked.save_vocab is not None:
        yield export.export_vocabulary(model, asked.save_vocab, asked.overwrite)


def phrases(given: SimpleNamespace) -> list[tuple[int, "Collocation"]]:
    """The collocations of corpora, each after the number of the pass that found it, the highest score first."""
    from embedx.text.encode import encode
    from embedx.text.phrases import phrases_of

    text = TextSettings.from_options(recipe_defaults(given.corpora) | given.typed)
    settings = PhraseSettings.from_options({"phrases": 1, **given.typed})
    with encode(given.corpora, text, reporter(given), given.cache_dir, settings) as corpus:
        found = phrases_of(corpus)
    if found is None:
        raise EmbedxError("--phrases 0 finds none; give the number of passes")
    numbered = [(number, each) for number, one in enumerate(found.passes, 1) for each in one]
    return sorted(numbered, key=lambda each: (-each[1].score, -each[1].times, each[1].words))


def check_corpus(given: SimpleNamespace) -> None:
    """Print what a corpus is like, and what `train` with the same arguments would take here."""
    from embedx.skipgram.corpus_report import check

    typed = given.typed
    check_applies(typed, given.objective, WORDS)
    check_stopping(typed)
    collapsed.check_not_typed(typed)
    settings, objective = streaming.chosen(objectives.find(given.objective), typed)
    found = check(
        given.corpora,
        objective,
        settings,
        sampler_options=samplers.own_options(typed),
        text=TextSettings.from_options(recipe_defaults(given.corpora) | typed),
        vocabulary=VocabularySettings.from_options(typed),
        output=given.output or default_output(given.corpora, given.objective),
        cache_dir=given.cache_dir,
        progress=reporter(given),
    )
    print(json.dumps(found.as_dict()) if given.as_json else found.table())


# ---- classify


def classify(given: SimpleNamespace) -> None:
    """Train a classifier and print what came of it."""
    with reporter(given) as progress:
        folder, trained, metrics = train_classifier(given, progress)
    found = trained.classifier
    if given.as_json:
        tested = None if metrics is None else plain_numbers(metrics)
        print(json.dumps({"model": str(folder), **found.facts, "settings": found.settings, "test": tested}))
        return
    shown = ("accuracy", "log_likelihood", "log_likelihood_tempered", "p@1", "p@3", "p@5")
    words = [f"{name} {metrics[name]:.4f}" for name in shown if name in metrics] if metrics else []
    words += [f"{metrics['n']:,} labelled test rows"] if metrics else []
    print(f"{folder}\t" + ", ".join([f"{found.n_labels:,} labels", loss_line(found.facts, "no example had a label"), *words]))


def train_classifier(
    given: SimpleNamespace, progress: Progress
) -> tuple[Path, "classification.TrainedClassifier", dict[str, float] | None]:
    """Train a classifier and write it; the metrics are those on the test data, if there are any."""
    from embedx.classification import resolve
    from embedx.classification import task as classification
    from embedx.classification.defaults import new_objective
    from embedx.classification.settings import ClassifySettings, check_given, share_of_rows
    from embedx.labeled.read import check_there, read

    typed, name = given.typed or {}, given.objective
    source = ClassifySettings.from_options(typed).validation  # settings are checked before anything is read
    validation_file = source if source is not None and share_of_rows(source) is None else None
    if validation_file is not None:
        check_there(validation_file)
    check_stopping(typed)
    cluster = ClusterSettings.from_options(typed)
    if given.test_labels and not given.test:
        raise EmbedxError("--test-labels needs --test")
    with contextlib.ExitStack() as opened:
        by: Callable[..., classification.TrainedClassifier] = classification.train
        if cluster.is_asked_for:  # a missing cluster is reported before anything is read
            from embedx.distributed import labels, ray_backend

            size = opened.enter_context(ray_backend.connected(cluster, typed.get("threads"), progress))
            by = partial(labels.train, cluster=cluster, size=size)
        data = None
        if name is None:
            data = labelled_data(given, progress)
            name, suited = resolve.suited_objective(data[0], typed)
            typed = suited | typed
        found = objectives.find(name)
        check_applies(typed, name, (ClassifySettings,))
        folder = given.output or default_output([given.train], name)
        checkpoints, overwrite = checkpoints_of("classify", given, folder, progress)
        settings = ClassifySettings.from_options(typed)
        objective = new_objective(found, typed)
        check_given(typed, settings, objective)
        progress.note(shlex.join(["embedx", "classify", given.train, "--objective", name, "--output", str(folder)]))
        training, test, known = data or labelled_data(given, progress)
        settings = resolve.resolved(settings, objective, training)
        own_options = samplers.own_options(typed)
        drawing = next(each for each in reversed(resolve.chosen_samplers(objective, settings, own_options)) if each)
        _note_settings(progress, settings, drawing.settings, objective.settings, cluster)
        _note_data(progress, training)
        validation = None
        if validation_file is not None:
            validation = read(validation_file, settings.validation_labels, progress=progress, like=known)
        with checkpoints.ended():
            trained = by(
                training, objective, settings, sampler_options=own_options, known=known, validation=validation,
                progress=progress, checkpoints=checkpoints,
            )  # fmt: skip
        place = saved(lambda place: trained.classifier.save(place, overwrite), folder, checkpoints, trained.outcome)
        # frees the memory that only training needed, before testing
        trained = dataclasses.replace(trained, outcome=trained.outcome.without_state(), optimizer_state={})
        _note_probabilities(trained.classifier, progress)
        metrics = None
        if test is not None:
            metrics = trained.classifier.evaluate(test, progress=progress, threads=settings.threads)
        return place, trained, metrics


def _note_data(progress: Progress, training: "Labeled") -> None:
    n_values = training.features.nnz if training.is_sparse else training.features.size
    kind = "non-zero values" if training.is_sparse else "values"
    progress.note(
        f"{len(training):,} examples, {training.n_features:,} features, {n_values:,} {kind}, {training.n_labels:,} labels"
    )
    if unlabelled := int((training.labels.n_of_row == 0).sum()):
        progress.note(f"{unlabelled:,} of {len(training):,} training rows have no label and are not trained on")


def labelled_data(given: SimpleNamespace, progress: Progress) -> tuple["Labeled", "Labeled | None", "DataSchema"]:
    """Training data, test data and their schema; `digits` are generated with test data of their own."""
    from embedx.labeled.digits import GENERATED
    from embedx.labeled.read import check_there, read, read_label_names, read_training, with_names

    test = given.test
    names = None if given.label_names is None else read_label_names(given.label_names)
    if given.train == GENERATED:
        if given.train_labels or test:
            raise EmbedxError(f"{given.train}: is generated with labels and test data of its own")
        test = GENERATED
    elif test is not None:
        check_there(test)
    training, known = read_training(given.train, given.train_labels, progress=progress)
    if names is not None:
        training, known = with_names(training, known, names, str(given.label_names))
    return training, read(test, given.test_labels, progress=progress, like=known) if test else None, known


def compare(given: SimpleNamespace) -> None:
    """Compare objectives on text or labelled data, and print the ranking."""
    from embedx.comparison import compare as comparison
    from embedx.comparison import tables
    from embedx.comparison.settings import CompareSettings

    settings = CompareSettings.from_options(given.typed)
    passed = {name: value for name, value in given.typed.items() if name not in settings_of(CompareSettings)}
    data = comparison.data_of(
        given.data, passed, settings, train_labels=given.train_labels, test=given.test, test_labels=given.test_labels,
        pairs=given.pairs or [], analogies=given.analogies, cache_dir=given.cache_dir,
    )  # fmt: skip
    names = [name.strip() for name in given.objectives.split(",") if name.strip()]
    folder = given.output or Path(f"{stem_of(given.data[0])}.compare")
    with reporter(given) as progress:
        found = comparison.compare(
            data, names, settings, folder, resume=given.resume, overwrite=given.overwrite, progress=progress,
            command=["embedx", *sys.argv[1:]],
        )  # fmt: skip
    if given.as_json:
        print(json.dumps({"folder": str(found.folder), **tables.as_dict(found.ranking)}))
    else:
        print(tables.text(found.ranking))
        print(found.folder / comparison.PAGE)
    if found.interrupted:
        raise KeyboardInterrupt


# ---- trained models


def predict(
    model: str, source: str, top_k: int, threads: int | None, scored: float | None, cluster: ClusterSettings, progress: Progress
) -> Iterator[list[tuple[str, float]]]:
    """The `top_k` best labels of each row of `source`, by name, with their probabilities.

    scored  the fraction of the labels that is scored, found by an index; None: all
    """
    from embedx.classification import classifier
    from embedx.labeled.read import read

    found = classifier.load(model)
    _note_probabilities(found, progress)
    data = read(source, progress=progress, like=found.known, keeps_empty=True)
    names = [found.name(k) for k in range(found.n_labels)]
    if scored is not None and cluster.is_asked_for:
        raise EmbedxError("--search does not apply with --cluster; leave out one of them")
    if cluster.is_asked_for:
        from embedx.distributed.predict import predict as by_workers

        best: Iterable[tuple[np.ndarray, np.ndarray]] = by_workers(cluster, found, data.features, top_k, threads, progress)
    elif scored is None:
        best = found.top_k(data.features, top_k, progress, threads)
    else:
        best = searched = found.searched_top_k(data.features, top_k, scored, progress, threads)
        progress.note(
            f"{searched.search.n_scored:,} of {found.n_labels:,} labels are scored for each row, which finds "
            f"{100 * searched.recall:.1f} % of the best {searched.k}; probabilities are among those"
        )
    for ids, probabilities in best:
        for row, values in zip(ids.tolist(), probabilities.tolist(), strict=True):
            yield [(names[k], value) for k, value in zip(row, values, strict=True)]


def _note_probabilities(found: "Classifier", progress: Progress) -> None:
    """Log it if the scores of the objective are not log-probabilities."""
    if not found.objective.calibrated and "calibration" not in found.arrays:
        progress.note(f"{found.objective.name} has no probabilities of its own; those shown are a softmax of its scores")


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
    """The likelihood of held-out text under one model, or under two, with the difference. The text is read, and pairs are
    drawn, by the settings of the first.
    """
    from embedx.evaluation import heldout as evaluation
    from embedx.vectors.model import load_folder

    paths = [model] if other is None else [model, other]
    for path in paths:
        if task_of(path) != "skipgram":
            raise EmbedxError(f"{path}: not a folder written by `embedx train`, which --heldout needs")
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
    """One metric per line, two models side by side, then the difference."""
    columns = [metric_lines(each.metrics()) for each in found]
    lines = ["\t".join([cells[0], *(cell.split("\t")[1] for cell in cells[1:])]) for cells in zip(*columns, strict=True)]
    if difference is not None:
        lines += metric_lines({f"difference_{name}": value for name, value in difference._asdict().items()})
    return lines


def plain_numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics for JSON: null where a number is not finite."""
    return {name: (value if math.isfinite(value) else None) for name, value in metrics.items()}


def metric_lines(metrics: Mapping[str, float]) -> list[str]:
    """One metric per line."""
    return [f"{name}\t{value:,}" if isinstance(value, int) else f"{name}\t{value:.4f}" for name, value in metrics.items()]

"""The work of the commands about text and word vectors: settings chosen, the library called, the
result printed.
"""

import json
from functools import partial
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.cli import run
from embedx.cli.requests import TrainRequest
from embedx.cli.streams import reporter
from embedx.distributed.settings import ClusterSettings
from embedx.engine.settings import check_stopping
from embedx.errors import EmbedxError
from embedx.evaluation import heldout
from embedx.pages.plain import tab_separated
from embedx.runtime.atomic import followed
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.skipgram import collapsed, task as skipgram
from embedx.skipgram.configuration import Configuration, configure
from embedx.skipgram.corpus_report import check, table
from embedx.storage.folder import check_output, task_of
from embedx.text.encode import encode
from embedx.text.phrase_list import Collocation
from embedx.text.phrases import phrases_of
from embedx.text.settings import PhraseSettings, TextSettings
from embedx.text.sources import check_formats, resolve, text_defaults
from embedx.vectors import formats
from embedx.vectors.model import load_folder

# Chosen by the size of the text, unless they are request.
OPEN_UNTIL_COUNTED = ("optimizer", "learning_rate")


def train(request: TrainRequest) -> None:
    """Train word vectors and print what came of it."""
    with reporter(request) as progress:
        if request.dry_run:
            _show_plan(request, progress)
        folder, trained = train_words(request, progress)
    facts = trained.vectors.facts
    if request.as_json:
        print(json.dumps({"model": str(folder), **facts, "settings": trained.vectors.settings}))
        return
    loss = run.loss_line(
        facts, "ended before the first iteration" if request.collapsed else "no pair was seen"
    )
    if "heldout" in facts:
        loss += f", held-out log-likelihood {facts['heldout']['log_likelihood']:.4f}"
    of_collapsed = f"{facts['epochs']} iterations in {facts['seconds']:.0f} s"
    speed = of_collapsed if request.collapsed else f"{facts['words_per_second']:,} words/s"
    print(*tab_separated([[str(folder), f"{facts['words']:,} words, {loss}, {speed}"]]))


def train_words(request: TrainRequest, progress: Progress) -> tuple[Path, skipgram.TrainedVectors]:
    """Train on `request.corpora` and write the model.

    Settings that were typed have priority over those of a recipe, then come the objective's own,
    then the defaults.
    """
    typed, corpora = request.typed, request.corpora
    config, cluster, folder = _decided(request)
    checkpoints, overwrite = run.checkpoints_of("train", request, folder, progress)
    trainer = collapsed.train if request.collapsed else skipgram.train
    if cluster.is_asked_for:
        from embedx.distributed import words

        trainer = partial(words.train, cluster=cluster)
    command = run.command_line("train", request, objective=config.objective.name, output=folder)
    settings = config.record()
    if config.is_sized_by_text:
        settings = {name: v for name, v in settings.items() if name not in OPEN_UNTIL_COUNTED}
    with checkpoints.at_work():
        progress.note(command)
        decided = text_defaults(corpora, typed) | typed
        run.note_settings(progress, decided, settings | cluster.record())
        trained = trainer(
            corpora, config, progress=progress, cache_dir=request.cache_dir, checkpoints=checkpoints
        )
        trained.vectors.facts["command"] = run.command_line("train", request)
        place = run.saved(
            lambda place: trained.vectors.save(place, overwrite),
            folder,
            checkpoints,
            trained.outcome,
        )
    return place, trained


def _show_plan(request: TrainRequest, progress: Progress) -> None:
    """Read the text, which a run then finds encoded, and print what that run would be."""
    config, _, folder = _decided(request)
    check_output(folder, request.overwrite or request.resume)
    with skipgram.encoded_corpus(request.corpora, config, progress, request.cache_dir) as corpus:
        task = skipgram.prepared(corpus, config, progress)
        size = {"tokens": corpus.n_tokens, "words": len(task.words)}
        plan = collapsed.memory_plan(task) if request.collapsed else task.memory_plan()
        settings = {"objective": config.objective.name, **task.config.record()}
        run.show_plan(request, folder, settings, size, plan, task.on_disk())


def _decided(request: TrainRequest) -> tuple[Configuration, ClusterSettings, Path]:
    """What is decided before the text is read: configuration, cluster and output folder."""
    typed, corpora = request.typed, request.corpora
    check_stopping(typed)
    sources = resolve(corpora)  # reports a mistyped name before anything else is done
    config = configure(
        request.objective,
        typed,
        is_collapsed=request.collapsed,
        defaults=text_defaults(corpora, typed),
    )
    name, cluster = config.objective.name, ClusterSettings.from_options(typed)
    objectives.check_applies(typed, name)
    for mode, is_asked_for in (
        ("--collapsed", request.collapsed),
        ("--walks", config.graph is not None),
    ):
        if is_asked_for and cluster.is_asked_for:
            raise EmbedxError(f"--cluster does not apply with {mode}; leave out one of them")
    folder = request.output or run.default_output(name, *corpora)
    _check_folder(folder, config.start.path if config.start else None)
    check_formats(sources, config.text)
    return config, cluster, folder


def _check_folder(folder: Path, start: Path | None) -> None:
    """Raise `EmbedxError` for an output that is no folder of its own."""
    if start is not None and followed(folder) == followed(start):
        raise EmbedxError(f"{folder}: the model of --start, which is kept; name another --output")
    named = formats.of_suffix(folder)
    if named is not None and not formats.FORMATS[named].is_folder:
        model = folder.with_suffix(".embedx")
        raise EmbedxError(
            f"--output {folder}: the name of a file, but a model is a folder; train with --output"
            f" {model}, then write the file with: embedx export {model} {folder}"
        )


def phrases(
    corpora: list[str], typed: Record, cache_dir: Path | None, progress: Progress
) -> list[tuple[int, Collocation]]:
    """The collocations of corpora, each after the number of the pass that found it, the highest
    score first.
    """
    text = TextSettings.from_options(text_defaults(corpora, typed) | typed)
    settings = PhraseSettings.from_options({"phrases": 1, **typed})
    with encode(corpora, text, progress, cache_dir, settings) as corpus:
        found = phrases_of(corpus)
    if found is None:
        raise EmbedxError("--phrases 0 finds none; give the number of passes")
    numbered = [(number, each) for number, one in enumerate(found.passes, 1) for each in one]
    return sorted(numbered, key=lambda each: (-each[1].score, -each[1].times, each[1].words))


def check_corpus(request: TrainRequest) -> None:
    """Print what a corpus is like, and what `train` with the same arguments would take here."""
    config, _, output = _decided(request)
    found = check(
        request.corpora,
        config,
        output=output,
        cache_dir=request.cache_dir,
        progress=reporter(request),
    )
    print(json.dumps(found) if request.as_json else table(found))


def score_text(
    models: list[str], corpus: str, seed: int, progress: Progress
) -> tuple[dict[str, Any], list[str]]:
    """The likelihood of a text under models, of two with the difference, for JSON and as lines.

    The text is read, and pairs are drawn, by the settings of the first model.
    """
    for path in models:
        if task_of(path) != "skipgram":
            raise EmbedxError(f"{path}: not a folder written by `embedx train`, which --text needs")
    loaded = [load_folder(Path(path)) for path in models]
    for each in loaded:
        heldout.trained_on(each)
        heldout.check_same_words(loaded[0].words, each.words)
    pairs, calibration = heldout.pairs_of(corpus, loaded[0], seed=seed, progress=progress)
    found = [heldout.evaluate(each, pairs, calibration, progress) for each in loaded]
    names, metrics = list(models), [each.metrics() for each in found]
    if len(found) == 2:
        gain = heldout.compare(*found)
        names, difference = (
            ["model", "other", "difference"],
            {"log_likelihood": gain.value, "standard_error": gain.error},
        )
        metrics.append(difference)
    numbers, lines = [*map(run.plain_numbers, metrics)], run.metric_lines(*metrics)
    if len(found) == 1:
        return numbers[0], lines
    return dict(zip(names, numbers, strict=True)), [*tab_separated([["metric", *names]]), *lines]

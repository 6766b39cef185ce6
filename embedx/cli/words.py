"""The work of the commands about text and word vectors: the library called, the result printed."""

import json
from pathlib import Path

from embedx.cli import training_results as results
from embedx.cli.streams import reporter
from embedx.errors import SettingError
from embedx.pages.plain import tab_separated
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.skipgram.corpus_report import check, table
from embedx.tasks.requests import TrainRequest
from embedx.tasks.run import plan_request, run_request
from embedx.tasks.words import WordTask
from embedx.text.encode import encode
from embedx.text.phrase_list import Collocation
from embedx.text.phrases import phrases_of
from embedx.text.settings import PhraseSettings, TextSettings, noun_of
from embedx.text.sources import text_defaults


def train(request: TrainRequest) -> None:
    """Train word vectors and print the folder of the model with its size, loss and speed."""
    with reporter(request) as progress:
        if request.dry_run:
            results.show_plan(request, plan_request(request, progress))
            return
        finished = run_request(request, progress)
        stages = progress.stages()
    model = finished.model
    facts = model.facts
    if request.as_json:
        record = {
            "model": str(finished.output),
            **facts,
            "settings": model.settings,
            "stages": [stage._asdict() for stage in stages],
        }
        if finished.metrics is not None:
            record["scores"] = finished.metrics
        print(json.dumps(record))
        return
    otherwise = "ended before the first iteration" if request.collapsed else "no pair was seen"
    nouns = f"{noun_of(model.settings)}s"
    parts = [f"{facts['words']:,} {nouns}", results.loss_line(facts, otherwise)]
    if "heldout" in facts:
        parts.append(f"held-out log-likelihood {facts['heldout']['log_likelihood']:.4f}")
    if request.collapsed:
        parts.append(f"{facts['epochs']} iterations in {facts['seconds']:.0f} s")
    else:
        parts.append(f"{facts['words_per_second']:,} {nouns}/s")
    print(*tab_separated([[str(finished.output), ", ".join(parts)]]))


def phrases(
    corpora: list[str], typed: Record, cache_dir: Path | None, progress: Progress
) -> list[tuple[int, Collocation]]:
    """The collocations of corpora, each after the number of its pass, the highest
    score first.
    """
    text = TextSettings.from_options(text_defaults(corpora, typed) | typed)
    settings = PhraseSettings.from_options({"phrases": 1, **typed})
    with encode(corpora, text, progress, cache_dir, settings) as corpus:
        phrases_of_corpus = phrases_of(corpus)
    if phrases_of_corpus is None:
        raise SettingError("phrases", 0, "finds none", "give the number of passes")
    numbered = [
        (number, collocation)
        for number, collocations in enumerate(phrases_of_corpus.passes, 1)
        for collocation in collocations
    ]

    def highest_score_first(item: tuple[int, Collocation]) -> tuple[float, int, tuple[str, ...]]:
        _, collocation = item
        return -collocation.score, -collocation.times, collocation.words

    return sorted(numbered, key=highest_score_first)


def check_corpus(request: TrainRequest) -> None:
    """Print what a corpus is like, and what `train` with the same arguments would take here."""
    progress = reporter(request)
    task = WordTask(request, progress)
    task.check_place()
    findings = check(
        request.corpora,
        task.config,
        output=task.output,
        cache_dir=request.cache_dir,
        progress=progress,
    )
    print(json.dumps(findings) if request.as_json else table(findings))

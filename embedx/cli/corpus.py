"""The work of `embedx phrases` and `embedx corpus check`."""

import json
from pathlib import Path

from embedx.cli.streams import request_progress
from embedx.errors import SettingError
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.skipgram.corpus_report import check, table
from embedx.tasks.requests import TrainRequest
from embedx.tasks.words import WordTask
from embedx.text.encode import encode
from embedx.text.phrase_list import Collocation
from embedx.text.phrases import phrases_of
from embedx.text.settings import PhraseSettings, TextSettings
from embedx.text.sources import text_defaults


def phrases(
    corpora: list[str], options: Record, cache_dir: Path | None, progress: Progress
) -> list[tuple[int, Collocation]]:
    """The collocations of corpora, each after the number of its pass, the highest
    score first.
    """
    text = TextSettings.from_options(text_defaults(corpora, options) | options)
    joining = PhraseSettings.from_options({"phrases": 1, **options})
    with encode(corpora, text, progress, cache_dir, joining) as corpus:
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
    """Print what a corpus is like, and what `train` with the same arguments would take here; raise
    its error where it would not train.
    """
    progress = request_progress(request)
    task = WordTask(request, progress)
    task.check_place()
    findings, error = check(
        request.corpora,
        task.config,
        output=task.output,
        cache_dir=request.cache_dir,
        progress=progress,
    )
    print(json.dumps(findings) if request.as_json else table(findings))
    if error is not None:
        raise error

"""The task of `embedx train`: word vectors of text, or of walks over a graph."""

import dataclasses
import math
from contextlib import AbstractContextManager
from pathlib import Path

from embedx.distributed.settings import ClusterSettings
from embedx.errors import DataError, Setting, SettingError
from embedx.evaluation.word_report import shown
from embedx.evaluation.word_sets import WordTests
from embedx.evaluation.words import POOLED, evaluate
from embedx.runtime.atomic import followed
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.skipgram.collapsed import CollapsedRun
from embedx.skipgram.configuration import configure
from embedx.skipgram.final_checks import TRAIN_LESS
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.run import TrainedWordVectors, WordVectorsRun
from embedx.skipgram.settings import SkipGramSettings
from embedx.tasks.output import command_line, default_output
from embedx.tasks.requests import TrainRequest
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.settings import TextSettings
from embedx.text.sources import check_formats, find_sources, text_defaults
from embedx.training.strategy import Wrap
from embedx.vectors import formats
from embedx.vectors.model import WordVectors


class WordTask:
    """Word vectors, as a request asks for them. `embedx.skipgram.layers` has the order of defaults.

    Raises `EmbedxError` for what is known to be wrong before the text is read.
    """

    def __init__(self, request: TrainRequest, progress: Progress) -> None:
        self.request = request
        self.progress = progress
        # A mistyped name is reported before anything else is done.
        sources = find_sources(request.corpora)
        defaults = text_defaults(request.corpora, request.options)
        self.options: Record = defaults | request.options
        self.config = configure(
            request.objective, request.options, is_collapsed=request.collapsed, defaults=defaults
        )
        self.objective = self.config.objective.name
        self.cluster = ClusterSettings.from_options(request.options)
        if self.cluster.is_asked_for:
            from embedx.distributed.refusals import check_word_vectors

            check_word_vectors(self.config)
        check_formats(sources, self.config.text)

    @property
    def output(self) -> Path:
        """The folder of the model."""
        return self.request.output or default_output(self.objective, *self.request.corpora)

    def check_place(self) -> None:
        """Raise `EmbedxError` for an output that is a file, or the model to start from."""
        folder = self.output
        start = None if self.config.start is None else self.config.start.path
        if start is not None and followed(folder) == followed(Path(start)):
            kept = ("the model of ", Setting("start"), ", which is kept")
            raise DataError(folder, None, kept, ("name another ", Setting("output")))
        name = formats.of_suffix(folder)
        if name is not None and not formats.FORMATS[name].is_folder:
            model = folder.with_suffix(".embedx")
            write = f", then write the file with: embedx export {model} {folder}"
            remedy = ("train with ", Setting("output", str(model)), write)
            problem = "the name of a file, but a model is a folder"
            raise SettingError("output", str(folder), problem, remedy)

    def command(self) -> str:
        """The command that trains the same model, with objective and output."""
        return command_line(self.request, objective=self.objective, output=self.output)

    @property
    def inherited(self) -> Record:
        """Settings of the model of --start, where they are not given and not the defaults."""
        defaults = TextSettings().record() | SkipGramSettings().record()
        return {
            name: value
            for name, value in self.config.inherited.items()
            if value != defaults.get(name)
        }

    def read(self) -> AbstractContextManager[EncodedCorpus]:
        """The text as token ids, or walks over the graph."""
        request = self.request
        return read_corpora(request.corpora, self.config, self.progress, request.cache_dir)

    def resolved_run(self, data: EncodedCorpus, wrap: Wrap | None = None) -> WordVectorsRun:
        """The run on the text."""
        config = self.config
        if config.collapsed is not None:
            collapsed = CollapsedRun.resolved(data, config, self.progress)
            collapsed.cache_dir = self.request.cache_dir
            return collapsed
        if wrap is not None:  # the threads are those of the workers
            config = dataclasses.replace(
                config, settings=dataclasses.replace(config.settings, threads=1)
            )
        run = WordVectorsRun.resolved(data, config, self.progress)
        run.wrap = wrap
        return run

    def scores(self, trained: TrainedWordVectors) -> dict[str, float] | None:
        """Where training continued from a model, the scores of both on similarity and analogies;
        else None, for held-out text is scored with the model in memory.
        """
        start = self.config.start
        if start is None or self.config.graph is not None or trained.outcome.interrupted_by:
            return None
        return report_scores(trained.model, start.model, self.progress)


def report_scores(
    new: WordVectors,
    former: WordVectors,
    progress: Progress,
    tests: WordTests | None = None,
) -> dict[str, float] | None:
    """The scores of a model and of the one that it continued from, which are reported; None where
    the words of both are too few, or there are no test sets.

    tests  by default the packaged ones: there are none for items, and none without gensim
    """
    try:
        report = evaluate([new], [former], tests)
    except DataError:
        return None
    scores: dict[str, float] = {}
    for difference in report.differences:
        if math.isnan(difference.difference) or difference.test == POOLED:
            continue
        name = difference.test
        after, before = (score.score for score in report.scores if score.test == name)
        scores |= {name: after, f"{name} before": before}
        values = [shown(difference.measure, value) for value in (before, after)]
        text = f"{name}: {values[0]} before, {values[1]} now"
        has_fallen = difference.interval[1] < 0
        if has_fallen:
            progress.warn(text, ": ", *TRAIN_LESS)
        else:
            progress.note(text)
    return scores or None

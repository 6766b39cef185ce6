"""Text, or a graph, to compare objectives on: how runs start, and how word vectors are scored."""

import contextlib
import math
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedx.comparison.data import Data
from embedx.comparison.settings import SHORT_TEXT, TEXT_SETTINGS, CompareSettings
from embedx.errors import DataError, EmbedxError, Setting
from embedx.evaluation import learning_curves, sessions, word_sets, words
from embedx.evaluation.held_out import Likelihood, draw as draw_pairs, evaluate as evaluate_pairs
from embedx.evaluation.statistics import Score, grouped
from embedx.runtime.progress import Progress, Silent
from embedx.settings import Record
from embedx.skipgram.configuration import configure
from embedx.skipgram.reading import read_corpora
from embedx.skipgram.settings import SkipGramSettings
from embedx.tasks.requests import TrainRequest
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.held_out import MAX_SHARE, PIECE, HeldOut, hold_out, n_pieces, usual_share
from embedx.text.settings import SESSIONS, noun_of
from embedx.text.sources import find_sources, text_defaults
from embedx.text.tables import JSON, TABLE, NotTextError
from embedx.text.vocabulary import select
from embedx.vectors.model import WordVectors, load

N_POINTS_OF_CURVE = 12
# Recorded resamples of word pairs: the standard error of a difference is then within 5 %.
N_RESAMPLES = 200
# Recorded groups of sessions.
N_SESSION_GROUPS = 1000


@contextlib.contextmanager
def labels_named_in_errors() -> Iterator[None]:
    """Tell who compares on a table or JSON how it is read as labelled data, too."""
    try:
        yield
    except NotTextError as error:
        if error.kind not in (TABLE, JSON):
            raise
        by_test = ", or if its rows have labels, the labelled data to score on by "
        remedy = (error.remedy, by_test, Setting("test"))
        raise DataError(error.file, error.line, error.problem, remedy) from error


class TextData(Data):
    """A corpus and its held-out part.

    names      corpora for `embedx train`, except standard input
    pairs      files of word pairs in place of the packaged ones; `analogies`: files of questions
    next_item  file of sessions whose last items rank and tune the models; then no text is held out
    words      of the vocabulary, which `prepare` reads with the held-out text
    """

    words: list[str]
    held_out: HeldOut
    progress: Progress

    command = "train"
    pace = "words_per_second"
    applicable = TEXT_SETTINGS
    variant_settings = SkipGramSettings
    why_inapplicable = ("applies to labelled data; without ", Setting("test"), ", DATA is text")
    measures: Sequence[str] = ("log_likelihood", "similarity", "analogies")
    curve_of = "held-out log-likelihood"

    def __init__(
        self,
        names: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        **files: Any,
    ) -> None:
        super().__init__(names, options, settings, **files)
        self.pairs = files.get("pairs") or []
        self.analogies = files.get("analogies")
        self.cache_dir = files.get("cache_dir")
        self.next_item = files.get("next_item")

        if self.next_item is None:
            self.run_options = {"heldout_points": N_POINTS_OF_CURVE}
        else:
            if self.options.get("walks") is None:
                self.options = {"format": SESSIONS} | self.options
            self.measures = (
                "mrr",
                f"ndcg@{sessions.TOP}",
                f"hr@{sessions.TOP}",
                *self.measures[1:],
            )

        self.unit = f"{noun_of(text_defaults(self.names, self.options) | self.options)}s"
        self.sources = find_sources([*self.names, *filter(None, [self.next_item])])
        for source in self.sources:
            if source.fingerprint is None:
                problem = "can be read only once, and each run reads it"
                raise DataError(source.name, None, problem, "name a file")

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            objective, options = self.variant(name)
            configure(objective, self.options | options)

    def request_of(self, objective: str, options: Record) -> TrainRequest:
        return TrainRequest(
            corpora=self.names, objective=objective, options=options, cache_dir=self.cache_dir
        )

    def fingerprints(self) -> list[Any]:
        return [source.fingerprint for source in self.sources]

    def identity(self) -> dict[str, Any]:
        tests = [*self.pairs, *filter(None, [self.analogies, self.next_item])]
        return super().identity() | {
            "heldout": self.settings.heldout,
            "tests": [str(path) for path in tests],
        }

    def prepare(self, progress: Progress) -> dict[str, Any]:
        config = configure(None, self.options, defaults=text_defaults(self.names, self.options))
        with (
            labels_named_in_errors(),
            read_corpora(self.names, config, progress, self.cache_dir) as corpus,
        ):
            vocabulary, remap = select(corpus, config.vocabulary, config.text.normalize)
            self.words = vocabulary.words
            self.n_outputs = len(vocabulary)
            if corpus.n_tokens < SHORT_TEXT and self.unit != "nodes":
                self.usual_epochs = config.settings.epochs
            facts: dict[str, Any] = {"tokens": corpus.n_tokens, "vocabulary": len(vocabulary)}
            if self.next_item is None:
                share = self._share_held_out(corpus, progress)
                self.run_options["heldout"] = share
                self.held_out = hold_out(corpus.tokens, remap, share)
                facts["held-out share"] = share
                facts["held-out tokens"] = self.held_out.n_words
            else:
                _, last_items = sessions.read_sessions(self.words, self.next_item, progress)
                facts["sessions"] = len(last_items)
        self.progress = progress
        # Read the test sets now, to report a file that cannot be read.
        _ = self.tests
        return facts

    def _share_held_out(self, corpus: EncodedCorpus, progress: Progress) -> float:
        """The share of the corpus that is held out, as set or chosen from its length. Raises
        `EmbedxError` for a corpus that is too short.
        """
        if self.settings.heldout is not None:
            return self.settings.heldout
        n = n_pieces(corpus.tokens)
        share = usual_share(n)
        if share is None:
            fewest = int(2 / MAX_SHARE - 1) * PIECE + 1
            problem = f"{corpus.n_tokens:,} {self.unit}, too few to hold some out and score them"
            raise DataError(self.name, None, problem, f"compare on at least {fewest:,}")
        held = f", chosen from the length of the text: about {round(share * n) * PIECE:,} of"
        progress.note(
            Setting("heldout", share), f"{held} {corpus.n_tokens:,} {self.unit} are scored"
        )
        return share

    @cached_property
    def tests(self) -> list[word_sets.TestSet]:
        """The tests of word vectors; none of nodes and items, and none without gensim."""
        tests: list[word_sets.TestSet] = [word_sets.read_pairs(file) for file in self.pairs]
        if self.analogies is not None:
            tests.append(word_sets.read_analogies(self.analogies))
        if tests or self.unit != "words":
            return tests
        try:
            return list(word_sets.default_tests())
        except EmbedxError as error:
            self.progress.note(f"no similarity or analogies: {error}")
            return []

    def _likelihood(self, vectors: WordVectors) -> Likelihood:
        """The likelihood of the held-out text."""
        # The words of a model, such as nodes of a graph, may be in another order.
        row_of_word = [vectors.index(word) if word in vectors else -1 for word in self.words]
        # The last row is for unknown words.
        rows = np.array([*row_of_word, -1])
        text = self.held_out
        sample = draw_pairs(rows[text.words], text.sentences, vectors, groups=text.spans)
        return evaluate_pairs(vectors, *sample)

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The log-likelihood of held-out text, or the mean reciprocal rank in sessions.

        It is that of every other span or session; with --tune, `scores` has the remaining ones.
        """
        if self.next_item is not None:
            ranks = self._next_item(load(model), slice(0, None, 2))["mrr"]
            return float(ranks.mean())
        likelihood = self._likelihood(load(model))
        values = likelihood.values[likelihood.groups % 2 == 0]
        return float(values.mean()) if len(values) else None

    def _next_item(self, vectors: WordVectors, rows: slice) -> dict[str, np.ndarray]:
        """The measures of each session in `rows`, by name."""
        before, last = sessions.read_sessions(vectors.words, str(self.next_item), Silent())
        measures = sessions.next_item_measures(vectors, before[rows], last[rows])
        return {name.lower(): values for name, values in measures.items()}

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        vectors = load(model)
        item_scores = words.score_items(vectors, self.tests) if self.tests else []
        scores = {
            "similarity": similarity_score(item_scores),
            "analogies": analogies_score(item_scores),
        }
        facts = {}
        if self.next_item is None:
            likelihood = self._likelihood(vectors)
            scores["log_likelihood"] = self._likelihood_score(likelihood)
            facts["unigram"] = likelihood.unigram
        else:
            scores |= self._session_scores(vectors)
        return {name: score for name, score in scores.items() if score is not None}, facts

    def _likelihood_score(self, likelihood: Likelihood) -> Score:
        """The log-likelihood of held-out spans, without those that --tune scores."""
        groups = likelihood.groups
        if not self.settings.tune:
            return grouped(likelihood.values, groups)
        is_odd = groups % 2 == 1
        return grouped(likelihood.values[is_odd], groups[is_odd])

    def _session_scores(self, vectors: WordVectors) -> dict[str, Score]:
        """The measures of sessions, without those that --tune scores."""
        rows = slice(1, None, 2) if self.settings.tune else slice(None)
        return {
            name: grouped(values, np.arange(len(values)) % N_SESSION_GROUPS)
            for name, values in self._next_item(vectors, rows).items()
        }

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        return learning_curves.heldout_points(facts)


def similarity_score(scores: Sequence[word_sets.ItemScores]) -> Score | None:
    """The similarity pooled over all sets; None if their words are unknown."""
    pooled = words.pooled(scores)
    if pooled is None:
        of_sets = (s for s in scores if isinstance(s.test, word_sets.SimilarityPairs))
        pooled = next(of_sets, None)
    if pooled is None or not math.isfinite(pooled.score):
        return None
    return pooled.scored(resamples=N_RESAMPLES)


def analogies_score(scores: Sequence[word_sets.ItemScores]) -> Score | None:
    """The share of analogies answered correctly; None if their words are unknown."""
    for item_scores in scores:
        if isinstance(item_scores.test, word_sets.Analogies) and item_scores.used.any():
            return item_scores.scored()
    return None

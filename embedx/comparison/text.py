"""Text, or a graph, to compare objectives on: how a run is started, and how its word vectors are
scored.
"""

import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedx.comparison.data import Data
from embedx.comparison.settings import OF_TEXT, CompareSettings
from embedx.errors import EmbedxError
from embedx.evaluation import graphs, heldout, learning_curves, word_sets, words
from embedx.evaluation.statistics import Score, grouped
from embedx.skipgram.configuration import configure
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.task import encoded_corpus
from embedx.text.heldout import HeldOut, hold_out
from embedx.text.sources import resolve, text_defaults
from embedx.text.vocabulary import select
from embedx.training.progress import Progress, Silent
from embedx.vectors.model import WordVectors, load

POINTS = 12  # of a learning curve
# of the word pairs, on record: the standard error of a difference is then within 5 %
RESAMPLES = 200
GROUPS = 1000  # of sessions, on record


class Text(Data):
    """A corpus, and what is held out of it.

    names      what `embedx train` takes, but standard input
    pairs      files of word pairs, and `analogies` of questions, instead of the packaged ones
    next_item  file of sessions, by whose last items models are ranked and tuned; no text is held
               out then
    """

    command, unit, taken, of_variants = "train", "words", OF_TEXT, SkipGramSettings
    otherwise = "applies to labelled data; without --test, DATA is text"
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
        self.pairs, self.analogies, self.cache_dir = (
            files.get("pairs") or [],
            files.get("analogies"),
            files.get("cache_dir"),
        )
        self.next_item = files.get("next_item")
        self.of_runs = {"cache_dir": self.cache_dir}
        if self.next_item is None:
            self.of_runs |= {"heldout": settings.heldout, "heldout_points": POINTS}
        else:
            self.measures = ("mrr", f"ndcg@{graphs.TOP}", f"hr@{graphs.TOP}", *self.measures[1:])
        self.sources = resolve([*self.names, *filter(None, [self.next_item])])
        if once := [source.name for source in self.sources if source.fingerprint is None]:
            raise EmbedxError(
                f"{once[0]}: can be read only once, and each run reads it; name a file"
            )

    def check(self, names: Sequence[str]) -> None:
        for name in names:
            objective, own = self.variant(name)
            configure(objective, self.options | own)

    def fingerprints(self) -> list[Any]:
        return [source.fingerprint for source in self.sources]

    def identity(self) -> dict[str, Any]:
        tests = [
            str(path) for path in (*self.pairs, *filter(None, [self.analogies, self.next_item]))
        ]
        return super().identity() | {"heldout": self.settings.heldout, "tests": tests}

    def prepare(self, progress: Progress) -> dict[str, Any]:
        config = configure(None, self.options, defaults=text_defaults(self.names, self.options))
        with encoded_corpus(self.names, config, progress, self.cache_dir) as corpus:
            vocabulary, remap = select(corpus, config.vocabulary)
            self.words = vocabulary.words
            facts = {"tokens": corpus.n_tokens, "vocabulary": len(vocabulary)}
            if self.next_item is None:
                self.held_out: HeldOut = hold_out(corpus.tokens, remap, self.settings.heldout)
                facts["held-out tokens"] = self.held_out.n_words
            else:
                facts["sessions"] = len(
                    graphs.read_sessions(self.words, self.next_item, progress)[1]
                )
        self.progress = progress
        len(self.tests)  # reports a file of pairs that cannot be read
        return facts

    @cached_property
    def tests(self) -> list[word_sets.TestSet]:
        """The tests of word vectors; none of nodes and items, and none without gensim."""
        found: list[word_sets.TestSet] = [word_sets.read_pairs(file) for file in self.pairs]
        if self.analogies is not None:
            found.append(word_sets.read_analogies(self.analogies))
        if not found and self.options.get("walks") is None and self.next_item is None:
            try:
                return list(word_sets.default_tests())
            except EmbedxError as error:
                self.progress.note(f"no similarity or analogies: {error}")
        return found

    def _likelihood(self, vectors: WordVectors) -> heldout.Likelihood:
        held = self.held_out
        # nodes are not in one order
        place = np.array(
            [*(vectors.index(word) if word in vectors else -1 for word in self.words), -1]
        )
        return heldout.evaluate(
            vectors, *heldout.draw(place[held.words], held.sentences, vectors, groups=held.spans)
        )

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The log-likelihood of every other held-out span, or the mean reciprocal rank in every
        other session; with --tune, `scores` has only the remaining ones.
        """
        if self.next_item is not None:
            return float(self._next_item(load(model), slice(0, None, 2))["mrr"].mean())
        found = self._likelihood(load(model))
        values = found.values[found.groups % 2 == 0]
        return float(values.mean()) if len(values) else None

    def _next_item(self, vectors: WordVectors, rows: slice) -> dict[str, np.ndarray]:
        """The measures of each of some sessions."""
        before, last = graphs.read_sessions(vectors.words, str(self.next_item), Silent())
        return {
            name.lower(): of
            for name, of in graphs.next_item_measures(vectors, before[rows], last[rows]).items()
        }

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        vectors, is_half = load(model), bool(self.settings.tune)
        answers = words.score(vectors, self.tests, Silent()) if self.tests else []
        found, beside = {"similarity": of_pairs(answers), "analogies": of_questions(answers)}, {}
        if self.next_item is None:
            likelihood = self._likelihood(vectors)
            scored = (likelihood.groups % 2 == 1) | (not is_half)
            found["log_likelihood"] = grouped(likelihood.values[scored], likelihood.groups[scored])
            beside["unigram"] = likelihood.unigram
        else:
            of_sessions = self._next_item(vectors, slice(1, None, 2) if is_half else slice(None))
            found |= {
                name: grouped(values, np.arange(len(values)) % GROUPS)
                for name, values in of_sessions.items()
            }
        return {name: score for name, score in found.items() if score is not None}, beside

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        return learning_curves.heldout_points(facts)


def of_pairs(answers: Sequence[word_sets.Answers]) -> Score | None:
    """The similarity pooled over all sets; None where the words are not known."""
    sets = [each for each in answers if isinstance(each.test, word_sets.SimilarityPairs)]
    found = words.pooled(answers) or next(iter(sets), None)
    return (
        found.scored(resamples=RESAMPLES)
        if found is not None and math.isfinite(found.score)
        else None
    )


def of_questions(answers: Sequence[word_sets.Answers]) -> Score | None:
    """The share of analogies that are answered right; None where the words are not known."""
    known = (
        each for each in answers if isinstance(each.test, word_sets.Analogies) and each.used.any()
    )
    return next((each.scored() for each in known), None)

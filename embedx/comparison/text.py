"""Text to compare objectives on: how a run is started, and how its word vectors are scored."""

import math
import os
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from embedx import objectives
from embedx.comparison.settings import OF_TEXT, CompareSettings
from embedx.errors import EmbedxError
from embedx.evaluation import heldout, learning_curves, word_sets, words
from embedx.evaluation.statistics import Score, grouped
from embedx.settings import TextSettings, VocabularySettings, as_arguments, as_typed, option_name
from embedx.skipgram.settings import chosen
from embedx.text.encode import encode
from embedx.text.heldout import HeldOut, hold_out
from embedx.text.sources import recipe_defaults, resolve
from embedx.text.vocabulary import select
from embedx.training.progress import Progress, Silent
from embedx.vectors.model import WordVectors, load

POINTS = 12  # of a learning curve
RESAMPLES = 200  # of the word pairs, on record: the standard error of a difference is then within 5 %


class Text:
    """A corpus, and what is held out of it.

    corpora   what `embedx train` takes, but standard input; `options` are passed to each run
    pairs     files of word pairs, and `analogies` of questions, instead of the packaged ones
    """

    command, unit = "train", "words"
    measures: tuple[str, ...] = ("log_likelihood", "similarity", "analogies")
    curve_of = "held-out log-likelihood"

    def __init__(
        self,
        corpora: Sequence[str],
        options: Mapping[str, Any],
        settings: CompareSettings,
        pairs: Sequence[Path] = (),
        analogies: Path | None = None,
        cache_dir: Path | None = None,
    ) -> None:
        if others := sorted(options.keys() - set(OF_TEXT)):
            raise EmbedxError(f"{option_name(others[0])} applies to labelled data; without --test, DATA is text")
        self.corpora, self.options, self.settings, self.cache_dir = list(corpora), dict(options), settings, cache_dir
        self.files, self.analogies = list(pairs), analogies
        self.sources = resolve(self.corpora)
        if once := [source.name for source in self.sources if source.fingerprint is None]:
            raise EmbedxError(f"{once[0]}: can be read only once, and each run reads it; name a file")

    @property
    def name(self) -> str:
        return " ".join(os.path.basename(name.rstrip("/")) or name for name in self.corpora)

    def check(self, names: Sequence[str]) -> None:
        """Raise `EmbedxError` if an objective does not take the options."""
        for name in names:
            chosen(objectives.find(name), self.options)

    def identity(self) -> dict[str, Any]:
        """What decides the results, beside time, threads and machine."""
        typed = {name: as_typed(value) for name, value in self.options.items()}
        tests = [str(path) for path in (*self.files, *filter(None, [self.analogies]))]
        return {
            "data": [source.fingerprint for source in self.sources], "options": typed, "heldout": self.settings.heldout,
            "tests": tests,
        }  # fmt: skip

    def arguments(self) -> list[str]:
        """What a run is started with, beside objective, seed, time and places."""
        own = {"heldout": self.settings.heldout, "heldout_points": POINTS, "cache_dir": self.cache_dir}
        return [*self.corpora, *as_arguments(self.options | {name: value for name, value in own.items() if value is not None})]

    def prepare(self, progress: Progress) -> dict[str, Any]:
        """Read the text and hold out a part of it; what is to be known of it. Raises `EmbedxError` if that cannot be."""
        text = TextSettings.from_options(recipe_defaults(self.corpora) | self.options)
        with encode(self.corpora, text, progress, self.cache_dir) as corpus:
            vocabulary, remap = select(corpus, VocabularySettings.from_options(self.options))
            self.held_out: HeldOut = hold_out(corpus.tokens, remap, self.settings.heldout)
            facts = {"tokens": corpus.n_tokens, "vocabulary": len(vocabulary), "held-out tokens": self.held_out.n_words}
        self.progress = progress
        len(self.tests)  # reports a file of pairs that cannot be read
        return facts

    @cached_property
    def tests(self) -> list[word_sets.TestSet]:
        """The tests of word vectors; none without gensim."""
        found: list[word_sets.TestSet] = [word_sets.read_pairs(file) for file in self.files]
        if self.analogies is not None:
            found.append(word_sets.read_analogies(self.analogies))
        if not found:
            try:
                return list(word_sets.default_tests())
            except EmbedxError as error:
                self.progress.note(f"no similarity or analogies: {error}")
        return found

    def _likelihood(self, vectors: WordVectors) -> heldout.Likelihood:
        held = self.held_out
        return heldout.evaluate(vectors, *heldout.draw(held.words, held.sentences, vectors, groups=held.spans))

    def validation_score(self, model: Path, facts: Mapping[str, Any]) -> float | None:
        """The log-likelihood of every other held-out span; with --tune, `scores` has only the remaining spans."""
        found = self._likelihood(load(model))
        values = found.values[found.groups % 2 == 0]
        return float(values.mean()) if len(values) else None

    def scores(self, model: Path) -> tuple[dict[str, Score], dict[str, Any]]:
        """The scores of a saved model, as far as its words are known to the tests, and facts that stand beside them."""
        vectors = load(model)
        likelihood = self._likelihood(vectors)
        scored = likelihood.groups % 2 == 1 if self.settings.tune else np.ones(len(likelihood.groups), dtype=bool)
        found = {"log_likelihood": grouped(likelihood.values[scored], likelihood.groups[scored])}
        answers = words.score(vectors, self.tests, Silent()) if self.tests else []
        if (similarity := of_pairs(answers)) is not None:
            found["similarity"] = similarity
        if (analogies := of_questions(answers)) is not None:
            found["analogies"] = analogies
        of_spans = grouped(likelihood.values, likelihood.groups).record()
        points = [[each["seconds"], each["sums"]] for each in learning_curves.history(vectors.facts) if "sums" in each]
        points.append([vectors.facts["seconds"], of_spans["sums"]])
        spans = {"sizes": of_spans["sizes"], "points": points}  # during training and at the end
        return found, {"unigram": likelihood.unigram, "calibrated": likelihood.calibrated, "spans": spans}

    def curve(self, facts: Mapping[str, Any]) -> list[list[float]]:
        """[epochs, seconds, held-out log-likelihood] during training and at the end, from what a run printed."""
        return learning_curves.heldout_points(facts)


def of_pairs(answers: Sequence[word_sets.Answers]) -> Score | None:
    """The similarity pooled over all sets; None where the words are not known."""
    found = words.pooled(answers)
    if found is None:
        sets = [each for each in answers if isinstance(each.test, word_sets.SimilarityPairs)]
        found = sets[0] if sets else None
    if found is None or not math.isfinite(found.score):
        return None
    score = found.scored(resamples=RESAMPLES)
    return score if score.is_finite else None


def of_questions(answers: Sequence[word_sets.Answers]) -> Score | None:
    """The share of analogies that are answered right; None where the words are not known."""
    known = (each for each in answers if isinstance(each.test, word_sets.Analogies) and each.used.any())
    return next((each.scored() for each in known), None)

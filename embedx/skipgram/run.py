"""A run on a stream of text with everything decided: it trains, scores held-out text, and makes the model."""

import dataclasses
import zlib
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from embedx.engine import skipgram as engine
from embedx.errors import EmbedxError
from embedx.evaluation import heldout
from embedx.evaluation.heldout import Likelihood
from embedx.evaluation.statistics import grouped
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler
from embedx.settings import PhraseSettings, TextSettings, VocabularySettings
from embedx.skipgram.callbacks import Callback, EpochEnd, want_an_end
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.start import Start
from embedx.skipgram.strategies import RetrievedStream, Streamed, loss_unit
from embedx.skipgram.tables import initialise
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.heldout import HeldOut, n_pieces
from embedx.text.phrases import phrases_of
from embedx.text.subsampling import TokenStream, has_pairs
from embedx.text.vocabulary import Vocabulary, keep_probability, kept_counts
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.guard import Guard
from embedx.training.memory import MemoryPlan
from embedx.training.progress import Progress, Silent
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from embedx.vectors import model
from embedx.vectors.subwords import Subwords

MOST_SOURCES = 20  # whose names a model keeps


@dataclasses.dataclass
class Task:
    """A run with everything decided; `settings` are resolved."""

    corpus: EncodedCorpus
    words: Vocabulary
    remap: np.ndarray
    sampler: Sampler
    warm_up: Sampler | None  # what draws before the sampler can
    tables: engine.SkipGramTables
    objective: Objective
    settings: SkipGramSettings
    text: TextSettings
    vocabulary: VocabularySettings
    progress: Progress
    heldout: HeldOut | None
    phrases: PhraseSettings = dataclasses.field(default_factory=PhraseSettings)
    start: Start | None = None
    buckets: np.ndarray | None = None  # int32 (n,), ascending: those of n-grams, whose rows follow the words'; None without
    plan: MemoryPlan | None = None  # of memory
    wrap: Callable[["Task"], Strategy] | None = None  # makes what trains it in place of `strategy`
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # held-out log-likelihoods, sums by span

    def stream(self) -> TokenStream:
        """The corpus as training sees it."""
        keep = np.zeros(len(self.remap), dtype=np.uint32)
        chance = keep_probability(self.words.trained_counts, self.vocabulary.sample).astype(np.float64)
        keep[self.remap >= 0] = np.minimum(chance * 2**32, 2**32 - 1)[self.remap[self.remap >= 0]]
        held_out = self.heldout.pieces if self.heldout else np.zeros(n_pieces(self.corpus.tokens), dtype=np.uint8)
        return TokenStream(self.corpus.tokens, self.remap, keep, held_out)

    def check_pairs(self) -> None:
        """Raise `EmbedxError` if there is nothing to train on, whatever is drawn."""
        if not has_pairs(self.stream()):
            names = [source["name"] for source in self.corpus.report["sources"][:1]]
            raise EmbedxError(
                "".join(f"{name}: " for name in names) + "no sentence has two words of the vocabulary, so there is nothing to "
                "train on; write sentences of several words, one a line, or lower --min-count"
            )

    def strategy(self) -> Streamed:
        """How its chunks are trained."""
        if self.warm_up is None:
            return Streamed(self.objective, self.settings, self.sampler, self.tables, self.stream())
        return RetrievedStream(self.objective, self.settings, self.warm_up, self.tables, self.stream())

    def initialise(self) -> None:
        """Write to the tables what training starts from."""
        kept = kept_counts(self.words.trained_counts, self.vocabulary.sample)
        initialise(self.tables, self.objective, self.settings, kept, (self.warm_up or self.sampler).noise)
        if self.start is not None:
            rate, has_bias = float(self.settings.learning_rate or 0), self.settings.bias != "none"
            self.tables = self.start.write(
                self.tables, self.words, self.objective, self.settings.optimizer, rate, has_bias, self.buckets
            )  # fmt: skip

    def identity(self) -> dict[str, Any]:
        """What decides the result, by which a resumed run is recognised."""
        settings = self.settings.record() | self.objective.settings.record() | self.text.record() | self.vocabulary.record()
        settings |= self.phrases.record()
        for sampler in (self.warm_up, self.sampler):
            settings |= sampler.settings.record() if sampler is not None else {}
        return {
            **({"start": self.start.identity()} if self.start else {}),
            "corpus": [checksum(self.corpus.tokens), zlib.crc32("\n".join(self.words.words).encode())],
            "settings": {name: value for name, value in settings.items() if name != "threads"},
        }

    def run(
        self,
        snapshot: Mapping[str, Any] | None = None,
        checkpoints: Checkpoints | None = None,
        callbacks: Iterable[Callback] = (),
    ) -> trainer.Outcome:
        """Train the tables in place; `snapshot` is of the state of a run that was set up alike, to resume."""
        settings = self.settings
        strategy = self.wrap(self) if self.wrap is not None else self.ready_strategy()
        if checkpoints is not None:
            checkpoints.identify(lambda: self.identity() | strategy.identity())
        schedule = self._schedule(strategy, settings.epochs, settings.time_budget)
        callbacks = tuple(callbacks)

        def after_epoch(epoch: int, tally: Tally, seconds: float) -> bool:
            if self.scores_heldout():
                self._after_epoch(epoch, tally, seconds)
            if not callbacks:
                return False
            return want_an_end(callbacks, EpochEnd(epoch + 1, tally.mean_loss, tally.words, seconds, self.model(None)))

        return trainer.run(
            strategy,
            schedule,
            self.progress,
            after_epoch if callbacks or self.scores_heldout() else None,
            snapshot,
            self._state(),
            checkpoints,
            plan=self.plan,
        )

    def ready_strategy(self) -> Strategy:
        """What trains it here."""
        streamed = self.strategy()
        kept = kept_counts(self.words.trained_counts, self.vocabulary.sample)
        streamed.frequency_scores = self.objective.initial_bias(kept / kept.sum(), (self.warm_up or self.sampler).noise)
        return streamed

    @property
    def n_trained_words(self) -> int:
        """How many tokens of the vocabulary a pass over the corpus reads."""
        return int(self.corpus.counts[self.remap >= 0].sum()) - (int(self.heldout.counts.sum()) if self.heldout else 0)

    def _schedule(self, strategy: Strategy, epochs: float, time_budget: float | None) -> Schedule:
        rate = float(self.settings.learning_rate or 0)
        return Schedule(rate, strategy.n_chunks, self.n_trained_words, epochs, time_budget)

    def trial(self, seconds: float) -> trainer.Outcome:
        """Train for so long, as `run` does to begin with, to see how fast that goes; more than 0."""
        strategy = self.ready_strategy()
        return trainer.run(
            strategy, self._schedule(strategy, self.settings.epochs, seconds), Silent(), guard=Guard(is_on=False)
        )

    def scores_heldout(self) -> bool:
        """Whether held-out text is scored during training."""
        settings = self.settings
        return self.heldout is not None and (settings.heldout_every is not None or settings.heldout_points is not None)

    def _state(self) -> TrainState:
        """The scores of held-out text so far."""
        state = TrainState()
        if self.scores_heldout():
            state.add_attribute("task.history", self, "history")
        return state

    def _after_epoch(self, epoch: int, tally: Tally, seconds_passed: float) -> bool:
        """Report the held-out log-likelihood if it is due; never ends the training."""
        every = self.settings.heldout_every
        if (every is not None and (epoch + 1) % every == 0) or self._is_point(epoch + 1, seconds_passed):
            found = self.heldout_likelihood()
            self.progress.note(f"epoch {epoch + 1}: held-out log-likelihood {found.log_likelihood:.4f}")
            self.history.append({
                "epoch": epoch + 1, "seconds": round(seconds_passed, 3), "log_likelihood": found.log_likelihood,
                "sums": grouped(found.values, found.groups).record()["sums"],
            })  # fmt: skip
        return False

    def _is_point(self, epochs: int, seconds_passed: float) -> bool:
        """Whether another of --heldout-points is due; the end of the run is scored anyway."""
        budget, last = self.settings.time_budget, self.history[-1] if self.history else {"epoch": 0, "seconds": 0.0}
        now, before = (
            (epochs / self.settings.epochs, last["epoch"] / self.settings.epochs)
            if budget is None
            else (seconds_passed / budget, last["seconds"] / budget)
        )
        points = self.settings.heldout_points or 0
        return now < 1 and int(now * points) > int(before * points)

    def heldout_likelihood(self) -> Likelihood:
        """How likely what was learned so far finds the text that was held out; see `embedx.evaluation.heldout`."""
        vectors = self.model(None)
        assert self.heldout is not None
        pairs, calibration = heldout.draw(self.heldout.words, self.heldout.sentences, vectors, groups=self.heldout.spans)
        return heldout.evaluate(vectors, pairs, calibration)

    def heldout_metrics(self) -> dict[str, float]:
        """The same by the names of its numbers."""
        return self.heldout_likelihood().metrics()

    def model(self, outcome: trainer.Outcome | None) -> model.WordVectors:
        """What was learned so far, as views of the tables; word vectors that are means of rows are new."""
        settings, dim = self.settings, self.settings.dim
        arrays = {"input": engine.input_vectors(self.tables)[:, :dim], "output": self.tables.outputs.rows[:, :dim]}
        if self.buckets is not None:
            own, of_buckets = np.split(self.tables.inputs.rows[:, :dim], [len(self.words)])
            arrays |= {"word_part": own, "ngram": of_buckets, "ngram_bucket": self.buckets}
        if settings.bias != "none":
            arrays["bias"] = self.tables.outputs.rows[:, dim]
        if self.words.held_out is not None:
            arrays["heldout_counts"] = self.words.held_out
        record = settings.record() | self.objective.settings.record()
        for sampler in (self.warm_up, self.sampler):
            record |= sampler.settings.record() if sampler is not None else {}
        record |= self.text.record() | self.vocabulary.record() | self.phrases.record()
        facts: dict[str, Any] = {
            "objective": self.objective.name,
            "corpus": self.corpus.key,
            "sources": [each["name"] for each in self.corpus.report["sources"] if not each["skipped"]][:MOST_SOURCES],
            "corpus_tokens": self.corpus.n_tokens,
            "words": len(self.words),
        }
        if self.start is not None:
            record |= {"start": str(self.start.path), "freeze": self.start.freezes}
            facts |= {"words_kept": len(self.start.model), "words_added": len(self.words) - len(self.start.model)}
        if outcome is not None:
            facts |= {
                "final_loss": outcome.final_loss,
                "loss_unit": loss_unit(self.objective, self.sampler, settings.architecture),
                "highest_loss": outcome.highest_loss,
                "epochs": round(outcome.epochs, 4),
                "words_trained": outcome.tally.words,
                "pairs_trained": outcome.tally.pairs,
                "seconds": round(outcome.seconds, 3),
                "words_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
                "interrupted": outcome.interrupted_by is not None,
                **outcome.facts(),
            }
            if self.history:
                facts["history"] = self.history
        joined = phrases_of(self.corpus)
        found = None
        if settings.ngrams is not None:
            found = Subwords(settings.ngrams, arrays["ngram"], arrays["ngram_bucket"])
        return model.WordVectors(
            self.words.words, arrays, counts=self.words.counts, settings=record, facts=facts, phrases=joined, subwords=found
        )

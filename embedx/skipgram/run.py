"""A run on a stream of text with everything decided: it trains, scores held-out text, and makes the model."""

import dataclasses
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from embedx.engine import skipgram as engine
from embedx.errors import EmbedxError
from embedx.evaluation import heldout
from embedx.objectives.contract import Objective
from embedx.samplers.contract import Sampler
from embedx.skipgram.callbacks import Callback, EpochEnd, want_an_end
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.strategies import RetrievedStream, Streamed
from embedx.skipgram.tables import SMALLER, initialise, size_of_tables
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.heldout import HeldOut, n_pieces
from embedx.text.phrases import phrases_of
from embedx.text.subsampling import TokenStream, has_pairs
from embedx.text.vocabulary import Vocabulary, keep_probability, kept_counts
from embedx.training import trainer
from embedx.training.checkpoint import Checkpoints, checksum
from embedx.training.memory import MemoryPlan, allocating, n_bytes, plan_memory
from embedx.training.progress import Progress
from embedx.training.schedule import Schedule
from embedx.training.state import TrainState
from embedx.training.strategy import Strategy, Tally
from embedx.vectors import model
from embedx.vectors.subwords import Subwords

MAX_SOURCES = 20  # whose names a model keeps
BYTES_PER_LINE = 12  # of a word and its count in a model's folder, about
COUNT_BYTES = 8


@dataclasses.dataclass
class Task:
    """A run with everything decided."""

    corpus: EncodedCorpus
    config: Configuration  # whose settings are resolved
    words: Vocabulary
    remap: np.ndarray
    heldout: HeldOut | None
    sampler: Sampler
    warm_up: Sampler | None  # what draws before the sampler can
    tables: engine.SkipGramTables
    buckets: np.ndarray  # int32 (n,), ascending: those of n-grams, whose rows follow the words'
    progress: Progress
    plan: MemoryPlan | None = None  # of memory
    loss_unit: str = ""
    history: list[dict[str, Any]] = dataclasses.field(default_factory=list)  # held-out log-likelihoods, sums by span

    @property
    def objective(self) -> Objective:
        return self.config.objective

    @property
    def settings(self) -> SkipGramSettings:
        return self.config.settings

    @property
    def kept(self) -> np.ndarray:
        """How often each word is expected to survive subsampling, int64 (n_words,)."""
        return kept_counts(self.words.trained_counts, self.config.vocabulary.sample)

    @property
    def drawing(self) -> Sampler:
        """What draws at first."""
        return self.warm_up or self.sampler

    @property
    def n_trained_words(self) -> int:
        """How many tokens of the vocabulary an epoch reads."""
        return int(self.corpus.counts[self.remap >= 0].sum()) - (int(self.heldout.counts.sum()) if self.heldout else 0)

    @property
    def size(self) -> str:
        """The size of the tables, for people."""
        return size_of_tables(len(self.words), len(self.buckets), self.settings.dim)

    def identity(self) -> dict[str, Any]:
        """What decides the result, by which a resumed run is recognised."""
        start = self.config.start
        return {
            **({"start": start.identity()} if start else {}),
            "corpus": [checksum(self.corpus.tokens), zlib.crc32("\n".join(self.words.words).encode())],
            "settings": {name: value for name, value in self.config.record().items() if name != "threads"},
        }

    # ---- before training

    def stream(self) -> TokenStream:
        """The corpus as training sees it."""
        keep = np.zeros(len(self.remap), dtype=np.uint32)
        chance = keep_probability(self.words.trained_counts, self.config.vocabulary.sample).astype(np.float64)
        keep[self.remap >= 0] = np.minimum(chance * 2**32, 2**32 - 1)[self.remap[self.remap >= 0]]
        held_out = self.heldout.pieces if self.heldout else np.zeros(n_pieces(self.corpus.tokens), dtype=np.uint8)
        return TokenStream(self.corpus.tokens, self.remap, keep, held_out)

    def check_pairs(self) -> None:
        """Raise `EmbedxError` if there is nothing to train on, whatever is drawn."""
        if not has_pairs(self.stream()):
            names = [f"{source['name']}: " for source in self.corpus.report["sources"][:1]]
            raise EmbedxError(
                "".join(names)
                + "no sentence has two words of the vocabulary, so there is nothing to train on; write sentences "
                "of several words, one a line, or lower --min-count"
            )

    def memory_plan(self) -> MemoryPlan:
        """What the run needs, before its tables are written to.

        Raises `EmbedxError` where even the workspaces of its threads cannot be allocated.
        """
        tables, settings = self.tables, self.settings
        with allocating(f"{self.size} with --threads {settings.threads} and --window {settings.window}", SMALLER):
            of_training = self.strategy().memory()
        state = {
            "vectors": (tables.inputs.rows, tables.outputs.rows),
            "optimizer": (tables.inputs[1:], tables.outputs[1:]),
            "objective": (tables.state, tables.n_updates),
        }
        return plan_memory({**state, **of_training, "subwords": (tables.parts, self.buckets)}, state)

    def on_disk(self) -> tuple[int, int]:
        """Bytes of the model's folder, and of the run's state in a checkpoint."""
        tables, n_words = self.tables, len(self.words)
        n_rows = n_words + len(tables.outputs.rows)
        if self.settings.ngrams is not None:  # the words' own parts beside their vectors
            n_rows += len(tables.inputs.rows)
        numbers = n_rows * self.settings.dim + len(self.buckets) + len(tables.outputs.rows)
        of_words = n_words * (BYTES_PER_LINE + (COUNT_BYTES if self.heldout else 0))
        return 4 * numbers + of_words, n_bytes((tables.inputs, tables.outputs, tables.state, tables.n_updates))

    def initialise(self) -> None:
        """Write to the tables what training starts from."""
        initialise(self.tables, self.objective, self.settings, self.kept, self.drawing.noise)
        if self.config.start is not None:
            self.tables = self.config.start.write(self.tables, self.words, self.objective, self.settings, self.buckets)

    # ---- training

    def strategy(self) -> Streamed:
        """How its chunks are trained."""
        kind = Streamed if self.warm_up is None else RetrievedStream
        found = kind(self.objective, self.settings, self.drawing, self.tables, self.stream())
        kept = self.kept
        found.frequency_scores = self.objective.initial_bias(kept / kept.sum(), self.drawing.noise)
        return found

    def run(
        self,
        strategy: Strategy,
        snapshot: Mapping[str, Any] | None = None,
        checkpoints: Checkpoints | None = None,
        callbacks: Sequence[Callback] = (),
    ) -> trainer.Outcome:
        """Train the tables in place; `snapshot` is of the state of a run that was set up alike, to resume."""
        if checkpoints is not None:
            checkpoints.identify(lambda: self.identity() | strategy.identity())
        settings, state, self.loss_unit = self.settings, TrainState(), strategy.loss_unit
        scores_heldout = self.heldout is not None and (settings.heldout_every or settings.heldout_points)
        if scores_heldout:
            state.add_attribute("task.history", self, "history")

        def after_epoch(epoch: int, tally: Tally, seconds: float) -> bool:
            if scores_heldout:
                self._score_heldout(epoch + 1, seconds)
            return bool(callbacks) and want_an_end(
                callbacks, EpochEnd(epoch + 1, tally.mean_loss, tally.words, seconds, self.model(None))
            )

        rate = float(settings.learning_rate or 0)
        schedule = Schedule(rate, strategy.n_chunks, self.n_trained_words, settings.epochs, settings.time_budget)
        watch = after_epoch if callbacks or scores_heldout else None
        return trainer.run(strategy, schedule, self.progress, watch, snapshot, state, checkpoints, plan=self.plan)

    def _score_heldout(self, epochs: int, seconds: float) -> None:
        """Report the held-out log-likelihood after so many epochs and seconds, if it is due."""
        settings, last = self.settings, self.history[-1] if self.history else {"epoch": 0, "seconds": 0.0}
        now, before = epochs / settings.epochs, last["epoch"] / settings.epochs
        if settings.time_budget is not None:
            now, before = seconds / settings.time_budget, last["seconds"] / settings.time_budget
        points = settings.heldout_points or 0
        is_point = now < 1 and int(now * points) > int(before * points)  # the end of the run is scored anyway
        if is_point or (settings.heldout_every is not None and epochs % settings.heldout_every == 0):
            found = self.heldout_metrics()["log_likelihood"]
            self.progress.note(f"epoch {epochs}: held-out log-likelihood {found:.4f}")
            self.history.append({"epoch": epochs, "seconds": round(seconds, 3), "log_likelihood": found})

    def heldout_metrics(self) -> dict[str, float]:
        """How likely what was learned so far finds the text that was held out; see `embedx.evaluation.heldout`."""
        vectors = self.model(None)
        assert self.heldout is not None
        pairs, calibration = heldout.draw(self.heldout.words, self.heldout.sentences, vectors, groups=self.heldout.spans)
        return heldout.evaluate(vectors, pairs, calibration).metrics()

    # ---- the model

    def model(self, outcome: trainer.Outcome | None) -> model.WordVectors:
        """What was learned so far, as views of the tables; word vectors that are means of rows are new."""
        settings, dim, tables, start = self.settings, self.settings.dim, self.tables, self.config.start
        arrays = {"input": engine.input_vectors(tables)[:, :dim], "output": tables.outputs.rows[:, :dim]}
        subwords = None
        if settings.ngrams is not None:
            own, of_buckets = np.split(tables.inputs.rows[:, :dim], [len(self.words)])
            arrays |= {"word_part": own, "ngram": of_buckets, "ngram_bucket": self.buckets}
            subwords = Subwords(settings.ngrams, of_buckets, self.buckets)
        if settings.bias != "none":
            arrays["bias"] = tables.outputs.rows[:, dim]
        if self.words.held_out is not None:
            arrays["heldout_counts"] = self.words.held_out
        facts: dict[str, Any] = {
            "objective": self.objective.name,
            "corpus": self.corpus.key,
            "sources": [each["name"] for each in self.corpus.report["sources"] if not each["skipped"]][:MAX_SOURCES],
            "corpus_tokens": self.corpus.n_tokens,
            "words": len(self.words),
        }
        if start is not None:
            facts |= {"words_kept": len(start.model), "words_added": len(self.words) - len(start.model)}
        if outcome is not None:
            facts |= {
                "final_loss": outcome.final_loss,
                "loss_unit": self.loss_unit,
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
        return model.WordVectors(
            self.words.words, arrays, counts=self.words.counts, settings=self.config.record(), facts=facts,
            phrases=phrases_of(self.corpus), subwords=subwords,
        )  # fmt: skip

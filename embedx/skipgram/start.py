"""`--start`: training that begins with the vectors of a model, on other text or the same.

The words of the model keep their rows in both tables, and their biases; new words are initialised
as usual. Counts are those of both texts together, and subsampling, noise and the biases of new
words follow them. What a model does not keep is initialised as usual: the state of the optimiser,
and that of objectives that have one. An adaptive optimiser would take its first steps as if nothing
had been learned; so the state of rows that are kept begins where they move at the rate of plain
descent,

    lr / √s0 = RATE      s0 = (lr / RATE)²      or at the optimiser's limit, if that is less

Vectors of n-grams are kept like those of words.

Output rows that belong to the nodes of a tree mean something else under other counts, and are
initialised as usual. Biases are kept where the scores of the objective mean the same as those of
the model: both, or neither, have the log of the noise added for predictions.

A vector file gives words and their input vectors alone: output vectors begin at zero, biases and
settings as in a new run. Counts are those of the text, and words that are not in it count once.
"""

from pathlib import Path
from typing import Any

import numpy as np

from embedx import checks, objectives, optimizers
from embedx.engine.skipgram import SkipGramTables
from embedx.errors import DataError, InapplicableError, Setting, SettingError
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, WORDS
from embedx.settings import Options, check_used, settings_of
from embedx.skipgram.settings import SkipGramSettings, StartSettings
from embedx.storage.folder import REMEDY
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.settings import MAX_PASSES, PhraseSettings, VocabularySettings
from embedx.text.vocabulary import Vocabulary, is_wanted
from embedx.training.checkpoint import checksum
from embedx.vectors.model import WordVectors, load

RATE = optimizers.OPTIMIZERS["sgd"].rates[WORDS]
# settings that are the model's unless they are given
KEPT = ("architecture", "tokenizer", "lowercase", "normalize", "on_bad_utf8")
FIXED = ("dim", "subwords", "buckets")  # settings that are the model's
STEP = 1 << 16  # rows at a time


class Start:
    """A model to start from, or the words and vectors of a file. Raises `EmbedxError` if they
    cannot be read.
    """

    def __init__(self, settings: StartSettings, model: WordVectors | None = None) -> None:
        self.settings, self.path = settings, Path(str(settings.start))
        self.model: WordVectors = load(self.path) if model is None else model
        self.index = self.model.key_to_index
        self.objective: type[Objective] | None = None  # None: the vectors of a file
        self.counts = np.zeros(len(self.model), np.int64)
        if "objective" in self.model.facts:
            objectives.check_packages(self.path, self.model.facts, self.model.settings)
            self.objective = objectives.find(self.model.facts["objective"])
            self.counts = self._trained_counts()
            self._check_rows(self.objective)

    def _trained_counts(self) -> np.ndarray:
        """The counts of a model that `embedx train` wrote. Raises `DataError` if there are none."""
        if self.model.counts is None:
            raise DataError(self.path, None, "no counts of its words", REMEDY)
        return self.model.counts

    def _check_rows(self, objective: type[Objective]) -> None:
        """Raise `DataError` unless each word has a row in the tables that training continues."""
        n_words, dim = self.model.vectors.shape
        shapes: dict[str, tuple[int | None, ...]] = {"input": (n_words, dim)}
        if "path" not in objective.candidates:
            shapes |= {"output": (n_words, dim), "bias": (n_words,)}
        if self.model.settings.get("subwords") is not None:
            shapes |= {"word_part": (n_words, dim), "ngram": (None, dim), "ngram_bucket": (None,)}
        for name, shape in shapes.items():
            array = self.model.arrays.get(name)
            if array is not None:
                checks.require(checks.wrong_form(array, shape), f"{self.path}: {name}", REMEDY)
            elif name != "bias":
                raise DataError(f"{self.path}: {name}", None, "missing", REMEDY)

    def with_defaults(self, options: Options) -> dict[str, Any]:
        """The options, those that have to be the model's and are not given as there. Raises
        `EmbedxError` for others.
        """
        for name in settings_of(PhraseSettings):
            if self.objective is not None and name in options:
                problem = (
                    "does not apply with ",
                    Setting("start"),
                    ", whose collocations are joined",
                )
                raise InapplicableError(name, None, problem)
        limit, own = (
            options.get("max_vocab"),
            {**self.model.settings, "dim": self.model.vectors.shape[1]},
        )
        if limit is not None and limit < len(self.model):
            words = f"less than the {len(self.model):,} words of "
            problem = (words, Setting("start"), ", which are all kept")
            raise SettingError("max_vocab", limit, problem)
        for name in FIXED:
            if options.get(name, own.get(name)) != own.get(name):
                start = Setting("start", self.path)
                problem = ("the model of ", start, f" has {own.get(name) or 'none'}")
                raise SettingError(name, options[name], problem, "leave it out")
        return {
            **{name: own[name] for name in (*KEPT, *FIXED) if own.get(name) is not None},
            **options,
        }

    def phrase_settings(self, options: Options) -> PhraseSettings:
        """How the collocations of the model were found, which are joined in the new text; those of
        the options for the vectors of a file.
        """
        if self.objective is None:
            return PhraseSettings.from_options(dict(options))
        found = self.model.phrases
        n_passes = min(len(found.passes), MAX_PASSES) if found else 0
        return PhraseSettings.from_options({**self.model.settings, "phrases": n_passes})

    def vocabulary(
        self, corpus: EncodedCorpus, settings: VocabularySettings
    ) -> tuple[Vocabulary, np.ndarray]:
        """The words of the model and those that the settings add, by decreasing count in both
        texts, and the remap int32 (n_types,) from provisional ids, -1 if left out.
        """
        model, n_old = self.model, len(self.model)
        row = np.fromiter(
            (self.index.get(word, -1) for word in corpus.words), np.int64, len(corpus.words)
        )
        form = model.settings.get("normalize")
        new = np.flatnonzero((row < 0) & is_wanted(corpus, settings, form))
        max_new = len(new) if settings.max_vocab is None else settings.max_vocab - n_old
        new = new[np.argsort(-corpus.counts[new], kind="stable")][:max_new]
        counts = np.concatenate([self.counts, corpus.counts[new]])
        np.add.at(counts, row[row >= 0], corpus.counts[row >= 0])
        if self.objective is None:
            counts = np.maximum(counts, 1)
        words = [*model.words, *corpus.words.at(new)]
        row[new] = np.arange(n_old, len(words))
        order = np.argsort(-counts, kind="stable")
        # by row; the last is that of words left out
        place = np.append(np.argsort(order), -1).astype(np.int32)
        held_out = model.arrays.get("heldout_counts")
        if held_out is not None:
            held_out = np.concatenate([held_out, np.zeros(len(new), np.int64)])[order]
        return Vocabulary([words[k] for k in order.tolist()], counts[order], held_out), place[row]

    def summary(
        self, corpus: EncodedCorpus, words: Vocabulary, objective: Objective, has_bias: bool
    ) -> str:
        """What changes, in a line."""
        n_old, before, n_seen = (
            len(self.model),
            int(self.counts.sum()),
            sum(word in self.index for word in corpus.words),
        )
        if self.objective is None:
            begin = "output vectors begin at zero" + ", biases as in a new run" * has_bias
            return (
                f"starting from the vectors of {self.path}: {n_old:,} words"
                f" kept{' and frozen' * self.settings.freeze}, {n_seen:,} of them in this text;"
                f" {len(words) - n_old:,} added; {begin}"
            )
        lists = {True: ["word vectors"], False: []}  # kept, and reset
        lists[self.keeps_outputs(objective)].append("output vectors")
        if has_bias:
            lists[self.keeps_bias(objective)].append("biases")
        lists[False].append("the optimiser's state")
        return (
            f"continuing from {self.path}: {n_old:,} words"
            f" kept{' and frozen' * self.settings.freeze}, {n_seen:,} of them in this text;"
            f" {len(words) - n_old:,} added; {before:,} + {words.n_tokens - before:,} words of"
            f" text; kept: {', '.join(lists[True])}; reset: {', '.join(lists[False])}"
        )

    def keeps_outputs(self, objective: Objective) -> bool:
        """Whether the model has output rows, which are those of words there and here."""
        if self.objective is None:
            return False
        return "path" not in (*self.objective.candidates, *objective.candidates)

    def keeps_bias(self, objective: Objective) -> bool:
        """Whether biases mean the same in the model and here."""
        if self.objective is None or "bias" not in self.model.arrays:
            return False
        same = self.objective.traits.adds_log_noise == objective.traits.adds_log_noise
        return same and self.keeps_outputs(objective)

    def write(
        self,
        tables: SkipGramTables,
        words: list[str],
        objective: Objective,
        settings: SkipGramSettings,
        buckets: np.ndarray,
    ) -> SkipGramTables:
        """Write the model's rows into tables that are initialised as usual; the tables, with what
        is frozen.

        buckets   int32 (n,), ascending: those of n-grams that have a row
        """
        arrays, dim, n_words = self.model.arrays, self.model.vectors.shape[1], len(words)
        row = np.array([self.index.get(word, -1) for word in words], np.int64)
        old = np.flatnonzero(row >= 0)
        row = row[old]
        inputs, outputs = (
            [(old, arrays["input" if settings.ngrams is None else "word_part"], row)],
            [],
        )
        if settings.ngrams is not None:
            _, at, place = np.intersect1d(
                buckets, arrays["ngram_bucket"], assume_unique=True, return_indices=True
            )
            inputs.append((n_words + at, arrays["ngram"], place))
        if self.keeps_outputs(objective):
            outputs.append((old, arrays["output"], row))
        if settings.bias != "none" and self.keeps_bias(objective):
            tables.outputs.rows[old, dim] = arrays["bias"][row]
        optimizer = optimizers.OPTIMIZERS[settings.optimizer]
        state = min((float(settings.learning_rate or 0) / RATE) ** 2, optimizer.limit)
        frozen = []
        for table, copies in ((tables.inputs, inputs), (tables.outputs, outputs)):
            is_old = np.zeros(len(table.rows), bool)
            for to, source, of in copies:
                is_old[to] = True
                for start in range(0, len(to), STEP):
                    table.rows[to[start : start + STEP], :dim] = source[of[start : start + STEP]]
            if not optimizer.is_ema and table.state_of in (PER_ROW, PER_COORDINATE):
                table.state[is_old] = state
            frozen.append(table._replace(frozen=is_old.astype(np.uint8)))
        return (
            tables._replace(inputs=frozen[0], outputs=frozen[1]) if self.settings.freeze else tables
        )

    def identity(self) -> list[int]:
        """Checksums of the model."""
        return [checksum(array) for _, array in sorted(self.model.arrays.items())]


def started(options: Options, model: WordVectors | None = None) -> Start | None:
    """The model that the options name to start from, if it is not given; None if they name none.
    Raises `EmbedxError`.
    """
    check_used(
        {"freeze": options.get("freeze") or None},
        [("freeze", options.get("start") is not None, Setting("start"))],
    )
    return (
        Start(StartSettings.from_options(dict(options)), model)
        if options.get("start") is not None
        else None
    )

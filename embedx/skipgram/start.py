"""`--start`: training that begins with the vectors of a model, on other text or the same.

The words of the model keep their rows in both tables, and their biases; new words are initialised
as usual. Counts are those of both texts together, and subsampling, noise and the biases of new
words follow them. What a model does not keep is initialised as usual: the state of the optimiser,
and that of objectives that have one. An adaptive optimiser would take its first steps as if nothing
had been learned; so the state of rows that are kept begins where they move at the rate of plain
descent,

    lr / √s0 = RATE      s0 = (lr / RATE)²      or at the optimiser's limit, if that is less

Vectors of n-grams are kept like those of words.

What is trained on other text alone forgets, so a kept row is in the end the mean of what it was and
of what training made of it, weighted by its occurrences in the text of the model, n, and in the
new one, m:

    v = (n v_model + m v_trained) / (n + m)

A word that is not in the new text stays where it was, and one that is mostly there goes nearly all
the way. docs/words.md says what that is good for.

Output rows that belong to the nodes of a tree mean something else under other counts, and are
initialised as usual. Biases are kept where the scores of the objective mean the same as those of
the model: both, or neither, have the log of the noise added for predictions.

A vector file gives words and their input vectors alone: output vectors begin at zero, biases and
settings as in a new run. Counts are those of the text, and words that are not in it count once.
"""

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from embedx import checks, objectives, optimizers
from embedx.engine.skipgram import SkipGramTables
from embedx.engine.subwords import Parts
from embedx.errors import DataError, InapplicableError, Setting, SettingError, public_url
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import PER_COORDINATE, PER_ROW, WORDS, Table
from embedx.settings import Options, Record, check_used, settings_of
from embedx.skipgram.settings import SkipGramSettings, StartSettings
from embedx.storage.folder_files import REMEDY
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.settings import MAX_PASSES, SESSIONS, PhraseSettings, VocabularySettings
from embedx.text.vocabulary import Vocabulary, is_wanted
from embedx.training.checkpoint import checksum
from embedx.vectors.model import WordVectors, load

RATE = optimizers.OPTIMIZERS["sgd"].rates[WORDS]
# Settings that are the model's unless they are given.
INHERITED_SETTINGS = ("architecture", "tokenizer", "lowercase", "normalize", "on_bad_utf8")
# Settings that are the model's and cannot be others.
FIXED_SETTINGS = ("dim", "subwords", "buckets")
ROWS_AT_A_TIME = 1 << 16


class Copies(NamedTuple):
    """Rows of a model that are copied to a table.

    table_rows   int64 (n,)
    source       float32 (rows of the model, dim)
    source_rows  int64 (n,): the rows of `source` that they are copied from
    """

    table_rows: np.ndarray
    source: np.ndarray
    source_rows: np.ndarray

    def blocks(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """(rows of the table, the vectors for them), some at a time."""
        for first in range(0, len(self.table_rows), ROWS_AT_A_TIME):
            block = slice(first, first + ROWS_AT_A_TIME)
            yield self.table_rows[block], self.source[self.source_rows[block]]


class KeptRows(NamedTuple):
    """The rows of both tables that are the model's."""

    inputs: list[Copies]
    outputs: list[Copies]


class Start:
    """A model to start from, or the words and vectors of a file. Raises `EmbedxError` if they
    cannot be read.
    """

    def __init__(self, settings: StartSettings, model: WordVectors | None = None) -> None:
        self.settings = settings
        location = str(settings.start)
        self.path = public_url(location)
        self.model: WordVectors = load(location) if model is None else model
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
                checks.refuse(checks.wrong_form(array, shape), f"{self.path}: {name}", REMEDY)
            elif name != "bias":
                raise DataError(f"{self.path}: {name}", None, "missing", REMEDY)

    def defaults(self, options: Options) -> Record:
        """The settings that are the model's unless they are given. Raises `EmbedxError` for options
        that contradict the model.
        """
        self._refuse_phrases(options)
        self._check_vocabulary_size(options)
        model_settings = {**self.model.settings, "dim": self.model.vectors.shape[1]}
        self._check_fixed(options, model_settings)
        defaults = {
            name: model_settings[name]
            for name in (*INHERITED_SETTINGS, *FIXED_SETTINGS)
            if model_settings.get(name) is not None
        }
        if model_settings.get("format") == SESSIONS:
            defaults["format"] = SESSIONS
        if model_settings.get("bias") == "none" and "bias" in self.model.arrays:
            # The scores of the mean that its vectors no longer have.
            defaults["bias"] = "frequency"
        return defaults

    def _refuse_phrases(self, options: Options) -> None:
        """Raise `EmbedxError` for settings of collocations: those of the model are joined."""
        if self.objective is None:
            return
        for name in settings_of(PhraseSettings):
            if name in options:
                start = Setting("start")
                problem = ("does not apply with ", start, ", whose collocations are joined")
                raise InapplicableError(name, None, problem)

    def _check_vocabulary_size(self, options: Options) -> None:
        """Raise `SettingError` for a vocabulary without room for the words of the model."""
        limit = options.get("max_vocab")
        if limit is not None and limit < len(self.model):
            words = f"less than the {len(self.model):,} words of "
            problem = (words, Setting("start"), ", which are all kept")
            raise SettingError("max_vocab", limit, problem)

    def _check_fixed(self, options: Options, model_settings: Options) -> None:
        """Raise `SettingError` for a setting that has to be the model's and is not."""
        for name in FIXED_SETTINGS:
            value = model_settings.get(name)
            if options.get(name, value) != value:
                start = Setting("start", self.path)
                problem = ("the model of ", start, f" has {value or 'none'}")
                raise SettingError(name, options[name], problem, "leave it out")

    def phrase_settings(self, options: Options) -> PhraseSettings:
        """How the collocations of the model were found, which are joined in the new text; those of
        the options for the vectors of a file.
        """
        if self.objective is None:
            return PhraseSettings.from_options(dict(options))
        phrases = self.model.phrases
        n_passes = 0
        if phrases:
            n_passes = min(len(phrases.passes), MAX_PASSES)
        return PhraseSettings.from_options({**self.model.settings, "phrases": n_passes})

    def vocabulary(
        self, corpus: EncodedCorpus, settings: VocabularySettings
    ) -> tuple[Vocabulary, np.ndarray]:
        """The words of the model and those that the settings add, by decreasing count in both
        texts, and the remap int32 (n_types,) from provisional ids, -1 if left out.
        """
        model = self.model
        n_old = len(model)
        row = self._rows_of(corpus.words)
        new = self._new_types(corpus, settings, row)
        counts = np.concatenate([self.counts, corpus.counts[new]])
        np.add.at(counts, row[row >= 0], corpus.counts[row >= 0])
        if self.objective is None:
            counts = np.maximum(counts, 1)
        words = [*model.words, *corpus.words.at(new)]
        row[new] = np.arange(n_old, len(words))
        order = np.argsort(-counts, kind="stable")
        # The last place is that of types without a row, whose row is -1.
        place_of_row = np.append(np.argsort(order), -1).astype(np.int32)
        held_out = model.arrays.get("heldout_counts")
        if held_out is not None:
            held_out = np.concatenate([held_out, np.zeros(len(new), np.int64)])[order]
        ordered_words = [words[k] for k in order.tolist()]
        return Vocabulary(ordered_words, counts[order], held_out), place_of_row[row]

    def _rows_of(self, words: Collection[str]) -> np.ndarray:
        """int64 (len(words),): the row of each word in the model, -1 where it has none."""
        return np.fromiter((self.index.get(word, -1) for word in words), np.int64, len(words))

    def _new_types(
        self, corpus: EncodedCorpus, settings: VocabularySettings, row: np.ndarray
    ) -> np.ndarray:
        """The types of the corpus that the settings add to the model, by decreasing count."""
        form = self.model.settings.get("normalize")
        new = np.flatnonzero((row < 0) & is_wanted(corpus, settings, form))
        max_new = len(new)
        if settings.max_vocab is not None:
            max_new = max(settings.max_vocab - len(self.model), 0)
        return new[np.argsort(-corpus.counts[new], kind="stable")][:max_new]

    def summary(
        self, corpus: EncodedCorpus, words: Vocabulary, objective: Objective, has_bias: bool
    ) -> str:
        """What changes, in a line."""
        n_old = len(self.model)
        n_seen = sum(word in self.index for word in corpus.words)
        frozen = " and frozen" if self.settings.freeze else ""
        change = (
            f"{n_old:,} words kept{frozen}, {n_seen:,} of them in this text;"
            f" {len(words) - n_old:,} added"
        )
        if self.objective is None:
            biases = ", biases as in a new run" if has_bias else ""
            return (
                f"starting from the vectors of {self.path}: {change};"
                f" output vectors begin at zero{biases}"
            )
        before = int(self.counts.sum())
        kept, reset = self._kept_and_reset(objective, has_bias)
        return (
            f"continuing from {self.path}: {change}; {before:,} + {words.n_tokens - before:,} words"
            f" of text; kept: {', '.join(kept)}; reset: {', '.join(reset)}"
        )

    def _kept_and_reset(self, objective: Objective, has_bias: bool) -> tuple[list[str], list[str]]:
        """What is kept of the model, and what is initialised as usual."""
        kept = ["word vectors"]
        reset = []
        if self.keeps_outputs(objective):
            kept.append("output vectors")
        else:
            reset.append("output vectors")
        if has_bias and self.keeps_bias(objective):
            kept.append("biases")
        elif has_bias:
            reset.append("biases")
        return kept, [*reset, "the optimiser's state"]

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

    def with_flags(self, tables: SkipGramTables) -> SkipGramTables:
        """The tables, with a flag for each row that says whether it is frozen, if rows can be."""
        if not self.settings.freeze:
            return tables
        inputs = tables.inputs
        outputs = tables.outputs
        return tables._replace(
            inputs=inputs._replace(frozen=np.zeros(len(inputs.rows), np.uint8)),
            outputs=outputs._replace(frozen=np.zeros(len(outputs.rows), np.uint8)),
        )

    def write(
        self,
        tables: SkipGramTables,
        words: list[str],
        objective: Objective,
        settings: SkipGramSettings,
        buckets: np.ndarray,
    ) -> None:
        """Write the model's rows, and which rows are frozen, into tables that are initialised as
        usual.

        buckets   int32 (n,), ascending: those of n-grams that have a row
        """
        kept = self._kept_rows(words, objective, settings, buckets)
        if settings.bias != "none" and self.keeps_bias(objective):
            place, row = self._places(words)
            tables.outputs.rows[place, settings.dim] = self.model.arrays["bias"][row]
        _write_copies(tables.inputs, kept.inputs, settings)
        _write_copies(tables.outputs, kept.outputs, settings)

    def _copies_of_ngrams(self, n_words: int, buckets: np.ndarray) -> Copies:
        """The rows of n-grams that the model has; they follow those of the words."""
        model_buckets = self.model.arrays["ngram_bucket"]
        _, place, model_row = np.intersect1d(
            buckets, model_buckets, assume_unique=True, return_indices=True
        )
        return Copies(n_words + place, self.model.arrays["ngram"], model_row)

    def anchored(
        self,
        tables: SkipGramTables,
        words: Vocabulary,
        objective: Objective,
        settings: SkipGramSettings,
        buckets: np.ndarray,
    ) -> SkipGramTables:
        """Copies of trained tables, whose kept rows are the means of the model's and the trained
        ones, weighted by occurrences in the text of the model and in the new one.
        """
        if self.objective is None or self.settings.freeze or not self.settings.anchored:
            return tables
        kept = self._kept_rows(words.words, objective, settings, buckets)
        dim = self.model.vectors.shape[1]
        place, row = self._places(words.words)
        former = np.zeros(len(words), np.int64)
        former[place] = self.counts[row]
        weight = _weights(former, words.counts)
        anchored = []
        for table, copies in ((tables.inputs, kept.inputs), (tables.outputs, kept.outputs)):
            row_weight = weight
            if table is tables.inputs and len(tables.parts.offsets):
                row_weight = _weights_of_parts(former, words.counts, tables.parts, len(table.rows))
            rows = table.rows.copy()
            for copy in copies:
                for at, old_rows in copy.blocks():
                    moved = rows[at, :dim] - old_rows
                    rows[at, :dim] = old_rows + row_weight[at, None] * moved
            anchored.append(table._replace(rows=rows))
        if settings.bias != "none" and self.keeps_bias(objective):
            old_bias = self.model.arrays["bias"][row]
            bias = anchored[1].rows[place, dim]
            anchored[1].rows[place, dim] = old_bias + weight[place] * (bias - old_bias)
        return tables._replace(inputs=anchored[0], outputs=anchored[1])

    def _places(self, words: list[str]) -> tuple[np.ndarray, np.ndarray]:
        """(places, rows), int64: the places in `words` that have words of the model, and the rows
        of these in the model.
        """
        row = self._rows_of(words)
        place = np.flatnonzero(row >= 0)
        return place, row[place]

    def _kept_rows(
        self,
        words: list[str],
        objective: Objective,
        settings: SkipGramSettings,
        buckets: np.ndarray,
    ) -> KeptRows:
        """The rows of both tables that are the model's."""
        arrays = self.model.arrays
        place, row = self._places(words)
        name = "input" if settings.ngrams is None else "word_part"
        inputs = [Copies(place, arrays[name], row)]
        if settings.ngrams is not None:
            inputs.append(self._copies_of_ngrams(len(words), buckets))
        outputs = []
        if self.keeps_outputs(objective):
            outputs.append(Copies(place, arrays["output"], row))
        return KeptRows(inputs, outputs)

    def identity(self) -> list[int]:
        """Checksums of the model."""
        return [checksum(array) for _, array in sorted(self.model.arrays.items())]


def _weights(former: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """float32 (n,): the weight of each trained row in its mean with the model's row, which is the
    share of its occurrences that are in the new text.

    former  how often it occurs in the text of the model
    counts  how often in both texts together
    """
    return ((counts - former) / np.maximum(counts, 1)).astype(np.float32)


def _weights_of_parts(
    former: np.ndarray, counts: np.ndarray, parts: Parts, n_rows: int
) -> np.ndarray:
    """`_weights` of rows whose means are word vectors: a row occurs as often as its words do."""
    n_parts = np.diff(parts.offsets)
    sums = [
        np.bincount(parts.rows, np.repeat(occurrences, n_parts), n_rows)
        for occurrences in (former, counts)
    ]
    return _weights(*sums)


def started(options: Options, model: WordVectors | None = None) -> Start | None:
    """The model that the options name to start from, if it is not given; None if they name none.
    Raises `EmbedxError`.
    """
    has_start = options.get("start") is not None
    other_than_default = {
        name: options[name]
        for name, default in (("freeze", False), ("anchored", True))
        if options.get(name, default) not in (None, default)
    }
    check_used(
        other_than_default, [(name, has_start, Setting("start")) for name in other_than_default]
    )
    if not has_start:
        return None
    return Start(StartSettings.from_options(dict(options)), model)


def _write_copies(table: Table, copies: list[Copies], settings: SkipGramSettings) -> None:
    """Write rows into a table, with the state of an optimizer that has moved; they are frozen where
    rows have flags for that.
    """
    is_copied = np.zeros(len(table.rows), bool)
    for copy in copies:
        is_copied[copy.table_rows] = True
        for place, rows in copy.blocks():
            table.rows[place, : settings.dim] = rows
    optimizer = optimizers.OPTIMIZERS[settings.optimizer]
    if not optimizer.is_ema and table.keeps in (PER_ROW, PER_COORDINATE):
        rate = float(settings.learning_rate or 0)
        table.state[is_copied] = min((rate / RATE) ** 2, optimizer.limit)
    if table.frozen.size:
        table.frozen[:] = is_copied

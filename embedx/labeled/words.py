"""Text as features: how often words, n-grams of words and character n-grams stand in each row; and
`__label__` lines.

Columns are first the words, by first appearance, then the n-grams that training rows have, by their
hash: 64 bits for n-grams of words, 32 for those of characters (`embedx.text.ngram_hashes`), so that
there are hardly any collisions and no columns that are never used. `buckets` takes the hash modulo
a number, as fastText does.
"""

import abc
import dataclasses
import functools
import itertools
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy import float32, int64, ndarray
from scipy.sparse import csr_matrix, hstack, vstack

from embedx.labeled.data import TextSchema, distinct, offsets_of, places_of
from embedx.labeled.files import MemoryBudget
from embedx.labeled.ids import WORD_BYTES
from embedx.settings import Settings, param
from embedx.text.characters import SEPARATES, Characters
from embedx.text.ngram_hashes import OF_NEXT_WORD, bucket_lists, hash_words
from embedx.text.ngrams import ngrams
from embedx.text.segmentation import ATTACHED, RAW_SHARE
from embedx.text.settings import TextSettings
from embedx.text.tables import TOKEN_END
from embedx.text.tokenizer import Table, Tokenizer, find_numbers

PREFIX = "__label__"
# Begins each row.
MARK = b"\x01"
# Rows are tokenised in batches of this size.
BATCH_BYTES = 1 << 22
# The default number of words in an n-gram of raw text.
RAW_NGRAMS = 2
MAX_CHAR_NGRAM_HASHES = 2**31 - 1

# numbers of words or hashes of n-grams, int64 ascending, and their counts in each row
Counted = tuple[ndarray, csr_matrix]


class TextFeatureSettings(Settings):
    """Which words and n-grams of a text are features. What is None is decided by the text."""

    panel = "Text"

    word_ngrams: int | None = param(
        None,
        "text: maximum length of word n-grams; by default 1 for tokenised text, 2 for raw text, but"
        " with 1,000 to 20,000 rows 1 where that predicts held-out rows better",
        at_least=1,
        at_most=20,
    )
    char_ngrams: str | None = param(
        None,
        "text: lengths of character n-grams of words, such as 3-5; by default none",
        metavar="min-max",
    )
    min_ngram_count: int = param(
        2, "text: ignore n-grams that occur in fewer training rows", at_least=1, has_option=False
    )
    buckets: int = param(
        0, "text: number of hash buckets for n-grams; 0: no hashing", at_least=0, has_option=False
    )
    tokenizer: str | None = param(
        None,
        "text: how it is split into words; `whitespace`: at white space only, `words`: into runs of"
        " letters, marks and digits; by default words for raw text",
        choices=("whitespace", "words"),
    )
    lowercase: bool | None = param(None, "text: convert to lower case; by default for raw text")
    min_count: int = param(1, "text: ignore words that occur in fewer training rows", at_least=1)
    label_prefix: str = param(PREFIX, "text: prefix of labels in lines", has_option=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.char_ngrams is not None:
            ngrams(self.char_ngrams, 1, "char_ngrams")

    def for_text(self, text: str) -> "TextFeatureSettings":
        """The settings with those that are None resolved by the beginning of a text."""
        is_raw = len(ATTACHED.findall(text)) > RAW_SHARE * len(text.split())
        default_ngrams = RAW_NGRAMS if is_raw else 1
        default_tokenizer = "words" if is_raw else "whitespace"
        return dataclasses.replace(
            self,
            word_ngrams=self.word_ngrams or default_ngrams,
            tokenizer=self.tokenizer or default_tokenizer,
            lowercase=is_raw if self.lowercase is None else self.lowercase,
        )

    def of_tokenizer(self) -> TextSettings:
        """The settings of the tokeniser; none of these may be None."""
        return TextSettings(tokenizer=str(self.tokenizer), lowercase=bool(self.lowercase))


class TextFeatures(abc.ABC):
    """Counts the words and n-grams of texts, a row for each."""

    def rows(self, texts: Iterable[str | bytes]) -> csr_matrix:
        """The features of these texts and of all added before, float32 (n_rows, n_features)."""
        self.add(texts)
        return self.finish()[0]

    def add(self, texts: Iterable[str | bytes]) -> None:
        """Count further rows. Raises `EmbedxError` if they take too much memory."""
        batch: list[bytes] = []
        n_bytes = 0
        for text in texts:
            encoded = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            batch.append(encoded.replace(MARK, b" "))
            n_bytes += len(encoded)
            if n_bytes > BATCH_BYTES:
                self._add(batch)
                batch = []
                n_bytes = 0
        if batch:
            self._add(batch)

    @abc.abstractmethod
    def _add(self, texts: list[bytes]) -> None:
        """Count rows that are tokenised together."""

    @abc.abstractmethod
    def finish(self) -> tuple[csr_matrix, TextSchema]:
        """The features of all rows added, float32, and the schema for later rows."""


def text_features(
    settings: TextFeatureSettings, budget: MemoryBudget, schema: TextSchema | None
) -> TextFeatures:
    """A counter of the features of a schema or, without one, of training data."""
    if schema is not None:
        return KnownTextFeatures(schema, budget)
    return TrainingTextFeatures(settings, budget)


@functools.cache
def characters_of_rows(settings: TextSettings) -> Characters:
    """The tables of a tokeniser of rows that MARK begins."""
    characters = Tokenizer(settings).characters
    plain = characters.plain.copy()
    plain[MARK[0]] = MARK[0]
    plain[ord("\n")] = SEPARATES  # lines may be those of a row
    return characters._replace(plain=plain)


def new_tokenizer(settings: TextSettings) -> Tokenizer:
    """A tokeniser of rows that MARK begins."""
    tokenizer = Tokenizer(settings)
    tokenizer.characters = characters_of_rows(settings)
    return tokenizer


def tokens_of(tokenizer: Tokenizer, texts: list[bytes]) -> tuple[ndarray, ndarray]:
    """The words of each row by number, int64, and where rows begin, int64 (n_rows + 1,).

    MARK, which is the first word of all, has no number.
    """
    marked = b"".join(b"%b %b\n" % (MARK, text) for text in texts)
    tokens = tokenizer.tokenize(marked, 0, True).astype(int64)
    starts = np.flatnonzero(tokens == 0)
    indptr = np.append(starts, len(tokens)) - np.arange(len(starts) + 1)
    return tokens[tokens > 0] - 1, indptr


def words_of(tokenizer: Tokenizer) -> list[bytes]:
    """All words by number."""
    starts = tokenizer.table.starts[: tokenizer.n_types + 1].tolist()
    letters = tokenizer.table.letters[: starts[-1]].tobytes()
    return [letters[a:b] for a, b in itertools.pairwise(starts[1:])]


def word_ngrams(
    tokenizer: Tokenizer, tokens: ndarray, row: ndarray, settings: TextFeatureSettings
) -> tuple[ndarray, ndarray]:
    """The hashes of the n-grams of two words and more, int64, and the row of each."""
    word_hashes = np.empty(tokenizer.n_types - 1, int64)
    hash_words(tokenizer.table.letters, tokenizer.table.starts[1:], word_hashes)
    token_hashes = word_hashes[tokens]

    ngram_hashes = token_hashes
    hashes_by_length = [token_hashes[:0]]
    rows_by_length = [row[:0]]
    for n in range(1, int(settings.word_ngrams or 1)):
        ngram_hashes = ngram_hashes[:-1] * OF_NEXT_WORD + token_hashes[n:]
        first_row = row[: len(ngram_hashes)]
        is_within_row = first_row == row[n:]
        hashes_by_length.append(ngram_hashes[is_within_row])
        rows_by_length.append(first_row[is_within_row])

    hashes = np.concatenate(hashes_by_length)
    if settings.buckets:
        hashes = (hashes.view(np.uint64) % settings.buckets).view(int64)
    return hashes, np.concatenate(rows_by_length)


def char_ngrams(
    words: list[bytes], lengths: str, settings: TextFeatureSettings
) -> tuple[ndarray, ndarray]:
    """The hashes of the character n-grams of each word, int64, and where those of a word begin."""
    spec = ngrams(lengths, settings.buckets or MAX_CHAR_NGRAM_HASHES)
    offsets, buckets = bucket_lists(words, spec)
    hashes = np.delete(buckets, offsets[:-1]).astype(int64)
    return hashes, offsets - np.arange(len(offsets))


# ---- of training data


class TrainingTextFeatures(TextFeatures):
    """All words and n-grams that are frequent enough, of which a `TextSchema` is made."""

    def __init__(self, settings: TextFeatureSettings, budget: MemoryBudget) -> None:
        self.settings = settings
        self._budget = budget
        self._tokenizer: Tokenizer | None = None
        self._n_budgeted_words = 0
        self._words: list[Counted] = []
        self._ngrams: list[Counted] = []

    def finish(self) -> tuple[csr_matrix, TextSchema]:
        words = words_of(self._prepared(b""))
        kept = _frequent(self._words, self.settings.min_count)
        hashes = _frequent(self._ngrams, self.settings.min_ngram_count)
        vocabulary = [words[k].decode("utf-8") for k in kept.tolist()]
        parts = [_joined(self._words, kept)]
        if len(hashes):
            parts.append(_joined(self._ngrams, hashes))
        self._words = []
        self._ngrams = []
        features = csr_matrix(hstack(parts, "csr"), dtype=float32)
        return features, TextSchema(vocabulary, hashes, self.settings.record())

    def _prepared(self, text: bytes) -> Tokenizer:
        """The tokeniser, which the first text decides on."""
        if self._tokenizer is None:
            self.settings = self.settings.for_text(
                text.replace(MARK, b" ").decode("utf-8", "replace")
            )
            self._tokenizer = new_tokenizer(self.settings.of_tokenizer())
            self._tokenizer.tokenize(MARK + TOKEN_END, 0, True, is_whole=True)
        return self._tokenizer

    def _add(self, texts: list[bytes]) -> None:
        tokenizer = self._prepared(b"\n".join(texts))
        tokens, indptr = tokens_of(tokenizer, texts)
        n_words = tokenizer.n_types - 1
        self._budget.take((n_words - self._n_budgeted_words) * WORD_BYTES)
        self._n_budgeted_words = n_words

        bag = csr_matrix((np.ones(len(tokens), float32), tokens, indptr), (len(texts), n_words))
        bag.sum_duplicates()
        self._take_memory(bag)
        self._words.append((np.arange(n_words), bag))

        ngrams_of_rows = self._count_ngrams(tokens, indptr, bag)
        if ngrams_of_rows is not None:
            hashes, counts = ngrams_of_rows
            counts.sum_duplicates()
            self._take_memory(counts)
            self._budget.take(hashes.nbytes)
            self._ngrams.append((hashes, counts))

    def _take_memory(self, matrix: csr_matrix) -> None:
        """Count the memory of a matrix, which is held twice when all are joined."""
        self._budget.take(matrix.data.nbytes + matrix.indices.nbytes + 2 * matrix.indptr.nbytes)

    def _count_ngrams(self, tokens: ndarray, indptr: ndarray, bag: csr_matrix) -> Counted | None:
        """The n-grams of words and of characters in each row, if the settings ask for any."""
        kinds = []
        if int(self.settings.word_ngrams or 1) > 1:
            kinds.append(self._count_word_ngrams(tokens, indptr))
        if self.settings.char_ngrams is not None:
            kinds.append(self._count_char_ngrams(self.settings.char_ngrams, bag))
        if not kinds:
            return None
        if len(kinds) == 1:
            return kinds[0]

        all_hashes = distinct(np.concatenate([hashes for hashes, _ in kinds]))
        of_words, of_characters = (
            _selected(counts, _places(hashes, all_hashes), len(all_hashes))
            for hashes, counts in kinds
        )
        return all_hashes, of_words + of_characters

    def _count_word_ngrams(self, tokens: ndarray, indptr: ndarray) -> Counted:
        n_rows = len(indptr) - 1
        row_of_token = np.repeat(np.arange(n_rows), np.diff(indptr))
        hashes, row = word_ngrams(self._prepared(b""), tokens, row_of_token, self.settings)
        ngrams, column = np.unique(hashes, return_inverse=True)
        ones = np.ones(len(hashes), float32)
        return ngrams, csr_matrix((ones, (row, column)), (n_rows, len(ngrams)))

    def _count_char_ngrams(self, lengths: str, bag: csr_matrix) -> Counted:
        used = distinct(bag.indices)
        words = words_of(self._prepared(b""))
        hashes, starts = char_ngrams([words[k] for k in used.tolist()], lengths, self.settings)
        ngrams, column = np.unique(hashes, return_inverse=True)
        ones = np.ones(len(column), float32)
        ngrams_of_word = csr_matrix((ones, column, starts), (len(used), len(ngrams)))

        place = np.full(bag.shape[1], -1)
        place[used] = np.arange(len(used))
        return ngrams, _selected(bag, place, len(used)) @ ngrams_of_word


# ---- of a model


class VocabularyIndex(NamedTuple):
    """Hash table of the words of a model, with its settings; kept with its `TextSchema`."""

    table: Table
    settings: TextFeatureSettings
    of_tokenizer: TextSettings


INDEX_OF: WeakKeyDictionary[TextSchema, VocabularyIndex] = WeakKeyDictionary()


def index_of(schema: TextSchema) -> VocabularyIndex:
    """The index of a vocabulary, made once."""
    index = INDEX_OF.get(schema)
    if index is None:
        settings = TextFeatureSettings.from_options(schema.settings)
        of_tokenizer = settings.of_tokenizer()
        tokenizer = new_tokenizer(of_tokenizer)
        words = [word.encode("utf-8") for word in schema.vocabulary]
        tokenizer.tokenize(TOKEN_END.join([*words, b""]), 0, True, is_whole=True)
        index = INDEX_OF[schema] = VocabularyIndex(tokenizer.table, settings, of_tokenizer)
    return index


class KnownTextFeatures(TextFeatures):
    """The words and n-grams of a `TextSchema`, in time that does not depend on how many it has.

    A column after these counts the words of each row that are none of them.
    """

    def __init__(self, schema: TextSchema, budget: MemoryBudget) -> None:
        self._schema = schema
        self._index = index_of(schema)
        self._budget = budget
        self._parts: list[csr_matrix] = []

    def finish(self) -> tuple[csr_matrix, TextSchema]:
        parts = self._parts
        self._parts = []
        if len(parts) == 1:
            return parts[0], self._schema
        empty = csr_matrix((0, self._n_features + 1), dtype=float32)
        return csr_matrix(vstack([empty, *parts], "csr")), self._schema

    @property
    def _n_features(self) -> int:
        """How many words and n-grams there are; the column of unknown words comes after them."""
        return self._schema.n_features

    def _add(self, texts: list[bytes]) -> None:
        settings = self._index.settings
        n_words = len(self._schema.vocabulary)
        tokenizer = new_tokenizer(self._index.of_tokenizer)
        tokens, indptr = tokens_of(tokenizer, texts)
        row = np.repeat(np.arange(len(texts)), np.diff(indptr))
        places = np.full(tokenizer.n_types, -1, np.int32)
        find_numbers(tokenizer.table, self._index.table, n_words, places)
        rows = [row]
        places[places < 0] = self._n_features
        columns = [places[1:][tokens].astype(int64)]

        if int(settings.word_ngrams or 1) > 1:
            hashes, row_of_ngram = word_ngrams(tokenizer, tokens, row, settings)
            rows.append(row_of_ngram)
            columns.append(self._columns_of(hashes))
        if settings.char_ngrams is not None:
            hashes, starts = char_ngrams(words_of(tokenizer), settings.char_ngrams, settings)
            ngram_places, ngram_indptr = places_of(starts, tokens)
            rows.append(np.repeat(row, np.diff(ngram_indptr)))
            columns.append(self._columns_of(hashes)[ngram_places])

        counts = self._counted(np.concatenate(rows), np.concatenate(columns), len(texts))
        self._budget.take(2 * (counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes))
        self._parts.append(counts)

    def _columns_of(self, hashes: ndarray) -> ndarray:
        """The columns of n-grams, -1 for those that are none, int64."""
        places = _places(hashes, self._schema.hashes)
        return np.where(places < 0, -1, places + len(self._schema.vocabulary))

    def _counted(self, row: ndarray, column: ndarray, n_rows: int) -> csr_matrix:
        """How often each row has each column, without columns -1; indices are sorted."""
        n_columns = self._n_features + 1
        is_kept = column >= 0
        cells = row[is_kept] * n_columns + column[is_kept]
        cells, counts_of_cells = np.unique(cells, return_counts=True)
        starts = np.searchsorted(cells, np.arange(n_rows + 1) * n_columns).astype(np.int32)
        column = (cells % n_columns).astype(np.int32)
        data = counts_of_cells.astype(float32)
        counts = csr_matrix((data, column, starts), (n_rows, n_columns))
        counts.has_canonical_format = True
        return counts


def _joined(batches: list[Counted], keys: ndarray) -> csr_matrix:
    """The counts of these words or n-grams in the rows of all batches."""
    parts = [_selected(counts, _places(hashes, keys), len(keys)) for hashes, counts in batches]
    return vstack(parts or [csr_matrix((0, len(keys)))])


def _frequent(counted: list[Counted], min_count: int) -> ndarray:
    """The words or n-grams that are in enough rows, int64, ascending."""
    keys_of_all = distinct(np.concatenate([np.empty(0, int64), *(keys for keys, _ in counted)]))
    counts = np.zeros(len(keys_of_all), int64)
    for keys, rows in counted:
        counts[_places(keys, keys_of_all)] += np.bincount(rows.indices, minlength=len(keys))
    return keys_of_all[counts >= min_count]


def _places(hashes: ndarray, among: ndarray) -> ndarray:
    """The index of each hash in a sorted array, -1 where it is not in there."""
    if not len(among):
        return np.full(len(hashes), -1)
    place = np.minimum(np.searchsorted(among, hashes), len(among) - 1)
    return np.where(among[place] == hashes, place, -1)


def _selected(matrix: csr_matrix, column: ndarray, n: int) -> csr_matrix:
    """The matrix with its column k moved to `column[k]` of n; -1 leaves it out."""
    kept = column >= 0
    ones = np.ones(np.count_nonzero(kept), float32)
    return matrix @ csr_matrix((ones, column[kept], offsets_of(kept)), (len(column), n))

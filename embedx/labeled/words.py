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
import re
from collections.abc import Iterable
from typing import NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from numpy import float32, int64, ndarray
from scipy.sparse import csr_matrix, hstack, vstack

from embedx.labeled.data import FileRows, Labels, TextSchema, offsets_of, places_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, Numbering, decoded
from embedx.settings import Settings, param
from embedx.text.characters import SEPARATES, Characters
from embedx.text.ngram_hashes import OF_NEXT_WORD, bucket_lists, hash_words
from embedx.text.ngrams import ngrams
from embedx.text.settings import TextSettings
from embedx.text.tables import TOKEN_END
from embedx.text.tokenizer import Table, Tokenizer, look_up

PREFIX = "__label__"
MARK = b"\x01"  # before each row
BATCH_BYTES = 1 << 22  # of rows that are tokenised together
# punctuation at the end of a word
ATTACHED = re.compile(r"\w[.,;:!?\"')\u3001\u3002\uff0c\uff01\uff1f]+(?=\s|$)")
# of words that it ends, from which on text is raw: news have .09, and .01 after tokenisation
RAW_SHARE = 0.03
RAW_NGRAMS = 2
MAX_HASHES = 2**31 - 1  # of character n-grams

# numbers of words or hashes of n-grams, int64 ascending, and their counts in each row
Counted = tuple[ndarray, csr_matrix]


class TextFeatureSettings(Settings):
    """Which words and n-grams of a text are features. What is None is decided by the text."""

    panel = "Text"

    word_ngrams: int | None = param(
        None,
        "text: maximum length of word n-grams; by default 2 for raw text, 1 for tokenised text",
        at_least=1,
        at_most=20,
    )
    char_ngrams: str | None = param(
        None,
        "text: lengths of character n-grams of words, such as 3-5; by default none",
        metavar="min-max",
    )
    min_ngram_count: int = param(
        2, "text: ignore n-grams that occur in fewer training rows", at_least=1, fine=True
    )
    buckets: int = param(
        0, "text: number of hash buckets for n-grams; 0: no hashing", at_least=0, fine=True
    )
    tokenizer: str | None = param(
        None,
        "text: how it is split into words; `whitespace`: at white space only, `words`: into runs of"
        " letters, marks and digits; by default words for raw text",
        choices=("whitespace", "words"),
    )
    lowercase: bool | None = param(None, "text: convert to lower case; by default for raw text")
    min_count: int = param(1, "text: ignore words that occur in fewer training rows", at_least=1)
    label_prefix: str = param(PREFIX, "text: prefix of labels in lines", fine=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.char_ngrams is not None:
            ngrams(self.char_ngrams, 1, "--char-ngrams")

    def for_text(self, text: str) -> "TextFeatureSettings":
        """The settings with nothing left open, as the beginning of a text suggests."""
        is_raw = len(ATTACHED.findall(text)) > RAW_SHARE * len(text.split())
        words = RAW_NGRAMS if is_raw else 1
        return dataclasses.replace(
            self,
            word_ngrams=self.word_ngrams or words,
            tokenizer=self.tokenizer or ("words" if is_raw else "whitespace"),
            lowercase=is_raw if self.lowercase is None else self.lowercase,
        )

    def of_tokenizer(self) -> TextSettings:
        """The settings of the tokeniser, where nothing is left open."""
        return TextSettings(tokenizer=str(self.tokenizer), lowercase=bool(self.lowercase))


class TextFeatures(abc.ABC):
    """Counts the words and n-grams of texts, a row for each."""

    def rows(self, texts: Iterable[str | bytes]) -> csr_matrix:
        """The features of these texts and of all added before, float32 (n_rows, n_features)."""
        self.add(texts)
        return self.finish()[0]

    def add(self, texts: Iterable[str | bytes]) -> None:
        """Count further rows. Raises `EmbedxError` if they take too much memory."""
        batch, size = [], 0
        for text in texts:
            in_bytes = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            batch.append(in_bytes.replace(MARK, b" "))
            size += len(in_bytes)
            if size > BATCH_BYTES:
                self._add(batch)
                batch, size = [], 0
        if batch:
            self._add(batch)

    @abc.abstractmethod
    def _add(self, texts: list[bytes]) -> None:
        """Count rows that are tokenised together."""

    @abc.abstractmethod
    def finish(self) -> tuple[csr_matrix, TextSchema]:
        """The features of all rows that were added, float32, and by what later rows are read."""


def text_features(
    settings: TextFeatureSettings, budget: MemoryBudget, known: TextSchema | None
) -> TextFeatures:
    """What counts the features of a model, or of training data, which make a new `TextSchema`."""
    if known is not None:
        return KnownTextFeatures(known, budget)
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
    indptr = offsets_of(np.diff(starts, append=len(tokens)) - 1)
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
    of_word = np.empty(tokenizer.n_types - 1, int64)
    hash_words(tokenizer.table.letters, tokenizer.table.starts[1:], of_word)
    of_token = of_word[tokens]
    h, hashes, rows = of_token, [of_token[:0]], [row[:0]]
    for n in range(1, int(settings.word_ngrams or 1)):
        h = h[:-1] * OF_NEXT_WORD + of_token[n:]
        is_within = row[: len(h)] == row[n:]
        hashes.append(h[is_within])
        rows.append(row[: len(h)][is_within])
    h = np.concatenate(hashes)
    if settings.buckets:
        h = (h.view(np.uint64) % settings.buckets).view(int64)
    return h, np.concatenate(rows)


def char_ngrams(
    words: list[bytes], lengths: str, settings: TextFeatureSettings
) -> tuple[ndarray, ndarray]:
    """The hashes of the character n-grams of each word, int64, and where those of a word begin."""
    spec = ngrams(lengths, settings.buckets or MAX_HASHES)
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
        self._n_words = 0  # that memory was counted for
        self._bags: list[Counted] = []  # of words, by their number
        self._ngrams: list[Counted] = []

    def finish(self) -> tuple[csr_matrix, TextSchema]:
        words = words_of(self._prepared(b""))
        kept = _frequent(self._bags, self.settings.min_count)
        hashes = _frequent(self._ngrams, self.settings.min_ngram_count)
        vocabulary = [words[k].decode("utf-8") for k in kept.tolist()]
        parts: list[csr_matrix] = []
        for counted, keys in ((self._bags, kept), (self._ngrams, hashes)):
            if len(keys) or not parts:
                found = [_selected(rows, _places(own, keys), len(keys)) for own, rows in counted]
                parts.append(vstack(found or [csr_matrix((0, len(keys)))]))
        self._bags, self._ngrams = [], []
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
        self._budget.take((n_words - self._n_words) * WORD_BYTES)
        self._n_words = n_words
        bag = csr_matrix((np.ones(len(tokens), float32), tokens, indptr), (len(texts), n_words))
        bag.sum_duplicates()
        self._keep(bag)
        self._bags.append((np.arange(n_words), bag))
        found = self._hashes(tokens, indptr, bag)
        if found is not None:
            hashes, rows = found
            rows.sum_duplicates()
            self._keep(rows)
            self._budget.take(hashes.nbytes)
            self._ngrams.append((hashes, rows))

    def _keep(self, matrix: csr_matrix) -> None:
        """Count the memory of a matrix, which is held twice when all are joined."""
        self._budget.take(matrix.data.nbytes + matrix.indices.nbytes + 2 * matrix.indptr.nbytes)

    def _hashes(self, tokens: ndarray, indptr: ndarray, bag: csr_matrix) -> Counted | None:
        """The n-grams of rows of words, if there are to be any."""
        found = []
        if int(self.settings.word_ngrams or 1) > 1:
            found.append(self._word_ngrams(tokens, indptr))
        if self.settings.char_ngrams is not None:
            found.append(self._char_ngrams(self.settings.char_ngrams, bag))
        if len(found) < 2:
            return found[0] if found else None
        both = np.unique(np.concatenate([hashes for hashes, _ in found]))
        a, b = (_selected(rows, _places(hashes, both), len(both)) for hashes, rows in found)
        return both, a + b

    def _word_ngrams(self, tokens: ndarray, indptr: ndarray) -> Counted:
        row = np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        h, row = word_ngrams(self._prepared(b""), tokens, row, self.settings)
        distinct, column = np.unique(h, return_inverse=True)
        return distinct, csr_matrix(
            (np.ones(len(h), float32), (row, column)), (len(indptr) - 1, len(distinct))
        )

    def _char_ngrams(self, lengths: str, bag: csr_matrix) -> Counted:
        used, words = np.unique(bag.indices), words_of(self._prepared(b""))
        hashes, starts = char_ngrams([words[k] for k in used.tolist()], lengths, self.settings)
        distinct, column = np.unique(hashes, return_inverse=True)
        place = np.full(bag.shape[1], -1)
        place[used] = np.arange(len(used))
        of_words = csr_matrix(
            (np.ones(len(column), float32), column, starts), (len(used), len(distinct))
        )
        return distinct, _selected(bag, place, len(used)) @ of_words


# ---- of a model


class VocabularyIndex(NamedTuple):
    """By what the words of a model are found; kept with its `TextSchema`."""

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
    """The words and n-grams of a `TextSchema`, in time that does not depend on how many it has."""

    def __init__(self, schema: TextSchema, budget: MemoryBudget) -> None:
        self._schema = schema
        self._index = index_of(schema)
        self._budget = budget
        self._parts: list[csr_matrix] = []

    def finish(self) -> tuple[csr_matrix, TextSchema]:
        n_features = len(self._schema.vocabulary) + len(self._schema.hashes)
        parts, self._parts = self._parts, []
        if len(parts) == 1:
            return parts[0], self._schema
        empty = csr_matrix((0, n_features), dtype=float32)
        return csr_matrix(vstack([empty, *parts], "csr")), self._schema

    def _add(self, texts: list[bytes]) -> None:
        settings, n_words = self._index.settings, len(self._schema.vocabulary)
        tokenizer = new_tokenizer(self._index.of_tokenizer)
        tokens, indptr = tokens_of(tokenizer, texts)
        row = np.repeat(np.arange(len(texts)), np.diff(indptr))
        places = np.full(tokenizer.n_types, -1, np.int32)
        look_up(tokenizer.table, self._index.table, n_words, places)
        rows, columns = [row], [places[1:][tokens].astype(int64)]
        if int(settings.word_ngrams or 1) > 1:
            hashes, row_of_ngram = word_ngrams(tokenizer, tokens, row, settings)
            rows.append(row_of_ngram)
            columns.append(self._columns_of(hashes))
        if settings.char_ngrams is not None:
            hashes, starts = char_ngrams(words_of(tokenizer), settings.char_ngrams, settings)
            which, ends = places_of(starts, tokens)
            rows.append(np.repeat(row, np.diff(ends)))
            columns.append(self._columns_of(hashes)[which])
        counts = self._counted(np.concatenate(rows), np.concatenate(columns), len(texts))
        self._budget.take(2 * (counts.data.nbytes + counts.indices.nbytes + counts.indptr.nbytes))
        self._parts.append(counts)

    def _columns_of(self, hashes: ndarray) -> ndarray:
        """The columns of n-grams, -1 for those that are none, int64."""
        places = _places(hashes, self._schema.hashes)
        return np.where(places < 0, -1, places + len(self._schema.vocabulary))

    def _counted(self, row: ndarray, column: ndarray, n_rows: int) -> csr_matrix:
        """How often each column stands in each row, where it is one; columns ascend."""
        n_features = len(self._schema.vocabulary) + len(self._schema.hashes)
        is_known = column >= 0
        cells = row[is_known] * n_features + column[is_known]
        cells, times = np.unique(cells, return_counts=True)
        starts = np.searchsorted(cells, np.arange(n_rows + 1) * n_features)
        column = (cells % max(n_features, 1)).astype(np.int32)
        counts = csr_matrix((times.astype(float32), column, starts), (n_rows, n_features))
        counts.has_canonical_format = True
        return counts


def _frequent(counted: list[Counted], least: int) -> ndarray:
    """The words or n-grams that are in enough rows, int64, ascending."""
    distinct = np.unique(np.concatenate([np.empty(0, int64), *(keys for keys, _ in counted)]))
    counts = np.zeros(len(distinct), int64)
    for keys, rows in counted:
        counts[_places(keys, distinct)] += np.bincount(rows.indices, minlength=len(keys))
    return distinct[counts >= least]


def _places(hashes: ndarray, among: ndarray) -> ndarray:
    """The place of each hash among others, which ascend; -1 where it is none of them."""
    if not len(among):
        return np.full(len(hashes), -1)
    place = np.minimum(np.searchsorted(among, hashes), len(among) - 1)
    return np.where(among[place] == hashes, place, -1)


def _selected(matrix: csr_matrix, column: ndarray, n: int) -> csr_matrix:
    """The matrix with `column[k]` of n columns for its column k, which is left out where that is
    -1.
    """
    kept = column >= 0
    ones = np.ones(np.count_nonzero(kept), float32)
    return matrix @ csr_matrix((ones, column[kept], offsets_of(kept)), (len(column), n))


def is_fasttext(lines: Lines, prefix: str = PREFIX) -> bool:
    """Whether the beginning of the text has labels of that kind."""
    return b" " + prefix.encode() in b" " + lines.head.replace(b"\n", b" ")


def features_of_lines(texts: Iterable[bytes], known: TextSchema) -> csr_matrix:
    """The features of lines of text, from which labels are left out."""
    prefix = str(known.settings["label_prefix"]).encode()
    label = re.compile(rb"(?<!\S)" + re.escape(prefix) + rb"\S*")
    features = KnownTextFeatures(known, MemoryBudget("standard input"))
    return features.rows(label.sub(b" ", text) for text in texts)


def read_lines(lines: Lines, settings: TextFeatureSettings, known: TextSchema | None) -> FileRows:
    """fastText's lines, `__label__a __label__b some words here`; labels stand anywhere between
    white space.
    """
    prefix = str(
        settings.label_prefix if known is None else known.settings["label_prefix"]
    ).encode()
    label = re.compile(rb"(?<!\S)" + re.escape(prefix) + rb"\S*")
    labels = Numbering(lines.budget)
    features = text_features(settings, lines.budget, known)
    found = []
    for chunk in lines:
        decoded(lines, chunk)
        rows = chunk.split(b"\n")[:-1]
        found.append(labels.labels_of(map(label.findall, rows)))
        features.add([label.sub(b" ", row) for row in rows])
    matrix, schema = features.finish()
    return FileRows(
        matrix, Labels.joined(found), [name.removeprefix(prefix) for name in labels], text=schema
    )

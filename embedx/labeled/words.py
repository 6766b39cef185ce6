"""Text as features: how often words, n-grams of words and character n-grams stand in each row; and
`__label__` lines.

Columns are first the words, by first appearance, then the n-grams that training rows have, by their
hash: 64 bits for n-grams of words, 32 for those of characters (`embedx.text.ngram_hashes`), so that
there are hardly any collisions and no columns that are never used. `buckets` takes the hash modulo
a number, as fastText does.
"""

import dataclasses
import itertools
import re
from collections.abc import Iterable

import numpy as np
from numpy import float32, int64, ndarray
from scipy.sparse import csr_matrix, hstack, vstack

from embedx.labeled.data import FileRows, Labels, TextSchema, offsets_of
from embedx.labeled.files import Lines, MemoryBudget
from embedx.labeled.schema import WORD_BYTES, Numbering, decoded
from embedx.settings import Settings, param
from embedx.text.characters import SEPARATES
from embedx.text.ngram_hashes import OF_NEXT_WORD, bucket_lists, hash_words
from embedx.text.ngrams import ngrams
from embedx.text.settings import TextSettings
from embedx.text.tables import TOKEN_END
from embedx.text.tokenizer import Tokenizer

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


class TextFeatures:
    """Counts the words and n-grams of texts, a row for each: those of `known`, or all, from which a
    `TextSchema` is made.
    """

    def __init__(
        self, settings: TextFeatureSettings, budget: MemoryBudget, known: TextSchema | None = None
    ) -> None:
        self.settings = (
            settings if known is None else TextFeatureSettings.from_options(known.settings)
        )
        self._budget, self._known = budget, known
        self._tokenizer: Tokenizer | None = None
        self._n_words = 0  # that memory was counted for
        self._bags: list[Counted] = []  # of words, by their number
        self._ngrams: list[Counted] = []

    def rows(self, texts: Iterable[str | bytes]) -> csr_matrix:
        """The features of these texts and of all added before, float32 (n_rows, n_features)."""
        self.add(texts)
        return self.finish()[0]

    def add(self, texts: Iterable[str | bytes]) -> None:
        """Count further rows. Raises `EmbedxError` if they take too much memory."""
        pieces, size = [], 0
        for text in texts:
            each = text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")
            pieces.append(each.replace(MARK, b" "))
            size += len(each)
            if size > BATCH_BYTES:
                self._add(pieces)
                pieces, size = [], 0
        if pieces:
            self._add(pieces)

    def finish(self) -> tuple[csr_matrix, TextSchema]:
        """The features of all rows that were added, float32, and by what later rows are read."""
        self._prepared(b"")
        known = self._known
        if known is None:
            words, kept = self._words(), _frequent(self._bags, self.settings.min_count)
            hashes = _frequent(self._ngrams, self.settings.min_ngram_count)
            known = TextSchema(
                [words[k].decode("utf-8") for k in kept.tolist()], hashes, self.settings.record()
            )
        else:
            kept = np.arange(len(known.vocabulary))
        parts: list[csr_matrix] = []
        for counted, keys in ((self._bags, kept), (self._ngrams, known.hashes)):
            if len(keys) or not parts:
                found = [_selected(rows, _places(own, keys), len(keys)) for own, rows in counted]
                parts.append(vstack(found or [csr_matrix((0, len(keys)))]))
        self._bags, self._ngrams = [], []
        return csr_matrix(hstack(parts, "csr"), dtype=float32), known

    def _words(self) -> list[bytes]:
        """All words by number."""
        tokenizer = self._prepared(b"")
        starts = tokenizer.table.starts[: tokenizer.n_types + 1].tolist()
        letters = tokenizer.table.letters[: starts[-1]].tobytes()
        return [letters[a:b] for a, b in itertools.pairwise(starts[1:])]

    def _prepared(self, text: bytes) -> Tokenizer:
        """The tokeniser, which the first text decides on."""
        if self._tokenizer is None:
            self.settings = self.settings.for_text(
                text.replace(MARK, b" ").decode("utf-8", "replace")
            )
            how = TextSettings(
                tokenizer=str(self.settings.tokenizer), lowercase=bool(self.settings.lowercase)
            )
            self._tokenizer = tokenizer = Tokenizer(how)
            plain = tokenizer.characters.plain.copy()
            plain[MARK[0]], plain[ord("\n")] = MARK[0], SEPARATES  # lines may be those of a row
            tokenizer.characters = tokenizer.characters._replace(plain=plain)
            words = (
                []
                if self._known is None
                else [word.encode("utf-8") for word in self._known.vocabulary]
            )
            tokenizer.tokenize(TOKEN_END.join([MARK, *words, b""]), 0, True, is_whole=True)
        return self._tokenizer

    def _add(self, texts: list[bytes]) -> None:
        tokenizer = self._prepared(b"\n".join(texts))
        tokens = tokenizer.tokenize(
            b"".join(b"%b %b\n" % (MARK, text) for text in texts), 0, True
        ).astype(int64)
        starts = np.flatnonzero(tokens == 0)
        indptr = offsets_of(np.diff(starts, append=len(tokens)) - 1)
        tokens = tokens[tokens > 0] - 1
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
            if self._known is not None:
                place = _places(hashes, self._known.hashes)
                hashes, rows = self._known.hashes, _selected(rows, place, len(self._known.hashes))
            self._keep(rows)
            self._budget.take(hashes.nbytes if self._known is None else 0)
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
        tokenizer, n_buckets = self._prepared(b""), self.settings.buckets
        of_word = np.empty(tokenizer.n_types - 1, int64)
        hash_words(tokenizer.table.letters, tokenizer.table.starts[1:], of_word)
        own, row = of_word[tokens], np.repeat(np.arange(len(indptr) - 1), np.diff(indptr))
        h, hashes, rows = own, [own[:0]], [row[:0]]
        for n in range(1, int(self.settings.word_ngrams or 1)):
            h = h[:-1] * OF_NEXT_WORD + own[n:]
            is_within = row[: len(h)] == row[n:]
            hashes.append(h[is_within])
            rows.append(row[: len(h)][is_within])
        h = np.concatenate(hashes)
        if n_buckets:
            h = (h.view(np.uint64) % n_buckets).view(int64)
        distinct, column = np.unique(h, return_inverse=True)
        where = np.concatenate(rows), column
        return distinct, csr_matrix(
            (np.ones(len(h), float32), where), (len(indptr) - 1, len(distinct))
        )

    def _char_ngrams(self, lengths: str, bag: csr_matrix) -> Counted:
        used, words = np.unique(bag.indices), self._words()
        spec = ngrams(lengths, self.settings.buckets or MAX_HASHES)
        offsets, buckets = bucket_lists([words[k] for k in used.tolist()], spec)
        hashes = np.delete(buckets, offsets[:-1]).astype(int64)
        distinct, column = np.unique(hashes, return_inverse=True)
        starts, place = offsets - np.arange(len(offsets)), np.full(bag.shape[1], -1)
        place[used] = np.arange(len(used))
        of_words = csr_matrix(
            (np.ones(len(column), float32), column, starts), (len(used), len(distinct))
        )
        return distinct, _selected(bag, place, len(used)) @ of_words


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


def read_lines(lines: Lines, settings: TextFeatureSettings, known: TextSchema | None) -> FileRows:
    """fastText's lines, `__label__a __label__b some words here`; labels stand anywhere between
    white space.
    """
    prefix = str(
        settings.label_prefix if known is None else known.settings["label_prefix"]
    ).encode()
    label = re.compile(rb"(?<!\S)" + re.escape(prefix) + rb"\S*")
    labels, features = Numbering(lines.budget), TextFeatures(settings, lines.budget, known)
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

"""From blocks of text to tokens, on one thread or on several, with the same tokens in the same order.

Text is cut into chunks, where words end. Each thread has a tokeniser of its own, which numbers words by first appearance, and
which words are new in a chunk is told with its tokens. Going through the chunks in their order, these few words are looked
up among all words, and the tokens renumbered: a word new to all gets the next number, by first appearance, whoever read it.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np

from embedx.settings import TextSettings
from embedx.text.in_order import in_order
from embedx.text.sources import Source
from embedx.text.streams import TextBlock
from embedx.text.tables import SENTENCE_END
from embedx.text.tokenizer import (
    BAD,
    END_OF_SENTENCE,
    FIRST_BAD,
    LINE_ENDED,
    TOO_LONG,
    BadUtf8Error,
    Tokenizer,
    grown,
    renumber,
)  # fmt: skip

CHUNK_BYTES = 1 << 19  # enough that handing it over costs nothing, little enough to have some for each thread
MAX_CHUNK_BYTES = 1 << 23  # it is cut there whatever stands there
MAX_TYPES, MAX_MEMORY = 1 << 20, 1 << 27  # of a thread's own table, which is begun again where it outgrows them
OWN_SHARE = 0.5  # of the memory for words that the threads' own tables take at most


class Chunk(NamedTuple):
    """A piece of the text of a source, to be tokenised."""

    source: int
    blocks: list[bytes]
    offset: int  # bytes of the source's text before it
    continues: bool  # it begins within a word, and belongs to the thread that had the last one
    is_last: bool  # of its source
    stored: int  # bytes read so far, as stored


class Piece(NamedTuple):
    """The tokens of a chunk."""

    chunk: Chunk
    tokens: list[np.ndarray]  # int32
    bad: int  # ill-formed UTF-8 sequences
    first_bad: int  # byte offset of the first of them in the text of the source
    too_long: int  # words that were left out for their length
    line_ended: int  # whether a line ended after the last token
    table: Tokenizer  # by which the tokens are numbered, and its words when they were
    letters: np.ndarray  # uint8
    starts: np.ndarray  # int64 (n_types + 1,)


class Tokens:
    """Iterates over the tokens of `blocks` of the text of `sources`; when that is over, `words` has all words.

    Raises `BadUtf8Error`. Where the words outgrow `memory`, in bytes, they may be taken between two pieces; the tokens of the
    next one are then numbered from 0 again.
    """

    def __init__(
        self, blocks: Iterable[TextBlock], sources: Sequence[Source], settings: TextSettings, threads: int, memory: int
    ) -> None:
        self.words = Tokenizer(settings)
        self._whole = [source.has_sentences(settings) for source in sources]
        self._chunks = chunks(blocks, self._whole)
        own = min(int(OWN_SHARE * memory / threads), MAX_MEMORY) if threads > 1 else 0
        self._memory = memory - threads * own
        self._workers = [Worker(settings, own) for _ in range(threads)] if threads > 1 else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for worker in self._workers:
            worker.pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[Piece]:
        line_ended = begun = False
        for piece in self._parallel() if self._workers else self._serial():
            if tokens := piece.tokens:
                first = tokens[0]
                if first[0] == END_OF_SENTENCE and not begun:
                    tokens[0] = first[1:]
                elif first[0] != END_OF_SENTENCE and line_ended and begun:
                    tokens.insert(0, np.array([END_OF_SENTENCE], np.int32))
                begun, line_ended = True, False
            line_ended |= bool(piece.line_ended)
            yield piece

    def outgrow(self) -> bool:
        """Whether the words take more memory than they should, or are about to."""
        return self.words.n_types > 0 and self.words.outgrows(self._memory)

    def emptied(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters and starts of all words so far; `words` begins again."""
        for worker in self._workers:
            worker.forget()
        return self.words.emptied()

    def _serial(self) -> Iterator[Piece]:
        return (tokenised(chunk, self._whole[chunk.source], self.words) for chunk in self._chunks)

    def _parallel(self) -> Iterator[Piece]:
        """The tokens of all chunks, in order, by the numbers of all words."""
        for worker, piece in in_order(self._submitted(), 2 * len(self._workers)):
            worker.renumber(piece, self.words)
            yield piece

    def _submitted(self) -> Iterator[Future[tuple["Worker", Piece]]]:
        number = 0
        for chunk in self._chunks:
            number += not chunk.continues
            worker = self._workers[number % len(self._workers)]
            yield worker.pool.submit(worker.read, chunk, self._whole[chunk.source])


def tokenised(chunk: Chunk, whole: bool, table: Tokenizer) -> Piece:
    """The tokens of a chunk by the numbers of a table. Raises `BadUtf8Error`."""
    table.whole = whole
    table.start_chunk(chunk.offset, chunk.continues)
    try:
        arrays = [tokens.copy() for block in chunk.blocks for tokens in table.feed(block)]
        if chunk.is_last:
            arrays += [tokens.copy() for tokens in table.finish_source()]
    except BadUtf8Error as error:
        error.source = chunk.source
        raise
    bad, first_bad, too_long, line_ended = table.state[[BAD, FIRST_BAD, TOO_LONG, LINE_ENDED]].tolist()
    return Piece(chunk, arrays, bad, first_bad, too_long, line_ended, table, table.letters, table.word_starts)


class Worker:
    """A thread that tokenises chunks by a table of its own, which is begun again where it outgrows `memory`."""

    def __init__(self, settings: TextSettings, memory: int) -> None:
        self.pool = ThreadPoolExecutor(1, "embedx-tokens")
        self._settings, self._memory = settings, memory
        self._table = Tokenizer(settings)
        self._is_stale = False
        self._numbered: Tokenizer | None = None  # the table whose words have numbers among all words
        self._numbers = np.empty(0, np.int32)
        self._n_numbered = 0

    def read(self, chunk: Chunk, whole: bool) -> tuple[Self, Piece]:
        """Runs in the thread."""
        is_full = self._is_stale or self._table.n_types > MAX_TYPES or self._table.outgrows(self._memory)
        if is_full and not chunk.continues:
            self._table, self._is_stale = Tokenizer(self._settings), False
        return self, tokenised(chunk, whole, self._table)

    def renumber(self, piece: Piece, words: Tokenizer) -> None:
        """Renumber the tokens of a chunk in place, by the numbers of all words."""
        if piece.table is not self._numbered:
            self._numbered, self._n_numbered = piece.table, 0
        n_types = len(piece.starts) - 1
        if n_types > len(self._numbers):
            self._numbers = grown(self._numbers, 2 * n_types)
        words.enter(piece.letters, piece.starts, np.arange(self._n_numbered, n_types), self._numbers)
        self._n_numbered = n_types
        for tokens in piece.tokens:
            renumber(tokens, self._numbers)

    def forget(self) -> None:
        """No word has a number any more. Those of chunks that are being read are entered again, whether these have them or not:
        words that were seen before keep their place among all.
        """
        self._is_stale, self._n_numbered = True, 0


def chunks(blocks: Iterable[TextBlock], whole: Sequence[bool]) -> Iterator[Chunk]:
    """The blocks put together to chunks that end where words do, of `whole` sources with SENTENCE_END."""
    pieces: list[bytes] = []
    offset = size = 0
    continues = False
    for source, data, stored in blocks:
        if not data:
            yield Chunk(source, pieces, offset, continues, True, stored)
            pieces, offset, size, continues = [], 0, 0, False
            continue
        pieces.append(data)
        size += len(data)
        if size < CHUNK_BYTES:
            continue
        cut = data.rfind(SENTENCE_END) + 1 if whole[source] else max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        if cut or size >= MAX_CHUNK_BYTES:
            rest = data[cut:] if cut else b""
            if cut:
                pieces[-1] = data[:cut]
            yield Chunk(source, pieces, offset, continues, False, stored)
            offset += size - len(rest)
            pieces, size, continues = [rest] if rest else [], len(rest), not cut

"""From blocks of text to tokens, on one thread or on several, with the same tokens in the same order.

Text is cut into chunks, where words end. Each thread has a tokeniser of its own, which numbers words as it meets them, and
which words are new in a chunk is told with its tokens. Going through the chunks in their order, these few words are looked
up among all words, and the tokens numbered anew: a word new to all gets the next number, by first appearance, whoever read it.
"""

import collections
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import NamedTuple, Self

import numpy as np

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.text.records import SENTENCE_END
from embedx.text.sources import Source
from embedx.text.streams import TextBlock
from embedx.text.tokenizer import END_OF_SENTENCE, NO_NUMBER, Tokenizer, grown, renumber, without_number

CHUNK_BYTES = 1 << 19  # enough that handing it over costs nothing, little enough to have some for each thread
MOST_CHUNK_BYTES = 1 << 23  # it is cut there whatever stands there
MOST_TYPES, MOST_MEMORY = 1 << 20, 1 << 27  # of a thread's own table, which is begun anew where it outgrows them
OWN_SHARE = 0.5  # of the memory for words that the threads' own tables take at most


class Chunk(NamedTuple):
    """A piece of the text of a source, to be tokenised."""

    source: int
    blocks: list[bytes]
    offset: int  # bytes of the source's text before it
    goes_on: bool  # it begins within a word, and belongs to the thread that had the last one
    is_last: bool  # of its source
    stored: int  # bytes read so far, as stored


class Piece(NamedTuple):
    """What became of a chunk."""

    source: int
    tokens: list[np.ndarray]  # int32
    bad: int  # ill-formed UTF-8 sequences
    first_bad: int  # byte offset of the first of them in the text of the source
    too_long: int  # words that were left out for their length
    is_last: bool
    stored: int


class Words(NamedTuple):
    """A chunk by the words of a thread's own table, and whether a line ended after the last of its tokens."""

    table: Tokenizer
    letters: np.ndarray  # uint8
    starts: np.ndarray  # int64 (n_types + 1,)
    piece: Piece
    line_ended: bool


class Tokens:
    """Iterates over what becomes of `blocks` of the text of `sources`; when that is over, `words` has all words and counts.

    Raises `BadUtf8Error` as `source`, the number of the source that is at fault, says. Where the words outgrow `memory`, in
    bytes, they may be taken between two pieces; the tokens of the next one are then numbered from 0 again.
    """

    def __init__(
        self, blocks: Iterable[TextBlock], sources: Sequence[Source], settings: TextSettings, threads: int, memory: int
    ) -> None:
        self.words = Tokenizer(settings)
        self.source = 0
        self._whole = [source.has_sentences(settings) for source in sources]
        self._chunks = chunks(blocks, self._whole)
        self._settings = settings
        own = min(int(OWN_SHARE * memory / threads), MOST_MEMORY) if threads > 1 else 0
        self._memory = memory - threads * own
        self._readers = [Reader(settings, None if threads > 1 else self.words, own) for _ in range(threads)]
        self._known = [Known(self.words) for _ in self._readers]
        self._pools = [ThreadPoolExecutor(1, "embedx-tokens") for _ in range(threads)] if threads > 1 else []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[Piece]:
        line_ended = begun = False
        for number, found in self._found():
            tokens = found.piece.tokens if not self._pools else self._known[number].renumbered(found)
            if tokens:
                first = tokens[0]
                if first[0] == END_OF_SENTENCE and not begun:
                    tokens[0] = first[1:]
                elif first[0] != END_OF_SENTENCE and line_ended and begun:
                    tokens.insert(0, np.array([END_OF_SENTENCE], np.int32))
                begun, line_ended = True, False
            line_ended |= found.line_ended
            yield found.piece._replace(tokens=tokens)
        for each in self._known if self._pools else []:
            each.add_counts()

    def outgrow(self) -> bool:
        """Whether the words take more memory than they should, or are about to."""
        return self.words.n_types > 0 and self.words.outgrows(self._memory)

    def emptied(self) -> tuple[np.ndarray, np.ndarray]:
        """The letters and starts of all words so far; `words` begins anew, and its counts are of no use from then on."""
        for each in self._known:
            each.forget()
        return self.words.emptied()

    def _found(self) -> Iterator[tuple[int, Words]]:
        """What each chunk holds, in order, with the number of its reader."""
        number = 0
        if not self._pools:
            for chunk in self._chunks:
                self.source = chunk.source
                yield 0, self._readers[0].read(chunk, self._whole[chunk.source])
            return
        waiting: collections.deque[tuple[int, int, Future[Words]]] = collections.deque()
        failure: EmbedxError | None = None
        while True:
            try:
                chunk = next(self._chunks)
            except StopIteration:
                break
            except EmbedxError as error:  # to be raised when it is its turn
                failure = error
                break
            if not chunk.goes_on:
                number = (number + 1) % len(self._pools)
            read, whole = self._readers[number].read, self._whole[chunk.source]
            waiting.append((number, chunk.source, self._pools[number].submit(read, chunk, whole)))
            if len(waiting) > 2 * len(self._pools):
                yield self._next(waiting)
        while waiting:
            yield self._next(waiting)
        if failure is not None:
            raise failure

    def _next(self, waiting: collections.deque[tuple[int, int, Future[Words]]]) -> tuple[int, Words]:
        number, self.source, future = waiting.popleft()
        return number, future.result()


class Reader:
    """Tokenises chunks, by `table` or by tables of its own."""

    def __init__(self, settings: TextSettings, table: Tokenizer | None, memory: int) -> None:
        self.settings, self.memory = settings, memory
        self.is_own = table is None
        self.table = table or self._new_table()

    def read(self, chunk: Chunk, whole: bool) -> Words:
        """The words and tokens of a chunk."""
        if self.is_own and not chunk.goes_on and (self.table.n_types > MOST_TYPES or self.table.outgrows(self.memory)):
            self.table = self._new_table()
        table = self.table
        table.whole = whole
        table.start_chunk(chunk.offset, chunk.goes_on)
        arrays = [tokens.copy() for block in chunk.blocks for tokens in table.feed(block)]
        if chunk.is_last:
            arrays += [tokens.copy() for tokens in table.finish_source()]
        piece = Piece(
            chunk.source, arrays, table.bad, table.first_bad, table.too_long, chunk.is_last, chunk.stored
        )  # fmt: skip
        return Words(table, table.letters, table.word_starts, piece, table.line_ended)

    def _new_table(self) -> Tokenizer:
        table = Tokenizer(self.settings)
        table.begun = True  # others may have had words before
        return table


class Known:
    """The words of one thread as those of all."""

    def __init__(self, words: Tokenizer) -> None:
        self.words = words
        self.table: Tokenizer | None = None
        self.n_types = 0
        self.numbers = np.empty(0, np.int32)  # of each of the thread's words among all
        self.has_forgotten = False

    def renumbered(self, found: Words) -> list[np.ndarray]:
        """The tokens of a chunk by the numbers of all words."""
        if found.table is not self.table:
            self.add_counts()
            self.table, self.n_types = found.table, 0
        n_types = len(found.starts) - 1
        if n_types > len(self.numbers):
            self.numbers = grown(self.numbers, 2 * n_types)
        new = np.arange(self.n_types, n_types)
        self.n_types = n_types
        if self.has_forgotten:
            self.numbers[new] = NO_NUMBER
        else:
            self.words.enter(found.letters, found.starts, new, self.numbers)
        for tokens in found.piece.tokens:
            if self.has_forgotten:
                which = np.empty(len(tokens), np.int64)
                n = without_number(tokens, self.numbers, which)
                self.words.enter(found.letters, found.starts, which[:n], self.numbers)
            renumber(tokens, self.numbers)
        return found.piece.tokens

    def forget(self) -> None:
        """There are no words of all any more: from here on a word of the thread gets its number when a token is that word."""
        self.has_forgotten = True
        self.numbers[: self.n_types] = NO_NUMBER

    def add_counts(self) -> None:
        """Add how often the thread saw its words, when it is done with its table; not once some were forgotten."""
        if self.table is not None and not self.has_forgotten:
            self.words.counts[self.numbers[: self.n_types]] += self.table.counts


def chunks(blocks: Iterable[TextBlock], whole: Sequence[bool]) -> Iterator[Chunk]:
    """The blocks put together to chunks that end where words do, of `whole` sources with SENTENCE_END."""
    pieces: list[bytes] = []
    offset = size = 0
    goes_on = False
    for source, data, stored in blocks:
        if not data:
            yield Chunk(source, pieces, offset, goes_on, True, stored)
            pieces, offset, size, goes_on = [], 0, 0, False
            continue
        pieces.append(data)
        size += len(data)
        if size < CHUNK_BYTES:
            continue
        cut = data.rfind(SENTENCE_END) + 1 if whole[source] else max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        if cut or size >= MOST_CHUNK_BYTES:
            rest = data[cut:] if cut else b""
            if cut:
                pieces[-1] = data[:cut]
            yield Chunk(source, pieces, offset, goes_on, False, stored)
            offset += size - len(rest)
            pieces, size, goes_on = [rest] if rest else [], len(rest), not cut

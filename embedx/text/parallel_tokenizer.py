"""From blocks of text to tokens, on one thread or on several, with the same tokens in the same order.

Text is cut into chunks, where words end. Each thread has a tokeniser of its own, which numbers words by first appearance. The
chunks are renumbered in their order: the words that are new in a chunk are looked up among all words, and a word that is new
there too gets the next number. So the numbers do not depend on the threads.
"""

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.text.in_order import in_order
from embedx.text.sources import Source
from embedx.text.streams import TextBlock
from embedx.text.tables import SENTENCE_END
from embedx.text.tokenizer import BAD, ERROR, FIRST_BAD, TOO_LONG, Table, Tokenizer, grown, renumber
from embedx.text.word_list import WordList

CHUNK_BYTES = 1 << 19  # enough that handing it over costs nothing, little enough to have some for each thread
MAX_CHUNK_BYTES = 1 << 23  # it is cut there, even within a word
MAX_TYPES, MAX_MEMORY = 1 << 20, 1 << 27  # of a thread's own table; a larger one is replaced by an empty one
OWN_SHARE = 0.5  # of the memory for words that the threads' own tables take at most


class Chunk(NamedTuple):
    """A piece of the text of a source, to be tokenised."""

    source: int
    data: bytes
    offset: int  # bytes of the source's text before it
    continues: bool  # it begins within a word, and belongs to the thread that had the last one
    is_last: bool  # of its source
    stored: int  # bytes read so far, as stored


class Piece(NamedTuple):
    """The tokens of a chunk."""

    chunk: Chunk
    tokens: np.ndarray  # int32
    bad: int  # ill-formed UTF-8 sequences
    first_bad: int  # byte offset of the first of them in the text of the source
    too_long: int  # words that were left out for their length
    table: Table  # by which the tokens are numbered
    n_types: int  # its words up to there


class ThreadTable:
    """The words of one thread, and their numbers among all words."""

    def __init__(self, settings: TextSettings, segment: int) -> None:
        self.tokenizer = Tokenizer(settings)
        self.made_in = self.segment = segment  # of all text; `numbers` are those of `segment`
        self.numbers = np.empty(0, np.int32)
        self.n_numbered = 0


class Tokens:
    """Iterates over the tokens of `blocks` of the text of `sources`; when that is over, `words` has all words.

    Raises `EmbedxError` for bad UTF-8, where that is an error. Where the words outgrow `memory`, in bytes, they may be taken
    between two pieces: another segment of the text begins, whose tokens are numbered from 0 again.
    """

    def __init__(
        self, blocks: Iterable[TextBlock], sources: Sequence[Source], settings: TextSettings, threads: int, memory: int
    ) -> None:
        self.words = Tokenizer(settings)
        self._settings = settings
        self._sources = sources
        self._whole = [source.has_sentences(settings) for source in sources]
        self._chunks = chunks(blocks, self._whole)
        self._pools = [ThreadPoolExecutor(1, "embedx-tokens") for _ in range(threads)] if threads > 1 else []
        self._own = min(int(OWN_SHARE * memory / threads), MAX_MEMORY)
        self._memory = memory - len(self._pools) * self._own
        self._segment = 0
        self._tables = [ThreadTable(settings, 0) for _ in self._pools]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        for pool in self._pools:
            pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[Piece]:
        if not self._pools:
            for chunk in self._chunks:
                yield self._tokenized(chunk, self.words)
            return
        for table, piece in in_order(self._submitted(), 2 * len(self._pools)):
            if table.segment != self._segment:
                table.segment, table.n_numbered = self._segment, 0
            if piece.n_types > len(table.numbers):
                table.numbers = grown(table.numbers, 2 * piece.n_types)
            self.words.enter(piece.table, table.n_numbered, piece.n_types, table.numbers)
            table.n_numbered = piece.n_types
            renumber(piece.tokens, table.numbers)
            yield piece

    def outgrow(self) -> bool:
        """Whether the words take more memory than they should, or are about to."""
        return self.words.n_types > 0 and self.words.outgrows(self._memory)

    def emptied(self) -> WordList:
        """All words of the segment, which ends here."""
        self._segment += 1
        return self.words.emptied()

    def _submitted(self) -> Iterator[Future[tuple[ThreadTable, Piece]]]:
        """Chunks in turn to the threads; one that continues a word goes to the thread of the one before."""
        number = 0
        for chunk in self._chunks:
            number += not chunk.continues
            thread = number % len(self._pools)
            yield self._pools[thread].submit(self._by_thread, thread, chunk)

    def _by_thread(self, thread: int, chunk: Chunk) -> tuple[ThreadTable, Piece]:
        """Runs in the thread, which alone uses its table."""
        table = self._tables[thread]
        is_full = table.tokenizer.n_types > MAX_TYPES or table.tokenizer.outgrows(self._own)
        if not chunk.continues and (is_full or table.made_in != self._segment):
            table = self._tables[thread] = ThreadTable(self._settings, self._segment)
        return table, self._tokenized(chunk, table.tokenizer)

    def _tokenized(self, chunk: Chunk, words: Tokenizer) -> Piece:
        """The tokens of a chunk by the numbers of `words`."""
        tokens = words.tokenize(chunk.data, chunk.offset, chunk.is_last, self._whole[chunk.source])
        bad, first_bad, too_long = words.state[[BAD, FIRST_BAD, TOO_LONG]].tolist()
        if bad and words.on_bad == ERROR:
            raise EmbedxError(
                f"{self._sources[chunk.source].name}: not UTF-8 at byte {first_bad} of the (unpacked) text; "
                "convert it with iconv -t UTF-8, or choose --on-bad-utf8 replace or skip"
            )
        return Piece(chunk, tokens, bad, first_bad, too_long, words.table, words.n_types)


def chunks(blocks: Iterable[TextBlock], whole: Sequence[bool]) -> Iterator[Chunk]:
    """The blocks put together to chunks that end where words do, of `whole` sources with SENTENCE_END."""
    pieces: list[bytes] = []
    offset = size = 0
    continues = False
    for source, data, stored in blocks:
        pieces.append(data)
        size += len(data)
        if data and size < CHUNK_BYTES:
            continue
        cut = data.rfind(SENTENCE_END) + 1 if whole[source] else max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        if data and not cut and size < MAX_CHUNK_BYTES:
            continue
        rest = data[cut:] if cut else b""
        pieces[-1] = data[: len(data) - len(rest)]
        yield Chunk(source, b"".join(pieces), offset, continues, not data, stored)
        offset, continues = (offset + size - len(rest), not cut) if data else (0, False)
        pieces, size = [rest], len(rest)

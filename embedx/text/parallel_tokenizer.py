"""From blocks of text to tokens, on one thread or on several, with the same tokens in the same
order.

Text is cut into chunks, where words end. Threads tokenise them, each with a table of its own, which
numbers words by first appearance and fits into a core's own cache, and look its words up among
those of all chunks that are done. The rest, few words, is looked up in the order of the chunks by
one thread, and a word that is new gets the next number. So the numbers do not depend on the
threads.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

import numpy as np

from embedx.errors import DataError, Setting
from embedx.text.in_order import in_order
from embedx.text.read_ahead import TextBlock
from embedx.text.settings import TextSettings
from embedx.text.sources import Source
from embedx.text.tables import SENTENCE_END
from embedx.text.tokenizer import BAD, FIRST_BAD, TOO_LONG, Tokenizer, look_up, renumber

CHUNK_BYTES = 1 << 20  # enough that looking up its words takes little time beside finding them
MAX_CHUNK_BYTES = 1 << 23  # it is cut there, even within a word


class Chunk(NamedTuple):
    """A piece of the text of a source, to be tokenised."""

    source: int
    data: bytes
    offset: int  # bytes of the source's text before it
    continues: bool  # it begins within a word, and needs the table of the last one
    is_last: bool  # of its source
    stored: int  # bytes read so far, as stored


class Piece(NamedTuple):
    """The tokens of a chunk."""

    chunk: Chunk
    tokens: np.ndarray  # int32
    bad: int  # ill-formed UTF-8 sequences
    first_bad: int  # byte offset of the first of them in the text of the source
    too_long: int  # words that were left out for their length
    words: Tokenizer  # by whose table the tokens are numbered
    # int32: of its words up to there, among all words; -1 where it is yet to be found
    numbers: np.ndarray
    segment: int  # how often all words had been taken out when they were looked up


def pieces(
    blocks: Iterable[TextBlock],
    sources: Sequence[Source],
    settings: TextSettings,
    threads: int,
    words: Tokenizer,
) -> Generator[Piece, None, None]:
    """The tokens of blocks of the text of `sources`, by the numbers of `words`, which gets all
    words.

    The words may be taken out between two pieces: tokens are numbered from 0 again. Raises
    `EmbedxError` for bad UTF-8, where that is an error.
    """
    cut = chunks(blocks, [source.has_sentences(settings) for source in sources])

    def tokenized(chunk: Chunk, last: Future[Piece] | None) -> Piece:
        """The tokens of a chunk, their words looked up among those that are known by now."""
        own, source = last.result().words if last else Tokenizer(settings), sources[chunk.source]
        table, n_known, segment = known
        tokens = own.tokenize(
            chunk.data, chunk.offset, chunk.is_last, source.has_sentences(settings)
        )
        bad, first_bad, too_long = own.state[[BAD, FIRST_BAD, TOO_LONG]].tolist()
        if bad and settings.on_bad_utf8 == "error":
            replace = (Setting("on_bad_utf8", "replace"), " or skip")
            remedy = ("convert it with iconv -t UTF-8, or choose ", replace)
            raise DataError(
                source.name, None, f"not UTF-8 at byte {first_bad} of the (unpacked) text", remedy
            )
        numbers = np.full(own.n_types, -1, np.int32)
        look_up(own.table, table, n_known, numbers)
        return Piece(chunk, tokens, bad, first_bad, too_long, own, numbers, segment)

    def submitted() -> Iterator[Future[Piece]]:
        last = None
        for chunk in cut:
            last = pool.submit(tokenized, chunk, last if chunk.continues else None)
            yield last

    known = words.table, words.n_types, words.segment
    pool = ThreadPoolExecutor(threads, "embedx-tokens")
    try:
        for piece in in_order(submitted(), 2 * threads - 2):
            # the words that it was looked up among were taken out meanwhile
            if piece.segment != words.segment:
                piece.numbers.fill(-1)
            words.enter(piece.words.table, piece.numbers)
            renumber(piece.tokens, piece.numbers)
            known = words.table, words.n_types, words.segment
            yield piece
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def chunks(blocks: Iterable[TextBlock], whole: Sequence[bool]) -> Iterator[Chunk]:
    """The blocks put together to chunks that end where words do, of `whole` sources with
    SENTENCE_END.
    """
    pieces = []
    offset = size = 0
    continues = False
    for source, data, stored in blocks:
        pieces.append(data)
        size += len(data)
        if data and size < CHUNK_BYTES:
            continue
        cut = (
            data.rfind(SENTENCE_END) + 1
            if whole[source]
            else max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        )
        if data and not cut and size < MAX_CHUNK_BYTES:
            continue
        rest = data[cut:] if cut else b""
        pieces[-1] = data[: len(data) - len(rest)]
        yield Chunk(source, b"".join(pieces), offset, continues, not data, stored)
        offset, continues = (offset + size - len(rest), not cut) if data else (0, False)
        pieces, size = [rest], len(rest)

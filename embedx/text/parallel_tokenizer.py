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
from typing import NamedTuple, Self

import numpy as np

from embedx.errors import DataError, Setting
from embedx.text.in_order import in_order
from embedx.text.read_ahead import TextBlock
from embedx.text.settings import TextSettings
from embedx.text.sources import Source
from embedx.text.tables import SENTENCE_END
from embedx.text.tokenizer import BAD, FIRST_BAD, TOO_LONG, Table, Tokenizer, look_up, renumber

# Enough that looking up the words of a chunk takes little time beside finding them.
CHUNK_BYTES = 1 << 20
# A chunk is cut there, even within a word.
MAX_CHUNK_BYTES = 1 << 23


class TextChunk(NamedTuple):
    """A part of the text of sources[source], to be tokenised.

    offset     bytes of the source's text before it
    continues  it begins within a word, and needs the table of the chunk before it
    is_last    it ends the text of its source
    stored     bytes read from all sources so far, as stored
    """

    source: int
    data: bytes
    offset: int
    continues: bool
    is_last: bool
    stored: int


class TokenizedChunk(NamedTuple):
    """The tokens of a chunk.

    tokens     int32
    bad        ill-formed UTF-8 sequences
    first_bad  byte offset of the first of them in the text of the source
    too_long   words that were left out for their length
    words      has the table by which the tokens are numbered, until they are renumbered
    numbers    int32: the number among all words of each word of that table; -1 where it is yet to
               be found
    segment    how often all words had been taken out when these were looked up
    """

    chunk: TextChunk
    tokens: np.ndarray
    bad: int
    first_bad: int
    too_long: int
    words: Tokenizer
    numbers: np.ndarray
    segment: int


class KnownWords(NamedTuple):
    """The first `n_types` words of a table, which may grow meanwhile, and its segment."""

    table: Table
    n_types: int
    segment: int

    @classmethod
    def of(cls, words: Tokenizer) -> Self:
        """The words of a tokenizer as they are now."""
        return cls(words.table, words.n_types, words.segment)


def tokenized_chunks(
    blocks: Iterable[TextBlock],
    sources: Sequence[Source],
    settings: TextSettings,
    threads: int,
    words: Tokenizer,
) -> Generator[TokenizedChunk, None, None]:
    """The tokens of blocks of the text of `sources`, by the numbers of `words`, which gets all
    words.

    The words may be taken out between two chunks: tokens are numbered from 0 again. Raises
    `EmbedxError` for bad UTF-8, where that is an error.
    """
    cut = chunks(blocks, [source.has_sentences(settings) for source in sources])

    def tokenized(chunk: TextChunk, before: Future[TokenizedChunk] | None) -> TokenizedChunk:
        """The tokens of a chunk, their words looked up among those that are known by now."""
        tokenizer = Tokenizer(settings) if before is None else before.result().words
        return _tokenized(chunk, tokenizer, sources[chunk.source], settings, known)

    def submitted() -> Iterator[Future[TokenizedChunk]]:
        last = None
        for chunk in cut:
            last = pool.submit(tokenized, chunk, last if chunk.continues else None)
            yield last

    known = KnownWords.of(words)
    pool = ThreadPoolExecutor(threads, "embedx-tokens")
    try:
        for chunk_of_tokens in in_order(submitted(), 2 * threads - 2):
            if chunk_of_tokens.segment != words.segment:
                # the words among which its words were looked up were taken out meanwhile
                chunk_of_tokens.numbers.fill(-1)
            words.enter(chunk_of_tokens.words.table, chunk_of_tokens.numbers)
            renumber(chunk_of_tokens.tokens, chunk_of_tokens.numbers)
            known = KnownWords.of(words)
            yield chunk_of_tokens
    finally:
        pool.shutdown(wait=False, cancel_futures=True)


def _tokenized(
    chunk: TextChunk,
    tokenizer: Tokenizer,
    source: Source,
    settings: TextSettings,
    known: KnownWords,
) -> TokenizedChunk:
    """The tokens of a chunk by a tokenizer, whose words are looked up among the known ones."""
    has_sentences = source.has_sentences(settings)
    tokens = tokenizer.tokenize(chunk.data, chunk.offset, chunk.is_last, has_sentences)
    bad, first_bad, too_long = tokenizer.state[[BAD, FIRST_BAD, TOO_LONG]].tolist()
    if bad and settings.on_bad_utf8 == "error":
        problem = f"not UTF-8 at byte {first_bad} of the (unpacked) text"
        replace = (Setting("on_bad_utf8", "replace"), " or skip")
        remedy = ("convert it with iconv -t UTF-8, or choose ", replace)
        raise DataError(source.name, None, problem, remedy)
    numbers = np.full(tokenizer.n_types, -1, np.int32)
    look_up(tokenizer.table, known.table, known.n_types, numbers)
    return TokenizedChunk(
        chunk, tokens, bad, first_bad, too_long, tokenizer, numbers, known.segment
    )


def chunks(blocks: Iterable[TextBlock], has_sentences: Sequence[bool]) -> Iterator[TextChunk]:
    """The blocks put together to chunks that end where words do or, of sources that have
    sentences, where these do.
    """
    blocks_of_chunk = []
    offset = size = 0
    continues = False
    for source, data, stored in blocks:
        blocks_of_chunk.append(data)
        size += len(data)
        if data and size < CHUNK_BYTES:
            continue
        if has_sentences[source]:
            cut = data.rfind(SENTENCE_END) + 1
        else:
            cut = max(data.rfind(b"\n"), data.rfind(b" ")) + 1
        if data and not cut and size < MAX_CHUNK_BYTES:
            continue
        rest = data[cut:] if cut else b""
        blocks_of_chunk[-1] = data[: len(data) - len(rest)]
        yield TextChunk(source, b"".join(blocks_of_chunk), offset, continues, not data, stored)
        if data:
            offset += size - len(rest)
            continues = not cut
        else:
            # the next block begins another source
            offset = 0
            continues = False
        blocks_of_chunk = [rest]
        size = len(rest)

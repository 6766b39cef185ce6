"""From blocks of text to tokens, on one thread or on several, with the same tokens in the same
order.

Text is divided into chunks at ends of words. Each thread tokenises chunks with its own table, which
numbers words by first appearance and fits into the cache of a core, and looks its words up among
the words of all finished chunks. One thread looks up the few remaining words, in the order of the
chunks, and gives new words the next numbers. So the numbers do not depend on the threads.
"""

from collections.abc import Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple, Self

import numpy as np

from embedx.errors import DataError, Setting
from embedx.text.file_kinds import TO_UTF8
from embedx.text.in_order import in_order
from embedx.text.read_ahead import TextBlock
from embedx.text.settings import TextSettings
from embedx.text.sources import Source
from embedx.text.tables import SENTENCE_END
from embedx.text.tokenizer import (
    FIRST_BAD,
    N_BAD,
    N_TOO_LONG,
    Table,
    Tokenizer,
    find_numbers,
    renumber,
)

# Large enough that looking up the words of a chunk takes little time compared to tokenising it.
CHUNK_BYTES = 1 << 20
# Maximum size of a chunk; a longer one is cut, even within a word.
MAX_CHUNK_BYTES = 1 << 23


class TextChunk(NamedTuple):
    """A part of the text of sources[source], to be tokenised.

    offset     number of bytes of the source's text before the chunk
    continues  whether it begins within a word, and needs the table of the previous chunk
    is_last    whether it is the last chunk of its source
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
    bad        number of ill-formed UTF-8 sequences
    first_bad  byte offset of the first of them in the text of the source
    too_long   number of words left out because of their length
    words      tokenizer with the table by which the tokens are numbered, until they are renumbered
    numbers    int32: for each word of that table its number among all words; -1 if not yet known
    generation  that of the table of all words when these were looked up, see `KnownWords`
    """

    chunk: TextChunk
    tokens: np.ndarray
    bad: int
    first_bad: int
    too_long: int
    words: Tokenizer
    numbers: np.ndarray
    generation: int


class KnownWords(NamedTuple):
    """The first `n_types` words of a table, which may grow meanwhile.

    generation  number of times that the table has been emptied
    """

    table: Table
    n_types: int
    generation: int

    @classmethod
    def of(cls, words: Tokenizer) -> Self:
        """The current words of a tokenizer."""
        return cls(words.table, words.n_types, words.generation)


def tokenized_chunks(
    blocks: Iterable[TextBlock],
    sources: Sequence[Source],
    settings: TextSettings,
    threads: int,
    words: Tokenizer,
) -> Generator[TokenizedChunk, None, None]:
    """Tokenise blocks of the text of `sources`; tokens are numbered by `words`, to which all words
    are added.

    `words` may be emptied between two chunks; then tokens are numbered from 0 again. Raises
    `EmbedxError` for bad UTF-8, if the settings make that an error.
    """
    cut = chunks(blocks, [source.has_sentences(settings) for source in sources])

    def tokenized(chunk: TextChunk, before: Future[TokenizedChunk] | None) -> TokenizedChunk:
        """Tokenise a chunk, and look its words up among those known so far."""
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
            if chunk_of_tokens.generation != words.generation:
                # the table in which its words were looked up has been emptied since
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
    """Tokenise a chunk with a tokenizer, and look its words up among the known ones."""
    has_sentences = source.has_sentences(settings)
    tokens = tokenizer.tokenize(chunk.data, chunk.offset, chunk.is_last, has_sentences)
    bad, first_bad, too_long = tokenizer.state[[N_BAD, FIRST_BAD, N_TOO_LONG]].tolist()
    if bad and settings.on_bad_utf8 == "error":
        problem = f"not UTF-8 at byte {first_bad} of the (unpacked) text"
        replace = (Setting("on_bad_utf8", "replace"), " or skip")
        remedy = (TO_UTF8, ", or choose ", replace)
        raise DataError(source.name, None, problem, remedy)
    numbers = np.full(tokenizer.n_types, -1, np.int32)
    find_numbers(tokenizer.table, known.table, known.n_types, numbers)
    return TokenizedChunk(
        chunk, tokens, bad, first_bad, too_long, tokenizer, numbers, known.generation
    )


def chunks(blocks: Iterable[TextBlock], has_sentences: Sequence[bool]) -> Iterator[TextChunk]:
    """Join blocks into chunks that end at the end of a word or, for sources with sentences, of a
    sentence.
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
            # the next block begins a new source
            offset = 0
            continues = False
        blocks_of_chunk = [rest]
        size = len(rest)

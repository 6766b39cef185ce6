"""word2vec's binary file: a first line `words dim`, then for each word the word, a space, and dim little-endian float32.

word2vec.c, `-binary 1`, ends each vector by a newline and gensim did not; both are read. GoogleNews-vectors-negative300.bin.
"""

from collections.abc import Iterator
from typing import BinaryIO

from embedx.errors import EmbedxError
from embedx.training.progress import Progress
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import Format, Found, Opened, Table, check_finite, new_vectors
from embedx.vectors.formats.text_rows import Layout, goes_on_as_text, has_header, header, header_line

IS_IT = "is this really word2vec's binary format?"


class Word2VecBinary(Format):
    name = "word2vec-binary"
    meaning = "binary: a first line `words dim`, then each word and its float32 numbers"
    programs = "word2vec.c, gensim"
    suffixes = (".bin",)
    is_packed = True
    ends_words = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return has_header(head) and not goes_on_as_text(head)

    @classmethod
    def count(cls, name: str, head: bytes) -> int | None:
        return header(name, head).words

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        return read_binary(file.name, file.stream, header(file.name, file.head), progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        yield header_line(table)
        for words, vectors in table.blocks():
            for word, vector in zip(words, vectors.astype("<f4", copy=False), strict=True):
                yield word.encode() + b" " + vector.tobytes() + b"\n"


def read_binary(name: str, stream: BinaryIO, layout: Layout, progress: Progress) -> Found:
    """The words and vectors of a file, of which the header is still to be read."""
    stream.readline()
    count, dim = layout.words or 0, layout.dim
    vectors = new_vectors(f"{name}:1", count, dim)
    space = vectors.data.cast("B") if count else memoryview(b"")
    width = 4 * dim
    words: list[str] = []
    chunk, at = b"", 0
    for row in range(count):
        gap = chunk.find(b" ", at)
        while gap < 0 or len(chunk) < gap + 1 + width:
            # Twice as much each time, so that what looks like a long word is not searched over and over.
            more = stream.read(max(contract.BLOCK_BYTES, len(chunk) - at))
            if not more:
                raise EmbedxError(
                    f"{name}: ends within word {row + 1:,} of {count:,}; the file is cut short: write or fetch it again"
                )
            progress.update(row)
            chunk, at = chunk[at:] + more, 0
            gap = chunk.find(b" ")
            if gap < 0 and len(chunk) > contract.MOST_LINE_BYTES:
                raise EmbedxError(f"{name}: word {row + 1:,} of {count:,} has no end; {IS_IT}")
        words.append(chunk[at:gap].lstrip(b"\n").decode("utf-8", "replace"))  # word2vec.c ends vectors by a newline
        at = gap + 1 + width
        space[row * width : (row + 1) * width] = chunk[gap + 1 : at]
    if (chunk[at:] + stream.read(2)).strip():
        raise EmbedxError(f"{name}: goes on after the {count:,} words that its first line promises; write or fetch it again")
    check_finite(name, words, vectors, IS_IT)
    return Found(words, vectors.astype("f4", copy=False))

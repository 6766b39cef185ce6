"""word2vec's text: a first line `words dim`, then a line for each word. fastText's .vec is the same, with spaces at the ends.

Mikolov's word2vec.c, `-binary 0`; gensim's `load_word2vec_format`.
"""

from collections.abc import Iterator

from embedx.training.progress import Progress
from embedx.vectors.formats.contract import Format, Found, Opened, Table
from embedx.vectors.formats.text_rows import goes_on_as_text, has_header, header, header_line, read_text, text_rows


class Word2Vec(Format):
    name = "word2vec"
    meaning = "text: a first line `words dim`, then a word and its numbers a line"
    programs = "word2vec.c, gensim, fastText's .vec, spaCy"
    suffixes = (".vec", ".txt")
    dtypes = ("float32", "float16")
    is_packed = True
    ends_words = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return has_header(head) and goes_on_as_text(head)

    @classmethod
    def count(cls, name: str, head: bytes) -> int | None:
        return header(name, head).words

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        return read_text(file.name, file.stream, header(file.name, file.head), progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        yield header_line(table)
        yield from text_rows(table)

"""GloVe's text: a line for each word, and nothing before. Its words may hold spaces, as those of Common Crawl do.

Pennington, Socher & Manning 2014, https://nlp.stanford.edu/projects/glove; gensim's `load_word2vec_format(no_header=True)`.
"""

from collections.abc import Iterator

from embedx.training.progress import Progress
from embedx.vectors.formats.contract import Format, Found, Opened, Table
from embedx.vectors.formats.text_rows import Layout, numeric, read_text, text_rows


class Glove(Format):
    name = "glove"
    meaning = "text: as word2vec, without the first line"
    programs = "GloVe, gensim"
    dtypes = ("float32", "float16")
    has_mark = False
    is_packed = True
    ends_words = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        fields = head.partition(b"\n")[0].split()
        return len(fields) > 1 and numeric(fields[-1])

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        fields = file.head.partition(b"\n")[0].split()
        dim = len(fields) - 1
        while dim > 1 and not numeric(fields[-dim]):
            dim -= 1
        return read_text(file.name, file.stream, Layout(None, dim), progress)

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        return text_rows(table)

"""Text in records of JSON or Parquet: some documents, and what is read of them."""

import io

import pyarrow
from pyarrow import parquet

from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.text.tokenizer import END_OF_SENTENCE


def reader_of_sentences(folder):
    """A function that reads the sentences of a file of some name and content, with settings."""

    def read(name, data, **settings):
        (folder / name).write_bytes(data if isinstance(data, bytes) else data.encode())
        sources = find_sources([str(folder / name)])
        sentences = [[]]
        with encode_sources(
            sources, TextSettings(**settings), cache_dir=folder / "cache"
        ) as corpus:
            for token in corpus.tokens.tolist():
                if token == END_OF_SENTENCE:
                    sentences.append([])
                else:
                    sentences[-1].append(corpus.words[token])
        return sentences

    return read


def parquet_of(**columns):
    out = io.BytesIO()
    parquet.write_table(pyarrow.table(columns), out, row_group_size=2)
    return out.getvalue()


DOCUMENTS = [
    {"id": 1, "text": "The cat\nsat é"},
    {"text": "", "x": 0},
    {"text": " "},
    {"text": 'on, "the" mat'},
]


READ = [["The", "cat"], ["sat", "é"], ["on,", '"the"', "mat"]]

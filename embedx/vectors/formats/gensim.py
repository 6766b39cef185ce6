"""gensim's own KeyedVectors: a pickle with the words, and beside it NAME.vectors.npy with the
vectors.

`gensim.models.KeyedVectors.load(NAME)` opens what is written, also with `mmap="r"`. Loading a
pickle runs whatever code is in it, so it is read only with --trust-pickle. gensim itself makes the
pickle, so that it suits the installed version.
"""

from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import DataError, Setting
from embedx.vectors.formats.contract import FileContent, Format, OpenFile, Table, as_vectors


def read(file: OpenFile) -> FileContent:
    """The vectors of a pickle that is trusted, and its counts if there are any."""
    if not file.is_trusted:
        remedy = (
            "write the vectors by gensim's KeyedVectors.save_word2vec_format or, if you trust its"
            " origin, add ",
            Setting("trust_pickle", True),
            " to `embedx.load`, `embedx eval` or `embedx export`",
        )
        problem = "a pickle, perhaps gensim's own format; opening it would run any code in it"
        raise DataError(file.name, None, problem, remedy)
    path = file.path("gensim's own file")
    library = _library(file.name)
    try:
        pickled = library.load(str(path))
        # A Word2Vec or FastText model holds its vectors there.
        keyed_vectors = getattr(pickled, "wv", pickled)
        words = keyed_vectors.index_to_key
        arrays = {"vectors": np.asarray(keyed_vectors.vectors)}
    except Exception as error:  # a pickle can fail in any way
        raise DataError(file.name, None, f"gensim finds no word vectors in it ({error})") from error
    counts = np.asarray(getattr(keyed_vectors, "expandos", {}).get("count", np.nan))
    if counts.dtype.kind in "iu":
        arrays["counts"] = counts
    return as_vectors(file.name, words, arrays)


def write(path: Path, table: Table) -> None:
    """Write a pickle, and the vectors beside it."""
    keyed = _library(path.name)(table.rows.shape[1], count=0)
    keyed.index_to_key = list(table.words)
    keyed.key_to_index = {word: row for row, word in enumerate(table.words)}
    keyed.vectors = table.arrays()["vectors"]
    if table.counts is not None:
        keyed.expandos["count"] = np.array(table.counts, np.int64)
    keyed.save(str(path), separately=["vectors"])


def _library(name: str) -> Any:
    """gensim's KeyedVectors."""
    try:
        from gensim.models import KeyedVectors
    except ImportError as error:
        raise DataError(name, None, "gensim's format needs gensim", "pip install gensim") from error
    return KeyedVectors


GENSIM = Format(
    name="gensim",
    meaning="gensim's own: a pickle, and NAME.vectors.npy beside it; read only where it is trusted",
    programs="gensim.models.KeyedVectors.load",
    suffixes=(".kv", ".wordvectors"),
    dtypes=("float32", "float16"),
    recognises=lambda head: head.startswith(b"\x80"),
    read=read,
    write=write,
)

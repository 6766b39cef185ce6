"""The registry of vector file formats, one line each, and how the format of a file is recognised;
see `contract`.

A word that occurs twice keeps its first vector, as in gensim, and a note counts them.
"""

import io
import operator
import os
from pathlib import Path

from embedx import registry
from embedx.errors import DataError, Setting, near_file
from embedx.runtime.progress import SILENT, Progress
from embedx.storage.schema import as_utf8, is_utf8
from embedx.text.decompression import UnpackedReader
from embedx.text.recipes import public_url
from embedx.text.sources import COMPRESSED, Source, is_url
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import Format, Found, Opened

# Each as file.NAME of this folder. A file is of the first that recognises it: safetensors may begin
# like a pickle, but no pickle continues like them, and much looks like GloVe's text.
REGISTRY = (
    "word2vec.WORD2VEC",
    "word2vec.WORD2VEC_BINARY",
    "fasttext.FASTTEXT",
    "npz.NPZ",
    "safetensors.SAFETENSORS",
    "parquet.PARQUET",
    "gensim.GENSIM",
    "word2vec.GLOVE",
    "static_embedding.STATIC_EMBEDDING",
    "model_folder.MODEL_FOLDER",
)

FORMATS: dict[str, Format] = registry.load(__name__, REGISTRY)

KNOWN = (
    f"embedx reads {', '.join(name for name, each in FORMATS.items() if not each.is_folder)} files"
)


def of_suffix(out: Path) -> str | None:
    """The default format for a file or folder of this name, compressed or not; None if no format
    has its suffix.
    """
    suffix = _suffix(out)
    return next((name for name, each in FORMATS.items() if suffix in each.suffixes), None)


def of_name(out: Path) -> str:
    """The same, and word2vec's text where the name has no suffix. Raises EmbedxError for an unknown
    one.
    """
    found = of_suffix(out)
    if found is None and _suffix(out):
        raise DataError(
            out,
            None,
            f"unknown suffix {_suffix(out)}",
            ("add ", Setting("format"), f", or choose a known one: {by_name()}"),
        )
    return found or "word2vec"


def _suffix(out: Path) -> str:
    return out.with_suffix("").suffix if out.suffix in COMPRESSED else out.suffix


def by_name() -> str:
    """Which names mean which formats, for a help text."""
    return ", ".join(
        f"{' or '.join(each.suffixes)} {name}" for name, each in FORMATS.items() if each.suffixes
    )


def meanings() -> str:
    """What each format is, for a help text."""
    return "; ".join(f"`{name}` {each.meaning}" for name, each in FORMATS.items())


# ---- reading


def read(path: str | Path, progress: Progress = SILENT, trust_pickle: bool = False) -> Found:
    """The words and vectors of a file of any format, plain, compressed or remote.

    With `trust_pickle` also those of gensim's own files, which may run any code. Raises EmbedxError
    with file, line and remedy.
    """
    name = str(path)
    if not (is_url(name) or os.path.exists(name)):
        raise DataError(
            name, None, "no such file or model folder", f"{near_file(name, 'check the name')}"
        )
    with UnpackedReader(
        Source(public_url(name), "vectors", None, location=name)
    ) as file:  # once, for it may be a pipe
        head = b""
        while len(head) < contract.HEAD_BYTES and (
            piece := file.read(contract.HEAD_BYTES - len(head))
        ):
            head += piece
        file.unread(head)
        stream = io.BufferedReader(file, contract.BLOCK_BYTES)
        reader = next((each.read for each in FORMATS.values() if each.recognises(head)), None)
        if reader is None:
            raise DataError(
                name, 1, "neither a header `words dim` nor a word with its vector", KNOWN
            )
        found = reader(Opened(name, head, stream, progress, trust_pickle))
    if not found.words:
        raise DataError(name, None, "holds no word", KNOWN)
    return without_duplicates(name, with_readable_names(name, found, progress), progress)


def with_readable_names(name: str, found: Found, progress: Progress) -> Found:
    """The same with U+FFFD in place of bytes that are not UTF-8, and a note if there are any."""
    words = [word if is_utf8(word) else as_utf8(word) for word in found.words]
    n_replaced = sum(map(operator.ne, words, found.words))
    if n_replaced:
        n_merged = len(set(found.words)) - len(set(words))
        progress.warn(
            f"{name}: {n_replaced:,} of {len(words):,} words are not UTF-8, and get U+FFFD"
            f" for what cannot be read; {n_merged:,} become equal to others and are left out; if"
            " the file is text in Latin-1, convert it with iconv -f LATIN1 -t UTF-8"
        )
    return found._replace(words=words)


def without_duplicates(name: str, found: Found, progress: Progress) -> Found:
    """The same with each word once, with the first of its vectors."""
    first_rows: dict[str, int] = {}
    for row, word in enumerate(found.words):
        first_rows.setdefault(word, row)
    rows = list(first_rows.values())
    if len(rows) == len(found.words):
        return found
    progress.note(
        f"{name}: {len(found.words) - len(rows):,} words occur twice; the first vector of each is"
        " kept"
    )
    counts, own = (None if each is None else each[rows] for each in (found.counts, found.own))
    return Found(
        [found.words[row] for row in rows], found.vectors[rows], counts, own, found.subwords
    )

"""The registry of vector file formats, one line each, and how the format of a file is recognised;
see `contract`.

A word that occurs twice keeps its first vector, as in gensim, and a note counts them.
"""

import io
import operator
import os
from pathlib import Path

from embedx import registry
from embedx.errors import DataError, Setting, counted, no_such, public_url
from embedx.runtime.progress import SILENT, Progress
from embedx.storage.schema import as_utf8, is_utf8
from embedx.text.decompression import UnpackedReader
from embedx.text.sources import COMPRESSED, Source, is_url
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import FileContent, Format, OpenFile

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

READ_FORMATS = ", ".join(name for name, format in FORMATS.items() if not format.is_folder)
REMEDY = f"give a {READ_FORMATS} file"
# By the first bytes, in lower case: what a file of no known format is, and the remedy, if it is not
# REMEDY.
OTHER_FILES = {
    b"pk\x03\x04": ("a zip archive, as of PyTorch or Keras, without vectors of numpy", ""),
    b"\x89hdf": ("an HDF5 file, as of Keras", ""),
    b"sqlite format 3": ("an SQLite database, as of Magnitude", ""),
    b"gguf": ("a language model in GGUF", ""),
    b"version https://git-lfs": ("a pointer of Git LFS", "fetch the file itself: git lfs pull"),
    b"<!doctype html": ("an HTML page", "download the file itself"),
    b"<html": ("an HTML page", "download the file itself"),
    b"{": ("JSON", ""),
    b"[": ("JSON", ""),
}


def of_suffix(out: Path) -> str | None:
    """The default format for a file or folder of this name, compressed or not; None if no format
    has its suffix.
    """
    suffix = _suffix(out)
    return next((name for name, format in FORMATS.items() if suffix in format.suffixes), None)


def of_name(out: Path) -> str:
    """The same, and word2vec's text where the name has no suffix. Raises EmbedxError for an unknown
    one.
    """
    suffix = _suffix(out)
    if not suffix:
        return "word2vec"
    name = of_suffix(out)
    if name is None:
        remedy = ("add ", Setting("format"), f", or choose a known one: {by_name()}")
        raise DataError(out, None, f"unknown suffix {suffix}", remedy)
    return name


def _suffix(out: Path) -> str:
    """The suffix of a name, without that of a compression."""
    return out.with_suffix("").suffix if out.suffix in COMPRESSED else out.suffix


def by_name() -> str:
    """Which names mean which formats, for a help text."""
    return ", ".join(
        f"{' or '.join(format.suffixes)} {name}"
        for name, format in FORMATS.items()
        if format.suffixes
    )


def meanings() -> str:
    """What each format is, for a help text."""
    return "; ".join(f"`{name}` {format.meaning}" for name, format in FORMATS.items())


# ---- reading


def read(path: str | Path, progress: Progress = SILENT, trust_pickle: bool = False) -> FileContent:
    """The words and vectors of a file of any format, plain, compressed or remote.

    With `trust_pickle` also those of gensim's own files, which may run any code. Raises EmbedxError
    with file, line and remedy.
    """
    location = str(path)
    name = public_url(location)
    if not (is_url(location) or os.path.exists(location)):
        raise no_such("file or model folder", name)
    source = Source(name, "vectors", None, location=location)
    # OpenFile once, for it may be a pipe.
    with UnpackedReader(source) as file:
        head = _head_of(file)
        stream = io.BufferedReader(file, contract.BLOCK_BYTES)
        read_content = next((f.read for f in FORMATS.values() if f.recognises(head)), None)
        if read_content is None:
            raise unknown_format(name, head)
        content = read_content(OpenFile(name, head, stream, progress, trust_pickle))
    if not content.words:
        raise DataError(name, None, "holds no word", REMEDY)
    return without_duplicates(name, with_readable_names(name, content, progress), progress)


def unknown_format(name: str, head: bytes) -> DataError:
    """The error for a file that is of no known format, by its first bytes."""
    if not head:
        return DataError(name, None, "0 bytes", REMEDY)
    start = head.lstrip().lower()
    for kind_start, (kind, remedy) in OTHER_FILES.items():
        if start.startswith(kind_start):
            return DataError(name, None, kind, remedy or REMEDY)
    problem = "neither a header `words dim` nor a word with its vector"
    return DataError(name, 1, problem, REMEDY)


def _head_of(file: UnpackedReader) -> bytes:
    """The first HEAD_BYTES of a file, or all of it; the file is as before."""
    head = b""
    while len(head) < contract.HEAD_BYTES:
        piece = file.read(contract.HEAD_BYTES - len(head))
        if not piece:
            break
        head += piece
    file.unread(head)
    return head


def with_readable_names(name: str, content: FileContent, progress: Progress) -> FileContent:
    """The same with U+FFFD in place of bytes that are not UTF-8, and a note if there are any."""
    words = [word if is_utf8(word) else as_utf8(word) for word in content.words]
    n_replaced = sum(map(operator.ne, words, content.words))
    if n_replaced:
        n_merged = len(set(content.words)) - len(set(words))
        progress.warn(
            f"{name}: {n_replaced:,} of {len(words):,} words are not UTF-8, and get U+FFFD"
            f" for what cannot be read; {n_merged:,} become equal to others and are left out; if"
            " the file is text in Latin-1, convert it with iconv -f LATIN1 -t UTF-8"
        )
    return content._replace(words=words)


def without_duplicates(name: str, content: FileContent, progress: Progress) -> FileContent:
    """The same with each word once, with the first of its vectors."""
    first_rows: dict[str, int] = {}
    for row, word in enumerate(content.words):
        first_rows.setdefault(word, row)
    n_repeated = len(content.words) - len(first_rows)
    if n_repeated == 0:
        return content
    repeated = counted(n_repeated, "vector")
    progress.note(f"{name}: left out: {repeated} of words that occur before them")
    rows = [*first_rows.values()]
    return content._replace(
        words=[*first_rows],
        vectors=content.vectors[rows],
        counts=None if content.counts is None else content.counts[rows],
        word_parts=None if content.word_parts is None else content.word_parts[rows],
    )

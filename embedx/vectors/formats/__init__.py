"""The registry of vector file formats, one line each, and how the format of a file is recognised; see `contract`.

A word that occurs twice keeps its first vector, as in gensim, and a note counts them.
"""

import io
import os
from pathlib import Path

import numpy as np

from embedx import registry
from embedx.errors import EmbedxError
from embedx.text.sources import COMPRESSED, Source, is_url
from embedx.text.streams import UnpackedReader
from embedx.training.progress import Progress, Silent
from embedx.vectors.formats import contract
from embedx.vectors.formats.contract import Format, Found, Opened

# Each as file.Class of this folder, in the order of help texts. A file is of the first that recognises it, of those with a
# mark first: safetensors may begin like a pickle, but no pickle continues like them.
REGISTRY = (
    "word2vec.Word2Vec",
    "word2vec.Word2VecBinary",
    "word2vec.Glove",
    "fasttext.FastText",
    "npz.Npz",
    "safetensors.Safetensors",
    "parquet.Parquet",
    "gensim.GensimKeyedVectors",
    "static_embedding.StaticEmbedding",
    "model_folder.ModelFolder",
)

FORMATS: dict[str, type[Format]] = registry.load(__name__, REGISTRY)

# First bytes of files one may take for vectors, and what to do with them instead.
FOREIGN = {
    b"\x93NUMPY": "a bare numpy array without words; give the model folder",
    b"PK\x03\x04": "a zip archive; unpack it first",
}
KNOWN = f"embedx reads {', '.join(name for name, each in FORMATS.items() if not each.is_folder)} files"


def of_suffix(out: Path) -> str | None:
    """The default format for a file or folder of this name, compressed or not; None if no format has its suffix."""
    suffix = _suffix(out)
    return next((name for name, each in FORMATS.items() if suffix in each.suffixes), None)


def of_name(out: Path) -> str:
    """The same, and word2vec's text where the name has no suffix. Raises EmbedxError for an unknown one."""
    found = of_suffix(out)
    if found is None and _suffix(out):
        raise EmbedxError(f"{out}: unknown suffix {_suffix(out)}; add --format, or choose a known one: {by_name()}")
    return found or "word2vec"


def _suffix(out: Path) -> str:
    return out.with_suffix("").suffix if out.suffix in COMPRESSED else out.suffix


def by_name() -> str:
    """Which names mean which formats, for a help text."""
    named = {name: each.suffixes for name, each in FORMATS.items() if each.suffixes}
    return ", ".join(f"{' or '.join(suffixes)} {name}" for name, suffixes in named.items())


def meanings() -> str:
    """What each format is, for a help text."""
    return "; ".join(f"`{name}` {each.meaning}" for name, each in FORMATS.items())


def markdown_table() -> str:
    """The formats as a table, for docs/words.md."""
    rows = [("`--format`", "by name", "what it is", "known to", "numbers", "needs"), ("---",) * 6]
    for name, each in FORMATS.items():
        suffixes = " ".join(f"`{suffix}`" for suffix in each.suffixes) or "-"
        needs = f"`embedx[{each.extra}]`" if each.extra else "-"
        rows.append((f"`{name}`", suffixes, each.meaning, each.programs, ", ".join(each.dtypes), needs))
    return "\n".join("| " + " | ".join(row) + " |" for row in rows)


# ---- reading


def read(path: str | Path, progress: Progress | None = None, trust_pickle: bool = False) -> Found:
    """The words and vectors of a file of any format, plain, compressed or remote, or of a folder of another program.

    With `trust_pickle` also those of gensim's own files, which may run any code. Raises EmbedxError with file, line and remedy.
    """
    name, progress = str(path), progress or Silent()
    if not (is_url(name) or os.path.exists(name)):
        raise EmbedxError(f"{name}: no such file or model folder")
    if os.path.isdir(name):
        format = format_of_folder(Path(name))
        if format is None:
            raise EmbedxError(f"{name}: no folder of a format that is read; give a file, or a model folder")
        found = format.read_folder(Path(name), progress)
    else:
        with UnpackedReader(Source(name, "vectors", None)) as file:  # once, for it may be a pipe
            head = first_bytes(file)
            file.unread(head)
            format = format_of(name, head)
            progress.start("Reading vectors", format.count(name, head), "words")
            stream = io.BufferedReader(file, contract.BLOCK_BYTES)
            found = format.read(Opened(name, head, stream, trust_pickle), progress)
            progress.finish()
    if not found.words:
        raise EmbedxError(f"{name}: holds no word; {KNOWN}")
    return without_duplicates(name, found, progress)


def format_of_folder(folder: Path) -> type[Format] | None:
    """The format of another program's folder; None if it is none."""
    return next((each for each in FORMATS.values() if each.recognises_folder(folder)), None)


def format_of(name: str, head: bytes) -> type[Format]:
    """The format of a file that begins with `head`. Raises EmbedxError if it has none."""
    able = sorted((each for each in FORMATS.values() if each.recognises(head)), key=lambda each: not each.has_mark)
    if not (able and able[0].has_mark):
        for magic, advice in FOREIGN.items():
            if head.startswith(magic):
                raise EmbedxError(f"{name}: this is {advice}")
    if not able:
        raise EmbedxError(f"{name}:1: neither a header `words dim` nor a word with its vector; {KNOWN}")
    return able[0]


def first_bytes(file: UnpackedReader) -> bytes:
    """HEAD_BYTES of it, or all."""
    pieces = []
    n_bytes = contract.HEAD_BYTES
    while n_bytes and (piece := file.read(n_bytes)):
        pieces.append(piece)
        n_bytes -= len(piece)
    return b"".join(pieces)


def without_duplicates(name: str, found: Found, progress: Progress) -> Found:
    """The same with each word once, with the first of its vectors."""
    first = {word: row for row, word in reversed(list(enumerate(found.words)))}
    if len(first) == len(found.words):
        return found
    rows = np.sort(np.fromiter(first.values(), np.int64, len(first)))
    progress.note(f"{name}: {len(found.words) - len(rows):,} words occur twice; the first vector of each is kept")
    counts, own = (None if each is None else each[rows] for each in (found.counts, found.own))
    return Found([found.words[row] for row in rows.tolist()], found.vectors[rows], counts, own, found.subwords)

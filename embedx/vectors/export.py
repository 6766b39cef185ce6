"""Word vectors in the formats of other programs. `FORMATS` lists them; `embedx.vectors.formats` reads each of them back.

Numbers are written with the fewest digits that give the same float32 again. These formats end a word at white space, so
white space within a word becomes `_`.
"""

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import smart_open
from smart_open import compression

from embedx.errors import EmbedxError
from embedx.run import locks
from embedx.run.folder import beside, leftovers, sync, sync_folder
from embedx.run.progress import Progress, Silent
from embedx.run.schema import row_blocks
from embedx.vectors import fasttext_bin
from embedx.vectors.model import WordVectors

Pieces = Iterator[bytes]


class Format(NamedTuple):
    """A way to write vectors: what the command line says of it, and the bytes for some words and their vectors."""

    meaning: str
    header: bool
    rows: Callable[[list[str], np.ndarray], Pieces]


def text_rows(words: list[str], vectors: np.ndarray) -> Pieces:
    for word, vector in zip(words, vectors, strict=True):
        yield f"{word} {' '.join(map(str, vector))}\n".encode()


def binary_rows(words: list[str], vectors: np.ndarray) -> Pieces:
    for word, vector in zip(words, vectors.astype("<f4", copy=False), strict=True):
        yield word.encode() + b" " + vector.tobytes() + b"\n"


FORMATS = {
    "word2vec": Format("word2vec text, also fastText's .vec: a header, then a word and its numbers a line", True, text_rows),
    "word2vec-binary": Format("word2vec binary: a header, then each word and its float32 numbers", True, binary_rows),
    "glove": Format("GloVe text: as word2vec, without the header", False, text_rows),
}

FASTTEXT = "fasttext"  # a whole model


def usual_format(out: Path) -> str:
    """What a file of this name is expected to hold: binary for .bin, compressed or not, and text otherwise."""
    return "word2vec-binary" if ".bin" in out.suffixes[-2:] else "word2vec"


def export(model: WordVectors, format: str, out: Path, overwrite: bool = False, progress: Progress | None = None) -> Path:
    """Write the word vectors of `model` to the file `out`, compressed if its suffix says so, and return its path.

    The file appears when it is complete; until then it grows in a folder beside its place, OUT.partial-XXXXXXXX. What killed
    processes left of those is deleted by the next that writes the same file. Raises EmbedxError if it exists, cannot be
    written, or two words would become one.
    """
    if format not in (*FORMATS, FASTTEXT):
        raise EmbedxError(f"--format {format}: choose one of {', '.join((*FORMATS, FASTTEXT))}")
    if out.is_dir():
        raise EmbedxError(f"{out}: is a folder; give the name of a file")
    if out.exists() and not out.is_file():
        raise EmbedxError(f"{out}: a pipe or a device, in whose place no file is put; give the name of a file")
    if out.exists() and not overwrite:
        raise EmbedxError(f"{out}: exists already; add --overwrite, or choose another name")
    progress = progress or Silent()
    words = writable(model.words, progress)
    if out.suffix == ".zst":
        raise EmbedxError(f"{out}: .zst is not written; use .gz, .bz2 or .xz, or no suffix")
    suffix = out.suffix if out.suffix in compression.get_supported_extensions() else "disable"
    place = out.resolve()  # where links lead to
    partial, lock = beside(place, "partial"), None
    try:
        partial.mkdir()
        lock = locks.mark(partial)
        with smart_open.open(str(partial / out.name), "wb", compression=suffix) as stream:
            stream.writelines(
                fasttext_pieces(words, model, progress)
                if format == FASTTEXT
                else pieces(FORMATS[format], words, model.vectors, progress)
            )
        with (partial / out.name).open("rb") as written:
            sync(written)
        (partial / out.name).replace(place)
        sync_folder(place.parent)
    except OSError as error:
        raise EmbedxError(f"{out}: cannot be written: {error.strerror or error}; name another file") from error
    finally:
        locks.remove(partial, lock)
    for left in leftovers(place, "partial"):
        locks.remove_if_left(left)
    return out


def fasttext_pieces(words: list[str], model: WordVectors, progress: Progress) -> Pieces:
    """The bytes of a fastText .bin model; see `fasttext_bin`. Raises EmbedxError where a word cannot stand in one."""
    for word, name in zip(model.words, words, strict=True):
        if "\0" in name:
            raise EmbedxError(f"the word {word!r} holds a zero character, which ends words in a fastText .bin model")
        if model.subwords is not None and name != word:
            raise EmbedxError(f"the word {word!r} has white space, without which its n-grams would be others in fastText")
    own = model.arrays.get("word_part", model.vectors)
    return fasttext_bin.pieces(
        words, model.vectors, own, model.output_vectors, model.counts, model.subwords, model.settings, progress
    )


def pieces(format: Format, words: list[str], vectors: np.ndarray, progress: Progress) -> Pieces:
    """The bytes of the whole file."""
    progress.start("Writing vectors", len(words), "words")
    if format.header:
        yield f"{len(words)} {vectors.shape[1]}\n".encode()
    done = 0
    for block in row_blocks(vectors):
        yield from format.rows(words[done : done + len(block)], block)
        done += len(block)
        progress.update(done)
    progress.finish()


def writable(words: list[str], progress: Progress) -> list[str]:
    """`words` with `_` for each white-space character (of ASCII: readers end words at no other)."""
    changed = {word: re.sub(r"[ \t\n\v\f\r]", "_", word) for word in words if not word or re.search(r"[ \t\n\v\f\r]", word)}
    if not changed:
        return words
    if "" in changed:
        raise EmbedxError("the empty word of the model cannot be written in this format; train without it")
    taken = set(words)
    for word, name in changed.items():
        if name in taken:
            raise EmbedxError(
                f"the word {word!r} would be written as {name!r}, which is another word; rename one and train again"
            )
        taken.add(name)
    progress.note(f"white space within {len(changed):,} words is written as `_`")
    return [changed.get(word, word) for word in words]

"""Export of word vectors to the file formats of other programs; `embedx.vectors.formats` is their
registry.

Files are written in a folder beside their place, OUT.partial-XXXXXXXX, until they are complete.
Rows go through memory a block at a time.
"""

import os
import shutil
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from embedx.errors import DataError, Setting, SettingError, counted
from embedx.runtime import atomic
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Settings, param
from embedx.storage import outputs
from embedx.vectors import formats
from embedx.vectors.formats.contract import (
    COMPRESSED,
    DTYPES,
    WHITE_SPACE,
    Format,
    Table,
    write_pieces,
)
from embedx.vectors.model import VECTORS, WordVectors


class ExportSettings(Settings):
    """Settings of `embedx export`."""

    panel = "Format"

    format: str | None = param(
        None,
        f"{formats.meanings()}; by default by the suffix of OUT ({formats.by_name()}), word2vec if"
        " it has none",
        choices=tuple(formats.FORMATS),
    )
    dtype: str = param(
        "float32",
        "type of the numbers; multiply int8 by the word's `scale`, its largest absolute value"
        " / 127",
        choices=tuple(DTYPES),
    )
    top: int | None = param(
        None, "write the first N words, which are the most frequent", at_least=1
    )
    vectors: str = param(
        "input", "the vectors of words, those of the output layer, or their `sum`", choices=VECTORS
    )


def export(
    model: WordVectors,
    format: str | None,
    out: Path,
    overwrite: bool = False,
    progress: Progress = SILENT,
    **options: Any,
) -> Path:
    """Write the word vectors of `model` as the file or folder `out`, compressed if its suffix says
    so, and return its path.

    `options` are the other settings of `ExportSettings`, by name. `out` appears when it is
    complete. Raises EmbedxError if it exists, cannot be written or cannot hold the vectors, or if
    two words would become one.
    """
    settings = ExportSettings(format=format, **options)
    chosen = formats.FORMATS[settings.format or formats.of_name(out)]
    _check_place(out, chosen, overwrite)
    table = _table(model, chosen, settings, progress)
    return _put(out, overwrite, lambda path: chosen.write(path, table))


def export_vocabulary(model: WordVectors, out: Path, overwrite: bool = False) -> Path:
    """Write the words of `model` with their counts, a word a line, as word2vec.c does by
    -save-vocab, and return the path.

    The file is written and errors are raised as by `export`.
    """
    if model.counts is None:
        raise DataError(out, None, "the model has no counts of its words")
    check_free(out, overwrite)
    rows = zip(_writable(model.words, SILENT), model.counts.tolist(), strict=True)
    lines = (f"{word} {count}\n".encode() for word, count in rows)
    return _put(out, overwrite, lambda path: write_pieces(path, lines))


def check_free(out: Path, overwrite: bool) -> None:
    """Raise EmbedxError if no text file can be written there."""
    _check_place(out, formats.FORMATS["word2vec"], overwrite)


def _put(out: Path, overwrite: bool, write: Callable[[Path], None]) -> Path:
    """Call `write` with a path in a new folder beside `out`, then move what it wrote to `out`;
    return `out`.
    """
    place = atomic.followed(out)
    partial = atomic.beside(place, "partial")
    new = partial / "new"
    old = partial / "old"
    try:
        with atomic.errors_named(out):
            partial.mkdir()
            new.mkdir()
            write(new / out.name)
            atomic.sync_files(new)
            if place.is_dir():
                place.rename(old)
            _move(new, out.name, place, overwrite)
    finally:
        if os.path.exists(old) and not place.exists():
            old.rename(place)
        shutil.rmtree(partial, ignore_errors=True)
    return out


def _move(new: Path, name: str, place: Path, overwrite: bool) -> None:
    """Move the file or folder `name` in `new` to `place`, after the files beside it, whose names
    begin with its own.
    """
    beside = [file for file in new.iterdir() if file.name != name]
    moves = [(file, place.with_name(place.name + file.name.removeprefix(name))) for file in beside]
    for _, target in moves:
        if os.path.lexists(target) and not overwrite:
            raise outputs.exists_already(target)
    for source, target in [*moves, (new / name, place)]:
        source.replace(target)
    atomic.sync_folder(place.parent)


def _check_place(out: Path, format: Format, overwrite: bool) -> None:
    """Raise EmbedxError if the format cannot be written there."""
    _check_suffix(out, format)
    if format.owns is None or not out.is_dir():
        outputs.check_file(out, overwrite)
        return
    if not overwrite:
        raise outputs.exists_already(out)
    if not format.owns(out):
        name = Setting("format", format.name)
        problem = ("holds files that ", name, " does not write, so it is not overwritten")
        raise DataError(out, None, problem, "choose another name")


def _check_suffix(out: Path, format: Format) -> None:
    """Raise EmbedxError if the suffix asks for a compression that the format has not."""
    if out.suffix not in (*COMPRESSED, ".zst"):
        return
    if format.is_text and out.suffix in COMPRESSED:
        return
    problem = (Setting("format", format.name), f" is not compressed as {out.suffix}")
    raise DataError(out, None, problem, "choose another suffix, or none")


def _table(
    model: WordVectors, format: Format, settings: ExportSettings, progress: Progress
) -> Table:
    """The table to write. Raises EmbedxError if the model lacks it, or the format
    cannot hold it.
    """
    _check_dtype(settings.dtype, format)
    model = model.of(settings.vectors)
    if not model.vector_size:
        problem = "the vectors have 0 dimensions, so that there is nothing to write"
        raise DataError("model", None, problem)
    n_words = len(model)
    if settings.top is not None:
        n_words = min(settings.top, n_words)
    words = model.words[:n_words]
    if format.has_ngrams and model.subwords is not None:
        _check_ngrams_of(words)
    return Table(
        _writable(words, progress) if format.is_text else words,
        model.vectors[:n_words],
        None if model.counts is None else model.counts[:n_words],
        model,
        settings.dtype,
        progress,
    )


def _check_dtype(dtype: str, format: Format) -> None:
    """Raise EmbedxError if the format does not have numbers of this type."""
    if dtype in format.dtypes:
        return
    others = ", ".join(name for name, other in formats.FORMATS.items() if dtype in other.dtypes)
    problem = ("not available with ", Setting("format", format.name))
    raise SettingError("dtype", dtype, problem, f"use one of {others}")


def _check_ngrams_of(words: Sequence[str]) -> None:
    """Raise EmbedxError for a word whose n-grams a reader would not find, as it is written without
    white space.
    """
    for word in words:
        if WHITE_SPACE.search(word):
            problem = f"the word {word!r} has white space, and its n-grams would differ without"
            raise DataError("model", None, problem, ("choose another ", Setting("format")))


def _writable(words: Sequence[str], progress: Progress) -> Sequence[str]:
    """`words` with `_` for each white-space character (of ASCII: readers end words at no other)."""
    written = [WHITE_SPACE.sub("_", word) for word in words]
    n_changed = sum(name != word for name, word in zip(written, words, strict=True))
    if "" in written:
        problem = "the empty word cannot be written in this format"
        raise DataError("model", None, problem, "train without it")
    if n_changed == 0:
        return written
    for name, times in Counter(written).items():
        if times > 1:
            problem = f"two words would be written as {name!r}"
            raise DataError("model", None, problem, "rename one and train again")
    progress.note(f"white space within {counted(n_changed, 'word')} is written as `_`")
    return written

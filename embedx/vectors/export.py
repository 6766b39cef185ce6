"""Export of word vectors to the file formats of other programs; `embedx.vectors.formats` is their registry.

Files are written in a folder beside their place, OUT.partial-XXXXXXXX, until they are complete. Rows go through memory a block
at a time.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import smart_open
from smart_open import compression

from embedx.errors import EmbedxError
from embedx.settings import Settings, check_used, param
from embedx.storage import locks
from embedx.storage.atomic import beside, leftovers, sync, sync_folder
from embedx.training.progress import Progress, Silent
from embedx.vectors import formats
from embedx.vectors.formats.contract import DTYPES, WHITE_SPACE, Format, Rows, Table
from embedx.vectors.model import VECTORS, WordVectors


@dataclass(frozen=True)
class ExportSettings(Settings):
    """Settings of `embedx export` and `embedx convert`."""

    panel = "Format"

    format: str | None = param(
        None,
        f"{formats.meanings()}; by default by the suffix of OUT ({formats.by_name()}), word2vec if it has none",
        choices=tuple(formats.FORMATS),
    )
    dtype: str = param(
        "float32",
        "type of the numbers; multiply int8 by the word's `scale`, its largest absolute value / 127",
        choices=tuple(DTYPES),
    )
    top: int | None = param(None, "write the first N words, which are the most frequent", at_least=1)
    vectors: str = param("input", "the vectors of words, those of the output layer, or their `sum`", choices=VECTORS)
    license: str = param(
        "unknown",
        "licence of the vectors, such as cc-by-4.0: in the model card of static-embedding, metadata of safetensors and parquet",
    )


def export(
    model: WordVectors,
    format: str | None,
    out: Path,
    overwrite: bool = False,
    progress: Progress | None = None,
    **options: Any,
) -> Path:
    """Write the word vectors of `model` as the file or folder `out`, compressed if its suffix says so, and return its path.

    `options` are the other settings of `ExportSettings`, by name. `out` appears when it is complete; what killed exports left
    beside it is deleted. Raises EmbedxError if it exists, cannot be written or cannot hold the vectors, or if two words would
    become one.
    """
    settings = ExportSettings(format=format, **options)
    chosen = formats.FORMATS[settings.format or formats.of_name(out)]
    able = ", ".join(name for name, each in formats.FORMATS.items() if each.keeps_license)
    check_used(options, [("license", chosen.keeps_license, f"a --format that keeps it: {able}")])
    _check_place(out, chosen, overwrite)
    table = _table(model, chosen, settings, progress or Silent())
    return _put(out, lambda path: chosen.write(path, table))


def export_vocabulary(model: WordVectors, out: Path, overwrite: bool = False) -> Path:
    """Write the words of `model` with their counts, a word a line, as word2vec.c does by -save-vocab, and return the path.

    The file is written and errors are raised as by `export`.
    """
    if model.counts is None:
        raise EmbedxError(f"{out}: the model has no counts of its words")
    check_free(out, overwrite)
    rows = zip(writable(model.words, Silent()), model.counts.tolist(), strict=True)

    def write(path: Path) -> None:
        suffix = out.suffix if out.suffix in compression.get_supported_extensions() else "disable"
        with smart_open.open(str(path), "wb", compression=suffix) as stream:
            stream.writelines(f"{word} {count}\n".encode() for word, count in rows)

    return _put(out, write)


def check_free(out: Path, overwrite: bool) -> None:
    """Raise EmbedxError if no text file can be written there."""
    _check_place(out, formats.FORMATS["word2vec"], overwrite)


def _put(out: Path, write: Callable[[Path], None]) -> Path:
    """Call `write` with a place beside `out`, then move what it wrote to `out`; return `out`."""
    place = out.resolve()  # where links lead to
    partial, lock = beside(place, "partial"), None
    try:
        partial.mkdir()
        lock = locks.mark(partial)
        new = partial / "new"  # apart from the mark of the folder
        new.mkdir()
        write(new / out.name)
        _sync(new)
        _put_in_place(new, out.name, place, partial / "old")
        sync_folder(place.parent)
    except OSError as error:
        raise EmbedxError(f"{out}: cannot be written: {error.strerror or error}; name another file") from error
    finally:
        locks.remove(partial, lock)
    for left in leftovers(place, "partial"):
        locks.remove_if_left(left)
    return out


def _put_in_place(new: Path, name: str, place: Path, old: Path) -> None:
    """Move what was written as `name` in the folder `new` to its place; a folder that is there is moved to `old` first."""
    if place.is_dir():
        place.rename(old)
    try:
        for each in sorted(new.iterdir(), key=lambda file: file.name == name):  # the file that needs the others last
            each.replace(place.with_name(place.name + each.name.removeprefix(name)))
    except OSError:
        if old.exists() and not place.exists():
            old.rename(place)
        raise


def _check_place(out: Path, format: type[Format], overwrite: bool) -> None:
    """Raise EmbedxError if the format cannot be written there."""
    kind = "folder" if format.is_folder else "file"
    if out.is_dir() and not format.is_folder:
        raise EmbedxError(f"{out}: is a folder; give the name of a file")
    if out.exists() and not (out.is_file() or out.is_dir()):
        raise EmbedxError(f"{out}: a pipe or a device, which is not replaced by a file; give the name of a file")
    if out.exists() and not overwrite:
        raise EmbedxError(f"{out}: exists already; add --overwrite, or choose another name")
    if out.exists() and format.is_folder and not (out.is_dir() and format.is_own_folder(out)):
        raise EmbedxError(
            f"{out}: holds files that --format {format.name} does not write, so it is not overwritten; choose another name"
        )
    if out.suffix == ".zst":
        raise EmbedxError(f"{out}: .zst is not written; use .gz, .bz2 or .xz, or no suffix")
    if not format.is_packed and out.suffix in compression.get_supported_extensions():
        raise EmbedxError(f"{out}: --format {format.name} is not compressed; give a name of a {kind} without {out.suffix}")


def _table(model: WordVectors, format: type[Format], settings: ExportSettings, progress: Progress) -> Table:
    """The table to write. Raises EmbedxError if the model lacks it, or the format cannot hold it."""
    if settings.dtype not in format.dtypes:
        able = ", ".join(name for name, each in formats.FORMATS.items() if settings.dtype in each.dtypes)
        raise EmbedxError(f"--dtype {settings.dtype}: not with --format {format.name}; taken by {able}")
    tables = model.tables_of(settings.vectors)
    if not model.vector_size:
        raise EmbedxError("the vectors of the model have 0 dimensions, so that there is nothing to write")
    n = len(model) if settings.top is None else min(settings.top, len(model))
    words, outputs = model.words[:n], model.output_vectors
    subwords = model.subwords if format.has_ngrams and settings.vectors == "input" else None
    if subwords is not None and (wrong := next((word for word in words if WHITE_SPACE.search(word)), None)) is not None:
        raise EmbedxError(f"the word {wrong!r} has white space, without which its n-grams would be others in fastText")
    return Table(
        writable(words, progress) if format.ends_words else words,
        Rows(n, *tables),
        None if model.counts is None else model.counts[:n],
        own=model.arrays.get("word_part", model.vectors)[:n] if subwords is not None else None,
        subwords=subwords,
        outputs=outputs[:n] if outputs is not None and len(outputs) == len(model) else None,
        dtype=settings.dtype,
        settings=model.settings,
        facts=model.facts,
        license=settings.license,
        progress=progress,
    )


def writable(words: Sequence[str], progress: Progress) -> Sequence[str]:
    """`words` with `_` for each white-space character (of ASCII: readers end words at no other)."""
    changed = {word: WHITE_SPACE.sub("_", word) for word in words if not word or WHITE_SPACE.search(word)}
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


def _sync(folder: Path) -> None:
    """Synchronise all files in the folder to the disk, so that they survive a power cut after the rename."""
    for each in folder.rglob("*"):
        if each.is_file():
            with each.open("rb") as written:
                sync(written)
    for each in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        sync_folder(each)

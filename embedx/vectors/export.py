"""Word vectors written in the formats of other programs, of which `embedx.vectors.formats` is the registry.

What is written lies in a folder beside its place, OUT.partial-XXXXXXXX, until it is complete. Rows go through memory a block
at a time, whatever their type and wherever they come from.
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
    """What is written of a model, and how."""

    panel = "Format"

    format: str | None = param(
        None,
        f"{formats.meanings()}; by default by the suffix of OUT ({formats.by_name()}), word2vec if it has none",
        choices=formats.written(),
    )
    dtype: str = param(
        "float32",
        "type of the numbers; int8 are to be multiplied by the word's `scale`, which is its largest absolute value / 127",
        choices=DTYPES,
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

    `options` are the other settings of `ExportSettings`, by name. `out` appears when it is complete. What killed processes left
    beside it is deleted by the next that writes the same. Raises EmbedxError if it exists, cannot be written or cannot hold the
    vectors, or if two words would become one.
    """
    settings = ExportSettings(format=format, **options)
    chosen = formats.FORMATS[settings.format or formats.of_name(out)]
    able = ", ".join(name for name, each in formats.FORMATS.items() if each.keeps_license)
    check_used(options, [("license", chosen.keeps_license, f"a --format that keeps it: {able}")])
    _check_place(out, chosen, overwrite)
    table = _table(model, chosen, settings, progress or Silent())
    _put(out, lambda path: chosen.write(path, table))
    return out


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

    _put(out, write)
    return out


def check_free(out: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a text file cannot be put there."""
    _check_place(out, formats.FORMATS["word2vec"], overwrite)


def _put(out: Path, write: Callable[[Path], None]) -> None:
    """Have something written beside its place, and put it there when it is complete."""
    place = out.resolve()  # where links lead to
    partial, lock = beside(place, "partial"), None
    try:
        partial.mkdir()
        lock = locks.mark(partial)
        new = partial / "new"  # apart from what marks the folder
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


def _put_in_place(new: Path, name: str, place: Path, old: Path) -> None:
    """Move what was written as `name` in the folder `new` to its place; a folder that is there makes room first."""
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
        raise EmbedxError(f"{out}: a pipe or a device, in whose place no file is put; give the name of a file")
    if out.exists() and not overwrite:
        raise EmbedxError(f"{out}: exists already; add --overwrite, or choose another name")
    if out.exists() and format.is_folder and not (out.is_dir() and format.is_own_folder(out)):
        raise EmbedxError(
            f"{out}: holds something else than --format {format.name} writes, so it is not overwritten; choose another name"
        )
    if out.suffix == ".zst":
        raise EmbedxError(f"{out}: .zst is not written; use .gz, .bz2 or .xz, or no suffix")
    if not format.is_packed and out.suffix in compression.get_supported_extensions():
        raise EmbedxError(f"{out}: --format {format.name} is not compressed; give a name of a {kind} without {out.suffix}")


def _table(model: WordVectors, format: type[Format], settings: ExportSettings, progress: Progress) -> Table:
    """What is to be written. Raises EmbedxError if the model has it not, or the format cannot hold it."""
    if settings.dtype not in format.dtypes:
        able = ", ".join(name for name, each in formats.FORMATS.items() if settings.dtype in each.dtypes)
        raise EmbedxError(f"--dtype {settings.dtype}: not with --format {format.name}; taken by {able}")
    tables = model.tables_of(settings.vectors)
    if not model.vector_size:
        raise EmbedxError("the vectors of the model have 0 dimensions, so that there is nothing to write")
    n = len(model) if settings.top is None else min(settings.top, len(model))
    words: Sequence[str] = model.words[:n]
    counts = None if model.counts is None else model.counts[:n]
    subwords = model.subwords if format.has_ngrams and settings.vectors == "input" else None
    if subwords is not None and (wrong := next((word for word in words if WHITE_SPACE.search(word)), None)) is not None:
        raise EmbedxError(f"the word {wrong!r} has white space, without which its n-grams would be others in fastText")
    if format.ends_words:
        words = writable(words, progress)
    own = model.arrays.get("word_part", model.vectors) if subwords is not None else None
    outputs = model.output_vectors
    return Table(
        words,
        Rows(n, *tables),
        counts,
        own=own if own is None else own[:n],
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
    """Have the disk hold all files in the folder, so that a power cut after the rename finds them."""
    for each in folder.rglob("*"):
        if each.is_file():
            with each.open("rb") as written:
                sync(written)
    for each in (folder, *(each for each in folder.rglob("*") if each.is_dir())):
        sync_folder(each)

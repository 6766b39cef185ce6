"""The model folder: what training leaves behind, and the queries one asks of it.

    input.npy        float32 (words, dim), the word vectors
    output.npy       float32 (outputs, dim), the rows the input was trained against; further arrays as NAME.npy
    vocabulary.tsv   word TAB count, one word a line, most frequent first; line k describes row k
    model.json       format number, embedx version, task, settings as used, facts of the run, shapes of the arrays

Everything is plain: arrays are memory-mapped when a model is loaded, and nothing is ever unpickled. In vocabulary.tsv a
tab, newline, carriage return or backslash within a word is written as `\\t`, `\\n`, `\\r` or `\\\\`.

A folder is written beside its final place and renamed into it, so whoever looks sees a complete model. Overwriting takes
two renames: NAME to NAME.replaced, then the new folder to NAME. A process killed between the two leaves the old model as
NAME.replaced, where `load` still finds it when it is asked for NAME. A process killed earlier leaves a folder
NAME.partial-… that may be deleted.
"""

import datetime
import difflib
import json
import os
import re
import secrets
import shutil
from collections.abc import Iterator, Sequence
from functools import cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np

from embedx import formats
from embedx.errors import EmbedxError
from embedx.progress import Progress, Silent

FORMAT = 1
DESCRIPTION = "model.json"
VOCABULARY = "vocabulary.tsv"
REMEDY = "restore the folder from a copy, or train again"

BLOCK_FLOATS = 1 << 22  # rows are copied and normed 16 MB at a time, so that a huge table is never doubled in memory

ESCAPES = {"\\": "\\\\", "\t": "\\t", "\n": "\\n", "\r": "\\r"}
UNESCAPES = {escape: character for character, escape in ESCAPES.items()}


class UnknownWordError(EmbedxError, KeyError):
    """A word that the vocabulary does not hold."""

    __str__ = Exception.__str__  # KeyError would quote the message


class WordVectors:
    """Words with their vectors, and what else is known of them."""

    def __init__(
        self,
        words: list[str],
        arrays: dict[str, np.ndarray],  # "input": float32 (words, dim); more when the model was trained by embedx
        *,
        counts: np.ndarray | None = None,  # int64 (words,)
        settings: dict[str, Any] | None = None,
        facts: dict[str, Any] | None = None,
    ) -> None:
        self.words = words
        self.arrays = arrays
        self.counts = counts
        self.settings = settings or {}
        self.facts = facts or {}

    @property
    def vectors(self) -> np.ndarray:
        """The word vectors, float32 (words, dim)."""
        return self.arrays["input"]

    @property
    def output_vectors(self) -> np.ndarray | None:
        """The output rows, float32 (outputs, dim), or None where the file holds none."""
        return self.arrays.get("output")

    def __repr__(self) -> str:
        return f"WordVectors({len(self):,} words, dim {self.vectors.shape[1]})"

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: str) -> bool:
        return word in self._index

    def __getitem__(self, word: str | Sequence[str]) -> np.ndarray:
        """The vector of a word, float32 (dim,), or of a list of words, float32 (words, dim). Raises KeyError."""
        if isinstance(word, str):
            return np.asarray(self.vectors[self.index(word)])
        return self.vectors[[self.index(each) for each in word]]

    def index(self, word: str) -> int:
        """The row of `word`. A KeyError for an unknown word names words that look like it."""
        try:
            return self._index[word]
        except KeyError:
            similar = self._lookalikes(word)
            hint = f"; did you mean {' or '.join(similar)}?" if similar else ""
            raise UnknownWordError(f"{word}: not among the {len(self):,} words of the model{hint}") from None

    def similarity(self, a: str, b: str) -> float:
        """Cosine of two words' vectors."""
        return float(self._unit(a) @ self._unit(b))

    def analogy(self, a: str, b: str, c: str, top_k: int = 10) -> list[tuple[str, float]]:
        """Words d such that a is to b as c is to d: those whose vectors point most nearly where b - a + c does (3CosAdd)."""
        return self.most_similar([b, c], [a], top_k)

    def most_similar(
        self,
        positive: str | np.ndarray | Sequence[str | np.ndarray],
        negative: str | np.ndarray | Sequence[str | np.ndarray] = (),
        top_k: int = 10,
    ) -> list[tuple[str, float]]:
        """The `top_k` words with the largest cosine to the sum of the unit vectors of `positive` minus that of `negative`.

        The words asked with are left out, as in word2vec.c and gensim. A vector in place of a word counts with its own length.
        """
        plus, minus = as_list(positive), as_list(negative)
        query = np.zeros(self.vectors.shape[1], np.float32)
        for sign, items in ((1, plus), (-1, minus)):
            for item in items:
                query += sign * (self._unit(item) if isinstance(item, str) else item)
        query = unit(query)
        cosines = self.vectors @ query / self._norms
        asked = {self.index(item) for item in plus + minus if isinstance(item, str)}
        wanted = min(top_k + len(asked), len(self))
        best = np.argpartition(-cosines, wanted - 1)[:wanted]
        best = best[np.lexsort((best, -cosines[best]))]
        return [(self.words[row], float(cosines[row])) for row in best.tolist() if row not in asked][:top_k]

    def _unit(self, word: str) -> np.ndarray:
        return unit(self[word])

    @cached_property
    def _index(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    @cached_property
    def _norms(self) -> np.ndarray:  # float32 (words,), 1 where a vector is zero
        norms = np.concatenate([np.linalg.norm(rows, axis=1) for rows in row_blocks(self.vectors)])
        norms[norms == 0] = 1
        return norms

    def _lookalikes(self, word: str) -> list[str]:
        """Up to three words that differ from `word` by case, else by a letter or two."""
        folded = word.casefold()
        variants = [other for other in self.words if other.casefold() == folded]
        if variants:
            return variants[:3]
        # difflib takes seconds for a large vocabulary; those that begin alike and are about as long are few.
        near: dict[str, str] = {}
        for other in self.words[:200_000]:
            if other[:1].casefold() == folded[:1] and abs(len(other) - len(word)) <= 2:
                near.setdefault(other.casefold(), other)
        return [near[match] for match in difflib.get_close_matches(folded, near, n=3, cutoff=0.75)]


def unit(vector: np.ndarray) -> np.ndarray:
    """`vector` at length 1; a zero vector stays zero."""
    norm = float(np.linalg.norm(vector))
    return np.divide(vector, norm) if norm > 0 else vector


def as_list(items: str | np.ndarray | Sequence[str | np.ndarray]) -> list[str | np.ndarray]:
    return [items] if isinstance(items, str) or (isinstance(items, np.ndarray) and items.ndim == 1) else list(items)


def row_blocks(array: np.ndarray) -> Iterator[np.ndarray]:
    """Consecutive rows of `array`, a few megabytes at a time; at least one block."""
    width = max(1, array[:1].size)
    step = max(1, BLOCK_FLOATS // width)
    for start in range(0, max(1, len(array)), step):
        yield array[start : start + step]


# ---- reading


def load(path: str | Path, progress: Progress | None = None) -> WordVectors:
    """The word vectors in a model folder (memory-mapped), or in any vector file that `embedx.formats` reads.

    Raises EmbedxError, naming the file and a remedy, for whatever is missing, damaged or too new.
    """
    folder = present(Path(path))
    if folder.is_dir():
        return load_folder(folder)
    words, vectors = formats.read(path, progress or Silent())
    return WordVectors(words, {"input": vectors}, facts={"source": str(path)})


def load_folder(folder: Path) -> WordVectors:
    description = read_description(folder)
    words, counts = read_vocabulary(folder / VOCABULARY)
    arrays = {name: read_array(folder / f"{name}.npy", facts) for name, facts in description["arrays"].items()}
    if "input" not in arrays:
        raise EmbedxError(f"{folder / DESCRIPTION}: names no array `input`; {REMEDY}")
    if len(words) != len(arrays["input"]):
        raise EmbedxError(
            f"{folder / VOCABULARY}: {len(words):,} words, but input.npy has {len(arrays['input']):,} rows; {REMEDY}"
        )
    return WordVectors(words, arrays, counts=counts, settings=description["settings"], facts=description["facts"])


def read_description(folder: Path) -> dict[str, Any]:
    """The content of model.json, with what `load` relies on checked."""
    file = folder / DESCRIPTION
    if not file.exists():
        raise EmbedxError(
            f"{folder}: not a model folder (it has no {DESCRIPTION}); give one that `embedx train` wrote, or a vector file"
        )
    try:
        description = json.loads(file.read_bytes())
        version, needed = description["format"], [description[key] for key in ("task", "arrays", "settings", "facts")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if version != FORMAT:
        raise EmbedxError(f"{file}: format {version}, while this embedx reads format {FORMAT}; upgrade embedx")
    if description["task"] != "skipgram":
        raise EmbedxError(f"{file}: a model of the task {description['task']!r} has no word vectors; give a skipgram model")
    if not all(isinstance(value, dict) for value in needed[1:]):
        raise EmbedxError(f"{file}: damaged (arrays, settings and facts must be objects); {REMEDY}")
    description["facts"] = {"version": description.get("embedx"), "created": description.get("created"), **description["facts"]}
    return dict(description)


def read_array(file: Path, expected: dict[str, Any]) -> np.ndarray:
    """The array in `file`, memory-mapped read-only, which must have the shape and dtype that model.json states."""
    try:
        array = np.load(file, mmap_mode="r", allow_pickle=False)
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except (OSError, ValueError, EOFError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if [list(array.shape), str(array.dtype)] != [expected.get("shape"), expected.get("dtype")]:
        raise EmbedxError(
            f"{file}: holds {array.dtype} {array.shape}, but {DESCRIPTION} says "
            f"{expected.get('dtype')} {expected.get('shape')}; {REMEDY}"
        )
    return np.asarray(array)  # the same pages without the memmap class, which slows every small slice


def read_vocabulary(file: Path) -> tuple[list[str], np.ndarray | None]:
    """The words, and their counts as int64 where the file has them."""
    try:
        text = file.read_bytes().decode("utf-8")
    except FileNotFoundError:
        raise EmbedxError(f"{file}: missing; {REMEDY}") from None
    except (OSError, ValueError) as error:
        raise EmbedxError(f"{file}: damaged ({error}); {REMEDY}") from error
    if text and not text.endswith("\n"):
        raise EmbedxError(f"{file}: cut short within its last line; {REMEDY}")
    parts = [line.partition("\t") for line in text.split("\n")[:-1]]
    words = [unescape(word) if "\\" in word else word for word, _, _ in parts]
    if len(set(words)) < len(words):
        raise EmbedxError(f"{file}: some word stands there twice; {REMEDY}")
    if not any(tab for _, tab, _ in parts):
        return words, None
    try:
        counts = np.array([int(count) for _, _, count in parts], np.int64)
    except (ValueError, OverflowError):
        line = next(i for i, (_, _, count) in enumerate(parts, 1) if not re.fullmatch(r"\d{1,18}", count))
        raise EmbedxError(f"{file}:{line}: no count after the word; lines look like `word TAB count`; {REMEDY}") from None
    return words, counts


def escape(word: str) -> str:
    return re.sub(r"[\\\t\n\r]", lambda match: ESCAPES[match[0]], word)


def unescape(word: str) -> str:
    return re.sub(r"\\.", lambda match: UNESCAPES.get(match[0], match[0]), word)


# ---- writing


def check_output(folder: Path, overwrite: bool) -> None:
    """Raise EmbedxError if a model cannot be saved as `folder`; call it before training for hours."""
    folder = folder.resolve()
    there = present(folder)
    if there.exists():
        if not overwrite:
            raise EmbedxError(f"{there}: exists already; add --overwrite, or choose another --output")
        if not there.is_dir() or (any(there.iterdir()) and not (there / DESCRIPTION).exists()):
            raise EmbedxError(f"{there}: not a model folder, so it is not overwritten; choose another --output")
    parent = next(each for each in folder.parents if each.exists())
    if not parent.is_dir() or not os.access(parent, os.W_OK | os.X_OK):
        raise EmbedxError(f"{parent}: cannot be written to; choose another --output")


def save(
    folder: Path,
    *,
    words: Sequence[str],
    counts: np.ndarray | None,
    arrays: dict[str, np.ndarray],
    settings: dict[str, Any],
    facts: dict[str, Any],
    overwrite: bool = False,
) -> Path:
    """Write a model folder and return its path; at any moment the folder is absent, the old model or the new one, whole.

    words     most frequent first; `counts` int64 (words,) beside them, or None
    arrays    "input" float32 (words, dim), usually "output", and any others; rows may be padded views
    settings  those of the run, as JSON types; `facts` likewise: objective, final loss, words trained, seconds
    """
    check_model(words, counts, arrays)
    check_output(folder, overwrite)
    folder = folder.resolve()
    partial = folder.with_name(f"{folder.name}.partial-{secrets.token_hex(4)}")
    description = {
        "format": FORMAT,
        "embedx": installed_version(),
        "task": "skipgram",
        "created": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "words": len(words),
        "arrays": {name: {"shape": list(array.shape), "dtype": str(array.dtype)} for name, array in arrays.items()},
        "settings": settings,
        "facts": facts,
    }
    try:
        partial.mkdir(parents=True)
        for name, array in arrays.items():
            write_array(partial / f"{name}.npy", array)
        write_bytes(partial / VOCABULARY, vocabulary_lines(words, counts))
        text = json.dumps(description, indent=2, ensure_ascii=False, default=plain) + "\n"
        write_bytes(partial / DESCRIPTION, [text.encode()])
        sync_folder(partial)
        put_in_place(partial, folder)
    except OSError as error:
        raise EmbedxError(f"{folder}: cannot write the model: {error.strerror or error}; choose another --output") from error
    finally:
        shutil.rmtree(partial, ignore_errors=True)
    return folder


def check_model(words: Sequence[str], counts: np.ndarray | None, arrays: dict[str, np.ndarray]) -> None:
    """Raise ValueError for what no caller of ours may pass."""
    if len(words) != len(arrays["input"]) or len(set(words)) != len(words):
        raise ValueError("each row of the input needs a word of its own")
    if counts is not None and (len(counts) != len(words) or np.any(counts[1:] > counts[:-1])):
        raise ValueError("counts belong to the words and must not increase")
    for name, array in arrays.items():
        if not re.fullmatch(r"[a-z][a-z0-9_]*", name) or array.dtype.hasobject:
            raise ValueError(f"{name}: arrays are plain numbers and their names lower-case identifiers")


def write_array(file: Path, array: np.ndarray) -> None:
    """Write `array` as C-order npy, a block of rows at a time, which drops any padding between the rows."""
    with file.open("wb") as out:
        header = {"descr": np.lib.format.dtype_to_descr(array.dtype), "fortran_order": False, "shape": array.shape}
        np.lib.format.write_array_header_1_0(out, header)
        for rows in row_blocks(array):
            out.write(np.ascontiguousarray(rows).data)
        sync(out)


def vocabulary_lines(words: Sequence[str], counts: np.ndarray | None) -> Iterator[bytes]:
    if counts is None:
        return (f"{escape(word)}\n".encode() for word in words)
    return (f"{escape(word)}\t{count}\n".encode() for word, count in zip(words, counts.tolist(), strict=True))


def write_bytes(file: Path, pieces: Iterator[bytes] | list[bytes]) -> None:
    with file.open("wb") as out:
        out.writelines(pieces)
        sync(out)


def put_in_place(partial: Path, folder: Path) -> None:
    """Rename `partial` to `folder`; a model that is there makes room first and is deleted last."""
    replaced = replaced_name(folder)
    if folder.exists():
        shutil.rmtree(replaced, ignore_errors=True)  # left by a process killed while it deleted
        folder.rename(replaced)
    try:
        partial.rename(folder)
    except OSError:
        if replaced.exists():
            replaced.rename(folder)
        raise
    sync_folder(folder.parent)
    shutil.rmtree(replaced, ignore_errors=True)


def replaced_name(folder: Path) -> Path:
    return folder.with_name(folder.name + ".replaced")


def present(folder: Path) -> Path:
    """`folder`, or where its model lies if a process was killed between the two renames of an overwrite."""
    if folder.exists() or not folder.name:
        return folder
    replaced = replaced_name(folder)
    return replaced if (replaced / DESCRIPTION).exists() else folder


def sync(out: Any) -> None:
    """Have the disk hold what was written to the open file `out`, so that a power cut after the rename finds it."""
    out.flush()
    os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    if os.name != "posix":  # elsewhere folders cannot be opened
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def plain(value: Any) -> Any:
    """What JSON does not know, as what it does: numpy's numbers and arrays, paths."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    return str(value)


def installed_version() -> str:
    try:
        return metadata.version("embedx")
    except metadata.PackageNotFoundError:
        return "unknown"

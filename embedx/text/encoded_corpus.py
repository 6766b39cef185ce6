"""An encoded corpus: its files, mapped from its folder and checked before they are used.

Compiled code looks words up by the tokens without asking whether there are so many, and a machine that lost its power may leave
zeros, which are tokens too.
"""

import contextlib
import json
import mmap
import os
import re
import weakref
import zlib
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from embedx.storage import locks
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList
from embedx.training.progress import Progress

KEY = re.compile(r"[0-9a-f]{24}")
TOKENS, COUNTS, LETTERS, STARTS, ABOUT = "tokens.bin", "counts.npy", "letters.bin", "starts.npy", "about.json"
CHECK_TOKENS = 1 << 18  # looked at at a time, so that the processor's cache holds them for the second look
CHECK_BYTES = 1 << 20  # of a file summed up at a time
MOST_COPIED = 1 << 26  # bytes of words and counts that are read into memory, where nothing happens to them; more are mapped


class EncodedCorpus:
    """A corpus as numbers, mapped read-only from its folder."""

    def __init__(self, folder: Path, lock: int | None = None) -> None:
        self.folder = folder
        about, self.tokens, counts, starts = mapped(folder)
        self.key: str = about["key"]  # "" for a temporary corpus
        self.n_tokens: int = about["n_tokens"]  # without the marks between sentences
        self.checksum: int | None = about["checksum"]  # None for a temporary corpus
        self.report: dict[str, Any] = about["report"]
        is_large = sum((folder / name).stat().st_size for name in (COUNTS, STARTS, LETTERS)) > MOST_COPIED
        self.counts: np.ndarray = counts if is_large else np.array(counts)  # int64 (n_types,)
        letters = _mapped_letters(folder) if is_large else (folder / LETTERS).read_bytes()
        self.words = WordList(letters, starts if is_large else np.array(starts))
        self.bytes = bytes_in(folder)
        # At the latest when the program ends.
        self._delete = weakref.finalize(self, locks.remove, folder, lock) if not self.key else None

    def check(self) -> None:
        """Raise ValueError unless words, counts and tokens are those that were written; reads it all (4 GB/s from memory)."""
        n_types = len(self.words)
        self.words.check()
        _demand(not self.words.has_twins(), LETTERS, "some word stands there twice")
        _demand(self.counts.min() > 0 and self.counts.sum() == self.n_tokens, COUNTS, "they do not add up to the tokens")
        sums = []
        for first in range(0, len(self.tokens), CHECK_TOKENS):
            part = self.tokens[first : first + CHECK_TOKENS]
            _demand(part.min() >= END_OF_SENTENCE and part.max() < n_types, TOKENS, f"some are not among the {n_types:,} words")
            sums.append(_sum(part))
        _demand(_checksum(self.folder, sums) == self.checksum, ABOUT, "the checksum of the other files is another one")

    def close(self) -> None:
        """Let go of the files; those of a temporary corpus are deleted."""
        self.tokens = np.empty(0, np.int32)
        if self._delete:
            self._delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def load(folder: Path, progress: Progress) -> EncodedCorpus | None:
    """The kept corpus in `folder`; None if there is none, or only a damaged one, which is told."""
    try:
        corpus = EncodedCorpus(folder)
        corpus.check()
    except MemoryError:
        raise
    except Exception as error:  # numpy and JSON raise what they like, given the bytes
        if folder.exists():  # else there is none, or it was cleared meanwhile
            progress.note(f"{folder}: damaged ({error}), so the corpus is read again")
        return None
    return corpus


class _Mapped(NamedTuple):
    """The files of a corpus."""

    about: dict[str, Any]
    tokens: np.ndarray  # int32 (n_entries,)
    counts: np.ndarray  # int64 (n_types,)
    starts: np.ndarray  # int64 (n_types + 1,)


def mapped(folder: Path) -> _Mapped:
    """The files of a corpus, mapped, with types and sizes that fit together; raises whatever there is to raise if not."""
    about = _read_about(folder)
    tokens = np.memmap(folder / TOKENS, np.int32, "r")
    counts, starts = (np.asarray(np.lib.format.open_memmap(folder / name, mode="r")) for name in (COUNTS, STARTS))
    _demand(len(tokens) == about["n_entries"], TOKENS, f"{len(tokens):,} tokens and marks instead of {about['n_entries']:,}")
    n_letters = (folder / LETTERS).stat().st_size
    for each, file in ((counts, COUNTS), (starts, STARTS)):
        _demand(each.dtype == np.int64 and each.ndim == 1 and len(each) > 0, file, "no list of int64")
    _demand(len(starts) == len(counts) + 1, STARTS, f"{len(starts):,} entries for the {len(counts):,} words counted")
    ascending = bool((starts[1:] >= starts[:-1]).all())
    _demand(ascending and (starts[0], starts[-1]) == (0, n_letters), STARTS, f"not for the {n_letters:,} bytes of {LETTERS}")
    return _Mapped(about, tokens, counts, starts)


def _mapped_letters(folder: Path) -> bytes | mmap.mmap:
    """The letters of all words, mapped."""
    with (folder / LETTERS).open("rb") as file:
        is_empty = os.fstat(file.fileno()).st_size == 0  # which cannot be mapped: the only word has no letters
        return b"" if is_empty else mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)


def _read_about(folder: Path) -> dict[str, Any]:
    """The content of about.json, of which everything that is used is there and of the right type."""
    about = json.loads((folder / ABOUT).read_bytes())
    try:
        report = about["report"]
        added = {"bad_records": 0, "first_bad_record": "", "skipped": ""}  # to what earlier versions wrote
        sources = [added | source for source in report["sources"]]
        texts = [about["created"], *(each[name] for each in sources for name in ("name", "first_bad_record", "skipped"))]
        numbers = [about["n_tokens"], about["n_entries"], about["checksum"] or 0]
        numbers += [each[name] for each in sources for name in ("bad_utf8", "bad_records")]
        whole = all(isinstance(text, str) for text in texts) and all(isinstance(number, int) for number in numbers)
        whole = whole and isinstance(about["settings"], dict) and all("first_bad_byte" in each for each in sources)
        whole = whole and about["key"] == (folder.name if KEY.fullmatch(folder.name) else "")
    except (KeyError, TypeError):
        whole = False
    _demand(whole, ABOUT, "not what was written there")
    return dict(about)


def _demand(whole: bool, file: str, complaint: str) -> None:
    if not whole:
        raise ValueError(f"{file}: {complaint}")


def checksum(folder: Path) -> int:
    """Of the files of a corpus, as they are."""
    tokens = np.memmap(folder / TOKENS, np.int32, "r")
    return _checksum(folder, (_sum(tokens[first : first + CHECK_TOKENS]) for first in range(0, len(tokens), CHECK_TOKENS)))


def _sum(tokens: np.ndarray) -> int:
    """The sum of int32 tokens, taken two by two for numbers of 64 bits, modulo 2^64: as fast as memory is."""
    pairs, rest = tokens[: len(tokens) // 2 * 2].view(np.uint64), tokens[len(tokens) // 2 * 2 :]
    return (int(np.add.reduce(pairs)) + int(rest.sum())) % 2**64


def _checksum(folder: Path, sums: Iterable[int]) -> int:
    """Of the files of a corpus: of the sums of its tokens, CHECK_TOKENS at a time, and of the bytes of the others."""
    found = zlib.crc32(np.array([*sums], np.uint64).tobytes())
    for name in (COUNTS, STARTS, LETTERS):
        with (folder / name).open("rb") as file:
            while part := file.read(CHECK_BYTES):
                found = zlib.crc32(part, found)
    return found


def bytes_in(folder: Path) -> int:
    """How much a folder holds, as far as nobody deletes it meanwhile."""
    size = 0
    for below, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.path.getsize(os.path.join(below, name))
    return size

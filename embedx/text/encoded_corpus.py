"""An encoded corpus: its files are memory-mapped from its folder and checked before use.

Compiled code does not check that a token is the number of a word, and after a power failure a file
may contain zeros, which are valid numbers.
"""

import codecs
import contextlib
import json
import mmap
import re
import weakref
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Protocol, Self

import numpy as np

from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.storage.description import checksum_of, description_text
from embedx.storage.folder_files import map_array
from embedx.text.tokenizer import END_OF_SENTENCE, count_tokens
from embedx.text.word_list import WordList

KEY = re.compile(r"[0-9a-f]{24}")
TOKENS = "tokens.bin"
COUNTS = "counts.npy"
LETTERS = "letters.bin"
STARTS = "starts.npy"
ABOUT = "about.json"
DATA = (TOKENS, COUNTS, LETTERS, STARTS)
# The required entries of a source's report, with their types.
SOURCE_FACTS = {
    "name": str,
    "skipped": str | None,
    "note": str,
    "warning": str,
    "tokens": int,
    "bad_utf8": int,
    "bad_records": int,
    "too_long": int,
}
BYTES_AT_A_TIME = 1 << 20


class GeneratedTokens(Protocol):
    """Tokens that are generated during training and never stored: walks over a graph.

    max_gradient  the maximum norm of the gradient of a row, instead of the engine's
    """

    max_gradient: float

    def n_chunks(self, n_tokens: int) -> int:
        """The number of chunks of at most `n_tokens` tokens in an epoch."""

    def write_chunk(self, epoch: int, chunk: int, n_tokens: int, tokens: np.ndarray) -> int:
        """Write a chunk of an epoch to `tokens`, int32 (n_tokens,); return the number of tokens."""


class EncodedCorpus:
    """A corpus as token ids, mapped read-only from its folder.

    key        its name in the token cache; "" for a temporary corpus
    tokens     int32: provisional ids, and END_OF_SENTENCE between sentences
    n_tokens   the number of tokens without ends of sentences
    words      the words by provisional id
    counts     int64 (n_types,): the count of each word
    report     the counts made while the text was read
    created    date and time of reading in ISO 8601
    generated  generates the tokens during training, if they are not stored; `tokens` are then a
               sample
    """

    def __init__(self, folder: Path, delete: Callable[[], None] | None = None) -> None:
        self.folder = folder
        about = read_about(folder)
        self.key: str = about["key"]
        self.n_tokens: int = about["n_tokens"]
        self.report: Record = about["report"]
        self.created: str = about["created"]
        self.bytes = bytes_in(folder)
        self.tokens: np.ndarray = np.memmap(folder / TOKENS, np.int32, "r")
        self.counts: np.ndarray = np.asarray(map_array(folder / COUNTS))
        self.words = WordList(
            _map_letters(folder / LETTERS), np.asarray(map_array(folder / STARTS))
        )
        self.generated: GeneratedTokens | None = None
        # at the latest when the program exits
        self._delete = delete and weakref.finalize(self, delete)

    @property
    def place(self) -> str:
        """Its place, for messages."""
        return f"the token cache {self.folder}" if self.key else f"{self.folder} for this run only"

    def close(self) -> None:
        """Close the files, and delete those of a temporary corpus."""
        self.tokens = np.empty(0, np.int32)
        if self._delete:
            self._delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def _map_letters(file: Path) -> bytes | mmap.mmap:
    """The letters of all words."""
    # the only word is "": an empty file cannot be mapped
    if file.stat().st_size == 0:
        return b""
    with file.open("rb") as opened:
        return mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ)


def load(folder: Path, progress: Progress) -> EncodedCorpus | None:
    """The cached corpus in `folder`, after all its files were read and checked; None if there is
    none, or, with a note, if it is damaged.
    """
    try:
        if read_about(folder)["data_checksum"] != checksum(folder):
            raise ValueError(f"{ABOUT}: the checksum of the other files differs")
        corpus = EncodedCorpus(folder)
        check_words(corpus.words)
        check_tokens(corpus)
        check_report(corpus.report)
        return corpus
    except MemoryError:
        raise
    except Exception as error:
        # numpy and JSON raise errors of many types for damaged files
        if folder.exists():
            progress.note(f"{folder}: damaged ({error}), so the corpus is read again")
        return None


def check_words(words: WordList) -> None:
    """Raise an error unless the words are consecutive pieces of the text."""
    starts = words.starts
    n_bytes = len(words.letters)
    if starts.dtype != np.int64 or starts.ndim != 1 or len(starts) == 0:
        raise ValueError(f"{STARTS}: not the beginnings of words")
    if starts[0] != 0 or starts[-1] != n_bytes or (starts[1:] < starts[:-1]).any():
        raise ValueError(f"{STARTS}: words that do not follow each other")
    decoder = codecs.getincrementaldecoder("utf-8")("surrogatepass")
    for first in range(0, n_bytes, BYTES_AT_A_TIME):
        decoder.decode(words.letters[first : first + BYTES_AT_A_TIME])
    decoder.decode(b"", final=True)
    letters = np.frombuffer(words.letters, np.uint8)
    first_letters = letters[starts[:-1][starts[:-1] < n_bytes]]
    if ((first_letters & 0xC0) == 0x80).any():
        raise ValueError(f"{STARTS}: a word that begins within a character")


def check_tokens(corpus: EncodedCorpus) -> None:
    """Raise an error unless all tokens are words, and occur as often as stated."""
    n_words = len(corpus.words)
    tokens = corpus.tokens
    if len(tokens) and not (tokens.min() >= END_OF_SENTENCE and tokens.max() < n_words):
        raise ValueError(f"{TOKENS}: tokens that are no words")
    counts = np.zeros(n_words, np.int64)
    count_tokens(tokens, counts)
    is_stated = corpus.counts.dtype == np.int64 and np.array_equal(corpus.counts, counts)
    if not is_stated or corpus.n_tokens != counts.sum():
        raise ValueError(f"{COUNTS}: not how often the words occur")


def check_report(report: Record) -> None:
    """Raise an error unless a report has the required entries."""
    for source in report["sources"]:
        for name, kind in SOURCE_FACTS.items():
            if not isinstance(source[name], kind):
                raise ValueError(f"{ABOUT}: {name} of a source is {source[name]!r}")


def write_about(folder: Path, about: Record) -> None:
    """Write about.json, with the checksum of the other files if the corpus has a key."""
    data_checksum = None
    if about["key"]:
        data_checksum = checksum(folder)
    about = about | {"data_checksum": data_checksum}
    (folder / ABOUT).write_text(description_text(about), "utf-8")


def read_about(folder: Path) -> Record:
    """The content of about.json. Raises an error if it is damaged, or of another corpus."""
    about = json.loads((folder / ABOUT).read_bytes())
    if not isinstance(about, dict) or about["checksum"] != checksum_of(about):
        raise ValueError(f"{ABOUT}: not what was written there")
    if about["key"] not in ("", folder.name):
        raise ValueError(f"{ABOUT}: not what was written there")
    return about


def checksum(folder: Path) -> int:
    """The checksum of the files of a corpus, except about.json."""
    crc = 0
    for name in DATA:
        with (folder / name).open("rb") as file:
            while part := file.read(BYTES_AT_A_TIME):
                crc = zlib.crc32(part, crc)
    return crc


def bytes_in(folder: Path) -> int:
    """The size of the files in a folder in bytes; 0 if it no longer exists."""
    with contextlib.suppress(OSError):
        return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return 0

"""The token cache: a corpus is read once, its tokens go to disk under provisional ids, and training maps them into memory.

    FOLDER/KEY/           one encoded corpus; KEY is a hash of its sources and the tokeniser's settings
        tokens.bin        int32, END_OF_SENTENCE between sentences
        counts.npy        int64 (n_types,)
        letters.bin       all words in UTF-8, one after the other
        starts.npy        int64 (n_types + 1,), where each begins
        about.json        what was read, with what settings, and what was found
    FOLDER/building-*/    being written, a corpus that is not kept (standard input) or a run's own files; locked while in use

A folder is complete when it appears, because it is renamed when it is. A `building-*` that nobody locks is left from a process
that was killed; the next one removes it.
"""

import array
import contextlib
import datetime
import functools
import hashlib
import itertools
import json
import os
import shutil
import tempfile
import unicodedata
import weakref
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import cache_home
from embedx.run.progress import Progress, Silent
from embedx.settings import TextSettings
from embedx.text.sources import Source, current_fingerprint, total_size
from embedx.text.streams import ReadAhead
from embedx.text.tokenizer import END_OF_SENTENCE, BadUtf8Error, Tokenizer

try:
    import fcntl
except ImportError:  # Windows; there nothing is locked, and leftovers stay until `clear_caches`
    fcntl = None  # type: ignore[assignment]

FORMAT = 1  # part of every key: raise it when the files or the tokeniser's results change
BUILDING = "building-"
TOKENS, COUNTS, LETTERS, STARTS, ABOUT = "tokens.bin", "counts.npy", "letters.bin", "starts.npy", "about.json"
FLUSH_TOKENS = 1 << 16
SILENT = Silent()
COUNT_TOKENS = 1 << 22  # counted at a time, so that a mapped corpus need not fit into memory


class EncodedCorpus:
    """A corpus as numbers, mapped read-only from its folder."""

    def __init__(self, folder: Path, lock: int | None = None) -> None:
        self.folder = folder
        about = json.loads((folder / "about.json").read_text("utf-8"))
        self.key: str = about["key"]  # "" for a temporary corpus
        self.n_tokens: int = about["n_tokens"]  # without the marks between sentences
        self.report: dict[str, Any] = about["report"]
        self.counts: np.ndarray = np.load(folder / COUNTS)  # int64 (n_types,)
        self.tokens: np.ndarray = np.memmap(folder / TOKENS, np.int32, "r")
        if len(self.tokens) != about["n_entries"]:
            raise ValueError(f"{folder}: {len(self.tokens)} tokens and marks instead of {about['n_entries']}")
        # At the latest when the program ends.
        self._delete = weakref.finalize(self, _remove, folder, lock) if not self.key else None

    @functools.cached_property
    def words(self) -> list[str]:
        """Every word by provisional id, that is by first appearance."""
        letters = (self.folder / LETTERS).read_bytes()
        starts = np.load(self.folder / STARTS).tolist()
        return [letters[a:b].decode("utf-8", "surrogatepass") for a, b in itertools.pairwise(starts)]

    def close(self) -> None:
        """Let go of the files; those of a temporary corpus are deleted."""
        self.tokens = np.empty(0, np.int32)
        if self._delete:
            self._delete()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()


def encode(
    sources: Sequence[Source], settings: TextSettings, progress: Progress = SILENT, cache_dir: Path | None = None
) -> EncodedCorpus:
    """The sources as tokens: from the cache if they are there, else each is read once, counted and written to the cache.

    What cannot be known again (standard input, a pipe, a file that changes while it is read) becomes a temporary corpus.
    """
    home = cache_dir or default_folder()
    key = cache_key(sources, settings)
    corpus = _load(home / key) if key else None
    if corpus:
        progress.note(f"{_size(corpus)} from the token cache {corpus.folder}; nothing is read")
    else:
        with Building(home) as building:
            report = _read(sources, settings, progress, building)
            if key and all(source.fingerprint == current_fingerprint(source) for source in sources):
                corpus = building.publish(key, report, settings.record())
                progress.note(f"{_size(corpus)} written to the token cache {corpus.folder}")
            else:
                corpus = building.keep_until_closed(report, settings.record())
                progress.note(f"{_size(corpus)} written to {corpus.folder} for this run only")
    _note_bad_utf8(corpus.report, settings, progress)
    return corpus


def encode_sentences(
    sentences: Iterable[Iterable[str]], progress: Progress = SILENT, cache_dir: Path | None = None
) -> EncodedCorpus:
    """Sentences given as words, which may be any strings, as a temporary corpus; goes through them once."""
    numbers: dict[str, int] = {}
    pending = array.array("i")
    n_tokens = 0
    progress.start("reading", None, "sentences")
    with Building(cache_dir or default_folder()) as building:
        for done, sentence in enumerate(sentences, 1):
            if isinstance(sentence, str):
                raise EmbedxError(f"a sentence is a list of words, not a string; split {sentence[:40]!r} first")
            if found := [numbers.setdefault(word, len(numbers)) for word in sentence]:
                if n_tokens:
                    pending.append(END_OF_SENTENCE)
                pending.extend(found)
                n_tokens += len(found)
            if len(pending) >= FLUSH_TOKENS:
                building.write_tokens(np.array(pending))
                del pending[:]
                progress.update(done, tokens=n_tokens)
        building.write_tokens(np.array(pending))
        progress.finish()
        if not n_tokens:
            raise EmbedxError("the sentences have no words; perhaps the iterator was used up before")
        if wrong := [word for word in numbers if not isinstance(word, str)]:
            raise EmbedxError(f"a word is a string, not {type(wrong[0]).__name__}: {wrong[0]!r}")
        words = [word.encode("utf-8", "surrogatepass") for word in numbers]
        starts = np.cumsum([0, *map(len, words)], dtype=np.int64)
        building.write_words(b"".join(words), starts, building.counted(len(words)))
        return building.keep_until_closed({"n_tokens": n_tokens, "sources": [], "bytes_read": 0, "bad_utf8": 0}, {})


@dataclass(frozen=True)
class CachedCorpus:
    """What `list_caches` tells of one."""

    key: str
    sources: list[str]
    settings: dict[str, Any]
    tokens: int
    bytes: int
    created: str  # ISO 8601


def list_caches(cache_dir: Path | None = None) -> list[CachedCorpus]:
    """The corpora kept in the cache, the newest first."""
    home = cache_dir or default_folder()
    found = []
    for file in home.glob(f"*/{ABOUT}"):
        with contextlib.suppress(OSError, ValueError, KeyError):  # it may be cleared meanwhile
            about = json.loads(file.read_text("utf-8"))
            if about["key"]:
                names = [source["name"] for source in about["report"]["sources"]]
                size = _bytes_in(file.parent)
                found.append(CachedCorpus(about["key"], names, about["settings"], about["n_tokens"], size, about["created"]))
    return sorted(found, key=lambda corpus: corpus.created, reverse=True)


def clear_caches(cache_dir: Path | None = None) -> int:
    """Delete all kept corpora and what killed runs left; the bytes freed. Running programs keep what they have mapped."""
    home = cache_dir or default_folder()
    if not home.is_dir():
        return 0
    with explained(home):
        freed = _sweep(home)
    for file in list(home.glob(f"*/{ABOUT}")):
        if not file.parent.name.startswith(BUILDING):
            freed += _bytes_in(file.parent)
            shutil.rmtree(file.parent, ignore_errors=True)
    return freed


def default_folder() -> Path:
    """Where corpora are kept unless --cache-dir says otherwise."""
    return cache_home() / "tokens"


def cache_key(sources: Sequence[Source], settings: TextSettings) -> str:
    """A hash of everything the tokens depend on; "" if a source cannot be known again."""
    if any(source.fingerprint is None for source in sources):
        return ""
    identity = {
        "format": FORMAT,
        "unicode": unicodedata.unidata_version,
        "sources": [[source.reader, source.cut_off, source.fingerprint] for source in sources],
        "settings": settings.record(),
    }
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


class Building:
    """A folder in which a corpus is being written; it is deleted unless `publish` or `keep_until_closed` is reached."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kept = False

    def __enter__(self) -> Self:
        with explained(self.home):
            self.folder, self.lock = _new_folder(self.home)
            self.tokens = open(self.folder / TOKENS, "wb", buffering=0)
        return self

    def __exit__(self, *exception: object) -> None:
        self.tokens.close()
        if not self.kept:
            _remove(self.folder, self.lock)

    def write_tokens(self, tokens: np.ndarray) -> None:
        """Append int32 tokens."""
        with explained(self.home):
            view = memoryview(tokens.tobytes())
            while view:
                view = view[self.tokens.write(view) :]

    def write_words(self, letters: bytes, starts: np.ndarray, counts: np.ndarray) -> None:
        """The words, and how often each was seen."""
        with explained(self.home):
            (self.folder / LETTERS).write_bytes(letters)
            np.save(self.folder / STARTS, starts)
            np.save(self.folder / COUNTS, counts)

    def counted(self, n_types: int) -> np.ndarray:
        """How often each word is among the tokens written, int64 (n_types,)."""
        tokens = np.memmap(self.folder / TOKENS, np.int32, "r")
        counts = np.zeros(n_types, np.int64)
        for first in range(0, len(tokens), COUNT_TOKENS):
            part = tokens[first : first + COUNT_TOKENS]
            counts += np.bincount(part[part >= 0], minlength=n_types)
        return counts

    def publish(self, key: str, report: dict[str, Any], settings: dict[str, Any]) -> EncodedCorpus:
        """The finished corpus under its key; if another run was quicker with the same, that one's."""
        self._finish(key, report, settings)
        target = self.home / key
        with explained(self.home):
            try:
                self.folder.rename(target)
            except OSError:
                if (winner := _load(target)) is not None:
                    return winner
                shutil.rmtree(target)  # damaged
                self.folder.rename(target)
        self.kept = True
        _unlock(self.lock)
        return EncodedCorpus(target)

    def keep_until_closed(self, report: dict[str, Any], settings: dict[str, Any]) -> EncodedCorpus:
        """The finished corpus, to be deleted when it is closed."""
        self._finish("", report, settings)
        self.kept = True
        return EncodedCorpus(self.folder, self.lock)

    def _finish(self, key: str, report: dict[str, Any], settings: dict[str, Any]) -> None:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        about: dict[str, Any] = {
            "key": key,
            "created": created,
            "settings": settings,
            "n_tokens": report["n_tokens"],
            "report": report,
        }
        with explained(self.home):
            about["n_entries"] = self.tokens.tell() // np.dtype(np.int32).itemsize
            self.tokens.close()
            (self.folder / ABOUT).write_text(json.dumps(about, indent=1), "utf-8")


def _read(sources: Sequence[Source], settings: TextSettings, progress: Progress, building: Building) -> dict[str, Any]:
    """Read all sources into `building`; the report of what was found."""
    tokenizer = Tokenizer(settings)
    reports: list[dict[str, Any]] = []
    n_tokens = 0

    def write(arrays: Iterable[np.ndarray]) -> None:
        nonlocal n_tokens
        for tokens in arrays:
            building.write_tokens(tokens)
            n_tokens += int(np.count_nonzero(tokens != END_OF_SENTENCE))

    progress.start("reading", total_size(sources), "B")
    stored = n_before = 0
    with ReadAhead(sources) as blocks:
        for number, data, stored in blocks:
            source = sources[number]
            try:
                if data:
                    write(tokenizer.feed(data))
                else:
                    write(tokenizer.finish_source())
                    reports.append(_source_report(source, tokenizer, n_tokens - n_before))
                    n_before = n_tokens
                    tokenizer.start_source()
            except BadUtf8Error as error:
                raise EmbedxError(
                    f"{source.name}: not UTF-8 at byte {error.offset} of the (unpacked) text; "
                    "convert it with iconv -t UTF-8, or choose --on-bad-utf8 replace or skip"
                ) from error
            progress.update(stored, tokens=n_tokens)
    progress.finish()
    if not n_tokens:
        names = sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
        raise EmbedxError(f"{names}: no words in it; is it the right file, and --tokenizer {settings.tokenizer} the right one?")
    building.write_words(tokenizer.word_letters.tobytes(), tokenizer.word_starts, tokenizer.counts)
    return {
        "n_tokens": n_tokens,
        "bytes_read": stored,
        "bad_utf8": sum(report["bad_utf8"] for report in reports),
        "sources": reports,
    }


def _source_report(source: Source, tokenizer: Tokenizer, n_tokens: int) -> dict[str, Any]:
    first_bad = tokenizer.first_bad if tokenizer.bad else None
    return {"name": source.name, "tokens": n_tokens, "bad_utf8": tokenizer.bad, "first_bad_byte": first_bad}


def _note_bad_utf8(report: dict[str, Any], settings: TextSettings, progress: Progress) -> None:
    done = {"replace": "replaced by U+FFFD", "skip": "skipped"}
    for source in report["sources"]:
        if source["bad_utf8"]:
            places = "1 place is" if source["bad_utf8"] == 1 else f"{source['bad_utf8']:,} places are"
            progress.note(
                f"{source['name']}: {places} not UTF-8 and {done[settings.on_bad_utf8]}; "
                f"the first is at byte {source['first_bad_byte']} of the (unpacked) text"
            )


def _size(corpus: EncodedCorpus) -> str:
    return f"{corpus.n_tokens:,} tokens of {len(corpus.counts):,} words ({_bytes_in(corpus.folder) / 1e6:,.1f} MB)"


def _bytes_in(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.iterdir())


def _load(folder: Path) -> EncodedCorpus | None:
    """The corpus in `folder`; None if there is none, or it is being cleared."""
    try:
        return EncodedCorpus(folder)
    except (OSError, ValueError, KeyError):
        return None


@contextlib.contextmanager
def workspace(home: Path) -> Iterator[Path]:
    """A folder of files that only this run needs, deleted however it ends."""
    with explained(home):
        folder, lock = _new_folder(home)
    try:
        yield folder
    finally:
        _remove(folder, lock)


def _new_folder(home: Path) -> tuple[Path, int | None]:
    """A folder that is locked, once what killed runs left is gone."""
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home)
    with _alone(home):  # nobody may sweep it before it is locked
        folder = Path(tempfile.mkdtemp(prefix=BUILDING, dir=home))
        return folder, _try_lock(folder)


def _sweep(home: Path) -> int:
    """Delete what killed runs left; the bytes freed."""
    freed = 0
    if fcntl is None:
        return freed
    with _alone(home):
        for folder in home.glob(f"{BUILDING}*"):
            lock = _try_lock(folder)
            if lock is not None:
                with contextlib.suppress(OSError):
                    freed += _bytes_in(folder)
                _remove(folder, lock)
    return freed


@contextlib.contextmanager
def explained(home: Path) -> Iterator[None]:
    """Turn what the system says when writing fails into an `EmbedxError` with a remedy."""
    try:
        yield
    except OSError as error:
        raise EmbedxError(
            f"{home}: the token cache cannot be written ({error.strerror or error}); "
            "make room there or choose another folder with --cache-dir"
        ) from error


def _remove(folder: Path, lock: int | None) -> None:
    shutil.rmtree(folder, ignore_errors=True)
    _unlock(lock)


@contextlib.contextmanager
def _alone(home: Path) -> Iterator[None]:
    """No other process is in here for the same folder."""
    with open(home / "lock", "wb") as file:
        if fcntl is not None:
            fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _try_lock(folder: Path) -> int | None:
    """Lock it for as long as this process lives; None if another one has it."""
    if fcntl is None:
        return None
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor


def _unlock(lock: int | None) -> None:
    if lock is not None:
        os.close(lock)

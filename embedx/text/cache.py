"""The token cache: a corpus is read once, its tokens go to disk under provisional ids, and training maps them into memory.

    FOLDER/KEY/           one encoded corpus; KEY is a hash of its sources and the tokeniser's settings
        tokens.bin        int32, END_OF_SENTENCE between sentences
        counts.npy        int64 (n_types,)
        letters.bin       all words in UTF-8, one after the other
        starts.npy        int64 (n_types + 1,), where each begins
        about.json        what was read, with what settings, and what was found
    FOLDER/building-*.embedx/    a corpus being written or not kept (standard input), or a run's own files; locked while in use
        unfinished.txt    says so; it is written once the folder is locked
        spilled-*.bin     words that outgrew memory, until they are merged; see `embedx.text.spill`

A folder is complete when it appears, because it is renamed when it is. So one of the latter with that file in it, or
nothing, which nobody locks, is left from a process that was killed; the next one removes it. FOLDER may hold anything else,
which nobody touches.

What is found in the cache is checked before it is used, because compiled code looks words up by the tokens without asking
whether there are so many, and because a machine that lost its power may leave zeros, which are tokens too; what is damaged is
built anew.
"""

import array
import contextlib
import datetime
import hashlib
import json
import mmap
import os
import re
import tempfile
import unicodedata
import weakref
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, Self

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.cache_home import cache_home
from embedx.run import locks
from embedx.run.disk import free_disk
from embedx.run.memory import amount, available_memory
from embedx.run.progress import Progress, Silent
from embedx.run.trainer import usable_cores
from embedx.settings import TextSettings
from embedx.text.sources import Source, current_fingerprint, total_size
from embedx.text.spill import Merged, Spill
from embedx.text.streams import ReadAhead, TextBlock
from embedx.text.tokenizer import END_OF_SENTENCE, MOST_WORD_BYTES, BadUtf8Error
from embedx.text.tokens import Tokens
from embedx.text.word_list import WordList

FORMAT = 2  # part of every key: raise it when the files or the tokeniser's results change
KEY = re.compile(r"[0-9a-f]{24}")
BUILDING, SUFFIX = "building-", ".embedx"  # around what `mkdtemp` chooses
BUILDING_NAME = re.compile(r"building-[a-z0-9_]{8}(\.embedx)?")  # without, as earlier versions had it
TOKENS, COUNTS, LETTERS, STARTS, ABOUT = "tokens.bin", "counts.npy", "letters.bin", "starts.npy", "about.json"
FLUSH_TOKENS = 1 << 16
SILENT = Silent()
Watch = Callable[[Source, bytes], None]  # is shown each block of the text, and an empty one where a source ends
COUNT_TOKENS = 1 << 22  # counted at a time, so that a mapped corpus need not fit into memory
SAMPLED_BYTES = 1 << 24  # of text, as stored, by which is reckoned what the tokens of all of it take
CHECK_TOKENS = 1 << 18  # looked at at a time, so that the processor's cache holds them for the second look
CHECK_BYTES = 1 << 20  # of a file summed up at a time
MOST_COPIED = 1 << 26  # bytes of words and counts that are read into memory, where nothing happens to them; more are mapped
COUNT_SHARE = 0.25  # of the free memory, for words while a text is read: what unpacks it and the files written want some too


class EncodedCorpus:
    """A corpus as numbers, mapped read-only from its folder."""

    def __init__(self, folder: Path, lock: int | None = None) -> None:
        self.folder = folder
        about, self.tokens, counts, starts = _mapped(folder)
        self.key: str = about["key"]  # "" for a temporary corpus
        self.n_tokens: int = about["n_tokens"]  # without the marks between sentences
        self.checksum: int | None = about["checksum"]  # None for a temporary corpus
        self.report: dict[str, Any] = about["report"]
        is_large = sum((folder / name).stat().st_size for name in (COUNTS, STARTS, LETTERS)) > MOST_COPIED
        self.counts: np.ndarray = counts if is_large else np.array(counts)  # int64 (n_types,)
        letters = _mapped_letters(folder) if is_large else (folder / LETTERS).read_bytes()
        self.words = WordList(letters, starts if is_large else np.array(starts))
        self.bytes = _bytes_in(folder)
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


def encode(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
) -> EncodedCorpus:
    """The sources as tokens: from the cache if they are there, else each is read once, counted and written to the cache.

    They are read by as many threads, and of Wikipedia dumps by as many processes; by default one for each core. The tokens are
    the same, in the same order.

    What cannot be known again (standard input, a pipe, a file that changes while it is read) becomes a temporary corpus.
    Where somebody is to `watch` the text, it is read in any case.
    """
    home = cache_dir or default_folder()
    key = cache_key(sources, settings)
    corpus = load(home / key, progress) if key and watch is None else None
    if corpus:
        progress.note(f"{_size(corpus)} from the token cache {corpus.folder}; nothing is read")
    else:
        with Building(home) as building:
            report = _read(sources, settings, progress, building, threads or usable_cores(), watch)
            if key and all(source.fingerprint == current_fingerprint(source) for source in sources):
                corpus = building.publish(key, report, settings.record(), progress)
            else:
                corpus = building.keep_until_closed(report, settings.record())
        where = f"the token cache {corpus.folder}" if corpus.key else f"{corpus.folder} for this run only"
        progress.note(f"{_size(corpus)} written to {where}")
    _note_bad_words(corpus.report, settings, progress)
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
        building.write_words(WordList.of(numbers), building.counted(len(numbers)))
        return building.keep_until_closed({"n_tokens": n_tokens, "sources": [], "bytes_read": 0, "bad_utf8": 0}, {})


@dataclass(frozen=True)
class CachedCorpus:
    """What `list_caches` tells of one."""

    key: str
    sources: list[str]
    settings: dict[str, Any]
    tokens: int
    bytes: int
    created: str  # ISO 8601; "" where it is damaged, of which little more is known than the size
    damage: str | None = None


def list_caches(cache_dir: Path | None = None) -> list[CachedCorpus]:
    """The corpora kept in the cache, the newest first, damaged ones last. Damage within the tokens shows when they are used."""
    home = cache_dir or default_folder()
    with explained(home, "read"):
        found = [described for folder in _kept_in(home) if (described := _described(folder))]
    return sorted(found, key=lambda corpus: corpus.created, reverse=True)


def _described(folder: Path) -> CachedCorpus | None:
    """What there is to tell of a kept corpus; None if it was cleared meanwhile."""
    size = _bytes_in(folder)
    try:
        about = _mapped(folder).about
    except Exception as error:  # numpy and JSON raise what they like, given the bytes
        return CachedCorpus(folder.name, [], {}, 0, size, "", str(error)) if folder.exists() else None
    names = [source["name"] for source in about["report"]["sources"]]
    return CachedCorpus(folder.name, names, about["settings"], about["n_tokens"], size, about["created"])


def clear_caches(cache_dir: Path | None = None) -> int:
    """Delete all kept corpora and what killed runs left; the bytes freed. Running programs keep what they have mapped."""
    home = cache_dir or default_folder()
    with explained(home):
        if not home.is_dir():
            return 0
        freed = _sweep(home)
        if kept := _kept_in(home):
            with workspace(home) as away:  # where nobody looks for them: no run finds a part of one
                freed += sum(_move(folder, away) for folder in kept)
    return freed


def _move(folder: Path, away: Path) -> int:
    """Move a kept corpus into the folder `away`; its bytes, none if others were quicker."""
    lock = locks.lock(folder)  # a run that has just published it may have yet to open it
    try:
        folder.rename(away / folder.name)
    except OSError:
        return 0
    finally:
        locks.unlock(lock)
    return _bytes_in(away / folder.name)


def _kept_in(home: Path) -> list[Path]:
    """The kept corpora, whole or damaged."""
    return sorted(folder for folder in home.iterdir() if _is_kept(folder)) if home.is_dir() else []


def _is_kept(folder: Path) -> bool:
    """Whether it is a kept corpus, whole or damaged: a key is its name, and nothing is in it but the files of one."""
    if not KEY.fullmatch(folder.name) or folder.is_symlink():
        return False
    with contextlib.suppress(OSError):
        names = {file.name for file in folder.iterdir()}
        return bool(names) and names <= {TOKENS, COUNTS, LETTERS, STARTS, ABOUT, locks.UNFINISHED}
    return False


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
            locks.remove(self.folder, self.lock)

    def write_tokens(self, tokens: np.ndarray) -> None:
        """Append int32 tokens."""
        with explained(self.home):
            view = memoryview(tokens.tobytes())
            while view:
                view = view[self.tokens.write(view) :]

    def check_room(self, share: float) -> bool:
        """Raise `EmbedxError` if the disk has no room for the tokens of all of the text, of which this share is written."""
        written, free = self.tokens.tell(), free_disk(self.home)
        if written / share - written > free:
            raise EmbedxError(
                f"{self.home}: the disk has {amount(free)} free, and the token cache of this text will take "
                f"{amount(written / share)}; make room there or choose another folder with --cache-dir"
            )
        return True

    def write_words(self, words: WordList, counts: np.ndarray) -> None:
        """The words, and how often each was seen."""
        with explained(self.home):
            (self.folder / LETTERS).write_bytes(words.letters)
            np.save(self.folder / STARTS, words.starts)
            np.save(self.folder / COUNTS, counts)

    def n_entries(self) -> int:
        """How many tokens and marks were written."""
        return self.tokens.tell() // np.dtype(np.int32).itemsize

    def merge(self, spill: Spill, memory: int, progress: Progress) -> None:
        """The words of all tables that were spilled, and the tokens by their numbers."""
        files = (self.folder / name for name in (TOKENS, LETTERS, STARTS, COUNTS))
        with explained(self.home):
            spill.merge(Merged(*files), memory, progress)

    def counted(self, n_types: int) -> np.ndarray:
        """How often each word is among the tokens written, int64 (n_types,)."""
        tokens = np.memmap(self.folder / TOKENS, np.int32, "r")
        counts = np.zeros(n_types, np.int64)
        for first in range(0, len(tokens), COUNT_TOKENS):
            part = tokens[first : first + COUNT_TOKENS]
            counts += np.bincount(part[part >= 0], minlength=n_types)
        return counts

    def publish(self, key: str, report: dict[str, Any], settings: dict[str, Any], progress: Progress = SILENT) -> EncodedCorpus:
        """The finished corpus under its key; if another run was quicker with the same, that one's.

        It is deleted when it is closed where something is in the way that is not this program's, or another user's.
        """
        self._finish(key, report, settings)
        target = self.home / key
        with explained(self.home):
            while not self._renamed_to(target):
                if (winner := load(target, SILENT)) is not None:
                    return winner
                if not self._make_way(target):
                    progress.note(f"{target}: is in the way, and cannot be replaced; delete it, or name another --cache-dir")
                    return self.keep_until_closed(report, settings)
            corpus = EncodedCorpus(target)  # which none can clear before it is unlocked
        self.kept = True
        with contextlib.suppress(OSError):
            (target / locks.UNFINISHED).unlink()
        locks.unlock(self.lock)
        return corpus

    def _renamed_to(self, target: Path) -> bool:
        """Whether the folder could be renamed; if not, something is there."""
        try:
            self.folder.rename(target)
        except OSError:
            if not target.exists():
                raise
            return False
        return True

    def _make_way(self, target: Path) -> bool:
        """Delete a damaged corpus; whether it is gone."""
        if _is_kept(target):
            with workspace(self.home) as away:
                _move(target, away)
        return not target.exists()

    def keep_until_closed(self, report: dict[str, Any], settings: dict[str, Any]) -> EncodedCorpus:
        """The finished corpus, to be deleted when it is closed."""
        self._finish("", report, settings)
        corpus = EncodedCorpus(self.folder, self.lock)
        self.kept = True
        return corpus

    def _checksum(self) -> int:
        """That of the files which are there."""
        tokens = np.memmap(self.folder / TOKENS, np.int32, "r")
        sums = (_sum(tokens[first : first + CHECK_TOKENS]) for first in range(0, len(tokens), CHECK_TOKENS))
        return _checksum(self.folder, sums)

    def _finish(self, key: str, report: dict[str, Any], settings: dict[str, Any]) -> None:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with explained(self.home):
            self.tokens.close()
            about: dict[str, Any] = {
                "key": key,
                "created": created,
                "settings": settings,
                "n_tokens": report["n_tokens"],
                "report": report,
                "n_entries": (self.folder / TOKENS).stat().st_size // np.dtype(np.int32).itemsize,
                "checksum": self._checksum() if key else None,
            }
            (self.folder / ABOUT).write_text(json.dumps(about, indent=1), "utf-8")


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


def _read(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress,
    building: Building,
    threads: int,
    watch: Watch | None,
) -> dict[str, Any]:
    """Read all sources into `building`; the report of what was found."""
    reports: list[dict[str, Any]] = []
    n_tokens = stored = 0
    report = _new_report(sources[0])
    memory = int(COUNT_SHARE * available_memory() if settings.vocab_memory is None else 1e9 * settings.vocab_memory)
    spill = Spill(building.folder)
    total = total_size(sources)
    was_checked = len({Path(source.name).suffix for source in sources}) > 1  # where one does not tell of another
    progress.start("reading", total, "B")
    with (
        ReadAhead(sources, settings, threads) as read,
        Tokens(_watched(read, sources, watch), sources, settings, threads, memory) as pieces,
    ):
        try:
            for piece in pieces:
                for tokens in piece.tokens:
                    building.write_tokens(tokens)
                    report["tokens"] += int(np.count_nonzero(tokens != END_OF_SENTENCE))
                if piece.bad and not report["bad_utf8"]:
                    report["first_bad_byte"] = piece.first_bad
                report["bad_utf8"] += piece.bad
                report["too_long"] += piece.too_long
                stored = piece.stored
                if total and not was_checked and stored >= SAMPLED_BYTES:
                    was_checked = building.check_room(min(stored / total, 1.0))
                progress.update(stored, tokens=n_tokens + report["tokens"])
                if piece.is_last:
                    reports.append(report)
                    n_tokens += report["tokens"]
                    report = _new_report(sources[min(len(reports), len(sources) - 1)])
                if pieces.outgrow():
                    if not spill.segments:
                        so_far = n_tokens + report["tokens"]
                        progress.note(
                            f"the different words outgrow {amount(memory)} after {so_far:,} words of text: they go to disk, "
                            "and are merged at the end; --vocab-memory gives them more"
                        )
                    _spill(pieces, spill, building)
        except BadUtf8Error as error:
            raise EmbedxError(
                f"{sources[pieces.source].name}: not UTF-8 at byte {error.offset} of the (unpacked) text; "
                "convert it with iconv -t UTF-8, or choose --on-bad-utf8 replace or skip"
            ) from error
    progress.finish()
    if not n_tokens:
        names = sources[0].name if len(sources) == 1 else f"{sources[0].name} and {len(sources) - 1} more"
        raise EmbedxError(f"{names}: no words in it; is it the right file, and --tokenizer {settings.tokenizer} the right one?")
    words = pieces.words
    if spill.segments:
        if words.n_types:
            _spill(pieces, spill, building)
        building.merge(spill, memory, progress)
    else:
        building.write_words(WordList(words.word_letters.tobytes(), words.word_starts), words.counts)
    return {
        "n_tokens": n_tokens,
        "bytes_read": stored,
        "bad_utf8": sum(report["bad_utf8"] for report in reports),
        "sources": reports,
    }


def _spill(pieces: Tokens, spill: Spill, building: Building) -> None:
    """Write out the words that all tokens are numbered by which were written since it was done before."""
    with explained(building.home):
        spill.add(*pieces.emptied(), building.n_entries())


def _watched(blocks: Iterable[TextBlock], sources: Sequence[Source], watch: Watch | None) -> Iterator[TextBlock]:
    """The blocks as they are, each shown to who is to watch them."""
    for block in blocks:
        if watch is not None:
            watch(sources[block.source], block.data)
        yield block


def _new_report(source: Source) -> dict[str, Any]:
    """Of a source of which nothing is read yet."""
    return {"name": source.name, "tokens": 0, "bad_utf8": 0, "first_bad_byte": None, "too_long": 0}


def _note_bad_words(report: dict[str, Any], settings: TextSettings, progress: Progress) -> None:
    done = {"replace": "replaced by U+FFFD", "skip": "skipped"}
    for source in report["sources"]:
        if source["bad_utf8"]:
            places = "1 place is" if source["bad_utf8"] == 1 else f"{source['bad_utf8']:,} places are"
            progress.note(
                f"{source['name']}: {places} not UTF-8 and {done[settings.on_bad_utf8]}; "
                f"the first is at byte {source['first_bad_byte']} of the (unpacked) text"
            )
        if n := source.get("too_long"):  # corpora of older versions do not tell
            words = "1 word" if n == 1 else f"{n:,} words"
            progress.note(f"{source['name']}: {words} of more than {MOST_WORD_BYTES:,} bytes left out; is all of it text?")


def _size(corpus: EncodedCorpus) -> str:
    return f"{corpus.n_tokens:,} tokens of {len(corpus.counts):,} words ({corpus.bytes / 1e6:,.1f} MB)"


def _bytes_in(folder: Path) -> int:
    """How much a folder holds, as far as nobody deletes it meanwhile."""
    size = 0
    for below, _, names in os.walk(folder):
        for name in names:
            with contextlib.suppress(OSError):
                size += os.path.getsize(os.path.join(below, name))
    return size


# ---- reading what may be damaged


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


def _mapped(folder: Path) -> _Mapped:
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
        sources = [(source["name"], source["bad_utf8"], source["first_bad_byte"]) for source in report["sources"]]
        texts = [about["created"], *(name for name, _, _ in sources)]
        numbers = [about["n_tokens"], about["n_entries"], about["checksum"] or 0, *(bad for _, bad, _ in sources)]
        whole = all(isinstance(text, str) for text in texts) and all(isinstance(number, int) for number in numbers)
        whole = whole and isinstance(about["settings"], dict)
        whole = whole and about["key"] == (folder.name if KEY.fullmatch(folder.name) else "")
    except (KeyError, TypeError):
        whole = False
    _demand(whole, ABOUT, "not what was written there")
    return dict(about)


def _demand(whole: bool, file: str, complaint: str) -> None:
    if not whole:
        raise ValueError(f"{file}: {complaint}")


# ---- folders that do not stay


@contextlib.contextmanager
def workspace(home: Path) -> Iterator[Path]:
    """A folder of files that only this run needs, deleted however it ends."""
    with explained(home):
        folder, lock = _new_folder(home)
    try:
        yield folder
    finally:
        locks.remove(folder, lock)


def _new_folder(home: Path) -> tuple[Path, int | None]:
    """A folder that is locked, once what killed runs left is gone."""
    home.mkdir(parents=True, exist_ok=True)
    _sweep(home)
    return locks.new_marked(lambda: Path(tempfile.mkdtemp(SUFFIX, BUILDING, home)))


def _sweep(home: Path) -> int:
    """Delete what killed runs left; the bytes freed."""
    freed = 0
    for folder in home.iterdir():
        if BUILDING_NAME.fullmatch(folder.name) and not folder.is_symlink():
            size = _bytes_in(folder)
            freed += size if locks.remove_if_left(folder, even_empty=folder.name.endswith(SUFFIX)) else 0
    return freed


@contextlib.contextmanager
def explained(home: Path, attempt: str = "written") -> Iterator[None]:
    """Turn what the system says when writing fails into an `EmbedxError` with a remedy."""
    try:
        yield
    except OSError as error:
        raise EmbedxError(
            f"{home}: the token cache cannot be {attempt} ({error.strerror or error}); "
            "make room there or choose another folder with --cache-dir"
        ) from error

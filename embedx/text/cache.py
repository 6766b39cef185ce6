"""The token cache: a corpus is read once, its tokens go to disk under provisional ids, and training
maps them into memory.

    FOLDER/KEY/           one encoded corpus; KEY is a hash of its sources and the tokeniser's
                          settings
        tokens.bin        int32, END_OF_SENTENCE between sentences
        counts.npy        int64 (n_types,)
        letters.bin       all words in UTF-8, one after the other
        starts.npy        int64 (n_types + 1,), where each begins
        about.json        what was read, with what settings, and what was found
    FOLDER/building-*.embedx/    a corpus being written or not kept (standard input), or a run's own
                                 files; locked while in use
        spilled-*.bin     words that outgrew memory, until they are merged; see
                          `embedx.text.spilled_words`

A corpus is written in a temporary folder, which is locked, and renamed when it is complete. A
temporary folder without a lock is left from a killed process; the next run deletes it. Other files
in FOLDER are never touched. A corpus of the cache is checked before it is used
(`embedx.text.encoded_corpus`); a damaged one is built again.
"""

import array
import hashlib
import json
import reprlib
import unicodedata
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import DataError, SettingError, joined, near_file
from embedx.runtime.cache_home import absolute, kept_in, with_spare
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.storage.schema import as_utf8, is_utf8
from embedx.text.corpus_writer import CorpusWriter, explained, is_kept, remove_kept, sweep
from embedx.text.encoded_corpus import EncodedCorpus, bytes_in, load, read_about
from embedx.text.reading import Watch, check_found, read, skipped_kinds
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, current_fingerprint
from embedx.text.tokenizer import END_OF_SENTENCE, MAX_WORD_BYTES
from embedx.text.unicode_forms import normalized
from embedx.text.word_list import WordList, check_is_list
from embedx.training.trainer import usable_cores

FORMAT = 6  # part of every key: raise it when the files or the tokeniser's results change
FLUSH_TOKENS = 1 << 16


def encode(
    sources: Sequence[Source],
    settings: TextSettings,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    threads: int | None = None,
    watch: Watch | None = None,
) -> EncodedCorpus:
    """The sources as tokens: from the cache if they are there, else each is read once, counted and
    written to the cache.

    They are read by as many threads, and of Wikipedia dumps by as many processes; by default one
    for each core. The tokens are the same, in the same order.

    Sources without a fingerprint (standard input, a pipe, a file that changes while it is read)
    become a temporary corpus. With `watch` the text is read even if it is in the cache.
    """
    key = cache_key(sources, settings)
    corpus = kept(key, cache_dir, progress) if watch is None else None
    if corpus:
        progress.detail(f"{_size(corpus)} from {corpus.place}; nothing is read")
    else:
        with CorpusWriter(folders(cache_dir)[0]) as writer:
            report = read(sources, settings, progress, writer, threads or usable_cores(), watch)
            check_found(report, sources, settings)
            if any(source.fingerprint != current_fingerprint(source) for source in sources):
                key = ""
            corpus = writer.finish(report, settings.record(), key, progress)
        progress.detail(f"{_size(corpus)} written to {corpus.place}")
    _note_folders(corpus.report, sources, progress)
    _note_bad(corpus.report, settings, progress)
    return corpus


def encode_sentences(
    sentences: Iterable[Iterable[str]],
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
    form: str | None = None,
) -> EncodedCorpus:
    """Sentences given as words, which may be any strings, as a temporary corpus; goes through them
    once. Half of a surrogate pair, which no file can hold, becomes U+FFFD.

    form  of Unicode to which words are converted: `nfc` or `nfkc`; None leaves them as they are
    """
    numbers = Numbers()
    pending = array.array("i")
    progress.start("reading", None, "sentences")
    with CorpusWriter(folders(cache_dir)[0]) as writer:
        for done, sentence in enumerate(sentences, 1):
            words = check_is_list(sentence, done, "sentences")
            if form is not None:
                words = [
                    normalized(word, form) if isinstance(word, str) else word for word in words
                ]
            try:
                ids = [numbers[word] for word in words]
            except TypeError as error:  # a list, which has no hash
                problem = f"number {done:,} has words that are no strings ({error})"
                raise DataError("sentences", None, problem, "give lists of strings") from error
            if ids:
                pending.extend([*ids, END_OF_SENTENCE])
            if len(pending) >= FLUSH_TOKENS:
                writer.write_tokens(np.array(pending))
                del pending[:]
                progress.update(done)
        writer.write_tokens(np.array(pending))
        progress.finish()
        if not numbers:
            remedy = "was the iterator used up before?"
            raise DataError("sentences", None, "no words", remedy)
        if wrong := [word for word in numbers if not isinstance(word, str)]:
            problem = f"{reprlib.repr(wrong[0])} is a word, but no string"
            raise DataError("sentences", None, problem, "give strings: str(word) for each")
        if numbers.n_replaced:
            progress.note(
                f"{_number(numbers.n_replaced, 'word')} with half of a surrogate pair, which no"
                " file can hold, replaced by U+FFFD"
            )
        writer.write_words(WordList.of(numbers.words))
        return writer.finish({"sources": []}, {})


class Numbers(dict[str, int]):
    """Numbers words in the order in which they are first looked up."""

    def __init__(self) -> None:
        self.words: dict[str, None] = {}  # by number, as files can hold them
        self.n_replaced = 0  # distinct words that are held differently

    def __missing__(self, word: str) -> int:
        written = word
        if isinstance(word, str) and not is_utf8(word):
            written = as_utf8(word)
            self.n_replaced += 1
        number = len(self.words)
        if written in self.words:
            number = self[written]
        self.words[written] = None
        self[word] = self[written] = number
        return number


def list_caches(cache_dir: Path | None = None) -> list[Record]:
    """The corpora kept in the cache, the newest first: key, sources, settings, tokens, bytes and
    when each was created.

    Damaged ones are the last, with "damage" other than None; damage within the tokens shows when
    they are used.
    """
    found = []
    homes = default_folders() if cache_dir is None else (cache_dir,)
    with explained(homes[0], "read"):
        for folder in (folder for home in homes for folder in _kept_in(home)):
            each = {
                "key": folder.name,
                "sources": [],
                "settings": {},
                "tokens": 0,
                "bytes": bytes_in(folder),
                "created": "",
                "damage": None,
            }
            try:
                about = read_about(folder)
                names = [source["name"] for source in about["report"]["sources"]]
                each |= {
                    "sources": names,
                    "tokens": about["n_tokens"],
                    **{key: about[key] for key in ("settings", "created")},
                }
            except Exception as error:  # JSON raises what it likes, given the bytes
                each["damage"] = str(error)
            if folder.exists():  # else it was cleared meanwhile
                found.append(each)
    return sorted(found, key=lambda corpus: corpus["created"], reverse=True)


def clear_caches(cache_dir: Path | None = None) -> int:
    """Delete all kept corpora and what killed runs left; the bytes freed. Running programs keep
    what they have mapped. Raises `SettingError` where the folder that is named does not exist.
    """
    home = cache_dir or default_folders()[0]
    with explained(home):
        if cache_dir is not None and not cache_dir.is_dir():
            remedy = near_file(str(cache_dir), "check the name")
            raise SettingError("cache_dir", str(cache_dir), "no such folder", remedy)
        before = bytes_in(home)
        sweep(home)
        for folder in _kept_in(home):
            remove_kept(folder)
    return max(before - bytes_in(home), 0)


def _kept_in(home: Path) -> list[Path]:
    """The kept corpora, whole or damaged."""
    return sorted(folder for folder in home.iterdir() if is_kept(folder)) if home.is_dir() else []


def folders(cache_dir: Path | None = None) -> tuple[Path, ...]:
    """Where corpora are kept, as --cache-dir says or by default: all are read, and what is new is
    written to the first.
    """
    if cache_dir is None:
        return default_folders()
    folder = absolute(str(cache_dir))
    try:
        return with_spare(folder, "tokens")
    except OSError:  # it is made when it is written to, which explains what is wrong
        return (folder,)


def default_folders() -> tuple[Path, ...]:
    """The folders without --cache-dir."""
    return kept_in("tokens")


def kept(key: str, cache_dir: Path | None, progress: Progress) -> EncodedCorpus | None:
    """The kept corpus of this key, or None; also for "", the key of what cannot be kept."""
    if not key:
        return None
    corpora = (load(folder / key, progress) for folder in folders(cache_dir))
    return next((corpus for corpus in corpora if corpus is not None), None)


def cache_key(sources: Sequence[Source], settings: TextSettings) -> str:
    """A hash of everything the tokens depend on; "" if a source cannot be known again."""
    if any(source.fingerprint is None for source in sources):
        return ""
    identity = [[each.reader, each.cut_off, each.fingerprint] for each in sources]
    return digest([FORMAT, unicodedata.unidata_version, identity, settings.record()])


def digest(identity: Any) -> str:
    """A key: the hash of plain types."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def _note_folders(report: Record, sources: Sequence[Source], progress: Progress) -> None:
    """Say of each folder how many files were read, and what was not."""
    left_out = {source.folder: source.left_out for source in sources if source.folder}
    for folder, not_read in left_out.items():
        found = [
            each
            for each, source in zip(report["sources"], sources, strict=True)
            if source.folder == folder
        ]
        files = _number(sum(not each["skipped"] for each in found), "file")
        skipped = [part for part in (skipped_kinds(found), not_read) if part]
        progress.note(f"{folder}: {files} read; skipped: ", joined(skipped, ", ") or "none")


def _note_bad(report: Record, settings: TextSettings, progress: Progress) -> None:
    """Say what was left out of the sources, and how many damaged places they have."""
    done = {"replace": "replaced by U+FFFD", "skip": "skipped"}
    for source in report["sources"]:
        name = source["name"]
        if n := source["bad_utf8"]:
            first = f"the first is at byte {source['first_bad_byte']} of the (unpacked) text"
            progress.note(
                f"{name}: {_number(n, 'place')} not UTF-8, {done[settings.on_bad_utf8]}; {first}"
            )
        if n := source["bad_records"]:
            progress.note(
                f"{name}: {_number(n, 'record')} skipped; the first: {source['first_bad_record']}"
            )
        if n := source["too_long"]:
            progress.note(
                f"{name}: {_number(n, 'word')} of more than {MAX_WORD_BYTES:,} bytes left out; is"
                " all of it text?"
            )


def _number(n: int, noun: str) -> str:
    return f"{n:,} {noun}" + "s" * (n != 1)


def _size(corpus: EncodedCorpus) -> str:
    return (
        f"{corpus.n_tokens:,} tokens of {len(corpus.counts):,} words ({corpus.bytes / 1e6:,.1f} MB)"
    )

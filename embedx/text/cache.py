"""The token cache: a corpus is read once, its tokens are stored on disk as provisional ids, and
training maps them into memory.

    FOLDER/KEY/           one encoded corpus; KEY is a hash of its sources and the tokeniser's
                          settings
        tokens.bin        int32, END_OF_SENTENCE between sentences
        counts.npy        int64 (n_types,)
        letters.bin       all words in UTF-8, one after the other
        starts.npy        int64 (n_types + 1,), the offset of each word
        about.json        the sources, the settings, and the counts
    FOLDER/building-*.embedx/    a corpus being written or not kept (standard input), or a run's own
                                 files; locked while in use
        spilled-*.bin     words that did not fit into memory, until they are merged; see
                          `embedx.text.spilled_words`

A corpus is written in a temporary folder, which is locked, and renamed when it is complete. A
temporary folder without a lock was left by a killed process; the next run deletes it. Other files
in FOLDER are never touched. A cached corpus is checked before it is used
(`embedx.text.encoded_corpus`); a damaged one is rebuilt.
"""

import hashlib
import json
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedx.errors import SettingError, near_file
from embedx.runtime.cache_home import absolute, kept_in, with_spare
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.text.corpus_writer import is_kept, remove_kept
from embedx.text.encoded_corpus import EncodedCorpus, bytes_in, load, read_about
from embedx.text.settings import TextSettings
from embedx.text.sources import Source
from embedx.text.temporary_folders import errors_explained, sweep

# Part of every key: increase it when the files or the tokeniser's results change.
FORMAT = 7


def folders(cache_dir: Path | None = None) -> tuple[Path, ...]:
    """The folders of the cache, from --cache-dir or by default. All are searched; new corpora are
    written to the first.
    """
    if cache_dir is None:
        return default_folders()
    folder = absolute(str(cache_dir))
    try:
        return with_spare(folder, "tokens")
    except OSError:
        # created on first write, whose error message explains any problem
        return (folder,)


def default_folders() -> tuple[Path, ...]:
    """The folders of the cache if --cache-dir is not given."""
    return kept_in("tokens")


def cache_key(sources: Sequence[Source], settings: TextSettings) -> str:
    """A hash of everything the tokens depend on; "" if a source has no fingerprint."""
    if any(source.fingerprint is None for source in sources):
        return ""
    identity = [[source.reader, source.cut_off, source.fingerprint] for source in sources]
    return digest([FORMAT, unicodedata.unidata_version, identity, settings.record()])


def digest(identity: Any) -> str:
    """A key: the hash of values of JSON types."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def kept(key: str, cache_dir: Path | None, progress: Progress) -> EncodedCorpus | None:
    """The cached corpus with this key, or None; "", the key of a temporary corpus, gives None."""
    if not key:
        return None
    corpora = (load(folder / key, progress) for folder in folders(cache_dir))
    return next((corpus for corpus in corpora if corpus is not None), None)


def list_caches(cache_dir: Path | None = None) -> list[Record]:
    """The corpora in the cache, newest first: key, sources, settings, tokens, bytes and time of
    creation.

    Damaged corpora come last, with "damage" other than None; damage within the tokens is found only
    when they are used. Raises `SettingError` if the given folder does not exist.
    """
    homes = default_folders() if cache_dir is None else (cache_dir,)
    corpora = []
    with errors_explained(homes[0], "read"):
        _check_named(cache_dir)
        for home in homes:
            for folder in _kept_in(home):
                corpus = _described(folder)
                # otherwise another process has cleared it
                if folder.exists():
                    corpora.append(corpus)
    return sorted(corpora, key=lambda corpus: corpus["created"], reverse=True)


def _described(folder: Path) -> Record:
    """The entry of `list_caches` for a cached corpus."""
    corpus: Record = {
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
        return corpus | {
            "sources": [source["name"] for source in about["report"]["sources"]],
            "settings": about["settings"],
            "tokens": about["n_tokens"],
            "created": about["created"],
        }
    except Exception as error:
        # damaged JSON may raise errors of many types
        return corpus | {"damage": str(error)}


def clear_caches(cache_dir: Path | None = None, progress: Progress = SILENT) -> int:
    """Delete all cached corpora and what killed runs left; return the number of bytes freed.
    Running programs keep what they have mapped. Raises `SettingError` if the given folder does not
    exist.

    Corpora in read-only default folders, such as those of an image, stay, and a note says so.
    """
    if cache_dir is None:
        for read_only in default_folders()[1:]:
            n_corpora = len(_kept_in(read_only))
            if n_corpora:
                progress.note(f"{read_only}: read-only, so its corpora are kept: {n_corpora:,}")
    home = cache_dir or default_folders()[0]
    with errors_explained(home):
        _check_named(cache_dir)
        before = bytes_in(home)
        sweep(home)
        for folder in _kept_in(home):
            remove_kept(folder)
    return max(before - bytes_in(home), 0)


def _check_named(cache_dir: Path | None) -> None:
    """Raise `SettingError` where the folder that is named does not exist."""
    if cache_dir is not None and not cache_dir.is_dir():
        remedy = near_file(str(cache_dir), "check the name")
        raise SettingError("cache_dir", str(cache_dir), "no such folder", remedy)


def _kept_in(home: Path) -> list[Path]:
    """The cached corpora, complete or damaged."""
    if not home.is_dir():
        return []
    return sorted(folder for folder in home.iterdir() if is_kept(folder))

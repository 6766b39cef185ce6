"""The token cache: a corpus is read once, its tokens go to disk under provisional ids, and training
maps them into memory.

    FOLDER/KEY/           one encoded corpus; KEY is a hash of its sources and the tokeniser's
                          settings
        tokens.bin        int32, END_OF_SENTENCE between sentences
        counts.npy        int64 (n_types,)
        letters.bin       all words in UTF-8, one after the other
        starts.npy        int64 (n_types + 1,), where each begins
        about.json        what was read, with what settings, and what was counted
    FOLDER/building-*.embedx/    a corpus being written or not kept (standard input), or a run's own
                                 files; locked while in use
        spilled-*.bin     words that outgrew memory, until they are merged; see
                          `embedx.text.spilled_words`

A corpus is written in a temporary folder, which is locked, and renamed when it is complete. A
temporary folder without a lock is left from a killed process; the next run deletes it. Other files
in FOLDER are never touched. A corpus of the cache is checked before it is used
(`embedx.text.encoded_corpus`); a damaged one is built again.
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

# Part of every key: raise it when the files or the tokeniser's results change.
FORMAT = 7


def folders(cache_dir: Path | None = None) -> tuple[Path, ...]:
    """Where corpora are kept, as --cache-dir says or by default: all are read, and what is new is
    written to the first.
    """
    if cache_dir is None:
        return default_folders()
    folder = absolute(str(cache_dir))
    try:
        return with_spare(folder, "tokens")
    except OSError:
        # it is made when it is written to, which explains what is wrong
        return (folder,)


def default_folders() -> tuple[Path, ...]:
    """The folders without --cache-dir."""
    return kept_in("tokens")


def cache_key(sources: Sequence[Source], settings: TextSettings) -> str:
    """A hash of everything the tokens depend on; "" if a source cannot be known again."""
    if any(source.fingerprint is None for source in sources):
        return ""
    identity = [[source.reader, source.cut_off, source.fingerprint] for source in sources]
    return digest([FORMAT, unicodedata.unidata_version, identity, settings.record()])


def digest(identity: Any) -> str:
    """A key: the hash of plain types."""
    return hashlib.sha256(json.dumps(identity, sort_keys=True).encode()).hexdigest()[:24]


def kept(key: str, cache_dir: Path | None, progress: Progress) -> EncodedCorpus | None:
    """The kept corpus of this key, or None; also for "", the key of what cannot be kept."""
    if not key:
        return None
    corpora = (load(folder / key, progress) for folder in folders(cache_dir))
    return next((corpus for corpus in corpora if corpus is not None), None)


def list_caches(cache_dir: Path | None = None) -> list[Record]:
    """The corpora kept in the cache, the newest first: key, sources, settings, tokens, bytes and
    when each was created.

    Damaged ones are the last, with "damage" other than None; damage within the tokens shows when
    they are used. Raises `SettingError` where the folder that is named does not exist.
    """
    homes = default_folders() if cache_dir is None else (cache_dir,)
    corpora = []
    with errors_explained(homes[0], "read"):
        _check_named(cache_dir)
        for home in homes:
            for folder in _kept_in(home):
                corpus = _described(folder)
                # else it was cleared meanwhile
                if folder.exists():
                    corpora.append(corpus)
    return sorted(corpora, key=lambda corpus: corpus["created"], reverse=True)


def _described(folder: Path) -> Record:
    """What `list_caches` says of a kept corpus."""
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
        # JSON raises what it likes, given the bytes
        return corpus | {"damage": str(error)}


def clear_caches(cache_dir: Path | None = None, progress: Progress = SILENT) -> int:
    """Delete all kept corpora and what killed runs left; the bytes freed. Running programs keep
    what they have mapped. Raises `SettingError` where the folder that is named does not exist.

    Corpora of default folders that can only be read, as in an image, stay and are noted.
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
    """The kept corpora, whole or damaged."""
    if not home.is_dir():
        return []
    return sorted(folder for folder in home.iterdir() if is_kept(folder))

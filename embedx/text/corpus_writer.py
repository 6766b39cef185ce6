"""A corpus being written, in a folder that is deleted unless it is finished; other folders that do not stay."""

import contextlib
import datetime
import re
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedx.errors import EmbedxError
from embedx.storage import locks
from embedx.storage.disk import amount, free_disk
from embedx.text import encoded_corpus as files
from embedx.text.encoded_corpus import COUNTS, LETTERS, STARTS, TOKENS, EncodedCorpus, bytes_in, load
from embedx.text.spilled_words import Spill
from embedx.text.tokenizer import Tokenizer, count_tokens
from embedx.text.word_list import WordList
from embedx.training.progress import Progress, Silent

BUILDING, SUFFIX = "building-", ".embedx"  # around what `mkdtemp` chooses
BUILDING_NAME = re.compile(r"building-[a-z0-9_]{8}(\.embedx)?")  # without, as earlier versions had it
SAMPLED_BYTES = 1 << 24  # of text, as stored: by their tokens the size of all tokens is predicted
SILENT = Silent()


class CorpusWriter:
    """A folder in which a corpus is being written; it is deleted unless `publish` or `keep_until_closed` is reached."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.kept = self._was_checked = False

    def __enter__(self) -> Self:
        with explained(self.home):
            self.folder, self.lock = _new_folder(self.home)
            self.tokens = open(self.folder / TOKENS, "wb", buffering=0)
        self.spill = Spill(self.folder)
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

    def check_disk(self, stored: int, size: int | None) -> None:
        """Raise `EmbedxError` if the tokens of all `size` bytes of sources will not fit on the disk, by those of `stored`."""
        if not size or stored < SAMPLED_BYTES or self._was_checked:
            return
        self._was_checked = True
        written, free = self.tokens.tell(), free_disk(self.home)
        expected = written / min(stored / size, 1.0)
        if expected - written > free:
            raise EmbedxError(
                f"{self.home}: the disk has {amount(free)} free, and the token cache of this text will take "
                f"{amount(expected)}; make room there or choose another folder with --cache-dir"
            )

    def write_words(self, words: WordList) -> np.ndarray:
        """Write the words of the tokens, and how often each occurs, which is returned."""
        with explained(self.home):
            (self.folder / LETTERS).write_bytes(words.letters)
            np.save(self.folder / STARTS, words.starts)
            return self._count(len(words))

    def set_aside(self, letters: np.ndarray, starts: np.ndarray) -> None:
        """Write out the words of the tokens that were written since this was done; `finish_words` merges them."""
        with explained(self.home):
            self.spill.add(letters, starts, self.n_entries())

    def finish_words(self, words: Tokenizer, memory: int, progress: Progress) -> None:
        """Write all words, of which `words` has those that were not set aside."""
        if not self.spill.segments:
            self.write_words(WordList(words.word_letters.tobytes(), words.word_starts))
            return
        if words.n_types:
            self.set_aside(*words.emptied())
        with explained(self.home):
            self.spill.merge(self.folder / TOKENS, self.folder / LETTERS, self.folder / STARTS, memory, progress)
            self._count(len(np.load(self.folder / STARTS, mmap_mode="r")) - 1)

    def _count(self, n_types: int) -> np.ndarray:
        counts = np.zeros(n_types, np.int64)
        if self.n_entries():
            count_tokens(np.memmap(self.folder / TOKENS, np.int32, "r"), counts)
        np.save(self.folder / COUNTS, counts)
        return counts

    def n_entries(self) -> int:
        """How many tokens and marks were written."""
        return self.tokens.tell() // np.dtype(np.int32).itemsize

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
        if is_kept(target):
            with workspace(self.home) as away:
                move(target, away)
        return not target.exists()

    def keep_until_closed(self, report: dict[str, Any], settings: dict[str, Any]) -> EncodedCorpus:
        """The finished corpus, to be deleted when it is closed."""
        self._finish("", report, settings)
        corpus = EncodedCorpus(self.folder, self.lock)
        self.kept = True
        return corpus

    def _finish(self, key: str, report: dict[str, Any], settings: dict[str, Any]) -> None:
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        about = {"key": key, "created": created, "settings": settings, "n_tokens": report["n_tokens"], "report": report}
        with explained(self.home):
            self.tokens.close()
            files.write_about(self.folder, about)


def is_kept(folder: Path) -> bool:
    """Whether it is a kept corpus, whole or damaged: a key is its name, and nothing is in it but the files of one."""
    if not files.KEY.fullmatch(folder.name) or folder.is_symlink():
        return False
    with contextlib.suppress(OSError):
        names = {file.name for file in folder.iterdir()}
        return bool(names) and names <= {*files.DATA, files.ABOUT, locks.UNFINISHED}
    return False


def move(folder: Path, away: Path) -> int:
    """Move a kept corpus into the folder `away`; its bytes, none if others were quicker."""
    lock = locks.lock(folder)  # a run that has just published it may have yet to open it
    try:
        folder.rename(away / folder.name)
    except OSError:
        return 0
    finally:
        locks.unlock(lock)
    return bytes_in(away / folder.name)


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
    sweep(home)
    return locks.new_marked(lambda: Path(tempfile.mkdtemp(SUFFIX, BUILDING, home)))


def sweep(home: Path) -> int:
    """Delete what killed runs left; the bytes freed."""
    freed = 0
    for folder in home.iterdir():
        if BUILDING_NAME.fullmatch(folder.name) and not folder.is_symlink():
            size = bytes_in(folder)
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

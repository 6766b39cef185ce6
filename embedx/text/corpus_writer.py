"""Writes an encoded corpus, in a folder that is deleted unless the corpus is finished."""

import contextlib
import datetime
import os
from pathlib import Path
from typing import Any, Self

import numpy as np

from embedx.errors import Setting
from embedx.runtime import locks
from embedx.runtime.progress import SILENT, Progress
from embedx.text import encoded_corpus as files
from embedx.text.encoded_corpus import COUNTS, LETTERS, STARTS, TOKENS, EncodedCorpus, load
from embedx.text.spilled_words import Spill
from embedx.text.temporary_folders import errors_explained, workspace
from embedx.text.tokenizer import END_OF_SENTENCE, count_tokens
from embedx.text.word_list import WordList

BYTES_PER_TOKEN = 4


class CorpusWriter:
    """A folder in which a corpus is being written; it is deleted unless `finish` is reached."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._opened = contextlib.ExitStack()
        # whether the last token is an end of sentence, or there is none yet
        self._ends_sentence = True

    def __enter__(self) -> Self:
        self.folder = self._opened.enter_context(workspace(self.home))
        with errors_explained(self.home):
            self.tokens = self._opened.enter_context(open(self.folder / TOKENS, "wb", buffering=0))
        self.spill = Spill(self.folder)
        return self

    def __exit__(self, *exception: object) -> None:
        self._opened.close()

    def write_tokens(self, tokens: np.ndarray) -> None:
        """Append int32 tokens, without an end of sentence at the start of the corpus or after
        another.
        """
        if len(tokens) and tokens[0] == END_OF_SENTENCE and self._ends_sentence:
            tokens = tokens[1:]
        if not len(tokens):
            return
        self._ends_sentence = tokens[-1] == END_OF_SENTENCE
        with errors_explained(self.home):
            unwritten = tokens.view(np.uint8).data
            while unwritten:
                n_written = self.tokens.write(unwritten)
                unwritten = unwritten[n_written:]

    def set_aside(self, words: WordList) -> None:
        """Write the table of words that numbers the tokens since the last call to disk;
        `write_words` merges the tables.
        """
        with errors_explained(self.home):
            self.spill.add(words, self.n_entries())

    def write_words(self, words: WordList, memory: int = 0, progress: Progress = SILENT) -> None:
        """After all tokens, write the words and their counts.

        words   those that were not set aside before
        memory  memory in bytes for merging the words that were set aside
        """
        with errors_explained(self.home):
            if self._ends_sentence and self.n_entries():
                before_last_mark = self.tokens.seek(-BYTES_PER_TOKEN, os.SEEK_END)
                self.tokens.truncate(before_last_mark)
            if self.spill.segments:
                self.set_aside(words)
                n_types = self.spill.merge(
                    self.folder / TOKENS,
                    self.folder / LETTERS,
                    self.folder / STARTS,
                    memory,
                    progress,
                )
            else:
                n_types = len(words)
                (self.folder / LETTERS).write_bytes(words.letters)
                np.save(self.folder / STARTS, words.starts)
            counts = np.zeros(n_types, np.int64)
            if self.n_entries():
                count_tokens(np.memmap(self.folder / TOKENS, np.int32, "r"), counts)
            np.save(self.folder / COUNTS, counts)
            self.n_tokens = int(counts.sum())

    def n_entries(self) -> int:
        """The number of tokens and ends of sentences written."""
        return self.tokens.tell() // BYTES_PER_TOKEN

    def finish(
        self,
        report: dict[str, Any],
        settings: dict[str, Any],
        key: str = "",
        progress: Progress = SILENT,
    ) -> EncodedCorpus:
        """Publish the corpus in the cache under its key, and return it; if another run has
        published it first, return that one.

        Without a key, or if something else has the name of its folder, the corpus is temporary: it
        is deleted when it is closed.
        """
        created = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        about = {
            "created": created,
            "settings": settings,
            "n_tokens": self.n_tokens,
            "report": report,
        }
        with errors_explained(self.home):
            self.tokens.close()
            if key:
                files.write_about(self.folder, about | {"key": key})
                corpus = self._publish(self.home / key, progress)
                if corpus is not None:
                    return corpus
            files.write_about(self.folder, about | {"key": ""})
            return EncodedCorpus(self.folder, self._opened.pop_all().close)

    def _publish(self, target: Path, progress: Progress) -> EncodedCorpus | None:
        """The corpus in the folder `target`; None if something else is there."""
        if is_kept(target) and load(target, SILENT) is None:
            remove_kept(target)
        try:
            self.folder.rename(target)
        except OSError:
            if not target.exists():
                raise
            winner = load(target, SILENT)
            if winner is None:
                problem = f"{target}: is in the way, and cannot be replaced"
                progress.note(problem, "; delete it, or name another ", Setting("cache_dir"))
            return winner
        # the lock on its folder prevents others from clearing it
        return EncodedCorpus(target)


def is_kept(folder: Path) -> bool:
    """Whether a folder is a cached corpus, complete or damaged: its name is a key, and it contains
    only the files of a corpus.
    """
    if files.KEY.fullmatch(folder.name) is None or folder.is_symlink():
        return False
    try:
        names = {file.name for file in folder.iterdir()}
    except OSError:
        return False
    return bool(names) and names <= {*files.DATA, files.ABOUT}


def remove_kept(folder: Path) -> None:
    """Delete a cached corpus, unless another process does; it is renamed first, so that no run
    opens an incomplete one.
    """
    with workspace(folder.parent) as away:
        # a run that has just published it may not have opened it yet
        lock = locks.lock(folder)
        with contextlib.suppress(OSError):
            folder.rename(away / folder.name)
        locks.unlock(lock)

"""20 newsgroups as counts of words, split by date: an archive of lines `MESSAGE WORD COUNT`, of a
label for each message, and of the names of the labels, all numbered from 1.

Source: http://qwone.com/~jason/20Newsgroups/, the files for MATLAB.
"""

import tarfile
from collections.abc import Iterator
from pathlib import Path, PurePosixPath
from typing import NamedTuple

from embedx.text.recipes import Recipe

ARCHIVE = Recipe(
    "20-newsgroups-counts",
    Path(),
    urls=["http://qwone.com/~jason/20Newsgroups/20news-bydate-matlab.tgz"],
)
PARTS = ("train", "test")


class Message(NamedTuple):
    """A message: the number of its label, and (word, count) pairs; both counted from 0."""

    label: int
    words: list[tuple[int, int]]


def parts_of(archive: Path) -> tuple[dict[str, list[Message]], list[str]]:
    """The messages of each part, and the names of the labels."""
    lines = {}
    with tarfile.open(archive) as files:
        for file in files:
            content = files.extractfile(file)
            if content is not None:
                lines[PurePosixPath(file.name).name] = content.read().decode().splitlines()
    parts = {}
    for part in PARTS:
        messages = [Message(int(label) - 1, []) for label in lines[f"{part}.label"]]
        for line in lines[f"{part}.data"]:
            message, word, count = map(int, line.split())
            messages[message - 1].words.append((word - 1, count))
        parts[part] = messages
    return parts, [line.split()[0] for line in lines["train.map"]]


def n_words_of(parts: dict[str, list[Message]]) -> int:
    """One more than the largest number of a word."""
    return 1 + max(
        word for messages in parts.values() for message in messages for word, _ in message.words
    )


def xc_lines(messages: list[Message], n_words: int, n_labels: int) -> Iterator[str]:
    """The lines of an XC file: of each message its label and the counts of its words."""
    yield f"{len(messages)} {n_words} {n_labels}\n"
    for message in messages:
        cells = " ".join(f"{word}:{count}" for word, count in message.words)
        yield f"{message.label} {cells}\n"

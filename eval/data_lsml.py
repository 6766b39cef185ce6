"""Bibtex in a random split, that of LSML: an archive with the pairs of rows and words, and of rows
and tags, to train on, and the rows to test on as XC lines.
"""

import io
import zipfile
from collections import defaultdict
from collections.abc import Iterator

from eval.data_repositories import Repository

BIBTEX = Repository(
    "https://github.com/Sayan21/LSML",
    "47bc1b72775e12c5b37d849501f7a4743defd2ae",
    "Bibtex.zip",
)
N_FEATURES = 1836
N_LABELS = 159


def xc_files(content: bytes) -> dict[str, list[str]]:
    """The lines of the XC files of both parts, by their names."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        words, tags, test = (
            archive.read(f"Bibtex_{name}.txt").decode()
            for name in ("train_word", "train_label", "test_leml")
        )
    # The first line is a header of another form.
    test_lines = [f"{line}\n" for line in test.splitlines()[1:]]
    return {
        part: [f"{len(lines)} {N_FEATURES} {N_LABELS}\n", *lines]
        for part, lines in (("train", [*training_lines(words, tags)]), ("test", test_lines))
    }


def training_lines(words: str, tags: str) -> Iterator[str]:
    """The XC lines of rows, from lines of a row and a word, and of a row and a tag."""
    words_of_row = columns_of_rows(words)
    tags_of_row = columns_of_rows(tags)
    for row in range(max([*words_of_row, *tags_of_row]) + 1):
        cells = " ".join(f"{word}:1.000000" for word in sorted(words_of_row[row]))
        yield f"{','.join(map(str, sorted(tags_of_row[row])))} {cells}\n"


def columns_of_rows(pairs: str) -> defaultdict[int, set[int]]:
    """The columns of each row in lines of a row and a column."""
    columns: defaultdict[int, set[int]] = defaultdict(set)
    for line in pairs.splitlines():
        row, column = line.split()
        columns[int(row)].add(int(column))
    return columns

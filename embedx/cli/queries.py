"""Words that are asked for on the command line, from standard input or at a prompt, and their
neighbours and vectors.
"""

import contextlib
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from embedx.cli.streams import results_to
from embedx.errors import EmbedxError
from embedx.vectors.model import WordVectors


def asked(words: Sequence[str]) -> Iterator[str]:
    """The words; for `-` those of standard input, and for none those that are typed at a prompt."""
    if not words and sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # edits the line and recalls former ones
        with contextlib.suppress(EOFError):
            while True:
                yield from input("word: ").split()
    elif not words:
        raise EmbedxError("no words; give some, or - to read them from standard input")
    elif list(words) == ["-"]:
        for line in input_lines():
            yield from line.split()
    else:
        yield from words


def input_lines() -> Iterator[str]:
    """The lines of standard input as they come, without the byte order mark of some editors."""
    first = next(sys.stdin, None)
    if first is not None:
        yield first.removeprefix("\ufeff")
        yield from sys.stdin


def neighbours(
    vectors: WordVectors,
    word: str,
    top_k: int,
    restrict: int | None = None,
    exclude: Collection[str] = (),
) -> list[tuple[str, float]]:
    """The nearest words of a word, but for some, among all or the `restrict` most frequent ones."""
    query = vectors[word]
    left_out = {vectors.spelled(name) for name in (word, *exclude)}
    if restrict is not None:
        vectors = replace(
            vectors,
            words=vectors.words[:restrict],
            arrays={"input": vectors.vectors[:restrict]},
            counts=None,
        )
    found = vectors.most_similar(query, top_k=top_k + len(left_out))
    return [each for each in found if each[0] not in left_out][:top_k]


def write_vectors(
    vectors: WordVectors, lines: Sequence[str], file: Path | None, overwrite: bool
) -> int:
    """Write the mean vector of the words of each line; how many lines have no known word.

    lines  `-` alone: those of standard input
    file   NAME.npy has a row for each line, zeros where no word is known; in text such lines are
          left out
    """
    n_unknown, rows = 0, []
    is_array = file is not None and file.suffix == ".npy"
    with results_to(file, overwrite, is_text=not is_array) as out:
        for line in input_lines() if list(lines) == ["-"] else lines:
            words = line.split()
            vector = mean_vector(vectors, words)
            n_unknown += vector is None
            if is_array:
                rows.append(np.zeros(vectors.vector_size, np.float32) if vector is None else vector)
            elif vector is not None:
                print("_".join(words), *(f"{number:.6g}" for number in vector.tolist()), flush=True)
        if is_array:
            np.save(out, np.array(rows, np.float32).reshape(-1, vectors.vector_size))
    return n_unknown


def mean_vector(vectors: WordVectors, words: Sequence[str]) -> np.ndarray | None:
    """float32 (dim,): the mean of the vectors of the words that have one; None if none has."""
    known = []
    for word in words:
        with contextlib.suppress(KeyError):
            known.append(vectors[word])
    return np.array(known, np.float32).mean(axis=0) if known else None

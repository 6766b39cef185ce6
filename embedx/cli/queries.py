"""Words that are asked for on the command line, from standard input or at a prompt, and their
neighbours and vectors.
"""

import contextlib
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.cli import tables
from embedx.cli.streams import results_to
from embedx.errors import DataError, EmbedxError, Setting
from embedx.runtime.progress import Progress
from embedx.text.cells import WHITE_SPACE
from embedx.text.session_items import TAB, item_as_word, items_of
from embedx.text.sources import STANDARD_INPUT
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.model import WordVectors
from embedx.vectors.neighbours import RELIABLE_COUNT, Neighbour, NeighbourSearch

# Rare neighbours that a note names.
MAX_RARE_NAMED = 5
# Histories without a known item that are named one by one.
MAX_UNKNOWN_NAMED = 5

# ---- words


def asked(words: Sequence[str], vectors: WordVectors) -> Iterator[str]:
    """The words; for `-` those of standard input, and for none those that are typed at a prompt."""
    if not words and sys.stdin.isatty():
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # edits the line and recalls former ones
        with contextlib.suppress(EOFError):
            while True:
                yield from items_of_line(input(f"{vectors.noun}: "), vectors)
    elif not words:
        raise EmbedxError(f"no {vectors.noun}s; give some, or - to read them from standard input")
    elif list(words) == [STANDARD_INPUT]:
        for line in input_lines():
            yield from items_of_line(line, vectors)
    else:
        yield from words


def input_lines() -> Iterator[str]:
    """The lines of standard input as they come, without the byte order mark of some editors."""
    first = next(sys.stdin, None)
    if first is not None:
        yield first.removeprefix("\ufeff")
        yield from sys.stdin


# ---- neighbours


def show_neighbours(
    words: Sequence[str],
    search: NeighbourSearch,
    as_json: bool,
    names: Mapping[str, str],
    progress: Progress,
) -> None:
    """Print the neighbours of all the words that have some, and note rare ones; raises the error
    of the first word that has none.
    """
    neighbours_of_word: dict[str, list[Neighbour]] = {}
    first_error = None
    for word in words:
        try:
            neighbours_of_word[word] = search.neighbours(word)
        except (UnknownWordError, DataError) as error:
            first_error = first_error or error
    if neighbours_of_word:
        _print_neighbours(neighbours_of_word, search, as_json, names)
        _note_rare(search.rare_neighbours(neighbours_of_word), progress)
    if first_error:
        raise first_error


def _note_rare(words: Sequence[str], progress: Progress) -> None:
    """Say which neighbours are rare, and how they are left out."""
    if not words:
        return
    names = ", ".join(words[:MAX_RARE_NAMED])
    if len(words) > MAX_RARE_NAMED:
        names += ", ..."
    leave_out = (Setting("min_count", RELIABLE_COUNT), " leaves them out")
    progress.note(
        f"{names}: fewer than {RELIABLE_COUNT} occurrences, so uncertain vectors; ",
        leave_out,
    )


def answer_words(
    words: Iterable[str], search: NeighbourSearch, as_json: bool, names: Mapping[str, str]
) -> None:
    """Print the neighbours of each word as it comes; an unknown word is said on standard error."""
    for word in words:
        try:
            _print_neighbours({word: search.neighbours(word)}, search, as_json, names)
        except (UnknownWordError, DataError) as error:
            print(f"embedx: {error}", file=sys.stderr)
        sys.stdout.flush()


def _print_neighbours(
    neighbours_of_word: Mapping[str, list[Neighbour]],
    search: NeighbourSearch,
    as_json: bool,
    names: Mapping[str, str],
) -> None:
    """Print the neighbours of each word."""
    noun = search.vectors.noun
    values = {}
    rows = []
    for word, neighbours in neighbours_of_word.items():
        values[word] = [
            {noun: neighbour, **_name(neighbour, names), "cosine": cosine}
            for neighbour, cosine in neighbours
        ]
        of_word = [
            [word, neighbour, *_name_cell(neighbour, names), f"{cosine:.4f}"]
            for neighbour, cosine in neighbours
        ]
        for place, (low, high) in enumerate(search.bounds(word, neighbours)):
            values[word][place]["interval"] = [low, high]
            of_word[place] += [f"{low:.4f}", f"{high:.4f}"]
        rows += of_word
    heading = [noun, "neighbour", *_name_heading(names), "cosine"]
    if search.uncertainty is not None:
        heading += ["from", "to"]
    tables.show(heading, rows, values if as_json else None)


# ---- analogies


def answer_analogies(
    vectors: WordVectors, top_k: int, restrict_vocab: int | None, as_json: bool
) -> None:
    """Print the answers of the question in each line of standard input, as it comes."""
    for number, line in enumerate(input_lines(), 1):
        words = divided(line)
        if not words:
            continue
        if len(words) != 3:
            problem = f"a question of {len(words)} {vectors.noun}s"
            raise DataError("-", number, problem, "write three")
        a, b, c = words
        try:
            answers = vectors.analogy(a, b, c, top_k, restrict_vocab=restrict_vocab)
            show_answers(answers, vectors.noun, as_json)
        except (UnknownWordError, DataError) as error:
            print(f"embedx: {error}", file=sys.stderr)
        sys.stdout.flush()


def show_answers(answers: Sequence[Neighbour], noun: str, as_json: bool) -> None:
    """Print the answers of one question.

    noun  what an answer is called
    """
    values = [{noun: answer, "cosine": cosine} for answer, cosine in answers]
    rows = [(answer, f"{cosine:.4f}") for answer, cosine in answers]
    tables.show((noun, "cosine"), rows, values if as_json else None)


# ---- recommendations


def recommend(
    vectors: WordVectors,
    items: Sequence[str],
    top_k: int,
    as_json: bool,
    names: Mapping[str, str],
    progress: Progress,
) -> None:
    """Print what most likely follows the items."""
    recommended = vectors.recommend(items, top_k)
    unknown = [item for item in items if item not in vectors]
    if unknown:
        progress.warn(f"unknown items are ignored: {', '.join(unknown)}")
    rows = [(item, *_name_cell(item, names), f"{score:.4f}") for item, score in recommended]
    value = _recommendation(items, recommended, names) if as_json else None
    tables.show(("item", *_name_heading(names), "score"), rows, value)


def recommend_to_each(
    vectors: WordVectors,
    histories: Iterable[list[str]],
    top_k: int,
    as_json: bool,
    names: Mapping[str, str],
    progress: Progress,
) -> None:
    """Print what most likely follows the items of each history, as it comes; as JSON an object for
    each, even an empty one. The first ones without a known item are said on standard error, and
    how many there are.

    histories  of the lines of a file or of standard input
    """
    n_unknown = 0
    n_unknown_histories = 0
    for number, divided_items in enumerate(histories, 1):
        items = as_one(divided_items, vectors)
        known = [item for item in items if item in vectors]
        recommended: list[tuple[str, float]] = []
        if known:
            recommended = vectors.recommend(known, top_k)
            n_unknown += len(items) - len(known)
        elif items:
            n_unknown_histories += 1
            if n_unknown_histories <= MAX_UNKNOWN_NAMED:
                progress.warn(f"line {number}: none of the items is known: {', '.join(items)}")
        history = " ".join(items)
        rows = [
            (history, item, *_name_cell(item, names), f"{score:.4f}") for item, score in recommended
        ]
        value = _recommendation(items, recommended, names) if as_json else None
        tables.show(("history", "item", *_name_heading(names), "score"), rows, value)
        sys.stdout.flush()
    if n_unknown_histories > MAX_UNKNOWN_NAMED:
        progress.warn(f"histories without a known item: {n_unknown_histories:,}")
    if n_unknown:
        progress.warn(f"unknown items in the other histories, which are ignored: {n_unknown:,}")


def items_of_line(line: str, vectors: WordVectors) -> list[str]:
    """The words or items of a line; see `as_one`."""
    return as_one(divided(line), vectors)


def divided(line: str) -> list[str]:
    """What is between the tabs of a line, or between the blanks of one that has no tab."""
    encoded = line.strip().encode("utf-8", "surrogateescape")
    if TAB in encoded:
        return items_of(encoded, TAB)
    return items_of(encoded, WHITE_SPACE)


def as_one(items: list[str], vectors: WordVectors) -> list[str]:
    """The items, or the one item of several words that they are together."""
    together = " ".join(items)
    if len(items) > 1 and together in vectors:
        return [together]
    return items


def _recommendation(
    items: Sequence[str], recommended: Sequence[tuple[str, float]], names: Mapping[str, str]
) -> dict[str, Any]:
    """The history and its recommendations, for JSON."""
    return {
        "history": list(items),
        "recommended": [
            {"item": item, **_name(item, names), "score": score} for item, score in recommended
        ],
    }


# ---- names


def _name_heading(names: Mapping[str, str]) -> list[str]:
    """The heading of the column of names, if there are some."""
    return ["name"] if names else []


def _name_cell(item: str, names: Mapping[str, str]) -> list[str]:
    """The name of an item as a cell, empty where it has none; no cell without a table of names."""
    return [names.get(item, "")] if names else []


def _name(item: str, names: Mapping[str, str]) -> dict[str, str]:
    """The name of an item, for JSON; empty where it has none."""
    return {"name": names[item]} if item in names else {}


# ---- vectors


def write_vectors(
    vectors: WordVectors, lines: Sequence[str], file: Path | None, overwrite: bool
) -> int:
    """Write the mean vector of the words of each line; how many lines have no known word.

    lines  `-` alone: those of standard input
    file   NAME.npy has a row for each line, zeros where no word is known; in text such lines are
          left out
    """
    texts: Iterable[str] = lines
    if list(lines) == [STANDARD_INPUT]:
        texts = input_lines()
    if file is not None and file.suffix == ".npy":
        return _write_array(vectors, texts, file, overwrite)
    n_unknown = 0
    with results_to(file, overwrite):
        for line in texts:
            words = _words_of_text(line, vectors)
            vector = vectors.mean_vector(words)
            if vector is None:
                n_unknown += 1
            else:
                name = item_as_word(" ".join(words))
                print(name, *(f"{number:.6g}" for number in vector.tolist()), flush=True)
    return n_unknown


def _words_of_text(line: str, vectors: WordVectors) -> list[str]:
    """The words of a line of text, or its items or nodes."""
    if vectors.noun == "word":
        return line.split()
    return divided(line)


def _write_array(vectors: WordVectors, lines: Iterable[str], file: Path, overwrite: bool) -> int:
    """Write float32 (lines, dim), zeros where no word is known; how many lines have none."""
    n_unknown = 0
    rows = []
    with results_to(file, overwrite, is_text=False) as out:
        for line in lines:
            vector = vectors.mean_vector(_words_of_text(line, vectors))
            if vector is None:
                n_unknown += 1
                vector = np.zeros(vectors.vector_size, np.float32)
            rows.append(vector)
        np.save(out, np.array(rows, np.float32).reshape(-1, vectors.vector_size))
    return n_unknown

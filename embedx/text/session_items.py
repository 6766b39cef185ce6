"""Divides sessions, one per line, into items.

If the first lines of a file have tabs, these separate items; an item may then have several words,
which are joined by _ in a vocabulary. Otherwise spaces separate items, and an item of several words
is in double quotes. Commas, semicolons and bars do not separate items; if lines look as if they
did, a message says so.
"""

import codecs
import itertools
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import NamedTuple

from embedx.errors import DataError, Text
from embedx.runtime.progress import Progress
from embedx.text.cells import WHITE_SPACE, divided, whole_lines
from embedx.text.decompression import lines_of_file
from embedx.text.sources import reader_of

# Joins the words of an item, as in phrases.
BLANK_IN_ITEM = "_"
TAB = b"\t"
# Number of lines by which the separator of a file is recognised.
FIRST_LINES = 1000
# Tabs separate items if more than this share of the lines with several words has one: sessions of a
# single item have none, and a few tabs among spaces are white space.
MIN_SHARE_OF_TABS = 0.1
# Other separators, by their names in messages.
OTHER_SEPARATORS = {"commas": b",", "semicolons": b";", "bars": b"|"}


class Separation(NamedTuple):
    """The separator of the items of a file, and messages about it.

    separator  TAB or `cells.WHITE_SPACE`
    note       "" unless the lines could be read in another way
    warning    "" unless the separator is doubtful
    """

    separator: bytes
    note: str = ""
    warning: str = ""

    def say(self, file: str, progress: Progress) -> None:
        """Show the note and the warning."""
        if self.note:
            progress.note(f"{file}: {self.note}")
        if self.warning:
            progress.warn(f"{file}: {self.warning}")


def separation_of(lines: Iterable[bytes], name: str) -> Separation:
    """The separator of items in a file that begins with these lines. Raises `DataError` if each
    line is a single item with commas or similar separators within it.
    """
    stripped = [line.strip() for line in lines]
    of_several_words = [line for line in stripped if len(line.split(None, 1)) > 1]
    _check_divided(stripped, of_several_words, name)
    with_tabs = [line for line in of_several_words if TAB in line]
    if with_tabs and len(with_tabs) >= MIN_SHARE_OF_TABS * len(of_several_words):
        return Separation(TAB, _note_of_tabs(of_several_words))
    if with_tabs:
        return Separation(WHITE_SPACE, "tabs are rare, and separate items as blanks do")
    other = _most_frequent_other(of_several_words)
    if other is not None:
        example = _shown(next(line for line in stripped if OTHER_SEPARATORS[other] in line))
        warning = f"items are separated by blanks, not by {other}, as in `{example}`"
        return Separation(WHITE_SPACE, warning=f"{warning}; {_remedy_for(other)}")
    return Separation(WHITE_SPACE)


def _check_divided(lines: Sequence[bytes], of_several_words: Sequence[bytes], name: str) -> None:
    """Raise `DataError` if lines are single words that commas or the like would divide."""
    other = _most_frequent_other(lines)
    if of_several_words or other is None:
        return
    problem = f"no line has two items: {other} separate none"
    raise DataError(name, None, problem, _remedy_for(other))


def _remedy_for(other: str) -> str:
    """The remedy: separate items by tabs."""
    mark = OTHER_SEPARATORS[other].decode()
    return f"separate them by tabs, as in: tr '{mark}' '\\t' < FILE > NEW_FILE"


def _most_frequent_other(lines: Sequence[bytes]) -> str | None:
    """The other separator that is within more than half of the lines, if any."""
    for name, separator in OTHER_SEPARATORS.items():
        n_divided = sum(separator in line.strip(separator) for line in lines)
        if 2 * n_divided > len(lines):
            return name
    return None


def _note_of_tabs(of_several_words: Sequence[bytes]) -> str:
    """A note that lines without a tab are single items, or that items have several words; "" if
    neither applies.
    """
    for line in of_several_words:
        if TAB not in line:
            return f"tabs separate items, and a line without one is one item: `{_shown(line)}`"
    for line in of_several_words:
        for item in items_of(line, TAB):
            if item_as_word(item) != item:
                word = item_as_word(item)
                return f"tabs separate items, and the words of an item are joined by _: `{word}`"
    return ""


def _shown(line: bytes) -> str:
    """The beginning of a line, for a message."""
    return line.decode("utf-8", "replace")[:40]


def items_of(line: bytes, separator: bytes) -> list[str]:
    """The items of a line, with single spaces between words of an item."""
    cells = (
        " ".join(cell.decode("utf-8", "surrogateescape").split())
        for cell in divided(line.strip(), separator)
    )
    return [cell for cell in cells if cell]


def item_as_word(item: str) -> str:
    """An item as a word of a vocabulary."""
    return BLANK_IN_ITEM.join(item.split())


def item_in_line(item: str) -> str:
    """An item as `items_of` reads it in a line with spaces as separators."""
    word = item_as_word(item)
    if word.startswith('"'):
        quotes_doubled = word.replace('"', '""')
        return f'"{quotes_doubled}"'
    return word


def row_of_item(item: str, row_of_word: dict[str, int]) -> int | None:
    """The row of an item in a vocabulary, in which words may be joined; None if missing."""
    row = row_of_word.get(item)
    if row is None:
        return row_of_word.get(item_as_word(item))
    return row


def no_sessions(file: str, of_column: Text = ()) -> DataError:
    """The error for a table instead of lines of sessions.

    of_column  what to do where a column has sessions
    """
    command = f"embedx corpus sessions {shlex.quote(file)}"
    of_rows = f"write the sessions of rows that are events with `{command}`"
    remedy = (of_rows, of_column, ", or rename a file with a session per line to .txt")
    return DataError(file, None, "a table, not sessions", remedy)


def sessions_of_file(file: str, progress: Progress) -> Iterator[list[str]]:
    """Yield the items of each line, possibly none; report the separator. Raises `DataError` for a
    file that is named as a table.
    """
    if reader_of(file) == "table":
        raise no_sessions(file)
    lines = iter(lines_of_file(file))
    first = list(itertools.islice(lines, FIRST_LINES))
    if first:
        first[0] = first[0].removeprefix(codecs.BOM_UTF8)
    separation = separation_of(first, file)
    separation.say(file, progress)
    for line in itertools.chain(first, lines):
        yield items_of(line, separation.separator)


def session_text(
    blocks: Iterable[bytes], name: str, note_separation: Callable[[Separation], None]
) -> Iterator[bytes]:
    """The text of a file of sessions, with spaces between items and the words of each item joined.

    note_separation  receives the separator
    """
    separation = None
    for text in whole_lines(blocks, name):
        if separation is None:
            separation = separation_of(text.split(b"\n", FIRST_LINES)[:FIRST_LINES], name)
            note_separation(separation)
        if separation.separator == WHITE_SPACE and b'"' not in text:
            yield text
        else:
            yield _with_blanks(text, separation.separator)


def _with_blanks(text: bytes, separator: bytes) -> bytes:
    """The lines of a text, with each item as one word."""
    lines = (
        " ".join(item_as_word(item) for item in items_of(line, separator))
        for line in text.split(b"\n")
    )
    return "\n".join(lines).encode("utf-8", "surrogateescape")

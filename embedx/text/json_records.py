"""The objects of JSON: one in each line (JSON Lines), or spread over lines, as in an array.

Spread objects are the items of one array, `[{...}, {...}]`, or stand one after the other. They are
parsed while they are read, and one is in memory: an object that is not complete after
MAX_RECORD_BYTES is an error, as is a longer line of JSON Lines.
"""

import codecs
import itertools
import json
import re
from collections.abc import Iterable, Iterator
from typing import Any

from embedx.errors import DataError
from embedx.settings import Record
from embedx.text.tables import MAX_RECORD_BYTES, BadRecord, lines_of, shown

# An array of objects, or an object whose first line is its brace alone.
SPREAD_START = re.compile(rb"\s*+(?:\[\s*+(?:\{\s*+[\"}]|\Z|\]\s*+\Z)|\{[ \t\r]*+\n\s*+\")")
REMEDY = "write an object in each line, or one array of objects"
# Letters of what may be incomplete at the end of a block, such as `\ud83d\ude00` or a number.
MAX_INCOMPLETE = 32
BLANKS = re.compile(r"[ \t\r\n]*+")
DECODER = json.JSONDecoder()


class RecordLine(int):
    """The line on which a record begins, from 1, with the number of the record in messages."""

    record: int

    def __new__(cls, line: int, record: int) -> "RecordLine":
        number = super().__new__(cls, line)
        number.record = record
        return number

    def __str__(self) -> str:
        return f"{int(self)} (record {self.record})"

    def __getnewargs__(self) -> Any:  # for pickle
        return int(self), self.record


def begins_spread(head: bytes) -> bool:
    """Whether text with these first bytes has objects that are spread over lines, or an array."""
    return bool(SPREAD_START.match(head.removeprefix(codecs.BOM_UTF8)))


def json_records(blocks: Iterable[bytes], name: str) -> Iterator[tuple[int, Record | BadRecord]]:
    """The objects of JSON in either form, with the lines on which they begin."""
    blocks = iter(blocks)
    head = next(filter(None, blocks), b"")
    blocks = itertools.chain([head], blocks)
    if begins_spread(head):
        return spread_records(blocks, name)
    return records_in_lines(lines_of(blocks, name))


def records_in_lines(lines: Iterable[bytes]) -> Iterator[tuple[int, Record | BadRecord]]:
    """The objects of JSON Lines, with line numbers."""
    for number, line in enumerate(lines, 1):
        text = line.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
        if not text.strip():
            continue
        try:
            record = json.loads(text)
        except (ValueError, RecursionError) as error:
            yield number, BadRecord(f"no JSON ({_reason(error)})", REMEDY)
        else:
            yield number, _object(record)


def spread_records(blocks: Iterable[bytes], name: str) -> Iterator[tuple[int, Record | BadRecord]]:
    """The objects of an array or those that stand one after the other, with their lines.

    Raises `DataError` where the text is no JSON: it is unknown where the next object begins.
    """
    reader = _Reader(blocks, name)
    is_array = reader.next_letter() == "["
    if is_array:
        reader.skip_letter()
    end = "]" if is_array else ""
    while (letter := reader.next_letter()) != end:
        if is_array and reader.n_records:
            if letter != ",":
                raise reader.error("no comma or end of the array after a record")
            reader.skip_letter()
        yield reader.record()
    if is_array:
        reader.skip_letter()
        if reader.next_letter():
            raise DataError(name, reader.line, "text after the end of the array", REMEDY)


def _object(value: Any) -> Record | BadRecord:
    return value if isinstance(value, dict) else BadRecord(f"{shown(value)}, not an object", REMEDY)


def _reason(error: Exception) -> str:
    return error.msg if isinstance(error, json.JSONDecodeError) else str(error)


class _Reader:
    """JSON values of a text that is read block by block."""

    def __init__(self, blocks: Iterable[bytes], name: str) -> None:
        self.name = name
        self.n_records = 0
        self.line = 1
        self._blocks = iter(blocks)
        self._decode = codecs.getincrementaldecoder("utf-8")("surrogateescape").decode
        self._text = ""
        self._place = 0
        self._read_more()
        self._text = self._text.removeprefix("\ufeff")

    def next_letter(self) -> str:
        """The next letter that is not blank, which stays; "" at the end."""
        while True:
            blanks = BLANKS.match(self._text, self._place)
            assert blanks is not None
            self._go_to(blanks.end())
            if self._place < len(self._text):
                return self._text[self._place]
            if not self._read_more():
                return ""

    def skip_letter(self) -> None:
        """Go on after the letter of `next_letter`."""
        self._go_to(self._place + 1)

    def record(self) -> tuple[int, Record | BadRecord]:
        """The next value, with its line."""
        self.n_records += 1
        if not self.next_letter():
            raise self.error("the text ends within the array")
        number = RecordLine(self.line, self.n_records)
        return number, _object(self._value())

    def error(self, problem: str) -> DataError:
        """The error for a text that is no JSON here."""
        remedy = "check that it was copied whole, and is one array of objects"
        return DataError(self.name, RecordLine(self.line, self.n_records), problem, remedy)

    def _value(self) -> Any:
        """The value that begins at the current letter. Raises `DataError` for what is no JSON."""
        while True:
            try:
                value, end = DECODER.raw_decode(self._text, self._place)
            except json.JSONDecodeError as error:
                offset = error.pos - self._place
                rest = self._text[error.pos :]
                is_unterminated = error.msg.startswith("Unterminated string")
                if (is_unterminated or len(rest) <= MAX_INCOMPLETE) and self._read_more():
                    continue
                self._go_to(self._place + offset)
                if is_unterminated or not rest.strip():
                    raise self.error("the text ends within a record") from error
                raise self.error(f"no JSON ({_reason(error)})") from error
            except RecursionError as error:
                raise self.error(f"no JSON ({_reason(error)})") from error
            # A number may continue in the next block.
            if end < len(self._text) or not self._read_more():
                self._go_to(end)
                return value

    def _go_to(self, place: int) -> None:
        """Go on at a place of the text that has been read."""
        self.line += self._text.count("\n", self._place, place)
        self._place = place

    def _read_more(self) -> bool:
        """Read on, at least as much as there is; whether there was more. Raises `DataError` if
        there are more than MAX_RECORD_BYTES.
        """
        kept = self._text[self._place :]
        if len(kept.encode("utf-8", "surrogateescape")) > MAX_RECORD_BYTES:
            raise self.error(f"a record of more than {MAX_RECORD_BYTES:,} bytes")
        pieces = [kept]
        n_kept = len(kept)
        n_new = 0
        for block in self._blocks:
            pieces.append(self._decode(block))
            n_new += len(pieces[-1])
            if n_new and n_new >= n_kept:
                break
        else:
            pieces.append(self._decode(b"", True))
        self._text = "".join(pieces)
        self._place = 0
        return len(self._text) > n_kept

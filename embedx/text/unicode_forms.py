"""Text in one of Unicode's normalisation forms (UAX 15), block by block, and its words."""

import unicodedata
from collections.abc import Iterable, Iterator
from typing import Literal

from embedx.errors import JOINERS

FORMS: dict[str, Literal["NFC", "NFKC"]] = {"nfc": "NFC", "nfkc": "NFKC"}
# Maximum number of bytes without an ASCII character that are held back.
MAX_WAITING_BYTES = 1 << 22


def normalized(text: str, form: str | None) -> str:
    """The text in the form `nfc` or `nfkc`; unchanged for None."""
    if form is None or text.isascii():
        return text
    return unicodedata.normalize(FORMS[form], text)


def word_parts(text: str) -> list[str]:
    """The words of a text by the tokenizer `words`: runs of letters, marks, digits and joiners."""
    return "".join(c if _is_of_word(c) else " " for c in text).split()


def _is_of_word(character: str) -> bool:
    return unicodedata.category(character)[0] in "LMN" or character in JOINERS


def normalized_blocks(blocks: Iterable[bytes], form: str) -> Iterator[bytes]:
    """Blocks of UTF-8 in that form; invalid bytes stay unchanged.

    A block is cut before its last ASCII character, which never combines with preceding characters;
    the rest is processed with the next block.
    """
    waiting = b""
    for block in blocks:
        cut = _last_ascii(block)
        if cut is None and len(waiting) + len(block) <= MAX_WAITING_BYTES:
            waiting += block
            continue
        cut = cut or 0
        yield _normalized_bytes(waiting + block[:cut], form)
        waiting = block[cut:]
    yield _normalized_bytes(waiting, form)


def _last_ascii(block: bytes) -> int | None:
    """The place of the last ASCII character; None if there is none."""
    for place in range(len(block) - 1, -1, -1):
        if block[place] < 0x80:
            return place
    return None


def _normalized_bytes(data: bytes, form: str) -> bytes:
    if data.isascii():
        return data
    text = data.decode("utf-8", "surrogateescape")
    return normalized(text, form).encode("utf-8", "surrogateescape")

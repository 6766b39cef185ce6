"""Recognises by its first bytes whether a file is text, a Wikipedia dump or neither."""

import codecs
import re

from embedx.errors import Setting, Text
from embedx.text.tables import PARQUET_START, NotTextError

# The remedy for text in another encoding, most often that of Windows.
TO_UTF8 = "convert it with iconv -f CP1252 -t UTF-8, or from the encoding that it has"
# First bytes of files that are not text: what the file is, and the remedy.
SAVE_AS = "save it as CSV or text, in UTF-8"
NOT_TEXT: dict[bytes, tuple[str, Text]] = {
    b"\xd0\xcf\x11\xe0": ("an old file of Excel or Word", SAVE_AS),
    b"{\\rtf": ("RTF", SAVE_AS),
    b"PK\x03\x04": ("a zip archive", "unzip it, or name it .zip"),
    b"%PDF-": ("a PDF", "convert it with pdftotext"),
    PARQUET_START: ("a Parquet file", ("name the column with the text by ", Setting("column"))),
    codecs.BOM_UTF16_LE: ("UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
    codecs.BOM_UTF16_BE: ("UTF-16", "convert it with iconv -f UTF-16 -t UTF-8"),
}
# Names by which the first member of a zip archive of an office program begins, and its content.
OFFICE = (
    b"[Content_Types].xml",
    b"_rels/",
    b"docProps/",
    b"xl/",
    b"word/",
    b"mimetypeapplication/vnd.oasis",
)
ZIP_HEADER_BYTES = 30
TAR_MAGIC = b"ustar"
TAR_MAGIC_OFFSET = 257
# Highest share of invalid UTF-8 in text. Text in an 8-bit encoding, or with damaged places, has
# much less; of random bytes about half is invalid.
MAX_UNREADABLE = 0.3
MIN_BYTES_TO_JUDGE = 64

# Possessive: a comment ends at its first "-->". With backtracking, n comments could be matched in
# 2^n ways.
DUMP_START = re.compile(
    r"\ufeff?\s*+(?:<\?xml[^>]*+>\s*+)?+(?:(?><!--.*?-->)\s*+)*+<mediawiki\b", re.DOTALL
)
DUMP_START_BYTES = 4096


def check_is_text(name: str, head: bytes) -> None:
    """Raise `NotTextError` if the first bytes of a file are not text."""
    if head.startswith(b"PK") and head[ZIP_HEADER_BYTES:].startswith(OFFICE):
        raise NotTextError(name, "a file of Excel, Word or LibreOffice", SAVE_AS, "binary")
    for start, (problem, remedy) in NOT_TEXT.items():
        if head.startswith(start):
            if name.endswith(".zip"):
                remedy = "unzip it"
            raise NotTextError(name, problem, remedy, "binary")
    if head[TAR_MAGIC_OFFSET:].startswith(TAR_MAGIC):
        remedy = "name it .tar, or unpack it with tar -x"
        raise NotTextError(name, "a tar archive", remedy, "binary")

    text = head.decode("utf-8", "replace")
    unreadable = text.count("\ufffd") + text.count("\0")
    if len(head) >= MIN_BYTES_TO_JUDGE and unreadable > MAX_UNREADABLE * len(text):
        share = f"{unreadable / len(text):.0%}"
        problem = f"not UTF-8 text: {share} of its first characters cannot be read"
        remedy = f"give text, or {TO_UTF8}"
        raise NotTextError(name, problem, remedy, "binary")


def begins_dump(head: bytes) -> bool:
    """Whether the first bytes of a file are those of a Wikipedia dump in XML."""
    text = head[:DUMP_START_BYTES].decode("utf-8", "ignore")
    return DUMP_START.match(text) is not None

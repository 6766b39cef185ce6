"""What a format of labelled data is: how a file is recognised, and how rows are read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from embedx.labeled.data import FileRows
from embedx.labeled.files import LabelledFile, LabelledFiles
from embedx.labeled.options import ReadOptions


@dataclass(frozen=True)
class Format:
    """A format of files of labelled rows.

    name          in help and messages
    looks_like    what its files hold, for the documentation
    features      what its features are. `words` and `ID:VALUE` fit no training data of the other
                  kind; settings of columns apply to `columns` alone
    recognises    whether a file is of this format: by `file.head`, the first bytes, if it is
                  binary, else by `file.lines`
    read          the rows of such files, one after the other
    has_row_per_line
                  whether each line is a row by itself, which can be read before the next is written
    is_fallback_for_lines
                  whether `predict -` reads lines that no format recognises as this one, if the
                  training data have such features and are no table
    is_binary     whether it is recognised by its first bytes, before formats of text are
    read_array    the array in such a file, which may hold the labels of other rows too
    advice        what to write so that text is read as this format, for messages
    example_name  a name that such a table may have, for the message of an unknown format
    passes_for_text
                  whether such a file may pass for text by its name and first bytes. Then
                  `embedx.text.labelled_starts` says how it begins: `embedx train` refuses it, and
                  no suffix or setting makes it a table
    """

    name: str
    looks_like: str
    features: Literal["words", "ID:VALUE", "columns", "array"]
    recognises: Callable[[LabelledFile, ReadOptions], bool]
    read: Callable[[LabelledFiles, ReadOptions], FileRows]
    has_row_per_line: bool = False
    is_fallback_for_lines: bool = False
    is_binary: bool = False
    read_array: Callable[[LabelledFile], Any] | None = None
    advice: str = ""
    example_name: str = ""
    passes_for_text: bool = False

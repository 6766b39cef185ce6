"""safetensors: tensors `vectors`, `words` (their UTF-8, a word a line) and, where they are known,
`counts`; with int8 `scale`.

    from safetensors.numpy import load_file
    words = load_file("x.safetensors")["words"].tobytes().decode().split("\\n")[:-1]

In `words` a tab, newline, carriage return or backslash within a word is `\\t`, `\\n`, `\\r` or
`\\\\`.
"""

import json
import struct
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from embedx.errors import DataError, Setting
from embedx.pages.plain import escape
from embedx.storage.description import as_json_types
from embedx.storage.folder_files import unescape
from embedx.text.opening import reason
from embedx.vectors.formats.contract import (
    AGAIN,
    DTYPES,
    FileContent,
    Format,
    OpenFile,
    Table,
    as_vectors,
    check_memory,
)

# That of the library.
MAX_HEADER_BYTES = 100_000_000


def recognises(head: bytes) -> bool:
    """Whether it begins with the size of a header, and the header."""
    return head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] <= MAX_HEADER_BYTES


def read(file: OpenFile) -> FileContent:
    """Its tensors, but for those that are not ours."""
    path = file.path("a safetensors file")
    check_memory(file.name, path.stat().st_size, ("write fewer words, by ", Setting("top")))
    try:
        tensors = load_file(path)
        lines = tensors.pop("words").tobytes().decode("utf-8").split("\n")[:-1]
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        problem = f"no readable safetensors of `words` and `vectors` ({reason(error)})"
        raise DataError(path, None, problem, AGAIN) from None
    words = [unescape(line) if "\\" in line else line for line in lines]
    return as_vectors(file.name, words, tensors)


def write(path: Path, table: Table) -> None:
    """Write the tensors, with settings and facts as metadata."""
    lines = "".join(f"{escape(word)}\n" for word in table.words).encode()
    texts = {
        name: json.dumps(about, default=as_json_types) for name, about in table.about().items()
    }
    tensors = {"words": np.frombuffer(lines, np.uint8), **table.arrays()}
    save_tensors(path, tensors, {"format": "embedx", **texts})


def save_tensors(path: Path, tensors: dict[str, np.ndarray], metadata: dict[str, str]) -> None:
    """Write a file of tensors. Raises OSError if it cannot be written."""
    try:
        save_file(tensors, path, metadata)
    except SafetensorError as error:
        raise OSError(str(error)) from error


SAFETENSORS = Format(
    name="safetensors",
    meaning=(
        "tensors `vectors`, `words` (UTF-8, one word per line) and `counts`, for int8 also `scale`"
    ),
    programs="safetensors in Python, Rust, JavaScript",
    suffixes=(".safetensors",),
    dtypes=tuple(DTYPES),
    recognises=recognises,
    read=read,
    write=write,
)

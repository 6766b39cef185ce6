"""safetensors: tensors `vectors`, `words` (their UTF-8, a word a line) and, where they are known, `counts`; with int8 `scale`.

    from safetensors.numpy import load_file
    words = load_file("x.safetensors")["words"].tobytes().decode().split("\\n")[:-1]

In `words` a tab, newline, carriage return or backslash within a word is `\\t`, `\\n`, `\\r` or `\\\\`.
"""

import json
import struct
from pathlib import Path

import numpy as np
from safetensors import SafetensorError
from safetensors.numpy import load_file, save_file

from embedx.errors import EmbedxError
from embedx.storage.folder import escape, plain, unescape
from embedx.training.memory import available_memory
from embedx.training.progress import Progress
from embedx.vectors.formats.contract import DTYPES, Format, Found, Opened, Table, as_vectors, shown

MAX_HEADER = 100_000_000  # bytes; that of the library
AGAIN = "write or fetch the file again"


class Safetensors(Format):
    name = "safetensors"
    meaning = "tensors `vectors`, `words` (UTF-8, a word a line) and `counts`, for int8 also `scale`"
    programs = "safetensors in Python, Rust, JavaScript"
    suffixes = (".safetensors",)
    dtypes = tuple(DTYPES)
    keeps_license = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return len(head) > 8 and head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] <= MAX_HEADER

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        tensors = load_tensors(file.path("a safetensors file"))
        if "words" not in tensors:
            others = shown(", ".join(tensors))
            raise EmbedxError(f"{file.name}: holds no tensor `words`, but {others}; embedx reads `words` and `vectors`")
        return as_vectors(file.name, _words(file.name, tensors.pop("words")), tensors, AGAIN)

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        lines = "".join(f"{escape(word)}\n" for word in table.words).encode()
        about = {"format": "embedx", "settings": table.settings, "facts": table.facts, "license": table.license}
        texts = {name: v if isinstance(v, str) else json.dumps(v, default=plain) for name, v in about.items()}
        save_file({"words": np.frombuffer(lines, np.uint8), **table.arrays()}, place, texts)


def load_tensors(path: Path) -> dict[str, np.ndarray]:
    """The tensors of a file. Raises `EmbedxError` if they cannot be read."""
    if path.stat().st_size > available_memory():
        raise EmbedxError(f"{path}: does not fit into memory; it has {path.stat().st_size / 1e9:,.1f} GB")
    try:
        return load_file(path)
    except (SafetensorError, ValueError, TypeError, KeyError) as error:
        raise EmbedxError(f"{path}: no readable safetensors ({shown(str(error))}); {AGAIN}") from None


def _words(name: str, text: np.ndarray) -> list[str]:
    """The words of the tensor `words`."""
    if text.dtype != np.uint8 or text.ndim != 1:
        raise EmbedxError(f"{name}: the tensor `words` is {text.dtype} {text.shape}; it must be uint8, their UTF-8")
    try:
        *lines, rest = text.tobytes().decode("utf-8").split("\n")
    except UnicodeDecodeError as error:
        raise EmbedxError(f"{name}: `words` is no UTF-8 at byte {error.start:,}; {AGAIN}") from None
    if rest:
        raise EmbedxError(f"{name}: `words` is cut short within its last line; {AGAIN}")
    return [unescape(line) if "\\" in line else line for line in lines]

"""NumPy's .npz: arrays `words` (text), `vectors` and, where they are known, `counts` (int64);
beside int8 `scale` (float32).

    data = numpy.load("vectors.npz"); data["vectors"][data["words"] == "city"] * data["scale"][...]

`words` is an array of fixed width, four bytes for each character of the longest; so numpy.load
reads it without pickle.
"""

import struct
import zipfile
from pathlib import Path

import numpy as np

from embedx.errors import DataError, EmbedxError, Setting
from embedx.labeled.arrays import NPZ_METHODS
from embedx.text.opening import reason
from embedx.vectors.formats.contract import (
    AGAIN,
    DTYPES,
    Format,
    Found,
    Opened,
    Table,
    as_vectors,
    check_memory,
    shown,
)

COPIES = 2  # of what is read, as words and vectors become those of a model
MAX_WORD_BYTES = 1 << 31  # of the array of words, in the memory of whoever loads it


def recognises(head: bytes) -> bool:
    """Whether it is a zip archive whose first member is an array."""
    if not head.startswith(b"PK\x03\x04") or len(head) < 30:
        return False
    return head[30 : 30 + struct.unpack("<H", head[26:28])[0]].endswith(b".npy")


def read(file: Opened) -> Found:
    name, path = file.name, file.path("an .npz file")
    try:
        with zipfile.ZipFile(path) as archive:
            members = archive.infolist()
        n_bytes = sum(member.file_size for member in members)
        check_memory(name, COPIES * n_bytes, ("write fewer words, by ", Setting("top")))
        if any(member.compress_type not in NPZ_METHODS for member in members):
            raise ValueError("packed by bzip2 or LZMA, which NumPy does not write")
        with np.load(path, allow_pickle=False) as loaded:
            arrays = dict(loaded)
        words = arrays.pop("words").tolist()
        "".join(words).encode()  # fails where they are no text
    except EmbedxError:
        raise
    except Exception as error:  # damaged bytes make numpy and zipfile fail in many ways
        raise DataError(
            name,
            None,
            f"no readable .npz of text `words` and of `vectors` ({reason(error)})",
            AGAIN,
        ) from error
    return as_vectors(name, words, arrays)


def write(path: Path, table: Table) -> None:
    width = max(map(len, table.words), default=1) or 1
    unwritable = next((word for word in table.words if word.endswith("\0")), None)
    if unwritable is not None:
        problem = "ends with a zero byte, which .npz does not keep"
        raise DataError(f"the word {shown(unwritable)}", None, problem, "write another format")
    if 4 * width * len(table.words) > MAX_WORD_BYTES:
        n_words = f"{len(table.words):,} words of up to {width:,} characters"
        raise DataError(
            path,
            None,
            f"{n_words} are too many for an .npz, where each takes the space of the longest",
            ("write safetensors, or fewer words by ", Setting("top")),
        )
    with path.open("wb") as out:
        np.savez(out, words=np.array(table.words, f"<U{width}"), **table.arrays())  # type: ignore[arg-type]


NPZ = Format(
    name="npz",
    meaning="NumPy: arrays `words`, `vectors` and `counts`, for int8 also `scale`",
    programs="numpy.load",
    suffixes=(".npz",),
    dtypes=tuple(DTYPES),
    recognises=recognises,
    read=read,
    write=write,
)

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
from embedx.labeled.array_checks import NPZ_METHODS
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
    shown,
)

# Of what is read, as words and vectors become those of a model.
COPIES = 2
# Of the array of words, in the memory of whoever loads it.
MAX_WORD_BYTES = 1 << 31


def recognises(head: bytes) -> bool:
    """Whether it is a zip archive whose first member is an array."""
    if not head.startswith(b"PK\x03\x04") or len(head) < 30:
        return False
    (name_length,) = struct.unpack("<H", head[26:28])
    return head[30 : 30 + name_length].endswith(b".npy")


def read(file: OpenFile) -> FileContent:
    """Its arrays, none of which is a pickle."""
    name = file.name
    path = file.path("an .npz file")
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
        problem = f"no readable .npz of text `words` and of `vectors` ({reason(error)})"
        raise DataError(name, None, problem, AGAIN) from error
    return as_vectors(name, words, arrays)


def write(path: Path, table: Table) -> None:
    """Write its arrays."""
    width = max(map(len, table.words), default=1) or 1
    unwritable = next((word for word in table.words if word.endswith("\0")), None)
    if unwritable is not None:
        problem = "ends with a zero byte, which .npz does not keep"
        raise DataError(f"the word {shown(unwritable)}", None, problem, "write another format")
    if 4 * width * len(table.words) > MAX_WORD_BYTES:
        problem = (
            f"{len(table.words):,} words of up to {width:,} characters are too many for an .npz,"
            " where each takes the space of the longest"
        )
        remedy = ("write safetensors, or fewer words by ", Setting("top"))
        raise DataError(path, None, problem, remedy)
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

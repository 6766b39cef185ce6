"""NumPy's .npz: arrays `words` (text), `vectors` and, where they are known, `counts` (int64); beside int8 `scale` (float32).

    data = numpy.load("vectors.npz"); data["vectors"][data["words"] == "city"] * data["scale"][...]

`words` is an array of fixed width, four bytes for each character of the longest; so numpy.load reads it without pickle.
"""

import struct
import zipfile
from pathlib import Path

import numpy as np

from embedx.errors import EmbedxError
from embedx.training.memory import available_memory
from embedx.training.progress import Progress
from embedx.vectors.formats.contract import DTYPES, Format, Found, Opened, Table, as_vectors, check_words, shown

MAX_WORD_BYTES = 1 << 31  # of the array of words, in the memory of whoever loads it
AGAIN = "write the file again"


class Npz(Format):
    name = "npz"
    meaning = "NumPy: arrays `words`, `vectors` and `counts`, for int8 also `scale`"
    programs = "numpy.load"
    suffixes = (".npz",)
    dtypes = tuple(DTYPES)

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        """Whether it is a zip archive whose first member is an array."""
        if not head.startswith(b"PK\x03\x04") or len(head) < 30:
            return False
        return head[30 : 30 + struct.unpack("<H", head[26:28])[0]].endswith(b".npy")

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        name, path = file.name, file.path("an .npz file")
        try:
            with zipfile.ZipFile(path) as archive:
                n_bytes = sum(member.file_size for member in archive.infolist())
            if n_bytes > available_memory():
                raise EmbedxError(f"{name}: its arrays take {n_bytes / 1e9:,.1f} GB, more memory than there is")
            with np.load(path, allow_pickle=False) as loaded:
                arrays = dict(loaded)
        except EmbedxError:
            raise
        except Exception as error:  # damaged bytes make numpy and zipfile fail in many ways
            why = " ".join(str(error).split()) or type(error).__name__
            raise EmbedxError(f"{name}: no readable .npz of word vectors ({why}); {AGAIN}") from error
        if "words" not in arrays:
            others = shown(", ".join(arrays))
            raise EmbedxError(f"{name}: holds no array `words`, but {others}; embedx reads .npz files of `words` and `vectors`")
        words = arrays.pop("words")
        if words.dtype.kind != "U" or words.ndim != 1:
            raise EmbedxError(f"{name}: `words` is {words.dtype} {words.shape}, and not text (words,); {AGAIN}")
        check_words(name, words.tolist())
        return as_vectors(name, words.tolist(), arrays, AGAIN)

    @classmethod
    def write(cls, place: Path, table: Table) -> None:
        width = max(map(len, table.words), default=1) or 1
        if bad := next((word for word in table.words if word.endswith("\0")), None):
            raise EmbedxError(f"the word {shown(bad)} ends with a zero byte, which .npz does not keep; write another format")
        if 4 * width * len(table.words) > MAX_WORD_BYTES:
            raise EmbedxError(
                f"{len(table.words):,} words, the longest of {width:,} characters, would take "
                f"{4e-9 * width * len(table.words):.1f} GB in an .npz; write safetensors, or fewer words by --top"
            )
        with place.open("wb") as out:
            np.savez(out, words=np.array(table.words, f"<U{width}"), **table.arrays())  # type: ignore[arg-type]

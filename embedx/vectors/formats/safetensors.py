"""safetensors: tensors `vectors`, `words` (their UTF-8, a word a line) and, where they are known, `counts`; with int8 `scale`.

    from safetensors.numpy import load_file
    words = load_file("x.safetensors")["words"].tobytes().decode().split("\\n")[:-1]

https://huggingface.co/docs/safetensors: eight bytes with the length of a JSON header, which tells each tensor's type, shape and
place; then the tensors, one after the other. It is written here and not by the library, which takes whole arrays and copies
each; the library reads what is written (`tests/test_formats_real.py`). In `words` a tab, newline, carriage return or backslash
within a word is `\\t`, `\\n`, `\\r` or `\\\\`.
"""

import json
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.run.folder import escape, plain, unescape
from embedx.run.progress import Progress
from embedx.vectors.formats.contract import (
    DTYPES,
    Format,
    Found,
    Opened,
    Table,
    check_finite,
    new_vectors,
    product,
    read_rows,
    shown,
)

MOST_HEADER = 100_000_000  # bytes; that of the library
TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2", "I64": "<i8", "I32": "<i4", "I8": "i1", "U8": "u1"}
NAMES = {dtype: name for name, dtype in TYPES.items()} | {"float32": "F32", "float16": "F16", "int8": "I8"}
AGAIN = "write or fetch the file again"


class Part(NamedTuple):
    """A tensor that is to be written."""

    dtype: str  # by numpy
    shape: tuple[int, ...]
    blocks: Iterable[np.ndarray | bytes]


class Safetensors(Format):
    name = "safetensors"
    meaning = "tensors `vectors`, `words` (UTF-8, a word a line) and `counts`, for int8 also `scale`"
    programs = "safetensors in Python, Rust, JavaScript"
    suffixes = (".safetensors",)
    dtypes = DTYPES
    keeps_license = True

    @classmethod
    def recognises(cls, head: bytes) -> bool:
        return len(head) > 8 and head[8:9] == b"{" and struct.unpack("<Q", head[:8])[0] <= MOST_HEADER

    @classmethod
    def read(cls, file: Opened, progress: Progress) -> Found:
        with file.path("a safetensors file").open("rb") as stream:
            tensors = Tensors(file.name, stream)
            words = tensors.words()
            vectors = tensors.vectors("vectors", words)
            counts = tensors.numbers("counts", ("I64", "I32"), len(words))
        return Found(words, vectors, None if counts is None else counts.astype(np.int64))

    @classmethod
    def pieces(cls, table: Table) -> Iterator[bytes]:
        shape = table.rows.shape
        lines = [f"{escape(word)}\n".encode() for word in table.words]
        parts = {
            "vectors": Part(table.dtype, shape, table.stored()),
            "words": Part("u1", (sum(map(len, lines)),), lines),
        }
        if table.counts is not None:
            parts["counts"] = Part("<i8", shape[:1], [table.counts])
        if table.dtype == "int8":
            parts["scale"] = Part("float32", shape[:1], [table.scales()])
        about = {"format": "embedx", "settings": table.settings, "facts": table.facts, "license": table.license}
        texts = {name: v if isinstance(v, str) else json.dumps(v, default=plain) for name, v in about.items()}
        yield from tensor_pieces(parts, texts)


def tensor_pieces(parts: Mapping[str, Part], about: Mapping[str, str]) -> Iterator[bytes]:
    """A safetensors file of these tensors, `about` beside them."""
    header: dict[str, Any] = {"__metadata__": dict(about)}
    end = 0
    ordered = sorted(parts.items(), key=lambda item: -np.dtype(item[1].dtype).itemsize)  # so that all are aligned
    for name, part in ordered:
        start, end = end, end + product(part.shape) * np.dtype(part.dtype).itemsize
        header[name] = {"dtype": NAMES[part.dtype], "shape": list(part.shape), "data_offsets": [start, end]}
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    yield struct.pack("<Q", len(text)) + text
    for _, part in ordered:
        for block in part.blocks:
            if isinstance(block, bytes):
                yield block
            else:
                yield np.ascontiguousarray(block, np.dtype(part.dtype).newbyteorder("<")).tobytes()


class Tensors:
    """The tensors of a file, each within it. Raises EmbedxError where they cannot be."""

    def __init__(self, name: str, stream: BinaryIO) -> None:
        self.name, self.stream = name, stream
        size = stream.seek(0, 2)
        stream.seek(0)
        length = struct.unpack("<Q", stream.read(8))[0] if size >= 8 else size
        if length > min(size - 8, MOST_HEADER):
            raise EmbedxError(f"{name}: the header is longer than the file; {AGAIN}")
        try:
            self.header = json.loads(stream.read(length))
            given = {key: each for key, each in self.header.items() if key != "__metadata__"}
            self.places = {key: self._place(each, size - 8 - length) for key, each in given.items()}
        except (ValueError, AttributeError, KeyError, TypeError, RecursionError) as error:
            raise EmbedxError(f"{name}: no readable header of safetensors ({type(error).__name__}); {AGAIN}") from None
        self.start = 8 + length

    @staticmethod
    def _place(told: Any, n_bytes: int) -> tuple[str, tuple[int, ...], int]:
        """Type, shape and beginning of a tensor. Raises ValueError unless it is as large as its place in the file."""
        dtype, shape, (start, end) = str(told["dtype"]), tuple(told["shape"]), told["data_offsets"]
        if not all(type(n) is int and n >= 0 for n in (*shape, start, end)) or not end <= n_bytes:
            raise ValueError
        if dtype in TYPES and product(shape) * np.dtype(TYPES[dtype]).itemsize != end - start:
            raise ValueError
        return dtype, shape, start

    def found(self, name: str, dtypes: Sequence[str], n_dims: int) -> tuple[np.dtype[Any], tuple[int, ...]]:
        """Type and shape of a tensor, at which the stream is then."""
        if name not in self.places:
            others = shown(", ".join(self.places))
            raise EmbedxError(f"{self.name}: holds no tensor `{name}`, but {others}; embedx reads `words` and `vectors`")
        dtype, shape, start = self.places[name]
        if dtype not in dtypes or len(shape) != n_dims:
            raise EmbedxError(f"{self.name}: the tensor `{name}` is {shown(dtype)} {shape}; it must be {' or '.join(dtypes)}")
        self.stream.seek(self.start + start)
        return np.dtype(TYPES[dtype]), shape

    def words(self) -> list[str]:
        _, (n_bytes,) = self.found("words", ("U8",), 1)
        try:
            *lines, rest = self.stream.read(n_bytes).decode("utf-8").split("\n")
        except UnicodeDecodeError as error:
            raise EmbedxError(f"{self.name}: `words` is no UTF-8 at byte {error.start:,}; {AGAIN}") from None
        if rest:
            raise EmbedxError(f"{self.name}: `words` is cut short within its last line; {AGAIN}")
        return [unescape(line) if "\\" in line else line for line in lines]

    def numbers(self, name: str, dtypes: Sequence[str], n: int) -> np.ndarray | None:
        """(n,): one number for each word; None where there is no such tensor."""
        if name not in self.places:
            return None
        dtype, shape = self.found(name, dtypes, 1)
        if shape != (n,):
            raise EmbedxError(f"{self.name}: the tensor `{name}` has {shape[0]:,} numbers for {n:,} words; {AGAIN}")
        return np.frombuffer(self.stream.read(n * dtype.itemsize), dtype)

    def vectors(self, name: str, words: Sequence[str], *, has_scale: bool = True) -> np.ndarray:
        """float32 (words, dim). Without a scale int8 are taken as they are."""
        scale = self.numbers("scale", ("F32",), len(words)) if has_scale else None
        floats, small = ("F32", "F16", "F64"), ("I8",)
        dtype, shape = self.found(name, small if scale is not None else floats if has_scale else floats + small, 2)
        if shape[0] != len(words):
            raise EmbedxError(f"{self.name}: {shape[0]:,} vectors for {len(words):,} words; {AGAIN}")
        vectors = new_vectors(self.name, *shape)
        read_rows(self.stream, dtype, scale, vectors)
        check_finite(self.name, words, vectors, AGAIN)
        return vectors

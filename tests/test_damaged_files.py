"""Compressed files that are cut off, go on after their end or have bytes changed: every reader says
so, or reads the truth.
"""

import gzip
import io
import itertools
import lzma
import random
import struct
import zlib

import numpy as np
import pytest
from scipy.sparse import csr_matrix, save_npz

from embedx.errors import EmbedxError
from embedx.evaluation.word_sets import read_analogies, read_pairs
from embedx.labeled.ids import read_names
from embedx.labeled.read import read
from embedx.text.decompression import UnpackedReader
from embedx.text.sources import Source
from embedx.vectors.formats import read as read_vectors
from tests.support.compressed_text import PACKERS, read as text_of
from tests.support.refusals import refused_data

FEATURES = np.random.default_rng(0).random((40, 3)).astype(np.float32)


def saved(save, *arguments):
    out = io.BytesIO()
    save(out, *arguments)
    return out.getvalue()


def rows_of(path):
    data = read(str(path))
    features = data.features.toarray() if data.is_sparse else data.features
    return features.tolist(), data.labels.ids.tolist(), data.schema.names, data.schema.vocabulary


FILES = {  # what each reader reads, and how
    "text": (" ".join(f"word{n}" for n in range(300)).encode(), text_of),
    "xc": (
        "".join(["40 90 9\n"] + [f"{n % 9} {n}:{n / 7}\n" for n in range(40)]).encode(),
        rows_of,
    ),
    "libsvm": ("".join(f"name{n} {n}:{n / 7}\n" for n in range(40)).encode(), rows_of),
    "fasttext": ("".join(f"__label__{n} a{n} b\n" for n in range(40)).encode(), rows_of),
    "npy": (saved(np.save, FEATURES), rows_of),
    "npz": (saved(save_npz, csr_matrix(FEATURES)), rows_of),
    "idx": (
        bytes([0, 0, 0x0D, 2]) + struct.pack(">2I", 40, 3) + FEATURES.astype(">f4").tobytes(),
        rows_of,
    ),
    "names": (
        "".join(f"name {n}\n" for n in range(90)).encode(),
        lambda path: read_names(str(path)),
    ),
    "vectors": (
        "".join(["90 2\n"] + [f"w{n} 1 {n}\n" for n in range(90)]).encode(),
        lambda path: read_vectors(path)[0],
    ),
    "binary vectors": (
        b"90 3\n" + b"".join(b"w%d " % n + FEATURES[n % 40].tobytes() for n in range(90)),
        lambda path: read_vectors(path)[0],
    ),
    "pairs": (
        "".join(f"tiger\tcat{n}\t{n}\n" for n in range(90)).encode(),
        lambda path: read_pairs(path).words,
    ),
    "analogies": (
        "".join(f"a{n} b c d{n}\n" for n in range(90)).encode(),
        lambda path: read_analogies(path).words,
    ),
}


def read_or_refused(reading, path):
    """What was read, None if an error of one line says that the file is damaged."""
    try:
        return reading(path)
    except EmbedxError as error:
        message = str(error)
    assert message.startswith(str(path))
    assert "\n" not in message
    return None


PAIRS = [*(("text", suffix) for suffix in PACKERS), *zip(FILES, itertools.cycle(PACKERS))]


@pytest.mark.parametrize(("kind", "suffix"), PAIRS)
def test_every_reader_reports_a_damaged_compressed_file(tmp_path, kind, suffix):
    content, reading = FILES[kind]
    path = tmp_path / f"train.{suffix}"
    packed = PACKERS[suffix](content)
    path.write_bytes(packed)
    undamaged = reading(path)
    rng = random.Random(f"{kind} {suffix}")
    for _ in range(12):
        path.write_bytes(packed[: rng.randrange(30, len(packed))])
        assert read_or_refused(reading, path) is None
        path.write_bytes(packed + rng.randbytes(rng.randrange(1, 30)))
        assert read_or_refused(reading, path) is None
        changed = bytearray(packed)
        changed[rng.randrange(len(packed))] ^= 1 << rng.randrange(8)
        path.write_bytes(changed)
        # a few bytes of a header do not matter
        assert read_or_refused(reading, path) in (None, undamaged)


@pytest.mark.parametrize("suffix", PACKERS)
def test_a_wrong_checksum_is_damage(tmp_path, suffix):
    packed = bytearray(PACKERS[suffix](b"some text"))
    packed[{"gz": -8, "bz2": 10, "xz": -32, "zst": -1}[suffix]] ^= 1
    path = tmp_path / f"corpus.{suffix}"
    path.write_bytes(packed)
    with refused_data(f"corpus.{suffix}"):
        text_of(path)


@pytest.mark.parametrize("suffix", ["bz2", "xz"])
def test_a_damaged_second_stream_is_not_taken_for_the_end(tmp_path, suffix):
    packed = PACKERS[suffix](b"some text ")
    path = tmp_path / f"corpus.{suffix}"
    path.write_bytes(packed + bytes(512) + packed)
    assert text_of(path) == b"some text " * 2
    path.write_bytes(packed + b"!" + packed[1:])
    with refused_data(f"corpus.{suffix}"):
        text_of(path)


def test_skippable_frames_of_zstandard_are_skipped(tmp_path):
    frame = PACKERS["zst"](b"some text ")
    skipped = b"\x50\x2a\x4d\x18" + struct.pack("<I", 4) + b"text"
    (tmp_path / "corpus.zst").write_bytes(skipped + frame + skipped + frame + skipped)
    assert text_of(tmp_path / "corpus.zst") == b"some text " * 2


def test_a_file_that_asks_for_more_memory_than_any_need_is_refused(tmp_path):
    packed = bytearray(lzma.compress(b"some text"))
    packed[16] = 37  # by the format a dictionary of 3 << 29 bytes
    packed[20:24] = struct.pack("<I", zlib.crc32(packed[12:20]))
    (tmp_path / "corpus.xz").write_bytes(packed)
    with refused_data("corpus.xz", quoting="Memory usage limit exceeded"):
        text_of(tmp_path / "corpus.xz")


def test_an_unpacked_file_is_read_in_pieces_of_any_size(tmp_path):
    content = random.Random(0).randbytes(1 << 19)
    (tmp_path / "x.gz").write_bytes(gzip.compress(content))
    with UnpackedReader(Source(str(tmp_path / "x.gz"), "text", None)) as file:
        pieces = []
        while piece := file.read(1 + 9999 * len(pieces)):
            pieces.append(piece)
    assert b"".join(pieces) == content
    assert file.closed

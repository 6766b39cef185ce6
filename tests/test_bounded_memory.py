"""A few kilobytes may unpack to any size, and a header may claim any: what does not stay within
bounds is an error.
"""

import gzip
import io
import subprocess
import sys
import tracemalloc
import zipfile

import numpy as np
import pytest
import zstandard
from scipy.sparse import csr_matrix, save_npz

from embedx.evaluation import word_sets
from embedx.labeled import files
from embedx.labeled.files import Lines, source_of
from embedx.labeled.ids import read_names
from embedx.labeled.read import read
from embedx.runtime.progress import Silent
from embedx.text import wikipedia
from embedx.text.encode import encode_sources
from embedx.text.read_ahead import ReadAhead
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.text.tokenizer import MAX_WORD_BYTES, N_TOO_LONG, Tokenizer
from embedx.text.wikipedia import DumpError, paragraphs
from tests.support.notes import Notes, lines_with
from tests.support.npy import npy
from tests.support.refusals import refused_data

NO_MEMORY = "available memory"


@pytest.fixture
def little_memory(monkeypatch):
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", 1 << 10)
    monkeypatch.setattr(files, "available_memory", lambda: 40_000)


def npy_that_claims(shape, dtype="<f4"):
    """The header of an array of that shape, and no values."""
    out = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        out, {"descr": dtype, "fortran_order": False, "shape": shape}
    )
    return out.getvalue()


TOO_LARGE = {
    "rows": "2000 9 9\n" + "1 1:1\n" * 2000,
    "values": "9 9 9\n" + ("1 " + "1:1 " * 500 + "\n") * 9,
    "labels": "9 9 9\n" + ("1," * 1000 + "1 1:1\n") * 9,
    "empty rows": "2001 9 9\n1 1:1\n" + "\n" * 2000,
    "empty rows within": "2001 9 9\n" + "\n" * 2000 + "1 1:1\n",
    "libsvm": "1 1:1\n" * 2000,
    "names of labels": "".join(f"name{n} 1:1\n" for n in range(100)),
    "bags": "__label__a\n" * 2000,
    "empty bags": "__label__a\n" + "\n" * 1000 + "b\n",
    "words": "__label__a " + " ".join(f"word{n}" for n in range(100)),
    "labels of bags": "".join(f"__label__{n}\n" for n in range(100)),
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_rows_that_do_not_fit_into_memory_are_an_error(write, what, little_memory):
    with refused_data("train.txt", quoting=NO_MEMORY):
        read(write(TOO_LARGE[what]))


def test_data_that_fit_into_memory_are_read(write, little_memory):
    assert len(read(write("200 9 9\n" + "1 1:1\n" * 200))) == 200
    assert len(read(write("__label__a b\n" * 200))) == 200
    # one value, however often it is written
    assert read(write("__label__a " + "b " * 4000)).features.toarray() == [[4000]]


READERS = {
    "labels": lambda features, rows: read(features, rows),
    "split": lambda features, rows: read(f"{features}@{rows}"),
    "names": lambda _, rows: read_names(rows),
}


@pytest.mark.parametrize(
    ("kind", "line"),
    [
        *((kind, line) for kind in READERS for line in ("1\n", "1 2 3\n")),
        ("labels", "a\n"),
        ("names", "a\n"),
    ],
)
def test_labels_splits_and_names_that_do_not_fit_are_an_error(write, kind, line, little_memory):
    features = write(npy(np.ones((9, 2), np.float32)), "x.npy")
    rows = write(line * 9999, "rows.txt.gz")
    with refused_data("rows.txt.gz", quoting=NO_MEMORY):
        READERS[kind](features, rows)


BIG = (5000, 2)
MATRIX = io.BytesIO()
save_npz(MATRIX, csr_matrix(np.ones(BIG, np.float32)))


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("x.npy.gz", gzip.compress(npy(np.ones(BIG)), mtime=0)),
        ("x.npz", MATRIX.getvalue()),
        ("x.npz.gz", gzip.compress(MATRIX.getvalue(), mtime=0)),
        ("x.npz.gz", gzip.compress(b"PK\3\4" + bytes(10**6), mtime=0)),
    ],
)
def test_arrays_too_large_for_memory_are_refused_before_allocation(
    write, name, content, little_memory
):
    with refused_data(name, quoting=NO_MEMORY):
        read(write(content, name))


def test_a_copy_that_does_not_fit_is_an_error(write, monkeypatch):
    file = write(npy(np.ones(BIG, np.uint8)), "x.npy")  # 10 kB that become 40 kB
    monkeypatch.setattr(files, "available_memory", lambda: 40_000)
    with refused_data("x.npy", quoting=NO_MEMORY):
        read(file)


def in_zip(content):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("data.npy", content)
    return out.getvalue()


@pytest.mark.parametrize("shape", [(10**12, 0), (10**15, 10**15), (10**30,), (-5, 3)])
@pytest.mark.parametrize(
    ("pack", "name"), [(bytes, "x.npy"), (gzip.compress, "x.npy"), (in_zip, "x.npz")]
)
def test_headers_that_declare_more_than_the_file_holds_are_refused(write, shape, pack, name):
    with refused_data(name):
        read(write(pack(npy_that_claims(shape)), name))


def test_lines_longer_than_the_limit_are_an_error(write, monkeypatch):
    for module in ("decompression", "read_ahead"):
        monkeypatch.setattr(f"embedx.text.{module}.BLOCK_BYTES", 7)
    monkeypatch.setattr(files, "MAX_LINE_BYTES", 100)
    fits = "a" * 50 + "\n\n\n" + "b" * 97
    assert b"".join(Lines(source_of(write(fits)), Silent())).decode() == fits + "\n"
    for text in (fits + "b" * 20, fits + "b" * 20 + "\nc"):
        with refused_data("train.txt:4", quoting="100 bytes"):
            list(Lines(source_of(write(text)), Silent()))
    with refused_data("train.txt:113", quoting="100 bytes"):
        list(Lines(source_of(write("\n" * 301 + "a")), Silent()))


@pytest.mark.parametrize("reading", [word_sets.read_pairs, word_sets.read_analogies])
def test_test_sets_of_words_larger_than_the_limit_are_an_error(tmp_path, monkeypatch, reading):
    (tmp_path / "set.txt.gz").write_bytes(gzip.compress(b"tiger cat 7 8\ntiger hen 7 8\n" * 50))
    assert len(reading(tmp_path / "set.txt.gz")) == 100
    monkeypatch.setattr(word_sets, "MAX_BYTES", 1399)
    with refused_data("set.txt.gz", quoting="1,399 bytes"):
        reading(tmp_path / "set.txt.gz")


# ---- text


def test_an_endless_word_is_left_out_in_bounded_memory(tmp_path):
    longest = b"x" * MAX_WORD_BYTES
    for block_bytes in (1 << 16, 3 << 20):
        scanner = Tokenizer(TextSettings())
        text = b"a " + longest + b" " + longest + b"y b\n" + longest * 5 + b" a"
        tokens, too_long = [], 0
        for start in range(0, len(text), block_bytes):
            tokens += scanner.tokenize(
                text[start : start + block_bytes], start, start + block_bytes >= len(text)
            ).tolist()
            too_long += scanner.state[N_TOO_LONG]
        assert (tokens, too_long) == ([0, 1, 2, -1, 0, -1], 2)
        assert len(scanner.table.letters) < 4 * MAX_WORD_BYTES


def test_words_left_out_are_reported_from_the_cache_too(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(b"a b " + b"x" * (MAX_WORD_BYTES + 1))
    for _ in range(2):
        progress = Notes()
        encode_sources(
            find_sources([str(tmp_path / "corpus.txt")]),
            TextSettings(),
            progress,
            tmp_path / "cache",
        ).close()
        assert lines_with(progress.notes, f"{tmp_path}/corpus.txt: 1 ", "4,194,304 bytes")


@pytest.mark.parametrize(
    "xml",
    [
        "<page><text>" + "a " * 600,
        "<page><text a='" + "a " * 600,
        "<!--" + "a " * 600,
        "<a>" * 1200,
        "<a><b><c/>" + "<c/>" * 900,
    ],
)
def test_xml_that_no_dump_has_is_an_error(tmp_path, monkeypatch, xml):
    monkeypatch.setattr(wikipedia, "MAX_BYTES", 1000)
    data = f"<mediawiki>{xml}".encode()
    with pytest.raises(DumpError, match="1,000 bytes"):
        list(paragraphs(data[i : i + 64] for i in range(0, len(data), 64)))
    (tmp_path / "dump.xml").write_bytes(data)
    with refused_data("dump.xml", quoting="1,000 bytes"):
        encode_sources(
            find_sources([str(tmp_path / "dump.xml")]), TextSettings(), cache_dir=tmp_path / "cache"
        )


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_pages_within_the_limits_are_read_however_they_are_cut(monkeypatch, encoding):
    monkeypatch.setattr(wikipedia, "MAX_BYTES", 200)
    page = (
        "<page><title>0123456789</title><!-- a comment --><ns>0</ns><text>ten letter</text></page>"
    )
    data = f"<mediawiki>{page * 30}</mediawiki>".encode(encoding)
    for step in (1, 10):
        assert (
            b"".join(paragraphs(data[i : i + step] for i in range(0, len(data), step)))
            == b"ten letter\n" * 30
        )


# ---- with real sizes


def test_a_zst_file_is_unpacked_piece_by_piece(tmp_path):
    packer = zstandard.ZstdCompressor().compressobj()
    line = b"a b\n" * (1 << 18)
    (tmp_path / "bomb.zst").write_bytes(
        b"".join(packer.compress(line) for _ in range(300)) + packer.flush()
    )
    assert (tmp_path / "bomb.zst").stat().st_size < 1 << 16
    tracemalloc.start()
    with ReadAhead(find_sources([str(tmp_path / "bomb.zst")])) as blocks:
        assert sum(len(block.data) for block in blocks) == 300 << 20
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 150 << 20


BOMBS = """
import gzip, resource
from pathlib import Path
from embedx.errors import EmbedxError
from embedx.labeled.read import read
from embedx.text.settings import TextSettings
from embedx.text.encode import encode_sources
from embedx.text.sources import find_sources

def encode(name):
    encode_sources(find_sources([name]), TextSettings(), cache_dir=Path("cache")).close()

for reading, small in (read, "1 2 2\\n1 1:1\\n"), (encode, "a b\\n"):
    Path("small.txt").write_text(small)
    reading("small.txt")
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for reading, start, middle in (
    (read, b"1 1 1\\n0 0:", b"1"),
    (read, b"__label__a ", b"b "),
    (read, b"", b"\\n"),
    (encode, b"", b"a"),
):
    piece = gzip.compress(middle * ((1 << 20) // len(middle)), 1)
    Path("bomb.gz").write_bytes(gzip.compress(start) + piece * 200)
    try:
        reading("bomb.gz")
    except EmbedxError as error:
        assert "bomb.gz" in str(error) and "\\n" not in str(error), error
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
"""


def test_compressed_bombs_take_little_memory(tmp_path):
    completed = subprocess.run(
        [sys.executable, "-c", BOMBS], cwd=tmp_path, capture_output=True, text=True
    )
    assert completed.returncode == 0, completed.stderr
    assert int(completed.stdout) < 150, f"{completed.stdout} MB for files of 200 MB, unpacked"

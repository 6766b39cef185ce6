"""Opening, decompressing and decoding the user's files, and errors of files that are no text."""

import bz2
import gzip
import http.client
import io
import os
import subprocess
import sys
import threading

import pytest

from embedx.errors import DataError, EmbedxError, Setting, SettingError
from embedx.labeled.files import Lines, source_of
from embedx.labeled.formats import FORMATS
from embedx.runtime.progress import Silent
from embedx.text.decompression import UnpackedReader
from embedx.text.encode import encode_sources
from embedx.text.labelled_starts import LABELLED_STARTS
from embedx.text.opening import CountedReader, open_source
from embedx.text.read_ahead import ReadAhead
from embedx.text.settings import TextSettings
from embedx.text.sources import Source, find_sources, text_defaults
from embedx.text.streams import text_blocks
from embedx.text.tables import NotTextError
from tests.support.compressed_text import PACKERS, read
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data

TEXT = "".join(f"line {n} of the café\n" for n in range(2000)).encode()


def write(path, data):
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("suffix", PACKERS)
def test_compressed_text_is_recognised_by_content_and_may_have_several_parts(tmp_path, suffix):
    packed = PACKERS[suffix](TEXT)
    for name in (f"corpus.{suffix}", "corpus.txt", f"corpus.p10p20.{suffix}"):
        assert read(write(tmp_path / name, packed)) == TEXT
    assert read(write(tmp_path / "corpus", packed + PACKERS[suffix](b"") + packed)) == TEXT * 2
    with refused_data("corpus"):
        read(write(tmp_path / "corpus", packed[:-100]))


def test_closing_a_reader_early_ends_its_threads(tmp_path):
    (tmp_path / "a.bz2").write_bytes(bz2.compress(TEXT) * 20)
    [source] = find_sources([str(tmp_path / "a.bz2")])
    reader = UnpackedReader(source)
    assert reader.read(4) == TEXT[:4]
    threads = [thread for thread in threading.enumerate() if thread.name.startswith("embedx-bzip2")]
    reader.close()
    for thread in threads:
        thread.join(20)
    assert threads
    assert not any(thread.is_alive() for thread in threads)


def test_zst_without_zstandard_names_the_extra(tmp_path, monkeypatch):
    path = write(tmp_path / "corpus.zst", PACKERS["zst"](TEXT))
    monkeypatch.setitem(sys.modules, "zstandard", None)
    with refused_data("corpus.zst", quoting='pip install "embedx[zstd]"'):
        read(path)


@pytest.mark.parametrize(
    ("data", "quoted"),
    [
        (b"PK\x03\x04" + bytes(100), "zip"),
        ("text".encode("utf-16"), "iconv -f UTF-16 -t UTF-8"),
        (b"%PDF-1.4 ...", ("PDF", "pdftotext")),
        (b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml", ("Excel", "CSV")),
        (b"PK\x03\x04" + bytes(26) + b"mimetypeapplication/vnd.oasis.x", ("LibreOffice", "CSV")),
        (b"\xd0\xcf\x11\xe0" + bytes(90), ("Excel", "CSV")),
        (b"name" + bytes(253) + b"ustar\0" + bytes(300), "tar -x"),
        (bytes(range(256)) * 4, ("50%", "iconv -f CP1252 -t UTF-8")),
        ("текст ".encode("koi8-r") * 100, ("83%", "iconv -f CP1252 -t UTF-8")),
        ("text ".encode("utf-16-le") * 100, ("50%", "iconv -f CP1252 -t UTF-8")),
    ],
)
def test_binary_files_are_refused_with_their_kind(tmp_path, data, quoted):
    with refused_data("corpus", kind=NotTextError, quoting=quoted):
        read(write(tmp_path / "corpus", data))


def test_missing_rights_and_vanished_files_are_errors(tmp_path):
    (source,) = find_sources([str(write(tmp_path / "corpus.txt", TEXT))])
    (tmp_path / "corpus.txt").unlink()
    with refused_data("corpus.txt", quoting="No such file or directory"):
        open_source(source)


def test_standard_input_is_read(monkeypatch, tmp_path):
    with open(write(tmp_path / "corpus.gz", gzip.compress(TEXT))) as file:
        monkeypatch.setattr(sys, "stdin", file)
        assert read("-") == TEXT
        os.fstat(file.fileno())  # which is still open
    monkeypatch.setattr(sys, "stdin", None)
    with refused(kind=DataError, file="-", line=None):
        read("-")


def test_the_program_may_end_while_a_thread_waits_for_standard_input():
    """Python takes the lock of sys.stdin's buffer at its end, and aborts if a thread has it."""
    code = (
        "import sys, threading, time\nfrom embedx.text.sources import find_sources\nfrom"
        " embedx.text.read_ahead import ReadAhead\nblocks = ReadAhead(find_sources(['-']))\n"
        "[reader] = [each for each in threading.enumerate() if each.name == 'embedx-reader']\n"
        "while (frame :="
        " sys._current_frames().get(reader.ident)) is None or frame.f_code.co_name != 'readinto':\n"
        "    time.sleep(0.01)\ntime.sleep(0.2)\nsys.exit(7)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        process.wait(60)
        assert (process.returncode, process.stderr.read()) == (7, "")


def test_a_pipe_that_does_not_block_is_waited_for():
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with CountedReader(io.FileIO(reading)) as file:
        timer = threading.Timer(0.3, lambda: (os.write(writing, TEXT), os.close(writing)))
        timer.start()
        assert b"".join(text_blocks(Source("pipe", "text", None), file)) == TEXT
        timer.join()


def test_errors_of_remote_storage_name_the_source():
    class Far(io.RawIOBase):
        def readinto(self, buffer):
            raise http.client.IncompleteRead(b"")

    with refused_data("far.txt", quoting="IncompleteRead"):
        list(text_blocks(Source("far.txt", "text", None), CountedReader(Far())))


def test_reading_ahead_gives_the_blocks_of_all_sources_in_order(tmp_path):
    first = write(tmp_path / "1.txt", TEXT)
    second = write(tmp_path / "2.gz", gzip.compress(b"second"))
    with ReadAhead(find_sources([str(first), str(second)])) as blocks:
        read_ahead = list(blocks)
    assert [(block.source, block.data) for block in read_ahead] == [
        (0, TEXT),
        (0, b""),
        (1, b"second"),
        (1, b""),
    ]
    assert read_ahead[-1].stored == first.stat().st_size + second.stat().st_size


XC = b"2 9 3\n0,2 0:1.5 8:-2e-3\n1 3:1\n"
LIBSVM = b"+1 1:0.5 3:1\n-1,2 2:1\n 4:1\n"
FASTTEXT = b"__label__good __label__new a nice film\nsome words __label__bad\n"


STARTS = {"XC": XC, "LIBSVM": LIBSVM, "fastText": FASTTEXT}


def test_every_format_of_labelled_lines_is_distinguished_from_text():
    formats = [format.name for format in FORMATS.values() if format.passes_for_text]
    assert set(formats) == set(LABELLED_STARTS) == set(STARTS)
    for name, data in STARTS.items():
        assert LABELLED_STARTS[name](data.splitlines()), name


LONG = [data * 500 for data in (XC[6:], LIBSVM, FASTTEXT)] + [
    b"1 1000 1\n0" + b" 12:3.25" * 600,
    b"1 2:3.25 7:1.2e-",
]


@pytest.mark.parametrize("data", [XC, LIBSVM, FASTTEXT, *LONG])
@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_labelled_data_are_refused_as_text(tmp_path, data, pack):
    for file in (
        write(tmp_path / "a b.txt", pack(data)),
        write(tmp_path / "a b", b"\xef\xbb\xbf" + data),
    ):
        with pytest.raises(DataError) as error:
            read(file)
        assert error.value.file == str(file)
        classify, *_, override = error.value.remedy
        assert f"`embedx classify '{file}'`" in classify
        assert override == Setting("format", "text")
    assert list(Lines(source_of(str(file)), Silent()))  # for whom they are


BASKETS = b"12:345 12:346 9:1\n9:1 12:345\n" * 20


@pytest.mark.parametrize("name", ["baskets", "baskets.txt", "baskets.csv", "baskets.jsonl.gz"])
def test_lines_that_resemble_labelled_data_are_text_with_format_text(tmp_path, name):
    file = write(tmp_path / name, gzip.compress(BASKETS) if name.endswith("gz") else BASKETS)
    with pytest.raises(EmbedxError):
        read(file)
    assert read(file, TextSettings(format="text")) == BASKETS


def test_text_has_no_fields():
    with pytest.raises(SettingError) as error:
        TextSettings(format="text", column="a")
    assert (error.value.setting, error.value.value) == ("column", "a")
    assert Setting("format", "text") in error.value.remedy


def test_standard_input_with_a_tokenizer_is_text():
    assert text_defaults(["-"], {"tokenizer": "whitespace"}) == {"format": "text"}
    assert text_defaults(["-"], {"tokenizer": "none", "json_field": "items"}) == {}
    assert text_defaults(["-"], {}) == {}
    assert text_defaults(["a.txt", "-"], {"tokenizer": "words"}) == {}


@pytest.mark.parametrize(
    "data",
    [
        b"so it was 10:30 11:45 when the train left\n",
        b"Matthew 5:3 6:4\nBlessed are the poor\n",
        b"12 55 3\n55 3 12\n",
        b"1 2 3\n4 5 6:7 8\n",
        b"1 2 3",
        b"7",
        b"In fastText, __label__ marks a label.\nNo label.\n",
        b"a 1:2\n\nb\n",
        "voilà une phrase française".encode("latin-1") * 10,
        b"",
        b"\n",
        b"a " * 4000 + b"__label__x",
        b"__label__\n",
        b"1 1:2\n" * 9 + b"words\n",
        b"2024-01-01 10:30:00 1:2\n",
    ],
)
def test_text_is_read_as_text(tmp_path, data):
    assert read(write(tmp_path / "a.txt", data)) == data


@pytest.mark.parametrize("threads", [1, 3])
def test_files_in_a_folder_that_are_no_text_are_skipped_and_counted(tmp_path, monkeypatch, threads):
    monkeypatch.chdir(tmp_path)
    for name, data in {
        "a.txt": b"one two\n",
        "b": b"three\n",
        "c.jsonl": b'{"t": "four"}\n',
        "d.json": b"{\n}",
        "e.csv": b"t\nfive\n",
        "f.png": bytes(range(128, 256)) * 9,
        "g.pdf": b"%PDF-1.7\n",
        "h.txt.gz": gzip.compress(b"six"),
        "i.xc": XC,
        "sub/j.md": b"# 7",
        ".hidden": b"",
        ".git/config": b"",
    }.items():
        file = tmp_path / "texts" / name
        file.parent.mkdir(exist_ok=True, parents=True)
        file.write_bytes(data)
    kinds = (
        "2 JSON (--json-field), 1 CSV/TSV/Parquet (--column), 2 binary, 1 labelled data (embedx"
        " classify)"
    )
    for _ in ("read", "from the cache"):
        progress = Notes()
        with encode_sources(
            find_sources(["texts"]), TextSettings(), progress, tmp_path / "cache", threads
        ) as corpus:
            assert [corpus.words[token] for token in corpus.tokens if token >= 0] == [
                "one",
                "two",
                "three",
                "six",
                "#",
                "7",
            ]
        assert progress.notes[1:] == [f"texts: 4 files read; skipped: {kinds}"]
    with encode_sources(
        find_sources(["texts/a.txt", "texts/e.csv"]),
        TextSettings(column="t"),
        cache_dir=tmp_path / "cache",
    ) as corpus:
        assert [*corpus.words] == ["one", "two", "five"]
    with refused_data("texts/g.pdf", kind=NotTextError, quoting="PDF"):
        encode_sources(
            find_sources(["texts/g.pdf", "texts"]), TextSettings(), cache_dir=tmp_path / "cache"
        )
    for name in ("a.txt", "b", "h.txt.gz", "sub/j.md"):
        (tmp_path / "texts" / name).unlink()
    with refused_data(
        "texts/c.jsonl and 5 more",
        "json_field",
        "column",
        quoting=("2 JSON", "1 CSV/TSV/Parquet", "2 binary"),
    ):
        encode_sources(find_sources(["texts"]), TextSettings(), cache_dir=tmp_path / "cache")

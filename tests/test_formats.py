"""Vector files as other programs write them, whole and broken."""

import bz2
import gzip
import lzma
import os
import threading

import numpy as np
import pytest
import zstandard

from embedx.vectors import formats, model
from embedx.vectors.formats import contract
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data

WORDS = ["the", "naïve", "a\u00a0b", "</s>", "42"]
VECTORS = np.array([[0.1, -2.5], [1e-20, 3e20], [7, 8], [0, -0.0], [1 / 3, 2 / 3]], np.float32)


def text(header=True, end="\n"):
    lines = [
        f"{word} {' '.join(map(str, vector))}" for word, vector in zip(WORDS, VECTORS, strict=True)
    ]
    return (f"5 2{end.strip(' ')}" * header + "".join(line + end for line in lines)).encode()


def binary(end=b"\n"):
    rows = zip(WORDS, VECTORS, strict=True)
    return b"5 2\n" + b"".join(
        word.encode() + b" " + vector.tobytes() + end for word, vector in rows
    )


LAYOUTS = {
    "word2vec text": text(),
    "word2vec.c and fastText end lines by a space": text(end=" \n"),
    "lines end as on Windows": text(end="\r\n"),
    "no newline at the end": text()[:-1],
    "blank lines at the end": text() + b"\n\n",
    "glove": text(header=False),
    "glove, Windows": text(header=False, end="\r\n"),
    "word2vec binary": binary(),
    "word2vec binary of gensim": binary(end=b""),
}


def damaged(content):
    """With another byte in its middle."""
    middle = len(content) // 2
    return content[:middle] + bytes([content[middle] ^ 255]) + content[middle + 1 :]


def write(tmp_path, content, name="vectors"):
    file = tmp_path / name
    file.write_bytes(content)
    return file


@pytest.mark.parametrize("block", [1, 1 << 22])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_each_layout_is_read_bit_for_bit(tmp_path, monkeypatch, layout, block):
    monkeypatch.setattr(contract, "BLOCK_BYTES", block)
    words, vectors, *_ = formats.read(write(tmp_path, LAYOUTS[layout]))
    assert words == WORDS
    assert vectors.dtype == np.float32
    assert vectors.tobytes() == VECTORS.tobytes()


@pytest.mark.parametrize(
    ("layout", "total"), [("word2vec text", 5), ("glove", None), ("word2vec binary", 5)]
)
def test_a_long_file_shows_its_progress(tmp_path, monkeypatch, layout, total):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 16)
    notes = Notes()
    formats.read(write(tmp_path, LAYOUTS[layout]), notes)
    assert notes.stages == [("Reading vectors", total, "words")]
    assert notes.done == sorted(notes.done)
    assert notes.done


def zstd_frames(content):
    """Two frames, one after the other."""
    pack = zstandard.ZstdCompressor().compress
    return pack(content[:20]) + pack(content[20:])


@pytest.mark.parametrize(
    ("compress", "layout"),
    [
        (gzip.compress, "word2vec text"),
        (bz2.compress, "word2vec binary"),
        (lzma.compress, "word2vec text"),
        (zstandard.compress, "word2vec binary"),
        (zstd_frames, "word2vec text"),
    ],
)
def test_compression_is_recognised_by_content(tmp_path, compress, layout):
    vectors = model.load(write(tmp_path, compress(LAYOUTS[layout]), "vectors.txt"))
    np.testing.assert_array_equal(vectors.vectors, VECTORS)
    vectors = model.load(write(tmp_path, LAYOUTS[layout], "not-compressed.gz"))
    np.testing.assert_array_equal(vectors.vectors, VECTORS)


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (
            b"the 0.5 1.5\n. . . 2 3\nat name@domain.com 4 5\n",
            ["the", ". . .", "at name@domain.com"],
        ),
        (b". . . 2 3 \r\nthe 0.5 1.5 \r\n", [". . .", "the"]),
        (b"2 2\n. . . 2 3\nthe 0.5 1.5\n", [". . .", "the"]),
        (b"2 2\nthe 0.5 1.5\n. . . 2 3\n", ["the", ". . ."]),
    ],
)
def test_words_of_text_files_may_have_spaces(tmp_path, content, expected):
    words, vectors, *_ = formats.read(write(tmp_path, content))
    assert words == expected
    np.testing.assert_array_equal(vectors[words.index("the")], [0.5, 1.5])
    np.testing.assert_array_equal(vectors[words.index(". . .")], [2, 3])


def test_a_word_cut_within_a_letter_is_still_read(tmp_path):
    words, *_ = formats.read(write(tmp_path, b"2 1\nna\xc3 1\nb 2\n"))
    assert words == ["na\ufffd", "b"]


def test_the_first_of_two_equal_words_wins(tmp_path):
    notes = Notes()
    words, vectors, *_ = formats.read(write(tmp_path, b"4 1\na 1\nb 2\na 3\na 4\n"), notes)
    assert words == ["a", "b"]
    np.testing.assert_array_equal(vectors, [[1], [2]])
    (note,) = notes.notes
    assert note.startswith(f"{tmp_path / 'vectors'}: left out: 2 vectors ")


@pytest.mark.parametrize(
    ("content", "place", "quoted"),
    [
        (b"", "vectors", "0 bytes"),
        (b"Once upon a time\nthere was a corpus\n", "vectors:1", "`words dim`"),
        (b"2 2\na 1 2\nb 3\n", "vectors:3", ("1 number", "'b'", "2")),
        (b"a 1 2\nb 3 4\nc d 5\n", "vectors:3", ("'d'", "'c'")),
        (b"2 2\na 1 2\nb 3 4x\n", "vectors:3", ("'4x'", "'b'")),
        (b"2 2\na 1 2\nb nan 4\n", "vectors:3", ("'nan'", "'b'")),
        (b"2 2\na 1 2\nb 1e99 4\n", "vectors:3", ("'1e99'", "'b'")),
        (b"2 2\na 1 2\n 3 4\n", "vectors:3", "no word"),
        (b"3 2\na 1 2\nb 3 4\n", "vectors", ("3 words", "2 ")),
        (b"0 2\n", "vectors", "no word"),
        (b"2 0\na\nb\n", "vectors:1", "0 dimensions"),
        (binary()[:-4], "vectors", "word 5 of 5"),
        (binary() + b"more", "vectors", "5 words"),
        (b"1 2\na " + np.array([1, np.nan], np.float32).tobytes(), "vectors", "'a'"),
        (b"999999999999 100000\na " + bytes(4), "vectors:1", "400,000,000.0 GB"),
        (b"\x80\x05\x95", "vectors", "save_word2vec_format"),
        (b"\xba\x16\x4f\x2f\x0c", "vectors", "fastText"),
        (damaged(lzma.compress(text())), "vectors", "(Corrupt input data)"),
        (b"9" * 5000 + b" 2\na 1 2\n", "vectors:2", ("2 numbers", "'a'", "1")),
        (b"1 2\na 1 " + b"9" * 5000 + b"\n", "vectors:2", (f"'{'9' * 40}…'", "'a'")),
        (b"1 2\n" + b"a" * 5000 + b" 1 x\n", "vectors:2", ("'x'", f"'{'a' * 40}…'")),
    ],
)
def test_a_broken_file_is_an_error_with_place_and_remedy(tmp_path, content, place, quoted):
    with refused_data(place, quoting=quoted):
        formats.read(write(tmp_path, content))


@pytest.mark.parametrize("more", [b"m", b"\nm"])
def test_what_follows_the_last_block_of_a_binary_file_is_noticed(tmp_path, monkeypatch, more):
    monkeypatch.setattr(contract, "BLOCK_BYTES", len(binary().partition(b"\n")[2]))
    assert len(formats.read(write(tmp_path, binary() + b"\n"))[0]) == 5
    with refused_data("vectors", quoting="5 words"):
        formats.read(write(tmp_path, binary() + more))


def test_the_line_is_counted_over_blocks_and_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 50)
    lines = ["100 1", *(f"w{i} {i}" for i in range(30)), "", "w30 3O"]
    with refused_data("vectors:33", quoting=("'3O'", "'w30'")):
        formats.read(write(tmp_path, "\n".join(lines).encode()))


def test_a_missing_file_is_named(tmp_path):
    with refused_data("nowhere"):
        model.load(tmp_path / "nowhere")


def test_a_pipe_is_read_once(tmp_path):
    for content in (text(), binary(), gzip.compress(text())):
        os.mkfifo(tmp_path / "pipe")
        writer = threading.Thread(target=(tmp_path / "pipe").write_bytes, args=(content,))
        writer.start()
        words, *_ = formats.read(tmp_path / "pipe")
        writer.join()
        assert words == WORDS
        (tmp_path / "pipe").unlink()


@pytest.mark.parametrize(
    ("content", "place", "quoted"),
    [
        (b"a 1\n" + b"b" * 2000 + b" 2\nc 3\n", "vectors", "1,000 bytes"),
        (b"a 1\n" + b"b" * 2000, "vectors", "1,000 bytes"),
        (b"2 1\na \0\0\xc0\x3f" + b"b" * 4000, "vectors", "word 2 of 2"),
        (b"1 999999999\na \0", "vectors", "word 1 of 1"),
        (b"100000000000 9\na \0", "vectors:1", "3,600.0 GB"),
    ],
)
def test_endless_lines_and_false_headers_are_an_error(
    tmp_path, monkeypatch, content, place, quoted
):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 50)
    monkeypatch.setattr(contract, "MAX_LINE_BYTES", 1000)
    monkeypatch.setattr(contract, "available_memory", lambda: 10**10)
    with refused_data(place, quoting=quoted):
        formats.read(write(tmp_path, content))


def test_vectors_that_do_not_fit_into_memory_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("embedx.labeled.files.available_memory", lambda: 10_000)
    monkeypatch.setattr(contract, "BLOCK_BYTES", 1000)
    with refused_data("vectors"):
        formats.read(write(tmp_path, gzip.compress(b"a 1 2 3\n" * 9999)))
    monkeypatch.setattr(contract, "available_memory", lambda: 39)
    with refused_data("vectors:1", quoting="0.0 kB"):
        formats.read(write(tmp_path, binary()))
    monkeypatch.setattr(contract, "available_memory", lambda: 40)
    assert formats.read(write(tmp_path, binary()))[0] == WORDS


def test_empty_rows_are_named_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 6)
    with refused_data("vectors:2", quoting=("0 numbers", "'b'")):
        formats.read(write(tmp_path, b"a 1 2\nb \n"))


def binary_of(names, after_vector):
    numbers = np.random.default_rng(0).normal(size=(len(names), 4)).astype("<f4")
    rows = [
        name + b" " + row.tobytes() + after_vector for name, row in zip(names, numbers, strict=True)
    ]
    return b"%d 4\n" % len(names) + b"".join(rows)


@pytest.mark.parametrize("after_vector", [b"", b"\n"], ids=["gensim", "word2vec.c"])
@pytest.mark.parametrize("place", range(4))
def test_a_blank_in_a_name_of_a_binary_file_is_an_error(tmp_path, after_vector, place):
    names = [b"aa", b"bb", b"cc", b"dd"]
    names[place] = b"New York"
    file = tmp_path / "vectors.bin"
    file.write_bytes(binary_of(names, after_vector))
    with refused_data("vectors.bin"):
        formats.read(file)


@pytest.mark.parametrize(
    "content",
    [
        "café 1 2\ncafè 3 4\nthé 3 4\n".encode("latin-1"),
        "3 2\ncafé 1 2\ncafè 3 4\nthé 3 4\n".encode("latin-1"),
        binary_of([b"caf\xe9", b"caf\xe8", b"th\xe9"], b"\n"),
    ],
    ids=["glove", "word2vec", "word2vec-binary"],
)
def test_words_in_latin_1_are_counted_in_a_warning(tmp_path, content):
    file = tmp_path / "vectors.txt"
    file.write_bytes(content)
    progress = Notes()
    assert formats.read(file, progress).words == ["caf\ufffd", "th\ufffd"]
    assert lines_with(progress.notes, "3 of 3 words", "UTF-8", "1 become equal")


@pytest.mark.parametrize(
    "content",
    [b"a 1 2\nb 3 4\n", b"2 2\na 1 2\nb 3 4\n", binary_of([b"a", b"b"], b"")],
    ids=["glove", "word2vec", "word2vec-binary"],
)
def test_a_byte_order_mark_belongs_to_no_word(tmp_path, content):
    file = tmp_path / "vectors.txt"
    file.write_bytes(b"\xef\xbb\xbf" + content)
    assert formats.read(file).words == ["a", "b"]

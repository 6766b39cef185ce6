"""Vector files as other programs write them, whole and broken."""

import bz2
import gzip
import lzma
import os
import threading

import numpy as np
import pytest
import zstandard

from embedx.errors import EmbedxError
from embedx.vectors import formats, model
from embedx.vectors.formats import contract
from tests.support.notes import Notes

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
def test_compression_is_recognised_whatever_the_name(tmp_path, compress, layout):
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
    ],
)
def test_words_of_glove_may_have_spaces(tmp_path, content, expected):
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
    assert [note.partition(": ")[2] for note in notes.notes] == [
        "2 words occur twice; the first vector of each is kept"
    ]


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        (b"", ":1: neither a header"),
        (
            b"Once upon a time\nthere was a corpus\n",
            ":1: neither a header `words dim` nor a word with its vector",
        ),
        (b"2 2\na 1 2\nb 3\n", ":3: 1 numbers after the word 'b', not 2; fix or delete the line"),
        (
            b"a 1 2\nb 3 4\nc d 5\n",
            ":3: 2 numbers after the word 'c', not 2|:3: 'd' in the vector of 'c' is not a number",
        ),
        (b"2 2\na 1 2\nb 3 4x\n", ":3: '4x' in the vector of 'b' is not a number"),
        (b"2 2\na 1 2\nb nan 4\n", ":3: 'nan' in the vector of 'b' is not finite"),
        (b"2 2\na 1 2\nb 1e99 4\n", ":3: '1e99' in the vector of 'b' is not finite"),
        (b"2 2\na 1 2\n 3 4\n", ":3: no word before the vector"),
        (b"3 2\na 1 2\nb 3 4\n", "declares 3 words, but 2 follow; the file is cut short"),
        (b"0 2\n", "holds no word"),
        (b"2 0\na\nb\n", ":1: the header says 0 dimensions"),
        (binary()[:-4], "ends within word 5 of 5; the file is cut short"),
        (binary() + b"more", "continues after the 5 words"),
        (
            b"1 2\na " + np.array([1, np.nan], np.float32).tobytes(),
            "the vector of 'a' is not finite",
        ),
        (
            b"999999999999 100000\na " + bytes(4),
            ":1: takes 400,000,000.0 GB, more memory than is available",
        ),
        (b"\x80\x05\x95", "gensim's own format; .*save_word2vec_format"),
        (
            b"\xba\x16\x4f\x2f\x0c",
            "ends within the head of a fastText model; write or fetch it again",
        ),
        (
            damaged(lzma.compress(text())),
            r"vectors: cannot be read \(Corrupt input data\); fetch or copy it again",
        ),
        (b"9" * 5000 + b" 2\na 1 2\n", ":2: 2 numbers after the word 'a', not 1"),
        (
            b"1 2\na 1 " + b"9" * 5000 + b"\n",
            f":2: '{'9' * 40}…' in the vector of 'a' is not finite",
        ),
        (
            b"1 2\n" + b"a" * 5000 + b" 1 x\n",
            f":2: 'x' in the vector of '{'a' * 40}…' is not a number",
        ),
    ],
)
def test_a_broken_file_is_an_error_with_place_and_remedy(tmp_path, content, complaint):
    with pytest.raises(EmbedxError, match=complaint):
        formats.read(write(tmp_path, content))


@pytest.mark.parametrize("more", [b"m", b"\nm"])
def test_what_follows_the_last_block_of_a_binary_file_is_noticed(tmp_path, monkeypatch, more):
    monkeypatch.setattr(contract, "BLOCK_BYTES", len(binary().partition(b"\n")[2]))
    assert len(formats.read(write(tmp_path, binary() + b"\n"))[0]) == 5
    with pytest.raises(EmbedxError, match="continues after the 5 words"):
        formats.read(write(tmp_path, binary() + more))


def test_the_line_is_counted_over_blocks_and_blank_lines(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 50)
    lines = ["100 1", *(f"w{i} {i}" for i in range(30)), "", "w30 3O"]
    with pytest.raises(EmbedxError, match=":33: '3O' in the vector of 'w30' is not a number"):
        formats.read(write(tmp_path, "\n".join(lines).encode()))


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(EmbedxError, match="nowhere: no such file or model folder"):
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
    ("content", "complaint"),
    [
        (b"a 1\n" + b"b" * 2000 + b" 2\nc 3\n", ": a line of more than 1,000 bytes"),
        (b"a 1\n" + b"b" * 2000, ": a line of more than 1,000 bytes"),
        (
            b"2 1\na \0\0\xc0\x3f" + b"b" * 4000,
            ": word 2 of 2 has no end; is this really word2vec's binary format",
        ),
        (b"1 999999999\na \0", ": ends within word 1 of 1|more memory than is available"),
        (
            b"100000000000 9\na \0",
            ":1: takes 3,600.0 GB, more memory than is available; is the first line right?",
        ),
    ],
)
def test_what_has_no_end_or_claims_too_much_is_an_error(tmp_path, monkeypatch, content, complaint):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 50)
    monkeypatch.setattr(contract, "MAX_LINE_BYTES", 1000)
    with pytest.raises(EmbedxError, match=complaint):
        formats.read(write(tmp_path, content))


def test_vectors_that_do_not_fit_into_memory_are_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr("embedx.labeled.files.available_memory", lambda: 10_000)
    monkeypatch.setattr(contract, "BLOCK_BYTES", 1000)
    with pytest.raises(
        EmbedxError, match=r"vectors.*: takes more than half of the available memory"
    ):
        formats.read(write(tmp_path, gzip.compress(b"a 1 2 3\n" * 9999)))
    monkeypatch.setattr(contract, "available_memory", lambda: 39)
    with pytest.raises(
        EmbedxError,
        match=r":1: takes 0\.0 kB, more memory than is available; is the first line right",
    ):
        formats.read(write(tmp_path, binary()))
    monkeypatch.setattr(contract, "available_memory", lambda: 40)
    assert formats.read(write(tmp_path, binary()))[0] == WORDS


def test_empty_rows_are_named_without_a_warning(tmp_path, monkeypatch):
    monkeypatch.setattr(contract, "BLOCK_BYTES", 6)
    with pytest.raises(EmbedxError, match=":2: 0 numbers after the word 'b', not 2"):
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
    with pytest.raises(EmbedxError, match=r"vectors\.bin: "):
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
def test_words_in_latin_1_are_counted_and_said(tmp_path, content):
    file = tmp_path / "vectors.txt"
    file.write_bytes(content)
    progress = Notes()
    assert formats.read(file, progress).words == ["caf\ufffd", "th\ufffd"]
    assert "3 of 3 words are not UTF-8" in progress.notes[0]
    assert "1 become equal to others" in progress.notes[0]


@pytest.mark.parametrize(
    "content",
    [b"a 1 2\nb 3 4\n", b"2 2\na 1 2\nb 3 4\n", binary_of([b"a", b"b"], b"")],
    ids=["glove", "word2vec", "word2vec-binary"],
)
def test_a_byte_order_mark_belongs_to_no_word(tmp_path, content):
    file = tmp_path / "vectors.txt"
    file.write_bytes(b"\xef\xbb\xbf" + content)
    assert formats.read(file).words == ["a", "b"]

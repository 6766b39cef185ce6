"""Texts and sentences become tokens: as by the reference, whatever their bytes are."""

import gzip
import tracemalloc
from unittest.mock import Mock

import numpy as np
import pytest
import reference_text

from embedx.errors import DataError
from embedx.text.encode import encode, encode_sources
from embedx.text.sentences import encode_sentences
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from tests.support.cached_corpora import TEXT, as_reference, leftovers, read
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data


def test_tokens_words_and_counts_are_those_of_the_reference(small_text, cache_folder):
    second = small_text.with_suffix(".gz")
    second.write_bytes(gzip.compress(b"on and on"))
    encoded = encode_sources(
        find_sources([str(small_text), str(second)]),
        TextSettings(lowercase=True),
        cache_dir=cache_folder,
    )
    assert as_reference(encoded) == reference_text.encoded(
        [reference_text.sentences(TEXT.encode(), lowercase=True), [["on", "and", "on"]]]
    )
    assert encoded.n_tokens == sum(encoded.counts) == 13
    assert (encoded.tokens.dtype, encoded.counts.dtype) == (np.int32, np.int64)
    assert not encoded.tokens.flags.writeable
    assert [source["tokens"] for source in encoded.report["sources"]] == [10, 3]


def test_progress_counts_bytes_as_stored(small_text, cache_folder):
    packed = small_text.with_suffix(".gz")
    packed.write_bytes(gzip.compress(TEXT.encode() * 1000))
    progress = Mock()
    read(packed, cache_folder, progress)
    size = packed.stat().st_size
    progress.start.assert_called_once_with("reading", size, "B")
    progress.update.assert_called_with(size, tokens=10_000)


def test_bad_utf8_is_reported_with_file_and_byte_even_from_the_cache(small_text, cache_folder):
    small_text.write_bytes(b"caf\xe9 au lait\xff")
    for _ in range(2):
        progress = Notes()
        encoded = read(small_text, cache_folder, progress)
        assert [*encoded.words] == ["caf\ufffd", "au", "lait\ufffd"]
        assert encoded.report["sources"][0]["bad_utf8"] == 2
        assert progress.notes[1].startswith(f"{small_text}: 2 places not UTF-8, ")
        assert " byte 3 " in progress.notes[1]
    assert [*read(small_text, cache_folder, on_bad_utf8="skip").words] == ["caf", "au", "lait"]


@pytest.mark.parametrize(
    ("pack", "threads", "max_bytes"), [(gzip.compress, 1, 16_000_000), (bytes, 2, 36_000_000)]
)
def test_a_line_of_40_mb_needs_a_fraction_of_that_memory(
    tmp_path, cache_folder, pack, threads, max_bytes
):
    (tmp_path / "line.txt").write_bytes(pack(b"some words on a single line " * 1_500_000))
    (tmp_path / "short.txt").write_bytes(pack(b"some words"))
    # loads the kernels
    encode_sources(
        find_sources([str(tmp_path / "short.txt")]),
        TextSettings(),
        cache_dir=cache_folder,
        threads=threads,
    )
    tracemalloc.start()
    encoded = encode_sources(
        find_sources([str(tmp_path / "line.txt")]),
        TextSettings(),
        cache_dir=cache_folder,
        threads=threads,
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert encoded.n_tokens == 9_000_000
    assert peak < max_bytes


@pytest.mark.parametrize(
    "sentences",
    [
        [["two words", "ж", ""], [], ["\ufffd", "ж"], ("two words",)],
        [["", ""]],
        [[f"w{i % 3}", f"w{i % 5}"] for i in range(40)],
    ],
)
def test_sentences_of_any_strings_are_encoded_as_by_the_reference(
    cache_folder, monkeypatch, sentences
):
    monkeypatch.setattr("embedx.text.sentences.FLUSH_TOKENS", 5)
    encoded = encode_sentences(iter(sentences), cache_dir=cache_folder)
    assert as_reference(encoded) == reference_text.encoded([[list(s) for s in sentences if s]])
    assert (encoded.n_tokens, encoded.key) == (sum(map(len, sentences)), "")
    encoded.close()
    assert leftovers(cache_folder) == []


def test_half_of_a_surrogate_pair_is_replaced_in_words(cache_folder):
    progress = Notes()
    encoded = encode_sentences(
        [["\ud800x", "\ud83d\ude00", "\udfffx"], ["😀"]], progress, cache_folder
    )
    assert [*encoded.words] == ["\ufffdx", "😀"]
    assert encoded.counts.tolist() == [2, 2]
    (note,) = progress.notes
    assert lines_with(note, "3 words", "U+FFFD")


@pytest.mark.parametrize(
    ("sentences", "problem"),
    [
        (["a b"], "number 1 is the string 'a b'"),
        ([["a", 7]], "7 is "),
        ([["a"], ["b", float("nan")]], "nan is "),
        ([["a"], float("nan")], "number 2 is nan,"),
        ([["a"], None], "number 2 is None,"),
        ([["a"], [["b"]]], "number 2 has "),
    ],
)
def test_sentences_that_are_none_are_errors(cache_folder, sentences, problem):
    with pytest.raises(DataError) as error:
        encode_sentences(sentences, cache_dir=cache_folder)
    assert error.value.file == "sentences"
    assert error.value.problem.startswith(problem)
    assert leftovers(cache_folder) == []


@pytest.mark.parametrize(
    ("content", "tokenizer", "quoted", "settings"),
    [
        (b"", "whitespace", "0 bytes", []),
        (b" \n\r\n\t", "whitespace", "no words", []),
        (b"\xef\xbb\xbf", "whitespace", "no words", []),
        (b"\0\0", "whitespace", "no words", []),
        (b"?!", "words", "no words", ["tokenizer"]),
    ],
)
def test_a_text_without_words_is_an_error(
    small_text, cache_folder, content, tokenizer, quoted, settings
):
    small_text.write_bytes(content)
    with refused_data("corpus.txt", *settings, quoting=quoted):
        encode([small_text], TextSettings(tokenizer=tokenizer), Notes(), cache_folder)
    assert leftovers(cache_folder) == []


def test_no_sentences_are_an_error(cache_folder):
    with refused_data("sentences"):
        encode_sentences([], cache_dir=cache_folder)


@pytest.mark.parametrize(
    "corpora",
    [["the cat sat", "how are you?"], "the cat sat", [["the", "cat"], "text.txt"]],
)
def test_sentences_as_strings_are_no_names_of_files(cache_folder, corpora):
    with pytest.raises(DataError) as error:
        encode(corpora, TextSettings(), Notes(), cache_folder)
    assert error.value.file == "corpora"

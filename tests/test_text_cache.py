"""From sources to tokens in memory: each is read once, kept, and never half-written."""

import errno
import gc
import gzip
import os
import subprocess
import sys
import threading
import tracemalloc
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
import reference_text

from embedx.errors import DataError, SettingError
from embedx.text import (
    cache,
    corpus_writer,
    decompression,
    encoded_corpus,
    read_ahead,
    sources,
    temporary_folders,
)
from embedx.text.cache import clear_caches, list_caches
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encode import encode, encode_sources
from embedx.text.sentences import encode_sentences
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from tests.support.cached_corpora import TEXT, as_reference, leftovers, read, small_corpus
from tests.support.files import files_below
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data


@pytest.fixture
def corpus(tmp_path):
    return small_corpus(tmp_path)


@pytest.fixture
def home(tmp_path):
    return tmp_path / "cache"


def test_tokens_words_and_counts_are_those_of_the_reference(corpus, home):
    second = corpus.with_suffix(".gz")
    second.write_bytes(gzip.compress(b"on and on"))
    encoded = encode_sources(
        find_sources([str(corpus), str(second)]), TextSettings(lowercase=True), cache_dir=home
    )
    assert as_reference(encoded) == reference_text.encoded(
        [reference_text.sentences(TEXT.encode(), lowercase=True), [["on", "and", "on"]]]
    )
    assert encoded.n_tokens == sum(encoded.counts) == 13
    assert (encoded.tokens.dtype, encoded.counts.dtype) == (np.int32, np.int64)
    assert not encoded.tokens.flags.writeable
    assert [source["tokens"] for source in encoded.report["sources"]] == [10, 3]


def test_each_source_is_opened_once_and_never_again(corpus, home, monkeypatch):
    opened = []
    real_open = decompression.open_source

    def noted_open(source):
        opened.append(source.name)
        return real_open(source)

    monkeypatch.setattr(decompression, "open_source", noted_open)
    monkeypatch.setattr(read_ahead, "open_source", noted_open)
    first = read(corpus, home)
    assert opened == [str(corpus)]
    progress = Notes()
    again = read(corpus, home, progress)
    assert opened == [str(corpus)]
    assert as_reference(again) == as_reference(first)
    (note,) = progress.notes
    assert note.startswith("10 tokens of 8 words (0.0 MB) ")
    assert str(first.folder) in note


def test_other_settings_or_a_changed_file_are_read_again(corpus, home):
    settings = [{}, {"lowercase": True}, {"tokenizer": "words"}, {"on_bad_utf8": "skip"}]
    settings += [
        {"column": "1", **more} for more in ({}, {"on_bad_record": "skip"}, {"tokenizer": "none"})
    ]
    keys = {
        cache.cache_key(find_sources([str(corpus)]), TextSettings(**setting))
        for setting in settings
    }
    assert read(corpus, home).key in keys
    corpus.write_text("Something else")
    changed = read(corpus, home)
    assert len(keys | {changed.key}) == 8
    assert [*changed.words] == ["Something", "else"]


def test_another_file_of_the_same_size_and_time_is_read_again(corpus, home):
    corpus.write_text("tea time")
    os.utime(corpus, ns=(1, 1))
    read(corpus, home)
    corpus.write_text("sea wave")
    os.utime(corpus, ns=(1, 1))
    assert [*read(corpus, home).words] == ["sea", "wave"]
    other = corpus.with_name("other")
    other.write_text("low tide")
    os.utime(other, ns=(1, 1))
    other.replace(corpus)
    assert [*read(corpus, home).words] == ["low", "tide"]


def test_a_file_that_changes_while_it_is_read_is_not_kept(corpus, home, monkeypatch):
    monkeypatch.setattr("embedx.text.encode.current_fingerprint", lambda source: {"size": 0})
    encoded = read(corpus, home)
    assert encoded.key == ""
    assert list_caches(home) == []
    encoded.close()
    assert leftovers(home) == []


def test_standard_input_is_deleted_when_closed(home, monkeypatch, corpus):
    with open(corpus) as monkeypatched:
        monkeypatch.setattr(sys, "stdin", monkeypatched)
        progress = Notes()
        encoded = encode_sources(find_sources(["-"]), TextSettings(), progress, cache_dir=home)
    assert encoded.n_tokens == 10
    assert progress.notes == [
        f"10 tokens of 8 words (0.0 MB) written to {encoded.folder} for this run only"
    ]
    assert list_caches(home) == []
    encoded.close()
    assert leftovers(home) == []


def test_a_temporary_corpus_that_nobody_closes_is_deleted_all_the_same(home):
    corpus = encode_sentences([["a"]], cache_dir=home)
    assert corpus.folder.is_dir()
    del corpus
    gc.collect()
    assert leftovers(home) == []


def test_progress_counts_bytes_as_stored(corpus, home):
    packed = corpus.with_suffix(".gz")
    packed.write_bytes(gzip.compress(TEXT.encode() * 1000))
    progress = Mock()
    read(packed, home, progress)
    size = packed.stat().st_size
    progress.start.assert_called_once_with("reading", size, "B")
    progress.update.assert_called_with(size, tokens=10_000)


def test_bad_utf8_is_reported_with_file_and_byte_even_from_the_cache(corpus, home):
    corpus.write_bytes(b"caf\xe9 au lait\xff")
    for _ in range(2):
        progress = Notes()
        encoded = read(corpus, home, progress)
        assert [*encoded.words] == ["caf\ufffd", "au", "lait\ufffd"]
        assert encoded.report["sources"][0]["bad_utf8"] == 2
        assert progress.notes[1].startswith(f"{corpus}: 2 places not UTF-8, ")
        assert " byte 3 " in progress.notes[1]
    assert [*read(corpus, home, on_bad_utf8="skip").words] == ["caf", "au", "lait"]


@pytest.mark.parametrize("data", [b"", b" \n\r\n\t", b"\xef\xbb\xbf", b"\0\0"])
def test_a_corpus_without_words_is_an_error(corpus, home, data):
    corpus.write_bytes(data)
    with refused_data("corpus.txt"):
        read(corpus, home)
    assert leftovers(home) == []


def test_a_full_disk_is_an_error_that_names_folder_and_option(corpus, home, monkeypatch):
    def write_tokens(self, tokens):
        with temporary_folders.errors_explained(home):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(CorpusWriter, "write_tokens", write_tokens)
    with refused_data(str(home), "cache_dir", quoting="No space left on device"):
        read(corpus, home)
    assert leftovers(home) == []


def test_a_cache_folder_that_is_a_file_is_an_error(corpus):
    with refused_data(str(corpus), "cache_dir", quoting="Not a directory"):
        read(corpus, corpus)


def test_two_runs_that_encode_the_same_text_share_the_first_result(corpus, home, monkeypatch):
    both_have_built = threading.Barrier(2, timeout=20)
    finish = CorpusWriter.finish
    published = set()

    def finish_together(*args):
        both_have_built.wait()
        corpus = finish(*args)
        published.add((corpus.folder / "tokens.bin").stat().st_ino)
        return corpus

    monkeypatch.setattr(CorpusWriter, "finish", finish_together)
    corpora = []
    threads = [
        threading.Thread(target=lambda: corpora.append(read(corpus, home))) for _ in range(2)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert corpora[0].folder == corpora[1].folder
    assert as_reference(corpora[0]) == as_reference(corpora[1])
    assert len(published) == 1
    assert leftovers(home) == [corpora[0].key]


def test_files_of_a_killed_run_are_deleted_but_not_those_of_a_running_one(corpus, home):
    code = (
        "import os, sys; from pathlib import Path; import numpy as np; from"
        " embedx.text.corpus_writer import CorpusWriter\nwith"
        " CorpusWriter(Path(sys.argv[1])) as building:\n   "
        " building.write_tokens(np.zeros(1000, np.int32)); os.kill(os.getpid(), 9)"
    )
    assert subprocess.run([sys.executable, "-c", code, str(home)], check=False).returncode == -9
    (killed,) = leftovers(home)
    with CorpusWriter(home) as living:
        assert not (home / killed).exists()
        read(corpus, home)
        assert living.folder.is_dir()


def test_other_files_in_the_cache_folder_are_not_touched(corpus, home):
    others = [
        # as long a name as ours
        "lock",
        "diary.txt",
        "building-plans/house.pdf",
        "building-pictures/about.json",
        "building-abcdefgh/tokens.bin",
        "website/about.json",
        f"{'0' * 24}/about.json",
        f"{'0' * 24}/index.html",
        f"{'f' * 24}",
    ]
    for name in others:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("the user's own")
    (home / "building-12345678").mkdir()
    (home / ("a" * 24)).symlink_to(home / "website")
    before = files_below(home)
    encoded = read(corpus, home)
    assert [cache["key"] for cache in list_caches(home)] == [encoded.key]
    assert clear_caches(home) > 0
    assert files_below(home) == before
    assert (home / "building-12345678").is_dir()
    assert (home / ("a" * 24)).is_symlink()


def test_a_corpus_is_not_cached_over_a_folder_with_other_files(corpus, home):
    key = cache.cache_key(find_sources([str(corpus)]), TextSettings())
    (home / key).mkdir(parents=True)
    (home / key / "about.json").write_text("{}")
    (home / key / "thesis.txt").write_text("years of work")
    before = files_below(home)
    progress = Notes()
    encoded = read(corpus, home, progress)
    assert (encoded.n_tokens, encoded.key) == (10, "")
    assert lines_with(progress.notes, f"{home / key}: ", "--cache-dir")
    encoded.close()
    assert files_below(home) == before


def test_a_corpus_cannot_be_cleared_before_it_is_opened_for_the_first_time(
    corpus, home, monkeypatch
):
    clearing = threading.Thread(target=lambda: clear_caches(home))

    def have_it_cleared_and_open(folder):
        clearing.start()
        clearing.join(0.5)
        return encoded_corpus.EncodedCorpus(folder)

    monkeypatch.setattr(corpus_writer, "EncodedCorpus", have_it_cleared_and_open)
    encoded = read(corpus, home)
    clearing.join()
    assert encoded.words[:2] == ["The", "cat"]
    assert encoded.tokens[0] == 0
    assert list_caches(home) == []


def test_a_folder_that_cannot_be_looked_into_is_an_error(home, monkeypatch):
    def refuse(self):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(Path, "is_dir", refuse)
    with refused_data(str(home), "cache_dir", quoting="Permission denied"):
        list_caches(home)
    with refused_data(str(home), "cache_dir", quoting="Permission denied"):
        clear_caches(home)


@pytest.mark.parametrize("is_damaged", [False, True])
def test_caches_are_listed_and_cleared(corpus, home, is_damaged):
    home.mkdir()
    assert list_caches(home) == []
    encoded = read(corpus, home)
    (cache,) = list_caches(home)
    assert (cache["key"], cache["sources"], cache["tokens"]) == (encoded.key, [str(corpus)], 10)
    if is_damaged:
        (encoded.folder / "about.json").write_text("[]")
        (cache,) = list_caches(home)
    assert clear_caches(home) == cache["bytes"] > 0
    assert clear_caches(home) == 0
    assert leftovers(home) == []
    assert encoded.tokens[0] == 0  # what is mapped stays readable


@pytest.mark.parametrize(
    ("pack", "threads", "most"), [(gzip.compress, 1, 16_000_000), (bytes, 2, 36_000_000)]
)
def test_a_line_of_40_mb_needs_a_fraction_of_that_memory(tmp_path, home, pack, threads, most):
    (tmp_path / "line.txt").write_bytes(pack(b"some words on a single line " * 1_500_000))
    (tmp_path / "short.txt").write_bytes(pack(b"some words"))
    # loads the kernels
    encode_sources(
        find_sources([str(tmp_path / "short.txt")]), TextSettings(), cache_dir=home, threads=threads
    )
    tracemalloc.start()
    encoded = encode_sources(
        find_sources([str(tmp_path / "line.txt")]), TextSettings(), cache_dir=home, threads=threads
    )
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert encoded.n_tokens == 9_000_000
    assert peak < most


@pytest.mark.parametrize(
    "sentences",
    [
        [["two words", "ж", ""], [], ["\ufffd", "ж"], ("two words",)],
        [["", ""]],
        [[f"w{i % 3}", f"w{i % 5}"] for i in range(40)],
    ],
)
def test_sentences_of_any_strings_are_encoded_as_by_the_reference(home, monkeypatch, sentences):
    monkeypatch.setattr("embedx.text.sentences.FLUSH_TOKENS", 5)
    encoded = encode_sentences(iter(sentences), cache_dir=home)
    assert as_reference(encoded) == reference_text.encoded([[list(s) for s in sentences if s]])
    assert (encoded.n_tokens, encoded.key) == (sum(map(len, sentences)), "")
    encoded.close()
    assert leftovers(home) == []


def test_half_of_a_surrogate_pair_is_replaced_in_words(home):
    progress = Notes()
    encoded = encode_sentences([["\ud800x", "\ud83d\ude00", "\udfffx"], ["😀"]], progress, home)
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
def test_sentences_that_are_none_are_errors(home, sentences, problem):
    with pytest.raises(DataError) as error:
        encode_sentences(sentences, cache_dir=home)
    assert error.value.file == "sentences"
    assert error.value.problem.startswith(problem)
    assert leftovers(home) == []


@pytest.mark.parametrize("command", [list_caches, clear_caches])
def test_a_folder_that_is_not_there_is_neither_listed_nor_cleared(command, tmp_path):
    with pytest.raises(SettingError) as error:
        command(tmp_path / "typo")
    assert (error.value.setting, error.value.value) == ("cache_dir", str(tmp_path / "typo"))


@pytest.mark.parametrize(
    ("content", "tokenizer", "quoted", "settings"),
    [
        ("", "whitespace", "0 bytes", []),
        (" \n", "whitespace", "no words", []),
        ("?!", "words", "no words", ["tokenizer"]),
    ],
)
def test_a_file_without_words_is_an_error(home, tmp_path, content, tokenizer, quoted, settings):
    file = tmp_path / "a.txt"
    file.write_text(content)
    with refused_data("a.txt", *settings, quoting=quoted):
        encode([file], TextSettings(tokenizer=tokenizer), Notes(), home)


def test_no_sentences_are_an_error(home):
    with refused_data("sentences"):
        encode_sentences([], cache_dir=home)


@pytest.mark.parametrize(
    "corpora",
    [["the cat sat", "how are you?"], "the cat sat", [["the", "cat"], "text.txt"]],
)
def test_sentences_as_strings_are_no_names_of_files(home, corpora):
    with pytest.raises(DataError) as error:
        encode(corpora, TextSettings(), Notes(), home)
    assert error.value.file == "corpora"


def test_urls_are_kept_under_their_name():
    (source,) = find_sources(["https://example.org/corpus.gz"])
    assert cache.cache_key([source], TextSettings())
    assert sources.total_size([source]) is None

"""Words that outgrow the memory for them: what is written is what would be with room for all, byte
for byte.
"""

import bz2
import errno
import gzip
import json
import os
import random

import numpy as np
import pytest
import reference_text

from embedx.errors import DataError
from embedx.runtime.progress import SILENT
from embedx.text import (
    counting,
    decompression,
    encoded_corpus,
    parallel_tokenizer,
    read_ahead,
    reading,
    spilled_words,
    tokenizer,
)
from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.text.spilled_words import Spill
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data

WORDS = [
    *"abcdefghijk",
    "é",
    "日本語",
    "\u3000",
    "\n",
    "\n\n",
    " ",
    "longer",
    "\ufffd",
    "x" * 300,
    "urahjeia",
    "xyzfrssr",
]
TINY = 1e-6  # gigabytes: a new table for each piece of the text


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(parallel_tokenizer, "CHUNK_BYTES", 50)
    monkeypatch.setattr(parallel_tokenizer, "MAX_CHUNK_BYTES", 200)
    monkeypatch.setattr(decompression, "BLOCK_BYTES", 33)
    monkeypatch.setattr(read_ahead, "BLOCK_BYTES", 33)
    monkeypatch.setattr(tokenizer, "INITIAL_LETTERS", 64)
    monkeypatch.setattr(tokenizer, "INITIAL_TYPES", 4)
    monkeypatch.setattr(counting, "MIN_ENTRIES_PER_RANGE", 3)


@pytest.fixture
def added(monkeypatch):
    """How many words each table had that went to disk."""
    spilled = []
    add = Spill.add

    def add_and_count(self, words, end):
        spilled.append(len(words))
        add(self, words, end)

    monkeypatch.setattr(Spill, "add", add_and_count)
    return spilled


def texts(seed):
    rng = random.Random(seed)
    numbered = [f"w{n}" for n in range(40)]
    drawn = [
        rng.choices(WORDS + numbered, k=k)
        for k in (rng.choice([3, 300]), 600, 0, rng.choice([3, 600]), 300)
    ]
    return [
        rng.choice([" ", ""]).join(words).encode() + rng.choice([b"", b"\n"])
        for words in [*drawn, ["\n a", "last"]]
    ]


def files(home, sources, threads, progress=SILENT, **settings):
    """The files of an encoded corpus by name."""
    with encode_sources(sources, TextSettings(**settings), progress, home, threads) as corpus:
        assert encoded_corpus.load(corpus.folder, progress) or not corpus.key
        contents = {file.name: file.read_bytes() for file in corpus.folder.iterdir()}
    about = json.loads(contents.pop("about.json"))
    del about["created"], about["checksum"]
    return contents | {"about": about}


@pytest.mark.parametrize(("seed", "memory"), [(0, TINY), (1, 4e-6), (2, 4e-6), (5, TINY)])
def test_files_are_those_of_a_run_with_room_for_all_words(
    tmp_path, small_pieces, monkeypatch, added, seed, memory
):
    pack = [bytes, gzip.compress, bz2.compress]
    written = texts(seed)
    for number, text in enumerate(written):
        (tmp_path / f"{number}.txt").write_bytes(
            pack[seed % 3](text + b" bad\xff " * (number == seed % 5))
        )
    sources = find_sources([str(tmp_path / "*.txt")])
    expected = files(tmp_path / "whole", sources, 1)
    assert added == []
    assert files(tmp_path / "parallel", sources, 2) == expected
    for threads in (1, 2, 3):
        assert files(tmp_path / f"{threads}", sources, threads, vocab_memory=memory) == expected
    assert len(added) > 6
    read = [
        reference_text.sentences(text + b" bad\xff " * (n == seed % 5))
        for n, text in enumerate(written)
    ]
    ids, words, counts = reference_text.encoded(read)
    assert np.frombuffer(expected["tokens.bin"], np.int32).tolist() == ids
    assert [source["bad_utf8"] for source in expected["about"]["report"]["sources"]] == [
        k == seed % 5 for k in range(6)
    ]
    with encode_sources(sources, TextSettings(), cache_dir=tmp_path / "1") as corpus:
        assert ([*corpus.words], corpus.counts.tolist()) == (words, counts)


def test_lists_of_words_are_spilled_to_the_same_words(tmp_path, small_pieces, added):
    (tmp_path / "a.jsonl").write_text(
        "".join(f'{{"t": ["a b", "{n % 97}", "c\\n"]}}\n' for n in range(300))
    )
    sources = find_sources([str(tmp_path / "a.jsonl")])
    expected = files(tmp_path / "whole", sources, 1, tokenizer="none", json_field="t")
    assert files(tmp_path / "parallel", sources, 3, tokenizer="none", json_field="t") == expected
    for threads in (1, 3):
        home = tmp_path / f"{threads}"
        assert (
            files(home, sources, threads, tokenizer="none", json_field="t", vocab_memory=TINY)
            == expected
        )
    assert len(added) > 6


def test_a_word_whose_parts_are_read_by_two_tables_is_one_word(tmp_path, small_pieces, added):
    (tmp_path / "corpus.txt").write_bytes(
        b"a " + b"y" * 500 + "é".encode() * 100 + b" b a " + b"y" * 500 + b"\n"
    )
    sources = find_sources([str(tmp_path / "corpus.txt")])
    for threads in (1, 2):
        assert files(tmp_path / f"{threads}", sources, threads, vocab_memory=TINY) == files(
            tmp_path / "whole", sources, 1
        )
    assert len(added) > 2


def test_more_words_than_numbers_is_an_error(tmp_path, small_pieces, monkeypatch):
    monkeypatch.setattr(spilled_words, "MAX_TYPES", 99)
    for n in (99, 100):
        (tmp_path / f"{n}.txt").write_text(" ".join(f"w{k % n}" for k in range(300)))
    assert files(tmp_path / "cache", find_sources([str(tmp_path / "99.txt")]), 1, vocab_memory=TINY)
    with refused(None, "tokenizer", kind=DataError, file="the text"):
        files(tmp_path / "cache", find_sources([str(tmp_path / "100.txt")]), 1, vocab_memory=TINY)


def test_no_table_takes_more_than_its_share(tmp_path, monkeypatch):
    """The table may exceed it by what one piece of the text adds."""
    words = [b"%06x" % n for n in np.random.default_rng(0).integers(0, 200_000, 400_000)]
    (tmp_path / "corpus.txt").write_bytes(b" ".join(words))
    monkeypatch.setattr(parallel_tokenizer, "CHUNK_BYTES", 1 << 14)
    most = {}
    take_words = tokenizer.Tokenizer.take_words

    def weighed(self):
        most[self] = max(most.get(self, 0), sum(array.nbytes for array in self.table))
        return take_words(self)

    monkeypatch.setattr(tokenizer.Tokenizer, "take_words", weighed)
    for threads in (1, 2):
        files(
            tmp_path / f"{threads}",
            find_sources([str(tmp_path / "corpus.txt")]),
            threads,
            vocab_memory=0.006,
        )
    assert all(1_000_000 < size < 7_000_000 for size in most.values())
    assert len(most) == 2


# ---- from a file


@pytest.fixture
def corpus(tmp_path):
    (tmp_path / "corpus.txt").write_bytes(b" ".join(b"%d" % (n * n % 1009) for n in range(3000)))
    return find_sources([str(tmp_path / "corpus.txt")])


def test_spilling_is_reported_once_and_the_cache_does_not_depend_on_memory(
    tmp_path, small_pieces, corpus
):
    progress = Notes()
    first = files(tmp_path / "cache", corpus, 1, progress, vocab_memory=TINY)
    assert len(progress.notes) == 2
    assert lines_with(progress.notes[0], "1.0 kB", "--set vocab-memory")
    progress = Notes()
    assert (
        files(tmp_path / "cache", corpus, 1, progress, vocab_memory=2)
        == files(tmp_path / "cache", corpus, 1)
        == first
    )
    assert progress.notes[0].endswith("nothing is read")
    assert TextSettings(vocab_memory=2).record() == TextSettings().record()


def test_by_default_words_may_take_a_part_of_the_free_memory(
    tmp_path, small_pieces, corpus, monkeypatch, added
):
    files(tmp_path / "much", corpus, 1)
    assert added == []
    monkeypatch.setattr(reading, "available_memory", lambda: 10_000)
    files(tmp_path / "little", corpus, 1)
    assert added


FULL = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize(
    ("place", "error"), [("hash", KeyboardInterrupt()), ("renumber", FULL), ("_append", FULL)]
)
def test_a_full_disk_and_ctrl_c_leave_nothing(
    tmp_path, small_pieces, corpus, monkeypatch, place, error
):
    def fail(*arguments):
        raise error

    monkeypatch.setattr(spilled_words, place, fail, raising=False)
    if isinstance(error, OSError):
        raised = refused_data("cache", "cache_dir", quoting="(No space left on device)")
    else:
        raised = pytest.raises(KeyboardInterrupt)
    with raised:
        files(tmp_path / "cache", corpus, 2, vocab_memory=TINY)
    assert list((tmp_path / "cache").iterdir()) == []

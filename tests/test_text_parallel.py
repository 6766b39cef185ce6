"""Reading on several threads and processes gives the same tokens, in the same order, as on one."""

import bz2
import gzip
import io
import os
import random
import sys
import threading
import time

import pytest

from embedx.text import decompression, parallel_tokenizer, read_ahead, wikipedia
from embedx.text.encode import encode_sources
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from embedx.text.wikipedia import paragraphs, plain_bytes
from tests.support.refusals import refused_data


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(parallel_tokenizer, "CHUNK_BYTES", 50)
    monkeypatch.setattr(parallel_tokenizer, "MAX_CHUNK_BYTES", 200)
    monkeypatch.setattr(decompression, "BLOCK_BYTES", 33)
    monkeypatch.setattr(read_ahead, "BLOCK_BYTES", 33)


def encode(folder, names, threads, on_bad="replace"):
    settings = TextSettings(on_bad_utf8=on_bad)
    return encode_sources(
        find_sources([str(folder / names)]), settings, cache_dir=folder / "cache", threads=threads
    )


def test_the_first_invalid_line_is_the_error_on_any_number_of_threads(tmp_path, small_chunks):
    (tmp_path / "0.txt").write_bytes(b"word " * 200 + b"\xff" + b"word " * 900)
    (tmp_path / "1.gz").write_bytes(gzip.compress(os.urandom(999))[:-9])
    for threads in (1, 3):
        with refused_data("0.txt", "on_bad_utf8", quoting="byte 1000"):
            encode(tmp_path, "*.*", threads, on_bad="error")
        with refused_data("1.gz"):
            encode(tmp_path, "*.*", threads, on_bad="replace")
    assert list((tmp_path / "cache").iterdir()) == []


def test_of_several_sources_a_bounded_part_is_read_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(decompression, "BLOCK_BYTES", 10)
    monkeypatch.setattr(read_ahead, "BLOCK_BYTES", 10)
    monkeypatch.setattr(read_ahead, "MAX_AHEAD", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_bytes(b"%d" % number * 100)
    with read_ahead.ReadAhead(find_sources([str(tmp_path)]), threads=2) as blocks:
        first = next(iter(blocks))
        while not all(blocks._queues[number].full() for number in (0, 1)):
            time.sleep(0.01)
        assert [queue.empty() for queue in blocks._queues] == [False, False, True, True]
    for thread in threading.enumerate():
        if thread.name == "embedx-reader":
            thread.join(timeout=300)
            assert not thread.is_alive()
    assert (first.source, first.data) == (0, b"0" * 10)


# ---- bzip2


def bzip2_streams():
    """Several streams, as in a multistream dump: short ones, an empty one, one of repeated bytes,
    zeros at the end.
    """
    rng = random.Random(0)
    streams = [rng.randbytes(rng.choice([10, 3000])).hex().encode() for _ in range(30)] + [
        b"",
        b"a" * 500_000,
        b"the end",
    ]
    return b"".join(map(bz2.compress, streams)) + b"\0\0", b"".join(streams)


LIMITS = [
    ("BZIP2_PART_BYTES", 1000),
    ("BZIP2_PART_BYTES", 1 << 20),
    ("MAX_STREAM_BYTES", 1),
    ("MAX_UNPACKED_BLOCKS", 1),
]


@pytest.mark.parametrize(("limit", "value"), LIMITS)
def test_streams_of_bzip2_are_unpacked_by_several_threads_in_bounded_memory(
    monkeypatch, limit, value
):
    monkeypatch.setattr(decompression, "BZIP2_PART_BYTES", 100)
    monkeypatch.setattr(decompression, limit, value)
    packed, content = bzip2_streams()
    assert b"".join(decompression._bzip2_blocks(io.BytesIO(packed), 2)) == content


@pytest.mark.parametrize("part_bytes", [1, 7])
def test_parts_of_bzip2_may_be_shorter_than_the_header_of_a_stream(monkeypatch, part_bytes):
    monkeypatch.setattr(decompression, "BZIP2_PART_BYTES", part_bytes)
    packed = bz2.compress(b"some") + bz2.compress(b" text")
    assert b"".join(decompression._bzip2_blocks(io.BytesIO(packed), 2)) == b"some text"


@pytest.mark.parametrize("place", [2, 6, 40, -20, -3])
def test_damage_of_bzip2_is_the_same_error_on_any_number_of_threads(tmp_path, place):
    packed = bytearray(
        bz2.compress(random.Random(0).randbytes(150).hex().encode() * 3000, 1)
        + bz2.compress(b"the end")
    )
    packed[place] ^= 0x55
    (tmp_path / "corpus.bz2").write_bytes(packed)
    for threads in (1, 2):
        with refused_data("corpus.bz2"):
            encode(tmp_path, "corpus.bz2", threads)


# ---- Wikipedia

PAGES = [
    (f"Page '''{n}''' of [[some|{n % 7}]] {{{{gone}}}}\n" * 5, frozenset({"file"}))
    for n in range(60)
]
DUMP = "<mediawiki>" + "".join(
    f"<page><title>{n}</title><ns>0</ns><text>{text}</text></page>"
    for n, (text, _) in enumerate(PAGES)
)
DUMP = DUMP.encode() + b"</mediawiki>"


@pytest.fixture
def processes(monkeypatch):
    """The commands of the processes that are started, for small batches of pages."""
    monkeypatch.setattr(wikipedia, "BATCH_CHARACTERS", 700)
    started = []
    start = wikipedia.subprocess.Popen
    monkeypatch.setattr(
        wikipedia.subprocess,
        "Popen",
        lambda command, **k: started.append(command) or start(command, **k),
    )
    return started


def test_articles_are_the_same_by_several_processes(processes):
    assert (
        b"".join(paragraphs([DUMP], processes=2))
        == b"".join(paragraphs([DUMP]))
        == plain_bytes(PAGES)
    )
    assert len(processes) in (1, 2)  # each makes text of many batches


def test_a_short_dump_needs_no_processes(processes, monkeypatch):
    monkeypatch.setattr(wikipedia, "BATCH_CHARACTERS", 1 << 21)
    assert b"".join(paragraphs([DUMP], processes=2)) == plain_bytes(PAGES)
    assert not processes


@pytest.mark.parametrize("interpreter", [None, "/bin/false", "/bin/nothing"])
def test_pages_of_a_failed_process_are_converted_in_this_process(
    processes, monkeypatch, interpreter
):
    monkeypatch.setattr(sys, "executable", interpreter)
    assert b"".join(paragraphs([DUMP], processes=2)) == plain_bytes(PAGES)
    assert processes

"""Reading on several threads and processes gives the same tokens, in the same order, as on one."""

import bz2
import gzip
import io
import itertools
import os
import random
import signal
import subprocess
import sys
import time

import pytest

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.text import cache, parallel_tokenizer, streams, wikipedia
from embedx.text.sources import resolve
from embedx.text.wikipedia import paragraphs, plain_bytes


@pytest.fixture
def small_chunks(monkeypatch):
    monkeypatch.setattr(parallel_tokenizer, "CHUNK_BYTES", 50)
    monkeypatch.setattr(parallel_tokenizer, "MAX_CHUNK_BYTES", 200)
    monkeypatch.setattr(streams, "BLOCK_BYTES", 33)


def encode(folder, names, threads, on_bad="replace"):
    settings = TextSettings(on_bad_utf8=on_bad)
    return cache.encode(resolve([str(folder / names)]), settings, cache_dir=folder / "cache", threads=threads)


def test_the_first_mistake_is_the_error_on_any_number_of_threads(tmp_path, small_chunks):
    (tmp_path / "0.txt").write_bytes(b"word " * 200 + b"\xff" + b"word " * 900)
    (tmp_path / "1.gz").write_bytes(gzip.compress(os.urandom(999))[:-9])
    mistakes = {"error": r"0\.txt: not UTF-8 at byte 1000 of the \(unpacked\) text", "replace": r"1\.gz: ends too early"}
    for threads, on_bad in itertools.product((1, 3), mistakes):
        with pytest.raises(EmbedxError, match=mistakes[on_bad]):
            encode(tmp_path, "*.*", threads, on_bad)
    assert list((tmp_path / "cache").iterdir()) == []


def test_of_several_sources_a_bounded_part_is_read_ahead(tmp_path, monkeypatch):
    monkeypatch.setattr(streams, "BLOCK_BYTES", 10)
    monkeypatch.setattr(streams, "MAX_AHEAD", 3)
    for number in range(4):
        (tmp_path / f"{number}.txt").write_bytes(b"%d" % number * 100)
    with streams.ReadAhead(resolve([str(tmp_path)]), threads=2) as blocks:
        first = next(iter(blocks))
        while not all(number in blocks._queues and blocks._queues[number].full() for number in (0, 1)):
            time.sleep(0.01)
        assert set(blocks._queues) == {0, 1}
    for thread in blocks._threads:
        thread.join(timeout=5)
        assert not thread.is_alive()
    assert (first.source, first.data) == (0, b"0" * 10)


# ---- bzip2


def bzip2_streams():
    """Several streams, as in a multistream dump: short ones, an empty one, one of repeated bytes, zeros at the end."""
    rng = random.Random(0)
    streams = [rng.randbytes(rng.choice([10, 3000])).hex().encode() for _ in range(30)] + [b"", b"a" * 500_000, b"the end"]
    return b"".join(map(bz2.compress, streams)) + b"\0\0", b"".join(streams)


@pytest.mark.parametrize("part_bytes", [1, 7, 1000, 1 << 20])
def test_streams_of_bzip2_are_unpacked_by_several_threads(monkeypatch, part_bytes):
    monkeypatch.setattr(streams, "BZIP2_PART_BYTES", part_bytes)
    packed, content = bzip2_streams()
    packed, content = (packed, content) if part_bytes > 7 else (bz2.compress(b"some") + bz2.compress(b" text"), b"some text")
    assert b"".join(streams._bzip2_blocks(io.BytesIO(packed), 2)) == content


@pytest.mark.parametrize("limit", ["MAX_STREAM_BYTES", "MAX_UNPACKED_BLOCKS"])
def test_a_long_stream_of_bzip2_takes_bounded_memory(monkeypatch, limit):
    monkeypatch.setattr(streams, "BZIP2_PART_BYTES", 100)
    monkeypatch.setattr(streams, limit, 1)
    packed, content = bzip2_streams()
    assert b"".join(streams._bzip2_blocks(io.BytesIO(packed), 2)) == content


@pytest.mark.parametrize("place", [2, 6, 40, -20, -3])
def test_damage_of_bzip2_is_the_same_error_on_any_number_of_threads(tmp_path, place):
    packed = bytearray(bz2.compress(random.Random(0).randbytes(150).hex().encode() * 3000, 1) + bz2.compress(b"the end"))
    packed[place] ^= 0x55
    (tmp_path / "corpus.bz2").write_bytes(packed)
    for threads in (1, 2):
        with pytest.raises(EmbedxError, match=r"corpus\.bz2: (cannot be read|ends too early|not UTF-8 text)"):
            encode(tmp_path, "corpus.bz2", threads)


# ---- Wikipedia

PAGES = [(f"Page '''{n}''' of [[some|{n % 7}]] {{{{gone}}}}\n" * 5, frozenset({"file"})) for n in range(60)]
DUMP = "<mediawiki>" + "".join(
    f"<page><title>{n}</title><ns>0</ns><text>{text}</text></page>" for n, (text, _) in enumerate(PAGES)
)
DUMP = DUMP.encode() + b"</mediawiki>"


@pytest.fixture
def small_batches(monkeypatch):
    monkeypatch.setattr(wikipedia, "BATCH_CHARACTERS", 700)


@pytest.fixture
def cleaners(monkeypatch):
    """The processes that were started."""
    started = []

    class Recorded(wikipedia.Cleaner):
        def __enter__(self):
            started.append(super().__enter__())
            return self

    monkeypatch.setattr(wikipedia, "Cleaner", Recorded)
    return started


def test_articles_are_the_same_by_several_processes_which_then_end(small_batches, cleaners):
    assert b"".join(paragraphs([DUMP], processes=2)) == b"".join(paragraphs([DUMP])) == plain_bytes(PAGES)
    assert len(cleaners) == 2
    assert all(cleaner._process.returncode is not None for cleaner in cleaners)


def test_processes_end_when_the_articles_are_no_longer_read(small_batches, cleaners):
    articles = paragraphs([DUMP], processes=2)
    assert len(list(itertools.islice(articles, wikipedia.FEW_BATCHES + 1))) > wikipedia.FEW_BATCHES
    articles.close()
    assert [cleaner._process.returncode for cleaner in cleaners] == [-signal.SIGKILL] * 2


def test_a_process_that_dies_loses_nothing(small_batches, cleaners):
    articles = paragraphs([DUMP], processes=2)
    found = list(itertools.islice(articles, wikipedia.FEW_BATCHES + 1))
    for cleaner in cleaners:
        cleaner._process.kill()
    assert b"".join([*found, *articles]) == plain_bytes(PAGES)


def test_a_short_dump_needs_no_processes(cleaners):
    assert b"".join(paragraphs([DUMP], processes=2)) == plain_bytes(PAGES)
    assert not cleaners


def test_without_an_interpreter_pages_are_made_text_here(small_batches, monkeypatch):
    monkeypatch.setattr(sys, "executable", None)
    assert b"".join(paragraphs([DUMP], processes=2)) == plain_bytes(PAGES)


def test_processes_end_with_the_one_that_started_them_and_leave_ctrl_c_to_it():
    code = (
        "import sys, time; from embedx.text.wikipedia import Cleaner; cleaner = Cleaner().__enter__();"
        "cleaner.plain_bytes([('a', frozenset())]); print(cleaner._process.pid, flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as parent:
        child = int(parent.stdout.readline())
        os.kill(child, signal.SIGINT)
        time.sleep(0.1)
        os.kill(child, 0)
        parent.kill()
    for _ in range(500):
        try:
            os.kill(child, 0)
        except ProcessLookupError:
            return
        with open(f"/proc/{child}/stat") as file:
            if file.read().rpartition(")")[2].split()[0] == "Z":
                return
        time.sleep(0.01)
    pytest.fail("the process goes on")

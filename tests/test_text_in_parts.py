"""Parts put together are what one reading of all sources writes, byte for byte."""

import bz2
import gzip
import json
import os
import random
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from embedx.errors import EmbedxError
from embedx.settings import TextSettings
from embedx.text import building, cache, counting, parts, tokenizer
from embedx.text.building import Building
from embedx.text.parts import Parts, divided, encoded, keep, kept
from embedx.text.sources import Source, resolve
from embedx.training.progress import Silent

WORDS = [*"abcdefghijk", "É", "日本語", "\u3000", "\n", "\n\n", " ", "longer", "\ufffd", "x" * 300, "don't", "12"]


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


def by_parts(at_least, threads=1, through_a_file=False):
    """Reads in parts of so many bytes."""

    def read(sources, text, progress, folder):
        together = Parts(sources, text, folder, progress)
        for share in divided(sources, at_least):
            items = encoded(share, text, Silent(), folder.home, threads)
            if through_a_file:
                keep(items, folder.folder / "part.bin")
                items = kept(folder.folder / "part.bin")
            together.add(next(items), items)
        (folder.folder / "part.bin").unlink(missing_ok=True)
        return together.finish()

    return read


def files(home, sources, read=None, progress=cache.SILENT, **options):
    """The files of an encoded corpus by name."""
    with cache.encode(sources, TextSettings(**options), progress, home, threads=1, elsewhere=read) as corpus:
        corpus.check()
        found = {file.name: file.read_bytes() for file in corpus.folder.iterdir()}
    about = json.loads(found.pop("about.json"))
    del about["created"], about["own_checksum"]
    return found | {"about": about}


def texts(seed):
    rng = random.Random(seed)
    drawn = [rng.choices(WORDS, k=rng.choice([0, 3, 300])) for _ in range(7)]
    made = [rng.choice([" ", ""]).join(words).encode() + rng.choice([b"", b"\n"]) for words in drawn]
    made[rng.randrange(7)] = b""
    return [*made, f"late{seed} a".encode()]


@pytest.mark.parametrize("options", [{}, {"lowercase": True}, {"tokenizer": "words"}, {"on_bad_utf8": "skip"}])
@pytest.mark.parametrize("seed", range(5))
def test_files_are_those_of_one_reading(tmp_path, monkeypatch, seed, options):
    monkeypatch.setattr(parts, "BLOCK_TOKENS", 7)
    pack = [bytes, gzip.compress, bz2.compress]
    for number, text in enumerate(texts(seed)):
        bad = b" bad\xff\xff b\xc3" * (number % 5 == seed)
        (tmp_path / f"{number}.txt").write_bytes(pack[(seed + number) % 3](text + bad))
    sources = resolve([str(tmp_path / "*.txt")])
    expected = files(tmp_path / "one", sources, **options)
    assert expected["about"]["report"]["bad_utf8"] > 0
    for at_least in (1, 200, 800):
        assert files(tmp_path / f"{at_least}", sources, by_parts(at_least), **options) == expected
    assert files(tmp_path / "file", sources, by_parts(200, 3, True), **options) == expected


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.text("ab é\n,", max_size=9), min_size=2, max_size=6), st.integers(1, 12), st.sampled_from([None, 3e-7, 1e-6])
)
def test_tiny_texts_in_any_parts(written, at_least, memory):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(tokenizer, "FIRST_LETTERS", 8)
        patch.setattr(tokenizer, "FIRST_TYPES", 2)
        patch.setattr(parts, "BLOCK_TOKENS", 2)
        patch.setattr(counting, "MIN_ENTRIES", 3)
        for number, text in enumerate([*written, "end a"]):
            Path(folder, f"{number}.txt").write_text(text)
        sources = resolve([folder])
        expected = files(Path(folder, "one"), sources)
        assert files(Path(folder, "parts"), sources, by_parts(at_least), vocab_memory=memory) == expected


def test_lists_are_the_same_too(tmp_path):
    for number in range(4):
        lines = "".join(f'{{"t": ["a b", "{n % (number + 5)}", "c\\n"]}}\n' for n in range(30))
        (tmp_path / f"{number}.jsonl").write_text(lines)
    sources = resolve([str(tmp_path / "*.jsonl")])
    options = {"tokenizer": "none", "json_field": "t"}
    assert files(tmp_path / "parts", sources, by_parts(1), **options) == files(tmp_path / "one", sources, **options)


def test_parts_are_as_large_as_they_should_be_in_order():
    sizes = [3, 4, 5, 50, 1, 2, None, 1, 9, 9, 12]
    sources = [Source(f"{n}", "any", {"size": size} if size else {"url": ""}) for n, size in enumerate(sizes)]
    found = divided(sources, 10)
    assert [[source.size for source in part] for part in found] == [[3, 4, 5], [50], [1, 2], [None], [1, 9], [9], [12]]
    assert [source for part in found for source in part] == sources
    assert divided([]) == []


def test_what_is_wrong_is_told_as_by_one_reading(tmp_path):
    (tmp_path / "0.txt").write_bytes(b"some words")
    (tmp_path / "1.txt").write_bytes(b"word \xff word")
    (tmp_path / "2.gz").write_bytes(gzip.compress(os.urandom(999))[:-9])
    for names, options in (("*", {"on_bad_utf8": "error"}), ("*", {}), ("[02]*", {})):
        told = []
        for read in (None, by_parts(1)):
            with pytest.raises(EmbedxError) as error:
                files(tmp_path / "cache", resolve([str(tmp_path / names)]), read, **options)
            told.append(str(error.value))
            assert list((tmp_path / "cache").iterdir()) == []
        assert told[0] == told[1]


def test_several_parts_without_words_are_an_error(tmp_path):
    for number in range(3):
        (tmp_path / f"{number}.txt").write_bytes(b" \n")
    with pytest.raises(EmbedxError, match=r"0\.txt and 2 more: no words in it"):
        files(tmp_path / "cache", resolve([str(tmp_path / "*.txt")]), by_parts(1))
    assert list((tmp_path / "cache").iterdir()) == []


def test_no_room_for_all_tokens_is_told_after_a_few_parts(tmp_path, monkeypatch):
    for number in range(4):
        (tmp_path / f"{number}.txt").write_text("a b c d " * 1000)
    monkeypatch.setattr(building, "SAMPLED_BYTES", 9000)
    monkeypatch.setattr(building, "free_disk", lambda folder: 20_000)
    with pytest.raises(EmbedxError, match=r"the token cache of this text will take 6\d\.\d kB"):
        files(tmp_path / "cache", resolve([str(tmp_path / "*.txt")]), by_parts(1))


def test_one_source_is_read_here(tmp_path):
    (tmp_path / "0.txt").write_text("a b")
    found = files(tmp_path / "cache", resolve([str(tmp_path / "0.txt")]), lambda *arguments: pytest.fail("it was handed over"))
    assert found["about"]["n_tokens"] == 2


def test_what_is_left_of_a_part_is_deleted(tmp_path):
    (tmp_path / "0.txt").write_text("a b")
    items = encoded(resolve([str(tmp_path / "0.txt")]), TextSettings(), Silent(), tmp_path / "cache", 1)
    next(items)
    assert len(list((tmp_path / "cache").iterdir())) == 1
    items.close()
    assert list((tmp_path / "cache").iterdir()) == []
    with Building(tmp_path / "cache") as empty:
        assert empty.n_entries() == 0

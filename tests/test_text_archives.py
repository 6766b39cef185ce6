"""Corpora read out of tar and zip archives."""

import gzip
import io
import tarfile
import tracemalloc
import zipfile

import pytest

from embedx.errors import DataError
from embedx.text.encode import encode_sources
from embedx.text.read_ahead import ReadAhead
from embedx.text.recipes import data_folder
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from tests.support.refusals import refused, refused_data

OBW = "1-billion-word-language-modeling-benchmark-r13output"
SHARDS = {
    f"{OBW}/training-monolingual.tokenized.shuffled/news.en-00001-of-00100": b"first shard\n",
    f"{OBW}/heldout-monolingual.tokenized.shuffled/news.en-00000-of-00100": b"held out\nand more",
    f"{OBW}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00000-of-00050": b"held out",
    f"{OBW}/heldout-monolingual.tokenized.shuffled/news.en.heldout-00001-of-00050": b"and more",
    f"{OBW}/training-monolingual.tokenized.shuffled/news.en-00002-of-00100": b"second shard",
}


pytestmark = pytest.mark.usefixtures("workdir")


@pytest.fixture
def benchmark(workdir):
    """The data folder, with the archive of One Billion Word."""
    data_folder().mkdir(parents=True)
    (data_folder() / f"{OBW}.tar.gz").write_bytes(tar_of(SHARDS))
    return data_folder()


def tar_of(files, mode="w:gz"):
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode=mode) as archive:
        for name, data in files.items():
            entry = tarfile.TarInfo(name)
            entry.size = len(data)
            archive.addfile(entry, io.BytesIO(data))
    return out.getvalue()


def zip_of(files):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in files.items():
            archive.writestr(name, data)
    return out.getvalue()


def text_of(name, **settings):
    with ReadAhead(find_sources([name]), TextSettings(**settings)) as blocks:
        return b"".join(block.data for block in blocks)


def test_one_billion_word_is_read_from_its_archive_without_what_is_held_out(benchmark):
    assert text_of("one-billion-word") == b"first shard\n\nsecond shard\n"
    assert text_of("one-billion-word:heldout") == b"held out\nand more\n"
    assert (
        len(find_sources(["one-billion-word", "one-billion-word:heldout", "one-billion-word"])) == 2
    )
    with refused_data("one-billion-word", quoting=("test", "heldout")):
        find_sources(["one-billion-word:test"])


def test_unpacked_shards_have_priority_over_the_archive(benchmark):
    shard = benchmark / next(iter(SHARDS))
    shard.parent.mkdir(parents=True)
    shard.write_text("unpacked")
    assert text_of("one-billion-word") == b"unpacked"


def test_text8_and_enwik9_are_read_from_their_zips(workdir):
    (workdir / "text8.zip").write_bytes(zip_of({"text8": b" anarchism originated"}))
    assert text_of("text8") == b" anarchism originated\n"
    page = (
        b"<mediawiki><page><title>A</title><ns>0</ns><revision><text>An article of some"
        b" words.</text></revision></page>"
    )
    (workdir / "enwik9.zip").write_bytes(zip_of({"enwik9": page + b"<page><tit"}))
    assert b"An article of some words." in text_of("enwik9")


@pytest.mark.parametrize("cut", [100, 512, 1536, 2048, -1])
@pytest.mark.parametrize("mode", ["w", "w:gz"])
def test_a_cut_tar_is_an_error(workdir, cut, mode):
    archive = tar_of({"a": b"a" * 700, "b": b"b" * 512}, mode)
    (workdir / "mine.tar").write_bytes(
        archive[: cut if mode == "w" else min(cut, len(archive) - 1)]
    )
    if (mode, cut) == ("w", -1):
        # a byte of the filling
        assert text_of("mine.tar") == b"a" * 700 + b"\n" + b"b" * 512 + b"\n"
    else:
        with pytest.raises(DataError) as raised:
            text_of("mine.tar")
        assert raised.value.file.partition(": ")[0] == "mine.tar"


def test_damage_that_only_the_checksum_of_a_tar_shows_is_an_error(workdir):
    archive = tar_of({"a": b"some words"})
    (workdir / "mine.tar.gz").write_bytes(archive[:-8] + bytes(4) + archive[-4:])
    with refused_data("mine.tar.gz", quoting="CRC check failed"):
        text_of("mine.tar.gz")


def test_a_damaged_zip_is_an_error(workdir):
    archive = zip_of({"a.txt": b"some words " * 100})
    for damaged, quoted in (
        (archive[:-30], "mine.zip"),
        (archive.replace(archive[40:44], b"\0\0\0\0", 1), "mine.zip: a.txt"),
    ):
        (workdir / "mine.zip").write_bytes(damaged)
        with refused_data(quoted):
            text_of("mine.zip")


def test_an_archive_without_the_member_is_an_error(workdir):
    (workdir / "text8.zip").write_bytes(zip_of({"text9": b"x"}))
    with refused(kind=DataError, file="text8", line=None):
        text_of("text8")


def test_bad_utf8_in_a_member_and_members_without_a_line_end(workdir):
    (workdir / "mine.zip").write_bytes(zip_of({"a": b"one two", "dir/b": b"three"}))
    with encode_sources(
        find_sources(["mine.zip"]), TextSettings(), cache_dir=workdir / "cache"
    ) as corpus:
        assert corpus.tokens.tolist() == [0, 1, -1, 2]


@pytest.mark.parametrize(
    "name", ["mine.tar", "mine.tgz", "mine.tar.bz2", "mine.tar.xz", "mine.zip"]
)
def test_an_archive_is_read_without_a_recipe(workdir, name):
    files = {
        "en/a.txt": b"one two",
        "en/b.txt": b"three\n",
        "en/.hidden": b"x",
        "__MACOSX/en/a.txt": b"y",
        "de/c.txt": b"vier",
    }
    mode = {
        "mine.tar": "w",
        "mine.tgz": "w:gz",
        "mine.tar.bz2": "w:bz2",
        "mine.tar.xz": "w:xz",
    }.get(name)
    (workdir / name).write_bytes(tar_of(files, mode) if mode else zip_of(files))
    assert text_of(name) == b"one two\nthree\n\nvier\n"
    assert text_of(f"{name}:de/*") == b"vier\n"
    assert text_of(str(workdir / name) + ":en/*.txt") == b"one two\nthree\n\n"
    (workdir / "sub").mkdir()
    (workdir / name).rename(workdir / "sub" / name)
    assert text_of("sub") == b"one two\nthree\n\nvier\n"
    with refused_data(f"sub/{name}", quoting="fr/*"):
        text_of(f"sub/{name}:fr/*")
    with refused(kind=DataError, file="none.zip:a", line=None):
        text_of("none.zip:a")


def test_the_format_of_a_member_follows_from_its_name(workdir):
    lines = b'{"text": "one two"}\n{"text": "three"}\n'
    (workdir / "mine.zip").write_bytes(
        zip_of({"a.jsonl": lines, "b.csv": b"text,id\nfour,1\n", "c.txt": b"five"})
    )
    assert text_of("mine.zip", json_field="text", column="text").split() == [
        b"one",
        b"two",
        b"three",
        b"four",
        b"five",
    ]
    (workdir / "ids.zip").write_bytes(
        zip_of({"a": b'{"ids": ["new york", 3]}\n', "b": b'{"ids": ["rome"]}\n'})
    )
    settings = TextSettings(tokenizer="none", json_field="ids")
    with encode_sources(find_sources(["ids.zip"]), settings, cache_dir=workdir / "cache") as corpus:
        assert [*corpus.words] == ["new york", "3", "rome"]


def test_members_of_an_archive_are_cached_separately(workdir):
    (workdir / "mine.zip").write_bytes(zip_of({"a": b"one", "b": b"two"}))
    for members, words in ((":a", ["one"]), (":b", ["two"]), ("", ["one", "two"])):
        with encode_sources(
            find_sources([f"mine.zip{members}"]), TextSettings(), cache_dir=workdir / "cache"
        ) as corpus:
            assert [*corpus.words] == words


def test_an_archive_from_a_server(workdir, tmp_path):
    (workdir / "mine.tar.gz").write_bytes(tar_of({"a.txt": b"one two"}))
    assert text_of((workdir / "mine.tar.gz").as_uri()) == b"one two\n"


def test_a_byte_order_mark_belongs_to_no_word_of_a_member(workdir):
    mark = b"\xef\xbb\xbf"
    (workdir / "two.zip").write_bytes(zip_of({"a.txt": mark + b"a b", "b.txt": mark + b"b c"}))
    assert text_of("two.zip").split() == [b"a", b"b", b"b", b"c"]


METHODS = {
    "stored": zipfile.ZIP_STORED,
    "deflate": zipfile.ZIP_DEFLATED,
    "bzip2": zipfile.ZIP_BZIP2,
    "lzma": zipfile.ZIP_LZMA,
}


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_members_packed_by_any_method_are_read_in_pieces(workdir, method):
    lines = {"a.txt": b"one word\n" * 2_000_000, "b.txt": b"", "c.txt": bytes(range(32, 127))}
    with zipfile.ZipFile("corpus.zip", "w", method) as archive:
        for name, text in lines.items():
            archive.writestr(name, text)
    tracemalloc.start()
    n_bytes = 0
    with ReadAhead(find_sources(["corpus.zip"])) as blocks:
        for block in blocks:
            n_bytes += len(block.data)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert n_bytes == sum(map(len, lines.values())) + len(lines)
    assert peak < 16e6  # with the dictionary of LZMA
    with zipfile.ZipFile("short.zip", "w", method) as archive:
        archive.writestr("c.txt", lines["c.txt"])
    assert text_of("short.zip") == lines["c.txt"] + b"\n"


@pytest.mark.parametrize("method", METHODS.values(), ids=list(METHODS))
def test_a_member_that_contradicts_its_entry_is_damaged(workdir, method):
    with zipfile.ZipFile("corpus.zip", "w", method) as archive:
        archive.writestr("c.txt", b"some words\n" * 9)
    packed = bytearray((workdir / "corpus.zip").read_bytes())
    entry = packed.index(b"PK\1\2")
    for offset in (16, 24):  # its CRC-32 and its size
        changed = packed.copy()
        changed[entry + offset] ^= 1
        (workdir / "changed.zip").write_bytes(changed)
        with refused_data("changed.zip: c.txt"):
            text_of("changed.zip")


def test_a_tar_archive_whose_headers_are_huge_is_refused_before_they_are_read(workdir):
    for kind in (tarfile.GNUTYPE_LONGNAME, tarfile.XHDTYPE, tarfile.XGLTYPE):
        entry = tarfile.TarInfo("long")
        entry.type = kind
        entry.size = 1 << 27
        (workdir / "corpus.tar.gz").write_bytes(
            gzip.compress(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1 << 16))
        )
        with refused_data("corpus.tar.gz", quoting="16,777,216 bytes"):
            text_of("corpus.tar.gz")


def test_a_sparse_member_is_refused(workdir):
    entry = tarfile.TarInfo("sparse.txt")
    entry.type = tarfile.GNUTYPE_SPARSE
    (workdir / "corpus.tar").write_bytes(entry.tobuf(tarfile.GNU_FORMAT) + bytes(1024))
    with refused_data("corpus.tar", quoting="sparse.txt"):
        text_of("corpus.tar")

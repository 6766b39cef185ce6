"""Exported vectors, read back by us and by gensim."""

import gzip
import os
import signal

import numpy as np
import pytest

from embedx.errors import DataError
from embedx.vectors import export, formats, model
from tests.support import forked
from tests.support.needs import needs_gensim
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data

OF_LINES = ("word2vec", "word2vec-binary", "glove")


def toy(words=None, dim=7):
    rng = np.random.default_rng(3)
    words = words or [f"w{i}" for i in range(40)] + ["naïve", "a\u00a0b"]
    # every kind of float32 there is
    vectors = rng.integers(0, 2**32, (len(words), dim), np.uint32).view(np.float32)
    return model.WordVectors(
        words, {"input": np.where(np.isfinite(vectors), vectors, np.float32(-0.0))}
    )


@pytest.mark.parametrize(
    ("format", "name"),
    [
        ("word2vec", "out"),
        ("word2vec", "out.gz"),
        ("word2vec-binary", "out"),
        ("word2vec-binary", "out.bin.bz2"),
        ("glove", "out"),
        ("glove", "out.xz"),
    ],
)
def test_exported_vectors_are_read_back_bit_for_bit(tmp_path, monkeypatch, format, name):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 100)
    vectors = toy()
    words, back, *_ = formats.read(export.export(vectors, format, tmp_path / name))
    assert words == vectors.words
    assert back.tobytes() == vectors.vectors.tobytes()
    assert [file.name for file in tmp_path.iterdir()] == [name]


def test_the_suffix_determines_the_compression(tmp_path):
    plain = export.export(toy(), "word2vec", tmp_path / "out").read_bytes()
    packed = export.export(toy(), "word2vec", tmp_path / "out.gz").read_bytes()
    assert gzip.decompress(packed) == plain


@needs_gensim
# gensim leaves a file open
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.filterwarnings("ignore::ResourceWarning")
@pytest.mark.parametrize("format", OF_LINES)
def test_gensim_reads_them_too(tmp_path, format):
    from gensim.models import KeyedVectors

    vectors = toy()
    out = export.export(vectors, format, tmp_path / "out")
    back = KeyedVectors.load_word2vec_format(
        str(out), binary=format == "word2vec-binary", no_header=format == "glove"
    )
    assert back.index_to_key == vectors.words
    assert back.vectors.tobytes() == vectors.vectors.tobytes()


def test_white_space_in_words_is_replaced_unless_two_words_would_become_one(tmp_path):
    notes = Notes()
    out = export.export(
        toy(["new york", "a\tb", "c"]), "word2vec", tmp_path / "out", progress=notes
    )
    assert formats.read(out)[0] == ["new_york", "a_b", "c"]
    (note,) = notes.notes
    assert "2 words" in note
    assert "`_`" in note
    with refused_data("model", quoting="'new_york'"):
        export.export(toy(["new york", "new_york"]), "word2vec", tmp_path / "other")
    with refused_data("model"):
        export.export(toy(["", "a"]), "word2vec", tmp_path / "other")


def test_an_existing_file_is_kept_unless_overwrite_is_given(tmp_path):
    out = tmp_path / "out"
    out.write_text("years of work")
    with refused(None, "overwrite", kind=DataError, file=out, line=None):
        export.export(toy(), "word2vec", out)
    assert out.read_text() == "years of work"
    export.export(toy(), "word2vec", out, overwrite=True)
    assert formats.read(out)[0] == toy().words
    with refused(kind=DataError, file=tmp_path, line=None):
        export.export(toy(), "word2vec", tmp_path, overwrite=True)


def test_a_failed_export_leaves_no_file(tmp_path, monkeypatch):
    with refused(kind=DataError, file=tmp_path / "nowhere" / "out", line=None) as raised:
        export.export(toy(), "word2vec", tmp_path / "nowhere" / "out")
    assert "No such file or directory" in raised.value.problem
    with refused("format", value="word3vec") as raised:
        export.export(toy(), "word3vec", tmp_path / "out")
    assert "word2vec?" in str(raised.value)
    assert list(tmp_path.iterdir()) == []

    def full(*_):
        yield b"40 7\n"
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("embedx.vectors.formats.word2vec.text_lines", full)
    with refused(kind=DataError, file=tmp_path / "out", line=None) as raised:
        export.export(toy(), "word2vec", tmp_path / "out")
    assert "No space left on device" in raised.value.problem
    assert list(tmp_path.iterdir()) == []


KILLED = """
import os, signal, sys
from pathlib import Path
from embedx.vectors import export, model
Path.replace = lambda *paths: os.kill(os.getpid(), signal.SIGKILL)
export.export(model.load(sys.argv[1]), "word2vec", Path(sys.argv[2]))
"""


def test_a_killed_export_leaves_no_file_that_seems_complete(tmp_path):
    (tmp_path / "in.vec").write_text("1 2\na 1 2\n")
    out = tmp_path / "out.vec"
    options = {"cwd": tmp_path, "env": forked.environment(tmp_path), "check": False}
    ended = forked.run(tmp_path / "in.vec", out, code=KILLED, **options)
    assert ended.returncode == -signal.SIGKILL
    assert not out.exists()
    export.export(model.load(tmp_path / "in.vec"), "word2vec", out)
    assert model.load(out).words == ["a"]


@pytest.mark.skipif(os.name != "posix", reason="there are no named pipes")
def test_a_pipe_or_a_device_is_not_replaced_by_a_file_nor_a_link_to_a_file(tmp_path):
    loaded = model.WordVectors(["a"], {"input": np.ones((1, 2), np.float32)})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "to-pipe").symlink_to(tmp_path / "pipe")
    for name in "pipe", "to-pipe":
        with refused_data(name):
            export.export(loaded, "word2vec", tmp_path / name, overwrite=True)
    assert (tmp_path / "pipe").is_fifo()
    (tmp_path / "real.vec").write_text("1 1\nb 1\n")
    (tmp_path / "link.vec").symlink_to(tmp_path / "real.vec")
    export.export(loaded, "word2vec", tmp_path / "link.vec", overwrite=True)
    assert (tmp_path / "link.vec").is_symlink()
    assert model.load(tmp_path / "real.vec").words == ["a"]


def test_a_name_that_is_too_long_is_reported_in_one_line(tmp_path):
    loaded = model.WordVectors(["a"], {"input": np.ones((1, 2), np.float32)})
    with refused_data(f"{'v' * 246}.vec", quoting="File name too long"):
        export.export(loaded, "word2vec", tmp_path / ("v" * 246 + ".vec"))
    assert not list(tmp_path.iterdir())

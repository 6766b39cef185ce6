"""Vector files of every format: written, read back, refused, replaced."""

import gzip
import itertools
import json
import tracemalloc

import numpy as np
import pytest

from embedx.vectors import export, formats, model
from tests.support.needs import needs_gensim
from tests.support.refusals import refused, refused_data
from tests.support.vector_files import WORDS, assert_close, marked, suffix, toy

READ = [name for name in formats.FORMATS if name != "static-embedding"]
VECTORS = itertools.cycle(model.VECTORS)
WRITTEN_FORMS = [
    marked(name, dtype, next(VECTORS)) for name in READ for dtype in formats.FORMATS[name].dtypes
]


@pytest.mark.parametrize(("format", "dtype", "vectors"), WRITTEN_FORMS)
def test_what_is_written_is_read_back(tmp_path, monkeypatch, format, dtype, vectors):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 25)  # two rows at a time
    toy_vectors = toy()
    out = export.export(
        toy_vectors, format, tmp_path / f"out{suffix(format)}", dtype=dtype, vectors=vectors, top=7
    )
    loaded = model.load(out, trust_pickle=True)
    is_lines = formats.FORMATS[format].is_text
    assert loaded.words == [
        word.translate({32: "_", 9: "_", 10: "_"}) if is_lines else word for word in WORDS[:7]
    ]
    tables = {
        "input": toy_vectors.vectors,
        "output": toy_vectors.output_vectors,
        "sum": toy_vectors.vectors + toy_vectors.output_vectors,
    }
    assert_close(loaded.vectors, tables[vectors][:7], dtype)
    if loaded.counts is not None:
        np.testing.assert_array_equal(loaded.counts, toy_vectors.counts[:7])
    assert (loaded.counts is None) == (is_lines and format != "fasttext")


def test_the_name_of_a_file_determines_its_format(tmp_path):
    for name, expected in {
        "a.vec": "word2vec",
        "a.txt.gz": "word2vec",
        "a": "word2vec",
        "a.bin": "word2vec-binary",
        "a.bin.xz": "word2vec-binary",
        "a.kv": "gensim",
        "a.npz": "npz",
        "a.safetensors": "safetensors",
        "a.parquet": "parquet",
        "a.embedx": "embedx",
    }.items():
        assert formats.of_name(tmp_path / name) == expected
    for name, unknown in {"a.xyz": ".xyz", "a.txt2.gz": ".txt2", "a.BIN": ".BIN"}.items():
        with refused_data(name, "format", quoting=(unknown, ".bin word2vec-binary")):
            export.export(toy(), None, tmp_path / name)
        assert not (tmp_path / name).exists()
    export.export(toy(), "glove", tmp_path / "a.xyz")


def test_formats_that_do_not_support_a_model_or_dtype_are_refused(tmp_path):
    for format, setting, value, remedy in (
        ("word2vec-binary", "dtype", "float16", "word2vec, npz"),
        ("static-embedding", "dtype", "int8", "npz, safetensors, parquet"),
        ("npz", "vectors", "sum", ""),
        ("npz", "top", 0, "1"),
        ("npz", "dtype", "int4", "int8? choose one of float32, float16, int8"),
    ):
        with refused(setting, value=value, quoting=remedy):
            export.export(toy(output=False), format, tmp_path / "out", **{setting: value})
    tree = toy()
    tree.arrays["output"] = tree.arrays["output"][1:]
    with refused("vectors", value="output", quoting=("8", "ns")):
        export.export(tree, "npz", tmp_path / "out", vectors="output")
    with refused_data("out.npz.gz", "format"):
        export.export(tree, None, tmp_path / "out.npz.gz")
    with refused_data("model", quoting="0 dimensions"):
        export.export(toy(dim=0), "npz", tmp_path / "out")
    large = model.WordVectors(["a", "b"], {"input": np.array([[1, 2], [70000, 0]], np.float32)})
    with refused("dtype", value="float16", quoting=("'b'", "65,504", "float32")):
        export.export(large, "npz", tmp_path / "out", dtype="float16")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "format",
    [marked(name) for name in ("word2vec", "fasttext", "npz", "parquet", "gensim", "embedx")],
)
def test_writing_takes_little_memory_or_one_copy_more_where_a_library_takes_whole_arrays(
    tmp_path, monkeypatch, format
):
    copies = {"npz": 2, "gensim": 1, "parquet": 1}.get(format, 0)
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 5_000)
    vectors = toy([f"w{k}" for k in range(400)], dim=1000)
    export.export(toy(), format, tmp_path / f"first{suffix(format)}")  # what is imported for it
    tracemalloc.start()
    try:
        export.export(vectors, format, tmp_path / f"out{suffix(format)}", vectors="output")
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < (copies + 1 / 4) * vectors.vectors.nbytes


@pytest.mark.parametrize("format", ["static-embedding", "embedx"])
def test_a_folder_is_replaced_only_if_all_in_it_was_written_here(tmp_path, format):
    out = tmp_path / "folder"
    vectors = toy()
    export.export(vectors, format, out)
    with refused_data("folder", "overwrite"):
        export.export(vectors, format, out)
    export.export(toy(WORDS[:3]), format, out, overwrite=True)
    if format != "embedx":
        words = json.loads((out / "tokenizer.json").read_text())["model"]["vocab"]
    else:
        words = model.load(out).words
    assert list(words)[:3] == WORDS[:3]
    other = tmp_path / "photos"
    other.mkdir()
    (other / "cat.jpg").write_bytes(b"meow")
    with refused_data("photos", "format"):
        export.export(vectors, format, other, overwrite=True)
    with refused_data("folder"):
        export.export(vectors, "npz", out, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["folder", "photos"]
    assert (other / "cat.jpg").exists()


@needs_gensim
def test_the_files_of_gensim_are_replaced_together(tmp_path):
    export.export(toy(), None, tmp_path / "a.kv")
    export.export(toy(WORDS[:3]), None, tmp_path / "a.kv", overwrite=True)
    assert model.load(tmp_path / "a.kv", trust_pickle=True).words == WORDS[:3]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kv", "a.kv.vectors.npy"]


def test_a_format_that_is_read_at_many_places_has_to_be_a_plain_file(tmp_path):
    out = export.export(toy(), None, tmp_path / "a.npz")
    (tmp_path / "a.npz.gz").write_bytes(gzip.compress(out.read_bytes()))
    with refused_data("a.npz.gz"):
        model.load(tmp_path / "a.npz.gz")


def test_every_format_describes_itself():
    assert [
        name
        for name, file_format in formats.FORMATS.items()
        if not (file_format.meaning and file_format.programs and file_format.dtypes)
    ] == []

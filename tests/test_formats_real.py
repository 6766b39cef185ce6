"""Vector files written here and opened by the programs whose formats they are, and the other way
round.
"""

import itertools
import json
import sys
import tracemalloc

import numpy as np
import pytest

from embedx.vectors import export, formats, model
from tests.support.needs import needs_gensim, needs_sentence_transformers
from tests.support.refusals import refused, refused_data

TOLERANCE = {"float32": 0.0, "float16": 1e-3, "int8": 1 / 254}  # of the largest number of a row
WORDS = ["the", "naïve", "new york", "tab\there", "line\nend", "back\\slash", "日本", "</s>", "a_b"]


def toy(words=WORDS, dim=12, output=True):
    rng = np.random.default_rng(4)
    # rows of the trainer are padded
    padded = rng.normal(size=(2, len(words), dim + 3)).astype(np.float32)
    if output:
        arrays = {"input": padded[0, :, :dim], "output": padded[1, :, :dim]}
    else:
        arrays = {"input": padded[0, :, :dim]}
    settings = {"tokenizer": "words", "lowercase": True, "dim": dim, "window": 5}
    facts = {
        "objective": "ns",
        "sources": ["corpus.txt"],
        "final_loss": 1.25,
        "heldout": {"log_likelihood": -8.5, "pairs": 9},
    }
    return model.WordVectors(
        words, arrays, counts=np.arange(len(words), 0, -1) * 10, settings=settings, facts=facts
    )


def suffix(format):
    return (*formats.FORMATS[format].suffixes, "")[0]


def assert_close(vectors, expected, dtype):
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert vectors.shape == expected.shape
    assert (np.abs(np.asarray(vectors, np.float32) - expected) <= TOLERANCE[dtype] * largest).all()


def marked(*values):
    """A case, the first of whose values is a format, where that can be written."""
    return pytest.param(*values, marks=[needs_gensim] if values[0] == "gensim" else [])


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


# ---- numpy, safetensors, pyarrow


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_numpy_loads_an_npz_without_pickle(tmp_path, dtype):
    toy_vectors = toy()
    with np.load(
        export.export(toy_vectors, "npz", tmp_path / "a.npz", dtype=dtype), allow_pickle=False
    ) as data:
        assert data["words"].tolist() == WORDS
        assert data["counts"].tolist() == toy_vectors.counts.tolist()
        assert data["vectors"].dtype == dtype
        vectors = data["vectors"] * data["scale"][:, None] if dtype == "int8" else data["vectors"]
        assert_close(vectors, toy_vectors.vectors, dtype)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_an_npz_of_numpy_is_read(tmp_path, save):
    vectors = toy()
    save(
        tmp_path / "a.npz",
        words=np.array(WORDS),
        vectors=vectors.vectors.astype(np.float64),
        other=np.arange(3),
    )
    loaded = model.load(tmp_path / "a.npz")
    assert loaded.words == WORDS
    assert loaded.counts is None
    np.testing.assert_array_equal(loaded.vectors, vectors.vectors)


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_safetensors_loads_its_files(tmp_path, dtype):
    from safetensors import safe_open
    from safetensors.numpy import load_file

    toy_vectors = toy()
    out = export.export(toy_vectors, "safetensors", tmp_path / "a.safetensors", dtype=dtype)
    tensors = load_file(out)
    lines = tensors["words"].tobytes().decode().split("\n")[:-1]
    assert lines[:3] == WORDS[:3]
    assert lines[3:6] == ["tab\\there", "line\\nend", "back\\\\slash"]
    assert tensors["vectors"].dtype == dtype
    assert tensors["counts"].tolist() == toy_vectors.counts.tolist()
    vectors = (
        tensors["vectors"] * tensors["scale"][:, None] if dtype == "int8" else tensors["vectors"]
    )
    assert_close(vectors, toy_vectors.vectors, dtype)
    with safe_open(out, "numpy") as opened:
        about = opened.metadata()
    assert json.loads(about["settings"])["window"] == 5


def test_a_file_of_the_library_safetensors_is_read(tmp_path):
    from safetensors.numpy import save_file

    vectors = toy()
    words = np.frombuffer(b"".join(f"{word}\n".encode() for word in "abc"), np.uint8)
    save_file(
        {"vectors": np.ascontiguousarray(vectors.vectors[:3]), "words": words},
        tmp_path / "a.safetensors",
    )
    loaded = model.load(tmp_path / "a.safetensors")
    assert loaded.words == ["a", "b", "c"]
    np.testing.assert_array_equal(loaded.vectors, vectors.vectors[:3])


@pytest.mark.parametrize("dtype", ["float32", "float16", "int8"])
def test_pyarrow_reads_parquet(tmp_path, dtype):
    import pyarrow.parquet as parquet

    toy_vectors = toy()
    table = parquet.read_table(
        export.export(toy_vectors, "parquet", tmp_path / "a.parquet", dtype=dtype)
    )
    assert table.column("word").to_pylist() == WORDS
    assert table.column("count").to_pylist() == toy_vectors.counts.tolist()
    vectors = np.array(table.column("vector").to_pylist(), np.float32)
    assert (
        str(table.schema.field("vector").type)
        == {
            "float32": "fixed_size_list<element: float>[12]",
            "float16": "fixed_size_list<element: halffloat>[12]",
            "int8": "fixed_size_list<element: int8>[12]",
        }[dtype]
    )
    if dtype == "int8":
        vectors *= np.array(table.column("scale").to_pylist())[:, None]
    assert_close(vectors, toy_vectors.vectors, dtype)


def test_parquet_of_other_programs_has_lists_of_any_kind(tmp_path):
    import pyarrow
    import pyarrow.parquet as parquet

    columns = {"id": [1, 2], "vector": [[1.0, 2.0], [3.0, 4.0]], "word": ["a", "b"]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    loaded = model.load(tmp_path / "a.parquet")
    assert loaded.words == ["a", "b"]
    np.testing.assert_array_equal(loaded.vectors, [[1, 2], [3, 4]])
    for columns, quoted in (
        ({"word": ["a", "b"], "vector": [[1.0], [1.0, 2.0]]}, "lengths"),
        ({"word": ["a", None], "vector": [[1.0], [2.0]]}, "words"),
        ({"word": ["a", "b"], "vector": [[1.0], [None]]}, "'b'"),
        ({"word": ["a"], "vector": [["x"]]}, "object (1, 1)"),
        ({"word": [1], "vector": [[1.0]]}, "words"),
        ({"word": ["a"], "v": [[1.0]]}, 'Field "vector"'),
        ({"word": ["a"], "vector": [[float("nan")]]}, "'a'"),
    ):
        parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
        with refused_data("a.parquet", quoting=quoted):
            model.load(tmp_path / "a.parquet")


def test_parquet_that_claims_too_much_takes_no_memory(tmp_path, monkeypatch):
    out = export.export(toy(), None, tmp_path / "a.parquet")
    monkeypatch.setattr("embedx.vectors.formats.contract.available_memory", lambda: 4 * 9 * 12 - 1)
    with refused_data("a.parquet", quoting="0.4 kB"):
        model.load(out)


def test_words_that_parquet_stores_once_are_counted_as_often_as_they_stand_there(
    tmp_path, monkeypatch
):
    pyarrow = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    table = pyarrow.table({"word": ["w" * 1000] * 50, "vector": [[1.0]] * 50})
    parquet.write_table(table, tmp_path / "a.parquet")
    monkeypatch.setattr("embedx.vectors.formats.contract.available_memory", lambda: 20_000)
    with refused_data("a.parquet", quoting="50.6 kB"):
        model.load(tmp_path / "a.parquet")


def test_parquet_without_the_extra_names_it(tmp_path, monkeypatch):
    out = export.export(toy(), "parquet", tmp_path / "a.parquet")
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with refused_data("a.parquet", quoting='pip install "embedx[parquet]"'):
        model.load(out)
    with refused_data("b.parquet", quoting='pip install "embedx[parquet]"'):
        export.export(toy(), "parquet", tmp_path / "b.parquet")
    assert [path.name for path in tmp_path.iterdir()] == ["a.parquet"]


# ---- gensim


@needs_gensim
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
@pytest.mark.parametrize("dtype", ["float32", "float16"])
@pytest.mark.parametrize("mmap", [None, "r"])
def test_gensim_loads_its_own_format(tmp_path, dtype, mmap):
    from gensim.models import KeyedVectors

    vectors = toy()
    out = export.export(vectors, None, tmp_path / "a.kv", dtype=dtype)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a.kv", "a.kv.vectors.npy"]
    keyed = KeyedVectors.load(str(out), mmap=mmap)
    assert keyed.index_to_key == WORDS
    assert keyed.vectors.dtype == dtype
    assert_close(keyed.vectors, vectors.vectors, dtype)
    assert keyed.get_vecattr("naïve", "count") == vectors.counts[1]
    ours = vectors.most_similar("the", top_k=3)
    theirs = keyed.most_similar("the", topn=3)
    assert [word for word, _ in ours] == [word for word, _ in theirs]
    keyed.add_vectors(["more"], np.ones((1, 12)))  # it is whole
    assert len(keyed) == len(WORDS) + 1


@needs_gensim
@pytest.mark.filterwarnings(
    "ignore::pytest.PytestUnraisableExceptionWarning", "ignore::ResourceWarning"
)
def test_a_file_of_gensim_is_read_by_who_trusts_it(tmp_path):
    from gensim.models import KeyedVectors, Word2Vec

    vectors = toy()
    keyed = KeyedVectors(12)
    keyed.add_vectors(WORDS, vectors.vectors)
    keyed.save(str(tmp_path / "a.model"))
    with refused_data("a.model", "trust_pickle", quoting="`embedx export`"):
        model.load(tmp_path / "a.model")
    (tmp_path / "other").write_bytes(b"\x80\x04N.")
    with refused_data("other", quoting="gensim"):
        model.load(tmp_path / "other", trust_pickle=True)
    keyed.expandos["count"] = vectors.counts
    trained = Word2Vec(vector_size=12)
    trained.wv = keyed
    trained.save(str(tmp_path / "b.model"))
    for name, counts in (("a.model", None), ("b.model", vectors.counts)):
        loaded = model.load(tmp_path / name, trust_pickle=True)
        assert loaded.words == WORDS
        np.testing.assert_array_equal(loaded.vectors, vectors.vectors)
        np.testing.assert_array_equal(loaded.counts, counts)


# ---- sentences


# three words of the model, one of them twice, by the tokenizer `words`
SENTENCE = "The naïve, THE </s> unheard of"


def folder_of_sentences(tmp_path, dtype="float32"):
    vectors = toy()
    return vectors, export.export(vectors, "static-embedding", tmp_path / "sentences", dtype=dtype)


@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_model2vec_embeds_sentences(tmp_path, dtype):
    from model2vec import StaticModel

    vectors, folder = folder_of_sentences(tmp_path, dtype)
    loaded = StaticModel.from_pretrained(folder, force_download=False)
    assert loaded.max_length is None
    [embedding] = loaded.encode([SENTENCE])
    expected = vectors[["the", "naïve", "the"]].mean(axis=0)
    np.testing.assert_allclose(embedding, expected, atol=2e-3 if dtype == "float16" else 1e-6)
    np.testing.assert_array_equal(loaded.encode(["quite unheard of"]), np.zeros((1, 12)))


@needs_sentence_transformers
@pytest.mark.filterwarnings("ignore")  # torch and transformers warn of what they do themselves
@pytest.mark.parametrize("dtype", ["float32", "float16"])
def test_sentence_transformers_embeds_sentences(tmp_path, dtype):
    from sentence_transformers import SentenceTransformer

    vectors, folder = folder_of_sentences(tmp_path, dtype)
    loaded = SentenceTransformer(str(folder), device="cpu")
    [embedding] = loaded.encode([SENTENCE])
    expected = vectors[["the", "naïve", "the"]].sum(axis=0)
    # three words are not known
    np.testing.assert_allclose(embedding * 6, expected, atol=2e-2 if dtype == "float16" else 1e-5)


# ---- overwriting


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


# ---- what cannot be read


def test_a_format_that_is_read_at_many_places_has_to_be_a_plain_file(tmp_path):
    import gzip

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

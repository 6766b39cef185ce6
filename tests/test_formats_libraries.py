"""Vector files that are written here and opened by the libraries of their formats, and the other
way round.
"""

import json
import sys

import numpy as np
import pytest

from embedx.vectors import export, model
from tests.support.needs import needs_gensim, needs_sentence_transformers
from tests.support.refusals import refused_data
from tests.support.vector_files import WORDS, assert_close, toy

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

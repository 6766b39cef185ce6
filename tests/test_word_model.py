"""A model of word vectors as its users meet it: saved, loaded, queried."""

import numpy as np
import pytest

from embedx.vectors import gensim_names, model
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.names import shown_name
from tests.support.refusals import refused, refused_data
from tests.support.small_models import save, toy


def test_a_saved_model_is_loaded_unchanged(tmp_path):
    fields = toy()
    folder = save(tmp_path / "deep" / "a.ns.embedx", **fields)
    loaded = model.load(folder)
    assert loaded.words == fields["words"]
    np.testing.assert_array_equal(loaded.counts, fields["counts"])
    for name, array in fields["arrays"].items():
        np.testing.assert_array_equal(loaded.arrays[name], array)
        mapped = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        assert mapped.flags.c_contiguous
        assert mapped.dtype == np.float32
    assert isinstance(loaded.vectors.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        loaded.vectors[0, 0] = 1
    assert loaded.settings == fields["settings"]
    assert loaded.facts["final_loss"] == 0.5
    assert loaded.facts["objective"] == "ns"
    np.testing.assert_array_equal(loaded.output_vectors, fields["arrays"]["output"])
    assert sorted(p.name for p in folder.parent.iterdir()) == ["a.ns.embedx"]


def test_large_arrays_are_written_by_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 20)
    fields = toy(n=53)
    loaded = model.load(save(tmp_path / "m", **fields))
    np.testing.assert_array_equal(loaded.vectors, fields["arrays"]["input"])
    np.testing.assert_allclose(
        loaded.norms, np.linalg.norm(fields["arrays"]["input"], axis=1), rtol=1e-6
    )


def test_any_word_is_saved_and_loaded(tmp_path):
    words = [
        "a\tb",
        "c\nd",
        "e\rf",
        "back\\slash",
        "\\t",
        "\\\\n",
        "naïve",
        "\u00a0",
        "\u2028",
        "\x85",
        " ",
        "",
        "🙂",
        "\\",
    ]
    fields = {**toy(n=len(words)), "words": words}
    assert model.load(save(tmp_path / "m", **fields)).words == words


def test_counts_may_be_unknown_and_biases_alone_are_a_model(tmp_path):
    assert model.load(save(tmp_path / "m", **{**toy(), "counts": None})).counts is None
    assert model.load(save(tmp_path / "n", **toy(n=3, dim=0))).vectors.shape == (3, 0)


def test_a_query_with_an_unknown_word_suggests_similar_ones(tmp_path):
    fields = {**toy(n=4), "words": ["Paris", "colour", "walk", "zebra"]}
    vectors = model.load(save(tmp_path / "m", **fields))
    with refused(kind=UnknownWordError, quoting=("paris", "4 words", "Paris?")):
        vectors["paris"]
    with refused(kind=UnknownWordError, quoting="walk?"):
        vectors["WALK"]
    with refused(kind=UnknownWordError, quoting="colour?"):
        vectors.index("color")
    with refused(kind=UnknownWordError, quoting="Paris?"):
        vectors.index("pariss")
    with refused(kind=UnknownWordError, quoting="qqq") as unlike:
        vectors.similarity("walk", "qqq")
    assert "?" not in str(unlike.value)
    assert "paris" not in vectors
    assert "Paris" in vectors
    assert len(vectors) == 4


def test_a_query_that_the_tokenizer_splits_names_the_parts(tmp_path):
    settings = {"tokenizer": "words", "lowercase": True}
    words = ["l", "homme", "e\u0301t\u00e9"]
    fields = {**toy(n=3), "words": words, "settings": settings}
    vectors = model.load(save(tmp_path / "m", **fields))
    with refused(kind=UnknownWordError, quoting=("L'Homme", "splits", "l, homme")):
        vectors["L'Homme"]
    with refused(kind=UnknownWordError, quoting="check its spelling"):
        vectors["e\u0301te"]


def test_neighbours_of_few_words_and_of_zero_vectors():
    vectors = model.WordVectors(
        ["a", "b", "zero"], {"input": np.array([[3, 0], [1, 1], [0, 0]], np.float32)}
    )
    assert vectors.most_similar("a", top_k=10) == [("b", pytest.approx(0.5**0.5)), ("zero", 0.0)]
    with refused_data("positive"):
        vectors.most_similar("zero", top_k=1)
    assert vectors.similarity("a", "zero") == 0.0
    assert vectors.most_similar(np.ones(2, np.float32), top_k=0) == []


def test_words_of_a_model_of_lower_case_text_are_found_in_any_case():
    vectors = np.eye(3, dtype=np.float32)
    lower = model.WordVectors(
        ["king", "queen", "US"], {"input": vectors}, settings={"lowercase": True}
    )
    assert "Queen" in lower
    assert lower["KING"].tolist() == lower["king"].tolist()
    assert lower.index("US") == 2
    assert lower.similarity("King", "king") == 1
    cased = model.WordVectors(["king"], {"input": vectors[:1]})
    assert "King" not in cased


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("save_word2vec_format", "export"),
        ("wv", "the model itself"),
        ("similar_by_key", "similar_by_word"),
        ("nonsense", None),
    ],
)
def test_names_of_gensim_without_an_equal_say_what_there_is(name, instead):
    words = model.WordVectors(["king"], {"input": np.ones((1, 2), np.float32)})
    assert not hasattr(words, name)
    with pytest.raises(AttributeError) as raised:
        getattr(words, name)
    assert raised.value.name == name
    assert ("gensim" in str(raised.value)) == (instead is not None)
    assert instead is None or instead in str(raised.value)


def test_what_gensim_gives_instead_exists():
    words = model.WordVectors(["king"], {"input": np.ones((1, 2), np.float32)})
    for instead in gensim_names.OF_VECTORS.values():
        name = instead.partition("(")[0]
        assert hasattr(words, name) or not name.isidentifier()


class BrokenVectors(model.WordVectors):
    @property
    def longest(self):
        return self.wrds


def test_an_error_within_a_property_names_what_is_missing():
    vectors = BrokenVectors(["a", "b"], {"input": np.eye(2, dtype=np.float32)})
    with pytest.raises(AttributeError) as raised:
        _ = vectors.longest
    assert raised.value.name == "wrds"


def test_items_are_shown_with_blanks_between_their_words():
    arrays = {"input": np.eye(2, dtype=np.float32)}
    items = ["Tasse_Größe_L", "B7"]
    sessions = model.WordVectors(items, arrays, settings={"format": "sessions"})
    names = [shown_name(sessions, item, {"B7": "Becher"}) for item in items]
    assert names == ["Tasse Größe L", "B7 (Becher)"]
    assert shown_name(model.WordVectors(items, arrays), items[0]) == items[0]

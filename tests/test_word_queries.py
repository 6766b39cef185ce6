"""Word vectors asked from Python: as by gensim's KeyedVectors, with its numbers."""

import numpy as np
import pytest

import embedx
from embedx.errors import DataError
from embedx.vectors import model, queries as queries_module
from embedx.vectors.lookup import UnknownWordError
from tests.support.commands import run_command
from tests.support.needs import needs_gensim
from tests.support.refusals import refused

WORDS = [f"w{k}" for k in range(300)]


@pytest.fixture(scope="module")
def word_vectors():
    return model.WordVectors(
        WORDS, {"input": np.random.default_rng(7).normal(size=(300, 20)).astype(np.float32)}
    )


@pytest.fixture(scope="module")
def gensim_vectors(word_vectors):
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(20)
    keyed.add_vectors(WORDS, word_vectors.vectors)
    return keyed


def assert_same(results, expected):
    assert [word for word, _ in results] == [word for word, _ in expected]
    np.testing.assert_allclose(
        [cosine for _, cosine in results], [cosine for _, cosine in expected], atol=1e-6
    )


@needs_gensim
def test_numbers_are_those_of_gensim(word_vectors, gensim_vectors):
    assert_same(
        word_vectors.similar_by_word("w1", topn=4), gensim_vectors.similar_by_word("w1", topn=4)
    )
    assert_same(
        word_vectors.similar_by_vector(word_vectors["w1"], topn=4),
        gensim_vectors.similar_by_vector(word_vectors["w1"], topn=4),
    )
    assert word_vectors.distance("w1", "w2") == pytest.approx(
        gensim_vectors.distance("w1", "w2"), abs=1e-6
    )
    np.testing.assert_allclose(
        word_vectors.get_vector("w5", norm=True),
        gensim_vectors.get_vector("w5", norm=True),
        rtol=1e-5,
    )
    assert word_vectors.vector_size == gensim_vectors.vector_size
    assert (word_vectors.index_to_key, word_vectors.key_to_index) == (
        gensim_vectors.index_to_key,
        gensim_vectors.key_to_index,
    )
    assert ("w3" in word_vectors, "x" in word_vectors) == (
        "w3" in gensim_vectors,
        "x" in gensim_vectors,
    )
    np.testing.assert_array_equal(word_vectors[["w3", "w9"]], gensim_vectors[["w3", "w9"]])
    assert word_vectors.analogy("w7", "w3", "w100", 7) == word_vectors.most_similar(
        ["w3", "w100"], ["w7"], 7
    )
    of_frequent = word_vectors.analogy("w7", "w3", "w100", 7, restrict_vocab=50)
    assert of_frequent == word_vectors.most_similar(["w3", "w100"], ["w7"], 7, restrict_vocab=50)
    assert all(word in word_vectors.words[:50] for word, _ in of_frequent)
    assert_same(
        word_vectors.most_similar([word_vectors["w1"], "w2"], top_k=5),
        gensim_vectors.most_similar([word_vectors["w1"], "w2"], topn=5),
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        words = rng.choice(WORDS, size=4, replace=False).tolist()
        other_words = rng.choice(WORDS, size=3, replace=False).tolist()
        assert word_vectors.n_similarity(words, other_words) == pytest.approx(
            float(gensim_vectors.n_similarity(words, other_words)), abs=1e-6
        )
        assert word_vectors.doesnt_match(words) == gensim_vectors.doesnt_match(words)
        assert word_vectors.similarity(*words[:2]) == pytest.approx(
            float(gensim_vectors.similarity(*words[:2])), abs=1e-6
        )
        assert_same(
            word_vectors.most_similar(words, other_words, top_k=5),
            gensim_vectors.most_similar(words, other_words, topn=5),
        )


@needs_gensim
@pytest.mark.parametrize("cosines", [1, 700, 1 << 22])
def test_many_queries_are_answered_as_one_by_one(
    word_vectors, gensim_vectors, monkeypatch, cosines
):
    # One or two queries at a time, or all.
    monkeypatch.setattr(queries_module, "MAX_COSINES", cosines)
    queries = ["w3", word_vectors["w4"], "w299", np.ones(20), "w3"]
    answers = word_vectors.most_similar_batch(queries, top_k=6)
    assert len(answers) == len(queries)
    for query, answer in zip(queries, answers, strict=True):
        assert_same(answer, word_vectors.most_similar(query, top_k=6))
    assert_same(answers[0], gensim_vectors.most_similar("w3", topn=6))
    for row, answer in enumerate(
        word_vectors.most_similar_batch(word_vectors.vectors[:9], top_k=1)
    ):
        assert_same(answer, [(WORDS[row], 1.0)])


def test_more_neighbours_than_words_and_none(word_vectors):
    two_words = model.WordVectors(["a", "b"], {"input": np.eye(2, dtype=np.float32)})
    assert two_words.most_similar_batch(["a", "b"], top_k=10) == [[("b", 0.0)], [("a", 0.0)]]
    assert two_words.most_similar_batch(["a"], top_k=0) == [[]]
    assert two_words.most_similar_batch([]) == []
    with refused("top_k", value=-1):
        two_words.most_similar_batch(["a"], top_k=-1)
    with refused("topn", value=-1):
        two_words.most_similar("a", topn=-1)
    with refused(kind=UnknownWordError, quoting=("c", "2 words")):
        two_words.most_similar_batch(["a", "c"])


@needs_gensim
def test_unknown_words_row_numbers_and_weights_are_taken_as_by_gensim(word_vectors, gensim_vectors):
    assert word_vectors.doesnt_match(["w1", "w2", "new", "w3"]) == gensim_vectors.doesnt_match(
        ["w1", "w2", "new", "w3"]
    )
    assert word_vectors.doesnt_match([1, 2, 3]) == gensim_vectors.doesnt_match([1, 2, 3])
    for words, other_words in ((["w1", "new"], ["w2"]), ([1, "w3"], ["w2", "w2"])):
        assert word_vectors.n_similarity(words, other_words) == pytest.approx(
            float(gensim_vectors.n_similarity(words, other_words)), abs=1e-6
        )
    for key in (0, np.int64(3), [0, "w4"], "w5"):
        np.testing.assert_array_equal(word_vectors[key], gensim_vectors[key])
    for key in (-1, 300, "new"):
        for vectors in (word_vectors, gensim_vectors):
            assert key not in vectors
            with pytest.raises(KeyError):
                vectors[key]
    assert 299 in word_vectors
    assert word_vectors.similarity(3, "w4") == pytest.approx(
        float(gensim_vectors.similarity(3, "w4")), abs=1e-6
    )
    for positive, negative in (
        ([("w1", 1.0)], None),
        ([("w1", 2.0), "w2", (word_vectors["w9"], 0.5)], [("w3", -0.25), 4]),
        (7, None),
        (None, ["w1"]),
        ("w1", "w2"),
        ([8, word_vectors["w1"]], "w2"),
    ):
        assert_same(
            word_vectors.most_similar(positive, negative, 5),
            gensim_vectors.most_similar(positive, negative, 5),
        )
    options = {"topn": 4, "restrict_vocab": 20}
    assert_same(
        word_vectors.most_similar("w1", **options), gensim_vectors.most_similar("w1", **options)
    )
    assert_same(
        word_vectors.similar_by_word("w90", **options),
        gensim_vectors.similar_by_word("w90", **options),
    )
    assert_same(
        word_vectors.similar_by_vector(word_vectors["w3"], **options),
        gensim_vectors.similar_by_vector(word_vectors["w3"], **options),
    )


@needs_gensim
def test_ranks_and_closer_words_are_those_of_gensim(word_vectors, gensim_vectors):
    for word, other in (("w1", "w2"), ("w299", "w0"), (4, "w7"), ("w3", "w3")):
        assert word_vectors.rank(word, other) == gensim_vectors.rank(word, other)
        assert word_vectors.closer_than(word, other) == gensim_vectors.closer_than(word, other)
    nearest, _ = word_vectors.most_similar("w1", top_k=1)[0]
    assert word_vectors.rank("w1", nearest) == 1
    for ask in (word_vectors.rank, word_vectors.closer_than):
        with refused(kind=UnknownWordError, quoting="new"):
            ask("w1", "new")


@needs_gensim
def test_counts_are_asked_for_as_in_gensim(gensim_vectors):
    counts = np.arange(300, 0, -1)
    counted = model.WordVectors(WORDS, {"input": gensim_vectors.vectors}, counts=counts)
    for word, count in zip(WORDS, counts.tolist(), strict=True):
        gensim_vectors.set_vecattr(word, "count", count)
    for key in ("w0", "w299", 7):
        assert counted.get_vecattr(key, "count") == gensim_vectors.get_vecattr(key, "count")
    with refused(kind=UnknownWordError, quoting="new"):
        counted.get_vecattr("new", "count")
    with refused("attr", value="length"):
        counted.get_vecattr("w0", "length")


def test_words_without_counts_have_no_attribute(word_vectors):
    with refused(kind=DataError, quoting="no counts"):
        word_vectors.get_vecattr("w0", "count")
    with refused(kind=DataError, quoting="no counts"):
        word_vectors.n_frequent(5)


def test_neighbours_among_the_words_of_a_least_count():
    counts = np.array([90, 20, 20, 5])
    vectors = np.array([[1, 0], [0, 1], [1, 1], [1, 0.1]], np.float32)
    counted = model.WordVectors(["a", "b", "c", "d"], {"input": vectors}, counts=counts)
    n_words_of_least_count = {1: 4, 5: 4, 6: 3, 20: 3, 21: 1, 90: 1, 91: 0}
    for least_count, n_words in n_words_of_least_count.items():
        assert counted.n_frequent(least_count) == n_words
    frequent = counted.most_similar("a", restrict_vocab=counted.n_frequent(20))
    assert [word for word, _ in frequent] == ["c", "b"]
    assert counted.most_similar("a", restrict_vocab=counted.n_frequent(91)) == []
    with refused("restrict_vocab", value=-1):
        counted.most_similar("a", restrict_vocab=-1)


def test_rare_neighbours_of_a_frequent_word_are_noted_and_left_out(tmp_path):
    vectors = np.array([[1, 0], [0, 1], [1, 1], [1, 0.1]], np.float32)
    counts = np.array([900, 200, 20, 5])
    embedx.WordVectors(
        ["had", "the", "been", "leveled"],
        {"input": vectors},
        counts=counts,
        facts={"objective": "ns", "words": 4},
    ).save(tmp_path / "model")
    noted = run_command(tmp_path, "nn", "model", "had")
    assert noted.stdout.splitlines()[0].startswith("had\tleveled\t")
    assert noted.stderr.startswith("leveled: fewer than 20 occurrences")
    assert "--min-count 20" in noted.stderr
    frequent = run_command(tmp_path, "nn", "model", "had", "--min-count", 20)
    assert [line.split()[1] for line in frequent.stdout.splitlines()] == ["been", "the"]
    assert frequent.stderr == ""
    assert run_command(tmp_path, "nn", "model", "leveled").stderr == ""
    none = run_command(tmp_path, "nn", "model", "had", "--min-count", 901, check=False)
    assert none.returncode == 2
    assert "--min-count 901" in none.stderr


def test_a_model_says_what_it_is():
    vectors = np.ones((2, 3), np.float32)
    facts = {"objective": "ns"}
    trained = model.WordVectors(["a", "b"], {"input": vectors}, facts=facts)
    assert repr(trained) == "WordVectors(2 words, dim 3, ns)"


@pytest.mark.parametrize(
    "ask",
    [
        lambda vectors: vectors.most_similar([]),
        lambda vectors: vectors.most_similar(),
        lambda vectors: vectors.most_similar(positive=[], negative=[]),
        lambda vectors: vectors.most_similar(np.zeros(3)),
        lambda vectors: vectors.most_similar(np.full(20, np.nan)),
        lambda vectors: vectors.most_similar(["w1"], ["w1"]),
        lambda vectors: vectors.most_similar(np.zeros(20)),
        lambda vectors: vectors.most_similar([("w1", float("nan"))]),
        lambda vectors: vectors.most_similar_batch("w1"),
        lambda vectors: vectors.most_similar_batch([np.full(20, np.nan)]),
        lambda vectors: vectors.doesnt_match([]),
        lambda vectors: vectors.doesnt_match(["new", "newer"]),
        lambda vectors: vectors.doesnt_match("w1"),
        lambda vectors: vectors.n_similarity(["w1"], []),
        lambda vectors: vectors.n_similarity(["new"], ["w1"]),
        lambda vectors: vectors[[]],
        lambda vectors: vectors.mean_vectors(["w1 w2"]),
        lambda vectors: vectors.mean_vectors([["w1", 7]]),
        lambda vectors: vectors.mean_vectors([["w1", float("nan")]]),
        lambda vectors: vectors.mean_vectors([float("nan")]),
        lambda vectors: vectors.mean_vectors([[["w1", "w2"]]]),
    ],
)
def test_queries_with_nothing_in_them_are_errors(word_vectors, ask):
    with pytest.raises(DataError):
        ask(word_vectors)


@pytest.mark.parametrize(
    "ask",
    [
        lambda vectors: vectors[1.0],
        lambda vectors: vectors[None],
        lambda vectors: vectors[b"w1"],
        lambda vectors: vectors[["w1", ["w2"]]],
        lambda vectors: vectors.similarity("w1", None),
        lambda vectors: vectors.most_similar(2.5),
        lambda vectors: vectors.most_similar([("w1", "w2")]),
        lambda vectors: vectors.most_similar([["w1", "w2"]]),
        lambda vectors: vectors.most_similar(np.array(["w1"] * 20)),
        lambda vectors: vectors.most_similar_batch([None]),
        lambda vectors: vectors.doesnt_match(5),
    ],
)
def test_queries_that_are_neither_words_nor_rows_are_refused(word_vectors, ask):
    with pytest.raises(DataError):
        ask(word_vectors)


def test_rows_in_a_list_have_weights_as_words_have(word_vectors):
    assert word_vectors.most_similar([(1, 2.0), (2, -1)]) == word_vectors.most_similar(
        [("w1", 2.0), ("w2", -1.0)]
    )


@pytest.mark.parametrize("top_k", [None, 2.0, "2"])
def test_a_number_of_neighbours_is_a_whole_number(word_vectors, top_k):
    with refused("top_k", value=top_k):
        word_vectors.most_similar("w1", top_k=top_k)


def test_a_word_whose_vector_is_zero_has_no_neighbours_and_others_still_have(tmp_path):
    (tmp_path / "v.txt").write_text("a 1 0\nnothing 0 0\nb 1 1\n")
    completed = run_command(tmp_path, "nn", "v.txt", "-", "--top-k", "1", input="nothing\na\n")
    assert completed.stdout == "a\tb\t0.7071\n"
    assert completed.stderr.count("zero") == 1


def test_documents_have_the_mean_of_their_words():
    two_words = model.WordVectors(["a", "b"], {"input": np.array([[1, 2], [3, 6]], np.float32)})
    means = two_words.mean_vectors([["a", "b", "c"], ["b"], [], ["c"], ["a", "a", "b", "b"]])
    assert means.dtype == np.float32
    np.testing.assert_array_equal(means, [[2, 4], [3, 6], [0, 0], [0, 0], [2, 4]])
    assert two_words.mean_vectors([]).shape == (0, 2)
    assert two_words.mean_vectors(iter([("a",)])).tolist() == [[1, 2]]


def test_word_vectors_are_a_sequence_of_words_that_notebooks_show(word_vectors, tmp_path):
    assert list(word_vectors) == WORDS
    assert len(word_vectors[["w1", "w2"]]) == 2
    arrays = {"input": np.ones((1, 3), np.float32)}
    one_word = model.WordVectors(["<b>"], arrays, facts={"objective": "ns"})
    assert "<td>ns</td>" in one_word._repr_html_()
    assert "<td>&lt;b&gt;</td>" in one_word._repr_html_()
    np.testing.assert_allclose(
        model.load(word_vectors.export(tmp_path / "vectors.txt")).vectors,
        word_vectors.vectors,
        rtol=1e-5,
    )
    with pytest.raises(TypeError, match=r"topn=3 .*top_k=4"):
        word_vectors.most_similar("w1", top_k=4, topn=3)


def test_word_vectors_are_scored_on_files_and_against_others(word_vectors, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"w{k}\tw{k + 1}\t{k}\n" for k in range(40)))
    report = embedx.evaluate(word_vectors, pairs=tmp_path / "pairs.tsv", against=word_vectors)
    assert [score.used for score in report.scores] == [40, 40]
    assert report.differences[0].difference == 0
    assert repr(report) == report.table()

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
def ours():
    return model.WordVectors(
        WORDS, {"input": np.random.default_rng(7).normal(size=(300, 20)).astype(np.float32)}
    )


@pytest.fixture(scope="module")
def theirs(ours):
    from gensim.models import KeyedVectors

    keyed = KeyedVectors(20)
    keyed.add_vectors(WORDS, ours.vectors)
    return keyed


def assert_same(results, expected):
    assert [word for word, _ in results] == [word for word, _ in expected]
    np.testing.assert_allclose(
        [cosine for _, cosine in results], [cosine for _, cosine in expected], atol=1e-6
    )


@needs_gensim
def test_numbers_are_those_of_gensim(ours, theirs):
    assert_same(ours.similar_by_word("w1", topn=4), theirs.similar_by_word("w1", topn=4))
    assert_same(
        ours.similar_by_vector(ours["w1"], topn=4), theirs.similar_by_vector(ours["w1"], topn=4)
    )
    assert ours.distance("w1", "w2") == pytest.approx(theirs.distance("w1", "w2"), abs=1e-6)
    np.testing.assert_allclose(
        ours.get_vector("w5", norm=True), theirs.get_vector("w5", norm=True), rtol=1e-5
    )
    assert ours.vector_size == theirs.vector_size
    assert (ours.index_to_key, ours.key_to_index) == (theirs.index_to_key, theirs.key_to_index)
    assert ("w3" in ours, "x" in ours) == ("w3" in theirs, "x" in theirs)
    np.testing.assert_array_equal(ours[["w3", "w9"]], theirs[["w3", "w9"]])
    assert ours.analogy("w7", "w3", "w100", 7) == ours.most_similar(["w3", "w100"], ["w7"], 7)
    of_frequent = ours.analogy("w7", "w3", "w100", 7, restrict_vocab=50)
    assert of_frequent == ours.most_similar(["w3", "w100"], ["w7"], 7, restrict_vocab=50)
    assert all(word in ours.words[:50] for word, _ in of_frequent)
    assert_same(
        ours.most_similar([ours["w1"], "w2"], top_k=5),
        theirs.most_similar([ours["w1"], "w2"], topn=5),
    )
    rng = np.random.default_rng(0)
    for _ in range(20):
        some, others = (rng.choice(WORDS, size=n, replace=False).tolist() for n in (4, 3))
        assert ours.n_similarity(some, others) == pytest.approx(
            float(theirs.n_similarity(some, others)), abs=1e-6
        )
        assert ours.doesnt_match(some) == theirs.doesnt_match(some)
        assert ours.similarity(*some[:2]) == pytest.approx(
            float(theirs.similarity(*some[:2])), abs=1e-6
        )
        assert_same(
            ours.most_similar(some, others, top_k=5), theirs.most_similar(some, others, topn=5)
        )


@needs_gensim
@pytest.mark.parametrize("cosines", [1, 700, 1 << 22])
def test_many_queries_are_answered_as_one_by_one(ours, theirs, monkeypatch, cosines):
    monkeypatch.setattr(
        queries_module, "MAX_COSINES", cosines
    )  # one or two queries at a time, or all
    queries = ["w3", ours["w4"], "w299", np.ones(20), "w3"]
    answers = ours.most_similar_batch(queries, top_k=6)
    assert len(answers) == len(queries)
    for query, answer in zip(queries, answers, strict=True):
        assert_same(answer, ours.most_similar(query, top_k=6))
    assert_same(answers[0], theirs.most_similar("w3", topn=6))
    for row, answer in enumerate(ours.most_similar_batch(ours.vectors[:9], top_k=1)):
        assert_same(answer, [(WORDS[row], 1.0)])


def test_more_neighbours_than_words_and_none(ours):
    two_words = model.WordVectors(["a", "b"], {"input": np.eye(2, dtype=np.float32)})
    assert two_words.most_similar_batch(["a", "b"], top_k=10) == [[("b", 0.0)], [("a", 0.0)]]
    assert two_words.most_similar_batch(["a"], top_k=0) == [[]]
    assert two_words.most_similar_batch([]) == []
    with refused("top_k", value=-1):
        two_words.most_similar_batch(["a"], top_k=-1)
    with refused(kind=UnknownWordError, quoting=("c", "2 words")):
        two_words.most_similar_batch(["a", "c"])


@needs_gensim
def test_unknown_words_row_numbers_and_weights_are_taken_as_by_gensim(ours, theirs):
    assert ours.doesnt_match(["w1", "w2", "new", "w3"]) == theirs.doesnt_match(
        ["w1", "w2", "new", "w3"]
    )
    assert ours.doesnt_match([1, 2, 3]) == theirs.doesnt_match([1, 2, 3])
    for some, others in ((["w1", "new"], ["w2"]), ([1, "w3"], ["w2", "w2"])):
        assert ours.n_similarity(some, others) == pytest.approx(
            float(theirs.n_similarity(some, others)), abs=1e-6
        )
    for key in (0, np.int64(3), [0, "w4"], "w5"):
        np.testing.assert_array_equal(ours[key], theirs[key])
    for key in (-1, 300, "new"):
        for model_ in (ours, theirs):
            assert key not in model_
            with pytest.raises(KeyError):
                model_[key]
    assert 299 in ours
    assert ours.similarity(3, "w4") == pytest.approx(float(theirs.similarity(3, "w4")), abs=1e-6)
    for positive, negative in (
        ([("w1", 1.0)], None),
        ([("w1", 2.0), "w2", (ours["w9"], 0.5)], [("w3", -0.25), 4]),
        (7, None),
        (None, ["w1"]),
        ("w1", "w2"),
        ([8, ours["w1"]], "w2"),
    ):
        assert_same(
            ours.most_similar(positive, negative, 5), theirs.most_similar(positive, negative, 5)
        )
    options = {"topn": 4, "restrict_vocab": 20}
    assert_same(ours.most_similar("w1", **options), theirs.most_similar("w1", **options))
    assert_same(ours.similar_by_word("w90", **options), theirs.similar_by_word("w90", **options))
    assert_same(
        ours.similar_by_vector(ours["w3"], **options),
        theirs.similar_by_vector(ours["w3"], **options),
    )


@needs_gensim
def test_ranks_and_closer_words_are_those_of_gensim(ours, theirs):
    for word, other in (("w1", "w2"), ("w299", "w0"), (4, "w7"), ("w3", "w3")):
        assert ours.rank(word, other) == theirs.rank(word, other)
        assert ours.closer_than(word, other) == theirs.closer_than(word, other)
    nearest, _ = ours.most_similar("w1", top_k=1)[0]
    assert ours.rank("w1", nearest) == 1
    for ask in (ours.rank, ours.closer_than):
        with refused(kind=UnknownWordError, quoting="new"):
            ask("w1", "new")


@needs_gensim
def test_counts_are_asked_for_as_in_gensim(theirs):
    counts = np.arange(300, 0, -1)
    counted = model.WordVectors(WORDS, {"input": theirs.vectors}, counts=counts)
    for word, count in zip(WORDS, counts.tolist(), strict=True):
        theirs.set_vecattr(word, "count", count)
    for key in ("w0", "w299", 7):
        assert counted.get_vecattr(key, "count") == theirs.get_vecattr(key, "count")
    with refused(kind=UnknownWordError, quoting="new"):
        counted.get_vecattr("new", "count")
    with refused("attr", value="length"):
        counted.get_vecattr("w0", "length")


def test_words_without_counts_have_no_attribute(ours):
    with refused(kind=DataError, quoting="no counts"):
        ours.get_vecattr("w0", "count")
    with refused(kind=DataError, quoting="no counts"):
        ours.n_frequent(5)


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
        lambda m: m.most_similar([]),
        lambda m: m.most_similar(),
        lambda m: m.most_similar(positive=[], negative=[]),
        lambda m: m.most_similar(np.zeros(3)),
        lambda m: m.most_similar(np.full(20, np.nan)),
        lambda m: m.most_similar(["w1"], ["w1"]),
        lambda m: m.most_similar(np.zeros(20)),
        lambda m: m.most_similar([("w1", float("nan"))]),
        lambda m: m.most_similar_batch("w1"),
        lambda m: m.most_similar_batch([np.full(20, np.nan)]),
        lambda m: m.doesnt_match([]),
        lambda m: m.doesnt_match(["new", "newer"]),
        lambda m: m.doesnt_match("w1"),
        lambda m: m.n_similarity(["w1"], []),
        lambda m: m.n_similarity(["new"], ["w1"]),
        lambda m: m[[]],
        lambda m: m.mean_vectors(["w1 w2"]),
        lambda m: m.mean_vectors([["w1", 7]]),
        lambda m: m.mean_vectors([["w1", float("nan")]]),
        lambda m: m.mean_vectors([float("nan")]),
        lambda m: m.mean_vectors([[["w1", "w2"]]]),
    ],
)
def test_queries_with_nothing_in_them_are_errors(ours, ask):
    with pytest.raises(DataError):
        ask(ours)


@pytest.mark.parametrize(
    "ask",
    [
        lambda m: m[1.0],
        lambda m: m[None],
        lambda m: m[b"w1"],
        lambda m: m[["w1", ["w2"]]],
        lambda m: m.similarity("w1", None),
        lambda m: m.most_similar(2.5),
        lambda m: m.most_similar([("w1", "w2")]),
        lambda m: m.most_similar([["w1", "w2"]]),
        lambda m: m.most_similar(np.array(["w1"] * 20)),
        lambda m: m.most_similar_batch([None]),
        lambda m: m.doesnt_match(5),
    ],
)
def test_queries_that_are_neither_words_nor_rows_are_refused(ours, ask):
    with pytest.raises(DataError):
        ask(ours)


def test_rows_in_a_list_have_weights_as_words_have(ours):
    assert ours.most_similar([(1, 2.0), (2, -1)]) == ours.most_similar([("w1", 2.0), ("w2", -1.0)])


@pytest.mark.parametrize("top_k", [None, 2.0, "2"])
def test_a_number_of_neighbours_is_a_whole_number(ours, top_k):
    with refused("top_k", value=top_k):
        ours.most_similar("w1", top_k=top_k)


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


def test_word_vectors_are_a_sequence_of_words_that_notebooks_show(ours, tmp_path):
    assert list(ours) == WORDS
    assert len(ours[["w1", "w2"]]) == 2
    some = model.WordVectors(
        ["<b>"], {"input": np.ones((1, 3), np.float32)}, facts={"objective": "ns"}
    )
    assert "<td>ns</td>" in some._repr_html_()
    assert "<td>&lt;b&gt;</td>" in some._repr_html_()
    np.testing.assert_allclose(
        model.load(ours.export(tmp_path / "vectors.txt")).vectors, ours.vectors, rtol=1e-5
    )
    with pytest.raises(TypeError, match=r"topn=3 .*top_k=4"):
        ours.most_similar("w1", top_k=4, topn=3)


def test_word_vectors_are_scored_on_files_and_against_others(ours, tmp_path):
    (tmp_path / "pairs.tsv").write_text("".join(f"w{k}\tw{k + 1}\t{k}\n" for k in range(40)))
    report = embedx.evaluate(ours, pairs=tmp_path / "pairs.tsv", against=ours)
    assert [score.used for score in report.scores] == [40, 40]
    assert report.differences[0].difference == 0
    assert repr(report) == report.table()

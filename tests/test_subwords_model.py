"""A model with subwords: vectors for words never seen, queries, and continued training."""

from pathlib import Path

import numpy as np
import pytest
import reference

import embedx
from embedx.errors import InapplicableError
from embedx.evaluation import held_out
from embedx.vectors import export
from embedx.vectors.lookup import UnknownWordError
from tests.support.commands import invoke
from tests.support.needs import needs_gensim
from tests.support.refusals import refused
from tests.support.topic_vectors import fit


@pytest.fixture(scope="module")
def trained(two_topics, tmp_path_factory):
    """A model, and its folder."""
    fitted = fit(two_topics, "ns", subwords="3-5", buckets=5000, heldout=0.2)
    return fitted.model, fitted.save(tmp_path_factory.mktemp("models") / "subwords")


def test_a_words_vector_is_the_mean_of_its_own_and_its_ngrams(trained):
    model = embedx.load(trained[1])
    vector_of = dict(zip(model.arrays["ngram_bucket"].tolist(), model.arrays["ngram"], strict=True))
    for k, word in enumerate(model.words):
        buckets = [
            reference.fasttext_bucket(ngram, 5000)
            for ngram in reference.character_ngrams(word, 3, 5)
        ]
        mean = np.mean(
            [model.arrays["word_part"][k], *(vector_of[bucket] for bucket in buckets)], axis=0
        )
        np.testing.assert_allclose(model[word], mean, rtol=1e-4, atol=1e-6)
    np.testing.assert_array_equal(model.vectors, trained[0].vectors)


def test_a_folder_of_the_vectors_alone_has_no_ngrams(trained, tmp_path):
    alone = embedx.load(export.export(trained[0], "embedx", tmp_path / "alone"))
    np.testing.assert_array_equal(alone.vectors, trained[0].vectors)
    with refused(kind=UnknownWordError, quoting=("trucks", "16 words")):
        alone["trucks"]


@pytest.mark.parametrize("word", ["trucks", "engines", "cattail"])
def test_a_word_never_seen_has_the_mean_of_its_ngrams(trained, word):
    for model in (trained[0], embedx.load(trained[1])):
        vector_of = dict(
            zip(model.arrays["ngram_bucket"].tolist(), model.arrays["ngram"], strict=True)
        )
        buckets = [
            reference.fasttext_bucket(ngram, 5000)
            for ngram in reference.character_ngrams(word, 3, 5)
        ]
        known_vectors = [vector_of[bucket] for bucket in buckets if bucket in vector_of]
        assert 0 < len(known_vectors) < len(buckets)
        np.testing.assert_allclose(
            model[word], np.sum(known_vectors, axis=0) / len(buckets), rtol=1e-4, atol=1e-6
        )
        np.testing.assert_array_equal(model[["the", word]], [model["the"], model[word]])
        assert word not in model
        assert model.most_similar(word, top_k=1)[0][0] in word


def test_documents_of_words_never_seen_have_the_mean_of_their_vectors(trained):
    model = trained[0]
    means = model.mean_vectors([["trucks"], ["the", "trucks", "zzzz"], ["zzzz"]])
    mean = (model["the"] + model["trucks"]) / 2
    np.testing.assert_allclose(means, [model["trucks"], mean, np.zeros(len(mean))], rtol=1e-6)
    assert model.doesnt_match(["truck", "trucks", "tail"]) == "tail"


def test_a_word_without_any_ngram_is_unknown(trained):
    for word in ("zzzz", "", "</s>"):
        with refused(kind=UnknownWordError, quoting=(f"{word}: ", "16 words", "n-grams")):
            trained[0][word]
    with refused(kind=UnknownWordError, quoting=("trucks", "16 words")):
        trained[0].index("trucks")


def test_the_likelihood_of_held_out_text_is_that_of_the_means(trained):
    likelihoods = trained[0].facts["heldout"]
    model = embedx.load(trained[1])
    assert likelihoods["log_likelihood"] > likelihoods["unigram"]
    pairs, calibration = held_out.pairs_of([["cat", "dog", "truck", "road"] * 30], model)
    by_means = held_out.evaluate(model, pairs, calibration).log_likelihood
    model.arrays["input"] = model.arrays["word_part"]
    assert held_out.evaluate(model, pairs, calibration).log_likelihood != pytest.approx(
        by_means, abs=1e-3
    )


def test_the_command_answers_for_words_never_seen(trained, capsys):
    words = ["nn", str(trained[1]), "trucks", "--top-k", "1"]
    invoke(*words)
    assert capsys.readouterr().out.split("\t")[:2] == ["trucks", "truck"]


@needs_gensim
def test_pairs_of_words_never_seen_are_scored_if_that_is_asked(trained, two_topics, write):
    from embedx.evaluation import word_sets, words

    pairs = write(
        "Trucks\ttruck\t9\ntrucks\tengine\t5\ncat\tdog\t5\ncar\tpaw\t1\nzzzz\tcat\t2\nthe\ta\t4\n",
        "pairs.txt",
    )
    tests = word_sets.WordTests([Path(pairs)])
    without = words.evaluate([trained[1]], (), tests, oov=False).scores[0]
    with_them = words.evaluate([trained[1]], (), tests, oov=True).scores[0]
    assert (without.used, with_them.used) == (3, 5)
    assert with_them.restrict_vocab == without.restrict_vocab
    (answers,) = words.score_items(trained[0], [word_sets.read_pairs(Path(pairs))], oov=True)
    assert answers.values[0] == pytest.approx(trained[0].similarity("trucks", "truck"), abs=1e-5)
    assert answers.values[3] == pytest.approx(trained[0].similarity("car", "paw"), abs=1e-5)
    plain = fit(two_topics, "ns", epochs=1).save(write("", "x") + ".model")
    with refused("oov", "subwords", quoting="x.model"):
        words.evaluate([plain], (), tests, oov=True)
    with refused("oov", "vectors", kind=InapplicableError):
        words.evaluate([trained[1]], (), tests, oov=True, vectors="sum")


# ---- continued training


def test_continued_training_keeps_words_and_ngrams(trained):
    old = embedx.load(trained[1])
    more = [["trucks", "engine", "wheels", "the"] * 5] * 20
    few = {"min_count": 1, "sample": 0, "threads": 1, "start": str(trained[1])}
    still = embedx.SkipGram("ns", epochs=1, learning_rate=1e-30, **few).fit(more).model
    assert (still.settings["subwords"], still.settings["buckets"]) == ("3-5", 5000)
    np.testing.assert_allclose(still[old.words], old.vectors, atol=1e-6)
    vector_of = dict(zip(still.arrays["ngram_bucket"].tolist(), still.arrays["ngram"], strict=True))
    for bucket, row in zip(old.arrays["ngram_bucket"].tolist(), old.arrays["ngram"], strict=True):
        np.testing.assert_allclose(vector_of.pop(bucket), row, atol=1e-6)
    assert vector_of  # those of new words
    frozen = embedx.SkipGram("ns", epochs=2, freeze=True, **few).fit(more).model
    assert frozen[old.words].tobytes() == old.vectors.tobytes()
    assert np.abs(frozen["wheels"] - still["wheels"]).max() > 1e-3


def test_continued_training_takes_the_ngrams_of_the_model(trained, two_topics, tmp_path):
    plain = fit(two_topics, "ns", epochs=1).save(tmp_path / "plain")
    for start, options, has in (
        (trained[1], {"subwords": "3-6"}, "3-5"),
        (trained[1], {"buckets": 7}, "5000"),
        (plain, {"subwords": "3-6"}, "none"),
    ):
        ((name, value),) = options.items()
        with refused(name, "start", value=value, quoting=has):
            embedx.SkipGram("ns", start=str(start), **options)

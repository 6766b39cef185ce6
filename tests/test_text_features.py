"""Text as features: tokens, n-grams and their hashes, against naive code; and known words and
n-grams in later text.
"""

import json
from collections import Counter

import numpy as np
import pytest
import reference
from scipy.sparse import vstack

from embedx.classification import classifier
from embedx.cli import training
from embedx.errors import InapplicableError
from embedx.labeled import words
from embedx.labeled.files import MemoryBudget
from embedx.labeled.read import read, read_training
from embedx.labeled.words import TextFeatureSettings, text_features
from embedx.tasks.requests import ClassifyRequest
from embedx.text.ngram_hashes import OF_NEXT_WORD
from embedx.text.tokenizer import Tokenizer
from tests.support.forked import embedx_run
from tests.support.refusals import refused

TEXTS = ["Über uns, über \x01 Berge!", "", "uns über uns\nüber", "a 日本語 \ud800 b", "über uns"]
FIXED = [415722493, 708754874, 970867036, 1384678540, 1643018055, 79047500292877521]
TOKENS = [
    ["über", "uns", "über", "berge"],
    [],
    ["uns", "über", "uns", "über"],
    ["a", "日本語", "b"],
    ["über", "uns"],
]
AS_WORDS = {"tokenizer": "words", "lowercase": True}


def features_of(texts, known=None, **options):
    counted = text_features(TextFeatureSettings(**options), MemoryBudget("text"), known)
    counted.add(texts[:2])
    counted.add(texts[2:])
    return counted.finish()


def naive_word_ngrams(tokens, longest, n_buckets=0):
    """How often each hash stands in a row, by the loop of fastText's `addWordNgrams`."""
    ngrams = Counter()
    buckets = [reference.fasttext_bucket(word, 2**32) for word in tokens]
    word_hashes = np.array(buckets, np.uint32).astype(np.int32).tolist()
    for i, ngram_hash in enumerate(word_hashes):
        for word_hash in word_hashes[i + 1 : i + longest]:
            ngram_hash = (ngram_hash * 116049371 + word_hash) % 2**64
            as_int64 = (ngram_hash ^ 2**63) - 2**63
            ngrams[ngram_hash % n_buckets if n_buckets else as_int64] += 1
    return ngrams


def naive_characters(tokens, shortest, longest, n_buckets):
    buckets = (
        reference.fasttext_bucket(gram, n_buckets)
        for word in tokens
        for gram in reference.character_ngrams(word, shortest, longest)
    )
    return Counter(buckets)


def rows_of(features, schema):
    """The n-grams of each row by hash."""
    rows = []
    for row in features.tocsc()[:, len(schema.vocabulary) :].tocsr():
        hashes = schema.hashes[row.indices].tolist()
        rows.append(Counter(dict(zip(hashes, row.data.tolist(), strict=True))))
    return rows


def test_words_are_counted_by_row():
    features, schema = features_of(TEXTS, **AS_WORDS, word_ngrams=1)
    assert schema.vocabulary == ["über", "uns", "berge", "a", "日本語", "b"]
    assert features.dtype == np.float32
    assert features.toarray().tolist() == [
        [tokens.count(word) for word in schema.vocabulary] for tokens in TOKENS
    ]
    features, schema = features_of(
        TEXTS, tokenizer="whitespace", lowercase=False, word_ngrams=1, min_count=2
    )
    assert schema.vocabulary == ["über", "uns"]  # in two rows or more
    assert features.toarray().tolist() == [[1, 0], [0, 0], [2, 2], [0, 0], [1, 1]]


@pytest.mark.parametrize("n_buckets", [0, 7, 200_000])
@pytest.mark.parametrize("longest", [2, 3])
def test_word_ngrams_are_those_of_fasttext(n_buckets, longest):
    options = {**AS_WORDS, "word_ngrams": longest, "buckets": n_buckets}
    all_ngrams = [naive_word_ngrams(tokens, longest, n_buckets) for tokens in TOKENS]
    assert rows_of(*features_of(TEXTS, **options, min_ngram_count=1)) == all_ngrams
    in_rows = Counter(feature for row in all_ngrams for feature in row)
    frequent = [
        Counter({feature: n for feature, n in row.items() if in_rows[feature] > 1})
        for row in all_ngrams
    ]
    assert rows_of(*features_of(TEXTS, **options)) == frequent


@pytest.mark.parametrize("n_buckets", [0, 50])
def test_character_ngrams_of_words_are_those_of_fasttext(n_buckets):
    options = {
        **AS_WORDS,
        "word_ngrams": 2,
        "char_ngrams": "2-3",
        "buckets": n_buckets,
        "min_ngram_count": 1,
    }
    rows = rows_of(*features_of(TEXTS, **options))
    for row, tokens in zip(rows, TOKENS, strict=True):
        words = naive_word_ngrams(tokens, 2, n_buckets)
        assert row == words + naive_characters(tokens, 2, 3, n_buckets or 2**31 - 1)


def test_hashes_are_fixed():
    """Numbers of fastText 0.9.3 on any machine; models keep them."""
    _, schema = features_of(["new york"], word_ngrams=2, char_ngrams="4", min_ngram_count=1)
    assert schema.hashes.tolist() == FIXED
    assert int(OF_NEXT_WORD) == 116049371


def test_new_text_gets_the_features_fixed_in_training():
    options = {**AS_WORDS, "word_ngrams": 2, "char_ngrams": "3", "min_ngram_count": 1}
    features, schema = features_of(TEXTS, **options)
    again, same = features_of(TEXTS, schema)
    assert same is schema
    assert (again[:, :-1] != features).nnz == 0
    assert again[:, -1].nnz == 0
    later, _ = features_of(["Berge, uns fremd", "über uns!"], schema)
    assert later.toarray()[:, :6].tolist() == [[0, 1, 1, 0, 0, 0], [1, 1, 0, 0, 0, 0]]
    assert later.toarray()[:, -1].tolist() == [1, 0]
    assert (later[1, :-1] != features[4]).nnz == 0
    assert rows_of(later[:, :-1], schema)[0] == naive_characters(["berge", "uns"], 3, 3, 2**31 - 1)
    assert features_of([], schema)[0].shape == (0, features.shape[1] + 1)


def test_features_do_not_depend_on_batches(monkeypatch):
    rng = np.random.default_rng(1)
    texts = [" ".join(rng.choice(list("abcdefgh"), n)) for n in rng.integers(0, 9, 50)]
    at_once = features_of(texts, word_ngrams=3, char_ngrams="1-2")
    monkeypatch.setattr(words, "BATCH_BYTES", 20)
    in_batches = features_of(texts, word_ngrams=3, char_ngrams="1-2")
    assert (at_once[0] != in_batches[0]).nnz == 0
    assert at_once[1].vocabulary == in_batches[1].vocabulary
    assert at_once[1].hashes.tolist() == in_batches[1].hashes.tolist()


@pytest.mark.parametrize(
    ("text", "is_raw"),
    [
        ("Stocks rose, then fell.", True),
        ("stocks rose , then fell .", False),
        ("a b c", False),
        ("日本語。 日本語", True),
    ],
)
def test_raw_text_is_recognised(text, is_raw):
    settings = features_of([text] * 2)[1].settings
    text_settings = {name: settings[name] for name in ("tokenizer", "lowercase", "word_ngrams")}
    assert text_settings == {
        "tokenizer": "words" if is_raw else "whitespace",
        "lowercase": is_raw,
        "word_ngrams": 2 if is_raw else 1,
    }
    assert features_of([text], lowercase=False, tokenizer="whitespace")[1].vocabulary == list(
        dict.fromkeys(text.split())
    )


def test_wrong_lengths_are_refused():
    with refused("char_ngrams", value="5-3"):
        TextFeatureSettings(char_ngrams="5-3")


def test_a_model_reads_text_in_a_new_process_as_it_was_trained(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    rows = [
        f"__label__{'xy'[k % 2]} {'The cat sat' if k % 2 else 'The Dog ran'}, no. {k}!"
        for k in range(30)
    ]
    (tmp_path / "train.txt").write_text("\n".join(rows) + "\n")
    typed = {"char_ngrams": "3", "epochs": 2, "threads": 1}
    training.classify(
        ClassifyRequest(train=["train.txt"], output=tmp_path / "m", options=typed, quiet=True)
    )
    model = classifier.load("m")
    assert len(model.schema.text.hashes) > 0
    features = read("train.txt", schema=model.schema).features
    trained_on = read_training("train.txt", text=TextFeatureSettings(char_ngrams="3")).features
    assert (features[:, :-1] != trained_on).nnz == 0
    top_labels = next(ids.tolist() for ids, _ in model.iter_top_k(features, 1))
    completed = embedx_run(tmp_path, "predict", "m", "train.txt", "--top-k", 1, "--json")
    assert [json.loads(line)[0]["label"] for line in completed.stdout.splitlines()] == [
        model.name(k) for (k,) in top_labels
    ]


def test_options_of_text_are_refused_for_other_data(tmp_path):
    (tmp_path / "train.txt").write_text("1 1:1\n2 2:1\n")
    with refused("word_ngrams", kind=InapplicableError):
        training.classify(
            ClassifyRequest(
                train=[str(tmp_path / "train.txt")], options={"word_ngrams": 2}, quiet=True
            )
        )


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"word_ngrams": 3},
        {"word_ngrams": 2, "buckets": 50},
        {"char_ngrams": "2-4"},
        {"word_ngrams": 2, "char_ngrams": "3-3", "lowercase": True},
    ],
)
def test_texts_have_the_same_features_one_by_one_and_with_those_that_taught_them(options):
    settings = TextFeatureSettings(min_ngram_count=1, **options)
    texts = ["One two  two three", "", "three one", "two\nthree four", "ONE-two, two."]
    training = text_features(settings, MemoryBudget("texts"), None)
    training.add(texts)
    expected, schema = training.finish()
    expected.sum_duplicates()
    several = text_features(settings, MemoryBudget("texts"), schema).rows(texts)
    single = [text_features(settings, MemoryBudget("X"), schema).rows([text]) for text in texts]
    for features in (several, vstack(single, "csr")):
        np.testing.assert_array_equal(features.toarray()[:, :-1], expected.toarray())
        assert features[:, -1].nnz == 0
        assert features.dtype == np.float32
        assert features.has_canonical_format


def test_the_words_of_a_model_are_indexed_once(monkeypatch):
    settings = TextFeatureSettings()
    training = text_features(settings, MemoryBudget("texts"), None)
    training.add(["some words", "some others"])
    schema = training.finish()[1]
    sizes = []
    tokenize = Tokenizer.tokenize

    def counted(tokenizer, data, *more, **options):
        sizes.append(len(data))
        return tokenize(tokenizer, data, *more, **options)

    monkeypatch.setattr(Tokenizer, "tokenize", counted)
    for text in ("some", "text", "others"):
        text_features(settings, MemoryBudget("X"), schema).rows([text])
    assert len(sizes) == 1 + 3

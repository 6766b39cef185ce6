"""fastText's .bin models: read as fastText reads them, written as it writes them, and refused in
one line when damaged.
"""

import struct

import numpy as np
import pytest
import reference

import embedx
from embedx.text.ngrams import NGrams
from embedx.vectors import export, lookup, model
from embedx.vectors.formats import fasttext as fasttext_bin
from embedx.vectors.subwords import Subwords
from tests.support.needs import needs_fasttext
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data

TEXT = (
    "the cat sat on the naïve mat while ducks quacked in Straße 日本語 and catty mats were sat upon"
    " by 😀b a<b <> ducks\n"
)
UNSEEN = ["duck", "naïvely", "Straßenbahn", "日本", "mattress"]


def toy(n_buckets=60, dim=7, outputs=True, compact=True):
    """A model of random vectors with n-grams of 2 to 4 characters."""
    rng = np.random.default_rng(4)
    words = ["the", "duck", "naïve", "日本語", "</s>", "a"]
    spec = NGrams(2, 4, n_buckets)
    buckets = np.unique(np.concatenate([spec.buckets(word) for word in words])).astype(np.int32)
    rows = np.zeros((n_buckets, dim), np.float32)
    rows[buckets] = rng.normal(size=(len(buckets), dim))
    word_rows = rng.normal(size=(len(words), dim)).astype(np.float32)
    vectors = [
        np.mean([word_rows[k], *rows[spec.buckets(word)]], axis=0) for k, word in enumerate(words)
    ]
    arrays = {"input": np.array(vectors, np.float32), "word_part": word_rows}
    if outputs:
        arrays["output"] = rng.normal(size=word_rows.shape).astype(np.float32)
    subwords = (
        Subwords(spec, rows[buckets], buckets)
        if compact
        else Subwords(spec, rows, np.arange(n_buckets))
    )
    counts = np.array([90, 70, 50, 30, 20, 10])
    return model.WordVectors(
        words, arrays, counts=counts, settings={"window": 3}, subwords=subwords
    )


def train(tmp_path, **options):
    """A model of fastText's own, and its file."""
    import fasttext

    (tmp_path / "text").write_text(TEXT * 50)
    # With fewer than eleven threads it leaves a part of its rows as malloc gave them
    # (facebookresearch/fastText#1061).
    settings = {
        "dim": 8,
        "epoch": 2,
        "minCount": 1,
        "thread": 11,
        "verbose": 0,
        "bucket": 300,
        **options,
    }
    fasttext_model = fasttext.train_unsupervised(str(tmp_path / "text"), **settings)
    fasttext_model.save_model(str(tmp_path / "model.bin"))
    return fasttext_model, tmp_path / "model.bin"


@needs_fasttext
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"model": "cbow", "loss": "hs", "minn": 2, "maxn": 3},
        {"minn": 0, "maxn": 0},
        {"minn": 1, "maxn": 2, "bucket": 7, "loss": "softmax"},
    ],
)
def test_a_model_of_fasttext_has_the_same_vectors_here(tmp_path, options):
    fasttext_model, file = train(tmp_path, **options)
    vectors = embedx.load(file)
    assert vectors.words == fasttext_model.words
    assert vectors.counts.tolist() == fasttext_model.get_words(include_freq=True)[1].tolist()
    for word in vectors.words:
        np.testing.assert_allclose(
            vectors[word], fasttext_model.get_word_vector(word), rtol=1e-5, atol=1e-7
        )
    has_ngrams = options.get("maxn") != 0
    assert (vectors.subwords is not None) == has_ngrams
    for word in UNSEEN:
        if has_ngrams:
            np.testing.assert_allclose(
                vectors[word], fasttext_model.get_word_vector(word), rtol=1e-5, atol=1e-7
            )
        else:
            with pytest.raises(lookup.UnknownWordError):
                vectors[word]


@needs_fasttext
@pytest.mark.parametrize("compact", [True, False])
def test_fasttext_opens_what_is_written_and_has_the_same_vectors(tmp_path, monkeypatch, compact):
    import fasttext

    monkeypatch.setattr(fasttext_bin, "FLOATS_PER_WRITE", 100)
    vectors = toy(compact=compact)
    fasttext_model = fasttext.load_model(
        str(export.export(vectors, "fasttext", tmp_path / "out.bin"))
    )
    assert fasttext_model.words == vectors.words
    assert fasttext_model.get_words(include_freq=True)[1].tolist() == vectors.counts.tolist()
    assert (
        fasttext_model.f.getArgs().ws,
        fasttext_model.f.getArgs().minn,
        fasttext_model.f.getArgs().maxn,
    ) == (3, 2, 4)
    for word in [*vectors.words, "ducks", "naïvely", "theduck"]:
        np.testing.assert_allclose(
            fasttext_model.get_word_vector(word), vectors[word], rtol=1e-5, atol=1e-6
        )
    np.testing.assert_array_equal(fasttext_model.get_output_matrix(), vectors.output_vectors)


@needs_fasttext
def test_fasttext_opens_a_trained_model_with_and_without_ngrams(two_topics, tmp_path):
    import fasttext

    for options in ({"subwords": "3-5"}, {}):
        settings = {
            "dim": 16,
            "epochs": 1,
            "sample": 0,
            "threads": 1,
            "bias": "frequency",
            **options,
        }
        vectors = embedx.SkipGram("hs", **settings).fit(two_topics).model
        out = export.export(vectors, "fasttext", tmp_path / "out.bin", overwrite=True)
        fasttext_model = fasttext.load_model(str(out))
        for word in [*vectors.words, *(["trucks", "wheels"] if options else [])]:
            np.testing.assert_allclose(
                fasttext_model.get_word_vector(word), vectors[word], rtol=1e-4, atol=1e-6
            )


@pytest.mark.parametrize("outputs", [True, False])
def test_what_is_written_is_read_back(tmp_path, outputs):
    vectors = toy(outputs=outputs)
    out = export.export(vectors, "fasttext", tmp_path / "out.bin")
    back = embedx.load(out)
    assert back.words == vectors.words
    assert back.counts.tolist() == vectors.counts.tolist()
    np.testing.assert_allclose(back.vectors, vectors.vectors, rtol=1e-5, atol=1e-6)
    np.testing.assert_array_equal(back.arrays["word_part"], vectors.arrays["word_part"])
    for word in ("ducks", "naïvely"):
        np.testing.assert_allclose(back[word], vectors[word], rtol=1e-6)
        buckets = [
            reference.fasttext_bucket(ngram, 60) for ngram in reference.character_ngrams(word, 2, 4)
        ]
        np.testing.assert_allclose(
            back[word], np.mean(back.subwords.rows[buckets], axis=0), rtol=1e-5, atol=1e-7
        )
    again = export.export(back, "fasttext", tmp_path / "again.bin")
    if not outputs:
        assert again.read_bytes()[56:] == out.read_bytes()[56:]  # but for the settings of training


def test_words_that_fasttext_cannot_have_are_refused(tmp_path):
    vectors = toy()
    for word, place in (("a\0b", r"the word 'a\x00b'"), ("new york", "model")):
        vectors.words[1] = word
        with refused_data(place, quoting=repr(word)):
            export.export(vectors, "fasttext", tmp_path / "out.bin")
    assert list(tmp_path.iterdir()) == []
    plain = model.WordVectors(["new york"], {"input": np.ones((1, 2), np.float32)})
    assert embedx.load(export.export(plain, "fasttext", tmp_path / "out.bin")).words == ["new_york"]


# ---- damage


def content(tmp_path, **options):
    return bytearray(
        export.export(
            toy(**options), "fasttext", tmp_path / "whole.bin", overwrite=True
        ).read_bytes()
    )


def put(data, at, layout, *values):
    struct.pack_into(layout, data, at, *values)
    return data


WORDS_AT = 56 + 8 + 28  # head, and the sizes of the dictionary
INPUT_AT = WORDS_AT + sum(len(word.encode()) + 10 for word in toy().words)
OUTPUT_AT = INPUT_AT + 17 + 4 * 66 * 7


def place_of_first_ngram(word, data):
    """The offset in the file of the row of a word's first n-gram."""
    return INPUT_AT + 17 + 4 * 7 * (6 + NGrams(2, 4, 60).buckets(word)[0])


DAMAGES = [
    (lambda data: put(data, 4, "<i", 99), "version 99 "),
    (lambda data: put(data, 36, "<i", 3), "classifier"),
    (lambda data: put(data, 8, "<i", 0), ("0 dimensions", "60 buckets")),
    (
        lambda data: put(data, 8, "<i", 2**30),
        ("66 input rows of 7 numbers", "66 rows of 1,073,741,824 numbers"),
    ),
    (lambda data: put(data, 40, "<i", -1), "-1 buckets"),
    (
        lambda data: put(data, 40, "<i", 2**31 - 1),
        ("66 input rows of 7 numbers", "2,147,483,653 rows of 7 numbers"),
    ),
    (lambda data: put(data, 48, "<i", 2**31 - 1), "2147483647 characters"),
    (lambda data: put(data, 64, "<3i", 2**31 - 1, 2**31 - 1, 0), "2,147,483,647 entries"),
    (lambda data: put(data, 64, "<3i", 0, 0, 0), ".ftz"),  # the words are read as rows
    (lambda data: put(data, WORDS_AT + 4, "<q", -7), ("word 1 of 6", "-7", "0")),
    (lambda data: put(data, WORDS_AT + 12, "<b", 1), ("word 1 of 6", "90", "1")),
    (lambda data: put(data, INPUT_AT, "<B", 1), ".ftz"),
    (
        lambda data: put(data, INPUT_AT + 1, "<q", 2**62),
        ("4,611,686,018,427,387,904 input rows of 7 numbers", "66 rows"),
    ),
    (lambda data: put(data, INPUT_AT + 17 + 4 * 7, "<f", np.nan), "row of the word 'duck'"),
    (
        lambda data: put(data, place_of_first_ngram("the", data), "<f", np.inf),
        "n-gram of the word 'the'",
    ),
    (
        lambda data: put(data, OUTPUT_AT + 1, "<q", 2**62),
        "4,611,686,018,427,387,904 output rows of 7 numbers",
    ),
    (lambda data: data + b"x", "1 bytes"),
    (lambda data: data[:-1], "6 output rows of 7 numbers in 167 bytes"),
    (lambda data: data[:INPUT_AT], "input rows"),
    (lambda data: data[: WORDS_AT + 1], ("6 entries", "93 bytes")),
    (lambda data: data[:80], "the head of"),
]


@pytest.mark.parametrize(("damage", "quoted"), DAMAGES)
def test_damage_gets_one_line(tmp_path, damage, quoted):
    data = content(tmp_path)
    assert data[INPUT_AT + 1 : INPUT_AT + 9] == struct.pack("<q", 66)
    assert data[OUTPUT_AT + 1 : OUTPUT_AT + 9] == struct.pack("<q", 6)
    (tmp_path / "bad.bin").write_bytes(damage(data))
    with refused_data("bad.bin", quoting=quoted) as raised:
        embedx.load(tmp_path / "bad.bin")
    assert "\n" not in str(raised.value)


def test_rows_that_fasttext_left_unwritten_count_as_zeros(tmp_path):
    """They hold whatever was in memory, and no word of the vocabulary has such an n-gram."""
    vectors = toy()
    unmet = next(
        k for k in NGrams(2, 4, 60).buckets("ducklings") if k not in vectors.subwords.buckets
    )
    data = put(content(tmp_path), INPUT_AT + 17 + 4 * 7 * (6 + unmet), "<f", np.nan)
    (tmp_path / "odd.bin").write_bytes(data)
    notes = Notes()
    loaded = model.load(tmp_path / "odd.bin", notes)
    assert lines_with(notes.notes, "odd.bin", "rows of n-grams")
    np.testing.assert_allclose(loaded["ducklings"], vectors["ducklings"], rtol=1e-5)


def test_a_compressed_model_is_to_be_unpacked(tmp_path):
    import gzip

    (tmp_path / "packed.bin.gz").write_bytes(gzip.compress(bytes(content(tmp_path))))
    with refused_data("packed.bin.gz"):
        embedx.load(tmp_path / "packed.bin.gz")


def test_of_words_with_the_same_text_the_first_is_kept(tmp_path):
    data = content(tmp_path)
    for word, other in ((b"duck", b"\xff\xfeab"), (b"</s>", b"\xfe\xffab")):
        at = data.index(word + b"\0")
        data[at : at + 4] = other
    (tmp_path / "odd.bin").write_bytes(data)
    loaded = embedx.load(tmp_path / "odd.bin")
    assert loaded.words == ["the", "\ufffd\ufffdab", "naïve", "日本語", "a"]
    assert loaded.counts.tolist() == [90, 70, 50, 30, 10]
    assert loaded.vectors.shape == loaded.arrays["word_part"].shape == (5, 7)

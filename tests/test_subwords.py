"""Subwords: n-grams and buckets as the paper and fastText have them, and steps through the mean."""

import json

import numpy as np
import pytest
import reference

from embedx.engine import subwords
from embedx.errors import InapplicableError
from embedx.objectives import OBJECTIVES
from embedx.optimizers import OPTIMIZERS
from embedx.optimizers.contract import WORDS as WORDS_COMMAND
from embedx.runtime.memory import NoMemoryError
from embedx.skipgram import run
from embedx.skipgram.configuration import configure
from embedx.text.ngrams import NGrams, encoded, fnv1a, ngrams
from tests.support.commands import invoke
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.objectives import make
from tests.support.refusals import refused
from tests.support.resumed_runs import assert_resumes, same, word_run
from tests.support.skipgram_forms import OBJECTIVES_AND_SAMPLERS, assert_trains_as_the_reference
from tests.support.skipgram_setup import Setup
from tests.support.topic_vectors import assert_knows_the_topics, fit
from tests.support.two_topics import CARS, CATS, COMMON

WORDS = [
    "banana",
    "naïve",
    "Straße",
    "日本語",
    "a",
    "ab",
    "x" * 30,
    "😀b",
    "<>",
    "a<b",
    "</s>",
    "",
    "é",
]
LENGTHS = [(3, 6, 2_000_000), (1, 3, 50), (2, 2, 1), (5, 20, 777), (1, 50, 100_000_000)]


# ---- n-grams


@pytest.mark.parametrize(("shortest", "longest", "n_buckets"), LENGTHS)
def test_ngrams_and_their_buckets_are_those_of_the_paper_and_fasttext(shortest, longest, n_buckets):
    hashing = NGrams(shortest, longest, n_buckets)
    for word in WORDS:
        expected = reference.character_ngrams(word, shortest, longest)
        assert hashing.of(word) == expected
        assert hashing.buckets(word) == [
            reference.fasttext_bucket(gram, n_buckets) for gram in expected
        ]


def test_words_have_the_ngrams_of_the_papers_example():
    """Section 3.2: where with n = 3."""
    assert NGrams(3, 3, 10).of("where") == ["<wh", "whe", "her", "ere", "re>"]


@pytest.mark.parametrize(
    ("content", "published"), [(b"", 0x811C9DC5), (b"a", 0xE40C292C), (b"foobar", 0xBF9CF968)]
)
def test_ngrams_of_ascii_are_hashed_by_fnv_1a(content, published):
    """The values are those of Fowler, Noll and Vo's own test suite."""
    assert fnv1a(content) == published


@pytest.mark.parametrize(("shortest", "longest", "n_buckets"), LENGTHS[:4])
def test_a_vocabulary_is_listed_as_each_word_is(shortest, longest, n_buckets):
    spec = NGrams(shortest, longest, n_buckets)
    parts, buckets = subwords.parts_of_words([encoded(word) for word in WORDS], spec)
    expected = set()
    for k, word in enumerate(WORDS):
        first, *others = parts.rows[parts.offsets[k] : parts.offsets[k + 1]].tolist()
        assert first == k
        assert buckets[np.array(others, int) - len(WORDS)].tolist() == spec.buckets(word)
        expected |= set(spec.buckets(word))
    assert buckets.tolist() == sorted(expected)


@pytest.mark.parametrize(
    ("typed", "lengths"), [("3-6", (3, 6)), (" 2 - 4 ", (2, 4)), ("5", (5, 5)), ("1-50", (1, 50))]
)
def test_lengths_are_read(typed, lengths):
    assert ngrams(typed, 7) == (*lengths, 7)


@pytest.mark.parametrize(
    ("options", "setting", "quoted"),
    [
        ({"subwords": "three"}, "subwords", ("'three'", "1 to 50")),
        ({"subwords": "6-3"}, "subwords", ("'6-3'", "1 to 50")),
        ({"subwords": "0-3"}, "subwords", ("'0-3'", "1 to 50")),
        ({"subwords": "3-51"}, "subwords", ("'3-51'", "1 to 50")),
        ({"subwords": "9" * 5000}, "subwords", ("99…", "1 to 50")),
        ({"subwords": "3", "buckets": 0}, "buckets", "1"),
        ({"subwords": "3", "buckets": 10**9}, "buckets", "100000000"),
    ],
)
def test_other_lengths_and_buckets_are_refused(options, setting, quoted):
    with refused(setting, value=options[setting], quoting=quoted):
        configure("ns", options)


def test_buckets_without_subwords_are_refused():
    with refused("buckets", "subwords", kind=InapplicableError):
        configure("ns", {"buckets": 10})


def test_a_rate_that_stops_falling_is_not_the_default_of_subwords():
    for name in OBJECTIVES:
        plain, with_them = (
            configure(name, options).settings for options in ({}, {"subwords": "3-6"})
        )
        is_bounded = np.isfinite(OPTIMIZERS[plain.optimizer].limit)
        expected = (
            ("rowwise-adagrad", 3.0) if is_bounded else (plain.optimizer, plain.learning_rate)
        )
        assert (with_them.optimizer, with_them.learning_rate) == expected
    typed = configure("ns", {"subwords": "3-6", "optimizer": "bounded-adagrad"}).settings
    assert (typed.optimizer, typed.learning_rate) == (
        "bounded-adagrad",
        OPTIMIZERS["bounded-adagrad"].rates[WORDS_COMMAND],
    )


# ---- a step


GRADIENTS = [
    (name, sampler)
    for name, sampler in OBJECTIVES_AND_SAMPLERS
    if make(name).step == "gradient"
    and make(name).state_width == 0
    and make(name).traits.stable
    and sampler != "search"
]


@pytest.mark.parametrize(("name", "sampler"), GRADIENTS)
def test_each_part_moves_by_the_whole_gradient_of_the_mean(name, sampler):
    """By finite differences: where all words have as many parts, that is so many times the part's
    own derivative.
    """
    setup = Setup(make(name), n_ngrams=9, block_size=64, sampler=sampler, dim=5)
    n_words = len(setup.tables.objective_state)
    n_parts = 4
    rng = np.random.default_rng(2)
    parts_of_word = [
        [word, *(n_words + rng.integers(0, 9, n_parts - 1))] for word in range(n_words)
    ]
    offsets = np.arange(0, n_parts * n_words + 1, n_parts, dtype=np.int64)
    setup.tables = setup.tables._replace(
        parts=subwords.Parts(offsets, np.concatenate(parts_of_word).astype(np.int32))
    )
    outputs = setup.tables.outputs.rows.copy()
    places = [(0, 0), (5, 2), (n_words, 1), (n_words + 3, 4), (n_words + 8, 0)]
    setup.assert_moves_by_the_gradient(places, n_parts, 0, 40)
    assert not np.array_equal(outputs, setup.tables.outputs.rows)


IN_TURN = [
    (*pair, ("sgd", 0) if k % 2 else ("rowwise-adagrad", 5))
    for k, pair in enumerate(OBJECTIVES_AND_SAMPLERS)
]


@pytest.mark.parametrize(("name", "sampler", "optimizer_and_block_size"), IN_TURN)
def test_blocks_of_means_train_as_the_reference(name, sampler, optimizer_and_block_size):
    optimizer, block_size = optimizer_and_block_size
    setup = Setup(
        make(name),
        n_ngrams=9,
        block_size=block_size,
        draws=max(4, block_size),
        sampler=sampler,
        optimizer=optimizer,
        bias=True,
    )
    assert_trains_as_the_reference(setup, lr=0.01)
    assert (setup.tables.inputs.rows[:, setup.dim] == 1).all()


@pytest.mark.parametrize("optimizer", ["adagrad", "bounded-adagrad", "mixture"])
def test_every_optimizer_updates_each_part_of_a_word(optimizer):
    assert_trains_as_the_reference(
        Setup(make("ns"), n_ngrams=9, block_size=5, optimizer=optimizer), lr=0.01
    )


def test_frozen_parts_stay_and_others_move():
    setup = Setup(make("ns"), n_ngrams=9, block_size=5)
    frozen = np.zeros(len(setup.tables.inputs.rows), np.uint8)
    frozen[[2, 3, 13, 20]] = 1
    setup.tables = setup.tables._replace(inputs=setup.tables.inputs._replace(frozen=frozen))
    before = setup.tables.inputs.rows.copy()
    setup.train(0, 100)
    moved = (setup.tables.inputs.rows != before).any(axis=1)
    assert not moved[frozen > 0].any()
    assert moved[frozen == 0].mean() > 0.8


# ---- training


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_every_objective_learns_the_topics_by_subwords(two_topics, name):
    fitted = fit(two_topics, name, subwords="4-5")
    assert_knows_the_topics(fitted.model)
    assert fitted.model.settings["subwords"] == "4-5"
    assert {word for word, _ in fitted.model.most_similar("trucks", top_k=3)} <= set(CARS)


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_without_a_word_long_enough_training_is_as_without_subwords(name):
    none, _ = word_run(name, epochs=2, subwords="30-40")
    # where the default is another one without subwords
    rates = {"optimizer": "rowwise-adagrad", "learning_rate": 3.0}
    is_bounded = np.isfinite(OPTIMIZERS[configure(name, {}).settings.optimizer].limit)
    plain, _ = word_run(name, epochs=2, **(rates if is_bounded else {}))
    assert none.pop("ngram").shape == (0, 8)
    assert none.pop("ngram_bucket").shape == (0,)
    np.testing.assert_array_equal(none.pop("word_part"), plain["input"])
    same(none, plain)


def test_training_resumes_from_a_snapshot(stop_after):
    assert_resumes(word_run, "ns", stop_after, 4, subwords="1-3", buckets=30)


def test_memory_is_that_of_the_buckets_that_words_meet(two_topics):
    few = fit(two_topics, "ns", epochs=1, subwords="3-4", buckets=10).model
    many = fit(two_topics, "ns", epochs=1, subwords="3-4", buckets=2_000_000).model
    grams = {gram for word in many.words for gram in reference.character_ngrams(word, 3, 4)}
    assert len(few.arrays["ngram"]) == 10
    assert (
        len(many.arrays["ngram"])
        == len({reference.fasttext_bucket(gram, 2_000_000) for gram in grams})
        < 100
    )


def test_ngrams_that_memory_has_no_room_for_are_refused(two_topics, monkeypatch):
    monkeypatch.setattr(run, "available_memory", lambda: 1000)
    with refused(None, "max_vocab", "buckets", kind=NoMemoryError, quoting=("16 words", "1.0 kB")):
        fit(two_topics, "ns", subwords="3-6")
    spec = NGrams(1, 9, 100)
    words = [encoded(word) for word in WORDS]
    parts, _ = subwords.parts_of_words(words, spec)
    assert subwords.listing_bytes(words, spec) >= 5 * 100 + 8 * len(parts.rows)


def test_the_memory_of_ngrams_is_reported(two_topics, capsys):
    typed = [
        "corpus",
        "check",
        str(two_topics),
        "--dim",
        "64",
        "--subwords",
        "3-4",
        "--min-count",
        "1",
        "--json",
    ]
    plans = []
    for words in (typed, [argument for argument in typed if argument not in ("--subwords", "3-4")]):
        invoke(*words)
        plans.append(json.loads(capsys.readouterr().out)["training"])
    with_them, without = plans
    n = len(
        {
            gram
            for word in (*CARS, *CATS, *COMMON)
            for gram in reference.character_ngrams(word, 3, 4)
        }
    )
    assert with_them["memory"]["vectors"] - without["memory"]["vectors"] == n * 64 * 4
    assert with_them["disk"]["model"] - without["disk"]["model"] == 4 * (64 * (16 + n) + n)

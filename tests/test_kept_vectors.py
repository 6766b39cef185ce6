"""Training that continues from a model: how far its vectors move, and frozen ones not at all."""

import dataclasses

import numpy as np
import pytest

import embedx
from embedx.evaluation import held_out
from embedx.objectives import OBJECTIVES
from embedx.skipgram.configuration import configure
from embedx.skipgram.settings import StartSettings
from embedx.skipgram.start import RATE, Start
from embedx.skipgram.strategies import empty_tables
from tests.support import word_training
from tests.support.continued_training import FEW, MORE, TEXT, a_text, rows, train_more
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused
from tests.support.two_topics import CARS, CATS


@pytest.mark.parametrize("objective", ["ns", "ar", "softmax", "hs", "implicit"])
def test_continued_training_on_the_same_text_keeps_the_vectors(start_folder, objective):
    old = embedx.load(start_folder(objective))
    new = train_more(start_folder(objective), TEXT, objective=objective).model
    assert new.words == old.words
    pairs, calibration = held_out.pairs_of(a_text(seed=2), old)
    before = held_out.evaluate(old, pairs, calibration)
    after = held_out.evaluate(new, pairs, calibration)
    assert after.log_likelihood > before.log_likelihood - 0.01
    fresh = embedx.SkipGram(objective=objective, **{**FEW, "epochs": 1}).fit(TEXT).model
    continued = train_more(
        start_folder(objective), TEXT, objective=objective, epochs=1, learning_rate=1e-3
    ).model

    def distance_to_old(model):
        return np.abs(rows(model, old.words, "input") - old.vectors).max()

    assert distance_to_old(continued) < 0.1 < distance_to_old(fresh)


@pytest.mark.parametrize("objective", ["ns", "ar", "hs"])
def test_kept_rows_are_means_weighted_by_their_counts_in_both_texts(start_folder, objective):
    old = embedx.load(start_folder(objective))
    new = train_more(start_folder(objective), objective=objective).model
    free = train_more(start_folder(objective), objective=objective, anchored=False).model
    former = old.counts[:, None]
    counts = new.counts[[new.index(word) for word in old.words]][:, None]
    array_names = ["input"] if objective == "hs" else ["input", "output"]
    for name in array_names:
        trained = rows(free, old.words, name)
        mean = (former * old.arrays[name] + (counts - former) * trained) / counts
        np.testing.assert_allclose(rows(new, old.words, name), mean, atol=1e-6)
    if objective == "ar":
        trained = rows(free, old.words, "bias")
        mean = (former[:, 0] * old.arrays["bias"] + (counts - former)[:, 0] * trained) / counts[
            :, 0
        ]
        np.testing.assert_allclose(rows(new, old.words, "bias"), mean, atol=1e-6)
    is_new = ["kitty", "lorry"]
    assert rows(new, is_new, "input").tobytes() == rows(free, is_new, "input").tobytes()
    assert not np.array_equal(rows(free, old.words, "input"), rows(new, old.words, "input"))


def test_ngrams_that_are_in_old_words_alone_stay_where_they_were(tmp_path):
    options = {**FEW, "subwords": "3-3", "buckets": 1000}
    old = embedx.SkipGram(**options).fit(TEXT).model
    new = embedx.SkipGram(**options, start=str(old.save(tmp_path / "old"))).fit([["the", "a"]] * 50)
    same = {"cat", "purr"}
    moved = {"the"}
    for word in same:
        np.testing.assert_array_equal(new.model[word], old[word])
    for word in moved:
        assert not np.array_equal(new.model[word], old[word])


def test_partial_fit_keeps_words_near_their_vectors_too(start_folder):
    model = embedx.SkipGram(**FEW).fit(TEXT)
    before = {word: model.model[word].copy() for word in ["cat", "fur"]}
    after = model.partial_fit([["fur", "the", "a"]] * 5).model
    np.testing.assert_array_equal(after["cat"], before["cat"])
    assert 0 < np.abs(after["fur"] - before["fur"]).max() < 0.05


def test_without_a_model_there_is_nothing_to_keep_near():
    with refused("anchored", "start"):
        embedx.SkipGram(**FEW, anchored=False)


@pytest.mark.parametrize("objective", REPRESENTATIVES)
def test_frozen_vectors_stay_to_the_last_bit_and_new_ones_move(start_folder, objective):
    old = embedx.load(start_folder())
    names = ["input"] if OBJECTIVES[objective].candidates == ("path",) else ["input", "output"]
    is_new = ["kitty", "lorry"]
    still = train_more(
        start_folder(), MORE[:100], freeze=True, objective=objective, epochs=1, learning_rate=1e-30
    ).model
    before = rows(still, is_new, "input")
    new = train_more(
        start_folder(), MORE[:100], freeze=True, objective=objective, epochs=2, threads=2
    ).model
    for name in names:
        assert rows(new, old.words, name).tobytes() == old.arrays[name].tobytes()
    assert (np.abs(rows(new, is_new, "input") - before).max(axis=1) > 1e-3).all()


@pytest.mark.parametrize("objective", ["ar", "ns"])
def test_biases_are_frozen_too(start_folder, objective):
    """The biases of `ns` are scores of the mean that its vectors no longer have."""
    old = embedx.load(start_folder(objective))
    new = train_more(start_folder(objective), freeze=True, objective=objective).model
    for name in ("input", "output", "bias"):
        assert rows(new, old.words, name).tobytes() == old.arrays[name].tobytes()


@pytest.mark.parametrize("freeze", [False, True])
def test_new_words_come_to_lie_near_their_synonyms(start_folder, freeze):
    new = train_more(start_folder(), freeze=freeze, epochs=10).model
    nearest = {
        word: {other for other, _ in new.most_similar(word, top_k=4)} for word in ("kitty", "lorry")
    }
    assert nearest["kitty"] <= set(CATS)
    assert nearest["lorry"] <= set(CARS)


@pytest.mark.parametrize("freeze", [False, True])
def test_a_run_that_continues_a_model_resumes_to_the_same_bytes(start_folder, freeze, stop_after):
    def run(snapshot=None, **options):
        return word_training.train(
            MORE,
            configure("ns", FEW | {"start": str(start_folder()), "freeze": freeze} | options),
            snapshot=snapshot,
        )

    uninterrupted = run().model.arrays
    stop_after(2)
    snapshot = run().outcome.state.snapshot()
    stop_after(None)
    resumed = run(snapshot).model.arrays
    by_one = run(deterministic=True, threads=1).model.arrays
    by_two = run(deterministic=True, threads=2).model.arrays
    for name in uninterrupted:
        np.testing.assert_array_equal(resumed[name], uninterrupted[name])
        np.testing.assert_array_equal(by_one[name], by_two[name])

    def identity(objective):
        return Start(StartSettings(start=str(start_folder(objective)))).identity()

    assert identity("ns") != identity("ar")


def test_kept_rows_begin_at_the_rate_of_plain_descent(start_folder):
    config = configure("ns", FEW | {"start": str(start_folder()), "optimizer": "rowwise-adagrad"})
    start = config.start
    settings = dataclasses.replace(config.settings, learning_rate=0.5)
    objective = config.objective
    words = [*start.model.words, "new"]
    tables = empty_tables(objective, settings, config.new_sampler(), 17)
    start.write(tables, words, objective, settings, np.zeros(0, np.int32))
    for table in (tables.inputs, tables.outputs):
        rates = settings.learning_rate / np.sqrt(table.state[:-1, 0])
        np.testing.assert_allclose(rates, RATE, rtol=1e-5)
        assert table.state[-1, 0] == 0
    np.testing.assert_array_equal(tables.inputs.rows[:-1, :8], start.model.vectors)

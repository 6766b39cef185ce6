"""CBOW: trained, scored on held-out text, resumed and continued; its gradient against finite
differences.

That blocks of it train as the naive reference does is tested with the forms of skip-gram.
"""

import numpy as np
import pytest

import embedx
from embedx.errors import InapplicableError
from embedx.evaluation import held_out
from embedx.skipgram.configuration import configure
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.objectives import make
from tests.support.refusals import refused
from tests.support.resumed_runs import assert_resumes, word_run
from tests.support.skipgram_setup import Setup
from tests.support.topic_vectors import assert_knows_the_topics, fit

CBOW = {"architecture": "cbow"}


@pytest.mark.compiles("words")
def test_each_context_moves_by_the_whole_gradient_of_the_mean():
    """By finite differences: where all centres have as many contexts, that is so many times its own
    derivative.
    """
    setup = Setup(
        make("ns"), architecture="cbow", block_size=64, window=1, keep_all=True, dim=5, n_tokens=60
    )
    setup.stream.word[:] = np.arange(len(setup.stream.word)) % 12
    setup.set_tokens(np.random.default_rng(1).integers(0, 12, 60).astype(np.int32))
    n_pairs = setup.assert_moves_by_the_gradient([(0, 0), (5, 2), (7, 1), (3, 4)], 2, 1, 59)
    assert n_pairs == 58


@pytest.mark.compiles("words")
@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_every_objective_learns_the_topics(two_topics, name):
    fitted = fit(two_topics, name, epochs=15, **CBOW)
    assert_knows_the_topics(fitted.model)
    assert fitted.model.settings["architecture"] == "cbow"
    assert "centre" in fitted.model.facts["loss_unit"]


def test_with_subwords_words_never_seen_have_vectors(two_topics, tmp_path):
    path = fit(two_topics, "ns", subwords="4-5", heldout=0.2, epochs=15, **CBOW).save(
        tmp_path / "model"
    )
    model = embedx.load(path)
    assert_knows_the_topics(model)
    assert model["trucks"].any()
    assert model.facts["heldout"]["log_likelihood"] > model.facts["heldout"]["unigram"]


@pytest.mark.parametrize("seed", range(3))
def test_held_out_pairs_are_the_centres_with_all_their_contexts(seed):
    words = np.arange(300, dtype=np.int32)
    sentences = np.arange(300) // 7
    arguments = words, sentences, np.ones(300, np.float32), 3, seed
    one_by_one = held_out.sample_pairs(*arguments, 10_000)
    together = held_out.sample_pairs(*arguments, 10_000, per_context=False)
    for target, contexts, group in zip(
        together.targets, together.inputs, together.groups, strict=True
    ):
        is_of_target = one_by_one.targets == target
        assert contexts[contexts >= 0].tolist() == one_by_one.inputs[is_of_target].tolist()
        assert set(one_by_one.groups[is_of_target]) == {group}
    assert len(together.targets) == len(set(one_by_one.targets))
    some = held_out.sample_pairs(*arguments, 50, per_context=False)
    assert len(set(some.targets.tolist())) == 50


def test_the_likelihood_of_a_centre_is_given_the_mean_of_its_contexts(two_topics):
    model = fit(two_topics, "softmax", epochs=2, **CBOW).model
    pairs, calibration = held_out.pairs_of([["cat", "dog", "truck", "road", "paw"] * 30], model)
    likelihood = held_out.evaluate(model, pairs, calibration)
    for i in range(20):
        contexts = pairs.inputs[i][pairs.inputs[i] >= 0]
        z = model.vectors[contexts].mean(axis=0) @ model.arrays["output"].T + model.arrays["bias"]
        expected = z[pairs.targets[i]] - np.log(np.exp(z.astype(np.float64)).sum())
        assert likelihood.values[i] == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("name", ["ns", "ar"])
def test_a_resumed_run_ends_with_the_same_bytes(name, stop_after):
    assert_resumes(word_run, name, stop_after, 4, **CBOW)


def test_training_that_starts_from_a_model_has_its_architecture(two_topics, tmp_path):
    path = fit(two_topics, "ns", epochs=1, **CBOW).save(tmp_path / "model")
    more = embedx.SkipGram("ns", epochs=1, min_count=1, threads=1, start=str(path)).fit(
        [["cat", "dog"] * 20] * 5
    )
    assert more.model.settings["architecture"] == "cbow"


def test_what_does_not_apply_is_refused():
    with refused("block_size", "architecture", value=0):
        configure("ns", {**CBOW, "block_size": 0})
    with refused("architecture", "collapsed", "objective", kind=InapplicableError):
        configure("softmax", CBOW, is_collapsed=True)
    with refused("architecture", value="cbwo"):
        configure("ns", {"architecture": "cbwo"})

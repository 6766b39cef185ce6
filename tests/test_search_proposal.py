"""`--sampler search` for losses that sum over all rows: rows found are certain, and weighted draws
stand for the others, so that the sum stays that over all rows.
"""

import numpy as np
import pytest

import embedx
from embedx.classification.settings import ClassifySettings
from embedx.cli.setting_options import classify_options, train_options
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES
from embedx.skipgram import strategies
from tests.support.label_training import train
from tests.support.refusals import refused
from tests.support.retrieval_problem import FINDS_EVERY_LABEL, problem
from tests.support.two_topics import CARS

pytestmark = pytest.mark.usefixtures("few_rows_are_retrieved")

INDEX = {name: value for name, value in FINDS_EVERY_LABEL.items() if name != "slack"}
PROPOSED = [
    name
    for name, objective in OBJECTIVES.items()
    if objective.traits.unbiased and "search" in objective.samplers()
]


def outputs_of(name, data, sampler, **options):
    """The output rows that a classifier learns."""
    options = {"sampler": sampler, "threads": 1, "schedule": "constant", "seed": 1} | options
    if data.is_sparse:
        options |= {"hidden": 12}
    objective = OBJECTIVES[name](OBJECTIVES[name].Settings.from_options(options))
    settings = ClassifySettings.from_options(options)
    index = {option: value for option, value in options.items() if option in INDEX}
    arrays = train(data, objective, settings, options=index).classifier.arrays
    return np.column_stack([arrays["output"], arrays["bias"]])


def test_every_loss_over_all_rows_takes_it():
    assert {"ove", "ar", "ar-probit", "ar-logistic", "umax", "bouchard", "ova"} <= set(PROPOSED)
    assert not {"ns", "implicit", "sampled-softmax"} & set(PROPOSED)


@pytest.mark.compiles("labels")
@pytest.mark.parametrize("kind", ["dense", "hidden"])
@pytest.mark.parametrize("name", ["ove", "ar", "ar-logistic", "ova"])
def test_where_every_row_is_found_training_is_that_on_all_rows(name, kind):
    """Rows of several labels: the other labels of a row are negatives of each."""
    data = problem(kind, n=100)
    options = {"optimizer": "sgd", "learning_rate": 0.01, "epochs": 2, "batch_size": 10}
    exact = outputs_of(name, data, "all", **options)
    searched = outputs_of(name, data, "search", **options, **INDEX, clusters=4, negatives=3)
    np.testing.assert_allclose(searched, exact, atol=2e-3 * abs(exact).max())


@pytest.mark.parametrize("labels", [[2], [2, 7]])
@pytest.mark.parametrize("name", ["ove", "ar", "ova"])
def test_the_mean_step_over_many_draws_is_that_on_all_rows(name, labels):
    """One batch of copies of a row, each with draws of its own, after a first step that makes the
    scores differ.
    """
    n = 3000
    rng = np.random.default_rng(0)
    x = np.tile(rng.normal(size=4).astype(np.float32), (n, 1))
    data = Labeled(x, Labels.of_rows([labels] * n), 12)
    options = {"optimizer": "sgd", "learning_rate": 0.3, "batch_size": 0, "bias": "frequency"}
    some = {"scored_fraction": 0.3, "candidate_fraction": 0.5, "clusters": 4, "warm_up": 0.0}
    exact = outputs_of(name, data, "all", epochs=2, **options)
    estimate = outputs_of(name, data, "search", epochs=2, negatives=3, **options, **some)
    np.testing.assert_allclose(estimate, exact, atol=0.08 * abs(exact).max())


@pytest.mark.parametrize("name", ["ove", "ar", "ar-probit"])
def test_retrieving_every_word_equals_training_on_all_rows(name, two_topics, monkeypatch):
    options = {
        "dim": 8,
        "epochs": 1,
        "sample": 0,
        "threads": 1,
        "block_size": 4,
        "optimizer": "rowwise-adagrad",
        "learning_rate": 0.2,
    }
    monkeypatch.setattr(strategies, "INITIAL_STATE_OF_ALL_ROWS", 0.0)  # as where rows are found
    exact = embedx.SkipGram(name, sampler="all", **options).fit(two_topics).model
    searched = embedx.SkipGram(name, sampler="search", **options, **INDEX, found=256, clusters=2)
    searched = searched.fit(two_topics).model
    np.testing.assert_allclose(
        searched.vectors, exact.vectors, atol=5e-3 * abs(exact.vectors).max()
    )


@pytest.mark.parametrize("name", ["ove", "ar"])
def test_words_learn_their_topic_from_found_and_drawn_rows(name, two_topics):
    model = embedx.SkipGram(
        name, sampler="search", dim=16, epochs=5, sample=0, threads=1, warm_up=0.5
    )
    model = model.fit(two_topics).model
    assert model.settings["warm_up"] == 0.5
    assert {word for word, _ in model.most_similar("truck", top_k=3)} <= set(CARS)


def test_the_default_sampler_stays():
    model = embedx.SkipGram("ar", sample=0).fit([["a", "b"] * 9]).model
    assert model.settings["sampler"] == "unigram"
    assert "warm_up" not in model.settings


# ---- the settings of the search


def test_both_commands_take_the_settings_of_the_search():
    assert "found" in train_options()
    assert "found" not in classify_options()
    assert {"warm_up", "scored_fraction", "clusters"} <= set(classify_options())


def test_settings_of_the_search_need_it(two_topics, tmp_path):
    with refused("warm_up", "sampler"):
        embedx.SkipGram("ove", warm_up=0.1).fit(two_topics)
    with refused("warm_up", "sampler"):
        embedx.SoftmaxClassifier("ove", warm_up=0.1).fit(np.eye(4), [0, 1, 2, 3])


def test_a_model_says_how_it_searched():
    data = problem("dense")
    objective = OBJECTIVES["ove"](OBJECTIVES["ove"].Settings())
    settings = ClassifySettings(sampler="search", threads=1, epochs=1)
    options = {"warm_up": 0.5}
    trained = train(data, objective, settings, options=options)
    assert trained.classifier.settings["warm_up"] == 0.5
    assert trained.classifier.settings["scored_fraction"] == 0.01

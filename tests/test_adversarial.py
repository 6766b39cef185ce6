"""Adversarial noise: the tree against the paper's own words, what is drawn by it, and what its
theorems promise.
"""

import numpy as np
import pytest
import reference_tree
from scipy.sparse import csr_matrix

from embedx import samplers
from embedx.classification import classifier as classifiers
from embedx.classification.estimator import SoftmaxClassifier
from embedx.classification.settings import ClassifySettings
from embedx.errors import InapplicableError
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.samplers import adversarial
from embedx.samplers.contract import new_sample_workspace, pairs_of
from embedx.samplers.principal_components import fit_projection, projected
from embedx.samplers.tree import fit_tree, log_likelihood, log_probabilities, n_leaves_for
from embedx.training import trainer
from tests.support import label_training
from tests.support.adversarial_trees import clusters, some_tree
from tests.support.clock import Clock
from tests.support.refusals import refused

NS = OBJECTIVES["ns"]


def new_sampler(x, y, n_labels, *, replacement=True, **options):
    sampler = samplers.make("adversarial", {"tree_features": 3, **options}, replacement=replacement)
    sampler.prepare(np.bincount(y, minlength=n_labels))
    sampler.fit(x, pairs_of(np.arange(len(y)), y, n_labels))
    return sampler


def log_counts(sampler, key, n_labels, n=1):
    """log of how often each label is expected among n draws for a key."""
    rows = np.arange(n_labels, dtype=np.int32)
    out = np.zeros(n_labels, dtype=np.float32)
    sampler.log_expected_count(sampler.data(n), key, n, 0, rows, n_labels, out)
    return out.astype(float)


# ---- the tree


@pytest.mark.parametrize("n_labels", [2, 3, 5, 8, 11])
def test_the_tree_is_the_papers(n_labels):
    tree, features, _, x, y = some_tree(n_labels)
    depth = (n_labels - 1).bit_length()
    exact = reference_tree.fit(x.astype(float), y, range(n_labels), depth, l2=0.5)
    leaves = [None if label < 0 else int(label) for label in tree.label_of_leaf]
    assert leaves == reference_tree.leaves(exact, depth)
    log_p = log_probabilities(tree, features[:20])
    for row, input_row in zip(log_p, x, strict=False):
        expected = [
            reference_tree.log_probability(exact, depth, input_row.astype(float), label)
            for label in range(n_labels)
        ]
        np.testing.assert_allclose(row, expected, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("n_labels", [1, 2, 3, 5, 8, 13, 16, 17, 100])
def test_probabilities_sum_to_one_and_each_label_has_a_leaf(n_labels):
    tree, features, *_ = some_tree(n_labels)
    assert len(tree.label_of_leaf) == n_leaves_for(n_labels)
    assert sorted(label for label in tree.label_of_leaf if label >= 0) == list(range(n_labels))
    np.testing.assert_array_equal(tree.label_of_leaf[tree.leaf_of_label], np.arange(n_labels))
    log_p = log_probabilities(tree, features)
    assert np.isfinite(log_p).all()
    np.testing.assert_allclose(np.exp(log_p.astype(float)).sum(axis=1), 1, atol=2e-5)


@pytest.mark.parametrize("n_labels", [3, 16, 41])
def test_fitting_raises_the_likelihood_at_every_refinement(n_labels):
    tree, features, pairs, *_ = some_tree(n_labels, n=2000)
    # labels stay where the eigenvector puts them
    once = fit_tree(features, 3, pairs, l2=0.5, max_rounds=0)
    refined, still = (log_likelihood(version, features, pairs) for version in (tree, once))
    assert refined >= still > -np.log(n_labels)
    assert refined > still or n_labels == 3  # which is one split and its only neighbour


def test_the_tree_does_not_depend_on_the_number_of_threads():
    one, *_ = some_tree(41, n=2000)
    three, *_ = some_tree(41, n=2000, threads=3)
    for a, b in zip(one, three, strict=True):
        np.testing.assert_array_equal(a, b)


def test_a_pair_of_weight_2_equals_two_pairs():
    _, features, _, _, y = some_tree(9)
    twice = np.random.default_rng(0).random(len(y)) < 0.5
    weighed = pairs_of(np.arange(len(y)), y, 9, 1.0 + twice)
    inputs = np.concatenate([np.arange(len(y)), np.flatnonzero(twice)])
    repeated = pairs_of(inputs, y[inputs], 9)
    a, b = (fit_tree(features, 3, pairs, l2=0.5) for pairs in (weighed, repeated))
    np.testing.assert_array_equal(a.label_of_leaf, b.label_of_leaf)
    np.testing.assert_allclose(a.weights, b.weights, atol=1e-3)
    assert log_likelihood(a, features, weighed) == pytest.approx(
        log_likelihood(b, features, repeated), rel=1e-4
    )


# ---- features


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_whitened_principal_components(sparse):
    rng = np.random.default_rng(0)
    x = (
        (rng.normal(size=(500, 4)) * [5, 3, 2, 1]) @ rng.normal(size=(4, 60))
        + rng.normal(0, 0.01, (500, 60))
        + 3
    )
    x = x.astype(np.float32)
    components = projected(
        csr_matrix(x) if sparse else x, fit_projection(csr_matrix(x) if sparse else x, 4)
    )
    assert components.shape == (500, 16)
    assert not components[:, 4:].any()
    np.testing.assert_allclose(components[:, :4].T @ components[:, :4] / 500, np.eye(4), atol=1e-3)
    exact = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0][:, :4] * np.sqrt(500)
    np.testing.assert_allclose(np.abs(np.diag(exact.T @ components[:, :4] / 500)), 1, atol=1e-2)


def test_directions_without_variance_are_left_out():
    x = np.random.default_rng(0).normal(size=(50, 2)).astype(np.float32) @ np.ones(
        (2, 7), np.float32
    )
    components = projected(x, fit_projection(x, 5))
    assert components[:, 0].std() == pytest.approx(1, abs=1e-3)
    assert not components[:, 1:].any()
    assert np.isfinite(
        projected(np.ones((5, 3), np.float32), fit_projection(np.ones((5, 3), np.float32), 5))
    ).all()


# ---- draws


@pytest.mark.parametrize("n_labels", [2, 3, 5, 8, 11])
@pytest.mark.parametrize("share", [0.0, 0.3])
def test_draws_have_the_stated_probabilities(n_labels, share):
    """Pearson's chi-square of 20,000 draws for each of three inputs; a label of padding would be
    out of range.
    """
    x, y = clusters(300, n_labels, 3)
    sampler = new_sampler(x, y, n_labels, uniform_share=share, tree_l2=3.0)
    data = sampler.data(1)
    workspace = new_sample_workspace(20_000, 0)
    n = 20_000
    for key in range(3):
        assert sampler.sample(data, key, np.uint64(77), np.uint64(0), n, 0, workspace) == n
        rows = workspace.rows[:n]
        assert 0 <= rows.min() <= rows.max() < n_labels
        expected = n * np.exp(log_counts(sampler, key, n_labels))
        assert expected.sum() == pytest.approx(n, rel=1e-4)
        counts = np.bincount(rows, minlength=n_labels)
        often = expected > 5
        counts, expected = (np.append(a[often], a[~often].sum()) for a in (counts, expected))
        assert (counts[-1] - expected[-1]) ** 2 <= 25 * max(expected[-1], 1)
        # up to 10 degrees of freedom
        assert ((counts[:-1] - expected[:-1]) ** 2 / expected[:-1]).sum() < 45


# ---- classifiers


def train(data, objective="ns", *, objective_options=None, start=None, **options):
    objective_class = OBJECTIVES[objective]
    settings = ClassifySettings(
        **{"threads": 1, "sampler": "adversarial", "epochs": 3, "batch_size": 10} | options
    )
    return label_training.train(
        data,
        objective_class(objective_class.Settings()),
        settings,
        options=objective_options,
        start=start,
    )


@pytest.mark.compiles("labels")
def test_predictions_of_a_saved_model_are_the_same(tmp_path):
    train_data, test_data = digits(400, 100)
    for replacement in (True, False):
        trained = train(
            train_data, replacement=replacement, objective_options={"tree_features": 5}
        ).classifier
        folder = trained.save(tmp_path / f"model-{replacement}")
        loaded = classifiers.load(folder)
        before, after = (
            np.concatenate([p for _, p in classifier.blocks(test_data.features)])
            for classifier in (trained, loaded)
        )
        np.testing.assert_allclose(before, after, atol=1e-6)
        np.testing.assert_allclose(np.exp(after).sum(axis=1), 1, atol=1e-4)
        assert loaded.settings["tree_features"] == 5
        assert loaded.evaluate(test_data)["accuracy"] > 0.75
        ids, _ = next(loaded.iter_top_k(test_data.features, 3))
        np.testing.assert_array_equal(ids[:, 0], after.argmax(axis=1))
        z = loaded.scores(loaded.prepared(test_data.features))
        assert np.abs(loaded.log_probability(z, np.zeros(10)) - after).max() > 0.1, (
            "the noise matters"
        )


@pytest.mark.slow
def test_free_scores_learn_the_distribution_of_the_data():
    """Theorem 1 where inputs are one of four and every score is free: a row of weights for each."""
    log_p = np.random.default_rng(3).normal(0, 0.4, (4, 6))
    rng = np.random.default_rng(0)
    log_p[:2, :3] += 2.5
    log_p[2:, 3:] += 2.5
    p = np.exp(log_p) / np.exp(log_p).sum(axis=1, keepdims=True)
    inputs = rng.integers(0, 4, 5_000)
    y = (rng.random((len(inputs), 1)) > p[inputs].cumsum(axis=1)).sum(axis=1)
    data = Labeled(np.eye(4, dtype=np.float32)[inputs], Labels.single(y), 6)
    seen = np.array(
        [np.bincount(y[inputs == x], minlength=6) / (inputs == x).sum() for x in range(4)]
    )
    for sampler, replacement in (("adversarial", True), ("adversarial", False), ("unigram", True)):
        classifier = train(
            data, sampler=sampler, replacement=replacement, epochs=20, bias="none", batch_size=50
        ).classifier
        log_p = next(classifier.blocks(np.eye(4, dtype=np.float32)))[1]
        np.testing.assert_allclose(np.exp(log_p), seen, atol=0.02)


def test_resuming_keeps_the_noise():
    data, _ = digits(400, 10)
    first = train(data)
    other = data.rows(np.arange(200, 400))
    second = train(other, start=first)
    for name, array in first.classifier.arrays.items():
        if name.startswith("noise_"):
            np.testing.assert_array_equal(second.classifier.arrays[name], array)
    assert second.classifier.facts["fit_seconds"] == 0
    assert (
        second.classifier.evaluate(data)["accuracy"]
        >= first.classifier.evaluate(data)["accuracy"] - 0.05
    )


def test_fitting_is_part_of_the_time_that_is_reported(monkeypatch):
    clock = Clock(tick=0.001)
    monkeypatch.setattr(adversarial, "time", clock)
    monkeypatch.setattr(trainer, "time", clock)
    data, _ = digits(400, 50)
    facts = train(data, validation="0.1").classifier.facts
    assert 0 < facts["fit_seconds"] < facts["seconds"]
    assert all(entry["seconds"] > facts["fit_seconds"] for entry in facts["history"])
    assert facts["fit_seconds"] == pytest.approx(clock.tick)


def test_what_is_hardly_trained_predicts_what_the_tree_does():
    data, test = digits(400, 50)
    hardly = train(data, learning_rate=1e-6, epochs=1).classifier
    assert hardly.evaluate(test)["accuracy"] > 0.5


def test_the_estimator_accepts_adversarial_noise():
    data, test = digits(400, 100)
    fitted = SoftmaxClassifier(
        "ns", sampler="adversarial", tree_l2=0.5, tree_features=8, epochs=3, batch_size=10
    )
    fitted.fit(data.features, data.labels.ids)
    assert fitted.classifier_.settings["tree_l2"] == 0.5
    assert fitted.score(test.features, test.labels.ids) > 0.75
    np.testing.assert_allclose(fitted.predict_proba(test.features).sum(axis=1), 1, atol=1e-4)
    fitted.partial_fit(data.features, data.labels.ids)
    assert fitted.score(test.features, test.labels.ids) > 0.75


@pytest.mark.parametrize("n_labels", [1, 2, 3])
def test_adversarial_noise_works_with_few_labels(n_labels):
    x, y = clusters(60, n_labels, 4)
    trained = train(Labeled(x, Labels.single(y), n_labels)).classifier
    assert np.isfinite(next(trained.blocks(x))[1]).all()


# ---- what cannot be


def test_mistakes_get_one_line():
    fields = {"kind": InapplicableError, "remedy": "use it with adversarial"}
    with refused("tree_l2", "sampler", **fields):
        train(digits(50, 1)[0], sampler="uniform", objective_options={"tree_l2": 1.0})

"""The parts of fitting the tree of adversarial noise, each by itself, against NumPy."""

import dataclasses

import numpy as np
import pytest
from reference_tree import best_parameters, fit, leaves, likelihood

from embedx import samplers
from embedx.runtime.progress import Silent
from embedx.samplers import adversarial, principal_components as projecting, tree
from embedx.samplers.alias import drawn_at_all
from embedx.samplers.contract import pairs_of
from tests.support.adversarial_trees import clusters, features_of, some_tree
from tests.support.refusals import refused_data


def workspace_at(theta):
    workspace = tree._new_workspace(len(theta))
    workspace.theta[:] = theta
    return workspace


def test_newtons_method_halves_steps_that_lower_the_objective():
    """From far away, where the sigmoid is flat and a step goes much too far."""
    x, y = clusters(300, 2, 3)
    features = features_of(x)
    pairs = pairs_of(np.arange(300), y, 2, np.full(300, 2))
    labels = tree._Labels(
        np.arange(2, dtype=np.int32), np.zeros((2, 4)), np.zeros(2), np.zeros(2, np.int8)
    )
    fit_of_node = tree._Fit(features, pairs, 0.02, 0, labels, np.zeros((0, 0)), np.zeros(0))
    node = tree._Node(low=0, middle=1, high=2, n_pairs=tree.MAX_PAIRS)
    theta = np.array([4.0, -5.0, 3.0, 2.0])
    sign = np.where(y == 1, 1, -1)
    workspace = workspace_at(-theta)
    workspace.gradient[:] = 0
    loss, _ = tree._gradient_and_hessian(fit_of_node, node, workspace)
    assert loss == pytest.approx(2 * likelihood(-theta, x, sign, 0.01), rel=1e-5)
    tree._newton_step(workspace)
    assert 2 * likelihood(-theta + workspace.step, x, sign, 0.01) < loss, (
        "the whole step leads down"
    )
    tree._ascend(fit_of_node, node, tree.TOLERANCE, workspace)
    np.testing.assert_allclose(workspace.theta, best_parameters(x, sign, 0.01), atol=1e-2)


@pytest.mark.parametrize(("n_labels", "seed"), [(3, 10), (3, 17), (4, 25), (4, 30)])
def test_few_labels_change_sides_too_after_the_first_split(n_labels, seed):
    """Where a label's sum of features is long because it is frequent, and not because it lies far
    out.
    """
    rng = np.random.default_rng(seed)
    y = rng.choice(n_labels, 60, p=np.array([8, 4, 2, 1])[:n_labels] / (15 - (n_labels == 3)))
    x = (rng.normal(size=(n_labels, 2))[y] + 2 * rng.normal(size=(60, 2)) + 1).astype(np.float32)
    features = features_of(x)
    pairs = pairs_of(np.arange(60), y, n_labels)
    labels = tree.fit_tree(features, 2, pairs, l2=0.5).label_of_leaf
    at_first = tree.fit_tree(features, 2, pairs, l2=0.5, max_rounds=0).label_of_leaf
    exact = leaves(fit(x.astype(float), y, range(n_labels), 2, l2=0.5), 2)
    assert labels.tolist() == [-1 if label is None else label for label in exact]
    assert labels.tolist() != at_first.tolist()


def test_a_share_of_draws_is_uniform_unless_predictions_are_corrected_or_it_is_set():
    settings = adversarial.AdversarialSettings()
    assert adversarial.Adversarial.fill_defaults(settings, corrected=True).uniform_share == 0
    assert (
        adversarial.Adversarial.fill_defaults(settings, corrected=False).uniform_share
        == adversarial.UNIFORM_SHARE
    )
    for corrected in (True, False):
        changed = dataclasses.replace(settings, uniform_share=0.25)
        filled = adversarial.Adversarial.fill_defaults(changed, corrected=corrected)
        assert filled.uniform_share == 0.25


def test_fitting_reports_the_tree_its_features_and_its_likelihood():
    class Notes(Silent):
        def note(self, *message):
            notes.append("".join(message))

    notes = []
    x, y = clusters(90, 4, 5)
    sampler = samplers.make("adversarial", {"tree_features": 3})
    pairs = pairs_of(np.arange(90), y, 4)
    sampler.prepare(np.bincount(y, minlength=4))
    sampler.fit(x, pairs, progress=Notes())
    likely = tree.log_likelihood(sampler.tree, sampler.features, pairs)
    assert notes[0] == "fitting a tree of 4 labels to 3 features of 90 inputs"
    assert notes[1].endswith(f" s; mean log-likelihood {likely:.3f}")


def test_on_average_noise_is_as_frequent_as_labels_and_one_never_seen_counts_as_half():
    sampler = samplers.make("adversarial", {})
    sampler.prepare(np.array([5, 0, 1]))
    np.testing.assert_allclose(sampler.noise, np.array([5, 0.5, 1]) / 6.5)
    np.testing.assert_allclose(sampler.log_noise(3), np.log(3 * sampler.noise), rtol=1e-6)


def test_components_are_those_of_some_of_many_rows(monkeypatch):
    x = np.random.default_rng(0).normal(size=(60, 4)).astype(np.float32)
    chosen = np.sort(np.random.default_rng(3).choice(60, 25, replace=False))
    monkeypatch.setattr(projecting, "MAX_ROWS", 25)
    projection = projecting.fit_projection(x, 4, seed=3)
    features = projecting.projected(x, projection)[:, :4]
    np.testing.assert_allclose(features[chosen].mean(axis=0), 0, atol=1e-4)
    np.testing.assert_allclose(features[chosen].T @ features[chosen] / 25, np.eye(4), atol=1e-3)
    assert np.abs(features.mean(axis=0)).max() > 0.01


def test_labels_that_are_all_alike_have_some_direction():
    labels = tree._Labels(
        np.arange(3, dtype=np.int32), np.ones((3, 5)), np.zeros(3), np.zeros(3, np.int8)
    )
    workspace = workspace_at(np.zeros(5))
    node = tree._Node(low=0, middle=1, high=3, n_pairs=0)
    tree._dominant_eigenvector(labels, node, workspace)
    np.testing.assert_array_equal(workspace.theta, [1, 0, 0, 0, 0])
    assert [tree._split(labels, node, workspace) for _ in range(2)] == [
        2,
        0,
    ], "how many change sides"


def test_the_probability_of_at_least_one_draw():
    noise = np.array([0.2, 0.5, 1e-9, 1])
    np.testing.assert_allclose(drawn_at_all(noise, 7), [1 - 0.8**7, 1 - 0.5**7, 7e-9, 1], rtol=1e-6)


@pytest.mark.parametrize("n_labels", [3, 8])
def test_the_likelihood_is_the_mean_log_probability_of_the_pairs(n_labels):
    fitted, features, _, _, y = some_tree(n_labels)
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(np.float32)
    weighed = pairs_of(np.arange(len(y)), y, n_labels, weights)
    log_p = tree.log_probabilities(fitted, features)[np.arange(len(y)), y].astype(float)
    assert tree.log_likelihood(fitted, features, weighed) == pytest.approx(
        log_p @ weights / weights.sum(), rel=1e-5
    )
    assert (
        tree.log_likelihood(
            fitted, features, pairs_of(np.zeros(0, int), np.zeros(0, int), n_labels)
        )
        == 0
    )


def test_log_probabilities_are_the_same_in_blocks_of_inputs():
    fitted, features, *_ = some_tree(5, n=2 * tree.BATCH + 3)
    one_by_one = np.concatenate(
        [tree.log_probabilities(fitted, features[i : i + 1]) for i in range(0, len(features), 8)]
    )
    np.testing.assert_allclose(tree.log_probabilities(fitted, features)[::8], one_by_one, atol=1e-5)


def saved_sampler():
    """A fitted sampler of five labels, which has a tree of eight leaves, and a fresh
    one for them.
    """
    x, y = clusters(90, 5, 4)
    fitted, fresh = (samplers.make("adversarial", {"tree_features": 3}) for _ in range(2))
    for sampler in (fitted, fresh):
        sampler.prepare(np.bincount(y, minlength=5))
    fitted.fit(x, pairs_of(np.arange(90), y, 5))
    return fitted, fresh


def test_a_saved_sampler_is_restored():
    fitted, fresh = saved_sampler()
    fresh.restore(fitted.arrays())
    for restored, saved in zip(fresh.tree, fitted.tree, strict=True):
        np.testing.assert_array_equal(restored, saved)


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("projection", lambda a: a[:, :8]),
        *((name, lambda a: a[:-1]) for name in ("offset", "weights", "biases", "leaves")),
        ("leaves", lambda a: np.where(a == a[0], a[1], a)),
        ("leaves", lambda a: a - a.min() - 1),
        ("leaves", lambda a: a + 8 - a.max()),
    ],
)
def test_saved_arrays_that_do_not_fit_are_refused(name, damage):
    fitted, fresh = saved_sampler()
    arrays = fitted.arrays()
    arrays[f"noise_{name}"] = damage(arrays[f"noise_{name}"])
    with refused_data(f"noise_{name}.npy"):
        fresh.restore(arrays)

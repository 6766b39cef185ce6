"""The parts of fitting the tree of adversarial noise, each by itself, against NumPy."""

import dataclasses

import numpy as np
import pytest
from reference_tree import first_direction, fit, leaves, likelihood, right_half
from scipy.sparse import csr_matrix
from test_adversarial import clusters, features_of, some_tree

from embedx import samplers
from embedx.errors import EmbedxError
from embedx.samplers import adversarial, tree
from embedx.samplers import principal_components as projecting
from embedx.samplers.alias import drawn_at_all
from embedx.samplers.contract import pairs_of
from embedx.training.progress import Silent

L2 = 0.3
N_LABELS = 6


def weighed_pairs(k, n=150):
    """Features (n, stride) of which k count, and pairs of N_LABELS labels."""
    rng = np.random.default_rng(k)
    features = features_of(rng.normal(size=(n, k)).astype(np.float32))
    inputs, y = rng.integers(0, n, 500), rng.integers(0, N_LABELS - 1, 500)
    return features, pairs_of(inputs, y, N_LABELS, rng.integers(1, 4, len(y)) / 2)


def labels_of(features, pairs, k, order):
    labels = tree._Labels(order, np.zeros((N_LABELS, k + 1)), np.zeros(N_LABELS), np.zeros(N_LABELS, np.int8))
    tree._sum_features(features, pairs, labels.sums)
    return labels


def workspace_at(theta):
    n = len(theta)
    workspace = tree._Workspace(*np.zeros((5, n)), np.zeros((n, n)))
    workspace.theta[:] = theta
    return workspace


@pytest.mark.parametrize("k", [3, 16, 18])
@pytest.mark.parametrize("every", [1, 3])
def test_one_look_gives_value_gradient_and_hessian_of_equation_8(k, every):
    """The labels order[1:3] are left, order[3:5] right; of many pairs every third is looked at, and counts three times."""
    features, pairs = weighed_pairs(k)
    order = np.array([5, 2, 0, 4, 1, 3], np.int32)
    theta = np.random.default_rng(0).normal(0, 0.5, k + 1)
    taken = np.concatenate([np.arange(pairs.offsets[y], pairs.offsets[y + 1]) for y in order[1:5]])[every - 1 :: every]
    sign = np.where(np.isin(np.searchsorted(pairs.offsets, taken, side="right") - 1, order[3:5]), 1.0, -1.0)
    x = np.column_stack([features[pairs.inputs[taken], :k], np.ones(len(taken))]).astype(float)
    weight = every * pairs.weights[taken].astype(float)
    margin = sign * (x @ theta)
    wrong = 1 / (1 + np.exp(margin))
    value = -(weight @ np.logaddexp(0, -margin)) - L2 * theta @ theta
    gradient = x.T @ (weight * sign * wrong) - 2 * L2 * theta
    hessian = (x.T * (weight * wrong * (1 - wrong))) @ x + 2 * L2 * np.eye(k + 1)
    workspace = workspace_at(theta)
    workspace.hessian[:] = workspace.gradient[:] = 7  # of the step before
    n_pairs = (every - 1) * tree.MAX_PAIRS + 1
    found = tree._gradient_and_hessian(features, pairs, order, 1, 3, 5, n_pairs, L2, workspace)
    np.testing.assert_allclose(found, (value, weight.sum()), rtol=1e-5)
    np.testing.assert_allclose(workspace.gradient, gradient, rtol=1e-4, atol=1e-3)
    np.testing.assert_allclose(np.tril(workspace.hessian), np.tril(hessian), rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize("n", [1, 2, 5])
def test_a_newton_step_solves_for_the_gradient_and_promises_half_their_product(n):
    rng = np.random.default_rng(n)
    root = rng.normal(size=(n, n))
    hessian, gradient = root @ root.T + np.eye(n), rng.normal(size=n)
    workspace = workspace_at(np.zeros(n))
    workspace.gradient[:], workspace.hessian[:] = gradient, np.tril(hessian) + np.triu(np.full((n, n), 99.0), 1)
    promised = tree._newton_step(workspace)
    step = np.linalg.solve(hessian, gradient)
    np.testing.assert_allclose(workspace.step, step, rtol=1e-9)
    assert promised == pytest.approx(0.5 * gradient @ step)


def test_newtons_method_goes_up_from_where_its_steps_lead_down():
    """From far away, where the sigmoid is flat and a step goes much too far."""
    x, y = clusters(300, 2, 3)
    features, pairs = features_of(x), pairs_of(np.arange(300), y, 2)
    order, theta = np.arange(2, dtype=np.int32), np.array([4.0, -5.0, 3.0, 2.0])
    sign = np.where(y == 1, 1, -1)
    best = tree.fit_tree(features, 3, pairs, l2=0.01)
    workspace = workspace_at(-theta)
    workspace.gradient[:] = 0
    found = tree._gradient_and_hessian(features, pairs, order, 0, 1, 2, 300, 0.01, workspace)[0]
    assert found == pytest.approx(likelihood(-theta, x, sign, 0.01), rel=1e-5)
    tree._newton_step(workspace)
    assert likelihood(-theta + workspace.step, x, sign, 0.01) < found, "the whole step leads down"
    tree._ascend(features, pairs, order, 0, 1, 2, 300, 0.01, tree.TOLERANCE, workspace)
    np.testing.assert_allclose(workspace.theta, [*best.weights[0, :3], best.biases[0]], atol=1e-2)


def test_labels_with_the_largest_gain_go_right_and_those_that_change_sides_are_counted():
    features, pairs = weighed_pairs(3)
    labels = labels_of(features, pairs, 3, np.array([5, 2, 0, 4, 1, 3], np.int32))
    in_node = labels.order[1:6].copy()
    for theta in np.random.default_rng(1).normal(size=(6, 4)):
        gain = {y: np.sum(pairs.weights[a:b] * (features[pairs.inputs[a:b], :3] @ theta[:3] + theta[3]))
                for y, (a, b) in enumerate(zip(pairs.offsets[:-1], pairs.offsets[1:], strict=True))}  # fmt: skip
        before = labels.side.copy()
        n_changed = tree._split(labels, 1, 3, 6, workspace_at(theta))
        right = right_half(in_node, gain)
        assert set(labels.order[3:6]) == right == set(np.flatnonzero(labels.side))
        assert labels.order[0] == 5
        assert n_changed == (labels.side != before).sum()


def test_the_first_split_is_along_the_dominant_eigenvector():
    features, pairs = weighed_pairs(5)
    order = np.array([5, 2, 0, 4, 1, 3], np.int32)
    labels = labels_of(features, pairs, 5, order)
    for y in range(N_LABELS):
        a, b = pairs.offsets[y], pairs.offsets[y + 1]
        np.testing.assert_allclose(labels.sums[y, :5], pairs.weights[a:b] @ features[pairs.inputs[a:b], :5], atol=1e-4)
        assert labels.sums[y, 5] == pairs.weights[a:b].sum()
    labels.sums[:, 1] *= 3  # a gap between the eigenvalues
    workspace = workspace_at(np.full(6, 9.0))
    tree._dominant_eigenvector(labels, 1, 5, workspace)
    np.testing.assert_allclose(workspace.theta, [*first_direction(labels.sums[order[1:5], :5].astype(float)), 0], atol=1e-4)


@pytest.mark.parametrize(("n_labels", "seed"), [(3, 10), (3, 17), (4, 25), (4, 30)])
def test_few_labels_change_sides_too_after_the_first_split(n_labels, seed, monkeypatch):
    """Where a label's sum of features is long because it is frequent, and not because it lies far out."""
    rng = np.random.default_rng(seed)
    y = rng.choice(n_labels, 60, p=np.array([8, 4, 2, 1])[:n_labels] / (15 - (n_labels == 3)))
    x = (rng.normal(size=(n_labels, 2))[y] + 2 * rng.normal(size=(60, 2)) + 1).astype(np.float32)
    features, pairs = features_of(x), pairs_of(np.arange(60), y, n_labels)
    found = tree.fit_tree(features, 2, pairs, l2=0.5).label_of_leaf
    monkeypatch.setattr(tree, "ROUNDS", 0)
    at_first = tree.fit_tree(features, 2, pairs, l2=0.5).label_of_leaf
    exact = leaves(fit(x.astype(float), y, range(n_labels), 2, l2=0.5), 2)
    assert found.tolist() == [-1 if label is None else label for label in exact]
    assert found.tolist() != at_first.tolist()


def test_a_share_of_draws_is_uniform_unless_predictions_are_corrected_or_it_is_set():
    settings = adversarial.AdversarialSettings()
    assert adversarial.Adversarial.resolved(settings, corrected=True).uniform_share == 0
    assert adversarial.Adversarial.resolved(settings, corrected=False).uniform_share == adversarial.UNIFORM_SHARE
    for corrected in (True, False):
        own = dataclasses.replace(settings, uniform_share=0.25)
        assert adversarial.Adversarial.resolved(own, corrected=corrected).uniform_share == 0.25


def test_fitting_says_what_is_fitted_to_what():
    class Notes(Silent):
        def note(self, message):
            notes.append(message)

    notes = []
    x, y = clusters(90, 4, 5)
    sampler, pairs = samplers.make("adversarial", {"tree_features": 3}), pairs_of(np.arange(90), y, 4)
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


@pytest.mark.parametrize("sparse", [False, True])
def test_features_are_the_left_singular_vectors(sparse):
    x = (np.random.default_rng(0).normal(size=(40, 21)) * (np.arange(21) + 1)).astype(np.float32)
    inputs = csr_matrix(x) if sparse else x
    found = projecting.projected(inputs, projecting.fit_projection(inputs, 3))
    exact = np.linalg.svd(x - x.mean(axis=0), full_matrices=False)[0][:, :3] * np.sqrt(40)
    np.testing.assert_allclose(np.abs(found[:, :3]), np.abs(exact), atol=0.05)


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
    labels = tree._Labels(np.arange(3, dtype=np.int32), np.ones((3, 5)), np.zeros(3), np.zeros(3, np.int8))
    workspace = workspace_at(np.zeros(5))
    tree._dominant_eigenvector(labels, 0, 3, workspace)
    np.testing.assert_array_equal(workspace.theta, [1, 0, 0, 0, 0])


def test_what_is_drawn_at_all_is_one_or_more_of_its_draws():
    noise = np.array([0.2, 0.5, 1e-9, 1])
    np.testing.assert_allclose(drawn_at_all(noise, 7), [1 - 0.8**7, 1 - 0.5**7, 7e-9, 1], rtol=1e-6)


@pytest.mark.parametrize("n_labels", [3, 8])
def test_the_likelihood_is_the_mean_log_probability_of_the_pairs(n_labels):
    fitted, features, _, _, y = some_tree(n_labels)
    weights = np.random.default_rng(0).integers(1, 4, len(y)).astype(np.float32)
    weighed = pairs_of(np.arange(len(y)), y, n_labels, weights)
    log_p = tree.log_probabilities(fitted, features)[np.arange(len(y)), y].astype(float)
    assert tree.log_likelihood(fitted, features, weighed) == pytest.approx(log_p @ weights / weights.sum(), rel=1e-5)
    assert tree.log_likelihood(fitted, features, pairs_of(np.zeros(0, int), np.zeros(0, int), n_labels)) == 0


def test_log_probabilities_are_the_same_in_blocks_of_inputs():
    fitted, features, *_ = some_tree(5, n=2 * tree.SCORED + 3)
    one_by_one = np.concatenate([tree.log_probabilities(fitted, features[i : i + 1]) for i in range(0, len(features), 8)])
    np.testing.assert_allclose(tree.log_probabilities(fitted, features)[::8], one_by_one, atol=1e-5)


def test_nodes_are_cut_into_chunks_of_about_as_much_work():
    n_pairs = np.random.default_rng(0).integers(0, 200, 1000)
    for chunks in (1, 2, 8, 3000):
        edges = tree._edges(n_pairs, chunks)
        assert edges[0] == 0
        assert edges[-1] == 1000
        assert (np.diff(edges) > 0).all()
        assert len(edges) - 1 == min(chunks, 1000) or chunks == 3000
        work = np.add.reduceat(n_pairs + 30, edges[:-1])
        assert work.max() <= work.sum() / chunks + 230
    np.testing.assert_array_equal(tree._edges(np.array([1000]), 8), [0, 1])


def saved_sampler():
    """A fitted sampler of five labels, which has a tree of eight leaves, and a fresh one for them."""
    x, y = clusters(90, 5, 4)
    fitted, fresh = (samplers.make("adversarial", {"tree_features": 3}) for _ in range(2))
    for sampler in (fitted, fresh):
        sampler.prepare(np.bincount(y, minlength=5))
    fitted.fit(x, pairs_of(np.arange(90), y, 5))
    return fitted, fresh


def test_what_is_saved_is_restored():
    fitted, fresh = saved_sampler()
    fresh.restore(fitted.arrays())
    for restored, own in zip(fresh.tree, fitted.tree, strict=True):
        np.testing.assert_array_equal(restored, own)


@pytest.mark.parametrize(
    ("name", "damage", "complaint"),
    [
        ("projection", lambda a: a[:, :8], "noise_weights.npy: "),
        ("offset", lambda a: a[:8], "noise_weights.npy: "),
        ("weights", lambda a: a[:-1], "noise_weights.npy: "),
        ("biases", lambda a: a[:-1], "noise_biases.npy: "),
        ("leaves", lambda a: a[:-1], "noise_biases.npy: "),
        ("leaves", lambda a: np.where(a == a[0], a[1], a), "noise_leaves.npy: not a leaf of its own"),
        ("leaves", lambda a: a - a.min() - 1, "noise_leaves.npy: not a leaf of its own"),
        ("leaves", lambda a: a + 8 - a.max(), "noise_leaves.npy: not a leaf of its own"),
    ],
)
def test_what_is_saved_of_another_shape_is_refused(name, damage, complaint):
    fitted, fresh = saved_sampler()
    arrays = fitted.arrays()
    arrays[f"noise_{name}"] = damage(arrays[f"noise_{name}"])
    with pytest.raises(EmbedxError, match=complaint):
        fresh.restore(arrays)

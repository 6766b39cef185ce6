"""Tiles of sparse weights are trained as by loops over rows and features."""

import numpy as np
import pytest
from reference_tiles import naive_dual_tile, naive_tile
from scipy.sparse import csr_matrix, random_array

from embedx.engine import sparse_tiles, tiles
from embedx.engine.examples import Csr, csr_of, examples_of
from embedx.engine.loading import load_kernel
from embedx.engine.select import JOINT
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labels
from embedx.optimizers import update_rule
from embedx.runtime.progress import Silent
from tests.support.label_data import ova

KEY = stream_key(3, 5)


def labelled_rows(rng, n, n_features, n_labels, density, share):
    """Dense features (n, n_features) of which few are not 0, and which row has which label; one row
    has none.
    """
    x = np.asarray(
        random_array((n, n_features), density=density, rng=rng).todense(), dtype=np.float32
    )
    y = rng.random((n, n_labels)) < share
    y[7] = False
    return x, y


def tile_plan(objective, optimizer, batch_size=1, **options):
    options = {
        "has_bias": True,
        "lr": np.float32(0),
        "threshold": np.float32(-1),
        "key": KEY,
    } | options
    return tiles.TilePlan(
        batch_size,
        1.0,
        keeps_accidental_hits=False,
        positives=JOINT,
        is_sparse=True,
        optimizer=optimizer,
        constants=objective.constants(1, 1),
        **options,
    )


def some_weights(n):
    """Weights of rows, 1 on average."""
    weights = np.random.default_rng(3).choice([0.25, 1.0, 3.0], n)
    return weights / weights.mean()


def trained_tile(kernel, function, x, y, members, plan, row_weight):
    """The weights and biases of the labels, (n_labels, n_features + 1), trained on the rows that
    are members, and the loss.

    row_weight  1 on average
    """
    (n, n_features), n_labels = x.shape, y.shape[1]
    examples = examples_of(
        csr_matrix(x), Labels.of_rows([np.flatnonzero(row).tolist() for row in y]), row_weight
    )
    y_of_members = y.copy()
    y_of_members[np.setdiff1d(np.arange(n), members)] = False
    row, label = np.nonzero(y_of_members)
    positives = csr_of(label, row, n_labels)
    is_dual = kernel is sparse_tiles.train_tile_dual
    worker = tiles.new_workspace(
        n, len(examples.values), n_features, plan.batch_size, plan.optimizer, is_dual=is_dual
    )
    # the first of two groups is empty
    groups = Csr(np.array([0, 0, len(members)], dtype=np.int64), members.astype(np.int32))
    bias = np.zeros(n_labels, dtype=np.float32)
    arguments = (
        examples,
        sparse_tiles.LabelGroups(groups, positives, bias),
        1,
        0,
        n_labels,
        plan,
        worker,
    )
    functions = load_kernel(kernel, function, None, arguments, Silent())
    for _ in range(2):  # what a tile leaves behind does not matter to the next
        bias[:] = 0
        loss, kept = kernel(*functions, *arguments)
        feature, label, value = sparse_tiles.kept_weights(
            arguments[1], 0, n_labels, plan, worker, kept
        )
    weights = np.zeros((n_labels, n_features + 1))
    weights[label, feature], weights[:, -1] = value, bias
    return weights, loss


@pytest.mark.parametrize(
    ("loss", "optimizer", "l2", "lr", "has_bias", "first_state", "is_weighted", "of_positives"),
    [
        ("squared-hinge", "adagrad", 0, 0.3, True, 0, False, True),
        ("logistic", "adagrad", 0.01, 0.3, True, 0, False, True),
        ("logistic", "sgd", 0, 0.5, False, 0, False, True),
        ("squared-hinge", "sgd", 0.01, 0.5, True, 0, False, True),
        ("logistic", "adagrad", 0, 0.3, True, 0.01, False, True),
        ("logistic", "sgd", 0, 0.5, True, 0, True, True),
        ("squared-hinge", "adagrad", 0.01, 0.3, True, 0, True, True),
        ("logistic", "adagrad", 0.01, 0.3, True, 0, True, False),
    ],
)
def test_a_tile_is_trained_as_by_loops_with_sparsity_masks(
    loss, optimizer, l2, lr, has_bias, first_state, is_weighted, of_positives
):
    rng = np.random.default_rng(1)
    objective = ova(loss)
    x, y = labelled_rows(rng, 60, 25, 7, density=0.2, share=0.1)
    members = np.flatnonzero(rng.random(60) < 0.8)  # of a group
    plan = tile_plan(
        objective,
        update_rule(optimizer, l2=l2, max_norm=None, row_length=5.0),
        8,
        has_bias=has_bias,
        epochs=4,
        lr=np.float32(lr),
        lr_falls=True,
        first_state=np.float32(first_state),
        positives_features_only=of_positives,
    )
    row_weight = some_weights(60) if is_weighted else np.ones(60)
    weights, loss_of_tile = trained_tile(
        sparse_tiles.train_tile,
        objective.coefficients,
        x,
        y,
        members,
        plan,
        row_weight if is_weighted else None,
    )
    weight = y.any(axis=1).astype(float)
    expected, expected_loss = naive_tile(
        x[members].astype(np.float64),
        y[members],
        weight[members],
        plan,
        optimizer,
        l2,
        loss,
        row_weight[members],
    )
    assert np.abs(expected).max() > 0.1
    np.testing.assert_allclose(weights, expected, atol=2e-4, rtol=2e-3)
    assert loss_of_tile == pytest.approx(expected_loss, rel=1e-3)


@pytest.mark.parametrize("of_positives", [False, True])
@pytest.mark.parametrize("is_weighted", [False, True])
@pytest.mark.parametrize(("c", "epochs"), [(1.0, 3), (0.2, 4), (5.0, 2), (1.0, 200)])
def test_a_tile_is_trained_by_the_dual_as_by_loops_and_reaches_the_optimum(
    c, epochs, is_weighted, of_positives
):
    rng = np.random.default_rng(2)
    objective = ova()
    x, y = labelled_rows(rng, 50, 20, 6, density=0.3, share=0.15)
    plan = tile_plan(
        objective,
        update_rule("dcd"),
        epochs=epochs,
        c=np.float32(c),
        positives_features_only=of_positives,
    )
    row_weight = some_weights(50) if is_weighted else np.ones(50)
    weights, _ = trained_tile(
        sparse_tiles.train_tile_dual,
        objective.dual_steps,
        x,
        y,
        np.arange(50),
        plan,
        row_weight if is_weighted else None,
    )
    weight = y.any(axis=1).astype(float)
    expected, sparsity_mask = naive_dual_tile(x.astype(np.float64), y, weight, c, plan, row_weight)
    np.testing.assert_allclose(weights, expected, atol=2e-4)
    if epochs < 100:
        return
    with_one = np.column_stack([x, np.ones(50)]).astype(np.float64)
    sign = np.where(y, 1.0, -1.0)
    weight_of_pair = np.maximum(weight[:, None], y) * row_weight[:, None]

    def objective_and_slope(w):
        hinge = np.maximum(0, 1 - sign * (with_one @ w.T))
        return (
            0.5 * np.sum(w * w) + c * np.sum(weight_of_pair * hinge**2),
            (w - 2 * c * (sign * hinge * weight_of_pair).T @ with_one) * sparsity_mask,
        )

    minimum = np.inf
    w = np.zeros_like(weights)
    for _ in range(3000):  # of gradient descent, on a smooth and strongly convex function
        minimum, slope = objective_and_slope(w)
        w -= 0.004 * slope
    assert np.abs(slope).max() < 1e-4
    assert objective_and_slope(weights)[0] < 1.01 * minimum

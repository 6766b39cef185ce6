"""Output rows with numbers for the features of their own examples alone: against dense rows that
are masked, and as a user has them.
"""

import numpy as np
import pytest

from embedx import objectives
from embedx.classification import classifier, sampled_minibatches
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.engine import sparse_rows
from embedx.engine.examples import Csr, examples_of
from embedx.engine.shared import Chunk
from embedx.errors import Setting, SettingError
from embedx.kernels.random import stream_key
from embedx.labeled.data import Labeled, Labels
from embedx.runtime.progress import Silent
from tests.support.label_data import topics
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.resumed_runs import FromSnapshot

SPARSE = [
    name for name, objective in objectives.OBJECTIVES.items() if objective.samplers()[0] != "search"
]
# optimisers under which what is masked has no influence on the rest
MASKED = {"sgd": 0.05, "adagrad": 0.1}


def mask_of(data, objective, sampler):
    """bool (rows, features): where a row has an example with the feature; everywhere if these are
    most features.
    """
    rows = sampled_minibatches.examples_of_outputs(
        examples_of(data.features, data.labels), sampler, objective.n_outputs(data.n_labels)
    )
    dense = data.features.toarray() != 0
    mask = np.array(
        [
            dense[rows.indices[a:b]].any(axis=0)
            for a, b in zip(rows.indptr[:-1], rows.indptr[1:], strict=True)
        ]
    )
    return mask | (2 * mask.sum(axis=1) >= mask.shape[1])[:, None]


def strategy(data, name, weights, sampler=None, optimizer=None, **options):
    """A strategy that is ready to train, with few rows drawn."""
    objective_class = objectives.find(name)
    objective = objective_class(objective_class.Settings())
    settings_of_test = {
        "epochs": 1,
        "threads": 1,
        "sampler": sampler,
        "optimizer": optimizer,
        "weights": weights,
        "batch_size": 7,
    }
    if objective_class.step == "proximal":
        settings_of_test |= {"batch_size": 1, "optimizer": "sgd"}
    settings = resolved(ClassifySettings(**settings_of_test | options), objective, data)
    counts = np.bincount(data.labels.ids, minlength=data.n_labels).astype(np.int64)
    objective.prepare(counts)
    run = ClassifierRun(data, ClassifierConfiguration(objective, settings))
    run.allocate()
    by_rows = run.trainer.strategy
    by_rows.initialise()
    by_rows.compile(Silent())
    return by_rows


def chunk(order, start, stop, rate):
    return Chunk(order, 0, start, stop, np.float32(rate), 0.0, stream_key(1, 0))


def dense_of(by_rows):
    """(rows, features + bias) of a strategy with sparse rows, and where it has numbers."""
    feature = by_rows.slots.indices
    row = np.repeat(np.arange(by_rows.n_outputs), np.diff(by_rows.slots.indptr))
    dense = np.zeros((by_rows.n_outputs, by_rows.dim), dtype=np.float32)
    mask = np.zeros((by_rows.n_outputs, by_rows.dim), dtype=bool)
    dense[row, feature] = by_rows.outputs.rows[0]
    mask[row, feature] = True
    return dense, mask


def rows_of(by_rows):
    """(rows, features + bias), a view of the numbers of a strategy with dense rows."""
    return by_rows.outputs.rows[:, : by_rows.dim]


@pytest.mark.parametrize("has_bias", [False, True])
@pytest.mark.parametrize(("n_rows", "n_features"), [(1, 1), (9, 4), (300, 40)])
def test_every_number_has_a_slot_and_no_other(n_rows, n_features, has_bias):
    rng = np.random.default_rng(n_rows)
    data = topics(n=3 * n_rows, n_labels=max(n_rows, 3), n_features=n_features)
    examples = examples_of(data.features, data.labels)
    lists = [
        np.sort(rng.choice(len(data), rng.integers(0, 4), replace=False)) for _ in range(n_rows)
    ]
    csr = Csr(
        np.concatenate([[0], np.cumsum([len(indices) for indices in lists])]),
        np.concatenate(lists).astype(np.int32),
    )
    x = data.features.toarray() != 0
    mask = np.array([x[indices].any(axis=0) for indices in lists])
    by_row = sparse_rows.slots_by_row(examples, csr, n_features, has_bias)
    for row in range(n_rows):
        own_slots = by_row.indices[by_row.indptr[row] : by_row.indptr[row + 1]]
        expected = np.flatnonzero(mask[row])
        if 2 * len(expected) >= n_features:
            expected = np.arange(n_features)
        np.testing.assert_array_equal(own_slots, [*expected, *([n_features] * has_bias)])


# Examples, labels and features of data whose rows have slots for all features, are read one after
# another, or sought in.
SIZES = {"whole": (60, 20, 50), "read": (60, 20, 400), "sought": (400, 4, 4000)}
DRAWN = [  # adversarial noise is drawn as any other
    (name, sampler)
    for name in SPARSE
    for sampler in objectives.OBJECTIVES[name].samplers()
    if sampler not in ("search", "adversarial", "all")
]


@pytest.mark.parametrize(
    ("name", "sampler", "optimizer", "size"),
    [(*case, list(MASKED)[i % 2], "whole") for i, case in enumerate(DRAWN)]
    + [
        (*case, "adagrad", size)
        for case in [("ns", "unigram"), ("hs", "path")]
        for size in ("read", "sought")
    ],
)
def test_sparse_rows_are_dense_ones_masked_to_their_support_step_by_step(
    name, sampler, optimizer, size
):
    objective_class = objectives.find(name)
    optimizer = "sgd" if objective_class.step == "proximal" else optimizer
    # A step of its own looks ahead at how far each row moves, which is less for a masked one: then
    # every row has all features.
    is_whole = objective_class.traits.uses_score_gain
    n, n_labels, n_features = (60, 4, 8) if is_whole else SIZES[size]
    data = topics(n=n, n_labels=n_labels, n_features=n_features, several=not is_whole)
    sparse = strategy(data, name, "sparse", sampler, optimizer)
    dense = strategy(data, name, "dense", sampler, optimizer)
    bias = np.ones(sparse.n_outputs, dtype=bool)
    mask = np.column_stack([mask_of(data, sparse.objective, sparse.sampler), bias])
    np.testing.assert_array_equal(dense_of(sparse)[1], mask)
    assert mask.all() or not is_whole
    if not is_whole:
        n_slots = np.diff(sparse.slots.indptr) - 1
        is_part = n_slots < n_features
        is_sought = n_slots > sparse_rows.LOOK_UP_RATIO * data.features.getnnz(axis=1).max()
        kinds = {
            "whole": ~is_part,
            "read": is_part & ~is_sought,
            "sought": is_part & is_sought,
        }
        assert kinds[size].any()
    order = np.random.default_rng(1).permutation(len(data))
    rate = MASKED[optimizer]
    for start in range(0, 56, sparse.batch):
        examples = chunk(order, start, start + sparse.batch, rate)
        loss, *_ = sparse.train_examples(sparse.workers[0], examples)
        dense_loss, *_ = dense.train_examples(dense.workers[0], examples)
        rows_of(dense)[~mask] = 0
        assert loss == pytest.approx(dense_loss, rel=1e-4, abs=1e-6)
        np.testing.assert_allclose(dense_of(sparse)[0], rows_of(dense), rtol=1e-3, atol=2e-5)
    assert np.abs(dense_of(sparse)[0]).max() > 0.01


def test_a_proximal_step_uses_the_score_gain_of_each_sparse_row():
    """The score gain of `implicit`: the squares of the example's features that a row has, and of
    the bias.
    """
    data = topics(n=60, n_labels=20, n_features=50)
    by_rows = strategy(data, "implicit", "sparse")
    by_rows.train_examples(by_rows.workers[0], chunk(np.arange(60), 0, 1, 0.1))
    mask = mask_of(data, by_rows.objective, by_rows.sampler)
    worker = by_rows.workers[0]
    x = data.features.toarray()[0]
    for line in range(len(data.labels[0])):
        n = worker.n_candidates[line]
        expected = [1 + np.sum(x[mask[row]] ** 2) for row in worker.rows[line, :n]]
        np.testing.assert_allclose(worker.batch.score_gain[line, :n], expected, rtol=1e-5)
    assert n > 1


@pytest.mark.parametrize(("name", "sampler"), [("ns", "unigram"), ("hs", "path")])
def test_the_rate_of_a_sparse_row_depends_on_its_own_slots_alone(name, sampler):
    """The first step of row-wise Adagrad has the length of the learning rate."""
    by_rows = strategy(
        topics(n=60, n_labels=20, n_features=50),
        name,
        "sparse",
        sampler,
        "rowwise-adagrad",
        initial_gradient=0.0,
        bias="zero",
    )
    by_rows.train_examples(by_rows.workers[0], chunk(np.arange(60), 0, by_rows.batch, 0.25))
    lengths = np.linalg.norm(dense_of(by_rows)[0], axis=1)
    assert (lengths > 0).sum() > 3
    np.testing.assert_allclose(lengths[lengths > 0], 0.25, rtol=1e-4)


def trained(data, name, **options):
    objective_class = objectives.find(name)
    settings = ClassifySettings(**{"weights": "sparse", "threads": 1} | options)
    return train(data, objective_class(objective_class.Settings()), settings).classifier


@pytest.mark.parametrize("name", ["ns", "hs", "ar", "ove", "implicit", "sampled-softmax"])
def test_a_model_with_sparse_rows_generalises_and_can_be_saved(name, tmp_path):
    data = topics(n=900, n_labels=30)
    model = trained(data.rows(np.arange(700)), name, epochs=20, weight_threshold=0.0)
    test = data.rows(np.arange(700, 900))
    metrics = model.evaluate(test, threads=1)
    assert metrics["p@1"] > 0.5
    scores = model.scores(test.features)
    log_p = model.log_probability(scores)
    np.testing.assert_allclose(np.exp(log_p.astype(np.float64)).sum(axis=1), 1, rtol=1e-3)
    model.save(tmp_path / "m")
    again = classifier.load(tmp_path / "m")
    np.testing.assert_array_equal(again.scores(test.features), scores)
    assert again.evaluate(test, threads=1) == metrics


@pytest.mark.parametrize("name", ["ove", "hs"])
def test_sparse_rows_are_deterministic_for_any_number_of_threads(name):
    data = topics(n=300, n_labels=30)
    by_one = trained(data, name, epochs=2, threads=1, deterministic=True).arrays
    by_two = trained(data, name, epochs=2, threads=2, deterministic=True).arrays
    for array in by_one:
        np.testing.assert_array_equal(by_one[array], by_two[array])


def test_weights_of_at_most_the_threshold_are_dropped():
    data = topics(n=300, n_labels=30)
    weights = trained(data, "ns", epochs=3, weight_threshold=0.0).arrays["tree_weight"]
    large_weights = trained(data, "ns", epochs=3, weight_threshold=0.2).arrays["tree_weight"]
    assert 0 < len(large_weights) < len(weights)
    np.testing.assert_array_equal(np.sort(weights[np.abs(weights) > 0.2]), np.sort(large_weights))


@pytest.mark.parametrize(
    ("name", "options", "named"),
    [
        ("ns", {"l2": 1e-3}, Setting("l2")),
        ("ns", {"max_norm": 1.0}, Setting("max_norm")),
        ("ns", {"hidden": 5}, Setting("hidden")),
        ("softmax", {}, Setting("objective", "ova")),
    ],
)
def test_settings_that_exclude_sparse_rows_are_refused(name, options, named):
    with pytest.raises(SettingError) as caught:
        trained(topics(n=60, n_labels=20), name, **options)
    assert caught.value.setting == "weights"
    assert named in caught.value.problem


@pytest.mark.parametrize("name", ["ns", "hs"])
def test_degenerate_data_can_be_trained_on(name):
    """Rows without features, labels without rows, one label, no feature at all."""
    x = topics(n=30, n_labels=5, n_features=6).features.tolil()
    x[:5] = 0
    for features, lists, n_labels in [
        (x.tocsr(), [[k % 3] for k in range(30)], 9),
        (x.tocsr(), [[0]] * 30, 2),
        (x.tocsr()[:, :0], [[k % 4] for k in range(30)], 4),
    ]:
        data = Labeled(features.astype(np.float32), Labels.of_rows(lists), n_labels)
        model = trained(data, name, epochs=2)
        assert np.isfinite(model.scores(data.features)).all()


def test_sparse_rows_resume_from_a_snapshot(stop_after):
    data = topics(n=300, n_labels=30)
    for name in ("ar", "hs"):
        objective_class = objectives.find(name)

        def run(snapshot=None, objective_class=objective_class):
            objective = objective_class(objective_class.Settings())
            settings = ClassifySettings(weights="sparse", epochs=4, threads=1, batch_size=50)
            trained = train(
                data,
                objective,
                settings,
                checkpoints=None if snapshot is None else FromSnapshot(snapshot),
            )
            return trained.classifier.arrays, trained.outcome

        stop_after(None)
        uninterrupted, _ = run()
        stop_after(2)
        snapshot = run()[1].state.snapshot()
        stop_after(None)
        resumed = run(snapshot)[0]
        for array in uninterrupted:
            np.testing.assert_array_equal(resumed[array], uninterrupted[array])

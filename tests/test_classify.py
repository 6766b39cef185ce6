"""Classification: every objective learns by every sampler and optimiser, and runs repeat."""

import dataclasses
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.classification import minibatches, step_trainer
from embedx.classification.label_metrics import scored_labels
from embedx.engine import dense_tiles, sampled
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES
from embedx.optimizers import keeping
from embedx.optimizers.contract import LABELS
from tests.support.classify_cases import (
    EVERY_OBJECTIVE,
    ONE_OBJECTIVE_OF_EACH_KIND,
    bytes_of,
    objectives_where,
    precision,
)
from tests.support.classify_runs import (
    DATA,
    OPTIONS_OF_KIND,
    REPRESENTATIVES,
    TINY,
    TOPICS,
    first_where,
    run,
)


def samplers(objective, dense):
    """Those that apply: a search needs dense vectors."""
    return [sampler for sampler in objective.samplers() if dense or sampler != "search"]


# ---- learning


@EVERY_OBJECTIVE
def test_every_objective_learns_with_every_sampler(objective):
    """The best constant answer is right for a tenth of the digits and a quarter of the topics;
    kinds of input take turns.
    """
    # minibatches of 100, the default, are too large for so few rows
    batch = 10 if objective.step == "gradient" else None
    first = list(OBJECTIVES.values()).index(objective)
    for i, sampler in enumerate(samplers(objective, dense=True), first):
        kind = ("dense", "hidden", "hidden" if sampler == "search" else "sparse")[i % 3]
        trained = run(objective, kind, sampler=sampler, batch_size=batch, epochs=4)
        assert precision(trained, kind) > {"dense": 0.6, "sparse": 0.5, "hidden": 0.45}[kind]
        # with several labels, those of an example share its state, and the loss may rise
        assert trained.outcome.final_loss < trained.outcome.curve[0]["loss"] or kind != "dense"
        facts = trained.classifier.facts
        assert facts["examples_trained"] == 4 * len(DATA[kind][0])
        assert facts["epochs"] == 4
        assert not facts["interrupted"]


RATES = {"sgd": 0.5, "adagrad": 0.4, "mixture": 0.5, "rowwise-adagrad": 4.0}


def test_every_minibatch_optimizer_has_a_default_rate_for_labels():
    kinds = "stateless", "per_coordinate", "per_row"
    offered = {
        optimizer.name
        for keeps in kinds
        for optimizer in keeping(keeps)
        if LABELS in optimizer.commands
    }
    assert set(RATES) == offered


@pytest.mark.parametrize("optimizer", RATES)
@pytest.mark.parametrize("objective", REPRESENTATIVES.values(), ids=list(REPRESENTATIVES))
def test_every_optimiser_learns_for_every_kind_of_objective(objective, optimizer):
    kind = list(OPTIONS_OF_KIND)[
        (list(RATES).index(optimizer) + list(REPRESENTATIVES.values()).index(objective)) % 3
    ]
    trained = run(
        objective, kind, optimizer=optimizer, learning_rate=RATES[optimizer], batch_size=4, epochs=3
    )
    assert precision(trained, kind) > 0.45


@objectives_where(lambda o: "all" in o.candidates and not o.uniforms_width)
def test_the_optimum_is_found(objective):
    trained = run(objective, "sparse", optimizer="lbfgs", l2=1e-3, max_iterations=25)
    assert precision(trained, "sparse") > 0.7
    assert trained.classifier.settings["sampler"] == "all"


@ONE_OBJECTIVE_OF_EACH_KIND
def test_several_threads_learn_as_well(objective, kind):
    trained = run(objective, kind, batch_size=5, epochs=3, threads=3)
    assert precision(trained, kind) > 0.45
    assert trained.classifier.facts["examples_trained"] == 3 * len(DATA[kind][0])


@ONE_OBJECTIVE_OF_EACH_KIND
def test_same_seed_same_bytes(objective, kind):
    for each_objective in (objective, first_where(lambda o: o.uniforms_width)):
        options = {"epochs": 2, "batch_size": 16, "l2": 1e-3, "labels": "one"}
        first, again, other = (
            run(each_objective, kind, seed=seed, **options) for seed in (1, 1, 2)
        )
        assert bytes_of(first) == bytes_of(again)
        assert bytes_of(first) != bytes_of(other)


@EVERY_OBJECTIVE
def test_examples_without_labels_are_skipped(objective):
    data = DATA["sparse"][0]
    some = [data.labels[i].tolist() if i % 3 else [] for i in range(len(data))]
    sparse = dataclasses.replace(data, labels=Labels.of_rows(some))
    dense = dataclasses.replace(sparse, features=data.features.toarray())
    lines = [len(labels) if objective.positives == "single" else 1 for labels in some if labels]
    for i, sampler in enumerate(samplers(objective, dense=True)):
        trained = run(
            objective,
            data=dense if i % 2 or sampler == "search" else sparse,
            sampler=sampler,
            epochs=1,
        )
        assert trained.outcome.tally.pairs == sum(lines)
        assert math.isfinite(trained.outcome.final_loss)


@pytest.mark.parametrize("negatives", [5, 20])
def test_free_scores_learn_the_frequencies_although_repeated_draws_count_once(negatives):
    """Without informative features the frequencies of the labels are the optimum: theorem 1 of Levy
    & Goldberg.

    No more labels are drawn than there are, however many negatives are asked for.
    """
    share = np.array([0.6, 0.2, 0.1, 0.06, 0.04])
    data = Labeled(
        np.zeros((4000, 1), np.float32),
        Labels.single(np.random.default_rng(0).choice(5, 4000, p=share)),
        5,
    )
    for objective in OBJECTIVES.values():
        if (
            objective(objective.Settings()).traits.keeps_accidental_hits
            and "unigram" in objective.samplers()
        ):
            for replacement in (True, False):
                objective_settings = objective.Settings(negatives=negatives)
                options = {"batch_size": 50, "epochs": 20, "calibration": 0.0}
                trained = run(
                    objective,
                    "sparse",
                    data,
                    objective_settings,
                    sampler="unigram",
                    replacement=replacement,
                    learning_rate=0.5,
                    **options,
                )
                p = np.exp(next(trained.classifier.blocks(data.features[:1]))[1][0])
                np.testing.assert_allclose(p, np.bincount(data.labels.ids) / 4000, rtol=0.05)


COUNTS = np.array([10, 240, 40, 80, 30])


@pytest.mark.parametrize("name", ["softmax", "hs", "ova", "ns", "ove", "ar"])
def test_biases_may_start_where_they_predict_the_frequencies(name):
    """Whatever an objective makes of scores: probabilities along a tree, or scores to which the log
    of the noise is added.
    """
    data = Labeled(
        np.zeros((400, 1), np.float32), Labels.single(np.repeat(np.arange(5), COUNTS)), 5
    )
    # with replacement, as ns draws by default
    options = {"optimizer": "sgd", "learning_rate": 1e-9, "epochs": 1, "replacement": True}
    p = {}
    for bias in ("frequency", "zero"):
        trained = run(OBJECTIVES[name], data=data, bias=bias, **options)
        p[bias] = np.exp(next(trained.classifier.blocks(data.features[:1]))[1][0])
    np.testing.assert_allclose(p["frequency"], COUNTS / 400, rtol=1e-4)
    assert abs(p["zero"] - COUNTS / 400).max() > 0.05


@pytest.mark.parametrize("loss", ["logistic", "squared-hinge"])
def test_biases_of_independent_labels_start_at_their_frequencies(loss):
    rows = [[k for k in range(5) if i < COUNTS[k]] for i in range(250)]
    data = Labeled(np.zeros((250, 1), np.float32), Labels.of_rows(rows), 5)
    ova = OBJECTIVES["ova"]
    options = {"bias": "frequency", "optimizer": "sgd", "learning_rate": 1e-9, "epochs": 1}
    bias = (
        run(ova, data=data, settings=ova.Settings(loss=loss), **options)
        .classifier.arrays["bias"]
        .astype(float)
    )
    expected = np.log(COUNTS / (250 - COUNTS)) if loss == "logistic" else 2 * COUNTS / 250 - 1
    np.testing.assert_allclose(bias, expected, rtol=1e-5)


def test_lbfgs_may_start_at_the_frequencies():
    """Without informative features they are the optimum, and no iteration is needed."""
    data = Labeled(
        np.zeros((400, 1), np.float32), Labels.single(np.repeat(np.arange(5), COUNTS)), 5
    )
    iterations = {
        bias: run(OBJECTIVES["softmax"], data=data, bias=bias, optimizer="lbfgs").outcome.epochs
        for bias in ("frequency", "zero")
    }
    assert iterations["frequency"] <= 1 < iterations["zero"]


@objectives_where(lambda o: "all" in o.samplers() and not o.uniforms_width)
def test_drawing_all_rows_equals_the_sampler_all(objective, monkeypatch):
    """Two engines, and for the rows of sparse features three, come to the same parameters."""
    settings = objective.Settings(
        **{"negatives": TINY.n_labels} if "uniform" in objective.samplers() else {}
    )
    dense = dataclasses.replace(TINY, features=TINY.features.toarray())
    for kind, data in (("sparse", TINY), ("hidden", TINY), ("dense", dense)):
        # a rate falls after each chunk, and the engines have chunks of different sizes
        options = {"epochs": 2, "l2": 1e-3, "schedule": "constant"}
        models = []
        for sampler, small_step in (("all", 0), ("all", 2**21), ("uniform", 0)):
            if sampler in objective.samplers():
                monkeypatch.setattr(step_trainer, "SMALL_STEP", small_step)
                models.append(run(objective, kind, data, settings, sampler=sampler, **options))
        first_run, *others = models
        for other in others:
            assert other.outcome.tally.mean_loss == pytest.approx(
                first_run.outcome.tally.mean_loss, rel=1e-3
            )
            for name, array in other.classifier.arrays.items():
                np.testing.assert_allclose(
                    array, first_run.classifier.arrays[name], rtol=1e-3, atol=1e-3, err_msg=name
                )


def test_all_objectives_share_one_compiled_kernel():
    """One for objectives that score drawn rows or a path, and one for those that score all rows."""
    for kind in ("drawn", "path", "columns", "tiles"):
        for inputs in OPTIONS_OF_KIND:
            run(REPRESENTATIVES[kind], inputs, epochs=1)
    assert [
        len(kernel.overloads) for kernel in (sampled.train_chunk, dense_tiles.train_columns)
    ] == [1, 1]


# ---- which labels count


@pytest.mark.parametrize("rule", ["first", "lowest-id"])
def test_only_labels_kept_by_the_label_rule_are_trained_and_tested(rule):
    train_data, test_data = TOPICS
    choose = {"first": lambda row: row[0], "lowest-id": min}[rule]
    trained = run(REPRESENTATIVES["columns"], labels=rule, batch_size=10, epochs=4)
    expected = np.bincount(
        [choose(train_data.labels[i]) for i in range(len(train_data))], minlength=24
    )
    assert trained.classifier.counts.tolist() == expected.tolist()
    log_p = np.concatenate([log_p for _, log_p in trained.classifier.blocks(test_data.features)])
    truth = np.array([choose(test_data.labels[i]) for i in range(len(test_data))])
    metrics = trained.classifier.evaluate(test_data)
    assert metrics["accuracy"] == pytest.approx(np.mean(log_p.argmax(axis=1) == truth))
    assert metrics["log_likelihood"] == pytest.approx(
        np.mean(log_p[np.arange(len(truth)), truth]), rel=1e-5
    )


@ONE_OBJECTIVE_OF_EACH_KIND
def test_one_label_at_each_visit_learns_all_of_them(objective, kind):
    data = DATA[kind][0]
    trained = run(objective, kind, labels="one", batch_size=5, epochs=3)
    assert precision(trained, kind) > 0.45
    assert trained.outcome.tally.pairs == 3 * len(data)
    assert trained.classifier.counts.sum() == len(data.labels.ids)


def test_labels_not_in_training_count_as_mistakes_or_are_left_out():
    data = dataclasses.replace(TINY, labels=Labels.of_rows([[int(i > 20)] for i in range(40)]))
    # 2 and 5 have no row, 9 no name
    test = dataclasses.replace(TINY, labels=Labels.of_rows([[0], [9], [2, 1], [], [5]] * 8))
    keep = run(REPRESENTATIVES["columns"], data=data, unseen="keep").classifier
    drop = run(REPRESENTATIVES["columns"], data=data, unseen="drop").classifier
    with_unlabeled = keep.evaluate(test)
    dropped = drop.evaluate(test)
    assert (
        with_unlabeled["n"],
        with_unlabeled["left_out"],
        with_unlabeled["n_without_labels"],
        with_unlabeled["n_unknown"],
    ) == (
        32,
        0,
        8,
        8,
    )
    assert (
        dropped["n"],
        dropped["left_out"],
        dropped["n_without_labels"],
        dropped["n_unknown"],
    ) == (16, 24, 0, 0)
    assert with_unlabeled["accuracy"] < dropped["accuracy"]
    labels, rows_kept = scored_labels(drop, test.labels)
    assert rows_kept[:4].tolist() == [0, 2, 5, 7]
    assert labels.ids[:4].tolist() == [0, 1, 0, 1]


@pytest.mark.parametrize(("name", "n_terms"), [("softmax", 1), ("ova", 2), ("ove", 1), ("hs", 1)])
@pytest.mark.parametrize("kind", ["dense", "sparse"])
def test_the_loss_by_frequencies_alone_is_their_entropy_though_a_label_is_rare(name, n_terms, kind):
    n, n_rare = 3000, 30
    labels = np.arange(n) >= n - n_rare
    x = np.ones((n, 1), np.float32)
    data = Labeled(x if kind == "dense" else csr_matrix(x), Labels.single(labels * 1), 2)
    facts = run(OBJECTIVES[name], data=data, kind=kind, epochs=1, calibration=0.0).classifier.facts
    p = n_rare / n
    entropy = -p * np.log(p) - (1 - p) * np.log(1 - p)
    assert facts["baseline_loss"] == pytest.approx(n_terms * entropy, rel=1e-4)


def test_sampled_rows_have_the_labels_in_proportion():
    counts = np.array([5, 900, 0, 95] + [10] * 200)
    labels = Labels.single(np.repeat(np.arange(len(counts)), counts))
    order = np.random.default_rng(0).permutation(len(labels))
    for n in (100, 1000, 3000):
        strata = minibatches.strata_of(labels, counts, order, n)
        n_stood_for = sum(len(rows) / share for rows, share in strata)
        assert n_stood_for == pytest.approx(len(labels))
        rows = np.concatenate([rows for rows, _ in strata])
        assert len(np.unique(rows)) == len(rows)
        assert n <= len(rows) <= 1.5 * n
        assert (np.bincount(labels.ids[rows])[[1, 3]] > 0).all()

"""Classification as a user meets it: every objective learns in every way, runs repeat, and end
cleanly.
"""

import dataclasses
import math

import numpy as np
import pytest
from scipy.sparse import csr_matrix

from embedx.classification import (
    classifier as classifiers,
    data_split,
    minibatches,
    step_trainer,
)
from embedx.classification.label_metrics import scored_labels
from embedx.classification.settings import ClassifySettings
from embedx.engine import dense_tiles, sampled
from embedx.errors import DivergedError
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.optimizers import keeping
from embedx.optimizers.contract import LABELS
from embedx.runtime.progress import Silent
from embedx.training import trainer
from tests.support.classify_runs import DATA, REPRESENTATIVES, TINY, TOPICS, WAYS, of, run
from tests.support.clock import Clock
from tests.support.label_training import train
from tests.support.refusals import refused, refused_data


def objectives_where(holds=lambda objective: True):
    """Run a test for each objective that declares what `holds` asks for."""
    chosen = {name: objective for name, objective in OBJECTIVES.items() if holds(objective)}
    return pytest.mark.parametrize("objective", chosen.values(), ids=list(chosen))


EVERY_OBJECTIVE = objectives_where()


def samplers(objective, dense):
    """Those that apply: a search needs dense vectors."""
    return [sampler for sampler in objective.samplers() if dense or sampler != "search"]


def precision(trained, kind):
    return trained.classifier.evaluate(DATA[kind][1], threads=1)["p@1"]


def bytes_of(trained):
    return {name: array.tobytes() for name, array in trained.classifier.arrays.items()}


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
    kind = list(WAYS)[
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


TURNS = pytest.mark.parametrize(  # kinds of objectives and of inputs
    ("objective", "kind"),
    [(objective, list(WAYS)[i % 3]) for i, objective in enumerate(REPRESENTATIVES.values())],
)


@TURNS
def test_several_threads_learn_as_well(objective, kind):
    trained = run(objective, kind, batch_size=5, epochs=3, threads=3)
    assert precision(trained, kind) > 0.45
    assert trained.classifier.facts["examples_trained"] == 3 * len(DATA[kind][0])


@TURNS
def test_same_seed_same_bytes(objective, kind):
    for each_objective in (objective, of(lambda o: o.uniforms_width)):
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
    for kernel in (sampled.train_chunk, dense_tiles.train_columns):
        if hasattr(kernel, "overloads"):
            assert len(kernel.overloads) <= 1


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


@TURNS
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
    keep, drop = (
        run(REPRESENTATIVES["columns"], data=data, unseen=unseen).classifier
        for unseen in ("keep", "drop")
    )
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


# ---- watching, stopping, ends


def watched(watch=None, progress=None, **options):
    options = {"threads": 1, "batch_size": 10, "epochs": 6} | options
    objective = REPRESENTATIVES["columns"]
    settings = ClassifySettings(**options)
    return train(
        TOPICS[0], objective(objective.Settings()), settings, watch=watch, progress=progress
    )


def test_measures_of_the_watcher_are_recorded_in_the_history():
    trained = watched(
        lambda classifier, epoch, seconds: {
            "norm": float(np.linalg.norm(classifier.arrays["output"]))
        },
        epochs=3,
    )
    history = trained.classifier.facts["history"]
    assert [entry["epoch"] for entry in history] == [1, 2, 3]
    assert history[0]["norm"] < history[1]["norm"] < history[2]["norm"]
    assert history[0]["loss"] > history[2]["loss"]
    assert history[2]["norm"] == pytest.approx(np.linalg.norm(trained.classifier.arrays["output"]))


def test_validation_does_not_change_the_model():
    assert bytes_of(watched(epochs=2)) == bytes_of(watched(lambda *about: {}, epochs=2))
    # with a watcher, pending weight decay is applied after each epoch
    unwatched = watched(epochs=2, l2=1e-2)
    with_watcher = watched(lambda *about: {}, epochs=2, l2=1e-2)
    np.testing.assert_allclose(
        with_watcher.classifier.arrays["output"], unwatched.classifier.arrays["output"], atol=1e-5
    )


def test_the_best_epoch_is_kept_and_patience_ends_the_training(monkeypatch):
    values = iter([0.1, 0.5, 0.2, 0.3, 0.4, 0.9])
    metrics = {"log_likelihood": -1.0, "accuracy": 0.1, "p@1": 0.1}
    evaluate = classifiers.Classifier.evaluate
    monkeypatch.setattr(
        classifiers.Classifier,
        "evaluate",
        lambda *args, **options: metrics | {"ndcg@5": next(values)},
    )
    outputs = []

    def watch(classifier, epoch, seconds):
        outputs.append(classifier.arrays["output"].copy())
        return {}

    trained = watched(watch, validation="0.2", epochs=20, patience=3)
    assert len(outputs) == 5
    assert (trained.classifier.arrays["output"] == outputs[1]).all()
    assert [entry["validation"]["ndcg@5"] for entry in trained.classifier.facts["history"]] == [
        0.1,
        0.5,
        0.2,
        0.3,
        0.4,
    ]
    monkeypatch.undo()
    # not the scores of the last epoch
    log_p = next(trained.classifier.blocks(TOPICS[1].features))[1]
    z = TOPICS[1].features @ outputs[1].T + trained.classifier.arrays["bias"]
    np.testing.assert_allclose(log_p, trained.classifier.log_probability(z), atol=1e-5)
    assert evaluate(trained.classifier, TOPICS[1])["p@1"] > 0.3


def test_a_share_of_the_rows_is_held_out_for_validation():
    assert "temperature" not in watched(epochs=1).classifier.facts
    trained = watched(validation="0.2", epochs=2)
    assert trained.classifier.facts["examples"] == 400
    assert trained.classifier.facts["temperature"] > 0
    assert {"log_likelihood", "ndcg@5"} <= trained.classifier.facts["history"][0][
        "validation"
    ].keys()
    ours, held_out = data_split.hold_out(TOPICS[0], 100, seed=1)
    assert (len(ours), len(held_out)) == (400, 100)
    both = sorted(map(bytes, (row.toarray() for part in (ours, held_out) for row in part.features)))
    assert both == sorted(bytes(row.toarray()) for row in TOPICS[0].features)


def test_a_model_trained_again_on_all_rows_knows_why_its_settings_were_chosen():
    data = digits(1500, 10)[0]
    objective = OBJECTIVES["softmax"]
    settings = ClassifySettings(threads=1, epochs=2)
    classifier = train(data, objective(objective.Settings()), settings).classifier
    assert classifier.facts["examples"] == 1500
    assert "temperature" in classifier.facts
    assert "inputs have length" in classifier.facts["chosen"]["learning_rate"]


def test_a_time_budget_ends_the_training_instead_of_epochs(monkeypatch):
    monkeypatch.setattr(trainer, "time", Clock(tick=0.001))
    trained = watched(time_budget=1.0, epochs=1)
    assert 1.0 <= trained.outcome.seconds < 1.1
    assert trained.outcome.epochs > 1


class Impatient(Silent):
    interval = 0.001
    pressed = False

    def update(self, done, **facts):
        if done > 200 and not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt


def interrupting(classifier, epoch, seconds):
    if epoch == 2:
        raise KeyboardInterrupt
    return {}


@pytest.mark.parametrize(
    "way", [{"watch": interrupting}, {"progress": Impatient()}], ids=["watch", "progress"]
)
def test_ctrl_c_keeps_what_was_learned(way):
    trained = watched(epochs=10_000, **way)
    assert isinstance(trained.outcome.interrupted_by, KeyboardInterrupt)
    assert trained.classifier.facts["interrupted"]
    assert 0 < trained.outcome.epochs < 10_000
    assert np.abs(trained.classifier.arrays["output"]).max() > 0
    if "watch" in way:
        assert len(trained.classifier.facts["history"]) == 2
        assert precision(trained, "sparse") > 0.4


@TURNS
# of the matrix products, on the way to infinity
@pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning")
def test_training_that_diverges_raises_an_error(objective, kind):
    with refused(None, "learning_rate", kind=DivergedError):
        run(objective, kind, optimizer="sgd", learning_rate=1e38, gradient_scale="sum", epochs=2)


# ---- the classifier


@EVERY_OBJECTIVE
def test_a_loaded_model_predicts_the_same_and_probabilities_sum_to_one(objective, tmp_path):
    kind, scaling = (("sparse", "column-max"), ("hidden", "l2"))[
        list(OBJECTIVES.values()).index(objective) % 2
    ]
    trained = run(objective, kind, TINY, scaling=scaling, epochs=2, batch_size=None)
    before = np.concatenate([log_p for _, log_p in trained.classifier.blocks(TINY.features)])
    assert before.shape == (40, 6)
    np.testing.assert_allclose(np.exp(before).sum(axis=1), 1, rtol=1e-4)
    trained.classifier.save(tmp_path / kind)
    loaded = classifiers.load(tmp_path / kind)
    after = np.concatenate([log_p for _, log_p in loaded.blocks(TINY.features)])
    np.testing.assert_allclose(after, before, rtol=1e-5, atol=1e-6)
    assert loaded.settings == trained.classifier.settings
    assert loaded.counts.tolist() == trained.classifier.counts.tolist()
    assert loaded.schema == trained.classifier.schema
    assert loaded.evaluate(TINY) == pytest.approx(trained.classifier.evaluate(TINY), rel=1e-4)


@pytest.mark.parametrize("kind", WAYS)
def test_predictions_do_not_depend_on_blocks_and_threads(kind, monkeypatch):
    classifier = run(REPRESENTATIVES["columns"], kind, epochs=1).classifier
    features = DATA[kind][1].features
    all_at_once = classifier.log_probability(classifier.scores(classifier.prepared(features)))
    best = [next(classifier.iter_top_k(features, k)) for k in (1, 3, 100)]
    monkeypatch.setattr(classifiers, "BLOCK_FLOATS", 7 * len(classifier.counts))
    slices, parts = zip(*classifier.blocks(features, threads=3), strict=True)
    assert [(part.start, part.stop) for part in slices] == [
        (i, min(i + 7, 200)) for i in range(0, 200, 7)
    ]
    np.testing.assert_allclose(np.concatenate(parts), all_at_once, atol=1e-5)
    for k, (ids, p) in zip((1, 3, 100), best, strict=True):
        in_parts = list(classifier.iter_top_k(features, k, threads=3))
        # ties may fall either way
        assert (np.concatenate([part[0] for part in in_parts]) == ids).mean() > 0.99
        np.testing.assert_allclose(np.concatenate([part[1] for part in in_parts]), p, rtol=1e-4)
        assert ids.shape == (200, min(k, classifier.n_labels))
        assert (np.diff(p, axis=1) <= 0).all()
    assert (ids[:, 0] == all_at_once.argmax(axis=1)).mean() > 0.99


def test_features_of_another_width_are_refused():
    classifier = run(REPRESENTATIVES["columns"], data=TINY, epochs=1).classifier
    with refused_data("features", quoting=("96", "24")):
        classifier.evaluate(TOPICS[1])


def test_no_score_of_a_squared_hinge_is_a_probability_above_one_and_higher_scores_are_likelier():
    ova = OBJECTIVES["ova"](OBJECTIVES["ova"].Settings(loss="squared-hinge"))
    z = np.concatenate([np.linspace(-60, 60, 2001), [-1e6, 1e6]]).astype(np.float32)
    for log_p in (ova.log_label_probability(z), ova.log_label_probability(z.astype(np.float64))):
        assert np.isfinite(log_p).all()
        assert (log_p < 0).all()
        assert (np.diff(log_p[:-2]) > 0).all()
        assert log_p[-1] > log_p[-3]
    inside = z[np.abs(z) <= 0.98]
    np.testing.assert_allclose(ova.label_probability(inside), (1 + inside) / 2, rtol=1e-5)
    np.testing.assert_allclose(ova.label_probability(np.array([-5.0, 5.0])), [0, 1], atol=1e-3)


def test_labels_have_independent_probabilities_if_the_objective_defines_them():
    rng = np.random.default_rng(0)
    features = csr_matrix(np.eye(4, dtype=np.float32)[rng.integers(0, 4, 800)])
    kind = features.indices
    # label 1 whatever comes with it, label 0 never alone
    rows = [[0, 1] if k == 0 else [1] if k == 1 else [2] for k in kind]
    data = Labeled(features, Labels.of_rows(rows), 3)
    for loss in ("logistic", "squared-hinge"):
        ova = OBJECTIVES["ova"]
        trained = train(
            data,
            ova(ova.Settings(loss=loss)),
            ClassifySettings(learning_rate=0.5, epochs=20, threads=1),
        )
        ids, probabilities = next(
            trained.classifier.iter_top_k(csr_matrix(np.eye(4, dtype=np.float32)), 3)
        )
        assert set(ids[0, :2]) == {0, 1}
        # which two shares of one probability could not be
        assert probabilities[0, :2].min() > 0.9, loss
        assert ids[1, 0] == 1
        assert probabilities[1, 1:].max() < 0.1


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

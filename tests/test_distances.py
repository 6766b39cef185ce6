"""Scores by distance: the losses of metric learning, gradients of every objective, predictions and
models.
"""

import json

import numpy as np
import pytest
from reference import nca_loss, squared_distance, triplets
from scipy.sparse import csr_matrix

from docs.examples.hinge import Hinge
from embedx import SoftmaxClassifier, classify
from embedx.classification.classifier import load
from embedx.classification.objective_choice import ClassifierConfiguration
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import ClassifySettings
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.objectives import OBJECTIVES
from embedx.runtime.progress import SILENT
from embedx.testing.objectives import FROZEN
from tests.support.classify_runs import TOPICS, first_where
from tests.support.commands import run_command
from tests.support.label_training import train
from tests.support.refusals import refused, refused_data
from tests.support.retrieval_problem import FINDS_EVERY_LABEL

PATH = first_where(lambda objective: "path" in objective.candidates)
PROXIMAL = first_where(lambda objective: objective.step == "proximal")
WITH_DISTANCES = [
    name
    for name, objective in OBJECTIVES.items()
    if "path" not in objective.candidates and objective.step == "gradient"
]
N = 5
N_LABELS = 7
RATE = 1e-3


def points(kind, several=False):
    """A few rows of one or two labels."""
    rng = np.random.default_rng(3)
    x = rng.normal(size=(N, 6)).astype(np.float32)
    if kind == "hidden":
        x = csr_matrix(np.maximum(x, 0))
    labels = [rng.choice(N_LABELS, 1 + (i % 2) * several, replace=False) for i in range(N)]
    return Labeled(x, Labels.of_rows(labels), N_LABELS)


class Step:
    """What trains all rows at once by plain descent, its parameters drawn at random."""

    def __init__(self, objective, data, **options):
        options = {"optimizer": "sgd", "batch_size": N, "threads": 1, "calibration": 0.0} | options
        options["scaling"] = "none"
        if data.is_sparse:
            options["hidden"] = 4
        settings = ClassifySettings.from_options({"score": "euclidean", **options})
        known = objective.Settings.from_options({"negatives": 3, **FINDS_EVERY_LABEL, **options})
        run = ClassifierRun(data, ClassifierConfiguration(objective(known), settings, options))
        run.allocate()
        run.trainer.initialise()
        self.strategy = run.trainer.strategy
        self.strategy.compile(SILENT)
        self.parameters = self.strategy.arrays()
        rng = np.random.default_rng(4)
        for array in self.parameters.values():
            array[:] = rng.normal(0, 0.5, array.shape)
        self.loss()
        # Above what lines with the same state would raise it to.
        self.strategy.local_state += 1
        self.strategy.n_updates[:] = FROZEN

    def loss(self, rate=0.0):
        """The mean loss, before the step of this rate."""
        self.strategy.complete_rows()
        chunk = self.strategy.chunk_of(0, 0, N, rate)
        return self.strategy.train_examples(self.strategy.workers[0], chunk)[0] / N


@pytest.mark.parametrize("several", [False, True], ids=["one label", "several labels"])
@pytest.mark.parametrize("kind", ["dense", "hidden"])
@pytest.mark.parametrize("name", WITH_DISTANCES)
def test_the_step_of_every_objective_is_that_of_finite_differences(name, kind, several):
    step = Step(OBJECTIVES[name], points(kind, several))
    before = {name: array.copy() for name, array in step.parameters.items()}
    state = step.strategy.local_state.copy()
    step.loss(RATE)
    gradient = {name: (before[name] - array) / RATE for name, array in step.parameters.items()}
    step.strategy.local_state[:] = state
    step.strategy.n_updates[:] = FROZEN
    rng = np.random.default_rng(5)
    for name, array in step.parameters.items():
        for _ in range(4):
            direction = rng.choice([-1.0, 1.0], array.shape) / np.sqrt(array.size)
            losses = []
            for sign in (1, -1):
                for other, values in before.items():
                    step.parameters[other][:] = values
                array += sign * 3e-3 * direction
                losses.append(step.loss())
            slope = (losses[0] - losses[1]) / 6e-3
            assert (gradient[name] * direction).sum() == pytest.approx(slope, rel=0.01, abs=2e-3)


def test_a_hidden_layer_does_not_follow_rounding_while_labels_are_alike():
    step = Step(OBJECTIVES["softmax"], points("hidden"), optimizer="adagrad", bias="none")
    step.parameters["output"][:] = 0
    before = step.parameters["hidden"].copy()
    step.loss(rate=0.5)
    assert np.abs(step.parameters["hidden"] - before).max() < 1e-3
    step.loss(rate=0.5)
    assert np.abs(step.parameters["hidden"] - before).max() > 0.1


@pytest.mark.parametrize(("several", "kind"), [(False, "hidden"), (True, "dense")])
def test_losses_of_metric_learning_are_those_of_the_paper(several, kind):
    data = points(kind, several)
    naive = []
    for objective, options in (("softmax", {}), ("margin", {"smoothing": 1e-4})):
        step = Step(OBJECTIVES[objective], data, bias="none", **options)
        h = data.features
        if kind == "hidden":
            h = h @ step.parameters["hidden"]
        naive = [(x, step.parameters["output"], data.labels[i].tolist()) for i, x in enumerate(h)]
        if objective == "softmax":
            assert step.loss() == pytest.approx(np.mean([nca_loss(*row) for row in naive]))
        else:
            hardest = np.mean([max(triplets(*row)) for row in naive])
            assert step.loss() == pytest.approx(hardest, abs=1e-3)


def test_the_ranking_hinge_over_all_labels_is_the_triplet_loss(monkeypatch):
    monkeypatch.setitem(OBJECTIVES, "hinge", Hinge)
    data = points("dense")
    n_negatives = {"negatives": N_LABELS - 1, "sampler": "uniform"}
    step = Step(Hinge, data, bias="none", **n_negatives)
    centres = step.parameters["output"]
    naive = [sum(triplets(x, centres, [*data.labels[i]])) for i, x in enumerate(data.features)]
    assert step.loss() == pytest.approx(np.mean(naive), rel=1e-4)


def is_nearest(model, data):
    """The share of the rows whose likeliest label is that of the nearest vector, less its bias."""
    h = model.hidden_values(data.features)
    w = model.arrays["output"]
    bias = model.arrays.get("bias", np.zeros(len(w)))
    cost = [[squared_distance(x, y) - b for y, b in zip(w, bias, strict=True)] for x in h]
    ids, _ = next(model.iter_top_k(data.features, 1))
    return np.mean(ids[:, 0] == np.argmin(cost, axis=1))


@pytest.mark.parametrize("bias", ["none", "frequency"])
@pytest.mark.parametrize("kind", ["dense", "hidden"])
def test_a_loaded_model_predicts_the_nearest_labels(kind, bias, tmp_path):
    training, test = digits(400, 60) if kind == "dense" else TOPICS
    hidden = 12 if kind == "hidden" else None
    settings = ClassifySettings(score="euclidean", bias=bias, hidden=hidden, threads=1, epochs=5)
    objective = OBJECTIVES["softmax"]
    model = train(training, objective(objective.Settings()), settings).classifier
    assert is_nearest(model, test) == 1
    model.save(tmp_path / "m")
    loaded = load(tmp_path / "m")
    assert loaded.by_distance
    features = test.features
    np.testing.assert_array_equal(model.scores(features), loaded.scores(features))
    assert is_nearest(loaded, test) == 1
    searched, _ = next(loaded.searched_top_k(features, 1, share=1.0, threads=1))
    exact, _ = next(loaded.iter_top_k(features, 1))
    np.testing.assert_array_equal(searched[:, 0], exact[: len(searched), 0])


def change_score(model, score):
    """Write another score to a model folder, with a checksum that fits; None for none at all."""
    description = model / "model.json"
    record = json.loads(description.read_text("utf-8"))
    record["settings"]["score"] = score
    if score is None:
        del record["settings"]["score"]
    record.pop("checksum")
    description.write_text(json.dumps(record), "utf-8")


def test_an_unknown_score_in_a_model_is_damage(tmp_path):
    training, _ = digits(50, 1)
    objective = OBJECTIVES["softmax"]
    settings = ClassifySettings(threads=1, epochs=1)
    train(training, objective(objective.Settings()), settings).classifier.save(tmp_path / "m")
    change_score(tmp_path / "m", "cosine")
    with refused_data("model.json", quoting="cosine"):
        load(tmp_path / "m")


def test_a_classifier_of_scikit_learn_has_scores_by_distance(tmp_path):
    training, test = digits(400, 200)
    X = training.features
    y = training.labels.ids
    fitted = SoftmaxClassifier("softmax", score_function="euclidean", n_jobs=1).fit(X, y)
    assert fitted.score(test.features, test.labels.ids) > 0.85
    assert not hasattr(fitted, "coef_")
    fitted.save(tmp_path / "m")
    again = SoftmaxClassifier.load(tmp_path / "m")
    assert again.get_params()["score_function"] == "euclidean"
    np.testing.assert_array_equal(again.predict(test.features), fitted.predict(test.features))
    # Also by an estimator that was not told: the score is part of what was trained.
    again.set_params(score_function=None).partial_fit(X[:100], y[:100])
    assert again.classifier_.by_distance
    assert again.score(test.features, test.labels.ids) > 0.85
    with refused("score", value="cosine"):
        SoftmaxClassifier("softmax", score_function="cosine").fit(X, y)
    with refused("score", "optimizer", value="euclidean"):
        SoftmaxClassifier("softmax", score_function="euclidean", optimizer="lbfgs").fit(X, y)


@pytest.mark.parametrize(
    ("objective", "options", "mentioned"),
    [
        (OBJECTIVES["softmax"], {}, ["hidden"]),
        (PATH, {"hidden": 4}, []),
        (PROXIMAL, {"hidden": 4}, []),
    ],
)
def test_objectives_without_distances_are_refused(objective, options, mentioned):
    settings = ClassifySettings(score="euclidean", **options)
    with refused("score", *mentioned, value="euclidean"):
        train(TOPICS[0], objective(objective.Settings()), settings)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    rows = [f"__label__{name} {name} leaves hot" for name in ("tea", "coffee") for _ in range(30)]
    (tmp_path / "rows.txt").write_text("\n".join(rows) + "\n", "utf-8")
    return tmp_path


def test_distances_from_the_command_line_and_from_python(folder):
    options = ["--objective", "softmax", "--hidden", "4", "--threads", "1"]
    by_distance = [*options, "--score", "euclidean"]
    plan = run_command(folder, "classify", "rows.txt", *by_distance, "--dry-run", "--json").stdout
    assert json.loads(plan)["settings"]["score"] == "euclidean"
    run_command(folder, "classify", "rows.txt", *by_distance, "--output", "m")
    assert run_command(folder, "predict", "m", "-", input="tea hot\n").stdout.split()[0] == "tea"
    model = classify("rows.txt", objective="softmax", hidden=4, threads=1, score="euclidean")
    for name, array in load(folder / "m").arrays.items():
        np.testing.assert_array_equal(model.arrays[name], array)

    run_command(folder, "classify", "rows.txt", "--start", "m", "--output", "n", "--threads", "1")
    assert load(folder / "n").by_distance
    other = ["--start", "m", "--output", "o", "--score", "inner-product"]
    assert run_command(folder, "classify", "rows.txt", *other, check=False).returncode == 2


def test_other_commands_refuse_distances_and_name_classify(folder):
    for command in (("train", "rows.txt"), ("compare", "rows.txt", "--objectives", "softmax")):
        ended = run_command(folder, *command, "--score", "euclidean", check=False)
        assert ended.returncode == 2
        assert "`embedx classify`" in ended.stderr


def test_older_models_score_by_inner_products(folder):
    options = ["--objective", "softmax", "--hidden", "4", "--threads", "1", "--output", "m"]
    run_command(folder, "classify", "rows.txt", *options)
    change_score(folder / "m", None)
    again = ["--start", "m", "--output", "n", "--score", "euclidean"]
    ended = run_command(folder, "classify", "rows.txt", *again, check=False)
    assert ended.returncode == 2
    assert "--score" in ended.stderr

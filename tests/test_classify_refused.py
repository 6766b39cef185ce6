"""What `embedx classify` cannot do is refused before anything is trained, by a line that says what
to do instead.
"""

import dataclasses

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import embedx
from embedx.classification.ineffective_settings import check_given
from embedx.classification.objective_choice import default_objective
from embedx.classification.settings import ClassifySettings, whole_or_all
from embedx.errors import DataError, InapplicableError, Setting, SettingError
from embedx.labeled.data import Labeled, Labels
from embedx.objectives import OBJECTIVES
from embedx.runtime import memory
from embedx.runtime.memory import NoMemoryError
from embedx.runtime.progress import Silent
from embedx.tasks.labels import LabelTask
from embedx.tasks.requests import ClassifyRequest
from embedx.training.outcome import Outcome
from embedx.training.strategy import Tally
from tests.support.classify_runs import REPRESENTATIVES, TINY, first_where, run
from tests.support.commands import invoke
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.refusals import refused, refused_data

STEP = first_where(lambda o: o.step == "proximal")
PATH, COLUMNS, DRAWN = (REPRESENTATIVES[kind] for kind in ("path", "columns", "drawn"))
WRONG = {
    "sampler": (
        PATH,
        "sparse",
        {"sampler": "unigram"},
        "sampler",
    ),
    "step": (
        STEP,
        "sparse",
        {"batch_size": 10},
        "objective",
    ),
    "step's optimiser": (
        STEP,
        "sparse",
        {"optimizer": "adagrad"},
        "objective",
    ),
    "step's scale": (
        STEP,
        "sparse",
        {"gradient_scale": "sum"},
        "objective",
    ),
    "step's rows": (
        STEP,
        "sparse",
        {"sampler": "all"},
        "sampler",
    ),
    "hidden": (
        COLUMNS,
        "dense",
        {"hidden": 5},
        "hidden",
    ),
    "lbfgs hidden": (
        COLUMNS,
        "hidden",
        {"optimizer": "lbfgs"},
        "optimizer",
    ),
    "lbfgs one": (
        COLUMNS,
        "sparse",
        {"optimizer": "lbfgs", "labels": "one"},
        "optimizer",
    ),
    "lbfgs sampler": (
        DRAWN,
        "sparse",
        {"optimizer": "lbfgs", "sampler": "unigram"},
        "optimizer",
    ),
    "l2": (
        COLUMNS,
        "sparse",
        {"optimizer": "sgd", "l2": 20.0},
        "l2",
    ),
    "share": (COLUMNS, "sparse", {"validation": "file"}, "file"),
    "share of all": (
        COLUMNS,
        "sparse",
        {"validation": "1.0"},
        "validation",
    ),
}


@pytest.mark.parametrize("case", WRONG.values(), ids=list(WRONG))
def test_options_that_do_not_apply_are_refused(case):
    """The error names the setting at fault, or the file."""
    objective, kind, options, culprit = case
    with pytest.raises((SettingError, DataError)) as caught:
        run(objective, kind, **options)
    if isinstance(caught.value, SettingError):
        assert caught.value.setting == culprit
    else:
        assert caught.value.file == culprit


def test_data_without_anything_to_learn_are_refused(tmp_path):
    objective = REPRESENTATIVES["columns"]
    none = Labels.of_rows([[]] * 40)
    with refused_data("training data"):
        run(objective, data=dataclasses.replace(TINY, labels=none))
    (tmp_path / "rows.txt").write_text("1 8 6\n 0:1\n")
    with refused("validation"):
        run(objective, data=TINY, validation=str(tmp_path / "rows.txt"))
    with refused_data("training data"):
        run(objective, data=dataclasses.replace(TINY, weights=np.zeros(40)))
    with refused("time_budget", kind=InapplicableError):
        Outcome(Tally(), seconds=0.01, epochs=0, final_loss=None).check_trained()


def test_a_batch_size_is_a_number_or_all():
    assert whole_or_all("100") == 100
    assert whole_or_all("all") == 0
    with refused("batch_size", value="many"):
        whole_or_all("many")
    assert (
        run(REPRESENTATIVES["drawn"], data=TINY, batch_size=0, epochs=1).classifier.settings[
            "batch_size"
        ]
        == 40
    )


def test_models_too_large_for_memory_are_refused_with_the_bytes_and_a_remedy(monkeypatch):
    monkeypatch.setattr("embedx.runtime.memory.available_memory", lambda: 30_000_000)
    monkeypatch.setattr("embedx.classification.lbfgs_trainer.available_memory", lambda: 30_000_000)
    wide = Labeled(csr_matrix((40, 1_000_000), dtype=np.float32), TINY.labels, 6)
    objective = REPRESENTATIVES["columns"]
    size = "6 outputs × 1,000,001 weights with "
    adagrad = (size, Setting("optimizer", "adagrad"))
    with refused(
        None, "hidden", kind=NoMemoryError, purpose=adagrad, available=30_000_000
    ) as caught:
        run(objective, data=wide)
    assert caught.value.need > 30_000_000
    with refused(None, "optimizer", kind=NoMemoryError) as sgd_error:
        run(objective, data=wide, optimizer="sgd", hidden=10)
    assert Setting("hidden", 100) not in sgd_error.value.parts
    lbfgs = (size, Setting("optimizer", "lbfgs"))
    with refused(None, "optimizer", kind=NoMemoryError, purpose=lbfgs):
        run(objective, data=wide, optimizer="lbfgs")


@pytest.mark.parametrize("size", ["n_labels", "n_features"])
def test_ids_that_are_too_large_are_refused_before_memory_is_allocated(monkeypatch, size):
    monkeypatch.setattr("embedx.runtime.memory.available_memory", lambda: 10_000_000)
    far = dataclasses.replace(TINY, n_labels=1_000_000)
    if size == "n_features":
        wide = csr_matrix((len(TINY), 1_000_000), dtype=np.float32)
        far = dataclasses.replace(TINY, features=wide)
    with refused_data("the training data", quoting="1,000,000 ") as raised:
        run(REPRESENTATIVES["drawn"], data=far)
    assert raised.value.file == "the training data"


def test_the_memory_plan_counts_the_scores_of_a_minibatch_with_all_labels(monkeypatch):
    """The scores of a minibatch, beside the weights, the state of Adagrad, and the best weights so
    far.
    """
    rng = np.random.default_rng(0)
    dense = Labeled(rng.normal(size=(40, 5000)).astype(np.float32), TINY.labels, 6)
    plans = []
    monkeypatch.setattr(memory.MemoryPlan, "check", lambda plan, what, remedy: plans.append(plan))
    needs_of_first_training = []
    for objective in OBJECTIVES["softmax"], OBJECTIVES["ns"]:
        plans.clear()
        settings = ClassifySettings(
            optimizer="adagrad", threads=1, epochs=1, batch_size=0, validation="0.25"
        )
        train(dense, objective(objective.Settings()), settings)
        needs_of_first_training.append(plans[0].needs)
    all_rows, drawn = needs_of_first_training
    assert all_rows["weights"] == all_rows["optimizer"] == all_rows["best weights"] >= 4 * 6 * 5001
    assert all_rows["threads"] >= 4 * 30 * 6
    assert drawn["threads"] > 0


def columns():
    """An objective that scores all labels."""
    objective = REPRESENTATIVES["columns"]
    return objective(objective.Settings())


WITHOUT_EFFECT = {  # the options, and the one that has no effect
    "no validation": ({"validation_labels": "x"}, "validation_labels"),
    "labels of a share": ({"validation": "0.1", "validation_labels": "x"}, "validation_labels"),
    "patience": ({"patience": 2}, "patience"),
    "decay_every": ({"decay_every": 5}, "decay_every"),
    "max_iterations": ({"max_iterations": 5}, "max_iterations"),
    "epochs": ({"optimizer": "lbfgs", "epochs": 5}, "epochs"),
}


@pytest.mark.parametrize(("options", "setting"), WITHOUT_EFFECT.values(), ids=list(WITHOUT_EFFECT))
def test_options_without_effect_are_refused(options, setting):
    with pytest.raises(SettingError) as caught:
        check_given(options, ClassifySettings.from_options(options), columns())
    assert caught.value.setting == setting


def test_options_with_an_effect_are_taken():
    options = {
        "validation": "file",
        "validation_labels": "x",
        "patience": 2,
        "decay": 0.5,
        "decay_every": 3,
        "epochs": 4,
    }
    for typed in options, {"optimizer": "lbfgs", "max_iterations": 5, "tolerance": 1e-3, "l2": 0.1}:
        check_given(typed, ClassifySettings.from_options(typed), columns())


def test_settings_of_a_label_tree_are_refused_if_weights_are_not_a_tree():
    dense = Labeled(np.ones((4, 2), np.float32), Labels.single(np.array([0, 1, 0, 1])), 2)
    with refused("trees", "weights", kind=InapplicableError):
        objective = OBJECTIVES["softmax"]
        resolved(ClassifySettings(trees=3), objective(objective.Settings()), dense)


def test_the_default_objective_depends_on_the_weights_option():
    features = csr_matrix(np.eye(4, dtype=np.float32))
    data = Labeled(features, Labels.single(np.array([0, 1, 0, 1])), 2)
    for weights in ("sparse", "tree"):
        options = {"weights": weights, "time_budget": 9.0, "optimizer": "adagrad"}
        assert default_objective(data, options) == ("ova", {"loss": "squared-hinge"})
    assert default_objective(data, {"time_budget": 9.0})[0] == "softmax"


SPARSE_ROWS = Labeled(
    csr_matrix(np.eye(4, dtype=np.float32)), Labels.single(np.array([0, 1, 0, 1])), 2
)


def hinge():
    """One-vs-all with the squared hinge."""
    objective = OBJECTIVES["ova"]
    return objective(objective.Settings(loss="squared-hinge"))


@pytest.mark.parametrize(
    "name", ["trees", "beam", "leaf_size", "arity", "label_features", "weight_threshold"]
)
def test_settings_of_other_weights_are_refused_even_at_their_default_values(name):
    settings = ClassifySettings(optimizer="lbfgs", sampler="all")
    assert resolved(settings, hinge(), SPARSE_ROWS, frozenset()).weights == "dense"
    with refused(name, "weights", kind=InapplicableError):
        resolved(settings, hinge(), SPARSE_ROWS, frozenset({name}))


@pytest.mark.parametrize("name", ["schedule", "decay", "gradient_scale", "initial_gradient"])
def test_settings_of_gradient_steps_are_refused_with_dcd_even_at_their_default_values(name):
    settings = ClassifySettings(optimizer="dcd", weights="sparse")
    assert resolved(settings, hinge(), SPARSE_ROWS, frozenset()).optimizer == "dcd"
    with refused(name, "optimizer"):
        resolved(settings, hinge(), SPARSE_ROWS, frozenset({name}))


def test_a_default_that_is_typed_counts_as_given_to_embedx_classify(tmp_path):
    rows = tmp_path / "rows.txt"
    rows.write_text("4 3 2\n0 0:1\n1 1:1\n0 0:1 2:1\n1 1:1 2:1\n")
    for typed in {}, {"trees": 1}, {"weight_threshold": 0.1}:
        request = ClassifyRequest(train=[str(rows)], options={**typed, "optimizer": "lbfgs"})
        task = LabelTask(request, Silent())
        data, _ = task.data
        if not typed:
            assert task.resolved_run(data).settings.weights == "dense"
            continue
        with refused(next(iter(typed)), "weights", kind=InapplicableError):
            task.resolved_run(data)


@pytest.mark.parametrize("name", ["propensity_a", "propensity_b"])
def test_propensities_of_dense_weights_change_psp_at_k_and_the_log_says_so(name):
    notes = []

    class Log(Silent):
        def note(self, *text):
            notes.append(text)

    psp = []
    for value in 0.5, 3.0:
        settings = ClassifySettings(weights="dense", epochs=1, threads=1, **{name: value})
        trained = train(
            TINY, columns(), settings, progress=Log(), given_names=frozenset({"weights", name})
        )
        psp.append(trained.classifier.evaluate(TINY)["psp@1"])
    assert psp[0] != psp[1]
    assert [text for text in notes if Setting(name, 3.0) in text]


def test_test_data_without_any_label_are_refused_before_anything_is_trained(tmp_path):
    """For example a file of another format, whose lines a model of texts reads as texts."""
    training = tmp_path / "training.txt"
    training.write_text("__label__a one two\n__label__b three four\n" * 60)
    test = tmp_path / "test.svm"
    test.write_text("1 1:1 2:1\n0 2:1\n")
    model = tmp_path / "model"
    with refused_data("test.svm", "test_labels"):
        invoke("classify", str(training), "--test", str(test), "--output", str(model))
    assert not model.exists()
    invoke("classify", str(training), "--output", str(model))
    with refused_data("test.svm", "test_labels"):
        invoke("eval", str(model), "--test", str(test))
    with refused_data("test.svm", "test_labels"):
        embedx.evaluate(model, test=test)

"""--deterministic: the same bytes whatever the number of threads, again, and after an
interruption.
"""

import json
import signal

import numpy as np
import pytest

from embedx.classification import full_minibatches, sampled_minibatches
from embedx.classification.settings import ClassifySettings
from embedx.engine.settings import TrainingSettings
from embedx.errors import DataError
from embedx.objectives import OBJECTIVES
from embedx.skipgram import strategies
from embedx.skipgram.configuration import configure
from tests.support import word_training
from tests.support.checkpoints import arrays_of, checkpoints_of, end_at_a_checkpoint, left_behind
from tests.support.forked import embedx_run
from tests.support.label_data import topics
from tests.support.label_settings import resolved
from tests.support.label_training import train
from tests.support.objective_classes import REPRESENTATIVES
from tests.support.refusals import refused
from tests.support.resumed_runs import (
    FEW,
    assert_resumes,
    label_run,
    objective_settings,
    same,
    sentences,
    word_run,
)


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch):
    """Have several chunks in an epoch of little data."""
    monkeypatch.setattr(strategies, "TOKENS_PER_CHUNK", 150)
    monkeypatch.setattr(sampled_minibatches, "CHUNK", 100)
    monkeypatch.setattr(full_minibatches, "TILED_CHUNK", 800)


def by_threads(run, name, **options):
    """Models trained by 1 and 3 threads are the same."""
    by_one, *_ = run(name, deterministic=True, threads=1, **options)
    by_three, *_ = run(name, deterministic=True, threads=3, **options)
    same(by_three, by_one)


def topics_run(name, **options):
    """As `label_run`, on sparse features."""
    objective_class = OBJECTIVES[name]
    data = topics(300, 30)
    options_of_run = {"epochs": 2, "threads": 1} | options
    objective = objective_class(
        objective_class.Settings.from_options(
            objective_settings(objective_class, {"warm_up": 1.0, **options})
        )
    )
    settings = resolved(ClassifySettings.from_options(options_of_run), objective, data)
    trained = train(data, objective, settings)
    return trained.classifier.arrays, trained.outcome


# ---- word vectors


@pytest.mark.parametrize("name", ["softmax", "ns", "hs", "ldgs"])
def test_word_vectors_are_the_same_by_any_number_of_threads(name):
    by_threads(word_run, name, epochs=3)


@pytest.mark.parametrize("name", ["softmax", "ldgs"])
def test_counts_of_pairs_are_the_same_by_any_number_of_threads(name):
    def run(name, **options):
        config = configure(
            name, FEW | {"epochs": 3, "count_passes": 2} | options, is_collapsed=True
        )
        trained = word_training.train(sentences(), config)
        losses = [entry["loss"] for entry in trained.model.facts["history"]]
        return trained.model.arrays | {"losses": np.array(losses)}, trained.outcome

    by_threads(run, name)


# ---- classifiers


@pytest.mark.parametrize("name", REPRESENTATIVES)
def test_classifiers_are_the_same_by_any_number_of_threads(name):
    by_threads(label_run, name, epochs=2)


@pytest.mark.parametrize("hidden", [0, 6])
@pytest.mark.parametrize(
    "name", [name for name in REPRESENTATIVES if OBJECTIVES[name].step != "proximal"]
)
def test_classifiers_on_sparse_features_are_the_same_by_any_number_of_threads(name, hidden):
    by_threads(topics_run, name, batch_size=64, **({"hidden": hidden} if hidden else {}))


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("ove", {"optimizer": "rowwise-adagrad", "max_norm": 0.5}),
        ("ove", {"optimizer": "mixture", "l2": 1e-3}),
        ("ar", {"sampler": "adversarial"}),
        ("ns", {"sampler": "unigram", "labels": "one"}),
        ("ns", {"sampler": "all"}),
        ("margin", {"optimizer": "mixture", "l2": 1e-3}),
        ("softmax", {"optimizer": "lbfgs", "l2": 1e-3}),
        ("implicit", {}),
        ("ldgs", {"hidden": 6, "rescore": False}),
    ],
)
def test_classifiers_with_other_settings_are_the_same_by_any_number_of_threads(name, options):
    by_threads(topics_run, name, **options)


def test_validation_ends_a_run_at_the_same_time_by_any_number_of_threads():
    by_threads(
        label_run,
        "softmax",
        validation="0.3",
        learning_rate=1.0,
        schedule="constant",
        epochs=12,
        patience=2,
    )


# ---- interrupted


@pytest.mark.parametrize("run", [word_run, label_run])
@pytest.mark.parametrize("name", ["ns", "ar", "softmax", "ldgs"])
def test_runs_resume_with_another_number_of_threads(run, name, stop_after):
    assert_resumes(run, name, stop_after, 4, threads=(2, 4, 1), deterministic=True, epochs=3)


@pytest.mark.parametrize("settings", [{"deterministic": True}, {}])
def test_only_a_deterministic_run_is_resumed_by_another_number_of_threads(settings, tmp_path):
    left_behind(tmp_path / "out", options={**settings, "threads": 2})
    with_more_threads = {**settings, "threads": 4}
    if settings:
        assert checkpoints_of(tmp_path / "out", resume=True, options=with_more_threads).is_resuming
    else:
        with refused(None, "threads", "resume", kind=DataError):
            checkpoints_of(tmp_path / "out", resume=True, options=with_more_threads)


def test_a_killed_command_is_resumed_by_another_number_of_threads(tmp_path, two_topics):
    def command(output, threads, *more):
        options = ["--dim", "8", "--epochs", "60", "--deterministic", "--threads"]
        return ["train", str(two_topics), *options, str(threads), "--output", output, *more]

    code, log = end_at_a_checkpoint(command("killed", 2), tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL, log
    for last in (command("killed", 1, "--resume"), command("whole", 4)):
        embedx_run(tmp_path, *last)
    assert arrays_of(tmp_path / "killed") == arrays_of(tmp_path / "whole")
    assert json.loads((tmp_path / "killed" / "model.json").read_text())["settings"]["deterministic"]


# ---- what is refused


def test_a_time_budget_is_refused():
    with refused("deterministic", "time_budget", "epochs", value=True):
        TrainingSettings(deterministic=True, time_budget=10.0)

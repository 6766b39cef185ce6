"""Word vectors by the collapsed objective: from a corpus to a model that is like any other."""

import itertools
import json
import re

import numpy as np
import pytest

import embedx
from embedx.engine import alternating
from embedx.errors import InapplicableError, Setting
from embedx.evaluation import held_out
from embedx.objectives import OBJECTIVES
from embedx.runtime.memory import NoMemoryError
from embedx.skipgram import collapsed
from embedx.skipgram.configuration import configure
from embedx.text import cache, cooccurrence
from embedx.training import trainer
from tests.support import word_training
from tests.support.clock import Clock
from tests.support.commands import run_command, words_of
from tests.support.notes import lines_with
from tests.support.refusals import refused
from tests.support.two_topics import CATS

SOFTMAX = ("--collapsed", "--objective", "softmax")
MOMENTUM = "rowwise-adagrad-momentum"
SMALL = {"dim": 16, "epochs": 10, "sample": 0, "threads": 2}


def fit(corpus, *, objective="softmax", watch=None, **options):
    defaults = dict(SMALL)
    if "time_budget" in options:
        del defaults["epochs"]
    return word_training.train(
        corpus, configure(objective, defaults | options, is_collapsed=True), watch=watch
    )


@pytest.fixture(scope="module")
def fitted(two_topics):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(alternating, "time", Clock(tick=0.01))
        return fit(two_topics)


def test_every_iteration_lowers_the_objective_and_is_reported(fitted):
    history = fitted.model.facts["history"]
    assert [entry["number"] for entry in history] == list(range(11))
    assert all(a["loss"] > b["loss"] for a, b in itertools.pairwise(history))
    assert all(
        0 < a["macs"] < b["macs"] and 0 < a["seconds"] < b["seconds"]
        for a, b in itertools.pairwise(history)
    )
    assert fitted.model.facts["final_loss"] == history[-1]["loss"] == fitted.outcome.final_loss
    assert fitted.model.facts["epochs"] == 10


def test_the_objective_comes_close_to_its_lower_bound(two_topics, monkeypatch):
    """Which is the entropy of targets given inputs: 16 words in 16 dimensions can have
    any score.
    """
    entropies = []
    totals = cooccurrence.totals

    def totals_and_entropy(counts):
        of_inputs, of_targets = totals(counts)
        log_p = np.log(counts.times / np.repeat(of_inputs, np.diff(counts.offsets)))
        entropies.append(-(counts.times @ log_p) / of_inputs.sum())
        return of_inputs, of_targets

    monkeypatch.setattr(cooccurrence, "totals", totals_and_entropy)
    loss = fit(two_topics, epochs=40).outcome.final_loss
    assert entropies[0] < loss < entropies[0] + 2e-3


def test_the_model_can_be_saved_and_queried(fitted, two_topics, tmp_path):
    loaded = embedx.load(fitted.model.save(str(tmp_path / "model")))
    np.testing.assert_array_equal(loaded.vectors, fitted.model.vectors)
    assert loaded.settings["count_passes"] == 5
    assert loaded.settings["sampler"] == "all"
    assert "draws" not in loaded.settings
    pairs, calibration = held_out.pairs_of([str(two_topics)], loaded)
    likelihood = held_out.evaluate(loaded, pairs, calibration)
    assert -likelihood.log_likelihood == pytest.approx(
        fitted.outcome.final_loss, abs=3 * likelihood.standard_error
    )


def test_negative_sampling_leads_to_a_better_start_than_none(two_topics):
    starts = {
        name: fit(two_topics, warm_start=name, epochs=1).outcome.initial_loss
        for name in ("ns", "none")
    }
    assert starts["ns"] < starts["none"] - 0.02
    unigram = fit(two_topics, warm_start="none", epochs=1).model.counts
    p = unigram / unigram.sum()
    assert starts["none"] == pytest.approx(-(p @ np.log(p)), abs=0.01)  # of a bias that is log p


@pytest.mark.parametrize("options", [{"bias": "none"}, {"warm_start": "none", "window": 1}])
def test_every_setting_lowers_the_objective(two_topics, options):
    trained = fit(two_topics, epochs=3, **options)
    assert trained.outcome.final_loss < trained.outcome.initial_loss
    assert len(trained.model.arrays["bias"]) == len(trained.model)


def test_inputs_that_have_no_gradient_yet_keep_their_rate(two_topics):
    """With outputs of zero the first step of the inputs leads nowhere, which is no reason for
    smaller steps.
    """
    history = fit(two_topics, warm_start="none", bias="zero", epochs=6).model.facts["history"]
    assert min(entry["input_rate"] for entry in history) > 0.1
    assert history[-1]["loss"] < history[0]["loss"] - 0.2


@pytest.mark.parametrize(
    "objective",
    [name for name, objective in OBJECTIVES.items() if "retrieved" in objective.candidates],
)
def test_training_on_found_rows_lowers_the_objective(two_topics, objective):
    trained = fit(two_topics, objective=objective, scored_fraction=0.5)
    losses = [entry["loss"] for entry in trained.model.facts["history"]]
    assert all(a > b for a, b in itertools.pairwise(losses))
    assert {word for word, _ in trained.model.most_similar("cat", top_k=3)} <= set(CATS)
    assert trained.model.settings["scored_fraction"] == 0.5
    assert trained.model.settings.get("loss", "softmax") == "softmax"


def test_a_watcher_sees_the_vectors_of_each_iteration(two_topics):
    iterations = []
    fit(
        two_topics,
        epochs=2,
        watch=lambda vectors, iteration: iterations.append(
            (vectors.vectors.copy(), iteration.number)
        ),
    )
    assert [number for _, number in iterations] == [0, 1, 2]
    assert not np.array_equal(iterations[0][0], iterations[1][0])


def test_the_part_held_out_is_reported(two_topics):
    trained = fit(two_topics, heldout=0.2)
    likelihoods = trained.model.facts["heldout"]
    assert likelihoods["log_likelihood"] > likelihoods["unigram"] + 0.1
    assert trained.outcome.tally.pairs < 0.9 * fit(two_topics).outcome.tally.pairs


def test_drawn_rows_do_not_depend_on_held_out_text(two_topics, monkeypatch):
    drawn_by = []
    tail = collapsed.engine.Tail
    monkeypatch.setattr(
        collapsed.engine,
        "Tail",
        lambda sampler, *others: drawn_by.append(sampler) or tail(sampler, *others),
    )
    model = fit(two_topics, objective="ldgs", epochs=1, heldout=0.2).model
    (sampler,) = drawn_by
    assert model.arrays["heldout_counts"].any()
    np.testing.assert_array_equal(
        sampler.counts, np.maximum(model.counts - model.arrays["heldout_counts"], 1)
    )


def test_a_time_budget_ends_the_run(two_topics, monkeypatch):
    monkeypatch.setattr(trainer, "time", Clock())  # of the epoch of streaming before
    tick = 0.001
    monkeypatch.setattr(alternating, "time", Clock(tick))
    outcome = fit(two_topics, time_budget=0.5).outcome
    assert outcome.epochs > 1
    # The last look before the budget ends an iteration's work, the next one measures it.
    assert outcome.seconds < 0.5 + 1.5 * tick


@pytest.mark.parametrize("bytes_there", [100_000, 10**10])
def test_what_does_not_fit_in_memory_is_refused(two_topics, monkeypatch, bytes_there):
    monkeypatch.setattr("embedx.runtime.memory.available_memory", lambda: bytes_there)
    with refused(None, "dim", kind=NoMemoryError, available=bytes_there):
        fit(two_topics, dim=10**9, count_passes=10_000)


def test_only_an_objective_over_all_rows_or_found_ones_can_be_collapsed():
    for name in ("ns", "hs", "ar", "implicit", "margin"):
        with refused("collapsed", "objective", kind=InapplicableError, value=True) as caught:
            configure(name, {}, is_collapsed=True)
        assert Setting("objective", name) in caught.value.problem
        assert caught.value.remedy.startswith("use it with softmax")


# ---- the command


def test_the_command_from_text_to_neighbours(home, two_topics):
    options = ["--objective", "softmax", "--collapsed", "--dim", 16, "--sample", 0, "--epochs", 10]
    completed = run_command(home, "train", two_topics, *options, "--heldout", "20%", "--json", "-v")
    result = json.loads(completed.stdout)
    assert result["collapsed"]
    assert len(result["history"]) == 11
    assert "count-passes=5" in completed.stderr
    assert "iteration 10: loss " in completed.stderr
    folder = home / "two-topics.softmax.embedx"
    neighbours = [
        line.split("\t")[1]
        for line in run_command(home, "nn", folder, "cat", "--top-k", 3).stdout.splitlines()
    ]
    assert set(neighbours) <= set(CATS)
    assert "log_likelihood" in run_command(home, "eval", folder, "--text", two_topics).stdout
    (folder,) = cache.default_folders()
    assert not list(folder.rglob("building*"))


@pytest.mark.parametrize("method", [("--collapsed",), ()], ids=["collapsed", "streamed"])
def test_a_loss_among_the_rows_found_alone_is_reported_as_one(home, two_topics, method):
    """It is below that over all rows."""
    options = [
        "--objective",
        "ldgs",
        "--set",
        "tail=no",
        "--epochs",
        1,
        "--output",
        f"found{len(method)}",
    ]
    completed = run_command(home, "train", two_topics, *options, *method)
    loss_pattern = r"loss [\d.]+ nats per pair among the rows found"
    assert re.search(f"16 words, {loss_pattern}", completed.stdout)
    assert ("1 iterations in " in completed.stdout) == bool(method)
    assert bool(re.search(f"iteration 1: {loss_pattern}, ", completed.stderr)) == bool(method)


def test_a_budget_too_small_for_anything_is_reported(home, two_topics):
    options = words_of("--objective softmax --collapsed --time-budget 0.0001 --output nothing")
    assert (
        "16 words, ended before the first iteration"
        in run_command(home, "train", two_topics, *options).stdout
    )
    assert embedx.load(home / "nothing").facts["history"] == []


@pytest.mark.parametrize(
    ("options", "setting", "others"),
    [
        ([*SOFTMAX, "--block-size", "3"], "--block-size", ["--collapsed"]),
        ([*SOFTMAX, "--negatives", "3"], "--negatives", ["--objective softmax"]),
        (
            ["--collapsed", "--objective", "mips", "--set", "warm-up=1"],
            "--set warm-up",
            ["--collapsed"],
        ),
        (
            ["--collapsed", "--objective", "mips", "--loss", "margin"],
            "--collapsed",
            ["--objective mips", "softmax"],
        ),
        (["--set", "count-passes=3"], "--set count-passes", ["--collapsed"]),
        (["--optimizer", MOMENTUM], "--optimizer", ["`embedx train --collapsed`", "adagrad"]),
        (
            ["--optimizer", MOMENTUM, "--learning-rate", "1"],
            "--optimizer",
            ["`embedx train --collapsed`", "adagrad"],
        ),
        ([*SOFTMAX, "--optimizer", "adagrad"], "--optimizer adagrad", ["--collapsed", MOMENTUM]),
    ],
)
def test_what_does_not_apply_is_reported_by_name(home, two_topics, options, setting, others):
    completed = run_command(home, "train", two_topics, *options, "--output", "mistake", check=False)
    assert completed.returncode == 2
    (line,) = lines_with(completed.stderr.splitlines()[-1], *others)
    assert line.startswith(f"embedx: {setting}")
    assert not (home / "mistake").exists()

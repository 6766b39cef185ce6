"""eval adversarial-words: a step of the trainer is that of naive formulas, corrected probabilities
sum to one, and a trial run has a row for each contender.
"""

import numpy as np
import pytest

from embedx import samplers
from embedx.kernels.random import stream_key
from embedx.samplers.contract import new_sample_workspace
from embedx.skipgram.configuration import configure
from eval import adversarial_words as script
from eval.pair_trainer import PairTrainer, counted_pairs
from tests.support.eval_setup import Records, Run, environment, experiment_called, rows_of

N_WORDS = 7
DIM = 5
NEGATIVES = 6
RATE = 0.3
SEED = 3
INPUT = 2
TARGET = 4
COUNTS = np.arange(1, N_WORDS + 1) * 10


def trainer_of(name, noise, has_bias):
    """A trainer with parameters of some size, which draws by a noise."""
    objective = configure(name, {"negatives": NEGATIVES}).objective
    trainer = PairTrainer(objective, COUNTS, DIM, has_bias, SEED)
    sampler = samplers.make("unigram", {})
    sampler.prepare(COUNTS)
    trainer.begin(sampler)
    rng = np.random.default_rng(1)
    n_columns = DIM + has_bias
    trainer.inputs.rows[:, :DIM] = rng.standard_normal((N_WORDS, DIM))
    trainer.outputs.rows[:, :n_columns] = rng.standard_normal((N_WORDS, n_columns))
    if noise == "adversarial":
        tree = samplers.make(
            "adversarial", {"tree_features": 3}, corrected=objective.traits.adds_log_noise
        )
        words = rng.integers(N_WORDS, size=(2, 200))
        trainer.fit(tree, *words)
    return trainer


def draws_of(trainer):
    """The rows that are drawn for the first pair, and the log of how often each word is expected
    among them.
    """
    sampler = trainer.sampler
    data = sampler.data(NEGATIVES)
    buffers = new_sample_workspace(NEGATIVES, 0)
    sampler.sample(data, INPUT, stream_key(SEED, 0), np.uint64(0), NEGATIVES, 0, buffers)
    words = np.arange(N_WORDS, dtype=np.int32)
    log_expected = np.zeros(N_WORDS, np.float32)
    sampler.log_expected_count(data, INPUT, NEGATIVES, 0, words, N_WORDS, log_expected)
    return buffers.rows.copy(), log_expected.astype(float)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def slopes(name, z, draws, log_expected):
    """The loss of a pair and its derivative by each score, float64 (n_words,), by the formulas of
    the papers.
    """
    slope = np.zeros(N_WORDS)
    if name == "ns":
        loss = np.log1p(np.exp(-z[TARGET]))
        slope[TARGET] = sigmoid(z[TARGET]) - 1
        for k in draws:
            loss += np.log1p(np.exp(z[k]))
            slope[k] += sigmoid(z[k])
        return loss, slope
    others = [k for k in draws if k != TARGET]
    if name == "ove":
        loss = 0.0
        for k in others:
            weight = np.exp(-log_expected[k])
            loss += weight * np.log1p(np.exp(z[k] - z[TARGET]))
            slope[k] += weight * sigmoid(z[k] - z[TARGET])
            slope[TARGET] -= weight * sigmoid(z[k] - z[TARGET])
        return loss, slope
    # the first estimate of the normaliser is the state of augment and reduce
    normaliser = np.exp(z[TARGET])
    for k in others:
        normaliser += np.exp(z[k] - log_expected[k])
    u = max(np.log(normaliser), max(z[k] for k in (TARGET, *others)) - 1)
    slope[TARGET] = np.exp(z[TARGET] - u) - 1
    for k in others:
        slope[k] += np.exp(z[k] - log_expected[k] - u)
    return u - z[TARGET] - 1 + normaliser * np.exp(-u), slope


@pytest.mark.parametrize("noise", ["unigram", "adversarial"])
@pytest.mark.parametrize(
    ("name", "has_bias"), [("ns", False), ("ove", True), ("ar", True), ("ns", True)]
)
def test_a_step_is_that_of_the_formulas(name, has_bias, noise):
    trainer = trainer_of(name, noise, has_bias)
    n_columns = DIM + has_bias
    h = trainer.inputs.rows[INPUT, :n_columns].astype(float)
    outputs = trainer.outputs.rows[:, :n_columns].astype(float)
    draws, log_expected = draws_of(trainer)
    assert len(set(draws.tolist())) < NEGATIVES  # a row that is drawn twice counts twice
    wanted_loss, slope = slopes(name, outputs @ h, draws, log_expected)
    inputs_before = trainer.inputs.rows.copy()

    pair = np.array([INPUT], np.int32), np.array([TARGET], np.int32)
    loss = trainer.train(*pair, epoch=0, first_rate=RATE, last_rate=RATE)

    assert loss == pytest.approx(wanted_loss, rel=1e-4)
    expected = outputs.copy()
    for k in np.flatnonzero(slope):
        gradient = slope[k] * h
        expected[k] -= RATE * gradient / np.linalg.norm(gradient)
    np.testing.assert_allclose(trainer.outputs.rows[:, :n_columns], expected, atol=1e-4)
    gradient = (slope @ outputs)[:DIM]
    wanted_h = h[:DIM] - RATE * gradient / np.linalg.norm(gradient)
    np.testing.assert_allclose(trainer.inputs.rows[INPUT, :DIM], wanted_h, atol=1e-4)
    is_other = np.arange(N_WORDS) != INPUT
    assert (trainer.inputs.rows[is_other] == inputs_before[is_other]).all()
    if has_bias:
        assert trainer.inputs.rows[INPUT, DIM] == 1


@pytest.mark.parametrize("noise", ["unigram", "adversarial"])
def test_probabilities_sum_to_one_and_those_of_ns_add_the_noise_of_the_input(noise):
    trainer = trainer_of("ns", noise, has_bias=False)
    _, log_expected = draws_of(trainer)
    z = trainer.outputs.rows @ trainer.inputs.rows[INPUT] + log_expected
    expected = np.exp(z) / np.exp(z).sum()
    # vectors move on, the noise is that of the vectors to which it was fitted
    (_, log_p), *others = trainer.log_probabilities(np.array([INPUT, TARGET]))
    assert not others
    np.testing.assert_allclose(np.exp(log_p).sum(axis=1), 1, rtol=1e-5)
    np.testing.assert_allclose(np.exp(log_p[0]), expected, rtol=1e-4)
    (_, log_q), *_ = trainer.log_noise_probabilities(np.array([INPUT, TARGET]))
    np.testing.assert_allclose(np.exp(log_q).sum(axis=1), 1, rtol=1e-5)


def test_the_correction_stays_that_of_the_draws_when_vectors_move():
    trainer = trainer_of("ns", "adversarial", has_bias=False)
    before = trainer.log_expected_counts(np.array([INPUT]))
    trainer.inputs.rows[:, :DIM] += 1
    np.testing.assert_array_equal(trainer.log_expected_counts(np.array([INPUT])), before)
    np.testing.assert_allclose(before[0], draws_of(trainer)[1], rtol=1e-4)


def test_each_pair_is_counted():
    pairs = counted_pairs(np.array([1, 0, 1, 2]), np.array([2, 2, 2, 0]), 3)
    assert pairs.offsets.tolist() == [0, 1, 1, 3]
    assert pairs.inputs.tolist() == [2, 0, 1]
    assert pairs.weights.tolist() == [1, 1, 2]


def test_a_trial_run_has_a_row_for_each_contender(tmp_path, monkeypatch):
    monkeypatch.setattr(script, "PENALTIES", (script.FIRST_PENALTY,))
    monkeypatch.setattr(script, "EPOCHS", 2)
    monkeypatch.setattr(script, "HELD_OUT", 0.25)
    monkeypatch.setattr(script, "MAX_PAIRS", 2_000)
    size = {"megabytes": 0.1, "search_megabytes": 0.1}
    run = Run(experiment_called("adversarial-words"), ["ns", "short"], quick=True, **size)
    run.folder = tmp_path
    script.prepare(run)
    run.records = Records(tmp_path / "raw", environment(quick=True), mixed=True)
    run.measure(resume=True)
    results = script.results_on("short")(run.records)
    assert {*rows_of(results)} == {"ns"}
    for noise in script.NOISES:
        assert f"| {noise} |" in results
    assert "`ns` | adversarial |" in script.searched(run.records)

"""What held-out text tells of a run: whether it diverged, overfitted, or was too short."""

import pytest

from embedx.errors import DivergedError
from embedx.skipgram.final_checks import judge_on_held_out
from embedx.training.outcome import Outcome
from embedx.training.strategy import Tally
from tests.support.notes import Notes, lines_with

UNIGRAM = -6.0
BASELINE_LOSS = 4.0
FAR_WORSE = -20.0
RATE = 2.0


def judged(
    final_loss, log_likelihood, *, baseline_loss=BASELINE_LOSS, calibrated=None, rates=(), curve=()
):
    """The error of such a run, and its warnings; a temperature does not help it."""
    outcome = Outcome(
        Tally(),
        seconds=1.0,
        epochs=1.0,
        final_loss=final_loss,
        baseline_loss=baseline_loss,
        lowered_rates=list(rates),
        curve=[{"epoch": 0.0, "seconds": 0.0, "loss": loss} for loss in curve],
    )
    metrics = {
        "log_likelihood": log_likelihood,
        "calibrated": log_likelihood if calibrated is None else calibrated,
        "unigram": UNIGRAM,
    }
    notes = Notes()
    return judge_on_held_out(metrics, outcome, RATE, notes), notes.warnings


@pytest.mark.parametrize("final_loss", [0.1, 0.8 * BASELINE_LOSS, 0.999 * BASELINE_LOSS])
@pytest.mark.parametrize("log_likelihood", [UNIGRAM - 0.51, UNIGRAM - 1.0, FAR_WORSE, -1e6])
def test_an_overfitted_run_has_not_diverged_however_bad_it_is_on_held_out_text(
    final_loss, log_likelihood
):
    error, (warning,) = judged(final_loss, log_likelihood)
    assert error is None
    assert lines_with(warning, "overfits", "rate 2, ", "--epochs")


@pytest.mark.parametrize("final_loss", [1.001 * BASELINE_LOSS, 1.1 * BASELINE_LOSS, 1e9])
@pytest.mark.parametrize("log_likelihood", [UNIGRAM - 0.51, FAR_WORSE])
def test_a_run_that_is_worse_than_frequencies_on_both_texts_has_diverged(
    final_loss, log_likelihood
):
    error, warnings = judged(final_loss, log_likelihood)
    assert isinstance(error, DivergedError)
    assert "learning rate 2, " in str(error)
    assert not warnings


@pytest.mark.parametrize("final_loss", [0.5 * BASELINE_LOSS, 1.5 * BASELINE_LOSS])
@pytest.mark.parametrize("log_likelihood", [UNIGRAM - 0.49, UNIGRAM])
def test_a_model_hardly_worse_than_frequencies_may_have_been_trained_too_briefly(
    final_loss, log_likelihood
):
    error, (warning,) = judged(final_loss, log_likelihood)
    assert error is None
    assert lines_with(warning, "--learning-rate", "more --epochs")


def test_a_model_that_beats_frequencies_on_held_out_text_has_not_diverged():
    assert judged(0.5 * BASELINE_LOSS, UNIGRAM + 0.01) == (None, [])
    assert judged(1.5 * BASELINE_LOSS, UNIGRAM + 0.01) == (None, [])


def test_a_model_that_needs_a_temperature_is_overconfident():
    error, (warning,) = judged(1.5 * BASELINE_LOSS, FAR_WORSE, calibrated=UNIGRAM + 0.01)
    assert error is None
    assert lines_with(warning, "overconfident", "temperature (-5.9900)")


@pytest.mark.parametrize("final_loss", [0.5 * BASELINE_LOSS, 1.5 * BASELINE_LOSS])
def test_a_rolled_back_run_that_does_not_beat_frequencies_has_diverged(final_loss):
    error, _ = judged(final_loss, UNIGRAM - 0.01, rates=[0.2, 0.002])
    assert lines_with(str(error), "0.002", "lowered")


def test_without_a_baseline_the_loss_is_compared_with_that_of_the_start():
    overfitted, (warning,) = judged(1.0, FAR_WORSE, baseline_loss=None, curve=[4.0, 2.0, 1.0])
    assert overfitted is None
    assert "overfits" in warning
    diverged, _ = judged(30.0, FAR_WORSE, baseline_loss=None, curve=[4.0, 50.0, 30.0])
    assert isinstance(diverged, DivergedError)

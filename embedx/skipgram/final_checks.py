"""Checks at the end of a run: whether vectors are finite, and whether they predict the text better
than the frequencies of words do.
"""

import numpy as np
from numpy import float64

from embedx.engine.skipgram import SkipGramTables
from embedx.errors import DivergedError, Setting, Text
from embedx.runtime.progress import Progress
from embedx.skipgram.configuration import Configuration
from embedx.skipgram.defaults import TEXT
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.segmentation import IN_WORDS, is_raw
from embedx.training.guard import SLACK
from embedx.training.outcome import Outcome

# What to do where training makes a model worse that it continues from.
TRAIN_LESS: tuple[Text, ...] = (
    "lower ",
    Setting("learning_rate"),
    " or ",
    Setting("epochs"),
    ", or train on the old and the new text together",
)


def check_finite(tables: SkipGramTables, rate: float | None) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    if not all(
        np.isfinite(table.rows.sum(dtype=float64)) for table in (tables.inputs, tables.outputs)
    ):
        remedy = ("try a smaller ", Setting("learning_rate"), f" than {rate:g}")
        raise DivergedError("vectors are no longer finite at the end of training", remedy)


def warn_of_loss(
    outcome: Outcome, config: Configuration, corpus: EncodedCorpus, progress: Progress
) -> None:
    """Warn of a loss that is not below that of a model of word frequencies alone."""
    loss = outcome.final_loss
    baseline = outcome.baseline_loss
    if loss is None or baseline is None or loss < baseline or outcome.interrupted_by:
        return
    remedy: Text = ("train for more ", Setting("epochs"), " or on more data")
    if config.kind == TEXT and is_raw(corpus, config.text):
        advice = ("punctuation is attached to words: train with ", *IN_WORDS)
        remedy = (*advice, ", or for more ", Setting("epochs"))
    noun = config.noun
    progress.warn(
        f"the loss of {loss:.4f} is above that of {noun} frequencies alone, {baseline:.4f}: the"
        f" vectors say little about {noun}s; ",
        remedy,
    )


def compare_with_start(
    metrics: dict[str, float], start_metrics: dict[str, float], progress: Progress
) -> None:
    """Report the held-out likelihood before and after; a warning if it fell."""
    before = start_metrics["log_likelihood"]
    now = metrics["log_likelihood"]
    text = f"held-out log-likelihood {before:.4f} before training, {now:.4f} now"
    if now < before:
        progress.warn(text, ": ", *TRAIN_LESS)
    else:
        progress.note(text)


def judge_on_held_out(
    metrics: dict[str, float], outcome: Outcome, learning_rate: float | None, progress: Progress
) -> DivergedError | None:
    """The error of a run that diverged, by its model on held-out text; None of any other, with a
    warning if the model is no better there than word frequencies, or only once its scores are
    divided by a temperature.

    A model that is no better may be of a run that diverged, one that overfitted, or one that was
    too short. A run that was rolled back diverged. Of the others the training loss decides: where a
    model overfits it ends far below that of frequencies alone, after divergence above it (measured:
    docs/constants.md). The likelihood of held-out text can be equally low in both.
    """
    log_likelihood = metrics["log_likelihood"]
    best = max(log_likelihood, metrics["calibrated"])
    unigram = metrics["unigram"]
    if best > unigram:
        if log_likelihood <= unigram:
            progress.warn(
                "the model does not beat the unigram baseline on held-out text"
                f" ({log_likelihood:.4f} and {unigram:.4f} nats a pair) unless its"
                f" scores are divided by a temperature ({best:.4f}): its probabilities are"
                " overconfident; try a smaller ",
                Setting("learning_rate"),
            )
        return None
    rate = float(learning_rate or 0)
    lowered = ""
    if outcome.lowered_rates:
        rate = outcome.lowered_rates[-1]
        lowered = ", to which the run was lowered"
    problem = (
        f"at the learning rate {rate:.3g}{lowered}, the model does not beat the unigram"
        f" baseline on held-out text ({best:.4f} and {unigram:.4f} nats a pair)"
    )
    remedy = ("try another ", Setting("learning_rate"))
    if outcome.lowered_rates:
        return DivergedError(problem, remedy)
    is_far_worse = log_likelihood < unigram - SLACK
    if not is_far_worse:
        progress.warn(problem, "; ", remedy, ", or more ", Setting("epochs"))
        return None
    if not _beats_frequencies_in_training(outcome):
        return DivergedError(problem, remedy)
    fewer = ("train for fewer ", Setting("epochs"), " or on more data")
    progress.warn(problem, ", but does on the text it is trained on: it overfits; ", fewer)
    return None


def _beats_frequencies_in_training(outcome: Outcome) -> bool:
    """Whether the loss of training ended below that of word frequencies alone; where that was not
    measured, below the loss of the first twentieth of the run.
    """
    baseline = outcome.baseline_loss
    if baseline is None and outcome.curve:
        baseline = outcome.curve[0]["loss"]
    loss = outcome.final_loss
    return loss is not None and baseline is not None and loss < baseline

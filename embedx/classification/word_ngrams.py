"""The default of word n-grams: pairs of words, or words alone where these predict held-out rows
better.

Pairs help where the order of words says something. Where it says nothing, as in lists of key words,
they are noise.
"""

import dataclasses
from typing import NamedTuple

import numpy as np
from numpy import float64, ndarray
from scipy.sparse import csr_matrix, hstack

from embedx.classification.calibration import n_held_out
from embedx.classification.data_split import hold_out
from embedx.classification.objective_choice import configure_classifier
from embedx.classification.prediction_analysis import predictions
from embedx.classification.problem import given_names
from embedx.classification.run import ClassifierRun
from embedx.classification.settings import MANY_LABELS, MAX_REFITTED, NONE, ClassifySettings
from embedx.labeled.data import Labeled
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Options
from embedx.training import life

# Rows that both are trained on, which bounds the time that the choice takes.
MAX_TRAINING_ROWS = 3_000
# Held-out rows at least, of which there are no more than a quarter.
MIN_HELD_OUT = 500
# Words alone are chosen where they are better by this many standard errors of the difference.
MIN_STANDARD_ERRORS = 1.0


class Choice(NamedTuple):
    """Data with the features that were chosen; why, or None where there was nothing to choose."""

    data: Labeled
    reason: str | None = None


def choose(data: Labeled, objective: str | None, options: Options, progress: Progress) -> Choice:
    """The data with pairs of words as features, as they were read, or without, by held-out rows."""
    text = data.schema.text
    is_given = any(options.get(name) is not None for name in ("word_ngrams", "char_ngrams"))
    if text is None or not len(text.hashes) or is_given or options.get("time_budget") is not None:
        return Choice(data)
    if len(data) > MAX_REFITTED or data.n_labels > MANY_LABELS:
        return Choice(data)
    settings = ClassifySettings.from_options(dict(options))
    n = n_held_out(len(data), settings.calibration)
    if n == 0:
        return Choice(data)
    n = max(n, min(MIN_HELD_OUT, len(data) // 4))

    words_alone = without_ngrams(data)
    is_right = _is_right(words_alone, n, objective, options)
    is_right_of_pairs = _is_right(data, n, objective, options)
    difference = is_right - is_right_of_pairs
    error = difference.std() / np.sqrt(len(difference))
    reason = f"from {n:,} held-out rows"
    if difference.mean() <= MIN_STANDARD_ERRORS * error:
        return Choice(data, reason)
    progress.note(
        f"word n-grams: 1, chosen {reason}: P@1 {is_right.mean():.3f}, with pairs of words"
        f" {is_right_of_pairs.mean():.3f}"
    )
    return Choice(words_alone, reason)


def without_ngrams(data: Labeled) -> Labeled:
    """The same rows without n-grams of words, whose features follow those of words."""
    schema = data.schema
    text = schema.text
    assert text is not None
    n_words = len(text.vocabulary)
    others = data.features[:, text.n_features :]
    features = data.features[:, :n_words]
    if others.shape[1]:
        features = csr_matrix(hstack([features, others], "csr"))
    text = dataclasses.replace(
        text, hashes=text.hashes[:0], settings={**text.settings, "word_ngrams": 1}
    )
    schema = dataclasses.replace(schema, text=text, n_features=features.shape[1])
    return dataclasses.replace(data, features=features).with_schema(schema)


def _is_right(data: Labeled, n: int, objective: str | None, options: Options) -> ndarray:
    """Whether the best label of each of n held-out rows is right, float64 (n_labelled,), by a
    classifier of other rows.
    """
    config = configure_classifier(objective, options, lambda: data)
    training, unseen = hold_out(data, n, config.settings.seed)
    training = training.rows(np.arange(min(len(training), MAX_TRAINING_ROWS)))
    # One thread, so that a run that is resumed chooses alike.
    settings = dataclasses.replace(
        config.settings, validation=None, calibration=0.0, neighbours=NONE, threads=1
    )
    config = dataclasses.replace(config, settings=settings, given_names=given_names(options))
    trained = life.train_model(ClassifierRun(training, config, SILENT))
    _, is_right = predictions(trained.classifier, unseen).first
    return is_right.astype(float64)

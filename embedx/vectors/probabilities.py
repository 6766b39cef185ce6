"""The probability p(y | x) of each word under the objective that a model was trained with."""

from collections.abc import Callable

import numpy as np
from numpy import float32, ndarray

from embedx import objectives, samplers
from embedx.errors import DataError, Setting
from embedx.text.vocabulary import kept_counts, trained_counts
from embedx.vectors.model import WordVectors


def trained_on(vectors: WordVectors) -> ndarray:
    """How often each word was in the training text, int64 (n_words,).

    Raises `EmbedxError` if embedx did not train the model, for then they are unknown.
    """
    has_settings = {"sample", "window", "sampler"} <= vectors.settings.keys()
    has_record = has_settings and "objective" in vectors.facts
    if vectors.counts is None or vectors.output_vectors is None or not has_record:
        raise DataError(
            vectors.facts.get("source", vectors),
            None,
            "no record of how it was trained, hence no probabilities",
            "give a folder that `embedx train` wrote",
        )
    return trained_counts(vectors.counts, vectors.arrays.get("heldout_counts"))


def log_probability_given(vectors: WordVectors) -> Callable[[ndarray], ndarray]:
    """A function from encoded inputs, float32 (n, dim), to the log-probabilities of all words given
    each, (n, n_words).
    """
    counts = trained_on(vectors)
    settings = vectors.settings
    name = vectors.facts["objective"]
    objectives.check_packages(vectors.facts.get("source", vectors), vectors.facts, settings)
    objective_class = objectives.find(name)
    objective = objective_class(objective_class.Settings.from_options(settings))
    objective.prepare(kept_counts(counts, settings["sample"]))
    sampler = samplers.recorded(settings, replacement=True)
    sampler.prepare(counts, paths=objective.paths())
    output = vectors.arrays["output"]
    bias = vectors.arrays.get("bias", float32(0))
    if len(output) != objective.n_outputs(len(counts)):
        wanted = f" with {len(counts):,} words has {objective.n_outputs(len(counts)):,}"
        objective_name = Setting("objective", objective.name)
        problem = (f"{len(output):,} rows, where ", objective_name, wanted)
        remedy = "restore the model from a copy, or train again"
        raise DataError("output.npy", None, problem, remedy)
    if objective.traits.adds_log_noise:
        noise = sampler.log_noise(objective.negatives)
    else:
        noise = np.zeros(len(counts), float32)

    def log_probability(h: ndarray) -> ndarray:
        z = h @ output.T
        z += bias
        return objective.log_probability(z, noise)

    return log_probability

"""Word vectors at random, which held-out text is scored by."""

import numpy as np

from embedx.objectives import OBJECTIVES
from embedx.skipgram.settings import SkipGramSettings
from embedx.text.settings import TextSettings, VocabularySettings
from embedx.vectors.model import WordVectors


def words_model(objective="softmax", n=30, dim=4, seed=1, **settings):
    """A model of random numbers, with biases, that says it was trained."""
    rng = np.random.default_rng(seed)
    objective_class = OBJECTIVES[objective]
    rows = objective_class(objective_class.Settings()).n_outputs(n)
    arrays = {
        "input": rng.normal(size=(n, dim)),
        "output": rng.normal(size=(rows, dim)),
        "bias": rng.normal(size=rows),
    }
    groups = (SkipGramSettings(), objective_class.Settings(), TextSettings(), VocabularySettings())
    record = {name: value for group in groups for name, value in group.record().items()}
    return WordVectors(
        [f"w{k}" for k in range(n)],
        {name: array.astype(np.float32) for name, array in arrays.items()},
        counts=np.sort(rng.integers(5, 1000, n))[::-1].copy(),
        settings={**record, "sample": 0.01, **settings},
        facts={"objective": objective},
    )

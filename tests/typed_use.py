"""A program of a user, which `mypy --strict` checks from outside (see `files` in pyproject.toml)
and a test runs.
"""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import assert_type

import numpy as np

import embedx


def stop_early(end: embedx.EpochEnd) -> bool:
    assert_type(end.epoch, int)
    assert_type(end.loss, float | None)
    assert_type(end.model, embedx.WordVectors)
    return end.epoch == 2


def main(corpus: str, folder: str) -> None:
    listener: Callable[[embedx.EpochEnd], bool] = stop_early
    fitted = embedx.SkipGram("ns", dim=4, epochs=3).fit(corpus, callbacks=[listener])
    assert_type(fitted, embedx.SkipGram)
    assert_type(fitted.save(folder), Path)
    model = embedx.load(folder)
    assert_type(model, embedx.WordVectors | embedx.Classifier)
    assert isinstance(model, embedx.WordVectors)
    vectors = model
    assert_type(vectors, embedx.WordVectors)
    assert_type(vectors.most_similar(["cat", "dog"], ["car"], top_k=3), list[tuple[str, float]])
    assert_type(vectors.most_similar_batch(["cat", "dog"]), list[list[tuple[str, float]]])
    assert_type(vectors.doesnt_match(["cat", "dog", "car"]), str)
    assert_type(vectors.n_similarity(["cat"], ["car", "road"]), float)
    vector: np.ndarray = vectors["cat"]
    documents: np.ndarray = fitted.transform([["cat", "dog"]])
    print(vector.shape, documents.shape, fitted.outcome.epochs)


if __name__ == "__main__":
    main(*sys.argv[1:])

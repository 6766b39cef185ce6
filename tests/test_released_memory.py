"""The memory that training takes is free when it ends: no cycle of references waits for the garbage
collector.
"""

import gc

import numpy as np
import pytest
from scipy.sparse import random_array

import embedx
from embedx.training.strategy import Strategy

SENTENCES = [["a", "b", "c", "d"], ["d", "c", "e"]] * 50


def strategies():
    """The strategies in memory; they have the parameters that are trained."""
    return [thing for thing in gc.get_objects() if isinstance(thing, Strategy)]


@pytest.fixture
def strategies_left():
    """A function that lists the strategies that a test has left in memory."""
    gc.collect()
    earlier = {id(strategy): strategy for strategy in strategies()}
    gc.disable()
    yield lambda: [strategy for strategy in strategies() if id(strategy) not in earlier]
    gc.enable()


@pytest.mark.parametrize("objective", ["ns", "hs", "ar", "softmax"])
@pytest.mark.parametrize("is_sparse", [False, True])
def test_classifiers(strategies_left, objective, is_sparse):
    rng = np.random.default_rng(0)
    rows = random_array((60, 8), density=0.4, rng=rng, dtype=np.float32).tocsr()
    estimator = embedx.SoftmaxClassifier(objective, epochs=2)
    estimator.fit(rows if is_sparse else rows.toarray(), rng.integers(0, 5, 60))
    assert not strategies_left()


@pytest.mark.parametrize("objective", ["ns", "hs", "ar"])
def test_word_vectors(strategies_left, objective):
    embedx.SkipGram(objective, epochs=2, dim=8, min_count=1, sample=0).fit(SENTENCES)
    assert not strategies_left()

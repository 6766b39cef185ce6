"""Word vectors of a corpus of two topics, and whether they know the topics."""

import embedx
from tests.support.two_topics import CARS, CATS


def fit(corpus, objective, **options):
    """A model of 16 dimensions of all words, by one thread."""
    defaults = {"dim": 16, "sample": 0, "threads": 1}
    if "time_budget" not in options:
        defaults["epochs"] = 5
    return embedx.SkipGram(objective, **(defaults | options)).fit(corpus)


def assert_knows_the_topics(model):
    assert {word for word, _ in model.most_similar("truck", top_k=3)} <= set(CARS)
    assert {word for word, _ in model.most_similar("cat", top_k=3)} <= set(CATS)

"""A text of two topics, and another with new words, in which training continues."""

import random

import embedx
from tests.support.two_topics import CARS, CATS, COMMON

FEW = {"dim": 8, "epochs": 5, "threads": 1, "min_count": 1, "sample": 0, "window": 3}


def a_text(n=1000, seed=0, called=None):
    """Sentences about cats or about cars; `called` gives words another name."""
    rng = random.Random(seed)
    sentences = []
    for _ in range(n):
        topic = rng.choice((CATS, CARS)) + COMMON
        sentences.append(
            [(called or {}).get(word, word) for word in rng.choices(topic, k=rng.randint(4, 16))]
        )
    return sentences


TEXT = a_text()
MORE = a_text(seed=1, called={"cat": "kitty", "truck": "lorry"})


def train_more(folder, text=MORE, **options):
    """Training that continues from a model."""
    return embedx.SkipGram(**{**FEW, "start": str(folder), **options}).fit(text)


def rows(model, words, name):
    """The rows of some words in one of a model's arrays."""
    return model.arrays[name][[model.index(word) for word in words]]

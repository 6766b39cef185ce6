"""Small tasks that every objective must learn: words of two topics, and labelled texts of both."""

import random
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from embedx import api
from embedx.labeled.read import read
from embedx.objectives import OBJECTIVES

TOPICS = (
    ("cat", "dog", "fur", "paw", "tail", "vet"),
    ("car", "road", "fuel", "wheel", "lane", "toll"),
)
# minimum difference of mean cosines of word vectors, within and across topics
MIN_GAP = 0.1
MIN_ACCURACY = 0.9
EPOCHS = 10


def lines(n: int, *, labelled: bool) -> list[str]:
    """Sentences, each of one topic, with its label before it if `labelled`."""
    numbers = random.Random(1)
    texts = []
    for _ in range(n):
        topic = numbers.randrange(len(TOPICS))
        label = f"__label__topic{topic} " * labelled
        texts.append(label + " ".join(numbers.choices(TOPICS[topic], k=6)))
    return texts


def check_words(name: str) -> None:
    """Training is reproducible, and the words of a topic have similar vectors."""
    if OBJECTIVES[name].about.words_caution:
        return
    sentences = [line.split() for line in lines(1000, labelled=False)]
    options: dict[str, Any] = {
        "dim": 8,
        "epochs": EPOCHS,
        "min_count": 1,
        "sample": 0,
        "threads": 1,
    }
    first = api.train(sentences, objective=name, **options)
    again = api.train(sentences, objective=name, **options)
    np.testing.assert_array_equal(first.vectors, again.vectors, "the same seed, another model")

    order = [first.key_to_index[word] for topic in TOPICS for word in topic]
    vectors = first.vectors[order] - first.vectors.mean(axis=0)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    cosines = vectors @ vectors.T
    n = len(TOPICS[0])
    within = (cosines[:n, :n].sum() + cosines[n:, n:].sum() - 2 * n) / (2 * n * (n - 1))
    gap = within - cosines[:n, n:].mean()
    assert gap > MIN_GAP, f"words of a topic are not alike: {gap:.2f} above those of another"


def check_labels(name: str) -> None:
    """Training is reproducible, and nearly all rows are predicted correctly."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "train.txt")
        file.write_text("\n".join(lines(200, labelled=True)), "utf-8")
        options: dict[str, Any] = {
            "objective": name,
            "epochs": EPOCHS,
            "threads": 1,
            "calibration": 0.0,
        }
        first = api.classify(file, **options)
        again = api.classify(file, **options)
        for stem, array in first.arrays.items():
            np.testing.assert_array_equal(array, again.arrays[stem], "the same seed, another model")
        accuracy = first.evaluate(read(str(file), schema=first.schema))["p@1"]
    assert accuracy > MIN_ACCURACY, f"P@1 {accuracy:.2f} of rows that were trained on"


CHECKS = (check_words, check_labels)

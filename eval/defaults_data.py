"""The data sets of `defaults`: real ones, and ones that are generated where these have none of
their kind.
"""

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, diags

from embedx.labeled.data import Labeled, Labels
from embedx.labeled.label_rules import chosen_labels
from eval.papers import load

# Rows that are trained on or scored, drawn at random from the training file; EURLex with all
# labels, and with the first alone.
MNIST_ROWS, EURLEX_ROWS, FIRST_ROWS = 4_000, 5_000, 9_000
CHARACTERS = 150  # of Omniglot, the first
HELD_OUT = 0.25  # the share of a training file that is scored

# The data set that each of the sets is made of, where it is not generated.
MADE_OF = {
    "bibtex": "bibtex",
    "bibtex-first": "bibtex",
    "mnist": "mnist",
    "eurlex": "eurlex-4.3k",
    "eurlex-first": "eurlex-4.3k",
    "omniglot": "omniglot",
    "pages": "enwiki-cat",
}


@functools.lru_cache(maxsize=1)  # one at a time
def halves(folder: Path | None, name: str, quick: bool = False) -> tuple[Any, Any]:
    """The rows to train on and those to test on."""
    made: dict[str, Callable[[], tuple[Any, Any]]] = {
        "bibtex": lambda: carved(load(folder, "bibtex", quick)[0]),
        "bibtex-first": lambda: carved(first_labels(load(folder, "bibtex", quick)[0], 1)),
        "digits": lambda: carved(digits()),
        "mnist": lambda: carved(sample(divided(load(folder, "mnist", quick)[0], 255), MNIST_ROWS)),
        "eurlex": lambda: carved(sample(load(folder, "eurlex-4.3k", quick)[0], EURLEX_ROWS)),
        "omniglot": lambda: tuple(
            below(half, CHARACTERS) for half in load(folder, "omniglot", quick)
        ),
        "eurlex-first": lambda: carved(
            first_labels(sample(load(folder, "eurlex-4.3k", quick)[0], FIRST_ROWS), 5)
        ),
        "pages": lambda: carved(first_labels(load(folder, "enwiki-cat", quick)[0], 20)),
        "classes": lambda: carved(classes()),
        "articles": lambda: carved(articles()),
        "tags": lambda: carved(tags()),
    }
    train_and_test = made[name]()
    return (
        tuple(half.rows(np.arange(min(len(half), 300))) for half in train_and_test)
        if quick
        else train_and_test
    )


def carved(data: Any, share: float = HELD_OUT) -> tuple[Any, Any]:
    """Rows to train on, and a share to test on, at random."""
    order = np.random.default_rng(7).permutation(len(data))
    n = round(share * len(data))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))


def sample(data: Any, n: int) -> Any:
    return data.rows(np.sort(np.random.default_rng(8).permutation(len(data))[:n]))


def divided(data: Any, by: float) -> Any:
    return Labeled(data.features / np.float32(by), data.labels, data.n_labels)


def digits() -> Any:
    """scikit-learn's 8 × 8 digits, pixels 0 to 16 as they are."""
    from sklearn.datasets import load_digits

    digits = load_digits()
    return Labeled(digits.data.astype(np.float32), Labels.single(digits.target), 10)


def first_labels(data: Any, least: int) -> Any:
    """One label a row, the first that it has, and of these labels those that so many rows have at
    least.
    """
    single = chosen_labels(data.labels, "first")
    counts = np.bincount(single.ids, minlength=data.n_labels)
    often = np.flatnonzero(counts >= least)
    rows = np.flatnonzero(counts[single.ids] >= least)
    return Labeled(
        data.features[rows], Labels.single(np.searchsorted(often, single.ids[rows])), len(often)
    )


def below(data: Any, n_labels: int) -> Any:
    """The rows of one label that have one of the first so many."""
    rows = np.flatnonzero(data.labels.ids < n_labels)
    return Labeled(data.features[rows], data.labels.rows(rows), n_labels)


# ---- generated


def classes(n: int = 7_000, n_classes: int = 500, n_features: int = 4_000) -> Any:
    """Single labels, many classes: words of a class, of its family and of the language, as tf-idf
    of length 1; power-law.
    """
    rng = np.random.default_rng(11)
    p = power_law(n_classes, 0.6)
    n_families = n_classes // 20
    family = rng.integers(0, n_families, n_classes)
    language = power_law(n_features, 1.0)[rng.permutation(n_features)]
    flat = np.sqrt(language) / np.sqrt(language).sum()
    words_of_class = rng.choice(n_features, (n_classes, 12), p=flat)
    shared = rng.choice(n_features, (n_families, 40), p=flat)
    label = rng.choice(n_classes, n, p=p)
    n_words = 36
    source = rng.choice(3, (n, n_words), p=(0.12, 0.28, 0.6))
    word = np.where(
        source == 0,
        words_of_class[label[:, None], rng.integers(0, 12, (n, n_words))],
        np.where(
            source == 1,
            shared[family[label][:, None], rng.integers(0, 40, (n, n_words))],
            rng.choice(n_features, (n, n_words), p=language),
        ),
    )
    return Labeled(tf_idf(counts_of(word, n_features)), Labels.single(label), n_classes)


def articles(n: int = 6_000, n_classes: int = 400, n_features: int = 3_000) -> Any:
    """Single labels by a log-linear model of words with topics in between; raw counts of words,
    rows of different lengths.
    """
    rng = np.random.default_rng(13)
    n_topics = 80
    language = np.log(power_law(n_features, 1.0)[rng.permutation(n_features)])
    topics = (
        rng.normal(0, 1.0, (n_topics, n_features))
        * (rng.random((n_topics, n_features)) < 0.08)
        * 2.5
    )
    mixture = rng.dirichlet(np.full(n_topics, 0.04), n_classes)
    label = rng.choice(n_classes, n, p=power_law(n_classes, 0.8))
    rows = np.zeros((n, n_features), dtype=np.float32)
    for k in range(n_classes):
        of_class = np.flatnonzero(label == k)
        score = language + 1.4 * mixture[k] @ topics + rng.normal(0, 0.35, n_features)
        word = np.exp(score - score.max())
        rows[of_class] = [
            rng.multinomial(rng.integers(20, 120), word / word.sum()) for _ in of_class
        ] or 0
    return Labeled(csr_matrix(rows), Labels.single(label), n_classes)


def tags(n: int = 3_000, n_labels: int = 400, n_features: int = 300) -> Any:
    """Many labels a row, as bookmarks are tagged: binary features and labels of a few topics each,
    power-law.
    """
    rng = np.random.default_rng(17)
    n_topics = 60
    words = rng.dirichlet(np.full(n_features, 0.06), n_topics)
    labels = rng.dirichlet(80 * power_law(n_labels, 0.9), n_topics)
    mixture = rng.dirichlet(np.full(n_topics, 0.05), n)
    word = mixture @ words
    label = mixture @ labels
    features = [np.unique(rng.choice(n_features, rng.integers(6, 40), p=p)) for p in word]
    labels_of_rows = [np.unique(rng.choice(n_labels, rng.integers(6, 50), p=p)) for p in label]
    offsets = np.concatenate(
        [[0], np.cumsum([len(features_of_row) for features_of_row in features])]
    )
    ones = np.ones(offsets[-1], dtype=np.float32)
    matrix = csr_matrix(
        (ones, np.concatenate(features).astype(np.int32), offsets.astype(np.int32)), (n, n_features)
    )
    return Labeled(
        matrix,
        Labels.of_rows([labels_of_row.tolist() for labels_of_row in labels_of_rows]),
        n_labels,
    )


def power_law(n: int, exponent: float) -> np.ndarray:
    p = (np.arange(n) + 5.0) ** -exponent
    return p / p.sum()


def counts_of(word: np.ndarray, n_features: int) -> csr_matrix:
    """How often each row of words has each of them."""
    rows = np.repeat(np.arange(len(word)), word.shape[1])
    matrix = csr_matrix(
        (np.ones(word.size, dtype=np.float32), (rows, word.ravel())), (len(word), n_features)
    )
    matrix.sum_duplicates()
    return matrix


def tf_idf(counts: csr_matrix) -> csr_matrix:
    """(1 + log count) log(rows / rows with the feature), rows of length 1."""
    df = np.bincount(counts.indices, minlength=counts.shape[1])
    weights = counts.copy()
    weights.data = (1 + np.log(counts.data)) * np.log(counts.shape[0] / np.maximum(df, 1))[
        counts.indices
    ]
    length = np.sqrt(np.asarray(weights.multiply(weights).sum(axis=1)).ravel())
    weights = csr_matrix(diags(1 / np.maximum(length, 1e-9)) @ weights).astype(np.float32)
    weights.sort_indices()
    return weights

"""Words that belong together: are they near each other?

    purity     words are clustered, into as many clusters as there are categories, by k-means (scikit-learn's, the best of
               RESTARTS starts) of unit vectors; the share of words whose category is the most frequent one of their cluster
    outliers   of a group's words and one that does not belong, that one is detected if its mean similarity to the others is
               the lowest (Camacho-Collados & Navigli 2016); accuracy, and OPP, the mean of its rank as a share of the group

Case is ignored, as for pairs. A word outside the vocabulary is left out of its category or group; an item whose outlier is
unknown, or that has fewer than two other words left, is left out.
"""

import math
from typing import Any

import numpy as np

from embedx.errors import EmbedxError
from embedx.evaluation.word_sets import MIN_ITEMS, Answers, Categories, Outliers

RESTARTS = 10


def folded(words: list[str]) -> dict[str, str]:
    """The first word for each upper-case form, as gensim folds case."""
    return {word.upper(): word for word in reversed(words)}


def units(vectors: Any, words: list[str]) -> np.ndarray:
    """Unit vectors of words, float64 (words, dim); a zero vector stays zero."""
    table = np.array([vectors[word] for word in words], np.float64)
    norms = np.linalg.norm(table, axis=1, keepdims=True)
    return np.asarray(table / np.where(norms > 0, norms, 1))


def purity(test: Categories, vectors: Any) -> Answers:
    """How well clusters of words agree with their categories; a word's value is 1 if its category is its cluster's."""
    known = folded(vectors.index_to_key[: test.candidates])
    values = np.full(len(test), np.nan)
    used = np.array([word.upper() in known for word in test.words])
    words = [known[word.upper()] for word, is_used in zip(test.words, used, strict=True) if is_used]
    names, category = np.unique(np.array(test.categories)[used], return_inverse=True)
    if len(words) < max(MIN_ITEMS, len(names)):
        return Answers(test, values, math.nan, {})
    cluster = clusters(units(vectors, words), len(names), test.seed)
    n_words = np.zeros((len(names), len(names)), np.int64)  # of each cluster and category
    np.add.at(n_words, (cluster, category), 1)
    values[used] = n_words.argmax(axis=1)[cluster] == category
    return Answers(test, values, float(np.nanmean(values)), {"clusters": len(names), "seed": test.seed})


def clusters(points: np.ndarray, how_many: int, seed: int) -> np.ndarray:
    """The cluster of each point by k-means, int64 (points,); the same each time."""
    try:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise EmbedxError(f'--categories needs scikit-learn ({error}); pip install "embedx[sklearn]"') from error
    distinct = min(how_many, len(np.unique(points, axis=0)))  # k-means warns of clusters that stay empty
    with threadpool_limits(1):  # several threads sum in no fixed order
        return np.asarray(KMeans(distinct, n_init=RESTARTS, random_state=seed).fit_predict(points))


def outliers(test: Outliers, vectors: Any) -> Answers:
    """How often the outlier is detected; its value is 1 then."""
    known = folded(vectors.index_to_key[: test.candidates])
    values: list[float] = []
    positions: list[float] = []
    for members, strangers in test.groups:
        words = [known[word.upper()] for word in members if word.upper() in known]
        for word in strangers:
            if word.upper() not in known or len(words) < 2:
                values.append(math.nan)
                continue
            together = units(vectors, [*words, known[word.upper()]])
            nearness = together @ together.sum(axis=0) - np.einsum("ij,ij->i", together, together)
            behind = int(np.count_nonzero(nearness[:-1] > nearness[-1]))
            positions.append(behind / len(words))
            values.append(float(behind == len(words)))
    found = np.array(values)
    if not positions:
        return Answers(test, found, math.nan, {})
    return Answers(test, found, float(np.nanmean(found)), {"opp": float(np.mean(positions))})

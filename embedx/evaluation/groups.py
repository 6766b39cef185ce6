"""Words that belong together: are they near each other?

    purity     words are clustered, into as many clusters as there are categories, by k-means (scikit-learn's) of unit vectors;
               the share of words whose category is the most frequent one of their cluster
    outliers   of a group's words and one that does not belong, that one is detected if its mean similarity to the others is
               the lowest (Camacho-Collados & Navigli 2016); accuracy, and OPP, the mean of its rank as a share of the group

Case is ignored, as for pairs. Words outside the vocabulary are left out; so is an item whose outlier is unknown, or that has
fewer than two other words left.
"""

import math

import numpy as np

from embedx.errors import EmbedxError
from embedx.evaluation.word_sets import MIN_ITEMS, Answers, Categories, Outliers, folded
from embedx.vectors.model import WordVectors, unit

RESTARTS = 10  # of k-means


def purity(test: Categories, vectors: WordVectors) -> Answers:
    """How well clusters of words agree with their categories; a word's value is 1 if its category is its cluster's."""
    known = folded(vectors.words[: test.candidates])
    values = np.full(len(test), np.nan)
    used = np.array([word.upper() in known for word in test.words])
    names, category = np.unique(np.array(test.categories)[used], return_inverse=True)
    if np.count_nonzero(used) < max(MIN_ITEMS, len(names)):
        return Answers(test, values)
    points = np.array([unit(vectors[known[word.upper()]]) for word in np.array(test.words)[used]])
    cluster = clusters(points, len(names), test.seed)
    n_words = np.zeros((len(names), len(names)), np.int64)  # of each cluster and category
    np.add.at(n_words, (cluster, category), 1)
    values[used] = n_words.argmax(axis=1)[cluster] == category
    return Answers(test, values, {"clusters": len(names), "seed": test.seed})


def clusters(points: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """The cluster of each point by k-means, int64 (points,); the same each time."""
    try:
        from sklearn.cluster import KMeans
        from threadpoolctl import threadpool_limits
    except ImportError as error:
        raise EmbedxError(f'--categories needs scikit-learn ({error}); pip install "embedx[sklearn]"') from error
    n_clusters = min(n_clusters, len(np.unique(points, axis=0)))  # k-means warns of clusters that stay empty
    with threadpool_limits(1):  # several threads sum in no fixed order
        return KMeans(n_clusters, n_init=RESTARTS, random_state=seed).fit_predict(points)


def outliers(test: Outliers, vectors: WordVectors) -> Answers:
    """How often the outlier is detected; its value is 1 then."""
    known = folded(vectors.words[: test.candidates])
    values = []
    positions = []
    for members, strangers in test.groups:
        words = [known[word.upper()] for word in members if word.upper() in known]
        for word in strangers:
            if word.upper() not in known or len(words) < 2:
                values.append(math.nan)
                continue
            units = np.array([unit(vectors[each]) for each in (*words, known[word.upper()])], np.float64)
            similarity = units @ units.sum(axis=0) - np.einsum("ij,ij->i", units, units)
            position = np.count_nonzero(similarity[:-1] > similarity[-1])
            positions.append(position / len(words))
            values.append(float(position == len(words)))
    return Answers(test, np.array(values), {"opp": float(np.mean(positions))} if positions else {})

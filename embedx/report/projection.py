"""Projections of word vectors to the plane: t-SNE, which needs scikit-learn, and principal
components.
"""

import importlib.util

import numpy as np
from numpy import float64, ndarray
from scipy.spatial import KDTree

from embedx.errors import Setting, SettingError

METHOD_NAMES = {"tsne": "t-SNE", "pca": "principal components"}
# scikit-learn's default; it has to be below the number of points.
PERPLEXITY = 30.0
# t-SNE's angle, by which distant points are grouped, and its steps. Of 2,000 words, 39.1 of 100
# nearest neighbours stayed neighbours; scikit-learn's .5 and 1,000 kept 39.5, in three times as
# long (explored, not on record).
ANGLE = 0.8
N_ITERATIONS = 500
# With fewer distinct vectors there are no neighbourhoods for t-SNE.
MIN_DIRECTIONS = 5

# A vector that is not on the map is placed at the mean of this many vectors of the map, weighted by
# e^(SHARPNESS · cosine).
N_NEAREST = 3
SHARPNESS = 20.0

# Minimum distance of points of a map, in mean distances of n points in a square.
SPACING = 0.55
# Steps in which nearer points are pushed apart, and the share of the missing distance that each of
# the two moves in a step.
N_PUSHES = 60
PUSH = 0.3
# Points nearer than this share of the minimum distance are pushed in a random direction.
EQUAL = 1e-3


def chosen(name: str | None) -> str:
    """The projection of that name, by default the best that is installed.

    Raises `EmbedxError` if it is not installed.
    """
    has_tsne = importlib.util.find_spec("sklearn") is not None
    if name == "tsne" and not has_tsne:
        raise SettingError(
            "projection",
            "tsne",
            "needs scikit-learn",
            ('pip install "embedx[sklearn]", or take ', Setting("projection", "pca")),
        )
    if name is not None:
        return name
    return "tsne" if has_tsne else "pca"


def project(vectors: ndarray, name: str, seed: int) -> ndarray:
    """Coordinates of the vectors in the plane, float64 (n, 2), by their directions.

    They lie between 0 and 1 and around the middle; the longer side of the map has length 1.

    vectors  float32 (n, dim)
    """
    unit = directions(vectors)
    has_neighbourhoods = len(np.unique(unit, axis=0)) >= MIN_DIRECTIONS
    by_neighbourhoods = name == "tsne" and has_neighbourhoods
    places = by_tsne(unit, seed) if by_neighbourhoods else by_pca(unit)
    return in_unit_square(places)


def directions(vectors: ndarray) -> ndarray:
    """The vectors at length 1, float32 (n, dim); zeros where they are zeros."""
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    return np.divide(vectors, length, out=np.zeros_like(vectors, np.float32), where=length > 0)


def spread(places: ndarray) -> ndarray:
    """The places with those that are close to each other moved apart, so that each is seen.

    places  float64 (n, 2), between 0 and 1
    """
    places = places.copy()
    min_distance = SPACING / np.sqrt(len(places))
    rng = np.random.default_rng(0)
    for _ in range(N_PUSHES):
        first, second = KDTree(places).query_pairs(min_distance, output_type="ndarray").T
        if len(first) == 0:
            break
        gap = places[second] - places[first]
        distance = np.linalg.norm(gap, axis=1, keepdims=True)
        is_equal = distance[:, 0] < EQUAL * min_distance
        gap[is_equal] = EQUAL * min_distance * rng.normal(size=(int(is_equal.sum()), 2))
        distance = np.linalg.norm(gap, axis=1, keepdims=True)
        push = PUSH * gap * (min_distance / distance - 1)
        np.add.at(places, first, -push)
        np.add.at(places, second, push)
    return in_unit_square(places)


def in_unit_square(places: ndarray) -> ndarray:
    """The places between 0 and 1 and around the middle; the longer side has length 1."""
    low = places.min(axis=0)
    high = places.max(axis=0)
    size = float((high - low).max()) or 1.0
    return (places - (low + high) / 2) / size + 0.5


def place_between(known: ndarray, places: ndarray, others: ndarray) -> ndarray:
    """Coordinates of other vectors: means of those of the nearest known vectors, by cosine.

    known, others  float32 (n, dim), of length 1
    places         float64 (n, 2): coordinates of the known vectors
    """
    means = np.empty((len(others), 2))
    for k, vector in enumerate(others):
        cosines = known @ vector
        nearest = np.argsort(-cosines)[:N_NEAREST]
        weights = np.exp(SHARPNESS * (cosines[nearest] - cosines[nearest[0]]))
        means[k] = np.average(places[nearest], axis=0, weights=weights)
    return means


def by_pca(vectors: ndarray) -> ndarray:
    """The coordinates along the two directions of the largest variance."""
    centred = vectors.astype(float64) - vectors.mean(axis=0, dtype=float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    places = centred @ axes[:, :-3:-1]
    # Vectors of one dimension lie on a line.
    missing = np.zeros((len(places), 2 - places.shape[1]))
    return np.column_stack([places, missing])


def by_tsne(vectors: ndarray, seed: int) -> ndarray:
    """t-SNE (van der Maaten & Hinton 2008) by scikit-learn, from the principal components on.

    By one thread: with some thousand points, threads wait for each other longer than they work.
    """
    from sklearn.manifold import TSNE
    from threadpoolctl import threadpool_limits

    model = TSNE(
        2,
        perplexity=min(PERPLEXITY, (len(vectors) - 1) / 3),
        init="pca",
        angle=ANGLE,
        max_iter=N_ITERATIONS,
        random_state=seed % 2**32,
    )
    with threadpool_limits(1):
        return np.asarray(model.fit_transform(vectors), float64)

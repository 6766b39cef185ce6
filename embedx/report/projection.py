"""Word vectors in the plane: by t-SNE, where scikit-learn is installed, or by principal
components.
"""

import importlib.util

import numpy as np
from numpy import float64, ndarray

from embedx.errors import Setting, SettingError

NAMES = {"tsne": "t-SNE", "pca": "principal components"}
PERPLEXITY = 30.0  # scikit-learn's default; it has to be below the number of points

# a vector is placed between so many others: of a cosine that is 0.05 less, the weight is 1/e
N_NEAREST, SHARPNESS = 3, 20.0


def chosen(name: str | None) -> str:
    """The projection of that name, by default the best that is installed. Raises `EmbedxError` if
    it is not installed.
    """
    has_tsne = importlib.util.find_spec("sklearn") is not None
    if name == "tsne" and not has_tsne:
        raise SettingError(
            "projection",
            "tsne",
            "needs scikit-learn",
            ('pip install "embedx[sklearn]", or take ', Setting("projection", "pca")),
        )
    return name or ("tsne" if has_tsne else "pca")


def project(vectors: ndarray, name: str, seed: int) -> ndarray:
    """A place for each vector, float64 (n, 2), within 0 and 1: the longer side of all takes the
    whole, the other its middle.

    vectors  float32 (n, dim), which count by their directions
    """
    length = np.linalg.norm(vectors, axis=1, keepdims=True)
    unit = np.divide(vectors, length, out=np.zeros_like(vectors, np.float32), where=length > 0)
    if len(np.unique(unit, axis=0)) < 5:  # too few directions to have neighbourhoods
        name = "pca"
    places = by_tsne(unit, seed) if name == "tsne" else by_pca(unit)
    low, high = places.min(axis=0), places.max(axis=0)
    size = float((high - low).max()) or 1.0
    return (places - (low + high) / 2) / size + 0.5


def between(known: ndarray, places: ndarray, others: ndarray) -> ndarray:
    """A place for each other vector: the mean of those of the known vectors nearest to it, weighted
    by how near they are.

    known, others  float32 (n, dim), of length 1
    """
    found = np.empty((len(others), 2))
    for k, cosines in enumerate(map(known.__matmul__, others)):
        best = np.argsort(-cosines)[:N_NEAREST]
        found[k] = np.average(
            places[best], axis=0, weights=np.exp(SHARPNESS * (cosines[best] - cosines[best[0]]))
        )
    return found


def by_pca(vectors: ndarray) -> ndarray:
    """The coordinates along the two directions of the largest variance."""
    centred = vectors.astype(float64) - vectors.mean(axis=0, dtype=float64)
    _, axes = np.linalg.eigh(centred.T @ centred)
    places = centred @ axes[:, :-3:-1]
    return np.column_stack([places, np.zeros((len(places), 2 - places.shape[1]))])


def by_tsne(vectors: ndarray, seed: int) -> ndarray:
    """t-SNE (van der Maaten & Hinton 2008) by scikit-learn, which begins at the principal
    components.
    """
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    model = TSNE(2, perplexity=perplexity, init="pca", random_state=seed % 2**32)
    return np.asarray(model.fit_transform(vectors), float64)

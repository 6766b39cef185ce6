"""The map of a model: its most frequent words and those that were asked for, in the plane, in
clusters that have names.
"""

import importlib.util
import math
import warnings
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.vq import kmeans2
from scipy.spatial.distance import cdist

from embedx.pages import figures
from embedx.pages.charts import N_COLOURS
from embedx.report import projection
from embedx.runtime.frames import data_frame
from embedx.vectors.model import WordVectors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_WORDS_ON_MAP = 3
# A cluster is named by the most frequent of its most central words.
N_NAMING = 3
N_CENTRAL = 20
# The most frequent words of a text are mostly function words, which are near to all others.
SHARE_OF_FUNCTION_WORDS = 0.05
# Maximum number of points for the silhouette: time and memory grow with its square.
MAX_POINTS_OF_SILHOUETTE = 2000
# Runs of k-means, of which the best counts.
N_STARTS = 8
# Minimum mean number of points of a cluster.
MIN_CLUSTER_SIZE = 5
# From this silhouette on there is reasonable structure (Kaufman & Rousseeuw 1990).
MIN_SILHOUETTE = 0.5

# By word: its nearest words with their cosines.
Neighbours = Mapping[str, Sequence[tuple[str, float]]]


@dataclass(frozen=True, repr=False)
class WordMap:
    """Words in the plane, with clusters by k-means.

    noun        what a word is called
    words       the most frequent first
    ranks       int64 (n,): by frequency in the model, from 1
    counts      int64 (n,), None where they are not known
    places      float64 (n, 2): coordinates, between 0 and 1
    clusters    int32 (n,): the cluster of each word, from 0
    names       of each cluster, the words that name it
    projection  name of the method that made the coordinates
    """

    words: list[str]
    ranks: np.ndarray
    counts: np.ndarray | None
    places: np.ndarray
    clusters: np.ndarray
    names: list[list[str]]
    projection: str
    noun: str

    def __repr__(self) -> str:
        names = [", ".join(words) for words in self.names]
        head = f"{len(self.words):,} {self.noun}s by {self.projection}, {len(names)} clusters:"
        return "\n".join([head, *names])

    def to_frame(self) -> Any:
        """A `pandas.DataFrame` with a row for each word, item or node: its name, in a column called
        so, rank, count, x, y, cluster (from 1) and cluster_name. Raises `EmbedxError` without
        pandas.
        """
        names = [", ".join(self.names[cluster]) for cluster in self.clusters]
        return data_frame(
            {
                self.noun: self.words,
                "rank": self.ranks,
                "count": self.counts,
                "x": self.places[:, 0],
                "y": self.places[:, 1],
                "cluster": self.clusters + 1,
                "cluster_name": names,
            }
        )

    def plot(self, ax: "Axes | None" = None) -> "Axes":
        """Draw the map, coloured by cluster, and return its matplotlib Axes. Raises `EmbedxError`
        without matplotlib.

        ax  where to draw; by default new Axes
        """
        names = [", ".join(words) for words in self.names]
        return figures.points_by_group(self.places, self.clusters, names, ax)


def rows_on_map(vectors: WordVectors, n_frequent: int, chosen: Sequence[str]) -> np.ndarray:
    """The rows of the most frequent words and of chosen ones, int64 (n,), ascending. Raises
    `KeyError` for an unknown word.
    """
    rows = [vectors.index(word) for word in chosen]
    return np.union1d(np.arange(min(n_frequent, len(vectors))), np.array(rows, np.int64))


def map_of(vectors: WordVectors, rows: np.ndarray, method: str | None, seed: int) -> WordMap:
    """The map of the words of some rows. Raises `EmbedxError` for a projection that is not
    installed.

    method  of `projection.METHOD_NAMES`; by default the best that is installed
    """
    method = projection.chosen(method)
    words = [vectors.words[row] for row in rows]
    directions = projection.directions(vectors.vectors[rows])
    places = projection.spread(projection.project(directions, method, seed))
    clusters = clusters_of(places, seed)
    names = naming_words(words, directions, clusters, function_words(words, vectors.noun))
    counts = None
    if vectors.counts is not None:
        counts = vectors.counts[rows]
    by = projection.METHOD_NAMES[method]
    return WordMap(words, rows + 1, counts, places, clusters, names, by, vectors.noun)


def clusters_of(places: np.ndarray, seed: int) -> np.ndarray:
    """The cluster of each place by k-means, int32 (n,), the largest first.

    Their number, from 2 to N_COLOURS, is that with the highest silhouette. Words mostly have no
    such structure: where no silhouette reaches MIN_SILHOUETTE, the number is the largest.

    places  float64 (n, 2)
    """
    rng = np.random.default_rng(seed)
    n_different = len(np.unique(places, axis=0))
    sample = rng.permutation(len(places))[:MAX_POINTS_OF_SILHOUETTE]
    max_clusters = min(N_COLOURS, n_different - 1, len(places) // MIN_CLUSTER_SIZE)
    candidates = [
        best_kmeans(places, n_clusters, seed) for n_clusters in range(2, max(max_clusters, 2) + 1)
    ]
    scores = [silhouette(places[sample], clusters[sample]) for clusters in candidates]
    best = int(np.argmax(scores))
    if scores[best] < MIN_SILHOUETTE:
        best = -1
    return by_size(candidates[best])


def best_kmeans(places: np.ndarray, n_clusters: int, seed: int) -> np.ndarray:
    """The cluster of each place by the best of N_STARTS runs of k-means, int32 (n,)."""
    best = np.zeros(len(places), np.int32)
    least_error = math.inf
    for start in range(N_STARTS):
        with warnings.catch_warnings():
            # A start may leave clusters empty.
            warnings.simplefilter("ignore")
            means, clusters = kmeans2(places, n_clusters, minit="++", seed=seed + start)
        error = float(((places - means[clusters]) ** 2).sum())
        if error < least_error:
            least_error = error
            best = clusters
    return best


def by_size(clusters: np.ndarray) -> np.ndarray:
    """The same clusters, int32 (n,), numbered by falling size without gaps."""
    _, number, sizes = np.unique(clusters, return_inverse=True, return_counts=True)
    rank = np.empty(len(sizes), np.int32)
    rank[np.argsort(-sizes, kind="stable")] = np.arange(len(sizes))
    return rank[number]


def silhouette(places: np.ndarray, clusters: np.ndarray) -> float:
    """The mean silhouette (Rousseeuw 1987): how much nearer points are to those of their own
    cluster than to those of the next one, from -1 to 1.
    """
    distinct, cluster = np.unique(clusters, return_inverse=True)
    if len(distinct) < 2:
        return -1.0
    is_member = np.eye(len(distinct))[cluster]
    sizes = is_member.sum(axis=0)
    sums = cdist(places, places) @ is_member
    points = np.arange(len(places))
    n_others = sizes[cluster] - 1
    within = sums[points, cluster] / np.maximum(n_others, 1)
    means = sums / sizes
    means[points, cluster] = np.inf
    nearest = means.min(axis=1)
    silhouettes = (nearest - within) / np.maximum(np.maximum(within, nearest), 1e-12)
    return float(np.where(n_others > 0, silhouettes, 0.0).mean())


def map_data(
    vectors: WordVectors, word_map: WordMap, near: Neighbours, chosen: Sequence[str]
) -> dict[str, Any]:
    """The map as `map.js` reads it.

    noun                 what a word is called
    words                those on the map first, then their other neighbours, which lie between the
                         words of the map that are nearest to them
    n, ranks, counts     number of words on the map, their ranks by frequency and counts
    listed               places in `words` of the chosen ones
    unlabelled           places in `words` of function words
    x, y                 coordinates of all words
    k                    neighbours of a word
    neighbours, cosines  of the words on the map in turn: places in `words`, and cosines
    clusters             by k-means: the cluster of each word on the map
    names, centres       of each cluster: the words that name it, and the place of the name
    """
    on_map = word_map.words
    neighbours = [neighbour for word in on_map for neighbour in near[word]]
    words = list(dict.fromkeys([*on_map, *(word for word, _ in neighbours)]))
    place_of_word = {word: place for place, word in enumerate(words)}
    n = len(on_map)

    unit = projection.directions(vectors.vectors[[vectors.index(word) for word in words]])
    places = word_map.places
    others = projection.place_between(unit[:n], places, unit[n:])
    x, y = np.concatenate([places, others]).round(4).T.tolist()

    avoided = function_words(on_map, word_map.noun)
    listed = [place_of_word[vectors.words[vectors.index(word)]] for word in chosen]

    return {
        "words": words,
        "noun": vectors.noun,
        "n": n,
        "k": len(neighbours) // n,
        "ranks": word_map.ranks.tolist(),
        "listed": listed,
        "unlabelled": [place for place, word in enumerate(on_map) if word.lower() in avoided],
        "counts": [] if word_map.counts is None else word_map.counts.tolist(),
        "x": x,
        "y": y,
        "neighbours": [place_of_word[word] for word, _ in neighbours],
        "cosines": [round(cosine, 3) for _, cosine in neighbours],
        "clusters": word_map.clusters.tolist(),
        "names": word_map.names,
        "centres": centres_on_map(places, word_map.clusters),
    }


def function_words(on_map: Sequence[str], noun: str) -> set[str]:
    """Words that name no cluster: the most frequent ones, single letters, and scikit-learn's list
    of English ones where it is installed; none among items and nodes.

    on_map  the most frequent first
    """
    if noun != "word":
        return set()
    most_frequent = on_map[: round(SHARE_OF_FUNCTION_WORDS * len(on_map))]
    letters = [word for word in on_map if len(word) == 1 and word.isascii()]
    words = {*most_frequent, *letters}
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        words |= ENGLISH_STOP_WORDS
    return words


def naming_words(
    words: Sequence[str], directions: np.ndarray, clusters: np.ndarray, avoided: Set[str]
) -> list[list[str]]:
    """At most N_NAMING words of each cluster: the most frequent of those nearest to its mean.

    words       the most frequent first
    directions  float32 (n, dim): vectors of length 1
    clusters    int32 (n,): of each word
    avoided     words that are taken only where a cluster has no others
    """
    names = []
    for k in range(clusters.max() + 1):
        members = np.flatnonzero(clusters == k)
        cosines = directions[members] @ directions[members].mean(axis=0)
        by_cosine = members[np.argsort(-cosines, kind="stable")].tolist()
        content = [row for row in by_cosine if words[row].lower() not in avoided]
        central = (content or by_cosine)[:N_CENTRAL]
        names.append([words[row] for row in sorted(central)[:N_NAMING]])
    return names


def centres_on_map(places: np.ndarray, clusters: np.ndarray) -> list[list[float]]:
    """The place of the member of each cluster that is nearest to the median of its members.

    places    float64 (n, 2)
    clusters  int32 (n,): of each word
    """
    centres = []
    for k in range(clusters.max() + 1):
        members = places[clusters == k]
        distance = np.linalg.norm(members - np.median(members, axis=0), axis=1)
        centres.append(members[distance.argmin()].round(4).tolist())
    return centres

"""The page of word vectors: scores, nearest words and a map."""

import importlib.util
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.cluster.vq import kmeans2

from embedx import objectives
from embedx.errors import EmbedxError
from embedx.evaluation import learning_curves, words as evaluation
from embedx.evaluation.word_report import Report
from embedx.pages import figures
from embedx.pages.charts import N_COLOURS
from embedx.report import projection
from embedx.report.contract import PageRequest
from embedx.report.numbers import number_rows
from embedx.report.settings import ReportSettings
from embedx.runtime.frames import data_frame
from embedx.runtime.progress import Progress
from embedx.skipgram.configuration import configure
from embedx.vectors.model import WordVectors
from embedx.vectors.names import names_of, with_name
from embedx.vectors.uncertainty import INTERVAL, uncertainty_of

if TYPE_CHECKING:
    from matplotlib.axes import Axes

MIN_WORDS_ON_MAP = 3
# words that name a cluster, and the most central ones of which they are the most frequent
N_NAMING = 3
N_CENTRAL = 20
# The most frequent words of a text are mostly function words, which are near to all others.
SHARE_OF_FUNCTION_WORDS = 0.05

# by word: its nearest words with their cosines
Neighbours = Mapping[str, Sequence[tuple[str, float]]]


def drawn_rows(n_words: int, n: int, seed: int) -> np.ndarray:
    """Different rows below n_words, int64, sorted.

    They are drawn evenly over the logarithm of the rank, so that frequent and rare words are among
    them.
    """
    rng = np.random.default_rng(seed)
    rank = np.arange(n_words)
    share = np.log1p(1 / (rank + 1))
    rows = rng.choice(n_words, min(n, n_words), replace=False, p=share / share.sum())
    return np.sort(rows).astype(np.int64)


def single_values(vectors: WordVectors, request: PageRequest) -> dict[str, Any]:
    """What the page of word vectors shows, for its template.

    Raises `EmbedxError` for unknown words or projections.
    """
    objectives.check_packages(request.folders[0], vectors.facts, vectors.settings)
    values = neighbours_and_map(vectors, request.settings, request.progress)
    values["noun"] = vectors.noun
    values |= about_scores(vectors, request)

    facts = vectors.facts
    values["defaults"] = default_settings(vectors)
    values["key_figures"] = {
        f"{vectors.noun}s": f"{len(vectors):,}",
        "dimension": vectors.vectors.shape[1],
    }
    values["curve_of"] = {"held-out log-likelihood": learning_curves.heldout_points(facts)}
    values["heldout"] = None
    if facts.get("heldout"):
        values["heldout"] = number_rows("held-out data", facts["heldout"])
    return values


def pair_values(models: Sequence[WordVectors], request: PageRequest) -> dict[str, Any]:
    """What the page of two models of word vectors shows of their words, for its template."""
    scores, reason = scores_of(models[0], request)
    values: dict[str, Any] = {
        "noun": models[0].noun,
        "neighbours": neighbours_side_by_side(models, request.names, request.settings),
        "no_scores": reason,
    }
    if scores is not None:
        values["scores"] = scores.rows(request.names)
        values["conclusions"] = scores.conclusions(request.names)
    return values


def default_settings(vectors: WordVectors) -> dict[str, Any]:
    """The defaults of the settings of a model, by name, without those of walks."""
    facts = vectors.facts
    walks = {}
    if vectors.settings.get("walks"):
        # a graph has defaults of its own
        walks["walks"] = vectors.settings["walks"]
    is_collapsed = facts.get("collapsed", False)
    configuration = configure(facts.get("objective"), walks, is_collapsed=is_collapsed)
    defaults = configuration.record()
    return {name: value for name, value in defaults.items() if name not in walks}


def neighbours_and_map(
    vectors: WordVectors, settings: ReportSettings, progress: Progress
) -> dict[str, Any]:
    """The tables of nearest words and the map, for the template."""
    method = projection.chosen(settings.projection)
    for word in settings.chosen_words:
        # raises for an unknown word
        vectors.index(word)
    names = names_of(vectors, settings.names)
    rows = drawn_rows(len(vectors), settings.random_words, settings.seed)
    random_words = [vectors.words[row] for row in rows]
    on_map = vectors.words[: settings.map_words]
    if len(on_map) < MIN_WORDS_ON_MAP:
        on_map = []

    words = list(dict.fromkeys([*settings.chosen_words, *random_words, *on_map]))
    near = dict(zip(words, vectors.most_similar_batch(words, settings.nearest), strict=True))

    values: dict[str, Any] = {"map": None}
    if on_map:
        progress.note(f"map of {len(on_map):,} {vectors.noun}s by {projection.NAMES[method]}")
        word_map = map_of(vectors, settings)
        on_plane = map_data(vectors, word_map, near)
        on_plane["titles"] = [names.get(word, word) for word in on_plane["words"]]
        values["map"] = on_plane
        values["projection"] = word_map.projection

    noun = vectors.noun
    listed = {
        f"Nearest {noun}s": settings.chosen_words,
        f"Nearest {noun}s of random {noun}s": random_words,
    }
    values["neighbours"] = {
        title: neighbour_rows(vectors, some_words, near, names)
        for title, some_words in listed.items()
        if some_words
    }
    return values


def scores_of(vectors: WordVectors, request: PageRequest) -> tuple[Report | None, str]:
    """The scores of one model, or of two with their differences; or None, and why there are none.

    Without test sets of the user, words are scored on the packaged ones, items and nodes on none.
    """
    reason = evaluation.why_no_packaged_tests(vectors, request.word_tests)
    if reason is not None:
        return None, reason
    first, *others = request.folders
    tests = request.word_tests
    try:
        return evaluation.evaluate([first], others, tests, progress=request.progress), ""
    except EmbedxError as error:
        # gensim, which has the packaged test sets, is missing
        if tests.pairs or tests.analogies is not None:
            raise
        return None, str(error)


def about_scores(vectors: WordVectors, request: PageRequest) -> dict[str, Any]:
    """Scores, warnings and analogies by section, or why there are none, for the template."""
    scores, reason = scores_of(vectors, request)
    if scores is None:
        return {"scores": None, "no_scores": reason, "warnings": [], "sections": {}}
    return {
        "scores": scores.rows(),
        "no_scores": reason,
        "warnings": [warning.partition(": ")[2] or warning for warning in scores.warnings],
        "sections": sections_of(scores),
    }


def sections_of(scores: Report) -> dict[str, list[list[str]]]:
    """The analogies of each test by section."""
    tables = {}
    for score in scores.scores:
        rows = [["section", "right", "used", "accuracy %"]]
        for name, section in (score.details.get("sections") or {}).items():
            correct = section["correct"]
            used = section["used"]
            if used:
                rows.append([name, f"{correct:,}", f"{used:,}", f"{100 * correct / used:.1f}"])
        if len(rows) > 1:
            tables[score.test] = rows
    return tables


def neighbour_rows(
    vectors: WordVectors, words: Sequence[str], near: Neighbours, names: Mapping[str, str]
) -> list[list[str]]:
    """A row for each word: its nearest words, its rank by frequency, its count. Cosines have 95 %
    intervals where they are known.
    """
    rows = [[vectors.noun, f"nearest {vectors.noun}s", "rank", "count"]]
    uncertainty = uncertainty_of(vectors)
    for word in words:
        row = vectors.index(word)
        cosines = [f"{cosine:.2f}" for _, cosine in near[word]]
        if uncertainty is not None:
            errors = uncertainty.of_cosines(word, [other for other, _ in near[word]])
            bounds = (INTERVAL * errors).tolist()
            cosines = [f"{c} ± {bound:.2f}" for c, bound in zip(cosines, bounds, strict=True)]
        nearest = ", ".join(
            f"{with_name(other, names)} ({cosine})"
            for (other, _), cosine in zip(near[word], cosines, strict=True)
        )
        count = "–" if vectors.counts is None else f"{vectors.counts[row]:,}"
        rows.append([with_name(word, names), nearest, f"{row + 1:,}", count])
    return rows


def neighbours_side_by_side(
    models: Sequence[WordVectors], names: Sequence[str], settings: ReportSettings
) -> list[list[str]]:
    """The nearest words by each model, of the words asked for and of random ones that both have."""
    shared = [word for word in models[0].words if word in models[1]]
    rows = drawn_rows(len(shared), settings.random_words, settings.seed)
    random_words = [shared[row] for row in rows]
    words = list(dict.fromkeys([*settings.chosen_words, *random_words]))

    titles = names_of(models[0], settings.names)
    columns = [nearest_column(model, words, settings.nearest, titles) for model in models]
    shown = [with_name(word, titles) for word in words]
    return [[models[0].noun, *names], *map(list, zip(shown, *columns, strict=True))]


def nearest_column(
    model: WordVectors, words: Sequence[str], n_nearest: int, names: Mapping[str, str]
) -> list[str]:
    """The nearest words of each word, as a cell of a table."""
    words_of_model = [model.words[model.index(word)] for word in words]
    nearest = model.most_similar_batch(words_of_model, n_nearest)
    _, *rows = neighbour_rows(model, words, dict(zip(words, nearest, strict=True)), names)
    return [cell for _, cell, *_ in rows]


@dataclass(frozen=True, repr=False)
class WordMap:
    """The most frequent words in the plane, with clusters by k-means.

    noun        what a word is called
    words       the most frequent first
    counts      int64 (n,), None where they are not known
    places      float64 (n, 2): coordinates, between 0 and 1
    clusters    int32 (n,): the cluster of each word, from 0
    names       of each cluster, the words that name it
    projection  what the coordinates are made by
    """

    words: list[str]
    counts: np.ndarray | None
    places: np.ndarray
    clusters: np.ndarray
    names: list[list[str]]
    projection: str
    noun: str = "word"

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
                "rank": np.arange(1, len(self.words) + 1),
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


def map_of(vectors: WordVectors, settings: ReportSettings) -> WordMap:
    """The map of the `map_words` most frequent words. Raises `EmbedxError` for a projection that is
    not installed.
    """
    method = projection.chosen(settings.projection)
    words = vectors.words[: settings.map_words]
    n = len(words)
    points = np.array(vectors.vectors[:n], np.float32)
    places = projection.project(points, method, settings.seed)
    points /= np.maximum(np.linalg.norm(points, axis=1, keepdims=True), 1e-12)
    n_clusters = min(N_COLOURS, len(np.unique(points, axis=0)))
    centres, clusters = kmeans2(points, n_clusters, minit="++", seed=settings.seed)
    avoided: set[str] = set()
    if vectors.noun == "word":
        avoided = function_words(words)
    names = naming_words(words, points, centres, clusters, avoided)
    counts = None
    if vectors.counts is not None:
        counts = vectors.counts[:n]
    return WordMap(words, counts, places, clusters, names, projection.NAMES[method], vectors.noun)


def map_data(vectors: WordVectors, word_map: WordMap, near: Neighbours) -> dict[str, Any]:
    """The map as its script reads it.

    noun                 what a word is called
    words                those on the map first, then their other neighbours, which lie between the
                         words of the map that are nearest to them
    n, counts            number of words on the map, and their counts
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

    unit = np.array(vectors.vectors[[vectors.index(word) for word in words]], np.float32)
    unit /= np.maximum(np.linalg.norm(unit, axis=1, keepdims=True), 1e-12)
    places = word_map.places
    all_places = np.concatenate([places, projection.between(unit[:n], places, unit[n:])])
    x, y = all_places.round(4).T.tolist()

    return {
        "words": words,
        "noun": vectors.noun,
        "n": n,
        "k": len(neighbours) // n,
        "counts": [] if word_map.counts is None else word_map.counts.tolist(),
        "x": x,
        "y": y,
        "neighbours": [place_of_word[word] for word, _ in neighbours],
        "cosines": [round(cosine, 3) for _, cosine in neighbours],
        "clusters": word_map.clusters.tolist(),
        "names": word_map.names,
        "centres": centres_on_map(places, word_map.clusters, len(word_map.names)),
    }


def function_words(on_map: Sequence[str]) -> set[str]:
    """Words that name no cluster: the most frequent ones, single letters, and scikit-learn's list
    of English ones where it is installed.

    on_map  the most frequent first
    """
    most_frequent = on_map[: round(SHARE_OF_FUNCTION_WORDS * len(on_map))]
    letters = [word for word in on_map if len(word) == 1 and word.isascii()]
    words = {*most_frequent, *letters}
    if importlib.util.find_spec("sklearn") is not None:
        from sklearn.feature_extraction.text import ENGLISH_STOP_WORDS

        words |= ENGLISH_STOP_WORDS
    return words


def naming_words(
    words: Sequence[str],
    unit: np.ndarray,
    centres: np.ndarray,
    cluster: np.ndarray,
    avoided: Set[str],
) -> list[list[str]]:
    """At most N_NAMING words of each cluster: the most frequent of those nearest to its centre.

    words    the most frequent first
    unit     float32 (n, dim): vectors of length 1 of the first n words
    centres  float32 (clusters, dim)
    cluster  int32 (n,): of each word
    avoided  words that are taken only where a cluster has no others
    """
    names = []
    for k, centre in enumerate(centres):
        members = np.flatnonzero(cluster == k)
        by_cosine = members[np.argsort(-(unit[members] @ centre), kind="stable")].tolist()
        content = [row for row in by_cosine if words[row].lower() not in avoided]
        central = (content or by_cosine)[:N_CENTRAL]
        names.append([words[row] for row in sorted(central)[:N_NAMING]])
    return names


def centres_on_map(places: np.ndarray, cluster: np.ndarray, n_clusters: int) -> list[list[float]]:
    """The place of the member of each cluster that is nearest to the median of its members.

    places   float64 (n, 2)
    cluster  int32 (n,): of each word
    """
    centres = []
    for k in range(n_clusters):
        members = places[cluster == k]
        if len(members) == 0:
            centres.append([0.5, 0.5])
            continue
        distance = np.linalg.norm(members - np.median(members, axis=0), axis=1)
        centres.append(members[distance.argmin()].round(4).tolist())
    return centres

"""The data of papers_ldgs.py: the next word of a text, faces and documents that are made up,
EURLex-4.3K and WikiLSHTC.

The paper's own MegaFace is not to be had any more, and WikiLSHTC not everywhere. Faces have
MegaFace's shape, the made-up documents that of WikiLSHTC; their difficulty is stated where it is
set. Next words, EURLex and WikiLSHTC are genuine.
"""

import gzip
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

import embedx
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.scaling import unit_rows
from embedx.runtime.progress import Silent
from embedx.text.encode import encode
from embedx.text.held_out import PIECE, hold_out
from embedx.text.settings import TextSettings, VocabularySettings
from embedx.text.sources import recipe_defaults
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.vocabulary import keep_probability, select, trained_counts
from eval import corpus as corpora
from eval.experiment import Run
from eval.papers import load

DIM = 100  # of word vectors and hidden layers; the paper's
FACE_DIM = 128  # FaceNet's
WINDOW = 5  # kept words to each side


class Data(NamedTuple):
    """A data set; `start` has the arrays of a classifier that knows it well, for the time of steps
    on trained rows.
    """

    training: Any
    test: Any
    start: dict[str, np.ndarray] | None = None


# ---- the next word


def text_of(run: Run) -> str:
    """The corpus that was named, or the one among the data; in a trial run a little of it, or of a
    generated one.
    """
    if not run.quick:
        return str(corpora.of(run))
    if "text" not in run.files:
        corpora.unpacked(run)
    return run.files["text"]


def opened(corpus: str) -> IO[bytes]:
    """The bytes of a text, unpacked."""
    if corpus.endswith(".gz"):
        return gzip.open(corpus, "rb")
    return open(corpus, "rb")


class Words(NamedTuple):
    """Kept words of a text, in its order."""

    ids: np.ndarray  # int32 (n,)
    groups: np.ndarray  # int64 (n,): windows end where this changes
    places: np.ndarray  # int64 (n,): in the corpus
    is_held_out: np.ndarray  # bool (n,)


def kept_words(
    tokens: np.ndarray, remap: np.ndarray, chance: np.ndarray, held_out: np.ndarray, rng: Any
) -> Words:
    """The words that subsampling leaves; windows end where a sentence or a piece of PIECE tokens
    does.

    remap      int32 (n_types,) from tokens to words, -1 for none; `chance` float (n_words,) to be
               kept
    held_out   uint8 (n_pieces,): 1 where a piece is
    """
    is_word = tokens != END_OF_SENTENCE
    pieces = np.arange(len(tokens)) // PIECE
    groups = np.cumsum(~is_word | (np.diff(pieces, prepend=0) != 0))
    ids = np.where(is_word, remap[np.where(is_word, tokens, 0)], -1).astype(np.int32)
    places = np.flatnonzero(
        (ids >= 0) & (rng.random(len(ids), dtype=np.float32) < chance[np.maximum(ids, 0)])
    )
    return Words(ids[places], groups[places], places, held_out[pieces[places]] > 0)


def has_context(words: Words) -> np.ndarray:
    """bool (n,): whether a neighbour lies in the same window."""
    same = np.concatenate([[False], words.groups[1:] == words.groups[:-1], [False]])
    return same[1:] | same[:-1]


def contexts(words: Words, positions: np.ndarray, window: int) -> np.ndarray:
    """int32 (n_positions, 2 window): the words around each position, -1 where there is none."""
    steps = np.array([step for step in range(-window, window + 1) if step])
    near = positions[:, None] + steps
    inside = (near >= 0) & (near < len(words.ids))
    near = np.where(inside, near, 0)
    inside &= words.groups[near] == words.groups[positions][:, None]
    return np.where(inside, words.ids[near], -1).astype(np.int32)


def means(vectors: np.ndarray, ids: np.ndarray) -> np.ndarray:
    """float32 (n, dim): the mean of the vectors of each row of ids, those of -1 left out."""
    means = np.empty((len(ids), vectors.shape[1]), dtype=np.float32)
    for start in range(0, len(ids), 10_000):
        block = ids[start : start + 10_000]
        is_known = block >= 0
        means[start : start + len(block)] = (vectors[block] * is_known[:, :, None]).sum(
            1
        ) / np.maximum(is_known.sum(1), 1)[:, None]
    return means


def word_vectors(
    corpus: str, text: Any, share: float, quick: bool, max_vocab: int | None
) -> np.ndarray:
    """float32 (n_words, DIM): input vectors by `ns`, of text that was not held out."""
    options = {"dim": DIM, "window": WINDOW, "heldout": share, "epochs": 1 if quick else 5}
    if max_vocab:
        options["max_vocab"] = max_vocab
    model = embedx.SkipGram("ns", **options, **text.record()).fit(corpus).model
    return model.arrays["input"]


def next_word(
    corpus: str, n: int, n_test: int, share: float, quick: bool, max_vocab: int | None = None
) -> Data:
    """Which word stands between these: the mean of the vectors of its context, standardised, to
    length 1 on average. Of the most frequent words if max_vocab is given.

    The label is the word; positions are drawn among those that subsampling leaves, test positions
    in held-out spans of text, of which the vectors know nothing.
    """
    text = TextSettings.from_options(recipe_defaults([corpus]))
    settings = VocabularySettings(max_vocab=max_vocab)
    with encode(corpus, text, Silent(), None) as encoded:
        words, remap = select(encoded, settings)
        vectors = word_vectors(corpus, text, share, quick, max_vocab)
        held_out = hold_out(encoded.tokens, remap, share)
        rng = np.random.default_rng(1)
        chance = keep_probability(trained_counts(words.counts, held_out.counts), settings.sample)
        kept = kept_words(np.asarray(encoded.tokens), remap, chance, held_out.pieces, rng)
    is_complete = has_context(kept)
    # and in no border
    in_a_span = np.searchsorted(held_out.bounds.ravel(), kept.places, "right") % 2 == 1
    places = [
        rng.permutation(np.flatnonzero(is_complete & part))
        for part in (~kept.is_held_out, in_a_span)
    ]
    chosen = [
        np.sort(places_of_part[:max_places])
        for places_of_part, max_places in zip(places, (n, n_test), strict=True)
    ]
    features = [means(vectors, contexts(kept, positions, WINDOW)) for positions in chosen]
    centre = features[0].mean(0)
    spread = features[0].std(0) * np.sqrt(DIM, dtype=np.float32)
    halves = [
        Labeled((x - centre) / spread, Labels.single(kept.ids[positions]), len(words))
        for x, positions in zip(features, chosen, strict=True)
    ]
    return Data(*halves)


# ---- faces

# Identities come in families and these in tribes, so that an impostor is near: a family's centre
# lies at distance TRIBE_SPREAD from its tribe's before it is scaled to length 1, an identity's at
# FAMILY_SPREAD from its family's, an image at IMAGE_SPREAD from its identity's. The nearest mean of
# the training images is the right one for 85 % of 20,000 identities' test images.
TRIBE, FAMILY = 1000, 20  # identities in each
TRIBE_SPREAD, FAMILY_SPREAD, IMAGE_SPREAD = 1.0, 0.6, 1.2
MEAN_IMAGES = 7  # 4.7 million of 672,000 identities
OWN_SCORE = 20.0  # length of the rows to start from


def unit(x: np.ndarray) -> np.ndarray:
    return x / np.linalg.norm(x, axis=1, keepdims=True)


def beside(x: np.ndarray, distance: float, rng: Any) -> np.ndarray:
    """Unit vectors, each at about this distance from one of x before it is scaled."""
    step = rng.standard_normal(x.shape, dtype=np.float32) * np.float32(
        distance / np.sqrt(x.shape[1])
    )
    return unit(x + step)


def centres_of(n: int, rng: Any, dim: int = FACE_DIM) -> np.ndarray:
    """float32 (n, dim): the centres of n identities."""
    tribes = unit(rng.standard_normal((-(-n // TRIBE), dim), dtype=np.float32))
    families = beside(tribes[np.arange(-(-n // FAMILY)) * FAMILY // TRIBE], TRIBE_SPREAD, rng)
    return beside(families[np.arange(n) // FAMILY], FAMILY_SPREAD, rng)


def many_faces(n: int, dim: int, n_test: int) -> Data:
    """Two images of each of n identities for training, and for test one of n_test of them."""
    rng = np.random.default_rng(1)
    centres = centres_of(n, rng, dim)
    halves = []
    for ids in (np.repeat(np.arange(n), 2), rng.choice(n, n_test, replace=False)):
        images = np.empty((len(ids), dim), dtype=np.float32)
        for start in range(0, len(ids), 100_000):
            some = slice(start, start + 100_000)
            images[some] = beside(centres[ids[some]], IMAGE_SPREAD, rng)
        halves.append(Labeled(images, Labels.single(ids), n))
    return Data(*halves)


def faces(n: int, n_test: int = 1) -> Data:
    """All images of n identities, about MEAN_IMAGES - 1 of each and at least 2 for training, and
    n_test for test, which are the last ones.
    """
    rng = np.random.default_rng(1)
    centres = centres_of(n, rng)
    n_images = 2 + n_test + rng.poisson(MEAN_IMAGES - 3, n)
    ids = np.repeat(np.arange(n), n_images)
    images = beside(centres[ids], IMAGE_SPREAD, rng)
    images_left = np.repeat(np.cumsum(n_images), n_images) - np.arange(len(ids))
    is_test = images_left <= n_test
    halves = [Labeled(images[rows], Labels.single(ids[rows]), n) for rows in (~is_test, is_test)]
    return Data(*halves)


def some_faces(n: int, n_images: int) -> Data:
    """Some images of n identities, and rows that know them: the means of MEAN_IMAGES images each,
    not these.
    """
    rng = np.random.default_rng(1)
    centres = centres_of(n, rng)
    ids = rng.integers(n, size=n_images)
    images = Labeled(beside(centres[ids], IMAGE_SPREAD, rng), Labels.single(ids), n)
    rows = np.float32(OWN_SCORE) * beside(centres, IMAGE_SPREAD / np.sqrt(MEAN_IMAGES), rng)
    return Data(
        images, images.rows(np.arange(0)), {"output": rows, "bias": np.zeros(n, dtype=np.float32)}
    )


# ---- documents

LABELS_A_DOCUMENT, WORDS_A_DOCUMENT = 3.2, 40  # WikiLSHTC's
WORDS_A_LABEL = 10
FROM_LABELS = 0.6  # of a document's words, the others being anybody's
LABEL_SCORE = 10.0  # length of the labels' rows to start from


def zipf(n: int, flat: float, size: Any, rng: Any) -> np.ndarray:
    """Draws of 0..n-1, k with probability about proportional to 1/(k + flat)."""
    return np.minimum(flat * (n / flat + 1) ** rng.random(size) - flat, n - 1).astype(np.int64)


def documents(n: int, n_words: int, n_labels: int, n_test: int = 0) -> Data:
    """Bags of words, each label with words of its own, and a hidden layer and rows that
    know them.
    """
    rng = np.random.default_rng(1)
    words_of_label = zipf(n_words, n_words / 100, (n_labels, WORDS_A_LABEL), rng)
    order = rng.permutation(n_labels)
    labels = [
        np.unique(order[zipf(n_labels, 100, k, rng)]).tolist()
        for k in 1 + rng.poisson(LABELS_A_DOCUMENT - 1, n + n_test)
    ]
    words = []
    for ids in labels:
        k = max(1, rng.poisson(WORDS_A_DOCUMENT))
        of_labels = words_of_label[rng.choice(ids, k), rng.integers(WORDS_A_LABEL, size=k)]
        words.append(np.where(rng.random(k) < FROM_LABELS, of_labels, zipf(n_words, 10, k, rng)))
    rows = np.repeat(np.arange(len(words)), [len(ids) for ids in words])
    counts = csr_matrix(
        (np.ones(len(rows), dtype=np.float32), (rows, np.concatenate(words))), (n + n_test, n_words)
    )
    counts.sum_duplicates()
    counts.sort_indices()
    everything = Labeled(unit_rows(counts), Labels.of_rows(labels), n_labels)
    hidden = rng.standard_normal((n_words, DIM), dtype=np.float32) / np.sqrt(DIM, dtype=np.float32)
    output = np.float32(LABEL_SCORE) * unit(hidden[words_of_label].sum(axis=1))
    start = {"hidden": hidden, "output": output, "bias": np.zeros(n_labels, dtype=np.float32)}
    return Data(everything.rows(np.arange(n)), everything.rows(np.arange(n, n + n_test)), start)


def real_documents(folder: Path | None, name: str, quick: bool) -> Data:
    """The documents of a data set, as rows of length 1."""
    return Data(
        *(
            Labeled(unit_rows(half.features), half.labels, half.n_labels)
            for half in load(folder, name, quick)
        )
    )

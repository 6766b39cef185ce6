"""What fastText's commands about word vectors print, in its words and with its precision.

Words and lines of standard input are answered as they come.
"""

import contextlib
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.classification import classifier, model_folder
from embedx.cli.peers import check_has_only, model_folder_of
from embedx.cli.queries import input_lines
from embedx.cli.requests import NearestRequest
from embedx.errors import DataError, EmbedxError, Setting, choice
from embedx.labeled.formats.fasttext import features_of_lines
from embedx.settings import Record
from embedx.storage.folder import task_of_model
from embedx.vectors.formats.fasttext import MAGIC
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.model import WordVectors, load

QUERY = "Query word? "
TRIPLET = "Query triplet (A - B + C)? "
DUMPED = ("args", "dict")
# What `fasttext nn` takes, among the fields of `NearestRequest`.
NN_OPTIONS = ("model", "words", "top_k")
VECTORS_INSTEAD = "`embedx export MODEL FILE.npz` writes vectors"

VectorOf = Callable[[str], ndarray]
# Name and count of a word or a label, and which of both it is; None where the count is unknown.
Entry = tuple[str, int | None, str]


# ---- vectors


def print_word_vectors(model: str) -> None:
    """Print the vector of each word of standard input."""
    vector_of = _vectors_of(model, _word_vector)
    for word in _input_words():
        _print_vector(vector_of(word), word)


def print_sentence_vectors(model: str) -> None:
    """Print the vector of each line of standard input."""
    vector_of = _vectors_of(model, _sentence_vector)
    for line in input_lines():
        _print_vector(vector_of(line.rstrip("\n")))


def print_ngrams(model: str, word: str) -> None:
    """Print a word and its n-grams, each with its vector."""
    vectors = load(model_folder_of(model))
    if vectors.subwords is None:
        remedy = ("train with ", Setting("maxn"), ", or ", Setting("subwords"))
        raise DataError(model, None, "has no character n-grams", remedy)
    row = vectors.key_to_index.get(word)
    if row is not None:
        word_parts = vectors.arrays.get("word_part", vectors.vectors)
        _print_vector(word_parts[row], word)
    for ngram in vectors.subwords.ngrams.of(word):
        _print_vector(vectors.subwords.ngram_vector(ngram), ngram)


def _vectors_of(model: str, of_words: Callable[[WordVectors, str], ndarray]) -> VectorOf:
    """The function of a text that gives its vector: by `of_words`, or by a classifier's layer."""
    folder = model_folder_of(model)
    if task_of_model(Path(folder)) != model_folder.TASK:
        vectors = load(folder)
        return lambda text: of_words(vectors, text)

    loaded = classifier.load(folder)
    text_schema = loaded.schema.text
    if text_schema is None or "hidden" not in loaded.arrays:
        problem = "a classifier without a hidden layer over words has no vectors"
        raise DataError(model, None, problem)

    def hidden_values(text: str) -> ndarray:
        features = features_of_lines([text.encode()], text_schema)
        return loaded.hidden_values(features)[0]

    return hidden_values


def _word_vector(vectors: WordVectors, word: str) -> ndarray:
    try:
        return vectors[word]
    except UnknownWordError:
        return np.zeros(vectors.vector_size, float32)


def _sentence_vector(vectors: WordVectors, line: str) -> ndarray:
    """The mean of the unit vectors of the words that have one; zeros where none has."""
    units = []
    for word in line.split():
        vector = _word_vector(vectors, word)
        length = np.linalg.norm(vector)
        if length > 0:
            units.append(vector / length)
    if not units:
        return np.zeros(vectors.vector_size, float32)
    return np.mean(units, axis=0)


def _print_vector(vector: ndarray, name: str | None = None) -> None:
    """Print a vector with fastText's precision, after its name."""
    names = [] if name is None else [name]
    print(*names, *(f"{number:.5g}" for number in vector.tolist()), flush=True)


def _input_words() -> Iterator[str]:
    """The words of standard input as they come."""
    for line in input_lines():
        yield from line.split()


# ---- queries


def is_query(model: str, words: list[str] | None) -> bool:
    """Whether `nn` is called as fastText's: a model called as fastText's file, and at most the
    number of words.
    """
    is_number = words is not None and len(words) == 1 and words[0].isdecimal()
    return (not words or is_number) and is_fasttext(model)


def is_fasttext(model: str) -> bool:
    """Whether a model is one of fastText's files, or is called as one."""
    if model_folder_of(model) != model:
        return True
    with contextlib.suppress(OSError), open(model, "rb") as file:
        return file.read(4) == MAGIC.to_bytes(4, "little")
    return False


def answer_words(request: NearestRequest) -> None:
    """Print the neighbours of each word of standard input as `fasttext nn` does. Raises
    `InapplicableError` for options that it does not have.
    """
    check_has_only(request, NN_OPTIONS, "fasttext nn", "leave it out, or name words")
    n_neighbours = int(request.words[0]) if request.words else request.top_k
    vectors = load(model_folder_of(request.model))
    _prompt(QUERY)
    for word in _input_words():
        _print_answers(vectors, [word], [], n_neighbours)
        _prompt(QUERY)


def answer_triplets(model: str, k: int) -> None:
    """Print the words nearest to A - B + C for each three words of standard input."""
    vectors = load(model_folder_of(model))
    triplet: list[str] = []
    _prompt(TRIPLET)
    for word in _input_words():
        triplet.append(word)
        if len(triplet) == 3:
            a, b, c = triplet
            _print_answers(vectors, [a, c], [b], k)
            triplet = []
            _prompt(TRIPLET)


def _print_answers(
    vectors: WordVectors, positive: list[str], negative: list[str], top_k: int
) -> None:
    """Print the nearest words, each with its cosine; an unknown word is said on standard error."""
    try:
        for word, cosine in vectors.most_similar(positive, negative, top_k):
            print(word, f"{cosine:.6g}")
    except (UnknownWordError, DataError) as error:
        print(f"embedx: {error}", file=sys.stderr)


def _prompt(text: str) -> None:
    print(text, end="", flush=True)


# ---- dump


def dump(model: str, option: str) -> None:
    """Print settings or words of a model."""
    if option in ("input", "output"):
        raise EmbedxError(f"dump {option}: matrices are not printed; {VECTORS_INSTEAD}")
    if option not in DUMPED:
        raise EmbedxError(f"dump {option}: {choice(option, DUMPED)}")
    folder = model_folder_of(model)
    if task_of_model(Path(folder)) == model_folder.TASK:
        dumped = _dump_of_classifier(model, classifier.load(folder))
    else:
        dumped = _dump_of_vectors(load(folder))
    if option == "dict":
        print(len(dumped.entries))
        for name, count, kind in dumped.entries:
            print(*(part for part in (name, count, kind) if part is not None))
    else:
        for name, value in _fasttext_arguments(dumped.settings, dumped.objective).items():
            print(name, value)


class _Dump(NamedTuple):
    """What fastText's dump prints of a model."""

    objective: str
    settings: Record
    entries: list[Entry]


def _dump_of_classifier(model: str, loaded: classifier.Classifier) -> _Dump:
    """The settings, words and labels of a classifier."""
    text_schema = loaded.schema.text
    if text_schema is None:
        raise DataError(model, None, "a classifier whose features are no words")
    settings = {**loaded.settings, **text_schema.settings, "architecture": "supervised"}
    prefix = settings["label_prefix"]
    words: list[Entry] = [(word, None, "word") for word in text_schema.vocabulary]
    labels: list[Entry] = [
        (f"{prefix}{loaded.name(label)}", count, "label")
        for label, count in enumerate(loaded.counts.tolist())
    ]
    return _Dump(loaded.objective.name, settings, words + labels)


def _dump_of_vectors(vectors: WordVectors) -> _Dump:
    """The settings and words of word vectors."""
    settings = {"dim": vectors.vector_size, **vectors.settings}
    counts: list[int | None] = [None] * len(vectors)
    if vectors.counts is not None:
        counts = vectors.counts.tolist()
    entries = [(word, count, "word") for word, count in zip(vectors.words, counts, strict=True)]
    return _Dump(str(vectors.facts.get("objective", "")), settings, entries)


def _fasttext_arguments(settings: Mapping[str, Any], objective: str) -> dict[str, Any]:
    """fastText's settings, in the order in which it prints them; 0 where the model has none."""
    lengths = str(settings.get("subwords") or settings.get("char_ngrams") or "0-0")
    shortest, _, longest = lengths.partition("-")
    arguments = {
        "dim": settings.get("dim", settings.get("hidden")),
        "ws": settings.get("window"),
        "epoch": settings.get("epochs"),
        "minCount": settings.get("min_count"),
        "neg": settings.get("negatives"),
        "wordNgrams": settings.get("word_ngrams", 1),
        "loss": objective,
        "model": settings.get("architecture"),
        "bucket": settings.get("buckets"),
        "minn": shortest,
        "maxn": longest or shortest,
        "lrUpdateRate": 0,
        "t": settings.get("sample"),
    }
    return {name: 0 if value is None else value for name, value in arguments.items()}

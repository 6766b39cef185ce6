"""Word vectors: nearest words and analogies, loading and saving.

In the model folder (see `embedx.storage.folder`):

    input.npy        float32 (words, dim), the word vectors
    output.npy       float32 (outputs, dim), the output vectors; further arrays as NAME.npy
    word_part.npy    float32 (words, dim), with --subwords: the words' own rows. A vector in
                     input.npy is the mean of the word's own row and those of its n-grams
    ngram.npy        float32 (ngrams, dim), the vectors of n-grams; ngram_bucket.npy int32
                     (ngrams,), ascending, is the bucket of each (see `embedx.text.ngrams`). Buckets
                     that no word of the vocabulary has are not there
    vocabulary.tsv   word TAB count, most frequent first; line k describes row k
    phrases1.tsv     the collocations that the first pass joined, if there was one: words, with
                     spaces between them, TAB count; phrases2.tsv those of the second pass, and so
                     on
"""

import itertools
import os
import reprlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy import float32, ndarray

from embedx import checks
from embedx.errors import DataError, EmbedxError, SettingError, choice, near, public_url
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import MAX_WHOLE_NUMBER, Record
from embedx.storage.folder import (
    DESCRIPTION,
    REMEDY,
    Folder,
    blamed_on,
    damaged,
    present,
    read as read_folder,
    save as save_folder,
)
from embedx.storage.schema import FACTS_OF_RUN, Array, FolderSchema, Names, Value, row_blocks
from embedx.text.ngrams import MAX_BUCKETS, ngrams
from embedx.text.phrase_list import Collocation, Phrases
from embedx.text.settings import MAX_PASSES, PhraseSettings, noun_of
from embedx.text.unicode_forms import FORMS, normalized
from embedx.text.word_list import check_words
from embedx.vectors import formats, gensim_names
from embedx.vectors.subwords import Subwords

TASK = "skipgram"
# Of a word: see `WordVectors.of`.
VECTORS = ("input", "output", "sum")
# The attribute of a word, as gensim calls it.
COUNT = "count"
# Words that a query returns.
TOP_K = 10
FACTS_IN_NOTEBOOK = ("objective", "epochs", "final_loss", "words_per_second", "source")
# Words that are compared with an unknown one to suggest the nearest.
MAX_SUGGESTED = 50_000
# Cosines computed at a time: 128 MB.
MAX_COSINES = 1 << 25
SUBWORD_ARRAYS = ("word_part", "ngram", "ngram_bucket")
PASSES = [f"phrases{k}" for k in range(1, MAX_PASSES + 1)]
SCHEMA = FolderSchema(
    TASK,
    "`embedx train` wrote, or a vector file",
    names={
        "vocabulary": Names("words"),
        **{stem: Names(f"collocations of {stem}", required=False) for stem in PASSES},
    },
    arrays={
        "input": Array(("words", "dim"), required=True),
        "output": Array(("outputs", "dim")),
        "bias": Array(("outputs",)),
        "heldout_counts": Array(("words",), ("int64",)),
        "word_part": Array(("words", "dim")),
        "ngram": Array(("ngrams", "dim")),
        "ngram_bucket": Array(("ngrams",), ("int32",)),
    },
    settings={
        "architecture": Value(str),
        "sampler": Value(str),
        "window": Value(int, at_least=1, at_most=MAX_WHOLE_NUMBER),
        "sample": Value(float, at_least=0.0),
        "subwords": Value(str),
        "buckets": Value(int, at_least=1, at_most=MAX_BUCKETS),
        "connector_words": Value(str),
        "tokenizer": Value(str),
        "lowercase": Value(bool),
        "normalize": Value(str, choices=tuple(FORMS)),
        "format": Value(str),
        "on_bad_utf8": Value(str),
    },
    facts={
        "objective": Value(str),
        "packages": Value(dict),
        "words": Value(int, at_least=0),
        "source": Value(str),
        **FACTS_OF_RUN,
    },
)


# A word, or the number of its row.
Key = str | int | np.integer[Any]
KEYS = (str, int, np.integer)
K = TypeVar("K", bound=Key)
# Of a query, perhaps with its weight.
Term = Key | ndarray | tuple[Key | ndarray, float]
Query = Term | Sequence[Term]


class UnknownWordError(EmbedxError, KeyError):
    """A word that the vocabulary does not hold."""

    __str__ = EmbedxError.__str__  # KeyError would quote the message


@dataclass(eq=False, repr=False)
class WordVectors:
    """Words with their vectors, counts, settings and facts of the run.

    arrays    "input": float32 (words, dim); more when the model was trained by embedx
    counts    int64 (words,)
    phrases   the collocations joined in its text
    subwords  the vectors of n-grams, if there are any
    """

    words: list[str]
    arrays: dict[str, ndarray]
    _: KW_ONLY
    counts: ndarray | None = None
    settings: Record = field(default_factory=dict)
    facts: Record = field(default_factory=dict)
    phrases: Phrases | None = None
    subwords: Subwords | None = None

    @property
    def vectors(self) -> ndarray:
        """The word vectors, float32 (words, dim)."""
        return self.arrays["input"]

    @property
    def output_vectors(self) -> ndarray | None:
        """The output rows, float32 (outputs, dim), or None where the file holds none."""
        return self.arrays.get("output")

    @property
    def noun(self) -> str:
        """What has the vectors: "word", "item" of sessions, or "node" of a graph."""
        return noun_of(self.settings)

    def of(self, which: str) -> "WordVectors":
        """The same words with other vectors: their output rows, or the sum of both, as in GloVe.
        Raises EmbedxError without.
        """
        if which not in VECTORS:
            raise SettingError("vectors", which, choice(which, VECTORS))
        if which == "input":
            return self
        output = self.output_vectors
        if output is None:
            name = self.facts.get("source", "this model")
            problem = f"{name} has no output vectors, which only a model folder keeps"
            raise SettingError("vectors", which, problem)
        if output.shape != self.vectors.shape:  # hs: the inner nodes of its tree
            objective = self.facts.get("objective", "its objective")
            problem = (
                f"the {len(output):,} output rows of {objective} do not belong to {self.noun}s"
            )
            raise SettingError("vectors", which, problem)
        vectors = output
        if which == "sum":
            vectors = self.vectors + output
        return replace(self, arrays={"input": vectors}, subwords=None)

    def __repr__(self) -> str:
        parts = [f"{len(self):,} {self.noun}s", f"dim {self.vector_size}"]
        parts += [str(self.facts[name]) for name in ("objective", "source") if name in self.facts]
        return f"WordVectors({', '.join(parts)})"

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        facts = {
            name.replace("_", " "): self.facts[name]
            for name in FACTS_IN_NOTEBOOK
            if self.facts.get(name) is not None
        }
        rows = {
            f"{self.noun}s": f"{len(self):,}",
            "dim": self.vector_size,
            **facts,
            f"first {self.noun}s": ", ".join(self.words[:10]),
        }
        cells = "".join(
            f"<tr><th>{name}</th><td>{escape(str(value))}</td></tr>" for name, value in rows.items()
        )
        return f"<table>{cells}</table>"

    # Type checkers know which attributes there are.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property's own error led here.
                return object.__getattribute__(self, name)
            raise gensim_names.missing(self, name, gensim_names.OF_VECTORS)

    def __contains__(self, word: object) -> bool:
        return self._found_row(word) is not None

    def __getitem__(self, word: Key | Sequence[Key]) -> ndarray:
        """The vector of a word or a row number, float32 (dim,), or of a list of these, float32 (n,
        dim). Raises KeyError.

        In a model with subwords a word that was never seen has a vector too, if one of its n-grams
        has.
        """
        if isinstance(word, KEYS):
            return self._required_vector(word)
        vectors = [self._required_vector(key) for key in _listed(word)]
        if not vectors:
            raise DataError("words", None, "an empty list", "give a word")
        return np.array(vectors, float32)

    def _required_vector(self, key: Key) -> ndarray:
        """The vector of a word or a row number, float32 (dim,). Raises KeyError for one without,
        and DataError for what is neither.
        """
        if not isinstance(key, KEYS):
            raise _not_a_key(key)
        vector = self._found_vector(key)
        if vector is None:
            raise self._unknown(key)
        return vector

    def _found_row(self, key: object) -> int | None:
        """The row of a word, or of a row number; None for an unknown one."""
        if isinstance(key, int | np.integer):
            return int(key) if 0 <= key < len(self) else None
        if isinstance(key, str):
            return self.key_to_index.get(self.spelled(key))
        return None

    def spelled(self, word: str) -> str:
        """The word in the Unicode form of the text that the model was trained on, in lower case if
        that was; several words are joined by _, as phrases and items are, where the vocabulary has
        them so.
        """
        form = normalized(word, self.settings.get("normalize"))
        if self.settings.get("lowercase") and form not in self.key_to_index:
            form = form.lower()
        joined = "_".join(form.split())
        if form not in self.key_to_index and joined in self.key_to_index:
            return joined
        return form

    def _found_vector(self, key: Key) -> ndarray | None:
        """The vector of a word or a row number, float32 (dim,); None for one without."""
        row = self._found_row(key)
        if row is not None:
            return self.vectors[row]
        if self.subwords is None or not isinstance(key, str):
            return None
        return self.subwords.vector(self.spelled(key))

    def get_vector(self, word: Key, norm: bool = False) -> ndarray:
        """The vector of a word, float32 (dim,), with `norm` at length 1. Raises KeyError."""
        return self._unit(word) if norm else self[word]

    @property
    def vector_size(self) -> int:
        """The dimension, as gensim calls it."""
        return self.vectors.shape[1]

    @property
    def index_to_key(self) -> list[str]:
        """The words, as gensim calls them."""
        return self.words

    @cached_property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word, as gensim calls it."""
        return {word: row for row, word in enumerate(self.words)}

    def index(self, word: str) -> int:
        """The row of `word`. A KeyError for an unknown word names words that look like it."""
        row = self.key_to_index.get(self.spelled(word))
        if row is None:
            raise self._unknown(word)
        return row

    def _unknown(self, word: Key) -> UnknownWordError:
        """The error for a word or a row that the model does not have."""
        n_words = f"{len(self):,}"
        if not isinstance(word, str):
            return UnknownWordError(
                f"row {word}: not among the {n_words} rows of the model, from 0"
            )
        ngrams = ""
        if self.subwords is not None:
            ngrams = ", nor is any of its n-grams"
        remedy = near(word, self.words[:MAX_SUGGESTED], "check its spelling")
        return UnknownWordError(
            f"{word}: not among the {n_words} {self.noun}s of the model{ngrams}; {remedy}"
        )

    def similarity(self, a: Key, b: Key) -> float:
        """Cosine of two words' vectors."""
        return float(self._unit(a) @ self._unit(b))

    def cosine_errors(self, word: str, others: Sequence[str]) -> ndarray:
        """The standard errors of the cosines of a word to others, float64 (n,), as
        `embedx.vectors.uncertainty` estimates them.

        Raises EmbedxError for a model that does not tell them.
        """
        from embedx.vectors.uncertainty import Uncertainty

        return Uncertainty(self).of_cosines(word, others)

    def distance(self, a: Key, b: Key) -> float:
        """1 - the cosine of two words' vectors."""
        return 1 - self.similarity(a, b)

    def n_similarity(self, some: Sequence[Key], others: Sequence[Key]) -> float:
        """Cosine of the means of two lists of words' vectors; words without one are ignored. Raises
        EmbedxError where none of a list has one.
        """
        return float(self._unit_mean(some) @ self._unit_mean(others))

    def _unit_mean(self, words: Sequence[Key]) -> ndarray:
        """The mean of the vectors of words, at length 1; words without one are ignored."""
        _, vectors = self._required_vectors(words)
        return unit(np.mean(vectors, axis=0))

    def doesnt_match(self, words: Sequence[K]) -> K:
        """The word with the smallest cosine to the mean of all unit vectors; words without a vector
        are ignored. Raises EmbedxError where none has one.
        """
        known, vectors = self._required_vectors(words)
        units = np.array([unit(vector) for vector in vectors])
        cosines = units @ unit(units.mean(axis=0))
        return known[int(np.argmin(cosines))]

    def _required_vectors(self, words: Sequence[K]) -> tuple[list[K], list[ndarray]]:
        """The words that have vectors, and these. Raises DataError where none has one."""
        known, vectors = self._found_vectors(words)
        if not known:
            problem = f"no {self.noun}s"
            if words:
                problem = f"none of the {len(words):,} {self.noun}s has a vector"
            raise DataError("words", None, problem, f"give {self.noun}s of the model")
        return known, vectors

    def _found_vectors(self, words: Sequence[K]) -> tuple[list[K], list[ndarray]]:
        """The words that have vectors, and these."""
        if isinstance(words, str):
            raise DataError("words", None, f"{words!r} is a string", "give a list of words")
        known = []
        vectors = []
        for key in _listed(words):
            vector = self._found_vector(key)
            if vector is not None:
                known.append(key)
                vectors.append(vector)
        return known, vectors

    def rank(self, word: Key, other: Key) -> int:
        """The place of `other` among the words nearest to `word`, from 1, as gensim counts it."""
        return len(self.closer_than(word, other)) + 1

    def closer_than(self, word: Key, other: Key) -> list[str]:
        """The words whose cosine to `word` is larger than that of `other`, the most frequent first.
        Raises KeyError where one of both is not in the vocabulary.
        """
        row = self._required_row(word)
        row_of_other = self._required_row(other)
        cosines = self.vectors @ self._unit(row) / self._norms
        is_closer = cosines > cosines[row_of_other]
        is_closer[row] = False
        return [self.words[k] for k in np.flatnonzero(is_closer).tolist()]

    def get_vecattr(self, word: Key, attr: str) -> int:
        """The count of a word in the training text, which is the only attribute, `"count"`.
        Raises EmbedxError for a model without counts, and KeyError for an unknown word.
        """
        if attr != COUNT:
            raise SettingError("attr", attr, choice(attr, [COUNT]))
        return int(self._required_counts[self._required_row(word)])

    def n_frequent(self, min_count: int) -> int:
        """How many words occur at least `min_count` times; they are the first ones. Raises
        EmbedxError for a model without counts.
        """
        rising = self._required_counts[::-1]
        return len(self) - int(np.searchsorted(rising, min_count))

    @property
    def _required_counts(self) -> ndarray:
        """The counts, int64 (words,). Raises DataError where the file has none."""
        if self.counts is None:
            name = self.facts.get("source", "this model")
            raise DataError(name, None, "no counts of words", "a model folder has them")
        return self.counts

    def _required_row(self, key: Key) -> int:
        """The row of a word or row number. Raises KeyError for an unknown one."""
        row = self._found_row(key)
        if row is None:
            raise self._unknown(key)
        return row

    def mean_vectors(self, documents: Iterable[Sequence[str]]) -> ndarray:
        """float32 (documents, dim): the mean of the vectors of each document's words; zeros where
        none has one. Raises EmbedxError for a document that is no list of strings.

        documents  lists of tokens; tokens without a vector are ignored
        """
        means = []
        for document, tokens in enumerate(documents, 1):
            check_words(tokens, document, "documents")
            mean = self.mean_vector(tokens)
            means.append(np.zeros(self.vector_size) if mean is None else mean)
        return np.array(means, float32).reshape(len(means), self.vector_size)

    def mean_vector(self, words: Sequence[Key]) -> ndarray | None:
        """float32 (dim,): the mean of the vectors of the words that have one; None if none has."""
        _, vectors = self._found_vectors(words)
        return np.mean(vectors, axis=0) if vectors else None

    def analogy(
        self, a: str, b: str, c: str, top_k: int = TOP_K, *, topn: int | None = None
    ) -> list[tuple[str, float]]:
        """Words d such that a is to b as c is to d: those with the largest cosine to b - a + c
        (3CosAdd).
        """
        return self.most_similar([b, c], [a], top_k, topn=topn)

    def most_similar(
        self,
        positive: Query | None = None,
        negative: Query | None = None,
        top_k: int = TOP_K,
        *,
        topn: int | None = None,
        restrict_vocab: int | None = None,
    ) -> list[tuple[str, float]]:
        """The `top_k` words with the largest cosine to the sum of the unit vectors of `positive`
        minus that of `negative`.

        Each is a word, a row number, a vector, or a list of these. In a list a pair of one and a
        weight has the weight in place of 1, or of -1 in `negative`. Words of the query are
        excluded, as in word2vec.c and gensim. A vector counts with its own length. `topn`, as
        gensim calls it, is another name of `top_k`. Raises EmbedxError for an empty query and for
        one whose vectors cancel out.

        restrict_vocab  only the first words, which are the most frequent; None: all. Of words that
                        occur at least 20 times: `restrict_vocab=model.n_frequent(20)`
        """
        terms = [*weighted_terms(positive, 1.0), *weighted_terms(negative, -1.0)]
        if not terms:
            raise DataError("positive", None, "an empty query", "give a word or a vector")
        query = np.zeros(self.vector_size, float32)
        excluded = set[int]()
        for term, weight in terms:
            query += float32(weight) * self._term(term)
            excluded |= self._excluded(term)
        if not query.any():
            problem = "a query whose vector is zero, so that nothing is near to it"
            raise DataError("positive", None, problem, "give other words")
        return self._nearest([unit(query)], [excluded], n_wanted(top_k, topn), restrict_vocab)[0]

    def recommend(self, items: Sequence[str], top_k: int = TOP_K) -> list[tuple[str, float]]:
        """The `top_k` items that most likely follow a history, with their scores; those of the
        history are left out.

        The score is that of `embedx eval --next-item`: the product of an item's output vector with
        the weighted mean of the vectors of the history, or its log-probability where the objective
        has a tree. Raises EmbedxError where no item is known, and for a file of vectors without
        output vectors.

        items  the latest last; those that the model does not know are ignored
        """
        from embedx.vectors.next_item import recommend

        if isinstance(items, str):
            raise DataError("items", None, f"{items!r} is a string", "give a list of items")
        return recommend(self, self._next_item_scores, items, checks.whole_top_k(top_k))

    @cached_property
    def _next_item_scores(self) -> Callable[[ndarray], ndarray]:
        """The scores of all items by the mean of a history, see `next_item_scores`."""
        from embedx.vectors.next_item import next_item_scores

        return next_item_scores(self)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but a function, which is made again."""
        state = dict(vars(self))
        state.pop("_next_item_scores", None)
        return state

    def _term(self, term: Key | ndarray) -> ndarray:
        """The unit vector of a word or row, or a vector as it is. Raises DataError for one that
        does not fit.
        """
        if not isinstance(term, ndarray):
            return unit(self._required_vector(term))
        wrong_form = checks.wrong_form(term, (self.vector_size,))
        if wrong_form or not np.isfinite(term).all():
            wanted = f"give {self.vector_size} finite numbers"
            raise DataError("vector", None, f"an array {term.shape} as a query", wanted)
        return term

    def similar_by_word(
        self,
        word: Key,
        top_k: int = TOP_K,
        restrict_vocab: int | None = None,
        *,
        topn: int | None = None,
    ) -> list[tuple[str, float]]:
        """The words with the largest cosine to that of `word`, as of `most_similar`."""
        return self.most_similar(word, None, top_k, topn=topn, restrict_vocab=restrict_vocab)

    def similar_by_vector(
        self,
        vector: ndarray,
        top_k: int = TOP_K,
        restrict_vocab: int | None = None,
        *,
        topn: int | None = None,
    ) -> list[tuple[str, float]]:
        """The words with the largest cosine to a vector (dim,), as of `most_similar`."""
        query = np.asarray(vector)
        return self.most_similar(query, None, top_k, topn=topn, restrict_vocab=restrict_vocab)

    def most_similar_batch(
        self,
        queries: Sequence[Key | ndarray] | ndarray,
        top_k: int = TOP_K,
        *,
        topn: int | None = None,
    ) -> list[list[tuple[str, float]]]:
        """The result of `most_similar` for each query by itself, a word, a row number or a vector
        (or a row of an array).
        """
        if isinstance(queries, str):
            raise DataError("queries", None, f"{queries!r} is a string", "give a list of words")
        units = [unit(self._term(query)) for query in queries]
        excluded = [self._excluded(query) for query in queries]
        return self._nearest(units, excluded, n_wanted(top_k, topn))

    def _excluded(self, query: Key | ndarray) -> set[int]:
        """The row of a word or row number, which is no answer to it; empty for a vector."""
        row = None if isinstance(query, ndarray) else self._found_row(query)
        return set() if row is None else {row}

    def _nearest(
        self,
        units: Sequence[ndarray],
        excluded: Sequence[set[int]],
        top_k: int,
        n_words: int | None = None,
    ) -> list[list[tuple[str, float]]]:
        """The words with the largest cosines to each of some unit vectors (dim,), but for the
        excluded rows of each; among the first `n_words`, or all.
        """
        if n_words is not None and n_words < 0:
            raise SettingError("restrict_vocab", n_words, "must be at least 0")
        vectors = self.vectors[:n_words]
        norms = self._norms[:n_words]
        results = []
        step = max(1, MAX_COSINES // max(1, len(vectors)))
        for start in range(0, len(units), step):
            stop = start + step
            cosines = np.array(units[start:stop], float32) @ vectors.T / norms
            for row, excluded_rows in zip(cosines, excluded[start:stop], strict=True):
                hidden = [k for k in excluded_rows if k < len(vectors)]
                row[hidden] = -np.inf
                best = largest(row, min(top_k, len(vectors) - len(hidden)))
                results.append([(self.words[k], float(row[k])) for k in best.tolist()])
        return results

    def _unit(self, word: Key) -> ndarray:
        return unit(self[word])

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a model folder and return its path; at any moment the folder is absent, the old
        model or the new one, whole.

        Rows of arrays may be padded views; settings and facts are JSON types. Raises ValueError
        for counts that increase: the most frequent word is the first.
        """
        if len(self.words) != len(self.vectors):
            raise ValueError("each row of the input needs a word of its own")
        if self.counts is not None and np.any(self.counts[1:] > self.counts[:-1]):
            raise ValueError("counts must not increase")
        names = {"vocabulary": (self.words, self.counts)}
        passes = self.phrases.passes if self.phrases else ()
        for stem, collocations in zip(PASSES, passes, strict=False):
            joined = [" ".join(collocation.words) for collocation in collocations]
            times = [collocation.times for collocation in collocations]
            names[stem] = (joined, np.array(times, np.int64))
        return save_folder(
            Path(folder),
            task=TASK,
            names=names,
            arrays=self.arrays,
            settings=self.settings,
            facts=self.facts,
            overwrite=overwrite,
        )

    def export(
        self,
        path: str | Path,
        format: str | None = None,
        *,
        overwrite: bool = False,
        **options: Any,
    ) -> Path:
        """Write the vectors as a file of another program, as `embedx export` does, and return its
        path.

        format   word2vec, glove, npz, ...; by default by the suffix
        options  dtype="float16", top=10_000 (words) and vectors="sum"
        """
        from embedx.parameters import python_names
        from embedx.vectors.export import export

        with python_names():
            return export(self, format, Path(path), overwrite, **options)

    @cached_property
    def _norms(self) -> ndarray:
        """The lengths of the vectors, float32 (words,); 1 where a vector is zero."""
        norms = np.concatenate([np.linalg.norm(rows, axis=1) for rows in row_blocks(self.vectors)])
        norms[norms == 0] = 1
        return norms


def largest(values: ndarray, n: int) -> ndarray:
    """int64 (n,): the places of the largest values, the largest first; of equal ones the first."""
    places = np.argpartition(-values, max(n - 1, 0))[:n]
    return places[np.lexsort((places, -values[places]))]


def unit(vector: ndarray) -> ndarray:
    """`vector` at length 1; a zero vector stays zero."""
    norm = float(np.linalg.norm(vector))
    return np.divide(vector, norm) if norm > 0 else vector


def n_wanted(top_k: int, topn: int | None) -> int:
    """The one of both that was given. Raises TypeError for both, and SettingError for no whole
    number from 0 on.
    """
    if topn is not None and top_k not in (TOP_K, topn):
        raise TypeError(f"topn={topn} and top_k={top_k} are the same; give one of them")
    return checks.whole_top_k(top_k if topn is None else topn)


def weighted_terms(query: Query | None, sign: float) -> list[tuple[Key | ndarray, float]]:
    """The words, rows and vectors of a query, with their weights, `sign` where none is given.
    Raises DataError for what is none of these.
    """
    if query is None:
        return []
    is_vector = isinstance(query, ndarray) and query.ndim < 2
    is_one = isinstance(query, KEYS) or is_vector or _is_word_and_weight(query)
    terms: Iterable[Any] = [query] if is_one else _listed(query)
    return [_with_weight(term, sign) for term in terms]


def _is_word_and_weight(query: object) -> bool:
    """Whether it is a pair of a word or a vector, and a number: not two row numbers."""
    if not isinstance(query, tuple) or len(query) != 2:
        return False
    return isinstance(query[0], str | ndarray) and isinstance(query[1], int | float | np.number)


def _with_weight(term: Any, sign: float) -> tuple[Key | ndarray, float]:
    """A word, a row or a vector with its weight, `sign` if it has none."""
    if not isinstance(term, tuple):
        return term, sign
    is_pair = len(term) == 2 and isinstance(term[0], str | int | np.integer | ndarray)
    if not is_pair or not isinstance(term[1], int | float | np.number):
        raise _not_a_key(term)
    if not np.isfinite(term[1]):
        problem = f"the weight {term[1]} of {reprlib.repr(term[0])}"
        raise DataError("positive", None, problem, "give a finite number")
    return term


def _listed(keys: Any) -> Iterable[Any]:
    """What a list holds. Raises DataError for what is no list."""
    if isinstance(keys, bytes) or not isinstance(keys, Iterable):
        raise _not_a_key(keys)
    return keys


def _not_a_key(value: object) -> DataError:
    """The error for what is no word and no row number."""
    problem = f"{reprlib.repr(value)} is no word and no row number"
    return DataError("words", None, problem, "give words as strings, one or a list")


# ---- reading


def load(path: str | Path, progress: Progress = SILENT, trust_pickle: bool = False) -> WordVectors:
    """The word vectors in a model folder (memory-mapped), or in whatever `embedx.vectors.formats`
    reads.

    With `trust_pickle` also those of gensim's own files, which are pickles: opening one runs
    whatever code is in it. Raises EmbedxError, naming the file and a remedy, for whatever is
    missing, damaged or too new.
    """
    folder = present(Path(path))
    if os.path.isdir(folder):
        return load_folder(Path(path))
    content = formats.read(path, progress, trust_pickle)
    arrays = {"input": content.vectors}
    if content.word_parts is not None:
        arrays["word_part"] = content.word_parts
    return WordVectors(
        content.words,
        arrays,
        counts=content.counts,
        facts={"source": public_url(str(path))},
        subwords=content.subwords,
    )


def load_folder(path: Path) -> WordVectors:
    """The word vectors in a model folder, memory-mapped."""
    stored = read_folder(path, SCHEMA)
    path = stored.path
    words, counts = stored.names["vocabulary"]
    held_out = stored.arrays.get("heldout_counts")
    if held_out is not None:
        if counts is None:
            raise damaged(path / "vocabulary.tsv", "no counts, which held-out words are part of")
        problem = checks.wrong_part(held_out, counts)
        checks.require(problem, path / "heldout_counts.npy", REMEDY)
    return WordVectors(
        words,
        stored.arrays,
        counts=counts,
        settings=stored.settings,
        facts=stored.facts,
        phrases=_phrases_in(path, stored),
        subwords=_subwords_in(path, stored),
    )


def _subwords_in(path: Path, stored: Folder) -> Subwords | None:
    """The n-grams of a model; None if it has none."""
    if not any(name in stored.arrays for name in SUBWORD_ARRAYS):
        return None
    known = {**stored.settings, **stored.arrays}
    for name in ("subwords", "buckets", *SUBWORD_ARRAYS):
        if known.get(name) is None:
            raise damaged(path / DESCRIPTION, f"no {name}, which a model with n-grams has")
    rows = known["ngram"]
    buckets = known["ngram_bucket"]
    n_buckets = known["buckets"]
    with blamed_on(path / DESCRIPTION):
        spec = ngrams(known["subwords"], n_buckets)
        problem = checks.wrong_indices(buckets, n_buckets)
        if not problem and np.any(buckets[1:] <= buckets[:-1]):
            problem = "buckets that do not ascend"
        checks.require(problem, "ngram_bucket.npy")
    return Subwords(spec, rows, buckets)


def _phrases_in(path: Path, stored: Folder) -> Phrases | None:
    """What was joined in the text of a model; None if nothing was."""
    if PASSES[0] not in stored.names:
        return None
    passes = []
    for stem in itertools.takewhile(stored.names.__contains__, PASSES):
        names, counts = stored.names[stem]
        for name in names:
            first, _, rest = name.partition(" ")
            if not first or not rest:
                problem = f"{name!r} is no list of words with spaces between them"
                raise damaged(path / f"{stem}.tsv", problem)
        times = [0] * len(names) if counts is None else counts.tolist()
        collocations = [
            Collocation(tuple(name.split(" ")), n_times, 0.0)
            for name, n_times in zip(names, times, strict=True)
        ]
        passes.append(tuple(collocations))
    settings = PhraseSettings(connector_words=stored.settings.get("connector_words"))
    return Phrases(settings.connectors, tuple(passes))

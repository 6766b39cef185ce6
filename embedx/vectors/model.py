"""`WordVectors`: words with their vectors, with queries, and loading them.

Its methods call functions: `lookup` finds the row and the vector of a word, `queries` the nearest
words, `next_item` the items that follow a history; `model_folder` reads and writes the folder. Many
methods have the names of gensim's KeyedVectors; `gensim_names` tells what replaces the others.
"""

import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import float32, ndarray

from embedx import checks
from embedx.errors import DataError, SettingError, choice, public_url
from embedx.pages.notebook import facts_table
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Record
from embedx.storage.replacement import as_path, current_path
from embedx.storage.schema import row_blocks
from embedx.text.phrase_list import Phrases
from embedx.text.settings import noun_of
from embedx.text.unicode_forms import normalized
from embedx.text.word_list import check_words
from embedx.vectors import formats, gensim_names, lookup, model_folder
from embedx.vectors.lookup import KEYS, K, Key
from embedx.vectors.queries import (
    TOP_K,
    Query,
    closer_words,
    n_results,
    nearest_to_each,
    nearest_to_sum,
    odd_one_out,
    unit,
)
from embedx.vectors.subwords import Subwords

# The vectors that `WordVectors.of` chooses from.
VECTORS = ("input", "output", "sum")
# The only attribute of a word, by gensim's name.
COUNT = "count"
# Facts of the run that a notebook shows.
FACTS_IN_NOTEBOOK = ("objective", "epochs", "final_loss", "words_per_second", "source")


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
    def vector_size(self) -> int:
        """The dimension, by gensim's name."""
        return self.vectors.shape[1]

    @property
    def noun(self) -> str:
        """What a row is: a "word", an "item" of sessions, or a "node" of a graph."""
        return noun_of(self.settings)

    def of(self, vectors: str) -> "WordVectors":
        """The same words with other vectors: "output", or the "sum" of both as in GloVe; "input"
        returns the model itself. Raises EmbedxError where words have no output vectors.
        """
        if vectors not in VECTORS:
            raise SettingError("vectors", vectors, choice(vectors, VECTORS))
        if vectors == "input":
            return self
        output = self.output_vectors
        if output is None:
            name = self.facts.get("source", "this model")
            problem = f"{name} has no output vectors, which only a model folder keeps"
            raise SettingError("vectors", vectors, problem)
        belongs_to_words = output.shape == self.vectors.shape  # no inner nodes of a tree, as of hs
        if not belongs_to_words:
            objective = self.facts.get("objective", "its objective")
            problem = (
                f"the {len(output):,} output rows of {objective} do not belong to {self.noun}s"
            )
            raise SettingError("vectors", vectors, problem)
        chosen = self.vectors + output if vectors == "sum" else output
        return replace(self, arrays={"input": chosen}, subwords=None)

    @cached_property
    def norms(self) -> ndarray:
        """The lengths of the vectors, float32 (words,); 1 where a vector is zero."""
        norms = np.concatenate([np.linalg.norm(rows, axis=1) for rows in row_blocks(self.vectors)])
        norms[norms == 0] = 1
        return norms

    def __repr__(self) -> str:
        parts = [f"{len(self):,} {self.noun}s", f"dim {self.vector_size}"]
        parts += [str(self.facts[name]) for name in ("objective", "source") if name in self.facts]
        return f"WordVectors({', '.join(parts)})"

    def _repr_html_(self) -> str:
        """A table, for notebooks."""
        facts = {
            name.replace("_", " "): self.facts[name]
            for name in FACTS_IN_NOTEBOOK
            if self.facts.get(name) is not None
        }
        all_facts = {
            f"{self.noun}s": len(self),
            "dim": self.vector_size,
            **facts,
            f"first {self.noun}s": ", ".join(self.words[:10]),
        }
        return facts_table(all_facts)

    # Type checkers know which attributes there are.
    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            if hasattr(type(self), name):
                # A property's own error led here.
                return object.__getattribute__(self, name)
            raise gensim_names.missing(self, name, gensim_names.OF_VECTORS)

    def __getstate__(self) -> dict[str, Any]:
        """What is pickled: all but a function, which is made again."""
        state = dict(vars(self))
        state.pop("_next_item_scores", None)
        return state

    # ---- words and their rows

    def __len__(self) -> int:
        return len(self.words)

    def __iter__(self) -> Iterator[str]:
        return iter(self.words)

    def __contains__(self, word: object) -> bool:
        return lookup.find_row(self, word) is not None

    @property
    def index_to_key(self) -> list[str]:
        """The words, by gensim's name."""
        return self.words

    @cached_property
    def key_to_index(self) -> dict[str, int]:
        """The row of each word, by gensim's name."""
        return {word: row for row, word in enumerate(self.words)}

    def index(self, word: str) -> int:
        """The row of `word`. A KeyError for an unknown word names words that look like it."""
        row = self.key_to_index.get(self.spelled(word))
        if row is None:
            raise lookup.unknown(self, word)
        return row

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

    def get_vecattr(self, word: Key, attr: str) -> int:
        """The count of a word in the training text, which is the only attribute, `"count"`.
        Raises EmbedxError for a model without counts, and KeyError for an unknown word.
        """
        if attr != COUNT:
            raise SettingError("attr", attr, choice(attr, [COUNT]))
        return int(self._required_counts[lookup.row_of(self, word)])

    def n_frequent(self, min_count: int) -> int:
        """The number of words that occur at least `min_count` times; they are the first ones.
        Raises EmbedxError for a model without counts.
        """
        ascending_counts = self._required_counts[::-1]
        return len(self) - int(np.searchsorted(ascending_counts, min_count))

    @property
    def _required_counts(self) -> ndarray:
        """The counts, int64 (words,). Raises DataError where the file has none."""
        if self.counts is None:
            name = self.facts.get("source", "this model")
            raise DataError(name, None, "no counts of words", "give a model folder, which has them")
        return self.counts

    # ---- vectors of words

    def __getitem__(self, word: Key | Sequence[Key]) -> ndarray:
        """The vector of a word or a row number, float32 (dim,), or of a list of these, float32 (n,
        dim). Raises KeyError.

        In a model with subwords a word that was never seen has a vector too, if one of its n-grams
        has.
        """
        if isinstance(word, KEYS):
            return lookup.vector_of(self, word)
        vectors = [lookup.vector_of(self, key) for key in lookup.as_keys(word)]
        if not vectors:
            raise DataError("words", None, "an empty list", "give a word")
        return np.array(vectors, float32)

    def get_vector(self, word: Key, norm: bool = False) -> ndarray:
        """The vector of a word, float32 (dim,), with `norm` at length 1. Raises KeyError."""
        return unit(self[word]) if norm else self[word]

    def mean_vector(self, words: Sequence[Key]) -> ndarray | None:
        """float32 (dim,): the mean of the vectors of the words that have one; None if none has."""
        _, vectors = lookup.find_vectors(self, words)
        return np.mean(vectors, axis=0) if vectors else None

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

    def _unit_mean(self, words: Sequence[Key]) -> ndarray:
        """The mean of the vectors of words, at length 1; words without one are ignored."""
        _, vectors = lookup.vectors_of(self, words)
        return unit(np.mean(vectors, axis=0))

    # ---- cosines of given words

    def similarity(self, a: Key, b: Key) -> float:
        """Cosine of two words' vectors."""
        return float(unit(self[a]) @ unit(self[b]))

    def distance(self, a: Key, b: Key) -> float:
        """1 - the cosine of two words' vectors."""
        return 1 - self.similarity(a, b)

    def cosine_errors(self, word: str, others: Sequence[str]) -> ndarray:
        """The standard errors of the cosines of a word to others, float64 (n,), as
        `embedx.vectors.uncertainty` estimates them.

        Raises EmbedxError for a model that does not tell them.
        """
        from embedx.vectors.uncertainty import Uncertainty

        return Uncertainty(self).of_cosines(word, others)

    def n_similarity(self, words: Sequence[Key], others: Sequence[Key]) -> float:
        """Cosine of the mean vectors of two lists of words; words without a vector are ignored.
        Raises EmbedxError where none of a list has one.
        """
        return float(self._unit_mean(words) @ self._unit_mean(others))

    def doesnt_match(self, words: Sequence[K]) -> K:
        """The word with the smallest cosine to the mean of all unit vectors; words without a vector
        are ignored. Raises EmbedxError where none has one.
        """
        return odd_one_out(self, words)

    def rank(self, word: Key, other: Key) -> int:
        """The place of `other` among the words nearest to `word`, from 1, as gensim counts it."""
        return len(self.closer_than(word, other)) + 1

    def closer_than(self, word: Key, other: Key) -> list[str]:
        """The words whose cosine to `word` is larger than that of `other`, the most frequent first.
        Raises KeyError where one of both is not in the vocabulary.
        """
        return closer_words(self, word, other)

    # ---- nearest words

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

        restrict_vocab  only this number of the most frequent words; None: all. Of words that
                        occur at least 20 times: `restrict_vocab=model.n_frequent(20)`
        """
        return nearest_to_sum(self, positive, negative, n_results(top_k, topn), restrict_vocab)

    def similar_by_word(
        self,
        word: Key,
        top_k: int = TOP_K,
        restrict_vocab: int | None = None,
        *,
        topn: int | None = None,
    ) -> list[tuple[str, float]]:
        """The words with the largest cosine to `word`, as of `most_similar`."""
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
        return nearest_to_each(self, queries, n_results(top_k, topn))

    def analogy(
        self,
        a: str,
        b: str,
        c: str,
        top_k: int = TOP_K,
        *,
        topn: int | None = None,
        restrict_vocab: int | None = None,
    ) -> list[tuple[str, float]]:
        """Words d such that a is to b as c is to d: those with the largest cosine to b - a + c
        (3CosAdd).

        restrict_vocab  as of `most_similar`
        """
        return self.most_similar([b, c], [a], top_k, topn=topn, restrict_vocab=restrict_vocab)

    # ---- next items

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

    # ---- files

    def save(self, folder: str | Path, overwrite: bool = False) -> Path:
        """Write a model folder and return its path; at any moment the folder is absent, the old
        model or the new one, whole.

        Rows of arrays may be padded views; settings and facts are JSON types. Raises ValueError
        for counts that increase: the most frequent word is the first.
        """
        return model_folder.save(self, folder, overwrite)

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
            return export(self, format, as_path(path, "path"), overwrite, **options)


# ---- reading


def load(path: str | Path, progress: Progress = SILENT, trust_pickle: bool = False) -> WordVectors:
    """The word vectors in a model folder (memory-mapped), or in whatever `embedx.vectors.formats`
    reads.

    With `trust_pickle` also those of gensim's own files, which are pickles: opening one runs
    whatever code is in it. Raises EmbedxError, naming the file and a remedy, for whatever is
    missing, damaged or too new.
    """
    folder = current_path(path)
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
    return model_folder.load(path, WordVectors)

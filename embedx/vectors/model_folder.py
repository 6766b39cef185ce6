"""The folder of word vectors: its files, how it is written, read and checked.

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
from pathlib import Path
from typing import TYPE_CHECKING, TypeVar

import numpy as np

from embedx import checks
from embedx.settings import MAX_WHOLE_NUMBER
from embedx.storage import folder
from embedx.storage.folder import Folder, blamed_on
from embedx.storage.folder_files import DESCRIPTION, REMEDY, damaged
from embedx.storage.replacement import as_path
from embedx.storage.schema import FACTS_OF_RUN, Array, FolderSchema, Names, Value
from embedx.text.ngrams import MAX_BUCKETS, ngrams
from embedx.text.phrase_list import Collocation, Phrases
from embedx.text.settings import MAX_PASSES, PhraseSettings
from embedx.text.unicode_forms import FORMS
from embedx.vectors.subwords import Subwords

if TYPE_CHECKING:
    from embedx.vectors.model import WordVectors

TASK = "skipgram"
Model = TypeVar("Model", bound="WordVectors")
# Of the texts that it was trained on, a model records this number at most.
MAX_SOURCES = 20
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


def save(model: "WordVectors", path: str | Path, overwrite: bool = False) -> Path:
    """Write the folder of a model."""
    if len(model.words) != len(model.vectors):
        raise ValueError("each row of the input needs a word of its own")
    if model.counts is not None and np.any(model.counts[1:] > model.counts[:-1]):
        raise ValueError("counts must not increase")
    names = {"vocabulary": (model.words, model.counts)}
    passes = model.phrases.passes if model.phrases else ()
    for stem, collocations in zip(PASSES, passes, strict=False):
        joined = [" ".join(collocation.words) for collocation in collocations]
        times = [collocation.times for collocation in collocations]
        names[stem] = (joined, np.array(times, np.int64))
    return folder.save(
        as_path(path, "folder"),
        task=TASK,
        names=names,
        arrays=model.arrays,
        settings=model.settings,
        facts=model.facts,
        overwrite=overwrite,
    )


def load(path: Path, model_class: type[Model]) -> Model:
    """The model in a folder; its arrays are memory-mapped.

    Raises `EmbedxError` if files are missing or damaged, or if it is another kind of model.
    """
    stored = folder.read(path, SCHEMA)
    path = stored.path
    words, counts = stored.names["vocabulary"]
    held_out = stored.arrays.get("heldout_counts")
    if held_out is not None:
        if counts is None:
            raise damaged(path / "vocabulary.tsv", "no counts, which held-out words are part of")
        problem = checks.wrong_part(held_out, counts)
        checks.refuse(problem, path / "heldout_counts.npy", REMEDY)
    return model_class(
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
        checks.refuse(problem, "ngram_bucket.npy")
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

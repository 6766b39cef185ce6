"""Small word vectors to be written in every format, and how near to them what is read has to be."""

import numpy as np
import pytest

from embedx.vectors import formats, model
from tests.support.needs import needs_gensim

TOLERANCE = {"float32": 0.0, "float16": 1e-3, "int8": 1 / 254}  # of the largest number of a row
WORDS = ["the", "naïve", "new york", "tab\there", "line\nend", "back\\slash", "日本", "</s>", "a_b"]


def toy(words=WORDS, dim=12, output=True):
    """Word vectors of any of these words, with counts, settings and facts."""
    rng = np.random.default_rng(4)
    # rows of the trainer are padded
    padded = rng.normal(size=(2, len(words), dim + 3)).astype(np.float32)
    if output:
        arrays = {"input": padded[0, :, :dim], "output": padded[1, :, :dim]}
    else:
        arrays = {"input": padded[0, :, :dim]}
    settings = {"tokenizer": "words", "lowercase": True, "dim": dim, "window": 5}
    facts = {
        "objective": "ns",
        "sources": ["corpus.txt"],
        "final_loss": 1.25,
        "heldout": {"log_likelihood": -8.5, "pairs": 9},
    }
    return model.WordVectors(
        words, arrays, counts=np.arange(len(words), 0, -1) * 10, settings=settings, facts=facts
    )


def suffix(format):
    """The ending of the names of its files, if it has one."""
    return (*formats.FORMATS[format].suffixes, "")[0]


def assert_close(vectors, expected, dtype):
    """Vectors are those that were written, as near as numbers of this type can be."""
    largest = np.abs(expected).max(axis=1, keepdims=True)
    assert vectors.shape == expected.shape
    assert (np.abs(np.asarray(vectors, np.float32) - expected) <= TOLERANCE[dtype] * largest).all()


def marked(*values):
    """A case, the first of whose values is a format, where that can be written."""
    return pytest.param(*values, marks=[needs_gensim] if values[0] == "gensim" else [])

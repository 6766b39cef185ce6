"""gensim where evaluation needs it: quiet, over our arrays, and with an error that says what to do where it is missing."""

import contextlib
import logging
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedx.errors import EmbedxError


@contextlib.contextmanager
def gensim_quietly() -> Iterator[None]:
    """gensim without its log and warnings; an error that says what to do if it is missing."""
    log = logging.getLogger("gensim")
    level = log.level
    log.setLevel(logging.CRITICAL + 1)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except ImportError as error:
        raise EmbedxError(
            f"evaluation needs gensim, which has no build for every Python yet ({error}); use Python 3.11 to 3.13"
        ) from error
    finally:
        log.setLevel(level)


def keyed_vectors(words: list[str], vectors: np.ndarray) -> Any:
    """gensim's KeyedVectors over the given arrays, without copying them as its own methods would."""
    with gensim_quietly():
        from gensim.models import KeyedVectors
    keyed = KeyedVectors(vectors.shape[1])
    keyed.vectors = np.asarray(vectors)
    keyed.index_to_key = words
    keyed.key_to_index = {word: row for row, word in enumerate(words)}
    return keyed


@contextlib.contextmanager
def as_file(lines: list[str]) -> Iterator[str]:
    """A temporary file of these lines, for gensim to read what we read."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "items.txt"
        file.write_text("".join(lines), encoding="utf-8", newline="\n")
        yield str(file)

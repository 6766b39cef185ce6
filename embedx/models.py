"""`embedx.load`: the model that a folder or a file has, of words or of labels."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedx.runtime.progress import SILENT, Progress
from embedx.storage.folder import task_of_model

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier
    from embedx.labeled.data import DataSchema
    from embedx.vectors.model import WordVectors

CLASSIFICATION = "classification"


def load(
    path: str | Path, progress: Progress = SILENT, trust_pickle: bool = False
) -> "WordVectors | Classifier":
    """The word vectors or the classifier in a model folder, or the word vectors in whatever
    `embedx.vectors.formats` reads.

    A classifier is ready to answer: its kernels are compiled, or loaded where they were compiled
    before. It needs no scikit-learn, and several threads may ask it at once. Vectors in a folder
    are memory-mapped. With `trust_pickle` also those of gensim's own files are read, which are
    pickles: opening one runs whatever code is in it. Raises `EmbedxError`, naming the file and a
    remedy, for whatever is missing, damaged or too new.
    """
    if task_of_model(path) == CLASSIFICATION:
        return _ready_classifier(path)
    # Imported here, as the classifier below, so that a model loads what its own kind needs.
    from embedx.vectors import model as vectors

    return vectors.load(path, progress, trust_pickle)


def _ready_classifier(path: str | Path) -> "Classifier":
    """A classifier that has answered once, so that its kernels are loaded."""
    from embedx.classification import classifier

    model = classifier.load(path)
    model.top_k([_empty_row(model.known)], 1)
    return model


def _empty_row(known: "DataSchema") -> Any:
    """A row as `predict` takes it, in which nothing is known."""
    columns = known.columns
    if columns is not None:
        texts = dict.fromkeys(columns.text, "")
        return texts | dict.fromkeys(columns.numbers, None)
    if known.text is not None:
        return ""
    return [0.0] * known.n_features

"""`embedx.load`: loads word vectors or a classifier from a folder or a file."""

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
    """Load the word vectors or the classifier in a model folder, or word vectors in any format that
    `embedx.vectors.formats` reads.

    A classifier is ready for predictions: its kernels are compiled or loaded. It does not need
    scikit-learn, and several threads may use it at once. Vectors in a folder are memory-mapped.
    With `trust_pickle`, gensim's own files are read too; they are pickles, and opening one runs any
    code in it. Raises `EmbedxError`, naming the file and a remedy, if something is missing, damaged
    or too new.
    """
    if task_of_model(path) == CLASSIFICATION:
        return _ready_classifier(path)
    # Imported here, as the classifier below, so that each kind of model imports only its own code.
    from embedx.vectors import model as vectors

    return vectors.load(path, progress, trust_pickle)


def _ready_classifier(path: str | Path) -> "Classifier":
    """Load a classifier, and predict once, so that its kernels are loaded."""
    from embedx.classification import classifier

    model = classifier.load(path)
    model.top_k([_empty_row(model.schema)], 1)
    return model


def _empty_row(schema: "DataSchema") -> Any:
    """A row for `predict` without any features."""
    columns = schema.columns
    if columns is not None:
        texts = dict.fromkeys(columns.text, "")
        return texts | dict.fromkeys(columns.numbers, None)
    if schema.text is not None:
        return ""
    return [0.0] * schema.n_features

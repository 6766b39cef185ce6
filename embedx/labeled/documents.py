"""A text file per document in a folder per label, as 20 Newsgroups, IMDB and scikit-learn's
`load_files` have them: `reviews/good/1.txt`, `reviews/bad/2.txt`. A model that was trained on
such folders takes each text file as a row, with or without a folder for its label.
"""

import os
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from embedx.errors import DataError
from embedx.labeled.data import FileRows, Labels
from embedx.labeled.files import LabelledFile, MemoryBudget, content_of, source_of, sources_of
from embedx.labeled.formats import is_data
from embedx.labeled.ids import Numbering
from embedx.labeled.options import ReadOptions
from embedx.labeled.words import text_features
from embedx.runtime.progress import SILENT, Progress
from embedx.text.sources import reader_of

# Names in a message.
MAX_SHOWN = 3


class Document(NamedTuple):
    """A text file.

    label  the name of its folder; None if the folder says none
    id     its path in the folder that the user named, or as the user named it
    """

    label: str | None
    id: str
    path: str


def documents_in(names: Sequence[str]) -> list[Document] | None:
    """The documents in folders of such folders, by label and name; None if the names are others.

    Raises `DataError` for documents that are not all in a folder of a label.
    """
    documents: list[Document] = []
    for name in names:
        if not os.path.isdir(name):
            return None
        here = _documents_of(name)
        if here is None:
            return None
        documents += here
    return documents


def unlabelled_documents(names: Sequence[str]) -> list[Document] | None:
    """The documents that paths, patterns and folders name; None if any file is no local text."""
    documents: list[Document] = []
    for source in sources_of(names):
        if not _is_document(source.address):
            return None
        documents.append(Document(None, source.name, source.address))
    return documents


def _documents_of(folder: str) -> list[Document] | None:
    label_folders, files = _listed(folder)
    documents: list[Document] = []
    deeper = ""
    for label in label_folders:
        folders_within, names = _listed(os.path.join(folder, label))
        if folders_within:
            deeper = deeper or os.path.join(folder, label)
            if not names:
                names = _first_file(os.path.join(folder, label, folders_within[0]))
                label = os.path.join(label, folders_within[0])
        if names and not _is_document(os.path.join(folder, label, names[0])):
            return None
        documents += [
            Document(label, os.path.join(label, name), os.path.join(folder, label, name))
            for name in names
        ]
    if not documents or (files and not _is_document(os.path.join(folder, files[0]))):
        return None
    if deeper:
        problem = "folders within its folders, so that it is unclear which are the labels"
        remedy = f"name the folder whose folders are the labels, such as {deeper}"
        raise DataError(folder, None, problem, remedy)
    if files:
        shown = ", ".join(files[:MAX_SHOWN]) + ("" if len(files) <= MAX_SHOWN else ", ...")
        problem = f"documents in a folder for each label, and files beside these: {shown}"
        remedy = "give a folder that has the folders of labels alone"
        raise DataError(folder, None, problem, remedy)
    return documents


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The names of the folders and of the files in a folder, sorted, without hidden ones."""
    with os.scandir(folder) as entries:
        seen = sorted((entry.name, entry.is_dir()) for entry in entries)
    shown = [(name, is_folder) for name, is_folder in seen if not name.startswith(".")]
    return [name for name, is_dir in shown if is_dir], [
        name for name, is_dir in shown if not is_dir
    ]


def _first_file(folder: str) -> list[str]:
    return _listed(folder)[1][:1]


def _is_document(path: str) -> bool:
    """Whether a file is text, not rows with labels or a table."""
    if not os.path.isfile(path) or reader_of(path) not in ("text", "any"):
        return False
    return not os.path.getsize(path) or not is_data(LabelledFile(source_of(path), SILENT))


def read_documents(
    documents: Sequence[Document], name: str, options: ReadOptions, progress: Progress
) -> FileRows:
    """A row for each document, with the label of its folder.

    name  that the user gave, for messages
    """
    budget = MemoryBudget(name)
    training_text = options.schema.text if options.schema else None
    features = text_features(options.text, budget, training_text)
    features.add(_texts(documents, name, progress))
    matrix, schema = features.finish()
    numbering = Numbering(budget)
    labels = numbering.labels_of(
        [[] if document.label is None else [os.fsencode(document.label)] for document in documents]
    )
    names = [*numbering]
    labelled_by = f", labelled by {len(names):,} folders" if names else ""
    n_documents = "1 document" if len(documents) == 1 else f"{len(documents):,} documents"
    progress.note(f"{name}: {n_documents}{labelled_by}")
    ids = np.array([document.id for document in documents], object)
    return FileRows(matrix, Labels.joined([labels]), names, text=schema, ids=ids)


def _texts(documents: Sequence[Document], name: str, progress: Progress) -> Iterator[bytes]:
    """The text of each document, as UTF-8."""
    n_latin = 0
    progress.start("reading", len(documents), "documents")
    for n_read, document in enumerate(documents, 1):
        text = content_of(source_of(document.path)).read()
        if b"\0" in text:
            raise DataError(document.path, None, "no text", "check that it is the right file")
        try:
            text.decode()
        except UnicodeDecodeError:
            n_latin += 1
            text = text.decode("latin-1").encode()
        progress.update(n_read)
        yield text
    progress.finish()
    if n_latin:
        share = f"{n_latin:,} of {len(documents):,} documents"
        progress.note(f"{name}: {share} are not UTF-8, and read as Latin-1")

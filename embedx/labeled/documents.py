"""A text file per document in a folder per label, as 20 Newsgroups, IMDB and scikit-learn's
`load_files` have them: `reviews/good/1.txt`, `reviews/bad/2.txt`. A model that was trained on
such folders takes each text file as a row, with or without a folder for its label.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from embedx.errors import DataError, counted
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
    """The documents in the folders of a folder; None if it holds something else, as the first file
    of each tells. Raises `DataError` for documents that lie elsewhere.
    """
    label_folders, files_beside = _listed(folder)
    contents = {label: _listed(os.path.join(folder, label)) for label in label_folders}
    first_files = (
        _first_file(os.path.join(folder, label), *content) for label, content in contents.items()
    )
    samples = [file for file in first_files if file is not None]
    beside = [os.path.join(folder, name) for name in files_beside[:1]]
    if not samples or not all(map(_is_document, [*samples, *beside])):
        return None

    _check_no_deeper_folders(folder, {label: folders for label, (folders, _) in contents.items()})
    _check_no_files_beside(folder, files_beside)
    return [
        Document(label, os.path.join(label, name), os.path.join(folder, label, name))
        for label, (_, names) in contents.items()
        for name in names
    ]


def _first_file(folder: str, folders_within: list[str], names: list[str]) -> str | None:
    """The path of the first of a folder's files or, without any, of the first folder's in it; None
    if there is none either.
    """
    if not names and folders_within:
        folder = os.path.join(folder, folders_within[0])
        _, names = _listed(folder)
    return os.path.join(folder, names[0]) if names else None


def _check_no_deeper_folders(folder: str, folders_of_label: Mapping[str, list[str]]) -> None:
    """Raise `DataError` if a folder of a label has folders."""
    for label, folders_within in folders_of_label.items():
        if folders_within:
            problem = "folders within its folders, so that it is unclear which are the labels"
            example = os.path.join(folder, label)
            remedy = f"name the folder whose folders are the labels, such as {example}"
            raise DataError(folder, None, problem, remedy)


def _check_no_files_beside(folder: str, files: Sequence[str]) -> None:
    """Raise `DataError` if there are files beside the folders of labels."""
    if files:
        shown = ", ".join(files[:MAX_SHOWN])
        if len(files) > MAX_SHOWN:
            shown += ", ..."
        problem = f"documents in a folder for each label, and files beside these: {shown}"
        remedy = "give a folder that has the folders of labels alone"
        raise DataError(folder, None, problem, remedy)


def _listed(folder: str) -> tuple[list[str], list[str]]:
    """The names of the folders and of the files in a folder, sorted, without hidden ones."""
    folders: list[str] = []
    files: list[str] = []
    with os.scandir(folder) as entries:
        for entry in entries:
            if not entry.name.startswith("."):
                (folders if entry.is_dir() else files).append(entry.name)
    return sorted(folders), sorted(files)


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
    labelled_by = f", labelled by {counted(len(names), 'folder')}" if names else ""
    progress.note(f"{name}: {counted(len(documents), 'document')}{labelled_by}")
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

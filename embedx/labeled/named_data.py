"""What the names of labelled data mean: files, and the rows of them that are to be read.

NAME                            a recipe, with the file of its labels if it has one
DATA@SPLIT, DATA@SPLIT:COLUMN   older data sets of the XC repository: the rows of DATA whose
                                numbers, from 1, are in a column of the file SPLIT
"""

import os
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from embedx.errors import DataError
from embedx.labeled.digits import GENERATED
from embedx.labeled.files import Lines, source_of, sources_of
from embedx.runtime.progress import SILENT, Progress
from embedx.text.recipes import Recipe
from embedx.text.sources import COMPRESSED, recipe_meant

SPLIT = re.compile(r"(?P<data>.+)@(?P<split>[^@]+?)(:(?P<column>\d{1,9}))?")
URL_HOST = re.compile(r"\w+://[^/]*")
# Memory of the number of a row: a whole number of Python, and its place in a list.
BYTES_PER_ROW_NUMBER = 28 + 8


def named(source: str | Sequence[str]) -> list[str]:
    """The names of one source or of several."""
    return [source] if isinstance(source, str) else list(source)


def check_there(source: str | Sequence[str]) -> None:
    """Raise `EmbedxError` if there are no data of that name, before anything else is read."""
    files_of(source)


def files_of(source: str | Sequence[str]) -> list[str]:
    """The files and URLs that have the rows. Raises `EmbedxError` if there are none."""
    names = named(source)
    if names == [GENERATED]:
        return names
    data_names = [_split_named(name)[0] for name in names]
    return [file.address for file in sources_of(data_names)]


def rows_to_test_on(source: str | Sequence[str], progress: Progress = SILENT) -> str | None:
    """The name of the rows to test on where the training rows are those of a recipe that has such;
    None if it has none, or if they are not on this machine, which is logged. Raises `DataError` if
    the training rows are not.
    """
    recipe = _recipe_of(named(source))
    if recipe is None or not recipe.test:
        return None
    recipe.find_files()
    try:
        check_there(recipe.test)
        _split_of_recipe(recipe.test, is_test=True)
    except DataError as error:
        progress.warn(f"nothing is tested: {error}")
        return None
    progress.note(f"test data: {recipe.test}")
    return recipe.test


def label_names_of_recipe(source: str | Sequence[str]) -> str | None:
    """The file with the names of the labels of a recipe's rows; None if there is none. Raises
    `DataError` if it or the rows should be on this machine and are not.
    """
    recipe = _recipe_of(named(source))
    if recipe is None or not recipe.label_names:
        return None
    recipe.find_files()
    return recipe.label_names_here()


def labels_of_recipe(names: list[str]) -> str | None:
    """The file with the labels of a recipe's rows; None if they have labels of their own."""
    recipe = _recipe_of(names)
    return None if recipe is None else recipe.labels_here()


def _recipe_of(names: list[str]) -> Recipe | None:
    """The recipe that names all data; None if files do, or several names."""
    return recipe_meant(names[0]) if len(names) == 1 else None


class Split(NamedTuple):
    """A column, from 1, of a file of the numbers of rows."""

    file: str
    column: int


def split_of(names: list[str], is_test: bool, progress: Progress) -> tuple[list[str], Split | None]:
    """The names of the data, and the split that the name of one file, or its recipe, asks for."""
    pairs = [_split_named(name) for name in names]
    data_names = [name for name, _ in pairs]
    if len(names) > 1:
        for name in names:
            if name == GENERATED or name not in data_names:
                problem = "read by itself, not with other files"
                raise DataError(name, None, problem, "leave out the others")
        return names, None

    name, split = pairs[0]
    if split is None:
        split = _split_of_recipe(name, is_test)
        if split is not None:
            progress.note(f"{name}: the rows in {split.file}")
    return [name], split


def _split_of_recipe(name: str, is_test: bool) -> Split | None:
    """The numbers of a recipe's training rows or test rows; None if it has no such files.

    Raises `DataError` if there should be a file beside the data and is not.
    """
    recipe = recipe_meant(name)
    if recipe is None or not recipe.splits:
        return None
    data_file = os.path.normpath(recipe.find_files()[0])
    folder = os.path.dirname(data_file)
    wanted = recipe.splits[is_test]
    names = {wanted.lower() + suffix for suffix in ("", *COMPRESSED)}
    for file in sorted(os.listdir(folder or ".")):
        if file.lower() in names:
            return Split(os.path.join(folder, file), 1)
    kind = "test" if is_test else "training"
    source = f"get it {recipe.obtain}, or " if recipe.obtain else ""
    raise DataError(
        name,
        None,
        f"no file {os.path.join(folder, wanted)}, which has the numbers of the {kind} rows in"
        f" {data_file}",
        f"{source}name another: {name}@FILE",
    )


def _split_named(source: str) -> tuple[str, Split | None]:
    """The data file and the split as `source` names them."""
    match = SPLIT.fullmatch(source)
    if not match or os.path.exists(source):
        return source, None
    # As in https://user@host/file.
    has_user_name = URL_HOST.fullmatch(match["data"]) is not None
    if has_user_name:
        return source, None
    split_with_colon = source[match.start("split") :]
    if os.path.exists(split_with_colon):
        return match["data"], Split(split_with_colon, 1)
    return match["data"], Split(match["split"], int(match["column"] or 1))


def split_rows(split: Split, n_rows: int) -> np.ndarray:
    """The rows of the data, from 0, that a column of a split file names from 1."""
    column = split.column
    lines = Lines(source_of(split.file), SILENT)
    rows = []
    for chunk in lines:
        lines.budget.take(BYTES_PER_ROW_NUMBER * chunk.count(b"\n"))
        for number, line in enumerate(chunk.split(b"\n")[:-1], lines.chunk_line):
            # b"" where the line has no such column, which counts from 1
            word = b"".join(line.split()[column - 1 : column]) if column else b""
            row = int(word) if word.isdigit() and len(word) < 20 else 0
            if not 1 <= row <= n_rows:
                text = word.decode("utf-8", "replace")
                raise DataError(
                    lines.name,
                    number,
                    f'column {column} is "{text}", no row of the data, which has rows 1 to'
                    f" {n_rows}",
                    "check that it is their split",
                )
            rows.append(row - 1)
    return np.array(rows, np.int64)

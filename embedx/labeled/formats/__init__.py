"""The registry of formats of labelled data, one line each, and how the format of a file is
recognised. `contract` says what a format is; docs/extending.md has an example of a new one.
"""

from collections.abc import Sequence

from embedx import registry
from embedx.errors import DataError, Setting
from embedx.labeled.data import DataSchema
from embedx.labeled.files import LabelledFile
from embedx.labeled.formats.arrays import check_not_called_idx
from embedx.labeled.formats.contract import Format
from embedx.labeled.options import ReadOptions
from embedx.text.labelled_starts import begins_labelled

# Each as file.NAME of this folder, in the order of help texts and of recognition: a file is of the
# first format that recognises it, the binary ones before those of text. Put a format with columns
# before DELIMITED, which takes any text where columns are named, and other text after it.
REGISTRY = (
    "json_array.JSON_ARRAY",
    "json_lines.JSON_LINES",
    "delimited.DELIMITED",
    "fasttext.FASTTEXT",
    "xc.XC",
    "libsvm.LIBSVM",
    "parquet.PARQUET",
    "arrays.NPY",
    "arrays.NPZ",
    "arrays.IDX",
)

FORMATS: dict[str, Format] = registry.load(__name__, REGISTRY)
BINARY_FORMATS = tuple(format for format in FORMATS.values() if format.is_binary)
TEXT_FORMATS = tuple(format for format in FORMATS.values() if not format.is_binary)


def format_of(file: LabelledFile, options: ReadOptions) -> Format:
    """The format of a file. Raises `DataError` if it has none that is known."""
    for format in BINARY_FORMATS:
        if format.recognises(file, options):
            return format
    check_not_called_idx(file)
    for format in TEXT_FORMATS:
        if format.recognises(file, options):
            return format
    if not file.lines.first_row:
        raise DataError(file.name, None, "has only comments", "check that it is the right file")
    raise DataError(
        file.name,
        file.lines.number_of_first_row,
        "no known format",
        (
            f"{_enumerated(_advice(), ', or ')}; tables have names such as"
            f" {_enumerated(_example_names())}, or ",
            Setting("text_column"),
        ),
    )


def is_data(file: LabelledFile) -> bool:
    """Whether a file holds rows with labels, a table or an array, and is no plain text."""
    options = ReadOptions()
    if any(format.recognises(file, options) for format in BINARY_FORMATS):
        return True
    return begins_labelled(file.lines.head) or any(
        format.recognises(file, options) for format in TEXT_FORMATS if not format.passes_for_text
    )


def format_of_arriving(file: LabelledFile, schema: DataSchema, options: ReadOptions) -> Format:
    """The format of lines that arrive, which has the features of the training data or columns."""
    kind = schema.kind_of_features
    for format in TEXT_FORMATS:
        if format.features in (kind, "columns") and format.recognises(file, options):
            return format
    if schema.columns is not None:
        return format_of(file, options)
    return next(
        format
        for format in TEXT_FORMATS
        if format.features == kind and format.is_fallback_for_lines
    )


def array_format_of(file: LabelledFile) -> Format | None:
    """The format of a file that holds an array; None if it holds something else."""
    options = ReadOptions()
    for format in BINARY_FORMATS:
        if format.read_array is not None and format.recognises(file, options):
            return format
    return None


def names() -> str:
    """All formats, for a help text."""
    return _enumerated(list(FORMATS))


def names_of_tables() -> str:
    """The formats with columns, for a message."""
    tables = [format.name for format in FORMATS.values() if format.features == "columns"]
    return _enumerated(tables, " and ")


def _advice() -> list[str]:
    return [format.advice for format in FORMATS.values() if format.advice]


def _example_names() -> list[str]:
    return [format.example_name for format in FORMATS.values() if format.example_name]


def _enumerated(items: Sequence[str], last_separator: str = " or ") -> str:
    """The items as a sentence lists them."""
    *others, last = items
    if not others:
        return last
    return f"{', '.join(others)}{last_separator}{last}"

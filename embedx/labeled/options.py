"""How labelled data are read, whatever their format."""

from dataclasses import dataclass, field

from embedx.labeled.data import DataSchema
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import TextFeatureSettings


@dataclass(frozen=True)
class ReadOptions:
    """What readers of files are asked for.

    trained            the schema of the training data, if the rows are not those
    text               which words and n-grams of text are features
    table              which columns of a table are used
    keeps_empty_lines  whether empty lines at the end of a file without a header are rows
    needs_labels       whether a table must have a column of labels
    """

    trained: DataSchema | None = None
    text: TextFeatureSettings = field(default_factory=TextFeatureSettings)
    table: TableSettings = field(default_factory=TableSettings)
    keeps_empty_lines: bool = False
    needs_labels: bool = False

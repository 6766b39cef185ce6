"""How labelled data are read, whatever their format."""

from dataclasses import dataclass, field

from embedx.labeled.data import DataSchema
from embedx.labeled.tables.settings import TableSettings
from embedx.labeled.words import TextFeatureSettings


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """What readers of files are asked for.

    schema          that of the training data, if the rows are not those
    text            which words and n-grams of text are features, where `schema` does not decide
    table           which columns of a table are used, where `schema` does not decide
    labels_file     the file of the labels, if the rows have none of their own
    for_prediction  whether labels are to be predicted: a table needs no column of labels, and
                    empty lines at the end of a file without a header are rows, as those between
                    others always are
    threads         how many threads parse the lines of a file; None: one per usable core
    """

    schema: DataSchema | None = None
    text: TextFeatureSettings = field(default_factory=TextFeatureSettings)
    table: TableSettings = field(default_factory=TableSettings)
    labels_file: str | None = None
    for_prediction: bool = False
    threads: int | None = None

    @property
    def needs_label_column(self) -> bool:
        """Whether a table must have a column of labels."""
        return self.labels_file is None and not self.for_prediction

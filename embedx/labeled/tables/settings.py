"""Settings of tables: which columns are used, and whether the first row names them."""

from embedx.settings import Settings, param


class TableSettings(Settings):
    """Which columns of a table are used. What is None is chosen by the names of the columns and
    their values.
    """

    panel = "Data"

    text_column: str | None = param(
        None,
        "tables: columns with the text; joined by blanks; by default title and text, or the only"
        " one left",
        metavar="name,...",
    )
    label_column: str | None = param(
        None,
        "tables: column with the label or a list of labels, by default label; several are 0/1"
        " columns, one for each label",
        metavar="name,...",
    )
    id_column: str | None = param(
        None,
        "tables: column that `predict` prints first; by default id, if there is one",
        metavar="name",
    )
    label_separator: str | None = param(
        None,
        "separator of several labels in a cell of a table, or a line of --train-labels; by default"
        " each is one label, or a list",
        has_option=False,
    )
    feature_columns: str | None = param(
        None,
        "tables: columns with numeric features, separated by commas; by default none beside text,"
        " all without text",
        has_option=False,
    )

    header: str | None = param(
        None,
        "tables: whether the first row of CSV and TSV is a heading; by default it is, unless"
        " columns are given by number or it has numbers alone",
        choices=("yes", "no"),
    )
    on_bad_record: str = param(
        "error",
        "CSV, TSV and JSON Lines of training and of a test: what happens to records that cannot be"
        " read, or have more or fewer columns than the first; `error` stops, `skip` leaves them out"
        " and counts them",
        choices=("error", "skip"),
        has_option=False,
    )

    @property
    def columns_by_setting(self) -> dict[str, list[str]]:
        """The columns that the settings name."""
        values = {
            "text_column": self.text_column,
            "label_column": self.label_column,
            "id_column": self.id_column,
            "feature_columns": self.feature_columns,
        }
        return {
            name: [value] if name == "id_column" else [part.strip() for part in value.split(",")]
            for name, value in values.items()
            if value is not None
        }

    @property
    def names(self) -> list[str]:
        """The columns that the settings name."""
        return [name for names in self.columns_by_setting.values() for name in names]

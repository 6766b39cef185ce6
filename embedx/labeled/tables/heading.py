"""Whether the first row of a CSV or TSV file names the columns."""

import collections

from embedx.errors import DataError, Setting
from embedx.labeled.cells import number_of
from embedx.labeled.data import Columns
from embedx.labeled.tables.names import is_position
from embedx.labeled.tables.settings import TableSettings
from embedx.runtime.progress import Progress
from embedx.text.tables import listed_columns


class Heading:
    """Whether the first row of a table is its heading.

    The first of these rules decides that applies: the setting `header`; columns that are named, by
    name or by number, which is a position from 1 in a table without a heading; whether the training
    data have a heading. By default the first row is a heading unless all its cells are numbers.

    is_there  whether it is; None before the first row is read
    names     names that the heading should have, by which the delimiter of the file is known
    """

    is_there: bool | None = None

    def __init__(
        self,
        file: str,
        settings: TableSettings,
        training_columns: Columns | None,
        progress: Progress,
    ) -> None:
        self._file = file
        self._settings = settings
        self._training_columns = training_columns
        self._progress = progress
        known = training_columns.names if training_columns else []
        self.names = [name for name in (*settings.names, *known) if not is_position(name)]

    def names_of(self, first: list[str], line: int) -> list[str]:
        """The names of the columns: the first row, or numbers from 1.

        Raises `DataError` for a heading with two equal names.
        """
        self.is_there = self._decide(first)
        if not self.is_there:
            return [str(number) for number in range(1, len(first) + 1)]
        names = [cell.strip() for cell in first]
        counts = collections.Counter(filter(None, names))
        for name, count in counts.most_common(1):
            if count > 1:
                raise DataError(
                    self._file,
                    line,
                    f'two columns are called "{name}"',
                    ("rename one of them, or say ", Setting("header", "no")),
                )
        return names

    def _decide(self, first: list[str]) -> bool:
        if self._settings.header is not None:
            return self._settings.header == "yes"
        if (
            not self._settings.names
            and self._training_columns
            and self._training_columns.has_heading
        ):
            return True
        reason = self._reason_for_no_heading(first)
        if reason is None:
            return True
        self._progress.note(
            f'{self._file}: read without a heading, because {reason}: "{listed_columns(first)}" is'
            " a row of data (otherwise ",
            Setting("header", "yes"),
            ")",
        )
        return False

    def _reason_for_no_heading(self, first: list[str]) -> str | None:
        """Why the first row is data; None if it is a heading."""
        if self._settings.names:
            if all(map(is_position, self._settings.names)):
                return "columns are given by number"
            return None
        if self._training_columns and self._training_columns.names:
            if all(map(is_position, self._training_columns.names)):
                return "the training data have none"
            return None
        if all(number_of(cell) is not None for cell in first):
            return "the first row has numbers alone"
        return None

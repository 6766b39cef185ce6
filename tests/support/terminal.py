"""A terminal as far as progress needs it: what stands on its lines."""

import io


class Screen(io.StringIO):
    """Standard error on a terminal of `columns` columns that keeps its lines when it is resized, as
    xterm does.
    """

    encoding = "utf-8"

    def __init__(self, columns=80):
        super().__init__()
        self.columns = columns
        self.rows = [""]
        self.place = 0

    def isatty(self):
        return True

    def write(self, text):
        for letter in text:
            if letter == "\r":
                self.place = 0
            elif letter == "\n":
                self._next_line()
            else:
                assert letter.isprintable(), repr(letter)
                if self.place == self.columns:
                    self._next_line()
                row = self.rows[-1].ljust(self.place)
                self.rows[-1] = row[: self.place] + letter + row[self.place + 1 :]
                self.place += 1
        return len(text)

    def resize(self, columns):
        self.columns = columns
        self.rows = [row[:columns] for row in self.rows]
        self.place = min(self.place, columns)

    @property
    def lines(self):
        """What can be seen, without the blanks at the ends of lines."""
        return [row.rstrip() for row in self.rows]

    def _next_line(self):
        self.rows.append("")
        self.place = 0

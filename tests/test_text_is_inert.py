"""Words, labels and names of strangers, where people see them: a terminal, spreadsheets."""

import contextlib
import csv
import io

import numpy as np
import pytest

from embedx.cli import streams, tables
from embedx.errors import visible
from embedx.evaluation.f1 import LabelCounts, per_label_columns, per_label_rows
from embedx.pages.plain import csv_text, inert


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b]0;title\x07word", "\\x1b]0;title\\x07word"),
        ("\x1b[2Jcleared", "\\x1b[2Jcleared"),
        ("\x9b31mred", "\\x9b31mred"),
        ("abc\u202edcba", "abc\\u202edcba"),
        ("\u2066isolated\u2069", "\\u2066isolated\\u2069"),
        ("two\u2028lines", "two\\u2028lines"),
        ("over\rwritten", "over\\rwritten"),
        ("\udc80", "\\udc80"),
        ("naïve 東京 \u0645\u06cc\u200c\u062e\u0648\u0627\u0647\u0645 👩\u200d🔬", None),
    ],
)
def test_control_characters_are_escaped_on_a_terminal(text, shown):
    assert visible(text) == (text if shown is None else shown)


class Screen(io.BytesIO):
    """The bytes that arrive at a terminal."""

    def isatty(self):
        return True


def on_screen(show):
    """What arrives at a terminal that is standard output."""
    screen = Screen()
    out = streams._for_people(io.TextIOWrapper(screen, "utf-8"))
    with contextlib.redirect_stdout(out):
        show()
    out.flush()
    return screen.getvalue().decode()


def test_results_on_a_terminal_are_escaped():
    clipboard = "\x1b]52;c;cm0gLXJm\x07 text\ttab"
    assert on_screen(lambda: print(clipboard)) == "\\x1b]52;c;cm0gLXJm\\x07 text\ttab\n"
    rows = [("a\nforged row", "1"), ("\x1b[2J", "2")]
    table = on_screen(lambda: tables.show(("word", "n"), rows))
    assert "a\\nforged row" in table
    assert "\x1b" not in table


def test_a_bar_may_draw_over_its_line():
    assert on_screen(lambda: print("\rdone 50% \x1b[2J", end="")) == "\rdone 50% \\x1b[2J"


def test_a_pipe_gets_the_bytes():
    out = io.TextIOWrapper(io.BytesIO(), "utf-8")
    assert streams._for_people(out) is out


FORMULAS = [
    "=1+1",
    "-8 ± =1+1",
    "+cmd",
    "-2+3",
    "@SUM(A1)",
    "\t=1",
    "\n=1",
    "=HYPERLINK('http://x')",
]


@pytest.mark.parametrize("text", FORMULAS)
def test_a_formula_is_text_in_a_spreadsheet(text):
    assert inert(text) == f"'{text}"


@pytest.mark.parametrize(
    "cell", ["-0.5", "+3", "-8.0 ± 0.1", "-inf", "plain", "a=b", "", "'quoted", -1, None]
)
def test_numbers_and_other_text_in_a_spreadsheet_stay_as_they_are(cell):
    assert inert(cell) == cell


def test_labels_of_strangers_are_text_in_the_table_of_labels():
    counts = LabelCounts(*(np.full(len(FORMULAS), 2) for _ in LabelCounts._fields))
    rows = per_label_rows(per_label_columns(FORMULAS, np.full(len(FORMULAS), 5), 0.5, counts))
    cells = [row[0] for row in csv.reader(io.StringIO(csv_text(rows), newline=""))][1:]
    assert cells == [f"'{text}" for text in FORMULAS]

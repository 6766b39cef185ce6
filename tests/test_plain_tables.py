"""Tables of plain text, and notes: no name breaks a line."""

import io

import pytest

from embedx.cli import tables
from embedx.pages.plain import aligned, as_cell, tab_separated
from embedx.runtime.progress import Reporter


@pytest.mark.parametrize(
    ("name", "cell"),
    [
        ("a\tb", r"a\tb"),
        ("a\nb\r", r"a\nb\r"),
        ("C:\\new\nx", r"C:\\new\nx"),
        (r"C:\new", r"C:\new"),
        ("credit card", "credit card"),
    ],
)
def test_a_name_that_would_break_a_table_is_escaped(name, cell):
    assert as_cell(name) == cell
    assert tab_separated([[name, "1"], ["b", name]]) == [f"{cell}\t1", f"b\t{cell}"]
    assert aligned([["x"], [name]])[1] == cell


def test_results_have_a_line_for_each_row(capsys):
    tables.show(("name", "n"), [("a\nb", "1"), ("forged\t2", "2")])
    assert capsys.readouterr().out == "a\\nb\t1\nforged\\t2\t2\n"


def test_names_of_files_do_not_forge_notes():
    out = io.StringIO()
    Reporter(out).note("a\nembedx: all is well\x1b[2J: read as LIBSVM")
    assert out.getvalue() == "a\\nembedx: all is well\\x1b[2J: read as LIBSVM\n"

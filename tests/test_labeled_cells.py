"""The labels in a cell of a table: one, or a list as other tools write them."""

import pytest

from embedx.errors import DataError
from embedx.labeled.cells import labels_of
from embedx.labeled.read import read
from embedx.labeled.tables.settings import TableSettings
from tests.support.labeled_tables import table
from tests.support.notes import Notes, lines_with


def test_labels_in_a_cell_are_split_only_on_request_or_where_they_are_a_list(write):
    def names(text, **options):
        file = write(f"text,label\n{text}", "a.csv")
        return read(file, table=TableSettings(**options)).schema.names

    assert names("x,new york; us\nx,us\nx,\n") == ["new york; us", "us"]
    assert names("x,new york; us\nx,us\n", label_separator=";") == ["new york", "us"]
    assert names("x,\"['new york', 'us']\"\nx,us\n") == ["new york", "us"]
    data = read(
        write(
            '{"text": "a", "label": 1.0}\n{"text": NaN, "label": NaN}\n{"label": [true,'
            ' "b"]}\n{"text": null}\n',
            "a.jsonl",
        )
    )
    assert (data.schema.names, data.labels.n_of_row.tolist()) == (["1", "true", "b"], [1, 0, 2, 0])
    notes = Notes()
    read(write("text,label\nx,a b|c\nx,c\nx,a b\nx,c|a b\n", "a.csv"), progress=notes)
    assert lines_with(notes.notes[-1], '"a b|c"', "--set 'label-separator=|'")


@pytest.mark.parametrize(
    ("cell", "labels"),
    [
        ("['joy' 'anger']", ["joy", "anger"]),
        ("['joy'\n 'credit card']", ["joy", "credit card"]),
        ("['joy', 'anger']", ["joy", "anger"]),
        ('["joy", "caf\\u00e9"]', ["joy", "café"]),
        ("{'joy', 'anger'}", ["joy", "anger"]),
        ("('joy',)", ["joy"]),
        ('c("joy", "anger")', ["joy", "anger"]),
        ('{joy,"credit card"}', ["joy", "credit card"]),
        ("array(['joy', 'anger'], dtype=object)", ["joy", "anger"]),
        ("[np.str_('joy'), np.str_('anger')]", ["joy", "anger"]),
        ("[1 2]", ["1", "2"]),
        ("[1.0, 2.0]", ["1", "2"]),
        ("['042', nan]", ["042"]),
        ("[]", []),
        ("set()", []),
        ("(none)", ["(none)"]),
        ("[deleted]", ["[deleted]"]),
        ("[n/a]", ["[n/a]"]),
        ("[None]", []),
        ("[7]", ["7"]),
        ("poly([2]rotaxane)", ["poly([2]rotaxane)"]),
        ("f(x)", ["f(x)"]),
        ("it's", ["it's"]),
        ("007", ["007"]),
    ],
)
def test_lists_in_cells_are_read_as_other_tools_write_them(write, cell, labels):
    assert labels_of(cell, None) == labels
    data = read(write(table([{"text": "a", "label": cell}]), "a.csv"))
    assert [name for name in data.schema.names if name] == labels


@pytest.mark.parametrize(
    "cell",
    [
        "['a' 'b' ... 'z']",
        "['a', 'b'",
        "['a' b]",
        "[joy anger]",
        "[joy, credit card]",
        "[['a'], ['b']]",
        "{'a': 1}",
        "c(x = 'a')",
        "['a',, 'b']",
        "[a] or [b]",
        "Index(['a', 'b'], dtype='object')",
        "tensor([1, 2])",
        "Counter({'a': 1})",
    ],
)
def test_malformed_lists_in_cells_are_an_error_with_the_line(write, cell):
    with pytest.raises(DataError) as caught:
        read(write(table([{"text": "a", "label": "x"}, {"text": "b", "label": cell}]), "a.csv"))
    assert caught.value.line == 3

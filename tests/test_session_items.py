"""What separates the items of sessions: one rule for training, scoring and recommending."""

import json

import pytest

import embedx
from embedx.evaluation.sessions import read_sessions
from embedx.runtime.progress import Silent
from embedx.text.cells import WHITE_SPACE
from embedx.text.session_items import TAB, items_of, separation_of, sessions_of_file
from embedx.text.sessions import sessions
from tests.support.commands import invoke, run_command
from tests.support.notes import Notes
from tests.support.refusals import refused_data

ITEMS = ["Desk Lamp Basic", "Chair", "Paper A4", '24" Monitor', "Sofa"]
ORDERS = [[ITEMS[(k + d) % 5] for d in range(1 + k % 4)] for k in range(40)]
WORDS = {item.replace(" ", "_") for item in ITEMS}


def quoted(item):
    doubled = item.replace('"', '""')
    return f'"{doubled}"'


TEXTS = {
    "tabs": "".join("\t".join(order) + "\n" for order in ORDERS),
    "Windows": "".join("\t".join(order) + "\r\n" for order in ORDERS),
    "quotes": "".join(" ".join(map(quoted, order)) + "\n" for order in ORDERS),
    "blanks": "".join(" ".join(x.replace(" ", "_") for x in order) + "\n" for order in ORDERS),
    "byte order mark": "\ufeff" + "".join("\t".join(order) + "\n" for order in ORDERS),
}


def train(text_file, **settings):
    return embedx.train(str(text_file), format="sessions", dim=4, epochs=1, threads=1, **settings)


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_training_scoring_and_recommending_see_the_same_items(tmp_path, text):
    file = tmp_path / "orders.txt"
    file.write_bytes(text.encode())
    model = train(file)
    assert set(model.words) == WORDS
    assert sum(model.counts) == sum(map(len, ORDERS))

    before, last = read_sessions(model.words, str(file), Silent())
    assert len(last) == sum(len(order) > 1 for order in ORDERS)
    assert [model.words[row] for row in last] == [
        order[-1].replace(" ", "_") for order in ORDERS if len(order) > 1
    ]
    assert before.getnnz() == sum(len(order) - 1 for order in ORDERS)

    model.save(tmp_path / "items")
    completed = run_command(
        tmp_path, "recommend", "items", "--histories", "orders.txt", "--json", "--top-k", 1
    )
    answers = [json.loads(line) for line in completed.stdout.splitlines()]
    as_words = [[item.replace(" ", "_") for item in answer["history"]] for answer in answers]
    assert as_words == [[item.replace(" ", "_") for item in order] for order in ORDERS]


def test_lists_in_json_have_an_item_in_each_element(tmp_path):
    file = tmp_path / "orders.jsonl"
    file.write_text("".join(json.dumps({"items": order}) + "\n" for order in ORDERS))
    assert set(train(file, json_field="items").words) == WORDS


@pytest.mark.parametrize("split", ["\t", " "])
def test_a_column_of_a_table_has_sessions(tmp_path, split):
    file = tmp_path / "orders.csv"
    lines = [f"{k},{quoted(split.join(['bread', 'jam']))}\n" for k in range(20)]
    file.write_text("order,items\n" + "".join(lines))
    assert set(train(file, column="items").words) == {"bread", "jam"}


@pytest.mark.parametrize(
    ("lines", "separator", "note"),
    [
        (["bread butter", "jam"], WHITE_SPACE, ""),
        (["Desk Lamp\tChair", "Desk Lamp"], TAB, "is one item: `Desk Lamp`"),
        (["Desk Lamp\tChair", "Chair\tSofa"], TAB, "are joined by _: `Desk_Lamp`"),
        (["bread\tbutter"], TAB, ""),
        (["\tbread butter\t"] * 9, WHITE_SPACE, ""),
        (["bread butter"] * 20 + ["bread\tjam tea"], WHITE_SPACE, "tabs are rare"),
    ],
)
def test_tabs_separate_items_unless_they_are_rare(lines, separator, note):
    separation = separation_of([line.encode() for line in lines], "orders.txt")
    assert separation.separator == separator
    assert note in separation.note
    assert bool(note) == bool(separation.note)
    assert not separation.warning


def test_items_are_divided_and_unquoted():
    assert items_of(b" Desk  Lamp \t\tChair\r\n", TAB) == ["Desk Lamp", "Chair"]
    assert items_of(b'"Desk Lamp"\t"the ""old"" chair"', TAB) == ["Desk Lamp", 'the "old" chair']
    assert items_of(b'"Desk Lamp" 24" \tChair', WHITE_SPACE) == ["Desk Lamp", '24"', "Chair"]
    assert items_of(b"  \t \n", WHITE_SPACE) == []


@pytest.mark.parametrize(("mark", "name"), [(",", "commas"), (";", "semicolons"), ("|", "bars")])
def test_other_marks_separate_nothing_and_it_is_said(tmp_path, mark, name):
    file = tmp_path / "orders.txt"
    file.write_text("".join(mark.join(order) + "\n" for order in ORDERS))
    progress = Notes()
    list(sessions_of_file(str(file), progress))
    (warning,) = progress.warnings
    assert f"by blanks, not by {name}" in warning
    assert f"tr '{mark}' '\\t'" in warning

    file.write_text("".join(mark.join(["bread", "jam", "tea"]) + "\n" for _ in range(20)))
    with refused_data(file, quoting=f"{name} separate none"):
        train(file)


def test_a_table_of_orders_names_the_command_that_makes_sessions_of_it(tmp_path):
    file = tmp_path / "my orders.csv"
    file.write_text("order,item\n1,bread\n1,jam\n")
    command = f"`embedx corpus sessions '{file}'`"
    with refused_data(file, quoting=command):
        train(file)
    with refused_data(file, "column", quoting=command):
        invoke("train", str(file))
    with refused_data(file, quoting=command):
        list(sessions_of_file(str(file), Silent()))


def test_sessions_of_a_table_are_read_again_as_they_were(tmp_path):
    table = tmp_path / "events.csv"
    rows = [
        ("a", '"Best"'),
        ("a", '24" Monitor'),
        ("a", "Lamp, red"),
        ("b", "Sofa"),
        ("b", '"Best"'),
    ]
    table.write_text("user,item\n" + "".join(f"{u},{quoted(item)}\n" for u, item in rows))
    lines = list(sessions(str(table), "user,item", None, Silent()))
    (tmp_path / "orders.txt").write_text("".join(f"{line}\n" for line in lines))
    read = list(sessions_of_file(str(tmp_path / "orders.txt"), Silent()))
    assert read == [['"Best"', '24"_Monitor', "Lamp,_red"], ["Sofa", '"Best"']]


def test_the_lines_of_standard_input_are_each_divided(tmp_path):
    (tmp_path / "orders.txt").write_text(TEXTS["tabs"])
    train(tmp_path / "orders.txt").save(tmp_path / "items")
    lines = 'Desk Lamp Basic\tSofa\nDesk Lamp Basic\n"Paper A4" Sofa\n'
    completed = run_command(tmp_path, "recommend", "items", "-", "--json", input=lines)
    histories = [json.loads(line)["history"] for line in completed.stdout.splitlines()]
    assert histories == [["Desk Lamp Basic", "Sofa"], ["Desk Lamp Basic"], ["Paper A4", "Sofa"]]

    completed = run_command(tmp_path, "vectors", "items", "-", input="Desk Lamp Basic\tSofa\n")
    vector = embedx.load(tmp_path / "items")
    mean = (vector["Desk_Lamp_Basic"] + vector["Sofa"]) / 2
    name, *numbers = completed.stdout.split()
    assert name == "Desk_Lamp_Basic_Sofa"
    assert [float(number) for number in numbers] == pytest.approx(mean.tolist(), rel=1e-4)

    question = "Desk Lamp Basic\tSofa\tChair\n"
    completed = run_command(tmp_path, "analogy", "items", "-", "--top-k", 1, input=question)
    assert completed.stdout.split("\t")[0] in WORDS

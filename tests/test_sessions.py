"""`embedx corpus sessions`: a table of events as lines of items, by user and time."""

import datetime

import pytest

from embedx.errors import DataError, InapplicableError, SettingError
from embedx.runtime.progress import Silent
from embedx.text.sessions import sessions
from tests.support.notes import Notes
from tests.support.refusals import refused, refused_data

EVENTS = """user,item,time
1,bread,2026-01-02T10:00
2,milk,2026-01-01
1,butter,2026-01-02T10:05
2,eggs,2026-01-03
1,jam,2026-02-01T10:05
1,tea,2026-02-01T10:06
3,tea,2026-02-01T10:06
"""


def test_a_table_of_events_becomes_sessions(tmp_path):
    table = tmp_path / "orders.csv"
    lines = tmp_path / "orders.jsonl"
    progress = Notes()
    table.write_text(EVENTS)
    users = [row.split(",") for row in EVENTS.splitlines()[1:]]
    lines.write_text(
        "".join(f'{{"who": {u}, "what": "{i}", "at": {k}}}\n' for k, (u, i, _) in enumerate(users))
    )
    assert list(sessions(str(table), "user,item,time", None, progress)) == [
        "milk eggs",
        "bread butter jam tea",
    ]
    of_times, of_sessions = progress.notes
    assert of_times.startswith(f"{table}: time ")
    assert "from 2026-01-01 00:00 to 2026-02-01 10:06 (UTC)" in of_times
    assert of_sessions.startswith(f"{table}: left out: 1 of 3 sessions")
    assert list(sessions(str(table), "user,item,time", 86_400, Silent())) == [
        "bread butter",
        "jam tea",
    ]
    array = tmp_path / "orders.json"
    array.write_text(f"[{','.join(lines.read_text().splitlines())}]")
    for objects in (lines, array):
        assert list(sessions(str(objects), "who,what,at", None, Silent())) == [
            "bread butter jam tea",
            "milk eggs",
        ]


START = 1_769_940_000  # 2026-02-01 10:00 UTC


MINUTES = [0, 5, 60]  # of the events of one user: the last is in a session of its own


def events(times, heading="user,item,time\n"):
    items = ["bread", "butter", "jam"]
    return heading + "".join(f'1,{i},"{t}"\n' for i, t in zip(items, times, strict=True))


def dates(form):
    moments = [datetime.datetime.fromtimestamp(START + 60 * m, datetime.UTC) for m in MINUTES]
    return [f"{moment:{form}}" for moment in moments]


@pytest.mark.parametrize(
    ("times", "written_as"),
    [
        ([START + 60 * m for m in MINUTES], "seconds since 1970"),
        ([1000 * (START + 60 * m) for m in MINUTES], "milliseconds since 1970"),
        ([10**6 * (START + 60 * m) for m in MINUTES], "microseconds since 1970"),
        ([10**9 * (START + 60 * m) for m in MINUTES], "nanoseconds since 1970"),
        ([46_054 + (600 + m) / 1440 for m in MINUTES], "days since 1900"),
        ([60 * m for m in MINUTES], "seconds"),
        (dates("%Y%m%d%H%M%S"), "dates (dates without separators)"),
        (dates("%Y-%m-%d %H:%M:%S UTC"), "dates (ISO 8601)"),
        (["2026-02-01T10:00Z", "2026-02-01T12:05+02:00", "2026-02-01T11:00"], "dates (ISO 8601)"),
        (dates("%d.%m.%Y %H:%M"), "dates (%d.%m.%Y %H:%M)"),
        (["2/28/2026 9:58 PM", "2/28/2026 10:00 PM", "3/1/2026 1:00 AM"], "%m/%d/%Y %I:%M %p"),
        (dates("%d/%b/%Y:%H:%M:%S +0000"), "%d/%b/%Y:%H:%M:%S %z"),
        (dates("%a, %d %b %Y %H:%M:%S GMT"), "%a, %d %b %Y %H:%M:%S %z"),
    ],
)
def test_the_unit_of_times_is_recognised_and_said(tmp_path, times, written_as):
    table = tmp_path / "events.csv"
    progress = Notes()
    table.write_text(events(times))
    lines = list(sessions(str(table), "user,item,time", 1800, progress))
    assert lines == ["bread butter"]
    assert written_as in progress.notes[0]
    if not written_as.startswith("%") and written_as != "seconds":
        assert progress.notes[0].endswith(
            f"{written_as}, from 2026-02-01 10:00 to 2026-02-01 11:00 (UTC)"
        )


def test_the_unit_of_times_can_be_given(tmp_path):
    table = tmp_path / "events.csv"
    table.write_text(events([60_000 * m for m in MINUTES]))  # milliseconds since the start
    assert list(sessions(str(table), "user,item,time", 1800, Silent(), "ms")) == ["bread butter"]
    with pytest.raises(SettingError) as error:
        list(sessions(str(table), "user,item,time", 1800, Silent(), "minutes"))
    assert error.value.setting == "time_unit"


@pytest.mark.parametrize(
    ("times", "line"),
    [
        ([START, 1000 * START, START], None),  # seconds and milliseconds
        (["01/02/2026", "03/04/2026", "05/06/2026"], None),  # of which month?
        ([START, "2026-02-01", START], 3),
        ([START, START, "nan"], 4),
        ([0, 3600, 7200], None),  # no session of two items
    ],
)
def test_times_that_are_ambiguous_or_make_no_session_are_refused(tmp_path, times, line):
    table = tmp_path / "events.csv"
    table.write_text(events(times))
    with pytest.raises(DataError) as error:
        list(sessions(str(table), "user,item,time", 1800, Silent()))
    assert (error.value.file, error.value.line) == (str(table), line)


def test_a_time_in_another_form_is_quoted_with_the_form_of_those_before(tmp_path):
    table = tmp_path / "events.csv"
    table.write_text(events(["01.02.2026 10:00", "2026-02-01T11:00", "01.02.2026 12:00"]))
    with refused_data("events.csv:3", quoting=("2026-02-01T11:00", "dates (%d.%m.%Y %H:%M)")):
        list(sessions(str(table), "user,item,time", 1800, Silent()))


ROWS = [
    ("ann", "Desk Lamp", "2026-01-01", "19.9"),
    ("bob", "Sofa", "2026-01-01", "399"),
    ("ann", "Chair", "2026-01-02", "49"),
    ("bob", "Chair", "2026-01-03", "49"),
]


def table_of(heading, places, separator):
    """A table of the columns of ROWS at these places."""
    lines = [heading] if heading else []
    return "".join(
        separator.join(line) + "\n"
        for line in [*lines, *([row[place] for place in places] for row in ROWS)]
    )


@pytest.mark.parametrize("separator", [",", ";", "\t", "|"])
@pytest.mark.parametrize(
    ("heading", "places", "columns"),
    [
        (["user", "item", "time"], (0, 1, 2), "user, item, time"),
        (["time", "item", "user"], (2, 1, 0), "user, item, time"),
        (
            ["price", "Order Date", "user id", "Product"],
            (3, 2, 0, 1),
            "user id, Product, Order Date",
        ),
        (["InvoiceNo", "StockCode", "price", "InvoiceDate"], (0, 1, 3, 2), "InvoiceNo, StockCode"),
        (["customer_name", "item_price", "items"], (0, 3, 1), "customer_name, items"),
        (["sessionid", "event date", "sku"], (0, 2, 1), "sessionid, sku, event date"),
        (["Price", "When", "Invoice", "Description"], (3, 2, 0, 1), "Invoice, Description, When"),
        (["created_at", "product_name", " client"], (2, 1, 0), "client, product_name, created_at"),
        (None, (0, 1, 2), "1, 2, 3"),
        (None, (2, 0, 1), "2, 3, 1"),
        (None, (0, 2, 1), "1, 3, 2"),
    ],
)
def test_columns_are_guessed_and_said(tmp_path, heading, places, columns, separator):
    table = tmp_path / "orders.csv"
    table.write_text(table_of(heading, places, separator))
    progress = Notes()
    assert sorted(sessions(str(table), None, None, progress)) == ["Desk_Lamp Chair", "Sofa Chair"]
    guess = progress.notes[0]
    assert f"are the columns {columns}" in guess
    assert guess.endswith("choose others by --columns")


@pytest.mark.parametrize(
    "heading",
    [
        "Bestellnr;Artikel;Datum",
        "Kundennummer;Artikelname;Datum",
        "client_id;Produit;date",
        "Pedido;Artículo;fecha",
        "KlantNr;artikel;datum",
    ],
)
def test_columns_are_known_by_names_in_several_languages(tmp_path, heading):
    table = tmp_path / "orders.csv"
    table.write_text(f"{heading}\n1;Chair;2026-01-02\n1;Desk Lamp;2026-01-01\n", "utf-8")
    progress = Notes()
    assert list(sessions(str(table), None, None, progress)) == ["Desk_Lamp Chair"]
    assert f"are the columns {heading.replace(';', ', ')}" in progress.notes[0]


def test_two_columns_without_a_heading_are_user_and_item(tmp_path):
    table = tmp_path / "orders.csv"
    table.write_text("1;Desk Lamp\n1;Chair\n")
    assert list(sessions(str(table), None, None, Silent())) == ["Desk_Lamp Chair"]


def test_a_session_comes_before_the_user_and_other_columns_are_named(tmp_path):
    table = tmp_path / "clicks.csv"
    table.write_text("user_id,session_id,item_id,day\n1,7,a,2026-01-01\n1,7,b,2026-01-01\n")
    progress = Notes()
    assert list(sessions(str(table), None, None, progress)) == ["a b"]
    assert "are the columns session_id, item_id, day (not user_id)" in progress.notes[0]


@pytest.mark.parametrize(
    ("text", "listed"),
    [
        ("kuka,mitä\n1,a\n1,b\n", ("kuka, mitä",)),
        ("user,order_total\n1,3\n", ("user, order_total",)),
        # MovieLens: user, item, rating, time
        ("196\t242\t3\t881250949\n196\t302\t3\t891717742\n", ("1, 2, 3, 4",)),
        ("1,2026-01-01,2026-01-02\n", ("1, 2, 3",)),
        ("1,a,b\n", ("1, 2, 3",)),
    ],
)
def test_columns_that_are_not_clear_are_asked_for(tmp_path, text, listed):
    table = tmp_path / "events.csv"
    table.write_text(text)
    with refused_data(str(table), "columns", quoting=listed):
        list(sessions(str(table), None, None, Silent()))


@pytest.mark.parametrize(
    ("text", "place", "remedy"),
    [
        ("user,item\n1,Tee\n".encode("utf-16"), "events.csv", "iconv -f UTF-16 -t UTF-8"),
        ("user,item\n1,Tee\n1,Kaffee\n1,Käse\n".encode("cp1252"), "events.csv:4", "CP1252"),
        ("Käufer,item\n".encode("cp1252"), "events.csv:1", "CP1252"),
    ],
)
def test_other_encodings_are_refused(tmp_path, text, place, remedy):
    (tmp_path / "events.csv").write_bytes(text)
    with refused_data(place, quoting=remedy):
        list(sessions(str(tmp_path / "events.csv"), "user,item", None, Silent()))


@pytest.mark.parametrize("text", ["", "user,item,time\n"])
def test_a_table_without_rows_is_refused(tmp_path, text):
    table = tmp_path / "events.csv"
    table.write_text(text)
    with refused_data(str(table), quoting="no rows"):
        list(sessions(str(table), None, None, Silent()))


@pytest.mark.parametrize("heading", ["", "who,what,when\n"])
def test_columns_have_numbers_where_there_is_no_heading(tmp_path, heading):
    table = tmp_path / "events.csv"
    table.write_text(events([START, START + 60, START + 120], heading))
    assert list(sessions(str(table), "1,2,3", None, Silent())) == ["bread butter jam"]
    with refused_data("events.csv:2", "columns", quoting=("4", "1, 2, 3")):
        list(sessions(str(table), "1,2,4", None, Silent()))


@pytest.mark.parametrize(
    ("text", "columns", "line", "problem"),
    [
        (EVENTS, "user,item,day", 2, 'no column "day"'),
        (EVENTS.replace("2026-01-03", "soon"), "user,item,time", 5, "time is 'soon'"),
        (EVENTS.replace("eggs", " "), "user,item,time", 5, "item is empty"),
        (EVENTS.replace("2,eggs", ",eggs"), "user,item,time", 5, "user is empty"),
        (EVENTS.replace(",eggs", ""), "user,item,time", 5, "2 columns, but 3"),
        ('{"user": 1}\n', "user,item,time", 1, 'no column "item"'),
        ('{"user": 1, "item": ["a", "b"]}\n', "user,item", 1, "item is ["),
        ('{"user": NaN, "item": "a"}\n', "user,item", 1, "user is NaN"),
        ("user,item,time\n", "user,item,time", None, "no rows"),
    ],
)
def test_rows_that_are_no_event_are_reported_by_file_and_line(
    tmp_path, text, columns, line, problem
):
    table = tmp_path / "orders.csv"
    table.write_text(text)
    with pytest.raises(DataError) as error:
        list(sessions(str(table), columns, None, Silent()))
    assert (error.value.file, error.value.line) == (str(table), line)
    assert error.value.problem.startswith(problem)


@pytest.mark.parametrize("columns", ["user", "user,item,time,price", "user,,time"])
def test_sessions_need_a_user_and_an_item(tmp_path, columns):
    with pytest.raises(SettingError) as error:
        list(sessions(str(tmp_path / "orders.csv"), columns, None, Silent()))
    assert (error.value.setting, error.value.value) == ("columns", columns)


ORDERS = [
    ("7", "Desk Lamp Basic"),
    ("3", "Chair"),
    ("7", "Chair"),
    ("3", " Paper  A4 "),
    ("5", "Chair"),
    ("7", "Paper A4"),
]


@pytest.mark.parametrize(
    ("heading", "columns"), [("order,item\n", "order,item"), ("", "1,2"), ("a,b\n", "1,2")]
)
def test_orders_without_times_are_in_the_order_of_the_file(tmp_path, heading, columns):
    table = tmp_path / "orders.csv"
    progress = Notes()
    table.write_text(heading + "".join(f'{order},"{item}"\n' for order, item in ORDERS))
    assert list(sessions(str(table), columns, None, progress)) == [
        "Desk_Lamp_Basic Chair Paper_A4",
        "Chair Paper_A4",
    ]
    assert progress.notes[0].startswith(f"{table}: ")
    assert "Desk_Lamp_Basic" in progress.notes[0]
    with refused("gap", "columns", kind=InapplicableError):
        list(sessions(str(table), columns, 1800, Silent()))
    with refused("time_unit", "columns", kind=InapplicableError):
        list(sessions(str(table), columns, None, Silent(), "ms"))

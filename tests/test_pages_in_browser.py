"""The pages of `embedx compare` and `embedx report` in a real browser: nothing is asked for, tables
fit, sort and are saved.
"""

import csv
from xml.etree import ElementTree

import pytest

from tests.support.browser import (
    find,
    logged,
    map_labels,
    open_page,
    requested,
    save_files_to,
    until,
)
from tests.support.needs import needs_browser
from tests.support.report_models import NASTY
from tests.support.report_pages import (
    pages_of_comparisons,
    pages_of_labels,
    word_page,
)

pytestmark = needs_browser


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The files of a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    labels, plain_labels = pages_of_labels(folder)
    comparison, comparison_of_labels = pages_of_comparisons(folder)
    return {
        "words": word_page(folder),
        "labels": labels,
        "labels without test": plain_labels,
        "comparison": comparison,
        "comparison of labels": comparison_of_labels,
    }


@pytest.mark.parametrize(
    ("kind", "width", "dark"),
    [
        ("words", 1280, False),
        ("words", 390, True),
        ("labels", 390, True),
        ("labels without test", 1280, False),
        ("comparison", 390, True),
    ],
)
def test_a_page_loads_without_a_complaint_or_a_request_and_fits(driver, pages, kind, width, dark):
    open_page(driver, pages[kind], width, dark=dark)
    until(driver, lambda: driver.execute_script("return document.readyState") == "complete")
    if kind == "words":
        until(driver, lambda: map_labels(driver))
    assert logged(driver) == []
    assert requested(driver) == [pages[kind].as_uri()]
    assert driver.execute_script("return document.documentElement.scrollWidth") <= width
    ground = driver.execute_script("return getComputedStyle(document.body).backgroundColor")
    assert (sum(map(int, ground[4:-1].split(","))) < 384) is dark
    assert find(driver, "#x") == []  # the element that a word would be
    assert NASTY in driver.execute_script("return document.body.textContent")


@pytest.mark.parametrize("width", [390, 1280])
@pytest.mark.parametrize(
    "kind", ["words", "labels", "labels without test", "comparison", "comparison of labels"]
)
def test_no_table_has_to_be_scrolled(driver, pages, kind, width):
    open_page(driver, pages[kind], width)
    until(driver, lambda: driver.execute_script("return document.readyState") == "complete")
    too_wide = driver.execute_script(
        "document.querySelectorAll('details').forEach(details => { details.open = true; });"
        "return [...document.querySelectorAll('.wide')]"
        ".filter(box => box.scrollWidth > box.clientWidth).map(box => box.textContent.trim())"
    )
    assert too_wide == []


def test_a_request_would_be_noticed(driver, tmp_path):
    (tmp_path / "picture.png").write_bytes(b"")
    page = tmp_path / "page.html"
    page.write_text("<!DOCTYPE html><img src=picture.png><script>nothing()</script>")
    open_page(driver, page)
    assert requested(driver) == [page.as_uri(), (tmp_path / "picture.png").as_uri()]
    assert any("nothing is not defined" in message for message in logged(driver))


@pytest.mark.parametrize(("part", "lines"), [("table", 3), (".has-curves", 7)])
def test_tables_and_charts_are_saved_as_files(driver, pages, tmp_path, part, lines):
    save_files_to(driver, tmp_path)
    open_page(driver, pages["comparison"])
    script = (
        "const of = document.querySelector(arguments[0]); (of.closest('.holder') ??"
        " of).querySelectorAll('.files button')"
    )
    driver.execute_script(f"{script}.forEach(each => each.click())", part)
    until(
        driver,
        lambda: (
            len([*tmp_path.glob("*.csv")]) == 1
            and (part == "table" or len([*tmp_path.glob("*.svg")]) == 1)
        ),
    )
    (file,) = tmp_path.glob("*.csv")
    head, *rows = csv.reader(file.read_text("utf-8").split("\n")[:-1])
    assert 1 + len(rows) == lines
    assert all(len(row) == len(head) for row in rows)
    assert {"ns", NASTY} == {row[0] for row in rows}
    assert float(rows[0][2].split(" ")[0]) < 0  # a minus that programs read
    for picture in tmp_path.glob("*.svg"):
        assert ElementTree.parse(picture).getroot().tag.endswith("svg")


@pytest.mark.parametrize(
    ("kind", "columns"),
    [
        ("words", ("word", "count")),
        ("labels", ("label", "rows")),
        ("comparison", ("objective", "words/s")),
    ],
)
def test_tables_sort_by_click_and_by_key(driver, pages, kind, columns):
    from selenium.webdriver.common.keys import Keys

    open_page(driver, pages[kind])
    script = (
        "const [table, column] = arguments; return [...table.tBodies[0].rows].map(row =>"
        " row.cells[column].textContent)"
    )
    table = next(
        table
        for table in find(driver, "table")
        if set(columns)
        <= {element.text.strip() for element in table.find_elements("css selector", "th")}
    )
    heads = table.find_elements("css selector", "th")
    for name, is_number in zip(columns, (False, True), strict=True):
        column = next(k for k, head in enumerate(heads) if head.text.strip() == name)
        button = heads[column].find_element("css selector", "button")
        for direction, act in (
            ("ascending", button.click),
            ("descending", lambda button=button: button.send_keys(Keys.ENTER)),
        ):
            driver.execute_script("arguments[0].scrollIntoView({block: 'center'})", button)
            act()
            until(
                driver,
                lambda head=heads[column], to=direction: head.get_attribute("aria-sort") == to,
            )
            cells = driver.execute_script(script, table, column)
            assert len(cells) > 1
            if is_number:
                numbers = [float(cell.replace(",", "").replace("−", "-")) for cell in cells]
                assert numbers == sorted(numbers, reverse=direction == "descending")
            else:
                compare = (
                    "const [cells, sign] = arguments; return cells.every((cell, k) => !k || sign * "
                )
                compare += "cells[k - 1].localeCompare(cell, 'en', {numeric: true}) <= 0)"
                assert driver.execute_script(compare, cells, 1 if direction == "ascending" else -1)

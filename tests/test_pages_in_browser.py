"""The pages of `embedx compare` and `embedx report` in a real browser: nothing is asked for, and
they do what they offer.
"""

import csv
from xml.etree import ElementTree

import numpy as np
import pytest

from embedx.comparison import ranking
from embedx.comparison.labels import PRECISIONS
from embedx.comparison.tables import page as page_of_comparison
from embedx.report import projection
from embedx.report.report import report
from embedx.vectors.model import load_folder
from tests.support.browser import PATIENCE, browser, choose, logged, open_page, requested, texts
from tests.support.comparison_records import ranked, run
from tests.support.needs import needs_browser
from tests.support.report_models import NASTY, TEST, label_folder, word_folder

pytestmark = needs_browser
ON_MAP = 50  # of 60 words
GRID = np.array([[k % 5 / 4, k // 5 / 9] for k in range(ON_MAP)])


@pytest.fixture(scope="module")
def driver():
    with browser() as driver:
        yield driver


def ranking_of_labels(records):
    """A ranking of the same objectives by all measures of labelled data."""
    measures = ("ndcg@5", *PRECISIONS, "log_likelihood")
    by_label = [
        record
        | {
            "result": record["result"]
            | {"scores": dict.fromkeys(measures, record["result"]["scores"]["log_likelihood"])}
        }
        for record in records
    ]
    return ranking.ranked(by_label, ["ns", NASTY], measures, "examples")


@pytest.fixture(scope="module")
def pages(tmp_path_factory):
    """The files of a page of each kind."""
    folder = tmp_path_factory.mktemp("pages")
    pairs = folder / "pairs.txt"
    pairs.write_text("".join(f"topic0word{k}\ttopic{k % 4}word{k + 1}\t{k}\n" for k in range(2, 8)))
    test = folder / "test.txt"
    test.write_text(TEST)
    points = [(1, 2.5, -8.6), (3, 7.5, -8.2), (5, 10, -8.1)]
    records = [
        run(name, seed, -8 - k / 7, curve=points)
        for k, name in enumerate(["ns", NASTY])
        for seed in (1, 2)
    ]
    comparison = folder / "compare.html"
    comparison.write_text(
        page_of_comparison(NASTY, ranked(*records), "log-likelihood", {"machine": NASTY}), "utf-8"
    )
    of_labels = folder / "compare-labels.html"
    of_labels.write_text(
        page_of_comparison("rows", ranking_of_labels(records), "validation nDCG@5", {}), "utf-8"
    )
    model = word_folder(folder / "words")
    classifier = label_folder(folder / "labels")
    # the same map wherever the tests run, with room for its labels
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "project", lambda vectors, *_: GRID[: len(vectors)])
        listed = f"{NASTY},topic1word2,topic0word0"
        of_words = report(
            model, folder / "words.html", words=listed, pairs=[pairs], nearest=5, map_words=ON_MAP
        )
    return {
        "words": of_words,
        "labels": report(classifier, folder / "labels.html", test=str(test)),
        "labels without test": report(classifier, folder / "plain.html"),
        "comparison": comparison,
        "comparison of labels": of_labels,
    }


def until(driver, condition):
    """Wait until it holds, and give what it gives."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, PATIENCE, poll_frequency=0.05).until(lambda _: condition())


def find(driver, selector):
    return driver.find_elements("css selector", selector)


def labels_of(driver):
    """The words that the map shows, with the places of their middles in the window."""
    script = (
        "return [...document.querySelectorAll('#plane text[data-word]')].map(each => { const box ="
        " each.getBoundingClientRect();return [each.textContent, box.x + box.width / 2, box.y +"
        " box.height / 2]; })"
    )
    return {word: np.array([x, y]) for word, x, y in driver.execute_script(script)}


@pytest.fixture
def word_map(driver, pages):
    """The page of word vectors, its map drawn."""
    open_page(driver, pages["words"])
    until(driver, lambda: labels_of(driver))
    return driver


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
        until(driver, lambda: labels_of(driver))
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


def test_the_search_finds_a_word_and_shows_its_neighbours(word_map, pages):
    choose(word_map, "topic2word6")
    vectors = load_folder(pages["words"].parent / "words")
    near = vectors.most_similar("topic2word6", top_k=5)
    assert texts(word_map, "#chosen li > :first-child") == [word for word, _ in near]
    assert texts(word_map, "#chosen li > span") == [f"{cosine:.3f}" for _, cosine in near]
    assert texts(word_map, "#chosen p")[0] == "rank 27, 3,400 times"
    beyond = [word for word, _ in near if vectors.index(word) >= ON_MAP]
    assert 0 < len(beyond) < 5
    until(
        word_map,
        lambda: sorted(texts(word_map, "#plane text.near")) == sorted(word for word, _ in near),
    )
    assert (len(find(word_map, "#plane line")), len(find(word_map, "#plane circle.between"))) == (
        5,
        len(beyond),
    )
    choose(word_map, NASTY, typed="</script>")
    search = find(word_map, "#search")[0]
    search.clear()
    search.send_keys("nowhere")
    until(word_map, lambda: texts(word_map, "#matches .faint") == ["not on the map"])
    search.clear()
    search.send_keys("C2WORD1")  # within a word, whatever the case
    until(
        word_map,
        lambda: (
            texts(word_map, "#matches button") == ["topic2word1", "topic2word10", "topic2word11"]
        ),
    )


def test_a_click_on_a_word_shows_its_neighbours(word_map):
    from selenium.webdriver import ActionChains

    plane = find(word_map, "#plane")[0]
    word_map.execute_script("arguments[0].scrollIntoView({block: 'center'})", plane)
    word, place = next(iter(sorted(labels_of(word_map).items())))
    box = plane.rect
    scrolled = word_map.execute_script("return [scrollX, scrollY]")
    middle = np.array([box["x"] + box["width"] / 2, box["y"] + box["height"] / 2]) - scrolled
    across, down = (round(pixels) for pixels in (place - middle).tolist())
    ActionChains(word_map).move_to_element_with_offset(plane, across, down).click().perform()
    until(word_map, lambda: texts(word_map, "#chosen h3") == [word])
    other = texts(word_map, "#chosen li button")[0]
    find(word_map, "#chosen li button")[0].click()
    until(word_map, lambda: texts(word_map, "#chosen h3") == [other])


def test_no_label_of_the_map_is_cut_and_the_pointer_tells_about_a_word(word_map):
    from selenium.webdriver import ActionChains

    plane = find(word_map, "#plane")[0]
    word_map.execute_script("arguments[0].scrollIntoView({block: 'center'})", plane)
    for act in (
        lambda: None,
        find(word_map, "#zoom-in")[0].click,
        lambda: choose(word_map, "topic0word0"),
    ):
        act()
        script = (
            "const b = each => each.getBoundingClientRect(), p = b(plane); return"
            " [...plane.querySelectorAll('text')].filter("
        )
        script += (
            "each => b(each).left < p.left || b(each).right > p.right || b(each).top < p.top ||"
            " b(each).bottom > p.bottom)"
        )
        assert word_map.execute_script(script) == []
    ActionChains(word_map).move_to_element(find(word_map, "#plane text.chosen")[0]).perform()
    until(
        word_map,
        lambda: texts(word_map, ".tip div")[:3] == ["topic0word0", "rank 1", "6,000 times"],
    )
    classes = [element.get_attribute("class") for element in find(word_map, "#plane .dots")]
    find(word_map, "#colours option[value=frequency]")[0].click()
    assert [element.get_attribute("class") for element in find(word_map, "#plane .dots")] != classes


@pytest.mark.parametrize(("of", "lines"), [("table", 3), (".has-curves", 7)])
def test_tables_and_charts_are_saved_as_files(driver, pages, tmp_path, of, lines):
    folder = str(tmp_path)
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": folder}
    )
    open_page(driver, pages["comparison"])
    script = (
        "const of = document.querySelector(arguments[0]); (of.closest('.holder') ??"
        " of).querySelectorAll('.files button')"
    )
    driver.execute_script(f"{script}.forEach(each => each.click())", of)
    until(
        driver,
        lambda: (
            len([*tmp_path.glob("*.csv")]) == 1
            and (of == "table" or len([*tmp_path.glob("*.svg")]) == 1)
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


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_clusters_are_not_cut_overlap_no_label_and_leave_with_their_colours(
    driver, pages, width
):
    open_page(driver, pages["words"], width)
    until(driver, lambda: labels_of(driver))
    script = (
        "return [...document.querySelectorAll('#plane, #plane text')].map(each => {"
        " const {left, right, top, bottom} = each.getBoundingClientRect();"
        " return [each.classList.contains('cluster'), left, right, top, bottom]; })"
    )
    (_, *plane), *boxes = driver.execute_script(script)
    names = [box for is_name, *box in boxes if is_name]
    labels = [box for is_name, *box in boxes if not is_name]
    assert len(names) >= 2
    for left, right, top, bottom in names:
        assert plane[0] <= left
        assert right <= plane[1]
        assert plane[2] <= top
        assert bottom <= plane[3]
        for a, b, c, d in labels:
            assert min(right, b) - max(left, a) < 2 or min(bottom, d) - max(top, c) < 2
    find(driver, "#colours option[value=frequency]")[0].click()
    until(driver, lambda: not find(driver, "#plane text.cluster"))


def test_the_map_is_saved_as_numbers_and_as_pictures_with_a_legend(word_map, tmp_path):
    word_map.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(tmp_path)}
    )
    word_map.execute_script(
        "document.querySelectorAll('#map > .files button').forEach(button => button.click())"
    )
    until(word_map, lambda: len([*tmp_path.glob("*-map-of-words.[cps][snv][vg]")]) == 3)
    (table,) = tmp_path.glob("*-map-of-words.csv")
    head, *rows = csv.reader(table.read_text("utf-8").split("\n")[:-1])
    assert head == ["word", "rank", "count", "x", "y", "cluster", "cluster name"]
    assert len(rows) == ON_MAP
    assert np.array([row[3:5] for row in rows], float) == pytest.approx(GRID, abs=1e-4)
    (picture,) = tmp_path.glob("*.svg")
    written = [
        text.text for text in ElementTree.parse(picture).iter("{http://www.w3.org/2000/svg}text")
    ]
    assert {row[-1] for row in rows} <= set(written)
    (pixels,) = tmp_path.glob("*.png")
    assert pixels.read_bytes().startswith(b"\x89PNG")


def spread(places, words):
    return np.mean([np.linalg.norm(places[a] - places[b]) for a in words for b in words if a < b])


def test_zooming_moves_words_apart_and_dragging_moves_all_alike(word_map):
    from selenium.webdriver import ActionChains
    from selenium.webdriver.common.actions.wheel_input import ScrollOrigin

    plane = find(word_map, "#plane")[0]
    word_map.execute_script("arguments[0].scrollIntoView({block: 'center'})", plane)

    def changed(act):
        """The places before and after, of the words that are shown both times."""
        before = labels_of(word_map)
        act()

        def moved():
            after = labels_of(word_map)
            common = sorted(before.keys() & after.keys())
            if any(abs(before[k] - after[k]).max() > 1 for k in common):
                return [before, after, common]
            return None

        return until(word_map, moved)

    def zoom(act):
        before, after, common = changed(act)
        assert len(common) > 1
        return spread(after, common) / spread(before, common)

    assert zoom(find(word_map, "#zoom-in")[0].click) == pytest.approx(1.5, rel=0.06)
    assert zoom(find(word_map, "#zoom-out")[0].click) == pytest.approx(1 / 1.5, rel=0.06)
    origin = ScrollOrigin.from_element(plane)
    assert zoom(ActionChains(word_map).scroll_from_origin(origin, 0, -200).perform) > 1.1
    assert zoom(find(word_map, "#zoom-reset")[0].click) < 0.9
    drag = (
        ActionChains(word_map, duration=0)
        .move_to_element(plane)
        .click_and_hold()
        .move_by_offset(40, 25)
        .release()
    )
    before, after, common = changed(drag.perform)
    steps = np.array([after[word] - before[word] for word in common])
    assert steps == pytest.approx(np.tile([40, 25], (len(steps), 1)), abs=1)
    word_map.execute_script("arguments[0].focus()", plane)
    before, after, common = changed(ActionChains(word_map).send_keys("+").perform)
    assert spread(after, common) > spread(before, common)


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

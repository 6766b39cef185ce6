"""The map of words of `embedx report` in a real browser: searched, clicked, zoomed, saved."""

import csv
from xml.etree import ElementTree

import numpy as np
import pytest

from embedx.vectors.model import load_folder
from tests.support.browser import (
    choose,
    find,
    map_labels,
    open_page,
    save_files_to,
    texts,
    until,
)
from tests.support.needs import needs_browser
from tests.support.report_models import NASTY
from tests.support.report_pages import GRID, WORDS_ON_MAP, word_page

pytestmark = needs_browser


@pytest.fixture(scope="module")
def page(tmp_path_factory):
    """The file of a page of word vectors."""
    return word_page(tmp_path_factory.mktemp("page"))


@pytest.fixture
def word_map(driver, page):
    """The page, its map drawn."""
    open_page(driver, page)
    until(driver, lambda: map_labels(driver))
    return driver


def test_the_search_finds_a_word_and_shows_its_neighbours(word_map, page):
    choose(word_map, "topic2word6")
    vectors = load_folder(page.parent / "words")
    near = vectors.most_similar("topic2word6", top_k=5)
    assert texts(word_map, "#chosen li > :first-child") == [word for word, _ in near]
    assert texts(word_map, "#chosen li > span") == [f"{cosine:.3f}" for _, cosine in near]
    assert texts(word_map, "#chosen p")[0] == "rank 27, 3,400 times"
    beyond = [word for word, _ in near if vectors.index(word) >= WORDS_ON_MAP]
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
    word, place = next(iter(sorted(map_labels(word_map).items())))
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


@pytest.mark.parametrize("width", [390, 1280])
def test_names_of_clusters_are_not_cut_overlap_no_label_and_leave_with_their_colours(
    driver, page, width
):
    open_page(driver, page, width)
    until(driver, lambda: map_labels(driver))
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
    save_files_to(word_map, tmp_path)
    word_map.execute_script(
        "document.querySelectorAll('#map > .files button').forEach(button => button.click())"
    )
    until(word_map, lambda: len([*tmp_path.glob("*-map-of-words.[cps][snv][vg]")]) == 3)
    (table,) = tmp_path.glob("*-map-of-words.csv")
    head, *rows = csv.reader(table.read_text("utf-8").split("\n")[:-1])
    assert head == ["word", "rank", "count", "x", "y", "cluster", "cluster name"]
    assert len(rows) == WORDS_ON_MAP
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
        before = map_labels(word_map)
        act()

        def moved():
            after = map_labels(word_map)
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

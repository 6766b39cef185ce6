"""A real browser without a screen, for pages that embedx writes: in tests, and for pictures of
them.

    python -m tests.support.browser PAGE PICTURE [--width 1280] [--height 800] [--dark] [--of ID]
        [--choose WORD]

takes a picture of a whole page, or of the element of that ID, after WORD was chosen on its map.
"""

import base64
import contextlib
import json
import tempfile
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from tests.support.needs import BROWSER, DRIVER

PATIENCE = 60.0  # seconds, on a machine that has other things to do
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
)


@contextlib.contextmanager
def browser():
    """Selenium's driver of chromium, which keeps its files to itself and notes what pages log and
    ask for.
    """
    from selenium.webdriver import Chrome, ChromeOptions, ChromeService

    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as folder:
        options = ChromeOptions()
        options.binary_location = BROWSER
        for flag in (*FLAGS, f"--user-data-dir={folder}"):
            options.add_argument(flag)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = Chrome(options, ChromeService(DRIVER))
        try:
            driver.set_page_load_timeout(PATIENCE)
            driver.set_script_timeout(PATIENCE)
            yield driver
        finally:
            driver.quit()


def open_page(driver, page, width=1280, height=800, dark=False):
    """Open a file in a window of that size, by day or by night."""
    driver.execute_cdp_cmd("Network.enable", {})
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": scheme})
    for kind in ("browser", "performance"):
        driver.get_log(kind)  # what was before does not count
    driver.get(Path(page).resolve().as_uri())


def logged(driver):
    """What the console says since the page was opened."""
    return [entry["message"] for entry in driver.get_log("browser")]


def requested(driver):
    """What was asked for since the page was opened: its own address, once, if all is well. What
    the browser's own pages ask for, such as that of a new tab, is left out.
    """
    events = (json.loads(entry["message"])["message"] for entry in driver.get_log("performance"))
    requests = [
        event["params"] for event in events if event["method"] == "Network.requestWillBeSent"
    ]
    return [
        request["request"]["url"]
        for request in requests
        if not request["documentURL"].startswith("chrome")
    ]


def take_picture(driver, file, of=None):
    """Save what the whole page looks like, or an element of it."""
    page_size = (
        "const page = document.documentElement; return [page.clientWidth, page.scrollHeight]"
    )
    width, height = driver.execute_script(page_size)
    size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
    # what is out of view is not painted anew
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", size)
    wait_for_paint = "const done = arguments[0]; requestAnimationFrame(() => setTimeout(done, 500))"
    driver.execute_async_script(wait_for_paint)
    if of is None:
        script = (
            "const {width, height} = document.documentElement.getBoundingClientRect(); return [0,"
            " 0, width, height]"
        )
    else:
        script = (
            "const {x, y, width, height} ="
            f" document.getElementById({json.dumps(of)}).getBoundingClientRect();"
        )
        script += "return [x + scrollX, y + scrollY, width, height]"
    x, y, width, height = driver.execute_script(script)
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    taken = driver.execute_cdp_cmd(
        "Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": False}
    )
    Path(file).write_bytes(base64.b64decode(taken["data"]))


def texts(driver, selector):
    """What the elements say, whatever characters are in it."""
    return driver.execute_script(
        "return [...document.querySelectorAll(arguments[0])].map(each => each.textContent)",
        selector,
    )


def until(driver, condition):
    """Wait until it holds, and give what it gives."""
    from selenium.webdriver.support.ui import WebDriverWait

    return WebDriverWait(driver, PATIENCE, poll_frequency=0.05).until(lambda _: condition())


def find(driver, selector):
    return driver.find_elements("css selector", selector)


def save_files_to(driver, folder):
    """Have what a page offers as a file saved in a folder, without a question."""
    driver.execute_cdp_cmd(
        "Browser.setDownloadBehavior", {"behavior": "allow", "downloadPath": str(folder)}
    )


def map_labels(driver):
    """The words that the map of a report shows, with the places of their middles in the window."""
    script = (
        "return [...document.querySelectorAll('#plane text[data-word]')].map(each => { const box ="
        " each.getBoundingClientRect();return [each.textContent, box.x + box.width / 2, box.y +"
        " box.height / 2]; })"
    )
    return {word: np.array([x, y]) for word, x, y in driver.execute_script(script)}


def choose(driver, word, typed=None):
    """Choose a word on the map of a page of `embedx report` by its search, and wait until it is
    shown.
    """
    from selenium.webdriver.common.by import By
    from selenium.webdriver.common.keys import Keys

    search = driver.find_element(By.ID, "search")
    search.clear()
    search.send_keys(typed or word, Keys.ENTER)
    until(driver, lambda: texts(driver, "#plane text.chosen") == [word])


def main(
    page: Path,
    picture: Path,
    width: int = 1280,
    height: int = 800,
    dark: bool = False,
    of: str | None = None,
    word: Annotated[str | None, typer.Option("--choose")] = None,
):
    with browser() as driver:
        open_page(driver, page, width, height, dark)
        if word:
            choose(driver, word)
        take_picture(driver, picture, of)
        for line in logged(driver):
            print(line)


if __name__ == "__main__":
    typer.run(main)

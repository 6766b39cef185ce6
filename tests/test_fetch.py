"""Corpora fetched by name or read by URL, from a server that fails in every way a server can."""

import hashlib
import os
import re
import sys
from dataclasses import replace
from email.utils import parsedate_to_datetime
from pathlib import Path

import pytest

from embedx.errors import DataError, EmbedxError, public_url
from embedx.text import fetch as fetching
from embedx.text.opening import open_source
from embedx.text.recipes import Recipe, data_folder, find_recipe
from embedx.text.sources import find_sources
from embedx.text.streams import text_blocks
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused, refused_data
from tests.support.web_server import serving

fcntl = pytest.importorskip("fcntl")

TEXT = b"".join(b"line %d\n" % n for n in range(200))
OTHER = TEXT.swapcase()
SHA256 = hashlib.sha256(TEXT).hexdigest()


@pytest.fixture
def site(workdir, monkeypatch):
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))
    with serving(TEXT) as served:
        yield served


def fetch(*arguments, **more):
    """The path of the one file that is fetched."""
    (path,) = fetching.fetch(*arguments, **more)
    return path


@pytest.fixture
def recipe(site, tmp_path):
    """A recipe of the site's file, with fields of its own."""
    return lambda *paths, **fields: Recipe(
        "mine",
        tmp_path,
        files=["mine.txt"],
        urls=[f"{site.url}/{path}" for path in paths or ["mine.txt"]],
        **fields,
    )


def ranges(site):
    return [byte_range for _, byte_range in site.asked]


def left():
    """What is in the data folder beside the file."""
    return sorted(path.name for path in data_folder().iterdir() if path.name != "mine.txt")


@pytest.mark.parametrize("fields", [{}, {"sha256": SHA256}])
def test_a_file_is_fetched_once_and_then_found(site, recipe, fields):
    path = fetch(recipe(**fields))
    assert (path, path.read_bytes()) == (data_folder() / "mine.txt", TEXT)
    assert recipe().find_files() == [str(path)]
    assert fetch(recipe(**fields)) == path
    assert ranges(site) == [None]
    assert left() == []


def test_a_cut_download_is_resumed(site, recipe):
    site.cuts = [300, 200]
    assert fetch(recipe()).read_bytes() == TEXT
    assert (ranges(site), site.n_resumed) == ([None, "bytes=300-", "bytes=500-"], 2)
    assert left() == []


@pytest.mark.parametrize("has_ranges", [True, False])
def test_without_ranges_or_a_date_a_cut_download_starts_again(site, recipe, has_ranges):
    site.cuts = [300]
    site.has_ranges = has_ranges
    if has_ranges:
        site.date = ""
    notes = Notes()
    assert fetch(recipe(sha256=SHA256), progress=notes).read_bytes() == TEXT
    assert ranges(site) == [None, "bytes=300-"]
    assert lines_with(notes.notes, "first byte")


def test_a_file_that_changes_meanwhile_is_fetched_from_its_beginning(site, recipe):
    def change():
        site.content, site.date = OTHER, "Fri, 01 Mar 2024 12:00:01 GMT"

    site.cuts = [300]
    site.then = change
    assert fetch(recipe()).read_bytes() == OTHER


def test_a_connection_that_keeps_failing_is_given_up_and_the_part_kept(site, recipe):
    site.missing_bytes, site.has_ranges = 10, False
    with refused(kind=DataError, file="mine", line=None) as raised:
        fetch(recipe())
    assert "1.7 kB" in raised.value.problem
    assert left() == ["mine.txt.part"]
    assert not (data_folder() / "mine.txt").exists()


def test_an_interrupted_download_is_resumed_by_the_next_call(site, recipe, monkeypatch):
    class Interrupting(Notes):
        def update(self, done, **_):
            if done >= 300:
                raise KeyboardInterrupt

    monkeypatch.setattr(fetching, "BLOCK_BYTES", 100)
    with pytest.raises(KeyboardInterrupt):
        fetch(recipe(sha256=SHA256), progress=Interrupting())
    assert left() == ["mine.txt.part"]
    assert fetch(recipe(sha256=SHA256)).read_bytes() == TEXT
    assert (ranges(site), site.n_resumed) == ([None, "bytes=300-"], 1)


def test_what_has_another_checksum_or_is_empty_is_not_kept(site, recipe):
    with refused(kind=DataError, file="mine") as raised:
        fetch(recipe(sha256="0" * 64))
    assert SHA256 in raised.value.problem
    assert "0" * 64 in raised.value.problem
    site.content = b""
    with refused(kind=DataError, file="mine") as raised:
        fetch(recipe())
    assert " 0 bytes" in raised.value.problem
    assert left() == []


def test_another_mirror_resumes_the_part(site, recipe):
    site.cuts = [300] + 3 * [0]
    assert fetch(recipe("mine.txt", "b/mine.txt")).read_bytes() == TEXT
    assert (site.asked[-1], site.n_resumed) == (("/b/mine.txt", "bytes=300-"), 4)


@pytest.mark.parametrize(
    ("part", "is_same_version", "n_requests"),
    [(TEXT, True, 2), (TEXT + b"0123456", True, 2), (TEXT, False, 1), (OTHER[:300], False, 1)],
)
def test_a_part_with_all_bytes_or_more_or_of_another_version_is_fetched_again(
    site, recipe, part, is_same_version, n_requests
):
    data_folder().mkdir(parents=True)
    (data_folder() / "mine.txt.part").write_bytes(part)
    if is_same_version:
        date = parsedate_to_datetime(site.date).timestamp()
        os.utime(data_folder() / "mine.txt.part", (date, date))
    assert fetch(recipe(sha256=SHA256)).read_bytes() == TEXT
    assert (len(site.asked), left()) == (n_requests, [])


def test_mirrors_are_tried_in_order_and_redirects_followed(site, recipe):
    site.statuses = {"/a/mine.txt": 404}
    site.moved = {"/b/mine.txt": "/c/mine.txt"}
    notes = Notes()
    assert fetch(recipe("a/mine.txt", "b/mine.txt"), progress=notes).read_bytes() == TEXT
    assert [path for path, _ in site.asked] == ["/a/mine.txt", "/b/mine.txt", "/c/mine.txt"]
    assert lines_with(notes.notes, "/a/mine.txt", "HTTP 404 Not Found")


def test_a_server_that_is_busy_is_asked_again(site, recipe):
    site.statuses = {"/mine.txt": 503}
    with refused(kind=DataError, file="mine") as raised:
        fetch(recipe())
    assert "HTTP 503" in raised.value.problem
    assert len(site.asked) == 1 + len(fetching.PAUSES)


def test_without_a_network_one_line_says_at_once_what_to_put_where(recipe, monkeypatch):
    monkeypatch.setattr(fetching, "PAUSES", (3600.0,))
    away = Recipe("mine", data_folder(), files=["mine.txt"], urls=["http://127.0.0.1:1/mine.txt"])
    with refused(kind=DataError, file="mine") as raised:
        fetch(away)
    assert "(http://127.0.0.1:1/mine.txt: Connection refused)" in raised.value.problem
    assert f"mine.txt into {data_folder()}" in raised.value.problem
    assert left() == []


def test_a_file_that_lies_elsewhere_is_found_too(site, recipe, tmp_path):
    (tmp_path / "mine.toml").write_text(
        f'kind = "text"\nreader = "text"\nfiles = ["mine.txt"]\nurls = ["{site.url}/mine.txt"]'
    )
    path = fetch("mine", tmp_path / "disk")
    assert path == tmp_path / "disk" / "mine.txt"
    (source,) = find_sources(["mine"])
    assert (source.name, source.size) == ("mine", len(TEXT))


def test_files_that_exist_are_not_fetched(site, recipe, tmp_path):
    (tmp_path / "mine.txt").write_text("my own")
    assert fetch(recipe()).read_text() == "my own"
    assert site.asked == []


def test_two_processes_do_not_fetch_the_same_file(recipe):
    data_folder().mkdir(parents=True)
    with open(data_folder() / "mine.txt.part", "wb") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with refused(kind=DataError, file=data_folder() / "mine.txt.part", line=None):
            fetch(recipe())


def test_failed_downloads_report_the_reason(site, tmp_path, recipe):
    with refused(kind=DataError, file="nothing", line=None):
        fetch("nothing")
    with refused_data("bibtex", quoting=("http://manikvarma.org", "Bibtex/Bibtex_data.txt")):
        fetch("bibtex")
    with refused_data("mine", quoting=("http and https", "passwd")):
        fetch(Recipe("mine", tmp_path, files=["mine.txt"], urls=["file:///etc/passwd"]))
    (tmp_path / "blocked").write_text("a file")
    target = tmp_path / "blocked" / "mine.txt"
    with refused(None, "to", kind=DataError, file=target):
        fetch(recipe(), target.parent)


def read(url):
    (source,) = find_sources([url])
    with open_source(source) as file:
        return b"".join(text_blocks(source, file))


def test_a_url_is_read(site):
    assert read(f"{site.url}/corpus.txt") == TEXT
    site.statuses = {"/missing.txt": 404}
    site.missing_bytes = 10
    with refused(kind=DataError, file=f"{site.url}/missing.txt") as raised:
        read(f"{site.url}/missing.txt")
    assert "404" in raised.value.problem
    with refused(kind=DataError, file=f"{site.url}/cut.txt") as raised:
        read(f"{site.url}/cut.txt")
    assert re.search(r"after \d+ of \d+ bytes", raised.value.problem)
    with refused(kind=DataError, file="nosuchscheme://x/y"):
        read("nosuchscheme://x/y")


# ---- servers and recipes of strangers


@pytest.mark.parametrize("sent", ["bytes 5-9/100", "bytes 0-4/100", "nonsense", ""])
def test_a_response_with_another_range_than_requested_is_refused(site, recipe, sent):
    site.other_part = sent
    with refused_data("mine", quoting="another part"):
        fetch(recipe())
    assert left() == []
    assert not (data_folder() / "mine.txt").exists()


def test_a_part_that_does_not_continue_is_not_appended(site, recipe):
    site.cuts = [300]
    site.missing_bytes = 1
    with pytest.raises(EmbedxError):
        fetch(recipe())
    site.other_part = "bytes 7-11/100"
    with refused_data("mine", quoting="another part"):
        fetch(recipe())
    assert not (data_folder() / "mine.txt").exists()


@pytest.mark.parametrize("date", ["garbage", "Fri, 99 Foo 2024", "Fri, 01 Jan 99999 00:00:00 GMT"])
def test_a_date_that_cannot_be_read_is_none(site, recipe, date):
    site.date = date
    assert fetch(recipe()).read_bytes() == TEXT


@pytest.mark.parametrize("path", ["", "folder/", "x" * 300])
def test_a_url_has_to_end_in_the_name_of_a_file(site, recipe, path):
    with pytest.raises(DataError) as error:
        fetch(recipe(path))
    assert "urls" in error.value.remedy
    assert site.asked == []


def test_a_part_that_is_a_link_is_not_written_through(site, recipe, tmp_path):
    precious = tmp_path / "precious"
    precious.write_text("precious")
    data_folder().mkdir(parents=True)
    (data_folder() / "mine.txt.part").symlink_to(precious)
    with pytest.raises(DataError):
        fetch(recipe())
    assert precious.read_text() == "precious"


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("https://user:secret@host:8080/a/b.txt", "https://host:8080/a/b.txt"),
        ("https://host/b.txt?token=secret&part=2", "https://host/b.txt?token=...&part=..."),
        ("https://host/b.txt?secret", "https://host/b.txt?..."),
        ("s3://key:secret@bucket/b.txt#secret", "s3://bucket/b.txt"),
        ("https://host?a=secret@x/y", "https://host?a=..."),
        ("folder/what?=1.txt", "folder/what?=1.txt"),
    ],
)
def test_secrets_of_a_url_are_not_shown(url, shown):
    assert public_url(url) == shown
    if "://" in url:
        assert "secret" not in str(replace(find_sources([url])[0], location=""))


def test_errors_of_a_streamed_url_keep_its_secrets(site):
    site.statuses["/b.txt?token=secret"] = 403
    source = find_sources([f"{site.url}/b.txt?token=secret"])[0]
    with pytest.raises(EmbedxError) as error:
        open_source(source)
    assert "secret" not in str(error.value)
    assert site.asked == [("/b.txt?token=secret", None)]


def test_a_recipe_imports_nothing(workdir):
    (workdir / "x").mkdir()
    (workdir / "x" / "__init__.py").write_text("raise SystemExit('imported')")
    (workdir / "x" / "y").mkdir()
    sys.path.insert(0, str(workdir))
    try:
        (workdir / "x" / "y" / "mine.txt").write_text("text")
        files = Recipe("mine", workdir, package="x.y", files=["mine.txt"]).files_here()
    finally:
        sys.path.remove(str(workdir))
    assert files == [str(workdir / "x" / "y" / "mine.txt")]
    assert "x" not in sys.modules


PLACEHOLDERS = """kind = "text"
reader = "text"
files = ["{a}"]
[values]
"""


def test_values_are_put_in_once(workdir):
    (workdir / "mine.toml").write_text(PLACEHOLDERS + 'a = "{b}"\nb = "c"\n')
    assert find_recipe("mine").files == ["{b}"]


def test_values_do_not_grow_without_bound(workdir):
    row = "".join(["{a}"] * 3000)
    text = PLACEHOLDERS.replace("{a}", row) + f'a = "{"x" * 3000}"\n'
    (workdir / "mine.toml").write_text(text)
    with refused_data("mine.toml", quoting="131,072"):
        find_recipe("mine")


def test_a_recipe_in_place_of_a_built_in_one_says_so(workdir, caplog):
    (workdir / "text8.toml").write_text('kind = "text"\nreader = "text"\nfiles = ["text8"]\n')
    assert find_recipe("text8").folder == Path()
    (record,) = caplog.records
    assert "text8.toml" in record.getMessage()

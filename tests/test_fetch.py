"""Corpora fetched by name, from a server that fails in every way a server can."""

import hashlib
import http.server
import re
import threading

import pytest

from embedx.errors import EmbedxError
from embedx.text import fetch as fetching
from embedx.text.fetch import fetch, fetch_named
from embedx.text.recipes import Recipe, data_folder
from embedx.text.sources import resolve
from embedx.training.progress import Silent

fcntl = pytest.importorskip("fcntl")

TEXT = b"".join(b"line %d\n" % n for n in range(200))
OTHER = TEXT.swapcase()
SHA256 = hashlib.sha256(TEXT).hexdigest()


class Notes(Silent):
    def __init__(self):
        self.notes = []

    def note(self, message):
        self.notes.append(message)


class Site:
    """A web server of one file, under any name; see `Handler` for what it can be made to do."""

    def __init__(self):
        self.content, self.etag = TEXT, '"1"'
        self.has_ranges = self.honours_if_range = self.tells_length = self.tells_version_of_parts = True
        self.missing_bytes = 0  # that it promises, and does not send
        self.cuts = []  # bytes after which the connections end, one after the other
        self.statuses = {}  # by path
        self.moved = {}  # path: where to
        self.then = lambda: None  # what happens after the first answer
        self.sums = b""
        self.asked = []  # (path, Range)


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        site, path, wanted = self.server.site, self.path, self.headers.get("Range")
        site.asked.append((path, wanted))
        if path in site.statuses:
            return self.send_error(site.statuses[path])
        if path in site.moved:
            self.send_response(302)
            self.send_header("Location", site.moved[path])
            return self.end_headers()
        content = site.sums if path == "/sums.txt" else site.content
        if_range = self.headers.get("If-Range")
        starts = wanted is not None and site.has_ranges and (if_range in (None, site.etag) or not site.honours_if_range)
        start = int(wanted.removeprefix("bytes=").removesuffix("-")) if starts else 0
        if starts and start >= len(content):
            self.send_response(416)
            self.send_header("Content-Range", f"bytes */{len(content)}")
            return self.end_headers()
        self.send_response(206 if starts else 200)
        if starts:
            self.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if site.tells_length:
            self.send_header("Content-Length", str(len(content) - start + site.missing_bytes))
        if site.etag and (not starts or site.tells_version_of_parts):
            self.send_header("ETag", site.etag)
        self.end_headers()
        self.wfile.write(content[start:][: site.cuts.pop(0) if site.cuts else None])
        site.then()
        return None

    def log_message(self, *_): ...


@pytest.fixture
def site(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for kind in ("CONFIG", "DATA"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind.lower()))
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        server.site = Site()
        server.site.url = f"http://127.0.0.1:{server.server_port}"
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        yield server.site
        server.shutdown()
        thread.join()


@pytest.fixture
def recipe(site, tmp_path):
    """A recipe of the site's file, with fields of its own."""
    return lambda *paths, **own: Recipe(
        "mine", tmp_path, files=["mine.txt"], urls=[f"{site.url}/{path}" for path in paths or ["mine.txt"]], **own
    )


def ranges(site):
    return [wanted for _, wanted in site.asked]


def left():
    """What is in the data folder beside the file."""
    return sorted(path.name for path in data_folder().iterdir() if path.name != "mine.txt")


@pytest.mark.parametrize("own", [{}, {"sha256": SHA256}, {"fetched_size": len(TEXT)}])
def test_a_file_is_fetched_once_and_then_found(site, recipe, own):
    path = fetch(recipe(**own))
    assert (path, path.read_bytes()) == (data_folder() / "mine.txt", TEXT)
    assert recipe().find_files() == [str(path)]
    assert fetch(recipe(**own)) == path
    assert ranges(site) == [None]
    assert left() == []


def test_a_cut_connection_is_gone_on_with(site, recipe):
    site.cuts = [300, 200]
    assert fetch(recipe()).read_bytes() == TEXT
    assert ranges(site) == [None, "bytes=300-", "bytes=500-"]


def test_a_server_without_ranges_starts_again(site, recipe):
    site.cuts, site.has_ranges = [300], False
    assert fetch(recipe(sha256=SHA256)).read_bytes() == TEXT
    assert ranges(site) == [None, "bytes=300-"]


@pytest.mark.parametrize(
    ("etag", "honours_if_range", "tells_version_of_parts", "longer"),
    [('"1"', True, False, 0), ('"1"', False, True, 0), ('"1"', False, False, 1), ("", True, True, 1)],
)
def test_a_file_that_changes_meanwhile_is_fetched_from_its_beginning(
    site, recipe, etag, honours_if_range, tells_version_of_parts, longer
):
    def change():
        site.content, site.etag = OTHER + longer * b"x", etag.replace("1", "2")

    site.cuts, site.then, site.etag = [300], change, etag
    site.honours_if_range, site.tells_version_of_parts = honours_if_range, tells_version_of_parts
    assert fetch(recipe()).read_bytes() == OTHER + longer * b"x"


def test_a_part_of_unknown_version_is_not_gone_on_with(site, recipe):
    site.cuts, site.tells_length, site.etag = [300], False, ""
    with pytest.raises(EmbedxError, match="300 bytes came instead of 1,690"):
        fetch(recipe(fetched_size=len(TEXT)))
    assert left() == []
    assert fetch(recipe(fetched_size=len(TEXT))).read_bytes() == TEXT
    assert ranges(site) == [None, None]


def test_a_connection_that_never_brings_it_all_is_given_up_and_the_part_kept(site, recipe):
    site.missing_bytes, site.has_ranges = 10, False
    with pytest.raises(EmbedxError, match=r"mine: cannot be fetched \(.*the connection ended after .*; the 1\.7 kB that came"):
        fetch(recipe())
    assert left() == ["mine.txt.part", "mine.txt.part.json"]
    assert not (data_folder() / "mine.txt").exists()


def test_interrupted_it_goes_on_the_next_time(site, recipe, monkeypatch):
    monkeypatch.setattr(fetching, "BLOCK_BYTES", 100)
    received, calls = fetching._received, []

    def three_blocks(*arguments):
        calls.append(1)
        if len(calls) == 4:
            raise KeyboardInterrupt
        return received(*arguments)

    monkeypatch.setattr(fetching, "_received", three_blocks)
    with pytest.raises(KeyboardInterrupt):
        fetch(recipe())
    assert left() == ["mine.txt.part", "mine.txt.part.json"]
    assert fetch(recipe()).read_bytes() == TEXT
    assert ranges(site) == [None, "bytes=300-"]


def test_a_server_that_takes_back_the_length_it_told(site, recipe):
    site.missing_bytes = 10
    with pytest.raises(EmbedxError, match="the server has another file than the one that was begun"):
        fetch(recipe())
    assert left() == []


def test_what_has_another_length_or_checksum_is_not_kept(site, recipe):
    with pytest.raises(EmbedxError, match="has 1,690 bytes instead of 1,691"):
        fetch(recipe(fetched_size=len(TEXT) + 1))
    with pytest.raises(EmbedxError, match=f"sha256 is {SHA256} instead of {'0' * 64}"):
        fetch(recipe(sha256="0" * 64))
    site.tells_length = False
    with pytest.raises(EmbedxError, match=f"has more than {len(TEXT) - 1:,} bytes"):
        fetch(recipe(fetched_size=len(TEXT) - 1))
    site.content = b""
    with pytest.raises(EmbedxError, match="0 bytes came"):
        fetch(recipe())
    assert left() == []


def test_a_damaged_part_costs_another_round(site, recipe):
    site.cuts = [300] + 3 * [0]
    with pytest.raises(EmbedxError):
        fetch(recipe(sha256=SHA256))
    part = data_folder() / "mine.txt.part"
    part.write_bytes(part.read_bytes().swapcase())
    notes = Notes()
    assert fetch(recipe(sha256=SHA256), progress=notes).read_bytes() == TEXT
    assert any("so it is fetched from the beginning" in note for note in notes.notes)


@pytest.mark.parametrize("has_checksum", [True, False])
def test_another_mirror_goes_on_with_a_part_only_if_a_checksum_can_tell(site, recipe, has_checksum):
    site.cuts = [300] + 3 * [0]
    own = {"sha256": SHA256} if has_checksum else {}
    assert fetch(recipe("mine.txt", "b/mine.txt", **own)).read_bytes() == TEXT
    assert site.asked[-1] == ("/b/mine.txt", "bytes=300-" if has_checksum else None)


@pytest.mark.parametrize("size", [len(TEXT), len(TEXT) + 7])
def test_a_part_that_is_whole_already_or_too_long(site, recipe, size):
    data_folder().mkdir(parents=True)
    (data_folder() / "mine.txt.part").write_bytes((TEXT + b"0123456")[:size])
    (data_folder() / "mine.txt.part.json").write_text(f'{{"url": "{site.url}/mine.txt", "version": "\\"1\\""}}')
    assert fetch(recipe()).read_bytes() == TEXT
    assert left() == []


def test_mirrors_are_tried_in_order_and_redirects_followed(site, recipe):
    site.statuses = {"/a/mine.txt": 404}
    site.moved = {"/b/mine.txt": "/c/mine.txt"}
    notes = Notes()
    assert fetch(recipe("a/mine.txt", "b/mine.txt"), progress=notes).read_bytes() == TEXT
    assert [path for path, _ in site.asked] == ["/a/mine.txt", "/b/mine.txt", "/c/mine.txt"]
    assert any("HTTP 404 Not Found; the next mirror is tried" in note for note in notes.notes)


def test_a_server_that_is_busy_is_asked_again(site, recipe):
    site.statuses = {"/mine.txt": 503}
    with pytest.raises(EmbedxError, match="HTTP 503"):
        fetch(recipe())
    assert len(site.asked) == 1 + len(fetching.PAUSES)


def test_without_a_network_one_line_says_at_once_what_to_put_where(recipe, monkeypatch):
    monkeypatch.setattr(fetching, "PAUSES", (3600.0,))
    away = Recipe("mine", data_folder(), files=["mine.txt"], urls=["http://127.0.0.1:1/mine.txt"])
    message = (
        r"mine: cannot be fetched \(http://127\.0\.0\.1:1/mine\.txt: Connection refused\); or fetch it elsewhere and put "
        f"mine.txt into {re.escape(str(data_folder()))}"
    )
    with pytest.raises(EmbedxError, match=message):
        fetch(away)
    assert left() == []


@pytest.mark.parametrize("algorithm", ["md5", "sha1", "sha256"])
def test_a_list_of_checksums_is_looked_up(site, recipe, algorithm):
    def listing(content):
        return f"{hashlib.new(algorithm, content).hexdigest()}  mine-2024.txt\n{'0' * 40}  yours.txt\n".encode()

    own = {"checksums": f"{site.url}/sums.txt", "checksum_of": "mine-*.txt"}
    site.sums = listing(OTHER)
    with pytest.raises(EmbedxError, match=f"{algorithm} is "):
        fetch(recipe(**own))
    site.sums = listing(TEXT)
    assert fetch(recipe(**own)).read_bytes() == TEXT


@pytest.mark.parametrize("sums", [None, b"no list"])
def test_without_the_list_the_length_is_what_is_checked(site, recipe, sums):
    if sums is None:
        site.statuses = {"/sums.txt": 404}
    else:
        site.sums = sums
    notes = Notes()
    assert fetch(recipe(checksums=f"{site.url}/sums.txt"), progress=notes).read_bytes() == TEXT
    assert any("only the length is checked" in note for note in notes.notes)


def test_a_file_that_lies_elsewhere_is_found_too(site, recipe, tmp_path):
    (tmp_path / "mine.toml").write_text(f'kind = "text"\nreader = "text"\nfiles = ["mine.txt"]\nurls = ["{site.url}/mine.txt"]')
    path = fetch_named("mine", tmp_path / "disk")
    assert path == tmp_path / "disk" / "mine.txt"
    (source,) = resolve(["mine"])
    assert (source.name, source.size) == ("mine", len(TEXT))


def test_what_is_here_already_is_not_fetched(site, recipe, tmp_path):
    (tmp_path / "mine.txt").write_text("my own")
    assert fetch(recipe()).read_text() == "my own"
    assert site.asked == []


def test_two_processes_do_not_fetch_the_same_file(recipe):
    data_folder().mkdir(parents=True)
    with open(data_folder() / "mine.txt.part", "wb") as part:
        fcntl.flock(part, fcntl.LOCK_EX)
        with pytest.raises(EmbedxError, match="another process is fetching it"):
            fetch(recipe())


def test_a_file_of_another_length_is_not_taken_for_it(recipe):
    data_folder().mkdir(parents=True)
    (data_folder() / "mine.txt").write_bytes(TEXT[:-1])
    with pytest.raises(EmbedxError, match=r"mine\.txt: has 1,689 bytes instead of 1,690; remove it"):
        fetch(recipe(fetched_size=len(TEXT)))


def test_what_cannot_be_fetched_says_why(site, tmp_path, recipe):
    with pytest.raises(EmbedxError, match=r"nothing: no recipe of that name; `embedx corpus list` shows the recipes"):
        fetch_named("nothing")
    with pytest.raises(EmbedxError, match=r"eurlex-4k: cannot be fetched by a program; get it from http://manikvarma\.org"):
        fetch_named("eurlex-4k")
    with pytest.raises(EmbedxError, match="only http and https addresses are fetched"):
        fetch(Recipe("mine", tmp_path, files=["mine.txt"], urls=["file:///etc/passwd"]))
    (tmp_path / "blocked").write_text("a file")
    with pytest.raises(EmbedxError, match=r"blocked.*; make room there or choose a folder by --to"):
        fetch(recipe(), tmp_path / "blocked")

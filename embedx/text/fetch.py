"""Downloads the file of a recipe: resumed where it was cut, from several mirrors, in its place only when it is whole.

    FOLDER/FILE             the file, once it has been checked
    FOLDER/FILE.part        as far as it came; locked while a process fetches it
    FOLDER/FILE.part.json   where that part came from, and by what the server knows the version it is of

A part is resumed only where the rest is of the same file: the request has the version (If-Range), the whole length must be the
same, and from another mirror the file must have a checksum. Otherwise it is fetched from its beginning.
"""

import contextlib
import fnmatch
import hashlib
import http.client
import io
import json
import os
import posixpath
import re
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx.errors import EmbedxError
from embedx.storage import atomic
from embedx.storage.disk import amount
from embedx.text.recipes import Recipe, data_folder, find_recipe, near_recipe
from embedx.text.streams import BLOCK_BYTES, CountedReader, reason
from embedx.training.progress import Progress, Silent

try:
    import fcntl
except ImportError:  # Windows: there nobody is kept from fetching the same file twice at a time
    fcntl = None  # type: ignore[assignment]

PAUSES = (1.0, 2.0, 5.0, 10.0)  # seconds before another attempt that got no further; after as many the next mirror is tried
TIMEOUT = 60.0  # seconds without a byte
MAX_LIST_BYTES = 1 << 22  # of a list of checksums
ALGORITHMS = {32: "md5", 40: "sha1", 64: "sha256"}  # by the digits of a checksum
CONTENT_RANGE = re.compile(r"bytes (?:(\d+)-\d+|\*)/(\d+|\*)")
OTHER_FILE = "the server has another file than the one that was begun"
AGENT = "embedx (https://pypi.org/project/embedx)"  # Wikimedia wants a name; Python's own is refused here and there


def fetch_named(name: str, to: Path | None = None, progress: Progress | None = None) -> Path:
    """As `fetch`, by the name of a recipe. Raises `EmbedxError` where there is none."""
    recipe = find_recipe(name)
    if recipe is None:
        raise EmbedxError(f"{name}: no recipe of that name; {near_recipe(name)}")
    return fetch(recipe, to, progress)


def fetch(recipe: Recipe, to: Path | None = None, progress: Progress | None = None) -> Path:
    """The file of a recipe, fetched unless it is there, in the folder `to` or where recipes look for it in any case.

    Raises `EmbedxError` where it cannot be had. Whatever ends this, Ctrl-C included, leaves the part that came, which the next
    call resumes.
    """
    progress = progress or Silent()
    if recipe.package:
        return Path(recipe.find_files()[0])
    if not recipe.urls:
        how = f"; get it {recipe.obtain}" if recipe.obtain else f"; its recipe, {recipe.folder}, names no URL"
        raise EmbedxError(f"{recipe.name}: cannot be fetched by a program{how}")
    folder = to or data_folder()
    if to is None and (here := recipe.files_here()) and Path(here[0]).parent != folder:
        progress.note(f"{here[0]}: is here; nothing is fetched")
        return Path(here[0])
    target = folder / recipe.download
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if not target.exists():
            _Fetch(recipe, target, progress).run()
        elif recipe.fetched_size in (None, size := target.stat().st_size):
            progress.note(f"{target}: is there, {amount(target.stat().st_size)}; nothing is fetched")
        else:
            raise EmbedxError(
                f"{target}: has {size:,} bytes instead of {recipe.fetched_size:,}; remove it, and it is fetched again"
            )
    except OSError as error:
        raise EmbedxError(
            f"{recipe.name}: {folder}: {error.strerror or error}; make room there or choose a folder by --to"
        ) from error
    if to is not None:
        _link(target, progress)
    if recipe.unpack:
        progress.note(f"{recipe.name}: unpack it: {recipe.unpack}")
    return target


def _link(target: Path, progress: Progress) -> None:
    """Have the recipe find a file that lies elsewhere, by a link in the folder where it looks."""
    link = data_folder() / target.name
    with contextlib.suppress(OSError):
        if link.is_symlink():
            link.unlink()
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target.resolve())
    if not link.exists():
        progress.note(f"{link} cannot be made, so name {target} itself to embedx train")


class _FailedError(Exception):
    """An address cannot give the file, whatever else is tried there."""


class _CutError(Exception):
    """The connection ended, or could not be made; another attempt may come further."""


@dataclass
class _Fetch:
    """The fetching of one file."""

    recipe: Recipe
    target: Path
    progress: Progress
    checksum: tuple[str, str] | None = None  # its algorithm, and the digits that the content must have
    has_received: bool = False  # anything at all
    has_resumed: bool = False  # what came earlier, or by an earlier connection

    def run(self) -> None:
        self.path = self.target.with_name(self.target.name + ".part")
        self.about = self.target.with_name(self.target.name + ".part.json")
        with open(self.path, "ab+") as self.part:
            self._lock()
            try:
                if self.target.exists():  # another process has just fetched it
                    self.part.truncate(0)
                    return
                self.checksum = self._known_checksum()
                self._from_any()
                os.fsync(self.part.fileno())
            finally:
                if not self._size():
                    self._remove()
        os.replace(self.path, self.target)
        self._remove()

    def _lock(self) -> None:
        if fcntl is None:
            return
        try:
            fcntl.flock(self.part.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise EmbedxError(f"{self.path}: another process is fetching it; wait for that one") from error
        except OSError:  # a file system without locks
            pass

    def _remove(self) -> None:
        for each in (self.path, self.about):
            with contextlib.suppress(OSError):
                each.unlink()

    def _from_any(self) -> None:
        """Have the whole file in `part`, checked, from the first mirror that gives it."""
        failures = []
        for url in self.recipe.urls:
            try:
                return self._from(url)
            except _FailedError as error:
                failures.append(f"{url}: {error}")
                if len(failures) < len(self.recipe.urls):
                    self.progress.note(f"{url}: {error}; the next mirror is tried")
        kept = f"; the {amount(self._size())} that came are kept, and resumed next time" if self._size() else ""
        raise EmbedxError(
            f"{self.recipe.name}: cannot be fetched ({'; '.join(failures)}){kept}; or fetch it elsewhere and put "
            f"{self.target.name} into {self.target.parent}"
        )

    def _known_checksum(self) -> tuple[str, str] | None:
        if self.recipe.sha256:
            return "sha256", self.recipe.sha256
        if not self.recipe.checksums:
            return None
        try:
            with _opened(self.recipe.checksums) as response:
                text = response.read(MAX_LIST_BYTES).decode("utf-8", "replace")
        except (OSError, http.client.HTTPException, ValueError) as error:
            if isinstance(error, urllib.error.HTTPError):
                error.close()
            self.progress.note(f"{self.recipe.checksums}: {reason(error)}; only the length is checked")
            return None
        name = self.recipe.checksum_of or self.target.name
        for line in text.splitlines():
            digits, _, listed = line.partition(" ")
            if fnmatch.fnmatchcase(posixpath.basename(listed.strip().lstrip("*")), name) and len(digits) in ALGORITHMS:
                return ALGORITHMS[len(digits)], digits.lower()
        self.progress.note(f"{self.recipe.checksums}: does not list {name}; only the length is checked")
        return None

    def _from(self, url: str) -> None:
        """Have the whole file in `part`, checked. Raises `_FailedError` where this address does not give it."""
        self._all_from(url)
        wrong = self._wrong()
        if wrong and self.has_resumed:
            self.progress.note(f"{self.path}: {wrong}, so it is fetched from the beginning")
            self._begin_anew()
            self._all_from(url)
            wrong = self._wrong()
        if wrong:
            self._begin_anew()
            raise _FailedError(wrong)

    def _begin_anew(self) -> None:
        self.part.truncate(0)
        self.has_resumed = False

    def _all_from(self, url: str) -> None:
        """Have all that the server says there is, by as many connections as it takes while each gets further."""
        furthest, failures = self._size(), 0
        while True:
            try:
                return self._further(url)
            except _CutError as error:
                reached = self._size()
                failures = 0 if reached > furthest else failures + 1
                furthest = max(furthest, reached)
                if failures > len(PAUSES):
                    raise _FailedError(str(error)) from error
                time.sleep(PAUSES[max(failures - 1, 0)])

    def _further(self, url: str) -> None:
        """Resume the part, by one connection, to the end of the file. Raises `_CutError` or `_FailedError`."""
        start = self._size()
        about = self._about_part() if start else {}
        is_known = about.get("url") == url and (about.get("version") or about.get("length"))
        if not is_known and not (self.checksum and about.get("length")):
            start, about = 0, {}
        headers = {"Range": f"bytes={start}-"} if start else {}
        if start and is_known and about.get("version"):
            headers["If-Range"] = str(about["version"])
        try:
            response = _opened(url, headers)
        except urllib.error.HTTPError as error:
            with error:
                if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE and start:
                    if _ranged(error.headers.get("Content-Range"))[1] == start == (about.get("length") or start):
                        self.has_resumed = True
                        return  # it was all there
                    self._begin_anew()
                    raise _CutError(OTHER_FILE) from error
                kind = _CutError if error.code >= 500 or error.code in (408, 429) else _FailedError
                raise kind(f"HTTP {error.code} {error.reason}") from error
        except (OSError, http.client.HTTPException, ValueError) as error:
            why = getattr(error, "reason", error)
            # Nothing is waited for where there is no network, or no such server.
            kind = _CutError if self.has_received else _FailedError
            raise kind(reason(why) if isinstance(why, BaseException) else str(why)) from error
        with response:
            self._receive(url, response, start, about)

    def _receive(self, url: str, response: Any, start: int, about: dict[str, Any]) -> None:
        """Write what the server sends to the end of the part, or in place of it."""
        version = response.headers.get("ETag") or response.headers.get("Last-Modified")
        if version and version.startswith("W/"):  # of no use to If-Range
            version = response.headers.get("Last-Modified")
        length = response.length
        if response.status == http.client.PARTIAL_CONTENT:
            first, length = _ranged(response.headers.get("Content-Range"))
            is_other = about.get("length") not in (None, length)
            if about.get("url") == url:
                is_other |= version is not None and about.get("version") not in (None, version)
                version = version or about.get("version")
            if first != start or is_other:
                self._begin_anew()
                raise _CutError(OTHER_FILE)
            self.has_resumed = True
        elif start:
            self.progress.note(f"{url}: begins with the first byte again, as the server does not resume within that file")
            start = 0
        expected = self.recipe.fetched_size
        if expected is not None and length not in (None, expected):
            raise _FailedError(f"has {length:,} bytes instead of {expected:,}")
        self.part.truncate(start)
        atomic.write_text(self.about, json.dumps({"url": url, "version": version, "length": length}))
        self.progress.start(f"fetching {self.target.name}", length, "B")
        try:
            self._write(CountedReader(response, response.length, keep_open=True), start)
        finally:
            self.progress.finish()

    def _write(self, body: CountedReader, done: int) -> None:
        buffer = memoryview(bytearray(BLOCK_BYTES))
        reported = 0.0
        while n := _received(body, buffer):
            self.has_received = True
            self.part.write(buffer[:n])
            self.part.flush()
            done += n
            if (now := time.monotonic()) - reported > 0.1:
                self.progress.update(done)
                reported = now
            if self.recipe.fetched_size is not None and done > self.recipe.fetched_size:
                self._begin_anew()
                raise _FailedError(f"has more than {self.recipe.fetched_size:,} bytes")
        self.progress.update(done)

    def _about_part(self) -> dict[str, Any]:
        """Where the part came from, as far as that is known."""
        try:
            found = json.loads(self.about.read_bytes())
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _wrong(self) -> str:
        """What is wrong with the file that came; "" if nothing is."""
        size, expected = self._size(), self.recipe.fetched_size
        if size == 0 or expected not in (None, size):
            return f"{size:,} bytes came" + (f" instead of {expected:,}" if expected else "")
        if self.checksum is None:
            return ""
        algorithm, digits = self.checksum
        self.part.seek(0)
        self.progress.note(f"checking {self.target.name}, {amount(size)}")
        found = hashlib.file_digest(self.part, algorithm).hexdigest()
        return "" if found == digits else f"{algorithm} is {found} instead of {digits}"

    def _size(self) -> int:
        return os.fstat(self.part.fileno()).st_size


def _opened(url: str, headers: dict[str, str] | None = None) -> Any:
    """The response to a request; raises OSError, HTTPException or ValueError."""
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ValueError("only http and https addresses are fetched")
    return urllib.request.urlopen(
        urllib.request.Request(url, headers={"User-Agent": AGENT, **(headers or {})}), timeout=TIMEOUT
    )


def _ranged(value: str | None) -> tuple[int | None, int | None]:
    """Where a Content-Range begins, and how long the whole file is."""
    found = CONTENT_RANGE.fullmatch(value or "")
    first, length = found.groups() if found else (None, None)
    return None if first is None else int(first), int(length) if length and length != "*" else None


def _received(body: io.RawIOBase, buffer: memoryview) -> int:
    try:
        return body.readinto(buffer) or 0
    except OSError as error:
        raise _CutError(reason(error)) from error

"""Downloads the files of a recipe from the first mirror that has them. An interrupted download is
resumed; a file gets its name when it is complete.

    FOLDER/FILE         the complete file, after its size and checksum were verified
    FOLDER/FILE.part    the bytes received so far, with the date of the server's version; locked by
                        the process that downloads it

A part is resumed if the server still has the version of that date (If-Range).

From an archive of labelled data, the files named by the recipe are unpacked next to it; texts in
folders named after their labels are written as lines of one file. Archives of text are read as they
are.
"""

import contextlib
import fnmatch
import hashlib
import http.client
import os
import posixpath
import re
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from email.utils import formatdate, parsedate_to_datetime
from functools import partial
from pathlib import Path, PurePosixPath
from typing import IO

from embedx.errors import DataError, Setting, public_url
from embedx.runtime.atomic import replacing, sync
from embedx.runtime.disk import amount
from embedx.runtime.locks import is_locked, lock, unlock
from embedx.runtime.progress import SILENT, Progress
from embedx.text.archives import members
from embedx.text.decompression import DAMAGED, damage_explained, unpacked
from embedx.text.opening import (
    AGENT,
    BLOCK_BYTES,
    SECONDS_WITHOUT_A_BYTE,
    CountedReader,
    open_source,
    reason,
)
from embedx.text.recipes import (
    Download,
    Recipe,
    data_folder,
    find_recipe,
    near_recipe,
)
from embedx.text.sources import ALL_MEMBERS, ARCHIVE_NAME, Source

# Seconds between one failed attempt and the next.
PAUSES = (1.0, 2.0, 5.0, *[10.0] * 8)
MAX_NAME_BYTES = 255
CONTENT_RANGE = re.compile(r"bytes (\d+)-")
# HTTP statuses after which another attempt may succeed, in addition to those from 500 on.
STATUSES_TO_RETRY = (408, 416, 429)
# The date of a file whose server sends none; its download is never resumed.
NEVER = "Thu, 01 Jan 1970 00:00:00 GMT"
MAX_DATE = float(1 << 33)


def fetch(named: Recipe | str, to: Path | None = None, progress: Progress = SILENT) -> list[Path]:
    """Download the files of a recipe (or of the recipe with a name) into the folder `to`, by
    default the data folder, unless they exist; return their paths.

    Raises `EmbedxError` if one cannot be downloaded. An interrupted download leaves a partial file,
    which the next call resumes.
    """
    recipe = find_recipe(named) if isinstance(named, str) else named
    if recipe is None:
        raise DataError(named, None, "no recipe of that name", near_recipe(str(named)))
    downloads = recipe.to_fetch
    if not downloads:
        # if they are missing, the error states how to get them
        return [Path(file) for file in recipe.find_files()]
    for download in downloads:
        _check_name(recipe, download)
    files = _files_here(recipe, to)
    if files:
        progress.note(f"{listed_paths(files)}: already here; nothing is fetched")
        return files

    paths = [_fetched(recipe, download, to, progress) for download in downloads]
    if recipe.kind == "classes":
        paths = [file for path in paths for file in _unpacked(recipe, path, to, progress)]
    return paths


def listed_paths(paths: list[Path]) -> str:
    """The first path and the number of further ones, for a message."""
    if len(paths) == 1:
        return str(paths[0])
    return f"{paths[0]} and {len(paths) - 1} more"


def _fetched(recipe: Recipe, download: Download, to: Path | None, progress: Progress) -> Path:
    """The path of one file of a recipe, downloaded if it is missing."""
    file = _file_here(recipe, download, to)
    if file is not None:
        progress.note(f"{file}: already here")
        return file
    target = (to or data_folder()) / download.file
    with _writing(target):
        _download_to(target, recipe, download, progress)
    if to is not None:
        _link(target, download.file, progress)
    return target


def _check_name(recipe: Recipe, download: Download) -> None:
    """Raise `DataError` if a URL does not end in the name of a file."""
    name = posixpath.basename(download.file)
    if name in ("", ".", "..") or len(os.fsencode(f"{name}.part")) > MAX_NAME_BYTES:
        url = public_url(download.urls[0])
        problem = f"its first URL does not end in the name of a file: {url}"
        remedy = "correct urls in the recipe"
        raise DataError(f"{recipe.folder / recipe.name}.toml", None, problem, remedy)


def _files_here(recipe: Recipe, to: Path | None) -> list[Path]:
    """The files of a recipe if those of all its parts are on this machine, in any folder where
    recipes look; empty if one is missing, or must be in the folder `to`.
    """
    if to is not None:
        return []
    parts = [recipe.part(part) for part in recipe.parts]
    fetched = [part for part in (recipe, *parts) if not part.obtain and part.build == recipe.build]
    if not fetched or not all(part.is_complete() for part in fetched):
        return []
    return [Path(file) for file in recipe.files_here()]


def _file_here(recipe: Recipe, download: Download, to: Path | None) -> Path | None:
    """The path of a file that need not be downloaded: in the folder `to` or, without one, in any
    folder where recipes look; None if it is missing.
    """
    places = recipe.places() if to is None else [to]
    paths = [place / download.file for place in places]
    return next((path for path in paths if path.exists()), None)


def _download_to(target: Path, recipe: Recipe, download: Download, progress: Progress) -> None:
    """Download a file into a locked partial file, and rename that to `target`."""
    part = target.with_name(f"{target.name}.part")
    if is_locked(part):
        raise DataError(part, None, "another process is fetching it", "wait for that one")
    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink():
        raise DataError(part, None, "a link, which is not written through", "delete it")
    # unlike `Path.touch`, keeps the date of an existing part
    open(part, "ab").close()
    part_lock = lock(part)
    try:
        _download(recipe, download, part, progress)
        part.replace(target)
    finally:
        unlock(part_lock)
        if part.exists() and not part.stat().st_size:
            part.unlink()


def _link(target: Path, file: str, progress: Progress) -> None:
    """Link a file in another folder from the data folder, where its recipe finds it."""
    link = data_folder() / file
    with contextlib.suppress(OSError):
        if link.is_symlink():
            link.unlink()
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target.resolve())
    if not link.exists():
        progress.note(f"{link} cannot be made, so name {target} itself to embedx")


# ---- archives of labelled data


def _unpacked(recipe: Recipe, path: Path, to: Path | None, progress: Progress) -> list[Path]:
    """The unpacked files of an archive that the recipe names; the path itself if it is not an
    archive.
    """
    if not ARCHIVE_NAME.fullmatch(path.name):
        return [path]
    folder = to or data_folder()
    parts = [part for part in (recipe, *map(recipe.part, recipe.parts)) if part.members]
    if parts:
        return [_texts_by_folder(part, path, folder, to, progress) for part in parts]
    source = Source(str(path), "any", None)
    files = []
    progress.start(f"unpacking {path.name}", path.stat().st_size, "B")
    with damage_explained(source), open_source(source) as stored:
        for name, content in members(stored, ALL_MEMBERS, partial(unpacked, source)):
            member = _member_named(recipe, name)
            if member is not None:
                files.append(_write_member(folder / member, content))
                if to is not None:
                    _link(folder / member, str(member), progress)
            progress.update(stored.count)
    progress.finish()
    if not files:
        problem = f"holds none of the files of {recipe.name}, such as {recipe.files[0]}"
        raise DataError(path, None, problem, "correct files in the recipe")
    return files


def _texts_by_folder(
    part: Recipe, path: Path, folder: Path, to: Path | None, progress: Progress
) -> Path:
    """Write the file of a part from the texts in an archive that it names: one line per text,
    labelled with the name of its folder.
    """
    file = folder / part.files[0]
    source = Source(str(path), "any", None)
    progress.start(f"reading {path.name}", path.stat().st_size, "B")
    with _writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with (
        damage_explained(source),
        open_source(source) as stored,
        _writing(file),
        replacing(file) as out,
    ):
        for name, content in members(stored, part.members, partial(unpacked, source)):
            label = PurePosixPath(name).parent.name
            text = b"".join(iter(partial(_read_member, content), b""))
            words = " ".join(text.decode("latin-1").split())
            out.write(f"__label__{label} {words}\n".encode())
            progress.update(stored.count)
    progress.finish()
    if to is not None:
        _link(file, part.files[0], progress)
    return file


def _member_named(recipe: Recipe, name: str) -> PurePosixPath | None:
    """The target path of an archive member if the recipe names it; None for other members, and for
    paths that lead out of the folder.
    """
    path = PurePosixPath(posixpath.normpath(name))
    if path.is_absolute() or ".." in path.parts:
        return None
    is_named = any(fnmatch.fnmatchcase(str(path), pattern) for pattern in recipe.patterns())
    return path if is_named else None


def _write_member(file: Path, content: IO[bytes]) -> Path:
    """Write the content of an archive member to a file, completely or not at all."""
    with _writing(file):
        file.parent.mkdir(parents=True, exist_ok=True)
    with _writing(file), replacing(file) as out:
        while block := _read_member(content):
            out.write(block)
    return file


class _UnreadableError(Exception):
    """A member of an archive cannot be read; the reason is `__cause__`."""


def _read_member(content: IO[bytes]) -> bytes:
    """The next bytes of a member of an archive. Raises `_UnreadableError` where it is damaged."""
    try:
        return content.read(BLOCK_BYTES)
    except DAMAGED as error:
        raise _UnreadableError from error


@contextlib.contextmanager
def _writing(file: Path) -> Iterator[None]:
    """Raise `DataError` if a file cannot be written; errors of a damaged archive are passed on."""
    try:
        yield
    except _UnreadableError as error:
        raise error.__cause__ or error from None
    except OSError as error:
        problem = f"cannot be written ({error.strerror or error})"
        remedy = ("free some space or choose another folder with ", Setting("to"))
        raise DataError(file, None, problem, remedy) from error


# ---- one file


class _FailedError(Exception):
    """A server did not send the file.

    may_retry  another attempt may succeed
    """

    def __init__(self, message: str, may_retry: bool = False) -> None:
        super().__init__(message)
        self.may_retry = may_retry


def _download(recipe: Recipe, download: Download, part: Path, progress: Progress) -> None:
    """Complete `part` from the first mirror that has the file, and check it."""
    failures = []
    for url in download.urls:
        try:
            _download_from(url, part, progress)
            _check(url, download, part, progress)
            return
        except _FailedError as error:
            failures.append(f"{public_url(url)}: {error}")
            if len(failures) < len(download.urls):
                progress.note(f"{public_url(url)}: {error}; trying the next mirror")
    size = part.stat().st_size
    kept = f"; the {amount(size)} received are kept, and resumed next time" if size else ""
    remedy = f"; or fetch it elsewhere and put {part.stem} into {part.parent}"
    raise DataError(recipe.name, None, f"cannot be fetched ({'; '.join(failures)}){kept}{remedy}")


def _check(url: str, download: Download, part: Path, progress: Progress) -> None:
    """Raise `_FailedError` if a complete part differs from the size or checksum in the recipe.
    Without a checksum, say that the file is not checked.
    """
    size = part.stat().st_size
    if download.bytes and size != download.bytes:
        os.truncate(part, 0)
        raise _FailedError(f"{size:,} bytes came instead of {download.bytes:,}")
    if download.sha256:
        _check_sha256(part, download.sha256, progress)
    elif url.startswith("http://"):
        progress.warn(
            f"{public_url(url)}: fetched without encryption or checksum; it may have been changed"
            " on the way"
        )
    else:
        progress.note(f"{part.stem}: not checked, as its recipe has no sha256")


def _check_sha256(part: Path, expected: str, progress: Progress) -> None:
    """Raise `_FailedError`, after emptying the part, if its checksum is not the expected one."""
    progress.note(f"checking {part.stem}, {amount(part.stat().st_size)}")
    with open(part, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != expected:
        os.truncate(part, 0)
        raise _FailedError(f"sha256 is {sha256} instead of {expected}")


def _download_from(url: str, part: Path, progress: Progress) -> None:
    """Receive the rest of a file; a broken connection is opened again."""
    for pause in (*PAUSES, None):
        try:
            _receive(url, part, progress)
            return
        except _FailedError as error:
            if not error.may_retry or pause is None:
                raise
            time.sleep(pause)


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Append the answer to the part, or replace it if the server cannot resume that version."""
    response = _request(url, part)
    start = part.stat().st_size
    if start and response.status != http.client.PARTIAL_CONTENT:
        progress.note(
            f"{public_url(url)}: begins with the first byte again: the file has changed, or the"
            " server does not resume downloads"
        )
        start = 0
    if response.status == http.client.PARTIAL_CONTENT and not _continues(response, start):
        response.close()
        os.truncate(part, 0)
        raise _FailedError("it sends another part of the file than was asked for", may_retry=True)
    _write(response, start, part, progress)
    if not part.stat().st_size:
        raise _FailedError("0 bytes came")


def _write(response: http.client.HTTPResponse, start: int, part: Path, progress: Progress) -> None:
    """Write an answer to the part, keeping its first `start` bytes."""
    date = _date_of(response)
    total = None
    if response.length is not None:
        total = start + response.length
    mode = "ab" if start else "wb"
    with (
        response,
        open(part, mode) as out,
        CountedReader(response, response.length) as body,
    ):
        progress.start(f"fetching {part.stem}", total, "B")
        try:
            while block := _received(body):
                out.write(block)
                out.flush()
                os.utime(part, (date, date))
                progress.update(start + body.count)
        finally:
            progress.finish()
            sync(out)


def _request(url: str, part: Path) -> http.client.HTTPResponse:
    """Request the file, from the end of the part on if the server still has the same version."""
    if not url.startswith(("http://", "https://")):
        raise _FailedError("only http and https addresses are fetched")
    headers = {"User-Agent": AGENT}
    start = part.stat().st_size
    if start:
        headers["Range"] = f"bytes={start}-"
        headers["If-Range"] = formatdate(part.stat().st_mtime, usegmt=True)
    request = urllib.request.Request(url, headers=headers)
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(
            request, timeout=SECONDS_WITHOUT_A_BYTE
        )
        return response
    except urllib.error.HTTPError as error:
        error.close()
        # the part has all bytes of the file, or more
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            os.truncate(part, 0)
        may_retry = error.code >= 500 or error.code in STATUSES_TO_RETRY
        raise _FailedError(f"HTTP {error.code} {error.reason}", may_retry) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", error)
        message = reason(why) if isinstance(why, OSError) else str(why)
        # Without a network, or without such a server, waiting does not help.
        raise _FailedError(message, may_retry=start > 0) from error


def _continues(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether the answer is partial, as requested, and begins at byte `start`."""
    sent = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    return start > 0 and sent is not None and int(sent[1]) == start


def _date_of(response: http.client.HTTPResponse) -> float:
    """The date of the server's version, in seconds; 0 if missing or unreadable."""
    try:
        date = parsedate_to_datetime(response.headers.get("Last-Modified", NEVER)).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        date = 0.0
    return min(max(date, 0.0), MAX_DATE)


def _received(body: CountedReader) -> bytes | None:
    """The next bytes of an answer, empty at its end. Raises `_FailedError` if the connection
    breaks.
    """
    try:
        return body.read(BLOCK_BYTES)
    except OSError as error:
        raise _FailedError(reason(error), may_retry=True) from error

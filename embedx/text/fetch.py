"""Downloads the file of a recipe: resumed where it was cut, from the first mirror that has it,
named once it is whole.

    FOLDER/FILE         the file, once all of it came and its checksum was compared
    FOLDER/FILE.part    what has come so far, with the date of the server's version; locked by the
                        process that downloads it

A part is resumed if the server still has the version of that date (If-Range).
"""

import contextlib
import hashlib
import http.client
import os
import re
import time
import urllib.error
import urllib.request
from email.utils import formatdate, parsedate_to_datetime
from pathlib import Path

from embedx.errors import DataError, Setting
from embedx.runtime.atomic import sync
from embedx.runtime.disk import amount
from embedx.runtime.locks import is_locked, lock, unlock
from embedx.runtime.progress import SILENT, Progress
from embedx.text.opening import AGENT, BLOCK_BYTES, SECONDS_WITHOUT_A_BYTE, CountedReader, reason
from embedx.text.recipes import Recipe, data_folder, find_recipe, near_recipe, public_url

# Seconds between one failed attempt and the next.
PAUSES = (1.0, 2.0, 5.0, *[10.0] * 8)
MAX_NAME_BYTES = 255
CONTENT_RANGE = re.compile(r"bytes (\d+)-")
# The date of a file of which the server does not say one; it is never resumed.
# of HTTP, beside those from 500 on
CODES_TO_RETRY = (408, 416, 429)
NEVER = "Thu, 01 Jan 1970 00:00:00 GMT"


def fetch(named: Recipe | str, to: Path | None = None, progress: Progress = SILENT) -> Path:
    """The file of a recipe, given itself or by name, downloaded into the folder `to` (the data
    folder) unless it is there.

    Raises `EmbedxError` where it cannot be downloaded. An interrupted download leaves its part,
    which the next call resumes.
    """
    recipe = find_recipe(named) if isinstance(named, str) else named
    if recipe is None:
        raise DataError(named, None, "no recipe of that name", f"{near_recipe(str(named))}")
    if not recipe.urls:
        # raises what says how to get the files
        return Path(recipe.find_files()[0])
    _check_name(recipe)
    file = _file_here(recipe, to)
    if file is not None:
        progress.note(f"{file}: already here; nothing is fetched")
        return file
    target = (to or data_folder()) / recipe.download
    try:
        _download_to(target, recipe, progress)
    except OSError as error:
        problem = f"{target.parent}: {error.strerror or error}"
        remedy = ("free some space or choose another folder with ", Setting("to"))
        raise DataError(recipe.name, None, problem, remedy) from error
    if to is not None:
        _link(target, progress)
    return target


def _check_name(recipe: Recipe) -> None:
    """Raise `DataError` if the recipe's URL ends in nothing that can be the name of a file."""
    name = recipe.download
    if name in ("", ".", "..") or len(os.fsencode(f"{name}.part")) > MAX_NAME_BYTES:
        problem = f"its first URL does not end in the name of a file: {public_url(recipe.urls[0])}"
        remedy = "correct urls in the recipe"
        raise DataError(f"{recipe.folder / recipe.name}.toml", None, problem, remedy)


def _file_here(recipe: Recipe, to: Path | None) -> Path | None:
    """The file of a recipe on this machine: in the folder `to` or, without one, wherever recipes
    look for it; None if it is not there.
    """
    target = (to or data_folder()) / recipe.download
    if target.exists():
        return target
    if to is not None:
        return None
    files = recipe.files_here()
    return Path(files[0]) if files else None


def _download_to(target: Path, recipe: Recipe, progress: Progress) -> None:
    """Download the file of a recipe into its part, locked meanwhile, which becomes `target`."""
    part = target.with_name(f"{target.name}.part")
    if is_locked(part):
        raise DataError(part, None, "another process is fetching it", "wait for that one")
    part.parent.mkdir(parents=True, exist_ok=True)
    if part.is_symlink():
        raise DataError(part, None, "a link, which is not written through", "delete it")
    # unlike `Path.touch`, keeps the date of a part that is there
    open(part, "ab").close()
    held = lock(part)
    try:
        _download(recipe, part, progress)
        part.replace(target)
    finally:
        unlock(held)
        if part.exists() and not part.stat().st_size:
            part.unlink()


def _link(target: Path, progress: Progress) -> None:
    """Have the recipe find a file in another folder, by a link in the data folder."""
    link = data_folder() / target.name
    with contextlib.suppress(OSError):
        if link.is_symlink():
            link.unlink()
        link.parent.mkdir(parents=True, exist_ok=True)
        link.symlink_to(target.resolve())
    if not link.exists():
        progress.note(f"{link} cannot be made, so name {target} itself to embedx train")


class _FailedError(Exception):
    """A server does not give the file; with `may_retry` another attempt may succeed."""

    def __init__(self, message: str, may_retry: bool = False) -> None:
        super().__init__(message)
        self.may_retry = may_retry


def _download(recipe: Recipe, part: Path, progress: Progress) -> None:
    """Complete and check `part`, from the first mirror that has the file."""
    failures = []
    for url in recipe.urls:
        try:
            _download_from(url, part, progress)
            if recipe.sha256:
                _check_sha256(part, recipe.sha256, progress)
            elif url.startswith("http://"):
                progress.warn(
                    f"{public_url(url)}: neither encrypted nor checked; whoever is on"
                    " the way could have changed it"
                )
            return
        except _FailedError as error:
            failures.append(f"{public_url(url)}: {error}")
            if len(failures) < len(recipe.urls):
                progress.note(f"{public_url(url)}: {error}; trying the next mirror")
    size = part.stat().st_size
    kept = f"; the {amount(size)} received are kept, and resumed next time" if size else ""
    remedy = f"; or fetch it elsewhere and put {recipe.download} into {part.parent}"
    raise DataError(recipe.name, None, f"cannot be fetched ({'; '.join(failures)}){kept}{remedy}")


def _check_sha256(part: Path, expected: str, progress: Progress) -> None:
    """Raise `_FailedError` if a part that is complete is not the expected file; it is emptied."""
    progress.note(f"checking {part.stem}, {amount(part.stat().st_size)}")
    with open(part, "rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
    if sha256 != expected:
        os.truncate(part, 0)
        raise _FailedError(f"sha256 is {sha256} instead of {expected}")


def _download_from(url: str, part: Path, progress: Progress) -> None:
    """Receive all that the server has, by several connections if need be."""
    for pause in (*PAUSES, None):
        try:
            _receive(url, part, progress)
            return
        except _FailedError as error:
            if not error.may_retry or pause is None:
                raise
            time.sleep(pause)


def _receive(url: str, part: Path, progress: Progress) -> None:
    """Write what the server sends to the end of the part; in place of it where the server does not
    resume that version.
    """
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
    changed = _date_of(response)
    total = None if response.length is None else start + response.length
    with (
        response,
        open(part, "ab" if start else "wb") as out,
        CountedReader(response, response.length) as body,
    ):
        progress.start(f"fetching {part.stem}", total, "B")
        try:
            while block := _received(body):
                out.write(block)
                out.flush()
                os.utime(part, (changed, changed))
                progress.update(start + body.count)
        finally:
            progress.finish()
            sync(out)
    if not part.stat().st_size:
        raise _FailedError("0 bytes came")


def _request(url: str, part: Path) -> http.client.HTTPResponse:
    """The server's answer, from the end of the part on if the server still has its version."""
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
        # all bytes came before, or more
        if error.code == http.client.REQUESTED_RANGE_NOT_SATISFIABLE:
            os.truncate(part, 0)
        may_retry = error.code >= 500 or error.code in CODES_TO_RETRY
        raise _FailedError(f"HTTP {error.code} {error.reason}", may_retry) from error
    except (OSError, http.client.HTTPException, ValueError) as error:
        why = getattr(error, "reason", error)
        message = reason(why) if isinstance(why, OSError) else str(why)
        # Without a network, or such a server, waiting is of no use.
        raise _FailedError(message, may_retry=start > 0) from error


def _continues(response: http.client.HTTPResponse, start: int) -> bool:
    """Whether a partial answer was asked for, and begins at this byte."""
    sent = CONTENT_RANGE.match(response.headers.get("Content-Range", ""))
    return start > 0 and sent is not None and int(sent[1]) == start


def _date_of(response: http.client.HTTPResponse) -> float:
    """When the server's version changed, in seconds; `NEVER` where it says nothing readable."""
    try:
        date = parsedate_to_datetime(response.headers.get("Last-Modified", NEVER)).timestamp()
    except (ValueError, TypeError, OverflowError, OSError):
        date = 0.0
    return min(max(date, 0.0), float(1 << 33))


def _received(body: CountedReader) -> bytes | None:
    """The next bytes of an answer, none at its end. Raises `_FailedError` where it breaks off."""
    try:
        return body.read(BLOCK_BYTES)
    except OSError as error:
        raise _FailedError(reason(error), may_retry=True) from error

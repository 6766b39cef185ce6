"""Opens the file, URL or standard input that a source names, and reads its bytes as stored."""

import io
import select
import sys
from typing import Any

from embedx.errors import DataError
from embedx.text.sources import STANDARD_INPUT, Source, is_url

BLOCK_BYTES = 1 << 18
SECONDS_WITHOUT_A_BYTE = 60.0
# Wikimedia requires a User-Agent; some servers refuse Python's default
AGENT = "embedx (https://pypi.org/project/embedx)"
# By URL scheme, the extra of pyproject.toml that smart_open needs for it.
EXTRAS = {
    "s3": "s3",
    "s3a": "s3",
    "s3n": "s3",
    "gs": "gcs",
    "azure": "azure",
    "ssh": "ssh",
    "scp": "ssh",
    "sftp": "ssh",
}
SCHEMES = ("file", "http", "https", "ftp", "ftps", "hdfs", "viewfs", "webhdfs", *EXTRAS)


def open_source(source: Source) -> "CountedReader":
    """Open a source, once, to read its bytes as stored. Raises `DataError` if that fails."""
    address = source.address
    try:
        if address == STANDARD_INPUT:
            return _open_standard_input()
        if is_url(address):
            return _open_url(address)
        return _open_file(address)
    except ImportError as error:
        scheme = scheme_of(address)
        if scheme not in EXTRAS:
            raise
        problem = f"reading {scheme}:// needs more packages"
        remedy = f'pip install "embedx[{EXTRAS[scheme]}]"'
        raise DataError(source.name, None, problem, remedy) from error
    except Exception as error:
        # every kind of storage has exceptions of its own
        problem = f"cannot be opened ({reason(error)})"
        remedy = "check the name and your permissions"
        raise DataError(source.name, None, problem, remedy) from error


def _open_standard_input() -> "CountedReader":
    """Standard input without the buffer of `sys.stdin`, whose content is lost.

    A waiting reader holds that buffer's lock. The interpreter takes the lock when it exits, and
    aborts if another thread holds it.
    """
    if sys.stdin is None:
        raise OSError("it is closed")
    return CountedReader(io.FileIO(sys.stdin.fileno(), closefd=False))


def _open_file(path: str) -> "CountedReader":
    return CountedReader(io.FileIO(path))


def _open_url(url: str) -> "CountedReader":
    """Open a URL with smart_open.

    It must not decompress: it would choose by the name, and mistake damaged data for the end of a
    file.
    """
    # Imported here, with an HTTP client, because few runs read a URL.
    import smart_open

    scheme = scheme_of(url)
    if scheme not in SCHEMES:
        raise OSError(f"{scheme}:// is none of {', '.join(SCHEMES)}")
    if scheme not in ("http", "https"):
        return CountedReader(smart_open.open(url, "rb", compression="disable"))
    headers = {"User-Agent": AGENT, "Accept-Encoding": "identity"}
    options = {"timeout": SECONDS_WITHOUT_A_BYTE, "headers": headers}
    file: Any = smart_open.open(url, "rb", compression="disable", transport_params=options)
    if file.content_length < 0:
        return CountedReader(file)
    return CountedReader(file, file.content_length)


def scheme_of(url: str) -> str:
    """The scheme of a URL: the text before `://`, in lower case."""
    return url.partition("://")[0].lower()


class CountedReader(io.RawIOBase):
    """Reads a file and counts the bytes read: progress is measured in stored bytes.

    expected  size of the file in bytes; if it ends earlier, OSError is raised
    """

    def __init__(self, file: Any, expected: int | None = None) -> None:
        self.file = file
        self.expected = expected
        self.count = 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self.file.seekable()

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        # after a seek, the bytes read are not the whole file
        self.expected = None
        return self.file.seek(offset, whence)

    def tell(self) -> int:
        return self.file.tell()

    def readinto(self, buffer: Any) -> int:
        try:
            # None: an empty non-blocking pipe
            while (n := self.file.readinto(buffer)) is None:
                select.select([self.file], [], [])
        except OSError:
            raise
        except Exception as error:
            # every kind of storage has exceptions of its own
            raise OSError(reason(error)) from error
        self.count += n
        if not n and self.expected is not None and self.count < self.expected:
            raise OSError(f"the connection ended after {self.count} of {self.expected} bytes")
        return n

    def close(self) -> None:
        if not self.closed:
            self.file.close()
        super().close()


def reason(error: BaseException) -> str:
    """The reason why something could not be opened or read, in one line.

    It is the first error, of the system: libraries wrap it in their own errors, which repeat the
    secrets of a URL.
    """
    # Imported here, with TLS, because few files cannot be read.
    import http.client

    response = getattr(error, "response", None)
    if response is not None and hasattr(response, "status_code"):
        return f"HTTP {response.status_code} {response.reason}"
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, OSError) and cause.strerror:
            return cause.strerror
        if isinstance(cause, http.client.IncompleteRead):
            # the bytes or, of urllib3, their number
            n_read: object = cause.partial
            if isinstance(n_read, int) and cause.expected is not None:
                total = n_read + cause.expected
                return f"the connection ended after {n_read} of {total} bytes"
        cause = cause.__cause__ or cause.__context__
    return " ".join(str(error).split()) or type(error).__name__

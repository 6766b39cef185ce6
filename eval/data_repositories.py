"""Public repositories with text in many small files, read by git without a working tree."""

import contextlib
import shutil
import subprocess
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, NamedTuple

from embedx.errors import DataError
from eval.experiment import say, stop


@dataclass(frozen=True)
class Repository:
    """A repository, the commit that is read, and the folder of the files, or the one file."""

    url: str
    commit: str
    folder: str


class Blob(NamedTuple):
    """A file of a repository: its path and the hash of its content."""

    path: str
    hash: str


def clone_in(folder: Path, repository: Repository) -> Path:
    """The git directory of a repository's clone in a folder of clones."""
    return folder / f"{repository.url.rpartition('/')[2]}.git"


def local_copy(repository: Repository, folder: Path) -> Path:
    """The git directory of a repository, cloned into the folder unless it is there."""
    target = clone_in(folder, repository)
    if not target.exists():
        say(f"cloning {repository.url}")
        partial = target.with_suffix(".partial")
        shutil.rmtree(partial, ignore_errors=True)
        partial.parent.mkdir(parents=True, exist_ok=True)
        command = ["git", "clone", "--quiet", "--bare", repository.url, str(partial)]
        if subprocess.run(command, check=False).returncode:
            stop(f"{repository.url}: cannot be cloned; clone it elsewhere and name it by --source")
        partial.rename(target)
    return target


def blobs(git: Path, repository: Repository) -> list[Blob]:
    """The files in the repository's folder, by path."""
    command = [*_git(git), "ls-tree", "-r", "-z", repository.commit, "--", repository.folder]
    completed = subprocess.run(command, capture_output=True, check=False)
    if completed.returncode:
        problem = f"git finds no commit {repository.commit[:8]} there"
        raise DataError(git, None, problem, f"name a clone of {repository.url}")
    entries = [entry.partition("\t") for entry in completed.stdout.decode().split("\0") if entry]
    return sorted(Blob(path, about.split()[2]) for about, _, path in entries)


def contents(git: Path, files: Sequence[Blob]) -> Iterator[str]:
    """The text of each file, in this order."""
    for content in binaries(git, files):
        yield content.decode("utf-8", "replace")


def binaries(git: Path, files: Sequence[Blob]) -> Iterator[bytes]:
    """The bytes of each file, in this order. Raises `DataError` for one that the clone lacks."""
    command = [*_git(git), "cat-file", "--batch"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        requests = threading.Thread(target=_request, args=(process.stdin, files), daemon=True)
        requests.start()
        try:
            for file in files:
                answer = process.stdout.readline().split()
                if len(answer) < 3:
                    problem = f"git does not have the content of {file.path}"
                    raise DataError(git, None, problem, "name a complete clone by --source")
                yield process.stdout.read(int(answer[2]))
                process.stdout.read(1)
        finally:
            process.kill()
            # what is left of the requests cannot be written any more
            with contextlib.suppress(OSError):
                process.stdin.close()


def content_of(git: Path, repository: Repository) -> bytes:
    """The content of the file that a repository names in place of a folder."""
    (content,) = binaries(git, blobs(git, repository))
    return content


def _request(pipe: IO[bytes], files: Sequence[Blob]) -> None:
    """Ask git for the files; it may have ended before."""
    try:
        for file in files:
            pipe.write(f"{file.hash}\n".encode())
        pipe.close()
    except (BrokenPipeError, ValueError):
        pass


def _git(git: Path) -> list[str]:
    return ["git", f"--git-dir={git}"]

"""The folder of compiled kernels, named by a hash of all sources that kernels depend on.

numba checks only the file of a function: it does not notice edits of helpers and constants that the
function takes from other files. Kernels of another package, such as its objectives, are in a
subfolder that is named by a hash of the sources of that package.
"""

import functools
import hashlib
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import llvmlite
import numba

from embedx.runtime.cache_home import absolute, kept_in, usable

# Sources whose functions and constants are used by kernels of other files. An edit anywhere else
# leaves machine code valid, or is in the file of the kernel, which numba checks
# (tests/test_layers.py).
KERNEL_SOURCES = (
    "engine",
    "kernels",
    "objectives",
    "optimizers",
    "samplers",
    "search",
    "graphs/settings.py",
    "text/characters.py",
    "text/collocations.py",
    "text/held_out.py",
    "text/ngrams.py",
    "text/sources.py",
    "text/subsampling.py",
    "text/tables.py",
    "text/tokenizer.py",
)


def _add_sources(digest: "hashlib._Hash", root: Path, files: Iterable[Path]) -> None:
    for file in files:
        digest.update(file.relative_to(root).as_posix().encode() + b"\0")
        digest.update(file.read_bytes())


def _sources_hash() -> str:
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for source in KERNEL_SOURCES:
        path = package / source
        _add_sources(digest, package, sorted(path.rglob("*.py")) if path.is_dir() else (path,))
    return digest.hexdigest()[:16]


def _kernel_folders() -> tuple[str, ...]:
    name = f"kernels/{_sources_hash()}"
    chosen = numba.config.CACHE_DIR
    if not chosen:
        return tuple(map(str, kept_in(name, is_code=True)))
    folder = absolute(chosen) / Path(name).name
    return tuple(map(str, usable(folder, name, is_code=True)))


# All are read; new machine code is written to the first.
KERNEL_FOLDERS = _kernel_folders()
# "" if no folder is safe to use.
KERNEL_FOLDER = KERNEL_FOLDERS[0] if KERNEL_FOLDERS else ""


def folder_within(folder: str, function: Callable[..., Any]) -> str:
    """The folder of a kernel within one of KERNEL_FOLDERS; for our own kernels that one itself."""
    package = (function.__module__ or "").partition(".")[0]
    if not folder or package == __name__.partition(".")[0]:
        return folder
    return os.path.join(folder, f"{package}-{_hash_of_package(package)}")


@functools.cache
def _hash_of_package(package: str) -> str:
    """A hash of the sources of another package."""
    digest = hashlib.sha256()
    # A module that is no package is the file of its kernels, which numba checks.
    for folder in map(Path, getattr(sys.modules.get(package), "__path__", ())):
        _add_sources(digest, folder, filter(Path.is_file, sorted(folder.rglob("*.py"))))
    return digest.hexdigest()[:16]

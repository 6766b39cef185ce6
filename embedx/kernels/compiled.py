"""`kernel`, the one decorator for compiled functions, and where their machine code is kept between runs.

Machine code is cached in a folder named by a hash of this package's sources, because numba looks only at the file a function
stands in and does not notice edits in the helpers it calls, or the constants it takes, from other files.
"""

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import llvmlite
import numba

# Vectorises as well as full fast-math, but leaves NaN and infinity alone, so that a diverged run can be seen.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}


def cache_home() -> Path:
    """The folder for everything embedx keeps between runs: $EMBEDX_CACHE_DIR, else the user's cache folder."""
    if chosen := os.environ.get("EMBEDX_CACHE_DIR"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "embedx"


def _sources_hash() -> str:
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for file in sorted(package.rglob("*.py")):
        digest.update(file.relative_to(package).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _kernel_folder() -> str:
    parent = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else cache_home() / "kernels"
    return str(parent / _sources_hash())


KERNEL_FOLDER = _kernel_folder()


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first use: without the GIL, cached on disk, vectorised, division by zero as IEEE has it.

    Kernels allocate nothing. That lets numba leave out reference counting, whose atomic increments, one for each array of each
    call, would otherwise take more than half of the training kernel's time.
    """
    return _compiled(function, forceinline=False)  # said aloud, because it is otherwise inherited from the first caller


def kernel_part(function: Callable[..., Any]) -> Any:
    """A `kernel` that becomes part of its callers: for functions of many arrays, which cost more to pass than to use."""
    return _compiled(function, forceinline=True)


def chosen_by_number(functions: Sequence[Any]) -> Any:
    """A kernel part `f(i, ...)` that calls kernel part functions[i] with the rest, decided while it runs.

    A compiled function can only call what it knows when it is compiled. So this is a chain of comparisons, one for each
    function.
    """

    def either(i: int, function: Any, others: Any) -> Any:
        return lambda number, *arguments: function(*arguments) if number == i else others(number, *arguments)

    def always(function: Any) -> Any:
        return lambda number, *arguments: function(*arguments)

    *others, last = functions
    chosen = uncached_part(always(last))
    for i, function in enumerate(others):
        chosen = uncached_part(either(i, function, chosen))
    return chosen


def uncached_part(function: Callable[..., Any]) -> Any:
    """A `kernel_part` for functions that hold compiled ones in a closure.

    They are new ones to numba in each process, so that no cache would find them. None is needed: the kernels that they become
    part of are cached.
    """
    return _compiled(function, forceinline=True, cache=False)


def _compiled(function: Callable[..., Any], *, cache: bool = True, **options: Any) -> Any:
    users_folder = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = KERNEL_FOLDER
    try:
        return numba.njit(nogil=True, cache=cache, fastmath=FAST_MATH, error_model="numpy", _nrt=False, **options)(function)
    finally:
        numba.config.CACHE_DIR = users_folder


def is_cached(*kernels: Any) -> bool:
    """Whether the machine code of these kernels is on disk, so that starting costs no compilation."""
    folder = Path(KERNEL_FOLDER)
    names = {file.name.split("-")[0] for file in folder.rglob("*.nbi")} if folder.is_dir() else set()
    return all(f"{k.py_func.__module__.rsplit('.', 1)[-1]}.{k.py_func.__qualname__}" in names for k in kernels)

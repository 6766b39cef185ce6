"""`kernel` and `kernel_part`, the decorators of compiled functions.

`embedx.kernels.adjusted` makes numba compile them faster and cache them on disk, by private classes
of numba that may change without notice. Where those do not work, numba compiles and caches
functions in its own way: with the same results, but slower.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numba

from embedx.kernels.kernel_folder import KERNEL_FOLDER, folder_within
from embedx.runtime.cache_home import log

__all__ = [
    "COMPILING",
    "KERNEL_FOLDER",
    "PART",
    "chosen_by_number",
    "is_cached",
    "kernel",
    "kernel_part",
]

# The latest numba that the tests ran with; with a later one, `adjusted` is tried first.
TESTED = (0, 68)
# Vectorises as well as full fast-math, but keeps NaN and infinity, so that a diverged run is
# noticed.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
OPTIONS = {"nogil": True, "fastmath": FAST_MATH, "error_model": "numpy"}


def _adjusted() -> Any:
    """The module `adjusted`, or None where it does not work with this numba."""
    try:
        from embedx.kernels import adjusted

        if numba.version_info.short > TESTED and not numba.config.DISABLE_JIT:
            adjusted.check()
    except Exception as error:  # a changed numba may raise any exception
        latest = ".".join(map(str, TESTED))
        log.warning(
            f"numba {numba.__version__} is not known to this embedx ({error}): kernels take minutes"
            " to compile, once; "
            f'pip install "numba=={latest}.*" makes that seconds'
        )
        return None
    return adjusted


ADJUSTED = _adjusted()
# The beginning of the notes that kernels are compiled, by which `compare` knows the runs that took
# longer for it.
COMPILING = "compiling kernels"
# Options of kernel parts, for `numba.extending.overload`.
PART = {} if ADJUSTED is None else ADJUSTED.PART


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first use: without the GIL, cached on disk, vectorised, division by
    zero as IEEE has it.

    Kernels allocate nothing, so that numba can leave out reference counting: its atomic increments,
    for each array of each call, would take more than half of the training kernel's time.
    """
    if ADJUSTED is not None:
        return ADJUSTED.kernel(function, **OPTIONS)
    before = numba.config.CACHE_DIR
    numba.config.CACHE_DIR = folder_within(KERNEL_FOLDER, function)
    try:
        return numba.njit(cache=True, **OPTIONS)(function)
    finally:
        numba.config.CACHE_DIR = before


def kernel_part(function: Callable[..., Any]) -> Any:
    """A function that is inlined into every kernel that calls it, and optimised there. When called
    from Python, it is a kernel.
    """
    if ADJUSTED is not None:
        return ADJUSTED.kernel_part(function, **OPTIONS)
    return numba.njit(**OPTIONS)(function)


def chosen_by_number(functions: Sequence[Any]) -> Any:
    """A kernel part `f(i, ...)` that calls the kernel part functions[i] with the other arguments;
    i is known at run time only.

    It is a chain of comparisons, because compiled code can only call functions that are known when
    it is compiled.
    """
    first, second, *_ = functions
    if len(functions) == 2:
        return kernel_part(
            lambda number, *arguments: first(*arguments) if number == 0 else second(*arguments)
        )
    others = chosen_by_number(functions[1:])
    return kernel_part(
        lambda number, *arguments: (
            first(*arguments) if number == 0 else others(number - 1, *arguments)
        )
    )


def is_cached(needed: Iterable[tuple[Any, Any]]) -> bool:
    """Whether the machine code of these kernels, each with a signature, is in memory or on disk, so
    that none has to be compiled.
    """
    return ADJUSTED is not None and all(
        ADJUSTED.is_cached(function, signature) for function, signature in needed
    )

"""`kernel` and `kernel_part`, the decorators of compiled functions.

`embedx.kernels.adjusted` makes numba compile them faster and keep them on disk, by classes of numba
that may change without notice. Where those do not work, numba compiles and keeps functions in its
own way: with the same results, in more time.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numba

from embedx.kernels.kernel_folder import KERNEL_FOLDER, folder_within
from embedx.runtime.cache_home import log

__all__ = [
    "KERNEL_FOLDER",
    "PART",
    "chosen_by_number",
    "is_cached",
    "kernel",
    "kernel_part",
]

# the latest numba that the tests ran with; a later one is tried before it is adjusted
TESTED = (0, 68)
# Vectorises as well as full fast-math, but leaves NaN and infinity alone, so that a diverged run
# can be seen.
FAST_MATH = {"reassoc", "contract", "arcp", "nsz", "afn"}
OPTIONS = {"nogil": True, "fastmath": FAST_MATH, "error_model": "numpy"}


def _adjusted() -> Any:
    """The module `adjusted`, or None where it does not work with this numba."""
    try:
        from embedx.kernels import adjusted

        if numba.version_info.short > TESTED and not numba.config.DISABLE_JIT:
            adjusted.check()
    except Exception as error:  # whatever has changed
        latest = ".".join(map(str, TESTED))
        log.warning(
            f"numba {numba.__version__} is not known to this embedx ({error}): kernels take minutes"
            " to compile, once; "
            f'pip install "numba=={latest}.*" makes that seconds'
        )
        return None
    return adjusted


ADJUSTED = _adjusted()
# Options of what is inlined, for functions that are parts of kernels under
# `numba.extending.overload`
PART = {} if ADJUSTED is None else ADJUSTED.PART


def kernel(function: Callable[..., Any]) -> Any:
    """Compile `function` on first use: without the GIL, cached on disk, vectorised, division by
    zero as IEEE has it.

    Kernels allocate nothing. That lets numba leave out reference counting, whose atomic increments,
    one for each array of each call, would otherwise take more than half of the training kernel's
    time.
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
    """A function that is inlined into every kernel that calls it, and optimised there. Called from
    Python, it is a kernel.
    """
    return (
        numba.njit(**OPTIONS)(function)
        if ADJUSTED is None
        else ADJUSTED.kernel_part(function, **OPTIONS)
    )


def chosen_by_number(functions: Sequence[Any]) -> Any:
    """A kernel part `f(i, ...)` that calls kernel part functions[i] with the rest, decided while it
    runs.

    A compiled function can only call what it knows when it is compiled. So this is a chain of
    comparisons, one for each function.
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
    """Whether the machine code of these kernels, each with a signature, is known to be in memory or
    on disk, so that starting costs no compilation.
    """
    return ADJUSTED is not None and all(ADJUSTED.is_cached(*each) for each in needed)

"""Compiles the engine's kernels, or loads them from the disk cache, before they are needed."""

import contextlib
import threading
from pathlib import Path
from typing import Any

import numba
from numba import typeof, types

from embedx.kernels import COEFFICIENTS, is_cached
from embedx.kernels.compiled import COMPILING, KERNEL_FOLDER, TESTED
from embedx.runtime.progress import Progress
from embedx.samplers.contract import LOG_EXPECTED_COUNT, SAMPLE, Sampler

# All runs of a process share the kernels: if several begin at once, one compiles and the others
# wait.
_compiling = threading.RLock()
_is_numba_checked = False


def compile_function(function: Any, signature: Any) -> None:
    """Compile a function for this signature, or load it from the disk cache."""
    if hasattr(function, "compile"):  # not plain Python under NUMBA_DISABLE_JIT
        with _compiling:
            function.compile(signature)


def load_kernel(
    kernel: Any,
    coefficients: Any,
    sampler: Sampler | None,
    like: tuple[Any, ...],
    progress: Progress,
) -> tuple[Any, ...]:
    """The functions to pass to a kernel before its other arguments; compiles or loads the kernel
    first, for arguments `like` these, and notes in the log when it compiles.

    A kernel is compiled once for all objectives and samplers: their functions are its first
    arguments, as pointers with fixed signatures.

    coefficients  the objective's function, or another one with its signature
    sampler       None for a kernel that draws nothing, which takes `coefficients` alone
    """
    with progress.stage("kernels"):
        if hasattr(kernel, "compile"):  # not plain Python under NUMBA_DISABLE_JIT
            _note_compiling(kernel, _functions(coefficients, sampler), like, progress)
        return compiled_functions(kernel, coefficients, sampler, like)


def _note_compiling(
    kernel: Any, functions: list[tuple[Any, Any]], like: tuple[Any, ...], progress: Progress
) -> None:
    """Log that a kernel or its functions will be compiled, if so; run the self-test first where
    numba is newer than those embedx was tested with.
    """
    with _compiling:
        if not is_cached([*functions, (kernel, _signature(functions, like))]):
            progress.note(
                f"{COMPILING}, once for this version on this machine: usually 10 to 30 seconds"
            )
        if numba.version_info.short > TESTED:
            _check_numba(progress)


def compiled_functions(
    kernel: Any, coefficients: Any, sampler: Sampler | None, like: tuple[Any, ...]
) -> tuple[Any, ...]:
    """`load_kernel` without the note."""
    functions = _functions(coefficients, sampler)
    if not hasattr(kernel, "compile"):
        return tuple(function for function, _ in functions)
    with _compiling:
        for function, signature in (*functions, (kernel, _signature(functions, like))):
            compile_function(function, signature)
        # Given the functions themselves, numba would look up their addresses at each call: 0.3 ms
        # that hold the GIL.
        return tuple(
            types.CompileResultWAP(function.get_compile_result(signature))
            for function, signature in functions
        )


def _functions(coefficients: Any, sampler: Sampler | None) -> list[tuple[Any, Any]]:
    """The functions that a kernel takes as its first arguments, with their signatures."""
    functions = [(coefficients, COEFFICIENTS)]
    if sampler is not None:
        functions += [(sampler.sample, SAMPLE), (sampler.log_expected_count, LOG_EXPECTED_COUNT)]
    return functions


def _signature(functions: list[tuple[Any, Any]], like: tuple[Any, ...]) -> tuple[Any, ...]:
    """The types of the arguments of a kernel."""
    pointers = (types.FunctionType(signature) for _, signature in functions)
    return (*pointers, *map(typeof, like))


def _check_numba(progress: Progress) -> None:
    """Run the self-test once if numba is newer than those embedx was tested with. Raises
    `EmbedxError` if it fails.
    """
    global _is_numba_checked
    record = Path(KERNEL_FOLDER, "checked") if KERNEL_FOLDER else None
    if _is_numba_checked or (record is not None and record.exists()):
        return
    from embedx.engine import self_test

    progress.note(f"comparing kernels of numba {numba.__version__} with plain Python, once")
    self_test.check()
    _is_numba_checked = True
    if record is not None:
        with contextlib.suppress(OSError):
            record.touch()

"""Having the engine's kernels compiled, or loaded from the disk cache, before they are needed."""

import threading
from typing import Any

from numba import typeof, types

from embedx.kernels import COEFFICIENTS, is_cached
from embedx.runtime.progress import Progress
from embedx.samplers.contract import LOG_EXPECTED_COUNT, SAMPLE, Sampler

# Kernels are shared by all runs of a process: where several begin at once, one compiles, and the
# others wait.
_compiling = threading.RLock()


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
    """Compile a kernel for arguments `like` these, or load it; says so when it takes a while.
    Return what to pass before them.

    A kernel is compiled once for all objectives and samplers: their functions, which it takes
    before all else, are pointers with fixed signatures. One that draws nothing takes `coefficients`
    alone; `sampler` is then None. That is the objective's function of the name, or another of its
    with the same signature.
    """
    functions: tuple[tuple[Any, Any], ...] = ((coefficients, COEFFICIENTS),)
    if sampler is not None:
        functions += ((sampler.sample, SAMPLE), (sampler.log_expected_count, LOG_EXPECTED_COUNT))
    if not hasattr(kernel, "compile"):
        return tuple(function for function, _ in functions)
    pointers = (types.FunctionType(signature) for _, signature in functions)
    arguments = (*pointers, *(typeof(each) for each in like))
    needed = (*functions, (kernel, arguments))
    with _compiling:
        if not is_cached(needed):
            progress.note(
                "compiling kernels, once for this version on this machine: 20 seconds or more"
            )
        for function, signature in needed:
            compile_function(function, signature)
        # With the functions themselves numba would look up their addresses at each call, 0.3 ms
        # under the lock of the interpreter.
        return tuple(
            types.CompileResultWAP(function.get_compile_result(signature))
            for function, signature in functions
        )

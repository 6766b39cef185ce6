"""Having the engine's kernels compiled, or loaded from the disk cache, before they are needed."""

from typing import Any

from numba import typeof, types

from embedx.kernels.batch import COEFFICIENTS
from embedx.kernels.compiled import is_cached
from embedx.objectives.contract import Objective
from embedx.run.progress import Progress


def compile_coefficients(objective: Objective, signature: Any = COEFFICIENTS) -> None:
    """Compile an objective's function, or load it from the disk cache."""
    if hasattr(objective.coefficients, "compile"):
        objective.coefficients.compile(signature)


def load_kernel(kernel: Any, objective: Objective, like: tuple[Any, ...], progress: Progress) -> None:
    """Compile a kernel that takes `coefficients` first, for arguments `like` these, or load it; says so when it takes a while.

    A kernel is compiled once for all objectives: it takes `coefficients` as a function pointer with a fixed signature.
    """
    if not hasattr(kernel, "compile"):  # plain Python under NUMBA_DISABLE_JIT
        return
    if not is_cached(kernel, objective.coefficients):
        progress.note("compiling kernels, once for this version on this machine: about 20 seconds")
    compile_coefficients(objective)
    kernel.disable_compile(False)
    kernel.compile((types.FunctionType(COEFFICIENTS), *(typeof(argument) for argument in like)))
    kernel.disable_compile()  # else a call would compile again for this very `coefficients`, uncached

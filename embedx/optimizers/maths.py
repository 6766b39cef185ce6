"""Kernel parts that hold the maths of whichever optimiser a run has, made of the registry."""

from collections.abc import Callable
from typing import Any

from embedx.kernels.compiled import chosen_by_number, uncached_part
from embedx.optimizers import keeping


def for_each_keeping(what: str, make: Callable[[Any, Any], Any]) -> Any:
    """A kernel part `f(optimizer.kind, ...)` that goes on as make(accumulate, divisor) of that optimiser.

    what  "number" or "row": the optimisers to make it for
    make  a plain function of `accumulate` and `divisor` that returns one, of their caller's arguments
    """
    return chosen_by_number([uncached_part(make(each.accumulate, each.divisor)) for each in keeping(what)])

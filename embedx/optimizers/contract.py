"""The contract between an optimizer and the engine: the step of a row of parameters w along its
gradient g.

An optimizer for minibatches divides the gradient by a function of the gradients so far:

    s <- accumulate(s, g)            the optimizer's state, 0 at the start
    w <- w - lr · g / divisor(s)     with the new s

    keeps "stateless"       no s and no division: plain descent
          "per_coordinate"  an s for each coordinate of a row; g is the gradient of that coordinate
          "per_row"         an s for each row; `accumulate` gets the squared length of the row's
                            gradient as g

A new optimizer consists of these two functions. They are kernel parts, compiled for a float32 and,
if s is per coordinate, for the sixteen of a `simd` vector: write those with +, -, *, /,
`square_root` and float32 constants. The engine calls them for every storage of rows (`descend`),
and derives weight decay from the same `divisor` (`decay`). A state changes only by gradients of its
own row, so rows without a gradient need not be visited.

Methods that take the gradient over all data have functions of their own in the engine
(`alternating`, `lbfgs`).
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.kernels import aligned_zeros, by_address

# Commands that offer optimizers.
WORDS, COLLAPSED, LABELS = "train", "train --collapsed", "classify"
STATELESS, PER_COORDINATE, PER_ROW = 0, 1, 2  # `Optimizer.keeps`, in kernels


class Optimizer:
    """Base class of optimizers; the docstring of each file has the paper and the formula."""

    name: str  # what the user types after --optimizer
    meaning: str  # a line for the help text
    commands: tuple[str, ...]  # of WORDS, COLLAPSED and LABELS
    # None for methods with functions of their own, such as lbfgs and dcd.
    keeps: Literal["stateless", "per_coordinate", "per_row"] | None = None
    # The two functions of the module's docstring, unless it is stateless.
    accumulate: Any = None
    divisor: Any = None
    is_ema: bool = False  # s is an exponential moving average: a gradient of 0 changes it
    # Weight decay applies where s = 0; False if divisor(0) only avoids a division by 0.
    decays_at_zero: bool = False
    limit: float = math.inf  # s stays at this value once it is reached
    # Default learning rate by command; for LABELS, with inputs of length 1.
    rates: dict[str, float] = {}


@by_address
class UpdateRule(NamedTuple):
    """An optimizer as plain numbers for kernels; made by `embedx.optimizers.update_rule`."""

    number: int  # its place among the optimizers of the registry with the same `keeps`
    keeps: int  # STATELESS, PER_COORDINATE or PER_ROW
    is_ema: bool
    decays_at_zero: bool
    l2: float
    max_norm: float  # 0: no limit
    limit: float32  # maximum of a state; infinite: no limit
    # Norm to which a row's gradient is clipped if its rate does not adapt; infinite: not clipped.
    max_gradient: float32
    # Factor of the learning rate for an objective's own state: the typical size of the first step
    # of one coordinate of a row.
    state_rate: float32


NO_FLAGS = np.zeros(0, np.uint8)


@by_address
class Table(NamedTuple):
    """Rows of parameters, with the optimizer's state and flags."""

    rows: ndarray  # float32 (n, stride)
    state: ndarray  # the optimizer's, float32 (n, stride), (n, 1) or (0, stride)
    # float64 (n,): the decay clock when weight decay was last applied to a row; (0,) without decay
    decay_clock: ndarray
    keeps: int  # the optimizer's: STATELESS, PER_COORDINATE or PER_ROW
    # uint8 (n,): 1 for rows that skip-gram does not update; (0,) if there are none
    frozen: ndarray = NO_FLAGS


def new_table(n_rows: int, dim: int, optimizer: UpdateRule) -> Table:
    """A table of zeros with the optimizer's state."""
    if optimizer.keeps == PER_ROW:
        state = np.zeros((n_rows, 1), float32)
    else:
        state = aligned_zeros(n_rows if optimizer.keeps == PER_COORDINATE else 0, dim)
    decay_clock = np.zeros(n_rows if optimizer.l2 > 0 else 0, np.float64)
    return Table(aligned_zeros(n_rows, dim), state, decay_clock, optimizer.keeps)

"""The contract between an optimizer and the engine: the step of a row of parameters w along its
gradient g.

An optimizer for minibatches divides the gradient by a function of the gradients so far:

    s <- accumulate(s, g)            the optimizer's state, 0 at the start
    w <- w - lr · g / divisor(s)     with the new s

    keeps "stateless"       no s and no division: plain descent
          "per_coordinate"  an s for each coordinate of a row; g is the gradient of that coordinate
          "per_row"         an s for each row; `accumulate` gets the squared length of the row's
                            gradient as g

These two functions are all the maths of a new optimizer. They are kernel parts, compiled for one
float32 and, where s is per coordinate, for the sixteen of a `simd` vector: write those with +, -,
*, /, `square_root` and constants that are float32. The engine calls them however rows are stored
(`descend`), and takes weight decay from the same `divisor` (`decay`). A state changes only by
gradients of its own row, so rows without a gradient need not be visited.

For methods that take the gradient of all data at once the engine has functions of their own
(`alternating`, `lbfgs`).
"""

import math
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy import float32, ndarray

from embedx.kernels import aligned_zeros, by_address

# the commands that offer an optimizer
WORDS, COLLAPSED, LABELS = "train", "train --collapsed", "classify"
STATELESS, PER_COORDINATE, PER_ROW = 0, 1, 2  # in kernels


class Optimizer:
    """What an optimizer declares; the docstring of its file has the paper and the formula."""

    name: str  # what the user types after --optimizer
    meaning: str  # for the help text: what it does, in a line
    commands: tuple[str, ...]  # of WORDS, COLLAPSED and LABELS
    # None for methods with functions of their own, such as lbfgs and dcd.
    keeps: Literal["stateless", "per_coordinate", "per_row"] | None = None
    accumulate: Any = None  # the two functions of the module's docstring, unless it keeps nothing
    divisor: Any = None
    is_ema: bool = False  # s is an exponential moving average: a gradient of 0 changes it
    # weight decay applies where s = 0; False if divisor(0) only guards a division by 0
    decays_at_zero: bool = False
    limit: float = math.inf  # of s: once reached, it stays, whatever the gradient
    # learning rate by default, by command; for LABELS of inputs of length 1
    rates: dict[str, float] = {}


@by_address
class UpdateRule(NamedTuple):
    """An optimizer as plain numbers for kernels; made by `embedx.optimizers.update_rule`."""

    kind: int  # its place among those of the registry with the same `keeps`
    keeps: int  # STATELESS, PER_COORDINATE or PER_ROW
    is_ema: bool
    decays_at_zero: bool
    l2: float
    max_norm: float  # 0 for none
    limit: float32  # of a state; infinite for none
    # length to which a row's gradient is clipped if its rate does not adapt; infinite for none
    max_gradient: float32
    # Scales the learning rate for an objective's own state: the typical size of the first step of a
    # single element of a row.
    state_rate: float32


NO_FLAGS = np.zeros(0, np.uint8)


@by_address
class Table(NamedTuple):
    """Rows of parameters and what belongs to them."""

    rows: ndarray  # float32 (n, stride)
    state: ndarray  # float32, the optimizer's: like the rows; (n, 1), one a row; or (0, stride)
    # float64 (n,): the clock of weight decay when it was last applied to a row; (0,) without
    decay_clock: ndarray
    state_of: int  # STATELESS, PER_COORDINATE or PER_ROW
    # uint8 (n,): 1 for rows that skip-gram does not move; (0,) if there are none
    frozen: ndarray = NO_FLAGS


def new_table(n_rows: int, dim: int, optimizer: UpdateRule) -> Table:
    """A table of zeros with the optimizer's state."""
    if optimizer.keeps == PER_ROW:
        state = np.zeros((n_rows, 1), float32)
    else:
        state = aligned_zeros(n_rows if optimizer.keeps == PER_COORDINATE else 0, dim)
    decay_clock = np.zeros(n_rows if optimizer.l2 > 0 else 0, np.float64)
    return Table(aligned_zeros(n_rows, dim), state, decay_clock, optimizer.keeps)

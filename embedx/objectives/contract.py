"""The contract between an objective and the engine: an objective works on scores, and the engine does the rest.

    scores z_k = h·w_k         for the candidates: the positives and a selected set of output rows
    loss, c_k = ∂loss/∂z_k     what `coefficients` makes of them
    w_k -= lr · c_k · h        h -= lr · Σ_k c_k w_k: the engine's business

`coefficients` is one compiled function with this signature for every objective, so that one compiled engine serves them all by
an indirect call. It is handed some examples, a row of each matrix for each example, a column for each candidate:

    coefficients(z, label, times, loge, state, uniforms, numbers, key, visits, norm, n_examples, n, lr) -> summed loss, float64

    z         float32 (>= n_examples, >= n)  scores; overwritten by ∂loss/∂z, with the state held fixed
    label     like z    the weight of a positive, else 0; on the path of a tree the bit
    times     like z    how often the candidate was drawn as noise; on a tree path 1 - bit; 1 for all rows of an exact loss
    loge      like z    log of the expected number of draws, for a positive as if it were noise; 0 where nothing was drawn.
                        times / e^loge is the weight that makes a sum over the draws an unbiased sum over all rows
    state     float32 (keys, state_width)  kept per key by the objective; updated first, so that z is answered at the new state
    uniforms  float32 (>= n_examples, >= uniforms_width)  fresh random numbers in (0, 1)
    numbers   float32   constants of the run, from `Objective.numbers`
    key       int64 (>= n_examples,)  each example's place in `state`: its input word (skip-gram) or its number (classification)
    visits    int64 (>= n_examples,)  how often that key was seen before; at 0 the state holds nothing yet
    norm      float32 (>= n_examples,)  how far a score may move for each lr · its coefficient, for objectives whose step is not
              a gradient: |h|²; in skip-gram, where h moves along w_k as w_k along h and the steps of a block's inputs add up,
              the number of inputs · (|h|² + the candidates' largest |w_k|²)
    lr        float32   learning rate, by which the engine multiplies the coefficients afterwards

The same function is compiled for float64 too, where a full batch is brought to its optimum: constants are written as float32
or integers and helpers take both. Examples are to be taken in order, for several may share a key. A candidate with neither
label nor times holds whatever was there before: it gets coefficient 0 and must stay out of sums and maxima. An example without
any weight leaves its state alone and gets no coefficients.

What an example is, an objective says by `takes`:

    "pair"  one positive and its candidates, each row once. A row that is both the positive and drawn has both weights if the
            objective `keeps_hits`, its label alone if not
    "set"   all positives of an input, each row once, with hits as above; the draws count once
    "sum"   all positives of an input, for a loss that is a sum over candidates: every draw counts once for each positive, and a
            row may stand several times, as centres that repeat and as noise. Requires `keeps_hits`

An input that meets many positives at once, one after the other (a word of a skip-gram, in a block of text), is told to an
objective that `merges` as one example of all of them: label_k is how many of its m pairs have k as their positive. What comes
back is the sum over the pairs, each as if it were alone, a positive being the rival of the others. A rival that is there with
certainty rather than drawn has times 1 and loge 0. On a tree the turns of all paths add up.

One that takes a "set" and `gathers` is told the same, and takes the m positives for one set, not for m pairs.

Which rows compete is the task's `--sampler`, among those that an objective names in `samplers`:

    "unigram", "uniform"   draws: `times` and `loge` tell how many and how many to expect
    "all"                  every row, with times 1 and loge 0
    "path"                 the nodes on the way to the positive in the objective's tree
    "search"               the rows that an index finds to score highest, with times 1 and loge 0; see `Objective.search`
"""

import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
from numba import types

from embedx.settings import Settings, param


def _signature(real: Any) -> Any:
    """The signature of `coefficients` in float32 or float64."""
    matrix, vector = types.Array(real, 2, "C"), types.Array(real, 1, "C")
    numbers = types.Array(types.int64, 1, "C")
    return types.float64(
        matrix, matrix, matrix, matrix, matrix, matrix, vector, numbers, numbers, vector, types.int64, types.int64, real
    )


COEFFICIENTS = _signature(types.float32)
COEFFICIENTS_64 = _signature(types.float64)


class Paths(NamedTuple):
    """A tree over classes: the nodes met on the way to class k, and which way to turn, are those at offsets[k]:offsets[k+1]."""

    offsets: np.ndarray  # int64 (n_classes + 1,)
    nodes: np.ndarray  # int32: output rows
    bits: np.ndarray  # float32: 1 or 0


class Search(NamedTuple):
    """How rows are found for the sampler "search": in blocks of columns, each by itself (`embedx.search`).

    A row is looked at in a block if it lies in one of the clusters that promise h the most. It competes if in some block its
    score there, times the number of blocks, lies within `reach` of the best score, or of the log of the sum of all their
    exponentials: a row further below has a coefficient of at most `tau`. Of those in a block only the best `kept` compete.
    """

    blocks: int
    clusters: int  # of the rows of each block
    looked_at: int  # rows in each block, at least, unless `from_sum` tells before that the rest weighs nothing
    kept: int  # of them, at most; message passing between blocks keeps all
    threshold: float  # rows whose score in the block is no larger than this in absolute value are passed over
    tau: float
    reach: float
    from_sum: bool
    steps: int  # of message passing between the blocks; 0 takes the scores of what was found exactly instead

    def of(self, columns: int) -> "Search":
        """The same in a table of so many columns, which cannot be in more blocks."""
        return self._replace(blocks=min(self.blocks, columns))


@dataclasses.dataclass(frozen=True)
class SampledSettings(Settings):
    """Settings of every objective that meets drawn rows."""

    negatives: int = param(5, "classes drawn as noise for each positive", at_least=1)


class Objective:
    """What an objective declares. Everything but `coefficients` has a default."""

    name: ClassVar[str]  # what the user types after --objective
    title: ClassVar[str]
    paper: ClassVar[str]
    formula: ClassVar[str] = ""  # of the loss, in a line
    advice: ClassVar[str] = ""  # when to choose it, in a line
    Settings: ClassVar[type[Settings]] = Settings
    coefficients: ClassVar[Any]
    kind: ClassVar[Literal["gradient", "step"]] = "gradient"  # "step": z is overwritten by a step divided by lr
    takes: ClassVar[Literal["pair", "set", "sum"]] = "pair"
    samplers: ClassVar[tuple[str, ...]] = ("unigram", "uniform", "all")  # the first is the default
    keeps_hits: ClassVar[bool] = False
    merges: ClassVar[bool] = False  # several examples with one input and one positive each may be told as one; see above
    gathers: ClassVar[bool] = False  # takes the positives of an input in a block of text as a "set"; see above
    separable: ClassVar[bool] = False  # a coefficient depends on its own candidate alone
    moves_few: ClassVar[bool] = False  # among all rows most coefficients are exactly 0
    stable: ClassVar[bool] = False  # finite at any score
    unbiased: ClassVar[bool] = False  # at a fixed state, expected coefficients over draws are those of sampler "all"
    calibrated: ClassVar[bool] = True  # False where `log_probability` means little before a temperature is fitted to it
    ranks_by_score: ClassVar[bool] = True  # classes in order of their scores are in order of `log_probability`
    bound: ClassVar[bool] = False  # -loss with all rows never exceeds the exact softmax's log-probability
    uses_loge: ClassVar[bool] = True  # False saves filling it
    uses_norm: ClassVar[bool] = False  # True asks for `norm` to be filled
    label_defaults: ClassVar[Mapping[str, Any]] = {}  # settings that suit it better than the task's own: of classification,
    word_defaults: ClassVar[Mapping[str, Any]] = {}  # and of skip-gram, its own settings among them
    state_width: ClassVar[int] = 0
    uniforms_width: ClassVar[int] = 0

    def __init__(self, settings: Any) -> None:
        self.settings = settings

    @property
    def negatives(self) -> int:
        """How many draws the user wants for each positive; 0 for objectives that draw nothing."""
        return int(getattr(self.settings, "negatives", 0))

    def prepare(self, counts: np.ndarray) -> None:
        """Fit what depends on how often each class occurs, int64 (n_classes,): a tree. Done before training and on loading."""

    def paths(self) -> Paths | None:
        """The tree, for objectives that take the sampler "path"."""
        return None

    def search(self, n_classes: int) -> Search | None:
        """How rows are found, for objectives that take the sampler "search"."""
        return None

    def n_rows(self, n_classes: int) -> int:
        """How many output rows score `n_classes` classes."""
        return n_classes

    def first_bias(self, p: np.ndarray, noise: np.ndarray) -> np.ndarray:
        """float (n_rows,): the scores that predict p, (n_classes,) above 0, for any input; `noise` (n_classes,) is drawn by."""
        return np.asarray(np.log(p))

    def numbers(self, n_draws: int, n_classes: int) -> np.ndarray:
        """float32: constants that `coefficients` needs, given how many noise rows are drawn for an example."""
        return np.zeros(1, dtype=np.float32)

    def settle(self, z: np.ndarray, label: np.ndarray) -> np.ndarray:
        """The best state in closed form for examples that meet all rows, float64 (n, state_width), from z and label, (n, K)."""
        return np.zeros((len(z), self.state_width))

    def log_probability(self, z: np.ndarray, log_noise: np.ndarray) -> np.ndarray:
        """log p(k | h), float (..., K), from the scores of all rows (..., rows) and the log of the noise
        distribution, (K,) or (..., K) where it depends on the input.
        """
        return log_softmax(z)

    def label_probability(self, z: np.ndarray) -> np.ndarray | None:
        """p(k is among the labels | h) from the scores of all rows, (..., K), above 1/2 where z is above 0; None where labels
        compete for one place, so that only `log_probability` is known.
        """
        return None


def log_softmax(z: np.ndarray) -> np.ndarray:
    """z minus the log of the sum of its exponentials along the last axis."""
    shifted = z - z.max(axis=-1, keepdims=True)
    return np.asarray(shifted - np.log(np.exp(shifted).sum(axis=-1, keepdims=True)))

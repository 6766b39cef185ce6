"""The contract between a sampler and the engine: a sampler selects the output rows that are
candidates in addition to the positives.

There are four kinds of candidates; objectives name the kinds that they take:

    "drawn"      a few rows drawn as noise from a distribution q, for each example (classification)
                 or block (skip-gram)
    "all"        every row
    "path"       the inner nodes on the path to the positive in the objective's tree
    "retrieved"  the rows that an index finds to score highest; for most objectives drawn rows stand
                 for the others

A sampler that draws has two compiled functions. Their signatures are the same for all samplers, so
that one compiled engine serves all by indirect calls, one per block or example:

    sample(data, input_row, stream, first, n, n_excluded, workspace) -> how many rows were drawn
    log_expected_count(data, input_row, n_drawn, n_excluded, rows, n, out)

    data        `SamplerData`, the sampler's own arrays
    input_row   int64: the row of `SamplerData.features` that the draws of a `conditional` sampler
                depend on, which is the number of the example; -1 for draws that several inputs
                share, as those of a block of skip-gram
    stream      uint64: key of a stream of random numbers (`kernels.random`); draw d uses number
                first + d of it
    n           number of rows to draw; fewer are drawn if there are no more rows
    n_excluded  the rows workspace.excluded[:n_excluded] are the example's positives; a sampler
                without replacement does not draw them. Others draw from all rows, and the objective
                decides how an accidental hit counts
    workspace   `SampleWorkspace`; the rows drawn are written to workspace.rows
    out         float32: out[:n] is overwritten by the log of the expected number of draws of
                rows[:n] among n_drawn

Rows may be drawn repeatedly. Then each draw counts, unless `replacement` is False: then a row
counts once, and its expected count is the probability that it is drawn at least once.

A `conditional` sampler is fitted to the inputs before it draws (`fit`). Its arrays are saved with
the model (`arrays`, `restore`), because predictions need the noise probability of each class for an
input (`log_noise_of`).
"""

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numba
import numpy as np
from numba import types
from numpy import float32, int32, int64, ndarray

from embedx.kernels import by_address, kernel
from embedx.runtime.progress import SILENT, Progress
from embedx.settings import Settings

Candidates = Literal["drawn", "all", "path", "retrieved"]
# Entries of `SampleWorkspace.seen`.
FILTER_SIZE = 512
# Arguments of `sample`: draws depend on no input, and exclude no row.
NO_INPUT = -1
NONE_EXCLUDED = 0


class Paths(NamedTuple):
    """A tree over classes: the path to class k has nodes[offsets[k]:offsets[k + 1]], with the bits
    of its branches.
    """

    offsets: ndarray  # int64 (n_classes + 1,)
    nodes: ndarray  # int32: output rows
    bits: ndarray  # float32: 1 or 0


@by_address
class SamplerData(NamedTuple):
    """Arrays for the compiled functions of a sampler, which define their meaning. Unused ones are
    empty.
    """

    rows: ndarray  # int32 (any,)
    values: ndarray  # float32 (any,)
    offsets: ndarray  # int64 (any,)
    # float32 (n_classes,): log of the expected number of draws, unless the sampler is conditional
    log_expected: ndarray
    features: ndarray  # float32 (inputs, any): features of the inputs that draws depend on
    weights: ndarray  # float32 (any, any)


class Pairs(NamedTuple):
    """Pairs of inputs and labels, by label: label y has inputs[offsets[y]:offsets[y + 1]]."""

    offsets: ndarray  # int64 (n_labels + 1,)
    inputs: ndarray  # int32 (n_pairs,): rows of the features
    weights: ndarray  # float32 (n_pairs,): the number of times each pair occurs


def pairs_of(
    inputs: ndarray, labels: ndarray, n_labels: int, weights: ndarray | None = None
) -> Pairs:
    """`Pairs` from the inputs, labels and weights of pairs; by default weights are 1."""
    order = np.argsort(labels, kind="stable")
    offsets = np.concatenate([[0], np.cumsum(np.bincount(labels, minlength=n_labels))]).astype(
        int64
    )
    weights = (
        np.ones(len(order), float32) if weights is None else np.asarray(weights, float32)[order]
    )
    return Pairs(offsets, np.asarray(inputs, int32)[order], weights)


@by_address
class SampleWorkspace(NamedTuple):
    """A worker's buffers for draws."""

    rows: ndarray  # int32 (n_draws,)
    excluded: ndarray  # int32 (max positives,); may be overwritten
    # int64 (FILTER_SIZE,): a quick test whether a row is new; -1 before and after a call
    seen: ndarray


def new_data(**arrays: ndarray) -> SamplerData:
    """`SamplerData` with these arrays; the others are empty."""
    empty = SamplerData(
        np.zeros(0, int32),
        np.zeros(0, float32),
        np.zeros(1, int64),
        np.zeros(0, float32),
        np.zeros((0, 0), float32),
        np.zeros((0, 0), float32),
    )
    return empty._replace(**arrays)


def new_sample_workspace(n_draws: int, max_positives: int) -> SampleWorkspace:
    """Buffers for up to `n_draws` draws for an example of up to `max_positives` positives."""
    return SampleWorkspace(
        np.zeros(n_draws, int32), np.zeros(max_positives, int32), np.full(FILTER_SIZE, -1, int64)
    )


_DATA = numba.typeof(new_data())
_WORKSPACE = numba.typeof(new_sample_workspace(0, 0))
_ROWS = types.int32[::1]
_OUT = types.float32[::1]
SAMPLE = types.int64(
    _DATA, types.int64, types.uint64, types.uint64, types.int64, types.int64, _WORKSPACE
)
LOG_EXPECTED_COUNT = types.void(
    _DATA, types.int64, types.int64, types.int64, _ROWS, types.int64, _OUT
)


@kernel
def no_draws(data, input_row, stream, first, n, n_excluded, workspace):
    """Nothing is drawn."""
    return 0


@kernel
def certain_rows(data, input_row, n_drawn, n_excluded, rows, n, out):
    """Overwrite `out` by 0, the log of a count of 1: rows are present with certainty."""
    for k in range(n):
        out[k] = 0


class Sampler:
    """Base class of samplers. One with a fixed distribution is an `alias.AliasSampler`, which needs
    only the probabilities.
    """

    name: str  # what the user types after --sampler
    meaning: str  # a line for help texts and pages
    candidates: Candidates
    Settings: type[Settings] = Settings  # its own, in addition to those of the task
    word_settings: tuple[str, ...] = ()  # those of its own that have no effect in classification
    conditional: bool = False  # draws depend on the input
    needs_dense_inputs: bool = False  # requires dense features or a hidden layer
    fit_seconds: float = 0.0  # duration of `fit`
    # The two compiled functions of the module's docstring.
    sample: Any = staticmethod(no_draws)
    log_expected_count: Any = staticmethod(certain_rows)

    def __init__(self, settings: Any, *, replacement: bool = True) -> None:
        """A sampler with `settings` of its class `Settings`.

        Without `replacement` no row counts twice: uniform draws are distinct and avoid the
        positives; draws of any other fixed distribution may repeat, but count once.
        """
        self.settings = settings
        self.replacement = replacement

    @classmethod
    def fill_defaults(cls, settings: Any, *, corrected: bool) -> Any:
        """The settings with defaults filled in.

        corrected  whether the objective corrects its predictions for the noise
        """
        return settings

    def prepare(self, counts: ndarray, *, paths: Paths | None = None) -> None:
        """Compute what depends on the class counts, before training and on loading.

        counts    int64 (n_classes,)  how often each class occurs as a positive
        paths     the objective's tree, if it has one
        """
        self.counts = counts
        self.paths = paths

    def fit(
        self,
        inputs: Any,
        pairs: Pairs,
        *,
        seed: int = 0,
        threads: int = 1,
        progress: Progress = SILENT,
    ) -> None:
        """Fit a conditional sampler to inputs, float32 (n, width), dense or csr_matrix, and their
        classes.

        Called after `prepare`. `input_row` of a draw is then a row of `inputs`. Sets `fit_seconds`,
        and settings that are chosen from the data.
        """

    def observe(self, inputs: Any) -> None:
        """Draw for these inputs from now on, instead of those that it was fitted to."""

    def arrays(self) -> dict[str, ndarray]:
        """The arrays of a conditional sampler to save with a model."""
        return {}

    def restore(self, arrays: Mapping[str, ndarray]) -> None:
        """Restore the sampler from the arrays of a model, which include those of `Sampler.arrays`.
        Called after `prepare`.
        """

    @property
    def noise(self) -> ndarray:
        """q, the probability of each class at a draw, float64 (n_classes,); uniform if nothing is
        drawn.
        """
        return np.full(len(self.counts), 1 / len(self.counts))

    def log_noise(self, n_draws: int) -> ndarray:
        """The log expected count of each class among `n_draws`, up to a constant, float32
        (n_classes,), for predictions.
        """
        return np.zeros(len(self.counts), float32)

    def log_noise_of(self, inputs: Any, n_draws: int) -> ndarray:
        """`log_noise` for inputs (n, width): float32 (n_classes,), or (n, n_classes) if it depends
        on them.
        """
        return self.log_noise(n_draws)

    def data(self, n_draws: int) -> SamplerData:
        """The data of the compiled functions, for `n_draws` draws at a time."""
        return new_data()

"""The contract between a sampler and the engine: a sampler decides which output rows are the
candidates beside the positives.

There are four kinds of candidates, and objectives name those that they take:

    "drawn"      a few rows drawn as noise from a distribution q, for each example (classification)
                 or block (skip-gram)
    "all"        every row
    "path"       the inner nodes on the path to the positive in the objective's tree
    "retrieved"  the rows that an index finds to score highest

A sampler that draws has two compiled functions, with the same signatures for all samplers, so that
one compiled engine serves them by indirect calls, a block or an example at a time:

    sample(data, key, stream, first, n, n_excluded, workspace) -> how many rows were drawn
    log_expected_count(data, key, n_drawn, n_excluded, rows, n, out)

    data        `SamplerData`, the sampler's own arrays
    key         int64: what the draws may depend on, the number of an example (classification) or an
                input word (skip-gram); -1 for draws that several inputs share. Only a `conditional`
                sampler uses it; skip-gram then draws for each input separately
    stream      uint64: the stream of random numbers; draw d is made with number first + d of it
                (`kernels.random`), by place
    n           how many rows to draw; fewer are drawn if there are no more rows
    n_excluded  rows in workspace.excluded[:n_excluded] are the example's positives; a sampler
                without replacement does not draw them. Others draw from all rows, and the objective
                says what an accidental hit counts
    workspace   `SampleWorkspace`; the rows drawn are written to workspace.rows
    out         float32: out[:n] is overwritten by the log of the expected number of draws of
                rows[:n] among n_drawn

Rows may be drawn repeatedly. Then each draw counts, unless `replacement` is False, where a row
counts once however often it was drawn, and its expected count is the probability to be drawn at
least once.

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
FILTER_SIZE = 512


class Paths(NamedTuple):
    """A tree over classes: the nodes on the path to class k, and the branches to take, are those at
    offsets[k]:offsets[k+1].
    """

    offsets: ndarray  # int64 (n_classes + 1,)
    nodes: ndarray  # int32: output rows
    bits: ndarray  # float32: 1 or 0


@by_address
class SamplerData(NamedTuple):
    """Arrays for a sampler's compiled functions, each with a meaning of the sampler's own; one that
    is not needed is empty.
    """

    rows: ndarray  # int32 (any,)
    values: ndarray  # float32 (any,)
    offsets: ndarray  # int64 (any,)
    # float32 (n_classes,): log of the expected number of draws, unless the sampler is conditional
    log_expected: ndarray
    features: ndarray  # float32 (keys, any): what the draws depend on
    weights: ndarray  # float32 (any, any)


class Pairs(NamedTuple):
    """Inputs by the labels that they occur with; label y has offsets[y]:offsets[y + 1]."""

    offsets: ndarray  # int64 (n_labels + 1,)
    inputs: ndarray  # int32 (n_pairs,): rows of the features
    weights: ndarray  # float32 (n_pairs,): how often each occurs


def pairs_of(
    inputs: ndarray, labels: ndarray, n_labels: int, weights: ndarray | None = None
) -> Pairs:
    """Pairs from the input, the label and the weight of each; by default the weights are 1."""
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
    # int64 (FILTER_SIZE,): -1 before and after a call; a quick test that a row is new
    seen: ndarray


def new_data(**arrays: ndarray) -> SamplerData:
    """The sampler's data; arrays that are not given are empty."""
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
def no_draws(data, key, stream, first, n, n_excluded, workspace):
    """Nothing is drawn."""
    return 0


@kernel
def certain_rows(data, key, n_drawn, n_excluded, rows, n, out):
    """Rows are present with certainty: the log of a count of 1."""
    for k in range(n):
        out[k] = 0


class Sampler:
    """What a sampler declares. One with a fixed distribution is an `alias.AliasSampler`, which
    needs only the probabilities.
    """

    name: str  # what the user types after --sampler
    meaning: str  # what people read: in help texts and on the pages
    candidates: Candidates
    Settings: type[Settings] = Settings  # its own, beside those of the task
    conditional: bool = False  # what is drawn depends on the input
    needs_dense_inputs: bool = False  # requires dense features or a hidden layer
    fit_seconds: float = 0.0  # duration of `fit`
    # the two compiled functions of the module's docstring
    sample: Any = staticmethod(no_draws)
    log_expected_count: Any = staticmethod(certain_rows)

    def __init__(self, settings: Any, *, replacement: bool = True) -> None:
        """`settings` are of the class's own `Settings`.

        Without `replacement` no row counts twice among the draws: uniform draws are distinct and
        avoid the positives; draws of any other fixed distribution may repeat, and count once.
        """
        self.settings = settings
        self.replacement = replacement

    @classmethod
    def resolved(cls, settings: Any, *, corrected: bool) -> Any:
        """The settings with defaults filled in. `corrected`: predictions of the objective are
        corrected for the noise.
        """
        return settings

    def prepare(self, counts: ndarray, *, paths: Paths | None = None) -> None:
        """Fit what depends on the data, before training and on loading.

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
        """Fit a conditional sampler to inputs, float32 (n, width), dense or csr_matrix, and the
        classes that they occur with.

        Called after `prepare`. The inputs are then the keys of draws. Sets `fit_seconds`, and
        settings that are chosen by the data.
        """

    def observe(self, inputs: Any) -> None:
        """Make these inputs the keys of draws, instead of those that it was fitted to."""

    def arrays(self) -> dict[str, ndarray]:
        """The arrays of a conditional sampler, to be saved with a model."""
        return {}

    def restore(self, arrays: Mapping[str, ndarray]) -> None:
        """Restore the sampler from the arrays of a model, among them those of `Sampler.arrays`.
        Called after `prepare`.
        """

    @property
    def noise(self) -> ndarray:
        """q, float64 (n_classes,): the probability of each class at a draw; uniform where nothing
        is drawn.
        """
        return np.full(len(self.counts), 1 / len(self.counts))

    def log_noise(self, n_draws: int) -> ndarray:
        """float32 (n_classes,): log of the expected count of each class among `n_draws`, up to a
        constant, for predictions.
        """
        return np.zeros(len(self.counts), float32)

    def log_noise_of(self, inputs: Any, n_draws: int) -> ndarray:
        """`log_noise` for inputs (n, width): float32 (n_classes,), or (n, n_classes) where it
        depends on them.
        """
        return self.log_noise(n_draws)

    def data(self, n_draws: int) -> SamplerData:
        """What the compiled functions read when `n_draws` rows are drawn at a time."""
        return new_data()

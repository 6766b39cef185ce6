"""The ways to train a stretch of labelled examples, one class each; all of them are told the same and give the same.

DrawnRows   a few output rows for each example, or those on a tree's path       engine/rows.py
FoundRows   those that an index finds to score highest                          engine/searched.py
AllRows     every output row for each example                                  engine/columns.py
ByTiles     the same, where the rows of the loss do not know of each other     engine/tilewise.py
"""

import abc
import dataclasses
from typing import Any, NamedTuple

import numpy as np

from embedx.classification.classifier import drawn_at_all
from embedx.engine import full as columns
from embedx.engine import full_tiled as tilewise
from embedx.engine import retrieved as searched
from embedx.engine import sampled as rows
from embedx.engine.examples import Examples, copy_examples, new_feature_scratch, new_groups, room_for
from embedx.engine.loading import compile_coefficients, load_kernel
from embedx.kernels.random import stream_key
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import Table, UpdateRule, new_table
from embedx.optimizers.decay import clock_step, decay_all, step_size
from embedx.run.progress import Progress
from embedx.samplers.draws import new_draws, noise_distribution
from embedx.search.index import Index, empty
from embedx.search.messages import Messages, new_messages
from embedx.search.query import Probe, new_probe
from embedx.search.updater import Follower, Moved, new_moved

STRETCH = 4096  # examples between two looks at the clock, where steps are small
SEARCHED = 64  # the same where rows are found: so old is what an index knows of them
MOST_FOUND = 2**23  # rows that a minibatch may find


def way_for(objective: Objective, settings: Any, examples: Examples) -> "type[Way]":
    """The way that suits the resolved settings."""
    if settings.sampler == "search":
        return FoundRows
    if settings.sampler != "all":
        return DrawnRows
    is_sparse_linear = examples.dense.size == 0 and not settings.hidden
    by_tiles = objective.separable and is_sparse_linear and settings.labels != "one" and not settings.max_norm
    return ByTiles if by_tiles else AllRows


@dataclasses.dataclass
class Way(abc.ABC):
    """A way to train a stretch of examples; see the module's docstring."""

    objective: Objective
    settings: Any  # ClassifySettings, resolved
    examples: Examples
    optimizer: UpdateRule
    counts: np.ndarray
    hidden: Table
    n_rows: int
    dim: int  # the bias included
    state: np.ndarray
    n_updates: np.ndarray

    def __post_init__(self) -> None:
        self.n = len(self.examples.label_offsets) - 1
        self.has_bias = self.settings.bias != "none"
        self.batch = min(int(self.settings.batch_size or self.n), self.n)
        self.sum_over = float(self.n) if self.settings.gradient_scale == "sum" else 1.0
        self.threads = int(self.settings.threads or 1)
        self.prepare()

    stretch: int = dataclasses.field(init=False)
    scratches: list[Any] = dataclasses.field(init=False)
    outputs: Table = dataclasses.field(init=False)

    @abc.abstractmethod
    def prepare(self) -> None:
        """Allocate; set `stretch`, `scratches` (one for each thread of the trainer) and `outputs`."""

    @abc.abstractmethod
    def load_kernels(self, progress: Progress) -> None:
        """Compile, or load what was compiled."""

    @abc.abstractmethod
    def train(
        self, scratch: Any, order: np.ndarray, epoch: int, start: int, stop: int, rate: float, clock: float
    ) -> tuple[float, int, float]:
        """Train on order[start:stop]; the summed loss, the number of its terms, and what the clock of weight decay gained."""

    def apply_decay(self, clock: float) -> None:
        """Apply the weight decay that is due to all rows."""
        if self.optimizer.l2 > 0:
            n_decaying = self.settings.hidden or self.examples.dense.shape[1] or self.dim - self.has_bias
            decay_all(self.hidden, n_decaying, self.optimizer, clock)
            self.decay_outputs(clock)

    @abc.abstractmethod
    def decay_outputs(self, clock: float) -> None:
        """Apply what is due to the output rows."""

    @abc.abstractmethod
    def set_bias(self, bias: np.ndarray) -> None:
        """Write the biases to start from, float32 (n_rows,)."""

    def facts(self) -> dict[str, Any]:
        """What else is to be told of the training."""
        return {}

    @abc.abstractmethod
    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        """Output rows float32 (n_rows, dim without bias) and biases (n_rows,)."""

    def arrays(self) -> dict[str, np.ndarray]:
        """The parameters as a classifier has them."""
        output, bias = self.weights()
        arrays = {"output": output} | ({"bias": bias} if self.has_bias else {})
        return arrays | ({"hidden": self.hidden.rows[:, : self.settings.hidden]} if self.settings.hidden else {})


class DrawnRows(Way):
    """A few rows for each example, by threads that share the tables."""

    @property
    def sampler(self) -> str:
        """What rows are drawn by."""
        return str(self.settings.sampler)

    def prepare(self) -> None:
        settings, objective, n_classes = self.settings, self.objective, len(self.counts)
        self.outputs = new_table(self.n_rows, self.dim, self.optimizer)
        sampler = self.sampler
        paths = objective.paths() if sampler == "path" else None
        n_draws = min(objective.negatives, n_classes)
        noise = noise_distribution(self.counts, sampler, settings.sampler_exponent)
        if sampler == "path":
            sampling = rows.PATH
        elif settings.replacement:
            sampling = rows.REPLACED
        else:
            sampling = rows.DISTINCT if sampler == "uniform" else rows.COLLAPSED
        expected = drawn_at_all(noise, n_draws) if sampling == rows.COLLAPSED else n_draws * noise
        self.draws = new_draws(noise, expected, paths)
        self.constants = objective.constants(max(n_draws, 1), n_classes)
        is_dense = self.examples.dense.size > 0
        self.plan = rows.Plan(
            n_features=self.examples.dense.shape[1] if is_dense else len(self.hidden.rows) or self.dim - self.has_bias,
            dim=self.dim, has_bias=self.has_bias, is_dense=is_dense, has_hidden=bool(settings.hidden),
            takes=rows.TAKES[objective.positives], sampling=sampling, n_draws=n_draws, n_classes=n_classes,
            keeps_accidental_hits=objective.keeps_accidental_hits,
            uses_log_expected_count=objective.uses_log_expected_count, uses_score_gain=objective.uses_score_gain,
            one_label=settings.labels == "one", batch_size=self.batch, sum_over=self.sum_over,
        )  # fmt: skip
        longest = int(np.diff(self.draws.path_offsets).max(initial=1))
        self.scratches = [
            rows.new_scratch(self.plan, self.examples, self.n_rows, longest, objective.uniforms_width)
            for _ in range(self.threads)
        ]
        self.stretch = self.batch * max(1, STRETCH // 4 // self.batch)
        self.tables = rows.Tables(self.hidden, self.outputs, self.state, self.n_updates)

    def load_kernels(self, progress: Progress) -> None:
        arguments = self._arguments(self.scratches[0], np.arange(self.n), 0, 0, 0.0, 0.0, np.uint64(0))
        load_kernel(rows.train_stretch, self.objective, arguments, progress)

    def _arguments(
        self, scratch: Any, order: np.ndarray, start: int, stop: int, rate: float, clock: float, key: np.uint64
    ) -> tuple[Any, ...]:
        return (
            self.tables, self.examples, self.draws, self.constants, self.optimizer, self.plan, scratch, order, start, stop,
            np.float32(rate), float(clock), key,
        )  # fmt: skip

    def train(
        self, scratch: Any, order: np.ndarray, epoch: int, start: int, stop: int, rate: float, clock: float
    ) -> tuple[float, int, float]:
        arguments = self._arguments(scratch, order, start, stop, rate, clock, stream_key(self.settings.seed, epoch))
        loss, terms, after = rows.train_stretch(self.objective.coefficients, *arguments)
        return loss, terms, after - clock

    def decay_outputs(self, clock: float) -> None:
        decay_all(self.outputs, self.dim - self.has_bias, self.optimizer, clock)

    def set_bias(self, bias: np.ndarray) -> None:
        self.outputs.rows[:, self.dim - 1] = bias

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        return self.outputs.rows[:, : self.dim - self.has_bias], self.outputs.rows[:, self.dim - 1]


class FoundRows(DrawnRows):
    """The rows that an index finds, once a share of the run has drawn them instead: scores that are all alike tell nothing."""

    @property
    def sampler(self) -> str:
        return next(each for each in self.objective.samplers if each in ("uniform", "unigram"))

    def prepare(self) -> None:
        super().prepare()
        search = self.objective.search(len(self.counts))
        assert search is not None
        self.search = search = search.of(self.dim)
        most_labels = int(np.diff(self.examples.label_offsets).max(initial=1))
        most = min(search.blocks * search.looked_at, self.n_rows - 1, max(MOST_FOUND // self.batch - most_labels, 1))
        self.found_plan = self.plan._replace(n_draws=most, sampling=rows.REPLACED)
        self.found_constants = self.objective.constants(most, len(self.counts))
        for w, scratch in enumerate(self.scratches):
            own = rows.new_scratch(self.found_plan, self.examples, self.n_rows, 1, self.objective.uniforms_width)
            self.scratches[w] = _Finding(
                scratch, own, new_probe(self.n_rows, search), new_messages(self.n_rows, search, own.rows.shape[1]),
                new_moved(self.n_rows),
            )  # fmt: skip
        self.stretch = self.batch * max(1, SEARCHED // self.batch)
        self.drawn_first = self.objective.settings.warm_up * self.n

    def load_kernels(self, progress: Progress) -> None:
        self.follower = Follower(
            self.outputs.rows, self.n_rows, self.dim, self.search,
            seed=self.settings.seed, threads=self.threads, progress=progress,
        )  # fmt: skip
        finding = self.scratches[0]
        if self.drawn_first > 0:
            arguments = self._arguments(finding.drawn, np.arange(self.n), 0, 0, 0.0, 0.0, np.uint64(0))
            load_kernel(rows.train_stretch, self.objective, arguments, progress)
        arguments = self._found(finding, empty(self.search.blocks), np.arange(self.n), 0, 0, 0.0, 0.0, np.uint64(0))
        load_kernel(searched.train_stretch, self.objective, arguments, progress)

    def _found(
        self,
        scratch: "_Finding",
        index: Index,
        order: np.ndarray,
        start: int,
        stop: int,
        rate: float,
        clock: float,
        key: np.uint64,
    ) -> tuple[Any, ...]:
        return (
            self.tables, self.examples, index, self.search, self.found_constants, self.optimizer, self.found_plan,
            scratch.found, scratch.probe, scratch.messages, scratch.moved, order, start, stop,
            np.float32(rate), float(clock), key,
        )  # fmt: skip

    def train(
        self, scratch: Any, order: np.ndarray, epoch: int, start: int, stop: int, rate: float, clock: float
    ) -> tuple[float, int, float]:
        if epoch * self.n + start < self.drawn_first:
            return super().train(scratch.drawn, order, epoch, start, stop, rate, clock)
        index, key = self.follower.current(), stream_key(self.settings.seed, epoch)
        arguments = self._found(scratch, index, order, start, stop, rate, clock, key)
        loss, terms, after = searched.train_stretch(self.objective.coefficients, *arguments)
        self.follower.follow(scratch.moved)
        return loss, terms, after - clock

    def facts(self) -> dict[str, Any]:
        return {"index_builds": self.follower.n_builds, "index_seconds": round(self.follower.build_seconds, 3)}


class _Finding(NamedTuple):
    """A worker's memory."""

    drawn: rows.Scratch
    found: rows.Scratch
    probe: Probe
    messages: Messages
    moved: Moved


class AllRows(Way):
    """All rows for each example: large matrix products, by threads that share a step."""

    def prepare(self) -> None:
        objective, settings = self.objective, self.settings
        stride = -(-self.n_rows // columns.TILE) * columns.TILE
        self.outputs = new_table(self.dim, stride, self.optimizer, columns=True)
        n_features = len(self.hidden.rows) or (0 if self.examples.dense.size else self.dim - self.has_bias)
        self.steps = columns.AllRows(
            objective.coefficients, columns.Layer(self.hidden, self.outputs, self.state, self.n_updates),
            self.examples, self.optimizer,
            n_rows=self.n_rows, has_bias=self.has_bias, pairs=objective.positives == "single",
            sums=objective.positives == "summed", keeps_accidental_hits=objective.keeps_accidental_hits,
            one_label=settings.labels == "one", uniforms_width=objective.uniforms_width,
            uses_score_gain=objective.uses_score_gain, sparse_gradient=objective.sparse_gradient,
            constants=objective.constants(self.n_rows, self.n_rows),
            features=new_feature_scratch(self.examples, n_features, self.batch, self.dim), threads=self.threads,
        )  # fmt: skip
        self.scratches = [None]
        self.stretch = self.batch

    def load_kernels(self, progress: Progress) -> None:
        compile_coefficients(self.objective)

    def train(
        self, scratch: Any, order: np.ndarray, epoch: int, start: int, stop: int, rate: float, clock: float
    ) -> tuple[float, int, float]:
        loss, terms = self.steps.step(
            order, start, stop, rate, float(step_size(self.optimizer, rate)), clock, self.sum_over / (stop - start),
            np.random.default_rng([self.settings.seed, epoch, start]),
        )  # fmt: skip
        return loss, terms, float(clock_step(self.optimizer, rate))

    def decay_outputs(self, clock: float) -> None:
        columns.decay_features(
            self.outputs, np.arange(self.dim, dtype=np.int32), 0, self.dim - self.has_bias, self.n_rows, self.optimizer, clock
        )

    def set_bias(self, bias: np.ndarray) -> None:
        self.outputs.rows[self.dim - 1, : self.n_rows] = bias

    def weights(self) -> tuple[np.ndarray, np.ndarray]:
        return self.outputs.rows[: self.dim - self.has_bias, : self.n_rows].T, self.outputs.rows[self.dim - 1, : self.n_rows]


class ByTiles(AllRows):
    """All rows, none of which knows of the others: a few at a time, over a stretch of minibatches."""

    def prepare(self) -> None:
        super().prepare()
        self.stretch = self.batch * max(1, 2 * STRETCH // self.batch)
        n_steps = self.stretch // self.batch
        values = np.sort(np.diff(self.examples.offsets))[::-1][: self.batch].sum()
        width = int(min(self.dim, values))
        self.touched = tilewise.Steps(np.zeros(n_steps + 1, dtype=np.int64), np.zeros(n_steps * width, dtype=np.int32))
        self.groups = new_groups(self.dim, int(values))
        self.in_order = room_for(self.examples, min(self.stretch, self.n))
        self.tile_scratches = [tilewise.new_scratch(self.batch, self.dim, self.optimizer) for _ in range(self.threads)]
        # Weight decay is applied to a whole tile before the next one begins, so that none is due between stretches.
        self.n_tiles = self.outputs.rows.shape[1] // tilewise.WIDTH

    def load_kernels(self, progress: Progress) -> None:
        arguments = self._arguments(self.tile_scratches[0], 0, 0, 0, 0.0, 0.0)
        load_kernel(tilewise.train_tiles, self.objective, arguments, progress)

    def _arguments(self, scratch: Any, n: int, first: int, last: int, rate: float, clock: float) -> tuple[Any, ...]:
        bias_row = self.dim - 1 if self.has_bias else -1
        return (
            self.in_order, self.touched, self.outputs, self.steps.constants, self.optimizer, scratch, n, self.batch,
            self.sum_over, bias_row, self.n_rows, first, last, self.objective.keeps_accidental_hits,
            self.objective.positives == "summed", np.float32(rate), float(clock),
        )  # fmt: skip

    def train(
        self, scratch: Any, order: np.ndarray, epoch: int, start: int, stop: int, rate: float, clock: float
    ) -> tuple[float, int, float]:
        copy_examples(self.examples, order, start, stop, self.in_order)
        tilewise.find_touched(self.in_order, stop - start, self.batch, self.groups, self.touched)

        def work(w: int) -> float:
            first, last = (self.n_tiles * edge // self.threads * tilewise.WIDTH for edge in (w, w + 1))
            arguments = self._arguments(self.tile_scratches[w], stop - start, first, last, rate, clock)
            return float(tilewise.train_tiles(self.objective.coefficients, *arguments))

        loss = sum(self.steps.pool.map(work, range(self.threads)))
        chosen = order[start:stop]
        has_labels = self.examples.label_offsets[chosen + 1] > self.examples.label_offsets[chosen]
        n_steps = -(-(stop - start) // self.batch)
        return loss, int(has_labels.sum()), n_steps * float(clock_step(self.optimizer, rate))

    def decay_outputs(self, clock: float) -> None:
        pass

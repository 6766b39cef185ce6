"""How skip-gram trains by noise that depends on the input word: by a sampler that is fitted to the input vectors on the way.

Vectors tell nothing at first. So noise that is the same for all words is drawn until `--fit-after` passes are over, a block of
words at a time; then the sampler is fitted to the input vectors of that moment and pairs from all over the corpus, and draws
for each pair by itself. It is fitted anew after as many passes again, and so on; but not where predictions are corrected for
the noise, which is then to be one noise (Bamler & Mandt 2020, theorem 1).

It does not pay: 3 MB of Wikipedia, 9,013 words, 4 passes, one thread, held-out log-likelihood by unigram noise and by the tree:
ns -8.240 in 8 s and -8.585 in 75 s, ar -8.275 in 12 s and -8.293 in 136 s, 22 of them for seven fits. Draws for each pair by
itself cost more than the steps that they serve, and ns has to unlearn what it knew once the tree has taken that over.
"""

import threading
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from embedx.engine import skipgram as engine
from embedx.engine.loading import load_kernel
from embedx.kernels.random import stream_key
from embedx.run.progress import Progress
from embedx.run.state import TrainState
from embedx.run.tally import Tally
from embedx.samplers.contract import new_data, pairs_of
from embedx.skipgram.strategies import Streamed
from embedx.text.cooccurrence import some_pairs

MOST_PAIRS = 1 << 19  # that the sampler is fitted to
BYTES_PER_PAIR = 64  # while they are drawn and sorted
FITTED = 2**33  # the place of the pairs for fitting among a seed's random numbers


class _Worker(NamedTuple):
    """A worker's memory, before the sampler is fitted and after."""

    blocks: engine.SkipGramWorkspace
    pairs: engine.SkipGramWorkspace


class FittedStream(Streamed):
    """Noise by a conditional sampler, `later`; `sampler` is what draws until that is fitted."""

    def prepare(self) -> None:
        assert self.later is not None
        self.conditional = self.later
        self.fit_lock = threading.Lock()
        self.n_fits = 0
        self.round_passes = 0.0  # over the corpus, before the round under way
        n_words, n_draws = len(self.tables.state), max(self.objective.negatives, 1)
        self.fitted_draws = new_data()
        self.fitted_plan = self.plan._replace(block_size=0, n_draws=n_draws, conditional=True)
        self.fitted_constants = self.objective.constants(n_draws, n_words)

    def new_workers(self) -> list[Any]:
        of_pairs = [self.new_workspace(self.fitted_plan, 1, worker) for worker in self.worker_numbers]
        return [_Worker(*each) for each in zip(super().new_workers(), of_pairs, strict=True)]

    def memory(self) -> dict[str, int]:
        n_words, dim = len(self.tables.state), self.settings.dim
        copied, pairs = 4 * n_words * dim, BYTES_PER_PAIR * MOST_PAIRS
        return super().memory() | {"noise": self.conditional.memory(n_words, dim) + copied + pairs}

    def compile(self, progress: Progress) -> None:
        self.progress = progress
        worker = self.workers[0]
        like = self._arguments(worker.blocks, 0, 0, 0.0)
        self.functions = load_kernel(engine.train_stretch, self.objective.coefficients, self.sampler, like, progress)
        like = self._fitted_arguments(worker, 0, 0, 0.0)
        self.fitted_functions = load_kernel(engine.train_stretch, self.objective.coefficients, self.conditional, like, progress)

    def phase(self, step: int) -> int:
        return int(step / self.n_stretches >= self.settings.fit_after)

    def begin_round(self, epoch: int, stretch: int) -> None:
        self.round_passes = epoch + stretch / self.n_stretches
        if self.round_passes >= self.settings.fit_after:
            self._fit_if_due(self.round_passes)

    def train(self, worker: Any, epoch: int, stretch: int, rate: float) -> Tally:
        is_apart = self.settings.deterministic
        passes = self.round_passes if is_apart else epoch + stretch / self.n_stretches
        if passes < self.settings.fit_after:
            return super().train(worker.blocks, epoch, stretch, rate)
        if not is_apart:
            self._fit_if_due(passes)
        arguments = self._fitted_arguments(worker, epoch, stretch, rate)
        return Tally(*engine.train_stretch(*self.fitted_functions, *arguments))

    def _fitted_arguments(self, worker: _Worker, epoch: int, stretch: int, rate: float) -> tuple[Any, ...]:
        tables, workspace = self.own(worker.pairs)
        return (
            tables, self.stream, self.fitted_draws, self.fitted_constants, self.fitted_plan, workspace,
            *self.place(epoch, stretch, rate),
        )  # fmt: skip

    def _fit_if_due(self, passes: float) -> None:
        """Fit the sampler for the first time, or anew; other threads that get here wait."""
        with self.fit_lock:
            due = 1 if self.objective.adds_log_noise or not self.settings.fit_after else int(passes / self.settings.fit_after)
            if self.n_fits >= due:
                return
            n_words = len(self.tables.state)
            key = stream_key(self.settings.seed, FITTED, self.n_fits)
            inputs, targets, times = some_pairs(self.stream, self.settings.window, key, MOST_PAIRS)
            vectors = engine.input_vectors(self.tables)[:, : self.settings.dim].copy()
            self.conditional.fit(
                vectors, pairs_of(inputs, targets, n_words, times), seed=self.settings.seed, threads=self.settings.threads,
                progress=self.progress,
            )  # fmt: skip
            self.fitted_draws = self.conditional.data(self.fitted_plan.n_draws)
            self.n_fits = due

    def state(self) -> TrainState:
        state = super().state()
        state.add_attribute("sampler.n_fits", self, "n_fits", "max")
        state.add("sampler", self._read_sampler, self._write_sampler, "rebuild")
        return state

    def _read_sampler(self) -> dict[str, np.ndarray]:
        return self.conditional.arrays(of_keys=True) if self.n_fits else {}

    def _write_sampler(self, arrays: Mapping[str, np.ndarray]) -> None:
        if arrays:
            self.conditional.restore(arrays)
            self.fitted_draws = self.conditional.data(self.fitted_plan.n_draws)

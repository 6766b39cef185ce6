"""Word vectors by workers on a cluster: what each is told, and how it trains the same stream of pairs."""

import contextlib
import dataclasses
import math
import platform
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from embedx.cluster import run
from embedx.cluster.encoding import read_by_machines
from embedx.cluster.files import SharedFolder, shared
from embedx.cluster.ray_nodes import ReadFromHead, Size
from embedx.cluster.run import Cluster
from embedx.cluster.settings import ClusterSettings
from embedx.cluster.strategy import OnCluster
from embedx.engine.subwords import Parts
from embedx.errors import EmbedxError
from embedx.objectives.contract import Objective
from embedx.run.memory import amount, available_memory, n_bytes
from embedx.run.progress import Progress
from embedx.run.trainer import usable_cores
from embedx.samplers.contract import Sampler
from embedx.settings import TextSettings
from embedx.skipgram.settings import SkipGramSettings
from embedx.skipgram.strategies import STRETCH, RetrievedStream, Streamed
from embedx.skipgram.tables import empty_tables
from embedx.text import cache
from embedx.text.building import Building
from embedx.text.encoded_corpus import ABOUT, TOKENS
from embedx.text.sources import Source
from embedx.text.subsampling import TokenStream

MERGES = 50  # of each worker over a run, where they are cheap enough
# With more workers each knows less of the others: at least so many times the root of their number, unless the head could not
# keep up by far, and in any case at least FEWEST.
MERGES_BY_WORKERS, FEWEST_MERGES = 14.0, 20
FEWEST_ALONE = 10  # of one that has nobody to merge with
# A range has at least so many words for each row: to merge a row and to send it to and fro takes a worker and the head 0.8 µs,
# and to train a word takes a thread 0.6 µs, so that about a tenth of the time goes to merging; and the head must keep up with
# all threads.
WORDS_PER_ROW, WORDS_PER_ROW_AND_THREAD = 16, 0.5
LEAST_PER_ROW, LEAST_PER_ROW_AND_THREAD = 2, 0.25  # by far
# Of a range, for each thread: some seconds, which is what a lost worker costs; and where that is too little for the head.
MOST_STRETCHES, LONGEST_STRETCHES = 400, 2000


@dataclass(frozen=True)
class StreamPart:
    """All that a worker needs to train stretches of a stream."""

    objective: Objective
    settings: SkipGramSettings
    sampler: Sampler
    warm_up: Sampler | None
    parts: Parts
    n_rows: tuple[int, int]  # of words, and of buckets of n-grams
    frozen: tuple[np.ndarray, np.ndarray]  # of the rows of inputs and outputs
    kept_share: np.ndarray
    text: SharedFolder
    stream: TokenStream  # without its tokens
    home: Path | None  # of the token cache, on each machine

    def __call__(self, threads: int) -> Streamed:
        """The strategy, on tables of zeros."""
        settings = dataclasses.replace(self.settings, threads=threads)
        tables = empty_tables(self.objective, settings, *self.n_rows)
        need, have = 2 * n_bytes((tables.inputs, tables.outputs)), available_memory()
        if need > have:
            raise EmbedxError(
                f"{platform.node()}: a worker needs {amount(need)} for its tables and for what it knows of those in common, "
                f"more than the {amount(have)} there are; lower --workers, --dim or --max-vocab"
            )
        inputs, outputs = (
            table._replace(frozen=frozen) for table, frozen in zip((tables.inputs, tables.outputs), self.frozen, strict=True)
        )
        folder = self.text.local(self.home or cache.default_folder())
        stream = self.stream._replace(tokens=np.memmap(folder / TOKENS, np.int32, "r"))
        tables = tables._replace(inputs=inputs, outputs=outputs, parts=self.parts)
        made = strategy_for(self.objective, settings, self.sampler, self.warm_up, tables, stream)
        made.kept_share = self.kept_share
        return made


def strategy_for(
    objective: Objective, settings: Any, sampler: Sampler, warm_up: Sampler | None, tables: Any, stream: TokenStream
) -> Streamed:
    """The way in which rows compete; `warm_up` is what draws before the sampler can."""
    strategy = Streamed if warm_up is None else RetrievedStream
    return strategy(objective, settings, warm_up or sampler, tables, stream)


class TextCluster(Cluster):
    """The workers of a run on text, and who reads it."""

    home: Path | None = None  # of the token cache, on each machine; None for its own
    threads: int | None = None  # by which this machine reads

    def read(self, sources: Sequence[Source], settings: TextSettings, progress: Progress, building: Building) -> dict[str, Any]:
        """Read several sources by all machines; see `reading.read`."""
        home = self.home.absolute() if self.home else None
        return read_by_machines(sources, settings, progress, building, self.size, home, self.threads or usable_cores())

    def strategy(self, inner: Streamed, task: Any) -> OnCluster:
        """How workers train what `inner` would train here; `task` is the run."""
        folder, tables = task.corpus.folder, task.tables
        part = StreamPart(
            task.objective, task.settings, task.sampler, task.warm_up, tables.parts,
            (len(task.words), len(tables.inputs.rows) - len(task.words)), (tables.inputs.frozen, tables.outputs.frozen),
            task.kept_share(), shared(folder, ABOUT, ReadFromHead(folder)),
            task.stream()._replace(tokens=np.zeros(0, np.int32)), self.home,
        )  # fmt: skip
        n_rows = len(tables.inputs.rows) + len(tables.outputs.rows)
        epochs, words = task.settings.epochs, self.settings.merge_every
        return self.divided(inner, part, stretches_in_range(words, inner.n_stretches, epochs, n_rows, self.size))


@contextlib.contextmanager
def cluster_of(
    settings: ClusterSettings, threads: int | None, home: Path | None, progress: Progress
) -> Iterator[TextCluster | None]:
    """The cluster that is asked for, if any is. Raises `EmbedxError` if it cannot be had."""
    with run.cluster_of(settings, threads, progress, TextCluster) as found:
        if found is not None:
            found.home, found.threads = home, threads
        yield found


def stretches_in_range(words: int | None, n_stretches: int, epochs: float, n_rows: int, size: Size) -> int:
    """How many stretches a worker trains before it merges, on tables of so many rows in all."""
    if words is not None:
        return max(1, words // STRETCH)
    of_worker = n_stretches * epochs / size.workers
    threads = size.workers * size.threads
    least = max(WORDS_PER_ROW, WORDS_PER_ROW_AND_THREAD * threads) * n_rows / STRETCH
    by_far = max(LEAST_PER_ROW, LEAST_PER_ROW_AND_THREAD * threads) * n_rows / STRETCH
    most = min(max(MOST_STRETCHES * size.threads, least), LONGEST_STRETCHES * size.threads)
    if size.workers == 1:
        return max(1, int(min(of_worker / FEWEST_ALONE, LONGEST_STRETCHES * size.threads)))
    good = of_worker / min(MERGES_BY_WORKERS * math.sqrt(size.workers), MERGES)
    return max(1, int(min(max(of_worker / MERGES, least), max(good, by_far), of_worker / FEWEST_MERGES, most)))


def check(settings: SkipGramSettings, sampler: Sampler) -> None:
    """Raise `EmbedxError` for what workers apart from each other cannot do."""
    if settings.deterministic:
        raise EmbedxError(
            "--deterministic does not apply with --cluster, whose workers merge as they come; leave out one of them"
        )

"""Random walks, made by the threads that train: walk k of an epoch is a function of seed, epoch and
k, and not stored.

The chance of a step from t over v to x, with the weight w of the edge from v to x, is proportional
to w / p if x is t, w if there is an edge from t to x, and w / q otherwise (Grover & Leskovec 2016,
"node2vec: scalable feature learning for networks", eq. 3). Steps are drawn by the weights alone and
accepted with a chance proportional to the rest, so that no table by edges is needed; where 1 / p is
above the other two, what a step back has more than these is drawn separately (Yang et al. 2019,
"KnightKing: a fast distributed graph random walk engine", 4.2). Along a metapath each node is drawn
among the neighbours of the next type (Dong, Chawla & Swami 2017, "metapath2vec").
"""

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import float64, int32, int64, ndarray, uint64

from embedx.errors import SettingError
from embedx.graphs.graph import Graph
from embedx.graphs.read import node_types, read_graph
from embedx.graphs.settings import MAX_GRADIENT, GraphSettings
from embedx.kernels.compiled import kernel, kernel_part
from embedx.kernels.random import bits, stream_key, uniform
from embedx.runtime.cores import usable_cores
from embedx.runtime.disk import amount
from embedx.runtime.memory import n_bytes
from embedx.runtime.progress import Progress
from embedx.runtime.random_streams import WALKS
from embedx.text import cache
from embedx.text.corpus_writer import CorpusWriter
from embedx.text.encoded_corpus import EncodedCorpus
from embedx.text.tokenizer import END_OF_SENTENCE
from embedx.text.word_list import WordList

# Tokens of those walks that are kept, to be held out and to recognise the graph by.
MAX_SAMPLED_TOKENS = 1 << 22
NO_TYPE = -1


class Walker(NamedTuple):
    """A graph and how walks go through it.

    Walk k begins at starts[k * stride mod len(starts)], so that walks after each other begin all
    over the graph.

    offsets, neighbours, cumulative   see `Graph`
    starts         int32: the nodes that walks begin at
    return_chance  1 / p over max(1, 1 / q): the chance to accept a step back; it may be above 1
    near_chance    1 over the same: the chance to accept a step to a neighbour of the last node
    far_chance     1 / q over the same: the chance to accept any other step
    node_type      int32 (nodes,), or (0,) without a metapath
    pattern        int32: the types that a walk goes through over and over
    """

    offsets: ndarray
    neighbours: ndarray
    cumulative: ndarray
    starts: ndarray
    stride: int
    length: int
    return_chance: float
    near_chance: float
    far_chance: float
    node_type: ndarray
    pattern: ndarray


@kernel
def write_walks(walker, key, first, last, tokens):
    """Write the walks first:last with a mark after each to int32 `tokens`; return the number of
    tokens and marks.
    """
    n = 0
    for k in range(first, last):
        n = _write_walk(walker, bits(key, uint64(k)), _start(walker, k), tokens, n)
    return n


@kernel
def count_walks(walker, key, first, last, tokens, counts):
    """Add how often each node is in the walks first:last to int64 `counts`."""
    for k in range(first, last):
        n = _write_walk(walker, bits(key, uint64(k)), _start(walker, k), tokens, 0)
        for at in range(n - 1):
            counts[tokens[at]] += 1


@kernel_part
def _start(walker, k):
    """The node at which walk k begins."""
    return walker.starts[(k * walker.stride) % len(walker.starts)]


@kernel_part
def _write_walk(walker, key, start, tokens, n):
    """Write a walk and the mark to tokens[n:]; return where the next begins."""
    counter = uint64(0)
    last = int64(-1)
    node = int64(start)
    is_first_order = (
        walker.return_chance == walker.near_chance and walker.near_chance == walker.far_chance
    )
    tokens[n] = node
    n += 1
    for step in range(1, walker.length):
        begin = walker.offsets[node]
        end = walker.offsets[node + 1]
        if begin == end:
            break
        if len(walker.pattern) > 0:
            wanted = walker.pattern[step % len(walker.pattern)]
            to = _of_type(walker, begin, end, wanted, uniform(key, counter))
            counter += uint64(1)
            if to < 0:
                break
        elif is_first_order or last < 0:
            to = int64(walker.neighbours[_drawn(walker, begin, end, uniform(key, counter))])
            counter += uint64(1)
        else:
            to, counter = _second_order(walker, key, counter, last, begin, end)
        last = node
        node = to
        tokens[n] = node
        n += 1
    tokens[n] = END_OF_SENTENCE
    return n + 1


@kernel_part
def _second_order(walker, key, counter, last, begin, end):
    """A neighbour among begin:end by node2vec's chances after the node `last`, and the next random
    number.
    """
    extra = 0.0
    if walker.return_chance > 1:
        back = _edge_to(walker, begin, end, last)
        if back >= 0:
            extra = (walker.return_chance - 1) * _share(walker, begin, end, back)
    smaller = min(walker.near_chance, walker.far_chance)
    larger = max(walker.near_chance, walker.far_chance)
    while True:
        place = (1 + extra) * uniform(key, counter)
        chance = uniform(key, counter + uint64(1))
        counter += uint64(2)
        if place >= 1:
            return last, counter
        to = int64(walker.neighbours[_drawn(walker, begin, end, place)])
        if to == last:
            is_accepted = bool(chance < walker.return_chance)
        elif chance < smaller or chance >= larger:
            is_accepted = bool(chance < smaller)
        else:
            is_near = _edge_to(walker, walker.offsets[last], walker.offsets[last + 1], to) >= 0
            is_accepted = is_near == (walker.near_chance > walker.far_chance)
        if is_accepted:
            return to, counter


@kernel_part
def _drawn(walker, begin, end, u):
    """The place of a neighbour among begin:end, drawn by the weights with a number in [0, 1)."""
    if len(walker.cumulative) == 0:
        return begin + int64(u * (end - begin))
    low = begin
    high = end - 1
    while low < high:
        middle = (low + high) // 2
        if walker.cumulative[middle] > u:
            high = middle
        else:
            low = middle + 1
    return low


@kernel_part
def _edge_to(walker, begin, end, target):
    """The place of a node among the neighbours begin:end; -1 if it is none of them."""
    low = begin
    size = end - begin
    while size > 1:
        half = size >> 1
        # a conditional expression, because it compiles to no branch
        low = low + half if walker.neighbours[low + half] <= target else low
        size -= half
    if size == 1 and walker.neighbours[low] == target:
        return low
    return int64(-1)


@kernel_part
def _of_type(walker, begin, end, wanted, u):
    """A neighbour of a type among begin:end, drawn by the weights; -1 if there is none."""
    total = 0.0
    for at in range(begin, end):
        if walker.node_type[walker.neighbours[at]] == wanted:
            total += _share(walker, begin, end, at)
    drawn = int64(-1)
    left = u * total
    for at in range(begin, end):
        if walker.node_type[walker.neighbours[at]] == wanted and left >= 0:
            drawn = int64(walker.neighbours[at])
            left -= _share(walker, begin, end, at)
    return drawn


@kernel_part
def _share(walker, begin, end, at):
    """The weight of an edge over that of all edges begin:end of its node."""
    if len(walker.cumulative) == 0:
        return 1 / float64(end - begin)
    share = float64(walker.cumulative[at])
    if at > begin:
        share -= float64(walker.cumulative[at - 1])
    return share


class Walks:
    """The walks of a run in place of the tokens of a corpus."""

    max_gradient = MAX_GRADIENT

    def __init__(self, graph: Graph, settings: GraphSettings, seed: int) -> None:
        self.graph = graph
        self.settings = settings
        self.seed = seed
        node_type = np.zeros(0, int32)
        pattern = np.zeros(0, int32)
        starts = np.flatnonzero(np.diff(graph.offsets)).astype(int32)
        if settings.metapath is not None:
            node_type, pattern = _metapath(settings, settings.metapath, graph.names)
            starts = starts[node_type[starts] == pattern[0]]
        highest = max(1, 1 / settings.q)
        self.walker = Walker(
            offsets=graph.offsets,
            neighbours=graph.neighbours,
            cumulative=graph.cumulative,
            starts=starts,
            stride=_stride(len(starts)),
            length=settings.walk_length,
            return_chance=1 / settings.p / highest,
            near_chance=1 / highest,
            far_chance=1 / settings.q / highest,
            node_type=node_type,
            pattern=pattern,
        )

    @property
    def n_walks(self) -> int:
        """The number of walks in an epoch."""
        return len(self.walker.starts) * int(self.settings.walks or 1)

    def n_chunks(self, n_tokens: int) -> int:
        """The number of chunks of at most `n_tokens` tokens in an epoch."""
        return -(-self.n_walks // self._at_a_time(n_tokens))

    def write_chunk(self, epoch: int, chunk: int, n_tokens: int, tokens: ndarray) -> int:
        """Write the walks of a chunk of an epoch to `tokens`, int32 (n_tokens,); return the number
        of tokens and marks.
        """
        key = stream_key(self.seed, WALKS, epoch + 1)
        step = self._at_a_time(n_tokens)
        first = chunk * step
        return int(write_walks(self.walker, key, first, min(first + step, self.n_walks), tokens))

    def _at_a_time(self, n_tokens: int) -> int:
        """The number of walks, with their marks, that fit into `n_tokens` tokens."""
        return max(1, n_tokens // (self.settings.walk_length + 1))

    def counts(self, threads: int) -> ndarray:
        """How often each node is in an epoch, int64 (nodes,), estimated by one walk from each."""
        key = stream_key(self.seed, WALKS, 0)
        length = self.settings.walk_length
        bounds = np.linspace(0, len(self.walker.starts), threads + 1).astype(int64)

        def count(first: int, last: int) -> ndarray:
            counts = np.zeros(len(self.graph), int64)
            tokens = np.zeros(length + 1, int32)
            count_walks(self.walker, key, first, last, tokens, counts)
            return counts

        with ThreadPoolExecutor(threads) as pool:
            counts_of_threads = list(pool.map(count, bounds[:-1], bounds[1:]))
        return np.sum(counts_of_threads, axis=0) * int(self.settings.walks or 1)

    def corpus(
        self,
        progress: Progress,
        cache_dir: Path | None,
        threads: int,
        sources: list[str],
        is_stored: bool,
    ) -> EncodedCorpus:
        """Walks of no epoch of training, with the counts of nodes in those of an epoch.

        is_stored  all walks of an epoch, on disk, in place of those that training would make
        """
        key = stream_key(self.seed, WALKS, 0)
        step = self._at_a_time(MAX_SAMPLED_TOKENS)
        n = self.n_walks if is_stored else min(len(self.walker.starts), step)
        tokens = np.zeros(min(n, step) * (self.settings.walk_length + 1), int32)
        names = self.graph.names
        if not isinstance(names, WordList):
            names = WordList.of(names)
        with CorpusWriter(cache.folders(cache_dir)[0]) as writer:
            for first in range(0, n, step):
                n_tokens = write_walks(self.walker, key, first, min(first + step, n), tokens)
                writer.write_tokens(tokens[:n_tokens])
            writer.write_words(names)
            about = {"sources": [{"name": source, "skipped": None} for source in sources]}
            corpus = writer.finish(about, {})
        if not is_stored:
            corpus.counts = self.counts(threads)
            corpus.generated = self
            corpus.n_tokens = int(corpus.counts.sum())
        size = amount(n_bytes(self.walker))
        progress.note(
            f"{self.graph!r}, {size}, {self.n_walks:,} walks of up to {self.settings.walk_length}"
            " nodes in an epoch"
        )
        return corpus


def _metapath(
    settings: GraphSettings, metapath: str, names: Sequence[str]
) -> tuple[ndarray, ndarray]:
    """The `node_type` and `pattern` of a `Walker`. Raises `SettingError` for a type that no node
    has.
    """
    assert settings.node_types is not None
    path = [name.strip() for name in metapath.split(",")]
    types = node_types(settings.node_types, names)
    numbers = {name: k for k, name in enumerate(dict.fromkeys(path))}
    for name in numbers:
        if name not in types:
            problem = f"no node of the graph has the type {name}"
            raise SettingError("metapath", metapath, problem)
    node_type = [numbers.get(name, NO_TYPE) if name else NO_TYPE for name in types]
    return np.array(node_type, int32), np.array([numbers[name] for name in path[:-1]], int32)


def _stride(n_starts: int) -> int:
    """A number near the golden section of n_starts that has no divisor in common with it."""
    stride = max(1, round(0.618 * n_starts))
    while math.gcd(stride, n_starts) != 1:
        stride += 1
    return stride


def walks_of(
    corpora: object,
    settings: GraphSettings,
    training: Any,
    progress: Progress,
    cache_dir: Path | None,
    *,
    is_stored: bool,
    edge_separator: str | None = None,
) -> EncodedCorpus:
    """Walks over a graph, as a corpus.

    corpora    a `Graph`, or the names of its files
    is_stored  see `Walks.corpus`
    """
    threads = int(training.threads or usable_cores())
    sources = [str(corpora)]
    if not isinstance(corpora, Graph):
        names: Any = [corpora] if isinstance(corpora, str | Path) else corpora
        sources = [str(name) for name in names]
        corpora = read_graph(sources, settings, progress, cache_dir, threads, edge_separator)
    return Walks(corpora, settings, int(training.seed)).corpus(
        progress, cache_dir, threads, sources, is_stored
    )

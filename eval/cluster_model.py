"""How fast a cluster would be, from costs that were measured: a simulation of workers, of the head
and of the network between.

A worker trains a range, then merges it while it trains the next, two at most being under way. To
merge it asks the head for the rows that the others have changed since it asked last (the head
gathers them), brings its copy up to date, and sends its own, which the head adds. The head gathers
and adds one after another; its network has one direction for what comes and one for what goes; to
hand over bytes takes what it takes from one process of a machine to another, too, for several
workers at once. Rows that a range changes are as many as are expected by how often each is used.
"""

import dataclasses
import heapq
import math
from collections.abc import Mapping

import numpy as np

RANGES = 60  # of each worker that are simulated: later ranges are alike


Costs = Mapping[str, float]
"""Seconds and bytes, as measured:

words_per_second  of one thread
merged            seconds of a worker for a row that it merges
added, gathered   of the head, for a row that it adds or gathers
latency           seconds from a call to its answer, without what it takes
row_bytes         that travel for a row
moved             seconds for a byte that one process of a machine hands to another
"""


@dataclasses.dataclass(frozen=True)
class Machines:
    """A cluster, and how much of its text is trained before a worker merges."""

    workers: int
    threads: int  # of each
    # bytes a second, of the head's network in each direction; infinite within one machine
    bandwidth: float
    latency: float  # seconds of the network, for a call and its answer
    range_words: float


def rows_changed(uses: np.ndarray, words: float) -> float:
    """How many rows so many words are expected to change; `uses` are of each row for a word."""
    return float(-np.expm1(-uses * words).sum())


def words_per_second(
    costs: Costs, machines: Machines, uses: np.ndarray, known: dict[int, float] | None = None
) -> float:
    """What all workers together train in a second, once they are under way.

    known  the rows that some number of ranges change, which calls of the same `uses` and
           `range_words` share
    """
    n_changed = rows_changed(uses, machines.range_words)
    trains = (
        machines.range_words / (costs["words_per_second"] * machines.threads)
        + costs["merged"] * n_changed / machines.threads
    )
    call = (costs["latency"] + machines.latency) / 2
    known = {} if known is None else known

    def others(ranges: int) -> float:
        if ranges not in known:
            known[ranges] = rows_changed(uses, ranges * machines.range_words)
        return known[ranges]

    free = {"head": 0.0, "down": 0.0, "up": 0.0}  # when each can do the next thing

    def use(what: str, now: float, seconds: float) -> float:
        free[what] = max(free[what], now) + seconds
        return free[what]

    # not all at the same moment
    trained = [trains * (1 + k / machines.workers) for k in range(machines.workers)]
    last_merged = [0.0] * machines.workers
    seen = [0] * machines.workers  # ranges that were added when a worker asked last
    n_added, end = 0, 0.0
    events = [(at, k, "ask", 0.0) for k, at in enumerate(trained)]  # when, who, what, how many rows
    heapq.heapify(events)
    while n_added < RANGES * machines.workers:
        now, k, what, rows = heapq.heappop(events)
        if what == "ask":
            rows = others(n_added - seen[k]) if machines.workers > 1 else 0.0
            seen[k] = n_added
            heapq.heappush(
                events, (use("head", now + call, costs["gathered"] * rows), k, "reply", rows)
            )
        elif what == "reply":
            n_bytes = costs["row_bytes"] * rows
            arrives = (
                use("down", now, n_bytes / machines.bandwidth) + call + costs["moved"] * n_bytes
            )
            heapq.heappush(events, (arrives + costs["merged"] * n_changed, k, "send", n_changed))
        elif what == "send":
            leaves = now + call + costs["moved"] * costs["row_bytes"] * rows
            arrives = use("up", leaves, costs["row_bytes"] * rows / machines.bandwidth)
            heapq.heappush(events, (arrives, k, "add", rows))
        else:
            end = last_merged[k] = use("head", now, costs["added"] * rows)
            n_added += 1
            # It has gone on to the next range meanwhile, which it merges after this one, and begins
            # the one after that then.
            trained[k] = max(trained[k] + trains, end)
            heapq.heappush(events, (trained[k], k, "ask", 0.0))
    return n_added * machines.range_words / end


def zipf(n_words: int, exponent: float = 1.0, shift: float = 2.7) -> np.ndarray:
    """Relative frequencies of words by rank, as Mandelbrot has them, for texts that are
    not here.
    """
    frequency = (np.arange(n_words) + 1 + shift) ** -exponent
    return frequency / frequency.sum()


def vocabulary_of(words: float) -> int:
    """About how many words of a text of that length occur five times or more, from 60,000 in 17
    million, by a root.
    """
    return int(min(60_000 * math.sqrt(words / 17e6), 3e6))


def uses_of(frequency: np.ndarray, sample: float, draws_per_word: float) -> np.ndarray:
    """How often each row of both tables is used for a word that is read: inputs by words that are
    kept, outputs likewise, and by noise that is drawn for blocks of eight, by the power 3/4 of
    frequency.
    """
    kept = frequency * np.minimum(1, np.sqrt(sample / frequency) + sample / frequency)
    noise = frequency**0.75
    noise /= noise.sum()
    return np.concatenate([kept, kept + draws_per_word * kept.sum() * noise])

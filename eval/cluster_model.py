"""How fast a cluster would be, from costs that were measured: a simulation of workers, of the head and of the network between.

A worker trains a range, then merges it while it trains the next, two at most being under way. To merge it asks the head for the
rows that the others have changed since it asked last (the head gathers them), brings its copy up to date, and sends its own,
which the head adds. The head gathers and adds one after another; its network has one direction for what comes and one for what
goes. Rows that a range changes are as many as are expected by how often each is used.
"""

import dataclasses
import heapq
import math

import numpy as np

IN_FLIGHT = 2  # ranges of a worker: one that it trains, and one that is merged
RANGES = 60  # of each worker that are simulated: what comes after goes on alike


@dataclasses.dataclass(frozen=True)
class Costs:
    """Seconds and bytes, as measured."""

    words_per_second: float  # of one thread
    merged: float  # seconds of a worker for a row that it merges
    added: float  # of the head, for a row that it adds
    gathered: float  # of the head, for a row that it gathers
    latency: float  # seconds from a call to its answer, without what it takes
    row_bytes: float  # that travel for a row


@dataclasses.dataclass(frozen=True)
class Machines:
    """A cluster, and how much of its text is trained before a worker merges."""

    workers: int
    threads: int  # of each
    bandwidth: float  # bytes a second, of the head's network in each direction; infinite within one machine
    latency: float  # seconds of the network, for a call and its answer
    range_words: float


def rows_changed(uses: np.ndarray, words: float) -> float:
    """How many rows so many words are expected to change; `uses` are of each row for a word."""
    return float(-np.expm1(-uses * words).sum())


def words_per_second(costs: Costs, machines: Machines, uses: np.ndarray) -> float:
    """What all workers together train in a second, once they are under way."""
    own = rows_changed(uses, machines.range_words)
    trains = machines.range_words / (costs.words_per_second * machines.threads) + costs.merged * own / machines.threads
    known: dict[int, float] = {}

    def others(ranges: int) -> float:
        if ranges not in known:
            known[ranges] = rows_changed(uses, ranges * machines.range_words)
        return known[ranges]

    wait = costs.latency + machines.latency
    head = down = up = 0.0  # when each is free
    trainer = [0.0] * machines.workers  # when it has trained what it was given
    merged = [[0.0] * IN_FLIGHT for _ in range(machines.workers)]  # when the last ranges were merged
    told = [0] * machines.workers  # ranges of all that were added when it asked last
    added = 0
    events = [(trains * (1 + k / machines.workers), k) for k in range(machines.workers)]  # not all at the same moment
    trainer = [at for at, _ in events]
    heapq.heapify(events)
    done, last = 0, 0.0
    while done < RANGES * machines.workers:
        now, k = heapq.heappop(events)
        news = others(max(added - told[k], 0))
        told[k] = added
        head = max(head, now + wait / 2) + costs.gathered * news
        down = max(down, head) + costs.row_bytes * news / machines.bandwidth
        at = down + wait + costs.merged * own
        up = max(up, at) + costs.row_bytes * own / machines.bandwidth
        head = max(head, up) + costs.added * own if up <= head else up + costs.added * own
        added += 1
        done += 1
        last = max(last, head)
        merged[k] = [*merged[k][1:], head]
        trainer[k] = max(trainer[k], merged[k][0]) + trains  # the range after next waits for this one to be merged
        heapq.heappush(events, (max(trainer[k], head), k))
    return done * machines.range_words / last


def zipf(n_words: int, exponent: float = 1.0, shift: float = 2.7) -> np.ndarray:
    """Relative frequencies of words by rank, as Mandelbrot has them, for texts that are not here."""
    frequency = (np.arange(n_words) + 1 + shift) ** -exponent
    return frequency / frequency.sum()


def vocabulary_of(words: float) -> int:
    """About how many words of a text of that length occur five times or more, from 60,000 in 17 million, by a root."""
    return int(min(60_000 * math.sqrt(words / 17e6), 3e6))


def uses_of(frequency: np.ndarray, sample: float, draws_per_word: float) -> np.ndarray:
    """How often each row of both tables is used for a word that is read: inputs by words that are kept, outputs likewise, and
    by noise that is drawn for blocks of eight, by the power 3/4 of frequency.
    """
    kept = frequency * np.minimum(1, np.sqrt(sample / frequency) + sample / frequency)
    noise = frequency**0.75
    noise /= noise.sum()
    return np.concatenate([kept, kept + draws_per_word * kept.sum() * noise])

"""How often each pair of words occurs: the collapsed form of a corpus, which skip-gram's loss depends on alone.

A pair is an input x and the centre y of a window that x lies in. Pairs are those of the very stream that training takes: the
same words survive subsampling and the same windows are drawn for the same seed and epoch, windows end at sentences and at what
is held out, and several passes count the pairs of as many epochs. (Their expectation in closed form would have to follow how
words left out bring others into a window.)

Memory stays below a bound whatever the corpus: pairs fill a buffer, are sorted, counted and written as one run to a file; the
runs are merged into rows, in files too, which the result maps:

    x paired with targets[offsets[x] : offsets[x + 1]], ascending, so often as times[...] says
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from embedx.errors import EmbedxError
from embedx.kernels.compiled import kernel, kernel_part
from embedx.text import cache
from embedx.text.building import explained, workspace
from embedx.text.subsampling import NO_PAIR_KEPT, TokenStream, keep_words, new_words
from embedx.training.progress import Progress, Silent

CHUNK = 100_000  # tokens between two looks at the buffer
SAMPLED = 1_000  # tokens of a chunk that some pairs are taken from
BYTES_PER_PAIR = 12  # in the buffer: an int64 key and an int32 count
MERGED = 1 << 20  # pairs that leave the merge at a time
_LOW = np.int64(0xFFFFFFFF)
_HALF = np.int64(32)


class Counts(NamedTuple):
    """The pairs, by input."""

    offsets: np.ndarray  # int64 (n_words + 1,)
    targets: np.ndarray  # int32 (n_pairs,)
    times: np.ndarray  # float32 (n_pairs,)


@contextlib.contextmanager
def counted(
    stream: TokenStream,
    n_words: int,
    window: int,
    keys: Sequence[np.uint64],
    memory: int,
    progress: Progress | None = None,
    home: Path | None = None,
) -> Iterator[Counts]:
    """The counts of one pass over `stream` for each of `keys`, which say what is kept and how far windows reach in it.

    memory  bytes that counting may take; `home` is the folder where its files are until the block is left
    Raises `EmbedxError` when the files cannot be written, or no pair was seen.
    """
    progress = progress or Silent()
    home = home or cache.default_folder()
    with workspace(home) as folder:
        with explained(home):
            ends = _write_runs(stream, window, keys, memory, folder, progress)
            counts = _merge_runs(ends, n_words, folder, progress)
        yield counts


def totals(counts: Counts) -> tuple[np.ndarray, np.ndarray]:
    """How often each word occurs as an input, and as a target, float64 (n_words,)."""
    n_words = len(counts.offsets) - 1
    of_inputs, of_targets = np.zeros(n_words), np.zeros(n_words)
    _add_up(counts.offsets, counts.targets, counts.times, of_inputs, of_targets)
    return of_inputs, of_targets


def _write_runs(
    stream: TokenStream, window: int, keys: Sequence[np.uint64], memory: int, folder: Path, progress: Progress
) -> np.ndarray:
    """Write the sorted distinct pairs of as much text as fits into the buffer, again and again; where each run ends, int64."""
    n_tokens, widest = len(stream.tokens), 2 * window
    capacity = max(min(memory // BYTES_PER_PAIR, n_tokens * widest * len(keys)), widest)
    chunk = min(CHUNK, max(1, capacity // (4 * widest)))  # so that what does not fit any more is at most a quarter
    pairs = np.empty(capacity, dtype=np.int64)
    times = np.empty(capacity, dtype=np.int32)
    words = new_words(window, chunk)
    ends = [0]
    n = done = 0
    progress.start("counting pairs", n_tokens * len(keys), " tokens")
    with open(folder / "pairs", "wb") as pairs_file, open(folder / "times", "wb") as times_file:

        def write_run() -> None:
            pairs[:n].sort()
            n_distinct = _run_lengths(pairs, times, n)
            pairs[:n_distinct].tofile(pairs_file)
            times[:n_distinct].tofile(times_file)
            ends.append(ends[-1] + n_distinct)

        for key in keys:
            for start in range(0, n_tokens, chunk):
                stop = min(start + chunk, n_tokens)
                if n + (stop - start) * widest > capacity:
                    write_run()
                    n = 0
                n = _add_pairs(stream, window, start, stop, key, words, pairs, n)
                done += stop - start
                progress.update(done)
        write_run()
    progress.finish()
    return np.array(ends, dtype=np.int64)


def _merge_runs(ends: np.ndarray, n_words: int, folder: Path, progress: Progress) -> Counts:
    """The rows that all runs together make. Raises `EmbedxError` if there is no pair at all."""
    if ends[-1] == 0:
        raise EmbedxError(NO_PAIR_KEPT)

    def runs() -> tuple[np.ndarray, np.ndarray]:
        """All pairs and their times, mapped anew, so that what was read so far takes no memory."""
        return np.memmap(folder / "pairs", np.int64, "r"), np.memmap(folder / "times", np.int32, "r")

    at, stops = ends[:-1].copy(), ends[1:]
    heap = np.flatnonzero(at < stops)  # int64: the runs that go on, the one with the least pair first
    heap = heap[np.argsort(runs()[0][at[heap]], kind="stable")]
    n_runs = len(heap)
    n_of_input = np.zeros(n_words, dtype=np.int64)
    targets, sums = np.empty(MERGED, dtype=np.int32), np.empty(MERGED, dtype=np.float32)
    progress.start("merging pairs", int(ends[-1]), " pairs")
    with open(folder / "targets", "wb") as targets_file, open(folder / "sums", "wb") as sums_file:
        while n_runs:
            n, n_runs = _merge(*runs(), at, stops, heap, n_runs, targets, sums, n_of_input)
            targets[:n].tofile(targets_file)
            sums[:n].tofile(sums_file)
            progress.update(int(ends[-1] - (stops - at).sum()))
    progress.finish()
    for file in ("pairs", "times"):
        (folder / file).unlink()
    offsets = np.concatenate(([0], np.cumsum(n_of_input)))
    return Counts(offsets, np.memmap(folder / "targets", np.int32, "r"), np.memmap(folder / "sums", np.float32, "r"))


@kernel
def _add_up(offsets, targets, times, of_inputs, of_targets):
    """Add all pairs to the totals of their words."""
    for x in range(of_inputs.size):
        for at in range(offsets[x], offsets[x + 1]):
            of_inputs[x] += times[at]
            of_targets[targets[at]] += times[at]


@kernel
def _add_pairs(stream, window, start, stop, key, words, pairs, n):
    """Write the pairs whose centre is among tokens[start:stop] to pairs[n:]; return how many are there then."""
    first, last, n_words, _ = keep_words(stream, window, start, stop, key, words)
    for y in range(first, last):
        for x in range(max(y - words.reach[y], 0), min(y + words.reach[y] + 1, n_words)):
            if x != y and words.sentence[x] == words.sentence[y]:
                pairs[n] = (np.int64(words.word[x]) << _HALF) | np.int64(words.word[y])
                n += 1
    return n


@kernel
def _run_lengths(pairs, times, n):
    """Write the distinct ones of the sorted pairs[:n] to their beginning, and beside them how often each occurs; how many."""
    n_distinct = 0
    for k in range(n):
        if n_distinct > 0 and pairs[k] == pairs[n_distinct - 1]:
            times[n_distinct - 1] += 1
        else:
            pairs[n_distinct] = pairs[k]
            times[n_distinct] = 1
            n_distinct += 1
    return n_distinct


@kernel
def _merge(pairs, times, at, stops, heap, n_runs, targets, sums, n_of_input):
    """Write the next pairs of all runs, in order; return how many, and how many runs go on.

    at      the next pair of each run; advanced, as `n_of_input` is
    heap    the runs that go on: none has a lesser pair than heap[(its place - 1) // 2]
    """
    n = 0
    while n_runs > 0 and n < targets.size:
        pair = pairs[at[heap[0]]]
        total = np.int64(0)
        while n_runs > 0 and pairs[at[heap[0]]] == pair:
            run = heap[0]
            total += times[at[run]]
            at[run] += 1
            if at[run] == stops[run]:
                n_runs -= 1
                heap[0] = heap[n_runs]
            _sift(pairs, at, heap, n_runs)
        targets[n] = pair & _LOW
        sums[n] = total
        n_of_input[pair >> _HALF] += 1
        n += 1
    return n, n_runs


@kernel_part
def _sift(pairs, at, heap, n_runs):
    """Let the first of the heap sink to its place."""
    place = 0
    while 2 * place + 1 < n_runs:
        least = 2 * place + 1
        if least + 1 < n_runs and pairs[at[heap[least + 1]]] < pairs[at[heap[least]]]:
            least += 1
        if pairs[at[heap[place]]] <= pairs[at[heap[least]]]:
            break
        heap[place], heap[least] = heap[least], heap[place]
        place = least

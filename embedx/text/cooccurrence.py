"""Counts the pairs of words of a corpus. The loss of skip-gram depends on nothing but these counts,
the collapsed form of the corpus.

A pair is an input x and the centre y of a window that x lies in. The pairs are those of training on
the stream: for the same seed and epoch the same words survive subsampling and the same windows are
drawn, and windows end at sentences and at held-out text. Several epochs may be counted. (The
expected counts have no simple closed form: leaving out words brings others into a window.)

Memory is bounded whatever the corpus (`embedx.text.counting`). The result is memory-mapped:

    input x occurs times[k] times with target targets[k], for k from offsets[x] to offsets[x + 1];
    targets ascend
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy import float32, int32, int64, ndarray, uint64

from embedx.errors import Setting, SettingError
from embedx.kernels import kernel
from embedx.runtime.progress import SILENT, Progress
from embedx.text import cache
from embedx.text.counting import BYTES_PER_KEY, Counter
from embedx.text.subsampling import TokenStream, keep_words, new_words
from embedx.text.temporary_folders import errors_explained, workspace

# Maximum number of tokens between two checks of the free part of the buffer.
MAX_CHUNK = 100_000


class Counts(NamedTuple):
    """The pairs, by input.

    offsets  int64 (n_words + 1,)
    targets  int32 (n_pairs,)
    times    float32 (n_pairs,)
    """

    offsets: ndarray
    targets: ndarray
    times: ndarray


@contextlib.contextmanager
def counted(
    stream: TokenStream,
    n_words: int,
    window: int,
    keys: Sequence[uint64],
    memory: int,
    progress: Progress = SILENT,
    cache_dir: Path | None = None,
) -> Iterator[Counts]:
    """Count the pairs of some epochs of `stream`; the files of the counts exist until the context
    ends.

    keys    one for each epoch: they determine which words are kept, and the sizes of windows
    memory  memory for counting, in bytes
    Raises `EmbedxError` if the files cannot be written, or there is no pair.
    """
    home = cache.folders(cache_dir)[0]
    with workspace(home) as folder:
        with errors_explained(home):
            max_pairs = len(stream.tokens) * 2 * window * len(keys)
            counter = Counter(folder, min(memory, BYTES_PER_KEY * max_pairs))
            _count_pairs(stream, window, keys, counter, progress)
            counts = _merged(counter, n_words, folder, progress)
        yield counts


def totals(counts: Counts) -> tuple[ndarray, ndarray]:
    """The counts of each word as an input, and as a target, float64 (n_words,)."""
    n_words = len(counts.offsets) - 1
    input_totals = np.zeros(n_words)
    target_totals = np.zeros(n_words)
    _add_up(counts.offsets, counts.targets, counts.times, input_totals, target_totals)
    return input_totals, target_totals


def _count_pairs(
    stream: TokenStream,
    window: int,
    keys: Sequence[uint64],
    counter: Counter,
    progress: Progress,
) -> None:
    """Add the pairs of an epoch for each key to the counter: the input is in the upper 32 bits of
    an entry, the target in the lower.
    """
    n_tokens = len(stream.tokens)
    max_pairs_per_token = 2 * window
    # so that at most a quarter of the buffer stays empty
    chunk = min(MAX_CHUNK, max(1, len(counter.buffer) // (4 * max_pairs_per_token)))
    words = new_words(window, chunk)
    progress.start("counting pairs", n_tokens * len(keys), "tokens")
    for epoch, key in enumerate(keys):
        for start in range(0, n_tokens, chunk):
            stop = min(start + chunk, n_tokens)
            pairs = counter.reserve((stop - start) * max_pairs_per_token)
            counter.commit(_write_pairs(stream, window, start, stop, key, words, pairs))
            progress.update(epoch * n_tokens + stop)
    progress.finish()


def _merged(counter: Counter, n_words: int, folder: Path, progress: Progress) -> Counts:
    """The counts of all pairs, in files of `folder`. Raises `EmbedxError` if there is no pair."""
    n_targets = np.zeros(n_words, int64)
    target_file = folder / "targets"
    times_file = folder / "times"
    with target_file.open("wb") as targets, times_file.open("wb") as times:
        for pairs, counts in counter.counted(progress, "merging pairs", "pairs"):
            lower_halves = pairs.astype(int32)
            lower_halves.tofile(targets)
            counts.astype(float32).tofile(times)
            n_targets += np.bincount(pairs >> 32, minlength=n_words)
    if not n_targets.any():
        raise no_pair_kept()
    offsets = np.concatenate(([0], np.cumsum(n_targets)))
    return Counts(offsets, np.memmap(target_file, int32, "r"), np.memmap(times_file, float32, "r"))


@kernel
def _add_up(offsets, targets, times, input_totals, target_totals):
    """Add the count of each pair to the totals of its words."""
    for x in range(input_totals.size):
        for at in range(offsets[x], offsets[x + 1]):
            input_totals[x] += times[at]
            target_totals[targets[at]] += times[at]


@kernel
def _write_pairs(stream, window, start, stop, key, words, pairs):
    """Write the pairs whose centre is among tokens[start:stop]; return how many there are."""
    first, last, n_words, _ = keep_words(stream, window, start, stop, key, words)
    n = 0
    for y in range(first, last):
        for x in range(max(y - words.reach[y], 0), min(y + words.reach[y] + 1, n_words)):
            if x != y and words.sentence[x] == words.sentence[y]:
                pairs[n] = (int64(words.word[x]) << 32) | int64(words.word[y])
                n += 1
    return n


def no_pair_kept() -> SettingError:
    """The error that subsampling left no pairs of a text."""
    problem = "subsampling kept no two words of a sentence, so nothing was trained"
    remedy = ("raise it, or turn subsampling off by ", Setting("sample", 0))
    return SettingError("sample", None, problem, remedy)

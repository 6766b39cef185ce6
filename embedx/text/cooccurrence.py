"""How often each pair of words occurs: the collapsed form of a corpus, which skip-gram's loss
depends on alone.

A pair is an input x and the centre y of a window that x lies in. Pairs are those of the very stream
that training takes: the same words survive subsampling and the same windows are drawn for the same
seed and epoch, windows end at sentences and at what is held out, and several passes count the pairs
of as many epochs. (Their expectation in closed form would have to follow how words left out bring
others into a window.)

Memory stays below a bound whatever the corpus (`embedx.text.counting`). The result maps files:

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

CHUNK = 100_000  # tokens between two looks at the buffer


class Counts(NamedTuple):
    """The pairs, by input."""

    offsets: ndarray  # int64 (n_words + 1,)
    targets: ndarray  # int32 (n_pairs,)
    times: ndarray  # float32 (n_pairs,)


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
    """The counts of one epoch of `stream` for each of `keys`, which decide what is kept and how far
    windows reach in it.

    memory  bytes that counting may take; its files are in the folder of encoded corpora until the
            block is left
    Raises `EmbedxError` when the files cannot be written, or no pair was seen.
    """
    home = cache.folders(cache_dir)[0]
    with workspace(home) as folder:
        with errors_explained(home):
            counts = _counts(stream, n_words, window, keys, memory, folder, progress)
        yield counts


def totals(counts: Counts) -> tuple[ndarray, ndarray]:
    """How often each word occurs as an input, and as a target, float64 (n_words,)."""
    n_words = len(counts.offsets) - 1
    of_inputs, of_targets = np.zeros(n_words), np.zeros(n_words)
    _add_up(counts.offsets, counts.targets, counts.times, of_inputs, of_targets)
    return of_inputs, of_targets


def _counts(
    stream: TokenStream,
    n_words: int,
    window: int,
    keys: Sequence[uint64],
    memory: int,
    folder: Path,
    progress: Progress,
) -> Counts:
    """The pairs of all epochs, counted and written to a folder. Raises `EmbedxError` if there is no
    pair at all.
    """
    n_tokens, width = len(stream.tokens), 2 * window
    counter = Counter(folder, min(memory, BYTES_PER_KEY * n_tokens * width * len(keys)))
    # so that at most a quarter of the buffer stays empty
    chunk = min(CHUNK, max(1, len(counter.buffer) // (4 * width)))
    words = new_words(window, chunk)
    progress.start("counting pairs", n_tokens * len(keys), " tokens")
    for epoch, key in enumerate(keys):
        for start in range(0, n_tokens, chunk):
            stop = min(start + chunk, n_tokens)
            pairs = counter.reserve((stop - start) * width)
            counter.commit(_write_pairs(stream, window, start, stop, key, words, pairs))
            progress.update(epoch * n_tokens + stop)
    progress.finish()
    n_of_input = np.zeros(n_words, int64)
    with open(folder / "targets", "wb") as targets, open(folder / "times", "wb") as times:
        for pairs, counts in counter.counted(progress, "merging pairs", " pairs"):
            pairs.astype(int32).tofile(targets)  # the lower half
            counts.astype(float32).tofile(times)
            n_of_input += np.bincount(pairs >> 32, minlength=n_words)
    if not n_of_input.any():
        raise no_pair_kept()
    offsets = np.concatenate(([0], np.cumsum(n_of_input)))
    return Counts(
        offsets,
        np.memmap(folder / "targets", int32, "r"),
        np.memmap(folder / "times", float32, "r"),
    )


@kernel
def _add_up(offsets, targets, times, of_inputs, of_targets):
    """Add all pairs to the totals of their words."""
    for x in range(of_inputs.size):
        for at in range(offsets[x], offsets[x + 1]):
            of_inputs[x] += times[at]
            of_targets[targets[at]] += times[at]


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
    """The error for a text of which subsampling leaves no pairs."""
    problem = "subsampling kept no two words of a sentence, so nothing was trained"
    remedy = ("raise it, or turn subsampling off by ", Setting("sample", 0))
    return SettingError("sample", None, problem, remedy)

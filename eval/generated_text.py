"""Generated text of any length, to see how time and memory grow: words by Zipf's law, from which nothing can be learned."""

from pathlib import Path
from typing import Any

import numpy as np
from numba import njit

EXPONENT = 1.1  # of Zipf's law
SENTENCE = 25  # words in a line
AT_ONCE = 1 << 20  # words made at a time
LONGEST = 7  # letters of a word, which are enough for 8 billion types


def write(file: Path, n_words: int, n_types: int, seed: int = 1) -> None:
    """A file of so many words, of at most `n_types` different ones; a word's rank is drawn by a continuous power law."""
    rng = np.random.default_rng([seed, n_words, n_types])
    out = np.empty(AT_ONCE * (LONGEST + 1), np.uint8)
    with file.open("wb") as target:
        for start in range(0, n_words, AT_ONCE):
            n = min(AT_ONCE, n_words - start)
            target.write(memoryview(out[: spell(rng.random(n), n_types, start, out)]))


@njit
def spell(uniform: Any, n_types: int, start: int, out: Any) -> int:
    """Write the words of these random numbers, which are their ranks in letters; return how many bytes they are."""
    power, end = 1 - EXPONENT, 0
    low = float(n_types + 1) ** power
    for k in range(uniform.size):
        rank = min(int((1 - uniform[k] * (1 - low)) ** (1 / power)), n_types)
        while rank > 0:
            rank -= 1
            out[end] = 97 + rank % 26
            rank //= 26
            end += 1
        out[end] = 10 if (start + k + 1) % SENTENCE == 0 else 32
        end += 1
    return end

"""Counter-based random numbers: a function of (seed, epoch, position), never of the thread or of
earlier draws.

SplitMix64 (Steele, Lea & Flood 2014, "Fast splittable pseudorandom number generators"): a counter
times an odd constant, then two rounds of mixing. The number at a position is the same in all runs
of a seed, whatever the order or the number of threads.
"""

import numba
import numpy as np
from numpy import float64, uint64

from embedx.kernels.compiled import kernel_part

_GOLDEN = uint64(0x9E3779B97F4A7C15)
_MIX1, _MIX2 = uint64(0xBF58476D1CE4E5B9), uint64(0x94D049BB133111EB)
_S11, _S27, _S30, _S31, _S32, _S41 = (uint64(s) for s in (11, 27, 30, 31, 32, 41))
_ONE, _LOW = uint64(1), uint64(0xFFFFFFFF)
_TO_UNIT = 2.0**-53


def _bits(key, counter):
    """64 random bits: number `counter` of the stream `key`, both uint64."""
    x = key + (counter + _ONE) * _GOLDEN
    x = (x ^ (x >> _S30)) * _MIX1
    x = (x ^ (x >> _S27)) * _MIX2
    return x ^ (x >> _S31)


if numba.config.DISABLE_JIT:

    def bits(key, counter):
        """`_bits`, without numpy's warning that a product of integers overflows, as it should."""
        with np.errstate(over="ignore"):
            return _bits(key, uint64(counter))

else:
    bits = kernel_part(_bits)


@kernel_part
def uniform(key, counter):
    """A float64 in [0, 1) with 53 random bits."""
    return float64(bits(key, counter) >> _S11) * _TO_UNIT


@kernel_part
def open_uniform(key, counter):
    """A float32 in (0, 1), ends excluded: the middle of one of 2^23 equal intervals."""
    return np.float32((float64(bits(key, counter) >> _S41) + 0.5) * 2.0**-23)


@kernel_part
def high_half(random_bits):
    """The upper 32 of 64 random bits."""
    return random_bits >> _S32


@kernel_part
def low_half_below(random_bits, n):
    """An int64 in [0, n) from the lower 32 of 64 random bits; biased by less than n / 2**32."""
    return np.int64(((random_bits & _LOW) * uint64(n)) >> _S32)


def stream_key(*places: int) -> uint64:
    """The key of the stream of a place, such as (seed, epoch, block)."""
    key = uint64(0)
    with np.errstate(over="ignore"):
        for place in places:
            key = _bits(key, uint64(place % 2**64))
    return key

"""exp, log, sigmoid and softplus in float32, written so that a loop over scores vectorises.

The C library computes one number per call; these functions are a few multiplications without a
branch. In float64 and in plain Python, the same names are numpy's functions, so that gradients can
be checked to full precision. Maximum relative error in float32, measured over the whole range: 4e-7
(a few units in the last place).
"""

import math

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.extending import intrinsic, overload, register_jitable
from numpy import float32, int32

from embedx.kernels.compiled import PART, kernel_part

_F = float32
LOG2_E = _F(1.4426950408889634)
LN2_HIGH = _F(0.693359375)  # exact in 12 bits, so that n * LN2_HIGH is exact
LN2_LOW = _F(-2.12194440e-4)  # ln 2 - LN2_HIGH
# Bounds of the argument of exp, beyond which e^x leaves the normal range of float32.
_LARGEST = _F(88.0)
_SMALLEST = _F(-87.0)

ONE = _F(1)
TWO = _F(2)
THREE = _F(3)
HALF = _F(0.5)
ZERO = _F(0)
# Taylor coefficients 1/n! are within 1e-8 of the best polynomial on |r| <= ln(2)/2 at this degree.
_EXP = tuple(_F(1 / math.factorial(n)) for n in range(7, 1, -1))
# 2 atanh(s) = 2s (1 + s²/3 + s⁴/5 + ...), with s² <= 1/9
_BITS_OF_LEAST = int32(0x3F3504F3)  # of sqrt(1/2)
_BITS_OF_FRACTION = int32(0x007FFFFF)
# Of a float32: the number of bits of the fraction, and the bias of the exponent.
_FRACTION = int32(23)
_BIAS = int32(127)
_LOG1P = tuple(_F(1 / n) for n in range(13, 0, -2))


@register_jitable
def _polynomial(coefficients, x):
    """Horner's rule; the leading coefficient comes first."""
    value = coefficients[0]
    for coefficient in coefficients[1:]:
        value = value * x + coefficient
    return value


def exp(x):
    """e^x; in float32 limited to the range of normal numbers."""
    return np.exp(np.clip(x, _SMALLEST, _LARGEST) if isinstance(x, np.float32) else x)


def log1p(x):
    """log(1 + x) for -1/2 <= x <= 1."""
    return np.log1p(x)


def log(x):
    """log(x) for x > 0; in float32 not below the range of normal numbers."""
    return np.log(x)


def larger(a, b):
    """The larger of two numbers of one type, NaN if one is NaN. Unlike max(), it lets a loop over
    many numbers vectorise.
    """
    return np.maximum(a, b)


if not numba.config.DISABLE_JIT:

    @intrinsic
    def _larger(_typing, a, b):
        """LLVM's maximum. The comparison of max() would fix the order of a loop because of NaN."""

        def emit(context, builder, signature, arguments):
            real = arguments[0].type
            maximum = builder.module.declare_intrinsic(
                "llvm.maximum", [real], ir.FunctionType(real, [real, real])
            )
            return builder.call(maximum, arguments)

        return a(a, b), emit

    overload(larger, jit_options=PART)(lambda a, b: lambda a, b: _larger(a, b))

    @overload(exp, jit_options=PART)
    def _compiled_exp(x):
        if x != types.float32:
            return lambda x: math.exp(x)

        def exp32(x):
            held = min(max(x, _SMALLEST), _LARGEST)
            n = np.floor(held * LOG2_E + HALF)
            r = held - n * LN2_HIGH - n * LN2_LOW
            p = _polynomial(_EXP, r)
            # 2^n
            return (p * (r * r) + r + ONE) * int32(int32(int32(n) + _BIAS) << _FRACTION).view(
                float32
            )

        return exp32

    @overload(log1p, jit_options=PART)
    def _compiled_log1p(x):
        if x != types.float32:
            return lambda x: math.log1p(x)

        def log1p32(x):
            s = x / (TWO + x)
            return TWO * s * _polynomial(_LOG1P, s * s)

        return log1p32

    @overload(log, jit_options=PART)
    def _compiled_log(x):
        if x != types.float32:
            return lambda x: math.log(x)

        def log32(x):
            # x = 2^n · m with m from sqrt(1/2) to sqrt(2). Integers are kept at 32 bits: numba adds
            # them at 64, and half as many fit a register.
            n = int32(float32(x).view(int32) - _BITS_OF_LEAST)
            m = int32(int32(n & _BITS_OF_FRACTION) + _BITS_OF_LEAST).view(float32)
            exponent = float32(int32(n >> _FRACTION))
            return exponent * LN2_HIGH + (log1p(m - ONE) + exponent * LN2_LOW)

        return log32


@kernel_part
def sigmoid(x):
    """1 / (1 + e^-x), without overflow on either side."""
    e = exp(-abs(x))
    return (ONE if x >= 0 else e) / (ONE + e)


@kernel_part
def softplus(x):
    """log(1 + e^x), without overflow: -log of sigmoid(-x)."""
    return max(x, ZERO) + log1p(exp(-abs(x)))


# Special functions, evaluated a few times per example, in float32 or float64 like their argument.


# x (1 + A x) / (1 + (1 + A) x + C x²) is W(x) to the second power of x at 0, and exact at 1 and e.
_LAMBERT_A = _F(0.7737613)
_LAMBERT_C = _F(0.3537751)


@kernel_part
def _near_lambert_w_exp(t):
    """W(e^t) within 1.5 %, without a branch, so that a loop over scores vectorises."""
    x = exp(min(t, ONE))
    y = max(t, ONE)
    small = x * (ONE + _LAMBERT_A * x) / (ONE + x * ((ONE + _LAMBERT_A) + _LAMBERT_C * x))
    # For t <= 1 the other term is 0, for t > 1 `small` is W(e) = 1.
    return small + (y - ONE - log(y) * (y / (ONE + y)))


@kernel_part
def _nearer_lambert_w_exp(w, t):
    """A step of Halley's method for w = e^(t - w); the relative error falls below a tenth of its
    cube.
    """
    e = exp(t - w)
    excess = w - e
    slope = ONE + e
    return w - TWO * excess * slope / (TWO * slope * slope + excess * e)


@kernel_part
def moved_lambert_w(w, shift):
    """W(e^{t - shift}) from w = W(e^t), for |shift| <= 1: three terms of the series, then a step of
    Halley's method.
    """
    slope = ONE / (ONE + w)
    step = w * slope * shift
    near = w - step * (ONE - HALF * slope * slope * shift)
    e = w * exp(w - near - shift)
    excess = near - e
    slope = ONE + e
    return near - TWO * excess * slope / (TWO * slope * slope + excess * e)


def lambert_w_exp(t):
    """W(e^t), the w with w + log w = t, for any t at which e^t does not underflow. The exponent is
    the argument because e^t would overflow.
    """
    return _nearer_lambert_w_exp(_nearer_lambert_w_exp(_near_lambert_w_exp(t), t), t)


if not numba.config.DISABLE_JIT:

    @overload(lambert_w_exp, jit_options=PART)
    def _compiled_lambert_w_exp(t):
        if t != types.float32:
            return lambert_w_exp
        return lambda t: _nearer_lambert_w_exp(_near_lambert_w_exp(t), t)


def mills_ratio(a):
    """The normal distribution's tail over its density, Φ(-a) / φ(a), for a >= 0; about 1/a when a
    is large.
    """
    if a < 4:
        return math.sqrt(math.pi / 2) * math.erfc(a * math.sqrt(0.5)) * np.exp(0.5 * a * a)
    fraction = 0.0
    # Laplace's continued fraction; from 4 on 30 terms are exact to rounding
    for k in range(30, 0, -1):
        fraction = k / (a + fraction)
    return 1 / (a + fraction)


# (1 + a) · mills_ratio(a) as a polynomial in (a - 3)/(a + 3), within 3e-8: interpolated at
# Chebyshev's points, the way Shepherd & Laframboise 1981 do for the same function.
_MILLS = tuple(
    map(
        _F,
        (
            0.00015696368,
            9.0067326e-05,
            -0.0012064095,
            -0.00091679586,
            0.0075024946,
            0.0029185307,
            -0.056967527,
            0.11320777,
            -0.041189719,
            -0.24195664,
            1.2183611,
        ),
    )
)
_HALF_LOG_TAU = 0.5 * math.log(2 * math.pi)
_HALF_LOG_TAU_32 = _F(_HALF_LOG_TAU)


def log_normal_density(x):
    """log φ(x) = -x²/2 - log(2π)/2."""
    return -0.5 * x * x - _HALF_LOG_TAU


if not numba.config.DISABLE_JIT:

    @overload(mills_ratio, jit_options=PART)
    def _compiled_mills_ratio(a):
        if a != types.float32:
            return mills_ratio

        def mills_ratio_32(a):
            x = (a - THREE) / (a + THREE)
            return _polynomial(_MILLS, x) / (ONE + a)

        return mills_ratio_32

    @overload(log_normal_density, jit_options=PART)
    def _compiled_log_normal_density(x):
        if x != types.float32:
            return log_normal_density
        return lambda x: -HALF * x * x - _HALF_LOG_TAU_32


@kernel_part
def log_ndtr(x):
    """log Φ(x), Φ the normal distribution function, without underflow on the left or cancellation
    on the right.
    """
    tail = mills_ratio(abs(x))
    log_density = log_normal_density(x)
    left = log_density + log(tail)
    right = log1p(-min(tail * exp(log_density), HALF))
    return left if x < ZERO else right


@kernel_part
def hazard(x):
    """φ(x) / Φ(x), the slope of log Φ: about -x far on the left, 0 on the right."""
    tail = mills_ratio(abs(x))
    density = exp(log_normal_density(x))
    left = ONE / tail
    right = density / (ONE - min(tail * density, HALF))
    return left if x < ZERO else right


# Wichura 1988, "Algorithm AS 241: the percentage points of the normal distribution", PPND16 without
# its tail beyond 1e-11, where no uniform number of 24 bits is; the highest power comes first.
_CENTRE = (
    2509.0809287301227,
    33430.57558358813,
    67265.7709270087,
    45921.95393154987,
    13731.69376550946,
    1971.5909503065513,
    133.14166789178438,
    3.3871328727963665,
)
_CENTRE_BELOW = (
    5226.495278852854,
    28729.085735721943,
    39307.89580009271,
    21213.794301586597,
    5394.196021424751,
    687.1870074920579,
    42.31333070160091,
    1.0,
)
_TAIL = (
    0.0007745450142783414,
    0.022723844989269184,
    0.2417807251774506,
    1.2704582524523684,
    3.6478483247632045,
    5.769497221460691,
    4.630337846156546,
    1.4234371107496835,
)
_TAIL_BELOW = (
    1.0507500716444169e-09,
    0.0005475938084995345,
    0.015198666563616457,
    0.14810397642748008,
    0.6897673349851,
    1.6763848301838038,
    2.053191626637759,
    1.0,
)


@register_jitable
def ndtri(p):
    """The x with Φ(x) = p, in float64, for 1e-10 < p < 1 - 1e-10."""
    middle = p - 0.5
    if abs(middle) <= 0.425:
        square = 0.180625 - middle * middle
        return middle * _polynomial(_CENTRE, square) / _polynomial(_CENTRE_BELOW, square)
    far = math.sqrt(-math.log(min(p, 1 - p))) - 1.6
    x = _polynomial(_TAIL, far) / _polynomial(_TAIL_BELOW, far)
    return x if middle > 0 else -x

"""Sixteen float32 at a time: the vector type that the tile kernels are written with.

LLVM's vectoriser has to guess the width, the register tile and the order of a sum. Here they are
given, and LLVM maps the sixteen lanes to the registers of the CPU (one AVX-512, two AVX, four SSE
or NEON). Each function is also plain Python over numpy rows, for NUMBA_DISABLE_JIT=1. Vectors
support +, -, * and / with each other and with a float32, so that a formula of those and
`square_root` works for one number and for sixteen.

A matrix is float32, C-contiguous along its rows; sixteen floats from `column` on must be within
the row.
"""

import functools
import operator

import numba
import numpy as np
from llvmlite import binding as llvm, ir
from numba import types
from numba.extending import (
    intrinsic,
    lower_builtin,
    models,
    overload,
    register_model,
    type_callable,
)
from numpy import float32

from embedx.kernels.compiled import PART

SIMD_WIDTH = 16
HAS_AVX512 = bool(llvm.get_host_cpu_features().get("avx512f"))
ZERO, ONE = np.float32(0), np.float32(1)  # bare numbers would widen what they meet to float64

_VECTOR = ir.VectorType(ir.FloatType(), SIMD_WIDTH)
_INDEX = ir.IntType(32)
_BITS = ir.IntType(SIMD_WIDTH)  # a bit for each lane
_ZEROS = ir.Constant(_VECTOR, [0.0] * SIMD_WIDTH)


class Float32x16(types.Type):  # type: ignore[misc]
    """numba's name for a value held in a vector register."""

    def __init__(self) -> None:
        super().__init__(name="float32x16")


float32x16 = Float32x16()


@register_model(Float32x16)
class _Float32x16Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, numba_type):
        super().__init__(manager, numba_type, _VECTOR)


def padded(n: int, width: int = SIMD_WIDTH) -> int:
    """`n` rounded up to a multiple of `width`; by default the stride of a table with rows of `n`
    floats.
    """
    return -(-n // width) * width


def aligned_zeros(rows: int, dim: int) -> np.ndarray:
    """Zeros, float32 (rows, padded(dim)). Rows begin at 64-byte boundaries, so that no two share a
    cache line.
    """
    stride = padded(dim)
    memory = np.zeros(rows * stride + SIMD_WIDTH, float32)
    start = -(memory.ctypes.data // 4) % SIMD_WIDTH
    return memory[start : start + rows * stride].reshape(rows, stride)


if numba.config.DISABLE_JIT:

    def load(matrix, row, column):
        return matrix[row, column : column + SIMD_WIDTH].copy()

    def store(matrix, row, column, vector):
        matrix[row, column : column + SIMD_WIDTH] = vector

    def store_sums(matrix, row, column, vectors):
        for i, vector in enumerate(vectors):
            side = 4 if len(vectors) == 16 else 2
            matrix[row + i // side, column + i % side] = vector.sum()

    def sum_of(vector):
        return vector.sum()

    def zeros():
        return np.zeros(SIMD_WIDTH, float32)

    def splat(x):
        return np.full(SIMD_WIDTH, x, float32)

    def multiply_add(a, b, c):
        with np.errstate(over="ignore"):  # like compiled code, which overflows without a warning
            return a * b + c

    def lanes_of(vector, bits):
        return np.where(int(bits) >> np.arange(SIMD_WIDTH) & 1, vector, float32(0))

    def is_zero(vector):
        return not vector.any()

    def maximum(a, b):
        return np.maximum(a, b)

    def highest_of(vector):
        return vector.max()

    def n_above(a, b):
        return int((a > b).sum())

    def square_root(a):
        return np.sqrt(a)

    def prefetch(matrix, row, column):
        return None

else:

    def _address(context, builder, array_type, place, kind):
        """A pointer of `kind` to the place (array, row, column, ...)."""
        array, row, column = place[:3]
        view = context.make_array(array_type)(context, builder, array)
        row_bytes = builder.mul(row, builder.extract_value(view.strides, 0))
        offset = builder.add(row_bytes, builder.shl(column, ir.Constant(column.type, 2)))
        start = builder.ptrtoint(view.data, offset.type)
        return builder.inttoptr(builder.add(start, offset), kind.as_pointer())

    def _lanes(lanes):
        return ir.Constant(ir.VectorType(_INDEX, len(lanes)), list(lanes))

    @intrinsic
    def load(_typing, matrix, row, column):
        """The sixteen floats of `matrix[row]` from `column` on."""

        def emit(context, builder, signature, arguments):
            address = _address(context, builder, signature.args[0], arguments, _VECTOR)
            return builder.load(address, align=4)

        return float32x16(matrix, types.intp, types.intp), emit

    @intrinsic
    def store(_typing, matrix, row, column, vector):
        """Write a vector to `matrix[row]` from `column` on."""

        def emit(context, builder, signature, arguments):
            address = _address(context, builder, signature.args[0], arguments, _VECTOR)
            builder.store(arguments[3], address, align=4)
            return context.get_dummy_value()

        return types.void(matrix, types.intp, types.intp, float32x16), emit

    @intrinsic
    def store_sums(_typing, matrix, row, column, vectors):
        """Write `matrix[row + i, column + j] = sum of vectors[side * i + j]` for i, j below the
        side, 4 or 2.

        All sums are formed together: each round adds pairs of vectors crosswise, which halves their
        number; with side 2, the last rounds add the parts of one vector.
        """
        side = 4 if len(vectors) == 16 else 2

        def emit(context, builder, signature, arguments):
            vectors = [builder.extract_value(arguments[3], i) for i in range(side * side)]
            step = 1
            while len(vectors) > 1:
                first_halves = [
                    lane if lane // step % 2 == 0 else SIMD_WIDTH + lane - step
                    for lane in range(SIMD_WIDTH)
                ]
                second_halves = [
                    lane + step if lane // step % 2 == 0 else SIMD_WIDTH + lane
                    for lane in range(SIMD_WIDTH)
                ]
                vectors = [
                    builder.fadd(
                        builder.shuffle_vector(a, b, _lanes(first_halves)),
                        builder.shuffle_vector(a, b, _lanes(second_halves)),
                    )
                    for a, b in zip(vectors[::2], vectors[1::2], strict=True)
                ]
                step *= 2
            sums = vectors[0]
            while step < SIMD_WIDTH:
                other = builder.shuffle_vector(
                    sums, sums, _lanes([(lane + step) % SIMD_WIDTH for lane in range(SIMD_WIDTH)])
                )
                sums = builder.fadd(sums, other)
                step *= 2
            row_of_sums = ir.VectorType(ir.FloatType(), side)
            for i in range(side):
                part = builder.shuffle_vector(sums, sums, _lanes(range(side * i, side * (i + 1))))
                at_row = builder.add(arguments[1], ir.Constant(arguments[1].type, i))
                address = _address(
                    context,
                    builder,
                    signature.args[0],
                    (arguments[0], at_row, arguments[2]),
                    row_of_sums,
                )
                builder.store(part, address, align=4)
            return context.get_dummy_value()

        return types.void(matrix, types.intp, types.intp, vectors), emit

    def _across(builder, vector, both):
        """Reduce all lanes to one number by both(half, other half), of ever smaller vectors."""
        half = SIMD_WIDTH // 2
        while half:
            other = builder.shuffle_vector(
                vector, vector, _lanes([(lane + half) % SIMD_WIDTH for lane in range(SIMD_WIDTH)])
            )
            vector = both(vector, other)
            half //= 2
        return builder.extract_element(vector, ir.Constant(_INDEX, 0))

    def _operation(result, *operands):
        """Declare an operation on values of these types by a function that emits it."""

        def declare(emit):
            @functools.wraps(emit)  # numba needs the names of the operands
            def typed(_typing, *_):
                return result(*operands), lambda context, builder, signature, arguments: emit(
                    builder, *arguments
                )

            return intrinsic(typed)

        return declare

    @_operation(types.float32, float32x16)
    def sum_of(builder, vector):
        """The sum of the sixteen floats."""
        return _across(builder, vector, builder.fadd)

    @_operation(float32x16)
    def zeros(builder):
        """Sixteen zeros."""
        return _ZEROS

    def _copies(builder, x):
        """A vector of sixteen copies of a number."""
        nothing = ir.Constant(ir.VectorType(x.type, SIMD_WIDTH), ir.Undefined)
        one = builder.insert_element(nothing, x, ir.Constant(_INDEX, 0))
        return builder.shuffle_vector(one, nothing, _lanes([0] * SIMD_WIDTH))

    @_operation(float32x16, types.float32)
    def splat(builder, x):
        """Sixteen copies of a float32."""
        return _copies(builder, x)

    def _declare_operator(operation, instruction, flags):
        """Define +, -, * or / lane by lane; a float32 counts as sixteen copies.

        Sums of products of two vectors use `multiply_add`; a product with a float32 is not fused,
        so that the result is the same everywhere. (Instructions without flags of their own would
        get all of `compiled.FAST_MATH`.)
        """

        def emit(context, builder, signature, arguments):
            pairs = zip(signature.args, arguments, strict=True)
            a, b = (
                value if kind == float32x16 else _copies(builder, value) for kind, value in pairs
            )
            both = signature.args == (float32x16, float32x16)
            return getattr(builder, instruction)(
                a, b, flags=flags if both or instruction != "fmul" else ("nsz",)
            )

        vector = float32x16
        number = types.float32
        cases = [(vector, vector), (vector, number), (number, vector)]

        @type_callable(operation)
        def typed(_context):
            return lambda a, b: vector if (a, b) in cases else None

        for case in cases:
            lower_builtin(operation, *case)(emit)

    _declare_operator(operator.add, "fadd", ("contract",))
    _declare_operator(operator.sub, "fsub", ("contract",))
    _declare_operator(operator.mul, "fmul", ("contract",))
    _declare_operator(operator.truediv, "fdiv", ())

    @_operation(float32x16, float32x16, float32x16, float32x16)
    def multiply_add(builder, a, b, c):
        """a * b + c, lane by lane, in one instruction where the CPU has it."""
        return builder.fadd(builder.fmul(a, b, flags=("contract",)), c, flags=("contract",))

    @_operation(float32x16, float32x16, types.uint32)
    def lanes_of(builder, vector, bits):
        """The lanes k of a vector for which bit k of a uint32 is set; zeros in the others."""
        own = builder.and_(
            _copies(builder, bits), _lanes([1 << lane for lane in range(SIMD_WIDTH)])
        )
        return builder.select(
            builder.icmp_unsigned("!=", own, _lanes([0] * SIMD_WIDTH)), vector, _ZEROS
        )

    @_operation(types.boolean, float32x16)
    def is_zero(builder, vector):
        """Whether all sixteen floats are zero; a NaN is not."""
        bits = builder.bitcast(builder.fcmp_unordered("!=", vector, _ZEROS), _BITS)
        return builder.icmp_unsigned("==", bits, _BITS(0))

    def _larger(builder, a, b):
        return builder.select(builder.fcmp_ordered(">", a, b), a, b)

    @_operation(float32x16, float32x16, float32x16)
    def maximum(builder, a, b):
        """The larger number of each lane."""
        return _larger(builder, a, b)

    @_operation(types.float32, float32x16)
    def highest_of(builder, vector):
        """The largest of the sixteen floats."""
        return _across(builder, vector, functools.partial(_larger, builder))

    @_operation(types.int64, float32x16, float32x16)
    def n_above(builder, a, b):
        """The number of lanes in which a is larger than b."""
        bits = builder.bitcast(builder.fcmp_ordered(">", a, b), _BITS)
        return builder.zext(builder.ctpop(bits), ir.IntType(64))

    @_operation(float32x16, float32x16)
    def _square_roots(builder, a):
        """The square root of each lane."""
        kind = ir.FunctionType(_VECTOR, [_VECTOR])
        root = builder.module.declare_intrinsic(f"llvm.sqrt.v{SIMD_WIDTH}f32", fnty=kind)
        return builder.call(root, [a])

    def square_root(a):
        """The square root of a non-negative float32, or of each lane of a vector."""

    @overload(square_root, jit_options=PART)
    def _square_root(a):
        if a == float32x16:
            return lambda a: _square_roots(a)
        return lambda a: np.sqrt(a)

    @intrinsic
    def prefetch(_typing, matrix, row, column):
        """Prefetch the cache line of `matrix[row, column]`; has no other effect."""

        def emit(context, builder, signature, arguments):
            byte = ir.IntType(8)
            address = _address(context, builder, signature.args[0], arguments, byte)
            kind = ir.FunctionType(ir.VoidType(), [byte.as_pointer(), _INDEX, _INDEX, _INDEX])
            llvm_prefetch = builder.module.declare_intrinsic("llvm.prefetch.p0", fnty=kind)
            read, all_levels, data = _INDEX(0), _INDEX(3), _INDEX(1)
            builder.call(llvm_prefetch, [address, read, all_levels, data])
            return context.get_dummy_value()

        return types.void(matrix, types.intp, types.intp), emit

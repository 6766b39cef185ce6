"""Kernels that apply a function to each element of an array."""

from embedx.kernels.compiled import kernel


def elementwise(function):
    """A kernel that writes function(x[i]) to out[i]."""

    @kernel
    def apply(x, out):
        for i in range(x.size):
            out[i] = function(x[i])

    return apply

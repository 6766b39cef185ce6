"""Named tuples of many arrays, which kernels pass to each other by their address.

numba passes a named tuple by value, as all its numbers: nine for each matrix. For a workspace of
sixty arrays that is more code than most functions contain. A tuple of a class marked `by_address`
is passed as one pointer, and a field is read where it is used. Compiled code can only read fields
by name: it cannot unpack, index or create such a tuple. (`Batch` is created in kernels, and
therefore not marked.)
"""

from typing import TypeVar

from embedx.kernels.compiled import ADJUSTED

Class = TypeVar("Class", bound=type)


def by_address(named_tuple: Class) -> Class:
    """Mark a class of named tuples. Has no effect without `embedx.kernels.adjusted`: kernels then
    count references, and arrays cannot be passed so.
    """
    if ADJUSTED is not None:
        ADJUSTED.pass_by_address(named_tuple)
    return named_tuple

"""Named tuples of many arrays, which kernels pass to each other by their address.

numba passes a named tuple by value, as all the numbers it consists of: nine for each matrix. For a
workspace of sixty arrays that is more code than most functions have themselves. A tuple of a class
marked `by_address` is passed as one pointer, and a field is read where it is used. Compiled code
can only read fields by name: it cannot unpack, index or make such a tuple. (`Batch` is made in
kernels, and so is not marked.)
"""

from typing import TypeVar

from embedx.kernels.compiled import ADJUSTED

Class = TypeVar("Class", bound=type)


def by_address(named_tuple: Class) -> Class:
    """Mark a class of named tuples. Where kernels count references after all, arrays cannot be
    passed so: it stays as it is.
    """
    if ADJUSTED is not None:
        ADJUSTED.pass_by_address(named_tuple)
    return named_tuple

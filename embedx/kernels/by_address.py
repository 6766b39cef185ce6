"""Named tuples of many arrays, which kernels pass to each other by their address.

numba passes a named tuple by value, as all the numbers it consists of: nine for each matrix. For a
workspace of sixty arrays that is more code than most functions have themselves, and takes half of
the time of compiling. A tuple of a class marked `by_address` is passed as one pointer, and a field
is read where it is used. Compiled code can only read fields by name: it cannot unpack, index or
make such a tuple. (`Batch` is made in kernels, and so is not marked.)
"""

from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing.templates import AttributeTemplate
from numba.extending import (
    NativeValue,
    infer_getattr,
    lower_getattr_generic,
    models,
    register_model,
    typeof_impl,
    unbox,
)

from embedx.kernels.compiled import ADJUSTED

Class = TypeVar("Class", bound=type)


class _Address(types.Type):  # type: ignore[misc]
    """The compiled type of the address of such a tuple."""

    def __init__(self, tuple_type: Any) -> None:
        self.tuple_type = tuple_type
        super().__init__(f"Address({tuple_type.name})")


def by_address(named_tuple: Class) -> Class:
    """Mark a class of named tuples. Where kernels count references after all, arrays cannot be
    passed so: it stays as it is.
    """
    if ADJUSTED is None:
        return named_tuple

    @typeof_impl.register(named_tuple)
    def _(value: Any, context: Any) -> _Address:
        return _Address(
            types.BaseTuple.from_types([typeof_impl(each, context) for each in value], named_tuple)
        )

    return named_tuple


def _memory(manager: Any, address_of: _Address) -> ir.Type:
    """The struct of the fields; a nested tuple of such a class is a struct within it."""
    return ir.LiteralStructType(
        [
            (
                _memory(manager, field)
                if isinstance(field, _Address)
                else manager.lookup(field).get_value_type()
            )
            for field in address_of.tuple_type
        ]
    )


@register_model(_Address)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, address_of: _Address) -> None:
        super().__init__(manager, address_of, _memory(manager, address_of).as_pointer())


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = _Address

    def generic_resolve(self, address_of: _Address, name: str) -> Any:
        return dict(
            zip(address_of.tuple_type.fields, address_of.tuple_type.types, strict=True)
        ).get(name)


@lower_getattr_generic(_Address)
def _read(context: Any, builder: Any, address_of: _Address, address: Any, name: str) -> Any:
    i = address_of.tuple_type.fields.index(name)
    at = cgutils.gep_inbounds(builder, address, 0, i)
    if isinstance(address_of.tuple_type[i], _Address):
        return at
    value = builder.load(at)
    # Fields never change during a call, so that loops need not read them again
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(_Address)
def _unbox(address_of: _Address, value: Any, c: Any) -> NativeValue:
    """The address of a copy on the caller's stack, which lives as long as the call."""
    address = cgutils.alloca_once(c.builder, _memory(c.context.data_model_manager, address_of))
    _write(address_of.tuple_type, value, address, c)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


def _write(tuple_type: Any, value: Any, address: Any, c: Any) -> None:
    """Write the fields of a Python tuple to memory. Kernels count no references, so that nothing is
    to be released.
    """
    for i, field in enumerate(tuple_type):
        item, at = c.pyapi.tuple_getitem(value, i), cgutils.gep_inbounds(c.builder, address, 0, i)
        if isinstance(field, _Address | types.BaseTuple):
            _write(getattr(field, "tuple_type", field), item, at, c)
        elif isinstance(
            field, types.Array
        ):  # in place; `unbox` would check again what the dispatcher has checked
            c.pyapi.numba_array_adaptor(item, c.builder.bitcast(at, c.pyapi.voidptr))
        else:
            c.builder.store(c.unbox(field, item).value, at)

"""Named tuples of many arrays, which kernels pass to each other by their address.

numba passes a named tuple by value, as all the numbers it consists of: nine for each matrix. For a workspace of sixty arrays
that is more code than most functions have themselves, and half of the time of compiling. Of a class marked `by_address`, a
kernel gets the address, and reads a field where it is used. Compiled code can read the fields of such a tuple by their names,
and nothing else; it cannot make one.
"""

from typing import Any, TypeVar

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.imputils import lower_getattr_generic
from numba.core.typing.templates import AttributeTemplate, infer_getattr
from numba.core.typing.typeof import typeof_impl
from numba.extending import NativeValue, models, register_model, unbox

Class = TypeVar("Class", bound=type)


class _Record(types.Type):  # type: ignore[misc]
    """The compiled type of such a tuple."""

    def __init__(self, fields: Any) -> None:
        self.fields = fields
        super().__init__(f"Record({fields.name})")


def by_address(named_tuple: Class) -> Class:
    """Mark a class of named tuples."""

    @typeof_impl.register(named_tuple)
    def _(value: Any, context: Any) -> _Record:
        return _Record(types.BaseTuple.from_types([typeof_impl(each, context) for each in value], named_tuple))

    return named_tuple


def _memory(manager: Any, record: _Record) -> ir.Type:
    """The struct of the fields; that of a nested record stands in it."""
    return ir.LiteralStructType(
        [
            _memory(manager, field) if isinstance(field, _Record) else manager.lookup(field).get_value_type()
            for field in record.fields
        ]
    )


@register_model(_Record)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager: Any, record: _Record) -> None:
        super().__init__(manager, record, _memory(manager, record).as_pointer())


@infer_getattr
class _Attributes(AttributeTemplate):  # type: ignore[misc]
    key = _Record

    def generic_resolve(self, record: _Record, name: str) -> Any:
        return dict(zip(record.fields.fields, record.fields.types, strict=True)).get(name)


@lower_getattr_generic(_Record)
def _read(context: Any, builder: Any, record: _Record, address: Any, name: str) -> Any:
    i = record.fields.fields.index(name)
    at = cgutils.gep_inbounds(builder, address, 0, i)
    if isinstance(record.fields[i], _Record):
        return at
    value = builder.load(at)
    value.set_metadata("invariant.load", builder.module.add_metadata([]))  # so that loops need not read it again
    return value


@unbox(_Record)
def _unbox(record: _Record, value: Any, c: Any) -> NativeValue:
    address = cgutils.alloca_once(c.builder, _memory(c.context.data_model_manager, record))
    _write(record, value, address, c)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


def _write(record: _Record, value: Any, address: Any, c: Any) -> None:
    """Write the fields of a Python tuple to memory; kernels count no references, so that there is nothing to give back."""
    for i, field in enumerate(record.fields):
        item, at = c.pyapi.tuple_getitem(value, i), cgutils.gep_inbounds(c.builder, address, 0, i)
        if isinstance(field, _Record):
            _write(field, item, at, c)
        else:
            c.builder.store(c.unbox(field, item).value, at)

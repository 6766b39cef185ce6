"""numba's compiler and disk cache, adjusted for kernels: the only file that uses numba's private
interfaces.

CPU seconds that a first `embedx train` (16 with all of them) and `embedx classify` (12) take longer
without each, on a busy machine, two to four runs in turn:

    parts of kernels are inlined, not compiled by themselves      `kernel_part`          16
        of these, by not making machine code of them              `_PartLibrary`         12 and 6
        and no wrapper that Python would call them by             `PART`                  4
    named tuples are passed by address                            `pass_by_address`       6
    what a call returns is found once                             `_once`                 3 and 1

Without reference counting kernels train twice as fast. The disk cache keeps machine code by a hash
of all sources, readable by this user alone, in several folders, and checks it when it is read. The
order of numba's passes, the garbage collector, and the types of constants gave less than a tenth
and are left as they are.

The classes below extend numba's own, which may change without notice: `embedx.kernels.compiled`
does without this module where they have. What cannot be read from the disk cache, or not be
written, is compiled again.
"""

import contextlib
import functools
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from llvmlite import ir
from numba import types
from numba.core import caching, cgutils
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack
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

from embedx.kernels.kernel_folder import KERNEL_FOLDER, KERNEL_FOLDERS, folder_within
from embedx.runtime import locks
from embedx.runtime.cache_home import log, make_private
from embedx.runtime.interrupts import to_the_end


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile `function` on first use, without reference counting, and keep it on disk."""
    # `forceinline` is set explicitly: otherwise numba takes that of the first caller
    compiled = _compiled(_Kernel, function, forceinline=False, **options)
    # in place of numba's own, which `cache=True` would put there
    compiled._cache = _Cache(function)
    return compiled


def kernel_part(function: Callable[..., Any], **options: Any) -> Any:
    """A function that is inlined where it is called: neither optimised nor cached by itself, most
    of the time of compiling.
    """
    part = _compiled(Part, function, **PART, **options)
    if isinstance(part, Part):
        part.for_python = functools.cache(lambda: kernel(function, **options))
    return part


def _compiled(kind: type, function: Callable[..., Any], **options: Any) -> Any:
    compiled = numba.njit(_nrt=False, **options)(function)
    if isinstance(compiled, CPUDispatcher):  # not plain Python under NUMBA_DISABLE_JIT
        compiled.__class__ = kind
    return compiled


def check() -> None:
    """Compile a kernel and load it again. Raises any error if that does not work with
    this numba.
    """

    def trial(x: Any) -> Any:
        return double(x) + 1.0

    double = kernel_part(lambda x: x + x)
    first, again = kernel(trial), kernel(trial)
    results = first(2.0), again(2.0)
    if results != (5.0, 5.0) or (is_cached(again, (types.float64,)) and not again.stats.cache_hits):
        raise RuntimeError("a kernel is not what it should be")


def is_cached(compiled: Any, signature: Any) -> bool:
    """Whether the machine code of a kernel for this signature is in memory, or on disk for this
    kind of processor.
    """
    arguments, _ = normalize_signature(signature)
    return arguments in compiled.overloads or compiled._cache.holds(signature, compiled.targetctx)


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """Compiles with `_once`.

    An interrupt waits until that is done: numba and LLVM call Python where an exception is lost, or
    ends the process.
    """

    def compile(self, signature: Any) -> Any:
        return to_the_end(lambda: self._compiled(signature), then_raise=True)

    def _compiled(self, signature: Any) -> Any:
        with global_compiler_lock:
            resolve = self.typingctx.resolve_function_type
            self.typingctx.resolve_function_type = _once(resolve)
            try:
                return super().compile(signature)
            finally:
                self.typingctx.resolve_function_type = resolve


def _once(resolve: Callable[..., Any]) -> Callable[..., Any]:
    """How numba finds what a call of some types returns, once for all calls of a kernel: it asks at
    each, several times.
    """

    found = functools.cache(
        lambda function, arguments, is_inlined: resolve(function, arguments, {})
    )

    def resolved(function: Any, arguments: Any, named: Any) -> Any:
        # an operation with a constant, which may have no hash
        if named or isinstance(function, str):
            return resolve(function, arguments, named)
        return found(function, tuple(arguments), ConfigStack.top_or_none().forceinline)

    return resolved


class Part(CPUDispatcher):  # type: ignore[misc]
    """Called from Python, it is compiled as a kernel."""

    for_python: Callable[[], Any]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.for_python()(*arguments, **named)


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of a part. It is inlined into its callers, and never becomes machine code, so
    that it has no address.
    """

    @property
    def codegen(self) -> Any:
        # which is written into machine code
        return SimpleNamespace(set_env=lambda name, environment: None)

    def get_pointer_to_function(self, name: str) -> int:
        return 0

    def _optimize_final_module(self) -> None:
        # The cheapest passes do no more than inline the parts that this one calls
        passes, builder = self._codegen._module_pass_manager(
            opt=0, loop_vectorize=False, slp_vectorize=False, cost="cheap"
        )
        passes.run(self._final_module, builder)

    def _finalize_final_module(self) -> None:
        self._finalized = True


class _PartCompiler(Compiler):  # type: ignore[misc]
    def __init__(self, typing: Any, target: Any, library: Any, *others: Any) -> None:
        super().__init__(typing, target, _PartLibrary(target.codegen(), "part"), *others)


# Options of what is inlined, for functions that are parts of kernels under
# `numba.extending.overload`
PART = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
}


# ---- named tuples, by their address


class _Address(types.Type):  # type: ignore[misc]
    """The compiled type of the address of such a tuple."""

    def __init__(self, tuple_type: Any) -> None:
        self.tuple_type = tuple_type
        super().__init__(f"Address({tuple_type.name})")


def pass_by_address(named_tuple: type) -> None:
    """Pass named tuples of this class as one pointer; see `embedx.kernels.by_address`."""

    @typeof_impl.register(named_tuple)
    def _(value: Any, context: Any) -> _Address:
        return _Address(
            types.BaseTuple.from_types([typeof_impl(each, context) for each in value], named_tuple)
        )


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


# ---- numba's cache, by the interface that its `caching.py` has for other places and formats


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    """Where a kernel is kept below a folder, whether or not it can be written to: that shows when
    there is something to write.
    """

    def __init__(self, folder: str, function: Callable[..., Any], file: str) -> None:
        self._folder = folder
        self._py_file, self._lineno = file, function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return os.path.join(self._folder, self.get_suitable_cache_subpath(self._py_file))

    def ensure_cache_path(self) -> None:
        make_private(Path(self.get_cache_path()))


class _CacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """What is kept of a kernel: its machine code with a hash, without which damaged code would be
    run.
    """

    def __init__(self, folder: str, function: Callable[..., Any]) -> None:
        locators = SimpleNamespace(from_function=functools.partial(_Locator, folder))
        self._locator_classes = (locators,)
        super().__init__(function)

    def reduce(self, compiled: Any) -> tuple[bytes, bytes]:
        code = dumps(super().reduce(compiled))
        return hashlib.sha256(code).digest(), code

    def rebuild(self, target_context: Any, kept: tuple[bytes, bytes]) -> Any:
        digest, code = kept
        if hashlib.sha256(code).digest() != digest:
            raise ValueError("its hash differs")
        return super().rebuild(target_context, pickle.loads(code))


class _Files(caching.IndexDataCacheFile):  # type: ignore[misc]
    """Files that none but this user can write, whatever the umask."""

    @contextlib.contextmanager
    def _open_for_write(self, path: str) -> Iterator[Any]:
        with super()._open_for_write(path) as file:
            os.chmod(file.name, 0o600)
            yield file


class _FolderCache(caching.FunctionCache):  # type: ignore[misc]
    """The compiled forms of one kernel in a folder; without them, or room for them, the kernel
    works all the same.
    """

    def __init__(self, folder: str, function: Callable[..., Any]) -> None:
        self._impl_class = functools.partial(_CacheImpl, folder)
        super().__init__(function)
        self._cache_file.__class__ = _Files

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is a form for this signature and kind of processor."""
        key = self._index_key(signature, target_context.codegen())
        try:
            name = self._cache_file._load_index().get(key)
        except Exception:  # there is nothing that pickle does not raise, given the bytes
            return False
        return name is not None and os.path.exists(self._cache_file._data_path(name))

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        try:
            return super().load_overload(signature, target_context)
        except (OSError, MemoryError) as error:  # of this process: others can read them
            self._tell_unread(error)
        except Exception as error:  # there is nothing that pickle does not raise, given the bytes
            self._tell_unread(error)
            self._forget()
        return None

    def _tell_unread(self, error: Exception) -> None:
        problem = f"{self._impl.filename_base}: {error}"
        _tell_once("cannot be read", problem, "they are compiled again")

    def _forget(self) -> None:
        """Empty the index, whose entries are damaged."""
        try:
            self.flush()
        except OSError:
            self.disable()

    def save_overload(self, signature: Any, compiled: Any) -> None:
        # numba reads the index, adds to it and writes it: two processes would lose what one added,
        # or write the code of two kernels to one file
        folder = Path(self.cache_path)
        with contextlib.suppress(OSError):  # `super` meets it too
            make_private(folder)
        held = locks.lock(folder)
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            _tell_once(
                "cannot be kept",
                error.strerror or error,
                "free some space, or set EMBEDX_CACHE_DIR to another folder",
            )
        finally:
            locks.unlock(held)


class _Cache(caching._Cache):  # type: ignore[misc]
    """The compiled forms of one kernel in KERNEL_FOLDERS: all are read, the first is written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        folders = [folder_within(folder, function) for folder in KERNEL_FOLDERS]
        self.folders = [_FolderCache(folder, function) for folder in folders]

    @property
    def cache_path(self) -> str:
        return self.folders[0].cache_path if self.folders else ""

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether one of them has a form for this signature and kind of processor."""
        return any(folder.holds(signature, target_context) for folder in self.folders)

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        for folder in self.folders:
            if (loaded := folder.load_overload(signature, target_context)) is not None:
                return loaded
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        for folder in self.folders[:1]:
            folder.save_overload(signature, compiled)

    def enable(self) -> None:
        for folder in self.folders:
            folder.enable()

    def disable(self) -> None:
        for folder in self.folders:
            folder.disable()

    def flush(self) -> None:
        for folder in self.folders[:1]:
            folder.flush()


_told: set[str] = set()


def _tell_once(what: str, why: object, then: str) -> None:
    """Log each kind of failure once."""
    if what not in _told:
        _told.add(what)
        log.warning(f"{KERNEL_FOLDER}: compiled kernels {what} ({why}); {then}")

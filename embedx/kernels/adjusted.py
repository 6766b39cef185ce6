"""numba's compiler and disk cache, adjusted for kernels: the only file that uses numba's private
interfaces.

CPU seconds that each saves at a first `embedx train` (which takes 16 with all of them) and `embedx
classify` (12), on a busy machine, two to four runs in turn, not on record:

    parts of kernels are inlined, not compiled on their own       `kernel_part`          16
        of these, because they get no machine code                `_PartLibrary`         12 and 6
        and no wrapper for calls from Python                      `PART`                  4
    named tuples are passed by address                            `pass_by_address`       6
    the return type of a call is inferred once                    `_once`                 3 and 1

Without reference counting kernels train twice as fast. The disk cache is keyed by a hash of all
sources, readable by this user alone, in several folders, and verified when it is read. Other orders
of numba's passes, garbage collection and types of constants saved less than a tenth, and are not
changed.

The classes below extend numba's own, which may change without notice: `embedx.kernels.compiled`
then does without this module. Machine code that cannot be read from the cache is compiled again.
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
from numba.experimental import function_type  # noqa: F401 (see `_FolderCache.load_overload`)
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
    """Compile `function` on first use, without reference counting, and cache it on disk."""
    # Set explicitly: otherwise numba takes the `forceinline` of the first caller.
    compiled = _compiled(_Kernel, function, forceinline=False, **options)
    # In place of numba's own cache, which `cache=True` would set.
    compiled._cache = _Cache(function)
    return compiled


def kernel_part(function: Callable[..., Any], **options: Any) -> Any:
    """A function that is inlined where it is called. It is neither optimised nor cached on its own,
    which would take most of the compile time.
    """
    part = _compiled(Part, function, **PART, **options)
    if isinstance(part, Part):
        part.for_python = functools.cache(lambda: kernel(function, **options))
    return part


def _compiled(kind: type, function: Callable[..., Any], **options: Any) -> Any:
    """A dispatcher of numba for a function, as one of the classes below."""
    compiled = numba.njit(_nrt=False, **options)(function)
    if isinstance(compiled, CPUDispatcher):  # not plain Python under NUMBA_DISABLE_JIT
        compiled.__class__ = kind
    return compiled


def check() -> None:
    """Compile a kernel and load it again. Raises some error if that fails with this numba."""

    def trial(x: Any) -> Any:
        return double(x) + 1.0

    double = kernel_part(lambda x: x + x)
    first = kernel(trial)
    again = kernel(trial)
    if first(2.0) != 5 or again(2.0) != 5:
        raise RuntimeError("a kernel returned a wrong result")
    if is_cached(again, (types.float64,)) and not again.stats.cache_hits:
        raise RuntimeError("a kernel was not loaded again")


def is_cached(compiled: Any, signature: Any) -> bool:
    """Whether machine code of a kernel for this signature is in memory, or on disk for this CPU."""
    arguments, _ = normalize_signature(signature)
    return arguments in compiled.overloads or compiled._cache.holds(signature, compiled.targetctx)


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """A dispatcher that compiles with `_once`, and holds back interrupts until it has compiled.

    numba and LLVM call Python from places where an exception is lost, or ends the process.
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
    """numba's resolution of the return type of a call, remembered by the types of its arguments:
    numba repeats it several times for each call in a kernel.
    """
    remembered = functools.cache(
        lambda function, arguments, is_inlined: resolve(function, arguments, {})
    )

    def resolved(function: Any, arguments: Any, named: Any) -> Any:
        # An operation with a constant, which may not be hashable.
        if named or isinstance(function, str):
            return resolve(function, arguments, named)
        return remembered(function, tuple(arguments), ConfigStack.top_or_none().forceinline)

    return resolved


class Part(CPUDispatcher):  # type: ignore[misc]
    """A kernel part; when called from Python, it is compiled as a kernel."""

    for_python: Callable[[], Any]

    def __call__(self, *arguments: Any, **named: Any) -> Any:
        return self.for_python()(*arguments, **named)


class _PartLibrary(JITCodeLibrary):  # type: ignore[misc]
    """The LLVM code of a part. It is inlined into its callers, and never becomes machine code:
    it has no address.
    """

    @property
    def codegen(self) -> Any:
        # numba would write the environment into the machine code, which a part does not have.
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


# Options of kernel parts, for `numba.extending.overload`.
PART = {
    "forceinline": True,
    "no_cpython_wrapper": True,
    "no_cfunc_wrapper": True,
    "pipeline_class": _PartCompiler,
}


# ---- named tuples, by their address


class _Address(types.Type):  # type: ignore[misc]
    """The compiled type of the address of a named tuple."""

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
    # Fields never change during a call, so that loops read them once.
    value.set_metadata("invariant.load", builder.module.add_metadata([]))
    return value


@unbox(_Address)
def _unbox(address_of: _Address, value: Any, c: Any) -> NativeValue:
    """The address of a copy on the caller's stack, which lives as long as the call."""
    address = cgutils.alloca_once(c.builder, _memory(c.context.data_model_manager, address_of))
    _write(address_of.tuple_type, value, address, c)
    return NativeValue(address, is_error=c.pyapi.c_api_error())


def _write(tuple_type: Any, value: Any, address: Any, c: Any) -> None:
    """Write the fields of a Python tuple to memory. Kernels count no references, so nothing has to
    be released.
    """
    for i, field in enumerate(tuple_type):
        item = c.pyapi.tuple_getitem(value, i)
        at = cgutils.gep_inbounds(c.builder, address, 0, i)
        if isinstance(field, _Address | types.BaseTuple):
            _write(getattr(field, "tuple_type", field), item, at, c)
        elif isinstance(field, types.Array):
            # In place: `unbox` would check again what the dispatcher has checked.
            c.pyapi.numba_array_adaptor(item, c.builder.bitcast(at, c.pyapi.voidptr))
        else:
            c.builder.store(c.unbox(field, item).value, at)


# ---- numba's cache, by the interface that its `caching.py` has for other places and formats


class _Locator(caching._SourceFileBackedLocatorMixin, caching._CacheLocator):  # type: ignore[misc]
    """The folder of a kernel below a cache folder, which may be read-only: that shows when there is
    something to write.
    """

    def __init__(self, folder: str, function: Callable[..., Any], file: str) -> None:
        self._folder = folder
        self._py_file = file
        self._lineno = function.__code__.co_firstlineno

    def get_cache_path(self) -> str:
        return os.path.join(self._folder, self.get_suitable_cache_subpath(self._py_file))

    def ensure_cache_path(self) -> None:
        make_private(Path(self.get_cache_path()))


class _CacheImpl(caching.CompileResultCacheImpl):  # type: ignore[misc]
    """The machine code of a kernel with a hash, so that damaged code is not run."""

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
    """Cache files that only this user can write, whatever the umask."""

    @contextlib.contextmanager
    def _open_for_write(self, path: str) -> Iterator[Any]:
        with super()._open_for_write(path) as file:
            os.chmod(file.name, 0o600)
            yield file


class _FolderCache(caching.FunctionCache):  # type: ignore[misc]
    """The machine code of one kernel in a folder. If it cannot be read or written, the kernel is
    compiled in memory.
    """

    def __init__(self, folder: str, function: Callable[..., Any]) -> None:
        self._impl_class = functools.partial(_CacheImpl, folder)
        super().__init__(function)
        self._cache_file.__class__ = _Files

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether there is machine code for this signature and CPU."""
        key = self._index_key(signature, target_context.codegen())
        try:
            name = self._cache_file._load_index().get(key)
        except Exception:  # pickle may raise any exception for damaged bytes
            return False
        return name is not None and os.path.exists(self._cache_file._data_path(name))

    def load_overload(self, signature: Any, target_context: Any) -> Any:
        """The machine code on disk, or None.

        numba's own method first imports all that a compilation needs, which is 30 MB and 0.2 CPU
        seconds. Machine code needs none of it, and a compilation does it by itself; only the types
        of arguments that are functions (`numba.experimental.function_type`) are needed here.
        """
        try:
            with self._guard_against_spurious_io_errors():
                return self._load_overload(signature, target_context)
        except (OSError, MemoryError) as error:  # this process cannot read them; others can
            self._log_unread(error)
        except Exception as error:  # pickle may raise any exception for damaged bytes
            self._log_unread(error)
            self._forget()
        return None

    def _log_unread(self, error: Exception) -> None:
        problem = f"{self._impl.filename_base}: {error}"
        _log_once("cannot be read", problem, "they are compiled again")

    def _forget(self) -> None:
        """Empty the index, whose entries are damaged."""
        try:
            self.flush()
        except OSError:
            self.disable()

    def save_overload(self, signature: Any, compiled: Any) -> None:
        # numba reads the index, adds an entry and writes it. Without a lock, two processes could
        # lose an entry, or write the code of two kernels to one file.
        folder = Path(self.cache_path)
        with contextlib.suppress(OSError):  # `super` meets the same error and handles it
            make_private(folder)
        held = locks.lock(folder)
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            _log_once(
                "cannot be kept",
                error.strerror or error,
                "free some space, or set EMBEDX_CACHE_DIR to another folder",
            )
        finally:
            locks.unlock(held)


class _Cache(caching._Cache):  # type: ignore[misc]
    """The machine code of one kernel in KERNEL_FOLDERS: all are read, the first is written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        folders = [folder_within(folder, function) for folder in KERNEL_FOLDERS]
        self.folders = [_FolderCache(folder, function) for folder in folders]

    @property
    def cache_path(self) -> str:
        return self.folders[0].cache_path if self.folders else ""

    def holds(self, signature: Any, target_context: Any) -> bool:
        """Whether one of the folders has machine code for this signature and CPU."""
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


_logged: set[str] = set()


def _log_once(what: str, why: object, then: str) -> None:
    """Log each kind of failure once."""
    if what not in _logged:
        _logged.add(what)
        log.warning(f"{KERNEL_FOLDER}: compiled kernels {what} ({why}); {then}")

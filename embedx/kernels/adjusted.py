"""numba's compiler and disk cache, adjusted for kernels: less to compile, and machine code kept by
a hash of all sources.

The classes below extend numba's own, which may change without notice: `embedx.kernels.compiled`
does without this module where they have. What cannot be read from the disk cache, or not be
written, is compiled again.
"""

import contextlib
import functools
import gc
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numba
from numba import types
from numba.core import caching
from numba.core.codegen import JITCodeLibrary
from numba.core.compiler import Compiler
from numba.core.compiler_lock import global_compiler_lock
from numba.core.registry import CPUDispatcher
from numba.core.serialize import dumps
from numba.core.sigutils import normalize_signature
from numba.core.targetconfig import ConfigStack

from embedx.kernels.kernel_folder import KERNEL_FOLDER, KERNEL_FOLDERS
from embedx.runtime.cache_home import log, make_private

# Passes of numba's compiler for what kernels do not have: closures, exceptions, `with`, array
# expressions, literal types
LEFT_OUT = {
    "with_lifting",
    "inline_closure_likes",
    "make_function_op_code_to_jit_function",
    "inline_inlinables",
    "find_literally",
    "Rewrite dynamic raises",
    "literal_unroll",
    "LiteralPropagation",
    "inline_overloads",
    "nopython_rewrites",
    "annotate_types",
}


def kernel(function: Callable[..., Any], **options: Any) -> Any:
    """Compile `function` on first use, without reference counting, and keep it on disk."""
    # `forceinline` is set explicitly: otherwise numba takes that of the first caller
    compiled = _compiled(_Kernel, function, forceinline=False, pipeline_class=_Compiler, **options)
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


class _Compiler(Compiler):  # type: ignore[misc]
    """numba's compiler without LEFT_OUT."""

    def define_pipelines(self) -> Any:
        [pipeline] = super().define_pipelines()
        pipeline.passes = [each for each in pipeline.passes if each[0].name() not in LEFT_OUT]
        return [pipeline]


class _Kernel(CPUDispatcher):  # type: ignore[misc]
    """Compiles without the garbage collector, which would search all that numba keeps many times,
    and with `_once`.
    """

    def compile(self, signature: Any) -> Any:
        with global_compiler_lock:
            is_enabled, resolve = gc.isenabled(), self.typingctx.resolve_function_type
            gc.disable()
            self.typingctx.resolve_function_type = _once(resolve)
            try:
                return super().compile(signature)
            finally:
                self.typingctx.resolve_function_type = resolve
                if is_enabled:
                    gc.enable()


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
    """Called from Python, it is compiled as a kernel. A constant argument is typed as a variable,
    so that both share code.
    """

    for_python: Callable[[], Any]

    def get_call_template(self, arguments: Any, named: Any) -> Any:
        return super().get_call_template(tuple(map(types.unliteral, arguments)), named)

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


class _PartCompiler(_Compiler):
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
        except Exception as error:  # there is nothing that pickle does not raise, given the bytes
            _tell_once(
                "cannot be read", f"{self._impl.filename_base}: {error}", "they are compiled again"
            )
        try:
            self.flush()
        except OSError:
            self.disable()
        return None

    def save_overload(self, signature: Any, compiled: Any) -> None:
        try:
            super().save_overload(signature, compiled)
        except OSError as error:
            _tell_once(
                "cannot be kept",
                error.strerror or error,
                "free some space, or set EMBEDX_CACHE_DIR to another folder",
            )


class _Cache(caching._Cache):  # type: ignore[misc]
    """The compiled forms of one kernel in KERNEL_FOLDERS: all are read, the first is written."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.folders = [_FolderCache(folder, function) for folder in KERNEL_FOLDERS]

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

"""The kernel cache: kernels are loaded again, and compiled where it is damaged or cannot hold
them.
"""

import os
import signal
import subprocess
import sys

import pytest
from numba import types

from embedx.kernels import adjusted
from embedx.kernels.compiled import kernel
from tests.support import forked
from tests.support.needs import needs_compiler

pytestmark = needs_compiler

KERNELS = """
from embedx.kernels.compiled import kernel

@kernel
def double(x):
    return 2 * x

@kernel
def triple(x):
    return 3 * x
"""
USE = """
import sys; sys.path.insert(0, sys.argv[1])
import small_kernels
{before}
print(small_kernels.double(21), small_kernels.triple(14))
print(sum(sum(k.stats.cache_hits.values()) for k in (small_kernels.double, small_kernels.triple)))
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "small_kernels.py").write_text(KERNELS)
    return tmp_path


def used(folder, before=""):
    """Two kernels, used in a process of their own: how many of them were found on disk, and the
    lines of standard error.
    """
    environment = {name: value for name, value in os.environ.items() if name != "NUMBA_CACHE_DIR"}
    environment["EMBEDX_CACHE_DIR"] = str(folder / "cache")
    code = USE.format(before=before)
    if before:  # streams that are no files
        command = [sys.executable, "-c", code, str(folder)]
        completed = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False
        )
    else:
        completed = forked.run(
            folder, cwd=forked.ROOT, env=environment, code=code, check=False, imported="numba"
        )
    assert completed.returncode == 0, completed.stderr
    results, hits = completed.stdout.splitlines()
    assert results == "42 42"
    return int(hits), completed.stderr.splitlines()


MISSING = "import numba.core.caching; del numba.core.caching._CacheLocator"
CHANGED = """
import numba
from numba.core import codegen
numba.version_info = numba.version_info._replace(short=(99, 0))
old = codegen.JITCodeLibrary.__init__
codegen.JITCodeLibrary.__init__ = lambda self, codegen, name, *, kind: old(self, codegen, name)
codegen.CPUCodegen.create_library = (
    lambda self, name, **named: codegen.JITCodeLibrary(self, name, kind=0)
)
"""
POINTS = """
from typing import NamedTuple
import numpy as np
from embedx.kernels.by_address import by_address
from embedx.kernels.compiled import kernel_part

@by_address
class Points(NamedTuple):
    xs: np.ndarray

@kernel_part
def first(points):
    return points.xs[0]

@kernel
def taken(points):
    return first(points) + points.xs[1]

assert taken(Points(np.array([1.5, 2]))) == 3.5
"""


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (MISSING, "module 'numba.core.caching' has no attribute '_CacheLocator'"),
        (CHANGED, "argument: 'kind'"),
    ],
    ids=["missing", "changed"],
)
def test_kernels_work_with_a_numba_of_other_internals(folder, change, why):
    """A second process finds them in the cache. Named tuples and parts of kernels work too."""
    (folder / "small_kernels.py").write_text(change + KERNELS + POINTS)
    for expected in (0, 2):
        hits, (line,) = used(folder)
        assert hits == expected
        assert why in line
        assert "not known" in line
    assert list((folder / "cache" / "kernels").rglob("small_kernels.taken*.nbi"))


def half(data):
    return data[: len(data) // 2]


def other_code(data):
    """One byte changed in the machine code, which takes most of the file: nothing that Python's
    pickle could notice.
    """
    place = len(data) * 3 // 4
    return data[:place] + bytes([data[place] ^ 0xFF]) + data[place + 1 :]


def test_a_second_process_loads_kernels_from_the_cache(folder):
    assert used(folder) == (0, [])
    assert used(folder) == (2, [])


FUNCTION_AS_ARGUMENT = """
from numba import float64, types

@kernel
def applied(function, x):
    return function(x)

SIGNATURE = float64(float64)

def triple(x):
    double.compile(SIGNATURE)
    function = types.CompileResultWAP(double.get_compile_result(SIGNATURE))
    return int(applied(function, x) + x)

triple.stats = applied.stats
"""


def test_kernels_that_take_functions_are_loaded_too(folder):
    kernels = KERNELS.partition("@kernel\ndef triple")[0] + FUNCTION_AS_ARGUMENT
    (folder / "small_kernels.py").write_text(kernels)
    started_anew = "pass"  # a forked process would have imported more of numba
    assert used(folder, started_anew) == (0, [])
    assert used(folder, started_anew) == (3, [])


def test_a_part_of_a_kernel_is_called_from_python_as_well(folder):
    """It is compiled once for each, and both are found again."""
    part = "from embedx.kernels.compiled import kernel_part\n\n@kernel_part\ndef double"
    (folder / "small_kernels.py").write_text(
        KERNELS.replace("@kernel\ndef double", part).replace("3 * x", "x + double(x)")
    )
    assert used(folder) == (0, [])
    kept = {file: file.stat().st_mtime_ns for file in (folder / "cache").rglob("*.nb?")}
    assert sorted(file.name.split("-")[0] for file in kept if file.suffix == ".nbi") == [
        "small_kernels.double",
        "small_kernels.triple",
    ]
    assert used(folder) == (1, [])
    assert {file: file.stat().st_mtime_ns for file in (folder / "cache").rglob("*.nb?")} == kept


@pytest.mark.parametrize(
    ("files", "damage", "why"),
    [
        ("*.nbi", half, ""),
        ("*.nb?", lambda data: b"", ""),
        ("*.nbc", other_code, "its hash differs"),
    ],
    ids=["index cut", "all empty", "code changed"],
)
def test_damaged_kernels_are_compiled_again_and_cached(folder, files, damage, why):
    used(folder)
    damaged = list((folder / "cache" / "kernels").rglob(files))
    assert len(damaged) >= 2
    for file in damaged:
        file.write_bytes(damage(file.read_bytes()))
    hits, (line,) = used(folder)
    assert hits == 0
    assert line.startswith(str(folder / "cache" / "kernels"))
    assert "compiled kernels cannot be read (small_kernels.double-" in line
    assert line.endswith(f"{why}); they are compiled again")
    assert used(folder) == (2, [])


# no file may be larger
FULL = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (10, 10))"


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no such limit")
def test_kernels_that_cannot_be_cached_are_used(folder):
    hits, (line,) = used(folder, before=FULL)
    assert hits == 0
    assert "(File too large)" in line
    assert "EMBEDX_CACHE_DIR" in line
    assert used(folder) == (0, [])  # nothing half-written is left
    for file in (folder / "cache" / "kernels").rglob("*.nbi"):
        file.write_bytes(half(file.read_bytes()))
    hits, lines = used(folder, before=FULL)  # nor can what is damaged be replaced then
    assert (hits, len(lines)) == (0, 1)


def test_an_interrupt_waits_for_the_kernel_that_is_compiled(monkeypatch):
    """numba and LLVM call Python where an exception is lost, or ends the process."""
    compiled = []

    def compile_kernel(self, signature):
        signal.raise_signal(signal.SIGINT)
        compiled.append(signature)

    monkeypatch.setattr(adjusted.CPUDispatcher, "compile", compile_kernel)

    @kernel
    def double(x):
        return 2 * x

    with pytest.raises(KeyboardInterrupt):
        double.compile((types.float64,))
    assert compiled == [(types.float64,)]

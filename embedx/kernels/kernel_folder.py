"""The folder of compiled kernels, named by a hash of the sources that kernels call into.

numba looks only at the file a function stands in. It does not notice edits in the helpers it calls,
or in the constants it takes, from other files.
"""

import hashlib
from pathlib import Path

import llvmlite
import numba

from embedx.runtime.cache_home import absolute, kept_in, usable

# What kernels of other files take functions and constants from. An edit anywhere else leaves the
# machine code valid, or is in the file of the kernel, which numba looks at (tests/test_layers.py).
KERNEL_SOURCES = (
    "engine",
    "kernels",
    "objectives",
    "optimizers",
    "samplers",
    "search",
    "graphs/settings.py",
    "text/characters.py",
    "text/collocations.py",
    "text/heldout.py",
    "text/ngrams.py",
    "text/sources.py",
    "text/subsampling.py",
    "text/tables.py",
    "text/tokenizer.py",
)


def _sources_hash() -> str:
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for source in KERNEL_SOURCES:
        path = package / source
        for file in sorted(path.rglob("*.py")) if path.is_dir() else (path,):
            digest.update(file.relative_to(package).as_posix().encode() + b"\0")
            digest.update(file.read_bytes())
    return digest.hexdigest()[:16]


def _kernel_folders() -> tuple[str, ...]:
    name = f"kernels/{_sources_hash()}"
    chosen = numba.config.CACHE_DIR
    if not chosen:
        return tuple(map(str, kept_in(name, is_code=True)))
    folder = absolute(chosen) / Path(name).name
    return tuple(map(str, usable(folder, name, is_code=True)))


# all are read, and what is new is written to the first
KERNEL_FOLDERS = _kernel_folders()
# "" where there is none to trust
KERNEL_FOLDER = KERNEL_FOLDERS[0] if KERNEL_FOLDERS else ""

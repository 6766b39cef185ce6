"""The folder of compiled kernels, named by a hash of the sources that kernels can depend on.

numba looks only at the file a function stands in and does not notice edits in the helpers it calls,
or the constants it takes, from other files.
"""

import hashlib
from pathlib import Path

import llvmlite
import numba

from embedx.storage.cache_home import cache_home, writable

# Folders without kernels, which those with kernels do not import: an edit there leaves the machine
# code valid.
WITHOUT_KERNELS = {
    "classification",
    "cli",
    "comparison",
    "distributed",
    "evaluation",
    "pages",
    "report",
    "skipgram",
    "vectors",
}


def _sources_hash() -> str:
    package = Path(__file__).parents[1]
    digest = hashlib.sha256(f"{numba.__version__} {llvmlite.__version__}".encode())
    for file in sorted(package.rglob("*.py")):
        name = file.relative_to(package)
        if name.parts[0] not in WITHOUT_KERNELS:
            digest.update(name.as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def _kernel_folder() -> str:
    version = _sources_hash()
    parent = Path(numba.config.CACHE_DIR) if numba.config.CACHE_DIR else cache_home() / "kernels"
    return str(writable(parent / version, instead=f"kernels/{version}"))


KERNEL_FOLDER = _kernel_folder()

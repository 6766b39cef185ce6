"""What a test may go without, and nowhere else: everything that pyproject.toml asks for has to be there."""

import importlib.util
import os
import sys

import numba
import pytest

# gensim has no build for Python 3.14 yet, and pyproject.toml asks for it below that alone; there it has to be found.
HAS_NO_GENSIM = sys.version_info >= (3, 14) and importlib.util.find_spec("gensim") is None
WHY_NO_GENSIM = "gensim has no build for this Python"

needs_gensim = pytest.mark.skipif(HAS_NO_GENSIM, reason=WHY_NO_GENSIM)
# Real data are not in the repository. Where the variable is set, files that are missing fail their tests.
needs_data = pytest.mark.skipif("EMBEDX_DATA" not in os.environ, reason="EMBEDX_DATA does not name the folder of real data")
# These look at compiled code itself, or compare it with plain Python.
needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="NUMBA_DISABLE_JIT: nothing is compiled")
# The extra `docs` is not among what tests need; `.ci/run` installs it after them and builds the site.
needs_docs = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("mkdocs", "material", "mkdocstrings_handlers")),
    reason="the extra docs is not installed: mkdocs and what it needs",
)

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
# Of the extra `peers`, for what eval/ measures beside us; no test extra asks for it.
needs_fasttext = pytest.mark.skipif(importlib.util.find_spec("fasttext") is None, reason="fasttext, of peers, is not installed")
# These look at compiled code itself, or compare it with plain Python.
needs_compiler = pytest.mark.skipif(bool(numba.config.DISABLE_JIT), reason="NUMBA_DISABLE_JIT: nothing is compiled")

"""What a test may go without, and nowhere else: everything that pyproject.toml asks for has to be
there.
"""

import importlib.util
import os
import shutil
import sys

import numba
import pytest

# gensim has no build for Python 3.14 yet, and pyproject.toml asks for it below that alone; there it
# has to be found.
HAS_NO_GENSIM = sys.version_info >= (3, 14) and importlib.util.find_spec("gensim") is None
WHY_NO_GENSIM = "gensim has no build for this Python"

needs_gensim = pytest.mark.skipif(HAS_NO_GENSIM, reason=WHY_NO_GENSIM)
# Real data are not in the repository. Where the variable is set, files that are missing fail their
# tests.
needs_data = pytest.mark.skipif(
    "EMBEDX_DATA" not in os.environ, reason="EMBEDX_DATA does not name the folder of real data"
)
# Pages are opened in chromium, which comes with the system: apt-get install chromium
# chromium-driver. `.ci/run` installs it.
BROWSER = shutil.which("chromium")
DRIVER = shutil.which("chromedriver")
needs_browser = pytest.mark.skipif(
    not (BROWSER and DRIVER), reason="chromium and chromedriver are not installed"
)
# Of the extra `peers`, for what eval/ measures beside us; no test extra asks for it.
needs_fasttext = pytest.mark.skipif(
    importlib.util.find_spec("fasttext") is None, reason="fasttext, of peers, is not installed"
)
# These look at compiled code itself, or compare it with plain Python.
needs_compiler = pytest.mark.skipif(
    bool(numba.config.DISABLE_JIT), reason="NUMBA_DISABLE_JIT: nothing is compiled"
)
# torch is some hundred megabytes, and so no dependency of the tests: where it is installed, they
# use it.
needs_sentence_transformers = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="sentence-transformers (and torch) are not installed",
)
# Data sets are built from clones of public repositories, of some gigabytes.
needs_repositories = pytest.mark.skipif(
    "EMBEDX_REPOSITORIES" not in os.environ,
    reason="EMBEDX_REPOSITORIES does not name the folder of clones",
)

"""The tests of `test_*_parts.py`, which call parts of kernels by themselves, as plain Python:
nothing is compiled for them.
"""

import os
import subprocess
import sys
from pathlib import Path

FOLDER = Path(__file__).parent


def test_kernel_parts_run_as_plain_python():
    files = sorted(FOLDER.glob("test_*_parts.py"))
    assert files
    completed = subprocess.run(
        [sys.executable, "-m", "pytest", "-n", "0", "-p", "no:cacheprovider", *map(str, files)],
        cwd=FOLDER.parent,
        env=os.environ | {"NUMBA_DISABLE_JIT": "1"},
        capture_output=True,
        text=True,
    )
    assert completed.returncode == 0, completed.stdout
    assert "skipped" not in completed.stdout

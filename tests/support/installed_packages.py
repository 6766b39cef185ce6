"""Packages of others, with objectives and samplers: installed in a folder of their own, and used by
processes that find them there.
"""

import os
import shlex
from pathlib import Path

from tests.support import forked

ROOT = Path(__file__).parents[2]
CORPUS = "cat dog fur paw\ncar road fuel wheel\n" * 200
LABELLED = "__label__pets cat dog fur paw\n__label__cars car road fuel wheel\n" * 50


def run_module(module, words, site, folder):
    """`python -m MODULE WORDS...` in a process that finds the packages in `site`."""
    path = os.pathsep.join([str(ROOT), str(site)])
    environment = forked.environment(folder) | {"PYTHONPATH": path, "COLUMNS": "100"}
    code = (
        f"import runpy, sys\nsys.path.insert(0, {str(site)!r})\n"
        f"runpy.run_module({module!r}, run_name='__main__', alter_sys=True)"
    )
    options = {"check": False, "code": code, "imported": "numba"}
    return forked.run(*words, cwd=folder, env=environment, **options)


def embedx(line, site, folder):
    """The command `embedx LINE` in a process that finds the packages in `site`."""
    return run_module("embedx", shlex.split(line), site, folder)


def install(site, name, group, entry, text):
    """Install a package of one module NAME.py with an entry point, as pip would."""
    info = site / f"{name}-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[{group}]\n{entry}\n")
    (site / f"{name}.py").write_text(text)

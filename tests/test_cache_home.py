"""Machines where the user's cache folder cannot be written: containers without a home, users who
have none.
"""

import atexit
import os
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from embedx.kernels.compiled import KERNEL_FOLDER
from embedx.storage import cache_home
from embedx.text.recipes import find_recipe

pytestmark = pytest.mark.skipif(
    os.name != "posix", reason="Windows gives each user temporary folders of his own"
)
VARIABLES = ("EMBEDX_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder of temporary folders of a process that begins here."""
    folder = tmp_path / "temporary"
    folder.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    forget()
    yield folder
    forget()


def forget():
    for function in (cache_home.writable, cache_home.spare_folder):
        function.cache_clear()


def spare(temporary):
    return temporary / f"embedx-{os.geteuid()}"


@pytest.mark.parametrize(
    ("variable", "value", "below", "why"),
    [
        ("HOME", "missing", ".cache/embedx", "No such file or directory"),
        ("HOME", "/proc/self/missing", ".cache/embedx", "No such file or directory"),
        ("XDG_CACHE_HOME", "file", "embedx", "Not a directory"),
        ("EMBEDX_CACHE_DIR", "file/cache", "", "Not a directory"),
    ],
)
def test_a_private_temporary_folder_takes_the_place_of_one_that_cannot_be_written(
    temporary, monkeypatch, caplog, variable, value, below, why
):
    (temporary.parent / "file").write_text("")
    wanted = temporary.parent / value
    monkeypatch.setenv(variable, str(wanted))
    assert cache_home.cache_home() == cache_home.cache_home() == spare(temporary)
    assert caplog.messages == [
        f"{wanted / below}: cannot be written ({why}); {spare(temporary)} takes its place; "
        "EMBEDX_CACHE_DIR names another folder"
    ]
    assert stat.S_IMODE(spare(temporary).stat().st_mode) == 0o700
    assert not (temporary.parent / "missing").exists()  # a home is not made


def run(temporary, *words, **variables):
    """A process that may find its cache folder by `variables` alone."""
    environment = {name: value for name, value in os.environ.items() if name not in VARIABLES}
    environment |= {"TMPDIR": str(temporary)} | {
        name: str(value) for name, value in variables.items()
    }
    command = [sys.executable, *map(str, words)]
    done = subprocess.run(
        command, cwd=temporary.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return done


def test_the_folder_of_kernels_alone_may_be_out_of_reach(temporary):
    (temporary.parent / "kernels").write_text("")
    code = "from embedx.kernels.compiled import KERNEL_FOLDER; print(KERNEL_FOLDER)"
    done = run(temporary, "-c", code, EMBEDX_CACHE_DIR=temporary.parent)
    (line,) = done.stderr.splitlines()
    assert line.startswith(str(temporary.parent / "kernels"))
    assert done.stdout.strip() == str(spare(temporary) / "kernels" / Path(KERNEL_FOLDER).name)


def test_one_trains_without_a_home(temporary):
    """In plain Python, so that nothing is compiled for this test."""
    (temporary.parent / "corpus.txt").write_text("a b c d\n" * 10)
    small = [
        "-m",
        "embedx",
        "train",
        "corpus.txt",
        "--dim",
        4,
        "--epochs",
        1,
        "--sample",
        0,
        "--output",
        "model",
    ]
    done = run(temporary, *small, HOME=temporary.parent / "missing", NUMBA_DISABLE_JIT=1)
    assert "model\t4 words, loss " in done.stdout
    assert done.stderr.startswith(
        f"{temporary.parent / 'missing' / '.cache' / 'embedx'}: cannot be written ("
    )
    assert len(list((spare(temporary) / "tokens").glob("*/tokens.bin"))) == 1
    assert not (temporary.parent / "missing").exists()


def test_a_user_without_a_home_at_all(temporary, monkeypatch, caplog):
    monkeypatch.setattr(os.path, "expanduser", str)
    monkeypatch.chdir("/proc/self")
    assert cache_home.cache_home() == spare(temporary)
    assert "~/.cache/embedx: cannot be written" in caplog.text
    assert find_recipe("none") is None


def open_to_all(folder, other):
    folder.mkdir()
    folder.chmod(0o777)


def readable(folder, other):
    folder.mkdir(mode=0o755)


def a_link(folder, other):
    folder.symlink_to(other)


def a_file(folder, other):
    folder.write_text("")


@pytest.mark.parametrize("prepare", [open_to_all, readable, a_link, a_file])
def test_a_folder_that_others_may_have_made_is_not_used(temporary, tmp_path, monkeypatch, prepare):
    at_exit = []
    monkeypatch.setattr(
        atexit, "register", lambda *call, **options: at_exit.append((call, options))
    )
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    prepare(spare(temporary), other)
    used = cache_home.spare_folder()
    assert used.parent == temporary
    assert used != spare(temporary)
    assert list(other.iterdir()) == []
    [((remove, *arguments), options)] = at_exit
    remove(*arguments, **options)
    # the one that was used is gone with the run
    assert list(temporary.iterdir()) == [spare(temporary)]


def test_a_folder_that_others_could_exchange_is_not_used(temporary):
    temporary.chmod(0o777)
    assert cache_home.spare_folder() != spare(temporary)
    forget()
    temporary.chmod(0o1777)
    assert cache_home.spare_folder() == spare(temporary)

"""Machines where the user's cache folder cannot be written: containers without a home, users who have none."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from embedx.kernels.compiled import KERNEL_FOLDER

posix = pytest.mark.skipif(os.name != "posix", reason="Windows gives each user temporary folders of his own")
NO_USER = (
    "import os, pwd, sys\n"
    "def unknown(number): raise KeyError(number)\n"
    "pwd.getpwuid = unknown\n"
    "del os.environ['HOME']\n"
    "from embedx.cli.app import main\n"
    "sys.argv[0] = 'embedx'; main()"
)


@pytest.fixture
def temporary(tmp_path):
    folder = tmp_path / "temporary"
    folder.mkdir()
    return folder


def spare(temporary):
    return temporary / f"embedx-{os.geteuid()}"


def embedx_run(temporary, *arguments, program=("-m", "embedx"), **variables):
    """A command that may find its cache folder by `variables` alone; its completed process."""
    chosen = ("EMBEDX_CACHE_DIR", "XDG_CACHE_HOME", "NUMBA_CACHE_DIR")
    environment = {name: value for name, value in os.environ.items() if name not in chosen}
    done = subprocess.run(
        [sys.executable, *program, *map(str, arguments)],
        cwd=temporary.parent,
        env=environment | {"TMPDIR": str(temporary)} | {name: str(value) for name, value in variables.items()},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done


@posix
@pytest.mark.parametrize(
    ("variable", "value", "below", "why"),
    [
        ("HOME", "missing", ".cache/embedx", "No such file or directory"),
        ("HOME", "file", ".cache/embedx", "Not a directory"),
        ("HOME", "/proc/self/missing", ".cache/embedx", "No such file or directory"),
        ("XDG_CACHE_HOME", "file", "embedx", "Not a directory"),
        ("EMBEDX_CACHE_DIR", "file/cache", "", "Not a directory"),
    ],
)
def test_a_private_temporary_folder_takes_the_place_of_one_that_cannot_be_written(temporary, variable, value, below, why):
    (temporary.parent / "file").write_text("")
    wanted = temporary.parent / value
    done = embedx_run(temporary, "cache", "list", **{variable: wanted})
    (line,) = done.stderr.splitlines()
    assert line == (
        f"{wanted / below}: cannot be written ({why}); {spare(temporary)} takes its place; "
        "EMBEDX_CACHE_DIR names another folder"
    )
    assert stat.S_IMODE(spare(temporary).stat().st_mode) == 0o700
    assert [each.name for each in spare(temporary).iterdir()] == ["kernels"]
    assert not (temporary.parent / "missing").exists()  # a home is not made


@posix
def test_the_folder_of_kernels_alone_may_be_out_of_reach(temporary):
    (temporary.parent / "kernels").write_text("")
    tell = "from embedx.kernels.compiled import KERNEL_FOLDER; print(KERNEL_FOLDER)"
    done = embedx_run(temporary, program=("-c", tell), EMBEDX_CACHE_DIR=temporary.parent)
    (line,) = done.stderr.splitlines()
    assert line.startswith(str(temporary.parent / "kernels"))
    assert done.stdout.strip() == str(spare(temporary) / "kernels" / Path(KERNEL_FOLDER).name)


@posix
def test_one_trains_without_a_home(temporary, two_topics):
    if Path(KERNEL_FOLDER).is_dir():  # so that nothing is compiled anew for this test
        spare(temporary).mkdir(mode=0o700)
        shutil.copytree(KERNEL_FOLDER, spare(temporary) / "kernels" / Path(KERNEL_FOLDER).name)
    missing, small = temporary.parent / "missing", ["train", two_topics, "--dim", 4, "--epochs", 1, "--output"]
    for own, tokens in ([], spare(temporary) / "tokens"), (["--cache-dir", "mine"], temporary.parent / "mine"):
        output = temporary.parent / f"m{len(own)}"
        done = embedx_run(temporary, *small, output, *own, HOME=missing)
        assert done.stdout.startswith(f"{output}\t16 words, loss ")
        assert done.stderr.startswith(f"{missing / '.cache' / 'embedx'}: cannot be written (")
        assert len(list(tokens.glob("*/tokens.bin"))) == 1
    assert "compiling" not in done.stderr  # the second time
    assert not missing.exists()


@posix
def test_a_user_without_a_home_at_all(temporary):
    done = embedx_run(temporary, "cache", "list", program=("-c", NO_USER))
    assert "takes its place" in done.stderr
    done = embedx_run(temporary, "train", "--help", program=("-c", NO_USER))
    assert "CORPORA" in done.stdout
    find = "import os; os.path.expanduser = str; from embedx.text.recipes import find_recipe; print(find_recipe('none'))"
    assert embedx_run(temporary, program=("-c", find)).stdout == "None\n"


def open_to_all(folder, other):
    folder.mkdir()
    folder.chmod(0o777)


def readable(folder, other):
    folder.mkdir(mode=0o755)


def a_link(folder, other):
    folder.symlink_to(other)


def a_file(folder, other):
    folder.write_text("")


@posix
@pytest.mark.parametrize("prepare", [open_to_all, readable, a_link, a_file])
def test_a_folder_that_others_may_have_made_is_not_used(temporary, tmp_path, prepare):
    other = tmp_path / "other"
    other.mkdir(mode=0o700)
    prepare(spare(temporary), other)
    (line,) = embedx_run(temporary, "cache", "list", HOME=temporary.parent / "missing").stderr.splitlines()
    assert f"{temporary / 'embedx-'}" in line
    assert f"{spare(temporary)} takes" not in line
    assert list(other.iterdir()) == []
    assert list(temporary.iterdir()) == [spare(temporary)]  # the one that was used is gone with the run


@posix
def test_a_folder_that_others_could_exchange_is_not_used(temporary):
    temporary.chmod(0o777)
    assert f"{spare(temporary)} takes" not in embedx_run(temporary, "cache", "list", HOME=temporary.parent / "missing").stderr
    temporary.chmod(0o1777)
    assert f"{spare(temporary)} takes" in embedx_run(temporary, "cache", "list", HOME=temporary.parent / "missing").stderr

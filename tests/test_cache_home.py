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
from numba import types

from embedx.kernels import adjusted
from embedx.kernels.compiled import KERNEL_FOLDER
from embedx.runtime import cache_home
from embedx.runtime.cache_home import kept_in
from embedx.text import cache
from embedx.text.encode import encode_sources
from embedx.text.recipes import find_recipe
from embedx.text.settings import TextSettings
from embedx.text.sources import find_sources
from tests.support.commands import words_of
from tests.support.notes import Notes

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
    for function in (cache_home.usable, cache_home.absolute, cache_home.spare_folder):
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
    configured = temporary.parent / value
    monkeypatch.setenv(variable, str(configured))
    assert kept_in("tokens") == kept_in("tokens") == (spare(temporary) / "tokens",)
    assert caplog.messages == [
        f"{configured / below / 'tokens'}: cannot be written ({why}); {spare(temporary)} takes its"
        " place; EMBEDX_CACHE_DIR names another folder"
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
    completed = subprocess.run(
        command, cwd=temporary.parent, env=environment, capture_output=True, text=True, check=False
    )
    assert completed.returncode == 0, completed.stderr
    return completed


def test_training_works_without_a_folder_for_kernels(temporary):
    (temporary.parent / "kernels").write_text("")
    code = "from embedx.kernels.compiled import KERNEL_FOLDER; print(KERNEL_FOLDER)"
    completed = run(temporary, "-c", code, EMBEDX_CACHE_DIR=temporary.parent)
    (line,) = completed.stderr.splitlines()
    assert line.startswith(str(temporary.parent / "kernels"))
    assert completed.stdout.strip() == str(spare(temporary) / "kernels" / Path(KERNEL_FOLDER).name)


def test_training_works_without_a_home_folder(temporary):
    """In plain Python, so that nothing is compiled for this test."""
    (temporary.parent / "corpus.txt").write_text("a b c d\n" * 10)
    small = words_of("-m embedx train corpus.txt --dim 4 --epochs 1 --sample 0 --output model")
    completed = run(temporary, *small, HOME=temporary.parent / "missing", NUMBA_DISABLE_JIT=1)
    assert "model\t4 words, loss " in completed.stdout
    assert completed.stderr.startswith(
        f"{temporary.parent / 'missing' / '.cache' / 'embedx' / 'kernels'}"
    )
    assert len(list((spare(temporary) / "tokens").glob("*/tokens.bin"))) == 1
    assert not (temporary.parent / "missing").exists()


def test_a_user_without_a_home_gets_a_private_temporary_folder(temporary, monkeypatch, caplog):
    monkeypatch.setattr(os.path, "expanduser", str)
    monkeypatch.chdir("/proc/self")
    assert kept_in("tokens") == (spare(temporary) / "tokens",)
    assert "~/.cache/embedx/tokens: cannot be written" in caplog.text
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


# ---- the folder of kernels is code


@pytest.fixture
def umask():
    """Any other user may write to what is made meanwhile."""
    before = os.umask(0)
    yield
    os.umask(before)


@pytest.mark.usefixtures("umask")
def test_cache_folders_are_private_with_any_umask(temporary, monkeypatch):
    chosen = temporary.parent / "chosen"
    monkeypatch.setenv("EMBEDX_CACHE_DIR", str(chosen))
    (folder,) = kept_in("kernels/1", is_code=True)
    for path in (folder, folder.parent, chosen):
        assert stat.S_IMODE(path.stat().st_mode) == 0o700


def writable_itself(chosen):
    (chosen / "kernels").mkdir(parents=True)
    (chosen / "kernels").chmod(0o777)
    return chosen / "kernels"


def in_a_folder_of_all(chosen):
    chosen.mkdir()
    chosen.chmod(0o777)
    (chosen / "kernels").mkdir(mode=0o700)
    return chosen


def of_a_group(chosen):
    (chosen / "kernels").mkdir(parents=True)
    (chosen / "kernels").chmod(0o770)
    os.chown(chosen / "kernels", -1, 12345)
    return chosen / "kernels"


def of_another_user(chosen):
    (chosen / "kernels").mkdir(parents=True)
    os.chown(chosen / "kernels", 12345, -1)
    return chosen / "kernels"


def behind_a_link_of_all(chosen):
    away = in_a_folder_of_all(chosen.with_name("away"))
    chosen.symlink_to(away)
    return away


@pytest.mark.skipif(os.name == "posix" and os.geteuid() != 0, reason="only root gives folders away")
@pytest.mark.parametrize(
    "prepare",
    [writable_itself, in_a_folder_of_all, of_a_group, of_another_user, behind_a_link_of_all],
)
def test_kernels_are_not_read_where_others_could_have_put_them(
    temporary, monkeypatch, caplog, prepare
):
    chosen = temporary.parent / "chosen"
    monkeypatch.setenv("EMBEDX_CACHE_DIR", str(chosen))
    culprit = prepare(chosen)
    assert kept_in("kernels", is_code=True) == (spare(temporary) / "kernels",)
    (message,) = caplog.messages
    assert message.startswith(f"{chosen / 'kernels'}: is not used, because ")
    assert f"make {culprit} yours alone" in message
    assert kept_in("tokens") == (chosen / "tokens",)  # which are no code


def test_a_sticky_folder_above_is_good_enough(temporary, monkeypatch):
    temporary.chmod(0o1777)
    monkeypatch.setenv("EMBEDX_CACHE_DIR", str(temporary / "chosen"))
    assert kept_in("kernels", is_code=True) == (temporary / "chosen" / "kernels",)


def test_the_group_of_the_user_alone_may_write(temporary, monkeypatch):
    import grp
    import pwd

    folder = temporary.parent / "chosen" / "kernels"
    folder.mkdir(parents=True)
    folder.chmod(0o775)
    user = pwd.getpwuid(os.geteuid()).pw_name
    members = []
    group = grp.struct_group((user, "x", folder.stat().st_gid, members))
    monkeypatch.setattr(grp, "getgrgid", lambda number: group)
    assert cache_home.writable_by_others(folder) is None
    members.append("somebody")
    assert cache_home.writable_by_others(folder) == folder


# ---- a cache that can only be read


@pytest.fixture
def read_only(temporary, monkeypatch):
    """A cache folder on a file system that is mounted read-only, as an image's is."""
    chosen = temporary.parent / "image"
    monkeypatch.setenv("EMBEDX_CACHE_DIR", str(chosen))
    (chosen / "tokens").mkdir(parents=True)
    original = tempfile.TemporaryFile

    def refuse_within(dir, **options):
        if Path(dir).is_relative_to(chosen):
            raise OSError(30, "Read-only file system")
        return original(dir=dir, **options)

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse_within)
    return chosen


def test_a_cache_that_can_only_be_read_is_read(read_only, temporary, caplog):
    assert kept_in("tokens") == (spare(temporary) / "tokens", read_only / "tokens")
    assert caplog.messages == []


def test_encoded_text_is_read_from_it_and_new_text_written_elsewhere(
    read_only, temporary, monkeypatch, write
):
    monkeypatch.setattr(cache, "default_folders", lambda: kept_in("tokens"))
    old = find_sources([write("a b c", "old.txt")])
    new = find_sources([write("d e f", "new.txt")])
    with encode_sources(old, TextSettings(), cache_dir=None) as corpus:
        corpus.folder.rename(read_only / "tokens" / corpus.key)
    for sources, folder in ((old, read_only), (new, spare(temporary))):
        with encode_sources(sources, TextSettings()) as corpus:
            assert corpus.folder == folder / "tokens" / corpus.key

    progress = Notes()
    assert cache.clear_caches(progress=progress) > 0
    (note,) = progress.notes
    assert note.startswith(f"{read_only / 'tokens'}: ")
    assert note.endswith(": 1")
    assert len(cache.list_caches()) == 1


def test_kernels_are_read_from_all_folders_and_written_to_the_first(temporary, monkeypatch):
    def double(x):
        return x + x

    image = str(temporary / "image")
    user_folder = str(temporary / "own")
    monkeypatch.setattr(adjusted, "KERNEL_FOLDERS", (image,))
    compiled = adjusted.kernel(double)
    assert compiled(2.0) == 4.0
    kept = sorted(Path(image).rglob("*"))
    monkeypatch.setattr(adjusted, "KERNEL_FOLDERS", (user_folder, image))
    again = adjusted.kernel(double)
    assert again(2.0) == 4.0
    assert list(again.stats.cache_hits.values()) == [1]
    assert not Path(user_folder).exists()
    assert again(2) == 4  # a form that is not there
    assert list(Path(user_folder).rglob("*.nbi"))
    assert sorted(Path(image).rglob("*")) == kept


def test_kernels_of_another_cpu_do_not_count_as_cached(temporary, monkeypatch):
    def double(x):
        return x + x

    monkeypatch.setattr(adjusted, "KERNEL_FOLDERS", (str(temporary),))
    adjusted.kernel(double)(2.0)
    again = adjusted.kernel(double)
    assert adjusted.is_cached(again, (types.float64,))
    codegen = type(again.targetctx.codegen())
    monkeypatch.setattr(codegen, "magic_tuple", lambda self: ("triple", "another", "features"))
    assert not adjusted.is_cached(again, (types.float64,))


# ---- names of folders


def test_a_relative_cache_folder_is_resolved_at_its_first_use(temporary, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EMBEDX_CACHE_DIR", "mine")
    first = kept_in("tokens")
    monkeypatch.chdir(temporary)
    assert kept_in("tokens") == first == (tmp_path / "mine" / "tokens",)


def test_a_leading_tilde_is_the_home(temporary, monkeypatch, tmp_path):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("EMBEDX_CACHE_DIR", "~/mine")
    assert kept_in("tokens") == (tmp_path / "home" / "mine" / "tokens",)
    assert not (tmp_path / "~").exists()

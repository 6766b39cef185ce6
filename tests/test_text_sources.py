"""What the user may name, and what it becomes."""

import os
import subprocess
import sys

import pytest

from embedx.errors import EmbedxError
from embedx.text.sources import recipe_defaults, resolve


@pytest.fixture
def here(tmp_path, monkeypatch):
    """A working directory with a few files in it."""
    for name in ("b.txt", "a.txt", "sub/c.txt.gz", "sub/.hidden/d.txt", ".e.txt"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def names(*corpora):
    return [source.name for source in resolve(corpora)]


def test_files_keep_their_order_and_are_read_once(here):
    assert names("b.txt", "a.txt", "./b.txt", str(here / "a.txt")) == ["b.txt", "a.txt"]


def test_directories_are_read_with_their_subdirectories_but_no_hidden_files(here):
    assert names(".") == ["./a.txt", "./b.txt", "./sub/c.txt.gz"]


def test_a_directory_with_a_broken_link_is_an_error_and_pipes_in_it_are_left_out(here):
    os.mkfifo("sub/pipe")
    assert names("sub") == ["sub/c.txt.gz"]
    os.symlink("nowhere", "sub/link")
    with pytest.raises(EmbedxError, match=r"sub/link: cannot be opened \(No such file or directory\); repair or remove it"):
        names("sub")


def test_globs_are_sorted_and_may_be_recursive(here):
    assert names("*.txt") == ["a.txt", "b.txt"]
    assert names("**/*.gz") == ["sub/c.txt.gz"]


def test_a_file_may_have_a_name_that_looks_like_a_glob(here):
    (here / "c[1].txt").write_text("text")
    assert names("c[1].txt") == ["c[1].txt"]


@pytest.mark.parametrize(
    ("corpora", "message"),
    [
        ([], "no corpus: name a file, a directory, a URL, a recipe, or - for standard input"),
        (
            ["none.txt"],
            r"none\.txt: no such file or directory, and no recipe of that name; `embedx corpus list` shows the recipes",
        ),
        (["@list"], r"@list: no such file or directory, and no recipe of that name; write \$\(cat list\)"),
        (["*.xyz"], r"\*\.xyz: no file matches"),
        (["empty"], "empty: a directory without files"),
        (["a" * 300], "aaa: no such file or directory, and no recipe of that name"),
        (["a/" * 3000], "a/a: no such file or directory|a/: no such file or directory"),
    ],
)
def test_what_is_not_there_is_an_error(here, corpora, message):
    with pytest.raises(EmbedxError, match=message):
        resolve(corpora)


def test_fingerprint_changes_with_the_file(here):
    (before,) = resolve(["a.txt"])
    os.utime("a.txt", ns=(1, 1))
    (after,) = resolve(["a.txt"])
    assert before.fingerprint != after.fingerprint
    assert before.size == 4


def test_what_can_be_read_only_once_has_no_fingerprint(here):
    os.mkfifo("pipe")
    assert [source.fingerprint for source in resolve(["-", "pipe"])] == [None, None]


def test_wikipedia_dumps_are_known_by_the_names_wikimedia_gives_them(here):
    dump = "enwiki-20240301-pages-articles1.xml-p1p41242.bz2"
    (here / dump).write_text("text")
    assert resolve([dump])[0].reader == "wikipedia"
    assert recipe_defaults([dump]) == {"tokenizer": "words", "lowercase": True}
    assert recipe_defaults([dump, "a.txt"]) == {}
    assert recipe_defaults(["a.txt"]) == recipe_defaults(["-"]) == recipe_defaults([]) == {}


def test_naming_sources_imports_neither_numba_nor_gensim():
    code = (
        "import sys; from embedx.text.sources import resolve; resolve(['wikipedia-sample', 'http://x/y']);"
        "print(sorted({'numba', 'gensim', 'smart_open', 'numpy'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

"""Recipes: corpora known by name."""

import fnmatch
import os
import re
from pathlib import Path

import pytest
from needs import needs_gensim

from embedx.errors import EmbedxError
from embedx.text.recipes import MAX_BYTES, Recipe, data_folder, find_recipe, listed, recipe_names
from embedx.text.sources import described, recipe_defaults, resolve

OURS = Path(__file__).parents[1] / "corpora"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory, configuration folder and data folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    return tmp_path


def test_our_recipes_are_found_and_complete():
    assert set(recipe_names()) == {file.stem for file in OURS.glob("*.toml")} >= {"wikipedia-sample", "text8"}
    for name in recipe_names():
        recipe = find_recipe(name)
        assert recipe.about, name
        assert recipe.licence, name
        assert recipe.citation, name
        assert recipe.urls or recipe.package or recipe.obtain, name
        if recipe.urls and recipe.kind == "text":
            assert recipe.sha256 or recipe.fetched_size or recipe.checksums, name
            assert any(fnmatch.fnmatch(recipe.download, pattern) for pattern in recipe.files), name


@needs_gensim
def test_wikipedia_sample_comes_with_gensim():
    (source,) = resolve(["wikipedia-sample"])
    assert (source.name, source.reader) == ("wikipedia-sample", "wikipedia")
    assert source.size == 1_695_871
    assert recipe_defaults(["wikipedia-sample"]) == {"tokenizer": "words", "lowercase": True}


def test_a_package_that_is_not_installed_is_named(here):
    recipe = Recipe("some", here, package="no_such_package", files=["x"])
    with pytest.raises(
        EmbedxError, match=r"some: comes with the Python package no_such_package, .* pip install no_such_package"
    ):
        recipe.find_files()


def test_a_recipe_whose_files_are_not_here_says_where_to_fetch_them():
    message = (
        "text8: not on this machine; embedx corpus fetch text8 gets it, or put text8.zip of "
        f"http://mattmahoney.net/dc/text8.zip into the working directory or {data_folder()}"
    )
    with pytest.raises(EmbedxError, match=re.escape(message)):
        resolve(["text8"])


def test_the_file_of_a_recipe_in_the_working_directory_is_read_as_the_recipe_says(here):
    (here / "enwik9").write_text("<mediawiki>")
    (source,) = resolve(["enwik9"])
    assert (source.reader, source.cut_off) == ("wikipedia", True)
    assert recipe_defaults(["enwik9"])["tokenizer"] == "words"


def test_another_file_of_that_name_goes_before_the_recipe(here):
    (here / "wikipedia-sample").write_text("my own")
    (source,) = resolve(["wikipedia-sample"])
    assert source.address == "wikipedia-sample"
    assert recipe_defaults(["wikipedia-sample"]) == {}


@pytest.mark.parametrize("folder", [".", "config/embedx"])
def test_users_add_their_own(here, folder):
    place = here / folder
    (place / "texts").mkdir(parents=True)
    (place / "texts" / "1.txt").write_text("one")
    (place / "texts" / "2.txt").write_text("two")
    (place / "mine.toml").write_text('kind = "text"\nreader = "text"\nfiles = ["texts/*.txt"]\n[settings]\nlowercase = true\n')
    assert "mine" in recipe_names()
    assert [Path(source.name).name for source in resolve(["mine"])] == ["1.txt", "2.txt"]
    assert recipe_defaults(["mine"]) == {"lowercase": True}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("kind = ", r"mine\.toml: not a readable recipe \(.*\); compare it with corpora/README\.md"),
        ('kind = "text"\nreader = "text"\nfile = ["x"]', r"mine\.toml: unknown field file; a recipe has .*files"),
        ('kind = "text"\nreader = "text"', r'mine\.toml: no files; add files = \["PATH"\]'),
        ('kind = "text"\nreader = "pdf"\nfiles = ["x"]', r"mine\.toml: reader = 'pdf'; choose \"text\" or \"wikipedia\""),
    ],
)
def test_mistakes_in_a_recipe_are_told(here, content, message):
    (here / "mine.toml").write_text(content)
    with pytest.raises(EmbedxError, match=message):
        resolve(["mine"])


def test_other_toml_files_in_the_working_directory_are_no_recipes(here):
    (here / "pyproject.toml").write_text("[project]\n")
    assert "pyproject" not in recipe_names()
    assert find_recipe("pyproject-x") is None


@pytest.mark.parametrize(
    ("line", "complaint"),
    [
        ("files = 3", "files = 3 is no list of strings"),
        ("files = [1]", r"files = \[1\] is no list of strings"),
        ("files = ['x']\nsize = 'large'", "size = 'large' is no int"),
        ("files = ['x']\nsettings = []", r"settings = \[\] is no dict"),
        ("files = ['x']\npackage = 1", "package = 1 is no str"),
        ("files = ['x']\npackage = '..'", r"comes with the Python package \.\., which is not installed or lacks it"),
        ("files = ['x']\npackage = 'no.such.package'", r"comes with the Python package no\.such\.package, which is not"),
        (r'files = ["a\u0000b/*"]', "not on this machine"),
        ("files = " + "[" * 5000, "not a readable recipe"),
        ("files = ['x']\nsha256 = 'abc'", "sha256 = 'abc' is none; it has 64 digits"),
        ("files = ['x']\n[values]\ndate = 3", "values: date = 3 is no string of letters"),
        ("files = ['x']\n[values]\ndate = '../x'", "values: date = '../x' is no string of letters"),
        ("files = ['x']\n[parts]\nrest = 3", "parts: rest is no table of files"),
        ("files = ['x']\n[parts.rest]\nfiles = 'x'", "parts: rest is no table of files"),
        ("files = ['x']\n[parts.rest]\nfiles = ['x']\nreader = 'text'", "parts: rest is no table of files"),
        ("files = ['x']\n" + "#" * MAX_BYTES, r"not a readable recipe \(more than 65,536 bytes\)"),
    ],
)
def test_recipes_with_wrong_values_say_so(here, line, complaint):
    (here / "own.toml").write_text(f'kind = "text"\nreader = "text"\n{line}\n')
    with pytest.raises(EmbedxError, match=f"own.*: {complaint}"):
        resolve(["own"])
    recipe_names()


def test_a_pipe_is_no_recipe(here):
    os.mkfifo(here / "own.toml")
    assert "own" not in recipe_names()
    assert find_recipe("own") is None


def test_a_recipe_of_another_kind_says_so(here):
    (here / "own.toml").write_text('kind = "music"\nreader = "text"\nfiles = ["x"]\n')
    with pytest.raises(EmbedxError, match=r"own\.toml: kind = 'music'; choose \"text\" or \"classes\""):
        resolve(["own"])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("wikipedia", "enwiki/latest/enwiki-latest-pages"),
        ("wikipedia-de", "dewiki/latest/dewiki-latest-pages"),
        ("wikipedia-zh_min_nan-20240101", "zh_min_nanwiki/20240101/zh_min_nanwiki-20240101-pages"),
    ],
)
def test_a_name_may_have_values_for_placeholders(here, name, file):
    recipe = find_recipe(name)
    assert recipe.name == name
    assert recipe.urls[0].startswith(f"https://dumps.wikimedia.org/{file}-articles")
    assert "{" not in repr(recipe.files + recipe.urls) + recipe.checksums + recipe.checksum_of
    (here / recipe.download).write_text("<mediawiki>")
    assert os.path.basename(resolve([name])[0].address) == recipe.download


@pytest.mark.parametrize("name", ["wikipedia-de-20240101-x", "wikipedia-", "wikipedia-a.b", "text8-de", "wikipedia-../x"])
def test_a_name_with_other_values_is_none(name):
    assert find_recipe(name) is None
    with pytest.raises(EmbedxError, match="no such file or directory, and no recipe of that name"):
        resolve([name])


def test_labelled_data_is_no_text():
    with pytest.raises(
        EmbedxError, match="bibtex: labelled data, no text; train a classifier on it with `embedx classify bibtex`"
    ):
        resolve(["bibtex"])


def test_what_is_known_by_name_is_listed_with_where_it_is(here):
    (here / "text8.zip").write_bytes(b"")
    (here / "own.toml").write_text('kind = "text"\nreader = "pdf"\n')
    found = {row["name"]: row["state"] for row in listed()}
    assert found["text8"] == "here"
    assert found["one-billion-word"] == found["one-billion-word:heldout"] == "fetch"
    assert (found["eurlex-4k"], found["own"]) == ("by hand", "damaged")


def test_what_is_known_of_a_corpus_is_told_without_reading_it(here):
    found = described("text8")
    assert (found["fetched_size"], found["words"], found["here"]) == (31_344_016, 17_005_207, [])
    (here / "a.txt").write_text("text")
    assert described("a.txt") == {"name": "a.txt", "sources": [{"name": "a.txt", "reader": "text", "bytes": 4}], "settings": {}}
    with pytest.raises(EmbedxError, match="nothing: no such file"):
        described("nothing")

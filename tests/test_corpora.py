"""Recipes: corpora known by name."""

import os
import re
from pathlib import Path

import pytest
from needs import needs_gensim

from embedx.errors import EmbedxError
from embedx.text.recipes import MOST_BYTES, Recipe, find_recipe, recipe_names
from embedx.text.sources import recipe_defaults, resolve

OURS = Path(__file__).parents[1] / "corpora"


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    """An empty working directory and configuration folder."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return tmp_path


def test_our_recipes_are_found_and_complete():
    assert set(recipe_names()) == {file.stem for file in OURS.glob("*.toml")} >= {"wikipedia-sample", "text8"}
    for name in recipe_names():
        recipe = find_recipe(name)
        assert recipe.about, name
        assert recipe.licence, name
        assert recipe.citation, name
        assert recipe.urls or recipe.package, name


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
        "text8: not on this machine; fetch http://mattmahoney.net/dc/text8.zip, unpack it (unzip text8.zip), then put text8"
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
        ("files = ['x']\n" + "#" * MOST_BYTES, r"not a readable recipe \(more than 65,536 bytes\)"),
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

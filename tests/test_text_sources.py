"""What the user may name as a corpus, and what it becomes: recipes, files, folders, globs, URLs."""

import fnmatch
import os
from pathlib import Path

import numpy as np
import pytest

from embedx.errors import DataError, near_file
from embedx.text.recipes import MAX_BYTES, data_folder, find_recipe, recipe_names, recipe_states
from embedx.text.sources import described, find_sources, recipe_defaults
from embedx.vectors import model
from tests.support.needs import needs_gensim
from tests.support.refusals import refused, refused_data

pytestmark = pytest.mark.usefixtures("workdir")
OURS = Path(__file__).parents[1] / "corpora"


def test_our_recipes_are_found_and_complete():
    assert (
        set(recipe_names())
        == {file.stem for file in OURS.glob("*.toml")}
        >= {"wikipedia-sample", "text8"}
    )
    for name in recipe_names():
        recipe = find_recipe(name)
        assert recipe.about, name
        assert recipe.licence, name
        assert recipe.citation, name
        assert recipe.to_fetch or recipe.package or recipe.obtain or recipe.build, name
        for download in recipe.to_fetch:
            is_unpacked = recipe.kind == "classes" and download.file.endswith(".tar.gz")
            patterns = recipe.patterns()
            is_named = any(fnmatch.fnmatch(download.file, pattern) for pattern in patterns)
            assert is_unpacked or is_named, name
            assert download.sha256 or recipe.unverified or recipe.values, name


@needs_gensim
def test_wikipedia_sample_comes_with_gensim():
    (source,) = find_sources(["wikipedia-sample"])
    assert (source.name, source.reader, source.size) == ("wikipedia-sample", "wikipedia", 1_695_871)
    assert recipe_defaults(["wikipedia-sample"]) == {"tokenizer": "words", "lowercase": True}


def test_a_recipe_whose_files_are_not_here_says_where_to_fetch_them():
    remedies = ("`embedx corpus fetch text8`", "http://mattmahoney.net/dc/text8.zip")
    with refused_data("text8", quoting=(*remedies, str(data_folder()))):
        find_sources(["text8"])


def test_the_file_of_a_recipe_in_the_working_directory_is_read_as_the_recipe_says(workdir):
    (workdir / "enwik9").write_text("<mediawiki>")
    (source,) = find_sources(["enwik9"])
    assert (source.reader, source.cut_off) == ("wikipedia", True)
    assert recipe_defaults(["enwik9"])["tokenizer"] == "words"


def test_another_file_of_that_name_goes_before_the_recipe(workdir):
    (workdir / "wikipedia-sample").write_text("my own")
    (source,) = find_sources(["wikipedia-sample"])
    assert source.address == "wikipedia-sample"
    assert recipe_defaults(["wikipedia-sample"]) == {}


@pytest.mark.parametrize("folder", [".", "config/embedx"])
def test_users_can_add_recipes(workdir, folder):
    place = workdir / folder
    (place / "texts").mkdir(parents=True)
    (place / "texts" / "1.txt").write_text("one")
    (place / "texts" / "2.txt").write_text("two")
    (place / "mine.toml").write_text(
        'kind = "text"\nreader = "text"\nfiles = ["texts/*.txt"]\n[settings]\nlowercase = true\n'
    )
    assert "mine" in recipe_names()
    assert [Path(source.name).name for source in find_sources(["mine"])] == ["1.txt", "2.txt"]
    assert recipe_defaults(["mine"]) == {"lowercase": True}


def test_other_toml_files_and_pipes_are_no_recipes(workdir):
    (workdir / "pyproject.toml").write_text("[project]\n")
    os.mkfifo(workdir / "own.toml")
    assert not {"pyproject", "own"} & set(recipe_names())
    assert find_recipe("pyproject-x") is find_recipe("own") is None


TEXT_RECIPE = 'kind = "text"\nreader = "text"\n'


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ("kind = ", "Invalid value"),
        (TEXT_RECIPE + 'file = ["x"]', (" file;", "files")),
        (TEXT_RECIPE, 'files = ["PATH"]'),
        (
            'kind = "text"\nreader = "pdf"\nfiles = ["x"]',
            ("'text'", "'pdf'", "('text', 'wikipedia')"),
        ),
        ('kind = "music"\nreader = "text"\nfiles = ["x"]', ("kind = 'music'", "'text'")),
        (TEXT_RECIPE + "files = [1]", "files = [1]"),
        (TEXT_RECIPE + "files = ['x']\nabout = 7", "about = 7 "),
        (TEXT_RECIPE + "files = ['x']\nsettings = []", "settings = [] "),
        (TEXT_RECIPE + "files = " + "[" * 60_000, "maximum recursion depth"),
        (
            TEXT_RECIPE + "files = ['x']\n[values]\ndate = 3",
            "values: date = 3 ",
        ),
        (TEXT_RECIPE + "files = ['x']\n[parts]\nrest = 3", "parts: rest: "),
        (
            TEXT_RECIPE + "files = ['x']\n[parts.rest]\nfiles = 'x'",
            "parts: rest: files = 'x' ",
        ),
        (
            TEXT_RECIPE + "files = ['x']\n[parts.rest]\nfiles = ['x']\nreader = 'text'",
            ("parts: rest: ", " reader;"),
        ),
        (TEXT_RECIPE + "files = ['x']\n" + "#" * MAX_BYTES, "65,536 bytes"),
    ],
)
def test_mistakes_in_a_recipe_are_errors(workdir, content, quoted):
    (workdir / "own.toml").write_text(content)
    with refused_data("own.toml", quoting=quoted):
        find_sources(["own"])
    recipe_names()


@pytest.mark.parametrize("package", ["..", "no.such.package", "no_such_package"])
def test_a_package_that_is_not_installed_is_named(workdir, package):
    (workdir / "own.toml").write_text(f"{TEXT_RECIPE}files = ['x']\npackage = '{package}'")
    with refused_data("own", quoting=f"pip install {package}"):
        find_sources(["own"])


@pytest.mark.parametrize(
    ("name", "file"),
    [
        ("wikipedia", "enwiki/latest/enwiki-latest-pages"),
        ("wikipedia-de", "dewiki/latest/dewiki-latest-pages"),
        ("wikipedia-zh_min_nan-20240101", "zh_min_nanwiki/20240101/zh_min_nanwiki-20240101-pages"),
    ],
)
def test_a_name_may_have_values_for_placeholders(workdir, name, file):
    recipe = find_recipe(name)
    assert recipe.name == name
    assert recipe.urls[0].startswith(f"https://dumps.wikimedia.org/{file}-articles")
    assert "{" not in repr(recipe.files + recipe.urls)
    (download,) = recipe.to_fetch
    (workdir / download.file).write_text("<mediawiki>")
    assert os.path.basename(find_sources([name])[0].address) == download.file


@pytest.mark.parametrize(
    "name", ["wikipedia-de-20240101-x", "wikipedia-", "wikipedia-a.b", "text8-de", "wikipedia-../x"]
)
def test_a_name_with_other_values_is_none(name):
    assert find_recipe(name) is None
    with refused(kind=DataError, file=name, line=None):
        find_sources([name])


def test_known_corpora_are_listed_with_their_location(workdir):
    (workdir / "text8.zip").write_bytes(b"")
    states = {row["name"]: row["state"] for row in recipe_states()}
    assert states["text8"] == "here"
    assert states["one-billion-word"] == states["one-billion-word:heldout"] == "fetch"
    assert states["eurlex-4k"] == states["eurlex-4k:test"] == "fetch"
    assert states["bibtex"] == states["eurlex-4k:bow"] == "by hand"
    assert states["eurlex-4.3k"] == "build"
    (workdir / "own.toml").write_text('kind = "text"\nreader = "pdf"\n')
    with refused_data("own.toml"):
        recipe_states()


def test_facts_of_a_corpus_are_given_without_reading_it(workdir):
    facts = described("text8")
    assert (facts["reader"], facts["urls"], facts["here"]) == (
        "text",
        ["http://mattmahoney.net/dc/text8.zip"],
        [],
    )
    (workdir / "a.txt").write_text("text")
    assert described("a.txt") == {
        "name": "a.txt",
        "sources": [{"name": "a.txt", "reader": "text", "bytes": 4}],
        "settings": {},
    }
    with refused(kind=DataError, file="nothing", line=None):
        described("nothing")


@pytest.mark.parametrize(
    ("missing", "remedy"),
    [
        ("revews.txt", "did you mean reviews.txt? check the name"),
        ("Reviews", "did you mean reviews.txt? check the name"),
        ("reviews.txt.gz", "did you mean reviews.txt? check the name"),
        ("de.txt", "check the name"),
        ("novels.txt", "check the name"),
    ],
)
def test_a_file_is_suggested_for_one_whose_name_is_similar_without_its_suffix(
    workdir, missing, remedy
):
    for name in ("reviews.txt", "en.txt"):
        (workdir / name).write_text("text")
    assert near_file(missing, "check the name") == remedy


# ---- other names of a corpus


@pytest.fixture
def texts(workdir):
    """A working directory with a few files in it."""
    for name in ("b.txt", "a.txt", "sub/c.txt.gz", "sub/.hidden/d.txt", ".e.txt"):
        (workdir / name).parent.mkdir(parents=True, exist_ok=True)
        (workdir / name).write_text("text")
    (workdir / "empty").mkdir()
    return workdir


def names(*corpora):
    return [source.name for source in find_sources(corpora)]


def test_files_keep_their_order_and_are_read_once(texts):
    assert names("b.txt", "a.txt", "./b.txt", str(texts / "a.txt")) == ["b.txt", "a.txt"]


def test_directories_are_read_with_their_subdirectories_but_no_hidden_files(texts):
    assert names(".") == ["./a.txt", "./b.txt", "./sub/c.txt.gz"]


def test_a_directory_with_a_broken_link_is_an_error_and_pipes_in_it_are_left_out(texts):
    os.mkfifo("sub/pipe")
    assert names("sub") == ["sub/c.txt.gz"]
    os.symlink("nowhere", "sub/link")
    with refused(kind=DataError, file="sub/link", line=None) as raised:
        names("sub")
    assert "No such file or directory" in raised.value.problem


def test_globs_are_sorted_and_may_be_recursive(texts):
    assert names("*.txt") == ["a.txt", "b.txt"]
    assert names("**/*.gz") == ["sub/c.txt.gz"]
    (texts / "c[1].txt").write_text("text")
    assert names("c[1].txt") == ["c[1].txt"]  # a name that looks like a pattern


@pytest.mark.parametrize(
    ("corpora", "place", "remedy"),
    [
        ([], "corpora", ""),
        (["none.txt"], "none.txt", "`embedx corpus list`"),
        (["@list"], "@list", "$(cat list)"),
        (["*.xyz"], "*.xyz", ""),
        (["empty"], "empty", ""),
        (["a" * 300], "a" * 300, ""),
        (["a/" * 3000], "a/" * 3000, ""),
    ],
)
def test_missing_files_are_an_error(texts, corpora, place, remedy):
    with refused_data(place, quoting=remedy):
        find_sources(corpora)


def test_fingerprint_changes_with_the_file(texts):
    (before,) = find_sources(["a.txt"])
    os.utime("a.txt", ns=(1, 1))
    (after,) = find_sources(["a.txt"])
    assert before.fingerprint != after.fingerprint
    assert before.size == 4


def test_streams_have_no_fingerprint(texts):
    os.mkfifo("pipe")
    assert [source.fingerprint for source in find_sources(["-", "pipe"])] == [None, None]


def test_wikipedia_dumps_are_known_by_the_names_wikimedia_gives_them(texts):
    dump = "enwiki-20240301-pages-articles1.xml-p1p41242.bz2"
    (texts / dump).write_text("text")
    assert find_sources([dump])[0].reader == "wikipedia"
    assert recipe_defaults([dump]) == {"tokenizer": "words", "lowercase": True}
    assert recipe_defaults([dump, "a.txt"]) == {}
    assert recipe_defaults(["a.txt"]) == recipe_defaults(["-"]) == recipe_defaults([]) == {}


@pytest.fixture
def folder_with_our_own(workdir):
    """A folder of one text, a model, a checkpoint, a token cache and compiled kernels."""
    files = {
        "news/a.txt": "a text\n",
        "news/m.checkpoint/run.json": "{}",
        "news/m.checkpoint/state-00000001.npz": "",
        "news/tokens/0123456789abcdef01234567/about.json": "{}",
        "news/tokens/0123456789abcdef01234567/tokens.bin": "",
        "news/kernels/text_1/tokenizer.count-12.py311.nbi": "",
    }
    for name, content in files.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(content)
    vectors = {"input": np.eye(2, dtype=np.float32)}
    model.WordVectors(["b", "a"], vectors, counts=np.array([2, 1])).save(Path("news/m"))


@pytest.mark.usefixtures("folder_with_our_own")
def test_models_checkpoints_and_caches_in_a_folder_are_no_text():
    (source,) = find_sources(["news"])
    assert source.name == "news/a.txt"
    for kind in ("model", "checkpoint", "token cache", "kernel cache"):
        assert f"1 {kind} (first: news/" in source.left_out


@pytest.mark.usefixtures("folder_with_our_own")
@pytest.mark.parametrize("folder", ["news/m", "news/m.checkpoint", "news/tokens", "news/kernels"])
def test_a_folder_with_only_files_of_embedx_is_refused(folder):
    with pytest.raises(DataError) as error:
        find_sources([folder])
    assert error.value.file == folder


@pytest.mark.usefixtures("workdir")
def test_a_folder_that_resembles_a_model_folder_is_read():
    for name in ("t/model.json", "t/a.checkpoint/notes.txt", "t/x/about.json"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("{}")
    sources = find_sources(["t"])
    assert {source.name for source in sources} == {
        "t/model.json",
        "t/a.checkpoint/notes.txt",
        "t/x/about.json",
    }
    assert not sources[0].left_out


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="only Linux has it")
def test_files_generated_by_the_kernel_are_not_cached():
    (source,) = find_sources(["/proc/self/status"])
    assert source.fingerprint is None


def test_wildcards_do_not_lead_into_models(workdir):
    (workdir / "a").mkdir()
    (workdir / "a" / "text.txt").write_text("some words")
    vectors = model.WordVectors(["word"], {"input": np.ones((1, 2), np.float32)})
    vectors.save(workdir / "a" / "vectors")
    (workdir / "a" / "vectors" / "notes").mkdir()
    (workdir / "a" / "vectors" / "notes" / "note.txt").write_text("a note")

    def names(pattern):
        return [source.name for source in find_sources([pattern])]

    assert names("**/*") == ["a/text.txt"]
    assert names(str(workdir / "*" / "**")) == [str(workdir / "a" / "text.txt")]
    assert "a/vectors/model.json" in names("a/vectors/*")
    with refused(None, kind=DataError, file="**/note.txt"):
        find_sources(["**/note.txt"])

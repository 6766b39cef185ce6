"""Labelled data known by name: fetched with all their parts, put there by hand, trained on and
scored.
"""

import hashlib
import io
import tarfile

import numpy as np
import pytest
from scipy import sparse

from embedx.classification import classifier
from embedx.comparison import compare as comparison
from embedx.comparison.settings import CompareSettings
from embedx.labeled.named_data import rows_to_test_on
from embedx.labeled.read import read, read_training
from embedx.text import fetch as fetching
from embedx.text.fetch import fetch
from embedx.text.recipes import data_folder, find_recipe, recipe_states
from tests.support.commands import run_command
from tests.support.notes import Notes, lines_with
from tests.support.refusals import refused_data
from tests.support.web_server import serving

N_LABELS = 3
NAMES = "fish\nfowl\nbeast\n"


def npz(matrix):
    """The bytes of scipy.sparse.save_npz."""
    file = io.BytesIO()
    sparse.save_npz(file, sparse.csr_matrix(matrix))
    return file.getvalue()


def rows(n):
    """Features that say the labels, and the indicators of the labels."""
    labels = np.eye(N_LABELS, dtype=np.float32)[np.arange(n) % N_LABELS]
    return np.hstack([labels, np.ones((n, 2), np.float32)]), labels


def pecos_archive(**more):
    """A tar.gz as PECOS packs its data sets."""
    files = {"output-items.txt": NAMES.encode(), "X.trn.txt": b"texts\n"}
    for part, n in (("trn", 12), ("tst", 6)):
        features, labels = rows(n)
        files[f"tfidf-attnxml/X.{part}.npz"] = npz(features)
        files[f"Y.{part}.npz"] = npz(labels)
    return archive_of(
        {
            name if name.startswith("..") else f"xmc-base/zoo/{name}": data
            for name, data in (files | more).items()
        }
    )


def archive_of(files):
    """The bytes of a tar.gz with these files."""
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w:gz") as archive:
        for name, data in files.items():
            member = tarfile.TarInfo(name)
            member.size = len(data)
            archive.addfile(member, io.BytesIO(data))
    return content.getvalue()


ZOO = """kind = "classes"
reader = "npz"
about = "beasts"
files = ["xmc-base/zoo/tfidf-attnxml/X.trn.npz"]
labels = ["xmc-base/zoo/Y.trn.npz"]
label_names = ["xmc-base/zoo/output-items.txt"]
urls = ["{url}/zoo.tar.gz"]
{more}
[parts.test]
files = ["xmc-base/zoo/tfidf-attnxml/X.tst.npz"]
labels = ["xmc-base/zoo/Y.tst.npz"]

[parts.bow]
files = ["Zoo/zoo_train.txt"]
obtain = "from the XC repository"

[parts.bow-test]
files = ["Zoo/zoo_test.txt"]
obtain = "from the XC repository"
"""


@pytest.fixture
def site(workdir, monkeypatch):
    monkeypatch.setattr(fetching, "PAUSES", (0.0, 0.0))
    with serving(pecos_archive()) as served:
        yield served


@pytest.fixture
def zoo(site, workdir):
    """Write the recipe of the site's archive."""

    def write(more=""):
        (workdir / "zoo.toml").write_text(ZOO.format(url=site.url, more=more))
        return "zoo"

    return write


def state_of(name):
    return next(row["state"] for row in recipe_states() if row["name"] == name)


def test_an_archive_is_fetched_and_its_parts_are_trained_on_and_scored(zoo, site):
    assert state_of(zoo()) == "fetch"
    names = sorted(path.name for path in fetch("zoo"))
    assert names == ["X.trn.npz", "X.tst.npz", "Y.trn.npz", "Y.tst.npz", "output-items.txt"]
    assert (state_of("zoo"), state_of("zoo:test")) == ("here", "here")
    assert not list(data_folder().rglob("X.trn.txt"))

    training = read_training("zoo")
    assert (len(training), training.n_features, training.n_labels) == (12, 5, N_LABELS)
    assert rows_to_test_on("zoo") == "zoo:test"
    test = read("zoo:test", schema=training.schema)
    assert test.labels.ids.tolist() == [0, 1, 2, 0, 1, 2]
    assert len(site.asked) == 1
    fetch("zoo")
    assert len(site.asked) == 1


def test_classify_by_name_trains_on_one_part_and_scores_the_other(zoo, workdir):
    fetch(zoo())
    completed = run_command(workdir, "classify", "zoo", "--epochs", 30, "-o", "model", "--json")
    assert "test data: zoo:test" in completed.stderr
    assert '"accuracy": 1.0' in completed.stdout
    assert classifier.load(workdir / "model").schema.names == ["fish", "fowl", "beast"]


def test_compare_scores_on_the_test_part_of_a_recipe(zoo, workdir):
    fetch(zoo())
    data = comparison.data_of(["zoo"], {}, CompareSettings())
    assert (data.command, data.test) == ("classify", "zoo:test")


def test_a_cut_archive_is_resumed_and_a_wrong_one_refused(zoo, site):
    content = site.content
    sha256 = hashlib.sha256(content).hexdigest()
    zoo(f'sha256 = "{sha256}"\nbytes = {len(content)}')
    site.cuts = [100]
    assert len(fetch("zoo")) == 5
    assert site.n_resumed == 1


def test_another_size_than_the_recipe_says_is_refused(zoo, site):
    zoo(f"bytes = {len(site.content) + 1}")
    with refused_data("zoo", quoting=(f"{len(site.content):,}", f"{len(site.content) + 1:,}")):
        fetch("zoo")
    assert list(data_folder().rglob("*.*")) == []


def test_downloads_without_checksum_are_noted(zoo, site, monkeypatch):
    progress = Notes()
    fetch(zoo(), progress=progress)
    assert lines_with(progress.notes, "http:", "checksum")


def test_a_member_that_leads_out_of_the_folder_is_not_unpacked(zoo, site, tmp_path):
    site.content = pecos_archive(**{"../../X.trn.npz": b"evil"})
    fetch(zoo())
    assert not list(tmp_path.rglob("X.trn.npz")) or all(
        path.read_bytes() != b"evil" for path in tmp_path.rglob("X.trn.npz")
    )


def test_a_damaged_archive_is_named_and_nothing_half_unpacked(zoo, site):
    site.content = site.content[: len(site.content) // 2]
    with refused_data("zoo.tar.gz"):
        fetch(zoo())
    assert not list(data_folder().rglob("*.partial*"))


def test_an_archive_in_the_working_directory_is_unpacked(zoo, site, workdir):
    (workdir / "zoo.tar.gz").write_bytes(site.content)
    fetch(zoo())
    assert site.asked == []
    assert len(read_training("zoo")) == 12


def test_an_archive_unpacked_by_hand_is_found(zoo, site, workdir):
    with tarfile.open(fileobj=io.BytesIO(site.content)) as archive:
        archive.extractall(workdir, filter="data")
    assert len(read_training(zoo())) == 12


def test_files_put_there_by_hand_train_by_name(zoo, workdir):
    zoo()
    with refused_data("zoo:bow", quoting=("Zoo/zoo_train.txt", "Zoo/zoo_test.txt")):
        read_training("zoo:bow")
    (workdir / "Zoo").mkdir()
    for part in ("train", "test"):
        (workdir / "Zoo" / f"zoo_{part}.txt").write_text("4 2 2\n0 0:1\n1 1:1\n0 0:2\n1 1:2\n")
    assert len(read_training("zoo:bow")) == 4
    assert rows_to_test_on("zoo:bow") == "zoo:bow-test"


def test_without_the_test_part_training_goes_on_and_says_so(zoo, site, workdir):
    fetch(zoo())
    (data_folder() / "xmc-base/zoo/tfidf-attnxml/X.tst.npz").unlink()
    progress = Notes()
    assert rows_to_test_on("zoo", progress) is None
    assert any("zoo:test" in note for note in progress.notes)


def test_missing_labels_are_named(zoo):
    fetch(zoo())
    (data_folder() / "xmc-base/zoo/Y.trn.npz").unlink()
    with refused_data("zoo", quoting=("Y.trn.npz", "embedx corpus fetch zoo")):
        read_training("zoo")


SEVERAL = """kind = "classes"
reader = "libsvm"
files = ["pair/train.svm"]
[[downloads]]
urls = ["{url}/lost", "{url}/train"]
file = "pair/train.svm"
[[downloads]]
urls = ["{url}/test"]
file = "pair/test.svm"
[parts.test]
files = ["pair/test.svm"]
"""


def test_several_files_are_fetched_each_from_its_mirrors(site, workdir):
    (workdir / "pair.toml").write_text(SEVERAL.format(url=site.url))
    site.statuses = {"/lost": 404}
    site.contents = {"/train": b"0 1:1\n1 2:1\n", "/test": b"1 2:1\n"}
    fetch("pair")
    assert len(read_training("pair")) == 2
    (data_folder() / "pair/test.svm").unlink()
    site.asked.clear()
    fetch("pair")
    assert [path for path, _ in site.asked] == ["/test"]


@pytest.mark.parametrize(
    ("download", "quoted"),
    [
        ('file = "x"', "no urls"),
        ('urls = ["http://x/y"]\nfile = "../y"', "outside"),
        ('urls = ["http://x/y"]\nfile = "/y"', "outside"),
        ('urls = ["http://x/y"]\nsize = 3', " size;"),
        ('urls = "http://x/y"', "urls = "),
    ],
)
def test_mistakes_in_a_download_are_errors(workdir, download, quoted):
    (workdir / "own.toml").write_text(
        f'kind = "classes"\nreader = "xc"\nfiles = ["x"]\n[[downloads]]\n{download}\n'
    )
    with refused_data("own.toml", quoting=quoted):
        find_recipe("own")


def test_rows_by_number_are_trained_on_and_tested_by_one_name(workdir):
    (workdir / "Bibtex").mkdir()
    (workdir / "Bibtex" / "Bibtex_data.txt").write_text("4 2 2\n0 0:1\n1 1:1\n0 0:2\n1 1:2\n")
    (workdir / "Bibtex" / "bibtex_trSplit.txt").write_text("1\n2\n3\n")
    (workdir / "Bibtex" / "bibtex_tstSplit.txt").write_text("4\n")
    training = read_training("bibtex")
    test = read(rows_to_test_on("bibtex"), schema=training.schema)
    assert (len(training), len(test)) == (3, 1)


@pytest.mark.parametrize("names", ["fish\nfowl\nfish\n", "fish\n", "0\tfish\n2\tfowl\n"])
def test_label_names_that_do_not_fit_are_left_out_with_a_warning(zoo, workdir, names):
    fetch(zoo())
    (data_folder() / "xmc-base/zoo/output-items.txt").write_text(names)
    completed = run_command(workdir, "classify", "zoo", "--epochs", 1, "-o", "model")
    assert lines_with(completed.stderr, "warning: ", "output-items.txt", "their numbers")
    assert classifier.load(workdir / "model").schema.names is None


GROUPS = """kind = "classes"
reader = "fasttext"
files = ["groups/train.txt"]
members = "by-date-train/*/*"
urls = ["{url}/groups.tar.gz"]
[parts.test]
files = ["groups/test.txt"]
members = "by-date-test/*/*"
"""


def test_texts_in_folders_are_rows_labelled_by_their_folder(site, workdir):
    (workdir / "groups.toml").write_text(GROUPS.format(url=site.url))
    site.content = archive_of(
        {
            "by-date-train/sci.space/1": b"From: a\n\nThe moon\t is far",
            "by-date-train/rec.autos/2": "Fast caf\u00e9 cars".encode("latin-1"),
            "by-date-test/rec.autos/3": b"Cars",
        }
    )
    train, test = fetch("groups")
    lines = train.read_text("utf-8").splitlines()
    assert lines == [
        "__label__sci.space From: a The moon is far",
        "__label__rec.autos Fast caf\u00e9 cars",
    ]
    assert test.read_text("utf-8") == "__label__rec.autos Cars\n"
    training = read_training("groups")
    assert training.schema.names == ["sci.space", "rec.autos"]
    assert read(rows_to_test_on("groups", Notes()), schema=training.schema).labels.ids.tolist() == [
        1
    ]


def test_another_part_of_rows_by_number_has_files_of_its_own(workdir):
    (workdir / "bibtex").mkdir()
    for half, n in (("train", 3), ("test", 2)):
        rows = "".join(f"{k % 2} {k % 2}:1\n" for k in range(n))
        (workdir / "bibtex" / f"{half}.txt").write_text(f"{n} 2 2\n{rows}")
    training = read_training("bibtex:lsml")
    assert rows_to_test_on("bibtex:lsml") == "bibtex:lsml-test"
    assert (len(training), len(read("bibtex:lsml-test", schema=training.schema))) == (3, 2)

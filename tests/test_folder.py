"""The model folder of any task: names of several stems, the task it belongs to, folders of earlier
versions.
"""

import json
from pathlib import Path

import numpy as np
import pytest

import embedx
from embedx.errors import DataError
from embedx.storage import folder as on_disk
from embedx.storage.schema import FolderSchema
from embedx.vectors import model
from tests.support.refusals import refused_data

LABELS = ["bad\tnews", "good", "so so"]
COUNTS = np.array([3, 70, 5])
FEATURES = ["film", "nice\\"]

# as little as can be
CLASSIFIER = FolderSchema("classification", "`embedx classify` wrote", names={}, arrays={})


def saved(path, **changed):
    """A little classifier."""
    contents = {
        "task": "classification",
        "names": {"labels": (LABELS, COUNTS), "features": (FEATURES, None)},
        "arrays": {"output": np.ones((3, 2), np.float32), "bias": np.arange(3, dtype=np.float32)},
        "settings": {"dim": 2},
        "facts": {"final_loss": np.float32(0.5)},
    }
    return on_disk.save(path, **contents | changed)


def word_vectors(path):
    arrays = {"input": np.eye(2, dtype=np.float32)}
    return model.WordVectors(["b", "a"], arrays, counts=np.array([2, 1])).save(path)


def test_names_of_several_stems_are_read_back(tmp_path):
    path = saved(tmp_path / "m")
    folder = on_disk.read(path, CLASSIFIER)
    assert (folder.path, folder.task) == (path, "classification")
    assert list(folder.names) == ["labels", "features"]
    labels, counts = folder.names["labels"]
    assert labels == LABELS
    np.testing.assert_array_equal(counts, COUNTS)  # in the given order, whether or not they fall
    assert counts.dtype == np.int64
    assert folder.names["features"] == (FEATURES, None)
    np.testing.assert_array_equal(folder.arrays["bias"], [0, 1, 2])
    assert isinstance(folder.arrays["output"].base, np.memmap)
    assert folder.settings == {"dim": 2}
    assert folder.facts["final_loss"] == 0.5
    assert folder.facts["version"] == on_disk.installed_version()


def test_the_files_are_plain(tmp_path):
    path = saved(tmp_path / "m")
    assert sorted(file.name for file in path.iterdir()) == [
        "bias.npy",
        "features.tsv",
        "labels.tsv",
        "model.json",
        "output.npy",
    ]
    assert (path / "labels.tsv").read_text() == "bad\\tnews\t3\ngood\t70\nso so\t5\n"
    assert (path / "features.tsv").read_text() == "film\nnice\\\\\n"
    assert json.loads((path / "model.json").read_text())["names"] == {"labels": 3, "features": 2}


def test_a_model_may_have_no_names(tmp_path):
    assert on_disk.read(saved(tmp_path / "m", names={}), CLASSIFIER).names == {}


def test_a_model_of_another_task_is_refused(tmp_path):
    quoted = ("'classification'", "`embedx train`", "`embedx predict`")
    with refused_data("classifier/model.json", quoting=quoted):
        model.load(saved(tmp_path / "classifier"))
    with refused_data("words/model.json", quoting=("'skipgram'", "`embedx classify`")):
        on_disk.read(word_vectors(tmp_path / "words"), CLASSIFIER)


def test_a_folder_without_a_model_is_reported(tmp_path):
    (tmp_path / "file").write_text("2 2\n")
    (tmp_path / "empty").mkdir()
    for name in ("absent", "file", "empty"):
        with refused_data(name, quoting="`embedx classify`"):
            on_disk.read(tmp_path / name, CLASSIFIER)


def test_a_model_folder_names_its_task(tmp_path):
    path = saved(tmp_path / "m")
    assert on_disk.task_of_model(path) == "classification"
    assert on_disk.task_of_model(word_vectors(tmp_path / "words")) == "skipgram"
    # as a process leaves it that was killed while it overwrote m
    path.rename(tmp_path / "m.replaced-0a1b2c3d")
    assert on_disk.task_of_model(path) == "classification"
    (tmp_path / "file").write_text("2 2\n")
    for none in (
        tmp_path,
        tmp_path / "file",
        tmp_path / "absent",
        "https://example.org/vectors.gz",
        "",
    ):
        assert on_disk.task_of_model(none) is None
    (tmp_path / "model.json").write_text("{")
    with refused_data("model.json"):
        on_disk.task_of_model(tmp_path)


@pytest.mark.parametrize("action", ["stat", "open"])  # of what is in a folder, and of a file
@pytest.mark.parametrize("name", ["model.json", "bias.npy", "features.tsv"])
def test_a_file_that_may_not_be_read_is_not_called_damaged(tmp_path, monkeypatch, name, action):
    path = saved(tmp_path / "m")

    def refused(allowed):
        def act(file, *arguments, **options):
            if Path(file).name == name:
                raise PermissionError(13, "Permission denied")
            return allowed(file, *arguments, **options)

        return act

    monkeypatch.setattr(Path, action, refused(getattr(Path, action)))
    if action == "open":
        monkeypatch.setattr("builtins.open", refused(open))  # by which numpy opens arrays
    with refused_data(f"m/{name}", quoting="(Permission denied)"):
        on_disk.read(path, CLASSIFIER)


@pytest.mark.parametrize(
    ("content", "quoted"),
    [
        ({"names": {"labels": (["a", "a"], None)}}, "labels"),
        ({"names": {"labels": (["a"], COUNTS)}}, "argument 2"),
        ({"arrays": {"output": np.array([None])}}, "output"),
    ],
)
def test_contents_that_cannot_be_loaded_again_are_not_written(tmp_path, content, quoted):
    with pytest.raises(ValueError, match=quoted):
        saved(tmp_path / "m", **content)
    assert not list(tmp_path.iterdir())


def test_words_come_with_a_row_each_and_by_falling_count(tmp_path):
    contents = {
        "words": ["a", "b"],
        "counts": None,
        "arrays": {"input": np.eye(2, dtype=np.float32)},
        "settings": {},
        "facts": {},
    }
    with pytest.raises(ValueError, match="input"):
        model.WordVectors(**contents | {"words": ["a"]}).save(tmp_path / "m")
    with pytest.raises(ValueError, match="counts"):
        model.WordVectors(**contents | {"counts": np.array([1, 2])}).save(tmp_path / "m")


def test_a_model_that_is_replaced_while_it_is_read_is_read_again(tmp_path, monkeypatch):
    """Words of one model with vectors of another would be of the same shapes."""
    path = tmp_path / "m"

    def save(number, overwrite=True):
        arrays = {name: np.full((1, 2), number, np.float32) for name in ("input", "output")}
        model.WordVectors([f"word{number}"], arrays).save(path, overwrite)

    read_array = on_disk.read_array
    n_read = []

    def read_while_another_saves(*arguments):
        n_read.append(arguments)
        if len(n_read) in (1, 4):
            save(len(n_read))
        return read_array(*arguments)

    save(0, overwrite=False)
    monkeypatch.setattr(on_disk, "read_array", read_while_another_saves)
    loaded = model.load_folder(path)
    assert loaded.words == ["word4"]
    assert {float(array[0, 0]) for array in loaded.arrays.values()} == {4.0}


def test_the_task_of_a_model_that_is_being_replaced_is_known(tmp_path, monkeypatch):
    """The folder that was found may be gone when its description is opened."""
    path = word_vectors(tmp_path / "m")
    read_description = on_disk.read_description
    n_read = []

    def read_while_another_saves(folder):
        n_read.append(folder)
        if len(n_read) == 1:
            path.rename(tmp_path / "gone")
            try:
                return read_description(folder)
            finally:
                (tmp_path / "gone").rename(path)
                model.WordVectors(["b"], {"input": np.ones((1, 2), np.float32)}).save(path, True)
        return read_description(folder)

    monkeypatch.setattr(on_disk, "read_description", read_while_another_saves)
    assert on_disk.task_of_model(path) is not None
    assert embedx.load(path).words == ["b"]


def test_a_model_that_is_always_replaced_is_refused(tmp_path, monkeypatch):
    path = word_vectors(tmp_path / "m")
    read_names = on_disk.read_names

    def read_while_another_saves(*arguments):
        model.WordVectors(["b", "a"], {"input": np.eye(2, dtype=np.float32)}).save(path, True)
        return read_names(*arguments)

    monkeypatch.setattr(on_disk, "read_names", read_while_another_saves)
    with pytest.raises(DataError) as raised:
        model.load_folder(path)
    assert raised.value.file == path


def test_damage_is_reported_at_once(tmp_path, monkeypatch):
    path = word_vectors(tmp_path / "m")
    tries = []
    (path / "input.npy").unlink()
    read_names = on_disk.read_names
    monkeypatch.setattr(on_disk, "read_names", lambda *a: (tries.append(a), read_names(*a))[1])
    with pytest.raises(DataError) as raised:
        model.load_folder(path)
    assert raised.value.file == path / "input.npy"
    assert len(tries) == 1

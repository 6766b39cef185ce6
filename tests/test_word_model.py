"""The model folder as its users meet it: saved, loaded, queried, overwritten, damaged."""

import os
import re
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from embedx.errors import DataError
from embedx.runtime import locks
from embedx.storage import folder as on_disk
from embedx.storage.replacement import check_output, delete_leftovers
from embedx.vectors import gensim_names, model, model_folder
from embedx.vectors.lookup import UnknownWordError
from embedx.vectors.names import shown_name
from tests.support.files import files_below
from tests.support.refusals import refused, refused_data


def toy(n=50, dim=6, seed=1):
    """Arguments of `save`: padded tables such as the trainer has, an int64 state, decreasing
    counts.
    """
    rng = np.random.default_rng(seed)
    padded = rng.normal(size=(2, n, 16)).astype(np.float32)
    return {
        "words": [f"w{i}" for i in range(n)],
        "counts": np.arange(n, 0, -1) * 10,
        "arrays": {
            "input": padded[0, :, :dim],
            "output": padded[1, :, :dim],
            "output_bias": padded[1, :, dim],
        },
        "settings": {"dim": dim, "sample": 1e-4},
        "facts": {"objective": "ns", "final_loss": np.float32(0.5)},
    }


def save(folder, overwrite=False, **fields):
    return model.WordVectors(**fields).save(folder, overwrite)


def test_a_saved_model_is_loaded_unchanged(tmp_path):
    fields = toy()
    folder = save(tmp_path / "deep" / "a.ns.embedx", **fields)
    loaded = model.load(folder)
    assert loaded.words == fields["words"]
    np.testing.assert_array_equal(loaded.counts, fields["counts"])
    for name, array in fields["arrays"].items():
        np.testing.assert_array_equal(loaded.arrays[name], array)
        mapped = np.load(folder / f"{name}.npy", mmap_mode="r", allow_pickle=False)
        assert mapped.flags.c_contiguous
        assert mapped.dtype == np.float32
    assert isinstance(loaded.vectors.base, np.memmap)
    with pytest.raises(ValueError, match="read-only"):
        loaded.vectors[0, 0] = 1
    assert loaded.settings == fields["settings"]
    assert loaded.facts["final_loss"] == 0.5
    assert loaded.facts["objective"] == "ns"
    np.testing.assert_array_equal(loaded.output_vectors, fields["arrays"]["output"])
    assert sorted(p.name for p in folder.parent.iterdir()) == ["a.ns.embedx"]


def test_large_arrays_are_written_by_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 20)
    fields = toy(n=53)
    loaded = model.load(save(tmp_path / "m", **fields))
    np.testing.assert_array_equal(loaded.vectors, fields["arrays"]["input"])
    np.testing.assert_allclose(
        loaded.norms, np.linalg.norm(fields["arrays"]["input"], axis=1), rtol=1e-6
    )


def test_any_word_is_saved_and_loaded(tmp_path):
    words = [
        "a\tb",
        "c\nd",
        "e\rf",
        "back\\slash",
        "\\t",
        "\\\\n",
        "naïve",
        "\u00a0",
        "\u2028",
        "\x85",
        " ",
        "",
        "🙂",
        "\\",
    ]
    fields = {**toy(n=len(words)), "words": words}
    assert model.load(save(tmp_path / "m", **fields)).words == words


def test_counts_may_be_unknown_and_biases_alone_are_a_model(tmp_path):
    assert model.load(save(tmp_path / "m", **{**toy(), "counts": None})).counts is None
    assert model.load(save(tmp_path / "n", **toy(n=3, dim=0))).vectors.shape == (3, 0)


def test_a_query_with_an_unknown_word_suggests_similar_ones(tmp_path):
    fields = {**toy(n=4), "words": ["Paris", "colour", "walk", "zebra"]}
    vectors = model.load(save(tmp_path / "m", **fields))
    with refused(kind=UnknownWordError, quoting=("paris", "4 words", "Paris?")):
        vectors["paris"]
    with refused(kind=UnknownWordError, quoting="walk?"):
        vectors["WALK"]
    with refused(kind=UnknownWordError, quoting="colour?"):
        vectors.index("color")
    with refused(kind=UnknownWordError, quoting="Paris?"):
        vectors.index("pariss")
    with refused(kind=UnknownWordError, quoting="qqq") as unlike:
        vectors.similarity("walk", "qqq")
    assert "?" not in str(unlike.value)
    assert "paris" not in vectors
    assert "Paris" in vectors
    assert len(vectors) == 4


def test_neighbours_of_few_words_and_of_zero_vectors():
    vectors = model.WordVectors(
        ["a", "b", "zero"], {"input": np.array([[3, 0], [1, 1], [0, 0]], np.float32)}
    )
    assert vectors.most_similar("a", top_k=10) == [("b", pytest.approx(0.5**0.5)), ("zero", 0.0)]
    with refused_data("positive"):
        vectors.most_similar("zero", top_k=1)
    assert vectors.similarity("a", "zero") == 0.0
    assert vectors.most_similar(np.ones(2, np.float32), top_k=0) == []


def test_a_model_can_be_saved_over_the_files_it_is_mapped_from(tmp_path):
    folder = save(tmp_path / "m", **toy())
    loaded = model.load(folder)
    expected = loaded.vectors.copy()
    save(
        folder,
        words=loaded.words,
        counts=loaded.counts,
        arrays=loaded.arrays,
        settings={},
        facts={},
        overwrite=True,
    )
    np.testing.assert_array_equal(model.load(folder).vectors, expected)


def test_overwriting_spares_what_is_not_a_model(tmp_path):
    (tmp_path / "thesis").mkdir()
    (tmp_path / "thesis" / "chapter1.txt").write_text("years of work")
    with refused(None, "output", kind=DataError, file=tmp_path / "thesis", line=None):
        save(tmp_path / "thesis", **toy(), overwrite=True)
    (tmp_path / "file").write_text("x")
    with refused(None, "output", kind=DataError, file=tmp_path / "file", line=None):
        check_output(tmp_path / "file", overwrite=True)
    with refused(None, "output", kind=DataError, file=tmp_path / "file" / "below", line=None):
        check_output(tmp_path / "file" / "below", overwrite=False)


@pytest.mark.parametrize("fails", ["write", "rename"])
def test_a_failing_save_leaves_the_old_model_and_no_rubbish(tmp_path, monkeypatch, fails):
    folder = save(tmp_path / "m", **toy(seed=1))
    before = model.load(folder).vectors.copy()
    rename = Path.rename

    def full(source, *target):
        if fails == "rename" and ".partial-" not in source.name:
            return rename(source, *target)
        raise OSError(28, "No space left on device")

    if fails == "write":
        monkeypatch.setattr("embedx.runtime.atomic.write_bytes", full)
    else:
        monkeypatch.setattr(Path, "rename", full)
    with refused_data("m", quoting="No space left on device"):
        save(folder, **toy(seed=2), overwrite=True)
    np.testing.assert_array_equal(model.load(folder).vectors, before)
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_a_folder_that_one_may_not_look_into_is_an_error(tmp_path, monkeypatch):
    stat = os.stat

    def refuse(path, *arguments, **options):
        if str(path).startswith(str(tmp_path / "theirs")):
            raise PermissionError(13, "Permission denied")
        return stat(path, *arguments, **options)

    monkeypatch.setattr(os, "stat", refuse)
    with refused(None, "output", kind=DataError, file=tmp_path / "theirs" / "m") as raised:
        check_output(tmp_path / "theirs" / "m", overwrite=False)
    assert "Permission denied" in raised.value.problem
    with refused(kind=DataError, file=str(tmp_path / "theirs" / "m")):
        model.load(tmp_path / "theirs" / "m")
    with refused(kind=DataError, file=tmp_path / "theirs" / "m" / "model.json") as raised:
        on_disk.read(tmp_path / "theirs" / "m", model_folder.SCHEMA)
    assert "Permission denied" in raised.value.problem


def test_a_folder_of_the_users_own_stays_whatever_its_name(tmp_path):
    names = ["m.replaced", "m.replaced-0a1b2c3d", "m.partial-holiday", "m.replaced.bak"]
    for name in names:
        (tmp_path / name).mkdir()
        (tmp_path / name / "diary.txt").write_text("dear diary")
        (tmp_path / name / "model.json").write_text(
            '{"format": "layers-model", "modelTopology": {}}'
        )
    for name in ("m.old", "m.replaced.bak2"):
        save(tmp_path / name, **toy(seed=1))
    before = files_below(tmp_path)
    save(tmp_path / "m", **toy(seed=1))
    save(tmp_path / "m", **toy(seed=2), overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(
        ["m", "m.old", "m.replaced.bak2", *names]
    )
    assert {
        file: content
        for file, content in files_below(tmp_path).items()
        if not file.startswith("m/")
    } == before


@pytest.mark.parametrize(
    "description",
    [
        '{"format": "layers-model", "modelTopology": {}, "weightsManifest": []}',
        "[1]",
        "{",
        '{"format": 1, "arrays": []}',
        "",
    ],
)
def test_overwriting_spares_the_model_of_another_program(tmp_path, description):
    (tmp_path / "m").mkdir()
    (tmp_path / "m" / "model.json").write_text(description)
    (tmp_path / "m" / "weights.bin").write_bytes(b"weights")
    before = files_below(tmp_path)
    for attempt in (
        lambda: check_output(tmp_path / "m", True),
        lambda: save(tmp_path / "m", **toy(), overwrite=True),
    ):
        with refused(None, "output", kind=DataError, file=tmp_path / "m", line=None):
            attempt()
    assert files_below(tmp_path) == before


def test_overwriting_keeps_what_else_is_in_the_folder(tmp_path):
    folder = save(
        tmp_path / "m", **{**toy(seed=1), "arrays": {**toy()["arrays"], "state": np.zeros(3)}}
    )
    (folder / "vectors.txt").write_text("exported")
    (folder / "notes").mkdir()
    (folder / "notes" / "why.txt").write_text("because")
    (folder / "other_bias.npy").write_bytes(b"the user's")
    new = toy(seed=2)
    save(folder, **new, overwrite=True)
    names = {"vectors.txt", "notes", "other_bias.npy"}
    parts = {"input.npy", "output.npy", "output_bias.npy", "vocabulary.tsv", "model.json"}
    assert {path.name for path in folder.iterdir()} == names | parts
    assert (folder / "notes" / "why.txt").read_text() == "because"
    np.testing.assert_array_equal(model.load(folder).vectors, new["arrays"]["input"])


SAVE_AND_DIE = """
import os, signal, sys, numpy as np
from pathlib import Path
from embedx.runtime import atomic, locks
from embedx.storage import folder
from embedx.vectors import gensim_names, model, model_folder
real, calls = getattr({owner}, "{step}"), []
def step(*arguments, **options):
    if len(calls) == {number}:
        os.kill(os.getpid(), signal.SIGKILL)
    calls.append(arguments)
    return real(*arguments, **options)
{owner}.{step} = step
arrays = {{name: np.zeros((2, 3), np.float32) for name in ("input", "output")}}
model.WordVectors(["a", "b"], arrays).save(Path(sys.argv[1]), overwrite=True)
"""


def killed_while_saving(folder, owner, step, number):
    code = SAVE_AND_DIE.format(owner=owner, step=step, number=number)
    assert (
        subprocess.run([sys.executable, "-c", code, str(folder)], check=False).returncode
        == -signal.SIGKILL
    )


@pytest.mark.parametrize(
    ("owner", "step", "number", "left"),
    [
        ("locks", "lock", 0, r"m\.partial-[0-9a-f]{8}"),  # nothing is in it yet
        ("folder.atomic", "write_bytes", 2, r"m\.partial-[0-9a-f]{8}"),
        ("folder", "put_in_place", 0, r"m\.partial-[0-9a-f]{8}"),
        ("Path", "rename", 1, r"m\.replaced-[0-9a-f]{8}"),  # between the two
        ("Path", "unlink", 2, r"m\.replaced-[0-9a-f]{8}"),
    ],
)
def test_files_of_a_killed_process_are_deleted_by_the_next_one(tmp_path, owner, step, number, left):
    folder = save(tmp_path / "m", **toy())
    (tmp_path / "m" / "vectors.txt").write_text("exported")
    killed_while_saving(folder, owner, step, number)
    assert [path.name for path in tmp_path.iterdir() if re.fullmatch(left, path.name)]
    assert model.load(folder).words in (["a", "b"], toy()["words"])
    with refused(None, "overwrite", "output", kind=DataError, line=None):
        check_output(folder, overwrite=False)
    new = toy(seed=2)
    save(folder, **new, overwrite=True)
    np.testing.assert_array_equal(model.load(folder).vectors, new["arrays"]["input"])
    assert (folder / "vectors.txt").read_text() == "exported"
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_only_temporary_folders_that_nobody_has_locked_are_swept(tmp_path):
    save(tmp_path / "m", **toy())
    for name in (
        "m.partial-00000000",
        "m.partial-00000001",
        "m.partial-0001",
        "m.replaced-00000002",
        "n.partial-00000003",
    ):
        (tmp_path / name / "sub").mkdir(parents=True)
        (tmp_path / name / "notes").write_text("dear")
    (tmp_path / "m.replaced-00000004").mkdir()
    lock = locks.lock(tmp_path / "m.partial-00000001")
    save(tmp_path / "m", **toy(), overwrite=True)
    locks.unlock(lock)
    names = [
        "m",
        "m.partial-00000001",
        "m.partial-0001",
        "m.replaced-00000002",
        "n.partial-00000003",
    ]
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_folder_that_is_swept_before_it_is_locked_is_made_again(tmp_path, monkeypatch):
    lock = locks.lock
    swept = []

    def sweep_first(folder, wait=True):
        if "partial" in folder.name and not swept:
            swept.append(folder)
            delete_leftovers(tmp_path / "m")
            assert not folder.exists()
        return lock(folder, wait)

    monkeypatch.setattr(locks, "lock", sweep_first)
    folder = save(tmp_path / "m", **toy())
    assert swept
    assert model.load(folder).words == toy()["words"]
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_files_of_a_running_process_are_not_deleted(tmp_path, monkeypatch):
    written = on_disk.npy_blocks
    within = []

    def write_while_another_saves(array):
        if not within:
            within.append(True)
            save(tmp_path / "m", **toy(seed=2))
        return written(array)

    monkeypatch.setattr(on_disk, "npy_blocks", write_while_another_saves)
    with refused(None, "overwrite", "output", kind=DataError, file=tmp_path / "m", line=None):
        save(tmp_path / "m", **toy(seed=1))
    np.testing.assert_array_equal(
        model.load(tmp_path / "m").vectors, toy(seed=2)["arrays"]["input"]
    )
    within.clear()
    shutil.rmtree(tmp_path / "m")
    save(tmp_path / "m", **toy(seed=1), overwrite=True)
    np.testing.assert_array_equal(
        model.load(tmp_path / "m").vectors, toy(seed=1)["arrays"]["input"]
    )
    assert [path.name for path in tmp_path.iterdir()] == ["m"]


def test_models_that_cannot_be_saved_are_refused_before_training(tmp_path, monkeypatch):
    with refused(None, "output", kind=DataError, file=tmp_path / ("m" * 250)) as raised:
        check_output(tmp_path / ("m" * 250), overwrite=False)
    assert "File name too long" in raised.value.problem
    folder = save(tmp_path / "m", **toy())
    monkeypatch.setattr(os.path, "ismount", lambda path: path == folder)
    with refused(None, "output", kind=DataError, file=folder, line=None):
        check_output(folder, overwrite=True)
    check_output(folder / "within", overwrite=True)
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    with pytest.raises(DataError) as looped:
        check_output(tmp_path / "circle", overwrite=True)
    assert looped.value.file == tmp_path / "circle"
    assert looped.value.line is None
    (tmp_path / "circle").unlink()
    assert [file.name for file in tmp_path.iterdir()] == ["m"]


def test_words_of_a_model_of_lower_case_text_are_found_in_any_case():
    vectors = np.eye(3, dtype=np.float32)
    lower = model.WordVectors(
        ["king", "queen", "US"], {"input": vectors}, settings={"lowercase": True}
    )
    assert "Queen" in lower
    assert lower["KING"].tolist() == lower["king"].tolist()
    assert lower.index("US") == 2
    assert lower.similarity("King", "king") == 1
    cased = model.WordVectors(["king"], {"input": vectors[:1]})
    assert "King" not in cased


@pytest.mark.parametrize(
    ("name", "instead"),
    [
        ("save_word2vec_format", "export"),
        ("wv", "the model itself"),
        ("similar_by_key", "similar_by_word"),
        ("nonsense", None),
    ],
)
def test_names_of_gensim_without_an_equal_say_what_there_is(name, instead):
    words = model.WordVectors(["king"], {"input": np.ones((1, 2), np.float32)})
    assert not hasattr(words, name)
    with pytest.raises(AttributeError) as raised:
        getattr(words, name)
    assert raised.value.name == name
    assert ("gensim" in str(raised.value)) == (instead is not None)
    assert instead is None or instead in str(raised.value)


def test_what_gensim_gives_instead_exists():
    words = model.WordVectors(["king"], {"input": np.ones((1, 2), np.float32)})
    for instead in gensim_names.OF_VECTORS.values():
        name = instead.partition("(")[0]
        assert hasattr(words, name) or not name.isidentifier()


class BrokenVectors(model.WordVectors):
    @property
    def longest(self):
        return self.wrds


def test_an_error_within_a_property_names_what_is_missing():
    vectors = BrokenVectors(["a", "b"], {"input": np.eye(2, dtype=np.float32)})
    with pytest.raises(AttributeError) as raised:
        _ = vectors.longest
    assert raised.value.name == "wrds"


def test_items_are_shown_with_blanks_between_their_words():
    arrays = {"input": np.eye(2, dtype=np.float32)}
    items = ["Tasse_Größe_L", "B7"]
    sessions = model.WordVectors(items, arrays, settings={"format": "sessions"})
    names = [shown_name(sessions, item, {"B7": "Becher"}) for item in items]
    assert names == ["Tasse Größe L", "B7 (Becher)"]
    assert shown_name(model.WordVectors(items, arrays), items[0]) == items[0]

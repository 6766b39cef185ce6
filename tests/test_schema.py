"""Folders of word vectors and of classifiers that were damaged: one line with file and remedy,
whatever is in them.
"""

import json
import os
import pickle
import random
import signal

import numpy as np
import pytest

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.errors import DataError, EmbedxError
from embedx.labeled.data import DataSchema
from embedx.samplers.adversarial import ARRAYS
from embedx.storage import folder as on_disk
from embedx.storage.schema import first_not_finite
from embedx.vectors import model
from tests.support.refusals import refused
from tests.support.report_models import words_as_they_are

LABELS = 5
FEATURES = 4
DIM = 3
STRIDE = 16


@pytest.fixture(autouse=True)
def _ends():
    """What waits for ever is interrupted."""
    if os.name != "posix":
        yield
        return
    before = signal.signal(signal.SIGALRM, lambda *_: pytest.fail("it waits"))
    signal.alarm(60)
    yield
    signal.alarm(0)
    signal.signal(signal.SIGALRM, before)


def words_in(path):
    """Word vectors as ar leaves them, with the noise that was fitted to them."""
    rng = np.random.default_rng(0)
    arrays = {name: rng.normal(size=(LABELS, DIM)) for name in ("input", "output")} | {
        "bias": rng.normal(size=LABELS)
    }
    arrays = {name: np.asarray(array, np.float32) for name, array in arrays.items()}
    settings = {"window": 5, "sample": 1e-4, "sampler": "unigram", "tokenizer": "words"}
    counts = np.array([9, 7, 5, 3, 1])
    return model.WordVectors(
        list("abcde"), arrays, counts=counts, settings=settings, facts={"objective": "ar"}
    ).save(path)


def noise_arrays(width):
    noise_arrays = (
        np.ones((width, STRIDE), np.float32),
        np.ones(STRIDE, np.float32),
        np.ones((7, STRIDE), np.float32),
        np.array([0, np.inf, 0, 0, 0, 0, 0], np.float32),
        np.arange(LABELS, dtype=np.int32),
    )
    return {f"noise_{name}": array for name, array in zip(ARRAYS, noise_arrays, strict=True)}


def classifier_in(path, name="ns", hidden=False, noise=False, features=None):
    """A classifier that was not trained."""
    objective = objectives.find(name)(objectives.find(name).Settings())
    counts = np.array([9, 7, 5, 3, 1])
    order = np.array([2, 0, 1, 4, 3], np.int32)
    objective.prepare(counts, order if objective.traits.uses_class_order else None)
    rows = objective.n_outputs(LABELS)
    dim = DIM if hidden else FEATURES
    arrays = {"output": np.ones((rows, dim), np.float32), "bias": np.zeros(rows, np.float32)}
    arrays |= {"hidden": np.ones((FEATURES, DIM), np.float32)} if hidden else {}
    arrays |= {"label_order": order} if objective.traits.uses_class_order else {}
    arrays |= noise_arrays(FEATURES) if noise else {}
    settings = {"scaling": "none", "labels": "all", "unseen": "keep"} | objective.settings.record()
    settings["sampler"] = "adversarial" if noise else objective.samplers()[0]
    schema = DataSchema(
        FEATURES, LABELS, list("vwxyz"), None if features is None else words_as_they_are(features)
    )
    return Classifier(
        objective, arrays, schema, counts, settings, {"several_labels": False, "examples": 25}
    ).save(path)


FOLDERS = {
    "words": words_in,
    "ns": classifier_in,
    "hs": lambda path: classifier_in(path, "hs"),
    "hidden": lambda path: classifier_in(path, hidden=True),
    "text": lambda path: classifier_in(path, hidden=True, features=list("nice")),
    "noise": lambda path: classifier_in(path, "ar", noise=True),
}


def load(path):
    if on_disk.task_of_model(path) == "skipgram":
        return model.load(path)
    loaded = classifier.load(path)
    return loaded.log_probability(
        loaded.scores(np.ones((2, FEATURES), np.float32)), loaded.log_noise(np.ones((2, FEATURES)))
    )


def change(folder, *keys, to):
    """Write another value at a place of model.json, or none if `to` is `...`."""
    file = folder / "model.json"
    description = json.loads(file.read_text())
    description.pop("checksum", None)
    inside = description
    for key in keys[:-1]:
        inside = inside[key]
    if to is ...:
        del inside[keys[-1]]
    else:
        inside[keys[-1]] = to
    file.write_text(json.dumps(description))


def spell(folder, former, new):
    """Write another text in model.json."""
    text = (folder / "model.json").read_text()
    assert former in text
    (folder / "model.json").write_text(text.replace(former, new))


def replace(folder, name, array):
    """Write another array, and say so in model.json."""
    np.save(folder / f"{name}.npy", array)
    change(folder, "arrays", name, to={"shape": list(array.shape), "dtype": str(array.dtype)})


def rename(folder, stem, lines):
    (folder / f"{stem}.tsv").write_text("".join(f"{line}\n" for line in lines))
    change(folder, "names", stem, to=len(lines))


def claim(folder, name, shape):
    """Have a small file say that it holds a giant array."""
    file = folder / f"{name}.npy"
    with file.open("wb") as out:
        np.lib.format.write_array_header_1_0(
            out, {"descr": "<f4", "fortran_order": False, "shape": tuple(shape)}
        )
        out.write(bytes(64))
    change(folder, "arrays", name, to={"shape": shape, "dtype": "float32"})


def poisoned(shape, row, value=np.nan):
    array = np.ones(shape, np.float32)
    array[row] = value
    return array


def zipped(folder, name):
    np.savez(folder / "other.npz", a=np.ones(3))
    os.replace(folder / "other.npz", folder / f"{name}.npy")


def pipe(folder, name):
    (folder / name).unlink()
    os.mkfifo(folder / name)


def directory(folder, name):
    (folder / name).unlink()
    (folder / name).mkdir()


def header(folder, text):
    (folder / "output.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    )


OF_BOTH = [
    (lambda m: (m / "model.json").write_text("[" * 100_000), "model.json: damaged ("),
    (
        lambda m: (m / "model.json").write_text("null"),
        "model.json: damaged (it is not a JSON object)",
    ),
    (
        lambda m: (m / "model.json").write_text('{"format": ' + "1" * 5000 + "}"),
        "model.json: damaged (Exceeds the limit",
    ),
    (lambda m: change(m, "settings", to=...), "model.json: damaged (no 'settings')"),
    (lambda m: change(m, "facts", to=[]), "model.json: damaged (it does not describe files"),
    (
        lambda m: change(m, "names", "../m/labels", to=5),
        "model.json: damaged (it does not describe files",
    ),
    (lambda m: claim(m, "output", [2**62, 4]), "output.npy: damaged ("),
    (lambda m: zipped(m, "output"), "output.npy: damaged (the magic string is not correct"),
    (
        lambda m: header(
            m, "{'descr': '<f4', 'fortran_order': False, 'shape': (" + "9" * 5000 + ",)}"
        ),
        "output.npy: damaged (",
    ),
    (lambda m: header(m, "(" * 3000), "output.npy: damaged ("),
    (
        lambda m: header(m, "{'descr': 7, 'fortran_order': False, 'shape': ()}"),
        "output.npy: damaged (",
    ),
    (
        lambda m: replace(m, "output", np.ones((5, 4), ">f4")),
        "output.npy: holds >f4 (5, 4), where float32",
    ),
    (
        lambda m: replace(m, "output", np.ones(5, np.float32)),
        "output.npy: holds float32 (5,), where float32",
    ),
    (
        lambda m: replace(m, "bias", np.ones(9, np.float32)),
        "bias.npy: 9 rows, but output.npy has 5 rows",
    ),
    (
        lambda m: replace(m, "bias", np.ones((5, 1), np.float32)),
        "bias.npy: holds float32 (5, 1), where float32",
    ),
    (
        lambda m: replace(m, "bias", poisoned(5, 2, np.inf)),
        "bias.npy: row 2 has a number that is not finite",
    ),
    *(
        (lambda m, file=file, spoil=spoil: spoil(m, file), f"{file}: damaged (not a regular file)")
        for file in ("model.json", "output.npy")
        for spoil in (directory, *([pipe] if os.name == "posix" else []))
    ),
]
OF_WORDS = [
    (lambda m: (m / "model.json").unlink(), "no model.json"),
    (
        lambda m: change(m, "format", to=2),
        ("model.json: format 2, ", "format 1;"),
    ),
    (lambda m: (m / "output.npy").unlink(), "output.npy: missing"),
    (lambda m: os.truncate(m / "input.npy", 180), "input.npy: damaged ("),
    (
        lambda m: np.save(m / "input.npy", np.zeros((3, 6), np.float32)),
        "input.npy: holds float32 (3, 6), but model.json says",
    ),
    (
        lambda m: np.save(m / "input.npy", np.array([{}], object), allow_pickle=True),
        "input.npy: damaged (",
    ),
    (
        lambda m: (m / "input.npy").write_bytes(pickle.dumps([1])),
        "input.npy: damaged (the magic string is not correct",
    ),
    (
        lambda m: (m / "vocabulary.tsv").write_text("a\t9\nb"),
        "vocabulary.tsv: cut short within its last line",
    ),
    (
        lambda m: (m / "vocabulary.tsv").write_text("a\t9\n"),
        "vocabulary.tsv: 1 lines, but model.json says 5",
    ),
    (lambda m: (m / "vocabulary.tsv").write_bytes(b"\xff\t1\n"), "vocabulary.tsv: damaged ("),
    (lambda m: rename(m, "vocabulary", ["a\t1"] * 5), "vocabulary.tsv: a name occurs twice"),
    (
        lambda m: rename(m, "vocabulary", ["a\t1", "b\t1"]),
        "vocabulary.tsv: 2 words, but input.npy has 5 rows",
    ),
    (
        lambda m: replace(m, "ngram", np.ones((2, 3), np.float32)),
        "model.json: no subwords, which a model with n-grams has",
    ),
    (
        lambda m: spell(m, '"window": 5', '"window": "5"'),
        "model.json: damaged (its checksum differs)",
    ),
    (lambda m: pipe(m, "vocabulary.tsv"), "vocabulary.tsv: damaged (not a regular file)"),
    (
        lambda m: rename(m, "vocabulary", ["a\t3", "b\t-2", "c\t1", "d\t1", "e\t1"]),
        "vocabulary.tsv:2: no count",
    ),
    (
        lambda m: rename(m, "vocabulary", ["a\t1" + "0" * 19, *(f"{w}\t1" for w in "bcde")]),
        "vocabulary.tsv:1: no count",
    ),
    (
        lambda m: replace(m, "input", poisoned((5, 3), 3)),
        "input.npy: row 3 has a number that is not finite",
    ),
    (
        lambda m: replace(m, "output", np.ones((5, 4), np.float32)),
        "output.npy: 4 columns, but input.npy has 3 columns",
    ),
    (
        lambda m: replace(m, "heldout_counts", np.ones(4, np.int64)),
        "heldout_counts.npy: 4 rows, but input.npy has 5 rows",
    ),
]
OF_CLASSIFIERS = [
    (
        lambda m: spell(m, '"n_features": 4', '"n_features": true'),
        "model.json: damaged (its checksum differs)",
    ),
    (lambda m: pipe(m, "labels.tsv"), "labels.tsv: damaged (not a regular file)"),
    (lambda m: rename(m, "labels", list("vwxyz")), "labels.tsv: no counts after the names"),
    (
        lambda m: rename(m, "labels", [f"{label}\t1" for label in "vwxy"]),
        "output.npy: has 5 rows for 4",
    ),
    (lambda m: change(m, "names", "labels", to=...), ("model.json: ", "`labels`")),
    (lambda m: change(m, "arrays", "output", to=...), ("model.json: ", "`output`")),
    (
        lambda m: change(m, "facts", "n_features", to=5),
        "output.npy: has 5 rows for 4 features, where obj",
    ),
    (
        lambda m: change(m, "settings", "scaling", to="column-max"),
        ("model.json: ", "`maxima`", "scaling"),
    ),
    (
        lambda m: change(m, "settings", "scaling", to="tf-idf"),
        ("model.json: ", "`idf`", "scaling='tf-idf'"),
    ),
    (
        lambda m: change(m, "settings", "negatives", to="5"),
        "model.json: negatives='5': ",
    ),
    (
        lambda m: change(m, "settings", "sampler", to="adversarial"),
        ("noise_projection.npy: missing", "sampler='adversarial'"),
    ),
    (
        lambda m: replace(m, "maxima", poisoned(4, 1)),
        "maxima.npy: row 1 has a number that is not finite",
    ),
]


def check_one_line(path, quoted=()):
    with refused(kind=DataError, quoting=quoted) as raised:
        load(path)
    text = str(raised.value)
    assert text.startswith(str(path)), text
    assert raised.value.remedy, text
    assert "\n" not in text
    assert len(text) < 600


@pytest.mark.parametrize(
    ("make", "damage", "quoted"),
    [(words_in, *case) for case in OF_BOTH + OF_WORDS]
    + [(classifier_in, *case) for case in OF_BOTH + OF_CLASSIFIERS],
)
def test_damage_gets_one_line_with_file_and_remedy(tmp_path, make, damage, quoted):
    path = make(tmp_path / "m")
    damage(path)
    check_one_line(path, quoted)


LEAVES = [np.array([0, 1, 2, 3, 3]), np.array([0, 1, 2, 3, 8]), np.array([0, 1, 2, 3, -1])]


@pytest.mark.parametrize("leaves", LEAVES)
def test_a_tree_of_noise_that_does_not_fit_together_is_not_walked(tmp_path, leaves):
    path = classifier_in(tmp_path / "m", "ar", noise=True)
    replace(path, "noise_leaves", leaves.astype(np.int32))
    check_one_line(path, ("noise_leaves.npy: ", "of 8,"))
    replace(path, "noise_leaves", np.arange(5, dtype=np.int32))
    for name, shape in ("noise_weights", (6, 16)), ("noise_biases", (6,)):
        replace(path, name, np.ones(shape, np.float32))
    check_one_line(path, ("noise_weights.npy: (6, 16) ", " (7, 16)"))


@pytest.mark.parametrize("make", FOLDERS.values(), ids=list(FOLDERS))
def test_any_damaged_byte_is_loaded_or_refused_in_one_line(tmp_path, make):
    rng = random.Random(1)
    path = make(tmp_path / "m")
    files = {file: file.read_bytes() for file in path.iterdir()}
    refused = 0
    for _ in range(150):
        file = rng.choice([path / "model.json", *files])
        file.write_bytes(mutated(files[file], rng, is_json=file.suffix == ".json"))
        try:
            load(path)
        except EmbedxError:
            refused += 1
            check_one_line(path)
        file.write_bytes(files[file])
    assert refused > 75
    load(path)


def mutated(content, rng, is_json):
    """The bytes with a byte, a chunk, or a value of JSON changed."""
    if is_json and rng.random() < 0.7:
        description = json.loads(content)
        places = [(inside, key) for inside in objects_in(description) for key in inside]
        inside, key = rng.choice(places)
        value = rng.choice(
            [
                None,
                True,
                -1,
                0,
                7,
                1e308,
                10**30,
                "",
                "x" * 1000,
                "ns",
                [],
                [[3]],
                {},
                {"a": {}},
                ...,
            ]
        )
        if value is ...:
            del inside[key]
        else:
            inside[key] = value
        return json.dumps(description).encode()
    at = rng.randrange(len(content))
    length = rng.choice([1, 1, 8, 100])
    new = rng.choice([b"", rng.randbytes(length), b"\xff" * length, b"\0" * length, content])
    return content[:at] + new + content[at + length :]


def objects_in(value):
    """All objects of a JSON value that hold something."""
    inside = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return ([value] if isinstance(value, dict) and value else []) + [
        inner for part in inside for inner in objects_in(part)
    ]


def test_large_numbers_do_not_count_as_infinite(monkeypatch):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 8)
    large = np.full((9, 2), 3e38, np.float32)
    assert first_not_finite(large) is None
    large[7, 1] = np.nan
    assert first_not_finite(large) == 7
    assert first_not_finite(np.full(3, 2**62)) is None
    assert first_not_finite(np.zeros((0, 3), np.float32)) is None

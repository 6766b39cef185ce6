"""Folders of word vectors and of classifiers, and what may have happened to their files."""

import json
import os

import numpy as np

from embedx import objectives
from embedx.classification import classifier
from embedx.classification.classifier import Classifier
from embedx.errors import DataError
from embedx.labeled.data import DataSchema
from embedx.samplers.adversarial import ARRAYS
from embedx.storage import folder as on_disk
from embedx.vectors import model
from tests.support.refusals import refused
from tests.support.report_models import words_as_they_are

LABELS = 5
FEATURES = 4
DIM = 3
STRIDE = 16


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
    """The arrays of a tree of noise over vectors of this width."""
    values = (
        np.ones((width, STRIDE), np.float32),
        np.ones(STRIDE, np.float32),
        np.ones((7, STRIDE), np.float32),
        np.array([0, np.inf, 0, 0, 0, 0, 0], np.float32),
        np.arange(LABELS, dtype=np.int32),
    )
    return {f"noise_{name}": array for name, array in zip(ARRAYS, values, strict=True)}


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
    """Load a model, and have a classifier predict."""
    if on_disk.task_of_model(path) == "skipgram":
        return model.load(path)
    loaded = classifier.load(path)
    return loaded.log_probability(
        loaded.scores(np.ones((2, FEATURES), np.float32)), loaded.log_noise(np.ones((2, FEATURES)))
    )


def check_one_line(path, quoted=()):
    """What loads the model is refused in one line, which names a file and a remedy."""
    with refused(kind=DataError, quoting=quoted) as raised:
        load(path)
    text = str(raised.value)
    assert text.startswith(str(path)), text
    assert raised.value.remedy, text
    assert "\n" not in text
    assert len(text) < 600


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
    """Write another text in place of one in model.json, whose checksum stays."""
    text = (folder / "model.json").read_text()
    assert former in text
    (folder / "model.json").write_text(text.replace(former, new))


def replace(folder, name, array):
    """Write another array, and say so in model.json."""
    np.save(folder / f"{name}.npy", array)
    change(folder, "arrays", name, to={"shape": list(array.shape), "dtype": str(array.dtype)})


def rename(folder, stem, lines):
    """Write other lines of names, and their number into model.json."""
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
    """Ones, and in one row another value."""
    array = np.ones(shape, np.float32)
    array[row] = value
    return array


def zipped(folder, name):
    """Put an archive in the place of an array."""
    np.savez(folder / "other.npz", a=np.ones(3))
    os.replace(folder / "other.npz", folder / f"{name}.npy")


def pipe(folder, name):
    """Put a pipe, which nobody writes to, in the place of a file."""
    (folder / name).unlink()
    os.mkfifo(folder / name)


def directory(folder, name):
    """Put a folder in the place of a file."""
    (folder / name).unlink()
    (folder / name).mkdir()


def header(folder, text):
    """Have the array of outputs begin with a header that says this, and end there."""
    (folder / "output.npy").write_bytes(
        b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text.encode()
    )

"""Models whose files were damaged: one line with file and remedy, whatever is in them."""

import os
import pickle

import numpy as np
import pytest

from embedx.storage.schema import first_not_finite
from tests.support.damaged_folders import (
    change,
    check_one_line,
    claim,
    classifier_in,
    directory,
    header,
    pipe,
    poisoned,
    rename,
    replace,
    spell,
    words_in,
    zipped,
)

pytestmark = pytest.mark.usefixtures("ends_within_a_minute")

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
        "vocabulary.tsv: 1 line, but model.json says 5",
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


def test_large_numbers_do_not_count_as_infinite(monkeypatch):
    monkeypatch.setattr("embedx.storage.schema.BLOCK_FLOATS", 8)
    large = np.full((9, 2), 3e38, np.float32)
    assert first_not_finite(large) is None
    large[7, 1] = np.nan
    assert first_not_finite(large) == 7
    assert first_not_finite(np.full(3, 2**62)) is None
    assert first_not_finite(np.zeros((0, 3), np.float32)) is None

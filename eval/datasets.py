"""The data sets of the experiments, by name: where they lie, what is missing and how to get it, and
what stands for them in a trial run where they are not there.

A data set is that of a recipe of its name, or one that `python -m eval data` builds. In the folder
of --data it lies in `xc`, a text in `corpora`, word pairs in `wordsim`, graphs in `graphs` and
sessions in `sessions`.
"""

import hashlib
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from embedx.labeled.data import Labeled, Labels
from embedx.labeled.digits import digits
from embedx.labeled.label_rules import chosen_labels
from embedx.labeled.read import read, read_training
from embedx.runtime.disk import amount
from embedx.text.decompression import UnpackedReader
from embedx.text.opening import BLOCK_BYTES
from embedx.text.recipes import Recipe, find_recipe
from embedx.text.sources import Source
from eval.generated_labels import generated


def _built(name: str, folder: str, file: str, labels: str = "", test: str = "") -> Recipe:
    """The recipe of a set that `python -m eval data` builds and that experiments alone read.

    folder  in that of --data
    file    its file, or a pattern of its files
    labels  the file of its labels
    test    the file that is tested on
    """

    def places(file: str) -> list[str]:
        return [f"{name}/{file}", f"{folder}/{file}"] if file else []

    return Recipe(
        name,
        Path(),
        files=places(file),
        labels=places(labels),
        parts={"test": {"files": places(test)}} if test else {},
        build=f"python -m eval data {name}",
    )


WORD_PAIRS = "word-pairs"
# Sets without a file in corpora/.
BUILT = {
    recipe.name: recipe
    for recipe in (
        _built(WORD_PAIRS, "wordsim", "EN-*.txt"),
        _built("blogcatalog-graph", "graphs/blogcatalog", "edges.txt.gz", labels="labels.txt.gz"),
        _built(
            "wikipedia-pos-graph", "graphs/wikipedia-pos", "edges.txt.gz", labels="labels.txt.gz"
        ),
        _built("ca-astroph-graph", "graphs/ca-astroph", "edges.txt.gz"),
        _built("diginetica-sessions", "sessions/diginetica", "train.txt.gz", test="test.txt.gz"),
    )
}
# Recipes of data sets that have not the name of one: papers use the XC repository's bag of words.
# Our records of "bibtex" are of LSML's split, so that the XC repository's, which papers have, is
# "bibtex-xc".
RECIPES = {
    "bibtex": "bibtex:lsml",
    "bibtex-xc": "bibtex",
    "eurlex-4k": "eurlex-4k:bow",
    "amazoncat-13k": "amazoncat-13k:bow",
    "wiki10-31k": "wiki10-31k:bow",
}
# Share of the rows to train on of a recipe without rows to test on. It has the number that Fagan &
# Iyengar 2018 state of Wiki-small, 342,664 of 456,886.
TRAINING_SHARE = 0.75
TEXT = "enwiki-text"
# Rows, features and labels of what stands for a data set in a trial run.
STAND_IN_ROWS = (1_000, 200)
STAND_IN_FEATURES = 2_000
STAND_IN_LABELS = 100
ONE_LABEL_A_ROW = ("omniglot", "omniglot-28", "omniglot-grey", "20-newsgroups-counts")


def recipe_of(name: str, folder: Path | None) -> Recipe:
    """The recipe of a data set, that of the rows to train on.

    folder  that of --data, in which the recipe's files are looked for too
    """
    return _in_folder(RECIPES.get(name, name), folder)


def is_here(name: str, folder: Path | None) -> bool:
    """Whether the rows of a data set, or a text, are on this machine."""
    return bool(recipe_of(name, folder).files_here())


def what_is_missing(names: Iterable[str], folder: Path | None) -> str:
    """How to get those of some data sets that are not on this machine; "" if all are."""
    recipes = [recipe_of(name, folder) for name in dict.fromkeys(names)]
    lacking = [recipe for recipe in recipes if not recipe.files_here()]
    if len(lacking) == 1:
        return f"{lacking[0].name}: {lacking[0].how_to_get()}"
    return ", ".join(f"{recipe.name} ({_how_to_get(recipe)})" for recipe in lacking)


def _how_to_get(recipe: Recipe) -> str:
    """The command that gets a data set, and how large it is; by hand, the one that says how."""
    if recipe.package:
        return f"`pip install {recipe.package}`"
    if recipe.build:
        return f"`{recipe.build}`"
    if recipe.obtain:
        return f"by hand, see `embedx corpus info {recipe.name}`"
    size = f", {amount(recipe.bytes_to_fetch)}" if recipe.bytes_to_fetch else ""
    return f"`embedx corpus fetch {recipe.name}`{size}"


def halves(name: str, folder: Path | None) -> tuple[Labeled, Labeled]:
    """Training data and test data, divided at random if the recipe has no rows to test on. Raises
    `DataError` if they are not on this machine.
    """
    recipe = recipe_of(name, folder)
    training = read_training(_names(recipe, is_test=False), recipe.labels_here())
    if not recipe.test:
        return _divided(training)
    test = _in_folder(recipe.test, folder)
    return training, read(_names(test, is_test=True), test.labels_here(), schema=training.schema)


def _divided(data: Labeled) -> tuple[Labeled, Labeled]:
    """TRAINING_SHARE of the rows and the others, at random, in their order."""
    rows = np.random.default_rng(1).permutation(len(data))
    n_training = int(TRAINING_SHARE * len(data))
    return data.rows(np.sort(rows[:n_training])), data.rows(np.sort(rows[n_training:]))


def files_of(name: str, folder: Path | None) -> list[Path]:
    """The files of a data set: training data, test data if there are any, and the labels of both if
    they stand apart. Raises `DataError` if they are not on this machine.
    """
    training = recipe_of(name, folder)
    parts = [training]
    if training.test:
        parts.append(_in_folder(training.test, folder))
    labels = [file for part in parts if (file := part.labels_here()) is not None]
    return [Path(file) for file in (*(part.find_files()[0] for part in parts), *labels)]


def text(folder: Path | None, name: str = TEXT) -> Path:
    """The file of a text. Raises `DataError` if it is not on this machine."""
    return Path(recipe_of(name, folder).find_files()[0])


def stand_in(name: str) -> tuple[Labeled, Labeled]:
    """Generated training data and test data for a trial run: images for MNIST, else documents."""
    if name == "mnist":
        return digits()
    n_training, n_test = STAND_IN_ROWS
    both = _generated(n_training, seed=1), _generated(n_test, seed=2)
    if name in ONE_LABEL_A_ROW:
        training, test = (
            replace(half, labels=chosen_labels(half.labels, "first")) for half in both
        )
        return training, test
    return both


def _in_folder(name: str, folder: Path | None) -> Recipe:
    """The recipe of a name, whose files are looked for in the folder of --data too."""
    recipe = _recipe(name)
    if recipe is None:
        raise ValueError(f"no recipe {name}")
    if folder is None:
        return recipe
    if recipe.name.partition(":")[0] in BUILT:
        return replace(recipe, folder=folder)
    kind = "corpora" if recipe.kind == "text" else "xc"
    return replace(recipe, folder=folder / kind)


def _recipe(name: str) -> Recipe | None:
    whole, _, part = name.partition(":")
    if whole not in BUILT:
        return find_recipe(name)
    return BUILT[whole].part(part) if part else BUILT[whole]


def _names(recipe: Recipe, is_test: bool) -> str:
    """The rows of a recipe as `read` takes them."""
    file = recipe.find_files()[0]
    if not recipe.splits:
        return file
    return f"{file}@{Path(file).parent / recipe.splits[is_test]}"


def _generated(n_rows: int, seed: int) -> Labeled:
    """Rows of some words, each of which has several labels."""
    features, labels = generated(STAND_IN_LABELS, n_rows, seed)
    kept = features[:, :STAND_IN_FEATURES].astype(np.float32)
    return Labeled(kept, Labels.of_matrix(labels), STAND_IN_LABELS)


def facts_of(names: Iterable[str], folder: Path | None) -> dict[str, Any]:
    """What is to be known of those data sets that are here, for the record: the recipe and first
    file of each, and the bytes and first digits of the SHA-256 of what all its files unpack to, so
    that copies that are packed otherwise have the same.
    """
    facts = {}
    for name in dict.fromkeys(names):
        if is_here(name, folder):
            files = list(dict.fromkeys(files_of(name, folder)))
            n_bytes, sha256 = size_and_hash(*files)
            facts[name] = {
                "recipe": recipe_of(name, folder).name,
                "file": files[0].name,
                "bytes": n_bytes,
                "sha256": sha256[:12],
            }
    return facts


def size_and_hash(*files: Path) -> tuple[int, str]:
    """Bytes and SHA-256 of what some files unpack to, one after the other. Raises `DataError` for
    one that is damaged.
    """
    n_bytes = 0
    digest = hashlib.sha256()
    for file in files:
        with UnpackedReader(Source(str(file), "any", None)) as content:
            while block := content.read(BLOCK_BYTES):
                n_bytes += len(block)
                digest.update(block)
    return n_bytes, digest.hexdigest()

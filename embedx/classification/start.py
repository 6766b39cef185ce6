"""What training starts from: word vectors for a hidden layer, or a trained classifier that learns
new rows and labels.
"""

import dataclasses
from collections.abc import Mapping
from typing import Any

import numpy as np

from embedx import samplers
from embedx.classification.classifier import Classifier
from embedx.errors import Setting, SettingError
from embedx.labeled.data import Labeled
from embedx.objectives.contract import Objective
from embedx.optimizers.lbfgs import Lbfgs
from embedx.runtime.progress import Progress

# settings that go on as they were
KEPT = ("hidden", "scaling", "labels", "sampler", "optimizer", "replacement")
OF_BIAS = "bias"


def word_vectors(
    path: str, hidden: int | None, data: Labeled, progress: Progress
) -> tuple[np.ndarray, np.ndarray]:
    """The words of the data that have vectors in a file, by feature id, and these, float32 (n,
    dim).

    They are scaled by one factor, so that their elements are as large on average as those that a
    hidden layer starts from.
    """
    from embedx.vectors.model import load

    vocabulary = data.schema.vocabulary
    if vocabulary is None:
        raise SettingError("pretrained", path, "these features are not words", "leave it out")
    found = load(path, progress)
    if hidden not in (None, found.vector_size):
        problem = (f"vectors of {found.vector_size} dimensions for ", Setting("hidden", hidden))
        remedy = ("leave ", Setting("hidden"), " out")
        raise SettingError("pretrained", path, problem, remedy)
    places = [(k, found.index(word)) for k, word in enumerate(vocabulary) if word in found]
    progress.note(f"{path}: vectors of {len(places):,} of {len(vocabulary):,} words")
    if not places:
        none = f"has none of the {len(vocabulary):,} words"
        check = ("check ", Setting("lowercase"), ", or give another file")
        raise SettingError("pretrained", path, none, check)
    ids, rows = np.array(places).T
    vectors = np.asarray(found.vectors[rows], np.float32)
    size = np.sqrt(np.mean(np.square(vectors, dtype=np.float64)))
    return ids, (vectors / (max(size, 1e-30) * np.sqrt(3 * vectors.shape[1]))).astype(np.float32)


def settings_to_continue(
    before: Classifier, name: str | None, typed: Mapping[str, Any], path: str
) -> dict[str, Any]:
    """The options by which a classifier, read from `path`, learns new rows: its own where they are
    part of it, and those typed.

    Raises `EmbedxError` where weights cannot be trained further, or something typed contradicts the
    model.
    """
    both = "train on the old and the new rows together"
    if before.has_sparse_weights:
        dense = (Setting("weights", "dense"), " ", Setting("optimizer", "adagrad"))
        raise SettingError(
            "start",
            path,
            "its sparse weights have only the features of its own rows",
            (both, ", or train the first model with ", dense),
        )
    own = before.settings
    if name not in (None, before.objective.name):
        problem = ("was trained with ", Setting("objective", before.objective.name))
        remedy = ("leave ", Setting("objective"), f" out, or {both}")
        raise SettingError("start", path, problem, remedy)
    kept = (*KEPT, *samplers.own_options(own), *dataclasses.asdict(before.objective.settings))
    fixed = {each: own[each] for each in kept if own.get(each) is not None}
    if fixed.get("optimizer") == Lbfgs.name:
        fixed["optimizer"] = typed.get("optimizer", "adagrad")
    has_bias = "bias" in before.arrays
    for each in typed:
        if each in fixed and typed[each] != fixed[each] and each not in ("optimizer", "labels"):
            contradiction = (Setting(each), f" is {fixed[each]} in that model")
            raise SettingError("start", path, contradiction, f"leave it out, or {both}")
    if typed.get(OF_BIAS, "none" if not has_bias else "zero") == "none" and has_bias:
        remedy = ("leave ", Setting("bias"), f" out, or {both}")
        raise SettingError("start", path, "has biases", remedy)
    continued = without_defaults(fixed, before.objective)
    return {**continued, "weights": "dense", OF_BIAS: "frequency" if has_bias else "none", **typed}


def without_defaults(options: Mapping[str, Any], objective: Objective) -> dict[str, Any]:
    """The options but for those of the objective that have their default anyway, such as a number
    of negatives where none are drawn.
    """
    defaults = dataclasses.asdict(type(objective).Settings())
    return {
        name: value
        for name, value in options.items()
        if name not in defaults or name in objective.label_defaults or value != defaults[name]
    }


def check_new_labels(before: Classifier, n_labels: int) -> None:
    """Raise `EmbedxError` where a classifier cannot have more labels: each of its output rows is to
    be that of a label.
    """
    if n_labels > before.n_labels and (
        before.objective.n_rows(n_labels) != n_labels
        or any(name.startswith("noise_") for name in before.arrays)
    ):
        n_new = n_labels - before.n_labels
        raise SettingError(
            "start",
            None,
            f"does not have {n_new:,} of the labels, but its tree over labels is fixed",
            (
                "train on the old and the new rows together, or start from ",
                Setting("objective", "softmax"),
                " or ova",
            ),
        )

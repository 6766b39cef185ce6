"""The folder of a trained classifier: its files, how it is written, read and checked.

output.npy    float32 (rows, dim)     a row for each label (or node of a tree); dim: of the features
                                      or the hidden layer
bias.npy      float32 (rows,)         absent without biases
variance.npy  float32 (rows, dim)     variances of the weights, with --posterior gaussian
hidden.npy    float32 (features, dim) a row for each feature, absent without hidden layer
maxima.npy    float32 (features,)     divisors of columns, with --scaling column-max
idf.npy       float32 (features,)     inverse document frequencies, with --scaling tf-idf
means.npy, deviations.npy  float64 (features,)  of columns, with --scaling standard
label_order.npy  int32 (labels,)      the leaves of a tree of clusters from left to right, if there
                                      is one
noise_*.npy   the sampler, if it is conditional on the input (embedx.samplers)
tree_*.npy    sparse weights and their tree, instead of output.npy and bias.npy
              (embedx.classification.label_tree)
calibration.npy  from scores to probabilities (embedx.classification.calibration)
neighbour_*.npy  training rows whose labels are blended with the predictions
                 (embedx.classification.neighbours)
familiarity.npy  factors of probabilities of rows with unknown features
              (embedx.classification.familiarity)
coverage.npy  thresholds of sets of labels by their coverage (embedx.classification.decisions)
labels.tsv    label TAB number of training rows with it
trained_counts.npy  int64 (labels,): the same without held-out rows and without rows of later runs,
              which do not change noise and trees of labels; absent if there are none
features.tsv  the words that are features, for text
ngrams.npy    int64 (ngrams,)         the hashes of the n-grams that are features, after these words
"""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy import ndarray

from embedx import checks, objectives
from embedx.classification import (
    calibration,
    decisions,
    familiarity,
    label_tree,
    neighbours,
    posterior,
)
from embedx.classification.settings import SCORES
from embedx.errors import DataError, Setting
from embedx.labeled.data import Columns, DataSchema, TextSchema
from embedx.labeled.scaling import ARRAYS_OF
from embedx.labeled.words import TextFeatureSettings
from embedx.objectives.contract import Objective
from embedx.settings import MAX_WHOLE_NUMBER
from embedx.storage import folder
from embedx.storage.folder_files import DESCRIPTION
from embedx.storage.replacement import as_path
from embedx.storage.schema import (
    FACTS_OF_RUN,
    Array,
    FolderSchema,
    Names,
    Value,
    wrong_value,
)

if TYPE_CHECKING:
    from embedx.classification.classifier import Classifier

Model = TypeVar("Model", bound="Classifier")

TASK = "classification"
MIN_TEMPERATURE = 1e-6
# Fields of `DataSchema` in model.json; those that an earlier version did not write have defaults.
SCHEMA_FIELDS = (
    "by_name",
    "first_feature",
    "has_empty_first_column",
    "feature_names",
    "label_separator",
    "of_documents",
)
# float64 is written by lbfgs on request.
FLOATS = ("float32", "float64")
SCHEMA = FolderSchema(
    TASK,
    "`embedx classify` wrote",
    names={"labels": Names("labels", counted=True), "features": Names("words", required=False)},
    arrays={
        "hidden": Array(("features", "dim"), FLOATS),
        "output": Array(("rows", "dim"), FLOATS),
        "bias": Array(("rows",), FLOATS),
        "maxima": Array(("features",), FLOATS),
        "idf": Array(("features",), FLOATS),
        "means": Array(("features",), FLOATS),
        "deviations": Array(("features",), FLOATS),
        "label_order": Array(("labels",), ("int32",), indexes="labels"),
        "noise_projection": Array(("features", "stride")),
        "noise_offset": Array(("stride",)),
        "noise_weights": Array(("nodes", "stride")),
        # Infinite where a branch has no label.
        "noise_biases": Array(("nodes",), is_finite=False),
        "noise_leaves": Array(("labels",), ("int32",)),
        "ngrams": Array(("ngrams",), ("int64",)),
        "trained_counts": Array(("labels",), ("int64",)),
        **label_tree.ARRAYS,
        **calibration.ARRAYS,
        **familiarity.ARRAYS,
        **decisions.ARRAYS,
        **neighbours.ARRAYS,
        **posterior.ARRAYS,
    },
    settings={
        "scaling": Value(str),
        "score": Value(str, choices=SCORES),
        "sampler": Value(str),
        "replacement": Value(bool),
        "beam": Value(int, at_least=1, at_most=MAX_WHOLE_NUMBER),
        "propensity_a": Value(float),
        "propensity_b": Value(float),
        "labels": Value(str),
        "unseen": Value(str),
        "optimizer": Value(str),
    },
    facts={
        "objective": Value(str, required=True),
        "packages": Value(dict),
        "n_features": Value(int, required=True, at_least=0, at_most=MAX_WHOLE_NUMBER),
        "reader": Value(dict, required=True),
        "estimator": Value(dict),
        "labels": Value(int, at_least=0),
        "examples": Value(int, at_least=0),
        "several_labels": Value(bool),
        "temperature": Value(float, at_least=MIN_TEMPERATURE),
        "prior_variance": Value(float),
        "threshold": Value(float),
        "interrupted": Value(bool),
        **FACTS_OF_RUN,
    },
    sizes={"features": "n_features"},
)


# Values of `reader`, among the facts.
READER = {
    "by_name": Value(bool, required=True),
    "named": Value(bool, required=True),
    "first_feature": Value(int, at_least=0, at_most=MAX_WHOLE_NUMBER),
    "has_empty_first_column": Value(bool),
    "feature_names": Value(list, items=str),
    "label_separator": Value(str),
    "of_documents": Value(bool),
    "text": Value(dict),
    "columns": Value(dict),
}
# Values of `columns`, in `reader`.
COLUMNS = {
    "text": Value(list, required=True, items=str),
    "numbers": Value(list, required=True, items=str),
    "label": Value(str),
    "id": Value(str),
    "separator": Value(str),
    "scales": Value(list, items=list),
}


def save(model: "Classifier", path: str | Path, overwrite: bool = False) -> Path:
    """Write the folder of a model."""
    label_names = [model.name(k) for k in range(model.n_labels)]
    names: dict[str, Any] = {"labels": (label_names, model.counts)}
    arrays = model.arrays
    schema = model.schema
    reader = {name: getattr(schema, name) for name in SCHEMA_FIELDS}
    reader["named"] = schema.names is not None
    if schema.text is not None:
        names["features"] = (schema.text.vocabulary, None)
        arrays = {**arrays, "ngrams": schema.text.hashes}
        reader["text"] = schema.text.settings
    reader["columns"] = schema.columns and dataclasses.asdict(schema.columns)
    facts = {
        **model.facts,
        "objective": model.objective.name,
        **objectives.packages(model.objective.name, model.settings.get("sampler")),
        "n_features": schema.n_features,
        "reader": reader,
    }
    return folder.save(
        as_path(path, "folder"),
        task=TASK,
        names=names,
        arrays=arrays,
        settings=model.settings,
        facts=facts,
        overwrite=overwrite,
    )


def load(path: str | Path, model_class: type[Model]) -> Model:
    """The model in a folder.

    Raises `EmbedxError` if files are missing or damaged, or if it is another kind of model.
    """
    stored = folder.read(path, SCHEMA)
    labels, counts = stored.names["labels"]
    assert counts is not None
    description = stored.path / DESCRIPTION
    objectives.check_packages(description, stored.facts, stored.settings)
    with folder.blamed_on(description):
        schema = _data_schema(stored, labels)
        objective = _objective(stored, counts)
        _check_weights(stored, objective, len(labels))
        model = model_class(objective, stored.arrays, schema, counts, stored.settings, stored.facts)
        _check_arrays(model)
    return model


def _data_schema(stored: folder.Folder, labels: list[str]) -> DataSchema:
    """The schema of data for a stored model, set by its training data."""
    reader = stored.facts["reader"]
    n_features = stored.facts["n_features"]
    checks.refuse(wrong_value(READER, reader, "reader"), DESCRIPTION)
    columns = _columns(reader.get("columns"))
    text = None
    if "features" in stored.names:
        n_intervals = columns.n_intervals if columns else 0
        text = _text_schema(stored, n_features, n_intervals)
    recorded = {name: reader[name] for name in SCHEMA_FIELDS if name in reader}
    names = labels if reader["named"] else None
    return DataSchema(n_features, len(labels), names, text, columns=columns, **recorded)


def _columns(recorded: dict[str, Any] | None) -> Columns | None:
    """The columns of the training table, from model.json."""
    if not recorded:
        return None
    checks.refuse(wrong_value(COLUMNS, recorded, "columns"), DESCRIPTION)
    problem = "the columns of the training table are not described"
    undescribed = DataError(DESCRIPTION, None, problem)
    try:
        columns = Columns(**recorded)
        numbers = [float(number) for scale in columns.scales for number in scale]
    except (TypeError, ValueError, OverflowError) as error:
        raise undescribed from error
    if not np.isfinite(numbers).all():
        raise undescribed
    return columns


def _text_schema(stored: folder.Folder, n_features: int, n_intervals: int) -> TextSchema:
    """The words and n-grams that are features; removes the n-grams from the stored arrays."""
    vocabulary, _ = stored.names["features"]
    hashes = stored.arrays.pop("ngrams", np.empty(0, np.int64))
    settings = TextFeatureSettings.from_options(stored.facts["reader"]["text"] or {})
    is_ascending = not np.any(hashes[1:] <= hashes[:-1])
    if not is_ascending or len(vocabulary) + len(hashes) != n_features - n_intervals:
        counted = f"{len(vocabulary):,} words and {len(hashes):,} n-grams"
        problem = f"{counted} for {n_features:,} features"
        raise DataError(DESCRIPTION, None, problem)
    return TextSchema(vocabulary, hashes, settings.record())


def _objective(stored: folder.Folder, counts: ndarray) -> Objective:
    """The objective of a stored model, prepared for its labels."""
    objective_class = objectives.find(stored.facts["objective"])
    objective = objective_class(objective_class.Settings.from_options(stored.settings))
    order = stored.arrays.get("label_order")
    if order is None and objective.traits.uses_class_order:
        problem = "names no array `label_order`, which hierarchy=clusters needs"
        raise DataError(DESCRIPTION, None, problem)
    if order is not None:
        checks.refuse(checks.wrong_order(order, len(counts)), "label_order.npy")
    trained_counts = stored.arrays.get("trained_counts", counts)
    checks.refuse(checks.wrong_part(trained_counts, counts), "trained_counts.npy")
    objective.prepare(trained_counts, order)
    return objective


def _check_weights(stored: folder.Folder, objective: Objective, n_labels: int) -> None:
    """Raise `EmbedxError` without weights, dense ones of the right shape or sparse ones."""
    is_sparse = label_tree.is_in(stored.arrays)
    is_dense = "output" in stored.arrays
    if is_sparse and is_dense:
        problem = "names both an array `output` and `tree_levels`"
        raise DataError(DESCRIPTION, None, problem)
    if not is_sparse and not is_dense:
        raise DataError(DESCRIPTION, None, "names no array `output`")
    if is_sparse:
        return

    n_outputs = objective.n_outputs(n_labels)
    n_features = stored.facts["n_features"]
    output = stored.arrays["output"]
    n_stored_features = len(stored.arrays.get("hidden", output.T))
    if len(output) != n_outputs or n_stored_features != n_features:
        shape = f"has {len(output):,} rows for {n_stored_features:,} features"
        name = Setting("objective", objective.name)
        expected = f" with {n_labels:,} labels has {n_outputs:,} for {n_features:,}"
        raise DataError("output.npy", None, (shape, ", where ", name, expected))


def _check_arrays(model: "Classifier") -> None:
    """Raise `EmbedxError` where the arrays of a model do not fit its settings or each other."""
    calibration.check(model.arrays)
    familiarity.check(model.arrays)
    decisions.check(model.arrays)
    scaling = str(model.settings.get("scaling"))
    for scaling_array in ARRAYS_OF.get(scaling, ()):
        if scaling_array not in model.arrays:
            needed_by = Setting("scaling", scaling)
            problem = (f"names no array `{scaling_array}`, which ", needed_by, " needs")
            raise DataError(DESCRIPTION, None, problem)

    # Each is checked when it is made.
    if any(name in model.arrays for name in neighbours.ARRAYS):
        _ = model.neighbours
    _ = model.sampler
    if model.has_sparse_weights:
        _ = model.trees
        has_label_tree = model.has_label_tree
        if has_label_tree and model.objective.log_label_probability(np.zeros(1)) is None:
            name = Setting("objective", model.objective.name)
            problem = ("names an array `tree_levels`, which ", name, " does not use")
            raise DataError(DESCRIPTION, None, problem)

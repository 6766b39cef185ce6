"""What `embedx info` prints about a model."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from embedx.cli.setting_options import Option, classify_options, train_options
from embedx.settings import Record
from embedx.spelling import as_typed
from embedx.storage.description import read_described
from embedx.storage.folder import task_of_model
from embedx.storage.replacement import current_path
from embedx.storage.schema import FolderSchema
from embedx.text.settings import noun_of
from embedx.vectors.model import load
from embedx.vectors.model_folder import SCHEMA, TASK

# Facts about the run.
FACTS = (
    "final_loss",
    "loss_unit",
    "epochs",
    "seconds",
    "words_per_second",
    "examples_per_second",
    "collapsed",
)
# What the model is made again from.
ORIGIN = ("command", "data_hash", "versions")
SCORES = ("log_likelihood", "unigram", "accuracy", "p@1", "ndcg@5")


def about(model: str) -> Record:
    """Task, size, settings that differ from the defaults, facts and scores of a model, or the size
    of a vector file.
    """
    path = current_path(model)
    task = task_of_model(path)
    if task is None:
        return _about_file(model, path)
    schema = SCHEMA if task == TASK else _schema_of_classifiers()
    description = read_described(path, schema)
    facts = description["facts"]
    settings = description["settings"]

    record: Record = {"model": model, "task": task, "objective": facts["objective"]}
    if task == TASK:
        record[f"{noun_of(settings)}s"] = facts["words"]
        record["dim"] = description["arrays"]["input"]["shape"][1]
    else:
        record |= _sizes_of_classifier(facts, description["arrays"])
    record["bytes"] = sum(file.stat().st_size for file in path.iterdir() if file.is_file())
    record["created"] = description["created"]
    record["embedx"] = description["embedx"]
    record |= {name: facts[name] for name in FACTS if facts.get(name) is not None}
    if facts.get("interrupted"):
        record["interrupted"] = True
    scores = recorded_scores(facts)
    if scores:
        record["scores"] = scores
    record |= {name: facts[name] for name in ORIGIN if facts.get(name) is not None}
    record["settings"] = changed(task, facts, settings)
    if facts.get("chosen"):
        # The reason of each setting that the data decided.
        record["chosen"] = facts["chosen"]
    return record


def with_origins(record: Record) -> Record:
    """What is known about a model, as people read it: the origin of each chosen setting is beside
    its value.
    """
    origins = record.get("chosen")
    if not origins:
        return record
    values = {"objective": record["objective"], **record["settings"]}
    shown = {
        name: f"{as_typed(value)} ({origins[name]})" if name in origins else value
        for name, value in values.items()
    }
    merged = record | {"objective": shown.pop("objective"), "settings": shown}
    del merged["chosen"]
    return merged


def _about_file(model: str, path: Path) -> Record:
    """The size of a vector file."""
    vectors = load(model)
    return {
        "model": model,
        f"{vectors.noun}s": len(vectors),
        "dim": vectors.vector_size,
        "bytes": path.stat().st_size,
    }


def _sizes_of_classifier(facts: Record, arrays: Record) -> Record:
    """The numbers of labels, rows, features and hidden units, as far as the model has them."""
    sizes: Record = {
        "labels": facts["labels"],
        "training_rows": facts.get("training_rows", facts["examples"]),
    }
    if "hidden" in arrays:
        n_features, n_hidden = arrays["hidden"]["shape"]
        sizes["features"] = n_features
        sizes["hidden"] = n_hidden
    elif "output" in arrays:
        sizes["features"] = arrays["output"]["shape"][1]
    return sizes


def recorded_scores(facts: Record) -> Record:
    """The last scores on validation rows, and those on held-out data."""
    scores: Record = {}
    history = facts.get("history")
    if history:
        scores |= history[-1].get("validation") or {}
    scores |= facts.get("heldout") or {}
    return {name: scores[name] for name in SCORES if name in scores}


def _schema_of_classifiers() -> FolderSchema:
    """What the folder of a classifier holds, whose code takes a while to import."""
    from embedx.classification.model_folder import SCHEMA as schema

    return schema


def changed(task: str, facts: Record, settings: Record) -> Record:
    """The settings that differ from the defaults of their objective, with those that the data
    decided.
    """
    options = train_options() if task == TASK else classify_options()
    modes = [facts["objective"]]
    if facts.get("collapsed"):
        modes.insert(0, "--collapsed")
    defaults = {name: _default(option, modes) for name, option in options.items()}
    return {
        name: value
        for name, value in settings.items()
        if value is not None and value != defaults.get(name)
    }


def _default(option: Option, modes: Sequence[str]) -> Any:
    """The default of a setting in the first of the modes that has one of its own, or in all."""
    for mode in modes:
        if mode in option.defaults:
            return option.defaults[mode]
    return option.field.default

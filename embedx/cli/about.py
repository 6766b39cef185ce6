"""What `embedx info` prints about a model."""

from pathlib import Path
from typing import Any

from embedx.cli.options import classify_options, train_options
from embedx.storage.folder import present, read_described, task_of
from embedx.storage.schema import FolderSchema
from embedx.vectors.model import SCHEMA, TASK, load

# of a run
FACTS = (
    "final_loss",
    "loss_unit",
    "epochs",
    "seconds",
    "words_per_second",
    "examples_per_second",
    "collapsed",
)
SCORES = ("log_likelihood", "unigram", "accuracy", "p@1", "ndcg@5")


def about(model: str) -> dict[str, Any]:
    """Task, size, settings that differ from the defaults, facts and scores of a model, or the size
    of a vector file.
    """
    path = present(Path(model))
    task = task_of(path)
    if task is None:
        vectors = load(model)
        return {
            "model": model,
            "words": len(vectors),
            "dim": vectors.vector_size,
            "bytes": path.stat().st_size,
        }
    description = read_described(path, SCHEMA if task == TASK else _schema_of_classifiers())
    settings, facts, arrays = (description[name] for name in ("settings", "facts", "arrays"))
    found: dict[str, Any] = {"model": model, "task": task, "objective": facts["objective"]}
    if task == TASK:
        found |= {"words": facts["words"], "dim": arrays["input"]["shape"][1]}
    else:
        dims = {name: arrays[name]["shape"] for name in ("hidden", "output") if name in arrays}
        found |= {
            "labels": facts["labels"],
            "training_rows": facts.get("training_rows", facts["examples"]),
        }
        found |= (
            {"features": next(iter(dims.values()))[0 if "hidden" in dims else 1]} if dims else {}
        )
        found |= {"hidden": dims["hidden"][1]} if "hidden" in dims else {}
    found["bytes"] = sum(each.stat().st_size for each in path.iterdir() if each.is_file())
    found |= {"created": description["created"], "embedx": description["embedx"]}
    found |= {name: facts[name] for name in FACTS if facts.get(name) is not None}
    scores = {
        **((facts.get("history") or [{}])[-1].get("validation") or {}),
        **(facts.get("heldout") or {}),
    }
    scores = {name: scores[name] for name in SCORES if name in scores}
    found |= {"interrupted": True} if facts.get("interrupted") else {}
    if scores:
        found["scores"] = scores
    found["settings"] = changed(task, facts, settings)
    if facts.get("chosen"):
        found["chosen"] = facts["chosen"]  # the reason of each setting that the data decided
    return found


def _schema_of_classifiers() -> FolderSchema:
    """What the folder of a classifier holds, whose code takes a while to import."""
    from embedx.classification.classifier import SCHEMA as of_classifiers

    return of_classifiers


def changed(task: str, facts: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    """The settings that differ from the defaults of their objective, with those that the data
    decided.
    """
    options = train_options() if task == TASK else classify_options()
    modes = ["--collapsed"] * bool(facts.get("collapsed")) + [facts["objective"]]
    defaults: dict[str, Any] = {}
    for name, each in options.items():
        defaults[name] = next(
            (each.defaults[mode] for mode in modes if mode in each.defaults), each.field.default
        )
    return {
        name: value
        for name, value in settings.items()
        if value is not None and value != defaults.get(name)
    }

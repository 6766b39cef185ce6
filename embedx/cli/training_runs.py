"""The work of `embedx train` and `embedx classify`: the run, or its plan, and what is printed of
it.
"""

import json
import math
from collections.abc import Mapping, Sequence
from typing import Any

from embedx.cli.streams import request_progress
from embedx.cli.tables import show_facts
from embedx.pages.plain import tab_separated
from embedx.runtime.disk import free_disk, summary
from embedx.runtime.stages import StageTime
from embedx.settings import Record
from embedx.spelling import as_typed
from embedx.tasks.requests import ClassifyRequest, RunRequest, TrainRequest
from embedx.tasks.run import Finished, Planned, plan_request, run_request
from embedx.text.settings import noun_of
from embedx.training.checkpoint import KEPT_STATES
from embedx.training.life import DiskNeeds

# Metrics of the line that `embedx classify` prints.
METRICS_IN_LINE = (
    "accuracy",
    "log_likelihood",
    "log_likelihood_tempered",
    "p@1",
    "p@3",
    "p@5",
    "psp@1",
    "psp@3",
    "psp@5",
)


def train_and_print(request: RunRequest) -> None:
    """Train a model and print its folder with its size, loss and scores; or, as --dry-run asks,
    print what the run would be.
    """
    with request_progress(request) as progress:
        if request.dry_run:
            show_plan(request, plan_request(request, progress))
            return
        finished = run_request(request, progress)
        stages = progress.stages()
    if request.as_json:
        print(json.dumps(_record(request, finished, stages)))
        return
    if isinstance(request, TrainRequest):
        parts = _about_vectors(request, finished)
    else:
        parts = _about_classifier(finished)
    print(*tab_separated([[str(finished.output), ", ".join(parts)]]))


def _record(request: RunRequest, finished: Finished, stages: Sequence[StageTime]) -> Record:
    """What --json prints."""
    model = finished.model
    metrics = finished.metrics
    record = {
        "model": str(finished.output),
        **model.facts,
        "settings": model.settings,
        "stages": [stage._asdict() for stage in stages],
    }
    if isinstance(request, ClassifyRequest):
        record["test"] = None if metrics is None else plain_numbers(metrics)
    elif metrics is not None:
        record["scores"] = metrics
    return record


def _about_vectors(request: TrainRequest, finished: Finished) -> list[str]:
    """The size of word vectors, their loss, and the speed of training."""
    model = finished.model
    facts = model.facts
    nouns = f"{noun_of(model.settings)}s"
    otherwise = "ended before the first iteration" if request.collapsed else "no pair was seen"
    parts = [f"{facts['words']:,} {nouns}", loss_line(facts, otherwise)]
    if "heldout" in facts:
        parts.append(f"held-out log-likelihood {facts['heldout']['log_likelihood']:.4f}")
    if request.collapsed:
        parts.append(f"{facts['epochs']} iterations in {facts['seconds']:.0f} s")
    else:
        parts.append(f"{facts['words_per_second']:,} {nouns}/s")
    return parts


def _about_classifier(finished: Finished) -> list[str]:
    """The number of labels of a classifier, its loss and its metrics on test data."""
    facts = finished.model.facts
    metrics = finished.metrics
    parts = [f"{facts['labels']:,} labels"]
    if facts["interrupted"]:
        parts.append("interrupted")
    parts.append(loss_line(facts, "no example had a label"))
    if metrics:
        parts += [f"{name} {metrics[name]:.4f}" for name in METRICS_IN_LINE if name in metrics]
        parts.append(f"{metrics['n']:,} labelled test rows")
    return parts


def show_plan(request: RunRequest, planned: Planned) -> None:
    """Print what a run would write, its settings, data, memory and disk."""
    needs = _disk_needs(planned.on_disk)
    free = free_disk(planned.output)
    if request.as_json:
        facts = _plan_for_json(planned, needs, free)
    else:
        facts = _plan_for_people(planned, needs, free)
    show_facts(facts, request.as_json)


def _plan_for_json(planned: Planned, needs: Mapping[str, float], free: int) -> Record:
    return {
        "model": str(planned.output),
        "settings": planned.settings,
        "chosen": planned.origins,
        "data": planned.data_size,
        "data_hash": planned.data_hash,
        "memory": planned.memory.parts,
        "available": planned.memory.available,
        "disk": needs,
        "disk_free": free,
    }


def _plan_for_people(planned: Planned, needs: Mapping[str, float], free: int) -> Record:
    """The plan with a row for each setting, and the reasons of those that were chosen."""
    facts: Record = {"model": str(planned.output)}
    for name, value in planned.settings.items():
        reason = planned.origins.get(name)
        shown = f"{as_typed(value)}, chosen: {reason}" if reason else value
        facts[name.replace("_", "-")] = shown

    memory = planned.memory
    facts["data"] = planned.data_size
    facts["memory"] = summary(memory.parts, memory.available)
    if not memory.fits:
        facts["memory"] += ": TOO LITTLE"
    facts["disk"] = "known after training, as weights are sparse"
    if needs:
        facts["disk"] = summary(needs, free)
    return facts


def _disk_needs(on_disk: DiskNeeds | None) -> dict[str, float]:
    """Bytes of the model and its checkpoints; nothing where they are not known."""
    if on_disk is None:
        return {}
    return {"model": on_disk.model, "checkpoints": (KEPT_STATES + 1) * on_disk.state}


def loss_line(facts: Mapping[str, Any], otherwise: str) -> str:
    """`loss 1.8336 nats per pair (before training 4.1589, by frequencies alone 3.2)`."""
    if facts["final_loss"] is None:
        return otherwise
    line = f"loss {facts['final_loss']:.4f} {facts['loss_unit']}"
    references = {"before training": "initial_loss", "by frequencies alone": "baseline_loss"}
    known = [
        f"{name} {facts[fact]:.4f}"
        for name, fact in references.items()
        if facts.get(fact) is not None
    ]
    if known:
        line += f" ({', '.join(known)})"
    return line


def plain_numbers(metrics: Mapping[str, float]) -> dict[str, float | None]:
    """Metrics for JSON: null where a number is not finite."""
    return {name: value if math.isfinite(value) else None for name, value in metrics.items()}

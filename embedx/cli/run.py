"""What `embedx train` and `embedx classify` share: output folder, checkpoints, settings shown, the
model saved.
"""

import math
import os
import shlex
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NoReturn

import typer

from embedx.cli.requests import RunRequest
from embedx.cli.tables import show_facts
from embedx.errors import DivergedError
from embedx.runtime.disk import free_disk, summary
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import as_arguments, as_typed, seconds
from embedx.storage.folder import check_output
from embedx.storage.rescue import save_or_rescue
from embedx.text.recipes import public_url
from embedx.text.sources import COMPRESSED, STANDARD_INPUT
from embedx.training.checkpoint import KEPT, Checkpoints, Request
from embedx.training.trainer import Outcome

# Options that decide what a model is, beside settings.
MODEL_OPTIONS = (
    "collapsed",
    "train_labels",
    "test",
    "test_labels",
    "label_names",
    "objective",
    "start",
    "output",
)

SEPARATORS = f"/{os.sep}"


def checkpoints_of(
    command: str, request: RunRequest, folder: Path, progress: Progress
) -> tuple[Checkpoints, bool]:
    """The checkpoints of a run that writes its model to `folder`, and whether to overwrite that
    folder.
    """
    every = seconds(request.checkpoint_every, "checkpoint_every") or math.inf
    arguments = request.arguments()
    del arguments["resume"]
    checkpoints = Checkpoints(
        folder, Request(command, arguments, every, request.resume), request.overwrite, progress
    )
    # A run that resumes overwrites the model that the interrupted run left.
    overwrite = request.overwrite or checkpoints.resumes
    check_output(folder, overwrite)
    return checkpoints, overwrite


def command_line(command: str, request: RunRequest, **resolved: Any) -> str:
    """The command that trains the same model, as one types it, with values `resolved` since."""
    values = request.arguments() | resolved
    options = {name: value for name, value in values.items() if name in MODEL_OPTIONS and value}
    words = ["embedx", command, *request.data, *as_arguments(options | values["typed"])]
    return shlex.join(map(public_url, words))


def saved(
    save: Callable[[Path], Path], folder: Path, checkpoints: Checkpoints, outcome: Outcome
) -> Path:
    """Save a model and remove its checkpoints. Raises `DivergedError` if the run ended for that."""
    # However often Ctrl-C is pressed.
    place = to_the_end(lambda: save_or_rescue(save, folder, checkpoints.how_to_resume))
    checkpoints.close(place, is_over=outcome.interrupted_by is None)
    if outcome.diverged is not None:
        epochs = "epoch" if outcome.epochs == 1 else "epochs"
        diverged = outcome.diverged
        kept = f"; the model of {outcome.epochs:.3g} {epochs} is in {place}"
        raise DivergedError(diverged.problem, (diverged.remedy, kept))
    return place


def default_output(objective: str, *sources: str) -> Path:
    """`corpus.ns.embedx` in the working folder for `…/corpus.txt.gz`."""
    return Path(f"{stem_of(*sources)}.{objective}.embedx")


def stem_of(source: str, *others: str) -> str:
    """`corpus` for `…/corpus.txt.gz`; of several files the name of the folder that they share."""
    if others and all(map(os.path.exists, (source, *others))):
        source = os.path.commonpath(list(map(os.path.abspath, (source, *others))))
    if source == STANDARD_INPUT:
        return "stdin"
    path = Path(os.path.basename(source.rstrip(SEPARATORS)))
    if path.suffix in COMPRESSED:
        path = path.with_suffix("")
    return path.stem.replace("*", "").strip(".-_@") or "corpus"


def show_plan(
    request: RunRequest,
    folder: Path,
    settings: Mapping[str, Any],
    size: Mapping[str, int],
    plan: MemoryPlan,
    on_disk: tuple[float, float] | None = None,
) -> NoReturn:
    """Print what a run would write, its settings, data, memory and disk, and end the command.

    on_disk  bytes of the model and of a checkpoint; by default those of the weights, where these
             are in the plan
    """
    disk = _disk_needs(plan, on_disk)
    facts: dict[str, Any] = {"model": str(folder)}
    if request.as_json:
        facts["settings"] = settings
        facts["data"] = size
        facts["memory"] = plan.parts
        facts["available"] = plan.available
        facts["disk"] = disk
        facts["disk_free"] = free_disk(folder)
    else:
        facts |= {name.replace("_", "-"): value for name, value in settings.items()}
        facts["data"] = size
        facts["memory"] = summary(plan.parts, plan.available)
        if not plan.fits:
            facts["memory"] += ": TOO LITTLE"
        if disk:
            facts["disk"] = summary(disk, free_disk(folder))
        else:
            facts["disk"] = "known after training, as weights are sparse"
    show_facts(facts, request.as_json)
    raise typer.Exit


def _disk_needs(plan: MemoryPlan, on_disk: tuple[float, float] | None) -> dict[str, float]:
    """Bytes of the model and its checkpoints; nothing where the plan does not know them."""
    if on_disk is not None:
        model, checkpoint = on_disk
    else:
        model = plan.needs.get("weights", 0.0)
        # L-BFGS has no checkpoints.
        state = ("weights", "optimizer", "objective") if "objective" in plan.needs else ()
        checkpoint = sum(plan.needs[name] for name in state)
    if not model:
        return {}
    return {"model": model, "checkpoints": (KEPT + 1) * checkpoint}


def note_settings(
    progress: Progress, given: Mapping[str, Any], settings: Mapping[str, Any]
) -> None:
    """Log the settings that were given, or all with --verbose."""
    used = {
        name: value
        for name, value in settings.items()
        if name != "epochs" or not settings.get("time_budget")
    }
    shown = {name: value for name, value in used.items() if progress.is_verbose or name in given}
    parts = [
        f"{name.replace('_', '-')}={as_typed(value)}"
        for name, value in shown.items()
        if value is not None
    ]
    if parts:
        progress.note(" ".join(parts))


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


def metric_lines(*models: Mapping[str, float]) -> list[str]:
    """One metric per line, models side by side."""

    def text(value: float | None) -> str:
        if value is None:
            return ""
        if isinstance(value, int):
            return f"{value:,}"
        return f"{value:.4f}"

    return [
        "\t".join([name, *(text(metrics.get(name)) for metrics in models)]) for name in models[0]
    ]

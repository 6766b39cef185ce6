"""The output of a run: folder, checkpoints, the command that makes it, and how it is saved."""

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from embedx import objectives
from embedx.errors import DivergedError, public_url
from embedx.runtime import shell
from embedx.runtime.interrupts import to_the_end
from embedx.runtime.progress import Progress
from embedx.settings import seconds
from embedx.spelling import as_arguments
from embedx.storage.rescue import save_or_rescue
from embedx.tasks.requests import RunRequest
from embedx.text.sources import COMPRESSED, STANDARD_INPUT
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import Outcome
from embedx.training.run_command import RunCommand

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


def checkpoints_of(request: RunRequest, folder: Path, progress: Progress) -> Checkpoints:
    """The checkpoints of a run that writes its model to `folder`."""
    arguments = request.arguments()
    del arguments["resume"]
    facts = objectives.packages(request.objective or "", request.options.get("sampler"))
    return Checkpoints(
        folder,
        RunCommand(request.command, arguments, facts.get("packages", {})),
        progress,
        every=seconds(request.checkpoint_every, "checkpoint_every") or math.inf,
        resume=request.resume,
        overwrite=request.overwrite,
        changeable=request.changeable_names(),
    )


def command_line(request: RunRequest, **resolved: Any) -> str:
    """The command that trains the same model, as one types it, with values `resolved` since."""
    values = request.arguments() | resolved
    others = {name: value for name, value in values.items() if name in MODEL_OPTIONS and value}
    words = ["embedx", request.command, *request.data, *as_arguments(others | values["options"])]
    return shell.command_line(map(public_url, words))


def save_model(
    save: Callable[[Path], Path], folder: Path, checkpoints: Checkpoints, outcome: Outcome
) -> Path:
    """Save a model and remove its checkpoints. Raises `DivergedError` if the run ended for that."""
    # However often Ctrl-C is pressed.
    place = to_the_end(lambda: save_or_rescue(save, folder, checkpoints.how_to_resume))
    checkpoints.close(place, is_over=outcome.interrupted_by is None)
    if outcome.divergence is not None:
        error = outcome.divergence
        epochs = "epoch" if outcome.epochs == 1 else "epochs"
        saved = f"the model of {outcome.epochs:.3g} {epochs} is in {place}"
        raise DivergedError(error.problem, error.remedy, saved)
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

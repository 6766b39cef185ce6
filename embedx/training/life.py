"""The stages of a run after its settings are resolved, the same for every task.

    allocate   parameters and workspaces, whose memory is taken on first write; the memory plan
    train      the loop over chunks, or another training method; a cluster wraps this stage
    held out   the model, with calibration by held-out data (`finish` of the run)

`embedx.tasks` has the earlier stages: request, read, resolve.
"""

import platform
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path
from typing import NamedTuple, Protocol, TypeVar

from embedx.errors import Setting, Text
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.spelling import as_typed
from embedx.training.checkpoint import Checkpoints
from embedx.training.outcome import Outcome


class Model(Protocol):
    """Word vectors, or a classifier, with the facts and settings of the run."""

    facts: Record
    settings: Record

    def save(self, folder: Path, overwrite: bool = False) -> Path:
        """Write the model folder."""


class TrainedModel(Protocol):
    """A trained model and how its training went."""

    @property
    def model(self) -> Model: ...

    @property
    def outcome(self) -> Outcome: ...

    def without_state(self) -> "TrainedModel":
        """The same without the memory that only training needed."""


Trained = TypeVar("Trained", bound=TrainedModel, covariant=True)


class Size(NamedTuple):
    """The size of the parameters.

    parameters  such as "10,000 words × 100 numbers"
    remedy      how to make them smaller
    """

    parameters: Text
    remedy: Text


class DiskNeeds(NamedTuple):
    """Bytes of the model's folder, and of the state of the run in one checkpoint; 0 where there are
    no checkpoints.
    """

    model: float
    state: float


class TrainableRun(Protocol[Trained]):
    """A task on its data, with resolved settings."""

    progress: Progress

    @property
    def origins(self) -> Mapping[str, str]:
        """The reasons of settings that were chosen, by name."""

    def used_settings(self) -> Record:
        """The settings that have an effect, by name."""

    def size(self) -> Size:
        """The size of the parameters."""

    @property
    def chosen_threads(self) -> int | None:
        """The number of threads if it was chosen; None if it was given."""

    def lower_threads(self, threads: int) -> None:
        """Train with fewer threads, because the memory of more does not fit."""

    def allocate(self) -> MemoryPlan:
        """Allocate parameters and workspaces; return the memory plan of training."""

    def on_disk(self, plan: MemoryPlan) -> DiskNeeds | None:
        """The size of the output on disk; None if it is not known before training."""

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Train the parameters."""

    def finish(self, outcome: Outcome) -> Trained:
        """The trained model. If nothing was trained, raises the error that ended the run."""


def allocate(run: TrainableRun[Trained]) -> MemoryPlan:
    """Allocate a run; return its memory plan. If the number of threads was chosen, it is lowered to
    those that fit into memory.
    """
    plan = run.allocate()
    threads = run.chosen_threads
    if threads is None:
        return plan
    n_that_fit = plan.threads_that_fit(threads)
    if n_that_fit == threads:
        return plan
    run.lower_threads(n_that_fit)
    problem = f", chosen: {threads} would need more memory than is available"
    run.progress.note(Setting("threads", n_that_fit), problem)
    return run.allocate()


def train_model(run: TrainableRun[Trained], checkpoints: Checkpoints | None = None) -> Trained:
    """The model of a run whose settings are resolved.

    Raises `EmbedxError` if memory or disk are too small, and `DivergedError` if training diverges
    without a good state. Otherwise the last good state is returned, and the outcome says why the
    run ended early; Ctrl-C, too, ends training with the parameters so far.
    """
    progress = run.progress
    _note_chosen(run)
    with progress.stage("allocate"):
        plan = allocate(run)
    size = run.size()
    plan.check(size.parameters, size.remedy)
    on_disk = run.on_disk(plan)
    if checkpoints is not None and on_disk is not None:
        checkpoints.check_disk(on_disk.model, on_disk.state)

    with progress.stage("train"):
        outcome = run.train(plan, checkpoints)
    with progress.stage("held out"):
        trained = run.finish(outcome)
    trained.model.facts["versions"] = versions()
    return trained


def _note_chosen(run: TrainableRun[Trained]) -> None:
    """Note the settings that were chosen, with their reasons, for --verbose."""
    settings = run.used_settings()
    for name, reason in run.origins.items():
        if name in settings:
            value = as_typed(settings[name])
            run.progress.detail(f"{name.replace('_', '-')}={value}, chosen: {reason}")


def versions() -> dict[str, str]:
    """The versions of Python and of the packages that compute, by name."""
    packages = {name: metadata.version(name) for name in ("numpy", "numba", "scipy")}
    return {"python": platform.python_version(), **packages}

"""The stages of a run after its settings are resolved, the same for every task.

    allocate   parameters and workspaces, which take memory once they are written to; the plan of it
    train      the loop over chunks, or another way to the parameters; a cluster wraps this stage
    finish     the model, with what held-out data teach

`embedx.tasks` has the stages before: a request is made, data are read, settings are resolved.
"""

from collections.abc import Mapping
from typing import NamedTuple, Protocol, TypeVar

from embedx.errors import Setting, Text
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Record, as_typed
from embedx.training.checkpoint import Checkpoints
from embedx.training.trainer import Outcome

Trained = TypeVar("Trained", covariant=True)


class Size(NamedTuple):
    """The size of the parameters.

    parameters  in words, such as "10,000 words × 100 numbers"
    remedy      what makes them smaller
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
        """Why settings were chosen, by name."""

    def used_settings(self) -> Record:
        """The settings that have an effect, by name."""

    def size(self) -> Size:
        """The size of the parameters."""

    @property
    def chosen_threads(self) -> int | None:
        """The number of threads, where it was chosen; None where it was given."""

    def lower_threads(self, threads: int) -> None:
        """Train with fewer threads, because the memory of more does not fit."""

    def allocate(self) -> MemoryPlan:
        """Make parameters and workspaces; the memory that training needs."""

    def on_disk(self, plan: MemoryPlan) -> DiskNeeds | None:
        """What the run will write; None where that is not known before it is trained."""

    def train(self, plan: MemoryPlan, checkpoints: Checkpoints | None) -> Outcome:
        """Train the parameters."""

    def finish(self, outcome: Outcome) -> Trained:
        """The trained model. Raises what ended the run if nothing was trained."""


def allocated(run: TrainableRun[Trained]) -> MemoryPlan:
    """The memory plan of a run, whose parameters and workspaces are made.

    Threads that were not asked for are so many as have memory.
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


def train(run: TrainableRun[Trained], checkpoints: Checkpoints | None = None) -> Trained:
    """The model of a run whose settings are resolved.

    Raises `EmbedxError` where memory or disk are too small, and `DivergedError` when training
    diverges with nothing learned. Where something was, that is returned, and the outcome says why
    the run ended early; Ctrl-C likewise ends the training with what was learned so far.
    """
    progress = run.progress
    settings = run.used_settings()
    for name, reason in run.origins.items():
        if name in settings:
            value = as_typed(settings[name])
            progress.detail(f"{name.replace('_', '-')}={value}, chosen: {reason}")
    with progress.stage("allocate"):
        plan = allocated(run)
    plan.check(*run.size())
    on_disk = run.on_disk(plan)
    if checkpoints is not None and on_disk is not None:
        checkpoints.check_disk(*on_disk)
    with progress.stage("train"):
        outcome = run.train(plan, checkpoints)
    with progress.stage("held out"):
        return run.finish(outcome)

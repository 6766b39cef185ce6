"""The life of a run, from a request to a saved model.

    request    what is asked for (requests.py)
    read       the data
    resolve    settings that are not given are chosen from the data, combinations that cannot be are
               refused
    allocate   parameters and the memory plan; a dry run ends here
    train      the parameters; a cluster wraps this stage and no other
    held out   the model is made, and scored or calibrated on held-out data
    save       the model folder
    test       the saved model is scored: a classifier on its test data; word vectors trained with
               --start on similarity and analogies, beside those that they continue

Those from allocate to held out are in `embedx.training.life`. The Python classes, whose data are in
memory, read and resolve by themselves, then run the others.
"""

import contextlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from embedx.distributed.settings import ClusterSettings
from embedx.errors import Setting, joined
from embedx.runtime.memory import MemoryPlan
from embedx.runtime.progress import Progress
from embedx.settings import Record
from embedx.spelling import as_typed
from embedx.storage.replacement import check_output
from embedx.tasks.output import checkpoints_of, command_line, save_model
from embedx.tasks.requests import ClassifyRequest, RunRequest, TrainRequest
from embedx.training import life
from embedx.training.checkpoint import Checkpoints
from embedx.training.life import DiskNeeds, Model, TrainedModel
from embedx.training.strategy import Wrap


class ResolvedRun(life.TrainableRun[TrainedModel], Protocol):
    """A run with resolved settings, which can be shown."""

    def data_size(self) -> dict[str, int]:
        """Numbers of what the data have, by name."""

    def data_hash(self) -> str:
        """A hash of the data, as they were read."""


class Task(Protocol):
    """What a kind of request does at each stage.

    options  the settings that were given, in the request or by the recipe of its data, by name
    """

    options: Record
    cluster: ClusterSettings

    @property
    def objective(self) -> str:
        """The name of the objective. Where none is given, the training data are read to choose."""

    @property
    def output(self) -> Path:
        """The folder of the model; without --output it depends on the objective."""

    def check_place(self) -> None:
        """Raise `EmbedxError` if the output has a wrong place or name, as far as this is known
        before the data are read.
        """

    def command(self) -> str:
        """The command that trains the same model, in full."""

    @property
    def inherited(self) -> Record:
        """Settings of the model that training continues from, where they are not given and not
        the defaults.
        """

    def read(self) -> AbstractContextManager[Any]:
        """The data to train on."""

    def resolved_run(self, data: Any, wrap: Wrap | None = None) -> ResolvedRun:
        """The run on these data; `wrap` makes what trains in place of this machine."""

    def scores(self, trained: Any) -> dict[str, float] | None:
        """The metrics of the saved model on test data, if there are any."""


@dataclass(frozen=True)
class Planned:
    """What a run would be.

    origins  why settings were chosen, by name
    on_disk  None where it is not known before training
    """

    output: Path
    settings: Record
    origins: Mapping[str, str]
    data_size: dict[str, int]
    memory: MemoryPlan
    on_disk: DiskNeeds | None
    data_hash: str


@dataclass(frozen=True)
class Finished:
    """A trained model, the folder that it was saved in, and its metrics on test data."""

    output: Path
    trained: TrainedModel
    metrics: dict[str, float] | None

    @property
    def model(self) -> Model:
        return self.trained.model


def task_of(request: RunRequest, progress: Progress) -> Task:
    """The task of a request."""
    # imported here, because a run is of one of them
    if isinstance(request, TrainRequest):
        from embedx.tasks.words import WordTask

        return WordTask(request, progress)
    assert isinstance(request, ClassifyRequest)
    from embedx.tasks.labels import LabelTask

    return LabelTask(request, progress)


def run_request(request: RunRequest, progress: Progress) -> Finished:
    """Train a model and save it.

    Raises `EmbedxError` for what the user can mend, and `DivergedError` when training diverges; its
    message names the folder, if a model was saved.
    """
    task = task_of(request, progress)
    task.check_place()
    with contextlib.ExitStack() as stack:
        # A missing cluster is reported before data are read.
        wrap = stack.enter_context(_connected(task, progress))
        # From here on data may be read: a folder that is named after the objective is known once
        # they have chosen one.
        checkpoints = checkpoints_of(request, task.output, progress)
        # A run that resumes overwrites the model that the interrupted run left.
        overwrite = request.overwrite or checkpoints.is_resuming
        check_output(task.output, overwrite)
        stack.enter_context(checkpoints.locked())
        progress.note(task.command())
        note_inherited(progress, task.inherited)
        trained = train_task(task, progress, checkpoints, wrap)
        trained.model.facts["command"] = command_line(request)
        with progress.stage("save"):
            place = save_model(
                lambda folder: trained.model.save(folder, overwrite),
                task.output,
                checkpoints,
                trained.outcome,
            )
            trained = trained.without_state()
        with progress.stage("test"):
            metrics = task.scores(trained)
        return Finished(place, trained, metrics)


def train_task(
    task: Task,
    progress: Progress,
    checkpoints: Checkpoints | None = None,
    wrap: Wrap | None = None,
) -> TrainedModel:
    """The trained model of a task."""
    with _opened_run(task, progress, wrap) as run:
        settings = run.used_settings() | task.cluster.record()
        note_settings(progress, task.options, settings)
        return life.train_model(run, checkpoints)


def plan_request(request: RunRequest, progress: Progress) -> Planned:
    """What a run would be: all stages up to `allocate`. Nothing is written but to the caches."""
    task = task_of(request, progress)
    task.check_place()
    check_output(task.output, request.overwrite or request.resume)
    with _opened_run(task, progress) as run:
        memory = life.allocate(run)
        return Planned(
            task.output,
            run.used_settings(),
            run.origins,
            run.data_size(),
            memory,
            run.on_disk(memory),
            run.data_hash(),
        )


@contextlib.contextmanager
def _opened_run(task: Task, progress: Progress, wrap: Wrap | None = None) -> Iterator[ResolvedRun]:
    """The run of a task on its data, which are read and stay open meanwhile."""
    with contextlib.ExitStack() as stack:
        with progress.stage("read"):
            data = stack.enter_context(task.read())
        with progress.stage("resolve"):
            run = task.resolved_run(data, wrap)
        yield run


@contextlib.contextmanager
def _connected(task: Task, progress: Progress) -> Iterator[Wrap | None]:
    """What makes workers of the cluster train, while this process is connected to it; None without
    a cluster.
    """
    if not task.cluster.is_asked_for:
        yield None
        return
    from embedx.distributed.connection import connected
    from embedx.distributed.strategy import by_workers

    with connected(task.cluster, task.options.get("threads"), progress) as size:
        yield by_workers(task.cluster, size)


def note_inherited(progress: Progress, inherited: Record) -> None:
    """Log the settings that are those of the model that training continues from."""
    if inherited:
        settings = [Setting(name, value) for name, value in inherited.items()]
        progress.note("as in the model of ", Setting("start"), ": ", joined(settings, " "))


def note_settings(progress: Progress, given: Mapping[str, Any], settings: Record) -> None:
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

"""What a run is asked for: a frozen dataclass, which the command line makes of options, Python of
arguments, `embedx compare` for each of its runs, and `embedx resume` of what a checkpoint keeps.
"""

import abc
import dataclasses
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar, Self, get_type_hints

from embedx.settings import Record

# Fields that change no result, and may be others when a run is resumed. Those of "options" are
# compared one by one.
CHANGEABLE = frozenset(
    {
        "options",
        "output",
        "resume",
        "overwrite",
        "cache_dir",
        "checkpoint_every",
        "log_json",
        "as_json",
        "quiet",
        "verbose",
        "dry_run",
    }
)


@dataclasses.dataclass(frozen=True, kw_only=True)
class Request:
    """What every command has.

    options  the settings that were given, by name
    """

    quiet: bool = False
    verbose: bool = False
    options: Record = dataclasses.field(default_factory=dict)

    @property
    def log(self) -> Path | None:
        """The file of --log-json."""
        return None

    def arguments(self) -> Record:
        """The fields as JSON types."""
        values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self)}
        return {name: str(v) if isinstance(v, Path) else v for name, v in values.items()}

    @classmethod
    def of_arguments(cls, arguments: Mapping[str, Any]) -> Self:
        """The request that `arguments` were made of."""
        hints = get_type_hints(cls)
        paths = {name for name, kind in hints.items() if kind in (Path, Path | None)}
        values: Record = {
            name: Path(value) if name in paths and value is not None else value
            for name, value in arguments.items()
        }
        return cls(**values)


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest(Request, abc.ABC):
    """What `embedx train` and `embedx classify` share: a run that writes a model folder.

    output   by default named after the data
    dry_run  end after the stage that allocates
    """

    command: ClassVar[str]

    objective: str | None = None
    output: Path | None = None
    overwrite: bool = False
    checkpoint_every: str = "10m"
    resume: bool = False
    log_json: Path | None = None
    dry_run: bool = False
    as_json: bool = False

    @property
    def log(self) -> Path | None:
        return self.log_json

    def changeable_names(self) -> frozenset[str]:
        """Fields and settings that change no result, and may be others when a run is resumed."""
        if self.options.get("deterministic"):
            return CHANGEABLE | {"threads"}
        return CHANGEABLE

    def to_json(self) -> str:
        """The request, for another process."""
        return json.dumps({"command": self.command, "arguments": self.arguments()})

    @property
    @abc.abstractmethod
    def data(self) -> list[str]:
        """What the command trains on, as it was typed."""


@dataclasses.dataclass(frozen=True, kw_only=True)
class TrainRequest(RunRequest):
    """`embedx train`.

    corpora    files, globs, directories, URLs, names of `embedx corpus list`, - for standard input
    collapsed  count all pairs first, then take full gradient steps; --epochs are iterations
    """

    command = "train"

    corpora: list[str]
    collapsed: bool = False
    cache_dir: Path | None = None

    @property
    def data(self) -> list[str]:
        return self.corpora


@dataclasses.dataclass(frozen=True, kw_only=True)
class ClassifyRequest(RunRequest):
    """`embedx classify`.

    objective    output layer; by default chosen from the data; `embedx objectives` lists all
    train        {formats} files, globs, folders, DATA@SPLIT[:COLUMN], digits
    label_names  names of the labels from 0 on: one per line, or ID TAB ... TAB NAME
    start        continue training this model folder on new rows, which may have new labels
    """

    command = "classify"

    train: list[str]
    train_labels: str | None = None
    test: str | None = None
    test_labels: str | None = None
    label_names: str | None = None
    start: str | None = None

    @property
    def data(self) -> list[str]:
        return self.train


RUNS: dict[str, type[RunRequest]] = {kind.command: kind for kind in (TrainRequest, ClassifyRequest)}


def request_of_json(text: str) -> RunRequest:
    """The request of `RunRequest.to_json`."""
    request = json.loads(text)
    return RUNS[request["command"]].of_arguments(request["arguments"])

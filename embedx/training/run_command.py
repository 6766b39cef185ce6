"""The command of a run, kept beside its checkpoints in run.json: `embedx resume` starts it again,
and only the same command resumes it.
"""

import contextlib
import json
import os
import stat
from collections.abc import Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedx.errors import DataError, Setting, Text
from embedx.runtime import atomic, shell
from embedx.settings import Options, Record
from embedx.storage import description
from embedx.storage.replacement import is_model
from embedx.training.checkpoint_folder import PARTIAL_RUN, RUN, folder_of
from embedx.training.state_file import DAMAGED


@dataclass(frozen=True)
class RunCommand:
    """A command, and where it was started: enough to start it again.

    name       "train" or "classify"
    arguments  the fields of its request as JSON types; "options" has the settings that were given
    packages   the packages of its objective and sampler, if embedx does not have them
    directory  the working folder
    """

    name: str
    arguments: Options
    packages: Options = field(default_factory=dict)
    directory: str = field(default_factory=os.getcwd)

    def changes(self, other: "RunCommand", changeable: Collection[str]) -> list[str]:
        """The names of arguments and settings that differ, except those that are `changeable`."""
        ours = self._by_name()
        theirs = other._by_name()
        names = (ours.keys() | theirs.keys()) - set(changeable)
        return sorted(name for name in names if ours.get(name) != theirs.get(name))

    def _by_name(self) -> Record:
        options = self.arguments.get("options") or {}
        about = {"command": self.name, "directory": self.directory}
        return {**self.arguments, **options, **about}

    def write(self, folder: Path) -> None:
        """Write the file of the command in a folder of checkpoints."""
        run = {
            "embedx": description.installed_version(),
            "command": self.name,
            "arguments": dict(self.arguments),
            "directory": self.directory,
            "packages": dict(self.packages),
        }
        with atomic.replacing(folder / RUN, folder / PARTIAL_RUN) as out:
            out.write(description.json_text(run).encode())


def read_command(output: Path) -> RunCommand:
    """The command of the run whose checkpoints are next to `output`. Raises `EmbedxError` if there
    are none.
    """
    file = folder_of(output) / RUN
    try:
        run = _as_named_here(json.loads(file.read_bytes()))
        command = RunCommand(
            name=str(run["command"]),
            arguments=dict(run["arguments"]),
            packages=dict(run["packages"]),
            directory=str(run["directory"]),
        )
        version = run["embedx"]
    except FileNotFoundError:
        problem = f"no run to resume: there is no {os.path.basename(file.parent)} beside it"
        remedy: Text = "start it with its original command"
        if file.parent.is_dir():
            problem = "no run to resume: it ended before it wrote a checkpoint"
        elif is_model(output):
            problem = "no run to resume: this model is complete"
            remedy = ("use it, or train it on other data with ", Setting("start", output.name))
        raise DataError(output, None, problem, remedy) from None
    except DAMAGED as error:
        raise damaged(file, str(error)) from error
    if version != description.installed_version():
        problem = f"of embedx {version}, while this is {description.installed_version()}"
        again = ("start the run again with ", Setting("overwrite", True))
        raise DataError(file, None, problem, ("resume it with that version, or ", again))
    return command


def _as_named_here(value: Any) -> Any:
    """JSON with its strings, names of files, decoded by the locale of this process, which may
    differ from that of the process that wrote them. Strings that cannot be decoded are kept.
    """
    if isinstance(value, dict):
        return {key: _as_named_here(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_as_named_here(item) for item in value]
    if isinstance(value, str):
        with contextlib.suppress(UnicodeError):
            return os.fsdecode(value.encode("utf-8", "surrogateescape"))
    return value


def damaged(file: Path, problem: str) -> DataError:
    """The error for a damaged file of a command."""
    remedy = ("start the run again with its command and ", Setting("overwrite", True))
    return DataError(file, None, f"damaged ({problem})", remedy)


def check_trusted(file: Path) -> None:
    """Raise `DataError` if other users than this one and root may have written the file."""
    if os.name != "posix":
        return
    for path in (file, file.parent):
        status = path.stat()
        if status.st_uid not in (os.geteuid(), 0) or status.st_mode & stat.S_IWOTH:
            problem = "other users can write it, and it names a cluster or a log"
            remedy = "make it your own with chown and chmod o-w, once you know what is in it"
            raise DataError(path, None, problem, remedy)


def resume_command(output: Path) -> str:
    """The command that resumes a run, for a shell."""
    return shell.command_line(["embedx", "resume", str(output)])

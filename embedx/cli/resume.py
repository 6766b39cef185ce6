"""The work of `embedx resume`: the request of an interrupted run, from the command that is kept
beside its checkpoints.
"""

import dataclasses
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, get_type_hints

from embedx import objectives
from embedx.cli.requests import fits, is_required
from embedx.cli.setting_options import SETTING_OPTIONS
from embedx.errors import DataError, EmbedxError
from embedx.settings import Options, check
from embedx.tasks.requests import RUNS, RunRequest
from embedx.training.checkpoint_folder import RUN, folder_of, output_of
from embedx.training.run_command import RunCommand, check_trusted, damaged, read_command


def request_to_resume(output: Path) -> RunRequest:
    """The request of the run that writes `output`, or has that folder of checkpoints; it resumes.
    Enters the folder that the run was started in.

    Raises `EmbedxError` if there is no such run, or what is kept of it cannot be used.
    """
    output = output_of(output).absolute()
    command = read_command(output)
    file = folder_of(output) / RUN
    kind = RUNS.get(command.name)
    if kind is None:
        raise damaged(file, f"no command {command.name}")
    options = command.arguments.get("options") or {}
    if command.packages:
        # whose settings are unknown where they are missing
        facts = {"objective": command.arguments.get("objective"), "packages": command.packages}
        objectives.check_packages(file.parent, facts, options)
    _check_arguments(file, command, kind)
    _check_settings(file, command.name, options)
    if options.get("cluster") or command.arguments.get("log_json"):
        check_trusted(file)
    _enter(file, command)
    return dataclasses.replace(kind.of_arguments(command.arguments), output=output, resume=True)


def _check_arguments(file: Path, command: RunCommand, kind: type[RunRequest]) -> None:
    """Raise `EmbedxError` if the arguments in the `file` are not those of such a request."""
    types: Mapping[str, Any] = get_type_hints(kind)
    for name, value in command.arguments.items():
        if name not in types:
            raise damaged(file, f"{command.name} has no argument {name}")
        if not fits(value, types[name]):
            raise damaged(file, f"{name} is {value!r}")
    for field in dataclasses.fields(kind):
        if is_required(field) and field.name not in command.arguments:
            raise damaged(file, f"no {field.name}")


def _check_settings(file: Path, command: str, options: Options) -> None:
    """Raise `EmbedxError` if the settings in the `file` are not those of the command."""
    known = SETTING_OPTIONS[command]()
    for name, value in options.items():
        if name not in known:
            raise damaged(file, f"{command} has no setting {name}")
        try:
            check(known[name].field, value)
        except EmbedxError as error:
            raise damaged(file, str(error)) from error


def _enter(file: Path, command: RunCommand) -> None:
    """Change to the working folder of a run."""
    try:
        os.chdir(command.directory)
    except OSError as error:
        folder = command.directory
        problem = f"the folder it was started in, {folder}, cannot be entered: {error.strerror}"
        raise DataError(file, None, problem, "restore that folder") from error

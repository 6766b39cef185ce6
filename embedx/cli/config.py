"""The options of a command in a TOML file: `--config FILE` reads one, `--save-config FILE` writes one.

    objective = "ar"
    dim = 200
    time-budget = "10m"
    local-decay = 0.5

Keys are the names of options, and of settings that are given by --set. The command line has priority.
"""

import inspect
import json
import shlex
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import typer
from typer.models import ArgumentInfo

from embedx.errors import EmbedxError, near
from embedx.settings import kind_of, read_value
from embedx.storage import atomic

OF_ONE_RUN = ("output", "overwrite", "resume", "log_json", "as_json", "quiet", "verbose")  # not saved


def load(ctx: typer.Context, path: Path | None) -> dict[str, Any]:
    """Take the options in a file as the defaults of the command; returns its fine settings, which have no option.

    Raises `EmbedxError`, which names the file and the key, for an unknown option or a wrong value.
    """
    if path is None:
        return {}
    import tomllib  # here, because `embedx --help` does not need it

    command: Any = ctx.command
    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise EmbedxError(f"--config {path}: cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:  # also text that is not UTF-8, and numbers of thousands of digits
        raise EmbedxError(f'{path}: not TOML: {error}; lines look like epochs = 5 or objective = "ar"') from error
    options = {name[2:]: each for each in command.params for name in each.opts if name.startswith("--")}
    for name in ("set", "config", "save-config"):
        options.pop(name, None)
    ctx.default_map, fine = {}, {}
    for given, value in found.items():
        name = given.replace("_", "-")
        setting = command.settings.get(name.replace("-", "_"))
        if setting is None and name not in options:
            remedy = near(name, options, f"`embedx {command.name} --help-all` shows them")
            raise EmbedxError(f"{path}: {given}: no option of `embedx {command.name}` that a file may have; {remedy}")
        is_switch = kind_of(setting.field) is bool if setting else options[name].is_flag
        if is_switch != isinstance(value, bool):
            raise EmbedxError(f"{path}: {given}: must be {'true or false' if is_switch else 'a number or a text'}")
        if setting is not None:
            try:
                read = read_value(setting.field, str(value).lower() if is_switch else str(value))
            except EmbedxError as error:
                raise EmbedxError(f"{path}: {given}: {error}") from error
            if setting.is_fine:
                fine[setting.field.name] = read
                continue
        is_list = isinstance(value, list) or is_switch
        ctx.default_map[setting.field.name if setting else options[name].name] = value if is_list else str(value)
    return fine


def given(values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """The values of options other than the defaults, as far as they are to be saved."""
    options = [each for each in parameters if not isinstance(each.annotation.__metadata__[0], ArgumentInfo)]
    saved = [each for each in options if each.name in values and each.name not in OF_ONE_RUN]
    return {each.name: values[each.name] for each in saved if values[each.name] not in (None, each.default)}


def save(path: Path, values: Mapping[str, Any], command: str, *, overwrite: bool) -> None:
    """Write a file that `load` reads. Raises `EmbedxError` if it cannot be written, or another is there and `overwrite` is
    false.
    """
    lines = [f"{name.replace('_', '-')} = {_toml(value)}\n" for name, value in values.items()]
    text = "".join([f"# {command} --config {shlex.quote(path.name)}\n", *lines])
    try:
        if path.exists() and not overwrite and path.read_bytes() != text.encode():
            raise EmbedxError(f"--save-config {path}: exists already; add --overwrite, or choose another name")
        atomic.write_text(path, text)
    except OSError as error:
        raise EmbedxError(f"--save-config {path}: cannot be written: {error.strerror or error}") from error


def _toml(value: Any) -> str:
    """A value in TOML, which is JSON's notation but for paths and DEL."""
    return json.dumps(value, ensure_ascii=False, default=str).replace("\x7f", "\\u007f")

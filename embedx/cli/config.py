"""The options of a command in a TOML file: `--config FILE` reads one, `--save-config FILE` writes one.

    objective = "ar"
    dim = 200
    time-budget = "10m"

Keys are the names of options, without dashes before them; what is typed comes before what is in the file.
"""

import dataclasses
import inspect
import json
import shlex
import types
import typing
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

from embedx.errors import EmbedxError, near
from embedx.settings import check
from embedx.storage import atomic

NOT_IN_FILES = ("config", "save_config", "help_all", "typed")
OF_ONE_RUN = ("output", "overwrite", "resume", "log_json", "as_json", "quiet", "verbose")  # what is not saved


class Key(NamedTuple):
    """An option as a file has it: its parameter, the type of its value, and its setting if it is one."""

    name: str
    kind: type
    is_list: bool = False
    field: dataclasses.Field[Any] | None = None


def keys_of(parameters: Iterable[inspect.Parameter], fields: Mapping[str, dataclasses.Field[Any]]) -> dict[str, Key]:
    """The keys that files of a command may have, by these parameters, of which some are settings."""
    found = {}
    for parameter in parameters:
        kind, option = parameter.annotation.__origin__, parameter.annotation.__metadata__[0]
        flags = [each for each in (option.default, *(option.param_decls or ())) if str(each).startswith("--")]
        if parameter.name in NOT_IN_FILES or option.hidden or not flags:
            continue  # an argument has no name to be typed
        if isinstance(kind, types.UnionType):
            kind = next(each for each in typing.get_args(kind) if each is not type(None))
        is_list = typing.get_origin(kind) is list
        kind = typing.get_args(kind)[0] if is_list else kind
        name = flags[0].split("/")[0].removeprefix("--")
        found[name] = Key(parameter.name, kind, is_list, fields.get(parameter.name))
    return found


def read(path: str | Path, keys: Mapping[str, Key], command: str) -> dict[str, Any]:
    """The options in a file, by parameter and as the command line would have them.

    Raises `EmbedxError`, which names the file and the key, for what is no option of the command or no value of it.
    """
    import tomllib  # here, as `embedx --help` has no use for it

    try:
        found = tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise EmbedxError(f"--config {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise EmbedxError(f"{path}: not UTF-8, which TOML is (byte {error.start})") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is the former as well
        raise EmbedxError(f'{path}: not TOML: {error}; lines look like epochs = 5 or objective = "ar"') from error
    options = {}
    for given, value in found.items():
        name = given.replace("_", "-")
        if name not in keys:
            remedy = near(name, keys, f"`{command} --help` shows them")
            raise EmbedxError(f"{path}: {given}: no option of `{command}` that a file may have; {remedy}")
        options[keys[name].name] = _as_typed(path, given, keys[name], value)
    return options


def _as_typed(path: str | Path, name: str, key: Key, value: Any) -> Any:
    """A value of a file as the command line would have it, once it is known to be one."""
    if key.is_list:
        values = value if isinstance(value, list) else [value]
        return [_as_typed(path, name, key._replace(is_list=False), each) for each in values]
    parse = key.field.metadata["parse"] if key.field else None
    wanted = _wanted(key.kind, parse is not None, value)
    if wanted:
        raise EmbedxError(f"{path}: {name}: must be {wanted}, not {json.dumps(value, default=str)}")
    if key.field is not None:
        try:
            check(key.field, parse(value) if parse and isinstance(value, str) else value)
        except EmbedxError as error:
            raise EmbedxError(f"{path}: {name}: {error}") from error
    if isinstance(value, bool) or parse:
        return value
    return repr(value) if isinstance(value, float) else str(value)


def _wanted(kind: type, is_parsed: bool, value: Any) -> str:
    """What a value of the wrong type should be; "" where it is right."""
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if kind is bool:
        return "" if isinstance(value, bool) else "true or false"
    if is_parsed:
        return "" if is_number or isinstance(value, str) else "a number or a string"
    if kind is int:
        return "" if is_number and isinstance(value, int) else "a whole number"
    if kind is float:
        return "" if is_number else "a number"
    return "" if isinstance(value, str) else "a string"


def given(values: Mapping[str, Any], parameters: Iterable[inspect.Parameter], keys: Mapping[str, Key]) -> dict[str, Any]:
    """Those values of parameters, by key, that are to be saved: what was given and is not of one run."""
    defaults = {each.name: each.default for each in parameters}
    return {
        name: values[key.name]
        for name, key in keys.items()
        if key.name not in OF_ONE_RUN and values.get(key.name) not in (None, defaults[key.name])
    }


def save(path: Path, values: Mapping[str, Any], command: str, *, overwrite: bool) -> None:
    """Write a file that `read` reads, complete or not at all. What stands there already may be replaced by the same, or if
    `overwrite`. Raises `EmbedxError` where it cannot.
    """
    text = "".join(
        [f"# {command} --config {shlex.quote(path.name)}\n", *(f"{name} = {_toml(value)}\n" for name, value in values.items())]
    )
    try:
        if path.exists() and not overwrite and path.read_bytes() != text.encode():
            raise EmbedxError(f"--save-config {path}: exists already; add --overwrite, or choose another name")
        atomic.write_text(path, text)
    except OSError as error:
        raise EmbedxError(f"--save-config {path}: cannot be written: {error.strerror or error}") from error


def _toml(value: Any) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")

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

from typer.models import ArgumentInfo

from embedx.cli.options import Option
from embedx.errors import EmbedxError, near
from embedx.settings import described, kind_of, read_value
from embedx.storage import atomic

NOT_IN_FILES = ("--config", "--save-config", "--help", "--set")
OF_ONE_RUN = ("output", "overwrite", "resume", "log_json", "as_json", "quiet", "verbose")  # not saved


def read(path: str, known: Mapping[str, bool], settings: Mapping[str, Option], command: str) -> list[str]:
    """The options in a file, as words of the command line.

    known     the options of the command, each with whether a value follows it

    Raises `EmbedxError`, which names the file and the key, for an unknown option or a wrong value.
    """
    import tomllib  # here, because `embedx --help` does not need it

    try:
        found = tomllib.loads(Path(path).read_bytes().decode("utf-8"))
    except OSError as error:
        raise EmbedxError(f"--config {path}: cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise EmbedxError(f"{path}: not UTF-8, which TOML is (byte {error.start})") from error
    except (ValueError, RecursionError) as error:  # a number of thousands of digits is the former as well
        raise EmbedxError(f'{path}: not TOML: {error}; lines look like epochs = 5 or objective = "ar"') from error
    options = {name[2:] for name in known if name.startswith("--") and name not in NOT_IN_FILES}
    options = {name for name in options if name.removeprefix("no-") not in options - {name}}
    words: list[str] = []
    for given, value in found.items():
        name = given.replace("_", "-")
        setting = settings.get(name.replace("-", "_"))
        if name not in options and setting is None:
            remedy = near(name, options, f"`{command} --help` shows them")
            raise EmbedxError(f"{path}: {given}: no option of `{command}` that a file may have; {remedy}")
        try:
            for each in value if isinstance(value, list) and setting is None else [value]:
                words += _words(f"--{name}", each, setting, has_value=known.get(f"--{name}", True))
        except EmbedxError as error:
            raise EmbedxError(f"{path}: {given}: {error}") from error
    return words


def _words(flag: str, value: Any, setting: Option | None, *, has_value: bool) -> list[str]:
    """An option and its value as they would be typed."""
    kind: Any = (str if has_value else bool) if setting is None else kind_of(setting.field)
    taken = {bool: bool, int: int, float: int | float}.get(kind, str)
    if setting is not None and setting.field.metadata["parse"]:
        taken = int | float | str
    if not isinstance(value, taken) or (isinstance(value, bool) and kind is not bool):
        wanted = "true or false" if kind is bool else described(setting.field) if setting else "text"
        raise EmbedxError(f"must be {wanted}, not {json.dumps(value, default=str)}")
    text = ("yes" if value else "no") if isinstance(value, bool) else str(value)
    if setting is not None:
        read_value(setting.field, text)  # refuses a value out of range here, where the key is known
        if setting.is_fine:
            return ["--set", f"{flag[2:]}={text}"]
    if has_value:
        return [flag, text]
    return [flag] if value else [f"--no-{flag[2:]}"] if setting is not None else []


def given(values: Mapping[str, Any], parameters: Iterable[inspect.Parameter]) -> dict[str, Any]:
    """The values of options other than the defaults, as far as they are to be saved."""
    options = [each for each in parameters if not isinstance(each.annotation.__metadata__[0], ArgumentInfo)]
    saved = [each for each in options if each.name in values and each.name not in OF_ONE_RUN]
    return {each.name: values[each.name] for each in saved if values[each.name] not in (None, each.default)}


def save(path: Path, values: Mapping[str, Any], command: str, *, overwrite: bool) -> None:
    """Write a file that `read` reads. Raises `EmbedxError` if it cannot be written, or another is there and `overwrite` is
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
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int | float):
        return repr(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")

"""The options of a command in a TOML file, read by `--config FILE`.

    objective = "ar"
    dim = 200
    time-budget = "10m"
    local-decay = 0.5

Keys are the names of options, and of settings that are given by --set. The command line has
priority.
"""

from pathlib import Path
from typing import Any

from embedx.errors import DataError, SettingError
from embedx.settings import Record
from embedx.spelling import as_typed


def words_of(path: Path, command: Any) -> list[str]:
    """The options in a file as words of a command line. Raises `EmbedxError` if the file cannot be
    read.
    """
    options = _read(path)
    if "config" in options:
        raise DataError(path, None, "config: a TOML file cannot include another", "leave it out")
    switches = {
        name
        for parameter in command.params
        if getattr(parameter, "is_flag", False)
        for name in (*parameter.opts, *parameter.secondary_opts)
    }
    repeatable = {
        name
        for parameter in command.params
        if getattr(parameter, "multiple", False)
        for name in parameter.opts
    }
    words = []
    for name, value in options.items():
        setting = command.settings.get(name.replace("-", "_"))
        if isinstance(value, list) and f"--{name}" in repeatable:
            words += [f"--{name}={item}" for item in value]
        elif isinstance(value, list | dict):
            kind = "list" if isinstance(value, list) else "table"
            remedy = f'write a line such as {name} = 5; several names are one text, "ns,hs"'
            raise DataError(path, None, f"{name}: a {kind}, where one value is expected", remedy)
        elif setting is not None and setting.is_given_by_set:
            words.append(f"--set={name}={_typed(value)}")
        elif isinstance(value, bool) and f"--{name}" in switches:
            switch = f"--{name}" if value else f"--no-{name}"
            # A switch without its opposite is off if it is left out.
            if switch in switches:
                words.append(switch)
        else:
            words.append(f"--{name}={value}")
    return words


def _read(path: Path) -> Record:
    """The content of a TOML file, with `-` for `_` in its keys. Raises `EmbedxError` if it cannot
    be read, or has a key in both forms.
    """
    # Imported here, because `embedx --help` does not need it.
    import tomllib

    try:
        content = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise SettingError("config", path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        # Also text that is not UTF-8, and numbers of thousands of digits.
        remedy = 'write lines such as epochs = 5 or objective = "ar"'
        raise DataError(path, None, f"not TOML: {error}", remedy) from error
    options: Record = {}
    for key, value in content.items():
        name = key.replace("_", "-")
        if name in options:
            problem = f"{name}: given twice, once with - and once with _"
            raise DataError(path, None, problem, "leave one of them out")
        options[name] = value
    return options


def _typed(value: object) -> object:
    """A value of TOML as it is typed."""
    return as_typed(value) if isinstance(value, bool) else value

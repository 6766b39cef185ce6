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
    words = []
    for key, values in options.items():
        name = key.replace("_", "-")
        setting = command.settings.get(name.replace("-", "_"))
        is_by_set = setting is not None and setting.is_given_by_set
        for value in values if isinstance(values, list) else [values]:
            if is_by_set:
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
    """The content of a TOML file. Raises `EmbedxError` if it cannot be read."""
    # Imported here, because `embedx --help` does not need it.
    import tomllib

    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise SettingError("config", path, f"cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        # Also text that is not UTF-8, and numbers of thousands of digits.
        remedy = 'write lines such as epochs = 5 or objective = "ar"'
        raise DataError(path, None, f"not TOML: {error}", remedy) from error


def _typed(value: object) -> object:
    """A value of TOML as it is typed."""
    return as_typed(value) if isinstance(value, bool) else value

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
from embedx.settings import as_typed


def words_of(path: Path, command: Any) -> list[str]:
    """The options in a file as words of a command line. Raises `EmbedxError` if the file cannot be
    read.
    """
    import tomllib  # here, because `embedx --help` does not need it

    try:
        found = tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except OSError as error:
        raise SettingError("config", path, f"cannot be read: {error.strerror or error}") from error
    except (
        ValueError,
        RecursionError,
    ) as error:  # also text that is not UTF-8, and numbers of thousands of digits
        remedy = 'lines look like epochs = 5 or objective = "ar"'
        raise DataError(path, None, f"not TOML: {error}", remedy) from error
    if "config" in found:
        raise DataError(path, None, "config: a TOML file cannot include another", "leave it out")
    switches = {
        name
        for each in command.params
        if getattr(each, "is_flag", False)
        for name in (*each.opts, *each.secondary_opts)
    }
    words = []
    for key, values in found.items():
        name = key.replace("_", "-")
        setting = command.settings.get(name.replace("-", "_"))
        for value in values if isinstance(values, list) else [values]:
            if setting is not None and setting.is_fine:
                words.append(
                    f"--set={name}={as_typed(value) if isinstance(value, bool) else value}"
                )
            elif isinstance(value, bool) and f"--{name}" in switches:
                switch = f"--{name}" if value else f"--no-{name}"
                words += [switch] if switch in switches else []
            else:
                words.append(f"--{name}={value}")
    return words

"""Settings as they are typed on the command line: `--min-count 0`, `--set rescore=no`."""

from collections.abc import Collection
from typing import Any

from embedx.errors import Setting, value_text
from embedx.settings import Options, is_given_by_set

SHELL_CHARACTERS = set(" ;|&<>()$*?`")


def option_name(
    name: str, without_option: Collection[str] = (), with_option: Collection[str] = ()
) -> str:
    """The option of a setting: `--min-count`, or `--set local-decay` for a setting given by --set.

    without_option  settings that this command takes by --set, although others have options for them
    with_option     settings that this command has options for, although others take them by --set
    """
    is_by_set = name in without_option or (name not in with_option and is_given_by_set(name))
    return ("--set " if is_by_set else "--") + name.replace("_", "-")


def on_command_line(
    setting: Setting, without_option: Collection[str] = (), with_option: Collection[str] = ()
) -> str:
    """A setting on the command line: `--min-count 0`, `--no-lowercase`, `--set rescore=no`; for a
    command with exceptions as in `option_name`.
    """
    name = option_name(setting.name, without_option, with_option)
    if setting.value is None:
        return name
    value = as_typed(setting.value)
    if name.startswith("--set "):
        assignment = f"{name.removeprefix('--set ')}={value}"
        return f"--set {_for_shell(assignment)}"
    if isinstance(setting.value, bool):
        return name if setting.value else f"--no-{name[2:]}"
    return f"{name} {_for_shell(value)}"


def _for_shell(word: str) -> str:
    """The word, quoted if it has characters special to a shell."""
    return f"'{word}'" if SHELL_CHARACTERS & set(word) and "'" not in word else word


def as_arguments(options: Options) -> list[str]:
    """Settings as arguments of a command."""
    words = []
    for name, value in options.items():
        flag = option_name(name)
        if is_given_by_set(name):
            text = as_typed(value) if isinstance(value, bool) else value
            words += ["--set", f"{flag.removeprefix('--set ')}={text}"]
        elif isinstance(value, bool):
            words.append(flag if value else f"--no-{flag[2:]}")
        else:
            words += [flag, str(value)]
    return words


def as_typed(value: Any) -> str:
    """A setting's value as the user would type it."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:g}" if isinstance(value, float) else value_text(value)

"""How messages of a command spell the settings that they name."""

from collections.abc import Sequence
from functools import partial

from embedx.cli.requests import parameters_of
from embedx.errors import Spelling
from embedx.spelling import on_command_line


def spelling_of(words: Sequence[str]) -> Spelling:
    """Spells settings as the command of these words, the first after `embedx`, takes them.

    `embedx predict` has an option --threshold, which for `embedx train` is given by --set; `embedx
    classify` takes by --set what is an option of `embedx train`.
    """
    from embedx.cli.app import COMMANDS
    from embedx.cli.setting_options import SETTING_OPTIONS

    commands = {path: command for group in COMMANDS.values() for path, command in group.items()}
    paths = (" ".join(words[:2]), " ".join(words[:1]))
    path = next((path for path in paths if path in commands), None)
    if path is None:
        return on_command_line
    with_option = {parameter.name for parameter in parameters_of(commands[path])}
    settings = SETTING_OPTIONS[path]() if path in SETTING_OPTIONS else {}
    without_option = {name for name, option in settings.items() if option.is_given_by_set_here}
    return partial(on_command_line, without_option=without_option, with_option=with_option)

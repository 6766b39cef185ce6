"""How messages of a command spell the settings that they name."""

from collections.abc import Sequence
from functools import partial

from embedx.errors import Spelling
from embedx.settings import on_command_line


def spelling_of(words: Sequence[str]) -> Spelling:
    """Spells settings as the command of these words, the first after `embedx`, takes them.

    A few that have an option elsewhere are given by --set there.
    """
    from embedx.cli.options import SETTINGS

    paths = (" ".join(words[:2]), " ".join(words[:1]))
    path = next((path for path in paths if path in SETTINGS), None)
    if path is None:
        return on_command_line
    by_set = {name for name, option in SETTINGS[path]().items() if option.by_set}
    return partial(on_command_line, by_set=by_set)

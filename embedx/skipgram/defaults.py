"""Defaults by kind of data: text, sessions of items, walks over a graph.

`configure` reads the table as one of its layers. Other defaults are declared with the settings
themselves, or by an objective for itself.
"""

from embedx.graphs.settings import DEFAULTS as WALK_SETTINGS, SGD_RATE
from embedx.settings import Options, Record
from embedx.text.settings import SESSIONS

TEXT = "text"
WALKS = "walks"

# The objective, unless a kind of data has another one.
OBJECTIVE = "ns"

# A new default for a kind of data is one line here: `"window": 3`. It comes before the default that
# an objective has of its own: `"negatives": 10` is for all objectives that have this setting, also
# for mips, which declares 100, but draws as many for a block as its `draws` say. An objective
# without the setting ignores the line, such as hs, the default for sessions, which draws nothing.
DEFAULTS: dict[str, Record] = {
    TEXT: {},
    SESSIONS: {
        # Predicts next items better than co-occurrence on all data tried (docs/graphs.md#sessions).
        "objective": "hs",
        "epochs": 10,
        "min_count": 1,
        "sample": 0.0,
    },
    WALKS: {
        **WALK_SETTINGS,
        # An epoch has as many walks from each node as are asked for.
        "epochs": 1,
    },
}

# Learning rates of optimizers, where they differ from those for text.
RATES: dict[str, dict[str, float]] = {WALKS: {"sgd": SGD_RATE}}


def kind_of_data(options: Options) -> str:
    """The kind of data that options name."""
    if options.get("walks") is not None:
        return WALKS
    if options.get("format") == SESSIONS:
        return SESSIONS
    return TEXT


def option_of(kind: str) -> str:
    """The option by which the command line names a kind of data."""
    return {SESSIONS: f"--format {SESSIONS}", WALKS: "--walks"}[kind]

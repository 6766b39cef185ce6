"""Defaults by kind of data: text, sessions of items, walks over a graph.

The table is one of the layers of layers.py. Other defaults are declared with the settings
themselves, or by an objective for itself.
"""

from embedx import optimizers
from embedx.graphs.settings import SGD_RATE, WALK_DEFAULTS
from embedx.optimizers.contract import WORDS
from embedx.settings import Options, Record
from embedx.text.settings import SESSIONS

TEXT = "text"
WALKS = "walks"

# The objective, unless a kind of data has another one.
DEFAULT_OBJECTIVE = "ns"

# A new default for a kind of data is one line here: `"window": 3`. It has priority over the default
# of an objective itself. With `"negatives": 10` for sessions
#     objectives that have the setting take 10, whatever their own default
#     hs, the default for sessions, draws nothing and ignores the line
#     mips and others with a default of `draws` keep these draws of a block
DEFAULTS_BY_KIND: dict[str, Record] = {
    TEXT: {},
    SESSIONS: {
        # Predicted next items better than co-occurrence on three sets (docs/graphs.md#sessions).
        "objective": "hs",
        "epochs": 10,
        "min_count": 1,
        "sample": 0.0,
    },
    WALKS: {
        **WALK_DEFAULTS,
        # An epoch has as many walks from each node as are asked for.
        "epochs": 1,
    },
}

# Learning rates of optimizers, where they differ from those for text.
RATES_BY_KIND: dict[str, dict[str, float]] = {WALKS: {"sgd": SGD_RATE}}


# The settings that name the kind of data.
NAMES_OF_KIND = ("walks", "format")


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


def default_rate(optimizer: str, kind: str) -> float:
    """The default learning rate of an optimizer of word vectors for a kind of data."""
    rates = optimizers.find(optimizer, WORDS).rates
    return RATES_BY_KIND.get(kind, {}).get(optimizer, rates[WORDS])

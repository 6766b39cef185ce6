"""Settings of walks over graphs."""

from collections.abc import Mapping
from typing import Any

from embedx.errors import InapplicableError, Setting, SettingError
from embedx.settings import Settings, check_used, param, settings_of

MAX_LENGTH = 5000  # nodes: a chunk of training holds whole walks
# Default learning rate of sgd for walks of at least LARGE_TEXT nodes, in place of 0.06 (measured:
# docs/constants.md).
SGD_RATE = 0.03
# In place of the engine's 16, so that rows of nodes with many neighbours grow less (measured:
# docs/constants.md).
MAX_GRADIENT = 6.0
# Defaults of other settings with --walks.
WALK_DEFAULTS = {"min_count": 1, "sample": 0.0, "window": 10}
# Settings that do not apply with --walks.
OF_TEXT = (
    "tokenizer",
    "lowercase",
    "normalize",
    "format",
    "json_field",
    "column",
    "phrases",
    "subwords",
    "start",
)


class GraphSettings(Settings):
    """Random walks over a graph, which are generated during training and never stored."""

    panel = "Graphs"

    walks: int | None = param(
        None,
        "read CORPORA as edges of a graph, and train on this many walks from each node in each"
        " epoch",
        at_least=1,
        at_most=100_000,
    )
    walk_length: int = param(80, "nodes of a walk", at_least=2, at_most=MAX_LENGTH)
    p: float = param(
        1.0,
        "return parameter of node2vec: the higher, the fewer walks turn back",
        at_least=0.001,
        at_most=1000,
    )
    q: float = param(
        1.0,
        "in-out parameter of node2vec: above 1 walks stay near, below 1 go far",
        at_least=0.001,
        at_most=1000,
    )
    directed: bool = param(False, "follow edges from the first node to the second only")
    weighted: bool = param(
        False, "use the third column as weights, to which edge probabilities are proportional"
    )
    node_types: str | None = param(
        None, "file of a node and its type per line, for --metapath", metavar="path"
    )
    metapath: str | None = param(
        None, "types of nodes that walks visit in turn: author,paper,author", metavar="type,..."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if (self.node_types is None) != (self.metapath is None):
            problem = ("and ", Setting("node_types"), " need each other")
            raise InapplicableError("metapath", None, problem, "give both or neither")
        if self.metapath is not None and (self.p, self.q) != (1, 1):
            by_types = ("goes by types, not by ", Setting("p"), " and ", Setting("q"))
            raise InapplicableError("metapath", None, by_types, "leave these out")
        if self.metapath is not None:
            pattern = [node_type.strip() for node_type in self.metapath.split(",")]
            if len(pattern) < 2 or not all(pattern) or pattern[0] != pattern[-1]:
                wanted = (
                    "two types or more, the last one the first again, such as author,paper,author"
                )
                raise SettingError("metapath", self.metapath, f"must be {wanted}")

    def record(self) -> dict[str, Any]:
        """The settings by name; empty without --walks."""
        return super().record() if self.walks is not None else {}


def graph_settings(options: Mapping[str, Any]) -> GraphSettings | None:
    """The settings of walks among `options`; None without --walks. Raises `EmbedxError` for those
    that do not apply.
    """
    is_graph = options.get("walks") is not None
    check_used(options, [(name, is_graph, Setting("walks")) for name in settings_of(GraphSettings)])
    if not is_graph:
        return None
    for name in OF_TEXT:
        if options.get(name) not in (None, 0, False, "auto"):
            problem = ("does not apply with ", Setting("walks"))
            raise InapplicableError(name, None, problem, "leave it out")
    return GraphSettings.from_options(dict(options))

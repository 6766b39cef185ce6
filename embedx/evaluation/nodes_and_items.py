"""Scores of vectors of nodes and items, as tables: `graphs` and `sessions` have the tests."""

import sys
from collections.abc import Sequence
from typing import Any, NamedTuple

from embedx.errors import InapplicableError, Setting
from embedx.evaluation import graphs, sessions
from embedx.pages.plain import aligned, tab_separated
from embedx.runtime.progress import Progress
from embedx.vectors.model import WordVectors, load

Row = dict[str, Any]


class NodeAndItemTests(NamedTuple):
    """Files to score vectors of nodes and items on, each of which may be None.

    seed  of the splits, and of the pairs that are drawn where `non_links` is None
    """

    links: str | None
    non_links: str | None
    node_labels: str | None
    sessions: str | None
    seed: int


def score_models(
    models: Sequence[str], tests: NodeAndItemTests, progress: Progress
) -> dict[str, list[Row]]:
    """The tables of the tests, by name; of several models with a column for them."""
    if tests.non_links is not None and tests.links is None:
        raise InapplicableError("non_links", None, ("applies only with ", Setting("links")))
    tables: dict[str, list[Row]] = {}
    for path in models:
        for name, rows in score_model(load(path, progress), tests, progress).items():
            if len(models) > 1:
                rows = [{"model": path, **row} for row in rows]
            tables.setdefault(name, []).extend(rows)
    return tables


def score_model(
    model: WordVectors, tests: NodeAndItemTests, progress: Progress
) -> dict[str, list[Row]]:
    """The tables of the tests of one model, by name."""
    tables: dict[str, list[Row]] = {}
    if tests.links:
        tables["links"] = graphs.links(model, tests.links, tests.non_links, tests.seed, progress)
    if tests.node_labels:
        tables["node labels"] = graphs.node_labels(model, tests.node_labels, tests.seed, progress)
    if tests.sessions:
        tables["next item"] = sessions.next_item(model, tests.sessions, progress)
    return tables


def as_table(rows: Sequence[Row]) -> str:
    """Rows with four digits for each number: aligned on a terminal, elsewhere between tabs."""
    cells = [
        [f"{value:.4f}" if isinstance(value, float) else str(value) for value in row.values()]
        for row in rows
    ]
    table = [list(rows[0]), *cells]
    return "\n".join(aligned(table) if sys.stdout.isatty() else tab_separated(table))

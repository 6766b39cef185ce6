"""What the tests of eval share: the package, which is not installed, and records that
are made up.
"""

import json
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:
    sys.path.insert(0, str(ROOT))

from eval.__main__ import EXPERIMENTS, experiment_called  # noqa: E402
from eval.experiment import RESULTS, Run  # noqa: E402
from eval.records import Records  # noqa: E402
from eval.word_tests import POOLED  # noqa: E402

__all__ = [
    "EXPERIMENTS",
    "RESULTS",
    "ROOT",
    "Records",
    "Run",
    "environment",
    "experiment_called",
    "made_up",
    "rows_of",
    "with_word_pairs",
]

MACHINE = {"cpu": "a machine", "cores": 2, "system": "Linux"}


def environment(quick=False, **corpus):
    about = {
        "name": "text8.gz",
        "words": 1000,
        "bytes": 100,
        "one line": True,
        "quick": quick,
    } | corpus
    return {
        "id": "e",
        "command": "the command",
        "corpus": about,
        "machine": MACHINE,
        "versions": {"Python": "3"},
    }


def made_up(path, runs, mixed=False, **about):
    """Records of made-up runs, given as (job, result)."""
    lines = [{"environment": environment(**about)}]
    for job, result in runs:
        ended = "2026-01-02T03:04:05+00:00"
        lines.append(
            {"environment": "e", "job": job, "ended": ended, "sources": "s", "result": result}
        )
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return Records(path, mixed=mixed)


def rows_of(table):
    """The rows of a Markdown table by the first cell, each by column."""
    lines = [
        [cell.strip() for cell in line.strip("|").split(" | ")]
        for line in table.splitlines()
        if line.startswith("|")
    ]
    return {line[0].strip("`"): dict(zip(lines[0], line, strict=True)) for line in lines[2:]}


def with_word_pairs(folder):
    """A folder of data with word pairs."""
    (folder / "wordsim").mkdir()
    for file in POOLED.values():
        (folder / "wordsim" / file).write_text("cat\tdog\t1\n")
    return folder

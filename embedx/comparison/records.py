"""The records of a comparison: JSON Lines, the first about the comparison, then one per trial and run.

    {"comparison": what decides the results: data, time, threads, options, machine, version}
    {"objective": ..., "trial": options, "used": settings, "score": ...}    a trial of --tune; the score may be null
    {"objective": ..., "seed": ..., "ended": when, "result": {...}}         a run that finished
    {"objective": ..., "seed": ..., "ended": when, "diverged": why}         one that diverged
    {"objective": ..., "seed": ..., "ended": when, "failed": why}           one that ended otherwise; it is run again

A result has scores by parts (`embedx.evaluation.statistics`). The file is replaced atomically.
"""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedx.errors import EmbedxError
from embedx.storage import atomic

FILE = "runs.jsonl"
FAILED = ("diverged", "failed")
Run = dict[str, Any]


class Records:
    """The runs of a comparison, in the order in which they ended.

    Those in the folder are among them, unless `overwrite`. Raises `EmbedxError` if they are of another comparison, naming
    what differs, or the file is damaged.
    """

    def __init__(self, folder: Path, identity: Mapping[str, Any], *, overwrite: bool = False) -> None:
        self.file, self.identity = folder / FILE, json.loads(json.dumps(identity))
        self.runs: list[Run] = []
        self.trials: list[Run] = []
        if self.file.exists() and not overwrite:
            self._read()

    def _read(self) -> None:
        lines = self.file.read_text("utf-8", errors="replace").splitlines()
        before = self.identity
        for place, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if place == 1:
                    before = dict(record["comparison"])
                elif "trial" in record:
                    self.trials.append({name: record[name] for name in ("objective", "trial", "used", "score")})
                elif is_of(record, record["objective"], record["seed"]):
                    self.runs.append(record)
            except (ValueError, KeyError, TypeError):
                raise EmbedxError(
                    f"{self.file}:{place}: not a line that `embedx compare` wrote; delete it, or start over with --overwrite"
                ) from None
        differing = sorted(name for name in before.keys() | self.identity if before.get(name) != self.identity.get(name))
        if differing:
            raise EmbedxError(
                f"{self.file}: of a comparison with other {', '.join(differing)}; choose another --output, or start over with "
                "--overwrite instead of --resume"
            )

    def find(self, objective: str, seed: int) -> Run | None:
        """The last record of a run that need not be made again."""
        return next((run for run in reversed(self.runs) if is_of(run, objective, seed) and "failed" not in run), None)

    def add(self, objective: str, seed: int, outcome: Mapping[str, Any]) -> Run:
        """Keep what came of a run, in place of what failed before."""
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        run = {"objective": objective, "seed": seed, "ended": ended, **outcome}
        self.runs = [*(each for each in self.runs if not is_of(each, objective, seed)), run]
        self.save()
        return run

    def find_trial(self, objective: str, options: Mapping[str, Any]) -> Run | None:
        """The record of a trial."""
        return next((each for each in self.trials if each["objective"] == objective and each["trial"] == options), None)

    def add_trial(self, objective: str, options: Mapping[str, Any], outcome: Mapping[str, Any]) -> Run:
        """Keep the outcome of a trial."""
        self.trials.append({"objective": objective, "trial": dict(options), **outcome})
        self.save()
        return self.trials[-1]

    def save(self) -> None:
        """Write the whole file."""
        lines = [{"comparison": self.identity}, *self.trials, *self.runs]
        write_text(self.file, "".join(json.dumps(line) + "\n" for line in lines))


def is_of(run: Run, objective: str, seed: int) -> bool:
    return bool(run["objective"] == objective and run["seed"] == seed)


def write_text(file: Path, text: str) -> None:
    """Replace a file at once. Raises `EmbedxError` if it cannot be written."""
    try:
        atomic.write_text(file, text)
    except OSError as error:
        raise EmbedxError(f"{file}: {error.strerror}; free some space, then continue with --resume") from error

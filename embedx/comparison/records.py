"""The records of a comparison: JSON Lines, the first about the comparison, then one per trial and
run.

    {"comparison": what the results depend on: data, time, threads, options, machine, version}
    {"objective": ..., "trial": options, "full": ..., "ended": when, "score": ..., ...}  a trial of
        --tune, full where it was as long as a run; the score may be null
    {"objective": ..., "seed": ..., "ended": when, "result": {...}}         a run that finished
    {"objective": ..., "seed": ..., "ended": when, "diverged": why}         one that diverged
    {"objective": ..., "seed": ..., "ended": when, "failed": why}           one that ended
        otherwise; it is run again. Why: a string, or the parts of `embedx.errors.text_to_json`
    {..., "refused": true}  besides, where it would fail with any seed

A result has scores by parts (`embedx.evaluation.statistics`). The file is replaced atomically.
"""

import datetime
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from embedx.errors import DataError, Setting
from embedx.runtime.atomic import write_text

START_OVER = ("start over with ", Setting("overwrite", True))

FILE = "runs.jsonl"
FAILED = ("diverged", "failed")
# The record of a run or of a trial.
RunRecord = dict[str, Any]


class Records:
    """The trials and runs of a comparison, in the order in which they ended.

    Includes those in the folder, unless `overwrite`. Raises `EmbedxError` if the file is damaged,
    or belongs to another comparison; the error names what differs.
    """

    def __init__(
        self, folder: Path, identity: Mapping[str, Any], *, overwrite: bool = False
    ) -> None:
        self.file = folder / FILE
        self.identity = json.loads(json.dumps(identity))
        # of trials and of runs
        self.records: list[RunRecord] = []
        if self.file.exists() and not overwrite:
            self._read()

    @property
    def runs(self) -> list[RunRecord]:
        """The records of runs."""
        return [record for record in self.records if "seed" in record]

    def _read(self) -> None:
        """Read the records of the file, if they belong to this comparison."""
        lines = self.file.read_text("utf-8", errors="replace").splitlines()
        recorded_identity = self.identity
        for place, line in enumerate(lines, 1):
            try:
                record = json.loads(line)
                if place == 1:
                    recorded_identity = dict(record["comparison"])
                else:
                    check_record(record)
                    self.records.append(record)
            except (ValueError, KeyError, TypeError):
                problem = "not a line that `embedx compare` wrote"
                remedy = ("delete it, or ", START_OVER)
                raise DataError(self.file, place, problem, remedy) from None
        self._check_identity(recorded_identity)

    def _check_identity(self, recorded: Mapping[str, Any]) -> None:
        """Raise `EmbedxError` if the file is of another comparison."""
        names = sorted(recorded.keys() | self.identity)
        differing = [name for name in names if recorded.get(name) != self.identity.get(name)]
        if differing:
            problem = f"of a comparison with other {', '.join(differing)}"
            over = (START_OVER, " instead of ", Setting("resume", True))
            other = ("choose another ", Setting("output"), ", or ")
            raise DataError(self.file, None, problem, (other, over))

    def find(self, **key: Any) -> RunRecord | None:
        """The record of a run (`objective`, `seed`) or a trial (`objective`, `trial`); None if it
        is missing or failed.
        """
        for record in self.records:
            if has_key(record, key) and "failed" not in record:
                return record
        return None

    def add(self, outcome: Mapping[str, Any], **key: Any) -> RunRecord:
        """Record the outcome of a run or a trial, in place of an earlier failure."""
        ended = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        record = {**key, "ended": ended, **outcome}
        others = [other for other in self.records if not has_key(other, key)]
        self.records = [*others, record]
        self.save()
        return record

    def save(self) -> None:
        """Write the whole file."""
        lines = [{"comparison": self.identity}, *self.records]
        write_text(self.file, "".join(json.dumps(line) + "\n" for line in lines))


def has_key(record: RunRecord, key: Mapping[str, Any]) -> bool:
    """Whether a record is of the run or trial with these values."""
    return key.items() <= record.items()


def check_record(record: Any) -> None:
    """Raise KeyError or TypeError if this is not the record of a run or a trial."""
    names = ["objective", "seed"] if "seed" in record else ["objective", "trial", "score"]
    for name in names:
        _ = record[name]

"""`embedx compare`: runs, records, ranking, page.

The folder has runs.jsonl (see `embedx.comparison.records`) and, replaced after each run,
compare.html and compare.csv.
"""

import contextlib
import shlex
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from embedx.comparison import runs
from embedx.comparison.data import Data
from embedx.comparison.labels import LabelledData, looks_labelled
from embedx.comparison.ranking import Ranking, ranked
from embedx.comparison.records import FILE, Records
from embedx.comparison.settings import CompareSettings
from embedx.comparison.tables import csv_text, page
from embedx.comparison.text import Text
from embedx.comparison.tuning import tuned
from embedx.errors import DataError, EmbedxError, Setting
from embedx.labeled.digits import GENERATED
from embedx.settings import settings_of
from embedx.storage import locks
from embedx.storage.atomic import errors_named, write_text
from embedx.storage.folder import installed_version
from embedx.training.progress import Progress, Silent

# named beside the data
FILES = ("train_labels", "test", "test_labels", "pairs", "analogies", "next_item", "cache_dir")
PAGE, NUMBERS, WORK = "compare.html", "compare.csv", "work"


def data_of(
    names: Sequence[str], options: Mapping[str, Any], settings: CompareSettings, **files: Any
) -> Data:
    """The data: labelled if test data or a file of labels are named too, or for `digits`, which are
    generated; else text.

    options  passed to each run
    files    see `Data`

    Raises `EmbedxError` where text looks like labelled data, or what is named is not of its kind.
    """
    if (
        files.get("test") is not None
        or files.get("train_labels") is not None
        or list(names) == [GENERATED]
    ):
        if files.get("pairs") or files.get("analogies") or files.get("next_item"):
            raise EmbedxError(
                "--pairs, --analogies and --next-item are for word vectors; with --test, DATA are"
                " labelled"
            )
        return LabelledData(names, options, settings, **files)
    if files.get("test_labels") is not None:
        raise EmbedxError("--test-labels needs --test")
    for name in names:
        if options.get("format") != "text" and looks_labelled(name):
            raise DataError(
                name,
                None,
                "looks like labelled data, not text",
                (
                    "name the labelled data to score on with ",
                    Setting("test"),
                    ", or, if it is text, give ",
                    Setting("format", "text"),
                ),
            )
    return Text(names, options, settings, **files)


@dataclass
class Comparison:
    """Objectives compared on data, and the folder with the outcome."""

    data: Data
    names: Sequence[str]  # of the objectives
    settings: CompareSettings
    folder: Path
    records: Records
    progress: Progress
    circumstances: dict[str, str] = field(default_factory=dict)  # for the page
    interrupted: bool = False  # by Ctrl-C, with what there is

    def measure(self) -> None:
        """Make the runs that are not recorded yet, seed after seed, until Ctrl-C."""
        data, settings, records, progress = self.data, self.settings, self.records, self.progress
        if not records.file.exists():  # it shows that the folder is that of a comparison
            records.save()
        try:
            by_time = [name for name in self.names if name not in data.converging]
            options = (
                tuned(data, by_time, settings, self.folder / WORK, records, progress)
                if settings.tune
                else {}
            )
            jobs = [(seed, name) for seed in range(1, settings.seeds + 1) for name in self.names]
            left = [job for job in jobs if records.find(objective=job[1], seed=job[0]) is None]
            if len(left) < len(jobs):
                progress.note(f"{len(left)} of {len(jobs)} runs are left")
            refused: set[str] = set()  # for want of memory, say
            progress.start("comparing", len(left), " runs")
            try:
                for k, (seed, name) in enumerate(left, 1):
                    if name in refused:
                        continue
                    began = time.monotonic()
                    outcome = runs.measured(
                        data, name, seed, settings, self.folder / WORK, options.get(name, {})
                    )
                    refused |= {name} if outcome.get("refused") else set()
                    record = records.add(outcome, objective=name, seed=seed)
                    self.write()
                    only = ranked([record], [name], data.measures, data.unit)
                    scores = [
                        f"{m} {each.score.value:.4f}"
                        for line in only.lines
                        for m, each in line.standings.items()
                    ]
                    shown = "; ".join(
                        [f"{name}, seed {seed}: {', '.join(scores)}"] if scores else only.troubles
                    )
                    progress.note(f"[{k}/{len(left)}] {shown} ({time.monotonic() - began:.0f} s)")
                    progress.update(k)
            finally:
                progress.finish()
        except KeyboardInterrupt:
            records.save()  # which it may have cut short
            self.interrupted = True

    @property
    def ranking(self) -> Ranking:
        """Of all recorded runs."""
        known = list(dict.fromkeys([*self.names, *(run["objective"] for run in self.records.runs)]))
        return ranked(self.records.runs, known, self.data.measures, self.data.unit)

    def write(self) -> None:
        """Write the page and the numbers of all recorded runs."""
        ranking, ended = self.ranking, sorted(run["ended"] for run in self.records.runs)
        when = {"when": f"{ended[0]} to {ended[-1]}"} if ended else {}
        write_text(
            self.folder / PAGE,
            page(self.data.name, ranking, self.data.curve_of, self.circumstances | when),
        )
        write_text(self.folder / NUMBERS, csv_text(ranking))


def compared(
    names: Sequence[str],
    files: Mapping[str, Any],
    given: Mapping[str, Any],
    objectives: Sequence[str],
    folder: Path,
    **how: Any,
) -> Comparison:
    """As `compare`, on the data of `data_of`, with the settings of the comparison and of its runs
    together in `given`.
    """
    own = CompareSettings.from_options(dict(given))
    passed = {
        name: value for name, value in given.items() if name not in settings_of(CompareSettings)
    }
    return compare(data_of(names, passed, own, **files), objectives, own, folder, **how)


def compare(
    data: Data,
    objectives: Sequence[str],
    settings: CompareSettings,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Comparison:
    """Train each objective with each seed, in turn, score and rank them, and write the folder.

    resume   continue what is in the folder, possibly with other objectives or more seeds
    command  the command line, for the page

    Raises `EmbedxError` for a mistake of the user, and if no run finished.
    """
    progress = progress or Silent()
    names = list(dict.fromkeys(objectives))
    if not names:
        raise EmbedxError(
            "--objectives: name those to compare, separated by commas; embedx objectives lists them"
        )
    data.check(names)
    check_folder(folder, resume, overwrite)
    until = " ".join(settings.stopping)
    identity = {
        "task": data.command,
        "until": until,
        "tune": settings.tune,
        "threads": settings.used_threads,
        **data.identity(),
        "machine": runs.machine(),
        "embedx": installed_version(),
    }
    with opened(folder):
        records = Records(folder, identity, overwrite=not resume)
        found = Comparison(data, names, settings, folder, records, progress)
        progress.note(settings.plan(len(names)))
        found.circumstances = _circumstances(data, settings, command, identity, progress)
        found.measure()
        found.write()
    if not found.ranking.lines and not found.interrupted:
        raise EmbedxError("no run finished: " + "; ".join(found.ranking.troubles))
    return found


def _circumstances(
    data: Data,
    settings: CompareSettings,
    command: Sequence[str],
    identity: Mapping[str, Any],
    progress: Progress,
) -> dict[str, str]:
    """What the page says of the runs: data, which are prepared here, machine, versions."""
    facts = data.prepare(progress)
    if data.converging:
        progress.note(
            f"{', '.join(sorted(data.converging))}: trained to convergence, not for a time"
        )
    until = identity["until"]
    circumstances = {
        "data": ", ".join([data.name, *(f"{name} {value}" for name, value in facts.items())]),
        "runs": (
            f"{until}, --threads {settings.used_threads}, seeds 1 to {settings.seeds}, objectives"
            " taking turns"
        ),
        "machine": identity["machine"],
        "versions": f"embedx {identity['embedx']}, Python {sys.version.split()[0]}",
    }
    if command:
        circumstances["command"] = shlex.join(command)
    if settings.tune:
        trial = " ".join(settings.stopping_of_trial)
        circumstances["tuning"] = f"{trial} for each trial, scored on validation data"
    return circumstances


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `EmbedxError` if the folder cannot hold this comparison."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise EmbedxError(f"{folder}: a file; choose another --output")
    if (folder / FILE).exists():
        if not resume and not overwrite:
            raise EmbedxError(
                f"{folder}: has a comparison already; add --resume to continue it, or --overwrite"
                " to start again"
            )
    elif any(folder.iterdir()):
        raise EmbedxError(f"{folder}: not empty, and no comparison; choose another --output")


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[None]:
    """The folder, made if it is not there, and locked; deleted at the end if it is empty. Raises
    `DataError` if that cannot be, or another comparison is at work there.
    """
    try:
        with errors_named(folder):
            held = locks.take(folder)
    except DataError as error:
        if not isinstance(error.__cause__, BlockingIOError):
            raise
        remedy = ("wait for it, or choose another ", Setting("output"))
        raise DataError(folder, None, "in use by another comparison", remedy) from None
    try:
        yield
    finally:
        with contextlib.suppress(OSError):  # not empty
            folder.rmdir()
        locks.unlock(held)

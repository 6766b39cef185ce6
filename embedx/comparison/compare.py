"""`embedx compare`: runs, records, ranking, page.

The folder has runs.jsonl (see `embedx.comparison.records`) and, replaced after each run, compare.html and compare.csv.
"""

import shlex
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from embedx.comparison import runs as running
from embedx.comparison.labels import LabelledData, looks_labelled
from embedx.comparison.ranking import Ranking, ranked
from embedx.comparison.records import FAILED, FILE, Records, write_text
from embedx.comparison.runs import Data
from embedx.comparison.settings import CompareSettings
from embedx.comparison.tables import csv_text, page
from embedx.comparison.text import Text
from embedx.comparison.tuning import tuned
from embedx.errors import EmbedxError
from embedx.labeled.digits import GENERATED
from embedx.storage import locks
from embedx.storage.folder import installed_version
from embedx.training.progress import Progress, Silent

PAGE, NUMBERS, WORK = "compare.html", "compare.csv", "work"


def data_of(
    names: Sequence[str],
    options: Mapping[str, Any],
    settings: CompareSettings,
    *,
    train_labels: str | None = None,
    test: str | None = None,
    test_labels: str | None = None,
    pairs: Sequence[Path] = (),
    analogies: Path | None = None,
    cache_dir: Path | None = None,
) -> Data:
    """The data: labelled if test data or a file of labels are named too, or for `digits`, which are generated; else text.

    options  passed to each run

    Raises `EmbedxError` where text looks like labelled data, or what is named is not of its kind.
    """
    is_labelled = test is not None or train_labels is not None or list(names) == [GENERATED]
    if is_labelled:
        if pairs or analogies:
            raise EmbedxError("--pairs and --analogies are for word vectors; with --test, DATA are labelled")
        return LabelledData(names, options, settings, train_labels, test, test_labels)
    if test_labels is not None:
        raise EmbedxError("--test-labels needs --test")
    for name in filter(looks_labelled, names):
        raise EmbedxError(f"{name}: looks like labelled data, not text; name the labelled data to score on with --test")
    return Text(names, options, settings, pairs, analogies, cache_dir)


@dataclass(frozen=True)
class Comparison:
    """The outcome of a comparison."""

    folder: Path
    ranking: Ranking
    interrupted: bool  # by Ctrl-C, with what there is


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
        raise EmbedxError("--objectives: name those to compare, separated by commas; embedx objectives lists them")
    data.check(names)
    check_folder(folder, resume, overwrite)
    how, value = settings.stopping
    identity = {
        "task": data.command, "until": f"{how} {value}", "tune": settings.tune, "threads": settings.used_threads,
        **data.identity(), "machine": running.machine(), "embedx": installed_version(),
    }  # fmt: skip
    records = Records(folder, identity, overwrite=not resume)
    facts = data.prepare(progress)
    lock = opened(folder)
    try:
        circumstances = {
            "data": ", ".join([data.name, *(f"{name} {amount(value)}" for name, value in facts.items())]),
            "runs": f"{how} {value}, --threads {settings.used_threads}, seeds 1 to {settings.seeds}, objectives taking turns",
            "machine": identity["machine"],
            "versions": f"embedx {identity['embedx']}, Python {sys.version.split()[0]}",
        }
        if command:
            circumstances["command"] = shlex.join(command)
        if settings.tune:
            circumstances["tuning"] = f"{' '.join(settings.stopping_of_trial)} for each trial, scored on validation data"
        interrupted = measure_all(data, names, settings, folder, records, circumstances, progress)
        ranking = written(data, names, folder, records, circumstances)
    finally:
        locks.unlock(lock)
    if not ranking.lines and not interrupted:
        raise EmbedxError("no run finished: " + "; ".join(ranking.troubles))
    return Comparison(folder, ranking, interrupted)


def measure_all(
    data: Data,
    names: Sequence[str],
    settings: CompareSettings,
    folder: Path,
    records: Records,
    circumstances: dict[str, str],
    progress: Progress,
) -> bool:
    """Make the runs that are not recorded yet, seed after seed. Returns whether Ctrl-C interrupted this."""
    options: dict[str, dict[str, Any]] = {}
    if settings.tune:
        try:
            options = tuned(data, names, settings, folder / WORK, records, progress)
        except KeyboardInterrupt:
            records.save()
            return True
    jobs = [(seed, name) for seed in range(1, settings.seeds + 1) for name in names]
    left = [job for job in jobs if records.find(job[1], job[0]) is None]
    recorded = f", {len(jobs) - len(left)} of them on record" if len(left) < len(jobs) else ""
    lasting = "" if settings.epochs else f", {len(left) * settings.budget / 60:.1f} minutes of training"
    progress.note(f"{len(names)} objectives × {settings.seeds} seeds, each {' '.join(settings.stopping)}{recorded}{lasting}")
    progress.start("comparing", len(left), " runs")
    try:
        for k, (seed, name) in enumerate(left):
            began = time.monotonic()
            outcome = running.measured(data, name, seed, settings, folder / WORK, options.get(name, {}))
            records.add(name, seed, outcome)
            written(data, names, folder, records, circumstances)
            said = next((f"{kind}: {outcome[kind]}" for kind in FAILED if kind in outcome), "")
            if not said:
                scores = ranked(records.runs[-1:], [name], data.measures, data.unit).first.standings
                said = ", ".join(f"{measure} {each.score.value:.4f}" for measure, each in scores.items())
            progress.note(f"[{k + 1}/{len(left)}] {name}, seed {seed}: {said} ({time.monotonic() - began:.0f} s)")
            progress.update(k + 1)
    except KeyboardInterrupt:
        records.save()  # which it may have cut short
        return True
    finally:
        progress.finish()
    return False


def written(data: Data, names: Sequence[str], folder: Path, records: Records, circumstances: dict[str, str]) -> Ranking:
    """The ranking of all recorded runs; its page and numbers are written."""
    known = list(dict.fromkeys([*names, *(run["objective"] for run in records.runs)]))
    ranking = ranked(records.runs, known, data.measures, data.unit)
    ended = sorted(run["ended"] for run in records.runs)
    when = {"when": f"{ended[0]} to {ended[-1]}"} if ended else {}
    write_text(folder / PAGE, page(data.name, ranking, data.curve_of, circumstances | when))
    write_text(folder / NUMBERS, csv_text(ranking))
    return ranking


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `EmbedxError` if the folder cannot hold this comparison."""
    if not folder.exists():
        return
    if not folder.is_dir():
        raise EmbedxError(f"{folder}: a file; choose another --output")
    if (folder / FILE).exists():
        if not resume and not overwrite:
            raise EmbedxError(f"{folder}: has a comparison already; add --resume to continue it, or --overwrite to start again")
    elif any(each.name not in (PAGE, NUMBERS, WORK) for each in folder.iterdir()):
        raise EmbedxError(f"{folder}: not empty, and no comparison; choose another --output")


def opened(folder: Path) -> int | None:
    """The folder, made if it is not there, and locked. Raises `EmbedxError` if that cannot be, or another is at work."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise EmbedxError(f"{folder}: {error.strerror}, so it cannot be written to; choose another --output") from error
    if locks.is_locked(folder):
        raise EmbedxError(f"{folder}: in use by another comparison; wait for it, or choose another --output")
    return locks.lock(folder, wait=False)


def amount(value: object) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)

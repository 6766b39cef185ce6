"""`embedx compare`: runs, records, ranking, page.

The folder has runs.jsonl (see `embedx.comparison.records`) and, replaced after each run,
compare.html and compare.csv.
"""

import contextlib
import dataclasses
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from embedx.comparison import runs
from embedx.comparison.data import Data
from embedx.comparison.labels import LabelledData, looks_labelled
from embedx.comparison.ranking import Ranking, ranked
from embedx.comparison.records import FILE, Records, RunRecord
from embedx.comparison.settings import (
    BUDGET,
    EXACT_OBJECTIVE,
    MAX_SCORED,
    USUAL_OBJECTIVES,
    CompareSettings,
)
from embedx.comparison.tables import (
    axis_title,
    csv_text,
    curve_rows,
    difference_rows,
    html,
    intervals,
    numbers,
    page,
    settings_text,
    text,
)
from embedx.comparison.text import TextData
from embedx.comparison.tuning import Tuning
from embedx.errors import (
    DataError,
    InapplicableError,
    Setting,
    SettingError,
    Spelling,
    Text,
    check_kind,
    choice,
    counted,
    joined,
)
from embedx.labeled.digits import GENERATED
from embedx.labeled.named_data import rows_to_test_on
from embedx.pages import figures
from embedx.runtime import atomic, locks, shell
from embedx.runtime.atomic import errors_named, write_text
from embedx.runtime.frames import data_frame
from embedx.runtime.progress import Progress, Silent
from embedx.settings import Record, settings_of
from embedx.spelling import as_arguments
from embedx.storage.description import installed_version
from embedx.tasks.output import stem_of
from embedx.text.settings import SESSIONS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Files that may be given in addition to the data.
FILES = ("train_labels", "test", "test_labels", "pairs", "analogies", "next_item", "cache_dir")
PAGE = "compare.html"
NUMBERS = "compare.csv"
WORK = "work"


def data_of(
    data_names: Sequence[str], options: Mapping[str, Any], settings: CompareSettings, **files: Any
) -> Data:
    """The data to compare on: labelled rows or text.

    They are labelled if test data or a file of labels are given, too, or if they are a recipe with
    test data, or the generated `digits`.

    options  passed to each run
    files    see `Data`

    Raises `EmbedxError` if text looks like labelled data, or files and options do not fit the kind
    of data.
    """
    has_label_files = files.get("test") is not None or files.get("train_labels") is not None
    has_test_data = list(data_names) == [GENERATED] or rows_to_test_on(data_names) is not None
    if has_label_files or has_test_data:
        for name in ("pairs", "analogies", "next_item"):
            if files.get(name):
                problem = ("is for word vectors, but with ", Setting("test"), " DATA are labelled")
                raise InapplicableError(name, None, problem, "leave one of them out")
        return LabelledData(data_names, options, settings, **files)
    if files.get("test_labels") is not None:
        raise InapplicableError("test_labels", None, ("needs ", Setting("test")))
    is_of_sessions = files.get("next_item") is not None
    is_declared_text = is_of_sessions or options.get("format") in ("text", SESSIONS)
    for name in data_names:
        if not is_declared_text and looks_labelled(name):
            remedy = (
                "name the labelled data to score on with ",
                Setting("test"),
                ", or, if it is text, give ",
                Setting("format", "text"),
            )
            raise DataError(name, None, "looks like labelled data, not text", remedy)
    return TextData(data_names, options, settings, **files)


@dataclass(repr=False)
class Comparison:
    """Objectives compared on data, and the folder with the outcome; it prints as the table of
    `embedx compare`.

    variants     objectives, each with settings of its own, such as `ova:loss=squared-hinge`
    setup        facts about the runs for the page, by heading
    interrupted  whether Ctrl-C ended the comparison before the last run
    """

    data: Data
    variants: Sequence[str]
    settings: CompareSettings
    folder: Path
    records: Records
    progress: Progress
    setup: dict[str, str] = field(default_factory=dict)
    interrupted: bool = False

    def __repr__(self) -> str:
        return text(self.ranking, self.progress.spelling)

    def _repr_html_(self) -> str:
        return html(self.ranking, self.progress.spelling)

    def to_frame(self, kind: str = "ranking") -> Any:
        """A `pandas.DataFrame`. Raises `EmbedxError` without pandas.

        kind  "ranking"      a row for each objective, the best first, with the numbers of
                             compare.csv
              "differences"  a row for each measure and objective: how much higher it scores than
                             the first objective on the same items, with an interval, `low` to
                             `high`, that holds for all pairs of objectives at 95 %; where the
                             items differ, the score
              "curves"       scores of held-out data: objective, run, epoch, seconds of training,
                             value
        """
        check_kind(kind, FRAMES)
        return data_frame(FRAMES[kind](self.ranking))

    def plot(
        self, kind: str = "differences", ax: "Axes | None" = None, *, measure: str | None = None
    ) -> "Axes":
        """Draw a figure, and return its matplotlib Axes. Raises `EmbedxError` without matplotlib.

        kind     "differences" to the first objective with their intervals, in the order of the
                 ranking; "speed", the same against the words or examples per second; or "curves",
                 means over the seeds, with bands from the lowest to the highest, against epochs
        ax       where to draw; by default new Axes
        measure  of differences and speed; by default the one that is ranked by
        """
        check_kind(kind, ("differences", "speed", "curves"))
        ranking = self.ranking
        if kind == "curves":
            return figures.curves(ranking.curves, self.data.curve_of, ax)
        measures = ranking.measures
        measure = measure or ranking.by
        if measure is None or measure not in measures:
            raise SettingError("measure", measure, choice(measure, measures))
        scores = intervals(ranking, measure)
        title = axis_title(ranking, measure)
        if kind == "differences":
            return figures.dot_plot(scores, title, ax)
        speeds = {line.objective: line.pace for line in ranking.lines}
        return figures.against_speed(scores, speeds, title, f"{ranking.unit}/s", ax)

    @property
    def runner(self) -> runs.Runner:
        """The `Runner` of this comparison."""
        return runs.Runner(self.data, self.settings, self.folder / WORK)

    def train_missing(self) -> None:
        """Train and score what is not recorded yet, seed after seed, until Ctrl-C."""
        # Marks the folder as that of a comparison.
        if not self.records.file.exists():
            self.records.save()
        try:
            self._make_runs(self._tuned_options())
        except KeyboardInterrupt:
            # Ctrl-C may have interrupted the last write.
            self.records.save()
            self.interrupted = True

    def _tuned_options(self) -> dict[str, Record]:
        """The options that --tune chooses, by variant."""
        if not self.settings.tune:
            return {}
        tunable = [variant for variant in self.variants if variant not in self.data.converging]
        return Tuning(self.runner, self.records, self.progress).best_options(tunable)

    def _missing_runs(self) -> list[tuple[int, str]]:
        """Seed and variant of each run that is not recorded yet."""
        seeds = range(1, self.settings.seeds + 1)
        all_runs = [(seed, variant) for seed in seeds for variant in self.variants]
        missing = [
            (seed, variant)
            for seed, variant in all_runs
            if self.records.find(objective=variant, seed=seed) is None
        ]
        if len(missing) < len(all_runs):
            self.progress.note(f"{len(missing)} of {len(all_runs)} runs remain")
        return missing

    def _make_runs(self, tuned: Mapping[str, Record]) -> None:
        """Make the missing runs, and write the page after each.

        tuned  options chosen by --tune, by variant
        """
        missing = self._missing_runs()
        # Variants that fail with every seed, for example for lack of memory.
        refused: set[str] = set()
        self.progress.start("comparing", len(missing), "runs")
        try:
            for k, (seed, variant) in enumerate(missing, 1):
                if variant in refused:
                    continue
                began = time.monotonic()
                record = self._make_run(seed, variant, tuned.get(variant, {}))
                if record.get("refused"):
                    refused.add(variant)
                self.write()
                seconds = time.monotonic() - began
                summary = self._summary(record)
                counted = f"[{k}/{len(missing)}] "
                self.progress.note(counted, summary, f" ({seconds:.0f} s)")
                self.progress.update(k)
        finally:
            self.progress.finish()

    def _make_run(self, seed: int, variant: str, options: Record) -> RunRecord:
        """The record of one run."""
        outcome = self.runner.run(variant, seed, options)
        return self.records.add(outcome, objective=variant, seed=seed)

    def _summary(self, record: RunRecord) -> Text:
        """The scores of a run, or the reason that it has none."""
        variant = record["objective"]
        ranking = ranked([record], [variant], self.data.measures, self.data.unit)
        if not ranking.lines:
            return joined(ranking.troubles, "; ")
        scores = [
            f"{measure} {standing.score.value:.4f}"
            for measure, standing in ranking.first.standings.items()
        ]
        if not scores:
            return joined(ranking.troubles, "; ")
        return f"{variant}, seed {record['seed']}: {', '.join(scores)}"

    @property
    def ranking(self) -> Ranking:
        """The ranking of all recorded runs."""
        recorded = [run["objective"] for run in self.records.runs]
        variants = list(dict.fromkeys([*self.variants, *recorded]))
        return ranked(self.records.runs, variants, self.data.measures, self.data.unit)

    def write(self) -> None:
        """Write the page and the numbers of all recorded runs."""
        ranking = self.ranking
        setup = dict(self.setup)
        ended = sorted(run["ended"] for run in self.records.runs)
        if ended:
            setup["when"] = f"{ended[0]} to {ended[-1]}"
        written = page(self.data.name, ranking, self.data.curve_of, setup, self.progress.spelling)
        write_text(self.folder / PAGE, written)
        write_text(self.folder / NUMBERS, csv_text(ranking))


FRAMES = {"ranking": numbers, "differences": difference_rows, "curves": curve_rows}


def compare_files(
    data_names: Sequence[str],
    files: Mapping[str, Any],
    given: Mapping[str, Any],
    objectives: Sequence[str] | None,
    folder: Path | None,
    **arguments: Any,
) -> Comparison:
    """`compare` on the data of `data_of`.

    given      settings of the comparison and of its runs
    folder     None: one of the working folder, named after the data
    arguments  passed to `compare`
    """
    settings = CompareSettings.from_options(dict(given))
    settings_of_runs = {
        name: value for name, value in given.items() if name not in settings_of(CompareSettings)
    }
    data = data_of(data_names, settings_of_runs, settings, **files)
    folder = folder or Path(f"{stem_of(*data_names)}.compare")
    return compare(data, objectives, settings, folder, **arguments)


def compare(
    data: Data,
    objectives: Sequence[str] | None,
    settings: CompareSettings,
    folder: Path,
    *,
    resume: bool = False,
    overwrite: bool = False,
    progress: Progress | None = None,
    command: Sequence[str] = (),
) -> Comparison:
    """Train each objective with each seed, in turn, score and rank them, and write the folder.

    objectives  None: USUAL_OBJECTIVES, and EXACT_OBJECTIVE where it is affordable
    resume      continue what is in the folder, possibly with other objectives or more seeds
    command     the command line, for the page

    Raises `EmbedxError` for a mistake of the user, and if no run finished.
    """
    progress = progress or Silent()
    variants = list(dict.fromkeys(USUAL_OBJECTIVES if objectives is None else objectives))
    if not variants:
        raise SettingError(
            "objectives",
            None,
            "none",
            "name those to compare, separated by commas; `embedx objectives` lists them",
        )
    data.check(variants)
    check_folder(folder, resume, overwrite)
    identity = _identity(data, settings)
    with opened(folder):
        # `check_folder` refuses a comparison that is there, unless it is to be resumed or
        # overwritten; of both, resume has priority.
        records = Records(folder, identity, overwrite=not resume)
        facts_of_data = data.prepare(progress)
        if objectives is None:
            _add_exact_objective(variants, data, progress)
        settings = _with_usual_epochs(settings, data, progress)
        progress.note(settings.plan(len(variants)))
        comparison = Comparison(data, variants, settings, folder, records, progress)
        if data.converging:
            converging = ", ".join(sorted(data.converging))
            progress.note(f"{converging}: trained to convergence, not for a time")
        facts = [data.name, *(f"{name} {fact}" for name, fact in facts_of_data.items())]
        about_data = ", ".join(facts)
        comparison.setup = _setup(about_data, settings, command, identity, progress.spelling)
        comparison.train_missing()
        comparison.write()
    if not comparison.ranking.lines and not comparison.interrupted:
        problem = ("no run finished: ", joined(comparison.ranking.troubles, "; "))
        raise DataError(data.name, None, problem)
    return comparison


def _identity(data: Data, settings: CompareSettings) -> Record:
    """Everything that the results depend on."""
    return {
        "task": data.command,
        "until": " ".join(as_arguments(settings.given_limit)) or "the default",
        "tune": settings.tune,
        "threads": settings.used_threads,
        **data.identity(),
        "machine": runs.machine(),
        "embedx": installed_version(),
    }


def _add_exact_objective(variants: list[str], data: Data, progress: Progress) -> None:
    """Add EXACT_OBJECTIVE to the usual objectives where there are few labels or words, and say
    which are compared.
    """
    if data.n_outputs <= MAX_SCORED:
        variants.append(EXACT_OBJECTIVE)
        data.check(variants)
    compared = Setting("objectives", ",".join(variants))
    progress.note(compared, "; name others, or fewer, by ", Setting("objectives"))


def _with_usual_epochs(
    settings: CompareSettings, data: Data, progress: Progress
) -> CompareSettings:
    """The settings with epochs as the limit of runs, where none is given and the data are so short
    that they would be overfitted in the default time.
    """
    epochs = data.usual_epochs
    if settings.given_limit or epochs is None:
        return settings
    reason = f", because in {BUDGET:.0f} s so short a text would be overfitted; "
    by_time = (Setting("time_budget", BUDGET), " limits the time")
    progress.note(Setting("epochs", epochs), reason, by_time)
    return dataclasses.replace(settings, epochs=epochs)


def _setup(
    about_data: str,
    settings: CompareSettings,
    command: Sequence[str],
    identity: Mapping[str, Any],
    spelling: Spelling,
) -> dict[str, str]:
    """Facts about the runs for the page: data, machine, versions, by heading."""
    until = settings_text(settings.limit, spelling)
    setup = {
        "data": about_data,
        "runs": (
            f"{until}, {counted(settings.used_threads, 'thread')}, seeds 1 to {settings.seeds},"
            " objectives taking turns"
        ),
        "machine": identity["machine"],
        "versions": f"embedx {identity['embedx']}, Python {sys.version.split()[0]}",
    }
    if command:
        setup["command"] = shell.command_line(command)
    if settings.tune:
        trial = settings_text(settings.limit_of_trial, spelling)
        setup["tuning"] = (
            f"{trial} for each trial, scored on validation data; the best settings were then"
            " compared with the defaults at full length"
        )
    return setup


def check_folder(folder: Path, resume: bool, overwrite: bool) -> None:
    """Raise `EmbedxError` if the folder cannot hold this comparison."""
    with errors_named(folder):
        is_there = atomic.followed(folder).exists()
    if not is_there:
        return
    another = ("choose another ", Setting("output"))
    if not folder.is_dir():
        raise DataError(folder, None, "a file", another)
    if (folder / FILE).exists():
        if not resume and not overwrite:
            resume_it = ("add ", Setting("resume", True), " to continue it")
            start_again = (Setting("overwrite", True), " to start again")
            remedy = (resume_it, ", or ", start_again)
            raise DataError(folder, None, "has a comparison already", remedy)
    elif any(folder.iterdir()):
        raise DataError(folder, None, "not empty, and no comparison", another)


@contextlib.contextmanager
def opened(folder: Path) -> Iterator[None]:
    """Create the folder if needed, lock it, and delete it at the end if it is empty.

    Raises `DataError` if the folder cannot be used, or another comparison uses it.
    """
    try:
        with errors_named(folder):
            lock = locks.take(folder)
    except DataError as error:
        if not isinstance(error.__cause__, BlockingIOError):
            raise
        remedy = ("wait for it, or choose another ", Setting("output"))
        raise DataError(folder, None, "in use by another comparison", remedy) from None
    try:
        yield
    finally:
        # A folder that is not empty is kept.
        with contextlib.suppress(OSError):
            folder.rmdir()
        locks.unlock(lock)

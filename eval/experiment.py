"""What an experiment is, and how one is run: jobs are measured one by one, the records written, and
the page from these.
"""

import dataclasses
import datetime
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NoReturn

from eval import datasets
from eval.page import filled, listed, skeleton
from eval.records import Job, Records, Result, environment_of, has_failed, sources_hash, version_of

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results"
QUICK_RESULTS = Path(tempfile.gettempdir()) / "embedx-eval-quick"


@dataclasses.dataclass(frozen=True)
class Experiment:
    """All there is to say of an experiment.

    choices   words that --only takes, by what they choose: sections, data sets, contenders
    settings  what --set changes; `quick` has those of a trial run
    prepare   brings the data into the forms that the tools read; what is to be known of the
              `corpus` or the `data`
    jobs      what to measure, in order. A job holds every setting that its result depends on; it
              may depend on the results of those before it, which are on record when the next one is
              requested
    measure   the result of a job
    tables    the parts of the page, by name, from the records alone; plots likewise, by what is
              added to the page's name
    needs     the data sets (see `eval.datasets`) that the chosen jobs read
    mixed     whether records of several environments stand in one table
    compared  what jobs have in common that stand in one table, by default all; None for results
              that do not depend on the machine
    page      the file of the page from the root of the repository, if it does not stand beside the
              published records
    """

    name: str
    title: str
    choices: Mapping[str, tuple[str, ...]]
    jobs: Callable[["Run"], Iterator[Job]]
    measure: Callable[["Run", Job], Result]
    tables: Mapping[str, Callable[[Records], str]]
    plots: Mapping[str, Callable[[Records], Any]]
    settings: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    quick: Mapping[str, Any] = dataclasses.field(default_factory=dict)
    packages: tuple[str, ...] = ()
    prepare: Callable[["Run"], dict[str, Any]] = lambda run: {"data": {}}
    publish: Callable[[Records], None] | None = None
    needs: Callable[["Run"], list[str]] = lambda run: []
    mixed: bool = False
    compared: Callable[[Job], Any] = lambda job: "all"
    page: str | None = None

    def page_in(self, results: Path) -> Path:
        """The file of the page of records in a folder."""
        if self.page is not None and results == RESULTS:
            return ROOT / self.page
        return results / f"{self.name}.md"

    def records_in(self, results: Path, environment: dict[str, Any] | None = None) -> Records:
        """What was measured, in a folder of records; in an environment, if one is given."""
        return Records(
            results / f"{self.name}.jsonl", environment, mixed=self.mixed, compared=self.compared
        )


class Run:
    """One call of an experiment: what was chosen, where the data are, and what is on record."""

    records: Records

    def __init__(
        self,
        experiment: Experiment,
        only: list[str],
        *,
        quick: bool,
        data: Path | None = None,
        **settings: Any,
    ):
        self.experiment, self.quick, self.only = experiment, quick, only
        self._data = data
        self.settings = SimpleNamespace(
            **experiment.settings | (dict(experiment.quick) if quick else {}) | settings
        )
        self.folder = Path()  # temporary, while the run lasts
        self.files: dict[str, str] = {}
        self.warm: set[str] = set()  # contenders whose kernels are compiled
        self.named_as_missing: set[str] = set()  # peers

    @property
    def data(self) -> Path:
        """The folder of the data."""
        if self.data_folder is None:
            stop("the data: no such folder; name it by --data DIR, or set EMBEDX_DATA")
        return self.data_folder

    @property
    def data_folder(self) -> Path | None:
        """The folder of the data; None where none is named."""
        named = self._data or os.environ.get("EMBEDX_DATA")
        if not named:
            return None
        folder = Path(named)
        if not folder.is_dir():
            stop(f"{folder}: no such folder; name it by --data DIR, or set EMBEDX_DATA")
        return folder

    @property
    def has_data(self) -> bool:
        return self.data_folder is not None

    def check_data(self) -> None:
        """End with a line that says how to get the data sets that the chosen jobs read and that are
        not here. In a trial run generated data stand for them.
        """
        missing = datasets.what_is_missing(self.experiment.needs(self), self.data_folder)
        if missing and self.quick:
            say(f"generated data stand for what is not here: {missing}")
        elif missing:
            stop(f"data are missing. {missing}. Or choose what is here by --only")

    def chosen(self, what: str) -> tuple[str, ...]:
        """The words of a choice that --only names; all of them if it names none."""
        words = self.experiment.choices[what]
        return tuple(word for word in words if word in self.only) or words

    def need(self, peer: str, package: str) -> bool:
        """Whether a peer is installed, see `has`."""
        return self.has(peer, version_of(package) is not None, 'pip install "embedx[peers]"')

    def has(self, peer: str, is_there: bool, remedy: str) -> bool:
        """Whether a peer is there. Where it is not, a trial run continues without it and any other
        ends.
        """
        if not is_there and not self.quick:
            raise SystemExit(f"{peer} is not installed: {remedy}, or choose the others by --only")
        if not is_there and peer not in self.named_as_missing:
            say(f"{peer} is left out; {remedy}")
            self.named_as_missing.add(peer)
        return is_there

    def measure(self, resume: bool) -> None:
        """Measure all jobs; to resume, those that are not on record."""
        start = time.monotonic()
        finished = set[str]()
        for job in self.experiment.jobs(self):
            key = json.dumps(job, sort_keys=True)
            if key in finished or (resume and self.records.get(job) is not None):
                continue
            passed = datetime.timedelta(seconds=round(time.monotonic() - start))
            say(f"[{passed} passed] {spoken(job)}")
            sources = sources_hash()
            result = self.experiment.measure(self, job)
            if has_failed(result):
                say(f"failed: {result['error']}")
            self.records.add(job, result, sources, vars(self.settings))
            finished.add(key)


def measure(run: Run, results: Path, command: str, resume: bool) -> None:
    """Prepare the data and measure."""
    experiment = run.experiment
    run.check_data()
    with tempfile.TemporaryDirectory(prefix="embedx-eval-") as folder:
        run.folder = Path(folder)
        facts = {
            name: {**about, "quick": run.quick} for name, about in experiment.prepare(run).items()
        }
        data_sets = datasets.facts_of(experiment.needs(run), run.data_folder)
        if data_sets:
            facts["data"] = facts.get("data", {"quick": run.quick}) | data_sets
        environment = environment_of(facts, experiment.packages, command)
        run.records = experiment.records_in(results, environment)
        run.measure(resume)


def report(experiment: Experiment, results: Path, quick: bool = False) -> Records:
    """Write the generated parts of the page and the pictures anew; what they were made of."""
    records = experiment.records_in(results)
    if not records.by_job:
        raise SystemExit(f"{records.path}: no records there; run without --report-only first")
    file = experiment.page_in(results)
    parts = parts_of(experiment, records)
    if quick or not file.exists():
        text = skeleton(experiment.title, parts, records.quick)
        text += "".join(f"\n![{name}]({experiment.name}{name}.png)\n" for name in experiment.plots)
    else:
        text = file.read_text("utf-8")
    written(file, filled(text, parts, file))
    for name, draw in experiment.plots.items():
        if picture := draw(records):
            picture.savefig(results / f"{experiment.name}{name}.png")
    print(file)
    return records


def parts_of(experiment: Experiment, records: Records) -> dict[str, str]:
    """The generated parts of a page, by name."""
    tables = {name: records.with_states(make) for name, make in experiment.tables.items()}
    return tables | {"circumstances": listed(records.circumstances())}


def written(file: Path, text: str) -> None:
    """Replace a file at once."""
    new = file.with_name(file.name + ".new")
    new.write_text(text, "utf-8")
    new.replace(file)


def in_process(
    module: str,
    function: str,
    job: Job,
    files: dict[str, str],
    python: str = sys.executable,
    **more: str,
) -> Result:
    """What a function returns for a job in a process of its own, with more in its environment;
    {"error": its last line} if that fails.
    """
    arguments = [python, "-m", "eval.process", module, function, json.dumps(job), json.dumps(files)]
    completed = subprocess.run(
        arguments, env=os.environ | more, cwd=ROOT, capture_output=True, text=True, errors="replace"
    )
    if completed.returncode:
        lines = [line for line in completed.stderr.splitlines() if line.strip()]
        return {
            "error": lines[-1][:300] if lines else f"ended with status {completed.returncode}",
            "stderr": completed.stderr[-3000:],
        }
    return dict(json.loads(completed.stdout.splitlines()[-1]))


def spoken(job: Job) -> str:
    """A job in a line, its nested settings left out."""
    return ", ".join(
        f"{name} {value}" for name, value in job.items() if isinstance(value, str | int | float)
    )[:160]


def stop(message: str) -> NoReturn:
    """End for a mistake of the user, in one line."""
    say(f"python -m eval: {message}")
    raise SystemExit(2)


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)

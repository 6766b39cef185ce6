"""What each stage of a command takes on one core and on two, and what that makes of it on many.

With two threads on an idle machine a stage of s serial and p parallel seconds takes s + p/2 by the
clock and s + p of all cores: two measured numbers give both. A thread that waits, for another or
for the interpreter's lock, uses no core, so that waiting counts as serial. What two threads do
under that lock in turns beside compiled code looks parallel; a sampler (py-spy) counts the seconds
that worker threads hold the lock, and no number of cores makes training shorter than these.
"""

import json
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from scipy.sparse import save_npz

from eval import corpus, datasets
from eval.experiment import Run
from eval.generated_labels import generated
from eval.page import number, table
from eval.records import Job, Records, Result
from eval.speed_classification import write_lines

EMBEDX = [sys.executable, "-m", "embedx"]
KINDS = ("command", "lock")  # of jobs
WORDS, FIVE_EPOCHS, LABELS, PREDICT, MILLION = "words", "5 epochs", "labels", "predict", "million"
TASKS = (WORDS, FIVE_EPOCHS, LABELS, PREDICT, MILLION)
TRAINED_WORDS = (WORDS, FIVE_EPOCHS)
SAMPLED = (WORDS, LABELS)  # tasks whose interpreter lock is sampled
ONE_TURN = (MILLION,)  # tasks that take minutes
DATASET = "enwiki-cat"
MANY_LABELS = 1_000_000
MANY_LABELS_EPOCHS = 2
CORES = (1, 2)
ESTIMATED_CORES = (16, 64)
WHOLE = "whole command"
SAMPLES = 100  # a second, of who holds the interpreter's lock
# Seconds of a whole command on 16 cores that are aimed at.
TARGETS = {FIVE_EPOCHS: 7.5, LABELS: 7.0, PREDICT: 1.5, MILLION: 60.0}
TARGET_CORES = 16


class Parts(NamedTuple):
    """The serial and the parallel seconds of a stage."""

    serial: float
    parallel: float

    def on(self, cores: int) -> float:
        """Seconds by the clock on this number of cores, by Amdahl's law."""
        return self.serial + self.parallel / cores


def jobs(run: Run) -> Iterator[Job]:
    """Commands on one core and on two take turns; one more on two, whose lock is sampled."""
    for task in run.chosen("task"):
        for turn in range(1 if task in ONE_TURN else int(run.settings.repetitions)):
            for threads in CORES:
                yield {"kind": "command", "task": task, "threads": threads, "turn": turn}
        if task in SAMPLED and run.has(
            "py-spy", shutil.which("py-spy") is not None, "pip install py-spy"
        ):
            yield {"kind": "lock", "task": task, "threads": max(CORES)}


def needs(run: Run) -> list[str]:
    """The data sets of the chosen tasks."""
    names = dict.fromkeys(TRAINED_WORDS, datasets.TEXT)
    names |= {LABELS: DATASET, PREDICT: DATASET}
    return list(dict.fromkeys(names[task] for task in run.chosen("task") if task in names))


def prepare(run: Run) -> dict[str, Any]:
    """The text in lines, where labelled rows lie, small generated ones in a trial run, a classifier
    of these, and generated rows of many labels.
    """
    about: dict[str, Any] = {}
    tasks = run.chosen("task")
    if set(tasks) & set(TRAINED_WORDS):
        about["corpus"] = corpus.unpacked(run, pools_pairs=False)
        lines = run.folder / "lines"
        corpus.write_lines(Path(run.files["text"]), lines)
        run.files["lines"] = str(lines)
    if LABELS in tasks or PREDICT in tasks:
        training = _small_rows(run) if run.quick else _rows(run)
        run.files["rows"], run.files["test rows"] = map(str, training)
    if PREDICT in tasks:
        run.files["model"] = str(run.folder / "classifier")
        train = ["classify", run.files["rows"], "--output", run.files["model"], "--quiet"]
        subprocess.run([*EMBEDX, *train], check=True, capture_output=True)
    if MILLION in tasks:
        n_labels = 1_000 if run.quick else MANY_LABELS
        for name, matrix in zip(
            ("features", "indicators"), generated(n_labels, n_labels, seed=0), strict=True
        ):
            run.files[name] = str(run.folder / f"{name}.npz")
            save_npz(run.files[name], matrix, compressed=False)
    return about or {"data": {}}


def _rows(run: Run) -> tuple[Path, Path]:
    """The files of training and of test rows."""
    training, test, *_ = datasets.files_of(DATASET, run.data_folder)
    return training, test


def _small_rows(run: Run) -> tuple[Path, Path]:
    """Files of generated rows for a trial run."""
    files = run.folder / "rows.txt", run.folder / "test-rows.txt"
    for file, half in zip(files, datasets.stand_in(DATASET), strict=True):
        write_lines(file, half.features, half.labels, half.n_labels)
    return files


def measure(run: Run, job: Job) -> Result:
    """Stages of a command of its own with nothing in the token cache, or seconds of its lock."""
    with tempfile.TemporaryDirectory(dir=run.folder) as folder:
        command = _command(run, job, folder)
        if job["kind"] == "lock":
            return _lock_seconds(command, Path(folder))
        start = time.perf_counter()
        cpu_start = _cpu_seconds_of_children()
        completed = subprocess.run(command, capture_output=True, text=True)
        seconds = time.perf_counter() - start
        cpu_seconds = _cpu_seconds_of_children() - cpu_start
    if completed.returncode:
        return {"error": completed.stderr.strip().splitlines()[-1]}
    if job["task"] == PREDICT:  # whose result is no record of a run
        stages = [{"stage": WHOLE, "seconds": seconds, "cpu_seconds": cpu_seconds}]
    else:
        stages = json.loads(completed.stdout)["stages"]
    return {"seconds": seconds, "cpu seconds": cpu_seconds, "stages": stages}


def _cpu_seconds_of_children() -> float:
    """Seconds that all cores have worked for the processes that this one started and that ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _command(run: Run, job: Job, folder: str) -> list[str]:
    """The command of a job."""
    task = job["task"]
    files = run.files
    common = ["--threads", str(job["threads"]), "--output", f"{folder}/output"]
    if task == PREDICT:
        return [*EMBEDX, "predict", files["model"], files["test rows"], *common]
    common.append("--json")
    if task == LABELS:
        return [*EMBEDX, "classify", files["rows"], "--test", files["test rows"], *common]
    if task == MILLION:
        epochs = ["--epochs", str(MANY_LABELS_EPOCHS)]
        rows = [files["features"], "--train-labels", files["indicators"]]
        return [*EMBEDX, "classify", *rows, *epochs, *common]
    epochs = ["--epochs", "5" if task == FIVE_EPOCHS else "1"]
    return [*EMBEDX, "train", files["lines"], *epochs, *common, "--cache-dir", f"{folder}/cache"]


def _lock_seconds(command: list[str], folder: Path) -> Result:
    """Seconds that the main thread and all others hold the interpreter's lock."""
    samples = folder / "samples"
    sampler = ["py-spy", "record", "--gil", "--threads", "--rate", str(SAMPLES)]
    completed = subprocess.run(
        [*sampler, "--format", "raw", "--output", str(samples), "--", *command],
        capture_output=True,
        text=True,
    )
    if completed.returncode:
        return {"error": completed.stderr.strip().splitlines()[-1]}
    seconds = {"main": 0.0, "workers": 0.0}
    for line in samples.read_text().splitlines():
        stack, count = line.rsplit(" ", 1)
        thread = stack.split(";", 1)[0]
        seconds["main" if "MainThread" in thread else "workers"] += int(count) / SAMPLES
    return seconds


# ---- the table


def parts_of(seconds: float, cpu_seconds: float) -> Parts:
    """The parts of a stage by the clock and by all cores, measured with two threads."""
    serial = min(max(2 * seconds - cpu_seconds, 0.0), seconds)
    return Parts(serial, 2 * (seconds - serial))


def stages(records: Records) -> str:
    """A row for each stage, and for the whole command, of each task."""
    rows = []
    for task in TASKS:
        one, two = (_medians(records, task, threads) for threads in CORES)
        parts = {stage: parts_of(*times) for stage, times in two.items()}
        if not parts:
            continue
        rows += [
            _row(task, stage, one.get(stage), two[stage], part) for stage, part in parts.items()
        ]
        if WHOLE not in parts:
            rows.append(_row(task, WHOLE, _total(one), _total(two), _sum(parts)))
    return table(rows)


def targets(records: Records) -> str:
    """The estimate for a whole command of each task beside its target."""
    rows = []
    for task, target in TARGETS.items():
        two = _medians(records, task, max(CORES))
        if two:
            seconds = _sum({stage: parts_of(*times) for stage, times in two.items()}).on(
                TARGET_CORES
            )
            rows.append(
                {
                    "task": task,
                    f"on {TARGET_CORES} cores, s": number(seconds, 2),
                    "target, s": number(target, 1),
                    "verdict": "met" if seconds <= target else "**not met**",
                }
            )
    return table(rows)


def _sum(parts: dict[str, Parts]) -> Parts:
    """The parts of all stages together."""
    return Parts(
        sum(part.serial for part in parts.values()), sum(part.parallel for part in parts.values())
    )


def lock(records: Records) -> str:
    """Seconds that threads hold the interpreter's lock."""
    rows = []
    for task in TASKS:
        result = records.last(kind="lock", task=task)
        if result is not None:
            rows.append(
                {
                    "task": task,
                    "held by the main thread, s": number(result["main"], 2),
                    "by all others, s": number(result["workers"], 2),
                }
            )
    return table(rows)


def _row(
    task: str, stage: str, one: tuple[float, float] | None, two: tuple[float, float], parts: Parts
) -> dict[str, str]:
    estimates = {f"on {n} cores, s": number(parts.on(n), 2) for n in ESTIMATED_CORES}
    return {
        "task": task,
        "stage": stage,
        "1 thread, s": number(one[0] if one else None, 2),
        "2 threads, s": number(two[0], 2),
        "of all cores, s": number(two[1], 2),
        "serial, s": number(parts.serial, 2),
        "parallel, s": number(parts.parallel, 2),
        **estimates,
    }


def _medians(records: Records, task: str, threads: int) -> dict[str, tuple[float, float]]:
    """Seconds by the clock and of all cores of each stage."""
    results = records.results(kind="command", task=task, threads=threads)
    runs = [{stage["stage"]: stage for stage in result["stages"]} for result in results]
    names = dict.fromkeys(name for run in runs for name in run)
    return {
        name: (_median(runs, name, "seconds"), _median(runs, name, "cpu_seconds")) for name in names
    }


def _median(runs: list[dict[str, Any]], stage: str, what: str) -> float:
    return statistics.median(run[stage][what] for run in runs if stage in run)


def _total(stages: dict[str, tuple[float, float]]) -> tuple[float, float]:
    seconds, cpu_seconds = zip(*stages.values(), strict=True)
    return sum(seconds), sum(cpu_seconds)

"""Is a cluster as good as one machine, what does it cost, and how fast would many machines be?

Sections: `quality`, workers in turn within one process, by the code that runs on a cluster, on the
first megabytes of the text: each merges after its range with what the others have learned since its
turn before, as many machines of one speed would do it; `time`, the command with and without a
cluster of this machine alone, in turns; `costs`, what the simulation of `cluster_model.py` needs to
know of this machine. Every measurement is a process of its own.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval import cluster_tables as tables, corpus
from eval.cluster_tables import HOW, MERGES, OBJECTIVES, WORKERS
from eval.experiment import Experiment, Run, in_process
from eval.records import Job, Result

MAX_MERGES = 800  # of all workers: a range has no less than a chunk of the text
# by the kind of job, what does it in a process of its own (`cluster_process`)
MEASURES = {"costs": "measure_costs", "quality": "train_in_turn", "run": "run_command"}


def jobs(run: Run) -> Iterator[Job]:
    settings = run.settings
    sections = run.chosen("section")
    if "costs" in sections:
        yield {
            "kind": "costs",
            "range_words": int(settings.range_words),
            "ranges": int(settings.ranges),
        }
    if "time" in sections:
        for seed in range(1, int(settings.repetitions) + 1):
            for workers, threads in HOW:
                yield {
                    "kind": "run",
                    "workers": workers,
                    "threads": threads,
                    "epochs": settings.passes,
                    "seed": seed,
                }
    if "quality" in sections:
        for objective in run.chosen("objective"):
            common = {"kind": "quality", "objective": objective, "epochs": settings.epochs}
            yield from (
                common | {"workers": 1, "merges": MERGES[0], "seed": 1 + k}
                for k in range(int(settings.seeds))
            )
            for merges in MERGES:
                for n in WORKERS[1:]:
                    if n * merges <= MAX_MERGES:
                        yield common | {"workers": n, "merges": merges, "seed": 1}


def prepare(run: Run) -> dict[str, Any]:
    """The text, and its first megabytes."""
    about = corpus.unpacked(run)
    run.files["tokens"] = str(run.folder / "tokens")
    about["beginning"] = corpus.beginning(
        run, Path(run.files["text"]), b" ", run.settings.megabytes
    )
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    return in_process("eval.cluster_process", MEASURES[job["kind"]], job, run.files)


EXPERIMENT = Experiment(
    name="cluster",
    title="Workers on a cluster beside one machine",
    choices={"section": ("quality", "time", "costs"), "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    prepare=prepare,
    tables={
        "quality": tables.quality,
        "time": tables.time,
        "costs": tables.costs,
        "checked": tables.checked,
        "predicted": tables.predicted,
    },
    plots={},
    settings={
        "corpus": None,
        "megabytes": 10.0,
        "epochs": 5,
        "passes": 5,
        "seeds": 3,
        "repetitions": 3,
        "range_words": 400_000,
        "ranges": 40,
    },
    quick={
        "megabytes": 1.0,
        "epochs": 1,
        "passes": 1,
        "seeds": 1,
        "repetitions": 1,
        "range_words": 20_000,
        "ranges": 6,
    },
    packages=("ray",),
    mixed=True,
)

"""Are sparse one-vs-all classifiers as good as label trees with many labels on sparse features, and
as fast and small?

Every measurement is a fresh process (`classification_process.py`), contenders take turns, and
tables give medians; embedx is measured at its defaults, as it trains without any option, and with
three trees, as omikuji has by default. PECOS needs a numpy before 2.0, so it lives in an
environment of its own: --set pecos_python=ITS/bin/python. Generated data show how time and memory
grow; --set max_labels=100000 leaves out the million, which takes minutes and gigabytes at two
passes instead of ten.
"""

from collections.abc import Iterator
from functools import partial
from typing import Any

from eval import speed_classification as beside
from eval.experiment import Experiment, Run
from eval.page import MEGABYTE, figure, table
from eval.records import Job, Records
from eval.speed_classification import SUITED, THREADS, embedx, failed, measured, peer, rows_of

PEERS: dict[str, Job] = {
    "omikuji (Parabel, 3 trees)": peer("omikuji"),
    "omikuji, 1 tree": peer("omikuji", n_trees=1),
    "napkinXC PLT": peer("napkinXC"),
    "PECOS XR-Linear": peer("PECOS"),
    "PECOS, matcher-aware negatives": peer("PECOS", negative_sampling_scheme="tfn+man"),
    "LibMultiLabel, a tree": peer("LibMultiLabel", method="tree"),
}
DATASETS: dict[str, dict[str, Job]] = {
    "enwiki-cat": {
        "embedx": embedx("ova", **SUITED),
        "embedx, 3 trees": embedx("ova", **SUITED, weights="tree", trees=3),
        **PEERS,
    },
    "eurlex": {
        "embedx": embedx("ova", **SUITED),
        "embedx, a tree": embedx("ova", **SUITED, weights="tree"),
        **PEERS,
    },
}
# options by labels, and rows
GENERATED: dict[int, dict[str, int]] = {10_000: {}, 100_000: {}, 1_000_000: {"epochs": 2}}
TOOLS = tuple(dict.fromkeys(job["tool"] for jobs in DATASETS.values() for job in jobs.values()))
TESTED = 20_000  # rows


def jobs(run: Run) -> Iterator[Job]:
    """Contenders take turns: one repetition of all of them after the other."""
    for turn in range(1, run.settings.repetitions + 1):
        for dataset in run.chosen("dataset"):
            for name, job in DATASETS.get(dataset, {}).items():
                if job["tool"] in run.chosen("tool") and beside.is_there(run, job["tool"]):
                    yield {
                        "dataset": dataset,
                        "name": name,
                        "threads": THREADS,
                        "turn": turn,
                        **job,
                    }
    if "generated" in run.chosen("dataset"):
        for n in (n_labels for n_labels in GENERATED if n_labels <= run.settings.max_labels):
            yield {
                "dataset": "random",
                "name": "embedx",
                "threads": 1,
                "turn": 1,
                **embedx("ova", **SUITED, **GENERATED[n]),
                "tool": "embedx growth",
                "labels": n,
                "examples": n,
                "tested": TESTED,
            }


def needs(run: Run) -> list[str]:
    """The chosen data sets, but for generated ones."""
    return [beside.data_set(name) for name in run.chosen("dataset") if name in DATASETS]


def contenders(dataset: str, records: Records) -> str:
    return table(
        [
            (
                failed(row)
                if row.error is not None
                else {
                    "contender": row.name,
                    "runs": row.runs,
                    "s training": f"{row['training']:.1f}",
                    "rows/s predicting": f"{row['rows'] / row['prediction']:,.0f}",
                    "model, MB": f"{row['size'] / MEGABYTE:,.0f}",
                    "peak, MB": f"{row['peak'] / MEGABYTE:,.0f}",
                    **{f"P@{k}": f"{row[f'p@{k}']:.4f}" for k in (1, 3, 5)},
                    **{f"PSP@{k}": f"{row[f'psp@{k}']:.4f}" for k in (1, 3, 5)},
                    "calibration error": f"{row['calibration']:.3f}",
                }
            )
            for row in rows_of(records, dataset)
        ]
    )


def growth(records: Records) -> str:
    """Generated data, a row for each number of labels."""
    return table(
        [
            {
                "labels": f"{job['labels']:,}",
                "rows": f"{job['examples']:,}",
                "passes": result["used"]["epochs"],
                "s training": f"{result['training']:.1f}",
                "µs an example": f"{1e6 * result['training'] / job['examples']:.0f}",
                "data, MB": f"{result['data'] / MEGABYTE:,.0f}",
                "peak, MB": f"{result['trained'] / MEGABYTE:,.0f}",
                "model, MB": f"{result['size'] / MEGABYTE:,.0f}",
                "rows/s predicting": f"{result['rows'] / result['prediction']:,.0f}",
                "P@1": f"{result['p@1']:.4f}",
                "P@5": f"{result['p@5']:.4f}",
            }
            for job, result in sorted(
                (
                    (record["job"], record["result"])
                    for record in records.find(tool="embedx growth")
                ),
                key=lambda pair: pair[0]["labels"],
            )
        ]
    )


def plot(records: Records) -> Any:
    """P@1 against seconds of training."""
    panels = {dataset: measured(records, dataset) for dataset in DATASETS}
    if not any(panels.values()):
        return None
    picture, axes_of = figure(11, 6.5, len(panels), dpi=90)
    names = list(dict.fromkeys(row.name for rows in panels.values() for row in rows))
    for axes, (dataset, rows) in zip(axes_of, panels.items(), strict=True):
        beside.scattered(axes, rows, "p@1", names)
        axes.set(title=dataset)
        ticks = [
            seconds
            for seconds in (2, 5, 10, 20, 50, 100, 200)
            if axes.get_xlim()[0] <= seconds <= axes.get_xlim()[1]
        ]
        axes.set_xticks(ticks, [str(seconds) for seconds in ticks])
        axes.set_xticks([], minor=True)
        axes.grid(visible=True, alpha=0.3)
        axes.legend(
            loc="upper center",
            bbox_to_anchor=(0.5, -0.13),
            frameon=False,
            ncols=2,
            title="circles: embedx",
        )
    return picture


EXPERIMENT = Experiment(
    name="speed-many-labels",
    title="Many labels on sparse features, beside label trees",
    choices={"dataset": (*DATASETS, "generated"), "tool": TOOLS},
    packages=("scipy",),
    settings={"repetitions": 1, "pecos_python": None, "max_labels": max(GENERATED)},
    quick={"repetitions": 1, "max_labels": min(GENERATED)},
    needs=needs,
    jobs=jobs,
    measure=beside.measure,
    tables={
        **{name: partial(contenders, name) for name in DATASETS},
        **{f"{name}-equal": partial(beside.equal_quality, name) for name in DATASETS},
        **{f"{name}-settings": partial(beside.settings_of, name) for name in DATASETS},
        "growth": growth,
    },
    plots={"": plot},
)

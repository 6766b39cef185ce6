"""How fast are the classifiers of embedx beside label trees, fastText and scikit-learn?

Sections: `eurlex`, thousands of labels, several for each row; `small`, MNIST and Bibtex; `scaling`,
time for each example against the number of labels, on random data. Every measurement is a fresh
process (`classification_process.py`), contenders take turns, and tables give medians. A contender
that fails is reported in the table and does not end the run. PECOS needs a numpy before 2.0, so it
lives in an environment of its own: --set pecos_python=ITS/bin/python.
"""

import dataclasses
import statistics
import sys
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, save_npz

from embedx.labeled.scaling import unit_rows
from eval.experiment import Experiment, Run, in_process, say
from eval.page import MEGABYTE, figure, listed, shown_settings, table
from eval.papers import QUICK_ROWS, load
from eval.records import Job, Record, Records, Result, grouped

# ---- the contenders: options are embedx's settings or the peer's own parameters; others are the
# tool's defaults

THREADS = 2
# which `embedx classify` chooses for sparse features by itself
SUITED = {"loss": "squared-hinge"}


def embedx(objective: str, **options: Any) -> Job:
    return {"tool": "embedx", "objective": objective, "options": options}


def peer(tool: str, **options: Any) -> Job:
    return {"tool": tool, "options": options}


# What every section with several labels for each row compares; `rates` of fastText: the first at
# which it does not end in NaN.
PEERS: dict[str, Job] = {
    **{
        f"fastText, {loss}": peer("fastText", loss=loss, epoch=15, rates=[0.5, 0.2, 0.1, 0.05])
        for loss in ("softmax", "ova", "hs")
    },
    "omikuji (Parabel)": peer("omikuji"),
    "napkinXC PLT": peer("napkinXC"),
    "PECOS XR-Linear": peer("PECOS"),
    "LinearSVC, one-vs-rest": peer("LinearSVC"),
}
SEVERAL_LABELS: dict[str, Job] = {
    "embedx": embedx("ova", **SUITED),
    "embedx, a tree": embedx("ova", **SUITED, weights="tree"),
    **{
        f"embedx {objective}, hidden 100": embedx(objective, hidden=100)
        for objective in ("ns", "hs", "ar", "ove", "implicit", "ldgs", "softmax")
    },
    **PEERS,
}
# of the optimum, embedx's and scikit-learn's alike; without the second training that calibrates
# probabilities, which scikit-learn's classifier does not do
SINGLE = {"l2": 1e-4, "max_iterations": 1000, "tolerance": 1e-4}
ONE_LABEL: dict[str, Job] = {
    "embedx softmax, lbfgs": (
        embedx("softmax", optimizer="lbfgs", calibration=0.0, **SINGLE) | {"tool": "embedx single"}
    ),
    "embedx softmax, adagrad": (
        embedx("softmax", optimizer="adagrad", calibration=0.0, l2=SINGLE["l2"], epochs=10)
        | {"tool": "embedx single"}
    ),
    "scikit-learn LogisticRegression": peer("LogisticRegression", **SINGLE),
}
TABLES: list[tuple[str, str, dict[str, Job]]] = [
    ("eurlex", "eurlex", SEVERAL_LABELS),
    ("small", "mnist", ONE_LABEL),
    ("small", "bibtex-first", ONE_LABEL),
    ("small", "bibtex", SEVERAL_LABELS),
]

# The scaling: random dense features.
FEATURES, EXAMPLES = 100, 20_000
LABELS = (1_000, 10_000, 100_000, 1_000_000)
DRAWING = ("ns", "ar", "ove")
DRAWS = (5, 20)
OPTIMIZERS = ("adagrad", "sgd")
DRAWN_EPOCHS = 5
EXACT_WORK = 200_000_000  # examples times labels of the exact softmax, so that it takes seconds
EXACT_LABELS = 100_000

CONTENDERS = {  # their tools
    "embedx": ("embedx", "embedx single", "embedx scaling"),
    "fasttext": ("fastText",),
    "omikuji": ("omikuji",),
    "napkinxc": ("napkinXC",),
    "pecos": ("PECOS",),
    "linearsvc": ("LinearSVC",),
    "sklearn": ("LogisticRegression",),
}
SLOW = "linearsvc"  # half an hour on EURLex: measured on request
PACKAGES = {
    "fastText": "fasttext",
    "omikuji": "omikuji",
    "napkinXC": "napkinxc",
    "LinearSVC": "scikit-learn",
    "LogisticRegression": "scikit-learn",
    "LibMultiLabel": "libmultilabel",
}
MARGIN = 0.005  # how far below another's P@1 and P@5 still counts as as accurate
# data sets of jobs whose recipes have other names
DATA = {"eurlex": "eurlex-4.3k", "bibtex-first": "bibtex"}


# ---- which jobs, in which order


def jobs(run: Run) -> Iterator[Job]:
    """All jobs of a run. Contenders take turns: one repetition of all of them after the other."""
    contenders = [name for name in run.chosen("contender") if name != SLOW or name in run.only]
    tools = [tool for name in contenders for tool in CONTENDERS[name]]
    for job in all_jobs(run.chosen("section"), range(1, run.settings.repetitions + 1), run.quick):
        if job["tool"] in tools and is_there(run, job["tool"]):
            yield job


def is_there(run: Run, tool: str) -> bool:
    """Whether a tool can be measured. Ends a full run where a peer is missing."""
    if tool == "PECOS":
        return run.has(
            tool,
            run.settings.pecos_python is not None,
            "--set pecos_python=INTERPRETER of an environment with it",
        )
    return tool not in PACKAGES or run.need(tool, PACKAGES[tool])


def all_jobs(sections: Sequence[str], turns: Sequence[int], quick: bool) -> Iterator[Job]:
    for section, dataset, contenders in TABLES:
        if section in sections:
            for turn in turns:
                for name, job in contenders.items():
                    yield {
                        "section": section,
                        "dataset": dataset,
                        "name": name,
                        "threads": THREADS,
                        "turn": turn,
                        **job,
                    }
    if "scaling" in sections:
        for turn in turns:
            yield from scaling_jobs(turn, quick)


def scaling_jobs(turn: int, quick: bool) -> Iterator[Job]:
    for n_labels in LABELS[:2] if quick else LABELS:
        for threads in (1, 2):
            for optimizer in OPTIMIZERS:
                common = {"optimizer": optimizer, "learning_rate": 0.1}
                drawn = common | {"epochs": DRAWN_EPOCHS, "sampler": "uniform"}
                variants = [
                    (objective, drawn | {"negatives": n}) for objective in DRAWING for n in DRAWS
                ]
                variants.append(("hs", common | {"epochs": DRAWN_EPOCHS}))
                if n_labels <= EXACT_LABELS:
                    variants.append(("softmax", common | {"epochs": 1}))
                for objective, options in variants:
                    if objective == "softmax":
                        n_rows = min(EXAMPLES, EXACT_WORK // n_labels)
                    else:
                        n_rows = EXAMPLES
                    yield {
                        "section": "scaling",
                        "dataset": "random",
                        "tool": "embedx scaling",
                        "objective": objective,
                        "options": options,
                        "labels": n_labels,
                        "features": FEATURES,
                        "threads": threads,
                        "turn": turn,
                        "examples": min(n_rows, QUICK_ROWS) if quick else n_rows,
                        "name": f"embedx {objective}",
                    }


# ---- the data, in the forms that the tools read


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    sections = run.chosen("section")
    names = [data_set(dataset) for section, dataset, _ in TABLES if section in sections]
    return list(dict.fromkeys(names))


def data_set(dataset: str) -> str:
    """The name of the data set of a job, as recipes have it."""
    return DATA.get(dataset, dataset)


def written(run: Run, dataset: str) -> dict[str, str]:
    """The folder of a data set, written on first use."""
    target = run.folder / dataset
    if dataset != "random" and not target.exists():
        say(f"preparing {dataset}")
        target.mkdir()
        halves = load(run.data_folder, data_set(dataset), run.quick)
        for half, data in zip(("train", "test"), halves, strict=True):
            if dataset == "mnist":
                np.save(target / f"{half}.X.npy", data.features / np.float32(255))
                np.save(target / f"{half}.y.npy", data.labels.ids)
            elif dataset == "bibtex-first":
                save_npz(target / f"{half}.X.npz", data.features)
                np.save(target / f"{half}.y.npy", data.labels.ids[data.labels.offsets[:-1]])
            else:
                # Sparse matrices, XC text and fastText's lines, all of the same rows; those of
                # Bibtex brought to length 1.
                features = unit_rows(data.features) if dataset == "bibtex" else data.features
                save_npz(target / f"{half}.X.npz", features)
                save_npz(target / f"{half}.Y.npz", indicator(data.labels, data.n_labels))
                write_lines(target / half, features, data.labels, data.n_labels)
    return {"folder": str(target)}


def indicator(labels: Any, n_labels: int) -> Any:
    """float32 csr (n, n_labels) with 1 for each label of a row."""
    matrix = csr_matrix(
        (np.ones(len(labels.ids), dtype=np.float32), labels.ids, labels.offsets),
        (len(labels), n_labels),
    )
    matrix.sort_indices()
    return matrix


def write_lines(stem: Path, features: Any, labels: Any, n_labels: int) -> None:
    """The XC file, and fastText's: labels, a tab, a word `fNNN` for each feature that is there."""
    with stem.with_suffix(".txt").open("w") as xc, stem.with_suffix(".ft").open("w") as words:
        xc.write(f"{features.shape[0]} {features.shape[1]} {n_labels}\n")
        for row in range(features.shape[0]):
            span = slice(features.indptr[row], features.indptr[row + 1])
            columns = features.indices[span].tolist()
            ids = labels[row].tolist()
            pairs = zip(columns, features.data[span].tolist(), strict=True)
            xc.write(
                ",".join(map(str, ids))
                + "".join(f" {column}:{value:.6g}" for column, value in pairs)
                + "\n"
            )
            names = " ".join(f"__label__{label}" for label in ids)
            bag = " ".join(f"f{column}" for column in columns)
            words.write(f"{names}\t{bag}\n")


def measure(run: Run, job: Job) -> Result:
    """The result of a job run in a process of its own; {"error": its last line} if that fails."""
    threads = str(job["threads"])
    environment = dict.fromkeys(
        ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS"), threads
    )
    # see speed.py: pages fresh from the system are zero, which it relies on
    if job["tool"] == "fastText":
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    python = str(run.settings.pecos_python) if job["tool"] == "PECOS" else sys.executable
    result = in_process(
        "eval.classification_process",
        "measure",
        job,
        written(run, job["dataset"]),
        python,
        **environment,
    )
    result.pop("stderr", None)
    return result


# ---- medians


@dataclasses.dataclass(frozen=True)
class Row:
    """A contender's medians over its turns."""

    name: str
    tool: str
    runs: int
    values: dict[str, float]
    used: dict[str, Any]
    error: str | None = None  # the last one, if no turn succeeded

    def __getitem__(self, measure: str) -> float:
        return self.values[measure]

    @property
    def is_ours(self) -> bool:
        return self.tool.startswith("embedx")


def rows_of(records: Records, dataset: str) -> list[Row]:
    """A row for each contender, in the order in which they were measured."""
    groups = grouped(records.find(dataset=dataset), lambda job: job["name"])
    return [row_of(name, group) for name, group in groups.items()]


def row_of(name: str, group: Sequence[Record]) -> Row:
    results = [record["result"] for record in group if "error" not in record["result"]]
    tool = str(group[0]["job"]["tool"])
    if not results:
        return Row(name, tool, 0, {}, {}, error=group[-1]["result"]["error"])
    numbers = [key for key, value in results[0].items() if isinstance(value, int | float)]
    values = {key: statistics.median(result[key] for result in results) for key in numbers}
    return Row(name, tool, len(results), values, results[-1]["used"])


def measured(records: Records, dataset: str) -> list[Row]:
    return [row for row in rows_of(records, dataset) if row.runs]


# ---- tables of a data set


def failed(row: Row) -> dict[str, Any]:
    return {"contender": row.name, "runs": 0, "s training": f"failed: {row.error}"}


def several_labels(dataset: str, records: Records) -> str:
    return table(
        [
            (
                failed(row)
                if row.error is not None
                else {
                    "contender": row.name,
                    "runs": row.runs,
                    "s reading": f"{row['reading']:.2f}",
                    "s training": f"{row['training']:.2f}",
                    "s predicting": f"{row['prediction']:.2f}",
                    "model, MB": f"{row['size'] / MEGABYTE:,.1f}",
                    **{f"P@{k}": f"{row[f'p@{k}']:.4f}" for k in (1, 3, 5)},
                }
            )
            for row in rows_of(records, dataset)
        ]
    )


def settings_of(dataset: str, records: Records) -> str:
    """The settings of each contender, a line each."""
    return listed([f"{row.name}: {shown_settings(row.used)}" for row in measured(records, dataset)])


def as_accurate(row: Row, other: Row) -> bool:
    return all(row[name] >= other[name] - MARGIN for name in ("p@1", "p@5"))


def equal_quality(dataset: str, records: Records) -> str:
    """Each peer beside the fastest embedx that is as accurate."""
    rows = measured(records, dataset)
    ours = [row for row in rows if row.is_ours]
    lines = []
    for peer in (row for row in rows if not row.is_ours):
        best_of_ours = min(
            (row for row in ours if as_accurate(row, peer)),
            key=lambda row: row["training"],
            default=None,
        )
        row = {"peer": peer.name, "P@1": f"{peer['p@1']:.4f}", "P@5": f"{peer['p@5']:.4f}"}
        if best_of_ours is None:
            best = max(ours, key=lambda row: row["p@5"], default=None)
            row["embedx"] = "none as accurate" + (
                f"; {best.name} has {best['p@1']:.4f}, {best['p@5']:.4f}" if best else ""
            )
        else:
            kinds = {
                "training": "training time",
                "prediction": "prediction time",
                "size": "model size",
            }
            row |= {"embedx": best_of_ours.name} | {
                f"× its {said}": times(best_of_ours[kind], peer[kind])
                for kind, said in kinds.items()
            }
        lines.append(row)
    return table(lines)


def times(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2g}" if theirs > 0 else "not comparable"


def one_label(dataset: str, records: Records) -> str:
    """Each contender, embedx's beside scikit-learn's."""
    rows = rows_of(records, dataset)
    lines = []
    theirs = next((row for row in rows if row.runs and not row.is_ours), None)
    for row in rows:
        if row.error is not None:
            lines.append(failed(row))
            continue
        cells = {
            "contender": row.name,
            "runs": row.runs,
            "s training": f"{row['training']:.2f}",
            "s predicting": f"{row['prediction']:.2f}",
        }
        cells["iterations"] = f"{row['iterations']:.0f}" if "iterations" in row.values else ""
        cells |= {
            "accuracy": f"{row['accuracy']:.4f}",
            "log-likelihood": f"{row['log_likelihood']:.4f}",
        }
        if row.is_ours and theirs is not None:
            cells["× scikit-learn's training time"] = times(row["training"], theirs["training"])
            for name in ("accuracy", "log_likelihood"):
                cells[f"{name.replace('_', '-')} minus its"] = f"{row[name] - theirs[name]:+.4f}"
        lines.append(cells)
    return table(lines)


# ---- scaling

Curve = tuple[str, str, int]  # objective with its draws, optimizer, threads


def curves_of(records: Records) -> dict[Curve, dict[int, Row]]:
    """For each way to train, by the number of labels."""

    def curve_of(job: Job) -> Curve:
        draws = job["options"].get("negatives")
        return (
            job["objective"] + (f", {draws} draws" if draws else ""),
            job["options"]["optimizer"],
            job["threads"],
        )

    groups = grouped(records.find(section="scaling"), curve_of)
    rows = {
        curve: {
            k: row_of(str(k), runs_of_size)
            for k, runs_of_size in grouped(runs, lambda job: job["labels"]).items()
        }
        for curve, runs in groups.items()
    }
    return {
        curve: measured_rows
        for curve, by in rows.items()
        if (measured_rows := {k: row for k, row in by.items() if row.runs})
    }


def scaling(records: Records) -> str:
    """Microseconds for each example by the number of labels."""
    curves = curves_of(records)
    return table(
        [
            {"objective": name, "optimizer": optimizer, "threads": threads}
            | {f"{k:,}": f"{by[k]['microseconds']:.2f}" for k in by}
            for (name, optimizer, threads), by in sorted(
                curves.items(), key=lambda item: (item[0][2], item[0][1])
            )
        ]
    )


def growth(records: Records) -> str:
    """How time grows with the labels, and the gain over the exact softmax where both were measured;
    adagrad, one thread.
    """
    curves = {
        curve[0]: by for curve, by in curves_of(records).items() if curve[1:] == ("adagrad", 1)
    }
    rows = []
    for name, by in curves.items():
        min_labels = min(by)
        max_labels = max(by)
        shared = max((k for k in curves.get("softmax", {}) if k in by), default=None)
        if min_labels != max_labels:
            slowdown = by[max_labels]["microseconds"] / by[min_labels]["microseconds"]
            row = {
                "objective": name,
                "× the labels": f"{max_labels / min_labels:,.0f}",
                "× the time": f"{slowdown:.2g}",
            }
            if name != "softmax" and shared is not None:
                gain = curves["softmax"][shared]["microseconds"] / by[shared]["microseconds"]
                row |= {"at labels": f"{shared:,}", "exact softmax takes ×": f"{gain:,.3g}"}
            rows.append(row)
    return table(rows)


# ---- the pictures


def plot_eurlex(records: Records) -> Any:
    """P@5 against seconds of training."""
    rows = measured(records, "eurlex")
    picture, (axes,) = figure(9, 5.5, dpi=90)
    scattered(axes, rows, "p@5", [row.name for row in rows])
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(
        loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, title="circles: embedx"
    )
    return picture if rows else None


def scattered(axes: Any, rows: Sequence[Row], measure: str, names: Sequence[str]) -> None:
    """A measure against seconds of training; names have colours by their place."""
    for row in rows:
        style = {
            "marker": "o" if row.is_ours else "s",
            "color": f"C{names.index(row.name) % 10}",
            "label": row.name,
        }
        axes.scatter(row["training"], row[measure], s=60, edgecolor="black", **style)
    axes.set(xscale="log", xlabel="seconds of training", ylabel=measure.upper())


def plot_scaling(records: Records) -> Any:
    """Microseconds for each example against the number of labels, one thread, both optimisers."""
    curves = {curve: by for curve, by in curves_of(records).items() if curve[2] == 1}
    if not curves:
        return None
    names, optimizers = (list(dict.fromkeys(curve[part] for curve in curves)) for part in (0, 1))
    picture, panels = figure(10, 4.8, len(optimizers), dpi=90, sharey=True)
    for axes, optimizer in zip(panels, optimizers, strict=True):
        for (name, curve_optimizer, _), by in curves.items():
            if curve_optimizer == optimizer:
                axes.plot(
                    sorted(by),
                    [by[k]["microseconds"] for k in sorted(by)],
                    marker="o",
                    label=name,
                    color=f"C{names.index(name)}",
                )
        axes.set(xscale="log", yscale="log", title=f"{optimizer}, one thread", xlabel="labels")
        axes.grid(visible=True, alpha=0.3)
    panels[0].set_ylabel("microseconds for each example")
    panels[-1].legend(fontsize="small")
    return picture


EXPERIMENT = Experiment(
    name="speed-classification",
    title="Classifiers beside label trees, fastText and scikit-learn",
    choices={"section": ("eurlex", "small", "scaling"), "contender": tuple(CONTENDERS)},
    settings={"repetitions": 3, "pecos_python": None},
    quick={"repetitions": 1},
    packages=("scipy",),
    compared=lambda job: job["section"],
    needs=needs,
    jobs=jobs,
    measure=measure,
    tables={
        **{name: partial(several_labels, name) for name in ("eurlex", "bibtex")},
        **{f"{name}-equal": partial(equal_quality, name) for name in ("eurlex", "bibtex")},
        **{name: partial(one_label, name) for name in ("mnist", "bibtex-first")},
        **{f"{dataset}-settings": partial(settings_of, dataset) for _, dataset, _ in TABLES},
        "scaling": scaling,
        "growth": growth,
    },
    plots={"-eurlex": plot_eurlex, "-scaling": plot_scaling},
)

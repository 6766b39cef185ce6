"""Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation": noise that suits the input.

    eurlex          EURLex-4.3K, the first label of each document
    next-word       which of all words stands between these, from text
    categories      English Wikipedia pages to their categories, the first of each page
    categories-all  the same with all categories of a page
    clusters        200,000 labels about centres that are near each other in two ways at once, which is no hierarchy

All is measured against time. Documents are reduced to 512 principal components, the paper's number of features. A contender
is trained once for each rate (and penalty of scores), briefly; the best one by validation rows, a part of the training rows
that no run sees, is trained until its time is used up, and measured along the way. The clock of a contender that fits a tree
starts with the fit.
"""

import dataclasses
import functools
import hashlib
import itertools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from eval import papers
from eval import papers_ldgs_data as sources
from eval.experiment import Experiment, Run
from eval.page import DASH, number, table, target
from eval.records import Job, Records, Result
from eval.under_test import DivergedError, Labeled, LabelMetrics, Labels, cache_home, chosen_labels, known_labels, usable_cores

DIM = 512  # principal components of documents, the paper's number of features
VALIDATION = 0.1  # share of the training rows that rates are chosen by
GROWTH = 1.7  # of the time between two measurements
RATES = (0.1, 0.5, 2.5)
PENALTIES = (0.0, 1e-3)  # of eq. 6; the paper's best are 1e-3 with its own noise and 1e-4 or 3e-4 with uniform noise


@dataclasses.dataclass(frozen=True)
class Contender:
    """A line of the paper's figure 1: an objective, its settings, those of the sampler, and the penalties to try."""

    objective: str
    sampler: str
    options: dict[str, Any] = dataclasses.field(default_factory=dict)
    of_sampler: dict[str, Any] = dataclasses.field(default_factory=dict)
    penalties: tuple[float, ...] = ()


ONE = {"negatives": 1, "replacement": True}  # as in the paper, whose draws may hit the positive

CONTENDERS = {
    "adversarial": Contender("ns", "adversarial", ONE, penalties=PENALTIES),
    "uniform": Contender("ns", "uniform", ONE, penalties=PENALTIES),
    "frequency": Contender("ns", "unigram", ONE, {"sampler_exponent": 1.0}, PENALTIES),
    "nce": Contender("nce", "adversarial", ONE),  # with the tree as base distribution, as in the paper
    "ar": Contender("ar", "uniform"),
    "ove": Contender("ove", "uniform"),
}

DATA = ("eurlex", "next-word", "categories", "categories-all", "clusters")
FULL = {
    "corpus": None,
    "seconds": 60.0,  # of training for each curve
    "rate_seconds": 8.0,  # for each rate
    "positions": (500_000, 20_000, 0.01),  # of next-word: for training, for test, share of the text held out
    "labels": (200_000, 1_000_000),  # of clusters, and their training rows
    "rows": 2_000,  # validation rows and test rows that a point of a curve is measured on
}
QUICK = {"seconds": 0.3, "rate_seconds": 0.05, "positions": (2_000, 200, 0.1), "labels": (200, 2_000), "rows": 100}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    for name in run.chosen("data"):
        yield {"data": name, "what": "facts"}
        for contender in run.chosen("contender"):
            for rate, penalty in itertools.product(RATES, CONTENDERS[contender].penalties or (0.0,)):
                yield rate_job(name, contender, rate, penalty, run)
            yield {"data": name, "what": "curve", "contender": contender, "seconds": run.settings.seconds}


def rate_job(name: str, contender: str, rate: float, penalty: float, run: Run) -> Job:
    return {
        "data": name, "what": "rate", "contender": contender, "rate": rate, "penalty": penalty,
        "seconds": run.settings.rate_seconds,
    }  # fmt: skip


def measure(run: Run, job: Job) -> Result:
    data = data_of(run, job["data"])
    if job["what"] == "facts":
        return data.facts()
    if job["what"] == "rate":
        points = curve(run, data, job["contender"], job["rate"], job["penalty"], job["seconds"], ends=True)
        return {"points": points}
    rate, penalty = best_of(run.records, job["data"], job["contender"])
    return {"rate": rate, "penalty": penalty, "points": curve(run, data, job["contender"], rate, penalty, job["seconds"])}


def best_of(records: Records, name: str, contender: str) -> tuple[float, float]:
    """The rate and penalty of the highest validation accuracy."""
    tried = records.find(data=name, what="rate", contender=contender)
    ended = [each for each in tried if each["result"]["points"]]
    if not ended:
        return min(RATES), 0.0
    best = max(ended, key=lambda each: each["result"]["points"][-1]["validation accuracy"])
    return best["job"]["rate"], best["job"]["penalty"]


# ---- data


@dataclasses.dataclass(frozen=True)
class Halves:
    """Training rows, validation rows and test rows; labels of the latter two occur in training."""

    training: Any
    validation: Any
    test: Any

    def facts(self) -> Result:
        counts = np.bincount(self.training.labels.ids, minlength=self.training.n_labels)
        return {
            "rows": len(self.training), "test_rows": len(self.test), "features": self.training.n_features,
            "labels": self.training.n_labels, "labels_seen": int((counts > 0).sum()),
            "labels_a_row": float(self.training.labels.n_of_row.mean()),
        }  # fmt: skip


@functools.lru_cache(maxsize=1)  # one at a time
def data_of(run: Run, name: str) -> Halves:
    own = run.settings
    if name == "next-word":
        found = sources.next_word(sources.text_of(run), *own.positions, run.quick)
        return halves(found.training, found.test, own.rows)
    if name == "clusters":
        return halves(*clusters(*own.labels, n_test=own.rows), own.rows)
    folder = "eurlex-4.3k" if name == "eurlex" else "enwiki-cat"
    if run.quick and not run.has_data:
        made = sources.documents(1_000, 2_000, 300, n_test=200)
        training, test = made.training, made.test
    else:
        training, test = papers.load(run.data, folder, run.quick)
    which = "all" if name == "categories-all" else "first"
    return halves(*(reduced(half, which) for half in components(training, test, f"{folder}-{run.quick}")), own.rows)


def clusters(n_labels: int, n: int, n_test: int) -> tuple[Any, Any]:
    """Rows about the centres of labels, whose frequencies follow Zipf's law. A centre is the sum of two parts out of about
    sqrt(n_labels) each.
    """
    rng, dim = np.random.default_rng(1), 64
    side = math.isqrt(n_labels - 1) + 1
    first, second = (sources.unit(rng.standard_normal((side, dim), dtype=np.float32)) for _ in range(2))
    ids = rng.permutation(n_labels)[sources.zipf(n_labels, n_labels / 100, n + n_test, rng)]
    noise = rng.standard_normal((n + n_test, dim), dtype=np.float32) * np.float32(0.5 / np.sqrt(dim))
    features = (first[ids // side] + second[ids % side] + noise) / np.float32(1.5)  # to length 1 on average
    training, test = (Labeled(features[rows], Labels.single(ids[rows]), n_labels) for rows in (slice(n), slice(n, None)))
    return training, test


def reduced(data: Any, which: str) -> Any:
    return Labeled(data.features, chosen_labels(data.labels, which), data.n_labels)


def components(training: Any, test: Any, key: str) -> tuple[Any, Any]:
    """The same rows by their principal components, computed once for a data set; rows have length 1 on average."""
    from sklearn.decomposition import TruncatedSVD

    n = min(DIM, min(training.features.shape) - 1)
    known = hashlib.sha256(f"{key} {training.features.shape} {n}".encode()).hexdigest()[:16]
    file = cache_home() / "eval" / f"components-{known}.npz"
    if not file.exists():
        svd = TruncatedSVD(n, random_state=1).fit(training.features)
        both = [svd.transform(half.features).astype(np.float32) for half in (training, test)]
        scale = np.float32(1 / np.sqrt((both[0] ** 2).sum(axis=1).mean()))
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, training=both[0] * scale, test=both[1] * scale)
    found = np.load(file)
    first, second = (
        Labeled(found[name], half.labels, half.n_labels) for name, half in {"training": training, "test": test}.items()
    )
    return first, second


def halves(training: Any, test: Any, most: int) -> Halves:
    """A part of the training rows kept apart for validation; of that and of the test `most` rows that have a known label."""
    order = np.random.default_rng(1).permutation(len(training))
    n = min(round(VALIDATION * len(training)), 10_000)
    rest = training.rows(np.sort(order[n:]))
    counts = np.bincount(rest.labels.ids, minlength=rest.n_labels)
    return Halves(rest, *(scored(half, counts, most) for half in (training.rows(np.sort(order[:n])), test)))


def scored(data: Any, counts: np.ndarray, most: int) -> Any:
    """Rows with labels that occur in training, without their others: at most so many, any as likely."""
    labels = known_labels(data.labels, counts)
    kept = np.flatnonzero(labels.n_of_row > 0)
    kept = np.sort(np.random.default_rng(2).permutation(kept)[:most])
    return Labeled(data.features[kept], labels.rows(kept), data.n_labels)


# ---- training


def curve(
    run: Run, data: Halves, name: str, rate: float, penalty: float, seconds: float, ends: bool = False
) -> list[dict[str, float]]:
    """What is measured while a contender trains for so long, at growing distances or at the end alone; [] if it diverged."""
    contender = CONTENDERS[name]
    options: dict[str, Any] = {
        "optimizer": "adagrad", "schedule": "constant", "learning_rate": rate, "sampler": contender.sampler,
        "threads": usable_cores(), "time_budget": seconds, **contender.options, **contender.of_sampler,
    }  # fmt: skip
    if contender.penalties:
        options["score_l2"] = penalty
    points: list[dict[str, float]] = []

    def watch(classifier: Any, epoch: int, passed: float) -> dict[str, float]:
        due = not points or passed >= GROWTH * points[-1]["seconds"]
        if due and not ends:
            points.append({"seconds": passed, "epochs": epoch + 1.0, **measured(classifier, data)})
        return {}

    papers.fit(data.training.rows(np.arange(min(64, len(data.training)))), contender.objective, options | {"time_budget": 0.01})
    try:
        trained = papers.fit(data.training, contender.objective, options, watch=watch)
    except DivergedError:
        return []
    facts = trained.classifier.facts
    if not points or points[-1]["epochs"] != facts["epochs"]:
        points.append({"seconds": facts["seconds"], "epochs": facts["epochs"], **measured(trained.classifier, data)})
    return [point | {"fit": facts.get("fit_seconds", 0.0)} for point in points]


def measured(classifier: Any, data: Halves) -> dict[str, float]:
    """Accuracy (of several labels P@1) and log-likelihood on validation rows and on test rows."""
    found = {}
    for name, half in (("validation", data.validation), ("test", data.test)):
        metrics, begin = LabelMetrics(half.n_labels, ks=(1,)), 0
        for _, log_p in classifier.blocks(half.features, threads=usable_cores()):
            rows = np.arange(begin, begin + len(log_p))
            metrics.add(log_p, log_p, half.labels.rows(rows))
            begin += len(log_p)
        result = metrics.result()
        found |= {f"{name} accuracy": result["p@1"], f"{name} log-likelihood": result["log_likelihood"]}
    return found


# ---- tables


def curves(records: Records, name: str) -> dict[str, Result]:
    """The recorded curves by contender."""
    return {each["job"]["contender"]: each["result"] for each in records.find(data=name, what="curve")}


def best_point(points: list[dict[str, float]]) -> dict[str, float] | None:
    """That of the highest validation accuracy."""
    return max(points, key=lambda point: point["validation accuracy"], default=None)


def reaches(points: list[dict[str, float]], accuracy: float) -> float | None:
    """The seconds after which the validation accuracy is first so high."""
    return next((point["seconds"] for point in points if point["validation accuracy"] >= accuracy), None)


def facts(records: Records) -> str:
    return table([
        {"data": name, "training rows": f"{found['rows']:,}", "test rows measured": f"{found['test_rows']:,}",
         "features": f"{found['features']:,}", "labels": f"{found['labels']:,}",
         "in training rows": f"{found['labels_seen']:,}", "labels a row": f"{found['labels_a_row']:.2f}"}
        for name in DATA if (found := records.get({"data": name, "what": "facts"}))
    ])  # fmt: skip


def results(name: str, records: Records) -> str:
    """A row for each contender, at its best point by validation rows and at the end."""
    found = curves(records, name)
    level = (best_point(found["uniform"]["points"]) or {}).get("validation accuracy") if "uniform" in found else None
    rows = []
    for contender, each in found.items():
        best = best_point(each["points"])
        row = {"contender": f"`{contender}`", "rate": f"{each['rate']:g}", "penalty": f"{each['penalty']:g}"}
        if best is None:
            rows.append(row | {"test accuracy": "diverged"})
            continue
        end = each["points"][-1]
        when = reaches(each["points"], level) if level is not None else None
        rows.append(row | {
            "test accuracy": number(best["test accuracy"]), "log-likelihood": number(best["test log-likelihood"], 2),
            "after seconds": number(best["seconds"], 1), "epochs": number(best["epochs"], 1),
            "at the end": number(end["test accuracy"]), "log-likelihood at the end": number(end["test log-likelihood"], 2),
            "fitting, seconds": number(each["points"][0]["fit"], 1) if each["points"][0]["fit"] else DASH,
            "seconds to uniform's best": number(when, 1),
        })  # fmt: skip
    return table(rows)


def tuning(records: Records) -> str:
    """What each rate and penalty achieved on validation rows."""
    rows: dict[tuple[str, str, float], dict[str, str]] = {}
    for each in records.find(what="rate"):
        job, points = each["job"], each["result"]["points"]
        row = rows.setdefault((job["data"], job["contender"], job["penalty"]), {})
        row[f"{job['rate']:g}"] = number(points[-1]["validation accuracy"]) if points else "diverged"
    return table([
        {"data": name, "contender": f"`{contender}`", "penalty": f"{penalty:g}", **row}
        for (name, contender, penalty), row in rows.items()
    ])  # fmt: skip


def targets(records: Records) -> str:
    rows = []
    for name in ("next-word", "categories"):
        found = curves(records, name)
        promise = f"{name}: uniform noise's best validation accuracy in a tenth of its time"
        if not {"uniform", "adversarial"} <= found.keys():
            rows.append(target(promise, None))
            continue
        best = best_point(found["uniform"]["points"])
        level = best["validation accuracy"] if best else math.inf
        first, when = reaches(found["uniform"]["points"], level), reaches(found["adversarial"]["points"], level)
        told = f"{level:.3f} after {number(first, 1)} s by uniform noise, {number(when, 1)} s by adversarial noise"
        rows.append(target(promise, told, bool(first and when and when <= first / 10)))
    return table(rows)


# ---- the picture


COLORS = {"adversarial": "tab:green", "uniform": "tab:blue", "frequency": "tab:purple", "nce": "tab:orange", "ar": "tab:red",
          "ove": "tab:brown"}  # fmt: skip


def plot(records: Records) -> Any:
    """Log-likelihood above accuracy, both against time, as the paper's figure 1."""
    names = [name for name in DATA if curves(records, name)]
    if not names:
        return None
    from matplotlib.figure import Figure

    picture = Figure(figsize=(4.2 * len(names), 6), dpi=70, layout="constrained")
    panels = picture.subplots(2, len(names), squeeze=False, sharex="col")
    for column, name in enumerate(names):
        for axis, measure_of in zip(panels[:, column], ("log-likelihood", "accuracy"), strict=True):
            lowest = math.inf
            for contender, each in curves(records, name).items():
                x, y = ([point[key] for point in each["points"]] for key in ("seconds", f"test {measure_of}"))
                axis.plot(x, y, label=contender, color=COLORS.get(contender), marker=".")
                lowest = min(lowest, *(y[-1:] or [math.inf]))
            axis.set(xscale="log", ylabel=f"test {measure_of}")
            if measure_of == "log-likelihood" and math.isfinite(lowest):
                axis.set_ylim(bottom=lowest - 1)
        panels[0, column].set_title(name)
        panels[1, column].set_xlabel("seconds, fitting included")
    panels[0, 0].legend(fontsize=7)
    return picture


EXPERIMENT = Experiment(
    name="papers-adversarial",
    title="Bamler & Mandt 2020, adversarial softmax approximation",
    choices={"data": DATA, "contender": tuple(CONTENDERS)},
    settings=FULL,
    quick=QUICK,
    packages=("scipy", "scikit-learn"),
    jobs=jobs,
    measure=measure,
    tables={
        "targets": targets, "data": facts, **{name: functools.partial(results, name) for name in DATA}, "tuning": tuning,
    },
    plots={"": plot},
    mixed=True,
)  # fmt: skip

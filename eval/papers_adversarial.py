"""Bamler & Mandt 2020, "Extreme classification via adversarial softmax approximation": noise
conditioned on the input.

    eurlex        EURLex-4.3K, the first label of each document
    categories    English Wikipedia pages to the first of their categories
    eurlex-4k, wiki-500k, amazon-670k
                  the paper's own data, with its rates and penalties, the lowest label of each

Documents are reduced to 512 principal components, the paper's number of features. Labels are those
that occur in training rows. All is measured against the processor time of one thread, from the call
that trains: fitting a tree counts, measuring does not.

On the first two, a contender's learning rate and penalty are searched for on validation rows,
training rows that no run sees, by short runs: from the best so far to its neighbours at a factor of
√10 in rate or 10 in penalty, until none is better, then at a factor of 10^¼ in rate. So the best is
at no edge. With it the contender trains for longer with several seeds, and is measured on the test
rows along the way.
"""

import dataclasses
import functools
import itertools
import math
import statistics
import time
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from threadpoolctl import threadpool_limits

from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from eval import datasets, papers, papers_ldgs_data as sources
from eval.experiment import Experiment, Run
from eval.page import beside, number, table, target
from eval.records import Job, Record, Records, Result, grouped

DIM = 512  # principal components of documents
VALIDATION = 2_000  # rows
GROWTH = 1.7  # of the time between two measurements
FIRST = (-2, 0)  # of the search: the rate is 10^(-2/4), the penalty 0
COARSE = ((2, 0), (-2, 0), (0, 1), (0, -1))
FINE = ((1, 0), (-1, 0))


@dataclasses.dataclass(frozen=True)
class Contender:
    """A line of the paper's figure 1: an objective, its settings and the sampler's, and the
    smallest penalty that is tried.
    """

    objective: str
    options: dict[str, Any]
    # of the weights, as a prior; the runs of eq. 6 penalise scores
    penalty: tuple[str, float] = ("l2", 1e-6)


# embedx's defaults, which other pages of papers do not have
OWN_START = {"bias": None, "initial_gradient": 4.0}
ONE = {"negatives": 1, "replacement": True}  # as in the paper, whose draws may hit the positive
OF_SCORES = ("score_l2", 1e-4)

CONTENDERS = {
    "adversarial": Contender("ns", ONE | {"sampler": "adversarial"}, OF_SCORES),
    "uniform": Contender("ns", ONE | {"sampler": "uniform"}, OF_SCORES),
    "frequency": Contender("ns", ONE | {"sampler": "unigram", "sampler_exponent": 1.0}, OF_SCORES),
    # the tree alone, as in the paper
    "nce": Contender("nce", ONE | {"sampler": "adversarial", "uniform_share": 0.0}),
    "ar": Contender("ar", {"sampler": "uniform"}),
    "ove": Contender("ove", {"sampler": "uniform"}),
    # of eurlex: an epoch of categories takes longer than a curve
    "softmax": Contender("softmax", {"sampler": "all"}),
}

TREE_PENALTIES = (0.1, 1.0, 10.0)  # the paper chooses by validation data; 1 is embedx's
RECIPES = {"eurlex": "eurlex-4.3k", "categories": "enwiki-cat"}
DATA = tuple(RECIPES)


@dataclasses.dataclass(frozen=True)
class Published:
    """A data set of the paper: its training rows, and the seconds of a curve."""

    rows: int
    seconds: float


# Four hours are the curves of figure 1; of EURLex-4K the paper tells no time.
PUBLISHED = {
    "eurlex-4k": Published(13_960, 60.0),
    "wiki-500k": Published(1_646_302, 14_400.0),
    "amazon-670k": Published(490_449, 14_400.0),
}
# By data set and contender: table 1, the numbers of appendix A.2, and the highest points of figure
# 1, read from the picture.
PRINTED = papers.printed("papers-adversarial")
# embedx weights start at 0, the paper's at random.
PAPERS_START = {"bias": "zero", "initial_gradient": 0.0, "batch_size": 100}
PAPERS_TREE_PENALTY = 0.1
MAX_TEST_ROWS = 10_000  # of the paper's data
# Principal components are those of so many rows and of so many features, the most frequent ones;
# only the paper's data have more.
COMPONENT_ROWS = 200_000
COMPONENT_FEATURES = 200_000
# Seconds of training for each curve, and for each rate and penalty; training rows, about the
# paper's 13,960 of EURLex-4K.
# No curve on the paper's data takes longer than `longest`.
FULL = {"seconds": 6.0, "rate_seconds": 1.5, "seeds": 3, "rows": 15_000, "longest": 14_400.0}
QUICK = {"seconds": 0.3, "rate_seconds": 0.05, "seeds": 2, "rows": 400, "longest": 0.3}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    seeds = range(1, run.settings.seeds + 1)
    for name in run.chosen("data"):
        if name in PUBLISHED:
            yield from published_jobs(run, name)
            continue
        for contender in run.chosen("contender"):
            if name == "eurlex" or contender != "softmax":
                yield from search(run, name, contender)
                for seed in seeds:
                    job = {"data": name, "what": "curve", "contender": contender}
                    yield job | {"seed": seed, "seconds": run.settings.seconds}
        if "adversarial" in run.chosen("contender"):
            for penalty in TREE_PENALTIES:
                job = {"data": name, "what": "tree", "tree_l2": penalty, "seed": 1}
                yield job | {"seconds": run.settings.seconds}


def published_jobs(run: Run, name: str) -> Iterator[Job]:
    """A curve for each contender of the paper, at its rate and penalty."""
    seconds = min(PUBLISHED[name].seconds, run.settings.longest)
    for contender in PRINTED[name]:
        if contender in run.chosen("contender"):
            job = {"data": name, "what": "curve", "contender": contender}
            yield job | published_settings(name, contender) | {"seed": 1, "seconds": seconds}


def published_settings(name: str, contender: str) -> Job:
    """The paper's rate and penalties. A prior of variance v is an L2 penalty of 1 / v on the sum
    over rows, and so of 1 / (v rows) on their mean.
    """
    printed = PRINTED[name][contender]
    if "prior_variance" in printed:
        penalty = 1 / (printed["prior_variance"] * PUBLISHED[name].rows)
    else:
        penalty = printed["penalty"]
    settings = {"rate": printed["rate"], "penalty": float(f"{penalty:.3g}")}
    if CONTENDERS[contender].options["sampler"] == "adversarial":
        settings["tree_l2"] = PAPERS_TREE_PENALTY
    return settings


def search(run: Run, name: str, contender: str) -> Iterator[Job]:
    """Runs by rate and penalty, each at a neighbour of the best one so far."""

    def job(cell: tuple[int, int]) -> Job:
        smallest = CONTENDERS[contender].penalty[1]
        penalty = smallest * 10 ** (cell[1] - 1) if cell[1] else 0.0
        tried = {"rate": float(f"{10 ** (cell[0] / 4):.3g}"), "penalty": float(f"{penalty:.3g}")}
        return {
            "data": name,
            "what": "tuning",
            "contender": contender,
            **tried,
            "seconds": run.settings.rate_seconds,
        }

    tried = [FIRST]
    yield job(FIRST)
    for steps in (COARSE, FINE):
        while True:
            best = max(tried, key=lambda cell: score(run.records.get(job(cell))))
            near = [
                (best[0] + rate, best[1] + penalty)
                for rate, penalty in steps
                if best[1] + penalty >= 0
            ]
            if not (new := [cell for cell in near if cell not in tried]):
                break
            tried.append(new[0])
            yield job(new[0])


def score(result: Result | None) -> float:
    """The validation accuracy, by which a run is chosen."""
    return float(result["points"][-1]["accuracy"]) if result and result["points"] else -math.inf


def best_of(records: Records, name: str, contender: str) -> Job:
    """The job of the best run of the search."""
    tried = records.find(data=name, what="tuning", contender=contender)
    return max(tried, key=lambda record: score(record["result"]))["job"]


def measure(run: Run, job: Job) -> Result:
    data = data_of(run, job["data"])
    name = job.get("contender", "adversarial")
    contender = CONTENDERS[name]
    is_tuning = job["what"] == "tuning"
    best = job if "rate" in job else best_of(run.records, job["data"], name)
    if job["what"] == "tree":
        best = best | {"tree_l2": job["tree_l2"]}
    options = options_of(contender, best, seed=1 if is_tuning else job["seed"])
    if job["data"] in PUBLISHED:
        options |= PAPERS_START
    if name not in run.warm:
        compile_kernels(contender.objective, options, data.training)
        run.warm.add(name)

    if is_tuning:
        rows = data.training, data.validation
        return {"points": curve(contender.objective, options, *rows, job["seconds"], math.inf)}
    rows = data.training, data.test
    points = curve(contender.objective, options, *rows, job["seconds"], GROWTH)
    return {"rate": best["rate"], "penalty": best["penalty"], "points": points}


# ---- data


class Split(NamedTuple):
    """Training rows, validation rows and test rows, of one label each; labels are those of training
    rows.
    """

    training: Any
    validation: Any
    test: Any


@functools.lru_cache(maxsize=1)  # one at a time
def data_of(run: Run, name: str) -> Split:
    if name in PUBLISHED:
        return published_rows(run, name)
    recipe = RECIPES[name]
    if run.quick and not datasets.is_here(recipe, run.data_folder):
        documents = sources.documents(1_000, 2_000, 300, n_test=200)
        both = documents.training, documents.test
    else:
        both = papers.load(run.data_folder, recipe, run.quick)
    return split_rows(*components(*both), run.settings.rows)


def published_rows(run: Run, name: str) -> Split:
    """As many training rows as the paper has and some test rows, by their lowest labels. There are
    no validation rows, for rates are the paper's.
    """
    training, test = papers.load(run.data_folder, name, run.quick)
    halves = components(training, papers.some_rows(test, MAX_TEST_ROWS))
    training, test = papers.numbered(*halves, rule="lowest-id")
    training = papers.some_rows(training, PUBLISHED[name].rows)
    training, test = papers.numbered(training, test)
    return Split(training, None, test)


def components(training: Any, test: Any) -> list[Any]:
    """The same rows by their principal components; rows have length 1 on average."""
    from sklearn.decomposition import TruncatedSVD

    halves = [half.features for half in (training, test)]
    if training.n_features > COMPONENT_FEATURES:
        frequent = np.argsort(-np.bincount(halves[0].indices, minlength=training.n_features))
        halves = [half[:, np.sort(frequent[:COMPONENT_FEATURES])] for half in halves]
    fitted_on = halves[0]
    if len(training) > COMPONENT_ROWS:
        fitted_on = fitted_on[:: -(-len(training) // COMPONENT_ROWS)]
    svd = TruncatedSVD(min(DIM, min(fitted_on.shape) - 1), random_state=1).fit(fitted_on)
    both = [svd.transform(half).astype(np.float32) for half in halves]
    scale = np.float32(1 / np.sqrt((both[0] ** 2).sum(axis=1).mean()))
    return [
        Labeled(x * scale, half.labels, half.n_labels)
        for x, half in zip(both, (training, test), strict=True)
    ]


def split_rows(training: Any, test: Any, rows: int) -> Split:
    """So many training rows and, of the others, some for validation, by their first labels; labels
    are numbered by those that training rows have.
    """
    order = np.random.default_rng(1).permutation(len(training))
    parts = (
        *(
            training.rows(np.sort(chosen))
            for chosen in (order[:rows], order[rows : rows + VALIDATION])
        ),
        test,
    )
    return Split(*papers.numbered(*parts))


# ---- training


def options_of(contender: Contender, tried: Job, seed: int) -> dict[str, Any]:
    """The settings of a run without an end, of the rate and the penalties of a job."""
    penalty_of_tree = {"tree_l2": tried["tree_l2"]} if "tree_l2" in tried else {}
    return {
        **OWN_START,
        **contender.options,
        "optimizer": "adagrad",
        "schedule": "constant",
        "epochs": 10**6,
        "threads": 1,
        "seed": seed,
        "learning_rate": tried["rate"],
        contender.penalty[0]: tried["penalty"],
        **penalty_of_tree,
    }


def compile_kernels(objective: str, options: dict[str, Any], training: Any) -> None:
    """Train on a few rows, so that no measured run compiles."""
    few_rows = training.rows(np.arange(min(64, len(training))))
    papers.fit(few_rows, objective, options | {"epochs": 1})


class TimeIsUp(Exception):
    """Ends a run from its `watch`."""


def curve(
    objective: str,
    options: dict[str, Any],
    training: Any,
    scored: Any,
    seconds: float,
    growth: float,
) -> list[dict[str, float]]:
    """What is measured on `scored` in so many seconds of training; [] if it diverged.

    growth  factor of the seconds from one measurement to the next; the last is at the end
    """
    points: list[dict[str, float]] = []
    measuring = 0.0
    start = time.process_time()

    def watch(classifier: Any, epoch: int, _: float) -> dict[str, float]:
        nonlocal measuring
        now = time.process_time()
        passed = now - start - measuring
        if passed >= seconds or passed >= (
            growth * points[-1]["seconds"] if points else seconds / growth**6
        ):
            points.append(
                {"seconds": round(passed, 3), "epochs": epoch + 1.0, **measured(classifier, scored)}
            )
        measuring += time.process_time() - now
        if passed >= seconds:
            raise TimeIsUp
        return {}

    try:
        with threadpool_limits(1):  # a second thread of BLAS would wait busily
            papers.fit(training, objective, options, watch=watch)
    except DivergedError:
        return []
    except TimeIsUp:
        pass
    return points


def measured(classifier: Any, data: Any) -> dict[str, float]:
    """Accuracy and mean log-likelihood, with standard errors by the choice of rows."""
    hits = []
    log_likelihoods = []
    for rows, log_p in classifier.blocks(data.features, threads=1):
        y = data.labels.ids[rows]
        hits.append(log_p.argmax(axis=1) == y)
        log_likelihoods.append(log_p[np.arange(len(y)), y])
    means = {}
    values = {
        "accuracy": np.concatenate(hits),
        "log-likelihood": np.concatenate(log_likelihoods),
    }
    for name, values_of_name in values.items():
        means |= {
            name: float(np.mean(values_of_name)),
            f"{name} error": float(np.std(values_of_name) / math.sqrt(len(values_of_name))),
        }
    return means


# ---- tables


def curves(records: Records, name: str) -> dict[str, list[Result]]:
    """The recorded curves by contender, one for each seed."""
    by_contender = grouped(records.find(data=name, what="curve"), lambda job: job["contender"])
    return {
        contender: [record["result"] for record in seeds]
        for contender, seeds in by_contender.items()
    }


def smoothed(result: Result, what: str) -> np.ndarray:
    """float (2, points): seconds, and the mean of each point with its two neighbours, or at either
    end with its one.
    """
    seconds, values = (
        np.array([point[name] for point in result["points"]]) for name in ("seconds", what)
    )
    return np.array([seconds, [values[max(i - 1, 0) : i + 2].mean() for i in range(len(values))]])


def highest(results: Sequence[Result], what: str) -> list[float]:
    """The highest value of each smoothed curve."""
    return [float(smoothed(result, what)[1].max()) for result in results if result["points"]]


def level_of(results: dict[str, list[Result]], what: str) -> float:
    """Uniform noise's highest less one standard error by the choice of test rows; infinite if that
    is not known.
    """
    best = highest(results.get("uniform", []), what)
    if best:
        return statistics.fmean(best) - results["uniform"][0]["points"][-1][f"{what} error"]
    return math.inf


def reaches(points: np.ndarray, level: float) -> float:
    """The seconds at which a curve is first so high, on lines between points by the log of time;
    infinite if it never is.
    """
    highest_yet = np.maximum.accumulate(points[1])
    is_reached = len(highest_yet) > 0 and highest_yet[-1] >= level
    return (
        float(np.exp(np.interp(level, highest_yet, np.log(points[0])))) if is_reached else math.inf
    )


def times(curves_of: dict[str, list[Result]], contender: str, what: str) -> list[float]:
    return [
        reaches(smoothed(result, what), level_of(curves_of, what))
        for result in curves_of.get(contender, [])
    ]


def spread(values: Sequence[float], digits: int = 3) -> str:
    """The mean of the seeds ± their standard deviation; how many have a value, if not all have."""
    n_known = sum(map(math.isfinite, values))
    if n_known < max(len(values), 2):
        return f"{n_known} of {len(values)} seeds"
    return (
        f"{number(statistics.fmean(values), digits)} ± {number(statistics.stdev(values), digits)}"
    )


def results(name: str, records: Records) -> str:
    """A row for each contender."""
    results = curves(records, name)
    rows = []
    for contender, runs in results.items():
        ends = [result["points"][-1] for result in runs if result["points"]]
        rows.append(
            {
                "contender": f"`{contender}`",
                "rate": f"{runs[0]['rate']:g}",
                "penalty": f"{runs[0]['penalty']:g}",
                "test accuracy": spread([end["accuracy"] for end in ends]),
                "its highest": spread(highest(runs, "accuracy")),
                "log-likelihood": spread([end["log-likelihood"] for end in ends], 2),
                "the highest": spread(highest(runs, "log-likelihood"), 2),
                "epochs": number(ends[0]["epochs"], 0) if ends else "",
                **{
                    f"seconds to uniform's {what}": spread(times(results, contender, what), 1)
                    for what in ("accuracy", "log-likelihood")
                },
            }
        )
    return table(rows)


def published(records: Records) -> str:
    """The highest points of the curves on the paper's data, beside the paper's."""
    rows = []
    for name in PUBLISHED:
        results_of_name = curves(records, name)
        for contender, printed in PRINTED[name].items():
            runs = [result for result in results_of_name.get(contender, []) if result["points"]]
            if not runs:
                continue
            newest = runs[-1]
            row = {
                "data": name,
                "contender": f"`{contender}`",
                "rate": f"{newest['rate']:g}",
                "penalty": f"{newest['penalty']:g}",
            }
            for what, digits in (("accuracy", 3), ("log-likelihood", 2)):
                (ours,) = highest([newest], what)
                row |= beside(f"highest {what}", printed.get(what), ours, digits)
            end = newest["points"][-1]
            row["epochs"] = number(end["epochs"], 0)
            row["hours"] = number(end["seconds"] / 3600, 1)
            rows.append(row)
    return table(rows)


def tree(records: Records) -> str:
    """What adversarial noise comes to, by the penalty of its tree."""
    rows = []
    for record in records.find(what="tree"):
        if not record["result"]["points"]:
            continue
        end = record["result"]["points"][-1]
        rows.append(
            {
                "data": record["job"]["data"],
                "tree_l2": f"{record['job']['tree_l2']:g}",
                "test accuracy": f"{end['accuracy']:.3f} ± {end['accuracy error']:.3f}",
                "log-likelihood": number(end["log-likelihood"], 2),
                "epochs": number(end["epochs"], 0),
            }
        )
    return table(rows)


def tuning(records: Records) -> str:
    """What each run of the search achieved on validation rows."""

    def shown(record: Record) -> str:
        job = record["job"]
        achieved = score(record["result"])
        return (
            f"{job['rate']:g}, {job['penalty']:g}:"
            f" {number(achieved) if math.isfinite(achieved) else 'diverged'}"
        )

    tried = grouped(records.find(what="tuning"), lambda job: (job["data"], job["contender"]))
    return table(
        [
            {
                "data": name,
                "contender": f"`{contender}`",
                "rate, penalty: achieved": "; ".join(map(shown, runs)),
            }
            for (name, contender), runs in tried.items()
        ]
    )


def targets(records: Records) -> str:
    rows = []
    for name, what in itertools.product(DATA, ("accuracy", "log-likelihood")):
        results = curves(records, name)
        first = times(results, "uniform", what)
        when = times(results, "adversarial", what)
        shown = (
            f"{level_of(results, what):.3f} after seconds: uniform noise {spread(first, 1)},"
            f" adversarial noise {spread(when, 1)}"
        )
        promise = (
            f"{name}: uniform noise's best {what} less one standard error in a tenth of its time"
        )
        rows.append(
            target(promise, shown if first and when else None, sum(when) <= sum(first) / 10)
        )
    results = curves(records, "eurlex")
    exact, uniform = (
        highest(results.get(contender, []), "accuracy") for contender in ("softmax", "uniform")
    )
    promise = (
        "eurlex: exact softmax more accurate than uniform noise (paper, on EURLex-4K: 0.336 and"
        " 0.264)"
    )
    return table(
        [
            *rows,
            target(
                promise,
                f"{spread(exact)} and {spread(uniform)}" if exact and uniform else None,
                min(exact, default=0) > max(uniform, default=1),
            ),
        ]
    )


# ---- the picture


def plot(records: Records) -> Any:
    """Log-likelihood above accuracy, both against time, as the paper's figure 1; a smoothed curve
    for each seed.
    """
    from matplotlib.figure import Figure

    if not any(curves(records, name) for name in DATA):
        return None
    picture = Figure(figsize=(4.2 * len(DATA), 6), dpi=70, layout="constrained")
    panels = picture.subplots(2, len(DATA), squeeze=False, sharex="col")
    for column, name in enumerate(DATA):
        for axis, what in zip(panels[:, column], ("log-likelihood", "accuracy"), strict=True):
            results = curves(records, name)
            for number_of, contender in enumerate(CONTENDERS):
                for seed, result in enumerate(results.get(contender, [])):
                    label = contender if seed == 0 else None
                    axis.plot(*smoothed(result, what), color=f"C{number_of}", label=label)
            axis.set_ylabel(f"test {what}")
            if what == "log-likelihood":
                best = max(
                    (value for runs in results.values() for value in highest(runs, what)),
                    default=0.0,
                )
                axis.set_ylim(best - 1.3, best + 0.1)
        panels[0, column].set_title(name)
        panels[1, column].set_xlabel("processor seconds, fitting included")
    panels[0, 0].legend(fontsize=7)
    return picture


EXPERIMENT = Experiment(
    name="papers-adversarial",
    title="Bamler & Mandt 2020, adversarial softmax approximation",
    choices={"data": (*DATA, *PUBLISHED), "contender": tuple(CONTENDERS)},
    settings=FULL,
    quick=QUICK,
    packages=("scipy", "scikit-learn"),
    jobs=jobs,
    needs=lambda run: [RECIPES.get(name, name) for name in run.chosen("data")],
    measure=measure,
    tables={
        "targets": targets,
        **{name: functools.partial(results, name) for name in DATA},
        "published": published,
        "tuning": tuning,
        "tree": tree,
    },
    plots={"": plot},
    mixed=True,
)

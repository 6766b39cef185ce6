"""Augment and reduce (Ruiz et al. 2018): tables 2 and 3, figure 2 and the synthetic data of section
4.1, by their protocol.

data sets   table 3 and figure 2: test log-likelihood, accuracy and bound of each method
time        table 2: seconds per epoch, the methods taking turns
toy         section 4.1: 300,000 labels of about 9,035 classes without features
why         one setting changed at a time, where embedx and the authors' code differ

Times are seconds of CPU, for the machine may be shared; settings are those of one thread.
"""

import dataclasses
import functools
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix

from embedx.labeled.data import Labeled, Labels
from embedx.labeled.scaling import scaled, scaling_arrays
from eval.experiment import Experiment, Run
from eval.page import beside, figure, number, table
from eval.papers import drawn, estimates, fit, load, numbered, printed, start_from
from eval.records import Job, Records, Result

METHODS = {
    "softmax": "exact softmax",
    "ove": "one-vs-each",
    "ar": "A&R softmax",
    "ar-probit": "A&R probit",
    "ar-logistic": "A&R logistic",
}
SAMPLED = ("ove", "ar", "ar-probit", "ar-logistic")
# The paper's appendix; the state is that of the noise, and nothing holds it up.
PROTOCOL: dict[str, Any] = {
    "optimizer": "mixture",
    "schedule": "inverse-sqrt",
    "learning_rate": 0.02,
    "decay": 0.9,
    "decay_every": 2000,
    "gradient_scale": "sum",
    "replacement": False,
    "threads": 1,
    "augment": "noise",
    "threshold": 1e9,
    "local_rate": 0.01,
}


@dataclasses.dataclass(frozen=True)
class Data:
    """A row of tables 1 to 3."""

    title: str
    batch: int
    negatives: int
    run: int  # iterations
    start: str  # "random" as in the paper, or "zero"


DATA = {
    "mnist": Data("MNIST", 500, 1, 35_000, "zero"),
    "bibtex": Data("Bibtex", 488, 20, 5_000, "random"),
    "omniglot": Data("Omniglot", 541, 50, 45_000, "random"),
    "eurlex-4k": Data("EURLex-4K", 379, 50, 100_000, "random"),
    "amazoncat-13k": Data("AmazonCat-13K", 1_987, 60, 5_970, "random"),
    "bibtex-xc": Data("Bibtex, the XC repository's split", 488, 20, 5_000, "random"),
    "bibtex-mulan": Data("Bibtex, mulan's split", 488, 20, 5_000, "random"),
    "omniglot-grey": Data("Omniglot, grey values", 541, 50, 45_000, "random"),
    "omniglot-28": Data("Omniglot of Burda et al.", 541, 50, 45_000, "random"),
}
WITH_TABLE = ("mnist", "bibtex", "omniglot")  # the others share one
DIVIDED_BY_MAXIMUM = ("eurlex-4k", "amazoncat-13k")
SEEDS = {("mnist", "ove"): 2, ("mnist", "ar"): 2}  # runs; of others one
PRINTED = printed("papers-augment-and-reduce")
TOY = {"n": 300_000, "classes": 10_000, "batch_size": 500, "negatives": 100}
TOY_ITERATIONS = 500_000
# error, bound, seconds per epoch
TOY_PRINTED = {"ar": (3.00e-6, -2.62e6, 0.196 * 60), "ove": (3.65e-6, -1.40e9, 0.189 * 60)}
RANDOM = {"start": "random"}
AUTHORS = (
    "no entropy, local step ten times smaller: the authors' code",
    RANDOM | {"entropy": False, "local_rate": 0.001},
)
UTILITY = ("state of the utility, not the noise", RANDOM | {"augment": "utility"})
BY_ITERATIONS = "local step by iterations, not visits"
FROM_STANDARD = (
    "noise from location 0 and scale 1",
    RANDOM | {"objective": "ar-probit-from-standard"},
)


def by_iterations(method: str, data: str) -> dict[str, Any]:
    """Settings of a run whose local steps fall with the iterations."""
    n_rows = {"mnist": 60_000, "bibtex": 4_880}[data]
    minibatches = n_rows // DATA[data].batch
    return {"objective": f"{method}-by-iterations", "minibatches": minibatches}


ZERO: tuple[str, dict[str, Any]] = ("start from zero", {})
WHY: dict[str, list[tuple[str, dict[str, Any]]]] = {
    "softmax": [ZERO],
    "ove": [ZERO],
    "ar": [ZERO, UTILITY, (BY_ITERATIONS, RANDOM | by_iterations("ar", "bibtex"))],
    "ar-probit": [
        AUTHORS,
        UTILITY,
        (BY_ITERATIONS, RANDOM | by_iterations("ar-probit", "bibtex")),
        FROM_STANDARD,
    ],
    "ar-logistic": [AUTHORS],
}
# on MNIST too, where a row has one label
WHY_MNIST = ("ar", "ar-probit")
# iterations of Omniglot beside; nothing in the schedule depends on where a run ends
OTHER_ENDS = (480, 2_400, 9_600)
# epochs of a run, and how many runs of each method
ROUNDS = {"mnist": (6, 11), "bibtex": (7, 11), "omniglot": (3, 9)}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    sections = run.chosen("section")
    quick = run.quick
    methods = run.chosen("method")
    for name in (name for name in DATA if name in sections):
        for method in methods:
            yield from seeds(name, method, quick)
    if "time" in sections:
        yield from (timing(name, quick) for name in ROUNDS)
    if "toy" in sections:
        yield from (on_toy(method, quick) for method in ("ove", "ar") if method in methods)
    if "why" in sections:
        yield from (job for job in jobs_of_why(quick) if job["method"] in methods)


def jobs_of_why(quick: bool) -> Iterator[Job]:
    """The variants, and Omniglot after other numbers of iterations."""
    for name, method, _, changes in variants_of_why():
        yield one(name, method, 1, quick, **changes)
    for n in OTHER_ENDS:
        for method in ("softmax", "ove", "ar"):
            yield one("omniglot", method, 1, quick, n, **RANDOM)


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    sections = run.chosen("section")
    names = [name for name in DATA if name in sections]
    if "time" in sections:
        names += ROUNDS
    if "why" in sections:
        names += ["bibtex", "mnist", "omniglot"]
    return names


def one(
    name: str, method: str, seed: int, quick: bool, iterations: int | None = None, **changes: Any
) -> Job:
    """A run of table 3, of as many iterations as it has there or of another number."""
    job = {"section": "table-3", "data": name, "method": method, "seed": seed}
    job["iterations"] = 20 if quick else iterations or DATA[name].run
    return job | ({"changes": changes} if changes else {})


def seeds(name: str, method: str, quick: bool) -> list[Job]:
    start = RANDOM if DATA[name].start == "random" else {}
    return [
        one(name, method, seed, quick, **start)
        for seed in range(1, SEEDS.get((name, method), 1) + 1)
    ]


def timing(name: str, quick: bool) -> Job:
    epochs, rounds = (2, 1) if quick else ROUNDS[name]
    return {"section": "table-2", "data": name, "epochs": epochs, "rounds": rounds}


def on_toy(method: str, quick: bool) -> Job:
    return {"section": "toy", "method": method, "iterations": 600 if quick else TOY_ITERATIONS}


# ---- data


@functools.lru_cache(maxsize=1)
def prepared(data: Path | None, name: str, quick: bool = False) -> tuple[Any, Any]:
    """Training and test data as the paper has them: one label a row, the lowest id; classes are
    those of the training rows.

    A test row keeps its lowest label among these classes, and is left out if it has none. Pixels of
    MNIST are divided by 255, the features of DIVIDED_BY_MAXIMUM by their maximum in training rows.
    """
    scale = 255 if name == "mnist" else 1
    halves = numbered(*load(data, name, quick), rule="lowest-id", scale=scale)
    if name in DIVIDED_BY_MAXIMUM:
        maxima = scaling_arrays(halves[0].features, "column-max")
        halves = [
            Labeled(scaled(half.features, "column-max", maxima), half.labels, half.n_labels)
            for half in halves
        ]
    return tuple(halves)


@functools.cache
def toy() -> tuple[Any, np.ndarray]:
    """Labels without features, k with probability p_k ∝ u², u uniform, and how often each class
    occurs.
    """
    classes, ids, counts = np.unique(
        drawn(TOY["n"], TOY["classes"]), return_inverse=True, return_counts=True
    )
    return (
        Labeled(csr_matrix((TOY["n"], 0), dtype=np.float32), Labels.single(ids), len(classes)),
        counts,
    )


# ---- measurements


def epochs_of(n: int, batch: int, iterations: int) -> int:
    """Whole epochs that have at least so many iterations."""
    return -(-iterations // -(-n // batch))


def random_start(training: Any, method: str, seed: int) -> Any:
    """The paper's start, the same for all methods: weights of deviation 0.1, biases of 0.001."""
    rng = np.random.default_rng([seed, 0])
    output = rng.normal(0, 0.1, (training.n_labels, training.n_features)).astype(np.float32)
    bias = rng.normal(0, 0.001, training.n_labels).astype(np.float32)
    return start_from(training, method, {"output": output, "bias": bias})


def timed_fit(
    training: Any, method: str, options: dict[str, Any], start: str = "zero"
) -> tuple[Any, list[float], list[float]]:
    """A classifier, seconds of CPU since the start and mean loss after each epoch."""
    marks: list[float] = []

    def watch(*_: Any) -> dict[str, float]:
        marks.append(time.process_time())
        return {}

    start_time = time.process_time()
    known = random_start(training, method, options["seed"]) if start == "random" else None
    classifier = fit(training, method, options, start=known, watch=watch).classifier
    return (
        classifier,
        [mark - start_time for mark in marks],
        [entry["loss"] for entry in classifier.facts["history"]],
    )


def options_of(name: str, method: str, epochs: int, seed: int) -> dict[str, Any]:
    """All settings of a run."""
    sampler = (
        {} if method == "softmax" else {"sampler": "uniform", "negatives": DATA[name].negatives}
    )
    return PROTOCOL | sampler | {"batch_size": DATA[name].batch, "epochs": epochs, "seed": seed}


def thinned(values: list[float], max_length: int = 120) -> list[float]:
    """Every so many values, the last one included, to five digits."""
    step = max(1, len(values) // max_length)
    return [float(f"{value:.5g}") for value in values[::-1][::step][::-1]]


def metrics(classifier: Any, test: Any) -> dict[str, float]:
    """The metrics that the paper prints."""
    scores = classifier.evaluate(test, threads=1)
    names = (
        "log_likelihood",
        "log_likelihood_clamped",
        "log_likelihood_standard_error",
        "accuracy",
    )
    return {name: scores[name] for name in names}


def measure(run: Run, job: Job) -> Result:
    how = {"table-3": trained, "table-2": timed, "toy": toy_trained}[job["section"]]
    return how(run, **{name: value for name, value in job.items() if name != "section"})


def trained(
    run: Run,
    data: str,
    method: str,
    seed: int,
    iterations: int,
    changes: dict[str, Any] | None = None,
) -> Result:
    """One run of table 3."""
    (training, test), changes = prepared(run.data_folder, data, run.quick), changes or {}
    epochs = epochs_of(len(training), DATA[data].batch, iterations)
    options = options_of(data, method, epochs, seed) | changes
    objective = changes.get("objective", method)
    start = changes.get("start", "zero")
    classifier, seconds, losses = timed_fit(training, objective, options, start)
    scores = metrics(classifier, test)
    if method in ("softmax", "ove", "ar"):
        scores["training_log_likelihood"] = classifier.evaluate(training, threads=1)[
            "log_likelihood"
        ]
    # compilation, or loading
    first = seconds[0] - statistics.median(np.diff(seconds)) if len(seconds) > 1 else 0.0
    curve = {"seconds": thinned([second - first for second in seconds]), "loss": thinned(losses)}
    return scores | {"epochs": epochs, "loss": losses[-1], "curve": curve}


def timed(run: Run, data: str, epochs: int, rounds: int) -> Result:
    """Seconds of CPU per epoch, a median for each round; in a round each method has one short run,
    in alternating order.

    The first epoch of a run is left out, and the first round, which compiles.
    """
    training, _ = prepared(run.data_folder, data, run.quick)
    seconds_of: dict[str, list[float]] = {method: [] for method in SAMPLED}
    for seed in range(rounds + 1):
        for method in SAMPLED[:: -1 if seed % 2 else 1]:
            _, seconds, _ = timed_fit(training, method, options_of(data, method, epochs, seed))
            if seed:
                seconds_of[method].append(statistics.median(np.diff(seconds)))
    return seconds_of


def toy_trained(run: Run, method: str, iterations: int) -> Result:
    """One run on the synthetic data."""
    training, counts = toy()
    epochs = epochs_of(len(training), TOY["batch_size"], iterations)
    sizes = {name: TOY[name] for name in ("negatives", "batch_size")}
    classifier, seconds, losses = timed_fit(
        training, method, PROTOCOL | {"sampler": "uniform", **sizes, "epochs": epochs}
    )
    p = estimates(classifier)
    truth = counts / counts.sum()
    return {
        "error": float(np.abs(p - truth).mean()),
        "bound": -losses[-1] * len(training),
        "classes": len(counts),
        "best_bound": float((counts * np.log(truth)).sum()),
        "log_likelihood": float((counts * np.log(p)).sum()),
        "epochs": epochs,
        "seconds_per_epoch": statistics.median(np.diff(seconds)) if epochs > 1 else 0.0,
        "noise": float(np.sqrt(truth * (1 - truth) / len(training)).mean() * np.sqrt(2 / np.pi)),
    }


# ---- tables


def runs_of(records: Records, name: str, method: str) -> list[Result]:
    """The runs of table 3 that there are, a seed each."""
    return [result for job in seeds(name, method, records.quick) if (result := records.get(job))]


def spread(values: list[float], digits: int = 3) -> str:
    """The mean, and half the range where there are several."""
    half = (max(values) - min(values)) / 2
    return f"{statistics.fmean(values):.{digits}f}" + (
        f" ± {half:.{digits}f}" if len(values) > 1 else ""
    )


def table_3(name: str, records: Records) -> str:
    """Log-likelihood and accuracy of one data set."""
    return table(rows_of_table_3(name, records))


def other_sets(records: Records) -> str:
    """The same of the sets without a table of their own."""
    return table(
        [
            {"data": dataset.title} | row
            for name, dataset in DATA.items()
            if name not in WITH_TABLE
            for row in rows_of_table_3(name, records)
        ]
    )


def rows_of_table_3(name: str, records: Records) -> list[dict[str, Any]]:
    """A row for each method that was measured."""
    rows = []
    paper = PRINTED[name]
    for method, title in METHODS.items():
        if results := runs_of(records, name, method):
            clamped, free, accuracy = (
                [result[key] for result in results]
                for key in ("log_likelihood_clamped", "log_likelihood", "accuracy")
            )
            rows.append(
                {
                    "method": title,
                    **beside(
                        "clamped",
                        paper["log_likelihood"].get(method),
                        statistics.fmean(clamped),
                        shown=spread(clamped),
                    ),
                    "ours unclamped": spread(free),
                    **beside(
                        "accuracy",
                        paper["accuracy"].get(method),
                        statistics.fmean(accuracy),
                        shown=spread(accuracy),
                    ),
                    "runs": len(results),
                }
            )
    return rows


def bounds(records: Records) -> str:
    """The bound of the last epoch beside the exact log-likelihood of the same model on the training
    rows.
    """
    return table(
        [
            {
                "data": dataset.title,
                "method": METHODS[method],
                "bound of the last epoch": number(-run["loss"]),
                "log-likelihood of the training rows": number(run["training_log_likelihood"]),
                "gap": number(run["training_log_likelihood"] + run["loss"]),
            }
            for name, dataset in DATA.items()
            for method in ("ove", "ar", "softmax")
            for run in runs_of(records, name, method)[:1]
        ]
    )


def times(records: Records) -> str:
    """Seconds per epoch, and their ratio to one-vs-each in the same round."""
    rows = []
    for name in ROUNDS:
        dataset = DATA[name]
        seconds_of = records.get(timing(name, records.quick))
        paper = PRINTED[name]["seconds"]
        for method in SAMPLED if seconds_of else ():
            low, ours, high = np.quantile(
                ratios := np.divide(seconds_of[method], seconds_of["ove"]), (0.25, 0.5, 0.75)
            )
            rows.append(
                {
                    "data": dataset.title,
                    "method": METHODS[method],
                    "paper": f"{paper[method]:.3g} s",
                    "ours": f"{statistics.median(seconds_of[method]):.3g} s",
                    **beside("relative to OVE", paper[method] / paper["ove"], float(ours), 2),
                    "middle half": f"{low:.2f} to {high:.2f}",
                    "rounds": len(ratios),
                }
            )
    return table(rows)


def toy_table(records: Records) -> str:
    """Section 4.1."""
    return table(
        [
            {
                "method": METHODS[method],
                "mean abs. error: paper": f"{error:.2e}",
                "ours": f"{result['error']:.2e}",
                "difference": f"{result['error'] - error:+.1e}",
                "bound: paper": f"{bound:.3g}",
                "our bound": f"{result['bound']:.4g}",
                "best possible": f"{result['best_bound']:.4g}",
                "an epoch: paper": f"{seconds:.1f} s",
                "our epoch": f"{result['seconds_per_epoch']:.1f} s",
                "classes": f"{result['classes']:,}",
                "iterations": f"{result['epochs'] * 600:,}",
                "sampling error of the labels": f"{result['noise']:.1e}",
            }
            for method, (error, bound, seconds) in TOY_PRINTED.items()
            if (result := records.get(on_toy(method, records.quick)))
        ]
    )


def why(records: Records) -> str:
    """Each variant beside the protocol's run of the same seed."""
    return table(
        [
            {
                "data": DATA[name].title,
                "method": METHODS[method],
                "changed": change,
                "paper": number(PRINTED[name]["log_likelihood"][method]),
                "ours, clamped": number(result["log_likelihood_clamped"]),
                "accuracy": number(result["accuracy"]),
                "bound of the last epoch": number(-result["loss"]),
            }
            for name, method, change, changes in variants_of_why()
            if (result := records.get(one(name, method, 1, records.quick, **changes)))
        ]
    )


def variants_of_why() -> Iterator[tuple[str, str, str, dict[str, Any]]]:
    """Data, method, name and settings of each variant, that of table 3 first."""
    for method, variants in WHY.items():
        for change, changes in [("as in table 3", RANDOM), *variants]:
            yield "bibtex", method, change, changes
    for method in WHY_MNIST:
        yield "mnist", method, "as in table 3", {}
        yield "mnist", method, UTILITY[0], {"augment": "utility"}
        yield "mnist", method, BY_ITERATIONS, by_iterations(method, "mnist")


def early(records: Records) -> str:
    """Omniglot after ever more iterations, to the paper's own number."""
    return table(
        [
            {
                "method": METHODS[method],
                "iterations": f"{n:,}",
                "test rows, clamped": number(result["log_likelihood_clamped"]),
                "accuracy": number(result["accuracy"]),
                "training rows": number(result.get("training_log_likelihood")),
            }
            for method in METHODS
            for n in lengths_of_omniglot(records)
            if (result := records.get(one("omniglot", method, 1, records.quick, n, **RANDOM)))
        ]
    )


def lengths_of_omniglot(records: Records) -> list[int]:
    """The iterations of the runs on record, from the shortest."""
    runs = records.find(section="table-3", data="omniglot")
    return sorted({record["job"]["iterations"] for record in runs})


def plot(records: Records) -> Any:
    """Figure 2: the bound of an example against seconds of CPU."""
    measured = [
        name for name in DATA if any(runs_of(records, name, method) for method in ("ove", "ar"))
    ]
    if not measured:
        return None
    picture, panels = figure(10, 3.2, len(measured), dpi=90)
    for panel, name in zip(panels, measured, strict=True):
        lowest, highest = 0.0, -1e9
        for method in ("ove", "ar"):
            for run in runs_of(records, name, method)[:1]:
                bound = -np.array(run["curve"]["loss"])
                panel.plot(run["curve"]["seconds"], bound, label=METHODS[method])
                lowest = min(lowest, float(np.quantile(bound, 0.1)))
                highest = max(highest, float(bound.max()))
        for run in runs_of(records, name, "softmax")[:1]:
            panel.axhline(
                run["training_log_likelihood"],
                color="black",
                linestyle="--",
                linewidth=1,
                label="exact softmax",
            )
            highest = max(highest, run["training_log_likelihood"])
        panel.set(
            title=DATA[name].title,
            xlabel="seconds of CPU",
            ylim=(lowest * 1.2 - 1e-3, highest * 0.8),
        )
        panel.legend(loc="lower right", fontsize=7)
    panels[0].set_ylabel("bound of an example, nats")
    return picture


EXPERIMENT = Experiment(
    name="papers-augment-and-reduce",
    title="Augment and reduce (Ruiz, Titsias, Dieng & Blei 2018), repeated",
    choices={"section": (*DATA, "time", "toy", "why"), "method": tuple(METHODS)},
    packages=("scipy",),
    jobs=jobs,
    needs=needs,
    measure=measure,
    tables={
        **{name: functools.partial(table_3, name) for name in WITH_TABLE},
        "other-sets": other_sets,
        "bounds": bounds,
        "times": times,
        "toy": toy_table,
        "why": why,
        "early": early,
    },
    plots={"": plot},
    mixed=True,
)

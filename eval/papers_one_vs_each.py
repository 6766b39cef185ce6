"""Titsias 2016, "One-vs-each approximation to softmax": Table 2, Figure 1a and the toy of section
4.1.

table-2    unique optima of SOFT, BOUCHARD and OVE by L-BFGS, and OVE-SGD, on MNIST and Bibtex
figure-1   probabilities of ten values from 200 points, by the three bounds
toy        10,000 values and a million points, by stochastic descent
"""

import functools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from scipy.sparse import csr_matrix, hstack

from embedx.labeled.data import Labeled, Labels
from eval.experiment import Experiment, Run
from eval.page import beside, figure, number, table
from eval.papers import drawn, estimates, fit, load, numbered, printed
from eval.records import Job, Records, Result

DATA = ("bibtex", "mnist")
METHODS = {"SOFT": "softmax", "BOUCHARD": "bouchard", "OVE": "ove"}
PAPER = printed("papers-one-vs-each")  # Table 2: norm, error, nlpd
# minibatches of 200 and one remaining class are the paper's; it does not state the rate; its
# iterations are far more
SGD = {
    "mnist": {"learning_rate": 0.3, "epochs": 100},
    "bibtex": {"learning_rate": 0.1, "epochs": 1000},
}
TOLERANCE = {"mnist": 1e-5, "bibtex": 1e-6}  # of the gradient of the mean loss
BIASES = {"mnist": ("free",), "bibtex": ("free", "penalised")}
TOY = {
    "objective": "ove",
    "negatives": 10,
    "batch_size": 100,
    "decay": 0.9,
    "schedule": "constant",
    "sampler": "uniform",
}
TOY_POINTS, TOY_VALUES, TOY_EPOCHS = 1_000_000, 10_000, 20
TOY_RATES = {"draws as they are": 0.5 * 10 / (TOY_VALUES - 1), "draws weighted by (K - 1)/10": 0.5}


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    sections, data = run.chosen("section"), run.chosen("data")
    if "table-2" in sections:
        for name in data:
            yield from (
                optimum(name, method, biases) for biases in BIASES[name] for method in METHODS
            )
            yield sgd(name, run.settings.bibtex_epochs)
    if "figure-1" in sections:
        yield {"section": "figure-1"}
    if "toy" in sections:
        yield from ({"section": "toy", "rate": name} for name in TOY_RATES)


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    return list(run.chosen("data")) if "table-2" in run.chosen("section") else []


def optimum(name: str, method: str, biases: str) -> Job:
    return {"section": "table-2", "data": name, "method": method, "biases": biases}


def sgd(name: str, bibtex_epochs: int) -> Job:
    """OVE-SGD; of another length than that of the table it is a row of its own."""
    job = optimum(name, "OVE-SGD", "free")
    if name == "bibtex" and bibtex_epochs != SGD["bibtex"]["epochs"]:
        job["epochs"] = bibtex_epochs
    return job


# ---- data


@functools.lru_cache(maxsize=1)
def loaded(data: Path | None, name: str, quick: bool = False) -> tuple[Any, Any]:
    """Training and test data with the first label of each row, numbered by the labels that training
    rows have.

    Pixels are divided by 255. A test row whose label no training row has keeps a number beyond
    them: never right.
    """
    return tuple(
        numbered(*load(data, name, quick), scale=255 if name == "mnist" else 1, keeps_unknown=True)
    )


def with_ones(data: Any) -> Any:
    """The data with a feature that is always 1."""
    ones = np.ones((len(data), 1), dtype=np.float32)
    features = (
        csr_matrix(hstack([data.features, csr_matrix(ones)]))
        if data.is_sparse
        else np.hstack([data.features, ones])
    )
    return Labeled(features, data.labels, data.n_labels)


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    data, quick = run.data_folder, run.quick
    match job["section"]:
        case "table-2" if job["method"] == "OVE-SGD":
            return stochastic(data, job["data"], quick, job.get("epochs"))
        case "table-2":
            return of_optimum(data, job["data"], job["method"], job["biases"], quick)
        case "figure-1":
            return ten_values()
        case _:
            return large_toy(
                TOY_RATES[job["rate"]], *((10_000, 1) if quick else (TOY_POINTS, TOY_EPOCHS))
            )


@functools.lru_cache(maxsize=2)
def fitted(data: Path | None, name: str, objective: str, biases: str, quick: bool) -> Any:
    """A unique optimum with lambda = 1."""
    train, _ = loaded(data, name, quick)
    if biases == "penalised":  # a feature that is always 1 stands for them
        train = with_ones(train)
    options = {
        "optimizer": "lbfgs",
        "l2": 1 / len(train),
        "bias": "none" if biases == "penalised" else "zero",
        "threads": 1,
        "tolerance": TOLERANCE[name],
        "max_iterations": 10 if quick else 2000,
    }
    return fit(train, objective, options)


def of_optimum(data: Path | None, name: str, method: str, biases: str, quick: bool) -> Result:
    train, test = loaded(data, name, quick)
    soft, trained = (
        fitted(data, name, objective, biases, quick) for objective in ("softmax", METHODS[method])
    )
    facts, w = trained.classifier.facts, weights_of(trained)
    return {
        **scores(trained, with_ones(test) if biases == "penalised" else test),
        **closeness(weights_of(soft), w),
        "bound": -len(train) * trained.outcome.final_loss,
        "penalty": 0.5 * float((w**2).sum()),
        "iterations": round(trained.outcome.epochs),
        "evaluations": facts["evaluations"],
        "largest_gradient": facts["largest_gradient"],
        "seconds": trained.outcome.seconds,
    }


def stochastic(data: Path | None, name: str, quick: bool, epochs: int | None) -> Result:
    train, test = loaded(data, name, quick)
    settings = dict(SGD[name])
    if epochs:
        settings["epochs"] = epochs
    if quick:
        settings["epochs"] = 2
    options = {
        "optimizer": "sgd",
        "sampler": "uniform",
        "negatives": 1,
        "batch_size": 200,
        "l2": 1 / len(train),
        "threads": 1,
        "schedule": "linear",
        **settings,
    }
    trained, soft = fit(train, "ove", options), fitted(data, name, "softmax", "free", quick)
    distance = closeness(weights_of(soft), weights_of(trained))
    return {**scores(trained, test), **distance, "seconds": trained.outcome.seconds, **settings}


def weights_of(trained: Any) -> np.ndarray:
    """float64 (n_labels, n_features), without biases that stand apart."""
    return trained.classifier.arrays["output"].astype(np.float64)


def closeness(soft: np.ndarray, w: np.ndarray) -> dict[str, float]:
    """Equation 17, by the sum of absolute values and by the Euclidean length."""
    return {
        "norm": float(np.abs(soft - w).sum() / np.abs(soft).sum()),
        "norm_2": float(np.linalg.norm(soft - w) / np.linalg.norm(soft)),
    }


def scores(trained: Any, test: Any) -> dict[str, float]:
    """Error and nlpd (equation 18) with the softmax of the scores, whatever the weights were
    trained by.
    """
    z = trained.classifier.scores(test.features).astype(np.float64)
    z -= z.max(axis=1, keepdims=True)
    return scores_of(z - np.log(np.exp(z).sum(axis=1, keepdims=True)), test.labels.ids)


def scores_of(log_p: np.ndarray, ids: np.ndarray) -> dict[str, float]:
    """Error over all rows; nlpd, and its standard error by the choice of rows, over those with a
    known label.
    """
    known = np.flatnonzero(ids < log_p.shape[1])
    lost = -log_p[known, ids[known]]
    return {
        "error": float((log_p.argmax(axis=1) != ids).mean()),
        "nlpd": float(lost.mean()),
        "standard_error": float(lost.std() / np.sqrt(len(lost))),
        "unknown": len(ids) - len(known),
    }


def ten_values() -> Result:
    values = drawn(200, 10)
    data = Labeled(np.zeros((200, 0), dtype=np.float32), Labels.single(values), 10)
    options = {"optimizer": "lbfgs", "tolerance": 1e-9, "threads": 1}
    found = {
        method: estimates(fit(data, objective, options).classifier).tolist()
        for method, objective in METHODS.items()
    }
    return {"frequency": (np.bincount(values, minlength=10) / 200).tolist(), **found}


def large_toy(rate: float, n: int, epochs: int) -> Result:
    values = drawn(n, TOY_VALUES)
    frequency = np.bincount(values, minlength=TOY_VALUES) / n
    data = Labeled(np.zeros((n, 0), dtype=np.float32), Labels.single(values), TOY_VALUES)

    def watch(classifier: Any, _epoch: int, _seconds: float) -> dict[str, float]:
        return {"error": float(np.abs(estimates(classifier) - frequency).sum())}

    options = {**TOY, "optimizer": "sgd", "learning_rate": rate, "epochs": epochs, "threads": 1}
    trained = fit(data, str(TOY["objective"]), options, watch=watch)
    p, order = estimates(trained.classifier), np.argsort(-frequency)[::10]
    return {
        "errors": [entry["error"] for entry in trained.classifier.facts["history"]],
        "at_start": float(np.abs(frequency - 1 / TOY_VALUES).sum()),
        "largest": float(np.abs(frequency - p).max()),
        "seconds": trained.outcome.seconds,
        "thinned_frequencies": [round(v, 7) for v in frequency[order].tolist()],
        "thinned_estimates": [round(v, 7) for v in p[order].tolist()],
    }


# ---- tables


def optima(records: Records) -> list[tuple[str, str, str, Result]]:
    """(data, method, its name in tables, result) of table 2."""
    order = [
        (name, method, biases) for name in DATA for biases in BIASES[name] for method in METHODS
    ]
    order = [
        each
        for name in DATA
        for each in [*(one for one in order if one[0] == name), (name, "OVE-SGD", "free")]
    ]
    found_optima = [
        (name, method, method + (", biases penalised" if biases == "penalised" else ""), found)
        for name, method, biases in order
        if (found := records.get(optimum(name, method, biases)))
    ]
    longer = [
        (job["data"], "OVE-SGD", f"OVE-SGD, {job['epochs']:,} epochs", record["result"])
        for record in records.find(section="table-2", method="OVE-SGD")
        if "epochs" in (job := record["job"])
    ]
    return found_optima + longer


def table_2(records: Records) -> str:
    """Norm, error and nlpd beside the paper's."""
    rows = []
    for name, method, title, found in optima(records):
        row = {"data": name, "method": title}
        for measure, paper in zip(("norm", "error", "nlpd"), PAPER[name][method], strict=True):
            ours = None if paper is None else found[measure]
            row |= beside(measure, paper, ours)
        rows.append(
            row
            | {
                "standard error": number(found["standard_error"]),
                "norm by lengths": number(found["norm_2"]),
            }
        )
    return table(rows)


def ends(records: Records) -> str:
    """How the searches ended."""
    return table(
        [
            {
                "data": name,
                "method": title,
                "bound on log-likelihood": f"{found['bound']:,.0f}",
                "λ/2 · w²": f"{found['penalty']:,.0f}",
                "iterations": found["iterations"],
                "passes": found["evaluations"],
                "largest gradient": f"{found['largest_gradient']:.0e}",
                "seconds": f"{found['seconds']:.0f}",
            }
            for name, method, title, found in optima(records)
            if method != "OVE-SGD"
        ]
    )


def figure_1(records: Records) -> str:
    found = records.get({"section": "figure-1"})
    return table(
        [
            {
                "method": who,
                **{str(i): f"{p:.3f}" for i, p in enumerate(found[who], 1)},
                "largest difference": (
                    f"{np.abs(np.subtract(found[who], found['frequency'])).max():.1e}"
                    if who in METHODS
                    else ""
                ),
            }
            for who in (("frequency", *METHODS) if found else ())
        ]
    )


def toy(records: Records) -> str:
    return table(
        [
            {
                "gradient": name,
                "rate of a mean": f"{rate:.2g}",
                "error at the start": f"{found['at_start']:.2f}",
                **{
                    f"after {n + 1} passes": f"{found['errors'][n]:.3f}"
                    for n in (0, 4, 9, 19)
                    if n < len(found["errors"])
                },
                "largest error of one p": f"{found['largest']:.1e}",
                "seconds": f"{found['seconds']:.0f}",
            }
            for name, rate in TOY_RATES.items()
            if (found := records.get({"section": "toy", "rate": name}))
        ]
    )


def plot(records: Records) -> Any:
    """Figure 1a, 2b and 2c side by side."""
    ten, large = (
        records.get({"section": "figure-1"}),
        records.get({"section": "toy", "rate": next(iter(TOY_RATES))}),
    )
    if ten is None or large is None:
        return None
    picture, (left, middle, right) = figure(12, 3.2, 3)
    for i, (method, colour) in enumerate(
        zip(METHODS, ("tab:blue", "tab:green", "tab:red"), strict=True)
    ):
        left.bar(np.arange(1, 11) + (i - 1) * 0.27, ten[method], 0.27, label=method, color=colour)
    left.set(xlabel="value", ylabel="estimated probability", title="200 points, 10 values")
    left.legend()
    middle.plot(large["thinned_estimates"], ".", markersize=2, label="stochastic")
    middle.plot(large["thinned_frequencies"], label="exact")
    middle.set(
        xlabel="every tenth value, sorted", ylabel="probability", title="one-vs-each, 10,000 values"
    )
    middle.legend()
    right.plot(np.arange(len(large["errors"]) + 1), [large["at_start"], *large["errors"]])
    right.set(
        xlabel="passes of 10,000 iterations",
        ylabel="Σ |difference|",
        title="estimation error",
        ylim=(0, None),
    )
    return picture


EXPERIMENT = Experiment(
    name="papers-one-vs-each",
    title="One-vs-each (Titsias 2016) by embedx",
    choices={"section": ("table-2", "figure-1", "toy"), "data": DATA},
    # the paper's million iterations are 40,000 epochs
    settings={"bibtex_epochs": SGD["bibtex"]["epochs"]},
    packages=("scipy", "scikit-learn"),
    jobs=jobs,
    needs=needs,
    measure=measure,
    tables={"table-2": table_2, "ends": ends, "figure-1": figure_1, "toy": toy},
    plots={"": plot},
    mixed=True,
)

"""Titsias 2016, "One-vs-each approximation to softmax": Table 2, Figures 1 to 3 and the toy of
section 4.1.

table-2    unique optima of SOFT, BOUCHARD and OVE by L-BFGS, and OVE-SGD, on MNIST and Bibtex
figure-1   probabilities of ten values from 200 points, by the three bounds
figure-1b  five classes in the plane: boundaries and bounds
figure-3   the bounds while training, on MNIST and Bibtex
stopped    BOUCHARD on MNIST, ended before its optimum
toy        10,000 values and a million points, by stochastic descent
"""

import functools
import statistics
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
SECTIONS = ("table-2", "figure-1", "figure-1b", "figure-3", "stopped", "toy")
METHODS = {"SOFT": "softmax", "BOUCHARD": "bouchard", "OVE": "ove"}
PAPER = printed("papers-one-vs-each")  # Table 2: norm, error, nlpd
# minibatches of 200 and one remaining class are the paper's; it does not state the rate. On Bibtex
# 41,000 passes are the million iterations of its figure 3.
SGD = {
    "mnist": {"learning_rate": 0.3, "epochs": 100},
    "bibtex": {"learning_rate": 0.1, "epochs": 41_000},
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


# Figure 1b: 200 points of five classes; the paper tells neither where they lie nor the rate.
PLANE_POINTS, PLANE_CLASSES = 200, 5
PLANE_RADIUS, PLANE_DEVIATION = 2.0, 1.0
PLANE_SGD = {"batch_size": 10, "negatives": 1, "learning_rate": 0.1}
PLANE_EPOCHS = 500  # of 20 iterations
STOPPED = (5, 10, 20, 40, 60, 70, 80, 160)  # iterations
CURVE_POINTS = 200
SMOOTHED = 400  # iterations, as in figure 3


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    sections = run.chosen("section")
    data = run.chosen("data")
    if "table-2" in sections:
        for name in data:
            yield from (
                optimum(name, method, biases) for biases in BIASES[name] for method in METHODS
            )
            yield optimum(name, "OVE-SGD", "free")
    if "figure-1" in sections:
        yield {"section": "figure-1"}
    if "figure-1b" in sections:
        yield {"section": "figure-1b"}
    if "figure-3" in sections:
        for name in data:
            yield from (evolution(name, method) for method in (*METHODS, "OVE-SGD"))
    if "stopped" in sections:
        yield from (stopped(iterations) for iterations in STOPPED)
    if "toy" in sections:
        yield from ({"section": "toy", "rate": name} for name in TOY_RATES)


def needs(run: Run) -> list[str]:
    """The data sets of the chosen sections."""
    sections = run.chosen("section")
    names = list(run.chosen("data")) if {"table-2", "figure-3"} & {*sections} else []
    if "stopped" in sections and "mnist" not in names:
        names.append("mnist")
    return names


def optimum(name: str, method: str, biases: str) -> Job:
    return {"section": "table-2", "data": name, "method": method, "biases": biases}


def evolution(name: str, method: str) -> Job:
    """The bound while training."""
    return {"section": "figure-3", "data": name, "method": method}


def stopped(iterations: int) -> Job:
    """BOUCHARD on MNIST, ended after a number of iterations."""
    return {"section": "stopped", "iterations": iterations}


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
    if data.is_sparse:
        features = csr_matrix(hstack([data.features, csr_matrix(ones)]))
    else:
        features = np.hstack([data.features, ones])
    return Labeled(features, data.labels, data.n_labels)


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    data = run.data_folder
    quick = run.quick
    match job["section"]:
        case "table-2" if job["method"] == "OVE-SGD":
            return stochastic(data, job["data"], quick)
        case "table-2":
            return of_optimum(data, job["data"], job["method"], job["biases"], quick)
        case "figure-1":
            return ten_values()
        case "figure-1b":
            return in_the_plane(20 if quick else PLANE_EPOCHS)
        case "figure-3":
            return evolved(data, job["data"], job["method"], quick)
        case "stopped":
            return of_stopped(data, job["iterations"], quick)
        case _:
            return large_toy(
                TOY_RATES[job["rate"]], *((10_000, 1) if quick else (TOY_POINTS, TOY_EPOCHS))
            )


@functools.lru_cache(maxsize=3)
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
    facts = trained.classifier.facts
    w = weights_of(trained)
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


def stochastic(data: Path | None, name: str, quick: bool) -> Result:
    train, test = loaded(data, name, quick)
    settings = sgd_settings(name, quick)
    trained = fitted_by_sgd(train, settings)
    soft = fitted(data, name, "softmax", "free", quick)
    distance = closeness(weights_of(soft), weights_of(trained))
    return {**scores(trained, test), **distance, "seconds": trained.outcome.seconds, **settings}


def sgd_settings(name: str, quick: bool) -> dict[str, Any]:
    """Rate and epochs of OVE-SGD."""
    settings = dict(SGD[name])
    if quick:
        settings["epochs"] = 2
    return settings


def fitted_by_sgd(train: Any, settings: dict[str, Any], watch: Any = None) -> Any:
    """OVE-SGD with lambda = 1, minibatches of 200 and one remaining class."""
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
    return fit(train, "ove", options, watch=watch)


def evolved(data: Path | None, name: str, method: str, quick: bool) -> Result:
    """The bound on the log-likelihood of all training rows after each iteration; of OVE-SGD the
    mean of its estimates over an epoch, and over as many epochs before as have SMOOTHED iterations.
    """
    train, _ = loaded(data, name, quick)
    if method == "OVE-SGD":
        trained = fitted_by_sgd(train, sgd_settings(name, quick), watch=nothing)
        curve = trained.classifier.facts["history"]
        iterations_of_epoch = -(-len(train) // 200)
        n_smoothed = max(1, SMOOTHED // iterations_of_epoch)
    else:
        curve = fitted(data, name, METHODS[method], "free", quick).outcome.curve
        iterations_of_epoch = 1
        n_smoothed = 1
    losses = [point["loss"] for point in curve]
    points = []
    for i, point in enumerate(curve):
        loss = statistics.fmean(losses[max(0, i + 1 - n_smoothed) : i + 1])
        points.append([point["epoch"] * iterations_of_epoch, float(f"{-len(train) * loss:.6g}")])
    return {"curve": thinned(points), "unit": "iterations"}


def nothing(*_: Any) -> dict[str, float]:
    """What is watched of a run whose history of losses is wanted."""
    return {}


def thinned(points: list[list[float]]) -> list[list[float]]:
    """At most CURVE_POINTS of the points, evenly spaced in the logarithm of their places."""
    last = len(points) - 1
    places = np.unique(np.geomspace(1, last + 1, CURVE_POINTS).astype(int) - 1)
    return [points[place] for place in places]


def of_stopped(data: Path | None, iterations: int, quick: bool) -> Result:
    """Closeness to SOFT's optimum and scores of BOUCHARD on MNIST by iterations."""
    train, test = loaded(data, "mnist", quick)
    options = {
        "optimizer": "lbfgs",
        "l2": 1 / len(train),
        "bias": "zero",
        "threads": 1,
        "tolerance": TOLERANCE["mnist"],
        "max_iterations": iterations,
    }
    trained = fit(train, "bouchard", options)
    soft = fitted(data, "mnist", "softmax", "free", quick)
    return {
        **scores(trained, test),
        **closeness(weights_of(soft), weights_of(trained)),
        "bound": -len(train) * trained.outcome.final_loss,
    }


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
    results_of = {
        method: estimates(fit(data, objective, options).classifier).tolist()
        for method, objective in METHODS.items()
    }
    return {"frequency": (np.bincount(values, minlength=10) / 200).tolist(), **results_of}


def plane() -> Any:
    """Figure 1b: points of five classes around the corners of a pentagon, which overlap."""
    rng = np.random.default_rng(0)
    classes = np.arange(PLANE_POINTS) % PLANE_CLASSES
    angles = 2 * np.pi * classes / PLANE_CLASSES
    corners = PLANE_RADIUS * np.column_stack([np.cos(angles), np.sin(angles)])
    points = corners + PLANE_DEVIATION * rng.normal(size=corners.shape)
    return Labeled(points.astype(np.float32), Labels.single(classes), PLANE_CLASSES)


def in_the_plane(epochs: int) -> Result:
    """Bounds, parameters and likelihoods of the three methods on the points of figure 1b, and the
    estimates of OVE-SGD.
    """
    data = plane()
    options = {"optimizer": "lbfgs", "tolerance": 1e-8, "max_iterations": 5000, "threads": 1}
    optima = {method: fit(data, objective, options) for method, objective in METHODS.items()}
    stochastic_options = {
        **PLANE_SGD,
        "optimizer": "sgd",
        "sampler": "uniform",
        "schedule": "linear",
        "epochs": epochs,
        "threads": 1,
    }
    by_sgd = fit(data, "ove", stochastic_options, watch=nothing)
    history = by_sgd.classifier.facts["history"]
    n = len(data)
    return {
        "points": np.round(data.features, 3).tolist(),
        "classes": data.labels.ids.tolist(),
        "bounds": {method: -n * trained.outcome.final_loss for method, trained in optima.items()},
        "parameters": {
            method: parameters_of(trained).tolist()
            for method, trained in [*optima.items(), ("OVE-SGD", by_sgd)]
        },
        "log_likelihoods": {
            method: -n * scores(trained, data)["nlpd"]
            for method, trained in [*optima.items(), ("OVE-SGD", by_sgd)]
        },
        "estimates": [[entry["epoch"], -n * entry["loss"]] for entry in history],
        "iterations_of_epoch": n // PLANE_SGD["batch_size"],
    }


def parameters_of(trained: Any) -> np.ndarray:
    """float64 (n_labels, n_features + 1): weights and, in the last column, biases, both without
    the mean over labels, which changes no probability.
    """
    bias = trained.classifier.arrays["bias"].astype(np.float64)
    parameters = np.column_stack([weights_of(trained), bias])
    return parameters - parameters.mean(axis=0)


def large_toy(rate: float, n: int, epochs: int) -> Result:
    values = drawn(n, TOY_VALUES)
    frequency = np.bincount(values, minlength=TOY_VALUES) / n
    data = Labeled(np.zeros((n, 0), dtype=np.float32), Labels.single(values), TOY_VALUES)

    def watch(classifier: Any, _epoch: int, _seconds: float) -> dict[str, float]:
        return {"error": float(np.abs(estimates(classifier) - frequency).sum())}

    options = {**TOY, "optimizer": "sgd", "learning_rate": rate, "epochs": epochs, "threads": 1}
    trained = fit(data, str(TOY["objective"]), options, watch=watch)
    p = estimates(trained.classifier)
    order = np.argsort(-frequency)[::10]
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
        contender
        for name in DATA
        for contender in [*(one for one in order if one[0] == name), (name, "OVE-SGD", "free")]
    ]
    return [
        (name, method, method + (", biases penalised" if biases == "penalised" else ""), result)
        for name, method, biases in order
        if (result := records.get(optimum(name, method, biases)))
    ]


def table_2(records: Records) -> str:
    """Norm, error and nlpd beside the paper's."""
    rows = []
    for name, method, title, result in optima(records):
        row = {"data": name, "method": title}
        for measure, paper in zip(("norm", "error", "nlpd"), PAPER[name][method], strict=True):
            ours = None if paper is None else result[measure]
            row |= beside(measure, paper, ours)
        rows.append(
            row
            | {
                "standard error": number(result["standard_error"]),
                "norm by lengths": number(result["norm_2"]),
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
                "bound on log-likelihood": f"{result['bound']:,.0f}",
                "λ/2 · w²": f"{result['penalty']:,.0f}",
                "iterations": result["iterations"],
                "passes": result["evaluations"],
                "largest gradient": f"{result['largest_gradient']:.0e}",
                "seconds": f"{result['seconds']:.0f}",
            }
            for name, method, title, result in optima(records)
            if method != "OVE-SGD"
        ]
    )


def figure_1(records: Records) -> str:
    result = records.get({"section": "figure-1"})
    return table(
        [
            {
                "method": who,
                **{str(i): f"{p:.3f}" for i, p in enumerate(result[who], 1)},
                "largest difference": (
                    f"{np.abs(np.subtract(result[who], result['frequency'])).max():.1e}"
                    if who in METHODS
                    else ""
                ),
            }
            for who in (("frequency", *METHODS) if result else ())
        ]
    )


def figure_1b(records: Records) -> str:
    """Bounds, likelihoods and parameters in the plane."""
    result = records.get({"section": "figure-1b"})
    if result is None:
        return table([])
    parameters = {method: np.array(values) for method, values in result["parameters"].items()}
    soft = parameters["SOFT"]
    grid = grid_of_plane()[2]
    decided = predicted(grid, soft)
    last_estimates = np.mean([estimate for _, estimate in result["estimates"][-50:]])
    rows = []
    for method, values in parameters.items():
        distance = np.abs(values - soft).sum() / np.abs(soft).sum()
        moved = (predicted(grid, values) != decided).mean()
        bound = result["bounds"].get(method, last_estimates)
        rows.append(
            {
                "method": method,
                "bound on log-likelihood": number(bound, 1),
                "log-likelihood": number(result["log_likelihoods"][method], 1),
                "norm": number(distance),
                "plane decided otherwise than by SOFT": f"{100 * moved:.1f} %",
            }
        )
    return table(rows)


def grid_of_plane() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Coordinates (300, 300) of the square that is drawn, and these as points with a 1."""
    side = np.linspace(-5, 5, 300)
    x, y = np.meshgrid(side, side)
    return x, y, np.column_stack([x.ravel(), y.ravel(), np.ones(x.size)])


def predicted(points: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    """The class of each point."""
    return (points @ parameters.T).argmax(axis=1)


def figure_3(records: Records) -> str:
    """The last bounds, and how far the bounds are from the exact cost."""
    rows = []
    for name in DATA:
        ends = {
            method: result["curve"][-1]
            for method in (*METHODS, "OVE-SGD")
            if (result := records.get(evolution(name, method)))
        }
        for method, (iterations, bound) in ends.items():
            below = f"{ends['SOFT'][1] - bound:,.0f}" if "SOFT" in ends else ""
            rows.append(
                {
                    "data": name,
                    "method": method,
                    "iterations": f"{iterations:,.0f}",
                    "bound on log-likelihood": f"{bound:,.0f}",
                    "below that of SOFT": below,
                }
            )
    return table(rows)


def stopped_table(records: Records) -> str:
    """BOUCHARD on MNIST on the way to its optimum, which comes last."""
    results = [(f"{n}", records.get(stopped(n))) for n in STOPPED]
    end = records.get(optimum("mnist", "BOUCHARD", "free"))
    results.append((f"{end['iterations']}, the optimum" if end else "", end))
    norm, error, nlpd = PAPER["mnist"]["BOUCHARD"]
    rows = [
        {
            "iterations": iterations,
            "norm": number(result["norm"]),
            "error": number(result["error"]),
            "nlpd": number(result["nlpd"]),
            "bound on log-likelihood": f"{result['bound']:,.0f}",
        }
        for iterations, result in results
        if result
    ]
    if rows:
        paper = {"norm": number(norm), "error": number(error), "nlpd": number(nlpd)}
        rows.append({"iterations": "paper", **paper})
    return table(rows)


def toy(records: Records) -> str:
    return table(
        [
            {
                "gradient": name,
                "rate of a mean": f"{rate:.2g}",
                "error at the start": f"{result['at_start']:.2f}",
                **{
                    f"after {n + 1} passes": f"{result['errors'][n]:.3f}"
                    for n in (0, 4, 9, 19)
                    if n < len(result["errors"])
                },
                "largest error of one p": f"{result['largest']:.1e}",
                "seconds": f"{result['seconds']:.0f}",
            }
            for name, rate in TOY_RATES.items()
            if (result := records.get({"section": "toy", "rate": name}))
        ]
    )


def plot(records: Records) -> Any:
    """Figure 1a, 2b and 2c side by side."""
    ten = records.get({"section": "figure-1"})
    large = records.get({"section": "toy", "rate": next(iter(TOY_RATES))})
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


COLOURS = {"SOFT": "tab:blue", "BOUCHARD": "tab:green", "OVE": "tab:red", "OVE-SGD": "tab:orange"}


def plot_of_plane(records: Records) -> Any:
    """Figures 1b and 1c."""
    result = records.get({"section": "figure-1b"})
    if result is None:
        return None
    picture, (left, right) = figure(9, 4, 2)
    points = np.array(result["points"])
    left.scatter(*points.T, c=result["classes"], cmap="tab10", s=8)
    x, y, grid = grid_of_plane()
    for method in METHODS:
        classes = predicted(grid, np.array(result["parameters"][method])).reshape(x.shape)
        levels = np.arange(PLANE_CLASSES - 1) + 0.5
        left.contour(x, y, classes, levels=levels, colors=COLOURS[method], linewidths=1)
        left.plot([], [], color=COLOURS[method], label=method)
    left.set(title="200 points, boundaries", aspect="equal")
    left.legend(fontsize=7, loc="upper right")
    epochs, estimates_of_epochs = np.array(result["estimates"]).T
    iterations = epochs * result["iterations_of_epoch"]
    label = "OVE-SGD, mean of an epoch"
    right.plot(iterations, estimates_of_epochs, "--", color="tab:red", linewidth=0.6, label=label)
    for method, bound in result["bounds"].items():
        right.axhline(bound, color=COLOURS[method], label=method)
    right.set(xlabel="iterations", ylabel="bound on log-likelihood")
    right.legend(fontsize=7, loc="lower right")
    return picture


def plot_of_evolution(records: Records) -> Any:
    """Figure 3."""
    curves = {
        name: {
            method: result["curve"]
            for method in (*METHODS, "OVE-SGD")
            if (result := records.get(evolution(name, method)))
        }
        for name in DATA
    }
    measured = [name for name in DATA if curves[name]]
    if not measured:
        return None
    picture, panels = figure(9, 3.5, len(measured))
    for panel, name in zip(panels, measured, strict=True):
        for method, curve in curves[name].items():
            iterations, bounds = np.array(curve).T
            panel.plot(iterations, bounds, color=COLOURS[method], label=method, linewidth=1)
        ends = [curve[-1][1] for curve in curves[name].values()]
        panel.set(title=name, xlabel="iterations", xscale="log", ylim=(4 * min(ends), 0))
        panel.legend(fontsize=7, loc="lower right")
    panels[0].set_ylabel("bound on log-likelihood")
    return picture


EXPERIMENT = Experiment(
    name="papers-one-vs-each",
    title="One-vs-each (Titsias 2016) by embedx",
    choices={"section": SECTIONS, "data": DATA},
    packages=("scipy", "scikit-learn"),
    jobs=jobs,
    needs=needs,
    measure=measure,
    tables={
        "table-2": table_2,
        "ends": ends,
        "stopped": stopped_table,
        "figure-1": figure_1,
        "figure-1b": figure_1b,
        "figure-3": figure_3,
        "toy": toy,
    },
    plots={"": plot, "-plane": plot_of_plane, "-evolution": plot_of_evolution},
    mixed=True,
)

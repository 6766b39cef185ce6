"""Titsias 2016 on generated data: values without features (Figures 1a and 2), and points in the
plane (Figures 1b and 1c).
"""

from typing import Any

import numpy as np

from embedx.labeled.data import Labeled, Labels
from eval.page import figure, number, table
from eval.papers import drawn, estimates, fit
from eval.papers_one_vs_each_fits import COLOURS, METHODS, scores, watch_nothing, weights_of
from eval.records import Records, Result

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


def measure_ten_values() -> Result:
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


def measure_plane(epochs: int) -> Result:
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
    by_sgd = fit(data, "ove", stochastic_options, watch=watch_nothing)
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


def measure_large_toy(rate: float, n: int, epochs: int) -> Result:
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

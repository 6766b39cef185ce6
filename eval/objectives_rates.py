"""How much of the held-out likelihood is lost at a tenth of an objective's learning rate, and at ten times that."""

import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from eval.experiment import Run
from eval.page import DASH, figure, table
from eval.records import Job, Records, Result

PART = "rates"
FACTORS = (0.1, 0.3, 1.0, 3.0, 10.0)  # of an objective's own learning rate
ALLOWED = 0.1  # nats that `implicit` may lose at any of them


def options(run: Run, default: float) -> Iterator[Job]:
    """What is typed for each rate."""
    own = run.settings
    for factor in FACTORS:
        rate = float(f"{factor * default:.3g}")
        yield {"epochs": own.epochs, "learning_rate": rate, "threads": own.threads, "heldout": own.heldout_exact, "seed": 1}


def spread_of_lengths(vectors: np.ndarray) -> dict[str, float]:
    """The longest of some vectors, in medians of their lengths."""
    lengths = np.linalg.norm(vectors, axis=1)
    return {"longest_in_medians": float(lengths.max() / np.median(lengths))}


def by_rate(records: Records) -> dict[str, dict[float, Result]]:
    """The results by objective and by factor of its own rate."""
    found: dict[str, dict[float, Result]] = {}
    for each in records.find(part=PART):
        factor = each["job"]["options"]["learning_rate"] / each["job"]["defaults"]["learning_rate"]
        nearest = min(FACTORS, key=lambda known: abs(math.log(known / factor)))
        found.setdefault(each["job"]["objective"], {})[nearest] = each["result"]
    return found


def lost(of: dict[float, Result]) -> dict[float, float]:
    """Nats less than at the objective's own rate, by factor; infinite where a run diverged or its rate had to be lowered."""

    def reached(factor: float) -> float:
        return float(of[factor]["heldout"]["log_likelihood"]) if "heldout" in of[factor] else -math.inf

    return {factor: reached(1.0) - reached(factor) for factor in sorted(of)} if 1.0 in of and "heldout" in of[1.0] else {}


def rates(records: Records) -> str:
    """Differences to the objective's own rate, the worst of them, and how long the longest input vector is at that rate."""
    rows = []
    for name, of in by_rate(records).items():
        differences = lost(of)
        row = {"objective": f"`{name}`", "own rate": f"{next(iter(of.values()))['settings']['learning_rate']:g}"}
        if differences:
            row["own rate"] = f"{of[1.0]['settings']['learning_rate']:g}"
            row |= {
                f"× {factor:g}": "diverged" if math.isinf(value) else f"{-value:+.3f}" for factor, value in differences.items()
            }
            row["most lost"] = "all" if math.isinf(max(differences.values())) else f"{max(differences.values()):.3f}"
            row["longest input, medians"] = f"{of[1.0]['longest_in_medians']:.1f}" if "longest_in_medians" in of[1.0] else DASH
        rows.append(row)
    return table(rows)


def plot(records: Records) -> Any:
    """Held-out log-likelihood by learning rate, an objective a line; diverged runs leave a gap."""
    found = by_rate(records)
    if not found:
        return None
    picture, (axis,) = figure(8, 5, dpi=100)
    reached = {
        name: [(factor, of[factor]["heldout"]["log_likelihood"]) for factor in sorted(of) if "heldout" in of[factor]]
        for name, of in found.items()
    }
    unigram = next(each["heldout"]["unigram"] for of in found.values() for each in of.values() if "heldout" in each)
    for name, points in reached.items():
        axis.plot(*zip(*points, strict=True), marker=".", label=name, linewidth=2.5 if name == "implicit" else 1.2)
    axis.axhline(unigram, color="gray", linestyle=":", label="unigram model")
    axis.set(xscale="log", xlabel="learning rate, in an objective's own", ylabel="held-out log-likelihood, nats")
    axis.set_ylim(bottom=unigram - 0.4)
    axis.grid(alpha=0.3)
    axis.legend(fontsize=8)
    return picture

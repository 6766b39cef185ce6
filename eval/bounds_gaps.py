"""The gap of an objective: minus its expected loss, less the log-likelihood, given the scores of
all rows and the number of rows that it takes.

Draws are with replacement. A search is taken to be exact: the rows found are those with the highest
scores. An objective that keeps a state has it after as many visits as training has epochs, and is
then valued at that state.
"""

import statistics
from typing import Any, NamedTuple

import numpy as np

from embedx import objectives
from embedx.objectives.contract import Objective, log_softmax
from embedx.testing.objectives import FROZEN, Candidates, Conditions, evaluate
from eval.experiment import Run

# What minus the loss is, and of which model the likelihood.
BOUND = "lower bound"
ESTIMATE = "estimate"
FOUND = "upper bound"


class Method(NamedTuple):
    """What stands on the axis: an objective, and how it gets its rows."""

    objective: str
    kind: str
    rows: str  # "all", "drawn", "found", "both", a half each, or "visits": a state by draws
    settings: tuple[tuple[str, Any], ...] = ()


METHODS = {
    "ove": Method("ove", BOUND, "all"),
    "bouchard": Method("bouchard", BOUND, "all"),
    "ova": Method("ova", BOUND, "all"),
    "ar at its optimum": Method("ar", BOUND, "all"),
    "ar": Method("ar", BOUND, "visits"),
    "scgd": Method("scgd", BOUND, "visits"),
    "nested-ove": Method("nested-ove", BOUND, "found"),
    "complementary-sum": Method("complementary-sum", ESTIMATE, "drawn"),
    "sampled-softmax": Method("sampled-softmax", ESTIMATE, "drawn"),
    "sampled-softmax, hits kept": Method(
        "sampled-softmax", ESTIMATE, "drawn", (("keep_hits", True),)
    ),
    "mips": Method("mips", FOUND, "found", (("loss", "softmax"),)),
    "mips with draws": Method("mips", ESTIMATE, "both", (("loss", "softmax"),)),
}


# ---- examples and their scores


class Scored(NamedTuple):
    """The scores of all rows for some examples."""

    z: np.ndarray  # float64 (n, K)
    y: np.ndarray  # int64 (n,): the positives
    noise: np.ndarray  # float64 (K,): the distribution of a draw


def sample_examples(scored: Scored, n: int, seed: int) -> Scored:
    """So many of the examples, drawn without replacement."""
    rows = np.random.default_rng(seed).permutation(len(scored.y))[:n]
    return scored._replace(z=scored.z[rows], y=scored.y[rows])


def likelihood(scored: Scored) -> float:
    """The exact mean log-probability of the positives."""
    return float(log_softmax(scored.z)[np.arange(len(scored.y)), scored.y].mean())


def gap(method: Method, scored: Scored, n_rows: int, run: Run, seed: int) -> float:
    """Minus the expected loss, less the exact log-likelihood: below 0 for a lower bound."""
    objective_class = objectives.find(method.objective)
    objective = objective_class(objective_class.Settings(**dict(method.settings)))
    rng = np.random.default_rng([seed, n_rows])
    if method.rows == "all":
        state = objective.optimal_state(scored.z, labels_of(scored))
        loss = loss_of(objective, scored, every_row(scored), state)
    elif method.rows == "visits":
        loss = loss_after_visits(objective, scored, n_rows - 1, run.settings.epochs, rng)
    elif method.rows == "found":
        loss = loss_of(objective, scored, found_rows(scored, n_rows - 1, method.objective))
    else:
        repeats = [
            found_and_drawn_rows(method, objective, scored, n_rows, rng)
            for _ in range(run.settings.repeats)
        ]
        loss = statistics.fmean(loss_of(objective, scored, counts) for counts in repeats)
    return -loss - likelihood(scored)


class Counts(NamedTuple):
    """The candidates of each example as `coefficients` takes them, (n, K) each."""

    sample_count: np.ndarray
    log_expected_count: np.ndarray


def labels_of(scored: Scored) -> np.ndarray:
    label = np.zeros(scored.z.shape)
    label[np.arange(len(scored.y)), scored.y] = 1
    return label


def every_row(scored: Scored) -> Counts:
    return Counts(1 - labels_of(scored), np.zeros(scored.z.shape))


def found_rows(scored: Scored, n: int, objective: str) -> Counts:
    """The rows with the highest scores; for nested one-vs-each all others, too, as if each had been
    drawn as often as expected, twice.
    """
    is_found = is_among_highest(scored, n)
    others = ~is_found if objective == "nested-ove" else np.zeros_like(is_found)
    count = np.where(is_found, 1.0, 2.0 * others)
    count[np.arange(len(scored.y)), scored.y] = 0
    return Counts(count, np.where((count > 0) & others, np.log(2.0), 0.0))


def is_among_highest(scored: Scored, n: int) -> np.ndarray:
    """Whether a row is one of the n with the highest scores, the positive not counted."""
    z = scored.z.copy()
    z[np.arange(len(scored.y)), scored.y] = -np.inf
    is_found = np.zeros(z.shape, bool)
    if n > 0:
        np.put_along_axis(is_found, np.argpartition(-z, n - 1, axis=1)[:, :n], True, axis=1)
    return is_found


def found_and_drawn_rows(
    method: Method, objective: Objective, scored: Scored, n_rows: int, rng: np.random.Generator
) -> Counts:
    """Drawn rows; of a method that takes both, half are found, and draws stand for the others."""
    n_found = (n_rows - 1) // 2 if method.rows == "both" else 0
    counts = drawn_rows(scored, n_rows - 1 - n_found, objective, rng)
    if n_found == 0:
        return counts
    is_found = is_among_highest(scored, n_found)
    return Counts(
        np.where(is_found, 1.0, counts.sample_count),
        np.where(is_found, 0.0, counts.log_expected_count),
    )


def drawn_rows(
    scored: Scored, n_draws: int, objective: Objective, rng: np.random.Generator
) -> Counts:
    label = labels_of(scored)
    count = rng.multinomial(n_draws, scored.noise, size=len(scored.y)).astype(float)
    if not objective.traits.keeps_accidental_hits:
        count[label > 0] = 0
    is_candidate = (count > 0) | (label > 0)
    return Counts(count, np.where(is_candidate, np.log(n_draws * scored.noise), 0.0))


def loss_of(
    objective: Objective, scored: Scored, counts: Counts, state: np.ndarray | None = None
) -> float:
    """The mean loss; a state does not move."""
    candidates = Candidates(scored.z, labels_of(scored), *counts)
    conditions = Conditions(FROZEN, n_draws=1, n_classes=scored.z.shape[1])
    return evaluate(objective, candidates, state, conditions).loss / len(scored.y)


def loss_after_visits(
    objective: Objective, scored: Scored, n_draws: int, visits: int, rng: np.random.Generator
) -> float:
    """The mean loss over all rows at the state that visits with draws leave."""
    state = np.zeros((len(scored.y), objective.state_width))
    for visit in range(visits):
        counts = drawn_rows(scored, n_draws, objective, rng)
        candidates = Candidates(scored.z, labels_of(scored), *counts)
        conditions = Conditions(visit, n_draws=n_draws, n_classes=scored.z.shape[1])
        state = evaluate(objective, candidates, state, conditions).state
    return loss_of(objective, scored, every_row(scored), state)

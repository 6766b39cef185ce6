"""The task of classification: from labelled data to a `Classifier`.

A run goes by steps on minibatches, in the way that suits its sampler (ways.py), or by L-BFGS to the optimum of the whole data
set (engine/optimum.py).
"""

import dataclasses
import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from embedx import optimizers
from embedx.classification.classifier import Classifier
from embedx.classification.strategies import way_for
from embedx.engine import lbfgs as optimum
from embedx.engine.examples import examples_of
from embedx.errors import DivergedError, EmbedxError
from embedx.kernels.batch import COEFFICIENTS_64
from embedx.labeled.data import Labeled, Labels
from embedx.labeled.known import Known
from embedx.labeled.rules import LABEL_RULES, SCALINGS, chosen_labels, column_maxima, known_labels, scaled
from embedx.objectives.contract import Objective
from embedx.optimizers.contract import LABELS, new_table
from embedx.run import trainer
from embedx.run.interrupts import to_the_end
from embedx.run.memory import available_memory
from embedx.run.progress import Progress, Silent
from embedx.settings import Settings, param, seconds

INITIAL = 2**32  # the place of the initial numbers among a seed's random numbers


def whole_or_all(text: str) -> int:
    """`100` as a number and `all` as 0. Raises `EmbedxError` for anything else."""
    if text != "all" and not text.isdecimal():
        raise EmbedxError(f"--batch-size {text}: write a number or `all`")
    return 0 if text == "all" else int(text)


@dataclasses.dataclass(frozen=True)
class ClassifySettings(Settings):
    """How classifiers train, whatever the objective. What is None is decided by the objective and the data."""

    labels: str = param(
        "all",
        "which labels of a row count: all, the first in the file, the lowest, or one chosen anew at each visit",
        choices=LABEL_RULES,
    )
    unseen: str = param(
        "keep", "test labels that training never saw: count as mistakes, or are left out", choices=("keep", "drop")
    )
    scaling: str = param(
        "none", "features: as they are, rows of length 1, or columns divided by their maximum", choices=SCALINGS
    )
    hidden: int | None = param(None, "numbers in a hidden layer, a sum of trained rows; by default there is none", at_least=1)
    bias: str = param(
        "zero",
        "biases start at zero or at the log of the labels' frequencies, or there are none",
        choices=("zero", "frequency", "none"),
    )
    epochs: int = param(10, "passes over the data; iterations of lbfgs are --max-iterations", at_least=1)
    batch_size: int | None = param(
        None, "examples in a step, or `all`; by default 100, and 1 for implicit", at_least=0, parse=whole_or_all
    )
    optimizer: str | None = param(
        None,
        f"what a row does with its gradient, by default adagrad: {optimizers.meanings(LABELS)}",
        choices=optimizers.taken_by(LABELS),
    )
    learning_rate: float | None = param(None, f"step size at the start; by default {optimizers.usual_rates(LABELS)}", above=0.0)
    schedule: str = param(
        "linear", "how the step size falls: to zero, not at all, or by 1/√updates or 1/(1 + epochs)", choices=trainer.SCHEDULES
    )
    decay: float = param(1.0, "the step size is also multiplied by this after each epoch", above=0.0, at_most=1.0)
    decay_every: int | None = param(None, "or after so many updates", at_least=1)
    gradient_scale: str = param(
        "mean", "a step follows the mean over its examples, or that times the number of all", choices=("mean", "sum")
    )
    l2: float = param(0.0, "weight decay: l2/2 · |W|² is added to the mean loss; biases are free", at_least=0.0)
    max_norm: float | None = param(None, "longest that an output row may become", above=0.0)
    sampler: str | None = param(
        None,
        "which rows compete; by default the first that the objective takes",
        choices=("all", "unigram", "uniform", "path", "search"),
    )
    sampler_exponent: float = param(0.75, "the power of the count that `unigram` draws by", at_least=0.0, at_most=1.0)
    replacement: bool = param(
        False, "draws may repeat; without, `uniform` draws distinct other rows, `unigram` counts each row once"
    )
    validation: str | None = param(
        None, "data to watch while training, a file or a share of the training rows like 0.1; the best epoch is kept"
    )
    validation_labels: str | None = param(None, "the labels of the validation file")
    patience: int = param(3, "epochs without improvement on the validation data after which training ends", at_least=1)
    max_iterations: int = param(1000, "most iterations of lbfgs", at_least=1)
    tolerance: float = param(1e-6, "lbfgs ends when no element of the gradient is larger", above=0.0)
    threads: int | None = param(None, "worker threads; by default one for each usable core", at_least=1)
    time_budget: float | None = param(None, "train for this long instead of --epochs: 90s, 10m, 2h", above=0.0, parse=seconds)
    seed: int = param(1, "every random choice derives from this", at_least=0)


@dataclasses.dataclass(frozen=True)
class Trained:
    """A trained classifier and how its training went."""

    classifier: Classifier
    outcome: trainer.Outcome
    temperature: float | None = None  # the power of the probabilities that suits the validation data best, if there are any
    memory: tuple[np.ndarray, ...] = ()  # what the optimiser kept beside the tables; see `start` of `train`


def train(
    data: Labeled,
    objective: Objective,
    settings: ClassifySettings,
    *,
    known: Known | None = None,
    validation: Labeled | None = None,
    weights: np.ndarray | None = None,
    start: Trained | None = None,
    dtype: Any = np.float32,
    watch: Callable[[Classifier, int, float], dict[str, float]] | None = None,
    progress: Progress | None = None,
) -> Trained:
    """A classifier of `data`.

    known       what test data are read like; inferred when not given
    validation  data to watch; else the share of the rows that `settings.validation` names, if it does
    weights     float (n_rows,): how much each row counts, for lbfgs alone
    start       a run to go on from by steps, of the same objective, features and labels: with its parameters, its counts of
                labels, by which noise is drawn and a tree was built, and its optimiser's memory, if it had that optimiser. What
                an objective keeps by example begins anew, for these are other examples
    dtype       of the parameters that lbfgs finds
    watch       called after each epoch with the classifier, the epoch and the seconds so far; what it returns joins the history

    Raises `EmbedxError` for what the user can mend and `DivergedError` when training leaves the finite numbers. Ctrl-C ends the
    training early with what was learned so far; the outcome tells.
    """
    progress = progress or Silent()
    if settings.sampler is None and settings.optimizer != "lbfgs" and _cannot_search(settings, objective, data):
        progress.note("sparse features cannot be searched by: every label competes; --hidden 100 makes them dense")
    settings = resolved(settings, objective, data)
    if weights is not None and settings.optimizer != "lbfgs":
        raise EmbedxError("weights of rows apply with --optimizer lbfgs alone")
    if validation is None and settings.validation is not None:
        if weights is not None:
            raise EmbedxError("--validation: with weights, give the validation data themselves")
        data, validation = _split(data, settings)
    known = known or Known(data.n_features, data.n_labels, data.names, data.vocabulary)
    maxima = start.classifier.arrays.get("maxima") if start is not None else None
    if maxima is None and settings.scaling == "column-max":
        maxima = column_maxima(data.features)
    labels = chosen_labels(data.labels, settings.labels)
    counts = np.bincount(labels.ids, minlength=data.n_labels).astype(np.int64) if start is None else start.classifier.counts
    if start is None and len(labels.ids) == 0:
        raise EmbedxError("no row of the training data has a label")
    if validation is not None and len(known_labels(validation.labels, counts).ids) == 0:
        raise EmbedxError("--validation: no row has a label that the training data have")
    objective.prepare(counts)
    record = settings.record() | objective.settings.record()
    facts = {
        "objective": objective.name,
        "examples": len(data),
        "labels": len(counts),
        "seen_labels": int((counts > 0).sum()),
        "several_labels": bool((labels.n_of_row > 1).any()),
    }
    arrays = {} if maxima is None else {"maxima": maxima}
    classifier = Classifier(objective, arrays, known, counts, record, facts)
    features = scaled(data.features, settings.scaling, maxima)
    _check_memory(data, objective, settings)
    history = _History(classifier, validation, settings, watch, progress)
    if settings.optimizer == "lbfgs":
        memory: tuple[np.ndarray, ...] = ()
        outcome = _run_lbfgs(features, labels, objective, settings, classifier, weights, dtype, history, progress)
    else:
        outcome, memory = _run(features, labels, objective, settings, classifier, start, history, progress)
    to_the_end(lambda: _check(classifier))
    classifier.facts |= {
        "final_loss": outcome.final_loss,
        "epochs": round(outcome.epochs, 4),
        "examples_trained": outcome.tally.words,
        "seconds": round(outcome.seconds, 3),
        "examples_per_second": round(outcome.tally.words / max(outcome.seconds, 1e-9)),
        "interrupted": outcome.interrupted_by is not None,
        "history": history.epochs,
    }
    temperature = None
    if validation is not None:
        temperature = to_the_end(lambda: classifier.fitted_temperature(validation, threads=settings.threads))
    if temperature is not None:
        classifier.facts["temperature"] = 1 / temperature
    return Trained(classifier, outcome, temperature, memory)


def resolved(settings: ClassifySettings, objective: Objective, data: Labeled) -> ClassifySettings:
    """The settings with nothing left open but `hidden`, `max_norm`, `decay_every`. Raises `EmbedxError` for what cannot be."""
    sampler = settings.sampler or ("all" if _cannot_search(settings, objective, data) else objective.samplers[0])
    is_step = objective.kind == "proximal"
    optimizer = settings.optimizer or ("sgd" if is_step else str(objective.label_defaults.get("optimizer", "adagrad")))
    batch = settings.batch_size if settings.batch_size is not None else 1 if is_step else 100
    found = optimizers.find(optimizer, LABELS)
    rate = settings.learning_rate or objective.label_defaults.get("learning_rate") or found.rates.get(LABELS)
    name = f"--objective {objective.name}"
    if sampler not in objective.samplers:
        raise EmbedxError(f"--sampler {sampler} does not apply to {name}, which takes {', '.join(objective.samplers)}")
    if is_step and (optimizer != "sgd" or batch != 1):
        raise EmbedxError(f"{name} takes a step of its own for each example: --optimizer sgd, --batch-size 1")
    if is_step and settings.gradient_scale != "mean":
        raise EmbedxError(f"{name} takes a step of its own for each example: --gradient-scale mean")
    if is_step and sampler == "all" and data.n_labels > 1 and objective.negatives < data.n_labels - 1:
        raise EmbedxError(f"{name} draws its rows: --sampler uniform or unigram")
    if optimizer == "lbfgs" and objective.uniforms_width:
        raise EmbedxError(
            f"--optimizer lbfgs does not apply to {name}, whose loss is drawn at random at each look; take adagrad"
        )
    if optimizer == "lbfgs" and settings.sampler in ("unigram", "uniform", "search"):
        raise EmbedxError(f"--sampler {sampler} does not apply with --optimizer lbfgs, where all rows compete")
    if optimizer == "lbfgs" and settings.hidden:
        raise EmbedxError("--optimizer lbfgs does not apply with --hidden; take adagrad")
    if optimizer == "lbfgs" and settings.labels == "one":
        raise EmbedxError("--optimizer lbfgs does not apply with --labels one; take --labels all")
    if sampler == "search" and _cannot_search(settings, objective, data):
        raise EmbedxError("--sampler search needs dense features or --hidden 100; these features are sparse")
    if settings.hidden and not data.is_sparse:
        raise EmbedxError("--hidden applies to sparse features; these are dense")
    if found.keeps == "nothing" and rate is not None and rate * settings.l2 >= 1:
        raise EmbedxError(f"--l2 {settings.l2:g}: times --learning-rate {rate:g} must be below 1")
    if optimizer == "lbfgs" and sampler != "path":
        sampler = "all"
    threads = settings.threads or trainer.usable_cores()
    return dataclasses.replace(
        settings, sampler=sampler, optimizer=optimizer, batch_size=batch or len(data), learning_rate=rate, threads=threads
    )


def _cannot_search(settings: ClassifySettings, objective: Objective, data: Labeled) -> bool:
    """Whether an objective would search, but has no dense vector to search by."""
    return "search" in objective.samplers and data.is_sparse and not settings.hidden


def _split(data: Labeled, settings: ClassifySettings) -> tuple[Labeled, Labeled]:
    """Training and validation rows, chosen at random by the share that the setting names."""
    try:
        share = float(settings.validation or "")
    except ValueError:
        raise EmbedxError(f"--validation {settings.validation}: here only a share of the rows, like 0.1") from None
    if not 0 < share < 1:
        raise EmbedxError(f"--validation {settings.validation}: a share lies between 0 and 1")
    order = np.random.default_rng([settings.seed, INITIAL + 1]).permutation(len(data))
    n = max(1, round(share * len(data)))
    return data.rows(np.sort(order[n:])), data.rows(np.sort(order[:n]))


def _check_memory(data: Labeled, objective: Objective, settings: ClassifySettings) -> None:
    """Raise `EmbedxError` if the parameters will not fit, before anything is allocated."""
    dim = (settings.hidden or data.n_features) + 1
    n_rows = objective.n_rows(data.n_labels)
    copies = optimizers.OPTIMIZERS[str(settings.optimizer)].copies
    need = 4 * copies * (n_rows * dim + (data.n_features * settings.hidden if settings.hidden else 0))
    have = available_memory()
    if need > have:
        advice = (
            ""
            if settings.hidden or not data.is_sparse
            else f"add --hidden 100, which needs {_gigabytes(4 * copies * 101 * (n_rows + data.n_features))}; "
        )
        less = "--optimizer sgd needs half; " if copies == 2 else "--optimizer adagrad needs far less; " if copies == 50 else ""
        raise EmbedxError(
            f"{n_rows:,} rows × {dim:,} weights with --optimizer {settings.optimizer} need {_gigabytes(need)}, more than the "
            f"{_gigabytes(have)} there are; {advice}{less}or drop rare labels and features"
        )


def _gigabytes(n: float) -> str:
    return f"{n / 1e9:.1f} GB"


# ---- by steps


class _History:
    """What is noted after each epoch, and the parameters of the best one."""

    def __init__(
        self,
        classifier: Classifier,
        validation: Labeled | None,
        settings: ClassifySettings,
        watch: Callable[[Classifier, int, float], dict[str, float]] | None,
        progress: Progress,
    ) -> None:
        self.classifier, self.validation, self.settings, self.watch, self.progress = (
            classifier,
            validation,
            settings,
            watch,
            progress,
        )
        self.epochs: list[dict[str, Any]] = []
        self.best: dict[str, np.ndarray] | None = None
        self.best_value, self.waited = -math.inf, 0

    @property
    def is_wanted(self) -> bool:
        return self.validation is not None or self.watch is not None

    def note(self, epoch: int, loss: float | None, seconds_passed: float) -> bool:
        """Note an epoch whose parameters the classifier holds; whether to stop."""
        entry: dict[str, Any] = {"epoch": epoch + 1, "seconds": round(seconds_passed, 4), "loss": loss}
        if self.watch is not None:
            entry |= self.watch(self.classifier, epoch, seconds_passed)
        if self.validation is not None:
            found = self.classifier.evaluate(self.validation, threads=self.settings.threads)
            single = self.settings.labels in ("first", "lowest-id") or (self.validation.labels.n_of_row <= 1).all()
            measure = "log_likelihood" if single else "ndcg@5"
            entry["validation"] = {
                name: found[name] for name in ("log_likelihood", "accuracy", "p@1", "ndcg@5") if name in found
            }
            self.progress.note(f"epoch {epoch + 1}: loss {loss or 0:.4f}, validation {measure} {found[measure]:.4f}")
            if found[measure] > self.best_value:
                self.best_value, self.waited = found[measure], 0
                self.best = {name: array.copy() for name, array in self.classifier.arrays.items()}
            else:
                self.waited += 1
        self.epochs.append(entry)
        return self.waited >= self.settings.patience

    def restore(self) -> None:
        """Give the classifier its best parameters back."""
        if self.best is not None and self.waited:
            self.classifier.arrays = self.best
            self.classifier.__dict__.pop("_transposed", None)


def _run(
    features: Any,
    labels: Labels,
    objective: Objective,
    settings: ClassifySettings,
    classifier: Classifier,
    start_from: Trained | None,
    history: _History,
    progress: Progress,
) -> tuple[trainer.Outcome, tuple[np.ndarray, ...]]:
    """Train by steps on minibatches; the outcome, and what the optimiser kept beside the tables."""
    examples = examples_of(features, labels)
    n_features, n = features.shape[1], features.shape[0]
    n_rows = objective.n_rows(len(classifier.counts))
    has_bias = settings.bias != "none"
    dim = (settings.hidden or n_features) + has_bias
    state = np.zeros((n, objective.state_width), dtype=np.float32)
    n_updates = np.zeros(n if objective.state_width else 1, dtype=np.int64)
    row_length = float(settings.hidden or (n_features if examples.dense.size else len(examples.values) / n) or 1)
    optimizer = optimizers.update_rule(
        str(settings.optimizer), l2=settings.l2, max_norm=settings.max_norm, row_length=row_length
    )
    hidden = new_table(n_features if settings.hidden else 0, dim, optimizer)
    if settings.hidden:
        rng = np.random.default_rng([settings.seed, INITIAL])
        hidden.rows[:, : settings.hidden] = rng.uniform(-1, 1, (n_features, settings.hidden)) / math.sqrt(settings.hidden)
    start_of_bias = _first_biases(settings, classifier.counts, n, n_rows)
    way = way_for(objective, settings, examples)(
        objective, settings, examples, optimizer, classifier.counts, hidden, n_rows, dim, state, n_updates
    )
    if has_bias:
        way.set_bias(start_of_bias)
    memory = (way.hidden.state, way.outputs.state)
    if start_from is not None:
        for name, array in way.arrays().items():  # views of the tables
            array[:] = start_from.classifier.arrays[name]
        same_optimizer = start_from.classifier.settings["optimizer"] == settings.optimizer
        if same_optimizer and [each.shape for each in memory] == [each.shape for each in start_from.memory]:
            for state, before in zip(memory, start_from.memory, strict=True):
                state[:] = before
    way.load_kernels(progress)
    clock = [0.0]
    orders: dict[int, np.ndarray] = {}

    def order_of(epoch: int) -> np.ndarray:
        order = orders.get(epoch)
        if order is None:  # perhaps in two threads at once, and in the old epoch while another thread is in the new one
            order = np.random.default_rng([settings.seed, epoch]).permutation(n)
            orders.clear()
            orders[epoch] = order
        return order

    def train_one(scratch: Any, epoch: int, stretch: int, rate: float) -> trainer.Tally:
        start, stop = stretch * way.stretch, min((stretch + 1) * way.stretch, n)
        loss, terms, passed = way.train(scratch, order_of(epoch), epoch, start, stop, rate, clock[0])
        clock[0] += passed
        return trainer.Tally(loss, terms, stop - start)

    def hand_over() -> None:
        way.apply_decay(clock[0])
        classifier.arrays |= way.arrays()
        classifier.__dict__.pop("_transposed", None)

    def after_epoch(epoch: int, tally: trainer.Tally, seconds_passed: float) -> bool:
        hand_over()
        return history.note(epoch, tally.mean_loss, seconds_passed)

    n_stretches = -(-n // way.stretch)
    batch = int(settings.batch_size or n)
    schedule = trainer.Schedule(
        float(settings.learning_rate or 0), n_stretches, n, settings.epochs, settings.time_budget, settings.schedule,
        settings.decay, settings.decay_every, updates=-(-n // batch) / n_stretches, unit="examples",
    )  # fmt: skip
    outcome = trainer.run(train_one, way.scratches, schedule, progress, after_epoch if history.is_wanted else None)
    to_the_end(hand_over)
    history.restore()
    classifier.facts |= way.facts()
    return outcome, memory


def _first_biases(settings: ClassifySettings, counts: np.ndarray, n: int, n_rows: int) -> np.ndarray:
    """float32 (n_rows,): zero, or the log of how often each label occurs, as softmax (sums to 1) or logistic rows have it."""
    if settings.bias != "frequency" or n_rows != len(counts):
        return np.zeros(n_rows, dtype=np.float32)
    return np.asarray(np.log(np.maximum(counts, 0.5) / n), dtype=np.float32)


# ---- to the optimum


def _run_lbfgs(
    features: Any,
    labels: Labels,
    objective: Objective,
    settings: ClassifySettings,
    classifier: Classifier,
    weights: np.ndarray | None,
    dtype: Any,
    history: _History,
    progress: Progress,
) -> trainer.Outcome:
    """Train to the optimum on the whole data set."""
    n, n_features = features.shape
    n_classes = len(classifier.counts)
    n_rows = objective.n_rows(n_classes)
    has_bias = settings.bias != "none"
    paths = objective.paths() if settings.sampler == "path" else None
    if hasattr(objective.coefficients, "compile"):
        objective.coefficients.compile(COEFFICIENTS_64)

    def keep(w: np.ndarray) -> None:
        classifier.arrays["output"] = w[:n_features].T.astype(dtype)
        if has_bias:
            classifier.arrays["bias"] = w[-1].astype(dtype)
        classifier.__dict__.pop("_transposed", None)

    def after(iteration: int, loss: float) -> None:
        progress.update(iteration, loss=loss)

    start = np.zeros((n_features + has_bias, n_rows))
    if has_bias:
        start[-1] = _first_biases(settings, classifier.counts, n, n_rows)
    progress.start("training", settings.max_iterations, " iterations")
    began = time.monotonic()
    found = optimum.minimise(
        objective, features, labels, np.ones(n) if weights is None else np.asarray(weights, dtype=np.float64),
        n_rows=n_rows, paths=paths, has_bias=has_bias, l2=settings.l2,
        max_iterations=settings.max_iterations, tolerance=settings.tolerance, start=start, after=after,
    )  # fmt: skip
    progress.finish()
    passed = time.monotonic() - began
    keep(found.w)
    classifier.facts |= {"evaluations": found.evaluations, "largest_gradient": found.slope}
    history.note(found.iterations - 1, found.loss, passed)
    n_examples = n * found.iterations
    tally = trainer.Tally(found.loss * n_examples, n_examples, n_examples)
    return trainer.Outcome(tally, passed, float(found.iterations), None, found.loss, found.interrupted_by)


def _check(classifier: Classifier) -> None:
    """Raise `DivergedError` if a parameter is not finite."""
    for name, array in classifier.arrays.items():
        if not np.isfinite(array).all():
            raise DivergedError(f"{name}: weights are no longer finite at the end of training; try a smaller --learning-rate")

"""Yen et al. 2018, "Loss decomposition for fast learning in large output spaces": exact losses beside rows found by search.

    next-word    which of all words stands between these, from text: accuracy against time
    faces        identities by unit vectors, to the shape of MegaFace: accuracy against time
    documents    EURLex-4.3K with a hidden layer: P@1, 3 and 5 against time
    speed        time per example with 200,000 and more labels, once the rows are trained
    words        skip-gram on the collapsed objective: held-out likelihood against time and multiply-adds
    recall       how much of the gradient is on the rows that would be found, by blocks and rows looked at

`--only` takes sections, contenders and optimizers; by default all sections and contenders, and adagrad. `--corpus` is the text
of next-word. What a run trains on is cut into legs, each a call of `classify.train` that goes on from the one before. Measuring
takes place between legs and does not count as training. The page is papers_ldgs_page.py.
"""

import contextlib
import dataclasses
import functools
import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import papers_ldgs_data as sources
import papers_ldgs_page as page
import papers_ldgs_recall as recall
import papers_ldgs_words as words
from embedx.compiled import cache_home
from embedx.engine.trainer import Outcome, Tally, usable_cores
from papers_common import Classifier, Labeled, Records, commit

from embedx import classify, objectives
from embedx.errors import DivergedError
from embedx.evaluation.labels import LabelMetrics
from embedx.labeled.known import Known

SECTIONS = ("next-word", "faces", "documents", "speed", "words", "recall")
CORPUS = "corpora/enwiki-20190720-s1.text8.gz"  # in the folder of the data


@dataclasses.dataclass(frozen=True)
class Contender:
    """An objective and the settings of `Task.settings` that it takes. Of `batch` None the quickest batch is chosen."""

    objective: str
    takes: tuple[str, ...] = ()
    batch: int | None = 10  # the paper's
    later: dict[str, Any] = dataclasses.field(default_factory=dict)  # settings of all legs but the first


SEARCH = ("loss", "smoothing", "query")
CONTENDERS = {
    "softmax": Contender("softmax"),
    "softmax, best batch": Contender("softmax", batch=None),
    "sampled-softmax": Contender("sampled-softmax", ("negatives", "sampler")),
    "margin": Contender("margin", ("smoothing",)),
    "margin, best batch": Contender("margin", ("smoothing",), batch=None),
    "mips": Contender("mips", SEARCH, later={"warm_up": 0}),
    "ldgs": Contender("ldgs", (*SEARCH, "blocks"), later={"warm_up": 0}),
}
BATCHES = (100, 400, 1000)  # for large matrix products
OPTIMIZERS = {
    "adagrad": {"optimizer": "adagrad", "schedule": "constant"},
    "sgd": {"optimizer": "sgd", "schedule": "inverse"},  # the paper's 1/(1 + t), t in epochs
}
RATES = {"adagrad": (0.03, 0.1, 0.3), "sgd": (0.1, 1.0, 10.0)}  # and on by STEP where the best one is at an end
KEPT = "adagrad"  # what the classifiers are trained by that recall is measured on
STEP = {"adagrad": 3.0, "sgd": 10.0}


@dataclasses.dataclass(frozen=True)
class Task:
    """A data set and how it is learned: what the paper sets for multiclass data, or for several labels."""

    multilabel: bool
    measure: str  # what is drawn and judged
    tuned_by: str  # what rates are chosen by, which must tell them apart after little training
    tuned_on: float  # on this share of the rows, once through
    epochs: tuple[float, ...]  # when to measure; the last is the end
    smoothing: float
    blocks: int
    hidden: int | None = None

    def settings(self, n_labels: int) -> dict[str, Any]:
        return {
            "smoothing": self.smoothing, "blocks": self.blocks, "loss": "margin", "query": 0.01, "sampler": "uniform",
            "negatives": max(1, n_labels // 100),
        }  # fmt: skip


NEXT_WORD = Task(
    multilabel=False, measure="accuracy", tuned_by="reciprocal rank", tuned_on=0.1,
    epochs=(0.02, 0.05, 0.1, 0.2, 0.35, 0.5, 0.75, 1, 1.5, 2, 3, 4), smoothing=1.0, blocks=8,
)  # fmt: skip
FACES = dataclasses.replace(NEXT_WORD, tuned_on=0.8, epochs=(0.1, 0.2, 0.5, 1, 1.5, 2, 3, 5, 7, 10))
DOCUMENTS = Task(
    multilabel=True, measure="p@1", tuned_by="p@1", tuned_on=0.8,
    epochs=(0.05, 0.1, 0.2, 0.5, 1, 2, 3, 5, 7, 10), smoothing=5.0, blocks=4, hidden=sources.DIM,
)  # fmt: skip
TASKS = {"next-word": NEXT_WORD, "faces": FACES, "documents": DOCUMENTS}


@dataclasses.dataclass(frozen=True)
class Sizes:
    """How much of everything."""

    positions: tuple[int, int, float] = (500_000, 20_000, 0.01)  # for training, for test, share of the text held out
    identities: int = 20_000
    documents: tuple[int, int, int] = (50_000, 200_000, 300_000)  # documents, words, labels
    speed_faces: tuple[int, ...] = (200_000, 670_000)
    timed: int = 2_000  # examples
    repetitions: int = 3  # turns of timing
    validation: int = 5_000  # rows by which rates are chosen
    curve_rows: int = 10_000  # test rows between legs; at the end all of them
    rate_seconds: float = 30.0  # of training for each rate
    most_seconds: float = 900.0  # of training for each curve
    recall_rows: int = 200
    most_rates: int = 7
    largest_scores: int = 1 << 29  # floats of a batch's scores


QUICK = Sizes((3_000, 300, 0.1), 300, (1_000, 2_000, 500), (2_000,), 100, 1, 300, 300, 0.5, 1.0, 20, 4)


# ---- how good


def measured(classifier: Classifier, data: Labeled, multilabel: bool) -> dict[str, float]:
    """Accuracy, top-5 accuracy and mean reciprocal rank, ties counted against; of several labels P@1, 3 and 5."""
    block = max(1, (1 << 25) // data.n_labels)
    starts = range(0, len(data), block)
    if multilabel:
        metrics = LabelMetrics(data.n_labels)
        for start in starts:
            rows = np.arange(start, min(start + block, len(data)))
            metrics.add(None, classifier.scores(data.features[rows]), data.labels.rows(rows))
        return {name: value for name, value in metrics.result().items() if name.startswith("p@")}
    ranks = []
    for start in starts:
        y = data.labels.ids[start : start + block]
        z = classifier.scores(data.features[start : start + block])
        ranks.append((z >= z[np.arange(len(y)), y][:, None]).sum(axis=1))  # 1 is best
    rank = np.concatenate(ranks)
    return {
        "accuracy": float((rank == 1).mean()),
        "top-5": float((rank <= 5).mean()),
        "reciprocal rank": float((1 / rank).mean()),
    }


# ---- training


def fit(data: Labeled, objective: str, options: dict[str, Any], start: classify.Trained | None = None) -> classify.Trained:
    """One leg."""
    found = objectives.find(objective)
    made = found(found.Settings.from_options(options))
    return classify.train(data, made, classify.ClassifySettings.from_options(options), start=start)


def warm_up(data: Labeled, objective: str, options: dict[str, Any]) -> None:
    """Train on a few rows, so that kernels are compiled and loaded before the clock runs."""
    few = {"schedule": "constant", "epochs": 1, "learning_rate": 1e-3}
    fit(data.rows(np.arange(min(len(data), 20))), objective, options | few)


def known_rows(data: sources.Data, objective: str) -> classify.Trained:
    """A run to go on from, with the arrays of `data.start`."""
    training = data.training
    counts = np.maximum(np.bincount(training.labels.ids, minlength=training.n_labels), 1)
    found = objectives.find(objective)
    known = Known(training.n_features, training.n_labels)
    classifier = Classifier(found(found.Settings()), dict(data.start or {}), known, counts)
    return classify.Trained(classifier, Outcome(Tally(), 0.0, 0.0, None, None))


def legs(n: int, epochs: tuple[float, ...], seed: int) -> Iterator[tuple[float, np.ndarray]]:
    """(epochs when it is done, its rows) of each leg; every epoch goes once through all n rows in a random order."""
    order, of_epoch, begin = np.empty(0, dtype=np.int64), -1, 0
    for epoch in sorted({*epochs, *range(1, int(epochs[-1]) + 1)}):
        end = round(epoch * n)
        if begin // n != of_epoch:
            of_epoch = begin // n
            order = np.random.default_rng([seed, of_epoch]).permutation(n)
        if end > begin:
            yield float(epoch), order[begin - of_epoch * n : end - of_epoch * n]
        begin = end


def curve(
    data: Labeled,
    contender: Contender,
    options: dict[str, Any],
    epochs: tuple[float, ...],
    most_seconds: float,
    measure: Callable[[Classifier], dict[str, float]],
) -> tuple[list[dict[str, float]], classify.Trained | None]:
    """What is measured after each leg, with the epochs, examples and seconds of training so far; ends before it takes longer.

    `seconds` are those of the trainer, `whole` those of all calls, with setting up and checking. None if it diverged.
    """
    trained: classify.Trained | None = None
    points: list[dict[str, float]] = []
    examples, seconds, whole = 0, 0.0, 0.0
    warm_up(data, contender.objective, options)
    for epoch, rows in legs(len(data), epochs, 1):
        if seconds + len(rows) * (seconds / examples if examples else 0) > most_seconds:
            break
        rate = options["learning_rate"] / ((1 + examples // len(data)) if options["schedule"] == "inverse" else 1)
        now = options | {"learning_rate": rate, "schedule": "constant", "epochs": 1, "seed": len(points) + 1}
        began = time.monotonic()
        try:
            trained = fit(data.rows(rows), contender.objective, now | (contender.later if trained else {}), trained)
        except DivergedError:
            return points, None
        whole += time.monotonic() - began
        seconds, examples = seconds + trained.outcome.seconds, examples + len(rows)
        passed = {"epochs": epoch, "examples": examples, "seconds": seconds, "whole": whole}
        points.append(passed | measure(trained.classifier))
    return points, trained


@contextlib.contextmanager
def blas_threads(n: int) -> Iterator[None]:
    """No more threads in matrix products than this; scikit-learn brings the package."""
    from threadpoolctl import threadpool_limits

    with threadpool_limits(n):
        yield


class Lab:
    """The experiments: each asks for its records, measures what is not there, and is told by the page afterwards."""

    def __init__(
        self, data: Path, records: Records, wanted: set[str], corpus: str, quick: bool, seconds: float | None = None
    ) -> None:
        self.folder, self.records, self.corpus, self.quick = data, records, corpus, quick
        self.sizes = QUICK if quick else Sizes()
        if seconds is not None:
            few = min(self.sizes.rate_seconds, seconds / 8)
            self.sizes = dataclasses.replace(self.sizes, most_seconds=seconds, rate_seconds=few)
        self.threads = usable_cores()
        named = wanted & CONTENDERS.keys() or CONTENDERS.keys()
        self.contenders = [name for name in CONTENDERS if name in named and CONTENDERS[name].objective in objectives.OBJECTIVES]
        self.optimizers = [name for name in OPTIMIZERS if name in wanted] or [KEPT]
        self.data = functools.lru_cache(maxsize=1)(self._data)  # one at a time

    def get(self, measure: Callable[[], dict[str, Any]] | None, **key: Any) -> dict[str, Any] | None:
        def noted() -> dict[str, Any]:
            assert measure is not None
            return measure() | {"commit": commit()}

        return self.records.get(key, noted if measure is not None else None)

    def _data(self, name: str, n_labels: int = 0) -> sources.Data:
        sizes = self.sizes
        if name == "next-word":
            return sources.next_word(self.corpus, *sizes.positions, self.quick)
        if name == "faces":
            return sources.some_faces(n_labels, 2 * sizes.timed) if n_labels else sources.faces(sizes.identities)
        if n_labels:
            n, n_words, _ = sizes.documents
            return sources.documents(n, n_words, n_labels)
        if self.quick and not (self.folder / "eurlex-4.3k").is_dir():
            return sources.documents(*sizes.documents, n_test=200)
        return sources.eurlex(self.folder)

    def options(self, name: str, task: Task, n_labels: int, optimizer: str, batch: int) -> dict[str, Any]:
        """All settings of a contender but the rate."""
        given = task.settings(n_labels)
        taken = {each: given[each] for each in CONTENDERS[name].takes}
        hidden = {"hidden": task.hidden} if task.hidden else {}
        return {"batch_size": batch, "threads": self.threads, **OPTIMIZERS[optimizer], **hidden, **taken}

    # ---- accuracy against time

    def curves(self, section: str) -> None:
        for optimizer in self.optimizers:
            for name in self.contenders:
                self.curve(section, name, optimizer)

    def curve(self, section: str, name: str, optimizer: str) -> dict[str, Any] | None:
        """The curve of one contender at its best rate; the classifier is kept for `recall`."""
        task, contender = TASKS[section], CONTENDERS[name]

        def measure() -> dict[str, Any]:
            data = self.data(section)
            self.get(data.facts, section=section, what="facts")
            batch = contender.batch or self.best_batch(section, contender.objective, optimizer)
            options = self.options(name, task, data.training.n_labels, optimizer, batch)
            tried = self.rates(section, name, optimizer, options)
            options["learning_rate"] = page.best_rate(tried)
            few = data.test.rows(np.random.default_rng(3).permutation(len(data.test))[: self.sizes.curve_rows])
            points, trained = curve(
                data.training, contender, options, task.epochs, self.sizes.most_seconds,
                lambda classifier: measured(classifier, few, task.multilabel),
            )  # fmt: skip
            final = measured(trained.classifier, data.test, task.multilabel) if trained else None
            if trained and optimizer == KEPT:
                self.keep(section, name, trained.classifier)
            return {"options": options, "curve_rows": len(few), "test_rows": len(data.test), "points": points, "final": final}

        return self.get(measure, section=section, what="curve", contender=name, optimizer=optimizer)

    def best_batch(self, section: str, objective: str, optimizer: str) -> int:
        """The batch with which an exact objective takes the least time per example."""
        name = next(each for each, contender in CONTENDERS.items() if contender.objective == objective)

        def measure() -> dict[str, Any]:
            data = self.data(section).training
            seconds = {}
            warm_up(data, objective, self.options(name, TASKS[section], data.n_labels, optimizer, 10))
            for batch in BATCHES:
                options = self.options(name, TASKS[section], data.n_labels, optimizer, batch) | {"learning_rate": 1e-3}
                rows = np.arange(min(len(data), max(self.sizes.timed, 2 * batch)))
                trained = fit(data.rows(rows), objective, options | {"epochs": 1})
                seconds[str(batch)] = trained.outcome.seconds / len(rows)
            return {"seconds": seconds}

        found = self.get(measure, section=section, what="batches", objective=objective, optimizer=optimizer)
        assert found is not None
        return int(min(found["seconds"], key=lambda batch: found["seconds"][batch]))

    def rates(self, section: str, name: str, optimizer: str, options: dict[str, Any]) -> dict[str, float]:
        """What each rate achieves on validation rows after once through a share of the others, if the time allows."""
        data, task = self.data(section).training, TASKS[section]
        order = np.random.default_rng(2).permutation(len(data))
        training = data.rows(order[: int(task.tuned_on * len(data))])
        watched = data.rows(order[len(training) :][: self.sizes.validation])
        parts = tuple(np.arange(1, 9) / 8)

        def of(rate: float) -> float:
            def measure() -> dict[str, Any]:
                points, trained = curve(
                    training, CONTENDERS[name], options | {"learning_rate": rate}, parts, self.sizes.rate_seconds, lambda _: {}
                )
                found = measured(trained.classifier, watched, task.multilabel)[task.tuned_by] if trained else None
                return {"measure": found, "points": points[-1:], "options": options}

            key = {"section": section, "what": "rate", "contender": name, "optimizer": optimizer, "rate": rate}
            found = self.get(measure, **key) or {}
            return -1.0 if found["measure"] is None else found["measure"]

        tried = {rate: of(rate) for rate in RATES[optimizer]}
        while len(tried) < self.sizes.most_rates and (best := page.best_rate(tried)) in (min(tried), max(tried)):
            following = best / STEP[optimizer] if best == min(tried) else best * STEP[optimizer]
            following = float(f"{following:.1g}")
            tried[following] = of(following)
        return tried

    def kept(self, section: str, name: str) -> Path:
        """Where the classifier lies that a curve ended with."""
        quick = "-quick" if self.quick else ""
        return cache_home() / "eval" / f"ldgs{quick}-{section}-{name.replace(', ', '-').replace(' ', '-')}.npz"

    def keep(self, section: str, name: str, classifier: Classifier) -> None:
        file = self.kept(section, name)
        file.parent.mkdir(parents=True, exist_ok=True)
        np.savez(file, **classifier.arrays)

    # ---- time per example

    def speed(self) -> None:
        cores = [1, self.threads] if self.threads > 1 else [1]
        for n_labels in self.sizes.speed_faces:
            for threads in cores:
                self.timed("faces", n_labels, threads)
        self.timed("documents", self.sizes.documents[2], self.threads)

    def timed(self, section: str, n_labels: int, threads: int) -> None:
        """Seconds per example of each contender, turn by turn; the exact ones with every batch that fits in memory."""
        for turn in range(self.sizes.repetitions):
            for name in self.contenders:
                contender = CONTENDERS[name]
                for batch in [contender.batch] if contender.batch else BATCHES:
                    if (batch or 0) * n_labels > self.sizes.largest_scores:
                        continue
                    key = {"contender": name, "labels": n_labels, "threads": threads, "batch": batch, "turn": turn}
                    measure = functools.partial(self.time_of, section, name, n_labels, threads, int(batch or 0), turn)
                    self.get(measure, section="speed", what=section, **key)

    def time_of(self, section: str, name: str, n_labels: int, threads: int, batch: int, turn: int) -> dict[str, Any]:
        """Of two runs, one of half as many examples and one of half as many more than are timed: what the difference takes.

        So whatever a run does once is told apart; building an index is by its own clock.
        """
        data, task, n = self.data(section, n_labels), TASKS[section], self.sizes.timed
        options = self.options(name, task, n_labels, "sgd", batch) | CONTENDERS[name].later
        options |= {"learning_rate": 1e-3, "schedule": "constant", "epochs": 1, "threads": threads, "seed": turn + 1}
        start = known_rows(data, CONTENDERS[name].objective)
        rows = np.random.default_rng(turn).permutation(len(data.training))
        seconds, whole, indexing = [], [], []
        warm_up(data.training, CONTENDERS[name].objective, options)
        with blas_threads(threads):
            for many in (n // 2, n + n // 2):
                began = time.monotonic()
                trained = fit(data.training.rows(rows[:many]), CONTENDERS[name].objective, options, start)
                whole.append(time.monotonic() - began)
                indexing.append(float(trained.classifier.facts.get("index_seconds", 0.0)))
                seconds.append(trained.outcome.seconds - indexing[-1])
        an_example = (seconds[1] - seconds[0]) / n
        once = seconds[0] + indexing[0] - an_example * (n // 2)
        return {"seconds": an_example, "once": once, "whole": whole, "indexing": indexing, "options": options}

    # ---- words

    def words(self) -> None:
        words.run(self.records, self.corpus, self.quick, self.sizes.most_seconds)

    # ---- recall

    def recall(self) -> None:
        """On the classifiers of `next-word` and `documents`, by the exact gradient of the loss that trained them."""
        for section in ("next-word", "documents"):
            for name in ("softmax, best batch", "margin, best batch"):
                if name in self.contenders and self.kept(section, name).exists():
                    for blocks in recall.BLOCKS:
                        for by in recall.SEARCHES:
                            measure = functools.partial(self.recall_of, section, name, blocks, by)
                            self.get(measure, section="recall", data=section, contender=name, blocks=blocks, by=by)

    def recall_of(self, section: str, name: str, blocks: int, by: str) -> dict[str, Any]:
        data, task = self.data(section).test, TASKS[section]
        rows = np.random.default_rng(4).permutation(len(data))[: self.sizes.recall_rows]
        arrays = dict(np.load(self.kept(section, name)))
        x = data.features[rows]
        h = np.asarray(x @ arrays["hidden"] if "hidden" in arrays else x, dtype=np.float32)
        queries, table = recall.with_bias(h, arrays["output"], arrays["bias"])
        found = objectives.find(CONTENDERS[name].objective)
        objective = found(found.Settings.from_options(task.settings(data.n_labels)))
        mass = recall.gradient_mass(objective, queries @ table.T, data.labels.rows(rows))
        return {"by_share": recall.by_share(mass, recall.SEARCHES[by](table, queries), blocks), "rows": len(rows)}


def text_of(data: Path, corpus: str | None, quick: bool) -> str:
    """The corpus that was named, or the one among the data; in a quick run a sample that is always there."""
    usual = data.parent / CORPUS
    return corpus or (sources.SAMPLE if quick else str(usual))


def run(
    data: Path, results: Path, only: list[str] | None, quick: bool, report_only: bool, corpus: str | None = None,
    seconds: float | None = None,
) -> None:  # fmt: skip
    """Measure what `only` names, or everything, and write the page."""
    name = "papers-ldgs" + ("-quick" if quick else "")
    only = only or []
    lab = Lab(data, Records(results / f"{name}.jsonl"), set(only), text_of(data, corpus, quick), quick, seconds)
    for section in [] if report_only else [each for each in SECTIONS if each in only] or SECTIONS:
        if section in TASKS:
            lab.curves(section)
        else:
            getattr(lab, section)()
    more = [words.part(lab.records, results / f"{name}-words.png")]
    page.write(lab.records, results / f"{name}.md", page.Plan(CONTENDERS, TASKS, os.path.basename(lab.corpus)), more)

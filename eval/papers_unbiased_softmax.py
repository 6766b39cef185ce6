"""Fagan & Iyengar 2018, "Unbiased scalable softmax optimization": tables 2 and 3, figures 1, 2 and 3, by the paper's protocol.

    tune           the learning rate of each method, on a tenth of the data
    full           each method on all the data, at that rate and at the paper's, and again with a second seed on the small sets
    variants       what the paper, its code and we do differently, one at a time
    double-sums    figure 2: U-max on both double sums, ours and as published
    rates          appendix G: every method at every rate

`--only` takes sections and data sets. The page that is made of the records is papers_unbiased_softmax_page.py.
"""

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import papers_published_umax as published
import papers_unbiased_softmax_page as page
from papers_common import Classifier, Labeled, Records, fit, load
from scipy.sparse import csr_matrix

from embedx.errors import DivergedError
from embedx.labeled.data import Labels
from embedx.labeled.rules import chosen_labels, scaled

EPOCHS = 50
DECAY = 0.9
RATES = [10.0**power for power in range(-3, 4)]
LOWER_RATES = [1e-5, 1e-4]  # for plain SGD on the double sum, which the paper had to give smaller ones too
ROWS = {"eurlex-4.3k": 15_539}  # training rows taken at random: as many as the paper's EURLex has
CURVE_ROWS = {"eurlex-4.3k": 1_500}  # training rows by which curves are drawn, where all would take long
SETS = ("mnist", "bibtex", "eurlex-4.3k")
SMALL_SETS = ("mnist", "bibtex")
BLOCK_ROWS = 1000


@dataclasses.dataclass(frozen=True)
class Method:
    """A contender: n examples in a step, m classes drawn."""

    objective: str
    n: int
    m: int
    options: dict[str, Any] = dataclasses.field(default_factory=dict)


PROPOSED, RAMAN = {"double_sum": "proposed"}, {"double_sum": "raman"}
METHODS = {
    "OVE": Method("ove", 100, 5),
    "NCE": Method("nce", 100, 5),
    "IS": Method("sampled-softmax", 100, 5),
    "Vanilla": Method("sgd-double-sum", 1, 5, PROPOSED),
    "U-max": Method("umax", 1, 5, PROPOSED),
    "Implicit": Method("implicit", 1, 1, PROPOSED),
}
OTHERS = {
    "NCE (1,1)": Method("nce", 1, 1),
    "Vanilla (m=1)": Method("sgd-double-sum", 1, 1, PROPOSED),
    "U-max (m=1)": Method("umax", 1, 1, PROPOSED),
    "Implicit (m=5)": Method("implicit", 1, 5, PROPOSED),
    "U-max (Raman)": Method("umax", 1, 5, RAMAN),
    "Implicit (Raman)": Method("implicit", 1, 1, RAMAN),
    "Vanilla (Raman)": Method("sgd-double-sum", 1, 5, RAMAN),
}


@dataclasses.dataclass(frozen=True)
class Data:
    """A data set as the paper has it: rows of length 1, the first label of each, classes that training knows."""

    name: str
    training: Labeled
    test: Labeled
    n_dropped: int  # test rows of other classes


def prepare(folder: Path, name: str) -> Data:
    """Read, take the rows that ROWS allows, keep first labels, number the classes that occur from 0, and scale."""
    training, test, _ = load(folder, name)
    n = ROWS.get(name, len(training))
    training = training.rows(np.sort(np.random.default_rng(1).permutation(len(training))[:n]))
    seen = np.unique(chosen_labels(training.labels, "first").ids)

    def simplified(data: Labeled) -> Labeled:
        ids = chosen_labels(data.labels, "first").ids
        kept = np.flatnonzero(np.isin(ids, seen))
        labels = Labels.single(np.searchsorted(seen, ids[kept]))
        return Labeled(scaled(data.features[kept], "l2"), labels, len(seen))

    known_test = simplified(test)
    return Data(name, simplified(training), known_test, len(test) - len(known_test))


def part(data: Data, share: float) -> Labeled:
    """A share of the training rows, chosen at random; a larger share has the rows of a smaller one."""
    n = len(data.training)
    return data.training.rows(np.sort(np.random.default_rng(2).permutation(n)[: int(share * n)]))


# ---- how good


def measures(scores: Callable[[Any], np.ndarray], data: Labeled) -> dict[str, float | None]:
    """Log-loss and error of softmax(scores), and the log-loss of softmax(softmax(scores)), which the paper's baselines got.

    None stands for what is no number, after the scores have left float32.
    """
    loss = doubled = 0.0
    wrong = 0
    with np.errstate(all="ignore"):
        for start in range(0, len(data), BLOCK_ROWS):
            y = data.labels.ids[start : start + BLOCK_ROWS]
            z = scores(data.features[start : start + BLOCK_ROWS]).astype(np.float64)
            wrong += int((z.argmax(axis=1) != y).sum())
            z -= z.max(axis=1, keepdims=True)
            own = z[np.arange(len(y)), y]
            p = np.exp(z)
            total = p.sum(axis=1)
            loss += float((np.log(total) - own).sum())
            p /= total[:, None]
            doubled += float((np.log(np.exp(p).sum(axis=1)) - p[np.arange(len(y)), y]).sum())
    found = {"log_loss": loss / len(data), "error": wrong / len(data), "doubled": doubled / len(data)}
    return {name: value if np.isfinite(value) else None for name, value in found.items()}


def measured(data: Labeled, test: Labeled | None, method: Method, setting: dict[str, Any], n_curve_rows: int) -> dict[str, Any]:
    """Train, and measure on the training data, at ten epochs on the way on some of them, and on test data."""
    epochs = setting["epochs"]
    curve_data = data if n_curve_rows >= len(data) else data.rows(np.arange(n_curve_rows))
    curve: list[list[float | None]] = []

    def watch(classifier: Classifier, epoch: int, seconds: float) -> dict[str, float]:
        if (epoch + 1) % max(1, epochs // 10) == 0 and n_curve_rows:
            curve.append([epoch + 1, measures(classifier.scores, curve_data)["log_loss"]])
        return {}

    options = {
        "labels": "first", "bias": "none", "optimizer": "sgd", "schedule": "constant", "sampler": "uniform", "threads": 1,
        "batch_size": method.n, "negatives": method.m, "epochs": epochs, "seed": setting["seed"],
        "learning_rate": setting["rate"] * method.n, "decay": setting.get("decay", DECAY),
    }  # fmt: skip
    try:
        trained = fit(data, method.objective, options | method.options, watch)
    except DivergedError:
        return {"diverged": True, "curve": curve}
    scores = trained.classifier.scores
    result = {"curve": curve, "seconds": round(trained.outcome.seconds, 2), "train": measures(scores, data)}
    return result | ({"test": measures(scores, test)} if test is not None else {})


# ---- the experiments


class Experiment:
    """Runs of the methods, each measured once."""

    def __init__(self, folder: Path, records: Records, epochs: int, rates: list[float], report_only: bool) -> None:
        self.folder, self.records, self.epochs, self.rates, self.report_only = folder, records, epochs, rates, report_only
        self.loaded: dict[str, Data] = {}

    def data(self, name: str) -> Data:
        """A data set, read when it is first asked for."""
        if name not in self.loaded:
            self.loaded = {name: prepare(self.folder, name)}  # one at a time
        return self.loaded[name]

    def ask(self, key: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any] | None:
        return self.records.get(key, None if self.report_only else measure)

    def facts(self, name: str) -> None:
        """Note what the data are."""

        def found() -> dict[str, Any]:
            data = self.data(name)
            return {
                "rows": len(data.training), "test_rows": len(data.test), "test_rows_dropped": data.n_dropped,
                "features": data.training.n_features, "classes": data.training.n_labels,
                "most_frequent": float(np.bincount(data.training.labels.ids).max() / len(data.training)),
            }  # fmt: skip

        self.ask({"data": name}, found)

    def run(
        self, name: str, method: str, rate: float, *, share: float = 1.0, seed: int = 1, **changes: Any
    ) -> dict[str, Any] | None:
        """One run; the record of it."""
        setting = {"rate": rate, "epochs": self.epochs, "seed": seed} | changes
        key = {"data": name, "share": share, "method": method} | setting

        def measure() -> dict[str, Any]:
            data = self.data(name)
            chosen = METHODS.get(method) or OTHERS[method]
            if share < 1:
                return measured(part(data, share), None, chosen, setting, 0)
            return measured(data.training, data.test, chosen, setting, CURVE_ROWS.get(name, len(data.training)))

        return self.ask(key, measure)

    def tuned(self, name: str, method: str, by: str = "log_loss") -> float:
        """The rate that is best on a tenth of the data by this measure, among those tried."""
        found = [(rate, self.run(name, method, rate, share=0.1)) for rate in self.rates_for(method)]
        losses = {rate: (record or {}).get("train", {}).get(by) for rate, record in found}
        known = {rate: loss for rate, loss in losses.items() if loss is not None}
        return min(known, key=lambda rate: known[rate])

    def rates_for(self, method: str) -> list[float]:
        return [*LOWER_RATES, *self.rates] if method.startswith("Vanilla") else self.rates

    def published(
        self, name: str, form: str, rate: float, *, m: int = 5, share: float = 1.0, log_k: bool = False
    ) -> dict[str, Any] | None:
        """U-max as published; with `log_k` u starts at log K."""
        key = {"data": name, "share": share, "method": f"published {form}", "rate": rate, "epochs": self.epochs, "m": m}
        key |= {"start": "log K"} if log_k else {}

        def measure() -> dict[str, Any]:
            data = self.data(name)
            training = part(data, share) if share < 1 else data.training
            w = published.train(
                csr_matrix(training.features), training.labels.ids, training.n_labels,
                form=form, lr=rate, start=np.log(training.n_labels) if log_k else 0.0, decay=DECAY,
                epochs=self.epochs, m=m, seed=1,
            )  # fmt: skip
            rows = np.ascontiguousarray(w.T)
            return {"train": measures(lambda x: x @ rows, training), "test": measures(lambda x: x @ rows, data.test)}

        return self.ask(key, measure)


def tune(experiment: Experiment, name: str) -> None:
    experiment.facts(name)
    for method in METHODS:
        experiment.tuned(name, method)


def full(experiment: Experiment, name: str) -> None:
    for method in METHODS:
        experiment.run(name, method, experiment.tuned(name, method))
    for method in METHODS:
        experiment.run(name, method, page.PAPER_RATES[name][method])
        if name in SMALL_SETS:
            experiment.run(name, method, experiment.tuned(name, method), seed=2)


def variants(experiment: Experiment, name: str) -> None:
    """Three times the steps for Implicit; other m; both double sums; the published U-max: each at the paper's rates."""
    rates = page.PAPER_RATES[name]
    experiment.run(name, "Implicit", rates["Implicit"], epochs=3 * experiment.epochs, decay=DECAY ** (1 / 3))
    if name in SMALL_SETS:
        for method in ("U-max (m=1)", "Vanilla (m=1)", "Implicit (m=5)", "Implicit (Raman)", "Vanilla (Raman)"):
            experiment.run(name, method, rates[method.split(" (")[0]])
        experiment.published(name, "proposed", rates["U-max"])


def double_sums(experiment: Experiment, name: str) -> None:
    if name in page.SHARES:
        for rate in (0.01, 0.1, 1.0):
            for form in ("proposed", "raman"):
                experiment.published(name, form, rate, share=page.SHARES[name], log_k=True)
        for rate in [1e-4, *experiment.rates]:
            for method in ("U-max", "U-max (Raman)"):
                experiment.run(name, method, rate, share=page.SHARES[name])
            for form in published.FORMS:
                experiment.published(name, form, rate, share=page.SHARES[name])


def rates(experiment: Experiment, name: str) -> None:
    if name in page.SHARES:
        for method in [*METHODS, "NCE (1,1)", "U-max (Raman)", "Implicit (Raman)"]:
            for rate in experiment.rates_for(method):
                experiment.run(name, method, rate, share=page.SHARES[name])


SECTIONS = {"tune": tune, "full": full, "variants": variants, "double-sums": double_sums, "rates": rates}


def run(data: Path, results: Path, only: list[str] | None, quick: bool, report_only: bool) -> None:
    """Measure what `only` names, or everything, and write the page."""
    name = "papers-unbiased-softmax" + ("-quick" if quick else "")
    records = Records(results / f"{name}.jsonl")
    experiment = Experiment(data, records, 2 if quick else EPOCHS, [0.1, 1.0] if quick else RATES, report_only)
    only = only or []
    for section in [section for section in SECTIONS if section in only] or SECTIONS:
        for set_name in [set_name for set_name in SETS if set_name in only] or SETS:
            if not report_only:
                SECTIONS[section](experiment, set_name)
    page.write(experiment, results / f"{name}.md")

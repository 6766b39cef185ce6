"""Fagan & Iyengar 2018, "Unbiased scalable softmax optimization": tables 2 and 3, figures 1, 2 and
3, by the paper's protocol.

tune           the learning rate of each method, on a tenth of the data
full           each method on all the data, at that rate and at the paper's, and again with a second
               seed on the small sets
variants       what the paper, its code and we do differently, one at a time
double-sums    figure 2: U-max on both double sums
published      the same as its authors' code has it (papers_unbiased_published.py), with u from 0
               and from log K
rates          appendix G: every method at every rate
baselines      what the paper does not measure: the complementary sum of Botev et al. 2017,
               stochastic compositional gradient descent (appendix B), and A&R; tuned alike
uncapped       U-max whose steps may raise u above the draws' estimate of the normaliser, as the
               paper has it
"""

import functools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import csr_matrix

from embedx.errors import DivergedError
from embedx.labeled.data import Labeled
from embedx.labeled.scaling import unit_rows
from eval import papers_unbiased_published
from eval.experiment import Experiment, Run
from eval.page import DASH, plotted, table
from eval.papers import fit, load, numbered, printed
from eval.records import Job, Records, Result

EPOCHS, QUICK_EPOCHS = 50, 2
DECAY = 0.9
RATES = [10.0**power for power in range(-3, 4)]
QUICK_RATES = [0.1, 1.0]
# for plain SGD on the double sum, which the paper had to give smaller ones too
LOWER_RATES = [1e-5, 1e-4]
# training rows taken at random: as many as the paper has of EURLex and AmazonCat-13K
ROWS = {"eurlex-4.3k": 15_539, "amazoncat-13k": 100_000}
MAX_FEATURES = 10_000  # the first ones
# training rows by which curves are drawn, where all would take long
CURVE_ROWS = {"eurlex-4.3k": 1_500}
# Beside the paper's sets EURLex-4.3K, which can be had without a form, stands for its EURLex-4K.
TABULATED = ("mnist", "bibtex", "eurlex-4.3k")
SETS = (*TABULATED, "eurlex-4k", "delicious", "wiki10-31k", "amazoncat-13k")
SMALL_SETS = ("mnist", "bibtex")
# where every rate is tried, and on which share of the training rows
SHARES = {"bibtex": 1.0, "eurlex-4.3k": 0.3}
# The forms of the published U-max by method, and those that also start u at log K, as in the
# paper's text, and not at 0, as in its code.
PUBLISHED = {f"published, {form}": form for form in papers_unbiased_published.FORMS}
FROM_LOG_K = ("published, proposed", "published, Raman")
RATES_FROM_LOG_K = (0.01, 0.1, 1.0)
PUBLISHED_M = 5
# The paper's rates, .1 on Bibtex and 10 on MNIST, and others.
UNCAPPED_RATES = {"bibtex": (0.01, 0.1, 1.0, 10.0, 100.0), "mnist": (10.0,)}
BLOCK_ROWS = 1000


class Method(NamedTuple):
    """A contender: n examples in a step, m classes drawn."""

    objective: str
    n: int
    m: int
    settings: tuple[tuple[str, str], ...] = ()


PROPOSED = (("double_sum", "proposed"),)
RAMAN = (("double_sum", "raman"),)
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
    "U-max (no cap)": Method("umax-uncapped", 1, 5, PROPOSED),
}
BASELINES = {
    "Complementary sum": Method("complementary-sum", 100, 5),
    "SCGD": Method("scgd", 1, 5, PROPOSED),
    "A&R": Method("ar", 1, 5, (("augment", "noise"),)),
}
BASELINE_SEEDS = (1, 2, 3)
SWEPT = [*METHODS, "NCE (1,1)", "U-max (Raman)", "Implicit (Raman)"]
VARIED = ("Implicit (m=5)", "Implicit (Raman)", "U-max (m=1)", "Vanilla (m=1)", "Vanilla (Raman)")

PRINTED = printed("papers-unbiased-softmax")
PAPER_RATES = PRINTED["rates"]  # table 2; of a step's summed gradient
# Train log-loss, train error, test log-loss, test error: from the result files of
# francoisfagan/Log-tricks (1803.08577v1). The baselines' log-losses were taken of
# softmax(softmax(z)), so only their errors are there.
PAPER = PRINTED["results"]
# Table 3 as printed in 2018: log-loss over that of Implicit, whose absolute value (three times the
# steps) comes first.
RELATIVE = PRINTED["relative"]
KINDS = (("train", "log_loss"), ("train", "error"), ("test", "log_loss"), ("test", "error"))


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    methods = run.chosen("method")
    for section in run.chosen("section"):
        for name in run.chosen("data"):
            for job in SECTIONS[section](run.records, name):
                if job.get("method", methods[0]) in methods:
                    yield job


def one(
    records: Records,
    name: str,
    method: str,
    rate: float,
    *,
    share: float = 1.0,
    seed: int = 1,
    **changes: Any,
) -> Job:
    """A run of one method."""
    setting = {"rate": rate, "epochs": epochs_of(records), "seed": seed} | changes
    return {"data": name, "share": share, "method": method} | setting


def epochs_of(records: Records) -> int:
    return QUICK_EPOCHS if records.quick else EPOCHS


def rates_of(records: Records, method: str = "") -> list[float]:
    rates = QUICK_RATES if records.quick else RATES
    return [*LOWER_RATES, *rates] if method.startswith("Vanilla") else rates


def tuned(records: Records, name: str, method: str, by: str = "log_loss") -> float:
    """The rate that is best on a tenth of the data by this measure, among those tried."""
    losses = {
        rate: value(records, one(records, name, method, rate, share=0.1), "train", by)
        for rate in rates_of(records, method)
    }
    known = {rate: loss for rate, loss in losses.items() if loss is not None}
    return min(known, key=lambda rate: known[rate], default=rates_of(records)[0])


def longer(records: Records, name: str) -> Job:
    """Three times the steps for Implicit."""
    changes = {"epochs": 3 * epochs_of(records), "decay": DECAY ** (1 / 3)}
    return one(records, name, "Implicit", PAPER_RATES[name]["Implicit"], **changes)


def tune(records: Records, name: str) -> Iterator[Job]:
    for method in METHODS:
        yield from (
            one(records, name, method, rate, share=0.1) for rate in rates_of(records, method)
        )


def full(records: Records, name: str) -> Iterator[Job]:
    yield from tune(records, name)
    for method in METHODS:
        yield one(records, name, method, tuned(records, name, method))
    for method in METHODS:
        yield one(records, name, method, PAPER_RATES[name][method])
        if name in SMALL_SETS:
            yield one(records, name, method, tuned(records, name, method), seed=2)


def variants(records: Records, name: str) -> Iterator[Job]:
    """Each at the paper's rates."""
    yield longer(records, name)
    if name in SMALL_SETS:
        yield from (
            one(records, name, method, PAPER_RATES[name][method.split(" (")[0]])
            for method in VARIED
        )


def double_sums(records: Records, name: str) -> Iterator[Job]:
    if name in SHARES:
        for rate in [1e-4, *rates_of(records)]:
            yield from (
                one(records, name, method, rate, share=SHARES[name])
                for method in ("U-max", "U-max (Raman)")
            )


def as_published(
    records: Records, name: str, method: str, rate: float, share: float, start: str = "0"
) -> Job:
    """A run of the published U-max, whose u starts at 0 or at log K."""
    return one(records, name, method, rate, share=share, start=start)


def published_runs(records: Records, name: str) -> Iterator[Job]:
    if name in SHARES:
        share = SHARES[name]
        for method in PUBLISHED:
            for rate in [1e-4, *rates_of(records)]:
                yield as_published(records, name, method, rate, share)
        for method in FROM_LOG_K:
            for rate in RATES_FROM_LOG_K:
                yield as_published(records, name, method, rate, share, "log K")
    if name in SMALL_SETS:
        yield at_paper_rate_as_published(records, name)


def at_paper_rate_as_published(records: Records, name: str) -> Job:
    """The paper's own run of U-max."""
    return as_published(records, name, "published, proposed", PAPER_RATES[name]["U-max"], 1.0)


def rates(records: Records, name: str) -> Iterator[Job]:
    if name in SHARES:
        yield from (
            one(records, name, m, rate, share=SHARES[name])
            for m in SWEPT
            for rate in rates_of(records, m)
        )


def baselines(records: Records, name: str) -> Iterator[Job]:
    for method in BASELINES:
        yield from (
            one(records, name, method, rate, share=0.1) for rate in rates_of(records, method)
        )
        yield from (
            one(records, name, method, tuned(records, name, method), seed=seed)
            for seed in BASELINE_SEEDS
        )


def uncapped(records: Records, name: str) -> Iterator[Job]:
    """U-max with and without the cap, on all training rows."""
    if name in SMALL_SETS:
        for rate in UNCAPPED_RATES[name]:
            for method in ("U-max", "U-max (no cap)"):
                yield one(records, name, method, rate)


SECTIONS = {
    "tune": tune,
    "full": full,
    "variants": variants,
    "double-sums": double_sums,
    "published": published_runs,
    "rates": rates,
    "baselines": baselines,
    "uncapped": uncapped,
}


# ---- data


@functools.lru_cache(maxsize=1)
def prepared(folder: Path | None, name: str, quick: bool = False) -> tuple[Any, Any]:
    """Training rows and test rows, of length 1: the first label of each, classes that training
    knows numbered from 0, as many rows as ROWS allows.
    """
    training, test = (with_few_features(half) for half in load(folder, name, quick))
    n = ROWS.get(name, len(training))
    training = training.rows(np.sort(np.random.default_rng(1).permutation(len(training))[:n]))
    return tuple(
        Labeled(unit_rows(half.features), half.labels, half.n_labels)
        for half in numbered(training, test)
    )


def with_few_features(data: Labeled) -> Labeled:
    """The rows with their first MAX_FEATURES features; those that have none of these are left
    out.
    """
    if data.n_features <= MAX_FEATURES:
        return data
    kept = data.features[:, :MAX_FEATURES]
    rows = np.flatnonzero(np.diff(kept.indptr))
    return Labeled(kept[rows], data.labels.rows(rows), data.n_labels)


def part(training: Any, share: float) -> Any:
    """A share of the training rows, chosen at random; a larger share has the rows of a
    smaller one.
    """
    n = len(training)
    if share < 1:
        return training.rows(np.sort(np.random.default_rng(2).permutation(n)[: int(share * n)]))
    return training


# ---- measurements


def measure(run: Run, job: Job) -> Result:
    training, test = prepared(run.data_folder, job["data"], run.quick)
    if job["share"] < 1:
        return measured(part(training, job["share"]), None, job, 0)
    return measured(training, test, job, CURVE_ROWS.get(job["data"], len(training)))


def measured(data: Any, test: Any | None, job: Job, n_curve_rows: int) -> Result:
    """Train, and measure on the training data, at ten epochs on the way on some of them, and on
    test data.
    """
    if job["method"] in PUBLISHED:
        return measured_as_published(data, test, job)
    epochs = job["epochs"]
    method = (METHODS | OTHERS | BASELINES)[job["method"]]
    curve_data = data if n_curve_rows >= len(data) else data.rows(np.arange(n_curve_rows))
    curve: list[list[float | None]] = []

    def watch(classifier: Any, epoch: int, seconds: float) -> dict[str, float]:
        if (epoch + 1) % max(1, epochs // 10) == 0 and n_curve_rows:
            curve.append([epoch + 1, losses(classifier.scores, curve_data)["log_loss"]])
        return {}

    options = {
        "labels": "first",
        "bias": "none",
        "optimizer": "sgd",
        "schedule": "constant",
        "sampler": "uniform",
        "threads": 1,
        "batch_size": method.n,
        "negatives": method.m,
        "epochs": epochs,
        "seed": job["seed"],
        "learning_rate": job["rate"] * method.n,
        "decay": job.get("decay", DECAY),
    } | dict(method.settings)
    try:
        trained = fit(data, method.objective, options, watch=watch)
    except DivergedError:
        return {"diverged": True, "curve": curve}
    scores = trained.classifier.scores
    result = {
        "curve": curve,
        "seconds": round(trained.outcome.seconds, 2),
        "train": losses(scores, data),
    }
    return result | ({"test": losses(scores, test)} if test is not None else {})


def measured_as_published(data: Any, test: Any | None, job: Job) -> Result:
    """`measured` of the published U-max, at the end alone."""
    began = time.process_time()
    weights = papers_unbiased_published.train(
        csr_matrix(data.features),
        data.labels.ids,
        data.n_labels,
        form=PUBLISHED[job["method"]],
        rate=job["rate"],
        decay=DECAY,
        epochs=job["epochs"],
        m=PUBLISHED_M,
        seed=job["seed"],
        first_u=float(np.log(data.n_labels)) if job["start"] == "log K" else 0.0,
    )
    seconds = round(time.process_time() - began, 2)

    def scores(features: Any) -> np.ndarray:
        return np.asarray(features @ weights.T)

    result = {"seconds": seconds, "train": losses(scores, data)}
    return result | ({"test": losses(scores, test)} if test is not None else {})


def losses(scores: Callable[[Any], np.ndarray], data: Any) -> dict[str, float | None]:
    """Log-loss and error of softmax(scores), and the log-loss of softmax(softmax(scores)), which
    the paper's baselines got.

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
            score_of_label = z[np.arange(len(y)), y]
            p = np.exp(z)
            total = p.sum(axis=1)
            loss += float((np.log(total) - score_of_label).sum())
            p /= total[:, None]
            doubled += float((np.log(np.exp(p).sum(axis=1)) - p[np.arange(len(y)), y]).sum())
    metrics = {
        "log_loss": loss / len(data),
        "error": wrong / len(data),
        "doubled": doubled / len(data),
    }
    return {name: value if np.isfinite(value) else None for name, value in metrics.items()}


# ---- tables


def value(records: Records, job: Job, kind: str = "train", name: str = "log_loss") -> float | None:
    """One measure of a run, None if there is none."""
    return ((records.get(job) or {}).get(kind) or {}).get(name)


def shown(x: float | None, digits: int = 3) -> str:
    if x is None:
        return DASH
    if abs(x) >= 1e4:
        return f"{x:.1e}"
    if abs(x) < 100:
        return f"{x:.{digits}f}"
    return f"{x:.0f}"


def beside(what: str, paper: float | None, ours: float | None) -> dict[str, str]:
    if paper is None or ours is None:
        difference = DASH
    elif abs(ours) < 1e4:
        difference = f"{ours - paper:+.3f}"
    else:
        difference = "diverged"
    return {
        f"{what}: paper": shown(paper),
        f"ours {what}".strip(): shown(ours),
        f"{what}: difference": difference,
    }


def results(name: str, at: str, records: Records) -> str:
    """A set's table: every method at our tuned rate, or at the paper's."""
    rows = []
    for method in METHODS:
        rate = tuned(records, name, method) if at == "tuned" else PAPER_RATES[name][method]
        job = one(records, name, method, rate)
        if records.get(job) is None:
            continue
        row = {
            "method": method,
            "paper's rate": f"{PAPER_RATES[name][method]:g}",
            "our rate": f"{rate:g}",
        }
        for kind, paper in zip(KINDS, PAPER[name][method], strict=True):
            row |= beside(" ".join(kind).replace("_", "-"), paper, value(records, job, *kind))
        if at == "tuned":
            first = value(records, job)
            second = value(records, one(records, name, method, rate, seed=2))
            noise = None if first is None or second is None else abs(first - second)
            row["train log-loss, seed 1 − seed 2"] = shown(noise)
        rows.append(row)
    return table(rows)


def doubled(records: Records) -> str:
    """What the baselines score when softmax is taken twice."""
    rows = []
    for name, (unit, ratios) in RELATIVE.items():
        for method in ("OVE", "NCE", "IS"):
            job = one(records, name, method, PAPER_RATES[name][method])
            if records.get(job) is not None:
                rows.append(
                    {
                        "data": name,
                        "method": method,
                        **beside(
                            "softmax twice",
                            None if unit is None else unit * ratios[method],
                            value(records, job, "train", "doubled"),
                        ),
                        "ours, once": shown(value(records, job)),
                        "rate tuned by the log-loss": f"{tuned(records, name, method):g}",
                        "by softmax twice": f"{tuned(records, name, method, 'doubled'):g}",
                    }
                )
    return table(rows)


def uncapped_table(records: Records) -> str:
    """Training log-loss and test error of U-max with and without the cap."""
    rows = []
    for name, rates_of_set in UNCAPPED_RATES.items():
        for rate in rates_of_set:
            capped = one(records, name, "U-max", rate)
            free = one(records, name, "U-max (no cap)", rate)
            if records.get(free) is None:
                continue
            published = PAPER[name]["U-max"] if rate == PAPER_RATES[name]["U-max"] else None
            rows.append(
                {
                    "data": name,
                    "rate": f"{rate:g}",
                    "train log-loss: paper": shown(published[0] if published else None),
                    "with the cap": shown(value(records, capped)),
                    "without": shown(value(records, free)),
                    "test error: paper": shown(published[3] if published else None),
                    "test error with": shown(value(records, capped, "test", "error")),
                    "test error without": shown(value(records, free, "test", "error")),
                }
            )
    return table(rows)


def relative(records: Records) -> str:
    """Table 3."""
    rows = []
    for name, (_, ratios) in RELATIVE.items():
        losses = {
            method: value(records, one(records, name, method, tuned(records, name, method)))
            for method in METHODS
        }
        for method, loss in losses.items():
            if loss and losses["Implicit"]:
                rows.append(
                    {
                        "data": name,
                        "method": method,
                        **beside("over Implicit", ratios[method], loss / losses["Implicit"]),
                    }
                )
    return table(rows)


def two_sums(name: str, records: Records) -> str:
    """Figure 2."""
    rows = []
    share = SHARES[name]
    for rate in [1e-4, *rates_of(records)]:
        ours = [
            value(records, one(records, name, method, rate, share=share))
            for method in ("U-max", "U-max (Raman)")
        ]
        row = {"rate": f"{rate:g}", "ours: proposed": shown(ours[0]), "ours: Raman": shown(ours[1])}
        row["Raman / proposed"] = shown(ours[1] / ours[0] if all(ours) else None, 2)
        rows.append(row)
    return table(rows)


def published_sums(name: str, records: Records) -> str:
    """Figure 2 by the published U-max."""
    rows = []
    share = SHARES[name]
    for rate in [1e-4, *rates_of(records)]:
        row = {"rate": f"{rate:g}"}
        for method, form in PUBLISHED.items():
            job = as_published(records, name, method, rate, share)
            row[f"u from 0: {form}"] = shown(value(records, job))
        for method in FROM_LOG_K:
            job = as_published(records, name, method, rate, share, "log K")
            row[f"u from log K: {PUBLISHED[method]}"] = shown(value(records, job))
        rows.append(row)
    return table(rows)


def sensitivity(name: str, records: Records) -> str:
    """Appendix G."""
    return table(
        [
            {
                "method": method,
                **{
                    f"{rate:g}": shown(
                        value(records, one(records, name, method, rate, share=SHARES[name]))
                    )
                    for rate in rates_of(records)
                },
            }
            for method in SWEPT
        ]
    )


def varied(records: Records) -> str:
    """One change at a time, at the paper's rates."""
    rows = []
    for name, rates in PAPER_RATES.items():
        cases = {"Implicit, 150 epochs": longer(records, name)}
        cases |= {
            method: one(records, name, method, rates[method.split(" (")[0]]) for method in VARIED
        }
        paper = {"Implicit, 150 epochs": RELATIVE[name][0]}
        if name in SMALL_SETS:
            case = "U-max as published"
            cases[case] = at_paper_rate_as_published(records, name)
            paper[case] = PAPER[name]["U-max"][0]
        rows += [
            {
                "data": name,
                "what": case,
                **beside("train log-loss", paper.get(case), value(records, job)),
            }
            for case, job in cases.items()
            if records.get(job) is not None
        ]
    return table(rows)


def beside_baselines(records: Records) -> str:
    """The two baselines, and the paper's methods with as many draws, each at its tuned rate; means
    over the seeds there are, and half their range.
    """
    rows = []
    for name in TABULATED:
        for method in ("IS", "U-max", "Implicit", *BASELINES):
            rate = tuned(records, name, method)
            jobs = [one(records, name, method, rate, seed=seed) for seed in BASELINE_SEEDS]
            runs = [job for job in jobs if records.get(job) is not None]
            if runs:
                row = {"data": name, "method": method, "rate": f"{rate:g}", "seeds": len(runs)}
                for kind in KINDS:
                    values = [value(records, job, *kind) for job in runs]
                    row[" ".join(kind).replace("_", "-")] = middle_and_range(values)
                rows.append(row)
    return table(rows)


def middle_and_range(values: list[float | None]) -> str:
    known = [value for value in values if value is not None]
    if not known:
        return DASH
    half = (max(known) - min(known)) / 2
    return f"{shown(sum(known) / len(known))} ± {shown(half)}"


# ---- pictures


def plot_epochs(records: Records) -> Any:
    """Figure 1."""
    panels = []
    for name in TABULATED:
        runs = {
            m: records.get(one(records, name, m, tuned(records, name, m))) or {} for m in METHODS
        }
        curves = {
            m: [p for p in result.get("curve", []) if p[1] is not None and p[1] < 100]
            for m, result in runs.items()
        }
        lines = [
            ([p[0] for p in curve], [p[1] for p in curve], {"marker": ".", "label": m})
            for m, curve in curves.items()
        ]
        panels.append((lines, {"title": name, "xlabel": "epochs", "yscale": "log"}))
    return plotted(12, 3.6, panels, ylabel="train log-loss")


def plot_rates(records: Records) -> Any:
    """Figures 2 and 3 together."""
    panels = []
    for name, share in SHARES.items():
        lines = []
        for method in [*METHODS, "U-max (Raman)", "Implicit (Raman)"]:
            points = [
                (rate, value(records, one(records, name, method, rate, share=share)))
                for rate in rates_of(records)
            ]
            known = [(rate, loss) for rate, loss in points if loss is not None and loss < 1e4]
            style = {"ls": "--" if "Raman" in method else "-", "marker": ".", "label": method}
            lines.append(([rate for rate, _ in known], [loss for _, loss in known], style))
        about = {
            "title": f"{name}, share {share:g} of the rows",
            "xlabel": "learning rate",
            "xscale": "log",
            "yscale": "log",
        }
        panels.append((lines, about))
    return plotted(10, 3.8, panels, ylabel=f"train log-loss after {epochs_of(records)} epochs")


def called(name: str) -> str:
    """A data set in the names of tables."""
    return name.partition("-")[0]


EXPERIMENT = Experiment(
    name="papers-unbiased-softmax",
    title="Fagan & Iyengar 2018, unbiased scalable softmax optimization",
    choices={
        "section": tuple(SECTIONS),
        "data": SETS,
        "method": (*METHODS, *OTHERS, *BASELINES, *PUBLISHED),
    },
    packages=("scipy",),
    jobs=jobs,
    needs=lambda run: list(run.chosen("data")),
    measure=measure,
    tables={
        **{
            f"{called(name)}-{at}": functools.partial(results, name, at)
            for name in TABULATED
            for at in ("tuned", "paper")
        },
        "doubled": doubled,
        "relative": relative,
        **{f"{called(name)}-sums": functools.partial(two_sums, name) for name in SHARES},
        **{f"{called(name)}-published": functools.partial(published_sums, name) for name in SHARES},
        **{f"{called(name)}-rates": functools.partial(sensitivity, name) for name in SHARES},
        "variants": varied,
        "uncapped": uncapped_table,
        "baselines": beside_baselines,
    },
    plots={"-epochs": plot_epochs, "-rates": plot_rates},
    mixed=True,
)

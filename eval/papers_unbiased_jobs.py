"""The runs of papers_unbiased_softmax: methods, learning rates, and the jobs of its sections."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from eval import papers_unbiased_published
from eval.experiment import Run
from eval.papers import printed
from eval.records import Job, Records

EPOCHS, QUICK_EPOCHS = 50, 2
DECAY = 0.9
RATES = [10.0**power for power in range(-3, 4)]
QUICK_RATES = [0.1, 1.0]
# for plain SGD on the double sum, which the paper had to give smaller ones too
LOWER_RATES = [1e-5, 1e-4]
# Beside the paper's sets EURLex-4.3K, which can be had without a form, stands for its EURLex-4K.
TABULATED = ("mnist", "bibtex", "eurlex-4.3k")
OTHER_SETS = (
    "eurlex-4k",
    "delicious",
    "wiki10-31k",
    "amazoncat-13k",
    "lshtc-wiki-small",
    "bibtex-xc",
    "bibtex-mulan",
    "delicious-mulan",
)
SETS = (*TABULATED, *OTHER_SETS)
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


def value(records: Records, job: Job, kind: str = "train", name: str = "log_loss") -> float | None:
    """One measure of a run, None if there is none."""
    return ((records.get(job) or {}).get(kind) or {}).get(name)


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

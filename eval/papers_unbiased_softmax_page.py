"""The page of papers_unbiased_softmax.py: tables `paper | ours | difference` and two pictures, from the records alone."""

# ruff: noqa: E501 (prose)

from pathlib import Path
from typing import Any

from papers_common import provenance, table

PAPER_RATES = {  # table 2; of a step's summed gradient
    "mnist": {"OVE": 10.0, "NCE": 10.0, "IS": 10.0, "Vanilla": 0.01, "U-max": 10.0, "Implicit": 0.1},
    "bibtex": {"OVE": 100.0, "NCE": 100.0, "IS": 100.0, "Vanilla": 0.01, "U-max": 0.1, "Implicit": 10.0},
    "eurlex-4.3k": {"OVE": 0.1, "NCE": 100.0, "IS": 100.0, "Vanilla": 0.001, "U-max": 0.1, "Implicit": 10.0},
}
# Train log-loss, train error, test log-loss, test error: from the result files of francoisfagan/Log-tricks (arXiv:1803.08577v1).
# The baselines' log-losses were taken of softmax(softmax(z)), so only their errors are there.
PAPER = {
    "mnist": {
        "OVE": (None, 0.089, None, 0.104), "NCE": (None, 0.095, None, 0.101), "IS": (None, 0.074, None, 0.090),
        "Vanilla": (0.388, 0.090, 0.384, 0.089), "U-max": (0.414, 0.059, 0.566, 0.077), "Implicit": (0.295, 0.081, 0.300, 0.083),
    },
    "bibtex": {
        "OVE": (None, 0.209, None, 0.743), "NCE": (None, 0.135, None, 0.749), "IS": (None, 0.154, None, 0.742),
        "Vanilla": (2.202, 0.371, 4.07, 0.743), "U-max": (1.414, 0.314, 4.22, 0.735), "Implicit": (0.333, 0.095, 6.03, 0.732),
    },
    "eurlex-4.3k": {
        "OVE": (None, 0.490, None, 0.663), "NCE": (None, 0.420, None, 0.648), "IS": (None, 0.406, None, 0.633),
        "Vanilla": (3.461, 0.539, 3.96, 0.628), "U-max": (2.011, 0.427, 4.65, 0.630), "Implicit": (1.342, 0.372, 3.66, 0.619),
    },
}  # fmt: skip
# Table 3 as printed in 2018: log-loss over that of Implicit, whose absolute value (three times the steps) comes first.
RELATIVE = {
    "mnist": (0.271, {"OVE": 5.73, "NCE": 6.05, "IS": 5.74, "Vanilla": 1.43, "U-max": 1.56, "Implicit": 1.0}),
    "bibtex": (0.145, {"OVE": 29.03, "NCE": 28.52, "IS": 32.71, "Vanilla": 15.18, "U-max": 9.77, "Implicit": 1.0}),
    "eurlex-4.3k": (0.963, {"OVE": 6.47, "NCE": 6.39, "IS": 6.38, "Vanilla": 3.59, "U-max": 2.11, "Implicit": 1.0}),
}
TITLES = {
    "mnist": "MNIST (the paper's data)",
    "bibtex": "Bibtex (the paper's sizes, another random split; 148 classes for its 147)",
    "eurlex-4.3k": "EURLex-4.3K (not the paper's EURLex: 15,539 documents drawn from the 45,000 of EURLEX57K, 1,254 classes for 838)",
}
SHARES = {"bibtex": 1.0, "eurlex-4.3k": 0.3}  # where every rate is tried, and on which share of the training rows
WHERE = {"bibtex": "Bibtex, all rows", "eurlex-4.3k": "EURLex-4.3K, 4,661 documents"}
CURVES = ("OVE", "NCE", "IS", "Vanilla", "U-max", "Implicit")
KINDS = (("train", "log_loss"), ("train", "error"), ("test", "log_loss"), ("test", "error"))


def value(record: dict[str, Any] | None, kind: str = "train", name: str = "log_loss") -> float | None:
    """One measure of a run, None if there is none."""
    return ((record or {}).get(kind) or {}).get(name)


def shown(x: float | None, digits: int = 3) -> str:
    return "–" if x is None else f"{x:.1e}" if abs(x) >= 1e4 else f"{x:.{digits}f}" if abs(x) < 100 else f"{x:.0f}"


def compared(paper: float | None, ours: float | None) -> list[str]:
    difference = "–" if paper is None or ours is None else f"{ours - paper:+.3f}" if abs(ours) < 1e4 else "diverged"
    return [shown(paper), shown(ours), difference]


def results(e: Any, name: str, at: str) -> str:
    """A set's table: every method at our tuned rate, or at the paper's."""
    rows = []
    for method in CURVES:
        rate = e.tuned(name, method) if at == "tuned" else PAPER_RATES[name][method]
        record = e.run(name, method, rate)
        second = e.run(name, method, rate, seed=2) if at == "tuned" else None
        cells = [cell for k, p in zip(KINDS, PAPER[name][method], strict=True) for cell in compared(p, value(record, *k))]
        noise = [abs(value(record) - value(second))] if value(second) is not None and value(record) is not None else [None]
        rows.append(
            [method, f"{PAPER_RATES[name][method]:g}", f"{rate:g}", *cells, *([shown(noise[0])] if at == "tuned" else [])]
        )
    head = ["method", "paper's rate", "our rate"]
    for kind in ("train log-loss", "train error", "test log-loss", "test error"):
        head += [f"{kind}: paper", "ours", "difference"]
    return table(head + (["train log-loss, seed 1 − seed 2"] if at == "tuned" else []), rows)


def doubled(e: Any) -> str:
    """What the baselines score when softmax is taken twice."""
    rows = []
    for name, (unit, ratios) in RELATIVE.items():
        for method in ("OVE", "NCE", "IS"):
            record = e.run(name, method, PAPER_RATES[name][method])
            ours = value(record, "train", "doubled")
            rows.append([name, method, *compared(unit * ratios[method], ours), shown(value(record)),
                         f"{e.tuned(name, method):g}", f"{e.tuned(name, method, 'doubled'):g}"])  # fmt: skip
    head = [
        "data",
        "method",
        "paper",
        "ours, softmax twice",
        "difference",
        "ours, once",
        "rate tuned by the log-loss",
        "by softmax twice",
    ]
    return table(head, rows)


def relative(e: Any) -> str:
    """Table 3."""
    rows = []
    for name, (_, ratios) in RELATIVE.items():
        losses = {method: value(e.run(name, method, e.tuned(name, method))) for method in CURVES}
        for method in CURVES:
            ratio = losses[method] / losses["Implicit"] if losses[method] and losses["Implicit"] else None
            rows.append([name, method, *compared(ratios[method], ratio)])
    return table(["data", "method", "paper", "ours", "difference"], rows)


def two_sums(e: Any, name: str, share: float) -> str:
    """Figure 2."""
    rows = []
    for rate in [1e-4, *e.rates]:
        ours = [value(e.run(name, method, rate, share=share)) for method in ("U-max", "U-max (Raman)")]
        right = [value(e.published(name, form, rate, share=share, log_k=True)) for form in ("proposed", "raman")]
        theirs = [value(e.published(name, form, rate, share=share)) for form in ("proposed", "raman", "raman as coded")]
        ratio = ours[1] / ours[0] if all(ours) else None
        rows.append([f"{rate:g}", *map(shown, ours), shown(ratio, 2), *map(shown, theirs), *map(shown, right)])
    head = [
        "rate",
        "ours: proposed",
        "ours: Raman",
        "Raman / proposed",
        "published: proposed",
        "published: Raman",
        "published: Raman, with its two bugs",
        "u from log K: proposed",
        "u from log K: Raman",
    ]
    return table(head, rows)


def sensitivity(e: Any, name: str, share: float) -> str:
    """Appendix G."""
    methods = [*CURVES, "NCE (1,1)", "U-max (Raman)", "Implicit (Raman)"]
    rows = [[m, *(shown(value(e.run(name, m, rate, share=share))) for rate in e.rates)] for m in methods]
    return table(["method", *(f"{rate:g}" for rate in e.rates)], rows)


def variants(e: Any) -> str:
    """One change at a time, at the paper's rates."""
    rows = []
    for name, rates in PAPER_RATES.items():
        cases = [
            ("Implicit, 150 epochs", e.run(name, "Implicit", rates["Implicit"], epochs=3 * e.epochs, decay=0.9 ** (1 / 3)))
        ]
        others = ("Implicit (m=5)", "Implicit (Raman)", "U-max (m=1)", "Vanilla (m=1)", "Vanilla (Raman)")
        cases += [(method, e.run(name, method, rates[method.split(" (")[0]])) for method in others]
        cases.append(("U-max as published", e.published(name, "proposed", rates["U-max"])))
        paper = {"Implicit, 150 epochs": RELATIVE[name][0], "U-max as published": PAPER[name]["U-max"][0]}
        rows += [[name, case, *compared(paper.get(case), value(record))] for case, record in cases if record]
    return table(["data", "what", "paper", "ours", "difference"], rows)


def draw(e: Any, stem: Path) -> list[str]:
    """Figure 1, and figures 2 and 3 together; the names of the files."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(12, 3.6))
    for axis, name in zip(axes, PAPER_RATES, strict=True):
        for method in CURVES:
            record = e.run(name, method, e.tuned(name, method))
            points = [p for p in (record or {}).get("curve", []) if p[1] is not None and p[1] < 100]
            axis.plot([p[0] for p in points], [p[1] for p in points], marker=".", label=method)
        axis.set(title=name, xlabel="epochs", yscale="log")
    axes[0].set_ylabel("train log-loss")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(f"{stem}-epochs.png", dpi=70)
    figure, axes = plt.subplots(1, 2, figsize=(10, 3.8))
    for axis, (name, share) in zip(axes, SHARES.items(), strict=True):
        for method in [*CURVES, "U-max (Raman)", "Implicit (Raman)"]:
            points = [(rate, value(e.run(name, method, rate, share=share))) for rate in e.rates]
            points = [p for p in points if p[1] is not None and p[1] < 1e4]
            style = "--" if "Raman" in method else "-"
            axis.plot([p[0] for p in points], [p[1] for p in points], style, marker=".", label=method)
        axis.set(title=WHERE[name], xlabel="learning rate", xscale="log", yscale="log")
    axes[0].set_ylabel("train log-loss after 50 epochs")
    axes[0].legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(f"{stem}-rates.png", dpi=70)
    return [f"{stem.name}-epochs.png", f"{stem.name}-rates.png"]


HEAD = """# Fagan & Iyengar 2018, unbiased scalable softmax optimization

The paper's protocol: rows of length 1, first label, no biases, no regularisation, plain SGD, rate times 0.9 after each epoch,
50 epochs; OVE, NCE and IS with n = 100, m = 5; Vanilla and U-max with n = 1, m = 5, as the authors' code ran them; Implicit with
n = m = 1; u of the proposed double sum. Rates are tuned on a tenth of the data over 10^-3..3 (Vanilla from 10^-5) by the log-loss
there, and are those of the gradient summed over a step. Ours differs in three ways: rows are shuffled at each epoch, each
example draws its own classes (the paper: 100 share them), and u starts at the sample's estimate of the normaliser.

**In short.** (1) The paper's log-losses of OVE, NCE and IS are those of softmax(softmax(z)). Scored that way ours equal them on
MNIST within 0.002. Scored properly they are 0.7 to 1.1 times Implicit's on MNIST, 0.6 to 1.3 times on EURLex-4.3K and 2.4 to 4.9
times on Bibtex (paper: 6, 6 and 30), and the last is the tuning's doing: a tenth of Bibtex asks for
too large a rate, and at the best rate on all rows NCE has 0.137, IS 0.260, Implicit 0.269. (2) What holds: Implicit is the one
method that no large rate spoils: from 10 to 1000 it changes by a fifth at most where the others grow about 50 to 100 times. (3) That the proposed double sum beats that of Raman et al.
does not hold: with u started at log K, as the paper's text has it, Raman's is better for U-max at every rate above 10^-4. The
code starts u at 0, which multiplies the first pulls on the positive in the proposed form alone. For Implicit the proposed form is better at 10
and above, Raman's below. (4) Our Implicit equals the paper's on MNIST and Bibtex in the training log-loss.
"""


def write(e: Any, file: Path) -> None:
    """Write the page and its pictures."""
    e.report_only = True
    epochs, rates = draw(e, file.with_suffix(""))
    facts = [
        [name, *(f"{x:.3g}" if isinstance(x, float) else x for x in e.records.get({"data": name}, None).values())]
        for name in PAPER_RATES
    ]
    parts = [
        HEAD,
        table(
            [
                "data",
                "rows",
                "test rows",
                "test rows of unseen classes, left out",
                "features",
                "classes",
                "share of the largest class",
            ],
            facts,
        ),
    ]
    for name, title in TITLES.items():
        parts += [
            f"## {title}\n\nAt the rates tuned here:\n",
            results(e, name, "tuned"),
            "At the paper's rates:\n",
            results(e, name, "paper"),
        ]
    parts += [
        "A dash under `paper`: the number is an artefact (next section). `diverged`: Vanilla scored well on the tenth and went "
        "over an exponent of 60 on all rows; only smaller rates are safe. U-max at its tuned rate blows up in scale on EURLex and Bibtex while its error stays low: a tenth of the rows is too little to tune it by. Test errors on Bibtex are 0.62 to 0.71 here against the paper's 0.73 to 0.75 for every method; Titsias 2016 has 0.62 to 0.64, so the paper prepared the test data otherwise. EURLex errors do not compare. Runs of EURLex have one seed.\n",
        f"## Figure 1\n\n![train log-loss by epoch]({epochs})\n",
        "EURLex curves are over 1,500 training rows. Vanilla at its tuned rate lies above the pictures.\n",
        "## The baselines' log-loss in the paper is an artefact\n\nAt the paper's rates. Its code hands probabilities where "
        "logits are expected, which bounds the log-loss from below by log(e + K - 1) - 1: 1.461 for 10 classes, 4.008 for 148, 6.136 "
        "for 1,254. Bounded so, a blown-up scale costs nothing, and tuning by it prefers rates up to a hundred times larger. EURLex is another data set, Bibtex another split; the 4.743 of IS we cannot explain.\n",
        doubled(e),
        "## Table 3: log-loss over that of Implicit\n\nThe paper's baselines here are the artefact, kept for the record.\n",
        relative(e),
        "## Figure 2: the two double sums, U-max\n\n`published` is the authors' algorithm written anew: u starts at 0, so its first "
        "value is log(1 + m) where log K is right, and every rival is weighed about K/(1 + m) times too much until u has climbed. "
        "With the proposed sum the positive's pull is inflated alike, a larger step for the same nominal rate; with Raman's it "
        "cannot exceed 1. That, not variance, is why the former looked better at rates up to 0.1: with u from log K (last columns) the same code has Raman's below the proposed sum, as ours has, and comes close to ours except at rate 1 on EURLex. At the larger rates Raman's is better either way. The two bugs make Raman's look better than it is at small rates and worse at large ones. Train log-loss after 50 epochs:\n",
    ]
    for name, share in SHARES.items():
        parts += [f"{WHERE[name]}:\n", two_sums(e, name, share)]
    parts += [
        f"## Appendix G: sensitivity to the rate\n\n![log-loss by rate]({rates})\n\nVanilla lies under U-max as long as it does not "
        "diverge, and above the pictures then. EURLex is cut to three tenths of the rows for want of time.\n"
    ]
    for name, share in SHARES.items():
        parts += [f"{WHERE[name]}, train log-loss after 50 epochs:\n", sensitivity(e, name, share)]
    parts += [
        "## What explains the differences\n\nAt the paper's rates. The paper's first version gave Implicit three times the steps "
        "(150 epochs here); U-max as published is the same algorithm with u started at 0 and rows in the order of the file. On Bibtex "
        "at rate 0.1 ours ends at 3.149 and the published start at 1.443, the paper's being 1.414: the start of u is the "
        "difference, and at the rate that suits it (1) our U-max reaches 0.660. Vanilla's lag at the paper's rates has the same sign; its code starts u at 0 too. \n",
        variants(e),
        "Differences on EURLex-4.3K have no such reading: documents, features and classes are others.\n",
        provenance("python eval/papers.py unbiased-softmax"),
    ]
    file.write_text("\n".join(parts))

"""Tables and pictures of papers_unbiased_softmax."""

from typing import Any

from eval.page import DASH, plotted, table
from eval.papers_unbiased_jobs import (
    BASELINE_SEEDS,
    BASELINES,
    FROM_LOG_K,
    KINDS,
    METHODS,
    OTHER_SETS,
    PAPER,
    PAPER_RATES,
    PUBLISHED,
    RELATIVE,
    SETS,
    SHARES,
    SMALL_SETS,
    SWEPT,
    UNCAPPED_RATES,
    VARIED,
    as_published,
    at_paper_rate_as_published,
    epochs_of,
    longer,
    one,
    rates_of,
    tuned,
    value,
)
from eval.records import Records


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
    return table(rows_of_results(name, at, records))


def other_results(at: str, records: Records) -> str:
    """The same of the sets without a table of their own."""
    return table(
        [{"data": name} | row for name in OTHER_SETS for row in rows_of_results(name, at, records)]
    )


def rows_of_results(name: str, at: str, records: Records) -> list[dict[str, str]]:
    """A row for each method that was measured."""
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
    return rows


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
    for name in SETS:
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
    for name in SETS:
        runs = {
            m: records.get(one(records, name, m, tuned(records, name, m))) or {} for m in METHODS
        }
        if not any(runs.values()):
            continue
        curves = {
            m: [p for p in result.get("curve", []) if p[1] is not None and p[1] < 100]
            for m, result in runs.items()
        }
        lines = [
            ([p[0] for p in curve], [p[1] for p in curve], {"marker": ".", "label": m})
            for m, curve in curves.items()
        ]
        panels.append((lines, {"title": name, "xlabel": "epochs", "yscale": "log"}))
    return plotted(4 * len(panels), 3.6, panels, ylabel="train log-loss") if panels else None


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
        if not any(rates for rates, _, _ in lines):
            continue
        about = {
            "title": f"{name}, share {share:g} of the rows",
            "xlabel": "learning rate",
            "xscale": "log",
            "yscale": "log",
        }
        panels.append((lines, about))
    if not panels:
        return None
    return plotted(
        5 * len(panels), 3.8, panels, ylabel=f"train log-loss after {epochs_of(records)} epochs"
    )

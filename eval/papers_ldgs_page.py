"""The page of papers_ldgs.py: targets, tables and pictures, all of it from the records."""

# ruff: noqa: E501 (prose)

import dataclasses
import json
import math
import statistics
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from papers_common import Records, provenance, table

CLAIMS = {
    "next-word": "",
    "faces": "Paper (MegaFace, figure 1): Decomp-MIPS and MIPS make steps one to two orders of magnitude faster than Margin; MIPS "
    "converges to an accuracy much lower than Decomp-MIPS; Softmax progresses much slower than Margin; Sampled-Softmax has fast "
    "steps, but less progress in all than the methods that search.",
    "documents": "Paper (WikiLSHTC, figure 2): per epoch Softmax progresses most, per time it is like Margin; Decomp-MIPS keeps "
    "Margin's progress per epoch at ten times its speed; MIPS falls clearly below; Sampled-Softmax does not come near within a "
    "day.",
}
TITLES = {"next-word": "Next word", "faces": "Faces", "documents": "Documents"}
WHAT = {
    "next-word": "Which word stands between five kept words to each side: from the standardised mean of their vectors (trained by "
    "`ns` on the same text without its held-out part), over all words seen five times. Test positions are in held-out pieces of "
    "1,000 tokens.",
    "faces": "Made-up unit vectors to the shape of MegaFace: families of alike identities, about seven images of each, the last one "
    "for test.",
    "documents": "EURLex-4.3K by a hidden layer of 100 numbers.",
}
SMALL = {"faces": 200_000, "documents": 300_000}  # labels of the targets
COLORS = {
    "softmax": "tab:blue",
    "sampled-softmax": "tab:green",
    "margin": "tab:orange",
    "mips": "tab:purple",
    "ldgs": "tab:red",
}
DASH = "–"


@dataclasses.dataclass(frozen=True)
class Plan:
    """What the page has to know of the experiments."""

    contenders: Mapping[str, Any]
    tasks: Mapping[str, Any]
    corpus: str


def best_rate(tried: Mapping[float, float]) -> float:
    """The rate that achieved most, of several the smallest."""
    return min(rate for rate, value in tried.items() if value == max(tried.values()))


def found(records: Records, **wanted: Any) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """(key, value) of the records whose keys hold all that is wanted."""
    keys = [(json.loads(text), value) for text, value in records.found.items()]
    return [(key, value) for key, value in keys if all(key.get(name) == want for name, want in wanted.items())]


def one(records: Records, **wanted: Any) -> dict[str, Any] | None:
    return next((value for _, value in found(records, **wanted)), None)


def curves(records: Records, section: str) -> dict[tuple[str, str], dict[str, Any]]:
    """The recorded curves by contender and optimizer."""
    return {(k["contender"], k["optimizer"]): v for k, v in found(records, section=section, what="curve")}


def number(x: float | None, digits: int = 3) -> str:
    return DASH if x is None else f"{x:.{digits}f}"


def short(x: float | None) -> str:
    """Three digits, of seconds."""
    return DASH if x is None else f"{x:.3g}" if x < 1000 else f"{x:,.0f}"


# ---- accuracy against time


def when(points: list[dict[str, float]], measure: str, level: float) -> float | None:
    """Seconds of training after which the measure first reached the level."""
    return next((point["seconds"] for point in points if point[measure] >= level), None)


def at_epoch(points: list[dict[str, float]], measure: str, epoch: float) -> float | None:
    return next((point[measure] for point in points if point["epochs"] == epoch), None)


def curve_table(records: Records, section: str, measure: str) -> str:
    """How good each contender ends, how fast it is, and when it reaches nine tenths of what the best one has."""
    runs = curves(records, section)
    finals = [run["final"][measure] for run in runs.values() if run["final"]]
    level = 0.9 * max(finals, default=0.0)
    epochs = sorted({p["epochs"] for run in runs.values() for p in run["points"] if p["epochs"] >= 1})
    shown = [epoch for epoch in epochs if epoch in (1.0, 3.0, 10.0)]
    measures = list(dict.fromkeys(name for run in runs.values() for name in run["final"] or ()))
    rows = []
    for (name, optimizer), run in runs.items():
        points, options = run["points"], run["options"]
        last = points[-1] if points else None
        cells = [f"`{name}`", optimizer, options["batch_size"], f"{options['learning_rate']:g}"]
        if last is None or run["final"] is None:
            rows.append([*cells, "diverged", *[DASH] * (len(measures) + len(shown) + 3)])
            continue
        cells += [short(last["examples"] / last["seconds"]), number(last["epochs"], 2), short(last["seconds"])]
        cells += [number(run["final"][each], 4) for each in measures]
        rows.append(
            [*cells, *(number(at_epoch(points, measure, epoch)) for epoch in shown), short(when(points, measure, level))]
        )
    head = [
        "contender",
        "optimizer",
        "batch",
        "rate",
        "examples/s",
        "epochs",
        "seconds",
        *(f"{each}, end" for each in measures),
    ]
    head += [f"{measure} after {epoch:g} epochs" for epoch in shown]
    return table([*head, f"seconds to {measure} {level:.3f}"], rows)


def facts_line(records: Records, section: str) -> str:
    facts = one(records, section=section, what="facts")
    if not facts:
        return ""
    return (
        f"{facts['rows']:,} training rows, {facts['test_rows']:,} test rows, {facts['features']:,} features, "
        f"{facts['labels']:,} labels, {facts['labels_seen']:,} of them in the training rows, {facts['labels_a_row']:.2f} a row; "
        f"the most frequent one is in {100 * facts['most_frequent']:.2f} % of the rows.\n"
    )


def rates_table(records: Records, section: str) -> str:
    """What each rate achieved on validation rows."""
    tried: dict[tuple[str, str], dict[float, float | None]] = {}
    for key, value in found(records, section=section, what="rate"):
        tried.setdefault((key["contender"], key["optimizer"]), {})[key["rate"]] = value["measure"]
    rates = sorted({rate for each in tried.values() for rate in each})
    rows = [
        [
            f"`{name}`",
            optimizer,
            *("diverged" if rate in each and each[rate] is None else number(each.get(rate)) for rate in rates),
        ]
        for (name, optimizer), each in tried.items()
    ]
    return table(["contender", "optimizer", *(f"{rate:g}" for rate in rates)], rows)


def section_part(records: Records, section: str, plan: Plan, picture: str | None) -> str:
    """A section's part of the page; empty if nothing was measured."""
    if not curves(records, section):
        return ""
    measure = plan.tasks[section].measure
    text = f" Text: {plan.corpus}." if section == "next-word" else ""
    parts = [
        f"## {TITLES[section]}\n\n{WHAT[section]}{text} {facts_line(records, section)}",
        f"{CLAIMS[section]}\n" if CLAIMS[section] else "",
        f"![{measure} against time]({picture})\n" if picture else "",
        curve_table(records, section, measure),
        "Between legs the measure is taken on some of the test rows, at the end on all. Seconds are of training alone; a curve ends at its last "
        "epoch, or where the next leg would have taken too long (`--seconds`, other runs other limits). Rates, by "
        f"{plan.tasks[section].tuned_by} on validation rows after once through {100 * plan.tasks[section].tuned_on:g} % of the rows, or as much of them as time allowed:\n",
        rates_table(records, section),
    ]
    return "\n".join(filter(None, parts))


# ---- time per example


class Speed(NamedTuple):
    """What a contender takes, with the batch that is its best: medians over turns."""

    an_example: float  # seconds
    once: float
    batch: int
    turns: int


def speeds(records: Records, section: str, n_labels: int, threads: int) -> dict[str, Speed]:
    """Of each contender."""
    turns: dict[tuple[str, int], list[dict[str, Any]]] = {}
    for key, value in found(records, section="speed", what=section, labels=n_labels, threads=threads):
        turns.setdefault((key["contender"], key["batch"]), []).append(value)
    best: dict[str, Speed] = {}
    for (name, batch), values in turns.items():
        an_example, once = (statistics.median(value[each] for value in values) for each in ("seconds", "once"))
        if name not in best or an_example < best[name].an_example:
            best[name] = Speed(an_example, once, batch, len(values))
    return best


def speed_part(records: Records) -> str:
    """Tables of the time per example beside ldgs."""
    cases = {(k["what"], k["labels"], k["threads"]) for k, _ in found(records, section="speed")}
    parts = []
    for section, n_labels, threads in sorted(cases):
        found_here = speeds(records, section, n_labels, threads)
        own = found_here.get("ldgs")
        rows = [
            [f"`{name}`", each.batch, f"{1000 * each.an_example:.3f}", f"{each.once:.1f}",
             f"{each.an_example / own.an_example:.2f}" if own else DASH, each.turns]
            for name, each in found_here.items()
        ]  # fmt: skip
        head = ["contender", "batch", "milliseconds an example", "seconds once", "over `ldgs`", "turns"]
        title = f"{TITLES[section]}, {n_labels:,} labels, {threads} {'thread' if threads == 1 else 'threads'}:\n"
        parts += [title, table(head, rows)]
    if not parts:
        return ""
    return "## Time per example\n\nOn rows that already know the data, by plain SGD. Medians over the turns.\n\n" + "\n".join(
        parts
    )


# ---- recall


def recall_part(records: Records, picture: str | None) -> str:
    rows = [
        [
            k["data"],
            f"`{k['contender']}`",
            k["by"],
            k["blocks"],
            f"{100 * p['share']:g} %",
            number(p["recall"]),
            f"{p['found']:,.0f}",
        ]
        for k, value in found(records, section="recall")
        for p in value["by_share"]
    ]
    if not rows:
        return ""
    head = ["data", "trained by", "search", "blocks", "looked at in each", "share of the gradient", "rows found"]
    about = "The share of the exact gradient's mass, labels apart, that is on the rows found; on test rows. To look at a share of the "
    about += "rows in each block costs the same whatever the number of blocks.\n"
    return "\n".join(filter(None, ["## Recall", "", about, f"![recall]({picture})\n" if picture else "", table(head, rows)]))


# ---- targets


def verdict(what: str, is_met: bool, text: str | None) -> list[str]:
    """A line: what was asked for, and how it came out, if it was measured."""
    return [what, "not measured" if text is None else f"met: {text}" if is_met else f"**not met**: {text}"]


def faster(records: Records, section: str, against: str, factor: float, what: str) -> list[str]:
    """Whether ldgs takes so much less time per example, with all threads."""
    cases = [k for k, _ in found(records, section="speed", what=section, labels=SMALL[section], contender="ldgs")]
    there = speeds(records, section, SMALL[section], max(k["threads"] for k in cases)) if cases else {}
    both = "ldgs" in there and against in there
    ratio = there[against].an_example / there["ldgs"].an_example if both else None
    return verdict(what, ratio is not None and ratio >= factor, None if ratio is None else f"{ratio:.1f} times")


class Pair(NamedTuple):
    """A measure of two contenders after as many epochs."""

    first: float
    second: float
    epochs: float
    rows: int  # of the test, that it was taken on


def side_by_side(records: Records, section: str, names: tuple[str, str], measure: str) -> Pair | None:
    """After as many epochs as both have; on all test rows if both end there."""
    runs = [curves(records, section).get((name, "adagrad")) for name in names]
    if not all(run and run["final"] for run in runs):
        return None
    ends = [run["points"][-1]["epochs"] for run in runs]
    shared = max(set.intersection(*({point["epochs"] for point in run["points"]} for run in runs)))
    if ends == [shared, shared]:
        return Pair(runs[0]["final"][measure], runs[1]["final"][measure], shared, runs[0]["test_rows"])
    first, second = (at_epoch(run["points"], measure, shared) for run in runs)
    return Pair(first, second, shared, runs[0]["curve_rows"])


def beside(pair: Pair) -> str:
    """The two, and the standard error of a share of so many rows."""
    error = math.sqrt(pair.second * (1 - pair.second) / pair.rows)
    return f"{pair.first:.4f} beside {pair.second:.4f}, each ± {error:.4f}, after {pair.epochs:g} epochs"


def same_end(records: Records, section: str, measure: str) -> list[str]:
    """Whether ldgs comes within 1 % of the exact loss, taken with its best batch."""
    pair = side_by_side(records, section, ("ldgs", "margin, best batch"), measure)
    what = f"{TITLES[section].lower()}: `ldgs` ends within 1 % of exact `margin` in {measure}"
    return verdict(what, pair is not None and pair.first >= 0.99 * pair.second, pair and beside(pair))


def mips_below(records: Records, section: str, measure: str) -> list[str]:
    pair = side_by_side(records, section, ("mips", "ldgs"), measure)
    what = f"{TITLES[section].lower()}: `mips` looks at as many rows and ends lower"
    return verdict(what, pair is not None and pair.first < pair.second, pair and beside(pair))


def targets(records: Records, plan: Plan) -> str:
    """A line for each target."""
    rows = [
        faster(
            records, "faces", "margin", 10, "200,000 faces: `ldgs` 10 times faster an example than exact `margin`, batch 10"
        ),
        faster(records, "faces", "margin, best batch", 3, "200,000 faces: 3 times faster than with its best batch"),
        faster(records, "documents", "margin", 10, "300,000 labels of documents: 10 times faster, batch 10"),
    ]
    for section in ("next-word", "faces", "documents"):
        measure = plan.tasks[section].measure
        rows += [same_end(records, section, measure), mips_below(records, section, measure)]
    return table(["target", "result"], rows)


# ---- pictures


def draw_curves(records: Records, section: str, measure: str, file: Path) -> str | None:
    """Accuracy against seconds of training; the file's name, None if there is nothing to draw."""
    drawn = [(name, run["points"]) for (name, _), run in curves(records, section).items() if run["points"]]
    if not drawn:
        return None
    pyplot = plots()
    figure, axes = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for (name, optimizer), run in curves(records, section).items():
        style = {
            "color": COLORS.get(name.split(",")[0]),
            "ls": "--" if "," in name else "-",
            "marker": "." if optimizer == "adagrad" else "x",
        }
        label = name if optimizer == "adagrad" else f"{name}, {optimizer}"
        for axis, x in zip(axes, ("seconds", "epochs"), strict=True):
            axis.plot([p[x] for p in run["points"]], [p[measure] for p in run["points"]], label=label, **style)
    axes[0].set(xscale="log", xlabel="seconds of training", ylabel=f"test {measure}", title=TITLES[section])
    axes[1].set(xscale="log", xlabel="epochs")
    axes[0].legend(fontsize=7)
    return saved(figure, file)


def draw_recall(records: Records, file: Path) -> str | None:
    """Recall against the share of rows looked at, a panel for each classifier."""
    panels: dict[tuple[str, str], list[tuple[dict[str, Any], dict[str, Any]]]] = {}
    for key, value in found(records, section="recall"):
        panels.setdefault((key["data"], key["contender"]), []).append((key, value))
    if not panels:
        return None
    figure, axes = plots().subplots(1, len(panels), figsize=(4 * len(panels), 3.6), sharey=True, squeeze=False)
    for axis, ((data, name), lines) in zip(axes[0], panels.items(), strict=True):
        for key, value in lines:
            points = value["by_share"]
            style = "-" if key["by"] == "best rows" else "--"
            label = f"{key['blocks']} blocks, {key['by']}"
            axis.plot([p["share"] for p in points], [p["recall"] for p in points], style, marker=".", label=label)
        axis.set(xscale="log", xlabel="share of the rows looked at in each block", title=f"{data}, {name}")
        axis.legend(fontsize=7)
    axes[0][0].set_ylabel("share of the gradient found")
    return saved(figure, file)


def plots() -> Any:
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    return pyplot


def saved(figure: Any, file: Path) -> str:
    figure.tight_layout()
    figure.savefig(file, dpi=70)
    plots().close(figure)
    return file.name


# ---- the page

HEAD = """# Yen et al. 2018, loss decomposition for large output spaces

The paper prints curves and no numbers, on data of its own (MegaFace, WikiLSHTC; 10 and 24 cores, more than a day); what can be
compared are its orderings. `margin` is its smoothed max-margin loss over all labels, `mips` and `ldgs` (its Decomp-MIPS) take the
gradient on rows found by search, `sampled-softmax` on a hundredth of the labels drawn evenly. Batches have 10 examples as in the
paper; the exact losses are measured beside that with the batch that suits matrix products best. Rates are chosen for each
contender and stay as they are by adagrad; by `sgd` they fall by 1/(1 + epochs).

## Targets

These are ours, not the paper's.
"""


def write(records: Records, file: Path, plan: Plan, more: Sequence[str] = ()) -> None:
    """Write the page and its pictures; `more` are parts that others made."""
    parts = [HEAD, targets(records, plan)]
    for section in TITLES:
        picture = draw_curves(records, section, plan.tasks[section].measure, file.with_name(f"{file.stem}-{section}.png"))
        parts.append(section_part(records, section, plan, picture))
    parts += [speed_part(records), *more]
    parts.append(recall_part(records, draw_recall(records, file.with_name(f"{file.stem}-recall.png"))))
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("\n".join(filter(None, parts)) + "\n" + provenance("python eval/papers.py ldgs"))

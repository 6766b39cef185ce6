"""The page that `speed.py classification` writes: a table for each section and what follows from them, from the raw records."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from speed_page import table
from speed_records import Records

MEGABYTE = 1e6
MARGIN = 0.005  # how far below another's P@1 and P@5 still counts as as accurate
TREES = ("omikuji", "napkinXC", "PECOS")
PRECISIONS = ("p@1", "p@3", "p@5")
MULTI_LABEL = {"eurlex": "EURLex-4.3K", "bibtex": "Bibtex"}


@dataclasses.dataclass(frozen=True)
class Row:
    """A contender's medians over its turns."""

    name: str
    tool: str
    runs: int
    values: dict[str, float]
    used: dict[str, Any]
    versions: set[str]
    error: str | None = None  # the last one, if no turn succeeded

    def __getitem__(self, measure: str) -> float:
        return self.values[measure]

    @property
    def is_ours(self) -> bool:
        return self.tool.startswith("embedx")


def rows_of(records: Records, **wanted: Any) -> list[Row]:
    """A row for each contender, in the order in which they were first measured."""
    groups: dict[str, list[dict[str, Any]]] = {}
    for record in records.find(**wanted):
        groups.setdefault(record["job"]["name"], []).append(record)
    return [row_of(name, group) for name, group in groups.items()]


def row_of(name: str, group: Sequence[dict[str, Any]]) -> Row:
    results = [record["result"] for record in group if "error" not in record["result"]]
    tool = str(group[0]["job"]["tool"])
    if not results:
        return Row(name, tool, 0, {}, {}, set(), error=group[-1]["result"]["error"])
    numbers = [key for key, value in results[0].items() if isinstance(value, int | float)]
    values = {key: statistics.median(result[key] for result in results) for key in numbers}
    versions = {result["version"] for result in results if "version" in result}
    return Row(name, tool, len(results), values, results[-1]["used"], versions)


def measured(rows: Iterable[Row]) -> list[Row]:
    return [row for row in rows if row.runs]


# ---- the page


def page(records: Records, pictures: dict[str, Path]) -> str:
    """The whole page, in Markdown."""
    lines = ["# Classifiers beside label trees, fastText and scikit-learn", "", *about(records), ""]
    missing = []
    for title, write in SECTIONS.items():
        if text := write(records, pictures):
            lines += [f"## {title}", "", *text, ""]
        else:
            missing.append(title)
    if missing:
        lines += [f"Not measured: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def about(records: Records) -> list[str]:
    """What was measured, where and when."""
    environment = records.environment
    ended = sorted(record["ended"] for record in records.records)
    times = " to ".join(when[:16].replace("T", " ") for when in (ended[0], ended[-1])) + " UTC" if ended else "nothing"
    versions = dict(environment["versions"])
    for record in records.records:
        if "version" in record["result"]:
            tool = record["job"]["tool"]
            versions["scikit-learn" if tool in ("LinearSVC", "LogisticRegression") else tool] = record["result"]["version"]
    machine = environment["machine"]
    lines = [
        *(f"    {command}" for command in records.commands),
        "",
        f"- measured: {times}",
        f"- machine: {machine['cpu']}, {machine['cores']} usable cores, {machine['system']}",
        "- versions: " + ", ".join(f"{name} {version}" for name, version in versions.items())
        + f" (sources of embedx {', '.join(sorted(records.sources))})",
        "- data: " + ", ".join(f"{name} (sha256 {digest}…)" for name, digest in environment["data"]["sha256"].items()),
        "",
        "Each measurement is a process of its own, contenders take turns, numbers are medians. Imports are not timed, nor is",
        "the loading of embedx's compiled kernels. A contender's settings stand below its table, as they were used.",
    ]  # fmt: skip
    if environment["data"]["quick"]:
        lines += ["", "**A trial run on a few rows: it shows that everything runs, its numbers mean nothing.**"]
    if len(records.sources) > 1:
        lines += ["", "**embedx was edited between these measurements; they speak of several states of it.**"]
    return lines


# ---- several labels for each row


def section_eurlex(records: Records, pictures: dict[str, Path]) -> list[str]:
    text = several_labels(records, "eurlex")
    if text and "eurlex" in pictures:
        text += ["", f"![P@5 against seconds of training]({pictures['eurlex'].name})"]
    return text


def several_labels(records: Records, dataset: str) -> list[str]:
    """Table, settings and what follows; nothing if nothing was measured."""
    rows = rows_of(records, dataset=dataset)
    if not rows:
        return []
    threads = records.find(dataset=dataset)[0]["job"]["threads"]
    head = ["", "runs", "s reading", "s training", "s predicting", "model, MB", *(name.upper() for name in PRECISIONS)]
    unit = "" if dataset == "eurlex" else " Rows are brought to length 1 for all, as omikuji and napkinXC do by themselves."
    return [
        f"{MULTI_LABEL[dataset]}, {threads} threads.{unit}",
        "Reading (each tool's own format: plain text or, for napkinXC, PECOS and scikit-learn, matrices on disk) is not part",
        "of training; clustering of labels is. Predicting: the five best labels of each test row. fastText sees a bag of",
        "words, the word `fNNN` for each feature: it has no way to take a feature's value. omikuji's Python interface",
        "predicts one row at a time, so its seconds hold a Python call for each row.",
        "",
        *table(head, (multi_row(row) for row in rows)),
        "",
        *settings_of(rows),
        "",
        *findings(measured(rows)),
    ]


def multi_row(row: Row) -> list[str]:
    if row.error is not None:
        return [row.name, "0", f"failed: {row.error.replace('|', '/')}", *[""] * 6]
    seconds = [f"{row[name]:.2f}" for name in ("reading", "training", "prediction")]
    return [row.name, str(row.runs), *seconds, f"{row['size'] / MEGABYTE:,.1f}", *(f"{row[name]:.4f}" for name in PRECISIONS)]


def settings_of(rows: Iterable[Row]) -> list[str]:
    """The settings of each contender, a line each."""
    lines = ["Settings; what is not named is the tool's default:", ""]
    for row in measured(rows):
        told = ", ".join(
            f"{name} {value:g}" if isinstance(value, float) else f"{name} {value}" for name, value in row.used.items()
        )
        lines.append(f"- {row.name}: {told}")
    return lines


def as_accurate(row: Row, other: Row) -> bool:
    return all(row[name] >= other[name] - MARGIN for name in ("p@1", "p@5"))


def fastest_as_accurate(rows: Iterable[Row], other: Row) -> Row | None:
    """The contender of embedx that trains fastest among those as accurate."""
    return min((row for row in rows if row.is_ours and as_accurate(row, other)), key=lambda row: row["training"], default=None)


def findings(rows: Sequence[Row]) -> list[str]:
    """Each peer beside the fastest embedx that is as accurate, and where the trees win."""
    peers = [row for row in rows if not row.is_ours]
    if not peers or len(peers) == len(rows):
        return []
    lines = [f"At a peer's accuracy (P@1 and P@5 at most {MARGIN} below its), the embedx above that trains fastest:", ""]
    lines += [f"- {compared(rows, peer)}" for peer in peers]
    trees = [row for row in peers if row.tool in TREES]
    if trees:
        lines += ["", *(trees_win(rows, tree) for tree in trees)]
    return lines


def compared(rows: Sequence[Row], peer: Row) -> str:
    scores = f"**{peer.name}** ({reached(peer)})"
    ours = fastest_as_accurate(rows, peer)
    if ours is None:
        best = max((row for row in rows if row.is_ours), key=lambda row: row["p@5"])
        return f"{scores}: no embedx above is as accurate; the best, {best.name}, has {reached(best)}."
    return (
        f"{scores}: {ours.name} takes {times(ours['training'], peer['training'])} its training time, "
        f"{times(ours['prediction'], peer['prediction'])} its time of prediction, {times(ours['size'], peer['size'])} its size."
    )


def reached(row: Row) -> str:
    return f"P@1 {row['p@1']:.4f}, P@5 {row['p@5']:.4f}"


def times(ours: float, theirs: float) -> str:
    return f"{ours / theirs:.2g} ×" if theirs > 0 else "(not comparable)"


def trees_win(rows: Sequence[Row], tree: Row) -> str:
    """In what a label tree beats the fastest embedx that is as accurate as it, said plainly."""
    ours = fastest_as_accurate(rows, tree)
    if ours is None:
        return f"{tree.name} wins in accuracy: no embedx above reaches it."
    measures = {"training": "training time", "prediction": "time of prediction", "size": "size of the model"}
    won = [f"{said} ({times(ours[name], tree[name])} for embedx)" for name, said in measures.items() if tree[name] < ours[name]]
    if not won:
        return f"{tree.name} wins in nothing measured here over {ours.name}."
    return f"{tree.name} wins over {ours.name} in {' and '.join(won)}."


# ---- small data


def section_small(records: Records, pictures: dict[str, Path]) -> list[str]:
    text: list[str] = []
    head = ["", "runs", "s training", "s predicting", "iterations", "accuracy", "log-likelihood"]
    for dataset, title in (("mnist", "MNIST (pixels divided by 255)"), ("bibtex-first", "Bibtex, the first label of each row")):
        rows = rows_of(records, dataset=dataset)
        if rows:
            text += [f"{title}:", "", *table(head, (single_row(row) for row in rows)), "", *settings_of(rows), ""]
            text += [*single_findings(measured(rows)), ""]
    if text:
        text = [
            "Multinomial logistic regression with the same penalty, l2/2 · |W|² beside the mean loss, which is",
            "C = 1 / (l2 · rows) for scikit-learn; intercepts are free. The log-likelihood is a mean over test rows whose",
            "label occurs in training; the accuracy counts all.",
            "",
            *text,
        ]
    return text + several_labels(records, "bibtex")


def single_row(row: Row) -> list[str]:
    if row.error is not None:
        return [row.name, "0", f"failed: {row.error.replace('|', '/')}", *[""] * 4]
    iterations = f"{row['iterations']:.0f}" if "iterations" in row.values else ""
    seconds = [f"{row[name]:.2f}" for name in ("training", "prediction")]
    return [row.name, str(row.runs), *seconds, iterations, f"{row['accuracy']:.4f}", f"{row['log_likelihood']:.4f}"]


def single_findings(rows: Sequence[Row]) -> list[str]:
    theirs = next((row for row in rows if not row.is_ours), None)
    if theirs is None:
        return []
    return [
        f"- {row.name} takes {times(row['training'], theirs['training'])} the training time of {theirs.name}; accuracy "
        f"{row['accuracy'] - theirs['accuracy']:+.4f}, log-likelihood {row['log_likelihood'] - theirs['log_likelihood']:+.4f}."
        for row in rows
        if row.is_ours
    ]


# ---- scaling

Curve = tuple[str, int, str, int]  # objective, draws (0: none), optimizer, threads


def curves_of(records: Records) -> dict[Curve, dict[int, Row]]:
    """For each way to train, by the number of labels."""
    groups: dict[Curve, dict[int, list[dict[str, Any]]]] = {}
    for record in records.find(section="scaling"):
        job = record["job"]
        curve = (job["objective"], job["options"].get("negatives", 0), job["options"]["optimizer"], job["threads"])
        groups.setdefault(curve, {}).setdefault(job["labels"], []).append(record)
    rows = {curve: {k: row_of(str(k), group) for k, group in by.items()} for curve, by in groups.items()}
    return {curve: found for curve, by in rows.items() if (found := {k: row for k, row in by.items() if row.runs})}


def called(curve: Curve) -> str:
    objective, draws, *_ = curve
    return f"{objective}, {draws} draws" if draws else objective


def section_scaling(records: Records, pictures: dict[str, Path]) -> list[str]:
    curves = curves_of(records)
    if not curves:
        return []
    job = records.find(section="scaling")[0]["job"]
    labels = sorted({k for by in curves.values() for k in by})
    head = ["", "optimizer", "threads", *(f"{k:,}" for k in labels)]
    rows = [
        [called(curve), curve[2], str(curve[3]), *(f"{by[k]['microseconds']:.2f}" if k in by else "" for k in labels)]
        for curve, by in sorted(curves.items(), key=lambda item: (item[0][3], item[0][2]))
    ]
    text = [
        f"Microseconds for each example by the number of labels: random dense features, {job['features']} of them, one label a",
        "row drawn uniformly, the sampler `uniform`. The first visit of a row's memory counts. The exact softmax sees fewer",
        "examples where labels are many. The tree of hs is built from the labels seen, so its paths grow with them alone.",
        "",
        *table(head, rows),
        "",
        "Rows touched and floating-point operations for each example, computed from the candidates: for each number of a row",
        "(the bias is one) 2 for the score, 2 for the gradient, and 2 (sgd) or 6 (adagrad) for the step, which the examples of",
        "a minibatch share in the exact softmax.",
        "",
        *table(["", "optimizer", *(f"{k:,} labels" for k in labels)], work_rows(curves, labels)),
        "",
        *scaling_findings(curves),
    ]
    if "scaling" in pictures:
        text += ["", f"![time for each example against the number of labels]({pictures['scaling'].name})"]
    return text


def work_rows(curves: dict[Curve, dict[int, Row]], labels: Sequence[int]) -> list[list[str]]:
    """Rows touched and FLOPs; the same for any number of threads."""
    seen: dict[tuple[str, str], list[str]] = {}
    for curve, by in curves.items():
        cells = [f"{by[k]['rows']:,.1f} rows, {by[k]['flops']:,.0f} FLOP" if k in by else "" for k in labels]
        seen.setdefault((called(curve), curve[2]), cells)
    return [[*key, *cells] for key, cells in seen.items()]


def scaling_findings(curves: dict[Curve, dict[int, Row]]) -> list[str]:
    """How time grows with the labels, and the gain over the exact softmax where both were measured."""
    lines = []
    for curve, by in curves.items():
        few, many = min(by), max(by)
        if few == many or curve[2:] != ("adagrad", 1):
            continue
        growth = by[many]["microseconds"] / by[few]["microseconds"]
        line = f"- {called(curve)}, adagrad, one thread: {growth:.2g} × the time for {many / few:,.0f} × the labels"
        exact = curves.get(("softmax", 0, *curve[2:]), {})
        shared = max((k for k in exact if k in by), default=None)
        if curve[0] != "softmax" and shared is not None:
            gain = exact[shared]["microseconds"] / by[shared]["microseconds"]
            line += f"; at {shared:,} labels the exact softmax takes {gain:,.3g} × its time"
        lines.append(line + ".")
    return lines


SECTIONS: dict[str, Callable[[Records, dict[str, Path]], list[str]]] = {
    "EURLex-4.3K": section_eurlex,
    "Small data": section_small,
    "Time for each example against the number of labels": section_scaling,
}


# ---- the pictures


def plots(records: Records, page_file: Path) -> dict[str, Path]:
    """By section, beside the page; nothing without matplotlib or where nothing was measured."""
    try:
        import matplotlib
    except ImportError:
        return {}
    matplotlib.use("Agg")
    page_file.parent.mkdir(parents=True, exist_ok=True)
    drawn = {}
    for name, draw in (("eurlex", plot_eurlex), ("scaling", plot_scaling)):
        file = page_file.with_name(f"{page_file.stem}-{name}.png")
        if draw(records, file):
            drawn[name] = file
    return drawn


def plot_eurlex(records: Records, file: Path) -> bool:
    """P@5 against seconds of training."""
    from matplotlib import pyplot

    rows = measured(rows_of(records, dataset="eurlex"))
    if not rows:
        return False
    figure, axes = pyplot.subplots(figsize=(9, 5.5), layout="constrained")
    for number, row in enumerate(rows):
        marker = "o" if row.is_ours else "s"
        axes.scatter(
            row["training"], row["p@5"], marker=marker, color=f"C{number % 10}", s=60, edgecolor="black", label=row.name
        )
    axes.set_xscale("log")
    axes.set_xlabel("seconds of training")
    axes.set_ylabel("P@5")
    axes.grid(visible=True, which="both", alpha=0.3)
    axes.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False, title="circles: embedx")
    figure.savefig(file, dpi=90)
    pyplot.close(figure)
    return True


def plot_scaling(records: Records, file: Path) -> bool:
    """Microseconds for each example against the number of labels, one thread, both optimisers."""
    from matplotlib import pyplot

    curves = {curve: by for curve, by in curves_of(records).items() if curve[3] == 1}
    if not curves:
        return False
    names = list(dict.fromkeys(called(curve) for curve in curves))
    optimizers = list(dict.fromkeys(curve[2] for curve in curves))
    figure, panels = pyplot.subplots(1, len(optimizers), figsize=(10, 4.8), sharey=True, squeeze=False, layout="constrained")
    for axes, optimizer in zip(panels[0], optimizers, strict=True):
        for curve, by in curves.items():
            if curve[2] == optimizer:
                places = sorted(by)
                axes.plot(
                    places, [by[k]["microseconds"] for k in places], marker="o", label=called(curve),
                    color=f"C{names.index(called(curve))}",
                )  # fmt: skip
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_title(f"{optimizer}, one thread")
        axes.set_xlabel("labels")
        axes.grid(visible=True, alpha=0.3)
    panels[0][0].set_ylabel("microseconds for each example")
    panels[0][-1].legend(fontsize="small")
    figure.savefig(file, dpi=90)
    pyplot.close(figure)
    return True

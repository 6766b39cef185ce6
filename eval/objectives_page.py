"""The page that `objectives.py` writes: three tables in the order of the registry, what follows from them, and a picture."""

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from speed_page import MEGABYTE, Target, circumstances, plural, table, thousands
from speed_records import Records

from embedx import objectives
from embedx.evaluation.heldout import Difference
from embedx.evaluation.words import shown

Record = dict[str, Any]
Runs = dict[str, Record]  # by objective, in the order of the registry

PARTS = {"time": "Equal time", "epochs": "Equal epochs", "exact": "Beside the exact softmax", "rows": "Equal rows"}
REFERENCE, EXACT = "ns", "softmax"
REPORTED = {"WordSim-353": "spearman", "SimLex-999": "spearman", "Google analogies": "accuracy"}
TUNED_ON = ("MTurk-287", "RG-65")
MISSING = "-"

# What was promised of the defaults.
WORDSIM = 0.60  # after so many epochs:
PROMISED_EPOCHS = 5
WORDSIM_OF = ("ns", "hs", "sampled-softmax", "nce", "ove", "ar", "umax", "implicit")
SLOWER = {"ar-probit": 3.0, "implicit": 3.0, "hs": 2.5}  # at most so many times as slow as the reference at as many rows;
SLOWER_OTHERS = 1.5
LIKELIER = ("ar", "umax", "implicit")  # one of these is to find the held-out text likelier at equal time than each of:
LESS_LIKELY = ("ns", "nce", "ove", "sampled-softmax")


def meets_all_rows(objective: str) -> bool:
    """Whether an objective is made to meet every row, so that it is measured only where the vocabulary is small."""
    return objectives.find(objective).samplers[0] == "all"


# ---- what the records say


def newest(records: Records, part: str) -> Runs:
    """The last run of each objective, with the options of the part's last run; those differ by objective in the part `rows`."""
    found = records.find(part=part)
    if not found:
        return {}
    options = found[-1]["job"]["options"]
    last = {run["job"]["objective"]: run for run in found if part == "rows" or run["job"]["options"] == options}
    return {name: last[name] for name in objectives.OBJECTIVES if name in last}


def finished(runs: Runs) -> Runs:
    """Those that did not diverge."""
    return {name: run for name, run in runs.items() if "diverged" not in run["result"]}


def paired(a: Record | None, b: Record | None) -> Difference | None:
    """How much likelier the first run finds the same pairs, as `embedx.evaluation.heldout.compare` has it, from the sums of the
    groups; None where one is missing or diverged, or the pairs are others.
    """
    if a is None or b is None or "diverged" in a["result"] or "diverged" in b["result"]:
        return None
    ours, theirs = a["result"]["heldout"], b["result"]["heldout"]
    if ours["sizes"] != theirs["sizes"]:
        return None
    gains, sizes = np.subtract(ours["sums"], theirs["sums"]), np.array(ours["sizes"])
    mean = gains.sum() / sizes.sum()
    left, n = gains - sizes * mean, len(sizes)
    error = math.sqrt(n / (n - 1) * float(left @ left)) / sizes.sum() if n > 1 else math.nan
    return Difference(float(mean), float(error))


def share_of_gap(run: Record, exact: Record) -> float | None:
    """(LL - unigram) / (LL of the exact softmax - unigram); None where the exact softmax leaves no gap to close."""
    ours, best = run["result"]["heldout"], exact["result"]["heldout"]
    gap = best["log_likelihood"] - best["unigram"]
    return float((ours["log_likelihood"] - ours["unigram"]) / gap) if gap > 0 else None


def log_likelihood(run: Record) -> float:
    return float(run["result"]["heldout"]["log_likelihood"])


def likeliest(runs: Runs, among: Iterable[str] | None = None) -> str | None:
    """The objective under which the held-out text is likeliest."""
    found = finished(runs)
    names = [name for name in (found if among is None else among) if name in found]
    return max(names, key=lambda name: log_likelihood(found[name]), default=None)


# ---- the page


def page(records: Records, picture: Path | None) -> str:
    """The whole page, in Markdown."""
    parts = {part: newest(records, part) for part in PARTS}
    lines = ["# Objectives of skip-gram, side by side", "", *about(records), ""]
    if told := findings(parts):
        lines += ["## What follows", "", *(f"- {line}" for line in told), ""]
    if kept := targets(parts):
        lines += ["## Targets", "", *table(["target", "measured", ""], (target.row() for target in kept)), ""]
    if picture:
        lines += [f"![log-likelihood by words per second, word similarity by log-likelihood]({picture.name})", ""]
    for part, runs in parts.items():
        if runs:
            lines += [f"## {PARTS[part]}", "", *SECTIONS[part](runs), ""]
    if missing := [PARTS[part] for part, runs in parts.items() if not runs]:
        lines += [f"Not measured: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def about(records: Records) -> list[str]:
    """What was measured, where, when and how."""
    lines = [
        *circumstances(records),
        "- runs: one each",
        "",
        "Each row is `embedx train CORPUS --objective X` with the options told above its table and no others: the",
        "defaults of embedx for that objective. The log-likelihood is the mean exact log-probability of held-out (input,",
        "target) pairs, in nats, under the model's own probabilities, with its standard error by pieces of text; beside",
        "it the same after fitting a temperature T to other held-out pairs. Differences are over the same pairs. MB: the",
        "most memory that was resident until training ended, file-backed pages included. Words/s: words of the corpus",
        "trained per second. The defaults were tuned on the first 10 MB of the corpus by held-out log-likelihood and the",
        "two sets in the last columns only.",
    ]  # fmt: skip
    if records.environment["corpus"]["quick"]:
        lines += ["", "**A trial run on a few words: it shows that everything runs, its numbers mean nothing.**"]
    if len(records.sources) > 1:
        lines += ["", "**embedx was edited between these measurements; they speak of several states of it.**"]
    return lines


# ---- tables


def section_full(runs: Runs) -> list[str]:
    """The table of a part whose vocabulary is the full one."""
    left_out = ", ".join(f"`{name}`" for name in objectives.OBJECTIVES if meets_all_rows(name))
    text = f"{left_out} meet every row by design and are left out: the vocabulary has {n_words(runs)} words."
    head, rows = scores(runs, {f"minus {REFERENCE}": lambda run: minus(run, runs.get(REFERENCE))})
    return [*conditions(runs), text, "", *table(head, rows)]


def section_exact(runs: Runs) -> list[str]:
    """The table of the small vocabulary, where the exact softmax can be had."""
    exact = finished(runs).get(EXACT)

    def gap(run: Record) -> str:
        share = share_of_gap(run, exact) if exact else None
        return MISSING if share is None else f"{100 * share:.1f} %"

    more = {
        "share of the gap": gap,
        f"minus {EXACT}": lambda run: minus(run, exact),
        f"minus {REFERENCE}": lambda run: minus(run, runs.get(REFERENCE)),
    }
    text = [
        f"The last 10 MB of the corpus, {n_words(runs)} words. The share of the gap closed is (LL - unigram) / (LL of the",
        "exact softmax - unigram).",
    ]
    return [*conditions(runs), *text, "", *table(*scores(runs, more))]


def section_rows(runs: Runs) -> list[str]:
    """Words per second where each objective meets as many rows as the reference."""
    reference = finished(runs).get(REFERENCE)
    rows = []
    for name, run in runs.items():
        result = run["result"]
        if "diverged" in result:
            rows.append([f"`{name}`", *[MISSING] * 4, "diverged"])
            continue
        settings = result["settings"]
        drawn = [str(settings[key]) if settings["draws"] else MISSING for key in ("negatives", "share", "draws")]
        slower = f"{ratio(reference, run):.2f}" if reference else MISSING
        rows.append([f"`{name}`", *drawn, thousands(result["words_per_second"]), slower])
    text = [
        f"Words per second of one epoch with the negatives, `--share` and `--draws` of `{REFERENCE}`, typed where an objective",
        "takes them; the rest is each objective's own. For speed alone; nothing is scored.",
    ]
    return [*text, "", *table(["objective", "negatives", "share", "draws", "words/s", f"{REFERENCE} is × as fast"], rows)]


SECTIONS: dict[str, Callable[[Runs], list[str]]] = {
    "time": section_full, "epochs": section_full, "exact": section_exact, "rows": section_rows,
}  # fmt: skip


def conditions(runs: Runs) -> list[str]:
    """The options typed, and what is the same for all."""
    options = next(iter(runs.values()))["job"]["options"]
    typed = " ".join(f"--{name.replace('_', '-')} {value}" for name, value in options.items())
    found = [run["result"]["heldout"] for run in finished(runs).values()]
    if not found:
        return [f"`{typed}`.", ""]
    held = found[0]
    pairs = f"{held['n_pairs']:,} held-out pairs from {held['n_groups']} pieces"
    return [f"`{typed}`; {pairs}, whose log-probability is {held['unigram']:.3f} under the unigram model.", ""]


def n_words(runs: Runs) -> str:
    return next((f"{run['result']['words']:,}" for run in finished(runs).values()), "?")


def scores(runs: Runs, more: dict[str, Callable[[Record], str]]) -> tuple[list[str], list[list[str]]]:
    """The head and the rows of a table of likelihood, word tests and speed; `more` columns follow the log-likelihood."""
    after = ["after temperature", "T", *REPORTED, "words/s", "s", "epochs", "MB", "loss", *(f"tuned on: {t}" for t in TUNED_ON)]
    rows = []
    for name, run in runs.items():
        if "diverged" in run["result"]:
            rows.append([f"`{name}`", "diverged", *[MISSING] * (len(more) + len(after))])
            continue
        result, held = run["result"], run["result"]["heldout"]
        asked = [score(result["scores"].get(test), measure) for test, measure in REPORTED.items()]
        tuned = [score(result["scores"].get(test), "spearman") for test in TUNED_ON]
        rows.append([
            f"`{name}`", f"{held['log_likelihood']:.3f} ± {held['standard_error']:.3f}", *(cell(run) for cell in more.values()),
            number(held["calibrated"]), number(held["temperature"], 2), *asked, thousands(result["words_per_second"]),
            f"{result['seconds']:.0f}", f"{result['epochs']:.1f}", f"{result['peak_rss'] / MEGABYTE:,.0f}",
            number(result["loss"]), *tuned,
        ])  # fmt: skip
    return ["objective", "log-likelihood", *more, *after], rows


def number(value: float | None, digits: int = 3) -> str:
    if value is None or math.isnan(value):
        return MISSING
    return f"{value:.{digits}f}" if abs(value) < 1e5 else f"{value:.1e}"


def score(value: float | None, measure: str) -> str:
    return MISSING if value is None or math.isnan(value) else shown(measure, value)


def minus(run: Record, other: Record | None) -> str:
    return MISSING if run is other else difference(paired(run, other))


def difference(found: Difference | None) -> str:
    return MISSING if found is None else f"{found.log_likelihood:+.3f} ± {found.standard_error:.3f}"


def ratio(reference: Record, run: Record) -> float:
    """How many times as fast the reference is."""
    return float(reference["result"]["words_per_second"] / run["result"]["words_per_second"])


# ---- what follows


def findings(parts: dict[str, Runs]) -> list[str]:
    """What can be read off the tables, in sentences."""
    lines = []
    for part in ("time", "epochs", "exact"):
        runs, where = parts[part], PARTS[part].lower()
        if best := likeliest(runs):
            lines.append(f"{where}: the held-out text is likeliest under `{best}`, {log_likelihood(runs[best]):.3f}")
            lines.append(f"{where}: likelier than under `{REFERENCE}` by more than two standard errors: {ahead(runs)}")
        if lost := [f"`{name}`" for name in runs if name not in finished(runs)]:
            lines.append(f"{where}: diverged: {', '.join(lost)}")
    exact = finished(parts["exact"])
    if EXACT in exact:
        shares = {name: share_of_gap(run, exact[EXACT]) for name, run in exact.items()}
        order = sorted(((share, name) for name, share in shares.items() if share is not None), reverse=True)
        told = ", ".join(f"`{name}` {100 * share:.0f} %" for share, name in order)
        told = told or "none, for the exact softmax is below the unigram model"
        lines.append(f"{PARTS['exact'].lower()}: share of the gap closed, the largest first: {told}")
    return lines


def ahead(runs: Runs) -> str:
    """Who beats the reference by more than two standard errors."""
    found = {name: paired(run, runs.get(REFERENCE)) for name, run in runs.items() if name != REFERENCE}
    names = [f"`{name}`" for name, gain in found.items() if gain and gain.log_likelihood > 2 * gain.standard_error]
    return ", ".join(names) or "none"


def targets(parts: dict[str, Runs]) -> list[Target]:
    """What was promised, beside what came of it."""
    return [*word_similarity(parts["epochs"]), *speeds(parts["rows"]), *likelihoods(parts["time"])]


def word_similarity(runs: Runs) -> list[Target]:
    found = []
    for name in WORDSIM_OF:
        if name in runs and runs[name]["job"]["options"]["epochs"] == PROMISED_EPOCHS:
            promise = f"`{name}`: WordSim-353 at least {WORDSIM:.2f} after {PROMISED_EPOCHS} {plural(PROMISED_EPOCHS, 'epoch')}"
            result = runs[name]["result"]
            if "diverged" in result:
                found.append(Target(promise, "diverged", False))
            else:
                value = result["scores"]["WordSim-353"]
                found.append(Target(promise, score(value, "spearman"), value >= WORDSIM))
    return found


def speeds(runs: Runs) -> list[Target]:
    reference = finished(runs).get(REFERENCE)
    found = []
    for name, run in runs.items():
        if reference and name != REFERENCE:
            limit = SLOWER.get(name, SLOWER_OTHERS)
            promise = f"`{name}`: at equal rows at most {limit:g} × as slow as `{REFERENCE}`"
            if "diverged" in run["result"]:
                found.append(Target(promise, "diverged", False))
                continue
            slower = ratio(reference, run)
            found.append(Target(promise, f"{slower:.2f} ×", slower <= limit))
    return found


def likelihoods(runs: Runs) -> list[Target]:
    ours, theirs = likeliest(runs, LIKELIER), likeliest(runs, LESS_LIKELY)
    if ours is None or theirs is None:
        return []
    quoted = [", ".join(f"`{name}`" for name in names) for names in (LIKELIER, LESS_LIKELY)]
    gain = paired(runs[ours], runs[theirs])
    beside = f"; `hs` {log_likelihood(runs['hs']):.3f}" if "hs" in finished(runs) else ""
    values = f"`{ours}` {log_likelihood(runs[ours]):.3f}, `{theirs}` {log_likelihood(runs[theirs]):.3f}"
    measured = f"{values}, difference {difference(gain)}{beside}"
    met = log_likelihood(runs[ours]) > log_likelihood(runs[theirs])
    return [Target(f"at equal time one of {quoted[0]} is likelier than each of {quoted[1]}", measured, met)]


# ---- the picture


@dataclasses.dataclass(frozen=True)
class Point:
    """An objective in the picture."""

    name: str
    x: float
    y: float


def plot(records: Records, file: Path) -> Path | None:
    """Log-likelihood by words per second at equal time, WordSim by log-likelihood at equal epochs; None without matplotlib or
    without runs of both parts.
    """
    try:
        import matplotlib
    except ImportError:
        return None
    timed, passed = finished(newest(records, "time")), finished(newest(records, "epochs"))
    if not timed or not passed:
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (left, right) = pyplot.subplots(1, 2, figsize=(14, 6))
    figure.subplots_adjust(left=0.06, right=0.99, bottom=0.09, top=0.94, wspace=0.16)
    floors = [lowest_shown(runs) for runs in (timed, passed)]
    speed = {name: run["result"]["words_per_second"] / 1e6 for name, run in timed.items()}
    similarity = {name: run["result"]["scores"]["WordSim-353"] for name, run in passed.items()}
    left.set(title="equal time", xlabel="million words per second", ylabel="held-out log-likelihood, nats")
    right.set(title="equal epochs", xlabel="held-out log-likelihood, nats", ylabel="WordSim-353")
    scatter(left, [Point(name + beneath(run, floors[0]), speed[name], max(log_likelihood(run), floors[0]))
                   for name, run in timed.items()])  # fmt: skip
    scatter(right, [Point(name + beneath(run, floors[1]), max(log_likelihood(run), floors[1]), similarity[name])
                    for name, run in passed.items() if not math.isnan(similarity[name])])  # fmt: skip
    figure.savefig(file, dpi=110)
    pyplot.close(figure)
    return file


def lowest_shown(runs: Runs) -> float:
    """What is less likely is drawn here, lest one outlier press all others together: a little below the unigram model."""
    return float(next(iter(runs.values()))["result"]["heldout"]["unigram"] - 0.2)


def beneath(run: Record, floor: float) -> str:
    """The true value for the label of a point that is not drawn where it belongs."""
    return f" (at {log_likelihood(run):.2f})" if log_likelihood(run) < floor else ""


def scatter(axes: Any, points: Sequence[Point]) -> None:
    """The points, each with its name at the first place about it where no other point or name is."""
    axes.scatter([p.x for p in points], [p.y for p in points], zorder=3)
    axes.margins(0.12)
    axes.grid(alpha=0.3)
    axes.figure.draw_without_rendering()  # settles the scales
    renderer = axes.figure.canvas.get_renderer()
    places = [axes.transData.transform((p.x, p.y)) for p in points]
    inside = axes.get_window_extent(renderer)
    taken: list[Any] = []
    for point, place in zip(points, places, strict=True):
        for dx, dy in offsets():
            side = "left" if dx > 0 else "right" if dx < 0 else "center"
            label = axes.annotate(
                point.name, (point.x, point.y), (dx, dy), textcoords="offset points", ha=side, va="center", fontsize=9,
                arrowprops={"arrowstyle": "-", "alpha": 0.4} if max(abs(dx), abs(dy)) > 12 else None,
            )  # fmt: skip
            box = label.get_window_extent(renderer)
            fits = inside.contains(box.x0, box.y0) and inside.contains(box.x1, box.y1)
            free = not any(box.overlaps(other) for other in taken)
            if fits and free and not any(box.padded(6).contains(*other) for other in places if other is not place):
                taken.append(box)
                break
            label.remove()


def offsets() -> Iterable[tuple[float, float]]:
    """Places of a name about its point, in points of 1/72 inch, the nearest first."""
    for far in range(8, 160, 8):
        yield from ((far, 0), (-far, 0), (0, far), (0, -far), (far, far), (-far, far), (far, -far), (-far, -far))

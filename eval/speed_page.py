"""The page that `speed.py` writes: a table for each section, from the raw records alone, and every target beside its number."""

import dataclasses
import statistics
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from speed_records import (
    DEFAULT,
    MARGINS,
    Records,
    as_good,
    best_feed,
    differences,
    full_runs,
    headline,
    mean_scores,
    median,
    rate,
    tuned_gensim,
)

from embedx.evaluation.words import Difference, shown

MEGABYTE = 1e6
ALLOWANCE = 400e6  # bytes of memory beside matrices and vocabulary


@dataclasses.dataclass(frozen=True)
class Target:
    """What we promised, what was measured, and whether that keeps it."""

    promise: str
    measured: str
    met: bool

    def row(self) -> list[str]:
        return [self.promise, self.measured, "met" if self.met else "**not met**"]


@dataclasses.dataclass(frozen=True)
class Section:
    """A part of the page: Markdown, and the targets it speaks of."""

    text: list[str]
    targets: list[Target] = dataclasses.field(default_factory=list)


def page(records: Records, picture: Path | None) -> str:
    """The whole page, in Markdown."""
    parts = {title: write(records) for title, write in SECTIONS.items()}
    measured = {title: part for title, part in parts.items() if part}
    targets = [target for part in measured.values() for target in part.targets]
    lines = ["# Speed, quality and memory beside gensim", "", *about(records), ""]
    if targets:
        lines += ["## Targets", "", *table(["target", "measured", ""], (target.row() for target in targets)), ""]
    if picture:
        lines += [f"![words per second and quality]({picture.name})", ""]
    for title, part in measured.items():
        lines += [f"## {title}", "", *part.text, ""]
    if missing := [title for title, part in parts.items() if not part]:
        lines += [f"Not measured, or not completely: {', '.join(missing)}.", ""]
    return "\n".join(lines)


def circumstances(records: Records) -> list[str]:
    """What was measured, where and when."""
    environment = records.environment
    machine, corpus = environment["machine"], environment["corpus"]
    ended = sorted(record["ended"] for record in records.records)
    times = " to ".join(when[:16].replace("T", " ") for when in (ended[0], ended[-1])) + " UTC" if ended else "nothing"
    return [
        *(f"    {command}" for command in records.commands),
        "",
        f"- measured: {times}",
        f"- machine: {machine['cpu']}, {machine['cores']} usable cores, {machine['system']}",
        "- versions: " + ", ".join(f"{name} {version}" for name, version in environment["versions"].items())
        + f" (sources {', '.join(sorted(records.sources))})",
        f"- corpus: {corpus['name']}, {corpus['words']:,} words, {corpus['bytes'] / MEGABYTE:,.1f} MB unpacked",
    ]  # fmt: skip


def about(records: Records) -> list[str]:
    """The same, and how it was measured."""
    lines = circumstances(records)
    if runs := full_runs(records, DEFAULT):
        job = runs[0]["job"]
        told = ("dim", "window", "negatives", "sample", "min_count", "epochs")
        lines.append("- settings of all tools: " + ", ".join(f"{name.replace('_', '-')} {job[name]:g}" for name in told))
    if records.environment["corpus"]["quick"]:
        lines += ["", "**A trial run on a few words: it shows that everything runs, its numbers mean nothing.**"]
    if len(records.sources) > 1:
        lines += ["", "**embedx was edited between these measurements; they speak of several states of it.**"]
    return lines


# ---- training


def section_train(records: Records) -> Section | None:
    """Words per second, by thread count; the targets are judged at the setting of the headline."""
    runs = records.find(kind="train", purpose="full") + records.find(kind="train", purpose="speed")
    if not records.find(kind="train", purpose="full", tool="gensim") or not full_runs(records, DEFAULT):
        return None
    groups: dict[tuple[int, str], list[dict[str, Any]]] = {}
    for run in sorted(runs, key=lambda run: run["job"]["threads"]):
        groups.setdefault((run["job"]["threads"], name_of(run["job"])), []).append(run)
    rows = [training_row(records, threads, name, group) for (threads, name), group in groups.items()]
    head = ["threads", "tool", "runs × epochs", "words/s", "× gensim", "s before", "s training", "peak RSS, MB", *MARGINS]
    text = [
        "Words of the corpus × epochs / seconds of training, medians. Words per second do not depend on the number of epochs,",
        "so fewer threads are timed for one epoch, without scores. `s before` training: reading, counting, encoding, first",
        "parameters. `× gensim` is against gensim's fastest row at the same thread count. Peak memory counts file-backed pages",
        "too. gensim feeds its workers from a further thread, for which a single worker leaves a core free. Scores are means.",
        "",
        *table(head, rows),
        "",
        *feeds(records),
    ]
    return Section(text, training_targets(records))


def training_row(records: Records, threads: int, name: str, group: Sequence[dict[str, Any]]) -> list[str]:
    results = [run["result"] for run in group]
    speed = median_rate(records, group)
    gensim = gensim_rate(records, threads)
    scores = mean_scores(group) if all("scores" in result for result in results) else {}
    return [
        str(threads), name, f"{len(group)} × {group[0]['job']['epochs']}", thousands(speed),
        f"{speed / gensim:.2f}" if gensim else "", *(f"{median_of(results, key):.1f}" for key in ("before", "training")),
        f"{median_of(results, 'peak_rss') / MEGABYTE:,.0f}", *(score(test, scores.get(test)) for test in MARGINS),
    ]  # fmt: skip


def name_of(job: dict[str, Any]) -> str:
    """How a contender is called in tables."""
    if job["tool"] == "gensim":
        return f"gensim, {job['feed']}, rate {job['alpha']}" if job["purpose"] == "full" else f"gensim, {job['feed']}"
    return "fastText" if job["tool"] == "fasttext" else str(job["name"])


def median_rate(records: Records, runs: Iterable[dict[str, Any]]) -> float:
    return statistics.median(rate(run, records.environment["corpus"]["words"]) for run in runs)


def gensim_rate(records: Records, threads: int) -> float | None:
    """gensim's words per second: the median of its faster learning rate."""
    runs = [run for run in records.find(kind="train", tool="gensim", threads=threads) if run["job"]["purpose"] != "feed"]
    rates = {run["job"]["alpha"] for run in runs}
    return max((median_rate(records, (run for run in runs if run["job"]["alpha"] == each)) for each in rates), default=None)


def feeds(records: Records) -> list[str]:
    """How gensim's feed was chosen."""
    head = ["threads", "gensim's feed", "words/s", "s before training", "s training"]
    runs = records.find(kind="train", tool="gensim", purpose="feed")
    rows = [
        [str(run["job"]["threads"]), run["job"]["feed"], thousands(median_rate(records, [run])),
         f"{run['result']['before']:.1f}", f"{run['result']['training']:.1f}"]
        for run in runs
    ]  # fmt: skip
    chosen = "; ".join(
        f"at {threads} {plural(threads, 'thread')} {best_feed(records, threads, 0)}"
        for threads in sorted({run["job"]["threads"] for run in runs})
    )
    if records.environment["corpus"]["one line"]:
        split = "The corpus is one line; all feeds but Text8Corpus get it in lines of 1,000 words, made beforehand."
    else:
        split = "All tools read the same lines."
    return [f"gensim's feeds, one run of one epoch each. Fastest in training: {chosen}. {split}", "", *table(head, rows)]


def training_targets(records: Records) -> list[Target]:
    name = headline(records)
    if name is None:
        return [Target("a setting of embedx as good as gensim", "none among those measured", False)]
    targets = []
    runs = [run for purpose in MEASURED for run in records.find(kind="train", tool="embedx", name=name, purpose=purpose)]
    for threads in sorted({run["job"]["threads"] for run in runs}):
        speed = median_rate(records, (run for run in runs if run["job"]["threads"] == threads))
        if gensim := gensim_rate(records, threads):
            ratio = speed / gensim
            promise = f"training at equal quality, {threads} {plural(threads, 'thread')}: at least 5 × gensim's words/s"
            targets.append(Target(promise, f"{ratio:.1f} × ({name}), goal 10 ×", ratio >= 5))
    return targets


MEASURED = ("full", "speed")


# ---- quality


def section_quality(records: Records) -> Section | None:
    """Each variant of embedx against gensim at its better learning rate."""
    gensim = tuned_gensim(records)
    names = list(dict.fromkeys(run["job"]["name"] for run in full_runs(records, "embedx")))
    if not gensim or not names:
        return None
    rows = []
    for name in names:
        found = differences(full_runs(records, "embedx", name), gensim)
        runs = len(full_runs(records, "embedx", name))
        rows.append([name, f"{runs} : {len(gensim)}", *map(difference, found), "yes" if as_good(found) else "no"])
    best = headline(records)
    text = [
        f"embedx minus gensim at learning rate {gensim[0]['job']['alpha']}, which is the better of those tried for gensim:",
        "the one with the higher sum of the three mean scores. Differences of the means over runs with different seeds, on the",
        "same items, with 95 % bootstrap intervals over items; these leave out the luck of training, which seeds lessen.",
        f"As good: no lower end below {limits()}.",
        "",
        *table(["embedx", "runs", *MARGINS, "as good"], rows),
        "",
        f"The headline is the fastest setting that is as good: **{best}**." if best else "No setting is shown to be as good.",
    ]
    return Section(text)


def limits() -> str:
    return ", ".join(f"{shown(measure(test), -margin, sign='+')} on {test}" for test, margin in MARGINS.items())


def measure(test: str) -> str:
    return "accuracy" if "analogies" in test else "spearman"


def difference(found: Difference) -> str:
    return f"{shown(found.measure, found.difference, sign='+')} ({shown(found.measure, *found.interval, sign='+')})"


# ---- whole commands


def section_whole(records: Records) -> Section | None:
    gensim = records.values("seconds", kind="command", tool="gensim")
    runs = [run for run in records.find(kind="command", tool="embedx") if "name" in run["job"]]
    if not gensim or not runs:
        return None
    groups: dict[str, list[float]] = {f"gensim, {records.find(kind='command', tool='gensim')[0]['job']['feed']}": gensim}
    for run in runs:
        groups.setdefault(name_of(run["job"]) + state(run["job"]), []).append(run["result"]["seconds"])
    rows = [
        [name, str(len(values)), f"{median(values):.1f}", f"{statistics.median(gensim) / statistics.median(values):.2f}"]
        for name, values in groups.items()
    ]
    text = [
        f"From the start of the process to saved vectors, {runs[0]['job']['threads']} threads, medians. `embedx train` has an",
        "empty token cache and kernels compiled before, if nothing else is said. gensim runs a script of build_vocab, train",
        "and KeyedVectors.save in the feed for which their sum is least; its learning rate does not matter here.",
        "",
        *table(["command", "runs", "s", "× faster than gensim"], rows),
    ]
    name = headline(records) or DEFAULT
    seconds = groups.get(name)
    if not seconds:
        return Section(text)
    ratio = statistics.median(gensim) / statistics.median(seconds)
    remark = name if headline(records) else f"{name}; its quality is not shown to be equal"
    return Section(text, [Target("whole command: at least 4 × as fast as gensim's", f"{ratio:.1f} × ({remark})", ratio >= 4)])


def state(job: dict[str, Any]) -> str:
    """What is unusual about the caches that a command met."""
    kernels = ", cold start with compilation" if job["kernels"] == "cold" else ""
    return kernels + (", tokens cached before" if job["tokens"] == "warm" else "")


# ---- reading


def section_feed(records: Records) -> Section | None:
    groups: dict[tuple[str, str], list[float]] = {}
    for run in records.find(kind="feed"):
        groups.setdefault((run["job"]["file"], reader(run["job"])), []).append(run["result"]["seconds"])
    times = {key: statistics.median(values) for key, values in groups.items()}
    rows = [
        [{"text": "plain", "gz": "gzip"}[file], name, str(len(groups[file, name])), f"{times[file, name]:.2f}"]
        for file, name in sorted(times, reverse=True)
    ]
    text = [
        "Seconds to read the corpus and count its words; medians. Imports are not included, loading compiled kernels is;",
        "the token cache is empty. embedx also encodes the corpus and stores it. wc runs in the C locale.",
        "",
        *table(["file", "reader", "runs", "s"], rows),
    ]
    ours = times.get(("text", "embedx"))
    theirs = [seconds for (file, name), seconds in times.items() if file == "text" and name.startswith("gensim")]
    wc = times.get(("text", "wc -w"))
    if not (ours and theirs and wc):
        return None
    share = ours / min(theirs)
    promise = "reading, counting, encoding: at most half the time of gensim's build_vocab (its faster feed)"
    targets = [
        Target(promise, f"{share:.2f} of it", share <= 0.5),
        Target("the same: goal 3 × the time of wc -w", f"{ours / wc:.1f} ×", ours <= 3 * wc),
    ]
    return Section(text, targets)


def reader(job: dict[str, Any]) -> str:
    return {"embedx": "embedx", "wc": "wc -w"}.get(job["tool"]) or f"gensim build_vocab, {job['feed']}"


# ---- time to quality


def section_time_to_quality(records: Records) -> Section | None:
    gensim = tuned_gensim(records)
    shorter = records.find(kind="train", purpose="fewer epochs", name=DEFAULT)
    if not gensim or not shorter:
        return None
    goal = mean_scores(gensim)
    by_epochs: dict[int, list[dict[str, Any]]] = {}
    for run in sorted(shorter + full_runs(records, "embedx", DEFAULT), key=lambda run: run["job"]["epochs"]):
        by_epochs.setdefault(run["job"]["epochs"], []).append(run)
    gensim_seconds = seconds_of(gensim)
    rows = [timed_row(f"gensim, {gensim[0]['job']['epochs']} epochs", gensim)]
    first = None
    for epochs, runs in by_epochs.items():
        reached = mean_scores(runs)
        name = f"embedx, {epochs} {plural(epochs, 'epoch')}"
        if first is None and all(reached[test] >= goal[test] for test in MARGINS):
            seconds = seconds_of(runs)
            first = f"The first row with no score below gensim's: {name}, {gensim_seconds / seconds:.1f} times as fast."
        rows.append(timed_row(name, runs))
    text = [
        f"embedx at its defaults for so many epochs, {gensim[0]['job']['threads']} threads; each is a run of its own, whose",
        "learning rate falls to zero. Seconds from reading to the end of training, medians; scores are means over runs.",
        "",
        *table(["run", "s", *MARGINS], rows),
        "",
        first or "None of these runs has all three scores at gensim's mean or above.",
    ]
    return Section(text)


def timed_row(name: str, runs: Sequence[dict[str, Any]]) -> list[str]:
    return [name, f"{seconds_of(runs):.1f}", *(score(test, mean_scores(runs)[test]) for test in MARGINS)]


def seconds_of(runs: Iterable[dict[str, Any]]) -> float:
    return statistics.median(run["result"]["total"] for run in runs)


# ---- memory, start, threads


def section_memory(records: Records) -> Section | None:
    runs = records.find(kind="memory")
    if not runs:
        return None
    rows, targets = [], []
    for run in runs:
        result = run["result"]
        bound = result["matrices"] + result["vocabulary"] + ALLOWANCE
        sizes = [result[name] for name in ("corpus_bytes", "matrices", "vocabulary", "anonymous")]
        rows.append([*(f"{size / MEGABYTE:,.0f}" for size in sizes), f"{bound / MEGABYTE:,.0f}", f"{result['words']:,}"])
        promise = f"memory not file-backed, corpus of {rows[-1][0]} MB: at most two matrices + vocabulary + 400 MB"
        measured = f"{rows[-1][3]} of {rows[-1][4]} MB"
        targets.append(Target(promise, measured, result["anonymous"] <= bound))
    text = [
        "Peak of RssAnon in /proc/self/status, looked at a hundred times a second while embedx reads, trains one epoch and",
        f"saves; Linux only. MB, {runs[0]['job']['threads']} threads. The larger corpus is the same text several times over in",
        "one file, with --min-count raised as much, so that the vocabulary is the same.",
        "",
        *table(["corpus", "two matrices", "vocabulary", "measured", "bound", "words"], rows),
    ]
    return Section(text, targets)


def section_start(records: Records) -> Section | None:
    helped = records.values("seconds", kind="command", tool="embedx --help")
    first = records.values("seconds", kind="first block")
    whole = records.values("seconds", kind="command", tool="embedx", purpose="start")
    if not (helped and first and whole):
        return None
    rows = [
        [name, str(len(values)), f"{median(values):.2f}"]
        for name, values in (
            ("`embedx --help`", helped),
            ("from process start to the first block of training, 100 kB of text", first),
            ("`embedx train` on the same 100 kB, from process start to exit", whole),
        )
    ]
    help_seconds, first_seconds = statistics.median(helped), statistics.median(first)
    targets = [
        Target("`embedx --help`: under 0.5 s", f"{help_seconds:.2f} s", help_seconds < 0.5),
        Target("warm start of training: under 2 s", f"{first_seconds:.2f} s", first_seconds < 2),
    ]
    return Section(["Kernels compiled before, medians.", "", *table(["", "runs", "s"], rows)], targets)


def section_threads(records: Records) -> Section | None:
    runs = records.find(kind="train", purpose="threads")
    one, many = ([run for run in runs if run["job"]["threads"] == n] for n in (1, 16))
    if not one or len(one) != len(many):
        return None
    found = differences(many, one)
    means = [mean_scores(one), mean_scores(many)]
    rows = [[each.test, *(score(each.test, scores[each.test]) for scores in means), difference(each)] for each in found]
    cores = records.environment["machine"]["cores"]
    text = [
        f"embedx at its defaults, 16 threads on {cores} cores minus one thread; {len(one)} {plural(len(one), 'run')} each,",
        "with 95 % intervals over items. The target is judged by the difference itself: intervals are wider than the margin.",
        "",
        *table(["test", "1 thread", "16 threads", "difference"], rows),
    ]
    met = all(each.difference > -MARGINS[each.test] for each in found)
    measured = ", ".join(shown(each.measure, each.difference, sign="+") for each in found)
    return Section(text, [Target("16 threads: quality within 0.01 (1 point) of one thread's", measured, met)])


SECTIONS: dict[str, Callable[[Records], Section | None]] = {
    "Training": section_train,
    "Quality": section_quality,
    "Whole commands": section_whole,
    "Reading, counting, encoding": section_feed,
    "Time to gensim's scores": section_time_to_quality,
    "Memory": section_memory,
    "Start": section_start,
    "Many threads": section_threads,
}


# ---- Markdown


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in [head, ["---"] * len(head), *rows]]


def score(test: str, value: float | None) -> str:
    return "" if value is None else shown(measure(test), value)


def thousands(speed: float) -> str:
    return f"{round(speed, -3):,.0f}"


def median_of(results: Iterable[dict[str, Any]], key: str) -> float:
    return statistics.median(result[key] for result in results)


def plural(n: int, noun: str) -> str:
    return noun if n == 1 else noun + "s"


# ---- the picture


def plot(records: Records, file: Path) -> Path | None:
    """Words per second by tool and threads, quality beside; None without matplotlib or without runs to show."""
    try:
        import matplotlib
    except ImportError:
        return None
    if not full_runs(records, DEFAULT):
        return None
    matplotlib.use("Agg")
    from matplotlib import pyplot

    tools = runs_by_tool(records)
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(12, 0.7 * len(tools) + 1.6), sharey=True, layout="constrained")
    corpus_words = records.environment["corpus"]["words"]
    speeds = {
        f"{n} {plural(n, 'thread')}": [
            [rate(run, corpus_words) / 1e6 for run in runs if run["job"]["threads"] == n] for runs in tools.values()
        ]
        for n in sorted({run["job"]["threads"] for runs in tools.values() for run in runs})
    }
    bars(left, list(tools), speeds, "million words of the corpus per second")
    quality = {
        test: [[run["result"]["scores"][test] for run in runs if "scores" in run["result"]] for runs in tools.values()]
        for test in MARGINS
    }
    bars(right, list(tools), quality, "correlation, or share of right answers")
    left.invert_yaxis()  # the first on top; the right one shares it
    figure.savefig(file, dpi=120)
    return file


def runs_by_tool(records: Records) -> dict[str, list[dict[str, Any]]]:
    """The runs that the picture shows: of gensim those at its better learning rate."""
    tuned = {id(run) for run in tuned_gensim(records)}
    tools: dict[str, list[dict[str, Any]]] = {}
    for run in (run for purpose in MEASURED for run in records.find(kind="train", purpose=purpose)):
        gensim, full = run["job"]["tool"] == "gensim", run["job"]["purpose"] == "full"
        if not (gensim and full and id(run) not in tuned):
            tools.setdefault("gensim" if gensim else name_of(run["job"]), []).append(run)
    return tools


def bars(axes: Any, names: Sequence[str], groups: dict[str, list[list[float]]], label: str) -> None:
    """A bar for each name in each group: the median of its values, with a line from the least to the greatest."""
    height = 0.8 / len(groups)
    for order, (group, values) in enumerate(groups.items()):
        for row, some in enumerate(values):
            if some:
                middle, place = statistics.median(some), row + (order - (len(groups) - 1) / 2) * height
                spread = [[middle - min(some)], [max(some) - middle]]
                axes.barh(place, middle, height * 0.9, xerr=spread, color=f"C{order}", label=group if row == 0 else None)
    axes.set_yticks(range(len(names)), names)
    axes.set_xlabel(label)
    axes.legend(loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=len(groups), frameon=False)

"""The tables, the targets and the picture of experiment `speed`, from its records."""

import base64
import functools
import math
import statistics
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from embedx.evaluation import word_report, word_sets, words
from eval import word_tests
from eval.page import DASH, MEGABYTE, figure, mean_and_deviation, number, table, target, thousands
from eval.records import Job, Record, Records, grouped
from eval.speed_process import READING
from eval.speed_runs import (
    DEFAULT,
    FEED_TRIAL,
    MANY_SEEDS,
    POOLED,
    TEXTS,
    THREADS,
    best_feed,
    best_peers,
    mean_scores,
    rate,
    runs_of,
    tuned_gensim,
)

ALLOWANCE = 400e6  # bytes of memory beside matrices and vocabulary
TESTS = ("WordSim-353", "SimLex-999", "Google analogies")
# A setting counts as of equal quality where the lower ends of the intervals of these are less than
# MARGIN below gensim: a set of 353 pairs alone has an interval wider than that.
JUDGED = (POOLED, "Google analogies")
MARGIN = 0.01


def unpacked(text: str) -> np.ndarray:
    """float64 (items,), from what `speed_process.packed` made."""
    return np.frombuffer(zlib.decompress(base64.b32decode(text)), np.float32).astype(np.float64)


def differences(ours: Sequence[Record], theirs: Sequence[Record]) -> list[Any]:
    """On each test, how much better our runs are than theirs, paired by item, with 95 % intervals;
    then pooled over all sets of pairs, where the data had them.
    """
    a, b = (
        zip(*(record["result"]["answers"] for record in runs), strict=True)
        for runs in (ours, theirs)
    )
    on_tests = [
        difference_on(*answers) for answers in zip(range(len(default_tests())), a, b, strict=True)
    ]
    if pooled := word_tests.similarity(ours, theirs):
        n_pairs = ours[0]["result"]["pooled"]["pairs"]
        on_tests.append(
            word_report.ScoreDifference(
                POOLED, "spearman", pooled.value, pooled.interval(), n_pairs
            )
        )
    return on_tests


@functools.cache
def default_tests() -> list[Any]:
    """The test sets, read once."""
    return list(word_sets.default_tests())


@functools.cache  # tables of a page ask for the same
def difference_on(place: int, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Any:
    """The paired difference on one test set, from answers as they are on record."""
    test = default_tests()[place]
    a, b = (
        [word_sets.ItemScores(test, unpacked(packed)) for packed in runs] for runs in (ours, theirs)
    )
    return words.paired_difference(a, b)


def as_good(differences: Sequence[Any]) -> bool:
    """Whether no interval of what is judged reaches below the margin."""
    lower = {difference.test: difference.interval[0] for difference in differences}
    return all(test in lower and lower[test] > -MARGIN for test in JUDGED)


def is_open(differences: Sequence[Any]) -> bool | None:
    """None where no interval is wholly below the margin, so that more runs may show them as good;
    False if one is.
    """
    if all(
        difference.interval[1] > -MARGIN for difference in differences if difference.test in JUDGED
    ):
        return None
    return False


def measure_of(test: str) -> str:
    return "accuracy" if "analogies" in test else "spearman"


def shown_scores(runs: Sequence[Record]) -> dict[str, str]:
    """Columns of mean scores, of runs that have any."""
    if not all("scores" in record["result"] for record in runs):
        return {}
    shown = {test: word_report.shown(measure_of(test), mean_scores(runs)[test]) for test in TESTS}
    pooled = [
        record["result"]["pooled"]["score"] for record in runs if "pooled" in record["result"]
    ]
    return shown | (
        {POOLED: word_report.shown("spearman", statistics.fmean(pooled))} if pooled else {}
    )


def shown_difference(score_difference: Any) -> str:
    difference, ends = (
        word_report.shown(score_difference.measure, *of, sign="+")
        for of in ([score_difference.difference], score_difference.interval)
    )
    return f"{difference} ({ends})"


def name_of(job: Job) -> str:
    """How a contender is called in tables."""
    if job["tool"] == "gensim":
        return f"gensim, {job['feed']}, rate {job['alpha']}"
    return str(job.get("name", job["tool"]))


def median_of(runs: Iterable[Record], key: str) -> float:
    return float(statistics.median(record["result"][key] for record in runs))


def training(records: Records) -> str:
    """Words per second, by thread count."""
    groups = grouped(
        records.find(kind="train", purpose="full"), lambda job: (job["threads"], name_of(job))
    )
    rows = []
    for (threads, name), group in groups.items():
        speed = rate(records, group)
        gensim = gensim_rate(records, threads)
        rows.append(
            {
                "threads": threads,
                "tool": name,
                "runs × epochs": f"{len(group)} × {group[0]['job']['epochs']}",
                "words/s": thousands(speed),
                "× gensim": f"{speed / gensim:.2f}" if gensim else "",
                "s before": f"{median_of(group, 'before'):.1f}",
                "s training": f"{median_of(group, 'training'):.1f}",
                "peak RSS, MB": f"{median_of(group, 'peak_rss') / MEGABYTE:,.0f}",
            }
        )
    return table(rows)


def gensim_rate(records: Records, threads: int) -> float | None:
    """gensim's words per second."""
    runs = records.find(kind="train", tool="gensim", threads=threads, purpose="full")
    return rate(records, runs) if runs else None


def feeds(records: Records) -> str:
    """gensim's words per second by feed, the form in which it gets the corpus."""
    return table(
        [
            {
                "threads": record["job"]["threads"],
                "gensim's feed": record["job"]["feed"],
                "words/s": thousands(rate(records, [record])),
                "s before training": f"{record['result']['before']:.1f}",
                "s training": f"{record['result']['training']:.1f}",
                "fastest": (
                    "yes"
                    if record["job"]["feed"] == best_feed(records, record["job"]["threads"], 0)
                    else ""
                ),
            }
            for record in runs_of(records, "gensim", FEED_TRIAL)
        ]
    )


def shown_text(text: Job) -> str:
    return f"{text['megabytes']} MB" if text else "all"


def quality(records: Records) -> str:
    """Each variant of embedx against gensim at its best learning rate."""
    rows = []
    for text in TEXTS:
        gensim = tuned_gensim(records, **text)
        about = {"text": shown_text(text)}
        if gensim:
            name = f"gensim, rate {gensim[0]['job']['alpha']}"
            rows.append({"trainer": name, **about, "runs": len(gensim), **shown_scores(gensim)})
        for name in MANY_SEEDS:
            runs = runs_of(records, "embedx", "quality", name=name, **text)
            if runs and gensim:
                on_tests = differences(runs, gensim)
                cells = {difference.test: shown_difference(difference) for difference in on_tests}
                verdict = "yes" if as_good(on_tests) else "no"
                rows.append(
                    {
                        "trainer": name,
                        **about,
                        "runs": len(runs),
                        **cells,
                        "shown to be as good": verdict,
                    }
                )
    return table(rows)


def whole_commands(records: Records) -> dict[str, list[float]]:
    """Seconds by command, gensim's first."""

    def command(job: Job) -> str:
        if job["tool"] == "gensim":
            return f"gensim, {job['feed']}"
        kernels = ", cold start with compilation" if job["kernels"] == "cold" else ""
        return (
            str(job["name"])
            + kernels
            + (", tokens cached before" if job["tokens"] == "warm" else "")
        )

    ours = [
        record for record in records.find(kind="command", tool="embedx") if "name" in record["job"]
    ]
    return seconds_of(records.find(kind="command", tool="gensim") + ours, command)


def seconds_of(runs: Sequence[Record], key: Any) -> dict[Any, list[float]]:
    return {
        name: [record["result"]["seconds"] for record in group]
        for name, group in grouped(runs, key).items()
    }


def whole(records: Records) -> str:
    groups = whole_commands(records)
    has_gensim = bool(records.find(kind="command", tool="gensim"))
    gensim = statistics.median(next(iter(groups.values()))) if has_gensim else math.nan
    return table(
        [
            {
                "command": name,
                "runs": len(values),
                "s": f"{statistics.median(values):.1f}",
                "× faster than gensim": (
                    f"{gensim / statistics.median(values):.2f}" if has_gensim else DASH
                ),
            }
            for name, values in groups.items()
        ]
    )


def objectives(records: Records) -> str:
    """Processor seconds of a whole command and of its training, and how many times those of `ns`
    they are, as means and deviations of the turns' ratios.
    """
    turns = grouped(records.find(kind="objective"), lambda job: job["objective"])
    of_ns = {record["job"]["seed"]: record["result"] for record in turns.get("ns", [])}
    rows = []
    for objective, runs in turns.items():
        row = {"objective": f"`{objective}`", "turns": len(runs)}
        for name, what in (("cpu", "whole command"), ("cpu of training", "training")):
            seconds = [record["result"][name] for record in runs]
            row[f"CPU s, {what}"] = f"{statistics.median(seconds):.1f}"
            ratios = [
                record["result"][name] / of_ns[record["job"]["seed"]][name]
                for record in runs
                if record["job"]["seed"] in of_ns
            ]
            row[f"× ns, {what}"] = mean_and_deviation(ratios, 2) if ratios else DASH
        rows.append(row)
    return table(rows)


def reading_times(records: Records) -> dict[tuple[str, str], list[float]]:
    """Seconds by file and reader."""

    def reader(job: Job) -> tuple[str, str]:
        names = {"embedx": "embedx", "wc": "wc -w"}
        return job["file"], names.get(job["tool"]) or f"gensim build_vocab, {job['feed']}"

    return seconds_of(records.find(kind=READING), reader)


def reading(records: Records) -> str:
    return table(
        [
            {
                "file": {"text": "plain", "gz": "gzip"}[file],
                "reader": name,
                "runs": len(times),
                "s": f"{statistics.median(times):.2f}",
            }
            for (file, name), times in sorted(reading_times(records).items(), reverse=True)
        ]
    )


def memory_sizes(records: Records) -> list[tuple[Record, float]]:
    return [
        (record, record["result"]["matrices"] + record["result"]["vocabulary"] + ALLOWANCE)
        for record in records.find(kind="memory")
    ]


def memory(records: Records) -> str:
    names = {
        "corpus": "corpus_bytes",
        "two matrices": "matrices",
        "vocabulary": "vocabulary",
        "measured": "anonymous",
    }
    return table(
        [
            {title: f"{record['result'][name] / MEGABYTE:,.0f}" for title, name in names.items()}
            | {"bound": f"{bound / MEGABYTE:,.0f}", "words": f"{record['result']['words']:,}"}
            for record, bound in memory_sizes(records)
        ]
    )


STARTS: dict[str, dict[str, str]] = {
    "`embedx --help`": {"kind": "command", "tool": "embedx --help"},
    "from process start to the first block of training, 100 kB of text": {"kind": "first block"},
    "`embedx train` on the same 100 kB, from process start to exit": {
        "kind": "command",
        "tool": "embedx",
        "purpose": "start",
    },
}


def start(records: Records) -> str:
    times = {
        name: [result["seconds"] for result in records.results(**job)]
        for name, job in STARTS.items()
    }
    return table(
        [
            {"what": name, "runs": len(values), "s": f"{statistics.median(values):.2f}"}
            for name, values in times.items()
            if values
        ]
    )


def peers(records: Records) -> str:
    """All trainers on one text."""
    rows = []
    for best in sorted(
        best_peers(records), key=lambda record: (record["job"]["threads"], rate(records, [record]))
    ):
        job = best["job"]
        result = best["result"]
        rows.append(
            {
                "threads": job["threads"],
                "tool": job.get("name", job["tool"]),
                "rate": job.get("alpha", "default"),
                "CPU s": number(result["cpu"], 1),
                "s training": number(result["training"], 1),
                "words/s": thousands(rate(records, [best])),
                "words per CPU second": thousands(
                    rate(records, [best]) * result["training"] / result["cpu"]
                ),
                POOLED: number(result["pooled"]["score"]) if "pooled" in result else DASH,
            }
        )
    return table(rows)


def targets(records: Records) -> str:
    """Every target beside its number, at the defaults of embedx."""
    return table(
        [
            *quality_targets(records),
            *speed_targets(records),
            *reading_targets(records),
            *memory_targets(records),
            *start_targets(records),
        ]
    )


def quality_targets(records: Records) -> Iterator[Mapping[str, str]]:
    for text in TEXTS:
        gensim = tuned_gensim(records, **text)
        runs = runs_of(records, "embedx", "quality", name=DEFAULT, **text)
        if not gensim or not runs:
            continue
        on_tests = differences(runs, gensim)
        measured = ", ".join(
            f"{difference.test} {shown_difference(difference)}"
            for difference in on_tests
            if difference.test in JUDGED
        )
        promise = f"as good as gensim within 0.01 and a point, {shown_text(text)}"
        yield target(promise, measured, as_good(on_tests) or is_open(on_tests))


def speed_targets(records: Records) -> Iterator[Mapping[str, str]]:
    """Targets of training and of whole commands."""
    runs = runs_of(records, "embedx", "full", name=DEFAULT)
    gensim_speed = gensim_rate(records, THREADS[-1])
    if runs and gensim_speed:
        ratio = rate(records, runs) / gensim_speed
        promise = f"training, threads {THREADS[-1]}: at least 5 × gensim's words/s"
        yield target(promise, f"{ratio:.1f} ×, goal 10 ×", ratio >= 5)
    seconds = whole_commands(records)
    if DEFAULT in seconds and records.find(kind="command", tool="gensim"):
        of_gensim = statistics.median(next(iter(seconds.values())))
        ratio = of_gensim / statistics.median(seconds[DEFAULT])
        promise = "whole command: at least 4 × as fast as gensim's"
        yield target(promise, f"{ratio:.1f} ×, goal 7 ×", ratio >= 4)


def reading_targets(records: Records) -> Iterator[Mapping[str, str]]:
    seconds = {key: statistics.median(values) for key, values in reading_times(records).items()}
    of_gensim = [
        value
        for (file, reader), value in seconds.items()
        if file == "text" and reader.startswith("gensim")
    ]
    of_embedx = seconds.get(("text", "embedx"))
    of_wc = seconds.get(("text", "wc -w"))
    if of_embedx and of_gensim and of_wc:
        share = of_embedx / min(of_gensim)
        promise = (
            "reading, counting, encoding: at most half the time of gensim's build_vocab (its faster"
            " feed)"
        )
        yield target(promise, f"{share:.2f} of it", share <= 0.5)
        promise = "the same: goal 3 × the time of wc -w"
        yield target(promise, f"{of_embedx / of_wc:.1f} ×", of_embedx <= 3 * of_wc)


def memory_targets(records: Records) -> Iterator[Mapping[str, str]]:
    for record, bound in memory_sizes(records):
        size = record["result"]["corpus_bytes"]
        used = record["result"]["anonymous"]
        promise = (
            f"memory not file-backed, corpus of {size / MEGABYTE:,.0f} MB: at most two matrices +"
            " vocabulary + 400 MB"
        )
        measured = f"{used / MEGABYTE:,.0f} of {bound / MEGABYTE:,.0f} MB"
        yield target(promise, measured, used <= bound)


def start_targets(records: Records) -> Iterator[Mapping[str, str]]:
    help_job, first_block_job, _ = STARTS.values()
    for promise, limit, job in (
        ("`embedx --help`: under 0.5 s", 0.5, help_job),
        ("warm start of training: under 2 s", 2.0, first_block_job),
    ):
        seconds = records.median("seconds", **job)
        if seconds is not None:
            yield target(promise, f"{seconds:.2f} s", seconds < limit)


def plot(records: Records) -> Any:
    """Pooled similarity, with its 95 % interval by the choice of pairs, against words per second,
    by trainer and threads.
    """
    scored = [record for record in best_peers(records) if "pooled" in record["result"]]
    if not scored:
        return None
    picture, (axes,) = figure(9, 5, dpi=120)
    for name, some in grouped(
        scored, lambda job: f"{name_of(job)}, threads: {job['threads']}"
    ).items():
        scores = word_tests.scores(some)
        error = 1.96 * np.std(np.mean([score.parts for score in scores], axis=0))
        axes.errorbar(
            rate(records, some) / 1e6,
            np.mean([score.value for score in scores]),
            error,
            fmt="o",
            label=name,
        )
    axes.set(xscale="log", xlabel="million words of the corpus per second", ylabel=POOLED)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8)
    return picture

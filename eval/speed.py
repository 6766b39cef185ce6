"""Is embedx faster than gensim at equal quality? Both, and other trainers, measured on one corpus.

Every measurement is a fresh process (`speed_process.py`), contenders take turns so that a slow
minute affects all of them, and tables give medians. Words per second are words of the text × epochs
/ seconds of training, the same numerator for everybody. gensim is fed in every way it documents,
and the best one is used; its learning rate is the best of three.

Speed and quality are measured apart: a few runs on all threads of a quiet machine, and many seeds
of one thread each on any.
"""

import base64
import functools
import math
import shutil
import statistics
import sys
import time
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from embedx.evaluation import word_report, word_sets, words
from eval import corpus, speed_block, word_tests
from eval.experiment import Experiment, Run, in_process, say
from eval.page import DASH, MEGABYTE, figure, number, table, target, thousands
from eval.records import Job, Record, Records, Result, grouped
from eval.speed_process import PROGRAMS

# What all tools are set to.
SETTINGS = {"dim": 100, "window": 5, "sample": 1e-4, "min_count": 5, "negatives": 5}
DEFAULT = "embedx, defaults"  # the contender with all defaults
# variants of embedx; the values are options of `embedx train`
CONTENDERS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "embedx, bounded-adagrad": {"optimizer": "bounded-adagrad"},
    "embedx, sgd, blocks of 8 words": {"optimizer": "sgd", "block_size": 8},
    "embedx, sgd, 5 fresh negatives for each pair": {"optimizer": "sgd", "block_size": 0},
}
# it is an aside, and slow; the others run with every seed
RUNS = {"embedx, sgd, 5 fresh negatives for each pair": 1}
SHOWN_EQUAL = (DEFAULT,)  # those whose quality is measured with many seeds
GENSIM_FEEDS = ("Text8Corpus", "LineSentence", "corpus_file", "lists in memory")
RATES = (0.025, 0.05, 0.1)  # of every trainer but embedx
THREADS = (1, 2)
BEGINNINGS = {"peers": 20, "quality": 30}  # megabytes of the corpus
# of the section on quality: this and all of it
TEXTS: tuple[dict[str, Any], ...] = ({"megabytes": BEGINNINGS["quality"]}, {})
EXCERPT = 10_000_000  # bytes of the corpus, which the section on blocks trains
LARGER = 10  # how many times larger the second corpus of the section on memory is
ALLOWANCE = 400e6  # bytes of memory beside matrices and vocabulary
TESTS = ("WordSim-353", "SimLex-999", "Google analogies")
POOLED = "pooled similarity"
# A setting counts as of equal quality where the lower ends of the intervals of these are less than
# MARGIN below gensim: a set of 353 pairs alone has an interval wider than that.
JUDGED, MARGIN = (POOLED, "Google analogies"), 0.01


# ---- the jobs


def jobs(run: Run) -> Iterator[Job]:
    """Those of the chosen sections. A section that rests on another's jobs asks for them too;
    nothing is measured twice.
    """
    plan, left_out = Plan(run), {"embedx", "gensim", *PROGRAMS} - {*run.chosen("tool")}
    for section in run.chosen("section"):
        for job in SECTIONS[section](plan):
            if job.get("tool") not in left_out:
                yield job


class Plan:
    """The jobs of each section."""

    def __init__(self, run: Run) -> None:
        own = self.own = run.settings
        self.run, self.records = run, run.records
        self.settings = SETTINGS | {"epochs": own.epochs}
        self.seeds, self.quality_seeds = range(1, own.seeds + 1), range(1, own.quality_seeds + 1)
        self.repetitions, self.turns = range(1, own.repetitions + 1), range(1, own.turns + 1)
        self.one_line = run.records.environment["corpus"]["one line"]

    def train_job(self, tool: str, purpose: str, **details: Any) -> Job:
        return (
            {"kind": "train", "tool": tool, "purpose": purpose, "score": True}
            | self.settings
            | details
        )

    def embedx_job(self, purpose: str, name: str = DEFAULT, **details: Any) -> Job:
        return self.train_job(
            "embedx", purpose, name=name, options=CONTENDERS[name], file="text", **details
        )

    def gensim_feeds(self, threads: int, **text: Any) -> Iterator[Job]:
        """One epoch by each feed, to find the best."""
        for feed in GENSIM_FEEDS:
            if self.one_line or feed != "Text8Corpus":
                one = {"epochs": 1, "alpha": RATES[0], "seed": 1} | text
                yield self.train_job(
                    "gensim", "feed", score=False, feed=feed, threads=threads, **one
                )

    def training(self) -> Iterator[Job]:
        """Every contender with all epochs on all threads, for speed."""
        threads = THREADS[-1]
        yield from self.gensim_feeds(threads)
        feed = best_feed(self.records, threads, epochs=0)
        for seed in self.seeds:
            yield self.train_job(
                "gensim", "full", feed=feed, threads=threads, alpha=RATES[1], seed=seed, score=False
            )
            for name in CONTENDERS:
                if seed <= RUNS.get(name, seed):
                    yield self.embedx_job("full", name, threads=threads, seed=seed, score=False)

    def quality(self) -> Iterator[Job]:
        """Many seeds on a beginning of the corpus and on all of it; gensim with the first seed at
        each rate, with the others at the best one.
        """
        for text in TEXTS:
            for seed in self.quality_seeds:
                for name in SHOWN_EQUAL:
                    yield self.embedx_job("quality", name, threads=1, seed=seed, **text)
                tuned = (
                    tuned_gensim(self.records, **text)[:1] if seed > self.quality_seeds[0] else []
                )
                for alpha in [each["job"]["alpha"] for each in tuned] or RATES:
                    yield self.train_job(
                        "gensim",
                        "quality",
                        feed="LineSentence",
                        threads=1,
                        alpha=alpha,
                        seed=seed,
                        **text,
                    )

    def whole(self) -> Iterator[Job]:
        """Whole commands, from start to saved vectors."""
        yield from self.gensim_feeds(THREADS[-1])
        feed = best_feed(self.records, THREADS[-1], self.settings["epochs"])
        common = {"kind": "command", **self.settings, "threads": THREADS[-1]}
        embedx = common | {"tool": "embedx", "file": "text", "kernels": "warm", "tokens": "empty"}
        for seed in self.repetitions:
            yield common | {"tool": "gensim", "feed": feed, "alpha": RATES[0], "seed": seed}
            for name, options in CONTENDERS.items():
                if seed <= RUNS.get(name, seed):
                    yield embedx | {"name": name, "options": options, "seed": seed}
            default = embedx | {"name": DEFAULT, "options": CONTENDERS[DEFAULT], "seed": seed}
            yield default | {"kernels": "cold"}
            yield default | {"tokens": "warm"}

    def feed(self) -> Iterator[Job]:
        """Reading, counting, encoding; plain and compressed."""
        # gensim counts words on one thread
        model = self.settings | {"threads": 1, "alpha": RATES[0], "seed": 1}
        iterable = "Text8Corpus" if self.one_line else "LineSentence"
        variants: list[Job] = [
            {"tool": "embedx", "file": file, "min_count": SETTINGS["min_count"]}
            for file in ("text", "gz")
        ]
        variants += [
            {"tool": "gensim", "file": file, "feed": iterable, **model} for file in ("text", "gz")
        ]
        # which takes no compressed file
        variants += [{"tool": "gensim", "file": "text", "feed": "corpus_file", **model}]
        variants += [{"tool": "wc", "file": file} for file in ("text", "gz")]
        for turn in self.turns:
            yield from ({"kind": "feed", **variant, "turn": turn} for variant in variants)

    def memory(self) -> Iterator[Job]:
        """The corpus, and one ten times as large of the same words: --min-count rises tenfold with
        it.
        """
        if sys.platform != "linux":
            say("memory: needs /proc/self/status, so it is measured on Linux only")
            return
        one = {
            "kind": "memory",
            **self.settings,
            "epochs": 1,
            "options": {},
            "threads": THREADS[-1],
            "seed": 1,
        }
        yield one | {"file": "text"}
        yield one | {"file": "larger", "min_count": LARGER * one["min_count"]}

    def start(self) -> Iterator[Job]:
        """The help text; the first block of training; a whole command on a corpus too small to
        matter.
        """
        one = {
            **self.settings,
            "options": {},
            "threads": THREADS[-1],
            "seed": 1,
            "file": "tiny",
            "purpose": "start",
        }
        for turn in self.turns:
            yield {"kind": "command", "tool": "embedx --help", "turn": turn}
            yield {"kind": "first block", **one, "turn": turn}
            yield {
                "kind": "command",
                "tool": "embedx",
                "kernels": "warm",
                "tokens": "empty",
                **one,
                "turn": turn,
            }

    def block(self) -> Iterator[Job]:
        """Where the time of the training kernel goes."""
        yield from (
            {"kind": "block", "objective": name, "turns": self.own.turns}
            for name in speed_block.SAMPLED
        )

    def peers(self) -> Iterator[Job]:
        """Other trainers on all threads at each rate, on fewer at the best of these; embedx at its
        defaults.
        """
        if self.own.peers is None:
            say("peers: left out; name the folder of their programs by --peers DIR")
            return
        if self.settings["epochs"] < 2:
            raise SystemExit(
                "peers: an epoch's time is the difference of two runs; --set epochs=2 or more"
            )
        files = {tool: Path(self.own.peers, tool, PROGRAMS[tool].name) for tool in PROGRAMS}
        text = {"megabytes": BEGINNINGS["peers"]}
        tools = [
            tool
            for tool in self.run.chosen("tool")
            if tool == "gensim"
            or (tool in files and self.run.has(tool, files[tool].is_file(), f"build {files[tool]}"))
        ]
        for threads in reversed(THREADS):
            for name in CONTENDERS:
                yield self.embedx_job("peers", name, threads=threads, seed=1, **text)
            if "gensim" in tools:
                yield from self.gensim_feeds(threads, **text)
            for tool in tools:
                details = (
                    {"feed": best_feed(self.records, threads, epochs=0, **text), "seed": 1}
                    if tool == "gensim"
                    else {}
                )
                best = (
                    best_of_peers(self.records, tool, THREADS[-1])
                    if threads != THREADS[-1]
                    else None
                )
                for alpha in [best["job"]["alpha"]] if best else RATES:
                    yield self.train_job(
                        tool, "peers", threads=threads, alpha=alpha, **details, **text
                    )


SECTIONS = {
    "training": Plan.training,
    "quality": Plan.quality,
    "whole": Plan.whole,
    "feed": Plan.feed,
    "memory": Plan.memory,
    "start": Plan.start,
    "block": Plan.block,
    "peers": Plan.peers,
}


# ---- measuring


def prepare(run: Run) -> dict[str, Any]:
    """The corpus in the forms that the tools need, none of which is timed."""
    about, file = corpus.unpacked(run), corpus.of(run)
    text, lines, packed = (run.folder / name for name in ("text", "lines", "corpus.gz"))
    if about["one line"]:
        corpus.write_lines(text, lines)
    if file.suffix != ".gz" or run.quick:
        corpus.compress(text, packed)
        file = packed
    run.files["excerpt"] = str(run.folder / "excerpt")
    with text.open("rb") as source:
        Path(run.files["excerpt"]).write_bytes(source.read(EXCERPT))
    if run.settings.peers is not None:
        run.files["peers"] = str(Path(run.settings.peers).resolve())
    run.files |= {
        "lines": str(lines if about["one line"] else text),
        "gz": str(file),
        "larger": str(run.folder / "larger"),
    }
    for megabytes in BEGINNINGS.values():
        beginning, facts = (
            run.folder / f"text {megabytes}",
            corpus.beginning(run, text, b" ", megabytes),
        )
        corpus.write_lines(
            Path(run.files["beginning"]).rename(beginning), run.folder / f"lines {megabytes}"
        )
        about[f"words of {megabytes} MB"] = facts["words"]
        run.files |= {
            each: str(run.folder / each) for each in (f"text {megabytes}", f"lines {megabytes}")
        }
    return {"corpus": about}


def make_larger(files: dict[str, str]) -> None:
    """The corpus several times over in one file, if it is not there yet."""
    if Path(files["larger"]).exists():
        return
    with open(files["larger"], "wb") as target:
        for _ in range(LARGER):
            with open(files["text"], "rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)
            target.write(b"\n")


def measure(run: Run, job: Job) -> Result:
    """The result of a job run in a process of its own. Ends the program if that fails; what was
    measured is kept.
    """
    if job["kind"] not in ("feed", "block") and not run.warm & {DEFAULT}:
        say("warming up: kernels are compiled unless they were before")
        run.warm.add(DEFAULT)
        for options in CONTENDERS.values():
            one = {
                "threads": 1,
                "seed": 1,
                "epochs": 1,
                "file": "tiny",
                "score": False,
                "options": options,
            }
            measure(run, {"kind": "train", "tool": "embedx", **SETTINGS, **one})
    if job.get("file") == "larger":
        make_larger(run.files)
    one_thread = (
        {"OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"} if job["kind"] == "block" else {}
    )
    files = run.files | {"began": str(time.time())}
    result = in_process(
        "eval.speed_process", job["kind"].replace(" ", "_"), job, files, **one_thread
    )
    if "error" in result:
        raise SystemExit(
            f"{result['stderr']}\nthis job failed, see above: {job}\n--resume continues from here"
        )
    return result


# ---- the peers at their best


def best_feed(records: Records, threads: int, epochs: int, **text: Any) -> str:
    """gensim's feed with the least time for a run of so many epochs, what comes before training
    included or not (epochs 0).
    """

    def seconds(record: Record) -> float:
        result = record["result"]
        return float(
            result["training"] if epochs == 0 else result["before"] + epochs * result["training"]
        )

    timed = records.find(
        kind="train", tool="gensim", threads=threads, purpose="feed", **{"megabytes": None} | text
    )
    if not timed:
        raise SystemExit(
            f"gensim's feeds were not timed at {threads} threads: gensim takes part in this section"
        )
    return str(min(timed, key=seconds)["job"]["feed"])


def runs_of(records: Records, tool: str, purpose: str, **wanted: Any) -> list[Record]:
    """Runs at the full number of epochs, on the whole corpus unless `megabytes` are given."""
    return records.find(kind="train", tool=tool, purpose=purpose, **{"megabytes": None} | wanted)


def mean_scores(runs: Sequence[Record]) -> dict[str, float]:
    return {
        test: statistics.fmean(each["result"]["scores"][test] for each in runs)
        for test in runs[0]["result"]["scores"]
    }


def tuned_gensim(records: Records, **text: Any) -> list[Record]:
    """gensim's runs for quality at its best learning rate: the one with the highest sum of three
    scores with the first seed.
    """
    runs = runs_of(records, "gensim", "quality", **text)
    first = [
        each for each in runs if each["job"]["seed"] == min(run["job"]["seed"] for run in runs)
    ]
    best = max(first, key=lambda each: sum(mean_scores([each]).values()), default=None)
    return [each for each in runs if best and each["job"]["alpha"] == best["job"]["alpha"]]


# ---- quality


def unpacked(text: str) -> np.ndarray:
    """float64 (items,), from what `speed_process.packed` made."""
    return np.frombuffer(zlib.decompress(base64.b32decode(text)), np.float32).astype(np.float64)


def differences(ours: Sequence[Record], theirs: Sequence[Record]) -> list[Any]:
    """On each test, how much better our runs are than theirs, paired by item, with 95 % intervals;
    then pooled over all sets of pairs, where the data had them.
    """
    a, b = (
        zip(*(each["result"]["answers"] for each in runs), strict=True) for runs in (ours, theirs)
    )
    found = [difference_on(*each) for each in zip(range(len(default_tests())), a, b, strict=True)]
    if pooled := word_tests.similarity(ours, theirs):
        n_pairs = ours[0]["result"]["pooled"]["pairs"]
        found.append(
            word_report.ScoreDifference(
                POOLED, "spearman", pooled.value, pooled.interval(), n_pairs
            )
        )
    return found


@functools.cache
def default_tests() -> list[Any]:
    """The test sets, read once."""
    return list(word_sets.default_tests())


@functools.cache  # tables of a page ask for the same
def difference_on(place: int, ours: tuple[str, ...], theirs: tuple[str, ...]) -> Any:
    """That on one of the tests, of answers as they are on record."""
    test = default_tests()[place]
    a, b = ([word_sets.Answers(test, unpacked(each)) for each in runs] for runs in (ours, theirs))
    return words.paired_difference(a, b)


def as_good(found: Sequence[Any]) -> bool:
    """Whether no interval of what is judged reaches below the margin."""
    lower = {each.test: each.interval[0] for each in found}
    return all(test in lower and lower[test] > -MARGIN for test in JUDGED)


def is_open(found: Sequence[Any]) -> bool | None:
    """None where no interval is wholly below the margin, so that more runs may show them as good;
    False if one is.
    """
    return (
        None if all(each.interval[1] > -MARGIN for each in found if each.test in JUDGED) else False
    )


def rate(records: Records, runs: Iterable[Record]) -> float:
    """Words of the text trained per second, the median of some runs: the same numerator for
    everybody.
    """
    about = records.environment["corpus"]

    def n_words(job: Job) -> int:
        return int(
            about[f"words of {job['megabytes']} MB"] if "megabytes" in job else about["words"]
        )

    return float(
        statistics.median(
            n_words(each["job"]) * each["job"]["epochs"] / each["result"]["training"]
            for each in runs
        )
    )


# ---- tables


def measure_of(test: str) -> str:
    return "accuracy" if "analogies" in test else "spearman"


def shown_scores(runs: Sequence[Record]) -> dict[str, str]:
    """Columns of mean scores, of runs that have any."""
    if not all("scores" in each["result"] for each in runs):
        return {}
    shown = {test: word_report.shown(measure_of(test), mean_scores(runs)[test]) for test in TESTS}
    pooled = [each["result"]["pooled"]["score"] for each in runs if "pooled" in each["result"]]
    return shown | (
        {POOLED: word_report.shown("spearman", statistics.fmean(pooled))} if pooled else {}
    )


def shown_difference(found: Any) -> str:
    difference, ends = (
        word_report.shown(found.measure, *of, sign="+")
        for of in ([found.difference], found.interval)
    )
    return f"{difference} ({ends})"


def name_of(job: Job) -> str:
    """How a contender is called in tables."""
    if job["tool"] == "gensim":
        return f"gensim, {job['feed']}, rate {job['alpha']}"
    return str(job.get("name", job["tool"]))


def median_of(runs: Iterable[Record], key: str) -> float:
    return float(statistics.median(each["result"][key] for each in runs))


def training(records: Records) -> str:
    """Words per second, by thread count."""
    groups = grouped(
        records.find(kind="train", purpose="full"), lambda job: (job["threads"], name_of(job))
    )
    rows = []
    for (threads, name), group in groups.items():
        speed, gensim = rate(records, group), gensim_rate(records, threads)
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
    """How gensim's feed was chosen."""
    return table(
        [
            {
                "threads": each["job"]["threads"],
                "gensim's feed": each["job"]["feed"],
                "words/s": thousands(rate(records, [each])),
                "s before training": f"{each['result']['before']:.1f}",
                "s training": f"{each['result']['training']:.1f}",
                "fastest": (
                    "yes"
                    if each["job"]["feed"] == best_feed(records, each["job"]["threads"], 0)
                    else ""
                ),
            }
            for each in records.find(kind="train", tool="gensim", purpose="feed", megabytes=None)
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
        for name in SHOWN_EQUAL:
            runs = runs_of(records, "embedx", "quality", name=name, **text)
            if runs and gensim:
                found = differences(runs, gensim)
                cells = {each.test: shown_difference(each) for each in found}
                verdict = "yes" if as_good(found) else "no"
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

    ours = [each for each in records.find(kind="command", tool="embedx") if "name" in each["job"]]
    return seconds_of(records.find(kind="command", tool="gensim") + ours, command)


def seconds_of(runs: Sequence[Record], key: Any) -> dict[Any, list[float]]:
    return {
        name: [each["result"]["seconds"] for each in group]
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


def reading_times(records: Records) -> dict[tuple[str, str], list[float]]:
    """Seconds by file and reader."""

    def reader(job: Job) -> tuple[str, str]:
        names = {"embedx": "embedx", "wc": "wc -w"}
        return job["file"], names.get(job["tool"]) or f"gensim build_vocab, {job['feed']}"

    return seconds_of(records.find(kind="feed"), reader)


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
        (each, each["result"]["matrices"] + each["result"]["vocabulary"] + ALLOWANCE)
        for each in records.find(kind="memory")
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
            {title: f"{each['result'][name] / MEGABYTE:,.0f}" for title, name in names.items()}
            | {"bound": f"{bound / MEGABYTE:,.0f}", "words": f"{each['result']['words']:,}"}
            for each, bound in memory_sizes(records)
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
        name: [each["seconds"] for each in records.results(**wanted)]
        for name, wanted in STARTS.items()
    }
    return table(
        [
            {"what": name, "runs": len(values), "s": f"{statistics.median(values):.2f}"}
            for name, values in times.items()
            if values
        ]
    )


def best_of_peers(records: Records, tool: str, threads: int, **job: Any) -> Record | None:
    """The run with the highest pooled similarity of those of the section on peers."""
    runs = records.find(kind="train", purpose="peers", tool=tool, threads=threads, **job)
    return max(
        runs, key=lambda each: each["result"].get("pooled", {}).get("score", 0.0), default=None
    )


def best_peers(records: Records) -> list[Record]:
    """Of each trainer and thread count the run at the best rate."""
    found = [
        best_of_peers(records, tool, threads)
        for threads in THREADS
        for tool in ("gensim", *PROGRAMS)
    ]
    found += [
        best_of_peers(records, "embedx", threads, name=name)
        for threads in THREADS
        for name in CONTENDERS
    ]
    return [each for each in found if each]


def peers(records: Records) -> str:
    """All trainers on one text."""
    rows = []
    for best in sorted(
        best_peers(records), key=lambda each: (each["job"]["threads"], rate(records, [each]))
    ):
        job, result = best["job"], best["result"]
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
    rows = []
    for text in TEXTS:
        gensim, runs = (
            tuned_gensim(records, **text),
            runs_of(records, "embedx", "quality", name=DEFAULT, **text),
        )
        if gensim and runs:
            found = differences(runs, gensim)
            shown = ", ".join(
                f"{each.test} {shown_difference(each)}" for each in found if each.test in JUDGED
            )
            rows.append(
                target(
                    f"as good as gensim within 0.01 and a point, {shown_text(text)}",
                    shown,
                    as_good(found) or is_open(found),
                )
            )
    ours, gensim_speed = (
        runs_of(records, "embedx", "full", name=DEFAULT),
        gensim_rate(records, THREADS[-1]),
    )
    if ours and gensim_speed:
        ratio = rate(records, ours) / gensim_speed
        promise = f"training, threads {THREADS[-1]}: at least 5 × gensim's words/s"
        rows.append(target(promise, f"{ratio:.1f} ×, goal 10 ×", ratio >= 5))
    groups = whole_commands(records)
    if DEFAULT in groups and records.find(kind="command", tool="gensim"):
        ratio = statistics.median(next(iter(groups.values()))) / statistics.median(groups[DEFAULT])
        rows.append(
            target(
                "whole command: at least 4 × as fast as gensim's",
                f"{ratio:.1f} ×, goal 7 ×",
                ratio >= 4,
            )
        )
    times = {key: statistics.median(values) for key, values in reading_times(records).items()}
    theirs = [
        seconds
        for (file, reader), seconds in times.items()
        if file == "text" and reader.startswith("gensim")
    ]
    if (ours := times.get(("text", "embedx"))) and theirs and (wc := times.get(("text", "wc -w"))):
        share = ours / min(theirs)
        promise = (
            "reading, counting, encoding: at most half the time of gensim's build_vocab (its faster"
            " feed)"
        )
        rows.append(target(promise, f"{share:.2f} of it", share <= 0.5))
        rows.append(
            target("the same: goal 3 × the time of wc -w", f"{ours / wc:.1f} ×", ours <= 3 * wc)
        )
    for each, bound in memory_sizes(records):
        size, used = (each["result"][key] / MEGABYTE for key in ("corpus_bytes", "anonymous"))
        promise = (
            f"memory not file-backed, corpus of {size:,.0f} MB: at most two matrices + vocabulary +"
            " 400 MB"
        )
        rows.append(
            target(
                promise,
                f"{used:,.0f} of {bound / MEGABYTE:,.0f} MB",
                each["result"]["anonymous"] <= bound,
            )
        )
    for (promise, limit), wanted in zip(
        (("`embedx --help`: under 0.5 s", 0.5), ("warm start of training: under 2 s", 2.0)),
        STARTS.values(),
        strict=False,
    ):
        if values := [each["seconds"] for each in records.results(**wanted)]:
            rows.append(
                target(
                    promise, f"{statistics.median(values):.2f} s", statistics.median(values) < limit
                )
            )
    return table(rows)


# ---- the picture


def plot(records: Records) -> Any:
    """Pooled similarity, with its 95 % interval by the choice of pairs, against words per second,
    by trainer and threads.
    """
    scored = [each for each in best_peers(records) if "pooled" in each["result"]]
    if not scored:
        return None
    picture, (axes,) = figure(9, 5, dpi=120)
    for name, some in grouped(
        scored, lambda job: f"{name_of(job)}, threads: {job['threads']}"
    ).items():
        scores = word_tests.scores(some)
        error = 1.96 * np.std(np.mean([each.parts for each in scores], axis=0))
        axes.errorbar(
            rate(records, some) / 1e6,
            np.mean([each.value for each in scores]),
            error,
            fmt="o",
            label=name,
        )
    axes.set(xscale="log", xlabel="million words of the corpus per second", ylabel=POOLED)
    axes.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=2, fontsize=8)
    return picture


EXPERIMENT = Experiment(
    name="speed",
    title="Speed, quality and memory beside gensim",
    choices={"section": tuple(SECTIONS), "tool": ("embedx", "gensim", *PROGRAMS)},
    settings={
        "corpus": None,
        "epochs": 5,
        "seeds": 3,
        "quality_seeds": 10,
        "repetitions": 3,
        "turns": 5,
        "peers": None,
    },
    quick={"epochs": 2, "seeds": 1, "quality_seeds": 1, "repetitions": 1, "turns": 1},
    packages=("scipy", "gensim"),
    prepare=prepare,
    jobs=jobs,
    measure=measure,
    tables={
        "targets": targets,
        "training": training,
        "feeds": feeds,
        "quality": quality,
        "whole": whole,
        "reading": reading,
        "memory": memory,
        "start": start,
        "block": speed_block.parts,
        "peers": peers,
    },
    plots={"": plot},
)

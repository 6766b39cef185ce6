"""Is embedx faster than gensim at equal quality? Both, and other trainers, measured on one corpus.

Every measurement is a fresh process (`speed_process.py`), contenders take turns so that a slow
minute affects all of them, and tables give medians. Words per second are words of the text × epochs
/ seconds of training, the same numerator for everybody. gensim gets the corpus in every form that
it documents (its feeds), and the fastest one is used. Where quality is compared, its learning rate
is the best of three.

Speed and quality are measured apart: a few runs on all threads of a quiet machine, and many seeds
of one thread each on any.
"""

import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from eval import corpus, speed_block, speed_tables
from eval.experiment import Experiment, Run, in_process, say
from eval.records import Job, Result
from eval.speed_process import FUNCTIONS, PROGRAMS, READING
from eval.speed_runs import (
    BEGINNINGS,
    CONTENDERS,
    DEFAULT,
    FEED_TRIAL,
    MANY_SEEDS,
    RATES,
    TEXTS,
    THREADS,
    best_feed,
    best_of_peers,
    tuned_gensim,
)

# What all tools are set to.
SETTINGS = {"dim": 100, "window": 5, "sample": 1e-4, "min_count": 5, "negatives": 5}
# seeds of a contender that is slow; the others run with every seed
MAX_SEED = {"embedx, sgd, 5 fresh negatives for each pair": 1}
# of whose whole commands the processor time is compared
OBJECTIVES = ("ns", "hs", "ar", "ove", "implicit", "ldgs", "sampled-softmax", "umax")
GENSIM_FEEDS = ("Text8Corpus", "LineSentence", "corpus_file", "lists in memory")
EXCERPT = 10_000_000  # bytes of the corpus, which the section on blocks trains
HELP = "embedx --help"  # a command that the section on starting measures
LARGER = 10  # how many times larger the second corpus of the section on memory is


def jobs(run: Run) -> Iterator[Job]:
    """The jobs of the chosen sections. A section that rests on another's jobs has them too;
    nothing is measured twice.
    """
    plan = Plan(run)
    left_out = {"embedx", "gensim", *PROGRAMS} - {*run.chosen("tool")}
    for section in run.chosen("section"):
        for job in SECTIONS[section](plan):
            if job.get("tool") not in left_out:
                yield job


class Plan:
    """The jobs of each section."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.records = run.records
        self.settings = SETTINGS | {"epochs": run.settings.epochs}
        self.seeds = range(1, run.settings.seeds + 1)
        self.quality_seeds = range(1, run.settings.quality_seeds + 1)
        self.repetitions = range(1, run.settings.repetitions + 1)
        self.turns = range(1, run.settings.turns + 1)
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
                    "gensim", FEED_TRIAL, score=False, feed=feed, threads=threads, **one
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
                if seed <= MAX_SEED.get(name, seed):
                    yield self.embedx_job("full", name, threads=threads, seed=seed, score=False)

    def quality(self) -> Iterator[Job]:
        """Many seeds on a beginning of the corpus and on all of it; gensim with the first seed at
        each rate, with the others at the best one.
        """
        for text in TEXTS:
            for seed in self.quality_seeds:
                for name in MANY_SEEDS:
                    yield self.embedx_job("quality", name, threads=1, seed=seed, **text)
                tuned = (
                    tuned_gensim(self.records, **text)[:1] if seed > self.quality_seeds[0] else []
                )
                for alpha in [record["job"]["alpha"] for record in tuned] or RATES:
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
                if seed <= MAX_SEED.get(name, seed):
                    yield embedx | {"name": name, "options": options, "seed": seed}
            default = embedx | {"name": DEFAULT, "options": CONTENDERS[DEFAULT], "seed": seed}
            yield default | {"kernels": "cold"}
            yield default | {"tokens": "warm"}

    def objectives(self) -> Iterator[Job]:
        """Whole commands at the defaults of each objective, for their processor time."""
        one = {"kind": "objective", "tool": "embedx", "threads": THREADS[-1]}
        for seed in self.repetitions:
            for objective in OBJECTIVES:
                text = {"megabytes": BEGINNINGS["objectives"]}
                yield one | {"objective": objective, "seed": seed, **text}

    def reading(self) -> Iterator[Job]:
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
            yield from ({"kind": READING, **variant, "turn": turn} for variant in variants)

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
            yield {"kind": "command", "tool": HELP, "turn": turn}
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
        """The seconds of each part of the training kernel."""
        yield from (
            {"kind": "block", "objective": name, "turns": self.run.settings.turns}
            for name in speed_block.SAMPLED
        )

    def peers(self) -> Iterator[Job]:
        """Other trainers on all threads at each rate, on fewer at the best of these; every variant
        of embedx at its default rate.
        """
        if self.run.settings.peers is None:
            say("peers: left out; name the folder of their programs by --peers DIR")
            return
        if self.settings["epochs"] < 2:
            raise SystemExit(
                "peers: an epoch's time is the difference of two runs; --set epochs=2 or more"
            )
        folder = self.run.settings.peers
        files = {tool: Path(folder, tool, PROGRAMS[tool].name) for tool in PROGRAMS}
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
                if tool == "gensim":
                    details = {
                        "feed": best_feed(self.records, threads, epochs=0, **text),
                        "seed": 1,
                    }
                else:
                    details = {}
                if threads != THREADS[-1]:
                    best = best_of_peers(self.records, tool, THREADS[-1])
                else:
                    best = None
                for alpha in [best["job"]["alpha"]] if best else RATES:
                    yield self.train_job(
                        tool, "peers", threads=threads, alpha=alpha, **details, **text
                    )


SECTIONS = {
    "training": Plan.training,
    "quality": Plan.quality,
    "whole": Plan.whole,
    "objectives": Plan.objectives,
    "reading": Plan.reading,
    "memory": Plan.memory,
    "start": Plan.start,
    "block": Plan.block,
    "peers": Plan.peers,
}


def prepare(run: Run) -> dict[str, Any]:
    """The corpus in the forms that the tools need, none of which is timed."""
    about = corpus.unpacked(run)
    file = corpus.of(run)
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
    for megabytes in {*BEGINNINGS.values()}:
        beginning = run.folder / f"text {megabytes}"
        facts = corpus.beginning(run, text, b" ", megabytes)
        corpus.write_lines(
            Path(run.files["beginning"]).rename(beginning), run.folder / f"lines {megabytes}"
        )
        about[f"words of {megabytes} MB"] = facts["words"]
        run.files |= {
            name: str(run.folder / name) for name in (f"text {megabytes}", f"lines {megabytes}")
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
    if job["kind"] not in (READING, "block") and DEFAULT not in run.warm:
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
    result = in_process("eval.speed_process", FUNCTIONS[job["kind"]], job, files, **one_thread)
    if "error" in result:
        raise SystemExit(
            f"{result['stderr']}\nthis job failed, see above: {job}\n--resume continues from here"
        )
    return result


def compared(job: Job) -> tuple[Any, ...] | None:
    """What the jobs of a table have in common; None for the quality of vectors, which does not
    depend on the machine.
    """
    if job.get("purpose") == "quality":
        return None
    return job["kind"], job.get("purpose"), job.get("megabytes"), job.get("tool") == HELP


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
    compared=compared,
    tables={
        "targets": speed_tables.targets,
        "training": speed_tables.training,
        "feeds": speed_tables.feeds,
        "quality": speed_tables.quality,
        "whole": speed_tables.whole,
        "objectives": speed_tables.objectives,
        "reading": speed_tables.reading,
        "memory": speed_tables.memory,
        "start": speed_tables.start,
        "block": speed_block.parts,
        "peers": speed_tables.peers,
    },
    plots={"": speed_tables.plot},
)

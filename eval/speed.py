"""Is embedx faster than gensim at equal quality? Measures both, and fastText, on one corpus, and writes the page that says.

    python eval/speed.py                       everything; hours on two cores, see eval/README.md
    python eval/speed.py --resume              goes on after an interruption
    python eval/speed.py --quick               the same in two minutes on a few words: shows that it runs, measures nothing
    python eval/speed.py --report-only         writes the page anew from the raw records
    python eval/speed.py classification        another page: classifiers beside label trees (`speed_classification.py`)

Every measurement is a fresh process (`speed_measure.py`), contenders take turns so that a slow minute of the machine meets
all of them, and the page gives medians. Words per second are words of the corpus × epochs / seconds of training, the same
numerator for everybody. Raw records go to a file one by one (`speed_records.py`); the page is `speed_page.py`.
"""

import argparse
import datetime
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from speed_page import page, plot
from speed_records import DEFAULT, Records, best_feed

# What all tools are set to.
SETTINGS = {"dim": 100, "window": 5, "sample": 1e-4, "min_count": 5, "negatives": 5, "epochs": 5}

# Variants of embedx: its defaults, and what the table's reader asks about next. The values are options of `embedx train`.
CONTENDERS: dict[str, dict[str, Any]] = {
    DEFAULT: {},
    "embedx, 5 negatives shared by a window": {"share": 1, "draws": 5},
    "embedx, faster and slightly worse": {"share": 16, "draws": 32},
    "embedx, 5 fresh negatives for each pair": {"share": 0},
}
RUNS = {"embedx, 5 fresh negatives for each pair": 1}  # it is an aside, and slow; the others run with every seed
# The peers. gensim is fed in every way it documents, and the best one is used; its learning rate is tuned over these.
GENSIM_FEEDS = ("Text8Corpus", "LineSentence", "corpus_file", "lists in memory")
GENSIM_RATES = (0.025, 0.05)
FASTTEXT_RATE = 0.05  # its default for skip-gram
FASTTEXT_RUNS = 1  # it is an aside, and takes minutes a run

THREADS = (1, 2)
DEFAULT_CORPUS = "corpora/enwiki-20190720-s1.text8.gz"  # in $EMBEDX_DATA
LINE_WORDS = 1000  # words a line in the copy for tools that read by line; fastText cuts lines at 1024, gensim's at 10,000
LONG_LINE = 50_000  # bytes; gensim drops what a sentence has beyond 10,000 words, and corpus_file reads a line at a time
LARGER = 10  # how many times larger the second corpus of the section on memory is

Job = dict[str, Any]


# ---- the sections: which jobs, in which order


class Plan:
    """The jobs of each section. A section that rests on another's jobs asks for them too; nothing is measured twice."""

    def __init__(self, options: argparse.Namespace, run: Callable[[str, Iterable[Job]], None], records: Records) -> None:
        self.run, self.records = run, records
        self.settings = SETTINGS | ({"epochs": 2} if options.quick else {})
        self.seeds = range(1, options.seeds + 1)
        self.thread_seeds = range(1, options.thread_seeds + 1)
        self.repetitions, self.many = (1, 1) if options.quick else (options.repetitions, options.turns)
        self.one_line = records.environment["corpus"]["one line"]
        self.feeds = [feed for feed in GENSIM_FEEDS if self.one_line or feed != "Text8Corpus"]
        self.has_fasttext = "fasttext" in records.environment["versions"]

    def train_job(self, tool: str, purpose: str, **details: Any) -> Job:
        return {"kind": "train", "tool": tool, "purpose": purpose, "score": purpose != "speed"} | self.settings | details

    def embedx_job(self, purpose: str, name: str = DEFAULT, **details: Any) -> Job:
        return self.train_job("embedx", purpose, name=name, options=CONTENDERS[name], file="text", **details)

    def gensim_feeds(self) -> None:
        """One epoch by each feed, to find the best."""
        self.run("gensim's feeds", (
            self.train_job("gensim", "feed", score=False, feed=feed, threads=threads, epochs=1, alpha=GENSIM_RATES[0], seed=1)
            for threads in THREADS for feed in self.feeds
        ))  # fmt: skip

    def full_runs(self) -> None:
        """Every contender with all epochs on all threads, for speed and quality."""
        self.gensim_feeds()
        threads = THREADS[-1]
        feed = best_feed(self.records, threads, epochs=0)

        def jobs() -> Iterator[Job]:
            for seed in self.seeds:
                for alpha in GENSIM_RATES:
                    yield self.train_job("gensim", "full", feed=feed, threads=threads, alpha=alpha, seed=seed)
                for name in CONTENDERS:
                    if seed <= RUNS.get(name, seed):
                        yield self.embedx_job("full", name, threads=threads, seed=seed)
                if self.has_fasttext and seed <= FASTTEXT_RUNS:
                    yield self.train_job("fasttext", "full", threads=threads, alpha=FASTTEXT_RATE, seed=seed)

        self.run("full runs", jobs())

    def train(self) -> None:
        """Words per second at all thread counts; fewer threads for one epoch, because the rate is the same in each."""
        self.full_runs()

        def jobs() -> Iterator[Job]:
            for threads in THREADS[:-1]:
                feed = best_feed(self.records, threads, epochs=0)
                for seed in range(1, self.repetitions + 1):
                    one = {"threads": threads, "epochs": 1, "seed": seed}
                    yield self.train_job("gensim", "speed", feed=feed, alpha=GENSIM_RATES[0], **one)
                    for name in CONTENDERS:
                        yield self.embedx_job("speed", name, **one)
                    if self.has_fasttext and seed <= FASTTEXT_RUNS:
                        yield self.train_job("fasttext", "speed", alpha=FASTTEXT_RATE, **one)

        self.run("fewer threads", jobs())

    quality = full_runs

    def whole(self) -> None:
        """Whole commands, from start to saved vectors."""
        self.gensim_feeds()
        threads = THREADS[-1]
        feed = best_feed(self.records, threads, self.settings["epochs"])
        common = {"kind": "command", **self.settings, "threads": threads}
        embedx = common | {"tool": "embedx", "file": "text", "kernels": "warm", "tokens": "empty"}

        def jobs() -> Iterator[Job]:
            for seed in range(1, self.repetitions + 1):
                yield common | {"tool": "gensim", "feed": feed, "alpha": GENSIM_RATES[0], "seed": seed}
                for name, options in CONTENDERS.items():
                    if seed <= RUNS.get(name, seed):
                        yield embedx | {"name": name, "options": options, "seed": seed}
                default = embedx | {"name": DEFAULT, "options": CONTENDERS[DEFAULT], "seed": seed}
                yield default | {"kernels": "cold"}
                yield default | {"tokens": "warm"}

        self.run("whole commands", jobs())

    def feed(self) -> None:
        """Reading, counting, encoding; plain and compressed."""
        model = self.settings | {"threads": 1, "alpha": GENSIM_RATES[0], "seed": 1}  # gensim counts words on one thread
        iterable = "Text8Corpus" if self.one_line else "LineSentence"
        variants = [{"tool": "embedx", "file": file, "min_count": SETTINGS["min_count"]} for file in ("text", "gz")]
        variants += [{"tool": "gensim", "file": file, "feed": iterable, **model} for file in ("text", "gz")]
        variants += [{"tool": "gensim", "file": "text", "feed": "corpus_file", **model}]  # which takes no compressed file
        variants += [{"tool": "wc", "file": file} for file in ("text", "gz")]
        turns = range(1, self.many + 1)
        self.run("feed", ({"kind": "feed", **variant, "turn": turn} for turn in turns for variant in variants))

    def time_to_quality(self) -> None:
        """The default of embedx with fewer epochs: when does it reach gensim's scores?"""
        self.full_runs()
        fewer = range(1, min(4, self.settings["epochs"]))
        self.run("time to quality", (
            self.embedx_job("fewer epochs", threads=THREADS[-1], epochs=epochs, seed=seed)
            for seed in self.seeds for epochs in fewer
        ))  # fmt: skip

    def memory(self) -> None:
        """The corpus, and one ten times as large of the same words: --min-count rises tenfold with it."""
        if sys.platform != "linux":
            say("memory: needs /proc/self/status, so it is measured on Linux only")
            return
        one = {"kind": "memory", **self.settings, "epochs": 1, "options": {}, "threads": THREADS[-1], "seed": 1}
        larger = one | {"file": "larger", "min_count": LARGER * one["min_count"]}
        self.run("memory", [one | {"file": "text"}, larger])

    def start(self) -> None:
        """The help text; the first block of training; a whole command on a corpus too small to matter."""
        one = {**self.settings, "options": {}, "threads": THREADS[-1], "seed": 1, "file": "tiny", "purpose": "start"}
        variants: list[Job] = [
            {"kind": "command", "tool": "embedx --help"},
            {"kind": "first block", **one},
            {"kind": "command", "tool": "embedx", "kernels": "warm", "tokens": "empty", **one},
        ]
        turns = range(1, self.many + 1)
        self.run("start", (variant | {"turn": turn} for turn in turns for variant in variants))

    def threads(self) -> None:
        """Quality when many more threads than cores write to the same tables."""
        self.run("threads", (
            self.embedx_job("threads", threads=threads, seed=seed) for seed in self.thread_seeds for threads in (1, 16)
        ))  # fmt: skip


SECTIONS = {
    "train": Plan.train, "quality": Plan.quality, "whole": Plan.whole, "feed": Plan.feed,
    "time-to-quality": Plan.time_to_quality, "memory": Plan.memory, "start": Plan.start, "threads": Plan.threads,
}  # fmt: skip


# ---- running jobs


class Runner:
    """Runs jobs one after the other, each in its own process, and keeps the results."""

    def __init__(self, files: dict[str, str], records: Records) -> None:
        self.files, self.records = files, records
        self.began = time.monotonic()
        self.warm = False

    def run(self, title: str, jobs: Iterable[Job]) -> None:
        """Run those that are not on record."""
        jobs = list(jobs)
        for number, job in enumerate(jobs, 1):
            if self.records.have(job):
                continue
            if not self.warm:
                self.warm_up()
            passed = datetime.timedelta(seconds=round(time.monotonic() - self.began))
            say(f"[{passed} passed] {title} {number}/{len(jobs)}: {spoken(job)}")
            sources = sources_hash()
            result = measure(job, self.files)
            self.records.add(job, result, sources)

    def warm_up(self) -> None:
        """Have the kernels compiled, which is measured on its own."""
        say("warming up: kernels are compiled unless they were before")
        for options in CONTENDERS.values():
            one = {"threads": 1, "seed": 1, "file": "tiny", "score": False, "options": options}
            measure({"kind": "train", "tool": "embedx", **SETTINGS, **one}, self.files)
        self.warm = True


def measure(job: Job, files: dict[str, str]) -> dict[str, Any]:
    """The result of a job run in a process of its own. Ends the program if that fails; what was measured is kept."""
    if job.get("file") == "larger":
        make_larger(files)
    measured = Path(__file__).with_name("speed_measure.py")
    # With fewer than ten threads fastText leaves part of its table unwritten (facebookresearch/fastText#1061) and now and then
    # fails on NaN, when malloc hands it used memory. Pages fresh from the system are zero.
    environment = os.environ | ({"MALLOC_MMAP_THRESHOLD_": "65536"} if job.get("tool") == "fasttext" else {})
    arguments = [sys.executable, str(measured), json.dumps(job), json.dumps(files), repr(time.time())]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"{done.stderr[-3000:]}\nthis job failed, see above: {json.dumps(job)}\n--resume goes on from here")
    return dict(json.loads(done.stdout.splitlines()[-1]))


def spoken(job: Job) -> str:
    """What tells a job from the others."""
    told = ("kind", "name", "tool", "feed", "file", "alpha", "threads", "epochs", "seed", "turn", "kernels", "tokens")
    return ", ".join(f"{name} {job[name]}" if isinstance(job[name], int | float) else job[name] for name in told if name in job)


def sources_hash() -> str:
    """A hash of the embedx that is installed: the page tells if it was edited between measurements."""
    import embedx

    folder = Path(embedx.__file__).parent
    digest = hashlib.sha256()
    for file in sorted(folder.rglob("*.py")):
        digest.update(file.relative_to(folder).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:12]


def say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


# ---- the corpus


def prepare(corpus: Path, folder: Path, quick: bool) -> tuple[dict[str, str], dict[str, Any]]:
    """The corpus in the forms that the tools need, none of which is timed; and what is to be known of it."""
    text = folder / "corpus"
    opened = gzip.open if corpus.suffix == ".gz" else open
    with opened(corpus, "rb") as source, text.open("wb") as target:
        if quick:
            target.write(source.read(2_000_000))
        else:
            shutil.copyfileobj(source, target, 1 << 20)
    about = {"name": corpus.name, "quick": quick, **facts_of(text)}
    files = {name: str(folder / name) for name in ("lines", "tiny", "larger")} | {"text": str(text)}
    if about["one line"]:
        write_lines(text, Path(files["lines"]))
    else:
        files["lines"] = str(text)
    with text.open("rb") as source:
        Path(files["tiny"]).write_bytes(source.read(100_000))
    if corpus.suffix == ".gz" and not quick:
        files["gz"] = str(corpus)
    else:
        files["gz"] = str(folder / "corpus.gz")
        with text.open("rb") as source, gzip.open(files["gz"], "wb", compresslevel=6) as packed:
            shutil.copyfileobj(source, packed, 1 << 20)
    return files, about


def facts_of(text: Path) -> dict[str, Any]:
    """Size, words, hash, and whether a line is so long that tools reading by line would choke on it."""
    digest, n_words = hashlib.sha256(), 0
    line = longest = 0  # bytes
    for words, block in blocks_of_words(text):
        digest.update(block)
        n_words += len(words)
        first, *others = block.split(b"\n")
        line += len(first)
        longest = max(longest, line, *map(len, others))
        line = len(others[-1]) if others else line
    return {"bytes": text.stat().st_size, "words": n_words, "sha256": digest.hexdigest(), "one line": longest > LONG_LINE}


def blocks_of_words(text: Path) -> Iterator[tuple[list[bytes], bytes]]:
    """(words, bytes read) a megabyte at a time; no word is cut."""
    rest = b""
    with text.open("rb") as file:
        while block := file.read(1 << 20):
            whole = rest + block
            end = max(whole.rfind(b" "), whole.rfind(b"\n")) + 1
            rest = whole[end:]
            yield whole[:end].split(), block
    yield rest.split(), b""


def write_lines(text: Path, lines: Path) -> None:
    """The same words, so many a line."""
    pending: list[bytes] = []
    with lines.open("wb") as file:
        for words, _ in blocks_of_words(text):
            pending += words
            while len(pending) >= LINE_WORDS:
                file.write(b" ".join(pending[:LINE_WORDS]) + b"\n")
                del pending[:LINE_WORDS]
        if pending:
            file.write(b" ".join(pending) + b"\n")


def make_larger(files: dict[str, str]) -> None:
    """The corpus several times over in one file, if it is not there yet."""
    if Path(files["larger"]).exists():
        return
    with open(files["larger"], "wb") as target:
        for _ in range(LARGER):
            with open(files["text"], "rb") as source:
                shutil.copyfileobj(source, target, 1 << 20)
            target.write(b"\n")


def environment_of(corpus: dict[str, Any]) -> dict[str, Any]:
    """Machine, versions and corpus. Records of another environment are not mixed with these."""
    versions = {"Python": platform.python_version()}
    for package in ("embedx", "numpy", "numba", "scipy", "gensim", "fasttext"):
        try:
            versions[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            if package != "fasttext":
                raise SystemExit(f"{package} is not installed; see eval/README.md") from None
            say("fastText is not installed and left out; pip install embedx[peers] brings it")
    found = {"corpus": corpus, "machine": machine(), "versions": versions}
    identity = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
    return found | {"id": identity, "command": shown_command()}


def machine() -> dict[str, Any]:
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")]
        model = names[0] if names else model
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return {"cpu": model, "cores": cores, "system": f"{platform.system()} {platform.machine()}"}


# ---- the command


def main() -> None:
    if sys.argv[1:2] == ["classification"]:
        import speed_classification

        speed_classification.main(sys.argv[2:])
        return
    options = parsed()
    if not options.report_only:
        with tempfile.TemporaryDirectory(prefix="embedx-speed-") as folder:
            try:
                measure_all(options, Path(folder))
            except KeyboardInterrupt:
                raise SystemExit("interrupted; --resume goes on from here, --report-only shows what there is") from None
    records = Records(options.raw)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    picture = plot(records, options.output.with_suffix(".png"))
    if not picture:
        say("no picture: matplotlib is not installed (pip install embedx[plots]), or too little was measured")
    options.output.write_text(page(records, picture), "utf-8")
    print(options.output)


def measure_all(options: argparse.Namespace, folder: Path) -> None:
    say(f"preparing {options.corpus.name}")
    files, about = prepare(options.corpus, folder, options.quick)
    records = Records(options.raw, environment_of(about))
    runner = Runner(files, records)
    plan = Plan(options, runner.run, records)
    for name in options.sections:
        SECTIONS[name](plan)


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help=f"text, plain or .gz; by default $EMBEDX_DATA/{DEFAULT_CORPUS}")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="all by default")
    parser.add_argument("--seeds", type=int, default=3, help="runs of each contender whose quality is measured (3)")
    parser.add_argument("--repetitions", type=int, default=3, help="timings of whole commands, and with fewer threads (3)")
    parser.add_argument("--turns", type=int, default=5, help="timings of what takes seconds: feed, start (5)")
    parser.add_argument("--thread-seeds", type=int, default=1, help="runs in the section threads (1)")
    parser.add_argument("--quick", action="store_true", help="2 MB, two epochs, one run; to the temporary folder")
    parser.add_argument("--output", type=Path, help="the page (eval/results/speed.md); a .png goes beside it")
    parser.add_argument("--raw", type=Path, help="the raw records (by default beside the page, .jsonl)")
    parser.add_argument("--resume", action="store_true", help="keep the records of the same machine, versions, corpus")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, write the page from the raw file")
    options = parser.parse_args()
    usual = Path(tempfile.gettempdir()) if options.quick else Path(__file__).parent / "results"
    options.output = options.output or usual / ("speed-quick.md" if options.quick else "speed.md")
    options.raw = options.raw or options.output.with_suffix(".jsonl")
    options.seeds = 1 if options.quick else options.seeds
    if options.corpus is None and not options.report_only:
        if not os.environ.get("EMBEDX_DATA"):
            parser.error("name a --corpus, or set EMBEDX_DATA to the folder that holds " + DEFAULT_CORPUS)
        options.corpus = Path(os.environ["EMBEDX_DATA"]) / DEFAULT_CORPUS
    if not options.report_only and not options.corpus.is_file():
        parser.error(f"{options.corpus}: no such file")
    if options.quick and not options.resume and not options.report_only:
        options.raw.unlink(missing_ok=True)
    elif options.raw.exists() and not (options.resume or options.report_only):
        parser.error(f"{options.raw} holds records: --resume goes on from there, or delete it to start anew")
    return options


def shown_command(script: str = "eval/speed.py") -> str:
    """The command as typed, files by their names alone, without what only says how far to go on."""
    typed = [word for word in sys.argv[1:] if word not in ("--resume", "--report-only")]
    return " ".join([f"python {script}", *(Path(word).name if os.sep in word else word for word in typed)])


if __name__ == "__main__":
    main()

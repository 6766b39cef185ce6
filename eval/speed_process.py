"""One measurement of speed in a process of its own: a function for each kind of job.

Nothing heavy is imported before the job is known, because start-up is one of the things measured.
Times are of the wall clock. What a tool spends on importing itself counts in whole commands only.
"""

import base64
import contextlib
import hashlib
import json
import os
import resource
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from embedx.runtime.progress import Silent

Job = dict[str, Any]
Files = dict[str, str]
Result = dict[str, Any]

READING = "feed"  # kind of the jobs of the section `reading`, as they are on record
# The function of this module for each kind of job.
FUNCTIONS = {
    "train": "train",
    "command": "command",
    "objective": "objective",
    READING: "reading",
    "first block": "first_block",
    "block": "block",
    "memory": "memory",
}


# ---- training


def train(job: Job, files: Files) -> dict[str, Any]:
    """Seconds before training (reading, counting, first parameters) and of training, and of all
    cores in training; peak memory; scores if wanted.
    """
    train = TRAINERS.get(job["tool"], train_program)
    if "megabytes" in job:
        files = files | {form: files[f"{form} {job['megabytes']}"] for form in ("text", "lines")}
    with tempfile.TemporaryDirectory() as scratch:
        trained = train(job, files, Path(scratch))
    result = {
        "before": trained.before,
        "training": trained.training,
        "total": trained.before + trained.training,
        "cpu": trained.cpu,
        "peak_rss": trained.peak_rss,
        **trained.about,
    }
    return result | scores(trained.vectors, files) if job["score"] else result


class Trained(NamedTuple):
    """Word vectors, and what their training took."""

    vectors: Any
    before: float  # seconds before training
    training: float  # seconds of training
    cpu: float  # of all cores in training, seconds
    peak_rss: int  # bytes
    about: Mapping[str, str] = MappingProxyType({})  # what else is recorded


def train_gensim(job: Job, files: Files, scratch: Path) -> Trained:
    model = gensim_model(job)
    start = time.perf_counter()
    feed = gensim_feed(job["feed"], files)
    model.build_vocab(**feed)
    ready = time.perf_counter()
    cpu = time.process_time()
    model.train(
        **feed,
        total_examples=model.corpus_count,
        total_words=model.corpus_total_words,
        epochs=model.epochs,
    )
    training = time.perf_counter() - ready
    cpu = time.process_time() - cpu
    peak_rss = status("VmHWM")
    from embedx import WordVectors

    vectors = WordVectors(model.wv.index_to_key, {"input": model.wv.vectors})
    return Trained(vectors, ready - start, training, cpu, peak_rss)


def gensim_model(job: Job) -> Any:
    """An untrained model, without vocabulary."""
    from gensim.models import Word2Vec

    return Word2Vec(
        sg=1,
        hs=0,
        negative=job["negatives"],
        vector_size=job["dim"],
        window=job["window"],
        sample=job["sample"],
        min_count=job["min_count"],
        epochs=job["epochs"],
        alpha=job["alpha"],
        workers=job["threads"],
        seed=job["seed"],
    )


def gensim_feed(name: str, files: Files) -> dict[str, Any]:
    """The corpus as arguments of gensim, in one of the forms that its documentation names."""
    from gensim.models import word2vec

    if name == "corpus_file":
        return {"corpus_file": files["lines"]}
    if name == "Text8Corpus":
        return {"corpus_iterable": word2vec.Text8Corpus(files["text"])}
    sentences = word2vec.LineSentence(files["lines"])
    if name == "LineSentence":
        return {"corpus_iterable": sentences}
    # "lists in memory"
    return {"corpus_iterable": [[sys.intern(word) for word in sentence] for sentence in sentences]}


def fasttext_model(job: Job, files: Files, epochs: int) -> tuple[Any, float]:
    """A model of fastText's, and the seconds of the call that read and trained; `ngrams` are
    lengths in characters.
    """
    import fasttext

    shortest, longest = job.get("ngrams") or (0, 0)
    start = time.perf_counter()
    model = fasttext.train_unsupervised(
        files["lines"],
        model="skipgram",
        loss="ns",
        dim=job["dim"],
        ws=job["window"],
        epoch=epochs,
        lr=job["alpha"],
        minCount=job["min_count"],
        minn=shortest,
        maxn=longest,
        neg=job["negatives"],
        t=job["sample"],
        thread=job["threads"],
        verbose=0,
    )
    return model, time.perf_counter() - start


class Program(NamedTuple):
    """A trainer that is a program."""

    name: str  # of the file in the peer's folder
    options: str  # the names of SET, in their order
    fixed: tuple[str, ...]


SET = (
    "text",
    "output",
    "dim",
    "window",
    "sample",
    "min_count",
    "negatives",
    "threads",
    "alpha",
    "epochs",
)
WORD2VEC = "-train -output -size -window -sample -min-count -negative -threads -alpha -iter"
FASTTEXT = "-input -output -dim -ws -t -minCount -neg -thread -lr -epoch"
PROGRAMS = {
    "word2vec": Program("word2vec", WORD2VEC, ("-cbow", "0", "-hs", "0", "-binary", "1")),
    "fastText": Program(
        "fasttext", FASTTEXT, ("skipgram", "-loss", "ns", "-minn", "0", "-maxn", "0")
    ),
    "pWord2Vec": Program("pWord2Vec", WORD2VEC, ("-binary", "1")),
    "pSGNScc": Program("pSGNScc", WORD2VEC, ("-binary", "1")),
}
# With fewer than ten threads fastText leaves part of its table unwritten
# (facebookresearch/fastText#1061) and now and then fails on NaN, when malloc hands it used memory.
# Pages fresh from the system are zero.
PROGRAM_ENVIRONMENT = {
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "MALLOC_MMAP_THRESHOLD_": "65536",
}


def train_program(job: Job, files: Files, scratch: Path) -> Trained:
    """A program reads, trains and saves in one call: an epoch takes the difference of a run of all
    epochs and one of a single epoch, and what is left of the latter comes before training.
    """
    from embedx import load

    epochs, (file, names, fixed) = job["epochs"], PROGRAMS[job["tool"]]
    program = Path(files["peers"], job["tool"], file)
    seconds = []
    cpu = []
    for n in (1, epochs):
        settings = job | {"text": files["lines"], "output": str(scratch / "vectors"), "epochs": n}
        # a thread that reaches the end of the text skips its other epochs: one long epoch
        if job["tool"] == "word2vec":
            (scratch / "text").write_bytes(Path(files["lines"]).read_bytes() * n)
            settings |= {
                "text": str(scratch / "text"),
                "epochs": 1,
                "min_count": n * job["min_count"],
            }
        options = [
            word
            for option, name in zip(names.split(), SET, strict=True)
            for word in (option, str(settings[name]))
        ]
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        seconds.append(timed([str(program), *fixed, *options], PROGRAM_ENVIRONMENT, scratch))
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        cpu.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)
    vectors = load(str(scratch / ("vectors.vec" if job["tool"] == "fastText" else "vectors")))
    epoch, cpu_epoch = ((all_epochs - one) / (epochs - 1) for one, all_epochs in (seconds, cpu))
    version = {"version": hashlib.sha256(program.read_bytes()).hexdigest()[:12]}
    return Trained(
        vectors,
        before=seconds[0] - epoch,
        training=epochs * epoch,
        cpu=epochs * cpu_epoch,
        peak_rss=1024 * after.ru_maxrss,
        about=version,
    )


def train_embedx(job: Job, files: Files, scratch: Path) -> Trained:
    start = time.perf_counter()
    vectors, watch = run_embedx(job, files[job["file"]], scratch)
    started, ended = watch.stages["training"]
    cpu = watch.cpu["training"]
    return Trained(vectors, started - start, ended - started, cpu, status("VmHWM"))


def run_embedx(job: Job, corpus: str, scratch: Path) -> tuple[Any, "Stopwatch"]:
    """Train with an empty token cache; the vectors, and when each stage began and ended."""
    from embedx import SkipGram
    from embedx.skipgram.reading import read_corpora
    from embedx.skipgram.run import WordVectorsRun
    from embedx.training import life

    options = {name: job[name] for name in EMBEDX_OPTIONS} | job["options"]
    config = SkipGram(**options).config
    watch = Stopwatch()
    with read_corpora([corpus], config, watch, scratch) as encoded:
        run = WordVectorsRun.resolved(encoded, config, watch)
        return life.train_model(run).model, watch


EMBEDX_OPTIONS = ("dim", "window", "sample", "min_count", "epochs", "negatives", "threads", "seed")
TRAINERS = {"gensim": train_gensim, "embedx": train_embedx}


class Stopwatch(Silent):
    """Notes when each stage begins and ends, on both clocks."""

    def __init__(self) -> None:
        self.stages: dict[str, tuple[float, float]] = {}
        self.cpu: dict[str, float] = {}  # seconds of all cores
        self.began_at: dict[str, float] = {}  # time.time(), which processes share

    def start(self, title: str, total: float | None, unit: str, done: float = 0.0) -> None:
        self.title = title
        self.began_at[title] = time.time()
        self.stages[title] = (time.perf_counter(), float("nan"))
        self.cpu[title] = -time.process_time()

    def finish(self) -> None:
        self.stages[self.title] = (self.stages[self.title][0], time.perf_counter())
        self.cpu[self.title] += time.process_time()


def scores(vectors: Any, files: Files) -> dict[str, Any]:
    """Scores on the default tests, and the answers to every item, from which differences are
    computed later; the similarity pooled over these and the sets of the data.
    """
    from embedx.evaluation import word_sets, words
    from eval import word_tests

    answers = words.score_items(vectors, word_tests.tests(files.get("data")))
    on_default_tests = answers[: len(word_sets.default_tests())]
    return {
        "scores": {answer.test.name: answer.score for answer in on_default_tests},
        "answers": [packed(answer.values) for answer in on_default_tests],
    } | word_tests.pooled(answers)


def packed(values: Any) -> str:
    """An array as text; float32 is what gensim's cosines are."""
    return base64.b32encode(zlib.compress(values.astype("float32").tobytes(), 9)).decode()


# ---- reading


def reading(job: Job, files: Files) -> dict[str, Any]:
    """Seconds to read the corpus and count its words; embedx also encodes and stores it."""
    return {"seconds": READERS[job["tool"]](job, files)}


def read_by_embedx(job: Job, files: Files) -> float:
    from embedx.runtime.progress import Silent
    from embedx.text.encode import encode
    from embedx.text.settings import TextSettings, VocabularySettings
    from embedx.text.vocabulary import select

    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        with encode([files[job["file"]]], TextSettings(), Silent(), Path(scratch)) as corpus:
            select(corpus, VocabularySettings(min_count=job["min_count"]))
            return time.perf_counter() - start


def read_by_gensim(job: Job, files: Files) -> float:
    model = gensim_model(job)
    packed = {"text": files["gz"], "lines": files["gz"]} if job["file"] == "gz" else files
    start = time.perf_counter()
    model.build_vocab(**gensim_feed(job["feed"], packed))
    return time.perf_counter() - start


def read_by_wc(job: Job, files: Files) -> float:
    command = {"text": 'wc -w < "$0"', "gz": 'gzip -dc "$0" | wc -w'}[job["file"]]
    return timed(["sh", "-c", command, files[job["file"]]], {"LC_ALL": "C"})


READERS = {"embedx": read_by_embedx, "gensim": read_by_gensim, "wc": read_by_wc}


# ---- whole commands


def command(job: Job, files: Files) -> dict[str, Any]:
    """Seconds of a command from its start to its end."""
    with tempfile.TemporaryDirectory() as scratch:
        return {"seconds": COMMANDS[job["tool"]](job, files, Path(scratch))}


def command_embedx(job: Job, files: Files, scratch: Path) -> float:
    """`embedx train` with an empty token cache, or one that an earlier run has filled; kernels
    compiled before, or not.
    """
    settings = {name: job[name] for name in EMBEDX_OPTIONS} | job["options"]
    options = [
        word
        for name, value in settings.items()
        for word in (f"--{name.replace('_', '-')}", str(value))
    ]
    caches = ["--cache-dir", str(scratch / "tokens")]
    train = [
        sys.executable,
        "-m",
        "embedx",
        "train",
        files[job["file"]],
        *options,
        *caches,
        "--overwrite",
        "--output",
    ]
    if job["tokens"] == "warm":
        timed([*train, str(scratch / "first")], {})
    cold = {"NUMBA_CACHE_DIR": str(scratch / "kernels")} if job["kernels"] == "cold" else {}
    return timed([*train, str(scratch / "model")], cold)


def command_gensim(job: Job, files: Files, scratch: Path) -> float:
    """A script that builds the vocabulary, trains and saves; it is this module, asked for a
    `script`.
    """
    where = files | {"output": str(scratch / "vectors.kv")}
    return timed(
        [
            sys.executable,
            "-m",
            "eval.process",
            "eval.speed_process",
            "script",
            json.dumps(job),
            json.dumps(where),
        ],
        {},
    )


def script(job: Job, files: Files) -> dict[str, Any]:
    train_gensim(job, files, Path()).vectors.save(files["output"])
    return {}


def command_help(job: Job, files: Files, scratch: Path) -> float:
    return timed([sys.executable, "-m", "embedx", "--help"], {})


COMMANDS = {"embedx": command_embedx, "gensim": command_gensim, "embedx --help": command_help}


def timed(arguments: list[str], environment: dict[str, str], folder: Path | None = None) -> float:
    """Seconds that a command takes; if it fails, so do we, with what it said."""
    start = time.perf_counter()
    output_of(arguments, environment, folder)
    return time.perf_counter() - start


def output_of(arguments: list[str], environment: dict[str, str], folder: Path | None = None) -> str:
    """What a command prints; if it fails, so do we, with what it said."""
    completed = subprocess.run(
        arguments,
        env=os.environ | environment,
        cwd=folder,
        capture_output=True,
        text=True,
        errors="replace",
    )
    if completed.returncode:
        sys.exit(f"{arguments[:4]}: exit code {completed.returncode}\n{completed.stderr[-2000:]}")
    return completed.stdout


def objective(job: Job, files: Files) -> dict[str, Any]:
    """Processor seconds of a whole `embedx train` at its defaults, and of its training; kernels are
    compiled before.
    """
    train = [sys.executable, "-m", "embedx", "train", "--objective", job["objective"]]
    train += ["--threads", str(job["threads"]), "--seed", str(job["seed"]), "--json", "--overwrite"]
    with tempfile.TemporaryDirectory() as scratch:
        train += ["--cache-dir", str(Path(scratch, "tokens")), "--output", str(Path(scratch, "m"))]
        timed([*train, files["tiny"]], {})
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        start = time.perf_counter()
        printed = output_of([*train, files[f"text {job['megabytes']}"]], {})
        seconds = time.perf_counter() - start
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    facts = json.loads(printed)
    training = sum(
        stage["cpu_seconds"] for stage in facts["stages"] if stage["stage"].startswith("train")
    )
    return {
        "seconds": seconds,
        "cpu": after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime,
        "cpu of training": training,
    }


def first_block(job: Job, files: Files) -> dict[str, Any]:
    """Seconds from the start of this process to the first block trained, on a corpus too small to
    matter.
    """
    with tempfile.TemporaryDirectory() as scratch:
        _, watch = run_embedx(job, files[job["file"]], Path(scratch))
    return {"seconds": watch.began_at["training"] - float(files["began"])}


def block(job: Job, files: Files) -> dict[str, Any]:
    """The seconds of each part of the training kernel."""
    from eval import speed_block

    return speed_block.measure(job, files["excerpt"])


# ---- memory


def memory(job: Job, files: Files) -> dict[str, Any]:
    """Peak of the memory that is not file-backed while embedx reads, trains and saves, and what the
    model itself needs.
    """
    with tempfile.TemporaryDirectory() as scratch, watched_memory() as peak:
        vectors, _ = run_embedx(job, files[job["file"]], Path(scratch))
        vectors.save(Path(scratch) / "model")
    matrices = sum(4 * array.size for array in vectors.arrays.values())
    vocabulary = sum(map(sys.getsizeof, vectors.words)) + vectors.counts.nbytes
    return {
        "anonymous": peak[0],
        "peak_rss": status("VmHWM"),
        "matrices": matrices,
        "vocabulary": vocabulary,
        "words": len(vectors),
        "corpus_bytes": os.path.getsize(files[job["file"]]),
    }


@contextlib.contextmanager
def watched_memory() -> Iterator[list[int]]:
    """The largest RssAnon seen so far, in bytes, as the one element of a list; looked at a hundred
    times a second.
    """
    peak = [status("RssAnon")]
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.01):
            peak[0] = max(peak[0], status("RssAnon"))

    watcher = threading.Thread(target=look, daemon=True)
    watcher.start()
    try:
        yield peak
    finally:
        over.set()
        watcher.join()


def status(field: str, process: int | str = "self") -> int:
    """A field of /proc/PROCESS/status in bytes; 0 where there is none."""
    try:
        lines = Path(f"/proc/{process}/status").read_text().splitlines()
    except OSError:
        return 0
    return next((1024 * int(line.split()[1]) for line in lines if line.startswith(field + ":")), 0)


def bytes_in(path: Path) -> int:
    """The size of a file, or of all files in a folder."""
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())

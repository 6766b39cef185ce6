"""How fast are the classifiers of embedx beside label trees, fastText and scikit-learn? `python eval/speed.py classification`

    python eval/speed.py classification --pecos-python OTHER/bin/python     everything but LinearSVC on EURLex
    python eval/speed.py classification --contenders linearsvc --resume     which is that, and takes half an hour
    python eval/speed.py classification --quick                             a few rows: shows that it runs, measures nothing
    python eval/speed.py classification --report-only                       writes the page anew from the raw records

Sections: `eurlex`, thousands of labels, several for each row; `small`, MNIST and Bibtex; `scaling`, time for each example
against the number of labels, on random data. Every measurement is a fresh process (`speed_classification_measure.py`),
contenders take turns, and the page (`speed_classification_page.py`) gives medians. A contender that fails is reported and does
not end the run.
PECOS needs a numpy before 2.0, so it lives in an environment of its own, whose interpreter `--pecos-python` names.
"""

import argparse
import datetime
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import speed_classification_page
from speed import machine, say, shown_command, sources_hash
from speed_records import Records

Job = dict[str, Any]

# ---- the contenders: options as embedx's settings or the peer's own parameters; what is not given is the tool's default

THREADS = 2
HINGE = {
    "loss": "squared-hinge", "optimizer": "adagrad", "batch_size": 256, "learning_rate": 0.5, "l2": 3e-5, "bias": "zero",
}  # fmt: skip
LOGISTIC = HINGE | {"loss": "logistic", "l2": 2e-6}
SOFTMAX = {name: value for name, value in LOGISTIC.items() if name != "loss"} | {"labels": "all"}
HIDDEN = {"hidden": 100, "optimizer": "adagrad", "bias": "zero", "learning_rate": 0.2, "epochs": 10}


def embedx(objective: str, **options: Any) -> Job:
    return {"tool": "embedx", "objective": objective, "options": options}


def peer(tool: str, **options: Any) -> Job:
    return {"tool": tool, "options": options}


# What every section with several labels for each row compares; `rates` of fastText: the first at which it does not end in NaN.
PEERS: dict[str, Job] = {
    "fastText, softmax": peer("fastText", loss="softmax", epoch=15, rates=[0.5, 0.2, 0.1, 0.05]),
    "fastText, ova": peer("fastText", loss="ova", epoch=15, rates=[0.5, 0.2, 0.1, 0.05]),
    "fastText, hs": peer("fastText", loss="hs", epoch=15, rates=[0.5, 0.2, 0.1, 0.05]),
    "omikuji (Parabel)": peer("omikuji"),
    "napkinXC PLT": peer("napkinXC"),
    "PECOS XR-Linear": peer("PECOS"),
    "LinearSVC, one-vs-rest": peer("LinearSVC"),
}
EURLEX: dict[str, Job] = {
    **{f"embedx ova squared-hinge, {n} epochs": embedx("ova", **HINGE, epochs=n) for n in (3, 6, 12)},
    "embedx ova logistic": embedx("ova", **LOGISTIC, epochs=6),
    "embedx softmax": embedx("softmax", **SOFTMAX, epochs=5),
    "embedx ns, hidden 100": embedx("ns", **HIDDEN),
    "embedx hs, hidden 100": embedx("hs", **HIDDEN),
    "embedx ova, hidden 100": embedx("ova", **HIDDEN),
    "embedx softmax, hidden 100": embedx("softmax", **HIDDEN | {"learning_rate": 0.1, "epochs": 3}),
    **PEERS,
}
BIBTEX: dict[str, Job] = {
    "embedx ova squared-hinge": embedx("ova", **HINGE | {"l2": 3e-4, "learning_rate": 0.1, "batch_size": 64}, epochs=20),
    "embedx ova logistic": embedx("ova", **LOGISTIC | {"l2": 3e-5, "learning_rate": 0.3, "batch_size": 32}, epochs=20),
    **PEERS,
}
SINGLE = {"l2": 1e-4, "max_iterations": 1000, "tolerance": 1e-4}  # of the optimum, embedx's and scikit-learn's alike
ONE_LABEL: dict[str, Job] = {
    "embedx softmax, lbfgs": embedx("softmax", optimizer="lbfgs", **SINGLE) | {"tool": "embedx single"},
    "embedx softmax, adagrad": embedx("softmax", optimizer="adagrad", l2=SINGLE["l2"], epochs=10) | {"tool": "embedx single"},
    "scikit-learn LogisticRegression": peer("LogisticRegression", **SINGLE),
}

# The scaling: random dense features.
FEATURES, EXAMPLES = 100, 20_000
LABELS = (1_000, 10_000, 100_000, 1_000_000)
DRAWING, DRAWS = ("ns", "ar", "ove"), (5, 20)
OPTIMIZERS = ("adagrad", "sgd")
DRAWN_EPOCHS = 5
EXACT_WORK = 200_000_000  # examples times labels of the exact softmax, so that it takes seconds
EXACT_LABELS = 100_000

SLOW = ("eurlex", "LinearSVC")  # half an hour; measured when asked for, and last
TOOLS = {
    "embedx": ("embedx", "embedx single", "embedx scaling"), "fasttext": ("fastText",), "omikuji": ("omikuji",),
    "napkinxc": ("napkinXC",), "pecos": ("PECOS",), "linearsvc": ("LinearSVC",), "sklearn": ("LogisticRegression",),
}  # fmt: skip
SECTIONS = ("eurlex", "small", "scaling")
QUICK_ROWS = 500
FILES = {
    "eurlex": ("eurlex-4.3k/train.txt.gz", "eurlex-4.3k/test.txt.gz"),
    "bibtex": ("bibtex/train.txt.gz", "bibtex/test.txt.gz"),
    "mnist": (
        "mnist/train-images-idx3-ubyte.gz", "mnist/t10k-images-idx3-ubyte.gz",
        "mnist/train-labels-idx1-ubyte.gz", "mnist/t10k-labels-idx1-ubyte.gz",
    ),
}  # fmt: skip


# ---- which jobs, in which order


def jobs_of(options: argparse.Namespace) -> Iterator[Job]:
    """All jobs of a run. Contenders take turns: one repetition of all of them after the other."""
    turns = range(1, options.repetitions + 1)
    tools = {tool for name in options.contenders for tool in TOOLS[name]}
    chosen = [job for job in all_jobs(options.sections, turns, options.quick) if job["tool"] in tools]
    yield from (job for job in chosen if not is_slow(job))
    if options.all or options.asked_for_svc:
        slow = [job for job in chosen if is_slow(job)]
        yield from (job for job in slow if job["turn"] == 1)  # once is enough of what takes so long


def is_slow(job: Job) -> bool:
    return (job["dataset"], job["tool"]) == SLOW


def all_jobs(sections: Sequence[str], turns: Sequence[int], quick: bool) -> Iterator[Job]:
    tables: list[tuple[str, str, dict[str, Job]]] = [
        ("eurlex", "eurlex", EURLEX), ("small", "mnist", ONE_LABEL), ("small", "bibtex-first", ONE_LABEL),
        ("small", "bibtex", BIBTEX),
    ]  # fmt: skip
    for section, dataset, contenders in tables:
        if section in sections:
            for turn in turns:
                for name, job in contenders.items():
                    yield {"section": section, "dataset": dataset, "name": name, "threads": THREADS, "turn": turn, **job}
    if "scaling" in sections:
        for turn in turns:
            yield from scaling_jobs(turn, quick)


def scaling_jobs(turn: int, quick: bool) -> Iterator[Job]:
    for n_labels in LABELS[:2] if quick else LABELS:
        for threads in (1, 2):
            for optimizer in OPTIMIZERS:
                common = {"optimizer": optimizer, "learning_rate": 0.1}
                drawn = common | {"epochs": DRAWN_EPOCHS, "sampler": "uniform"}
                wanted = [(objective, drawn | {"negatives": n}) for objective in DRAWING for n in DRAWS]
                wanted.append(("hs", common | {"epochs": DRAWN_EPOCHS}))
                if n_labels <= EXACT_LABELS:
                    wanted.append(("softmax", common | {"epochs": 1}))
                for objective, options in wanted:
                    few = min(EXAMPLES, EXACT_WORK // n_labels) if objective == "softmax" else EXAMPLES
                    yield {
                        "section": "scaling", "dataset": "random", "tool": "embedx scaling", "objective": objective,
                        "options": options, "labels": n_labels, "features": FEATURES, "threads": threads, "turn": turn,
                        "examples": min(few, QUICK_ROWS) if quick else few, "name": f"embedx {objective}",
                    }  # fmt: skip


# ---- the data, in the forms that the tools read


class Data:
    """Writes a data set into the temporary folder when it is first asked for."""

    def __init__(self, source: Path, folder: Path, quick: bool) -> None:
        self.source, self.folder, self.quick = source, folder, quick

    def files(self, dataset: str) -> dict[str, str]:
        target = self.folder / dataset
        if dataset != "random" and not target.exists():
            say(f"preparing {dataset}")
            target.mkdir()
            {"mnist": self._mnist, "bibtex-first": self._first}.get(dataset, self._several)(dataset, target)
        return {"folder": str(target)}

    def _read(self, name: str) -> Iterator[tuple[str, Any]]:
        from embedx.labeled.read import read, read_training

        places = [str(self.source / file) for file in FILES[name]]
        train, test, *labels = places
        of_train, of_test = labels or (None, None)
        training, known = read_training(train, of_train)
        for half, data in (("train", training), ("test", read(test, of_test, like=known))):
            yield half, data.rows(np.arange(min(QUICK_ROWS, len(data)))) if self.quick else data

    def _several(self, name: str, target: Path) -> None:
        """XC text, sparse matrices and fastText's lines, all of the same rows; those of Bibtex are brought to length 1."""
        from scipy.sparse import save_npz

        from embedx.labeled.rules import scaled

        for half, data in self._read(name):
            features = scaled(data.features, "l2") if name == "bibtex" else data.features
            save_npz(target / f"{half}.X.npz", features)
            save_npz(target / f"{half}.Y.npz", indicator(data.labels, data.n_labels))
            write_lines(target / half, features, data.labels, data.n_labels)

    def _first(self, name: str, target: Path) -> None:
        from scipy.sparse import save_npz

        for half, data in self._read("bibtex"):
            save_npz(target / f"{half}.X.npz", data.features)
            np.save(target / f"{half}.y.npy", data.labels.ids[data.labels.offsets[:-1]])

    def _mnist(self, name: str, target: Path) -> None:
        for half, data in self._read(name):
            np.save(target / f"{half}.X.npy", data.features / np.float32(255))
            np.save(target / f"{half}.y.npy", data.labels.ids)


def indicator(labels: Any, n_labels: int) -> Any:
    """float32 csr (n, n_labels) with 1 for each label of a row."""
    from scipy.sparse import csr_matrix

    matrix = csr_matrix((np.ones(len(labels.ids), dtype=np.float32), labels.ids, labels.offsets), (len(labels), n_labels))
    matrix.sort_indices()
    return matrix


def write_lines(stem: Path, features: Any, labels: Any, n_labels: int) -> None:
    """The XC file, and fastText's: labels, a tab, a word `fNNN` for each feature that is there."""
    with stem.with_suffix(".txt").open("w") as xc, stem.with_suffix(".ft").open("w") as words:
        xc.write(f"{features.shape[0]} {features.shape[1]} {n_labels}\n")
        for row in range(features.shape[0]):
            span = slice(features.indptr[row], features.indptr[row + 1])
            columns, ids = features.indices[span].tolist(), labels[row].tolist()
            pairs = zip(columns, features.data[span].tolist(), strict=True)
            xc.write(",".join(map(str, ids)) + "".join(f" {column}:{value:.6g}" for column, value in pairs) + "\n")
            names, bag = " ".join(f"__label__{label}" for label in ids), " ".join(f"f{column}" for column in columns)
            words.write(f"{names}\t{bag}\n")


def hashes(source: Path) -> dict[str, str]:
    """Of the unpacked files of each data set."""
    found = {}
    for name, files in FILES.items():
        digest = hashlib.sha256()
        for file in files:
            digest.update(gzip.decompress((source / file).read_bytes()))
        found[name] = digest.hexdigest()[:12]
    return found


# ---- running them


def measure_all(options: argparse.Namespace, folder: Path) -> None:
    records = Records(options.raw, environment_of(options))
    data, began, jobs = Data(options.data, folder, options.quick), time.monotonic(), list(jobs_of(options))
    for number, job in enumerate(jobs, 1):
        python = options.pecos_python if job["tool"] == "PECOS" else sys.executable
        if python is None or measured(records, job):
            continue
        passed = datetime.timedelta(seconds=round(time.monotonic() - began))
        say(f"[{passed} passed] {number}/{len(jobs)}: {spoken(job)}")
        files, sources = data.files(job["dataset"]), sources_hash()
        result = measure(job, files, str(python))
        if "error" in result:
            say(f"failed: {result['error']}")
        records.add(job, result, sources)
    if options.pecos_python is None and any(job["tool"] == "PECOS" for job in jobs):
        say("PECOS is left out; --pecos-python names the interpreter of an environment that has it")


def measured(records: Records, job: Job) -> bool:
    """Whether there is a result on record; a failure is tried again."""
    return any(record["job"] == job and "error" not in record["result"] for record in records.records)


def measure(job: Job, files: dict[str, str], python: str) -> dict[str, Any]:
    """The result of a job run in a process of its own; {"error": its last line} if that fails."""
    script = Path(__file__).with_name("speed_classification_measure.py")
    threads = str(job["threads"])
    environment = os.environ | {"OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "MKL_NUM_THREADS": threads}
    if job["tool"] == "fastText":  # see speed.py: pages fresh from the system are zero, which it relies on
        environment["MALLOC_MMAP_THRESHOLD_"] = "65536"
    arguments = [python, str(script), json.dumps(job), json.dumps(files)]
    done = subprocess.run(arguments, env=environment, capture_output=True, text=True, errors="replace")
    if done.returncode:
        lines = [line for line in done.stderr.splitlines() if line.strip()]
        return {"error": lines[-1][:300] if lines else f"ended with status {done.returncode}"}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def spoken(job: Job) -> str:
    """What tells a job from the others."""
    told = [job["dataset"], job["name"], f"turn {job['turn']}"]
    if job["section"] == "scaling":
        draws = job["options"].get("negatives")
        told += [f"{job['labels']:,} labels", job["options"]["optimizer"], f"threads {job['threads']}"]
        told += [f"{draws} draws"] if draws else []
    return ", ".join(told)


def environment_of(options: argparse.Namespace) -> dict[str, Any]:
    """Machine, versions of embedx's own, data. The peers' versions stand with their results: one may be measured later."""
    versions = {"Python": platform.python_version()}
    versions |= {package: importlib.metadata.version(package) for package in ("embedx", "numpy", "numba", "scipy")}
    data = {"quick": options.quick, "sha256": hashes(options.data)}
    found = {"data": data, "machine": machine(), "versions": versions}
    identity = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
    return found | {"id": identity, "command": shown_command()}


# ---- the command


def main(arguments: Sequence[str]) -> None:
    options = parsed(arguments)
    if not options.report_only:
        with tempfile.TemporaryDirectory(prefix="embedx-speed-") as folder:
            try:
                measure_all(options, Path(folder))
            except KeyboardInterrupt:
                raise SystemExit("interrupted; --resume goes on from here, --report-only shows what there is") from None
    records = Records(options.raw)
    pictures = speed_classification_page.plots(records, options.output)
    if not pictures:
        say("no picture: matplotlib is not installed (pip install embedx[plots]), or too little was measured")
    options.output.write_text(speed_classification_page.page(records, pictures), "utf-8")
    print(options.output)


def parsed(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="speed.py classification", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    data = os.environ.get("EMBEDX_DATA")
    parser.add_argument("--data", type=Path, default=Path(data) / "xc" if data else None, help="by default $EMBEDX_DATA/xc")
    parser.add_argument("--results", type=Path, help="folder of the page (eval/results; with --quick the temporary folder)")
    parser.add_argument("--sections", nargs="+", choices=SECTIONS, default=list(SECTIONS), help="all by default")
    parser.add_argument("--contenders", nargs="+", choices=TOOLS, help="all by default, LinearSVC on EURLex excepted")
    parser.add_argument("--all", action="store_true", help="LinearSVC on EURLex too, which takes half an hour; run last")
    parser.add_argument("--repetitions", type=int, default=3, help="turns of each contender (3)")
    parser.add_argument("--pecos-python", type=Path, help="the interpreter of an environment that has PECOS")
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROWS} rows, one turn; to the temporary folder")
    parser.add_argument("--resume", action="store_true", help="keep the records of the same machine, versions, data")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, write the page from the raw file")
    options = parser.parse_args(arguments)
    options.asked_for_svc = "linearsvc" in (options.contenders or ())
    options.contenders = options.contenders or list(TOOLS)
    options.repetitions = 1 if options.quick else options.repetitions
    usual = Path(tempfile.gettempdir()) if options.quick else Path(__file__).parent / "results"
    name = "speed-classification-quick" if options.quick else "speed-classification"
    options.output = (options.results or usual) / f"{name}.md"
    options.raw = options.output.with_suffix(".jsonl")
    if not options.report_only:
        if options.data is None:
            parser.error("name the folder of the data by --data, or set EMBEDX_DATA to the folder that holds xc")
        missing = [file for files in FILES.values() for file in files if not (options.data / file).is_file()]
        if missing:
            parser.error(f"{options.data / missing[0]}: no such file")
    if options.quick and not options.resume and not options.report_only:
        options.raw.unlink(missing_ok=True)
    elif options.raw.exists() and not (options.resume or options.report_only):
        parser.error(f"{options.raw} holds records: --resume goes on from there, or delete it to start anew")
    return options

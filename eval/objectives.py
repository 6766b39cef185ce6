"""Which output layer makes the best word vectors, and which the likeliest text? All objectives side by side.

    python eval/objectives.py                        everything: about an hour and a half on two cores
    python eval/objectives.py --resume               goes on after an interruption; also where an objective's defaults changed
    python eval/objectives.py --parts time --objectives ns ar      some of it, anew; the newest of several runs counts
    python eval/objectives.py --quick                a few words for a few seconds: shows that it runs, measures nothing
    python eval/objectives.py --report-only          writes the page anew from the raw records
    python eval/objectives.py --publish              the same, and puts the scores into embedx and the README's table

Each run is `embedx train CORPUS --objective X` in a process of its own (`objectives_measure.py`), with the part's options and
nothing else typed, so that it has the defaults that a user gets. Those were tuned on the first 10 MB of the corpus by held-out
log-likelihood, MTurk-287 and RG-65, which are told in columns of their own. Raw records go to a file one by one
(`speed_records.py`); the page is `objectives_page.py`.
"""

import argparse
import datetime
import gzip
import hashlib
import importlib.metadata
import json
import os
import platform
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import objectives_page
import speed
from objectives_measure import Place, defaults, run
from speed import DEFAULT_CORPUS, facts_of, say, shown_command, sources_hash
from speed_records import Records

from embedx import objectives
from embedx.evaluation import words

Job = dict[str, Any]

PARTS = objectives_page.PARTS
MOST_WORDS = 5000  # of the part with the exact softmax
EXCERPT = 10_000_000  # bytes at the end of the corpus, for the same part; the first as many were tuned on
REFERENCE = objectives_page.REFERENCE
TUNED_ON = {"MTurk-287": "EN-MTurk-287.txt", "RG-65": "EN-RG-65.txt"}  # in the folder wordsim of the data
README = Path(__file__).parent.parent / "README.md"


# ---- the jobs


class Plan:
    """The jobs of each part, objectives in the order of the registry."""

    def __init__(self, options: argparse.Namespace, records: Records) -> None:
        self.options, self.records = options, records
        quick = options.quick
        threads, share = {"threads": options.threads}, {"heldout": "5%" if quick else "0.5%"}
        epochs = {"epochs": options.epochs}
        self.typed: dict[str, Job] = {
            "time": {"time_budget": f"{60 * options.minutes:g}s", **threads, **share},
            "epochs": {**epochs, **threads, **share},
            "exact": {**epochs, "max_vocab": 500 if quick else MOST_WORDS, **threads, "heldout": "5%" if quick else "2%"},
            "rows": {"epochs": 1, **threads},
        }

    def jobs(self, part: str) -> Iterator[Job]:
        """One after the other; each may depend on the records of those before it."""
        chosen = [name for name in objectives.OBJECTIVES if name in self.options.objectives]
        if part == "rows":
            names = dict.fromkeys([REFERENCE, *chosen])
            for name in names:
                if not objectives_page.meets_all_rows(name):
                    yield self.job(part, name, {} if name == REFERENCE else self.rows_of_reference(name))
            return
        for name in chosen:
            if part == "exact" or not objectives_page.meets_all_rows(name):
                yield self.job(part, name, {})

    def job(self, part: str, objective: str, more: Job) -> Job:
        return {"part": part, "objective": objective, "options": self.typed[part] | more, "defaults": defaults(objective)}

    def rows_of_reference(self, objective: str) -> Job:
        """Options that make an objective meet as many drawn rows as the reference did, as often shared."""
        if "negatives" not in objectives.find(objective).Settings().record():
            return {}
        reference = self.records.find(part="rows", objective=REFERENCE)[-1]["result"]["settings"]
        return {name: reference[name] for name in ("negatives", "share", "draws")}


def measure_all(options: argparse.Namespace, folder: Path) -> None:
    """Run what was asked for, each record kept at once."""
    say(f"preparing {options.corpus.name}")
    records = Records(options.raw, environment_of(prepare(options.corpus, folder, options.quick)))
    plan, place, warm, began = Plan(options, records), Place(folder, tests(options.data)), set[str](), time.monotonic()
    for part in options.parts:
        for job in plan.jobs(part):
            if options.resume and records.have(job):
                continue
            name = job["objective"]
            if name not in warm:  # compilation would count as memory
                run(name, {"epochs": 1, "threads": 1}, "tiny", place)
                warm.add(name)
            passed = datetime.timedelta(seconds=round(time.monotonic() - began))
            say(f"[{passed} passed] {part}: {name}")
            sources = sources_hash()
            records.add(job, run(name, job["options"], "excerpt" if part == "exact" else "text", place), sources)


def prepare(corpus: Path, folder: Path, quick: bool) -> dict[str, Any]:
    """The corpus unpacked, its end, and a little of it; what is to be known of it."""
    opened = gzip.open if corpus.suffix == ".gz" else open
    with opened(corpus, "rb") as source:
        text = source.read(2_000_000 if quick else -1)
    end = text[-min(EXCERPT, len(text)) :]
    for name, part in {"text": text, "excerpt": end[end.find(b" ") + 1 :], "tiny": text[:100_000]}.items():
        (folder / name).write_bytes(part)
    return {"name": corpus.name, "quick": quick, **facts_of(folder / "text")}


def tests(data: Path | None) -> list[words.Test]:
    """What is reported on, then what was tuned on if the data hold it."""
    found = words.default_tests()
    for name, file in TUNED_ON.items():
        if data is not None and (path := data / "wordsim" / file).is_file():
            found.append(words.read_pairs(path, name))
        else:
            say(f"{name} is left out: --data names no folder with wordsim/{file}")
    return found


def environment_of(corpus: dict[str, Any]) -> dict[str, Any]:
    """Machine, versions and corpus. Records of another environment are not mixed with these."""
    versions = {"Python": platform.python_version()}
    versions |= {package: importlib.metadata.version(package) for package in ("embedx", "numpy", "numba", "gensim")}
    found = {"corpus": corpus, "machine": speed.machine(), "versions": versions}
    identity = hashlib.sha256(json.dumps(found, sort_keys=True).encode()).hexdigest()[:12]
    return found | {"id": identity, "command": shown_command("eval/objectives.py")}


# ---- publishing


def published(records: Records) -> dict[str, Any]:
    """What embedx tells of its objectives: the numbers of the part at equal epochs."""
    runs = objectives_page.newest(records, "epochs")
    corpus, machine = (records.environment[name] for name in ("corpus", "machine"))
    finished = objectives_page.finished(runs)
    if not finished or corpus["quick"]:
        raise SystemExit(f"{records.path}: nothing of the part `epochs` to publish; measure it first, without --quick")
    found: dict[str, Any] = {}
    for name, record in runs.items():
        result = record["result"]
        if "diverged" in result:
            found[name] = {"diverged": True}
            continue
        scores = result["scores"]
        found[name] = {
            "log_likelihood": round(result["heldout"]["log_likelihood"], 4), "wordsim": round(scores["WordSim-353"], 4),
            "analogies": round(scores["Google analogies"], 4), "words_per_second": result["words_per_second"],
        }  # fmt: skip
    first = next(iter(finished.values()))
    options = first["job"]["options"]
    about = {
        "corpus": corpus["name"], "words": corpus["words"], "machine": machine["cpu"],
        **{name: options[name] for name in ("threads", "epochs", "heldout")},
        "unigram": round(first["result"]["heldout"]["unigram"], 4), "date": max(run["ended"] for run in runs.values())[:10],
    }  # fmt: skip
    return {"about": about, "objectives": found}


def publish(records: Records) -> None:
    """Write the packaged scores, and the README's table anew."""
    objectives.MEASURED_FILE.write_text(json.dumps(published(records), indent=1) + "\n", "utf-8")
    marks = r"(<!-- table of objectives -->\n).*?(\n<!-- end of the table -->)"
    text = re.sub(marks, lambda m: m[1] + objectives.markdown_table() + m[2], README.read_text("utf-8"), flags=re.DOTALL)
    README.write_text(text, "utf-8")
    print(objectives.MEASURED_FILE, README, sep="\n")


# ---- the command


def main() -> None:
    options = parsed()
    if not (options.report_only or options.publish):
        with tempfile.TemporaryDirectory(prefix="embedx-objectives-") as folder:
            try:
                measure_all(options, Path(folder))
            except KeyboardInterrupt:
                raise SystemExit("interrupted; --resume goes on from here, --report-only shows what there is") from None
    records = Records(options.raw)
    options.output.parent.mkdir(parents=True, exist_ok=True)
    picture = objectives_page.plot(records, options.output.with_suffix(".png"))
    if not picture:
        say("no picture: matplotlib is not installed (pip install embedx[plots]), or too little was measured")
    options.output.write_text(objectives_page.page(records, picture), "utf-8")
    print(options.output)
    if options.publish:
        publish(records)


def parsed(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--corpus", type=Path, help=f"text, plain or .gz; by default {DEFAULT_CORPUS} in the data")
    parser.add_argument("--data", type=Path, help="by default $EMBEDX_DATA")
    parser.add_argument("--parts", nargs="+", choices=PARTS, default=list(PARTS), help="all by default")
    parser.add_argument("--objectives", nargs="+", choices=objectives.OBJECTIVES, default=list(objectives.OBJECTIVES))
    parser.add_argument("--minutes", type=float, default=2, help="of training in the part time (2)")
    parser.add_argument("--epochs", type=int, default=5, help="in the parts epochs and exact (5)")
    parser.add_argument("--threads", type=int, default=2, help="of each run (2)")
    parser.add_argument("--quick", action="store_true", help="2 MB, 3 seconds, 1 epoch; to the temporary folder")
    parser.add_argument("--output", type=Path, help="the page (eval/results/objectives.md); a .png goes beside it")
    parser.add_argument("--raw", type=Path, help="the raw records (by default beside the page, .jsonl)")
    parser.add_argument("--resume", action="store_true", help="measure only what is not on record with these very settings")
    parser.add_argument("--report-only", action="store_true", help="measure nothing, write the page from the raw file")
    parser.add_argument("--publish", action="store_true", help="and the scores that `embedx objectives` and the README tell")
    options = parser.parse_args(arguments)
    usual = Path(tempfile.gettempdir()) if options.quick else Path(__file__).parent / "results"
    options.output = options.output or usual / ("objectives-quick.md" if options.quick else "objectives.md")
    options.raw = options.raw or options.output.with_suffix(".jsonl")
    if options.quick:
        options.minutes, options.epochs = 0.05, 1
    if options.data is None and os.environ.get("EMBEDX_DATA"):
        options.data = Path(os.environ["EMBEDX_DATA"])
    if options.report_only or options.publish:
        return options
    if options.quick and not options.resume:
        options.raw.unlink(missing_ok=True)
    if options.corpus is None and options.data is None:
        parser.error("name a --corpus, or set EMBEDX_DATA to the folder that holds " + DEFAULT_CORPUS)
    options.corpus = options.corpus or options.data / DEFAULT_CORPUS
    if not options.corpus.is_file():
        parser.error(f"{options.corpus}: no such file")
    return options


if __name__ == "__main__":
    main()

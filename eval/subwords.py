"""Are vectors of character n-grams as good as fastText's, for rare and unseen words too, and how fast are they trained?

Sections: `quality`, five epochs on the first megabytes of the text, so that many words are rare and many of the word pairs' are
not in the vocabulary; `speed`, one epoch of the whole text. Both tools with and without n-grams of 3 to 6 characters, at their
defaults for the rest but for what SETTINGS makes equal; fastText's learning rate is the better of two. Every measurement is a
process of its own (`subwords_process.py`), and the tools take turns.
"""

import statistics as median_of
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from eval import corpus, word_tests
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, number, table, thousands
from eval.records import Job, Records, Result
from eval.under_test import statistics

SETTINGS: Job = {"dim": 100, "window": 5, "sample": 1e-4, "min_count": 5, "negatives": 5, "threads": 2}
NGRAMS = ((3, 6), None)  # characters, fastText's default; none
RATES = (0.05, 0.1)  # of fastText, whose default for skip-gram is the first
TOOLS = ("embedx", "fasttext")
TITLES = {"embedx": "embedx", "fasttext": "fastText"}
GROUPS = {  # pairs by how often the rarer of their words occurs in the text
    "seen": "both words in the vocabulary", "rare": "of these, the rarer one seen less than 50 times",
    "unseen": "a word outside the vocabulary", "all": "all",
}  # fmt: skip


def jobs(run: Run) -> Iterator[Job]:
    own, sections = run.settings, run.chosen("section")
    tools = [tool for tool in run.chosen("tool") if tool != "fasttext" or run.need("fastText", "fasttext")]
    if "quality" in sections:
        common = {"kind": "quality", "file": "beginning", "epochs": own.epochs, **SETTINGS}
        for seed in range(1, int(own.seeds) + 1):
            for tool in tools:
                for ngrams in NGRAMS:
                    yield from trained(run.records, common | {"tool": tool, "ngrams": ngrams, "seed": seed})
    if "speed" in sections:
        common = {"kind": "speed", "file": "lines", "epochs": 1, "alpha": RATES[0], **SETTINGS}
        for seed in range(1, int(own.repetitions) + 1):
            yield from (common | {"tool": tool, "ngrams": ngrams, "seed": seed} for tool in tools for ngrams in NGRAMS)


def trained(records: Records, job: Job) -> Iterator[Job]:
    """A run to be scored: of fastText with the first seed at each rate, with the others at the better one."""
    if job["tool"] == "embedx":
        yield job
    elif job["seed"] == 1:
        yield from (job | {"alpha": rate} for rate in RATES)
    else:
        yield job | {"alpha": better_rate(records, job["ngrams"])}


def better_rate(records: Records, ngrams: tuple[int, int] | None) -> float:
    """That with the higher similarity of all pairs that can be scored, with the first seed."""

    def similarity(rate: float) -> float:
        found = results(records, kind="quality", tool="fasttext", ngrams=ngrams, alpha=rate, seed=1)
        return float(found[-1]["groups"]["seen"]["score"]) if found else -np.inf

    return max(RATES, key=similarity)


def prepare(run: Run) -> dict[str, Any]:
    """The text in lines, which fastText reads, and its first megabytes."""
    about = corpus.unpacked(run)
    lines, beginning = run.folder / "lines", run.folder / "beginning"
    corpus.write_lines(Path(run.files["text"]), lines)
    with lines.open("rb") as source, beginning.open("wb") as out:
        out.write(source.read(int(run.settings.megabytes * 1e6)).rpartition(b"\n")[0] + b"\n")
    run.files |= {"lines": str(lines), "beginning": str(beginning)}
    if run.has_data:
        run.files["data"] = str(run.data)
    about["beginning"] = corpus.facts_of(beginning)
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    return in_process("eval.subwords_process", job, run.files | {"lines": run.files[job["file"]]})


# ---- tables


def results(records: Records, **job: Any) -> list[Result]:
    """Of jobs that have all of these settings; n-grams come back from the records as a list."""
    ngrams = job.pop("ngrams")
    wanted = list(ngrams) if ngrams else None
    return [each["result"] for each in records.succeeded(**job) if (list(each["job"]["ngrams"] or ()) or None) == wanted]


def contenders(records: Records) -> Iterator[tuple[str, dict[str, Any]]]:
    for ngrams in NGRAMS:
        for tool in TOOLS:
            rate = {"alpha": better_rate(records, ngrams)} if tool == "fasttext" else {}
            yield titled(tool, ngrams), {"kind": "quality", "tool": tool, "ngrams": ngrams, **rate}


def titled(tool: str, ngrams: tuple[int, int] | None) -> str:
    return f"{TITLES[tool]}, {f'n-grams of {ngrams[0]} to {ngrams[1]}' if ngrams else 'words alone'}"


def quality(records: Records) -> str:
    """The pooled similarity of each group of pairs, and the difference to fastText with n-grams."""
    rows, reference = [], titled("fasttext", NGRAMS[0])
    for group, about in GROUPS.items():
        runs = {}
        for name, job in contenders(records):
            scored = [each["groups"][group] for each in results(records, **job) if group in each["groups"]]
            if scored:
                runs[name] = [word_tests.score_of(each) for each in scored]
        for name, standing in statistics.standings(runs, reference).items():
            behind = standing.behind
            rows.append({
                "pairs": about, "number": f"{standing.items:,}", "vectors": name, "runs": str(len(runs[name])),
                "similarity": f"{standing.score.value:.3f} ± {standing.score.error:.3f}",
                "minus fastText's, n-grams": f"{behind.value:+.3f} ± {behind.error:.3f}" if behind else DASH,
            })  # fmt: skip
    return table(rows)


def speed(records: Records) -> str:
    """Medians over the runs."""
    rows, words = [], records.environment.get("corpus", {}).get("words", 0)
    for ngrams in NGRAMS:
        of = {tool: results(records, kind="speed", tool=tool, ngrams=ngrams) for tool in TOOLS}
        total = {tool: median_of.median(each["total"] for each in found) for tool, found in of.items() if found}
        for tool, seconds in total.items():
            training = median_of.median(each["training"] for each in of[tool])
            lead = total["fasttext"] / seconds if tool != "fasttext" and "fasttext" in total else None
            rows.append({
                "vectors": titled(tool, ngrams), "runs": str(len(of[tool])), "reading and training, s": number(seconds, 1),
                "training, s": number(training, 1), "words/s": thousands(words / seconds),
                "words/s in training": thousands(words / training), "times fastText's": number(lead, 1),
            })  # fmt: skip
    return table(rows)


def rates(records: Records) -> str:
    """fastText's similarity at each rate, with the first seed."""
    rows = []
    for ngrams in NGRAMS:
        for rate in RATES:
            for found in results(records, kind="quality", tool="fasttext", ngrams=ngrams, alpha=rate, seed=1):
                groups = found["groups"]
                rows.append({"vectors": titled("fasttext", ngrams), "rate": f"{rate:g}"} | {
                    about: number(groups[group]["score"] if group in groups else None) for group, about in GROUPS.items()
                })  # fmt: skip
    return table(rows)


EXPERIMENT = Experiment(
    name="subwords",
    title="Vectors of character n-grams beside fastText's",
    choices={"section": ("quality", "speed"), "tool": TOOLS},
    jobs=jobs, measure=measure, prepare=prepare,
    tables={"quality": quality, "rates": rates, "speed": speed}, plots={},
    settings={"corpus": None, "megabytes": 10.0, "epochs": 5, "seeds": 3, "repetitions": 3},
    quick={"megabytes": 1.0, "epochs": 1, "seeds": 1, "repetitions": 1}, packages=("fasttext",),
)  # fmt: skip

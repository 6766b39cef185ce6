"""Are vectors of character n-grams as good as fastText's, for rare and unseen words too, and how
fast are they trained?

Sections: `quality`, five epochs on the first megabytes of the text, so that many words are rare and
many of the word pairs' are not in the vocabulary; `speed`, one epoch of the whole text. Both tools
with and without n-grams of 3 to 6 characters, at their defaults for the rest but for what SETTINGS
makes equal; fastText's learning rate is the better of two. Every measurement is a process of its
own, and the tools take turns.
"""

import collections
import dataclasses
import statistics as median_of
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from embedx import load
from embedx.evaluation import statistics, word_sets, words
from eval import corpus, word_tests
from eval.experiment import Experiment, Run, in_process
from eval.page import DASH, number, table, thousands
from eval.records import Job, Records, Result
from eval.speed_process import fasttext_model, run_embedx

SETTINGS: Job = {
    "dim": 100,
    "window": 5,
    "sample": 1e-4,
    "min_count": 5,
    "negatives": 5,
    "threads": 2,
}
NGRAMS = ((3, 6), None)  # characters, fastText's default; none
RARE = 50  # a word that occurs less often is rare
RATES = (0.05, 0.1)  # of fastText, whose default for skip-gram is the first
TOOLS = ("embedx", "fasttext")
TITLES = {"embedx": "embedx", "fasttext": "fastText"}
GROUPS = {  # pairs by how often the rarer of their words occurs in the text
    "seen": "both words in the vocabulary",
    "rare": f"of these, the rarer one seen less than {RARE} times",
    "unseen": "a word outside the vocabulary",
    "all": "all",
}


def jobs(run: Run) -> Iterator[Job]:
    settings = run.settings
    sections = run.chosen("section")
    tools = [
        tool
        for tool in run.chosen("tool")
        if tool != "fasttext" or run.need("fastText", "fasttext")
    ]
    if "quality" in sections:
        common = {"kind": "quality", "file": "beginning", "epochs": settings.epochs, **SETTINGS}
        for seed in range(1, int(settings.seeds) + 1):
            for tool in tools:
                for ngrams in NGRAMS:
                    yield from trained(
                        run.records, common | {"tool": tool, "ngrams": ngrams, "seed": seed}
                    )
    if "speed" in sections:
        common = {"kind": "speed", "file": "lines", "epochs": 1, "alpha": RATES[0], **SETTINGS}
        for seed in range(1, int(settings.repetitions) + 1):
            yield from (
                common | {"tool": tool, "ngrams": ngrams, "seed": seed}
                for tool in tools
                for ngrams in NGRAMS
            )


def trained(records: Records, job: Job) -> Iterator[Job]:
    """A run to be scored: of fastText with the first seed at each rate, with the others at the
    better one.
    """
    if job["tool"] == "embedx":
        yield job
    elif job["seed"] == 1:
        yield from (job | {"alpha": rate} for rate in RATES)
    else:
        yield job | {"alpha": better_rate(records, job["ngrams"])}


def better_rate(records: Records, ngrams: tuple[int, int] | None) -> float:
    """That with the higher similarity of all pairs that can be scored, with the first seed."""

    def similarity(rate: float) -> float:
        runs = results(records, kind="quality", tool="fasttext", ngrams=ngrams, alpha=rate, seed=1)
        return float(runs[-1]["groups"]["seen"]["score"]) if runs else -np.inf

    return max(RATES, key=similarity)


def prepare(run: Run) -> dict[str, Any]:
    """The text in lines, which fastText reads, and its first megabytes."""
    about = corpus.unpacked(run)
    lines = run.folder / "lines"
    corpus.write_lines(Path(run.files["text"]), lines)
    run.files["lines"] = str(lines)
    about["beginning"] = corpus.beginning(run, lines, b"\n", run.settings.megabytes)
    return {"corpus": about}


def measure(run: Run, job: Job) -> Result:
    function = {"quality": "score_pairs", "speed": "take_time"}[job["kind"]]
    return in_process("eval.subwords", function, job, run.files | {"lines": run.files[job["file"]]})


# ---- in a process of its own


def score_pairs(job: Job, files: dict[str, str]) -> Result:
    """The pooled similarity of each group of word pairs."""
    with tempfile.TemporaryDirectory() as scratch:
        vectors = vectors_of(job, files, Path(scratch))
        tests = word_tests.tests(files.get("data"))
        pairs = [test for test in tests if isinstance(test, word_sets.SimilarityPairs)]
        answers = words.score_items(vectors, pairs, oov=True)
    counts = collections.Counter(Path(files["lines"]).read_text().upper().split())
    by_group = grouped(answers, counts, job["min_count"], with_unseen=bool(job["ngrams"]))
    groups = {name: word_tests.pooled(chosen) for name, chosen in by_group.items()}
    return {"groups": {name: answers["pooled"] for name, answers in groups.items() if answers}}


def grouped(
    answers: list[Any], counts: collections.Counter[str], min_count: int, with_unseen: bool
) -> dict[str, list[Any]]:
    """What was made of the pairs of each group, the others left out; `counts` are of words in upper
    case. With n-grams a pair that a model says nothing of counts as unrelated, so that all models
    are scored on the same pairs.
    """
    by_group: dict[str, list[Any]] = {}
    for answers_of_test in answers:
        rarer = np.array(
            [min(counts[word.upper()] for word in pair) for pair in answers_of_test.test.words]
        )
        chosen = {"seen": rarer >= min_count, "rare": (rarer >= min_count) & (rarer < RARE)}
        if with_unseen:
            chosen |= {"unseen": rarer < min_count, "all": np.ones(len(rarer), bool)}
        values = np.nan_to_num(answers_of_test.values) if with_unseen else answers_of_test.values
        for name, is_in in chosen.items():
            by_group.setdefault(name, []).append(
                dataclasses.replace(answers_of_test, values=np.where(is_in, values, np.nan))
            )
    return by_group


def vectors_of(job: Job, files: dict[str, str], scratch: Path) -> Any:
    """Word vectors, with their n-grams; fastText's through its own file."""
    if job["tool"] == "embedx":
        return run_embedx(with_options(job), files["lines"], scratch)[0]
    fasttext_model(job, files, job["epochs"])[0].save_model(str(scratch / "model.bin"))
    return load(str(scratch / "model.bin"))


def with_options(job: Job) -> Job:
    return job | {"options": {"subwords": "{}-{}".format(*job["ngrams"])} if job["ngrams"] else {}}


def take_time(job: Job, files: dict[str, str]) -> Result:
    """Seconds of reading and training together, and of training alone; of fastText by a second call
    without an epoch.
    """
    if job["tool"] == "fasttext":
        total, before = (fasttext_model(job, files, epochs)[1] for epochs in (job["epochs"], 0))
        return {"total": total, "training": total - before}
    with tempfile.TemporaryDirectory() as scratch:
        start = time.perf_counter()
        _, watch = run_embedx(with_options(job), files["lines"], Path(scratch))
        total = time.perf_counter() - start
    started, ended = watch.stages["training"]
    return {"total": total, "training": ended - started}


# ---- tables


def results(records: Records, **job: Any) -> list[Result]:
    """Results of jobs with all of these settings; n-grams come back from the records as a list."""
    ngrams = job.pop("ngrams")
    ngram_list = list(ngrams) if ngrams else None
    return [
        record["result"]
        for record in records.succeeded(**job)
        if (list(record["job"]["ngrams"] or ()) or None) == ngram_list
    ]


def contenders(records: Records) -> Iterator[tuple[str, dict[str, Any]]]:
    for ngrams in NGRAMS:
        for tool in TOOLS:
            rate = {"alpha": better_rate(records, ngrams)} if tool == "fasttext" else {}
            yield titled(tool, ngrams), {"kind": "quality", "tool": tool, "ngrams": ngrams, **rate}


def titled(tool: str, ngrams: tuple[int, int] | None) -> str:
    return (
        f"{TITLES[tool]}, {f'n-grams of {ngrams[0]} to {ngrams[1]}' if ngrams else 'words alone'}"
    )


def quality(records: Records) -> str:
    """The pooled similarity of each group of pairs, and the difference to fastText with n-grams."""
    rows = []
    reference = titled("fasttext", NGRAMS[0])
    for group, about in GROUPS.items():
        runs = {}
        for name, job in contenders(records):
            scored = [
                result["groups"][group]
                for result in results(records, **job)
                if group in result["groups"]
            ]
            if scored:
                runs[name] = [word_tests.score_of(answers) for answers in scored]
        for name, standing in statistics.standings(runs, reference).items():
            behind = standing.behind
            rows.append(
                {
                    "pairs": about,
                    "number": f"{standing.items:,}",
                    "vectors": name,
                    "runs": str(len(runs[name])),
                    "similarity": f"{standing.score.value:.3f} ± {standing.score.error:.3f}",
                    "minus fastText's, n-grams": (
                        f"{behind.value:+.3f} ± {behind.error:.3f}" if behind else DASH
                    ),
                }
            )
    return table(rows)


def speed(records: Records) -> str:
    """Medians over the runs."""
    rows = []
    n_words = records.environment.get("corpus", {}).get("words", 0)
    for ngrams in NGRAMS:
        runs_of = {tool: results(records, kind="speed", tool=tool, ngrams=ngrams) for tool in TOOLS}
        total = {
            tool: median_of.median(times["total"] for times in runs)
            for tool, runs in runs_of.items()
            if runs
        }
        for tool, seconds in total.items():
            training = median_of.median(times["training"] for times in runs_of[tool])
            lead = (
                total["fasttext"] / seconds if tool != "fasttext" and "fasttext" in total else None
            )
            rows.append(
                {
                    "vectors": titled(tool, ngrams),
                    "runs": str(len(runs_of[tool])),
                    "reading and training, s": number(seconds, 1),
                    "training, s": number(training, 1),
                    "words/s": thousands(n_words / seconds),
                    "words/s in training": thousands(n_words / training),
                    "times fastText's": number(lead, 1),
                }
            )
    return table(rows)


def rates(records: Records) -> str:
    """fastText's similarity at each rate, with the first seed."""
    rows = []
    for ngrams in NGRAMS:
        for rate in RATES:
            for result in results(
                records, kind="quality", tool="fasttext", ngrams=ngrams, alpha=rate, seed=1
            ):
                groups = result["groups"]
                rows.append(
                    {"vectors": titled("fasttext", ngrams), "rate": f"{rate:g}"}
                    | {
                        about: number(groups[group]["score"] if group in groups else None)
                        for group, about in GROUPS.items()
                    }
                )
    return table(rows)


EXPERIMENT = Experiment(
    name="subwords",
    title="Vectors of character n-grams beside fastText's",
    choices={"section": ("quality", "speed"), "tool": TOOLS},
    jobs=jobs,
    measure=measure,
    prepare=prepare,
    tables={"quality": quality, "rates": rates, "speed": speed},
    plots={},
    settings={"corpus": None, "megabytes": 10.0, "epochs": 5, "seeds": 3, "repetitions": 3},
    quick={"megabytes": 1.0, "epochs": 1, "seeds": 1, "repetitions": 1},
    packages=("fasttext",),
)

"""Intervals of cosines: how often do they hold the cosine by a model with another seed?

    first   the first megabytes of Wikipedia
    last    its last megabytes

Words are drawn by how often they occur, a group after another. The cosines of each to its nearest
words, and to random frequent words, have intervals by the model of the first seed; those by models
of other seeds are within them or not.
"""

import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

import embedx
from embedx.vectors.model import WordVectors
from embedx.vectors.uncertainty import INTERVAL, Uncertainty
from eval import corpus
from eval.experiment import Experiment, Run
from eval.page import number, table
from eval.records import Job, Records, Result

TEXTS = ("first", "last")
OBJECTIVES = ("ns", "ar")
PAIRS = ("nearest", "random")
# The least and the largest number of occurrences of a group's words.
GROUPS = {
    "5 to 9": (5, 9),
    "10 to 19": (10, 19),
    "20 to 99": (20, 99),
    "100 and more": (100, 10**9),
}
N_WORDS = 100
N_OTHERS = 10
N_FREQUENT = 3_000
FULL = {"corpus": None, "megabytes": 5, "dim": 50, "epochs": 5, "seeds": 4}
QUICK = {"megabytes": 1, "epochs": 1, "seeds": 2}


def prepare(run: Run) -> dict[str, Any]:
    """The texts."""
    about = corpus.unpacked(run, pools_pairs=False)
    text = Path(run.files["text"]).read_bytes()
    n = int(run.settings.megabytes * 1_000_000)
    for name, part in zip(TEXTS, (text[:n], text[-n:]), strict=True):
        file = run.folder / name
        file.write_bytes(part)
        run.files[name] = str(file)
    return {"corpus": about}


def jobs(run: Run) -> Iterator[Job]:
    for text in run.chosen("text"):
        for objective in run.chosen("objective"):
            yield {"text": text, "objective": objective}


def measure(run: Run, job: Job) -> Result:
    models = [
        embedx.train(
            run.files[job["text"]],
            objective=job["objective"],
            dim=run.settings.dim,
            epochs=run.settings.epochs,
            seed=seed,
            threads=1,
            output=str(run.folder / f"{job['text']}-{job['objective']}-{seed}"),
        )
        for seed in range(1, run.settings.seeds + 1)
    ]
    first, *others = models
    uncertainty = Uncertainty(first)
    rng = np.random.default_rng(0)
    frequent = first.words[:N_FREQUENT]
    result: dict[str, Any] = {}
    for group, (low, high) in GROUPS.items():
        rows = np.flatnonzero((low <= first.counts) & (first.counts <= high))
        words = [first.words[row] for row in rng.permutation(rows)[:N_WORDS]]
        near = [[name for name, _ in first.most_similar(word, top_k=N_OTHERS)] for word in words]
        random = [rng.choice(frequent, N_OTHERS, replace=False).tolist() for _ in words]
        result[group] = {
            "nearest": held(uncertainty, others, words, near),
            "random": held(uncertainty, others, words, random),
        }
    return result


def held(
    uncertainty: Uncertainty,
    others: list[WordVectors],
    words: list[str],
    compared: list[list[str]],
) -> dict[str, float]:
    """The share of cosines by other models within the intervals, the half of these, and by how much
    the cosines differ on average.
    """
    bounds = []
    gaps = []
    for word, names in zip(words, compared, strict=True):
        bounds.append(INTERVAL * uncertainty.of_cosines(word, names))
        cosine = cosines(uncertainty.vectors, word, names)
        gaps.append([cosines(other, word, names) - cosine for other in others])
    bound = np.array(bounds)[:, None]
    gap = np.array(gaps)
    return {
        "held": float((np.abs(gap) <= bound).mean()),
        "bound": float(bound.mean()),
        "gap": float(gap.mean()),
    }


def cosines(vectors: WordVectors, word: str, names: list[str]) -> np.ndarray:
    """The cosines of a word to others."""
    units = [vectors.get_vector(name, norm=True) for name in (word, *names)]
    return np.array(units[1:]) @ units[0]


def results(records: Records) -> str:
    rows = []
    for objective in OBJECTIVES:
        results = [record["result"] for record in records.find(objective=objective)]
        for pairs in PAIRS:
            for group in GROUPS:
                measured = [result[group][pairs] for result in results]
                if measured:
                    row = {"objective": f"`{objective}`", "pairs": pairs, "occurrences": group}
                    rows.append(row | line(measured))
    return table(rows)


def line(measured: list[dict[str, float]]) -> dict[str, str]:
    """Means over the texts, and the shares of both."""
    return {
        "held": number(statistics.fmean(one["held"] for one in measured)),
        "on each text": ", ".join(number(one["held"]) for one in measured),
        "interval": f"± {number(statistics.fmean(one['bound'] for one in measured))}",
        "mean change": number(statistics.fmean(one["gap"] for one in measured)),
    }


EXPERIMENT = Experiment(
    name="word-intervals",
    title="Intervals of cosines, and other seeds",
    choices={"text": TEXTS, "objective": OBJECTIVES},
    jobs=jobs,
    measure=measure,
    tables={"results": results},
    plots={},
    settings=FULL,
    quick=QUICK,
    prepare=prepare,
    mixed=True,
)

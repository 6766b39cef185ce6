"""Related words: cosines beside the associations of people, and beside gensim.

Pairs of words are chosen, and their relatedness is computed, from free associations (Nelson, McEvoy
& Schreiber 1998): the words that 5,018 cues first call to mind. As in De Deyne, Navarro, Perfors &
Storms 2016, a walk along them goes on with probability ALPHA,

    G = Σ_k (ALPHA A)^k      A: the associations of both directions, each row with the sum 1

and two words are as related as the cosine of the rows of positive pointwise mutual information of
G. Half of the pairs are a word and one of those related most to it, half are random. No trainer
had a part in this, and no text.
"""

import collections
import itertools
import statistics
from collections.abc import Container, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy import float32, ndarray
from scipy.sparse import csr_matrix

import embedx
from embedx.evaluation import word_sets, words
from embedx.vectors.model import WordVectors
from eval import corpus, speed_process, word_tests
from eval.experiment import Experiment, Run, stop
from eval.page import number, table
from eval.records import Job, Records, Result

TOOLS = ("embedx", "gensim")
SIZES = ("10", "30")  # megabytes
VARIANTS = ("as trained", "centred")  # the vectors of embedx
RATES = ("0.05", "0.075", "0.1")  # of gensim
SETTINGS = {"dim": 100, "window": 5, "negatives": 5, "sample": 1e-4, "min_count": 5, "epochs": 5}
ALPHA = 0.75
STEPS = 6
# Words of the pairs: not the most frequent ones, which are function words, nor too rare ones.
FIRST_RANK = 150
MIN_COUNT = 15
MIN_LETTERS = 3
MAX_RANK_OF_NEIGHBOUR = 300
# The ranks of a group's words by frequency, and its number of pairs.
GROUPS = {
    "all": (FIRST_RANK, 10**6, 8_000),
    "frequent": (FIRST_RANK, 2_000, 6_000),
    "middle": (2_000, 5_000, 6_000),
    "rarer": (5_000, 10**6, 6_000),
}
# Sets of people's judgements of relatedness, together weighted by their pairs.
RELATED = ("WordSim-353", "MTurk-287", "RG-65")
SIMILAR = "SimLex-999"
FULL = {"corpus": None, "associations": None, "seeds": 3}
QUICK = {"seeds": 1}
QUICK_WORDS = 300
QUICK_PAIRS = 200


class Associations(NamedTuple):
    """The words of free associations, and their relatedness, float32 (n, n)."""

    words: list[str]
    relatedness: ndarray


# ---- the pairs


def strengths_in(folder: Path) -> dict[tuple[str, str], float]:
    """The share of people whom each cue brought to each target, from the files of appendix A:
    lines `CUE, TARGET, NORMED?, #G, #P, ...`.
    """
    strengths: dict[tuple[str, str], float] = {}
    for file in sorted(folder.iterdir()):
        for line in file.read_text("latin-1").splitlines():
            fields = [field.strip() for field in line.split(",")]
            if len(fields) > 4 and fields[3].isdigit() and fields[4].isdigit():
                cue = fields[0].lower()
                target = fields[1].lower()
                strengths[cue, target] = int(fields[4]) / int(fields[3])
    if not strengths:
        stop(f"{folder}: no files of associations; name their folder by --set associations=DIR")
    return strengths


def associations(strengths: dict[tuple[str, str], float], words: Container[str]) -> Associations:
    """Relatedness of the wanted words by walks along the associations of all."""
    names = sorted({name for pair in strengths for name in pair})
    row_of = {name: row for row, name in enumerate(names)}
    cues = [row_of[cue] for cue, _ in strengths]
    targets = [row_of[target] for _, target in strengths]
    shape = (len(names), len(names))
    one_way = csr_matrix((np.array([*strengths.values()], float32), (cues, targets)), shape)
    both = one_way + one_way.T
    backwards = csr_matrix(both.multiply(ALPHA / both.sum(axis=1))).T
    walk = np.eye(len(names), dtype=float32)
    total = walk.copy()
    for _ in range(STEPS):
        walk = (backwards @ walk.T).T
        total += walk
    share = total.sum(axis=0) / total.sum()
    rows = [row for row, name in enumerate(names) if name in words]
    ratio = total[rows] / total[rows].sum(axis=1, keepdims=True) / share
    information = np.log(np.maximum(ratio, 1))
    information /= np.maximum(np.linalg.norm(information, axis=1, keepdims=True), 1e-9)
    return Associations([names[row] for row in rows], information @ information.T)


def pairs_of(
    known: Associations, rank: dict[str, int], group: str, n_pairs: int
) -> list[tuple[str, str, float]]:
    """Pairs of a group's words with their relatedness, half of them of neighbours, whose ranks are
    drawn log-uniformly.
    """
    first, last, _ = GROUPS[group]
    rows = [row for row, name in enumerate(known.words) if first <= rank.get(name, -1) < last]
    relatedness = known.relatedness[np.ix_(rows, rows)].copy()
    np.fill_diagonal(relatedness, -np.inf)
    nearest = np.argsort(-relatedness, axis=1)
    rng = np.random.default_rng([*GROUPS].index(group))
    pairs = set()
    while len(pairs) < n_pairs // 2:
        a, b = rng.choice(len(rows), 2, replace=False).tolist()
        pairs.add((min(a, b), max(a, b)))
    max_log_rank = np.log(min(MAX_RANK_OF_NEIGHBOUR, len(rows) - 1))
    while len(pairs) < n_pairs:
        a = int(rng.integers(len(rows)))
        b = int(nearest[a, int(np.exp(rng.uniform(0, max_log_rank))) - 1])
        pairs.add((min(a, b), max(a, b)))
    names = [known.words[row] for row in rows]
    return [(names[a], names[b], float(relatedness[a, b])) for a, b in sorted(pairs)]


def prepare(run: Run) -> dict[str, Any]:
    """The texts, each also in lines, and the pairs, whose words are ranked in the smallest text."""
    about = corpus.unpacked(run)
    text = Path(run.files["text"])
    for size in SIZES:
        corpus.beginning(run, text, b" ", float(size))
        beginning = Path(run.files["beginning"]).rename(run.folder / f"text {size}")
        corpus.write_lines(beginning, run.folder / f"lines {size}")
        run.files[f"text {size}"] = str(beginning)
        run.files[f"lines {size}"] = str(run.folder / f"lines {size}")
    tokens = Path(run.files[f"text {SIZES[0]}"]).read_text("utf-8").split()
    counts = collections.Counter(tokens)
    if run.settings.associations:
        strengths = strengths_in(Path(run.settings.associations))
    elif run.quick:
        strengths = dict.fromkeys(itertools.pairwise(tokens[:QUICK_WORDS]), 1.0)
    else:
        stop("name a folder with appendix A of Nelson et al. 1998 by --set associations=DIR")
    rank = {
        name: place
        for place, (name, count) in enumerate(counts.most_common())
        if count >= MIN_COUNT and len(name) >= MIN_LETTERS
    }
    known = associations(strengths, rank)
    for group in ("all",) if run.quick else GROUPS:
        n_pairs = QUICK_PAIRS if run.quick else GROUPS[group][2]
        lines = [f"{a}\t{b}\t{gold}\n" for a, b, gold in pairs_of(known, rank, group, n_pairs)]
        file = run.folder / f"{group}.tsv"
        file.write_text("".join(lines), "utf-8")
        run.files[group] = str(file)
    return {"corpus": about}


# ---- measuring


def jobs(run: Run) -> Iterator[Job]:
    for size in run.chosen("megabytes"):
        for seed in range(1, run.settings.seeds + 1):
            for tool in run.chosen("tool"):
                for rate in run.chosen("rate") if tool == "gensim" else (None,):
                    yield {"tool": tool, "megabytes": size, "rate": rate, "seed": seed}


def measure(run: Run, job: Job) -> Result:
    """The scores of a model by its vectors; of embedx also those of before they were centred."""
    files = {form: run.files[f"{form} {job['megabytes']}"] for form in ("text", "lines")}
    if job["tool"] == "gensim":
        rate = float(job["rate"])
        details = {"feed": "LineSentence", "threads": 1, "alpha": rate, "seed": job["seed"]}
        vectors = speed_process.train_gensim(SETTINGS | details, files, run.folder).vectors
        return {"gensim": scores(run, vectors)}
    model = embedx.SkipGram(threads=1, seed=job["seed"]).fit(files["text"]).model
    settings = {name: model.settings[name] for name in ("optimizer", "learning_rate")}
    variants = dict(zip(VARIANTS, (as_trained(model), model), strict=True))
    return {"settings": settings} | {
        name: scores(run, variant) for name, variant in variants.items()
    }


def as_trained(model: WordVectors) -> WordVectors:
    """The vectors before they were centred: the biases are the scores of their mean."""
    mean, *_ = np.linalg.lstsq(model.arrays["output"], model.arrays["bias"])
    return WordVectors(model.words, {"input": model.vectors + mean})


def scores(run: Run, vectors: WordVectors) -> dict[str, float]:
    """Spearman correlations with associations, by group, and with people's judgements."""
    sets = [word_sets.read_pairs(Path(run.files[name])) for name in GROUPS if name in run.files]
    judged = word_tests.tests(run.files.get("data"))
    sets += [test for test in judged if test.name in (*RELATED, SIMILAR)]
    set_scores = words.score_items(vectors, sets)
    return {
        set_score.test.name: round(set_score.score, 5)
        for set_score in set_scores
        if set_score.used.any()
    }


# ---- the page


def related(result: dict[str, float]) -> float:
    """The sets of judgements of relatedness together."""
    n_pairs = [int(name.rpartition("-")[2]) for name in RELATED]
    return float(np.average([result[name] for name in RELATED], weights=n_pairs))


def results(records: Records) -> str:
    """Means over the seeds, with their standard errors."""
    rows = []
    for size in SIZES:
        for rate in RATES:
            runs = records.find(tool="gensim", megabytes=size, rate=rate)
            rows += row(
                f"gensim, rate {rate}", size, [record["result"]["gensim"] for record in runs]
            )
        runs = records.find(tool="embedx", megabytes=size)
        for name in VARIANTS:
            rows += row(f"embedx, {name}", size, [record["result"][name] for record in runs])
    return table(rows)


def row(vectors: str, size: str, results: list[dict[str, float]]) -> list[dict[str, str]]:
    """The scores of some runs; no row without any."""
    if not results:
        return []
    names = [name for name in (*GROUPS, SIMILAR) if name in results[0]]
    values = {name: [result[name] for result in results] for name in names}
    if set(RELATED) <= results[0].keys():
        values["related"] = [related(result) for result in results]
    about = {"text": f"{size} MB", "vectors": vectors, "seeds": str(len(results))}
    return [about | {name: shown(several) for name, several in values.items()}]


def shown(values: list[float]) -> str:
    """A mean with its standard error; without one for a single value."""
    mean = number(statistics.fmean(values))
    if len(values) < 2:
        return mean
    return f"{mean} ± {number(statistics.stdev(values) / len(values) ** 0.5)}"


EXPERIMENT = Experiment(
    name="related",
    title="Related words, by people's associations",
    choices={"tool": TOOLS, "megabytes": SIZES, "rate": RATES},
    jobs=jobs,
    measure=measure,
    tables={"results": results},
    plots={},
    settings=FULL,
    quick=QUICK,
    packages=("gensim",),
    prepare=prepare,
    mixed=True,
)
